/*------------------------------------------------------------------------------------------------------------
  >>cpu-direct-weight
  Direct bwd_weight: the same lines, and the gradient's lanes beside them. An item holds the sums of all
  taps (or of one filter row without workspace) of a block of lanes and streams a share of x and dy through
  once.
*/
#pragma once
#include "cpu/direct.h"

/* A unit is a tile of yb rows and xb columns of one (n, z) plane of outputs. */
CKCI_FN ckci_direct_tiles ckci_find_direct_weight_tiles(const ckci_view *v, int32_t split_k, int32_t threads,
                                                        int64_t limit)
{
    ckci_direct_tiles t;
    ckci_axis axis[3];
    int64_t size = v->kind->size, lanes = v->k->lanes;
    memset(&t, 0, sizeof t);
    ckci_phase(v, 0, axis);
    t.blocks = ckci_ceil_div(ckci_all_lanes(v), lanes);
    for (int stack = 0; stack < 2; stack++) {
        int64_t rows = stack ? 1 : v->p->filter[0] * v->p->filter[1];
        t.chunk = stack;
        int64_t room = stack ? CKCI_STACK : 768 * 1024, sums;
        t.table =
            ckci_line_up(ckci_saturating_mul(ckci_round_up(rows * v->p->filter[2] * v->red, CKCI_TAPS), 8));
        sums = ckci_line_up(
            ckci_saturating_mul(ckci_round_up(rows * v->p->filter[2] * v->red, CKCI_TAPS) + 1, lanes * size));
        t.totals = stack && ckci_most_rows(v) > CKCI_NEXT && v->kind->dtype != CKCONV_I32 ? sums : 0;
        t.partial = ckci_saturating_add(sums, t.totals ? ckci_total_bytes(v->kind, sums / size) : 0);
        t.xb = ckci_min(axis[2].count, 448);
        t.yb = ckci_min(axis[1].count, 16);
        for (;;) {
            t.lines = ckci_line_bytes(v, t.yb, t.xb, t.chunk);
            t.sums = ckci_line_up(t.yb * t.xb * lanes * size); /* the gradient's lanes */
            t.scratch = ckci_saturating_add(t.lines, t.sums + t.table + t.partial);
            if (t.scratch <= room || (t.yb == 1 && t.xb <= CKCI_LINE)) {
                break;
            }
            if (t.yb > 1 && (t.yb > 4 || t.xb <= 4 * CKCI_LINE)) {
                t.yb = ckci_ceil_div(t.yb, 2);
            } else if (t.xb > CKCI_LINE) {
                t.xb = ckci_max(ckci_round_up(t.xb / 2, CKCI_LINE), CKCI_LINE);
            } else {
                t.yb = ckci_ceil_div(t.yb, 2);
            }
        }
        while (t.yb > 4 && ckci_line_block(v, t.yb * t.xb) > CKCI_NEAR) {
            t.yb = ckci_ceil_div(t.yb, 2);
        }
        t.blocks_y = ckci_ceil_div(axis[1].count, t.yb);
        t.blocks_x = ckci_ceil_div(axis[2].count, t.xb);
        t.units = v->p->n * axis[0].count * t.blocks_y * t.blocks_x;
        /* by shape alone, so that results do not depend on the threads */
        t.split = stack ? 1 : ckci_max(ckci_min(32, t.units), 1);
        t.split = split_k && !stack ? ckci_max(ckci_min(split_k, t.units), 1) : split_k > 1 ? 2 : t.split;
        if (!stack && ckci_ceil_div(t.units, t.split) > ckci_direct_block_units(&t) &&
            v->kind->dtype != CKCONV_I32) {
            t.totals = sums;
            t.partial = ckci_saturating_add(sums, ckci_total_bytes(v->kind, sums / size));
        }
        t.sets = ckci_min(t.blocks, ckci_ceil_div(8 * (int64_t)threads, t.split));
        t.some = ckci_ceil_div(t.blocks, t.sets);
        t.sets = ckci_ceil_div(t.blocks, t.some);
        t.items = ckci_saturating_mul(t.sets, t.split);
        /* all parts of all blocks */
        t.packed = ckci_saturating_mul(ckci_saturating_mul(t.blocks, t.split), t.partial);
        t.threads = threads;
        t.bytes = ckci_total(t.packed, t.scratch, 1);
        if (stack) {
            t.packed = 0;
            t.bytes = t.scratch <= CKCI_STACK && t.split == 1 ? 0 : CKCI_MAX_BYTES;
            t.items = t.blocks * v->p->filter[0] * v->p->filter[1];
        }
        if (t.bytes <= limit && t.lines < CKCI_MAX_BYTES / 4) {
            if (!stack) {
                t.threads = ckci_threads_within(limit, t.packed, t.scratch, threads);
                t.bytes = ckci_total(t.packed, t.scratch, t.threads);
            }
            break;
        }
    }
    return t;
}

/* Rows of `width` positions, `bytes` each, that stay in L1 and that a kernel may add one after the other */
CKCI_INLINE int64_t ckci_strip(int64_t width, int64_t bytes)
{
    return ckci_max(ckci_min(16384 / bytes, CKCI_CHAIN) / width, 1);
}

/* Sums of the taps of `axis` over units [from, to): acc[tap][lane], taps in the order (z, y, channel, x). */
CKCI_FN void ckci_direct_weight_sums(const ckci_direct_job *job, const ckci_axis axis[3], const ckci_lanes *l,
                                     int64_t from, int64_t to, int add, unsigned char *acc,
                                     unsigned char *scratch)
{
    const ckci_view *v = &job->v;
    const ckci_direct_tiles *t = &job->t;
    const ckci_tensor *dy = &v->p->t[CKCI_OUT];
    int64_t size = v->kind->size, lanes = v->k->lanes,
            taps = axis[0].taps * axis[1].taps * axis[2].taps * v->red;
    unsigned char *lines = scratch, *gradient = lines + t->lines;
    int32_t *offset = (int32_t *)(void *)(gradient + t->sums);
    if (!add) {
        ckci_clear(v->kind, acc, ckci_round_up(taps, CKCI_TAPS) * lanes);
    }
    for (int64_t unit = from; unit < to; unit++) {
        int64_t x0 = unit % t->blocks_x * t->xb, y0 = unit / t->blocks_x % t->blocks_y * t->yb;
        int64_t qz = unit / t->blocks_x / t->blocks_y % axis[0].count,
                n = unit / t->blocks_x / t->blocks_y / axis[0].count;
        int64_t yb = ckci_min(t->yb, axis[1].count - y0), xb = ckci_min(t->xb, axis[2].count - x0);
        ckci_window wy = ckci_make_window(&axis[1], y0, yb), wx = ckci_make_window(&axis[2], x0, xb);
        int64_t row = v->red * wx.planes * wx.width * lanes, slots = wy.planes * wy.width, entry = 0;
        for (int64_t jz = 0; jz < axis[0].taps; jz++) {
            int64_t z = qz * axis[0].read_step + axis[0].read0 + jz * axis[0].read_tap;
            for (int64_t s = 0; s < slots; s++) {
                int64_t y = ckci_window_position(&wy, s / wy.width, s % wy.width);
                if (ckci_window_used(&wy, s / wy.width)) {
                    ckci_gather_line(v, v->read, l, &wx, n, z, y, lines + (jz * slots + s) * row * size);
                }
            }
            for (int64_t jy = 0; jy < axis[1].taps; jy++) {
                for (int64_t c = 0; c < v->red; c++) {
                    for (int64_t jx = 0; jx < axis[2].taps; jx++) {
                        offset[2 * entry] =
                            (int32_t)((jz * slots + ckci_window_tap(&wy, jy)) * row +
                                      (c * wx.planes * wx.width + ckci_window_tap(&wx, jx)) * lanes);
                        offset[2 * entry + 1] = (int32_t)entry;
                        entry++;
                    }
                }
            }
        }
        for (; entry % CKCI_TAPS != 0; entry++) {
            offset[2 * entry] = offset[0];
            offset[2 * entry + 1] = (int32_t)entry;
        }
        /* the gradient is read where it lies if lanes are vectors of it */
        int64_t place = n * dy->stride[1] + qz * dy->stride[3] + y0 * dy->stride[4] + x0 * dy->stride[5];
        int64_t dy_row = xb * lanes, dy_step = lanes;
        const unsigned char *from_dy = gradient;
        if (l->count == lanes && dy->plain && dy->dtype == v->kind->dtype &&
            (v->cols == 1 || dy->stride[2] == 1) && (l->groups == 1 || dy->stride[0] == v->cols) &&
            (uintptr_t)dy->p % (uintptr_t)size == 0) {
            dy_row = dy->stride[4];
            dy_step = dy->stride[5];
            place += l->group[0] * dy->stride[0] + l->column[0] * dy->stride[2];
            from_dy = dy->p + place * size;
        } else {
            for (int64_t i = 0; i < yb; i++) {
                ckci_gather_lanes(v, dy, l, 1, place + i * dy->stride[4], dy->stride[5], xb,
                                  gradient + i * xb * lanes * size, 0);
            }
        }
        /* strips of rows whose gradient stays in L1 for all taps */
        for (int64_t y = 0; y < yb; y += ckci_strip(xb, lanes * size)) {
            int64_t rows = ckci_min(ckci_strip(xb, lanes * size), yb - y);
            for (int64_t i = 0; i < entry; i += CKCI_TAPS) {
                v->k->taps9(rows, xb, lines + y * row * size, row, lanes, offset + 2 * i,
                            from_dy + y * dy_row * size, dy_row, dy_step, acc);
            }
        }
    }
}

/* Sums of the taps of `axis` to dwei, along x taps. */
CKCI_FN void ckci_direct_weight_write(const ckci_direct_job *job, const ckci_axis axis[3],
                                      const ckci_lanes *l, const unsigned char *acc)
{
    double buffer[CKCI_SPAN];
    const ckci_view *v = &job->v;
    int64_t size = v->kind->size, lanes = v->k->lanes, at[6];
    const int64_t *stride = job->target.t.stride;
    int64_t taps = axis[0].taps * axis[1].taps * axis[2].taps;
    if (v->red == 1 && job->target.num_d == 0 && axis[1].taps == v->p->filter[1] && taps <= CKCI_SPAN &&
        stride[5] == 1 && (stride[4] == axis[2].taps || axis[1].taps == 1) &&
        (stride[3] == axis[1].taps * axis[2].taps || axis[0].taps == 1)) {
        /* all taps of a lane are one run */
        at[2] = at[4] = at[5] = 0;
        at[3] = axis[0].tap0;
        for (int64_t lane = l->shared; lane < l->count; lane++) {
            at[0] = l->group[lane];
            at[1] = l->column[lane];
            ckci_collect(v->kind, buffer, acc + lane * size, lanes, taps);
            v->kind->write(&job->target, at, 5, taps, buffer);
        }
        return;
    }
    for (int64_t lane = l->shared; lane < l->count; lane++) {
        at[0] = l->group[lane];
        at[1] = l->column[lane];
        for (int64_t row = 0; row < axis[0].taps * axis[1].taps; row++) {
            at[3] = axis[0].tap0 + row / axis[1].taps;
            at[4] = axis[1].tap0 + row % axis[1].taps;
            for (at[2] = 0; at[2] < v->red; at[2]++) {
                for (at[5] = 0; at[5] < axis[2].taps; at[5] += CKCI_SPAN) {
                    int64_t n = ckci_min(CKCI_SPAN, axis[2].taps - at[5]);
                    int64_t from = (row * v->red + at[2]) * axis[2].taps + at[5];
                    ckci_collect(v->kind, buffer, acc + (from * lanes + lane) * size, lanes, n);
                    v->kind->write(&job->target, at, 5, n, buffer);
                }
            }
        }
    }
}

/* Depthwise gradients straight from the tensors: whether a unit falls into few rectangles of outputs with
   the same valid taps. */
CKCI_FN int ckci_sums_in_place(const ckci_view *v, const ckci_axis axis[3], const int64_t q[3], int64_t yb,
                               int64_t xb)
{
    int64_t pieces[3], first, last;
    for (int i = 1; i < 3; i++) {
        int64_t end = q[i] + (i == 1 ? yb : xb);
        pieces[i] = 0;
        for (int64_t at = q[i]; at < end; at += ckci_same_taps(&axis[i], at, end, &first, &last)) {
            pieces[i]++;
        }
    }
    return pieces[1] * pieces[2] <= 9 && v->read->dtype == v->p->t[CKCI_OUT].dtype &&
           ckci_lanes_lie(v, v->read, axis) && ckci_lanes_lie(v, &v->p->t[CKCI_OUT], axis);
}

/* Do three taps read neighbouring positions for `count` outputs from q on, none of them padding but the first
   tap of the first output and the last one of the last? *edges: see ckci_lines_kernel. */
CKCI_FN int ckci_reads_lines(const ckci_axis *a, int64_t q, int64_t count, int *edges)
{
    int64_t low = q * a->read_step + a->read0, high = low + (count + 1) * a->read_step;
    *edges = (low < 0 ? 1 : 0) | (high >= a->read_len ? 2 : 0);
    return a->taps == 3 && a->read_tap == a->read_step && low + a->read_step >= 0 &&
           high - a->read_step < a->read_len;
}

/* The table of taps first[] <= (z, y, x) < last[], offsets from where tap base[] reads, for a kernel of taps
   or of lines. Returns their number; spare ones, whose sums nobody reads, fill the last nine. */
CKCI_FN int64_t ckci_sums_table(const ckci_view *v, const ckci_axis axis[3], const int64_t first[3],
                                const int64_t last[3], const int64_t base[3], int lines, int32_t *table)
{
    const int64_t *stride = v->read->stride;
    int64_t taps = 0, repeat = lines ? 3 : 1;
    for (int64_t jz = first[0]; jz < last[0]; jz++) {
        for (int64_t jy = first[1]; jy < last[1]; jy++) {
            for (int64_t jx = first[2]; jx < last[2]; jx++, taps++) {
                table[2 * taps] = (int32_t)((jz - base[0]) * axis[0].read_tap * stride[3] +
                                            (jy - base[1]) * axis[1].read_tap * stride[4] +
                                            (jx - base[2]) * axis[2].read_tap * stride[5]);
                table[2 * taps + 1] = (int32_t)((jz * axis[1].taps + jy) * axis[2].taps + jx);
            }
        }
    }
    for (; taps % CKCI_TAPS != 0; taps++) {
        table[2 * taps] = table[2 * (taps % repeat)];
        table[2 * taps + 1] = (int32_t)ckci_round_up(v->taps, CKCI_TAPS);
    }
    return taps;
}

/* Adds outputs q.. of entry n to part `part` of blocks [block, end), which fill their lanes. */
CKCI_FN void ckci_add_in_place(const ckci_direct_job *job, const ckci_axis axis[3], int64_t n,
                               const int64_t q[3], int64_t yb, int64_t xb, int64_t block, int64_t end,
                               int64_t part, int32_t *table)
{
    const ckci_view *v = &job->v;
    const ckci_direct_tiles *t = &job->t;
    const ckci_tensor *x = v->read, *dy = &v->p->t[CKCI_OUT];
    int64_t size = v->kind->size, lanes = v->k->lanes, from = (int64_t)ckci_size(x->dtype);
    int64_t first[3], last[3], at[3], rows, width;
    ckci_taps_kernel taps9 = x->dtype == CKCONV_BF16 ? v->k->half_taps9 : v->k->taps9;
    ckci_lines_kernel lines9 = x->dtype == CKCONV_BF16 ? v->k->half_lines9 : v->k->lines9;
    int64_t x_row = axis[1].read_step * x->stride[4], x_step = axis[2].read_step * x->stride[5];
    at[0] = q[0];
    ckci_same_taps(&axis[0], q[0], q[0] + 1, &first[0], &last[0]);
    for (at[1] = q[1]; at[1] < q[1] + yb; at[1] += rows) {
        rows = ckci_same_taps(&axis[1], at[1], q[1] + yb, &first[1], &last[1]);
        for (at[2] = q[2]; at[2] < q[2] + xb; at[2] += width) {
            int64_t x_at = n * x->stride[1], dy_at = n * dy->stride[1], base[3];
            int edges = 0, lines = lines9 && ckci_reads_lines(&axis[2], at[2], q[2] + xb - at[2], &edges);
            width = ckci_same_taps(&axis[2], at[2], q[2] + xb, &first[2], &last[2]);
            memcpy(base, first, sizeof base);
            if (lines) {
                width = q[2] + xb - at[2];
                first[2] = 0;
                last[2] = 3;
            }
            for (int i = 0; i < 3; i++) {
                int64_t low = at[i] * axis[i].read_step + axis[i].read0 + base[i] * axis[i].read_tap;
                x_at += low * x->stride[3 + i];
                dy_at += at[i] * dy->stride[3 + i];
            }
            int64_t taps = ckci_sums_table(v, axis, first, last, base, lines, table);
            /* the longer side inside, or whole lines; the other one in strips */
            int tall = rows > width && !lines;
            int64_t inner = tall ? rows : width, outer = tall ? width : rows;
            int64_t x_in = tall ? x_row : x_step, x_out = tall ? x_step : x_row;
            int64_t dy_in = dy->stride[tall ? 4 : 5], dy_out = dy->stride[tall ? 5 : 4];
            int64_t strip = ckci_strip(inner, lanes * size);
            for (int64_t b = block; b < end && taps > 0; b++) {
                unsigned char *acc = job->packed + (b * t->split + part) * t->partial;
                int64_t lane = ckci_first_lane(v, b);
                for (int64_t y = 0; y < outer; y += strip) {
                    const unsigned char *x_p = x->p + (x_at + y * x_out + lane) * from;
                    const unsigned char *dy_p = dy->p + (dy_at + y * dy_out + lane) * from;
                    int64_t some = ckci_min(strip, outer - y);
                    for (int64_t i = 0; i < taps; i += CKCI_TAPS) {
                        const int32_t *nine = table + 2 * i;
                        if (lines) {
                            lines9(some, inner, x_p, x_out, x_in, nine, dy_p, dy_out, dy_in, acc, edges);
                        } else {
                            taps9(some, inner, x_p, x_out, x_in, nine, dy_p, dy_out, dy_in, acc);
                        }
                    }
                }
            }
        }
    }
}

/* Part `part`, units [from, to), of some blocks of lanes, unit by unit: the blocks share cache lines. */
CKCI_FN void ckci_direct_weight_blocks(const ckci_direct_job *job, const ckci_axis axis[3], int64_t block,
                                       int64_t end, int64_t part, int64_t from, int64_t to,
                                       unsigned char *scratch)
{
    const ckci_direct_tiles *t = &job->t;
    const ckci_view *v = &job->v;
    int64_t unit = from, units = t->totals ? ckci_direct_block_units(t) : ckci_max(to - from, 1);
    int64_t numbers = v->taps * v->red * v->k->lanes;
    do {
        int begin = (unit - from) % units == 0;
        int64_t q[3], n = unit / t->blocks_x / t->blocks_y / axis[0].count;
        q[0] = unit / t->blocks_x / t->blocks_y % axis[0].count;
        q[1] = unit / t->blocks_x % t->blocks_y * t->yb;
        q[2] = unit % t->blocks_x * t->xb;
        if (from < to) {
            ckci_touch(v, v->read, 1, axis, n, q, t->yb, t->xb, block, end);
            ckci_touch(v, &v->p->t[CKCI_OUT], 0, axis, n, q, t->yb, t->xb, block, end);
        }
        int64_t yb = ckci_min(t->yb, axis[1].count - q[1]), xb = ckci_min(t->xb, axis[2].count - q[2]);
        int64_t b = block;
        if (from < to && ckci_all_lanes(v) >= v->k->lanes && ckci_sums_in_place(v, axis, q, yb, xb)) {
            for (; b < end && begin; b++) {
                ckci_clear(v->kind, job->packed + (b * t->split + part) * t->partial,
                           (t->totals ? t->totals : t->partial) / v->kind->size);
            }
            ckci_add_in_place(job, axis, n, q, yb, xb, block, end, part,
                              (int32_t *)(void *)(scratch + t->lines + t->sums));
            b = end;
        }
        for (; b < end; b++) {
            ckci_lanes l = ckci_make_lanes(v, b);
            ckci_direct_weight_sums(job, axis, &l, unit, ckci_min(unit + 1, to), !begin,
                                    job->packed + (b * t->split + part) * t->partial, scratch);
        }
        int last = unit + 1 == to;
        for (b = block; b < end && t->totals && (last || (unit + 1 - from) % units == 0); b++) {
            unsigned char *acc = job->packed + (b * t->split + part) * t->partial;
            ckci_add_totals(v->kind, acc + t->totals, acc, numbers, unit - from < units);
            if (last) {
                ckci_end_totals(v->kind, acc + t->totals, acc, numbers);
            }
        }
    } while (++unit < to);
}

CKCI_FN void ckci_direct_weight_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_direct_job *job = (const ckci_direct_job *)context;
    const ckci_view *v = &job->v;
    const ckci_direct_tiles *t = &job->t;
    ckci_axis axis[3];
    ckci_phase(v, 0, axis);
    if (!t->chunk) {
        int64_t part = item / t->sets, block = item % t->sets * t->some;
        int64_t share = ckci_ceil_div(t->units, t->split), from = ckci_min(t->units, part * share);
        ckci_direct_weight_blocks(job, axis, block, ckci_min(block + t->some, t->blocks), part, from,
                                  ckci_min(t->units, from + share), scratch);
        return;
    }
    /* without workspace an item owns one filter row of one block of lanes */
    int64_t rows = v->p->filter[0] * v->p->filter[1], row = item % rows;
    ckci_lanes l = ckci_make_lanes(v, item / rows);
    unsigned char *acc = scratch + t->lines + t->sums + t->table;
    axis[0].tap0 = row / v->p->filter[1];
    axis[0].read0 += axis[0].tap0 * axis[0].read_tap;
    axis[1].tap0 = row % v->p->filter[1];
    axis[1].read0 += axis[1].tap0 * axis[1].read_tap;
    axis[0].taps = axis[1].taps = 1;
    int64_t from = 0, units = t->totals ? ckci_direct_block_units(t) : t->units;
    int64_t numbers = axis[2].taps * v->red * v->k->lanes;
    do {
        ckci_direct_weight_sums(job, axis, &l, from, ckci_min(from + units, t->units), 0, acc, scratch);
        if (t->totals) {
            ckci_add_totals(v->kind, acc + t->totals, acc, numbers, from == 0);
        }
        from += units;
    } while (from < t->units);
    if (t->totals) {
        ckci_end_totals(v->kind, acc + t->totals, acc, numbers);
    }
    ckci_direct_weight_write(job, axis, &l, acc);
}

/* The second stage: one item adds the parts of one block of lanes, in order, and finishes it. */
CKCI_FN void ckci_direct_weight_sum_item(const void *context, int64_t block, unsigned char *scratch)
{
    const ckci_direct_job *job = (const ckci_direct_job *)context;
    const ckci_view *v = &job->v;
    const ckci_direct_tiles *t = &job->t;
    ckci_axis axis[3];
    ckci_lanes l = ckci_make_lanes(v, block);
    unsigned char *sum = job->packed + block * t->split * t->partial;
    (void)scratch;
    ckci_phase(v, 0, axis);
    ckci_add_parts(v->kind, sum, t->partial, t->split, v->taps * v->red * v->k->lanes);
    ckci_direct_weight_write(job, axis, &l, sum);
}
