/*------------------------------------------------------------------------------------------------------------
  >>k-norm-statistics
  Mean and inverse deviation of each group: saved, or of the parts in workspace, or of what this block has
  read. Moments are sums of x less a pivot, one of its values, and of the square of that, so that a mean far
  from 0 costs no digits; they are added in a fixed tree. A saved mean that its type holds too coarsely
  (>>core-mean) gets the rest from the tensor, so that all threads must come here together.
*/
#pragma once
#include "kernels/norm/wide.h"

/* Moments of this block's groups, of which k has those at m.u.of[k * length], to workspace. */
template <class T>
CKCI_K_FN void ckci_k_norm_put_stats(const ckci_gpu_norm &p, const ckci_k_slab &s,
                                     const ckci_k_norm_lds<T> &m, int32_t length)
{
    const int32_t t = (int32_t)threadIdx.x;
    if (t < s.groups) {
        double *stats = (double *)p.stats + (((int64_t)s.n * p.parts + s.part) * p.g + s.g0 + t) * 2;
        stats[0] = m.u.of[t * length].sum;
        stats[1] = m.u.of[t * length].square;
    }
}

/* Is a saved mean, rounded to T, too coarse (ckci_coarse_mean)? */
template <class T> CKCI_K_FN bool ckci_k_norm_coarse(T mean, T r)
{
    const T far = mean * r;
    return far > 8 || far < -8;
}

/* Saved mean and inverse deviation of each group into LDS. Is one of these means too coarse? All threads get
   the same answer. */
template <class T>
CKCI_K_FN bool ckci_k_norm_saved(const ckci_gpu_norm &p, const ckci_k_slab &s, ckci_k_norm_lds<T> &m)
{
    const int32_t t = (int32_t)threadIdx.x;
    const int64_t first = (int64_t)s.n * p.g + s.g0;
    bool coarse = false;
    if (t < s.groups) {
        m.hi[t] = ((const T *)p.saved_mean)[first + t];
        m.lo[t] = 0;
        m.r[t] = ((const T *)p.saved_inv_std)[first + t];
        coarse = ckci_k_norm_coarse(m.hi[t], m.r[t]);
    }
    if (t == 0) {
        m.mean[0][0] = 0;
    }
    __syncthreads();
    if (coarse) {
        m.mean[0][0] = 1;
    }
    __syncthreads();
    return m.mean[0][0] != 0;
}

/* Mean and inverse deviation of each group into LDS: saved ones, or of the parts in workspace (to which kept
   slabs bring theirs here), or of what this block reads, which is all positions then. Saved means of which
   one is too coarse get the rest that their type does not hold. */
template <int W, class S, class T>
CKCI_K_FN void ckci_k_norm_statistics(const ckci_gpu_norm &p, const S &s, ckci_k_norm_lds<T> &m)
{
    int32_t t = (int32_t)threadIdx.x, length = 1;
    int64_t first = (int64_t)s.n * p.g + s.g0;
    if (p.saved_mean && !ckci_k_norm_saved(p, s, m)) {
        return;
    }
    if (S::KEPT || !S::SHARED || !p.stats) {
        length = ckci_k_norm_gather<W>(p, s, m);
    }
    if (S::SHARED && p.stats) {
        if (S::KEPT) {
            ckci_k_norm_put_stats(p, s, m, length);
            ckci_k_cluster_barrier();
        }
        length = (int32_t)p.by_few.d;
        const int32_t k = ckci_k_divide(t, p.by_few), part = t - k * length;
        if (k < s.groups) {
            const double *stats =
                (const double *)p.stats + (((int64_t)s.n * p.parts + part) * p.g + s.g0 + k) * 2;
            ckci_k_moments of = {0, 0};
            CKCI_K_UNROLL(4)
            for (int32_t i = part; i < p.parts; i += length, stats += 2 * length * (int64_t)p.g) {
                of.sum += stats[0];
                of.square += stats[1];
            }
            m.u.of[t] = of;
        }
        ckci_k_norm_fold(part, length, s.groups * length,
                         [&](int32_t to, int32_t from) { ckci_k_norm_join(m.u.of[to], m.u.of[from]); });
    }
    if (t < s.groups) {
        ckci_k_moments of = m.u.of[t * length];
        double all = (double)p.c * (double)p.space, shift = of.sum / all, m2 = of.square - of.sum * shift;
        const double pivot = ckci_k_norm_pivot<T>(p, s, t);
        double deviation = sqrt((m2 < 0 ? 0 : m2) / all + p.eps);
        const bool saved = p.saved_mean;
        T r = saved ? m.r[t] : (T)(1 / deviation), mean = saved ? m.hi[t] : (T)(pivot + shift);
        if (p.mean && s.part == 0) {
            ((T *)p.mean)[first + t] = mean;
        }
        if (p.inv_std && s.part == 0) {
            ((T *)p.inv_std)[first + t] = r;
        }
        m.hi[t] = mean;
        m.lo[t] = (T)((pivot - (double)mean) + shift); /* of f64, too, pivot + shift has one */
        m.r[t] = sizeof(T) == 4 && r > (T)3e38 ? (T)3e38 : r; /* 0 * infinity, with a tiny eps */
    }
    __syncthreads();
}

template <class T, int W = CKCI_K_NORM_ANY> struct ckci_k_norm_stats {
    typedef ckci_k_norm_room_of<T, W> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_norm &p, lds &m)
    {
        ckci_k_slab s = ckci_k_find_slab(p, (int32_t)blockIdx.x);
        if (p.saved_mean && !ckci_k_norm_saved(p, s, m)) {
            return; /* no one asks */
        }
        ckci_k_norm_put_stats(p, s, m, ckci_k_norm_gather<W>(p, s, m));
    }
};

/* A channel as a thread sees it. */
template <class T> struct ckci_k_norm_channel {
    int64_t x, y, dx; /* of position 0 */
    T hi, lo, r, gamma, beta, mean_a, mean_b;
};
