/*------------------------------------------------------------------------------------------------------------
  >>k-norm-param
  dgamma and dbeta: sums over the batch in fixed order. Sums of channels for each n, and for each part, lie in
  workspace, where the kernel of dx left them; 16 threads share a channel and a fixed tree adds theirs.
  Without workspace a block walks x and dy of its columns itself, batch after batch.
*/
#pragma once
#include "kernels/norm/kernels.h"

/* dgamma and dbeta. From workspace: 16 channels, whose n and parts are shared by 16 threads each. Without:
   a chunk of one set's columns, batch after batch. */
template <class T> struct ckci_k_norm_param {
    typedef ckci_k_norm_lds<T> lds;

    static CKCI_K_MEMBER void write(const ckci_gpu_norm &p, int32_t channel, T dbeta, T dgamma)
    {
        if (p.dbeta) {
            store(p, p.dbeta, channel, dbeta);
        }
        if (p.dgamma) {
            store(p, p.dgamma, channel, dgamma);
        }
    }

    static CKCI_K_MEMBER void store(const ckci_gpu_norm &p, unsigned char *vector, int32_t channel, T x)
    {
        if constexpr (sizeof(T) == 8) {
            ((double *)vector)[channel] = x;
        } else if (p.param == CKCONV_F32) {
            ((float *)vector)[channel] = x;
        } else {
            ((uint16_t *)vector)[channel] = (uint16_t)ckci_k_two(p.param, ckci_k_bits(x), 0);
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_norm &p, lds &m)
    {
        int32_t t = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x;
        ckci_k_long_sums<T, 2> whole;
        T ab[2] = {0, 0};
        whole.clear();
        if (p.sums) {
            int32_t channel = block * 16 + (t & 15), channels = p.g * p.c;
            int64_t entries = (int64_t)p.n * p.parts;
            const T *sums = (const T *)p.sums;
            for (int64_t e = t >> 4; e < entries && channel < channels; e += 16) {
                ab[0] += sums[e * channels + channel];
                ab[1] += sums[(entries + e) * channels + channel];
                whole.settle(ab);
            }
            whole.finish(ab);
            m.u.sum[0][t] = ab[0];
            m.u.sum[1][t] = ab[1];
            for (int32_t half = 128; half >= 16; half /= 2) {
                __syncthreads();
                if (t < half) {
                    m.u.sum[0][t] += m.u.sum[0][t + half];
                    m.u.sum[1][t] += m.u.sum[1][t + half];
                }
            }
            if (t < 16 && channel < channels) {
                write(p, channel, m.u.sum[0][t], m.u.sum[1][t]);
            }
            return;
        }
        int32_t set = ckci_k_divide(block, p.by_chunks), lane = ckci_k_divide(t, p.by_lanes_p);
        int32_t j = (block - set * p.chunks) * p.lanes_c, column = j + lane;
        ckci_k_slab s = ckci_k_find_slab(p, set);
        bool owner = lane < p.lanes_c && lane * p.lanes_p == t && column < s.columns;
        for (s.n = 0; s.n < p.n; s.n++) {
            const ckci_gpu_norm &u = ckci_k_again(p);
            ckci_k_norm_statistics<CKCI_K_NORM_ANY>(u, s, m);
            ckci_k_norm_add(u, s, m, j);
            ab[0] += owner ? m.u.sum[0][t] : 0;
            ab[1] += owner ? m.u.sum[1][t] : 0;
            whole.settle(ab);
            __syncthreads(); /* before the next statistics overwrite them */
        }
        whole.finish(ab);
        if (owner) {
            write(p, s.g0 * p.c + column, ab[0], ab[1]);
        }
    }
};
