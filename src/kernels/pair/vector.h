/*------------------------------------------------------------------------------------------------------------
  >>k-pair-vector
  conv_conv_fwd in one launch: the tile loop of the second, 1x1 convolution, whose left operand is not loaded
  but computed: each thread computes mid at four channels of one position (a direct sum, then scale, shift,
  operation and the rounding to the compute type) and stores it into LDS. mid never passes through memory; the
  blocks of the first columns copy it out when the caller asked. Every 64 output channels compute mid again,
  so this is for few output channels, cheap first convolutions, or no workspace.
*/
#pragma once
#include "kernels/vector/direct.h"

/* The axes of a fwd convolution. */
CKCI_K_FN void ckci_k_go_forward(const ckci_gpu_conv &p, ckci_k_block &b)
{
    CKCI_K_UNROLL(3)
    for (int i = 0; i < 3; i++) {
        b.axis[i] = ckci_k_forward(p.dim[i]);
    }
}

/* ckci_k_find_block of one, without the code of bwd_data. */
CKCI_K_FN ckci_k_block ckci_k_find_forward(const ckci_gpu_conv &p, int tile_m, int tile_n)
{
    ckci_k_block b;
    const int32_t work = (int32_t)blockIdx.x, rest = ckci_k_divide(work, p.by_tiles_n);
    b.column = (work - rest * p.tiles_n) * tile_n;
    b.group = ckci_k_divide(rest, p.by_tiles_m);
    b.row = (rest - b.group * p.tiles_m) * tile_m;
    ckci_k_go_forward(p, b);
    return b;
}

/* From a position of the second convolution's result to the one of mid that a tap reads; false: padding. */
CKCI_K_FN bool ckci_k_mid_place(const ckci_gpu_conv &p, const ckci_k_axis axis[3], const ckci_k_tap &tap,
                                ckci_k_place *q)
{
    q->z = q->z * p.dim[0].read_step + axis[0].read0 + tap.z * p.dim[0].read_tap;
    q->y = q->y * p.dim[1].read_step + axis[1].read0 + tap.y * p.dim[1].read_tap;
    q->x = q->x * p.dim[2].read_step + axis[2].read0 + tap.x * p.dim[2].read_tap;
    return (uint32_t)q->z < (uint32_t)p.dim[0].read_len && (uint32_t)q->y < (uint32_t)p.dim[1].read_len &&
           (uint32_t)q->x < (uint32_t)p.dim[2].read_len;
}

/* mid at one position, channel of all groups; copies: store it too. */
template <class T>
CKCI_K_FN T ckci_k_mid(const ckci_gpu_pair &a, const ckci_k_place &q, int32_t channel, bool copies)
{
    const ckci_gpu_conv &p = ckci_k_late_again(a.first);
    ckci_k_axis axis[3] = {ckci_k_forward(p.dim[0]), ckci_k_forward(p.dim[1]), ckci_k_forward(p.dim[2])};
    ckci_k_hold(axis);
    axis[1].taps = ckci_k_lane_afresh(axis[1].taps);
    axis[2].taps = ckci_k_lane_afresh(axis[2].taps);
    int32_t group = ckci_k_divide(channel, p.by_columns), column = channel - group * p.columns;
    T v = ckci_k_direct_sum<T, sizeof(T) == 4>(p, axis, group, column, q);
    v = ckci_k_finish_apart<T>(p.o, v, group, q.n, column, q.z, q.y, q.x);
    if (copies) {
        ckci_k_put_apart<T>(p.o, v, group, q.n, column, q.z, q.y, q.x);
    }
    return v;
}

template <class T, int S, int KT, int THREADS> struct ckci_k_pair_a {
    const ckci_gpu_pair &a;
    ckci_k_share s;
    ckci_k_place q;
    int32_t channel0, place;
    bool inside, copies;

    CKCI_K_MEMBER ckci_k_pair_a(const ckci_gpu_pair &pair, const ckci_k_block &b) : a(pair)
    {
        const ckci_gpu_conv &p = pair.second;
        s = ckci_k_make_share<S, THREADS>(true);
        q = ckci_k_row(b.axis, b.row + s.row);
        inside = q.n < p.n;
        inside = ckci_k_mid_place(p, b.axis, ckci_k_tap{0, 0, 0, 0}, &q) && inside;
        channel0 = b.group * p.red;
        copies = pair.write_mid && b.column == 0;
    }

    CKCI_K_MEMBER void fetch(int32_t k0)
    {
        place = k0;
    }

    CKCI_K_MEMBER void store(T *m) const
    {
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 4; i++) {
            int32_t k = place + s.first + i * s.step;
            T v = 0;
            if (inside && k < a.second.red) {
                v = ckci_k_mid<T>(a, q, channel0 + k, copies);
            }
            m[(s.first + i * s.step) * (S + 4) + s.row] = v;
        }
    }
};

template <class T> struct ckci_k_pair {
    typedef ckci_k_tile<T, 64, 16> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_pair &a, lds &m)
    {
        const ckci_gpu_conv &p = a.second;
        ckci_k_block b = ckci_k_find_forward(p, 64, 64);
        ckci_k_pair_a<T, 64, 16, 256> left(a, b);
        CKCI_K_UNROLL(3)
        for (int i = 0; i < 3; i++) { /* one tap */
            const ckci_divisor one = {1, 1, 0};
            b.axis[i].taps = 1;
            b.axis[i].tap0 = 0;
            b.axis[i].by_taps = one;
        }
        ckci_k_gather_b<T, 64, 16, 256> right(p, b, p.red);
        ckci_k_sums<T, 64, 16, 256> sums;
        sums.run(m, left, right, 0, p.red);
        ckci_k_finish_block<T, 64, 16, 256>(p, m, sums);
    }
};

/* The same without tiles, for sums in f64 and int32, and for second filters of more than one tap when there
   is no workspace: a thread owns one output and computes mid where it needs it. */
template <class T> struct ckci_k_recompute {
    struct lds {
        int32_t unused;
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_pair &a, lds &)
    {
        const ckci_gpu_conv &p = a.second;
        int32_t t = (int32_t)threadIdx.x;
        ckci_k_block b = ckci_k_find_forward(p, 1, 1);
        int32_t channel = b.column * p.lanes + (t & (p.lanes - 1)),
                row = b.row * (256 / p.lanes) + t / p.lanes;
        int32_t group = ckci_k_divide(channel, p.by_columns), column = channel - group * p.columns;
        ckci_k_place q = ckci_k_row(b.axis, row), o = q;
        if (group >= p.g || q.n >= p.n) {
            return;
        }
        int64_t wei = group * p.b.stride[0] + column * p.b_column;
        int32_t taps = b.axis[0].taps * b.axis[1].taps * b.axis[2].taps;
        T sum = 0;
        for (int32_t tap = 0; tap < taps; tap++) {
            const ckci_gpu_conv &u = ckci_k_late_again(p);
            ckci_k_go_forward(u, b);
            ckci_k_tap f = ckci_k_find_tap(u, b.axis, tap * u.red);
            q = o;
            if (!ckci_k_mid_place(u, b.axis, f, &q)) {
                continue;
            }
            int64_t at = wei + ckci_k_weight_at(u, b.axis, f);
            for (int32_t k = 0; k < u.red; k++) {
                const bool copies = a.write_mid && ckci_k_lane_afresh(column) == 0;
                T mid = ckci_k_mid<T>(a, q, group * u.red + k, copies);
                sum = ckci_k_fma(mid, ckci_k_plain_value<T>(u.b, at), sum);
                at += u.b_red;
            }
        }
        ckci_k_write<T>(p.o, sum, group, o.n, column, o.z, o.y, o.x);
    }
};
