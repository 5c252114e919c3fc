/*------------------------------------------------------------------------------------------------------------
  >>k-depth-deep
  fwd and bwd_data of 3 x 3 x 3, channels last: blocks walk along planes, which lie in LDS. A block owns a
  tile of a plane and some channels, and all planes of its walk; each plane is read once and added to the
  three planes of outputs that it belongs to. Rows come into LDS as in >>k-depth-rows.
*/
#pragma once
#include "kernels/depth/rows.h"

/* Where a block stands that walks along dimension 0, and a thread in it. */
struct ckci_k_depth_spot {
    int32_t n, z, y, x, rows; /* its first output, rows to come: positions along dimension 0 */
    int32_t row, strip, lane; /* of the thread, in the tile */
    bool active;
};

template <int XO, bool STRETCHES>
CKCI_K_FN ckci_k_depth_spot ckci_k_depth_find_tile(const ckci_gpu_depth &args, int32_t t, int32_t piece)
{
    const ckci_gpu_depth &p = ckci_k_late(args);
    ckci_k_depth_spot a;
    const int32_t row = ckci_k_divide(piece, p.by_tiles_x), plane = ckci_k_divide(row, p.by_tiles_y);
    a.n = ckci_k_divide(plane, p.by_tiles_z);
    a.z = (plane - a.n * p.tiles_z) * p.walk;
    a.y = (row - plane * p.tiles_y) * p.tile_y;
    a.x = (piece - row * p.tiles_x) * p.strips * XO;
    a.rows = p.dim[0].length - a.z < p.walk ? p.dim[0].length - a.z : p.walk;
    const int32_t slot = ckci_k_depth_slot<STRETCHES>(p, t, a.lane);
    a.row = ckci_k_divide(slot, p.by_strips);
    a.strip = slot - a.row * p.strips;
    a.active = slot < p.lanes_p && a.y + a.row < p.dim[1].length && a.x + a.strip * XO < p.dim[2].length;
    return a;
}

/* Bytes from plane 0 of t to position i of a tile, `wide` positions to a row, which begins at y, x. */
template <class S>
CKCI_K_FN int32_t ckci_k_depth_in_tile(const ckci_tensor &t, ckci_divisor wide, int32_t channel, int32_t n,
                                       int32_t y, int32_t x, const int32_t *length, int32_t i)
{
    const int32_t row = ckci_k_divide(i, wide);
    const ckci_k_place q = {n, 0, y + row, x + i - row * (int32_t)wide.d};
    const bool inside = (uint32_t)q.y < (uint32_t)length[0] && (uint32_t)q.x < (uint32_t)length[1];
    return inside ? ckci_k_depth_at<S>(t, channel, q) : -1;
}

/* Planes on their way into LDS. */
template <class S, bool ASYNC>
using ckci_k_depth_deep_source =
    ckci_k_depth_rows<1, ASYNC, ASYNC ? +CKCI_DEPTH_DEEP_BYTES : CKCI_DEPTH_DEEP_ALONE(S::SIZE),
                      ASYNC ? 8 : 4, !ASYNC>;

/* fwd, bwd_data of 3 x 3 x 3 with stride and dilation 1, channels last: as ckci_k_depth_down, but along
   dimension 0. A block owns a tile of a plane, tile_y rows of `strips` strips of XO outputs, and lanes_c
   words of channels, and walks `walk` planes. The tile of inputs, with its border, comes through LDS plane
   by plane; each thread adds its three rows of windows to the three planes of outputs that they belong to:
   those lie in registers and move up a plane with the first tap. Weights are in LDS. Neighbouring blocks take
   neighbouring channels, then neighbouring tiles of the same planes, so that borders come from the caches. */
template <class S, bool ASYNC> struct ckci_k_depth_deep_by {
    typedef typename S::T T;
    enum { F = 3, V = 4 / S::SIZE, XO = CKCI_DEPTH_DEEP_STRIP(S::SIZE, 0), WINDOW = XO + F - 1 };
    enum { LANES = ASYNC ? +CKCI_DEPTH_DEEP_LANES : CKCI_DEPTH_DEEP_MOST(S::SIZE) };
    typedef ckci_k_depth_deep_source<S, ASYNC> source;

    struct lds {
        typename source::lds rows;
        alignas(16) T w[F * F * F * LANES * V];
    };

    static CKCI_K_MEMBER void stage(const ckci_gpu_depth &args, T *to, int32_t channel)
    {
        const ckci_gpu_depth &p = ckci_k_late(args);
        ckci_k_depth_taps w = ckci_k_depth_find_taps<F, F, LANES * V>(p, p.dim[2].gather_back != 0);
        w.first = channel;
        w.used = p.lanes_c * V;
        w.limit = p.g;
        if constexpr (ASYNC) {
            ckci_k_depth_stage<T, false, 256>(w, to, F * F * F * LANES * V);
        } else {
            ckci_k_depth_stage_waves<T, F, F, LANES * V>(w, to);
        }
    }

    /* Three rows of inputs, `rows` bytes apart, into all planes of sums, which the first tap moves up. */
    static CKCI_K_MEMBER void multiply(T *c, const unsigned char *from, int32_t pitch, int32_t rows,
                                       const T *w, int32_t bf16)
    {
        CKCI_K_UNROLL(4)
        for (int y = 0; y < F; y++) {
            T v[WINDOW * V];
            ckci_k_depth_line<WINDOW, S, V>(from + y * rows, pitch, 0, v, bf16);
            CKCI_K_UNROLL(4)
            for (int s = 0; s < F; s++) {
                CKCI_K_UNROLL(4)
                for (int x = 0; x < F; x++) {
                    T one[V];
                    ckci_k_spread<T, V>(w + (((F - 1 - s) * F + y) * F + x) * LANES * V, one);
                    CKCI_K_UNROLL(32)
                    for (int i = 0; i < XO * V; i++) {
                        T before = c[s * XO * V + i];
                        if (y == 0 && x == 0) {
                            before = s + 1 < F ? c[(s + 1) * XO * V + i] : (T)0;
                        }
                        c[s * XO * V + i] = ckci_k_fma(v[x * V + i], one[i % V], before);
                    }
                }
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &args, lds &m)
    {
        const ckci_gpu_depth &p = ckci_k_late(args); /* scalar registers hold no more, here and below */
        const int32_t t = (int32_t)threadIdx.x, piece = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c);
        const int32_t base = ((int32_t)blockIdx.x - piece * p.tiles_c) * p.lanes_c * V;
        const bool back = p.dim[2].gather_back != 0;
        const ckci_k_depth_spot own = ckci_k_depth_find_tile<XO, !ASYNC>(p, t, piece);
        const int32_t channel = base + own.lane * V;
        const bool active = own.active && channel < p.g;
        stage(p, m.w, base);
        if (t < CKCI_DEPTH_DOWN_POSITIONS) {
            const int32_t length[2] = {p.dim[1].read_len, p.dim[2].read_len};
            m.rows.at[t] = ckci_k_depth_in_tile<S>(
                p.a, p.by_pitch, base, own.n, own.y - (back ? F - 1 - p.dim[1].pad : p.dim[1].pad),
                own.x - (back ? F - 1 - p.dim[2].pad : p.dim[2].pad), length, t);
        }
        __syncthreads();
        source next;
        next.start(m.rows, ckci_k_late(p), p.a_vec, p.pieces, (p.g - base) * (int32_t)S::SIZE);
        const int32_t pitch = p.lanes_c * 4, rows = p.pitch * pitch;
        const int32_t a_step = (int32_t)p.a.stride[3] * (int32_t)S::SIZE;
        const ckci_k_place first = {own.n, own.z, own.y + own.row, own.x + own.strip * XO};
        int32_t to = ckci_k_depth_at<S>(p.o.t, channel, first);
        const int32_t left = p.dim[2].length - first.x;
        /* planes before the image add nothing */
        const int32_t top = own.z - (back ? F - 1 - p.dim[0].pad : p.dim[0].pad),
                      end = top + own.rows + F - 1;
        int32_t z = top < 0 ? 0 : top;
        CKCI_K_UNROLL(1)
        for (int i = 0; i < source::STAGES - 1; i++) {
            const ckci_gpu_depth &late = ckci_k_late(p);
            next.push(m.rows, late, late.a.p, a_step, late.dim[0].read_len, z + i, z + i < end, late.a_vec);
            source::commit();
        }
        T c[F * XO * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * XO * V; i++) {
            c[i] = 0;
        }
        const unsigned char *mine =
            m.rows.stage + (own.row * p.pitch + own.strip * XO) * pitch + own.lane * 4;
        const T *w = m.w + own.lane * V;
        int32_t read = 0;
        CKCI_K_UNROLL(1)
        for (; z < end; z++) {
            const ckci_gpu_depth &late = ckci_k_late(p);
            const int32_t ahead = z + source::STAGES - 1;
            if constexpr (!ASYNC) {
                __syncthreads(); /* the plane before */
            }
            next.settle(m.rows, late.a_vec);
            source::arrive();
            next.push(m.rows, late, late.a.p, a_step, late.dim[0].read_len, ahead, ahead < end, late.a_vec);
            source::commit();
            if (active) {
                multiply(c, mine + read, pitch, rows, w, late.bf16);
                if (z - top >= F - 1) {
                    auto where = [&] {
                        const ckci_k_depth_spot tile = ckci_k_depth_find_tile<XO, !ASYNC>(
                            late, ckci_k_again((int32_t)threadIdx.x),
                            ckci_k_divide(ckci_k_again((int32_t)blockIdx.x), ckci_k_late(late).by_tiles_c));
                        const ckci_k_place q = {tile.n, tile.z + z - top - (F - 1), tile.y + tile.row,
                                                tile.x + tile.strip * XO};
                        return q;
                    };
                    ckci_k_depth_row_write<S, V, XO, false>(late, c, to, channel, left, where);
                    to += (int32_t)late.o.t.stride[3] * (int32_t)S::SIZE;
                }
            }
            read = read == source::LAST ? 0 : read + source::STAGE;
        }
    }
};

template <class S>
struct ckci_k_depth_deep : ckci_k_by_vendor<ckci_k_depth_deep_by<S, true>, ckci_k_depth_deep_by<S, false>> {
};

template <class S> struct ckci_k_resident<ckci_k_depth_deep<S>> {
    enum { BLOCKS = 2 };
};
