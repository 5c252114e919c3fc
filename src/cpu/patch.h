/*------------------------------------------------------------------------------------------------------------
  >>cpu-patch
  The input that a block of outputs touches, gathered once for all taps, which then read it where it lies: a
  number is copied and converted once, not once for each tap. Positions are split by their place modulo the
  stride, so that neighbouring outputs read neighbours. Padding is zeros. The patch lies in its item's
  scratch, and no other item reads it.
*/
#pragma once
#include "cpu/view.h"

/* How the positions of one dimension that `count` outputs touch are laid out: shared (a dense range, `planes`
   interleaved residues of the stride), or one separate plane for each tap where a range would mostly hold
   unused positions. */
typedef struct ckci_window {
    int64_t count, taps, planes, width; /* planes x width positions are stored */
    int64_t first, step, tap;           /* of tap 0: read position of output 0, per output, per tap */
    int64_t low;                        /* lowest read position */
    int separate;
} ckci_window;

CKCI_FN ckci_window ckci_make_window(const ckci_axis *a, int64_t q0, int64_t count)
{
    ckci_window w;
    int64_t reach = (a->taps - 1) * (a->read_tap < 0 ? -a->read_tap : a->read_tap);
    w.count = count;
    w.taps = a->taps;
    w.step = a->read_step;
    w.tap = a->read_tap;
    w.first = q0 * a->read_step + a->read0;
    w.low = w.first - (a->read_tap < 0 ? reach : 0);
    w.planes = a->read_step;
    w.width = count + reach / a->read_step;
    w.separate = w.planes > a->taps || w.width > a->taps * count / w.planes;
    if (w.separate) {
        w.planes = a->taps;
        w.width = count;
    }
    return w;
}

/* Read position of entry i of a plane, and the place (plane, entry) of output 0 for tap j. */
CKCI_INLINE int64_t ckci_window_position(const ckci_window *w, int64_t plane, int64_t i)
{
    return w->separate ? w->first + i * w->step + plane * w->tap : w->low + i * w->step + plane;
}

CKCI_INLINE int64_t ckci_window_tap(const ckci_window *w, int64_t j)
{
    if (w->separate) {
        return j * w->width;
    }
    int64_t relative = w->first + j * w->tap - w->low;
    return relative % w->step * w->width + relative / w->step;
}

/* A plane that no tap uses need not be filled. */
CKCI_FN int ckci_window_used(const ckci_window *w, int64_t plane)
{
    for (int64_t j = 0; j < w->taps && !w->separate; j++) {
        if (ckci_window_tap(w, j) / w->width == plane) {
            return 1;
        }
    }
    return w->separate;
}

/* Tap j - *apart of output i + *later, a multiple of the stride further, reads what tap j of output i reads;
   with negative taps it is tap j + *apart. Separate planes share nothing. */
CKCI_FN void ckci_window_repeat(const ckci_window *w, int64_t *apart, int64_t *later)
{
    int64_t tap = w->tap < 0 ? -w->tap : w->tap, a = tap, b = w->step;
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    *apart = w->step / a;
    *later = w->separate ? CKCI_MAX_BYTES : tap / a;
}

/* Positions that the windows of yb x xb outputs hold, of the phase that needs most. chunk: filter rows (z, y)
   gathered together; 0: all of them. */
CKCI_FN int64_t ckci_window_entries(const ckci_view *v, int64_t yb, int64_t xb, int64_t chunk)
{
    int64_t most[3];
    for (int d = 0; d < 3; d++) {
        most[d] = 0;
        for (int64_t i = 0; i < v->phases[d]; i++) {
            ckci_axis a = ckci_map_axis(v->p, d, i);
            if (d == 0 || a.taps == 0) {
                most[d] = ckci_max(most[d], chunk ? ckci_min(a.taps, 1) : a.taps);
                continue;
            }
            if (d == 1 && chunk) {
                a.taps = ckci_min(a.taps, chunk);
            }
            ckci_window w = ckci_make_window(&a, 0, d == 1 ? yb : xb);
            most[d] = ckci_max(most[d], w.planes * w.width);
        }
    }
    return ckci_saturating_mul(ckci_saturating_mul(most[0], most[1]), most[2]);
}

/* Filter row `row` of a phase alone. */
CKCI_FN void ckci_filter_row(ckci_axis axis[3], int64_t row)
{
    int64_t jz = row / axis[1].taps, jy = row % axis[1].taps;
    axis[0].taps = axis[1].taps = 1;
    axis[0].tap0 += jz * axis[0].tap_step;
    axis[0].read0 += jz * axis[0].read_tap;
    axis[1].tap0 += jy * axis[1].tap_step;
    axis[1].read0 += jy * axis[1].read_tap;
}

/* The input that a block of outputs touches, channels [c0, c0 + cb) of one group, gathered once for all taps:
   [filter plane z][y][x][channel], padding as zeros. Neighbouring outputs are `step` elements apart. Where a
   filter row's taps are neighbours in memory and channels are few, positions keep their order and a filter
   row is one segment of the reduction (joined); else each tap is one. */
typedef struct ckci_patch {
    ckci_window y, x;
    int joined;
    int64_t cb, row, plane, image; /* elements per position, row of x, plane z, batch entry */
    int64_t step, segments, len;
} ckci_patch;

CKCI_FN int ckci_joins(const ckci_view *v, const ckci_axis *ax)
{
    return v->red < v->k->lanes && ax->read_tap == 1 && ax->read_step <= ax->taps && ax->taps > 1;
}

CKCI_FN ckci_patch ckci_make_patch(const ckci_axis axis[3], const int64_t q[3], int64_t yb, int64_t xb,
                                   int64_t cb, int joined)
{
    ckci_patch p;
    p.y = ckci_make_window(&axis[1], q[1], yb);
    p.x = ckci_make_window(&axis[2], q[2], xb);
    p.joined = joined;
    if (p.joined) {
        p.x.planes = p.x.step = 1;
        p.x.separate = 0;
        p.x.width = (xb - 1) * axis[2].read_step + axis[2].taps;
    }
    p.cb = cb;
    p.row = p.x.planes * p.x.width * cb;
    p.plane = p.y.planes * p.y.width * p.row;
    p.image = axis[0].taps * p.plane;
    p.step = p.joined ? axis[2].read_step * cb : cb;
    p.segments = axis[0].taps * axis[1].taps * (p.joined ? 1 : axis[2].taps);
    p.len = p.joined ? axis[2].taps * cb : cb;
    return p;
}

/* Where each segment begins for output (0, 0). */
CKCI_FN void ckci_patch_segments(const ckci_patch *p, const ckci_axis axis[3], int32_t *offset)
{
    int64_t across = p->joined ? 1 : axis[2].taps;
    for (int64_t jz = 0; jz < axis[0].taps; jz++) {
        for (int64_t jy = 0; jy < axis[1].taps; jy++) {
            int64_t row = jz * p->plane + ckci_window_tap(&p->y, jy) * p->row;
            for (int64_t jx = 0; jx < across; jx++) {
                *offset++ = (int32_t)(row + ckci_window_tap(&p->x, jx) * p->cb);
            }
        }
    }
}

/* One row of x of a patch; row: its first element in the tensor. */
CKCI_FN void ckci_pack_patch_row(const ckci_view *v, const ckci_patch *p, const ckci_axis *ax, int64_t row,
                                 unsigned char *dst)
{
    double buffer[128];
    const ckci_tensor *t = v->read;
    const ckci_window *w = &p->x;
    int64_t size = v->kind->size, cb = p->cb, channel = cb > 1 ? t->stride[2] : 1;
    int64_t step = w->step * t->stride[5];
    ckci_copy_kernel widen = ckci_widener(v, t);
    int bare =
        t->plain && t->dtype == v->kind->dtype && channel == 1 && (uintptr_t)t->p % (uintptr_t)size == 0;
    for (int64_t plane = 0; plane < w->planes; plane++, dst += w->width * cb * size) {
        int64_t from, to, x0 = ckci_window_position(w, plane, 0);
        if (w->planes > 1 && !ckci_window_used(w, plane)) {
            continue;
        }
        ckci_inside(x0, w->step, w->width, ax->read_len, &from, &to);
        ckci_clear(v->kind, dst, from * cb);
        ckci_clear(v->kind, dst + to * cb * size, (w->width - to) * cb);
        int64_t at = row + x0 * t->stride[5];
        if (to == from) {
            continue;
        }
        if (bare && step == cb) {
            memcpy(dst + from * cb * size, t->p + (at + from * step) * size,
                   (size_t)((to - from) * cb * size));
        } else if (bare) {
            v->k->copy(to - from, cb, t->p + (at + from * step) * size, step, dst + from * cb * size, cb);
        } else if (channel == 1 && widen) {
            widen(to - from, cb, t->p + (at + from * step) * 2, step, dst + from * cb * size, cb);
        } else if (t->stride[5] < channel && to - from > 1) {
            for (int64_t c = 0; c < cb; c++) {
                for (int64_t i = from; i < to; i += 128) {
                    int64_t n = ckci_min(to - i, 128);
                    v->kind->read(t, at + c * channel + i * step, step, n, buffer);
                    ckci_scatter(v->kind, dst + (i * cb + c) * size, cb, buffer, n);
                }
            }
        } else {
            for (int64_t i = from; i < to; i++) {
                v->kind->read(t, at + i * step, channel, cb, dst + i * cb * size);
            }
        }
    }
}

/* The patch of batch entry n for outputs of plane qz, channels from c0 on. */
CKCI_FN void ckci_pack_patch(const ckci_view *v, const ckci_patch *p, const ckci_axis axis[3], int64_t group,
                             int64_t n, int64_t qz, int64_t c0, unsigned char *dst)
{
    const ckci_tensor *t = v->read;
    int64_t size = v->kind->size;
    for (int64_t jz = 0; jz < axis[0].taps; jz++) {
        int64_t z = qz * axis[0].read_step + axis[0].read0 + jz * axis[0].read_tap;
        for (int64_t s = 0; s < p->y.planes * p->y.width; s++, dst += p->row * size) {
            int64_t y = ckci_window_position(&p->y, s / p->y.width, s % p->y.width);
            if (p->y.planes > 1 && !ckci_window_used(&p->y, s / p->y.width)) {
                continue;
            }
            if (z < 0 || z >= axis[0].read_len || y < 0 || y >= axis[1].read_len) {
                ckci_clear(v->kind, dst, p->row);
                continue;
            }
            int64_t row = group * t->stride[0] + n * t->stride[1] + c0 * t->stride[2] + z * t->stride[3] +
                          y * t->stride[4];
            ckci_pack_patch_row(v, p, &axis[2], row, dst);
        }
    }
}

/* A patch of twins: output planes 2 * twin and 2 * twin + 1 of all (n, z); past the last one zeros. */
CKCI_FN void ckci_zip_patch(const ckci_view *v, const ckci_patch *p, const ckci_axis axis[3], int64_t group,
                            int64_t twin, int64_t c0, unsigned char *dst)
{
    const ckci_tensor *t = v->read;
    const ckci_window *w = &p->x;
    int64_t cb = p->cb, step = w->step * t->stride[5];
    for (int64_t jz = 0; jz < axis[0].taps; jz++) {
        for (int64_t s = 0; s < p->y.planes * p->y.width; s++, dst += p->row * 4) {
            int64_t y = ckci_window_position(&p->y, s / p->y.width, s % p->y.width);
            if (p->y.planes > 1 && !ckci_window_used(&p->y, s / p->y.width)) {
                continue;
            }
            const unsigned char *row[2];
            for (int i = 0; i < 2; i++) {
                int64_t n = (2 * twin + i) / axis[0].count, qz = (2 * twin + i) % axis[0].count;
                int64_t z = qz * axis[0].read_step + axis[0].read0 + jz * axis[0].read_tap;
                int inside = n < v->p->n && z >= 0 && z < axis[0].read_len && y >= 0 && y < axis[1].read_len;
                row[i] = inside ? t->p + (group * t->stride[0] + n * t->stride[1] + c0 * t->stride[2] +
                                          z * t->stride[3] + y * t->stride[4]) *
                                             2
                                : NULL;
            }
            for (int64_t plane = 0; plane < w->planes; plane++) {
                int64_t from, to, x0 = ckci_window_position(w, plane, 0);
                unsigned char *out = dst + plane * w->width * cb * 4;
                if (w->planes > 1 && !ckci_window_used(w, plane)) {
                    continue;
                }
                ckci_inside(x0, w->step, w->width, axis[2].read_len, &from, &to);
                int64_t at = (x0 + from * w->step) * t->stride[5] * 2, n = to - from;
                ckci_clear(v->kind, out, from * cb);
                ckci_clear(v->kind, out + to * cb * 4, (w->width - to) * cb);
                if (n > 0) {
                    v->k->zip(step == cb ? 1 : n, step == cb ? n * cb : cb, row[0] ? row[0] + at : NULL,
                              row[1] ? row[1] + at : NULL, step, out + from * cb * 4, cb);
                }
            }
        }
    }
}
