/* test_groupnorm.c - group norm and its gradients: definition, finite differences, exact data, |mean| >>
   deviation
   SPDX-License-Identifier: MIT

   Against the definition each element may be off by half a unit of its stored type and, before that
   rounding, by a fraction of the tensor's largest value that f32 (f64) arithmetic explains. */
#define _POSIX_C_SOURCE 200809L
#include "naive_groupnorm.h"

static long executed[512];
static ckconv_device devices[3];
static int device_count;

static const ckconv_layout layouts[4] = {CKCONV_NHWGC, CKCONV_GNHWC, CKCONV_NGCHW, CKCONV_STRIDED};

static void set_place(ckconv_tensor *t, const ckconv_groupnorm_desc *d, ckconv_layout layout, test_rng *r)
{
    const int64_t length[6] = {d->g, d->n, d->c, d->input[0], d->input[1], d->input[2]};
    t->layout = layout;
    if (layout == CKCONV_STRIDED) {
        test_gap_strides(r, d->ndim, length, t->stride);
    }
}

/* What an error `shift` of every xhat does to a tensor: gamma * shift in y, about as much of dx, and through
   the sum of |dy| to dgamma. */
static double shift_slack(const norm_case *c, int which, double shift, double largest)
{
    const test_tensor *t = &c->t[NORM_Y];
    double sum = 0.0;
    if (shift == 0.0 || (which != NORM_DGAMMA && which != NORM_DBETA)) {
        return shift * 4.0 * largest;
    }
    double *dy = test_doubles(t->count);
    test_gather(t, dy);
    for (int64_t i = 0; i < t->count; i++) {
        sum += fabs(dy[i]);
    }
    free(dy);
    return shift * 2.0 * sum / (double)(c->g * c->c); /* of a channel: no less than that of one image */
}

/* All written tensors: |got - expect| <= fraction * largest + what `shift` does, then one rounding to the
   stored type. */
static void compare(const norm_case *c, double fraction, double shift, const char *what)
{
    for (int i = 0; i < NORM_TENSORS; i++) {
        const test_tensor *t = &c->t[i];
        double largest = 0.0;
        int64_t bad = -1;
        if (!norm_is_written(c, i)) {
            continue;
        }
        for (int64_t j = 0; j < t->count; j++) {
            largest = fmax(largest, fabs(c->expect[i][j]));
        }
        const double slack = fraction * largest + shift_slack(c, i, shift, largest);
        for (int64_t j = 0; j < t->count && bad < 0; j++) {
            const double least = test_round(t->dtype, c->expect[i][j] - slack);
            const double most = test_round(t->dtype, c->expect[i][j] + slack);
            bad = c->got[i][j] >= least && c->got[i][j] <= most ? -1 : j;
        }
        if (bad < 0) {
            CHECK(1);
            continue;
        }
        char place[96];
        test_place(t, bad, place, sizeof place);
        CHECK_MSG(0, "%s: %s (%s) is %.9g, expected %.9g, %.3g of the largest", what, norm_name(i), place,
                  c->got[i][bad], c->expect[i][bad], fabs(c->got[i][bad] - c->expect[i][bad]) / largest);
    }
}

/* The reference, and on every set of CPU features every instance and the plan without workspace. */
static void run_shifted(norm_case *c, double fraction, double shift, const char *what)
{
    for (int i = 0; i <= device_count; i++) {
        ckconv_plan base;
        ckconv_plan plan;
        ckconv_options options;
        ckconv_error err;
        memset(&options, 0, sizeof options);
        options.engine = i == device_count ? CKCONV_ENGINE_REF : test_engine();
        options.threads = c->t[NORM_X].count > 20000 ? 2 : 1;
        if (!norm_plan(c, &base, &options, i < device_count ? &devices[i] : NULL)) {
            continue;
        }
        plan = base;
        int32_t index = 0;
        do {
            if (norm_run(c, &plan)) {
                compare(c, fraction, shift, what);
                executed[plan.instance]++;
            }
        } while (i < device_count && test_next_plan(&base, 0, &index, &plan));
        options.max_workspace = -1;
        test.plan = &base;
        if (CHECK_OK(ckconv_plan_again(&plan, &base, &options, &err), err) && plan.workspace_bytes != 0) {
            CHECK_MSG(0, "max_workspace -1 plans %lld bytes", (long long)plan.workspace_bytes);
        } else if (norm_run(c, &plan)) {
            compare(c, fraction, shift, what);
        }
    }
}

static void run_everywhere(norm_case *c, double fraction, const char *what)
{
    run_shifted(c, fraction, 0.0, what);
}

static void fill_reals(norm_case *c, uint64_t seed, double mean, double deviation)
{
    test_rng r = test_seed(seed);
    naive_fill_normal(&c->t[NORM_X], &r, mean, deviation);
    naive_fill_normal(&c->t[NORM_Y], &r, 0.2, 1.0);
    naive_fill_normal(&c->t[NORM_GAMMA], &r, 1.0, 0.5);
    naive_fill_normal(&c->t[NORM_BETA], &r, 0.1, 0.5);
    c->close = 1e-5;
    norm_compute_expected(c);
}

/*------------------------------------------------------------------------------------------------------------
  against the definition
*/
typedef struct norm_types {
    ckconv_dtype in, out, din, param;
} norm_types;

static const norm_types types[] = {
    {CKCONV_F32, CKCONV_F32, CKCONV_F32, CKCONV_F32},    {CKCONV_F64, CKCONV_F64, CKCONV_F64, CKCONV_F64},
    {CKCONV_F16, CKCONV_F16, CKCONV_F16, CKCONV_F16},    {CKCONV_BF16, CKCONV_BF16, CKCONV_BF16, CKCONV_BF16},
    {CKCONV_BF16, CKCONV_BF16, CKCONV_BF16, CKCONV_F32}, {CKCONV_F16, CKCONV_F16, CKCONV_F16, CKCONV_F32},
    {CKCONV_F16, CKCONV_F32, CKCONV_F16, CKCONV_BF16},   {CKCONV_F32, CKCONV_BF16, CKCONV_F16, CKCONV_F16},
};
#define TYPES ((int)(sizeof types / sizeof types[0]))

static const int64_t shapes[][7] = {
    /* ndim g n c spatial */
    {2, 4, 2, 3, 5, 7, 0},    {1, 1, 3, 17, 29, 0, 0}, {3, 3, 2, 5, 2, 3, 4},   {2, 8, 1, 1, 6, 5, 0},
    {2, 2, 3, 33, 1, 1, 0},   {1, 5, 2, 1, 1, 0, 0},   {2, 1, 1, 40, 9, 13, 0}, {1, 16, 4, 2, 50, 0, 0},
    {2, 32, 2, 4, 14, 15, 0}, {3, 1, 2, 1, 7, 9, 11},
};
#define SHAPES ((int)(sizeof shapes / sizeof shapes[0]))

static void set_shape(ckconv_groupnorm_desc *d, const int64_t *shape)
{
    memset(d, 0, sizeof *d);
    d->ndim = (int32_t)shape[0];
    d->g = shape[1];
    d->n = shape[2];
    d->c = shape[3];
    for (int i = 0; i < (int)d->ndim; i++) {
        d->input[i] = shape[4 + i];
    }
    d->eps = 1e-5;
}

static double fraction_of(ckconv_dtype in)
{
    return in == CKCONV_F64 ? 1e-13 : 2e-6;
}

/* Every shape x type x activation x pass; layouts, arguments given, outputs wanted and parameters for each
   image rotate. */
static void part_definition(void)
{
    /* an effort of 0 takes every seventh: no factor of what is crossed */
    for (int i = 0; i < SHAPES * TYPES * NORM_ACTS * 2; i += test_effort() == 0 ? 7 : 1) {
        ckconv_groupnorm_desc d;
        norm_case c;
        test_rng r = test_seed((uint64_t)i + 1);
        const norm_types *t = &types[i / 2 % TYPES];
        set_shape(&d, shapes[i / 2 / TYPES % SHAPES]);
        d.act = norm_acts[i / 2 / TYPES / SHAPES].act;
        d.param_per_image = (int32_t)test_below(&r, 2);
        d.in.dtype = t->in;
        d.out.dtype = t->out;
        d.din.dtype = t->din;
        d.param_dtype = t->param;
        set_place(&d.in, &d, layouts[test_below(&r, 4)], &r);
        set_place(&d.out, &d, layouts[test_below(&r, 4)], &r);
        set_place(&d.din, &d, layouts[test_below(&r, 4)], &r);
        int flags = (int)test_below(&r, 128);
        if ((flags & (NORM_WANTS_DX | NORM_WANTS_DGAMMA | NORM_WANTS_DBETA)) == 0) {
            flags |= NORM_WANTS_DX;
        }
        norm_make(&c, i % 2 == 0 ? CKCONV_GROUPNORM_FWD : CKCONV_GROUPNORM_BWD, &d, flags, (size_t)(i % 3));
        fill_reals(&c, (uint64_t)i, 0.5, 1.5);
        run_everywhere(&c, fraction_of(t->in), "definition");
        norm_free(&c);
    }
}

/* All subsets of outputs and of optional arguments, in all layouts of one shape. */
static void part_subsets(void)
{
    for (int i = 0; i < 128 * 4; i += test_effort() == 0 ? 5 : 1) {
        const int flags = i % 128;
        const int backward = (flags & (NORM_WANTS_DX | NORM_WANTS_DGAMMA | NORM_WANTS_DBETA)) != 0;
        for (int j = 0; j < 1 + backward; j++) {
            ckconv_groupnorm_desc d;
            norm_case c;
            test_rng r = test_seed((uint64_t)i + 9);
            set_shape(&d, shapes[0]);
            d.act = norm_acts[(i / 128 + flags) % NORM_ACTS].act;
            d.param_per_image = (i + flags / 3) % 2;
            set_place(&d.in, &d, layouts[i / 128], &r);
            norm_make(&c, j == 0 ? CKCONV_GROUPNORM_FWD : CKCONV_GROUPNORM_BWD, &d, flags, 0);
            fill_reals(&c, (uint64_t)i, 0.5, 1.5);
            run_everywhere(&c, fraction_of(CKCONV_F32), "subset");
            norm_free(&c);
        }
    }
}

/* Larger slabs than fit into caches and odd everywhere, both orders of memory. */
static void part_large(void)
{
    static const int64_t large[][7] = {
        {2, 3, 2, 37, 61, 59, 0}, {2, 32, 1, 8, 57, 55, 0}, {1, 1, 3, 1, 100003, 0, 0},
        {2, 2, 1, 700, 3, 3, 0},  {3, 2, 2, 5, 17, 19, 23}, {2, 1, 40, 6, 9, 9, 0},
        {1, 3, 70, 4, 9, 0, 0},   {1, 2, 2, 1100, 3, 0, 0},
    };
    for (int i = 0; i < 8 * 2 * 4; i += test_effort() == 0 ? 5 : 1) {
        ckconv_groupnorm_desc d;
        norm_case c;
        test_rng r = test_seed((uint64_t)i + 50);
        set_shape(&d, large[i / 8]);
        d.in.dtype = types[i % 4].in;
        d.act = norm_acts[i % NORM_ACTS].act;
        d.param_per_image = i / 3 % 2;
        set_place(&d.in, &d, layouts[(i / 2 + i) % 4], &r);
        norm_make(&c, i % 2 == 0 ? CKCONV_GROUPNORM_FWD : CKCONV_GROUPNORM_BWD, &d,
                  NORM_ALL & ~(i & NORM_HAS_STATS), 0);
        fill_reals(&c, (uint64_t)i, -0.3, 2.0);
        run_everywhere(&c, fraction_of(d.in.dtype), "large");
        norm_free(&c);
    }
}

/* Slabs that several blocks of a GPU share, two to eight of them: groups of whole eights of channels and
   narrower ones, which share a block, rows of whole eights and odd ones; some fill the LDS of eight blocks
   and more. Statistics are computed, and backward saved ones read too. */
static void part_shared(void)
{
    static const int64_t shared[][7] = {
        {2, 4, 1, 16, 40, 40, 0},   {2, 4, 1, 10, 60, 60, 0},  {2, 32, 1, 10, 32, 32, 0},
        {2, 3, 2, 8, 41, 43, 0},    {2, 32, 1, 4, 64, 64, 0},  {2, 1, 2, 16, 64, 64, 0},
        {2, 2, 1, 7, 93, 91, 0},    {2, 1, 1, 8, 130, 136, 0}, {2, 1, 1, 16, 130, 136, 0},
        {1, 2, 1, 1, 215040, 0, 0}, {2, 16, 2, 32, 2, 2, 0},   {2, 8, 2, 35, 8, 8, 0},
        {2, 2, 2, 252, 5, 5, 0},    {2, 2, 2, 128, 12, 12, 0},
    };
    enum { COUNT = sizeof shared / sizeof shared[0] };
    static const ckconv_dtype dtypes[] = {CKCONV_F16, CKCONV_BF16, CKCONV_F32};
    /* a fifth shares no factor with shapes, types, layouts and passes */
    for (int i = 0; i < COUNT * 3 * 2 * 3; i += test_variable("CKCONV_TEST_QUICK") ? 5 : 1) {
        ckconv_groupnorm_desc d;
        norm_case c;
        const int saved = i / COUNT / 6 == 2;
        set_shape(&d, shared[i % COUNT]);
        d.in.dtype = dtypes[i / COUNT % 3];
        d.in.layout = d.out.layout = d.din.layout = i / COUNT / 3 % 2 ? CKCONV_NGCHW : CKCONV_NHWGC;
        d.act = norm_acts[(i + i / NORM_ACTS) % NORM_ACTS].act;
        d.param_per_image = i / 2 % 2;
        norm_make(&c, i / COUNT / 6 ? CKCONV_GROUPNORM_BWD : CKCONV_GROUPNORM_FWD, &d,
                  saved ? NORM_ALL : NORM_ALL & ~NORM_HAS_STATS, 0);
        fill_reals(&c, (uint64_t)i + 7, 0.4, 1.5);
        /* of two dgamma, each a sum of 2^18 numbers of either sign, the larger may be small */
        run_everywhere(&c, fraction_of(d.in.dtype) * (d.c == 1 ? 4 : 1), "shared");
        norm_free(&c);
    }
}

/* Channels first, planes that are no whole eights: GPUs take the channels of a group as one row where it is
   whole eights, up to 2048 channels, in one block or in several. Eight numbers are of one channel or of two.
   Pointers in the middle of 16 bytes, gaps and groups of other lengths have no such row; nor has f64. */
static void part_joined(void)
{
    static const int64_t joined[][7] = {
        {2, 3, 2, 2, 14, 14, 0},    {2, 2, 3, 8, 7, 7, 0},    {2, 2, 2, 64, 7, 7, 0},
        {2, 5, 2, 16, 14, 14, 0},   {2, 1, 2, 4, 14, 14, 0},  {1, 3, 2, 32, 9, 0, 0},
        {2, 2, 1, 24, 5, 7, 0},     {2, 1, 1, 2, 94, 90, 0},  {2, 1, 2, 64, 31, 33, 0},
        {1, 1, 1, 2048, 11, 0, 0},  {1, 2, 1, 2056, 9, 0, 0}, {2, 2, 2, 7, 7, 7, 0},
        {3, 2, 1, 16, 3, 5, 7},     {2, 2, 2, 40, 3, 2, 0},   {2, 1, 2, 8, 3, 13, 0},
        {1, 1, 1, 4, 215042, 0, 0},
    };
    static const norm_types some[] = {
        {CKCONV_F16, CKCONV_F16, CKCONV_F16, CKCONV_F16},
        {CKCONV_BF16, CKCONV_BF16, CKCONV_BF16, CKCONV_F32},
        {CKCONV_F32, CKCONV_F32, CKCONV_F32, CKCONV_F32},
        {CKCONV_BF16, CKCONV_BF16, CKCONV_BF16, CKCONV_BF16},
        {CKCONV_F16, CKCONV_F32, CKCONV_F16, CKCONV_BF16},
        {CKCONV_F64, CKCONV_F64, CKCONV_F64, CKCONV_F64},
    };
    enum { JOINED = sizeof joined / sizeof joined[0], SOME = sizeof some / sizeof some[0] };
    /* a seventh shares no factor with shapes, types and activations */
    for (int i = 0; i < JOINED * SOME * NORM_ACTS; i += test_effort() == 0 ? 7 : 1) {
        ckconv_groupnorm_desc d;
        norm_case c;
        test_rng r = test_seed((uint64_t)i + 170);
        const norm_types *t = &some[i / JOINED % SOME];
        const int odd = i / 2 % 8; /* 6: pointers, 7: a tensor with gaps */
        set_shape(&d, joined[i % JOINED]);
        d.act = norm_acts[i / JOINED / SOME].act;
        d.param_per_image = (int32_t)test_below(&r, 2);
        d.in.dtype = t->in;
        d.out.dtype = t->out;
        d.param_dtype = t->param;
        d.in.layout = d.out.layout = CKCONV_NGCHW;
        if (odd == 7) {
            set_place(i % 2 ? &d.in : &d.out, &d, CKCONV_STRIDED, &r);
        }
        const int flags = (int)test_below(&r, 128) & ~(NORM_WANTS_DX | NORM_WANTS_DGAMMA | NORM_WANTS_DBETA);
        norm_make(&c, CKCONV_GROUPNORM_FWD, &d, flags | (i % 3 ? NORM_HAS_GAMMA | NORM_HAS_BETA : 0),
                  odd == 6);
        fill_reals(&c, (uint64_t)i + 11, -0.4, 1.5);
        run_everywhere(&c, fraction_of(d.in.dtype), "joined");
        norm_free(&c);
    }
}

/*------------------------------------------------------------------------------------------------------------
  |mean| >> deviation, constant groups
*/
static void part_mean(void)
{
    static const double means[5] = {100.0, -1000.0, 10000.0, 100000.0, 1e6};
    for (int i = 0; i < 5 * 3 * 2 * 2; i++) {
        ckconv_groupnorm_desc d;
        norm_case c;
        test_rng r = test_seed((uint64_t)i + 70);
        const double mean = means[i % 5];
        const int wide = i / 30 != 0;
        set_shape(&d, i / 10 % 3 == 0 ? shapes[8] : i / 10 % 3 == 1 ? shapes[6] : shapes[2]);
        d.in.dtype = wide ? CKCONV_F64 : CKCONV_F32;
        set_place(&d.in, &d, layouts[i % 3], &r);
        norm_make(&c, i / 5 % 2 == 0 ? CKCONV_GROUPNORM_FWD : CKCONV_GROUPNORM_BWD, &d,
                  NORM_ALL & ~NORM_HAS_STATS, 0);
        fill_reals(&c, (uint64_t)i, mean, 1.0);
        /* the mean, rounded to f32 and subtracted, shifts xhat by |mean| * u; a few such roundings are
           allowed, in f64 those of a plain sum. Squares of means would cost mean^2 * u instead. */
        const double roundings = wide ? sqrt((double)(c.c * c.spatial)) + 6.0 : 6.0;
        const double unit = wide ? 0.5 * DBL_EPSILON : 0.5 * (double)FLT_EPSILON;
        run_shifted(&c, fraction_of(d.in.dtype), roundings * fabs(mean) * unit, "mean far from zero");
        norm_free(&c);
    }
    for (int i = 0; i < 4 * 2; i++) { /* no deviation at all: y = beta, dx as eps dictates */
        ckconv_groupnorm_desc d;
        norm_case c;
        test_rng r = test_seed((uint64_t)i + 90);
        set_shape(&d, shapes[i / 2 % 2 == 0 ? 0 : 7]);
        d.eps = 1e-3;
        norm_make(&c, i % 2 == 0 ? CKCONV_GROUPNORM_FWD : CKCONV_GROUPNORM_BWD, &d,
                  NORM_ALL & ~NORM_HAS_STATS, 0);
        fill_reals(&c, (uint64_t)i, i / 4 == 0 ? 3.0 : 0.0, 0.0);
        naive_fill_normal(&c.t[NORM_Y], &r, 0.0, 1.0);
        norm_compute_expected(&c);
        run_everywhere(&c, fraction_of(CKCONV_F32), "constant group");
        norm_free(&c);
    }
    for (int i = 0; i < 8; i++) { /* f32 holds x, dy and what is written, but no sum of x * dy */
        ckconv_groupnorm_desc d;
        norm_case c;
        test_rng r = test_seed((uint64_t)i + 98);
        static const int64_t shape[7] = {2, 4, 2, 8, 16, 16, 0};
        set_shape(&d, shape);
        d.in.layout = d.out.layout = d.din.layout = i % 2 ? CKCONV_NGCHW : CKCONV_NHWGC;
        d.act = i / 4 ? CKCONV_SILU : CKCONV_PASS;
        norm_make(&c, i / 2 % 2 == 0 ? CKCONV_GROUPNORM_FWD : CKCONV_GROUPNORM_BWD, &d,
                  NORM_ALL & ~NORM_HAS_STATS, 0);
        fill_reals(&c, (uint64_t)i, 0.0, 1e30);
        naive_fill_normal(&c.t[NORM_Y], &r, 0.0, 1e9);
        norm_compute_expected(&c);
        run_everywhere(&c, fraction_of(CKCONV_F32), "huge");
        norm_free(&c);
    }
}

/* Saved means, rounded to f32 (f64), of numbers that lie close together far from 0: what rounding took is far
   more of a deviation than xhat may be off. Each engine has its own way to it, which follows from the layout,
   from what is wanted, and from how many blocks share a slab: all, dx alone, parameters alone. */
static void part_saved(void)
{
    static const int64_t saved[][7] = {
        {1, 1, 1, 1, 8, 0, 0},   {2, 3, 2, 5, 7, 6, 0},   {2, 2, 1, 16, 24, 24, 0}, {2, 8, 1, 4, 14, 15, 0},
        {2, 1, 1, 2, 94, 91, 0}, {2, 1, 1, 8, 48, 48, 0}, {3, 2, 1, 2, 5, 6, 7},
    };
    static const struct {
        ckconv_dtype dtype;
        double mean, deviation;
    } numbers[] = {
        {CKCONV_F32, 10000.0, 0.01}, {CKCONV_F32, -100.0, 0.01}, {CKCONV_F16, 1000.0, 2.0},
        {CKCONV_BF16, -300.0, 4.0},  {CKCONV_F64, 1e6, 1e-6},    {CKCONV_F32, 12.0, 1.0},
    };
    static const int wanted[3] = {NORM_ALL, NORM_ALL & ~(NORM_WANTS_DGAMMA | NORM_WANTS_DBETA),
                                  NORM_ALL & ~NORM_WANTS_DX};
    enum { SAVED = sizeof saved / sizeof saved[0], NUMBERS = sizeof numbers / sizeof numbers[0] };
    for (int i = 0; i < SAVED * NUMBERS * NORM_ACTS * 3; i += test_effort() == 0 ? 11 : 1) {
        ckconv_groupnorm_desc d;
        norm_case c;
        test_rng r = test_seed((uint64_t)i + 130);
        const int which = i / SAVED % NUMBERS;
        set_shape(&d, saved[i % SAVED]);
        d.eps = 1e-14;
        d.in.dtype = numbers[which].dtype;
        d.act = norm_acts[i / SAVED / NUMBERS % NORM_ACTS].act;
        d.param_per_image = i / 2 % 2;
        set_place(&d.in, &d, layouts[(i / SAVED / NUMBERS / NORM_ACTS + i) % 4], &r);
        norm_make(&c, CKCONV_GROUPNORM_BWD, &d, wanted[(i + which) % 3], 0);
        fill_reals(&c, (uint64_t)i, numbers[which].mean, numbers[which].deviation);
        /* gradients of few numbers cancel: the terms that dx is a difference of are inv_std; and of two
           dgamma, each a sum of 8554 numbers of either sign, the larger may be small */
        const double loose = c.c * c.spatial < 100 || (c.c == 2 && c.spatial > 5000) ? 4.0 : 1.0;
        run_everywhere(&c, fraction_of(d.in.dtype) * loose, "saved mean");
        norm_free(&c);
    }
    /* eight numbers, and what their saved mean, rounded, must not make of dgamma (-0.991) */
    ckconv_groupnorm_desc d;
    norm_case c;
    double x[8], dy[8];
    set_shape(&d, saved[0]);
    norm_make(&c, CKCONV_GROUPNORM_BWD, &d, NORM_ALL & ~(NORM_HAS_GAMMA | NORM_HAS_BETA), 0);
    for (int i = 0; i < 8; i++) {
        x[i] = 10000.0 + i % 3 * 0.0078125 + (i == 5 ? 0.0029296875 : 0.0);
        dy[i] = i < 4 ? 1.0 : -0.5;
    }
    test_scatter(&c.t[NORM_X], x);
    test_scatter(&c.t[NORM_Y], dy);
    norm_compute_expected(&c);
    CHECK_MSG(fabs(c.expect[NORM_DGAMMA][0] + 1.09064) < 1e-5, "dgamma is %g", c.expect[NORM_DGAMMA][0]);
    run_everywhere(&c, fraction_of(CKCONV_F32), "eight numbers");
    norm_free(&c);
}

/* Equal numbers have that number as their mean, exactly: y is beta, however small eps is. */
static void part_constant(void)
{
    static const ckconv_dtype dtypes[] = {CKCONV_F64, CKCONV_F32, CKCONV_F16, CKCONV_BF16};
    static const int64_t constant[][7] = {
        {1, 1, 1, 8, 256, 0, 0}, {2, 3, 2, 5, 7, 6, 0}, {2, 2, 1, 16, 24, 24, 0}, {2, 1, 1, 2, 94, 91, 0}};
    static const double epsilons[3] = {1e-40, 1e-30, 1e-12};
    for (int i = 0; i < 4 * 4 * 3 * 3; i++) {
        ckconv_groupnorm_desc d;
        norm_case c;
        test_rng r = test_seed((uint64_t)i + 150);
        set_shape(&d, constant[i / 4 % 4]);
        d.eps = epsilons[i / 16 % 3];
        d.in.dtype = dtypes[i % 4];
        set_place(&d.in, &d, layouts[i / 48], &r);
        norm_make(&c, CKCONV_GROUPNORM_FWD, &d, NORM_ALL & ~NORM_WANTS_STATS, 0);
        fill_reals(&c, (uint64_t)i, 0.0, 1.0);
        double *x = test_doubles(c.t[NORM_X].count);
        const int64_t m = c.c * c.spatial;
        for (int64_t j = 0; j < c.t[NORM_X].count; j++) {
            x[j] = i / 16 % 3 == 1 ? 0.1 : 3.14159 + 107.0 * (double)(j / m);
        }
        test_scatter(&c.t[NORM_X], x);
        free(x);
        norm_compute_expected(&c);
        run_everywhere(&c, 0.0, "equal numbers");
        norm_free(&c);
    }
}

/* Activations far from 0: gradients of sigmoid that are all small, and silu where e^-v is infinite. */
static void part_far(void)
{
    for (int i = 0; i < 8; i++) {
        ckconv_groupnorm_desc d;
        norm_case c;
        static const int64_t shape[7] = {2, 4, 2, 8, 16, 16, 0};
        const int small = i / 2 % 2;
        set_shape(&d, shape);
        d.in.layout = d.out.layout = d.din.layout = i % 2 ? CKCONV_NGCHW : CKCONV_NHWGC;
        d.act = small || i / 4 ? CKCONV_SIGMOID : CKCONV_SILU;
        norm_make(&c, CKCONV_GROUPNORM_BWD, &d, NORM_ALL & ~(i / 4 ? NORM_HAS_STATS : 0), 0);
        fill_reals(&c, (uint64_t)i, 0.2, 1.5);
        double *beta = test_doubles(c.t[NORM_BETA].count);
        for (int64_t j = 0; j < c.t[NORM_BETA].count; j++) {
            beta[j] = small ? 20.0 : j % 2 == 0 ? 0.0 : -200.0;
        }
        test_scatter(&c.t[NORM_BETA], beta);
        free(beta);
        norm_compute_expected(&c);
        run_everywhere(&c, fraction_of(CKCONV_F32), "far activation");
        norm_free(&c);
    }
}

/*------------------------------------------------------------------------------------------------------------
  exact: x = m +- 1 in equal numbers, eps = 3, so that inv_std is 1/2; a power of two of elements
*/
static void part_exact(void)
{
    static const ckconv_dtype exact_types[4] = {CKCONV_F32, CKCONV_F16, CKCONV_BF16, CKCONV_F64};
    static const int64_t exact_shapes[3][7] = {
        {2, 3, 2, 8, 8, 4, 0}, {1, 2, 3, 1, 64, 0, 0}, {2, 1, 2, 32, 4, 1, 0}};
    for (int i = 0; i < 4 * 3 * 3 * 2 * 2; i++) {
        ckconv_groupnorm_desc d;
        norm_case c;
        test_rng r = test_seed((uint64_t)i + 110);
        set_shape(&d, exact_shapes[i / 4 % 3]);
        d.eps = 3.0;
        d.in.dtype = exact_types[i % 4];
        set_place(&d.in, &d, layouts[i / 12 % 3], &r);
        d.act = i / 72 ? CKCONV_RELU : CKCONV_PASS; /* many of its arguments are 0 */
        d.param_per_image = i / 2 % 2;
        norm_make(&c, i / 36 % 2 == 0 ? CKCONV_GROUPNORM_FWD : CKCONV_GROUPNORM_BWD, &d,
                  NORM_ALL & ~(i & NORM_HAS_STATS), 0);
        const int64_t m = c.c * c.spatial;
        double *x = test_doubles(c.t[NORM_X].count);
        for (int64_t j = 0; j < c.t[NORM_X].count; j++) {
            x[j] = (double)(j / m % 7 * 8 - 16) + (j % 2 == 0 ? 1.0 : -1.0);
        }
        for (int64_t j = 0; j < c.t[NORM_X].count; j++) { /* shuffle within the group */
            const int64_t k = j / m * m + test_below(&r, m);
            const double swap = x[j];
            x[j] = x[k];
            x[k] = swap;
        }
        test_scatter(&c.t[NORM_X], x);
        free(x);
        naive_fill_integers(&c.t[NORM_Y], &r, -4, 4);
        naive_fill_integers(&c.t[NORM_GAMMA], &r, -2, 2);
        naive_fill_integers(&c.t[NORM_BETA], &r, -3, 3);
        norm_compute_expected(&c);
        run_everywhere(&c, 0.0, "exact");
        norm_free(&c);
    }
}

/*------------------------------------------------------------------------------------------------------------
  finite differences: the gradients against the library's own forward pass in f64
*/

/* sum of dy * y after a forward run */
static double loss(norm_case *forward, const ckconv_plan *plan, const double *dy)
{
    double sum = 0.0;
    if (norm_run(forward, plan)) {
        for (int64_t i = 0; i < forward->t[NORM_Y].count; i++) {
            sum += dy[i] * forward->got[NORM_Y][i];
        }
    }
    return sum;
}

static void check_slope(norm_case *forward, const ckconv_plan *plan, int which, int64_t at, const double *dy,
                        double slope, const char *name)
{
    const double step = 1e-5;
    test_tensor *t = &forward->t[which];
    double *v = test_doubles(t->count);
    test_gather(t, v);
    const double middle = v[at];
    v[at] = middle + step;
    test_scatter(t, v);
    const double above = loss(forward, plan, dy);
    v[at] = middle - step;
    test_scatter(t, v);
    const double below = loss(forward, plan, dy);
    v[at] = middle;
    test_scatter(t, v);
    const double estimate = (above - below) / (2.0 * step);
    /* the third derivative times step^2, and the rounding of the loss over the step, are both below 1e-8
       here */
    CHECK_MSG(fabs(estimate - slope) <= 1e-7 * (1.0 + fabs(slope)),
              "%s[%lld] is %.12g, finite difference %.12g", name, (long long)at, slope, estimate);
    free(v);
}

static void part_differences(void)
{
    static const int64_t small[4][7] = {
        {2, 2, 2, 3, 3, 4, 0}, {1, 3, 2, 1, 6, 0, 0}, {3, 1, 2, 4, 2, 2, 3}, {1, 2, 3, 5, 1, 0, 0}};
    for (int i = 0; i < 4 * NORM_ACTS * 2; i++) {
        ckconv_groupnorm_desc d;
        norm_case forward;
        norm_case backward;
        ckconv_plan plan;
        ckconv_options options;
        set_shape(&d, small[i % 4]);
        d.act = norm_acts[i / 4 % NORM_ACTS].act;
        d.param_per_image = i % 2;
        d.in.dtype = CKCONV_F64;
        d.in.layout = layouts[i % 3];
        memset(&options, 0, sizeof options);
        options.engine = i / 4 / NORM_ACTS == 0 ? test_engine() : CKCONV_ENGINE_REF;
        norm_make(&forward, CKCONV_GROUPNORM_FWD, &d, NORM_HAS_GAMMA | NORM_HAS_BETA, 0);
        norm_make(&backward, CKCONV_GROUPNORM_BWD, &d, NORM_ALL & ~NORM_HAS_STATS, 0);
        fill_reals(&forward, (uint64_t)i, 0.3, 1.0);
        fill_reals(&backward, (uint64_t)i, 0.3, 1.0);
        double *dy = test_doubles(backward.t[NORM_Y].count);
        test_gather(&backward.t[NORM_Y], dy);
        if (norm_plan(&backward, &plan, &options, NULL) && norm_run(&backward, &plan) &&
            norm_plan(&forward, &plan, &options, NULL)) {
            for (int64_t j = 0; j < forward.t[NORM_X].count; j++) {
                check_slope(&forward, &plan, NORM_X, j, dy, backward.got[NORM_DX][j], "dx");
            }
            for (int64_t j = 0; j < forward.t[NORM_GAMMA].count; j++) {
                check_slope(&forward, &plan, NORM_GAMMA, j, dy, backward.got[NORM_DGAMMA][j], "dgamma");
                check_slope(&forward, &plan, NORM_BETA, j, dy, backward.got[NORM_DBETA][j], "dbeta");
            }
        }
        free(dy);
        norm_free(&forward);
        norm_free(&backward);
    }
}

/* N = 0: parameter gradients are zero, tensors without elements need no memory. */
static void part_empty(void)
{
    for (int i = 0; i < 8; i++) {
        ckconv_groupnorm_desc d;
        norm_case c;
        set_shape(&d, shapes[i / 2]);
        d.n = 0;
        d.param_per_image = i / 4;
        d.in.dtype = i % 3 == 0 ? CKCONV_BF16 : CKCONV_F32;
        norm_make(&c, i % 2 == 0 ? CKCONV_GROUPNORM_FWD : CKCONV_GROUPNORM_BWD, &d, NORM_ALL, 0);
        fill_reals(&c, 1, 0.0, 1.0);
        run_everywhere(&c, 0.0, "N = 0");
        norm_free(&c);
    }
}

/* "values": without what is about shapes and arguments */
int main(int argc, char **argv)
{
    const int values = argc > 1 && strcmp(argv[1], "values") == 0;
    test_begin("test_groupnorm");
    device_count = test_cpu_devices(devices);
    part_definition();
    part_saved();
    part_constant();
    part_far();
    if (values) {
        return test_end();
    }
    part_subsets();
    part_large();
    part_shared();
    part_joined();
    part_mean();
    part_exact();
    part_differences();
    part_empty();
    test.plan = NULL;
    for (int32_t i = 0; i < ckconv_instance_count(); i++) {
        if ((ckconv_instance_does(i, CKCONV_GROUPNORM_FWD) ||
             ckconv_instance_does(i, CKCONV_GROUPNORM_BWD)) &&
            ckconv_instance_engine(i) == test_engine()) {
            CHECK_MSG(executed[i] > 0 || test_needs_other_cpu(i), "nothing executed instance %s",
                      ckconv_instance_name(i));
        }
    }
    return test_end();
}
