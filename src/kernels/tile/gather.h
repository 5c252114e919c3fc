/*------------------------------------------------------------------------------------------------------------
  >>k-tile-gather
  fwd and bwd_data in f32 on multiply-adds: implicit GEMM with tiles through LDS (>>k-tile-common), tensors
  read as they are, in chunks of four numbers or (V 1) one by one. A block owns a tile of outputs of one group
  and phase; a sum is added in the order of the reduction. Weights are read as they lie, whichever dimension
  is dense. Where tiles are few, blocks have parts of a tile's steps and write sums as they are, for a launch
  behind (gpu/sums.h).
*/
#pragma once
#include "kernels/tile/common.h"

/* ---- fwd and bwd_data. V 4: chunks of the tensor that is read are four channels of one tap; V 1: four
   places of the reduction, each where it lies. Weights come in chunks of four places of the reduction
   (b_mode 0), of four columns (1), or, with V 1 only, one by one (2). */
template <class S, int V> struct ckci_k_tile_gather_loader {
    enum {
        CHUNKS = S::KT / 4,
        ROWS = S::THREADS / CHUNKS,
        A = S::BM / ROWS,
        QUADS = S::BN / 4,
        ALL = S::KT * QUADS, /* chunks of b */
        B = (ALL + (int)S::THREADS - 1) / (int)S::THREADS,
        LONG = 20 /* a step reaches KT taps at most */
    };
    static_assert(S::BM % ROWS == 0 && (B == 1 || ALL % (int)S::THREADS == 0), "whole passes");
    const ckci_gpu_conv &p;
    ckci_k_axis axis[3]; /* copies: what a pointer in this struct leads to would lie in scratch */
    const ckci_k_tap_entry *taps;
    ckci_k_window wa, wb;
    int32_t row0, count, tap, at, end, step; /* of a: bytes past the tap's first channel, channels, one */
    int32_t b_tap[B], b_c[B], b_at[B], b_step;
    int32_t a_at[A], window; /* of taps in the masks, where all do not fit */
    uint32_t mask[A];
    float raw[A][4], b_raw[B][4];

    CKCI_K_MEMBER ckci_k_tile_gather_loader(const ckci_gpu_conv &conv, const ckci_k_block &b,
                                            ckci_k_tap_entry *table)
        : p(conv), axis{b.axis[0], b.axis[1], b.axis[2]}, taps(table), row0(b.row)
    {
        const int64_t *s = p.a.stride;
        int t = (int)threadIdx.x;
        count = axis[0].taps * axis[1].taps * axis[2].taps;
        const int32_t tap0 = ckci_k_trim(p, b.row, S::BM, count);
        ckci_k_fill_taps(p, axis, tap0, count, table, S::THREADS);
        ckci_k_place start = ckci_k_row(axis, b.row);
        wa = ckci_k_pinned_window(p.a.p + 4 * (b.group * s[0] + start.n * s[1]));
        wb = ckci_k_pinned_window(p.b.p + 4 * (b.group * p.b.stride[0] + b.column * p.b_column));
        step = V == 4 ? 4 : 4 * (int32_t)s[2];
        end = p.red * step;
        tap = 0;
        at = t % CHUNKS * 4 * step;
        wrap(tap, at, end);
        window = 0;
        CKCI_K_UNROLL(16)
        for (int i = 0; i < A; i++) {
            ckci_k_place q = ckci_k_first_tap(p, axis, row0 + t / CHUNKS + i * ROWS);
            a_at[i] = 4 * (int32_t)((q.n - start.n) * s[1] + q.z * s[3] + q.y * s[4] + q.x * s[5]);
            mask[i] = ckci_k_pad_mask(p, axis, q, 0);
        }
        b_step = 4 * (int32_t)p.b_red;
        CKCI_K_UNROLL(16)
        for (int i = 0; i < B; i++) {
            int32_t column = p.b_mode == 1 ? t % QUADS * 4 : t / CHUNKS + i * ROWS;
            b_at[i] = b.column + column < p.columns ? 4 * column * (int32_t)p.b_column : 0;
            if (ALL < (int)S::THREADS && t >= ALL) {
                b_at[i] = INT32_MIN; /* nothing to fetch */
            }
            b_tap[i] = 0;
            b_c[i] = place(i);
            wrap(b_tap[i], b_c[i], p.red);
        }
    }

    /* Begins at step `first`; padding is a mask. */
    CKCI_K_MEMBER void skip(int32_t first)
    {
        const int32_t from = first * S::KT, place_a = from + (int32_t)threadIdx.x % CHUNKS * 4;
        tap = ckci_k_divide(place_a, p.by_red);
        at = (place_a - tap * p.red) * step;
        CKCI_K_UNROLL(16)
        for (int i = 0; i < B; i++) {
            b_tap[i] = ckci_k_divide(from + place(i), p.by_red);
            b_c[i] = from + place(i) - b_tap[i] * p.red;
        }
        if constexpr (V != 4) {
            tap = tap < count ? tap : count;
            CKCI_K_UNROLL(16)
            for (int i = 0; i < B; i++) {
                b_tap[i] = b_tap[i] < count ? b_tap[i] : count;
            }
        }
    }

    /* First place of the reduction in chunk i of b. */
    CKCI_K_MEMBER int32_t place(int i) const
    {
        int32_t t = (int32_t)threadIdx.x;
        return p.b_mode == 1 ? (t / QUADS + i * (S::THREADS / QUADS)) % S::KT : t % CHUNKS * 4;
    }

    /* V 4: the channels of a tap are a step at least, so that one test will do, and no place is past the tap
       that follows the last one. */
    CKCI_K_MEMBER void wrap(int32_t &t, int32_t &place, int32_t past) const
    {
        if constexpr (V == 4) {
            bool over = place >= past;
            place -= over ? past : 0;
            t += over ? 1 : 0;
        } else {
            while (place >= past) {
                place -= past;
                t++;
            }
            t = t < count ? t : count;
        }
    }

    CKCI_K_MEMBER int32_t a_offset(int i, const ckci_k_tap_entry &e, int32_t place) const
    {
        return ckci_k_add(a_at[i], e.a, place) | (int32_t)(0u - (mask[i] & e.need));
    }

    /* Masks for the next window of taps. */
    CKCI_K_MEMBER int32_t renew(int32_t s, int32_t steps)
    {
        if (!p.ranges) {
            return steps;
        }
        if (s > 1) {
            window++;
            int32_t row = ckci_k_again(row0);
            CKCI_K_UNROLL(16)
            for (int i = 0; i < A; i++) {
                ckci_k_place q = ckci_k_first_tap(p, axis, row + (int32_t)threadIdx.x / CHUNKS + i * ROWS);
                mask[i] = ckci_k_pad_mask(p, axis, q, window * LONG);
            }
        }
        int32_t stop = ((window + 1) * LONG * p.red + S::KT - 1) / S::KT;
        return stop < steps ? stop : steps;
    }

    CKCI_K_MEMBER void fetch(int32_t)
    {
        if constexpr (V == 4) {
            ckci_k_tap_entry e = taps[tap];
            CKCI_K_UNROLL(16)
            for (int i = 0; i < A; i++) {
                ckci_k_quad q = ckci_k_window_quad(wa, ckci_k_add(a_at[i], e.a, at), mask[i] & e.need);
                CKCI_K_UNROLL(16)
                for (int j = 0; j < 4; j++) {
                    raw[i][j] = q.v[j];
                }
            }
        } else {
            int32_t t = tap, place = at;
            CKCI_K_UNROLL(16)
            for (int j = 0; j < 4; j++) {
                ckci_k_tap_entry e = taps[t];
                CKCI_K_UNROLL(16)
                for (int i = 0; i < A; i++) {
                    raw[i][j] = ckci_k_window_word(wa, a_offset(i, e, place));
                }
                place += step;
                wrap(t, place, end);
            }
        }
        at += S::KT * step;
        wrap(tap, at, end);
        CKCI_K_UNROLL(16)
        for (int i = 0; i < B; i++) {
            if (V == 4 || p.b_mode < 2) {
                ckci_k_quad q =
                    ckci_k_window_quad(wb, ckci_k_add(b_at[i], taps[b_tap[i]].b, b_c[i] * b_step));
                CKCI_K_UNROLL(16)
                for (int j = 0; j < 4; j++) {
                    b_raw[i][j] = q.v[j];
                }
            } else {
                int32_t t = b_tap[i], c = b_c[i];
                CKCI_K_UNROLL(16)
                for (int j = 0; j < 4; j++) {
                    b_raw[i][j] = ckci_k_window_word(wb, ckci_k_add(b_at[i], taps[t].b, c * b_step));
                    c++;
                    wrap(t, c, p.red);
                }
            }
            b_c[i] += S::KT;
            wrap(b_tap[i], b_c[i], p.red);
        }
    }

    template <class L> CKCI_K_MEMBER void put(L &m, int buffer) const
    {
        int t = (int)threadIdx.x, k = t % CHUNKS * 4;
        CKCI_K_UNROLL(16)
        for (int i = 0; i < A; i++) {
            float *row = &m.a[buffer][k][t / CHUNKS + i * ROWS];
            CKCI_K_UNROLL(16)
            for (int j = 0; j < 4; j++) {
                row[j * S::LA] = raw[i][j];
            }
        }
        if (ALL < (int)S::THREADS && t >= ALL) {
            return;
        }
        CKCI_K_UNROLL(16)
        for (int i = 0; i < B; i++) {
            if (p.b_mode == 1) {
                ckci_k_quad q = {{b_raw[i][0], b_raw[i][1], b_raw[i][2], b_raw[i][3]}};
                *(ckci_k_quad *)&m.b[buffer][place(i)][t % QUADS * 4] = q;
            } else {
                float *column = &m.b[buffer][k][t / CHUNKS + i * ROWS];
                CKCI_K_UNROLL(16)
                for (int j = 0; j < 4; j++) {
                    column[j * S::LB] = b_raw[i][j];
                }
            }
        }
    }
};

template <class S, int V> struct ckci_k_tile_gather {
    typedef ckci_k_tile_lds<S, CKCI_K_TAPS + 1> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &conv, lds &m)
    {
        ckci_k_tile_sums<S> sums;
        {
            const ckci_gpu_conv &p = conv;
            int32_t part, first;
            const int32_t tile = ckci_k_tile_of(p, (int32_t)blockIdx.x, part);
            ckci_k_block b = ckci_k_block_of(p, tile, S::BM, S::BN);
            int64_t rows = (int64_t)p.n * b.axis[0].count * b.axis[1].count * b.axis[2].count;
            if (b.row >= rows) {
                return; /* a phase with fewer positions than the first one; the whole block */
            }
            ckci_k_tile_gather_loader<S, V> loader(p, b, m.table);
            sums.clear();
            int32_t steps = (loader.count * p.red + S::KT - 1) / S::KT;
            ckci_k_part_steps(p, part, first, steps);
            if (first > 0) {
                loader.skip(first);
            }
            sums.run(m, loader, ckci_k_again(steps));
        }
        const ckci_gpu_conv &p = ckci_k_late(conv);
        int32_t part;
        const int32_t tile = ckci_k_tile_of(p, (int32_t)blockIdx.x, part);
        ckci_k_block b = ckci_k_block_of(p, tile, S::BM, S::BN);
        const int64_t *s = p.o.t.stride;
        unsigned char *out = p.o.t.p + part * p.part_step + 4 * (b.group * s[0] + b.column);
        sums.finish(
            m, p.o_vec != 0, s[5] < s[2], out, p.columns - b.column, p.o, p.o.form == CKCI_FORM_LINEAR,
            (int64_t)b.group * p.columns + b.column,
            [&](int row) {
                ckci_k_place q = ckci_k_row(b.axis, b.row + row);
                return q.n < p.n ? 4 * (q.n * s[1] + (b.axis[0].write0 + q.z * p.dim[0].write_step) * s[3] +
                                        (b.axis[1].write0 + q.y * p.dim[1].write_step) * s[4] +
                                        (b.axis[2].write0 + q.x * p.dim[2].write_step) * s[5])
                                 : (int64_t)-1;
            },
            [&](int row, int column, float sum) {
                ckci_k_place q = ckci_k_row(b.axis, b.row + row);
                if (q.n < p.n && b.column + column < p.columns) {
                    ckci_k_write<float>(p.o, sum, b.group, q.n, b.column + column,
                                        b.axis[0].write0 + q.z * p.dim[0].write_step,
                                        b.axis[1].write0 + q.y * p.dim[1].write_step,
                                        b.axis[2].write0 + q.x * p.dim[2].write_step);
                }
            });
    }
};
