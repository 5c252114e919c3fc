/* naive_groupnorm.h - group normalisation and its gradients from the definition, in double
   SPDX-License-Identifier: MIT */
#ifndef CKCONV_NAIVE_GROUPNORM_H
#define CKCONV_NAIVE_GROUPNORM_H

#include "naive.h"

/* The tensors of a group norm by position. y stands for dy in the backward pass. */
enum {
    NORM_X,
    NORM_Y,
    NORM_DX,
    NORM_GAMMA,
    NORM_BETA,
    NORM_MEAN,
    NORM_INV_STD,
    NORM_DGAMMA,
    NORM_DBETA,
    NORM_TENSORS
};

/* Which arguments a run passes. */
enum {
    NORM_HAS_GAMMA = 1,
    NORM_HAS_BETA = 2,
    NORM_WANTS_STATS = 4, /* forward: save them */
    NORM_HAS_STATS = 8,   /* backward: give them */
    NORM_WANTS_DX = 16,
    NORM_WANTS_DGAMMA = 32,
    NORM_WANTS_DBETA = 64,
    NORM_ALL = 127
};

typedef struct norm_case {
    ckconv_op op;
    ckconv_groupnorm_desc desc;
    int64_t g, n, c, spatial;
    int flags;
    double close; /* relu: what is so close to a jump has a gradient of 0; 0: it may have any */
    test_tensor t[NORM_TENSORS];
    double *expect[NORM_TENSORS]; /* of the written ones */
    double *got[NORM_TENSORS];
} norm_case;

static inline const char *norm_name(int which)
{
    static const char *const names[NORM_TENSORS] = {"x",    "y",       "dx",     "gamma", "beta",
                                                    "mean", "inv_std", "dgamma", "dbeta"};
    return names[which];
}

static inline int norm_is_written(const norm_case *c, int which)
{
    if (c->op == CKCONV_GROUPNORM_FWD) {
        return which == NORM_Y ||
               ((which == NORM_MEAN || which == NORM_INV_STD) && (c->flags & NORM_WANTS_STATS));
    }
    return (which == NORM_DX && (c->flags & NORM_WANTS_DX)) ||
           (which == NORM_DGAMMA && (c->flags & NORM_WANTS_DGAMMA)) ||
           (which == NORM_DBETA && (c->flags & NORM_WANTS_DBETA));
}

/* in, out or din: own strides from the layout; out and din take what they leave open from in. */
static inline void norm_tensor_make(norm_case *c, int which, const ckconv_tensor *desc, size_t offset)
{
    const ckconv_tensor *in = &c->desc.in;
    int64_t length[6];
    int64_t stride[6] = {0, 0, 0, 0, 0, 0};
    const ckconv_dtype dtype = desc->dtype != 0 ? desc->dtype : in->dtype != 0 ? in->dtype : CKCONV_F32;
    const ckconv_tensor *place = desc->layout != 0 ? desc : in;
    length[0] = c->g;
    length[1] = c->n;
    length[2] = c->c;
    for (int i = 0; i < (int)c->desc.ndim; i++) {
        length[3 + i] = c->desc.input[i];
    }
    if (place->layout == CKCONV_STRIDED) {
        memcpy(stride, place->stride, sizeof stride);
    } else {
        test_layout_strides(place->layout != 0 ? place->layout : CKCONV_NHWGC, c->desc.ndim, length, stride);
    }
    test_tensor_make(&c->t[which], dtype, 3 + (int)c->desc.ndim, length, stride, offset);
}

static inline void norm_make(norm_case *c, ckconv_op op, const ckconv_groupnorm_desc *desc, int flags,
                             size_t offset)
{
    memset(c, 0, sizeof *c);
    c->op = op;
    c->desc = *desc;
    c->g = desc->g > 0 ? desc->g : 1;
    c->n = desc->n;
    c->c = desc->c;
    c->flags = flags;
    c->spatial = 1;
    for (int i = 0; i < (int)desc->ndim; i++) {
        c->spatial *= desc->input[i];
    }
    norm_tensor_make(c, NORM_X, &desc->in, offset);
    norm_tensor_make(c, NORM_Y, &desc->out, offset);
    norm_tensor_make(c, NORM_DX, &desc->din, offset);
    const ckconv_dtype x = c->t[NORM_X].dtype;
    const int64_t channel[3] = {c->n, c->g, c->c};
    const int64_t channel_stride[3] = {c->g * c->c, c->c, 1};
    const int shared = desc->param_per_image == 0; /* gamma and what is like it: without the first of these */
    const int64_t stat[2] = {c->n, c->g};
    const int64_t stat_stride[2] = {c->g, 1};
    for (int i = NORM_GAMMA; i < NORM_TENSORS; i++) {
        const int is_stat = i == NORM_MEAN || i == NORM_INV_STD;
        const ckconv_dtype param = desc->param_dtype != 0 ? desc->param_dtype : x;
        const ckconv_dtype dtype = !is_stat ? param : x == CKCONV_F64 ? CKCONV_F64 : CKCONV_F32;
        test_tensor_make(&c->t[i], dtype, is_stat || shared ? 2 : 3, is_stat ? stat : channel + shared,
                         is_stat ? stat_stride : channel_stride + shared, offset);
    }
    for (int i = 0; i < NORM_TENSORS; i++) {
        c->expect[i] = test_doubles(c->t[i].count);
        c->got[i] = test_doubles(c->t[i].count);
    }
}

static inline void norm_free(norm_case *c)
{
    for (int i = 0; i < NORM_TENSORS; i++) {
        test_tensor_free(&c->t[i]);
        free(c->expect[i]);
        free(c->got[i]);
    }
    memset(c, 0, sizeof *c);
}

/* Every activation that group norm fuses, and the operation that is its gradient. */
static const struct norm_act {
    ckconv_element act, back;
} norm_acts[] = {
    {CKCONV_PASS, CKCONV_PASS},     {CKCONV_SIGMOID, CKCONV_SIGMOID_BWD}, {CKCONV_SILU, CKCONV_SILU_BWD},
    {CKCONV_RELU, CKCONV_RELU_BWD}, {CKCONV_GELU, CKCONV_GELU_BWD},
};
#define NORM_ACTS ((int)(sizeof norm_acts / sizeof norm_acts[0]))

static inline double norm_activate(ckconv_element act, double z)
{
    ckconv_element_op op;
    memset(&op, 0, sizeof op);
    op.kind = act;
    return naive_element(&op, z, NULL, 0);
}

/* dy times the activation's derivative at z; sigmoid's gradient is written in what it gives. */
static inline double norm_undo(ckconv_element act, double z, double dy)
{
    ckconv_element_op op;
    memset(&op, 0, sizeof op);
    for (int i = 0; i < NORM_ACTS; i++) {
        op.kind = norm_acts[i].act == act ? norm_acts[i].back : op.kind;
    }
    if (act == CKCONV_SIGMOID) {
        z = naive_sigmoid(z);
    }
    return naive_element(&op, dy, &z, 1);
}

/* Packed arrays in logical order [G, N, C, spatial]; gamma and beta always present. */
typedef struct norm_data {
    int64_t g, n, c, spatial;
    double eps;
    ckconv_element act;
    int64_t step; /* of gamma and what is like it, from an n to the next one; 0: all share it */
    const double *x, *gamma, *beta, *dy;
    double *y, *mean, *inv_std; /* mean and inv_std [N, G] */
    double *low;                /* [N, G]: the mean is mean + low, closer than a double can be */
    double *dx, *dgamma, *dbeta;
} norm_data;

static inline void norm_statistics(const norm_data *d)
{
    const int64_t m = d->c * d->spatial;
    for (int64_t g = 0; g < d->g; g++) {
        for (int64_t n = 0; n < d->n; n++) {
            const double *x = d->x + (g * d->n + n) * m;
            double sum = 0.0;
            double rest = 0.0;
            double square = 0.0;
            for (int64_t i = 0; i < m; i++) {
                sum += x[i] - x[0];
            }
            const double more = sum / (double)m;
            volatile double mean = x[0] + more; /* rounded, where registers are wider (x87), too */
            volatile double low = x[0] - mean + more;
            for (int64_t i = 0; i < m; i++) {
                rest += x[i] - mean - low;
            }
            low += rest / (double)m;
            volatile double nearest = mean + low;
            low += mean - nearest;
            mean = nearest;
            for (int64_t i = 0; i < m; i++) {
                const double v = x[i] - mean - low;
                square += v * v;
            }
            d->mean[n * d->g + g] = mean;
            d->low[n * d->g + g] = low;
            d->inv_std[n * d->g + g] = 1.0 / sqrt(square / (double)m + d->eps);
        }
    }
}

/* mean and inv_std are read. */
static inline void norm_forward(const norm_data *d)
{
    const int64_t m = d->c * d->spatial;
    for (int64_t i = 0; i < d->g * d->n * m; i++) {
        const int64_t g = i / (d->n * m);
        const int64_t n = i / m % d->n;
        const int64_t channel = n * d->step + g * d->c + i / d->spatial % d->c;
        const int64_t at = n * d->g + g;
        const double xhat = (d->x[i] - d->mean[at] - d->low[at]) * d->inv_std[at];
        d->y[i] = norm_activate(d->act, xhat * d->gamma[channel] + d->beta[channel]);
    }
}

/* dx = inv_std * (gamma*dy' - a - xhat*b), mean and inv_std are read. */
static inline void norm_backward(const norm_data *d)
{
    const int64_t m = d->c * d->spatial;
    for (int64_t i = 0; i < (d->step > 0 ? d->n : 1) * d->g * d->c; i++) {
        d->dgamma[i] = 0.0;
        d->dbeta[i] = 0.0;
    }
    for (int64_t g = 0; g < d->g; g++) {
        for (int64_t n = 0; n < d->n; n++) {
            const int64_t first = (g * d->n + n) * m;
            const double mean = d->mean[n * d->g + g];
            const double low = d->low[n * d->g + g];
            const double inv_std = d->inv_std[n * d->g + g];
            double a = 0.0;
            double b = 0.0;
            for (int turn = 0; turn < 2; turn++) {
                for (int64_t i = 0; i < m; i++) {
                    const int64_t channel = n * d->step + g * d->c + i / d->spatial;
                    const double gamma = d->gamma[channel];
                    const double xhat = (d->x[first + i] - mean - low) * inv_std;
                    const double dy = norm_undo(d->act, xhat * gamma + d->beta[channel], d->dy[first + i]);
                    if (turn == 0) {
                        a += gamma * dy;
                        b += gamma * dy * xhat;
                        d->dgamma[channel] += dy * xhat;
                        d->dbeta[channel] += dy;
                    } else {
                        d->dx[first + i] = inv_std * (gamma * dy - a / (double)m - xhat * b / (double)m);
                    }
                }
            }
        }
    }
}

/* A parameter vector: what the tensor holds, or the default when the run does not pass it. */
static inline double *norm_vector(const norm_case *c, int which, int flag, double missing)
{
    double *v = test_doubles(c->t[which].count);
    for (int64_t i = 0; i < c->t[which].count; i++) {
        v[i] = missing;
    }
    if (c->flags & flag) {
        test_gather(&c->t[which], v);
    }
    return v;
}

/* Relu's gradient jumps where its argument is 0: dy becomes 0 where the argument is so close to it that
   rounding decides. mean, low and inv_std are known. */
static inline void norm_spare_jumps(norm_case *c, const norm_data *d, double *dy)
{
    const int64_t m = d->c * d->spatial;
    for (int64_t i = 0; i < d->g * d->n * m; i++) {
        const int64_t g = i / (d->n * m), n = i / m % d->n, at = n * d->g + g;
        const int64_t channel = n * d->step + g * d->c + i / d->spatial % d->c;
        const double term = (d->x[i] - d->mean[at] - d->low[at]) * d->inv_std[at] * d->gamma[channel];
        const double beta = d->beta[channel];
        dy[i] = fabs(term + beta) < c->close * (fabs(term) + fabs(beta)) ? 0.0 : dy[i];
    }
    test_scatter(&c->t[NORM_Y], dy);
}

/* expect[] of everything from x, y (as dy), gamma and beta as they are filled. Saved statistics are those of
   x: they are stored in their tensors, so that a backward run may be given them. */
static inline void norm_compute_expected(norm_case *c)
{
    norm_data d;
    memset(&d, 0, sizeof d);
    d.g = c->g;
    d.n = c->n;
    d.c = c->c;
    d.spatial = c->spatial;
    d.step = c->desc.param_per_image ? c->g * c->c : 0;
    d.eps = c->desc.eps;
    d.act = c->desc.act;
    double *x = test_doubles(c->t[NORM_X].count);
    double *dy = test_doubles(c->t[NORM_Y].count);
    double *low = test_doubles(c->t[NORM_MEAN].count);
    double *gamma = norm_vector(c, NORM_GAMMA, NORM_HAS_GAMMA, 1.0);
    double *beta = norm_vector(c, NORM_BETA, NORM_HAS_BETA, 0.0);
    test_gather(&c->t[NORM_X], x);
    test_gather(&c->t[NORM_Y], dy);
    d.x = x;
    d.dy = dy;
    d.gamma = gamma;
    d.beta = beta;
    d.y = c->expect[NORM_Y];
    d.dx = c->expect[NORM_DX];
    d.mean = c->expect[NORM_MEAN];
    d.low = low;
    d.inv_std = c->expect[NORM_INV_STD];
    d.dgamma = c->expect[NORM_DGAMMA];
    d.dbeta = c->expect[NORM_DBETA];
    norm_statistics(&d);
    if (c->op == CKCONV_GROUPNORM_FWD) {
        norm_forward(&d);
    } else {
        test_scatter(&c->t[NORM_MEAN], d.mean);
        test_scatter(&c->t[NORM_INV_STD], d.inv_std);
        if (c->close > 0.0 && d.act == CKCONV_RELU) {
            norm_spare_jumps(c, &d, dy);
        }
        norm_backward(&d);
    }
    free(x);
    free(dy);
    free(low);
    free(gamma);
    free(beta);
}

static inline ckconv_args norm_args(const norm_case *c)
{
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.in = test_data(&c->t[NORM_X]);
    a.gamma = c->flags & NORM_HAS_GAMMA ? test_data(&c->t[NORM_GAMMA]) : NULL;
    a.beta = c->flags & NORM_HAS_BETA ? test_data(&c->t[NORM_BETA]) : NULL;
    if (c->op == CKCONV_GROUPNORM_FWD) {
        a.out = test_data(&c->t[NORM_Y]);
        a.mean = c->flags & NORM_WANTS_STATS ? test_data(&c->t[NORM_MEAN]) : NULL;
        a.inv_std = c->flags & NORM_WANTS_STATS ? test_data(&c->t[NORM_INV_STD]) : NULL;
        return a;
    }
    a.dout = test_data(&c->t[NORM_Y]);
    a.saved_mean = c->flags & NORM_HAS_STATS ? test_data(&c->t[NORM_MEAN]) : NULL;
    a.saved_inv_std = c->flags & NORM_HAS_STATS ? test_data(&c->t[NORM_INV_STD]) : NULL;
    a.din = c->flags & NORM_WANTS_DX ? test_data(&c->t[NORM_DX]) : NULL;
    a.dgamma = c->flags & NORM_WANTS_DGAMMA ? test_data(&c->t[NORM_DGAMMA]) : NULL;
    a.dbeta = c->flags & NORM_WANTS_DBETA ? test_data(&c->t[NORM_DBETA]) : NULL;
    return a;
}

/* Run a plan on poisoned outputs and workspace; guards and gaps are checked, results are in got[]. */
static inline int norm_run(norm_case *c, const ckconv_plan *plan)
{
    test_buffer workspace;
    ckconv_error err;
    const ckconv_args args = norm_args(c);
    memset(&err, 0, sizeof err);
    test.plan = plan;
    test_buffer_make(&workspace, (size_t)plan->workspace_bytes, c->t[NORM_X].buffer.before - TEST_GUARD);
    memset(workspace.data, 0xFF, workspace.bytes);
    for (int i = 0; i < NORM_TENSORS; i++) {
        if (norm_is_written(c, i)) {
            test_poison(&c->t[i]);
        }
    }
    const ckconv_status status = test_run(plan, &args, plan->workspace_bytes > 0 ? workspace.data : NULL,
                                            workspace.bytes, NULL, &err);
    int good = CHECK_OK(status, err);
    if (good) {
        good = CHECK_MSG(test_guards_intact(&workspace), "workspace written out of bounds");
        for (int i = 0; i < NORM_TENSORS; i++) {
            good = CHECK_MSG(test_guards_intact(&c->t[i].buffer), "%s written out of bounds", norm_name(i)) &&
                   good;
            if (norm_is_written(c, i)) {
                test_gather(&c->t[i], c->got[i]);
                good = CHECK_MSG(test_gaps_intact(&c->t[i]), "a gap of %s was written", norm_name(i)) && good;
            }
        }
    }
    test_buffer_free(&workspace);
    return good;
}

/* The largest error of a written tensor, as a fraction of its largest expected value. Infinite for a NaN. */
static inline double norm_error(const norm_case *c, int which)
{
    double largest = 0.0;
    double error = 0.0;
    for (int64_t i = 0; i < c->t[which].count; i++) {
        const double e = fabs(c->got[which][i] - c->expect[which][i]);
        largest = fmax(largest, fabs(c->expect[which][i]));
        error = e > error || isnan(e) ? (isnan(e) ? HUGE_VAL : e) : error;
    }
    return error == 0.0 ? 0.0 : error / fmax(largest, 1e-30);
}

static inline int norm_plan(const norm_case *c, ckconv_plan *plan, const ckconv_options *options,
                            const ckconv_device *device)
{
    ckconv_error err;
    memset(&err, 0, sizeof err);
    test.plan = NULL;
    return CHECK_PLAN(ckconv_plan_groupnorm(plan, c->op, &c->desc, options, device, &err), err);
}

#endif /* CKCONV_NAIVE_GROUPNORM_H */
