/* test_cross.c - all axes of a convolution crossed: every engine and instance against the definition
   SPDX-License-Identifier: MIT

   All data are small integers, so every result is exact and the tolerance is zero. The parts:
     triples   a covering array of strength 3: every combination of levels of any three axes occurs
     products  geometry x pass in full with the other axes rotating, and layouts x types x passes in full
     blocks    sizes that need several tiles, odd in every direction
     aligned   channels for 16-byte loads, as matrix units take them
     large     i8 sums that f32 does not hold
     first     few channels, many weights
     dense     f32 with channels last, as the GPU's tuned kernels want it
     depthwise each way in which the GPU's kernels walk
     sides     bwd_weight of small groups, K other than C, on matrix units
     planes    channels first on matrix units: products for each image, weights that are turned
     points    one tap, channels last, weights that stay in LDS
     samples   one tap with strides, channels first, whose positions are sampled or spread
     columns   filters over few positions, whose taps become rows in workspace
     dilated   taps that lie on padding for whole tiles, which leave them out
     shares    long sums of few tiles: blocks of the TMA's tiles share them (sm_90, alone: few units)
     pairs     rows within sectors: pairs of such blocks send columns' boxes to both (the same)
     filters   that a GPU's tiles take in sections, that step by their own size, of one pixel
   CKCONV_TEST_FULL=1 multiplies the geometry by all types too. Each problem runs on the reference and on
   every CPU instance that supports it, with the CPU features as found, with AVX2 only and with none; or on
   the GPU's instances: every second or fourth one, in turns, where it is simulated (with CKCONV_TEST_QUICK=1
   a fifth of these, a sixth in planes, and a part of the problems of aligned, depthwise, points, samples and
   wide), and then without products.
   An instance that no problem executed is a failure. */
#define _POSIX_C_SOURCE 200809L
#include "naive.h"

/*------------------------------------------------------------------------------------------------------------
  axes
*/
enum {
    AXIS_GROUPS,
    AXIS_STRIDE,
    AXIS_DILATION,
    AXIS_PAD,
    AXIS_C,
    AXIS_K,
    AXIS_NDIM,
    AXIS_PASS,
    AXIS_TYPE,
    AXIS_IN_LAYOUT,
    AXIS_WEI_LAYOUT,
    AXIS_OUT_LAYOUT,
    AXIS_FILTER,
    AXIS_ELEMENT,
    AXES
};

/* in, wei, out, then what they are rounded to. I32 stands for the written tensor of an i8 problem. */
typedef struct type_row {
    ckconv_dtype dtype[3], compute[3];
} type_row;

static const type_row types[] = {
    {{CKCONV_F64, CKCONV_F64, CKCONV_F64}, {0, 0, 0}},
    {{CKCONV_F32, CKCONV_F32, CKCONV_F32}, {0, 0, 0}},
    {{CKCONV_F32, CKCONV_F32, CKCONV_F32}, {CKCONV_TF32, CKCONV_TF32, CKCONV_TF32}},
    {{CKCONV_F32, CKCONV_F32, CKCONV_F32}, {CKCONV_BF16, CKCONV_BF16, CKCONV_BF16}},
    {{CKCONV_F32, CKCONV_F32, CKCONV_F32}, {CKCONV_BF16X3, CKCONV_BF16X3, CKCONV_BF16X3}},
    {{CKCONV_F16, CKCONV_F16, CKCONV_F16}, {0, 0, 0}},
    {{CKCONV_BF16, CKCONV_BF16, CKCONV_BF16}, {0, 0, 0}},
    {{CKCONV_BF16, CKCONV_F32, CKCONV_BF16}, {0, 0, 0}},
    {{CKCONV_F16, CKCONV_F16, CKCONV_F16}, {CKCONV_F8E4M3, CKCONV_F8E4M3, CKCONV_F8E5M2}},
    {{CKCONV_F16, CKCONV_F16, CKCONV_F16}, {CKCONV_F8E5M2, CKCONV_F8E4M3, CKCONV_F8E4M3}},
    {{CKCONV_F16, CKCONV_F16, CKCONV_F16}, {CKCONV_F8E4M3FNUZ, CKCONV_F8E5M2FNUZ, CKCONV_F8E5M2FNUZ}},
    {{CKCONV_F8E4M3, CKCONV_F8E4M3, CKCONV_F16}, {0, 0, 0}},
    {{CKCONV_F8E4M3, CKCONV_F8E5M2, CKCONV_BF16}, {0, 0, 0}},
    {{CKCONV_F8E5M2, CKCONV_F8E4M3, CKCONV_F32}, {0, 0, 0}},
    {{CKCONV_F8E4M3, CKCONV_F8E4M3, CKCONV_F8E4M3}, {0, 0, 0}},
    {{CKCONV_F8E5M2, CKCONV_F8E5M2, CKCONV_F8E5M2}, {0, 0, 0}},
    {{CKCONV_F8E4M3FNUZ, CKCONV_F8E5M2FNUZ, CKCONV_F8E5M2FNUZ}, {0, 0, 0}},
    {{CKCONV_F8E5M2FNUZ, CKCONV_F8E4M3FNUZ, CKCONV_F8E4M3FNUZ}, {0, 0, 0}},
    {{CKCONV_F8E4M3FNUZ, CKCONV_F8E4M3FNUZ, CKCONV_F32}, {0, 0, 0}},
    {{CKCONV_I8, CKCONV_I8, CKCONV_I8}, {0, 0, 0}},
    {{CKCONV_I8, CKCONV_I8, CKCONV_I32}, {0, 0, 0}},
};
#define TYPES ((int)(sizeof types / sizeof types[0]))

static const int levels[AXES] = {3, 4, 2, 3, 5, 5, 3, 3, TYPES, 4, 3, 4, 3, 3};
static const int64_t channels[5] = {1, 3, 5, 17, 33};
static const ckconv_layout data_layouts[4] = {CKCONV_NHWGC, CKCONV_GNHWC, CKCONV_NGCHW, CKCONV_STRIDED};
static const ckconv_layout wei_layouts[3] = {CKCONV_GKYXC, CKCONV_GKCYX, CKCONV_STRIDED};
static const ckconv_op passes[3] = {CKCONV_FWD, CKCONV_BWD_DATA, CKCONV_BWD_WEIGHT};

/* Sizes differ per dimension so that a swapped axis shows. Row: ndim - 1. */
static const int64_t inputs[3][3] = {{11, 0, 0}, {7, 6, 0}, {5, 4, 6}};
static const int64_t filters[3][3][3] = {
    {{1, 0, 0}, {1, 1, 0}, {1, 1, 1}}, {{3, 0, 0}, {3, 2, 0}, {1, 3, 2}}, {{2, 0, 0}, {2, 3, 0}, {2, 1, 3}}};

static void set_pads(ckconv_conv_desc *d, int pad)
{
    for (int i = 0; i < (int)d->ndim; i++) {
        const int64_t span = (d->filter[i] - 1) * d->dilation[i] + 1;
        d->pad_lo[i] = pad == 0 ? 0 : pad == 1 ? (i + 1) % 2 : d->filter[i] + i % 2;
        d->pad_hi[i] = pad == 0 ? 0 : pad == 1 ? 2 - i % 2 : d->filter[i];
        if (d->input[i] + d->pad_lo[i] + d->pad_hi[i] < span) {
            d->input[i] = span - d->pad_lo[i] - d->pad_hi[i];
        }
    }
}

static void set_types(ckconv_conv_desc *d, const type_row *row, ckconv_op op)
{
    const int w = naive_written(op);
    ckconv_tensor *t[3] = {&d->in, &d->wei, &d->out};
    ckconv_dtype *compute[3] = {&d->compute_in, &d->compute_wei, &d->compute_out};
    for (int i = 0; i < 3; i++) {
        t[i]->dtype = row->dtype[i] == CKCONV_I32 ? CKCONV_I8 : row->dtype[i];
        *compute[i] = row->compute[i];
    }
    if (row->dtype[2] == CKCONV_I32) {
        t[w]->dtype = CKCONV_I32;
    }
}

static void set_layout(ckconv_conv_desc *d, int which, ckconv_layout layout, test_rng *r)
{
    ckconv_tensor *t = which == NAIVE_IN ? &d->in : which == NAIVE_WEI ? &d->wei : &d->out;
    int64_t length[6];
    t->layout = layout;
    if (layout == CKCONV_STRIDED) {
        naive_lengths(d, which, length);
        test_gap_strides(r, d->ndim, length, t->stride);
    }
}

/* element 1: operations on both tensors that are read; 2: an epilogue with one or two D tensors. */
static void set_elements(ckconv_conv_desc *d, ckconv_op op, int element, test_rng *r)
{
    const int w = naive_written(op);
    ckconv_element_op *ops[3] = {&d->op_in, &d->op_wei, &d->op_out};
    if (element == 1) {
        ckconv_element_op *first = ops[w == NAIVE_IN ? NAIVE_OUT : NAIVE_IN];
        ckconv_element_op *second = ops[w == NAIVE_WEI ? NAIVE_OUT : NAIVE_WEI];
        first->kind = CKCONV_CLAMP;
        first->alpha = -1.0;
        first->beta = 3.0;
        second->kind = CKCONV_SCALE;
        second->alpha = -2.0;
    } else if (element == 2) {
        const int two = (int)test_below(r, 2);
        ops[w]->kind = two != 0 ? CKCONV_ADD : CKCONV_BILINEAR;
        ops[w]->alpha = 0.5;
        ops[w]->beta = -3.0;
        test_trim_element(ops[w]);
        d->num_d = 1 + two;
        d->d[0].layout = test_below(r, 2) == 0 ? 0 : w == NAIVE_WEI ? CKCONV_STRIDED : CKCONV_CHANNEL;
        if (d->d[0].layout == CKCONV_STRIDED) {
            d->d[0].stride[0] = d->k; /* one value per filter */
            d->d[0].stride[1] = 1;
        }
        if (two != 0 && w != NAIVE_WEI && test_below(r, 2) == 0) {
            d->d[1].layout = CKCONV_GNHWC; /* groups apart, whatever the written tensor's are */
        }
    }
}

/* An epilogue with a D tensor that lies as what is written, or numbers for each channel that multiply: 0: a
   residual and a bias, 1: a residual alone, 2: factors, 3: a gate, 4: a bias and a residual that is added
   behind the activation. */
enum { BESIDE = 5 };
static void set_beside(ckconv_conv_desc *d, ckconv_op op, int which)
{
    static const ckconv_element kinds[BESIDE] = {CKCONV_BIAS_RESIDUAL_RELU, CKCONV_BILINEAR,
                                                 CKCONV_SCALE_SHIFT_RELU, CKCONV_CLAMP_BWD,
                                                 CKCONV_BIAS_RELU_ADD};
    const int alone = which == 1 || which == 3;
    ckconv_element_op *written = naive_written(op) == NAIVE_IN ? &d->op_in : &d->op_out;
    written->kind = kinds[which];
    written->alpha = which == 3 ? -0.5 : 0.5;
    written->beta = which == 3 ? 1.0 : -3.0;
    test_trim_element(written);
    d->num_d = alone ? 1 : 2;
    for (int j = 0; j < d->num_d; j++) {
        d->d[j].layout = alone || (j == 1 && which != 2) ? 0 : CKCONV_CHANNEL;
    }
}

/* An epilogue with a number for each channel, which tiles of the TMA take: a sum, of two, bounds. */
static void set_channel_add(ckconv_conv_desc *d, ckconv_op op, int which)
{
    ckconv_element_op *written = naive_written(op) == NAIVE_IN ? &d->op_in : &d->op_out;
    if (which == 0) {
        return;
    }
    written->kind = which == 1 ? CKCONV_BILINEAR : which == 4 ? CKCONV_CLAMP : CKCONV_ADD;
    written->alpha = which == 4 ? -1.0 : 0.5;
    written->beta = which == 4 ? 3.0 : -3.0;
    test_trim_element(written);
    d->num_d = which == 4 ? 0 : which == 3 ? 2 : 1;
    for (int j = 0; j < d->num_d; j++) {
        d->d[j].layout = CKCONV_CHANNEL;
    }
}

static void make_desc(ckconv_conv_desc *d, ckconv_op *op, const int *level, uint64_t seed)
{
    test_rng r = test_seed(seed);
    memset(d, 0, sizeof *d);
    const int dims = level[AXIS_NDIM];
    *op = passes[level[AXIS_PASS]];
    d->ndim = dims + 1;
    d->n = 1 + test_below(&r, 3);
    const int64_t c = channels[level[AXIS_C]];
    const int64_t k = channels[level[AXIS_K]];
    const int depthwise = level[AXIS_GROUPS] == 2;
    d->g = depthwise ? c : level[AXIS_GROUPS] + 1;
    d->c = depthwise ? 1 : c;
    d->k = depthwise ? (k > 5 ? 2 : k > 1 ? k : 1) : k;
    for (int i = 0; i <= dims; i++) {
        d->filter[i] = filters[level[AXIS_FILTER]][dims][i];
        d->input[i] = inputs[dims][i];
        d->dilation[i] = level[AXIS_DILATION] + 1;
        d->stride[i] = level[AXIS_STRIDE] == 3 ? d->filter[i] + 1 + i % 2 : level[AXIS_STRIDE] + 1;
    }
    set_pads(d, level[AXIS_PAD]);
    set_types(d, &types[level[AXIS_TYPE]], *op);
    set_layout(d, NAIVE_IN, data_layouts[level[AXIS_IN_LAYOUT]], &r);
    set_layout(d, NAIVE_WEI, wei_layouts[level[AXIS_WEI_LAYOUT]], &r);
    set_layout(d, NAIVE_OUT, data_layouts[level[AXIS_OUT_LAYOUT]], &r);
    set_elements(d, *op, level[AXIS_ELEMENT], &r);
}

/*------------------------------------------------------------------------------------------------------------
  data: integers large enough that rounding to the compute type shows, small enough that sums are exact
*/
static int64_t fill_range(ckconv_dtype stored, ckconv_dtype compute, ckconv_dtype written)
{
    if (stored == CKCONV_F32) {
        return compute == CKCONV_TF32 ? 2500 : compute == CKCONV_BF16 || compute == CKCONV_BF16X3 ? 290 : 30;
    }
    if (stored == CKCONV_F16 && compute != CKCONV_F16) {
        return compute == CKCONV_F8E4M3 || compute == CKCONV_F8E4M3FNUZ ? 21 : 13;
    }
    if (stored == CKCONV_F64) {
        return 1000;
    }
    if (stored == CKCONV_I8) {
        return written == CKCONV_I32 ? 127 : 4;
    }
    return test_size(written) == 1 ? 2 : 6;
}

/* 1 when all partial sums are exact in f32 in any order. */
static int sums_are_exact(const naive_case *c)
{
    const test_tensor *t = &c->t[naive_written(c->op)];
    const double limit = naive_dtype(&c->desc, NAIVE_IN) == CKCONV_F64   ? 9007199254740992.0
                         : naive_dtype(&c->desc, NAIVE_IN) == CKCONV_I8  ? 1e15
                         : naive_dtype(&c->desc, NAIVE_WEI) == CKCONV_I8 ? 1e15
                                                                         : 16777216.0;
    for (int64_t i = 0; i < t->count; i++) {
        if (c->total[i] > limit) {
            return 0;
        }
    }
    return 1;
}

static int alike; /* values are the largest ones, of one sign: sums become as large as they can */

static void fill_case(naive_case *c, uint64_t seed)
{
    test_rng r = test_seed(seed ^ 0x5DEECE66Du);
    const int w = naive_written(c->op);
    int64_t range[3] = {0, 0, 0};
    for (int i = 0; i < 3; i++) {
        range[i] = fill_range(c->t[i].dtype, naive_compute(&c->desc, i), c->t[w].dtype);
    }
    for (int i = 0; i < (int)c->desc.num_d; i++) {
        naive_fill_integers(&c->d[i], &r, -3, 3);
    }
    for (int attempt = 0; attempt < 12; attempt++) {
        for (int i = 0; i < 3; i++) {
            if (i != w) {
                naive_fill_integers(&c->t[i], &r, alike ? range[i] - 1 : -range[i], range[i]);
            }
        }
        naive_sum(c);
        if (sums_are_exact(c)) {
            break;
        }
        const int shrink = range[NAIVE_IN] > range[NAIVE_WEI] && w != NAIVE_IN     ? NAIVE_IN
                           : range[NAIVE_WEI] > range[NAIVE_OUT] && w != NAIVE_WEI ? NAIVE_WEI
                           : w != NAIVE_OUT                                        ? NAIVE_OUT
                                                                                   : NAIVE_IN;
        range[shrink] = (range[shrink] + 1) / 2;
    }
    naive_finish_all(c);
}

/*------------------------------------------------------------------------------------------------------------
  running one problem everywhere
*/
static ckconv_device devices[3];
static int device_count;
static long executed[512]; /* by instance */
static long problems, runs;
static int turns = 1; /* a problem runs on one in so many instances, the next problem on others */
static int lean = 1;  /* one in so many problems of the longest parts runs */

/* The library's idea of each tensor against the test's own. */
static void check_tensors(const naive_case *c, const ckconv_plan *plan)
{
    for (int i = 0; i < 3; i++) {
        ckconv_tensor_info info;
        ckconv_error err;
        memset(&err, 0, sizeof err);
        if (!CHECK_OK(ckconv_plan_tensor(plan, CKCONV_TENSOR_IN + i, &info, &err), err)) {
            continue;
        }
        const test_tensor *t = &c->t[i];
        int same = info.rank == t->rank && info.dtype == t->dtype && info.count == t->count &&
                   info.bytes == (int64_t)t->buffer.bytes &&
                   info.written == (i == naive_written(c->op) ? 1 : 0);
        for (int j = 0; j < t->rank; j++) {
            same = same && info.length[j] == t->length[j];
            same = same && (info.stride[j] == t->stride[j] || t->length[j] == 1);
        }
        CHECK_MSG(same, "ckconv_plan_tensor(%d) differs from the definition", i);
    }
}

static void run_instance(naive_case *c, const ckconv_plan *base, int32_t index, int all)
{
    ckconv_plan plan;
    ckconv_options options;
    ckconv_error err;
    memset(&options, 0, sizeof options);
    memset(&err, 0, sizeof err);
    options.instance = ckconv_instance_name(index);
    options.engine = ckconv_instance_engine(index);
    const ckconv_status supports = ckconv_instance_supports(index, base, &err);
    const ckconv_status status = ckconv_plan_again(&plan, base, &options, &err);
    test.plan = base;
    if (supports != CKCONV_OK) {
        CHECK_MSG(status != CKCONV_OK && err.text[0] != 0, "instance %s refuses but can be planned",
                  options.instance);
        return;
    }
    if (!CHECK_MSG(status == CKCONV_OK, "instance %s supports but does not plan: %s", options.instance,
                   err.text)) {
        return;
    }
    CHECK(plan.instance == index);
    if (naive_run(c, &plan)) {
        naive_compare(c, "instance");
        executed[index]++;
        runs++;
    }
    /* parts that the planner would not make of so few positions */
    options.split_k = 3;
    if (c->op == CKCONV_BWD_WEIGHT && test_on_gpu() && all &&
        ckconv_plan_again(&plan, base, &options, &err) == CKCONV_OK && naive_run(c, &plan)) {
        naive_compare(c, "instance, three parts");
        runs++;
    }
}

/* On a simulated GPU: not the tiles, which compute a whole one for each channel; other parts test them. Those
   without a matrix unit run on each problem, as their kernels differ by it. */
static int depthwise_alone;

/* Is it the turn of a problem? */
static int is_due(test_rng *r)
{
    return lean == 1 || test_below(r, lean) == 0;
}

/* Planner's choice for every set of CPU features. Instances: those that the first set allows, or with `all`
   those of every set, and the reference, which is slow. */
static void run_problem(ckconv_op op, const ckconv_conv_desc *d, uint64_t seed, int all)
{
    naive_case c;
    ckconv_plan plan;
    const int32_t count = ckconv_instance_count();
    naive_make(&c, op, d, (size_t)(seed % 7 == 0 ? 1 : 0));
    fill_case(&c, seed);
    problems++;
    for (int i = 0; i < device_count; i++) {
        ckconv_device device = devices[i];
        ckconv_options options;
        memset(&options, 0, sizeof options);
        device.threads = seed % 32 == 0 ? 3 : 1; /* a team costs more than these problems */
        options.engine = test_engine();
        if (!naive_plan(&c, &plan, &options, &device)) {
            continue;
        }
        if (i == 0) {
            check_tensors(&c, &plan);
        }
        if (naive_run(&c, &plan)) {
            naive_compare(&c, "planner's choice");
            executed[plan.instance]++;
            runs++;
        }
        const ckconv_plan base = plan;
        for (int32_t j = 0; j < count && (i == 0 || all); j++) {
            const ckconv_engine engine = ckconv_instance_engine(j);
            const int wanted = engine == test_engine() || (engine == CKCONV_ENGINE_REF && i == 0 && all);
            if (depthwise_alone && executed[j] > 0 && strstr(ckconv_instance_name(j), "depthwise") == NULL) {
                continue;
            }
            const int always = depthwise_alone && strstr(ckconv_instance_name(j), "matrix") == NULL;
            if (wanted && (executed[j] == 0 || always || (problems + j) % turns == 0) &&
                ckconv_instance_does(j, op) && (j != base.instance || base.split_k > 1)) {
                run_instance(&c, &base, j, all);
            }
        }
    }
    naive_free(&c);
}

static void run_levels(const int *level, uint64_t seed, int all)
{
    ckconv_conv_desc d;
    ckconv_op op;
    make_desc(&d, &op, level, seed);
    run_problem(op, &d, seed, all);
}

/*------------------------------------------------------------------------------------------------------------
  strength 3
*/

/* One bit per combination of levels of three axes. */
typedef struct cover {
    unsigned char *seen[AXES][AXES][AXES]; /* a < b < c */
    long left;
} cover;

static unsigned char *cover_at(cover *v, int a, int b, int c, const int *level)
{
    return v->seen[a][b][c] + ((level[a] * levels[b] + level[b]) * levels[c] + level[c]);
}

static void cover_make(cover *v)
{
    memset(v, 0, sizeof *v);
    for (int a = 0; a < AXES; a++) {
        for (int b = a + 1; b < AXES; b++) {
            for (int c = b + 1; c < AXES; c++) {
                const int count = levels[a] * levels[b] * levels[c];
                v->seen[a][b][c] = (unsigned char *)calloc((size_t)count, 1);
                v->left += count;
                if (v->seen[a][b][c] == NULL) {
                    exit(3);
                }
            }
        }
    }
}

static void cover_free(cover *v)
{
    for (int a = 0; a < AXES; a++) {
        for (int b = a + 1; b < AXES; b++) {
            for (int c = b + 1; c < AXES; c++) {
                free(v->seen[a][b][c]);
            }
        }
    }
}

/* New combinations that a row would cover among the axes that are set (level >= 0); axis < 0: all, and mark
   them. */
static long cover_gain(cover *v, const int *level, int axis)
{
    long gain = 0;
    for (int a = 0; a < AXES; a++) {
        for (int b = a + 1; b < AXES && level[a] >= 0; b++) {
            for (int c = b + 1; c < AXES && level[b] >= 0; c++) {
                if (level[c] < 0 || (axis >= 0 && a != axis && b != axis && c != axis)) {
                    continue;
                }
                unsigned char *seen = cover_at(v, a, b, c, level);
                gain += *seen == 0 ? 1 : 0;
                if (axis < 0) {
                    *seen = 1;
                }
            }
        }
    }
    return gain;
}

/* Some combination that no row has covered yet. */
static void cover_first(const cover *v, int *level)
{
    for (int a = 0; a < AXES; a++) {
        for (int b = a + 1; b < AXES; b++) {
            for (int c = b + 1; c < AXES; c++) {
                const int count = levels[a] * levels[b] * levels[c];
                for (int i = 0; i < count; i++) {
                    if (v->seen[a][b][c][i] == 0) {
                        level[a] = i / (levels[b] * levels[c]);
                        level[b] = i / levels[c] % levels[b];
                        level[c] = i % levels[c];
                        return;
                    }
                }
            }
        }
    }
}

static void cover_row(cover *v, test_rng *r, int *level)
{
    for (int i = 0; i < AXES; i++) {
        level[i] = -1;
    }
    cover_first(v, level);
    const int start = (int)test_below(r, AXES);
    for (int i = 0; i < AXES; i++) {
        const int axis = (start + i) % AXES;
        if (level[axis] >= 0) {
            continue;
        }
        long best = -1;
        int chosen = 0;
        const int first = (int)test_below(r, levels[axis]);
        for (int j = 0; j < levels[axis]; j++) {
            level[axis] = (first + j) % levels[axis];
            const long gain = cover_gain(v, level, axis);
            if (gain > best) {
                best = gain;
                chosen = level[axis];
            }
        }
        level[axis] = chosen;
    }
    v->left -= cover_gain(v, level, -1);
}

static void part_triples(void)
{
    static cover v;
    int level[AXES];
    test_rng r = test_seed(3);
    cover_make(&v);
    const long combinations = v.left;
    const long before = runs;
    long rows = 0;
    while (v.left > 0) {
        cover_row(&v, &r, level);
        run_levels(level, (uint64_t)++rows, 1);
    }
    cover_free(&v);
    printf("triples: %d axes, %ld combinations of three levels in %ld problems, %ld runs\n", (int)AXES,
           combinations, rows, runs - before);
}

/*------------------------------------------------------------------------------------------------------------
  full products
*/

/* Every combination of the axes in `full`; the others take levels that rotate through all of theirs. */
static void run_product(const char *name, const int *full, int full_count, uint64_t seed)
{
    int level[AXES];
    long total = 1;
    const long before = runs;
    test_rng r = test_seed(seed);
    for (int i = 0; i < full_count; i++) {
        total *= levels[full[i]];
    }
    const long step = test_effort() == 0 ? 13 : 1; /* 13 shares no factor with the axes */
    for (long i = 0; i < total; i += step) {
        for (int j = 0; j < AXES; j++) {
            level[j] = (int)test_below(&r, levels[j]);
        }
        long rest = i;
        for (int j = 0; j < full_count; j++) {
            level[full[j]] = (int)(rest % levels[full[j]]);
            rest /= levels[full[j]];
        }
        run_levels(level, seed * 1000003u + (uint64_t)i, i % 16 == 0);
    }
    printf("%s: %ld problems, %ld runs\n", name, (total + step - 1) / step, runs - before);
}

static void part_products(void)
{
    static const int geometry[] = {AXIS_GROUPS, AXIS_STRIDE, AXIS_DILATION, AXIS_PAD,  AXIS_C,
                                   AXIS_K,      AXIS_NDIM,   AXIS_PASS,     AXIS_TYPE, AXIS_FILTER};
    static const int storage[] = {AXIS_TYPE,       AXIS_PASS,    AXIS_IN_LAYOUT, AXIS_WEI_LAYOUT,
                                  AXIS_OUT_LAYOUT, AXIS_ELEMENT, AXIS_NDIM};
    if (test_full()) {
        run_product("groups x stride x dilation x pad x C x K x ndim x pass x type", geometry, 9, 11);
        run_product("type x pass x layouts x element operations x ndim", storage, 7, 12);
    } else {
        run_product("groups x stride x dilation x pad x C x K x ndim x pass", geometry, 8, 13);
        run_product("type x pass x layouts", storage, 5, 14);
    }
}

/*------------------------------------------------------------------------------------------------------------
  sizes beyond one tile
*/
typedef struct block_case {
    int32_t ndim;
    int64_t g, n, k, c;
    int64_t filter[3], input[3], stride[3], dilation[3], lo[3], hi[3];
} block_case;

static const block_case blocks[] = {
    {2, 1, 2, 70, 130, {3, 3, 0}, {9, 11, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 1, 1, 129, 65, {1, 1, 0}, {17, 19, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 3, 33, 40, {1, 1, 0}, {21, 17, 0}, {2, 2, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 3, 2, 24, 20, {3, 5, 0}, {23, 14, 0}, {2, 3, 0}, {1, 2, 0}, {2, 4, 0}, {1, 3, 0}},
    {2, 32, 2, 4, 4, {3, 3, 0}, {14, 13, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 70, 2, 1, 1, {3, 3, 0}, {25, 27, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 37, 3, 1, 1, {5, 5, 0}, {20, 22, 0}, {2, 2, 0}, {1, 1, 0}, {2, 2, 0}, {1, 2, 0}},
    {2, 19, 2, 2, 1, {3, 3, 0}, {30, 31, 0}, {1, 1, 0}, {2, 2, 0}, {2, 2, 0}, {2, 2, 0}},
    {2, 9, 2, 1, 3, {3, 3, 0}, {16, 18, 0}, {1, 2, 0}, {1, 1, 0}, {1, 1, 0}, {1, 0, 0}},
    {2, 1, 2, 50, 3, {7, 7, 0}, {31, 33, 0}, {2, 2, 0}, {1, 1, 0}, {3, 3, 0}, {3, 3, 0}},
    {1, 1, 2, 40, 48, {9, 0, 0}, {203, 0, 0}, {1, 0, 0}, {2, 0, 0}, {8, 0, 0}, {8, 0, 0}},
    {1, 64, 2, 1, 1, {31, 0, 0}, {301, 0, 0}, {1, 0, 0}, {1, 0, 0}, {15, 0, 0}, {15, 0, 0}},
    {1, 2, 1, 17, 300, {2, 0, 0}, {65, 0, 0}, {3, 0, 0}, {1, 0, 0}, {0, 0, 0}, {1, 0, 0}},
    {3, 1, 1, 34, 33, {3, 3, 3}, {7, 8, 9}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {3, 20, 1, 1, 1, {3, 3, 3}, {9, 12, 13}, {1, 2, 2}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {3, 4, 2, 10, 7, {2, 3, 2}, {6, 9, 10}, {2, 1, 3}, {1, 2, 1}, {1, 2, 0}, {0, 2, 1}},
    {1, 1, 40, 3, 5, {1, 0, 0}, {700, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 1, 1, 5000, {1, 0, 0}, {3, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 1, 3000, 2, {1, 0, 0}, {5, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 700, 3, 1, 1, {3, 0, 0}, {4, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}},
};

static void set_block(ckconv_conv_desc *d, const block_case *b)
{
    test_layer(d, b->ndim, b->g, b->n, b->k, b->c);
    test_windows(d, b->filter, b->input, b->stride, b->dilation, b->lo, b->hi);
}

static void part_blocks(void)
{
    static const int fast[] = {1, 5, 6, 19};
    const int count = (int)(sizeof blocks / sizeof blocks[0]);
    const long before = runs;
    const long problems_before = problems;
    for (int i = 0; i < count * 3 * TYPES; i++) {
        const block_case *b = &blocks[i % count];
        const ckconv_op op = passes[i / count % 3];
        const int type = i / count / 3;
        int chosen = test_full() ? 1 : 0;
        for (int j = 0; j < 4; j++) {
            chosen = chosen || fast[j] == type;
        }
        const int every = test_effort() > 0 ? 1 : lean > 1 ? 37 : 13;
        if ((!chosen && i % 11 != 0) || (i + test_thin_turn()) % every != 0) {
            continue;
        }
        ckconv_conv_desc d;
        test_rng r = test_seed((uint64_t)i + 77);
        set_block(&d, b);
        set_types(&d, &types[type], op);
        set_layout(&d, NAIVE_IN, data_layouts[test_below(&r, 4)], &r);
        set_layout(&d, NAIVE_WEI, wei_layouts[test_below(&r, 3)], &r);
        set_layout(&d, NAIVE_OUT, data_layouts[test_below(&r, 4)], &r);
        set_elements(&d, op, i % 3, &r);
        run_problem(op, &d, (uint64_t)i + 900001u, i % 16 == 0 || test_full());
    }
    printf("blocks: %ld problems, %ld runs\n", problems - problems_before, runs - before);
}

/* Channels for 16-byte loads: what the kernels for matrix units take as it is or packed. */
static const block_case aligned[] = {
    {2, 1, 3, 130, 6, {3, 3, 0}, {8, 9, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 1, 2, 72, 64, {3, 3, 0}, {11, 13, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 2, 2, 64, 72, {3, 3, 0}, {13, 11, 0}, {2, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 8, 3, 8, 8, {3, 3, 0}, {9, 11, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 20, 2, 4, 4, {3, 3, 0}, {7, 7, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 3, 5, 32, 32, {3, 3, 0}, {5, 7, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 5, 2, 16, 16, {2, 3, 0}, {9, 10, 0}, {1, 1, 0}, {1, 2, 0}, {2, 0, 0}, {0, 1, 0}},
    {2, 5, 2, 16, 16, {3, 3, 0}, {43, 17, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 2, 1, 32, 32, {3, 3, 0}, {50, 14, 0}, {1, 1, 0}, {1, 1, 0}, {1, 0, 0}, {1, 2, 0}},
    {2, 3, 2, 32, 32, {2, 3, 0}, {9, 10, 0}, {1, 1, 0}, {1, 1, 0}, {1, 0, 0}, {0, 1, 0}},
    {2, 1, 3, 136, 128, {1, 1, 0}, {12, 11, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 1, 264, 64, {1, 1, 0}, {9, 9, 0}, {2, 2, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 2, 64, 64, {3, 3, 0}, {18, 19, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 2, 2, 192, 72, {1, 3, 0}, {9, 10, 0}, {1, 1, 0}, {1, 1, 0}, {0, 1, 0}, {0, 1, 0}},
    {2, 4, 2, 24, 8, {3, 2, 0}, {10, 9, 0}, {2, 3, 0}, {2, 1, 0}, {3, 0, 0}, {0, 2, 0}},
    {1, 1, 2, 48, 64, {128, 0, 0}, {150, 0, 0}, {1, 0, 0}, {1, 0, 0}, {64, 0, 0}, {63, 0, 0}},
    {1, 2, 2, 64, 72, {5, 0, 0}, {70, 0, 0}, {1, 0, 0}, {2, 0, 0}, {4, 0, 0}, {4, 0, 0}},
    {1, 4, 2, 16, 16, {5, 0, 0}, {40, 0, 0}, {1, 0, 0}, {1, 0, 0}, {2, 0, 0}, {2, 0, 0}},
    {3, 1, 1, 64, 64, {3, 3, 3}, {5, 6, 7}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {3, 4, 2, 8, 8, {1, 3, 3}, {1, 7, 8}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {3, 3, 2, 32, 32, {3, 3, 3}, {3, 5, 6}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {3, 2, 2, 16, 16, {3, 3, 3}, {4, 6, 9}, {2, 1, 1}, {1, 1, 1}, {1, 1, 0}, {1, 1, 2}},
    {3, 2, 1, 16, 16, {3, 3, 3}, {5, 12, 13}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {3, 20, 1, 4, 4, {2, 2, 3}, {4, 7, 6}, {1, 1, 1}, {2, 1, 2}, {1, 0, 2}, {1, 1, 2}},
    {3, 1, 3, 16, 16, {4, 1, 1}, {6, 5, 5}, {1, 1, 1}, {1, 1, 1}, {2, 0, 0}, {1, 0, 0}},
    {3, 6, 2, 8, 8, {1, 3, 3}, {5, 9, 11}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
    {3, 2, 2, 16, 24, {2, 3, 1}, {5, 6, 7}, {1, 2, 1}, {1, 1, 1}, {1, 1, 0}, {0, 1, 0}},
};

static void part_aligned(void)
{
    /* f16, bf16, bf16 with f32 weights; f16 in fp8, fp8 with bf16, i8, bf16x3, i8 to i32, f32, tf32,
       f64 */
    static const int kinds[] = {5, 6, 7, 10, 12, 19, 4, 20, 1, 2, 0};
    const int count = (int)(sizeof aligned / sizeof aligned[0]);
    const int variants = (int)(sizeof kinds / sizeof kinds[0]);
    const long before = runs;
    const long problems_before = problems;
    for (int i = 0; i < count * 3 * variants; i++) {
        const ckconv_op op = passes[i / count % 3];
        const int variant = i / count / 3;
        const int odd = kinds[variant] == 0 && i % count == 0; /* f64: columns are no fours */
        if (!test_full() && !odd && (variant < 3 ? variant != i % 3 : variant != 3 + i % 11)) {
            continue;
        }
        ckconv_conv_desc d;
        test_rng r = test_seed((uint64_t)i + 177);
        set_block(&d, &aligned[i % count]);
        set_types(&d, &types[kinds[variant]], op);
        set_layout(&d, NAIVE_WEI, wei_layouts[test_below(&r, 2)], &r);
        set_elements(&d, op, variant % 3 == 1 ? 2 : 0, &r);
        if (is_due(&r)) {
            run_problem(op, &d, (uint64_t)i + 1900001u, 1);
        }
    }
    printf("aligned: %ld problems, %ld runs\n", problems - problems_before, runs - before);
}

/* i8: sums that f32 does not hold, of more positions than an instance may add in f32. */
static void part_large(void)
{
    static const block_case large = {1,         2,         2,         24,       16, {1, 0, 0}, {1901, 0, 0},
                                     {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}};
    alike = 1;
    for (int i = 0; i < 3; i++) {
        ckconv_conv_desc d;
        test_rng r = test_seed((uint64_t)i + 33);
        set_block(&d, &large);
        set_types(&d, &types[TYPES - 1], passes[i]);
        set_layout(&d, NAIVE_WEI, wei_layouts[i % 2], &r);
        run_problem(passes[i], &d, (uint64_t)i * 7 + 600001u, 1);
    }
    alike = 0;
}

/*------------------------------------------------------------------------------------------------------------
  first layers: few channels, rows of whole 16-byte chunks; windows that begin at odd numbers, strides, phases
  without taps, several tiles, more than 64 output channels, more than 160 weights of one
*/
static const block_case first[] = {
    {2, 1, 2, 64, 3, {7, 7, 0}, {22, 40, 0}, {2, 2, 0}, {1, 1, 0}, {3, 3, 0}, {3, 3, 0}},
    {2, 1, 3, 32, 3, {3, 3, 0}, {21, 24, 0}, {2, 2, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 1, 2, 96, 3, {4, 4, 0}, {16, 32, 0}, {4, 4, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 2, 48, 1, {5, 5, 0}, {9, 24, 0}, {2, 2, 0}, {1, 1, 0}, {2, 2, 0}, {1, 2, 0}},
    {2, 1, 1, 64, 4, {3, 3, 0}, {11, 18, 0}, {1, 1, 0}, {2, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {1, 1, 2, 16, 2, {9, 0, 0}, {64, 0, 0}, {3, 0, 0}, {1, 0, 0}, {4, 0, 0}, {4, 0, 0}},
    {2, 1, 1, 128, 3, {1, 7, 0}, {4, 400, 0}, {1, 2, 0}, {1, 1, 0}, {1, 3, 0}, {0, 2, 0}},
    {2, 1, 3, 16, 3, {2, 3, 0}, {13, 32, 0}, {3, 4, 0}, {1, 1, 0}, {1, 1, 0}, {1, 2, 0}},
    {2, 1, 1, 16, 4, {7, 7, 0}, {14, 16, 0}, {2, 2, 0}, {1, 1, 0}, {5, 2, 0}, {0, 4, 0}},
    {2, 1, 2, 80, 3, {3, 3, 0}, {9, 32, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 1, 2, 16, 1, {5, 4, 0}, {7, 56, 0}, {1, 3, 0}, {1, 1, 0}, {2, 9, 0}, {2, 1, 0}},
};

/* Channels first, of `in`, `out` or both: rows of whole chunks there, of outputs, too; several tiles along x,
   padding of more than eight pixels, lines of a tile beside the image, a channel of zeros more in LDS. */
static const block_case first_planes[] = {
    {2, 1, 2, 64, 3, {7, 7, 0}, {22, 32, 0}, {2, 2, 0}, {1, 1, 0}, {3, 3, 0}, {3, 3, 0}},
    {2, 1, 3, 32, 3, {3, 3, 0}, {21, 48, 0}, {2, 2, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 1, 2, 96, 4, {4, 4, 0}, {16, 32, 0}, {4, 4, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 1, 128, 3, {1, 7, 0}, {4, 400, 0}, {1, 2, 0}, {1, 1, 0}, {1, 3, 0}, {1, 2, 0}},
    {2, 1, 2, 80, 2, {3, 5, 0}, {9, 72, 0}, {1, 1, 0}, {2, 1, 0}, {1, 2, 0}, {2, 2, 0}},
    {2, 1, 2, 16, 2, {2, 13, 0}, {7, 24, 0}, {1, 1, 0}, {1, 1, 0}, {1, 12, 0}, {0, 8, 0}},
    {2, 1, 2, 64, 3, {3, 3, 0}, {9, 24, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 1, 2, 32, 1, {5, 5, 0}, {9, 40, 0}, {1, 1, 0}, {1, 1, 0}, {2, 2, 0}, {2, 2, 0}},
};

static void part_first_planes(void)
{
    const int count = (int)(sizeof first_planes / sizeof first_planes[0]);
    for (int i = 0; i < count * 2 * 3; i++) {
        const ckconv_op op = i / count % 2 ? CKCONV_BWD_WEIGHT : CKCONV_FWD;
        const int layouts = (i + i / count) % 3; /* each case has all in the end */
        ckconv_conv_desc d;
        test_rng r = test_seed((uint64_t)i + 6077);
        set_block(&d, &first_planes[i % count]);
        set_types(&d, &types[5 + i % 2], op);
        set_layout(&d, NAIVE_IN, layouts == 2 ? CKCONV_NHWGC : CKCONV_NGCHW, &r);
        set_layout(&d, NAIVE_WEI, CKCONV_GKCYX, &r);
        set_layout(&d, NAIVE_OUT, layouts == 1 ? CKCONV_NHWGC : CKCONV_NGCHW, &r);
        set_elements(&d, op, op == CKCONV_FWD && i % 5 > 2 ? 2 : 0, &r);
        run_problem(op, &d, (uint64_t)i * 7 + 720001u, 1);
    }
}

static void part_first(void)
{
    const int count = (int)(sizeof first / sizeof first[0]);
    const long before = runs;
    const long problems_before = problems;
    for (int i = 0; i < count * 3 * 2; i++) {
        const ckconv_op op = passes[i / count % 3];
        ckconv_conv_desc d;
        test_rng r = test_seed((uint64_t)i + 77);
        set_block(&d, &first[i % count]);
        set_types(&d, &types[5 + i / count / 3], op);
        set_layout(&d, NAIVE_WEI, wei_layouts[i % 2], &r);
        if (lean == 1 || test_below(&r, 2) == 0) {
            run_problem(op, &d, (uint64_t)i * 7 + 700001u, 1);
        }
    }
    part_first_planes();
    printf("first layers: %ld problems, %ld runs\n", problems - problems_before, runs - before);
}

/*------------------------------------------------------------------------------------------------------------
  f32 with channels last: what the tuned kernels of the GPU read in 16-byte chunks, in sizes around their
  tiles
*/
static const block_case dense[] = {
    {2, 1, 2, 140, 36, {3, 3, 0}, {9, 11, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 1, 2, 36, 132, {3, 2, 0}, {12, 9, 0}, {2, 1, 0}, {1, 2, 0}, {1, 2, 0}, {1, 1, 0}},
    {2, 2, 3, 20, 68, {1, 1, 0}, {13, 12, 0}, {2, 2, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 40, 2, 4, 4, {3, 3, 0}, {9, 11, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 5, 2, 16, 16, {3, 3, 0}, {11, 10, 0}, {2, 2, 0}, {1, 1, 0}, {1, 1, 0}, {1, 0, 0}},
    {1, 2, 2, 24, 16, {40, 0, 0}, {75, 0, 0}, {1, 0, 0}, {1, 0, 0}, {20, 0, 0}, {19, 0, 0}},
    {1, 1, 2, 12, 8, {45, 0, 0}, {130, 0, 0}, {2, 0, 0}, {2, 0, 0}, {30, 0, 0}, {40, 0, 0}},
    {3, 1, 2, 28, 8, {2, 3, 3}, {5, 6, 7}, {3, 2, 1}, {1, 1, 2}, {1, 1, 1}, {1, 1, 1}},
    {2, 1, 2, 64, 3, {7, 7, 0}, {23, 27, 0}, {2, 2, 0}, {1, 1, 0}, {3, 3, 0}, {3, 3, 0}},
    {2, 2, 2, 3, 20, {3, 3, 0}, {13, 19, 0}, {1, 1, 0}, {1, 2, 0}, {1, 2, 0}, {1, 2, 0}},
    {3, 1, 2, 8, 4, {3, 3, 3}, {7, 9, 8}, {2, 1, 2}, {1, 2, 1}, {1, 0, 1}, {1, 2, 1}},
    {1, 1, 2, 8, 2, {5, 0, 0}, {600, 0, 0}, {2, 0, 0}, {1, 0, 0}, {0, 0, 0}, {3, 0, 0}},
};

static void part_dense(void)
{
    const int count = (int)(sizeof dense / sizeof dense[0]);
    const long before = runs;
    const long problems_before = problems;
    for (int i = 0; i < count * 3; i++) {
        ckconv_conv_desc d;
        const ckconv_op op = passes[i / count];
        test_rng r = test_seed((uint64_t)i + 55);
        set_block(&d, &dense[i % count]);
        set_types(&d, &types[1], op);
        /* other weights, an epilogue: the paths beside the fast ones */
        set_layout(&d, NAIVE_WEI, wei_layouts[i % 4 == 3 ? 1 : 0], &r);
        set_elements(&d, op, i % 5 == 4 ? 2 : 0, &r);
        run_problem(op, &d, (uint64_t)i * 7 + 800001u, 0);
    }
    printf("channels last: %ld problems, %ld runs\n", problems - problems_before, runs - before);
}

/*------------------------------------------------------------------------------------------------------------
  depthwise: each way in which the GPU's kernels walk (windows of 3, 5, 7 and any number of taps, strides,
  planes with and without aligned rows, odd channels), with and without an epilogue
*/
static const block_case depthwise[] = {
    {2, 16, 2, 1, 1, {3, 3, 0}, {9, 12, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 9, 2, 1, 1, {3, 3, 0}, {10, 11, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {0, 2, 0}},
    {2, 6, 2, 1, 1, {5, 5, 0}, {9, 16, 0}, {1, 1, 0}, {1, 1, 0}, {2, 2, 0}, {2, 2, 0}},
    {2, 4, 1, 1, 1, {5, 5, 0}, {12, 9, 0}, {1, 1, 0}, {1, 1, 0}, {0, 1, 0}, {3, 0, 0}},
    {2, 8, 1, 1, 1, {7, 7, 0}, {9, 12, 0}, {1, 1, 0}, {1, 1, 0}, {3, 3, 0}, {3, 3, 0}},
    {2, 12, 1, 1, 1, {3, 7, 0}, {7, 13, 0}, {1, 1, 0}, {1, 1, 0}, {1, 3, 0}, {1, 3, 0}},
    {2, 4, 1, 1, 1, {4, 13, 0}, {7, 20, 0}, {1, 1, 0}, {1, 1, 0}, {1, 6, 0}, {2, 6, 0}},
    {2, 8, 2, 1, 1, {3, 3, 0}, {9, 19, 0}, {2, 2, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 8, 1, 1, 1, {3, 3, 0}, {11, 13, 0}, {3, 2, 0}, {2, 3, 0}, {2, 2, 0}, {2, 2, 0}},
    {2, 3, 1, 1, 1, {31, 31, 0}, {10, 12, 0}, {1, 1, 0}, {1, 1, 0}, {15, 15, 0}, {15, 15, 0}},
    {1, 12, 2, 1, 1, {31, 0, 0}, {44, 0, 0}, {1, 0, 0}, {1, 0, 0}, {15, 0, 0}, {15, 0, 0}},
    {1, 16, 1, 1, 1, {300, 0, 0}, {400, 0, 0}, {1, 0, 0}, {1, 0, 0}, {150, 0, 0}, {149, 0, 0}},
    {1, 5, 2, 1, 1, {128, 0, 0}, {37, 0, 0}, {1, 0, 0}, {1, 0, 0}, {64, 0, 0}, {63, 0, 0}},
    {3, 12, 1, 1, 1, {3, 3, 3}, {4, 5, 8}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {3, 8, 1, 1, 1, {1, 7, 7}, {2, 9, 8}, {1, 1, 1}, {1, 1, 1}, {0, 3, 3}, {2, 3, 3}},
    {3, 4, 1, 1, 1, {5, 7, 7}, {5, 8, 12}, {1, 1, 1}, {1, 1, 1}, {2, 3, 3}, {2, 3, 3}},
    {2, 8, 1, 1, 1, {7, 5, 0}, {21, 70, 0}, {1, 1, 0}, {1, 1, 0}, {3, 2, 0}, {3, 2, 0}},
    {2, 8, 2, 1, 1, {13, 20, 0}, {35, 18, 0}, {1, 1, 0}, {1, 1, 0}, {6, 9, 0}, {5, 8, 0}},
    {1, 8, 1, 1, 1, {45, 0, 0}, {1090, 0, 0}, {1, 0, 0}, {1, 0, 0}, {20, 0, 0}, {22, 0, 0}},
    {2, 1, 1, 1, 1, {3, 3, 0}, {9, 12, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 1, 2, 64, 64, {3, 3, 0}, {5, 6, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    /* rows through LDS: strips of several images in a block, several blocks of channels, odd ones */
    {2, 72, 3, 1, 1, {3, 3, 0}, {9, 15, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 300, 2, 1, 1, {3, 3, 0}, {6, 8, 0}, {1, 1, 0}, {1, 1, 0}, {2, 0, 0}, {1, 2, 0}},
    {2, 70, 5, 1, 1, {5, 5, 0}, {11, 14, 0}, {1, 1, 0}, {1, 1, 0}, {2, 2, 0}, {2, 2, 0}},
    {2, 11, 3, 1, 1, {5, 5, 0}, {9, 23, 0}, {1, 1, 0}, {1, 1, 0}, {1, 2, 0}, {3, 2, 0}},
    {2, 128, 1, 1, 1, {5, 5, 0}, {5, 8, 0}, {1, 1, 0}, {1, 1, 0}, {2, 2, 0}, {2, 2, 0}},
    {2, 256, 1, 1, 1, {3, 3, 0}, {3, 17, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 35, 3, 1, 1, {7, 7, 0}, {12, 17, 0}, {1, 1, 0}, {1, 1, 0}, {3, 3, 0}, {3, 2, 0}},
    {3, 20, 2, 1, 1, {1, 3, 3}, {3, 7, 9}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
    /* bwd_weight on matrix units: three times 16 channels, which blocks take by two */
    {2, 48, 1, 1, 1, {5, 5, 0}, {9, 12, 0}, {1, 1, 0}, {1, 1, 0}, {2, 2, 0}, {2, 2, 0}},
    {2, 48, 1, 1, 1, {7, 7, 0}, {9, 12, 0}, {1, 1, 0}, {1, 1, 0}, {3, 3, 0}, {3, 3, 0}},
    /* planes through LDS: several tiles and pieces, two blocks of channels, odd ones */
    {3, 74, 1, 1, 1, {3, 3, 3}, {4, 9, 8}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {3, 130, 1, 1, 1, {3, 3, 3}, {3, 5, 8}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {3, 21, 1, 1, 1, {3, 3, 3}, {7, 5, 15}, {1, 1, 1}, {1, 1, 1}, {2, 0, 1}, {1, 2, 1}},
    {3, 34, 1, 1, 1, {3, 3, 3}, {9, 5, 7}, {1, 1, 1}, {1, 1, 1}, {0, 2, 1}, {0, 2, 2}},
    /* sheets: odd and even widths, several planes and images in a block, bands of large planes, strides */
    {2, 37, 3, 1, 1, {3, 3, 0}, {7, 7, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 20, 2, 1, 1, {5, 5, 0}, {14, 14, 0}, {1, 1, 0}, {1, 1, 0}, {2, 2, 0}, {2, 2, 0}},
    {2, 3, 2, 1, 1, {3, 3, 0}, {30, 22, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 5, 2, 1, 1, {3, 3, 0}, {20, 24, 0}, {2, 2, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 3, 1, 1, 1, {5, 5, 0}, {22, 18, 0}, {2, 2, 0}, {1, 1, 0}, {2, 2, 0}, {2, 1, 0}},
    {2, 9, 2, 1, 1, {3, 3, 0}, {14, 15, 0}, {2, 2, 0}, {1, 1, 0}, {2, 0, 0}, {0, 2, 0}},
    {2, 4, 1, 1, 1, {5, 5, 0}, {5, 70, 0}, {1, 1, 0}, {1, 1, 0}, {4, 1, 0}, {0, 3, 0}},
    {2, 21, 2, 1, 1, {7, 7, 0}, {13, 13, 0}, {1, 1, 0}, {1, 1, 0}, {3, 3, 0}, {3, 3, 0}},
    {2, 5, 3, 1, 1, {7, 7, 0}, {5, 16, 0}, {1, 1, 0}, {1, 1, 0}, {3, 2, 0}, {4, 4, 0}},
    /* and bands whose rows are not aligned: two planes are more than LDS */
    {2, 2, 1, 1, 1, {3, 3, 0}, {71, 115, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 2, 1, 1, 1, {5, 5, 0}, {71, 115, 0}, {2, 2, 0}, {1, 1, 0}, {2, 2, 0}, {2, 2, 0}},
    {2, 2, 1, 1, 1, {7, 7, 0}, {61, 67, 0}, {1, 1, 0}, {1, 1, 0}, {3, 3, 0}, {3, 3, 0}},
    /* walks: the last strip of a row begins at an unaligned place */
    {3, 4, 2, 1, 1, {1, 3, 3}, {2, 9, 16}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 2}},
    {3, 3, 1, 1, 1, {1, 5, 5}, {2, 7, 24}, {1, 1, 1}, {1, 1, 1}, {0, 2, 2}, {0, 2, 3}},
    {3, 3, 2, 1, 1, {1, 5, 5}, {2, 9, 32}, {1, 1, 1}, {1, 1, 1}, {0, 2, 2}, {0, 2, 2}},
    /* columns of stride 2: several to an image, rows of inputs that two rows of dout share, and none such */
    {2, 16, 3, 1, 1, {3, 3, 0}, {41, 19, 0}, {2, 2, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 8, 2, 1, 1, {3, 3, 0}, {21, 14, 0}, {1, 2, 0}, {1, 1, 0}, {3, 0, 0}, {2, 1, 0}},
    {2, 12, 1, 1, 1, {6, 3, 0}, {37, 17, 0}, {2, 2, 0}, {2, 1, 0}, {5, 1, 0}, {4, 2, 0}},
    {2, 4, 2, 1, 1, {3, 3, 0}, {60, 11, 0}, {4, 2, 0}, {2, 1, 0}, {2, 0, 0}, {3, 2, 0}},
    {3, 8, 1, 1, 1, {2, 3, 3}, {3, 31, 9}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
    /* rows of taps of other lengths with stride 2: one group of five, two, a stride along some axes */
    {2, 24, 2, 1, 1, {5, 5, 0}, {19, 23, 0}, {2, 2, 0}, {1, 1, 0}, {2, 2, 0}, {2, 2, 0}},
    {2, 12, 2, 1, 1, {3, 7, 0}, {9, 22, 0}, {1, 2, 0}, {1, 1, 0}, {1, 3, 0}, {1, 3, 0}},
    {3, 8, 1, 1, 1, {2, 3, 9}, {4, 7, 21}, {2, 1, 2}, {2, 1, 1}, {1, 1, 4}, {1, 0, 4}},
    /* two rows of inputs in registers: several columns one above the other, of odd length */
    {2, 20, 2, 1, 1, {3, 3, 0}, {33, 21, 0}, {1, 1, 0}, {1, 1, 0}, {2, 0, 0}, {0, 2, 0}},
    {2, 24, 1, 1, 1, {3, 3, 0}, {88, 21, 0}, {2, 2, 0}, {1, 1, 0}, {2, 1, 0}, {1, 2, 0}},
    {3, 8, 2, 1, 1, {1, 3, 3}, {5, 9, 18}, {2, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
    {3, 8, 2, 1, 1, {1, 3, 3}, {5, 9, 18}, {2, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
    {3, 8, 2, 1, 1, {1, 3, 3}, {3, 9, 18}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {2, 1, 1}},
    /* few channels per group: one launch for each that is written, sums over those that are read */
    {2, 12, 2, 2, 1, {3, 3, 0}, {11, 16, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 10, 3, 2, 2, {3, 3, 0}, {9, 12, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 8, 2, 1, 2, {5, 5, 0}, {12, 10, 0}, {1, 1, 0}, {1, 1, 0}, {2, 2, 0}, {2, 2, 0}},
    {2, 4, 1, 4, 3, {3, 2, 0}, {13, 9, 0}, {2, 2, 0}, {1, 1, 0}, {1, 0, 0}, {0, 1, 0}},
    {2, 70, 1, 3, 4, {1, 3, 0}, {5, 8, 0}, {1, 3, 0}, {1, 2, 0}, {0, 2, 0}, {0, 1, 0}},
    {1, 6, 2, 2, 1, {15, 0, 0}, {50, 0, 0}, {1, 0, 0}, {1, 0, 0}, {7, 0, 0}, {7, 0, 0}},
    {1, 4, 2, 3, 2, {4, 0, 0}, {37, 0, 0}, {2, 0, 0}, {1, 0, 0}, {1, 0, 0}, {2, 0, 0}},
    {3, 4, 1, 2, 3, {3, 2, 3}, {5, 6, 8}, {1, 1, 1}, {1, 1, 1}, {1, 0, 1}, {1, 1, 1}},
    {3, 6, 1, 2, 2, {2, 3, 3}, {5, 7, 6}, {2, 1, 2}, {2, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {3, 24, 1, 1, 3, {4, 7, 7}, {2, 4, 3}, {1, 1, 1}, {1, 1, 1}, {2, 3, 3}, {2, 3, 3}},
    {3, 24, 1, 3, 1, {4, 7, 7}, {2, 4, 3}, {1, 1, 1}, {1, 1, 1}, {2, 3, 3}, {2, 3, 3}},
};

static void part_depthwise(void)
{
    static const int kinds[] = {0, 1, 5, 6};
    const int count = (int)(sizeof depthwise / sizeof depthwise[0]);
    const long before = runs;
    const long problems_before = problems;
    depthwise_alone = test_thin();
    for (int i = 0; i < count * 3 * 4 * 2; i++) {
        const ckconv_op op = passes[i / count % 3];
        const int type = kinds[i / count / 3 % 4], first = i / count / 12;
        ckconv_conv_desc d;
        test_rng r = test_seed((uint64_t)i + 99);
        set_block(&d, &depthwise[i % count]);
        if (types[type].dtype[0] != CKCONV_F16 && types[type].dtype[0] != CKCONV_BF16 &&
            d.input[0] * (d.ndim > 1 ? d.input[1] : 1) > 500 &&
            d.filter[0] > 5) { /* there for matrix units */
            continue;
        }
        set_types(&d, &types[type], op);
        set_layout(&d, NAIVE_IN, first ? CKCONV_NGCHW : CKCONV_NHWGC, &r);
        set_layout(&d, NAIVE_WEI, i % 2 ? CKCONV_GKCYX : CKCONV_GKYXC, &r);
        set_layout(&d, NAIVE_OUT, first ? CKCONV_NGCHW : CKCONV_NHWGC, &r);
        if (i % 5 == 4) {
            set_elements(&d, op, 1 + i % 2, &r);
        }
        if (is_due(&r)) {
            run_problem(op, &d, (uint64_t)i * 7 + (i % 4 == 3 ? 0 : 1), d.c > 1 || test_full());
        }
    }
    depthwise_alone = 0;
    printf("depthwise: %ld problems, %ld runs\n", problems - problems_before, runs - before);
}

/*------------------------------------------------------------------------------------------------------------
  sides: bwd_weight of small groups that have more channels on one side than on the other, by the kernels
  whose blocks own 64 channels of the wider side: one slice and several of it, of which some share the other
  side's, some end early, some split groups
*/
static const block_case sides[] = {
    {2, 5, 2, 16, 16, {3, 3, 0}, {7, 9, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 24, 2, 1, 1, {3, 3, 0}, {7, 9, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 24, 2, 2, 1, {3, 3, 0}, {7, 9, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 136, 3, 2, 1, {3, 3, 0}, {6, 5, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 40, 2, 1, 2, {2, 3, 0}, {9, 8, 0}, {1, 2, 0}, {1, 1, 0}, {1, 0, 0}, {0, 1, 0}},
    {2, 104, 2, 1, 4, {3, 3, 0}, {6, 5, 0}, {2, 2, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 56, 2, 8, 1, {1, 3, 0}, {5, 7, 0}, {1, 1, 0}, {1, 2, 0}, {0, 2, 0}, {0, 2, 0}},
    {2, 10, 2, 16, 4, {3, 3, 0}, {6, 7, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 5, 2, 8, 32, {3, 3, 0}, {6, 7, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 7, 2, 32, 16, {3, 2, 0}, {5, 7, 0}, {1, 1, 0}, {1, 1, 0}, {2, 0, 0}, {0, 1, 0}},
    {2, 80, 2, 1, 1, {3, 3, 0}, {9, 7, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {1, 8, 2, 1, 32, {9, 0, 0}, {50, 0, 0}, {1, 0, 0}, {1, 0, 0}, {4, 0, 0}, {4, 0, 0}},
    {3, 16, 1, 4, 1, {3, 3, 3}, {4, 5, 6}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
};

static void part_sides(void)
{
    static const int kinds[] = {5, 6}; /* f16, bf16 */
    const int count = (int)(sizeof sides / sizeof sides[0]);
    const long before = runs;
    long each = 0; /* what the first problem, of equal sides, had: none without matrix units */
    for (int i = 0; i < count * 2; i++) {
        naive_case c;
        ckconv_plan plan;
        ckconv_options options;
        ckconv_conv_desc d;
        test_rng r = test_seed((uint64_t)i + 66);
        memset(&options, 0, sizeof options);
        options.engine = test_engine();
        set_block(&d, &sides[i % count]);
        set_types(&d, &types[kinds[i / count]], CKCONV_BWD_WEIGHT);
        set_layout(&d, NAIVE_WEI, wei_layouts[i % 3 == 2 ? 1 : 0], &r);
        naive_make(&c, CKCONV_BWD_WEIGHT, &d, 0);
        fill_case(&c, (uint64_t)i + 2900001u);
        problems++;
        const long now = runs;
        if (naive_plan(&c, &plan, &options, &devices[0])) {
            for (int32_t j = 0; j < ckconv_instance_count(); j++) {
                if (strstr(ckconv_instance_name(j), "bwd_weight_near") != NULL) {
                    run_instance(&c, &plan, j, 1);
                }
            }
        }
        each = i == 0 ? runs - now : each;
        /* 24 groups of one channel do not fill blocks of 16 */
        CHECK_MSG(runs - now == (d.g == 24 && d.k * d.c == 1 ? 0 : each), "problem %d had %ld runs, not %ld",
                  i, runs - now, each);
        naive_free(&c);
    }
    CHECK(each == 0 || each == 2);
    printf("sides: %d problems, %ld runs\n", count * 2, runs - before);
}

/*------------------------------------------------------------------------------------------------------------
  planes: channels first on matrix units, with taps side by side in the weights. 1x1 layers are products for
  each image (positions in multiples of 8; of channels that fill tiles, that end inside a step of the
  reduction, of more images than a mask of taps has bits); of larger filters weights are turned before or
  after, dwei of more than a MiB; small groups, with outputs of less than a MiB and more; a first layer of 147
  taps, which become 84; planes of which eight positions lie in two images, with and without a residual.
*/
static const block_case planes[] = {
    {2, 1, 3, 192, 64, {1, 1, 0}, {9, 24, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 2, 24, 40, {1, 1, 0}, {8, 11, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 5, 136, 72, {1, 0, 0}, {328, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 33, 16, 16, {1, 1, 0}, {8, 8, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {3, 1, 2, 64, 128, {1, 1, 1}, {3, 5, 8}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 2, 72, 64, {1, 1, 0}, {7, 7, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 1, 72, 64, {3, 3, 0}, {5, 6, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 2, 1, 64, 40, {3, 3, 0}, {5, 6, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 1, 1, 272, 256, {3, 3, 0}, {3, 2, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 1, 4, 16, 8, {1, 1, 0}, {8, 8, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 2, 24, 16, {1, 0, 0}, {64, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 8, 3, 4, 4, {3, 3, 0}, {9, 12, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 33, 1, 32, 32, {3, 3, 0}, {22, 24, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {3, 1, 2, 16, 3, {3, 7, 7}, {4, 11, 12}, {1, 2, 2}, {1, 1, 1}, {1, 3, 3}, {1, 3, 3}},
    {2, 1, 2, 72, 200, {1, 1, 0}, {6, 18, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 3, 264, 72, {1, 1, 0}, {14, 14, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 1, 40, 136, {1, 0, 0}, {100, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 3, 20, 16, {3, 3, 0}, {7, 9, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {1, 1, 5, 36, 40, {3, 0, 0}, {37, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}},
};

/* A D tensor that lies as what is written, channels first, is added. */
static void set_residual(ckconv_conv_desc *d, ckconv_op op)
{
    (naive_written(op) == NAIVE_IN ? &d->op_in : &d->op_out)->kind = CKCONV_ADD_RELU;
    d->num_d = 1;
    d->d[0].layout = CKCONV_NGCHW;
}

/* A tensor of one group in the order channels, batch, space: images lie beside each other in each channel. */
static void set_across(ckconv_tensor *t, const ckconv_conv_desc *d, int64_t channels)
{
    int64_t space = 1;
    for (int axis = d->ndim - 1; axis >= 0; axis--) {
        t->stride[3 + axis] = space;
        space *= d->input[axis];
    }
    t->layout = CKCONV_STRIDED;
    t->stride[1] = space;
    t->stride[2] = d->n * space;
    t->stride[0] = channels * d->n * space;
}

static void part_planes(void)
{
    static const int kinds[] = {5, 6}; /* f16, bf16 */
    const int count = (int)(sizeof planes / sizeof planes[0]);
    const long before = runs;
    const long problems_before = problems;
    for (int i = 0; i < count * 3 * 2; i++) {
        const ckconv_op op = passes[i % 3];
        const block_case *b = &planes[i / 3 % count];
        if (i / 3 >= count && (b->g > 1 || b->filter[0] > 1 || b->n * b->k * b->c > 4096)) {
            continue; /* in the order channels, batch, space: small pointwise ones */
        }
        if (lean > 1 && b->g * b->k * b->c * b->filter[0] > 30000 && (i + test_thin_turn()) % 3 != 0) {
            continue; /* a pass of large ones */
        }
        naive_case c;
        ckconv_plan plan;
        ckconv_options options;
        ckconv_conv_desc d;
        test_rng r = test_seed((uint64_t)i + 88);
        memset(&options, 0, sizeof options);
        options.engine = test_engine();
        set_block(&d, &planes[i / 3 % count]);
        set_types(&d, &types[kinds[i % 2]], op);
        set_layout(&d, NAIVE_IN, CKCONV_NGCHW, &r);
        set_layout(&d, NAIVE_WEI, CKCONV_GKCYX, &r);
        set_layout(&d, NAIVE_OUT, CKCONV_NGCHW, &r);
        if (op == CKCONV_BWD_WEIGHT && i / 6 % 2 == 1) {
            d.wei.dtype = CKCONV_F32;
        }
        if (i / 3 >= count) {
            set_across(&d.in, &d, d.c);
            set_across(&d.out, &d, d.k);
        } else if (op != CKCONV_BWD_WEIGHT && b->filter[0] == 1) {
            set_channel_add(&d, op, i % 5);
        } else if (op != CKCONV_BWD_WEIGHT && i % 2 == 1 && b->stride[0] == 1) {
            set_residual(&d, op);
        }
        naive_make(&c, op, &d, 0);
        fill_case(&c, (uint64_t)i + 3900001u);
        problems++;
        if (naive_plan(&c, &plan, &options, &devices[0])) {
            for (int32_t j = 0; j < ckconv_instance_count(); j++) {
                const ckconv_family family = ckconv_instance_family(j);
                const int due = j == plan.instance || (i + j) % lean == 0;
                if ((family == CKCONV_FAMILY_MMA || family == CKCONV_FAMILY_MFMA ||
                     family == CKCONV_FAMILY_WMMA) &&
                    ckconv_instance_does(j, op) && due) {
                    run_instance(&c, &plan, j, 1);
                }
            }
        }
        naive_free(&c);
    }
    printf("planes: %ld problems, %ld runs\n", problems - problems_before, runs - before);
}

/*------------------------------------------------------------------------------------------------------------
  points: layers of one tap whose weights stay in LDS, by the instances for them alone. Reductions that end
  inside 32 channels and on them, of each kernel; columns that end inside 32, and whose rows are stored in
  pairs, of an odd number of positions; fewer positions than a wave takes, more than all waves of one unit
  (CKCONV_SIM_UNITS) take at a time; one, two and three axes; weights that LDS does not hold
*/
static const block_case points[] = {
    {2, 1, 2, 16, 16, {1, 1, 0}, {7, 9, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 1, 8, 8, {1, 1, 0}, {3, 1, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 3, 72, 40, {1, 0, 0}, {37, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {3, 1, 2, 24, 144, {1, 1, 1}, {2, 5, 6}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 1, 64, 160, {1, 1, 0}, {5, 8, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 1, 56, 256, {1, 0, 0}, {45, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 2, 16, 8, {1, 0, 0}, {1700, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 1, 248, 232, {1, 0, 0}, {9, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 3, 56, 16, {1, 1, 0}, {7, 5, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
};

/* The same with channels first: planes of fours and of eights, of several images inside a wave's; columns
   that are no eights (bwd_data: reductions), and in parts. */
static const block_case point_planes[] = {
    {2, 1, 3, 72, 40, {1, 1, 0}, {14, 14, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 2, 136, 96, {1, 0, 0}, {60, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 2, 21, 120, {1, 1, 0}, {8, 12, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {3, 1, 7, 24, 24, {1, 1, 1}, {2, 1, 6}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 5, 64, 16, {1, 1, 0}, {2, 4, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 1, 8, 64, {1, 0, 0}, {1720, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 1, 112, 8, {1, 1, 0}, {3, 4, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 2, 1000, 8, {1, 1, 0}, {2, 10, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 2, 88, 24, {1, 1, 0}, {6, 6, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
};

/* Rows, images and pixels further apart than they must be: even, or nearly so, which pointwise refuses. */
static void spread_pixels(ckconv_tensor *t, const ckconv_conv_desc *d, int64_t channels, int even)
{
    int64_t step = channels + 16;
    for (int axis = d->ndim - 1; axis >= 0; axis--) {
        t->stride[3 + axis] = step;
        step *= d->input[axis];
    }
    t->layout = CKCONV_STRIDED;
    t->stride[2] = 1;
    t->stride[0] = channels;
    t->stride[1] = step + (even ? 0 : 8);
}

static void part_points(void)
{
    /* as they are read, and f32 results */
    static const ckconv_dtype kinds[4][2] = {{CKCONV_F16, CKCONV_F16},
                                             {CKCONV_BF16, CKCONV_BF16},
                                             {CKCONV_F16, CKCONV_F32},
                                             {CKCONV_BF16, CKCONV_F32}};
    const int count = (int)(sizeof points / sizeof points[0]); /* of either table */
    const long before = runs;
    const long problems_before = problems;
    int refused = 0;
    for (int i = 0; i < count * 2 * 4 * 5; i++) {
        const int back = i / count % 2, kind = i / count / 2 % 4, way = i / count / 8;
        const block_case *b = way > 2 ? &point_planes[i % count] : &points[i % count];
        const ckconv_op op = back ? CKCONV_BWD_DATA : CKCONV_FWD;
        naive_case c;
        ckconv_plan plan;
        ckconv_options options;
        ckconv_conv_desc d;
        test_rng r = test_seed((uint64_t)i + 66);
        if (test_thin() && (i + i / 7 + test_thin_turn()) % (lean > 1 ? 4 : 2) != 0) {
            continue;
        }
        memset(&options, 0, sizeof options);
        options.engine = test_engine();
        set_block(&d, b);
        d.in.dtype = d.wei.dtype = d.out.dtype = kinds[kind][0];
        (back ? &d.in : &d.out)->dtype = kinds[kind][1];
        set_elements(&d, op, way == 1 || way == 4 ? 2 : 0, &r);
        if (way > 2) {
            d.in.layout = d.out.layout = CKCONV_NGCHW;
            d.wei.layout = CKCONV_GKCYX;
            d.d[0].layout = d.num_d > 0 && d.d[0].layout == 0 ? CKCONV_NGCHW : d.d[0].layout;
        }
        const int uneven = way == 2 && i % 4 == 3 && b->n > 1;
        if (way == 2) {
            spread_pixels(&d.in, &d, d.c, !uneven);
            spread_pixels(&d.out, &d, d.k, 1);
        }
        naive_make(&c, op, &d, i % 5 == 4 ? 1 : 0); /* off 16 bytes, which the plan does not know */
        fill_case(&c, (uint64_t)i + 4900001u);
        problems++;
        if (naive_plan(&c, &plan, &options, &devices[0])) {
            for (int32_t j = 0; j < ckconv_instance_count(); j++) {
                if (strstr(ckconv_instance_name(j), "_pointwise") != NULL && ckconv_instance_does(j, op)) {
                    const long was = runs;
                    run_instance(&c, &plan, j, 1);
                    refused += uneven && runs > was;
                }
            }
        }
        naive_free(&c);
    }
    test.plan = NULL;
    CHECK_MSG(refused == 0, "pointwise took pixels that do not follow each other");
    printf("points: %ld problems, %ld runs\n", problems - problems_before, runs - before);
}

/*------------------------------------------------------------------------------------------------------------
  filters: more taps than a GPU's tiles take, with sections that end early, that lie on padding alone, that
  step, that are dilated, of several groups, of phases with few enough taps; filters that step by their own
  size, whose patches become rows: pixels that are left over, odd channels, one axis; and spaces of one pixel:
  odd channels, several chunks of a reduction
*/
static const block_case filter_cases[] = {
    {2, 1, 2, 24, 16, {2, 29, 0}, {4, 40, 0}, {1, 1, 0}, {1, 1, 0}, {1, 14, 0}, {0, 14, 0}},
    {2, 1, 1, 16, 24, {11, 13, 0}, {13, 14, 0}, {1, 1, 0}, {1, 1, 0}, {5, 6, 0}, {5, 6, 0}},
    {1, 1, 2, 16, 16, {200, 0, 0}, {230, 0, 0}, {1, 0, 0}, {1, 0, 0}, {90, 0, 0}, {99, 0, 0}},
    {3, 1, 1, 16, 8, {5, 5, 6}, {6, 7, 8}, {1, 1, 1}, {1, 1, 1}, {2, 2, 2}, {2, 2, 3}},
    {2, 2, 2, 12, 20, {12, 13, 0}, {20, 25, 0}, {3, 2, 0}, {1, 1, 0}, {4, 0, 0}, {2, 6, 0}},
    {2, 1, 1, 8, 8, {16, 20, 0}, {3, 2, 0}, {1, 1, 0}, {1, 1, 0}, {16, 21, 0}, {16, 20, 0}},
    {2, 1, 1, 16, 9, {12, 13, 0}, {30, 30, 0}, {2, 1, 0}, {2, 3, 0}, {11, 20, 0}, {9, 17, 0}},
    {1, 1, 1, 8, 8, {700, 0, 0}, {20, 0, 0}, {1, 0, 0}, {1, 0, 0}, {690, 0, 0}, {0, 0, 0}},
    {2, 5, 2, 1, 1, {13, 12, 0}, {14, 15, 0}, {1, 1, 0}, {1, 1, 0}, {6, 6, 0}, {6, 5, 0}},
    {2, 1, 2, 24, 3, {16, 16, 0}, {35, 50, 0}, {16, 16, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 2, 24, 3, {14, 14, 0}, {28, 28, 0}, {14, 14, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 3, 16, 1, {16, 0, 0}, {64, 0, 0}, {16, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 2, 16, 5, {2, 4, 0}, {6, 8, 0}, {2, 4, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 33, 20, 17, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 16, 48, 600, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {3, 1, 530, 10, 14, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 3, 1030, 54, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    /* few positions, long sums: parts of them */
    {2, 1, 1, 12, 300, {3, 3, 0}, {4, 4, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 1, 2, 260, 20, {3, 3, 0}, {5, 4, 0}, {2, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 3, 1, 204, 204, {2, 3, 0}, {3, 4, 0}, {1, 1, 0}, {1, 1, 0}, {1, 0, 0}, {0, 2, 0}},
};

static void part_filters(void)
{
    static const int kinds[] = {6, 1, 5, 0, 20, 19}; /* bf16, f32, f16, f64, i8 */
    const int count = (int)(sizeof filter_cases / sizeof filter_cases[0]);
    const long before = runs;
    const long problems_before = problems;
    long parts = 0;
    int units = 0; /* of a GPU: few do without parts */
    for (int i = 0; i < count * 3 * 6; i++) {
        const ckconv_op op = passes[i / count % 3];
        const int type = kinds[i / count / 3], layout = i % 3 == 1 ? CKCONV_NGCHW : CKCONV_NHWGC;
        naive_case c;
        ckconv_plan plan;
        ckconv_options options;
        ckconv_conv_desc d;
        test_rng r = test_seed((uint64_t)i + 77);
        memset(&options, 0, sizeof options);
        options.engine = test_engine();
        set_block(&d, &filter_cases[i % count]);
        set_types(&d, &types[type], op);
        set_layout(&d, NAIVE_IN, layout, &r);
        set_layout(&d, NAIVE_WEI, i % 2 ? CKCONV_GKCYX : CKCONV_GKYXC, &r);
        set_layout(&d, NAIVE_OUT, layout, &r);
        set_elements(&d, op, i % 4 == 2 ? 1 : i % 4 == 3 ? 2 : 0, &r);
        const int sums = type == 1 && i % count >= count - 3; /* which may come in parts */
        if (lean > 1 && !sums && (type != 6 ? test_below(&r, 3) : test_below(&r, 2)) != 0) {
            continue;
        }
        naive_make(&c, op, &d, i % 5 == 4 ? 1 : 0); /* off 16 bytes, which the plan does not know */
        fill_case(&c, (uint64_t)i + 4900001u);
        problems++;
        if (naive_plan(&c, &plan, &options, &devices[0])) {
            units = plan.device.compute_units;
            parts += op != CKCONV_BWD_WEIGHT && types[type].dtype[0] == CKCONV_F32 && plan.split_k > 1;
            for (int32_t j = 0; j < ckconv_instance_count(); j++) {
                const char *name = ckconv_instance_name(j);
                const int due = j == plan.instance || strstr(name, "sections") || strstr(name, "patches") ||
                                strstr(name, "pixel") || (!test_on_gpu() && (i + j) % 8 == 0);
                if (ckconv_instance_engine(j) == test_engine() && ckconv_instance_does(j, op) && due) {
                    run_instance(&c, &plan, j, 1);
                }
            }
        }
        naive_free(&c);
    }
    CHECK_MSG(parts > 0 || units < 8, "no f32 sum came in parts");
    printf("filters: %ld problems, %ld runs, %ld f32 sums in parts\n", problems - problems_before,
           runs - before, parts);
}

/*------------------------------------------------------------------------------------------------------------
  samples: layers of one tap with strides, channels first, by the instances for them alone. Rows of pieces of
  16, 8 and 4 bytes of which every other number is read, and of 16 to 2 of which all are; other strides, odd
  rows; axes that merge; one, two and three of them; more pieces than one block moves; then random ones. Some
  are off 16 bytes, or have gaps
*/
static const block_case sample_cases[] = {
    {2, 1, 2, 24, 16, {1, 1, 0}, {8, 32, 0}, {2, 2, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 2, 16, 24, {1, 1, 0}, {14, 28, 0}, {2, 2, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 1, 40, 40, {1, 1, 0}, {14, 14, 0}, {2, 2, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 2, 16, 8, {1, 1, 0}, {13, 15, 0}, {2, 2, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 3, 8, 9, {1, 1, 0}, {12, 20, 0}, {3, 2, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 2, 17, 12, {1, 1, 0}, {5, 23, 0}, {1, 3, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 2, 16, 16, {1, 1, 0}, {13, 16, 0}, {2, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 2, 16, 16, {1, 1, 0}, {7, 12, 0}, {3, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 2, 8, 16, {1, 1, 0}, {9, 6, 0}, {2, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 1, 8, 5, {1, 1, 0}, {9, 7, 0}, {4, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 5, 8, 16, {1, 1, 0}, {9, 1, 0}, {2, 2, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 3, 12, 1, {1, 1, 0}, {6, 10, 0}, {2, 2, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 2, 16, 24, {1, 0, 0}, {56, 0, 0}, {2, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 3, 16, 8, {1, 0, 0}, {37, 0, 0}, {4, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {3, 1, 2, 16, 16, {1, 1, 1}, {4, 6, 8}, {2, 2, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
    {3, 1, 2, 16, 8, {1, 1, 1}, {5, 4, 12}, {1, 2, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
    {3, 1, 2, 8, 16, {1, 1, 1}, {7, 3, 8}, {3, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
    {3, 1, 1, 8, 8, {1, 1, 1}, {4, 5, 7}, {3, 2, 3}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}},
};

/* Planes of channels with a gap behind each, so that they begin at 16 bytes whatever their size. */
static void set_plane_gaps(ckconv_conv_desc *d, int which)
{
    ckconv_tensor *t = which == NAIVE_IN ? &d->in : &d->out;
    int64_t length[6], plane = 1;
    naive_lengths(d, which, length);
    t->layout = CKCONV_STRIDED;
    for (int i = (int)d->ndim - 1; i >= 0; i--) {
        t->stride[3 + i] = plane;
        plane *= length[3 + i];
    }
    t->stride[2] = (plane + 7) / 8 * 8;
    t->stride[0] = t->stride[2] * length[2];
    t->stride[1] = t->stride[0] * length[0];
}

/* A random layer of the kind. Axes of one position are dropped: along x there are several. */
static void set_sample(ckconv_conv_desc *d, test_rng *r)
{
    int strides = 0;
    test_layer(d, test_range(r, 1, 3), 1, test_range(r, 1, 3), test_range(r, 1, 40), test_range(r, 1, 24));
    for (int i = 0; i < d->ndim; i++) {
        d->filter[i] = 1;
        d->stride[i] = test_range(r, 1, 4);
        d->input[i] = i + 1 == d->ndim ? test_range(r, d->stride[i] + 1, 40) : test_range(r, 1, 9);
        strides += d->stride[i] > 1 && d->input[i] > d->stride[i];
    }
    if (strides == 0) {
        d->input[0] = 6;
        d->stride[0] = 2;
    }
}

/* Problem i of `what` by the instances whose names have `family`; NULL: all but the portable ones. */
static void run_some(const char *what, const char *family, int i, ckconv_op op, const ckconv_conv_desc *d,
                     size_t offset, uint64_t seed)
{
    naive_case c;
    ckconv_plan plan;
    ckconv_options options;
    memset(&options, 0, sizeof options);
    options.engine = test_engine();
    naive_make(&c, op, d, offset);
    fill_case(&c, seed);
    problems++;
    if (naive_plan(&c, &plan, &options, &devices[0])) {
        const long was = runs;
        for (int32_t j = 0; j < ckconv_instance_count(); j++) {
            const char *name = ckconv_instance_name(j);
            const int wanted = family ? strstr(name, family) != NULL
                                      : !strstr(name, "_vector_") && !strstr(name, "_direct_");
            if (wanted && ckconv_instance_does(j, op)) {
                run_instance(&c, &plan, j, 1);
            }
        }
        CHECK_MSG(runs > was, "%s: problem %d ran on none of %s", what, i, family ? family : "the tiles");
    }
    naive_free(&c);
}

/* Cases, then random ones of `set`, by the instances whose names have `family` alone. wei: the layouts of the
   weights, in turns; columns: in may have channels last, too, and D tensors are of out alone. */
static void run_beside(const char *what, const char *family, const block_case *cases, int count,
                       void (*set)(ckconv_conv_desc *, test_rng *), int columns, const ckconv_layout wei[2])
{
    static const int kinds[] = {6, 1, 5, 7}; /* bf16, f32, f16, bf16 with weights in f32 */
    const long before = runs;
    const long problems_before = problems;
    for (int i = 0; i < count * 3 * 4 * 2; i++) {
        const ckconv_op op = passes[i / count % 3];
        const int some = i / count >= 12;
        ckconv_conv_desc d;
        test_rng r = test_seed((uint64_t)i + 99);
        const int type = some ? (int)test_range(&r, 1, 7) : kinds[i / count / 3 % 4];
        if (test_thin() && lean > 1 && (i + i / count + test_thin_turn()) % 4 != 0) {
            continue;
        }
        if (some) {
            set(&d, &r);
        } else {
            set_block(&d, &cases[i % count]);
        }
        set_types(&d, &types[type], op);
        set_layout(&d, NAIVE_IN, columns && i % 4 == 1 ? CKCONV_NHWGC : CKCONV_NGCHW, &r);
        set_layout(&d, NAIVE_WEI, wei[i % 2], &r);
        set_layout(&d, NAIVE_OUT, i % 7 == 6 ? CKCONV_NHWGC : CKCONV_NGCHW, &r);
        if ((columns ? op == CKCONV_FWD : op != CKCONV_BWD_DATA) && i % 4 == 2) {
            set_elements(&d, op, 2, &r);
        }
        if (i % 5 == 3) {
            set_plane_gaps(&d, NAIVE_IN);
        }
        /* off 16 bytes, which the plan does not know */
        run_some(what, family, i, op, &d, i % 3 == 2 ? 1 : 0, (uint64_t)i + 5900001u);
    }
    test.plan = NULL;
    printf("%s: %ld problems, %ld runs\n", what, problems - problems_before, runs - before);
}

static void part_samples(void)
{
    static const ckconv_layout wei[2] = {CKCONV_GKYXC, CKCONV_GKCYX};
    run_beside("samples", "gpu_sample_", sample_cases, (int)(sizeof sample_cases / sizeof sample_cases[0]),
               set_sample, 0, wei);
}

/*------------------------------------------------------------------------------------------------------------
  columns: filters over few positions, whose rows of channels and taps are made in workspace. One to three
  dimensions, strides, dilation and pads that differ, taps that lie on padding alone, rows of din of whole
  eights and others, positions that are no multiple of four, in of any layout; then random ones
*/
static const block_case column_cases[] = {
    {2, 1, 1, 128, 8, {3, 3, 0}, {8, 8, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 1, 2, 100, 16, {3, 3, 0}, {5, 5, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 1, 3, 124, 8, {2, 4, 0}, {7, 9, 0}, {2, 2, 0}, {1, 1, 0}, {0, 1, 0}, {1, 2, 0}},
    {2, 1, 1, 160, 24, {3, 2, 0}, {9, 8, 0}, {1, 3, 0}, {2, 1, 0}, {2, 1, 0}, {0, 1, 0}},
    {2, 1, 4, 67, 8, {5, 5, 0}, {2, 3, 0}, {1, 1, 0}, {1, 1, 0}, {2, 2, 0}, {2, 2, 0}},
    {2, 1, 1, 40, 8, {1, 3, 0}, {1, 17, 0}, {1, 1, 0}, {1, 2, 0}, {0, 2, 0}, {0, 2, 0}},
    {1, 1, 2, 145, 16, {7, 0, 0}, {35, 0, 0}, {1, 0, 0}, {1, 0, 0}, {3, 0, 0}, {3, 0, 0}},
    {1, 1, 3, 49, 8, {4, 0, 0}, {16, 0, 0}, {3, 0, 0}, {2, 0, 0}, {2, 0, 0}, {1, 0, 0}},
    {3, 1, 1, 140, 8, {3, 3, 3}, {4, 4, 4}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {3, 1, 2, 73, 8, {2, 1, 3}, {5, 6, 7}, {2, 3, 2}, {2, 1, 1}, {1, 0, 1}, {0, 0, 2}},
    {2, 1, 1, 520, 8, {3, 3, 0}, {16, 16, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
};

/* A random layer of the kind. */
static void set_columns(ckconv_conv_desc *d, test_rng *r)
{
    int64_t positions = 1;
    test_layer(d, test_range(r, 1, 3), 1, test_range(r, 1, 3), 1, 8 * test_range(r, 1, 4));
    for (int i = 0; i < d->ndim; i++) {
        d->filter[i] = test_range(r, i + 1 == d->ndim ? 2 : 1, 4);
        d->stride[i] = test_range(r, 1, 3);
        d->dilation[i] = test_range(r, 1, 2);
        d->pad_lo[i] = test_range(r, 0, d->filter[i]);
        d->pad_hi[i] = test_range(r, 0, d->filter[i]);
        d->input[i] = test_range(r, (d->filter[i] - 1) * d->dilation[i] + 1, 9);
        positions *= (d->input[i] + d->pad_lo[i] + d->pad_hi[i] - (d->filter[i] - 1) * d->dilation[i] - 1) /
                         d->stride[i] +
                     1;
    }
    d->k = 2 * d->n * positions + test_range(r, 0, 20);
}

static void part_columns(void)
{
    static const ckconv_layout wei[2] = {CKCONV_GKCYX, CKCONV_GKCYX};
    run_beside("columns", "gpu_im2col_", column_cases, (int)(sizeof column_cases / sizeof column_cases[0]),
               set_columns, 1, wei);
}

/*------------------------------------------------------------------------------------------------------------
  dilated: tiles whose rows read padding alone at some taps, which they leave out: along z, y and x, at one
  end and at both, all but one of them, taps that nothing reads, tiles in two images, strides; channels of
  whole steps and others; then random ones
*/
static const block_case dilated_cases[] = {
    {2, 1, 2, 64, 64, {3, 3, 0}, {24, 9, 0}, {1, 1, 0}, {11, 1, 0}, {11, 1, 0}, {11, 1, 0}},
    {2, 1, 1, 72, 128, {3, 2, 0}, {33, 12, 0}, {1, 1, 0}, {30, 3, 0}, {30, 2, 0}, {30, 1, 0}},
    {2, 1, 3, 128, 64, {5, 1, 0}, {16, 17, 0}, {1, 1, 0}, {7, 1, 0}, {14, 0, 0}, {14, 0, 0}},
    {2, 1, 2, 64, 40, {3, 3, 0}, {21, 10, 0}, {1, 1, 0}, {9, 1, 0}, {18, 1, 0}, {0, 1, 0}},
    {2, 1, 2, 40, 64, {4, 3, 0}, {40, 7, 0}, {2, 1, 0}, {13, 1, 0}, {0, 1, 0}, {39, 1, 0}},
    {1, 1, 2, 64, 64, {3, 0, 0}, {400, 0, 0}, {1, 0, 0}, {190, 0, 0}, {190, 0, 0}, {190, 0, 0}},
    {3, 1, 1, 64, 64, {3, 1, 3}, {20, 3, 5}, {1, 1, 1}, {9, 1, 1}, {9, 0, 1}, {9, 0, 1}},
    {3, 1, 2, 64, 64, {1, 3, 3}, {3, 18, 11}, {1, 1, 1}, {1, 8, 2}, {0, 8, 2}, {0, 8, 2}},
    {2, 2, 1, 64, 64, {3, 3, 0}, {26, 8, 0}, {1, 1, 0}, {12, 1, 0}, {12, 1, 0}, {12, 1, 0}},
};

/* A random layer of the kind. */
static void set_dilated(ckconv_conv_desc *d, test_rng *r)
{
    const int64_t sizes[] = {64, 128, 64, 24, 72};
    const int ndim = (int)test_range(r, 1, 3), axis = (int)test_range(r, 0, ndim - 1);
    test_layer(d, ndim, 1, test_range(r, 1, 3), sizes[test_range(r, 0, 4)], sizes[test_range(r, 0, 4)]);
    for (int i = 0; i < ndim; i++) {
        const int64_t inside = i == axis ? test_range(r, 2, 4) : test_range(r, 1, 3);
        d->filter[i] = i < axis ? 1 : inside;
        d->input[i] = i == axis ? test_range(r, 12, 36) * (i + 1 == ndim ? 6 : 1) : test_range(r, 3, 8);
        d->dilation[i] = i == axis ? test_range(r, d->input[i] / 4, d->input[i]) : 1;
        d->stride[i] = i == axis && test_below(r, 4) == 0 ? 2 : 1;
        const int64_t reach = (d->filter[i] - 1) * d->dilation[i];
        d->pad_lo[i] = i == axis && test_below(r, 3) == 0 ? reach : reach / 2;
        d->pad_hi[i] = reach - d->pad_lo[i];
    }
}

/* Taps that no row reads are not multiplied, by none of a tile's kinds: infinite weights there leave no
   trace, which beside zeros of padding would be NaN. */
static void check_left_out(void)
{
    static const block_case row = {2,           1,         1,          64,         64,        {3, 3, 0},
                                   {33, 40, 0}, {1, 1, 0}, {33, 1, 0}, {33, 1, 0}, {33, 1, 0}};
    static const char *const names[] = {
        "gpu_mma_%s_tma_128x128", "gpu_mma_%s_tma_256x64", "gpu_mma_%s_64x64", "gpu_mfma_%s_64x64",
        "gpu_mfma_%s_256x128",    "gpu_wmma_%s_128x32",    "gpu_tile_%s_64x64"};
    const int count = (int)(sizeof names / sizeof names[0]);
    long some = 0;
    for (int i = 0; i < 2 * count; i++) {
        const ckconv_op op = i % 2 ? CKCONV_BWD_DATA : CKCONV_FWD;
        const long before = runs;
        naive_case c;
        ckconv_plan plan;
        ckconv_options options;
        ckconv_conv_desc d;
        char name[40];
        test_rng r = test_seed(5);
        memset(&options, 0, sizeof options);
        options.engine = test_engine();
        set_block(&d, &row);
        set_types(&d, &types[i / 2 + 1 == count ? 1 : 5], op);
        set_layout(&d, NAIVE_IN, CKCONV_NHWGC, &r);
        set_layout(&d, NAIVE_WEI, CKCONV_GKYXC, &r);
        set_layout(&d, NAIVE_OUT, CKCONV_NHWGC, &r);
        naive_make(&c, op, &d, 0);
        fill_case(&c, 6900000u);
        double *v = test_doubles(c.t[NAIVE_WEI].count);
        test_gather(&c.t[NAIVE_WEI], v);
        for (int64_t j = 0; j < c.t[NAIVE_WEI].count; j++) {
            v[j] = j / 3 % 3 == 1 ? v[j] : INFINITY;
        }
        test_scatter(&c.t[NAIVE_WEI], v);
        free(v);
        snprintf(name, sizeof name, names[i / 2], ckconv_op_name(op));
        if (naive_plan(&c, &plan, &options, &devices[0])) {
            for (int32_t j = 0; j < ckconv_instance_count(); j++) {
                if (strcmp(ckconv_instance_name(j), name) == 0) {
                    run_instance(&c, &plan, j, 0);
                }
            }
        }
        some += runs - before;
        naive_free(&c);
    }
    CHECK_MSG(some >= 2 || test_variable("CKCONV_TEST_SUBSET"), "%ld runs of tiles that leave out taps",
              some);
}

static void part_dilated(void)
{
    static const int kinds[] = {6, 1, 5, 7}; /* as in run_beside */
    const int count = (int)(sizeof dilated_cases / sizeof dilated_cases[0]);
    const long before = runs;
    const long problems_before = problems;
    for (int i = 0; i < count * 2 * 4 * 2; i++) {
        const ckconv_op op = i % 2 ? CKCONV_BWD_DATA : CKCONV_FWD;
        const int row = i / 2 % count;
        ckconv_conv_desc d;
        test_rng r = test_seed((uint64_t)i + 77);
        if (test_thin() && (i / 2 + i / 2 / count + test_thin_turn()) % (lean > 1 ? 8 : 2) != 0) {
            continue;
        }
        if (i >= count * 2 * 4) {
            set_dilated(&d, &r);
        } else {
            set_block(&d, &dilated_cases[row]);
        }
        set_types(&d, &types[kinds[i / 2 / count % 4]], op);
        const int last = test_below(&r, 3) > 0;
        set_layout(&d, NAIVE_IN, last ? CKCONV_NHWGC : CKCONV_NGCHW, &r);
        set_layout(&d, NAIVE_WEI, wei_layouts[i / 2 % 2], &r);
        set_layout(&d, NAIVE_OUT, last ? CKCONV_NHWGC : CKCONV_NGCHW, &r);
        set_elements(&d, op, op == CKCONV_FWD && i % 4 == 0 ? 2 : 0, &r);
        run_some("dilated", NULL, i, op, &d, 0, (uint64_t)i + 6900001u);
    }
    check_left_out();
    test.plan = NULL;
    printf("dilated: %ld problems, %ld runs\n", problems - problems_before, runs - before);
}

/*------------------------------------------------------------------------------------------------------------
  shares: tiles that the TMA brings, as parts of blocks that share them or are a cluster
*/
static const block_case share_cases[] = {
    {2, 1, 1, 136, 72, {3, 3, 0}, {12, 11, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 1, 1, 72, 136, {3, 2, 0}, {12, 12, 0}, {1, 1, 0}, {2, 1, 0}, {2, 0, 0}, {2, 1, 0}},
    {3, 1, 1, 264, 40, {2, 3, 2}, {4, 5, 6}, {1, 1, 1}, {1, 1, 2}, {1, 0, 1}, {0, 2, 1}},
    {1, 1, 2, 40, 1100, {1, 0, 0}, {50, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 1, 1100, 36, {1, 0, 0}, {90, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 2, 40, 48, {1, 1, 0}, {29, 30, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 1, 136, 64, {1, 3, 0}, {23, 30, 0}, {1, 1, 0}, {1, 1, 0}, {0, 1, 0}, {0, 1, 0}},
    {1, 1, 1, 200, 1800, {1, 0, 0}, {300, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 1, 1800, 200, {1, 0, 0}, {300, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 1, 200, 304, {1, 0, 0}, {1800, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    /* strides: phases of bwd_data with some, one and no taps; of sizes that they do not divide */
    {2, 1, 2, 72, 136, {3, 3, 0}, {15, 12, 0}, {2, 2, 0}, {1, 1, 0}, {1, 1, 0}, {1, 0, 0}},
    {3, 1, 2, 200, 72, {3, 2, 3}, {5, 8, 6}, {2, 1, 2}, {1, 1, 1}, {1, 0, 1}, {1, 1, 1}},
    {2, 1, 3, 40, 264, {1, 1, 0}, {9, 16, 0}, {2, 2, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 2, 1600, 136, {5, 0, 0}, {70, 0, 0}, {3, 0, 0}, {2, 0, 0}, {2, 0, 0}, {1, 0, 0}},
    {2, 1, 2, 24, 72, {4, 5, 0}, {18, 17, 0}, {4, 4, 0}, {1, 2, 0}, {0, 3, 0}, {2, 1, 0}},
    {1, 1, 3, 1100, 72, {4, 0, 0}, {12, 0, 0}, {2, 0, 0}, {2, 0, 0}, {3, 0, 0}, {2, 0, 0}},
    /* taps that tiles leave out: shares of what is left, clusters, tiles in turns */
    {2, 1, 1, 320, 832, {4, 1, 0}, {107, 2, 0}, {1, 1, 0}, {55, 1, 0}, {82, 0, 0}, {82, 0, 0}},
    {2, 1, 2, 192, 64, {4, 3, 0}, {70, 10, 0}, {1, 1, 0}, {37, 1, 0}, {55, 1, 0}, {55, 1, 0}},
    {2, 1, 1, 128, 704, {4, 2, 0}, {42, 5, 0}, {1, 1, 0}, {28, 1, 0}, {42, 1, 0}, {42, 0, 0}},
    {2, 1, 2, 512, 128, {4, 1, 0}, {33, 13, 0}, {1, 1, 0}, {22, 1, 0}, {33, 0, 0}, {33, 0, 0}},
    /* channels that are padded, and weights that are not */
    {2, 1, 1, 21, 72, {1, 1, 0}, {9, 11, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 1, 36, 72, {3, 3, 0}, {7, 9, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    /* channels first: planes that are written, of 132, 140, 54, 49 and 168 positions */
    {2, 1, 2, 72, 136, {3, 3, 0}, {12, 11, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 1, 3, 136, 40, {1, 1, 0}, {10, 14, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
    {2, 1, 5, 37, 264, {2, 3, 0}, {10, 6, 0}, {1, 1, 0}, {1, 1, 0}, {0, 1, 0}, {0, 1, 0}},
    {2, 1, 7, 264, 45, {3, 3, 0}, {7, 7, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {3, 1, 3, 72, 200, {1, 3, 3}, {2, 14, 6}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 1}},
    /* and dout that is read as it lies, planes of 64, 96, 32 positions: some of the last step are beyond */
    {2, 1, 3, 72, 40, {3, 3, 0}, {8, 8, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {2, 1, 2, 136, 72, {3, 3, 0}, {16, 24, 0}, {2, 2, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}},
    {3, 1, 3, 264, 24, {3, 1, 2}, {2, 2, 9}, {1, 1, 1}, {1, 1, 1}, {1, 0, 0}, {1, 0, 0}},
    {2, 1, 5, 37, 200, {2, 3, 0}, {9, 8, 0}, {1, 1, 0}, {1, 2, 0}, {0, 2, 0}, {0, 2, 0}},
    {2, 1, 3, 72, 200, {1, 1, 0}, {8, 12, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}}, /* in: last */
    /* products of images, whose sums are shared, added by clusters, and by a launch */
    {1, 1, 3, 136, 1600, {1, 0, 0}, {72, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 2, 40, 1800, {1, 0, 0}, {64, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 2, 72, 1800, {1, 0, 0}, {64, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    /* and of bwd_data, weights across */
    {1, 1, 3, 1600, 136, {1, 0, 0}, {72, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 2, 1800, 40, {1, 0, 0}, {64, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    {1, 1, 2, 1800, 72, {1, 0, 0}, {64, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
};

static void part_shares(void)
{
    const int count = (int)(sizeof share_cases / sizeof share_cases[0]);
    const long before = runs;
    const long problems_before = problems;
    long shared = 0;
    int mine = 0;                         /* instances of this device */
    for (int i = 0; i < count * 6; i++) { /* the second half: residuals and factors */
        const ckconv_op op = passes[i % 3];
        const int row = i / 3 % count, beside = i >= count * 3;
        naive_case c;
        ckconv_plan plan, one;
        ckconv_options options;
        ckconv_conv_desc d;
        ckconv_error err;
        test_rng r = test_seed((uint64_t)i + 177);
        if (beside && op == CKCONV_BWD_WEIGHT) {
            continue;
        }
        memset(&options, 0, sizeof options);
        options.engine = test_engine();
        set_block(&d, &share_cases[row]);
        set_types(&d, &types[i % 2 ? 5 : 6], op);
        const int first = row >= count - 16, images = row >= count - 6,
                  element = images ? op != CKCONV_BWD_WEIGHT : op == CKCONV_FWD && i % 2;
        if (first) {
            set_layout(&d, NAIVE_IN, row == count - 7 ? CKCONV_NHWGC : CKCONV_NGCHW, &r);
            set_layout(&d, NAIVE_OUT, CKCONV_NGCHW, &r);
        }
        if (first && !images && op != CKCONV_BWD_WEIGHT && i % 2) {
            set_plane_gaps(&d, naive_written(op));
        }
        set_elements(&d, op, element && !beside ? 2 : 0, &r);
        if (beside) {
            set_beside(&d, op, (row + i) % BESIDE);
        } else if (first && element) {
            for (int j = 0; j < d.num_d; j++) { /* of the last ones as what is written */
                d.d[j].layout = images && (count - 1 - row) % 3 == 0 ? 0 : CKCONV_CHANNEL;
            }
        }
        naive_make(&c, op, &d, 0);
        fill_case(&c, (uint64_t)i + 5900001u);
        problems++;
        if (naive_plan(&c, &plan, &options, &devices[0])) {
            for (int32_t j = 0; j < ckconv_instance_count(); j++) {
                options.instance = ckconv_instance_name(j);
                if (strstr(options.instance, "_tma_") && ckconv_instance_does(j, op) &&
                    ckconv_plan_again(&one, &plan, &options, &err) == CKCONV_OK) {
                    mine++;
                    shared += op == CKCONV_BWD_WEIGHT && one.split_k == 0;
                    run_instance(&c, &plan, j, 0);
                }
            }
        }
        naive_free(&c);
    }
    CHECK_MSG(shared > 0 || mine == 0, "no sum of bwd_weight is shared");
    printf("shares: %ld problems, %ld runs, %ld of bwd_weight shared\n", problems - problems_before,
           runs - before, shared);
}

/*------------------------------------------------------------------------------------------------------------
  pairs: 1x1 layers whose rows begin within sectors, so that two blocks of the TMA's tiles send columns' boxes
  to both: an odd number of tiles' rows, steps that pairs share, parts, products of images, residuals
*/
static void part_pairs(void)
{
    static const block_case cases[] = {
        {1, 1, 1, 1512, 72, {1, 0, 0}, {900, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
        {1, 1, 1, 264, 200, {1, 0, 0}, {3000, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
        {2, 1, 3, 136, 200, {1, 1, 0}, {8, 12, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
        {1, 1, 2, 328, 104, {1, 0, 0}, {700, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
        {2, 1, 2, 264, 328, {1, 1, 0}, {12, 24, 0}, {1, 1, 0}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
        {1, 1, 2, 72, 1800, {1, 0, 0}, {152, 0, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 0}, {0, 0, 0}},
    };
    const int count = (int)(sizeof cases / sizeof cases[0]);
    const long before = runs, problems_before = problems;
    for (int i = 0; i < count * 12; i++) { /* plainly and beside D tensors, channels last and first */
        const ckconv_op op = passes[i % 3];
        const int row = i / 3 % count, first = i / (3 * count) % 2, beside = i / (6 * count);
        ckconv_conv_desc d;
        test_rng r = test_seed((uint64_t)i + 577);
        if ((beside && op == CKCONV_BWD_WEIGHT) || (test_effort() == 0 && first && i % 2)) {
            continue;
        }
        set_block(&d, &cases[row]);
        set_types(&d, &types[i % 2 ? 5 : 6], op);
        if (first) {
            set_layout(&d, NAIVE_IN, CKCONV_NGCHW, &r);
            set_layout(&d, NAIVE_OUT, CKCONV_NGCHW, &r);
        }
        if (beside) {
            set_beside(&d, op, (row + i) % BESIDE);
        }
        run_some("pairs", "_tma_", i, op, &d, 0, (uint64_t)i + 7700001u);
    }
    test.plan = NULL;
    printf("pairs: %ld problems, %ld runs\n", problems - problems_before, runs - before);
}

/*------------------------------------------------------------------------------------------------------------
  wide: what is written is wider than what is read, dense, in small groups, in first layers and depthwise
*/
static void part_wide(void)
{
    /* in or dout, wei, and what is written */
    static const ckconv_dtype kinds[][3] = {{CKCONV_F16, CKCONV_F16, CKCONV_F32},
                                            {CKCONV_BF16, CKCONV_BF16, CKCONV_F32},
                                            {CKCONV_F8E4M3, CKCONV_F8E4M3, CKCONV_BF16},
                                            {CKCONV_F8E5M2, CKCONV_F8E4M3, CKCONV_F32},
                                            {CKCONV_F8E4M3FNUZ, CKCONV_F8E4M3FNUZ, CKCONV_F16}};
    static const struct {
        const block_case *list;
        int count, kinds;
    } tables[] = {{aligned, (int)(sizeof aligned / sizeof aligned[0]), 5},
                  {blocks, (int)(sizeof blocks / sizeof blocks[0]), 5},
                  {first, (int)(sizeof first / sizeof first[0]), 2},
                  {depthwise, (int)(sizeof depthwise / sizeof depthwise[0]), 2}};
    const long before = runs;
    const long problems_before = problems;
    int turn = 0;
    for (size_t table = 0; table < sizeof tables / sizeof tables[0]; table++) {
        for (int i = 0; i < tables[table].count * 3; i++) {
            const ckconv_op op = passes[i % 3];
            const int w = naive_written(op), layout = i / 3 % 3 == 2 ? CKCONV_NGCHW : CKCONV_NHWGC;
            ckconv_conv_desc d;
            test_rng r = test_seed((uint64_t)i + 177);
            set_block(&d, &tables[table].list[i / 3]);
            const ckconv_dtype *kind = kinds[turn++ % tables[table].kinds];
            d.in.dtype = kind[w == NAIVE_IN ? 2 : 0];
            d.wei.dtype = kind[w == NAIVE_WEI ? 2 : 1];
            d.out.dtype = kind[w == NAIVE_OUT ? 2 : 0];
            set_layout(&d, NAIVE_IN, layout, &r);
            set_layout(&d, NAIVE_WEI, wei_layouts[i / 2 % 2], &r);
            set_layout(&d, NAIVE_OUT, layout, &r);
            set_elements(&d, op, i % 4 == 3 ? 2 : 0, &r);
            const int left_out = test_effort() == 0 && (i + i / 3 + test_thin_turn()) % 3 != 0;
            if (!left_out && (!test_thin() || test_below(&r, 3) == 0) && is_due(&r)) {
                run_problem(op, &d, (uint64_t)i * 7 + 2900001u, !test_thin() || test_below(&r, 8) == 0);
            }
        }
    }
    printf("wide: %ld problems, %ld runs\n", problems - problems_before, runs - before);
}

static void check_executed(void)
{
    test.plan = NULL;
    for (int32_t i = 0; i < ckconv_instance_count(); i++) {
        const int convolution = ckconv_instance_does(i, CKCONV_FWD) ||
                                ckconv_instance_does(i, CKCONV_BWD_DATA) ||
                                ckconv_instance_does(i, CKCONV_BWD_WEIGHT);
        if ((ckconv_instance_engine(i) != test_engine() &&
             (test_on_gpu() || ckconv_instance_engine(i) != CKCONV_ENGINE_REF)) ||
            !convolution) {
            continue;
        }
        printf("  %-36s %ld runs\n", ckconv_instance_name(i), executed[i]);
        if (executed[i] == 0 && test_needs_other_cpu(i)) {
            printf("skipped: instance %s (this CPU cannot run it)\n", ckconv_instance_name(i));
            continue;
        }
        if (executed[i] == 0 && test_needs_other_gpu(i)) {
            printf("skipped: instance %s (this GPU has no such matrix unit, or too little LDS)\n",
                   ckconv_instance_name(i));
            continue;
        }
        CHECK_MSG(executed[i] > 0, "no problem executed instance %s", ckconv_instance_name(i));
    }
}

/* An argument, triples, products, blocks, aligned, first, dense, depthwise, sides, planes, points, dilated,
   shares, pairs, filters or wide, runs that part alone. */
int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    test_begin("test_cross");
    device_count = test_cpu_devices(devices);
    const char *simulated = getenv("CKCONV_SIM_TARGET");
    turns = !test_thin() ? 1 : strncmp(simulated, "sm_", 3) == 0 ? 4 : 2; /* slow, NVIDIA's units slowest */
    lean = test_thin() && test_variable("CKCONV_TEST_QUICK") ? 6 : 1;
    turns *= lean > 1 ? 5 : 1;
    CHECK(ckconv_instance_count() <= (int32_t)(sizeof executed / sizeof executed[0]));
    if (strcmp(only, "") == 0 || strcmp(only, "triples") == 0) {
        part_triples();
    }
    if ((strcmp(only, "") == 0 && !test_thin()) || strcmp(only, "products") == 0) {
        part_products();
    }
    if (strcmp(only, "") == 0 || strcmp(only, "blocks") == 0) {
        part_blocks();
    }
    if (test_on_gpu() && (strcmp(only, "") == 0 || strcmp(only, "aligned") == 0)) {
        part_aligned();
    }
    if (strcmp(only, "") == 0 || strcmp(only, "large") == 0) {
        part_large();
    }
    if (strcmp(only, "") == 0 || strcmp(only, "first") == 0) {
        part_first();
    }
    if (strcmp(only, "") == 0 || strcmp(only, "dense") == 0) {
        part_dense();
    }
    if (strcmp(only, "") == 0 || strcmp(only, "depthwise") == 0) {
        part_depthwise();
    }
    if (test_on_gpu() && (strcmp(only, "") == 0 || strcmp(only, "sides") == 0)) {
        part_sides();
    }
    if (test_on_gpu() && (strcmp(only, "") == 0 || strcmp(only, "planes") == 0)) {
        part_planes();
    }
    if (test_on_gpu() && (strcmp(only, "") == 0 || strcmp(only, "points") == 0)) {
        part_points();
    }
    if (strcmp(only, "") == 0 || strcmp(only, "filters") == 0) {
        part_filters();
    }
    if (test_on_gpu() && (strcmp(only, "") == 0 || strcmp(only, "samples") == 0)) {
        part_samples();
    }
    if (test_on_gpu() && (strcmp(only, "") == 0 || strcmp(only, "columns") == 0)) {
        part_columns();
    }
    if (test_on_gpu() && (strcmp(only, "") == 0 || strcmp(only, "dilated") == 0)) {
        part_dilated();
    }
    if (test_on_gpu() && strcmp(only, "shares") == 0) {
        part_shares();
    }
    if (test_on_gpu() && strcmp(only, "pairs") == 0) {
        part_pairs();
    }
    if (strcmp(only, "") == 0 || strcmp(only, "wide") == 0) {
        part_wide();
    }
    if (strcmp(only, "") == 0 && !test_variable("CKCONV_TEST_SUBSET")) { /* some need the types left out */
        check_executed();
    }
    printf("note: %ld problems, %ld runs, %d sets of CPU features\n", problems, runs, device_count);
    return test_end();
}
