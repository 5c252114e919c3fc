/*------------------------------------------------------------------------------------------------------------
  >>k-depth-rows
  Rows of a tensor, channels last, on their way into LDS, and where a block and its threads stand in them. For
  the kernels that walk down with rows in LDS (down, deep and their gradients). NVIDIA's copies do not wait,
  AMD's pass through registers: both are here, and kernels above see one form. A block owns its rows in LDS;
  what lies outside the tensor is 0 there.
*/
#pragma once
#include "kernels/depth/window.h"

/* Rows of a tensor, channels last, on their way into LDS: some channels, in words of 4 bytes, of positions
   that lie beside each other (or in a plane), at most BYTES together, R rows at a time. NVIDIA's copies do
   not wait (ASYNC): STAGES - 1 times R rows are under way; AMD's pass through registers while the row before
   is taken, and ALONE: LDS has room for one. What lies outside the tensor is 0. A thread knows where its
   pieces lie if they have at least LEAST bytes, and works out others each time. */
template <int R, bool ASYNC, int BYTES = CKCI_DEPTH_DOWN_BYTES, int LEAST = 16, bool ALONE = false>
struct ckci_k_depth_rows {
    enum { STAGES = ASYNC ? 4 : 2, ROW = BYTES, STAGE = R * ROW, KEPT = ROW / 256 / LEAST };
    enum { LAST = ALONE ? 0 : (STAGES - 1) * STAGE }; /* the last stage in LDS */
    static_assert(!ASYNC || !ALONE, "copies on their way have their places");

    struct lds {
        alignas(16) unsigned char stage[LAST + STAGE];
        int32_t at[CKCI_DEPTH_DOWN_POSITIONS]; /* bytes from row to position; < 0: outside */
    };

    int32_t write;       /* the stage that comes next */
    int32_t piece[KEPT]; /* bytes from row; < 0: outside; NONE: there is none */
    uint32_t held[ASYNC ? 1 : ROW / 256 / 4];
    enum { NONE = INT32_MIN };

    /* Piece i of a thread. inside: bytes of channels that exist. */
    static CKCI_K_MEMBER int32_t find(const lds &m, const ckci_gpu_depth &p, int32_t vec, int32_t count,
                                      int32_t inside, int32_t i)
    {
        const int32_t e = ckci_k_lane_afresh((int32_t)threadIdx.x + i * 256),
                      q = ckci_k_divide(e, p.by_pieces);
        if (e >= count) {
            return NONE;
        }
        const int32_t byte = (e - q * (int32_t)p.by_pieces.d) * vec, at = m.at[q];
        return at >= 0 && byte < inside ? at + byte : -1;
    }

    /* `at` is written. */
    CKCI_K_MEMBER void start(const lds &m, const ckci_gpu_depth &p, int32_t vec, int32_t count,
                             int32_t inside)
    {
        static_assert(KEPT >= 2, "what others are worked out from");
        write = 0;
        CKCI_K_UNROLL(16)
        for (int i = 0; i < KEPT; i++) {
            piece[i] = vec >= LEAST ? find(m, p, vec, count, inside, i) : i == 0 ? inside : count;
        }
    }

    /* Pieces of B bytes: i of 256 threads each. from: of row 0. */
    template <int B>
    CKCI_K_MEMBER void pieces(lds &m, const ckci_gpu_depth &p, const unsigned char *from, int32_t step,
                              int32_t length, int32_t y)
    {
        constexpr int COUNT = ROW / 256 / B;
        CKCI_K_UNROLL(32)
        for (int i = 0; i < COUNT; i++) {
            const int32_t at =
                B >= LEAST ? ckci_k_lane_afresh(piece[i % KEPT]) : find(m, p, B, piece[1], piece[0], i);
            if (ASYNC && at == NONE) {
                break;
            }
            CKCI_K_UNROLL(2)
            for (int r = 0; r < R; r++) {
                const bool some = at >= 0 && (uint32_t)(y + r) < (uint32_t)length;
                const unsigned char *src = from + (uint32_t)(some ? (y + r) * step + at : 0);
                if constexpr (ASYNC) { /* even a copy of nothing has an address */
                    ckci_k_copy_async<B>(m.stage + write + r * ROW + ((int)threadIdx.x + i * 256) * B, src,
                                         some);
                } else {
                    static_assert(R == 1, "registers hold one row");
                    ckci_k_uint4 v = {0, 0, 0, 0};
                    if (some) {
                        if constexpr (B == 16) {
                            v = *(const ckci_k_uint4 *)src;
                        } else if constexpr (B == 8) {
                            const ckci_k_uint2 two = *(const ckci_k_uint2 *)src;
                            v.x = two.x;
                            v.y = two.y;
                        } else {
                            v.x = ckci_k_load_bits(src, B);
                        }
                    }
                    if constexpr (B == 2) {
                        held[i / 2] = i % 2 ? held[i / 2] | v.x << 16 : v.x;
                    } else {
                        const uint32_t words[4] = {v.x, v.y, v.z, v.w};
                        CKCI_K_UNROLL(4)
                        for (int k = 0; k < B / 4; k++) {
                            held[i * (B / 4) + k] = words[k];
                        }
                    }
                }
            }
        }
    }

    /* The same with ASYNC, of less than LEAST bytes each: rarer, and so in little code. */
    CKCI_K_MEMBER void small_pieces(lds &m, const ckci_gpu_depth &p, const unsigned char *from, int32_t step,
                                    int32_t length, int32_t y, int32_t vec)
    {
        unsigned char *to = m.stage + write + (int)threadIdx.x * vec;
        CKCI_K_UNROLL(1)
        for (int32_t i = 0;; i += 2) {
            const int32_t at[2] = {find(m, p, vec, piece[1], piece[0], i),
                                   find(m, p, vec, piece[1], piece[0], i + 1)};
            CKCI_K_UNROLL(2)
            for (int k = 0; k < 2; k++) {
                if (at[k] == NONE) {
                    return;
                }
                CKCI_K_UNROLL(2)
                for (int r = 0; r < R; r++) {
                    const bool some = at[k] >= 0 && (uint32_t)(y + r) < (uint32_t)length;
                    const unsigned char *src = from + (uint32_t)(some ? (y + r) * step + at[k] : 0);
                    if (LEAST > 8 && vec == 8) {
                        ckci_k_copy_async<8>(to + r * ROW, src, some);
                    } else if (vec == 4) {
                        ckci_k_copy_async<4>(to + r * ROW, src, some);
                    } else {
                        *(uint16_t *)(to + r * ROW) = some ? *(const uint16_t *)src : (uint16_t)0;
                    }
                }
                to += 256 * vec;
            }
        }
    }

    /* What pieces has read, into LDS. */
    template <int B> CKCI_K_MEMBER void land(lds &m)
    {
        const int32_t t = (int32_t)threadIdx.x;
        unsigned char *to = m.stage + write + t * B;
        CKCI_K_UNROLL(32)
        for (int i = 0; i < ROW / 256 / B; i++) {
            if constexpr (B == 16) {
                const ckci_k_uint4 v = {held[4 * i], held[4 * i + 1], held[4 * i + 2], held[4 * i + 3]};
                *(ckci_k_uint4 *)(to + i * 256 * B) = v;
            } else if constexpr (B == 8) {
                const ckci_k_uint2 v = {held[2 * i], held[2 * i + 1]};
                *(ckci_k_uint2 *)(to + i * 256 * B) = v;
            } else if constexpr (B == 4) {
                *(uint32_t *)(to + i * 256 * B) = held[i];
            } else {
                *(uint16_t *)(to + i * 256 * B) = (uint16_t)(held[i / 2] >> 16 * (i % 2));
            }
        }
    }

    /* Rows y and, with R, the next set out, of `length`, `step` bytes apart, in pieces of `vec` bytes.
       commit() follows. */
    CKCI_K_MEMBER void push(lds &m, const ckci_gpu_depth &p, const unsigned char *from, int32_t step,
                            int32_t length, int32_t y, bool wanted, int32_t vec)
    {
        if (wanted) {
            if (vec == 16) {
                pieces<16>(m, p, from, step, length, y);
            } else if ((!ASYNC || LEAST <= 8) && vec == 8) {
                pieces<8>(m, p, from, step, length, y);
            } else if constexpr (ASYNC) {
                small_pieces(m, p, from, step, length, y, vec);
            } else if (vec == 4) {
                pieces<4>(m, p, from, step, length, y);
            } else {
                pieces<2>(m, p, from, step, length, y);
            }
        }
        if constexpr (ASYNC) {
            write = write == LAST ? 0 : write + STAGE;
        }
    }

    /* What set out first goes on into LDS. arrive() follows. ALONE: when all threads are through with what
       is there. */
    CKCI_K_MEMBER void settle(lds &m, int32_t vec)
    {
        if constexpr (!ASYNC) {
            if (vec == 16) {
                land<16>(m);
            } else if (vec == 8) {
                land<8>(m);
            } else if (vec == 4) {
                land<4>(m);
            } else {
                land<2>(m);
            }
            write = write == LAST ? 0 : write + STAGE;
        }
    }

    static CKCI_K_MEMBER void commit()
    {
        if constexpr (ASYNC) {
            ckci_k_copies_end();
        }
    }

    /* It is there for all threads, who have left the stage that comes next. */
    static CKCI_K_MEMBER void arrive()
    {
        if constexpr (ASYNC) {
            ckci_k_copies_wait<STAGES - 2>();
        }
        __syncthreads();
    }
};

/* Which strip of a block a thread takes, and (lane) which channels; lanes_p: none. WHOLE (AMD): 32 threads,
   whose loads from LDS are one access, have a stretch of one strip where there is one, and what remains of
   all strips comes last. */
template <bool WHOLE> CKCI_K_FN int32_t ckci_k_depth_slot(const ckci_gpu_depth &p, int32_t t, int32_t &lane)
{
    if constexpr (WHOLE) {
        const int32_t high = ckci_k_divide(t, p.by_whole), u = t - p.whole, low = ckci_k_divide(u, p.by_rest);
        const int32_t before = t - high * (int32_t)p.by_whole.d;
        const int32_t after = u - low * (int32_t)p.by_rest.d + (int32_t)p.by_whole.d;
        lane = u < 0 ? before : after;
        return lane >= p.lanes_c ? p.lanes_p : u < 0 ? high : low;
    }
    const int32_t slot = ckci_k_divide(t, p.by_lanes_c);
    lane = t - slot * p.lanes_c;
    return slot;
}

/* Where a block stands in a column, and a thread in it. */
struct ckci_k_depth_stand {
    int32_t channel, y, rows; /* of the block: the first channel and row, rows to come */
    int32_t before, before_x; /* its first position: in which image, which of its padded row */
    int32_t at, lane;         /* position of the thread in LDS, its channels */
    int32_t twice;            /* outputs that the strip before has, too */
    ckci_k_place first;       /* its first output */
    bool active;
};

template <int V, int XO, bool WHOLE, bool STRETCHES>
CKCI_K_FN ckci_k_depth_stand ckci_k_depth_find(const ckci_gpu_depth &args, int32_t t, int32_t block,
                                               int32_t row, int32_t end)
{
    const ckci_gpu_depth &p = ckci_k_late(args);
    ckci_k_depth_stand a;
    const int32_t team = ckci_k_divide(block, p.by_tiles_c);
    const int32_t group = ckci_k_divide(row, p.dim[1].count[0]);
    int32_t slot, lane = 0;
    if constexpr (STRETCHES) {
        slot = ckci_k_depth_slot<true>(p, t, lane);
    } else { /* NVIDIA */
        slot = ckci_k_divide(t, p.by_lanes_c);
    }
    a.channel = (block - team * p.tiles_c) * p.lanes_c * V;
    a.y = row - group * p.dim[1].length;
    a.rows = p.dim[1].length - a.y < end - row ? p.dim[1].length - a.y : end - row;
    const int32_t pair = group * p.lanes_p, mine = pair + slot;
    a.before = ckci_k_divide(pair, p.by_strips);
    a.before_x = (pair - a.before * p.strips) * XO;
    const int32_t last = WHOLE ? p.dim[2].length - XO : a.before_x;
    a.before_x = a.before_x < last ? a.before_x : last;
    const int32_t image = ckci_k_divide(mine, p.by_strips), strip = (mine - image * p.strips) * XO;
    const int32_t x = WHOLE && strip > last ? last : strip;
    a.twice = strip - x;
    const int32_t n = ckci_k_divide(image, p.dim[0].count[0]);
    a.first = {n, image - n * p.dim[0].length, a.y, x};
    a.active = slot < p.lanes_p && n < p.n && x < p.dim[2].length &&
               a.channel + (STRETCHES ? lane : t - slot * p.lanes_c) * V < p.g;
    a.lane = STRETCHES ? lane : t - slot * p.lanes_c;
    a.at = a.active ? (image - a.before) * p.pitch + x - a.before_x : 0;
    return a;
}

/* Bytes from a row of t to the positions of a block: places of padded rows, `pad` before the first; `length`
   exist, planes are `step` apart. */
template <class S>
CKCI_K_FN void ckci_k_depth_positions(const ckci_gpu_depth &p, const ckci_tensor &t, int32_t *at,
                                      const ckci_k_depth_stand &own, int32_t pad, int32_t length,
                                      int32_t step, int32_t i)
{
    if (i < CKCI_DEPTH_DOWN_POSITIONS) {
        const int32_t image = ckci_k_divide(own.before_x + i, p.by_pitch), one = own.before + image;
        const int32_t x = own.before_x + i - image * p.pitch - pad;
        const int32_t n = ckci_k_divide(one, p.dim[0].count[0]), z = (one - n * p.dim[0].length) * step;
        const ckci_k_place q = {n, z, 0, x};
        at[i] = n < p.n && (uint32_t)x < (uint32_t)length ? ckci_k_depth_at<S>(t, own.channel, q) : -1;
    }
}

/* N words of LDS, `pitch` bytes apart, as numbers; the first `none` of them count as 0. */
template <int N, class S, int V>
CKCI_K_FN void ckci_k_depth_line(const unsigned char *from, int32_t pitch, int32_t none, typename S::T *v,
                                 int32_t bf16)
{
    ckci_k_vec<S, V> raw[N];
    CKCI_K_UNROLL(16)
    for (int i = 0; i < N; i++) {
        raw[i].load(from + ckci_k_afresh(i * pitch)); /* else a product of each lane, slow on AMD */
    }
    if (none > 0) {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < N; i++) {
            raw[i].w[0] = i < none ? 0 : raw[i].w[0];
        }
    }
    ckci_k_depth_widen<N>(raw, v, bf16);
}

/* LDS of rows and N weights; SHARED: the same for both, one after the other. */
template <class Rows, class T, int N, bool SHARED> struct ckci_k_depth_taps_beside {
    Rows rows;
    alignas(16) T w[N];
};

template <class Rows, class T, int N> struct ckci_k_depth_taps_beside<Rows, T, N, true> {
    union {
        Rows rows;
        alignas(16) T w[N];
    };
};
