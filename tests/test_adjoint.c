/* test_adjoint.c - <dy, conv(x, w)> = <dx(dy, w), x> = <dw(x, dy), w>: needs no reference at all
   SPDX-License-Identifier: MIT

   The three passes are one trilinear form, so the three inner products are equal; on small integers exactly.
   Shapes are drawn at random, each pass runs on every instance that supports it, in random layouts. */
#define _POSIX_C_SOURCE 200809L
#include "naive.h"

static const ckconv_op passes[3] = {CKCONV_FWD, CKCONV_BWD_DATA, CKCONV_BWD_WEIGHT};

static void random_shape(ckconv_conv_desc *d, test_rng *r)
{
    static const int64_t channels[] = {1, 2, 3, 4, 7, 8, 16, 19, 32, 40};
    memset(d, 0, sizeof *d);
    d->ndim = (int32_t)test_range(r, 1, 3);
    d->n = test_range(r, 1, 3);
    d->c = channels[test_below(r, 10)];
    d->k = channels[test_below(r, 10)];
    d->g = test_range(r, 1, 4);
    if (test_below(r, 3) == 0) { /* depthwise */
        d->g = test_range(r, 1, 40);
        d->c = 1;
        d->k = test_range(r, 1, 2);
    }
    for (int i = 0; i < (int)d->ndim; i++) {
        d->filter[i] = test_range(r, 1, d->ndim == 1 ? 9 : 4);
        d->stride[i] = test_range(r, 1, 4);
        d->dilation[i] = test_range(r, 1, 3);
        d->pad_lo[i] = test_range(r, 0, d->filter[i] + 1);
        d->pad_hi[i] = test_range(r, 0, d->filter[i] + 1);
        const int64_t span = (d->filter[i] - 1) * d->dilation[i] + 1 - d->pad_lo[i] - d->pad_hi[i];
        const int64_t least = span > 1 ? span : 1;
        d->input[i] = least + test_range(r, 0, d->ndim == 1 ? 60 : d->ndim == 2 ? 12 : 5);
    }
}

/* Types in which all three results are exact: in, wei, out; the written tensor of i8 is i32. */
static void set_types(ckconv_conv_desc *d, ckconv_op op, int type)
{
    static const ckconv_dtype same[4] = {CKCONV_F32, CKCONV_F64, CKCONV_F32, CKCONV_I8};
    ckconv_tensor *t[3] = {&d->in, &d->wei, &d->out};
    for (int i = 0; i < 3; i++) {
        t[i]->dtype = same[type];
    }
    if (type == 2) {
        d->compute_in = d->compute_wei = d->compute_out = CKCONV_BF16;
    }
    if (type == 3) {
        t[naive_written(op)]->dtype = CKCONV_I32;
    }
}

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

static double inner(const double *a, const double *b, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += a[i] * b[i]; /* whole numbers below 2^53 */
    }
    return sum;
}

/* The form's value from one pass run with one plan: the written tensor times its own fill. */
static int form(naive_case *c, const ckconv_plan *plan, double *const fill[3], double *value)
{
    const int w = naive_written(c->op);
    if (!naive_run(c, plan)) {
        return 0;
    }
    *value = inner(c->got, fill[w], c->t[w].count);
    return 1;
}

static void run_pass(naive_case *c, double *const fill[3], double *expected, int *has_expected)
{
    ckconv_plan base;
    ckconv_plan plan;
    ckconv_options options;
    double value = 0.0;
    memset(&options, 0, sizeof options);
    options.engine = test_engine();
    options.threads = c->t[0].count % 16 == 0 ? 2 : 1;
    if (!naive_plan(c, &base, &options, NULL)) {
        return;
    }
    plan = base;
    int32_t index = 0;
    do { /* the planner's choice, then each instance; the reference is not needed here, and slow */
        if (form(c, &plan, fill, &value)) {
            if (!*has_expected) {
                *has_expected = 1;
                *expected = value;
            }
            CHECK_MSG(value == *expected, "the trilinear form is %.17g here and %.17g elsewhere", value,
                      *expected);
        }
    } while (test_next_plan(&base, 0, &index, &plan));
}

/* Returns 1 when the form is not zero. */
static int run_problem(uint64_t seed)
{
    test_rng r = test_seed(seed);
    ckconv_conv_desc shape;
    double *fill[3];
    double expected = 0.0;
    int has_expected = 0;
    random_shape(&shape, &r);
    const int type = (int)test_below(&r, 4);
    const int64_t range = type == 3 ? 100 : type == 1 ? 1000 : 5;
    for (int i = 0; i < 3; i++) {
        int64_t length[6];
        int64_t count = 1;
        naive_lengths(&shape, i, length);
        for (int j = 0; j < 3 + (int)shape.ndim; j++) {
            count *= length[j];
        }
        fill[i] = test_doubles(count);
        for (int64_t j = 0; j < count; j++) {
            fill[i][j] = (double)test_range(&r, -range, range);
        }
    }
    for (int i = 0; i < 3; i++) {
        ckconv_conv_desc d = shape;
        naive_case c;
        set_types(&d, passes[i], type);
        set_layouts(&d, &r);
        naive_make(&c, passes[i], &d, 0);
        for (int j = 0; j < 3; j++) {
            if (j != naive_written(passes[i])) {
                test_scatter(&c.t[j], fill[j]);
            }
        }
        run_pass(&c, fill, &expected, &has_expected);
        naive_free(&c);
    }
    for (int i = 0; i < 3; i++) {
        free(fill[i]);
    }
    return expected != 0.0;
}

int main(void)
{
    int telling = 0;
    test_begin("test_adjoint");
    const int count = test_effort() == 0 ? 200 : test_full() ? 20000 : 2000;
    for (int i = 0; i < count; i++) {
        telling += run_problem((uint64_t)i + 1);
    }
    test.plan = NULL;
    CHECK_MSG(telling > count * 9 / 10, "the form is zero in %d of %d problems: they show nothing",
              count - telling, count);
    printf("%d problems, three passes each\n", count);
    return test_end();
}
