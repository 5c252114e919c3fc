/*------------------------------------------------------------------------------------------------------------
  >>k-norm-common
  Group norm. A block owns a part of the positions of a few neighbouring groups (set) of one n; a thread walks
  whole channels of them, or every lanes_p-th position of one, so what belongs to a channel stays in
  registers.
  Statistics take one pass, in double: sums of x - p and of its square, p the first number of the (n, g); they
  just add up over threads and parts, in LDS in a fixed tree. Since (p - mean)^2 is at most count * variance,
  little is lost where |mean| >> deviation. The mean is then two numbers of type T, hi + lo: x - hi is nearly
  exact, and lo is small. Saved means are hi alone; where that is too coarse, lo is found like this: x is read
  once more (if it stays in LDS, from there) only where its numbers lie close together, far from 0.
  Wide kernels (f16, bf16, f32, where tensors are dense): a lane takes eight numbers, of neighbouring channels
  (last) or of neighbouring positions (planes: channels first). Channels last, neighbouring groups are one set
  where one is narrow. What is read twice comes from the caches the second time, as far as they reach; loads
  are one step ahead, or go through a ring in LDS (NVIDIA, channels last). On NVIDIA, y of planes keeps x in
  LDS instead, and dx both x and dy, in that of a cluster's blocks where one has too little: they leave their
  sums for each other in workspace.
  Backward: dy' is dy with the activation undone; sums of dy' and dy'*xhat per channel give dgamma and dbeta
  (norm_param adds them over n in order) and, weighted with gamma, the two means that dx takes.
  AMD computes powers and inverses four times as slowly as products: there gradients of an activation share
  inverses, and factors of its argument are folded into those of the channel (steep, start). |v| above 2.3e38
  is infinite in it.
*/
#pragma once
#include "kernels/prim.h"

/* Kernels of any tensors: numbers of a run, which a thread loads together: 16 bytes of T. */
template <class T> struct ckci_k_norm_run {
    enum { N = 16 / (int)sizeof(T) };
};

/* Any tensors; wide, channels last; wide, channels first. */
enum { CKCI_K_NORM_ANY = 0, CKCI_K_NORM_LAST = 1, CKCI_K_NORM_PLANES = 2 };

/* Sums of x - pivot and of its square; aligned: one access of LDS. */
struct alignas(16) ckci_k_moments {
    double sum, square;
};

/* What y of a channel is, of d: d*scale + shift. AMD: what an activation takes, instead. */
struct alignas(8) ckci_k_norm_line {
    float scale, shift;
};

template <class T> struct ckci_k_norm_lds {
    union {
        ckci_k_moments of[256];
        T sum[2][256];                        /* of dy' and dy'*xhat */
        T cell[2][8 * 256 / (sizeof(T) / 4)]; /* wide: the same of eight channels of each thread */
        double moment[8 * 256];
        ckci_k_norm_line line[CKCI_NORM_JOINED]; /* joined: of the channels of a part */
    } u;
    T total[2][256];            /* wide: of each group, weighted */
    T hi[256], lo[256], r[256]; /* of each group: mean, inverse deviation */
    T mean[2][256];             /* of each group: means that dx takes; wide: its level and slope */
};

/* Channels last, where copies into LDS do not wait (NVIDIA): a ring of what each thread will need next, eight
   times 16 bytes. */
#if defined(__HIP__) || defined(__HIPCC__)
enum { CKCI_K_NORM_RING = 0 };
#else
enum { CKCI_K_NORM_RING = 8 };
#endif
template <class T, int RING> struct ckci_k_norm_room : ckci_k_norm_lds<T> {
    ckci_k_uint4 ring[RING * 256];
};
template <class T> struct ckci_k_norm_room<T, 0> : ckci_k_norm_lds<T> {
};
static_assert(sizeof(ckci_k_norm_room<float, 8>) == CKCI_NORM_RING_LDS, "the planner's figure");
template <class T, int W>
using ckci_k_norm_room_of = ckci_k_norm_room<T, W == CKCI_K_NORM_LAST ? (int)CKCI_K_NORM_RING : 0>;

/* What a block owns, and this thread's place in it. */
struct ckci_k_slab {
    enum { KEPT = 0, SHARED = 1 };
    int32_t n, part, from, to; /* positions */
    int32_t g0, groups, columns;
    int32_t lc, lp;
    int32_t active;
};

CKCI_K_FN ckci_k_slab ckci_k_find_slab(const ckci_gpu_norm &p, int32_t block)
{
    ckci_k_slab s;
    int32_t t = (int32_t)threadIdx.x, rest = ckci_k_divide(block, p.by_sets);
    s.g0 = (block - rest * p.sets) * p.set;
    s.n = ckci_k_divide(rest, p.by_parts);
    s.part = rest - s.n * p.parts;
    s.from = s.part * p.part + (s.part < p.part_rest ? s.part : p.part_rest);
    s.to = s.from + p.part + (s.part < p.part_rest ? 1 : 0);
    s.to = s.to < p.space ? s.to : p.space;
    s.groups = p.g - s.g0 < p.set ? p.g - s.g0 : p.set;
    s.columns = s.groups * p.c;
    int32_t slow = ckci_k_divide(t, p.by_fast), fast = t - slow * (p.along_x ? p.lanes_p : p.lanes_c);
    s.lc = p.along_x ? slow : fast;
    s.lp = p.along_x ? fast : slow;
    s.active = p.along_x ? slow < p.lanes_c : slow < p.lanes_p;
    return s;
}

/* Blocks of a cluster, the parts of a slab, follow each other. */
CKCI_K_FN ckci_k_slab ckci_k_find_cluster_slab(const ckci_gpu_norm &p)
{
    const int32_t rest = ckci_k_divide((int32_t)blockIdx.x, p.by_parts), n = ckci_k_divide(rest, p.by_sets);
    const int32_t part = (int32_t)blockIdx.x - rest * p.parts, set = rest - n * p.sets;
    return ckci_k_find_slab(p, (n * p.parts + part) * p.sets + set);
}

/* One that no other block has a part of. */
struct ckci_k_whole_slab : ckci_k_slab {
    enum { SHARED = 0 };
};

/* One whose x lies in LDS: what a thread reads, place after place, column after column, for itself. */
struct ckci_k_kept_slab : ckci_k_slab {
    enum { KEPT = 1 };
    unsigned char *x;
    int32_t places; /* in a column */
};

/* The block's number where another kernel has read the tensors: the last ones are first, since what they read
   is still in the caches. */
CKCI_K_FN int32_t ckci_k_norm_block(const ckci_gpu_norm &p)
{
    const int32_t block = (int32_t)blockIdx.x;
    return p.parts > 1 ? p.n * p.sets * p.parts - 1 - block : block;
}

CKCI_K_FN int64_t ckci_k_norm_base(const ckci_tensor &t, const ckci_k_slab &s, int32_t group, int32_t c)
{
    return (s.g0 + group) * t.stride[0] + s.n * t.stride[1] + c * t.stride[2];
}

/* A run: positions pos, pos + lanes_p, ... below `to` of one channel. */
template <int N>
CKCI_K_FN void ckci_k_norm_places(const ckci_gpu_norm &p, const ckci_tensor &t, int64_t base, int32_t pos,
                                  int64_t (&at)[N])
{
    const int32_t apart = ckci_k_afresh(p.lanes_p);
    if (p.flat) {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < N; i++) {
            at[i] = base + (pos + i * apart) * t.stride[5];
        }
        return;
    }
    CKCI_K_UNROLL(8)
    for (int i = 0; i < N; i++) {
        int32_t q = pos + i * apart, row = ckci_k_divide(q, p.by_x), z = ckci_k_divide(row, p.by_y);
        int32_t x = q - row * (int32_t)p.by_x.d, y = row - z * (int32_t)p.by_y.d;
        at[i] = base + z * t.stride[3] + y * t.stride[4] + x * t.stride[5];
    }
}

/* Missing numbers are 0. All loads come first, so that they are under way together. */
template <class T>
CKCI_K_FN void ckci_k_norm_load(const ckci_gpu_norm &p, const ckci_tensor &t, int64_t base, int32_t pos,
                                int32_t to, T *v)
{
    int64_t at[ckci_k_norm_run<T>::N];
    const int32_t apart = ckci_k_afresh(p.lanes_p);
    ckci_k_norm_places(p, t, base, pos, at);
    if constexpr (sizeof(T) == 8) {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < ckci_k_norm_run<T>::N; i++) {
            v[i] = pos + i * apart < to ? ((const double *)t.p)[at[i]] : 0;
        }
    } else if (t.dtype == CKCONV_F32) {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < ckci_k_norm_run<T>::N; i++) {
            v[i] = pos + i * apart < to ? ((const float *)t.p)[at[i]] : 0;
        }
    } else {
        uint32_t bits[ckci_k_norm_run<T>::N];
        CKCI_K_UNROLL(8)
        for (int i = 0; i < ckci_k_norm_run<T>::N; i++) {
            bits[i] = pos + i * apart < to ? ((const uint16_t *)t.p)[at[i]] : 0;
        }
        CKCI_K_UNROLL(8)
        for (int i = 0; i < ckci_k_norm_run<T>::N; i++) {
            v[i] = t.dtype == CKCONV_F16 ? ckci_k_half_float(bits[i]) : ckci_k_float(bits[i] << 16);
        }
    }
}

template <class T>
CKCI_K_FN void ckci_k_norm_store(const ckci_gpu_norm &p, const ckci_tensor &t, int64_t base, int32_t pos,
                                 int32_t to, const T *v)
{
    int64_t at[ckci_k_norm_run<T>::N];
    const int32_t apart = ckci_k_afresh(p.lanes_p);
    ckci_k_norm_places(p, t, base, pos, at);
    CKCI_K_UNROLL(8)
    for (int i = 0; i < ckci_k_norm_run<T>::N; i++) {
        if (pos + i * apart >= to) {
            break;
        }
        if constexpr (sizeof(T) == 8) {
            ((double *)t.p)[at[i]] = v[i];
        } else if (t.dtype == CKCONV_F32) {
            ((float *)t.p)[at[i]] = v[i];
        } else {
            ((uint16_t *)t.p)[at[i]] =
                (uint16_t)(t.dtype == CKCONV_F16 ? ckci_k_float_half(v[i]) : ckci_k_float_bf16(v[i]));
        }
    }
}

/* A number of f16, bf16 or f32 from its bits. No branches: what is not needed is cheap. */
CKCI_K_FN float ckci_k_norm_number(int32_t dtype, uint32_t bits)
{
    const float half = ckci_k_half_float(bits & 0xffffu);
    return dtype == CKCONV_F32 ? ckci_k_float(bits) : dtype == CKCONV_F16 ? half : ckci_k_float(bits << 16);
}

/* Where gamma and beta of a block's first channel lie. */
CKCI_K_FN int32_t ckci_k_norm_entry(const ckci_gpu_norm &p, const ckci_k_slab &s)
{
    return s.n * p.param_step + s.g0 * p.c;
}

/* Number `channel` of gamma or beta as it lies in memory, missing ones 0. */
CKCI_K_FN uint32_t ckci_k_norm_factor_bits(const ckci_gpu_norm &p, const unsigned char *vector,
                                           int32_t channel)
{
    return !vector                 ? 0
           : p.param == CKCONV_F32 ? ((const uint32_t *)vector)[channel]
                                   : ((const uint16_t *)vector)[channel];
}

/* The same of N neighbouring channels: loads that are under way together. */
template <int N>
CKCI_K_FN void ckci_k_norm_factor_bits(const ckci_gpu_norm &p, const unsigned char *vector, int32_t channel,
                                       uint32_t (&bits)[N])
{
    CKCI_K_UNROLL(8)
    for (int i = 0; i < N; i++) {
        bits[i] = 0;
    }
    if (!vector) {
        return;
    }
    if (p.param == CKCONV_F32) {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < N; i++) {
            bits[i] = ((const uint32_t *)vector)[channel + i];
        }
    } else {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < N; i++) {
            bits[i] = ((const uint16_t *)vector)[channel + i];
        }
    }
}

template <class T>
CKCI_K_FN T ckci_k_norm_factor(const ckci_gpu_norm &p, const unsigned char *vector, int32_t channel,
                               T missing)
{
    if (!vector) {
        return missing;
    }
    if constexpr (sizeof(T) == 8) {
        return ((const double *)vector)[channel];
    } else {
        return ckci_k_norm_number(p.param, ckci_k_norm_factor_bits(p, vector, channel));
    }
}

/* Sums in LDS of segments of `length` threads (this is number i of its segment; threads from `total` on have
   none), in a fixed tree: join(t, u) adds entry u to entry t. */
template <class F> CKCI_K_FN void ckci_k_norm_fold(int32_t i, int32_t length, int32_t total, const F &join)
{
    int32_t t = (int32_t)threadIdx.x, half = 1;
    while (half < length) {
        half *= 2;
    }
    for (half /= 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < total && i < half && i + half < length) {
            join(t, t + half);
        }
    }
    __syncthreads();
}

CKCI_K_FN void ckci_k_norm_join(ckci_k_moments &a, const ckci_k_moments &b)
{
    a.sum += b.sum;
    a.square += b.square;
}

/* One number of f16, bf16 or f32. */
CKCI_K_FN float ckci_k_norm_load1(int32_t dtype, const unsigned char *from, int64_t i)
{
    return ckci_k_norm_number(dtype, dtype == CKCONV_F32 ? ((const uint32_t *)from)[i]
                                                         : ((const uint16_t *)from)[i]);
}

/* A number of a (n, g), as close to the mean as it is had for little: the first one; of f64, whose squares
   lose digits otherwise, the one between the others of first, middle and last. */
template <class T>
CKCI_K_FN double ckci_k_norm_pivot(const ckci_gpu_norm &p, const ckci_k_slab &s, int32_t group)
{
    const int64_t at = ckci_k_norm_base(p.x, s, group, 0);
    if constexpr (sizeof(T) == 8) {
        int64_t middle = at + p.c / 2 * p.x.stride[2], last = at + (p.c - 1) * p.x.stride[2];
        CKCI_K_UNROLL(4)
        for (int i = 3; i < 6; i++) {
            middle += p.x.len[i] / 2 * p.x.stride[i];
            last += (p.x.len[i] - 1) * p.x.stride[i];
        }
        const double a = ((const double *)p.x.p)[at], b = ((const double *)p.x.p)[middle];
        const double c = ((const double *)p.x.p)[last], low = a < b ? a : b, high = a < b ? b : a;
        return c < low ? low : high < c ? high : c;
    } else {
        return (double)ckci_k_norm_load1(p.x.dtype, p.x.p, at);
    }
}

/* Moments of all that this thread reads. */
template <class T> CKCI_K_FN ckci_k_moments ckci_k_norm_read(const ckci_gpu_norm &p, const ckci_k_slab &s)
{
    ckci_k_moments moments = {0, 0};
    for (int32_t column = s.lc; s.active && column < s.columns; column += p.lanes_c) {
        int32_t group = ckci_k_divide(column, p.by_c);
        int64_t base = ckci_k_norm_base(p.x, s, group, column - group * p.c);
        double pivot = ckci_k_norm_pivot<T>(p, s, group);
        for (int32_t pos = s.from + s.lp; pos < s.to; pos += ckci_k_norm_run<T>::N * p.lanes_p) {
            T v[ckci_k_norm_run<T>::N];
            ckci_k_norm_load(p, p.x, base, pos, s.to, v);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < ckci_k_norm_run<T>::N; i++) {
                double d = pos + i * p.lanes_p < s.to ? (double)v[i] - pivot : 0;
                moments.sum += d;
                moments.square += d * d;
            }
        }
    }
    return moments;
}
