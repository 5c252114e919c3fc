/*------------------------------------------------------------------------------------------------------------
  >>cpu-bias
  dbias of bwd_weight: sums of dout's channels over batch and positions, in a pass of their own. An item owns
  some neighbouring channels, or one whose positions lie side by side, and a part of the positions; its sums
  are double, of which every CKCI_BIAS_RUN begin anew. Parts go through workspace, follow from the shape and
  from the plan's workspace, and are added in their order; without workspace there is one.
*/
#pragma once
#include "cpu/isa.h"
#include "core/layout.h"
#include "core/mean.h"
#include "core/parallel.h"
#include "core/problem.h"

/* Channels, or positions in a row, that are read at a time; positions whose sums are added at a time; parts
   at most, and positions of one at least. */
enum { CKCI_BIAS_WIDTH = 256, CKCI_BIAS_RUN = 256, CKCI_BIAS_PARTS = 32, CKCI_BIAS_LEAST = 4096 };

typedef struct ckci_bias_job {
    ckci_tensor t; /* dout; axis 5 is what lies closest, channels are axis 2 */
    ckci_target target;
    const ckci_kind *kind;
    ckci_copy_kernel widen;           /* rows of f16 or bf16, or NULL */
    int64_t positions, parts, blocks; /* blocks of channels of a group, `width` each */
    int64_t width;
    int32_t along; /* positions lie side by side */
    double *sums;  /* [part][g*k], NULL: one part */
} ckci_bias_job;

CKCI_FN int64_t ckci_bias_positions(const ckci_conv *p)
{
    return p->n * p->output[0] * p->output[1] * p->output[2];
}

/* Parts within `limit` bytes; one for which there is none. */
CKCI_FN int64_t ckci_cpu_bias_parts(const ckci_conv *p, int64_t limit)
{
    int64_t bytes = ckci_saturating_mul(8, p->g * p->k);
    int64_t parts = ckci_min(ckci_bias_positions(p) / CKCI_BIAS_LEAST, CKCI_BIAS_PARTS);
    return ckci_max(ckci_min(parts, limit / ckci_max(bytes, 1)), 1);
}

CKCI_FN int64_t ckci_cpu_bias_bytes(const ckci_conv *p, int64_t limit)
{
    int64_t parts = ckci_cpu_bias_parts(p, limit);
    return parts > 1 ? parts * 8 * p->g * p->k : 0;
}

/* n numbers from element `at` on, `stride` apart, with their operation, as doubles. */
CKCI_FN void ckci_bias_read(const ckci_bias_job *job, int64_t at, int64_t stride, int64_t n, double *out)
{
    const ckci_tensor *t = &job->t;
    float f[CKCI_BIAS_WIDTH];
    int32_t whole[CKCI_BIAS_WIDTH];
    if (job->kind->dtype == CKCONV_F64) {
        ckci_read_d(t, at, stride, n, out);
        return;
    }
    if (job->kind->dtype == CKCONV_I32) {
        ckci_read_i(t, at, stride, n, whole);
        for (int64_t i = 0; i < n; i++) {
            out[i] = (double)whole[i];
        }
        return;
    }
    if (job->widen && stride == 1) {
        job->widen(1, n, t->p + at * 2, n, f, n);
    } else {
        ckci_widen(t, at, stride, n, f);
    }
    for (int64_t i = 0; i < n && t->op.kind != CKCONV_PASS; i++) {
        f[i] = ckci_element_f(&t->op, f[i], NULL, 0);
    }
    for (int64_t i = 0; i < n; i++) {
        out[i] = (double)f[i];
    }
}

/* Element of dout at position m of the walk: axes n, z, y, x, the last one fastest. */
CKCI_FN int64_t ckci_bias_at(const ckci_tensor *t, int64_t m)
{
    static const int axis[4] = {5, 4, 3, 1};
    int64_t at = 0;
    for (int i = 0; i < 4; i++) {
        int64_t len = t->len[axis[i]];
        at += m % len * t->stride[axis[i]];
        m /= len;
    }
    return at;
}

/* Finished sums of `count` channels from `channel` on to their part, or to dbias. */
CKCI_FN void ckci_bias_put(const ckci_bias_job *job, int64_t channel, int64_t count, const double *sum)
{
    int64_t at[6] = {0, 0, 0, 0, 0, 0};
    for (int64_t i = 0; i < count; i++) {
        float f = (float)sum[i];
        at[2] = channel + i;
        if (job->kind->dtype == CKCONV_F64) {
            ckci_write_d(&job->target, at, 2, 1, &sum[i]);
        } else if (job->kind->dtype == CKCONV_I32) {
            /* whole numbers below 2^62, modulo 2^32 */
            uint32_t low = (uint32_t)((uint64_t)(int64_t)sum[i] & 0xffffffffu);
            int32_t whole;
            memcpy(&whole, &low, 4);
            ckci_write_i(&job->target, at, 2, 1, &whole);
        } else {
            ckci_write_f(&job->target, at, 2, 1, &f);
        }
    }
}

CKCI_FN void ckci_bias_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_bias_job *job = (const ckci_bias_job *)context;
    const ckci_tensor *t = &job->t;
    ckci_kept_sum sum[CKCI_BIAS_WIDTH];
    double part[CKCI_BIAS_WIDTH], row[CKCI_BIAS_WIDTH];
    int64_t block = item % job->blocks, rest = item / job->blocks;
    int64_t group = rest % t->len[0], slice = rest / t->len[0];
    int64_t first = block * job->width, count = ckci_min(job->width, t->len[2] - first);
    int64_t from = ckci_share(job->positions, (int32_t)job->parts, (int32_t)slice);
    int64_t to = ckci_share(job->positions, (int32_t)job->parts, (int32_t)slice + 1);
    int64_t base = group * t->stride[0] + first * t->stride[2];
    (void)scratch;
    memset(sum, 0, sizeof sum);
    memset(part, 0, sizeof part);
    for (int64_t m = from, run = 0; m < to;) {
        if (job->along) {
            /* one channel: its positions, up to the end of a row, on eight sums */
            int64_t n = ckci_min(ckci_min(t->len[5] - m % t->len[5], to - m), CKCI_BIAS_WIDTH);
            ckci_bias_read(job, base + ckci_bias_at(t, m), t->stride[5], n, row);
            for (int64_t i = 0; i < n; i++) {
                part[i % 8] += row[i];
            }
            m += n;
            run += ckci_ceil_div(n, 8);
        } else {
            ckci_bias_read(job, base + ckci_bias_at(t, m), t->stride[2], count, row);
            for (int64_t i = 0; i < count; i++) {
                part[i] += row[i];
            }
            m++;
            run++;
        }
        if (run >= CKCI_BIAS_RUN || m >= to) {
            for (int64_t i = 0; i < (job->along ? 8 : count); i++) {
                ckci_add_to_sum(&sum[job->along ? 0 : i], part[i]);
                part[i] = 0;
            }
            run = 0;
        }
    }
    for (int64_t i = 0; i < count; i++) {
        row[i] = ckci_sum_total(&sum[i]);
    }
    int64_t channel = group * t->len[2] + first;
    if (job->sums) {
        memcpy(job->sums + slice * t->len[0] * t->len[2] + channel, row, (size_t)count * 8);
    } else {
        ckci_bias_put(job, channel, count, row);
    }
}

/* The parts of CKCI_BIAS_WIDTH channels, in their order. */
CKCI_FN void ckci_bias_sum_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_bias_job *job = (const ckci_bias_job *)context;
    int64_t all = job->t.len[0] * job->t.len[2], end = ckci_min((item + 1) * CKCI_BIAS_WIDTH, all);
    (void)scratch;
    for (int64_t channel = item * CKCI_BIAS_WIDTH; channel < end; channel++) {
        ckci_kept_sum sum = {0, 0};
        for (int64_t part = 0; part < job->parts; part++) {
            ckci_add_to_sum(&sum, job->sums[part * all + channel]);
        }
        double total = ckci_sum_total(&sum);
        ckci_bias_put(job, channel, 1, &total);
    }
}

CKCI_FN void ckci_cpu_bias(const ckci_conv *p, int32_t features, int32_t threads, int64_t limit,
                           unsigned char *ws)
{
    ckci_bias_job job;
    memset(&job, 0, sizeof job);
    job.t = p->t[CKCI_OUT];
    job.target = ckci_bias_target(p);
    job.kind = ckci_find_kind(job.t.compute);
    job.positions = ckci_bias_positions(p);
    job.parts = ckci_cpu_bias_parts(p, limit);
    job.sums = job.parts > 1 ? (double *)(void *)ws : NULL;
    ckci_sort_positions(&job.t);
    ckci_join_positions(&job.t);
    if (job.kind->dtype == CKCONV_F32) {
        const ckci_kernels *k = ckci_find_kernels(features, CKCONV_F32);
        job.widen = (uintptr_t)job.t.p % 2 != 0  ? NULL
                    : job.t.dtype == CKCONV_F16  ? k->widen16
                    : job.t.dtype == CKCONV_BF16 ? k->widen
                                                 : NULL;
    }
    job.along = job.t.len[2] == 1 || (job.t.len[5] > 1 && job.t.stride[5] < job.t.stride[2]);
    job.width = job.along ? 1 : CKCI_BIAS_WIDTH;
    /* as many items as there are parts, at least: narrower blocks where there are no parts */
    while (job.width > 16 && job.parts == 1 && ckci_ceil_div(job.t.len[2], job.width) < 32) {
        job.width /= 2;
    }
    job.blocks = ckci_ceil_div(job.t.len[2], job.width);
    ckci_parallel(threads, job.blocks * job.t.len[0] * job.parts, ckci_bias_item, &job, NULL, 0);
    if (job.sums) {
        ckci_parallel(threads, ckci_ceil_div(p->g * p->k, CKCI_BIAS_WIDTH), ckci_bias_sum_item, &job, NULL,
                      0);
    }
}
