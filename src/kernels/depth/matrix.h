/*------------------------------------------------------------------------------------------------------------
  >>k-depth-matrix
  Large filters of f16 and bf16 on matrix units: fwd and bwd_data as products with bands of zeros, and what
  bwd_weight shares with them. A block owns some channels of some tiles, whose rows lie in LDS, a plane for
  each channel. Many of a band's products are with zeros; with large filters a unit is still faster than
  multiply-adds. The planner (>>gpu-depth-matrix) lays out LDS, so that no two rows of an operand meet in a
  bank.
*/
#pragma once
#include "kernels/unit/mfma.h"
#include "kernels/unit/wmma.h"
#include "kernels/unit/mma.h"
#include "kernels/depth/sheet.h"

/* ---- On matrix units: f16 and bf16, strides and dilations of 1 along x and y, no filter along z.
   Rows of the tensor that is read are multiplied with bands: the matrix of element (i, k) = f[k - i], made of
   a row f of the filter, takes 16 neighbouring inputs to 16 neighbouring outputs. So for each row of the
   filter, sums[x][y] += band(k - x) * rows[k][y + r]: 16 rows of one channel are one operand of the unit, and
   the band is read from LDS at an address of each lane's own. bwd_weight is the same with rows of dout for
   those of the filter and with weights for outputs: sums[s][r] += band of dout(k - s) * rows[k][y + r], over
   all y, tiles and images.
   A block owns `channels` channels of some tiles (bwd_weight: adds up those of all its tiles). A tile's rows
   lie in LDS, a plane for each channel, whose waves each compute whole channels: where channels are
   neighbours in memory, eight of two positions come in one piece and are parted on their way into LDS.
   fwd and bwd_data: the filters lie in LDS once for all tiles, and results take the place of a channel's
   plane on their way out, so that stores are whole pieces again.
   A signal without rows is folded: rows of the unit are its stretches of 32 outputs (bwd_weight: shifts by
   16 taps), which overlap in LDS.
   Products with the zeros of a band make NaN of an infinity that lies next to the filter's window. */

/* A unit's operand whose element (i, k) is number at + k - i of a row: the lane's begin at at + lane().
   ACROSS: sums lie in a lane so that neighbours are columns; bands are then the columns. PAIRS: sums 2 i and
   2 i + 1 are neighbours. GAP: bytes that a lane loads of a row at a time, where the planner lays rows (and
   stretches of a folded one: ckci_k_depth_gaps) so many bytes apart that 16 of them lie in different banks
   of LDS; part(): where the lane's begin among 16 places. */
template <class U> struct ckci_k_band;

#if defined(CKCI_K_MFMA)
template <> struct ckci_k_band<ckci_k_mfma16> {
    enum { ACROSS = 0, PAIRS = 1, GAP = 8 };

    static CKCI_K_MEMBER int32_t part()
    {
        return (int)threadIdx.x % 64 / 16 * 8;
    }

    static CKCI_K_MEMBER int32_t lane()
    {
        return (int)threadIdx.x % 64 / 16 * 4 - (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER ckci_k_uint2 start(const uint32_t *, uint32_t)
    {
        return ckci_k_uint2();
    }

    static CKCI_K_MEMBER ckci_k_uint2 load(const uint32_t *p, uint32_t shift, const ckci_k_uint2 &)
    {
        uint32_t w[2];
        ckci_k_depth_words<2>(p, shift, w);
        return {w[0], w[1]};
    }
};
#endif

#if defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12)
template <int GFX> struct ckci_k_band<ckci_k_wmma<GFX>> {
    enum { ACROSS = 0, PAIRS = GFX != 11, GAP = 16 };
    typedef typename ckci_k_wmma<GFX>::operand operand;

    static CKCI_K_MEMBER int32_t part()
    {
        return GFX == 11 ? 0 : (int)threadIdx.x % 32 / 16 * 16;
    }

    static CKCI_K_MEMBER int32_t lane()
    {
        return (GFX == 11 ? 0 : (int)threadIdx.x % 32 / 16 * 8) - (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER operand start(const uint32_t *, uint32_t)
    {
        return operand();
    }

    static CKCI_K_MEMBER operand load(const uint32_t *p, uint32_t shift, const operand &)
    {
        constexpr int N = GFX == 11 ? 8 : 4;
        uint32_t w[N];
        ckci_k_depth_words<N>(p, shift, w);
        operand r;
        CKCI_K_UNROLL(2)
        for (int i = 0; i < N / 4; i++) {
            r.v[i] = {w[4 * i], w[4 * i + 1], w[4 * i + 2], w[4 * i + 3]};
        }
        return r;
    }
};
#endif

#if defined(CKCI_K_MMA)
template <> struct ckci_k_band<ckci_k_mma> {
    enum { ACROSS = 1, PAIRS = 1, GAP = 0 };

    static CKCI_K_MEMBER int32_t lane()
    {
        return (int)threadIdx.x % 4 * 2 - (int)threadIdx.x % 32 / 4;
    }

    /* rows 8 to 15 of the first chunk are rows 0 to 7 of `before`'s second one, 16 places before */
    /* of the operand before the first one, what load takes over */
    static CKCI_K_MEMBER ckci_k_uint4 start(const uint32_t *p, uint32_t shift)
    {
        ckci_k_uint4 r = {0, 0, 0, 0};
        ckci_k_depth_words<1>(p - 4, shift, &r.z);
        return r;
    }

    static CKCI_K_MEMBER ckci_k_uint4 load(const uint32_t *p, uint32_t shift, const ckci_k_uint4 &before)
    {
        ckci_k_uint4 r;
        ckci_k_depth_words<1>(p, shift, &r.x);
        ckci_k_depth_words<1>(p + 4, shift, &r.z);
        r.y = before.z;
        r.w = r.x;
        return r;
    }
};
#endif

/* Where a channel's plane lies in LDS. */
CKCI_K_FN int32_t ckci_k_depth_plane(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                     int32_t channel)
{
    return r.at + channel * r.plane + (channel >> 3) * x.skew;
}

/* A folded row whose stretches of 32 positions lie x.step apart, not 64 bytes: bits of the gaps in front of
   position `at` (ckci_k_depth_after). */
template <int GAP> CKCI_K_FN int32_t ckci_k_depth_gaps(const ckci_gpu_depth_box &x)
{
    if constexpr (GAP > 0) {
        return -(x.step & GAP & -x.fold);
    } else {
        return 0;
    }
}

/* Bytes of gaps in front of position `at` of a row. */
template <int GAP> CKCI_K_FN int32_t ckci_k_depth_after(int32_t at, int32_t gaps)
{
    if constexpr (GAP > 0) {
        return at / (32 / GAP) & gaps;
    } else {
        return 0;
    }
}

/* A stretch of a tensor: `rows` rows from y on, r.pieces pieces of each from x on, of `channels` channels. */
struct ckci_k_depth_stretch {
    int32_t channel, channels, n, z, y, rows, x, len_x;
};

/* How far from its first element, in bytes: the planner has checked that 32 bits hold it. */
CKCI_K_FN const unsigned char *ckci_k_depth_start(const ckci_tensor &t, const ckci_k_depth_stretch &s)
{
    return t.p + (s.channel * t.stride[0] + s.n * t.stride[1] + s.z * t.stride[3] + s.y * t.stride[4] +
                  s.x * t.stride[5]) *
                     2;
}

/* From memory into LDS and back: eight channels of two positions. GAP: ckci_k_band's. */
template <int GAP> struct ckci_k_depth_eights {
    static CKCI_K_MEMBER bool find(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                   const ckci_k_depth_stretch &s, int32_t i, int32_t *channel, int32_t *row,
                                   int32_t *pair)
    {
        int32_t rest = ckci_k_divide(i, x.by_groups);
        *channel = (i - rest * (int32_t)x.by_groups.d) * 8;
        *row = ckci_k_divide(rest, r.by_pieces);
        *pair = rest - *row * r.pieces;
        return *row < s.rows && *channel < s.channels;
    }

    static CKCI_K_MEMBER void fill(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                   const ckci_tensor &t, const ckci_k_depth_stretch &s, unsigned char *lds,
                                   int32_t gaps)
    {
        constexpr int SOME = 3;
        const unsigned char *src = ckci_k_depth_start(t, s);
        const int32_t all = s.rows * r.pieces * (int32_t)x.by_groups.d;
        const int32_t step_y = (int32_t)t.stride[4] * 2, step_x = (int32_t)t.stride[5] * 2;
        CKCI_K_UNROLL(1)
        for (int32_t first = (int32_t)threadIdx.x; first < all; first += SOME * 256) {
            ckci_k_uint4 v[SOME][2];
            int32_t to[SOME];
            CKCI_K_UNROLL(4)
            for (int j = 0; j < SOME; j++) {
                int32_t channel, row, pair;
                bool inside = find(x, r, s, first + j * 256, &channel, &row, &pair);
                to[j] = inside ? channel * r.plane + (channel >> 3) * x.skew + row * r.pitch + pair * 4 +
                                     ckci_k_depth_after<GAP>(2 * pair, gaps)
                               : -1;
                const unsigned char *p = src + (row * step_y + 2 * pair * step_x + channel * 2);
                CKCI_K_UNROLL(2)
                for (int k = 0; k < 2; k++) {
                    v[j][k] = {0, 0, 0, 0};
                    if (inside && (uint32_t)(s.x + 2 * pair + k) < (uint32_t)s.len_x) {
                        v[j][k] = *(const ckci_k_uint4 *)(p + k * step_x);
                    }
                }
            }
            CKCI_K_UNROLL(4)
            for (int j = 0; j < SOME; j++) {
                if (to[j] >= 0) {
                    part(lds + r.at + to[j], r.plane, v[j][0].x, v[j][1].x);
                    part(lds + r.at + to[j] + 2 * r.plane, r.plane, v[j][0].y, v[j][1].y);
                    part(lds + r.at + to[j] + 4 * r.plane, r.plane, v[j][0].z, v[j][1].z);
                    part(lds + r.at + to[j] + 6 * r.plane, r.plane, v[j][0].w, v[j][1].w);
                }
            }
        }
    }

    static CKCI_K_MEMBER void part(unsigned char *to, int32_t plane, uint32_t left, uint32_t right)
    {
        *(uint32_t *)to = ckci_k_halves<0>(left, right);
        *(uint32_t *)(to + plane) = ckci_k_halves<1>(left, right);
    }

    static CKCI_K_MEMBER void store(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                    const ckci_tensor &t, const ckci_k_depth_stretch &s,
                                    const unsigned char *lds, int32_t gaps)
    {
        unsigned char *dst = (unsigned char *)(uintptr_t)ckci_k_depth_start(t, s);
        const int32_t all = s.rows * r.pieces * (int32_t)x.by_groups.d;
        const int32_t step_y = (int32_t)t.stride[4] * 2, step_x = (int32_t)t.stride[5] * 2;
        CKCI_K_UNROLL(2)
        for (int32_t i = (int32_t)threadIdx.x; i < all; i += 256) {
            int32_t channel, row, pair;
            bool inside = find(x, r, s, i, &channel, &row, &pair);
            const unsigned char *from = lds + r.at + channel * r.plane + (channel >> 3) * x.skew +
                                        row * r.pitch + pair * 4 + ckci_k_depth_after<GAP>(2 * pair, gaps);
            if (!inside) {
                continue;
            }
            /* named: clang 19 leaves an array of them in scratch */
            const uint32_t w0 = word(from), w1 = word(from + r.plane), w2 = word(from + 2 * r.plane),
                           w3 = word(from + 3 * r.plane), w4 = word(from + 4 * r.plane),
                           w5 = word(from + 5 * r.plane), w6 = word(from + 6 * r.plane),
                           w7 = word(from + 7 * r.plane);
            unsigned char *p = dst + (row * step_y + 2 * pair * step_x + channel * 2);
            const int32_t left = s.len_x - s.x - 2 * pair;
            if (left > 0) {
                *(ckci_k_uint4 *)p = {ckci_k_halves<0>(w0, w1), ckci_k_halves<0>(w2, w3),
                                      ckci_k_halves<0>(w4, w5), ckci_k_halves<0>(w6, w7)};
            }
            if (left > 1) {
                *(ckci_k_uint4 *)(p + step_x) = {ckci_k_halves<1>(w0, w1), ckci_k_halves<1>(w2, w3),
                                                 ckci_k_halves<1>(w4, w5), ckci_k_halves<1>(w6, w7)};
            }
        }
    }

    static CKCI_K_MEMBER uint32_t word(const unsigned char *p)
    {
        return *(const uint32_t *)p;
    }
};

/* The same: V neighbours of a row. A wave takes whole channels. */
template <int V, int WAVE, int GAP> struct ckci_k_depth_stripes {
    typedef ckci_k_vec<ckci_k_s_half, V> vec;
    /* rows may begin at 8 bytes */
    typedef ckci_k_vec<ckci_k_s_half, GAP == 8 && V == 8 ? 4 : V> part;
    enum { PARTS = (int)vec::WORDS / (int)part::WORDS };

    /* Of a lane. Halves of stretches 0, 1, 8 and 9 lie in different banks of LDS: lanes 8 to 15 change places
       with lanes 32 to 39, 24 to 31 with 48 to 55. */
    static CKCI_K_MEMBER int32_t first_piece(int32_t gaps)
    {
        const int32_t lane = (int32_t)threadIdx.x % WAVE;
        if constexpr (PARTS == 2) {
            return lane ^ (-((lane >> 3 ^ lane >> 5) & 1) & 40 & gaps);
        } else {
            return lane;
        }
    }

    static CKCI_K_MEMBER void fill(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                   const ckci_tensor &t, const ckci_k_depth_stretch &s, unsigned char *lds,
                                   int32_t gaps)
    {
        constexpr int SOME = 4;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        constexpr bool ASYNC = V > 1;
#else
        constexpr bool ASYNC = false;
#endif
        const int32_t lane = first_piece(gaps), all = s.rows * r.pieces;
        const int32_t step_y = (int32_t)t.stride[4] * 2, step_x = (int32_t)t.stride[5] * 2;
        CKCI_K_UNROLL(1)
        for (int32_t c = (int32_t)threadIdx.x / WAVE; c < s.channels; c += 256 / WAVE) {
            const unsigned char *src = ckci_k_depth_start(t, s) + c * t.stride[0] * 2;
            unsigned char *plane = lds + ckci_k_depth_plane(x, r, c);
            CKCI_K_UNROLL(1)
            for (int32_t first = lane; first < all; first += SOME * WAVE) {
                vec v[SOME];
                unsigned char *to[SOME];
                CKCI_K_UNROLL(4)
                for (int j = 0; j < SOME; j++) {
                    int32_t i = first + j * WAVE, row = ckci_k_divide(i, r.by_pieces);
                    int32_t at = (i - row * r.pieces) * V;
                    bool inside = i < all && (uint32_t)(s.x + at) < (uint32_t)s.len_x;
                    const unsigned char *p = src + (row * step_y + at * step_x);
                    to[j] = plane + (row * r.pitch + at * 2 + ckci_k_depth_after<GAP>(at, gaps));
                    if constexpr (ASYNC) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
                        if (i < all) {
                            ckci_k_copy_async<2 * V>(to[j], p, inside);
                        }
#endif
                    } else {
                        v[j].clear();
                        if (inside) {
                            v[j].load(p);
                        }
                    }
                }
                if constexpr (PARTS == 2) {
                    if (r.pitch % 16 != 0) {
                        CKCI_K_UNROLL(4)
                        for (int j = 0; j < SOME; j++) {
                            if (first + j * WAVE < all) {
                                const part left = {{v[j].w[0], v[j].w[1]}}, right = {{v[j].w[2], v[j].w[3]}};
                                left.store(to[j]);
                                right.store(to[j] + 8);
                            }
                        }
                        continue;
                    }
                }
                if constexpr (!ASYNC) {
                    CKCI_K_UNROLL(4)
                    for (int j = 0; j < SOME; j++) {
                        if (first + j * WAVE < all) {
                            v[j].store(to[j]);
                        }
                    }
                }
            }
        }
    }

    static CKCI_K_MEMBER void store(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                    const ckci_tensor &t, const ckci_k_depth_stretch &s, unsigned char *lds,
                                    int32_t gaps)
    {
        const int32_t lane = first_piece(gaps), all = s.rows * r.pieces;
        const int32_t step_y = (int32_t)t.stride[4] * 2, step_x = (int32_t)t.stride[5] * 2;
        CKCI_K_UNROLL(1)
        for (int32_t c = (int32_t)threadIdx.x / WAVE; c < s.channels; c += 256 / WAVE) {
            unsigned char *dst = (unsigned char *)(uintptr_t)ckci_k_depth_start(t, s) + c * t.stride[0] * 2;
            const unsigned char *plane = lds + ckci_k_depth_plane(x, r, c);
            CKCI_K_UNROLL(4)
            for (int32_t i = lane; i < all; i += WAVE) {
                int32_t row = ckci_k_divide(i, r.by_pieces), at = (i - row * r.pieces) * V;
                if (s.x + at < s.len_x) {
                    vec v;
                    const unsigned char *from =
                        plane + (row * r.pitch + at * 2 + ckci_k_depth_after<GAP>(at, gaps));
                    if constexpr (PARTS == 1) {
                        v.load(from);
                    } else {
                        part left, right;
                        left.load(from);
                        right.load(from + 8);
                        v = {{left.w[0], left.w[1], right.w[0], right.w[1]}};
                    }
                    v.store(dst + (row * step_y + at * step_x));
                }
            }
        }
    }
};

template <int WAVE, int GAP>
CKCI_K_FN void ckci_k_depth_fill(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                 const ckci_tensor &t, const ckci_k_depth_stretch &s, unsigned char *lds,
                                 int32_t gaps)
{
    if (r.vec == 16) {
        ckci_k_depth_eights<GAP>::fill(x, r, t, s, lds, gaps);
    } else if (r.vec == 8) {
        ckci_k_depth_stripes<8, WAVE, GAP>::fill(x, r, t, s, lds, gaps);
    } else if (r.vec == 4) {
        ckci_k_depth_stripes<4, WAVE, GAP>::fill(x, r, t, s, lds, gaps);
    } else if (r.vec == 2) {
        ckci_k_depth_stripes<2, WAVE, GAP>::fill(x, r, t, s, lds, gaps);
    } else {
        ckci_k_depth_stripes<1, WAVE, GAP>::fill(x, r, t, s, lds, gaps);
    }
}

template <int WAVE, int GAP>
CKCI_K_FN void ckci_k_depth_empty(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                  const ckci_tensor &t, const ckci_k_depth_stretch &s, unsigned char *lds,
                                  int32_t gaps)
{
    if (r.vec == 16) {
        ckci_k_depth_eights<GAP>::store(x, r, t, s, lds, gaps);
    } else if (r.vec == 8) {
        ckci_k_depth_stripes<8, WAVE, GAP>::store(x, r, t, s, lds, gaps);
    } else if (r.vec == 4) {
        ckci_k_depth_stripes<4, WAVE, GAP>::store(x, r, t, s, lds, gaps);
    } else if (r.vec == 2) {
        ckci_k_depth_stripes<2, WAVE, GAP>::store(x, r, t, s, lds, gaps);
    } else {
        ckci_k_depth_stripes<1, WAVE, GAP>::store(x, r, t, s, lds, gaps);
    }
}

/* Sums of one channel: G groups of 16 rows, each by MX times 16 columns. */
template <class U, int MX, int G> struct ckci_k_depth_bands {
    typedef typename U::operand operand;
    typedef ckci_k_band<U> band;
    typename U::sums c[G][MX];

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(2)
        for (int g = 0; g < G; g++) {
            CKCI_K_UNROLL(2)
            for (int m = 0; m < MX; m++) {
                c[g][m] = typename U::sums();
            }
        }
    }

    template <class E>
    static CKCI_K_MEMBER void multiply(typename U::sums &d, const operand &rows, const operand &across)
    {
        if constexpr (band::ACROSS) {
            U::template multiply<E>(d, rows, across);
        } else {
            U::template multiply<E>(d, across, rows);
        }
    }

    /* count rows of bands at `bands` in LDS; at: where row 0 of group 0 meets the first of them, of `stored`
       rows at `plane`; rows and columns of the sums that are wanted. N: chunks of 16 places whose operands
       are loaded together. */
    template <class E, int N>
    CKCI_K_MEMBER void some(const ckci_gpu_depth_box &x, const unsigned char *lds, int32_t plane,
                            int32_t bands, int32_t count, int32_t at, int32_t stored, int32_t rows,
                            int32_t columns)
    {
        const int32_t lane = (int32_t)threadIdx.x % 16, index = x.origin + band::lane();
        const uint32_t shift = (uint32_t)index % 2 * 16;
        const int32_t pitch = x.t.pitch, step = x.step, from = x.from, to = x.to,
                      wide = ckci_k_afresh(x.wide), chunks = x.chunks + x.skip, fold = ckci_k_afresh(x.fold);
        const int32_t gap = MX > 1 ? ckci_k_depth_gaps<band::GAP>(x) & band::GAP : 0;
        int32_t words = bands + (index >> 1) * 4 + 32 * from;
        bool both[G];
        int32_t row[G], start[G], inner[G];
        CKCI_K_UNROLL(2)
        for (int g = 0; g < G; g++) {
            int32_t down = wide ? 0 : 16 * g, right = wide ? 32 * g : 0;
            int32_t high = down + lane < x.high ? down + lane : x.high - 1;
            start[g] = at + down; /* rows that are not wanted meet none */
            start[g] = down >= rows || right >= columns ? stored : start[g];
            row[g] =
                plane + (fold ? high : at + down + lane) * step + 32 * (from - x.skip) + (wide ? 64 * g : 0);
            both[g] = MX > 1 && right + 16 < columns;
            inner[g] = chunks - from - (wide ? 2 * g : 0);
        }
        CKCI_K_UNROLL(1)
        for (int32_t q = 0; q < count; q++) {
            int32_t none[G]; /* of its rows are there */
            int32_t kept[G]; /* bits of an address; a row that is not there: zeros of the same banks */
            if constexpr (band::GAP > 0) {
                CKCI_K_UNROLL(2)
                for (int g = 0; g < G; g++) {
                    kept[g] = fold || (uint32_t)(start[g] + lane) < (uint32_t)stored ? -1 : 127;
                    kept[g] = ckci_k_lane_afresh(kept[g]);
                    none[g] = fold ? start[g] == stored : start[g] <= -16 || start[g] >= stored;
                    none[g] = ckci_k_afresh(ckci_k_same(none[g]));
                }
            }
            CKCI_K_UNROLL(1)
            for (int32_t k = 0; k < to - from; k += N) {
                operand now[N + 1];
                now[0] = operand();
                if (band::ACROSS || MX > 1) {
                    const uint32_t *p = (const uint32_t *)(lds + words + 32 * (k - 1));
                    now[0] = band::load(p, shift, band::start(p, shift));
                }
                CKCI_K_UNROLL(4)
                for (int j = 0; j < N; j++) {
                    now[j + 1] = band::load((const uint32_t *)(lds + words + 32 * (k + j)), shift, now[j]);
                }
                CKCI_K_UNROLL(2)
                for (int g = 0; g < G; g++) {
                    if constexpr (band::GAP > 0) {
                        if (none[g]) {
                            continue;
                        }
                    } else if (fold ? start[g] == stored : start[g] <= -16 || start[g] >= stored) {
                        continue;
                    }
                    operand in[N];
                    if constexpr (band::GAP > 0) {
                        const int32_t own = (row[g] + 32 * k + k / 2 * gap + band::part()) & kept[g];
                        const int32_t left = inner[g] - k;
                        CKCI_K_UNROLL(4)
                        for (int j = 0; j < N; j++) {
                            const int32_t place = (own + j / 2 * gap) & (j < left ? -1 : 127);
                            in[j] = U::load_rows(lds + (place + 32 * j - band::part()), 0);
                        }
                    } else {
                        bool inside = fold || (uint32_t)(start[g] + lane) < (uint32_t)stored;
                        CKCI_K_UNROLL(4)
                        for (int j = 0; j < N; j++) {
                            bool there = inside && from + k + j + (wide ? 2 * g : 0) < chunks;
                            in[j] = U::load_rows(lds + (there ? row[g] + 32 * (k + j) : 0), 0);
                        }
                    }
                    CKCI_K_UNROLL(4)
                    for (int j = 0; j < N; j++) {
                        multiply<E>(c[g][0], in[j], now[j + 1]);
                    }
                    if (both[g]) {
                        CKCI_K_UNROLL(4)
                        for (int j = 0; j < N; j++) {
                            multiply<E>(c[g][MX - 1], in[j], now[j]);
                        }
                    }
                }
            }
            words += pitch;
            CKCI_K_UNROLL(2)
            for (int g = 0; g < G; g++) {
                row[g] += fold ? 0 : step;
                start[g] += start[g] < stored && !fold;
            }
        }
    }

    template <class E>
    CKCI_K_MEMBER void run(const ckci_gpu_depth_box &x, const unsigned char *lds, int32_t plane,
                           int32_t bands, int32_t count, int32_t at, int32_t stored, int32_t rows,
                           int32_t columns)
    {
        if (ckci_k_afresh(x.some) == 2) {
            some<E, 2>(x, lds, plane, bands, count, at, stored, rows, columns);
        } else {
            some<E, 4>(x, lds, plane, bands, count, at, stored, rows, columns);
        }
    }

    /* Row and column (16 of `m` in front of it) of sum i. */
    static CKCI_K_MEMBER int32_t row(int i)
    {
        return band::ACROSS ? U::row(i) : U::column(i);
    }

    static CKCI_K_MEMBER int32_t column(int i)
    {
        return band::ACROSS ? U::column(i) : U::row(i);
    }
};

struct ckci_k_depth_matrix_lds {
    alignas(16) unsigned char bytes[CKCI_DEPTH_BOX_BYTES];
};

/* Where a block works. */
struct ckci_k_depth_block {
    int32_t channel, channels, part, from, to;

    CKCI_K_MEMBER ckci_k_depth_block(const ckci_gpu_depth &p, int32_t most)
    {
        part = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c);
        channel = ((int32_t)blockIdx.x - part * p.tiles_c) * most;
        channels = p.g - channel < most ? p.g - channel : most;
        from = part * p.part;
        to = p.box.tiles - from < p.part ? p.box.tiles : from + p.part;
    }

    /* Into vector registers, for a loop; back into scalar ones, in a pass of it. */
    CKCI_K_MEMBER void hold()
    {
        channel = ckci_k_lane_afresh(channel);
        channels = ckci_k_lane_afresh(channels);
        to = ckci_k_lane_afresh(to);
    }

    CKCI_K_MEMBER ckci_k_depth_block scalar() const
    {
        ckci_k_depth_block b = *this;
        b.channel = ckci_k_same(channel);
        b.channels = ckci_k_same(channels);
        b.to = ckci_k_same(to);
        b.part = ckci_k_same(part);
        return b;
    }

    /* n, z, and the tile's place in y and x */
    static CKCI_K_MEMBER ckci_k_place find(const ckci_gpu_depth_box &x, int32_t i)
    {
        ckci_k_place q = ckci_k_decode(i, x.by_z, x.by_tiles_y, x.by_tiles_x);
        q.y *= x.tile_y;
        q.x *= x.tile_x;
        return q;
    }
};

/* A tile of fwd and bwd_data: rows y, ... of what is read, rows of sums. */
struct ckci_k_depth_tile {
    ckci_k_place q;
    int32_t at, y, rows, len_y, out_rows;

    CKCI_K_MEMBER ckci_k_depth_tile(const ckci_gpu_depth &p, int32_t i)
    {
        const ckci_gpu_depth_box &x = p.box;
        q = ckci_k_depth_block::find(x, i);
        const int32_t top = q.y - x.pad_y, end = top + x.tile_y + p.dim[1].filter - 1;
        y = top < 0 ? 0 : top;
        at = top - y;
        rows = (end < p.dim[1].read_len ? end : p.dim[1].read_len) - y;
        len_y = p.dim[1].length - q.y < x.tile_y ? p.dim[1].length - q.y : x.tile_y;
        const int32_t left = p.dim[2].length - q.x;
        out_rows = x.fold ? ((left < x.tile_x ? left : x.tile_x) + 31) / 32 : len_y;
    }
};

/* fwd and bwd_data */
template <class U> struct ckci_k_depth_matrix_unit {
    typedef ckci_k_depth_matrix_lds lds;
    enum { WAVE = U::WAVE, GAP = ckci_k_band<U>::GAP };

    /* The filters, in the type that is multiplied, with the zeros beside them. */
    static CKCI_K_MEMBER void stage(const ckci_gpu_depth &p, const ckci_k_depth_block &b, lds &m)
    {
        const ckci_gpu_depth_box &x = p.box;
        const int32_t f = p.dim[2].filter, rows = p.dim[1].filter, wide = x.t.pitch / 2;
        const int32_t all = b.channels * rows * wide;
        for (int32_t i = (int32_t)threadIdx.x; i < all; i += 256) {
            int32_t line = ckci_k_divide(i, x.t.by_pieces), s = i - line * wide - x.lead;
            int32_t channel = ckci_k_divide(line, x.by_rows), r = line - channel * rows;
            uint16_t bits = 0;
            if ((uint32_t)s < (uint32_t)f) {
                bool back = p.dim[2].gather_back != 0;
                int32_t fy = back ? rows - 1 - r : r, fx = back ? f - 1 - s : s;
                bits = *(const uint16_t *)(p.b.p + ((b.channel + channel) * p.b.stride[0] +
                                                    fy * p.b.stride[4] + fx * p.b.stride[5]) *
                                                       2);
            }
            *(uint16_t *)(m.bytes + x.t.at + channel * x.t.plane + r * x.t.pitch + 2 * (s + x.lead)) = bits;
        }
        if (threadIdx.x < CKCI_DEPTH_BOX_ZEROS / 4) {
            ((uint32_t *)m.bytes)[threadIdx.x] = 0;
        }
    }

    /* A channel's sums, into its plane. */
    template <class E, class S>
    static CKCI_K_MEMBER void keep(const ckci_gpu_depth_box &x, unsigned char *plane, const S &sums,
                                   int32_t rows, int32_t columns)
    {
        constexpr int STEP = S::band::GAP == 8 ? 4 : S::band::PAIRS ? 2 : 1;
        CKCI_K_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            const int32_t down = x.wide ? 0 : j / 2 * 16, right = (x.wide ? j / 2 * 32 : 0) + j % 2 * 16;
            if (right >= columns) {
                continue;
            }
            unsigned char *corner = plane + down * x.o.pitch + right * 2;
            CKCI_K_UNROLL(8)
            for (int i = 0; i < (int)U::SUMS; i += STEP) {
                const auto &c = sums.c[j / 2][j % 2];
                uint32_t w = ckci_k_s_half::template narrow<(int)E::TYPE == (int)CKCONV_BF16>(
                    c.v[i], c.v[i + (STEP > 1)]);
                unsigned char *to = corner + (S::row(i) * x.o.pitch + S::column(i) * 2);
                if (down + S::row(i) < rows) {
                    if constexpr (STEP == 4) {
                        uint32_t next = ckci_k_s_half::template narrow<(int)E::TYPE == (int)CKCONV_BF16>(
                            c.v[i + 2], c.v[i + 3]);
                        *(ckci_k_uint2 *)to = {w, next};
                    } else if constexpr (STEP == 2) {
                        *(uint32_t *)to = w;
                    } else {
                        *(uint16_t *)to = (uint16_t)w;
                    }
                }
            }
        }
    }

    /* Do results pass through LDS, rounded? */
    static CKCI_K_MEMBER bool keeps(const ckci_gpu_depth &p)
    {
        return p.o_same && p.o.form <= CKCI_FORM_LINEAR;
    }

    /* The epilogue of a channel's sums where D tensors have one number for each channel. */
    template <class S> static CKCI_K_MEMBER void scale(const ckci_gpu_depth &p, S &sums, int32_t channel)
    {
        const ckci_gpu_target &o = p.o;
        float factor = 1, shift = 0;
        if (o.scale) {
            factor = ((const float *)o.scale)[channel];
        }
        if (o.shift) {
            shift = ((const float *)o.shift)[channel];
        }
        factor *= o.alpha;
        shift *= o.alpha;
        CKCI_K_UNROLL(1)
        for (int j = 0; j < o.adds; j++) {
            const ckci_gpu_extra &t = o.d[j];
            float more;
            ckci_k_load_number(t.dtype, t.p + channel * t.stride[2] * (t.dtype == CKCONV_F32 ? 4 : 2), more);
            if (t.how == CKCI_EXTRA_MULTIPLY) {
                factor *= more;
                shift *= more;
            } else {
                shift = fmaf(o.beta, more, shift);
            }
        }
        CKCI_K_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            auto &of = sums.c[j / 2][j % 2].v;
            float v[(int)U::SUMS];
            CKCI_K_UNROLL(8)
            for (int i = 0; i < (int)U::SUMS; i++) {
                v[i] = fmaf(of[i], factor, shift);
            }
            ckci_k_limit(o, v);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < (int)U::SUMS; i++) {
                of[i] = v[i];
            }
        }
    }

    /* With another epilogue, to where they go. */
    template <class S>
    static CKCI_K_MEMBER void write(const ckci_gpu_depth &p, const S &sums, int32_t channel,
                                    const ckci_k_place &q, int32_t rows)
    {
        const ckci_gpu_depth_box &x = p.box;
        constexpr int SUMS = (int)U::SUMS;
        float all[4 * SUMS];
        CKCI_K_UNROLL(32)
        for (int i = 0; i < 4 * SUMS; i++) {
            all[i] = sums.c[i / SUMS / 2][i / SUMS % 2].v[i % SUMS];
        }
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 4 * SUMS; i++) {
            const float v = ckci_k_pick<float, 4 * SUMS>(all, i);
            const int32_t group = i / SUMS / 2, part = i / SUMS % 2;
            const int32_t row = (x.wide ? 0 : group * 16) + S::row(i % SUMS);
            const int32_t column = (x.wide ? group * 32 : 0) + part * 16 + S::column(i % SUMS);
            const ckci_k_place at = {q.n, q.z, x.fold ? q.y : q.y + row,
                                     q.x + column + (x.fold ? 32 * row : 0)};
            if (row < rows && at.x < p.dim[2].length) {
                ckci_k_depth_write<false, float>(ckci_k_late_again(p), v, channel, at);
            }
        }
    }

    static CKCI_K_MEMBER void compute(const ckci_gpu_depth &p, const ckci_k_depth_block &b, lds &m,
                                      const ckci_k_depth_tile &t)
    {
        const ckci_gpu_depth_box &x = p.box;
        const int32_t left = p.dim[2].length - t.q.x;
        CKCI_K_UNROLL(1)
        for (int32_t c = ckci_k_same((int32_t)threadIdx.x / WAVE); c < b.channels; c += 256 / WAVE) {
            const int32_t plane = ckci_k_depth_plane(x, x.b, c);
            ckci_k_depth_bands<U, 2, 2> sums;
            sums.clear();
            if (CKCI_K_BF16(p.bf16)) {
                sums.template run<ckci_k_bf16>(x, m.bytes, plane, x.t.at + c * x.t.plane, p.dim[1].filter,
                                               t.at, t.rows, t.out_rows, x.fold ? 32 : left);
            } else {
                sums.template run<ckci_k_f16>(x, m.bytes, plane, x.t.at + c * x.t.plane, p.dim[1].filter,
                                              t.at, t.rows, t.out_rows, x.fold ? 32 : left);
            }
            ckci_k_wave_barrier();
            const ckci_gpu_depth &o = ckci_k_late_again(p);
            const int32_t rows = ckci_k_afresh(t.out_rows);
            if (keeps(o) && o.o.form != CKCI_FORM_STORE) {
                scale(o, sums, b.channel + c);
            }
            if (keeps(o) && CKCI_K_BF16(o.bf16)) {
                keep<ckci_k_bf16>(o.box, m.bytes + plane, sums, rows, o.box.fold ? 32 : left);
            } else if (keeps(o)) {
                keep<ckci_k_f16>(o.box, m.bytes + plane, sums, rows, o.box.fold ? 32 : left);
            } else {
                write(o, sums, b.channel + c, t.q, rows);
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        ckci_k_depth_block kept(p, p.box.channels);
        stage(p, kept, m);
        kept.hold();
        CKCI_K_UNROLL(1)
        for (int32_t i = kept.from; i < ckci_k_same(kept.to); i++) {
            const ckci_k_depth_block b = kept.scalar();
            {
                const ckci_gpu_depth &u = ckci_k_late_again(p), &v = ckci_k_late_again(p);
                ckci_k_depth_tile t(u, i);
                const ckci_k_depth_stretch in = {
                    b.channel, b.channels, t.q.n, t.q.z, t.y, t.rows, t.q.x - u.box.back, u.dim[2].read_len};
                ckci_k_depth_fill<WAVE, GAP>(u.box, u.box.b, u.a, in, m.bytes, ckci_k_depth_gaps<GAP>(u.box));
                ckci_k_copies_end();
                ckci_k_copies_wait<0>();
                __syncthreads();
                t.q.n = ckci_k_lane_afresh(t.q.n); /* only the epilogue needs them now */
                t.q.z = ckci_k_lane_afresh(t.q.z);
                t.q.y = ckci_k_lane_afresh(t.q.y);
                compute(v, b, m, t);
                __syncthreads();
            }
            const ckci_gpu_depth &w = ckci_k_late_again(p);
            if (keeps(w)) {
                const ckci_k_depth_tile t(w, ckci_k_afresh(i));
                const ckci_k_depth_stretch out = {b.channel, b.channels, t.q.n, t.q.z,
                                                  t.q.y,     t.len_y,    t.q.x, w.dim[2].length};
                ckci_k_depth_empty<WAVE, GAP>(w.box, w.box.o, w.o.t, out, m.bytes,
                                              ckci_k_depth_gaps<GAP>(w.box));
                __syncthreads();
            }
        }
    }
};
