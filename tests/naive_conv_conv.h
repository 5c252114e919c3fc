/* naive_conv_conv.h - the fused pair of convolutions from its definition: two naive ones with the middle
   between
   SPDX-License-Identifier: MIT */
#ifndef CKCONV_NAIVE_CONV_CONV_H
#define CKCONV_NAIVE_CONV_CONV_H

#include "naive.h"

typedef struct pair_case {
    ckconv_conv_conv_desc desc;
    naive_case first;  /* in, wei -> mid */
    naive_case second; /* mid, wei1 -> out; its input tensor is not used */
    test_tensor scale, shift;
    int has_scale, has_shift, wants_mid;
    double *mid, *mid_spread;      /* rounded to the compute type, [G, N, K, spatial] */
    double *mid_least, *mid_most;  /* what the copy may hold */
    double *regrouped, *re_spread; /* mid as the second convolution's groups see it */
} pair_case;

/* The second convolution as one of its own. */
static inline ckconv_conv_desc pair_second_desc(const ckconv_conv_conv_desc *d)
{
    ckconv_conv_desc s;
    const naive_shape first = naive_get_shape(&d->conv0);
    memset(&s, 0, sizeof s);
    s.ndim = d->conv0.ndim;
    s.num_d = d->num_d;
    s.g = d->g1 > 0 ? d->g1 : 1;
    s.n = d->conv0.n;
    s.k = d->k1;
    s.c = first.g * first.k / s.g;
    for (int i = 0; i < (int)s.ndim; i++) {
        s.filter[i] = d->filter1[i] > 0 ? d->filter1[i] : 1;
        s.input[i] = first.output[3 - (int)s.ndim + i];
        s.stride[i] = d->stride1[i];
        s.dilation[i] = d->dilation1[i];
        s.pad_lo[i] = d->pad_lo1[i];
        s.pad_hi[i] = d->pad_hi1[i];
    }
    s.in.dtype = naive_dtype(&d->conv0, NAIVE_IN);
    s.wei = d->wei1;
    s.wei.dtype = d->wei1.dtype != 0 ? d->wei1.dtype : naive_dtype(&d->conv0, NAIVE_WEI);
    s.out = d->out;
    s.out.dtype = d->out.dtype != 0 ? d->out.dtype : s.in.dtype;
    s.compute_in = naive_compute(&d->conv0, NAIVE_IN);
    s.compute_wei = d->compute_wei1;
    s.op_wei = d->op_wei1;
    s.op_out = d->op_out;
    memcpy(s.d, d->d, sizeof s.d);
    return s;
}

static inline void pair_make(pair_case *p, const ckconv_conv_conv_desc *desc, int has_scale, int has_shift,
                             int wants_mid, size_t offset)
{
    memset(p, 0, sizeof *p);
    p->desc = *desc;
    const ckconv_conv_desc second = pair_second_desc(desc);
    naive_make(&p->first, CKCONV_FWD, &desc->conv0, offset);
    naive_make(&p->second, CKCONV_FWD, &second, offset);
    p->has_scale = has_scale;
    p->has_shift = has_shift;
    p->wants_mid = wants_mid;
    const naive_shape s = naive_get_shape(&desc->conv0);
    const int64_t length[2] = {s.g, s.k};
    const int64_t stride[2] = {s.k, 1};
    const ckconv_dtype vector = naive_dtype(&desc->conv0, NAIVE_IN) == CKCONV_F64 ? CKCONV_F64 : CKCONV_F32;
    test_tensor_make(&p->scale, vector, 2, length, stride, offset);
    test_tensor_make(&p->shift, vector, 2, length, stride, offset);
    const int64_t count = p->first.t[NAIVE_OUT].count;
    p->mid = test_doubles(count);
    p->mid_spread = test_doubles(count);
    p->mid_least = test_doubles(count);
    p->mid_most = test_doubles(count);
    p->regrouped = test_doubles(count);
    p->re_spread = test_doubles(count);
}

static inline void pair_free(pair_case *p)
{
    test.options[0] = 0;
    naive_free(&p->first);
    naive_free(&p->second);
    test_tensor_free(&p->scale);
    test_tensor_free(&p->shift);
    free(p->mid);
    free(p->mid_spread);
    free(p->mid_least);
    free(p->mid_most);
    free(p->regrouped);
    free(p->re_spread);
    memset(p, 0, sizeof *p);
}

/* One value of the middle: scale, shift and activation on the accumulator in f32, one rounding. */
static inline void pair_middle(pair_case *p, int64_t at, double scale, double shift)
{
    const naive_case *c = &p->first;
    const ckconv_element_op *op = &p->desc.conv0.op_out;
    const ckconv_dtype stored = c->t[NAIVE_OUT].dtype;
    const ckconv_dtype arithmetic = stored == CKCONV_F64 ? CKCONV_F64 : CKCONV_F32;
    const ckconv_dtype compute = naive_compute(&p->desc.conv0, NAIVE_IN);
    double x = c->acc[at];
    if (naive_is_i8(c)) {
        /* int32 sums wrap; an int32 without any operation is not rounded to f32 first */
        const double turn = 4294967296.0;
        x -= turn * floor((x + 0.5 * turn) / turn);
        if (p->has_scale || p->has_shift || op->kind != CKCONV_PASS) {
            x = test_round(CKCONV_F32, x);
        }
    }
    x = test_round(arithmetic, x * scale) + shift;
    if (!naive_is_i8(c) || p->has_scale || p->has_shift || op->kind != CKCONV_PASS) {
        x = test_round(arithmetic, x);
    }
    const double y = naive_element(op, x, NULL, 0);
    double error = naive_smooth_error(op, arithmetic, x, y, NULL);
    if (c->loose[at] > 0.0) {
        error += 1.2 * fabs(scale) * c->loose[at];
        error += 2.0 * test_ulp(arithmetic, fabs(x) + fabs(shift) + fabs(y));
    }
    const double least = test_round(compute, error > 0.0 ? y - error : test_round(arithmetic, y));
    const double most = test_round(compute, error > 0.0 ? y + error : test_round(arithmetic, y));
    p->mid[at] = least;
    p->mid_spread[at] = most - least;
    p->mid_least[at] = test_round(stored, least);
    p->mid_most[at] = test_round(stored, most);
}

/* mid and out from the tensors as they are filled. */
static inline void pair_compute_expected(pair_case *p)
{
    const test_tensor *mid = &p->first.t[NAIVE_OUT];
    double *scale = test_doubles(p->scale.count);
    double *shift = test_doubles(p->shift.count);
    test_gather(&p->scale, scale);
    test_gather(&p->shift, shift);
    naive_sum(&p->first);
    int64_t spatial = 1;
    for (int i = 3; i < mid->rank; i++) {
        spatial *= mid->length[i];
    }
    const int64_t g = mid->length[0];
    const int64_t n = mid->length[1];
    const int64_t k = mid->length[2];
    const int64_t k_in = g * k / (p->second.desc.g > 0 ? p->second.desc.g : 1);
    int inexact = naive_is_smooth(p->desc.conv0.op_out.kind);
    for (int64_t i = 0; i < mid->count; i++) {
        const int64_t channel = i / (n * k * spatial) * k + i / spatial % k;
        const int64_t batch = i / (k * spatial) % n;
        pair_middle(p, i, p->has_scale ? scale[channel] : 1.0, p->has_shift ? shift[channel] : 0.0);
        const int64_t to = ((channel / k_in * n + batch) * k_in + channel % k_in) * spatial + i % spatial;
        inexact = inexact || p->first.loose[i] > 0.0;
        p->regrouped[to] = p->mid[i];
        p->re_spread[to] = p->mid_spread[i];
    }
    p->second.given = p->regrouped;
    p->second.given_spread = inexact ? p->re_spread : NULL;
    naive_compute_expected(&p->second);
    free(scale);
    free(shift);
}

static inline ckconv_args pair_args(const pair_case *p)
{
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.in = test_data(&p->first.t[NAIVE_IN]);
    a.wei = test_data(&p->first.t[NAIVE_WEI]);
    a.wei1 = test_data(&p->second.t[NAIVE_WEI]);
    a.out = test_data(&p->second.t[NAIVE_OUT]);
    a.mid = p->wants_mid ? test_data(&p->first.t[NAIVE_OUT]) : NULL;
    a.scale = p->has_scale ? test_data(&p->scale) : NULL;
    a.shift = p->has_shift ? test_data(&p->shift) : NULL;
    for (int i = 0; i < (int)p->desc.num_d; i++) {
        a.d[i] = test_data(&p->second.d[i]);
    }
    return a;
}

static inline int pair_guards(const pair_case *p)
{
    int good = test_guards_intact(&p->scale.buffer) && test_guards_intact(&p->shift.buffer);
    for (int i = 0; i < 3; i++) {
        good =
            test_guards_intact(&p->first.t[i].buffer) && test_guards_intact(&p->second.t[i].buffer) && good;
    }
    return good;
}

/* Run a plan on poisoned outputs and workspace; results go to first.got (the copy of mid) and second.got. */
static inline int pair_run(pair_case *p, const ckconv_plan *plan)
{
    test_buffer workspace;
    ckconv_error err;
    test_tensor *out = &p->second.t[NAIVE_OUT];
    test_tensor *mid = &p->first.t[NAIVE_OUT];
    const ckconv_args args = pair_args(p);
    memset(&err, 0, sizeof err);
    test.plan = plan;
    snprintf(test.options, sizeof test.options, "%s%s", p->has_scale ? " --scale0 -" : "",
             p->has_shift ? " --shift0 -" : "");
    test_buffer_make(&workspace, (size_t)plan->workspace_bytes, out->buffer.before - TEST_GUARD);
    memset(workspace.data, 0xFF, workspace.bytes);
    test_poison(out);
    test_poison(mid);
    const ckconv_status status =
        test_run(plan, &args, plan->workspace_bytes > 0 ? workspace.data : NULL, workspace.bytes, NULL, &err);
    int good = CHECK_OK(status, err);
    if (good) {
        test_gather(out, p->second.got);
        if (p->wants_mid) {
            test_gather(mid, p->first.got);
        }
        good = CHECK_MSG(test_guards_intact(&workspace), "workspace written out of bounds");
        good = CHECK_MSG(pair_guards(p), "a tensor was written out of bounds") && good;
        good = CHECK_MSG(test_gaps_intact(out), "a gap of out was written") && good;
        if (p->wants_mid) {
            good = CHECK_MSG(test_gaps_intact(mid), "a gap of mid was written") && good;
        } else {
            good = CHECK_MSG(test_untouched(mid), "mid was written") && good;
        }
    }
    test_buffer_free(&workspace);
    return good;
}

static inline void pair_compare(pair_case *p, const char *what)
{
    char text[64];
    naive_compare(&p->second, what);
    if (p->wants_mid) {
        memcpy(p->first.least, p->mid_least, (size_t)p->first.t[NAIVE_OUT].count * sizeof(double));
        memcpy(p->first.most, p->mid_most, (size_t)p->first.t[NAIVE_OUT].count * sizeof(double));
        snprintf(text, sizeof text, "%s, mid", what);
        naive_compare(&p->first, text);
    }
}

static inline int pair_plan(const pair_case *p, ckconv_plan *plan, const ckconv_options *options,
                            const ckconv_device *device)
{
    ckconv_error err;
    memset(&err, 0, sizeof err);
    test.plan = NULL;
    return CHECK_PLAN(ckconv_plan_conv_conv(plan, &p->desc, options, device, &err), err);
}

#endif /* CKCONV_NAIVE_CONV_CONV_H */
