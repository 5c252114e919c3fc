/*------------------------------------------------------------------------------------------------------------
  >>cpu-norm-vector
  Kernels of group norm's rows (>>cpu-norm): sums and sums of squares or of products, a linear map of x and
  dy, and activations with their gradients. They take and write floats and compute in double, eight numbers
  at once. cpu/norm.template.h has the kernels and is included once for each instruction set; here is what
  they are made of. exp and erf are computed here, since libraries have none for vectors.
*/
#pragma once
#include "core/base.h"
#include "cpu/isa.h"

/* Rows that lie side by side, of channels or of positions, go through vectors of doubles instead. A slab's
   statistics are then one pass over x - shift, shift being one of its values: at most sqrt(numbers) standard
   deviations off, which costs half the digits of the count, and doubles have them. */
#if defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 9)
#define CKCI_NORM_ROWS 1
#else
#define CKCI_NORM_ROWS 0
#endif

enum { CKCI_NORM_WIDTH = CKCI_STACK / 256, CKCI_NORM_BATCH = 4, CKCI_NORM_ACROSS = 8 };

/* Factors of columns, each an array of whole vectors. v = (x - shift) * kv + kb goes to the activation. */
typedef struct ckci_norm_factors {
    double shift[CKCI_NORM_WIDTH], kx[CKCI_NORM_WIDTH], kd[CKCI_NORM_WIDTH], k0[CKCI_NORM_WIDTH];
    double ks[CKCI_NORM_WIDTH], kv[CKCI_NORM_WIDTH], kb[CKCI_NORM_WIDTH];
} ckci_norm_factors;

/* Rows for a kernel. The factors of number c of row r are first + r * down + (across ? c : c % 8). */
typedef struct ckci_norm_call {
    int64_t rows, width, first, down;
    int64_t open; /* rows that may be read in whole eights, beyond their end */
    int across;
    ckconv_element act;
    const ckci_norm_factors *f;
    const float *x, *dy; /* dy: may be NULL */
    float *out;
    int64_t x_step, dy_step, out_step;
    double *sums; /* of u, and CKCI_NORM_WIDTH further of v: (u, v) = (x - shift, its square), with dy
                     (dy * (x - shift), dy) */
} ckci_norm_call;

/* sum adds to the sums of each column, line to eight of each row, number c to the (c % 8)th.
   map: out = (x - shift) * kx + k0, with dy ((x - shift) * kx + (dy * kd + k0)) * ks: a gradient that cancels
   does so in the inner sum. act: out = act(v), with dy dy * act'(v). */
typedef void (*ckci_norm_kernel)(const ckci_norm_call *q);

#if CKCI_NORM_ROWS
typedef int64_t ckci_i8x8 __attribute__((vector_size(64)));
typedef int32_t ckci_i4x8 __attribute__((vector_size(32)));
typedef double ckci_d8 __attribute__((vector_size(64)));
typedef float ckci_f8 __attribute__((vector_size(32)));

/* Vector v of doubles from eight floats, or eight doubles, at p; the other way round */
#define CKCI_NORM_DOUBLES(v, p)                                                                              \
    ckci_d8 v;                                                                                               \
    {                                                                                                        \
        ckci_f8 narrow;                                                                                      \
        memcpy(&narrow, p, sizeof narrow);                                                                   \
        v = CKCI_NORM_WIDEN(narrow);                                                                         \
    }
#define CKCI_NORM_FACTOR(v, p)                                                                               \
    ckci_d8 v;                                                                                               \
    memcpy(&v, p, sizeof v);
#define CKCI_NORM_STORE(p, v)                                                                                \
    {                                                                                                        \
        ckci_f8 narrow = CKCI_NORM_NARROW(v);                                                                \
        memcpy(p, &narrow, sizeof narrow);                                                                   \
    }
/* Eight numbers of row r from c on: px and py are where x and dy are, or copies where that would be outside
   of memory. */
#define CKCI_NORM_EIGHT(x, dy, c, width)                                                                     \
    const float *px = (x) + (c), *py = (dy) + (c);                                                           \
    const size_t some = (size_t)((width) - (c) < 8 ? (width) - (c) : 8);                                     \
    float ends[2][8];                                                                                        \
    if (some < 8 && r >= q->open) {                                                                          \
        memset(ends, 0, sizeof ends);                                                                        \
        memcpy(ends[0], px, some * sizeof *px);                                                              \
        memcpy(ends[1], py, some * sizeof *py);                                                              \
        px = ends[0];                                                                                        \
        py = ends[1];                                                                                        \
    }
/* The first `some` < 8 numbers */
#define CKCI_NORM_FEW(to, from, some)                                                                        \
    {                                                                                                        \
        const float *few = (from);                                                                           \
        float *const at_few = (to);                                                                          \
        if ((some)&4) {                                                                                      \
            memcpy(at_few, few, 4 * sizeof *few);                                                            \
            few += 4;                                                                                        \
        }                                                                                                    \
        if ((some)&2) {                                                                                      \
            memcpy(at_few + (few - (from)), few, 2 * sizeof *few);                                           \
            few += 2;                                                                                        \
        }                                                                                                    \
        if ((some)&1) {                                                                                      \
            memcpy(at_few + (few - (from)), few, sizeof *few);                                               \
        }                                                                                                    \
    }
/* exp(-v) = 2^n * exp(r), |r| <= ln(2) / 2, by the Taylor polynomial of degree 11: the next term is below
   1e-14 of it. |v| is cut at 700, where sigmoids are 0 or 1 to f32. NaN stays NaN: it is added. n comes from
   a conversion, and NaN from its bits: compilers that reassociate, or keep more digits (x87), would undo a
   sum with 1.5 * 2^52, which rounds as well; those that know of no NaN take v == v for true. */
#define CKCI_NORM_EXP(e, v)                                                                                  \
    ckci_d8 e;                                                                                               \
    {                                                                                                        \
        const ckci_i8x8 zeros = {0, 0, 0, 0, 0, 0, 0, 0}, sign = zeros + INT64_MIN;                          \
        const ckci_i8x8 most = (ckci_i8x8)((ckci_d8)zeros + 700.0);                                          \
        const ckci_i8x8 half = (ckci_i8x8)((ckci_d8)zeros + 0.5);                                            \
        const ckci_i8x8 infinity = zeros + ((int64_t)0x7ff << 52), u = (ckci_i8x8)(v) ^ sign;                \
        const ckci_i8x8 size = u & ~sign, over = size > most, not_number = size > infinity;                  \
        const ckci_d8 cut = (ckci_d8)((u & (sign | ~over)) | (most & over));                                 \
        const ckci_d8 powers = cut * 1.4426950408889634;                                                     \
        const ckci_i4x8 whole = __builtin_convertvector(powers + (ckci_d8)((u & sign) | half), ckci_i4x8);   \
        const ckci_i8x8 power = __builtin_convertvector(whole, ckci_i8x8) << 52;                             \
        const ckci_d8 n = __builtin_convertvector(whole, ckci_d8);                                           \
        ckci_d8 part = (cut - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;              \
        e = part * (1 / 39916800.0) + 1 / 3628800.0;                                                         \
        e = e * part + 1 / 362880.0;                                                                         \
        e = e * part + 1 / 40320.0;                                                                          \
        e = e * part + 1 / 5040.0;                                                                           \
        e = e * part + 1 / 720.0;                                                                            \
        e = e * part + 1 / 120.0;                                                                            \
        e = e * part + 1 / 24.0;                                                                             \
        e = e * part + 1 / 6.0;                                                                              \
        e = e * part + 0.5;                                                                                  \
        e = e * part + 1.0;                                                                                  \
        e = e * part + 1.0;                                                                                  \
        e = (ckci_d8)((ckci_i8x8)e + power) + (ckci_d8)(u & not_number);                                     \
    }
/* y where v > 0, else 0 (v = 0, too: there a gradient is 0, and forward y is v); y where v is NaN. From bits,
   as above. */
#define CKCI_NORM_RELU(y, v)                                                                                 \
    {                                                                                                        \
        const ckci_i8x8 bits = (ckci_i8x8)(v), zeros = bits ^ bits, sign = zeros + INT64_MIN;                \
        const ckci_i8x8 infinity = zeros + ((int64_t)0x7ff << 52), not_number = (bits & ~sign) > infinity;   \
        y = (ckci_d8)((ckci_i8x8)(y) & ((bits > zeros) | not_number));                                       \
    }
/* e = exp(-v^2 / 2) and phi = (1 + erf(v / sqrt 2)) / 2, within 1e-12: erfc(|v| / sqrt 2) is e times a
   polynomial in (|v| - 4) / (|v| + 4), here 1 - 8 / (|v| + 4), of least error. */
#define CKCI_NORM_GELU(e, phi, v)                                                                            \
    CKCI_NORM_EXP(e, v * v * 0.5)                                                                            \
    ckci_d8 phi;                                                                                             \
    {                                                                                                        \
        const ckci_i8x8 bits = (ckci_i8x8)(v), sign = (bits ^ bits) + INT64_MIN;                             \
        const ckci_d8 z = 1.0 - 8.0 / ((ckci_d8)(bits & ~sign) + 4.0);                                       \
        phi = z * -4.1416048334387556e-05 - 0.00033376578570165627;                                          \
        phi = phi * z - 0.0007080012352747543;                                                               \
        phi = phi * z + 0.0009822951276259873;                                                               \
        phi = phi * z + 0.0008392337354079138;                                                               \
        phi = phi * z - 0.017055150259273663;                                                                \
        phi = phi * z + 0.0617105819253222;                                                                  \
        phi = phi * z - 0.1434180453518633;                                                                  \
        phi = phi * z + 0.2487581955886502;                                                                  \
        phi = phi * z - 0.3407954572972802;                                                                  \
        phi = phi * z + 0.1888212824682851;                                                                  \
        phi = 1.0 - phi * e;                                                                                 \
        phi = (ckci_d8)((ckci_i8x8)phi | (bits & sign)) * 0.5 + 0.5;                                         \
    }
#define CKCI_NORM_NAME(WHAT) CKCI_JOIN(ckci_norm_##WHAT##_, CKCI_NORM_SET)

#define CKCI_TARGET
#define CKCI_NORM_SET portable
#define CKCI_NORM_WIDEN(v) __builtin_convertvector(v, ckci_d8)
#define CKCI_NORM_NARROW(v) __builtin_convertvector(v, ckci_f8)
#include "cpu/norm.template.h"
#undef CKCI_TARGET
#undef CKCI_NORM_SET
#if CKCI_X86
#define CKCI_TARGET __attribute__((target("avx2,fma")))
#define CKCI_NORM_SET avx2
#include "cpu/norm.template.h"
#undef CKCI_TARGET
#undef CKCI_NORM_SET
#undef CKCI_NORM_WIDEN
#undef CKCI_NORM_NARROW
#define CKCI_TARGET __attribute__((target("avx512f,avx2,fma")))
#define CKCI_NORM_SET avx512
/* one instruction, of which compilers make four */
#define CKCI_NORM_WIDEN(v) (ckci_d8) _mm512_maskz_cvtps_pd((__mmask8)-1, (__m256)(v))
#define CKCI_NORM_NARROW(v) (ckci_f8) _mm512_maskz_cvtpd_ps((__mmask8)-1, (__m512d)(v))
#include "cpu/norm.template.h"
#undef CKCI_TARGET
#undef CKCI_NORM_SET
#endif
#endif
