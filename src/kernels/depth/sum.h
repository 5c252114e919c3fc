/*------------------------------------------------------------------------------------------------------------
  >>k-depth-sum
  The sum of bwd_weight's parts, in fixed order, and the epilogue. A block owns 8 weights, 32 threads share
  each of them: every 32nd part is one thread's, and a fixed tree in LDS adds their sums. Depthwise gradients
  have few weights and many parts, so that one thread for each weight would leave a GPU idle.
*/
#pragma once
#include "kernels/vector/gather.h"

/* The parts of 8 weights: 32 threads share a weight. */
template <class T> struct ckci_k_depth_sum {
    struct lds {
        T sum[256];
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        int32_t t = (int32_t)threadIdx.x, e = (int32_t)blockIdx.x * 8 + (t & 7), all = p.taps * p.g;
        const T *sums = (const T *)p.o.partial;
        ckci_k_long_sums<T, 1> whole;
        whole.clear();
        T sum = 0;
        if (e < all) {
            CKCI_K_UNROLL(8)
            for (int32_t part = t >> 3; part < p.parts; part += 32) {
                sum += sums[(int64_t)part * all + e];
                whole.settle(&sum);
            }
        }
        whole.finish(&sum);
        m.sum[t] = sum;
        for (int32_t half = 128; half >= 8; half /= 2) {
            __syncthreads();
            if (t < half) {
                m.sum[t] += m.sum[t + half];
            }
        }
        if (t < 8 && e < all) {
            int32_t tap = ckci_k_divide(e, p.by_channels), channel = e - tap * p.g;
            const ckci_k_tap f = ckci_k_split_tap(p.dim, tap);
            ckci_k_write<T>(p.o, m.sum[t], channel, 0, 0, f.z, f.y, f.x);
        }
    }
};
