/* test_guards.c - what guards the launches of a GPU: LDS, threads, grids, alignment, table limits, overflow
   SPDX-License-Identifier: MIT

   The planner's own guards are not asked here. A launch is held against a second source: LDS of kernels from
   tests/lds.h, limits of devices from the table below. Nothing runs, so no GPU is needed. */
#include "lds.h"
#include "problem.h"

typedef struct device_row {
    const char *arch;
    int column;    /* of lds.h */
    int32_t lds;   /* bytes of a block, from the vendors' tables */
    int32_t units; /* has matrix units */
} device_row;

static const device_row device_rows[] = {
    {"sm_70", 0, 98304, 0},   {"sm_75", 0, 65536, 0},   {"sm_80", 0, 166912, 1},  {"sm_86", 0, 101376, 1},
    {"sm_87", 0, 166912, 1},  {"sm_89", 0, 101376, 1},  {"sm_90", 0, 232448, 1},  {"sm_100", 0, 232448, 1},
    {"sm_120", 0, 101376, 1}, {"sm_121", 0, 101376, 1}, {"gfx906", 1, 65536, 0},  {"gfx908", 1, 65536, 1},
    {"gfx90a", 1, 65536, 1},  {"gfx942", 1, 65536, 1},  {"gfx950", 1, 163840, 1}, {"gfx1030", 2, 65536, 0},
    {"gfx1100", 2, 65536, 1}, {"gfx1201", 3, 65536, 1},
};
#define DEVICES ((int)(sizeof device_rows / sizeof device_rows[0]))
enum { MADE_UP = 3 }; /* a device with its LDS, with 49152 bytes (the least), with 65536 */

static ckconv_device make_device(int row, int kind)
{
    ckconv_device d;
    ckconv_error err;
    CHECK_OK(ckconv_device_named(device_rows[row].arch, &d, &err), err);
    d.lds_bytes = kind == 1 ? 49152 : kind == 2 ? 65536 : d.lds_bytes;
    return d;
}

static void test_device_rows(void)
{
    for (int i = 0; i < DEVICES; i++) {
        const ckconv_device d = make_device(i, 0);
        CHECK_MSG(d.lds_bytes == device_rows[i].lds, "%s: %d bytes of LDS, %d by the vendor", d.arch,
                  (int)d.lds_bytes, (int)device_rows[i].lds);
    }
}

/*------------------------------------------------------------------------------------------------------------
  launches
*/
enum { ROOM = 400 };
static ckconv_launch launches[ROOM];
static unsigned char launched[2][LDS_ROWS]; /* on AMD, on NVIDIA */

/* Made-up addresses; low: what is added to each. */
static ckconv_args made_up(const ckconv_plan *plan, uintptr_t low)
{
    const uintptr_t far = (uintptr_t)1 << 52;
    ckconv_args a;
    memset(&a, 0, sizeof a);
    const ckconv_op op = plan->op;
    if (op == CKCONV_GROUPNORM_FWD || op == CKCONV_GROUPNORM_BWD) {
        a.in = (const void *)(far + low);
        a.gamma = (const void *)(2 * far);
        a.beta = (const void *)(3 * far);
        a.out = op == CKCONV_GROUPNORM_FWD ? (void *)(4 * far + low) : NULL;
        if (op == CKCONV_GROUPNORM_BWD) {
            a.saved_mean = (const void *)(9 * far);
            a.saved_inv_std = (const void *)(10 * far);
            a.dout = (const void *)(4 * far + low);
            a.din = (void *)(5 * far + low);
            a.dgamma = (void *)(6 * far);
            a.dbeta = (void *)(7 * far);
        }
        return a;
    }
    a.in = op == CKCONV_BWD_DATA ? NULL : (const void *)(far + low);
    a.din = op == CKCONV_BWD_DATA ? (void *)(far + low) : NULL;
    a.wei = op == CKCONV_BWD_WEIGHT ? NULL : (const void *)(2 * far + low);
    a.dwei = op == CKCONV_BWD_WEIGHT ? (void *)(2 * far + low) : NULL;
    a.dout = op == CKCONV_BWD_WEIGHT || op == CKCONV_BWD_DATA ? (const void *)(3 * far + low) : NULL;
    a.out = op == CKCONV_FWD || op == CKCONV_CONV_CONV_FWD ? (void *)(3 * far + low) : NULL;
    a.wei1 = op == CKCONV_CONV_CONV_FWD ? (const void *)(4 * far + low) : NULL;
    a.dbias = op == CKCONV_BWD_WEIGHT && plan->u.conv.dbias != 0 ? (void *)(5 * far) : NULL;
    return a;
}

static int32_t list(const ckconv_plan *plan, uintptr_t low, ckconv_status *status, ckconv_error *err)
{
    const ckconv_args a = made_up(plan, low);
    int32_t count = 0;
    *status = ckconv_plan_launches(plan, &a, (void *)((uintptr_t)8 << 52), (size_t)plan->workspace_bytes,
                                   launches, ROOM, &count, err);
    return count < ROOM ? count : ROOM;
}

/* Does the device take the launches that a plan makes? pair_strips asks for what its channels need. */
static void check_launches(const ckconv_plan *plan, const device_row *row)
{
    ckconv_status status;
    ckconv_error err;
    const ckconv_device *device = &plan->device;
    const int nvidia = device->kind == CKCONV_DEVICE_NVIDIA;
    const int32_t count = list(plan, 0, &status, &err);
    test.plan = plan;
    CHECK_MSG(status == CKCONV_OK && count == plan->launches, "%s, %d bytes of LDS: %d launches of %d: %s",
              row->arch, (int)device->lds_bytes, (int)count, (int)plan->launches, err.text);
    for (int32_t i = 0; i < count; i++) {
        const ckconv_launch *l = &launches[i];
        int at = 0;
        while (at < LDS_ROWS && strcmp(l->kernel + strlen("ckconv_k_"), lds_rows[at].kernel) != 0) {
            at++;
        }
        if (!CHECK_MSG(at < LDS_ROWS, "%s is not in tests/lds.h", l->kernel)) {
            continue;
        }
        launched[nvidia][at] = 1;
        const int some = strstr(l->kernel, "pair_strips") != NULL;
        CHECK_MSG(some || lds_rows[at].bytes[row->column] <= device->lds_bytes,
                  "%s has %d bytes of LDS, %s has %d", l->kernel, (int)lds_rows[at].bytes[row->column],
                  row->arch, (int)device->lds_bytes);
        CHECK_MSG(l->grid > 0 && l->grid <= INT32_MAX && l->block >= 32 && l->block <= 1024 &&
                      (nvidia || l->grid * l->block <= UINT32_MAX),
                  "%s on %s: %lld blocks of %d threads", l->kernel, row->arch, (long long)l->grid,
                  (int)l->block);
        CHECK_MSG(l->cluster >= 1 && l->cluster <= 8 &&
                      (l->cluster == 1 || (nvidia && device->lds_bytes > 110000)),
                  "%s on %s: clusters of %d blocks", l->kernel, row->arch, (int)l->cluster);
    }
    test.plan = NULL;
}

/* By the planner's choice and by each instance of a GPU. */
static void check_problem(const problem *p, int row, int kind)
{
    const ckconv_device device = make_device(row, kind);
    ckconv_plan plan, base;
    ckconv_error err;
    ckconv_options o;
    memset(&o, 0, sizeof o);
    o.engine = CKCONV_ENGINE_GPU;
    if (!CHECK_MSG(plan_problem(&base, p, &o, &device, &err) == CKCONV_OK, "%s, %s: %s", device.arch,
                   op_name(p->op), err.text)) {
        return;
    }
    check_launches(&base, &device_rows[row]);
    for (int32_t i = 0; i < ckconv_instance_count(); i++) {
        if (ckconv_instance_engine(i) == CKCONV_ENGINE_GPU && ckconv_instance_does(i, p->op) &&
            i != base.instance) {
            o.instance = ckconv_instance_name(i);
            if (plan_problem(&plan, p, &o, &device, &err) == CKCONV_OK) {
                check_launches(&plan, &device_rows[row]);
            }
        }
    }
}

/* g, n, k, c, filter, input, stride, dimensions. Small and large channels, depthwise of each size, near,
   stem, narrow, patches, rows. */
static const int64_t conv_rows[][8] = {
    {1, 8, 256, 256, 3, 28, 1, 2}, {1, 2, 64, 64, 1, 16, 1, 2},  {1, 8, 32, 128, 3, 14, 1, 2},
    {1, 64, 96, 24, 3, 14, 2, 2},  {1, 8, 64, 3, 7, 64, 2, 2},   {1, 8, 96, 3, 4, 64, 4, 2},
    {32, 2, 4, 4, 3, 28, 1, 2},    {32, 4, 16, 16, 3, 14, 1, 2}, {8, 2, 32, 32, 3, 14, 2, 2},
    {16, 2, 8, 8, 3, 12, 1, 3},    {64, 4, 1, 1, 3, 28, 1, 2},   {64, 4, 1, 1, 5, 28, 1, 2},
    {64, 4, 1, 1, 7, 28, 1, 2},    {64, 4, 1, 1, 3, 28, 2, 2},   {96, 4, 1, 1, 5, 14, 2, 2},
    {64, 2, 1, 1, 3, 12, 1, 3},    {64, 4, 1, 1, 11, 500, 1, 1}, {64, 2, 1, 1, 31, 32, 1, 2},
    {1, 1, 4, 256, 3, 64, 1, 2},   {3, 3, 5, 7, 3, 9, 2, 2},     {1, 64, 512, 512, 1, 1, 1, 1},
    {1, 256, 12, 4, 3, 40, 1, 1},  {40, 2, 1, 1, 9, 1000, 1, 1}, {1, 1, 1024, 512, 1, 4, 1, 2},
    {64, 4, 1, 1, 5, 7, 1, 2},     {61, 4, 1, 1, 3, 15, 1, 2},   {61, 4, 1, 1, 3, 15, 2, 2},
    {61, 4, 1, 1, 5, 15, 3, 2},    {64, 4, 1, 1, 5, 15, 3, 2},   {8, 2, 16, 16, 5, 14, 1, 2},
    {8, 2, 32, 32, 3, 14, 1, 2},   {8, 2, 32, 32, 3, 8, 1, 3},   {64, 4, 1, 1, 5, 28, 2, 2},
    {64, 4, 1, 1, 3, 64, 1, 2},    {2, 4, 1, 1, 5, 40, 1, 2},    {2, 4, 1, 1, 3, 40, 1, 2},
    {64, 4, 1, 1, 3, 14, 1, 2},    {8, 4, 16, 16, 3, 14, 2, 2},  {8, 2, 1, 1, 5, 4000, 1, 2},
};
enum { CONVS = (int)(sizeof conv_rows / sizeof conv_rows[0]) };

static problem make_conv(const int64_t *row, ckconv_op op, ckconv_dtype dtype, ckconv_layout layout)
{
    problem p;
    memset(&p, 0, sizeof p);
    p.op = op;
    test_layer(&p.u.conv, row[7], row[0], row[1], row[2], row[3]);
    for (int i = 0; i < row[7]; i++) {
        p.u.conv.filter[i] = row[4];
        p.u.conv.input[i] = row[5];
        p.u.conv.stride[i] = row[6];
        p.u.conv.pad_lo[i] = p.u.conv.pad_hi[i] = (row[4] - 1) / 2;
    }
    p.u.conv.in.dtype = dtype;
    p.u.conv.in.layout = p.u.conv.out.layout = layout;
    p.u.conv.wei.layout = layout == CKCONV_NGCHW ? CKCONV_GKCYX : CKCONV_GKYXC;
    return p;
}

static void test_convolutions(void)
{
    static const ckconv_dtype types[] = {CKCONV_F16, CKCONV_F32, CKCONV_I8, CKCONV_F64};
    for (int i = 0; i < CONVS * 3 * 4 * 2; i++) {
        const int conv = i / 24, type = i / 2 % 4;
        const ckconv_op op = (ckconv_op)(CKCONV_FWD + i / 8 % 3);
        problem p = make_conv(conv_rows[conv], op, types[type], i % 2 ? CKCONV_NGCHW : CKCONV_NHWGC);
        if (type == 1 && conv % 2 && conv_rows[conv][0] == 1) {
            p.u.conv.compute_in = p.u.conv.compute_wei = p.u.conv.compute_out = CKCONV_TF32;
        }
        if (op == CKCONV_BWD_WEIGHT && conv % 3 == 0) {
            p.u.conv.dbias = types[type] == CKCONV_F16 ? CKCONV_F32 : types[type];
            p.u.conv.dbias = types[type] == CKCONV_I8 ? CKCONV_I32 : p.u.conv.dbias;
        }
        for (int row = 0; row < DEVICES; row++) {
            for (int kind = 0; kind < MADE_UP; kind++) {
                /* all of f16 and f32; of i8 and f64 one in four */
                if (type < 2 ? (i + row + kind) % (TEST_ASAN ? 16 : 1) == 0 : (i / 2 + row + kind) % 4 == 0) {
                    check_problem(&p, row, kind);
                }
            }
        }
    }
}

static void test_pairs(void)
{
    static const int64_t rows[][6] = {
        {96, 1, 1, 3, 56, 128}, {1, 64, 64, 1, 28, 64}, {1, 64, 64, 1, 28, 256}, {256, 1, 1, 3, 14, 256},
        {32, 1, 1, 5, 20, 16},  {3, 5, 7, 3, 9, 11},    {512, 1, 1, 3, 14, 512}};
    static const ckconv_dtype types[] = {CKCONV_F16, CKCONV_BF16, CKCONV_F32, CKCONV_I8, CKCONV_F64};
    for (int i = 0; i < 7 * 5; i++) {
        const int64_t *r = rows[i / 5];
        problem p;
        memset(&p, 0, sizeof p);
        p.op = CKCONV_CONV_CONV_FWD;
        ckconv_conv_conv_desc *d = &p.u.pair;
        test_layer(&d->conv0, 2, r[0], 4, r[1], r[2]);
        for (int j = 0; j < 2; j++) {
            d->conv0.filter[j] = r[3];
            d->conv0.input[j] = r[4];
            d->conv0.pad_lo[j] = d->conv0.pad_hi[j] = r[3] / 2;
        }
        d->conv0.in.dtype = types[i % 5];
        d->k1 = r[5];
        for (int at = 0; at < DEVICES * MADE_UP; at++) {
            check_problem(&p, at / MADE_UP, at % MADE_UP);
        }
    }
}

static void test_norms(void)
{
    static const int64_t rows[][4] = {{32, 8, 8, 784}, {32, 2, 10, 4096},  {1, 16, 256, 1},  {64, 4, 1, 900},
                                      {3, 2, 5, 7},    {32, 1, 64, 16384}, {32, 64, 10, 256}};
    static const ckconv_dtype types[] = {CKCONV_F16, CKCONV_F32, CKCONV_F64};
    for (int i = 0; i < 7 * 3 * 2 * 2; i++) {
        const int64_t *r = rows[i / 12];
        problem p;
        memset(&p, 0, sizeof p);
        p.op = i % 2 ? CKCONV_GROUPNORM_BWD : CKCONV_GROUPNORM_FWD;
        p.u.norm.ndim = 1;
        p.u.norm.g = r[0];
        p.u.norm.n = r[1];
        p.u.norm.c = r[2];
        p.u.norm.input[0] = r[3];
        p.u.norm.eps = 1e-5;
        p.u.norm.in.dtype = types[i / 4 % 3];
        p.u.norm.in.layout = i / 2 % 2 ? CKCONV_NGCHW : CKCONV_NHWGC;
        for (int at = 0; at < DEVICES * MADE_UP; at++) {
            check_problem(&p, at / MADE_UP, at % MADE_UP);
        }
    }
}

/* Kernels of transforms have no plan; all others are launched by something here: their LDS is seen. */
static void test_all_launched(void)
{
    for (int i = 0; i < LDS_ROWS; i++) {
        CHECK_MSG(launched[0][i] || launched[1][i] || strncmp(lds_rows[i].kernel, "move", 4) == 0,
                  "nothing here launches ckconv_k_%s", lds_rows[i].kernel);
    }
}

int main(void)
{
    test_begin("test_guards");
    test_device_rows();
    test_convolutions();
    test_pairs();
    test_norms();
    test_all_launched();
    return test_end();
}
