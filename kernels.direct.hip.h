/* kernels.direct.hip.h - v0.1.0 - kernels of ckconv.h: depthwise, few channels, pairs: HIP C++17, nvcc
   SPDX-License-Identifier: MIT */
#ifndef CKCONV_KERNELS_DIRECT_HIP_H
#define CKCONV_KERNELS_DIRECT_HIP_H
/*  (licence text at the end of ckconv.h)

Included by kernels.hip.h on one marked line. Do not include it yourself.

Depthwise convolutions, those with few channels per group, and conv_conv_fwd, whose first convolution is
often one of them. The table of kernels stands in kernels.hip.h.

TAGS
    >>k-direct  few channels per group
    >>k-depth   depthwise
    >>k-pair    conv_conv_fwd
*/

#ifndef CKCONV_IMPLEMENTATION
#error "kernels.direct.hip.h is a part of kernels.hip.h: define CKCONV_IMPLEMENTATION and include ckconv.h"
#endif


/*------------------------------------------------------------------------------------------------------------
  >>k-direct
  Depthwise and few channels per group, where a matrix tile would be mostly padding. fwd and bwd_data: a
  thread owns one output and walks its taps and channels; a block is lanes x (256 / lanes): neighbouring
  threads take neighbouring channels of all groups, or positions, whichever lie together in memory. Nothing
  passes through LDS; neighbours meet in the caches.
  bwd_weight: a block owns `lanes` filters (g, k, c) at one tap, over one part of the positions; the threads
  of a filter share the positions, and their sums are added in LDS in a fixed tree.
*/
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
        const ckci_gpu_dim &dz = ckci_k_again(p).dim[0];
        int32_t z = q.z * dz.read_step + axis[0].read0 + fz * dz.read_tap;
        const int32_t rows = ckci_k_lane_afresh((uint32_t)z < (uint32_t)dz.read_len ? axis[1].taps : 0);
        for (int32_t fy = 0; fy < rows; fy++) {
            const ckci_gpu_dim &dy = ckci_k_again(p).dim[1];
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


/*------------------------------------------------------------------------------------------------------------
  >>k-depth
  Depthwise convolutions, limited by memory, not by arithmetic. A launch has one input and one output channel
  per group, or (fwd, bwd_data) a sum over the few that are read; few that are written take a launch each.
  Each thread owns a strip of XO neighbouring outputs along dimension 2 in registers. Rows of the filter are
  walked one by one; along dimension 2, a window of inputs is loaded once and serves G taps of all outputs of
  the strip, so that every number is loaded and converted once for G x V products. Neighbouring rows meet in
  the caches: a block walks its strips in the order of memory.
  Channels last: the lanes of a block take V neighbouring channels each (one load), dimension 2 is x.
  Planes (channels first, V = 1): the lanes take neighbouring x of one channel, and the host has exchanged x
  and y in all tensors and dimensions, so that strips run along y. The weights of a block's channels lie in
  LDS as they are multiplied, as many rows of the filter at a time as fit; for the gradient (bwd_data) taps
  are turned round, so that windows ascend. STEP: the stride, where neighbouring taps share a window; 0: any
  stride and dilation, taps one by one. FULL: any types of weights, output and D tensors, any operation.
  Several channels that are summed (V = 1) are walked like planes of taps.
  Where taps lie beside each other (3 x 3, 5 x 5, 7 x 7, stride 1), threads walk down columns of rows (walk;
  3 x 3 in f32 and with stride 2: column), and with channels last the rows, for 3 x 3 x 3 the planes, come
  through LDS (down, deep). Channels first,
  3 x 3 and 5 x 5 with strides 1 and 2, and 7 x 7, take planes, or bands of their rows, through LDS (sheet).
  bwd_weight: a thread owns R rows x G taps of a filter for V channels and walks strips of dout with the
  inputs beside them. The sums of a block's threads are added in LDS in a fixed tree, those of blocks by
  depth_sum in a fixed order.
*/

/* Storage: f16 or bf16, told apart at run time; f32; f64. */
struct ckci_k_s_half {
    typedef float T;
    enum { SIZE = 2 };

    /* A number, in the low half of w. */
    template <bool BF16> static CKCI_K_MEMBER float widen(uint32_t w)
    {
        if constexpr (BF16) {
            return ckci_k_float(w << 16);
        } else {
#if defined(__CUDA_ARCH__)
            float x;
            asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((uint16_t)w));
            return x;
#else
            return ckci_k_half_float(w & 0xffffu);
#endif
        }
    }

    /* Two numbers of a word. */
    template <bool BF16> static CKCI_K_MEMBER void widen(uint32_t w, float *v)
    {
        if constexpr (BF16) {
            v[0] = ckci_k_float(w << 16);
            v[1] = ckci_k_float(w & 0xffff0000u);
        } else {
#if defined(__CUDA_ARCH__)
            asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
                : "=f"(v[0]), "=f"(v[1])
                : "r"(w));
#else
            v[0] = ckci_k_half_float(w & 0xffffu);
            v[1] = ckci_k_half_float(w >> 16);
#endif
        }
    }

    template <bool BF16> static CKCI_K_MEMBER uint32_t narrow(float low, float high)
    {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        uint32_t w;
        if constexpr (BF16) {
            asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
        } else {
            asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
        }
        return w;
#else
        if constexpr (BF16) {
            return ckci_k_float_bf16(low) | ckci_k_float_bf16(high) << 16;
        } else {
            return ckci_k_float_half(low) | ckci_k_float_half(high) << 16;
        }
#endif
    }
};

struct ckci_k_s_f32 {
    typedef float T;
    enum { SIZE = 4 };
};

struct ckci_k_s_f64 {
    typedef double T;
    enum { SIZE = 8 };
};

/* V neighbouring numbers as they lie in memory, aligned to their size together. */
template <class S, int V> struct ckci_k_vec {
    typedef typename S::T T;
    enum { BYTES = V * S::SIZE, WORDS = BYTES < 4 ? 1 : BYTES / 4 };
    uint32_t w[WORDS];

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < WORDS; i++) {
            w[i] = 0;
        }
    }

    CKCI_K_MEMBER void load(const unsigned char *p)
    {
        if constexpr (BYTES == 16) {
            ckci_k_uint4 q = *(const ckci_k_uint4 *)p;
            w[0] = q.x;
            w[1] = q.y;
            w[2] = q.z;
            w[3] = q.w;
        } else if constexpr (BYTES == 8) {
            ckci_k_uint2 q = *(const ckci_k_uint2 *)p;
            w[0] = q.x;
            w[1] = q.y;
        } else if constexpr (BYTES == 4) {
            w[0] = *(const uint32_t *)p;
        } else {
            w[0] = *(const uint16_t *)p;
        }
    }

    CKCI_K_MEMBER void store(unsigned char *p) const
    {
        if constexpr (BYTES == 16) {
            ckci_k_uint4 q = {w[0], w[1], w[2], w[3]};
            *(ckci_k_uint4 *)p = q;
        } else if constexpr (BYTES == 8) {
            ckci_k_uint2 q = {w[0], w[1]};
            *(ckci_k_uint2 *)p = q;
        } else if constexpr (BYTES == 4) {
            *(uint32_t *)p = w[0];
        } else {
            *(uint16_t *)p = (uint16_t)w[0];
        }
    }

    template <bool BF16> CKCI_K_MEMBER void widen(T *v) const
    {
        if constexpr (S::SIZE == 2) {
            T pair[2];
            CKCI_K_UNROLL(4)
            for (int i = 0; i < V; i += 2) {
                S::template widen<BF16>(w[i / 2], pair);
                v[i] = pair[0];
                if (i + 1 < V) {
                    v[i + 1] = pair[1];
                }
            }
        } else {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < V; i++) {
                memcpy(&v[i], &w[i * (S::SIZE / 4)], S::SIZE);
            }
        }
    }

    template <bool BF16> CKCI_K_MEMBER void narrow(const T *v)
    {
        if constexpr (S::SIZE == 2) {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < V; i += 2) {
                w[i / 2] = S::template narrow<BF16>(v[i], i + 1 < V ? v[i + 1] : 0);
            }
        } else {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < V; i++) {
                memcpy(&w[i * (S::SIZE / 4)], &v[i], S::SIZE);
            }
        }
    }
};

/* N of them at once: the branch that tells f16 from bf16 is the same for all threads. */
template <int N, class S, int V>
CKCI_K_FN void ckci_k_depth_widen(const ckci_k_vec<S, V> *raw, typename S::T *v, int32_t bf16)
{
    if (S::SIZE == 2 && bf16) {
        CKCI_K_UNROLL(32)
        for (int i = 0; i < N; i++) {
            raw[i].template widen<S::SIZE == 2>(v + i * V);
        }
    } else {
        CKCI_K_UNROLL(32)
        for (int i = 0; i < N; i++) {
            raw[i].template widen<false>(v + i * V);
        }
    }
}

template <int N, class S, int V>
CKCI_K_FN void ckci_k_depth_narrow(ckci_k_vec<S, V> *raw, const typename S::T *v, int32_t bf16)
{
    if (S::SIZE == 2 && bf16) {
        CKCI_K_UNROLL(32)
        for (int i = 0; i < N; i++) {
            raw[i].template narrow<S::SIZE == 2>(v + i * V);
        }
    } else {
        CKCI_K_UNROLL(32)
        for (int i = 0; i < N; i++) {
            raw[i].template narrow<false>(v + i * V);
        }
    }
}

/* V numbers of LDS. */
template <class T, int V> CKCI_K_FN void ckci_k_spread(const T *p, T *v)
{
    if constexpr (V == 4 && sizeof(T) == 4) {
        ckci_k_uint4 q = *(const ckci_k_uint4 *)p;
        v[0] = ckci_k_float(q.x);
        v[1] = ckci_k_float(q.y);
        v[2] = ckci_k_float(q.z);
        v[3] = ckci_k_float(q.w);
    } else {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < V; i++) {
            v[i] = p[i];
        }
    }
}

/* Element i of N registers. */
template <class T, int N> CKCI_K_FN T ckci_k_pick(const T *c, int i)
{
    T x = c[0];
    CKCI_K_UNROLL(64)
    for (int j = 1; j < N; j++) {
        T y = c[j];
#if defined(__HIP_DEVICE_COMPILE__)
        asm("" : "+v"(y)); /* clang 15 would choose among addresses, and so keep all of c in scratch */
#endif
        x = i == j ? y : x;
    }
    return x;
}

/* f16, bf16 or f32 */
CKCI_K_FN float ckci_k_depth_load(int32_t dtype, const unsigned char *p)
{
    if (dtype == CKCONV_F32) {
        return *(const float *)p;
    }
    uint32_t bits = *(const uint16_t *)p;
    return dtype == CKCONV_F16 ? ckci_k_half_float(bits) : ckci_k_float(bits << 16);
}

CKCI_K_FN void ckci_k_depth_store(int32_t dtype, unsigned char *p, float x)
{
    if (dtype == CKCONV_F32) {
        *(float *)p = x;
    } else {
        *(uint16_t *)p = (uint16_t)(dtype == CKCONV_F16 ? ckci_k_float_half(x) : ckci_k_float_bf16(x));
    }
}

/* The epilogue of one output where it is more than a store. FULL: any types and any operation; else f16, bf16
   and f32, and no GELU, which is a lot of code. */
template <bool FULL, class T>
CKCI_K_FN void ckci_k_depth_write(const ckci_gpu_depth &p, T x, int32_t g, const ckci_k_place &q)
{
    if constexpr (FULL) {
        x = ckci_k_finish_apart<T>(p.o, x, g, q.n, 0, q.z, q.y, q.x);
        ckci_k_put_apart<T>(p.o, x, g, q.n, 0, q.z, q.y, q.x);
    } else {
        const ckci_gpu_target &o = ckci_k_late(p.o);
        T v = x, d = 0;
        if (o.scale) {
            v *= ((const T *)o.scale)[g];
        }
        if (o.shift) {
            v += ((const T *)o.shift)[g];
        }
        bool sums = o.t.op.kind >= CKCONV_BIAS;
        CKCI_K_UNROLL(1)
        for (int j = o.t.op.kind == CKCONV_PASS ? o.num_d : 0; j < o.num_d; j++) {
            const ckci_tensor &t = o.d[j];
            int64_t at = g * t.stride[0] + q.n * t.stride[1] + q.z * t.stride[3] + q.y * t.stride[4] +
                         q.x * t.stride[5];
            T value = ckci_k_depth_load(t.dtype, t.p + at * (t.dtype == CKCONV_F32 ? 4 : 2));
            v = sums ? v + value : v;
            d = j == 0 ? value : d;
        }
        int64_t at = g * o.t.stride[0] + q.n * o.t.stride[1] + q.z * o.t.stride[3] + q.y * o.t.stride[4] +
                     q.x * o.t.stride[5];
        v = ckci_k_element<false>(o.t.op, v, d);
        if (o.compute == CKCONV_F16) { /* the compute type of mid, which is one that these kernels read */
            v = ckci_k_half_float(ckci_k_float_half(v));
        } else if (o.compute == CKCONV_BF16) {
            v = ckci_k_float(ckci_k_float_bf16(v) << 16);
        }
        ckci_k_depth_store(o.t.dtype, o.t.p + at * (o.t.dtype == CKCONV_F32 ? 4 : 2), v);
    }
}

/* Element `at` of the weights. */
template <bool FULL, class T> CKCI_K_FN T ckci_k_depth_tap(const ckci_gpu_depth &p, int64_t at)
{
    if constexpr (FULL) {
        return ckci_k_plain_value<T>(p.b, at);
    } else {
        return ckci_k_depth_load(p.b.dtype, p.b.p + at * (p.b.dtype == CKCONV_F32 ? 4 : 2));
    }
}

/* Filters of Z x F x F taps that a block takes into LDS once: inner.d numbers lie beside each other, taps of
   a channel (PLANES) or channels of a tap. */
struct ckci_k_depth_taps {
    const unsigned char *from;              /* tap 0 of channel 0 */
    int64_t step_z, step_y, step_x, step_g; /* numbers from tap to tap, from channel to channel */
    int32_t dtype, f, by_f;                 /* by_f: 1024 / F, rounded up */
    int32_t first, used, limit;             /* the first channel; channels of a tap; those that exist */
    ckci_divisor inner, by_g;               /* PLANES: channels of an image */
};

/* turn: the last tap comes first. */
template <int Z, int F, int INNER>
CKCI_K_FN ckci_k_depth_taps ckci_k_depth_find_taps(const ckci_gpu_depth &p, bool turn)
{
    constexpr uint32_t shift = INNER <= 16 ? 4 : INNER <= 32 ? 5 : INNER <= 64 ? 6 : INNER <= 128 ? 7 : 8;
    static_assert(INNER > 8 && INNER <= 256, "shift");
    constexpr uint32_t mul = (uint32_t)(((uint64_t)((1u << shift) - INNER) << 32) / INNER + 1);
    const int64_t *s = p.b.stride, sign = turn ? -1 : 1;
    const int64_t start = turn ? (Z - 1) * s[3] + (F - 1) * (s[4] + s[5]) : 0;
    ckci_k_depth_taps w;
    w.dtype = p.b.dtype;
    w.from = p.b.p + start * (w.dtype == CKCONV_F32 ? 4 : 2);
    w.step_z = Z == 1 ? 0 : sign * s[3];
    w.step_y = sign * s[4];
    w.step_x = sign * s[5];
    w.step_g = s[0];
    w.f = F;
    w.by_f = (1024 + F - 1) / F;
    w.first = w.used = w.limit = 0;
    w.inner = w.by_g = {INNER, mul, shift}; /* as ckci_make_divisor */
    return w;
}

/* A call on NVIDIA: many kernels begin with it, and several loads are to be under way. */
template <class T, bool PLANES, int THREADS>
CKCI_K_APART void ckci_k_depth_stage(const ckci_k_depth_taps w, T *to, int32_t count)
{
#if defined(__CUDA_ARCH__)
    enum { SEVERAL = 4 };
#else
    enum { SEVERAL = 1 };
#endif
    CKCI_K_UNROLL(1)
    for (int32_t next = (int32_t)threadIdx.x; next < count; next += SEVERAL * THREADS) {
        uint32_t raw[SEVERAL];
        CKCI_K_UNROLL(4)
        for (int k = 0; k < SEVERAL; k++) {
            const int32_t e = next + k * THREADS, outer = ckci_k_divide(e, w.inner),
                          inner = e - outer * (int32_t)w.inner.d;
            const int32_t tap = PLANES ? inner : outer, row = tap * w.by_f >> 10, z = row * w.by_f >> 10;
            int32_t g = w.first + (PLANES ? outer : inner);
            bool some = e < count;
            if constexpr (PLANES) {
                g -= ckci_k_divide(g, w.by_g) * (int32_t)w.by_g.d;
            } else {
                some = some && inner < w.used && g < w.limit;
            }
            const int64_t at =
                g * w.step_g + z * w.step_z + (row - z * w.f) * w.step_y + (tap - row * w.f) * w.step_x;
            raw[k] = 0;
            if (some && w.dtype == CKCONV_F32) {
                raw[k] = *(const uint32_t *)(w.from + at * 4);
            } else if (some) {
                raw[k] = *(const uint16_t *)(w.from + at * 2);
            }
        }
        CKCI_K_UNROLL(4)
        for (int k = 0; k < SEVERAL; k++) {
            if (next + k * THREADS < count) {
                to[next + k * THREADS] = w.dtype == CKCONV_F32   ? ckci_k_float(raw[k])
                                         : w.dtype == CKCONV_F16 ? ckci_k_half_float(raw[k])
                                                                 : ckci_k_float(raw[k] << 16);
            }
        }
    }
}

/* AMD: the same, [tap][INNER channels], where a wave has taps of its own, SIDE apart: their places are no
   products of each thread. */
template <class T, int Z, int F, int INNER>
CKCI_K_FN void ckci_k_depth_stage_waves(const ckci_k_depth_taps &w, T *to)
{
    constexpr int THREADS = INNER > 128 ? 256 : INNER > 64 ? 128 : 64, SIDE = 256 / THREADS, SEVERAL = 4;
    static_assert(SIDE <= F, "a step ends in the next row at most");
    const int32_t t = (int32_t)threadIdx.x, inner = t % THREADS, g = w.first + inner;
    const int32_t size = w.dtype == CKCONV_F32 ? 4 : 2;
    const bool some = inner < w.used && g < w.limit;
    const unsigned char *from = w.from + (some ? g * w.step_g * size : 0); /* others load something, too */
    int32_t tap = ckci_k_same(t / THREADS), x = tap, y = 0;
    int64_t at = x * w.step_x * size;
    const int64_t step = SIDE * w.step_x * size, down = (w.step_y - F * w.step_x) * size,
                  deep = (w.step_z - F * w.step_y) * size;
    CKCI_K_UNROLL(1)
    while (tap < Z * F * F) {
        uint32_t raw[SEVERAL];
        int32_t mine[SEVERAL];
        const unsigned char *one[SEVERAL];
        CKCI_K_UNROLL(4)
        for (int k = 0; k < SEVERAL; k++) {
            one[k] = from + at;
            mine[k] = tap; /* the last one more than once */
            const bool turn = x + SIDE >= F, next = Z > 1 && turn && y + 1 == F;
            tap += SIDE;
            if (tap < Z * F * F) {
                at += step + (turn ? down : 0) + (next ? deep : 0);
            } else if (k + 1 < SEVERAL) {
                tap -= SIDE;
            }
            x += turn ? SIDE - F : +SIDE;
            y = next ? 0 : turn ? y + 1 : y;
        }
        CKCI_K_UNROLL(4)
        for (int k = 0; k < SEVERAL; k++) {
            raw[k] = size == 4 ? *(const uint32_t *)one[k] : *(const uint16_t *)one[k];
        }
        CKCI_K_UNROLL(4)
        for (int k = 0; k < SEVERAL && inner < INNER; k++) {
            raw[k] = some ? raw[k] : 0;
            to[mine[k] * INNER + inner] = w.dtype == CKCONV_F32   ? ckci_k_float(raw[k])
                                          : w.dtype == CKCONV_F16 ? ckci_k_half_float(raw[k])
                                                                  : ckci_k_float(raw[k] << 16);
        }
    }
}

enum { CKCI_K_DEPTH_LDS = 16384 };

template <class T> struct ckci_k_depth_lds {
    alignas(16) T w[CKCI_K_DEPTH_LDS / sizeof(T)];
};

/* Where a thread works: what stays the same for all its strips. */
struct ckci_k_depth_place {
    int32_t lane, slot; /* channels (x for planes); strips side by side */
    int32_t tile, channel;
    int32_t from, to; /* strips of the block, `lanes_p` at a time */
    bool active;
};

template <class S, int V, int XO, int STEP, bool FULL> struct ckci_k_depth {
    typedef typename S::T T;
    typedef ckci_k_depth_lds<T> lds;

    const ckci_gpu_depth &args; /* FULL has no registers left for those of a strip: they are loaded again */
    bool planes;
    ckci_k_axis axis[3];
    ckci_k_depth_place at;
    int32_t x_first;             /* input of the first tap of output 0 */
    int32_t x_step, x_bytes;     /* from one element of a window to the next */
    int32_t tap_step, tap_bytes; /* from one tap to the next, ascending */
    T c[XO * V];

    CKCI_K_MEMBER explicit ckci_k_depth(const ckci_gpu_depth &p) : args(p), planes(V == 1 && p.planes)
    {
        int32_t t = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x;
        at.slot = ckci_k_divide(t, p.by_lanes_c);
        at.lane = t - at.slot * p.lanes_c;
        int32_t rest = ckci_k_divide(block, p.by_phases), phase = block - rest * p.phases;
        int32_t part = ckci_k_divide(rest, p.by_tiles_c);
        at.tile = rest - part * p.tiles_c;
        ckci_k_find_axes(p.dim, phase, axis);
        if constexpr (STEP == 0) { /* too much for scalar registers; used by lanes only */
            ckci_k_hold(axis);
        }
        at.channel = planes ? at.tile : (at.tile * p.lanes_c + at.lane) * V;
        at.active = at.slot < p.lanes_p && at.channel < p.g;
        int32_t all = p.n * axis[0].count * (planes ? p.tiles_x : axis[1].count) * p.strips;
        at.from = part * p.part;
        at.to = all - at.from < p.part ? all : at.from + p.part;
        tap_step = p.dim[2].read_tap < 0 ? -p.dim[2].read_tap : p.dim[2].read_tap;
        x_first = axis[2].read0 + (p.dim[2].read_tap < 0 ? (axis[2].taps - 1) * p.dim[2].read_tap : 0);
        int32_t bytes = (int32_t)p.a.stride[5] * S::SIZE;
        x_step = STEP == 0 ? p.dim[2].read_step : 1;
        x_bytes = x_step * bytes;
        tap_bytes = tap_step * bytes;
#if defined(__HIP_DEVICE_COMPILE__) && __clang_major__ < 16
        if constexpr (V == 1) { /* used by lanes only; scalar registers hold no more */
            tap_step = ckci_k_lane_afresh(tap_step);
            tap_bytes = ckci_k_lane_afresh(tap_bytes);
            x_first = ckci_k_lane_afresh(x_first);
            x_step = STEP == 0 ? ckci_k_lane_afresh(x_step) : 1;
        }
#endif
    }

    /* Weights of `rows` filter rows from r0 on, in the order in which they are multiplied. */
    CKCI_K_MEMBER void stage(lds &m, int32_t r0, int32_t rows)
    {
        const ckci_gpu_depth &p = ckci_k_opaque_argument<FULL>(args);
        int32_t channels = planes ? 1 : p.lanes_c * V, taps = axis[2].taps;
        int32_t count = rows * taps * channels;
        for (int32_t e = (int32_t)threadIdx.x; e < count; e += 256) {
            int32_t tap = ckci_k_divide(e, p.by_channels), channel = e - tap * channels;
            int32_t row = ckci_k_divide(tap, axis[2].by_taps), x = tap - row * taps;
            row += r0;
            int32_t z = ckci_k_divide(row, axis[1].by_taps), y = row - z * axis[1].taps;
            int64_t red = 0;
            if constexpr (V == 1) {
                const ckci_gpu_depth &late = ckci_k_again(args);
                if (late.red > 1) {
                    const int32_t c = z / axis[0].taps; /* a divisor would stay in scalar registers */
                    z -= c * axis[0].taps;
                    red = c * late.b_red;
                }
            }
            x = p.dim[2].read_tap < 0 ? taps - 1 - x : x;
            int32_t g = planes ? at.tile : at.tile * channels + channel;
            int64_t w = red + g * p.b.stride[0] + (axis[0].tap0 + z * p.dim[0].period) * p.b.stride[3] +
                        (axis[1].tap0 + y * p.dim[1].period) * p.b.stride[4] +
                        (axis[2].tap0 + x * p.dim[2].period) * p.b.stride[5];
            m.w[tap * channels + channel] = g < p.g ? ckci_k_depth_tap<FULL, T>(p, w) : (T)0;
        }
    }

    /* G neighbouring taps; src and x: the first element of the window. They move on to the next tap. */
    template <int G>
    CKCI_K_MEMBER void taps(const unsigned char *&src, int32_t &x, const T *&w, int32_t channels)
    {
        constexpr int APART = STEP ? STEP : 1, WINDOW = (XO - 1) * APART + G, CHUNK = V == 1 ? 8 : 4,
                      CHUNKS = (WINDOW + CHUNK - 1) / CHUNK;
        ckci_k_vec<S, V> raw[CHUNKS * CHUNK];
        const int32_t bytes = ckci_k_afresh(this->x_bytes);
        CKCI_K_UNROLL(32)
        for (int i = 0; i < CHUNKS * CHUNK; i++) {
            raw[i].clear();
            if (i < WINDOW && (uint32_t)(x + i * x_step) < (uint32_t)args.dim[2].read_len) {
                raw[i].load(src + i * bytes);
            }
        }
        T f[G][V];
        CKCI_K_UNROLL(8)
        for (int j = 0; j < G; j++) {
            ckci_k_spread<T, V>(w + j * channels, f[j]);
        }
        CKCI_K_UNROLL(8)
        for (int q = 0; q < CHUNKS; q++) {
            T v[CHUNK * V];
            ckci_k_depth_widen<CHUNK>(raw + q * CHUNK, v, args.bf16);
            CKCI_K_UNROLL(8)
            for (int j = 0; j < G; j++) {
                CKCI_K_UNROLL(8)
                for (int i = q * CHUNK; i < (q + 1) * CHUNK; i++) {
                    if (i - j >= 0 && (i - j) % APART == 0 && (i - j) / APART < XO) {
                        CKCI_K_UNROLL(4)
                        for (int k = 0; k < V; k++) {
                            T &sum = c[(i - j) / APART * V + k];
                            sum = ckci_k_fma(v[(i - q * CHUNK) * V + k], f[j][k], sum);
                        }
                    }
                }
            }
        }
        src += G * tap_bytes;
        x += G * tap_step;
        w += G * channels;
    }

    CKCI_K_MEMBER void row(const unsigned char *src, int32_t x, const T *w, int32_t channels)
    {
        constexpr int MOST = STEP == 1 ? 8 : STEP == 2 ? 3 : 1;
        int32_t left = axis[2].taps;
        CKCI_K_UNROLL(1)
        for (; left >= MOST; left -= MOST) {
            taps<MOST>(src, x, w, channels);
        }
        if constexpr (STEP == 1) {
            if (left & 4) {
                taps<4>(src, x, w, channels);
            }
            left &= 3;
            if (left == 3) {
                taps<3>(src, x, w, channels);
                return;
            }
            if (left == 2) {
                taps<2>(src, x, w, channels);
                return;
            }
        }
        if constexpr (STEP != 0) {
            CKCI_K_UNROLL(1)
            for (; left > 0; left--) {
                taps<1>(src, x, w, channels);
            }
        }
    }

    /* A strip: outputs x0 ... of (n, z, y); its first input row and place. */
    struct strip {
        int32_t n, z, y, x; /* written */
        int32_t in_z, in_y, in_x, tap_y, tap_z;
        const unsigned char *src;
        bool inside;
    };

    CKCI_K_MEMBER strip find(int32_t i) const
    {
        const ckci_gpu_depth &p = ckci_k_opaque_argument<FULL>(args);
        strip s;
        int32_t rest = ckci_k_divide(i, p.by_strips), sx = i - rest * p.strips;
        ckci_divisor by_y = axis[1].by_count; /* copies: clang 15 would choose among addresses */
        int32_t count_y = axis[1].count;
        if (planes) {
            by_y = p.by_tiles_x;
            count_y = p.tiles_x;
        }
        int32_t up = ckci_k_divide(rest, by_y);
        int32_t y = rest - up * count_y;
        s.n = ckci_k_divide(up, axis[0].by_count);
        int32_t z = up - s.n * axis[0].count, x = sx * XO;
        y = planes ? y * p.lanes_c + at.lane : y;
        s.inside = at.active && i < at.to && y < axis[1].count;
        s.in_z = z * p.dim[0].read_step + axis[0].read0;
        s.in_y = y * p.dim[1].read_step + axis[1].read0;
        s.in_x = x * p.dim[2].read_step + x_first;
        s.z = axis[0].write0 + z * p.dim[0].write_step;
        s.y = axis[1].write0 + y * p.dim[1].write_step;
        s.x = x;
        s.tap_y = 0;
        s.tap_z = ckci_k_lane_afresh(0); /* scalar registers hold no more */
        s.src = p.a.p + (s.n * p.a.stride[1] + at.channel * p.a.stride[0] + s.in_z * p.a.stride[3] +
                         s.in_y * p.a.stride[4] + s.in_x * p.a.stride[5]) *
                            S::SIZE;
        return s;
    }

    /* `rows` rows of the filter, from where the strip stands. */
    CKCI_K_MEMBER void multiply(const lds &m, strip &s, int32_t rows)
    {
        const ckci_gpu_depth &p = ckci_k_opaque_argument<FULL>(args);
        int32_t channels = planes ? 1 : p.lanes_c * V;
        const T *w = m.w + (planes ? 0 : at.lane * V);
        int64_t step_y = (int64_t)p.dim[1].read_tap * p.a.stride[4] * S::SIZE;
        CKCI_K_UNROLL(1)
        for (int32_t r = 0; r < rows; r++) {
            if ((uint32_t)s.in_z < (uint32_t)p.dim[0].read_len &&
                (uint32_t)s.in_y < (uint32_t)p.dim[1].read_len) {
                row(s.src, s.in_x, w, channels);
            }
            w += axis[2].taps * channels;
            s.src += step_y;
            s.in_y += p.dim[1].read_tap;
            s.tap_y++;
            if (s.tap_y == axis[1].taps) {
                const ckci_gpu_depth &late = ckci_k_again(args);
                const int64_t z_bytes = (int64_t)late.dim[0].read_tap * late.a.stride[3] * S::SIZE;
                s.tap_y = 0;
                s.in_y -= axis[1].taps * p.dim[1].read_tap;
                s.in_z += late.dim[0].read_tap;
                s.src += z_bytes - axis[1].taps * step_y;
                if constexpr (V == 1) {
                    s.tap_z++;
                    if (s.tap_z == axis[0].taps) { /* the next channel that is summed */
                        s.tap_z = 0;
                        s.in_z -= axis[0].taps * late.dim[0].read_tap;
                        s.src += late.a_red - axis[0].taps * z_bytes;
                    }
                }
            }
        }
    }

    CKCI_K_MEMBER void write(const strip &s)
    {
        const ckci_gpu_depth &p = ckci_k_opaque_argument<FULL>(args);
        const ckci_gpu_target &o = p.o;
        if (p.o_vec) {
            int64_t first = s.n * o.t.stride[1] + at.channel * o.t.stride[0] + s.z * o.t.stride[3] +
                            s.y * o.t.stride[4] +
                            (axis[2].write0 + s.x * p.dim[2].write_step) * o.t.stride[5];
            int64_t step = p.dim[2].write_step * o.t.stride[5] * S::SIZE;
            unsigned char *dst = o.t.p + first * S::SIZE;
            ckci_k_vec<S, V> v[XO];
            ckci_k_depth_narrow<XO>(v, c, p.bf16);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < XO; i++) {
                if (s.x + i < axis[2].count) {
                    v[i].store(dst + i * step);
                }
            }
            return;
        }
        CKCI_K_UNROLL(1)
        for (int i = 0; i < XO * V; i++) {
            int32_t x = s.x + i / V;
            if (x < axis[2].count) {
                ckci_k_place q = {s.n, s.z, s.y, axis[2].write0 + x * p.dim[2].write_step};
                ckci_k_depth_write<FULL, T>(p, ckci_k_pick<T, XO * V>(c, i), at.channel + i % V, q);
            }
        }
    }

    CKCI_K_MEMBER void work(lds &m)
    {
        const ckci_gpu_depth &p = ckci_k_opaque_argument<FULL>(args);
        int32_t all = axis[0].taps * axis[1].taps * (V == 1 ? ckci_k_again(args).red : 1);
        if (axis[2].taps == 0) {
            all = 0;
        }
        const int32_t first = ckci_k_lane_afresh(at.from);
        for (int32_t i = at.from; i < at.to; i += p.lanes_p) {
            const int32_t rows = ckci_k_afresh(all);
            strip s = find(i + at.slot);
            CKCI_K_UNROLL(32)
            for (int j = 0; j < XO * V; j++) {
                c[j] = 0;
            }
            for (int32_t r = 0; r < rows; r += p.rows) {
                int32_t some_rows = rows - r < p.rows ? rows - r : p.rows;
                if (rows > p.rows || i == ckci_k_same(first)) {
                    __syncthreads();
                    stage(m, r, some_rows);
                    __syncthreads();
                }
                if (s.inside) {
                    multiply(m, s, some_rows);
                }
            }
            if (s.inside) {
                write(s);
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &a, lds &m)
    {
        ckci_k_depth self(a);
        self.work(m);
    }
};

template <int V, int XO, int STEP, bool FULL>
struct ckci_k_resident<ckci_k_depth<ckci_k_s_half, V, XO, STEP, FULL>> {
    enum { BLOCKS = V == 1 ? 3 : 2 };
};

/* What a thread reads of a row: N channels-last positions of V channels, or pieces of 4 neighbours of a
   plane, one load each where that is aligned (vec). mask: the positions that exist; pieces exist as a whole
   then. channels: those that exist. */
template <class S, int V, int N, bool PLANES> struct ckci_k_depth_window {
    typedef typename S::T T;
    enum { PER = PLANES ? 4 : V, COUNT = PLANES ? N / 4 : N, BYTES = PER * S::SIZE, SIZE = S::SIZE };
    enum { PLANE = PLANES, ALL = (1 << N) - 1 };
    ckci_k_vec<S, PER> raw[COUNT];

    static CKCI_K_MEMBER bool inside(uint32_t mask, int i)
    {
        return mask >> (PLANES ? 4 * i : i) & 1;
    }

    /* word i of a piece */
    static CKCI_K_MEMBER bool inside_word(uint32_t mask, int i, int word)
    {
        return mask >> (PLANES ? 4 * i + word * 4 / (int)S::SIZE : i) & 1;
    }

    static CKCI_K_MEMBER int32_t step_of(int32_t step)
    {
        return PLANES ? (int32_t)BYTES : step;
    }

    /* at: bytes from src on */
    CKCI_K_MEMBER void load(const unsigned char *src, int32_t at, int32_t step, uint32_t mask, int32_t vec,
                            int32_t channels)
    {
        if (vec != 2) {
            CKCI_K_UNROLL(32)
            for (int i = 0; i < COUNT * PER; i++) {
                int x = PLANES ? i : i / V, channel = PLANES ? 0 : i % V;
                uint32_t one = 0;
                if (mask >> x & 1 && channel < channels) {
                    int32_t offset = at + x * (PLANES ? (int32_t)S::SIZE : step) + channel * (int32_t)S::SIZE;
                    one = ckci_k_load_bits(src + offset, S::SIZE);
                }
                if constexpr (S::SIZE == 2) {
                    uint32_t &pair = raw[i / PER].w[i % PER / 2];
                    pair = i % PER % 2 ? pair | one << 16 : one;
                } else {
                    raw[i / PER].w[i % PER] = one;
                }
            }
            return;
        }
        CKCI_K_UNROLL(16)
        for (int i = 0; i < COUNT; i++) {
            if (inside(mask, i)) {
                raw[i].load(src + (at + step_of(step) * i));
            } else {
                raw[i].clear();
            }
        }
    }

    CKCI_K_MEMBER void widen(T *v, int32_t bf16) const
    {
        ckci_k_depth_widen<COUNT>(raw, v, bf16);
    }
};

/* Windows on their way from memory. NVIDIA's loads can go past the registers (ASYNC): DEPTH - 1 windows are
   under way in LDS, each thread's in places of its own, so that no barrier is needed; AMD's are one, in
   registers. */
enum { CKCI_K_DEPTH_AHEAD = 4 };

template <class W, bool ASYNC, int DEPTH, int HELD = 1> struct ckci_k_depth_ring {
    enum { AHEAD = DEPTH - 1, PLACE = W::BYTES, ROW = W::COUNT * 256 * W::BYTES };

    struct lds {
        alignas(16) unsigned char place[DEPTH * ROW];
    };

    unsigned char *mine;
    int32_t write, read;

    CKCI_K_MEMBER void start(lds &m)
    {
        mine = m.place + threadIdx.x * PLACE;
        write = read = 0;
        W none;
        CKCI_K_UNROLL(1)
        for (int32_t k = 0; k < DEPTH; k++) {
            CKCI_K_UNROLL(16)
            for (int i = 0; i < W::COUNT; i++) {
                none.raw[i].clear();
                none.raw[i].store(mine + k * ROW + i * 256 * PLACE);
            }
        }
    }

    /* mask: the same each time; inside: whether there is such a row; vec: 0: element by element (no f32), 1:
       in words of 4 bytes, 2: in pieces */
    CKCI_K_MEMBER void push(const unsigned char *src, int32_t at, int32_t step, uint32_t mask, bool inside,
                            int32_t vec, int32_t channels)
    {
        unsigned char *to = mine + write;
        const unsigned char *from = src + (inside ? at : 0);     /* even a copy of nothing has an address */
        if (vec == 2 && !W::PLANE && mask == (uint32_t)W::ALL) { /* most waves */
            CKCI_K_UNROLL(16)
            for (int i = 0; i < W::COUNT; i++) {
                ckci_k_copy_late<PLACE>(to + i * 256 * PLACE, from, inside);
                from += (uint32_t)W::step_of(step);
            }
        } else if (vec == 2) {
            CKCI_K_UNROLL(16)
            for (int i = 0; i < W::COUNT; i++) {
                if (W::inside(mask, i)) {
                    ckci_k_copy_late<PLACE>(to + i * 256 * PLACE, from, inside);
                }
                from += (uint32_t)W::step_of(step);
            }
        } else if (W::SIZE == 4 || (W::PLANE && vec == 1)) {
            CKCI_K_UNROLL(1)
            for (int i = 0; i < W::COUNT; i++) {
                CKCI_K_UNROLL(4)
                for (int k = 0; k < PLACE / 4; k++) {
                    if (W::inside_word(mask, i, k) && (k < 1 || W::PLANE || k * 4 / W::SIZE < channels)) {
                        ckci_k_copy_late<4>(to + i * 256 * PLACE + 4 * k, from + 4 * k, inside);
                    }
                }
                from += (uint32_t)W::step_of(step);
            }
        } else if constexpr (W::SIZE != 4) {
            W w;
            w.load(src, at, step, inside ? mask : 0, 0, channels);
            CKCI_K_UNROLL(16)
            for (int i = 0; i < W::COUNT; i++) {
                w.raw[i].store(to + i * 256 * PLACE);
            }
        }
        write = write == (DEPTH - 1) * ROW ? 0 : write + ROW;
    }

    CKCI_K_MEMBER void pop(W &w)
    {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < W::COUNT; i++) {
            w.raw[i].load(mine + read + i * 256 * PLACE);
        }
        read = read == (DEPTH - 1) * ROW ? 0 : read + ROW;
    }
};

template <class W, int DEPTH, int HELD> struct ckci_k_depth_ring<W, false, DEPTH, HELD> {
    enum { AHEAD = HELD };

    struct lds {
        int32_t unused;
    };

    W held;

    CKCI_K_MEMBER void start(lds &)
    {
    }

    CKCI_K_MEMBER void push(const unsigned char *src, int32_t at, int32_t step, uint32_t mask, bool inside,
                            int32_t vec, int32_t channels)
    {
        held.load(src, at, step, inside ? mask : 0, vec, channels);
    }

    CKCI_K_MEMBER void pop(W &w)
    {
        w = held;
    }
};

/* Positions x, x + 1, ... that lie in a row. */
CKCI_K_FN uint32_t ckci_k_depth_inside(int32_t x, int32_t length, int count)
{
    const int32_t before = x < -count ? count : x < 0 ? -x : 0; /* shifts by less than 32 */
    const int32_t end = length - x < count ? length - x : count;
    return end > before ? (1u << end) - (1u << before) : 0;
}

/* Byte offset of (channel, n, z, y, x): tensors of those that walk have less than 2^31. */
template <class S>
CKCI_K_FN int32_t ckci_k_depth_at(const ckci_tensor &t, int32_t channel, const ckci_k_place &q)
{
    return (int32_t)(uint32_t)((q.n * t.stride[1] + channel * t.stride[0] + q.z * t.stride[3] +
                                q.y * t.stride[4] + q.x * t.stride[5]) *
                               S::SIZE);
}

/* Sums c of XO outputs of V channels that are complete: their place as bytes (to) and as where() tells; left:
   outputs from the first one to the end of the row. */
template <class S, int V, int XO, bool PLANES, class Where>
CKCI_K_FN void ckci_k_depth_row_write(const ckci_gpu_depth &args, const typename S::T *c, int32_t to,
                                      int32_t channel, int32_t left, const Where &where)
{
    const ckci_gpu_depth &p = ckci_k_late(args);
    typedef typename S::T T;
    typedef ckci_k_depth_window<S, V, XO, PLANES> window;
    constexpr int PER = window::PER, COUNT = XO * V / PER;
    if (p.o_same) {
        ckci_k_vec<S, PER> v[COUNT];
        ckci_k_depth_narrow<COUNT>(v, c, p.bf16);
        const int32_t step = (int32_t)p.o.t.stride[5] * (int32_t)S::SIZE;
        unsigned char *dst = p.o.t.p + to;
        if (p.o_vec && !PLANES && left >= XO) { /* most waves: no tests, offsets of 32 bits */
            CKCI_K_UNROLL(8)
            for (int i = 0; i < COUNT; i++) {
                v[i].store(p.o.t.p + (uint32_t)(to + i * step));
            }
            return;
        }
        if (p.o_vec) {
            CKCI_K_UNROLL(8)
            for (int i = 0; i < COUNT; i++) {
                if ((PLANES ? 4 * i : i) < left) {
                    v[i].store(dst);
                }
                dst += (uint32_t)window::step_of(step);
            }
            return;
        }
        const int32_t channels = ckci_k_lane_afresh(p.g - channel);
        CKCI_K_UNROLL(1)
        for (int i = 0; i < COUNT; i++) { /* always the first piece, which the others follow */
            CKCI_K_UNROLL(8)
            for (int k = 0; k < PER; k++) {
                ckci_k_vec<S, 1> one;
                one.w[0] = S::SIZE == 4 ? v[0].w[k] : k % 2 ? v[0].w[k / 2] >> 16 : v[0].w[k / 2];
                if (PLANES ? 4 * i + k < left : i < left && k < channels) {
                    one.store(dst + k * (int32_t)S::SIZE);
                }
            }
            dst += (uint32_t)window::step_of(step);
            CKCI_K_UNROLL(16)
            for (int k = 0; k + 1 < COUNT; k++) {
                v[k] = v[k + 1];
            }
        }
        return;
    }
    const ckci_k_place q = where();
    CKCI_K_UNROLL(1)
    for (int i = 0; i < XO * V; i++) {
        if (i / V < left && channel + i % V < p.g) {
            ckci_k_place at = {q.n, q.z, q.y, q.x + i / V};
            ckci_k_depth_write<false, T>(p, ckci_k_pick<T, XO * V>(c, i), channel + i % V, at);
        }
    }
}

/* fwd, bwd_data with stride and dilation 1, channels last with filters of Z x 3 x 3; planes with F x F and
   padding that keeps the size, which makes windows begin at a piece (V is 1 there). A thread walks down a
   column of strips: each row of inputs is loaded once and added to the F rows of outputs that it belongs to.
   Those lie in registers and move up a row with the first tap. The weights lie there too where they are few.
   */
template <class S, int V, int XO, int F, bool PLANES, bool ASYNC> struct ckci_k_depth_walk_by {
    typedef typename S::T T;
    /* numbers of a window, and those before the first tap */
    enum { WINDOW = PLANES ? XO + 8 : XO + F - 1, BEFORE = PLANES ? 4 - (F - 1) / 2 : 0 };
    enum { HELD = PLANES, DEPTH = CKCI_K_DEPTH_AHEAD };
    typedef ckci_k_depth_window<S, V, WINDOW, PLANES> window;
    typedef ckci_k_depth_ring<window, ASYNC, DEPTH> ring;

    struct lds {
        ckci_k_depth_lds<T> w;
        typename ring::lds rows;
    };

    /* Rows of inputs in the order in which they are multiplied: planes of z, then y. */
    struct cursor {
        int32_t at, row_step, plane_step;
        int32_t step, y, z, z_step, k, planes, rows; /* rows: still to come */
        uint32_t mask;
        int32_t channels;

        CKCI_K_MEMBER void push(const ckci_gpu_depth &p, ring &to)
        {
            bool inside = (uint32_t)y < (uint32_t)p.dim[1].read_len && rows > 0 &&
                          (uint32_t)(z + k * z_step) < (uint32_t)p.dim[0].read_len;
            to.push(p.a.p, at, step, mask, inside, p.a_vec, channels);
            ckci_k_copies_end();
            k++;
            at += plane_step;
            if (k == planes) {
                at += row_step;
                k = 0;
                y++;
                rows--;
            }
        }
    };

    static CKCI_K_MEMBER void weights(T *f, const T *w, int32_t channels)
    {
        CKCI_K_UNROLL(64)
        for (int i = 0; i < F * F; i++) {
            ckci_k_spread<T, V>(w + i * channels, f + i * V);
        }
    }

    /* A row of inputs into all rows of sums; MOVE: the first tap moves them up. f or w: the weights. */
    template <bool MOVE>
    static CKCI_K_MEMBER void multiply(T *c, const window &raw, const T *f, const T *w, int32_t channels,
                                       int32_t bf16)
    {
        T v[WINDOW * V];
        raw.widen(v, bf16);
        CKCI_K_UNROLL(8)
        for (int s = 0; s < F; s++) {
            CKCI_K_UNROLL(8)
            for (int x = 0; x < F; x++) {
                int tap = (F - 1 - s) * F + x;
                T one[V];
                if constexpr (!HELD) {
                    ckci_k_spread<T, V>(w + tap * channels, one);
                }
                CKCI_K_UNROLL(32)
                for (int i = 0; i < XO * V; i++) {
                    T before =
                        MOVE && x == 0 ? (s + 1 < F ? c[(s + 1) * XO * V + i] : (T)0) : c[s * XO * V + i];
                    T weight = HELD ? f[tap * V + i % V] : one[i % V];
                    c[s * XO * V + i] = ckci_k_fma(v[(BEFORE + x) * V + i], weight, before);
                }
            }
        }
    }

    static CKCI_K_MEMBER void stage(const ckci_gpu_depth &p, T *to, int32_t tile)
    {
        int32_t channels = p.lanes_c * V, count = p.taps * channels;
        bool back = p.dim[2].gather_back != 0;
        for (int32_t e = (int32_t)threadIdx.x; e < count; e += 256) {
            int32_t tap = ckci_k_divide(e, p.by_channels), channel = e - tap * channels;
            int32_t row = ckci_k_divide(tap, p.dim[2].taps[0]), x = tap - row * F;
            int32_t z = ckci_k_divide(row, p.dim[1].taps[0]), y = row - z * F, g = tile * channels + channel;
            x = back ? F - 1 - x : x;
            y = back ? F - 1 - y : y;
            int64_t w = g * p.b.stride[0] + z * p.b.stride[3] + y * p.b.stride[4] + x * p.b.stride[5];
            to[e] = g < p.g ? ckci_k_depth_tap<false, T>(p, w) : (T)0;
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        int32_t t = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x;
        int32_t slot = ckci_k_divide(t, p.by_lanes_c), lane = t - slot * p.lanes_c;
        int32_t part = ckci_k_divide(block, p.by_tiles_c), tile = block - part * p.tiles_c;
        int32_t channel = (tile * p.lanes_c + lane) * V, i = part * p.lanes_p + slot;
        /* columns: z, whose neighbours read the same rows (planes: after strips), strips, pieces of y, n */
        ckci_k_place q;
        int32_t rest = ckci_k_divide(i, PLANES ? p.by_strips : p.dim[0].count[0]);
        int32_t inner = i - rest * (PLANES ? p.strips : p.dim[0].length);
        int32_t line = ckci_k_divide(rest, PLANES ? p.dim[0].count[0] : p.by_strips);
        int32_t outer = rest - line * (PLANES ? p.dim[0].length : p.strips);
        q.z = PLANES ? outer : inner;
        q.x = (PLANES ? inner : outer) * XO;
        q.n = ckci_k_divide(line, p.by_tiles_x);
        q.y = (line - q.n * p.tiles_x) * p.walk;
        bool active = slot < p.lanes_p && channel < p.g && q.n < p.n;
        int32_t rows = p.dim[1].length - q.y < p.walk ? p.dim[1].length - q.y : p.walk, zs = p.dim[0].filter;
        /* bwd_data: the last tap reads the first input */
        bool back = p.dim[2].gather_back != 0;
        int32_t x = q.x + (back ? p.dim[2].pad - (F - 1) : -p.dim[2].pad);
        int32_t y = q.y + (back ? p.dim[1].pad - (F - 1) : -p.dim[1].pad);
        int32_t z = q.z * p.dim[0].read_step + (back ? p.dim[0].pad : -p.dim[0].pad);
        x -= BEFORE;
        cursor from;
        ckci_k_place first = {q.n, z, y, x};
        from.at = ckci_k_depth_at<S>(p.a, channel, first);
        from.plane_step = p.dim[0].read_tap * (int32_t)p.a.stride[3] * (int32_t)S::SIZE;
        from.row_step = (int32_t)p.a.stride[4] * (int32_t)S::SIZE - zs * from.plane_step;
        from.step = (int32_t)p.a.stride[5] * S::SIZE;
        from.y = y;
        from.z = z;
        from.z_step = p.dim[0].read_tap;
        from.k = 0;
        from.planes = zs;
        from.rows = rows + F - 1;
        from.mask = active ? ckci_k_depth_inside(x, p.dim[2].read_len, WINDOW) : 0;
        from.channels = p.g - channel;
        ring next;
        next.start(m.rows);
        int32_t to = 0;
        int32_t channels = p.lanes_c * V, k = 0, r = 0, steps = (rows + F - 1) * zs;
        const T *w = m.w.w + lane * V;
        T c[F * XO * V], f[HELD ? F * F * V : 1];
        CKCI_K_UNROLL(128)
        for (int j = 0; j < F * XO * V; j++) {
            c[j] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t step = -ring::AHEAD; step < steps; step++) {
            window raw;
            if (step == 0) { /* the weights follow the first rows */
                stage(p, m.w.w, tile);
                __syncthreads();
                if (!active) {
                    return;
                }
                to = ckci_k_depth_at<S>(p.o.t, channel, q);
                if (HELD) {
                    weights(f, w, channels);
                }
            }
            if (step >= 0) {
                ckci_k_copies_wait<DEPTH - 2>();
                next.pop(raw);
            }
            from.push(p, next);
            if (step < 0) {
                continue;
            }
            if (F == 3 && zs > 1 && HELD) {
                weights(f, w + k * F * F * channels, channels);
            }
            if (F != 3 || k == 0) {
                multiply<true>(c, raw, f, w, channels, p.bf16);
            } else {
                multiply<false>(c, raw, f, w + k * F * F * channels, channels, p.bf16);
            }
            k++;
            if (k < zs) {
                continue;
            }
            k = 0;
            if (r >= F - 1) {
                ckci_k_depth_row_write<S, V, XO, PLANES>(
                    p, c, to, channel, ckci_k_lane_afresh(p.dim[2].length - q.x), [&] { return q; });
                to += (int32_t)ckci_k_late(p).o.t.stride[4] * (int32_t)S::SIZE;
                q.y++;
            }
            r++;
        }
    }
};

template <class S, int V, int XO, int F, bool PLANES>
struct ckci_k_depth_walk : ckci_k_by_vendor<ckci_k_depth_walk_by<S, V, XO, F, PLANES, true>,
                                            ckci_k_depth_walk_by<S, V, XO, F, PLANES, false>> {
};

template <class S, int V, int XO, int F, bool PLANES>
struct ckci_k_resident<ckci_k_depth_walk<S, V, XO, F, PLANES>> {
    enum { BLOCKS = 2 };
};

/* The same with channels last, filters of 3 x 3 in a plane, stride 1, or 2 (fwd only), and V channels in one
   load. A step takes two rows of inputs, which complete two rows of outputs or (STRIDE 2) one; those of the
   next step are on their way from memory into registers meanwhile. */
template <class S, int V, int XO, int STRIDE> struct ckci_k_depth_column {
    typedef typename S::T T;
    typedef ckci_k_vec<S, V> vec;
    typedef ckci_k_depth_lds<T> lds;
    enum { WINDOW = (XO - 1) * STRIDE + 3, ALL = (1 << WINDOW) - 1, SUMS = XO * V, HELD = S::SIZE == 4 };

    /* A row: those positions of it that mask tells. */
    static CKCI_K_MEMBER void load(vec *to, const unsigned char *src, int32_t at, int32_t step, uint32_t mask)
    {
        if (mask == (uint32_t)ALL) { /* most waves */
            CKCI_K_UNROLL(32)
            for (int i = 0; i < WINDOW; i++) {
                to[i].load(src + (uint32_t)(at + i * step));
            }
            return;
        }
        CKCI_K_UNROLL(32)
        for (int i = 0; i < WINDOW; i++) {
            to[i].clear();
            if (mask >> i & 1) {
                to[i].load(src + (uint32_t)(at + i * step));
            }
        }
    }

    /* A row of inputs by row r of the taps, added to sums, or (FIRST) in their place. f or w: the weights. */
    template <bool FIRST>
    static CKCI_K_MEMBER void add(T *c, const T *v, const T *f, const T *w, int32_t channels, int r)
    {
        CKCI_K_UNROLL(8)
        for (int x = 0; x < 3; x++) {
            T one[V];
            if constexpr (!HELD) {
                ckci_k_spread<T, V>(w + (r * 3 + x) * channels, one);
            }
            CKCI_K_UNROLL(32)
            for (int i = 0; i < SUMS; i++) {
                const T before = FIRST && x == 0 ? (T)0 : c[i];
                const T weight = HELD ? f[(r * 3 + x) * V + i % V] : one[i % V];
                c[i] = ckci_k_fma(v[(i / V * STRIDE + x) * V + i % V], weight, before);
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        const int32_t t = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x;
        const int32_t slot = ckci_k_divide(t, p.by_lanes_c), lane = t - slot * p.lanes_c;
        const int32_t part = ckci_k_divide(block, p.by_tiles_c), tile = block - part * p.tiles_c;
        const int32_t channel = (tile * p.lanes_c + lane) * V;
        /* columns: strips, pieces of y, z, n */
        const int32_t own = part * p.lanes_p + slot, line = ckci_k_divide(own, p.by_strips);
        const int32_t image = ckci_k_divide(line, p.by_tiles_x);
        ckci_k_place q;
        q.n = ckci_k_divide(image, p.dim[0].count[0]);
        q.z = image - q.n * p.dim[0].length;
        q.y = (line - image * p.tiles_x) * p.walk;
        q.x = (own - line * p.strips) * XO;
        const bool active = slot < p.lanes_p && channel < p.g && q.n < p.n;
        const int32_t rest = p.dim[1].length - q.y, rows = rest < p.walk ? rest : p.walk;
        const bool back = p.dim[2].gather_back != 0; /* the last tap reads the first input */
        const int32_t x = q.x * STRIDE + (back ? p.dim[2].pad - 2 : -p.dim[2].pad);
        const int32_t top = q.y * STRIDE + (back ? p.dim[1].pad - 2 : -p.dim[1].pad);
        const int32_t low = top < 0 ? 0 : top, high = top + (rows - 1) * STRIDE + 3;
        const int32_t end = high < p.dim[1].read_len ? high : p.dim[1].read_len;
        const uint32_t mask = active ? ckci_k_depth_inside(x, p.dim[2].read_len, WINDOW) : 0;
        const int32_t step = (int32_t)p.a.stride[5] * (int32_t)S::SIZE;
        const int32_t a_row = (int32_t)p.a.stride[4] * (int32_t)S::SIZE;
        int32_t y = top - (STRIDE - 1); /* with stride 2, the first step has one row */
        const ckci_k_place first = {q.n, q.z * p.dim[0].read_step, y, x};
        int32_t at = ckci_k_depth_at<S>(p.a, channel, first);
        vec raw[2][WINDOW];
        CKCI_K_UNROLL(2)
        for (int r = 0; r < 2; r++) {
            load(raw[r], p.a.p, at + r * a_row, step, y + r >= low && y + r < end ? mask : 0);
        }
        ckci_k_depth_walk_by<S, V, XO, 3, false, false>::stage(p, m.w, tile);
        __syncthreads();
        if (!active) {
            return;
        }
        const int32_t channels = p.lanes_c * V;
        T f[HELD ? 9 * V : 1], c[2 / STRIDE][SUMS];
        CKCI_K_UNROLL(16)
        for (int k = 0; k < (HELD ? 9 : 0); k++) {
            ckci_k_spread<T, V>(m.w + k * channels + lane * V, f + k * V);
        }
        CKCI_K_UNROLL(64)
        for (int k = 0; k < 2 / STRIDE * SUMS; k++) {
            c[k / SUMS][k % SUMS] = 0;
        }
        int32_t to = ckci_k_depth_at<S>(p.o.t, channel, q);
        CKCI_K_UNROLL(1)
        for (int32_t done = -2 / STRIDE; done < rows; done += 2 / STRIDE) {
            const T *w = m.w + ckci_k_lane_afresh(lane * V); /* registers do not hold them all */
            y += 2;
            at += 2 * a_row;
            CKCI_K_UNROLL(2)
            for (int r = 0; r < 2; r++) {
                T v[WINDOW * V];
                ckci_k_depth_widen<WINDOW>(raw[r], v, p.bf16);
                load(raw[r], p.a.p, at + r * a_row, step, y + r >= low && y + r < end ? mask : 0);
                T *sums = c[STRIDE == 1 ? r : 0], *next = c[STRIDE == 1 ? 1 - r : 0];
                const int tap = STRIDE == 1 || r == 1 ? 2 : 1; /* of the output row that is farthest */
                add<false>(sums, v, f, w, channels, tap);
                if (STRIDE == 2 && r == 0) {
                    continue;
                }
                const int32_t row = done + (STRIDE == 1 ? r : 0);
                if (row >= 0 && row < rows) {
                    ckci_k_depth_row_write<S, V, XO, false>(p, sums, to, channel,
                                                            ckci_k_lane_afresh(p.dim[2].length - q.x), [&] {
                                                                ckci_k_place written = q;
                                                                written.y += row;
                                                                return written;
                                                            });
                    to += (int32_t)ckci_k_late(p).o.t.stride[4] * (int32_t)S::SIZE;
                }
                add<true>(sums, v, f, w, channels, 0);
                if (STRIDE == 1) {
                    add<false>(next, v, f, w, channels, 1);
                }
            }
        }
    }
};

template <class S, int V, int XO, int STRIDE> struct ckci_k_resident<ckci_k_depth_column<S, V, XO, STRIDE>> {
    enum { BLOCKS = 2 };
};

/* Rows of a tensor, channels last, on their way into LDS: some channels, in words of 4 bytes, of positions
   that lie beside each other (or in a plane), at most BYTES together, R rows at a time. NVIDIA's copies do
   not wait (ASYNC): STAGES - 1 times R rows are under way; AMD's pass through registers while the row before
   is taken, and ALONE: LDS has room for one. What lies outside the tensor is 0. A thread knows where its
   pieces lie if they have at least LEAST bytes, and works out others each time. */
template <int R, bool ASYNC, int BYTES = CKCI_DEPTH_DOWN_BYTES, int LEAST = 16, bool ALONE = false>
struct ckci_k_depth_rows {
    enum { STAGES = ASYNC ? 4 : 2, ROW = BYTES, STAGE = R * ROW, KEPT = ROW / 256 / LEAST };
    enum { LAST = ALONE ? 0 : (STAGES - 1) * STAGE }; /* the last stage in LDS */
    static_assert(!ASYNC || !ALONE, "copies on their way have their places");

    struct lds {
        alignas(16) unsigned char stage[LAST + STAGE];
        int32_t at[CKCI_DEPTH_DOWN_POSITIONS]; /* bytes from row to position; < 0: outside */
    };

    int32_t write;       /* the stage that comes next */
    int32_t piece[KEPT]; /* bytes from row; < 0: outside; NONE: there is none */
    uint32_t held[ASYNC ? 1 : ROW / 256 / 4];
    enum { NONE = INT32_MIN };

    /* Piece i of a thread. inside: bytes of channels that exist. */
    static CKCI_K_MEMBER int32_t find(const lds &m, const ckci_gpu_depth &p, int32_t vec, int32_t count,
                                      int32_t inside, int32_t i)
    {
        const int32_t e = ckci_k_lane_afresh((int32_t)threadIdx.x + i * 256),
                      q = ckci_k_divide(e, p.by_pieces);
        if (e >= count) {
            return NONE;
        }
        const int32_t byte = (e - q * (int32_t)p.by_pieces.d) * vec, at = m.at[q];
        return at >= 0 && byte < inside ? at + byte : -1;
    }

    /* `at` is written. */
    CKCI_K_MEMBER void start(const lds &m, const ckci_gpu_depth &p, int32_t vec, int32_t count,
                             int32_t inside)
    {
        static_assert(KEPT >= 2, "what others are worked out from");
        write = 0;
        CKCI_K_UNROLL(16)
        for (int i = 0; i < KEPT; i++) {
            piece[i] = vec >= LEAST ? find(m, p, vec, count, inside, i) : i == 0 ? inside : count;
        }
    }

    /* Pieces of B bytes: i of 256 threads each. from: of row 0. */
    template <int B>
    CKCI_K_MEMBER void pieces(lds &m, const ckci_gpu_depth &p, const unsigned char *from, int32_t step,
                              int32_t length, int32_t y)
    {
        constexpr int COUNT = ROW / 256 / B;
        CKCI_K_UNROLL(32)
        for (int i = 0; i < COUNT; i++) {
            const int32_t at =
                B >= LEAST ? ckci_k_lane_afresh(piece[i % KEPT]) : find(m, p, B, piece[1], piece[0], i);
            if (ASYNC && at == NONE) {
                break;
            }
            CKCI_K_UNROLL(2)
            for (int r = 0; r < R; r++) {
                const bool some = at >= 0 && (uint32_t)(y + r) < (uint32_t)length;
                const unsigned char *src = from + (uint32_t)(some ? (y + r) * step + at : 0);
                if constexpr (ASYNC) { /* even a copy of nothing has an address */
                    ckci_k_copy_late<B>(m.stage + write + r * ROW + ((int)threadIdx.x + i * 256) * B, src,
                                        some);
                } else {
                    static_assert(R == 1, "registers hold one row");
                    ckci_k_uint4 v = {0, 0, 0, 0};
                    if (some) {
                        if constexpr (B == 16) {
                            v = *(const ckci_k_uint4 *)src;
                        } else if constexpr (B == 8) {
                            const ckci_k_uint2 two = *(const ckci_k_uint2 *)src;
                            v.x = two.x;
                            v.y = two.y;
                        } else {
                            v.x = ckci_k_load_bits(src, B);
                        }
                    }
                    if constexpr (B == 2) {
                        held[i / 2] = i % 2 ? held[i / 2] | v.x << 16 : v.x;
                    } else {
                        const uint32_t words[4] = {v.x, v.y, v.z, v.w};
                        CKCI_K_UNROLL(4)
                        for (int k = 0; k < B / 4; k++) {
                            held[i * (B / 4) + k] = words[k];
                        }
                    }
                }
            }
        }
    }

    /* The same with ASYNC, of less than LEAST bytes each: rarer, and so in little code. */
    CKCI_K_MEMBER void small_pieces(lds &m, const ckci_gpu_depth &p, const unsigned char *from, int32_t step,
                                    int32_t length, int32_t y, int32_t vec)
    {
        unsigned char *to = m.stage + write + (int)threadIdx.x * vec;
        CKCI_K_UNROLL(1)
        for (int32_t i = 0;; i += 2) {
            const int32_t at[2] = {find(m, p, vec, piece[1], piece[0], i),
                                   find(m, p, vec, piece[1], piece[0], i + 1)};
            CKCI_K_UNROLL(2)
            for (int k = 0; k < 2; k++) {
                if (at[k] == NONE) {
                    return;
                }
                CKCI_K_UNROLL(2)
                for (int r = 0; r < R; r++) {
                    const bool some = at[k] >= 0 && (uint32_t)(y + r) < (uint32_t)length;
                    const unsigned char *src = from + (uint32_t)(some ? (y + r) * step + at[k] : 0);
                    if (LEAST > 8 && vec == 8) {
                        ckci_k_copy_late<8>(to + r * ROW, src, some);
                    } else if (vec == 4) {
                        ckci_k_copy_late<4>(to + r * ROW, src, some);
                    } else {
                        *(uint16_t *)(to + r * ROW) = some ? *(const uint16_t *)src : (uint16_t)0;
                    }
                }
                to += 256 * vec;
            }
        }
    }

    /* What pieces has read, into LDS. */
    template <int B> CKCI_K_MEMBER void land(lds &m)
    {
        const int32_t t = (int32_t)threadIdx.x;
        unsigned char *to = m.stage + write + t * B;
        CKCI_K_UNROLL(32)
        for (int i = 0; i < ROW / 256 / B; i++) {
            if constexpr (B == 16) {
                const ckci_k_uint4 v = {held[4 * i], held[4 * i + 1], held[4 * i + 2], held[4 * i + 3]};
                *(ckci_k_uint4 *)(to + i * 256 * B) = v;
            } else if constexpr (B == 8) {
                const ckci_k_uint2 v = {held[2 * i], held[2 * i + 1]};
                *(ckci_k_uint2 *)(to + i * 256 * B) = v;
            } else if constexpr (B == 4) {
                *(uint32_t *)(to + i * 256 * B) = held[i];
            } else {
                *(uint16_t *)(to + i * 256 * B) = (uint16_t)(held[i / 2] >> 16 * (i % 2));
            }
        }
    }

    /* Rows y and, with R, the next set out, of `length`, `step` bytes apart, in pieces of `vec` bytes.
       commit() follows. */
    CKCI_K_MEMBER void push(lds &m, const ckci_gpu_depth &p, const unsigned char *from, int32_t step,
                            int32_t length, int32_t y, bool wanted, int32_t vec)
    {
        if (wanted) {
            if (vec == 16) {
                pieces<16>(m, p, from, step, length, y);
            } else if ((!ASYNC || LEAST <= 8) && vec == 8) {
                pieces<8>(m, p, from, step, length, y);
            } else if constexpr (ASYNC) {
                small_pieces(m, p, from, step, length, y, vec);
            } else if (vec == 4) {
                pieces<4>(m, p, from, step, length, y);
            } else {
                pieces<2>(m, p, from, step, length, y);
            }
        }
        if constexpr (ASYNC) {
            write = write == LAST ? 0 : write + STAGE;
        }
    }

    /* What set out first goes on into LDS. arrive() follows. ALONE: when all threads are through with what
       is there. */
    CKCI_K_MEMBER void settle(lds &m, int32_t vec)
    {
        if constexpr (!ASYNC) {
            if (vec == 16) {
                land<16>(m);
            } else if (vec == 8) {
                land<8>(m);
            } else if (vec == 4) {
                land<4>(m);
            } else {
                land<2>(m);
            }
            write = write == LAST ? 0 : write + STAGE;
        }
    }

    static CKCI_K_MEMBER void commit()
    {
        if constexpr (ASYNC) {
            ckci_k_copies_end();
        }
    }

    /* It is there for all threads, who have left the stage that comes next. */
    static CKCI_K_MEMBER void arrive()
    {
        if constexpr (ASYNC) {
            ckci_k_copies_wait<STAGES - 2>();
        }
        __syncthreads();
    }
};

/* Which strip of a block a thread takes, and (lane) which channels; lanes_p: none. WHOLE (AMD): 32 threads,
   whose loads from LDS are one access, have a stretch of one strip where there is one, and what remains of
   all strips comes last. */
template <bool WHOLE> CKCI_K_FN int32_t ckci_k_depth_slot(const ckci_gpu_depth &p, int32_t t, int32_t &lane)
{
    if constexpr (WHOLE) {
        const int32_t high = ckci_k_divide(t, p.by_whole), u = t - p.whole, low = ckci_k_divide(u, p.by_rest);
        const int32_t before = t - high * (int32_t)p.by_whole.d;
        const int32_t after = u - low * (int32_t)p.by_rest.d + (int32_t)p.by_whole.d;
        lane = u < 0 ? before : after;
        return lane >= p.lanes_c ? p.lanes_p : u < 0 ? high : low;
    }
    const int32_t slot = ckci_k_divide(t, p.by_lanes_c);
    lane = t - slot * p.lanes_c;
    return slot;
}

/* Where a block stands in a column, and a thread in it. */
struct ckci_k_depth_stand {
    int32_t channel, y, rows; /* of the block: the first channel and row, rows to come */
    int32_t before, before_x; /* its first position: in which image, which of its padded row */
    int32_t at, lane;         /* position of the thread in LDS, its channels */
    int32_t twice;            /* outputs that the strip before has, too */
    ckci_k_place first;       /* its first output */
    bool active;
};

template <int V, int XO, bool WHOLE, bool STRETCHES>
CKCI_K_FN ckci_k_depth_stand ckci_k_depth_find(const ckci_gpu_depth &args, int32_t t, int32_t block,
                                               int32_t row, int32_t end)
{
    const ckci_gpu_depth &p = ckci_k_late(args);
    ckci_k_depth_stand a;
    const int32_t team = ckci_k_divide(block, p.by_tiles_c);
    const int32_t group = ckci_k_divide(row, p.dim[1].count[0]);
    int32_t slot, lane = 0;
    if constexpr (STRETCHES) {
        slot = ckci_k_depth_slot<true>(p, t, lane);
    } else { /* NVIDIA */
        slot = ckci_k_divide(t, p.by_lanes_c);
    }
    a.channel = (block - team * p.tiles_c) * p.lanes_c * V;
    a.y = row - group * p.dim[1].length;
    a.rows = p.dim[1].length - a.y < end - row ? p.dim[1].length - a.y : end - row;
    const int32_t pair = group * p.lanes_p, mine = pair + slot;
    a.before = ckci_k_divide(pair, p.by_strips);
    a.before_x = (pair - a.before * p.strips) * XO;
    const int32_t last = WHOLE ? p.dim[2].length - XO : a.before_x;
    a.before_x = a.before_x < last ? a.before_x : last;
    const int32_t image = ckci_k_divide(mine, p.by_strips), strip = (mine - image * p.strips) * XO;
    const int32_t x = WHOLE && strip > last ? last : strip;
    a.twice = strip - x;
    const int32_t n = ckci_k_divide(image, p.dim[0].count[0]);
    a.first = {n, image - n * p.dim[0].length, a.y, x};
    a.active = slot < p.lanes_p && n < p.n && x < p.dim[2].length &&
               a.channel + (STRETCHES ? lane : t - slot * p.lanes_c) * V < p.g;
    a.lane = STRETCHES ? lane : t - slot * p.lanes_c;
    a.at = a.active ? (image - a.before) * p.pitch + x - a.before_x : 0;
    return a;
}

/* Bytes from a row of t to the positions of a block: places of padded rows, `pad` before the first; `length`
   exist, planes are `step` apart. */
template <class S>
CKCI_K_FN void ckci_k_depth_positions(const ckci_gpu_depth &p, const ckci_tensor &t, int32_t *at,
                                      const ckci_k_depth_stand &own, int32_t pad, int32_t length,
                                      int32_t step, int32_t i)
{
    if (i < CKCI_DEPTH_DOWN_POSITIONS) {
        const int32_t image = ckci_k_divide(own.before_x + i, p.by_pitch), one = own.before + image;
        const int32_t x = own.before_x + i - image * p.pitch - pad;
        const int32_t n = ckci_k_divide(one, p.dim[0].count[0]), z = (one - n * p.dim[0].length) * step;
        const ckci_k_place q = {n, z, 0, x};
        at[i] = n < p.n && (uint32_t)x < (uint32_t)length ? ckci_k_depth_at<S>(t, own.channel, q) : -1;
    }
}

/* N words of LDS, `pitch` bytes apart, as numbers; the first `none` of them count as 0. */
template <int N, class S, int V>
CKCI_K_FN void ckci_k_depth_line(const unsigned char *from, int32_t pitch, int32_t none, typename S::T *v,
                                 int32_t bf16)
{
    ckci_k_vec<S, V> raw[N];
    CKCI_K_UNROLL(16)
    for (int i = 0; i < N; i++) {
        raw[i].load(from + ckci_k_afresh(i * pitch)); /* else a product of each lane, slow on AMD */
    }
    if (none > 0) {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < N; i++) {
            raw[i].w[0] = i < none ? 0 : raw[i].w[0];
        }
    }
    ckci_k_depth_widen<N>(raw, v, bf16);
}

/* LDS of rows and N weights; SHARED: the same for both, one after the other. */
template <class Rows, class T, int N, bool SHARED> struct ckci_k_depth_taps_beside {
    Rows rows;
    alignas(16) T w[N];
};

template <class Rows, class T, int N> struct ckci_k_depth_taps_beside<Rows, T, N, true> {
    union {
        Rows rows;
        alignas(16) T w[N];
    };
};

/* fwd, bwd_data with stride and dilation 1, channels last, filters of F x F in a plane. A block walks down a
   column of rows: lanes_c words of 4 bytes of channels, V = 4 / SIZE each, beside each other, and `lanes_p`
   strips of XO outputs, which follow each other through the same row of one image and the next. Inputs come
   row by row through LDS, a position beside the other, and one copy serves all threads. Each row is added to
   the F rows of outputs that it belongs to: those lie in registers and move up a row with the first tap.
   Weights are in registers (F = 3) or in LDS, as they are multiplied. All blocks own the same number of rows
   (walk), which go on in the next column; F - 1 rows more are read for each column that a block begins.
   Neighbouring blocks take neighbouring channels of the same rows, so that lines of memory are read and
   written together. */
template <class S, int F, int XO, bool ASYNC> struct ckci_k_depth_down_by {
    typedef typename S::T T;
    enum {
        V = 4 / S::SIZE,
        FREE = !ASYNC && CKCI_DEPTH_DOWN_FREE(S::SIZE, F), /* LDS has weights until rows come */
        LANES = FREE ? 128 : CKCI_DEPTH_DOWN_LANES(F),
        WINDOW = XO + F - 1,
        HELD = F == 3 || FREE,
        R = HELD && ASYNC ? 2 : 1
    };
    typedef ckci_k_depth_rows<R, ASYNC, FREE ? +CKCI_DEPTH_DOWN_MORE : +CKCI_DEPTH_DOWN_BYTES> source;

    typedef ckci_k_depth_taps_beside<typename source::lds, T, F * F * LANES * V, FREE> lds;

    static CKCI_K_MEMBER void stage(const ckci_gpu_depth &args, T *to, int32_t channel)
    {
        const ckci_gpu_depth &p = ckci_k_late(args);
        ckci_k_depth_taps w = ckci_k_depth_find_taps<1, F, LANES * V>(p, p.dim[2].gather_back != 0);
        w.first = channel;
        w.used = p.lanes_c * V;
        w.limit = p.g;
        if constexpr (ASYNC || LANES * V < 64) {
            ckci_k_depth_stage<T, false, 256>(w, to, F * F * LANES * V);
        } else {
            ckci_k_depth_stage_waves<T, 1, F, LANES * V>(w, to);
        }
    }

    /* Weights of a thread, into registers. */
    static CKCI_K_MEMBER void hold(T *f, const T *w)
    {
        CKCI_K_UNROLL(64)
        for (int i = 0; i < F * F; i++) {
            ckci_k_spread<T, V>(w + i * LANES * V, f + i * V);
        }
    }

    /* A row of inputs into all rows of sums, which the first tap moves up. f or w: the weights. */
    static CKCI_K_MEMBER void multiply(T *c, const unsigned char *from, int32_t pitch, const T *f, const T *w,
                                       int32_t bf16)
    {
        T v[WINDOW * V];
        ckci_k_depth_line<WINDOW, S, V>(from, pitch, 0, v, bf16);
        CKCI_K_UNROLL(8)
        for (int s = 0; s < F; s++) {
            CKCI_K_UNROLL(8)
            for (int x = 0; x < F; x++) {
                const int tap = (F - 1 - s) * F + x;
                T one[V];
                ckci_k_spread<T, V>(HELD ? f + tap * V : w + tap * LANES * V, one);
                CKCI_K_UNROLL(32)
                for (int i = 0; i < XO * V; i++) {
                    T before = c[s * XO * V + i];
                    if (x == 0) {
                        before = s + 1 < F ? c[(s + 1) * XO * V + i] : (T)0;
                    }
                    c[s * XO * V + i] = ckci_k_fma(v[x * V + i], one[i % V], before);
                }
            }
        }
    }

    /* Rows from..end of all columns, of one column. */
    static CKCI_K_MEMBER int32_t column(const ckci_gpu_depth &args, lds &m, T *f, int32_t from,
                                        int32_t to_row)
    {
        const int32_t t = (int32_t)threadIdx.x;
        const ckci_gpu_depth &p = ckci_k_late(args); /* scalar registers hold no more, here and below */
        const ckci_k_depth_stand own =
            ckci_k_depth_find<V, XO, false, !ASYNC>(p, t, (int32_t)blockIdx.x, from, to_row);
        const int32_t lane = own.lane, channel = own.channel + lane * V;
        const bool back = p.dim[2].gather_back != 0, active = own.active;
        const int32_t pad_x = back ? F - 1 - p.dim[2].pad : p.dim[2].pad;
        const int32_t pad_y = back ? F - 1 - p.dim[1].pad : p.dim[1].pad;
        __syncthreads(); /* the column before */
        ckci_k_depth_positions<S>(p, p.a, m.rows.at, own, pad_x, p.dim[2].read_len, p.dim[0].read_step, t);
        __syncthreads();
        source next;
        next.start(m.rows, ckci_k_late(p), p.a_vec, p.pieces, (p.g - own.channel) * (int32_t)S::SIZE);
        const int32_t pitch = p.lanes_c * 4;
        const int32_t a_step = (int32_t)p.a.stride[4] * (int32_t)S::SIZE;
        int32_t to = ckci_k_depth_at<S>(p.o.t, channel, own.first);
        const int32_t left = p.dim[2].length - own.first.x;
        /* rows above the image add nothing */
        const int32_t top = own.y - pad_y, end = top + own.rows + F - 1;
        int32_t y = top < 0 ? 0 : top;
        CKCI_K_UNROLL(1)
        for (int i = 0; i < source::STAGES - 1; i++) {
            const ckci_gpu_depth &late = ckci_k_late(p);
            next.push(m.rows, late, late.a.p, a_step, late.dim[1].read_len, y + i * R, y + i * R < end,
                      late.a_vec);
            source::commit();
        }
        T c[F * XO * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * XO * V; i++) {
            c[i] = 0;
        }
        if constexpr (HELD && !FREE) {
            hold(f, m.w + lane * V);
        }
        const unsigned char *mine = m.rows.stage + own.at * pitch + lane * 4;
        int32_t read = 0;
        CKCI_K_UNROLL(1)
        for (; y < end; y += R) {
            const ckci_gpu_depth &late = ckci_k_late(p);
            const int32_t ahead = y + (source::STAGES - 1) * R;
            next.settle(m.rows, late.a_vec);
            source::arrive();
            next.push(m.rows, late, late.a.p, a_step, late.dim[1].read_len, ahead, ahead < end, late.a_vec);
            source::commit();
            if (active) {
                CKCI_K_UNROLL(2)
                for (int r = 0; r < R; r++) {
                    multiply(c, mine + read + r * source::ROW, pitch, f, HELD ? f : m.w + lane * V,
                             late.bf16);
                    if (y + r - top >= F - 1 && y + r < end) {
                        auto where = [&] {
                            ckci_k_place q =
                                ckci_k_depth_find<V, XO, false, !ASYNC>(
                                    late, ckci_k_again((int32_t)threadIdx.x),
                                    ckci_k_again((int32_t)blockIdx.x), ckci_k_again(from), to_row)
                                    .first;
                            q.y += y + r - top - (F - 1);
                            return q;
                        };
                        ckci_k_depth_row_write<S, V, XO, false>(late, c, to, channel, left, where);
                        to += (int32_t)late.o.t.stride[4] * (int32_t)S::SIZE;
                    }
                }
            }
            read = read == source::LAST ? 0 : read + source::STAGE;
        }
        return from + own.rows;
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        const int32_t part = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c), first = part * p.walk;
        const int32_t end = p.all - first < p.walk ? p.all : first + p.walk;
        stage(p, m.w, ((int32_t)blockIdx.x - part * p.tiles_c) * p.lanes_c * V);
        T f[HELD ? F * F * V : 1];
        if constexpr (FREE) {
            int32_t lane;
            (void)ckci_k_depth_slot<!ASYNC>(p, (int32_t)threadIdx.x, lane);
            __syncthreads();
            hold(f, m.w + lane * V);
        }
        CKCI_K_UNROLL(1)
        for (int32_t row = first; row < end;) {
            row = column(ckci_k_late(p), m, f, row, end);
        }
    }
};

template <class S, int F, int XO = CKCI_DEPTH_DOWN_STRIP(S::SIZE, F, 0)>
struct ckci_k_depth_down
    : ckci_k_by_vendor<ckci_k_depth_down_by<S, F, XO, true>, ckci_k_depth_down_by<S, F, XO, false>> {
};

template <class S, int F, int XO> struct ckci_k_resident<ckci_k_depth_down<S, F, XO>> {
    enum { BLOCKS = 2 };
};

/* Where a block stands that walks along dimension 0, and a thread in it. */
struct ckci_k_depth_spot {
    int32_t n, z, y, x, rows; /* its first output, rows to come: positions along dimension 0 */
    int32_t row, strip, lane; /* of the thread, in the tile */
    bool active;
};

template <int XO, bool STRETCHES>
CKCI_K_FN ckci_k_depth_spot ckci_k_depth_find_tile(const ckci_gpu_depth &args, int32_t t, int32_t piece)
{
    const ckci_gpu_depth &p = ckci_k_late(args);
    ckci_k_depth_spot a;
    const int32_t row = ckci_k_divide(piece, p.by_tiles_x), plane = ckci_k_divide(row, p.by_tiles_y);
    a.n = ckci_k_divide(plane, p.by_tiles_z);
    a.z = (plane - a.n * p.tiles_z) * p.walk;
    a.y = (row - plane * p.tiles_y) * p.tile_y;
    a.x = (piece - row * p.tiles_x) * p.strips * XO;
    a.rows = p.dim[0].length - a.z < p.walk ? p.dim[0].length - a.z : p.walk;
    const int32_t slot = ckci_k_depth_slot<STRETCHES>(p, t, a.lane);
    a.row = ckci_k_divide(slot, p.by_strips);
    a.strip = slot - a.row * p.strips;
    a.active = slot < p.lanes_p && a.y + a.row < p.dim[1].length && a.x + a.strip * XO < p.dim[2].length;
    return a;
}

/* Bytes from plane 0 of t to position i of a tile, `wide` positions to a row, which begins at y, x. */
template <class S>
CKCI_K_FN int32_t ckci_k_depth_in_tile(const ckci_tensor &t, ckci_divisor wide, int32_t channel, int32_t n,
                                       int32_t y, int32_t x, const int32_t *length, int32_t i)
{
    const int32_t row = ckci_k_divide(i, wide);
    const ckci_k_place q = {n, 0, y + row, x + i - row * (int32_t)wide.d};
    const bool inside = (uint32_t)q.y < (uint32_t)length[0] && (uint32_t)q.x < (uint32_t)length[1];
    return inside ? ckci_k_depth_at<S>(t, channel, q) : -1;
}

/* Planes on their way into LDS. */
template <class S, bool ASYNC>
using ckci_k_depth_deep_source =
    ckci_k_depth_rows<1, ASYNC, ASYNC ? +CKCI_DEPTH_DEEP_BYTES : CKCI_DEPTH_DEEP_ALONE(S::SIZE),
                      ASYNC ? 8 : 4, !ASYNC>;

/* fwd, bwd_data of 3 x 3 x 3 with stride and dilation 1, channels last: as ckci_k_depth_down, but along
   dimension 0. A block owns a tile of a plane, tile_y rows of `strips` strips of XO outputs, and lanes_c
   words of channels, and walks `walk` planes. The tile of inputs, with its border, comes through LDS plane
   by plane; each thread adds its three rows of windows to the three planes of outputs that they belong to:
   those lie in registers and move up a plane with the first tap. Weights are in LDS. Neighbouring blocks take
   neighbouring channels, then neighbouring tiles of the same planes, so that borders come from the caches. */
template <class S, bool ASYNC> struct ckci_k_depth_deep_by {
    typedef typename S::T T;
    enum { F = 3, V = 4 / S::SIZE, XO = CKCI_DEPTH_DEEP_STRIP(S::SIZE, 0), WINDOW = XO + F - 1 };
    enum { LANES = ASYNC ? +CKCI_DEPTH_DEEP_LANES : CKCI_DEPTH_DEEP_MOST(S::SIZE) };
    typedef ckci_k_depth_deep_source<S, ASYNC> source;

    struct lds {
        typename source::lds rows;
        alignas(16) T w[F * F * F * LANES * V];
    };

    static CKCI_K_MEMBER void stage(const ckci_gpu_depth &args, T *to, int32_t channel)
    {
        const ckci_gpu_depth &p = ckci_k_late(args);
        ckci_k_depth_taps w = ckci_k_depth_find_taps<F, F, LANES * V>(p, p.dim[2].gather_back != 0);
        w.first = channel;
        w.used = p.lanes_c * V;
        w.limit = p.g;
        if constexpr (ASYNC) {
            ckci_k_depth_stage<T, false, 256>(w, to, F * F * F * LANES * V);
        } else {
            ckci_k_depth_stage_waves<T, F, F, LANES * V>(w, to);
        }
    }

    /* Three rows of inputs, `rows` bytes apart, into all planes of sums, which the first tap moves up. */
    static CKCI_K_MEMBER void multiply(T *c, const unsigned char *from, int32_t pitch, int32_t rows,
                                       const T *w, int32_t bf16)
    {
        CKCI_K_UNROLL(4)
        for (int y = 0; y < F; y++) {
            T v[WINDOW * V];
            ckci_k_depth_line<WINDOW, S, V>(from + y * rows, pitch, 0, v, bf16);
            CKCI_K_UNROLL(4)
            for (int s = 0; s < F; s++) {
                CKCI_K_UNROLL(4)
                for (int x = 0; x < F; x++) {
                    T one[V];
                    ckci_k_spread<T, V>(w + (((F - 1 - s) * F + y) * F + x) * LANES * V, one);
                    CKCI_K_UNROLL(32)
                    for (int i = 0; i < XO * V; i++) {
                        T before = c[s * XO * V + i];
                        if (y == 0 && x == 0) {
                            before = s + 1 < F ? c[(s + 1) * XO * V + i] : (T)0;
                        }
                        c[s * XO * V + i] = ckci_k_fma(v[x * V + i], one[i % V], before);
                    }
                }
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &args, lds &m)
    {
        const ckci_gpu_depth &p = ckci_k_late(args); /* scalar registers hold no more, here and below */
        const int32_t t = (int32_t)threadIdx.x, piece = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c);
        const int32_t base = ((int32_t)blockIdx.x - piece * p.tiles_c) * p.lanes_c * V;
        const bool back = p.dim[2].gather_back != 0;
        const ckci_k_depth_spot own = ckci_k_depth_find_tile<XO, !ASYNC>(p, t, piece);
        const int32_t channel = base + own.lane * V;
        const bool active = own.active && channel < p.g;
        stage(p, m.w, base);
        if (t < CKCI_DEPTH_DOWN_POSITIONS) {
            const int32_t length[2] = {p.dim[1].read_len, p.dim[2].read_len};
            m.rows.at[t] = ckci_k_depth_in_tile<S>(
                p.a, p.by_pitch, base, own.n, own.y - (back ? F - 1 - p.dim[1].pad : p.dim[1].pad),
                own.x - (back ? F - 1 - p.dim[2].pad : p.dim[2].pad), length, t);
        }
        __syncthreads();
        source next;
        next.start(m.rows, ckci_k_late(p), p.a_vec, p.pieces, (p.g - base) * (int32_t)S::SIZE);
        const int32_t pitch = p.lanes_c * 4, rows = p.pitch * pitch;
        const int32_t a_step = (int32_t)p.a.stride[3] * (int32_t)S::SIZE;
        const ckci_k_place first = {own.n, own.z, own.y + own.row, own.x + own.strip * XO};
        int32_t to = ckci_k_depth_at<S>(p.o.t, channel, first);
        const int32_t left = p.dim[2].length - first.x;
        /* planes before the image add nothing */
        const int32_t top = own.z - (back ? F - 1 - p.dim[0].pad : p.dim[0].pad),
                      end = top + own.rows + F - 1;
        int32_t z = top < 0 ? 0 : top;
        CKCI_K_UNROLL(1)
        for (int i = 0; i < source::STAGES - 1; i++) {
            const ckci_gpu_depth &late = ckci_k_late(p);
            next.push(m.rows, late, late.a.p, a_step, late.dim[0].read_len, z + i, z + i < end, late.a_vec);
            source::commit();
        }
        T c[F * XO * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * XO * V; i++) {
            c[i] = 0;
        }
        const unsigned char *mine =
            m.rows.stage + (own.row * p.pitch + own.strip * XO) * pitch + own.lane * 4;
        const T *w = m.w + own.lane * V;
        int32_t read = 0;
        CKCI_K_UNROLL(1)
        for (; z < end; z++) {
            const ckci_gpu_depth &late = ckci_k_late(p);
            const int32_t ahead = z + source::STAGES - 1;
            if constexpr (!ASYNC) {
                __syncthreads(); /* the plane before */
            }
            next.settle(m.rows, late.a_vec);
            source::arrive();
            next.push(m.rows, late, late.a.p, a_step, late.dim[0].read_len, ahead, ahead < end, late.a_vec);
            source::commit();
            if (active) {
                multiply(c, mine + read, pitch, rows, w, late.bf16);
                if (z - top >= F - 1) {
                    auto where = [&] {
                        const ckci_k_depth_spot tile = ckci_k_depth_find_tile<XO, !ASYNC>(
                            late, ckci_k_again((int32_t)threadIdx.x),
                            ckci_k_divide(ckci_k_again((int32_t)blockIdx.x), ckci_k_late(late).by_tiles_c));
                        const ckci_k_place q = {tile.n, tile.z + z - top - (F - 1), tile.y + tile.row,
                                                tile.x + tile.strip * XO};
                        return q;
                    };
                    ckci_k_depth_row_write<S, V, XO, false>(late, c, to, channel, left, where);
                    to += (int32_t)late.o.t.stride[3] * (int32_t)S::SIZE;
                }
            }
            read = read == source::LAST ? 0 : read + source::STAGE;
        }
    }
};

template <class S>
struct ckci_k_depth_deep : ckci_k_by_vendor<ckci_k_depth_deep_by<S, true>, ckci_k_depth_deep_by<S, false>> {
};

template <class S> struct ckci_k_resident<ckci_k_depth_deep<S>> {
    enum { BLOCKS = 2 };
};

/* Where a weight's sum goes: into a part of the workspace, [part][tap][channel], or to its place as it is. */
template <class S, class T>
CKCI_K_FN void ckci_k_depth_put(const ckci_gpu_depth &p, T sum, int32_t part, int32_t tap, int32_t channel)
{
    if (p.o.partial) {
        ((T *)p.o.partial)[((int64_t)part * p.taps + tap) * p.g + channel] = sum;
        return;
    }
    const ckci_k_tap f = ckci_k_split_tap(p.dim, tap);
    int64_t at =
        channel * p.o.t.stride[0] + f.z * p.o.t.stride[3] + f.y * p.o.t.stride[4] + f.x * p.o.t.stride[5];
    if constexpr (S::SIZE == 8) {
        *(double *)(p.o.t.p + at * 8) = sum;
    } else {
        ckci_k_depth_store(p.o.t.dtype, p.o.t.p + at * (p.o.t.dtype == CKCONV_F32 ? 4 : 2), sum);
    }
}

/* A thread of bwd_weight: its place in the block and what it sums. */
struct ckci_k_depth_member {
    int32_t slot, lane, lane_u, channel, part, fz, fy, fx;
    bool active;
};

/* Room for the sums of as many of TAPS taps as are added at a time, [tap][channel of V][thread]. */
template <class T, int V, int TAPS, bool WHOLE = false> struct ckci_k_depth_sums {
    enum { MOST = 32 / (int)sizeof(T) / V, ROUND = TAPS < MOST ? TAPS : +MOST };
#if defined(__HIP_DEVICE_COMPILE__)
    enum { PITCH = WHOLE ? 264 : 256 + 31 }; /* WHOLE: as ckci_k_depth_slot has threads */
#else
    enum { PITCH = WHOLE ? 264 : 257 };
#endif
    T sum[ROUND * V * PITCH];

    /* From tap to tap; AMD: where members are `apart` apart those of a wave, who add one tap each, read
       different banks. */
    static CKCI_K_MEMBER int32_t pitch(int32_t apart)
    {
#if defined(__HIP_DEVICE_COMPILE__)
        return WHOLE ? (int32_t)PITCH : 256 + apart % 32;
#else
        (void)apart;
        return PITCH;
#endif
    }
};

/* The sums of a block, in a fixed order. Those of a tap and channel come from `others` threads, its members,
   who share the channels and taps of a round. Neighbouring threads stand beside each other in LDS: members
   of planes, else channels; BESIDE: members of one channel. WHOLE: they are sums of all taps of the filter;
   their places in the workspace are then worked out without products. */
template <class S, class T, int V, int R, int G, int Z = 1, bool WHOLE = false, bool BESIDE = false>
CKCI_K_FN void ckci_k_depth_fold(const ckci_gpu_depth &args, ckci_k_depth_sums<T, V, Z * R * G, WHOLE> &m,
                                 T *c, const ckci_k_depth_member &w, bool planes)
{
    const ckci_gpu_depth &p = ckci_k_late(args);
    enum { TAPS = Z * R * G, ROUND = ckci_k_depth_sums<T, V, TAPS>::ROUND };
    const int32_t others = (planes ? p.lanes_c : 1) * p.lanes_p;
    const int32_t member = planes ? w.slot * p.lanes_c + w.lane : w.slot;
    const int32_t apart = planes || BESIDE ? 1 : p.lanes_u * p.lanes_c; /* from member to member */
    const int32_t first = planes   ? w.lane_u * others
                          : BESIDE ? w.lane * others
                                   : w.lane_u * p.lanes_c + w.lane;
    const int32_t pitch = ckci_k_depth_sums<T, V, TAPS, WHOLE>::pitch(apart);
    const bool present = w.slot < p.lanes_p && w.lane_u < p.lanes_u;
    static_assert(!WHOLE || V <= 2, "steps of less than two channels");
    const int32_t start = WHOLE ? member / V * p.g + member % V + w.channel : 0;
    CKCI_K_UNROLL(1)
    for (int j = 0; j < TAPS; j += ROUND) {
        __syncthreads();
        if (present) {
            CKCI_K_UNROLL(32)
            for (int k = 0; k < ROUND * V; k++) {
                m.sum[k * pitch + first + member * apart] = c[k];
            }
        }
        __syncthreads();
        if constexpr (WHOLE) {
            if (p.o.partial) {
                T *to = (T *)p.o.partial + ((int64_t)w.part * TAPS + j) * p.g;
                const T *from = m.sum + member * pitch + first;
                const int32_t end = present && w.active ? (TAPS - j < +ROUND ? TAPS - j : +ROUND) * V : 0;
                const int32_t step = others / V * p.g + others % V;
                int32_t at = start;
                CKCI_K_UNROLL(1)
                for (int32_t q = member; q < end; q += others) {
                    T sum[4] = {0, 0, 0, 0};
                    CKCI_K_UNROLL(1)
                    for (int32_t i = 0; i < others; i += 4) {
                        CKCI_K_UNROLL(4)
                        for (int k = 0; k < 4; k++) {
                            sum[k] += i + k < others ? from[(i + k) * apart] : 0;
                        }
                    }
                    if (w.channel + q % V < p.g) {
                        to[at] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
                    }
                    at += step + (V == 2 && others % 2 != 0 && q % 2 != 0 ? p.g - 2 : 0);
                    from += others * pitch;
                }
            }
        }
        CKCI_K_UNROLL(1)
        for (int32_t q = member; present && w.active && !(WHOLE && p.o.partial) && q < ROUND * V;
             q += others) {
            const int32_t tap = j + q / V, row = tap / G, rz = Z == 1 ? 0 : row / R;
            const int32_t tx = w.fx + tap - row * G, ty = w.fy + row - rz * R;
            if (tap >= TAPS || (uint32_t)tx >= (uint32_t)p.dim[2].filter || ty >= p.dim[1].filter ||
                w.channel + q % V >= p.g) {
                continue;
            }
            const T *from = m.sum + q * pitch + first;
            T sum[4] = {0, 0, 0, 0};
            CKCI_K_UNROLL(1)
            for (int32_t i = 0; i < others; i += 4) {
                CKCI_K_UNROLL(4)
                for (int k = 0; k < 4; k++) {
                    sum[k] += i + k < others ? from[(i + k) * apart] : 0;
                }
            }
            ckci_k_depth_put<S, T>(p, (sum[0] + sum[1]) + (sum[2] + sum[3]), w.part,
                                   ((w.fz + rz) * p.dim[1].filter + ty) * p.dim[2].filter + tx,
                                   w.channel + q % V);
        }
        CKCI_K_UNROLL(128)
        for (int k = 0; k + ROUND * V < TAPS * V; k++) {
            c[k] = c[k + ROUND * V];
        }
    }
}

/* R rows of neighbouring y x G taps; STEP: the stride; 0: any stride and dilation, one tap. WALKS (where STEP
   is not 0): a thread goes down columns of p.walk rows of dout, and the last row of inputs that one meets is
   the first of the next one's, whose others are on their way meanwhile. */
template <class S, int V, int XO, int R, int G, int STEP, bool WALKS = false> struct ckci_k_depth_weight {
    typedef typename S::T T;
    typedef ckci_k_depth_sums<T, V, R * G> lds;
    enum { APART = STEP ? STEP : 1, WINDOW = (XO - 1) * APART + G };
    typedef ckci_k_vec<S, V> vec;
    /* One tap: sums may be long. The planner leaves the others no long ones. */
    enum { LONG = STEP == 0 };
    typedef typename ckci_k_either<LONG, ckci_k_long_sums<T, R * G * V>, ckci_k_short_sums>::type whole_sums;

    /* A row of inputs; whole: all of them exist. */
    static CKCI_K_MEMBER void load_whole(const ckci_gpu_depth &p, vec *to, const unsigned char *src,
                                         int32_t y, int32_t x, bool whole)
    {
        if (!whole) {
            load_row(p, to, src, y, x, 1);
        } else if ((uint32_t)y < (uint32_t)p.dim[1].read_len) {
            const int64_t bytes = p.b.stride[5] * S::SIZE;
            CKCI_K_UNROLL(32)
            for (int k = 0; k < WINDOW; k++) {
                to[k].load(src + k * bytes);
            }
        }
    }

    static CKCI_K_MEMBER void load_left(const ckci_gpu_depth &p, vec *to, const unsigned char *src,
                                        int32_t count)
    {
        const int64_t bytes = p.a.stride[5] * S::SIZE;
        CKCI_K_UNROLL(8)
        for (int k = 0; k < XO; k++) {
            to[k].clear();
            if (k < count) {
                to[k].load(src + k * bytes);
            }
        }
    }

    /* N positions of dout, of which `count` exist, and a row of inputs: to sums of G taps. */
    template <int N> static CKCI_K_MEMBER void add(T *c, const T *d, const T *v, int32_t count)
    {
        CKCI_K_UNROLL(8)
        for (int k = 0; k < N; k++) {
            if (k < count) { /* nothing may meet the 0 of a missing dout */
                CKCI_K_UNROLL(8)
                for (int j = 0; j < G; j++) {
                    CKCI_K_UNROLL(4)
                    for (int l = 0; l < V; l++) {
                        T &sum = c[j * V + l];
                        sum = ckci_k_fma(d[k * V + l], v[(k * APART + j) * V + l], sum);
                    }
                }
            }
        }
    }

    /* `rows` rows of dout from a on, whose windows begin at b, in_y and in_x. */
    static CKCI_K_MEMBER void walk(const ckci_gpu_depth &p, T *c, const unsigned char *a,
                                   const unsigned char *b, int32_t rows, int32_t in_y, int32_t in_x,
                                   int32_t count)
    {
        const int32_t down = p.dim[1].dilation, step = p.dim[1].stride, high = p.dim[1].read_len;
        const int64_t a_row = p.a.stride[4] * S::SIZE, b_row = p.b.stride[4] * S::SIZE;
        const bool whole = in_x >= 0 && in_x + WINDOW <= p.dim[2].read_len, joins = step == (R - 1) * down;
        vec left[XO], right[R - 1][WINDOW]; /* right: rows after the first */
        T first[WINDOW * V], d[XO * V];
        CKCI_K_UNROLL(1)
        for (int32_t y = -1; y < rows; y++) { /* loads of row y + 1, for which a, b and in_y stand */
            const bool now = y >= 0, more = y + 1 < rows;
            if (now) {
                ckci_k_depth_widen<XO>(left, d, p.bf16);
                if ((uint32_t)(in_y - step) < (uint32_t)high) {
                    add<XO>(c, d, first, count);
                }
            }
            if (more) {
                load_left(p, left, a, count);
            }
            CKCI_K_UNROLL(8)
            for (int r = 1; r < R; r++) {
                if (now) {
                    ckci_k_depth_widen<WINDOW>(right[r - 1], first, p.bf16);
                }
                if (more) {
                    load_whole(p, right[r - 1], b + r * down * b_row, in_y + r * down, in_x, whole);
                }
                if (now && (uint32_t)(in_y - step + r * down) < (uint32_t)high) {
                    add<XO>(c + r * G * V, d, first, count);
                }
            }
            if (more && (!now || !joins)) {
                vec row[WINDOW];
                load_row(p, row, b, in_y, in_x, 1);
                ckci_k_depth_widen<WINDOW>(row, first, p.bf16);
            }
            a += a_row;
            b += step * b_row;
            in_y += step;
        }
    }

    static CKCI_K_MEMBER void load_row(const ckci_gpu_depth &p, ckci_k_vec<S, V> *to,
                                       const unsigned char *src, int32_t y, int32_t x, int32_t step)
    {
        int64_t bytes = p.b.stride[5] * step * S::SIZE;
#if defined(__HIP_DEVICE_COMPILE__) && __clang_major__ < 16
        x = ckci_k_lane_afresh(x); /* else which x are inside is kept for all rows, in scalar registers */
#endif
        CKCI_K_UNROLL(32)
        for (int k = 0; k < WINDOW; k++) {
            to[k].clear();
            if ((uint32_t)y < (uint32_t)p.dim[1].read_len &&
                (uint32_t)(x + k * step) < (uint32_t)p.dim[2].read_len) {
                to[k].load(src + k * bytes);
            }
        }
    }

    /* One strip: all rows of taps. */
    static CKCI_K_MEMBER void strip(const ckci_gpu_depth &p, T *c, const unsigned char *a,
                                    const unsigned char *b, int32_t in_y, int32_t in_x, int32_t count)
    {
        const int32_t step = STEP ? 1 : p.dim[2].stride;
        const int64_t b_row = p.dim[1].dilation * p.b.stride[4] * S::SIZE;
        vec left[XO];
        load_left(p, left, a, count);
        constexpr int SOME = V == 1 ? XO : 4;
        constexpr bool TOGETHER = V > 1; /* rows are loaded before the first is taken */
        vec right[TOGETHER ? R : 1][WINDOW];
        CKCI_K_UNROLL(8)
        for (int r = 0; r < (TOGETHER ? R : 0); r++) {
            load_row(p, right[r], b + r * b_row, in_y + r * p.dim[1].dilation, in_x, step);
        }
        CKCI_K_UNROLL(8)
        for (int r = 0; r < R; r++) {
            if ((uint32_t)(in_y + r * p.dim[1].dilation) >= (uint32_t)p.dim[1].read_len) {
                continue;
            }
            if (!TOGETHER) {
                load_row(p, right[0], b + r * b_row, in_y + r * p.dim[1].dilation, in_x, step);
            }
            T v[WINDOW * V];
            ckci_k_depth_widen<WINDOW>(right[TOGETHER ? r : 0], v, p.bf16);
            CKCI_K_UNROLL(8)
            for (int q = 0; q < XO; q += SOME) {
                T d[SOME * V];
                ckci_k_depth_widen<SOME>(left + q, d, p.bf16);
                add<SOME>(c + r * G * V, d, v + q * APART * V, count - q);
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        bool planes = V == 1 && p.planes;
        int32_t t = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x;
        /* lanes fastest, then units (rows and groups of taps), then strips */
        int32_t rest = ckci_k_divide(t, p.by_lanes_c), lane = t - rest * p.lanes_c;
        int32_t slot = ckci_k_divide(rest, p.by_lanes_u), lane_u = rest - slot * p.lanes_u;
        int32_t up = ckci_k_divide(block, p.by_tiles_u), unit = (block - up * p.tiles_u) * p.lanes_u + lane_u;
        int32_t part = ckci_k_divide(up, p.by_tiles_c), tile = up - part * p.tiles_c;
        int32_t channel = planes ? tile : (tile * p.lanes_c + lane) * V;
        int32_t row = ckci_k_divide(unit, p.by_groups_x), fx = (unit - row * p.groups_x) * G;
        int32_t fz = ckci_k_divide(row, p.by_rows_y), fy = (row - fz * (int32_t)p.by_rows_y.d) * R;
        bool active = slot < p.lanes_p && channel < p.g && unit < p.units;
        int32_t count_y = p.dim[1].length, count_x = p.dim[2].length;
        const bool tall = planes || WALKS; /* several y to a line of strips */
        int32_t all = p.n * p.dim[0].length * (tall ? p.tiles_x : count_y) * p.strips;
        int32_t from = part * p.part, to = all - from < p.part ? all : from + p.part;
        T c[R * G * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < R * G * V; i++) {
            c[i] = 0;
        }
        whole_sums whole;
        whole.clear();
        CKCI_K_UNROLL(1)
        for (int32_t first = from, stop = from; first + slot < to && active; first += p.lanes_p) {
            if (LONG && first >= stop) { /* the same for all threads */
                whole.settle(c);
                stop = first + CKCI_K_STRETCH / XO * p.lanes_p;
            }
            const int32_t i = first + slot;
            int32_t line = ckci_k_divide(i, p.by_strips), x = (i - line * p.strips) * XO;
            int32_t above = ckci_k_divide(line, tall ? p.by_tiles_x : p.dim[1].count[0]);
            int32_t y = line - above * (tall ? p.tiles_x : count_y);
            int32_t n = ckci_k_divide(above, p.dim[0].count[0]), z = above - n * p.dim[0].length;
            y = planes ? y * p.lanes_c + lane : WALKS ? y * p.walk : y;
            int32_t in_z = z * p.dim[0].stride + fz * p.dim[0].dilation - p.dim[0].pad;
            int32_t in_y = y * p.dim[1].stride + fy * p.dim[1].dilation - p.dim[1].pad;
            int32_t in_x = x * p.dim[2].stride + fx * p.dim[2].dilation - p.dim[2].pad;
            if (y >= count_y || (uint32_t)in_z >= (uint32_t)p.dim[0].read_len) {
                continue;
            }
            const unsigned char *a = p.a.p + (n * p.a.stride[1] + channel * p.a.stride[0] +
                                              z * p.a.stride[3] + y * p.a.stride[4] + x * p.a.stride[5]) *
                                                 S::SIZE;
            const unsigned char *b =
                p.b.p + (n * p.b.stride[1] + channel * p.b.stride[0] + in_z * p.b.stride[3] +
                         in_y * p.b.stride[4] + in_x * p.b.stride[5]) *
                            S::SIZE;
            const int32_t count = count_x - x;
            if constexpr (WALKS) {
                walk(p, c, a, b, count_y - y < p.walk ? count_y - y : p.walk, in_y, in_x, count);
            } else {
                strip(p, c, a, b, in_y, in_x, count);
            }
        }
        whole.finish(c);
        ckci_k_depth_member w = {slot, lane, lane_u, channel, part, fz, fy, fx, active};
        ckci_k_depth_fold<S, T, V, R, G>(p, m, c, w, planes);
    }
};

/* Two channels, 3 x 3 taps, stride 2. */
template <class S>
struct ckci_k_depth_weight_second
    : ckci_k_by_vendor<ckci_k_depth_weight<S, 2, 4, 3, 3, 2, true>, ckci_k_depth_weight<S, 2, 4, 3, 3, 2>> {
};

template <int V, int XO, int R, int G, int STEP>
struct ckci_k_resident<ckci_k_depth_weight<ckci_k_s_half, V, XO, R, G, STEP>> {
    enum { BLOCKS = V != 1 ? 2 : STEP == 2 ? 3 : 0 };
};
template <> struct ckci_k_resident<ckci_k_depth_weight_second<ckci_k_s_half>> {
    enum { BLOCKS = 2 };
};

/* bwd_weight of the same. A thread walks down a column of strips with all F x F sums (of one z) in registers:
   each row of inputs meets the last F rows of dout, all of which are loaded once. Rows have XO positions at
   least. */
template <class S, int V, int XO, int F, bool PLANES, bool ASYNC> struct ckci_k_depth_walk_weight_by {
    typedef typename S::T T;
    enum {
        WINDOW = PLANES ? XO + 8 : XO + F - 1,
        BEFORE = PLANES ? 4 - (F - 1) / 2 : 0,
        DEPTH = CKCI_K_DEPTH_AHEAD
    };
    enum { WIDE = F == 3 };                 /* rows of dout are kept as they are multiplied */
    enum { HELD = F == 3 || S::SIZE == 2 }; /* else registers have no room for a row ahead */
    typedef ckci_k_depth_window<S, V, WINDOW, PLANES> window;
    typedef ckci_k_depth_window<S, V, XO, PLANES> strip;
    typedef ckci_k_depth_ring<window, ASYNC, DEPTH, HELD> window_ring;
    typedef ckci_k_depth_ring<strip, ASYNC, DEPTH, HELD> strip_ring;

    struct lds {
        ckci_k_depth_sums<T, V, F * F> sums;
        typename window_ring::lds windows;
        typename strip_ring::lds strips;
    };

    /* Rows of dout, the newest last. */
    struct history {
        T wide[WIDE ? F : 1][XO * V];
        strip narrow[WIDE ? 1 : F];

        CKCI_K_MEMBER void clear()
        {
            CKCI_K_UNROLL(8)
            for (int k = 0; k < F; k++) {
                if constexpr (WIDE) {
                    CKCI_K_UNROLL(32)
                    for (int i = 0; i < XO * V; i++) {
                        wide[k][i] = 0;
                    }
                } else {
                    narrow[k].load(nullptr, 0, 0, 0, 2, 0);
                }
            }
        }

        CKCI_K_MEMBER void add(const strip &row, int32_t bf16)
        {
            CKCI_K_UNROLL(8)
            for (int k = 0; k + 1 < F; k++) {
                if constexpr (WIDE) {
                    CKCI_K_UNROLL(32)
                    for (int i = 0; i < XO * V; i++) {
                        wide[k][i] = wide[k + 1][i];
                    }
                } else {
                    narrow[k] = narrow[k + 1];
                }
            }
            if constexpr (WIDE) {
                row.widen(wide[F - 1], bf16);
            } else {
                narrow[F - 1] = row;
            }
        }
    };

    /* row: the newest of dout; those outside the column do not exist. */
    static CKCI_K_MEMBER void multiply(T *c, const history &left, const window &right, int32_t row,
                                       int32_t rows, int32_t bf16)
    {
        T v[WINDOW * V];
        right.widen(v, bf16);
        CKCI_K_UNROLL(8)
        for (int y = 0; y < F; y++) {
            if (row - y < 0 || row - y >= rows) {
                continue; /* nothing may meet the 0 of a missing dout */
            }
            T d[XO * V];
            if constexpr (WIDE) {
                CKCI_K_UNROLL(32)
                for (int i = 0; i < XO * V; i++) {
                    d[i] = left.wide[F - 1 - y][i];
                }
            } else {
                left.narrow[F - 1 - y].widen(d, bf16);
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < XO; i++) {
                CKCI_K_UNROLL(8)
                for (int x = 0; x < F; x++) {
                    CKCI_K_UNROLL(4)
                    for (int l = 0; l < V; l++) {
                        T &sum = c[(y * F + x) * V + l];
                        sum = ckci_k_fma(d[i * V + l], v[(BEFORE + i + x) * V + l], sum);
                    }
                }
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        int32_t t = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x;
        int32_t rest = ckci_k_divide(t, p.by_lanes_c), lane = t - rest * p.lanes_c;
        int32_t slot = ckci_k_divide(rest, p.by_lanes_u), lane_u = rest - slot * p.lanes_u;
        int32_t up = ckci_k_divide(block, p.by_tiles_u), fz = (block - up * p.tiles_u) * p.lanes_u + lane_u;
        int32_t part = ckci_k_divide(up, p.by_tiles_c), tile = up - part * p.tiles_c;
        int32_t channel = (tile * p.lanes_c + lane) * V;
        bool active = slot < p.lanes_p && channel < p.g && fz < p.units;
        int32_t all = p.n * p.dim[0].length * p.tiles_x * p.strips;
        int32_t from = part * p.part, to = all - from < p.part ? all : from + p.part;
        int32_t a_step = (int32_t)p.a.stride[5] * S::SIZE, b_step = (int32_t)p.b.stride[5] * S::SIZE;
        int32_t a_row = (int32_t)p.a.stride[4] * (int32_t)S::SIZE,
                b_row = (int32_t)p.b.stride[4] * (int32_t)S::SIZE;
#if defined(__HIP_DEVICE_COMPILE__) && __clang_major__ < 16
        if constexpr (F == 3 && !PLANES && S::SIZE == 2) { /* scalar registers hold no more */
            a_row = ckci_k_lane_afresh(a_row);
            b_row = ckci_k_lane_afresh(b_row);
        }
#endif
        T c[F * F * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * F * V; i++) {
            c[i] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t i = from + slot; i < to && active; i += p.lanes_p) {
            int32_t line = ckci_k_divide(i, p.by_strips), first = (i - line * p.strips) * XO;
            /* the last strip overlaps the one before it */
            int32_t x = first + XO > p.dim[2].length ? p.dim[2].length - XO : first;
            int32_t above = ckci_k_divide(line, p.by_tiles_x), y = (line - above * p.tiles_x) * p.walk;
            int32_t n = ckci_k_divide(above, p.dim[0].count[0]), z = above - n * p.dim[0].length;
            int32_t in_z = z * p.dim[0].stride + fz * p.dim[0].dilation - p.dim[0].pad;
            if ((uint32_t)in_z >= (uint32_t)p.dim[0].read_len) {
                continue;
            }
            int32_t rows = p.dim[1].length - y < p.walk ? p.dim[1].length - y : p.walk;
            int32_t in_y = y - p.dim[1].pad, in_x = x - p.dim[2].pad - BEFORE;
            uint32_t a_mask = ((1u << XO) - 1) & ~((1u << (first - x)) - 1);
            uint32_t b_mask = ckci_k_depth_inside(in_x, p.dim[2].read_len, WINDOW);
            ckci_k_place a_first = {n, z, y, x}, b_first = {n, in_z, in_y, in_x};
            int32_t a = ckci_k_depth_at<S>(p.a, channel, a_first);
            int32_t b = ckci_k_depth_at<S>(p.b, channel, b_first);
            history left;
            left.clear();
            ckci_k_copies_wait<0>(); /* those of the last column, which nobody took */
            window_ring windows;
            strip_ring strips;
            windows.start(m.windows);
            strips.start(m.strips);
            CKCI_K_UNROLL(1)
            for (int32_t r = -window_ring::AHEAD; r < rows + F - 1; r++) {
                window right;
                strip newest;
                auto pop = [&] {
                    if (r >= 0) {
                        ckci_k_copies_wait<DEPTH - 2>();
                        strips.pop(newest);
                        windows.pop(right);
                    }
                };
                if constexpr (window_ring::AHEAD > 0) {
                    pop();
                }
                int32_t ahead = r + window_ring::AHEAD;
                strips.push(p.a.p, a, a_step, a_mask, ahead < rows, p.o_vec, p.g - channel);
                windows.push(p.b.p, b, b_step, b_mask,
                             (uint32_t)in_y < (uint32_t)p.dim[1].read_len && ahead < rows + F - 1, p.a_vec,
                             p.g - channel);
                ckci_k_copies_end();
                a += a_row;
                b += b_row;
                in_y++;
                if constexpr (window_ring::AHEAD == 0) {
                    pop();
                }
                if (r >= 0) {
                    left.add(newest, p.bf16);
                    multiply(c, left, right, r, rows, p.bf16);
                }
            }
        }
        ckci_k_depth_member w = {slot, lane, lane_u, channel, part, fz, 0, 0, active};
        ckci_k_depth_fold<S, T, V, F, F>(p, m.sums, c, w, false);
    }
};

template <class S, int V, int XO, int F, bool PLANES>
struct ckci_k_depth_walk_weight
    : ckci_k_by_vendor<ckci_k_depth_walk_weight_by<S, V, XO, F, PLANES, PLANES || F != 3 || S::SIZE == 2>,
                       ckci_k_depth_walk_weight_by<S, V, XO, F, PLANES, false>> {
};

template <class S, int V, int XO, int F, bool PLANES>
struct ckci_k_resident<ckci_k_depth_walk_weight<S, V, XO, F, PLANES>> {
    enum { BLOCKS = F == 7 ? 1 : 2 };
};

/* bwd_weight of the same, filters of 3 x 3 and 5 x 5. Rows of inputs and of dout come through LDS, dout where
   the first tap of an output lies. A thread has all F x F sums of V channels in registers, for all rows of
   its block: each row of inputs meets the last F rows of a strip of dout, which stay in registers as they are
   multiplied, in F places that take turns. The last strip of a row overlaps the one before it; what both have
   is 0 in it. */
template <class S, int F, bool ASYNC> struct ckci_k_depth_down_weight_by {
    typedef typename S::T T;
    enum { V = 4 / S::SIZE, XO = CKCI_DEPTH_DOWN_STRIP(S::SIZE, F, 1), WINDOW = XO + F - 1 };
    typedef ckci_k_depth_rows<1, ASYNC> source;

    struct lds {
        typename source::lds inputs, douts;
        ckci_k_depth_sums<T, V, F * F, !ASYNC> sums;
    };

    /* Row r of a column with `rows` of dout: the newest is in place r % F = TURN. Rows of dout that the
       column does not have meet nothing, nor do rows outside the image. */
    template <int TURN>
    static CKCI_K_MEMBER void multiply(T *c, const T *d, const unsigned char *from, int32_t pitch, int32_t r,
                                       int32_t rows, int32_t bf16)
    {
        T v[WINDOW * V];
        ckci_k_depth_line<WINDOW, S, V>(from, pitch, 0, v, bf16);
        CKCI_K_UNROLL(8)
        for (int y = 0; y < F; y++) {
            if (r - y >= 0 && r - y < rows) {
                const T *left = d + (TURN + F - y) % F * XO * V;
                CKCI_K_UNROLL(8)
                for (int i = 0; i < XO; i++) {
                    CKCI_K_UNROLL(8)
                    for (int x = 0; x < F; x++) {
                        CKCI_K_UNROLL(4)
                        for (int l = 0; l < V; l++) {
                            T &sum = c[(y * F + x) * V + l];
                            sum = ckci_k_fma(left[i * V + l], v[(i + x) * V + l], sum);
                        }
                    }
                }
            }
        }
    }

    /* State of a walk down a column. */
    struct walk {
        source inputs, douts;
        int32_t y, first, rows, r, read; /* of inputs, of dout; rows of dout; the row that comes; its stage */
        int32_t a_step, b_step, vec;

        CKCI_K_MEMBER void push(lds &m, const ckci_gpu_depth &p, int32_t row)
        {
            inputs.push(m.inputs, p, p.b.p, b_step, p.dim[1].read_len, y + row, row < rows + F - 1, vec);
            douts.push(m.douts, p, p.a.p, a_step, p.dim[1].length, first + row, row < rows, vec);
            source::commit();
        }
    };

    /* What row r of a thread's strip adds. Its dout takes place `turn`, which is TURN or a later one. */
    template <int TURN>
    static CKCI_K_MEMBER void add(const ckci_gpu_depth &args, const lds &m, const walk &w, T *c, T *d,
                                  int32_t turn, int32_t mine, int32_t twice)
    {
        if constexpr (TURN < F - 1) {
            if (turn > TURN) {
                add<TURN + 1>(args, m, w, c, d, turn, mine, twice);
                return;
            }
        }
        const ckci_gpu_depth &p = ckci_k_late(args);
        const int32_t pitch = p.lanes_c * 4;
        if (w.r < w.rows) {
            ckci_k_depth_line<XO, S, V>(m.douts.stage + w.read + mine, pitch, twice, d + TURN * XO * V,
                                        p.bf16);
        }
        if ((uint32_t)(w.y + w.r) < (uint32_t)p.dim[1].read_len) {
            multiply<TURN>(c, d, m.inputs.stage + w.read + mine, pitch, w.r, w.rows, p.bf16);
        }
    }

    /* Rows from..end of all columns, of one column. */
    static CKCI_K_MEMBER int32_t column(const ckci_gpu_depth &args, lds &m, T *c, int32_t from,
                                        int32_t to_row)
    {
        const ckci_gpu_depth &p = ckci_k_late(args); /* scalar registers hold no more, here and below */
        const int32_t t = (int32_t)threadIdx.x;
        const ckci_k_depth_stand own =
            ckci_k_depth_find<V, XO, true, !ASYNC>(p, t, (int32_t)blockIdx.x, from, to_row);
        const int32_t twice = own.active ? own.twice : 0;
        __syncthreads(); /* the column before */
        ckci_k_depth_positions<S>(p, p.b, m.inputs.at, own, p.dim[2].pad, p.dim[2].read_len, p.dim[0].stride,
                                  t);
        ckci_k_depth_positions<S>(p, p.a, m.douts.at, own, 0, p.dim[2].length, 1, t);
        __syncthreads();
        walk w;
        w.vec = p.a_vec;
        w.inputs.start(m.inputs, p, w.vec, p.pieces, (p.g - own.channel) * (int32_t)S::SIZE);
        w.douts.start(m.douts, p, w.vec, p.pieces, (p.g - own.channel) * (int32_t)S::SIZE);
        w.y = own.y - p.dim[1].pad;
        w.first = own.y;
        w.rows = own.rows;
        w.read = 0;
        w.a_step = (int32_t)p.a.stride[4] * (int32_t)S::SIZE;
        w.b_step = (int32_t)p.b.stride[4] * (int32_t)S::SIZE;
        T d[F * XO * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * XO * V; i++) {
            d[i] = 0;
        }
        const int32_t mine = own.at * p.lanes_c * 4 + own.lane * 4;
        /* copies stand once, for the rows that are ahead, too */
        int32_t turn = 0;
        CKCI_K_UNROLL(1)
        for (w.r = 1 - source::STAGES; w.r < w.rows + F - 1; w.r++) {
            if (w.r >= 0) {
                w.inputs.settle(m.inputs, w.vec);
                w.douts.settle(m.douts, w.vec);
                source::arrive();
            }
            w.push(m, ckci_k_late(p), w.r + source::STAGES - 1);
            if (w.r < 0) {
                continue;
            }
            if (own.active) {
                add<0>(p, m, w, c, d, turn, mine, twice);
            }
            turn = turn == F - 1 ? 0 : turn + 1;
            w.read = w.read == source::LAST ? 0 : w.read + source::STAGE;
        }
        return from + own.rows;
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        const int32_t t = (int32_t)threadIdx.x, part = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c);
        const int32_t first = part * p.walk, end = p.all - first < p.walk ? p.all : first + p.walk;
        T c[F * F * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * F * V; i++) {
            c[i] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t row = first; row < end;) {
            row = column(p, m, c, row, end);
        }
        int32_t lane;
        const int32_t slot = ckci_k_depth_slot<!ASYNC>(p, t, lane);
        const int32_t channel = (((int32_t)blockIdx.x - part * p.tiles_c) * p.lanes_c + lane) * V;
        ckci_k_depth_member w = {slot, lane, 0, channel, part, 0, 0, 0, slot < p.lanes_p && channel < p.g};
        ckci_k_depth_fold<S, T, V, F, F, 1, !ASYNC>(p, m.sums, c, w, false);
    }
};

template <class S, int F>
struct ckci_k_depth_down_weight
    : ckci_k_by_vendor<ckci_k_depth_down_weight_by<S, F, true>, ckci_k_depth_down_weight_by<S, F, false>> {
};

template <class S, int F> struct ckci_k_resident<ckci_k_depth_down_weight<S, F>> {
    enum { BLOCKS = 2 };
};

/* bwd_weight of 3 x 3 x 3: tiles walk along dimension 0 as those of ckci_k_depth_deep, dout beside them. A
   thread has all 27 sums of V channels in registers, for all pieces of its block, which are `parts` apart:
   each of its three rows of inputs meets the last three planes of a strip of dout, as in
   ckci_k_depth_down_weight. */
template <class S, bool ASYNC> struct ckci_k_depth_deep_weight_by {
    typedef typename S::T T;
    enum { F = 3, V = 4 / S::SIZE, XO = CKCI_DEPTH_DEEP_STRIP(S::SIZE, 1), WINDOW = XO + F - 1 };
    typedef ckci_k_depth_deep_source<S, ASYNC> source;
    typedef ckci_k_depth_rows<1, ASYNC, 8192, ASYNC ? 8 : 4, !ASYNC> source_out;
    static_assert(XO * 256 * 4 <= 8192, "all strips of a block");

    struct lds {
        union {
            struct {
                typename source::lds inputs;
                typename source_out::lds douts;
            };
            ckci_k_depth_sums<T, V, F * F * F, !ASYNC> sums;
        };
    };

    /* Plane r of a piece with `planes` of dout: the newest is in place r % F = TURN. Planes of dout that the
       piece does not have meet nothing. */
    template <int TURN>
    static CKCI_K_MEMBER void multiply(T *c, const T *d, const unsigned char *from, int32_t pitch,
                                       int32_t rows, int32_t r, int32_t planes, int32_t bf16)
    {
        CKCI_K_UNROLL(4)
        for (int y = 0; y < F; y++) {
            T v[WINDOW * V];
            ckci_k_depth_line<WINDOW, S, V>(from + y * rows, pitch, 0, v, bf16);
            CKCI_K_UNROLL(4)
            for (int z = 0; z < F; z++) {
                if (r - z >= 0 && r - z < planes) {
                    const T *left = d + (TURN + F - z) % F * XO * V;
                    CKCI_K_UNROLL(8)
                    for (int i = 0; i < XO; i++) {
                        CKCI_K_UNROLL(4)
                        for (int x = 0; x < F; x++) {
                            CKCI_K_UNROLL(4)
                            for (int l = 0; l < V; l++) {
                                T &sum = c[((z * F + y) * F + x) * V + l];
                                sum = ckci_k_fma(left[i * V + l], v[(i + x) * V + l], sum);
                            }
                        }
                    }
                }
            }
        }
    }

    /* State of a walk along a piece. */
    struct walk {
        source inputs;
        source_out douts;
        int32_t z, first;       /* the first plane of inputs, of dout */
        int32_t planes, r;      /* of dout; the one that comes */
        int32_t read, read_out; /* its stages */
        int32_t at, at_out;     /* of this thread in a stage */
        int32_t a_step, b_step, vec, rows;

        CKCI_K_MEMBER void push(lds &m, const ckci_gpu_depth &p, int32_t plane)
        {
            inputs.push(m.inputs, p, p.b.p, b_step, p.dim[0].read_len, z + plane, plane < planes + F - 1,
                        vec);
            douts.push(m.douts, p, p.a.p, a_step, p.dim[0].length, first + plane, plane < planes, vec);
            source::commit();
        }
    };

    /* What plane r of a thread's strip adds. Its dout takes place `turn`, which is TURN or a later one. */
    template <int TURN>
    static CKCI_K_MEMBER void add(const ckci_gpu_depth &args, const lds &m, const walk &w, T *c, T *d,
                                  int32_t turn)
    {
        if constexpr (TURN < F - 1) {
            if (turn > TURN) {
                add<TURN + 1>(args, m, w, c, d, turn);
                return;
            }
        }
        const ckci_gpu_depth &p = ckci_k_late(args);
        const int32_t pitch = p.lanes_c * 4;
        if (w.r < w.planes) {
            ckci_k_depth_line<XO, S, V>(m.douts.stage + w.read_out + w.at_out, pitch, 0, d + TURN * XO * V,
                                        p.bf16);
        }
        if ((uint32_t)(w.z + w.r) < (uint32_t)p.dim[0].read_len) {
            multiply<TURN>(c, d, m.inputs.stage + w.read + w.at, pitch, w.rows, w.r, w.planes, p.bf16);
        }
    }

    static CKCI_K_MEMBER void piece(const ckci_gpu_depth &args, lds &m, T *c, int32_t index, int32_t base)
    {
        const ckci_gpu_depth &p = ckci_k_late(args); /* scalar registers hold no more, here and below */
        const int32_t t = (int32_t)threadIdx.x, pitch = p.lanes_c * 4;
        const ckci_k_depth_spot own = ckci_k_depth_find_tile<XO, !ASYNC>(p, t, index);
        const bool active = own.active && base + own.lane * V < p.g;
        __syncthreads(); /* the piece before */
        if (t < CKCI_DEPTH_DOWN_POSITIONS) {
            const int32_t length[2] = {p.dim[1].read_len, p.dim[2].read_len};
            const int32_t out[2] = {p.dim[1].length, p.dim[2].length};
            m.inputs.at[t] = ckci_k_depth_in_tile<S>(p.b, p.by_pitch, base, own.n, own.y - p.dim[1].pad,
                                                     own.x - p.dim[2].pad, length, t);
            m.douts.at[t] = ckci_k_depth_in_tile<S>(p.a, p.by_wide, base, own.n, own.y, own.x, out, t);
        }
        __syncthreads();
        walk w;
        w.vec = p.a_vec;
        w.inputs.start(m.inputs, p, w.vec, p.pieces, (p.g - base) * (int32_t)S::SIZE);
        w.douts.start(m.douts, p, w.vec, p.lanes_p * XO * (int32_t)p.by_pieces.d,
                      (p.g - base) * (int32_t)S::SIZE);
        w.z = own.z - p.dim[0].pad;
        w.first = own.z;
        w.planes = own.rows;
        w.read = w.read_out = 0;
        w.a_step = (int32_t)p.a.stride[3] * (int32_t)S::SIZE;
        w.b_step = (int32_t)p.b.stride[3] * (int32_t)S::SIZE;
        w.rows = p.pitch * pitch;
        w.at = (own.row * p.pitch + own.strip * XO) * pitch + own.lane * 4;
        w.at_out = (own.row * p.strips + own.strip) * XO * pitch + own.lane * 4;
        T d[F * XO * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * XO * V; i++) {
            d[i] = 0;
        }
        int32_t turn = 0;
        CKCI_K_UNROLL(1)
        for (w.r = 1 - source::STAGES; w.r < w.planes + F - 1; w.r++) {
            if (w.r >= 0) {
                if constexpr (!ASYNC) {
                    __syncthreads(); /* the plane before */
                }
                w.inputs.settle(m.inputs, w.vec);
                w.douts.settle(m.douts, w.vec);
                source::arrive();
            }
            w.push(m, ckci_k_late(p), w.r + source::STAGES - 1);
            if (w.r < 0) {
                continue;
            }
            if (active) {
                add<0>(p, m, w, c, d, turn);
            }
            turn = turn == F - 1 ? 0 : turn + 1;
            w.read = w.read == source::LAST ? 0 : w.read + source::STAGE;
            w.read_out = w.read == 0 ? 0 : w.read_out + source_out::STAGE;
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        const int32_t t = (int32_t)threadIdx.x, part = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c);
        const int32_t base = ((int32_t)blockIdx.x - part * p.tiles_c) * p.lanes_c * V;
        T c[F * F * F * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * F * F * V; i++) {
            c[i] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t i = part; i < p.all; i += p.parts) {
            piece(p, m, c, i, base);
        }
        int32_t lane;
        const int32_t slot = ckci_k_depth_slot<!ASYNC>(p, t, lane);
        const int32_t channel = base + lane * V;
        ckci_k_depth_member w = {slot, lane, 0, channel, part, 0, 0, 0, slot < p.lanes_p && channel < p.g};
        ckci_k_depth_fold<S, T, V, F, F, F, !ASYNC>(p, m.sums, c, w, false);
    }
};

template <class S>
struct ckci_k_depth_deep_weight
    : ckci_k_by_vendor<ckci_k_depth_deep_weight_by<S, true>, ckci_k_depth_deep_weight_by<S, false>> {
};

template <class S> struct ckci_k_resident<ckci_k_depth_deep_weight<S>> {
    enum { BLOCKS = 2 };
};

/* N words of halves, from half 0 of p on or (shift: 16) from half 1 on. READ: words of p that are read. */
template <int N, int READ = N + 1>
CKCI_K_FN void ckci_k_depth_words(const uint32_t *p, uint32_t shift, uint32_t *w)
{
    uint32_t v[N + 1];
    CKCI_K_UNROLL(16)
    for (int i = 0; i <= N; i++) {
        v[i] = i < READ ? p[i] : 0;
    }
    CKCI_K_UNROLL(16)
    for (int i = 0; i < N; i++) {
#if defined(__HIP_DEVICE_COMPILE__)
        w[i] = __builtin_amdgcn_alignbit(v[i + 1], v[i], shift);
#elif defined(__CUDA_ARCH__)
        asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(w[i]) : "r"(v[i]), "r"(v[i + 1]), "r"(shift));
#else
        w[i] = (uint32_t)(((uint64_t)v[i + 1] << 32 | v[i]) >> shift);
#endif
    }
}

/* c[0] and c[1], in registers beside each other where one instruction multiplies two (gfx90a and later). */
CKCI_K_FN void ckci_k_depth_beside(float *c)
{
#if defined(__HIP_DEVICE_COMPILE__) && defined(__GFX9__)
    typedef float two __attribute__((ext_vector_type(2)));
    two v = {c[0], c[1]};
    asm volatile("" : "+v"(v));
    c[0] = v.x;
    c[1] = v.y;
#else
    (void)c;
#endif
}

/* Sheets: planes (channels first) that are small, or bands of their rows, in LDS as they lie in memory, so
   that memory is read and written in whole lines whatever the width, stride or padding. */
template <class S> struct ckci_k_sheet {
    typedef typename S::T T;
    enum { THREADS = CKCI_DEPTH_SHEET_THREADS };
    enum { FRONT = 32 }; /* what a window reads before the first number is in LDS, too */
#if defined(__HIP_DEVICE_COMPILE__)
    enum { EIGHTS = 1 }; /* see numbers */
#else
    enum { EIGHTS = 0 };
#endif

    struct lds {
        alignas(16) unsigned char pool[CKCI_DEPTH_SHEET_BYTES];
    };

    /* Rows from `from` on of planes from `first` on, of t. */
    static CKCI_K_MEMBER unsigned char *memory(const ckci_tensor &t, int64_t first, const int32_t *size,
                                               int32_t from)
    {
        return ckci_k_global(t.p) + (first * size[0] + from) * (size[1] * (int32_t)S::SIZE);
    }

    /* AMD: planes begin with a whole 16 bytes in LDS wherever they do in memory, and so far from each other
       that threads which follow each other read and write different banks. */
    static CKCI_K_MEMBER bool spread(const ckci_gpu_depth &p)
    {
        (void)p;
#if defined(__HIP_DEVICE_COMPILE__)
        return true;
#elif defined(__CUDACC__)
        return false;
#else
        return p.sheet.slack < 0;
#endif
    }

    /* Where they lie in LDS, `at` the room for them: as in memory modulo 16. */
    static CKCI_K_MEMBER int32_t slip(const unsigned char *memory)
    {
        return (int32_t)((uintptr_t)memory & 15);
    }
    static CKCI_K_MEMBER int32_t slip(const ckci_gpu_depth &p, const unsigned char *memory)
    {
        return spread(p) ? 0 : slip(memory);
    }

#if !defined(__CUDACC__)
    /* 16 bytes as one value, and so aligned, or to numbers only */
    typedef uint32_t quad __attribute__((vector_size(16), may_alias));
    typedef uint32_t loose_quad __attribute__((vector_size(16), may_alias, aligned(2)));

    /* Copies of planes that are spread: `bytes` bytes each, `apart` apart in memory and `room` in LDS, which
       begin with a whole 16 bytes in LDS and anywhere in memory; what is read goes on to whole 16 bytes, but
       not at the end of the tensor, where they go by numbers. The last 16 bytes that are written overlap
       those before. Several are under way. */
    template <bool OUT>
    static CKCI_K_MEMBER void place(unsigned char *at, unsigned char *memory, int32_t planes, int32_t bytes,
                                    int64_t apart, int32_t room, ckci_divisor by, const unsigned char *end)
    {
        enum { SEVERAL = 2, B = 16 };
        const int32_t d = (int32_t)by.d, all = planes * d, t = ckci_k_again((int32_t)threadIdx.x);
        const int32_t plane = ckci_k_divide(t, by),
                      on = ckci_k_divide(THREADS, by); /* planes from copy to copy */
        int32_t c = (t - plane * d) * B, near = plane * room;
        /* bytes of a plane that are left for a whole copy */
        const int64_t room_after = OUT ? bytes : end - (memory + (planes - 1) * apart + bytes);
        const int32_t least = room_after < B ? +B : 1;
        unsigned char *far = memory + plane * apart;
        CKCI_K_UNROLL(1)
        for (int32_t e = t; e < all; e += SEVERAL * THREADS) {
            quad v[SEVERAL];
            unsigned char *out[SEVERAL];
            int32_t in[SEVERAL]; /* < 0: there is nothing to store */
            CKCI_K_UNROLL(4)
            for (int k = 0; k < SEVERAL; k++) {
                const int32_t left = e + k * THREADS < all ? bytes - c : 0;
                const bool whole = left >= least, over = OUT && left < B;
                const int32_t i = over ? bytes - B : c;
                out[k] = far + i;
                in[k] = whole ? near + i : -1;
                if (!whole) {
                    CKCI_K_UNROLL(1)
                    for (int32_t b = 0; b < left; b += S::SIZE) {
                        ckci_k_vec<S, 1> one;
                        if constexpr (OUT) {
                            one.load(at + near + c + b);
                            one.store(far + c + b);
                        } else {
                            one.load(far + c + b);
                            one.store(at + near + c + b);
                        }
                    }
                } else if constexpr (!OUT) {
                    v[k] = *(const loose_quad *)(far + i);
                } else if (over) {
                    uint32_t w[4];
                    CKCI_K_UNROLL(4)
                    for (int j = 0; j < 4; j++) {
                        ckci_k_vec<S, 1> low, high;
                        low.load(at + near + i + j * 4);
                        w[j] = low.w[0];
                        if constexpr (S::SIZE == 2) {
                            high.load(at + near + i + j * 4 + 2);
                            w[j] |= high.w[0] << 16;
                        }
                    }
                    const quad last = {w[0], w[1], w[2], w[3]};
                    v[k] = last;
                } else {
                    v[k] = *(const quad *)(at + near + i);
                }
                c += (THREADS - on * d) * B;
                near += on * room;
                far += on * apart;
                if (c >= d * B) {
                    c -= d * B;
                    near += room;
                    far += apart;
                }
            }
            CKCI_K_UNROLL(4)
            for (int k = 0; k < SEVERAL; k++) {
                if (in[k] >= 0) {
                    if constexpr (OUT) {
                        *(loose_quad *)out[k] = v[k];
                    } else {
                        *(quad *)(at + in[k]) = v[k];
                    }
                }
            }
        }
    }
#endif

    /* Copies between LDS and `planes` pieces of memory of `bytes` bytes, `apart` apart there and `room` apart
       in LDS, the same modulo 16. An aligned piece of 16 bytes, of which there are at most by.d each, is a
       copy. What is read is whole pieces, with numbers of neighbours for which there is room beside a plane,
       but not at the ends of the tensor (begin, end); there, and in what is written, they go by numbers.
       ALIGNED: planes begin and end with pieces. Several are under way. */
    template <bool OUT, bool ALIGNED>
    static CKCI_K_MEMBER void move(unsigned char *at, unsigned char *memory, int32_t planes, int32_t bytes,
                                   int64_t apart, int32_t room, ckci_divisor by, const unsigned char *begin,
                                   const unsigned char *end)
    {
        enum { SEVERAL = 2, B = 16 };
        const int32_t d = (int32_t)by.d, all = planes * d, t = ckci_k_again((int32_t)threadIdx.x);
        const int32_t plane = ckci_k_divide(t, by),
                      on = ckci_k_divide(THREADS, by); /* planes from copy to copy */
        int32_t c = (t - plane * d) * B, near = plane * room + B;
        at -= B; /* so that no place is negative */
        /* a piece is whole from there on, and with so many bytes of its plane */
        const int32_t before = OUT || memory - begin < B ? 0 : 1 - B;
        const int32_t least = OUT || end - (memory + (planes - 1) * apart + bytes) < B ? +B : 1;
        unsigned char *far = memory + plane * apart;
        CKCI_K_UNROLL(1)
        for (int32_t e = t; e < all; e += SEVERAL * THREADS) {
            ckci_k_vec<ckci_k_s_half, B / 2> v[SEVERAL];
            unsigned char *out[SEVERAL];
            int32_t in[SEVERAL]; /* < 0: there is nothing to store */
            CKCI_K_UNROLL(4)
            for (int k = 0; k < SEVERAL; k++) {
                const int32_t i = ALIGNED ? c : c - slip(far); /* < 0: the piece begins before the plane */
                const int32_t left = e + k * THREADS < all ? bytes - i : 0;
                const bool whole = ALIGNED ? left >= B : i >= before && left >= least;
                out[k] = far + i;
                in[k] = whole ? near + i : -1;
#if defined(__CUDA_ARCH__)
                if constexpr (!OUT) {
                    if (whole) {
                        ckci_k_copy_late<B>(at + near + i, far + i, true);
                    }
                    in[k] = -1;
                }
#endif
                if (in[k] >= 0) {
                    if constexpr (OUT) {
                        v[k].load(at + near + i);
                    } else {
                        v[k].load(far + i);
                    }
                }
                CKCI_K_UNROLL(1)
                for (int32_t b = i < 0 ? -i : 0; !whole && b < B && b < left; b += S::SIZE) {
                    ckci_k_vec<S, 1> one;
                    if constexpr (OUT) {
                        one.load(at + near + i + b);
                        one.store(far + i + b);
                    } else {
                        one.load(far + i + b);
                        one.store(at + near + i + b);
                    }
                }
                c += (THREADS - on * d) * B;
                near += on * room;
                far += on * apart;
                if (c >= d * B) {
                    c -= d * B;
                    near += room;
                    far += apart;
                }
            }
            CKCI_K_UNROLL(4)
            for (int k = 0; k < SEVERAL; k++) {
                if (in[k] >= 0) {
                    if constexpr (OUT) {
                        v[k].store(out[k]);
                    } else {
                        v[k].store(at + in[k]);
                    }
                }
            }
        }
    }

    /* `rows` rows of each of `planes` planes of t; one piece where a block takes whole ones. */
    template <bool OUT>
    static CKCI_K_MEMBER void rows(const ckci_gpu_depth &p, const ckci_tensor &t, unsigned char *at,
                                   unsigned char *memory, int32_t planes, const int32_t *size, int32_t rows,
                                   int32_t room, ckci_divisor by)
    {
        const int32_t row = size[1] * (int32_t)S::SIZE;
        const bool one = !spread(p) && p.sheet.bands == 1;
        const int32_t pieces = one ? 1 : planes, bytes = (one ? planes * size[0] : rows) * row;
        const int64_t apart = (int64_t)size[0] * row;
        const unsigned char *begin = ckci_k_global(t.p);
        const unsigned char *end = begin + (int64_t)p.n * p.g * apart;
#if !defined(__CUDACC__)
        if (spread(p)) {
            place<OUT>(at, memory, pieces, bytes, apart, room, by, end);
            return;
        }
#endif
        if (p.sheet.slack == 0) {
            move<OUT, true>(at, memory, pieces, bytes, apart, room, by, begin, end);
        } else {
            move<OUT, false>(at, memory, pieces, bytes, apart, room, by, begin, end);
        }
    }

#if defined(__HIP_DEVICE_COMPILE__)
    /* N words of LDS from `from` on, 8 bytes at a time, without the first one (ODD). */
    template <int N, int ODD> static CKCI_K_MEMBER void eights(const unsigned char *from, uint32_t *w)
    {
        CKCI_K_UNROLL(16)
        for (int i = -ODD; i < N; i += 2) {
            uint64_t two = *(const uint64_t *)(from + (i + ODD) * 4);
            if (i < 0 || i + 1 == N) {
                asm("" : "+v"(two)); /* or one of them is loaded, which takes as long */
            }
            if (i >= 0) {
                w[i] = (uint32_t)two;
            }
            if (i + 1 < N) {
                w[i + 1] = (uint32_t)(two >> 32);
            }
        }
    }
#endif

    /* N numbers of a row, two halves to a word; those that exist, as masks. STEP: bytes from thread to
       thread. On AMD where they are 8, a load of 8 aligned bytes takes LDS no longer than one of 4, and rows
       of all planes begin at the same place modulo 8. */
    template <int N, int STEP> struct numbers {
        enum { WORDS = S::SIZE == 4 ? N : (N + 1) / 2, WIDE = EIGHTS && STEP == 8 };
        const unsigned char *at; /* the first number of the row that comes; WIDE: of the first row, aligned */
        int32_t pitch, half; /* bytes from row to row; at is 2 past a whole word; WIDE: bytes from at on */
        uint32_t mask[WORDS];

        /* first: among the numbers of a row, of which `length` exist. */
        CKCI_K_MEMBER void begin(const unsigned char *pool, int32_t offset, int32_t first, int32_t length,
                                 int32_t bytes)
        {
            if constexpr (WIDE) {
                half = ckci_k_same(offset & 7);
                at = pool + offset - half;
            } else {
                at = pool + offset;
                half = offset & 2;
            }
            pitch = bytes;
            CKCI_K_UNROLL(16)
            for (int i = 0; i < WORDS; i++) {
                mask[i] = 0;
            }
            CKCI_K_UNROLL(16)
            for (int i = 0; i < N; i++) {
                const bool exists = (uint32_t)(first + i) < (uint32_t)length;
                if constexpr (S::SIZE == 4) {
                    mask[i] = exists ? UINT32_MAX : 0;
                } else {
                    mask[i / 2] |= exists ? 0xffffu << i % 2 * 16 : 0;
                }
            }
        }

        CKCI_K_MEMBER void next(int32_t rows = 1)
        {
            if constexpr (WIDE) {
                half += rows * pitch;
            } else {
                at += rows * pitch;
                half ^= rows * pitch & 2;
            }
        }

#if defined(__HIP_DEVICE_COMPILE__)
        /* WIDE: words from the 8 bytes `along` on or (ODD) half of them later; halves only if they exist. */
        template <bool PAIRS, int ODD> CKCI_K_MEMBER void words(int32_t along, uint32_t *w) const
        {
            enum { MORE = S::SIZE == 2 && !PAIRS && N % 2 == 0 };
            w[WORDS] = 0;
            eights<WORDS + MORE, ODD>(at + along, w);
            CKCI_K_UNROLL(16)
            for (int i = 0; i < WORDS && S::SIZE == 2; i++) {
                if constexpr (!PAIRS) {
                    w[i] = __builtin_amdgcn_alignbit(w[i + 1], w[i], (half & 2) * 8);
                }
                w[i] &= mask[i];
            }
        }
#endif

        /* PAIRS: a load for two numbers; ANYWHERE: words of halves are put together from two; ODD: WIDE rows
           are expected to begin 4 bytes after whole 8 ones. */
        template <bool BF16, bool PAIRS, bool ANYWHERE, int ODD = 0> CKCI_K_MEMBER void load(T *v) const
        {
            if constexpr (WIDE) {
#if defined(__HIP_DEVICE_COMPILE__)
                uint32_t w[WORDS + 1];
                if (__builtin_expect((half & 4) == ODD * 4, 1)) {
                    words<PAIRS, ODD>(half & ~7, w);
                } else {
                    words<PAIRS, 1 - ODD>(ckci_k_afresh(half & ~7), w);
                }
                CKCI_K_UNROLL(16)
                for (int i = 0; i < WORDS; i++) {
                    if constexpr (S::SIZE == 4) {
                        const uint32_t one = w[i] & mask[i];
                        memcpy(&v[i], &one, 4);
                    } else if (i * 2 + 1 < N) {
                        S::template widen<BF16>(w[i], v + i * 2);
                    } else {
                        v[i * 2] = S::template widen<BF16>(w[i]);
                    }
                }
#endif
            } else if constexpr (S::SIZE == 2 && !PAIRS && !ANYWHERE) {
                CKCI_K_UNROLL(16)
                for (int i = 0; i < N; i++) {
                    ckci_k_vec<S, 1> raw;
                    raw.load(at + i * (int)S::SIZE);
                    v[i] = S::template widen<BF16>(raw.w[0] & mask[i / 2] >> i % 2 * 16);
                }
            } else if constexpr (S::SIZE == 2) {
                uint32_t w[WORDS];
                if constexpr (PAIRS) {
                    CKCI_K_UNROLL(16)
                    for (int i = 0; i < WORDS; i++) {
                        w[i] = ((const uint32_t *)at)[i];
                    }
                } else {
                    ckci_k_depth_words<WORDS, WORDS + 1 - N % 2>((const uint32_t *)(at - half),
                                                                 (uint32_t)half * 8, w);
                }
                CKCI_K_UNROLL(16)
                for (int i = 0; i < N; i += 2) {
                    if (i + 1 < N) {
                        S::template widen<BF16>(w[i / 2] & mask[i / 2], v + i);
                    } else {
                        v[i] = S::template widen<BF16>(w[i / 2] & mask[i / 2]);
                    }
                }
            } else {
                constexpr int W = PAIRS ? 2 : 1;
                static_assert(N % W == 0, "whole pairs");
                CKCI_K_UNROLL(16)
                for (int i = 0; i < N / W; i++) {
                    ckci_k_vec<S, W> raw;
                    raw.load(at + i * W * (int)S::SIZE);
                    CKCI_K_UNROLL(2)
                    for (int k = 0; k < W; k++) {
                        raw.w[k] &= mask[i * W + k];
                    }
                    raw.template widen<BF16>(v + i * W);
                }
            }
        }
    };

#if defined(__HIP_DEVICE_COMPILE__)
    /* Numbers of 8 bytes, of which those that are wanted exist. PAIRS: as below. whole: all of them or none,
       aligned. Else words, first that at `at` and then that which is `other` bytes after it: half of the
       threads are LATE, begin with the second one, so that those 16 apart write different banks. */
    template <bool BF16, bool PAIRS>
    static CKCI_K_MEMBER void store_eight(unsigned char *at, int32_t other, bool late, uint32_t wanted,
                                          bool whole, const T *v)
    {
        enum { N = 8 / S::SIZE };
        ckci_k_vec<S, N> raw;
        raw.template narrow<BF16>(v);
        uint32_t low = raw.w[0], high = raw.w[1];
        if constexpr (S::SIZE == 2) { /* else four products go together, and more moves with them */
            low = (uint32_t)ckci_k_lane_afresh((int32_t)low);
            high = (uint32_t)ckci_k_lane_afresh((int32_t)high);
        }
        if (whole) {
            if (wanted) {
                *(uint64_t *)at = low | (uint64_t)high << 32;
            }
            return;
        }
        CKCI_K_UNROLL(2)
        for (int i = 0; i < 2; i++) {
            const uint32_t w = late == (i == 0) ? high : low, some = wanted >> i * (N / 2);
            unsigned char *to = i ? at + other : at;
            if constexpr (S::SIZE == 4 || PAIRS) {
                if (some & 1) {
                    *(uint32_t *)to = w;
                }
            } else {
                if (some & 1) {
                    *(uint16_t *)to = (uint16_t)w;
                }
                if (some & 2) {
                    *(uint16_t *)(to + 2) = (uint16_t)(w >> 16);
                }
            }
        }
    }
#endif

    /* N numbers, of which those that are wanted exist. PAIRS: a store for two (both exist, or neither). */
    template <bool BF16, bool PAIRS, int N>
    static CKCI_K_MEMBER void store(unsigned char *at, uint32_t wanted, const T *v)
    {
        constexpr int W = PAIRS || (S::SIZE == 2 && N % 2 == 0) ? 2 : 1; /* rounded together */
        CKCI_K_UNROLL(4)
        for (int i = 0; i < N; i += W) {
            ckci_k_vec<S, W> raw;
            raw.template narrow<BF16>(v + i);
            if constexpr (PAIRS || W == 1) {
                if (wanted >> i & 1) {
                    raw.store(at + i * (int)S::SIZE);
                }
            } else {
                CKCI_K_UNROLL(2)
                for (int k = 0; k < 2; k++) {
                    ckci_k_vec<S, 1> one;
                    one.w[0] = raw.w[0] >> k * 16;
                    if (wanted >> (i + k) & 1) {
                        one.store(at + (i + k) * (int)S::SIZE);
                    }
                }
            }
        }
    }
};

/* Stride 1 or 2, dilation 1. BACK: the gradient of stride 2; that of stride 1 is a convolution with the
   filter turned round. A block owns `high` rows of `count` planes; a thread owns XO neighbouring columns of
   one of them and walks down the rows that are read: each is added to the sums of the outputs that it belongs
   to, which lie in registers. Results go to LDS, too, and from there to memory. */
template <class S, int F, int STRIDE, bool BACK> struct ckci_k_depth_sheet {
    typedef typename S::T T;
    typedef ckci_k_sheet<S> sheet;
    typedef typename sheet::lds lds;
    enum { HALF = (F + 1) / 2, XO = CKCI_DEPTH_SHEET_COLUMNS(S::SIZE, STRIDE, BACK, 0) };
    enum { SUMS = BACK || STRIDE == 1 ? F : +HALF };
    /* a window begins at an even column where pairs are loaded */
    enum { SLIP = STRIDE == 1 && !(sheet::EIGHTS && S::SIZE == 4) ? (F - 1) / 2 % 2 : 0 };
    enum { WINDOW = BACK ? +HALF : (XO - 1) * STRIDE + F };
    enum { LOADED = STRIDE == 1 ? (SLIP + WINDOW + 1) / 2 * 2 : +WINDOW };
    enum { ODD = (((F - 1) / 2 + SLIP) * S::SIZE + 3) / 4 % 2 }; /* with the usual padding */
    enum { STEP = (BACK ? 1 : XO * STRIDE) * S::SIZE, STORED = XO * S::SIZE };

    /* The first row that is read for output row r, and one past the last. */
    static CKCI_K_MEMBER int32_t first_row(const ckci_gpu_depth_sheet &s, int32_t r)
    {
        return BACK ? (r + s.pad[0] - (F - 1)) >> 1 : r * STRIDE - s.pad[0];
    }
    static CKCI_K_MEMBER int32_t end_row(const ckci_gpu_depth_sheet &s, int32_t r)
    {
        return BACK ? ((r + s.pad[0]) >> 1) + 1 : r * STRIDE - s.pad[0] + F;
    }

    struct columns {
        typename sheet::template numbers<LOADED, STEP> window;
        unsigned char *to;   /* of the output row that comes */
        int32_t pitch_out;   /* bytes */
        int32_t row, length; /* the row that comes; rows that exist, or that the band needs */
        uint32_t wanted;     /* outputs that exist */
#if defined(__HIP_DEVICE_COMPILE__)
        int32_t other; /* see store_eight */
        bool whole, late;
#endif
        T w[F * F];
    };

    /* What row y of the filter adds to output o of a thread. */
    static CKCI_K_MEMBER T row(const columns &a, const T *v, int y, int o, T x)
    {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < F; i++) {
            if (!BACK || i % 2 == o) {
                x = ckci_k_fma(v[BACK ? HALF - 1 - i / 2 : SLIP + o * STRIDE + i], a.w[y * F + i], x);
            }
        }
        return x;
    }

    template <bool BF16, bool PAIRS> static CKCI_K_MEMBER void write(columns &a, const T *c)
    {
        if constexpr (sheet::EIGHTS && STORED == 8) {
#if defined(__HIP_DEVICE_COMPILE__)
            sheet::template store_eight<BF16, PAIRS>(a.to, a.other, a.late, a.wanted, a.whole, c);
#endif
        } else {
            sheet::template store<BF16, PAIRS, XO>(a.to, a.wanted, c);
        }
        a.to += a.pitch_out;
    }

    /* A row of inputs: sums move on by MOVE rows, those of row k (of COUNT) take row FIRST + k * STEP of the
       filter. Padding, where it may come (not EXISTS), is zeros. */
    template <bool BF16, bool PAIRS, bool EXISTS, int MOVE, int FIRST, int COUNT, int STEP>
    static CKCI_K_MEMBER void take(columns &a, T *c)
    {
        T v[LOADED];
        if (EXISTS || (uint32_t)a.row < (uint32_t)a.length) { /* the same for all threads */
            a.window.template load<BF16, PAIRS, STRIDE == 1, ODD>(v);
        } else {
            CKCI_K_UNROLL(16)
            for (int i = 0; i < LOADED; i++) {
                v[i] = 0;
            }
        }
        CKCI_K_UNROLL(8)
        for (int i = 0; i < COUNT; i++) {
            CKCI_K_UNROLL(4)
            for (int o = 0; o < XO; o++) {
                c[i * XO + o] =
                    row(a, v, FIRST + i * STEP, o, i + MOVE < COUNT ? c[(i + MOVE) % COUNT * XO + o] : (T)0);
            }
        }
        a.row++;
        a.window.next();
    }

    /* `rows` output rows. BACK: two at a time, from `before` rows before the first one on. */
    template <bool BF16, bool PAIRS> static CKCI_K_MEMBER void walk(columns &a, int32_t rows, int32_t before)
    {
        T c[SUMS * XO];
        CKCI_K_UNROLL(32)
        for (int i = 0; i < SUMS * XO; i++) {
            c[i] = 0;
        }
        if constexpr (BACK) {
            CKCI_K_UNROLL(1)
            for (int32_t y = -before; y < rows; y += 2) {
                take<BF16, PAIRS, false, 2, 0, F, 1>(a, c);
                if (y >= 0) {
                    write<BF16, PAIRS>(a, c);
                }
                if (y >= -1 && y + 1 < rows) {
                    write<BF16, PAIRS>(a, c + XO);
                }
            }
        } else if constexpr (STRIDE == 1) {
            const int32_t lead = a.row < 0 ? -a.row : 0; /* rows of padding: before them sums are zero */
            int32_t y = 1 - F + lead;
            const int32_t end = y + a.length - a.row - lead < rows ? y + a.length - a.row - lead : rows;
            a.window.next(lead);
            CKCI_K_UNROLL(1)
            for (; y < end; y++) {
                take<BF16, PAIRS, true, 1, F - 1, F, -1>(a, c);
                if constexpr (S::SIZE == 4) {
                    ckci_k_depth_beside(c);
                }
                if (y >= 0) {
                    write<BF16, PAIRS>(a, c);
                }
            }
            CKCI_K_UNROLL(1)
            for (; y < rows; y++) { /* after them, they are complete */
                CKCI_K_UNROLL(32)
                for (int i = 0; i < F * XO; i++) {
                    c[i] = i + XO < F * XO ? c[(i + XO) % (F * XO)] : (T)0;
                }
                if (y >= 0) {
                    write<BF16, PAIRS>(a, c);
                }
            }
        } else {
            CKCI_K_UNROLL(1)
            for (int32_t y = 1 - HALF; y < rows; y++) {
                take<BF16, PAIRS, false, 1, 2 * (HALF - 1), HALF, -2>(a, c);
                if (y >= 0) {
                    write<BF16, PAIRS>(a, c);
                }
                take<BF16, PAIRS, false, 0, 2 * (HALF - 1) - 1, HALF - 1, -2>(a, c + XO);
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &args, lds &m)
    {
        const ckci_gpu_depth &p = ckci_k_late(args);
        const ckci_gpu_depth_sheet &s = p.sheet;
        const int32_t t = (int32_t)threadIdx.x, tile = ckci_k_divide((int32_t)blockIdx.x, s.by_bands);
        const int32_t first = tile * s.count, y = ((int32_t)blockIdx.x - tile * s.bands) * s.high;
        const int32_t planes = s.planes - first < s.count ? s.planes - first : s.count;
        const int32_t rows = s.out[0] - y < s.high ? s.out[0] - y : s.high;
        const int32_t top = first_row(s, y);
        int32_t from = 0, to = s.in[0];
        if (s.bands > 1) {
            const int32_t end = end_row(s, y + rows - 1);
            from = top < 0 ? 0 : top;
            to = end < to ? end : to;
        }
        unsigned char *memory = sheet::memory(p.a, first, s.in, from);
        const int32_t in = (int32_t)sheet::FRONT + sheet::slip(p, memory);
        sheet::template rows<false>(p, p.a, m.pool + in, memory, planes, s.in, to - from, s.a_room, s.by_a);
        ckci_k_copies_end();
        memory = sheet::memory(p.o.t, first, s.out, y);
        unsigned char *out = m.pool + s.o_at + sheet::slip(p, memory);
        T *w = (T *)(m.pool + s.w_at);
        ckci_k_depth_taps taps = ckci_k_depth_find_taps<1, F, F * F>(p, !BACK && p.dim[2].gather_back);
        taps.first = first;
        taps.by_g = s.by_g;
        ckci_k_depth_stage<T, true, sheet::THREADS>(taps, w, planes * F * F);
        ckci_k_copies_wait<0>();
        __syncthreads();
        const int32_t wide = (int32_t)s.by_wide.d;
        CKCI_K_UNROLL(1)
        for (int32_t e = t; e < planes * wide; e += sheet::THREADS) {
            const int32_t plane = ckci_k_divide(e, s.by_wide), i = e - plane * wide;
            /* BACK: outputs of both phases that read the same numbers */
            const int32_t x = BACK ? (i + s.pad[1] / 2) * 2 - s.pad[1] : i * XO;
            const int32_t left = BACK ? i + s.pad[1] / 2 - (HALF - 1) : x * STRIDE - s.pad[1] - SLIP;
            const int32_t pitch = s.in[1] * (int32_t)S::SIZE;
            columns a;
            a.window.begin(m.pool, in + plane * s.a_room + (top - from) * pitch + left * (int32_t)S::SIZE,
                           left, s.in[1], pitch);
            a.pitch_out = s.out[1] * (int32_t)S::SIZE;
            a.to = out + plane * s.o_room + x * (int32_t)S::SIZE;
            a.row = top;
            a.length = to; /* stride 2 takes a row more, which no output needs */
            a.wanted = 0;
            CKCI_K_UNROLL(4)
            for (int k = 0; k < XO; k++) {
                a.wanted |= (uint32_t)((uint32_t)(x + k) < (uint32_t)s.out[1]) << k;
            }
#if defined(__HIP_DEVICE_COMPILE__)
            a.whole = (a.pitch_out | (BACK ? s.pad[1] % 2 * 4 : 0)) % 8 == 0;
            a.late = !a.whole && (t & 16);
            a.other = 4;
            if (STORED == 8 && a.late) {
                a.to += 4;
                a.other = -4;
                a.wanted = (a.wanted >> XO / 2 | a.wanted << XO / 2) & ((1u << XO) - 1);
            }
#endif
            CKCI_K_UNROLL(64)
            for (int k = 0; k < F * F; k++) {
                a.w[k] = w[plane * (F * F) + k];
            }
            const int32_t before = BACK ? y + s.pad[0] - 2 * top : 0;
            constexpr bool HALVES = S::SIZE == 2, TWO = STRIDE == 1;
            if (TWO && s.pairs) {
                if (HALVES && p.bf16) {
                    walk<HALVES, TWO>(a, rows, before);
                } else {
                    walk<false, TWO>(a, rows, before);
                }
            } else if (HALVES && p.bf16) {
                walk<HALVES, false>(a, rows, before);
            } else {
                walk<false, false>(a, rows, before);
            }
        }
        __syncthreads();
        sheet::template rows<true>(p, p.o.t, out, memory, planes, s.out, rows, s.o_room, s.by_o);
    }
};

template <class S, int F, int STRIDE, bool BACK>
struct ckci_k_resident<ckci_k_depth_sheet<S, F, STRIDE, BACK>> {
    enum { BLOCKS = F == 3 ? 7 : F == 5 ? 5 : 4 };
};

/* bwd_weight of the same: `in` and dout of `count` channels of an image, or bands of them, lie in LDS. A
   thread owns XO columns of dout and has all F x F sums of its channel in registers, for all pieces of its
   block, which are `parts` apart. */
template <class S, int F, int STRIDE> struct ckci_k_depth_sheet_weight {
    typedef typename S::T T;
    typedef ckci_k_sheet<S> sheet;
    enum { HELD = STRIDE == 1 ? F : (F + 1) / 2, XO = CKCI_DEPTH_SHEET_COLUMNS(S::SIZE, STRIDE, 0, 1) };
    enum { SLIP = STRIDE == 1 && !(sheet::EIGHTS && S::SIZE == 4) ? (F - 1) / 2 % 2 : 0 };
    enum { WINDOW = (XO - 1) * STRIDE + F };
    enum { LOADED = STRIDE == 1 ? (SLIP + WINDOW + 1) / 2 * 2 : +WINDOW };
    enum { ODD = (((F - 1) / 2 + SLIP) * S::SIZE + 3) / 4 % 2 }; /* all of them as in ckci_k_depth_sheet */

    union lds {
        typename sheet::lds rows;
        ckci_k_depth_sums<T, 1, F * F> sums;
    };

    struct columns {
        typename sheet::template numbers<LOADED, XO * STRIDE *(int)S::SIZE> in;
        typename sheet::template numbers<XO, XO *(int)S::SIZE> out; /* dout */
        int32_t row, length; /* the row of inputs that comes; those that exist */
    };

    /* A row of inputs meets the rows of dout that read it, PHASE: its place among the rows of a stride. */
    template <bool BF16, bool PAIRS, int PHASE> static CKCI_K_MEMBER void add(columns &a, const T *d, T *c)
    {
        if ((uint32_t)a.row < (uint32_t)a.length) { /* the same for all threads */
            T v[LOADED];
            a.in.template load<BF16, PAIRS, sheet::EIGHTS && STRIDE == 2, ODD>(v);
            CKCI_K_UNROLL(8)
            for (int k = 0; k < HELD; k++) {
                if (k * STRIDE + PHASE < F) {
                    CKCI_K_UNROLL(32)
                    for (int i = 0; i < F * XO; i++) {
                        T &sum = c[(k * STRIDE + PHASE) % F * F + i % F];
                        sum = ckci_k_fma(d[k * XO + i / F], v[SLIP + i / F * STRIDE + i % F], sum);
                    }
                }
            }
        }
        a.row++;
        a.in.next();
    }

    template <bool BF16, bool PAIRS> static CKCI_K_MEMBER void walk(columns &a, int32_t rows, T *c)
    {
        T d[HELD * XO];
        CKCI_K_UNROLL(32)
        for (int k = 0; k < HELD * XO; k++) {
            d[k] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t y = 0; y < rows + HELD - 1; y++) {
            CKCI_K_UNROLL(32)
            for (int k = HELD * XO - 1; k >= 0; k--) {
                d[k] = k >= XO ? d[(k + HELD * XO - XO) % (HELD * XO)] : (T)0;
            }
            if (y < rows) {
                a.out.template load<BF16, PAIRS, false>(d);
            }
            a.out.next();
            add<BF16, PAIRS, 0>(a, d, c);
            if constexpr (STRIDE == 2) {
                add<BF16, PAIRS, 1>(a, d, c);
            }
        }
    }

    /* Band and channels of a piece. */
    static CKCI_K_MEMBER void piece(const ckci_gpu_depth &args, lds &m, int32_t index, int32_t base,
                                    int32_t planes, int32_t plane, int32_t x, bool active, T *c)
    {
        const ckci_gpu_depth &p = ckci_k_late(args);
        const ckci_gpu_depth_sheet &s = p.sheet;
        const int32_t n = ckci_k_divide(index, s.by_bands), y = (index - n * s.bands) * s.high;
        const int32_t rows = s.out[0] - y < s.high ? s.out[0] - y : s.high;
        const int32_t top = y * STRIDE - s.pad[0];
        const int64_t first = (int64_t)n * p.g + base;
        int32_t from = 0, to = s.in[0];
        if (s.bands > 1) {
            const int32_t end = top + (rows - 1) * STRIDE + F;
            from = top < 0 ? 0 : top;
            to = end < to ? end : to;
        }
        int32_t in = 0, out = 0; /* in LDS */
        __syncthreads();         /* the piece before */
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 2; i++) { /* the code of copies stands once */
            const ckci_gpu_depth &late = ckci_k_late(args);
            const ckci_gpu_depth_sheet &now = late.sheet;
            const int32_t *size = i ? now.out : now.in;
            const ckci_tensor &t = i ? late.a : late.b;
            unsigned char *memory = sheet::memory(t, first, size, i ? y : from);
            in = out;
            out = (i ? now.o_at : (int32_t)sheet::FRONT) + sheet::slip(late, memory);
            sheet::template rows<false>(late, t, m.rows.pool + out, memory, planes, size,
                                        i ? rows : to - from, i ? now.o_room : now.a_room,
                                        i ? now.by_o : now.by_a);
        }
        ckci_k_copies_end();
        ckci_k_copies_wait<0>();
        __syncthreads();
        if (!active) {
            return;
        }
        const int32_t left = x * STRIDE - s.pad[1] - SLIP;
        const int32_t pitch = s.in[1] * (int32_t)S::SIZE, pitch_out = s.out[1] * (int32_t)S::SIZE;
        columns a;
        a.in.begin(m.rows.pool, in + plane * s.a_room + (top - from) * pitch + left * (int32_t)S::SIZE, left,
                   s.in[1], pitch);
        a.out.begin(m.rows.pool, out + plane * s.o_room + x * (int32_t)S::SIZE, x, s.out[1], pitch_out);
        a.row = top;
        a.length = to; /* no dout is left for rows after it */
        constexpr bool HALVES = S::SIZE == 2, TWO = STRIDE == 1;
        if (TWO && s.pairs) {
            if (HALVES && p.bf16) {
                walk<HALVES, TWO>(a, rows, c);
            } else {
                walk<false, TWO>(a, rows, c);
            }
        } else if (HALVES && p.bf16) {
            walk<HALVES, false>(a, rows, c);
        } else {
            walk<false, false>(a, rows, c);
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &args, lds &m)
    {
        const ckci_gpu_depth &p = ckci_k_late(args);
        const int32_t t = (int32_t)threadIdx.x, part = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c);
        const int32_t base = ((int32_t)blockIdx.x - part * p.tiles_c) * p.sheet.count;
        const int32_t planes = p.g - base < p.sheet.count ? p.g - base : p.sheet.count;
        const int32_t plane = ckci_k_divide(t, p.sheet.by_wide), i = t - plane * (int32_t)p.sheet.by_wide.d;
        T c[F * F];
        CKCI_K_UNROLL(64)
        for (int j = 0; j < F * F; j++) {
            c[j] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t k = part; k < p.all; k += p.parts) {
            piece(args, m, k, base, planes, plane, i * XO,
                  plane < planes && (!sheet::spread(p) || i * XO < p.sheet.out[1]), c);
        }
        const int32_t slot = plane < p.lanes_c ? i : p.lanes_p; /* threads that have no column */
        const ckci_k_depth_member w = {slot, plane, 0, base + plane, part, 0, 0, 0, plane < planes};
        ckci_k_depth_fold<S, T, 1, F, F, 1, false, sheet::EIGHTS>(p, m.sums, c, w, false);
    }
};

template <class S, int F, int STRIDE> struct ckci_k_resident<ckci_k_depth_sheet_weight<S, F, STRIDE>> {
    enum { BLOCKS = F == 3 ? 7 : F == 5 ? 5 : 4 };
};

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
        const ckci_gpu_target &o = p.o;
        if (p.o_same) {
            unsigned char *dst = o.t.p + (q.n * o.t.stride[1] + channel * o.t.stride[0] +
                                          q.z * o.t.stride[3] + q.y * o.t.stride[4] + q.x * o.t.stride[5]) *
                                             S::SIZE;
            if (p.o_vec) {
                ckci_k_vec<S, 4> v[2];
                ckci_k_depth_narrow<2>(v, c, p.bf16);
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
            ckci_k_depth_narrow<8>(v, c, p.bf16);
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
                    stage(ckci_k_again(p), m, channel, r, rows, shift);
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
                write(ckci_k_again(p), c, channel, s.q);
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

/* ---- On matrix units: f16 and bf16, strides and dilations of 1 along x and y, no filter along z.
   Rows of the tensor that is read are multiplied with bands: the matrix of element (i, k) = f[k - i], made of
   a row f of the filter, takes 16 neighbouring inputs to 16 neighbouring outputs. So for each row of the
   filter, sums[x][y] += band(k - x) * rows[k][y + r]: 16 rows of one channel are one operand of the unit, and
   the band is read from LDS at an address of each lane's own. bwd_weight is the same with rows of dout for
   those of the filter and with weights for outputs: sums[s][r] += band of dout(k - s) * rows[k][y + r], over
   all y, tiles and images.
   A block owns `channels` channels of some tiles (bwd_weight: adds up those of all its tiles). A tile's rows
   lie in LDS, a plane for each channel, whose waves each compute whole channels: where channels are
   neighbours in memory, eight of two positions come in one piece and are parted on their way into LDS.
   fwd and bwd_data: the filters lie in LDS once for all tiles, and results take the place of a channel's
   plane on their way out, so that stores are whole pieces again.
   A signal without rows is folded: rows of the unit are its stretches of 32 outputs (bwd_weight: shifts by
   16 taps), which overlap in LDS.
   Products with the zeros of a band make NaN of an infinity that lies next to the filter's window. */

/* A unit's operand whose element (i, k) is number at + k - i of a row: the lane's begin at at + lane().
   ACROSS: sums lie in a lane so that neighbours are columns; bands are then the columns. PAIRS: sums 2 i and
   2 i + 1 are neighbours. GAP: bytes that a lane loads of a row at a time, where the planner lays rows (and
   stretches of a folded one: ckci_k_depth_gaps) so many bytes apart that 16 of them lie in different banks
   of LDS; part(): where the lane's begin among 16 places. */
template <class U> struct ckci_k_band;

#if defined(CKCI_K_MFMA)
template <> struct ckci_k_band<ckci_k_mfma16> {
    enum { ACROSS = 0, PAIRS = 1, GAP = 8 };

    static CKCI_K_MEMBER int32_t part()
    {
        return (int)threadIdx.x % 64 / 16 * 8;
    }

    static CKCI_K_MEMBER int32_t lane()
    {
        return (int)threadIdx.x % 64 / 16 * 4 - (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER ckci_k_uint2 start(const uint32_t *, uint32_t)
    {
        return ckci_k_uint2();
    }

    static CKCI_K_MEMBER ckci_k_uint2 load(const uint32_t *p, uint32_t shift, const ckci_k_uint2 &)
    {
        uint32_t w[2];
        ckci_k_depth_words<2>(p, shift, w);
        return {w[0], w[1]};
    }
};
#endif

#if defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12)
template <int GFX> struct ckci_k_band<ckci_k_wmma<GFX>> {
    enum { ACROSS = 0, PAIRS = GFX != 11, GAP = 16 };
    typedef typename ckci_k_wmma<GFX>::operand operand;

    static CKCI_K_MEMBER int32_t part()
    {
        return GFX == 11 ? 0 : (int)threadIdx.x % 32 / 16 * 16;
    }

    static CKCI_K_MEMBER int32_t lane()
    {
        return (GFX == 11 ? 0 : (int)threadIdx.x % 32 / 16 * 8) - (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER operand start(const uint32_t *, uint32_t)
    {
        return operand();
    }

    static CKCI_K_MEMBER operand load(const uint32_t *p, uint32_t shift, const operand &)
    {
        constexpr int N = GFX == 11 ? 8 : 4;
        uint32_t w[N];
        ckci_k_depth_words<N>(p, shift, w);
        operand r;
        CKCI_K_UNROLL(2)
        for (int i = 0; i < N / 4; i++) {
            r.v[i] = {w[4 * i], w[4 * i + 1], w[4 * i + 2], w[4 * i + 3]};
        }
        return r;
    }
};
#endif

#if defined(CKCI_K_MMA)
template <> struct ckci_k_band<ckci_k_mma> {
    enum { ACROSS = 1, PAIRS = 1, GAP = 0 };

    static CKCI_K_MEMBER int32_t lane()
    {
        return (int)threadIdx.x % 4 * 2 - (int)threadIdx.x % 32 / 4;
    }

    /* rows 8 to 15 of the first chunk are rows 0 to 7 of `before`'s second one, 16 places before */
    /* of the operand before the first one, what load takes over */
    static CKCI_K_MEMBER ckci_k_uint4 start(const uint32_t *p, uint32_t shift)
    {
        ckci_k_uint4 r = {0, 0, 0, 0};
        ckci_k_depth_words<1>(p - 4, shift, &r.z);
        return r;
    }

    static CKCI_K_MEMBER ckci_k_uint4 load(const uint32_t *p, uint32_t shift, const ckci_k_uint4 &before)
    {
        ckci_k_uint4 r;
        ckci_k_depth_words<1>(p, shift, &r.x);
        ckci_k_depth_words<1>(p + 4, shift, &r.z);
        r.y = before.z;
        r.w = r.x;
        return r;
    }
};
#endif

/* Where a channel's plane lies in LDS. */
CKCI_K_FN int32_t ckci_k_depth_plane(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                     int32_t channel)
{
    return r.at + channel * r.plane + (channel >> 3) * x.skew;
}

/* A folded row whose stretches of 32 positions lie x.step apart, not 64 bytes: bits of the gaps in front of
   position `at` (ckci_k_depth_after). */
template <int GAP> CKCI_K_FN int32_t ckci_k_depth_gaps(const ckci_gpu_depth_box &x)
{
    if constexpr (GAP > 0) {
        return -(x.step & GAP & -x.fold);
    } else {
        return 0;
    }
}

/* Bytes of gaps in front of position `at` of a row. */
template <int GAP> CKCI_K_FN int32_t ckci_k_depth_after(int32_t at, int32_t gaps)
{
    if constexpr (GAP > 0) {
        return at / (32 / GAP) & gaps;
    } else {
        return 0;
    }
}

/* A stretch of a tensor: `rows` rows from y on, r.pieces pieces of each from x on, of `channels` channels. */
struct ckci_k_depth_stretch {
    int32_t channel, channels, n, z, y, rows, x, len_x;
};

/* How far from its first element, in bytes: the planner has checked that 32 bits hold it. */
CKCI_K_FN const unsigned char *ckci_k_depth_start(const ckci_tensor &t, const ckci_k_depth_stretch &s)
{
    return t.p + (s.channel * t.stride[0] + s.n * t.stride[1] + s.z * t.stride[3] + s.y * t.stride[4] +
                  s.x * t.stride[5]) *
                     2;
}

/* From memory into LDS and back: eight channels of two positions. GAP: ckci_k_band's. */
template <int GAP> struct ckci_k_depth_eights {
    static CKCI_K_MEMBER bool find(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                   const ckci_k_depth_stretch &s, int32_t i, int32_t *channel, int32_t *row,
                                   int32_t *pair)
    {
        int32_t rest = ckci_k_divide(i, x.by_groups);
        *channel = (i - rest * (int32_t)x.by_groups.d) * 8;
        *row = ckci_k_divide(rest, r.by_pieces);
        *pair = rest - *row * r.pieces;
        return *row < s.rows && *channel < s.channels;
    }

    static CKCI_K_MEMBER void fill(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                   const ckci_tensor &t, const ckci_k_depth_stretch &s, unsigned char *lds,
                                   int32_t gaps)
    {
        constexpr int SOME = 3;
        const unsigned char *src = ckci_k_depth_start(t, s);
        const int32_t all = s.rows * r.pieces * (int32_t)x.by_groups.d;
        const int32_t step_y = (int32_t)t.stride[4] * 2, step_x = (int32_t)t.stride[5] * 2;
        CKCI_K_UNROLL(1)
        for (int32_t first = (int32_t)threadIdx.x; first < all; first += SOME * 256) {
            ckci_k_uint4 v[SOME][2];
            int32_t to[SOME];
            CKCI_K_UNROLL(4)
            for (int j = 0; j < SOME; j++) {
                int32_t channel, row, pair;
                bool inside = find(x, r, s, first + j * 256, &channel, &row, &pair);
                to[j] = inside ? channel * r.plane + (channel >> 3) * x.skew + row * r.pitch + pair * 4 +
                                     ckci_k_depth_after<GAP>(2 * pair, gaps)
                               : -1;
                const unsigned char *p = src + (row * step_y + 2 * pair * step_x + channel * 2);
                CKCI_K_UNROLL(2)
                for (int k = 0; k < 2; k++) {
                    v[j][k] = {0, 0, 0, 0};
                    if (inside && (uint32_t)(s.x + 2 * pair + k) < (uint32_t)s.len_x) {
                        v[j][k] = *(const ckci_k_uint4 *)(p + k * step_x);
                    }
                }
            }
            CKCI_K_UNROLL(4)
            for (int j = 0; j < SOME; j++) {
                if (to[j] >= 0) {
                    part(lds + r.at + to[j], r.plane, v[j][0].x, v[j][1].x);
                    part(lds + r.at + to[j] + 2 * r.plane, r.plane, v[j][0].y, v[j][1].y);
                    part(lds + r.at + to[j] + 4 * r.plane, r.plane, v[j][0].z, v[j][1].z);
                    part(lds + r.at + to[j] + 6 * r.plane, r.plane, v[j][0].w, v[j][1].w);
                }
            }
        }
    }

    static CKCI_K_MEMBER void part(unsigned char *to, int32_t plane, uint32_t left, uint32_t right)
    {
        *(uint32_t *)to = ckci_k_halves<0>(left, right);
        *(uint32_t *)(to + plane) = ckci_k_halves<1>(left, right);
    }

    static CKCI_K_MEMBER void store(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                    const ckci_tensor &t, const ckci_k_depth_stretch &s,
                                    const unsigned char *lds, int32_t gaps)
    {
        unsigned char *dst = (unsigned char *)(uintptr_t)ckci_k_depth_start(t, s);
        const int32_t all = s.rows * r.pieces * (int32_t)x.by_groups.d;
        const int32_t step_y = (int32_t)t.stride[4] * 2, step_x = (int32_t)t.stride[5] * 2;
        CKCI_K_UNROLL(2)
        for (int32_t i = (int32_t)threadIdx.x; i < all; i += 256) {
            int32_t channel, row, pair;
            bool inside = find(x, r, s, i, &channel, &row, &pair);
            const unsigned char *from = lds + r.at + channel * r.plane + (channel >> 3) * x.skew +
                                        row * r.pitch + pair * 4 + ckci_k_depth_after<GAP>(2 * pair, gaps);
            if (!inside) {
                continue;
            }
            /* named: clang 19 leaves an array of them in scratch */
            const uint32_t w0 = word(from), w1 = word(from + r.plane), w2 = word(from + 2 * r.plane),
                           w3 = word(from + 3 * r.plane), w4 = word(from + 4 * r.plane),
                           w5 = word(from + 5 * r.plane), w6 = word(from + 6 * r.plane),
                           w7 = word(from + 7 * r.plane);
            unsigned char *p = dst + (row * step_y + 2 * pair * step_x + channel * 2);
            const int32_t left = s.len_x - s.x - 2 * pair;
            if (left > 0) {
                *(ckci_k_uint4 *)p = {ckci_k_halves<0>(w0, w1), ckci_k_halves<0>(w2, w3),
                                      ckci_k_halves<0>(w4, w5), ckci_k_halves<0>(w6, w7)};
            }
            if (left > 1) {
                *(ckci_k_uint4 *)(p + step_x) = {ckci_k_halves<1>(w0, w1), ckci_k_halves<1>(w2, w3),
                                                 ckci_k_halves<1>(w4, w5), ckci_k_halves<1>(w6, w7)};
            }
        }
    }

    static CKCI_K_MEMBER uint32_t word(const unsigned char *p)
    {
        return *(const uint32_t *)p;
    }
};

/* The same: V neighbours of a row. A wave takes whole channels. */
template <int V, int WAVE, int GAP> struct ckci_k_depth_stripes {
    typedef ckci_k_vec<ckci_k_s_half, V> vec;
    /* rows may begin at 8 bytes */
    typedef ckci_k_vec<ckci_k_s_half, GAP == 8 && V == 8 ? 4 : V> part;
    enum { PARTS = (int)vec::WORDS / (int)part::WORDS };

    /* Of a lane. Halves of stretches 0, 1, 8 and 9 lie in different banks of LDS: lanes 8 to 15 change places
       with lanes 32 to 39, 24 to 31 with 48 to 55. */
    static CKCI_K_MEMBER int32_t first_piece(int32_t gaps)
    {
        const int32_t lane = (int32_t)threadIdx.x % WAVE;
        if constexpr (PARTS == 2) {
            return lane ^ (-((lane >> 3 ^ lane >> 5) & 1) & 40 & gaps);
        } else {
            return lane;
        }
    }

    static CKCI_K_MEMBER void fill(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                   const ckci_tensor &t, const ckci_k_depth_stretch &s, unsigned char *lds,
                                   int32_t gaps)
    {
        constexpr int SOME = 4;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        constexpr bool ASYNC = V > 1;
#else
        constexpr bool ASYNC = false;
#endif
        const int32_t lane = first_piece(gaps), all = s.rows * r.pieces;
        const int32_t step_y = (int32_t)t.stride[4] * 2, step_x = (int32_t)t.stride[5] * 2;
        CKCI_K_UNROLL(1)
        for (int32_t c = (int32_t)threadIdx.x / WAVE; c < s.channels; c += 256 / WAVE) {
            const unsigned char *src = ckci_k_depth_start(t, s) + c * t.stride[0] * 2;
            unsigned char *plane = lds + ckci_k_depth_plane(x, r, c);
            CKCI_K_UNROLL(1)
            for (int32_t first = lane; first < all; first += SOME * WAVE) {
                vec v[SOME];
                unsigned char *to[SOME];
                CKCI_K_UNROLL(4)
                for (int j = 0; j < SOME; j++) {
                    int32_t i = first + j * WAVE, row = ckci_k_divide(i, r.by_pieces);
                    int32_t at = (i - row * r.pieces) * V;
                    bool inside = i < all && (uint32_t)(s.x + at) < (uint32_t)s.len_x;
                    const unsigned char *p = src + (row * step_y + at * step_x);
                    to[j] = plane + (row * r.pitch + at * 2 + ckci_k_depth_after<GAP>(at, gaps));
                    if constexpr (ASYNC) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
                        if (i < all) {
                            ckci_k_copy_late<2 * V>(to[j], p, inside);
                        }
#endif
                    } else {
                        v[j].clear();
                        if (inside) {
                            v[j].load(p);
                        }
                    }
                }
                if constexpr (PARTS == 2) {
                    if (r.pitch % 16 != 0) {
                        CKCI_K_UNROLL(4)
                        for (int j = 0; j < SOME; j++) {
                            if (first + j * WAVE < all) {
                                const part left = {{v[j].w[0], v[j].w[1]}}, right = {{v[j].w[2], v[j].w[3]}};
                                left.store(to[j]);
                                right.store(to[j] + 8);
                            }
                        }
                        continue;
                    }
                }
                if constexpr (!ASYNC) {
                    CKCI_K_UNROLL(4)
                    for (int j = 0; j < SOME; j++) {
                        if (first + j * WAVE < all) {
                            v[j].store(to[j]);
                        }
                    }
                }
            }
        }
    }

    static CKCI_K_MEMBER void store(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                    const ckci_tensor &t, const ckci_k_depth_stretch &s, unsigned char *lds,
                                    int32_t gaps)
    {
        const int32_t lane = first_piece(gaps), all = s.rows * r.pieces;
        const int32_t step_y = (int32_t)t.stride[4] * 2, step_x = (int32_t)t.stride[5] * 2;
        CKCI_K_UNROLL(1)
        for (int32_t c = (int32_t)threadIdx.x / WAVE; c < s.channels; c += 256 / WAVE) {
            unsigned char *dst = (unsigned char *)(uintptr_t)ckci_k_depth_start(t, s) + c * t.stride[0] * 2;
            const unsigned char *plane = lds + ckci_k_depth_plane(x, r, c);
            CKCI_K_UNROLL(4)
            for (int32_t i = lane; i < all; i += WAVE) {
                int32_t row = ckci_k_divide(i, r.by_pieces), at = (i - row * r.pieces) * V;
                if (s.x + at < s.len_x) {
                    vec v;
                    const unsigned char *from =
                        plane + (row * r.pitch + at * 2 + ckci_k_depth_after<GAP>(at, gaps));
                    if constexpr (PARTS == 1) {
                        v.load(from);
                    } else {
                        part left, right;
                        left.load(from);
                        right.load(from + 8);
                        v = {{left.w[0], left.w[1], right.w[0], right.w[1]}};
                    }
                    v.store(dst + (row * step_y + at * step_x));
                }
            }
        }
    }
};

template <int WAVE, int GAP>
CKCI_K_FN void ckci_k_depth_fill(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                 const ckci_tensor &t, const ckci_k_depth_stretch &s, unsigned char *lds,
                                 int32_t gaps)
{
    if (r.vec == 16) {
        ckci_k_depth_eights<GAP>::fill(x, r, t, s, lds, gaps);
    } else if (r.vec == 8) {
        ckci_k_depth_stripes<8, WAVE, GAP>::fill(x, r, t, s, lds, gaps);
    } else if (r.vec == 4) {
        ckci_k_depth_stripes<4, WAVE, GAP>::fill(x, r, t, s, lds, gaps);
    } else if (r.vec == 2) {
        ckci_k_depth_stripes<2, WAVE, GAP>::fill(x, r, t, s, lds, gaps);
    } else {
        ckci_k_depth_stripes<1, WAVE, GAP>::fill(x, r, t, s, lds, gaps);
    }
}

template <int WAVE, int GAP>
CKCI_K_FN void ckci_k_depth_empty(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                  const ckci_tensor &t, const ckci_k_depth_stretch &s, unsigned char *lds,
                                  int32_t gaps)
{
    if (r.vec == 16) {
        ckci_k_depth_eights<GAP>::store(x, r, t, s, lds, gaps);
    } else if (r.vec == 8) {
        ckci_k_depth_stripes<8, WAVE, GAP>::store(x, r, t, s, lds, gaps);
    } else if (r.vec == 4) {
        ckci_k_depth_stripes<4, WAVE, GAP>::store(x, r, t, s, lds, gaps);
    } else if (r.vec == 2) {
        ckci_k_depth_stripes<2, WAVE, GAP>::store(x, r, t, s, lds, gaps);
    } else {
        ckci_k_depth_stripes<1, WAVE, GAP>::store(x, r, t, s, lds, gaps);
    }
}

/* Sums of one channel: G groups of 16 rows, each by MX times 16 columns. */
template <class U, int MX, int G> struct ckci_k_depth_bands {
    typedef typename U::operand operand;
    typedef ckci_k_band<U> band;
    typename U::sums c[G][MX];

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(2)
        for (int g = 0; g < G; g++) {
            CKCI_K_UNROLL(2)
            for (int m = 0; m < MX; m++) {
                c[g][m] = typename U::sums();
            }
        }
    }

    template <class E>
    static CKCI_K_MEMBER void multiply(typename U::sums &d, const operand &rows, const operand &across)
    {
        if constexpr (band::ACROSS) {
            U::template multiply<E>(d, rows, across);
        } else {
            U::template multiply<E>(d, across, rows);
        }
    }

    /* count rows of bands at `bands` in LDS; at: where row 0 of group 0 meets the first of them, of `stored`
       rows at `plane`; rows and columns of the sums that are wanted. N: chunks of 16 places whose operands
       are loaded together. */
    template <class E, int N>
    CKCI_K_MEMBER void some(const ckci_gpu_depth_box &x, const unsigned char *lds, int32_t plane,
                            int32_t bands, int32_t count, int32_t at, int32_t stored, int32_t rows,
                            int32_t columns)
    {
        const int32_t lane = (int32_t)threadIdx.x % 16, index = x.origin + band::lane();
        const uint32_t shift = (uint32_t)index % 2 * 16;
        const int32_t pitch = x.t.pitch, step = x.step, from = x.from, to = x.to,
                      wide = ckci_k_afresh(x.wide), chunks = x.chunks + x.skip, fold = ckci_k_afresh(x.fold);
        const int32_t gap = MX > 1 ? ckci_k_depth_gaps<band::GAP>(x) & band::GAP : 0;
        int32_t words = bands + (index >> 1) * 4 + 32 * from;
        bool both[G];
        int32_t row[G], start[G], inner[G];
        CKCI_K_UNROLL(2)
        for (int g = 0; g < G; g++) {
            int32_t down = wide ? 0 : 16 * g, right = wide ? 32 * g : 0;
            int32_t high = down + lane < x.high ? down + lane : x.high - 1;
            start[g] = at + down; /* rows that are not wanted meet none */
            start[g] = down >= rows || right >= columns ? stored : start[g];
            row[g] =
                plane + (fold ? high : at + down + lane) * step + 32 * (from - x.skip) + (wide ? 64 * g : 0);
            both[g] = MX > 1 && right + 16 < columns;
            inner[g] = chunks - from - (wide ? 2 * g : 0);
        }
        CKCI_K_UNROLL(1)
        for (int32_t q = 0; q < count; q++) {
            int32_t none[G]; /* of its rows are there */
            int32_t kept[G]; /* bits of an address; a row that is not there: zeros of the same banks */
            if constexpr (band::GAP > 0) {
                CKCI_K_UNROLL(2)
                for (int g = 0; g < G; g++) {
                    kept[g] = fold || (uint32_t)(start[g] + lane) < (uint32_t)stored ? -1 : 127;
                    kept[g] = ckci_k_lane_afresh(kept[g]);
                    none[g] = fold ? start[g] == stored : start[g] <= -16 || start[g] >= stored;
                    none[g] = ckci_k_afresh(ckci_k_same(none[g]));
                }
            }
            CKCI_K_UNROLL(1)
            for (int32_t k = 0; k < to - from; k += N) {
                operand now[N + 1];
                now[0] = operand();
                if (band::ACROSS || MX > 1) {
                    const uint32_t *p = (const uint32_t *)(lds + words + 32 * (k - 1));
                    now[0] = band::load(p, shift, band::start(p, shift));
                }
                CKCI_K_UNROLL(4)
                for (int j = 0; j < N; j++) {
                    now[j + 1] = band::load((const uint32_t *)(lds + words + 32 * (k + j)), shift, now[j]);
                }
                CKCI_K_UNROLL(2)
                for (int g = 0; g < G; g++) {
                    if constexpr (band::GAP > 0) {
                        if (none[g]) {
                            continue;
                        }
                    } else if (fold ? start[g] == stored : start[g] <= -16 || start[g] >= stored) {
                        continue;
                    }
                    operand in[N];
                    if constexpr (band::GAP > 0) {
                        const int32_t own = (row[g] + 32 * k + k / 2 * gap + band::part()) & kept[g];
                        const int32_t left = inner[g] - k;
                        CKCI_K_UNROLL(4)
                        for (int j = 0; j < N; j++) {
                            const int32_t place = (own + j / 2 * gap) & (j < left ? -1 : 127);
                            in[j] = U::load_rows(lds + (place + 32 * j - band::part()), 0);
                        }
                    } else {
                        bool inside = fold || (uint32_t)(start[g] + lane) < (uint32_t)stored;
                        CKCI_K_UNROLL(4)
                        for (int j = 0; j < N; j++) {
                            bool there = inside && from + k + j + (wide ? 2 * g : 0) < chunks;
                            in[j] = U::load_rows(lds + (there ? row[g] + 32 * (k + j) : 0), 0);
                        }
                    }
                    CKCI_K_UNROLL(4)
                    for (int j = 0; j < N; j++) {
                        multiply<E>(c[g][0], in[j], now[j + 1]);
                    }
                    if (both[g]) {
                        CKCI_K_UNROLL(4)
                        for (int j = 0; j < N; j++) {
                            multiply<E>(c[g][MX - 1], in[j], now[j]);
                        }
                    }
                }
            }
            words += pitch;
            CKCI_K_UNROLL(2)
            for (int g = 0; g < G; g++) {
                row[g] += fold ? 0 : step;
                start[g] += start[g] < stored && !fold;
            }
        }
    }

    template <class E>
    CKCI_K_MEMBER void run(const ckci_gpu_depth_box &x, const unsigned char *lds, int32_t plane,
                           int32_t bands, int32_t count, int32_t at, int32_t stored, int32_t rows,
                           int32_t columns)
    {
        if (ckci_k_afresh(x.some) == 2) {
            some<E, 2>(x, lds, plane, bands, count, at, stored, rows, columns);
        } else {
            some<E, 4>(x, lds, plane, bands, count, at, stored, rows, columns);
        }
    }

    /* Row and column (16 of `m` in front of it) of sum i. */
    static CKCI_K_MEMBER int32_t row(int i)
    {
        return band::ACROSS ? U::row(i) : U::column(i);
    }

    static CKCI_K_MEMBER int32_t column(int i)
    {
        return band::ACROSS ? U::column(i) : U::row(i);
    }
};

struct ckci_k_depth_matrix_lds {
    alignas(16) unsigned char bytes[CKCI_DEPTH_BOX_BYTES];
};

/* Where a block works. */
struct ckci_k_depth_block {
    int32_t channel, channels, part, from, to;

    CKCI_K_MEMBER ckci_k_depth_block(const ckci_gpu_depth &p, int32_t most)
    {
        part = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c);
        channel = ((int32_t)blockIdx.x - part * p.tiles_c) * most;
        channels = p.g - channel < most ? p.g - channel : most;
        from = part * p.part;
        to = p.box.tiles - from < p.part ? p.box.tiles : from + p.part;
    }

    /* Into vector registers, for a loop; back into scalar ones, in a pass of it. */
    CKCI_K_MEMBER void hold()
    {
        channel = ckci_k_lane_afresh(channel);
        channels = ckci_k_lane_afresh(channels);
        to = ckci_k_lane_afresh(to);
    }

    CKCI_K_MEMBER ckci_k_depth_block scalar() const
    {
        ckci_k_depth_block b = *this;
        b.channel = ckci_k_same(channel);
        b.channels = ckci_k_same(channels);
        b.to = ckci_k_same(to);
        b.part = ckci_k_same(part);
        return b;
    }

    /* n, z, and the tile's place in y and x */
    static CKCI_K_MEMBER ckci_k_place find(const ckci_gpu_depth_box &x, int32_t i)
    {
        ckci_k_place q = ckci_k_decode(i, x.by_z, x.by_tiles_y, x.by_tiles_x);
        q.y *= x.tile_y;
        q.x *= x.tile_x;
        return q;
    }
};

/* A tile of fwd and bwd_data: rows y, ... of what is read, rows of sums. */
struct ckci_k_depth_tile {
    ckci_k_place q;
    int32_t at, y, rows, len_y, out_rows;

    CKCI_K_MEMBER ckci_k_depth_tile(const ckci_gpu_depth &p, int32_t i)
    {
        const ckci_gpu_depth_box &x = p.box;
        q = ckci_k_depth_block::find(x, i);
        const int32_t top = q.y - x.pad_y, end = top + x.tile_y + p.dim[1].filter - 1;
        y = top < 0 ? 0 : top;
        at = top - y;
        rows = (end < p.dim[1].read_len ? end : p.dim[1].read_len) - y;
        len_y = p.dim[1].length - q.y < x.tile_y ? p.dim[1].length - q.y : x.tile_y;
        const int32_t left = p.dim[2].length - q.x;
        out_rows = x.fold ? ((left < x.tile_x ? left : x.tile_x) + 31) / 32 : len_y;
    }
};

/* fwd and bwd_data */
template <class U> struct ckci_k_depth_matrix_unit {
    typedef ckci_k_depth_matrix_lds lds;
    enum { WAVE = U::WAVE, GAP = ckci_k_band<U>::GAP };

    /* The filters, in the type that is multiplied, with the zeros beside them. */
    static CKCI_K_MEMBER void stage(const ckci_gpu_depth &p, const ckci_k_depth_block &b, lds &m)
    {
        const ckci_gpu_depth_box &x = p.box;
        const int32_t f = p.dim[2].filter, rows = p.dim[1].filter, wide = x.t.pitch / 2;
        const int32_t all = b.channels * rows * wide;
        for (int32_t i = (int32_t)threadIdx.x; i < all; i += 256) {
            int32_t line = ckci_k_divide(i, x.t.by_pieces), s = i - line * wide - x.lead;
            int32_t channel = ckci_k_divide(line, x.by_rows), r = line - channel * rows;
            uint16_t bits = 0;
            if ((uint32_t)s < (uint32_t)f) {
                bool back = p.dim[2].gather_back != 0;
                int32_t fy = back ? rows - 1 - r : r, fx = back ? f - 1 - s : s;
                bits = *(const uint16_t *)(p.b.p + ((b.channel + channel) * p.b.stride[0] +
                                                    fy * p.b.stride[4] + fx * p.b.stride[5]) *
                                                       2);
            }
            *(uint16_t *)(m.bytes + x.t.at + channel * x.t.plane + r * x.t.pitch + 2 * (s + x.lead)) = bits;
        }
        if (threadIdx.x < CKCI_DEPTH_BOX_ZEROS / 4) {
            ((uint32_t *)m.bytes)[threadIdx.x] = 0;
        }
    }

    /* A channel's sums, into its plane. */
    template <class E, class S>
    static CKCI_K_MEMBER void keep(const ckci_gpu_depth_box &x, unsigned char *plane, const S &sums,
                                   int32_t rows, int32_t columns)
    {
        constexpr int STEP = S::band::GAP == 8 ? 4 : S::band::PAIRS ? 2 : 1;
        CKCI_K_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            const int32_t down = x.wide ? 0 : j / 2 * 16, right = (x.wide ? j / 2 * 32 : 0) + j % 2 * 16;
            if (right >= columns) {
                continue;
            }
            unsigned char *corner = plane + down * x.o.pitch + right * 2;
            CKCI_K_UNROLL(8)
            for (int i = 0; i < (int)U::SUMS; i += STEP) {
                const auto &c = sums.c[j / 2][j % 2];
                uint32_t w = ckci_k_s_half::template narrow<(int)E::TYPE == (int)CKCONV_BF16>(
                    c.v[i], c.v[i + (STEP > 1)]);
                unsigned char *to = corner + (S::row(i) * x.o.pitch + S::column(i) * 2);
                if (down + S::row(i) < rows) {
                    if constexpr (STEP == 4) {
                        uint32_t next = ckci_k_s_half::template narrow<(int)E::TYPE == (int)CKCONV_BF16>(
                            c.v[i + 2], c.v[i + 3]);
                        *(ckci_k_uint2 *)to = {w, next};
                    } else if constexpr (STEP == 2) {
                        *(uint32_t *)to = w;
                    } else {
                        *(uint16_t *)to = (uint16_t)w;
                    }
                }
            }
        }
    }

    /* With an epilogue, to where they go. */
    template <class S>
    static CKCI_K_MEMBER void write(const ckci_gpu_depth &p, const S &sums, int32_t channel,
                                    const ckci_k_place &q, int32_t rows)
    {
        const ckci_gpu_depth_box &x = p.box;
        constexpr int SUMS = (int)U::SUMS;
        float all[4 * SUMS];
        CKCI_K_UNROLL(32)
        for (int i = 0; i < 4 * SUMS; i++) {
            all[i] = sums.c[i / SUMS / 2][i / SUMS % 2].v[i % SUMS];
        }
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 4 * SUMS; i++) {
            const float v = ckci_k_pick<float, 4 * SUMS>(all, i);
            const int32_t group = i / SUMS / 2, part = i / SUMS % 2;
            const int32_t row = (x.wide ? 0 : group * 16) + S::row(i % SUMS);
            const int32_t column = (x.wide ? group * 32 : 0) + part * 16 + S::column(i % SUMS);
            const ckci_k_place at = {q.n, q.z, x.fold ? q.y : q.y + row,
                                     q.x + column + (x.fold ? 32 * row : 0)};
            if (row < rows && at.x < p.dim[2].length) {
                ckci_k_depth_write<false, float>(ckci_k_again(p), v, channel, at);
            }
        }
    }

    static CKCI_K_MEMBER void compute(const ckci_gpu_depth &p, const ckci_k_depth_block &b, lds &m,
                                      const ckci_k_depth_tile &t)
    {
        const ckci_gpu_depth_box &x = p.box;
        const int32_t left = p.dim[2].length - t.q.x;
        CKCI_K_UNROLL(1)
        for (int32_t c = ckci_k_same((int32_t)threadIdx.x / WAVE); c < b.channels; c += 256 / WAVE) {
            const int32_t plane = ckci_k_depth_plane(x, x.b, c);
            ckci_k_depth_bands<U, 2, 2> sums;
            sums.clear();
            if (p.bf16) {
                sums.template run<ckci_k_bf16>(x, m.bytes, plane, x.t.at + c * x.t.plane, p.dim[1].filter,
                                               t.at, t.rows, t.out_rows, x.fold ? 32 : left);
            } else {
                sums.template run<ckci_k_f16>(x, m.bytes, plane, x.t.at + c * x.t.plane, p.dim[1].filter,
                                              t.at, t.rows, t.out_rows, x.fold ? 32 : left);
            }
            ckci_k_wave_barrier();
            const ckci_gpu_depth &o = ckci_k_again(p);
            const int32_t rows = ckci_k_afresh(t.out_rows);
            if (o.o_same && o.bf16) {
                keep<ckci_k_bf16>(o.box, m.bytes + plane, sums, rows, o.box.fold ? 32 : left);
            } else if (o.o_same) {
                keep<ckci_k_f16>(o.box, m.bytes + plane, sums, rows, o.box.fold ? 32 : left);
            } else {
                write(o, sums, b.channel + c, t.q, rows);
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        ckci_k_depth_block kept(p, p.box.channels);
        stage(p, kept, m);
        kept.hold();
        CKCI_K_UNROLL(1)
        for (int32_t i = kept.from; i < ckci_k_same(kept.to); i++) {
            const ckci_k_depth_block b = kept.scalar();
            {
                const ckci_gpu_depth &u = ckci_k_again(p), &v = ckci_k_again(p);
                ckci_k_depth_tile t(u, i);
                const ckci_k_depth_stretch in = {
                    b.channel, b.channels, t.q.n, t.q.z, t.y, t.rows, t.q.x - u.box.back, u.dim[2].read_len};
                ckci_k_depth_fill<WAVE, GAP>(u.box, u.box.b, u.a, in, m.bytes, ckci_k_depth_gaps<GAP>(u.box));
                ckci_k_copies_end();
                ckci_k_copies_wait<0>();
                __syncthreads();
                t.q.n = ckci_k_lane_afresh(t.q.n); /* only the epilogue needs them now */
                t.q.z = ckci_k_lane_afresh(t.q.z);
                t.q.y = ckci_k_lane_afresh(t.q.y);
                compute(v, b, m, t);
                __syncthreads();
            }
            const ckci_gpu_depth &w = ckci_k_again(p);
            if (w.o_same) {
                const ckci_k_depth_tile t(w, ckci_k_afresh(i));
                const ckci_k_depth_stretch out = {b.channel, b.channels, t.q.n, t.q.z,
                                                  t.q.y,     t.len_y,    t.q.x, w.dim[2].length};
                ckci_k_depth_empty<WAVE, GAP>(w.box, w.box.o, w.o.t, out, m.bytes,
                                              ckci_k_depth_gaps<GAP>(w.box));
                __syncthreads();
            }
        }
    }
};

/* bwd_weight. MX: 16 columns of the filter, G: 16 rows, SLOTS: channels of a wave. Channels last, AMD: a
   block has twice as many (p.halves), which share lines of memory, and takes them one after the other tile by
   tile; their sums take turns, so that the code stands once. */
template <class U, int MX, int G> struct ckci_k_depth_matrix_weight_unit {
    typedef ckci_k_depth_matrix_lds lds;
    enum { WAVE = U::WAVE, WAVES = 256 / WAVE, SLOTS = (MX == 2 ? 8 : 16) / WAVES };
    enum { GAP = ckci_k_band<U>::GAP, AMD = GAP != 0, HALVES = AMD && MX == 1 ? 2 : 1 };
    typedef ckci_k_depth_bands<U, MX, G> bands;

    static CKCI_K_MEMBER ckci_k_depth_block half(const ckci_gpu_depth &p, const ckci_k_depth_block &all,
                                                 int h)
    {
        ckci_k_depth_block b = all;
        b.channel += h * p.box.channels;
        b.channels -= h * p.box.channels;
        b.channels = b.channels < p.box.channels ? b.channels : p.box.channels;
        return b;
    }

    static CKCI_K_MEMBER void turn(const ckci_gpu_depth &p, bands *sums)
    {
        if (p.halves > 1) {
            CKCI_K_UNROLL(4)
            for (int s = 0; s < (int)SLOTS; s++) {
                const bands other = sums[s];
                sums[s] = sums[SLOTS + s];
                sums[SLOTS + s] = other;
            }
        }
    }

    template <class E>
    static CKCI_K_MEMBER void multiply(const ckci_gpu_depth &p, int32_t channels, lds &m, bands *sums,
                                       int32_t len_y, int32_t above, int32_t rows)
    {
        CKCI_K_UNROLL(4)
        for (int s = 0; s < (int)SLOTS; s++) {
            int32_t c = (int32_t)threadIdx.x / WAVE + s * WAVES;
            if (c < channels) {
                const ckci_gpu_depth &own = AMD ? ckci_k_again(p) : p;
                const ckci_gpu_depth_box &x = own.box;
                sums[s].template run<E>(x, m.bytes, ckci_k_depth_plane(x, x.b, c),
                                        ckci_k_depth_plane(x, x.t, c), len_y, above, rows,
                                        x.fold ? 16 : own.dim[1].filter, x.fold ? 16 : own.dim[2].filter);
            }
        }
    }

    /* Tile i. Inputs and dout come one after the other, so that the code stands once. */
    static CKCI_K_MEMBER void tile(const ckci_gpu_depth &p, const ckci_gpu_depth_box &x,
                                   const ckci_k_depth_block &all, lds &m, bands *sums, int32_t i)
    {
        CKCI_K_UNROLL(1)
        for (int douts = 0; douts < 2; douts++) { /* scalar registers do not hold all of it all along */
            const ckci_k_depth_tile t(p, ckci_k_afresh(i));
            const ckci_k_depth_block c = AMD ? all.scalar() : all;
            const ckci_k_depth_stretch stretch = {c.channel,
                                                  c.channels,
                                                  t.q.n,
                                                  t.q.z,
                                                  douts ? t.q.y : t.y,
                                                  douts ? t.len_y : t.rows,
                                                  t.q.x - (douts ? x.lead : x.back),
                                                  douts ? p.dim[2].length : p.dim[2].read_len};
            ckci_k_depth_fill<WAVE, GAP>(x, douts ? x.t : x.b, douts ? p.a : p.b, stretch, m.bytes, 0);
        }
        ckci_k_copies_end();
        ckci_k_copies_wait<0>();
        __syncthreads();
        const ckci_gpu_depth &v = AMD ? ckci_k_again(p) : p;
        const ckci_k_depth_tile t(v, ckci_k_afresh(i));
        const int32_t channels = AMD ? ckci_k_same(all.channels) : all.channels;
        if (v.bf16) {
            multiply<ckci_k_bf16>(v, channels, m, sums, t.len_y, t.at, t.rows);
        } else {
            multiply<ckci_k_f16>(v, channels, m, sums, t.len_y, t.at, t.rows);
        }
        __syncthreads();
    }

    static CKCI_K_MEMBER void tiles(const ckci_gpu_depth &args, ckci_k_depth_block &b, lds &m, bands *sums)
    {
        const ckci_gpu_depth_box &box = args.box;
        if constexpr (HALVES > 1) {
            b.from *= args.halves;
            b.to *= args.halves;
        }
        if constexpr (AMD) { /* scalar registers hold no more */
            b.hold();
            b.part = ckci_k_lane_afresh(b.part);
        }
        CKCI_K_UNROLL(1)
        for (int32_t i = b.from; i < (AMD ? ckci_k_same(b.to) : b.to); i++) {
            const ckci_gpu_depth &p = ckci_k_again(args);
            if constexpr (HALVES > 1) {
                const int32_t whole = p.halves > 1 ? i >> 1 : i;
                tile(p, ckci_k_again(box), half(p, b, i - whole * p.halves), m, sums, whole);
                turn(ckci_k_again(args), sums);
            } else {
                tile(p, ckci_k_again(box), b, m, sums, i);
            }
        }
    }

    /* Some tiles at a time, see ckci_k_matrix_weight_pieces in kernels.matrix.hip.h. */
    static CKCI_K_MEMBER void run(const ckci_gpu_depth &args, lds &m)
    {
        int32_t done = 0; /* of the part's tiles */
        CKCI_K_UNROLL(1)
        for (;;) {
            const ckci_gpu_depth &p = ckci_k_again(args);
            ckci_k_depth_block b(p, HALVES > 1 ? p.halves * p.box.channels : p.box.channels);
            b.from += done;
            const int32_t left = b.to - b.from, some = p.chain && p.chain < left ? p.chain : left;
            b.to = b.from + some;
            bands sums[HALVES * SLOTS];
            CKCI_K_UNROLL(8)
            for (int s = 0; s < (int)(HALVES * SLOTS); s++) {
                sums[s].clear();
            }
            if (threadIdx.x < CKCI_DEPTH_BOX_ZEROS / 4) {
                ((uint32_t *)m.bytes)[threadIdx.x] = 0;
            }
            tiles(p, b, m, sums);
            if constexpr (HALVES > 1) {
                CKCI_K_UNROLL(1)
                for (int h = 0; h < ckci_k_again(p).halves; h++) {
                    finish(p, half(ckci_k_again(p), b.scalar(), h), done > 0, (float *)m.bytes, sums);
                    turn(ckci_k_again(p), sums);
                }
            } else {
                finish(p, AMD ? b.scalar() : b, done > 0, (float *)m.bytes, sums);
            }
            if (left <= some) {
                return;
            }
            done += some;
            __syncthreads(); /* the sums in LDS are stored */
        }
    }

    /* All sums into LDS, [channel][row][column], one more for each row and channel so that neither lanes that
       store nor those that load meet in the banks; and from there to neighbouring channels. more: to what the
       part holds. */
    static CKCI_K_MEMBER void finish(const ckci_gpu_depth &args, const ckci_k_depth_block &b, bool more,
                                     float *all, const bands *sums)
    {
        enum { COLUMNS = 16 * MX, ROWS = 16 * G, LINE = COLUMNS + 1, PITCH = ROWS * LINE + 1 };
        enum { CHANNELS = WAVES * SLOTS };
        static_assert(CHANNELS * PITCH * 4 <= CKCI_DEPTH_BOX_BYTES, "they fit");
        const ckci_gpu_depth &p = ckci_k_late(args);
        __syncthreads(); /* without tiles: the zeros */
        CKCI_K_UNROLL(4)
        for (int s = 0; s < (int)SLOTS; s++) {
            float *plane = all + ((int)threadIdx.x / WAVE + s * WAVES) * PITCH;
            CKCI_K_UNROLL(4)
            for (int j = 0; j < MX * G; j++) {
                CKCI_K_UNROLL(8)
                for (int i = 0; i < (int)U::SUMS; i++) {
                    plane[(j / MX * 16 + bands::row(i)) * LINE + j % MX * 16 + bands::column(i)] =
                        sums[s].c[j / MX][j % MX].v[i];
                }
            }
        }
        __syncthreads();
        CKCI_K_UNROLL(1)
        for (int32_t e = (int32_t)threadIdx.x; e < ROWS * COLUMNS * CHANNELS; e += 256) {
            const int32_t c = e % CHANNELS, at = e / CHANNELS;
            /* fold: MX is 1, and a row goes on in the next one */
            const int32_t row = p.box.fold ? 0 : at / COLUMNS, column = p.box.fold ? at : at % COLUMNS;
            if (c < b.channels && row < p.dim[1].filter && column < p.dim[2].filter) {
                const int32_t tap = row * p.dim[2].filter + column;
                float sum = all[c * PITCH + at + at / COLUMNS];
                if (more) {
                    sum += ((const float *)
                                p.o.partial)[((int64_t)b.part * p.taps + tap) * p.g + b.channel + c];
                }
                ckci_k_depth_put<ckci_k_s_half, float>(p, sum, b.part, tap, b.channel + c);
            }
        }
    }
};

/* The kernels, with the unit of the target; without one they are empty, and no plan takes them. */
#if defined(CKCI_SIMULATOR)
template <template <class> class Body>
struct ckci_k_depth_by_unit
    : ckci_k_by_unit<Body<ckci_k_mfma16>, Body<ckci_k_wmma<11>>, Body<ckci_k_wmma<12>>, Body<ckci_k_mma>> {
};
#elif defined(CKCI_K_MFMA)
template <template <class> class Body> struct ckci_k_depth_by_unit : Body<ckci_k_mfma16> {
};
#elif defined(CKCI_K_WMMA)
template <template <class> class Body> struct ckci_k_depth_by_unit : Body<ckci_k_wmma<11>> {
};
#elif defined(CKCI_K_WMMA12)
template <template <class> class Body> struct ckci_k_depth_by_unit : Body<ckci_k_wmma<12>> {
};
#elif defined(CKCI_K_MMA)
template <template <class> class Body> struct ckci_k_depth_by_unit : Body<ckci_k_mma> {
};
#else
template <template <class> class Body> struct ckci_k_depth_by_unit : ckci_k_nothing {
};
#endif
template <class U> struct ckci_k_depth_matrix_small : ckci_k_depth_matrix_weight_unit<U, 1, 1> {
};
template <class U> struct ckci_k_depth_matrix_large : ckci_k_depth_matrix_weight_unit<U, 2, 2> {
};
struct ckci_k_depth_matrix : ckci_k_depth_by_unit<ckci_k_depth_matrix_unit> {
};
template <int LARGE> struct ckci_k_depth_matrix_weight;
template <> struct ckci_k_depth_matrix_weight<0> : ckci_k_depth_by_unit<ckci_k_depth_matrix_small> {
};
template <> struct ckci_k_depth_matrix_weight<1> : ckci_k_depth_by_unit<ckci_k_depth_matrix_large> {
};
template <> struct ckci_k_resident<ckci_k_depth_matrix> {
    enum { BLOCKS = 3 };
};
template <int LARGE> struct ckci_k_resident<ckci_k_depth_matrix_weight<LARGE>> {
    enum { BLOCKS = LARGE ? 2 : 3 };
};

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


/*------------------------------------------------------------------------------------------------------------
  >>k-pair
  conv_conv_fwd in one launch: the tile loop of the second, 1x1 convolution, whose left operand is not loaded
  but computed: each thread computes mid at four channels of one position (a direct sum, then scale, shift,
  operation and the rounding to the compute type) and stores it into LDS. mid never passes through memory; the
  blocks of the first columns copy it out when the caller asked. Every 64 output channels compute mid again,
  so this is for few output channels, cheap first convolutions, or no workspace.
*/

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
    const ckci_gpu_conv &p = ckci_k_again(a.first);
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
            const ckci_gpu_conv &u = ckci_k_again(p);
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

/* ---- On matrix units: f16 and bf16, channels last, a depthwise or a small pointwise first convolution, a
   pointwise second one. A block owns P positions of the result and all of its channels (or a slice). mid of
   these positions in all channels lies in LDS, in slabs of KB bytes of each row, as the unit's operands. It
   is multiplied with tiles of so many rows of the second weights, slab after slab; these are loaded one step
   ahead, across tiles too. Sums pass through LDS on their way out, each
   wave's through its own part, so that each store is 16 bytes. Every output is one sum in a fixed order. */

/* Rows of the second weights, COLUMNS of them in a tile: [tile][slab], one after the other, on their way to
   one of two places. */
template <class U, int THREADS, int COLUMNS> struct ckci_k_pair_weights {
    enum {
        KB = U::KB,
        SLAB = KB / 2,
        CHUNKS = KB / 16,
        EACH = THREADS / CHUNKS, /* rows that the block handles at a time */
        B = COLUMNS / EACH,
        TILE = COLUMNS * KB
    };
    static_assert(B >= 1, "all threads load");

    int32_t from[2]; /* the weights' address: a window takes four scalar registers, for long */
    ckci_k_uint4 raw[B];
    int32_t steps, slabs, columns, channels, column_step; /* of the tiles that are being multiplied */
    int32_t stage;                                        /* where the weights of the next step lie: 0, 1 */
    bool there;                                           /* all that the next region needs lie in LDS */

    CKCI_K_MEMBER void begin(const ckci_gpu_conv &p, int32_t column, int32_t count)
    {
        const uint64_t at = (uint64_t)(uintptr_t)(p.b.p + CKCI_K_HALF * (column * p.b_column));
        from[0] = ckci_k_lane_afresh((int32_t)(uint32_t)at);
        from[1] = ckci_k_lane_afresh((int32_t)(uint32_t)(at >> 32));
        columns = ckci_k_lane_afresh(count);
        channels = ckci_k_lane_afresh(p.red);
        column_step = ckci_k_lane_afresh(CKCI_K_HALF * (int32_t)p.b_column);
        slabs = (p.red + SLAB - 1) / SLAB;
        steps = (count + COLUMNS - 1) / COLUMNS * slabs;
        stage = 0;
        there = false;
    }

    /* Slab `slab` of tile `tile`: copied into LDS, or under way in registers. */
    CKCI_K_MEMBER void fetch(int32_t tile, int32_t slab, unsigned char *to)
    {
        const int32_t chunk = (int32_t)threadIdx.x % CHUNKS, lane = (int32_t)threadIdx.x / CHUNKS;
        const int32_t channel = slab * SLAB + chunk * 8;
        const ckci_k_window weights = ckci_k_make_window(
            (const unsigned char *)(uintptr_t)((uint64_t)(uint32_t)from[1] << 32 | (uint32_t)from[0]));
        CKCI_K_UNROLL(4)
        for (int i = 0; i < B; i++) {
            int32_t row = lane + i * EACH, column = tile * COLUMNS + row;
            bool good = channel < channels && column < columns;
            int32_t at = good ? column * column_step + channel * CKCI_K_HALF : INT32_MIN;
            if constexpr (U::ASYNC) {
#if defined(CKCI_K_MMA)
                ckci_k_copy(to + ckci_k_spot<KB>(row, chunk), weights, good ? at : 0, good ? 16 : 0);
#endif
            } else {
                raw[i] = ckci_k_window_load(weights, at);
            }
        }
#if defined(CKCI_K_MMA)
        if constexpr (U::ASYNC) {
            ckci_k_copies_end();
        }
#endif
        (void)to;
    }

    /* The first ones, ahead of run; ahead: steps that are to be multiplied before them, 0 or 1. */
    CKCI_K_MEMBER void fetch_first(unsigned char *tiles, int32_t ahead = 0)
    {
        if (U::ASYNC && !there) {
            fetch(0, 0, tiles + (stage ^ ahead) * TILE);
        }
    }

    CKCI_K_MEMBER void put(unsigned char *to) const
    {
        const int32_t chunk = (int32_t)threadIdx.x % CHUNKS, lane = (int32_t)threadIdx.x / CHUNKS;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < B; i++) {
            *(ckci_k_uint4 *)(to + ckci_k_spot<KB>(lane + i * EACH, chunk)) = raw[i];
        }
    }
};

/* Products of mid and those tiles: waves own 32 rows each. */
template <class E, class U, int P, int THREADS, int COLUMNS>
struct ckci_k_pair_product : ckci_k_pair_weights<U, THREADS, COLUMNS> {
    typedef ckci_k_pair_weights<U, THREADS, COLUMNS> rows;
    using rows::stage, rows::there, rows::steps, rows::slabs, rows::TILE, rows::KB;
    enum {
        WAVES = THREADS / U::WAVE,
        ACROSS = WAVES / (P / 32), /* waves side by side */
        TM = 32 / U::M,
        TN = COLUMNS / ACROSS / U::N,
        STRIP = THREADS > 256 ? 16 : 32, /* columns that pass through LDS together */
        ROOM = WAVES * U::M * STRIP * 4
    };
    static_assert(TM >= 1 && TN * U::N % STRIP == 0, "whole fragments and strips");
    static_assert(2 * TILE <= ROOM || U::ASYNC, "where weights come through registers, they share the room");

    typename U::sums sum[TM][TN];

    CKCI_K_MEMBER void multiply(const unsigned char *slab, const unsigned char *tile)
    {
        int wave = (int)threadIdx.x / U::WAVE, row = wave / ACROSS * 32,
            column = wave % ACROSS * (COLUMNS / ACROSS);
        CKCI_K_UNROLL(8)
        for (int at = 0; at < U::KB; at += U::STEP) {
            typename U::operand a[TM], b[TN];
            CKCI_K_UNROLL(8)
            for (int i = 0; i < TM; i++) {
                a[i] = U::load(slab, row + i * U::M, at);
            }
            CKCI_K_UNROLL(8)
            for (int j = 0; j < TN; j++) {
                b[j] = U::load(tile, column + j * U::N, at);
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < TM; i++) {
                CKCI_K_UNROLL(8)
                for (int j = 0; j < TN; j++) {
                    U::template multiply<E>(sum[i][j], a[i], b[j]);
                }
            }
        }
    }

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < TM * TN; i++) {
            CKCI_K_UNROLL(16)
            for (int e = 0; e < U::SUMS; e++) {
                sum[i / TN][i % TN].v[e] = 0;
            }
        }
    }

    /* All tiles; out(row, column, eight sums in LDS); meanwhile() is called once, before the last products.
       The first fetch is under way, or there for all threads if ready. */
    template <class Out, class Meanwhile>
    CKCI_K_MEMBER void run(const unsigned char *mid, unsigned char *tiles, float *room, bool ready,
                           const Out &out, const Meanwhile &meanwhile)
    {
        int32_t tile = 0, slab = 0;
        stage = there || !U::ASYNC ? 0 : stage;
        if constexpr (!U::ASYNC) {
            this->fetch(0, 0, NULL);
            __syncthreads(); /* others read what lay there */
            this->put(tiles);
        }
        clear();
        CKCI_K_UNROLL(1)
        for (int32_t s = 0; s < steps; s++) {
            const bool last = slab + 1 == slabs;
            const int32_t next_tile = last ? tile + 1 : tile, next = last ? 0 : slab + 1;
            unsigned char *now = tiles + stage * TILE, *other = tiles + (stage ^ 1) * TILE;
            if (!U::ASYNC || s > 0 || !ready) {
                ckci_k_copies_wait<0>();
                __syncthreads();
            }
            if (s + 1 == steps) {
                meanwhile();
            } else if (!there) {
                this->fetch(next_tile, next, other);
            }
            multiply(mid + slab * (P * KB), now);
            if (last) {
                write(room, tile * COLUMNS, out);
                clear();
            }
            if constexpr (!U::ASYNC) {
                if (last) {
                    __syncthreads();
                }
                if (s + 1 < steps) {
                    this->put(other);
                }
            }
            stage ^= 1;
            tile = next_tile;
            slab = next;
        }
    }

    /* Sums through LDS, STRIP columns of M rows for each wave at a time, always from the first sums, which
       the next ones follow, so that `out` stands once; eights of columns are permuted. */
    template <class Out> CKCI_K_MEMBER void write(float *room, int32_t column0, const Out &out)
    {
        enum { EIGHTS = STRIP / 8, HOLDS = STRIP / U::N, STRIPS = TN / HOLDS, ALL = TM * TN };
        int wave = (int)threadIdx.x / U::WAVE, lane = (int)threadIdx.x % U::WAVE;
        float *strip = room + wave * U::M * STRIP;
        column0 = ckci_k_lane_afresh(column0 + wave % ACROSS * (COLUMNS / ACROSS));
        __syncthreads(); /* others multiply: weights may lie in the room, and `out` may write mid */
        CKCI_K_UNROLL(1)
        for (int q = 0; q < TM * STRIPS; q++) {
            ckci_k_wave_barrier();
            CKCI_K_UNROLL(4)
            for (int s = 0; s < HOLDS; s++) {
                CKCI_K_UNROLL(16)
                for (int e = 0; e < U::SUMS; e++) {
                    int row = U::row(e), column = s * U::N + U::column(e);
                    strip[row * STRIP + (column ^ row % EIGHTS * 8)] = sum[0][s].v[e];
                }
            }
            CKCI_K_UNROLL(16)
            for (int s = 0; s + HOLDS < ALL; s++) {
                sum[s / TN][s % TN] = sum[(s + HOLDS) / TN][(s + HOLDS) % TN];
            }
            ckci_k_wave_barrier();
            CKCI_K_UNROLL(1)
            for (int e = lane; e < U::M * EIGHTS; e += U::WAVE) {
                int row = e / EIGHTS, column = e % EIGHTS * 8;
                out(wave / ACROSS * 32 + q / STRIPS * U::M + row, column0 + q % STRIPS * STRIP + column,
                    strip + row * STRIP + (column ^ row % EIGHTS * 8));
            }
        }
    }
};

/* Coordinates of one word: x and y below 512, z and n below 32, each with a guard above it. Compared all at
   once with bounds: a guard tells that a subtraction did not borrow. */
struct ckci_k_pair_fields {
    enum : uint32_t { GUARDS = 0x82080200u, ONES = 0x04100401u, NOTHING = GUARDS - ONES };

    static CKCI_K_MEMBER uint32_t word(int32_t n, int32_t z, int32_t y, int32_t x)
    {
        return (uint32_t)n << 26 | (uint32_t)z << 20 | (uint32_t)y << 10 | (uint32_t)x;
    }

    /* A bound for below: all coordinates are less than these, of which no more than 511 and 31 count. */
    static CKCI_K_MEMBER uint32_t bound(int32_t n, int32_t z, int32_t y, int32_t x)
    {
        return word(clip(n, 31), clip(z, 31), clip(y, 511), clip(x, 511)) + GUARDS - ONES;
    }

    static CKCI_K_MEMBER int32_t clip(int32_t x, int32_t most)
    {
        x = x < most ? x : most;
        return x < 0 ? 0 : x;
    }

    static CKCI_K_MEMBER bool below(uint32_t at, uint32_t bound)
    {
        return ((bound - at) & GUARDS) == GUARDS;
    }

    static CKCI_K_MEMBER bool inside(uint32_t at, uint32_t low, uint32_t bound)
    {
        return (((at | GUARDS) - low) & (bound - at) & GUARDS) == GUARDS;
    }
};

#if defined(CKCI_K_MMA)
/* NVIDIA: sums of a group of four waves, 64 columns of P positions; a wave has 16 of 64 positions. */
template <class E, class U, int P, int HELD> struct ckci_k_pair_group {
    enum { KB = U::KB, STRAIGHT = 0, WIDE = 64 / U::N };
    static_assert(P == 64 && U::M == 16 && U::N == 16, "a wave's rows are one fragment's");
    typename U::sums sum[WIDE];
    int32_t group;

    CKCI_K_MEMBER ckci_k_pair_group()
    {
        group = (int32_t)threadIdx.x / 128;
    }

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < WIDE; i++) {
            CKCI_K_UNROLL(16)
            for (int e = 0; e < U::SUMS; e++) {
                sum[i].v[e] = 0;
            }
        }
    }

    CKCI_K_MEMBER void start()
    {
    }

    CKCI_K_MEMBER void commit()
    {
    }

    CKCI_K_MEMBER void wait()
    {
    }

    CKCI_K_MEMBER void meet() const
    {
    }

    CKCI_K_MEMBER void multiply(const unsigned char *columns, const unsigned char *positions)
    {
        CKCI_K_UNROLL(1)
        for (int at = 0; at < KB; at += U::STEP) {
            const typename U::operand a = U::load(positions, (int)threadIdx.x / 32 % 4 * 16, at);
            CKCI_K_UNROLL(4)
            for (int j = 0; j < WIDE; j++) {
                U::template multiply<E>(sum[j], a, U::load(columns, j * 16, at));
            }
        }
    }

    /* out(position, this group's column, eight sums in LDS); room: of all waves, 1024 bytes each. */
    template <class Out> CKCI_K_MEMBER void write(float *room, const Out &out)
    {
        const int wave = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
        float *strip = room + wave * 256;
        CKCI_K_UNROLL(4)
        for (int q = 0; q < WIDE; q++) {
            ckci_k_wave_barrier();
            CKCI_K_UNROLL(16)
            for (int e = 0; e < U::SUMS; e++) {
                strip[U::row(e) * 16 + U::column(e)] = sum[q].v[e];
            }
            ckci_k_wave_barrier();
            out(wave % 4 * 16 + lane / 2, q * 16 + lane % 2 * 8, strip + lane / 2 * 16 + lane % 2 * 8);
        }
    }
};
#endif

#if defined(CKCI_K_WGMMA)
/* Groups own 64 columns of a tile and all positions. */
struct ckci_k_mma_groups : ckci_k_mma {
};

/* sm_90a: an instruction's rows are columns, as in ckci_k_groups. Sums that need no epilogue are rounded and
   turned in blocks of 8 x 8 on their way to LDS, HELD positions at a time. */
template <class E, int P, int HELD> struct ckci_k_pair_group<E, ckci_k_mma_groups, P, HELD> {
    enum { KB = 128, STRAIGHT = 1 };
    float sum[P / 2];
    int32_t group; /* the same for all of a wave, as compilers see */

    CKCI_K_MEMBER ckci_k_pair_group()
    {
        group = (int32_t)threadIdx.x / 128;
#if defined(__CUDA_ARCH__)
        group = __shfl_sync(0xffffffffu, group, 0);
#endif
    }

    CKCI_K_MEMBER void hold()
    {
#if defined(__CUDA_ARCH__)
        CKCI_K_UNROLL(128)
        for (int i = 0; i < P / 2; i++) {
            asm volatile("" : "+f"(sum[i])::"memory");
        }
#endif
    }

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(128)
        for (int i = 0; i < P / 2; i++) {
            sum[i] = 0;
        }
    }

    /* Products from start() on are under way until wait(). */
    CKCI_K_MEMBER void start()
    {
        hold();
#if defined(__CUDA_ARCH__)
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
    }

    CKCI_K_MEMBER void wait()
    {
#if defined(__CUDA_ARCH__)
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
        hold();
    }

    CKCI_K_MEMBER void commit()
    {
#if defined(__CUDA_ARCH__)
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
    }

    /* 64 channels of 64 columns and P positions, each a row of KB bytes in LDS. */
    CKCI_K_MEMBER void multiply(const unsigned char *columns, const unsigned char *positions)
    {
#if defined(__CUDA_ARCH__)
        const uint32_t a = (uint32_t)__cvta_generic_to_shared(columns) >> 4,
                       b = (uint32_t)__cvta_generic_to_shared(positions) >> 4;
#endif
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
#if defined(CKCI_SIMULATOR)
            sim_wgmma_m64nNk16<E>(sum, columns + i * 32, positions + i * 32, P, false, false);
#else
            ckci_k_multiply_groups<E, P, 0>(sum, ckci_k_describe(a + (uint32_t)i * 2),
                                            ckci_k_describe(b + (uint32_t)i * 2));
#endif
        }
    }

    CKCI_K_MEMBER void meet() const
    {
#if defined(__CUDA_ARCH__)
        asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
#elif defined(CKCI_SIMULATOR)
        sim_group_barrier(group);
#endif
    }

    /* place.find(position, at): *at is where this thread's eight columns go, if anywhere. room: of all
       groups. */
    template <class Place> CKCI_K_MEMBER void write16(unsigned char *room, const Place &place)
    {
        const int thread = ckci_k_again((int32_t)threadIdx.x) % 128, lane = thread % 32, r0 = thread / 8,
                  c = thread % 8;
        const int eights = thread / 32 * 2 + lane / 8 % 2, row = lane / 16 * 8 + lane % 8;
        room += group * HELD * 128;
        unsigned char *to = room + row * 128 + (eights ^ (lane & 7)) * 16;
        const unsigned char *mine = room + r0 * 128 + (c ^ (r0 & 7)) * 16;
        CKCI_K_UNROLL(4)
        for (int h = 0; h < P / HELD; h++) {
            CKCI_K_UNROLL(8)
            for (int j = 0; j < HELD / 8; j += 2) {
                const float *from_sum = sum + (h * (HELD / 8) + j) * 4;
                uint32_t two[4];
                CKCI_K_UNROLL(4)
                for (int i = 0; i < 4; i++) {
                    two[i] =
                        ckci_k_two(E::TYPE, ckci_k_bits(from_sum[2 * i]), ckci_k_bits(from_sum[2 * i + 1]));
                }
#if defined(CKCI_SIMULATOR)
                sim_stmatrix_x4_trans(to + j * 1024, two);
#else
                asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                                 (uint32_t)__cvta_generic_to_shared(to + j * 1024)),
                             "r"(two[0]), "r"(two[1]), "r"(two[2]), "r"(two[3])
                             : "memory");
#endif
            }
            unsigned char *at[HELD / 16]; /* rows first, then numbers, then stores: none waits for another */
            bool good[HELD / 16];
            ckci_k_uint4 v[HELD / 16];
            CKCI_K_UNROLL(4)
            for (int r = 0; r < HELD / 16; r++) {
                good[r] = place.find((uint32_t)(h * HELD) + r0 + (uint32_t)r * 16, &at[r]);
            }
            meet();
            CKCI_K_UNROLL(4)
            for (int r = 0; r < HELD / 16; r++) {
                v[r] = *(const ckci_k_uint4 *)(mine + r * 16 * 128);
            }
            CKCI_K_UNROLL(4)
            for (int r = 0; r < HELD / 16; r++) {
                if (good[r]) {
                    *(ckci_k_uint4 *)at[r] = v[r];
                }
            }
            if (h + 1 < P / HELD) {
                meet();
            }
        }
    }

    /* out(position, this group's column, eight sums in LDS): 16 positions of a wave's 16 columns together. */
    template <class Out> CKCI_K_MEMBER void write(float *room, const Out &out)
    {
        const int wave = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
        float *strip = room + wave * 256;
        CKCI_K_UNROLL(1)
        for (int q = 0; q < P / 16; q++) {
            ckci_k_wave_barrier();
            CKCI_K_UNROLL(64)
            for (int i = 0; i < P / 2; i++) { /* sums stay where they are */
                if (i / 8 == q) {
                    strip[(i % 8 / 4 * 8 + lane % 4 * 2 + i % 2) * 16 + i % 4 / 2 * 8 + lane / 4] = sum[i];
                }
            }
            ckci_k_wave_barrier();
            out(q * 16 + lane / 2, wave % 4 * 16 + lane % 2 * 8, strip + lane / 2 * 16 + lane % 2 * 8);
        }
    }
};

template <class E, int THREADS, int COLUMNS>
struct ckci_k_pair_product<E, ckci_k_mma_groups, 128, THREADS, COLUMNS>
    : ckci_k_pair_weights<ckci_k_mma, THREADS, COLUMNS> {
    typedef ckci_k_pair_weights<ckci_k_mma, THREADS, COLUMNS> rows;
    using rows::stage, rows::there, rows::steps, rows::slabs, rows::TILE, rows::KB;
    enum { P = 128, GROUPS = THREADS / 128, ROOM = 16384 };
    static_assert(GROUPS * 64 == COLUMNS, "groups own 64 columns");

    ckci_k_pair_group<E, ckci_k_mma_groups, P, ROOM / (GROUPS * 128)> sums;

    template <class Out, class Meanwhile>
    CKCI_K_MEMBER void run(const unsigned char *mid, unsigned char *tiles, float *room, bool ready,
                           const Out &out, const Meanwhile &meanwhile)
    {
        int32_t tile = 0, slab = 0;
        stage = there ? 0 : stage;
        sums.clear();
        CKCI_K_UNROLL(1)
        for (int32_t s = 0; s < steps; s++) {
            const bool last = slab + 1 == slabs;
            const int32_t next_tile = last ? tile + 1 : tile, next = last ? 0 : slab + 1;
            if (s > 0 || !ready) {
                ckci_k_copies_wait<0>();
                ckci_k_proxy_fence();
                __syncthreads();
            }
            if (s + 1 == steps) {
                meanwhile();
            } else if (!there) {
                this->fetch(next_tile, next, tiles + (stage ^ 1) * TILE);
            }
            sums.start();
            sums.multiply(tiles + stage * TILE + sums.group * 64 * KB, mid + slab * (P * KB));
            sums.commit();
            sums.wait();
            if (last) {
                const int32_t column0 = tile * COLUMNS + sums.group * 64;
                if (out.packed) {
                    const typename Out::place place(out, column0 + (int32_t)threadIdx.x % 8 * 8);
                    sums.write16((unsigned char *)room, place);
                } else {
                    sums.write(room,
                               [&](int32_t row, int32_t column, float *v) { out(row, column0 + column, v); });
                }
                sums.clear();
            }
            stage ^= 1;
            tile = next_tile;
            slab = next;
        }
    }
};
#endif

CKCI_K_FN int64_t ckci_k_pair_at(const ckci_tensor &t, const ckci_k_place &q)
{
    return q.n * t.stride[1] + q.z * t.stride[3] + q.y * t.stride[4] + q.x * t.stride[5];
}

/* The position of mid that one of the result reads; does it exist, or is it padding? */
CKCI_K_FN bool ckci_k_pair_read(const ckci_gpu_dim *d, const ckci_k_place &out, ckci_k_place *mid)
{
    mid->n = out.n;
    mid->z = out.z * d[0].read_step - d[0].pad;
    mid->y = out.y * d[1].read_step - d[1].pad;
    mid->x = out.x * d[2].read_step - d[2].pad;
    return (uint32_t)mid->z < (uint32_t)d[0].read_len && (uint32_t)mid->y < (uint32_t)d[1].read_len &&
           (uint32_t)mid->x < (uint32_t)d[2].read_len;
}

/* Is storing the result all there is to do? */
CKCI_K_FN bool ckci_k_pair_plain(const ckci_gpu_conv &p)
{
    return p.o_vec && p.o.t.op.kind == CKCONV_PASS && !p.o.scale && !p.o.shift && !p.o.compute;
}

/* mid in LDS. */
template <class E, int KB, int P> struct ckci_k_pair_mid {
    enum { SLAB = KB / 2 };

    static CKCI_K_MEMBER unsigned char *spot(unsigned char *mid, int32_t row, int32_t channel)
    {
        return mid + channel / SLAB * (P * KB) + ckci_k_spot<KB>(row, channel % SLAB * CKCI_K_HALF / 16) +
               channel % 8 * CKCI_K_HALF;
    }

    /* i rows, up to 3, down from one that is a multiple of 4, which lies at byte `at`. */
    static CKCI_K_MEMBER int32_t down(int32_t at, int i)
    {
        return KB == 128 ? (at ^ i * 16) + i * KB : (at ^ (i / 2 * 16 + i % 2 * 64)) + i / 2 * 2 * KB;
    }

    /* Channels of a position of it, into memory. */
    static CKCI_K_MEMBER void copy_out(const ckci_gpu_pair &a, const ckci_k_uint4 &v, const ckci_k_place &q,
                                       int32_t channel)
    {
        const ckci_tensor &t = a.first.o.t;
        if (a.mid_vec) {
            const int64_t at = ckci_k_pair_at(t, q) + channel;
            *(ckci_k_uint4 *)(t.p + at * CKCI_K_HALF) = v;
            return;
        }
        const uint32_t w[4] = {v.x, v.y, v.z, v.w};
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 8; i++) {
            const int32_t g = ckci_k_divide(channel + i, a.first.by_columns);
            const uint32_t two = ckci_k_pick<uint32_t, 4>(w, i / 2);
            ckci_k_put_apart<float>(a.first.o, ckci_k_widen(E::TYPE, (uint16_t)(two >> i % 2 * 16)), g, q.n,
                                    channel + i - g * a.first.columns, q.z, q.y, q.x);
        }
    }

    static CKCI_K_MEMBER ckci_k_uint2 round(const float *v)
    {
        ckci_k_uint2 r;
        r.x = ckci_k_two(E::TYPE, ckci_k_bits(v[0]), ckci_k_bits(v[1]));
        r.y = ckci_k_two(E::TYPE, ckci_k_bits(v[2]), ckci_k_bits(v[3]));
        return r;
    }
};

CKCI_K_FN unsigned char *ckci_k_pair_to(const ckci_tensor &t, const ckci_k_place &q, int32_t column)
{
    return t.p + (ckci_k_pair_at(t, q) + column) * (int64_t)ckci_k_size(t.dtype);
}

/* Where sums of the second convolution go: eight columns from column0 + column on of row `row`. rows: where
   each lies behind `to`, in numbers, and its coordinates, which exist if none reaches a guard (see
   ckci_k_pair_fields). find(row): the position itself, for an epilogue. packed: they are E without one, one
   store. */
template <class E, class Find> struct ckci_k_pair_out {
    const ckci_gpu_conv &p;
    const ckci_k_uint2 *rows;
    unsigned char *to;
    uint32_t highest;
    int32_t column0, columns;
    bool plain, packed;
    const Find &find;

    CKCI_K_MEMBER ckci_k_pair_out(const ckci_gpu_conv &conv, const ckci_k_uint2 *table, unsigned char *first,
                                  uint32_t high, int32_t column, const Find &position)
        : p(conv), rows(table), to(first), highest(high), column0(column), find(position)
    {
        columns = ckci_k_lane_afresh(p.columns);
        plain = ckci_k_pair_plain(p);
        packed = plain && (int)p.o.t.dtype == (int)E::TYPE;
    }

    CKCI_K_MEMBER void operator()(int32_t row, int32_t column, float *v) const
    {
        const ckci_k_uint2 at = rows[row];
        if (!ckci_k_pair_fields::below(at.y, highest) || column + column0 >= columns) {
            return;
        }
        if (plain) {
            const int32_t type = ckci_k_again(p).o.t.dtype;
            ckci_k_store8(type, to + ((int64_t)(int32_t)at.x + column) * ckci_k_size(type), v);
        } else {
            const ckci_k_place o = find(row);
            ckci_k_write8(ckci_k_late(p), v, 8, 0, o.n, column + column0, columns, o.z, o.y, o.x);
        }
    }

    /* A thread's eight columns, packed. */
    struct place {
        unsigned char *to;
        const ckci_k_uint2 *rows;
        uint32_t highest;

        CKCI_K_MEMBER place(const ckci_k_pair_out &o, int32_t column)
            : to(o.to + column * CKCI_K_HALF), rows(o.rows),
              highest(o.column0 + column < o.p.columns ? o.highest : ckci_k_pair_fields::NOTHING)
        {
        }

        CKCI_K_MEMBER bool find(uint32_t row, unsigned char **to_row) const
        {
            const ckci_k_uint2 at = rows[row];
            *to_row = to + (int64_t)(int32_t)at.x * CKCI_K_HALF;
            return ckci_k_pair_fields::below(at.y, highest);
        }
    };
};

/* A pointwise first convolution: positions one after the other, P to a block. Its inputs lie in the last
   slabs of mid, and tiles of 128 channels are multiplied, finished, rounded and stored into their slabs; the
   last of them overwrite the inputs. Where weights come through registers (AMD), everything but mid shares
   one place. */
template <class E, class U, int P, int C> struct ckci_k_pair_tiles {
    typedef ckci_k_pair_product<E, U, P, 256, 128> product;
    typedef ckci_k_pair_mid<E, U::KB, P> middle;
    enum { KB = U::KB, SLAB = KB / 2, CHUNKS = KB / 16, EACH = 256 / CHUNKS, R = P / EACH };
    static_assert(P % EACH == 0, "the block loads whole rows");
    struct lds {
        alignas(1024) unsigned char mid[P * C * 2];
        unsigned char tiles[U::ASYNC ? 2 * product::TILE + product::ROOM : product::ROOM];
        int64_t output[P];
    };

    static CKCI_K_MEMBER float *room(lds &m)
    {
        return (float *)(m.tiles + (U::ASYNC ? 2 * product::TILE : 0));
    }

    /* Position `row` in the result and in mid; false: the second convolution's padding, or none. */
    static CKCI_K_MEMBER bool find(const ckci_gpu_pair &a, int32_t row, ckci_k_place *out, ckci_k_place *mid)
    {
        const ckci_gpu_conv &p = a.second;
        const int32_t line = ckci_k_divide(row, p.dim[2].count[0]),
                      plane = ckci_k_divide(line, p.dim[1].count[0]);
        out->n = ckci_k_divide(plane, p.dim[0].count[0]);
        out->z = plane - out->n * p.dim[0].length;
        out->y = line - plane * p.dim[1].length;
        out->x = row - line * p.dim[2].length;
        const bool exists = ckci_k_pair_read(p.dim, *out, mid);
        return exists && out->n < p.n;
    }

    static CKCI_K_MEMBER int32_t first_row(const ckci_gpu_pair &a)
    {
        return ckci_k_afresh(ckci_k_divide((int32_t)blockIdx.x, a.second.by_tiles_n)) * P;
    }

    static CKCI_K_MEMBER int32_t first_column(const ckci_gpu_pair &a)
    {
        int32_t work = (int32_t)blockIdx.x;
        return (work - ckci_k_divide(work, a.second.by_tiles_n) * a.second.tiles_n) * a.second.part;
    }

    /* The inputs into the slabs from `slab` on. */
    static CKCI_K_MEMBER void read(const ckci_gpu_pair &a, const ckci_k_window &in, int32_t n0, int32_t slab,
                                   lds &m)
    {
        const ckci_gpu_conv &p = a.first;
        const int64_t *s = p.a.stride;
        const int32_t chunk = (int32_t)threadIdx.x % CHUNKS, lane = (int32_t)threadIdx.x / CHUNKS;
        CKCI_K_UNROLL(1)
        for (int r = 0; r < R; r++) {
            ckci_k_place out, q;
            const bool inside = find(a, first_row(a) + lane + r * EACH, &out, &q);
            const int32_t z = q.z * p.dim[0].read_step - p.dim[0].pad,
                          y = q.y * p.dim[1].read_step - p.dim[1].pad,
                          x = q.x * p.dim[2].read_step - p.dim[2].pad;
            const bool good = inside && (uint32_t)z < (uint32_t)p.dim[0].read_len &&
                              (uint32_t)y < (uint32_t)p.dim[1].read_len &&
                              (uint32_t)x < (uint32_t)p.dim[2].read_len;
            const int32_t at = CKCI_K_HALF * (int32_t)((q.n - n0) * s[1] + z * s[3] + y * s[4] + x * s[5]);
            for (int32_t c = chunk * 8; c < (p.red + SLAB - 1) / SLAB * SLAB; c += SLAB) {
                *(ckci_k_uint4 *)(m.mid + (slab + c / SLAB) * (P * KB) +
                                  ckci_k_spot<KB>(lane + r * EACH, chunk)) =
                    ckci_k_window_load(in, good && c < p.red ? at + c * CKCI_K_HALF : INT32_MIN);
            }
        }
    }

    /* A tile's sums are finished, rounded and kept. */
    static CKCI_K_MEMBER void keep_sums(const ckci_gpu_pair &pair, lds &m, int32_t row, int32_t channel,
                                        float *v)
    {
        const ckci_gpu_pair &a = ckci_k_late(pair);
        const ckci_gpu_target &o = a.first.o;
        ckci_k_place out, q;
        ckci_k_uint2 low = {0, 0}, high = {0, 0};
        if (channel >= (a.second.red + SLAB - 1) / SLAB * SLAB) {
            return;
        }
        const bool good = channel < a.second.red && find(a, first_row(a) + row, &out, &q);
        if (good) {
            if (o.t.op.kind != CKCONV_PASS || o.scale || o.shift) {
                CKCI_K_UNROLL(1)
                for (int i = 0; i < 8; i++) {
                    v[i] = ckci_k_finish<float>(o, v[i], 0, 0, channel + i, 0, 0, 0);
                }
            }
            low = middle::round(v);
            high = middle::round(v + 4);
        }
        const ckci_k_uint4 all = {low.x, low.y, high.x, high.y};
        *(ckci_k_uint4 *)middle::spot(m.mid, row, channel) = all;
        if (good && a.write_mid && first_column(a) == 0) {
            middle::copy_out(ckci_k_again(a), all, q, channel);
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_pair &pair, lds &m)
    {
        product f;
        const auto nothing = []() {};
        {
            const ckci_gpu_pair &a = pair;
            ckci_k_place start, q;
            find(a, first_row(a), &start, &q);
            const ckci_k_window in =
                ckci_k_make_window(a.first.a.p + CKCI_K_HALF * (start.n * a.first.a.stride[1]));
            int32_t slab0 = (a.second.red + 127) / 128 * (128 / SLAB) - (a.first.red + SLAB - 1) / SLAB;
            f.begin(a.first, 0, a.first.columns);
            f.fetch_first(m.tiles);
            read(a, in, start.n, slab0, m);
            f.run(
                m.mid + slab0 * (P * KB), m.tiles, room(m), false,
                [&](int row, int column, float *v) { keep_sums(a, m, row, column, v); }, nothing);
            __syncthreads();
            int32_t column = first_column(a), count = a.second.columns - column;
            f.begin(a.second, column, count < a.second.part ? count : a.second.part);
            f.fetch_first(m.tiles);
        }
        const ckci_gpu_pair &a = ckci_k_late(pair);
        const ckci_gpu_conv &p = a.second;
        const int32_t row0 = first_row(a), column0 = first_column(a);
        const bool plain = ckci_k_pair_plain(p);
        const int32_t size = ckci_k_size(p.o.t.dtype);
        ckci_k_place q, unused;
        if ((int32_t)threadIdx.x < P) {
            find(a, row0 + (int32_t)threadIdx.x, &q, &unused);
            m.output[threadIdx.x] = q.n < p.n ? ckci_k_pair_at(p.o.t, q) : -1;
        }
        f.run(
            m.mid, m.tiles, room(m), false,
            [&](int row, int column, float *v) {
                const int64_t at = m.output[row];
                column += column0;
                if (at < 0 || column >= p.columns) {
                    return;
                }
                if (plain) {
                    ckci_k_store8(p.o.t.dtype, p.o.t.p + (at + column) * size, v);
                } else {
                    ckci_k_place o, mid;
                    find(a, row0 + row, &o, &mid);
                    ckci_k_write8(p, v, 8, 0, o.n, column, p.columns, o.z, o.y, o.x);
                }
            },
            nothing);
    }
};

/* Where a region of the result begins. */
struct ckci_k_pair_region {
    int32_t n, z, y, x;
};

/* What threads need of a region: where its window and its rows begin, and which of them exist. */
struct alignas(16) ckci_k_pair_entry {
    uint64_t in; /* its address */
    int64_t out; /* bytes */
    uint32_t low, high, rows_high, unused;
};

/* Weights of taps of the channels from channel0 on: [tap][channel], `held` channels, where in each SPAN first
   come fours of channels that threads begin with, then the others; missing channels are zeros. Weight e:
   where it lies in memory (-1: it is zero), and *to in LDS. */
template <int SPAN, int V>
CKCI_K_FN int64_t ckci_k_pair_find_weight(const ckci_gpu_pair &a, int32_t held, int32_t channel0, int32_t e,
                                          int32_t *to)
{
    const ckci_gpu_conv &p = a.first;
    const int64_t *s = p.b.stride;
    const int32_t taps = (int32_t)a.by_taps.d;
    const int32_t c = ckci_k_divide(e, a.by_taps), tap = e - c * taps, channel = channel0 + c;
    const int32_t line = ckci_k_divide(tap, a.by_row), x = tap - line * (int32_t)a.by_row.d;
    const int32_t z = ckci_k_divide(line, p.dim[1].taps[0]), y = line - z * p.dim[1].filter;
    *to = tap * held + c / SPAN * SPAN + c % V / 4 * (SPAN / V * 4) + c % SPAN / V * 4 + c % 4;
    return channel < p.g ? channel * s[0] + z * s[3] + y * s[4] + x * s[5] : -1;
}

/* Those from e on, of any type. A call on NVIDIA: the code of all types stands once. */
template <int SPAN, int V, int THREADS>
CKCI_K_APART void ckci_k_pair_put_weights(const ckci_gpu_pair &pair, int32_t held, int32_t channel0,
                                          int32_t e, float *w)
{
    const ckci_gpu_pair &a = ckci_k_again(pair);
    const int32_t all = (int32_t)a.by_taps.d * held;
    CKCI_K_UNROLL(1)
    for (; e < all; e += THREADS) {
        int32_t slot;
        const int64_t at = ckci_k_pair_find_weight<SPAN, V>(a, held, channel0, e, &slot);
        w[slot] = at < 0 ? 0.f : ckci_k_plain_value<float>(a.first.b, at);
    }
}

/* Scale, shift and operation of N sums of mid: V channels from `channel` on, position after position. */
template <int N, int V> CKCI_K_FN void ckci_k_pair_finish(const ckci_gpu_target &o, int32_t channel, float *v)
{
    if (o.scale) {
        CKCI_K_UNROLL(32)
        for (int i = 0; i < N; i++) {
            v[i] *= ((const float *)o.scale)[channel + i % V];
        }
    }
    if (o.shift) {
        CKCI_K_UNROLL(32)
        for (int i = 0; i < N; i++) {
            v[i] += ((const float *)o.shift)[channel + i % V];
        }
    }
    if (o.t.op.kind == CKCONV_RELU) {
        CKCI_K_UNROLL(32)
        for (int i = 0; i < N; i++) {
            v[i] = v[i] < 0 ? 0.f : v[i];
        }
    } else if (o.t.op.kind != CKCONV_PASS) { /* one copy of that code */
        const ckci_gpu_target &u = ckci_k_late(o);
        CKCI_K_UNROLL(1)
        for (int i = 0; i < N; i++) {
            const float x = ckci_k_element(u.t.op, ckci_k_pick<float, N>(v, i), 0.f);
            CKCI_K_UNROLL(32)
            for (int j = 0; j < N; j++) {
                v[j] = i == j ? x : v[j];
            }
        }
    }
}

/* A depthwise first convolution. A block takes regions of the result, one after the other: so many images,
   lines and columns (in strips of four neighbours), P positions at most. The inputs of a region lie in LDS as
   a window, SPAN channels of it at a time: pixels one after the other, what padding adds as zeros. A thread
   computes V channels of a strip; neighbours share inputs where taps and positions lie one pixel apart. The
   window of the next channels, or of the next region, is on its way meanwhile: copied by the block into a
   second window or, once this one is used up, into the same (NVIDIA), or in registers (AMD, where a block has
   one region). The taps' weights lie in LDS too, in f32; the second weights stay there from region to region
   where two steps are all. What lies where, the planner says: where LDS is short, windows share the place of
   the second weights and of sums on their way out, which costs a barrier and a later start. */
template <class E, class U, int P, int THREADS, int COLUMNS> struct ckci_k_pair_depth_tiles {
    typedef ckci_k_pair_product<E, U, P, THREADS, COLUMNS> product;
    typedef ckci_k_pair_mid<E, U::KB, P> middle;
    enum {
        SLAB = U::KB / 2,
        V = U::ASYNC ? 8 : 4,
        LANES = THREADS * 4 / P, /* threads of a strip */
        SPAN = LANES * V,
        PIXEL = SPAN * CKCI_K_HALF,
        PIECES = SPAN / 8, /* of 16 bytes */
        COPIES = U::ASYNC ? 1 : CKCI_PAIR_COPIES,
        AHEAD = U::ASYNC && THREADS == 256 ? 1 : 4, /* weights of taps that a thread holds */
        BYTES = !U::ASYNC       ? CKCI_PAIR_AMD
                : THREADS > 256 ? CKCI_PAIR_NVIDIA_WIDE
                                : CKCI_PAIR_NVIDIA
    };
    struct lds {
        alignas(1024) unsigned char bytes[BYTES];
    };

    static_assert(sizeof(lds) / sizeof(float) <= 65536, "places of weights have 16 bits");
    ckci_k_uint4 raw[COPIES];
    int32_t from, to;      /* where this thread reads a window and writes mid of its strip, in bytes */
    uint32_t ahead[AHEAD]; /* weights, above them their places in LDS */

    /* ---- Regions */

    static CKCI_K_MEMBER ckci_k_pair_region find(const ckci_gpu_pair &a, int32_t work)
    {
        const ckci_gpu_patch &q = a.second.as.patch;
        const int32_t tile = ckci_k_divide(work, a.second.by_tiles_n), down = ckci_k_divide(tile, q.by_wide),
                      plane = ckci_k_divide(down, q.by_high), group = ckci_k_divide(plane, q.by_planes);
        ckci_k_pair_region r;
        r.x = (tile - down * (int32_t)q.by_wide.d) * q.columns;
        r.y = (down - plane * (int32_t)q.by_high.d) * q.lines;
        r.z = plane - group * (int32_t)q.by_planes.d;
        r.n = group * q.images;
        return r;
    }

    /* Row `row` of a region in the result; false: none of it. */
    static CKCI_K_MEMBER bool place(const ckci_gpu_pair &a, const ckci_k_pair_region &r, int32_t row,
                                    ckci_k_place *out)
    {
        const ckci_gpu_patch &q = a.second.as.patch;
        const ckci_gpu_dim *d = a.second.dim;
        const int32_t line = ckci_k_divide(row >> 2, q.by_strips), image = ckci_k_divide(line, q.by_lines);
        out->n = r.n + image;
        out->z = r.z;
        out->y = r.y + line - image * q.lines;
        out->x = r.x + row - line * q.columns;
        return image < q.images && out->n < a.second.n && out->y < d[1].length && out->x < d[2].length;
    }

    /* ---- Windows */

    /* Of each pixel: where it lies behind the window's first, in bytes, and its coordinates there. */
    static CKCI_K_MEMBER void list_pixels(const ckci_gpu_pair &pair, lds &m)
    {
        const ckci_gpu_pair &a = ckci_k_again(pair);
        const ckci_gpu_patch &q = a.second.as.patch;
        const ckci_gpu_conv &p = a.first;
        const int64_t *s = p.a.stride;
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x; i < q.pixels; i += THREADS) {
            const int32_t line = ckci_k_divide(i, q.by_window), x = i - line * (int32_t)q.by_window.d,
                          plane = ckci_k_divide(line, q.by_rows), y = line - plane * (int32_t)q.by_rows.d,
                          n = ckci_k_divide(plane, q.by_deep), z = plane - n * (int32_t)q.by_deep.d,
                          down = z * p.dim[0].read_tap;
            ckci_k_uint2 v;
            v.x = (uint32_t)(CKCI_K_HALF * (int32_t)(n * s[1] + down * s[3] + y * s[4] + x * s[5]));
            v.y = ckci_k_pair_fields::word(n, z, y, x);
            ((ckci_k_uint2 *)(m.bytes + q.at_pixels))[i] = v;
        }
    }

    /* Of each row of a region likewise, in the result; and what this thread works on. */
    CKCI_K_MEMBER void list_rows(const ckci_gpu_pair &pair, lds &m)
    {
        const ckci_gpu_pair &a = ckci_k_again(pair);
        const ckci_gpu_patch &q = a.second.as.patch;
        const int64_t *s = a.second.o.t.stride;
        const int32_t thread = (int32_t)threadIdx.x;
        if (thread < P) {
            const int32_t line = ckci_k_divide(thread >> 2, q.by_strips), n = ckci_k_divide(line, q.by_lines),
                          y = line - n * q.lines, x = thread - line * q.columns;
            ckci_k_uint2 v;
            v.x = (uint32_t)(int32_t)(n * s[1] + y * s[4] + x * s[5]);
            v.y = ckci_k_pair_fields::word(n < q.images ? n : 31, 0, y, x);
            ((ckci_k_uint2 *)(m.bytes + q.at_output))[thread] = v;
        }
        const int32_t lane = thread % LANES, row = thread / LANES * 4;
        const int32_t line = ckci_k_divide(row >> 2, q.by_strips), image = ckci_k_divide(line, q.by_lines);
        const int32_t x = (row - line * q.columns) * q.step, y = (line - image * q.lines) * q.step_y;
        int32_t pixel = (image * (int32_t)(q.by_deep.d * q.by_rows.d) + y) * (int32_t)q.by_window.d + x;
        pixel = image < q.images ? pixel : 0; /* rows that nobody wants */
        from = ckci_k_kept(pixel * PIXEL + lane * V * CKCI_K_HALF);
        to = ckci_k_kept((int32_t)(middle::spot(m.bytes, row, lane * V) - m.bytes));
    }

    /* Of the next regions of this block. */
    static CKCI_K_MEMBER void list_regions(const ckci_gpu_pair &pair, int32_t work, int32_t column0, lds &m)
    {
        const ckci_gpu_pair &a = ckci_k_again(pair);
        typedef ckci_k_pair_fields fields;
        const ckci_gpu_patch &q = a.second.as.patch;
        const ckci_gpu_conv &p = a.first, &o = a.second;
        const ckci_gpu_dim *d = o.dim;
        const int64_t *s = p.a.stride;
        const int32_t i = ckci_k_lane_afresh((int32_t)threadIdx.x);
        work += i * (int32_t)gridDim.x;
        if (i > (U::ASYNC ? CKCI_PAIR_LIST : 0)) {
            return;
        }
        ckci_k_pair_entry e = {0, 0, 0, fields::NOTHING, fields::NOTHING, 0};
        if ((uint32_t)work < (uint32_t)q.work) {
            const ckci_k_pair_region r = find(a, work);
            const ckci_k_place first = {r.n, r.z, r.y, r.x};
            const int32_t z0 = (r.z * d[0].read_step - d[0].pad) * p.dim[0].read_step - p.dim[0].pad,
                          y0 = (r.y * d[1].read_step - d[1].pad) * p.dim[1].read_step - p.dim[1].pad,
                          x0 = (r.x * d[2].read_step - d[2].pad) * p.dim[2].read_step - p.dim[2].pad,
                          tap = p.dim[0].read_tap;
            const int32_t low_z = z0 < 0 ? (tap - 1 - z0) / tap : 0,
                          high_z = (p.dim[0].read_len - z0 + tap - 1) / tap;
            e.in = (uint64_t)(uintptr_t)p.a.p +
                   (uint64_t)(CKCI_K_HALF * (r.n * s[1] + z0 * s[3] + y0 * s[4] + x0 * s[5]));
            e.out = ckci_k_pair_to(o.o.t, first, column0) - o.o.t.p;
            e.low = fields::word(0, fields::clip(low_z, 31), fields::clip(-y0, 511), fields::clip(-x0, 511));
            e.high = fields::bound(p.n - r.n, high_z, p.dim[1].read_len - y0, p.dim[2].read_len - x0);
            e.rows_high = fields::bound(p.n - r.n, 1, d[1].length - r.y, d[2].length - r.x);
        }
        ((ckci_k_pair_entry *)(m.bytes + q.at_regions))[i] = e;
    }

    /* Channels from span * SPAN on of a region's inputs: copied into LDS, or under way in registers. */
    CKCI_K_MEMBER void fetch(const ckci_gpu_pair &pair, int32_t region, int32_t span, lds &m)
    {
        const ckci_gpu_pair &a = ckci_k_again(pair);
        typedef ckci_k_pair_fields fields;
        const ckci_gpu_patch &q = a.second.as.patch;
        const ckci_k_pair_entry &e = ((const ckci_k_pair_entry *)(m.bytes + q.at_regions))[region];
        const ckci_k_window in = ckci_k_make_window((const unsigned char *)(uintptr_t)e.in);
        const int32_t piece = (int32_t)threadIdx.x % PIECES, channel = span * SPAN + piece * 8;
        const int32_t start = CKCI_K_HALF * channel;
        const uint32_t low = e.low, high = channel < a.second.red ? e.high : (uint32_t)fields::NOTHING;
        const ckci_k_uint2 *pixels = (const ckci_k_uint2 *)(m.bytes + q.at_pixels);
        const int32_t first = (int32_t)threadIdx.x / PIECES;
        if constexpr (U::ASYNC) {
#if defined(CKCI_K_MMA)
            unsigned char *place = m.bytes + q.at_window[span % 2] + first * PIXEL + piece * 16;
            CKCI_K_UNROLL(2)
            for (int32_t i = first; i < q.pixels; i += THREADS / PIECES) {
                const ckci_k_uint2 v = pixels[i];
                ckci_k_copy(place, in, start + (int32_t)v.x, fields::inside(v.y, low, high) ? 16 : 0);
                place += THREADS / PIECES * PIXEL;
            }
#endif
        } else {
            CKCI_K_UNROLL(8)
            for (int i = 0; i < COPIES; i++) {
                const int32_t pixel = first + i * (THREADS / PIECES);
                const ckci_k_uint2 v = pixels[pixel < q.pixels ? pixel : 0];
                const bool good = pixel < q.pixels && fields::inside(v.y, low, high);
                raw[i] = ckci_k_window_load(in, good ? start + (int32_t)v.x : INT32_MIN);
            }
        }
    }

    CKCI_K_MEMBER void put(const ckci_gpu_pair &pair, lds &m) const
    {
        const ckci_gpu_pair &a = ckci_k_again(pair);
        const ckci_gpu_patch &q = a.second.as.patch;
        CKCI_K_UNROLL(8)
        for (int i = 0; i < COPIES; i++) {
            const int32_t at = (int32_t)threadIdx.x + i * THREADS;
            if (at < q.pixels * PIECES) {
                *(ckci_k_uint4 *)(m.bytes + q.at_window[0] + at * 16) = raw[i];
            }
        }
    }

    /* ---- mid */

    static CKCI_K_MEMBER bool plain_weights(const ckci_gpu_pair &a)
    {
        return (int)a.first.b.dtype == (int)E::TYPE && a.first.b.plain;
    }

    /* Weights of all channels, or of SPAN from channel0 on: the first ones of a thread, on their way; the
       rest put_weights loads. */
    CKCI_K_MEMBER void load_weights(const ckci_gpu_pair &pair, int32_t channel0)
    {
        const ckci_gpu_pair &a = ckci_k_again(pair);
        const int32_t all = (int32_t)a.by_taps.d * a.second.as.patch.held;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < AHEAD; i++) {
            const int32_t e = (int32_t)threadIdx.x + i * THREADS;
            int32_t slot;
            ahead[i] = 0;
            if (e < all && plain_weights(a)) {
                const int64_t at =
                    ckci_k_pair_find_weight<SPAN, V>(a, a.second.as.patch.held, channel0, e, &slot);
                ahead[i] = (uint32_t)slot << 16 | (at < 0 ? 0 : ((const uint16_t *)a.first.b.p)[at]);
            }
        }
    }

    CKCI_K_MEMBER void put_weights(const ckci_gpu_pair &pair, int32_t channel0, lds &m) const
    {
        const ckci_gpu_pair &a = ckci_k_again(pair);
        const ckci_gpu_patch &q = a.second.as.patch;
        const int32_t all = (int32_t)a.by_taps.d * q.held;
        float *w = (float *)(m.bytes + q.at_taps);
        int32_t e = (int32_t)threadIdx.x;
        if (plain_weights(a)) {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < AHEAD; i++) {
                if (e < all) {
                    w[ahead[i] >> 16] = ckci_k_widen(E::TYPE, (uint16_t)ahead[i]);
                }
                e += THREADS;
            }
        }
        if (e < all) {
            ckci_k_pair_put_weights<SPAN, V, THREADS>(a, q.held, channel0, e, w);
        }
    }

    /* GROUP taps of a row for N channels of a strip. */
    template <int GROUP, int N>
    static CKCI_K_MEMBER void add_taps(const unsigned char *at, int32_t step, const float *w, int32_t held,
                                       float *sum)
    {
        enum { BF16 = (int)E::TYPE == (int)CKCONV_BF16 };
        float f[GROUP][N];
        CKCI_K_UNROLL(5)
        for (int j = 0; j < GROUP; j++) {
            CKCI_K_UNROLL(2)
            for (int c = 0; c < N; c += 4) {
                const ckci_k_uint4 v = *(const ckci_k_uint4 *)(w + j * held + c / 4 * (SPAN / V * 4));
                f[j][c] = ckci_k_float(v.x);
                f[j][c + 1] = ckci_k_float(v.y);
                f[j][c + 2] = ckci_k_float(v.z);
                f[j][c + 3] = ckci_k_float(v.w);
            }
        }
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 3 + GROUP; i++) {
            float x[N];
            if constexpr (N == 8) {
                const ckci_k_uint4 v = *(const ckci_k_uint4 *)(at + i * step);
                ckci_k_s_half::widen<BF16>(v.x, x);
                ckci_k_s_half::widen<BF16>(v.y, x + 2);
                ckci_k_s_half::widen<BF16>(v.z, x + 4);
                ckci_k_s_half::widen<BF16>(v.w, x + 6);
            } else {
                const ckci_k_uint2 v = *(const ckci_k_uint2 *)(at + i * step);
                ckci_k_s_half::widen<BF16>(v.x, x);
                ckci_k_s_half::widen<BF16>(v.y, x + 2);
            }
            CKCI_K_UNROLL(5)
            for (int j = 0; j < GROUP; j++) {
                if (i - j >= 0 && i - j < 4) {
                    CKCI_K_UNROLL(8)
                    for (int c = 0; c < N; c++) {
                        float &to = sum[(i - j) * V + c];
                        to = ckci_k_fma(x[c], f[j][c], to);
                    }
                }
            }
        }
    }

    /* The sums of a strip, [position][channel]: the window's pixels one after the other, each for all taps
       that it meets. GROUP 1: positions or taps lie apart. */
    template <int GROUP>
    static CKCI_K_MEMBER void sum_taps(const ckci_gpu_pair &a, const unsigned char *from, const float *w,
                                       float *sum)
    {
        enum {
            WIDE = GROUP == 5 ? 4 : V
        }; /* channels at a time: five taps of more take too many registers */
        const ckci_gpu_patch &q = a.second.as.patch;
        const int32_t step = GROUP == 1 ? q.step * PIXEL : PIXEL, held = q.held;
        CKCI_K_UNROLL(1)
        for (int32_t z = 0; z < a.first.dim[0].filter; z++) {
            const unsigned char *line = from;
            CKCI_K_UNROLL(1)
            for (int32_t y = 0; y < a.first.dim[1].filter; y++) {
                const unsigned char *at = line;
                CKCI_K_UNROLL(1)
                for (int32_t g = 0; g < a.groups; g++) {
                    CKCI_K_UNROLL(2)
                    for (int c0 = 0; c0 < V; c0 += WIDE) {
                        add_taps<GROUP, WIDE>(at + c0 * CKCI_K_HALF, step, w + c0 / 4 * (SPAN / V * 4), held,
                                              sum + c0);
                    }
                    w += GROUP * held;
                    at += q.next_group;
                }
                line += q.next_y;
            }
            from += q.next_z;
        }
    }

    /* SPAN channels of mid, from those of a window. */
    CKCI_K_MEMBER void convolve(const ckci_gpu_pair &pair, int32_t work, int32_t span, lds &m) const
    {
        const ckci_gpu_pair &a = ckci_k_again(pair);
        const ckci_gpu_patch &q = a.second.as.patch;
        const int32_t lane = (int32_t)threadIdx.x % LANES, channel = span * SPAN + lane * V;
        const unsigned char *window = m.bytes + q.at_window[U::ASYNC ? span % 2 : 0] + from;
        const float *w = (const float *)(m.bytes + q.at_taps) + (q.held > SPAN ? span * SPAN : 0) + lane * 4;
        float sum[4 * V];
        CKCI_K_UNROLL(32)
        for (int i = 0; i < 4 * V; i++) {
            sum[i] = 0;
        }
        if (q.group == 3) {
            sum_taps<3>(a, window, w, sum);
        } else if (q.group == 5) {
            sum_taps<5>(a, window, w, sum);
        } else {
            sum_taps<1>(a, window, w, sum);
        }
        if (channel >= (a.second.red + SLAB - 1) / SLAB * SLAB) {
            return;
        }
        if (channel < a.second.red) {
            ckci_k_pair_finish<4 * V, V>(a.first.o, channel, sum);
        }
        const int32_t slab = span * (SPAN / SLAB) * (P * U::KB) + to;
        int32_t inside = channel < a.second.red ? 15 : 0;
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 4 && q.padded; i++) {
            const ckci_gpu_pair &u = ckci_k_again(pair);
            ckci_k_place out, mid;
            place(u, find(u, work), (int32_t)threadIdx.x / LANES * 4 + i, &out);
            inside &= ckci_k_pair_read(u.second.dim, out, &mid) ? 15 : ~(1 << i);
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            const bool good = (inside >> i & 1) != 0;
            const ckci_k_uint2 low = middle::round(sum + i * V), zero = {0, 0};
            unsigned char *spot = m.bytes + middle::down(slab, i);
            if constexpr (V == 8) {
                const ckci_k_uint2 high = middle::round(sum + i * V + 4);
                const ckci_k_uint4 all = {low.x, low.y, high.x, high.y}, none = {0, 0, 0, 0};
                *(ckci_k_uint4 *)spot = good ? all : none;
            } else {
                *(ckci_k_uint2 *)spot = good ? low : zero;
            }
        }
    }

    /* A copy of a region's mid for a caller who wants it. */
    static CKCI_K_MEMBER void copy_mid(const ckci_gpu_pair &pair, int32_t work, lds &m)
    {
        const ckci_gpu_pair &a = ckci_k_late(pair);
        const int32_t eights = a.second.red / 8, lanes = THREADS / P;
        const int32_t row = (int32_t)threadIdx.x / lanes;
        ckci_k_place out, mid;
        if (!place(a, find(a, work), row, &out) || !ckci_k_pair_read(a.second.dim, out, &mid)) {
            return;
        }
        CKCI_K_UNROLL(1)
        for (int32_t e = (int32_t)threadIdx.x % lanes; e < eights; e += lanes) {
            middle::copy_out(ckci_k_again(a), *(const ckci_k_uint4 *)middle::spot(m.bytes, row, e * 8), mid,
                             e * 8);
        }
    }

    /* Are windows fetched before the last products are done; do weights of all taps lie in LDS? */
    static CKCI_K_MEMBER bool prefetches(const ckci_gpu_patch &q)
    {
        return !U::ASYNC || q.overlap < 2;
    }

    static CKCI_K_MEMBER bool whole(const ckci_gpu_patch &q)
    {
        return q.held > SPAN || q.spans == 1;
    }

    /* mid of a region, whose first window is under way. */
    CKCI_K_MEMBER void convolve_all(const ckci_gpu_pair &pair, int32_t work, int32_t region, lds &m)
    {
        CKCI_K_UNROLL(1)
        for (int32_t span = 0; span < ckci_k_again(pair).second.as.patch.spans; span++) {
            const ckci_gpu_patch &q = ckci_k_again(pair).second.as.patch;
            const bool more = span + 1 < q.spans;
            if constexpr (U::ASYNC) {
                if (more && !q.single) {
                    fetch(pair, region, span + 1, m);
                }
                ckci_k_copies_end();
                ckci_k_copies_wait<1>();
            } else {
                put(pair, m);
            }
            __syncthreads();
            if (!U::ASYNC && more) {
                fetch(pair, region, span + 1, m);
            }
            const int32_t channel = more ? (span + 1) * SPAN : 0;
            if (!whole(q)) {
                load_weights(pair, channel);
            }
            convolve(pair, work, span, m);
            ckci_k_proxy_fence();
            __syncthreads();
            const ckci_gpu_patch &u = ckci_k_again(pair).second.as.patch;
            if (U::ASYNC && more && u.single) {
                fetch(pair, region, span + 1, m);
                ckci_k_copies_end();
            }
            if (!whole(u)) {
                put_weights(pair, channel, m);
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_pair &pair, lds &m)
    {
        ckci_k_pair_depth_tiles f;
        product g;
        int32_t work = (int32_t)blockIdx.x, column0;
        {
            const ckci_gpu_conv &p = pair.second;
            const ckci_gpu_patch &q = p.as.patch;
            column0 = (work - ckci_k_divide(work, p.by_tiles_n) * p.tiles_n) * p.part;
            const int32_t count = p.columns - column0;
            g.begin(p, column0, count < p.part ? count : p.part);
            f.load_weights(pair, 0);
            list_pixels(pair, m);
            list_regions(pair, work, column0, m);
            f.list_rows(pair, m);
            __syncthreads();
            if (prefetches(q)) {
                f.fetch(pair, 0, 0, m);
                ckci_k_copies_end();
            }
            if (q.overlap == 0) {
                g.fetch_first(m.bytes + q.at_tiles);
            }
            f.put_weights(pair, 0, m);
        }
        int32_t region = 0;
        do { /* AMD: once, as constants of all epilogues would lie in scalar registers all along */
            if (U::ASYNC && region == CKCI_PAIR_LIST) {
                __syncthreads();
                list_regions(pair, work, column0, m);
                region = 0;
                __syncthreads();
            } else if (U::ASYNC && ckci_k_again(pair).second.as.patch.overlap != 0) {
                __syncthreads(); /* the last products are done with what windows share */
            }
            if (!prefetches(ckci_k_again(pair).second.as.patch)) {
                f.fetch(pair, region, 0, m);
                ckci_k_copies_end();
            }
            f.convolve_all(pair, work, region, m);
            const ckci_gpu_pair &a = ckci_k_again(pair);
            const ckci_gpu_conv &p = a.second;
            const ckci_gpu_patch &q = p.as.patch;
            if (a.write_mid && column0 == 0) {
                copy_mid(pair, work, m);
            }
            if (q.overlap != 0) {
                g.fetch_first(m.bytes + q.at_tiles);
            }
            const auto position = [&](int32_t row) {
                const ckci_gpu_pair &u = ckci_k_late(pair);
                ckci_k_place out;
                place(u, find(u, work), row, &out);
                return out;
            };
            const ckci_k_pair_entry &e = ((const ckci_k_pair_entry *)(m.bytes + q.at_regions))[region];
            g.run(m.bytes, m.bytes + q.at_tiles, (float *)(m.bytes + q.at_room), q.overlap == 0,
                  ckci_k_pair_out<E, decltype(position)>(p, (const ckci_k_uint2 *)(m.bytes + q.at_output),
                                                         p.o.t.p + e.out, e.rows_high, column0, position),
                  [&]() {
                      const ckci_gpu_patch &u = ckci_k_again(pair).second.as.patch;
                      g.there = u.resident != 0;
                      if (u.overlap == 0) {
                          g.fetch_first(m.bytes + u.at_tiles, 1);
                      }
                      if (U::ASYNC && prefetches(u)) {
                          f.fetch(pair, region + 1, 0, m);
                          ckci_k_copies_end();
                      }
                  });
            work += (int32_t)gridDim.x;
            region++;
        } while (U::ASYNC && work < ckci_k_again(pair).second.as.patch.work);
    }
};

template <class E, class U> struct ckci_k_pair_strips_tiles;
#if defined(CKCI_K_MMA)
/* A strip of a tile, eight neighbours along x of the result: where it goes, and how many positions exist. */
struct alignas(16) ckci_k_pair_strip {
    uint64_t out;
    int32_t positions;
};

/* NVIDIA: a 3 x 3 depthwise first convolution of step 1, from memory through registers. A block takes tiles
   of a line of several strips each, line after line. The second weights and those of the taps lie in LDS all
   along. A thread computes four channels of one strip: of the three rows of inputs that it holds one is new
   in each tile, and on its way since the one before was computed. mid goes to LDS, where groups of four waves
   multiply it with 64 columns each of the second weights; meanwhile threads compute mid of the next tile,
   into a second place. */
template <class E, class U> struct ckci_k_pair_strips_tiles {
    enum { THREADS = 512, V = 4, X = 8, N = X + 2, KB = 128, SLAB = 64, TILE = SLAB * KB };
    typedef ckci_k_pair_group<E, U, 64, 32> product;
    struct lds {
        alignas(1024) unsigned char bytes[CKCI_PAIR_NVIDIA_WIDE];
    };
    struct row {
        ckci_k_uint2 v[N];
    };

    row rows[3];             /* see place_of */
    const unsigned char *in; /* what the first tap of this thread's strip reads in row 0 */
    uint32_t columns;        /* inputs of a row that exist, a bit each */

    /* Which of the three rows is row y of the input; y >= -2. */
    static CKCI_K_MEMBER int32_t place_of(int32_t y)
    {
        return (y + 3) % 3;
    }

    /* This thread's strip of a tile, and its first channel. */
    static CKCI_K_MEMBER int32_t strip_of(const ckci_gpu_strips &q, int32_t thread, int32_t *channel)
    {
        const int32_t strip = ckci_k_divide(thread, q.by_quads);
        *channel = (thread - strip * (int32_t)q.by_quads.d) * V;
        return strip;
    }

    /* Position 0 of strip `strip` of all that follow each other in a line, in line 0. */
    static CKCI_K_MEMBER ckci_k_place place(const ckci_gpu_strips &q, int32_t strip)
    {
        const int32_t plane = ckci_k_divide(strip, q.by_line), n = ckci_k_divide(plane, q.by_planes);
        return {n, plane - n * (int32_t)q.by_planes.d, 0, (strip - plane * (int32_t)q.by_line.d) * X};
    }

    /* The line of a tile, and which strips of all it has. */
    static CKCI_K_MEMBER int32_t line_of(const ckci_gpu_strips &q, int32_t tile, int32_t *group)
    {
        *group = ckci_k_divide(tile, q.by_high);
        return tile - *group * (int32_t)q.by_high.d;
    }

    static CKCI_K_MEMBER ckci_k_pair_strip *strips(const ckci_gpu_strips &q, lds &m, int32_t tile)
    {
        return (ckci_k_pair_strip *)(m.bytes + q.at_strips) + (tile & 1) * q.strips;
    }

    /* A tile's strips, for those that store its results. */
    static CKCI_K_MEMBER void list(const ckci_gpu_pair &pair, int32_t tile, lds &m)
    {
        const ckci_gpu_pair &a = ckci_k_again(pair);
        const ckci_gpu_strips &q = a.second.as.strips;
        const int32_t i = (int32_t)threadIdx.x;
        if (i >= q.strips) {
            return;
        }
        int32_t group;
        const int32_t y = line_of(q, tile, &group), strip = group * q.strips + i;
        ckci_k_pair_strip e = {0, 0};
        if (strip < q.all) {
            ckci_k_place o = place(q, strip);
            o.y = y;
            e.out = (uint64_t)(uintptr_t)ckci_k_pair_to(a.second.o.t, o, 0);
            e.positions = a.first.dim[2].length - o.x;
        }
        strips(q, m, tile)[i] = e;
    }

    /* This thread's strip among the group's. */
    CKCI_K_MEMBER void aim(const ckci_gpu_pair &a, int32_t group)
    {
        const ckci_gpu_strips &q = a.second.as.strips;
        const ckci_gpu_conv &p = a.first;
        int32_t channel;
        const int32_t i = strip_of(q, (int32_t)threadIdx.x, &channel), strip = group * q.strips + i;
        columns = 0;
        in = p.a.p;
        if (i < q.strips && strip < q.all && channel < a.second.red) {
            const ckci_k_place o = place(q, strip), from = {o.n, o.z, 0, o.x - p.dim[2].pad};
            const int32_t low = from.x < 0 ? -from.x : 0,
                          high = p.dim[2].read_len - from.x < N ? p.dim[2].read_len - from.x : N;
            in = p.a.p + CKCI_K_HALF * (ckci_k_pair_at(p.a, from) + channel);
            columns = high > low ? (1u << high) - (1u << low) : 0;
        }
    }

    /* Row y of the input, on its way; zeros where there is none. */
    CKCI_K_MEMBER void load(const ckci_gpu_pair &a, int32_t y)
    {
        const ckci_gpu_conv &p = a.first;
        const uint32_t exist = (uint32_t)y < (uint32_t)p.dim[1].read_len ? columns : 0;
        const unsigned char *at = in + CKCI_K_HALF * (y * p.a.stride[4]);
        const int32_t step = CKCI_K_HALF * (int32_t)p.a.stride[5], which = place_of(y);
        if (which == 0) {
            load(at, step, exist, rows[0]);
        } else if (which == 1) {
            load(at, step, exist, rows[1]);
        } else {
            load(at, step, exist, rows[2]);
        }
    }

    static CKCI_K_MEMBER void load(const unsigned char *at, int32_t step, uint32_t exist, row &r)
    {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < N; i++) {
            const ckci_k_uint2 none = {0, 0};
            r.v[i] = none;
            if (exist >> i & 1) {
                r.v[i] = *(const ckci_k_uint2 *)(at + (int64_t)i * step);
            }
        }
    }

    /* What a tile needs and this thread does not hold. first: of this block. */
    CKCI_K_MEMBER void fetch(const ckci_gpu_pair &pair, int32_t tile, bool first)
    {
        const ckci_gpu_pair &a = ckci_k_again(pair);
        int32_t group;
        const int32_t y = line_of(a.second.as.strips, tile, &group) - a.first.dim[1].pad;
        const bool all = first || y == -a.first.dim[1].pad;
        if (all) {
            aim(a, group);
        }
        CKCI_K_UNROLL(1)
        for (int32_t r = all ? y : y + 2; r <= y + 2; r++) {
            load(a, r);
        }
    }

    /* A row of taps. */
    static CKCI_K_MEMBER void add(const row &r, const float *w, int32_t held, float (&sum)[X * V])
    {
        enum { BF16 = (int)E::TYPE == (int)CKCONV_BF16 };
        float f[3][V];
        CKCI_K_UNROLL(4)
        for (int j = 0; j < 3; j++) {
            const ckci_k_uint4 v = *(const ckci_k_uint4 *)(w + j * held);
            f[j][0] = ckci_k_float(v.x);
            f[j][1] = ckci_k_float(v.y);
            f[j][2] = ckci_k_float(v.z);
            f[j][3] = ckci_k_float(v.w);
        }
        CKCI_K_UNROLL(16)
        for (int i = 0; i < N; i++) {
            float x[V];
            ckci_k_s_half::widen<BF16>(r.v[i].x, x);
            ckci_k_s_half::widen<BF16>(r.v[i].y, x + 2);
            CKCI_K_UNROLL(4)
            for (int j = 0; j < 3; j++) {
                if (i - j >= 0 && i - j < X) {
                    CKCI_K_UNROLL(4)
                    for (int c = 0; c < V; c++) {
                        sum[(i - j) * V + c] = ckci_k_fma(x[c], f[j][c], sum[(i - j) * V + c]);
                    }
                }
            }
        }
    }

    /* mid of a tile. */
    CKCI_K_MEMBER void convolve(const ckci_gpu_pair &pair, int32_t tile, lds &m)
    {
        const ckci_gpu_pair &a = ckci_k_again(pair);
        const ckci_gpu_strips &q = a.second.as.strips;
        int32_t channel, group;
        const int32_t strip = strip_of(q, ckci_k_again((int32_t)threadIdx.x), &channel),
                      held = q.slabs * SLAB;
        if (strip >= q.strips) {
            return;
        }
        /* the row that meets the filter's first one */
        const int32_t first = place_of(line_of(q, tile, &group) - a.first.dim[1].pad);
        const float *w = (const float *)(m.bytes + q.at_taps) + channel;
        float sum[X * V];
        CKCI_K_UNROLL(32)
        for (int i = 0; i < X * V; i++) {
            sum[i] = 0;
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 3; i++) {
            const int32_t tap = i >= first ? i - first : i - first + 3;
            add(rows[i], w + tap * 3 * held, held, sum);
        }
        if (channel < a.second.red) {
            ckci_k_pair_finish<X * V, V>(a.first.o, channel, sum);
        }
        unsigned char *to = m.bytes + q.at_mid +
                            ((tile & 1) * q.slabs + channel / SLAB) * (q.strips * X * KB) + strip * (X * KB) +
                            channel % 8 * CKCI_K_HALF;
        ckci_k_uint2 v[X];
        CKCI_K_UNROLL(8)
        for (int i = 0; i < X; i++) {
            v[i] = ckci_k_pair_mid<E, KB, 64>::round(sum + i * V);
            *(ckci_k_uint2 *)(to + ckci_k_spot<KB>(i, channel % SLAB / 8)) = v[i];
        }
        if (__builtin_expect(a.write_mid, 0)) {
            copy(ckci_k_late(a), tile, channel, v);
        }
    }

    /* mid of a strip's four channels for a caller who wants it. */
    static CKCI_K_MEMBER void copy(const ckci_gpu_pair &a, int32_t tile, int32_t channel,
                                   const ckci_k_uint2 (&v)[X])
    {
        const ckci_gpu_strips &q = a.second.as.strips;
        const ckci_tensor &t = a.first.o.t;
        int32_t group, first;
        const int32_t y = line_of(q, tile, &group),
                      strip = group * q.strips + strip_of(q, (int32_t)threadIdx.x, &first);
        if (strip < q.all && channel < a.second.red) {
            ckci_k_place o = place(q, strip);
            o.y = y;
            unsigned char *at = ckci_k_pair_to(t, o, channel);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < X; i++) {
                if (o.x + i < a.first.dim[2].length) {
                    *(ckci_k_uint2 *)(at + CKCI_K_HALF * i * t.stride[5]) = v[i];
                }
            }
        }
    }

    /* The taps' weights, as f32: all loads of plain ones before the first is waited for. */
    static CKCI_K_MEMBER void fill_taps(const ckci_gpu_pair &a, lds &m)
    {
        const ckci_gpu_strips &q = a.second.as.strips;
        const int32_t held = q.slabs * SLAB, thread = (int32_t)threadIdx.x;
        float *w = (float *)(m.bytes + q.at_taps);
        if (!a.first.b.plain || (int)a.first.b.dtype != (int)E::TYPE) {
            ckci_k_pair_put_weights<V, V, THREADS>(a, held, 0, thread, w);
            return;
        }
        if (thread < held) {
            const int64_t *step = a.first.b.stride;
            const uint16_t *from = (const uint16_t *)a.first.b.p + thread * step[0];
            uint16_t bits[9];
            CKCI_K_UNROLL(9)
            for (int i = 0; i < 9; i++) {
                bits[i] = thread < a.second.red ? from[i / 3 * step[4] + i % 3 * step[5]] : (uint16_t)0;
            }
            CKCI_K_UNROLL(9)
            for (int i = 0; i < 9; i++) {
                w[i * held + thread] = ckci_k_widen(E::TYPE, bits[i]);
            }
        }
    }

    /* The second weights, for good: 64 channels of all columns side by side, zeros where there are none. */
    static CKCI_K_MEMBER void fill(const ckci_gpu_pair &a, lds &m)
    {
        const ckci_gpu_conv &p = a.second;
        const ckci_gpu_strips &q = p.as.strips;
        const ckci_k_window weights = ckci_k_make_window(p.b.p);
        const int32_t count = q.wide * 64, chunk = (int32_t)threadIdx.x % 8, slabs = q.slabs;
        CKCI_K_UNROLL(1)
        for (int32_t slab = 0; slab < slabs; slab++) {
            CKCI_K_UNROLL(4)
            for (int32_t r = (int32_t)threadIdx.x / 8; r < count; r += THREADS / 8) {
                const int32_t channel = slab * SLAB + chunk * 8;
                const bool good = channel < p.red && r < p.columns;
                const int32_t at = good ? r * CKCI_K_HALF * (int32_t)p.b_column + channel * CKCI_K_HALF : 0;
                ckci_k_copy(m.bytes + slab * count * KB + ckci_k_spot<KB>(r, chunk), weights, at,
                            good ? 16 : 0);
            }
        }
        ckci_k_copies_end();
    }

    /* Where this thread's eight columns of a row go. */
    struct out {
        const ckci_k_pair_strip *of_rows; /* strips of this group's rows */
        int64_t step, column;             /* bytes */
        bool exists;

        CKCI_K_MEMBER bool find(uint32_t row, unsigned char **at) const
        {
            const ckci_k_pair_strip e = of_rows[row / X];
            *at = (unsigned char *)(uintptr_t)e.out + ((int64_t)(row % X) * step + column);
            return exists && (int32_t)(row % X) < e.positions;
        }
    };

    /* Item of a tile: 64 rows of it, 64 columns. */
    static CKCI_K_MEMBER void write(const ckci_gpu_pair &pair, product &g, int32_t item, int32_t tile, lds &m)
    {
        const ckci_gpu_pair &a = ckci_k_again(pair);
        const ckci_gpu_conv &p = a.second;
        const ckci_gpu_strips &q = p.as.strips;
        unsigned char *room = m.bytes + q.at_room;
        const int32_t part = item >> q.log_wide, eights = ckci_k_again((int32_t)threadIdx.x) % 8 * 8,
                      column0 = (item - (part << q.log_wide)) * 64;
        const out to = {strips(q, m, tile) + (part < q.parts ? part : 0) * (64 / X),
                        p.o.t.stride[5] * CKCI_K_HALF, (int64_t)(column0 + eights) * CKCI_K_HALF,
                        part < q.parts && column0 + eights < p.columns};
        if constexpr (product::STRAIGHT) {
            if (q.packed) {
                g.write16(room, to);
                return;
            }
        }
        g.write((float *)room, [&](int32_t row, int32_t column, float *v) {
            const ckci_gpu_pair &u = ckci_k_late(pair);
            const ckci_gpu_strips &s = u.second.as.strips;
            const int32_t channel = column0 + column;
            if (part < s.parts && channel < u.second.columns && row % X < to.of_rows[row / X].positions) {
                int32_t group;
                const int32_t y = line_of(s, tile, &group);
                const ckci_k_place o = place(s, group * s.strips + part * (64 / X) + row / X);
                ckci_k_write8(u.second, v, 8, 0, o.n, channel, u.second.columns, o.z, y, o.x + row % X);
            }
        });
    }

    static CKCI_K_MEMBER int32_t first_tile(const ckci_gpu_strips &q, int32_t block)
    {
        return block * q.part + (block < q.part_rest ? block : q.part_rest);
    }

    static CKCI_K_MEMBER void multiply(const ckci_gpu_strips &q, product &g, int32_t item, int32_t tile,
                                       lds &m)
    {
        const int32_t part = item >> q.log_wide, apart = q.strips * X * KB;
        const unsigned char *columns = m.bytes + (item - (part << q.log_wide)) * TILE,
                            *positions = m.bytes + q.at_mid + (tile & 1) * q.slabs * apart + part * TILE;
        g.clear();
        CKCI_K_UNROLL(1)
        for (int32_t slab = part < q.parts ? q.slabs : 0; slab > 0; slab--) {
            g.start();
            g.multiply(columns, positions);
            g.commit();
            columns += q.wide * TILE;
            positions += apart;
        }
        g.wait();
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_pair &pair, lds &m)
    {
        ckci_k_pair_strips_tiles f;
        product g;
        const int32_t end = first_tile(pair.second.as.strips, (int32_t)blockIdx.x + 1);
        int32_t tile = first_tile(pair.second.as.strips, (int32_t)blockIdx.x);
        f.fetch(pair, tile, true);
        fill_taps(pair, m);
        fill(pair, m);
        __syncthreads();
        CKCI_K_UNROLL(1)
        for (tile--; tile < end;
             tile++) { /* mid of this tile is in LDS; in the first round there is none yet */
            const ckci_gpu_strips &q = ckci_k_again(pair).second.as.strips;
            const bool begun = tile >= first_tile(q, (int32_t)blockIdx.x), more = tile + 1 < end;
            /* half of the groups multiply first, the others last: matrix unit and FMA units have work */
            CKCI_K_UNROLL(1)
            for (int32_t step = 0; step < 2; step++) {
                if (step == (g.group & 1)) {
                    CKCI_K_UNROLL(1)
                    for (int32_t turn = begun ? 0 : q.turns; turn < q.turns; turn++) {
                        if (turn > 0) {
                            g.meet(); /* others read what lies in the room */
                        }
                        multiply(q, g, g.group + turn * 4, tile, m);
                        write(pair, g, g.group + turn * 4, tile, m);
                    }
                } else if (more) {
                    f.convolve(pair, tile + 1, m);
                    ckci_k_copies_wait<0>(); /* the second weights, once */
                    ckci_k_proxy_fence();    /* before loads, for which it would wait */
                    if (tile + 2 < end) {
                        f.fetch(pair, tile + 2, false);
                    }
                }
            }
            if (more) {
                list(pair, tile + 1, m);
            }
            __syncthreads();
        }
    }
};
#endif

/* The kernels, with the unit of the target; without one they are empty, and no plan takes them. */
#if defined(CKCI_SIMULATOR)
template <template <class> class Nvidia, template <class> class Amd>
struct ckci_k_pair_by_unit : ckci_k_by_unit<Amd<ckci_k_mfma>, Amd<ckci_k_wmma<11>>, Amd<ckci_k_wmma<12>>,
                                            Nvidia<ckci_k_mma>, Nvidia<ckci_k_mma_groups>> {
};
#elif defined(CKCI_K_MFMA)
template <template <class> class, template <class> class Amd> struct ckci_k_pair_by_unit : Amd<ckci_k_mfma> {
};
#elif defined(CKCI_K_WMMA)
template <template <class> class, template <class> class Amd>
struct ckci_k_pair_by_unit : Amd<ckci_k_wmma<11>> {
};
#elif defined(CKCI_K_WMMA12)
template <template <class> class, template <class> class Amd>
struct ckci_k_pair_by_unit : Amd<ckci_k_wmma<12>> {
};
#elif defined(CKCI_K_WGMMA)
template <template <class> class Nvidia, template <class> class>
struct ckci_k_pair_by_unit : Nvidia<ckci_k_mma_groups> {
};
#elif defined(CKCI_K_MMA)
template <template <class> class Nvidia, template <class> class>
struct ckci_k_pair_by_unit : Nvidia<ckci_k_mma> {
};
#else
template <template <class> class, template <class> class> struct ckci_k_pair_by_unit : ckci_k_nothing {
};
#endif

template <class E> struct ckci_k_pair_bodies {
    template <class U> using point_nvidia = ckci_k_pair_tiles<E, U, 64, CKCI_PAIR_POINT_NVIDIA>;
    template <class U> using point_amd = ckci_k_pair_tiles<E, U, 64, CKCI_PAIR_POINT_AMD>;
    template <class U> using depth_nvidia = ckci_k_pair_depth_tiles<E, U, 128, 256, 128>;
    template <class U> using depth_amd = ckci_k_pair_depth_tiles<E, U, 64, 256, 128>;
    typedef ckci_k_pair_by_unit<point_nvidia, point_amd> point;
    typedef ckci_k_pair_by_unit<depth_nvidia, depth_amd> depth;
    template <class> using none_amd = ckci_k_nothing;
    template <class U> using wide_nvidia = ckci_k_pair_depth_tiles<E, U, 128, 512, 256>;
    typedef ckci_k_pair_by_unit<wide_nvidia, none_amd> wide;
    template <class U> using strips_nvidia = ckci_k_pair_strips_tiles<E, U>;
    typedef ckci_k_pair_by_unit<strips_nvidia, none_amd> strips;
};

template <class E> struct ckci_k_pair_matrix : ckci_k_pair_bodies<E>::point {
};
template <class E> struct ckci_k_pair_depth : ckci_k_pair_bodies<E>::depth {
};
template <class E> struct ckci_k_pair_depth_wide : ckci_k_pair_bodies<E>::wide {
};
template <class E> struct ckci_k_pair_strips : ckci_k_pair_bodies<E>::strips {
};
template <class E> struct ckci_k_resident<ckci_k_pair_depth_wide<E>> {
    enum { BLOCKS = 1 };
};
template <class E> struct ckci_k_resident<ckci_k_pair_strips<E>> {
    enum { BLOCKS = 1 };
};
template <class E> struct ckci_k_resident<ckci_k_pair_matrix<E>> {
    enum { BLOCKS = 2 };
};
template <class E> struct ckci_k_resident<ckci_k_pair_depth<E>> {
    enum { BLOCKS = 2 };
};

#endif /* CKCONV_KERNELS_DIRECT_HIP_H */
