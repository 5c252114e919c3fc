/* test_sums.c - long sums: the error does not grow with their length
   SPDX-License-Identifier: MIT

   S is the sum of n products a*b, T the sum of |a*b|, u the rounding unit of the accumulator (2^-24, for f64
   2^-53). A sum in blocks adds few numbers one after the other in the accumulator's type: a block's products,
   the blocks of a larger one; what is above that loses nothing. So three kinds of data have bounds without n:
   ones     each product is 1; S rounded once, since whole numbers below 2^24 are exact
   uniform  a and b in (0, 1). m additions into a growing sum are off by about sqrt(m) * u * T / 4, and the
            errors of many blocks average out: 8 * u * T, on a GPU one and a half times what GPU_CHAIN
            additions reach. A single chain of 20,000 reaches four times 8 * u * T. Kernels of f64 add in one
            chain there. An instruction of NVIDIA's matrix units may cut off a unit of the sum so far:
            GPU_PIECE products are then too small by as many units as they are instructions. Where positions
            overlap, blocks have nearly the same products, whose errors do not average out: on a GPU four
            times what a single chain of GPU_CHAIN reaches
   step     a product of 2^24, then n of s <= 1. An addition to 2^24 is off by 1 at most, and it loses no more
            than it adds: CHAIN additions, or BLOCK products of s, whichever is less. A single chain
            loses n * s
   A written type of 16 bits would hide these errors: D = -S is added there, so that the error itself is
   written.

   An argument runs a part alone: wide, matrix (or a number: that row of its table), rows, or many [BATCH]:
   all of what CKCONV_TEST_FULL adds in 10^8 positions, or in BATCH x 512 x 512, on any device. */
#define _POSIX_C_SOURCE 200809L
#include "naive.h"

enum {
    CHAIN = 2048,     /* additions in the accumulator's type that an element of a sum goes through, at most */
    GPU_CHAIN = 4352, /* on a GPU, 4096 of them where registers are scarce */
    GPU_PIECE = 16384, /* products that a matrix unit adds up in one accumulator */
    BLOCK = 32768      /* products that share such a chain */
};

/* length: products of a sum, in axis `along`: n, c, k, the filter (f) or the input (x) of a 1D problem.
   [0] for the simulator, [1] the default, [2] with CKCONV_TEST_FULL. Sums of uniform and fine f32 data
    are four times as long, but for the simulator. */
typedef struct sums_row {
    ckconv_op op;
    char along;
    int32_t ndim;
    int64_t g, n, k, c, filter[3], input[3], stride, pad;
    int64_t length[3];
} sums_row;

static const sums_row rows[] = {
    /* dense */
    {CKCONV_BWD_WEIGHT, 'n', 2, 1, 0, 3, 5, {1, 1}, {64, 64}, 1, 0, {20480, 1 << 15, 1 << 21}},
    {CKCONV_BWD_WEIGHT, 'n', 2, 1, 0, 6, 8, {3, 3}, {16, 15}, 1, 1, {20000, 1 << 13, 1 << 20}},
    {CKCONV_BWD_WEIGHT, 'n', 2, 1, 0, 20, 18, {1, 1}, {7, 7}, 1, 0, {20000, 1 << 13, 1 << 20}},
    {CKCONV_BWD_WEIGHT, 'n', 3, 1, 0, 2, 9, {1, 3, 1}, {3, 9, 10}, 2, 1, {20000, 1 << 13, 1 << 20}},
    {CKCONV_BWD_WEIGHT, 'x', 1, 1, 1, 2, 3, {3}, {0}, 1, 1, {20000, 1 << 15, 1 << 21}},
    /* small groups */
    {CKCONV_BWD_WEIGHT, 'n', 2, 4, 0, 4, 4, {3, 3}, {14, 13}, 1, 1, {20000, 1 << 13, 1 << 20}},
    {CKCONV_BWD_WEIGHT, 'n', 2, 3, 0, 2, 3, {1, 1}, {40, 41}, 1, 0, {20000, 1 << 15, 1 << 21}},
    {CKCONV_BWD_WEIGHT, 'x', 1, 8, 1, 2, 2, {5}, {0}, 2, 2, {20000, 1 << 13, 1 << 21}},
    /* depthwise */
    {CKCONV_BWD_WEIGHT, 'n', 2, 8, 0, 1, 1, {3, 3}, {56, 55}, 1, 1, {20000, 1 << 13, 1 << 21}},
    {CKCONV_BWD_WEIGHT, 'n', 2, 19, 0, 1, 1, {3, 3}, {7, 7}, 1, 1, {20000, 1 << 13, 1 << 21}},
    {CKCONV_BWD_WEIGHT, 'n', 2, 8, 0, 1, 1, {5, 5}, {30, 31}, 2, 2, {20000, 1 << 13, 1 << 21}},
    {CKCONV_BWD_WEIGHT, 'x', 1, 16, 1, 1, 1, {7}, {0}, 1, 3, {20000, 1 << 13, 1 << 21}},
    {CKCONV_BWD_WEIGHT, 'x', 1, 1, 1, 1, 1, {1}, {0}, 1, 0, {20000, 1 << 15, 1 << 21}},
    /* channels and taps */
    {CKCONV_FWD, 'c', 2, 1, 1, 3, 0, {1, 1}, {2, 3}, 1, 0, {20000, 1 << 15, 1 << 21}},
    {CKCONV_FWD, 'c', 2, 1, 2, 3, 0, {3, 3}, {4, 5}, 1, 1, {20007, 1 << 15, 1 << 20}},
    {CKCONV_FWD, 'f', 1, 2, 1, 1, 1, {0}, {2}, 1, 0, {20000, 1 << 15, 1 << 21}},
    {CKCONV_BWD_DATA, 'k', 2, 1, 1, 0, 3, {1, 1}, {2, 3}, 1, 0, {20000, 1 << 15, 1 << 21}},
    {CKCONV_BWD_DATA, 'k', 2, 1, 2, 0, 3, {3, 3}, {4, 5}, 2, 1, {20007, 1 << 15, 1 << 20}},
};
#define ROWS ((int)(sizeof rows / sizeof rows[0]))

static const struct {
    ckconv_dtype in, wei, out, compute;
    int bits; /* of a uniform value, so that each type on the way holds it */
} types[] = {
    {CKCONV_F32, CKCONV_F32, CKCONV_F32, 0, 24},
    {CKCONV_BF16, CKCONV_F32, CKCONV_BF16, 0, 8},
    {CKCONV_F16, CKCONV_F16, CKCONV_F16, 0, 11},
    {CKCONV_BF16, CKCONV_BF16, CKCONV_BF16, 0, 8},
    {CKCONV_F64, CKCONV_F64, CKCONV_F64, 0, 53},
    {CKCONV_F32, CKCONV_F32, CKCONV_F32, CKCONV_TF32, 11},
    {CKCONV_F32, CKCONV_F32, CKCONV_F32, CKCONV_BF16X3, 8},
    {CKCONV_F16, CKCONV_F16, CKCONV_F16, CKCONV_F8E4M3, 3},
};
#define TYPES ((int)(sizeof types / sizeof types[0]))

/* STEP and FINE: s = 1 and 2^-9 */
enum { ONES, UNIFORM, STEP, FINE, FILLS };

static double worst; /* largest error of random values, in units of u * T */

/*------------------------------------------------------------------------------------------------------------
  data
*/

/* Where a tensor's elements lie, in three dimensions: G, N (K), C (K), z, y, x. */
static void strides3(const test_tensor *t, int64_t stride[6])
{
    const int ndim = t->rank - 3;
    for (int i = 0; i < 6; i++) {
        const int j = i < 3 ? i : i - (3 - ndim);
        stride[i] = i < 3 || j >= 3 ? t->stride[j] : 0;
    }
}

static void put(test_tensor *t, int64_t at, double value)
{
    test_encode(t->dtype, value, t->buffer.data + (size_t)at * test_size(t->dtype));
}

static double get(const test_tensor *t, int64_t at)
{
    return test_decode(t->dtype, t->buffer.data + (size_t)at * test_size(t->dtype));
}

enum { VALUES = 4096 };

/* All elements from a few values that are encoded once. */
static void fill(test_tensor *t, int kind, int bits, double small, uint64_t seed)
{
    static unsigned char table[VALUES * 8];
    const size_t size = test_size(t->dtype);
    test_rng r = test_seed(seed);
    for (int i = 0; i < VALUES; i++) {
        const double random = ldexp((double)test_range(&r, 1, ((int64_t)1 << bits) - 1), -bits);
        test_encode(t->dtype, kind == UNIFORM ? random : small, table + (size_t)i * size);
    }
    int64_t index[6] = {0, 0, 0, 0, 0, 0};
    int64_t offset = 0;
    for (int64_t i = 0; i < t->count; i++) {
        const size_t from = (size_t)(test_mix(seed + (uint64_t)i) % VALUES) * size;
        memcpy(t->buffer.data + (size_t)offset * size, table + from, size);
        test_step(t, index, &offset);
    }
}

/* The two tensors that are read. The large product of a step is the first one that no padding touches: batch
   entry 0 or channel 0, the middle tap. */
static void fill_all(naive_case *c, int kind, int bits)
{
    const naive_shape s = naive_get_shape(&c->desc);
    const int w = naive_written(c->op);
    int64_t at[3][6];
    for (int i = 0; i < 3; i++) {
        if (i != w) {
            /* 2^-4 and 2^-5 */
            const double small = kind == FINE ? ldexp(1.0, i == (w == NAIVE_IN ? 1 : 0) ? -4 : -5) : 1.0;
            fill(&c->t[i], kind, bits, small, (uint64_t)i * 77u + 5u);
        }
        strides3(&c->t[i], at[i]);
    }
    if (kind != STEP && kind != FINE) {
        return;
    }
    int64_t o[3], x[3], t[3];
    for (int i = 0; i < 3; i++) {
        t[i] = s.filter[i] / 2;
        o[i] = s.output[i] > 1 && s.lo[i] > 0 ? 1 : 0;
        x[i] = o[i] * s.stride[i] + t[i] * s.dilation[i] - s.lo[i];
    }
    for (int64_t g = 0; g < s.g; g++) {
        for (int64_t k = 0; k < s.k && w != NAIVE_OUT; k += w == NAIVE_IN ? s.k : 1) {
            put(&c->t[NAIVE_OUT],
                g * at[2][0] + k * at[2][2] + o[0] * at[2][3] + o[1] * at[2][4] + o[2] * at[2][5], 4096.0);
        }
        for (int64_t i = 0; i < s.c && w != NAIVE_IN; i += w == NAIVE_OUT ? s.c : 1) {
            put(&c->t[NAIVE_IN],
                g * at[0][0] + i * at[0][2] + x[0] * at[0][3] + x[1] * at[0][4] + x[2] * at[0][5], 4096.0);
        }
        for (int64_t i = 0; i < s.k * s.c && w != NAIVE_WEI; i++) {
            const int64_t k = i / s.c, j = i % s.c;
            if (w == NAIVE_OUT ? j == 0 : k == 0) {
                put(&c->t[NAIVE_WEI],
                    g * at[1][0] + k * at[1][1] + j * at[1][2] + t[0] * at[1][3] + t[1] * at[1][4] +
                        t[2] * at[1][5],
                    4096.0);
            }
        }
    }
}

/*------------------------------------------------------------------------------------------------------------
  the sums, in doubles that keep what their additions lose
*/
typedef struct exact_sum {
    double sum, lost, total;
} exact_sum;

static void add(exact_sum *s, double v)
{
    const double sum = s->sum + v;
    const double rest = sum - s->sum;
    s->lost += (s->sum - (sum - rest)) + (v - rest);
    s->sum = sum;
    s->total += fabs(v);
}

typedef struct summing {
    const naive_case *c;
    naive_shape s;
    int64_t x[6], w[6], y[6]; /* strides */
} summing;

/* One product, if its tap is no padding. */
static void add_product(const summing *m, exact_sum *sum, int64_t g, int64_t n, int64_t k, int64_t c,
                        const int64_t o[3], const int64_t t[3])
{
    int64_t x = g * m->x[0] + n * m->x[1] + c * m->x[2];
    int64_t w = g * m->w[0] + k * m->w[1] + c * m->w[2];
    int64_t y = g * m->y[0] + n * m->y[1] + k * m->y[2];
    for (int i = 0; i < 3; i++) {
        const int64_t at = o[i] * m->s.stride[i] + t[i] * m->s.dilation[i] - m->s.lo[i];
        if (at < 0 || at >= m->s.input[i] || o[i] < 0 || o[i] >= m->s.output[i]) {
            return;
        }
        x += at * m->x[3 + i];
        w += t[i] * m->w[3 + i];
        y += o[i] * m->y[3 + i];
    }
    const int written = naive_written(m->c->op);
    const double a = written == NAIVE_IN ? get(&m->c->t[NAIVE_WEI], w) : get(&m->c->t[NAIVE_IN], x);
    const double b = written == NAIVE_OUT ? get(&m->c->t[NAIVE_WEI], w) : get(&m->c->t[NAIVE_OUT], y);
    add(sum, a * b);
}

/* All products 1: how many outputs tap at[3..] has. */
static exact_sum count_weight(const summing *m, const int64_t at[6])
{
    exact_sum sum = {(double)m->s.n, 0.0, 0.0};
    for (int i = 0; i < 3; i++) {
        int64_t count = 0;
        for (int64_t o = 0; o < m->s.output[i]; o++) {
            const int64_t x = o * m->s.stride[i] + at[3 + i] * m->s.dilation[i] - m->s.lo[i];
            count += x >= 0 && x < m->s.input[i];
        }
        sum.sum *= (double)count;
    }
    sum.total = sum.sum;
    return sum;
}

/* Over batch and outputs of weight (g, k, c, tap). */
static exact_sum sum_weight(const summing *m, const int64_t at[6])
{
    exact_sum sum = {0.0, 0.0, 0.0};
    int64_t o[3];
    for (int64_t n = 0; n < m->s.n; n++) {
        for (o[0] = 0; o[0] < m->s.output[0]; o[0]++) {
            for (o[1] = 0; o[1] < m->s.output[1]; o[1]++) {
                for (o[2] = 0; o[2] < m->s.output[2]; o[2]++) {
                    add_product(m, &sum, at[0], n, at[1], at[2], o, at + 3);
                }
            }
        }
    }
    return sum;
}

/* Over channels and taps of output or input pixel (g, n, channel, place). */
static exact_sum sum_pixel(const summing *m, const int64_t at[6], int forward)
{
    exact_sum sum = {0.0, 0.0, 0.0};
    int64_t t[3];
    for (int64_t red = 0; red < (forward ? m->s.c : m->s.k); red++) {
        for (t[0] = 0; t[0] < m->s.filter[0]; t[0]++) {
            for (t[1] = 0; t[1] < m->s.filter[1]; t[1]++) {
                for (t[2] = 0; t[2] < m->s.filter[2]; t[2]++) {
                    int64_t o[3];
                    int meets = 1;
                    for (int i = 0; i < 3; i++) {
                        const int64_t from = at[3 + i] + m->s.lo[i] - t[i] * m->s.dilation[i];
                        o[i] = forward ? at[3 + i] : from / m->s.stride[i];
                        meets = meets && (forward || (from >= 0 && from % m->s.stride[i] == 0));
                    }
                    if (meets) {
                        add_product(m, &sum, at[0], at[1], forward ? at[2] : red, forward ? red : at[2], o,
                                    t);
                    }
                }
            }
        }
    }
    return sum;
}

static int alike; /* positions overlap */

/* How far a sum of so many products may be off. */
static double bound(int kind, double unit, double terms, const exact_sum *s)
{
    const double small = kind == FINE ? ldexp(1.0, -9) : 1.0, chain = test_on_gpu() ? GPU_CHAIN : CHAIN,
                 block = BLOCK;
    switch (kind) {
    case ONES:
        return test_on_gpu() && s->sum > 16777216.0 ? 2.0 * unit * s->total : 0.0;
    case UNIFORM:
        return unit * s->total *
               (!test_on_gpu()           ? 8.0
                : unit < ldexp(1.0, -24) ? sqrt(terms) + 4.0
                                         : (alike ? 4.0 : 1.5) / 4 * sqrt(fmin(terms, chain)) + 4.0);
    default:
        return fmin(chain, block * small) * unit * fmax(s->total, 1.0) + 2.0 * unit * s->total;
    }
}

/* Allowed values of the written elements; of many, some are checked. D tensors become -S. */
static void expect(naive_case *c, int kind)
{
    summing m;
    m.c = c;
    m.s = naive_get_shape(&c->desc);
    strides3(&c->t[NAIVE_IN], m.x);
    strides3(&c->t[NAIVE_WEI], m.w);
    strides3(&c->t[NAIVE_OUT], m.y);
    test_tensor *out = &c->t[naive_written(c->op)];
    const int skip = 3 - (int)c->desc.ndim;
    const int64_t most = test_full() ? 8 : (int64_t)(1e6 / naive_terms(c));
    const int64_t step = out->count / (most > 3 ? most : 3) + 1;
    int64_t index[6] = {0, 0, 0, 0, 0, 0};
    int64_t offset = 0;
    double *d = test_doubles(out->count);
    for (int64_t i = 0; i < out->count; i++) {
        int64_t at[6] = {index[0], index[1], index[2], 0, 0, 0};
        for (int j = 0; j < (int)c->desc.ndim; j++) {
            at[3 + skip + j] = index[3 + j];
        }
        c->least[i] = -HUGE_VAL;
        c->most[i] = HUGE_VAL;
        if (i % step == 0 || i == out->count - 1) {
            const exact_sum s = c->op != CKCONV_BWD_WEIGHT ? sum_pixel(&m, at, c->op == CKCONV_FWD)
                                : kind == ONES             ? count_weight(&m, at)
                                                           : sum_weight(&m, at);
            const double value = s.sum + s.lost, unit = naive_unit(c);
            double b = bound(kind, unit, naive_terms(c), &s), shift = 0.0;
            if (c->desc.num_d > 0) {
                d[i] = test_round(CKCONV_F32, -value);
                shift = d[i] + s.sum + s.lost;
                b += unit * s.total; /* the sum itself is rounded to f32 before */
            } else {
                shift = value;
            }
            c->acc[i] = shift;
            c->total[i] = s.total;
            c->loose[i] = b;
            c->least[i] = test_round(out->dtype, shift - b);
            c->most[i] = test_round(out->dtype, shift + b);
        }
        test_step(out, index, &offset);
    }
    if (c->desc.num_d > 0) {
        test_scatter(&c->d[0], d);
    }
    free(d);
}

/*------------------------------------------------------------------------------------------------------------
  runs
*/
/* What NVIDIA's matrix units may cut off, in u * T. */
static double cut_off(const naive_case *c, const ckconv_plan *plan)
{
    const char *name = ckconv_instance_name(plan->instance);
    if (plan->device.kind != CKCONV_DEVICE_NVIDIA || !name ||
        (!strstr(name, "_mma_") && !strstr(name, "depthwise_matrix"))) {
        return 0.0;
    }
    const ckconv_dtype type = naive_compute(&c->desc, NAIVE_IN);
    return GPU_PIECE / (type == CKCONV_F32 || type == CKCONV_TF32 ? 4.0 : 16.0);
}

static void check(naive_case *c, const ckconv_plan *plan, int kind)
{
    static const char *const names[FILLS] = {"ones", "uniform", "step", "fine step"};
    const double cut = cut_off(c, plan) * naive_unit(c);
    const test_tensor *out = &c->t[naive_written(c->op)];
    snprintf(test.extra, sizeof test.extra, "data: %s", names[kind]);
    for (int64_t i = 0; i < out->count && kind == UNIFORM; i++) {
        if (c->least[i] > -HUGE_VAL) {
            c->least[i] = test_round(out->dtype, c->acc[i] - c->loose[i] - cut * c->total[i]);
        }
    }
    if (!naive_run(c, plan) || !naive_compare(c, names[kind])) {
        return;
    }
    for (int64_t i = 0; i < c->t[naive_written(c->op)].count && kind == UNIFORM; i++) {
        if (c->total[i] > 0.0 && c->desc.num_d == 0) {
            worst = fmax(worst, fabs(c->got[i] - c->acc[i]) / (naive_unit(c) * c->total[i]));
        }
    }
}

/* The planner's choice with `device` and, unless `few`, every instance: with workspace, without, and split
   in one, some or many parts. */
static void run_all(naive_case *c, const ckconv_device *device, int kind, int few)
{
    static const struct {
        int32_t split, max_workspace;
    } ways[5] = {{0, 0}, {0, -1}, {1, 0}, {3, 0}, {200, 0}};
    ckconv_plan base;
    ckconv_options options;
    memset(&options, 0, sizeof options);
    options.engine = test_engine();
    if (!naive_plan(c, &base, &options, device)) {
        return;
    }
    for (int32_t i = -1; i < (few ? 0 : ckconv_instance_count()); i++) {
        if (i >= 0 && (ckconv_instance_engine(i) != test_engine() || !ckconv_instance_does(i, c->op))) {
            continue;
        }
        for (int j = 0; j < (c->op == CKCONV_BWD_WEIGHT ? 5 : 2); j++) {
            ckconv_plan plan;
            ckconv_error err;
            if (j > 1 && i >= 0 && j != 2 + i % 3 && !test_full()) {
                continue;
            }
            options.instance = i >= 0 ? ckconv_instance_name(i) : NULL;
            options.split_k = ways[j].split;
            options.max_workspace = ways[j].max_workspace;
            options.threads = 1 + j % 2;
            if (ckconv_plan_again(&plan, &base, &options, &err) == CKCONV_OK) {
                check(c, &plan, kind);
            } else {
                CHECK_MSG(i >= 0 || options.split_k > 0, "no instance: %s", err.text);
            }
        }
    }
}

static int effort(void)
{
    return test_thin() ? 0 : test_full() ? 2 : 1;
}

static void make_desc(ckconv_conv_desc *d, const sums_row *s, int type, int kind, int layout)
{
    test_layer(d, s->ndim, s->g, s->n, s->k, s->c);
    int64_t plane = 1, length = s->length[effort()] * (effort() > 0 && kind % 2 == 1 && type == 0 ? 4 : 1);
    for (int i = 0; i < (int)s->ndim; i++) {
        d->filter[i] = s->filter[i] > 0 ? s->filter[i] : length;
        d->input[i] = s->along == 'x' ? length * s->stride : s->input[i];
        d->input[i] += s->along == 'f' ? length : 0;
        d->stride[i] = s->stride;
        d->pad_lo[i] = d->pad_hi[i] = s->filter[i] == 1 ? 0 : s->pad;
        plane *= (d->input[i] + 2 * d->pad_lo[i] - d->filter[i]) / d->stride[i] + 1;
    }
    int64_t taps = s->along == 'f' ? 1 : s->filter[0] * (s->ndim > 1 ? s->filter[1] : 1);
    d->n = s->along == 'n' ? length / plane + 1 : s->n;
    d->c = s->along == 'c' ? length / taps : s->c;
    d->k = s->along == 'k' ? length / taps : s->k;
    d->in.dtype = types[type].in;
    d->wei.dtype = types[type].wei;
    d->out.dtype = types[type].out;
    d->in.layout = d->out.layout = layout ? CKCONV_NGCHW : CKCONV_NHWGC;
    d->wei.layout = layout ? CKCONV_GKCYX : CKCONV_GKYXC;
    d->compute_in = d->compute_wei = d->compute_out = types[type].compute;
    ckconv_dtype written = s->op == CKCONV_FWD        ? d->out.dtype
                           : s->op == CKCONV_BWD_DATA ? d->in.dtype
                                                      : d->wei.dtype;
    if (test_size(written) < 4) {
        ckconv_element_op *op = s->op == CKCONV_FWD        ? &d->op_out
                                : s->op == CKCONV_BWD_DATA ? &d->op_in
                                                           : &d->op_wei;
        op->kind = CKCONV_ADD;
        d->num_d = 1;
        d->d[0].dtype = CKCONV_F32;
    }
}

static void run_case(const ckconv_conv_desc *d, ckconv_op op, const ckconv_device *device, int kind, int bits,
                     int few)
{
    naive_case c;
    naive_make(&c, op, d, 0);
    fill_all(&c, kind, bits);
    expect(&c, kind);
    run_all(&c, device, kind, few);
    test.extra[0] = 0;
    naive_free(&c);
}

/* f32 meets each row and kind of data in one of the layouts, other types some of them. */
static void part_rows(void)
{
    ckconv_device devices[3];
    const int device_count = test_cpu_devices(devices);
    for (int i = 0; i < ROWS * TYPES * FILLS; i++) {
        const int row = i / TYPES / FILLS, type = i % TYPES, kind = i / TYPES % FILLS;
        const int some = test_effort() == 0 ? 32 : 16;
        const int skip = kind == ONES || (type > 0 ? (row + 3 * type + kind) % some != 0
                                                   : test_effort() == 0 && (row + kind) % 3 != 0);
        if ((skip && !test_full()) || (test_on_gpu() && rows[row].op != CKCONV_BWD_WEIGHT) ||
            (test_thin() && (kind != STEP || type > 0 || row % 4 != 0))) {
            continue; /* GPU: channels and taps are one chain */
        }
        /* fp8 has no 4096; fine steps are not seen in a short sum */
        if ((kind >= STEP && types[type].bits < 8) || (kind == FINE && (effort() == 0 || type > 0))) {
            continue;
        }
        ckconv_conv_desc d;
        make_desc(&d, &rows[row], type, kind, (row / 2 + type + kind) % 2);
        run_case(&d, rows[row].op, &devices[i % device_count], kind, types[type].bits, 0);
    }
}

/* More than 2^24 ones: a single f32 stops there. 17 million positions, or with CKCONV_TEST_FULL 10^8 and
   every instance. Batch entries, rows and columns overlap, so that the tensors stay small. alone: so many
   batch entries, whatever the effort; 0: what the effort asks for. */
static void part_many(int64_t alone)
{
    static const ckconv_dtype dtypes[2] = {CKCONV_F32, CKCONV_BF16};
    const int all = alone > 0 || test_full();
    if (effort() == 0 && alone == 0) {
        return;
    }
    alike = 1;
    for (int i = 0; i < 2 * 2 * 2; i++) {
        const int depthwise = i % 2, kind = i / 2 % 2 == 0 ? ONES : UNIFORM;
        const int64_t g = depthwise ? 8 : 1;
        if ((kind == UNIFORM || depthwise != i / 4) && !all) {
            continue;
        }
        ckconv_conv_desc d;
        test_layer(&d, 2, g, alone > 0 ? alone : all ? 382 : 66, 1, 1);
        for (int j = 0; j < 2; j++) {
            d.filter[j] = 1;
            d.input[j] = 512;
        }
        d.in.dtype = d.out.dtype = dtypes[i / 4];
        d.wei.dtype = CKCONV_F32;
        ckconv_tensor *t[2] = {&d.in, &d.out};
        for (int j = 0; j < 2; j++) {
            t[j]->layout = CKCONV_STRIDED;
            t[j]->stride[0] = t[j]->stride[2] = 1;
            t[j]->stride[1] = t[j]->stride[3] = t[j]->stride[4] = g;
        }
        run_case(&d, CKCONV_BWD_WEIGHT, NULL, kind, i / 4 ? 8 : 24, !all);
    }
    alike = 0;
}

/* Many output channels of few weights each: without workspace a block of them fits on the stack. */
static void part_wide(void)
{
    static const ckconv_dtype dtypes[2] = {CKCONV_F64, CKCONV_F32};
    ckconv_device devices[3];
    const int device_count = test_cpu_devices(devices);
    for (int i = 0; i < 2 * device_count; i++) {
        ckconv_conv_desc d;
        test_layer(&d, 1, 1, 2, 1024, 1);
        d.filter[0] = 1;
        d.input[0] = 100;
        d.in.dtype = dtypes[i % 2];
        run_case(&d, CKCONV_BWD_WEIGHT, &devices[i / 2], ONES, 24, 0);
    }
}

/* Matrix units, whose accumulators take many products at a time: sums that are longer than those which they
   are left alone with. A product of 2^24, then others that a plain sum loses one after the other. */
static const struct {
    int type;
    int64_t g, n, k, c, filter, input, stride, pad;
} matrix_rows[] = {
    {1, 1, 18, 16, 16, 1, 64, 1, 0}, /* tiles */
    {3, 1, 18, 16, 8, 1, 64, 1, 0},  /* with an epilogue */
    {1, 1, 18, 7, 5, 1, 64, 1, 0},   /* packed */
    {6, 1, 6, 8, 8, 1, 64, 1, 0},    /* three terms */
    {5, 1, 18, 16, 8, 1, 64, 1, 0},  /* tf32 */
    {0, 1, 18, 16, 8, 1, 64, 1, 0},  /* f32, on CDNA */
    {1, 4, 36, 4, 4, 3, 64, 1, 1},   /* small groups; two waves share positions */
    {1, 2, 18, 32, 32, 1, 64, 1, 0}, /* and larger ones */
    {1, 1, 18, 16, 3, 3, 128, 2, 1}, /* a first layer */
    {1, 16, 18, 1, 1, 3, 64, 1, 1},  /* depthwise */
    {1, 8, 18, 1, 1, 17, 64, 1, 8},
};
#define MATRIX_ROWS ((int)(sizeof matrix_rows / sizeof matrix_rows[0]))

static void part_matrix(int only)
{
    static const struct {
        int32_t split, max_workspace;
    } ways[3] = {{0, 0}, {0, -1}, {1, 0}};
    for (int i = 0; i < MATRIX_ROWS && test_on_gpu(); i++) {
        const int type = matrix_rows[i].type;
        ckconv_conv_desc d;
        ckconv_plan base;
        ckconv_options options;
        naive_case c;
        if ((only >= 0 && i != only) || (only < 0 && test_thin() && i != 0 && i < 8)) {
            continue; /* each takes half a minute on the simulator */
        }
        test_layer(&d, 2, matrix_rows[i].g, matrix_rows[i].n, matrix_rows[i].k, matrix_rows[i].c);
        for (int j = 0; j < 2; j++) {
            d.filter[j] = matrix_rows[i].filter;
            d.input[j] = matrix_rows[i].input;
            d.stride[j] = matrix_rows[i].stride;
            d.pad_lo[j] = d.pad_hi[j] = matrix_rows[i].pad;
        }
        d.in.dtype = types[type].in;
        d.wei.dtype = types[type].wei;
        d.out.dtype = types[type].out;
        d.compute_in = d.compute_wei = d.compute_out = types[type].compute;
        if (test_size(d.wei.dtype) < 4) {
            d.op_wei.kind = CKCONV_ADD;
            d.num_d = 1;
            d.d[0].dtype = CKCONV_F32;
        }
        naive_make(&c, CKCONV_BWD_WEIGHT, &d, 0);
        fill_all(&c, FINE, types[type].bits);
        expect(&c, FINE);
        memset(&options, 0, sizeof options);
        options.engine = test_engine();
        if (naive_plan(&c, &base, &options, NULL)) {
            for (int j = 0; j < ckconv_instance_count() * 3; j++) {
                const char *name = ckconv_instance_name(j / 3);
                ckconv_plan plan;
                ckconv_error err;
                const int due =
                    !test_thin() || !test_variable("CKCONV_TEST_QUICK") || (i + j / 3 + j) % 3 == 0;
                if (!due || (strstr(name, "mfma") == NULL && strstr(name, "mma_") == NULL &&
                             strstr(name, "_matrix") == NULL)) {
                    continue;
                }
                options.instance = name;
                options.split_k = ways[j % 3].split;
                options.max_workspace = ways[j % 3].max_workspace;
                if (ckconv_instance_does(j / 3, c.op) &&
                    ckconv_plan_again(&plan, &base, &options, &err) == CKCONV_OK) {
                    check(&c, &plan, FINE);
                }
            }
        }
        test.extra[0] = 0;
        naive_free(&c);
    }
}

int main(int argc, char **argv)
{
    test_begin("test_sums");
    const char *part = argc > 1 ? argv[1] : NULL;
    const int number = part != NULL && part[0] >= '0' && part[0] <= '9';
    if (part == NULL || strcmp(part, "wide") == 0) {
        part_wide();
    }
    if (part == NULL || number || strcmp(part, "matrix") == 0) {
        part_matrix(number ? atoi(part) : -1);
    }
    if (part == NULL || strcmp(part, "rows") == 0) {
        part_rows();
    }
    if (part == NULL || strcmp(part, "many") == 0) {
        part_many(part == NULL ? 0 : argc > 2 ? atoi(argv[2]) : 382);
    }
    printf("largest error of random values: %.2f u*T\n", worst);
    return test_end();
}
