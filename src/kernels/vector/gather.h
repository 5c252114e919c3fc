/*------------------------------------------------------------------------------------------------------------
  >>k-vector-gather
  fwd and bwd_data, one kernel: out(row, column) = sum over taps and channels of a(position of the row, tap,
  channel) * weight(column, tap, channel). Rows are the written positions of one phase (bwd_data with a stride
  has one phase for each input position modulo the stride, each with its own taps; all phases are in one
  launch), columns the written channels of a group. A block owns S x S outputs of one group and phase; padding
  and tails enter LDS as zeros, so nothing is masked in the loop. Pixels that no tap reaches have an empty
  reduction and still get their epilogue.
*/
#pragma once
#include "kernels/map.h"
#include "kernels/vector/gemm.h"

/* The block's place: columns fastest, then rows, phases, groups. */
struct ckci_k_block {
    int32_t column, row, group;
    ckci_k_axis axis[3];
};

CKCI_K_FN ckci_k_block ckci_k_block_of(const ckci_gpu_conv &a, int32_t work, int tile_m, int tile_n)
{
    ckci_k_block b;
    int32_t rest = ckci_k_divide(work, a.by_tiles_n);
    b.column = (work - rest * a.tiles_n) * tile_n;
    int32_t up = ckci_k_divide(rest, a.by_tiles_m);
    b.row = (rest - up * a.tiles_m) * tile_m;
    b.group = ckci_k_divide(up, a.by_phases);
    ckci_k_find_axes(a.dim, up - b.group * a.phases, b.axis);
    return b;
}

CKCI_K_FN ckci_k_block ckci_k_find_block(const ckci_gpu_conv &a, int tile_m, int tile_n)
{
    return ckci_k_block_of(a, (int32_t)blockIdx.x, tile_m, tile_n);
}

/* Row m of a phase; rows past the end keep n = a.n. */
CKCI_K_FN ckci_k_place ckci_k_row(const ckci_k_axis axis[3], int32_t m)
{
    return ckci_k_decode(m, axis[0].by_count, axis[1].by_count, axis[2].by_count);
}

/* Place k of the reduction. */
struct ckci_k_tap {
    int32_t c, z, y, x;
};

CKCI_K_FN ckci_k_tap ckci_k_find_tap(const ckci_gpu_conv &a, const ckci_k_axis axis[3], int32_t k)
{
    ckci_k_tap t;
    int32_t tap = ckci_k_divide(k, a.by_red);
    t.c = k - tap * a.red;
    int32_t rest = ckci_k_divide(tap, axis[2].by_taps);
    t.x = tap - rest * axis[2].taps;
    t.z = ckci_k_divide(rest, axis[1].by_taps);
    t.y = rest - t.z * axis[1].taps;
    return t;
}

/* Where tap number `tap` of a whole filter lies; c is 0. */
CKCI_K_FN ckci_k_tap ckci_k_split_tap(const ckci_gpu_dim dim[3], int32_t tap)
{
    ckci_k_tap t;
    int32_t rest = ckci_k_divide(tap, dim[2].taps[0]);
    t.c = 0;
    t.x = tap - rest * dim[2].filter;
    t.z = ckci_k_divide(rest, dim[1].taps[0]);
    t.y = rest - t.z * dim[1].filter;
    return t;
}

/* Tap and channel of a weight gradient's column, [tap][channel]. */
CKCI_K_FN ckci_k_tap ckci_k_split_column(const ckci_gpu_conv &p, int32_t column)
{
    int32_t tap = ckci_k_divide(column, p.by_red);
    ckci_k_tap t = ckci_k_split_tap(p.dim, tap);
    t.c = column - tap * p.red;
    return t;
}

/* Offset of a tap and channel of the weights inside (group, column). */
CKCI_K_FN int64_t ckci_k_weight_at(const ckci_gpu_conv &a, const ckci_k_axis axis[3], const ckci_k_tap &t)
{
    const int64_t *s = a.b.stride;
    int32_t z = axis[0].tap0 + t.z * a.dim[0].period, y = axis[1].tap0 + t.y * a.dim[1].period,
            x = axis[2].tap0 + t.x * a.dim[2].period;
    if (a.b_narrow) {
        return (int32_t)((uint32_t)t.c * (uint32_t)a.b_red + (uint32_t)z * (uint32_t)s[3] +
                         (uint32_t)y * (uint32_t)s[4] + (uint32_t)x * (uint32_t)s[5]);
    }
    const ckci_tensor &wide = ckci_k_late(a.b);
    return t.c * a.b_red + z * wide.stride[3] + y * wide.stride[4] + x * wide.stride[5];
}

template <class T, int S, int KT, int THREADS> struct ckci_k_gather_a {
    const ckci_gpu_conv &p;
    const ckci_k_axis *axis;
    ckci_k_share s;
    ckci_k_slots<T> slots;
    int64_t base;
    int32_t z0, y0, x0, end;
    bool inside;

    CKCI_K_MEMBER ckci_k_gather_a(const ckci_gpu_conv &conv, const ckci_k_block &b, int32_t reduction)
        : p(conv), axis(b.axis)
    {
        s = ckci_k_make_share<S, THREADS>(p.a_along != 0);
        ckci_k_place q = ckci_k_row(axis, b.row + s.row);
        inside = q.n < p.n;
        base = b.group * p.a.stride[0] + q.n * p.a.stride[1];
        z0 = q.z * p.dim[0].read_step + axis[0].read0;
        y0 = q.y * p.dim[1].read_step + axis[1].read0;
        x0 = q.x * p.dim[2].read_step + axis[2].read0;
        end = reduction;
    }

    CKCI_K_MEMBER void one(int32_t k, int i)
    {
        ckci_k_tap t = ckci_k_find_tap(p, axis, k);
        int32_t z = z0 + t.z * p.dim[0].read_tap, y = y0 + t.y * p.dim[1].read_tap,
                x = x0 + t.x * p.dim[2].read_tap;
        if (inside && k < end && (uint32_t)z < (uint32_t)p.dim[0].read_len &&
            (uint32_t)y < (uint32_t)p.dim[1].read_len && (uint32_t)x < (uint32_t)p.dim[2].read_len) {
            int64_t at = base + ckci_k_inside(p.a, p.a_narrow, t.c, z, y, x);
            if (i < 0) {
                slots.fetch4(p.a, at);
            } else {
                slots.fetch(p.a, at, i);
            }
        }
    }

    CKCI_K_MEMBER void fetch(int32_t k0)
    {
        slots.clear();
        if (p.a_vec) {
            one(k0 + s.first, -1);
        } else {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                one(k0 + s.first + i * s.step, i);
            }
        }
    }

    CKCI_K_MEMBER void store(T *m) const
    {
        slots.store(p.a, m + s.first * (S + 4) + s.row, s.step * (S + 4));
    }
};

template <class T, int S, int KT, int THREADS> struct ckci_k_gather_b {
    const ckci_gpu_conv &p;
    const ckci_k_axis *axis;
    ckci_k_share s;
    ckci_k_slots<T> slots;
    int64_t base;
    int32_t end;
    bool inside;

    CKCI_K_MEMBER ckci_k_gather_b(const ckci_gpu_conv &conv, const ckci_k_block &b, int32_t reduction)
        : p(conv), axis(b.axis)
    {
        s = ckci_k_make_share<S, THREADS>(p.b_along != 0);
        inside = b.column + s.row < p.columns;
        base = b.group * p.b.stride[0] + (b.column + s.row) * p.b_column;
        end = reduction;
    }

    CKCI_K_MEMBER void one(int32_t k, int i)
    {
        if (inside && k < end) {
            int64_t at = base + ckci_k_weight_at(p, axis, ckci_k_find_tap(p, axis, k));
            if (i < 0) {
                slots.fetch4(p.b, at);
            } else {
                slots.fetch(p.b, at, i);
            }
        }
    }

    CKCI_K_MEMBER void fetch(int32_t k0)
    {
        slots.clear();
        if (p.b_vec) {
            one(k0 + s.first, -1);
        } else {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                one(k0 + s.first + i * s.step, i);
            }
        }
    }

    CKCI_K_MEMBER void store(T *m) const
    {
        slots.store(p.b, m + s.first * (S + 4) + s.row, s.step * (S + 4));
    }
};

CKCI_K_FN int32_t ckci_k_reduction(const ckci_gpu_conv &p, const ckci_k_axis axis[3])
{
    return p.red * axis[0].taps * axis[1].taps * axis[2].taps;
}

/* Sums of a block to the epilogue. The block's place is computed once more: it need not live in scalar
   registers through the loop. */
template <class T, int S, int KT, int THREADS>
CKCI_K_FN void ckci_k_finish_block(const ckci_gpu_conv &conv, ckci_k_tile<T, S, KT> &m,
                                   ckci_k_sums<T, S, KT, THREADS> &sums)
{
    const ckci_gpu_conv &p = ckci_k_late(conv);
    ckci_k_block b = ckci_k_find_block(p, S, S);
    sums.finish(m, p.o.t.stride[5] < p.o.t.stride[2], [&](int row, int column, T sum) {
        ckci_k_place q = ckci_k_row(b.axis, b.row + row);
        if (q.n < p.n && b.column + column < p.columns) {
            ckci_k_write<T>(
                p.o, sum, b.group, q.n, b.column + column, b.axis[0].write0 + q.z * p.dim[0].write_step,
                b.axis[1].write0 + q.y * p.dim[1].write_step, b.axis[2].write0 + q.x * p.dim[2].write_step);
        }
    });
}

template <class T, int S, int KT, int THREADS> struct ckci_k_gather {
    typedef ckci_k_tile<T, S, KT> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        ckci_k_block b = ckci_k_find_block(p, S, S);
        int64_t rows = (int64_t)p.n * b.axis[0].count * b.axis[1].count * b.axis[2].count;
        if (b.row >= rows) {
            return; /* a phase with fewer positions than the first one; the whole block */
        }
        int32_t reduction = ckci_k_reduction(p, b.axis);
        ckci_k_gather_a<T, S, KT, THREADS> left(p, b, reduction);
        ckci_k_gather_b<T, S, KT, THREADS> right(p, b, reduction);
        ckci_k_sums<T, S, KT, THREADS> sums;
        sums.run(m, left, right, 0, reduction);
        ckci_k_finish_block<T, S, KT, THREADS>(p, m, sums);
    }
};
