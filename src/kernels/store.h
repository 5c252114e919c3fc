/*------------------------------------------------------------------------------------------------------------
  >>k-store
  Lines: neighbouring outputs along the channels on their way from sums to memory. What is written together
  passes through here, whatever the family: the epilogue in its closed form (ckci_set_form in gpu/conv.h says
  when there is one), one rounding, one store. A D tensor that lies as the output is loaded as the output is
  stored; of one that has a number for each channel, those of the line are loaded, from near caches. Nothing
  here decodes coordinates: callers know where in memory a line goes and which channel it begins with.
*/
#pragma once
#include "kernels/epilogue.h"

/* 16 bytes of a line. Those of planes begin at any number on AMD (ckci_matrix_planes). */
CKCI_K_FN ckci_k_uint4 ckci_k_load_piece(const unsigned char *p)
{
    if constexpr (CKCI_K_MAYBE_AMD) {
        if (ckci_k_amd()) {
            return ckci_k_load_loose(p);
        }
    }
    return *(const ckci_k_uint4 *)p;
}

CKCI_K_FN void ckci_k_store_piece(unsigned char *p, const ckci_k_uint4 &v)
{
    if constexpr (CKCI_K_MAYBE_AMD) {
        if (ckci_k_amd()) {
            ckci_k_store_loose(p, v);
            return;
        }
    }
    *(ckci_k_uint4 *)p = v;
}

/* Eight neighbouring finished values, aligned together (AMD: i8 alone). */
CKCI_K_FN void ckci_k_store8(int32_t dtype, unsigned char *p, const int32_t *v)
{
    p = ckci_k_global(p);
    if (dtype == CKCONV_I32) {
        ckci_k_store_piece(p, *(const ckci_k_uint4 *)v);
        ckci_k_store_piece(p + 16, *(const ckci_k_uint4 *)(v + 4));
        return;
    }
    uint32_t two[2] = {0, 0};
    CKCI_K_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        int32_t x = v[i] < -128 ? -128 : v[i] > 127 ? 127 : v[i];
        two[i / 4] |= ((uint32_t)x & 0xffu) << i % 4 * 8;
    }
    const ckci_k_uint2 packed = {two[0], two[1]};
    *(ckci_k_uint2 *)p = packed;
}

CKCI_K_FN void ckci_k_store8(int32_t, unsigned char *p, const double *v)
{
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        ((ckci_k_uint4 *)p)[i] = ((const ckci_k_uint4 *)v)[i];
    }
}

/* Eight numbers as four words; see ckci_k_two_halves. */
CKCI_K_FN ckci_k_uint4 ckci_k_eight_halves(bool bf16, const ckci_k_uint4 &a, const ckci_k_uint4 &b)
{
    const ckci_k_uint4 packed = {ckci_k_two_halves(bf16, ckci_k_float(a.x), ckci_k_float(a.y)),
                                 ckci_k_two_halves(bf16, ckci_k_float(a.z), ckci_k_float(a.w)),
                                 ckci_k_two_halves(bf16, ckci_k_float(b.x), ckci_k_float(b.y)),
                                 ckci_k_two_halves(bf16, ckci_k_float(b.z), ckci_k_float(b.w))};
    return packed;
}

CKCI_K_FN void ckci_k_store8(int32_t dtype, unsigned char *p, const float *v)
{
    p = ckci_k_global(p);
    if (dtype == CKCONV_F32) {
        ckci_k_store_piece(p, *(const ckci_k_uint4 *)v);
        ckci_k_store_piece(p + 16, *(const ckci_k_uint4 *)(v + 4));
        return;
    }
    ckci_k_uint4 a = ((const ckci_k_uint4 *)v)[0], b = ((const ckci_k_uint4 *)v)[1], packed;
    if constexpr (CKCI_K_MAYBE_AMD) { /* whose compilers would ask for the type before each word */
        if (CKCI_K_BF16(dtype != CKCONV_F16)) {
            packed = ckci_k_eight_halves(true, a, b);
        } else {
            packed = ckci_k_eight_halves(false, a, b);
        }
        ckci_k_store_piece(p, packed);
        return;
    }
    packed.x = ckci_k_two(dtype, a.x, a.y);
    packed.y = ckci_k_two(dtype, a.z, a.w);
    packed.z = ckci_k_two(dtype, b.x, b.y);
    packed.w = ckci_k_two(dtype, b.z, b.w);
    *(ckci_k_uint4 *)p = packed;
}

/* Four of f32, f16 or bf16, as their bits. */
CKCI_K_FN void ckci_k_store4(int32_t dtype, unsigned char *p, const ckci_k_uint4 &v)
{
    p = ckci_k_global(p);
    if (dtype == CKCONV_F32) {
        *(ckci_k_uint4 *)p = v;
    } else {
        const ckci_k_uint2 packed = {ckci_k_two(dtype, v.x, v.y), ckci_k_two(dtype, v.z, v.w)};
        *(ckci_k_uint2 *)p = packed;
    }
}

/* The numbers that words hold. */
template <int N> CKCI_K_FN void ckci_k_widen_line(bool bf16, const uint32_t *w, float (&x)[N])
{
    CKCI_K_UNROLL(4)
    for (int i = 0; i < N / 2; i++) {
        x[2 * i] = bf16 ? ckci_k_float(w[i] << 16) : ckci_k_half_float(w[i] & 0xffffu);
        x[2 * i + 1] = bf16 ? ckci_k_float(w[i] & 0xffff0000u) : ckci_k_half_float(w[i] >> 16);
    }
}

/* Words of N numbers of f16 or bf16 that are aligned together. */
template <int N> CKCI_K_FN void ckci_k_load_words(const unsigned char *p, uint32_t *w)
{
    if constexpr (N == 8) {
        const ckci_k_uint4 v = ckci_k_load_piece(p);
        w[0] = v.x;
        w[1] = v.y;
        w[2] = v.z;
        w[3] = v.w;
    } else {
        const ckci_k_uint2 v = *(const ckci_k_uint2 *)p;
        w[0] = v.x;
        w[1] = v.y;
    }
}

/* N numbers of f32, f16 or bf16 that are aligned together. */
template <int N> CKCI_K_FN void ckci_k_load_line(int32_t dtype, const unsigned char *from, float (&x)[N])
{
    const unsigned char *p = ckci_k_global((unsigned char *)from);
    static_assert(N == 4 || N == 8, "one or two words of 16 bytes");
    uint32_t w[N];
    if (dtype == CKCONV_F32) {
        CKCI_K_UNROLL(2)
        for (int i = 0; i < N; i += 4) {
            const ckci_k_uint4 v = ckci_k_load_piece(p + 4 * i);
            w[i] = v.x;
            w[i + 1] = v.y;
            w[i + 2] = v.z;
            w[i + 3] = v.w;
        }
        CKCI_K_UNROLL(8)
        for (int i = 0; i < N; i++) {
            x[i] = ckci_k_float(w[i]);
        }
        return;
    }
    ckci_k_load_words<N>(p, w);
    const bool bf16 = CKCI_K_BF16(dtype != CKCONV_F16);
    if constexpr (CKCI_K_MAYBE_AMD) { /* as in ckci_k_store8 */
        if (bf16) {
            ckci_k_widen_line(true, w, x);
        } else {
            ckci_k_widen_line(false, w, x);
        }
    } else {
        ckci_k_widen_line(bf16, w, x);
    }
}

template <int N> CKCI_K_FN void ckci_k_load_line(int32_t, const unsigned char *p, double (&x)[N])
{
    CKCI_K_UNROLL(8)
    for (int i = 0; i < N; i++) {
        x[i] = ((const double *)p)[i];
    }
}

/* One number of a D tensor in any form but SINGLE. */
CKCI_K_FN void ckci_k_load_number(int32_t dtype, const unsigned char *p, float &x)
{
    if (dtype == CKCONV_F32) {
        x = *(const float *)p;
        return;
    }
    const uint32_t bits = *(const uint16_t *)p;
    x = CKCI_K_BF16(dtype != CKCONV_F16) ? ckci_k_float(bits << 16) : ckci_k_half_float(bits);
}

CKCI_K_FN void ckci_k_load_number(int32_t, const unsigned char *p, double &x)
{
    x = *(const double *)p;
}

/* What a D tensor of CKCI_LINE_CHANNELS has for N channels, or N times for a row that is one. */
template <int N, class R>
CKCI_K_FN void ckci_k_load_channels(const ckci_gpu_extra &t, int32_t across, int64_t channel, R (&x)[N])
{
    if (across) {
        ckci_k_load_number(t.dtype, t.p + channel * t.stride[5] * ckci_k_size(t.dtype), x[0]);
        CKCI_K_UNROLL(8)
        for (int i = 1; i < N; i++) {
            x[i] = x[0];
        }
        return;
    }
    const int64_t step = t.stride[2] * ckci_k_size(t.dtype);
    const unsigned char *p = t.p + channel * step;
    if (t.stride[2] == 1 && ((uintptr_t)t.p & 15) == 0) {
        ckci_k_load_line<N>(t.dtype, p, x);
        return;
    }
    CKCI_K_UNROLL(8)
    for (int i = 0; i < N; i++) {
        ckci_k_load_number(t.dtype, p + i * step, x[i]);
    }
}

/* The numbers of the closed form, in the type of sums. */
template <class R> struct ckci_k_closed {
    R alpha, beta, low, high, gate_low, gate_high;

    explicit CKCI_K_MEMBER ckci_k_closed(const ckci_gpu_target &o)
    {
        if constexpr (sizeof(R) == 8) {
            alpha = o.alpha_d;
            beta = o.beta_d;
            low = o.low_d;
            high = o.high_d;
            gate_low = o.gate_low_d;
            gate_high = o.gate_high_d;
        } else {
            alpha = o.alpha;
            beta = o.beta;
            low = o.low;
            high = o.high;
            gate_low = o.gate_low;
            gate_high = o.gate_high;
        }
    }
};

/* No less than low; and no more than high; NaN stays NaN. */
CKCI_K_FN float ckci_k_at_least(float x, float low)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(x), "f"(low));
    return x;
#else
    return x < low ? low : x;
#endif
}

CKCI_K_FN float ckci_k_between(float x, float low, float high)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    x = ckci_k_at_least(x, low);
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(x), "f"(high));
    return x;
#else
    return x < low ? low : x > high ? high : x;
#endif
}

CKCI_K_FN double ckci_k_at_least(double x, double low)
{
    return x < low ? low : x;
}

CKCI_K_FN double ckci_k_between(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* Numbers d of a D tensor that does not multiply come to N sums x. Without a gate a branch is all that it
   takes longer; kernels in which that counts say ADD. */
template <int N, class R>
CKCI_K_FN void ckci_k_add_numbers(const ckci_gpu_target &o, int32_t how, const R (&d)[N], R (&x)[N])
{
    const ckci_k_closed<R> f(o);
    if (how == CKCI_EXTRA_MASK) {
        CKCI_K_UNROLL(32)
        for (int i = 0; i < N; i++) {
            x[i] = d[i] <= f.gate_low || d[i] >= f.gate_high ? (R)0 : x[i];
        }
        return;
    }
    if (how == CKCI_EXTRA_AFTER) {
        CKCI_K_UNROLL(32)
        for (int i = 0; i < N; i++) {
            x[i] = ckci_k_at_least(x[i], f.gate_low);
        }
    }
    CKCI_K_UNROLL(32)
    for (int i = 0; i < N; i++) {
        x[i] = ckci_k_fma(f.beta, d[i], x[i]);
    }
}

/* D tensor t's numbers d come to N sums x. FACTORS: they may multiply them. */
template <bool FACTORS, int N, class R>
CKCI_K_FN void ckci_k_join(const ckci_gpu_target &o, const ckci_gpu_extra &t, const R (&d)[N], R (&x)[N])
{
    if (FACTORS && t.how == CKCI_EXTRA_MULTIPLY) {
        CKCI_K_UNROLL(32)
        for (int i = 0; i < N; i++) {
            x[i] *= d[i];
        }
        return;
    }
    ckci_k_add_numbers(o, t.how, d, x);
}

/* The numbers after the first one move up. */
template <int N, class R> CKCI_K_FN void ckci_k_move_up(R (&x)[N], R last)
{
    CKCI_K_UNROLL(32)
    for (int i = 0; i + 1 < N; i++) {
        x[i] = x[i + 1];
    }
    x[N - 1] = last;
}

/* N sums x through a sigmoid, silu or gelu. The code stands once: it takes the first one, and the others move
   up. */
template <int OPS, int N, class R> CKCI_K_FN void ckci_k_bend(const ckconv_element_op &op, R (&x)[N])
{
    CKCI_K_UNROLL(1)
    for (int i = 0; i < N; i++) {
        ckci_k_move_up(x, ckci_k_element<OPS>(op, x[0], (R)0));
    }
}

/* The same of the curve's derivative at d. */
template <int OPS, int N, class R>
CKCI_K_FN void ckci_k_bend(const ckconv_element_op &op, R (&x)[N], R (&d)[N])
{
    CKCI_K_UNROLL(1)
    for (int i = 0; i < N; i++) {
        ckci_k_move_up(x, ckci_k_element<OPS>(op, x[0], d[0]));
        ckci_k_move_up(d, d[0]);
    }
}

template <int N, class R> CKCI_K_FN void ckci_k_limit(const ckci_gpu_target &o, R (&x)[N])
{
    const ckci_k_closed<R> f(o);
    CKCI_K_UNROLL(32)
    for (int i = 0; i < N; i++) {
        x[i] = ckci_k_between(x[i], f.low, f.high);
    }
}

/* The same where registers are to spare: one test for all numbers where one bound or none is finite, as each
   takes an instruction a number (AMD: two). */
template <int N, class R> CKCI_K_FN void ckci_k_limit_line(const ckci_gpu_target &o, R (&x)[N])
{
    if constexpr (sizeof(R) == 4) {
        if (o.bounds < 2) {
            if (o.bounds) {
                const float low = ckci_k_closed<R>(o).low;
                CKCI_K_UNROLL(32)
                for (int i = 0; i < N; i++) {
                    x[i] = ckci_k_at_least(x[i], low);
                }
            }
            return;
        }
    }
    ckci_k_limit(o, x);
}

/* Two halves no less than those of `bound`, or (MOST) no more; NaN stays NaN. */
template <bool MOST> CKCI_K_FN uint32_t ckci_k_limit_halves(bool bf16, uint32_t two, uint32_t bound)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if (MOST && bf16) {
        asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(two) : "r"(two), "r"(bound));
    } else if (MOST) {
        asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(two) : "r"(two), "r"(bound));
    } else if (bf16) {
        asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(two) : "r"(two), "r"(bound));
    } else {
        asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(two) : "r"(two), "r"(bound));
    }
    return two;
#else
    float x[2], limit[2];
    ckci_k_widen_line(bf16, &two, x);
    ckci_k_widen_line(bf16, &bound, limit);
    for (int i = 0; i < 2; i++) {
        x[i] = (MOST ? x[i] > limit[i] : x[i] < limit[i]) ? limit[i] : x[i];
    }
    return ckci_k_two_halves(bf16, x[0], x[1]);
#endif
}

/* The limits of the closed form, of numbers that are rounded to halves already, two in an instruction:
   rounding keeps their order, so that the results are those of limits before it. */
struct ckci_k_half_bounds {
    uint32_t low, high;
    int32_t bounds;
    bool bf16;

    CKCI_K_MEMBER ckci_k_half_bounds(const ckci_gpu_target &o)
    {
        bounds = o.bounds;
        bf16 = CKCI_K_BF16(o.t.dtype != CKCONV_F16);
        low = ckci_k_two(o.t.dtype, ckci_k_bits(o.low), ckci_k_bits(o.low));
        high = ckci_k_two(o.t.dtype, ckci_k_bits(o.high), ckci_k_bits(o.high));
    }

    CKCI_K_MEMBER uint32_t limit(uint32_t two) const
    {
        two = bounds > 0 ? ckci_k_limit_halves<false>(bf16, two, low) : two;
        return bounds > 1 ? ckci_k_limit_halves<true>(bf16, two, high) : two;
    }
};

/* What D tensors of one number a channel add to `count` sums from `channel` on, of which the first `good`
   exist, to LDS, and, if `factor` is not NULL, what they multiply them with: the THREADS threads of a
   block. */
template <int THREADS>
CKCI_K_FN void ckci_k_add_channels(const ckci_gpu_target &o, float *to, int32_t channel, int32_t count,
                                   int32_t good, float *factor = nullptr)
{
    CKCI_K_UNROLL(1)
    for (int32_t i = (int32_t)threadIdx.x; i < count; i += THREADS) {
        float sum = 0, product = 1;
        CKCI_K_UNROLL(1)
        for (int32_t j = 0; j < o.adds && i < good; j++) {
            const ckci_gpu_extra &d = o.d[j];
            float more = 0;
            if (d.line == CKCI_LINE_CHANNELS) {
                const int64_t at = (channel + i) * d.stride[o.across ? 5 : 2];
                ckci_k_load_number(d.dtype, d.p + at * ckci_k_size(d.dtype), more);
            }
            if (factor && d.how == CKCI_EXTRA_MULTIPLY) {
                product *= more;
            } else {
                sum = ckci_k_fma(o.beta, more, sum);
            }
        }
        to[i] = sum;
        if (factor) {
            factor[i] = product;
        }
    }
}

/* The closed form of N sums where o.residual is not ANY, but for its limits and factors. shift: theirs of
   ckci_k_add_channels. */
template <int N> CKCI_K_FN void ckci_k_linear(const ckci_gpu_target &o, float (&x)[N], const float *shift)
{
    CKCI_K_UNROLL(8)
    for (int i = 0; i < N; i++) {
        x[i] = ckci_k_fma(o.alpha, x[i], shift[i]);
    }
}

/* The residual's N numbers, `words` of f16 or bf16, come to them; gate: o.gate, or ADD where it is none. */
template <int N>
CKCI_K_FN void ckci_k_add_residual(const ckci_gpu_target &o, float (&x)[N], int32_t dtype,
                                   const uint32_t *words, int32_t gate)
{
    float d[N];
    ckci_k_widen_line(CKCI_K_BF16(dtype != CKCONV_F16), words, d);
    ckci_k_add_numbers(o, gate, d, x);
}

/* Numbers from the first of a short line to its i-th: they lie o.t.stride[2] apart, but those of planes where
   `rows` says, positions of which some lie in another image. */
CKCI_K_FN int64_t ckci_k_short_at(const ckci_gpu_target &o, const int64_t *rows, int i)
{
    return rows && o.across == CKCI_ACROSS_PLANES ? rows[i] - rows[0] : i * o.t.stride[2];
}

/* What D tensor t of o has for N sums of channels `channel`, ... (o.across: of that one) that go to memory at
   `to`. SHORT: they are not aligned together, lie as ckci_k_short_at says, or the line ends before: `left` of
   them exist. */
template <int N, bool SHORT, class R>
CKCI_K_FN void ckci_k_load_extra(const ckci_gpu_target &o, const ckci_gpu_extra &t, const unsigned char *to,
                                 int64_t channel, int32_t left, R (&d)[N], const int64_t *rows = nullptr)
{
    const bool output = t.line == CKCI_LINE_OUTPUT;
    const int64_t at = output ? (to - o.t.p) / ckci_k_size(o.t.dtype) : channel;
    if constexpr (SHORT) {
        const int64_t size = ckci_k_size(t.dtype);
        const int64_t step = o.across ? 0 : t.stride[2] * size;
        const int64_t first = output ? at * size : at * size * t.stride[o.across ? 5 : 2];
        CKCI_K_UNROLL(8)
        for (int i = 0; i < N; i++) {
            d[i] = 0;
            if (i < left) {
                const int64_t more = output ? ckci_k_short_at(o, rows, i) * size : i * step;
                ckci_k_load_number(t.dtype, t.p + first + more, d[i]);
            }
        }
    } else if (output) {
        ckci_k_load_line<N>(t.dtype, t.p + at * ckci_k_size(t.dtype), d);
    } else {
        ckci_k_load_channels<N>(t, o.across, at, d);
    }
}

/* The epilogue of such sums, in any form but SINGLE, up to the rounding to storage. CURVED: that form, too,
   whose constants take scalar registers; FACTORS: D tensors may multiply; SLOPED: that form, too. */
template <int N, bool CURVED = true, bool FACTORS = true, bool SHORT = false, bool SLOPED = false, class R>
CKCI_K_FN void ckci_k_epilogue(const ckci_gpu_target &target, R (&x)[N], const unsigned char *to,
                               int64_t channel, int32_t left = N, const int64_t *rows = nullptr)
{
    const ckci_gpu_target &o = ckci_k_late(target);
    const R alpha = ckci_k_closed<R>(o).alpha;
    CKCI_K_UNROLL(8)
    for (int i = 0; i < N && o.scale; i++) {
        x[i] *= !SHORT || i < left ? ((const R *)o.scale)[channel + i] : (R)1;
    }
    CKCI_K_UNROLL(8)
    for (int i = 0; i < N && o.shift; i++) {
        x[i] += !SHORT || i < left ? ((const R *)o.shift)[channel + i] : (R)0;
    }
    CKCI_K_UNROLL(8)
    for (int i = 0; i < N; i++) {
        x[i] *= alpha;
    }
    CKCI_K_UNROLL(1)
    for (int j = 0; j < o.adds; j++) {
        R d[N];
        ckci_k_load_extra<N, SHORT>(o, o.d[j], to, channel, left, d, rows);
        if (SLOPED && o.form == CKCI_FORM_SLOPED) {
            ckci_k_bend<ckci_k_line_ops<R>::OPS>(o.t.op, x, d);
            continue;
        }
        ckci_k_join<FACTORS>(o, o.d[j], d, x);
    }
    if (CURVED && o.form == CKCI_FORM_CURVED) {
        ckci_k_bend<ckci_k_line_ops<R>::OPS>(o.t.op, x);
    }
    if constexpr (CURVED) {
        ckci_k_limit_line(o, x);
    } else {
        ckci_k_limit(o, x);
    }
}

/* Eight sums from LDS. AMD: by 16 bytes, as shorter loads of a wave meet in the banks. */
template <class T, class R> CKCI_K_FN void ckci_k_take_line(const T *v, R (&x)[8])
{
    if constexpr (CKCI_K_MAYBE_AMD && sizeof(T) == 4) {
        alignas(16) T sum[8];
        ((ckci_k_uint4 *)sum)[0] = ((const ckci_k_uint4 *)v)[0];
        ((ckci_k_uint4 *)sum)[1] = ((const ckci_k_uint4 *)v)[1];
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            x[i] = (R)sum[i];
        }
    } else {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            x[i] = (R)v[i];
        }
    }
}

/* Eight sums v, in LDS, to memory at `to`, in any form but SINGLE (SLOPED: that one, too). SHORT: `left` of
   them, one by one; rows: see ckci_k_short_at. */
template <bool SHORT = false, bool SLOPED = false, class T>
CKCI_K_FN void ckci_k_write_line(const ckci_gpu_target &target, T *v, unsigned char *to, int64_t channel,
                                 int32_t left = 8, const int64_t *rows = nullptr)
{
    const ckci_gpu_target &o = ckci_k_late(target);
    if (!SHORT && o.form == CKCI_FORM_STORE) {
        if constexpr (CKCI_K_MAYBE_AMD) { /* whose compilers would load one by one where types branch */
            alignas(16) T y[8];
            ckci_k_take_line(v, y);
            ckci_k_store8(o.t.dtype, to, y);
        } else {
            ckci_k_store8(o.t.dtype, to, v);
        }
        return;
    }
    if (!SHORT || o.form != CKCI_FORM_STORE) {
        typename ckci_k_real<T>::type x[8];
        ckci_k_take_line(v, x);
        ckci_k_epilogue<8, true, true, SHORT, SLOPED>(o, x, to, channel, left, rows);
        alignas(16) T y[8];
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            if constexpr (T(0.5f) == T(0)) {
                y[i] = ckci_k_int(x[i], -2147483648.f, 2147483648.f);
            } else {
                y[i] = x[i];
            }
            if constexpr (SHORT) {
                v[i] = y[i];
            }
        }
        if constexpr (!SHORT) {
            ckci_k_store8(o.t.dtype, to, y);
        }
    }
    CKCI_K_UNROLL(1)
    for (int i = 0; SHORT && i < 8 && i < left; i++) {
        ckci_k_put_at<T>(o, to + ckci_k_short_at(o, rows, i) * ckci_k_size(o.t.dtype), v[i]);
    }
}

/* `count` (1 or 8) columns c, ... of one position. v lies in LDS. SHORT: in any form but SINGLE by lines,
   whatever their strides; SLOPED: in that form, too. */
template <bool SHORT = false, bool SLOPED = false, class T>
CKCI_K_FN void ckci_k_write8(const ckci_gpu_conv &conv, T *v, int32_t count, int32_t g, int32_t n, int32_t c,
                             int32_t columns, int32_t z, int32_t y, int32_t x)
{
    const ckci_gpu_conv &p = ckci_k_late(conv);
    const ckci_tensor &t = p.o.t;
    if ((SHORT || p.o_vec) && count == 8 && p.o.form != CKCI_FORM_SINGLE) {
        const int64_t at = g * t.stride[0] + n * t.stride[1] + c * (SHORT ? t.stride[2] : 1) +
                           z * t.stride[3] + y * t.stride[4] + x * t.stride[5];
        unsigned char *to = t.p + at * ckci_k_size(t.dtype);
        const int64_t channel = p.o.across ? (int64_t)x : (int64_t)g * columns + c;
        if (!SHORT || p.o_vec) {
            ckci_k_write_line<false, SLOPED>(p.o, v, to, channel);
        } else {
            ckci_k_write_line<SHORT, SLOPED>(p.o, v, to, channel, columns - c);
        }
        return;
    }
    CKCI_K_UNROLL(1)
    for (int i = 0; i < count && c + i < columns; i++) {
        ckci_k_write<T, ckci_k_line_ops<T>::OPS>(p.o, v[i], g, n, c + i, z, y, x);
    }
}
