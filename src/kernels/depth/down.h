/*------------------------------------------------------------------------------------------------------------
  >>k-depth-down
  fwd and bwd_data of F x F, channels last: blocks walk down columns of rows, which lie in LDS. One copy of a
  row serves all threads that need it, and each row is read once for all the rows of outputs that it belongs
  to, which a thread keeps in registers. A block owns the outputs of its columns and channels.
*/
#pragma once
#include "kernels/depth/rows.h"

/* fwd, bwd_data with stride and dilation 1, channels last, filters of F x F in a plane. A block walks down a
   column of rows: lanes_c words of 4 bytes of channels, V = 4 / SIZE each, beside each other, and `lanes_p`
   strips of XO outputs, which follow each other through the same row of one image and the next. Inputs come
   row by row through LDS, a position beside the other, and one copy serves all threads. Each row is added to
   the F rows of outputs that it belongs to: those lie in registers and move up a row with the first tap.
   Weights are in registers (F = 3) or in LDS, as they are multiplied. All blocks own the same number of rows
   (walk), which go on in the next column; F - 1 rows more are read for each column that a block begins.
   Neighbouring blocks take neighbouring channels of the same rows, so that lines of memory are read and
   written together. */
template <class S, int F, int XO, bool ASYNC> struct ckci_k_depth_down_by {
    typedef typename S::T T;
    enum {
        V = 4 / S::SIZE,
        FREE = !ASYNC && CKCI_DEPTH_DOWN_FREE(S::SIZE, F), /* LDS has weights until rows come */
        LANES = FREE ? 128 : CKCI_DEPTH_DOWN_LANES(F),
        WINDOW = XO + F - 1,
        HELD = F == 3 || FREE,
        R = HELD && ASYNC ? 2 : 1,
        WEIGHTS = F * F * LANES * V,
        READY = !ASYNC ? 0 : F == 7 && V == 2 ? 1 : 2, /* 1: no register is left to say where factors are */
        NUMBERS = READY == 2 ? 2 * LANES * V : 0       /* of an epilogue with factors, behind the weights */
    };
    typedef ckci_k_depth_rows<R, ASYNC, FREE ? +CKCI_DEPTH_DOWN_MORE : +CKCI_DEPTH_DOWN_BYTES> source;

    typedef ckci_k_depth_taps_beside<typename source::lds, T, WEIGHTS + NUMBERS, FREE> lds;

    static CKCI_K_MEMBER void stage(const ckci_gpu_depth &args, T *to, int32_t channel)
    {
        const ckci_gpu_depth &p = ckci_k_late(args);
        ckci_k_depth_taps w = ckci_k_depth_find_taps<1, F, LANES * V>(p, p.dim[2].gather_back != 0);
        w.first = channel;
        w.used = p.lanes_c * V;
        w.limit = p.g;
        if constexpr (ASYNC || LANES * V < 64) {
            ckci_k_depth_stage<T, false, 256>(w, to, WEIGHTS);
        } else {
            ckci_k_depth_stage_waves<T, 1, F, LANES * V>(w, to);
        }
        const int32_t i = (int32_t)threadIdx.x;
        if (NUMBERS > 0 && p.o.residual == CKCI_RESIDUAL_FACTORS && i < w.used && channel + i < p.g) {
            ckci_k_depth_numbers(p.o, channel + i, to + WEIGHTS + 2 * i);
        }
    }

    /* Weights of a thread, into registers. */
    static CKCI_K_MEMBER void hold(T *f, const T *w)
    {
        CKCI_K_UNROLL(64)
        for (int i = 0; i < F * F; i++) {
            ckci_k_spread<T, V>(w + i * LANES * V, f + i * V);
        }
    }

    /* A row of inputs into all rows of sums, which the first tap moves up. f or w: the weights. */
    static CKCI_K_MEMBER void multiply(T *c, const unsigned char *from, int32_t pitch, const T *f, const T *w,
                                       int32_t bf16)
    {
        T v[WINDOW * V];
        ckci_k_depth_line<WINDOW, S, V>(from, pitch, 0, v, bf16);
        CKCI_K_UNROLL(8)
        for (int s = 0; s < F; s++) {
            CKCI_K_UNROLL(8)
            for (int x = 0; x < F; x++) {
                const int tap = (F - 1 - s) * F + x;
                T one[V];
                ckci_k_spread<T, V>(HELD ? f + tap * V : w + tap * LANES * V, one);
                CKCI_K_UNROLL(32)
                for (int i = 0; i < XO * V; i++) {
                    T before = c[s * XO * V + i];
                    if (x == 0) {
                        before = s + 1 < F ? c[(s + 1) * XO * V + i] : (T)0;
                    }
                    c[s * XO * V + i] = ckci_k_fma(v[x * V + i], one[i % V], before);
                }
            }
        }
    }

    /* Rows from..end of all columns, of one column. */
    static CKCI_K_MEMBER int32_t column(const ckci_gpu_depth &args, lds &m, T *f, int32_t from,
                                        int32_t to_row)
    {
        const int32_t t = (int32_t)threadIdx.x;
        const ckci_gpu_depth &p = ckci_k_late(args); /* scalar registers hold no more, here and below */
        const ckci_k_depth_stand own =
            ckci_k_depth_find<V, XO, false, !ASYNC>(p, t, (int32_t)blockIdx.x, from, to_row);
        const int32_t lane = own.lane, channel = own.channel + lane * V;
        const bool back = p.dim[2].gather_back != 0, active = own.active;
        const int32_t pad_x = back ? F - 1 - p.dim[2].pad : p.dim[2].pad;
        const int32_t pad_y = back ? F - 1 - p.dim[1].pad : p.dim[1].pad;
        __syncthreads(); /* the column before */
        ckci_k_depth_positions<S>(p, p.a, m.rows.at, own, pad_x, p.dim[2].read_len, p.dim[0].read_step, t);
        __syncthreads();
        source next;
        next.start(m.rows, ckci_k_late(p), p.a_vec, p.pieces, (p.g - own.channel) * (int32_t)S::SIZE);
        const int32_t pitch = p.lanes_c * 4;
        const int32_t a_step = (int32_t)p.a.stride[4] * (int32_t)S::SIZE;
        int32_t to = ckci_k_depth_at<S>(p.o.t, channel, own.first);
        const int32_t left = p.dim[2].length - own.first.x;
        /* rows above the image add nothing */
        const int32_t top = own.y - pad_y, end = top + own.rows + F - 1;
        int32_t y = top < 0 ? 0 : top;
        CKCI_K_UNROLL(1)
        for (int i = 0; i < source::STAGES - 1; i++) {
            const ckci_gpu_depth &late = ckci_k_late(p);
            next.push(m.rows, late, late.a.p, a_step, late.dim[1].read_len, y + i * R, y + i * R < end,
                      late.a_vec);
            source::commit();
        }
        ckci_k_depth_ahead<S, V, XO, READY> more;
        more.start(p, channel);
        T c[F * XO * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * XO * V; i++) {
            c[i] = 0;
        }
        if constexpr (HELD && !FREE) {
            hold(f, m.w + lane * V);
        }
        const unsigned char *mine = m.rows.stage + own.at * pitch + lane * 4;
        int32_t read = 0;
        CKCI_K_UNROLL(1)
        for (; y < end; y += R) {
            const ckci_gpu_depth &late = ckci_k_late(p);
            const int32_t ahead = y + (source::STAGES - 1) * R;
            next.settle(m.rows, late.a_vec);
            source::arrive();
            next.push(m.rows, late, late.a.p, a_step, late.dim[1].read_len, ahead, ahead < end, late.a_vec);
            source::commit();
            if (active) {
                CKCI_K_UNROLL(2)
                for (int r = 0; r < R; r++) {
                    const bool done = y + r - top >= F - 1 && y + r < end;
                    more.fetch(late, to, left, done);
                    multiply(c, mine + read + r * source::ROW, pitch, f, HELD ? f : m.w + lane * V,
                             late.bf16);
                    if (done) {
                        auto where = [&] {
                            ckci_k_place q =
                                ckci_k_depth_find<V, XO, false, !ASYNC>(
                                    late, ckci_k_again((int32_t)threadIdx.x),
                                    ckci_k_again((int32_t)blockIdx.x), ckci_k_again(from), to_row)
                                    .first;
                            q.y += y + r - top - (F - 1);
                            return q;
                        };
                        more.listed_at(m.w + WEIGHTS + 2 * V * lane);
                        ckci_k_depth_row_write<S, V, XO, false>(late, c, to, channel, left, where, more);
                        to += (int32_t)late.o.t.stride[4] * (int32_t)S::SIZE;
                    }
                }
            }
            read = read == source::LAST ? 0 : read + source::STAGE;
        }
        return from + own.rows;
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        const int32_t part = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c), first = part * p.walk;
        const int32_t end = p.all - first < p.walk ? p.all : first + p.walk;
        stage(p, m.w, ((int32_t)blockIdx.x - part * p.tiles_c) * p.lanes_c * V);
        T f[HELD ? F * F * V : 1];
        if constexpr (FREE) {
            int32_t lane;
            (void)ckci_k_depth_slot<!ASYNC>(p, (int32_t)threadIdx.x, lane);
            __syncthreads();
            hold(f, m.w + lane * V);
        }
        CKCI_K_UNROLL(1)
        for (int32_t row = first; row < end;) {
            row = column(ckci_k_late(p), m, f, row, end);
        }
    }
};

template <class S, int F, int XO = CKCI_DEPTH_DOWN_STRIP(S::SIZE, F, 0)>
struct ckci_k_depth_down
    : ckci_k_by_vendor<ckci_k_depth_down_by<S, F, XO, true>, ckci_k_depth_down_by<S, F, XO, false>> {
};

template <class S, int F, int XO> struct ckci_k_resident<ckci_k_depth_down<S, F, XO>> {
    enum { BLOCKS = 2 };
};
