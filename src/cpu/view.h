/*------------------------------------------------------------------------------------------------------------
  >>cpu-view
  A convolution as the kernels see it: stride phases, segments of the reduction, rows of sums to memory. fwd
  and bwd_data differ here alone: the tensor that is gathered, the taps of a phase and the place that is
  written follow from the view, and cpu/patch.h, gather.h and direct.h do not ask which of both they compute.
  A phase owns its outputs, so that no two items write one.
*/
#pragma once
#include "core/layout.h"
#include "cpu/isa.h"

/* A convolution as its kernels see it. The tensor that is gathered (in; out for bwd_data) has `red` channels
   per group in the reduction; the columns of the product are the `cols` channels per group of the other
   side. */
typedef struct ckci_view {
    const ckci_conv *p;
    const ckci_kind *kind;
    const ckci_kernels *k;
    const ckci_tensor *read;
    int64_t red, cols, taps;
    int64_t phases[3]; /* bwd_data: stride phases; else 1 */
    int wei_col, wei_red;
    int pairs; /* an element of the reduction is two bf16 channels, a float to all but the kernels */
    int twins; /* bwd_weight: the same of two planes (n, z) of outputs */
} ckci_view;

CKCI_FN ckci_view ckci_make_view(const ckci_conv *p, int32_t features)
{
    ckci_view v;
    int data = p->op == CKCONV_BWD_DATA;
    v.p = p;
    v.kind = ckci_find_kind(p->t[p->op == CKCONV_BWD_WEIGHT ? CKCI_IN : CKCI_WEI].compute);
    v.k = ckci_find_kernels(features, v.kind->dtype);
    v.read = &p->t[data ? CKCI_OUT : CKCI_IN];
    v.red = data ? p->k : p->c;
    v.cols = data ? p->c : p->k;
    v.taps = p->filter[0] * p->filter[1] * p->filter[2];
    v.pairs = v.twins = 0;
    v.wei_col = data ? 2 : 1;
    v.wei_red = data ? 1 : 2;
    for (int i = 0; i < 3; i++) {
        v.phases[i] = data ? ckci_min(p->stride[i], p->input[i]) : 1;
    }
    return v;
}

/* bf16 memory whose values are floats as they are */
CKCI_INLINE int ckci_is_bf16(const ckci_view *v, const ckci_tensor *t)
{
    return t->plain && t->dtype == CKCONV_BF16 && v->kind->dtype == CKCONV_F32 && (uintptr_t)t->p % 2 == 0;
}

/* What turns 2-byte floats of t into numbers, if they are floats as they are; else NULL. */
CKCI_INLINE ckci_copy_kernel ckci_widener(const ckci_view *v, const ckci_tensor *t)
{
    int half = t->plain && v->kind->dtype == CKCONV_F32 && (uintptr_t)t->p % 2 == 0;
    return !half                     ? NULL
           : t->dtype == CKCONV_BF16 ? v->k->widen
           : t->dtype == CKCONV_F16  ? v->k->widen16
                                     : NULL;
}

/* Zero n numbers of a kind; all-bits-zero is 0 in each. */
CKCI_INLINE void ckci_clear(const ckci_kind *kind, void *dst, int64_t n)
{
    memset(dst, 0, (size_t)(n * kind->size));
}

/* memcpy of a few vectors, without the call */
CKCI_INLINE void ckci_copy_bytes(unsigned char *dst, const unsigned char *src, int64_t bytes)
{
    while (bytes >= 64) {
        memcpy(dst, src, 64);
        dst += 64;
        src += 64;
        bytes -= 64;
    }
    for (; bytes >= 16; bytes -= 16) {
        memcpy(dst, src, 16);
        dst += 16;
        src += 16;
    }
    for (; bytes > 0; bytes -= 4) {
        memcpy(dst, src, 4);
        dst += 4;
        src += 4;
    }
}

/* dst[i * step] = src[i] */
CKCI_INLINE void ckci_scatter(const ckci_kind *kind, unsigned char *dst, int64_t step, const void *src,
                              int64_t n)
{
    const unsigned char *s = (const unsigned char *)src;
    if (kind->size == 4) {
        for (int64_t i = 0; i < n; i++) {
            memcpy(dst + i * step * 4, s + i * 4, 4);
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            memcpy(dst + i * step * 8, s + i * 8, 8);
        }
    }
}

/* dst[i] = *src */
CKCI_INLINE void ckci_splat(const ckci_kind *kind, unsigned char *dst, const unsigned char *src, int64_t n)
{
    if (kind->size == 4) {
        uint32_t x;
        memcpy(&x, src, 4);
        for (int64_t i = 0; i < n; i++) {
            memcpy(dst + i * 4, &x, 4);
        }
    } else {
        uint64_t x;
        memcpy(&x, src, 8);
        for (int64_t i = 0; i < n; i++) {
            memcpy(dst + i * 8, &x, 8);
        }
    }
}

/* dst[i] = src[i * step] */
CKCI_INLINE void ckci_collect(const ckci_kind *kind, void *dst, const unsigned char *src, int64_t step,
                              int64_t n)
{
    unsigned char *d = (unsigned char *)dst;
    if (kind->size == 4) {
        for (int64_t i = 0; i < n; i++) {
            memcpy(d + i * 4, src + i * step * 4, 4);
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            memcpy(d + i * 8, src + i * step * 8, 8);
        }
    }
}

/* Phase `index` of v: three axes. */
CKCI_FN void ckci_phase(const ckci_view *v, int64_t index, ckci_axis axis[3])
{
    axis[2] = ckci_map_axis(v->p, 2, index % v->phases[2]);
    axis[1] = ckci_map_axis(v->p, 1, index / v->phases[2] % v->phases[1]);
    axis[0] = ckci_map_axis(v->p, 0, index / v->phases[2] / v->phases[1]);
}

/* The written tensor in the coordinates of a phase: position q is write0 + q*write_step. d: room for the D
   tensors. */
CKCI_FN ckci_target ckci_phase_target(const ckci_target *whole, const ckci_axis *axis, ckci_tensor *d)
{
    ckci_target o = *whole;
    o.d = d;
    for (int32_t j = 0; j <= o.num_d; j++) {
        ckci_tensor *t = j < o.num_d ? &d[j] : &o.t;
        if (j < o.num_d) {
            d[j] = whole->d[j];
        }
        for (int i = 0; i < 3; i++) {
            t->p += axis[i].write0 * t->stride[3 + i] * (int64_t)ckci_size(t->dtype);
            /* a single position needs no stride, and its product could be huge */
            t->stride[3 + i] *= axis[i].count == 1 ? 0 : axis[i].write_step;
        }
    }
    return o;
}

/* Position m of a phase as {n, qz, qy, qx}. */
CKCI_FN void ckci_place(const ckci_axis axis[3], int64_t m, int64_t q[4])
{
    q[3] = m % axis[2].count;
    m /= axis[2].count;
    q[2] = m % axis[1].count;
    m /= axis[1].count;
    q[1] = m % axis[0].count;
    q[0] = m / axis[0].count;
}

CKCI_FN void ckci_next_place(const ckci_axis axis[3], int64_t q[4])
{
    if (++q[3] == axis[2].count) {
        q[3] = 0;
        if (++q[2] == axis[1].count) {
            q[2] = 0;
            if (++q[1] == axis[0].count) {
                q[1] = 0;
                q[0]++;
            }
        }
    }
}

/* Taps j in [*from, *to) whose read position first + j*step lies inside [0, len). */
CKCI_FN void ckci_inside(int64_t first, int64_t step, int64_t taps, int64_t len, int64_t *from, int64_t *to)
{
    int64_t lo = 0, hi = taps;
    if (step == 1 || taps == 1) { /* without a division */
        lo = first < 0 ? (taps == 1 ? 1 : -first) : 0;
        hi = first < len ? ckci_min(taps, taps == 1 ? 1 : len - first) : 0;
    } else if (step > 0) {
        lo = first < 0 ? ckci_ceil_div(-first, step) : 0;
        hi = first < len ? ckci_min(taps, (len - 1 - first) / step + 1) : 0;
    } else if (step < 0) {
        lo = first >= len ? ckci_ceil_div(first - len + 1, -step) : 0;
        hi = first >= 0 ? ckci_min(taps, first / -step + 1) : 0;
    } else if (first < 0 || first >= len) {
        hi = 0;
    }
    *from = ckci_min(lo, taps);
    *to = ckci_max(hi, *from);
}

/* One segment of an im2col row: numbers [skip, skip + n) of the channels of `line` neighbouring taps, whose
   first tap reads position x of a row of the tensor that begins at element `row` (row_inside 0: the row is
   padding). */
CKCI_INLINE void ckci_pack_segment(const ckci_view *v, const ckci_axis *ax, int64_t line,
                                   int64_t channel_step, int bare, int64_t row, int row_inside, int64_t x,
                                   int64_t skip, int64_t n, unsigned char *out)
{
    const ckci_tensor *t = v->read;
    int64_t from = skip, to = skip + n, size = v->kind->size;
    if (line == 1) {
        to = row_inside && x >= 0 && x < ax->read_len ? to : from;
    } else {
        int64_t first = 0, last = 0;
        if (row_inside) {
            ckci_inside(x, ax->read_tap, line, ax->read_len, &first, &last);
        }
        from = ckci_min(ckci_max(first * v->red, skip), skip + n);
        to = ckci_max(ckci_min(last * v->red, skip + n), from);
    }
    if (from > skip) {
        ckci_clear(v->kind, out, from - skip);
    }
    if (to > from) {
        int64_t at = row + x * t->stride[5] + from * channel_step;
        if (bare) {
            ckci_copy_bytes(out + (from - skip) * size, t->p + at * size, (to - from) * size);
        } else {
            v->kind->read(t, at, channel_step, to - from, out + (from - skip) * size);
        }
    }
    if (to < skip + n) {
        ckci_clear(v->kind, out + (to - skip) * size, skip + n - to);
    }
}

/* Are neighbouring taps along x neighbours in memory, channels side by side? */
CKCI_FN int ckci_joined_rows(const ckci_view *v, const ckci_axis *ax)
{
    const ckci_tensor *t = v->read;
    return (v->red == 1 || t->stride[2] == 1) && ax->read_tap > 0 && ax->read_tap <= v->red &&
           t->stride[5] <= v->red && ax->read_tap * t->stride[5] == v->red;
}

/* im2col: rows m0.. of the phase, columns [k0, k1) of the reduction (tap by tap, channels fastest), padding
   as zeros. Where neighbouring taps are neighbours in memory a whole filter row is one segment. */
CKCI_FN void ckci_pack_rows(const ckci_view *v, const ckci_axis axis[3], int64_t group, int64_t m0,
                            int64_t rows, int64_t k0, int64_t k1, unsigned char *dst, int64_t ld)
{
    const ckci_tensor *t = v->read;
    const ckci_axis *az = &axis[0], *ay = &axis[1], *ax = &axis[2];
    int64_t channel_step = v->red > 1 ? t->stride[2] : 1, size = v->kind->size;
    int joined = ckci_joined_rows(v, ax);
    int64_t line = joined ? ax->taps : 1, segment = line * v->red, across = joined ? 1 : ax->taps;
    int bare = t->plain && t->dtype == v->kind->dtype && channel_step == 1;
    int64_t s0 = k0 / segment, q[4];
    int64_t jx0 = s0 % across, jy0 = s0 / across % ay->taps, jz0 = s0 / across / ay->taps;
    ckci_place(axis, m0, q);
    for (int64_t r = 0; r < rows; r++, ckci_next_place(axis, q)) {
        unsigned char *out = dst + r * ld * size;
        int64_t base = group * t->stride[0] + q[0] * t->stride[1];
        int64_t skip = k0 - s0 * segment, jx = jx0, jy = jy0, jz = jz0;
        int64_t x0 = q[3] * ax->read_step + ax->read0;
        for (int64_t k = k0; k < k1; jx = 0) {
            int64_t z = q[1] * az->read_step + az->read0 + jz * az->read_tap;
            int64_t y = q[2] * ay->read_step + ay->read0 + jy * ay->read_tap;
            int inside = z >= 0 && z < az->read_len && y >= 0 && y < ay->read_len;
            int64_t row = inside ? base + z * t->stride[3] + y * t->stride[4] : 0;
            for (; jx < across && k < k1; jx++, skip = 0) {
                int64_t n = ckci_min(segment - skip, k1 - k);
                ckci_pack_segment(v, ax, line, channel_step, bare, row, inside, x0 + jx * ax->read_tap, skip,
                                  n, out);
                out += n * size;
                k += n;
            }
            if (++jy == ay->taps) {
                jy = 0;
                jz++;
            }
        }
    }
}

/* The same for pairs. */
CKCI_FN void ckci_pack_pairs(const ckci_view *v, int64_t at, int64_t n, int64_t valid, int64_t width,
                             unsigned char *dst)
{
    const ckci_tensor *w = &v->p->t[CKCI_WEI];
    int64_t col_step = w->stride[v->wei_col], red_step = w->stride[v->wei_red];
    const unsigned char *p = w->p + at * 2;
    if (col_step <= red_step) {
        for (int64_t i = 0; i < n; i++, dst += width * 4, p += red_step * 4) {
            for (int64_t j = 0; j < valid; j++) {
                memcpy(dst + j * 4, p + j * col_step * 2, 2);
                memcpy(dst + j * 4 + 2, p + (j * col_step + red_step) * 2, 2);
            }
            memset(dst + valid * 4, 0, (size_t)((width - valid) * 4));
        }
        return;
    }
    for (int64_t j = 0; j < width; j++, p += col_step * 2) {
        for (int64_t i = 0; i < n; i++) {
            unsigned char *out = dst + (i * width + j) * 4;
            memset(out, 0, 4);
            if (j < valid && red_step == 1) {
                memcpy(out, p + i * 4, 4);
            } else if (j < valid) {
                memcpy(out, p + i * red_step * 4, 2);
                memcpy(out + 2, p + (2 * i + 1) * red_step * 2, 2);
            }
        }
    }
}

/* Weights of a phase for columns [j0, j0 + width) and reduction [k0, k1): dst[k][width], columns past the end
   zero. */
CKCI_FN void ckci_pack_weights(const ckci_view *v, const ckci_axis axis[3], int64_t group, int64_t j0,
                               int64_t width, int64_t k0, int64_t k1, unsigned char *dst)
{
    enum { CKCI_CHUNK = 128 };
    double buffer[CKCI_CHUNK];
    const ckci_tensor *w = &v->p->t[CKCI_WEI];
    int64_t size = v->kind->size, valid = ckci_min(width, v->cols - j0);
    int64_t col_step = w->stride[v->wei_col], red_step = w->stride[v->wei_red];
    for (int64_t k = k0; k < k1;) {
        int64_t tap = k / v->red, c = k % v->red, n = ckci_min(ckci_min(v->red - c, k1 - k), CKCI_CHUNK);
        int64_t jx = tap % axis[2].taps, jy = tap / axis[2].taps % axis[1].taps,
                jz = tap / axis[2].taps / axis[1].taps;
        int64_t at = group * w->stride[0] + j0 * col_step + (v->pairs ? 2 * c : c) * red_step +
                     (axis[0].tap0 + jz * axis[0].tap_step) * w->stride[3] +
                     (axis[1].tap0 + jy * axis[1].tap_step) * w->stride[4] +
                     (axis[2].tap0 + jx * axis[2].tap_step) * w->stride[5];
        unsigned char *out = dst + (k - k0) * width * size;
        if (v->pairs) {
            ckci_pack_pairs(v, at, n, valid, width, out);
        } else if (col_step == 1 || n < 4) {
            for (int64_t i = 0; i < n; i++) {
                v->kind->read(w, at + i * red_step, col_step, valid, out + i * width * size);
                ckci_clear(v->kind, out + (i * width + valid) * size, width - valid);
            }
        } else {
            for (int64_t j = 0; j < width; j++) {
                if (j < valid) {
                    v->kind->read(w, at + j * col_step, red_step, n, buffer);
                } else {
                    ckci_clear(v->kind, buffer, n);
                }
                ckci_scatter(v->kind, out + j * size, width, buffer, n);
            }
        }
        k += n;
    }
}

/* Sums that an epilogue leaves alone go to memory in rows of dense elements: 1 as they are, 2 as bf16, 3 as
   f16, 4 and 5 rounded to these but kept as floats. 0: they need kind->write. */
CKCI_FN int ckci_plain_store(const ckci_view *v, const ckci_target *o)
{
    int pass = o->t.op.kind == CKCONV_PASS && !o->scale && !o->shift, same = o->t.dtype == v->kind->dtype;
    ckconv_dtype half = o->compute ? o->compute : o->t.dtype;
    int how = half == CKCONV_BF16 ? 2 : half == CKCONV_F16 ? 3 : 0;
    if (!pass || (uintptr_t)o->t.p % ckci_size(o->t.dtype) != 0) {
        return 0;
    }
    if (!o->compute && same) {
        return 1;
    }
    how = v->kind->dtype == CKCONV_F32 ? how : 0;
    return how == 0 || !o->compute ? how : same ? how + 2 : 0;
}

CKCI_FN void ckci_store_rows(const ckci_view *v, int how, int64_t n, int64_t count, const unsigned char *src,
                             int64_t src_step, unsigned char *dst, int64_t dst_step)
{
    uint16_t half[CKCI_SPAN];
    ckci_copy_kernel narrow = how % 2 == 0 ? v->k->narrow : v->k->narrow16;
    if (how <= 3) {
        (how == 1 ? v->k->copy : narrow)(n, count, src, src_step, dst, dst_step);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < count; j += CKCI_SPAN) {
            int64_t some = ckci_min(count - j, CKCI_SPAN);
            narrow(1, some, src + (i * src_step + j) * 4, 0, half, 0);
            (how == 4 ? v->k->widen : v->k->widen16)(1, some, half, 0, dst + (i * dst_step + j) * 4, 0);
        }
    }
}

/* Hand a tile of finished sums to the epilogue: `rows` positions from q = (n, z, y, x) on, which moves past
   them, `cols` channels from j0 on; src[row][ld]. Runs follow the denser axis of the written tensor. */
CKCI_FN void ckci_write_tile(const ckci_view *v, const ckci_target *o, const ckci_axis axis[3], int64_t group,
                             int64_t q[4], int64_t rows, int64_t j0, int64_t cols, const unsigned char *src,
                             int64_t ld)
{
    enum { CKCI_CHUNK = 128 };
    double buffer[CKCI_CHUNK];
    int64_t at[6];
    const ckci_kind *kind = v->kind;
    int along_x = o->t.stride[5] < o->t.stride[2] && cols > 1;
    int how = o->t.stride[2] == 1 || cols == 1 ? ckci_plain_store(v, o) : 0;
    at[0] = group;
    for (int64_t r = 0; r < rows;) {
        int64_t n = along_x || how ? ckci_min(ckci_min(rows - r, axis[2].count - q[3]), CKCI_CHUNK) : 1;
        at[1] = q[0];
        at[2] = j0;
        at[3] = q[1];
        at[4] = q[2];
        at[5] = q[3];
        const unsigned char *from = src + r * ld * kind->size;
        if (how) {
            ckci_store_rows(v, how, n, cols, from, ld,
                            o->t.p + ckci_offset(o->t.stride, at) * (int64_t)ckci_size(o->t.dtype),
                            o->t.stride[5]);
        } else if (!along_x) {
            kind->write(o, at, 2, cols, from);
        }
        for (int64_t j = 0; along_x && !how && j < cols; j++) {
            at[2] = j0 + j;
            ckci_collect(kind, buffer, from + j * kind->size, ld, n);
            kind->write(o, at, 5, n, buffer);
        }
        r += n;
        q[3] += n - 1;
        ckci_next_place(axis, q);
    }
}
