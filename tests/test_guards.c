/* test_guards.c - what guards the launches of a GPU: LDS, threads, grids, alignment, table limits, overflow
   SPDX-License-Identifier: MIT

   The planner's own guards are not asked here. A launch is held against a second source: LDS of kernels from
   tests/lds.h, limits of devices from the table below. Nothing runs, so no GPU is needed. */
#include "lds.h"
#include "problem.h"

/* Of launches: what kernels are told. Rooms hold two functions that the library has, too. */
#define ckconv_from_double test_from_double
#define ckconv_to_double test_to_double
#include "gpu/args.h"
#undef ckconv_from_double
#undef ckconv_to_double

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
    {"gfx90a", 1, 65536, 1},  {"gfx942", 1, 65536, 1},  {"gfx950", 4, 163840, 1}, {"gfx1030", 2, 65536, 0},
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
   stem, narrow, patches, rows, one tap with strides, few positions. */
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
    {1, 8, 40, 160, 1, 28, 1, 2},  {1, 8, 576, 96, 1, 14, 1, 2}, {1, 8, 96, 16, 1, 28, 1, 2},
    {1, 8, 256, 128, 1, 28, 2, 2}, {1, 2, 256, 16, 3, 8, 1, 2},
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
    static const int64_t rows[][4] = {{32, 8, 8, 784}, {32, 2, 10, 4096},  {1, 16, 256, 1},   {64, 4, 1, 900},
                                      {3, 2, 5, 7},    {32, 1, 64, 16384}, {32, 64, 10, 256}, {32, 8, 8, 49}};
    static const ckconv_dtype types[] = {CKCONV_F16, CKCONV_F32, CKCONV_F64};
    for (int i = 0; i < 8 * 3 * 2 * 2; i++) {
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

/*------------------------------------------------------------------------------------------------------------
  alignment
*/

/* Do `bytes` bytes of t lie whole and aligned wherever the other axes point? */
static int pieces_fit(const ckci_tensor *t, int dim, int64_t bytes)
{
    const int64_t size = (int64_t)test_size(t->dtype);
    int fits = (uintptr_t)t->p % (uintptr_t)bytes == 0 && (t->stride[dim] == 1 || t->len[dim] == 1);
    for (int i = 0; i < 6; i++) {
        fits = fits && (i == dim || t->len[i] <= 1 || t->stride[i] * size % bytes == 0);
    }
    return fits;
}

/* Channels first: the positions of an image as one dimension, 5. */
static ckci_tensor as_planes(ckci_tensor t)
{
    t.len[5] = t.len[3] * t.len[4] * t.len[5];
    t.len[3] = t.len[4] = 1;
    t.stride[5] = 1;
    return t;
}

/* Four neighbours, 16 bytes at most. */
static int fours_fit(const ckci_tensor *t, int dim)
{
    const int64_t size = (int64_t)test_size(t->dtype);
    return pieces_fit(t, dim, 4 * size) || (size == 8 && pieces_fit(t, dim, 16));
}

static int starts(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

static int tile_kernel(const char *name)
{
    return starts(name, "matrix_") && !starts(name, "matrix_near") && !starts(name, "matrix_stem");
}

/* Do positions lie within 2^31 elements of each other? */
static int near_enough(const ckci_tensor *t)
{
    double reach = 0;
    for (int i = 3; i < 6; i++) {
        reach += (double)(t->len[i] - 1) * (double)t->stride[i];
    }
    return reach < 2147483648.0;
}

/* Bytes that the axes from `from` to `to` reach over. */
static double reach_of(const ckci_tensor *t, int from, int to)
{
    double reach = 0;
    for (int i = from; i <= to; i++) {
        reach += t->len[i] > 1 ? (double)(t->len[i] - 1) * (double)t->stride[i] : 0;
    }
    return reach * (double)test_size(t->dtype);
}

/* Kernels whose offsets have 31 bits: in an image, in the weights of a tile, in a whole tensor. */
static const char *too_far(const char *name, const ckconv_launch *l)
{
    const double most = 2147483648.0;
    if (l->arg_bytes == (int32_t)sizeof(ckci_gpu_conv) && tile_kernel(name)) {
        ckci_gpu_conv k;
        memcpy(&k, l->arg, sizeof k);
        if (reach_of(&k.a, 3, 5) >= most) {
            return "a within an image";
        }
        if (strstr(name, "weight") != NULL ? reach_of(&k.b, 3, 5) >= most : reach_of(&k.b, 2, 5) >= most) {
            return "b of a tile";
        }
    } else if (l->arg_bytes == (int32_t)sizeof(ckci_gpu_depth)) {
        ckci_gpu_depth k;
        memcpy(&k, l->arg, sizeof k);
        const int weight = strstr(name, "weight") != NULL;
        if (strstr(name, "sum") != NULL) {
            return NULL;
        }
        if (strstr(name, "walk") != NULL || strstr(name, "down") != NULL || strstr(name, "deep") != NULL ||
            strstr(name, "column") != NULL) {
            if (reach_of(&k.a, 0, 5) >= most || reach_of(weight ? &k.b : &k.o.t, 0, 5) >= most) {
                return "a tensor";
            }
        }
        if (k.a.len[5] > 1 && (double)k.a.stride[5] * (double)test_size(k.a.dtype) >= most) {
            return "a window";
        }
    }
    return NULL;
}

/* What a launch says of vectors must be true of the tensors that it names. Returns what is not, or NULL. */
static const char *wrong_vectors(const char *name, const ckconv_launch *l)
{
    if (too_far(name, l) != NULL) {
        return too_far(name, l);
    }
    if (l->arg_bytes == (int32_t)sizeof(ckci_gpu_conv)) {
        ckci_gpu_conv k;
        memcpy(&k, l->arg, sizeof k);
        const int weight = strstr(name, "weight") != NULL || starts(name, "reduce");
        const int gather = starts(name, "gather_") && strstr(name, "reduce") == NULL;
        if (tile_kernel(name) && strstr(name, "double") == NULL) {
            if (starts(name, "matrix_planes")) { /* fours of positions, or eights */
                const ckci_tensor plane = as_planes(k.a);
                return pieces_fit(&plane, 5, k.as.point.eights ? 16 : 8) ? NULL : "a of planes";
            }
            if (!pieces_fit(&k.a, 2, 16)) {
                return "a of a matrix kernel";
            }
            if (!pieces_fit(&k.b, strstr(name, "back") != NULL ? 2 : k.b.stride[2] == 1 ? 2 : 1, 16)) {
                return "b of a matrix kernel";
            }
            const int planes = k.o.across == CKCI_ACROSS_PLANES; /* eight positions are one store */
            const ckci_tensor o = planes ? as_planes(k.o.t) : k.o.t;
            const int eights = !planes || o.len[5] % 8 == 0;
            if (k.o_vec && !weight && !(eights && pieces_fit(&o, planes ? 5 : 2, 16))) {
                return "o of a matrix kernel";
            }
        }
        if (starts(name, "matrix_near") &&
            (!pieces_fit(&k.a, 2, 16) || (k.o_vec && !pieces_fit(&k.o.t, 2, 16)))) {
            return "a or o of near";
        }
        if ((gather || starts(name, "weight_") || starts(name, "direct_")) &&
            ((k.a_narrow && !near_enough(&k.a)) ||
             (k.b_narrow && strstr(name, "weight") != NULL && !near_enough(&k.b)))) {
            return "offsets of 32 bits";
        }
        if ((gather || starts(name, "weight_")) && k.a_vec && !fours_fit(&k.a, 2) && !fours_fit(&k.a, 5)) {
            return "a_vec";
        }
        if (gather && k.b_vec && !fours_fit(&k.b, 2) && !fours_fit(&k.b, 1)) {
            return "b_vec";
        }
        if ((starts(name, "tile_gather") && strstr(name, "any") == NULL && !fours_fit(&k.a, 2)) ||
            (starts(name, "tile_gather") && k.o_vec && k.split <= 1 && !fours_fit(&k.o.t, 2)) ||
            (starts(name, "tile_weight") && strstr(name, "any") == NULL &&
             (!fours_fit(&k.a, 2) || !fours_fit(&k.b, 2))) ||
            ((starts(name, "narrow") || starts(name, "grouped")) && !fours_fit(&k.a, 2))) {
            return "an FMA tile";
        }
    } else if (l->arg_bytes == (int32_t)sizeof(ckci_gpu_depth)) {
        ckci_gpu_depth k;
        memcpy(&k, l->arg, sizeof k);
        const int weight = strstr(name, "weight") != NULL;
        if (strstr(name, "_4_") != NULL && (!fours_fit(&k.a, 0) || (weight && !fours_fit(&k.b, 0)))) {
            return "loads of four channels";
        }
        if (strstr(name, "_down_") != NULL && k.a_vec > 0 && !pieces_fit(weight ? &k.b : &k.a, 0, k.a_vec)) {
            return "pieces of rows";
        }
        if (strstr(name, "_row") != NULL && k.a_vec && !fours_fit(weight ? &k.b : &k.a, 5)) {
            return "windows of a row";
        }
    } else if (l->arg_bytes == (int32_t)sizeof(ckci_gpu_norm)) {
        ckci_gpu_norm k;
        memcpy(&k, l->arg, sizeof k);
        const int dim = k.along_x ? 5 : 2;
        for (int i = 0; i < 3 && k.aligned; i++) {
            ckci_tensor t = i == 0 ? k.x : i == 1 ? k.y : k.dx;
            t.len[0] = dim == 2 && t.stride[0] == t.len[2] ? 1 : t.len[0]; /* groups without a gap are one */
            if (t.p != NULL && !pieces_fit(&t, dim, 16)) {
                return "eight numbers of a norm";
            }
        }
    } else if (l->arg_bytes == (int32_t)sizeof(ckci_gpu_bias)) {
        ckci_gpu_bias k;
        memcpy(&k, l->arg, sizeof k);
        if (k.vec > 1 && !pieces_fit(&k.t, k.along ? 5 : 2, k.vec * (int64_t)test_size(k.t.dtype))) {
            return "loads of dbias";
        }
    } else if (l->arg_bytes == (int32_t)sizeof(ckci_gpu_move) && starts(name, "move_copy")) {
        ckci_gpu_move k;
        memcpy(&k, l->arg, sizeof k);
        if ((uintptr_t)k.src % (uintptr_t)k.vec != 0 || (uintptr_t)k.dst % (uintptr_t)k.vec != 0) {
            return "a copy";
        }
    } else if (starts(name, "sample") || starts(name, "spread")) {
        ckci_gpu_sample k;
        memcpy(&k, l->arg, sizeof k);
        const int back = starts(name, "spread");
        const uintptr_t planes = (uintptr_t)k.piece, dense = planes / (k.halve ? 2 : 1);
        const uintptr_t from = back ? dense : planes, to = back ? planes : dense;
        int fits = (uintptr_t)k.src % from == 0 && (uintptr_t)k.dst % to == 0;
        for (int i = 0; i < k.dims; i++) {
            fits = fits && 2 * (uintptr_t)k.src_step[i] % from == 0 && 2 * (uintptr_t)k.dst_step[i] % to == 0;
        }
        if (!fits) {
            return "a piece of a sample";
        }
    } else if (starts(name, "im2col") || starts(name, "col2im")) {
        ckci_gpu_im2col k;
        memcpy(&k, l->arg, sizeof k);
        const int64_t size = test_size(k.t.dtype);
        if ((uintptr_t)k.rows % 16 != 0 || (starts(name, "im2col") && k.row * size % 16 != 0)) {
            return "a piece of a row";
        }
        if (k.vec && (k.t.stride[5] != 1 || k.input[2] % 8 != 0 || !pieces_fit(&k.t, 5, 8 * size))) {
            return "eight positions of din";
        }
    }
    return NULL;
}

static void check_vectors(const ckconv_plan *plan, uintptr_t low)
{
    ckconv_status status;
    ckconv_error err;
    const int32_t count = list(plan, low, &status, &err);
    test.plan = plan;
    snprintf(test.extra, sizeof test.extra, "pointers at %d modulo 16", (int)low);
    CHECK_MSG(status == CKCONV_OK, "%s: %s", plan->device.arch, err.text);
    for (int32_t i = 0; i < count && status == CKCONV_OK; i++) {
        const char *name = launches[i].kernel + strlen("ckconv_k_"),
                   *wrong = wrong_vectors(name, &launches[i]);
        CHECK_MSG(wrong == NULL, "%s on %s: %s is not aligned as it says", name, plan->device.arch,
                  wrong != NULL ? wrong : "");
    }
    test.extra[0] = 0;
    test.plan = NULL;
}

/* A layout with gaps: the strides of all axes but the dense one are multiples of `step`, and of no more. */
static void gap(ckconv_tensor *t, ckconv_layout layout, int32_t ndim, const int64_t *length, int64_t step)
{
    int64_t stride[6];
    int order[6], used = 0;
    test_layout_strides(layout, ndim, length, stride);
    for (int i = 0; i < 3 + ndim; i++) {
        int at = used++;
        for (; at > 0 && stride[order[at - 1]] > stride[i]; at--) {
            order[at] = order[at - 1];
        }
        order[at] = i;
    }
    int64_t next = 1;
    for (int i = 0; i < 3 + ndim; i++) {
        const int axis = order[i];
        stride[axis] = next;
        next *= length[axis] > 0 ? length[axis] : 1;
        if (length[axis] > 1) {
            next = (next + 2 * step - 1) / (2 * step) * (2 * step) + step;
        }
    }
    t->layout = CKCONV_STRIDED;
    memcpy(t->stride, stride, sizeof(int64_t) * (size_t)(3 + ndim));
}

static void test_alignment(void)
{
    static const char *const archs[] = {"gfx942", "gfx1100", "sm_90", "sm_86", "gfx906"};
    static const uintptr_t lows[] = {0, 8, 4, 2};
    static const int64_t steps[] = {0, 1, 2, 4, 8}; /* 0: dense */
    static const ckconv_dtype types[] = {CKCONV_F16, CKCONV_F32};
    static const int64_t rows[][8] = {
        {1, 8, 64, 64, 3, 16, 1, 2}, {1, 4, 256, 256, 1, 8, 1, 2}, {4, 2, 16, 16, 3, 16, 1, 2},
        {64, 2, 1, 1, 3, 16, 1, 2},  {64, 2, 1, 1, 5, 16, 2, 2},   {64, 2, 1, 1, 1, 32, 1, 1},
        {1, 8, 4, 64, 3, 16, 1, 2},  {32, 2, 4, 4, 3, 16, 1, 2},   {1, 8, 32, 32, 3, 8, 1, 3},
        {24, 1, 1, 1, 9, 320, 1, 1}, {1, 4, 64, 64, 1, 16, 2, 2},  {1, 1, 128, 16, 3, 8, 1, 2},
    };
    for (int i = 0; i < 12 * 3 * 2 * 2 * 5 * 5; i++) {
        const int step = i % 5, arch = i / 5 % 5, first = i / 25 % 2, type = i / 50 % 2;
        const ckconv_op op = (ckconv_op)(CKCONV_FWD + i / 100 % 3);
        const ckconv_layout layout = first ? CKCONV_NGCHW : CKCONV_NHWGC;
        problem p = make_conv(rows[i / 300], op, types[type], layout);
        ckconv_conv_desc *d = &p.u.conv;
        int64_t out[3] = {0, 0, 0};
        ckconv_device device;
        ckconv_plan base, plan;
        ckconv_error err;
        ckconv_options o;
        memset(&o, 0, sizeof o);
        d->dbias = op == CKCONV_BWD_WEIGHT ? CKCONV_F32 : (ckconv_dtype)0;
        CHECK_OK(ckconv_device_named(archs[arch], &device, &err), err);
        if (!CHECK_OK(ckconv_conv_output(d, out, &err), err)) {
            continue;
        }
        if (steps[step] > 0) {
            int64_t length[6] = {d->g, d->n, d->c, 1, 1, 1};
            memcpy(length + 3, d->input, sizeof d->input);
            gap(&d->in, layout, d->ndim, length, steps[step]);
            length[2] = d->k;
            memcpy(length + 3, out, sizeof out);
            gap(&d->out, layout, d->ndim, length, steps[step]);
            length[1] = d->k;
            length[2] = d->c;
            memcpy(length + 3, d->filter, sizeof d->filter);
            gap(&d->wei, d->wei.layout, d->ndim, length, steps[step]);
        }
        if (!CHECK_OK(plan_problem(&base, &p, &o, &device, &err), err)) {
            continue;
        }
        for (int32_t at = -1; at < ckconv_instance_count(); at++) {
            if (at >= 0 &&
                (ckconv_instance_engine(at) != CKCONV_ENGINE_GPU || !ckconv_instance_does(at, op))) {
                continue;
            }
            o.instance = at < 0 ? NULL : ckconv_instance_name(at);
            if (plan_problem(&plan, &p, &o, &device, &err) == CKCONV_OK) {
                for (int low = 0; low < 4; low++) {
                    if (lows[low] % test_size(types[type]) == 0) {
                        check_vectors(&plan, lows[low]);
                    }
                }
            }
        }
    }
}

/* Group norms with gaps between positions and with pointers in the middle of 16 bytes. */
static void test_norm_alignment(void)
{
    static const char *const archs[] = {"gfx942", "sm_90"};
    static const int64_t steps[] = {0, 1, 2, 4, 8};
    static const ckconv_dtype types[] = {CKCONV_F16, CKCONV_F32};
    static const int64_t sizes[][2] = {{4, 64}, {8, 64}, {4, 1024}, {8, 49}};
    for (int i = 0; i < 2 * 2 * 2 * 2 * 5 * 4; i++) {
        const int step = i % 5, first = i / 5 % 2, type = i / 10 % 2, arch = i / 20 % 2;
        const int64_t length[6] = {32, 4, sizes[i / 80][0], sizes[i / 80][1], 1, 1};
        ckconv_device device;
        ckconv_plan plan;
        ckconv_error err;
        ckconv_options o;
        problem p;
        memset(&p, 0, sizeof p);
        memset(&o, 0, sizeof o);
        p.op = i / 40 % 2 ? CKCONV_GROUPNORM_BWD : CKCONV_GROUPNORM_FWD;
        p.u.norm.ndim = 1;
        p.u.norm.g = length[0];
        p.u.norm.n = length[1];
        p.u.norm.c = length[2];
        p.u.norm.input[0] = length[3];
        p.u.norm.eps = 1e-5;
        ckconv_tensor *t[3] = {&p.u.norm.in, &p.u.norm.out, &p.u.norm.din};
        for (int j = 0; j < 3; j++) {
            t[j]->dtype = types[type];
            t[j]->layout = first ? CKCONV_NGCHW : CKCONV_NHWGC;
            if (steps[step] > 0 && first) {
                gap(t[j], CKCONV_NGCHW, 1, length, steps[step]);
            } else if (steps[step] > 0) { /* groups follow each other: between positions and images alone */
                const int64_t row = length[0] * length[2] + steps[step];
                const int64_t stride[4] = {length[2], row * length[3], 1, row};
                t[j]->layout = CKCONV_STRIDED;
                memcpy(t[j]->stride, stride, sizeof stride);
            }
        }
        CHECK_OK(ckconv_device_named(archs[arch], &device, &err), err);
        if (CHECK_OK(plan_problem(&plan, &p, &o, &device, &err), err)) {
            for (int low = 0; low < 16; low += 4) {
                check_vectors(&plan, (uintptr_t)low);
            }
        }
    }
}

/*------------------------------------------------------------------------------------------------------------
  limits of tables, overflow, products of 32 bits
*/

/* Filters at the limits of tiles: 128 taps, sizes along several axes (1 for one that is not there) whose sum
   is 31. */
static void test_taps(void)
{
    static const struct {
        int64_t ndim, filter[3];
        int fits;
    } rows[] = {
        {1, {127, 0, 0}, 1}, {1, {128, 0, 0}, 1}, {1, {129, 0, 0}, 0}, {1, {140, 0, 0}, 0},
        {2, {8, 16, 0}, 1},  {2, {16, 8, 0}, 1},  {2, {12, 11, 0}, 0}, {2, {10, 13, 0}, 0},
        {2, {27, 3, 0}, 1},  {2, {3, 27, 0}, 1},  {2, {28, 3, 0}, 0},  {2, {3, 28, 0}, 0},
        {3, {4, 4, 8}, 1},   {3, {2, 8, 8}, 1},   {3, {3, 5, 9}, 0},   {3, {5, 5, 5}, 1},
    };
    static const struct {
        const char *arch, *instance;
        ckconv_op op;
        ckconv_dtype dtype;
    } by[] = {
        {"gfx942", "gpu_mfma_fwd_128x128", CKCONV_FWD, CKCONV_F16},
        {"gfx1100", "gpu_wmma_fwd_64x64", CKCONV_FWD, CKCONV_BF16},
        {"sm_90", "gpu_mma_fwd_128x128", CKCONV_FWD, CKCONV_F16},
        {"sm_90", "gpu_mma_bwd_data_128x32", CKCONV_BWD_DATA, CKCONV_F16},
        {"gfx942", "gpu_mfma_bwd_data_64x64", CKCONV_BWD_DATA, CKCONV_F16},
        {"gfx942", "gpu_tile_fwd_64x64", CKCONV_FWD, CKCONV_F32},
        {"sm_80", "gpu_tile_bwd_data_256x64", CKCONV_BWD_DATA, CKCONV_F32},
    };
    for (int i = 0; i < 16 * 7; i++) {
        const int row = i % 16, way = i / 16;
        ckconv_conv_desc d;
        ckconv_device device;
        ckconv_plan plan;
        ckconv_error err;
        ckconv_options o;
        memset(&o, 0, sizeof o);
        test_layer(&d, rows[row].ndim, 1, 2, 64, 64);
        for (int j = 0; j < rows[row].ndim; j++) {
            d.filter[j] = rows[row].filter[j];
            d.input[j] = d.filter[j] + 20;
        }
        d.in.dtype = by[way].dtype;
        o.instance = by[way].instance;
        CHECK_OK(ckconv_device_named(by[way].arch, &device, &err), err);
        const ckconv_status status = ckconv_plan_conv(&plan, by[way].op, &d, &o, &device, &err);
        CHECK_MSG((status == CKCONV_OK) == rows[row].fits &&
                      (rows[row].fits || strstr(err.text, "taps") != NULL),
                  "%s, %lld x %lld x %lld taps: status %d, %s", by[way].instance, (long long)d.filter[0],
                  (long long)d.filter[1], (long long)d.filter[2], (int)status, err.text);
        if (status == CKCONV_OK) {
            check_vectors(&plan, 0);
        }
    }
}

/* Depthwise kernels with weights in a table: 14 planes of 3 x 3 are 126 taps, 15 are 135. */
static void test_depth_taps(void)
{
    static const char *const archs[] = {"gfx942", "sm_90"};
    for (int i = 0; i < 2 * 4; i++) {
        ckconv_conv_desc d;
        ckconv_device device;
        ckconv_plan plan;
        ckconv_error err;
        ckconv_status status;
        int walks = 0;
        test_layer(&d, 3, 3, 2, 1, 1);
        d.filter[0] = 12 + i / 2;
        d.filter[1] = d.filter[2] = 3;
        d.input[0] = 20;
        d.input[1] = d.input[2] = 24;
        d.pad_lo[1] = d.pad_lo[2] = d.pad_hi[1] = d.pad_hi[2] = 1;
        d.in.layout = d.out.layout = CKCONV_NGCHW;
        d.in.dtype = CKCONV_F32;
        CHECK_OK(ckconv_device_named(archs[i % 2], &device, &err), err);
        if (CHECK_OK(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, &device, &err), err)) {
            const int32_t count = list(&plan, 0, &status, &err);
            for (int32_t j = 0; j < count; j++) {
                walks += strstr(launches[j].kernel, "walk") != NULL;
            }
            CHECK_MSG((walks > 0) == (9 * d.filter[0] <= 128), "%lld taps on %s: %s",
                      (long long)d.filter[0] * 9, archs[i % 2], launches[0].kernel);
        }
    }
}

/* Spans of 2^62 bytes are the limit: by one axis, or by two that each stay below it. */
static void test_overflow(void)
{
    static const ckconv_dtype types[] = {CKCONV_F32, CKCONV_F16, CKCONV_F64, CKCONV_I8};
    for (int i = 0; i < 4 * 3 * 3 * 6; i++) {
        const int64_t size = (int64_t)test_size(types[i % 4]), most = ((int64_t)1 << 62) / size;
        const int which = i / 4 % 3, kind = i / 12 % 3, shift = i / 36;
        const ckconv_op op = which == 0 ? CKCONV_FWD : which == 1 ? CKCONV_BWD_WEIGHT : CKCONV_FWD;
        ckconv_conv_desc d;
        ckconv_plan plan;
        ckconv_error err;
        ckconv_options o;
        memset(&o, 0, sizeof o);
        o.engine = CKCONV_ENGINE_REF;
        test_layer(&d, 1, 3, 3, 3, 3);
        d.filter[0] = 3;
        d.input[0] = 5;
        d.in.dtype = types[i % 4];
        ckconv_tensor *t = which == 0 ? &d.in : which == 1 ? &d.wei : &d.out;
        d.out.layout = CKCONV_NHWGC;
        t->layout = CKCONV_STRIDED;
        /* three of the first axis, three of the second, 3 x 3 or 3 x 5 of the others: dense */
        t->stride[2] = 5;
        t->stride[3] = 1;
        /* first axis: 2 * stride[0]; kinds: as far as it can reach, one element more, both beyond 2^61 */
        const int64_t inner = 2 * 5 + (which == 0 ? 5 : 3) - 1;
        t->stride[1] = 15;
        t->stride[0] = (most - 1 - inner - 2 * 15) / 2 - (kind == 0 ? shift : 0);
        int fits = 1;
        if (kind == 1) { /* just past it */
            t->stride[0] += 1 + shift;
            fits = 0;
        } else if (kind == 2) { /* each axis fits, both do not: sums of 64 bits pass 2^63, or only 2^62 */
            t->stride[0] = ((int64_t)1 << 61) - shift * 1000;
            t->stride[1] = shift < 3 ? ((int64_t)1 << 61) - 1 - shift : (int64_t)1 << (61 - shift);
            fits = 0;
        }
        const ckconv_status status = ckconv_plan_conv(&plan, op, &d, &o, NULL, &err);
        CHECK_MSG(fits ? status == CKCONV_OK : status == CKCONV_ERR_OVERFLOW || status == CKCONV_ERR_ARGUMENT,
                  "tensor %d, strides %lld, %lld of %lld bytes: status %d, %s", which,
                  (long long)t->stride[0], (long long)t->stride[1], (long long)size, (int)status, err.text);
        CHECK_MSG(fits || kind == 1 || status == CKCONV_ERR_OVERFLOW, "tensor %d: status %d, %s", which,
                  (int)status, err.text);
    }
}

/* One axis whose steps pass 2^64, pads that pass 2^62 together. */
static void test_overflow_of_one(void)
{
    for (int i = 0; i < 3 * 3; i++) {
        const ckconv_op op = i % 3 == 1 ? CKCONV_BWD_WEIGHT : CKCONV_FWD;
        const int64_t far = (int64_t)1 << 62;
        ckconv_conv_desc d;
        ckconv_plan plan;
        ckconv_error err;
        ckconv_options o;
        memset(&o, 0, sizeof o);
        o.engine = CKCONV_ENGINE_REF;
        test_layer(&d, 1, 1, 5, 5, 3);
        d.filter[0] = 3;
        d.input[0] = 5;
        if (i / 3 == 0) { /* 4 * 2^62 */
            ckconv_tensor *t = i % 3 == 0 ? &d.in : i % 3 == 1 ? &d.wei : &d.out;
            d.out.layout = CKCONV_NHWGC;
            t->layout = CKCONV_STRIDED;
            t->stride[0] = t->stride[1] = far;
            t->stride[2] = 5;
            t->stride[3] = 1;
        } else {
            d.pad_lo[0] = i / 3 == 1 ? far - 5 : far / 2;
            d.pad_hi[0] = i / 3 == 1 ? far - i % 3 : far / 2 + i % 3;
        }
        const ckconv_status status = ckconv_plan_conv(&plan, op, &d, &o, NULL, &err);
        CHECK_MSG(status == CKCONV_ERR_OVERFLOW, "case %d: status %d, %s", i, (int)status, err.text);
    }
}

/* Names and grids of a plan's launches in one text; 0: there is no plan. */
static int signature(const problem *p, const ckconv_options *o, const ckconv_device *device, char *text,
                     size_t size)
{
    ckconv_plan plan;
    ckconv_error err;
    ckconv_status status;
    text[0] = 0;
    if (plan_problem(&plan, p, o, device, &err) != CKCONV_OK) {
        return 0;
    }
    const int32_t count = list(&plan, 0, &status, &err);
    size_t at = (size_t)snprintf(text, size, "split %d status %d", (int)plan.split_k, (int)status);
    for (int32_t i = 0; i < count && i < 4; i++) {
        const char *name = launches[i].kernel + strlen("ckconv_k_"),
                   *wrong = wrong_vectors(name, &launches[i]);
        CHECK_MSG(wrong == NULL, "%s: %s are not as it says", name, wrong != NULL ? wrong : "");
        at += (size_t)snprintf(text + at, size - at, ", %s %lld", launches[i].kernel,
                               (long long)launches[i].grid);
    }
    return 1;
}

/* A tensor with a stride of 2^32 elements and a little more, 2^33 and a little, 2^40 and a little: what
   one is planned or refused as, all are. A product of 32 bits would take them for small ones. */
static void test_far(void)
{
    static const char *const archs[] = {"gfx942", "sm_90", "gfx1030"};
    static const int64_t far[] = {((int64_t)1 << 36) + 64, ((int64_t)1 << 32) + 64, ((int64_t)1 << 33) + 128,
                                  ((int64_t)1 << 40) + 64};
    static const int64_t rows[][8] = {
        {2, 2, 64, 64, 3, 8, 1, 2}, {2, 2, 256, 64, 1, 8, 1, 2}, {2, 2, 16, 16, 3, 8, 1, 3},
        {2, 2, 1, 1, 3, 16, 1, 2},  {64, 2, 1, 1, 3, 16, 1, 2},  {64, 2, 1, 1, 5, 16, 2, 2},
        {64, 2, 1, 1, 3, 8, 1, 3},  {1, 2, 4, 64, 3, 16, 1, 2},  {1, 2, 64, 3, 7, 16, 2, 2},
        {32, 2, 4, 4, 3, 8, 1, 2},  {1, 2, 8, 4, 1, 64, 1, 1},
    };
    for (int i = 0; i < 11 * 3 * 3 * 3 * 2 * 2; i++) {
        const int64_t *row = rows[i / 108];
        const ckconv_op op = (ckconv_op)(CKCONV_FWD + i % 3);
        const int which = i / 3 % 3, first = i / 27 % 2;
        const ckconv_layout layout = first ? CKCONV_NGCHW : CKCONV_NHWGC;
        ckconv_device device;
        ckconv_error err;
        int64_t out[3] = {0, 0, 0};
        problem p = make_conv(row, op, i / 54 % 2 ? CKCONV_F32 : CKCONV_F16, layout);
        ckconv_conv_desc *d = &p.u.conv;
        CHECK_OK(ckconv_device_named(archs[i / 9 % 3], &device, &err), err);
        CHECK_OK(ckconv_conv_output(d, out, &err), err);
        ckconv_tensor *t = which == 0 ? &d->in : which == 1 ? &d->wei : &d->out;
        int64_t length[6] = {d->g, which == 1 ? d->k : d->n, which == 2 ? d->k : d->c, 1, 1, 1}, stride[6];
        memcpy(length + 3, which == 0 ? d->input : which == 1 ? d->filter : out, sizeof out);
        test_layout_strides(which == 1 ? d->wei.layout : layout, d->ndim, length, stride);
        t->layout = CKCONV_STRIDED;
        for (int axis = 0; axis < 3 + d->ndim; axis++) {
            if (length[axis] < 2) {
                continue;
            }
            for (int32_t at = -1; at < ckconv_instance_count(); at++) {
                static char want[1024], text[1024];
                ckconv_options o;
                memset(&o, 0, sizeof o);
                o.engine = CKCONV_ENGINE_GPU;
                if (at >= 0 && (ckconv_instance_engine(at) != CKCONV_ENGINE_GPU ||
                                !ckconv_instance_does(at, op) || (i + at) % 3 != 0)) {
                    continue;
                }
                o.instance = at < 0 ? NULL : ckconv_instance_name(at);
                int there = 0;
                for (int j = 0; j < 4; j++) {
                    memcpy(t->stride, stride, sizeof(int64_t) * (size_t)(3 + d->ndim));
                    t->stride[axis] = far[j];
                    const int fits = signature(&p, &o, &device, j ? text : want, sizeof text);
                    there = j ? there : fits;
                    /* strides that the TMA writes weights with end at 2^39 bytes: those tiles refuse more,
                       and where they were the choice another is */
                    const int most =
                        j == 3 && fits == (at < 0) && strstr(at < 0 ? want : o.instance, "_tma_") != NULL;
                    CHECK_MSG(j == 0 || most || (fits == there && strcmp(text, want) == 0),
                              "%s, %s, tensor %d, stride[%d] %lld: '%s', 2^36: '%s'", device.arch,
                              at < 0 ? op_name(op) : o.instance, which, axis, (long long)t->stride[axis],
                              text, want);
                }
            }
        }
        if (TEST_ASAN && i % 7) {
            i += 6;
        }
    }
}

/*------------------------------------------------------------------------------------------------------------
  which kernel an instance launches: a second source beside the planner's tables
*/
/* A problem is a line: GPU, instance, g n k c filter input stride dimensions, operation, type,
   channels first or last, kernel. */
/* clang-format off */
static void test_kernels(void)
{
    static const char *const rows[] = {
        "sm_90 gpu_mma_fwd_tma_128x128 1 4 64 128 1 14 1 2 fwd f16 first matrix_tma_back_128x128",
        "sm_90 gpu_mma_fwd_tma_128x128 1 4 64 128 1 15 1 2 fwd f16 first matrix_tma_gather_128x128",
        "sm_90 gpu_mma_bwd_data_tma_128x128 1 4 64 128 3 14 2 2 bwd_data f16 last matrix_tma_phase_128x128",
        "sm_90 gpu_mma_bwd_data_tma_256x64 1 4 64 64 3 14 2 2 bwd_data f16 last matrix_tma_phase_256x64",
        "sm_90 gpu_im2col_fwd 1 2 256 16 3 8 1 2 fwd f16 first im2col",
        "sm_90 gpu_im2col_bwd_weight 1 2 256 16 3 8 1 2 bwd_weight f16 first im2col",
        "gfx942 gpu_im2col_bwd_data 1 2 256 16 3 8 1 2 bwd_data f16 first col2im",
        "gfx942 gpu_mfma_fwd_near 8 2 16 16 3 14 1 2 fwd f16 last matrix_near_down_16",
        "gfx942 gpu_mfma_bwd_data_near 8 2 32 32 3 14 1 2 bwd_data f16 last matrix_near_down_32",
        "gfx942 gpu_mfma_fwd_near 8 2 16 16 3 14 2 2 fwd f16 last matrix_near_16",
        "gfx942 gpu_mfma_fwd_near 8 2 32 32 3 14 2 2 fwd f16 last matrix_near_32",
        "gfx942 gpu_mfma_fwd_near 8 2 16 16 3 8 1 3 fwd f16 last matrix_near_deep_16",
        "gfx942 gpu_mfma_bwd_data_near 8 2 32 32 3 8 1 3 bwd_data f16 last matrix_near_deep_32",
        "gfx942 gpu_mfma_bwd_weight_near 8 2 16 16 3 14 1 2 bwd_weight f16 last matrix_near_weight_16",
        "gfx942 gpu_mfma_bwd_weight_near 8 2 32 32 3 14 1 2 bwd_weight f16 last matrix_near_weight_32",
        "gfx942 gpu_mfma_fwd_stem 1 8 64 3 7 64 2 2 fwd f16 last matrix_stem_fwd",
        "gfx942 gpu_mfma_bwd_weight_stem 1 8 64 3 7 64 2 2 bwd_weight f16 last matrix_stem_bwd_weight",
        "gfx942 gpu_mfma_fwd_stem 1 8 64 3 7 64 2 2 fwd f16 first matrix_stem_fwd",
        "gfx942 gpu_mfma_bwd_weight_stem 1 8 64 3 7 64 2 2 bwd_weight f16 first matrix_stem_bwd_weight",
        "gfx942 gpu_mfma_fwd_pointwise 1 8 64 16 1 28 1 2 fwd f16 last matrix_pointwise_32",
        "gfx942 gpu_mfma_bwd_data_pointwise 1 8 64 32 1 28 1 2 bwd_data f16 last matrix_pointwise_128",
        "gfx942 gpu_mfma_fwd_pointwise 1 8 40 160 1 28 1 2 fwd f16 last matrix_pointwise_256",
        "gfx942 gpu_mfma_fwd_pointwise 1 8 40 16 1 28 1 2 fwd f16 first matrix_planes_32",
        "gfx942 gpu_mfma_bwd_data_pointwise 1 8 64 40 1 28 1 2 bwd_data f16 first matrix_planes_64",
        "gfx1201 gpu_wmma_fwd_near 8 2 16 16 3 14 1 2 fwd f16 last matrix_near_down_16",
        "gfx1201 gpu_wmma_bwd_data_near 8 2 32 32 3 14 1 2 bwd_data f16 last matrix_near_down_32",
        "gfx1201 gpu_wmma_fwd_near 8 2 16 16 3 14 2 2 fwd f16 last matrix_near_16",
        "gfx1201 gpu_wmma_fwd_near 8 2 32 32 3 14 2 2 fwd f16 last matrix_near_32",
        "gfx1201 gpu_wmma_fwd_near 8 2 16 16 3 8 1 3 fwd f16 last matrix_near_deep_16",
        "gfx1201 gpu_wmma_bwd_data_near 8 2 32 32 3 8 1 3 bwd_data f16 last matrix_near_deep_32",
        "gfx1201 gpu_wmma_bwd_weight_near 8 2 16 16 3 14 1 2 bwd_weight f16 last matrix_near_weight_16",
        "gfx1201 gpu_wmma_bwd_weight_near 8 2 32 32 3 14 1 2 bwd_weight f16 last matrix_near_weight_32",
        "gfx1201 gpu_wmma_fwd_stem 1 8 64 3 7 64 2 2 fwd f16 last matrix_stem_fwd",
        "gfx1201 gpu_wmma_bwd_weight_stem 1 8 64 3 7 64 2 2 bwd_weight f16 last matrix_stem_bwd_weight",
        "gfx1201 gpu_wmma_fwd_stem 1 8 64 3 7 64 2 2 fwd f16 first matrix_stem_fwd",
        "gfx1201 gpu_wmma_bwd_weight_stem 1 8 64 3 7 64 2 2 bwd_weight f16 first matrix_stem_bwd_weight",
        "gfx1201 gpu_wmma_fwd_pointwise 1 8 64 16 1 28 1 2 fwd f16 last matrix_pointwise_32",
        "gfx1201 gpu_wmma_bwd_data_pointwise 1 8 64 32 1 28 1 2 bwd_data f16 last matrix_pointwise_128",
        "gfx1201 gpu_wmma_fwd_pointwise 1 8 40 160 1 28 1 2 fwd f16 last matrix_pointwise_256",
        "gfx1201 gpu_wmma_fwd_pointwise 1 8 40 16 1 28 1 2 fwd f16 first matrix_planes_32",
        "gfx1201 gpu_wmma_bwd_data_pointwise 1 8 64 40 1 28 1 2 bwd_data f16 first matrix_planes_64",
        "gfx1201 gpu_wmma_fwd_pointwise 1 8 40 96 1 28 1 2 fwd f16 first matrix_planes_128",
        "sm_90 gpu_mma_fwd_near 8 2 16 16 3 14 1 2 fwd f16 last matrix_near_down_16",
        "sm_90 gpu_mma_bwd_data_near 8 2 32 32 3 14 1 2 bwd_data f16 last matrix_near_down_32",
        "sm_90 gpu_mma_fwd_near 8 2 16 16 3 14 2 2 fwd f16 last matrix_near_16",
        "sm_90 gpu_mma_fwd_near 8 2 32 32 3 14 2 2 fwd f16 last matrix_near_32",
        "sm_90 gpu_mma_fwd_near 8 2 16 16 3 8 1 3 fwd f16 last matrix_near_deep_16",
        "sm_90 gpu_mma_bwd_data_near 8 2 32 32 3 8 1 3 bwd_data f16 last matrix_near_deep_32",
        "sm_90 gpu_mma_bwd_weight_near 8 2 16 16 3 14 1 2 bwd_weight f16 last matrix_near_weight_16",
        "sm_90 gpu_mma_bwd_weight_near 8 2 32 32 3 14 1 2 bwd_weight f16 last matrix_near_weight_32",
        "sm_90 gpu_mma_fwd_stem 1 8 64 3 7 64 2 2 fwd f16 last matrix_stem_fwd",
        "sm_90 gpu_mma_bwd_weight_stem 1 8 64 3 7 64 2 2 bwd_weight f16 last matrix_stem_bwd_weight",
        "sm_90 gpu_mma_fwd_stem 1 8 64 3 7 64 2 2 fwd f16 first matrix_stem_fwd",
        "sm_90 gpu_mma_bwd_weight_stem 1 8 64 3 7 64 2 2 bwd_weight f16 first matrix_stem_bwd_weight",
        "sm_90 gpu_mma_fwd_pointwise 1 8 64 16 1 28 1 2 fwd f16 last matrix_pointwise_32",
        "sm_90 gpu_mma_bwd_data_pointwise 1 8 64 32 1 28 1 2 bwd_data f16 last matrix_pointwise_128",
        "sm_90 gpu_mma_fwd_pointwise 1 8 40 160 1 28 1 2 fwd f16 last matrix_pointwise_256",
        "sm_90 gpu_mma_fwd_pointwise 1 8 40 16 1 28 1 2 fwd f16 first matrix_planes_32",
        "sm_90 gpu_mma_bwd_data_pointwise 1 8 64 40 1 28 1 2 bwd_data f16 first matrix_planes_64",
        "sm_90 gpu_mma_fwd_pointwise 1 8 40 96 1 28 1 2 fwd f16 first matrix_planes_128",
        "gfx906 gpu_vector_fwd_f32_128 1 8 256 256 3 28 1 2 fwd f32 last gather_f32_128",
        "gfx906 gpu_vector_fwd_f32_64 1 8 256 256 3 28 1 2 fwd f32 last gather_f32_64",
        "gfx906 gpu_vector_bwd_data_f64_64 1 8 256 256 3 28 1 2 bwd_data f64 last gather_f64_64",
        "gfx906 gpu_vector_fwd_i32_64 1 8 256 256 3 28 1 2 fwd i8 last gather_i32_64",
        "gfx906 gpu_vector_bwd_weight_f32_128 1 8 256 256 3 28 1 2 bwd_weight f32 last weight_f32_128",
        "gfx906 gpu_vector_bwd_weight_f32_64 1 8 256 256 3 28 1 2 bwd_weight f32 last weight_f32_64",
        "gfx906 gpu_vector_bwd_weight_f64_64 1 8 256 256 3 28 1 2 bwd_weight f64 last weight_f64_64",
        "gfx906 gpu_vector_bwd_weight_i32_64 1 8 256 256 3 28 1 2 bwd_weight i8 last weight_i32_64",
        "gfx906 gpu_direct_fwd_f32 3 3 5 7 3 9 2 2 fwd f32 last direct_f32",
        "gfx906 gpu_direct_bwd_weight_f32 3 3 5 7 3 9 2 2 bwd_weight f32 last direct_weight_f32",
        "gfx906 gpu_direct_fwd_f64 3 3 5 7 3 9 2 2 fwd f64 last direct_f64",
        "gfx906 gpu_direct_bwd_weight_f64 3 3 5 7 3 9 2 2 bwd_weight f64 last direct_weight_f64",
        "gfx906 gpu_direct_fwd_i32 3 3 5 7 3 9 2 2 fwd i8 last direct_i32",
        "gfx906 gpu_direct_bwd_weight_i32 3 3 5 7 3 9 2 2 bwd_weight i8 last direct_weight_i32",
        "sm_90 gpu_vector_bwd_weight_f32_64 1 8 64 64 3 28 1 2 bwd_weight f32 last reduce_f32",
        "sm_90 gpu_vector_bwd_weight_f64_64 1 8 64 64 3 28 1 2 bwd_weight f64 last reduce_f64",
        "sm_90 gpu_vector_bwd_weight_i32_64 1 8 64 64 3 28 1 2 bwd_weight i8 last reduce_i32",
        "gfx942 gpu_depthwise_fwd 64 4 1 1 5 28 1 2 fwd f16 last depth_half_down_5",
        "gfx942 gpu_depthwise_fwd 64 4 1 1 7 28 1 2 fwd f16 last depth_half_down_7",
        "gfx942 gpu_depthwise_fwd 64 4 1 1 3 28 1 2 fwd f16 last depth_half_down_3",
        "gfx942 gpu_depthwise_bwd_data 64 4 1 1 5 28 1 2 bwd_data f32 last depth_f32_down_5",
        "gfx942 gpu_depthwise_bwd_data 64 4 1 1 7 28 1 2 bwd_data f32 last depth_f32_down_7",
        "gfx942 gpu_depthwise_fwd 64 4 1 1 3 28 1 2 fwd f16 first depth_half_sheet_3",
        "gfx942 gpu_depthwise_bwd_weight 64 4 1 1 3 28 1 2 bwd_weight f32 first "
        "depth_weight_f32_plane_walk_3",
        "gfx942 gpu_depthwise_fwd 64 4 1 1 5 28 1 2 fwd f16 first depth_half_sheet_5",
        "gfx942 gpu_depthwise_bwd_weight 64 4 1 1 5 28 1 2 bwd_weight f32 first depth_weight_f32_sheet_5",
        "gfx942 gpu_depthwise_fwd 64 4 1 1 7 28 1 2 fwd f16 first depth_half_plane_walk_7",
        "gfx942 gpu_depthwise_bwd_weight 64 4 1 1 7 28 1 2 bwd_weight f32 first "
        "depth_weight_f32_plane_walk_7",
        "gfx942 gpu_depthwise_fwd 64 4 1 1 3 28 2 2 fwd f16 first depth_half_sheet_3_second",
        "gfx942 gpu_depthwise_fwd 64 4 1 1 5 28 2 2 fwd f16 first depth_half_sheet_5_second",
        "gfx942 gpu_depthwise_bwd_data 64 4 1 1 3 28 2 2 bwd_data f16 first depth_half_sheet_3_back",
        "gfx942 gpu_depthwise_bwd_data 64 4 1 1 5 28 2 2 bwd_data f16 first depth_half_sheet_5_back",
        "gfx942 gpu_depthwise_bwd_weight 64 4 1 1 3 28 1 2 bwd_weight f16 last depth_weight_half_down_3",
        "gfx942 gpu_depthwise_bwd_weight 64 4 1 1 5 28 1 2 bwd_weight f16 last depth_weight_half_down_5",
        "gfx942 gpu_depthwise_bwd_weight 64 4 1 1 7 28 1 2 bwd_weight f16 last depth_weight_half_walk_7",
        "gfx942 gpu_depthwise_bwd_weight 64 4 1 1 7 28 1 2 bwd_weight f32 last depth_weight_f32_walk_7",
        "gfx942 gpu_depthwise_fwd 64 2 1 1 3 12 1 3 fwd f16 last depth_half_deep",
        "gfx942 gpu_depthwise_bwd_weight 64 2 1 1 3 12 1 3 bwd_weight f32 last depth_weight_f32_deep",
        "gfx942 gpu_depthwise_fwd 64 4 1 1 3 28 2 2 fwd f16 last depth_half_column_3_second",
        "gfx942 gpu_depthwise_fwd 64 4 1 1 3 28 1 2 fwd f64 last depth_f64",
        "gfx942 gpu_depthwise_bwd_weight 64 4 1 1 3 28 1 2 bwd_weight f64 last depth_weight_f64",
        "gfx942 gpu_depthwise_matrix_fwd 64 2 1 1 31 32 1 2 fwd f16 last depth_matrix",
        "sm_90 gpu_depthwise_fwd 64 4 1 1 5 28 1 2 fwd f16 last depth_half_down_5",
        "sm_90 gpu_depthwise_fwd 64 4 1 1 7 28 1 2 fwd f16 last depth_half_down_7",
        "sm_90 gpu_depthwise_fwd 64 4 1 1 3 28 1 2 fwd f16 last depth_half_down_3",
        "sm_90 gpu_depthwise_bwd_data 64 4 1 1 5 28 1 2 bwd_data f32 last depth_f32_down_5",
        "sm_90 gpu_depthwise_bwd_data 64 4 1 1 7 28 1 2 bwd_data f32 last depth_f32_down_7",
        "sm_90 gpu_depthwise_fwd 64 4 1 1 3 28 1 2 fwd f16 first depth_half_sheet_3",
        "sm_90 gpu_depthwise_bwd_weight 64 4 1 1 3 28 1 2 bwd_weight f32 first "
        "depth_weight_f32_plane_walk_3",
        "sm_90 gpu_depthwise_fwd 64 4 1 1 5 28 1 2 fwd f16 first depth_half_sheet_5",
        "sm_90 gpu_depthwise_bwd_weight 64 4 1 1 5 28 1 2 bwd_weight f32 first depth_weight_f32_sheet_5",
        "sm_90 gpu_depthwise_fwd 64 4 1 1 7 28 1 2 fwd f16 first depth_half_plane_walk_7",
        "sm_90 gpu_depthwise_bwd_weight 64 4 1 1 7 28 1 2 bwd_weight f32 first "
        "depth_weight_f32_plane_walk_7",
        "sm_90 gpu_depthwise_fwd 64 4 1 1 3 28 2 2 fwd f16 first depth_half_sheet_3_second",
        "sm_90 gpu_depthwise_fwd 64 4 1 1 5 28 2 2 fwd f16 first depth_half_sheet_5_second",
        "sm_90 gpu_depthwise_bwd_data 64 4 1 1 3 28 2 2 bwd_data f16 first depth_half_sheet_3_back",
        "sm_90 gpu_depthwise_bwd_data 64 4 1 1 5 28 2 2 bwd_data f16 first depth_half_sheet_5_back",
        "sm_90 gpu_depthwise_bwd_weight 64 4 1 1 3 28 1 2 bwd_weight f16 last depth_weight_half_down_3",
        "sm_90 gpu_depthwise_bwd_weight 64 4 1 1 5 28 1 2 bwd_weight f16 last depth_weight_half_down_5",
        "sm_90 gpu_depthwise_bwd_weight 64 4 1 1 7 28 1 2 bwd_weight f16 last depth_weight_half_walk_7",
        "sm_90 gpu_depthwise_bwd_weight 64 4 1 1 7 28 1 2 bwd_weight f32 last depth_weight_f32_walk_7",
        "sm_90 gpu_depthwise_fwd 64 2 1 1 3 12 1 3 fwd f16 last depth_half_deep",
        "sm_90 gpu_depthwise_bwd_weight 64 2 1 1 3 12 1 3 bwd_weight f32 last depth_weight_f32_deep",
        "sm_90 gpu_depthwise_fwd 64 4 1 1 3 28 2 2 fwd f16 last depth_half_column_3_second",
        "sm_90 gpu_depthwise_fwd 64 4 1 1 3 28 1 2 fwd f64 last depth_f64",
        "sm_90 gpu_depthwise_bwd_weight 64 4 1 1 3 28 1 2 bwd_weight f64 last depth_weight_f64",
        "sm_90 gpu_depthwise_matrix_fwd 64 2 1 1 31 32 1 2 fwd f16 last depth_matrix",
        "sm_90 gpu_narrow_bwd_data 1 1 256 4 3 64 1 2 bwd_data f32 last narrow",
        "sm_90 gpu_grouped_fwd_4 32 2 4 4 3 28 1 2 fwd f32 last grouped_4",
        "sm_90 gpu_pixel_fwd 1 64 512 512 1 1 1 1 fwd f16 last pixel_half",
        "sm_90 gpu_pixel_fwd 1 64 512 512 1 1 1 1 fwd f32 last pixel_f32",
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char arch[16], instance[48], op[16], dtype[8], order[8], kernel[48];
        long long r[8];
        ckconv_device device;
        ckconv_plan plan;
        ckconv_error err;
        ckconv_options o;
        ckconv_status status;
        int found = 0;
        if (!CHECK(sscanf(rows[i], "%15s %47s %lld %lld %lld %lld %lld %lld %lld %lld %15s %7s %7s %47s",
                          arch, instance, &r[0], &r[1], &r[2], &r[3], &r[4], &r[5], &r[6], &r[7], op, dtype,
                          order, kernel) == 14)) {
            continue;
        }
        const int64_t row[8] = {r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]};
        const problem p = make_conv(row, ckconv_op_from_name(op), ckconv_dtype_from_name(dtype),
                                    strcmp(order, "first") == 0 ? CKCONV_NGCHW : CKCONV_NHWGC);
        memset(&o, 0, sizeof o);
        o.instance = instance;
        CHECK_OK(ckconv_device_named(arch, &device, &err), err);
        if (CHECK_OK(plan_problem(&plan, &p, &o, &device, &err), err)) {
            const int32_t count = list(&plan, 0, &status, &err);
            for (int32_t j = 0; j < count; j++) {
                found = found || strcmp(launches[j].kernel + strlen("ckconv_k_"), kernel) == 0;
            }
            CHECK_MSG(found, "%s: it launches %s", rows[i], count > 0 ? launches[0].kernel : "nothing");
        }
    }
}

static int wanted(int argc, char **argv, const char *part)
{
    return argc < 2 || strcmp(argv[1], part) == 0;
}

int main(int argc, char **argv)
{
    test_begin("test_guards");
    if (wanted(argc, argv, "lds")) {
        test_device_rows();
        test_convolutions();
        test_pairs();
        test_norms();
        test_all_launched();
    }
    if (wanted(argc, argv, "vectors")) {
        test_alignment();
        test_norm_alignment();
    }
    if (wanted(argc, argv, "limits")) {
        test_taps();
        test_depth_taps();
        test_overflow();
        test_overflow_of_one();
        test_kernels();
    }
    if (wanted(argc, argv, "far")) {
        test_far();
    }
    return test_end();
}
