/*------------------------------------------------------------------------------------------------------------
  >>k-pair-point
  A pointwise first convolution of a pair, and what pairs on matrix units share: mid in LDS, where results go.
  Both convolutions are products on the unit; inputs lie in the last slabs of mid, which the last results
  overwrite. A block owns P positions in all channels. mid goes to memory, too, where the caller wants it,
  written by its block alone.
*/
#pragma once
#include "kernels/store.h"
#include "kernels/depth/common.h"
#include "kernels/pair/product.h"

CKCI_K_FN int64_t ckci_k_pair_at(const ckci_tensor &t, const ckci_k_place &q)
{
    return q.n * t.stride[1] + q.z * t.stride[3] + q.y * t.stride[4] + q.x * t.stride[5];
}

/* The position of mid that one of the result reads; does it exist, or is it padding? */
CKCI_K_FN bool ckci_k_pair_read(const ckci_gpu_dim *d, const ckci_k_place &out, ckci_k_place *mid)
{
    mid->n = out.n;
    mid->z = out.z * d[0].read_step - d[0].pad;
    mid->y = out.y * d[1].read_step - d[1].pad;
    mid->x = out.x * d[2].read_step - d[2].pad;
    return (uint32_t)mid->z < (uint32_t)d[0].read_len && (uint32_t)mid->y < (uint32_t)d[1].read_len &&
           (uint32_t)mid->x < (uint32_t)d[2].read_len;
}

/* Are results written by lines? */
CKCI_K_FN bool ckci_k_pair_lines(const ckci_gpu_conv &p)
{
    return p.o_vec && p.o.form != CKCI_FORM_SINGLE;
}

/* mid in LDS. */
template <class E, int KB, int P> struct ckci_k_pair_mid {
    enum { SLAB = KB / 2 };

    static CKCI_K_MEMBER unsigned char *spot(unsigned char *mid, int32_t row, int32_t channel)
    {
        return mid + channel / SLAB * (P * KB) + ckci_k_spot<KB>(row, channel % SLAB * CKCI_K_HALF / 16) +
               channel % 8 * CKCI_K_HALF;
    }

    /* i rows, up to 3, down from one that is a multiple of 4, which lies at byte `at`. */
    static CKCI_K_MEMBER int32_t down(int32_t at, int i)
    {
        return KB == 128 ? (at ^ i * 16) + i * KB : (at ^ (i / 2 * 16 + i % 2 * 64)) + i / 2 * 2 * KB;
    }

    /* Channels of a position of it, into memory. */
    static CKCI_K_MEMBER void copy_out(const ckci_gpu_pair &a, const ckci_k_uint4 &v, const ckci_k_place &q,
                                       int32_t channel)
    {
        const ckci_tensor &t = a.first.o.t;
        if (a.mid_vec) {
            const int64_t at = ckci_k_pair_at(t, q) + channel;
            *(ckci_k_uint4 *)(t.p + at * CKCI_K_HALF) = v;
            return;
        }
        const uint32_t w[4] = {v.x, v.y, v.z, v.w};
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 8; i++) {
            const int32_t g = ckci_k_divide(channel + i, a.first.by_columns);
            const uint32_t two = ckci_k_pick<uint32_t, 4>(w, i / 2);
            ckci_k_put_apart<float>(a.first.o, ckci_k_widen(E::TYPE, (uint16_t)(two >> i % 2 * 16)), g, q.n,
                                    channel + i - g * a.first.columns, q.z, q.y, q.x);
        }
    }

    static CKCI_K_MEMBER ckci_k_uint2 round(const float *v)
    {
        ckci_k_uint2 r;
        r.x = ckci_k_two(E::TYPE, ckci_k_bits(v[0]), ckci_k_bits(v[1]));
        r.y = ckci_k_two(E::TYPE, ckci_k_bits(v[2]), ckci_k_bits(v[3]));
        return r;
    }
};

CKCI_K_FN unsigned char *ckci_k_pair_to(const ckci_tensor &t, const ckci_k_place &q, int32_t column)
{
    return t.p + (ckci_k_pair_at(t, q) + column) * (int64_t)ckci_k_size(t.dtype);
}

/* Where sums of the second convolution go: eight columns from column0 + column on of row `row`. rows: where
   each lies behind `to`, in numbers, and its coordinates, which exist if none reaches a guard (see
   ckci_k_pair_fields). find(row): the position itself, for an epilogue. packed: they are E without one, one
   store. */
template <class E, class Find> struct ckci_k_pair_out {
    const ckci_gpu_conv &p;
    const ckci_k_uint2 *rows;
    unsigned char *to;
    uint32_t highest;
    int32_t column0, columns;
    bool lines, packed;
    const Find &find;

    CKCI_K_MEMBER ckci_k_pair_out(const ckci_gpu_conv &conv, const ckci_k_uint2 *table, unsigned char *first,
                                  uint32_t high, int32_t column, const Find &position)
        : p(conv), rows(table), to(first), highest(high), column0(column), find(position)
    {
        columns = ckci_k_lane_afresh(p.columns);
        lines = ckci_k_pair_lines(p);
        packed = lines && p.o.form == CKCI_FORM_STORE && (int)p.o.t.dtype == (int)E::TYPE;
    }

    CKCI_K_MEMBER void operator()(int32_t row, int32_t column, float *v) const
    {
        const ckci_k_uint2 at = rows[row];
        if (!ckci_k_pair_fields::below(at.y, highest) || column + column0 >= columns) {
            return;
        }
        if (lines) {
            const ckci_gpu_conv &q = ckci_k_late_again(p);
            ckci_k_write_line(q.o, v, to + ((int64_t)(int32_t)at.x + column) * ckci_k_size(q.o.t.dtype),
                              column + column0);
        } else {
            const ckci_k_place o = find(row);
            ckci_k_write8(ckci_k_late(p), v, 8, 0, o.n, column + column0, columns, o.z, o.y, o.x);
        }
    }

    /* A thread's eight columns, packed. */
    struct place {
        unsigned char *to;
        const ckci_k_uint2 *rows;
        uint32_t highest;

        CKCI_K_MEMBER place(const ckci_k_pair_out &o, int32_t column)
            : to(o.to + column * CKCI_K_HALF), rows(o.rows),
              highest(o.column0 + column < o.p.columns ? o.highest : ckci_k_pair_fields::NOTHING)
        {
        }

        CKCI_K_MEMBER bool find(uint32_t row, unsigned char **to_row) const
        {
            const ckci_k_uint2 at = rows[row];
            *to_row = to + (int64_t)(int32_t)at.x * CKCI_K_HALF;
            return ckci_k_pair_fields::below(at.y, highest);
        }
    };
};

/* A pointwise first convolution: positions one after the other, P to a block. Its inputs lie in the last
   slabs of mid, and tiles of 128 channels are multiplied, finished, rounded and stored into their slabs; the
   last of them overwrite the inputs. Where weights come through registers (AMD), everything but mid shares
   one place. */
template <class E, class U, int P, int C> struct ckci_k_pair_tiles {
    typedef ckci_k_pair_product<E, U, P, 256, 128> product;
    typedef ckci_k_pair_mid<E, U::KB, P> middle;
    enum { KB = U::KB, SLAB = KB / 2, CHUNKS = KB / 16, EACH = 256 / CHUNKS, R = P / EACH };
    static_assert(P % EACH == 0, "the block loads whole rows");
    struct lds {
        alignas(1024) unsigned char mid[P * C * 2];
        unsigned char tiles[U::ASYNC ? 2 * product::TILE + product::ROOM : product::ROOM];
        int64_t output[P];
    };

    static CKCI_K_MEMBER float *room(lds &m)
    {
        return (float *)(m.tiles + (U::ASYNC ? 2 * product::TILE : 0));
    }

    /* Position `row` in the result and in mid; false: the second convolution's padding, or none. */
    static CKCI_K_MEMBER bool find(const ckci_gpu_pair &a, int32_t row, ckci_k_place *out, ckci_k_place *mid)
    {
        const ckci_gpu_conv &p = a.second;
        const int32_t line = ckci_k_divide(row, p.dim[2].count[0]),
                      plane = ckci_k_divide(line, p.dim[1].count[0]);
        out->n = ckci_k_divide(plane, p.dim[0].count[0]);
        out->z = plane - out->n * p.dim[0].length;
        out->y = line - plane * p.dim[1].length;
        out->x = row - line * p.dim[2].length;
        const bool exists = ckci_k_pair_read(p.dim, *out, mid);
        return exists && out->n < p.n;
    }

    static CKCI_K_MEMBER int32_t first_row(const ckci_gpu_pair &a)
    {
        return ckci_k_afresh(ckci_k_divide((int32_t)blockIdx.x, a.second.by_tiles_n)) * P;
    }

    static CKCI_K_MEMBER int32_t first_column(const ckci_gpu_pair &a)
    {
        int32_t work = (int32_t)blockIdx.x;
        return (work - ckci_k_divide(work, a.second.by_tiles_n) * a.second.tiles_n) * a.second.part;
    }

    /* The inputs into the slabs from `slab` on. */
    static CKCI_K_MEMBER void read(const ckci_gpu_pair &a, const ckci_k_window &in, int32_t n0, int32_t slab,
                                   lds &m)
    {
        const ckci_gpu_conv &p = a.first;
        const int64_t *s = p.a.stride;
        const int32_t chunk = (int32_t)threadIdx.x % CHUNKS, lane = (int32_t)threadIdx.x / CHUNKS;
        CKCI_K_UNROLL(1)
        for (int r = 0; r < R; r++) {
            ckci_k_place out, q;
            const bool inside = find(a, first_row(a) + lane + r * EACH, &out, &q);
            const int32_t z = q.z * p.dim[0].read_step - p.dim[0].pad,
                          y = q.y * p.dim[1].read_step - p.dim[1].pad,
                          x = q.x * p.dim[2].read_step - p.dim[2].pad;
            const bool good = inside && (uint32_t)z < (uint32_t)p.dim[0].read_len &&
                              (uint32_t)y < (uint32_t)p.dim[1].read_len &&
                              (uint32_t)x < (uint32_t)p.dim[2].read_len;
            const int32_t at = CKCI_K_HALF * (int32_t)((q.n - n0) * s[1] + z * s[3] + y * s[4] + x * s[5]);
            for (int32_t c = chunk * 8; c < (p.red + SLAB - 1) / SLAB * SLAB; c += SLAB) {
                *(ckci_k_uint4 *)(m.mid + (slab + c / SLAB) * (P * KB) +
                                  ckci_k_spot<KB>(lane + r * EACH, chunk)) =
                    ckci_k_window_load(in, good && c < p.red ? at + c * CKCI_K_HALF : INT32_MIN);
            }
        }
    }

    /* A tile's sums are finished, rounded and kept. */
    static CKCI_K_MEMBER void keep_sums(const ckci_gpu_pair &pair, lds &m, int32_t row, int32_t channel,
                                        float *v)
    {
        const ckci_gpu_pair &a = ckci_k_late(pair);
        const ckci_gpu_target &o = a.first.o;
        ckci_k_place out, q;
        ckci_k_uint2 low = {0, 0}, high = {0, 0};
        if (channel >= (a.second.red + SLAB - 1) / SLAB * SLAB) {
            return;
        }
        const bool good = channel < a.second.red && find(a, first_row(a) + row, &out, &q);
        if (good) {
            if (o.t.op.kind != CKCONV_PASS || o.scale || o.shift) {
                CKCI_K_UNROLL(1)
                for (int i = 0; i < 8; i++) {
                    v[i] = ckci_k_finish<float>(o, v[i], 0, 0, channel + i, 0, 0, 0);
                }
            }
            low = middle::round(v);
            high = middle::round(v + 4);
        }
        const ckci_k_uint4 all = {low.x, low.y, high.x, high.y};
        *(ckci_k_uint4 *)middle::spot(m.mid, row, channel) = all;
        if (good && a.write_mid && first_column(a) == 0) {
            middle::copy_out(ckci_k_late_again(a), all, q, channel);
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_pair &pair, lds &m)
    {
        product f;
        const auto nothing = []() {};
        {
            const ckci_gpu_pair &a = pair;
            ckci_k_place start, q;
            find(a, first_row(a), &start, &q);
            const ckci_k_window in =
                ckci_k_make_window(a.first.a.p + CKCI_K_HALF * (start.n * a.first.a.stride[1]));
            int32_t slab0 = (a.second.red + 127) / 128 * (128 / SLAB) - (a.first.red + SLAB - 1) / SLAB;
            f.begin(a.first, 0, a.first.columns);
            f.fetch_first(m.tiles);
            read(a, in, start.n, slab0, m);
            f.run(
                m.mid + slab0 * (P * KB), m.tiles, room(m), false,
                [&](int row, int column, float *v) { keep_sums(a, m, row, column, v); }, nothing);
            __syncthreads();
            int32_t column = first_column(a), count = a.second.columns - column;
            f.begin(a.second, column, count < a.second.part ? count : a.second.part);
            f.fetch_first(m.tiles);
        }
        const ckci_gpu_pair &a = ckci_k_late(pair);
        const ckci_gpu_conv &p = a.second;
        const int32_t row0 = first_row(a), column0 = first_column(a);
        const bool lines = ckci_k_pair_lines(p);
        const int32_t size = ckci_k_size(p.o.t.dtype);
        ckci_k_place q, unused;
        if ((int32_t)threadIdx.x < P) {
            find(a, row0 + (int32_t)threadIdx.x, &q, &unused);
            m.output[threadIdx.x] = q.n < p.n ? ckci_k_pair_at(p.o.t, q) : -1;
        }
        f.run(
            m.mid, m.tiles, room(m), false,
            [&](int row, int column, float *v) {
                const int64_t at = m.output[row];
                column += column0;
                if (at < 0 || column >= p.columns) {
                    return;
                }
                if (lines) {
                    ckci_k_write_line(p.o, v, p.o.t.p + (at + column) * size, column);
                } else {
                    ckci_k_place o, mid;
                    find(a, row0 + row, &o, &mid);
                    ckci_k_write8(p, v, 8, 0, o.n, column, p.columns, o.z, o.y, o.x);
                }
            },
            nothing);
    }
};
