/*------------------------------------------------------------------------------------------------------------
  >>cpu-direct
  Direct convolution for depthwise and small groups. A vector's lanes are consecutive (group, column)
  pairs, so that no lane is wasted however few channels a group has. An item gathers the part of the input
  that its tile of outputs needs into lines, one for each (z, y) row and each reduction channel, in which the
  value for lane l is the one of l's group; then every tap is one vector multiply-add per output. Lines are
  split by position modulo the stride, so that neighbouring outputs are neighbouring vectors. Weights are
  laid out [block][tap][channel][lane].
*/
#pragma once
#include "core/axes.h"
#include "cpu/gather.h"

/* The lanes that there are of a whole problem, and the first one of a block: the last block begins earlier,
   so that it fills its lanes, if so many are there. The lanes that it shares belong to the block before. */
CKCI_INLINE int64_t ckci_all_lanes(const ckci_view *v)
{
    return v->p->g * v->cols;
}

CKCI_INLINE int64_t ckci_first_lane(const ckci_view *v, int64_t block)
{
    return ckci_max(ckci_min(block * v->k->lanes, ckci_all_lanes(v) - v->k->lanes), 0);
}

/* Which (group, channel) each lane of a block reads. */
typedef struct ckci_lanes {
    int64_t count;              /* lanes in use */
    int64_t shared;             /* the first of them, which another block writes */
    int64_t group[CKCI_LANES];  /* group of each lane */
    int64_t column[CKCI_LANES]; /* and its column */
    int32_t map[CKCI_LANES];    /* place of the group's first channel in a span of the block's channels */
    int64_t first_group, groups;
} ckci_lanes;

CKCI_FN ckci_lanes ckci_make_lanes(const ckci_view *v, int64_t block)
{
    ckci_lanes l;
    int64_t first = ckci_first_lane(v, block);
    l.count = ckci_min(v->k->lanes, ckci_all_lanes(v) - first);
    l.shared = block * v->k->lanes - first;
    l.first_group = first / v->cols;
    l.groups = (first + l.count - 1) / v->cols - l.first_group + 1;
    int64_t group = l.first_group, column = first - group * v->cols;
    for (int i = 0; i < CKCI_LANES; i++) {
        l.group[i] = group;
        l.column[i] = column;
        l.map[i] = (int32_t)((group - l.first_group) * v->red);
        if (i + 1 < l.count && ++column == v->cols) {
            column = 0;
            group++;
        }
    }
    return l;
}

enum { CKCI_DIRECT_RED = 16 };
/* of an axis of bwd_data: planning looks at each, and each has tiles of its own */
enum { CKCI_DIRECT_PHASES = 64 };

/* One stretch of a line: `n` positions from entry `at` on, the first one `place` elements into the tensor
   (group 0, channel 0), the next `step` elements further. dst: the plane, [channel][...][entry][lane].
   by_column: each lane has its own channel (a gradient), and there is a single reduction channel. */
CKCI_FN void ckci_gather_lanes(const ckci_view *v, const ckci_tensor *t, const ckci_lanes *l, int by_column,
                               int64_t place, int64_t step, int64_t n, unsigned char *dst,
                               int64_t dst_channel)
{
    double buffer[CKCI_SPAN + CKCI_LANES]; /* the spread kernel may read a vector past the last position */
    int64_t size = v->kind->size, lanes = v->k->lanes, red = by_column ? 1 : v->red;
    int64_t per_group = by_column ? v->cols : v->red;
    int dense = (per_group == 1 || t->stride[2] == 1) && (l->groups == 1 || t->stride[0] == per_group);
    int64_t span = by_column ? l->count : l->groups * v->red;
    int64_t start = place + l->first_group * t->stride[0] + (by_column ? l->column[0] * t->stride[2] : 0);
    const unsigned char *first = t->p + start * (int64_t)ckci_size(t->dtype);
    int bare = t->plain && t->dtype == v->kind->dtype && (uintptr_t)first % (uintptr_t)size == 0;
    ckci_copy_kernel widen = ckci_widener(v, t);
    if (dense && span == l->count && red == 1) {
        if (bare && span == lanes) {
            v->k->copy(n, lanes, first, step, dst, lanes);
            return;
        }
        if (span == lanes && widen) {
            widen(n, lanes, first, step, dst, lanes);
            return;
        }
        for (int64_t i = 0; i < n; i++) {
            unsigned char *out = dst + i * lanes * size;
            v->kind->read(t, start + i * step, 1, span, out);
            ckci_clear(v->kind, out + span * size, lanes - span);
        }
    } else if (dense && !by_column && span <= CKCI_SPAN) {
        int64_t batch = CKCI_SPAN / span, safe = 0;
        if (bare && span <= lanes) { /* whole vectors, as long as they end within the tensor */
            int64_t room = ckci_last_element(t) + 1 - start - lanes;
            safe = room < 0 ? 0 : step > 0 ? ckci_min(room / step + 1, n) : n;
            v->k->spread(safe, first, step, span, l->map, red, dst, dst_channel);
        }
        for (int64_t i = safe; i < n; i += batch) {
            int64_t count = ckci_min(batch, n - i);
            if (widen) {
                widen(count, span, first + i * step * 2, step, buffer, span);
            }
            for (int64_t j = 0; j < count && !widen; j++) {
                v->kind->read(t, start + (i + j) * step, 1, span, (unsigned char *)buffer + j * span * size);
            }
            v->k->spread(count, buffer, span, span, l->map, red, dst + i * lanes * size, dst_channel);
        }
    } else if (by_column && per_group > 1 && t->stride[2] == 1) {
        /* channels are dense, groups lie apart: one run for each group */
        for (int64_t i = 0; i < n; i++) {
            unsigned char *out = dst + i * lanes * size;
            for (int64_t lane = 0, run; lane < l->count; lane += run) {
                run = ckci_min(v->cols - l->column[lane], l->count - lane);
                v->kind->read(t, place + l->group[lane] * t->stride[0] + l->column[lane] + i * step, 1, run,
                              out + lane * size);
            }
            ckci_clear(v->kind, out + span * size, lanes - span);
        }
    } else if (!by_column && per_group > 1 && t->stride[2] == 1 && span <= CKCI_SPAN) {
        int64_t batch = CKCI_SPAN / span;
        for (int64_t i = 0; i < n; i += batch) {
            int64_t count = ckci_min(batch, n - i);
            for (int64_t g = 0; g < l->groups; g++) {
                for (int64_t j = 0; j < count; j++) {
                    v->kind->read(t, start + g * t->stride[0] + (i + j) * step, 1, red,
                                  (unsigned char *)buffer + (j * span + g * red) * size);
                }
            }
            v->k->spread(count, buffer, span, span, l->map, red, dst + i * lanes * size, dst_channel);
        }
    } else {
        for (int64_t c = 0; c < red; c++) {
            for (int64_t lane = 0; lane < lanes; lane++) {
                int64_t at =
                    place + l->group[lane] * t->stride[0] + (by_column ? l->column[lane] : c) * t->stride[2];
                for (int64_t i = 0; i < n; i += CKCI_SPAN) {
                    int64_t count = ckci_min(CKCI_SPAN, n - i);
                    v->kind->read(t, at + i * step, step, count, buffer);
                    ckci_scatter(v->kind, dst + (c * dst_channel + i * lanes + lane) * size, lanes, buffer,
                                 count);
                }
            }
        }
    }
}

/* One x line: all planes of window w of row (n, z, y), zero where it leaves the tensor. */
CKCI_FN void ckci_gather_line(const ckci_view *v, const ckci_tensor *t, const ckci_lanes *l,
                              const ckci_window *w, int64_t n, int64_t z, int64_t y, unsigned char *dst)
{
    int64_t size = v->kind->size, lanes = v->k->lanes, channel = w->planes * w->width * lanes;
    for (int64_t plane = 0; plane < w->planes; plane++) {
        if (!ckci_window_used(w, plane)) {
            continue;
        }
        int64_t from = 0, to = 0, x0 = ckci_window_position(w, plane, 0);
        if (z >= 0 && z < t->len[3] && y >= 0 && y < t->len[4]) {
            ckci_inside(x0, w->step, w->width, t->len[5], &from, &to);
        }
        unsigned char *out = dst + plane * w->width * lanes * size;
        for (int64_t c = 0; c < v->red && (from > 0 || to < w->width); c++) {
            ckci_clear(v->kind, out + c * channel * size, from * lanes);
            ckci_clear(v->kind, out + (c * channel + to * lanes) * size, (w->width - to) * lanes);
        }
        if (to > from) {
            int64_t place =
                n * t->stride[1] + z * t->stride[3] + y * t->stride[4] + (x0 + from * w->step) * t->stride[5];
            ckci_gather_lanes(v, t, l, 0, place, w->step * t->stride[5], to - from, out + from * lanes * size,
                              channel);
        }
    }
}

/* Tile sizes of the direct family. A chunk of filter rows is gathered at a time: all, or one z row's [chunk]
   rows. */
typedef struct ckci_direct_tiles {
    int64_t blocks, yb, xb, blocks_y, blocks_x; /* lane blocks; outputs of an item */
    int64_t some, sets;                         /* lane blocks of an item, items beside each other */
    int64_t chunk;                              /* filter rows (z, y) gathered together; 0: all of them */
    int64_t lines, sums, table;                 /* bytes of an item's scratch */
    int64_t packed, scratch, items, bytes;
    int64_t split, partial, units; /* bwd_weight */
    int64_t totals;                /* where they begin in a part; 0: none, its reduction is short */
    int32_t threads;
} ckci_direct_tiles;

/* Bytes of the lines for a tile of yb x xb outputs in every phase: the largest. */
CKCI_FN int64_t ckci_line_bytes(const ckci_view *v, int64_t yb, int64_t xb, int64_t chunk)
{
    int64_t bytes = v->kind->size * v->k->lanes * v->red;
    return ckci_line_up(ckci_saturating_mul(bytes, ckci_window_entries(v, yb, xb, chunk)));
}

/* Bytes that `outputs` positions of all channels read and write, about; what an item walks for one block
   of lanes after the other stays in L2. */
enum { CKCI_NEAR = 640 * 1024, CKCI_FAR = 4 << 20 };

CKCI_FN int64_t ckci_line_block(const ckci_view *v, int64_t outputs)
{
    int64_t steps = v->p->op == CKCONV_BWD_DATA ? 1 : v->p->stride[1] * v->p->stride[2];
    int64_t channels = ckci_saturating_add(ckci_saturating_mul(v->red, ckci_min(steps, v->taps)), v->cols);
    return ckci_saturating_mul(ckci_saturating_mul(v->p->g * v->kind->size, channels), outputs);
}

CKCI_FN ckci_direct_tiles ckci_find_direct_tiles(const ckci_view *v, int32_t threads, int64_t limit)
{
    ckci_direct_tiles t;
    ckci_axis axis[3];
    int64_t size = v->kind->size, lanes = v->k->lanes;
    memset(&t, 0, sizeof t);
    ckci_phase(v, 0, axis);
    t.blocks = ckci_ceil_div(ckci_all_lanes(v), lanes);
    t.packed =
        ckci_line_up(ckci_saturating_mul(ckci_saturating_mul(t.blocks, lanes * size), v->taps * v->red));
    t.table = ckci_line_up(ckci_saturating_mul(v->taps * v->red, 8));
    for (int stack = 0; stack < 2; stack++) {
        int64_t room = stack ? CKCI_STACK : 768 * 1024;
        if (stack) {
            /* weights and taps of a chunk are laid out by the item itself */
            t.packed = 0;
            t.chunk = 1;
            t.table = ckci_line_up(v->p->filter[2] * v->red * (8 + lanes * size));
        }
        t.xb = ckci_min(axis[2].count, 448);
        t.yb = ckci_min(axis[1].count, 16);
        /* the lines that one row of outputs reads stay in L1 */
        while (v->red > 1 && t.xb > CKCI_LINE && ckci_line_bytes(v, 1, t.xb, 0) > 40 * 1024) {
            t.xb = ckci_round_up(t.xb / 2, CKCI_LINE);
        }
        for (;;) {
            t.lines = ckci_line_bytes(v, t.yb, t.xb, t.chunk);
            t.sums = ckci_line_up((t.chunk ? t.yb : 1) * (t.xb + CKCI_LINE) * lanes * size);
            if (ckci_saturating_add(t.lines, t.sums + t.table) <= room || (t.yb == 1 && t.xb <= CKCI_LINE)) {
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
        t.scratch = ckci_saturating_add(t.lines, ckci_line_up(t.sums + t.table + CKCI_LINE * lanes * size));
        t.threads = threads;
        t.bytes = stack ? (t.scratch <= CKCI_STACK ? 0 : CKCI_MAX_BYTES) : ckci_total(t.packed, t.scratch, 1);
        if (t.bytes <= limit && t.lines < CKCI_MAX_BYTES / 4) {
            if (!stack) {
                t.threads = ckci_threads_within(limit, t.packed, t.scratch, threads);
                t.bytes = ckci_total(t.packed, t.scratch, t.threads);
            }
            break;
        }
    }
    while (t.yb > 4 && ckci_line_block(v, t.yb * t.xb) > CKCI_NEAR) {
        t.yb = ckci_ceil_div(t.yb, 2);
    }
    t.blocks_y = ckci_ceil_div(axis[1].count, t.yb);
    t.blocks_x = ckci_ceil_div(axis[2].count, t.xb);
    t.items = v->p->n * axis[0].count * v->phases[0] * v->phases[1] * v->phases[2];
    t.items = ckci_saturating_mul(t.items, t.blocks_y * t.blocks_x);
    /* blocks of lanes lie side by side in memory; a last one that shares lanes goes with the one before */
    int64_t whole = ckci_max(ckci_all_lanes(v) / lanes, 1);
    t.sets = ckci_min(whole, ckci_ceil_div(8 * (int64_t)threads, ckci_max(t.items, 1)));
    t.some = ckci_ceil_div(whole, t.sets);
    t.sets = ckci_ceil_div(whole, t.some);
    t.items = ckci_saturating_mul(t.items, t.sets);
    return t;
}

typedef struct ckci_direct_job {
    ckci_view v;
    ckci_direct_tiles t;
    ckci_target target;
    unsigned char *packed;
} ckci_direct_job;

/* Weights of lane block `l` for the taps of three axes: dst[tap][channel][lane], the order of the tap
   table. */
CKCI_FN void ckci_pack_lanes(const ckci_view *v, const ckci_axis axis[3], const ckci_lanes *l,
                             unsigned char *dst)
{
    double buffer[CKCI_SPAN];
    const ckci_tensor *w = &v->p->t[CKCI_WEI];
    int64_t size = v->kind->size, lanes = v->k->lanes;
    for (int64_t row = 0; row < axis[0].taps * axis[1].taps; row++) {
        int64_t jz = row / axis[1].taps, jy = row % axis[1].taps;
        int64_t place = (axis[0].tap0 + jz * axis[0].tap_step) * w->stride[3] +
                        (axis[1].tap0 + jy * axis[1].tap_step) * w->stride[4] + axis[2].tap0 * w->stride[5];
        for (int64_t c = 0; c < v->red; c++) {
            for (int64_t lane = 0; lane < lanes; lane++) {
                int64_t at = place + l->group[lane] * w->stride[0] + l->column[lane] * w->stride[v->wei_col] +
                             (v->pairs ? 2 * c : c) * w->stride[v->wei_red];
                for (int64_t j = 0; j < axis[2].taps; j += CKCI_SPAN) {
                    int64_t n = ckci_min(CKCI_SPAN, axis[2].taps - j), step = axis[2].tap_step * w->stride[5];
                    if (lane < l->count && v->pairs) {
                        for (int64_t i = 0; i < n; i++) {
                            const unsigned char *from = w->p + (at + (j + i) * step) * 2;
                            memcpy((unsigned char *)buffer + i * 4, from, 2);
                            memcpy((unsigned char *)buffer + i * 4 + 2, from + w->stride[v->wei_red] * 2, 2);
                        }
                    } else if (lane < l->count) {
                        v->kind->read(w, at + j * step, step, n, buffer);
                    } else {
                        ckci_clear(v->kind, buffer, n);
                    }
                    ckci_scatter(v->kind,
                                 dst + (((row * v->red + c) * axis[2].taps + j) * lanes + lane) * size, lanes,
                                 buffer, n);
                }
            }
        }
    }
}

/* Packed weights of a phase begin here; see ckci_taps_before. */
CKCI_FN unsigned char *ckci_direct_weights(const ckci_direct_job *job, int64_t block, int64_t phase)
{
    const ckci_view *v = &job->v;
    int64_t before = v->phases[0] * v->phases[1] * v->phases[2] == 1 ? 0 : ckci_taps_before(v, phase);
    return job->packed + (block * v->taps + before) * v->red * v->k->lanes * v->kind->size;
}

CKCI_FN void ckci_direct_pack_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_direct_job *job = (const ckci_direct_job *)context;
    int64_t phases = job->v.phases[0] * job->v.phases[1] * job->v.phases[2];
    ckci_lanes l = ckci_make_lanes(&job->v, item / phases);
    ckci_axis axis[3];
    (void)scratch;
    ckci_phase(&job->v, item % phases, axis);
    if (axis[0].taps * axis[1].taps * axis[2].taps > 0) {
        ckci_pack_lanes(&job->v, axis, &l, ckci_direct_weights(job, item / phases, item % phases));
    }
}

/* Finished sums of one row, [x][lane], to the written tensor. */
CKCI_FN void ckci_write_lanes(const ckci_view *v, const ckci_target *o, const ckci_lanes *l, int64_t n,
                              int64_t z, int64_t y, int64_t x0, int64_t count, const unsigned char *src)
{
    double buffer[CKCI_SPAN];
    int64_t size = v->kind->size, lanes = v->k->lanes, own = l->shared, at[6];
    int flat = v->cols == 1 || l->groups == 1, along_x = o->t.stride[5] < o->t.stride[v->cols == 1 ? 0 : 2];
    int axis = v->cols == 1 ? 0 : 2;
    if (!flat) {
        flat = o->t.stride[0] == v->cols * o->t.stride[2];
        for (int32_t j = 0; j < o->num_d; j++) {
            flat = flat && o->d[j].stride[0] == v->cols * o->d[j].stride[2];
        }
    }
    src += own * size;
    at[0] = l->group[own];
    at[1] = n;
    at[2] = l->column[own];
    at[3] = z;
    at[4] = y;
    at[5] = x0;
    int how = flat && o->t.stride[axis] == 1 ? ckci_plain_store(v, o) : 0;
    if (how) {
        ckci_store_rows(v, how, count, l->count - own, src, lanes,
                        o->t.p + ckci_offset(o->t.stride, at) * (int64_t)ckci_size(o->t.dtype),
                        o->t.stride[5]);
        return;
    }
    if (flat && !along_x) {
        for (int64_t x = 0; x < count; x++) {
            at[5] = x0 + x;
            v->kind->write(o, at, axis, l->count - own, src + x * lanes * size);
        }
        return;
    }
    for (int64_t x = 0; x < count && !along_x; x++) {
        at[5] = x0 + x;
        for (int64_t lane = own, run; lane < l->count; lane += run) {
            run = ckci_min(v->cols - l->column[lane], l->count - lane);
            at[0] = l->group[lane];
            at[2] = l->column[lane];
            v->kind->write(o, at, 2, run, src + (x * lanes + lane - own) * size);
        }
    }
    for (int64_t lane = own; lane < l->count && along_x; lane++) {
        at[0] = l->group[lane];
        at[2] = l->column[lane];
        for (int64_t x = 0; x < count; x += CKCI_SPAN) {
            int64_t run = ckci_min(CKCI_SPAN, count - x);
            at[5] = x0 + x;
            ckci_collect(v->kind, buffer, src + (x * lanes + lane - own) * size, lanes, run);
            v->kind->write(o, at, 5, run, buffer);
        }
    }
}

/* Tap tables of filter rows: `threes` entries of three taps each for a row, all rows' one after the other,
   then `ones` single taps for a row. w_step: from tap to tap in reading order. */
typedef struct ckci_line_taps {
    int64_t threes, ones, w_step;
    const int32_t *three, *one;
} ckci_line_taps;

/* One stretch of an output row: the taps of filter rows [from, to) for `count` outputs. */
CKCI_FN void ckci_run_line(const ckci_kernels *k, int64_t size, int64_t from, int64_t to,
                           const ckci_line_taps *taps, const unsigned char *x, const unsigned char *w,
                           unsigned char *acc, int64_t count, int add)
{
    int32_t all[CKCI_EDGES] = {0, 0, 0, 0, 0, 0, 0};
    all[0] = (int32_t)((to - from) * taps->ones);
    for (int64_t i = 0; i < count;) {
        int64_t rest = count - i, step = rest > 7 ? 14 : rest > 4 ? 7 : 4, at = i * k->lanes * size;
        ckci_line_kernel kernel = step == 14 ? k->line14 : step == 7 ? k->line7 : k->line4;
        if (taps->threes) {
            (step == 14 ? k->three14 : k->three7)((to - from) * taps->threes,
                                                  taps->three + 4 * from * taps->threes, x + at, k->lanes, w,
                                                  taps->w_step, acc + at, k->lanes, add);
        }
        if (taps->ones) {
            kernel(all, taps->one + 2 * from * taps->ones, x + at, k->lanes, w, acc + at, k->lanes,
                   add || taps->threes);
        }
        i += step;
    }
}

/* The tables of a chunk, to `table`: 8 bytes for each tap and channel are enough. */
CKCI_FN ckci_line_taps ckci_find_line_taps(const ckci_view *v, const ckci_axis *axis, const ckci_window *wy,
                                           const ckci_window *wx, int32_t *table)
{
    ckci_line_taps t;
    int64_t lanes = v->k->lanes, channel = wx->planes * wx->width * lanes, row = v->red * channel;
    int64_t rows = axis[0].taps * axis[1].taps, taps = axis[2].taps;
    int neighbours = v->k->three14 && wx->step == 1 && (wx->tap == 1 || wx->tap == -1) && !wx->separate;
    int64_t whole = neighbours ? taps / 3 : 0;
    t.threes = v->red * whole;
    t.ones = v->red * (taps - 3 * whole);
    t.w_step = wx->tap < 0 ? -lanes : lanes;
    t.three = table;
    t.one = table + 4 * rows * t.threes;
    int32_t *three = table, *one = table + 4 * rows * t.threes;
    for (int64_t r = 0; r < rows * v->red; r++) {
        int64_t jz = r / v->red / axis[1].taps, jy = r / v->red % axis[1].taps;
        int64_t at = (jz * wy->planes * wy->width + ckci_window_tap(wy, jy)) * row + r % v->red * channel;
        for (int64_t i = 0; i < whole; i++) {
            int64_t jx = wx->tap < 0 ? 3 * i + 2 : 3 * i; /* reads the first of three positions */
            *three++ = (int32_t)(at + ckci_window_tap(wx, jx) * lanes);
            *three++ = (int32_t)((r * taps + jx) * lanes);
            *three++ = 0;
            *three++ = CKCI_LINE + 2;
        }
        for (int64_t jx = 3 * whole; jx < taps; jx++) {
            *one++ = (int32_t)(at + ckci_window_tap(wx, jx) * lanes);
            *one++ = (int32_t)((r * taps + jx) * lanes);
        }
    }
    return t;
}

/* The tap table of one chunk of filter rows, then all rows of the tile, each after the lines that it is the
   first to read, which are in L1 then. Filter rows that fall outside the tensor for an output row are
   skipped: taps of one filter row are consecutive in the table. */
CKCI_FN void ckci_direct_chunk(const ckci_direct_job *job, const ckci_axis axis[3], const ckci_lanes *l,
                               int64_t n, const int64_t q[3], int64_t yb, int64_t xb,
                               const unsigned char *weights, int add, const ckci_target *finished,
                               unsigned char *scratch)
{
    const ckci_view *v = &job->v;
    const ckci_direct_tiles *t = &job->t;
    int64_t size = v->kind->size, lanes = v->k->lanes;
    unsigned char *lines = scratch, *sums = lines + t->lines + CKCI_LINE * lanes * size;
    int32_t *table = (int32_t *)(void *)(sums + t->sums);
    ckci_window wy = ckci_make_window(&axis[1], q[1], yb), wx = ckci_make_window(&axis[2], q[2], xb);
    int64_t row = v->red * wx.planes * wx.width * lanes, slots = wy.planes * wy.width;
    int64_t apart, later;
    ckci_window_repeat(&wy, &apart, &later);
    ckci_line_taps taps = ckci_find_line_taps(v, axis, &wy, &wx, table);
    for (int64_t i = 0; i < yb; i++) {
        const unsigned char *x = lines + i * row * size;
        unsigned char *acc = finished ? sums : sums + i * (t->xb + CKCI_LINE) * lanes * size;
        int64_t from, to;
        int started = add;
        ckci_inside((q[1] + i) * axis[1].read_step + axis[1].read0, axis[1].read_tap, axis[1].taps,
                    axis[1].read_len, &from, &to);
        for (int64_t jz = 0; jz < axis[0].taps; jz++) {
            int64_t z = q[0] * axis[0].read_step + axis[0].read0 + jz * axis[0].read_tap;
            if (z >= 0 && z < axis[0].read_len && to > from) {
                int64_t first = jz * axis[1].taps;
                for (int64_t jy = from; jy < to; jy++) {
                    int64_t before = wy.tap < 0 ? jy - apart : jy + apart;
                    if (i < later || before < 0 || before >= axis[1].taps) {
                        int64_t s = ckci_window_tap(&wy, jy) + i;
                        ckci_gather_line(v, v->read, l, &wx, n, z,
                                         ckci_window_position(&wy, s / wy.width, s % wy.width),
                                         lines + (jz * slots + s) * row * size);
                    }
                }
                ckci_run_line(v->k, size, first + from, first + to, &taps, x, weights, acc, xb, started);
                started = 1;
            }
        }
        if (!started) {
            ckci_clear(v->kind, acc, xb * lanes);
        }
        if (finished) {
            ckci_write_lanes(v, finished, l, n, q[0], q[1] + i, q[2], xb, acc);
        }
    }
}

/* ---- Depthwise straight from the tensor, without lines, where a vector of lanes is a vector of it. */
typedef struct ckci_stretch {
    int64_t threes;      /* in each filter row; the other taps are read one by one */
    int64_t at, outputs; /* 14 or 7 outputs of a row from `at` on; they may overlap the one before */
    unsigned char edge[CKCI_SPAN]; /* for each tap in x: which count of a line kernel; CKCI_EDGES: of none */
} ckci_stretch;

/* The stretch of a row of xb outputs that begins at `at` or, at the end, before. 0: kernels cannot do it. */
CKCI_FN int ckci_find_stretch(const ckci_axis *ax, int64_t q, int64_t at, int64_t xb, ckci_stretch *s)
{
    s->outputs = xb - at > 7 && xb >= 14 ? 14 : 7;
    s->at = ckci_min(at, xb - s->outputs);
    for (int64_t j = 0; j < ax->taps; j++) {
        int64_t from, to, lack;
        ckci_inside((q + s->at) * ax->read_step + ax->read0 + j * ax->read_tap, ax->read_step, s->outputs,
                    ax->read_len, &from, &to);
        lack = s->outputs - to;
        if (from < to && (from > 3 || lack > 3 || (from > 0 && lack > 0))) {
            return 0;
        }
        s->edge[j] = (unsigned char)(from == to ? (int64_t)CKCI_EDGES : lack > 0 ? lack + 3 : from);
    }
    s->threes = ax->read_step == 1 && (ax->read_tap == 1 || ax->read_tap == -1) ? ax->taps / 3 : 0;
    for (int64_t j = 0; j < 3 * s->threes; j++) {
        s->threes = s->edge[j] == CKCI_EDGES ? 0 : s->threes;
    }
    return 1;
}

/* Taps first[] <= (z, y) < last[], in x those that are not read by threes: their table for outputs of one
   stretch of a row, sorted by edge. */
CKCI_FN void ckci_stretch_table(const ckci_view *v, const ckci_axis axis[3], const ckci_stretch *s,
                                const int64_t first[2], const int64_t last[2], int32_t *table,
                                int32_t count[CKCI_EDGES])
{
    const int64_t *stride = v->read->stride;
    int64_t z_step = axis[0].read_tap * stride[3], y_step = axis[1].read_tap * stride[4],
            x_step = axis[2].read_tap * stride[5], lanes = v->k->lanes;
    for (int edge = 0; edge < CKCI_EDGES; edge++) {
        const int32_t *begin = table;
        for (int64_t jx = 3 * s->threes; jx < axis[2].taps; jx++) {
            for (int64_t jz = first[0]; jz < last[0] && s->edge[jx] == edge; jz++) {
                for (int64_t jy = first[1]; jy < last[1]; jy++) {
                    *table++ = (int32_t)(jz * z_step + jy * y_step + jx * x_step);
                    *table++ = (int32_t)(((jz * axis[1].taps + jy) * axis[2].taps + jx) * lanes);
                }
            }
        }
        count[edge] = (int32_t)((table - begin) / 2);
    }
}

/* The table of those that are. Returns their number. */
CKCI_FN int64_t ckci_stretch_threes(const ckci_view *v, const ckci_axis axis[3], const ckci_stretch *s,
                                    int64_t q, const int64_t first[2], const int64_t last[2], int32_t *table)
{
    const int64_t *stride = v->read->stride;
    const int32_t *begin = table;
    for (int64_t jz = first[0]; jz < last[0]; jz++) {
        for (int64_t j = first[1]; j < last[1]; j++) {
            int64_t jy = axis[1].read_tap < 0 ? first[1] + last[1] - 1 - j : j; /* memory upwards */
            for (int64_t i = 0; i < s->threes; i++) {
                int64_t jx = axis[2].read_tap < 0 ? 3 * i + 2 : 3 * i;
                int64_t low = q + s->at + axis[2].read0 + jx * axis[2].read_tap;
                *table++ = (int32_t)(jz * axis[0].read_tap * stride[3] + jy * axis[1].read_tap * stride[4] +
                                     jx * axis[2].read_tap * stride[5]);
                *table++ = (int32_t)(((jz * axis[1].taps + jy) * axis[2].taps + jx) * v->k->lanes);
                *table++ = (int32_t)ckci_max(-low, 0);
                *table++ = (int32_t)ckci_min(axis[2].read_len - low, CKCI_LINE + 2);
            }
        }
    }
    return (table - begin) / 4;
}

/* How many outputs from q on, before `end`, have the same valid taps, [*first, *last). */
CKCI_FN int64_t ckci_same_taps(const ckci_axis *a, int64_t q, int64_t end, int64_t *first, int64_t *last)
{
    int64_t low = q * a->read_step + a->read0, n = 0, other_first, other_last;
    ckci_inside(low, a->read_tap, a->taps, a->read_len, first, last);
    do {
        n++;
        low += a->read_step;
        ckci_inside(low, a->read_tap, a->taps, a->read_len, &other_first, &other_last);
    } while (q + n < end && other_first == *first && other_last == *last);
    return n;
}

/* Vectors of lanes are vectors of t, which is one of the tensors of a depthwise convolution. */
CKCI_FN int ckci_lanes_lie(const ckci_view *v, const ckci_tensor *t, const ckci_axis axis[3])
{
    int64_t reach = 0;
    for (int i = 0; i < 3; i++) {
        int64_t tap = axis[i].read_tap < 0 ? -axis[i].read_tap : axis[i].read_tap;
        reach = ckci_saturating_add(
            reach, ckci_saturating_mul(ckci_saturating_mul(tap, axis[i].taps), t->stride[3 + i]));
    }
    return v->red == 1 && v->cols == 1 && t->stride[0] == 1 && reach < (int64_t)1 << 30 &&
           ((v->k->half14 && ckci_is_bf16(v, t)) ||
            (t->plain && t->dtype == v->kind->dtype && (uintptr_t)t->p % (uintptr_t)v->kind->size == 0));
}

/* Whether rows of xb outputs from q on are read in place, of all blocks that fill their lanes. */
CKCI_FN int ckci_reads_in_place(const ckci_view *v, const ckci_axis axis[3], int64_t q, int64_t xb)
{
    ckci_stretch s;
    if (!ckci_lanes_lie(v, v->read, axis) || xb < 7 || axis[2].taps > 16 ||
        axis[0].taps * axis[1].taps * axis[2].taps == 0) {
        return 0;
    }
    for (int64_t x = 0; x < xb; x = s.at + s.outputs) {
        if (!ckci_find_stretch(&axis[2], q, x, xb, &s)) {
            return 0;
        }
    }
    return 1;
}

/* The tile at q for blocks [block, end), which fill their lanes; they share tap tables. */
CKCI_FN void ckci_direct_in_place(const ckci_direct_job *job, const ckci_axis axis[3], int64_t phase,
                                  int64_t n, const int64_t q[3], int64_t block, int64_t end,
                                  unsigned char *scratch)
{
    const ckci_view *v = &job->v;
    const ckci_direct_tiles *t = &job->t;
    const ckci_tensor *from = v->read;
    int64_t yb = ckci_min(t->yb, axis[1].count - q[1]), xb = ckci_min(t->xb, axis[2].count - q[2]);
    int64_t size = v->kind->size, lanes = v->k->lanes, y_step = xb * lanes, x_step = lanes;
    /* sums need no more room than the lines that are not gathered */
    unsigned char *out = scratch;
    int32_t *table = (int32_t *)(void *)(scratch + t->lines + CKCI_LINE * lanes * size + t->sums);
    int32_t count[CKCI_EDGES];
    ckci_tensor d[4];
    ckci_target o = ckci_phase_target(&job->target, axis, d);
    int how = o.t.stride[0] == 1 ? ckci_plain_store(v, &o) : 0;
    int64_t out_size = how ? (int64_t)ckci_size(o.t.dtype) : size;
    if (how) {
        y_step = o.t.stride[4];
        x_step = o.t.stride[5];
        out = o.t.p + (n * o.t.stride[1] + q[0] * o.t.stride[3] + q[1] * y_step + q[2] * x_step) * out_size;
    } else if (end > block + 1) {
        for (; block < end; block++) { /* there is room for the sums of one */
            ckci_direct_in_place(job, axis, phase, n, q, block, block + 1, scratch);
        }
        return;
    }
    ckci_stretch s;
    int half = from->dtype == CKCONV_BF16;
    int64_t from_size = (int64_t)ckci_size(from->dtype);
    int64_t first[2], last[2];
    int64_t base = n * from->stride[1] + (q[0] * axis[0].read_step + axis[0].read0) * from->stride[3];
    const unsigned char *weights = ckci_direct_weights(job, 0, phase);
    int64_t weights_step = ckci_direct_weights(job, 1, phase) - weights;
    ckci_inside(q[0] * axis[0].read_step + axis[0].read0, axis[0].read_tap, axis[0].taps, axis[0].read_len,
                &first[0], &last[0]);
    for (int64_t x = 0; x < xb; x = s.at + s.outputs) {
        ckci_find_stretch(&axis[2], q[2], x, xb, &s);
        int whole = s.outputs == 14;
        ckci_line_kernel kernel =
            whole ? (half ? v->k->half14 : v->k->line14) : (half ? v->k->half7 : v->k->line7);
        ckci_three_kernel three =
            whole ? (half ? v->k->half_three14 : v->k->three14) : (half ? v->k->half_three7 : v->k->three7);
        s.threes = three ? s.threes : 0;
        int64_t x_at = ((q[2] + s.at) * axis[2].read_step + axis[2].read0) * from->stride[5];
        for (int64_t y = 0, rows; y < yb; y += rows) {
            int64_t low = (q[1] + y) * axis[1].read_step + axis[1].read0;
            rows = ckci_same_taps(&axis[1], q[1] + y, q[1] + yb, &first[1], &last[1]);
            int64_t threes = ckci_stretch_threes(v, axis, &s, q[2], first, last, table);
            int32_t *ones = table + 4 * threes;
            ckci_stretch_table(v, axis, &s, first, last, ones, count);
            for (int64_t b = block, some; b < end; b += some) {
                int64_t lane = ckci_first_lane(v, b);
                /* of bf16 two blocks at once: a cache line */
                some = how > 1 && b + 1 < end && ckci_first_lane(v, b + 1) == lane + lanes ? 2 : 1;
                for (int64_t row = 0; row < rows; row++) {
                    unsigned char *to =
                        out + ((y + row) * y_step + s.at * x_step + (how ? lane : 0)) * out_size;
                    for (int64_t j = 0; j < some; j++) {
                        /* the place of tap 0 may lie outside the tensor: added to it as a number */
                        int64_t place = base + lane + j * lanes + x_at +
                                        (low + row * axis[1].read_step) * from->stride[4];
                        unsigned char *sums = how > 1 ? scratch + j * lanes * size : to;
                        int64_t step = how > 1 ? 2 * lanes : x_step;
                        const unsigned char *w = weights + (b + j) * weights_step;
                        const void *in = (const void *)((uintptr_t)from->p + (uintptr_t)(place * from_size));
                        if (threes > 0) {
                            three(threes, table, in, from->stride[5], w, axis[2].read_tap * lanes, sums, step,
                                  0);
                        }
                        if (threes == 0 || axis[2].taps > 3 * s.threes) {
                            kernel(count, ones, in, axis[2].read_step * from->stride[5], w, sums, step,
                                   threes > 0);
                        }
                    }
                    if (how > 1) {
                        ckci_store_rows(v, how, s.outputs, some * lanes, scratch, 2 * lanes, to, x_step);
                    }
                }
            }
        }
    }
    ckci_lanes l = ckci_make_lanes(v, block);
    for (int64_t y = 0; y < yb && !how; y++) {
        ckci_write_lanes(v, &o, &l, n, q[0], q[1] + y, q[2], xb, out + y * y_step * size);
    }
}

/* Reads a byte of every cache line of outputs q.. (or, of the tensor that is gathered, all that they need):
   blocks of lanes that follow each other walk strips of memory a vector at a time, which the processor does
   not fetch ahead; this it does. */
CKCI_FN void ckci_touch(const ckci_view *v, const ckci_tensor *t, int gathered, const ckci_axis axis[3],
                        int64_t n, const int64_t q[3], int64_t yb, int64_t xb, int64_t block, int64_t end)
{
    int64_t from[3], count[3], size = (int64_t)ckci_size(t->dtype), per_group = gathered ? v->red : v->cols;
    int64_t first = ckci_first_lane(v, block) / v->cols,
            channels = (end - block) * v->k->lanes / v->cols * per_group;
    if (end == block + 1 || (per_group > 1 && t->stride[2] != 1) || t->stride[0] != per_group ||
        t->len[0] * t->len[1] * t->len[2] * t->len[3] * t->len[4] * t->len[5] * size < CKCI_FAR) {
        return;
    }
    channels = ckci_min(channels, (t->len[0] - first) * per_group);
    for (int i = 0; i < 3; i++) {
        int64_t outputs = i == 0 ? 1 : i == 1 ? yb : xb, low = q[i], high = q[i] + outputs;
        if (gathered) {
            int64_t reach = (axis[i].taps - 1) * axis[i].read_tap;
            low = q[i] * axis[i].read_step + axis[i].read0;
            high = low + (outputs - 1) * axis[i].read_step + 1 + ckci_max(reach, 0);
            low += ckci_min(reach, 0);
        }
        from[i] = ckci_max(low, 0);
        count[i] = ckci_min(high, t->len[3 + i]) - from[i];
    }
    for (int64_t row = 0; row < ckci_max(count[0], 0) * ckci_max(count[1], 0); row++) {
        int64_t z = from[0] + row / count[1], y = from[1] + row % count[1];
        const unsigned char *p = t->p + (first * per_group + n * t->stride[1] + z * t->stride[3] +
                                         y * t->stride[4] + from[2] * t->stride[5]) *
                                            size;
        for (int64_t x = 0; x < count[2]; x++, p += t->stride[5] * size) {
            for (int64_t b = 0; b < channels * size; b += 64) {
                (void)*(const volatile unsigned char *)(p + b);
            }
        }
    }
}

/* The tile at q of phase `axis` of entry n, for one block of lanes. */
CKCI_FN void ckci_direct_block(const ckci_direct_job *job, const ckci_axis axis[3], int64_t phase, int64_t n,
                               const int64_t q[3], int64_t block, unsigned char *scratch)
{
    const ckci_view *v = &job->v;
    const ckci_direct_tiles *t = &job->t;
    int64_t size = v->kind->size, lanes = v->k->lanes;
    int64_t yb = ckci_min(t->yb, axis[1].count - q[1]), xb = ckci_min(t->xb, axis[2].count - q[2]);
    ckci_axis part[3];
    ckci_lanes l = ckci_make_lanes(v, block);
    ckci_tensor d[4];
    ckci_target o = ckci_phase_target(&job->target, axis, d);
    if (axis[0].taps * axis[1].taps * axis[2].taps == 0) {
        /* no tap reaches this phase: the epilogue of 0 */
        memcpy(part, axis, sizeof part);
        part[0].taps = 0;
        part[1].taps = part[2].taps = 1;
        ckci_direct_chunk(job, part, &l, n, q, yb, xb, NULL, 0, &o, scratch);
        return;
    }
    if (!t->chunk) {
        ckci_direct_chunk(job, axis, &l, n, q, yb, xb, ckci_direct_weights(job, block, phase), 0, &o,
                          scratch);
        return;
    }
    unsigned char *sums = scratch + t->lines + CKCI_LINE * lanes * size;
    unsigned char *weights = sums + t->sums + ckci_line_up(v->p->filter[2] * v->red * 8);
    for (int64_t row = 0; row < axis[0].taps * axis[1].taps; row++) {
        memcpy(part, axis, sizeof part);
        ckci_filter_row(part, row);
        ckci_pack_lanes(v, part, &l, weights);
        ckci_direct_chunk(job, part, &l, n, q, yb, xb, weights, row > 0, NULL, scratch);
    }
    for (int64_t i = 0; i < yb; i++) {
        ckci_write_lanes(v, &o, &l, n, q[0], q[1] + i, q[2], xb,
                         sums + i * (t->xb + CKCI_LINE) * lanes * size);
    }
}

/* One item owns a tile of one output plane for some blocks of lanes. */
CKCI_FN void ckci_direct_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_direct_job *job = (const ckci_direct_job *)context;
    const ckci_view *v = &job->v;
    const ckci_direct_tiles *t = &job->t;
    int64_t phases = v->phases[0] * v->phases[1] * v->phases[2];
    ckci_axis axis[3];
    int64_t q[3], rest = item, set = rest % t->sets, block = set * t->some;
    int64_t end = set + 1 == t->sets ? t->blocks : block + t->some;
    rest /= t->sets;
    int64_t phase = rest % phases; /* phases of one place share its cache lines */
    rest /= phases;
    q[2] = rest % t->blocks_x * t->xb;
    rest /= t->blocks_x;
    q[1] = rest % t->blocks_y * t->yb;
    rest /= t->blocks_y;
    int64_t n = rest % v->p->n;
    q[0] = rest / v->p->n;
    ckci_phase(v, phase, axis);
    if (q[0] < axis[0].count && q[1] < axis[1].count && q[2] < axis[2].count) {
        int64_t yb = ckci_min(t->yb, axis[1].count - q[1]), xb = ckci_min(t->xb, axis[2].count - q[2]);
        ckci_tensor d[4];
        ckci_target o = ckci_phase_target(&job->target, axis, d);
        if (phase == 0) {
            ckci_touch(v, v->read, 1, axis, n, q, yb, xb, block, end);
        }
        ckci_touch(v, &o.t, 0, axis, n, q, yb, xb, block, end);
        if (!t->chunk && ckci_all_lanes(v) >= v->k->lanes && ckci_reads_in_place(v, axis, q[2], xb)) {
            ckci_direct_in_place(job, axis, phase, n, q, block, end, scratch);
            block = end;
        }
        for (; block < end; block++) {
            ckci_direct_block(job, axis, phase, n, q, block, scratch);
        }
    }
}

/* A vector of lanes of one output, of t's `channels` for each group: nothing where they are neighbours in t;
   else each lane's row of x numbers is a call, and `entries` such vectors are read for an output. */
CKCI_FN double ckci_lanes_apart(const ckci_view *v, const ckci_tensor *t, int64_t channels, double entries,
                                double x)
{
    int together = channels > 1 ? t->stride[2] == 1 : t->stride[0] == 1 || t->len[0] == 1;
    return together ? 0 : entries * v->k->lanes * (2 + 25 / x);
}

/* A vector of lanes that are read: depthwise ones in place or as they lie, number by number where they lie
   apart or are too few to fill it. */
CKCI_FN double ckci_lanes_cost(const ckci_view *v, const ckci_direct_tiles *t)
{
    double outputs = (double)t->yb * (double)t->xb, halo = 1 + 2.0 / (double)t->yb;
    double entries = (double)ckci_window_entries(v, t->yb, t->xb, t->chunk) / outputs;
    double apart = ckci_lanes_apart(v, v->read, v->red, entries, (double)t->xb);
    if (v->red > 1 || v->cols > 1) {
        return (4 * entries + apart) * (double)v->red + (60 + 10 * (double)v->red) * entries / (double)t->xb;
    }
    return apart + (ckci_all_lanes(v) < v->k->lanes ? 40 + 2 * (double)ckci_all_lanes(v) : 2) * halo;
}

/* A vector multiply-add; two instructions in the portable kernels */
CKCI_INLINE double ckci_tap_cost(const ckci_view *v)
{
    return v->k->run[0] == 2 ? 2 : 1.25;
}

CKCI_FN double ckci_direct_cost(const ckci_view *v, const ckci_direct_tiles *t)
{
    double phases = (double)(v->phases[0] * v->phases[1] * v->phases[2]);
    double positions = (double)ckci_most_rows(v) * phases, taps = (double)v->taps * (double)v->red / phases;
    double spread = ckci_lanes_cost(v, t);
    double store = v->k->half14 && v->k->zip ? 2 : 3;
    store += ckci_lanes_apart(v, &v->p->t[v->p->op == CKCONV_BWD_DATA ? CKCI_IN : CKCI_OUT], v->cols, 1,
                              (double)t->xb);
    return (double)t->blocks * positions * (taps * ckci_tap_cost(v) + spread + store) + 4000;
}

/* Shapes that the direct family takes; any: however many channels there are. */
CKCI_FN ckconv_status ckci_direct_takes(const ckci_view *v, int any, ckconv_error *err)
{
    if (v->red > CKCI_DIRECT_RED && !any) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "direct takes %d channels per group in the reduction at most, here %lld",
                         CKCI_DIRECT_RED, CKCI_LL(v->red));
    }
    if (v->taps > 65536) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "direct takes 65536 taps at most, here %lld",
                         CKCI_LL(v->taps));
    }
    if (v->p->op != CKCONV_BWD_WEIGHT && v->taps * v->red > CKCI_LONG) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "direct adds %d channels x taps at most one after the other, here %lld", CKCI_LONG,
                         CKCI_LL(v->taps * v->red));
    }
    for (int i = 0; i < 3; i++) {
        if (v->p->stride[i] > 65536 || v->p->dilation[i] > 65536 || v->phases[i] > CKCI_DIRECT_PHASES) {
            return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                             "direct takes strides of 65536 (bwd_data: %d) and dilations of 65536 at most, "
                             "here %lld and %lld",
                             CKCI_DIRECT_PHASES, CKCI_LL(v->p->stride[i]), CKCI_LL(v->p->dilation[i]));
        }
    }
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_fit_direct_view(ckci_fit *f, const ckci_view *v, ckconv_error *err)
{
    CKCI_TRY(ckci_direct_takes(v, 0, err));
    ckci_direct_tiles t = ckci_find_direct_tiles(v, f->plan->device.threads, f->limit);
    if (t.bytes > f->limit || t.lines > ((int64_t)1 << 30)) {
        return ckci_over_limit("direct, a line of this shape", t.bytes, err);
    }
    f->plan->workspace_bytes = t.bytes;
    f->plan->block[0] = t.threads;
    f->plan->grid[0] = t.items;
    f->plan->launches = t.packed ? 2 : 1;
    f->cost = ckci_direct_cost(v, &t);
    return CKCONV_OK;
}

/* Kernels of rows that are read in place take 7 outputs at least: where rows are shorter and channels are
   neighbours in memory, the longest axis of a depthwise problem becomes x, in `turned`. */
CKCI_FN const ckci_conv *ckci_long_rows(const ckci_conv *p, ckci_conv *turned)
{
    int back = p->op == CKCONV_BWD_DATA;
    const int64_t *len = back ? p->input : p->output, *step = p->stride;
    int64_t rows[3];
    for (int i = 0; i < 3; i++) {
        rows[i] = back ? len[i] / step[i] : len[i];
    }
    int along = rows[0] > rows[1] ? 0 : 1;
    if (p->k != 1 || p->c != 1 || rows[2] >= 7 || rows[along] <= rows[2] || p->t[CKCI_IN].stride[0] != 1 ||
        p->t[CKCI_OUT].stride[0] != 1) {
        return p;
    }
    *turned = *p;
    ckci_swap_axes(turned, along, 2);
    return turned;
}

CKCI_FN void ckci_run_direct_job(ckci_direct_job *job, unsigned char *ws)
{
    const ckci_view *v = &job->v;
    int32_t threads = job->t.threads;
    job->packed = ws;
    if (job->t.packed) {
        ckci_parallel(threads, job->t.blocks * v->phases[0] * v->phases[1] * v->phases[2],
                      ckci_direct_pack_item, job, ws, 0);
    }
    ckci_parallel(threads, job->t.items, ckci_direct_item, job, job->t.bytes ? ws + job->t.packed : NULL,
                  job->t.scratch);
}

/* A bf16 problem as one of pairs of channels, which `paired` becomes, a copy that the view refers to. 0: its
   channels do not pair. */
CKCI_FN int ckci_pair_channels(const ckci_conv *p, ckci_conv *paired, ckci_view *v, int32_t features)
{
    int data = p->op == CKCONV_BWD_DATA, read = data ? CKCI_OUT : CKCI_IN;
    const ckci_tensor *w = &p->t[CKCI_WEI];
    int64_t red = data ? p->k : p->c;
    int pairs = red % 2 == 0 && p->t[read].stride[2] == 1;
    *paired = *p;
    ckci_tensor *t = &paired->t[read];
    pairs = pairs && t->plain && t->dtype == CKCONV_BF16 && w->plain && w->dtype == CKCONV_BF16;
    for (int i = 0; i < 6; i++) {
        pairs = pairs && (i == 2 || t->len[i] == 1 || t->stride[i] % 2 == 0);
        t->stride[i] = i == 2 ? 1 : t->stride[i] / 2;
    }
    t->len[2] /= 2;
    t->dtype = t->compute = CKCONV_F32;
    *(data ? &paired->k : &paired->c) = red / 2;
    *v = ckci_make_view(paired, features);
    v->pairs = 1;
    v->k = ckci_find_pair_kernels(0);
    return pairs && v->k != NULL;
}

/* A depthwise bf16 problem: the view of its own. */
CKCI_FN int ckci_half_lanes(const ckci_conv *p, ckci_view *v, int32_t features)
{
    const ckci_tensor *in = &p->t[CKCI_IN], *out = &p->t[CKCI_OUT];
    *v = ckci_make_view(p, features);
    v->k = ckci_find_pair_kernels(1);
    return v->k != NULL && v->red == 1 && v->cols == 1 && v->kind->dtype == CKCONV_F32 &&
           in->dtype == CKCONV_BF16 && out->dtype == CKCONV_BF16;
}

/* What an instance with dot products sees; 0: it does not take the problem. */
CKCI_FN int ckci_dot_view(const ckci_conv *p, ckconv_family family, ckci_conv *paired, ckci_view *v,
                          int32_t features)
{
    return (family == CKCONV_FAMILY_DIRECT && ckci_half_lanes(p, v, features)) ||
           ckci_pair_channels(p, paired, v, features);
}

CKCI_FN ckconv_status ckci_fit_pairs(ckci_fit *f, ckconv_error *err)
{
    ckci_conv paired, turned;
    const ckci_conv *conv =
        f->family == CKCONV_FAMILY_DIRECT ? ckci_long_rows(&f->p->conv, &turned) : &f->p->conv;
    ckci_view v;
    if (f->split_k > 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "split_k is %d: fwd and bwd_data instances do not split", (int)f->split_k);
    }
    if (!ckci_dot_view(conv, f->family, &paired, &v, f->features)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "bf16 dot products take plain bf16 tensors of an even number of channels, side by "
                         "side, and even strides; direct takes depthwise ones too");
    }
    return f->family == CKCONV_FAMILY_DIRECT ? ckci_fit_direct_view(f, &v, err) : ckci_fit_gather_view(f, &v);
}

CKCI_FN void ckci_run_pairs(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                            unsigned char *ws, int32_t features)
{
    ckci_gather_job job;
    ckci_direct_job line;
    ckci_conv paired, turned;
    ckconv_family family = ckconv_instance_family(plan->instance);
    const ckci_conv *conv = family == CKCONV_FAMILY_DIRECT ? ckci_long_rows(&p->conv, &turned) : &p->conv;
    int64_t limit = ckci_plan_limit(plan);
    (void)args;
    if (!ckci_dot_view(conv, family, &paired, &job.v, features)) {
        return;
    }
    job.target = line.target = ckci_make_target(conv);
    line.v = job.v;
    if (family == CKCONV_FAMILY_DIRECT) {
        line.t = ckci_find_direct_tiles(&line.v, plan->device.threads, limit);
        ckci_run_direct_job(&line, ws);
    } else {
        job.t = ckci_gather_tiles(&job.v, plan->device.threads, limit, -1);
        ckci_run_gather_job(&job, ws);
    }
}

/* Units whose sums are added up before they go to totals */
CKCI_INLINE int64_t ckci_direct_block_units(const ckci_direct_tiles *t)
{
    return ckci_max(CKCI_NEXT / (t->yb * t->xb), 1);
}
