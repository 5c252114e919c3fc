/*------------------------------------------------------------------------------------------------------------
  >>k-depth-row
  Rows of planes in aligned pieces, channels first: long filters, 1D; fwd, bwd_data and bwd_weight. A thread
  owns eight neighbouring outputs of a row and moves a window of aligned pieces along the filter, so that each
  load is 4 numbers whatever the tap. It takes any number of taps along x: nothing but the window is in
  registers.
*/
#pragma once
#include "kernels/depth/strips.h"
#include "kernels/depth/weight.h"

/* Planes with stride and dilation 1 along x. A thread owns 8 neighbouring outputs of a row and reads the
   inputs beside them in aligned pieces of 4, one load each where rows are aligned: the window holds three
   pieces, and moves on by one for 4 taps. Taps are counted from the first piece on; those before the filter
   and after it are left out, the whole block alike. Strips follow each other through rows, so that the lanes
   of a block read memory in its order. */
template <class S> struct ckci_k_depth_piece {
    typedef typename S::T T;
    ckci_k_vec<S, 4> raw;

    /* 4 numbers from x on, in a row of `length`; vec: aligned, all or none are inside */
    CKCI_K_MEMBER void load(const unsigned char *row, int32_t x, int32_t length, int32_t vec)
    {
        const unsigned char *src = row + (int64_t)x * S::SIZE;
        if (vec) {
            if ((uint32_t)x < (uint32_t)length) {
                raw.load(src);
            } else {
                raw.clear();
            }
            return;
        }
        uint32_t one[4];
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            one[i] = (uint32_t)(x + i) < (uint32_t)length ? ckci_k_load_bits(src + i * S::SIZE, S::SIZE) : 0;
        }
        if constexpr (S::SIZE == 2) {
            raw.w[0] = one[0] | one[1] << 16;
            raw.w[1] = one[2] | one[3] << 16;
        } else {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                raw.w[i] = one[i];
            }
        }
    }
};

/* A strip of planes: its place and those of its rows. */
struct ckci_k_depth_strip {
    ckci_k_place q;
    bool inside;
};

CKCI_K_FN ckci_k_depth_strip ckci_k_depth_find(const ckci_gpu_depth &p, int32_t i, int32_t to)
{
    ckci_k_depth_strip s;
    int32_t line = ckci_k_divide(i, p.by_strips), above = ckci_k_divide(line, p.dim[1].count[0]);
    s.q.x = (i - line * p.strips) * 8;
    s.q.y = line - above * p.dim[1].length;
    s.q.n = ckci_k_divide(above, p.dim[0].count[0]);
    s.q.z = above - s.q.n * p.dim[0].length;
    s.inside = i < to;
    return s;
}

template <class S> struct ckci_k_depth_row {
    typedef typename S::T T;
    typedef ckci_k_depth_lds<T> lds;

    /* Weights of `rows` filter rows from r0 on, in ascending order, `shift` zeros before each row. */
    static CKCI_K_MEMBER void stage(const ckci_gpu_depth &p, lds &m, int32_t g, int32_t r0, int32_t rows,
                                    int32_t shift)
    {
        bool back = p.dim[2].gather_back != 0;
        int32_t taps = p.dim[2].filter, count = rows * p.row_taps;
        for (int32_t e = (int32_t)threadIdx.x; e < count; e += 256) {
            int32_t row = ckci_k_divide(e, p.by_channels), x = e - row * p.row_taps - shift;
            row += r0;
            int32_t z = ckci_k_divide(row, p.dim[1].taps[0]), y = row - z * p.dim[1].filter;
            bool inside = (uint32_t)x < (uint32_t)taps;
            x = back ? taps - 1 - x : x;
            int64_t w = g * p.b.stride[0] + z * p.b.stride[3] + y * p.b.stride[4] + x * p.b.stride[5];
            m.w[e] = inside ? ckci_k_depth_tap<false, T>(p, w) : (T)0;
        }
    }

    /* One row of the filter. x: of the first piece; from, to: its taps, counted from there. */
    static CKCI_K_MEMBER void multiply(T *c, const unsigned char *src, int32_t x, int32_t length, int32_t vec,
                                       const T *w, int32_t from, int32_t to, int32_t bf16)
    {
        ckci_k_depth_piece<S> next;
        T v[12];
        next.load(src, x, length, vec);
        ckci_k_depth_widen<1>(&next.raw, v, bf16);
        next.load(src, x + 4, length, vec);
        ckci_k_depth_widen<1>(&next.raw, v + 4, bf16);
        next.load(src, x + 8, length, vec);
        CKCI_K_UNROLL(1)
        for (int32_t k = 0; k < to; k += 4) {
            ckci_k_depth_widen<1>(&next.raw, v + 8, bf16);
            x += 4;
            next.load(src, x + 8, k + 4 < to ? length : 0, vec);
            T f[4];
            ckci_k_spread<T, 4>(w + k, f);
            if (k >= from && k + 4 <= to) {
                CKCI_K_UNROLL(4)
                for (int j = 0; j < 4; j++) {
                    CKCI_K_UNROLL(8)
                    for (int i = 0; i < 8; i++) {
                        c[i] = ckci_k_fma(v[i + j], f[j], c[i]);
                    }
                }
            } else {
                CKCI_K_UNROLL(4)
                for (int j = 0; j < 4; j++) {
                    if (k + j >= from && k + j < to) {
                        CKCI_K_UNROLL(8)
                        for (int i = 0; i < 8; i++) {
                            c[i] = ckci_k_fma(v[i + j], f[j], c[i]);
                        }
                    }
                }
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 8; i++) {
                v[i] = v[i + 4];
            }
        }
    }

    static CKCI_K_MEMBER void write(const ckci_gpu_depth &p, T *c, int32_t channel, const ckci_k_place &q)
    {
        T e[8];
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            e[i] = c[i];
        }
        const ckci_gpu_target &o = p.o;
        if (p.o_same) {
            const int64_t to = (q.n * o.t.stride[1] + channel * o.t.stride[0] + q.z * o.t.stride[3] +
                                q.y * o.t.stride[4] + q.x * o.t.stride[5]) *
                               S::SIZE;
            unsigned char *dst = o.t.p + to;
            if (o.form != CKCI_FORM_STORE) {
                ckci_k_depth_epilogue<S, 1, 8, true>(p, e, to, o.t.stride[5] * S::SIZE, channel,
                                                     p.dim[2].length - q.x);
            }
            if (p.o_vec) {
                ckci_k_vec<S, 4> v[2];
                ckci_k_depth_narrow<2>(v, e, p.bf16);
                CKCI_K_UNROLL(2)
                for (int i = 0; i < 2; i++) {
                    if (q.x + 4 * i < p.dim[2].length) {
                        v[i].store(dst + 4 * i * S::SIZE);
                    }
                }
                return;
            }
            int64_t step = o.t.stride[5] * S::SIZE;
            ckci_k_vec<S, 1> v[8];
            ckci_k_depth_narrow<8>(v, e, p.bf16);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 8; i++) {
                if (q.x + i < p.dim[2].length) {
                    v[i].store(dst + i * step);
                }
            }
            return;
        }
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 8; i++) {
            if (q.x + i < p.dim[2].length) {
                ckci_k_place at = {q.n, q.z, q.y, q.x + i};
                ckci_k_depth_write<false, T>(p, ckci_k_pick<T, 8>(c, i), channel, at);
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        int32_t block = (int32_t)blockIdx.x, part = ckci_k_divide(block, p.by_tiles_c);
        int32_t channel = block - part * p.tiles_c, filter_rows = p.dim[0].filter * p.dim[1].filter;
        int32_t all = p.n * p.dim[0].length * p.dim[1].length * p.strips;
        int32_t begin = part * p.part, end = all - begin < p.part ? all : begin + p.part;
        bool back = p.dim[2].gather_back != 0;
        int32_t first = back ? p.dim[2].pad - (p.dim[2].filter - 1) : -p.dim[2].pad;
        int32_t shift = first & 3, to = shift + p.dim[2].filter;
        first = ckci_k_lane_afresh(first - shift);
        int64_t row_step = p.dim[1].read_tap * p.a.stride[4] * S::SIZE;
        int64_t plane_step = p.dim[0].read_tap * p.a.stride[3] * S::SIZE - p.dim[1].filter * row_step;
        for (int32_t i = begin; i < end; i += 256) {
            ckci_k_depth_strip s = ckci_k_depth_find(p, i + (int32_t)threadIdx.x, end);
            int32_t z = s.q.z * p.dim[0].read_step + (back ? p.dim[0].pad : -p.dim[0].pad);
            int32_t y = s.q.y * p.dim[1].read_step + (back ? p.dim[1].pad : -p.dim[1].pad);
            const unsigned char *src = p.a.p + (s.q.n * p.a.stride[1] + channel * p.a.stride[0] +
                                                z * p.a.stride[3] + y * p.a.stride[4]) *
                                                   S::SIZE;
            T c[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            int32_t ty = 0;
            for (int32_t r = 0; r < filter_rows; r += p.rows) {
                int32_t rows = filter_rows - r < p.rows ? filter_rows - r : p.rows;
                if (filter_rows > p.rows || i == begin) {
                    __syncthreads();
                    stage(ckci_k_late_again(p), m, channel, r, rows, shift);
                    __syncthreads();
                }
                CKCI_K_UNROLL(1)
                for (int32_t k = 0; k < rows && s.inside; k++) {
                    if ((uint32_t)z < (uint32_t)p.dim[0].read_len &&
                        (uint32_t)y < (uint32_t)p.dim[1].read_len) {
                        multiply(c, src, s.q.x + first, p.dim[2].read_len, p.a_vec, m.w + k * p.row_taps,
                                 shift, to, p.bf16);
                    }
                    src += row_step;
                    y += p.dim[1].read_tap;
                    ty++;
                    if (ty == p.dim[1].filter) {
                        ty = 0;
                        y -= p.dim[1].filter * p.dim[1].read_tap;
                        z += p.dim[0].read_tap;
                        src += plane_step;
                    }
                }
            }
            if (s.inside) {
                write(ckci_k_late_again(p), c, channel, s.q);
            }
        }
    }
};

/* bwd_weight of such planes: a thread sums 8 places of one row of the filter, counted from the first aligned
   piece on. */
template <class S> struct ckci_k_depth_row_weight {
    typedef typename S::T T;
    typedef ckci_k_depth_sums<T, 1, 8> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        int32_t t = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x;
        int32_t lane_u = ckci_k_divide(t, p.by_lanes_c), slot = t - lane_u * p.lanes_c;
        int32_t up = ckci_k_divide(block, p.by_tiles_u), unit = (block - up * p.tiles_u) * p.lanes_u + lane_u;
        int32_t part = ckci_k_divide(up, p.by_tiles_c), channel = up - part * p.tiles_c;
        int32_t row = ckci_k_divide(unit, p.by_groups_x), place = (unit - row * p.groups_x) * 8;
        int32_t fz = ckci_k_divide(row, p.by_rows_y), fy = row - fz * p.dim[1].filter;
        bool active = lane_u < p.lanes_u && unit < p.units;
        int32_t all = p.n * p.dim[0].length * p.dim[1].length * p.strips;
        int32_t from = part * p.part, to = all - from < p.part ? all : from + p.part;
        int32_t first = -p.dim[2].pad, shift = first & 3;
        T c[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        ckci_k_long_sums<T, 8> whole;
        whole.clear();
        CKCI_K_UNROLL(1)
        for (int32_t round = from, stop = from; round + slot < to && active; round += p.lanes_c) {
            if (round >= stop) { /* the same for all threads */
                whole.settle(c);
                stop = round + CKCI_K_STRETCH / 8 * p.lanes_c;
            }
            const int32_t i = round + slot;
            ckci_k_depth_strip s = ckci_k_depth_find(p, i, to);
            int32_t z = s.q.z * p.dim[0].stride + fz * p.dim[0].dilation - p.dim[0].pad;
            int32_t y = s.q.y * p.dim[1].stride + fy * p.dim[1].dilation - p.dim[1].pad;
            if ((uint32_t)z >= (uint32_t)p.dim[0].read_len || (uint32_t)y >= (uint32_t)p.dim[1].read_len) {
                continue;
            }
            const unsigned char *a = p.a.p + (s.q.n * p.a.stride[1] + channel * p.a.stride[0] +
                                              s.q.z * p.a.stride[3] + s.q.y * p.a.stride[4]) *
                                                 S::SIZE;
            const unsigned char *b = p.b.p + (s.q.n * p.b.stride[1] + channel * p.b.stride[0] +
                                              z * p.b.stride[3] + y * p.b.stride[4]) *
                                                 S::SIZE;
            ckci_k_depth_piece<S> left[2], right[4];
            CKCI_K_UNROLL(2)
            for (int k = 0; k < 2; k++) {
                left[k].load(a, s.q.x + 4 * k, p.dim[2].length, p.o_vec);
            }
            CKCI_K_UNROLL(4)
            for (int k = 0; k < 4; k++) {
                right[k].load(b, s.q.x + first - shift + place + 4 * k, p.dim[2].read_len, p.a_vec);
            }
            ckci_k_vec<S, 4> words[6] = {left[0].raw,  left[1].raw,  right[0].raw,
                                         right[1].raw, right[2].raw, right[3].raw};
            T both[24];
            ckci_k_depth_widen<6>(words, both, p.bf16);
            int32_t count = p.dim[2].length - s.q.x;
            CKCI_K_UNROLL(8)
            for (int k = 0; k < 8; k++) {
                if (k < count) { /* nothing may meet the 0 of a missing dout */
                    CKCI_K_UNROLL(8)
                    for (int j = 0; j < 8; j++) {
                        c[j] = ckci_k_fma(both[k], both[8 + k + j], c[j]);
                    }
                }
            }
        }
        whole.finish(c);
        ckci_k_depth_member w = {0, slot, lane_u, channel, part, fz, fy, place - shift, active};
        ckci_k_depth_fold<S, T, 1, 1, 8>(p, m, c, w, true);
    }
};
