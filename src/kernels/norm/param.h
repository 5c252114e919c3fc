/*------------------------------------------------------------------------------------------------------------
  >>k-norm-param
  dgamma and dbeta: sums over the batch in fixed order, or those of each n (param_step). Sums of channels for
  each n, and for each part, lie in workspace, where the kernel of dx left them; 16 threads, or fewer where
  there is less to add, share one and a fixed tree adds theirs. Without workspace a block walks x and dy of
  its columns itself, batch after batch.
*/
#pragma once
#include "kernels/norm/kernels.h"

/* dgamma and dbeta. From workspace: 2^param_log of them, whose n and parts are shared by the threads.
   Without: a chunk of one set's columns, batch after batch, or of one n. */
template <class T> struct ckci_k_norm_param {
    typedef ckci_k_norm_lds<T> lds;

    static CKCI_K_MEMBER void write(const ckci_gpu_norm &p, int32_t entry, T dbeta, T dgamma)
    {
        if (p.dbeta) {
            store(p, p.dbeta, entry, dbeta);
        }
        if (p.dgamma) {
            store(p, p.dgamma, entry, dgamma);
        }
    }

    static CKCI_K_MEMBER void store(const ckci_gpu_norm &p, unsigned char *vector, int32_t entry, T x)
    {
        if constexpr (sizeof(T) == 8) {
            ((double *)vector)[entry] = x;
        } else if (p.param == CKCONV_F32) {
            ((float *)vector)[entry] = x;
        } else {
            ((uint16_t *)vector)[entry] = (uint16_t)ckci_k_two(p.param, ckci_k_bits(x), 0);
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_norm &p, lds &m)
    {
        int32_t t = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x;
        ckci_k_long_sums<T, 2> whole;
        T ab[2] = {0, 0};
        whole.clear();
        if (p.sums) {
            const int32_t channels = p.g * p.c, all = p.param_step ? p.n * channels : channels;
            const int32_t width = 1 << p.param_log, entry = (block << p.param_log) + (t & (width - 1));
            const int32_t n = p.param_step ? ckci_k_divide(entry, p.by_channels) : 0;
            const int64_t rows = (int64_t)p.n * p.parts, own = p.param_step ? p.parts : rows;
            const T *sums = (const T *)p.sums + (int64_t)n * p.parts * channels + (entry - n * p.param_step);
            for (int64_t e = t >> p.param_log; e < own && entry < all; e += 256 >> p.param_log) {
                ab[0] += sums[e * channels];
                ab[1] += sums[(rows + e) * channels];
                whole.settle(ab);
            }
            whole.finish(ab);
            m.u.sum[0][t] = ab[0];
            m.u.sum[1][t] = ab[1];
            for (int32_t half = 128; half >= width; half /= 2) {
                __syncthreads();
                if (t < half) {
                    m.u.sum[0][t] += m.u.sum[0][t + half];
                    m.u.sum[1][t] += m.u.sum[1][t + half];
                }
            }
            if (t < width && entry < all) {
                write(p, entry, m.u.sum[0][t], m.u.sum[1][t]);
            }
            return;
        }
        const int32_t sets = ckci_k_divide(block, p.by_chunks), lane = ckci_k_divide(t, p.by_lanes_p);
        const int32_t first = p.param_step ? ckci_k_divide(sets, p.by_sets) : 0, set = sets - first * p.sets;
        int32_t j = (block - sets * p.chunks) * p.lanes_c, column = j + lane;
        ckci_k_whole_slab s;
        (ckci_k_slab &)s = ckci_k_find_slab(p, set);
        bool owner = lane < p.lanes_c && lane * p.lanes_p == t && column < s.columns;
        for (s.n = first;; s.n++) {
            const ckci_gpu_norm &u = ckci_k_late_again(p);
            if (s.n >= u.n || (u.param_step && s.n > first)) {
                break;
            }
            ckci_k_norm_statistics<CKCI_K_NORM_ANY>(u, s, m);
            ckci_k_norm_add(u, s, m, j);
            ab[0] += owner ? m.u.sum[0][t] : 0;
            ab[1] += owner ? m.u.sum[1][t] : 0;
            whole.settle(ab);
            __syncthreads(); /* before the next statistics overwrite them */
        }
        whole.finish(ab);
        if (owner) {
            const ckci_gpu_norm &late = ckci_k_late_again(p);
            write(late, first * late.param_step + s.g0 * late.c + column, ab[0], ab[1]);
        }
    }
};
