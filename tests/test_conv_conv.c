/* test_conv_conv.c - the fused pair: against the definition, against two separate convolutions, in every form
   SPDX-License-Identifier: MIT

   Problems are drawn at random over groups, shapes, types, layouts, scale and shift, activation, a copy of
   mid, g1, filter1 above 1, epilogues with D tensors. Integers: zero tolerance except where exp or erf is
   involved. Every instance runs, with workspace and without. */
#define _POSIX_C_SOURCE 200809L
#include "naive_conv_conv.h"

static long executed[512];
static ckconv_device devices[3];
static int device_count;

typedef struct pair_types {
    ckconv_dtype in, wei, wei1, out, compute, compute_wei;
} pair_types;

static const pair_types types[] = {
    {CKCONV_F32, CKCONV_F32, CKCONV_F32, CKCONV_F32, 0, 0},
    {CKCONV_F64, CKCONV_F64, CKCONV_F64, CKCONV_F64, 0, 0},
    {CKCONV_F16, CKCONV_F16, CKCONV_F16, CKCONV_F16, 0, 0},
    {CKCONV_BF16, CKCONV_BF16, CKCONV_BF16, CKCONV_BF16, 0, 0},
    {CKCONV_BF16, CKCONV_F32, CKCONV_F32, CKCONV_BF16, 0, 0},
    {CKCONV_F32, CKCONV_F32, CKCONV_F32, CKCONV_F32, CKCONV_TF32, CKCONV_TF32},
    {CKCONV_F32, CKCONV_F32, CKCONV_F32, CKCONV_F32, CKCONV_BF16, CKCONV_BF16},
    {CKCONV_F32, CKCONV_F32, CKCONV_F32, CKCONV_F32, CKCONV_BF16X3, CKCONV_BF16X3},
    {CKCONV_F16, CKCONV_F16, CKCONV_F16, CKCONV_F16, CKCONV_F8E4M3, CKCONV_F8E5M2},
    {CKCONV_F8E4M3, CKCONV_F8E4M3, CKCONV_F8E4M3, CKCONV_F8E4M3, 0, 0},
    {CKCONV_F8E4M3FNUZ, CKCONV_F8E5M2FNUZ, CKCONV_F8E5M2FNUZ, CKCONV_F8E4M3FNUZ, 0, 0},
    {CKCONV_I8, CKCONV_I8, CKCONV_I8, CKCONV_I8, 0, 0},
    {CKCONV_I8, CKCONV_I8, CKCONV_I8, CKCONV_I32, 0, 0},
    {CKCONV_F8E5M2, CKCONV_F8E4M3, CKCONV_F8E4M3, CKCONV_F16, 0, 0},
};
#define TYPES ((int)(sizeof types / sizeof types[0]))

static void set_layouts(ckconv_conv_desc *d, test_rng *r)
{
    static const ckconv_layout data[4] = {CKCONV_NHWGC, CKCONV_GNHWC, CKCONV_NGCHW, CKCONV_STRIDED};
    static const ckconv_layout wei[3] = {CKCONV_GKYXC, CKCONV_GKCYX, CKCONV_STRIDED};
    ckconv_tensor *t[3] = {&d->in, &d->wei, &d->out};
    for (int i = 0; i < 3; i++) {
        int64_t length[6];
        t[i]->layout = i == NAIVE_WEI ? wei[test_below(r, 3)] : data[test_below(r, 4)];
        if (t[i]->layout == CKCONV_STRIDED) {
            naive_lengths(d, i, length);
            test_gap_strides(r, d->ndim, length, t[i]->stride);
        }
    }
}

static void set_first(ckconv_conv_desc *d, const pair_types *t, test_rng *r)
{
    static const int64_t channels[6] = {1, 2, 3, 5, 8, 17};
    d->ndim = (int32_t)test_range(r, 1, 3);
    d->n = test_range(r, 1, 3);
    const int64_t kind = test_below(r, 3);
    d->g = kind == 0 ? test_range(r, 1, 40) : test_range(r, 1, 4);
    d->c = kind == 0 ? 1 : channels[test_below(r, 6)];
    d->k = kind == 0 ? test_range(r, 1, 2) : channels[test_below(r, 6)];
    for (int i = 0; i < (int)d->ndim; i++) {
        d->filter[i] = kind == 2 ? 1 : test_range(r, 1, 3);
        d->stride[i] = test_range(r, 1, 2);
        d->dilation[i] = test_range(r, 1, 2);
        d->pad_lo[i] = test_range(r, 0, 2);
        d->pad_hi[i] = test_range(r, 0, 2);
        d->input[i] = (d->filter[i] - 1) * d->dilation[i] + 1 +
                      test_range(r, 0,
                                 d->ndim == 1   ? 25
                                 : d->ndim == 2 ? 7
                                                : 3);
    }
    d->in.dtype = t->in;
    d->wei.dtype = t->wei;
    d->compute_in = t->compute;
    d->compute_wei = t->compute_wei;
}

static void set_elements(ckconv_conv_conv_desc *d, test_rng *r, int smooth)
{
    static const ckconv_element sharp[4] = {CKCONV_PASS, CKCONV_RELU, CKCONV_CLAMP, CKCONV_SCALE};
    static const ckconv_element curved[3] = {CKCONV_SILU, CKCONV_GELU, CKCONV_SIGMOID};
    d->conv0.op_out.kind = smooth ? curved[test_below(r, 3)] : sharp[test_below(r, 4)];
    d->conv0.op_out.alpha = d->conv0.op_out.kind == CKCONV_SCALE ? 0.5 : -4.0;
    d->conv0.op_out.beta = 6.0;
    test_trim_element(&d->conv0.op_out);
    if (test_below(r, 4) == 0) {
        d->conv0.op_in.kind = CKCONV_RELU;
        d->op_wei1.kind = CKCONV_SCALE;
        d->op_wei1.alpha = 2.0;
    }
    const int64_t epilogue = test_below(r, 4);
    if (epilogue == 1) {
        d->op_out.kind = CKCONV_RELU;
    } else if (epilogue == 2) {
        d->op_out.kind = CKCONV_BIAS;
        d->num_d = 1;
        d->d[0].layout = CKCONV_CHANNEL;
    } else if (epilogue == 3) {
        d->op_out.kind = CKCONV_BIAS_RESIDUAL_RELU;
        d->num_d = 2;
        d->d[0].layout = CKCONV_CHANNEL;
    }
}

static void random_desc(ckconv_conv_conv_desc *d, test_rng *r, int smooth)
{
    const pair_types *t = &types[test_below(r, TYPES)];
    memset(d, 0, sizeof *d);
    set_first(&d->conv0, t, r);
    const int64_t channels = d->conv0.g * d->conv0.k;
    d->k1 = test_range(r, 1, test_below(r, 3) == 0 ? 40 : 9);
    do {
        d->g1 = test_below(r, 2) == 0 ? 1 : test_range(r, 1, channels);
    } while (channels % d->g1 != 0);
    if (test_below(r, 3) == 0) {
        const naive_shape s = naive_get_shape(&d->conv0);
        for (int i = 0; i < (int)d->conv0.ndim; i++) {
            const int64_t size = s.output[3 - (int)d->conv0.ndim + i];
            d->filter1[i] = test_range(r, 1, 3);
            d->stride1[i] = test_range(r, 0, 2);
            d->dilation1[i] = test_range(r, 0, 2);
            d->pad_lo1[i] = test_range(r, 0, 2);
            const int64_t dilation = d->dilation1[i] > 0 ? d->dilation1[i] : 1;
            const int64_t missing = (d->filter1[i] - 1) * dilation + 1 - size - d->pad_lo1[i];
            d->pad_hi1[i] = missing > 0 ? missing : test_range(r, 0, 1);
        }
    }
    d->compute_wei1 = t->compute_wei;
    d->wei1.dtype = t->wei1;
    d->out.dtype = t->out;
    set_elements(d, r, smooth);
    set_layouts(&d->conv0, r);
    ckconv_conv_desc second = pair_second_desc(d);
    set_layouts(&second, r);
    d->wei1 = second.wei;
    d->out = second.out;
}

static void fill(pair_case *p, test_rng *r)
{
    naive_fill_integers(&p->first.t[NAIVE_IN], r, -2, 2);
    naive_fill_integers(&p->first.t[NAIVE_WEI], r, -2, 2);
    naive_fill_integers(&p->second.t[NAIVE_WEI], r, -2, 2);
    naive_fill_integers(&p->scale, r, -2, 2);
    naive_fill_integers(&p->shift, r, -3, 3);
    for (int i = 0; i < (int)p->desc.num_d; i++) {
        naive_fill_integers(&p->second.d[i], r, -5, 5);
    }
}

/* A filter above 1 runs as two convolutions, and the text says so. */
static void check_describe(const pair_case *p, const ckconv_plan *plan)
{
    char text[2048];
    const size_t length = ckconv_plan_describe(plan, text, sizeof text);
    CHECK(length > 0 && length < sizeof text);
    CHECK_MSG(strstr(text, ckconv_instance_name(plan->instance)) != NULL,
              "describe does not name the instance: %s", text);
    int above = 0;
    for (int i = 0; i < (int)p->desc.conv0.ndim; i++) {
        above = above || p->desc.filter1[i] > 1;
    }
    if (above && plan->engine == CKCONV_ENGINE_CPU && plan->workspace_bytes > 0) {
        CHECK_MSG(ckconv_instance_family(plan->instance) == CKCONV_FAMILY_UNFUSED,
                  "filter1 above 1, but fused: %s", text);
        CHECK_MSG(plan->launches >= 2, "filter1 above 1 in %d launches", (int)plan->launches);
    }
}

/* Planner's choice on every set of CPU features; on the first one also every instance and the plan without
   workspace. with_ref: the reference too, which is slow. */
/* On a simulated GPU with CKCONV_TEST_QUICK=1: a fifth of the runs, and each instance that has had none. */
static int is_due(const ckconv_plan *plan)
{
    static int turn;
    const int all = !test_thin() || !test_variable("CKCONV_TEST_QUICK");
    return turn++ % 5 == 0 || all || executed[plan->instance] == 0;
}

static void run_everywhere(pair_case *p, const char *what, int with_ref)
{
    for (int i = 0; i < device_count; i++) {
        ckconv_plan base;
        ckconv_plan plan;
        ckconv_options options;
        ckconv_error err;
        memset(&options, 0, sizeof options);
        options.engine = test_engine();
        options.threads = p->second.t[NAIVE_OUT].count % 16 == 0 ? 2 : 1;
        if (!pair_plan(p, &base, &options, &devices[i])) {
            continue;
        }
        test.plan = &base;
        check_describe(p, &base);
        plan = base;
        int32_t index = 0;
        do {
            if (is_due(&plan) && pair_run(p, &plan)) {
                pair_compare(p, what);
                executed[plan.instance]++;
            }
        } while (i == 0 && test_next_plan(&base, with_ref, &index, &plan));
        if (i > 0) {
            continue;
        }
        options.max_workspace = -1;
        test.plan = &base;
        if (CHECK_OK(ckconv_plan_again(&plan, &base, &options, &err), err)) {
            CHECK_MSG(plan.workspace_bytes == 0, "max_workspace -1 plans %lld bytes",
                      (long long)plan.workspace_bytes);
            if (is_due(&plan) && pair_run(p, &plan)) {
                pair_compare(p, "without workspace");
                executed[plan.instance]++;
            }
        }
    }
}

static void part_random(int count)
{
    int exact = 0;
    for (int i = 0; i < count; i++) {
        ckconv_conv_conv_desc d;
        pair_case p;
        test_rng r = test_seed((uint64_t)i + 1);
        random_desc(&d, &r, i % 4 == 3);
        pair_make(&p, &d, (int)test_below(&r, 2), (int)test_below(&r, 2), (int)test_below(&r, 2),
                  (size_t)(i % 5 == 0));
        fill(&p, &r);
        pair_compute_expected(&p);
        exact += i % 4 == 3 ? 0 : 1;
        run_everywhere(&p, "pair", i % 2 == 0);
        pair_free(&p);
    }
    printf("%d problems, %d of them exact\n", count, exact);
}

/*------------------------------------------------------------------------------------------------------------
  against two separate convolutions of the library, on reals: both round the same values at the same places
*/
static void part_separate(void)
{
    static const ckconv_dtype separate_types[4] = {CKCONV_F32, CKCONV_F16, CKCONV_BF16, CKCONV_F64};
    for (int i = 0; i < 48; i++) {
        ckconv_conv_conv_desc d;
        pair_case p;
        ckconv_plan plan;
        naive_case second;
        ckconv_error err;
        test_rng r = test_seed((uint64_t)i + 500);
        memset(&d, 0, sizeof d);
        memset(&err, 0, sizeof err);
        set_first(&d.conv0, &types[0], &r);
        d.conv0.in.dtype = d.conv0.wei.dtype = separate_types[i % 4];
        d.conv0.op_out.kind = i % 3 == 0 ? CKCONV_SILU : CKCONV_RELU;
        d.k1 = test_range(&r, 1, 30);
        d.g1 = 1;
        if (i % 5 == 0) {
            d.filter1[0] = 2;
            d.pad_lo1[0] = 1;
        }
        pair_make(&p, &d, 0, 0, 1, 0);
        naive_fill_normal(&p.first.t[NAIVE_IN], &r, 0.0, 1.0);
        naive_fill_normal(&p.first.t[NAIVE_WEI], &r, 0.0, 0.5);
        naive_fill_normal(&p.second.t[NAIVE_WEI], &r, 0.0, 0.5);
        if (!pair_plan(&p, &plan, NULL, NULL) || !pair_run(&p, &plan)) {
            pair_free(&p);
            continue;
        }
        /* first convolution alone: one rounding to the stored type from sums that may differ a little */
        naive_sum(&p.first);
        for (int64_t j = 0; j < p.first.t[NAIVE_OUT].count; j++) {
            p.first.loose[j] = (naive_terms(&p.first) + 2.0) * naive_unit(&p.first) * p.first.total[j];
        }
        naive_finish_all(&p.first);
        naive_compare(&p.first, "mid of a pair");
        test_scatter(&p.first.t[NAIVE_OUT], p.first.got);
        /* second convolution of the library on that very mid; regrouping to one group keeps the bytes of
           NHWC */
        naive_make(&second, CKCONV_FWD, &p.second.desc, 0);
        memcpy(test_data(&second.t[NAIVE_WEI]), test_data(&p.second.t[NAIVE_WEI]),
               second.t[NAIVE_WEI].buffer.bytes);
        CHECK(second.t[NAIVE_IN].buffer.bytes == p.first.t[NAIVE_OUT].buffer.bytes);
        memcpy(test_data(&second.t[NAIVE_IN]), test_data(&p.first.t[NAIVE_OUT]),
               second.t[NAIVE_IN].buffer.bytes);
        naive_sum(&second);
        for (int64_t j = 0; j < second.t[NAIVE_OUT].count; j++) {
            second.loose[j] = (naive_terms(&second) + 2.0) * naive_unit(&second) * second.total[j];
        }
        naive_finish_all(&second);
        if (test_on_gpu()) {
            if (naive_plan(&second, &plan, NULL, NULL) && naive_run(&second, &plan)) {
                naive_compare(&second, "second convolution alone");
            }
        } else {
            const ckconv_args a = naive_args(&second);
            test.plan = &plan;
            CHECK_OK(ckconv_fwd(&second.desc, a.in, a.wei, a.out, NULL, 0, NULL, &err), err);
            test_gather(&second.t[NAIVE_OUT], second.got);
            naive_compare(&second, "second convolution alone");
        }
        memcpy(second.got, p.second.got, (size_t)second.t[NAIVE_OUT].count * sizeof(double));
        naive_compare(&second, "out of a pair");
        naive_free(&second);
        pair_free(&p);
    }
}

/* Blocks with the sizes of real layers, several tiles in every direction. */
static void part_layers(void)
{
    static const int64_t layers[][8] = {
        /* g n k c filter input k1 g1 */
        {72, 2, 1, 1, 3, 15, 50, 1},   {1, 2, 70, 40, 3, 13, 65, 1}, {4, 1, 16, 16, 3, 17, 40, 4},
        {1, 3, 130, 33, 1, 9, 129, 1}, {33, 1, 2, 1, 5, 20, 7, 2},   {1, 2, 20, 24, 3, 5, 36, 1},
        {1, 1, 20, 3, 7, 31, 16, 1},
    };
    for (int i = 0; i < 7 * TYPES; i += test_effort() == 0 ? 5 : 1) {
        const int64_t *layer = layers[i % 7];
        const pair_types *t = &types[i / 7];
        ckconv_conv_conv_desc d;
        pair_case p;
        test_rng r = test_seed((uint64_t)i + 800);
        memset(&d, 0, sizeof d);
        test_layer(&d.conv0, 2, layer[0], layer[1], layer[2], layer[3]);
        for (int j = 0; j < 2; j++) {
            d.conv0.filter[j] = layer[4];
            d.conv0.input[j] = layer[5] + j;
            d.conv0.pad_lo[j] = d.conv0.pad_hi[j] = layer[4] / 2;
        }
        d.conv0.in.dtype = t->in;
        d.conv0.wei.dtype = t->wei;
        d.conv0.compute_in = t->compute;
        d.conv0.compute_wei = d.compute_wei1 = t->compute_wei;
        d.conv0.op_out.kind = i % 7 == 5 ? CKCONV_PASS : CKCONV_CLAMP;
        d.conv0.op_out.alpha = -3.0;
        d.conv0.op_out.beta = 7.0;
        test_trim_element(&d.conv0.op_out);
        d.k1 = layer[6];
        d.g1 = layer[7];
        d.wei1.dtype = t->wei1;
        d.out.dtype = t->out;
        pair_make(&p, &d, i % 2, i / 2 % 2, i % 3 == 0, 0);
        fill(&p, &r);
        pair_compute_expected(&p);
        run_everywhere(&p, "layer", i % 5 == 0);
        pair_free(&p);
    }
}

/* What matrix units take: eights of channels, channels last; depthwise or pointwise, then pointwise. Each
   third has pointers that are aligned to an element only: weights are packed that were planned to be read in
   place, and must not need more workspace for it. */
static void part_units(void)
{
    static const int64_t layers[][10] = {
        /* g k c, filter y x, stride, input, k1, stride1, pad1 */
        {64, 1, 1, 3, 3, 1, 9, 128, 1, 0},  {72, 1, 1, 5, 3, 2, 10, 40, 1, 0},
        {200, 1, 1, 3, 3, 1, 6, 131, 2, 1}, {1, 96, 40, 1, 1, 1, 9, 72, 1, 0},
        {16, 1, 1, 7, 7, 1, 12, 8, 1, 0},   {1, 264, 128, 1, 1, 2, 9, 136, 1, 0},
    };
    static const ckconv_element acts[3] = {CKCONV_PASS, CKCONV_RELU, CKCONV_CLAMP};
    for (int i = 0; i < 12; i++) {
        const int64_t *layer = layers[i / 2];
        ckconv_conv_conv_desc d;
        pair_case p;
        test_rng r = test_seed((uint64_t)i + 900);
        memset(&d, 0, sizeof d);
        test_layer(&d.conv0, 2, layer[0], 2, layer[1], layer[2]);
        for (int j = 0; j < 2; j++) {
            d.conv0.filter[j] = layer[3 + j];
            d.conv0.input[j] = layer[6] + j;
            d.conv0.stride[j] = layer[5];
            d.conv0.pad_lo[j] = d.conv0.pad_hi[j] = layer[3 + j] / 2;
            d.stride1[j] = layer[8];
            d.pad_lo1[j] = d.pad_hi1[j] = layer[9];
        }
        d.conv0.in.dtype = i % 2 ? CKCONV_BF16 : CKCONV_F16;
        d.conv0.op_out.kind = acts[i % 3];
        d.conv0.op_out.alpha = -3.0;
        d.conv0.op_out.beta = 7.0;
        test_trim_element(&d.conv0.op_out);
        d.k1 = layer[7];
        pair_make(&p, &d, i / 2 % 2, i / 3 % 2, i % 4 != 0, i % 3 == 1);
        fill(&p, &r);
        pair_compute_expected(&p);
        run_everywhere(&p, "units", 0);
        pair_free(&p);
    }
}

/* A depthwise convolution, then a pointwise one, in regions whose windows lie in LDS: several images, lines
   or strips in one, several regions for a block, several spans of channels, weights that stay or do not;
   filters whose taps share inputs and others. Or line after line of strips: some missing in a tile, several
   64s of channels and columns, blocks that begin inside a plane and end in another. */
static void part_windows(void)
{
    static const struct {
        int64_t ndim, g, filter[3], stride, dilation, input[3], n, k1, stride1, pad1, pad0;
    } layers[] = {
        {2, 64, {3, 3}, 1, 1, {20, 37}, 2, 128, 1, 0, 0},
        {2, 136, {3, 3}, 1, 1, {14, 14}, 3, 264, 1, 0, 0},
        {2, 512, {3, 3}, 1, 1, {6, 6}, 4, 264, 1, 0, 0},
        {2, 72, {5, 5}, 1, 1, {13, 18}, 1, 40, 1, 0, 0},
        {2, 32, {7, 7}, 1, 1, {12, 11}, 2, 8, 1, 0, 0},
        {2, 48, {3, 3}, 2, 1, {15, 22}, 1, 24, 1, 0, 0},
        {2, 24, {3, 3}, 1, 2, {17, 17}, 2, 136, 1, 0, 0},
        {3, 16, {3, 3, 3}, 1, 2, {7, 7, 9}, 2, 16, 1, 0, 0},
        {3, 8, {3, 1, 3}, 2, 1, {5, 6, 13}, 1, 72, 1, 0, 0},
        {1, 40, {9}, 1, 1, {70}, 3, 72, 1, 0, 0},
        {2, 8, {3, 3}, 1, 1, {90, 90}, 1, 8, 1, 0, 0},
        {2, 64, {3, 3}, 1, 1, {11, 11}, 2, 24, 2, 1, 0},
        {2, 256, {3, 3}, 1, 1, {9, 9}, 2, 520, 1, 0, 0},
        {2, 328, {5, 5}, 1, 1, {7, 7}, 3, 64, 1, 0, 0},
        {2, 128, {3, 3}, 1, 1, {16, 32}, 2, 128, 1, 0, 0},
        {2, 16, {1, 3}, 1, 1, {4, 5}, 70, 16, 1, 0, 0},
        {2, 64, {3, 3}, 1, 1, {8, 8}, 0, 8, 1, 0, 0},
        {2, 328, {3, 3}, 1, 1, {7, 7}, 2, 24, 1, 0, 0},
        {2, 72, {3, 3}, 1, 1, {11, 17}, 3, 136, 1, 0, 0},
        {2, 136, {3, 3}, 1, 1, {5, 9}, 5, 200, 1, 0, 0},
        {2, 200, {3, 3}, 1, 1, {7, 24}, 2, 72, 1, 0, 0},
        {2, 256, {3, 3}, 1, 1, {4, 5}, 9, 256, 1, 0, 0},
        {2, 8, {3, 3}, 1, 1, {12, 9}, 70, 8, 1, 0, 0},
        {3, 24, {1, 3, 3}, 1, 1, {2, 5, 8}, 3, 256, 1, 0, 0},
        {2, 40, {3, 3}, 1, 1, {9, 13}, 4, 48, 1, 0, 2},
        {2, 72, {3, 3}, 1, 1, {6, 19}, 3, 80, 1, 0, 20},
        {2, 16, {3, 3}, 1, 1, {8, 7}, 5, 16, 1, 0, 13},
        {3, 24, {1, 3, 3}, 1, 1, {2, 5, 8}, 2, 64, 1, 0, 11},
    };
    static const ckconv_element acts[3] = {CKCONV_RELU, CKCONV_PASS, CKCONV_CLAMP};
    for (int i = 0; i < 2 * (int)(sizeof layers / sizeof layers[0]); i++) {
        const int l = i / 2;
        if (test_effort() == 0 && i % 2 != l % 2) {
            continue; /* every layer, in one of both types */
        }
        ckconv_conv_conv_desc d;
        pair_case p;
        test_rng r = test_seed((uint64_t)i + 1000);
        memset(&d, 0, sizeof d);
        test_layer(&d.conv0, (int)layers[l].ndim, layers[l].g, layers[l].n, 1, 1);
        for (int j = 0; j < (int)layers[l].ndim; j++) {
            d.conv0.filter[j] = layers[l].filter[j];
            d.conv0.input[j] = layers[l].input[j];
            d.conv0.stride[j] = layers[l].stride;
            d.conv0.dilation[j] = layers[l].dilation;
            d.conv0.pad_lo[j] = layers[l].filter[j] / 2;
            d.conv0.pad_hi[j] = i % 5 == 0 ? 0 : layers[l].filter[j] / 2;
            if (layers[l].pad0 > 0) { /* of two digits: before and after */
                d.conv0.pad_lo[j] = layers[l].filter[j] > 1 ? layers[l].pad0 / 10 : 0;
                d.conv0.pad_hi[j] = layers[l].pad0 % 10;
            }
            d.stride1[j] = layers[l].stride1;
            d.pad_lo1[j] = d.pad_hi1[j] = layers[l].pad1;
        }
        d.conv0.in.dtype = i % 2 ? CKCONV_BF16 : CKCONV_F16;
        if (i % 2 && l % 4 == 1) { /* weights of the taps in another type than they are multiplied in */
            d.conv0.wei.dtype = CKCONV_F32;
            d.conv0.compute_in = d.conv0.compute_wei = d.wei1.dtype = d.conv0.in.dtype;
        }
        d.conv0.op_out.kind = acts[i % 3];
        d.conv0.op_out.alpha = -3.0;
        d.conv0.op_out.beta = 7.0;
        test_trim_element(&d.conv0.op_out);
        d.op_out.kind = i % 7 == 4 ? CKCONV_RELU : CKCONV_PASS;
        d.k1 = layers[l].k1;
        pair_make(&p, &d, i / 2 % 2, i / 3 % 2, i % 4 != 0, 0);
        fill(&p, &r);
        pair_compute_expected(&p);
        run_everywhere(&p, "windows", 0);
        pair_free(&p);
    }
}

static int wants(const char *only, const char *part)
{
    return strcmp(only, "") == 0 || strcmp(only, part) == 0;
}

/* An argument, random, separate, layers, units or windows, runs that part alone. */
int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    test_begin("test_conv_conv");
    device_count = test_cpu_devices(devices);
    if (wants(only, "random")) {
        part_random(test_effort() == 0 ? 200 : test_full() ? 6000 : 800);
    }
    if (wants(only, "separate")) {
        part_separate();
    }
    if (wants(only, "layers")) {
        part_layers();
    }
    if (wants(only, "units")) {
        part_units();
    }
    if (wants(only, "windows")) {
        part_windows();
    }
    test.plan = NULL;
    for (int32_t i = 0; i < ckconv_instance_count() && strcmp(only, "") == 0; i++) {
        if (ckconv_instance_does(i, CKCONV_CONV_CONV_FWD) && ckconv_instance_engine(i) == test_engine()) {
            CHECK_MSG(executed[i] > 0 || test_needs_other_cpu(i) || test_needs_other_gpu(i),
                      "nothing executed instance %s", ckconv_instance_name(i));
        }
    }
    return test_end();
}
