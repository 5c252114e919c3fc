/* test_norm_sums.c - group norm's gradients as long sums: their error does not grow with their length
   SPDX-License-Identifier: MIT

   x is 1 and -1 in turns, so that xhat is x. dy, or dy * x, is 2^24 once and `small` elsewhere, and so are
   the products that dbeta, or dgamma, adds up. A number of f32 that has reached 2^24 takes no single 1: a
   plain sum loses as many as it meets. At most `chain` of them, u * T each (u = 2^-24, T the sum of the
   products), may be lost. Where positions are few, two halves make the 1 of a batch entry. */
#include "naive_groupnorm.h"

enum {
    CHAIN = 1024,  /* products that may be added one after the other (gpu/args.h, CKCI_NORM_CHAIN) */
    ROUNDINGS = 64 /* of sums of sums: threads of a block, parts, batch entries */
};

static const struct {
    ckconv_layout layout;
    int64_t n, c, length[2]; /* simulator or not */
    double small, chain;
} rows[] = {
    {CKCONV_NHWGC, 1, 64, {130000, 200000}, 1.0, CHAIN}, {CKCONV_NGCHW, 1, 64, {130000, 200000}, 1.0, CHAIN},
    {CKCONV_NHWGC, 1, 3, {70000, 1000000}, 1.0, CHAIN},  {CKCONV_NGCHW, 1, 3, {70000, 1000000}, 1.0, CHAIN},
    {CKCONV_NHWGC, 4096, 8, {2, 2}, 0.5, 0.0},           {CKCONV_NGCHW, 4096, 3, {2, 2}, 0.5, 0.0},
};

/* dgamma: dy * x is the step, else dy. */
static void fill(norm_case *c, int dgamma, double small)
{
    double *x = test_doubles(c->t[NORM_X].count), *dy = test_doubles(c->t[NORM_Y].count);
    const int64_t one = c->g * c->c;
    /* in the tensors' logical order, positions are last */
    for (int64_t i = 0; i < c->n * one; i++) {
        for (int64_t j = 0; j < c->spatial; j++) {
            const double product = i < one && j == 0 ? 16777216.0 : small;
            x[i * c->spatial + j] = j % 2 ? -1.0 : 1.0;
            dy[i * c->spatial + j] = dgamma ? product * x[i * c->spatial + j] : product;
        }
    }
    test_scatter(&c->t[NORM_X], x);
    test_scatter(&c->t[NORM_Y], dy);
    free(x);
    free(dy);
    for (int which = NORM_GAMMA; which <= NORM_BETA; which++) {
        double *v = test_doubles(c->t[which].count);
        for (int64_t i = 0; i < c->t[which].count; i++) {
            v[i] = which == NORM_GAMMA ? 1.0 : 0.0;
        }
        test_scatter(&c->t[which], v);
        free(v);
    }
}

static void check(const norm_case *c, int dgamma, double small, double chain, const char *what)
{
    const int which = dgamma ? NORM_DGAMMA : NORM_DBETA;
    const double sum = 16777216.0 + small * (double)(c->n * c->spatial - 1), unit = ldexp(sum, -24);
    double worst = 0.0;
    for (int64_t i = 0; i < c->t[which].count; i++) {
        const double error = fabs(c->got[which][i] - sum) / unit;
        worst = error <= worst ? worst : error;
    }
    CHECK_MSG(worst <= chain + ROUNDINGS, "%s, %s: off by %.0f * 2^-24, %.0f allowed", norm_name(which), what,
              worst, chain + ROUNDINGS);
}

int main(void)
{
    static const int64_t limits[3] = {0, 1024, -1}; /* none, some, no workspace */
    test_begin("test_norm_sums");
    for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        const size_t row = i / 2;
        const int dgamma = (int)(i % 2);
        ckconv_groupnorm_desc d;
        norm_case c;
        memset(&d, 0, sizeof d);
        d.ndim = 1;
        d.n = rows[row].n;
        d.g = 1;
        d.c = rows[row].c;
        d.input[0] = rows[row].length[test_thin() ? 0 : 1];
        d.in.layout = d.out.layout = rows[row].layout;
        d.eps = 1e-12;
        norm_make(&c, CKCONV_GROUPNORM_BWD, &d, NORM_ALL & ~(NORM_HAS_STATS | NORM_WANTS_STATS), 0);
        fill(&c, dgamma, rows[row].small);
        /* without workspace, kernels for any tensors run, which are slow on a simulator */
        for (int j = 0; j < (test_thin() && c.t[NORM_X].count > 1000000 ? 2 : 3); j++) {
            ckconv_plan plan;
            ckconv_options options;
            char text[80];
            memset(&options, 0, sizeof options);
            options.engine = test_engine();
            options.max_workspace = limits[j];
            snprintf(text, sizeof text, "max_workspace %lld", (long long)limits[j]);
            if (norm_plan(&c, &plan, &options, NULL) && norm_run(&c, &plan)) {
                check(&c, dgamma, rows[row].small, rows[row].chain, text);
            }
        }
        norm_free(&c);
    }
    return test_end();
}
