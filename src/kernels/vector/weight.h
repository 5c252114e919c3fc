/*------------------------------------------------------------------------------------------------------------
  >>k-vector-weight
  bwd_weight: dw(k, (tap, c)) = sum over positions of dout(position, k) * in(position and tap, c). A block
  owns S output channels and S columns of one group, over one part of the positions. One part: the sums go
  to the epilogue. Several: they go to workspace as they are, and the reduce kernel adds the parts in their
  order.
*/
#pragma once
#include "kernels/bias.h"
#include "kernels/store.h"

template <class T, int S, int KT, int THREADS> struct ckci_k_weight_a {
    const ckci_gpu_conv &p;
    ckci_k_share s;
    ckci_k_slots<T> slots;
    int64_t base;
    int32_t end;
    bool inside;

    CKCI_K_MEMBER ckci_k_weight_a(const ckci_gpu_conv &conv, int32_t group, int32_t row0, int32_t to)
        : p(conv)
    {
        s = ckci_k_make_share<S, THREADS>(p.a_along != 0);
        inside = row0 + s.row < p.rows;
        base = group * p.a.stride[0] + (row0 + s.row) * p.a.stride[2];
        end = to;
    }

    CKCI_K_MEMBER void fetch(int32_t k0)
    {
        slots.clear();
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            int32_t k = k0 + s.first + i * s.step;
            if (inside && k < end) {
                ckci_k_place q = ckci_k_decode(k, p.dim[0].count[0], p.dim[1].count[0], p.dim[2].count[0]);
                slots.fetch(p.a,
                            base + q.n * p.a.stride[1] + ckci_k_inside(p.a, p.a_narrow, 0, q.z, q.y, q.x), i);
            }
        }
    }

    CKCI_K_MEMBER void store(T *m) const
    {
        slots.store(p.a, m + s.first * (S + 4) + s.row, s.step * (S + 4));
    }
};

template <class T, int S, int KT, int THREADS> struct ckci_k_weight_b {
    const ckci_gpu_conv &p;
    ckci_k_share s;
    ckci_k_slots<T> slots;
    int64_t base;
    int32_t z0, y0, x0, end;
    bool inside;

    CKCI_K_MEMBER ckci_k_weight_b(const ckci_gpu_conv &conv, int32_t group, int32_t column0, int32_t to)
        : p(conv)
    {
        s = ckci_k_make_share<S, THREADS>(p.b_along != 0);
        int32_t column = column0 + s.row;
        ckci_k_tap tap = ckci_k_split_column(p, column);
        inside = column < p.columns;
        base = group * p.b.stride[0] + tap.c * p.b.stride[2];
        x0 = tap.x * p.dim[2].dilation - p.dim[2].pad;
        y0 = tap.y * p.dim[1].dilation - p.dim[1].pad;
        z0 = tap.z * p.dim[0].dilation - p.dim[0].pad;
        end = to;
    }

    CKCI_K_MEMBER void fetch(int32_t k0)
    {
        slots.clear();
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            int32_t k = k0 + s.first + i * s.step;
            ckci_k_place q = ckci_k_decode(k, p.dim[0].count[0], p.dim[1].count[0], p.dim[2].count[0]);
            int32_t z = z0 + q.z * p.dim[0].stride, y = y0 + q.y * p.dim[1].stride,
                    x = x0 + q.x * p.dim[2].stride;
            if (inside && k < end && (uint32_t)z < (uint32_t)p.dim[0].read_len &&
                (uint32_t)y < (uint32_t)p.dim[1].read_len && (uint32_t)x < (uint32_t)p.dim[2].read_len) {
                slots.fetch(p.b, base + q.n * p.b.stride[1] + ckci_k_inside(p.b, p.b_narrow, 0, z, y, x), i);
            }
        }
    }

    CKCI_K_MEMBER void store(T *m) const
    {
        slots.store(p.b, m + s.first * (S + 4) + s.row, s.step * (S + 4));
    }
};

/* dw(group, k, column): to the epilogue, or into a part of the workspace, [part][g][k][tap][c]. MERGE: groups
   may be merged; then what couples two of them is dropped. more: the part holds the sum of others. */
template <class T, int MERGE = 0>
CKCI_K_FN void ckci_k_write_weight(const ckci_gpu_conv &p, T sum, int32_t part, int32_t group, int32_t k,
                                   int32_t column, bool more = false)
{
    const ckci_k_tap tap = ckci_k_split_column(p, column);
    int32_t c = tap.c, x = tap.x;
    int32_t groups = p.g, rows = p.rows, columns = p.columns;
    if (MERGE && p.merge > 0) {
        int32_t wide = p.dim[2].filter, per_c = (int32_t)p.by_one_c.d;
        if (p.filter_x) {
            wide = p.filter_x;
            x = 2 * x + (c >> 2) - p.shift;
            c &= 3;
            if ((uint32_t)x >= (uint32_t)wide) {
                return;
            }
        }
        int32_t one = ckci_k_divide(k, p.by_one_k);
        if (one >= p.merge || one != ckci_k_divide(c, p.by_one_c)) {
            return;
        }
        rows = (int32_t)p.by_one_k.d;
        columns = p.dim[0].filter * p.dim[1].filter * wide * per_c;
        k -= one * rows;
        c -= one * per_c;
        column = ((tap.z * p.dim[1].filter + tap.y) * wide + x) * per_c + c;
        group = group * p.merge + one;
        groups *= p.merge;
    }
    if (p.o.partial) {
        int64_t at = (((int64_t)part * groups + group) * rows + k) * columns + column;
        ((T *)p.o.partial)[at] = more ? ((const T *)p.o.partial)[at] + sum : sum;
        return;
    }
    ckci_k_write<T>(p.o, sum, group, k, c, tap.z, tap.y, x);
}

template <class T, int S, int KT, int THREADS> struct ckci_k_weight {
    typedef ckci_k_tile<T, S, KT> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        ckci_k_sums<T, S, KT, THREADS> sums;
        sums.clear();
        if constexpr (S == 128) {
            ckci_k_short_sums none;
            int32_t left = ckci_k_find_weight_block(p, S, S).positions();
            CKCI_K_UNROLL(1)
            while (left > 0) {
                const int32_t before = left;
                {
                    const ckci_k_weight_block b = ckci_k_find_weight_block(p, S, S);
                    left = ckci_k_after_stretch(p, before, 1);
                    ckci_k_weight_a<T, S, KT, THREADS> a(p, b.group, b.row, b.to - left);
                    ckci_k_weight_b<T, S, KT, THREADS> in(p, b.group, b.column, b.to - left);
                    sums.add(m, a, in, b.to - before, b.to - left, none);
                }
                const ckci_k_weight_block b = ckci_k_find_weight_block(p, S, S);
                const bool fresh = b.positions() - left <= CKCI_K_KEPT_STRETCH;
                if (!fresh || left > 0) {
                    sums.settle(p, b, fresh, left == 0);
                }
            }
        } else {
            const ckci_k_weight_block b = ckci_k_find_weight_block(p, S, S);
            ckci_k_weight_a<T, S, KT, THREADS> left(p, b.group, b.row, b.to);
            ckci_k_weight_b<T, S, KT, THREADS> right(p, b.group, b.column, b.to);
            ckci_k_long_sums<T, 16> whole;
            whole.clear();
            sums.add(m, left, right, b.from, b.to, whole);
            whole.finish(&sums.c[0][0]);
        }
        const ckci_k_weight_block b = ckci_k_find_weight_block(p, S, S);
        sums.finish(m, false, [&](int row, int column, T sum) {
            if (b.row + row < p.rows && b.column + column < p.columns) {
                ckci_k_write_weight<T>(p, sum, b.part, b.group, b.row + row, b.column + column);
            }
        });
    }
};

template <int KT> struct ckci_k_resident<ckci_k_weight<float, 128, KT, 256>> {
    enum { BLOCKS = 2 };
};

template <class T> struct ckci_k_is_float {
    enum { YES = 0 };
};
template <> struct ckci_k_is_float<float> {
    enum { YES = 1 };
};

/* A sum of a part. */
CKCI_K_FN float ckci_k_part(const ckci_gpu_conv &, const float *at)
{
    return *at;
}

CKCI_K_FN double ckci_k_part(const ckci_gpu_conv &, const double *at)
{
    return *at;
}

CKCI_K_FN int32_t ckci_k_part(const ckci_gpu_conv &p, const int32_t *at)
{
    return p.float_parts ? (int32_t)ckci_k_float((uint32_t)*at) : *at;
}

/* The block that has item `item`: blocks have part items of their own, the first `rest` one more. */
CKCI_K_FN int32_t ckci_k_share_block(const ckci_gpu_share &s, int32_t item)
{
    const int32_t more = s.rest * (s.part + 1);
    return item < more ? ckci_k_divide(item, s.by_more) : s.rest + ckci_k_divide(item - more, s.by_part);
}

/* One thread per weight adds the parts in their order and runs the epilogue once. o_vec: four weights, that
   are stored as they lie in the workspace; of 2^lanes threads for them each adds every 2^lanes-th part, and
   the first one adds their sums, in LDS, in their order. */
template <class T> struct ckci_k_reduce {
    struct lds {
        float sum[ckci_k_is_float<T>::YES ? 4 : 1][256];
    };

    /* Parts of weight e, as many as blocks had a share in its tile. */
    static CKCI_K_MEMBER int32_t parts(const ckci_gpu_conv &p, int64_t e)
    {
        if (p.share.steps == 0) {
            return p.split;
        }
        const int32_t filter = ckci_k_divide((int32_t)e, p.by_columns),
                      column = (int32_t)e - filter * p.columns;
        const int32_t group = ckci_k_divide(filter, p.by_tiles_m), k = filter - group * p.rows;
        const int32_t tile = (group * p.tiles_m + ckci_k_divide(k, p.share.by_rows)) * p.tiles_n +
                             ckci_k_divide(column, p.share.by_columns);
        const int32_t first = tile * p.share.steps;
        return ckci_k_share_block(p.share, first + p.share.steps - 1) - ckci_k_share_block(p.share, first) +
               1;
    }

    static CKCI_K_MEMBER void four(const ckci_gpu_conv &p, int64_t all, lds &m)
    {
        const int32_t log = p.lanes, wide = 256 >> log, t = (int32_t)threadIdx.x, first = t >> (8 - log);
        const int64_t e = 4 * ((int64_t)blockIdx.x * wide + (t & (wide - 1)));
        ckci_k_long_sums<float, 4> whole;
        whole.clear();
        float sum[4] = {0, 0, 0, 0};
        const unsigned char *part = p.o.partial + 4 * (first * all + e);
        const int64_t next = 4 * all << log;
        for (int32_t left = e < all ? parts(p, e) - first : 0; left > 0; left -= 4 << log) {
            ckci_k_uint4 v[4] = {};
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                if (i << log < left) {
                    v[i] = *(const ckci_k_uint4 *)(part + i * next);
                }
            }
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                if (i << log < left) {
                    sum[0] += ckci_k_float(v[i].x);
                    sum[1] += ckci_k_float(v[i].y);
                    sum[2] += ckci_k_float(v[i].z);
                    sum[3] += ckci_k_float(v[i].w);
                }
            }
            whole.settle(sum);
            part += 4 * next;
        }
        whole.finish(sum);
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            m.sum[i][t] = sum[i];
        }
        __syncthreads();
        if (first > 0 || e >= all) {
            return;
        }
        whole.clear();
        CKCI_K_UNROLL(1)
        for (int32_t at = t + wide; at < 256; at += wide) {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                sum[i] += m.sum[i][at];
            }
            whole.settle(sum);
        }
        whole.finish(sum);
        const ckci_k_uint4 bits = {ckci_k_bits(sum[0]), ckci_k_bits(sum[1]), ckci_k_bits(sum[2]),
                                   ckci_k_bits(sum[3])};
        ckci_k_store4(p.o.t.dtype, p.o.t.p + e * ckci_k_size(p.o.t.dtype), bits);
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        (void)m;
        int64_t all = (int64_t)p.g * p.rows * p.columns;
        int64_t e = (int64_t)blockIdx.x * 256 + threadIdx.x;
        if constexpr (ckci_k_is_float<T>::YES) {
            if (p.bias.sums && (int64_t)blockIdx.x >= p.bias_at) {
                const int32_t block = (int32_t)((int64_t)blockIdx.x - p.bias_at);
                ckci_k_bias_add<T>(p.bias, block, m.sum[0], [&](int32_t channel, int32_t at) {
                    const int32_t tile_n = at & (p.bias_turns - 1);
                    const int64_t first = (int64_t)tile_n * (int32_t)p.share.by_columns.d;
                    return p.share.steps == 0 ||
                           at - tile_n < parts(p, (int64_t)channel * p.columns + first) * p.bias_turns;
                });
                return;
            }
            if (p.o_vec) {
                four(p, all, m);
                return;
            }
        }
        if (e >= all) {
            return;
        }
        ckci_k_long_sums<T, 1> whole;
        whole.clear();
        T sum = 0;
        const T *part = (const T *)p.o.partial + e;
        CKCI_K_UNROLL(1)
        for (int32_t left = parts(p, e); left > 0;
             left -= 32) { /* loads in flight together, additions in order */
            T v[32];
            CKCI_K_UNROLL(32)
            for (int i = 0; i < 32; i++) {
                v[i] = i < left ? ckci_k_part(p, part + i * all) : (T)0;
            }
            CKCI_K_UNROLL(32)
            for (int i = 0; i < 32; i++) {
                sum = ckci_k_fma((T)1, v[i], sum);
            }
            whole.settle(&sum);
            part += 32 * all;
        }
        whole.finish(&sum);
        int32_t filter = ckci_k_divide((int32_t)e, p.by_columns), column = (int32_t)e - filter * p.columns;
        int32_t group = ckci_k_divide(filter, p.by_tiles_m), k = filter - group * p.rows;
        const ckci_k_tap tap = ckci_k_split_column(p, column);
        ckci_k_write<T>(p.o, sum, group, k, tap.c, tap.z, tap.y, tap.x);
    }
};
