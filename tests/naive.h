/* naive.h - the convolutions straight from their definition: what the numeric tests hold the library to
   SPDX-License-Identifier: MIT

   One loop nest for all three passes, in double, on packed arrays in logical order; own strides, own
   rounding, own element operations. Only naive_plan and naive_run call the library. */
#ifndef CKCONV_NAIVE_H
#define CKCONV_NAIVE_H

#include "test.h"

/*------------------------------------------------------------------------------------------------------------
  element operations
*/
static inline double naive_sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* d: the values of the D tensors at this place, num_d of them. */
static inline double naive_element(const ckconv_element_op *op, double x, const double *d, int num_d)
{
    double sum = x;
    switch (op->kind) {
    case CKCONV_PASS:
        return x;
    case CKCONV_SCALE:
        return op->alpha * x;
    case CKCONV_RELU:
        return x > 0.0 ? x : 0.0;
    case CKCONV_CLAMP:
        return x < op->alpha ? op->alpha : x > op->beta ? op->beta : x;
    case CKCONV_SIGMOID:
        return naive_sigmoid(x);
    case CKCONV_SILU:
        return x * naive_sigmoid(x);
    case CKCONV_GELU:
        return 0.5 * x * (1.0 + erf(x * 0.70710678118654752440));
    case CKCONV_BILINEAR:
        return op->alpha * x + op->beta * d[0];
    case CKCONV_SCALE_ADD:
        return op->alpha * x + d[0];
    case CKCONV_BIAS:
        return x + d[0];
    case CKCONV_BIAS_RELU:
        return x + d[0] > 0.0 ? x + d[0] : 0.0;
    case CKCONV_BIAS_RESIDUAL_RELU:
        sum = x + d[0] + d[1];
        return sum > 0.0 ? sum : 0.0;
    case CKCONV_ADD:
    case CKCONV_ADD_RELU:
        for (int i = 0; i < num_d; i++) {
            sum += d[i];
        }
        return op->kind == CKCONV_ADD_RELU && !(sum > 0.0) ? 0.0 : sum;
    case CKCONV_TANH:
        return tanh(x);
    case CKCONV_LEAKY_RELU:
        return x < 0.0 ? op->alpha * x : x;
    case CKCONV_HARDSIGMOID:
        return fmin(fmax(x + 3.0, 0.0), 6.0) / 6.0;
    case CKCONV_HARDSWISH:
        return x <= -3.0 ? 0.0 : x * fmin(x + 3.0, 6.0) / 6.0;
    case CKCONV_BIAS_SILU:
        return (x + d[0]) * naive_sigmoid(x + d[0]);
    case CKCONV_BIAS_GELU:
        return 0.5 * (x + d[0]) * (1.0 + erf((x + d[0]) * 0.70710678118654752440));
    case CKCONV_BIAS_RELU_ADD:
        return (x + d[0] > 0.0 ? x + d[0] : 0.0) + d[1];
    case CKCONV_SCALE_SHIFT:
        return x * d[0] + d[1];
    case CKCONV_SCALE_SHIFT_RELU:
        return x * d[0] + d[1] > 0.0 ? x * d[0] + d[1] : 0.0;
    case CKCONV_RELU_BWD:
        return d[0] > 0.0 ? x : 0.0;
    case CKCONV_CLAMP_BWD:
        return d[0] > op->alpha && d[0] < op->beta ? x : 0.0;
    case CKCONV_SIGMOID_BWD:
        return x * d[0] * (1.0 - d[0]);
    case CKCONV_SILU_BWD:
        return x * naive_sigmoid(d[0]) * (1.0 + d[0] * (1.0 - naive_sigmoid(d[0])));
    case CKCONV_GELU_BWD:
        return x * (0.5 * erfc(-d[0] * 0.70710678118654752440) +
                    d[0] * exp(-0.5 * d[0] * d[0]) * 0.39894228040143267794);
    default:
        return (double)NAN;
    }
}

/* D tensors that an operation reads; -1: as many as there are. */
static inline int naive_needs_d(ckconv_element kind)
{
    const test_element *e = test_find_element(kind);
    return e->low == e->high ? e->low : -1;
}

static inline int naive_is_smooth(ckconv_element kind)
{
    return test_find_element(kind)->smooth;
}

/* What an error of x grows by at most. */
static inline double naive_slope(const ckconv_element_op *op, const double *d)
{
    switch (op->kind) {
    case CKCONV_CLAMP:
    case CKCONV_CLAMP_BWD:
    case CKCONV_RELU_BWD:
        return 1.0;
    case CKCONV_SCALE_SHIFT:
    case CKCONV_SCALE_SHIFT_RELU:
        return fabs(d[0]);
    case CKCONV_SIGMOID_BWD:
        return fabs(d[0] * (1.0 - d[0]));
    default: /* hardswish 1.5, gelu 1.13 */
        return fmax(naive_is_smooth(op->kind) ? 1.5 : 1.0, fabs(op->alpha));
    }
}

/*------------------------------------------------------------------------------------------------------------
  the sums
*/

/* A problem in three dimensions; missing outer ones have size 1. */
typedef struct naive_shape {
    int64_t g, n, k, c;
    int64_t filter[3], input[3], stride[3], dilation[3], lo[3], output[3];
} naive_shape;

static inline naive_shape naive_get_shape(const ckconv_conv_desc *d)
{
    naive_shape s;
    s.g = d->g > 0 ? d->g : 1;
    s.n = d->n;
    s.k = d->k;
    s.c = d->c;
    for (int i = 0; i < 3; i++) {
        const int j = i - (3 - (int)d->ndim);
        s.filter[i] = j >= 0 ? d->filter[j] : 1;
        s.input[i] = j >= 0 ? d->input[j] : 1;
        s.stride[i] = j >= 0 && d->stride[j] > 0 ? d->stride[j] : 1;
        s.dilation[i] = j >= 0 && d->dilation[j] > 0 ? d->dilation[j] : 1;
        s.lo[i] = j >= 0 ? d->pad_lo[j] : 0;
        const int64_t hi = j >= 0 ? d->pad_hi[j] : 0;
        const int64_t span = (s.filter[i] - 1) * s.dilation[i] + 1;
        const int64_t room = s.input[i] + s.lo[i] + hi - span;
        s.output[i] = room >= 0 ? room / s.stride[i] + 1 : 0;
    }
    return s;
}

/* The three tensors of a convolution by position. */
enum { NAIVE_IN = 0, NAIVE_WEI = 1, NAIVE_OUT = 2 };

static inline int naive_written(ckconv_op op)
{
    return op == CKCONV_FWD ? NAIVE_OUT : op == CKCONV_BWD_DATA ? NAIVE_IN : NAIVE_WEI;
}

/* Logical lengths: in {G,N,C,spatial}, wei {G,K,C,filter}, out {G,N,K,spatial}. */
static inline void naive_lengths(const ckconv_conv_desc *d, int which, int64_t *length)
{
    const naive_shape s = naive_get_shape(d);
    const int skip = 3 - (int)d->ndim;
    length[0] = s.g;
    length[1] = which == NAIVE_WEI ? s.k : s.n;
    length[2] = which == NAIVE_OUT ? s.k : s.c;
    for (int i = 0; i < (int)d->ndim; i++) {
        length[3 + i] = which == NAIVE_IN    ? s.input[skip + i]
                        : which == NAIVE_WEI ? s.filter[skip + i]
                                             : s.output[skip + i];
    }
}

/* Packed arrays in logical order. The four results belong to the written tensor and start with zeros. */
typedef struct naive_sums {
    double *value[3];        /* read values; of the written tensor: the sums */
    const double *low[3];    /* second terms for bf16x3, or NULL */
    const double *spread[3]; /* uncertainty of each read value, or NULL */
    double *total;           /* sums of |product| */
    double *squares;         /* sums of product^2 */
    double *loose;           /* how far a sum may be off, the accumulation left aside */
} naive_sums;

static inline void naive_add(const naive_sums *a, int w, const int64_t at[3])
{
    const int p = w == NAIVE_IN ? NAIVE_WEI : NAIVE_IN;
    const int q = w == NAIVE_OUT ? NAIVE_WEI : NAIVE_OUT;
    double product = a->value[p][at[p]] * a->value[q][at[q]];
    if (a->low[p] != NULL) {
        /* the product of both low terms may be added or left out */
        const double rest = 0.5 * a->low[p][at[p]] * a->low[q][at[q]];
        product += a->value[p][at[p]] * a->low[q][at[q]] + a->low[p][at[p]] * a->value[q][at[q]] + rest;
        a->loose[at[w]] += fabs(rest);
    }
    a->value[w][at[w]] += product;
    a->total[at[w]] += fabs(product);
    a->squares[at[w]] += product * product;
    if (a->spread[p] != NULL || a->spread[q] != NULL) {
        const double u = a->spread[p] != NULL ? a->spread[p][at[p]] : 0.0;
        const double v = a->spread[q] != NULL ? a->spread[q][at[q]] : 0.0;
        a->loose[at[w]] += u * (fabs(a->value[q][at[q]]) + v) + v * fabs(a->value[p][at[p]]);
    }
}

/* All taps of one position of the output. */
static inline void naive_taps(const naive_shape *s, int w, const naive_sums *a, const int64_t plane[3],
                              const int64_t o[3])
{
    const int64_t left = o[2] * s->stride[2] - s->lo[2];
    int64_t at[3];
    at[NAIVE_OUT] = ((plane[NAIVE_OUT] * s->output[0] + o[0]) * s->output[1] + o[1]) * s->output[2] + o[2];
    for (int64_t z = 0; z < s->filter[0]; z++) {
        const int64_t in_z = o[0] * s->stride[0] + z * s->dilation[0] - s->lo[0];
        for (int64_t y = 0; y < s->filter[1]; y++) {
            const int64_t in_y = o[1] * s->stride[1] + y * s->dilation[1] - s->lo[1];
            if (in_z < 0 || in_z >= s->input[0] || in_y < 0 || in_y >= s->input[1]) {
                continue;
            }
            const int64_t row = ((plane[NAIVE_IN] * s->input[0] + in_z) * s->input[1] + in_y) * s->input[2];
            const int64_t taps =
                ((plane[NAIVE_WEI] * s->filter[0] + z) * s->filter[1] + y) * s->filter[2];
            for (int64_t x = 0; x < s->filter[2]; x++) {
                const int64_t in_x = left + x * s->dilation[2];
                if (in_x >= 0 && in_x < s->input[2]) {
                    at[NAIVE_IN] = row + in_x;
                    at[NAIVE_WEI] = taps + x;
                    naive_add(a, w, at);
                }
            }
        }
    }
}

static inline void naive_conv(const naive_shape *s, ckconv_op op, const naive_sums *a)
{
    const int w = naive_written(op);
    int64_t plane[3];
    int64_t o[3];
    for (int64_t g = 0; g < s->g; g++) {
        for (int64_t n = 0; n < s->n; n++) {
            for (int64_t k = 0; k < s->k; k++) {
                for (int64_t c = 0; c < s->c; c++) {
                    plane[NAIVE_IN] = (g * s->n + n) * s->c + c;
                    plane[NAIVE_WEI] = (g * s->k + k) * s->c + c;
                    plane[NAIVE_OUT] = (g * s->n + n) * s->k + k;
                    for (o[0] = 0; o[0] < s->output[0]; o[0]++) {
                        for (o[1] = 0; o[1] < s->output[1]; o[1]++) {
                            for (o[2] = 0; o[2] < s->output[2]; o[2]++) {
                                naive_taps(s, w, a, plane, o);
                            }
                        }
                    }
                }
            }
        }
    }
}

/*------------------------------------------------------------------------------------------------------------
  a convolution with its data and its expected result
*/
typedef struct naive_case {
    ckconv_op op;
    ckconv_conv_desc desc;
    test_tensor t[3]; /* in, wei, out */
    test_tensor d[4];
    double *least, *most; /* what each written element may be, in logical order; equal: exact */
    double *got;          /* of the last run */
    double *acc, *total;  /* the sums before the epilogue, and sums of |product| */
    double *squares;      /* sums of product^2 */
    double *loose;        /* how far acc may be off */
    const double *given;  /* in, already prepared, instead of t[0]; or NULL */
    const double *given_spread;
} naive_case;

static inline ckconv_dtype naive_dtype(const ckconv_conv_desc *d, int which)
{
    const ckconv_dtype in = d->in.dtype != 0 ? d->in.dtype : CKCONV_F32;
    const ckconv_dtype given = which == NAIVE_IN ? in : which == NAIVE_WEI ? d->wei.dtype : d->out.dtype;
    return given != 0 ? given : in;
}

static inline const ckconv_tensor *naive_tensor(const ckconv_conv_desc *d, int which)
{
    return which == NAIVE_IN ? &d->in : which == NAIVE_WEI ? &d->wei : &d->out;
}

static inline const ckconv_element_op *naive_op(const ckconv_conv_desc *d, int which)
{
    return which == NAIVE_IN ? &d->op_in : which == NAIVE_WEI ? &d->op_wei : &d->op_out;
}

/* The type that a read tensor is rounded to. */
static inline ckconv_dtype naive_compute(const ckconv_conv_desc *d, int which)
{
    const ckconv_dtype given = which == NAIVE_IN    ? d->compute_in
                               : which == NAIVE_WEI ? d->compute_wei
                                                    : d->compute_out;
    const ckconv_dtype stored = naive_dtype(d, which);
    if (given != 0) {
        return given;
    }
    return which == NAIVE_WEI && stored == CKCONV_F32 && naive_dtype(d, NAIVE_IN) == CKCONV_BF16 ? CKCONV_BF16
                                                                                                 : stored;
}

/* Lengths and strides of a tensor that is described in the logical order of the written one. */
static inline void naive_tensor_make(test_tensor *t, const ckconv_conv_desc *d, int which,
                                     const ckconv_tensor *desc, ckconv_dtype dtype, size_t offset)
{
    int64_t length[6];
    int64_t stride[6] = {0, 0, 0, 0, 0, 0};
    naive_lengths(d, which, length);
    const int rank = 3 + (int)d->ndim;
    ckconv_layout layout = desc->layout;
    if (layout == 0) {
        const ckconv_layout in = which == NAIVE_OUT ? d->in.layout : 0;
        layout = which == NAIVE_WEI ? CKCONV_GKYXC : in != 0 ? in : (ckconv_layout)CKCONV_NHWGC;
    }
    if (layout == CKCONV_STRIDED) {
        memcpy(stride, desc->stride, sizeof stride);
    } else if (layout == CKCONV_CHANNEL) {
        const int channel = which == NAIVE_WEI ? 1 : 2;
        stride[channel] = 1;
        stride[0] = length[channel];
    } else {
        test_layout_strides(layout, d->ndim, length, stride);
    }
    test_tensor_make(t, dtype, rank, length, stride, offset);
}

/* How far an evaluation of exp or erf in f32 (f64) may be from y = op(x). Four units in the last place cover
   exp, the division and the product; 1 + erf cancels for negative x, so gelu's error also goes with x, and so
   do the terms of a gradient, which cancel, with the gradient that comes in. */
static inline double naive_smooth_error(const ckconv_element_op *op, ckconv_dtype arithmetic, double x,
                                        double y, const double *d)
{
    const int bias = op->kind == CKCONV_BIAS_SILU || op->kind == CKCONV_BIAS_GELU;
    const double z = bias ? x + d[0] : x;
    if (!naive_is_smooth(op->kind)) {
        return 0.0;
    }
    double error = 4.0 * test_ulp(arithmetic, y);
    if (op->kind == CKCONV_SILU_BWD || op->kind == CKCONV_GELU_BWD) {
        return error + 8.0 * test_ulp(arithmetic, x);
    }
    if (z < (arithmetic == CKCONV_F64 ? -709.0 : -88.0)) {
        error += fabs(y); /* exp(-z) is infinite there, the result -0 */
    }
    return op->kind == CKCONV_GELU || op->kind == CKCONV_BIAS_GELU ? error + 2.0 * test_ulp(arithmetic, z)
                                                                   : error;
}

/* One value of a read tensor as the sum sees it: the operation in f32, then the rounding to the compute
   type. */
static inline double naive_prepare(const ckconv_element_op *op, ckconv_dtype stored, ckconv_dtype compute,
                                   double x, double *low, double *spread)
{
    const ckconv_dtype arithmetic = stored == CKCONV_F64 ? CKCONV_F64 : CKCONV_F32;
    double y = x;
    *low = 0.0;
    *spread = 0.0;
    if (op->kind != CKCONV_PASS) {
        y = naive_element(op, x, NULL, 0);
        const double error = naive_smooth_error(op, arithmetic, x, y, NULL);
        if (error > 0.0) {
            const double least = test_round(compute, y - error);
            *spread = test_round(compute, y + error) - least;
            y = least;
        }
        y = test_round(arithmetic, y);
    }
    if (compute == CKCONV_BF16X3) {
        const double high = test_round(CKCONV_BF16, y);
        *low = test_round(CKCONV_BF16, y - high);
        return high;
    }
    return test_round(compute, y);
}

static inline void naive_free(naive_case *c)
{
    for (int i = 0; i < 3; i++) {
        test_tensor_free(&c->t[i]);
    }
    for (int i = 0; i < 4; i++) {
        test_tensor_free(&c->d[i]);
    }
    free(c->least);
    free(c->most);
    free(c->got);
    free(c->acc);
    free(c->total);
    free(c->squares);
    free(c->loose);
    memset(c, 0, sizeof *c);
}

/* Allocate the tensors of a problem. offset: bytes by which every pointer is misaligned. */
static inline void naive_make(naive_case *c, ckconv_op op, const ckconv_conv_desc *desc, size_t offset)
{
    memset(c, 0, sizeof *c);
    c->op = op;
    c->desc = *desc;
    const int w = naive_written(op);
    for (int i = 0; i < 3; i++) {
        naive_tensor_make(&c->t[i], desc, i, naive_tensor(desc, i), naive_dtype(desc, i), offset);
    }
    for (int i = 0; i < (int)desc->num_d; i++) {
        ckconv_tensor t = desc->d[i];
        if (t.layout == 0) {
            t.layout = naive_tensor(desc, w)->layout;
            memcpy(t.stride, naive_tensor(desc, w)->stride, sizeof t.stride);
        }
        naive_tensor_make(&c->d[i], desc, w, &t, t.dtype != 0 ? t.dtype : naive_dtype(desc, w), offset);
    }
    const int64_t count = c->t[w].count;
    c->least = test_doubles(count);
    c->most = test_doubles(count);
    c->got = test_doubles(count);
    c->acc = test_doubles(count);
    c->total = test_doubles(count);
    c->squares = test_doubles(count);
    c->loose = test_doubles(count);
}

/* Fill a tensor with integers lo..hi. */
static inline void naive_fill_integers(test_tensor *t, test_rng *r, int64_t lo, int64_t hi)
{
    double *v = test_doubles(t->count);
    for (int64_t i = 0; i < t->count; i++) {
        v[i] = (double)test_range(r, lo, hi);
    }
    test_scatter(t, v);
    free(v);
}

/* Fill a tensor with normal numbers around `mean`. */
static inline void naive_fill_normal(test_tensor *t, test_rng *r, double mean, double deviation)
{
    double *v = test_doubles(t->count);
    for (int64_t i = 0; i < t->count; i++) {
        v[i] = mean + deviation * test_normal(r);
    }
    test_scatter(t, v);
    free(v);
}

/* What becomes of a sum: the epilogue, and the type that is written. */
typedef struct naive_end {
    const ckconv_element_op *op;
    int num_d;
    ckconv_dtype written;
    int int32_sum; /* i8 operands */
} naive_end;

/* The finished value of one sum that may be off by `loose`: the least allowed and, in *most, the largest.
   Without looseness the result is exact. */
static inline double naive_finish(const naive_end *e, double acc, double loose, const double *d, double *most)
{
    const ckconv_dtype arithmetic = e->written == CKCONV_F64 ? CKCONV_F64 : CKCONV_F32;
    double x = acc;
    if (e->int32_sum) {
        /* int32 sums wrap; the low 32 bits of an exact double do the same */
        const double turn = 4294967296.0;
        x = acc - turn * floor((acc + 0.5 * turn) / turn);
        if (e->op->kind == CKCONV_PASS) {
            *most = test_round(e->written, x);
            return *most;
        }
        x = test_round(CKCONV_F32, x);
    }
    const double y = naive_element(e->op, x, d, e->num_d);
    double error = naive_smooth_error(e->op, arithmetic, x, y, d);
    if (loose > 0.0) {
        const double slope = naive_slope(e->op, d); /* the operation's own roundings follow */
        double magnitude = fabs(y) + slope * fabs(x);
        for (int i = 0; i < e->num_d; i++) {
            magnitude += fabs(d[i]) * fmax(1.0, fabs(e->op->beta));
        }
        error += e->op->kind == CKCONV_PASS ? loose : slope * loose + 2.0 * test_ulp(arithmetic, magnitude);
    }
    if (error == 0.0) {
        *most = test_round(e->written, test_round(arithmetic, y));
        return *most;
    }
    *most = test_round(e->written, y + error);
    return test_round(e->written, y - error);
}

static inline int naive_is_i8(const naive_case *c)
{
    return naive_dtype(&c->desc, naive_written(c->op) == NAIVE_IN ? NAIVE_WEI : NAIVE_IN) == CKCONV_I8;
}

/* The values of a read tensor as the sum sees them. */
static inline void naive_read(const naive_case *c, int which, naive_sums *a, double **low, double **spread)
{
    static const ckconv_element_op pass = {CKCONV_PASS, 0, 0.0, 0.0};
    const test_tensor *t = &c->t[which];
    const int given = which == NAIVE_IN && c->given != NULL;
    const ckconv_element_op *op = given ? &pass : naive_op(&c->desc, which);
    const ckconv_dtype compute = naive_compute(&c->desc, which);
    double *value = test_doubles(t->count);
    *low = test_doubles(t->count);
    *spread = test_doubles(t->count);
    if (given) {
        memcpy(value, c->given, (size_t)t->count * sizeof(double));
    } else {
        test_gather(t, value);
    }
    for (int64_t j = 0; j < t->count; j++) {
        value[j] = naive_prepare(op, t->dtype, compute, value[j], &(*low)[j], &(*spread)[j]);
    }
    if (given && c->given_spread != NULL) {
        memcpy(*spread, c->given_spread, (size_t)t->count * sizeof(double));
    }
    a->value[which] = value;
    a->low[which] = compute == CKCONV_BF16X3 ? *low : NULL;
    a->spread[which] = naive_is_smooth(op->kind) || (given && c->given_spread != NULL) ? *spread : NULL;
}

/* Products per written element, at most. */
static inline double naive_terms(const naive_case *c)
{
    const naive_shape s = naive_get_shape(&c->desc);
    const int64_t taps = s.filter[0] * s.filter[1] * s.filter[2];
    if (c->op == CKCONV_BWD_WEIGHT) {
        return (double)(s.n * s.output[0] * s.output[1] * s.output[2]);
    }
    return (double)(taps * (c->op == CKCONV_FWD ? s.c : s.k));
}

/* Rounding unit of the accumulator. */
static inline double naive_unit(const naive_case *c)
{
    return 0.5 * (naive_dtype(&c->desc, NAIVE_IN) == CKCONV_F64 ? DBL_EPSILON : (double)FLT_EPSILON);
}

/* The sums of a case from its tensors as they are filled: acc, total, squares, loose. Uncertain read values
   make a sum inexact: then the bound of its accumulation is part of loose. */
static inline void naive_sum(naive_case *c)
{
    const naive_shape s = naive_get_shape(&c->desc);
    const int w = naive_written(c->op);
    naive_sums a;
    double *low[3] = {NULL, NULL, NULL};
    double *spread[3] = {NULL, NULL, NULL};
    memset(&a, 0, sizeof a);
    for (int i = 0; i < 3; i++) {
        if (i != w) {
            naive_read(c, i, &a, &low[i], &spread[i]);
        }
    }
    double *results[4] = {c->acc, c->total, c->squares, c->loose};
    for (int i = 0; i < 4; i++) {
        memset(results[i], 0, (size_t)c->t[w].count * sizeof(double));
    }
    a.value[w] = c->acc;
    a.total = c->total;
    a.squares = c->squares;
    a.loose = c->loose;
    naive_conv(&s, c->op, &a);
    const int inexact =
        a.spread[NAIVE_IN] != NULL || a.spread[NAIVE_WEI] != NULL || a.spread[NAIVE_OUT] != NULL;
    for (int64_t j = 0; j < c->t[w].count; j++) {
        if (c->loose[j] > 0.0 || inexact) {
            c->loose[j] += (naive_terms(c) + 2.0) * naive_unit(c) * c->total[j];
        }
    }
    for (int i = 0; i < 3; i++) {
        free(low[i]);
        free(spread[i]);
        if (i != w) {
            free(a.value[i]);
        }
    }
}

/* least and most from acc and loose. */
static inline void naive_finish_all(naive_case *c)
{
    const int64_t count = c->t[naive_written(c->op)].count;
    const int w = naive_written(c->op);
    const naive_end end = {naive_op(&c->desc, w), (int)c->desc.num_d, c->t[w].dtype, naive_is_i8(c)};
    double *d[4] = {NULL, NULL, NULL, NULL};
    for (int i = 0; i < (int)c->desc.num_d; i++) {
        d[i] = test_doubles(count);
        test_gather(&c->d[i], d[i]);
    }
    for (int64_t j = 0; j < count; j++) {
        double at[4] = {0.0, 0.0, 0.0, 0.0};
        for (int i = 0; i < (int)c->desc.num_d; i++) {
            at[i] = d[i][j];
        }
        c->least[j] = naive_finish(&end, c->acc[j], c->loose[j], at, &c->most[j]);
    }
    for (int i = 0; i < 4; i++) {
        free(d[i]);
    }
}

static inline void naive_compute_expected(naive_case *c)
{
    naive_sum(c);
    naive_finish_all(c);
}

static inline ckconv_args naive_args(const naive_case *c)
{
    ckconv_args a;
    memset(&a, 0, sizeof a);
    for (int i = 0; i < (int)c->desc.num_d; i++) {
        a.d[i] = test_data(&c->d[i]);
    }
    const int w = naive_written(c->op);
    if (w == NAIVE_IN) {
        a.din = test_data(&c->t[NAIVE_IN]);
    } else {
        a.in = test_data(&c->t[NAIVE_IN]);
    }
    if (w == NAIVE_WEI) {
        a.dwei = test_data(&c->t[NAIVE_WEI]);
    } else {
        a.wei = test_data(&c->t[NAIVE_WEI]);
    }
    if (w == NAIVE_OUT) {
        a.out = test_data(&c->t[NAIVE_OUT]);
    } else {
        a.dout = test_data(&c->t[NAIVE_OUT]);
    }
    return a;
}

/* Run a plan on poisoned output and workspace; guards and gaps are checked, the result is in c->got.
   1 when everything but the values is right. */
static inline int naive_run(naive_case *c, const ckconv_plan *plan)
{
    test_buffer workspace;
    ckconv_error err;
    test_tensor *out = &c->t[naive_written(c->op)];
    const ckconv_args args = naive_args(c);
    memset(&err, 0, sizeof err);
    test.plan = plan;
    test_buffer_make(&workspace, (size_t)plan->workspace_bytes, out->buffer.before - TEST_GUARD);
    memset(workspace.data, 0xFF, workspace.bytes);
    test_poison(out);
    const ckconv_status status =
        test_run(plan, &args, plan->workspace_bytes > 0 ? workspace.data : NULL, workspace.bytes, NULL, &err);
    int good = CHECK_OK(status, err);
    if (good) {
        test_gather(out, c->got);
        good = CHECK_MSG(test_guards_intact(&workspace), "workspace written out of bounds");
        for (int i = 0; i < 3; i++) {
            good = test_guards_intact(&c->t[i].buffer) && good;
        }
        CHECK_MSG(good, "a tensor was written out of bounds");
        good = CHECK_MSG(test_gaps_intact(out), "a gap between strided elements was written") && good;
    }
    test_buffer_free(&workspace);
    return good;
}

/* c->got against what is allowed; the first bad element is named by its logical index. */
static inline int naive_compare(const naive_case *c, const char *what)
{
    const test_tensor *t = &c->t[naive_written(c->op)];
    for (int64_t i = 0; i < t->count; i++) {
        const double y = c->got[i];
        if ((y >= c->least[i] && y <= c->most[i]) || (isnan(y) && isnan(c->least[i]))) {
            continue;
        }
        char place[96];
        test_place(t, i, place, sizeof place);
        return CHECK_MSG(0, "%s: element (%s) is %.17g, allowed %.17g .. %.17g", what, place, y, c->least[i],
                         c->most[i]);
    }
    return CHECK_MSG(1, "%s", what);
}

/* Plan with options; a failure is a failed check. */
static inline int naive_plan(const naive_case *c, ckconv_plan *plan, const ckconv_options *options,
                             const ckconv_device *device)
{
    ckconv_error err;
    memset(&err, 0, sizeof err);
    const ckconv_status status = ckconv_plan_conv(plan, c->op, &c->desc, options, device, &err);
    test.plan = NULL;
    return CHECK_PLAN(status, err);
}

#endif /* CKCONV_NAIVE_H */
