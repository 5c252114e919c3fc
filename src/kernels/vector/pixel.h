/*------------------------------------------------------------------------------------------------------------
  >>k-vector-pixel
  Layers of one tap on a space of one pixel, each pass a product of two small matrices: of so little work that
  a launch, its code and waits for memory are the time, and of any number of channels. One launch of short
  code; all loads of a thread are under way together, and nothing passes through LDS before it is a sum.
      rows, columns, reduction    fwd N, K, C    bwd_data N, C, K    bwd_weight K, C, N
  a.stride[1] is the step from row to row and a.stride[2] that along the reduction; b_column and b_red are
  those of the other operand. Where both are dense along the reduction (b_along), 32 threads own 4 x 4
  results, each thread every 32nd pair of places; their sums meet in shuffles. Else neighbouring columns are
  dense: 2^lanes threads own two columns of 4 rows each for one share of the reduction of 256 >> lanes, and
  shares meet in LDS. Either way in a fixed order. b_vec: two neighbours are one aligned load.
*/
#pragma once
#include "gpu/args.h"
#include "kernels/depth/common.h"
#include "kernels/epilogue.h"

/* Two neighbours of a tensor, or zeros. PAIR: in one load. */
template <class S, bool PAIR> struct ckci_k_pixel_two {
    ckci_k_vec<S, 2> w;

    CKCI_K_MEMBER void load(const unsigned char *p, bool first, bool second)
    {
        w.clear();
        if (PAIR && first) {
            w.load(p);
        }
        if (!PAIR) {
            ckci_k_vec<S, 1> one[2];
            one[0].clear();
            one[1].clear();
            if (first) {
                one[0].load(p);
            }
            if (second) {
                one[1].load(p + S::SIZE);
            }
            if (S::SIZE == 2) {
                w.w[0] = one[0].w[0] | one[1].w[0] << 16;
            } else {
                w.w[0] = one[0].w[0];
                w.w[2 / (4 / S::SIZE) - 1] = one[1].w[0];
            }
        }
    }
};

/* A result. */
struct ckci_k_pixel_sum {
    float sum;
    int32_t row, column;
    bool mine; /* this thread writes it, where it lies inside */
};

template <class S> struct ckci_k_pixel {
    enum { ROWS = CKCI_PIXEL_ROWS };

    struct lds {
        float sum[256 * ROWS * 2 + 256]; /* [share][row][column]; each 8 of a result's shares */
    };

    template <class V> static CKCI_K_MEMBER void widen(const V &x, bool bf16, float (&v)[2])
    {
        if (S::SIZE == 4 || bf16) {
            x.template widen<true>(v);
        } else {
            x.template widen<false>(v);
        }
    }

    /* Both operands dense along the reduction. */
    template <bool PAIR>
    static CKCI_K_MEMBER ckci_k_pixel_sum along(const ckci_gpu_conv &p, int32_t row0, int32_t column0)
    {
        enum { AHEAD = 4 };
        const int32_t t = (int32_t)threadIdx.x, lane = t & 31;
        const bool bf16 = CKCI_K_BF16(p.a.dtype != CKCONV_F16);
        column0 += t / 32 * 4;
        const unsigned char *from[8]; /* rows and columns behind the last one read that one */
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            const int32_t row = row0 + i < p.rows ? row0 + i : p.rows - 1,
                          column = column0 + i < p.columns ? column0 + i : p.columns - 1;
            from[i] = p.a.p + (row * p.a.stride[1] + 2 * lane) * S::SIZE;
            from[4 + i] = p.b.p + (column * p.b_column + 2 * lane) * S::SIZE;
        }
        float sum[16];
        CKCI_K_UNROLL(16)
        for (int i = 0; i < 16; i++) {
            sum[i] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t at = 2 * lane; at < p.red; at += 64 * AHEAD) {
            ckci_k_pixel_two<S, PAIR> x[AHEAD][8];
            CKCI_K_UNROLL(4)
            for (int u = 0; u < AHEAD; u++) {
                CKCI_K_UNROLL(8)
                for (int i = 0; i < 8; i++) {
                    x[u][i].load(from[i] + 64 * u * S::SIZE, at + 64 * u < p.red, at + 64 * u + 1 < p.red);
                }
            }
            CKCI_K_UNROLL(4)
            for (int u = 0; u < AHEAD; u++) {
                float v[8][2];
                CKCI_K_UNROLL(8)
                for (int i = 0; i < 8; i++) {
                    widen(x[u][i].w, bf16, v[i]);
                }
                CKCI_K_UNROLL(32)
                for (int i = 0; i < 32; i++) {
                    sum[i / 2] = ckci_k_fma(v[i / 8][i % 2], v[4 + i / 2 % 4][i % 2], sum[i / 2]);
                }
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 8; i++) {
                from[i] += 64 * AHEAD * S::SIZE;
            }
        }
        /* half of the sums go to the other half of the threads, four times */
        CKCI_K_UNROLL(4)
        for (int half = 8; half > 0; half /= 2) {
            const bool upper = (lane & 2 * half) != 0;
            CKCI_K_UNROLL(8)
            for (int i = 0; i < half; i++) {
                const float mine = upper ? sum[i + half] : sum[i], other = upper ? sum[i] : sum[i + half];
                sum[i] = mine + ckci_k_shuffle_xor(other, 2 * half);
            }
        }
        return {sum[0] + ckci_k_shuffle_xor(sum[0], 1), row0 + lane / 8, column0 + lane / 2 % 4,
                (lane & 1) == 0};
    }

    /* Columns dense. */
    template <bool PAIR>
    static CKCI_K_MEMBER ckci_k_pixel_sum across(const ckci_gpu_conv &p, lds &m, int32_t row0,
                                                 int32_t column0)
    {
        enum { AHEAD = 8 };
        const int32_t t = (int32_t)threadIdx.x, shares = 256 >> p.lanes, share = t >> p.lanes,
                      own = (t - (share << p.lanes)) * 2, column = column0 + own;
        const bool bf16 = CKCI_K_BF16(p.a.dtype != CKCONV_F16);
        const int64_t a_step = p.a.stride[2] * shares * S::SIZE, b_step = p.b_red * shares * S::SIZE;
        const unsigned char *a[ROWS], *b = p.b.p + (column + share * p.b_red) * S::SIZE;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < ROWS; i++) {
            const int32_t row = row0 + i < p.rows ? row0 + i : p.rows - 1;
            a[i] = p.a.p + (row * p.a.stride[1] + share * p.a.stride[2]) * S::SIZE;
        }
        float sum[ROWS][2];
        CKCI_K_UNROLL(4)
        for (int i = 0; i < ROWS; i++) {
            sum[i][0] = sum[i][1] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t at = share; at < p.red; at += shares * AHEAD) {
            ckci_k_pixel_two<S, PAIR> y[AHEAD];
            ckci_k_vec<S, 1> x[AHEAD][ROWS];
            CKCI_K_UNROLL(8)
            for (int u = 0; u < AHEAD; u++) {
                const bool some = at + shares * u < p.red;
                y[u].load(b + u * b_step, some && column < p.columns, some && column + 1 < p.columns);
                CKCI_K_UNROLL(4)
                for (int i = 0; i < ROWS; i++) {
                    x[u][i].clear();
                    if (some) {
                        x[u][i].load(a[i] + u * a_step);
                    }
                }
            }
            CKCI_K_UNROLL(8)
            for (int u = 0; u < AHEAD; u++) {
                float v[2];
                widen(y[u].w, bf16, v);
                CKCI_K_UNROLL(4)
                for (int i = 0; i < ROWS; i++) {
                    float one[2];
                    ckci_k_vec<S, 2> two;
                    two.clear();
                    two.w[0] = x[u][i].w[0];
                    widen(two, bf16, one);
                    sum[i][0] = ckci_k_fma(one[0], v[0], sum[i][0]);
                    sum[i][1] = ckci_k_fma(one[0], v[1], sum[i][1]);
                }
            }
            b += AHEAD * b_step;
            CKCI_K_UNROLL(4)
            for (int i = 0; i < ROWS; i++) {
                a[i] += AHEAD * a_step;
            }
        }
        const int32_t wide = 2 << p.lanes, all = ROWS * wide;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < ROWS; i++) {
            m.sum[share * all + i * wide + own] = sum[i][0];
            m.sum[share * all + i * wide + own + 1] = sum[i][1];
        }
        __syncthreads();
        const int32_t of = t >> (p.lanes + 3), at = t & (all - 1), row = at >> (p.lanes + 1);
        float *eights = m.sum + 256 * ROWS * 2, result = 0;
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            result += m.sum[(of * 8 + i) * all + at];
        }
        eights[t] = result;
        __syncthreads();
        result = eights[at];
        CKCI_K_UNROLL(1)
        for (int32_t i = all; i < 256; i += all) {
            result += eights[i + at];
        }
        return {result, row0 + row, column0 + at - row * wide, t < all};
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        const int32_t tile = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_n), row0 = tile * ROWS;
        int32_t column = (int32_t)blockIdx.x - tile * p.tiles_n;
        column *= p.b_along ? 32 : 2 << p.lanes;
        const ckci_k_pixel_sum r =
            p.b_along ? (p.b_vec ? along<true>(p, row0, column) : along<false>(p, row0, column))
            : p.b_vec ? across<true>(p, m, row0, column)
                      : across<false>(p, m, row0, column);
        if (r.mine && r.row < p.rows && r.column < p.columns) {
            ckci_k_write<float>(p.o, r.sum, 0, r.row, r.column, 0, 0, 0);
        }
    }
};

template <class S> struct ckci_k_resident<ckci_k_pixel<S>> {
    enum { BLOCKS = 3 };
};
