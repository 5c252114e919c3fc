/*------------------------------------------------------------------------------------------------------------
  >>ref
  Naive loops straight from the definitions, double sums (int64 for i8, kept modulo 2^32 as int32 hardware
  does). One work item computes all positions of one channel of one batch entry, or of one filter. This is the
  specification: whatever differs from it in another engine by more than rounding is that engine's fault, and
  so it takes nothing but core/ and no cleverness. Group norm keeps what rounding takes from its sums, since
  engines are judged by it.
*/
#pragma once
#include "core/layout.h"
#include "core/mean.h"
#include "core/parallel.h"

CKCI_FN double ckci_ref_value(const ckci_tensor *t, int64_t a, int64_t b, int64_t c, int64_t z, int64_t y,
                              int64_t x)
{
    int64_t at = a * t->stride[0] + b * t->stride[1] + c * t->stride[2] + z * t->stride[3] +
                 y * t->stride[4] + x * t->stride[5];
    double v = ckci_load(t->dtype, t->p + at * (int64_t)ckci_size(t->dtype));
    if (t->plain) {
        return v;
    }
    if (t->dtype == CKCONV_F64) {
        return ckci_element_d(&t->op, v, NULL, 0);
    }
    float f = ckci_element_f(&t->op, (float)v, NULL, 0);
    return t->compute == CKCONV_I8 ? (double)ckci_to_int((double)f, -128, 127)
                                   : (double)ckci_round_float(t->compute, f);
}

typedef struct ckci_ref_job {
    const ckci_conv *p;
    ckci_target target;
} ckci_ref_job;

/* A product as a whole number; only i8 sums need it, and only there it is one. */
CKCI_FN int64_t ckci_whole(double product, int i8)
{
    return i8 ? (int64_t)product : 0;
}

/* sum over taps and input channels for out[g,n,k,o] */
CKCI_FN double ckci_ref_fwd(const ckci_conv *p, int64_t g, int64_t n, int64_t k, const int64_t o[3],
                            int64_t *whole)
{
    double sum = 0;
    int i8 = p->t[CKCI_WEI].compute == CKCONV_I8;
    for (int64_t fz = 0; fz < p->filter[0]; fz++) {
        int64_t z = o[0] * p->stride[0] + fz * p->dilation[0] - p->pad[0];
        for (int64_t fy = 0; fy < p->filter[1] && z >= 0 && z < p->input[0]; fy++) {
            int64_t y = o[1] * p->stride[1] + fy * p->dilation[1] - p->pad[1];
            for (int64_t fx = 0; fx < p->filter[2] && y >= 0 && y < p->input[1]; fx++) {
                int64_t x = o[2] * p->stride[2] + fx * p->dilation[2] - p->pad[2];
                for (int64_t c = 0; c < p->c && x >= 0 && x < p->input[2]; c++) {
                    double product = ckci_ref_value(&p->t[CKCI_IN], g, n, c, z, y, x) *
                                     ckci_ref_value(&p->t[CKCI_WEI], g, k, c, fz, fy, fx);
                    sum += product;
                    *whole += ckci_whole(product, i8);
                }
            }
        }
    }
    return sum;
}

/* sum over those taps and output channels that input position i takes part in: i + pad = o*stride +
   f*dilation */
CKCI_FN int ckci_ref_source(const ckci_conv *p, int dim, int64_t i, int64_t f, int64_t *o)
{
    int64_t t = i + p->pad[dim] - f * p->dilation[dim];
    *o = t / p->stride[dim];
    return t >= 0 && t % p->stride[dim] == 0 && *o < p->output[dim];
}

CKCI_FN double ckci_ref_bwd_data(const ckci_conv *p, int64_t g, int64_t n, int64_t c, const int64_t i[3],
                                 int64_t *whole)
{
    double sum = 0;
    int i8 = p->t[CKCI_WEI].compute == CKCONV_I8;
    int64_t z, y, x;
    for (int64_t fz = 0; fz < p->filter[0]; fz++) {
        int has_z = ckci_ref_source(p, 0, i[0], fz, &z);
        for (int64_t fy = 0; fy < p->filter[1] && has_z; fy++) {
            int has_y = ckci_ref_source(p, 1, i[1], fy, &y);
            for (int64_t fx = 0; fx < p->filter[2] && has_y; fx++) {
                int has_x = ckci_ref_source(p, 2, i[2], fx, &x);
                for (int64_t k = 0; k < p->k && has_x; k++) {
                    double product = ckci_ref_value(&p->t[CKCI_OUT], g, n, k, z, y, x) *
                                     ckci_ref_value(&p->t[CKCI_WEI], g, k, c, fz, fy, fx);
                    sum += product;
                    *whole += ckci_whole(product, i8);
                }
            }
        }
    }
    return sum;
}

/* sum over batch and output positions for wei[g,k,c,f] */
CKCI_FN double ckci_ref_bwd_weight(const ckci_conv *p, int64_t g, int64_t k, int64_t c, const int64_t f[3],
                                   int64_t *whole)
{
    double sum = 0;
    int i8 = p->t[CKCI_IN].compute == CKCONV_I8;
    for (int64_t n = 0; n < p->n; n++) {
        for (int64_t oz = 0; oz < p->output[0]; oz++) {
            int64_t z = oz * p->stride[0] + f[0] * p->dilation[0] - p->pad[0];
            for (int64_t oy = 0; oy < p->output[1] && z >= 0 && z < p->input[0]; oy++) {
                int64_t y = oy * p->stride[1] + f[1] * p->dilation[1] - p->pad[1];
                for (int64_t ox = 0; ox < p->output[2] && y >= 0 && y < p->input[1]; ox++) {
                    int64_t x = ox * p->stride[2] + f[2] * p->dilation[2] - p->pad[2];
                    if (x >= 0 && x < p->input[2]) {
                        double product = ckci_ref_value(&p->t[CKCI_IN], g, n, c, z, y, x) *
                                         ckci_ref_value(&p->t[CKCI_OUT], g, n, k, oz, oy, ox);
                        sum += product;
                        *whole += ckci_whole(product, i8);
                    }
                }
            }
        }
    }
    return sum;
}

/* int64 -> int32 modulo 2^32 */
CKCI_FN int32_t ckci_wrap(int64_t x)
{
    uint32_t u = (uint32_t)((uint64_t)x & 0xffffffffu);
    int32_t i;
    memcpy(&i, &u, 4);
    return i;
}

/* Hand one finished sum to the epilogue. */
CKCI_FN void ckci_ref_write(const ckci_target *o, const int64_t at[6], double sum, int64_t whole,
                            ckconv_dtype compute)
{
    float f = (float)sum;
    int32_t i = ckci_wrap(whole);
    if (compute == CKCONV_F64) {
        ckci_write_d(o, at, 2, 1, &sum);
    } else if (compute == CKCONV_I8) {
        ckci_write_i(o, at, 2, 1, &i);
    } else {
        ckci_write_f(o, at, 2, 1, &f);
    }
}

CKCI_FN void ckci_ref_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_ref_job *job = (const ckci_ref_job *)context;
    const ckci_conv *p = job->p;
    const int64_t *len = job->target.t.len;
    ckconv_dtype compute = p->t[ckci_base(p->op)].compute;
    int64_t at[6];
    at[2] = item % len[2];
    at[1] = item / len[2] % len[1];
    at[0] = item / len[2] / len[1];
    (void)scratch;
    for (at[3] = 0; at[3] < len[3]; at[3]++) {
        for (at[4] = 0; at[4] < len[4]; at[4]++) {
            for (at[5] = 0; at[5] < len[5]; at[5]++) {
                int64_t whole = 0;
                double sum = p->op == CKCONV_FWD ? ckci_ref_fwd(p, at[0], at[1], at[2], at + 3, &whole)
                             : p->op == CKCONV_BWD_DATA
                                 ? ckci_ref_bwd_data(p, at[0], at[1], at[2], at + 3, &whole)
                                 : ckci_ref_bwd_weight(p, at[0], at[1], at[2], at + 3, &whole);
                ckci_ref_write(&job->target, at, sum, whole, compute);
            }
        }
    }
}

CKCI_FN void ckci_ref_conv(const ckci_conv *p, int32_t threads)
{
    ckci_ref_job job;
    job.p = p;
    job.target = ckci_make_target(p);
    const int64_t *len = job.target.t.len;
    ckci_parallel(threads, len[0] * len[1] * len[2], ckci_ref_item, &job, NULL, 0);
}

/* dbias[channel]: dout's numbers as dwei multiplies them, but not rounded to the compute type (i8: whole). */
CKCI_FN void ckci_ref_bias_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_ref_job *job = (const ckci_ref_job *)context;
    ckci_tensor t = job->p->t[CKCI_OUT];
    int64_t at[6], to[6] = {0, 0, 0, 0, 0, 0}, whole = 0;
    ckci_kept_sum sum = {0, 0};
    ckconv_dtype compute = t.compute == CKCONV_F64 || t.compute == CKCONV_I8 ? t.compute : CKCONV_F32;
    (void)scratch;
    t.compute = compute;
    at[0] = item / t.len[2];
    at[2] = item % t.len[2];
    for (at[1] = 0; at[1] < t.len[1]; at[1]++) {
        for (at[3] = 0; at[3] < t.len[3]; at[3]++) {
            for (at[4] = 0; at[4] < t.len[4]; at[4]++) {
                for (at[5] = 0; at[5] < t.len[5]; at[5]++) {
                    double v = ckci_ref_value(&t, at[0], at[1], at[2], at[3], at[4], at[5]);
                    ckci_add_to_sum(&sum, v);
                    whole += ckci_whole(v, compute == CKCONV_I8);
                }
            }
        }
    }
    to[2] = item;
    ckci_ref_write(&job->target, to, ckci_sum_total(&sum), whole, compute);
}

CKCI_FN void ckci_ref_bias(const ckci_conv *p, int32_t threads)
{
    ckci_ref_job job;
    job.p = p;
    job.target = ckci_bias_target(p);
    ckci_parallel(threads, p->g * p->k, ckci_ref_bias_item, &job, NULL, 0);
}

/* The pair without workspace: mid is computed where it is needed, CKCI_REF_MID channels at a time, for
   CKCI_REF_OUT output channels at a time. A work item owns one output position, in all channels. */
enum { CKCI_REF_MID = CKCI_STACK / 32, CKCI_REF_OUT = CKCI_STACK / 64 };

typedef struct ckci_ref_pair {
    const ckci_conv *first, *second;
    ckci_target mid, out; /* mid: scale, shift, operation and rounding */
} ckci_ref_pair;

/* mid at one position, channel g*k+... of conv0, finished and rounded to the compute type */
CKCI_FN double ckci_ref_mid(const ckci_ref_pair *job, int64_t n, int64_t channel, const int64_t o[3])
{
    const ckci_conv *p = job->first;
    int64_t whole = 0;
    double sum = ckci_ref_fwd(p, channel / p->k, n, channel % p->k, o, &whole);
    ckconv_dtype compute = p->t[CKCI_IN].compute;
    if (compute == CKCONV_F64) {
        return ckci_finish_d(&job->mid, sum, NULL, channel);
    }
    if (compute != CKCONV_I8) {
        return (double)ckci_finish_f(&job->mid, (float)sum, NULL, channel);
    }
    int bare = job->mid.t.op.kind == CKCONV_PASS && !job->mid.scale && !job->mid.shift;
    int32_t i = ckci_wrap(whole);
    return (double)ckci_to_int(bare ? (double)i : (double)ckci_finish_f(&job->mid, (float)i, NULL, channel),
                               -128, 127);
}

/* Add the products of mid channels [c0, c0 + count) of tap f to the sums of output channels [k0, k0 +
   outs). */
CKCI_FN void ckci_ref_pair_tap(const ckci_ref_pair *job, int64_t g1, int64_t c0, int64_t count,
                               const double *mid, int64_t k0, int64_t outs, const int64_t f[3], double *sum,
                               int64_t *whole)
{
    for (int64_t k = 0; k < outs; k++) {
        for (int64_t c = 0; c < count; c++) {
            double product =
                mid[c] * ckci_ref_value(&job->second->t[CKCI_WEI], g1, k0 + k, c0 + c, f[0], f[1], f[2]);
            sum[k] += product;
            whole[k] += job->first->t[CKCI_IN].compute == CKCONV_I8 ? (int64_t)product : 0;
        }
    }
}

CKCI_FN void ckci_ref_pair_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_ref_pair *job = (const ckci_ref_pair *)context;
    const ckci_conv *p = job->second;
    double *mid = (double *)(void *)scratch, *sum = mid + CKCI_REF_MID;
    int64_t *whole = (int64_t *)(void *)(sum + CKCI_REF_OUT);
    int64_t at[6], f[3], o[3];
    at[5] = item % p->output[2];
    at[4] = item / p->output[2] % p->output[1];
    at[3] = item / p->output[2] / p->output[1] % p->output[0];
    at[1] = item / p->output[2] / p->output[1] / p->output[0];
    for (int64_t q = 0; q < p->g * p->k; q += ckci_min(CKCI_REF_OUT, p->k - q % p->k)) {
        int64_t outs = ckci_min(CKCI_REF_OUT, p->k - q % p->k);
        at[0] = q / p->k;
        memset(sum, 0, CKCI_REF_OUT * sizeof sum[0]);
        memset(whole, 0, CKCI_REF_OUT * sizeof whole[0]);
        for (int64_t tap = 0; tap < p->filter[0] * p->filter[1] * p->filter[2]; tap++) {
            f[2] = tap % p->filter[2];
            f[1] = tap / p->filter[2] % p->filter[1];
            f[0] = tap / p->filter[2] / p->filter[1];
            int inside = 1;
            for (int i = 0; i < 3; i++) {
                o[i] = at[3 + i] * p->stride[i] + f[i] * p->dilation[i] - p->pad[i];
                inside = inside && o[i] >= 0 && o[i] < p->input[i];
            }
            for (int64_t c0 = 0; c0 < p->c && inside; c0 += CKCI_REF_MID) {
                int64_t count = ckci_min(CKCI_REF_MID, p->c - c0);
                for (int64_t c = 0; c < count; c++) {
                    mid[c] = ckci_ref_mid(job, at[1], at[0] * p->c + c0 + c, o);
                }
                ckci_ref_pair_tap(job, at[0], c0, count, mid, q % p->k, outs, f, sum, whole);
            }
        }
        for (int64_t k = 0; k < outs; k++) {
            at[2] = q % p->k + k;
            ckci_ref_write(&job->out, at, sum[k], whole[k], job->first->t[CKCI_IN].compute);
        }
    }
}

/* The copy of mid that the caller asked for: one work item per position. */
CKCI_FN void ckci_ref_mid_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_ref_pair *job = (const ckci_ref_pair *)context;
    const ckci_conv *p = job->first;
    const ckci_tensor *t = &p->t[CKCI_OUT];
    int64_t at[6];
    (void)scratch;
    at[5] = item % p->output[2];
    at[4] = item / p->output[2] % p->output[1];
    at[3] = item / p->output[2] / p->output[1] % p->output[0];
    at[1] = item / p->output[2] / p->output[1] / p->output[0];
    for (int64_t channel = 0; channel < p->g * p->k; channel++) {
        at[0] = channel / p->k;
        at[2] = channel % p->k;
        ckci_store(t->dtype, t->p + ckci_offset(t->stride, at) * (int64_t)ckci_size(t->dtype),
                   ckci_ref_mid(job, at[1], channel, at + 3));
    }
}

CKCI_FN ckci_ref_pair ckci_make_ref_pair(const ckci_conv_conv *p, const ckconv_args *args)
{
    ckci_ref_pair job;
    memset(&job, 0, sizeof job);
    job.first = &p->first;
    job.second = &p->second;
    job.mid = ckci_make_target(&p->first);
    job.mid.scale = (const unsigned char *)args->scale;
    job.mid.shift = (const unsigned char *)args->shift;
    job.mid.compute = p->first.t[CKCI_IN].compute;
    job.out = ckci_make_target(&p->second);
    return job;
}

CKCI_FN void ckci_ref_conv_conv(const ckci_conv_conv *p, const ckconv_args *args, int32_t threads)
{
    ckci_ref_pair job = ckci_make_ref_pair(p, args);
    const ckci_conv *a = &p->first, *b = &p->second;
    ckci_parallel(threads, b->n * b->output[0] * b->output[1] * b->output[2], ckci_ref_pair_item, &job, NULL,
                  CKCI_STACK);
    if (args->mid) {
        ckci_parallel(threads, a->n * a->output[0] * a->output[1] * a->output[2], ckci_ref_mid_item, &job,
                      NULL, 0);
    }
}

/* Group norm: one work item per (n, g) for y, statistics and dx; one for each entry of dgamma and dbeta. */
typedef struct ckci_norm_job {
    const ckci_groupnorm *p;
    const ckconv_args *args;
} ckci_norm_job;

/* Mean and inverse standard deviation of (n, g), in two passes over values less a guess of the mean, at first
   one of them: equal values have that mean exactly. A saved deviation is taken; a saved mean is not, since it
   is rounded. */
CKCI_FN void ckci_ref_statistics(const ckci_norm_job *job, int64_t n, int64_t g, ckci_mean *mean,
                                 double *inv_std)
{
    const ckci_groupnorm *p = job->p;
    const ckci_tensor *t = &p->in;
    int64_t entry = (n * p->g + g) * (int64_t)ckci_size(p->stat);
    double count = (double)p->c * (double)p->space, variance = 0;
    mean->high = ckci_ref_value(t, g, n, 0, 0, 0, 0);
    mean->low = 0;
    for (int pass = 0; pass < 2; pass++) {
        ckci_kept_sum sum = {0, 0}, square = {0, 0};
        for (int64_t z = 0; z < t->len[3]; z++) {
            for (int64_t y = 0; y < t->len[4]; y++) {
                for (int64_t x = 0; x < t->len[5]; x++) {
                    for (int64_t c = 0; c < p->c; c++) {
                        double v = ckci_less_mean(ckci_ref_value(t, g, n, c, z, y, x), mean);
                        ckci_add_to_sum(&sum, v);
                        ckci_add_to_sum(&square, v * v);
                    }
                }
            }
        }
        double more = ckci_sum_total(&sum) / count;
        *mean = ckci_add_to_mean(mean, more);
        variance = ckci_sum_total(&square) / count - more * more;
    }
    if (p->op == CKCONV_GROUPNORM_BWD && job->args->saved_mean) {
        *inv_std = ckci_load(p->stat, (const unsigned char *)job->args->saved_inv_std + entry);
    } else {
        *inv_std = 1 / sqrt((variance < 0 ? 0 : variance) + p->eps);
    }
}

/* xhat, and dy with the activation undone, at one position */
CKCI_FN double ckci_ref_gradient(const ckci_norm_job *job, const int64_t at[6], const ckci_mean *mean,
                                 double inv_std, double *xhat)
{
    const ckci_groupnorm *p = job->p;
    int64_t channel = at[0] * p->c + at[2];
    double x = ckci_ref_value(&p->in, at[0], at[1], at[2], at[3], at[4], at[5]);
    *xhat = ckci_less_mean(x, mean) * inv_std;
    double dy = ckci_ref_value(&p->out, at[0], at[1], at[2], at[3], at[4], at[5]);
    if (p->act != CKCONV_PASS) {
        double v = *xhat * ckci_param(p, job->args->gamma, at[1], channel, 1) +
                   ckci_param(p, job->args->beta, at[1], channel, 0);
        dy = ckci_undo_act(p->act, v, dy);
    }
    return dy;
}

CKCI_FN void ckci_ref_norm_fwd_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_norm_job *job = (const ckci_norm_job *)context;
    const ckci_groupnorm *p = job->p;
    const ckci_tensor *t = &p->out;
    int64_t at[6];
    ckci_mean mean;
    double inv_std;
    ckconv_element_op act;
    memset(&act, 0, sizeof act);
    act.kind = p->act;
    (void)scratch;
    at[0] = item % p->g;
    at[1] = item / p->g;
    ckci_ref_statistics(job, at[1], at[0], &mean, &inv_std);
    int64_t entry = item * (int64_t)ckci_size(p->stat);
    if (job->args->mean) {
        ckci_store(p->stat, (unsigned char *)job->args->mean + entry, mean.high + mean.low);
    }
    if (job->args->inv_std) {
        ckci_store(p->stat, (unsigned char *)job->args->inv_std + entry, inv_std);
    }
    for (at[3] = 0; at[3] < t->len[3]; at[3]++) {
        for (at[4] = 0; at[4] < t->len[4]; at[4]++) {
            for (at[5] = 0; at[5] < t->len[5]; at[5]++) {
                for (at[2] = 0; at[2] < p->c; at[2]++) {
                    double x = ckci_ref_value(&p->in, at[0], at[1], at[2], at[3], at[4], at[5]);
                    int64_t channel = at[0] * p->c + at[2];
                    double v = ckci_less_mean(x, &mean) * inv_std *
                                   ckci_param(p, job->args->gamma, at[1], channel, 1) +
                               ckci_param(p, job->args->beta, at[1], channel, 0);
                    ckci_store(t->dtype, t->p + ckci_offset(t->stride, at) * (int64_t)ckci_size(t->dtype),
                               ckci_element_d(&act, v, NULL, 0));
                }
            }
        }
    }
}

CKCI_FN void ckci_ref_norm_din_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_norm_job *job = (const ckci_norm_job *)context;
    const ckci_groupnorm *p = job->p;
    const ckci_tensor *t = &p->din;
    int64_t at[6];
    ckci_mean mean;
    double inv_std, xhat, count = (double)p->c * (double)p->space;
    ckci_kept_sum a = {0, 0}, b = {0, 0};
    (void)scratch;
    at[0] = item % p->g;
    at[1] = item / p->g;
    ckci_ref_statistics(job, at[1], at[0], &mean, &inv_std);
    for (int pass = 0; pass < 2; pass++) {
        double mean_a = ckci_sum_total(&a) / count, mean_b = ckci_sum_total(&b) / count;
        for (at[3] = 0; at[3] < t->len[3]; at[3]++) {
            for (at[4] = 0; at[4] < t->len[4]; at[4]++) {
                for (at[5] = 0; at[5] < t->len[5]; at[5]++) {
                    for (at[2] = 0; at[2] < p->c; at[2]++) {
                        double dy = ckci_ref_gradient(job, at, &mean, inv_std, &xhat);
                        dy *= ckci_param(p, job->args->gamma, at[1], at[0] * p->c + at[2], 1);
                        if (pass == 0) {
                            ckci_add_to_sum(&a, dy);
                            ckci_add_to_sum(&b, dy * xhat);
                        } else {
                            ckci_store(t->dtype,
                                       t->p + ckci_offset(t->stride, at) * (int64_t)ckci_size(t->dtype),
                                       inv_std * (dy - mean_a - xhat * mean_b));
                        }
                    }
                }
            }
        }
    }
}

CKCI_FN void ckci_ref_norm_param_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_norm_job *job = (const ckci_norm_job *)context;
    const ckci_groupnorm *p = job->p;
    const ckci_tensor *t = &p->in;
    int64_t at[6], size = (int64_t)ckci_size(p->param);
    ckci_mean mean;
    double inv_std, xhat;
    ckci_kept_sum dgamma = {0, 0}, dbeta = {0, 0};
    (void)scratch;
    /* an item is a channel of all groups, with param_step one of an entry */
    const int64_t first = p->param_step > 0 ? item / p->param_step : 0;
    const int64_t channel = item - first * p->param_step;
    const int64_t end = p->param_step > 0 ? first + 1 : p->n;
    at[0] = channel / p->c;
    at[2] = channel % p->c;
    for (at[1] = first; at[1] < end; at[1]++) {
        ckci_ref_statistics(job, at[1], at[0], &mean, &inv_std);
        for (at[3] = 0; at[3] < t->len[3]; at[3]++) {
            for (at[4] = 0; at[4] < t->len[4]; at[4]++) {
                for (at[5] = 0; at[5] < t->len[5]; at[5]++) {
                    double dy = ckci_ref_gradient(job, at, &mean, inv_std, &xhat);
                    ckci_add_to_sum(&dgamma, dy * xhat);
                    ckci_add_to_sum(&dbeta, dy);
                }
            }
        }
    }
    if (job->args->dgamma) {
        ckci_store(p->param, (unsigned char *)job->args->dgamma + item * size, ckci_sum_total(&dgamma));
    }
    if (job->args->dbeta) {
        ckci_store(p->param, (unsigned char *)job->args->dbeta + item * size, ckci_sum_total(&dbeta));
    }
}

CKCI_FN void ckci_ref_groupnorm(const ckci_groupnorm *p, const ckconv_args *args, int32_t threads)
{
    ckci_norm_job job;
    job.p = p;
    job.args = args;
    if (p->op == CKCONV_GROUPNORM_FWD) {
        ckci_parallel(threads, p->n * p->g, ckci_ref_norm_fwd_item, &job, NULL, 0);
        return;
    }
    if (args->din) {
        ckci_parallel(threads, p->n * p->g, ckci_ref_norm_din_item, &job, NULL, 0);
    }
    if (args->dgamma || args->dbeta) {
        ckci_parallel(threads, ckci_param_count(p), ckci_ref_norm_param_item, &job, NULL, 0);
    }
}
