/*------------------------------------------------------------------------------------------------------------
  >>cpu-turn
  Convolutions of tensors whose positions lie side by side (channels first) as ones of copies whose channels
  do: what is read is turned into workspace before, what is written out of it after, with its epilogue. Small
  planes make short rows, where a call for each channel's row costs more than the arithmetic; turned, all
  channels of a position are one row, and every number is moved once each way. Any instance of cpu/ computes
  between the two; the plan keeps which tensors are turned. An item owns some channels of one batch entry.
*/
#pragma once
#include "core/parallel.h"
#include "core/problem.h"
#include "cpu/weight.h"
#include "cpu/along_weight.h"

enum {
    CKCI_TURN_ROWS = 32,     /* channels of an item */
    CKCI_TURN_COLUMNS = 64,  /* positions of a buffer */
    CKCI_TURN_NEAR = 1 << 19 /* bytes of a copy that stays in L2; others cost twice the time */
};

/* Elements between neighbours of all groups' channels; 0: they do not lie evenly, or need not be turned. */
CKCI_FN int64_t ckci_turn_step(const ckci_tensor *t)
{
    int64_t step = t->len[2] == 1 ? t->stride[0] : t->stride[2];
    int even = t->len[0] == 1 || t->len[2] == 1 || t->stride[0] == t->len[2] * t->stride[2];
    int planes = t->stride[5] == 1 && t->len[3] * t->len[4] * t->len[5] > 1;
    return even && planes && step > 1 && t->len[0] * t->len[2] > 1 ? step : 0;
}

/* The problem with turned copies of in and out, those of which `mask` has a bit (1 << CKCI_IN ...), from `ws`
   on. Returns their bytes. */
CKCI_FN int64_t ckci_turn_conv(const ckci_conv *p, int64_t mask, unsigned char *ws, ckci_conv *q)
{
    const ckci_kind *kind = ckci_find_kind(p->t[p->op == CKCONV_BWD_WEIGHT ? CKCI_IN : CKCI_WEI].compute);
    int64_t bytes = 0;
    *q = *p;
    for (int i = 0; i < 3; i++) {
        ckci_tensor *t = &q->t[i];
        if (!(mask >> i & 1)) {
            continue;
        }
        ckconv_dtype compute = t->compute;
        ckci_dense_mid(t, kind->dtype, t->len[0], t->len[1], t->len[2], t->len + 3, ws ? ws + bytes : NULL);
        t->compute = compute; /* says which kind of number it is: values are rounded to it already */
        memset(&t->op, 0, sizeof t->op);
        bytes =
            ckci_saturating_add(bytes, ckci_line_up(ckci_saturating_mul(ckci_count(&p->t[i]), kind->size)));
        if (i == ckci_written(p->op)) {
            q->num_d = 0;
        }
    }
    return bytes;
}

typedef struct ckci_turn_job {
    const ckci_kind *kind;
    const ckci_kernels *k;
    const ckci_tensor *t;
    ckci_target target; /* of what is written */
    unsigned char *dense;
    int64_t step, blocks, run, lines; /* positions side by side, and how many such lines a channel has */
} ckci_turn_job;

/* Positions that lie in one run: whole planes, if rows are neighbours. */
CKCI_FN void ckci_turn_lines(ckci_turn_job *job, int whole)
{
    const ckci_tensor *t = job->t;
    int axis = 5;
    job->run = t->len[5];
    while (whole && axis > 3 && (t->stride[axis - 1] == job->run || t->len[axis - 1] == 1)) {
        job->run *= t->len[--axis];
    }
    job->lines = t->len[3] * t->len[4] * t->len[5] / ckci_max(job->run, 1);
}

/* Line `line` of a channel, in elements, and its place. */
CKCI_FN int64_t ckci_turn_line(const ckci_turn_job *job, int64_t line, int64_t at[6])
{
    int64_t first = line * job->run, rows = first / job->t->len[5];
    at[5] = first % job->t->len[5];
    at[4] = rows % job->t->len[4];
    at[3] = rows / job->t->len[4];
    return at[3] * job->t->stride[3] + at[4] * job->t->stride[4] + at[5];
}

CKCI_FN void ckci_turn_in_item(const void *context, int64_t item, unsigned char *scratch)
{
    double buffer[8 * CKCI_TURN_COLUMNS];
    const ckci_turn_job *job = (const ckci_turn_job *)context;
    const ckci_tensor *t = job->t;
    int64_t size = job->kind->size, channels = t->len[0] * t->len[2], n = item / job->blocks, at[6];
    int64_t first = item % job->blocks * CKCI_TURN_ROWS, rows = ckci_min(channels - first, CKCI_TURN_ROWS);
    int bare = t->plain && t->dtype == job->kind->dtype && (uintptr_t)t->p % (uintptr_t)size == 0;
    unsigned char *dense = job->dense + (n * job->lines * job->run * channels + first) * size;
    (void)scratch;
    for (int64_t line = 0; line < job->lines; line++, dense += job->run * channels * size) {
        int64_t from = n * t->stride[1] + first * job->step + ckci_turn_line(job, line, at);
        if (bare) {
            job->k->turn(rows, job->run, t->p + from * size, job->step, dense, channels);
            continue;
        }
        for (int64_t r = 0, some; r < rows; r += some) {
            some = ckci_min(rows - r, 8);
            for (int64_t x = 0, wide; x < job->run; x += wide) {
                wide = ckci_min(job->run - x, CKCI_TURN_COLUMNS);
                for (int64_t i = 0; i < some; i++) {
                    job->kind->read(t, from + (r + i) * job->step + x, 1, wide,
                                    (unsigned char *)buffer + i * wide * size);
                }
                job->k->turn(some, wide, buffer, wide, dense + (x * channels + r) * size, channels);
            }
        }
    }
}

CKCI_FN void ckci_turn_out_item(const void *context, int64_t item, unsigned char *scratch)
{
    double buffer[8 * CKCI_TURN_COLUMNS];
    const ckci_turn_job *job = (const ckci_turn_job *)context;
    const ckci_tensor *t = job->t;
    int64_t size = job->kind->size, channels = t->len[0] * t->len[2], n = item / job->blocks, at[6];
    int64_t first = item % job->blocks * CKCI_TURN_ROWS, rows = ckci_min(channels - first, CKCI_TURN_ROWS);
    int bare = job->run > t->len[5] || job->target.t.dtype == job->kind->dtype;
    const unsigned char *dense = job->dense + (n * job->lines * job->run * channels + first) * size;
    (void)scratch;
    bare = bare && job->target.t.op.kind == CKCONV_PASS && (uintptr_t)t->p % (uintptr_t)size == 0;
    at[1] = n;
    for (int64_t line = 0; line < job->lines; line++, dense += job->run * channels * size) {
        int64_t to = n * t->stride[1] + first * job->step + ckci_turn_line(job, line, at), x0 = at[5];
        if (bare) {
            job->k->turn(job->run, rows, dense, channels, t->p + to * size, job->step);
            continue;
        }
        for (int64_t r = 0, some; r < rows; r += some) {
            some = ckci_min(rows - r, 8);
            for (int64_t x = 0, wide; x < job->run; x += wide) {
                wide = ckci_min(job->run - x, CKCI_TURN_COLUMNS);
                job->k->turn(wide, some, dense + (x * channels + r) * size, channels, buffer, wide);
                for (int64_t i = 0; i < some; i++) {
                    at[0] = (first + r + i) / t->len[2];
                    at[2] = (first + r + i) % t->len[2];
                    at[5] = x0 + x;
                    job->kind->write(&job->target, at, 5, wide, (unsigned char *)buffer + i * wide * size);
                }
            }
        }
    }
}

/* Turns tensor i of p to or from its copy in q. */
CKCI_FN void ckci_turn_tensor(const ckci_conv *p, const ckci_conv *q, int i, int32_t features,
                              int32_t threads)
{
    ckci_turn_job job;
    int written = i == ckci_written(p->op);
    memset(&job, 0, sizeof job);
    job.kind = ckci_find_kind(q->t[i].dtype);
    job.k = ckci_find_kernels(features, job.kind->dtype);
    job.t = &p->t[i];
    job.dense = q->t[i].p;
    job.step = ckci_turn_step(job.t);
    job.blocks = ckci_ceil_div(job.t->len[0] * job.t->len[2], CKCI_TURN_ROWS);
    if (written) {
        job.target = ckci_make_target(p);
    }
    /* an epilogue goes along x */
    ckci_turn_lines(&job, !written || (job.t->op.kind == CKCONV_PASS && job.t->dtype == job.kind->dtype));
    ckci_parallel(threads, job.t->len[1] * job.blocks, written ? ckci_turn_out_item : ckci_turn_in_item, &job,
                  NULL, 0);
}

/* What turning costs: a vector of numbers, and a call for some rows of a line. Conversions go number by
   number. */
CKCI_FN double ckci_turn_cost(const ckci_conv *p, int64_t mask, int32_t features)
{
    double cost = 1500;
    for (int i = 0; i < 3; i++) {
        const ckci_tensor *t = &p->t[i];
        ckci_turn_job job;
        if (!(mask >> i & 1)) {
            continue;
        }
        job.t = t;
        ckci_turn_lines(&job, 1);
        const ckci_kind *kind = ckci_find_kind(p->t[CKCI_WEI].compute);
        int32_t lanes = ckci_find_kernels(features, kind->dtype)->lanes;
        int bare =
            t->dtype == kind->dtype && (i == ckci_written(p->op) ? t->op.kind == CKCONV_PASS : t->plain);
        double each = kind->size == 4 && lanes > 4 && job.run >= 8 && t->len[0] * t->len[2] >= 8 ? 0.35 : 1.6;
        each *= ckci_count(t) * kind->size > CKCI_TURN_NEAR ? 2 : 1;
        cost += (double)ckci_count(t) * (bare ? each : 3 + each);
        cost += 40 * (double)job.lines * (double)t->len[1] *
                (double)ckci_ceil_div(t->len[0] * t->len[2], CKCI_TURN_ROWS);
    }
    return cost;
}

typedef ckconv_status (*ckci_fit_kernel)(ckci_fit *f, ckconv_error *err);
typedef void (*ckci_run_kernel)(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                                unsigned char *ws, int32_t features);

/* The fit of `inner`, or of `inner` between turns where that costs less: decided for one thread, so that
   results do not depend on how many there are. */
CKCI_FN ckconv_status ckci_fit_turned(ckci_fit *f, ckci_fit_kernel inner, ckconv_error *err)
{
    const ckci_conv *p = &f->p->conv;
    int64_t mask = 0;
    f->plan->tune[CKCI_TUNE_TURNED] = 0;
    for (int i = 0; i < 3 && CKCI_HAS_CHANNELS_FIRST; i++) {
        mask |= i != CKCI_WEI && ckci_turn_step(&p->t[i]) > 0 ? (int64_t)1 << i : 0;
    }
    if (mask == 0) {
        return inner(f, err);
    }
    ckci_problem q;
    int64_t bytes = ckci_turn_conv(p, mask, NULL, &q.conv);
    ckconv_plan plan = *f->plan;
    ckci_fit one = *f, turned = *f;
    plan.device.threads = 1;
    one.plan = turned.plan = &plan;
    turned.p = &q;
    turned.limit = f->limit - bytes;
    ckconv_status s = bytes <= f->limit ? inner(&turned, NULL) : (ckconv_status)CKCONV_ERR_WORKSPACE;
    double turn = ckci_turn_cost(p, mask, f->features);
    if (s != CKCONV_OK || (inner(&one, NULL) == CKCONV_OK && one.cost <= turned.cost + turn)) {
        return inner(f, err);
    }
    turned.plan = f->plan;
    CKCI_TRY(inner(&turned, err));
    f->cost = turned.cost + turn;
    f->plan->tune[CKCI_TUNE_TURNED] = mask;
    f->plan->workspace_bytes += bytes;
    f->plan->launches += (int32_t)((mask & 1) + (mask >> 2 & 1));
    return CKCONV_OK;
}

CKCI_FN void ckci_run_turned(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                             unsigned char *ws, int32_t features, ckci_run_kernel inner)
{
    int64_t mask = plan->tune[CKCI_TUNE_TURNED], limit = ckci_plan_limit(plan);
    int written = ckci_written(p->conv.op);
    if (mask == 0) {
        inner(plan, p, args, ws, features);
        return;
    }
    ckconv_plan rest = *plan;
    ckci_problem q;
    int64_t bytes = ckci_turn_conv(&p->conv, mask, ws, &q.conv);
    if (limit < CKCI_MAX_BYTES) {
        rest.tune[CKCI_TUNE_LIMIT] = limit > bytes ? limit - bytes + CKCI_ALIGN : -1;
    }
    rest.tune[CKCI_TUNE_STACK] = 0;
    for (int i = 0; i < 3; i++) {
        if ((mask >> i & 1) && i != written) {
            ckci_turn_tensor(&p->conv, &q.conv, i, features, plan->device.threads);
        }
    }
    inner(&rest, &q, args, ws + bytes, features);
    if (mask >> written & 1) {
        ckci_turn_tensor(&p->conv, &q.conv, written, features, plan->device.threads);
    }
}

/* The same for each family. */
#define CKCI_TURNED(NAME)                                                                                    \
    CKCI_FN ckconv_status ckci_fit_turned_##NAME(ckci_fit *f, ckconv_error *err)                             \
    {                                                                                                        \
        return ckci_fit_turned(f, ckci_fit_##NAME, err);                                                     \
    }                                                                                                        \
    CKCI_FN void ckci_run_turned_##NAME(const ckconv_plan *plan, const ckci_problem *p,                      \
                                        const ckconv_args *args, unsigned char *ws, int32_t features)        \
    {                                                                                                        \
        ckci_run_turned(plan, p, args, ws, features, ckci_run_##NAME);                                       \
    }
CKCI_TURNED(gather)
CKCI_TURNED(weight)
CKCI_TURNED(direct)
CKCI_TURNED(direct_weight)
