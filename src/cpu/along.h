/*------------------------------------------------------------------------------------------------------------
  >>cpu-along
  Direct convolution of few channels per group with vectors along x, for tensors whose x lies closer than
  their channels, and for fewer channels than a vector has lanes. An item owns a tile of one output plane of
  one group: it gathers the lines that the tile reads, zeros beside them, once for each reduction channel, and
  for each output channel every tap is a vector multiply-add with a weight in all lanes. Of many reduction
  channels some are gathered at a time, and the sums of all output channels wait in scratch. The kernels are
  those of cpu/direct.h: what they take for neighbouring outputs are rows (`down`) or, where rows are few,
  vectors of one row.
*/
#pragma once
#include "cpu/direct.h"

typedef struct ckci_along_tiles {
    int64_t yb, xb, blocks_y, blocks_x; /* outputs of an item */
    int64_t some, sets;                 /* planes (n, group) of an item; items beside each other */
    int64_t red;                        /* reduction channels gathered at a time */
    int down;
    int64_t block; /* bytes of sums that a kernel begins: 14 rows, or a row */
    int64_t lines, sums, weights, table, scratch, items, bytes;
    int32_t threads;
} ckci_along_tiles;

enum { CKCI_ALONG_TAPS = 1024, CKCI_ALONG_BYTES = 128 * 1024 };

/* Reduction channels gathered at a time: even shares. */
CKCI_FN int64_t ckci_along_red(const ckci_view *v)
{
    int64_t most = ckci_max(ckci_min(CKCI_DIRECT_RED, CKCI_ALONG_TAPS / v->taps), 1);
    return ckci_ceil_div(v->red, ckci_ceil_div(v->red, most));
}

/* The bytes of a tile of yb x xb outputs. */
CKCI_FN void ckci_along_scratch(const ckci_view *v, ckci_along_tiles *t)
{
    int64_t size = v->kind->size, lanes = v->k->lanes, wide = ckci_round_up(t->xb, lanes);
    int64_t entries = ckci_saturating_mul(ckci_window_entries(v, t->yb, wide, 0), t->red);
    int64_t blocks = t->red == v->red ? 1 : v->cols * ckci_ceil_div(t->yb, t->down ? CKCI_LINE : 1);
    /* kernels read as if they had 14 rows or vectors more */
    int64_t row = ckci_window_entries(v, 1, wide, 1);
    t->lines = ckci_line_up(ckci_saturating_mul(ckci_saturating_add(entries, CKCI_LINE * row), size));
    t->block = ckci_line_up((t->down ? CKCI_LINE * wide : wide + CKCI_LINE * lanes) * size);
    t->sums = ckci_saturating_mul(t->block, blocks);
    t->weights = ckci_line_up(v->taps * t->red * lanes * size);
    t->table = ckci_line_up(v->taps * t->red * 16);
    t->scratch = ckci_saturating_add(t->lines, ckci_saturating_add(t->sums, t->weights + t->table));
}

CKCI_FN ckci_along_tiles ckci_find_along_tiles(const ckci_view *v, int32_t threads, int64_t limit)
{
    ckci_along_tiles t;
    ckci_axis axis[3];
    memset(&t, 0, sizeof t);
    ckci_phase(v, 0, axis);
    t.down = axis[1].count >= 4;
    t.red = ckci_along_red(v);
    t.threads = threads;
    for (int stack = 0; stack < 2; stack++) {
        t.xb = ckci_min(axis[2].count, t.down ? 448 : 2048);
        t.yb = ckci_min(axis[1].count, t.down ? 4 * CKCI_LINE : 1);
        for (;;) {
            ckci_along_scratch(v, &t);
            if (t.scratch <= (stack ? (int64_t)CKCI_STACK : (int64_t)CKCI_ALONG_BYTES) ||
                (t.yb <= CKCI_LINE && t.xb <= 2 * v->k->lanes)) {
                break;
            }
            if (t.yb > CKCI_LINE) {
                t.yb = ckci_max(ckci_round_up(t.yb / 2, CKCI_LINE), CKCI_LINE);
            } else {
                t.xb = ckci_round_up(t.xb / 2, v->k->lanes);
            }
        }
        t.bytes = stack ? (t.scratch <= CKCI_STACK ? 0 : CKCI_MAX_BYTES) : t.scratch;
        if (t.bytes <= limit) {
            if (!stack) {
                t.threads = ckci_threads_within(limit, 0, t.scratch, threads);
                t.bytes = ckci_total(0, t.scratch, t.threads);
            }
            break;
        }
    }
    t.blocks_y = ckci_ceil_div(axis[1].count, t.yb);
    t.blocks_x = ckci_ceil_div(axis[2].count, t.xb);
    /* small planes share what is the same for all */
    t.some = ckci_max(8192 / (t.yb * t.xb), 1);
    t.sets = ckci_ceil_div(v->p->g * v->p->n, t.some);
    t.items = ckci_saturating_mul(t.sets, axis[0].count * v->phases[0] * v->phases[1] * v->phases[2]);
    t.items = ckci_saturating_mul(t.items, t.blocks_y * t.blocks_x);
    return t;
}

/* Shapes for which it is tried. */
CKCI_FN int ckci_goes_along(const ckci_view *v, int64_t limit)
{
    const ckci_tensor *from = v->read, *to = &v->p->t[v->p->op == CKCONV_BWD_DATA ? CKCI_IN : CKCI_OUT];
    int near_x = from->stride[5] <= from->stride[v->red > 1 ? 2 : 0] &&
                 to->stride[5] <= to->stride[v->cols > 1 ? 2 : 0];
    const int few = ckci_max(ckci_max(v->phases[0], v->phases[1]), v->phases[2]) <= CKCI_DIRECT_PHASES;
    return !v->pairs && few && v->taps <= CKCI_ALONG_TAPS &&
           (v->red <= CKCI_DIRECT_RED || v->cols <= CKCI_DIRECT_RED) &&
           (near_x || ckci_all_lanes(v) < v->k->lanes) && ckci_find_along_tiles(v, 1, limit).bytes <= limit;
}

/* `n` numbers of a line, `step` elements apart from element `at` on */
CKCI_FN void ckci_along_read(const ckci_view *v, const ckci_tensor *t, int64_t at, int64_t step, int64_t n,
                             unsigned char *dst)
{
    ckci_copy_kernel widen = step == 1 ? ckci_widener(v, t) : NULL;
    if (widen) {
        widen(1, n, t->p + at * 2, 0, dst, 0);
    } else if (step == 2 && t->plain && t->dtype == CKCONV_F32) {
        for (int64_t i = 0; i < n; i++) { /* a constant step: compilers know how to take it in vectors */
            memcpy(dst + i * 4, t->p + at * 4 + i * 8, 4);
        }
    } else {
        v->kind->read(t, at, step, n, dst);
    }
}

/* Are channels of t side by side, so that lines of several are turned at once? */
CKCI_FN int ckci_along_turns(const ckci_view *v, const ckci_tensor *t, int64_t red)
{
    return red > 1 && t->stride[2] == 1 && t->plain && t->dtype == v->kind->dtype &&
           (uintptr_t)t->p % (uintptr_t)v->kind->size == 0;
}

/* The lines of a tile, of `red` channels from c0 on: [channel][z tap][slot of wy][plane of wx][position] */
CKCI_FN void ckci_along_gather(const ckci_view *v, const ckci_axis axis[3], const ckci_window *wy,
                               const ckci_window *wx, int64_t group, int64_t n, int64_t q, int64_t c0,
                               int64_t red, unsigned char *dst)
{
    const ckci_tensor *t = v->read;
    int64_t slots = wy->planes * wy->width, size = v->kind->size, line = wx->planes * wx->width * size;
    int64_t step = wx->step * t->stride[5], channel = axis[0].taps * slots * line;
    int turns = ckci_along_turns(v, t, red);
    for (int64_t plane = 0; plane < wx->planes; plane++, dst += wx->width * size) {
        int64_t from, to, x0 = ckci_window_position(wx, plane, 0);
        unsigned char *out = dst;
        if (!ckci_window_used(wx, plane)) {
            continue;
        }
        ckci_inside(x0, wx->step, wx->width, t->len[5], &from, &to);
        for (int64_t i = 0; i < red * axis[0].taps; i++) {
            int64_t z = q * axis[0].read_step + axis[0].read0 + i % axis[0].taps * axis[0].read_tap;
            int64_t at = group * t->stride[0] + n * t->stride[1] + (c0 + i / axis[0].taps) * t->stride[2] +
                         z * t->stride[3] + (x0 + from * wx->step) * t->stride[5];
            for (int64_t s = 0; s < slots; s++, out += line) {
                int64_t y = ckci_window_position(wy, s / wy->width, s % wy->width);
                if (z < 0 || z >= t->len[3] || y < 0 || y >= t->len[4] || to == from) {
                    ckci_clear(v->kind, out, wx->width);
                    continue;
                }
                if (from > 0) {
                    ckci_clear(v->kind, out, from);
                }
                if (!turns) {
                    ckci_along_read(v, t, at + y * t->stride[4], step, to - from, out + from * size);
                } else if (i < axis[0].taps) {
                    v->k->turn(to - from, red, t->p + (at + y * t->stride[4]) * size, step, out + from * size,
                               channel / size);
                }
                if (to < wx->width) {
                    ckci_clear(v->kind, out + to * size, wx->width - to);
                }
            }
        }
    }
}

/* Where tap (jz, jy, jx) of channel c reads for the first output */
CKCI_INLINE int64_t ckci_along_tap(const ckci_axis axis[3], const ckci_window *wy, const ckci_window *wx,
                                   int64_t c, int64_t jz, int64_t jy, int64_t jx)
{
    int64_t slots = wy->planes * wy->width, line = wx->planes * wx->width;
    return ((c * axis[0].taps + jz) * slots + ckci_window_tap(wy, jy)) * line + ckci_window_tap(wx, jx);
}

/* The tap tables: by threes down where rows are neighbours, then one by one. Weights lie in the order
   (channel, z, x, y). */
CKCI_FN ckci_line_taps ckci_along_taps(const ckci_view *v, const ckci_axis axis[3], const ckci_window *wy,
                                       const ckci_window *wx, int64_t red, int down, int32_t *table)
{
    ckci_line_taps t;
    int64_t lanes = v->k->lanes, taps = axis[1].taps;
    int neighbours =
        down && v->k->three14 && wy->step == 1 && (wy->tap == 1 || wy->tap == -1) && !wy->separate;
    int64_t whole = neighbours ? taps / 3 : 0, others = red * axis[0].taps * axis[2].taps;
    int32_t *three = table, *one = table + 4 * others * whole;
    t.threes = others * whole;
    t.ones = others * (taps - 3 * whole);
    t.w_step = wy->tap < 0 ? -lanes : lanes;
    t.three = three;
    t.one = one;
    for (int64_t i = 0; i < others; i++) {
        int64_t jx = i % axis[2].taps, jz = i / axis[2].taps % axis[0].taps,
                c = i / axis[2].taps / axis[0].taps;
        for (int64_t j = 0; j < whole; j++) {
            int64_t jy = wy->tap < 0 ? 3 * j + 2 : 3 * j; /* reads the first of three lines */
            *three++ = (int32_t)ckci_along_tap(axis, wy, wx, c, jz, jy, jx);
            *three++ = (int32_t)((i * taps + jy) * lanes);
            *three++ = 0;
            *three++ = CKCI_LINE + 2;
        }
        for (int64_t jy = 3 * whole; jy < taps; jy++) {
            *one++ = (int32_t)ckci_along_tap(axis, wy, wx, c, jz, jy, jx);
            *one++ = (int32_t)((i * taps + jy) * lanes);
        }
    }
    return t;
}

/* The weights of one output channel and `red` others from c0 on, each in all lanes */
CKCI_FN void ckci_along_weights(const ckci_view *v, const ckci_axis axis[3], int64_t group, int64_t column,
                                int64_t c0, int64_t red, unsigned char *dst)
{
    const ckci_tensor *w = &v->p->t[CKCI_WEI];
    int64_t size = v->kind->size;
    double one[CKCI_SPAN];
    for (int64_t i = 0; i < red * axis[0].taps * axis[2].taps; i++) {
        int64_t jx = i % axis[2].taps, jz = i / axis[2].taps % axis[0].taps,
                c = c0 + i / axis[2].taps / axis[0].taps;
        int64_t at = group * w->stride[0] + column * w->stride[v->wei_col] + c * w->stride[v->wei_red] +
                     (axis[0].tap0 + jz * axis[0].tap_step) * w->stride[3] + axis[1].tap0 * w->stride[4] +
                     (axis[2].tap0 + jx * axis[2].tap_step) * w->stride[5];
        int64_t step = axis[1].tap_step * w->stride[4];
        for (int64_t j = 0, some; j < axis[1].taps; j += some) {
            some = ckci_min(axis[1].taps - j, CKCI_SPAN);
            v->kind->read(w, at + j * step, step, some, one);
            for (int64_t k = 0; k < some; k++, dst += v->k->lanes * size) {
                ckci_splat(v->kind, dst, (const unsigned char *)one + k * size, v->k->lanes);
            }
        }
    }
}

/* `count` outputs of a kernel, out_step apart: of rows, or of vectors of one row */
CKCI_FN void ckci_along_run(const ckci_kernels *k, const ckci_line_taps *taps, int64_t count,
                            const unsigned char *x, int64_t x_step, const unsigned char *w,
                            unsigned char *sums, int64_t step, int add)
{
    int32_t all[CKCI_EDGES] = {0, 0, 0, 0, 0, 0, 0};
    all[0] = (int32_t)taps->ones;
    if (taps->threes) {
        (count > 7 ? k->three14 : k->three7)(taps->threes, taps->three, x, x_step, w, taps->w_step, sums,
                                             step, add);
    }
    if (taps->ones || (!taps->threes && !add)) {
        (count > 7   ? k->line14
         : count > 4 ? k->line7
                     : k->line4)(all, taps->one, x, x_step, w, sums, step, add || taps->threes > 0);
    }
}

typedef struct ckci_along_job {
    ckci_view v;
    ckci_along_tiles t;
    ckci_target target;
} ckci_along_job;

/* One output channel of the tile at first[]: `add` to the sums of other channels, written if these are the
   last. */
CKCI_FN void ckci_along_channel(const ckci_along_job *job, const ckci_target *o, const ckci_line_taps *taps,
                                int64_t line, const int64_t first[6], int64_t yb, int64_t xb,
                                const unsigned char *lines, const unsigned char *weights, unsigned char *sums,
                                int add, int last)
{
    const ckci_view *v = &job->v;
    int64_t size = v->kind->size, lanes = v->k->lanes, vectors = ckci_ceil_div(xb, lanes), at[6];
    int how = o->t.stride[5] == 1 ? ckci_plain_store(v, o) : 0, down = job->t.down;
    memcpy(at, first, sizeof at);
    for (int64_t y = 0, rows; y < yb; y += rows) {
        const unsigned char *x = lines + y * line * size;
        rows = down ? ckci_min(yb - y, CKCI_LINE) : 1;
        int64_t wide = vectors * lanes, step = down ? 1 : CKCI_LINE;
        for (int64_t i = 0; i < vectors; i += step) {
            ckci_along_run(v->k, taps, down ? rows : ckci_min(vectors - i, CKCI_LINE), x + i * lanes * size,
                           down ? line : lanes, weights, sums + i * lanes * size, down ? wide : lanes, add);
        }
        if (!last) {
            sums += job->t.block;
            continue;
        }
        if (how) {
            ckci_store_rows(v, how, rows, xb, sums, wide,
                            o->t.p + ckci_offset(o->t.stride, at) * (int64_t)ckci_size(o->t.dtype),
                            o->t.stride[4]);
            at[4] += rows;
        } else {
            for (int64_t i = 0; i < rows; i++, at[4]++) {
                v->kind->write(o, at, 5, xb, sums + i * wide * size);
            }
        }
        sums += add ? job->t.block : 0;
    }
}

CKCI_FN void ckci_along_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_along_job *job = (const ckci_along_job *)context;
    const ckci_view *v = &job->v;
    const ckci_along_tiles *t = &job->t;
    ckci_axis axis[3];
    ckci_tensor d[4];
    int64_t q[3], rest = item, phases = v->phases[0] * v->phases[1] * v->phases[2];
    int64_t phase = rest % phases;
    ckci_phase(v, phase, axis);
    rest /= phases;
    q[2] = rest % t->blocks_x * t->xb;
    rest /= t->blocks_x;
    q[1] = rest % t->blocks_y * t->yb;
    rest /= t->blocks_y;
    int64_t set = rest % t->sets, planes = v->p->g * v->p->n;
    q[0] = rest / t->sets;
    if (q[0] >= axis[0].count || q[1] >= axis[1].count || q[2] >= axis[2].count) {
        return;
    }
    int64_t yb = ckci_min(t->yb, axis[1].count - q[1]), xb = ckci_min(t->xb, axis[2].count - q[2]);
    int64_t at[6];
    unsigned char *lines = scratch, *sums = lines + t->lines, *weights = sums + t->sums;
    int32_t *table = (int32_t *)(void *)(weights + t->weights);
    ckci_target o = ckci_phase_target(&job->target, axis, d);
    ckci_line_taps taps = {0, 0, 0, NULL, NULL};
    ckci_window wy = ckci_make_window(&axis[1], q[1], yb);
    ckci_window wx = ckci_make_window(&axis[2], q[2], ckci_round_up(xb, v->k->lanes));
    int reached = axis[0].taps * axis[1].taps * axis[2].taps > 0; /* else the epilogue of 0 */
    taps.three = taps.one = table;
    if (reached) {
        taps = ckci_along_taps(v, axis, &wy, &wx, t->red, t->down, table);
    }
    int64_t column = t->red < v->red ? t->sums / v->cols : 0;
    at[3] = q[0];
    at[4] = q[1];
    at[5] = q[2];
    for (int64_t i = set * t->some; i < ckci_min(planes, set * t->some + t->some); i++) {
        at[0] = i % v->p->g;
        at[1] = i / v->p->g;
        for (int64_t c0 = 0, red; c0 < v->red; c0 += red) {
            ckci_line_taps some = taps;
            red = reached ? ckci_min(t->red, v->red - c0) : v->red;
            some.threes = taps.threes / t->red * red;
            some.ones = taps.ones / t->red * red;
            if (reached) {
                ckci_along_gather(v, axis, &wy, &wx, at[0], at[1], q[0], c0, red, lines);
            }
            for (at[2] = 0; at[2] < v->cols; at[2]++) {
                if (reached) {
                    ckci_along_weights(v, axis, at[0], at[2], c0, red, weights);
                }
                ckci_along_channel(job, &o, &some, wx.planes * wx.width, at, yb, xb, lines, weights,
                                   sums + at[2] * column, c0 > 0, c0 + red == v->red);
            }
        }
    }
}

/* Costs in the units of ckci_direct_cost: to gather a tile of yb x xb outputs, a call for each line, */
CKCI_FN double ckci_along_read_cost(const ckci_view *v, const ckci_axis axis[3], int64_t yb, int64_t xb)
{
    double lines = (double)v->red * (double)axis[0].taps *
                   (double)(yb * axis[1].read_step + axis[1].taps - 1) * (double)axis[2].read_step;
    int turns = ckci_along_turns(v, v->read, v->red), quick = turns && v->kind->size == 4 && v->red >= 8;
    double vector = v->read->stride[5] * axis[2].read_step == 1 ? 4
                    : quick                                     ? 0.5 * v->k->lanes
                                                                : (turns ? 1.5 : 3) * v->k->lanes;
    return lines * ((turns ? 20 : 60) + vector * (double)ckci_ceil_div(xb, v->k->lanes));
}

/* and of all. */
CKCI_FN double ckci_along_cost(const ckci_view *v, int64_t limit)
{
    ckci_along_tiles t = ckci_find_along_tiles(v, 1, limit);
    ckci_axis axis[3];
    ckci_phase(v, 0, axis);
    const ckci_tensor *to = &v->p->t[v->p->op == CKCONV_BWD_DATA ? CKCI_IN : CKCI_OUT];
    double phases = (double)(v->phases[0] * v->phases[1] * v->phases[2]), lanes = v->k->lanes;
    double vectors = (double)v->p->n * (double)v->p->g * phases * (double)axis[0].count *
                     (double)axis[1].count * (double)ckci_ceil_div(axis[2].count, v->k->lanes);
    double taps = (double)v->taps * (double)v->red / phases;
    double write = to->stride[5] * axis[2].write_step == 1 ? 5 : 3 * lanes;
    double tiles = (double)(v->p->g * v->p->n) * (double)(t.items / ckci_max(t.sets, 1));
    return vectors * (double)v->cols * (taps * ckci_tap_cost(v) + write) +
           tiles * (400 + ckci_along_read_cost(v, axis, t.yb, t.xb) +
                    (double)v->cols * (double)v->taps * (double)v->red * 4) +
           4000;
}

CKCI_FN void ckci_run_along(ckci_along_job *job, unsigned char *ws)
{
    ckci_parallel(job->t.threads, job->t.items, ckci_along_item, job, job->t.bytes ? ws : NULL,
                  job->t.scratch);
}

/* Whether a direct instance computes v so. It depends on the shape and on what workspace allows alone. */
CKCI_FN int ckci_better_along(const ckci_view *v, const ckci_direct_tiles *lines, int64_t limit, double *cost)
{
    *cost = ckci_direct_cost(v, lines);
    if (ckci_goes_along(v, limit)) {
        double along = ckci_along_cost(v, limit);
        if (along < *cost || lines->bytes > limit || v->red > CKCI_DIRECT_RED) {
            *cost = along;
            return 1;
        }
    }
    return 0;
}

CKCI_FN ckconv_status ckci_fit_direct(ckci_fit *f, ckconv_error *err)
{
    ckci_conv turned;
    ckci_view v = ckci_make_view(ckci_long_rows(&f->p->conv, &turned), f->features);
    int32_t threads = f->plan->device.threads;
    double cost;
    if (f->split_k > 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "split_k is %d: fwd and bwd_data instances do not split", (int)f->split_k);
    }
    CKCI_TRY(ckci_direct_takes(&v, ckci_goes_along(&v, f->limit), err));
    ckci_direct_tiles lines = ckci_find_direct_tiles(&v, threads, f->limit);
    f->plan->tune[CKCI_TUNE_ALONG] = ckci_better_along(&v, &lines, f->limit, &cost);
    if (!f->plan->tune[CKCI_TUNE_ALONG]) {
        return ckci_fit_direct_view(f, &v, err);
    }
    ckci_along_tiles t = ckci_find_along_tiles(&v, threads, f->limit);
    f->plan->workspace_bytes = t.bytes;
    f->plan->block[0] = t.threads;
    f->plan->grid[0] = t.items;
    f->cost = cost;
    return CKCONV_OK;
}

CKCI_FN void ckci_run_direct(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                             unsigned char *ws, int32_t features)
{
    ckci_direct_job job;
    ckci_conv turned;
    const ckci_conv *conv = ckci_long_rows(&p->conv, &turned);
    int32_t threads = plan->device.threads;
    int64_t limit = ckci_plan_limit(plan);
    (void)args;
    job.v = ckci_make_view(conv, features);
    job.t = ckci_find_direct_tiles(&job.v, threads, limit);
    job.target = ckci_make_target(conv);
    if (plan->tune[CKCI_TUNE_ALONG]) {
        ckci_along_job along;
        along.v = job.v;
        along.t = ckci_find_along_tiles(&job.v, threads, limit);
        along.target = job.target;
        ckci_run_along(&along, ws);
        return;
    }
    ckci_run_direct_job(&job, ws);
}
