/*------------------------------------------------------------------------------------------------------------
  >>cpu-weight
  bwd_weight: an item sums part of the reduction over n and output positions for a block of dwei, output
  channels x (tap, input channel). Vectors run over (tap, channel); output channels are the scalars. The
  input is gathered as a patch, or as im2col rows where that wastes lanes; dout is packed in panels of
  outer_rows channels.
*/
#pragma once
#include "cpu/gather.h"

/* Planes of outputs, or twins of them, that a unit may hold several of */
CKCI_INLINE int64_t ckci_weight_planes(const ckci_view *v)
{
    return v->twins ? ckci_ceil_div(v->p->n * v->p->output[0], 2) : v->p->n;
}

enum { CKCI_LEAST_ROWS = 48 }; /* outputs of a unit */

/* Threads that work is worth (see ckci_useful_threads), 16 at most, and what they lose on so many items:
   choices are made by shape alone, alike in all families. */
CKCI_INLINE int64_t ckci_worth(double work)
{
    return work < (double)CKCI_THREAD_COST        ? 1
           : work < 16 * (double)CKCI_THREAD_COST ? (int64_t)(work / (double)CKCI_THREAD_COST)
                                                  : 16;
}

CKCI_INLINE double ckci_idle(double work, int64_t items)
{
    return (double)ckci_round_up(items, ckci_worth(work)) / (double)ckci_max(items, 1);
}

/* A patch per unit of nb x yb x xb outputs; 0 where im2col rows are better. */
CKCI_FN int ckci_weight_patches(const ckci_view *v, ckci_tiles *t)
{
    ckci_axis axis[3];
    int64_t lanes = v->k->lanes, size = v->kind->size, n = ckci_max(ckci_weight_planes(v), 1);
    ckci_phase(v, 0, axis);
    if (!ckci_patch_sane(v, axis)) {
        return 0;
    }
    int64_t y = axis[1].count, x = axis[2].count, line = axis[2].taps * v->red;
    t->joined = ckci_joins(v, &axis[2]) && ckci_round_up(line, lanes) * 4 <= line * 7;
    if ((!t->joined && ckci_round_up(v->red, lanes) * 4 > v->red * 5) || v->taps > 4096) {
        return 0;
    }
    t->cb = ckci_min(v->red, ckci_max(1024 / v->taps / lanes * lanes, lanes));
    /* even blocks */
    t->cb = ckci_min(v->red, ckci_round_up(ckci_ceil_div(v->red, ckci_ceil_div(v->red, t->cb)), lanes));
    if (t->joined) {
        t->cb = v->red;
    }
    t->nb = 1;
    t->yb = y;
    t->xb = x;
    for (;;) {
        t->entries = ckci_window_entries(v, t->yb, t->xb, 0);
        if ((ckci_saturating_mul(t->entries, t->cb * size) <= CKCI_PATCH_BYTES &&
             t->yb * t->xb <= CKCI_BLOCK_ROWS) ||
            (t->yb == 1 && t->xb <= 16)) {
            break;
        }
        if (t->yb > 1) {
            t->yb = ckci_ceil_div(t->yb, 2);
        } else {
            t->xb = ckci_ceil_div(t->xb, 2);
        }
    }
    while (t->yb == y && t->xb == x && t->nb < n && (t->nb + 1) * y * x <= CKCI_BLOCK_ROWS &&
           (t->nb + 1) * t->entries * t->cb * size <= CKCI_PATCH_BYTES) {
        t->nb++;
    }
    /* two units for each of few threads that the work is worth, if they do not become too small */
    double work = (double)(v->p->g * n * axis[0].count) * (double)(y * x) * (double)v->cols * 1.1 *
                  (double)(v->taps * ckci_ceil_div(v->red, lanes));
    int64_t threads = ckci_min(2 * ckci_worth(work), 16),
            others = v->p->g * ckci_ceil_div(v->red, t->cb) * axis[0].count;
    while (t->nb > 1 && t->nb * y * x > 2 * CKCI_LEAST_ROWS && others * ckci_ceil_div(n, t->nb) < threads) {
        t->nb = ckci_ceil_div(t->nb, 2);
    }
    while (t->nb == 1 && t->yb > 1 && t->yb * t->xb > 2 * CKCI_LEAST_ROWS &&
           others * n * ckci_ceil_div(y, t->yb) * ckci_ceil_div(x, t->xb) < threads) {
        t->yb = ckci_ceil_div(t->yb, 2);
    }
    t->yb = ckci_ceil_div(y, ckci_ceil_div(y, t->yb));
    t->xb = ckci_ceil_div(x, ckci_ceil_div(x, t->xb));
    t->entries = ckci_window_entries(v, t->yb, t->xb, 0) * t->nb;
    t->blocks_b = v->p->n == 0 ? 0 : ckci_ceil_div(n, t->nb) * (v->twins ? 1 : axis[0].count);
    t->blocks_y = ckci_ceil_div(y, t->yb);
    t->blocks_x = ckci_ceil_div(x, t->xb);
    t->kc = t->nb * t->yb * t->xb;
    t->ldc = t->joined ? v->taps / axis[2].taps * ckci_round_up(line, lanes)
                       : v->taps * ckci_round_up(t->cb, lanes);
    t->table = ckci_line_up(v->taps * 4);
    return ckci_saturating_mul(t->entries, t->cb * size) <= 4 * CKCI_PATCH_BYTES && t->ldc <= 16384;
}

/* Sums of a block take ldc numbers for each output channel; this many channels. */
CKCI_FN int64_t ckci_weight_rows(const ckci_view *v, const ckci_tiles *t, int64_t numbers)
{
    int64_t r = v->k->outer_rows, most = ckci_max(numbers / t->ldc / r * r, r);
    int64_t blocks = ckci_ceil_div(v->cols, most);
    return ckci_round_up(ckci_ceil_div(v->cols, blocks), r);
}

CKCI_FN void ckci_weight_scratch(const ckci_view *v, ckci_tiles *t)
{
    int64_t size = v->kind->size, lanes = v->k->lanes;
    int64_t x = t->entries ? t->entries * t->cb : ckci_saturating_mul(t->kc, t->ldc);
    t->scratch = ckci_line_up((x + lanes) * size) + ckci_line_up(t->kc * t->nc * size) +
                 ckci_line_up(t->nc * t->ldc * size) + t->table;
    t->totals = 0;
    t->blocks_m = t->entries ? ckci_ceil_div(v->red, t->cb) : ckci_ceil_div(v->taps * v->red, t->mc);
    t->blocks_n = ckci_ceil_div(v->cols, t->nc);
}

/* Units of kc positions whose sums are added up before they go to totals */
CKCI_INLINE int64_t ckci_weight_block_units(const ckci_tiles *t)
{
    return ckci_max(CKCI_NEXT / t->kc, 64);
}

/* Totals in scratch where a part has `units` units */
CKCI_FN void ckci_weight_totals(const ckci_view *v, ckci_tiles *t, int64_t units)
{
    if (units > ckci_weight_block_units(t)) {
        t->totals = ckci_total_bytes(v->kind, t->nc * t->ldc);
        t->scratch += t->totals;
    }
}

CKCI_FN ckci_tiles ckci_weight_tiles(const ckci_view *v, ckconv_family family, int32_t split_k,
                                     int32_t threads, int64_t limit)
{
    ckci_tiles t;
    memset(&t, 0, sizeof t);
    int64_t all = v->taps * v->red, lanes = v->k->lanes, size = v->kind->size;
    int64_t positions = v->p->n * v->p->output[0] * v->p->output[1] * v->p->output[2];
    if (!ckci_weight_patches(v, &t)) {
        t.entries = t.table = t.joined = 0;
        t.kc = CKCI_KC;
        t.mc = t.ldc = ckci_min(ckci_round_up(all, lanes), 16 * lanes);
    }
    t.nc = ckci_weight_rows(v, &t, 96 * 1024);
    ckci_weight_scratch(v, &t);
    t.split = 1;
    int64_t blocks = ckci_saturating_mul(ckci_saturating_mul(t.blocks_m, t.blocks_n), v->p->g);
    int64_t units = t.entries ? t.blocks_b * t.blocks_y * t.blocks_x : ckci_ceil_div(positions, t.kc);
    if (family == CKCONV_FAMILY_TWO_STAGE) {
        /* by shape alone, so that results do not depend on the threads */
        t.split = split_k ? split_k : ckci_max(ckci_min(ckci_ceil_div(32, blocks), units / 2), 2);
        t.split = ckci_max(ckci_min(t.split, t.entries ? units : positions), 1);
    }
    ckci_weight_totals(v, &t, ckci_ceil_div(units, t.split) + 1);
    t.partial = t.split > 1 ? ckci_line_up(t.nc * t.ldc * size) : 0;
    int64_t sums = ckci_saturating_mul(ckci_saturating_mul(blocks, t.split), t.partial);
    t.threads = threads;
    t.bytes = ckci_total(sums, t.scratch, 1);
    if (t.bytes <= limit) {
        t.threads = ckci_threads_within(limit, sums, t.scratch, threads);
        t.bytes = ckci_total(sums, t.scratch, t.threads);
    } else if (t.split == 1) {
        t.entries = t.table = t.joined = 0;
        t.kc = CKCI_KC / 8;
        t.mc = t.ldc = ckci_min(ckci_round_up(all, lanes), ckci_round_up(CKCI_STACK / 1024, lanes));
        /* channels whose gradient, sums and totals fit beside the rows */
        int64_t most = (CKCI_STACK / size - t.kc * t.ldc - lanes - 64) / (t.kc + 3 * t.ldc);
        t.nc = ckci_weight_rows(v, &t, ckci_min(2048, most * t.ldc));
        ckci_weight_scratch(v, &t);
        ckci_weight_totals(v, &t, ckci_ceil_div(positions, t.kc));
        t.bytes = 0;
        blocks = ckci_saturating_mul(ckci_saturating_mul(t.blocks_m, t.blocks_n), v->p->g);
    }
    t.items = ckci_saturating_mul(blocks, t.split);
    return t;
}

typedef struct ckci_weight_job {
    ckci_view v;
    ckci_tiles t;
    ckci_target target;
    unsigned char *partial;
} ckci_weight_job;

/* A block of dwei: `rows` output channels from k0 on x `cols` (tap, channel) pairs from c0 on (im2col) or
   `cols` channels from c0 on for all taps. */
typedef struct ckci_weight_block {
    int64_t group, k0, rows, c0, cols;
} ckci_weight_block;

CKCI_FN ckci_weight_block ckci_find_weight_block(const ckci_weight_job *job, int64_t block)
{
    const ckci_tiles *t = &job->t;
    const ckci_view *v = &job->v;
    ckci_weight_block b;
    int64_t step = t->entries ? t->cb : t->mc;
    b.c0 = block % t->blocks_m * step;
    b.k0 = block / t->blocks_m % t->blocks_n * t->nc;
    b.group = block / t->blocks_m / t->blocks_n;
    b.cols = ckci_min(step, (t->entries ? v->red : v->taps * v->red) - b.c0);
    b.rows = ckci_min(t->nc, v->cols - b.k0);
    return b;
}

/* `count` positions of dout along x from element `at` on: dst[panel][position][outer_rows], panels of `all`
   positions. */
CKCI_FN void ckci_pack_gradient(const ckci_view *v, int64_t at, int64_t count, int64_t rows, int64_t all,
                                unsigned char *dst)
{
    double buffer[128];
    const ckci_tensor *t = &v->p->t[CKCI_OUT];
    int64_t size = v->kind->size, r = v->k->outer_rows, step = t->stride[5], channel = t->stride[2];
    int bare = t->plain && t->dtype == v->kind->dtype && channel == 1;
    for (int64_t k = 0; k < rows; k += r, dst += all * r * size) {
        int64_t valid = ckci_min(r, rows - k);
        if (bare && valid == r) {
            const unsigned char *from = t->p + (at + k) * size;
            for (int64_t i = 0; i < count; i++) {
                ckci_copy_bytes(dst + i * r * size, from + i * step * size, r * size);
            }
            continue;
        }
        if (channel == 1 && valid == r && ckci_widener(v, t)) {
            ckci_widener(v, t)(count, r, t->p + (at + k) * 2, step, dst, r);
            continue;
        }
        for (int64_t i = 0; i < count && valid < r; i++) {
            ckci_clear(v->kind, dst + (i * r + valid) * size, r - valid);
        }
        for (int64_t j = 0; j < valid && step < channel; j++) {
            for (int64_t i = 0; i < count; i += 128) {
                int64_t n = ckci_min(count - i, 128);
                v->kind->read(t, at + (k + j) * channel + i * step, step, n, buffer);
                ckci_scatter(v->kind, dst + (i * r + j) * size, r, buffer, n);
            }
        }
        for (int64_t i = 0; i < count && step >= channel; i++) {
            v->kind->read(t, at + k * channel + i * step, channel, valid, dst + i * r * size);
        }
    }
}

/* The same of twins: `count` positions of a row from q on. */
CKCI_FN void ckci_zip_gradient(const ckci_view *v, const ckci_weight_block *b, int64_t twin,
                               const int64_t q[3], int64_t count, int64_t all, unsigned char *dst)
{
    const ckci_tensor *t = &v->p->t[CKCI_OUT];
    int64_t r = v->k->outer_rows, planes = v->p->output[0];
    const unsigned char *row[2];
    for (int i = 0; i < 2; i++) {
        int64_t n = (2 * twin + i) / planes, z = (2 * twin + i) % planes;
        int64_t at = b->group * t->stride[0] + n * t->stride[1] + b->k0 * t->stride[2] + z * t->stride[3] +
                     q[1] * t->stride[4] + q[2] * t->stride[5];
        row[i] = n < v->p->n ? t->p + at * 2 : NULL;
    }
    for (int64_t k = 0; k < b->rows; k += r, dst += all * r * 4) {
        int64_t valid = ckci_min(r, b->rows - k);
        if (valid < r) {
            memset(dst, 0, (size_t)(count * r * 4));
        }
        v->k->zip(count, valid, row[0] ? row[0] + k * 2 : NULL, row[1] ? row[1] + k * 2 : NULL, t->stride[5],
                  dst, r);
    }
}

/* All tiles of a block over `o`'s positions. p, tap_at: the patch, where its segments begin; NULL for im2col
   rows. */
CKCI_FN void ckci_multiply_outer(const ckci_weight_job *job, const ckci_weight_block *b, ckci_outer *o,
                                 const ckci_patch *p, const int32_t *tap_at, const unsigned char *dy,
                                 unsigned char *c)
{
    const ckci_view *v = &job->v;
    int64_t size = v->kind->size, r = v->k->outer_rows, lanes = v->k->lanes, ldc = job->t.ldc;
    int64_t all = o->planes * o->rows * o->width, across = p && !p->joined ? v->p->filter[2] : 1;
    int64_t vectors = ckci_ceil_div(p ? p->len : b->cols, lanes), taps = p ? p->segments : 1;
    int64_t padded = p ? ldc / taps : 0;
    o->ldc = ldc;
    for (int64_t i = 0, some; i < taps * vectors; i += some) {
        int64_t rest = taps * vectors - i;
        some = rest < 3 || rest == 4 ? 2 : 3; /* 4 = 2 + 2 */
        for (int64_t j = 0; j < some; j++) {
            /* taps of a filter row one after the other: they read nearly the same positions */
            int64_t e = ckci_min(i + j, taps * vectors - 1), vector = e / across % vectors;
            int64_t tap = e / across / vectors * across + e % across;
            o->x_at[j] = (tap_at ? tap_at[tap] : 0) + vector * lanes;
            o->c_at[j] = tap * padded + vector * lanes;
        }
        for (int64_t k = 0; k < b->rows; k += r) {
            o->dy = dy + k * all * size;
            o->c = c + k * ldc * size;
            v->k->outer[some - 2](o);
        }
    }
}

/* After unit number `done` of a part: the sums go to totals if a block ends there, and back after the last
   one. */
CKCI_FN void ckci_weight_next(const ckci_weight_job *job, const ckci_weight_block *b, int64_t done, int last,
                              unsigned char *c, void *totals)
{
    const ckci_tiles *t = &job->t;
    int64_t units = ckci_weight_block_units(t), n = b->rows * t->ldc;
    if (t->totals && (last || (done + 1) % units == 0)) {
        ckci_add_totals(job->v.kind, totals, c, n, done < units);
    }
    if (t->totals && last) {
        ckci_end_totals(job->v.kind, totals, c, n);
    }
}

/* Units [from, to) with patches. */
CKCI_FN void ckci_weight_units(const ckci_weight_job *job, const ckci_weight_block *b, int64_t from,
                               int64_t to, unsigned char *x, unsigned char *dy, int32_t *offset,
                               unsigned char *c, void *totals)
{
    const ckci_view *v = &job->v;
    const ckci_tiles *t = &job->t;
    const ckci_tensor *g = &v->p->t[CKCI_OUT];
    int64_t size = v->kind->size, r = v->k->outer_rows;
    ckci_axis axis[3];
    ckci_phase(v, 0, axis);
    for (int64_t unit = from; unit < to; unit++) {
        int64_t q[3], rest = unit;
        q[2] = rest % t->blocks_x * t->xb;
        rest /= t->blocks_x;
        q[1] = rest % t->blocks_y * t->yb;
        rest /= t->blocks_y;
        q[0] = v->twins ? 0 : rest % axis[0].count;
        int64_t n = (v->twins ? rest : rest / axis[0].count) * t->nb;
        ckci_outer o;
        o.planes = ckci_min(t->nb, ckci_weight_planes(v) - n);
        o.rows = ckci_min(t->yb, axis[1].count - q[1]);
        o.width = ckci_min(t->xb, axis[2].count - q[2]);
        ckci_patch p = ckci_make_patch(axis, q, o.rows, o.width, b->cols, t->joined);
        ckci_patch_segments(&p, axis, offset);
        int64_t all = o.planes * o.rows * o.width;
        for (int64_t i = 0; i < o.planes; i++) {
            if (v->twins) {
                ckci_zip_patch(v, &p, axis, b->group, n + i, b->c0, x + i * p.image * size);
            } else {
                ckci_pack_patch(v, &p, axis, b->group, n + i, q[0], b->c0, x + i * p.image * size);
            }
            /* few positions at once: their cache lines serve several panels */
            for (int64_t at = 0, some; at < o.rows * o.width; at += some) {
                int64_t place[3];
                place[0] = q[0];
                place[1] = q[1] + at / o.width;
                place[2] = q[2] + at % o.width;
                some = ckci_min(o.width - at % o.width, 32);
                unsigned char *dst = dy + (i * o.rows * o.width + at) * r * size;
                if (v->twins) {
                    ckci_zip_gradient(v, b, n + i, place, some, all, dst);
                    continue;
                }
                int64_t from_dy = b->group * g->stride[0] + (n + i) * g->stride[1] + b->k0 * g->stride[2] +
                                  place[0] * g->stride[3] + place[1] * g->stride[4] + place[2] * g->stride[5];
                ckci_pack_gradient(v, from_dy, some, b->rows, all, dst);
            }
        }
        o.x = x;
        o.x_plane = p.image;
        o.x_row = p.row;
        o.x_step = p.step;
        o.add = t->totals ? (unit - from) % ckci_weight_block_units(t) > 0 : unit > from;
        ckci_multiply_outer(job, b, &o, &p, offset, dy, c);
        ckci_weight_next(job, b, unit - from, unit + 1 == to, c, totals);
    }
}

/* Positions [from, to) as im2col rows. */
CKCI_FN void ckci_weight_positions(const ckci_weight_job *job, const ckci_weight_block *b, int64_t from,
                                   int64_t to, unsigned char *x, unsigned char *dy, unsigned char *c,
                                   void *totals)
{
    const ckci_view *v = &job->v;
    const ckci_tiles *t = &job->t;
    const ckci_tensor *g = &v->p->t[CKCI_OUT];
    int64_t size = v->kind->size, r = v->k->outer_rows, q[4];
    ckci_axis axis[3];
    ckci_phase(v, 0, axis);
    for (int64_t m = from; m < to; m += t->kc) {
        int64_t count = ckci_min(t->kc, to - m);
        ckci_pack_rows(v, axis, b->group, m, count, b->c0, b->c0 + b->cols, x, t->ldc);
        for (int64_t i = 0; i < count && t->ldc > b->cols; i++) {
            ckci_clear(v->kind, x + (i * t->ldc + b->cols) * size, t->ldc - b->cols);
        }
        for (int64_t i = 0, n; i < count; i += n) {
            ckci_place(axis, m + i, q);
            n = ckci_min(axis[2].count - q[3], count - i);
            int64_t at = b->group * g->stride[0] + q[0] * g->stride[1] + b->k0 * g->stride[2] +
                         q[1] * g->stride[3] + q[2] * g->stride[4] + q[3] * g->stride[5];
            ckci_pack_gradient(v, at, n, b->rows, count, dy + i * r * size);
        }
        ckci_outer o;
        o.planes = o.rows = 1;
        o.width = count;
        o.x = x;
        o.x_plane = o.x_row = 0;
        o.x_step = t->ldc;
        int64_t unit = (m - from) / t->kc;
        o.add = t->totals ? unit % ckci_weight_block_units(t) > 0 : unit > 0;
        ckci_multiply_outer(job, b, &o, NULL, NULL, dy, c);
        ckci_weight_next(job, b, unit, m + count == to, c, totals);
    }
}

/* Sums c of a block to dwei, along input channels. */
CKCI_FN void ckci_write_weights(const ckci_weight_job *job, const ckci_weight_block *b,
                                const unsigned char *c)
{
    const ckci_view *v = &job->v;
    const ckci_tiles *t = &job->t;
    int64_t size = v->kind->size, at[6], across = v->p->filter[2];
    int64_t padded = t->joined ? t->ldc / (v->taps / across) : ckci_round_up(t->cb, v->k->lanes);
    at[0] = b->group;
    for (int64_t k = 0; k < b->rows; k++, c += t->ldc * size) {
        at[1] = b->k0 + k;
        int64_t first = t->entries ? 0 : b->c0 / v->red;
        int64_t last = t->entries ? v->taps : ckci_ceil_div(b->c0 + b->cols, v->red);
        for (int64_t tap = first; tap < last; tap++) {
            int64_t from = t->entries ? b->c0 : ckci_max(b->c0 - tap * v->red, 0);
            int64_t to = t->entries ? b->c0 + b->cols : ckci_min(v->red, b->c0 + b->cols - tap * v->red);
            at[2] = from;
            at[5] = tap % v->p->filter[2];
            at[4] = tap / v->p->filter[2] % v->p->filter[1];
            at[3] = tap / v->p->filter[2] / v->p->filter[1];
            int64_t place = t->joined    ? tap / across * padded + tap % across * v->red
                            : t->entries ? tap * padded
                                         : tap * v->red + from - b->c0;
            v->kind->write(&job->target, at, 2, to - from, c + place * size);
        }
    }
}

/* One item sums one part of the reduction for one block of dwei. */
CKCI_FN void ckci_weight_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_weight_job *job = (const ckci_weight_job *)context;
    const ckci_view *v = &job->v;
    const ckci_tiles *t = &job->t;
    int64_t size = v->kind->size, part = item % t->split;
    ckci_weight_block b = ckci_find_weight_block(job, item / t->split);
    int64_t all = v->p->n * v->p->output[0] * v->p->output[1] * v->p->output[2];
    if (t->entries) {
        all = t->blocks_b * t->blocks_y * t->blocks_x;
    }
    /* whole blocks, spread evenly */
    int64_t share = ckci_ceil_div(all, t->split);
    int64_t from = ckci_min(all, part * share), to = ckci_min(all, from + share);
    unsigned char *dy = scratch, *c = dy + ckci_line_up(t->kc * t->nc * size);
    unsigned char *offset = c + ckci_line_up(t->nc * t->ldc * size), *totals = offset + t->table;
    unsigned char *x = totals + t->totals;
    if (t->split > 1) {
        c = job->partial + item * t->partial;
    }
    if (from == to) {
        ckci_clear(v->kind, c, t->nc * t->ldc);
    } else if (t->entries) {
        ckci_weight_units(job, &b, from, to, x, dy, (int32_t *)(void *)offset, c, totals);
    } else {
        ckci_weight_positions(job, &b, from, to, x, dy, c, totals);
    }
    if (t->split == 1) {
        ckci_write_weights(job, &b, c);
    }
}

/* The second stage: one item adds the parts of one block, in order, and finishes it. */
CKCI_FN void ckci_weight_sum_item(const void *context, int64_t block, unsigned char *scratch)
{
    const ckci_weight_job *job = (const ckci_weight_job *)context;
    const ckci_tiles *t = &job->t;
    ckci_weight_block b = ckci_find_weight_block(job, block);
    (void)scratch;
    unsigned char *sum = job->partial + block * t->split * t->partial;
    ckci_add_parts(job->v.kind, sum, t->partial, t->split, b.rows * t->ldc);
    ckci_write_weights(job, &b, sum);
}

/* With dot products the reduction runs over twins. */
CKCI_FN ckci_view ckci_make_weight_view(const ckci_conv *p, int32_t features)
{
    ckci_view v = ckci_make_view(p, features);
    if (features & CKCONV_CPU_AVX512_BF16) {
        v.twins = 1;
        v.k = ckci_find_pair_kernels(0);
    }
    return v;
}

/* Does this problem have twins? */
CKCI_FN int ckci_has_twins(const ckci_view *v)
{
    const ckci_tensor *x = v->read, *dy = &v->p->t[CKCI_OUT];
    return v->k != NULL && x->plain && dy->plain && x->dtype == CKCONV_BF16 && dy->dtype == CKCONV_BF16 &&
           (x->stride[2] == 1 || v->red == 1) && (dy->stride[2] == 1 || v->cols == 1) &&
           v->kind->dtype == CKCONV_F32 && (v->p->n > 1 || (v->p->n == 1 && v->p->output[0] > 1));
}

/* Parts are added in doubles, number by number. */
#define CKCI_ADD_COST 1.2

CKCI_FN ckconv_status ckci_fit_weight(ckci_fit *f, ckconv_error *err)
{
    ckci_view v = ckci_make_weight_view(&f->p->conv, f->features);
    if (v.twins && !ckci_has_twins(&v)) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "bf16 dot products take plain bf16 tensors, channels side by side, and pairs of batch "
            "entries or planes z");
    }
    const ckci_conv *p = &f->p->conv;
    int32_t threads = f->plan->device.threads;
    ckci_tiles t = ckci_weight_tiles(&v, f->family, f->split_k, threads, f->limit);
    if (f->family == CKCONV_FAMILY_SINGLE_STAGE && f->split_k > 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "split_k is %d: single_stage sums in one part, two_stage splits", (int)f->split_k);
    }
    if (v.twins && !t.entries) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "bf16 dot products gather input patches: channels do not fill vectors, or the "
                         "workspace limit is too small");
    }
    if (t.bytes > f->limit) {
        return f->split_k > 1 ? ckci_sums_fit(f->split_k, t.bytes, f->limit, err)
                              : ckci_over_limit("two_stage", t.bytes, err);
    }
    f->plan->workspace_bytes = t.bytes;
    f->plan->block[0] = t.threads;
    f->plan->grid[0] = t.items;
    f->plan->split_k = (int32_t)t.split;
    f->plan->launches = t.split > 1 ? 2 : 1;
    double positions = (double)p->n * (double)p->output[0] * (double)p->output[1] * (double)p->output[2];
    double lanes = v.k->lanes, rows = (double)ckci_round_up(v.cols, v.k->outer_rows);
    double vectors = (double)(t.joined    ? t.ldc / v.k->lanes
                              : t.entries ? v.taps * ckci_ceil_div(v.red, v.k->lanes)
                                          : ckci_ceil_div(v.taps * v.red, v.k->lanes));
    double halo = (double)t.entries / (double)t.kc; /* positions copied for each one; else runs of taps */
    double runs = t.entries ? halo : (double)v.taps / (v.red < v.k->lanes ? (double)p->filter[2] : 1);
    double line = v.twins && v.red < 8 && p->g > 1 ? 12 : 0; /* a cache line for a few bytes */
    double patch = t.entries ? ckci_patch_cost(&v, t.xb) + line : 60 + 2 * (double)v.red / lanes;
    const ckci_tensor *dy = &p->t[CKCI_OUT];
    double gradient = v.cols > 1 && dy->stride[2] != 1
                          ? (double)v.cols * (2 + 25 / (double)ckci_min(p->output[2], 128))
                          : rows / v.k->outer_rows * 2;
    double pack = (double)t.blocks_n * runs * patch + (double)t.blocks_m * gradient;
    double work = (double)p->g * positions * (rows * vectors * (v.twins ? 0.55 : 1.1) + pack) + 2000;
    double sums = (double)p->g * rows * vectors * (8 + CKCI_ADD_COST * lanes * (double)t.split);
    f->cost = work * ckci_idle(work, t.items) + sums;
    return CKCONV_OK;
}

CKCI_FN void ckci_run_weight(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                             unsigned char *ws, int32_t features)
{
    ckci_weight_job job;
    int32_t threads = plan->device.threads;
    ckconv_family family = ckconv_instance_family(plan->instance);
    (void)args;
    job.v = ckci_make_weight_view(&p->conv, features);
    job.t = ckci_weight_tiles(&job.v, family, (int32_t)plan->tune[CKCI_TUNE_SPLIT], threads,
                              ckci_plan_limit(plan));
    job.target = ckci_make_target(&p->conv);
    int64_t shared = job.t.items * job.t.partial;
    threads = job.t.threads;
    job.partial = ws;
    ckci_parallel(threads, job.t.items, ckci_weight_item, &job, job.t.bytes ? ws + shared : NULL,
                  job.t.scratch);
    if (job.t.split > 1) {
        ckci_parallel(threads, job.t.items / job.t.split, ckci_weight_sum_item, &job, ws, 0);
    }
}
