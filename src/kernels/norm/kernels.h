/*------------------------------------------------------------------------------------------------------------
  >>k-norm-kernels
  y and dx of slabs of any size: a block owns a part of the positions of its groups. With several parts a
  launch before this one has left their moments or sums in workspace, and every block adds them up for itself
  in the same order. Kernels for any tensors and wide ones (>>k-norm-wide) are bodies of the same structs.
*/
#pragma once
#include "kernels/norm/gradient.h"

/* JOINED: planes whose channels are one row. */
template <class T, int W = CKCI_K_NORM_ANY, bool JOINED = false> struct ckci_k_norm_fwd {
    typedef ckci_k_norm_room_of<T, W> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_norm &p, lds &m)
    {
        finish(p, ckci_k_find_slab(p, ckci_k_norm_block(p)), m);
    }

    template <class S>
    static CKCI_K_MEMBER void finish(const ckci_gpu_norm &p, const S &s, ckci_k_norm_lds<T> &m)
    {
        ckci_k_norm_statistics<W>(p, s, m);
        if constexpr (JOINED) {
            ckci_k_norm_apply_joined(p, s, m);
        } else if constexpr (W != CKCI_K_NORM_ANY) {
            ckci_k_norm_apply8<W == CKCI_K_NORM_PLANES>(p, s, m);
        } else {
            for (int32_t column = s.lc; s.active && column < s.columns; column += p.lanes_c) {
                ckci_k_norm_channel<T> c = ckci_k_find_channel(p, s, m, column);
                for (int32_t pos = s.from + s.lp; pos < s.to; pos += ckci_k_norm_run<T>::N * p.lanes_p) {
                    T v[ckci_k_norm_run<T>::N];
                    ckci_k_norm_load(p, p.x, c.x, pos, s.to, v);
                    CKCI_K_UNROLL(8)
                    for (int i = 0; i < ckci_k_norm_run<T>::N; i++) {
                        v[i] = ((v[i] - c.hi) - c.lo) * c.r * c.gamma + c.beta;
                    }
                    if (p.act != CKCONV_PASS) {
                        CKCI_K_UNROLL(8)
                        for (int i = 0; i < ckci_k_norm_run<T>::N; i++) {
                            v[i] = ckci_k_norm_activate(p.act, v[i]);
                        }
                    }
                    ckci_k_norm_store(p, p.y, c.y, pos, s.to, v);
                }
            }
        }
    }
};

/* A run of xhat, and of dy with the activation undone. */
template <class T>
CKCI_K_FN void ckci_k_norm_gradient(const ckci_gpu_norm &p, const ckci_k_norm_channel<T> &c, int32_t pos,
                                    int32_t to, T *xhat, T *dy)
{
    ckci_k_norm_load(p, p.x, c.x, pos, to, xhat);
    ckci_k_norm_load(p, p.y, c.y, pos, to, dy);
    CKCI_K_UNROLL(8)
    for (int i = 0; i < ckci_k_norm_run<T>::N; i++) {
        xhat[i] = ((xhat[i] - c.hi) - c.lo) * c.r;
    }
    if (p.act != CKCONV_PASS) {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < ckci_k_norm_run<T>::N; i++) {
            const T v = xhat[i] * c.gamma + c.beta;
            if (p.act == CKCONV_RELU) {
                dy[i] = v <= 0 ? (T)0 : dy[i];
            } else {
                dy[i] *= ckci_k_norm_slope(p.act, v);
            }
        }
    }
}

/* Sums of dy' and dy'*xhat of columns j, j + 1, ... into m.u.sum, lanes_p entries apart. Runs are added
   with what rounding lost. */
template <class T>
CKCI_K_FN void ckci_k_norm_add(const ckci_gpu_norm &p, const ckci_k_slab &s, ckci_k_norm_lds<T> &m, int32_t j)
{
    int32_t t = (int32_t)threadIdx.x, column = j + s.lc, first = ckci_k_divide(t, p.by_lanes_p) * p.lanes_p;
    T sum[2] = {0, 0}, lost[2] = {0, 0};
    if (s.active && column < s.columns) {
        ckci_k_norm_channel<T> c = ckci_k_find_channel(p, s, m, column);
        for (int32_t pos = s.from + s.lp; pos < s.to; pos += ckci_k_norm_run<T>::N * p.lanes_p) {
            T xhat[ckci_k_norm_run<T>::N], dy[ckci_k_norm_run<T>::N], run[2] = {0, 0};
            ckci_k_norm_gradient(p, c, pos, s.to, xhat, dy);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < ckci_k_norm_run<T>::N; i++) {
                bool inside = pos + i * p.lanes_p < s.to;
                run[0] += inside ? dy[i] : 0;
                run[1] += inside ? dy[i] * xhat[i] : 0;
            }
            CKCI_K_UNROLL(2)
            for (int i = 0; i < 2; i++) {
                T next = sum[i] + run[i], back = next - sum[i];
                lost[i] += (sum[i] - (next - back)) + (run[i] - back);
                sum[i] = next;
            }
        }
    }
    __syncthreads(); /* the entries may still be read */
    if (s.active) {
        m.u.sum[0][s.lc * p.lanes_p + s.lp] = sum[0] + (lost[0] == lost[0] ? lost[0] : 0);
        m.u.sum[1][s.lc * p.lanes_p + s.lp] = sum[1] + (lost[1] == lost[1] ? lost[1] : 0);
    }
    ckci_k_norm_fold(t - first, p.lanes_p, p.lanes_c * p.lanes_p, [&](int32_t to, int32_t from) {
        m.u.sum[0][to] += m.u.sum[0][from];
        m.u.sum[1][to] += m.u.sum[1][from];
    });
}

/* Sums of this block: those of channels to workspace when wanted; those of group k, weighted, in m.u.sum
   at k * (returned length). */
template <int W, class T>
CKCI_K_FN int32_t ckci_k_norm_add_all(const ckci_gpu_norm &p, const ckci_k_slab &s, ckci_k_norm_lds<T> &m)
{
    if constexpr (W != CKCI_K_NORM_ANY) {
        ckci_k_norm_add8<W == CKCI_K_NORM_PLANES>(p, s, m);
        m.u.sum[0][threadIdx.x] = m.total[0][threadIdx.x];
        m.u.sum[1][threadIdx.x] = m.total[1][threadIdx.x];
        __syncthreads();
        return 1;
    }
    int32_t t = (int32_t)threadIdx.x, lane = ckci_k_divide(t, p.by_lanes_p), total = p.lanes_c * p.lanes_p;
    int32_t length = (int32_t)p.by_segment.d;
    int64_t channels = (int64_t)p.g * p.c, all = (int64_t)p.n * p.parts * channels;
    int64_t first = ((int64_t)s.n * p.parts + s.part) * channels + s.g0 * p.c;
    T a = 0, b = 0;
    for (int32_t j = 0; j < s.columns; j += p.lanes_c) {
        int32_t column = j + lane;
        ckci_k_norm_add(p, s, m, j);
        if (t < total && lane * p.lanes_p == t && column < s.columns) {
            T gamma = ckci_k_norm_factor<T>(p, p.gamma, ckci_k_norm_entry(p, s) + column, 1);
            a += gamma * m.u.sum[0][t];
            b += gamma * m.u.sum[1][t];
            if (p.sums) {
                ((T *)p.sums)[first + column] = m.u.sum[0][t];
                ((T *)p.sums)[all + first + column] = m.u.sum[1][t];
            }
        }
    }
    __syncthreads();
    m.u.sum[0][t] = a;
    m.u.sum[1][t] = b;
    ckci_k_norm_fold(t - ckci_k_divide(t, p.by_segment) * length, length, total,
                     [&](int32_t to, int32_t from) {
                         m.u.sum[0][to] += m.u.sum[0][from];
                         m.u.sum[1][to] += m.u.sum[1][from];
                     });
    return length;
}

/* dx = inv_std * (gamma*dy' - mean_a - xhat*mean_b); summing: the sums of that alone, to workspace. */
template <class T, int W = CKCI_K_NORM_ANY> struct ckci_k_norm_din {
    typedef ckci_k_norm_room_of<T, W> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_norm &p, lds &m)
    {
        const int32_t block = p.summing ? (int32_t)blockIdx.x : ckci_k_norm_block(p);
        ckci_k_slab s = ckci_k_find_slab(p, block);
        int32_t t = (int32_t)threadIdx.x, length = (int32_t)p.by_few.d;
        ckci_k_norm_statistics<W>(p, s, m);
        if (p.slab_sums && !ckci_k_late_again(p).summing) {
            const int32_t k = ckci_k_divide(t, p.by_few), part = t - k * length;
            if (k < s.groups) {
                const T *sums =
                    (const T *)p.slab_sums + (((int64_t)s.n * p.parts + part) * p.g + s.g0 + k) * 2;
                T a = 0, b = 0;
                CKCI_K_UNROLL(4)
                for (int32_t i = part; i < p.parts; i += length, sums += 2 * length * (int64_t)p.g) {
                    a += sums[0];
                    b += sums[1];
                }
                m.u.sum[0][t] = a;
                m.u.sum[1][t] = b;
            }
            ckci_k_norm_fold(part, length, s.groups * length, [&](int32_t to, int32_t from) {
                m.u.sum[0][to] += m.u.sum[0][from];
                m.u.sum[1][to] += m.u.sum[1][from];
            });
        } else {
            length = ckci_k_norm_add_all<W>(p, s, m);
            if (ckci_k_late_again(p).summing) {
                const ckci_gpu_norm &late = ckci_k_late_again(p);
                if (late.slab_sums && t < s.groups) {
                    T *sums =
                        (T *)late.slab_sums + (((int64_t)s.n * late.parts + s.part) * late.g + s.g0 + t) * 2;
                    sums[0] = m.u.sum[0][t * length];
                    sums[1] = m.u.sum[1][t * length];
                }
                return;
            }
        }
        if (t < s.groups) {
            T count = (T)p.c * (T)p.space;
            m.mean[0][t] = m.u.sum[0][t * length] / count;
            m.mean[1][t] = m.u.sum[1][t * length] / count;
            if constexpr (W != CKCI_K_NORM_ANY) { /* level and slope of ckci_k_norm_channels */
                m.mean[0][t] -= m.lo[t] * m.r[t] * m.mean[1][t];
            }
        }
        __syncthreads();
        if constexpr (W != CKCI_K_NORM_ANY) {
            ckci_k_norm_din8<W == CKCI_K_NORM_PLANES>(ckci_k_late_again(p), s, m);
        } else {
            for (int32_t column = s.lc; s.active && column < s.columns; column += p.lanes_c) {
                ckci_k_norm_channel<T> c = ckci_k_find_channel(p, s, m, column);
                for (int32_t pos = s.from + s.lp; pos < s.to; pos += ckci_k_norm_run<T>::N * p.lanes_p) {
                    T xhat[ckci_k_norm_run<T>::N], dy[ckci_k_norm_run<T>::N];
                    ckci_k_norm_gradient(p, c, pos, s.to, xhat, dy);
                    CKCI_K_UNROLL(8)
                    for (int i = 0; i < ckci_k_norm_run<T>::N; i++) {
                        dy[i] = c.r * (ckci_k_product(c.gamma, dy[i]) - c.mean_a - xhat[i] * c.mean_b);
                    }
                    ckci_k_norm_store(p, p.dx, c.dx, pos, s.to, dy);
                }
            }
        }
    }
};
