/*------------------------------------------------------------------------------------------------------------
  >>k-vector-direct
  Depthwise and few channels per group, where a matrix tile would be mostly padding. fwd and bwd_data: a
  thread owns one output and walks its taps and channels; a block is lanes x (256 / lanes): neighbouring
  threads take neighbouring channels of all groups, or positions, whichever lie together in memory. Nothing
  passes through LDS; neighbours meet in the caches.
  bwd_weight: a block owns `lanes` filters (g, k, c) at one tap, over one part of the positions; the threads
  of a filter share the positions, and their sums are added in LDS in a fixed tree.
*/
#pragma once
#include "kernels/vector/weight.h"

/* ckci_k_value and ckci_k_put where operations on what is read and stores of single numbers are rare: calls
   on NVIDIA, so that their code stands once. */
template <class T> CKCI_K_APART T ckci_k_prepare_apart(const ckci_tensor &t, T x)
{
    return ckci_k_prepare(t, x);
}

template <class T> CKCI_K_FN T ckci_k_plain_value(const ckci_tensor &t, int64_t at)
{
    T x = ckci_k_load<T>(t.dtype, t.p + at * ckci_k_size(t.dtype));
    return t.plain ? x : ckci_k_prepare_apart<T>(t, x);
}

template <class T>
CKCI_K_APART void ckci_k_put_apart(const ckci_gpu_target &o, T x, int32_t g, int32_t n, int32_t c, int32_t z,
                                   int32_t y, int32_t w)
{
    ckci_k_put<T>(o, x, g, n, c, z, y, w);
}

/* APART: operations on what is read are calls. */
template <class T, bool APART>
CKCI_K_FN T ckci_k_direct_sum(const ckci_gpu_conv &p, const ckci_k_axis axis[3], int32_t group,
                              int32_t column, const ckci_k_place &q)
{
    T sum = 0;
    const ckci_gpu_conv &late = ckci_k_late(p);
    int64_t base = group * late.a.stride[0] + q.n * late.a.stride[1];
    int64_t wei = group * late.b.stride[0] + column * late.b_column;
    for (int32_t fz = 0; fz < axis[0].taps; fz++) {
        const ckci_gpu_dim &dz = ckci_k_late_again(p).dim[0];
        int32_t z = q.z * dz.read_step + axis[0].read0 + fz * dz.read_tap;
        const int32_t rows = ckci_k_lane_afresh((uint32_t)z < (uint32_t)dz.read_len ? axis[1].taps : 0);
        for (int32_t fy = 0; fy < rows; fy++) {
            const ckci_gpu_dim &dy = ckci_k_late_again(p).dim[1];
            int32_t y = q.y * dy.read_step + axis[1].read0 + fy * dy.read_tap;
            const int32_t taps = ckci_k_lane_afresh((uint32_t)y < (uint32_t)dy.read_len ? axis[2].taps : 0);
            for (int32_t fx = 0; fx < taps; fx++) {
                int32_t x = q.x * p.dim[2].read_step + axis[2].read0 + fx * p.dim[2].read_tap;
                if ((uint32_t)x >= (uint32_t)p.dim[2].read_len) {
                    continue;
                }
                ckci_k_tap t = {0, fz, fy, fx};
                int64_t at = base + ckci_k_inside(p.a, p.a_narrow, 0, z, y, x);
                int64_t w = wei + ckci_k_weight_at(p, axis, t);
                for (int32_t c = 0; c < p.red; c++) {
                    if constexpr (APART) {
                        sum = ckci_k_fma(ckci_k_plain_value<T>(p.a, at), ckci_k_plain_value<T>(p.b, w), sum);
                    } else {
                        sum = ckci_k_fma(ckci_k_value<T>(p.a, at), ckci_k_value<T>(p.b, w), sum);
                    }
                    at += p.a.stride[2];
                    w += p.b_red;
                }
            }
        }
    }
    return sum;
}

template <class T> struct ckci_k_direct {
    struct lds {
        int32_t unused;
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &)
    {
        int32_t t = (int32_t)threadIdx.x, lane = t & (p.lanes - 1);
        ckci_k_block b = ckci_k_find_block(p, 1, 1);
        int32_t channel = b.column * p.lanes + lane, row = b.row * (256 / p.lanes) + t / p.lanes;
        int32_t group = ckci_k_divide(channel, p.by_columns), column = channel - group * p.columns;
        ckci_k_place q = ckci_k_row(b.axis, row);
        if (group >= p.g || q.n >= p.n) {
            return;
        }
        const int32_t z = b.axis[0].write0 + q.z * p.dim[0].write_step,
                      y = b.axis[1].write0 + q.y * p.dim[1].write_step,
                      x = b.axis[2].write0 + q.x * p.dim[2].write_step;
        ckci_k_hold(b.axis);
        T sum = ckci_k_direct_sum<T, false>(p, b.axis, group, column, q);
        ckci_k_write<T>(p.o, sum, group, q.n, column, z, y, x);
    }
};

template <class T> struct ckci_k_direct_weight {
    struct lds {
        T sum[256];
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        int32_t t = (int32_t)threadIdx.x, lane = t & (p.lanes - 1), share = 256 / p.lanes;
        /* blocks: filters fastest, then taps, then parts */
        int32_t work = (int32_t)blockIdx.x, rest = ckci_k_divide(work, p.by_tiles_n);
        int32_t filter = (work - rest * p.tiles_n) * p.lanes + lane;
        int32_t part = ckci_k_divide(rest, p.by_tiles_m), tap = rest - part * p.tiles_m;
        int32_t gk = ckci_k_divide(filter, p.by_red), c = filter - gk * p.red;
        int32_t group = ckci_k_divide(gk, p.by_channels), k = gk - group * p.rows;
        const ckci_k_tap f = ckci_k_split_tap(p.dim, tap);
        int32_t x0 = f.x * p.dim[2].dilation - p.dim[2].pad, y0 = f.y * p.dim[1].dilation - p.dim[1].pad;
        int32_t z0 = f.z * p.dim[0].dilation - p.dim[0].pad;
        int32_t from = part * p.part + (part < p.part_rest ? part : p.part_rest);
        int32_t to = from + p.part + (part < p.part_rest ? 1 : 0);
        bool inside = group < p.g;
        int64_t dout = group * p.a.stride[0] + k * p.a.stride[2];
        int64_t in = group * p.b.stride[0] + c * p.b.stride[2];
        ckci_k_long_sums<T, 1> whole;
        whole.clear();
        T sum = 0;
        int32_t left = CKCI_K_STRETCH;
        for (int32_t i = from + t / p.lanes; i < to && inside; i += share) {
            ckci_k_place q = ckci_k_decode(i, p.dim[0].count[0], p.dim[1].count[0], p.dim[2].count[0]);
            int32_t z = z0 + q.z * p.dim[0].stride, y = y0 + q.y * p.dim[1].stride,
                    x = x0 + q.x * p.dim[2].stride;
            if ((uint32_t)z < (uint32_t)p.dim[0].read_len && (uint32_t)y < (uint32_t)p.dim[1].read_len &&
                (uint32_t)x < (uint32_t)p.dim[2].read_len) {
                int64_t at = dout + q.n * p.a.stride[1] + ckci_k_inside(p.a, p.a_narrow, 0, q.z, q.y, q.x);
                int64_t from_in = in + q.n * p.b.stride[1] + ckci_k_inside(p.b, p.b_narrow, 0, z, y, x);
                sum = ckci_k_fma(ckci_k_value<T>(p.a, at), ckci_k_value<T>(p.b, from_in), sum);
            }
            if (--left == 0) {
                whole.settle(&sum);
                left = CKCI_K_STRETCH;
            }
        }
        whole.finish(&sum);
        m.sum[t] = sum;
        for (int32_t half = share / 2; half > 0; half /= 2) {
            __syncthreads();
            if (t < half * p.lanes) {
                m.sum[t] = ckci_k_fma((T)1, m.sum[t + half * p.lanes], m.sum[t]);
            }
        }
        if (t < p.lanes && inside) {
            ckci_k_write_weight<T>(p, m.sum[t], part, group, k, tap * p.red + c);
        }
    }
};
