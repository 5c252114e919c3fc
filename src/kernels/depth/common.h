/*------------------------------------------------------------------------------------------------------------
  >>k-depth-common
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
#pragma once
#include "kernels/chunks.h"
#include "kernels/store.h"
#include "kernels/vector/direct.h"

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
    if (S::SIZE == 2 && CKCI_K_BF16(bf16)) {
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
    if (S::SIZE == 2 && CKCI_K_BF16(bf16)) {
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
    return CKCI_K_BF16(dtype != CKCONV_F16) ? ckci_k_float(bits << 16) : ckci_k_half_float(bits);
}

CKCI_K_FN void ckci_k_depth_store(int32_t dtype, unsigned char *p, float x)
{
    if (dtype == CKCONV_F32) {
        *(float *)p = x;
    } else {
        *(uint16_t *)p =
            (uint16_t)(CKCI_K_BF16(dtype != CKCONV_F16) ? ckci_k_float_bf16(x) : ckci_k_float_half(x));
    }
}

/* The epilogue of one output where it is more than a store. FULL: any types and any operation; else f16, bf16
   and f32, and few operations without GELU, which is a lot of code. */
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
        CKCI_K_UNROLL(1)
        for (int j = o.t.op.kind == CKCONV_PASS ? o.num_d : 0; j < o.num_d; j++) {
            const ckci_gpu_extra &t = o.d[j];
            int64_t at = g * t.stride[0] + q.n * t.stride[1] + q.z * t.stride[3] + q.y * t.stride[4] +
                         q.x * t.stride[5];
            const T value = ckci_k_depth_load(t.dtype, t.p + at * (t.dtype == CKCONV_F32 ? 4 : 2));
            ckci_k_extra(t.how, value, v, d);
        }
        int64_t at = g * o.t.stride[0] + q.n * o.t.stride[1] + q.z * o.t.stride[3] + q.y * o.t.stride[4] +
                     q.x * o.t.stride[5];
        v = ckci_k_element<CKCI_K_OPS_PLAIN>(o.t.op, v, d);
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
