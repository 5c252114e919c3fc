/* test_axes.c - one problem written in 1D, 2D and 3D, with axes of size 1 in every place: one plan, the same
   kernels with the same arguments, the same bits
   SPDX-License-Identifier: MIT */
#include "problem.h"

/* A problem by its axes that are longer than 1. */
typedef struct core {
    const char *name;
    int32_t rank;
    int64_t g, n, k, c;
    int64_t filter[2], input[2], stride[2], dilation[2], pad_lo[2], pad_hi[2];
} core;

static const core cores[] = {
    {"dense", 1, 1, 2, 16, 24, {3}, {40}, {1}, {1}, {1}, {1}},
    {"stride", 1, 1, 2, 8, 12, {5}, {41}, {2}, {1}, {2}, {1}},
    {"depthwise", 1, 32, 2, 1, 1, {3}, {64}, {1}, {1}, {1}, {1}},
    {"small groups", 1, 6, 2, 4, 4, {3}, {33}, {1}, {2}, {2}, {2}},
    {"pointwise", 1, 1, 2, 16, 16, {1}, {36}, {1}, {1}, {0}, {0}},
    {"one", 1, 2, 3, 16, 8, {1}, {1}, {1}, {1}, {0}, {0}},
    {"plane", 2, 1, 1, 16, 16, {3, 3}, {9, 11}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise plane", 2, 32, 1, 1, 1, {3, 3}, {16, 16}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {"depthwise column", 2, 16, 1, 1, 1, {5, 1}, {31, 4}, {2, 1}, {1, 1}, {2, 0}, {2, 0}},
};
enum { CORES = sizeof cores / sizeof cores[0], MOST = 16384 };

/* All ways to write a problem of `rank` axes: bit i of a mask is 1 where axis i of `ndim` has size 1. */
typedef struct form {
    int32_t ndim, mask;
} form;

static int next_form(int32_t rank, form *f)
{
    do {
        if (++f->mask >= 1 << f->ndim) {
            f->mask = 0;
            f->ndim++;
        }
        int ones = (f->mask & 1) + (f->mask >> 1 & 1) + (f->mask >> 2 & 1);
        if (f->ndim <= 3 && f->ndim - ones == rank) {
            return 1;
        }
    } while (f->ndim <= 3);
    return 0;
}

/* The strides of a form from those of the core, which has `rank` spatial axes. */
static void form_strides(const form *f, int32_t rank, ckconv_tensor *t)
{
    int64_t from[6];
    int32_t next = 3;
    if (t->layout != CKCONV_STRIDED) {
        return;
    }
    memcpy(from, t->stride, sizeof from);
    for (int32_t i = 0; i < f->ndim; i++) {
        t->stride[3 + i] =
            f->mask >> i & 1 ? 5 + i : from[next++]; /* any number will do where the size is 1 */
    }
    (void)rank;
}

/* kind: 0 to 2 a layout, 3 strided with gaps; other: idle axes with stride, dilation and a pad behind */
static ckconv_conv_desc make_conv(const core *c, const form *f, int kind, int other)
{
    static const ckconv_layout layouts[3] = {CKCONV_NHWGC, CKCONV_GNHWC, CKCONV_NGCHW};
    ckconv_conv_desc d;
    ckconv_tensor *t[4];
    int64_t size[3][2], count = 0;
    memset(&d, 0, sizeof d);
    t[0] = &d.in;
    t[1] = &d.wei;
    t[2] = &d.out;
    t[3] = &d.d[1];
    d.ndim = f->ndim;
    d.g = c->g;
    d.n = c->n;
    d.k = c->k;
    d.c = c->c;
    for (int32_t i = 0; i < f->ndim; i++) {
        d.filter[i] = d.input[i] = 1;
        if (f->mask >> i & 1) {
            d.stride[i] = other ? 9 : 0;
            d.dilation[i] = other ? 3 : 0;
            d.pad_hi[i] = other ? 2 : 0;
            continue;
        }
        d.filter[i] = size[1][count] = c->filter[count];
        d.input[i] = size[0][count] = c->input[count];
        d.stride[i] = c->stride[count];
        d.dilation[i] = c->dilation[count];
        d.pad_lo[i] = c->pad_lo[count];
        d.pad_hi[i] = c->pad_hi[count];
        size[2][count] =
            (d.input[i] + d.pad_lo[i] + d.pad_hi[i] - (d.filter[i] - 1) * d.dilation[i] - 1) / d.stride[i] +
            1;
        count++;
    }
    d.in.layout = kind < 3 ? layouts[kind] : (ckconv_layout)CKCONV_STRIDED;
    d.out.layout = d.in.layout;
    d.wei.layout =
        kind < 3 ? (ckconv_layout)(kind == 2 ? CKCONV_GKCYX : CKCONV_GKYXC) : (ckconv_layout)CKCONV_STRIDED;
    for (int i = 0; i < 3 && kind == 3; i++) {
        /* channels fastest, 3 elements free behind those of all groups, a place behind each axis */
        int64_t inner = i == 1 ? d.c : d.g * (i == 0 ? d.c : d.k);
        int64_t next = inner + 3;
        t[i]->stride[2] = 1;
        for (int32_t a = c->rank - 1; a >= 0; a--) {
            t[i]->stride[3 + a] = next;
            next *= size[i][a] + 1;
        }
        t[i]->stride[1] = next;
        t[i]->stride[0] = i == 1 ? next * d.k : (i == 0 ? d.c : d.k);
        form_strides(f, c->rank, t[i]);
    }
    return d;
}

static ckconv_device gpu(const char *arch)
{
    ckconv_device d;
    ckconv_error err;
    CHECK_OK(ckconv_device_named(arch, &d, &err), err);
    return d;
}

/* What two plans of one problem must share: all but the descriptions. */
static int same_plan(const ckconv_plan *a, const ckconv_plan *b)
{
    ckconv_plan x = *a, y = *b;
    memset(&x.u, 0, sizeof x.u);
    memset(&y.u, 0, sizeof y.u);
    x.seal = y.seal = 0; /* of the descriptions, too */
    return memcmp(&x, &y, sizeof x) == 0;
}

static float memory[9][MOST];

static ckconv_args all_args(ckconv_op op)
{
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.in = memory[0];
    a.wei = memory[1];
    a.dout = op == CKCONV_CONV_CONV_FWD ? NULL : memory[2];
    a.d[0] = memory[3];
    a.wei1 = a.gamma = memory[4];
    a.scale = a.beta = memory[5];
    a.out = a.din = a.dwei = memory[6];
    a.dgamma = memory[7];
    a.dbeta = memory[8];
    if (op == CKCONV_GROUPNORM_BWD) {
        a.out = NULL;
    }
    return a;
}

static void fill(void)
{
    test_rng r = test_seed(7);
    for (int i = 0; i < 9; i++) {
        for (int j = 0; j < MOST; j++) {
            memory[i][j] = i < 6 ? (float)test_normal(&r) : 77.0F;
        }
    }
}

/* Bytes that a run of a plan leaves in outputs; no output passes `memory`. */
static void results(const ckconv_plan *plan, float out[3][MOST])
{
    static unsigned char workspace[1 << 24];
    ckconv_args a = all_args(plan->op);
    ckconv_error err;
    fill();
    CHECK(plan->workspace_bytes <= (int64_t)sizeof workspace);
    CHECK_OK(ckconv_run(plan, &a, workspace, sizeof workspace, NULL, &err), err);
    memcpy(out, memory[6], sizeof memory[0] * 3);
}

static void same_launches(const ckconv_plan *a, const ckconv_plan *b, const char *what, const form *f)
{
    static ckconv_launch x[64], y[64];
    static unsigned char workspace[64];
    int32_t count[2] = {0, 0};
    ckconv_error err;
    ckconv_args args = all_args(a->op);
    memset(x, 0, sizeof x);
    memset(y, 0, sizeof y);
    CHECK_OK(ckconv_plan_launches(a, &args, workspace, (size_t)a->workspace_bytes, x, 64, &count[0], &err),
             err);
    CHECK_OK(ckconv_plan_launches(b, &args, workspace, (size_t)b->workspace_bytes, y, 64, &count[1], &err),
             err);
    int same = count[0] == count[1] && count[0] <= 64;
    for (int32_t i = 0; i < count[0] && same; i++) {
        same = strcmp(x[i].kernel, y[i].kernel) == 0 && x[i].grid == y[i].grid && x[i].block == y[i].block &&
               x[i].arg_bytes == y[i].arg_bytes && memcmp(x[i].arg, y[i].arg, (size_t)x[i].arg_bytes) == 0;
    }
    CHECK_MSG(same, "%s on %s, %dD with ones %d: %s, %s: other launches", what, a->device.arch, (int)f->ndim,
              (int)f->mask, ckconv_instance_name(a->instance), ckconv_instance_name(b->instance));
}

/* Every form of a problem against the first one. make: the description of a form. */
static void compare(const char *what, int32_t rank, problem (*make)(const void *context, const form *f),
                    const void *context, int host)
{
    static const char *const archs[] = {"x86_64", "gfx942", "gfx1100", "sm_90"};
    static float want[3][MOST], got[3][MOST];
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        form f = {1, -1};
        ckconv_device device;
        ckconv_plan first, plan;
        ckconv_error err;
        int seen = 0;
        if (i == 0) {
            ckconv_device_cpu(&device);
        } else {
            device = gpu(archs[i]);
        }
        while (next_form(rank, &f)) {
            const problem p = make(context, &f);
            if (!CHECK_OK(plan_problem(&plan, &p, NULL, &device, &err), err)) {
                continue;
            }
            if (!seen++) {
                first = plan;
                if (i == 0 && host) {
                    results(&plan, want);
                }
                continue;
            }
            CHECK_MSG(same_plan(&first, &plan), "%s on %s, %dD with ones %d: %s, %s: other plans", what,
                      archs[i], (int)f.ndim, (int)f.mask, ckconv_instance_name(first.instance),
                      ckconv_instance_name(plan.instance));
            if (i > 0) {
                same_launches(&first, &plan, what, &f);
            } else if (host) {
                results(&plan, got);
                CHECK_MSG(memcmp(want, got, sizeof want) == 0, "%s, %dD with ones %d: other bits", what,
                          (int)f.ndim, (int)f.mask);
            }
        }
        CHECK_MSG(seen >= 3, "%s: %d forms", what, seen);
    }
}

/* All convolutions: op, core, layout, epilogue. */
typedef struct conv_case {
    ckconv_op op;
    const core *c;
    int kind, other, d;
    ckconv_dtype type;
} conv_case;

static problem form_conv(const void *context, const form *f)
{
    const conv_case *c = (const conv_case *)context;
    problem p;
    memset(&p, 0, sizeof p);
    p.op = c->op;
    p.u.conv = make_conv(c->c, f, c->kind, c->other && f->ndim > 1);
    p.u.conv.in.dtype = c->type;
    if (c->d && c->op == CKCONV_FWD) {
        p.u.conv.op_out.kind = c->d == 1 ? CKCONV_BIAS_RELU : CKCONV_ADD;
        p.u.conv.d[0].layout = c->d == 1 ? CKCONV_CHANNEL : 0;
        p.u.conv.num_d = 1;
    }
    return p;
}

static void test_convs(void)
{
    conv_case c;
    memset(&c, 0, sizeof c);
    for (int which = 0; which < (int)CORES; which++) {
        for (c.op = CKCONV_FWD; c.op <= CKCONV_BWD_WEIGHT; c.op++) {
            for (c.kind = 0; c.kind < 4; c.kind++) {
                char what[96];
                c.c = &cores[which];
                c.other = which % 2;
                c.d = which % 3;
                snprintf(what, sizeof what, "%s %s, tensors %d", op_name(c.op), c.c->name, c.kind);
                c.type = CKCONV_F32;
                compare(what, c.c->rank, form_conv, &c, 1);
                c.type = CKCONV_F16;
                compare(what, c.c->rank, form_conv, &c, 0);
            }
        }
    }
}

static problem form_pair(const void *context, const form *f)
{
    const conv_case *c = (const conv_case *)context;
    problem p;
    memset(&p, 0, sizeof p);
    p.op = CKCONV_CONV_CONV_FWD;
    p.u.pair.conv0 = make_conv(c->c, f, c->kind, 0);
    p.u.pair.k1 = 12;
    if (c->d) { /* a second filter of 3 taps */
        for (int32_t i = 0; i < f->ndim; i++) {
            int one = f->mask >> i & 1;
            p.u.pair.filter1[i] = one ? 1 : 3;
            p.u.pair.pad_lo1[i] = p.u.pair.pad_hi1[i] = one ? 0 : 1;
        }
    }
    return p;
}

static problem form_norm(const void *context, const form *f)
{
    const conv_case *c = (const conv_case *)context;
    ckconv_conv_desc d = make_conv(c->c, f, c->kind, 0);
    problem p;
    memset(&p, 0, sizeof p);
    p.op = c->op;
    p.u.norm.ndim = d.ndim;
    p.u.norm.g = d.g;
    p.u.norm.n = d.n;
    p.u.norm.c = d.c;
    p.u.norm.eps = 1e-5;
    p.u.norm.in = d.in;
    memcpy(p.u.norm.input, d.input, sizeof d.input);
    return p;
}

static void test_others(void)
{
    conv_case c;
    memset(&c, 0, sizeof c);
    for (int which = 0; which < (int)CORES; which++) {
        char what[96];
        c.c = &cores[which];
        for (c.kind = 0; c.kind < 3; c.kind++) {
            for (c.d = 0; c.d < 2; c.d++) {
                snprintf(what, sizeof what, "pair %s, tensors %d", c.c->name, c.kind);
                compare(what, c.c->rank, form_pair, &c, 1);
            }
        }
        for (c.kind = 0; c.kind < 4; c.kind++) {
            snprintf(what, sizeof what, "group norm %s, tensors %d", c.c->name, c.kind);
            for (c.op = CKCONV_GROUPNORM_FWD; c.op <= CKCONV_GROUPNORM_BWD; c.op++) {
                compare(what, c.c->rank, form_norm, &c, 1);
            }
        }
    }
}

/* What callers are told has their axes. */
static void test_told(void)
{
    ckconv_conv_desc d;
    ckconv_plan plan;
    ckconv_tensor_info info;
    ckconv_error err;
    ckconv_device device;
    char text[2048];
    static const int64_t length[5] = {32, 2, 1, 64, 1}, stride[5] = {1, 2048, 1, 32, 32};
    const form f = {2, 2};
    ckconv_device_cpu(&device);
    d = make_conv(&cores[2], &f, 0, 0);
    CHECK_OK(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, &device, &err), err);
    ckconv_plan_describe(&plan, text, sizeof text);
    CHECK_MSG(strstr(text, "filter 3x1 input 64x1 stride 1x1") != NULL, "axes are missing: %s", text);
    CHECK_OK(ckconv_plan_tensor(&plan, CKCONV_TENSOR_IN, &info, &err), err);
    CHECK(info.rank == 5);
    for (int i = 0; i < 5; i++) {
        CHECK_MSG(info.length[i] == length[i] && info.stride[i] == stride[i],
                  "axis %d: length %lld, stride %lld", i, (long long)info.length[i],
                  (long long)info.stride[i]);
    }
}

/* One row of in is read, and all others are beside the only output: along y the filter has one tap and the
   stride passes the input. bwd_data writes zeros there. */
static void test_passed(void)
{
    static float want[3][MOST], got[3][MOST];
    ckconv_conv_desc row, all;
    ckconv_plan plan;
    ckconv_error err;
    ckconv_device device;
    const form one = {1, 0};
    ckconv_device_cpu(&device);
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_BWD_WEIGHT; op++) {
        row = make_conv(&cores[0], &one, 0, 0);
        row.n = 1;
        all = row;
        all.ndim = 2;
        all.input[1] = row.input[0];
        all.input[0] = 3;
        all.stride[0] = 4;
        all.stride[1] = all.filter[0] = 1;
        all.filter[1] = 3;
        all.pad_lo[1] = all.pad_hi[1] = 1;
        all.pad_lo[0] = all.pad_hi[0] = 0;
        CHECK_OK(ckconv_plan_conv(&plan, op, &row, NULL, &device, &err), err);
        results(&plan, want);
        CHECK_OK(ckconv_plan_conv(&plan, op, &all, NULL, &device, &err), err);
        results(&plan, got);
        for (int64_t i = 0; op == CKCONV_BWD_DATA && i < 2 * 40 * 24; i++) {
            want[0][40 * 24 + i] = 0;
        }
        CHECK_MSG(memcmp(want, got, sizeof want) == 0, "%s: other bits", op_name(op));
        CHECK_MSG(plan.bytes > 3 * 40 * 24 * 4, "%s: %lld bytes", op_name(op), (long long)plan.bytes);
    }
}

/* Transforms: the same bytes, whatever axes of size 1 there are. */
static void test_transforms(void)
{
    for (int kind = 0; kind < 3; kind++) {
        static float want[MOST], got[MOST];
        form f = {1, -1};
        int seen = 0;
        fill();
        while (next_form(1, &f)) {
            ckconv_conv_desc d = make_conv(&cores[3], &f, kind, 0);
            int64_t length[6];
            ckconv_tensor to;
            ckconv_error err;
            memset(&to, 0, sizeof to);
            to.layout = kind == 0 ? CKCONV_NGCHW : CKCONV_NHWGC;
            length[0] = d.g;
            length[1] = d.n;
            length[2] = d.c;
            memcpy(length + 3, d.input, sizeof d.input);
            CHECK_OK(ckconv_transform(d.ndim, length, &d.in, memory[0], &to, seen ? got : want, NULL, &err),
                     err);
            CHECK_MSG(!seen++ || memcmp(want, got, sizeof want) == 0, "transform %d, %dD with ones %d", kind,
                      (int)f.ndim, (int)f.mask);
        }
    }
}

int main(void)
{
    test_begin("test_axes");
    test_convs();
    test_others();
    test_told();
    test_passed();
    test_transforms();
    return test_end();
}
