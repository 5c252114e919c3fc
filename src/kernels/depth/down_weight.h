/*------------------------------------------------------------------------------------------------------------
  >>k-depth-down-weight
  bwd_weight of what down computes: 3 x 3 and 5 x 5, channels last. Rows of inputs and of dout come through
  LDS; a thread has all F x F sums of its channels in registers for all rows of its block. The sums of a
  block's threads are folded in fixed order (>>k-depth-weight) into a part of its own.
*/
#pragma once
#include "kernels/depth/rows.h"
#include "kernels/depth/weight.h"

/* bwd_weight of the same, filters of 3 x 3 and 5 x 5. Rows of inputs and of dout come through LDS, dout where
   the first tap of an output lies. A thread has all F x F sums of V channels in registers, for all rows of
   its block: each row of inputs meets the last F rows of a strip of dout, which stay in registers as they are
   multiplied, in F places that take turns. The last strip of a row overlaps the one before it; what both have
   is 0 in it. */
template <class S, int F, bool ASYNC> struct ckci_k_depth_down_weight_by {
    typedef typename S::T T;
    enum { V = 4 / S::SIZE, XO = CKCI_DEPTH_DOWN_STRIP(S::SIZE, F, 1), WINDOW = XO + F - 1 };
    typedef ckci_k_depth_rows<1, ASYNC> source;

    struct lds {
        typename source::lds inputs, douts;
        ckci_k_depth_sums<T, V, F * F, !ASYNC> sums;
    };

    /* Row r of a column with `rows` of dout: the newest is in place r % F = TURN. Rows of dout that the
       column does not have meet nothing, nor do rows outside the image. */
    template <int TURN>
    static CKCI_K_MEMBER void multiply(T *c, const T *d, const unsigned char *from, int32_t pitch, int32_t r,
                                       int32_t rows, int32_t bf16)
    {
        T v[WINDOW * V];
        ckci_k_depth_line<WINDOW, S, V>(from, pitch, 0, v, bf16);
        CKCI_K_UNROLL(8)
        for (int y = 0; y < F; y++) {
            if (r - y >= 0 && r - y < rows) {
                const T *left = d + (TURN + F - y) % F * XO * V;
                CKCI_K_UNROLL(8)
                for (int i = 0; i < XO; i++) {
                    CKCI_K_UNROLL(8)
                    for (int x = 0; x < F; x++) {
                        CKCI_K_UNROLL(4)
                        for (int l = 0; l < V; l++) {
                            T &sum = c[(y * F + x) * V + l];
                            sum = ckci_k_fma(left[i * V + l], v[(i + x) * V + l], sum);
                        }
                    }
                }
            }
        }
    }

    /* State of a walk down a column. */
    struct walk {
        source inputs, douts;
        int32_t y, first, rows, r, read; /* of inputs, of dout; rows of dout; the row that comes; its stage */
        int32_t a_step, b_step, vec;

        CKCI_K_MEMBER void push(lds &m, const ckci_gpu_depth &p, int32_t row)
        {
            inputs.push(m.inputs, p, p.b.p, b_step, p.dim[1].read_len, y + row, row < rows + F - 1, vec);
            douts.push(m.douts, p, p.a.p, a_step, p.dim[1].length, first + row, row < rows, vec);
            source::commit();
        }
    };

    /* What row r of a thread's strip adds. Its dout takes place `turn`, which is TURN or a later one. */
    template <int TURN>
    static CKCI_K_MEMBER void add(const ckci_gpu_depth &args, const lds &m, const walk &w, T *c, T *d,
                                  int32_t turn, int32_t mine, int32_t twice)
    {
        if constexpr (TURN < F - 1) {
            if (turn > TURN) {
                add<TURN + 1>(args, m, w, c, d, turn, mine, twice);
                return;
            }
        }
        const ckci_gpu_depth &p = ckci_k_late(args);
        const int32_t pitch = p.lanes_c * 4;
        if (w.r < w.rows) {
            ckci_k_depth_line<XO, S, V>(m.douts.stage + w.read + mine, pitch, twice, d + TURN * XO * V,
                                        p.bf16);
        }
        if ((uint32_t)(w.y + w.r) < (uint32_t)p.dim[1].read_len) {
            multiply<TURN>(c, d, m.inputs.stage + w.read + mine, pitch, w.r, w.rows, p.bf16);
        }
    }

    /* Rows from..end of all columns, of one column. */
    static CKCI_K_MEMBER int32_t column(const ckci_gpu_depth &args, lds &m, T *c, int32_t from,
                                        int32_t to_row)
    {
        const ckci_gpu_depth &p = ckci_k_late(args); /* scalar registers hold no more, here and below */
        const int32_t t = (int32_t)threadIdx.x;
        const ckci_k_depth_stand own =
            ckci_k_depth_find<V, XO, true, !ASYNC>(p, t, (int32_t)blockIdx.x, from, to_row);
        const int32_t twice = own.active ? own.twice : 0;
        __syncthreads(); /* the column before */
        ckci_k_depth_positions<S>(p, p.b, m.inputs.at, own, p.dim[2].pad, p.dim[2].read_len, p.dim[0].stride,
                                  t);
        ckci_k_depth_positions<S>(p, p.a, m.douts.at, own, 0, p.dim[2].length, 1, t);
        __syncthreads();
        walk w;
        w.vec = p.a_vec;
        w.inputs.start(m.inputs, p, w.vec, p.pieces, (p.g - own.channel) * (int32_t)S::SIZE);
        w.douts.start(m.douts, p, w.vec, p.pieces, (p.g - own.channel) * (int32_t)S::SIZE);
        w.y = own.y - p.dim[1].pad;
        w.first = own.y;
        w.rows = own.rows;
        w.read = 0;
        w.a_step = (int32_t)p.a.stride[4] * (int32_t)S::SIZE;
        w.b_step = (int32_t)p.b.stride[4] * (int32_t)S::SIZE;
        T d[F * XO * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * XO * V; i++) {
            d[i] = 0;
        }
        const int32_t mine = own.at * p.lanes_c * 4 + own.lane * 4;
        /* copies stand once, for the rows that are ahead, too */
        int32_t turn = 0;
        CKCI_K_UNROLL(1)
        for (w.r = 1 - source::STAGES; w.r < w.rows + F - 1; w.r++) {
            if (w.r >= 0) {
                w.inputs.settle(m.inputs, w.vec);
                w.douts.settle(m.douts, w.vec);
                source::arrive();
            }
            w.push(m, ckci_k_late(p), w.r + source::STAGES - 1);
            if (w.r < 0) {
                continue;
            }
            if (own.active) {
                add<0>(p, m, w, c, d, turn, mine, twice);
            }
            turn = turn == F - 1 ? 0 : turn + 1;
            w.read = w.read == source::LAST ? 0 : w.read + source::STAGE;
        }
        return from + own.rows;
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        const int32_t t = (int32_t)threadIdx.x, part = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c);
        const int32_t first = part * p.walk, end = p.all - first < p.walk ? p.all : first + p.walk;
        T c[F * F * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * F * V; i++) {
            c[i] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t row = first; row < end;) {
            row = column(p, m, c, row, end);
        }
        int32_t lane;
        const int32_t slot = ckci_k_depth_slot<!ASYNC>(p, t, lane);
        const int32_t channel = (((int32_t)blockIdx.x - part * p.tiles_c) * p.lanes_c + lane) * V;
        ckci_k_depth_member w = {slot, lane, 0, channel, part, 0, 0, 0, slot < p.lanes_p && channel < p.g};
        ckci_k_depth_fold<S, T, V, F, F, 1, !ASYNC>(p, m.sums, c, w, false);
    }
};

template <class S, int F>
struct ckci_k_depth_down_weight
    : ckci_k_by_vendor<ckci_k_depth_down_weight_by<S, F, true>, ckci_k_depth_down_weight_by<S, F, false>> {
};

template <class S, int F> struct ckci_k_resident<ckci_k_depth_down_weight<S, F>> {
    enum { BLOCKS = 2 };
};
