/*------------------------------------------------------------------------------------------------------------
  >>k-depth-matrix-weight
  bwd_weight of what >>k-depth-matrix computes: rows of dout are the bands, weights the outputs. A block adds
  up all its tiles, so that it owns one part of the sums of its channels; depth_sum adds the parts. Also the
  kernels of all three passes with the unit of the target.
*/
#pragma once
#include "kernels/depth/weight.h"
#include "kernels/depth/matrix.h"

/* bwd_weight. MX: 16 columns of the filter, G: 16 rows, SLOTS: channels of a wave. Channels last, AMD: a
   block has twice as many (p.halves), which share lines of memory, and takes them one after the other tile by
   tile; their sums take turns, so that the code stands once. */
template <class U, int MX, int G> struct ckci_k_depth_matrix_weight_unit {
    typedef ckci_k_depth_matrix_lds lds;
    enum { WAVE = U::WAVE, WAVES = 256 / WAVE, SLOTS = (MX == 2 ? 8 : 16) / WAVES };
    enum { GAP = ckci_k_band<U>::GAP, AMD = GAP != 0, HALVES = AMD && MX == 1 ? 2 : 1 };
    typedef ckci_k_depth_bands<U, MX, G> bands;

    static CKCI_K_MEMBER ckci_k_depth_block half(const ckci_gpu_depth &p, const ckci_k_depth_block &all,
                                                 int h)
    {
        ckci_k_depth_block b = all;
        b.channel += h * p.box.channels;
        b.channels -= h * p.box.channels;
        b.channels = b.channels < p.box.channels ? b.channels : p.box.channels;
        return b;
    }

    static CKCI_K_MEMBER void turn(const ckci_gpu_depth &p, bands *sums)
    {
        if (p.halves > 1) {
            CKCI_K_UNROLL(4)
            for (int s = 0; s < (int)SLOTS; s++) {
                const bands other = sums[s];
                sums[s] = sums[SLOTS + s];
                sums[SLOTS + s] = other;
            }
        }
    }

    template <class E>
    static CKCI_K_MEMBER void multiply(const ckci_gpu_depth &p, int32_t channels, lds &m, bands *sums,
                                       int32_t len_y, int32_t above, int32_t rows)
    {
        CKCI_K_UNROLL(4)
        for (int s = 0; s < (int)SLOTS; s++) {
            int32_t c = (int32_t)threadIdx.x / WAVE + s * WAVES;
            if (c < channels) {
                const ckci_gpu_depth &own = AMD ? ckci_k_late_again(p) : p;
                const ckci_gpu_depth_box &x = own.box;
                sums[s].template run<E>(x, m.bytes, ckci_k_depth_plane(x, x.b, c),
                                        ckci_k_depth_plane(x, x.t, c), len_y, above, rows,
                                        x.fold ? 16 : own.dim[1].filter, x.fold ? 16 : own.dim[2].filter);
            }
        }
    }

    /* Tile i. Inputs and dout come one after the other, so that the code stands once. */
    static CKCI_K_MEMBER void tile(const ckci_gpu_depth &p, const ckci_gpu_depth_box &x,
                                   const ckci_k_depth_block &all, lds &m, bands *sums, int32_t i)
    {
        CKCI_K_UNROLL(1)
        for (int douts = 0; douts < 2; douts++) { /* scalar registers do not hold all of it all along */
            const ckci_k_depth_tile t(p, ckci_k_afresh(i));
            const ckci_k_depth_block c = AMD ? all.scalar() : all;
            const ckci_k_depth_stretch stretch = {c.channel,
                                                  c.channels,
                                                  t.q.n,
                                                  t.q.z,
                                                  douts ? t.q.y : t.y,
                                                  douts ? t.len_y : t.rows,
                                                  t.q.x - (douts ? x.lead : x.back),
                                                  douts ? p.dim[2].length : p.dim[2].read_len};
            ckci_k_depth_fill<WAVE, GAP>(x, douts ? x.t : x.b, douts ? p.a : p.b, stretch, m.bytes, 0);
        }
        ckci_k_copies_end();
        ckci_k_copies_wait<0>();
        __syncthreads();
        const ckci_gpu_depth &v = AMD ? ckci_k_late_again(p) : p;
        const ckci_k_depth_tile t(v, ckci_k_afresh(i));
        const int32_t channels = AMD ? ckci_k_same(all.channels) : all.channels;
        if (CKCI_K_BF16(v.bf16)) {
            multiply<ckci_k_bf16>(v, channels, m, sums, t.len_y, t.at, t.rows);
        } else {
            multiply<ckci_k_f16>(v, channels, m, sums, t.len_y, t.at, t.rows);
        }
        __syncthreads();
    }

    static CKCI_K_MEMBER void tiles(const ckci_gpu_depth &args, ckci_k_depth_block &b, lds &m, bands *sums)
    {
        const ckci_gpu_depth_box &box = args.box;
        if constexpr (HALVES > 1) {
            b.from *= args.halves;
            b.to *= args.halves;
        }
        if constexpr (AMD) { /* scalar registers hold no more */
            b.hold();
            b.part = ckci_k_lane_afresh(b.part);
        }
        CKCI_K_UNROLL(1)
        for (int32_t i = b.from; i < (AMD ? ckci_k_same(b.to) : b.to); i++) {
            const ckci_gpu_depth &p = ckci_k_late_again(args);
            if constexpr (HALVES > 1) {
                const int32_t whole = p.halves > 1 ? i >> 1 : i;
                tile(p, ckci_k_late_again(box), half(p, b, i - whole * p.halves), m, sums, whole);
                turn(ckci_k_late_again(args), sums);
            } else {
                tile(p, ckci_k_late_again(box), b, m, sums, i);
            }
        }
    }

    /* Some tiles at a time, see ckci_k_matrix_weight_pieces in kernels/matrix. */
    static CKCI_K_MEMBER void run(const ckci_gpu_depth &args, lds &m)
    {
        int32_t done = 0; /* of the part's tiles */
        CKCI_K_UNROLL(1)
        for (;;) {
            const ckci_gpu_depth &p = ckci_k_late_again(args);
            ckci_k_depth_block b(p, HALVES > 1 ? p.halves * p.box.channels : p.box.channels);
            b.from += done;
            const int32_t left = b.to - b.from, some = p.chain && p.chain < left ? p.chain : left;
            b.to = b.from + some;
            bands sums[HALVES * SLOTS];
            CKCI_K_UNROLL(8)
            for (int s = 0; s < (int)(HALVES * SLOTS); s++) {
                sums[s].clear();
            }
            if (threadIdx.x < CKCI_DEPTH_BOX_ZEROS / 4) {
                ((uint32_t *)m.bytes)[threadIdx.x] = 0;
            }
            tiles(p, b, m, sums);
            if constexpr (HALVES > 1) {
                CKCI_K_UNROLL(1)
                for (int h = 0; h < ckci_k_late_again(p).halves; h++) {
                    finish(p, half(ckci_k_late_again(p), b.scalar(), h), done > 0, (float *)m.bytes, sums);
                    turn(ckci_k_late_again(p), sums);
                }
            } else {
                finish(p, AMD ? b.scalar() : b, done > 0, (float *)m.bytes, sums);
            }
            if (left <= some) {
                return;
            }
            done += some;
            __syncthreads(); /* the sums in LDS are stored */
        }
    }

    /* All sums into LDS, [channel][row][column], one more for each row and channel so that neither lanes that
       store nor those that load meet in the banks; and from there to neighbouring channels. more: to what the
       part holds. */
    static CKCI_K_MEMBER void finish(const ckci_gpu_depth &args, const ckci_k_depth_block &b, bool more,
                                     float *all, const bands *sums)
    {
        enum { COLUMNS = 16 * MX, ROWS = 16 * G, LINE = COLUMNS + 1, PITCH = ROWS * LINE + 1 };
        enum { CHANNELS = WAVES * SLOTS };
        static_assert(CHANNELS * PITCH * 4 <= CKCI_DEPTH_BOX_BYTES, "they fit");
        const ckci_gpu_depth &p = ckci_k_late(args);
        __syncthreads(); /* without tiles: the zeros */
        CKCI_K_UNROLL(4)
        for (int s = 0; s < (int)SLOTS; s++) {
            float *plane = all + ((int)threadIdx.x / WAVE + s * WAVES) * PITCH;
            CKCI_K_UNROLL(4)
            for (int j = 0; j < MX * G; j++) {
                CKCI_K_UNROLL(8)
                for (int i = 0; i < (int)U::SUMS; i++) {
                    plane[(j / MX * 16 + bands::row(i)) * LINE + j % MX * 16 + bands::column(i)] =
                        sums[s].c[j / MX][j % MX].v[i];
                }
            }
        }
        __syncthreads();
        CKCI_K_UNROLL(1)
        for (int32_t e = (int32_t)threadIdx.x; e < ROWS * COLUMNS * CHANNELS; e += 256) {
            const int32_t c = e % CHANNELS, at = e / CHANNELS;
            /* fold: MX is 1, and a row goes on in the next one */
            const int32_t row = p.box.fold ? 0 : at / COLUMNS, column = p.box.fold ? at : at % COLUMNS;
            if (c < b.channels && row < p.dim[1].filter && column < p.dim[2].filter) {
                const int32_t tap = row * p.dim[2].filter + column;
                float sum = all[c * PITCH + at + at / COLUMNS];
                if (more) {
                    sum +=
                        ((const float *)p.o.partial)[((int64_t)b.part * p.taps + tap) * p.g + b.channel + c];
                }
                ckci_k_depth_put<ckci_k_s_half, float>(p, sum, b.part, tap, b.channel + c);
            }
        }
    }
};

template <template <class> class Body>
struct ckci_k_depth_by_unit
    : ckci_k_by_unit<Body<ckci_k_mfma16>, Body<ckci_k_wmma<11>>, Body<ckci_k_wmma<12>>, Body<ckci_k_mma>> {
};
template <class U> struct ckci_k_depth_matrix_small : ckci_k_depth_matrix_weight_unit<U, 1, 1> {
};
template <class U> struct ckci_k_depth_matrix_large : ckci_k_depth_matrix_weight_unit<U, 2, 2> {
};
struct ckci_k_depth_matrix : ckci_k_depth_by_unit<ckci_k_depth_matrix_unit> {
};
template <int LARGE> struct ckci_k_depth_matrix_weight;
template <> struct ckci_k_depth_matrix_weight<0> : ckci_k_depth_by_unit<ckci_k_depth_matrix_small> {
};
template <> struct ckci_k_depth_matrix_weight<1> : ckci_k_depth_by_unit<ckci_k_depth_matrix_large> {
};
template <> struct ckci_k_resident<ckci_k_depth_matrix> {
    enum { BLOCKS = 3 };
};
template <int LARGE> struct ckci_k_resident<ckci_k_depth_matrix_weight<LARGE>> {
    enum { BLOCKS = LARGE ? 2 : 3 };
};
