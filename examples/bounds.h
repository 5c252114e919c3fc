/* bounds.h - how far two results of one problem may differ, and single results from the definition
   SPDX-License-Identifier: MIT

   For the driver's verify and the tests; problem.h has the tensors.

     pb_bound            how far rounding may take an engine away from the specification, element by element
     pb_compare          two results of one plan, against such a bound or for equality
     pb_exact_pattern    integers for which every engine must give the very same result
     pb_check_samples    thousands of single outputs, borders included, against sums in double made here */
#ifndef BOUNDS_H
#define BOUNDS_H

#include "problem.h"


/*------------------------------------------------------------------------------------------------------------
  Rounding: how far an engine may be from the specification

  A sum of m products in arithmetic of unit roundoff u differs from the exact sum by at most (m + 2) * u * S,
  S being the sum of the products' absolute values, whatever the order of summation. S is computed by running
  the same problem on absolute values. The epilogue passes an error on (times its slope) and adds its own few
  roundings; two values that close may still round to neighbours of the output type. Nothing here is tuned.
*/

/* Unit roundoff, and the smallest step between values near zero. */
PB_FUNCTION double pb_unit(ckconv_dtype dtype)
{
    switch (dtype) {
    case CKCONV_F64:
        return ldexp(1, -53);
    case CKCONV_F32:
        return ldexp(1, -24);
    case CKCONV_F16:
    case CKCONV_TF32:
        return ldexp(1, -11);
    case CKCONV_BF16:
        return ldexp(1, -8);
    case CKCONV_F8E4M3:
    case CKCONV_F8E4M3FNUZ:
        return ldexp(1, -4);
    case CKCONV_F8E5M2:
    case CKCONV_F8E5M2FNUZ:
        return ldexp(1, -3);
    case CKCONV_BF16X3:
        return ldexp(1, -16);
    default:
        return 0;
    }
}

PB_FUNCTION double pb_step(ckconv_dtype dtype)
{
    switch (dtype) {
    case CKCONV_F64:
        return ldexp(1, -1074);
    case CKCONV_F16:
        return ldexp(1, -24);
    case CKCONV_BF16:
        return ldexp(1, -133);
    case CKCONV_F8E4M3:
        return ldexp(1, -9);
    case CKCONV_F8E4M3FNUZ:
        return ldexp(1, -10);
    case CKCONV_F8E5M2:
        return ldexp(1, -16);
    case CKCONV_F8E5M2FNUZ:
        return ldexp(1, -17);
    default:
        return ldexp(1, -149);
    }
}

PB_FUNCTION double pb_largest(ckconv_dtype dtype)
{
    switch (dtype) {
    case CKCONV_F64:
        return 1.7976931348623157e308;
    case CKCONV_F16:
        return 65504;
    case CKCONV_F8E4M3:
        return 448;
    case CKCONV_F8E4M3FNUZ:
        return 240;
    case CKCONV_F8E5M2:
    case CKCONV_F8E5M2FNUZ:
        return 57344;
    case CKCONV_I8:
        return 127;
    case CKCONV_I32:
        return 2147483647;
    default:
        return 3.3895313892515355e38; /* bf16's, which is a little below f32's */
    }
}

/* What needs exp, erf or a division: engines may differ by a few roundings of the arithmetic. */
PB_FUNCTION int pb_is_smooth(ckconv_element kind)
{
    return (kind >= CKCONV_SIGMOID && kind <= CKCONV_TANH) || kind == CKCONV_HARDSIGMOID ||
           kind == CKCONV_HARDSWISH || kind == CKCONV_BIAS_SILU || kind == CKCONV_BIAS_GELU ||
           kind == CKCONV_SILU_BWD || kind == CKCONV_GELU_BWD;
}

PB_FUNCTION double pb_clip(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* op(x, d...), in double. */
PB_FUNCTION double pb_apply(const ckconv_element_op *op, double x, const double *d, int num_d)
{
    switch (op->kind) {
    case CKCONV_SCALE:
        return op->alpha * x;
    case CKCONV_RELU:
        return x < 0 ? 0 : x;
    case CKCONV_CLAMP:
        return pb_clip(x, op->alpha, op->beta);
    case CKCONV_SIGMOID:
        return 1 / (1 + exp(-x));
    case CKCONV_SILU:
        return x / (1 + exp(-x));
    case CKCONV_GELU:
        return x / 2 * (1 + erf(x / sqrt(2)));
    case CKCONV_BILINEAR:
        return op->alpha * x + op->beta * d[0];
    case CKCONV_SCALE_ADD:
        return op->alpha * x + d[0];
    case CKCONV_BIAS:
    case CKCONV_BIAS_RELU:
    case CKCONV_BIAS_RESIDUAL_RELU:
    case CKCONV_ADD:
    case CKCONV_ADD_RELU:
        for (int i = 0; i < num_d; i++) {
            x += d[i];
        }
        return op->kind == CKCONV_BIAS || op->kind == CKCONV_ADD ? x : x < 0 ? 0 : x;
    case CKCONV_TANH:
        return tanh(x);
    case CKCONV_LEAKY_RELU:
        return x < 0 ? op->alpha * x : x;
    case CKCONV_HARDSIGMOID:
        return pb_clip(x + 3, 0, 6) / 6;
    case CKCONV_HARDSWISH:
        return x <= -3 ? 0 : x * pb_clip(x + 3, 0, 6) / 6;
    case CKCONV_BIAS_SILU:
        return (x + d[0]) / (1 + exp(-x - d[0]));
    case CKCONV_BIAS_GELU:
        return (x + d[0]) / 2 * (1 + erf((x + d[0]) / sqrt(2)));
    case CKCONV_BIAS_RELU_ADD:
        return (x + d[0] < 0 ? 0 : x + d[0]) + d[1];
    case CKCONV_SCALE_SHIFT:
        return x * d[0] + d[1];
    case CKCONV_SCALE_SHIFT_RELU:
        return x * d[0] + d[1] < 0 ? 0 : x * d[0] + d[1];
    case CKCONV_RELU_BWD:
        return d[0] <= 0 ? 0 : x;
    case CKCONV_CLAMP_BWD:
        return d[0] <= op->alpha || d[0] >= op->beta ? 0 : x;
    case CKCONV_SIGMOID_BWD:
        return x * (d[0] * (1 - d[0]));
    case CKCONV_SILU_BWD:
        return x / (1 + exp(-d[0])) * (1 + d[0] / (1 + exp(d[0])));
    case CKCONV_GELU_BWD:
        return x * (erfc(-d[0] / sqrt(2)) / 2 + d[0] * exp(-d[0] * d[0] / 2) * 0.39894228040143267794);
    case CKCONV_PASS:
        return x;
    default:
        return (double)NAN; /* tests/test_math.c sees it */
    }
}

/* Error of op(x, d...) for an x that is wrong by `error` and at most `size` large, in arithmetic of roundoff
   u. */
PB_FUNCTION double pb_apply_error(const ckconv_element_op *op, double error, double size, const double *d,
                                  int num_d, double u)
{
    if (op->kind == CKCONV_PASS || op->kind == CKCONV_RELU || op->kind == CKCONV_CLAMP ||
        op->kind == CKCONV_RELU_BWD || op->kind == CKCONV_CLAMP_BWD) {
        return error;
    }
    if (pb_is_smooth(op->kind)) { /* slopes: sigmoid 1/4, silu below 1.1, gelu below 1.13, hardswish 3/2 */
        return 1.5 * error + 16 * u * (size + error + 1 + (num_d > 0 ? fabs(d[0]) : 0));
    }
    double slope = op->kind == CKCONV_SCALE || op->kind == CKCONV_BILINEAR || op->kind == CKCONV_SCALE_ADD
                       ? fabs(op->alpha)
                   : op->kind == CKCONV_LEAKY_RELU ? fmax(1, fabs(op->alpha))
                   : op->kind == CKCONV_SCALE_SHIFT || op->kind == CKCONV_SCALE_SHIFT_RELU ? fabs(d[0])
                   : op->kind == CKCONV_SIGMOID_BWD ? fabs(d[0] * (1 - d[0]))
                                                    : 1;
    double total = slope * (size + error);
    for (int i = 0; i < num_d; i++) {
        total += fabs(d[i]) * (op->kind == CKCONV_BILINEAR ? fabs(op->beta) : 1);
    }
    return slope * error + (num_d + 3) * u * total;
}

/* A value as the compute type holds it. bf16x3 keeps about 16 bits: left alone here, see pb_unit. */
PB_FUNCTION double pb_round(ckconv_dtype dtype, double x)
{
    unsigned char bytes[8];
    if (dtype == CKCONV_F64 || dtype == 0) {
        return x;
    }
    ckconv_from_double(CKCONV_F32, &x, bytes, 1);
    if (dtype == CKCONV_TF32) {
        uint32_t bits;
        memcpy(&bits, bytes, sizeof bits);
        if ((bits >> 23 & 255) != 255) {
            bits = (bits + 0xfff + (bits >> 13 & 1)) & ~UINT32_C(0x1fff);
        }
        memcpy(bytes, &bits, sizeof bits);
    }
    ckconv_to_double(CKCONV_F32, bytes, &x, 1);
    if (ckconv_dtype_size(dtype) != 0 && dtype != CKCONV_F32) {
        ckconv_from_double(dtype, &x, bytes, 1);
        ckconv_to_double(dtype, bytes, &x, 1);
    }
    return x;
}

/* How a tensor is read: operation, then rounding. */
typedef struct pb_reading {
    ckconv_element_op op;
    ckconv_dtype compute;
} pb_reading;

PB_FUNCTION double pb_read(const pb_reading *reading, double x)
{
    if (reading->op.kind != CKCONV_PASS) {
        ckconv_element_op op = reading->op;
        if (reading->compute != CKCONV_F64) { /* parameters are f32 there */
            op.alpha = pb_round(CKCONV_F32, op.alpha);
            op.beta = pb_round(CKCONV_F32, op.beta);
        }
        x = pb_apply(&op, x, NULL, 0);
    }
    return pb_round(reading->compute, x);
}

/* The reading of a role's tensor. mid (role "mid") is read by the second convolution as it is. */
PB_FUNCTION pb_reading pb_reading_of(const ckconv_plan *plan, int role)
{
    const ckconv_conv_desc *conv =
        plan->op == CKCONV_CONV_CONV_FWD ? &plan->u.conv_conv.conv0 : &plan->u.conv;
    pb_reading r;
    memset(&r, 0, sizeof r);
    switch (pb_roles[role].which) {
    case CKCONV_TENSOR_IN:
        r.op = conv->op_in;
        r.compute = conv->compute_in;
        break;
    case CKCONV_TENSOR_WEI:
        r.op = conv->op_wei;
        r.compute = conv->compute_wei;
        break;
    case CKCONV_TENSOR_OUT:
        r.op = conv->op_out;
        r.compute = conv->compute_out;
        break;
    case CKCONV_TENSOR_WEI1:
        r.op = plan->u.conv_conv.op_wei1;
        r.compute = plan->u.conv_conv.compute_wei1;
        break;
    default:
        break;
    }
    return r;
}

/* Type of the arithmetic: f64, i8 or f32. */
PB_FUNCTION ckconv_dtype pb_arithmetic(const ckconv_plan *plan)
{
    ckconv_dtype in = plan->op == CKCONV_CONV_CONV_FWD ? plan->u.conv_conv.conv0.in.dtype
                      : plan->op == CKCONV_GROUPNORM_FWD || plan->op == CKCONV_GROUPNORM_BWD
                          ? plan->u.groupnorm.in.dtype
                          : plan->u.conv.in.dtype;
    if (plan->op == CKCONV_BWD_DATA) {
        in = plan->u.conv.out.dtype;
    }
    return in == CKCONV_F64 || in == CKCONV_I8 ? in : CKCONV_F32;
}

/* Products in one sum of a convolution. */
PB_FUNCTION double pb_terms(ckconv_op op, const ckconv_conv_desc *d, const ckconv_plan *plan)
{
    double taps = 1, positions = (double)d->n;
    for (int i = 0; i < d->ndim; i++) {
        taps *= (double)d->filter[i];
    }
    if (op == CKCONV_BWD_WEIGHT) {
        ckconv_tensor_info out;
        ckconv_error ignored;
        if (ckconv_plan_tensor(plan, CKCONV_TENSOR_OUT, &out, &ignored) == CKCONV_OK) {
            for (int i = 3; i < out.rank; i++) {
                positions *= (double)out.length[i];
            }
        }
        return positions;
    }
    return taps * (double)(op == CKCONV_BWD_DATA ? d->k : d->c);
}

PB_FUNCTION double pb_terms1(const ckconv_plan *plan)
{
    const ckconv_conv_conv_desc *d = &plan->u.conv_conv;
    double terms = (double)(d->conv0.g * d->conv0.k / (d->g1 > 0 ? d->g1 : 1));
    for (int i = 0; i < d->conv0.ndim; i++) {
        terms *= d->filter1[i] > 0 ? (double)d->filter1[i] : 1.0;
    }
    return terms;
}

/* One tensor with its memory. */
typedef struct pb_view {
    ckconv_tensor_info info;
    void *data;
} pb_view;

/* What an element of one written tensor may be off by. Make it with pb_bound_make, free it with
   pb_bound_free. */
typedef struct pb_bound {
    int largest;     /* 1: a share of the largest value (group norm) */
    double share;    /* that share; or the factor of sum below */
    double u;        /* roundoff of the epilogue's arithmetic */
    double direct;   /* the error before the epilogue is share * sum + direct * extra */
    pb_data held[2]; /* owners of the two tensors */
    pb_view sum;     /* sum of |a||b|, data NULL: not there */
    pb_view extra;   /* what the error of the tensor between two convolutions adds, data NULL: not there */
    ckconv_element_op op;
    int num_d;
    pb_view d[PB_MAX_D]; /* shape of the written tensor */
} pb_bound;

PB_FUNCTION void pb_bound_free(pb_bound *b)
{
    pb_free(&b->held[0]);
    pb_free(&b->held[1]);
    memset(b, 0, sizeof *b);
}

/* Copy |a| of a tensor, as it is read, into another of the same shape. */
PB_FUNCTION void pb_copy_magnitude(const pb_view *from, const pb_reading *reading, const pb_view *to)
{
    int64_t rows = pb_rows(&from->info), length = pb_row_length(&from->info);
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (int64_t row = 0; row < rows; row++) {
        double values[PB_PIECE];
        for (int64_t first = 0; first < length; first += PB_PIECE) {
            int64_t n = length - first < PB_PIECE ? length - first : (int64_t)PB_PIECE;
            pb_row_get(&from->info, from->data, row, first, n, values);
            for (int64_t i = 0; i < n; i++) {
                values[i] = fabs(pb_read(reading, values[i]));
            }
            pb_row_put(&to->info, to->data, row, first, n, values);
        }
    }
}

PB_FUNCTION pb_view pb_view_of(const pb_data *data, int role)
{
    pb_view v;
    memset(&v, 0, sizeof v);
    if (role >= 0) {
        v.info = data->info[role];
        v.data = data->host[role];
    }
    return v;
}

/* Plan of the same convolution on magnitudes: plain layouts, no operations, f64 by ref; in a hurry f32 by
   cpu. */
PB_FUNCTION int pb_magnitude_plan(ckconv_op op, const ckconv_conv_desc *desc, int hurry, ckconv_plan *plan,
                                  ckconv_error *err)
{
    ckconv_conv_desc d = *desc;
    ckconv_options o;
    ckconv_device cpu;
    memset(&o, 0, sizeof o);
    memset(&d.in, 0, sizeof d.in);
    d.in.dtype = hurry ? CKCONV_F32 : CKCONV_F64;
    d.in.layout = CKCONV_NGCHW;
    d.wei = d.in;
    d.wei.layout = CKCONV_GKCYX;
    if (hurry && desc->in.layout != CKCONV_STRIDED) { /* the same layouts are compared without coordinates */
        d.in.layout = desc->in.layout;
        d.wei.layout = desc->wei.layout != CKCONV_STRIDED ? desc->wei.layout : d.wei.layout;
    }
    d.out = d.in;
    d.out.layout = hurry && desc->out.layout != CKCONV_STRIDED ? desc->out.layout : CKCONV_NGCHW;
    memset(&d.op_in, 0, sizeof d.op_in);
    d.op_wei = d.op_in;
    d.op_out = d.op_in;
    d.compute_in = d.compute_wei = d.compute_out = 0;
    d.num_d = 0;
    d.dbias = d.dbias ? d.in.dtype : 0;
    memset(d.d, 0, sizeof d.d);
    o.engine = hurry ? CKCONV_ENGINE_CPU : CKCONV_ENGINE_REF;
    ckconv_device_cpu(&cpu);
    return ckconv_plan_conv(plan, op, &d, &o, &cpu, err) == CKCONV_OK;
}

PB_FUNCTION int pb_written_role(const ckconv_plan *plan)
{
    for (int r = 0; r < PB_ROLES; r++) {
        if (pb_roles[r].use[plan->op - 1] == 'w') {
            return r;
        }
    }
    return -1;
}

/* S of one convolution: run it on magnitudes, `work` holds the result in its written tensor. from[] are the
   two read tensors in the order of pb_roles. */
PB_FUNCTION int pb_magnitude_run(ckconv_op op, const ckconv_conv_desc *desc, const pb_view *from,
                                 const pb_reading *reading, int hurry, pb_data *work, ckconv_error *err)
{
    ckconv_plan plan;
    if (!pb_magnitude_plan(op, desc, hurry, &plan, err) || !pb_alloc(work, &plan, 0, NULL, err)) {
        return 0;
    }
    int next = 0;
    for (int r = 0; r < PB_ROLES; r++) {
        if (work->used[r] != 0 && !pb_is_written(op, r)) {
            pb_view to = pb_view_of(work, r);
            pb_copy_magnitude(&from[next], &reading[next], &to);
            next++;
        }
    }
    return pb_run(&plan, work, err);
}

/* Errors that the two operands' operations leave, relative to S: engines may round sigmoid and the like to
   neighbouring values of the compute type. */
PB_FUNCTION double pb_reading_error(const pb_reading *reading, double u)
{
    return pb_is_smooth(reading->op.kind) ? 2 * pb_unit(reading->compute) + 16 * u : 0;
}

/* (m + 2) roundings of the engine, and those of the specification's double sum. bf16x3 sums three products
   and may leave out the fourth, of both operands' second terms, which are rounding errors of bf16. */
PB_FUNCTION double pb_sum_share(double terms, const pb_reading *a, const pb_reading *b, ckconv_dtype type)
{
    double u = type == CKCONV_I8 ? 0 : pb_unit(type);
    double products = a->compute == CKCONV_BF16X3 || b->compute == CKCONV_BF16X3 ? 3 : 1;
    double left_out = a->compute == CKCONV_BF16X3 && b->compute == CKCONV_BF16X3
                          ? pb_unit(CKCONV_BF16) * pb_unit(CKCONV_BF16)
                          : 0;
    double accumulation = type == CKCONV_I8 ? 0 : (products * terms + 2) * (u + pb_unit(CKCONV_F64));
    return accumulation + left_out + pb_reading_error(a, u) + pb_reading_error(b, u);
}

/* D tensors in the written tensor's shape. */
PB_FUNCTION void pb_bound_epilogue(pb_bound *b, const ckconv_plan *plan, const pb_data *data)
{
    const ckconv_tensor *desc;
    const ckconv_element_op *op = pb_plan_epilogue(plan, &b->num_d, &desc);
    b->op = *op;
    b->op.kind = op->kind == CKCONV_ACCUMULATE ? CKCONV_PASS : op->kind; /* to zeros */
    for (int i = 0; i < b->num_d; i++) { /* d0 to d3 follow each other in pb_roles */
        b->d[i] = pb_view_of(data, pb_role_of(plan->op, "d0") + i);
    }
}

/* The tensor between two convolutions: *work gets S of the first one, turned into the bound of mid's error.
   */
PB_FUNCTION int pb_mid_error(const ckconv_plan *plan, const pb_data *data, int hurry, pb_data *work,
                             pb_view *error, ckconv_error *err)
{
    const ckconv_conv_conv_desc *d = &plan->u.conv_conv;
    int in = pb_role_of(plan->op, "in"), wei = pb_role_of(plan->op, "wei0"),
        mid = pb_role_of(plan->op, "mid");
    int scale = pb_role_of(plan->op, "scale0"), shift = pb_role_of(plan->op, "shift0");
    pb_view from[2] = {pb_view_of(data, in), pb_view_of(data, wei)};
    pb_reading reading[2] = {pb_reading_of(plan, in), pb_reading_of(plan, wei)};
    if (!pb_magnitude_run(CKCONV_FWD, &d->conv0, from, reading, hurry, work, err)) {
        return 0;
    }
    *error = pb_view_of(work, pb_role_of(CKCONV_FWD, "out"));
    pb_view value = pb_view_of(data, mid);
    ckconv_dtype type = pb_arithmetic(plan), held = d->conv0.compute_in;
    double u = pb_unit(type == CKCONV_I8 ? CKCONV_F32 : type), rounded = 2 * pb_unit(held);
    double share = pb_sum_share(pb_terms(CKCONV_FWD, &d->conv0, plan), &reading[0], &reading[1], type);
    int exact = share == 0 && d->conv0.op_out.kind == CKCONV_PASS && !data->used[scale] && !data->used[shift];
    int64_t rows = pb_rows(&value.info), length = pb_row_length(&value.info), per_channel = 1;
    for (int i = 3; i + 1 < value.info.rank; i++) {
        per_channel *= value.info.length[i];
    }
    for (int64_t row = 0; row < rows && !exact; row++) {
        int64_t k = row / per_channel % value.info.length[2];
        int64_t g = row / per_channel / value.info.length[2] / value.info.length[1];
        double a = 1, b = 0, e[PB_PIECE], m[PB_PIECE];
        if (data->used[scale] != 0) {
            pb_row_get(&data->info[scale], data->host[scale], g, k, 1, &a);
        }
        if (data->used[shift] != 0) {
            pb_row_get(&data->info[shift], data->host[shift], g, k, 1, &b);
        }
        for (int64_t first = 0; first < length; first += PB_PIECE) {
            int64_t n = length - first < PB_PIECE ? length - first : (int64_t)PB_PIECE;
            pb_row_get(&error->info, error->data, row, first, n, e);
            pb_row_get(&value.info, value.data, row, first, n, m);
            for (int64_t i = 0; i < n; i++) {
                double size = fabs(a) * e[i] + fabs(b);
                double before = fabs(a) * share * e[i] + 3 * u * size;
                double after = pb_apply_error(&d->conv0.op_out, before, size, NULL, 0, u);
                e[i] = held == CKCONV_I8 ? after + (after > 0 ? 1 : 0)
                                         : after + rounded * (fabs(m[i]) + after) + pb_step(held);
            }
            pb_row_put(&error->info, error->data, row, first, n, e);
        }
    }
    if (exact) {
        memset(error->data, 0, (size_t)error->info.bytes);
    }
    return 1;
}

/* The second convolution as a description of its own. */
PB_FUNCTION ckconv_conv_desc pb_second_conv(const ckconv_plan *plan, const ckconv_tensor_info *mid)
{
    const ckconv_conv_conv_desc *d = &plan->u.conv_conv;
    ckconv_conv_desc second;
    memset(&second, 0, sizeof second);
    second.ndim = d->conv0.ndim;
    second.g = d->g1 > 0 ? d->g1 : 1;
    second.n = d->conv0.n;
    second.k = d->k1;
    second.c = mid->length[0] * mid->length[2] / second.g;
    for (int i = 0; i < second.ndim; i++) {
        second.filter[i] = d->filter1[i] > 0 ? d->filter1[i] : 1;
        second.input[i] = mid->length[3 + i];
        second.stride[i] = d->stride1[i];
        second.dilation[i] = d->dilation1[i];
        second.pad_lo[i] = d->pad_lo1[i];
        second.pad_hi[i] = d->pad_hi1[i];
    }
    return second;
}

/* mid [G,N,K,...] as the input [G1,N,GK/G1,...] of the second convolution. Both are NGCHW here: the same
   bytes. */
PB_FUNCTION pb_view pb_regroup(const pb_view *mid, int64_t g1)
{
    pb_view v = *mid;
    int64_t channels = mid->info.length[0] * mid->info.length[2];
    v.info.length[0] = g1;
    v.info.length[2] = channels / g1;
    v.info.stride[0] = channels / g1 * mid->info.stride[2];
    return v;
}

PB_FUNCTION int pb_bound_conv_conv(pb_bound *b, const ckconv_plan *plan, const pb_data *data, int role,
                                   int hurry, ckconv_error *err)
{
    pb_view error;
    b->direct = 1;
    if (!pb_mid_error(plan, data, hurry, &b->held[0], &error, err)) {
        return 0;
    }
    if (pb_roles[role].which == CKCONV_TENSOR_MID) {
        b->extra = error;
        return 1;
    }
    ckconv_conv_desc second = pb_second_conv(plan, &error.info);
    int wei1 = pb_role_of(plan->op, "wei1"), mid = pb_role_of(plan->op, "mid");
    int out = pb_role_of(CKCONV_FWD, "out");
    pb_reading plain, reading1 = pb_reading_of(plan, wei1);
    memset(&plain, 0, sizeof plain);
    pb_reading reading[2] = {plain, reading1};
    pb_view from[2] = {pb_regroup(&error, second.g), pb_view_of(data, wei1)};
    pb_data propagated;
    memset(&propagated, 0, sizeof propagated);
    if (!pb_magnitude_run(CKCONV_FWD, &second, from, reading, hurry, &propagated, err)) {
        pb_free(&propagated);
        return 0;
    }
    pb_view value =
        pb_view_of(data, mid); /* |mid| in place of the error, whose own part of S is negligible */
    pb_copy_magnitude(&value, &plain, &error);
    from[0] = pb_regroup(&error, second.g);
    int good = pb_magnitude_run(CKCONV_FWD, &second, from, reading, hurry, &b->held[1], err);
    pb_free(&b->held[0]);
    b->held[0] = propagated;
    if (good) {
        pb_reading mid_reading = plain;
        mid_reading.compute = plan->u.conv_conv.conv0.compute_in;
        b->sum = pb_view_of(&b->held[1], out);
        b->extra = pb_view_of(&b->held[0], out);
        b->share = pb_sum_share(pb_terms1(plan), &mid_reading, &reading1, pb_arithmetic(plan)) *
                   (1 + 2 * pb_unit(mid_reading.compute));
        pb_bound_epilogue(b, plan, data);
    }
    return good;
}

/* The bound of one written tensor. data: a run of the specification (any engine above the size where that
   takes too long), with mid if the operation has one. hurry: magnitudes in f32 by the cpu engine instead of
   f64 by ref. */
PB_FUNCTION int pb_bound_make(pb_bound *b, const ckconv_plan *plan, const pb_data *data, int role, int hurry,
                              ckconv_error *err)
{
    memset(b, 0, sizeof *b);
    ckconv_dtype type = pb_arithmetic(plan);
    b->u = pb_unit(type == CKCONV_I8 ? CKCONV_F32 : type);
    hurry = hurry && type != CKCONV_F64;
    if (plan->op == CKCONV_GROUPNORM_FWD || plan->op == CKCONV_GROUPNORM_BWD) {
        ckconv_dtype written = data->info[role].dtype;
        b->largest = 1;
        b->share = written == CKCONV_F16    ? 2e-3
                   : written == CKCONV_BF16 ? 1.6e-2
                   : written == CKCONV_F64  ? ldexp(2e-6, -29)
                                            : 2e-6;
        return 1;
    }
    int good;
    if (plan->op == CKCONV_CONV_CONV_FWD) {
        good = pb_bound_conv_conv(b, plan, data, role, hurry, err);
    } else {
        pb_view from[2];
        pb_reading reading[2];
        int next = 0;
        for (int r = 0; r < PB_ROLES && next < 2; r++) {
            if (pb_roles[r].use[plan->op - 1] == 'r') {
                from[next] = pb_view_of(data, r);
                reading[next] = pb_reading_of(plan, r);
                next++;
            }
        }
        good = pb_magnitude_run(plan->op, &plan->u.conv, from, reading, hurry, &b->held[0], err);
        if (good) {
            int bias = pb_roles[role].which == CKCONV_TENSOR_DBIAS;
            b->sum = pb_view_of(&b->held[0], bias ? role : pb_written_role(plan));
            b->share = pb_sum_share(pb_terms(plan->op, &plan->u.conv, plan), &reading[0], &reading[1], type);
            if (!bias) {
                pb_bound_epilogue(b, plan, data);
            }
        }
    }
    if (!good) {
        pb_bound_free(b);
    }
    return good;
}

/* What rounding to the written type adds for two values near y that differ by error. */
PB_FUNCTION double pb_stored_error(ckconv_dtype dtype, double y, double error)
{
    if (dtype == CKCONV_I8 || dtype == CKCONV_I32) {
        return error > 0 ? error + 1 : 0;
    }
    return (error + 2 * pb_unit(dtype) * (fabs(y) + error) + pb_step(dtype)) * (1 + ldexp(1, -10));
}

/* What a comparison found. ratio: largest difference over its bound (0 for equality). */
typedef struct pb_report {
    int64_t values, wrong;
    double worst, ratio;
    char first[160]; /* the first wrong element */
} pb_report;

/* An infinity next to a large finite value is as wrong as the step between them. */
PB_FUNCTION double pb_difference(ckconv_dtype dtype, double got, double want)
{
    if (isnan(got) || isnan(want)) {
        return isnan(got) && isnan(want) ? 0 : INFINITY;
    }
    if (isinf(got) || isinf(want)) {
        double next = pb_largest(dtype) * (1 + pb_unit(dtype) * 2);
        got = pb_clip(got, -next, next);
        want = pb_clip(want, -next, next);
    }
    return fabs(got - want);
}

PB_FUNCTION void pb_note(pb_report *report, const ckconv_tensor_info *t, int64_t row, int64_t last,
                         double got, double want, double limit)
{
    int64_t index[6] = {0, 0, 0, 0, 0, 0};
    pb_text out = {report->first, sizeof report->first, 0};
    index[t->rank - 1] = last;
    for (int i = t->rank - 2; i >= 0; i--) {
        index[i] = row % t->length[i];
        row /= t->length[i];
    }
    for (int i = 0; i < t->rank; i++) {
        pb_put(&out, "%s%lld", i == 0 ? "[" : ",", (long long)index[i]);
    }
    pb_put(&out, "] is %.9g, expected %.9g", got, want);
    if (limit > 0) {
        pb_put(&out, " +- %.3g", limit);
    }
}

PB_FUNCTION void pb_judge(pb_report *report, const ckconv_tensor_info *t, int64_t row, int64_t last,
                          double got, double want, double limit)
{
    double difference = pb_difference(t->dtype, got, want);
    report->values++;
    if (difference > report->worst) {
        report->worst = difference;
    }
    if (limit > 0 && difference / limit > report->ratio) {
        report->ratio = difference / limit;
    }
    if (!(difference <= limit)) {
        if (report->wrong++ == 0) {
            pb_note(report, t, row, last, got, want, limit);
        }
    }
}

/* Bound of one element before it is stored: sum and extra as read, D values at its place. */
PB_FUNCTION double pb_bound_before(const pb_bound *b, double sum, double extra, const double *d)
{
    double error = b->share * sum + b->direct * extra;
    return pb_apply_error(&b->op, error, sum, d, b->num_d, b->u);
}

PB_FUNCTION double pb_largest_value(const pb_view *t)
{
    double largest = 0, values[PB_PIECE];
    int64_t rows = pb_rows(&t->info), length = pb_row_length(&t->info);
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t first = 0; first < length; first += PB_PIECE) {
            int64_t n = length - first < PB_PIECE ? length - first : (int64_t)PB_PIECE;
            pb_row_get(&t->info, t->data, row, first, n, values);
            for (int64_t i = 0; i < n; i++) {
                largest = fabs(values[i]) > largest ? fabs(values[i]) : largest;
            }
        }
    }
    return largest;
}

/* Does b lie in memory as a does, without gaps? */
PB_FUNCTION int pb_same_places(const ckconv_tensor_info *a, const ckconv_tensor_info *b)
{
    int same = a->rank == b->rank && a->count == b->count &&
               a->bytes == a->count * (int64_t)ckconv_dtype_size(a->dtype) &&
               b->bytes == b->count * (int64_t)ckconv_dtype_size(b->dtype);
    for (int i = 0; same && i < a->rank; i++) {
        same = a->length[i] == b->length[i] && (a->stride[i] == b->stride[i] || a->length[i] == 1);
    }
    return same;
}

/* Row and entry of the element at `at` of a tensor without gaps. */
PB_FUNCTION void pb_find_place(const ckconv_tensor_info *t, int64_t at, int64_t *row, int64_t *last)
{
    *row = *last = 0;
    for (int i = 0; i < t->rank; i++) {
        *last = t->length[i] > 1 ? at / t->stride[i] % t->length[i] : 0;
        *row = i + 1 < t->rank ? *row * t->length[i] + *last : *row;
    }
}

/* pb_compare of tensors that lie alike, in memory's order and by all threads. 0: they do not. */
PB_FUNCTION int pb_compare_flat(const pb_view *got, const pb_view *want, const pb_bound *bound, double limit,
                                pb_report *report)
{
    const ckconv_tensor_info *t = &got->info;
    int summed = bound != NULL && bound->sum.data != NULL, closed = bound != NULL && !bound->largest;
    if (t->dtype != want->info.dtype || !pb_same_places(t, &want->info) ||
        (summed && !pb_same_places(t, &bound->sum.info)) ||
        (bound != NULL && (bound->extra.data != NULL || bound->num_d > 0))) {
        return 0;
    }
    const size_t size = ckconv_dtype_size(t->dtype);
    const int64_t pieces = (t->count + PB_PIECE - 1) / PB_PIECE;
    int64_t first = INT64_MAX;
#ifdef _OPENMP
#pragma omp parallel
#endif
    {
        pb_report own;
        int64_t own_first = INT64_MAX;
        double g[PB_PIECE], w[PB_PIECE], s[PB_PIECE], none[PB_MAX_D] = {0, 0, 0, 0};
        memset(&own, 0, sizeof own);
        memset(s, 0, sizeof s);
#ifdef _OPENMP
#pragma omp for schedule(static)
#endif
        for (int64_t piece = 0; piece < pieces; piece++) {
            const int64_t at = piece * PB_PIECE, n = t->count - at < PB_PIECE ? t->count - at : PB_PIECE;
            const char *a = (const char *)got->data + (size_t)at * size;
            const char *b = (const char *)want->data + (size_t)at * size;
            own.values += n;
            if (memcmp(a, b, (size_t)n * size) == 0) {
                continue;
            }
            ckconv_to_double(t->dtype, a, g, (size_t)n);
            ckconv_to_double(t->dtype, b, w, (size_t)n);
            if (summed) {
                const size_t step = ckconv_dtype_size(bound->sum.info.dtype);
                ckconv_to_double(bound->sum.info.dtype, (const char *)bound->sum.data + (size_t)at * step, s,
                                 (size_t)n);
            }
            for (int64_t i = 0; i < n; i++) {
                const double difference = pb_difference(t->dtype, g[i], w[i]);
                const double most =
                    closed ? pb_stored_error(t->dtype, w[i], pb_bound_before(bound, s[i], 0, none)) : limit;
                own.worst = difference > own.worst ? difference : own.worst;
                own.ratio = most > 0 && difference / most > own.ratio ? difference / most : own.ratio;
                if (!(difference <= most) && own.wrong++ == 0) {
                    int64_t row, last;
                    own_first = at + i;
                    pb_find_place(t, own_first, &row, &last);
                    pb_note(&own, t, row, last, g[i], w[i], most);
                }
            }
        }
#ifdef _OPENMP
#pragma omp critical
#endif
        {
            if (report->wrong == 0 || own_first < first) {
                first = own_first;
                memcpy(report->first, own.first, sizeof own.first);
            }
            report->values += own.values;
            report->wrong += own.wrong;
            report->worst = own.worst > report->worst ? own.worst : report->worst;
            report->ratio = own.ratio > report->ratio ? own.ratio : report->ratio;
        }
    }
    return 1;
}

/* Compare a written tensor of two runs, element by element: for equality without a bound. Both may have
   their own layout. Adds to *report; returns 1 if nothing was wrong. */
PB_FUNCTION int pb_compare(const pb_view *got, const pb_view *want, const pb_bound *bound, pb_report *report)
{
    const ckconv_tensor_info *t = &got->info;
    double limit = bound != NULL && bound->largest ? bound->share * pb_largest_value(want) : 0;
    const int64_t before = report->wrong;
    if (pb_compare_flat(got, want, bound, limit, report)) {
        return report->wrong == before;
    }
    int64_t rows = pb_rows(t), length = pb_row_length(t), wrong = report->wrong;
    double g[PB_PIECE], w[PB_PIECE], s[PB_PIECE], e[PB_PIECE], d[PB_MAX_D][PB_PIECE];
    memset(s, 0, sizeof s);
    memset(e, 0, sizeof e);
    memset(d, 0, sizeof d);
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t first = 0; first < length; first += PB_PIECE) {
            int64_t n = length - first < PB_PIECE ? length - first : (int64_t)PB_PIECE;
            pb_row_get(t, got->data, row, first, n, g);
            pb_row_get(&want->info, want->data, row, first, n, w);
            if (bound != NULL && bound->sum.data != NULL) {
                pb_row_get(&bound->sum.info, bound->sum.data, row, first, n, s);
            }
            if (bound != NULL && bound->extra.data != NULL) {
                pb_row_get(&bound->extra.info, bound->extra.data, row, first, n, e);
            }
            for (int i = 0; bound != NULL && i < bound->num_d; i++) {
                pb_row_get(&bound->d[i].info, bound->d[i].data, row, first, n, d[i]);
            }
            for (int64_t i = 0; i < n; i++) {
                if (bound != NULL && !bound->largest) {
                    double at[PB_MAX_D] = {d[0][i], d[1][i], d[2][i], d[3][i]};
                    limit = pb_stored_error(t->dtype, w[i], pb_bound_before(bound, s[i], e[i], at));
                }
                pb_judge(report, t, row, first + i, g[i], w[i], limit);
            }
        }
    }
    return report->wrong == wrong;
}


/*------------------------------------------------------------------------------------------------------------
  Data that makes every rounding error visible: integers whose sums are exact in the accumulator
*/
PB_FUNCTION int pb_is_integral(const ckconv_element_op *op)
{
    int parameters, d;
    pb_element_needs(op->kind, &parameters, &d);
    return !pb_is_smooth(op->kind) &&
           (parameters < 1 || (op->alpha == floor(op->alpha) && fabs(op->alpha) <= 16)) &&
           (parameters < 2 || (op->beta == floor(op->beta) && fabs(op->beta) <= 16));
}

PB_FUNCTION double pb_gain(const ckconv_element_op *op)
{
    int scales = op->kind == CKCONV_SCALE || op->kind == CKCONV_BILINEAR || op->kind == CKCONV_SCALE_ADD ||
                 op->kind == CKCONV_LEAKY_RELU;
    return scales && fabs(op->alpha) > 1 ? fabs(op->alpha) : 1;
}

/* The pattern of integers -m..m, m at most 4, for which every engine must give the very same result, however
   it orders its sums; so thin that narrow outputs do not all saturate. 0: there is none (long sums,
   sigmoids, ...). */
PB_FUNCTION int pb_exact_pattern(const ckconv_plan *plan, pb_pattern *pattern)
{
    int num_d, conv_conv = plan->op == CKCONV_CONV_CONV_FWD;
    const ckconv_tensor *d;
    const ckconv_element_op *last = pb_plan_epilogue(plan, &num_d, &d);
    if (last == NULL) {
        return 0;
    }
    const ckconv_conv_desc *conv = conv_conv ? &plan->u.conv_conv.conv0 : &plan->u.conv;
    const ckconv_conv_conv_desc *both = &plan->u.conv_conv;
    if (!pb_is_integral(&conv->op_in) || !pb_is_integral(&conv->op_wei) || !pb_is_integral(&conv->op_out) ||
        (conv_conv && (!pb_is_integral(&both->op_wei1) || !pb_is_integral(last)))) {
        return 0;
    }
    double terms = pb_terms(conv_conv ? CKCONV_FWD : plan->op, conv, plan);
    double terms1 = conv_conv ? pb_terms1(plan) : 0;
    double gain = pb_gain(&conv->op_in) * pb_gain(&conv->op_wei) * pb_gain(&conv->op_out);
    double limit = pb_arithmetic(plan) == CKCONV_F64 ? 9007199254740992.0 : 16777216.0;
    int role = pb_written_role(plan);
    ckconv_tensor_info info;
    ckconv_error ignored;
    if (role < 0 || ckconv_plan_tensor(plan, pb_roles[role].which, &info, &ignored) != CKCONV_OK) {
        return 0;
    }
    for (int m = 4; m >= 1; m--) {
        double sum = terms * m * m * gain + 4 * 16 * m; /* epilogue terms included */
        double spread = sqrt(terms) * m * m / 2 * gain;
        if (conv_conv) {
            sum = terms1 * (sum * m + m) * m * pb_gain(&both->op_wei1) * pb_gain(last) + 4 * 16 * m;
            spread = sqrt(terms1) * spread * m / 2 * m;
        }
        if (sum <= limit) {
            memset(pattern, 0, sizeof *pattern);
            pattern->kind = PB_INTEGERS;
            pattern->low = -m;
            pattern->high = m;
            double room = pb_largest(info.dtype) / 4;
            if (spread > room) {
                double thin = room / spread;
                pattern->density = thin > 0.05 ? thin : 0.05;
            }
            return 1;
        }
    }
    return 0;
}


/*------------------------------------------------------------------------------------------------------------
  Single outputs, computed here in double from the definition: for problems that ref would take too long for
*/
enum { PB_SAMPLES = 4096 };

/* A read tensor as it is multiplied, in logical order; f32 holds every type but f64. */
typedef struct pb_packed {
    float *narrow;
    double *wide;
} pb_packed;

typedef struct pb_geometry { /* always three spatial dimensions */
    int64_t g, n, k, c, filter[3], input[3], output[3], stride[3], dilation[3], pad[3];
} pb_geometry;

typedef struct pb_sums {
    double value, size, error; /* sum of products, of their absolute values, of what errors of mid add */
} pb_sums;

typedef struct pb_sampler {
    const ckconv_plan *plan;
    const pb_data *data; /* a run of the engine under test: inputs, D tensors, and the results to check */
    pb_geometry q, q1;
    pb_packed a, b, b1; /* the two read tensors in the order of pb_roles; the second convolution's weight */
    pb_packed scale, shift;
    pb_bound bound;
    double mid_share;
    ckconv_dtype type;
} pb_sampler;

PB_FUNCTION double pb_packed_at(const pb_packed *p, int64_t i)
{
    return p->wide != NULL ? p->wide[i] : (double)p->narrow[i];
}

PB_FUNCTION void pb_packed_free(pb_packed *p)
{
    free(p->narrow);
    free(p->wide);
}

PB_FUNCTION int pb_pack(pb_packed *p, const pb_view *view, const pb_reading *reading, int wide)
{
    size_t count = view->info.count > 0 ? (size_t)view->info.count : 1;
    p->wide = wide ? (double *)malloc(count * sizeof(double)) : NULL;
    p->narrow = wide ? NULL : (float *)malloc(count * sizeof(float));
    if (p->wide == NULL && p->narrow == NULL) {
        return 0;
    }
    int64_t rows = pb_rows(&view->info), length = pb_row_length(&view->info);
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (int64_t row = 0; row < rows; row++) {
        double values[PB_PIECE];
        for (int64_t first = 0; first < length; first += PB_PIECE) {
            int64_t n = length - first < PB_PIECE ? length - first : (int64_t)PB_PIECE;
            pb_row_get(&view->info, view->data, row, first, n, values);
            for (int64_t i = 0; i < n; i++) {
                double value = pb_read(reading, values[i]);
                if (wide) {
                    p->wide[row * length + first + i] = value;
                } else {
                    p->narrow[row * length + first + i] = (float)value;
                }
            }
        }
    }
    return 1;
}

/* Which output position reads input position i with tap t; -1: none. */
PB_FUNCTION int64_t pb_output_of(const pb_geometry *q, int axis, int64_t i, int64_t t)
{
    int64_t o = i + q->pad[axis] - t * q->dilation[axis];
    return o < 0 || o % q->stride[axis] != 0 || o / q->stride[axis] >= q->output[axis] ? -1
                                                                                       : o / q->stride[axis];
}

PB_FUNCTION int64_t pb_input_of(const pb_geometry *q, int axis, int64_t o, int64_t t)
{
    int64_t i = o * q->stride[axis] + t * q->dilation[axis] - q->pad[axis];
    return i < 0 || i >= q->input[axis] ? -1 : i;
}

PB_FUNCTION void pb_add_product(pb_sums *s, double a, double b)
{
    s->value += a * b;
    s->size += fabs(a * b);
}

PB_FUNCTION int64_t pb_place(const int64_t *size, int64_t z, int64_t y, int64_t x)
{
    return (z * size[1] + y) * size[2] + x;
}

PB_FUNCTION int64_t pb_volume(const int64_t *size)
{
    return size[0] * size[1] * size[2];
}

/* One output of a forward convolution (o: output position), or of its data gradient (o: input position). */
PB_FUNCTION pb_sums pb_sum_over_taps(const pb_geometry *q, const pb_packed *a, const pb_packed *b,
                                     int backward, int64_t g, int64_t n, int64_t channel, const int64_t *o)
{
    pb_sums s = {0, 0, 0};
    const int64_t *size = backward ? q->output : q->input;
    int64_t channels = backward ? q->k : q->c, taps = pb_volume(q->filter), step = pb_volume(size);
    for (int64_t z = 0; z < q->filter[0]; z++) {
        int64_t pz = backward ? pb_output_of(q, 0, o[0], z) : pb_input_of(q, 0, o[0], z);
        for (int64_t y = 0; pz >= 0 && y < q->filter[1]; y++) {
            int64_t py = backward ? pb_output_of(q, 1, o[1], y) : pb_input_of(q, 1, o[1], y);
            for (int64_t x = 0; py >= 0 && x < q->filter[2]; x++) {
                int64_t px = backward ? pb_output_of(q, 2, o[2], x) : pb_input_of(q, 2, o[2], x);
                if (px < 0) {
                    continue;
                }
                int64_t from = (g * q->n + n) * channels * step + pb_place(size, pz, py, px);
                int64_t tap = pb_place(q->filter, z, y, x);
                for (int64_t i = 0; i < channels; i++) {
                    int64_t k = backward ? i : channel, c = backward ? channel : i;
                    pb_add_product(&s, pb_packed_at(a, from + i * step),
                                   pb_packed_at(b, ((g * q->k + k) * q->c + c) * taps + tap));
                }
            }
        }
    }
    return s;
}

/* One weight gradient: tap t of (g, k, c). */
PB_FUNCTION pb_sums pb_sum_over_outputs(const pb_geometry *q, const pb_packed *in, const pb_packed *dout,
                                        int64_t g, int64_t k, int64_t c, const int64_t *t)
{
    pb_sums s = {0, 0, 0};
    for (int64_t n = 0; n < q->n; n++) {
        int64_t from = ((g * q->n + n) * q->c + c) * pb_volume(q->input);
        int64_t other = ((g * q->n + n) * q->k + k) * pb_volume(q->output);
        for (int64_t z = 0; z < q->output[0]; z++) {
            int64_t iz = pb_input_of(q, 0, z, t[0]);
            for (int64_t y = 0; iz >= 0 && y < q->output[1]; y++) {
                int64_t iy = pb_input_of(q, 1, y, t[1]);
                for (int64_t x = 0; iy >= 0 && x < q->output[2]; x++) {
                    int64_t ix = pb_input_of(q, 2, x, t[2]);
                    if (ix >= 0) {
                        pb_add_product(&s, pb_packed_at(in, from + pb_place(q->input, iz, iy, ix)),
                                       pb_packed_at(dout, other + pb_place(q->output, z, y, x)));
                    }
                }
            }
        }
    }
    return s;
}

PB_FUNCTION double pb_wrap_i8_sum(const pb_sampler *s, double sum)
{
    if (s->type != CKCONV_I8) {
        return sum;
    }
    double turn = 4294967296.0, low = fmod(sum, turn);
    return low >= turn / 2 ? low - turn : low < -turn / 2 ? low + turn : low;
}

/* One output of two convolutions: the tensor between them is computed where it is needed. */
PB_FUNCTION pb_sums pb_sum_of_two(const pb_sampler *s, int64_t g1, int64_t n, int64_t k1, const int64_t *o)
{
    const pb_geometry *q = &s->q, *q1 = &s->q1;
    const ckconv_conv_desc *conv0 = &s->plan->u.conv_conv.conv0;
    pb_sums total = {0, 0, 0};
    int64_t taps = pb_volume(q1->filter);
    double u = s->bound.u, rounded = 2 * pb_unit(conv0->compute_in);
    for (int64_t tap = 0; tap < taps; tap++) {
        int64_t m[3] = {pb_input_of(q1, 0, o[0], tap / (q1->filter[1] * q1->filter[2])),
                        pb_input_of(q1, 1, o[1], tap / q1->filter[2] % q1->filter[1]),
                        pb_input_of(q1, 2, o[2], tap % q1->filter[2])};
        if (m[0] < 0 || m[1] < 0 || m[2] < 0) {
            continue;
        }
        for (int64_t c = 0; c < q1->c; c++) {
            int64_t channel = g1 * q1->c + c;
            double a = s->scale.wide != NULL ? pb_packed_at(&s->scale, channel) : 1;
            double b = s->shift.wide != NULL ? pb_packed_at(&s->shift, channel) : 0;
            pb_sums first = pb_sum_over_taps(q, &s->a, &s->b, 0, channel / q->k, n, channel % q->k, m);
            double size = fabs(a) * first.size + fabs(b);
            double x = a * pb_wrap_i8_sum(s, first.value) + b;
            double before = fabs(a) * s->mid_share * first.size + (s->mid_share > 0 ? 3 * u * size : 0);
            double after = pb_apply_error(&conv0->op_out, before, size, NULL, 0, s->mid_share > 0 ? u : 0);
            double mid = pb_round(conv0->compute_in, pb_apply(&conv0->op_out, x, NULL, 0));
            double w = pb_packed_at(&s->b1, ((g1 * q1->k + k1) * q1->c + c) * taps + tap);
            pb_add_product(&total, mid, w);
            if (after > 0) {
                after += rounded * (fabs(mid) + after) + pb_step(conv0->compute_in);
                total.error += (s->type == CKCONV_I8 ? after + 1 : after) * fabs(w);
            }
        }
    }
    return total;
}

/* Check the element at a linear index of the written tensor. equal: no difference allowed. */
PB_FUNCTION void pb_check_sample(const pb_sampler *s, const pb_view *got, int64_t index, int equal,
                                 pb_report *report)
{
    const ckconv_tensor_info *t = &got->info;
    int64_t length = pb_row_length(t), row = index / length, last = index % length, rest = index;
    int64_t i[6] = {0, 0, 0, 0, 0, 0}; /* two leading indices, channel, then z, y, x */
    for (int axis = t->rank - 1; axis >= 0; axis--) {
        i[axis < 3 ? axis : axis + 6 - t->rank] = rest % t->length[axis];
        rest /= t->length[axis];
    }
    pb_sums x =
        s->plan->op == CKCONV_BWD_WEIGHT ? pb_sum_over_outputs(&s->q, &s->a, &s->b, i[0], i[1], i[2], i + 3)
        : s->plan->op == CKCONV_CONV_CONV_FWD ? pb_sum_of_two(s, i[0], i[1], i[2], i + 3)
        : s->plan->op == CKCONV_BWD_DATA ? pb_sum_over_taps(&s->q, &s->b, &s->a, 1, i[0], i[1], i[2], i + 3)
                                         : pb_sum_over_taps(&s->q, &s->a, &s->b, 0, i[0], i[1], i[2], i + 3);
    double d[PB_MAX_D] = {0, 0, 0, 0}, stored, value, limit = 0;
    unsigned char bytes[8];
    for (int j = 0; j < s->bound.num_d; j++) {
        pb_row_get(&s->bound.d[j].info, s->bound.d[j].data, row, last, 1, &d[j]);
    }
    value = pb_apply(&s->bound.op, pb_wrap_i8_sum(s, x.value), d, s->bound.num_d);
    ckconv_from_double(t->dtype, &value, bytes, 1);
    ckconv_to_double(t->dtype, bytes, &value, 1);
    pb_row_get(t, got->data, row, last, 1, &stored);
    if (!equal) {
        limit = pb_stored_error(t->dtype, value, pb_bound_before(&s->bound, x.size, x.error, d));
    }
#ifdef _OPENMP
#pragma omp critical
#endif
    pb_judge(report, t, row, last, stored, value, limit);
}

PB_FUNCTION void pb_set_geometry(pb_geometry *q, const ckconv_conv_desc *d, const int64_t *output)
{
    q->g = d->g;
    q->n = d->n;
    q->k = d->k;
    q->c = d->c;
    for (int i = 0; i < 3; i++) {
        int from = i - (3 - d->ndim);
        q->filter[i] = from < 0 ? 1 : d->filter[from];
        q->input[i] = from < 0 ? 1 : d->input[from];
        q->output[i] = from < 0 ? 1 : output[from];
        q->stride[i] = from < 0 || d->stride[from] == 0 ? 1 : d->stride[from];
        q->dilation[i] = from < 0 || d->dilation[from] == 0 ? 1 : d->dilation[from];
        q->pad[i] = from < 0 ? 0 : d->pad_lo[from];
    }
}

PB_FUNCTION void pb_sampler_free(pb_sampler *s)
{
    pb_packed_free(&s->a);
    pb_packed_free(&s->b);
    pb_packed_free(&s->b1);
    pb_packed_free(&s->scale);
    pb_packed_free(&s->shift);
}

PB_FUNCTION int pb_sampler_make(pb_sampler *s, const ckconv_plan *plan, const pb_data *data,
                                ckconv_error *err)
{
    memset(s, 0, sizeof *s);
    s->plan = plan;
    s->data = data;
    s->type = pb_arithmetic(plan);
    s->bound.u = pb_unit(s->type == CKCONV_I8 ? CKCONV_F32 : s->type);
    int wide = s->type == CKCONV_F64, two = plan->op == CKCONV_CONV_CONV_FWD, next = 0, good = 1;
    const ckconv_conv_desc *conv = two ? &plan->u.conv_conv.conv0 : &plan->u.conv;
    ckconv_tensor_info out, mid;
    if (ckconv_plan_tensor(plan, CKCONV_TENSOR_OUT, &out, err) != CKCONV_OK ||
        (two && ckconv_plan_tensor(plan, CKCONV_TENSOR_MID, &mid, err) != CKCONV_OK)) {
        return 0;
    }
    pb_set_geometry(&s->q, conv, two ? mid.length + 3 : out.length + 3);
    pb_packed *to[3] = {&s->a, &s->b, &s->b1};
    pb_reading reading[3], plain;
    memset(reading, 0, sizeof reading);
    memset(&plain, 0, sizeof plain);
    for (int r = 0; r < PB_ROLES && good; r++) {
        pb_view view = pb_view_of(data, r);
        int scale = pb_roles[r].member == offsetof(ckconv_args, scale);
        if (data->used[r] != 0 && pb_roles[r].use[plan->op - 1] == 'r' && next < 3) {
            reading[next] = pb_reading_of(plan, r);
            good = pb_pack(to[next], &view, &reading[next], wide);
            next++;
        } else if (data->used[r] != 0 && pb_roles[r].use[plan->op - 1] == 'o') {
            good = pb_pack(scale ? &s->scale : &s->shift, &view, &plain, 1);
        }
    }
    if (!good) {
        return pb_fail(err, "out of memory");
    }
    /* The double sums here know bf16x3 only as "about 16 bits". */
    double loose = reading[0].compute == CKCONV_BF16X3 || reading[1].compute == CKCONV_BF16X3
                       ? 2 * pb_unit(CKCONV_BF16X3)
                       : 0;
    s->bound.direct = 1;
    s->bound.share =
        pb_sum_share(pb_terms(two ? CKCONV_FWD : plan->op, conv, plan), &reading[0], &reading[1], s->type) +
        loose;
    pb_bound_epilogue(&s->bound, plan, data);
    if (two) {
        ckconv_conv_desc second = pb_second_conv(plan, &mid);
        pb_set_geometry(&s->q1, &second, out.length + 3);
        s->mid_share = s->bound.share;
        plain.compute = conv->compute_in;
        s->bound.share = pb_sum_share(pb_terms1(plan), &plain, &reading[2], s->type) + loose;
    }
    return 1;
}

/* Corners and edges of every axis, then positions at random: linear indices of a tensor. */
PB_FUNCTION int64_t pb_choose_samples(const ckconv_tensor_info *t, int64_t *index)
{
    int64_t count = 0;
    if (t->count <= PB_SAMPLES) {
        for (; count < t->count; count++) {
            index[count] = count;
        }
        return count;
    }
    int64_t corners = 8; /* first and last of the three leading indices, five places of each other one */
    for (int axis = 3; axis < t->rank; axis++) {
        corners *= 5;
    }
    for (int64_t corner = 0; corner < corners; corner++) {
        int64_t rest = corner, linear = 0;
        for (int axis = 0; axis < t->rank; axis++) {
            int64_t size = t->length[axis], ways = axis < 3 ? 2 : 5, way = rest % ways;
            int64_t places[5] = {0, size - 1, 1, size - 2, size / 2};
            rest /= ways;
            linear = linear * size + (places[way] < 0 || places[way] >= size ? 0 : places[way]);
        }
        index[count++] = linear;
    }
    for (; count < PB_SAMPLES; count++) {
        index[count] = (int64_t)(pb_random(4096, (uint64_t)count) % (uint64_t)t->count);
    }
    return count;
}

PB_FUNCTION int pb_check_samples(const ckconv_plan *plan, const pb_data *data, int equal, pb_report *report,
                                 ckconv_error *err)
{
    pb_sampler s;
    int good = pb_sampler_make(&s, plan, data, err);
    if (good) {
        int64_t index[PB_SAMPLES];
        pb_view got = pb_view_of(data, pb_written_role(plan));
        int64_t count = pb_choose_samples(&got.info, index);
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 8)
#endif
        for (int64_t i = 0; i < count; i++) {
            pb_check_sample(&s, &got, index[i], equal, report);
        }
    }
    pb_sampler_free(&s);
    return good;
}

#endif /* BOUNDS_H */
