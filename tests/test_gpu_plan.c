/* test_gpu_plan.c - what the planner gives a GPU to do: limits of kernels and of launches, without a GPU
   SPDX-License-Identifier: MIT */
#include "test.h"

#include <signal.h>

static volatile sig_atomic_t layer_now = -1; /* of test_layers, for the handler */

/* A crash ends the program, but not without the layer (-1: it was in another part). */
static void on_signal(int signal_number)
{
    printf("FAIL layer %ld: signal %d\ntest_gpu_plan: %ld passed, %ld failed\n", (long)layer_now,
           signal_number, test.passed, test.failed + 1);
    fflush(stdout);
    _Exit(1);
}

static ckconv_device named(const char *arch)
{
    ckconv_device d;
    ckconv_error err;
    CHECK_OK(ckconv_device_named(arch, &d, &err), err);
    return d;
}

/* A convolution of one channel: the same filter, stride and dilation in all dimensions. */
static ckconv_conv_desc cube(int32_t ndim, int64_t input, int64_t filter, int64_t stride, int64_t dilation)
{
    ckconv_conv_desc d;
    memset(&d, 0, sizeof d);
    d.ndim = ndim;
    d.n = d.k = d.c = 1;
    for (int32_t i = 0; i < ndim; i++) {
        d.filter[i] = filter;
        d.input[i] = input;
        d.stride[i] = stride;
        d.dilation[i] = dilation;
    }
    return d;
}

static void check_refused(const char *what, ckconv_op op, const ckconv_conv_desc *d, const char *word)
{
    ckconv_plan plan;
    ckconv_error err;
    const ckconv_device gpu = named("gfx942");
    const ckconv_status status = ckconv_plan_conv(&plan, op, d, NULL, &gpu, &err);
    CHECK_MSG(status == CKCONV_ERR_UNSUPPORTED && strstr(err.text, word) != NULL, "%s, %s: status %d (%s)",
              what, ckconv_op_name(op), (int)status, err.text);
}

/* What 32-bit indices do not hold is refused, whichever product passes them. */
static void test_indices(void)
{
    ckconv_plan plan;
    ckconv_error err;
    const ckconv_device gpu = named("sm_90");
    static const int64_t strides[] = {2048, 1625, 2047, 1291};
    for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++) {
        const ckconv_conv_desc d = cube(3, strides[i], 1, strides[i], 1);
        check_refused("stride phases", CKCONV_BWD_DATA, &d, "stride phases");
    }
    const ckconv_conv_desc phases = cube(3, 1000, 1, 1000, 1);
    CHECK_OK(ckconv_plan_conv(&plan, CKCONV_BWD_DATA, &phases, NULL, &gpu, &err), err);
    CHECK(plan.grid[0] >= 1000000000 / 256);
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_BWD_WEIGHT; op++) {
        ckconv_conv_desc d = cube(1, 4, 9, 1, (int64_t)1 << 29);
        d.pad_hi[0] = ((int64_t)1 << 32) - 3; /* the last tap lies 2^32 past the first one */
        check_refused("reach of the filter", op, &d, "dilation");
        d = cube(1, 4, 2, 1, (int64_t)1 << 30);
        d.pad_hi[0] = (int64_t)1 << 30;
        check_refused("2^30", op, &d, "2^30 - 1");
        d = cube(1, 600000000, 1, 600000000, 1);
        d.pad_lo[0] = 600000000;
        check_refused("pad added", op, &d, "1800000000");
    }
}

/* AMD launches less than 2^32 threads, NVIDIA less than 2^31 blocks. */
static void test_threads(void)
{
    ckconv_plan plan;
    ckconv_error err;
    const ckconv_device amd = named("gfx942"), nvidia = named("sm_90");
    ckconv_conv_desc d = cube(2, 1024, 1, 1, 1);
    d.g = 32;
    d.n = 256;
    d.in.dtype = CKCONV_I8;
    ckconv_options o;
    memset(&o, 0, sizeof o);
    o.max_workspace = -1; /* nothing is packed for a matrix unit */
    CHECK_OK(ckconv_plan_conv(&plan, CKCONV_FWD, &d, &o, &nvidia, &err), err);
    CHECK(plan.grid[0] > (int64_t)UINT32_MAX / plan.block[0]);
    ckconv_status status = ckconv_plan_conv(&plan, CKCONV_FWD, &d, &o, &amd, &err);
    CHECK_MSG(status == CKCONV_ERR_UNSUPPORTED && strstr(err.text, "threads") != NULL, "status %d (%s)",
              (int)status, err.text);
    ckconv_groupnorm_desc n;
    memset(&n, 0, sizeof n);
    n.ndim = 1;
    n.g = 32;
    n.n = 1 << 20;
    n.c = 32;
    n.input[0] = 64;
    n.eps = 1e-5;
    n.in.dtype = CKCONV_F16;
    for (ckconv_op op = CKCONV_GROUPNORM_FWD; op <= CKCONV_GROUPNORM_BWD; op++) {
        CHECK_OK(ckconv_plan_groupnorm(&plan, op, &n, NULL, &nvidia, &err), err);
        const int big = plan.grid[0] * plan.block[0] > UINT32_MAX;
        status = ckconv_plan_groupnorm(&plan, op, &n, NULL, &amd, &err);
        CHECK_MSG(!big || (status == CKCONV_ERR_UNSUPPORTED && strstr(err.text, "threads") != NULL),
                  "status %d (%s)", (int)status, err.text);
    }
}

enum { MOST = 8 };

/* The launches of a pair whose tensors are made-up addresses. */
static ckconv_status pair_launches(const ckconv_conv_conv_desc *d, const ckconv_options *o, const char *arch,
                                   int mid, ckconv_plan *plan, ckconv_launch *launches, int32_t *count,
                                   ckconv_error *err)
{
    const ckconv_device gpu = named(arch);
    ckconv_args a;
    memset(&a, 0, sizeof a);
    const uintptr_t far = (uintptr_t)1 << 44;
    a.in = (void *)far;
    a.wei = (void *)(2 * far);
    a.wei1 = (void *)(3 * far);
    a.out = (void *)(4 * far);
    a.mid = mid ? (void *)(5 * far) : NULL;
    *count = 0;
    CHECK_OK(ckconv_plan_conv_conv(plan, d, o, &gpu, err), *err);
    return ckconv_plan_launches(plan, &a, plan->workspace_bytes ? (void *)(6 * far) : NULL,
                                (size_t)plan->workspace_bytes, launches, MOST, count, err);
}

/* A copy of mid: counted where it takes a launch, refused before anything runs where it takes too many
   threads, and never written by the kernel that reads its positions more than once. */
static void test_mid(void)
{
    static ckconv_launch launches[MOST];
    int32_t count;
    ckconv_plan plan;
    ckconv_error err;
    ckconv_options o;
    ckconv_conv_conv_desc d;
    memset(&o, 0, sizeof o);
    memset(&d, 0, sizeof d);
    d.conv0 = cube(2, 28, 3, 1, 1);
    d.conv0.g = 96;
    d.k1 = 128;
    CHECK_OK(pair_launches(&d, &o, "gfx942", 0, &plan, launches, &count, &err), err);
    CHECK_MSG(count == plan.launches, "%d launches of %d", (int)count, (int)plan.launches);
    CHECK_OK(pair_launches(&d, &o, "gfx942", 1, &plan, launches, &count, &err), err);
    CHECK_MSG(count == plan.launches || count == plan.launches + 1, "%d launches of %d", (int)count,
              (int)plan.launches);

    /* the taps of filter1 share positions of mid: a launch of its own writes them */
    o.instance = "gpu_recompute_conv_conv";
    d.filter1[0] = d.filter1[1] = 3;
    d.pad_hi1[0] = d.pad_hi1[1] = 2;
    CHECK_OK(pair_launches(&d, &o, "gfx942", 1, &plan, launches, &count, &err), err);
    CHECK_MSG(count == 2, "%d launches", (int)count);

    /* a mid whose strides leave its blocks nearly empty */
    memset(&d, 0, sizeof d);
    memset(&o, 0, sizeof o);
    o.instance = "unfused";
    d.conv0 = cube(3, 2, 1, 1, 1);
    d.conv0.in.dtype = CKCONV_I8;
    d.conv0.c = 1;
    d.conv0.k = 2;
    d.conv0.n = (int64_t)1 << 26;
    d.k1 = 1;
    d.conv0.out.layout = CKCONV_STRIDED;
    static const int64_t strides[6] = {0, 3 << 10, 7, 3 << 6, 3 << 4, 1};
    memcpy(d.conv0.out.stride, strides, sizeof strides);
    d.conv0.out.stride[0] = (int64_t)3 << 36;
    CHECK_OK(pair_launches(&d, &o, "gfx942", 0, &plan, launches, &count, &err), err);
    const ckconv_status status = pair_launches(&d, &o, "gfx942", 1, &plan, launches, &count, &err);
    CHECK_MSG(status == CKCONV_ERR_UNSUPPORTED && strstr(err.text, "ckconv_k_move") != NULL, "status %d (%s)",
              (int)status, err.text);
}

/* Both convolutions of an unfused pair are planned as they are alone: no direct kernel for many channels,
   matrix units where there are some. */
static void test_parts(void)
{
    static const struct {
        const char *arch;
        ckconv_dtype dtype;
        int64_t channels, size;
        const char *parts;
    } cases[] = {{"gfx942", CKCONV_F32, 64, 56, "gpu_mfma_fwd_f32"},
                 {"gfx1100", CKCONV_F32, 64, 56, "gpu_tile_fwd"},
                 {"sm_90", CKCONV_F32, 256, 14, "gpu_tile_fwd"},
                 {"gfx1030", CKCONV_F16, 256, 14, "gpu_vector_fwd"},
                 {"gfx942", CKCONV_F16, 256, 14, "gpu_mfma_fwd"},
                 {"gfx1100", CKCONV_F16, 256, 28, "gpu_wmma_fwd"},
                 {"sm_90", CKCONV_BF16, 256, 28, "gpu_mma_fwd"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckconv_conv_conv_desc d;
        ckconv_plan plan;
        ckconv_error err;
        char text[1024];
        const ckconv_device gpu = named(cases[i].arch);
        memset(&d, 0, sizeof d);
        d.conv0 = cube(2, cases[i].size, 3, 1, 1);
        d.conv0.in.dtype = cases[i].dtype;
        d.conv0.n = 16;
        d.conv0.k = d.conv0.c = d.k1 = cases[i].channels;
        CHECK_OK(ckconv_plan_conv_conv(&plan, &d, NULL, &gpu, &err), err);
        ckconv_plan_describe(&plan, text, sizeof text);
        const char *first = strstr(text, cases[i].parts);
        CHECK_MSG(first != NULL && strstr(first + 1, cases[i].parts) != NULL &&
                      strstr(text, "direct") == NULL,
                  "%s: %s", cases[i].arch, text);
    }
}

/* Few channels per group: the family that an H100 was fastest with, others took up to 35 times as long. */
static void few_plan(const char *arch, const int64_t *layer, ckconv_dtype type, ckconv_layout layout,
                     ckconv_op op, const char *expected)
{
    ckconv_plan plan;
    ckconv_error err;
    char text[1024];
    const ckconv_device gpu = named(arch);
    ckconv_conv_desc d = cube(2, 28, layer[3], layer[3] == 5 ? 2 : 1, 1);
    d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = layer[3] / 2;
    d.g = layer[0];
    d.n = 64;
    d.k = layer[1];
    d.c = layer[2];
    d.in.dtype = type;
    d.in.layout = layout;
    CHECK_OK(ckconv_plan_conv(&plan, op, &d, NULL, &gpu, &err), err);
    ckconv_plan_describe(&plan, text, sizeof text);
    CHECK_MSG(strstr(text, expected) != NULL, "%s, not %s", text, expected);
}

static void test_few(void)
{
    static const int64_t few[7][4] = {/* groups, k, c, filter */
                                      {96, 2, 1, 3}, {96, 1, 2, 3}, {96, 2, 2, 3}, {64, 4, 1, 3},
                                      {96, 2, 1, 5}, {32, 8, 1, 3}, {32, 8, 4, 3}};
    static const char *const archs[3] = {"sm_90", "gfx942", "gfx1100"};
    for (int i = 0; i < 3 * 7; i++) {
        const int64_t *layer = few[i % 7];
        const char *arch = archs[i / 7];
        if (i % 7 < 5) {
            few_plan(arch, layer, CKCONV_F32, CKCONV_NHWGC, CKCONV_FWD, "gpu_depthwise_fwd");
            few_plan(arch, layer, CKCONV_F32, CKCONV_NGCHW, CKCONV_FWD, "gpu_depthwise_fwd");
            few_plan(arch, layer, CKCONV_F32, CKCONV_NHWGC, CKCONV_BWD_WEIGHT, "gpu_depthwise_bwd_weight");
        } else {
            few_plan(arch, layer, CKCONV_F16, CKCONV_NGCHW, CKCONV_BWD_WEIGHT, "ma_bwd_weight_");
            few_plan(arch, layer, CKCONV_F16, CKCONV_NHWGC, CKCONV_FWD, "ma_fwd_");
        }
        few_plan(arch, layer, CKCONV_F16, CKCONV_NHWGC, CKCONV_BWD_WEIGHT,
                 layer[3] != 5 ? "ma_bwd_weight_near"
                 : i / 7 == 2  ? "_bwd_weight" /* the slower the unit, the better depthwise kernels */
                               : "ma_bwd_weight_");
    }
}

/* Channels first on matrix units: 1x1 layers are a product for each image, which reads and writes tensors as
   they lie where a plane is a multiple of 16 bytes; else tensors that only lie otherwise, weights too, are
   moved by the kernels of transforms, before and after, not packed or written element by element. `kernels`:
   the first letters of each launch. */
static void test_channels_first(void)
{
    static const struct {
        const char *arch;
        ckconv_op op;
        int64_t k, c, filter, input;
        const char *kernels[5];
    } rows[] = {
        {"sm_90", CKCONV_FWD, 256, 160, 1, 56, {"matrix_tma_back"}},
        {"sm_80", CKCONV_FWD, 24, 160, 1, 56, {"matrix_back"}},
        {"gfx942", CKCONV_FWD, 256, 160, 1, 56, {"move_turn", "matrix_wide"}},
        {"gfx1100", CKCONV_FWD, 256, 160, 1, 56, {"move_turn", "matrix_gather"}},
        /* few channels past weights in LDS, planes of fours, too */
        {"sm_90", CKCONV_FWD, 24, 40, 1, 56, {"matrix_planes_64"}},
        {"gfx942", CKCONV_FWD, 24, 40, 1, 14, {"matrix_planes_64"}},
        {"gfx1100", CKCONV_BWD_DATA, 32, 40, 1, 14, {"matrix_planes_32"}},
        /* weights across the reduction, where 16 bytes of them are a load */
        {"sm_90", CKCONV_BWD_DATA, 256, 64, 1, 56, {"matrix_tma_back"}},
        {"sm_90", CKCONV_BWD_DATA, 256, 76, 1, 56, {"move_turn", "matrix_tma_back"}},
        {"sm_90", CKCONV_BWD_DATA, 150, 64, 1, 56, {"matrix_tma_back"}},
        /* planes of fours: threads copy them beside the TMA */
        {"sm_90", CKCONV_FWD, 64, 384, 1, 14, {"matrix_tma_back"}},
        {"sm_90", CKCONV_BWD_DATA, 384, 64, 1, 14, {"matrix_tma_back"}},
        {"sm_90", CKCONV_BWD_WEIGHT, 256, 64, 1, 56, {"matrix_gather", "reduce"}},
        {"gfx942", CKCONV_BWD_WEIGHT, 256, 64, 1, 56, {"matrix_gather", "reduce"}},
        /* more than 2^30 elements: not as images, but on the matrix unit */
        {"sm_90", CKCONV_FWD, 64, 64, 1, 640, {"matrix_planes_64"}},
        {"sm_90", CKCONV_FWD, 64, 136, 1, 640, {"move_turn", "matrix_tma_gather"}},
        {"sm_90", CKCONV_BWD_DATA, 136, 64, 1, 640, {"move_turn", "matrix_tma"}},
        {"gfx942", CKCONV_FWD, 64, 136, 1, 640, {"move_turn", "matrix_gather"}},
        {"sm_90", CKCONV_FWD, 256, 64, 1, 57, {"move_turn", "matrix_tma_gather"}}, /* planes are written */
        {"sm_90", CKCONV_BWD_DATA, 256, 64, 1, 57, {"move_turn", "matrix_tma"}},
        {"sm_90",
         CKCONV_BWD_WEIGHT,
         256,
         64,
         1,
         57,
         {"move_turn", "matrix_tma_weight", "reduce"}}, /* both in one launch */
        {"sm_90", CKCONV_FWD, 512, 512, 3, 14, {"move_turn", "matrix_tma"}},
        {"sm_90", CKCONV_BWD_DATA, 512, 512, 3, 14, {"move_turn", "matrix_tma"}},
        /* and those that the unit reads along the reduction */
        {"gfx942", CKCONV_BWD_DATA, 512, 512, 3, 14, {"move_turn", "matrix_wide", "gather_reduce"}},
        {"gfx1100", CKCONV_BWD_DATA, 512, 512, 3, 14, {"move_turn", "matrix_gather"}},
        {"sm_80", CKCONV_BWD_DATA, 512, 100, 3, 14, {"move_turn", "matrix_gather"}},
        {"sm_80", CKCONV_FWD, 512, 512, 3, 16, {"move_turn", "matrix_gather"}},
        {"sm_80", CKCONV_FWD, 512, 512, 3, 14, {"move_turn", "matrix_gather", "move_turn"}}, /* no eights */
        {"sm_90", CKCONV_BWD_WEIGHT, 1024, 512, 3, 5, {"move_turn", "matrix_tma_weight", "move_turn"}},
        {"sm_90",
         CKCONV_FWD,
         256,
         60,
         1,
         56,
         {"pack", "pack_data", "matrix_tma_gather"}}, /* zeros beside channels */
    };
    for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]); i++) {
        static ckconv_launch l[8];
        ckconv_conv_desc d = cube(2, rows[i].input, rows[i].filter, 1, 1);
        ckconv_device device;
        ckconv_error err;
        ckconv_plan plan;
        ckconv_args a;
        int32_t count = 0;
        d.n = 64;
        d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = rows[i].filter / 2;
        d.k = rows[i].k;
        d.c = rows[i].c;
        d.in.dtype = CKCONV_BF16;
        d.in.layout = d.out.layout = CKCONV_NGCHW;
        d.wei.layout = CKCONV_GKCYX;
        memset(&a, 0, sizeof a);
        a.in = a.out = a.din = (void *)((uintptr_t)1 << 50);
        a.wei = a.dwei = (void *)((uintptr_t)2 << 50);
        a.dout = (void *)((uintptr_t)3 << 50);
        a.in = rows[i].op == CKCONV_BWD_DATA ? NULL : a.in;
        a.out = rows[i].op == CKCONV_FWD ? (void *)((uintptr_t)3 << 50) : NULL;
        a.din = rows[i].op == CKCONV_BWD_DATA ? a.din : NULL;
        a.dout = rows[i].op == CKCONV_FWD ? NULL : a.dout;
        a.wei = rows[i].op == CKCONV_BWD_WEIGHT ? NULL : a.wei;
        a.dwei = rows[i].op == CKCONV_BWD_WEIGHT ? a.dwei : NULL;
        if (!CHECK_OK(ckconv_device_named(rows[i].arch, &device, &err), err) ||
            !CHECK_PLAN(ckconv_plan_conv(&plan, rows[i].op, &d, NULL, &device, &err), err) ||
            !CHECK_OK(ckconv_plan_launches(&plan, &a, (void *)((uintptr_t)4 << 50),
                                           (size_t)plan.workspace_bytes, l, 8, &count, &err),
                      err)) {
            continue;
        }
        for (int j = 0; j < 5; j++) {
            const char *name = j < count ? l[j].kernel + strlen("ckconv_k_") : "";
            const char *want = rows[i].kernels[j] != NULL ? rows[i].kernels[j] : "";
            CHECK_MSG(*want != '\0' ? strncmp(name, want, strlen(want)) == 0 : *name == '\0',
                      "row %d, launch %d is %s, not %s", i, j, name, want);
        }
    }
}

/* bwd_weight, channels first: tiles of the TMA read dout as it lies where planes have a multiple of 32
   positions, and nobody asks for dbias; in is turned unless its channels are last. */
static void test_dout_planes(void)
{
    static const struct {
        int64_t input, filter; /* 1: in has channels last */
        int bias, turned;      /* tensors */
    } rows[] = {{56, 3, 0, 1}, {48, 3, 0, 1}, {56, 3, 1, 2}, {28, 3, 0, 2},
                {57, 3, 0, 2}, {56, 1, 0, 0}, {28, 1, 0, 1}, {56, 1, 1, 1}};
    for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]); i++) {
        ckconv_conv_desc d = cube(2, rows[i].input, rows[i].filter, 1, 1);
        const ckconv_device gpu = named("sm_90");
        const int64_t bytes = 2 * 512 * 128 * rows[i].input * rows[i].input; /* sums of parts have less */
        ckconv_options o;
        ckconv_error err;
        ckconv_plan plan;
        memset(&o, 0, sizeof o);
        d.n = 512;
        d.k = d.c = 128;
        d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = rows[i].filter / 2;
        d.in.dtype = CKCONV_BF16;
        d.in.layout = rows[i].filter == 1 ? CKCONV_NHWGC : CKCONV_NGCHW;
        d.out.layout = CKCONV_NGCHW;
        d.wei.layout = CKCONV_GKCYX;
        d.dbias = rows[i].bias ? CKCONV_F32 : 0;
        o.instance = "gpu_mma_bwd_weight_tma_128x256";
        if (!CHECK_PLAN(ckconv_plan_conv(&plan, CKCONV_BWD_WEIGHT, &d, &o, &gpu, &err), err)) {
            continue;
        }
        CHECK_MSG(plan.workspace_bytes >= rows[i].turned * bytes &&
                      plan.workspace_bytes < (rows[i].turned + 1) * bytes,
                  "row %d: %lld bytes of workspace, tensors have %lld", i, (long long)plan.workspace_bytes,
                  (long long)bytes);
    }
}

/* Channels first: d.n images of k = c = `channels`, 3 x 3, in bf16. */
static ckconv_conv_desc planes_of(int64_t n, int64_t channels, int64_t input, int64_t stride)
{
    ckconv_conv_desc d = cube(2, input, 3, stride, 1);
    d.n = n;
    d.k = d.c = channels;
    d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = 1;
    d.in.dtype = CKCONV_BF16;
    d.in.layout = d.out.layout = CKCONV_NGCHW;
    d.wei.layout = CKCONV_GKCYX;
    return d;
}

/* Its launches; -1: there is no plan. */
static int32_t list_planes(ckconv_op op, const ckconv_conv_desc *d, const ckconv_options *o,
                           const ckconv_device *gpu, ckconv_plan *plan, ckconv_launch *l)
{
    const int back = op == CKCONV_BWD_DATA;
    ckconv_error err;
    ckconv_args a;
    int32_t count = 0;
    memset(&a, 0, sizeof a);
    a.in = back ? NULL : (void *)((uintptr_t)1 << 50);
    a.dout = back ? (void *)((uintptr_t)1 << 50) : NULL;
    a.wei = (void *)((uintptr_t)2 << 50);
    a.out = back ? NULL : (void *)((uintptr_t)3 << 50);
    a.din = back ? (void *)((uintptr_t)3 << 50) : NULL;
    a.d[0] = d->num_d ? (void *)((uintptr_t)4 << 50) : NULL;
    return CHECK_PLAN(ckconv_plan_conv(plan, op, d, o, gpu, &err), err) &&
                   CHECK_OK(ckconv_plan_launches(plan, &a, (void *)((uintptr_t)5 << 50),
                                                 (size_t)plan->workspace_bytes, l, 8, &count, &err),
                            err)
               ? count
               : -1;
}

/* Channels first, what tiles of fragments write is not turned, nor is a residual: two launches, the operands'
   and the product, and workspace for those alone. Planes that NVIDIA cannot store by 16 bytes, outputs of
   bwd_data with strides, epilogues that act element by element, and sm_90's fragments turn it. */
static void test_planes(void)
{
    static const struct {
        const char *arch, *tile;
        ckconv_op op;
        int64_t input, stride;
        ckconv_element kind;
        int turned;
    } rows[] = {
        {"gfx942", "mfma_fwd_128x128", CKCONV_FWD, 28, 1, CKCONV_PASS, 0},
        {"gfx942", "mfma_fwd_128x128", CKCONV_FWD, 28, 1, CKCONV_ADD_RELU, 0},
        {"gfx942", "mfma_fwd_128x128", CKCONV_FWD, 27, 1, CKCONV_ADD_RELU, 0},
        {"gfx942", "mfma_fwd_128x128", CKCONV_FWD, 56, 2, CKCONV_PASS, 0},
        {"gfx942", "mfma_fwd_128x128", CKCONV_FWD, 5, 1, CKCONV_PASS, 1}, /* most eights lie in two images */
        {"gfx942", "mfma_bwd_data_128x128", CKCONV_BWD_DATA, 28, 1, CKCONV_ADD_RELU, 0},
        {"gfx942", "mfma_bwd_data_128x128", CKCONV_BWD_DATA, 28, 2, CKCONV_PASS, 1},
        {"gfx1100", "wmma_fwd_128x128", CKCONV_FWD, 28, 1, CKCONV_ADD_RELU, 0},
        {"gfx1100", "wmma_bwd_data_128x128", CKCONV_BWD_DATA, 27, 1, CKCONV_PASS, 0},
        {"gfx90a", "mfma_fwd_64x64", CKCONV_FWD, 28, 1, CKCONV_ADD_RELU, 0},
        {"sm_80", "mma_fwd_128x128", CKCONV_FWD, 28, 1, CKCONV_ADD_RELU, 0},
        {"sm_80", "mma_fwd_128x128", CKCONV_FWD, 27, 1, CKCONV_PASS, 1},
        {"sm_80", "mma_bwd_data_64x64", CKCONV_BWD_DATA, 28, 1, CKCONV_PASS, 0},
        {"sm_80", "mma_bwd_data_64x64", CKCONV_BWD_DATA, 28, 2, CKCONV_PASS, 1},
        {"sm_90", "mma_fwd_128x128", CKCONV_FWD, 28, 1, CKCONV_PASS, 0}, /* groups of waves */
        {"sm_90", "mma_bwd_data_512x64", CKCONV_BWD_DATA, 28, 1, CKCONV_ADD_RELU, 0},
        {"sm_90", "mma_fwd_512x64", CKCONV_FWD, 27, 1, CKCONV_PASS, 1},
        {"sm_90", "mma_fwd_64x64", CKCONV_FWD, 28, 1, CKCONV_PASS, 1},
    };
    for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]); i++) {
        const int back = rows[i].op == CKCONV_BWD_DATA;
        ckconv_conv_desc d = planes_of(rows[i].input == 5 ? 2000 : 64, 128, rows[i].input, rows[i].stride);
        const ckconv_device gpu = named(rows[i].arch);
        char instance[64];
        ckconv_launch l[8];
        ckconv_options o;
        ckconv_plan plan;
        memset(&o, 0, sizeof o);
        snprintf(instance, sizeof instance, "gpu_%s", rows[i].tile);
        o.instance = instance;
        (back ? &d.op_in : &d.op_out)->kind = rows[i].kind;
        d.num_d = rows[i].kind == CKCONV_ADD_RELU;
        const int32_t count = list_planes(rows[i].op, &d, &o, &gpu, &plan, l);
        int moves = 0, last = 0;
        for (int32_t j = 0; j < count && j < 8; j++) {
            last = strstr(l[j].kernel, "move_turn") != NULL;
            moves += last;
        }
        const int64_t edge = back ? (rows[i].input + rows[i].stride - 1) / rows[i].stride : rows[i].input;
        const int64_t written = back ? rows[i].input : (rows[i].input - 1) / rows[i].stride + 1;
        const int64_t read = d.n * d.k * edge * edge * 2, out = d.n * d.k * written * written * 2;
        const int64_t most = read + 9 * 128 * 128 * 2 + 1024 + (rows[i].turned ? out : 0);
        CHECK_MSG(count == 2 + rows[i].turned && moves == 1 + rows[i].turned && last == rows[i].turned &&
                      plan.workspace_bytes <= most && plan.workspace_bytes > most - 2048,
                  "row %d: %d launches, %d turn, workspace %lld of %lld", i, (int)count, moves,
                  (long long)plan.workspace_bytes, (long long)most);
    }
}

/* Channels first, what is written is turned where that are no planes (bwd_data with strides), and so is a
   residual: weights and what is read in one launch, the residual, the product, what it wrote. Without
   workspace for the residual nothing written is turned. */
static void test_beside(void)
{
    static const char *const archs[] = {"gfx942", "gfx1100", "sm_80"};
    static const char *const units[] = {"mfma", "wmma", "mma"};
    for (int i = 0; i < 3 * 2; i++) {
        const int less = i % 2;
        ckconv_conv_desc d = planes_of(16, 128, 28, 2);
        const ckconv_device gpu = named(archs[i / 2]);
        char instance[64];
        ckconv_launch l[8];
        ckconv_options o;
        ckconv_plan plan;
        memset(&o, 0, sizeof o);
        snprintf(instance, sizeof instance, "gpu_%s_bwd_data_128x128", units[i / 2]);
        o.instance = instance;
        o.max_workspace = less ? 6000000 : 0; /* what is written has 3.2 MB */
        d.op_in.kind = CKCONV_ADD_RELU;
        d.num_d = 1;
        const int32_t count = list_planes(CKCONV_BWD_DATA, &d, &o, &gpu, &plan, l);
        int moves = 0, last = 0;
        for (int32_t j = 0; j < count && j < 8; j++) {
            last = strstr(l[j].kernel, "move_turn") != NULL;
            moves += last;
        }
        CHECK_MSG(less ? moves == 1 && !last : moves == 3 && last, "%s, %s, %d bytes: %d moves", gpu.arch,
                  o.instance, (int)plan.workspace_bytes, moves);
    }
}

/* Weights in f32 beside bf16 tensors are rounded by the kernels of transforms, bwd_data's turned with it. */
static void test_mixed(void)
{
    static const char *const archs[] = {"gfx942", "gfx1100", "sm_80", "sm_90"};
    for (int i = 0; i < 4 * 2 * 2; i++) {
        ckconv_conv_desc d = cube(2, 28, 3, 1, 1);
        ckconv_plan plan;
        ckconv_error err;
        char text[1024];
        const ckconv_device gpu = named(archs[i / 4]);
        d.n = 16;
        d.k = d.c = 128;
        d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = 1;
        d.in.dtype = d.out.dtype = d.compute_wei = CKCONV_BF16;
        d.wei.dtype = CKCONV_F32;
        d.wei.layout = i / 2 % 2 ? CKCONV_GKCYX : CKCONV_GKYXC;
        CHECK_PLAN(ckconv_plan_conv(&plan, i % 2 ? CKCONV_BWD_DATA : CKCONV_FWD, &d, NULL, &gpu, &err), err);
        ckconv_plan_describe(&plan, text, sizeof text);
        CHECK_MSG(strstr(text, "kernels ckconv_k_move_convert_2, ckconv_k_matrix_") != NULL, "%s", text);
    }
}

/* Depthwise, channels first: planes in LDS whatever the closed epilogue; not curves, nor, on NVIDIA, a
   residual that lies otherwise in its 16 bytes. */
static void test_sheets(void)
{
    static const struct {
        ckconv_element kind;
        int numbers, residual; /* D tensors with a number a channel, as the output */
        int off[2];            /* bytes off 16 of D tensors, out */
        int sheet;             /* on AMD, NVIDIA: bits 0, 1 */
    } rows[] = {
        {CKCONV_PASS, 0, 0, {0, 0}, 3},
        {CKCONV_RELU, 0, 0, {0, 0}, 3},
        {CKCONV_BIAS, 1, 0, {0, 0}, 3},
        {CKCONV_ADD_RELU, 0, 1, {0, 0}, 3},
        {CKCONV_ADD_RELU, 0, 1, {4, 0}, 0},
        {CKCONV_ADD_RELU, 0, 1, {0, 2}, 1},
        {CKCONV_BIAS_RESIDUAL_RELU, 1, 1, {0, 0}, 3},
        {CKCONV_SCALE_SHIFT, 2, 0, {0, 0}, 3},
        {CKCONV_BILINEAR, 0, 1, {0, 0}, 3},
        {CKCONV_SILU, 0, 0, {0, 0}, 0},
        {CKCONV_BIAS_SILU, 1, 0, {0, 0}, 0},
        {CKCONV_ADD, 0, 2, {0, 0}, 0},
    };
    static const struct {
        int64_t filter, stride;
        const char *kernel;
    } filters[] = {{3, 1, "sheet_3"}, {3, 2, "sheet_3_second"}, {5, 1, "sheet_5"}, {7, 1, "sheet_7"}};
    for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]) * 4 * 2; i++) {
        const int row = i / 8, filter = i / 2 % 4;
        ckconv_conv_desc d = cube(2, 14, filters[filter].filter, filters[filter].stride, 1);
        ckconv_launch l[8];
        ckconv_error err;
        ckconv_plan plan;
        ckconv_args a;
        int32_t count = 0;
        const ckconv_device gpu = named(i % 2 ? "sm_90" : "gfx942");
        d.g = 48;
        d.n = 16;
        d.k = d.c = 1;
        d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = filters[filter].filter / 2;
        d.in.dtype = CKCONV_F16;
        d.in.layout = CKCONV_NGCHW;
        d.op_out.kind = rows[row].kind;
        d.op_out.alpha = d.op_out.beta = rows[row].kind == CKCONV_BILINEAR ? 2 : 0;
        d.num_d = rows[row].numbers + rows[row].residual;
        memset(&a, 0, sizeof a);
        for (int j = 0; j < d.num_d; j++) {
            d.d[j].layout = j < rows[row].numbers ? CKCONV_CHANNEL : 0;
            a.d[j] = (void *)(((uintptr_t)4 << 50) + (uintptr_t)rows[row].off[0]);
        }
        a.in = (void *)((uintptr_t)1 << 50);
        a.wei = (void *)((uintptr_t)2 << 50);
        a.out = (void *)(((uintptr_t)3 << 50) + (uintptr_t)rows[row].off[1]);
        if (!CHECK_PLAN(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, &gpu, &err), err) ||
            !CHECK_OK(ckconv_plan_launches(&plan, &a, (void *)((uintptr_t)5 << 50),
                                           (size_t)plan.workspace_bytes, l, 8, &count, &err),
                      err)) {
            continue;
        }
        const char *name = count > 0 ? l[count - 1].kernel + strlen("ckconv_k_depth_half_") : "";
        CHECK_MSG((strcmp(name, filters[filter].kernel) == 0) == (rows[row].sheet >> i % 2 & 1),
                  "row %d, filter %d, stride %d on %s: %s", row, (int)filters[filter].filter,
                  (int)filters[filter].stride, gpu.arch, count > 0 ? l[count - 1].kernel : "nothing");
    }
}

/* bwd_data with strides: tiles of the TMA take it where sums are long and few, others where what is written
   is large, or where a tensor is added that lies like it. */
static void test_strides(void)
{
    static const struct {
        const char *arch;
        int64_t n, channels, filter, input, stride;
        int residual;
        const char *kernel;
    } rows[] = {
        {"sm_90", 4, 1280, 3, 16, 2, 0, "matrix_tma_phase_128x128"},
        {"sm_90", 8, 512, 5, 14, 3, 0, "matrix_tma_phase_"},
        {"sm_90", 4, 1280, 3, 16, 2, 1, "matrix_back_"},
        {"sm_90", 64, 256, 3, 56, 2, 0, "matrix_back_256x128"},
        {"sm_80", 4, 1280, 3, 16, 2, 0, "matrix_back_"},
        {"gfx942", 4, 1280, 3, 16, 2, 0, "matrix_"},
        {"gfx1100", 4, 1280, 3, 16, 2, 0, "matrix_"},
    };
    for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]); i++) {
        ckconv_conv_desc d = cube(2, rows[i].input, rows[i].filter, rows[i].stride, 1);
        ckconv_launch l[8];
        ckconv_device device;
        ckconv_error err;
        ckconv_plan plan;
        ckconv_args a;
        int32_t count = 0;
        d.n = rows[i].n;
        d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = rows[i].filter / 2;
        d.k = d.c = rows[i].channels;
        d.in.dtype = CKCONV_BF16;
        memset(&a, 0, sizeof a);
        if (rows[i].residual) {
            d.op_in.kind = CKCONV_ADD;
            d.num_d = 1;
            a.d[0] = (void *)((uintptr_t)5 << 50);
        }
        a.din = (void *)((uintptr_t)1 << 50);
        a.wei = (void *)((uintptr_t)2 << 50);
        a.dout = (void *)((uintptr_t)3 << 50);
        if (CHECK_OK(ckconv_device_named(rows[i].arch, &device, &err), err) &&
            CHECK_PLAN(ckconv_plan_conv(&plan, CKCONV_BWD_DATA, &d, NULL, &device, &err), err) &&
            CHECK_OK(ckconv_plan_launches(&plan, &a, (void *)((uintptr_t)4 << 50),
                                          (size_t)plan.workspace_bytes, l, 8, &count, &err),
                     err)) {
            const char *name = count > 0 ? l[count - 1].kernel + strlen("ckconv_k_") : "";
            CHECK_MSG(strncmp(name, rows[i].kernel, strlen(rows[i].kernel)) == 0, "row %d: %s, not %s", i,
                      name, rows[i].kernel);
        }
    }
}

/* Filters of any size on matrix units: in sections, or as rows of patches where they step by their own
   size. */
static void test_large_filters(void)
{
    static const struct {
        int32_t ndim;
        int64_t k, c, filter[3], input[3], stride[3];
    } rows[] = {
        {2, 64, 64, {2, 29}, {64, 128}, {1, 1}},
        {2, 64, 64, {11, 13}, {56, 56}, {1, 1}},
        {2, 64, 64, {16, 16}, {64, 64}, {1, 1}},
        {1, 64, 64, {200}, {4000}, {1}},
        {3, 64, 32, {5, 5, 6}, {16, 32, 32}, {1, 1, 1}},
        {2, 64, 64, {13, 13}, {64, 64}, {2, 2}},
        {2, 1024, 3, {32, 32}, {224, 224}, {32, 32}},
        {2, 768, 3, {16, 16}, {224, 224}, {16, 16}},
        {2, 1280, 3, {14, 14}, {224, 224}, {14, 14}},
        {2, 64, 64, {31, 31}, {96, 96}, {1, 1}},
        {1, 512, 512, {1024}, {8192}, {4}},
    };
    static const char *const archs[] = {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "sm_80", "sm_90"};
    static const ckconv_op ops[3] = {CKCONV_FWD, CKCONV_BWD_DATA, CKCONV_BWD_WEIGHT};
    const int count = (int)(sizeof rows / sizeof rows[0]);
    for (int i = 0; i < count * 7 * 3 * 2; i++) {
        const int row = i % count, first = i / count / 21;
        const ckconv_op op = ops[i / count % 3];
        const ckconv_device gpu = named(archs[i / count / 3 % 7]);
        ckconv_conv_desc d;
        ckconv_plan plan;
        ckconv_error err;
        memset(&d, 0, sizeof d);
        d.ndim = rows[row].ndim;
        d.n = 32;
        d.k = rows[row].k;
        d.c = rows[row].c;
        d.in.dtype = i % 2 ? CKCONV_F16 : CKCONV_BF16;
        d.in.layout = first ? CKCONV_NGCHW : CKCONV_NHWGC;
        d.wei.layout = first ? CKCONV_GKCYX : CKCONV_GKYXC;
        for (int j = 0; j < d.ndim; j++) {
            d.filter[j] = rows[row].filter[j];
            d.input[j] = rows[row].input[j];
            d.stride[j] = rows[row].stride[j];
            d.pad_lo[j] = d.pad_hi[j] = d.stride[j] == d.filter[j] ? 0 : d.filter[j] / 2;
        }
        if (CHECK_PLAN(ckconv_plan_conv(&plan, op, &d, NULL, &gpu, &err), err)) {
            const char *name = ckconv_instance_name(plan.instance);
            CHECK_MSG(strncmp(name, "gpu_vector", 10) != 0 && strncmp(name, "gpu_direct", 10) != 0,
                      "row %d, %s on %s, channels %s: %s", row, ckconv_op_name(op), gpu.arch,
                      first ? "first" : "last", name);
        }
    }
}

/* Limits of workspace for o->instance, whose own tensor has `bytes`: that is counted, and what the layer that
   is left takes beside it; `least` bytes are too few. */
static void check_room(ckconv_op op, const ckconv_conv_desc *d, ckconv_options *o, const ckconv_device *gpu,
                       int64_t bytes, int64_t least, int row)
{
    ckconv_plan plan;
    ckconv_error err;
    o->max_workspace = least;
    CHECK(ckconv_plan_conv(&plan, op, d, o, gpu, &err) == CKCONV_ERR_WORKSPACE);
    for (int64_t room = 1; room < 8; room++) {
        o->max_workspace = bytes * room + 4096;
        if (CHECK_PLAN(ckconv_plan_conv(&plan, op, d, o, gpu, &err), err)) {
            CHECK_MSG(plan.workspace_bytes >= bytes && plan.workspace_bytes <= o->max_workspace,
                      "%s, row %d: %lld bytes of workspace", gpu->arch, row, (long long)plan.workspace_bytes);
        }
    }
}

/* Layers of one tap with strides, channels first: positions are sampled, so that no launch turns the whole
   input. `by`: fwd, bwd_data and bwd_weight, of sm_90, gfx942 and gfx1100 (?: both take about as long); where
   planes are no multiples of 8 positions, what is sampled is turned, and that may take longer than to turn
   all. Channels last nothing is sampled. Workspace is the sampled tensor and what the layer without strides
   takes. */
static void test_samples(void)
{
    static const char *const archs[] = {"sm_90", "gfx942", "gfx1100"};
    static const struct {
        int32_t ndim;
        int64_t n, k, c, input[3];
        const char *by[3];
    } rows[] = {
        {2, 64, 512, 256, {56, 56, 0}, {"111", "??1", "?11"}},
        {2, 64, 1024, 512, {28, 28, 0}, {"01?", "000", "0?0"}},
        {2, 64, 2048, 1024, {14, 14, 0}, {"000", "000", "000"}},
        {3, 8, 128, 64, {16, 56, 56}, {"111", "111", "111"}},
        {2, 64, 128, 64, {56, 56, 0}, {"111", "1?1", "111"}},
    };
    for (int i = 0; i < 5 * 3 * 3 * 2; i++) {
        const int row = i % 5, arch = i / 5 % 3, pass = i / 15 % 3, last = i / 45;
        const ckconv_op op = (ckconv_op)(CKCONV_FWD + pass);
        const ckconv_device gpu = named(archs[arch]);
        const char due = last ? '0' : rows[row].by[arch][pass];
        ckconv_conv_desc d = cube(rows[row].ndim, 1, 1, 2, 1);
        ckconv_plan plan;
        ckconv_error err;
        ckconv_options o;
        char name[32];
        int64_t sampled = rows[row].n * rows[row].c * 2;
        memset(&o, 0, sizeof o);
        d.n = rows[row].n;
        d.k = rows[row].k;
        d.c = rows[row].c;
        for (int j = 0; j < d.ndim; j++) {
            d.input[j] = rows[row].input[j];
            sampled *= (d.input[j] + 1) / 2;
        }
        d.in.dtype = CKCONV_BF16;
        d.in.layout = last ? CKCONV_NHWGC : CKCONV_NGCHW;
        d.wei.layout = CKCONV_GKCYX;
        snprintf(name, sizeof name, "gpu_sample_%s", ckconv_op_name(op));
        if (CHECK_PLAN(ckconv_plan_conv(&plan, op, &d, NULL, &gpu, &err), err)) {
            const int is = strcmp(ckconv_instance_name(plan.instance), name) == 0;
            CHECK_MSG(due == '?' || is == (due == '1'), "%s, row %d: %s", gpu.arch, row,
                      ckconv_instance_name(plan.instance));
            ckconv_conv_desc dense = d;
            ckconv_plan rest;
            for (int j = 0; j < d.ndim; j++) {
                dense.input[j] = (d.input[j] + 1) / 2;
                dense.stride[j] = 1;
            }
            if (is && CHECK_PLAN(ckconv_plan_conv(&rest, op, &dense, NULL, &gpu, &err), err)) {
                const int64_t beside = plan.workspace_bytes - rest.workspace_bytes;
                CHECK_MSG(beside >= sampled && beside < sampled + 512, "%s, row %d: %lld bytes of workspace",
                          gpu.arch, row, (long long)plan.workspace_bytes);
            }
        }
        o.instance = name;
        if (last) {
            CHECK(ckconv_plan_conv(&plan, op, &d, &o, &gpu, &err) == CKCONV_ERR_UNSUPPORTED);
            continue;
        }
        check_room(op, &d, &o, &gpu, sampled, sampled, row);
    }
}

/* What samples do not take. */
static void test_sample_limits(void)
{
    const ckconv_device gpu = named("sm_90");
    for (int i = 0; i < 3 * 9; i++) {
        const ckconv_op op = (ckconv_op)(CKCONV_FWD + i % 3);
        const int way = i / 3, back = op == CKCONV_BWD_DATA;
        ckconv_conv_desc d = cube(2, 16, 1, 2, 1);
        ckconv_plan plan;
        ckconv_error err;
        ckconv_options o;
        char name[32];
        memset(&o, 0, sizeof o);
        d.n = 4;
        d.k = 32;
        d.c = 16;
        d.in.dtype = way == 1 ? CKCONV_F64 : CKCONV_F16;
        d.in.layout = CKCONV_NGCHW;
        d.wei.layout = CKCONV_GKCYX;
        d.stride[0] = d.stride[1] = way == 2 ? 1 : 2;
        d.filter[1] = way == 3 ? 3 : 1;
        d.pad_lo[0] = way == 4 ? 1 : 0;
        d.g = way == 5 ? 2 : 1;
        if (way == 6) {
            d.op_in.kind = CKCONV_RELU;
        }
        if (way == 7) {
            ckconv_element_op *written = back ? &d.op_in : op == CKCONV_FWD ? &d.op_out : &d.op_wei;
            written->kind = CKCONV_ADD;
            d.num_d = 1;
        }
        if (way == 8) {
            d.n = 40000;
            d.c = 256;
        }
        snprintf(name, sizeof name, "gpu_sample_%s", ckconv_op_name(op));
        o.instance = name;
        const int takes = way == 0 || (way == 7 && !back);
        CHECK_MSG((ckconv_plan_conv(&plan, op, &d, &o, &gpu, &err) == CKCONV_OK) == takes, "%s, way %d: %s",
                  name, way, err.text);
    }
}

/* Filters over few positions, weights with taps next to each other (GKCYX): a row of channels and taps for
   each position, so that weights, which are larger, are not turned. `by`: fwd, bwd_data and bwd_weight, of
   sm_90, gfx942 and gfx1100 (?: both take about as long). Workspace is the rows and what the layer of one tap
   takes. Weights with channels next to each other (GKYXC) are never turned, nor are there rows. */
static void test_columns(void)
{
    static const char *const archs[] = {"sm_90", "gfx942", "gfx1100"};
    static const struct {
        int64_t n, k, c, taps, input, stride;
        const char *by[3];
    } rows[] = {
        {4, 1280, 1280, 3, 8, 1, {"111", "1?1", "1?1"}},  {4, 1280, 2560, 3, 8, 1, {"111", "1?1", "1?1"}},
        {1, 512, 512, 3, 7, 1, {"111", "1?1", "1?1"}},    {1, 512, 256, 3, 14, 2, {"111", "111", "111"}},
        {64, 512, 512, 3, 7, 1, {"000", "000", "000"}},   {8, 64, 64, 3, 56, 1, {"000", "000", "000"}},
        {1, 2048, 2048, 3, 16, 1, {"111", "1?1", "1?1"}},
    };
    const int count = (int)(sizeof rows / sizeof rows[0]);
    for (int i = 0; i < count * 3 * 3 * 2; i++) {
        const int row = i % count, arch = i / count % 3, pass = i / count / 3 % 3, last = i / count / 9;
        const ckconv_op op = (ckconv_op)(CKCONV_FWD + pass);
        const ckconv_device gpu = named(archs[arch]);
        const char due = last ? '0' : rows[row].by[arch][pass];
        const int64_t taps = rows[row].taps, output = (rows[row].input - 1) / rows[row].stride + 1;
        const int64_t bytes =
            rows[row].n * output * output * rows[row].c * taps * taps * (op == CKCONV_BWD_DATA ? 4 : 2);
        ckconv_conv_desc d = cube(2, rows[row].input, taps, rows[row].stride, 1);
        ckconv_plan plan;
        ckconv_error err;
        ckconv_options o;
        char name[32];
        memset(&o, 0, sizeof o);
        d.n = rows[row].n;
        d.k = rows[row].k;
        d.c = rows[row].c;
        d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = taps / 2;
        d.in.dtype = CKCONV_BF16;
        d.in.layout = CKCONV_NGCHW;
        d.wei.layout = last ? CKCONV_GKYXC : CKCONV_GKCYX;
        snprintf(name, sizeof name, "gpu_im2col_%s", ckconv_op_name(op));
        if (CHECK_PLAN(ckconv_plan_conv(&plan, op, &d, NULL, &gpu, &err), err)) {
            const int is = strcmp(ckconv_instance_name(plan.instance), name) == 0;
            CHECK_MSG(due == '?' || is == (due == '1'), "%s, row %d, %s: %s", gpu.arch, row,
                      ckconv_op_name(op), ckconv_instance_name(plan.instance));
        }
        o.instance = name;
        const int few = 2 * rows[row].n * output * output <= rows[row].k;
        if (last || !few) {
            CHECK(ckconv_plan_conv(&plan, op, &d, &o, &gpu, &err) == CKCONV_ERR_UNSUPPORTED);
            continue;
        }
        check_room(op, &d, &o, &gpu, bytes, bytes - 1, row);
    }
}

/* Dilated filters: taps that tiles leave out take no time, and little dilation is as none.
   least, most: of the time without dilation. Of three taps along y, and 65 rows, tiles of 64 positions read
   .65, of 256 .69 in the mean with a dilation of 36, .77 to .81 with 24, .89 to .92 with 12. A single round
   of tiles is as long as those that lie in two images, which read all. */
static void test_dilation(void)
{
    static const char *const archs[] = {"sm_90", "sm_80", "gfx942", "gfx950", "gfx1100", "gfx90a"};
    static const struct {
        int64_t dilation;
        double least, most;
    } rows[] = {{2, 1, 1}, {4, 1, 1}, {12, .85, .97}, {24, .72, .89}, {36, .58, .8}};
    for (int i = 0; i < 6 * 2 * 2 * 5; i++) {
        const int row = i % 5, wide = i / 5 % 2;
        const ckconv_op op = i / 10 % 2 ? CKCONV_BWD_DATA : CKCONV_FWD;
        const ckconv_device gpu = named(archs[i / 20]);
        const int single = row == 4 && i / 20 == 2 && !wide; /* gfx942, 304 units: 66 tiles of 256 x 256 */
        double seconds[2] = {0, 0};
        for (int j = 0; j < 2; j++) {
            const int64_t dilation = j ? rows[row].dilation : 1;
            ckconv_conv_desc d = cube(2, 65, 3, 1, dilation);
            ckconv_plan plan;
            ckconv_error err;
            ckconv_options o;
            memset(&o, 0, sizeof o);
            d.n = 16;
            d.k = d.c = 2048;
            d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = dilation;
            d.in.dtype = wide ? CKCONV_F32 : CKCONV_BF16;
            if (single) {
                d.n = 4;
                d.k = d.c = 256;
                o.instance = op == CKCONV_FWD ? "gpu_mfma_fwd_256x256" : "gpu_mfma_bwd_data_256x256";
            }
            if (CHECK_PLAN(ckconv_plan_conv(&plan, op, &d, &o, &gpu, &err), err)) {
                seconds[j] = ckconv_plan_seconds(&plan);
            }
        }
        const double share = seconds[1] / seconds[0];
        CHECK_MSG(single ? share == 1 : share >= rows[row].least && share <= rows[row].most,
                  "%s, %s, %s, dilation %d: %.3f of the time without", gpu.arch, wide ? "f32" : "bf16",
                  ckconv_op_name(op), (int)rows[row].dilation, share);
    }
    for (int i = 0; i < 6; i++) { /* one tap is never left out, and takes its time on padding, too */
        const ckconv_device gpu = named(archs[i]);
        double seconds[2] = {0, 0};
        for (int j = 0; j < 2; j++) {
            ckconv_conv_desc d = cube(1, j ? 61000 : 1000, 1, 1, 1);
            ckconv_plan plan;
            ckconv_error err;
            d.n = 8;
            d.k = d.c = 512;
            d.pad_lo[0] = d.pad_hi[0] = j ? 0 : 30000;
            d.in.dtype = CKCONV_F16;
            if (CHECK_PLAN(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, &gpu, &err), err)) {
                seconds[j] = ckconv_plan_seconds(&plan);
            }
        }
        CHECK_MSG(seconds[0] > .9 * seconds[1], "%s: %g s beside padding, %g s without", gpu.arch, seconds[0],
                  seconds[1]);
    }
}

/* What such rows are not made of. */
static void test_column_limits(void)
{
    const ckconv_device gpu = named("sm_90");
    for (int i = 0; i < 3 * 9; i++) {
        const ckconv_op op = (ckconv_op)(CKCONV_FWD + i % 3);
        const int way = i / 3;
        ckconv_conv_desc d = cube(2, 6, 3, 1, 1);
        ckconv_plan plan;
        ckconv_error err;
        ckconv_options o;
        char name[32];
        memset(&o, 0, sizeof o);
        d.n = 2;
        d.k = way == 1 ? 63 : 64; /* 2 x 4 x 4 positions */
        d.c = way == 2 ? 12 : 16; /* 12 x 9 x 2 bytes */
        d.in.dtype = way == 3 ? CKCONV_F64 : CKCONV_F16;
        d.in.layout = CKCONV_NGCHW;
        d.wei.layout = way == 4 ? CKCONV_GKYXC : CKCONV_GKCYX;
        d.g = way == 5 ? 2 : 1;
        if (way == 6) {
            d.op_in.kind = CKCONV_RELU;
        }
        if (way == 7) {
            ckconv_element_op *written = op == CKCONV_BWD_DATA ? &d.op_in
                                         : op == CKCONV_FWD    ? &d.op_out
                                                               : &d.op_wei;
            written->kind = CKCONV_ADD;
            d.num_d = 1;
        }
        if (way == 8) {
            d.filter[0] = d.filter[1] = 1;
            d.input[0] = d.input[1] = 4;
        }
        snprintf(name, sizeof name, "gpu_im2col_%s", ckconv_op_name(op));
        o.instance = name;
        const int takes = way == 0 || (way == 7 && op == CKCONV_FWD);
        CHECK_MSG((ckconv_plan_conv(&plan, op, &d, &o, &gpu, &err) == CKCONV_OK) == takes, "%s, way %d: %s",
                  name, way, err.text);
    }
}

/* Few positions and a long reduction: parts of it fill the GPU; not where tiles do. */
/* A sum on a matrix unit that is added to in memory has no more pieces than its error allows: without
   workspace, and in one part, tiles leave 10^8 positions to kernels that carry what is lost. */
static void test_long_sums(void)
{
    static const char *const archs[] = {"gfx90a", "gfx942", "gfx1100", "sm_80", "sm_90"};
    static const int64_t rows[][4] = {{1, 64, 64, 1}, {1, 64, 64, 3}, {8, 1, 1, 1},
                                      {512, 1, 1, 5}, {32, 4, 4, 3},  {1, 64, 3, 3}};
    for (int i = 0; i < 6 * 5 * 4; i++) {
        const ckconv_device gpu = named(archs[i / 6 % 5]);
        ckconv_conv_desc d = cube(2, 512, rows[i % 6][3], 1, 1);
        ckconv_plan plan;
        ckconv_error err;
        ckconv_options o;
        memset(&o, 0, sizeof o);
        o.max_workspace = i / 60 ? -1 : 0;
        o.split_k = i / 60 ? 0 : 1;
        d.g = rows[i % 6][0];
        d.n = 382;
        d.k = rows[i % 6][1];
        d.c = rows[i % 6][2];
        d.in.dtype = CKCONV_BF16;
        d.wei.dtype = i / 30 % 2 ? CKCONV_F32 : CKCONV_BF16;
        d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = rows[i % 6][3] / 2;
        for (int32_t j = 0; j < ckconv_instance_count(); j++) {
            const ckconv_family family = ckconv_instance_family(j);
            const char *name = ckconv_instance_name(j);
            const int matrix = family == CKCONV_FAMILY_MMA || family == CKCONV_FAMILY_MFMA ||
                               family == CKCONV_FAMILY_WMMA || strstr(name, "depthwise_matrix");
            o.instance = name;
            if (!ckconv_instance_does(j, CKCONV_BWD_WEIGHT) ||
                ckconv_instance_engine(j) != CKCONV_ENGINE_GPU || !matrix) {
                continue;
            }
            CHECK_MSG(ckconv_plan_conv(&plan, CKCONV_BWD_WEIGHT, &d, &o, &gpu, &err) != CKCONV_OK,
                      "%d, %s: %s", i, gpu.arch, name);
        }
        o.instance = NULL;
        o.split_k = 0;
        CHECK_OK(ckconv_plan_conv(&plan, CKCONV_BWD_WEIGHT, &d, &o, &gpu, &err), err);
    }
}

/* Spaces of one pixel: one launch, whatever the channels; large products stay with tiles. */
static void test_pixels(void)
{
    static const int64_t rows[][3] = {{64, 480, 20}, {64, 20, 480}, {64, 6, 144},
                                      {32, 54, 216}, {1, 10, 64},   {8192, 4096, 4096}};
    static const char *const archs[] = {"gfx90a", "gfx942", "gfx1100", "gfx1201", "sm_80", "sm_90"};
    const int count = (int)(sizeof rows / sizeof rows[0]);
    for (int i = 0; i < count * 6 * 3; i++) {
        const ckconv_device gpu = named(archs[i / count % 6]);
        ckconv_conv_desc d = cube(2, 1, 1, 1, 1);
        ckconv_plan plan;
        ckconv_error err;
        d.n = rows[i % count][0];
        d.k = rows[i % count][1];
        d.c = rows[i % count][2];
        d.in.dtype = i % 2 ? CKCONV_F16 : CKCONV_BF16;
        if (CHECK_PLAN(ckconv_plan_conv(&plan, i / count / 6 + 1, &d, NULL, &gpu, &err), err)) {
            const char *name = ckconv_instance_name(plan.instance);
            CHECK_MSG((strncmp(name, "gpu_pixel", 9) == 0) == (d.n <= 64) &&
                          (d.n > 64 || (plan.launches == 1 && plan.workspace_bytes == 0)),
                      "%d: %s", i, name);
        }
    }
}

/* Several blocks for each of sm_90's tiles that the TMA brings: of a cluster, if not of parts. */
static int has_clusters(const char *text, int64_t rows, int64_t columns)
{
    const char *tile = strstr(text, "tile "), *on = strstr(text, "on sm_90, ");
    int high = 0, wide = 0, blocks = 0;
    return strstr(text, "_tma_") && tile && on && sscanf(tile, "tile %dx%d", &high, &wide) == 2 &&
           sscanf(on, "on sm_90, %d blocks", &blocks) == 1 && high > 0 && wide > 0 &&
           blocks > (rows + high - 1) / high * ((columns + wide - 1) / wide);
}

static void test_few_positions(void)
{
    static const struct {
        int64_t n, k, c, input, filter;
        int split;
    } rows[] = {
        {4, 1280, 1280, 8, 3, 1}, {8, 512, 512, 7, 3, 1},  {1, 256, 256, 4, 3, 1},
        {64, 64, 64, 56, 3, 0},   {64, 256, 64, 56, 1, 0},
    };
    static const char *const archs[3] = {"sm_90", "gfx942", "gfx1100"};
    for (int i = 0; i < 5 * 3 * 4; i++) {
        const int row = i % 5;
        const ckconv_op op = i / 15 % 2 ? CKCONV_BWD_DATA : CKCONV_FWD;
        const ckconv_device gpu = named(archs[i / 5 % 3]);
        ckconv_conv_desc d = cube(2, rows[row].input, rows[row].filter, 1, 1);
        ckconv_plan plan;
        ckconv_error err;
        char text[1024];
        d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = rows[row].filter / 2;
        d.n = rows[row].n;
        d.k = rows[row].k;
        d.c = rows[row].c;
        d.in.dtype = i / 30 ? CKCONV_F32 : CKCONV_BF16;
        if (CHECK_PLAN(ckconv_plan_conv(&plan, op, &d, NULL, &gpu, &err), err)) {
            ckconv_plan_describe(&plan, text, sizeof text);
            const int64_t positions = d.n * d.input[0] * d.input[1];
            const int clusters = has_clusters(text, positions, op == CKCONV_FWD ? d.k : d.c);
            CHECK_MSG(((plan.split_k > 1 && strstr(text, "gather_reduce")) || clusters) == rows[row].split,
                      "row %d on %s: %s", row, archs[i / 5 % 3], text);
        }
    }
}

/* Pairs of blocks that send columns' boxes to both: 1x1 layers whose rows begin within a sector of 32 bytes,
   and that wait for boxes; not where rows are lines, boxes are pixels, columns fill little more than a box,
   or a column of tiles has one. `instance`: the tiles that are asked for. */
static void test_pairs(void)
{
    static const struct {
        ckconv_op op;
        const char *instance;
        int64_t n, k, c, input, filter;
        int32_t pairs;
    } rows[] = {
        {CKCONV_FWD, "gpu_mma_fwd_tma_256x128", 64, 1512, 1512, 7, 1, 2},
        {CKCONV_FWD, "gpu_mma_fwd_tma_128x256", 64, 1512, 1512, 7, 1, 2},
        {CKCONV_FWD, "gpu_mma_fwd_tma_256x128", 64, 1536, 1536, 7, 1, 1},
        {CKCONV_FWD, "gpu_mma_fwd_tma_256x128", 64, 1536, 1512, 7, 1, 2},
        {CKCONV_FWD, "gpu_mma_fwd_tma_256x128", 64, 1512, 1536, 7, 1, 1},
        {CKCONV_FWD, "gpu_mma_fwd_tma_256x64", 64, 1512, 1512, 7, 1, 1},
        {CKCONV_FWD, "gpu_mma_fwd_tma_128x128", 640, 72, 1512, 7, 1, 1},
        {CKCONV_FWD, "gpu_mma_fwd_tma_128x128", 64, 104, 1512, 7, 1, 2},
        {CKCONV_FWD, "gpu_mma_fwd_tma_128x128", 64, 216, 216, 28, 3, 1},
        {CKCONV_FWD, "gpu_mma_fwd_tma_128x128", 2, 216, 216, 8, 1, 1},
        {CKCONV_FWD, "gpu_mma_fwd_tma_128x128", 3, 216, 216, 8, 1, 2},
        {CKCONV_BWD_DATA, "gpu_mma_bwd_data_tma_128x256", 64, 216, 216, 28, 1, 2},
        {CKCONV_BWD_DATA, "gpu_mma_bwd_data_tma_128x256", 64, 256, 256, 28, 1, 1},
        {CKCONV_BWD_WEIGHT, "gpu_mma_bwd_weight_tma_128x128", 64, 1512, 1512, 7, 1, 2},
        {CKCONV_BWD_WEIGHT, "gpu_mma_bwd_weight_tma_128x128", 64, 104, 1512, 7, 1, 1},
        {CKCONV_BWD_WEIGHT, "gpu_mma_bwd_weight_tma_128x128", 64, 1536, 1536, 7, 1, 1},
    };
    const ckconv_device gpu = named("sm_90");
    for (int i = 0; i < (int)(sizeof rows / sizeof rows[0]); i++) {
        static ckconv_launch launches[8];
        int32_t count = 0, pairs = 0;
        ckconv_options options;
        ckconv_conv_desc d = cube(2, rows[i].input, rows[i].filter, 1, 1);
        ckconv_plan plan;
        ckconv_error err;
        memset(&options, 0, sizeof options);
        options.instance = rows[i].instance;
        d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = rows[i].filter / 2;
        d.n = rows[i].n;
        d.k = rows[i].k;
        d.c = rows[i].c;
        d.in.dtype = CKCONV_BF16;
        if (!CHECK_PLAN(ckconv_plan_conv(&plan, rows[i].op, &d, &options, &gpu, &err), err)) {
            continue;
        }
        unsigned char *const place = (unsigned char *)((uintptr_t)1 << 44);
        const size_t far = (size_t)1 << 40;
        ckconv_args a;
        memset(&a, 0, sizeof a);
        a.in = place;
        a.wei = place + far;
        a.dout = place + 2 * far;
        a.out = place + 3 * far;
        a.din = place + 4 * far;
        a.dwei = place + 5 * far;
        CHECK_OK(ckconv_plan_launches(&plan, &a, plan.workspace_bytes ? place + 6 * far : NULL,
                                      (size_t)plan.workspace_bytes, launches, 8, &count, &err),
                 err);
        for (int32_t j = 0; j < count; j++) {
            if (strstr(launches[j].kernel, "_tma_")) {
                pairs = launches[j].cluster;
                CHECK_MSG(launches[j].grid % pairs == 0, "row %d: %d blocks", i, (int)launches[j].grid);
            }
        }
        CHECK_MSG(pairs == rows[i].pairs, "row %d: %d blocks send for each other", i, (int)pairs);
    }
}

/*------------------------------------------------------------------------------------------------------------
  tiles: a second source beside the planner's table
*/
typedef struct tile_row {
    const char *families, *passes, *types, *sizes;
} tile_row;

/* Every tile that there is, as its instances are called: gpu_FAMILY_PASS[_TYPE]_SIZE. */
static const tile_row tile_rows[] = {
    {"mfma wmma mma", "fwd bwd_data", "-", "128x128 64x64 128x32"},
    {"mfma", "fwd bwd_data", "-", "256x256 256x128"},
    {"mfma", "bwd_weight", "-", "256x256"},
    {"mma", "fwd bwd_data", "-", "256x128 192x128 512x64"},
    {"mma", "fwd bwd_data", "tma", "128x256 256x128 128x128 256x64"},
    {"mma", "bwd_weight", "tma", "128x256 128x128 64x256"},
    {"mfma wmma mma", "bwd_weight", "-", "128x128 64x64 32x128"},
    {"mma", "bwd_weight", "-", "128x256 64x256 64x192 192x128"},
    {"mfma wmma mma", "fwd bwd_data bwd_weight", "i8", "128x128 64x64"},
    {"mfma", "fwd bwd_data bwd_weight", "f32", "128x128 64x64"},
    {"mma", "fwd bwd_data bwd_weight", "tf32", "128x128 64x64"},
    {"mfma mma", "fwd bwd_data bwd_weight", "f64", "128x64"},
    {"tile", "fwd bwd_data", "-", "256x64 64x64 256x32 128x16 128x64_any"},
    {"tile", "bwd_weight", "-", "128x128 48x128 64x64 32x96 16x48 8x72 4x36 64x64_any"},
};

/* The next word of *at into word; 0 at the end. */
static int next_word(const char **at, char *word, size_t size)
{
    size_t n = 0;
    while (**at == ' ') {
        ++*at;
    }
    while (**at != 0 && **at != ' ' && n + 1 < size) {
        word[n++] = *(*at)++;
    }
    word[n] = 0;
    return n > 0;
}

/* A dense 3x3 convolution of 256 to 256 channels by that instance: the kernel of its tile runs, and its
   blocks are as many as such tiles cover the result. */
static void check_tile(const char *instance, const char *family, ckconv_op op, const char *type,
                       const char *size)
{
    static ckconv_launch launches[8];
    ckconv_plan plan;
    ckconv_error err;
    ckconv_options o;
    ckconv_args a;
    int32_t count = 0, rows = 0, columns = 0, found = 0;
    char suffix[32];
    const int wide = op == CKCONV_BWD_WEIGHT && strstr(size, "256") != NULL;
    const ckconv_device gpu = named(strcmp(family, "mfma") == 0   ? (wide ? "gfx950" : "gfx942")
                                    : strcmp(family, "wmma") == 0 ? "gfx1100"
                                                                  : "sm_90");
    ckconv_conv_desc d = cube(2, 28, 3, 1, 1);
    memset(&o, 0, sizeof o);
    memset(&a, 0, sizeof a);
    o.instance = instance;
    d.n = 8;
    d.k = d.c = 256;
    d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = 1;
    d.in.dtype = strcmp(type, "i8") == 0    ? CKCONV_I8
                 : strcmp(type, "f64") == 0 ? CKCONV_F64
                 : strcmp(family, "tile") == 0 || strcmp(type, "f32") == 0 || strcmp(type, "tf32") == 0
                     ? CKCONV_F32
                     : CKCONV_BF16;
    if (strcmp(type, "tf32") == 0) {
        d.compute_in = d.compute_wei = d.compute_out = CKCONV_TF32;
    }
    if (!CHECK_MSG(ckconv_plan_conv(&plan, op, &d, &o, &gpu, &err) == CKCONV_OK, "%s: %s", instance,
                   err.text)) {
        return;
    }
    a.in = a.din = (void *)((uintptr_t)1 << 32);
    a.wei = a.dwei = (void *)((uintptr_t)2 << 32);
    a.out = (void *)((uintptr_t)3 << 32);
    a.dout = a.out;
    if (!CHECK_MSG(ckconv_plan_launches(&plan, &a, (void *)((uintptr_t)4 << 32), (size_t)plan.workspace_bytes,
                                        launches, 8, &count, &err) == CKCONV_OK,
                   "%s: %s", instance, err.text)) {
        return;
    }
    snprintf(suffix, sizeof suffix, "_%s", size);
    for (int32_t i = 0; i < count; i++) {
        const size_t length = strlen(launches[i].kernel), end = strlen(suffix);
        if (length > end && strcmp(launches[i].kernel + length - end, suffix) == 0) {
            const int weight = op == CKCONV_BWD_WEIGHT;
            if (!CHECK(sscanf(size, "%dx%d", &rows, &columns) == 2)) {
                return;
            }
            const int64_t high = weight ? 256 : 8 * 28 * 28, wide = weight ? 9 * 256 : 256;
            const int64_t tiles =
                ((high + rows - 1) / rows) * ((wide + columns - 1) / columns) * (weight ? 1 : plan.split_k);
            /* persistent blocks take several tiles; those of bwd_weight and the TMA are split, or shared */
            CHECK_MSG(
                weight || strcmp(type, "tma") == 0
                    ? launches[i].grid % tiles == 0 || launches[i].grid % 132 == 0
                : strcmp(family, "mma") == 0
                    ? launches[i].grid == tiles || (launches[i].grid < tiles && launches[i].grid % 132 == 0)
                    : launches[i].grid == tiles,
                "%s: %lld blocks for %lld tiles", instance, (long long)launches[i].grid, (long long)tiles);
            found = 1;
        }
    }
    CHECK_MSG(found, "%s launches no kernel of a tile %s but %s", instance, size,
              count > 0 ? launches[0].kernel : "none");
}

/* Each tile of the list has its instance and kernel, and no instance has a size that is not listed. */
static void test_tiles(void)
{
    int32_t listed = 0, there = 0;
    for (size_t i = 0; i < sizeof tile_rows / sizeof tile_rows[0]; i++) {
        const tile_row *r = &tile_rows[i];
        char family[8], pass[16], type[8], size[16], name[64];
        for (const char *f = r->families; next_word(&f, family, sizeof family);) {
            for (const char *p = r->passes; next_word(&p, pass, sizeof pass);) {
                for (const char *t = r->types; next_word(&t, type, sizeof type);) {
                    for (const char *s = r->sizes; next_word(&s, size, sizeof size); listed++) {
                        snprintf(name, sizeof name, "gpu_%s_%s_%s%s%s", family, pass,
                                 *type == '-' ? "" : type, *type == '-' ? "" : "_", size);
                        check_tile(name, family, ckconv_op_from_name(pass), type, size);
                    }
                }
            }
        }
    }
    for (int32_t i = 0; i < ckconv_instance_count(); i++) {
        int32_t rows, columns;
        int tile = 0;
        for (const char *at = ckconv_instance_name(i);
             strncmp(at, "cpu_", 4) != 0 && (at = strchr(at, '_')) != NULL; at++) {
            tile = tile || sscanf(at, "_%dx%d", &rows, &columns) == 2;
        }
        there += tile;
    }
    CHECK_MSG(there == listed, "%d instances have a tile's name, %d are listed", (int)there, (int)listed);
}

/* bwd_weight of depthwise 3 x 3, f16: on matrix units where rows are no whole strips of eight positions and
   channels fill slices of 64 (H100: 17 x 17 76 us, the depthwise kernel 98; 16 x 16 72 and 71). */
static void test_waste(void)
{
    static const struct {
        int64_t high, wide, n, g;
        const char *expected;
    } layers[5] = {{16, 16, 1024, 128, "gpu_depthwise_bwd_weight"},
                   {17, 17, 907, 128, "gpu_mma_bwd_weight_near"},
                   {13, 13, 1551, 128, "gpu_mma_bwd_weight_near"},
                   {3, 80, 1092, 128, "gpu_mma_bwd_weight_near"},
                   {17, 17, 907, 80, "gpu_depthwise_bwd_weight"}};
    const ckconv_device gpu = named("sm_90");
    for (int i = 0; i < 5; i++) {
        ckconv_plan plan;
        ckconv_error err;
        char text[1024];
        ckconv_conv_desc d = cube(2, layers[i].high, 3, 1, 1);
        d.input[1] = layers[i].wide;
        d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = 1;
        d.g = layers[i].g;
        d.n = layers[i].n;
        d.in.dtype = CKCONV_F16;
        CHECK_OK(ckconv_plan_conv(&plan, CKCONV_BWD_WEIGHT, &d, NULL, &gpu, &err), err);
        ckconv_plan_describe(&plan, text, sizeof text);
        CHECK_MSG(strstr(text, layers[i].expected) != NULL, "%s, not %s", text, layers[i].expected);
    }
}

/* Types that matrix units compute, in a layer that is large enough to be packed, and those that they do
   not. */
static void test_units(void)
{
    static const struct {
        const char *arch;
        ckconv_dtype in, wei, out, compute;
        const char *fwd, *bwd_data, *bwd_weight;
    } cases[] = {{"gfx90a", CKCONV_F8E4M3, CKCONV_F8E5M2, CKCONV_BF16, 0, "mfma", "mfma", "mfma"},
                 {"gfx1201", CKCONV_F8E4M3, CKCONV_F8E4M3, CKCONV_F16, 0, "wmma", "wmma", "wmma"},
                 {"sm_90", CKCONV_F8E4M3, CKCONV_F8E4M3, CKCONV_F32, 0, "mma", "vector", "vector"},
                 {"gfx942", CKCONV_F16, CKCONV_F16, CKCONV_F16, CKCONV_F8E4M3FNUZ, "mfma", "mfma", "mfma"},
                 {"sm_80", CKCONV_F32, CKCONV_F32, CKCONV_F32, CKCONV_BF16, "mma", "mma", "mma"},
                 {"sm_90", CKCONV_F32, CKCONV_F32, CKCONV_F32, CKCONV_BF16X3, "mma", "mma", "mma"},
                 {"gfx1100", CKCONV_F32, CKCONV_F32, CKCONV_F32, CKCONV_BF16X3, "wmma", "wmma", "wmma"},
                 {"gfx942", CKCONV_F32, CKCONV_F32, CKCONV_F32, CKCONV_TF32, "mfma", "mfma", "mfma"},
                 {"sm_90", CKCONV_F32, CKCONV_F32, CKCONV_F32, CKCONV_TF32, "mma", "mma", "mma"},
                 {"gfx1100", CKCONV_F32, CKCONV_F32, CKCONV_F32, CKCONV_TF32, "vector", "vector", "vector"},
                 {"gfx90a", CKCONV_F32, CKCONV_F32, CKCONV_F32, 0, "mfma", "mfma", "mfma"},
                 {"gfx90a", CKCONV_F64, CKCONV_F64, CKCONV_F64, 0, "mfma", "mfma", "mfma"},
                 {"gfx908", CKCONV_F64, CKCONV_F64, CKCONV_F64, 0, "vector", "vector", "vector"},
                 {"sm_80", CKCONV_F64, CKCONV_F64, CKCONV_F64, 0, "mma", "mma", "mma"},
                 {"sm_90", CKCONV_F32, CKCONV_F32, CKCONV_F32, 0, "tile", "tile", "tile"},
                 {"gfx90a", CKCONV_I8, CKCONV_I8, CKCONV_I8, 0, "mfma", "mfma", "mfma"},
                 {"gfx950", CKCONV_I8, CKCONV_I8, CKCONV_I8, 0, "mfma", "mfma", "mfma"},
                 {"gfx1100", CKCONV_I8, CKCONV_I8, CKCONV_I8, 0, "wmma", "wmma", "wmma"},
                 {"sm_90", CKCONV_I8, CKCONV_I8, CKCONV_I8, 0, "mma", "mma", "mma"},
                 {"gfx1030", CKCONV_I8, CKCONV_I8, CKCONV_I8, 0, "vector", "vector", "vector"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *families[3];
        families[0] = cases[i].fwd;
        families[1] = cases[i].bwd_data;
        families[2] = cases[i].bwd_weight;
        const ckconv_device gpu = named(cases[i].arch);
        ckconv_conv_desc d = cube(2, 28, 3, 1, 1);
        d.n = 64;
        d.k = d.c = 128;
        d.in.dtype = cases[i].in;
        d.wei.dtype = cases[i].wei;
        d.out.dtype = cases[i].out;
        d.compute_in = d.compute_wei = d.compute_out = cases[i].compute;
        for (int j = 0; j < 3; j++) {
            char name[32];
            ckconv_plan plan;
            ckconv_error err;
            CHECK_OK(ckconv_plan_conv(&plan, CKCONV_FWD + j, &d, NULL, &gpu, &err), err);
            snprintf(name, sizeof name, "gpu_%s_", families[j]);
            CHECK_MSG(strstr(ckconv_instance_name(plan.instance), name) != NULL, "%s, row %d, pass %d: %s",
                      cases[i].arch, (int)i, j, ckconv_instance_name(plan.instance));
        }
    }
}

/* One large image in 32 groups fills every GPU: nearly two blocks for each compute unit. */
static void test_large_norms(void)
{
    static const char *const arches[] = {"sm_80", "sm_90", "gfx90a", "gfx942", "gfx1100", "gfx1201"};
    for (int i = 0; i < 6 * 3 * 3 * 2 * 2; i++) {
        const ckconv_device gpu = named(arches[i / 36]);
        ckconv_groupnorm_desc d;
        ckconv_plan plan;
        ckconv_error err;
        memset(&d, 0, sizeof d);
        d.ndim = 2;
        d.g = 32;
        d.n = 1;
        d.c = 4 << i / 12 % 3;
        d.input[0] = d.input[1] = 512 << i / 4 % 3;
        d.eps = 1e-5;
        d.in.dtype = CKCONV_BF16;
        d.in.layout = i % 2 ? CKCONV_NGCHW : CKCONV_NHWGC;
        const ckconv_op op = i / 2 % 2 ? CKCONV_GROUPNORM_BWD : CKCONV_GROUPNORM_FWD;
        if (CHECK_OK(ckconv_plan_groupnorm(&plan, op, &d, NULL, &gpu, &err), err)) {
            CHECK_MSG(plan.grid[0] * 10 >= gpu.compute_units * 17,
                      "%s, %s, c %d, layout %d: %d blocks, %d units", arches[i / 36], ckconv_op_name(op),
                      (int)d.c, (int)d.in.layout, (int)plan.grid[0], (int)gpu.compute_units);
        }
    }
}

/* An epilogue that would act element by element gets sums from workspace, where that is shorter and there is
   room; gates of relu and clamp act by lines wherever a residual does. */
static void test_apart(void)
{
    static const struct {
        const char *arch;
        int32_t first;
        ckconv_element kind;
        int64_t n, channels, input;
        int32_t apart;
    } rows[] = {
        {"sm_90", 0, CKCONV_SILU_BWD, 64, 64, 56, 1},
        {"gfx942", 0, CKCONV_SILU_BWD, 64, 64, 56, 1},
        {"gfx1100", 0, CKCONV_GELU_BWD, 64, 64, 56, 1},
        {"sm_80", 1, CKCONV_SIGMOID_BWD, 64, 64, 56, 1},
        {"sm_90", 0, CKCONV_RELU_BWD, 64, 64, 56, 0},
        {"gfx942", 0, CKCONV_CLAMP_BWD, 64, 64, 56, 0},
        {"sm_90", 0, CKCONV_SILU_BWD, 1, 64, 14, 0},
        {"sm_90", 1, CKCONV_RELU_BWD, 64, 512, 7, 1},
        {"sm_90", 1, CKCONV_RELU_BWD, 64, 512, 14, 0},
        {"sm_90", 1, CKCONV_BIAS_RESIDUAL_RELU, 64, 512, 7, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int32_t room = 0; room < 2; room++) {
            ckconv_plan plan;
            ckconv_error err;
            ckconv_options o;
            char text[2048];
            const ckconv_device gpu = named(rows[i].arch);
            ckconv_conv_desc d = cube(2, rows[i].input, 3, 1, 1);
            d.n = rows[i].n;
            d.k = d.c = rows[i].channels;
            d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = 1;
            d.in.dtype = CKCONV_BF16;
            d.in.layout = d.out.layout = rows[i].first ? CKCONV_NGCHW : CKCONV_NHWGC;
            d.op_in.kind = rows[i].kind;
            d.op_in.alpha = rows[i].kind == CKCONV_CLAMP_BWD ? -1 : 0;
            d.op_in.beta = rows[i].kind == CKCONV_CLAMP_BWD ? 1 : 0;
            d.num_d = rows[i].kind == CKCONV_BIAS_RESIDUAL_RELU ? 2 : 1;
            d.d[0].layout = d.num_d == 2 ? CKCONV_CHANNEL : d.in.layout;
            d.d[1].layout = d.num_d == 2 ? d.in.layout : 0;
            memset(&o, 0, sizeof o);
            o.max_workspace = room ? 0 : -1;
            CHECK_OK(ckconv_plan_conv(&plan, CKCONV_BWD_DATA, &d, &o, &gpu, &err), err);
            ckconv_plan_describe(&plan, text, sizeof text);
            const int apart = strcmp(ckconv_instance_name(plan.instance), "gpu_sums_bwd_data") == 0;
            CHECK_MSG(apart == (room && rows[i].apart) &&
                          apart == (strstr(text, "go through workspace to") != NULL),
                      "row %d: %s", (int)i, text);
            const int gradient = rows[i].kind >= CKCONV_SIGMOID_BWD;
            CHECK_MSG((strstr(text, "slow: this epilogue") != NULL) == (gradient && !apart), "row %d: %s",
                      (int)i, text);
        }
    }
}

/* What describe says is so. */
/* A pair's second convolution may have such an epilogue: the instance that leaves its sums is the one that
   was planned for it. The first one's epilogue stays in its kernel. */
static void test_pair_apart(void)
{
    static const char *const archs[] = {"sm_90", "gfx942", "gfx1100"};
    for (int i = 0; i < 3 * 4; i++) {
        static ckconv_launch l[MOST];
        ckconv_plan plan;
        ckconv_error err;
        ckconv_args a;
        char text[2048];
        int32_t count = 0;
        const uintptr_t far = (uintptr_t)1 << 44;
        const ckconv_device gpu = named(archs[i % 3]);
        const int narrow = i / 3 % 2, second = i / 6;
        ckconv_conv_conv_desc d;
        memset(&d, 0, sizeof d);
        memset(&a, 0, sizeof a);
        d.conv0 = cube(2, 56, 3, 1, 1);
        d.conv0.n = 32;
        d.conv0.g = narrow ? 256 : 32;
        d.conv0.k = d.conv0.c = narrow ? 1 : 8;
        d.conv0.in.dtype = CKCONV_BF16;
        d.conv0.op_out.kind = second ? CKCONV_RELU : CKCONV_HARDSWISH;
        d.k1 = 256;
        for (int j = 0; j < 2; j++) {
            d.conv0.pad_lo[j] = d.conv0.pad_hi[j] = d.pad_lo1[j] = d.pad_hi1[j] = 1;
            d.filter1[j] = 3;
        }
        d.op_out.kind = second ? CKCONV_SILU_BWD : CKCONV_PASS;
        d.num_d = second;
        a.in = (void *)far;
        a.wei = (void *)(2 * far);
        a.wei1 = (void *)(3 * far);
        a.out = (void *)(4 * far);
        a.d[0] = second ? (void *)(5 * far) : NULL;
        CHECK_OK(ckconv_plan_conv_conv(&plan, &d, NULL, &gpu, &err), err);
        CHECK_OK(ckconv_plan_launches(&plan, &a, (void *)(6 * far), (size_t)plan.workspace_bytes, l, MOST,
                                      &count, &err),
                 err);
        ckconv_plan_describe(&plan, text, sizeof text);
        CHECK_MSG(count == plan.launches && count < 8 && strstr(text, "unfused") != NULL &&
                      strstr(text, "kernels ckconv_k_gather_f32") == NULL &&
                      strstr(text, ", ckconv_k_gather_f32") == NULL,
                  "row %d, %d launches: %s", i, (int)count, text);
    }
}

static void test_texts(void)
{
    ckconv_plan plan;
    ckconv_error err;
    ckconv_options o;
    char text[1024];
    const ckconv_device gpu = named("gfx942");
    ckconv_conv_conv_desc d;
    memset(&d, 0, sizeof d);
    memset(&o, 0, sizeof o);
    o.max_workspace = -1;
    d.conv0 = cube(2, 28, 3, 1, 1);
    d.conv0.g = 96;
    d.k1 = 24;
    d.filter1[0] = d.filter1[1] = 3;
    CHECK_OK(ckconv_plan_conv_conv(&plan, &d, &o, &gpu, &err), err);
    ckconv_plan_describe(&plan, text, sizeof text);
    CHECK_MSG(strstr(text, "gpu_recompute") != NULL && strstr(text, "computes mid again") != NULL &&
                  strstr(text, "LDS") == NULL && strstr(text, "tile") == NULL,
              "%s", text);
    ckconv_groupnorm_desc n;
    memset(&n, 0, sizeof n);
    n.ndim = 2;
    n.g = 32;
    n.n = 64;
    n.c = 8;
    n.input[0] = n.input[1] = 28;
    n.eps = 1e-5;
    CHECK_OK(ckconv_plan_groupnorm(&plan, CKCONV_GROUPNORM_BWD, &n, NULL, &gpu, &err), err);
    ckconv_plan_describe(&plan, text, sizeof text);
    CHECK_MSG(plan.launches > 2 || strstr(text, "a block owns a slab") != NULL, "%s", text);

    /* a slab of 512 KiB: eight blocks of a cluster keep 64 KiB of it each, where there are clusters */
    const ckconv_device nvidia = named("sm_90");
    const char *const larger[2] = {"sm_90", "sm_80"};
    n.n = 4;
    n.c = 4;
    n.input[0] = n.input[1] = 256;
    n.in.dtype = CKCONV_F16;
    n.in.layout = CKCONV_NGCHW;
    for (int i = 0; i < 2; i++) {
        static ckconv_launch launches[2];
        int32_t count = 0;
        const ckconv_device device = named(larger[i]);
        unsigned char *place = (unsigned char *)((uint64_t)1 << 32);
        ckconv_args args;
        memset(&args, 0, sizeof args);
        args.in = place;
        args.out = place + ((uint64_t)1 << 32);
        CHECK_OK(ckconv_plan_groupnorm(&plan, CKCONV_GROUPNORM_FWD, &n, NULL, &device, &err), err);
        CHECK_OK(ckconv_plan_launches(&plan, &args, place + ((uint64_t)2 << 32), (size_t)plan.workspace_bytes,
                                      launches, 2, &count, &err),
                 err);
        ckconv_plan_describe(&plan, text, sizeof text);
        CHECK_MSG(
            count == plan.launches && count == 1 + i && launches[0].cluster == (i == 0 ? 8 : 1) &&
                launches[0].grid % launches[0].cluster == 0 && (strstr(text, "cluster") != NULL) == (i == 0),
            "%s: %s, %d launches, clusters of %d", larger[i], text, (int)count, (int)launches[0].cluster);
    }

    /* planes that are no whole eights: one row of a group, where that is whole eights without gaps */
    for (int i = 0; i < 2 * 2 * 6; i++) {
        static ckconv_launch launches[2];
        int32_t count = 0;
        const ckconv_device device = named(i % 2 ? "gfx942" : "sm_90");
        const int odd = i / 2 % 2, which = i / 4;
        unsigned char *place = (unsigned char *)((uint64_t)1 << 32);
        ckconv_args args;
        ckconv_groupnorm_desc e = n;
        memset(&args, 0, sizeof args);
        e.g = 4;
        e.c = which == 1 ? 4 : which == 2 ? 2056 : which == 3 ? 64 : 8;
        e.input[0] = which == 3 ? 2 : 7;
        e.input[1] = which == 3 ? 2 : which == 4 ? 8 : 7;
        if (which == 5) { /* a gap behind each plane: channels, groups and images all begin aligned */
            const int64_t stride[5] = {8 * 56, 4 * 8 * 56, 56, 7, 1};
            e.in.layout = CKCONV_STRIDED;
            memcpy(e.in.stride, stride, sizeof stride);
        }
        args.in = place + (odd ? 8 : 0);
        args.out = place + ((uint64_t)1 << 32);
        CHECK_OK(ckconv_plan_groupnorm(&plan, CKCONV_GROUPNORM_FWD, &e, NULL, &device, &err), err);
        CHECK_OK(ckconv_plan_launches(&plan, &args, place + ((uint64_t)2 << 32), (size_t)plan.workspace_bytes,
                                      launches, 2, &count, &err),
                 err);
        CHECK_MSG(count > 0 && (strstr(launches[count - 1].kernel, "joined") != NULL) == (which == 0 && !odd),
                  "planes %d, %s: %s", which, odd ? "odd" : "aligned", launches[0].kernel);
    }

    /* backward: most of 64 KiB of x and of dy; not where statistics or dx are missing, or on other GPUs;
       channels last, the groups of a row are too large together */
    for (int i = 0; i < 6; i++) {
        static ckconv_launch launches[4];
        int32_t count = 0;
        const ckconv_device device = named(i == 4 ? "sm_80" : i == 5 ? "gfx942" : "sm_90");
        unsigned char *place = (unsigned char *)((uint64_t)1 << 32);
        ckconv_args args;
        memset(&args, 0, sizeof args);
        args.in = args.dout = place;
        args.dgamma = place + ((uint64_t)1 << 32);
        args.dbeta = place + ((uint64_t)2 << 32);
        args.din = i == 1 ? NULL : place + ((uint64_t)3 << 32);
        args.saved_mean = args.saved_inv_std = i == 2 ? NULL : place;
        n.in.layout = i == 3 ? CKCONV_NHWGC : CKCONV_NGCHW;
        CHECK_OK(ckconv_plan_groupnorm(&plan, CKCONV_GROUPNORM_BWD, &n, NULL, &device, &err), err);
        CHECK_OK(ckconv_plan_launches(&plan, &args, place + ((uint64_t)4 << 32), (size_t)plan.workspace_bytes,
                                      launches, 4, &count, &err),
                 err);
        ckconv_plan_describe(&plan, text, sizeof text);
        CHECK_MSG((launches[0].cluster == 8 && count == 2) == (i == 0) &&
                      (strstr(text, "cluster") != NULL) == (i < 3) && count >= 2,
                  "backward %d: %s, %d launches, clusters of %d", i, text, (int)count,
                  (int)launches[0].cluster);
    }
    n.in.layout = CKCONV_NGCHW;

    /* depthwise, then pointwise: few channels are fused, one launch and no workspace; many are two fast
       kernels where there is workspace */
    static const char *const fused[3] = {"gpu_fused_depth_strips", "gpu_fused_depth_strips",
                                         "gpu_fused_depth_matrix_256"};
    for (int i = 0; i < 3; i++) {
        memset(&d, 0, sizeof d);
        d.conv0 = cube(2, i == 0 ? 112 : i == 1 ? 56 : 14, 3, 1, 1);
        d.conv0.g = i == 0 ? 64 : i == 1 ? 128 : 512;
        d.conv0.n = 64;
        d.conv0.in.dtype = CKCONV_F16;
        d.conv0.pad_lo[0] = d.conv0.pad_lo[1] = d.conv0.pad_hi[0] = d.conv0.pad_hi[1] = 1;
        d.k1 = i == 2 ? 512 : 128;
        CHECK_OK(ckconv_plan_conv_conv(&plan, &d, NULL, &nvidia, &err), err);
        ckconv_plan_describe(&plan, text, sizeof text);
        if (i < 2) {
            CHECK_MSG(strstr(text, fused[i]) != NULL && plan.launches == 1 && plan.grid[0] == 132 &&
                          plan.workspace_bytes == 0,
                      "%s", text);
        } else {
            CHECK_MSG(strstr(text, "gpu_depthwise_fwd") != NULL && strstr(text, "gpu_mma_fwd") != NULL &&
                          strstr(text, "planner's estimate") != NULL,
                      "%s", text);
        }
        CHECK_OK(ckconv_plan_conv_conv(&plan, &d, &o, &nvidia, &err), err);
        ckconv_plan_describe(&plan, text, sizeof text);
        CHECK_MSG(strstr(text, fused[i]) != NULL && strstr(text, "mid stays in LDS") != NULL, "%s", text);
    }
    /* small problems, too: two kernels take twice as long, those for any type thirty times (H100) */
    d.conv0.input[0] = d.conv0.input[1] = 7;
    d.conv0.n = 4;
    d.conv0.g = d.k1 = 64;
    CHECK_OK(ckconv_plan_conv_conv(&plan, &d, NULL, &nvidia, &err), err);
    ckconv_plan_describe(&plan, text, sizeof text);
    CHECK_MSG(strstr(text, fused[0]) != NULL, "%s", text);
    d.conv0.in.dtype = CKCONV_F32;
    CHECK_OK(ckconv_plan_conv_conv(&plan, &d, NULL, &nvidia, &err), err);
    ckconv_plan_describe(&plan, text, sizeof text);
    CHECK_MSG(strstr(text, "gpu_unfused_conv_conv") != NULL, "%s", text);
    d.conv0.in.dtype = CKCONV_F16;

    /* strips have as much LDS as their channels need */
    const ckconv_device less = named("sm_80");
    const ckconv_options strips = {CKCONV_ENGINE_GPU, 0, fused[0], 0, 0, {0, 0, 0}};
    d.conv0.g = d.k1 = 128;
    CHECK_OK(ckconv_plan_conv_conv(&plan, &d, &strips, &less, &err), err);
    d.conv0.g = d.k1 = 256;
    CHECK_OK(ckconv_plan_conv_conv(&plan, &d, &strips, &nvidia, &err), err);
    CHECK(ckconv_plan_conv_conv(&plan, &d, &strips, &less, &err) == CKCONV_ERR_UNSUPPORTED);
    CHECK_MSG(strstr(err.text, "of LDS; on sm_80 it can have 166912") != NULL, "%s", err.text);

    d.conv0.input[0] = d.conv0.input[1] = 14;
    d.conv0.n = 64;
    d.conv0.g = d.k1 = 128;
    d.conv0.stride[0] = d.conv0.stride[1] = 2; /* which strips do not have */
    CHECK_OK(ckconv_plan_conv_conv(&plan, &d, &o, &nvidia, &err), err);
    ckconv_plan_describe(&plan, text, sizeof text);
    CHECK_MSG(strstr(text, "gpu_fused_depth_matrix_") != NULL, "%s", text);

    /* a family's refusal is that of the member that comes nearest */
    o.max_workspace = 0;
    o.instance = "direct";
    ckconv_conv_desc c = cube(2, 9, 3, 1, 1);
    c.k = c.c = 64;
    CHECK(ckconv_plan_conv(&plan, CKCONV_FWD, &c, &o, &gpu, &err) == CKCONV_ERR_UNSUPPORTED);
    CHECK_MSG(strstr(err.text, "16 channels") != NULL, "%s", err.text);
    o.instance = "wmma";
    CHECK(ckconv_plan_conv(&plan, CKCONV_FWD, &c, &o, &gpu, &err) == CKCONV_ERR_UNSUPPORTED);
    CHECK_MSG(strstr(err.text, "gfx942 has no wmma") != NULL, "%s", err.text);
}

/* An empty batch launches nothing, and says so. */
static void test_empty(void)
{
    ckconv_plan plan;
    ckconv_error err;
    const ckconv_device gpu = named("sm_90");
    ckconv_conv_desc d = cube(1, 8, 3, 1, 1);
    d.n = 0;
    CHECK_OK(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, &gpu, &err), err);
    CHECK(plan.launches == 0);
    CHECK_OK(ckconv_plan_conv(&plan, CKCONV_BWD_WEIGHT, &d, NULL, &gpu, &err), err);
    CHECK(plan.launches >= 1); /* zeros */

    /* costs are compared, so none may be 0 / 0 */
    static const char *const archs[] = {"gfx90a", "gfx942", "gfx1100", "gfx1201", "sm_90"};
    static const ckconv_dtype types[] = {CKCONV_F32, CKCONV_F16, CKCONV_I8};
    for (int i = 0; i < 5 * 3 * 3 * 2; i++) {
        const ckconv_device device = named(archs[i % 5]);
        d.in.dtype = types[i / 5 % 3];
        d.k = d.c = i / 45 == 0 ? 1 : 64;
        CHECK_OK(ckconv_plan_conv(&plan, (ckconv_op)(CKCONV_FWD + i / 15 % 3), &d, NULL, &device, &err), err);
        CHECK(plan.split_k == 1);
    }
    d = cube(2, 16, 1, 1, 1);
    d.n = 0;
    d.c = d.k = 64;
    d.in.dtype = CKCONV_F16;
    d.in.layout = d.out.layout = CKCONV_NGCHW;
    for (int i = 0; i < 5 * 3; i++) {
        const ckconv_device device = named(archs[i % 5]);
        CHECK_OK(ckconv_plan_conv(&plan, (ckconv_op)(CKCONV_FWD + i / 5), &d, NULL, &device, &err), err);
    }
    d = cube(2, 9, 3, 1, 1);
    d.n = 0;
    d.g = 264;
    d.c = d.k = 1;
    d.input[1] = 29;
    for (int i = 0; i < 5 * 2 * 3 * 3 * 2; i++) {
        const ckconv_device device = named(archs[i % 5]);
        d.in.dtype = types[i / 5 % 2];
        d.filter[0] = d.filter[1] = 3 + 2 * (i / 10 % 3);
        d.in.layout = d.out.layout = i / 90 ? CKCONV_NGCHW : CKCONV_NHWGC;
        CHECK_OK(ckconv_plan_conv(&plan, (ckconv_op)(CKCONV_FWD + i / 30 % 3), &d, NULL, &device, &err), err);
    }
}

/* Depthwise layers of any width and number of channels have a plan, with and without workspace. */
static void test_depthwise_sizes(void)
{
    static const char *const archs[] = {"gfx906", "gfx942", "sm_90"};
    static const int64_t groups[] = {1, 8, 64, 100, 256, 1024}, workspace[] = {0, 1000, -1};
    ckconv_options o;
    ckconv_plan plan;
    ckconv_error err;
    memset(&o, 0, sizeof o);
    ckconv_conv_desc d = cube(2, 9, 3, 1, 1);
    d.n = 3;
    d.c = d.k = 1;
    for (int i = 0; i < 3 * 6 * 3 * 2 * 3; i++) {
        const ckconv_device device = named(archs[i % 3]);
        d.g = groups[i / 3 % 6];
        d.filter[0] = d.filter[1] = 3 + 2 * (i / 18 % 3);
        d.in.dtype = i / 54 % 2 ? CKCONV_F16 : CKCONV_F32;
        const ckconv_op op = CKCONV_FWD + i / 108;
        for (int width = 8; width < 72; width++) {
            d.input[1] = width;
            o.max_workspace = workspace[width % 3];
            CHECK_MSG(ckconv_plan_conv(&plan, op, &d, &o, &device, &err) == CKCONV_OK,
                      "%s %s, %d channels, filter %d, width %d: %s", archs[i % 3], ckconv_op_name(op),
                      (int)d.g, (int)d.filter[1], width, err.text);
        }
    }
}

/* 5 x 5 of f16 in strips of 7, or of 4 where those leave threads without work. */
static void test_short_strips(void)
{
    const uintptr_t far = (uintptr_t)1 << 44;
    ckconv_plan plan;
    ckconv_launch l;
    ckconv_args a;
    ckconv_error err;
    const ckconv_device gpu = named("sm_90");
    ckconv_conv_desc d = cube(2, 28, 5, 1, 1);
    memset(&a, 0, sizeof a);
    a.in = (const void *)far;
    a.wei = (const void *)(2 * far);
    a.out = (void *)(3 * far);
    d.n = 128;
    d.g = 240;
    d.c = d.k = 1;
    d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = 2;
    d.in.dtype = CKCONV_F16;
    for (int i = 0; i < 2; i++) {
        int32_t count = 0;
        d.input[0] = d.input[1] = i ? 16 : 28;
        CHECK_OK(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, &gpu, &err), err);
        CHECK_OK(ckconv_plan_launches(&plan, &a, NULL, 0, &l, 1, &count, &err), err);
        CHECK_MSG(count == 1 && strcmp(l.kernel, i ? "ckconv_k_depth_half_down_5_short"
                                                   : "ckconv_k_depth_half_down_5") == 0,
                  "width %d: %s", (int)d.input[1], count ? l.kernel : "");
        char text[1024];
        ckconv_plan_describe(&plan, text, sizeof text);
        const char *named = strstr(text, "; kernels ");
        CHECK_MSG(named != NULL && strcmp(named + strlen("; kernels "), l.kernel) == 0, "%s", text);
    }
}

/* A number of a list, or now and then any other up to `most`. */
static int64_t draw(test_rng *r, const int64_t *list, int64_t count, int64_t most)
{
    return test_below(r, 8) == 0 ? 1 + test_below(r, most) : list[test_below(r, count)];
}

static ckconv_conv_desc random_layer(test_rng *r)
{
    static const int64_t channels[] = {1, 2, 4, 8, 16, 32, 64, 96, 128, 144, 192, 256, 384, 512, 1024},
                         sizes[] = {7, 8, 14, 16, 17, 20, 28, 32, 37, 40, 56, 61, 64, 80, 112, 224},
                         filters[] = {1, 2, 3, 3, 3, 5, 7, 31};
    static const ckconv_dtype types[] = {CKCONV_F16, CKCONV_F16,    CKCONV_F32, CKCONV_BF16,
                                         CKCONV_F64, CKCONV_F8E4M3, CKCONV_I8};
    static const ckconv_layout layouts[] = {CKCONV_NHWGC, CKCONV_NHWGC, CKCONV_NGCHW, CKCONV_GNHWC};
    const int64_t filter = draw(r, filters, 8, 64), stride = 1 + test_below(r, 3) / 2;
    const int64_t dilation = 1 + test_below(r, 8) / 7;
    const int32_t ndim = 1 + (1 + (int32_t)test_below(r, 4)) / 2;
    ckconv_conv_desc d = cube(ndim, draw(r, sizes, 16, 100), filter, stride, dilation);
    for (int32_t i = 0; i < ndim; i++) {
        if (i > 0) {
            d.input[i] = draw(r, sizes, 16, 100);
        }
        d.pad_lo[i] = d.pad_hi[i] =
            test_below(r, 4) ? (filter - 1) * dilation / 2 : test_below(r, filter + 1);
    }
    const int64_t kind = test_below(r, 4) % 3; /* depthwise (half of all), grouped, dense */
    d.n = (int64_t)1 << test_below(r, 8);
    d.g = kind == 0 ? draw(r, channels, 15, 300) : kind == 1 ? (int64_t)2 << test_below(r, 5) : 1;
    d.k = kind == 0 ? 1 + test_below(r, 8) / 7 : draw(r, channels, 15, 100);
    d.c = kind == 0 ? 1 : draw(r, channels, 15, 100);
    d.in.dtype = types[test_below(r, 7)];
    d.in.layout = d.out.layout = layouts[test_below(r, 4)];
    d.wei.layout = test_below(r, 2) ? CKCONV_GKCYX : CKCONV_GKYXC;
    d.op_out.kind = test_below(r, 4) == 0 ? CKCONV_RELU : CKCONV_PASS;
    return d;
}

/* The launches of a plan are those that it announces, with grids that a GPU takes, and `most` bytes of
   workspace (-1: any number). */
static void check_launches(const ckconv_plan *plan, int64_t most, const char *what)
{
    enum { ROOM = 320 }; /* a filter has up to 64 sections */
    static ckconv_launch l[ROOM];
    const uintptr_t far = (uintptr_t)1 << 56;
    const int weight = plan->op == CKCONV_BWD_WEIGHT, back = plan->op == CKCONV_BWD_DATA;
    ckconv_args a;
    ckconv_error err;
    int32_t count = 0;
    memset(&a, 0, sizeof a);
    a.in = back ? NULL : (const void *)far;
    a.wei = weight ? NULL : (const void *)(2 * far);
    a.dout = weight || back ? (const void *)(3 * far) : NULL;
    a.out = weight || back ? NULL : (void *)(3 * far);
    a.din = back ? (void *)far : NULL;
    a.dwei = weight ? (void *)(2 * far) : NULL;
    const ckconv_status status = ckconv_plan_launches(plan, &a, (void *)(4 * far),
                                                      (size_t)plan->workspace_bytes, l, ROOM, &count, &err);
    int good = status == CKCONV_OK && count == plan->launches && count > 0 && count <= ROOM;
    for (int32_t i = 0; good && i < count; i++) {
        good = l[i].grid > 0 && l[i].grid <= INT32_MAX && l[i].block > 0 && l[i].block <= 1024;
    }
    CHECK_MSG(good && (most < 0 || plan->workspace_bytes <= most),
              "%s: %d launches of %d, %lld bytes of workspace: status %d, %s", what, (int)count,
              (int)plan->launches, (long long)plan->workspace_bytes, (int)status, err.text);
}

/* Layers of all kinds, on all architectures, by the planner's choice and by instances at random. A crash (a
   division by zero, say) ends the program with the number of the layer, where no sanitizer sees it first.
   The planner's choice may only be refused for what the layer or the options say. CKCONV_TEST_FULL=1: 20
   times as many. */
static void test_layers(void)
{
    static const char *const archs[] = {"sm_80",  "sm_89",  "sm_90",   "gfx906",  "gfx908", "gfx90a",
                                        "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201"};
    static const char *const refusals[] = {"no output", "split_k is", " blocks", "GPU kernels take",
                                           "options.max_workspace is"};
    static const ckconv_dtype computes[] = {(ckconv_dtype)0, CKCONV_TF32, CKCONV_BF16X3};
    static const int64_t workspace[] = {0, -1, 1, 1000, 1000000};
    static const int32_t splits[] = {0, 0, 1, 2, 3, 17, 300};
    static const int64_t layers_of[] = {5000, 150000, 3000000};
    const int64_t layers = layers_of[test_effort()];
    const int32_t count = ckconv_instance_count();
    ckconv_device devices[11];
    ckconv_plan plan;
    ckconv_error err;
    long chosen = 0, forced = 0, refused = 0;
    for (int i = 0; i < 11; i++) {
        devices[i] = named(archs[i]);
    }
    for (int64_t layer = 0; layer < layers; layer++) {
        test_rng r = test_seed((uint64_t)layer);
        ckconv_conv_desc d = random_layer(&r);
        const int64_t which = test_below(&r, 11);
        const ckconv_op op = (ckconv_op)(CKCONV_FWD + test_below(&r, 3));
        ckconv_options o;
        char what[160];
        layer_now = (sig_atomic_t)layer;
        memset(&o, 0, sizeof o);
        o.engine = CKCONV_ENGINE_GPU;
        o.max_workspace = workspace[test_below(&r, 5)];
        o.split_k = op == CKCONV_BWD_WEIGHT ? splits[test_below(&r, 7)] : 0;
        if (d.in.dtype == CKCONV_F32) {
            d.compute_in = d.compute_wei = d.compute_out = computes[test_below(&r, 3)];
        }
        snprintf(what, sizeof what, "layer %lld (%s %s)", (long long)layer, archs[which], ckconv_op_name(op));
        const int64_t most = o.max_workspace > 0 ? o.max_workspace : -1 - o.max_workspace;
        const ckconv_status status = ckconv_plan_conv(&plan, op, &d, &o, &devices[which], &err);
        if (status == CKCONV_OK) {
            check_launches(&plan, most, what);
            chosen++;
        } else {
            int known = 0;
            for (int i = 0; i < 5; i++) {
                known = known || strstr(err.text, refusals[i]) != NULL;
            }
            CHECK_MSG(known, "%s: status %d, %s", what, (int)status, err.text);
            refused++;
        }
        for (int tried = 0, i = (int)test_below(&r, count); tried < 8; i = (i + 1) % count) {
            if (ckconv_instance_engine(i) != CKCONV_ENGINE_GPU || !ckconv_instance_does(i, op)) {
                continue;
            }
            tried++;
            o.instance = ckconv_instance_name(i);
            if (ckconv_plan_conv(&plan, op, &d, &o, &devices[which], &err) == CKCONV_OK) {
                check_launches(&plan, most, what);
                forced++;
            }
        }
    }
    layer_now = -1;
    CHECK_MSG(chosen > 3 * layers / 4 && forced > layers / 4, "of %lld layers %ld plans, %ld by instance",
              (long long)layers, chosen, forced);
    printf("note: %lld random layers: %ld plans, %ld refused, %ld plans by instance\n", (long long)layers,
           chosen, refused, forced);
}

/* Names as vendors' tools print them, and a failure that leaves no garbage. */
static void test_names(void)
{
    const ckconv_device plain = named("gfx942"), full = named("gfx942:sramecc+:xnack-");
    CHECK(memcmp(&plain, &full, sizeof plain) == 0);
    ckconv_device d;
    ckconv_error err;
    static const ckconv_device zero;
    memset(&d, 0x55, sizeof d);
    CHECK(ckconv_device_named("gfx942_sramecc", &d, &err) == CKCONV_ERR_ARGUMENT);
    CHECK(memcmp(&d, &zero, sizeof d) == 0);
    memset(&d, 0x55, sizeof d);
    CHECK(ckconv_device_gpu(1000, &d, &err) != CKCONV_OK);
    CHECK(memcmp(&d, &zero, sizeof d) == 0);
    ckconv_plan plan;
    const ckconv_conv_desc c = cube(1, 8, 3, 1, 1);
    int32_t count;
    ckconv_args a;
    ckconv_device cpu;
    memset(&a, 0, sizeof a);
    ckconv_device_cpu(&cpu);
    CHECK_OK(ckconv_plan_conv(&plan, CKCONV_FWD, &c, NULL, &cpu, &err), err);
    CHECK(ckconv_plan_launches(&plan, &a, NULL, 0, NULL, 0, &count, &err) == CKCONV_ERR_UNSUPPORTED);
}

/* Architectures by name: facts, and the unit that computes 256 channels of f16; NULL: none. NVIDIA's LDS is
   what one block may have with the opt-in, as the table of compute capabilities has it in KiB. known 0: the
   name has no row, which describe and the refusal of a matrix unit say. */
static void test_architectures(void)
{
    static const struct {
        const char *name, *plain, *unit;
        int32_t wave, lds_kib, known;
    } rows[] = {{"gfx900", "gfx900", NULL, 64, 64, 1},
                {"gfx906", "gfx906", NULL, 64, 64, 1},
                {"gfx908", "gfx908", "mfma", 64, 64, 1},
                {"gfx90a:xnack-", "gfx90a", "mfma", 64, 64, 1},
                {"gfx90c", "gfx90c", NULL, 64, 64, 1},
                {"gfx940", "gfx940", "mfma", 64, 64, 1},
                {"gfx942:sramecc+:xnack-", "gfx942", "mfma", 64, 64, 1},
                {"gfx950", "gfx950", "mfma", 64, 160, 1},
                {"gfx1010", "gfx1010", NULL, 32, 64, 1},
                {"gfx1036", "gfx1036", NULL, 32, 64, 1},
                {"gfx1100", "gfx1100", "wmma", 32, 64, 1},
                {"gfx1103", "gfx1103", "wmma", 32, 64, 1},
                {"gfx1150", "gfx1150", "wmma", 32, 64, 1},
                {"gfx1151", "gfx1151", "wmma", 32, 64, 1},
                {"gfx1153", "gfx1153", "wmma", 32, 64, 1},
                {"gfx1200", "gfx1200", "wmma", 32, 64, 1},
                {"gfx1201", "gfx1201", "wmma", 32, 64, 1},
                {"gfx1250:xnack+", "gfx1250", "wmma", 32, 320, 1},
                {"gfx1251", "gfx1251", "wmma", 32, 320, 1},
                {"sm_70", "sm_70", NULL, 32, 96, 1},
                {"sm_75", "sm_75", NULL, 32, 64, 1},
                {"sm_80", "sm_80", "mma", 32, 163, 1},
                {"sm_86", "sm_86", "mma", 32, 99, 1},
                {"sm_87", "sm_87", "mma", 32, 163, 1},
                {"sm_89", "sm_89", "mma", 32, 99, 1},
                {"sm_90a", "sm_90", "mma", 32, 227, 1},
                {"sm_100f", "sm_100", "mma", 32, 227, 1},
                {"sm_103a", "sm_103", "mma", 32, 227, 1},
                {"sm_110", "sm_110", "mma", 32, 227, 1},
                {"sm_120f", "sm_120", "mma", 32, 99, 1},
                {"sm_121", "sm_121", "mma", 32, 99, 1},
                /* no row: waves by their generation */
                {"gfx701", "gfx701", NULL, 64, 64, 0},
                {"gfx803", "gfx803", NULL, 64, 64, 0},
                {"gfx909", "gfx909", NULL, 64, 64, 0},
                {"gfx951", "gfx951", NULL, 64, 64, 0},
                {"gfx1040", "gfx1040", NULL, 32, 64, 0},
                {"gfx1170", "gfx1170", NULL, 32, 64, 0},
                {"gfx1260:xnack+", "gfx1260", NULL, 32, 64, 0},
                {"sm_52", "sm_52", NULL, 32, 48, 0},
                {"sm_130a", "sm_130", NULL, 32, 48, 0}};
    ckconv_conv_desc d = cube(2, 28, 3, 1, 1);
    d.n = 8;
    d.k = d.c = 256;
    d.in.dtype = d.out.dtype = CKCONV_F16;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const ckconv_device gpu = named(rows[i].name);
        const char *name = rows[i].name;
        ckconv_plan plan;
        ckconv_error err;
        ckconv_options o;
        char text[1024];
        memset(&o, 0, sizeof o);
        CHECK_MSG(strcmp(gpu.arch, rows[i].plain) == 0, "%s: %s", name, gpu.arch);
        CHECK_MSG(gpu.kind == (name[0] == 's' ? CKCONV_DEVICE_NVIDIA : CKCONV_DEVICE_AMD) &&
                      gpu.wave_size == rows[i].wave && gpu.lds_bytes == rows[i].lds_kib * 1024,
                  "%s: kind %d, wave %d, LDS %d", name, (int)gpu.kind, (int)gpu.wave_size,
                  (int)gpu.lds_bytes);
        for (ckconv_op op = CKCONV_FWD; op <= CKCONV_BWD_WEIGHT; op++) {
            if (CHECK_OK(ckconv_plan_conv(&plan, op, &d, NULL, &gpu, &err), err)) {
                ckconv_family family = ckconv_instance_family(plan.instance);
                const char *word = ckconv_family_name(family);
                CHECK_MSG(rows[i].unit ? strcmp(word, rows[i].unit) == 0 : family < CKCONV_FAMILY_MFMA,
                          "%s, %s: %s", name, ckconv_op_name(op), word);
                ckconv_plan_describe(&plan, text, sizeof text);
                CHECK_MSG((strstr(text, "no row in the table of architectures") == NULL) == rows[i].known &&
                              strstr(text, rows[i].plain) != NULL,
                          "%s: %s", name, text);
            }
        }
        o.instance = "mfma";
        if (!rows[i].known) {
            CHECK_MSG(ckconv_plan_conv(&plan, CKCONV_FWD, &d, &o, &gpu, &err) == CKCONV_ERR_UNSUPPORTED &&
                          strstr(err.text, rows[i].plain) != NULL && strstr(err.text, "no row") != NULL,
                      "%s: %s", name, err.text);
        }
    }
    /* a device filled by hand may have the features in its name */
    ckconv_device hand = named("sm_90");
    ckconv_plan plain, full;
    ckconv_error err;
    CHECK_OK(ckconv_plan_conv(&plain, CKCONV_FWD, &d, NULL, &hand, &err), err);
    memcpy(hand.arch, "sm_90a", 7);
    CHECK_OK(ckconv_plan_conv(&full, CKCONV_FWD, &d, NULL, &hand, &err), err);
    CHECK(plain.instance == full.instance && plain.grid[0] == full.grid[0]);
    static const char *const wrong[] = {"sm_90b", "sm_9a",        "sm_90aa", "gfx94",
                                        "gfx9z2", "gfx94:xnack-", "gfx:942"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK_MSG(ckconv_device_named(wrong[i], &hand, &err) == CKCONV_ERR_ARGUMENT, "%s: %s", wrong[i],
                  hand.arch);
    }
}

/* Facts that no GPU has. */
static void test_facts(void)
{
    ckconv_plan plan;
    ckconv_error err;
    const ckconv_conv_desc d = cube(1, 8, 3, 1, 1);
    ckconv_device gpu = named("gfx942");
    gpu.compute_units = -7;
    CHECK(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, &gpu, &err) == CKCONV_ERR_ARGUMENT &&
          strstr(err.text, "compute_units") != NULL);
    gpu = named("gfx942");
    gpu.lds_bytes = 16;
    CHECK(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, &gpu, &err) == CKCONV_ERR_ARGUMENT &&
          strstr(err.text, "lds_bytes") != NULL);
    static const struct {
        int32_t kind, wave, ordinal;
        const char *arch, *word;
    } bad[] = {{CKCONV_DEVICE_AMD, 64, 0, "", "arch"},
               {CKCONV_DEVICE_NVIDIA, 32, 0, "", "arch"},
               {CKCONV_DEVICE_AMD, 64, 0, "potato", "arch"},
               {CKCONV_DEVICE_NVIDIA, 64, 0, "gfx942", "arch"},
               {CKCONV_DEVICE_AMD, 32, 0, "sm_90", "arch"},
               {CKCONV_DEVICE_NVIDIA, 32, 0, "gfx1250", "arch"},
               {CKCONV_DEVICE_CPU, 0, 0, "gfx942", "arch"},
               {CKCONV_DEVICE_AMD, 64, -1, "gfx942", "ordinal"},
               {CKCONV_DEVICE_CPU, 0, -1, "x86_64", "ordinal"},
               {CKCONV_DEVICE_AMD, 32, 0, "gfx942", "wave_size"},
               {CKCONV_DEVICE_AMD, 64, 0, "gfx1100", "wave_size"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gpu = named("gfx942");
        gpu.kind = bad[i].kind;
        gpu.wave_size = bad[i].wave;
        gpu.ordinal = bad[i].ordinal;
        memset(gpu.arch, 0, sizeof gpu.arch);
        memcpy(gpu.arch, bad[i].arch, strlen(bad[i].arch));
        const ckconv_status status = ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, &gpu, &err);
        CHECK_MSG(status == CKCONV_ERR_ARGUMENT && strncmp(err.text, "device.", 7) == 0 &&
                      strstr(err.text, bad[i].word) != NULL && strstr(err.text, "must be") != NULL,
                  "kind %d, %s: status %d (%s)", (int)bad[i].kind, bad[i].arch, (int)status, err.text);
    }
    /* a GPU without a row may have waves of either size */
    for (int32_t wave = 32; wave <= 64; wave += 32) {
        gpu = named("gfx1260");
        gpu.wave_size = wave;
        CHECK_OK(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, &gpu, &err), err);
        CHECK(plan.device.wave_size == wave);
    }
}

/* What options.max_workspace forbids: the text has the number given and one that is enough. More parts than
   there can be are as many as there can be. */
static void test_limit_texts(void)
{
    static const char *const archs[] = {"x86_64", "gfx942", "gfx1030", "sm_90"};
    for (size_t i = 0; i < 4 * 3; i++) {
        const ckconv_device device = named(archs[i % 4]);
        ckconv_conv_desc d = cube(2, 32, 3, 1, 1);
        ckconv_options o;
        ckconv_plan plan;
        ckconv_error err;
        d.n = 8;
        d.g = i / 4 == 1 ? 32 : 1;
        d.k = d.c = i / 4 == 1 ? 1 : 64;
        d.in.dtype = i / 4 == 2 ? CKCONV_F16 : CKCONV_F32;
        memset(&o, 0, sizeof o);
        o.max_workspace = 100;
        o.split_k = 5;
        const ckconv_status status = ckconv_plan_conv(&plan, CKCONV_BWD_WEIGHT, &d, &o, &device, &err);
        const char *need = strstr(err.text, ": ");
        CHECK_MSG(status == CKCONV_ERR_WORKSPACE && need != NULL &&
                      strstr(err.text, "options.max_workspace is 100") != NULL &&
                      strstr(err.text, "split_k is 5") != NULL,
                  "%s, G %d: status %d (%s)", device.arch, (int)d.g, (int)status, err.text);
        o.max_workspace = need != NULL ? atoll(need + 2) : 0;
        CHECK_MSG(o.max_workspace > 100, "%s", err.text);
        CHECK_OK(ckconv_plan_conv(&plan, CKCONV_BWD_WEIGHT, &d, &o, &device, &err), err);
        CHECK_MSG(plan.split_k > 1, "%s: %d parts", device.arch, (int)plan.split_k);
        o.max_workspace = 0;
        o.split_k = 65536;
        ckconv_plan most;
        CHECK_OK(ckconv_plan_conv(&most, CKCONV_BWD_WEIGHT, &d, &o, &device, &err), err);
        o.split_k = INT32_MAX;
        CHECK_OK(ckconv_plan_conv(&plan, CKCONV_BWD_WEIGHT, &d, &o, &device, &err), err);
        CHECK(plan.instance == most.instance && plan.split_k == most.split_k);
        CHECK_OK(ckconv_plan_again(&plan, &plan, &o, &err), err);
    }
}

/* dbias: the tiles of ResNet-50's layers sum it, without a pass over dout; elsewhere a pass over dout does,
   whose sums lie in the workspace that dwei uses after it. */
static void test_bias(void)
{
    static const struct {
        int64_t g, k, c, filter, input, stride;
        ckconv_dtype type;
        int tiles;
    } rows[] = {{1, 256, 64, 1, 56, 1, CKCONV_BF16, 1},  {1, 64, 64, 3, 56, 1, CKCONV_BF16, 2},
                {1, 128, 128, 3, 56, 2, CKCONV_BF16, 2}, {1, 1024, 256, 1, 14, 1, CKCONV_F16, 2},
                {1, 512, 512, 3, 7, 1, CKCONV_F16, 2},   {1, 2048, 512, 1, 7, 1, CKCONV_BF16, 2},
                {1, 64, 3, 7, 224, 2, CKCONV_BF16, 1},   {512, 1, 1, 3, 14, 1, CKCONV_BF16, 0},
                {1, 64, 64, 3, 56, 1, CKCONV_F32, 0},    {1, 64, 64, 3, 56, 1, CKCONV_F64, 0},
                {1, 64, 64, 3, 56, 1, CKCONV_I8, 0}};
    static const char *const archs[] = {"sm_80", "sm_90", "gfx942", "gfx1100", "gfx1201", "gfx1030"};
    for (int i = 0; i < 11 * 6; i++) {
        const int row = i % 11, arch = i / 11, tiles = rows[row].tiles && arch < 5;
        const ckconv_device gpu = named(archs[arch]);
        ckconv_plan with, without;
        ckconv_error err;
        ckconv_conv_desc d;
        char text[4096];
        memset(&d, 0, sizeof d);
        d.ndim = 2;
        d.g = rows[row].g;
        d.n = 64;
        d.k = rows[row].k;
        d.c = rows[row].c;
        for (int j = 0; j < 2; j++) {
            d.filter[j] = rows[row].filter;
            d.input[j] = rows[row].input;
            d.stride[j] = rows[row].stride;
            d.pad_lo[j] = d.pad_hi[j] = rows[row].filter / 2;
        }
        d.in.dtype = rows[row].type;
        d.wei.dtype = rows[row].type == CKCONV_I8 ? CKCONV_I32 : 0;
        test.plan = NULL;
        CHECK_OK(ckconv_plan_conv(&without, CKCONV_BWD_WEIGHT, &d, NULL, &gpu, &err), err);
        d.dbias = rows[row].type == CKCONV_I8    ? CKCONV_I32
                  : rows[row].type == CKCONV_F64 ? CKCONV_F64
                                                 : CKCONV_F32;
        if (!CHECK_OK(ckconv_plan_conv(&with, CKCONV_BWD_WEIGHT, &d, NULL, &gpu, &err), err)) {
            continue;
        }
        test.plan = &with;
        ckconv_plan_describe(&with, text, sizeof text);
        /* 2: by the tiles or by a pass of its own, whichever is estimated to take less */
        const int by_tiles = strstr(text, "summed by the tiles") != NULL;
        CHECK_MSG(by_tiles == tiles || (tiles && rows[row].tiles == 2), "%s: %s", archs[arch], text);
        CHECK_MSG((strstr(text, "kernels ckconv_k_bias_") != NULL) == !by_tiles, "%s: %s", archs[arch], text);
        CHECK_MSG(!by_tiles || !strstr(text, "packs"), "%s: %s", archs[arch], text);
        /* columns of tiles have a sum each, which the launch adds that adds parts of dwei, or one more */
        CHECK_MSG(with.launches <= without.launches + (by_tiles ? 1 : 2), "%s: %d launches, %d without",
                  archs[arch], (int)with.launches, (int)without.launches);
    }
    test.plan = NULL;
}

/* pointwise: a result that is less aligned than planned for stays on the matrix unit, and positions whose
   distances 32 bits do not hold are left to others. */
static void test_points(void)
{
    static const char *const archs[] = {"sm_90", "gfx942", "gfx1201"};
    for (int i = 0; i < 3 * 2 * 2; i++) {
        const ckconv_op op = i / 3 % 2 ? CKCONV_BWD_DATA : CKCONV_FWD;
        const ckconv_device gpu = named(archs[i % 3]);
        ckconv_conv_desc d;
        ckconv_plan plan;
        ckconv_options o;
        ckconv_error err;
        ckconv_args a;
        ckconv_launch launches[4];
        int32_t count = 0;
        memset(&o, 0, sizeof o);
        memset(&a, 0, sizeof a);
        test_layer(&d, 2, 1, 64, 16, 16);
        d.filter[0] = d.filter[1] = 1;
        d.input[0] = d.input[1] = 56;
        d.in.dtype = CKCONV_BF16;
        o.engine = CKCONV_ENGINE_GPU;
        if (i / 6) { /* one position of each image, these far apart */
            ckconv_tensor *read = op == CKCONV_FWD ? &d.in : &d.out;
            d.input[0] = d.input[1] = 1;
            read->layout = CKCONV_STRIDED;
            read->stride[0] = read->stride[3] = read->stride[4] = 16;
            read->stride[2] = 1;
            read->stride[1] = ((int64_t)1 << 31) + 8;
            (op == CKCONV_FWD ? &d.out : &d.in)->layout = CKCONV_NHWGC;
        }
        if (!CHECK_OK(ckconv_plan_conv(&plan, op, &d, &o, &gpu, &err), err)) {
            continue;
        }
        const int point = strstr(ckconv_instance_name(plan.instance), "_pointwise") != NULL;
        CHECK_MSG(point == (i / 6 == 0), "%s on %s", ckconv_instance_name(plan.instance), gpu.arch);
        a.in = a.dout = (void *)((uintptr_t)1 << 44);
        a.wei = (void *)((uintptr_t)2 << 44);
        a.out = a.din = (void *)(((uintptr_t)3 << 44) + 8);
        if (i / 6 > 0 ||
            !CHECK_OK(ckconv_plan_launches(&plan, &a, NULL, 0, launches, 4, &count, &err), err)) {
            continue;
        }
        /* AMD's tiles of bwd_data need workspace for the weights */
        const int matrix = count == 1 && strstr(launches[0].kernel, "matrix_") != NULL;
        CHECK_MSG(matrix || (count == 1 && i % 3 && op == CKCONV_BWD_DATA), "%s on %s",
                  count > 0 ? launches[0].kernel : "nothing", gpu.arch);
    }
}

int main(void)
{
    test_begin("test_gpu_plan");
    signal(SIGFPE, on_signal);
    signal(SIGSEGV, on_signal);
    signal(SIGABRT, on_signal);
    test_indices();
    test_threads();
    test_mid();
    test_parts();
    test_few();
    test_channels_first();
    test_strides();
    test_dout_planes();
    test_planes();
    test_beside();
    test_mixed();
    test_sheets();
    test_large_filters();
    test_samples();
    test_sample_limits();
    test_columns();
    test_dilation();
    test_column_limits();
    test_pixels();
    test_points();
    test_long_sums();
    test_few_positions();
    test_pairs();
    test_bias();
    test_tiles();
    test_waste();
    test_units();
    test_large_norms();
    test_apart();
    test_pair_apart();
    test_texts();
    test_empty();
    test_depthwise_sizes();
    test_short_strips();
    test_layers();
    test_facts();
    test_limit_texts();
    test_names();
    test_architectures();
    return test_end();
}
