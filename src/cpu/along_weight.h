/*------------------------------------------------------------------------------------------------------------
  >>cpu-along-weight
  bwd_weight of few channels per group, vectors along x, for the tensors of cpu/along.h. Sums of every tap lie
  in lanes that are added up last. An item owns one (group, output channel) and a share of the units, tiles of
  one plane of outputs; shares are added in their order, so that threads do not change the result, and tiles
  bound the length of a sum.
*/
#pragma once
#include "cpu/along.h"
#include "cpu/direct_weight.h"
#include "cpu/weight.h"

typedef struct ckci_along_shares {
    ckci_along_tiles t;
    int64_t numbers, gradient, sums, totals; /* taps x channels; bytes */
    int64_t units, split, partial, shared;
} ckci_along_shares;

CKCI_FN ckci_along_shares ckci_find_along_shares(const ckci_view *v, int32_t split_k, int32_t threads,
                                                 int64_t limit)
{
    ckci_along_shares a;
    ckci_along_tiles *t = &a.t;
    ckci_axis axis[3];
    int64_t size = v->kind->size, lanes = v->k->lanes;
    memset(&a, 0, sizeof a);
    ckci_phase(v, 0, axis);
    a.numbers = v->taps * v->red;
    t->red = v->red;
    a.sums = ckci_line_up((ckci_round_up(a.numbers, CKCI_TAPS) + 1) * lanes * size);
    a.totals = ckci_total_bytes(v->kind, a.numbers * lanes);
    for (int stack = 0; stack < 2; stack++) {
        t->xb = ckci_min(axis[2].count, 2048);
        t->yb = ckci_min(axis[1].count, 4 * CKCI_LINE);
        for (;;) {
            ckci_along_scratch(v, t);
            a.gradient = ckci_line_up(t->yb * ckci_round_up(t->xb, lanes) * size);
            t->table = ckci_line_up(ckci_round_up(a.numbers, CKCI_TAPS) * 8);
            t->scratch = ckci_saturating_add(t->lines, a.gradient + t->table + a.sums + a.totals);
            if (t->scratch <= (stack ? (int64_t)CKCI_STACK : (int64_t)CKCI_ALONG_BYTES) ||
                (t->yb == 1 && t->xb <= 2 * lanes)) {
                break;
            }
            if (t->yb > 1 && (t->xb <= 256 || t->yb > CKCI_LINE)) {
                t->yb = ckci_ceil_div(t->yb, 2);
            } else {
                t->xb = ckci_round_up(ckci_ceil_div(t->xb, 2), lanes);
            }
        }
        t->blocks_y = ckci_ceil_div(axis[1].count, t->yb);
        t->blocks_x = ckci_ceil_div(axis[2].count, t->xb);
        a.units = v->p->n * axis[0].count * t->blocks_y * t->blocks_x;
        /* by shape alone, so that results do not depend on the threads */
        a.split = ckci_min(ckci_ceil_div(64, ckci_all_lanes(v)), 32);
        a.split = ckci_max(ckci_min(split_k ? split_k : stack ? 1 : a.split, a.units), 1);
        a.partial = a.split > 1 ? ckci_line_up(a.numbers * size) : 0;
        t->items = ckci_saturating_mul(ckci_all_lanes(v), a.split);
        a.shared = ckci_saturating_mul(t->items, a.partial);
        t->threads = threads;
        t->bytes = ckci_total(a.shared, t->scratch, 1);
        if (stack) {
            t->bytes = t->scratch <= CKCI_STACK && a.split == 1 ? 0 : CKCI_MAX_BYTES;
        }
        if (t->bytes <= limit) {
            if (!stack) {
                t->threads = ckci_threads_within(limit, a.shared, t->scratch, threads);
                t->bytes = ckci_total(a.shared, t->scratch, t->threads);
            }
            break;
        }
    }
    return a;
}

typedef struct ckci_along_weight_job {
    ckci_view v;
    ckci_along_shares a;
    ckci_target target;
    unsigned char *partial;
} ckci_along_weight_job;

/* Sums of all lanes for each of the item's taps, to lane 0's place: sums[tap]. */
CKCI_FN void ckci_add_lanes(const ckci_kind *kind, int64_t numbers, int64_t lanes, unsigned char *sums)
{
    for (int64_t i = 0; i < numbers; i++) {
        const unsigned char *from = sums + i * lanes * kind->size;
        if (kind->dtype == CKCONV_I32) {
            uint32_t total = 0, x;
            for (int64_t lane = 0; lane < lanes; lane++) {
                memcpy(&x, from + lane * 4, 4);
                total += x;
            }
            memcpy(sums + i * 4, &total, 4);
        } else if (kind->dtype == CKCONV_F32) {
            double total = 0;
            for (int64_t lane = 0; lane < lanes; lane++) {
                float x;
                memcpy(&x, from + lane * 4, 4);
                total += (double)x;
            }
            float rounded = (float)total;
            memcpy(sums + i * 4, &rounded, 4);
        } else {
            double total = 0, x;
            for (int64_t lane = 0; lane < lanes; lane++) {
                memcpy(&x, from + lane * 8, 8);
                total += x;
            }
            memcpy(sums + i * 8, &total, 8);
        }
    }
}

/* One unit of outputs of (group, column): q.. of entry n, yb x xb of them. */
CKCI_FN void ckci_along_unit(const ckci_along_weight_job *job, const ckci_axis axis[3], const int64_t q[3],
                             int64_t group, int64_t column, int64_t n, int64_t yb, int64_t xb,
                             unsigned char *lines, unsigned char *gradient, int32_t *table,
                             unsigned char *sums)
{
    const ckci_view *v = &job->v;
    const ckci_tensor *dy = &v->p->t[CKCI_OUT];
    int64_t size = v->kind->size, lanes = v->k->lanes, vectors = ckci_ceil_div(xb, lanes), entry = 0;
    int64_t numbers = job->a.numbers, wide = vectors * lanes;
    ckci_window wy = ckci_make_window(&axis[1], q[1], yb), wx = ckci_make_window(&axis[2], q[2], wide);
    int64_t line = wx.planes * wx.width, strip = ckci_strip(vectors, lanes * size);
    for (int64_t row = 0; row < axis[0].taps * axis[1].taps; row++) {
        for (int64_t c = 0; c < v->red; c++) {
            for (int64_t jx = 0; jx < axis[2].taps; jx++, entry++) {
                table[2 * entry] =
                    (int32_t)ckci_along_tap(axis, &wy, &wx, c, row / axis[1].taps, row % axis[1].taps, jx);
                table[2 * entry + 1] = (int32_t)entry;
            }
        }
    }
    for (; entry % CKCI_TAPS != 0; entry++) {
        table[2 * entry] = table[0];
        table[2 * entry + 1] = (int32_t)ckci_round_up(numbers, CKCI_TAPS);
    }
    ckci_along_gather(v, axis, &wy, &wx, group, n, q[0], 0, v->red, lines);
    for (int64_t y = 0; y < yb; y++) {
        int64_t at = group * dy->stride[0] + n * dy->stride[1] + column * dy->stride[2] +
                     q[0] * dy->stride[3] + (q[1] + y) * dy->stride[4] + q[2] * dy->stride[5];
        unsigned char *dst = gradient + y * wide * size;
        ckci_along_read(v, dy, at, dy->stride[5], xb, dst);
        if (wide > xb) {
            ckci_clear(v->kind, dst + xb * size, wide - xb);
        }
    }
    for (int64_t y = 0; y < yb; y += strip) {
        for (int64_t i = 0; i < entry; i += CKCI_TAPS) {
            v->k->taps9(ckci_min(strip, yb - y), vectors, lines + y * line * size, line, lanes, table + 2 * i,
                        gradient + y * wide * size, wide, lanes, sums);
        }
    }
}

/* Sums of (group, column), in the order (z, y, channel, x), to dwei. */
CKCI_FN void ckci_along_weight_write(const ckci_along_weight_job *job, int64_t lane,
                                     const unsigned char *sums)
{
    const ckci_view *v = &job->v;
    int64_t across = v->p->filter[2], at[6];
    at[0] = lane / v->cols;
    at[1] = lane % v->cols;
    at[5] = 0;
    for (int64_t i = 0; i < job->a.numbers / across; i++) {
        at[2] = i % v->red;
        at[4] = i / v->red % v->p->filter[1];
        at[3] = i / v->red / v->p->filter[1];
        v->kind->write(&job->target, at, 5, across, sums + i * across * v->kind->size);
    }
}

CKCI_FN void ckci_along_weight_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_along_weight_job *job = (const ckci_along_weight_job *)context;
    const ckci_view *v = &job->v;
    const ckci_along_shares *a = &job->a;
    const ckci_along_tiles *t = &a->t;
    ckci_axis axis[3];
    ckci_phase(v, 0, axis);
    int64_t part = item % a->split, lane = item / a->split, share = ckci_ceil_div(a->units, a->split);
    int64_t from = ckci_min(a->units, part * share), to = ckci_min(a->units, from + share);
    int64_t size = v->kind->size, lanes = v->k->lanes, numbers = a->numbers * lanes;
    /* units whose sums are added up before they go to totals */
    int64_t some = ckci_max(CKCI_NEXT / (t->yb * ckci_ceil_div(t->xb, lanes)), 1);
    unsigned char *lines = scratch, *gradient = lines + t->lines, *sums = gradient + a->gradient + t->table;
    unsigned char *totals = sums + a->sums;
    int32_t *table = (int32_t *)(void *)(gradient + a->gradient);
    ckci_clear(v->kind, sums, a->sums / size);
    for (int64_t unit = from; unit < to; unit++) {
        int64_t q[3], rest = unit;
        q[2] = rest % t->blocks_x * t->xb;
        rest /= t->blocks_x;
        q[1] = rest % t->blocks_y * t->yb;
        rest /= t->blocks_y;
        q[0] = rest % axis[0].count;
        ckci_along_unit(job, axis, q, lane / v->cols, lane % v->cols, rest / axis[0].count,
                        ckci_min(t->yb, axis[1].count - q[1]), ckci_min(t->xb, axis[2].count - q[2]), lines,
                        gradient, table, sums);
        if (a->totals && ((unit + 1 - from) % some == 0 || unit + 1 == to)) {
            ckci_add_totals(v->kind, totals, sums, numbers, unit - from < some);
            ckci_clear(v->kind, sums, a->sums / size);
        }
    }
    if (a->totals && from < to) {
        ckci_end_totals(v->kind, totals, sums, numbers);
    }
    ckci_add_lanes(v->kind, a->numbers, lanes, sums);
    if (a->split > 1) {
        memcpy(job->partial + item * a->partial, sums, (size_t)(a->numbers * size));
    } else {
        ckci_along_weight_write(job, lane, sums);
    }
}

/* The second stage: one item adds the parts of one (group, column), in order. */
CKCI_FN void ckci_along_sum_item(const void *context, int64_t lane, unsigned char *scratch)
{
    const ckci_along_weight_job *job = (const ckci_along_weight_job *)context;
    const ckci_along_shares *a = &job->a;
    unsigned char *sums = job->partial + lane * a->split * a->partial;
    (void)scratch;
    ckci_add_parts(job->v.kind, sums, a->partial, a->split, a->numbers);
    ckci_along_weight_write(job, lane, sums);
}

CKCI_FN double ckci_direct_weight_cost(const ckci_view *v, const ckci_direct_tiles *t)
{
    double positions = (double)ckci_most_rows(v);
    double taps = (double)ckci_round_up(v->taps * v->red, CKCI_TAPS);
    double each = ckci_tap_cost(v) * (v->red == 1 ? 1 : 2), spread = ckci_lanes_cost(v, t) + 3;
    spread += ckci_lanes_apart(v, &v->p->t[CKCI_OUT], v->cols, 1, (double)t->xb);
    /* a unit begins with its table */
    double tables = v->red == 1 && v->cols == 1 ? 0 : (double)t->units * taps * 20;
    double work = (double)t->blocks * (positions * (taps * each + spread) + tables);
    return work * ckci_idle(work, t->blocks * t->split) +
           (double)t->blocks * taps * (double)(t->split + 8 * v->k->lanes) + 4000;
}

CKCI_FN double ckci_along_weight_cost(const ckci_view *v, const ckci_along_shares *a)
{
    const ckci_along_tiles *t = &a->t;
    ckci_axis axis[3];
    ckci_phase(v, 0, axis);
    double lanes = v->k->lanes, taps = (double)ckci_round_up(a->numbers, CKCI_TAPS);
    double vectors = (double)v->p->n * (double)axis[0].count * (double)axis[1].count *
                     (double)ckci_ceil_div(axis[2].count, v->k->lanes);
    double gradient = v->p->t[CKCI_OUT].stride[5] == 1 ? 4 : 3 * lanes;
    double units = (double)a->units *
                   (300 + taps * 25 + 60 * (double)t->yb + ckci_along_read_cost(v, axis, t->yb, t->xb));
    double work = (double)ckci_all_lanes(v) * (vectors * (taps * ckci_tap_cost(v) + gradient) + units);
    return work * ckci_idle(work, t->items) + (double)ckci_all_lanes(v) * taps * lanes * (double)a->split +
           4000;
}

/* Whether a direct instance computes v so; by shape and limit alone. Rows are whole vectors: a lane behind
   the end would add zeros times what x has there, which is NaN where that is infinite. */
CKCI_FN int ckci_weight_better_along(const ckci_view *v, const ckci_direct_tiles *lines, int32_t split_k,
                                     int64_t limit, double *cost)
{
    ckci_axis axis[3];
    *cost = ckci_direct_weight_cost(v, lines);
    ckci_phase(v, 0, axis);
    if (v->red > CKCI_DIRECT_RED || v->taps * v->red > CKCI_ALONG_TAPS || axis[2].count % v->k->lanes != 0) {
        return 0;
    }
    ckci_along_shares a = ckci_find_along_shares(v, split_k, 1, limit);
    double along = ckci_along_weight_cost(v, &a);
    if (a.t.bytes > limit || (along >= *cost && lines->bytes <= limit)) {
        return 0;
    }
    *cost = along;
    return 1;
}

CKCI_FN ckconv_status ckci_fit_direct_weight(ckci_fit *f, ckconv_error *err)
{
    ckci_view v = ckci_make_view(&f->p->conv, f->features);
    int32_t threads = f->plan->device.threads;
    CKCI_TRY(ckci_direct_takes(&v, 0, err));
    ckci_direct_tiles t = ckci_find_direct_weight_tiles(&v, f->split_k, threads, f->limit);
    f->plan->tune[CKCI_TUNE_ALONG] = ckci_weight_better_along(&v, &t, f->split_k, f->limit, &f->cost);
    if (f->plan->tune[CKCI_TUNE_ALONG]) {
        ckci_along_shares a = ckci_find_along_shares(&v, f->split_k, threads, f->limit);
        f->plan->workspace_bytes = a.t.bytes;
        f->plan->block[0] = a.t.threads;
        f->plan->grid[0] = a.t.items;
        f->plan->split_k = (int32_t)a.split;
        f->plan->launches = a.split > 1 ? 2 : 1;
        return CKCONV_OK;
    }
    if (t.bytes > f->limit || t.lines > ((int64_t)1 << 30)) {
        return ckci_over_limit("direct, a line of this shape", t.bytes, err);
    }
    f->plan->workspace_bytes = t.bytes;
    f->plan->block[0] = t.threads;
    f->plan->grid[0] = t.items;
    f->plan->split_k = (int32_t)t.split;
    f->plan->launches = t.chunk ? 1 : 2;
    return CKCONV_OK;
}

CKCI_FN void ckci_run_direct_weight(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                                    unsigned char *ws, int32_t features)
{
    ckci_direct_job job;
    int32_t threads = plan->device.threads, split_k = (int32_t)plan->tune[CKCI_TUNE_SPLIT];
    int64_t limit = ckci_plan_limit(plan);
    (void)args;
    job.v = ckci_make_view(&p->conv, features);
    job.t = ckci_find_direct_weight_tiles(&job.v, split_k, threads, limit);
    job.target = ckci_make_target(&p->conv);
    job.packed = ws;
    if (plan->tune[CKCI_TUNE_ALONG]) {
        ckci_along_weight_job along;
        along.v = job.v;
        along.a = ckci_find_along_shares(&job.v, split_k, threads, limit);
        along.target = job.target;
        along.partial = ws;
        threads = along.a.t.threads;
        ckci_parallel(threads, along.a.t.items, ckci_along_weight_item, &along,
                      along.a.t.bytes ? ws + along.a.shared : NULL, along.a.t.scratch);
        if (along.a.split > 1) {
            ckci_parallel(threads, ckci_all_lanes(&job.v), ckci_along_sum_item, &along, ws, 0);
        }
        return;
    }
    threads = job.t.threads;
    ckci_parallel(threads, job.t.items, ckci_direct_weight_item, &job, job.t.bytes ? ws + job.t.packed : NULL,
                  job.t.scratch);
    if (!job.t.chunk) {
        ckci_parallel(threads, job.t.blocks, ckci_direct_weight_sum_item, &job, ws, 0);
    }
}
