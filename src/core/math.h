/*------------------------------------------------------------------------------------------------------------
  >>core-math
  Checked sizes; half, bfloat16 and the fp8 formats; element operations. Arithmetic alone: no tensor is known
  here. Conversions take numbers apart by their bits and memcpy, so that they give the same on every machine,
  big endian ones and those with -ffast-math too. Every small format is one row of numbers for one general
  conversion; the two 16-bit ones have a second form that compilers vectorise.
*/
#pragma once
#include "core/platform.h"

#define CKCI_MAX_BYTES ((int64_t)1 << 62)

CKCI_INLINE int64_t ckci_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

CKCI_INLINE int64_t ckci_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

CKCI_INLINE int64_t ckci_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

CKCI_INLINE int64_t ckci_round_up(int64_t a, int64_t b)
{
    return ckci_ceil_div(a, b) * b;
}

/* a mod b in 0..b-1 */
CKCI_INLINE int64_t ckci_mod(int64_t a, int64_t b)
{
    int64_t r = a % b;
    return r < 0 ? r + b : r;
}

CKCI_INLINE int64_t ckci_gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

/* *a *= b for non-negative numbers; 0 and no change when the product passes 2^62 */
CKCI_INLINE int ckci_mul(int64_t *a, int64_t b)
{
    if (b != 0 && *a > CKCI_MAX_BYTES / b) {
        return 0;
    }
    *a *= b;
    return 1;
}

CKCI_INLINE int64_t ckci_saturating_mul(int64_t a, int64_t b)
{
    return ckci_mul(&a, b) ? a : CKCI_MAX_BYTES;
}

/* sum of two numbers up to 2^62, at most 2^62 */
CKCI_INLINE int64_t ckci_saturating_add(int64_t a, int64_t b)
{
    return a > CKCI_MAX_BYTES - b ? CKCI_MAX_BYTES : a + b;
}

CKCI_INLINE uint32_t ckci_float_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

CKCI_INLINE float ckci_bits_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

/* Rounds x to its type, and hides from the compiler where it comes from: sums that give back what rounding
   took hold with -ffast-math, too, and on x87. */
CKCI_INLINE double ckci_as_written(double x)
{
#if defined(__GNUC__) || defined(__clang__)
#if defined(__SSE2_MATH__)
    __asm__("" : "+x"(x));
#else
    __asm__("" : "+m"(x));
#endif
    return x;
#else
    volatile double kept = x;
    return kept;
#endif
}

/* Compares bits: -ffinite-math-only takes x == x for true. */
CKCI_INLINE int ckci_is_nan(double x)
{
    uint64_t u;
    memcpy(&u, &x, 8);
    return (u & (uint64_t)INT64_MAX) > (uint64_t)0x7ff << 52;
}

CKCI_INLINE int ckci_is_finite(float x)
{
    return (ckci_float_bits(x) & 0x7f800000u) != 0x7f800000u;
}

/* A small binary floating-point format. A code without its sign is exponent field * 2^mant + mantissa; codes
   up to max_code are finite. inf_code < 0: no infinity. fnuz: a single NaN (sign bit alone) and no -0. */
typedef struct ckci_format {
    int bits, mant, bias;
    int max_code, inf_code, nan_code;
    int saturate, fnuz;
} ckci_format;

CKCI_FN const ckci_format *ckci_find_format(ckconv_dtype dtype)
{
    static const ckci_format f16 = {16, 10, 15, 0x7bff, 0x7c00, 0x7e00, 0, 0};
    static const ckci_format bf16 = {16, 7, 127, 0x7f7f, 0x7f80, 0x7fc0, 0, 0};
    static const ckci_format e4m3 = {8, 3, 7, 0x7e, -1, 0x7f, 1, 0};
    static const ckci_format e5m2 = {8, 2, 15, 0x7b, 0x7c, 0x7e, 1, 0};
    static const ckci_format e4m3z = {8, 3, 8, 0x7f, -1, 0x80, 1, 1};
    static const ckci_format e5m2z = {8, 2, 16, 0x7f, -1, 0x80, 1, 1};
    static const ckci_format tf32 = {19, 10, 127, 0x3fbff, 0x3fc00, 0x3fe00, 0, 0};
    switch (dtype) {
    case CKCONV_F16:
        return &f16;
    case CKCONV_BF16:
        return &bf16;
    case CKCONV_F8E4M3:
        return &e4m3;
    case CKCONV_F8E5M2:
        return &e5m2;
    case CKCONV_F8E4M3FNUZ:
        return &e4m3z;
    case CKCONV_F8E5M2FNUZ:
        return &e5m2z;
    case CKCONV_TF32:
        return &tf32;
    default:
        return NULL;
    }
}

/* Rounds once, to nearest even, from the exact double. A finite value that overflows becomes infinity, or
   the largest finite value where the format saturates. Infinity stays; in formats without it, it becomes NaN
   (FNUZ) or the largest finite value. */
CKCI_FN uint32_t ckci_encode(const ckci_format *f, double x)
{
    uint64_t u;
    memcpy(&u, &x, 8);
    uint32_t sign = (uint32_t)(u >> 63) << (f->bits - 1);
    int exponent = (int)((u >> 52) & 0x7ff);
    uint64_t mantissa = u & (((uint64_t)1 << 52) - 1);
    if (exponent == 0x7ff) {
        if (mantissa) {
            return f->fnuz ? (uint32_t)f->nan_code : sign | (uint32_t)f->nan_code;
        }
        if (f->fnuz) {
            return (uint32_t)f->nan_code;
        }
        return sign | (uint32_t)(f->inf_code >= 0 ? f->inf_code : f->max_code);
    }
    uint64_t code = 0;
    if (exponent != 0) {
        int field = exponent - 1023 + f->bias;
        int shift = 52 - f->mant + (field >= 1 ? 0 : 1 - field);
        mantissa |= (uint64_t)1 << 52;
        if (shift <= 53) {
            uint64_t half = ((uint64_t)1 << (shift - 1)) - 1;
            code = (mantissa + half + ((mantissa >> shift) & 1)) >> shift;
        }
        if (field > 1) {
            code += (uint64_t)(field - 1) << f->mant; /* the hidden bit carries into the exponent field */
        }
    }
    if (code > (uint64_t)f->max_code) {
        code = (uint64_t)(f->saturate ? f->max_code : f->inf_code);
    }
    return f->fnuz && code == 0 ? 0 : sign | (uint32_t)code;
}

CKCI_FN double ckci_decode(const ckci_format *f, uint32_t code)
{
    uint32_t sign = code >> (f->bits - 1);
    int rest = (int)(code & (((uint32_t)1 << (f->bits - 1)) - 1));
    int field = rest >> f->mant, mantissa = rest & ((1 << f->mant) - 1);
    uint64_t u;
    double x;
    if (f->fnuz ? (int)code == f->nan_code : rest > f->max_code) {
        u = rest == f->inf_code ? (uint64_t)0x7ff << 52 : (uint64_t)0xfff << 51;
    } else if (field == 0) {
        u = (uint64_t)(1023 + 1 - f->bias - f->mant) << 52; /* value of the last place */
        memcpy(&x, &u, 8);
        x *= mantissa;
        return sign ? -x : x;
    } else {
        u = (uint64_t)(field - f->bias + 1023) << 52 | (uint64_t)mantissa << (52 - f->mant);
    }
    u |= (uint64_t)sign << 63;
    memcpy(&x, &u, 8);
    return x;
}

/* The two 16-bit formats again, in a form that compilers vectorise. */
CKCI_INLINE float ckci_half_float(uint16_t h)
{
    /* 2^-14 + a subnormal one, less 2^-14: on the way no number is subnormal as a float, which programs of
       -ffast-math take for zero */
    uint32_t rest = (uint32_t)(h & 0x7fff) << 13;
    uint32_t small = ckci_float_bits(ckci_bits_float(rest + 0x38800000u) - 6.103515625e-5f);
    uint32_t finite = rest < 0x00800000u ? small : rest + 0x38000000u;
    uint32_t special = (rest >= 0x0f800000u) ? 0x7f800000u | (rest & 0x007fe000u) : finite;
    return ckci_bits_float(special | (uint32_t)(h & 0x8000) << 16);
}

CKCI_INLINE uint16_t ckci_float_half(float x)
{
    uint32_t u = ckci_float_bits(x), rest = u & 0x7fffffffu;
    uint32_t normal = (rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1)) >> 13;
    uint32_t subnormal = ckci_float_bits(ckci_bits_float(rest) + 0.5f) - 0x3f000000u;
    uint32_t huge = rest > 0x7f800000u ? 0x7e00u : 0x7c00u;
    uint32_t code = rest < 0x38800000u ? subnormal : rest < 0x47800000u ? normal : huge;
    return (uint16_t)(code | ((u >> 16) & 0x8000u));
}

CKCI_INLINE float ckci_bf16_float(uint16_t h)
{
    return ckci_bits_float((uint32_t)h << 16);
}

CKCI_INLINE uint16_t ckci_float_bf16(float x)
{
    uint32_t u = ckci_float_bits(x);
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded);
}

/* Round a float to a compute type, result as float. bf16x3 keeps two bf16 terms: 16 significant bits. */
CKCI_FN float ckci_round_float(ckconv_dtype compute, float x)
{
    switch (compute) {
    case CKCONV_F16:
        return ckci_half_float(ckci_float_half(x));
    case CKCONV_BF16:
        return ckci_bf16_float(ckci_float_bf16(x));
    case CKCONV_BF16X3: {
        float high = ckci_bf16_float(ckci_float_bf16(x));
        float low = x - high;
        /* infinity and NaN have no second term; nor has a value that rounded up to infinity */
        return ckci_is_finite(low) ? high + ckci_bf16_float(ckci_float_bf16(low)) : high;
    }
    case CKCONV_TF32:
    case CKCONV_F8E4M3:
    case CKCONV_F8E5M2:
    case CKCONV_F8E4M3FNUZ:
    case CKCONV_F8E5M2FNUZ: {
        const ckci_format *f = ckci_find_format(compute);
        return (float)ckci_decode(f, ckci_encode(f, (double)x));
    }
    default:
        return x;
    }
}

/* Round to nearest even and saturate; NaN gives 0. */
CKCI_FN int32_t ckci_to_int(double x, int32_t low, int32_t high)
{
    if (ckci_is_nan(x)) {
        return 0;
    }
    if (x <= (double)low) {
        return low;
    }
    if (x >= (double)high) {
        return high;
    }
    double down = floor(x), part = x - down;
    int64_t i = (int64_t)down;
    if (part > 0.5 || (part == 0.5 && (i & 1))) {
        i++;
    }
    return (int32_t)i;
}

CKCI_FN size_t ckci_size(ckconv_dtype dtype)
{
    switch (dtype) {
    case CKCONV_F64:
        return 8;
    case CKCONV_F32:
    case CKCONV_I32:
        return 4;
    case CKCONV_F16:
    case CKCONV_BF16:
        return 2;
    case CKCONV_F8E4M3:
    case CKCONV_F8E5M2:
    case CKCONV_F8E4M3FNUZ:
    case CKCONV_F8E5M2FNUZ:
    case CKCONV_I8:
        return 1;
    default:
        return 0;
    }
}

CKCI_INLINE int ckci_is_fp8(ckconv_dtype dtype)
{
    return dtype >= CKCONV_F8E4M3 && dtype <= CKCONV_F8E5M2FNUZ;
}

/* One element, any alignment. */
CKCI_FN double ckci_load(ckconv_dtype dtype, const unsigned char *p)
{
    float f;
    double d;
    int32_t i;
    uint16_t h;
    switch (dtype) {
    case CKCONV_F64:
        memcpy(&d, p, 8);
        return d;
    case CKCONV_F32:
        memcpy(&f, p, 4);
        return (double)f;
    case CKCONV_I32:
        memcpy(&i, p, 4);
        return (double)i;
    case CKCONV_I8:
        return (double)(*p < 128 ? (int)*p : (int)*p - 256);
    case CKCONV_F16:
        memcpy(&h, p, 2);
        return (double)ckci_half_float(h);
    case CKCONV_BF16:
        memcpy(&h, p, 2);
        return (double)ckci_bf16_float(h);
    default:
        return ckci_decode(ckci_find_format(dtype), *p);
    }
}

/* One element, any alignment, rounded once. */
CKCI_FN void ckci_store(ckconv_dtype dtype, unsigned char *p, double x)
{
    float f = (float)x;
    int32_t i;
    uint16_t h;
    switch (dtype) {
    case CKCONV_F64:
        memcpy(p, &x, 8);
        break;
    case CKCONV_F32:
        memcpy(p, &f, 4);
        break;
    case CKCONV_I32:
        i = ckci_to_int(x, INT32_MIN, INT32_MAX);
        memcpy(p, &i, 4);
        break;
    case CKCONV_I8:
        *p = (unsigned char)ckci_to_int(x, -128, 127);
        break;
    case CKCONV_F16:
    case CKCONV_BF16:
        h = (uint16_t)ckci_encode(ckci_find_format(dtype), x);
        memcpy(p, &h, 2);
        break;
    default:
        *p = (unsigned char)ckci_encode(ckci_find_format(dtype), x);
    }
}

/* x rounded to odd: a second rounding, to half or bf16, then gives what a single one would. */
CKCI_INLINE float ckci_odd_float(double x)
{
    float f = (float)x;
    if ((double)f != x && !ckci_is_nan(x)) {
        uint32_t u = ckci_float_bits(f);
        u -= ((double)f > x && x > 0) || ((double)f < x && x < 0) ? 1U : 0U; /* towards zero */
        f = ckci_bits_float(u | 1);
    }
    return f;
}

#if !CKCI_PART
CKCONV_API void ckconv_from_double(ckconv_dtype dtype, const double *src, void *dst, size_t count)
{
    size_t size = ckci_size(dtype), done = 0;
    if (dtype == CKCONV_F32) {
        for (; done < count; done++) {
            float f = (float)src[done];
            memcpy((unsigned char *)dst + done * 4, &f, 4);
        }
    } else if (dtype == CKCONV_F16 || dtype == CKCONV_BF16) {
        for (; done < count; done++) {
            float f = ckci_odd_float(src[done]);
            uint16_t h = dtype == CKCONV_F16 ? ckci_float_half(f) : ckci_float_bf16(f);
            memcpy((unsigned char *)dst + done * 2, &h, 2);
        }
    }
    for (size_t i = done; i < count && size; i++) {
        ckci_store(dtype, (unsigned char *)dst + i * size, src[i]);
    }
}

CKCONV_API void ckconv_to_double(ckconv_dtype dtype, const void *src, double *dst, size_t count)
{
    size_t size = ckci_size(dtype), done = 0;
    const unsigned char *p = (const unsigned char *)src;
    if (dtype == CKCONV_F32) {
        for (; done < count; done++) {
            float f;
            memcpy(&f, p + done * 4, 4);
            dst[done] = (double)f;
        }
    } else if (dtype == CKCONV_F16 || dtype == CKCONV_BF16) {
        for (; done < count; done++) {
            uint16_t h;
            memcpy(&h, p + done * 2, 2);
            dst[done] = (double)(dtype == CKCONV_F16 ? ckci_half_float(h) : ckci_bf16_float(h));
        }
    }
    for (size_t i = done; i < count && size; i++) {
        dst[i] = ckci_load(dtype, p + i * size);
    }
}
#endif /* !CKCI_PART */

