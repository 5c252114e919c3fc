/* kernels.norm.hip.h - v0.1.0 - kernels of ckconv.h: group norm, conversions: HIP C++17, nvcc
   SPDX-License-Identifier: MIT */
#ifndef CKCONV_KERNELS_NORM_HIP_H
#define CKCONV_KERNELS_NORM_HIP_H
/*  (licence text at the end of ckconv.h)

Included by kernels.hip.h on one marked line. Do not include it yourself.

What is no convolution: group norm and its gradients, conversion of layouts and types. The table of kernels
stands in kernels.hip.h.

TAGS
    >>k-norm  group norm
    >>k-move  layout and type conversion
*/

#ifndef CKCONV_IMPLEMENTATION
#error "kernels.norm.hip.h is a part of kernels.hip.h: define CKCONV_IMPLEMENTATION and include ckconv.h"
#endif


/*------------------------------------------------------------------------------------------------------------
  >>k-norm
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

template <class T> struct ckci_k_norm_lds {
    union {
        ckci_k_moments of[256];
        T sum[2][256];                        /* of dy' and dy'*xhat */
        T cell[2][8 * 256 / (sizeof(T) / 4)]; /* wide: the same of eight channels of each thread */
        double moment[8 * 256];
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
    enum { KEPT = 0 };
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

/* gamma or beta of a channel of all groups as it lies in memory, missing ones 0. */
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

/* ---- Wide. Are eight of a tensor aligned? Channels last, the planner sees to it. */
template <bool PLANES> CKCI_K_FN bool ckci_k_norm_aligned(const ckci_gpu_norm &p)
{
    return !PLANES || p.aligned;
}

/* Numbers i and i + 1 of eight; of one channel (N is 1), twice the same. */
template <int N> CKCI_K_FN ckci_k_float2 ckci_k_norm_two(const float (&v)[N], int i)
{
    const ckci_k_float2 two = {v[N == 1 ? 0 : i], v[N == 1 ? 0 : i + 1]};
    return two;
}

/* Number i of eight. */
CKCI_K_FN float ckci_k_norm_one(const ckci_k_float2 *v, int i)
{
    return i % 2 ? v[i / 2].y : v[i / 2].x;
}

/* Eight numbers, of which `rest` exist, at least one: the others become `missing`. */
CKCI_K_FN void ckci_k_norm_end(ckci_k_float2 *v, int32_t rest, float missing)
{
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        v[i].x = i == 0 || 2 * i < rest ? v[i].x : missing;
        v[i].y = 2 * i + 1 < rest ? v[i].y : missing;
    }
}

/* Eight neighbouring numbers as they lie in memory, 16 or 32 bytes; `count` of them exist. */
struct ckci_k_norm_raw {
#if defined(CKCI_SIMULATOR) /* gcc does not see that */
    ckci_k_uint4 a = {0, 0, 0, 0}, b = {0, 0, 0, 0};
#else
    ckci_k_uint4 a, b; /* b: of f32 only; both are loaded before they are read */
#endif

    template <bool PLANES>
    CKCI_K_MEMBER void load(const ckci_gpu_norm &p, int32_t dtype, const unsigned char *from, int32_t count)
    {
        if (ckci_k_norm_aligned<PLANES>(p)) {
            a = *(const ckci_k_uint4 *)from;
            if (dtype == CKCONV_F32) {
                b = ((const ckci_k_uint4 *)from)[1];
            }
            return;
        }
        count = ckci_k_lane_afresh(count);
        if (dtype == CKCONV_F32) {
            const uint32_t *f = (const uint32_t *)from;
            a.x = f[0];
            a.y = 1 < count ? f[1] : 0;
            a.z = 2 < count ? f[2] : 0;
            a.w = 3 < count ? f[3] : 0;
            b.x = 4 < count ? f[4] : 0;
            b.y = 5 < count ? f[5] : 0;
            b.z = 6 < count ? f[6] : 0;
            b.w = 7 < count ? f[7] : 0;
        } else {
            const uint16_t *h = (const uint16_t *)from;
            a.x = h[0] | (1 < count ? (uint32_t)h[1] << 16 : 0);
            a.y = (2 < count ? h[2] : 0) | (3 < count ? (uint32_t)h[3] << 16 : 0);
            a.z = (4 < count ? h[4] : 0) | (5 < count ? (uint32_t)h[5] << 16 : 0);
            a.w = (6 < count ? h[6] : 0) | (7 < count ? (uint32_t)h[7] << 16 : 0);
#if defined(__HIP_DEVICE_COMPILE__) /* any b will do: else the last one is moved to and fro */
            asm volatile("" : "=v"(b.x), "=v"(b.y), "=v"(b.z), "=v"(b.w));
#endif
        }
    }

    /* Eight numbers, two by two. */
    CKCI_K_MEMBER void widen(int32_t dtype, ckci_k_float2 *v) const
    {
        if (dtype == CKCONV_F32) {
            const uint32_t w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                v[i] = {ckci_k_float(w[2 * i]), ckci_k_float(w[2 * i + 1])};
            }
        } else if (dtype == CKCONV_F16) {
            halves<false>(v);
        } else {
            halves<true>(v);
        }
    }

    template <bool BF16> CKCI_K_MEMBER void halves(ckci_k_float2 *v) const
    {
        const uint32_t w[4] = {a.x, a.y, a.z, a.w};
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            float two[2];
            ckci_k_s_half::widen<BF16>(w[i], two);
            v[i] = {two[0], two[1]};
        }
    }

    /* AMD: less hi, of channels c; SCALED: times r, but for f16, whose sums take r at the end. */
    template <bool SCALED, class Channels>
    CKCI_K_MEMBER void differences(int32_t dtype, const Channels &c, ckci_k_float2 *v) const
    {
        if (dtype == CKCONV_F32) {
            widen(CKCONV_F32, v);
            less<SCALED>(c, v);
        } else if (dtype == CKCONV_F16) {
            const uint32_t w[4] = {a.x, a.y, a.z, a.w};
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                const ckci_k_float2 hi = ckci_k_norm_two(c.hi, 2 * i);
                v[i] = {ckci_k_half_less(w[i], hi.x), ckci_k_half_less(w[i] >> 16, hi.y)};
            }
        } else {
            widen(CKCONV_BF16, v);
            less<SCALED>(c, v);
        }
    }

    template <bool SCALED, class Channels> static CKCI_K_MEMBER void less(const Channels &c, ckci_k_float2 *v)
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            v[i] = v[i] - ckci_k_norm_two(c.hi, 2 * i);
            v[i] = SCALED ? v[i] * ckci_k_norm_two(c.r, 2 * i) : v[i];
        }
    }
};

/* The same into LDS, without waiting where they are aligned. */
template <bool PLANES>
CKCI_K_FN void ckci_k_norm_copy8(const ckci_gpu_norm &p, int32_t dtype, ckci_k_uint4 *to,
                                 const unsigned char *from, int32_t count)
{
    if (ckci_k_norm_aligned<PLANES>(p)) {
        ckci_k_copy_late<16>((unsigned char *)to, from, true);
        if (dtype == CKCONV_F32) {
            ckci_k_copy_late<16>((unsigned char *)(to + 1), from + 16, true);
        }
        return;
    }
    ckci_k_norm_raw raw = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    raw.load<PLANES>(p, dtype, from, count);
    to[0] = raw.a;
    if (dtype == CKCONV_F32) {
        to[1] = raw.b;
    }
}

/* Where a thread stands in a tensor; bytes from a position to its next one, and from a column. Wide: channels
   first, a block has one group; channels last, columns lie beside each other. */
template <bool PLANES> struct ckci_k_norm_cursor {
    unsigned char *column, *at;
    int64_t step, apart;
    int32_t pos; /* the first one of a column */

    CKCI_K_MEMBER ckci_k_norm_cursor(const ckci_gpu_norm &p, const ckci_tensor &t, const ckci_k_slab &s)
    {
        const int64_t size = ckci_k_size(t.dtype), wide = PLANES ? t.stride[2] : 1;
        const int32_t first = PLANES ? s.lc : s.lc * 8;
        pos = s.from + s.lp * (PLANES ? 8 : 1);
        if (ckci_k_amd()) {
            column = at = place(t, s, first, pos);
        } else {
            column = at = t.p + (ckci_k_norm_base(t, s, 0, 0) + first * wide + pos * t.stride[5]) * size;
        }
        step = p.lanes_p * (PLANES ? 8 : 1) * t.stride[5] * size;
        apart = p.lanes_c * (PLANES ? 1 : 8) * wide * size;
    }

    /* AMD: a channel and a position of the block's first group. Products of 64 bits are slow there. */
    static CKCI_K_MEMBER unsigned char *place(const ckci_tensor &t, const ckci_k_slab &s, int32_t channel,
                                              int32_t position)
    {
        const int64_t base = ckci_k_norm_base(t, s, 0, 0);
        const int64_t there = PLANES ? channel * t.stride[2] + position : channel + position * t.stride[5];
        return t.p + (int64_t)((uint64_t)(base + there) << (t.dtype == CKCONV_F32 ? 2 : 1));
    }

    /* Through this thread's part of what is kept in LDS. */
    CKCI_K_MEMBER ckci_k_norm_cursor(const ckci_tensor &t, const ckci_k_slab &s, unsigned char *kept,
                                     int32_t places)
    {
        const int32_t size = 8 * ckci_k_size(t.dtype);
        pos = s.from + s.lp * (PLANES ? 8 : 1);
        column = at = kept + (int32_t)threadIdx.x * size;
        step = 256 * size;
        apart = places * step;
    }

    CKCI_K_MEMBER void next_column()
    {
        at = column += apart;
    }

    /* Stretches of CKCI_GPU_CHAIN places, and columns, to go. */
    CKCI_K_MEMBER void next_stretch(int32_t stretches, int32_t columns, int32_t positions)
    {
        at = column += stretches * (CKCI_GPU_CHAIN * step) + columns * apart;
        pos += stretches * positions;
    }

    /* From the last of `columns` columns on, and there from the last of `places` places on. */
    CKCI_K_MEMBER void turn(int32_t columns, int32_t places)
    {
        at = column += (columns - 1) * apart + (places - 1) * step;
        apart = -apart;
        step = -step;
    }

    /* AMD: the place that turn has found, anew, as products of 64 bits are slow there. */
    CKCI_K_MEMBER void turn_amd(const ckci_gpu_norm &p, const ckci_tensor &t, const ckci_k_slab &s,
                                int32_t columns, int32_t places)
    {
        if (ckci_k_amd()) {
            const int32_t channel = (s.lc + (columns - 1) * p.lanes_c) * (PLANES ? 1 : 8);
            column = at = place(t, s, channel, pos + (places - 1) * p.lanes_p * (PLANES ? 8 : 1));
        }
    }
};

/* Where x is read. */
template <bool PLANES>
CKCI_K_FN ckci_k_norm_cursor<PLANES> ckci_k_norm_x(const ckci_gpu_norm &p, const ckci_k_slab &s)
{
    return ckci_k_norm_cursor<PLANES>(p, p.x, s);
}
template <bool PLANES>
CKCI_K_FN ckci_k_norm_cursor<PLANES> ckci_k_norm_x(const ckci_gpu_norm &p, const ckci_k_kept_slab &s)
{
    return ckci_k_norm_cursor<PLANES>(p.x, s, s.x, s.places);
}

/* Places of this thread in a column; columns of this thread. */
template <bool PLANES>
CKCI_K_FN int32_t ckci_k_norm_places_of(const ckci_gpu_norm &p, const ckci_k_slab &s, int32_t pos)
{
    const int32_t rest = PLANES ? (s.to - pos + 7) >> 3 : s.to - pos;
    return rest > 0 ? ckci_k_divide(rest + p.lanes_p - 1, p.by_lanes_p) : 0;
}
template <bool PLANES> CKCI_K_FN int32_t ckci_k_norm_columns_of(const ckci_gpu_norm &p, const ckci_k_slab &s)
{
    if (PLANES) { /* all channels of one group */
        return p.chunks - (s.lc + (p.chunks - 1) * p.lanes_c < s.columns ? 0 : 1);
    }
    const int32_t eights = s.columns / 8 - s.lc;
    return eights > 0 ? ckci_k_divide(eights + p.lanes_c - 1, p.by_fast) : 0;
}

template <bool PLANES>
CKCI_K_FN void ckci_k_norm_store8(const ckci_gpu_norm &p, int32_t dtype, unsigned char *to, int32_t count,
                                  const ckci_k_float2 *v)
{
    const bool aligned = __builtin_expect(ckci_k_norm_aligned<PLANES>(p), 1);
    if (dtype == CKCONV_F32) {
        if (aligned) {
            const ckci_k_uint4 a = {ckci_k_bits(v[0].x), ckci_k_bits(v[0].y), ckci_k_bits(v[1].x),
                                    ckci_k_bits(v[1].y)};
            const ckci_k_uint4 b = {ckci_k_bits(v[2].x), ckci_k_bits(v[2].y), ckci_k_bits(v[3].x),
                                    ckci_k_bits(v[3].y)};
            ((ckci_k_uint4 *)to)[0] = a;
            ((ckci_k_uint4 *)to)[1] = b;
            return;
        }
        count = ckci_k_lane_afresh(count);
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            if (i < count) {
                ((float *)to)[i] = ckci_k_norm_one(v, i);
            }
        }
        return;
    }
    const ckci_k_uint4 a = {
        ckci_k_two(dtype, ckci_k_bits(v[0].x), ckci_k_bits(v[0].y)),
        ckci_k_two(dtype, ckci_k_bits(v[1].x), ckci_k_bits(v[1].y)),
        ckci_k_two(dtype, ckci_k_bits(v[2].x), ckci_k_bits(v[2].y)),
        ckci_k_two(dtype, ckci_k_bits(v[3].x), ckci_k_bits(v[3].y)),
    };
    if (aligned) {
        *(ckci_k_uint4 *)to = a;
        return;
    }
    const uint32_t w[4] = {a.x, a.y, a.z, a.w};
    count = ckci_k_lane_afresh(count);
    CKCI_K_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        if (i < count) {
            ((uint16_t *)to)[i] = (uint16_t)(w[i / 2] >> 16 * (i % 2));
        }
    }
}

/* May loads go through the ring? */
CKCI_K_FN bool ckci_k_norm_rings()
{
#if defined(CKCI_SIMULATOR)
    return sim_device.kind == CKCONV_DEVICE_NVIDIA;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return true;
#else
    return false;
#endif
}

/* Channels last: eights of x, and of dy, of one place after the other, on their way through the ring. */
template <bool DY> struct ckci_k_norm_ahead {
    ckci_k_uint4 *ring;
    int32_t each[2], all, depth, from, to, left; /* vectors of a place; places in the ring, not yet loaded */

    CKCI_K_MEMBER ckci_k_norm_ahead(const ckci_gpu_norm &p, ckci_k_uint4 *of, int32_t places)
    {
        ring = of + threadIdx.x;
        each[0] = p.x.dtype == CKCONV_F32 ? 2 : 1;
        each[1] = !DY ? 0 : p.y.dtype == CKCONV_F32 ? 2 : 1;
        all = each[0] + each[1];
        depth = all == 1 ? 8 : all == 2 ? 4 : 2;
        from = to = 0;
        left = places;
    }

    /* Loads the next place, if there is one. */
    CKCI_K_MEMBER void load(ckci_k_norm_cursor<false> &x, ckci_k_norm_cursor<false> &y)
    {
        if (left-- > 0) {
            ckci_k_uint4 *at = ring + to * 256;
            for (int32_t i = 0; i < each[0]; i++, at += 256) {
                ckci_k_copy_late<16>((unsigned char *)at, x.at + i * 16, true);
            }
            x.at += x.step;
            if (DY) {
                for (int32_t i = 0; i < each[1]; i++, at += 256) {
                    ckci_k_copy_late<16>((unsigned char *)at, y.at + i * 16, true);
                }
                y.at += y.step;
            }
        }
        ckci_k_copies_end();
        to = to + 2 * all > 8 ? 0 : to + all;
    }

    /* The oldest place; dy's is loaded after x's. */
    CKCI_K_MEMBER void take(const ckci_gpu_norm &p, ckci_k_norm_raw &x, ckci_k_norm_raw &dy)
    {
        if (all == 1) {
            ckci_k_copies_wait<7>();
        } else if (all == 2) {
            ckci_k_copies_wait<3>();
        } else {
            ckci_k_copies_wait<1>();
        }
        const ckci_k_uint4 *at = ring + from * 256;
        x.a = at[0];
        if (p.x.dtype == CKCONV_F32) {
            x.b = at[256];
        }
        if (DY) {
            at += each[0] * 256;
            dy.a = at[0];
            if (p.y.dtype == CKCONV_F32) {
                dy.b = at[256];
            }
        }
        from = from + 2 * all > 8 ? 0 : from + all;
    }
};

/* body(how many positions are left, eight of x, eight of dy) at places of this thread in a column; loads are
   ahead, between() comes after the first ones. widen(raw, v): x as body takes it. rest: positions from the
   first place on. DY: dy is read too. TURNED: from the last of `places` places to the first, as the cursors
   then go. */
template <bool PLANES, bool DY, bool TURNED, class T, class Between, class Widen, class Body>
CKCI_K_FN void ckci_k_norm_each(const ckci_gpu_norm &p, const ckci_k_slab &s, const ckci_k_norm_lds<T> &m,
                                ckci_k_norm_cursor<PLANES> &x, ckci_k_norm_cursor<PLANES> &y, int32_t places,
                                const Between &between, const Widen &widen, const Body &body)
{
    const int32_t step = p.lanes_p * (PLANES ? 8 : 1);
    int32_t rest = s.to - x.pos;
    if constexpr (TURNED) { /* of the last place; 0 or less: there is none */
        rest -= places > 0 ? (places - 1) * step : 0;
    }
    ckci_k_norm_raw raw, raw_dy;
    ckci_k_float2 v[4], w[4];
    if constexpr (!PLANES && CKCI_K_NORM_RING > 0) {
        if (ckci_k_norm_rings()) {
            typedef ckci_k_norm_room<T, CKCI_K_NORM_RING> room;
            int32_t count = TURNED ? places : ckci_k_norm_places_of<PLANES>(p, s, x.pos);
            ckci_k_norm_ahead<DY> ahead(p, const_cast<room &>(static_cast<const room &>(m)).ring, count);
            CKCI_K_UNROLL(1)
            for (int32_t i = 0; i < ahead.depth; i++) {
                ahead.load(x, y);
            }
            between();
            for (; count > 0; count--, rest += TURNED ? step : -step) {
                ahead.take(p, raw, raw_dy);
                widen(raw, v);
                if (DY) {
                    raw_dy.widen(p.y.dtype, w);
                }
                ahead.load(x, y);
                body(rest, v, w);
            }
            return;
        }
    }
    if (rest > 0) {
        raw.load<PLANES>(p, p.x.dtype, x.at, rest);
        if (DY) {
            raw_dy.load<PLANES>(p, p.y.dtype, y.at, rest);
        }
    }
    between();
    for (; TURNED ? places > 0 : rest > 0; rest += TURNED ? step : -step) {
        widen(raw, v);
        if (DY) {
            raw_dy.widen(p.y.dtype, w);
        }
        if (TURNED ? --places > 0 : rest > step) {
            const int32_t then = TURNED ? rest + step : rest - step;
            x.at += x.step;
            raw.load<PLANES>(p, p.x.dtype, x.at, then);
            if (DY) {
                y.at += y.step;
                raw_dy.load<PLANES>(p, p.y.dtype, y.at, then);
            }
        }
        body(rest, v, w);
    }
}

/* Where thread t has its entries among 256 of one kind. Channels first, 32 of several channels are read
   together: in LDS they lie in different banks. */
CKCI_K_FN int32_t ckci_k_norm_cell(const ckci_gpu_norm &p, int32_t t)
{
    return p.along_x ? t ^ t / 32 * 4 : t;
}

/* Entries of eight channels of each thread, added over the threads of a channel: those of lane_p 0 are the
   sums. 32 threads share the entries of a kind, `several` of them a channel; the first `kinds` kinds are
   wanted. join(to, from) */
template <class F> CKCI_K_FN void ckci_k_norm_fold8(const ckci_gpu_norm &p, int32_t kinds, const F &join)
{
    const int32_t t = (int32_t)threadIdx.x % 32, kind = (int32_t)threadIdx.x / 32 * 256;
    const int32_t all = p.lanes_c * p.lanes_p, lane_p = p.along_x ? 1 : p.lanes_c;
    int32_t several = 1, log = 0;
    while (2 * several * p.lanes_c <= 32 && 2 * several <= p.lanes_p) {
        several *= 2;
        log++;
    }
    const int32_t apart = several * lane_p, first = p.along_x ? t & (several - 1) : 0;
    const int32_t mine = p.along_x ? (t >> log) * p.lanes_p + first : t;
    const auto add = [&](int32_t to, int32_t from) {
        join(kind + ckci_k_norm_cell(p, to), kind + ckci_k_norm_cell(p, from));
    };
    const bool wanted = kinds >= 8 || (int32_t)threadIdx.x / 32 < kinds;
    __syncthreads();
    for (int32_t to = wanted ? mine : all; to < (p.along_x ? all : apart);
         to += p.along_x ? (32 >> log) * p.lanes_p : 32) {
        const int32_t end = p.along_x ? to - first + p.lanes_p : all;
        for (int32_t from = to + apart; from < end; from += apart) {
            add(to, from);
        }
    }
    for (int32_t half = several / 2; half > 0; half /= 2) {
        __syncthreads();
        if (wanted && (p.along_x ? mine < all && first < half : t < half * lane_p)) {
            add(mine, mine + half * lane_p);
        }
    }
    __syncthreads();
}

/* The first numbers of the groups of eight columns, channels last: groups follow each other. */
CKCI_K_FN void ckci_k_norm_pivots(const ckci_gpu_norm &p, const unsigned char *first, int32_t column,
                                  float (&pivot)[8])
{
    uint32_t bits[8];
    CKCI_K_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        bits[i] = (uint32_t)(ckci_k_divide(column + i, p.by_c) * p.c);
    }
    if (p.x.dtype == CKCONV_F32) {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            pivot[i] = ((const float *)first)[bits[i]];
        }
        return;
    }
    CKCI_K_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        bits[i] = ((const uint16_t *)first)[bits[i]];
    }
    CKCI_K_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        pivot[i] = ckci_k_norm_number(p.x.dtype, bits[i]);
    }
}

/* Moments of all that this block reads: those of group k become m.u.of[k]. PLANES: channels first. */
template <bool PLANES, class S, class T>
CKCI_K_FN void ckci_k_norm_gather8(const ckci_gpu_norm &p, const S &s, ckci_k_norm_lds<T> &m)
{
    const int32_t t = (int32_t)threadIdx.x, each = PLANES ? 1 : 8;
    const int64_t size = ckci_k_size(p.x.dtype);
    double sum[8] = {0, 0, 0, 0, 0, 0, 0, 0}, square[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    const unsigned char *first = p.x.p + ckci_k_norm_base(p.x, s, 0, 0) * size;
    ckci_k_norm_cursor<PLANES> x = ckci_k_norm_x<PLANES>(p, s);
    float pivot[8];
    pivot[0] = ckci_k_norm_load1(p.x.dtype, first, 0);
    for (int32_t column = s.lc * each; s.active && column < s.columns; column += p.lanes_c * each) {
        if (!PLANES) {
            ckci_k_norm_pivots(p, first, column, pivot);
        }
        ckci_k_norm_each<PLANES, false, false>(
            p, s, m, x, x, 0, [] {},
            [&](const ckci_k_norm_raw &raw, ckci_k_float2 *v) { raw.widen(p.x.dtype, v); },
            [&](int32_t rest, ckci_k_float2 *v, const ckci_k_float2 *) {
                if (PLANES && rest < 8) {
                    ckci_k_norm_end(v, rest, pivot[0]);
                }
                CKCI_K_UNROLL(8)
                for (int i = 0; i < 8; i++) {
                    const double d = (double)ckci_k_norm_one(v, i) - (double)pivot[PLANES ? 0 : i];
                    sum[i] += d;
                    square[i] += d * d;
                }
            });
        x.next_column();
    }
    if (p.set == 1) {
        ckci_k_moments all = {0, 0};
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            all.sum += sum[i];
            all.square += square[i];
        }
        m.u.of[t] = all;
        ckci_k_norm_fold(t, 256, 256,
                         [&](int32_t to, int32_t from) { ckci_k_norm_join(m.u.of[to], m.u.of[from]); });
        return;
    }
    ckci_k_moments of = {0, 0};
    CKCI_K_UNROLL(1)
    for (int which = 0; which < 2; which++) {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            m.u.moment[i * 256 + t] = which ? square[i] : sum[i];
        }
        ckci_k_norm_fold8(p, 8, [&](int32_t to, int32_t from) { m.u.moment[to] += m.u.moment[from]; });
        double all = 0;
        for (int32_t c = t * p.c; t < s.groups && c < (t + 1) * p.c; c++) {
            all += m.u.moment[c % 8 * 256 + c / 8];
        }
        of.sum = which ? of.sum : all;
        of.square = all;
        __syncthreads();
    }
    m.u.of[t] = of;
    __syncthreads();
}

/* m.u.of[k * length] becomes the moments of group k; returns length. */
template <int W, class S, class T>
CKCI_K_FN int32_t ckci_k_norm_gather(const ckci_gpu_norm &p, const S &s, ckci_k_norm_lds<T> &m)
{
    int32_t t = (int32_t)threadIdx.x, length = (int32_t)p.by_segment.d, total = p.lanes_c * p.lanes_p;
    int32_t k = ckci_k_divide(t, p.by_segment);
    if constexpr (W != CKCI_K_NORM_ANY) {
        ckci_k_norm_gather8<W == CKCI_K_NORM_PLANES>(p, s, m);
        return 1;
    }
    if (s.active) {
        m.u.of[s.lc * p.lanes_p + s.lp] = ckci_k_norm_read<T>(p, s);
    }
    ckci_k_norm_fold(t - k * length, length, total,
                     [&](int32_t to, int32_t from) { ckci_k_norm_join(m.u.of[to], m.u.of[from]); });
    return length;
}

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
    if (S::KEPT || !p.stats) {
        length = ckci_k_norm_gather<W>(p, s, m);
    }
    if (p.stats) {
        int32_t k = ckci_k_divide(t, p.by_parts), part = t - k * p.parts;
        if (S::KEPT) {
            ckci_k_norm_put_stats(p, s, m, length);
            ckci_k_cluster_barrier();
        }
        length = p.parts;
        if (k < s.groups) {
            const double *stats =
                (const double *)p.stats + (((int64_t)s.n * p.parts + part) * p.g + s.g0 + k) * 2;
            m.u.of[t].sum = stats[0];
            m.u.of[t].square = stats[1];
        }
        ckci_k_norm_fold(part, length, s.groups * p.parts,
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

template <class T>
CKCI_K_FN ckci_k_norm_channel<T> ckci_k_find_channel(const ckci_gpu_norm &p, const ckci_k_slab &s,
                                                     const ckci_k_norm_lds<T> &m, int32_t column)
{
    ckci_k_norm_channel<T> c;
    int32_t group = ckci_k_divide(column, p.by_c), rest = column - group * p.c;
    c.x = ckci_k_norm_base(p.x, s, group, rest);
    c.y = ckci_k_norm_base(p.y, s, group, rest);
    c.dx = ckci_k_norm_base(p.dx, s, group, rest);
    c.hi = m.hi[group];
    c.lo = m.lo[group];
    c.r = m.r[group];
    c.gamma = ckci_k_norm_factor<T>(p, p.gamma, s.g0 * p.c + column, 1);
    c.beta = ckci_k_norm_factor<T>(p, p.beta, s.g0 * p.c + column, 0);
    c.mean_a = m.mean[0][group];
    c.mean_b = m.mean[1][group];
    return c;
}

/* x * y, finite where y is: a channel without deviation has a large x, and differences of 0. */
CKCI_K_FN float ckci_k_norm_bounded(float x, float y)
{
    const uint32_t infinite = 0x7f800000u, bits = ckci_k_bits(x * y);
    const bool over = (bits & 0x7fffffffu) == infinite && (ckci_k_bits(y) & 0x7fffffffu) != infinite;
    return ckci_k_float(bits - (over ? 1 : 0)); /* the largest number comes before infinity */
}

/* AMD: what dy' is to be multiplied by. */
CKCI_K_FN float ckci_k_norm_unit(const ckci_gpu_norm &p)
{
    return ckci_k_amd() && p.act != CKCONV_PASS ? 1.44269504f : 1;
}

/* AMD: is d of f16, x - hi, not yet multiplied by r? */
CKCI_K_FN bool ckci_k_norm_late_r(const ckci_gpu_norm &p)
{
    return ckci_k_amd() && p.x.dtype == CKCONV_F16;
}

/* Wide: what eight numbers of one channel, or of eight, need. y is (x - hi)*scale + shift; with
   d = (x - hi)*r, xhat but for the rest of the mean, it is d*gamma + shift, and dx is
   r * (gamma*dy' - level - d*slope): 0 for a group of one number. */
template <int N> struct ckci_k_norm_channels {
    float hi[N], r[N], gamma[N], scale[N], shift[N], slope[N], level[N];
    float steep[N], start[N]; /* AMD: y before the activation, in powers of two, is d*steep + start */

    /* What belongs to the groups of N columns, and to these themselves. */
    template <class M> CKCI_K_MEMBER void groups(const ckci_gpu_norm &p, const M &m, int32_t column)
    {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < N; i++) {
            const int32_t group = N == 1 ? 0 : ckci_k_divide(column + i, p.by_c);
            hi[i] = m.hi[group];
            r[i] = m.r[group];
            slope[i] = m.mean[1][group] * (ckci_k_norm_late_r(p) ? r[i] : 1);
            level[i] = m.mean[0][group];
        }
    }

    template <bool BACK, class M>
    CKCI_K_MEMBER void factors(const ckci_gpu_norm &p, const ckci_k_slab &s, const M &m, int32_t column)
    {
        uint32_t bits[2][N];
        ckci_k_norm_factor_bits(p, p.gamma, s.g0 * p.c + column, bits[0]);
        ckci_k_norm_factor_bits(p, p.beta, s.g0 * p.c + column, bits[1]);
        CKCI_K_UNROLL(8)
        for (int i = 0; i < N; i++) {
            const int32_t group = N == 1 ? 0 : ckci_k_divide(column + i, p.by_c);
            gamma[i] = p.gamma ? ckci_k_norm_number(p.param, bits[0][i]) : 1;
            scale[i] = ckci_k_norm_bounded(m.r[group], gamma[i]);
            shift[i] = ckci_k_norm_number(p.param, bits[1][i]) - m.lo[group] * scale[i];
            const float binary = 1.44269504f;
            steep[i] = ckci_k_norm_bounded(binary, BACK && !ckci_k_norm_late_r(p) ? gamma[i] : scale[i]);
            start[i] = shift[i] * binary;
        }
    }
};

/* The sum of dy'*xhat from those of dy' and of dy'*d. */
template <class T>
CKCI_K_FN float ckci_k_norm_hat(const ckci_k_norm_lds<T> &m, int32_t group, float sum, float products)
{
    return products - m.lo[group] * m.r[group] * sum;
}

/* body(how many positions are left, eight of x, eight of dy) for all positions of this thread in a column;
   loads are ahead. c becomes the column's (PLANES: its group's it is). DY: dy is read too. TURNED: from
   the last of `places` places to the first, as the cursors then go. */
template <bool PLANES, bool DY, bool TURNED, class T, class Body>
CKCI_K_FN void ckci_k_norm_walk(const ckci_gpu_norm &p, const ckci_k_slab &s, const ckci_k_norm_lds<T> &m,
                                ckci_k_norm_channels<PLANES ? 1 : 8> &c, ckci_k_norm_cursor<PLANES> &x,
                                ckci_k_norm_cursor<PLANES> &y, int32_t column, int32_t places,
                                const Body &body)
{
    ckci_k_norm_each<PLANES, DY, TURNED>(
        p, s, m, x, y, places,
        [&] {
            if (!PLANES) {
                c.groups(p, m, column);
            }
            c.template factors<DY>(p, s, m, column);
        },
        [&](const ckci_k_norm_raw &raw, ckci_k_float2 *v) {
            if (ckci_k_amd()) {
                raw.differences<DY>(p.x.dtype, c, v);
            } else {
                raw.widen(p.x.dtype, v);
            }
        },
        body);
    x.next_column();
    if (DY) {
        y.next_column();
    }
}

/* e^-v, and 1 / (1 + that) */
CKCI_K_FN ckci_k_float2 ckci_k_norm_sigmoid(const ckci_k_float2 &v, ckci_k_float2 &e)
{
    const ckci_k_float2 one = {1, 1}, to_binary = {-1.44269504f, -1.44269504f};
    ckci_k_float2 power = v * to_binary;
    e.x = ckci_k_quick_exp2(power.x);
    e.y = ckci_k_quick_exp2(power.y);
    power = one + e;
    const ckci_k_float2 sigmoid = {ckci_k_quick_inverse(power.x), ckci_k_quick_inverse(power.y)};
    return sigmoid;
}

/* y of eight of x before the activation; not OF_X: of eight differences from hi. */
template <bool OF_X, int N>
CKCI_K_FN void ckci_k_norm_affine8(const ckci_k_norm_channels<N> &c, ckci_k_float2 *v)
{
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const ckci_k_float2 d = OF_X ? v[i] - ckci_k_norm_two(c.hi, 2 * i) : v[i];
        v[i] = d * ckci_k_norm_two(c.scale, 2 * i) + ckci_k_norm_two(c.shift, 2 * i);
    }
}

/* Silu, else sigmoid, of eight numbers. */
template <bool SILU> CKCI_K_FN void ckci_k_norm_activate8(ckci_k_float2 *v)
{
    ckci_k_float2 e;
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        v[i] = SILU ? v[i] * ckci_k_norm_sigmoid(v[i], e) : ckci_k_norm_sigmoid(v[i], e);
    }
}

/* AMD: y of eight differences, with silu, else sigmoid. */
template <bool SILU, int N>
CKCI_K_FN void ckci_k_norm_activate8_amd(const ckci_k_norm_channels<N> &c, ckci_k_float2 *y)
{
    const float unit = SILU ? 1.44269504f : 1;
    const ckci_k_float2 units = {unit, unit};
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const ckci_k_float2 v = y[i] * ckci_k_norm_two(c.steep, 2 * i) + ckci_k_norm_two(c.start, 2 * i);
        ckci_k_float2 e = {ckci_k_quick_exp2(-v.x), ckci_k_quick_exp2(-v.y)};
        e = e * units + units;
        const ckci_k_float2 inverse = {ckci_k_quick_inverse(e.x), ckci_k_quick_inverse(e.y)};
        y[i] = SILU ? v * inverse : inverse;
    }
}

template <bool PLANES, class S, class T>
CKCI_K_FN void ckci_k_norm_apply8(const ckci_gpu_norm &p, const S &s, const ckci_k_norm_lds<T> &m)
{
    const int32_t each = PLANES ? 1 : 8;
    ckci_k_norm_cursor<PLANES> x = ckci_k_norm_x<PLANES>(p, s), y(p, p.y, s);
    ckci_k_norm_channels<PLANES ? 1 : 8> c;
    if (PLANES) {
        c.groups(p, m, 0);
    }
    /* backwards: what was read last is still in the caches */
    const int32_t places = ckci_k_norm_places_of<PLANES>(p, s, x.pos);
    int32_t left = s.active ? ckci_k_norm_columns_of<PLANES>(p, s) : 0;
    x.turn(left, places);
    y.turn(left, places);
    if constexpr (CKCI_K_MAYBE_AMD != 0) {
        x.turn_amd(p, p.x, s, left, places);
        y.turn_amd(p, p.y, s, left, places);
    }
    while (left-- > 0) {
        const int32_t column = (s.lc + left * p.lanes_c) * each;
        const auto apply = [&](int32_t rest, ckci_k_float2 *v, const ckci_k_float2 *) {
            if (!ckci_k_amd()) {
                ckci_k_norm_affine8<true>(c, v);
                if (p.act == CKCONV_SILU) {
                    ckci_k_norm_activate8<true>(v);
                } else if (p.act != CKCONV_PASS) {
                    ckci_k_norm_activate8<false>(v);
                }
            } else if (p.act == CKCONV_PASS) {
                ckci_k_norm_affine8<false>(c, v);
            } else if (p.act == CKCONV_SILU) {
                ckci_k_norm_activate8_amd<true>(c, v);
            } else {
                ckci_k_norm_activate8_amd<false>(c, v);
            }
            ckci_k_norm_store8<PLANES>(p, p.y.dtype, y.at, rest, v);
            y.at += y.step;
        };
        ckci_k_norm_walk<PLANES, false, true>(p, s, m, c, x, y, column, places, apply);
        y.next_column();
    }
}

/* The activation of dy at d is undone: silu or sigmoid. Not EXACT: 1 - sigmoid loses what f16 cannot
   hold. */
template <bool PLANES, bool EXACT>
CKCI_K_FN void ckci_k_norm_undo8(const ckci_k_norm_channels<PLANES ? 1 : 8> &c, bool silu,
                                 const ckci_k_float2 *d, ckci_k_float2 *dy)
{
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const ckci_k_float2 one = {1, 1};
        ckci_k_float2 v = d[i] * ckci_k_norm_two(c.gamma, 2 * i) + ckci_k_norm_two(c.shift, 2 * i), e;
        if (EXACT) { /* e is finite */
            v.x = v.x < -87 ? -87 : v.x;
            v.y = v.y < -87 ? -87 : v.y;
        }
        const ckci_k_float2 sigmoid = ckci_k_norm_sigmoid(v, e), rest = EXACT ? e * sigmoid : one - sigmoid;
        const ckci_k_float2 of_silu = v * rest + one, front = dy[i] * sigmoid;
        dy[i].x = front.x * (silu ? of_silu.x : rest.x);
        dy[i].y = front.y * (silu ? of_silu.y : rest.y);
    }
}

/* Inverses of eight numbers from 1 to 4: all share one, which AMD computes as slowly as four products. */
CKCI_K_FN void ckci_k_norm_inverses(ckci_k_float2 *x)
{
    const ckci_k_float2 front = x[0] * x[1], back = x[2] * x[3], all = front * back;
    const float inverse = ckci_k_quick_inverse(all.x * all.y);
    const ckci_k_float2 both = {inverse * all.y, inverse * all.x};
    const ckci_k_float2 of_front = both * back, of_back = both * front, first = x[0], third = x[2];
    x[0] = of_front * x[1];
    x[1] = of_front * first;
    x[2] = of_back * x[3];
    x[3] = of_back * third;
}

/* The same for AMD, but for a factor ckci_k_norm_unit. With v in powers of two, e = 2^-|v| and
   q = 1 / (1 + e), sigmoid is q, where v < 0 e*q, and its derivative e*q*q. Where v is NaN, dy' is, but q of
   the others is not: e is a number there. */
template <bool PLANES, bool SILU>
CKCI_K_FN void ckci_k_norm_undo8_amd(const ckci_k_norm_channels<PLANES ? 1 : 8> &c, const ckci_k_float2 *d,
                                     ckci_k_float2 *dy)
{
    const ckci_k_float2 unit = {1.44269504f, 1.44269504f}, far = {1e38f, 1e38f};
    ckci_k_float2 v[4], power[4], e[4], q[4];
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        v[i] = d[i] * ckci_k_norm_two(c.steep, 2 * i) + ckci_k_norm_two(c.start, 2 * i);
        power[i] = {ckci_k_quick_exp2(-ckci_k_abs(v[i].x)), ckci_k_quick_exp2(-ckci_k_abs(v[i].y))};
        e[i] = {ckci_k_unit(power[i].x), ckci_k_unit(power[i].y)};
        q[i] = e[i] * unit + unit;
    }
    ckci_k_norm_inverses(q);
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const ckci_k_float2 front = dy[i] * q[i], ve = v[i] * e[i], sign = v[i] * far;
        const ckci_k_float2 one = {ckci_k_middle(e[i].x, 1, sign.x), ckci_k_middle(e[i].y, 1, sign.y)};
        dy[i] = front * (SILU ? ve * q[i] + one : unit * power[i] * q[i]);
    }
}

/* Eight of x become (x - hi)*r, and the activation of dy is undone. TYPE: of dx; 0: any, not known to the
   compiler. */
template <bool PLANES, int TYPE>
CKCI_K_FN void ckci_k_norm_gradient8(const ckci_gpu_norm &p, const ckci_k_norm_channels<PLANES ? 1 : 8> &c,
                                     ckci_k_float2 *d, ckci_k_float2 *dy)
{
    if (ckci_k_amd()) {
        if (p.act == CKCONV_SILU) {
            ckci_k_norm_undo8_amd<PLANES, true>(c, d, dy);
        } else if (p.act != CKCONV_PASS) {
            ckci_k_norm_undo8_amd<PLANES, false>(c, d, dy);
        }
        return;
    }
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        d[i] = (d[i] - ckci_k_norm_two(c.hi, 2 * i)) * ckci_k_norm_two(c.r, 2 * i);
    }
    if (__builtin_expect(p.act != CKCONV_PASS, 0)) {
        if constexpr (TYPE == 0 || TYPE == CKCONV_F32) {
            ckci_k_norm_undo8<PLANES, true>(c, p.act == CKCONV_SILU, d, dy);
        } else if (p.act == CKCONV_SILU) {
            ckci_k_norm_undo8<PLANES, false>(c, true, d, dy);
        } else {
            ckci_k_norm_undo8<PLANES, true>(c, false, d, dy);
        }
    }
}

/* A stretch of a thread's sums ends (>>k-prim, long sums): channels last, those before lie in its cells,
   channels first, where all eight are one sum, in its place of m.total. fresh: nothing is there yet; end: all
   of it is wanted in sum. */
template <bool PLANES, class T>
CKCI_K_FN void ckci_k_norm_settle8(ckci_k_norm_lds<T> &m, int32_t cell, ckci_k_float2 (&sum)[2][4],
                                   bool fresh, bool end)
{
    CKCI_K_UNROLL(2)
    for (int which = 0; which < 2; which++) {
        if (PLANES) {
            ckci_k_float2 *four = sum[which];
            const ckci_k_float2 two = (four[0] + four[1]) + (four[2] + four[3]), none = {0, 0};
            four[0].x = two.x + two.y;
            four[0].y = 0;
            four[1] = four[2] = four[3] = none;
        }
        CKCI_K_UNROLL(4)
        for (int e = 0; e < (PLANES ? 1 : 4); e++) {
            float part[2] = {sum[which][e].x, sum[which][e].y};
            CKCI_K_UNROLL(2)
            for (int i = 0; i < (PLANES ? 1 : 2); i++) {
                float &whole =
                    PLANES ? m.total[which][threadIdx.x] : m.u.cell[which][(2 * e + i) * 256 + cell];
                float before = fresh ? 0 : whole;
                ckci_k_carry(before, part[i]);
                whole = before;
                part[i] = end ? before + part[i] : part[i];
            }
            sum[which][e].x = part[0];
            sum[which][e].y = part[1];
        }
    }
}

/* Sums of this block, of eight columns of each lane at a time: those of channels to workspace when wanted,
   those of group k, weighted, in m.total. */
template <bool PLANES, class T>
CKCI_K_FN void ckci_k_norm_add8(const ckci_gpu_norm &p, const ckci_k_slab &s, ckci_k_norm_lds<T> &m)
{
    const int32_t t = (int32_t)threadIdx.x, apart = PLANES ? p.lanes_c : 1, cell = ckci_k_norm_cell(p, t);
    const int64_t channels = (int64_t)p.g * p.c, all = (int64_t)p.n * p.parts * channels;
    const int64_t first = ((int64_t)s.n * p.parts + s.part) * channels + s.g0 * p.c;
    ckci_k_norm_cursor<PLANES> x(p, p.x, s), y(p, p.y, s);
    ckci_k_norm_channels<PLANES ? 1 : 8> c;
    if (PLANES) {
        c.groups(p, m, 0);
    }
    float a = 0, b = 0;
    const ckci_k_float2 none = {0, 0};
    const int32_t stretch = CKCI_GPU_CHAIN * p.lanes_p * (PLANES ? 8 : 1);
    for (int32_t j = 0; j < s.columns; j += 8 * p.lanes_c) {
        const int32_t column0 = j + (PLANES ? s.lc : s.lc * 8); /* of eight, `apart` columns apart */
        ckci_k_float2 sum[2][4];
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            sum[0][i] = sum[1][i] = none;
        }
        CKCI_K_UNROLL(1)
        for (int32_t i = 0; i < (PLANES ? 8 : 1); i++) {
            const int32_t column = column0 + i * apart;
            if (!s.active || column >= s.columns) {
                break;
            }
            const auto add = [&](int32_t rest, ckci_k_float2 *d, ckci_k_float2 *dy) {
                ckci_k_norm_gradient8<PLANES, 0>(p, c, d, dy);
                if (PLANES && (ckci_k_amd() ? !p.aligned : rest < 8)) {
                    ckci_k_norm_end(d, rest, 0);
                    ckci_k_norm_end(dy, rest, 0);
                }
                CKCI_K_UNROLL(4)
                for (int e = 0; e < 4; e++) {
                    sum[0][e] = sum[0][e] + dy[e];
                    sum[1][e] = dy[e] * d[e] + sum[1][e];
                }
            };
            ckci_k_slab piece = s;
            CKCI_K_UNROLL(1)
            for (int32_t n = 0;; n++) {
                piece.to = s.to - piece.from > stretch ? piece.from + stretch : s.to;
                ckci_k_norm_walk<PLANES, true, false>(p, piece, m, c, x, y, column, 0, add);
                const bool end = piece.to == s.to;
                if (n > 0 || !end) {
                    ckci_k_norm_settle8<PLANES>(m, cell, sum, n == 0, end);
                    /* to the next stretch of this column, or to the first one of the next column */
                    x.next_stretch(end ? -n : 1, end ? 0 : -1, stretch);
                    y.next_stretch(end ? -n : 1, end ? 0 : -1, stretch);
                }
                if (end) {
                    break;
                }
                piece.from = piece.to;
            }
            if (PLANES) {
                float both[2];
                CKCI_K_UNROLL(2)
                for (int e = 0; e < 2; e++) {
                    both[e] = ((sum[e][0].x + sum[e][0].y) + (sum[e][1].x + sum[e][1].y)) +
                              ((sum[e][2].x + sum[e][2].y) + (sum[e][3].x + sum[e][3].y));
                    CKCI_K_UNROLL(4)
                    for (int f = 0; f < 4; f++) {
                        sum[e][f] = none;
                    }
                }
                if (ckci_k_amd()) {
                    const ckci_gpu_norm &late = ckci_k_again(p);
                    const float unit = ckci_k_norm_unit(late);
                    both[0] *= unit;
                    both[1] *= unit * (ckci_k_norm_late_r(late) ? c.r[0] : 1);
                }
                both[1] = ckci_k_norm_hat(m, 0, both[0], both[1]);
                m.u.cell[0][i * 256 + cell] = both[0];
                m.u.cell[1][i * 256 + cell] = both[1];
                a += c.gamma[0] * both[0];
                b += c.gamma[0] * both[1];
            }
        }
        if (!PLANES && s.active && column0 < s.columns) {
            const float unit = ckci_k_norm_unit(p);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 8; i++) {
                float one = ckci_k_norm_one(sum[0], i), hat = ckci_k_norm_one(sum[1], i);
                if (ckci_k_amd()) {
                    one *= unit;
                    hat *= unit * (ckci_k_norm_late_r(p) ? c.r[i] : 1);
                }
                hat = ckci_k_norm_hat(m, ckci_k_divide(column0 + i, p.by_c), one, hat);
                m.u.cell[0][i * 256 + cell] = one;
                m.u.cell[1][i * 256 + cell] = hat;
                a += c.gamma[i] * one;
                b += c.gamma[i] * hat;
            }
        }
        const ckci_gpu_norm &late = ckci_k_again(p);
        if (!late.sums && late.set == 1) {
            continue;
        }
        /* columns i of each lane; channels first, there may be fewer */
        const int32_t kinds = ckci_k_amd() && PLANES && s.columns - j <= late.lanes_c       ? 1
                              : ckci_k_amd() && PLANES && s.columns - j <= 2 * late.lanes_c ? 2
                                                                                            : 8;
        ckci_k_norm_fold8(late, kinds, [&](int32_t to, int32_t from) {
            m.u.cell[0][to] += m.u.cell[0][from];
            m.u.cell[1][to] += m.u.cell[1][from];
        });
        CKCI_K_UNROLL(1)
        for (int32_t i = 0; i < 8 && late.sums && s.active && s.lp == 0; i++) {
            const int32_t column = column0 + i * apart;
            if (column < s.columns) {
                ((float *)late.sums)[first + column] = m.u.cell[0][i * 256 + cell];
                ((float *)late.sums)[all + first + column] = m.u.cell[1][i * 256 + cell];
            }
        }
        if (late.set > 1) { /* all columns at once */
            a = b = 0;
            for (int32_t i = t * late.c; t < s.groups && i < (t + 1) * late.c; i++) {
                float gamma = ckci_k_norm_factor<float>(late, late.gamma, s.g0 * late.c + i, 1);
                a += gamma * m.u.cell[0][i % 8 * 256 + i / 8];
                b += gamma * m.u.cell[1][i % 8 * 256 + i / 8];
            }
        }
        __syncthreads();
    }
    m.total[0][t] = a;
    m.total[1][t] = b;
    if (p.set == 1) {
        ckci_k_norm_fold(t, 256, 256, [&](int32_t to, int32_t from) {
            m.total[0][to] += m.total[0][from];
            m.total[1][to] += m.total[1][from];
        });
    }
    __syncthreads();
}

/* dx of eight dy', into these. */
template <int N>
CKCI_K_FN void ckci_k_norm_dx8(const ckci_k_norm_channels<N> &c, const ckci_k_float2 *d, ckci_k_float2 *dy)
{
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const ckci_k_float2 gamma = ckci_k_norm_two(c.gamma, 2 * i);
        const ckci_k_float2 product = {ckci_k_product(gamma.x, dy[i].x), ckci_k_product(gamma.y, dy[i].y)};
        dy[i] = ckci_k_norm_two(c.r, 2 * i) *
                ((product - ckci_k_norm_two(c.level, 2 * i)) - d[i] * ckci_k_norm_two(c.slope, 2 * i));
    }
}

template <bool PLANES, class T>
CKCI_K_FN void ckci_k_norm_din8(const ckci_gpu_norm &p, const ckci_k_slab &s, const ckci_k_norm_lds<T> &m)
{
    const int32_t each = PLANES ? 1 : 8;
    ckci_k_norm_cursor<PLANES> x(p, p.x, s), y(p, p.y, s), dx(p, p.dx, s);
    ckci_k_norm_channels<PLANES ? 1 : 8> c;
    const float unit = ckci_k_norm_unit(p);
    if (PLANES) {
        c.groups(p, m, 0);
    }
    /* backwards, as in ckci_k_norm_apply8 */
    const int32_t places = ckci_k_norm_places_of<PLANES>(p, s, x.pos);
    int32_t left = s.active ? ckci_k_norm_columns_of<PLANES>(p, s) : 0;
    x.turn(left, places);
    y.turn(left, places);
    dx.turn(left, places);
    if constexpr (CKCI_K_MAYBE_AMD != 0) {
        x.turn_amd(p, p.x, s, left, places);
        y.turn_amd(p, p.y, s, left, places);
        dx.turn_amd(p, p.dx, s, left, places);
    }
    while (left-- > 0) {
        const int32_t column = (s.lc + left * p.lanes_c) * each;
        const auto write = [&](int32_t rest, ckci_k_float2 *d, ckci_k_float2 *dy) {
            ckci_k_norm_gradient8<PLANES, 0>(p, c, d, dy);
            if (ckci_k_amd() && p.act != CKCONV_PASS) {
                CKCI_K_UNROLL(4)
                for (int i = 0; i < 4; i++) {
                    dy[i].x = ckci_k_product(unit, dy[i].x);
                    dy[i].y = ckci_k_product(unit, dy[i].y);
                }
            }
            ckci_k_norm_dx8(c, d, dy);
            ckci_k_norm_store8<PLANES>(p, p.dx.dtype, dx.at, rest, dy);
            dx.at += dx.step;
        };
        ckci_k_norm_walk<PLANES, true, true>(p, s, m, c, x, y, column, places, write);
        dx.next_column();
    }
}

template <class T, int W = CKCI_K_NORM_ANY> struct ckci_k_norm_fwd {
    typedef ckci_k_norm_room_of<T, W> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_norm &p, lds &m)
    {
        finish(p, ckci_k_find_slab(p, ckci_k_norm_block(p)), m);
    }

    template <class S>
    static CKCI_K_MEMBER void finish(const ckci_gpu_norm &p, const S &s, ckci_k_norm_lds<T> &m)
    {
        ckci_k_norm_statistics<W>(p, s, m);
        if constexpr (W != CKCI_K_NORM_ANY) {
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
                            v[i] = (p.act == CKCONV_SILU ? v[i] : (T)1) / (1 + ckci_k_exp(-v[i]));
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
            /* sig = sigmoid(v), not = 1 - sig without cancellation */
            T v = xhat[i] * c.gamma + c.beta, e = ckci_k_exp(v < 0 ? v : -v), large = 1 / (1 + e);
            T sig = v < 0 ? e * large : large, no = v < 0 ? large : e * large;
            dy[i] *= p.act == CKCONV_SILU ? sig * (1 + v * no) : sig * no;
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
            T gamma = ckci_k_norm_factor<T>(p, p.gamma, s.g0 * p.c + column, 1);
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
        int32_t t = (int32_t)threadIdx.x, length = p.parts;
        ckci_k_norm_statistics<W>(p, s, m);
        if (p.slab_sums && !ckci_k_again(p).summing) {
            int32_t k = ckci_k_divide(t, p.by_parts), part = t - k * p.parts;
            if (k < s.groups) {
                const T *sums =
                    (const T *)p.slab_sums + (((int64_t)s.n * p.parts + part) * p.g + s.g0 + k) * 2;
                m.u.sum[0][t] = sums[0];
                m.u.sum[1][t] = sums[1];
            }
            ckci_k_norm_fold(part, length, s.groups * p.parts, [&](int32_t to, int32_t from) {
                m.u.sum[0][to] += m.u.sum[0][from];
                m.u.sum[1][to] += m.u.sum[1][from];
            });
        } else {
            length = ckci_k_norm_add_all<W>(p, s, m);
            if (ckci_k_again(p).summing) {
                const ckci_gpu_norm &late = ckci_k_again(p);
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
            ckci_k_norm_din8<W == CKCI_K_NORM_PLANES>(ckci_k_again(p), s, m);
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

/* y where channels come first and a slab fits into LDS, or into that of a cluster's blocks (parts), which
   leave statistics in workspace for each other: x is read once. All copies are under way before the first one
   is waited for; a thread reads its own only. */
struct ckci_k_norm_kept {
    struct lds {
        ckci_k_norm_lds<float> m;
        ckci_k_uint4 kept[CKCI_NORM_KEPT / 16];
    };

    static_assert(sizeof(lds) == CKCI_NORM_KEPT_LDS, "the planner's figure");

    static CKCI_K_MEMBER void fill(const ckci_gpu_norm &p, const ckci_k_kept_slab &s)
    {
        const int32_t step = p.lanes_p * 8;
        ckci_k_norm_cursor<true> x(p, p.x, s), to = ckci_k_norm_x<true>(p, s);
        for (int32_t left = s.active ? ckci_k_norm_columns_of<true>(p, s) : 0; left > 0; left--) {
            for (int32_t rest = s.to - x.pos; rest > 0; rest -= step) {
                ckci_k_norm_copy8<true>(p, p.x.dtype, (ckci_k_uint4 *)to.at, x.at, rest);
                x.at += x.step;
                to.at += to.step;
            }
            x.next_column();
            to.next_column();
        }
        ckci_k_copies_end();
        ckci_k_copies_wait<0>();
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_norm &p, lds &l)
    {
        ckci_k_kept_slab s;
        (ckci_k_slab &)s = ckci_k_find_cluster_slab(p);
        s.places = ckci_k_norm_places_of<true>(p, s, s.from + s.lp * 8);
        s.x = (unsigned char *)l.kept;
        fill(p, s);
        ckci_k_norm_fwd<float, CKCI_K_NORM_PLANES>::finish(p, s, l.m);
    }
};

/* Not for AMD: in 64 KiB of LDS, which most of its targets have, only small slabs would stay. */
struct ckci_k_norm_kept_none {
    struct lds {
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_norm &, lds &)
    {
    }
};

struct ckci_k_norm_fwd_kept : ckci_k_by_vendor<ckci_k_norm_kept, ckci_k_norm_kept_none> {
};

/* dx where x and dy of a slab stay in LDS, or in that of a cluster's blocks (parts), which leave their sums
   in workspace for each other: both are read once. Statistics are saved ones. In LDS, eights of x, then of dy
   lie one after the other: rows of channels (PLANES), else rows of positions. A thread walks whole columns,
   or eight of them, place after place. What lies past LDS, the last places, is read again, first. */
template <bool PLANES> struct ckci_k_norm_bwd_kept_by {
    enum { N = PLANES ? 1 : 8, SECOND = 1024, GAMMA = 768, BETA = SECOND + GAMMA }; /* cells */

    struct lds {
        /* two sums: PLANES, of channels by waves; of channels; gamma and beta lie behind. Else one sum of
           eight of each thread, over all of this, and then these again */
        float cell[8 * 256];
        float hi[CKCI_NORM_BACK_SET], r[CKCI_NORM_BACK_SET];
        float mean[2][CKCI_NORM_BACK_SET]; /* level and slope; before these [0] what center finds */
        ckci_k_arrival arrival;
        ckci_k_uint4 kept[CKCI_NORM_BACK / 16];
    };

    static_assert(sizeof(lds) == CKCI_NORM_BACK_LDS, "the planner's figure");

    /* Vectors in eight numbers, and eights of a tensor that are kept. */
    template <int TYPE> struct fit {
        enum { VECTORS = TYPE == CKCONV_F32 ? 2 : 1, EIGHTS = CKCI_NORM_BACK / (32 * VECTORS) };
    };

    /* Columns of this thread, its places in one of them; eights: its first one, from a place to the next, and
       from a column. */
    struct mine {
        int32_t columns, places, first, step, apart;

        CKCI_K_MEMBER mine(const ckci_gpu_norm &p, const ckci_k_slab &s)
        {
            columns = !s.active ? 0 : PLANES ? ckci_k_norm_columns_of<PLANES>(p, s) : s.lc * 8 < s.columns;
            places = ckci_k_norm_places_of<PLANES>(p, s, s.from + s.lp * (PLANES ? 8 : 1));
            first = PLANES ? s.lc * (p.part / 8) + s.lp : s.lp * p.lanes_c + s.lc;
            step = p.lanes_p * (PLANES ? 1 : p.lanes_c);
            apart = p.lanes_c * (p.part / 8);
        }
    };

    template <int TYPE> static CKCI_K_MEMBER ckci_k_uint4 *kept(lds &m, int32_t e)
    {
        return m.kept + e * fit<TYPE>::VECTORS;
    }

    /* The same of p.x.dtype, outside of the loops that compute. */
    static CKCI_K_MEMBER int32_t vectors(const ckci_gpu_norm &p)
    {
        return p.x.dtype == CKCONV_F32 ? 2 : 1;
    }
    static CKCI_K_MEMBER int32_t eights(const ckci_gpu_norm &p)
    {
        return p.x.dtype == CKCONV_F32 ? (int32_t)fit<CKCONV_F32>::EIGHTS : (int32_t)fit<CKCONV_F16>::EIGHTS;
    }

    /* PLANES: rows, each by a bulk copy. */
    static CKCI_K_MEMBER void fill_rows(const ckci_gpu_norm &p, const ckci_k_slab &s, lds &m)
    {
        const int32_t t = (int32_t)threadIdx.x, most = eights(p), each = vectors(p), size = 2 * each;
        const int32_t row = (s.to - s.from) / 8;
        if (t == 0) {
            const int32_t fits = row > most ? 0 : (most - row) / (p.part / 8) + 1;
            const int32_t whole = fits < s.columns ? fits : s.columns, rest = most - whole * (p.part / 8);
            const int32_t all = whole * row + (whole < s.columns && rest > 0 ? rest < row ? rest : row : 0);
            ckci_k_arrival_begin(&m.arrival, 2 * all * 16 * each);
        }
        __syncthreads();
        const int64_t apart_x = p.x.stride[2] * size, apart_dy = p.y.stride[2] * size;
        const unsigned char *x = p.x.p + (ckci_k_norm_base(p.x, s, 0, 0) + s.from * p.x.stride[5]) * size;
        const unsigned char *dy = p.y.p + (ckci_k_norm_base(p.y, s, 0, 0) + s.from * p.y.stride[5]) * size;
        for (int32_t i = t; i < s.columns && i * (p.part / 8) < most; i += 256) {
            const int32_t rest = most - i * (p.part / 8), bytes = (rest < row ? rest : row) * 16 * each;
            ckci_k_uint4 *to = m.kept + i * (p.part / 8) * each;
            ckci_k_copy_bulk(&m.arrival, to, x + i * apart_x, bytes);
            ckci_k_copy_bulk(&m.arrival, to + most * each, dy + i * apart_dy, bytes);
        }
    }

    /* Eight of x and of dy, of any type of that size. */
    template <int TYPE>
    static CKCI_K_MEMBER void copy(const ckci_gpu_norm &p, lds &m, int32_t e, const unsigned char *x,
                                   const unsigned char *dy, int32_t rest)
    {
        ckci_k_norm_copy8<PLANES>(p, TYPE, kept<TYPE>(m, e), x, rest);
        ckci_k_norm_copy8<PLANES>(p, TYPE, kept<TYPE>(m, fit<TYPE>::EIGHTS + e), dy, rest);
    }

    /* Each thread what it reads itself. */
    static CKCI_K_MEMBER void fill(const ckci_gpu_norm &p, const ckci_k_slab &s, const mine &own, lds &m)
    {
        const int32_t step = p.lanes_p * (PLANES ? 8 : 1), most = eights(p);
        ckci_k_norm_cursor<PLANES> x(p, p.x, s), dy(p, p.y, s);
        for (int32_t k = 0; k < own.columns; k++) {
            int32_t rest = s.to - x.pos, e = own.first + k * own.apart;
            for (int32_t i = 0; i < own.places && e < most; i++, rest -= step, e += own.step) {
                if (p.x.dtype == CKCONV_F32) {
                    copy<CKCONV_F32>(p, m, e, x.at, dy.at, rest);
                } else {
                    copy<CKCONV_F16>(p, m, e, x.at, dy.at, rest);
                }
                x.at += x.step;
                dy.at += dy.step;
            }
            x.next_column();
            dy.next_column();
        }
        ckci_k_copies_end();
        ckci_k_copies_wait<0>();
    }

    /* Eight of xhat and of dy': number e, place i of a column. */
    template <int TYPE>
    static CKCI_K_MEMBER void read(const ckci_gpu_norm &p, const ckci_k_norm_channels<N> &c, lds &m,
                                   int32_t e, int32_t i, const ckci_k_norm_cursor<PLANES> &x,
                                   const ckci_k_norm_cursor<PLANES> &dy, int32_t rest, ckci_k_float2 *v,
                                   ckci_k_float2 *w)
    {
        ckci_k_norm_raw raw[2];
        if (__builtin_expect(e < fit<TYPE>::EIGHTS, 1)) {
            const ckci_k_uint4 *from = kept<TYPE>(m, e), *from_dy = kept<TYPE>(m, fit<TYPE>::EIGHTS + e);
            raw[0].a = from[0];
            raw[1].a = from_dy[0];
            if (TYPE == CKCONV_F32) {
                raw[0].b = from[1];
                raw[1].b = from_dy[1];
            }
        } else {
            raw[0].template load<PLANES>(p, TYPE, x.column + i * x.step, rest);
            raw[1].template load<PLANES>(p, TYPE, dy.column + i * dy.step, rest);
        }
        raw[0].widen(TYPE, v);
        raw[1].widen(TYPE, w);
        ckci_k_norm_gradient8<PLANES, TYPE>(p, c, v, w);
    }

    /* Of a column, or of eight: gamma and beta, as every block has them in LDS. */
    static CKCI_K_MEMBER void factors(ckci_k_norm_channels<N> &c, const lds &m, int32_t column)
    {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < N; i++) {
            c.gamma[i] = m.cell[GAMMA + column + i];
            c.shift[i] = m.cell[BETA + column + i];
        }
    }

    /* Mean and inverse deviation of the groups of these columns; or what dx takes of their sums. */
    static CKCI_K_MEMBER void groups(const ckci_gpu_norm &p, ckci_k_norm_channels<N> &c, const lds &m,
                                     int32_t column, bool means)
    {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < N; i++) {
            const int32_t group = N == 1 ? 0 : ckci_k_divide(column + i, p.by_c);
            if (means) {
                c.level[i] = m.mean[0][group];
                c.slope[i] = m.mean[1][group];
            } else {
                c.hi[i] = m.hi[group];
                c.r[i] = m.r[group];
            }
        }
    }

    /* Sums over neighbouring lanes, a power of two of them: all have them. */
    static CKCI_K_MEMBER void across(int32_t lanes, float &a, float &b)
    {
        for (int32_t mask = lanes / 2; mask > 0; mask /= 2) {
            a += ckci_k_shuffle_xor(a, mask);
            b += ckci_k_shuffle_xor(b, mask);
        }
    }

    /* This thread's sums of dy' and of dy'*xhat. PLANES: those of each column and wave go to the cells. */
    template <int TYPE>
    static CKCI_K_MEMBER void add(const ckci_gpu_norm &p, const ckci_k_slab &s, const mine &own,
                                  ckci_k_norm_channels<N> &c, lds &m, ckci_k_float2 (&sum)[2][4])
    {
        const int32_t step = p.lanes_p * (PLANES ? 8 : 1), lanes = p.lanes_p < 32 ? p.lanes_p : 32;
        const int32_t waves = p.lanes_p > 32 ? p.lanes_p / 32 : 1;
        ckci_k_norm_cursor<PLANES> x(p, p.x, s), dy(p, p.y, s);
        for (int32_t k = 0; k < (PLANES ? p.chunks : 1); k++) { /* of all lanes, for the shuffles */
            const int32_t column = PLANES ? s.lc + k * p.lanes_c : s.lc * 8;
            const int32_t count = k < own.columns ? own.places : 0;
            int32_t rest = s.to - x.pos, e = own.first + k * own.apart;
            if (p.act != CKCONV_PASS && count > 0) {
                factors(c, m, column);
            }
            for (int32_t i = 0; i < count; i++, rest -= step, e += own.step) {
                ckci_k_float2 v[4], w[4];
                read<TYPE>(p, c, m, e, i, x, dy, rest, v, w);
                if (PLANES && __builtin_expect(rest < 8, 0)) {
                    ckci_k_norm_end(v, rest, 0);
                    ckci_k_norm_end(w, rest, 0);
                }
                CKCI_K_UNROLL(4)
                for (int f = 0; f < 4; f++) {
                    sum[0][f] = sum[0][f] + w[f];
                    sum[1][f] = w[f] * v[f] + sum[1][f];
                }
            }
            x.next_column();
            dy.next_column();
            if (PLANES) {
                float both[2];
                CKCI_K_UNROLL(2)
                for (int which = 0; which < 2; which++) {
                    ckci_k_float2 *four = sum[which];
                    const ckci_k_float2 two = (four[0] + four[1]) + (four[2] + four[3]), none = {0, 0};
                    both[which] = two.x + two.y;
                    four[0] = four[1] = four[2] = four[3] = none;
                }
                across(lanes, both[0], both[1]);
                if ((s.lp & 31) == 0 && column < s.columns) {
                    m.cell[column * waves + s.lp / 32] = both[0];
                    m.cell[SECOND + column * waves + s.lp / 32] = both[1];
                }
            }
        }
    }

    /* The block's sums of a channel; returns which one: some thread has each, the others none. */
    static CKCI_K_MEMBER int32_t gather(const ckci_gpu_norm &p, const ckci_k_slab &s, lds &m,
                                        const ckci_k_float2 (&sum)[2][4], float (&channel)[2])
    {
        const int32_t t = (int32_t)threadIdx.x, waves = p.lanes_p > 32 ? p.lanes_p / 32 : 1;
        channel[0] = channel[1] = 0;
        if (PLANES) {
            __syncthreads();
            for (int32_t i = 0; i < waves && t < s.columns; i++) {
                channel[0] += m.cell[t * waves + i];
                channel[1] += m.cell[SECOND + t * waves + i];
            }
            return t;
        }
        int32_t log = 0;
        while (p.lanes_c * 8 << (log + 1) <= 256 && log < 5) {
            log++;
        }
        const int32_t q = t >> log;
        float *cell = m.cell;
        CKCI_K_UNROLL(2)
        for (int which = 0; which < 2; which++) {
            __syncthreads();
            CKCI_K_UNROLL(4)
            for (int e = 0; e < 4; e++) {
                cell[2 * e * 256 + t] = sum[which][e].x;
                cell[(2 * e + 1) * 256 + t] = sum[which][e].y;
            }
            __syncthreads();
            const float *of = cell + q % 8 * 256 + q / 8;
            for (int32_t lane = t & ((1 << log) - 1); lane < p.lanes_p && q < s.columns; lane += 1 << log) {
                channel[which] += of[lane * p.lanes_c];
            }
        }
        across(1 << log, channel[0], channel[1]);
        return (t & ((1 << log) - 1)) == 0 ? q : p.set * p.c;
    }

    /* Sums of the groups, eight lanes each, over a cluster's blocks. */
    static CKCI_K_MEMBER void share(const ckci_gpu_norm &p, const ckci_k_slab &s, float (&of)[2])
    {
        const int32_t t = (int32_t)threadIdx.x, group = t >> 3, part = t & 7;
        across(8, of[0], of[1]);
        if (p.parts == 1) {
            return;
        }
        float *sums = (float *)p.slab_sums + ((int64_t)s.n * p.parts * p.g + s.g0 + group) * 2;
        if (group < s.groups && part == 0) {
            sums[(int64_t)s.part * p.g * 2] = of[0];
            sums[(int64_t)s.part * p.g * 2 + 1] = of[1];
        }
        ckci_k_cluster_barrier();
        of[0] = of[1] = 0;
        if (group < s.groups && part < p.parts) {
            of[0] = sums[(int64_t)part * p.g * 2];
            of[1] = sums[(int64_t)part * p.g * 2 + 1];
        }
        across(8, of[0], of[1]);
    }

    /* Of saved means that are too coarse: what their type does not hold, times r, into m.mean[0]. */
    static CKCI_K_MEMBER void center(const ckci_gpu_norm &p, const ckci_k_slab &s, const mine &own, lds &m)
    {
        const int32_t t = (int32_t)threadIdx.x, step = p.lanes_p * (PLANES ? 8 : 1), each = vectors(p);
        ckci_k_norm_cursor<PLANES> x(p, p.x, s);
        ckci_k_norm_channels<N> c;
        ckci_k_float2 sum[2][4] = {};
        groups(p, c, m, PLANES ? 0 : s.lc * 8, false);
        CKCI_K_UNROLL(1)
        for (int32_t k = 0; k < own.columns; k++) {
            int32_t rest = s.to - x.pos, e = own.first + k * own.apart;
            CKCI_K_UNROLL(1)
            for (int32_t i = 0; i < own.places; i++, rest -= step, e += own.step) {
                ckci_k_norm_raw raw;
                ckci_k_float2 v[4];
                if (e < eights(p)) {
                    raw.a = m.kept[e * each];
                    raw.b = m.kept[e * each + each - 1];
                } else {
                    raw.template load<PLANES>(p, p.x.dtype, x.column + i * x.step, rest);
                }
                raw.widen(p.x.dtype, v);
                CKCI_K_UNROLL(4)
                for (int f = 0; f < 4; f++) {
                    v[f] = (v[f] - ckci_k_norm_two(c.hi, 2 * f)) * ckci_k_norm_two(c.r, 2 * f);
                }
                if (PLANES && rest < 8) {
                    ckci_k_norm_end(v, rest, 0);
                }
                CKCI_K_UNROLL(4)
                for (int f = 0; f < 4; f++) {
                    sum[0][f] = sum[0][f] + v[f];
                }
            }
            x.next_column();
        }
        float channel[2] = {0, 0};
        int32_t q = t, count = 8; /* PLANES: waves of a block, which has one group */
        if (PLANES) {
            const ckci_k_float2 two = (sum[0][0] + sum[0][1]) + (sum[0][2] + sum[0][3]);
            channel[0] = two.x + two.y;
            across(32, channel[0], channel[1]);
            q = t % 32 == 0 ? t / 32 : count;
        } else {
            q = gather(p, s, m, sum, channel);
            count = p.c;
        }
        __syncthreads();
        if (q < count * s.groups) {
            m.cell[q] = channel[0];
        }
        __syncthreads();
        float of[2] = {0, 0};
        const int32_t group = t >> 3;
        for (int32_t i = group * count + (t & 7); group < s.groups && i < (group + 1) * count; i += 8) {
            of[0] += m.cell[i];
        }
        share(p, s, of);
        if (group < s.groups && (t & 7) == 0) {
            m.mean[0][group] = of[0] / ((float)p.c * (float)p.space);
        }
        if (p.parts > 1) {
            ckci_k_cluster_barrier(); /* before these sums are overwritten */
        }
        __syncthreads();
    }

    /* What dx takes of the groups' sums; those of channels go to workspace. */
    static CKCI_K_MEMBER void level(const ckci_gpu_norm &p, const ckci_k_slab &s, lds &m, float gamma,
                                    float beta, int32_t q, float (&channel)[2])
    {
        const int32_t t = (int32_t)threadIdx.x;
        const int64_t channels = (int64_t)p.g * p.c, row = (int64_t)s.n * p.parts + s.part;
        __syncthreads(); /* the cells have been read */
        m.cell[GAMMA + t] = gamma;
        m.cell[BETA + t] = beta;
        __syncthreads();
        if (q < s.columns) {
            channel[1] -= m.mean[0][ckci_k_divide(q, p.by_c)] * channel[0];
            m.cell[q] = m.cell[GAMMA + q] * channel[0];
            m.cell[SECOND + q] = m.cell[GAMMA + q] * channel[1];
            if (p.sums) {
                float *sums = (float *)p.sums + row * channels + s.g0 * p.c + q;
                sums[0] = channel[0];
                sums[(int64_t)p.n * p.parts * channels] = channel[1];
            }
        }
        __syncthreads();
        /* eight lanes a group */
        float of[2] = {0, 0};
        const int32_t group = t >> 3;
        for (int32_t i = group * p.c + (t & 7); group < s.groups && i < (group + 1) * p.c; i += 8) {
            of[0] += m.cell[i];
            of[1] += m.cell[SECOND + i];
        }
        share(p, s, of);
        if (group < s.groups && (t & 7) == 0) {
            const float count = (float)p.c * (float)p.space;
            m.mean[1][group] = of[1] / count;
            m.mean[0][group] = of[0] / count - m.mean[0][group] * m.mean[1][group];
        }
        __syncthreads();
    }

    template <int TYPE>
    static CKCI_K_MEMBER void write(const ckci_gpu_norm &p, const ckci_k_slab &s, const mine &own,
                                    ckci_k_norm_channels<N> &c, lds &m)
    {
        const int32_t step = p.lanes_p * (PLANES ? 8 : 1);
        ckci_k_norm_cursor<PLANES> x(p, p.x, s), dy(p, p.y, s), dx(p, p.dx, s);
        x.turn(own.columns, 1);
        dy.turn(own.columns, 1);
        dx.turn(own.columns, own.places);
        x.step = -x.step;
        dy.step = -dy.step;
        for (int32_t k = own.columns - 1; k >= 0; k--) {
            int32_t rest = s.to - x.pos - (own.places - 1) * step;
            int32_t e = own.first + k * own.apart + (own.places - 1) * own.step;
            factors(c, m, PLANES ? s.lc + k * p.lanes_c : s.lc * 8);
            for (int32_t i = own.places - 1; i >= 0; i--, rest += step, e -= own.step) {
                ckci_k_float2 v[4], w[4];
                read<TYPE>(p, c, m, e, i, x, dy, rest, v, w);
                ckci_k_norm_dx8(c, v, w);
                ckci_k_norm_store8<PLANES>(p, TYPE, dx.at, rest, w);
                dx.at += dx.step;
            }
            x.next_column();
            dy.next_column();
            dx.next_column();
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_norm &p, lds &m)
    {
        const ckci_k_slab s = ckci_k_find_cluster_slab(p);
        const int32_t t = (int32_t)threadIdx.x, first = PLANES ? 0 : s.lc * 8;
        const mine own(p, s);
        /* of channel t and of group t; loaded before the copies, behind which they would wait */
        uint32_t bits[2] = {0, 0};
        float hi = 0, r = 0;
        if (t < s.columns) {
            bits[0] = ckci_k_norm_factor_bits(p, p.gamma, s.g0 * p.c + t);
            bits[1] = ckci_k_norm_factor_bits(p, p.beta, s.g0 * p.c + t);
        }
        if (t < s.groups) {
            const int64_t at = (int64_t)s.n * p.g + s.g0 + t;
            hi = ((const float *)p.saved_mean)[at];
            r = ((const float *)p.saved_inv_std)[at];
        }
        /* the second block of each unit, if they start in turns: its loads come behind the first one's, whose
           sums it then hides */
        if (PLANES && (int32_t)blockIdx.x >= p.late && (int32_t)blockIdx.x < 2 * p.late) {
            ckci_k_pause(1500);
        }
        if (PLANES && p.bulk) {
            fill_rows(p, s, m);
            ckci_k_arrival_wait(&m.arrival);
        } else {
            fill(p, s, own, m);
        }
        const float gamma = p.gamma ? ckci_k_norm_number(p.param, bits[0]) : 1;
        float beta = ckci_k_norm_number(p.param, bits[1]);
        if (t < CKCI_NORM_BACK_SET) { /* the lanes of a wave */
            float coarse = ckci_k_norm_coarse(hi, r) ? 1 : 0, none = 0;
            across(CKCI_NORM_BACK_SET, coarse, none);
            m.hi[t] = hi;
            m.r[t] = r;
            m.mean[0][t] = 0;
            m.mean[1][t] = coarse;
        }
        m.cell[GAMMA + t] = gamma;
        m.cell[BETA + t] = beta;
        __syncthreads();
        if (__builtin_expect(m.mean[1][0] != 0, 0)) {
            center(p, s, own, m);
            if (t < s.columns) {
                beta -= gamma * m.mean[0][ckci_k_divide(t, p.by_c)];
            }
            m.cell[GAMMA + t] = gamma;
            m.cell[BETA + t] = beta;
            __syncthreads();
        }
        float channel[2];
        ckci_k_float2 sum[2][4] = {};
        ckci_k_norm_channels<N> c;
        groups(p, c, m, first, false);
        /* the loops that compute stand once for each type, what is between them once */
        if (p.x.dtype == CKCONV_F16) {
            add<CKCONV_F16>(p, s, own, c, m, sum);
        } else if (p.x.dtype == CKCONV_BF16) {
            add<CKCONV_BF16>(p, s, own, c, m, sum);
        } else {
            add<CKCONV_F32>(p, s, own, c, m, sum);
        }
        const int32_t q = gather(p, s, m, sum, channel);
        level(p, s, m, gamma, beta, q, channel);
        groups(p, c, m, first, true);
        if (p.x.dtype == CKCONV_F16) {
            write<CKCONV_F16>(p, s, own, c, m);
        } else if (p.x.dtype == CKCONV_BF16) {
            write<CKCONV_BF16>(p, s, own, c, m);
        } else {
            write<CKCONV_F32>(p, s, own, c, m);
        }
    }
};

template <bool PLANES>
struct ckci_k_norm_bwd_kept : ckci_k_by_vendor<ckci_k_norm_bwd_kept_by<PLANES>, ckci_k_norm_kept_none> {
};

/* As the planner counts on: three where channels come first, at least two where they come last. */
template <int W> struct ckci_k_resident<ckci_k_norm_stats<float, W>> {
    enum { BLOCKS = W == CKCI_K_NORM_ANY ? 0 : 3 };
};
template <int W> struct ckci_k_resident<ckci_k_norm_fwd<float, W>> {
    enum { BLOCKS = W == CKCI_K_NORM_ANY ? 0 : W == CKCI_K_NORM_PLANES ? 3 : 2 };
};
template <int W> struct ckci_k_resident<ckci_k_norm_din<float, W>> {
    enum { BLOCKS = W == CKCI_K_NORM_ANY ? 0 : W == CKCI_K_NORM_PLANES ? 3 : 2 };
};

template <> struct ckci_k_resident<ckci_k_norm_fwd_kept> {
    enum { BLOCKS = 2 };
};
template <bool PLANES> struct ckci_k_resident<ckci_k_norm_bwd_kept<PLANES>> {
    enum { BLOCKS = 2 };
};

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


/*------------------------------------------------------------------------------------------------------------
  >>k-move
  Layout and type conversion. Dimension x is the one along which dst is dense, y the one along which src is.
  Equal types are copied bit for bit; f64 and i32 go through double, rounded once; the others through float,
  which is exact.
      move_copy       x is dense in both, equal types: pieces of 16, 8 or 4 bytes, four of them per thread,
                      of long runs in both tensors even where rows are short
      move_turn_E     x and y differ, equal types of E bytes, or f16 and bf16: through LDS
      move_convert_E  types but i32, E bytes in dst: converted on the way to LDS, or straight to dst where x
                      is dense in both
      move            everything else: short dimensions, strides of any kind, i32: single elements

  Through LDS. A block owns tile[0] elements along x by tile[1] along y; V elements of dst are 16 bytes. It
  loads rows of src in pieces of 16 bytes, several under way, and stores rows of dst in pieces of 16 bytes.
  What is not aligned is loaded as the two aligned pieces around it (AMD: as it is). Elements change places
      gather    behind LDS, which holds rows of src as they are: a thread takes V of them at a place y. Where
                rows that are V apart lie in the same banks, 16 bytes more follow as many of them as do not:
                eight threads with neighbouring pieces of a row of dst, and four at neighbouring places in
                others, meet 32 different banks, and so does what follows each other in LDS. Rows of dst that
                are not aligned: AMD stores pieces at any address. NVIDIA: they start in the middle of a
                piece; the block then reads V rows of src before its own and writes whole pieces that end
                early
      words     gather of elements smaller than a word of LDS, where both sides are aligned: words are loaded,
                their elements go to as many rows of dst
      scatter   before LDS, which holds dst: rows of dst are short and the tile is one run there; the mirror
                image of gather, with the same padding. What is loaded may be less than 16 bytes of dst: then
                more threads take neighbouring pieces, and fewer others rows beside (p.lanes)
  Where rows of src are short (`merged`), the tile is one run there, and V rows of it are one row.
*/

/* Nearest float in which a later rounding to fewer than 22 bits still sees whether x was above or below:
   inexact results have an odd last bit. */
CKCI_K_FN float ckci_k_odd_float(double x)
{
    float f = (float)x;
    uint32_t u = ckci_k_bits(f);
    double back = (double)f, over = x < 0 ? x - back : back - x; /* above 0: rounded away from 0 */
    if (x != x || back == x) {
        return f;
    }
    return ckci_k_float((over > 0 ? u - 1 : u) | 1u);
}

CKCI_K_FN bool ckci_k_move_wide(const ckci_gpu_move &p)
{
    return p.from == CKCONV_F64 || p.from == CKCONV_I32;
}

/* An element on its way: raw bits, a double or a float. */
CKCI_K_FN uint64_t ckci_k_move_read(const ckci_gpu_move &p, const unsigned char *at)
{
    if (p.from == CKCONV_F64) {
        return *(const uint64_t *)at;
    }
    if (p.from == p.to) {
        return ckci_k_load_bits(at, ckci_k_size(p.from));
    }
    if (p.from == CKCONV_I32) {
        double x = (double)*(const int32_t *)at;
        uint64_t u;
        memcpy(&u, &x, 8);
        return u;
    }
    return ckci_k_bits(ckci_k_load<float>(p.from, at));
}

CKCI_K_FN void ckci_k_move_write(const ckci_gpu_move &p, unsigned char *at, uint64_t u)
{
    int size = ckci_k_size(p.to);
    if (p.from == p.to) {
        if (size == 8) {
            *(uint64_t *)at = u;
        } else if (size == 4) {
            *(uint32_t *)at = (uint32_t)u;
        } else if (size == 2) {
            *(uint16_t *)at = (uint16_t)u;
        } else {
            *at = (unsigned char)u;
        }
        return;
    }
    double x = (double)ckci_k_float((uint32_t)u);
    float f = ckci_k_float((uint32_t)u);
    if (ckci_k_move_wide(p)) {
        memcpy(&x, &u, 8);
        f = p.to == CKCONV_F32 ? (float)x : ckci_k_odd_float(x);
    }
    if (p.to == CKCONV_F64) {
        *(double *)at = x;
    } else if (p.to == CKCONV_I32) {
        double r = rint(x < -2147483648.0 ? -2147483648.0 : x);
        *(int32_t *)at = x != x ? 0 : r >= 2147483647.0 ? INT32_MAX : (int32_t)r;
    } else {
        ckci_k_store(p.to, at, f);
    }
}

/* What a block moves: its first elements, the place of the first along x, how many of tile[..] there
   are. */
struct ckci_k_move_tile {
    const unsigned char *src;
    unsigned char *dst;
    int64_t x0;
    int32_t x1, y1, z1;
};

CKCI_K_FN int32_t ckci_k_move_end(int64_t rest, int32_t tile)
{
    return rest < tile ? (int32_t)rest : tile;
}

CKCI_K_FN ckci_k_move_tile ckci_k_find_move(const ckci_gpu_move &p)
{
    int32_t rest = (int32_t)blockIdx.x;
    ckci_k_move_tile tile = {p.src, p.dst, 0, 0, 0, 0};
    int64_t y0 = 0, z0 = 0;
    CKCI_K_UNROLL(1)
    for (int i = 0; i < 6 && rest > 0; i++) { /* the others have one block, from here on */
        const int32_t q = ckci_k_divide(rest, p.blocks[i]);
        const int64_t place = (int64_t)(rest - q * (int32_t)p.blocks[i].d) * p.tile[i];
        tile.src += place * p.src_step[i];
        tile.dst += place * p.dst_step[i];
        tile.x0 = i == 0 ? place : tile.x0;
        y0 = i == 1 ? place : y0;
        z0 = i == 2 ? place : z0;
        rest = q;
    }
    tile.x1 = ckci_k_move_end(p.len_x - tile.x0, p.tile[0]);
    tile.y1 = ckci_k_move_end(p.len_y - y0, p.tile[1]);
    tile.z1 = ckci_k_move_end(p.len_z - z0, p.tile[2]);
    return tile;
}

struct ckci_k_move {
    struct lds {
        uint64_t u[1280]; /* rows of 2^log_x */
    };

    /* Where an element lies, such that neither 16 neighbours along x meet in a bank nor 16 along y, nor,
       where there are fewer, those and their next along the other. NVIDIA: each row is one longer. */
    static CKCI_K_MEMBER int32_t spot(const ckci_gpu_move &p, int32_t wide, int32_t x, int32_t y)
    {
#if defined(__CUDA_ARCH__)
        (void)p;
        return y * (wide + 1) + x;
#else
        const int32_t mask = (wide < 16 ? wide : 16) - 1;
        const int32_t up = p.log_y < 4 ? 4 - p.log_y : 0, down = p.log_x < 4 ? 4 - p.log_x : 0;
        return (y << p.log_x | x) ^ ((y << up >> down) & mask);
#endif
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_move &p, lds &m)
    {
        const ckci_k_move_tile b = ckci_k_find_move(p);
        int32_t t = (int32_t)threadIdx.x, wide = 1 << p.log_x, high = 1 << p.log_y;
        uint64_t u[4] = {0, 0, 0, 0};
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            int32_t e = t + 256 * i, x = p.transpose ? e >> p.log_y : e & (wide - 1);
            int32_t y = p.transpose ? e & (high - 1) : e >> p.log_x;
            if (x < b.x1 && y < b.y1) {
                u[i] = ckci_k_move_read(p, b.src + x * p.src_step[0] + y * p.src_step[1]);
                if (p.transpose) {
                    m.u[spot(p, wide, x, y)] = u[i];
                }
            }
        }
        __syncthreads();
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            int32_t e = t + 256 * i, x = e & (wide - 1), y = e >> p.log_x;
            if (x < b.x1 && y < b.y1) {
                ckci_k_move_write(p, b.dst + x * p.dst_step[0] + y * p.dst_step[1],
                                  p.transpose ? m.u[spot(p, wide, x, y)] : u[i]);
            }
        }
    }
};

/* Steps, lengths and tiles count pieces of p.vec bytes along x; `tail` more bytes follow the last one. */
struct ckci_k_move_copy {
    struct lds {
        int32_t unused;
    };

    template <int WORDS> static CKCI_K_MEMBER void rows(const ckci_gpu_move &p, const ckci_k_move_tile &b)
    {
        ckci_k_vec<ckci_k_s_f32, WORDS> v[4];
        int32_t x[4], y[4], z[4];
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            const int32_t e = (int32_t)threadIdx.x + 256 * i, rest = e >> p.log_x;
            x[i] = e - (rest << p.log_x);
            z[i] = rest >> p.log_y;
            y[i] = rest - (z[i] << p.log_y);
            v[i].clear();
            if (x[i] < b.x1 && y[i] < b.y1 && z[i] < b.z1) {
                v[i].load(b.src + x[i] * (4 * WORDS) + y[i] * p.src_step[1] + z[i] * p.src_step[2]);
            }
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            if (x[i] < b.x1 && y[i] < b.y1 && z[i] < b.z1) {
                v[i].store(b.dst + x[i] * (4 * WORDS) + y[i] * p.dst_step[1] + z[i] * p.dst_step[2]);
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_move &p, lds &)
    {
        const ckci_k_move_tile b = ckci_k_find_move(p);
        if (p.vec == 16) {
            rows<4>(p, b);
        } else if (p.vec == 8) {
            rows<2>(p, b);
        } else {
            rows<1>(p, b);
        }
        if (blockIdx.x == 0 && (int32_t)threadIdx.x < p.tail) {
            int64_t at = p.len_x * p.vec + (int32_t)threadIdx.x;
            p.dst[at] = p.src[at];
        }
    }
};

/* Unsigned integers of E bytes */
template <int E> struct ckci_k_move_type;
template <> struct ckci_k_move_type<1> {
    typedef uint8_t word;
};
template <> struct ckci_k_move_type<2> {
    typedef uint16_t word;
};
template <> struct ckci_k_move_type<4> {
    typedef uint32_t word;
};
template <> struct ckci_k_move_type<8> {
    typedef uint64_t word;
};

/* What is moved one by one: not known to the compiler, which would move the last of it together with the last
   part of a load or store of all, and so split that. */
CKCI_K_FN int32_t ckci_k_later(int32_t count)
{
    return ckci_k_opaque(count);
}

/* Element j of words. */
template <int E> CKCI_K_FN typename ckci_k_move_type<E>::word ckci_k_move_element(const uint32_t *w, int j)
{
    if constexpr (E == 8) {
        return w[2 * j] | (uint64_t)w[2 * j + 1] << 32;
    } else {
        return (typename ckci_k_move_type<E>::word)(w[j * E / 4] >> j * E % 4 * 8);
    }
}

template <int E> CKCI_K_FN void ckci_k_move_put(uint32_t *w, int j, typename ckci_k_move_type<E>::word x)
{
    if constexpr (E == 8) {
        w[2 * j] = (uint32_t)x;
        w[2 * j + 1] = (uint32_t)(x >> 32);
    } else {
        w[j * E / 4] |= (uint32_t)x << j * E % 4 * 8;
    }
}

/* A thread's elements on their way to LDS. Of a row that does not start at a multiple of a load, that are the
   two aligned loads around them; `shift` is the byte in which they begin. */
template <bool SHIFTED> struct ckci_k_move_unit {
    enum { WORDS = SHIFTED ? 8 : 4 };
#if defined(__HIP_DEVICE_COMPILE__)
    enum { ANY = 1 }; /* a load takes any address */
#else
    enum { ANY = 0 };
#endif
    uint32_t w[WORDS];
    uint32_t shift;

    /* W words; false: not loaded, for the loads would touch bytes before or after the tensor */
    template <int W> CKCI_K_MEMBER bool load(const ckci_gpu_move &p, const unsigned char *at)
    {
        ckci_k_vec<ckci_k_s_f32, W> q;
        uint32_t before = 0;
        if constexpr (SHIFTED) {
            before = (uint32_t)(uintptr_t)at & (4 * W - 1);
        }
        const unsigned char *low = at - before;
        if ((SHIFTED && low < p.src) || low + WORDS * W > p.src_end) {
            return false;
        }
        shift = before;
#if defined(__HIP_DEVICE_COMPILE__)
        typedef uint32_t any __attribute__((vector_size(4 * W), aligned(1)));
        const any v = *(const any *)low;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < W; i++) {
            q.w[i] = v[i];
        }
#else
        q.load(low);
#endif
        copy<W>(q, 0);
        if constexpr (SHIFTED) {
            q.load(low + 4 * W);
            copy<W>(q, W);
        }
        return true;
    }

    template <int W> CKCI_K_MEMBER void copy(const ckci_k_vec<ckci_k_s_f32, W> &q, int first)
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < W; i++) {
            w[first + i] = q.w[i];
        }
    }

    /* The first `count` of N elements of E bytes, or all of them. */
    template <int E, int N>
    CKCI_K_MEMBER void fetch(const ckci_gpu_move &p, const unsigned char *at, int32_t count)
    {
        if constexpr (E * N >= 4) {
            if (count > 0 && (SHIFTED || !p.shifted || ANY) && load<E * N / 4>(p, at)) {
                count = 0;
            }
        }
        CKCI_K_UNROLL(1)
        for (int j = 0; j < ckci_k_later(count < N ? count : N); j++) {
            const uint32_t low = E == 8 ? ((const uint32_t *)at)[2 * j] : ckci_k_load_bits(at + j * E, E);
            const int word = j * E / 4;
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                w[i] |= i == word ? low << j * E % 4 * 8 : 0;
                if (E == 8 && i == word + 1) {
                    w[i] = ((const uint32_t *)at)[2 * j + 1];
                }
            }
        }
    }

    CKCI_K_MEMBER void clear()
    {
        shift = 0;
        CKCI_K_UNROLL(8)
        for (int i = 0; i < WORDS; i++) {
            w[i] = 0;
        }
    }

    /* Elements in the first four words. */
    CKCI_K_MEMBER void settle()
    {
        if constexpr (SHIFTED) {
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 6; i++) {
                w[i] = shift & 8 ? w[i + 2] : w[i];
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 5; i++) {
                w[i] = shift & 4 ? w[i + 1] : w[i];
            }
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                w[i] = (uint32_t)((w[i] | (uint64_t)w[i + 1] << 32) >> 8 * (shift & 3));
            }
        }
    }
};

template <int E, bool CONVERT> struct ckci_k_move_turn;
template <int E, bool CONVERT> struct ckci_k_resident<ckci_k_move_turn<E, CONVERT>> {
    enum { BLOCKS = 5 };
};

/* E: bytes of an element in dst and in LDS; CONVERT: those in src are of another type. */
template <int E, bool CONVERT> struct ckci_k_move_turn {
    typedef typename ckci_k_move_type<E>::word word;
    enum { V = 16 / E, UNIT = !CONVERT ? V : E == 8 ? 2 : 4, WORDS = UNIT * E / 4 };
    enum { ASK = 2 }; /* p.scatter, where that is not known to the compiler */
    enum { USUAL = E == 2 ? CKCONV_F32 : E == 4 ? CKCONV_F16 : -1 }; /* other types: one load at a time */

    struct lds {
        alignas(16) unsigned char tile[CKCI_MOVE_LDS];
    };

    /* NVIDIA: padding after V rows everywhere, known to the compiler */
    static CKCI_K_MEMBER int32_t log(int32_t x)
    {
#if defined(__CUDA_ARCH__)
        (void)x;
        return E == 1 ? 4 : E == 2 ? 3 : E == 4 ? 2 : 1;
#else
        return x;
#endif
    }

    /* Where V rows begin. */
    static CKCI_K_MEMBER int32_t place(const ckci_gpu_move &p, int32_t piece)
    {
#if defined(__CUDA_ARCH__)
        return piece * (V * p.pitch + p.pad);
#else
        return piece * V * p.pitch + (piece * V >> p.pad_log) * p.pad;
#endif
    }

    template <int SCATTER> static CKCI_K_MEMBER bool scatters(const ckci_gpu_move &p)
    {
        if constexpr (SCATTER == ASK) {
            return p.scatter != 0;
        } else {
            return SCATTER != 0;
        }
    }

    /* The loads of a thread in a tile of src: which rows there are, how many elements of them all. */
    struct walk {
        const unsigned char *src;
        int32_t first, rows, limit;

        CKCI_K_MEMBER walk(const ckci_gpu_move &p, const ckci_k_move_tile &b)
        {
            const int32_t skip = b.x0 < p.before ? p.before : 0;
            const int32_t all = p.straight ? b.y1 : b.x1 + p.before, run = p.straight ? b.x1 : b.y1;
            src = b.src - p.before * p.src_step[0];
            first = p.merged ? skip / V : skip;
            rows = (p.merged ? (all + V - 1) / V : all) - first;
            limit = p.merged ? all * run : run;
        }
    };

    /* A load: its row (merged: of V rows), the elements before it there, those from it on, if any. */
    struct spot {
        int32_t row, at, count;

        template <int SCATTER> CKCI_K_MEMBER void find(const ckci_gpu_move &p, const walk &walk, int32_t q)
        {
            if (scatters<SCATTER>(p)) {
#if defined(__CUDA_ARCH__)
                const int32_t log = 3;
#else
                const int32_t log = p.lanes;
#endif
                const int32_t high = ckci_k_divide(q >> 5, p.by_load), wide = 1 << log;
                row = ((q & 31) >> log) + (((q >> 5) - high * (int32_t)p.by_load.d) << (5 - log));
                at = ((q & (wide - 1)) + (high << log)) * UNIT;
            } else {
                row = ckci_k_divide(q, p.by_load);
                at = (q - row * (int32_t)p.by_load.d) * UNIT;
            }
            count =
                (uint32_t)(row - walk.first) < (uint32_t)walk.rows ? walk.limit - at - row * p.row_run : 0;
        }
    };

    /* UNIT elements of S bytes, side by side, to elements of dst; S = 0: any type, each in a word, f64 as the
       float that rounds alike. What converts types of one byte stands once: the elements go round. */
    template <int S> static CKCI_K_MEMBER void convert(const ckci_gpu_move &p, uint32_t *w)
    {
        uint32_t v[UNIT];
        CKCI_K_UNROLL(4)
        for (int j = 0; j < UNIT; j++) {
            v[j] = S == 2 ? ckci_k_move_element<2>(w, j) : w[j];
        }
        if (S != 4 && p.from == CKCONV_F16) {
            CKCI_K_UNROLL(4)
            for (int j = 0; j < UNIT; j++) {
                v[j] = ckci_k_bits(ckci_k_half_float(v[j]));
            }
        } else if (S != 4 && p.from == CKCONV_BF16) {
            CKCI_K_UNROLL(4)
            for (int j = 0; j < UNIT; j++) {
                v[j] <<= 16;
            }
        }
        if (S == 0 && (E == 1 || ckci_k_size(p.from) == 1)) {
            CKCI_K_UNROLL(1)
            for (int j = 0; j < UNIT; j++) {
                const float x = ckci_k_size(p.from) == 1 ? ckci_k_widen(p.from, v[0]) : ckci_k_float(v[0]);
                const uint32_t u = E != 1              ? ckci_k_bits(x)
                                   : p.to == CKCONV_I8 ? (uint32_t)ckci_k_int(x, -128.f, 127.f) & 0xffu
                                                       : ckci_k_float_fp8(ckci_k_find_fp8(p.to), x);
                CKCI_K_UNROLL(4)
                for (int i = 0; i + 1 < UNIT; i++) {
                    v[i] = v[i + 1];
                }
                v[UNIT - 1] = u;
            }
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < WORDS; i++) {
            w[i] = E == 2 ? ckci_k_two(p.to, v[2 * i % UNIT], v[(2 * i + 1) % UNIT]) : 0;
        }
        CKCI_K_UNROLL(4)
        for (int j = 0; j < UNIT && E != 2; j++) {
            if constexpr (E == 8) {
                const double x = (double)ckci_k_float(v[j]);
                uint64_t bits;
                memcpy(&bits, &x, 8);
                ckci_k_move_put<8>(w, j, bits);
            } else {
                ckci_k_move_put<E>(w, j, (word)v[j]);
            }
        }
    }

    /* f16 to bf16, bf16 to f16 */
    static CKCI_K_MEMBER void convert_halves(const ckci_gpu_move &p, uint32_t *w)
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < WORDS; i++) {
            float v[2];
            if (p.from == CKCONV_F16) {
                ckci_k_s_half::widen<false>(w[i], v);
            } else {
                ckci_k_s_half::widen<true>(w[i], v);
            }
            w[i] = ckci_k_two(p.to, ckci_k_bits(v[0]), ckci_k_bits(v[1]));
        }
    }

    /* src to LDS, or straight to dst; elements of S bytes. */
    template <bool SHIFTED, int SCATTER, int S>
    static CKCI_K_MEMBER void fill(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m)
    {
        enum { DEPTH = SHIFTED ? 2 : 4 }; /* loads of a thread under way */
#if defined(__HIP_DEVICE_COMPILE__)
        enum { ROUNDS = 1 }; /* what follows them stands once: a third of the time to compile */
#else
        enum { ROUNDS = DEPTH };
#endif
        const walk walk(p, b);
        CKCI_K_UNROLL(1)
        for (int32_t q = (int32_t)threadIdx.x; q < p.loads; q += 256 * DEPTH) {
            ckci_k_move_unit<SHIFTED> u[DEPTH];
            spot s[DEPTH];
            CKCI_K_UNROLL(4)
            for (int i = 0; i < DEPTH; i++) {
                s[i].template find<SCATTER>(p, walk, q + 256 * i);
                u[i].clear();
                u[i].template fetch<S, UNIT>(p, walk.src + s[i].row * p.load_step + s[i].at * S, s[i].count);
            }
            CKCI_K_UNROLL(ROUNDS)
            for (int i = 0; i < DEPTH; i++) {
                if (s[0].count > 0) {
                    u[0].settle();
                    if constexpr (CONVERT) {
                        convert<S>(p, u[0].w);
                    } else if constexpr (E == 2) {
                        if (p.from != p.to) {
                            convert_halves(p, u[0].w);
                        }
                    }
                    put<SCATTER>(p, b, m, s[0], u[0].w);
                }
                CKCI_K_UNROLL(4)
                for (int k = 0; k + 1 < DEPTH; k++) {
                    u[k] = u[k + 1];
                    s[k] = s[k + 1];
                }
            }
        }
    }

    /* The same of other types. */
    static CKCI_K_MEMBER void fill_any(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m)
    {
        enum { DEPTH = 2 };
        const walk walk(p, b);
        const int size = ckci_k_size(p.from);
        CKCI_K_UNROLL(1)
        for (int32_t q = (int32_t)threadIdx.x; q < p.loads; q += 256 * DEPTH) {
            ckci_k_move_unit<false> u[DEPTH];
            spot s[DEPTH];
            CKCI_K_UNROLL(4)
            for (int i = 0; i < DEPTH; i++) {
                s[i].template find<ASK>(p, walk, q + 256 * i);
                u[i].clear();
                fetch_any(p, walk.src + s[i].row * p.load_step + s[i].at * size, s[i].count, size, u[i]);
            }
            CKCI_K_UNROLL(1)
            for (int i = 0; i < DEPTH; i++) {
                if (s[0].count > 0) {
                    convert_any(p, size, u[0].w);
                    put<ASK>(p, b, m, s[0], u[0].w);
                }
                CKCI_K_UNROLL(4)
                for (int k = 0; k + 1 < DEPTH; k++) {
                    u[k] = u[k + 1];
                    s[k] = s[k + 1];
                }
            }
        }
    }

    static CKCI_K_MEMBER void fetch_any(const ckci_gpu_move &p, const unsigned char *at, int32_t count,
                                        int size, ckci_k_move_unit<false> &u)
    {
        if (size == 2) {
            u.template fetch<2, UNIT>(p, at, count);
        } else if (size == 4) {
            u.template fetch<4, UNIT>(p, at, count);
        } else if (size == 1) {
            u.template fetch<1, UNIT>(p, at, count);
        } else { /* the float that rounds alike */
            CKCI_K_UNROLL(4)
            for (int j = 0; j < UNIT; j++) {
                const double x = j < count ? ((const double *)at)[j] : 0.;
                u.w[j] = ckci_k_bits(p.to == CKCONV_F32 ? (float)x : ckci_k_odd_float(x));
            }
        }
    }

    static CKCI_K_MEMBER void convert_any(const ckci_gpu_move &p, int size, uint32_t *w)
    {
        uint32_t v[UNIT];
        CKCI_K_UNROLL(4)
        for (int j = 0; j < UNIT; j++) {
            v[j] = size == 1 ? ckci_k_move_element<1>(w, j) : size == 2 ? ckci_k_move_element<2>(w, j) : w[j];
        }
        CKCI_K_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            w[j] = j < UNIT ? v[j < UNIT ? j : 0] : 0;
        }
        convert<0>(p, w);
    }

    template <int SCATTER>
    static CKCI_K_MEMBER void put(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m, const spot &s,
                                  const uint32_t *w)
    {
        if (scatters<SCATTER>(p)) {
            scatter(p, b, m, s, s.count, w);
        } else if (CONVERT && p.straight) {
            unsigned char *to = b.dst + s.row * p.dst_step[1] + s.at * E;
            if (p.dst_vec && s.count >= UNIT) {
                store<WORDS>(to, w);
                return;
            }
            uint32_t rotate[WORDS];
            CKCI_K_UNROLL(4)
            for (int i = 0; i < WORDS; i++) {
                rotate[i] = w[i];
            }
            CKCI_K_UNROLL(1)
            for (int j = 0; j < UNIT && j < s.count; j++) {
                ((word *)to)[j] = ckci_k_move_element<E>(rotate, 0);
                next(rotate);
            }
        } else {
            store<WORDS>(m.tile + s.row * p.load_pitch + (s.row >> log(p.load_log)) * p.load_pad + s.at * E,
                         w);
            (void)ckci_k_later(0); /* else part of that store becomes one with the last of scatter */
        }
    }

    template <int W> static CKCI_K_MEMBER void store(unsigned char *at, const uint32_t *w)
    {
        ckci_k_vec<ckci_k_s_f32, W> q;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < W; i++) {
            q.w[i] = w[i];
        }
        q.store(at);
    }

    /* Are pieces stored at any address, not at multiples of 16 bytes? */
    static CKCI_K_MEMBER bool anywhere(const ckci_gpu_move &p)
    {
        (void)p;
#if defined(__HIP_DEVICE_COMPILE__)
        return true;
#elif defined(__CUDA_ARCH__)
        return false;
#else
        return p.anywhere;
#endif
    }

    static CKCI_K_MEMBER void store_piece(const ckci_gpu_move &p, unsigned char *to, const uint32_t *w)
    {
        if (anywhere(p)) {
#if defined(__HIP_DEVICE_COMPILE__)
            typedef uint32_t any __attribute__((vector_size(16), aligned(1)));
            const any v = {w[0], w[1], w[2], w[3]};
            *(any *)to = v;
#else
            memcpy(to, w, 16);
#endif
        } else {
            store<4>(to, w);
        }
    }

    /* Elements between the last multiple of 16 bytes and `at`, where stores begin there. */
    static CKCI_K_MEMBER int32_t over(const ckci_gpu_move &p, const unsigned char *at)
    {
        return anywhere(p) ? 0 : ((int32_t)(uintptr_t)at & 15) / E;
    }

    static CKCI_K_MEMBER void scatter(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m,
                                      const spot &s, int32_t count, const uint32_t *w)
    {
        const int32_t wide = (int32_t)p.len_x, shift = over(p, b.dst), step = wide * E;
        unsigned char *at = m.tile + s.at * step + (s.row + shift) * E + (s.at >> log(p.pad_log)) * p.pad;
        if (shift == 0 && count >= UNIT) {
            CKCI_K_UNROLL(16)
            for (int j = 0; j < UNIT; j++) {
                *(word *)(at + j * step) = ckci_k_move_element<E>(w, j);
            }
            return;
        }
        const int32_t rows = 1 << log(p.pad_log);
        int32_t rest = (rows - (s.at & (rows - 1))) * wide - s.row - shift; /* up to the next padding */
        uint32_t rotate[WORDS];
        CKCI_K_UNROLL(4)
        for (int i = 0; i < WORDS; i++) {
            rotate[i] = w[i];
        }
        CKCI_K_UNROLL(1)
        for (int j = 0; j < UNIT && j < count; j++) {
            *(word *)(at + (rest <= 0 ? p.pad : 0)) = ckci_k_move_element<E>(rotate, 0);
            next(rotate);
            at += step;
            rest -= wide;
        }
    }

    /* The next element to the front. */
    static CKCI_K_MEMBER void next(uint32_t *w)
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < WORDS; i++) {
            const int wide = E / 4, one = i + 1 < WORDS ? i + 1 : i;
            w[i] = wide == 2   ? w[i + 2 < WORDS ? i + 2 : i]
                   : wide == 1 ? w[one]
                               : w[i] >> 8 * (E & 3) | w[one] << (32 - 8 * (E & 3)) % 32;
        }
    }

    /* CDNA serves four lanes from 4 i on together with the four from 4 (i ^ 5) on: a thread's number such
       that together are those that follow each other. */
    static CKCI_K_MEMBER int32_t lane()
    {
        const int32_t t = (int32_t)threadIdx.x;
#if defined(__HIP_DEVICE_COMPILE__) && defined(__GFX9__)
        return (t & ~28) | (t << 1 & 16) | ((t << 1 ^ t >> 1) & 8) | (t >> 2 & 4);
#else
        return t;
#endif
    }

    /* LDS to dst, in the same order: q counts pieces of 16 bytes. */
    static CKCI_K_MEMBER void drain(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m)
    {
        const int32_t shift = over(p, b.dst), end = shift + b.y1 * (int32_t)p.len_x;
        CKCI_K_UNROLL(2)
        for (int32_t q = lane(); q < p.stores; q += 256) {
            const unsigned char *from = m.tile + q * 16 + ckci_k_divide(q, p.by_store) * p.pad;
            unsigned char *to = b.dst + (q * V - shift) * E;
            if (q * V >= shift && q * V + V <= end) {
                ckci_k_vec<ckci_k_s_f32, 4> v;
                v.load(from);
                store_piece(p, to, v.w);
            } else {
                CKCI_K_UNROLL(1)
                for (int j = 0; j < V; j++) {
                    if (q * V + j >= shift && q * V + j < end) {
                        ((word *)to)[j] = ((const word *)from)[j];
                    }
                }
            }
        }
    }

    /* LDS to dst, across. Eight lanes take neighbouring pieces of a row of dst, four take rows that lie in
       different banks: neighbours, or, where each row is APART in its own way, 4 bytes apart. */
    template <bool APART>
    static CKCI_K_MEMBER void gather(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m)
    {
        CKCI_K_UNROLL(1)
        for (int32_t q = (int32_t)threadIdx.x; q < p.stores; q += 256) {
            enum { STEP = APART && E < 4 ? 4 / E : 1 };
            const int32_t far = ckci_k_divide(q >> 5, p.by_store), piece = (q & 7) + far * 8;
            const int32_t near = (q >> 5) - far * (int32_t)p.by_store.d;
            const int32_t y = (near / STEP * 4 + (q >> 3 & 3)) * STEP + near % STEP;
            if (y >= b.y1 || piece * V >= p.tile[0]) {
                continue;
            }
            unsigned char *to = b.dst + y * p.dst_step[1];
            int32_t shift = 0, next = V; /* the first element of the next V rows */
            const unsigned char *from = m.tile + place(p, piece) + y * E;
            int32_t more = 0; /* padding before those */
            if constexpr (APART) {
                shift = over(p, to);
                next = shift ? shift : V;
                more = place(p, piece + 1) - place(p, piece) - V * p.pitch;
                from += (V - shift) * p.pitch + (shift ? 0 : more);
            }
            const int32_t x = piece * V - shift;
            to += x * E;
            if ((!APART || b.x0 + x >= 0) && x + V <= b.x1) {
                ckci_k_vec<ckci_k_s_f32, 4> v;
                v.clear();
                CKCI_K_UNROLL(16)
                for (int j = 0; j < V; j++) {
                    const int32_t at = j * p.pitch + (APART && j >= next ? more : 0);
                    ckci_k_move_put<E>(v.w, j, *(const word *)(from + at));
                }
                store_piece(p, to, v.w);
            } else {
                CKCI_K_UNROLL(1)
                for (int j = 0; j < V; j++) {
                    if (b.x0 + x + j >= 0 && x + j < b.x1) {
                        ((word *)to)[j] = *(const word *)(from + j * p.pitch + (j >= next ? more : 0));
                    }
                }
            }
        }
    }

    /* The same of aligned rows, ACROSS of them at a time, which share a word of LDS. */
    enum { ACROSS = 4 / E };

    static CKCI_K_MEMBER void gather_words(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m)
    {
        CKCI_K_UNROLL(1)
        for (int32_t q = (int32_t)threadIdx.x; q < p.stores; q += 256) {
            const int32_t far = ckci_k_divide(q >> 5, p.by_store), piece = (q & 7) + far * 8;
            const int32_t near = (q >> 5) - far * (int32_t)p.by_store.d;
            const int32_t y = (near * 4 + (q >> 3 & 3)) * ACROSS, x = piece * V;
            if (y >= b.y1 || x >= b.x1) {
                continue;
            }
            const unsigned char *from = m.tile + place(p, piece) + y * E;
            uint32_t w[V];
            CKCI_K_UNROLL(16)
            for (int j = 0; j < V; j++) {
                w[j] = *(const uint32_t *)from;
                from += p.pitch;
            }
            unsigned char *to = b.dst + y * p.dst_step[1] + x * E;
            CKCI_K_UNROLL(4)
            for (int r = 0; r < ACROSS; r++) {
                uint32_t out[4];
                CKCI_K_UNROLL(4)
                for (int k = 0; k < 4; k++) {
                    out[k] = words(w + k * ACROSS, r);
                }
                if (y + r < b.y1 && x + V <= b.x1) {
                    const ckci_k_uint4 four = {out[0], out[1], out[2], out[3]};
                    *(ckci_k_uint4 *)to = four;
                }
                to += p.dst_step[1];
            }
        }
    }

    /* Element r of each of ACROSS words */
    static CKCI_K_MEMBER uint32_t words(const uint32_t *w, int r)
    {
        if constexpr (E == 2) {
            return r ? ckci_k_halves<1>(w[0], w[1]) : ckci_k_halves<0>(w[0], w[1]);
        } else {
            return (w[0] >> 8 * r & 0xffu) | (w[1] >> 8 * r & 0xffu) << 8 | (w[2] >> 8 * r & 0xffu) << 16 |
                   w[3] >> 8 * r << 24;
        }
    }

    template <int S>
    static CKCI_K_MEMBER void fill_all(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m)
    {
#if defined(__HIP_DEVICE_COMPILE__) /* scalar branches are cheap, and loads take any address */
        fill<false, ASK, S>(p, b, m);
#else
        if (p.shifted && p.scatter) {
            fill<true, 1, S>(p, b, m);
        } else if (p.shifted) {
            fill<true, 0, S>(p, b, m);
        } else if (p.scatter) {
            fill<false, 1, S>(p, b, m);
        } else {
            fill<false, 0, S>(p, b, m);
        }
#endif
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_move &p, lds &m)
    {
        const ckci_k_move_tile b = ckci_k_find_move(p);
        if constexpr (!CONVERT) {
            fill_all<E>(p, b, m);
        } else if (p.from == USUAL || (E == 4 && p.from == CKCONV_BF16)) {
            if constexpr (E == 2 || E == 4) {
                fill_all<8 / E>(p, b, m);
            }
        } else {
            fill_any(p, b, m);
        }
        if (CONVERT && p.straight) {
            return;
        }
        __syncthreads();
        if (p.scatter) {
            drain(p, b, m);
            return;
        }
        if constexpr (E < 4) {
            if (p.words) {
                gather_words(p, b, m);
                return;
            }
        }
#if !defined(__HIP_DEVICE_COMPILE__)
        if (p.before) {
            gather<true>(p, b, m);
            return;
        }
#endif
        gather<false>(p, b, m);
    }
};

#endif /* CKCONV_KERNELS_NORM_HIP_H */
