/* test_reals.c - real numbers: long sums against bounds of their accumulation, rounding, overflow, saturation
   SPDX-License-Identifier: MIT

   The exact value of each sum S = sum of a*b comes from double arithmetic; T is the sum of |a*b|, u the
   rounding unit of the accumulator (2^-24 for f32), n the number of products. Each result must lie in
       round(S - b) .. round(S + b),   b = (sqrt(n) + 4) * u * T,
   round() being the one rounding to the stored type: half a unit in its last place and no more. sqrt(n) * u
   * T is what independent roundings of a plain sum reach; the worst case n * u * T would hide a lost tail of
   a sum. */
#define _POSIX_C_SOURCE 200809L
#include "naive.h"

static double worst; /* largest error seen, in units of u * T, where the stored type adds no rounding */

typedef struct long_row {
    ckconv_op op;
    int32_t ndim;
    int64_t g, n, k, c, filter[2], input[2], stride, pad;
} long_row;

static const long_row rows[] = {
    {CKCONV_BWD_WEIGHT, 2, 1, 8, 8, 7, {1, 1}, {56, 56}, 1, 0}, /* 25088 products */
    {CKCONV_BWD_WEIGHT, 2, 1, 3, 4, 5, {3, 3}, {63, 65}, 1, 1},
    {CKCONV_BWD_WEIGHT, 2, 6, 7, 1, 1, {3, 3}, {60, 62}, 1, 1},
    {CKCONV_BWD_WEIGHT, 1, 1, 1, 2, 3, {3, 0}, {100001, 0}, 1, 1},
    {CKCONV_BWD_WEIGHT, 2, 4, 5, 4, 4, {3, 3}, {41, 40}, 2, 1},
    {CKCONV_FWD, 2, 1, 1, 9, 4099, {1, 1}, {5, 4}, 1, 0},
    {CKCONV_FWD, 2, 1, 1, 6, 515, {3, 3}, {7, 6}, 1, 1},
    {CKCONV_FWD, 1, 2, 1, 3, 130, {9, 0}, {50, 0}, 1, 4},
    {CKCONV_FWD, 1, 40, 1, 1, 1, {31, 0}, {120, 0}, 1, 15},
    {CKCONV_BWD_DATA, 2, 1, 1, 4101, 9, {1, 1}, {5, 4}, 1, 0},
    {CKCONV_BWD_DATA, 2, 1, 1, 300, 6, {3, 3}, {9, 8}, 2, 1},
    {CKCONV_BWD_DATA, 1, 30, 1, 2, 1, {31, 0}, {120, 0}, 1, 15},
};
#define ROWS ((int)(sizeof rows / sizeof rows[0]))

static const struct {
    ckconv_dtype dtype[3], compute;
} types[] = {
    {{CKCONV_F32, CKCONV_F32, CKCONV_F32}, 0},
    {{CKCONV_F16, CKCONV_F16, CKCONV_F16}, 0},
    {{CKCONV_BF16, CKCONV_BF16, CKCONV_BF16}, 0},
    {{CKCONV_F64, CKCONV_F64, CKCONV_F64}, 0},
    {{CKCONV_F32, CKCONV_F32, CKCONV_F32}, CKCONV_TF32},
    {{CKCONV_F32, CKCONV_F32, CKCONV_F32}, CKCONV_BF16},
    {{CKCONV_F32, CKCONV_F32, CKCONV_F32}, CKCONV_BF16X3},
    {{CKCONV_BF16, CKCONV_F32, CKCONV_BF16}, 0},
    {{CKCONV_F8E4M3, CKCONV_F8E5M2, CKCONV_F32}, 0},
    {{CKCONV_F8E4M3FNUZ, CKCONV_F8E4M3FNUZ, CKCONV_F8E4M3FNUZ}, 0},
    {{CKCONV_F16, CKCONV_F16, CKCONV_F16}, CKCONV_F8E4M3},
};
#define TYPES ((int)(sizeof types / sizeof types[0]))

/* 0: mean 0. 1: all near 1, the sum grows steadily. 2: magnitudes from 2^-12 to 2^12 (2^-3 to 2^3 in short
   types). */
enum { FILLS = 3 };

static void fill(test_tensor *t, test_rng *r, int kind)
{
    double *v = test_doubles(t->count);
    const int range = t->dtype == CKCONV_F32 || t->dtype == CKCONV_F64 ? 12 : 3;
    for (int64_t i = 0; i < t->count; i++) {
        v[i] = kind == 1 ? 1.0 + 0.1 * test_normal(r) : test_normal(r);
        if (kind == 2) {
            v[i] = ldexp(v[i], (int)test_range(r, -range, range));
        }
    }
    test_scatter(t, v);
    free(v);
}

static void make_desc(ckconv_conv_desc *d, const long_row *s)
{
    test_layer(d, s->ndim, s->g, s->n, s->k, s->c);
    for (int i = 0; i < (int)s->ndim; i++) {
        d->filter[i] = s->filter[i];
        d->input[i] = s->input[i];
        d->stride[i] = s->stride;
        d->pad_lo[i] = d->pad_hi[i] = s->pad;
    }
}

/* Allowed ranges from the sums, and what the last run left of them. */
static void allow(naive_case *c)
{
    const double factor = (sqrt(naive_terms(c)) + 4.0) * naive_unit(c);
    for (int64_t i = 0; i < c->t[naive_written(c->op)].count; i++) {
        c->loose[i] += factor * c->total[i];
        /* the sums in double are themselves off for f64, by no more */
        c->loose[i] *= c->t[naive_written(c->op)].dtype == CKCONV_F64 ? 2.0 : 1.0;
    }
    naive_finish_all(c);
}

static void measure(const naive_case *c)
{
    const test_tensor *t = &c->t[naive_written(c->op)];
    for (int64_t i = 0; i < t->count && t->dtype == CKCONV_F32; i++) {
        if (naive_compute(&c->desc, NAIVE_IN) != CKCONV_BF16X3 && c->total[i] > 0.0 &&
            isfinite(c->total[i]) && naive_op(&c->desc, naive_written(c->op))->kind == CKCONV_PASS) {
            worst = fmax(worst, fabs(c->got[i] - c->acc[i]) / (naive_unit(c) * c->total[i]));
        }
    }
}

/* The planner's choice, every instance and forced splits. */
static void run_all(naive_case *c, const ckconv_device *device, int with_ref, const char *what)
{
    static const int32_t splits[3] = {2, 7, 64};
    ckconv_plan base;
    ckconv_plan plan;
    ckconv_options options;
    ckconv_error err;
    memset(&options, 0, sizeof options);
    options.engine = test_engine();
    options.threads = naive_terms(c) > 2000.0 ? 2 : 1;
    if (!naive_plan(c, &base, &options, device)) {
        return;
    }
    int32_t index = 0;
    plan = base;
    do {
        if (naive_run(c, &plan) && naive_compare(c, what)) {
            measure(c);
        }
    } while (test_next_plan(&base, with_ref, &index, &plan));
    for (int i = 0; i < 3; i++) {
        options.split_k = splits[i];
        if (ckconv_plan_again(&plan, &base, &options, &err) == CKCONV_OK && naive_run(c, &plan)) {
            naive_compare(c, what);
        }
    }
}

static void part_long(void)
{
    worst = 0.0;
    ckconv_device devices[3];
    const int device_count = test_cpu_devices(devices);
    for (int i = 0; i < ROWS * TYPES * FILLS; i++) {
        const long_row *row = &rows[i % ROWS];
        const int type = i / ROWS % TYPES;
        const int kind = i / ROWS / TYPES;
        if ((type > 3 && (i % 3) != kind && !test_full()) || (test_effort() == 0 && i % 5 != 0)) {
            continue;
        }
        ckconv_conv_desc d;
        naive_case c;
        test_rng r = test_seed((uint64_t)i + 1);
        make_desc(&d, row);
        d.in.dtype = types[type].dtype[0];
        d.wei.dtype = types[type].dtype[1];
        d.out.dtype = types[type].dtype[2];
        d.compute_in = d.compute_wei = d.compute_out = types[type].compute;
        if (i % 4 == 3 && kind == 0) { /* an epilogue with rounded parameters */
            ckconv_element_op *ops[3] = {&d.op_in, &d.op_wei, &d.op_out};
            ckconv_element_op *op = ops[naive_written(row->op)];
            op->kind = CKCONV_BILINEAR;
            op->alpha = 0.3;
            op->beta = -1.7;
            d.num_d = 1;
        }
        naive_make(&c, row->op, &d, 0);
        for (int j = 0; j < 3; j++) {
            if (j != naive_written(row->op)) {
                fill(&c.t[j], &r, kind);
            }
        }
        if (d.num_d > 0) {
            fill(&c.d[0], &r, 0);
        }
        naive_sum(&c);
        allow(&c);
        run_all(&c, &devices[i % device_count], type == 0 || i % 5 == 0, "long sum");
        naive_free(&c);
    }
    printf("largest error of an f32 sum: %.2f u*T\n", worst);
}

/*------------------------------------------------------------------------------------------------------------
  ends of the number ranges: every case has one exact answer
*/

/* fwd, bwd_data or bwd_weight with `terms` products per result, all operands a and b. */
static void constant_case(ckconv_op op, int64_t terms, const ckconv_dtype *dtype, double a, double b,
                          const char *what)
{
    ckconv_conv_desc d;
    naive_case c;
    memset(&d, 0, sizeof d);
    d.ndim = 1;
    d.n = 1;
    d.c = op == CKCONV_FWD ? terms : 2;
    d.k = op == CKCONV_BWD_DATA ? terms : 3;
    d.filter[0] = 1;
    d.input[0] = op == CKCONV_BWD_WEIGHT ? terms : 2;
    const int w = naive_written(op);
    ckconv_tensor *t[3] = {&d.in, &d.wei, &d.out};
    t[w]->dtype = dtype[2];
    t[w == NAIVE_IN ? NAIVE_WEI : NAIVE_IN]->dtype = dtype[0];
    t[w == NAIVE_OUT ? NAIVE_WEI : NAIVE_OUT]->dtype = dtype[1];
    naive_make(&c, op, &d, 0);
    int first = 1;
    for (int i = 0; i < 3; i++) {
        if (i == w) {
            continue;
        }
        double *v = test_doubles(c.t[i].count);
        for (int64_t j = 0; j < c.t[i].count; j++) {
            v[j] = first ? a : b;
        }
        test_scatter(&c.t[i], v);
        first = 0;
        free(v);
    }
    naive_compute_expected(&c);
    run_all(&c, NULL, 1, what);
    naive_free(&c);
}

static void part_ends(void)
{
    static const ckconv_dtype f16[3] = {CKCONV_F16, CKCONV_F16, CKCONV_F16};
    static const ckconv_dtype bf16[3] = {CKCONV_BF16, CKCONV_BF16, CKCONV_BF16};
    static const ckconv_dtype f32[3] = {CKCONV_F32, CKCONV_F32, CKCONV_F32};
    static const ckconv_dtype i8[3] = {CKCONV_I8, CKCONV_I8, CKCONV_I8};
    static const ckconv_dtype i32[3] = {CKCONV_I8, CKCONV_I8, CKCONV_I32};
    static const ckconv_dtype fp8[4] = {CKCONV_F8E4M3, CKCONV_F8E5M2, CKCONV_F8E4M3FNUZ, CKCONV_F8E5M2FNUZ};
    static const ckconv_op passes[3] = {CKCONV_FWD, CKCONV_BWD_DATA, CKCONV_BWD_WEIGHT};
    for (int i = 0; i < 3; i++) {
        const ckconv_op op = passes[i];
        constant_case(op, 4, f16, 127.9375, 128.0, "f16: 65504 is finite");
        constant_case(op, 5, f16, 114.0, 115.0, "f16: 65550 overflows");
        constant_case(op, 4, f16, -128.0, 128.0, "f16: -65536 overflows");
        constant_case(op, 3, f16, ldexp(1.0, -12), ldexp(1.0, -13), "f16: a subnormal result");
        constant_case(op, 1, f16, ldexp(1.0, -24), 1.0, "f16: the smallest number");
        constant_case(op, 1, f16, ldexp(1.0, -13), ldexp(1.0, -13), "f16: below the smallest");
        constant_case(op, 2, bf16, 256.0, 1.0078125, "bf16: a tie");
        constant_case(op, 2, bf16, ldexp(1.0, 100), ldexp(1.0, 27), "bf16: overflows to infinity");
        constant_case(op, 2, f32, 1e30, 1e30, "f32: overflows to infinity");
        constant_case(op, 1, f32, ldexp(1.0, -130), 1.0, "f32: a subnormal operand");
        constant_case(op, 3, f32, ldexp(1.0, -100), ldexp(1.0, -45), "f32: a subnormal result");
        constant_case(op, 131071, i32, -128.0, -128.0, "i32: the largest that fits");
        constant_case(op, 131072, i32, -128.0, -128.0, "i32: wraps to the smallest");
        constant_case(op, 131073, i32, 127.0, -128.0, "i32: near the lower end");
        constant_case(op, 200003, i32, 127.0, 127.0, "i32: wraps");
        constant_case(op, 131072, i8, -128.0, -128.0, "i8: wraps, then saturates");
        constant_case(op, 9, i8, 10.0, 10.0, "i8: fits");
        constant_case(op, 9, i8, 127.0, 2.0, "i8: saturates above");
        constant_case(op, 9, i8, 127.0, -2.0, "i8: saturates below");
        for (int j = 0; j < 4; j++) {
            ckconv_dtype t[3] = {fp8[j], fp8[j], fp8[j]};
            constant_case(op, 40, t, 16.0, 16.0, "fp8: 10240");
            constant_case(op, 400, t, 16.0, -16.0, "fp8: -102400 saturates");
            constant_case(op, 1, t, 1.75, 1.5, "fp8: rounds");
            constant_case(op, 1, t, ldexp(1.0, -5), ldexp(1.0, -6), "fp8: small");
            if (op == CKCONV_FWD) {
                t[2] = CKCONV_F16;
                constant_case(op, 300, t, 16.0, 16.0, "fp8 to f16: overflows");
            }
        }
    }
}

/* Infinities and NaN reach the results they belong to and no others. They stay out of the operand that meets
   padding (bwd_data always has some, around dout): what 0 * infinity does there is not asked. */
static void part_special(void)
{
    static const ckconv_dtype special[4] = {CKCONV_F32, CKCONV_F16, CKCONV_BF16, CKCONV_F64};
    static const ckconv_op passes[3] = {CKCONV_FWD, CKCONV_BWD_DATA, CKCONV_BWD_WEIGHT};
    for (int i = 0; i < 4 * 3 * 6; i++) {
        ckconv_conv_desc d;
        naive_case c;
        test_rng r = test_seed((uint64_t)i);
        const ckconv_op op = passes[i / 4 % 3];
        memset(&d, 0, sizeof d);
        d.ndim = 2;
        d.n = 2;
        d.g = i / 12 % 3 == 0 ? 1 : i / 12 % 3 == 1 ? 3 : 20;
        d.k = d.g == 20 ? 1 : 5;
        d.c = d.g == 20 ? 1 : 7;
        d.filter[0] = 3;
        d.filter[1] = 2;
        d.input[0] = 9;
        d.input[1] = 8;
        d.stride[0] = d.stride[1] = i / 36 + 1;
        d.in.dtype = special[i % 4];
        naive_make(&c, op, &d, 0);
        const int holder = op == CKCONV_BWD_DATA ? NAIVE_OUT : NAIVE_IN;
        for (int j = 0; j < 3; j++) {
            if (j == naive_written(op)) {
                continue;
            }
            double *v = test_doubles(c.t[j].count);
            for (int64_t m = 0; m < c.t[j].count; m++) {
                v[m] = (double)test_range(&r, 1, 4); /* no zeros: infinity stays infinity */
            }
            if (j == holder) {
                v[test_below(&r, c.t[j].count)] = (double)INFINITY;
                v[test_below(&r, c.t[j].count)] = -(double)INFINITY;
                v[test_below(&r, c.t[j].count)] = (double)NAN;
            }
            test_scatter(&c.t[j], v);
            free(v);
        }
        naive_compute_expected(&c);
        run_all(&c, NULL, 1, "infinities and NaN");
        naive_free(&c);
    }
}

int main(void)
{
    test_begin("test_reals");
    part_ends();
    part_special();
    part_long();
    return test_end();
}
