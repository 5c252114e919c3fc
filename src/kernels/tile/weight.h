/*------------------------------------------------------------------------------------------------------------
  >>k-tile-weight
  bwd_weight in f32 on multiply-adds: rows are output channels, columns (tap, input channel), positions the
  reduction, a part of it for each block. Tiles come through LDS as they lie in memory; positions are decoded
  once for all threads. A block writes its part of the sums, and reduce adds the parts in fixed order.
*/
#pragma once
#include "kernels/vector/weight.h"
#include "kernels/tile/common.h"

/* ---- bwd_weight. In memory rows and columns are contiguous, as they are in LDS. A thread's columns stay the
   same, its positions advance: they are decoded PT at a time, each by one thread, into the table. V 1: each
   of a chunk's four rows and columns where it lies. */
template <class S, int V> struct ckci_k_tile_weight_loader {
    enum {
        PT = 128,
        QA = S::BM / 4,
        QB = S::BN / 4,
        PA = S::THREADS / QA, /* positions that the block fetches at a time */
        PB = S::THREADS / QB,
        A = (S::KT + PA - 1) / PA,
        B = (S::KT + PB - 1) / PB,
        PARTS = 4 / V
    };
    static_assert(PT % (2 * S::KT) == 0, "a chapter is two steps at least");
    const ckci_gpu_conv &p;
    ckci_k_tap_entry *table; /* two times PT positions */
    ckci_k_window wa, wb;
    int32_t from, to, start; /* start: the batch that offsets count from */
    int32_t a_at[PARTS], b_at[PARTS], tap[PARTS];
    uint32_t need[PARTS];
    float a_raw[A][4], b_raw[B][4];

    CKCI_K_MEMBER ckci_k_tile_weight_loader(const ckci_gpu_conv &conv, int32_t group, int32_t row0,
                                            int32_t column0, int32_t first, int32_t last,
                                            ckci_k_tap_entry *entries)
        : p(conv), table(entries), from(first), to(last)
    {
        int t = (int)threadIdx.x;
        start = position(from).n;
        wa = ckci_k_pinned_window(p.a.p + 4 * (group * p.a.stride[0] + start * p.a.stride[1]));
        wb = ckci_k_pinned_window(p.b.p + 4 * (group * p.b.stride[0] + start * p.b.stride[1]));
        CKCI_K_UNROLL(4)
        for (int i = 0; i < PARTS; i++) {
            int32_t row = row0 + t % QA * 4 + i, column = column0 + t % QB * 4 + i;
            a_at[i] = row < p.rows ? 4 * row * (int32_t)p.a.stride[2] : 0;
            column = column < p.columns ? column : 0;
            tap[i] = ckci_k_divide(column, p.by_red);
            int32_t rest = ckci_k_divide(tap[i], p.dim[2].taps[0]), z = ckci_k_divide(rest, p.dim[1].taps[0]),
                    y = rest - z * p.dim[1].filter, x = tap[i] - rest * p.dim[2].filter;
            const int64_t *s = p.b.stride;
            b_at[i] = 4 * (int32_t)((column - tap[i] * p.red) * s[2] + z * p.dim[0].dilation * s[3] +
                                    y * p.dim[1].dilation * s[4] + x * p.dim[2].dilation * s[5]);
            need[i] = 1u << x % 32 | 1u << (p.dim[2].filter + y) % 32 |
                      1u << (p.dim[2].filter + p.dim[1].filter + z) % 32;
        }
        prepare(0);
        __syncthreads();
    }

    CKCI_K_MEMBER ckci_k_place position(int32_t k) const
    {
        return ckci_k_decode(k, p.dim[0].count[0], p.dim[1].count[0], p.dim[2].count[0]);
    }

    CKCI_K_MEMBER void prepare(int32_t chapter)
    {
        const int64_t *a = p.a.stride, *b = p.b.stride;
        for (int32_t j = (int32_t)threadIdx.x; j < PT; j += S::THREADS) {
            int32_t k = from + chapter * PT + j;
            ckci_k_tap_entry e = {INT32_MIN, INT32_MIN, 0, 0};
            ckci_k_hole hole;
            hole.close(p.ranges);
            if (k < to) {
                ckci_k_place q = position(k);
                e.a = 4 * (int32_t)((q.n - start) * a[1] + q.z * a[3] + q.y * a[4] + q.x * a[5]);
                q.z = q.z * p.dim[0].stride - p.dim[0].pad;
                q.y = q.y * p.dim[1].stride - p.dim[1].pad;
                q.x = q.x * p.dim[2].stride - p.dim[2].pad;
                e.b = 4 * (int32_t)((q.n - start) * b[1] + q.z * b[3] + q.y * b[4] + q.x * b[5]);
                hole.open(p.ranges);
                hole.add_all(p.ranges, p.dim, q, p.dim[0].filter, p.dim[1].filter, p.dim[2].filter);
            }
            e.need = hole.word;
            table[chapter % 2 * PT + j] = e;
        }
    }

    CKCI_K_MEMBER int32_t b_offset(const ckci_k_tap_entry &e, int i) const
    {
        ckci_k_hole hole = {e.need};
        return ckci_k_add(b_at[i], e.b, 0) | hole.bad(p.ranges, tap[i], need[i]);
    }

    /* A chapter is decoded before the steps of the one ahead of it: its half of the table was read to the end
       before the last barrier, and another barrier follows before it is read. */
    CKCI_K_MEMBER int32_t renew(int32_t s, int32_t steps)
    {
        int32_t chapter = s * S::KT / PT + 1, stop = chapter * (PT / S::KT);
        if (stop < steps) {
            prepare(chapter);
        }
        return stop < steps ? stop : steps;
    }

    CKCI_K_MEMBER void fetch(int32_t step)
    {
        const ckci_k_tap_entry *entries = table + step * S::KT % (2 * PT);
        int t = (int)threadIdx.x;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < A; i++) {
            int place = t / QA + i * PA;
            ckci_k_tap_entry e = entries[S::KT % PA != 0 && place >= S::KT ? 0 : place];
            load(a_raw[i], wa, [&](int j) { return ckci_k_add(a_at[j], e.a, 0); });
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < B; i++) {
            int place = t / QB + i * PB;
            ckci_k_tap_entry e = entries[S::KT % PB != 0 && place >= S::KT ? 0 : place];
            load(b_raw[i], wb, [&](int j) { return b_offset(e, j); });
        }
    }

    template <class F> CKCI_K_MEMBER void load(float *raw, const ckci_k_window &w, const F &offset) const
    {
        if constexpr (V == 4) {
            ckci_k_quad q = ckci_k_window_quad(w, offset(0));
            CKCI_K_UNROLL(4)
            for (int j = 0; j < 4; j++) {
                raw[j] = q.v[j];
            }
        } else {
            CKCI_K_UNROLL(4)
            for (int j = 0; j < 4; j++) {
                raw[j] = ckci_k_window_word(w, offset(j));
            }
        }
    }

    template <class L> CKCI_K_MEMBER void put(L &m, int buffer) const
    {
        int t = (int)threadIdx.x;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < A; i++) {
            ckci_k_quad q = {{a_raw[i][0], a_raw[i][1], a_raw[i][2], a_raw[i][3]}};
            if ((S::KT % PA == 0 || t / QA + i * PA < S::KT) && ((int)S::THREADS % QA == 0 || t < PA * QA)) {
                *(ckci_k_quad *)&m.a[buffer][t / QA + i * PA][t % QA * 4] = q;
            }
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < B; i++) {
            ckci_k_quad q = {{b_raw[i][0], b_raw[i][1], b_raw[i][2], b_raw[i][3]}};
            if ((S::KT % PB == 0 || t / QB + i * PB < S::KT) && ((int)S::THREADS % QB == 0 || t < PB * QB)) {
                *(ckci_k_quad *)&m.b[buffer][t / QB + i * PB][t % QB * 4] = q;
            }
        }
    }
};

template <class S, int V> struct ckci_k_tile_weight {
    typedef ckci_k_tile_lds<S, 2 * 128> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        ckci_k_tile_sums<S> sums;
        sums.clear();
        /* the block's place is computed again where it is needed: it need not live through the loop */
        int32_t left = ckci_k_find_weight_block(p, S::BM, S::BN).positions();
        CKCI_K_UNROLL(1)
        while (left > 0) {
            const int32_t before = left;
            {
                const ckci_k_weight_block b = ckci_k_find_weight_block(p, S::BM, S::BN);
                left = ckci_k_after_stretch(p, before, S::SLICES);
                ckci_k_tile_weight_loader<S, V> loader(p, b.group, b.row, b.column, b.to - before,
                                                       b.to - left, m.table);
                sums.run(m, loader, ckci_k_again((before - left + S::KT - 1) / S::KT));
            }
            const ckci_k_weight_block b = ckci_k_find_weight_block(p, S::BM, S::BN);
            const bool fresh = b.positions() - left <= CKCI_K_KEPT_STRETCH * S::SLICES;
            if (!fresh || left > 0) {
                sums.settle(m, p, b, fresh, left == 0);
            }
        }
        const ckci_k_weight_block b = ckci_k_find_weight_block(p, S::BM, S::BN);
        /* o_vec: dw is dense in the order of the sums */
        unsigned char *out = p.o.partial ? p.o.partial : p.o.t.p;
        sums.finish(
            m, p.o_vec != 0, false, out, p.columns - b.column, p.o, false, 0,
            [&](int row) {
                int64_t filter = ((int64_t)b.part * p.g + b.group) * p.rows + b.row + row;
                return b.row + row < p.rows ? 4 * (filter * p.columns + b.column) : (int64_t)-1;
            },
            [&](int row, int column, float sum) {
                if (b.row + row < p.rows && b.column + column < p.columns) {
                    ckci_k_write_weight<float>(p, sum, b.part, b.group, b.row + row, b.column + column);
                }
            });
    }
};

/* Long sums take registers at their ends only. */
template <> struct ckci_k_resident<ckci_k_tile_weight<ckci_k_shape<16, 48, 8, 4, 64, 8>, 4>> {
    enum { BLOCKS = 4 };
};
template <> struct ckci_k_resident<ckci_k_tile_weight<ckci_k_shape<8, 72, 8, 4, 32, 8>, 4>> {
    enum { BLOCKS = 4 };
};
template <> struct ckci_k_resident<ckci_k_tile_weight<ckci_k_shape<4, 36, 4, 4, 64, 16>, 4>> {
    enum { BLOCKS = 6 };
};
