/*------------------------------------------------------------------------------------------------------------
  >>k-depth-walk-weight
  bwd_weight of what walk computes: a thread walks down a column of strips with all its F x F sums in
  registers, each row of inputs against the last F rows of dout. The sums of a block's threads are folded in
  fixed order (>>k-depth-weight) into a part of its own.
*/
#pragma once
#include "kernels/depth/window.h"
#include "kernels/depth/weight.h"

/* bwd_weight of the same. A thread walks down a column of strips with all F x F sums (of one z) in registers:
   each row of inputs meets the last F rows of dout, all of which are loaded once. Rows have XO positions at
   least. */
template <class S, int V, int XO, int F, bool PLANES, bool ASYNC> struct ckci_k_depth_walk_weight_by {
    typedef typename S::T T;
    enum {
        WINDOW = PLANES ? XO + 8 : XO + F - 1,
        BEFORE = PLANES ? 4 - (F - 1) / 2 : 0,
        DEPTH = CKCI_K_DEPTH_AHEAD
    };
    enum { WIDE = F == 3 };                 /* rows of dout are kept as they are multiplied */
    enum { HELD = F == 3 || S::SIZE == 2 }; /* else registers have no room for a row ahead */
    typedef ckci_k_depth_window<S, V, WINDOW, PLANES> window;
    typedef ckci_k_depth_window<S, V, XO, PLANES> strip;
    typedef ckci_k_depth_ring<window, ASYNC, DEPTH, HELD> window_ring;
    typedef ckci_k_depth_ring<strip, ASYNC, DEPTH, HELD> strip_ring;

    struct lds {
        ckci_k_depth_sums<T, V, F * F> sums;
        typename window_ring::lds windows;
        typename strip_ring::lds strips;
    };

    /* Rows of dout, the newest last. */
    struct history {
        T wide[WIDE ? F : 1][XO * V];
        strip narrow[WIDE ? 1 : F];

        CKCI_K_MEMBER void clear()
        {
            CKCI_K_UNROLL(8)
            for (int k = 0; k < F; k++) {
                if constexpr (WIDE) {
                    CKCI_K_UNROLL(32)
                    for (int i = 0; i < XO * V; i++) {
                        wide[k][i] = 0;
                    }
                } else {
                    narrow[k].load(nullptr, 0, 0, 0, 2, 0);
                }
            }
        }

        CKCI_K_MEMBER void add(const strip &row, int32_t bf16)
        {
            CKCI_K_UNROLL(8)
            for (int k = 0; k + 1 < F; k++) {
                if constexpr (WIDE) {
                    CKCI_K_UNROLL(32)
                    for (int i = 0; i < XO * V; i++) {
                        wide[k][i] = wide[k + 1][i];
                    }
                } else {
                    narrow[k] = narrow[k + 1];
                }
            }
            if constexpr (WIDE) {
                row.widen(wide[F - 1], bf16);
            } else {
                narrow[F - 1] = row;
            }
        }
    };

    /* row: the newest of dout; those outside the column do not exist. */
    static CKCI_K_MEMBER void multiply(T *c, const history &left, const window &right, int32_t row,
                                       int32_t rows, int32_t bf16)
    {
        T v[WINDOW * V];
        right.widen(v, bf16);
        CKCI_K_UNROLL(8)
        for (int y = 0; y < F; y++) {
            if (row - y < 0 || row - y >= rows) {
                continue; /* nothing may meet the 0 of a missing dout */
            }
            T d[XO * V];
            if constexpr (WIDE) {
                CKCI_K_UNROLL(32)
                for (int i = 0; i < XO * V; i++) {
                    d[i] = left.wide[F - 1 - y][i];
                }
            } else {
                left.narrow[F - 1 - y].widen(d, bf16);
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < XO; i++) {
                CKCI_K_UNROLL(8)
                for (int x = 0; x < F; x++) {
                    CKCI_K_UNROLL(4)
                    for (int l = 0; l < V; l++) {
                        T &sum = c[(y * F + x) * V + l];
                        sum = ckci_k_fma(d[i * V + l], v[(BEFORE + i + x) * V + l], sum);
                    }
                }
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        int32_t t = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x;
        int32_t rest = ckci_k_divide(t, p.by_lanes_c), lane = t - rest * p.lanes_c;
        int32_t slot = ckci_k_divide(rest, p.by_lanes_u), lane_u = rest - slot * p.lanes_u;
        int32_t up = ckci_k_divide(block, p.by_tiles_u), fz = (block - up * p.tiles_u) * p.lanes_u + lane_u;
        int32_t part = ckci_k_divide(up, p.by_tiles_c), tile = up - part * p.tiles_c;
        int32_t channel = (tile * p.lanes_c + lane) * V;
        bool active = slot < p.lanes_p && channel < p.g && fz < p.units;
        int32_t all = p.n * p.dim[0].length * p.tiles_x * p.strips;
        int32_t from = part * p.part, to = all - from < p.part ? all : from + p.part;
        int32_t a_step = (int32_t)p.a.stride[5] * S::SIZE, b_step = (int32_t)p.b.stride[5] * S::SIZE;
        int32_t a_row = (int32_t)p.a.stride[4] * (int32_t)S::SIZE,
                b_row = (int32_t)p.b.stride[4] * (int32_t)S::SIZE;
        T c[F * F * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * F * V; i++) {
            c[i] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t i = from + slot; i < to && active; i += p.lanes_p) {
            int32_t line = ckci_k_divide(i, p.by_strips), first = (i - line * p.strips) * XO;
            /* the last strip overlaps the one before it */
            int32_t x = first + XO > p.dim[2].length ? p.dim[2].length - XO : first;
            int32_t above = ckci_k_divide(line, p.by_tiles_x), y = (line - above * p.tiles_x) * p.walk;
            int32_t n = ckci_k_divide(above, p.dim[0].count[0]), z = above - n * p.dim[0].length;
            int32_t in_z = z * p.dim[0].stride + fz * p.dim[0].dilation - p.dim[0].pad;
            if ((uint32_t)in_z >= (uint32_t)p.dim[0].read_len) {
                continue;
            }
            int32_t rows = p.dim[1].length - y < p.walk ? p.dim[1].length - y : p.walk;
            int32_t in_y = y - p.dim[1].pad, in_x = x - p.dim[2].pad - BEFORE;
            uint32_t a_mask = ((1u << XO) - 1) & ~((1u << (first - x)) - 1);
            uint32_t b_mask = ckci_k_depth_inside(in_x, p.dim[2].read_len, WINDOW);
            ckci_k_place a_first = {n, z, y, x}, b_first = {n, in_z, in_y, in_x};
            int32_t a = ckci_k_depth_at<S>(p.a, channel, a_first);
            int32_t b = ckci_k_depth_at<S>(p.b, channel, b_first);
            history left;
            left.clear();
            ckci_k_copies_wait<0>(); /* those of the last column, which nobody took */
            window_ring windows;
            strip_ring strips;
            windows.start(m.windows);
            strips.start(m.strips);
            CKCI_K_UNROLL(1)
            for (int32_t r = -window_ring::AHEAD; r < rows + F - 1; r++) {
                window right;
                strip newest;
                auto pop = [&] {
                    if (r >= 0) {
                        ckci_k_copies_wait<DEPTH - 2>();
                        strips.pop(newest);
                        windows.pop(right);
                    }
                };
                if constexpr (window_ring::AHEAD > 0) {
                    pop();
                }
                int32_t ahead = r + window_ring::AHEAD;
                strips.push(p.a.p, a, a_step, a_mask, ahead < rows, p.o_vec, p.g - channel);
                windows.push(p.b.p, b, b_step, b_mask,
                             (uint32_t)in_y < (uint32_t)p.dim[1].read_len && ahead < rows + F - 1, p.a_vec,
                             p.g - channel);
                ckci_k_copies_end();
                a += a_row;
                b += b_row;
                in_y++;
                if constexpr (window_ring::AHEAD == 0) {
                    pop();
                }
                if (r >= 0) {
                    left.add(newest, p.bf16);
                    multiply(c, left, right, r, rows, p.bf16);
                }
            }
        }
        ckci_k_depth_member w = {slot, lane, lane_u, channel, part, fz, 0, 0, active};
        ckci_k_depth_fold<S, T, V, F, F>(p, m.sums, c, w, false);
    }
};

template <class S, int V, int XO, int F, bool PLANES>
struct ckci_k_depth_walk_weight
    : ckci_k_by_vendor<ckci_k_depth_walk_weight_by<S, V, XO, F, PLANES, PLANES || F != 3>,
                       ckci_k_depth_walk_weight_by<S, V, XO, F, PLANES, false>> {
};

/* AMD takes sheets. */
template <class S>
struct ckci_k_depth_walk_weight<S, 1, 8, 5, true>
    : ckci_k_by_vendor<ckci_k_depth_walk_weight_by<S, 1, 8, 5, true, true>, ckci_k_nothing> {
};

template <class S, int V, int XO, int F, bool PLANES>
struct ckci_k_resident<ckci_k_depth_walk_weight<S, V, XO, F, PLANES>> {
    enum { BLOCKS = F == 7 ? 1 : 2 };
};
