/*------------------------------------------------------------------------------------------------------------
  >>cpu-isa
  The microkernels stamped out for each instruction set and kind of number, and the choice among them at run
  time. Each set is compiled with the target attribute of its functions, so that one build runs on every
  x86-64 processor; others have portable vectors. A plan's features choose, not this machine's, so that a plan
  made for another processor says what would run there. It needs cpu/micro.h alone.
*/
#pragma once
#include "cpu/micro.h"

/* What lines and taps read: elements, or bf16 that becomes them */
#define CKCI_XT CKCI_T
#define CKCI_X CKCI_LOAD
/* portable: 16 bytes, runs of 2 */
#define CKCI_TARGET
#define CKCI_M CKCI_R4
#define CKCI_ROWS 4
#define CKCI_T float
#define CKCI_V ckci_vf
#define CKCI_N 4
#define CKCI_LOAD ckci_load_vf
#define CKCI_STORE ckci_store_vf
#define CKCI_SPLAT ckci_splat_vf
#define CKCI_FMA ckci_fma_vf
#define CKCI_ADD ckci_add_vf
#define CKCI_ZERO ckci_splat_vf("\0\0\0\0\0\0\0")
CKCI_KERNELS(f_portable, CKCI_SPREAD_SCALAR, CKCI_TURN_SCALAR)
CKCI_THREES(ckci_three14_f_portable, ckci_three7_f_portable)
#define CKCI_HALF_MEMORY(WIDE, SLIM, WIDE1, SLIM1)                                                           \
    CKCI_INLINE ckci_vf WIDE(const uint16_t *p)                                                              \
    {                                                                                                        \
        float x[4];                                                                                          \
        for (int i = 0; i < 4; i++) {                                                                        \
            x[i] = WIDE1(p[i]);                                                                              \
        }                                                                                                    \
        return ckci_load_vf(x);                                                                              \
    }                                                                                                        \
    CKCI_INLINE void SLIM(uint16_t *p, ckci_vf v)                                                            \
    {                                                                                                        \
        float x[4];                                                                                          \
        ckci_store_vf(x, v);                                                                                 \
        for (int i = 0; i < 4; i++) {                                                                        \
            p[i] = SLIM1(x[i]);                                                                              \
        }                                                                                                    \
    }
CKCI_HALF_MEMORY(ckci_wide_f_portable, ckci_slim_f_portable, ckci_bf16_float, ckci_float_bf16)
CKCI_HALF_MEMORY(ckci_wide16_f_portable, ckci_slim16_f_portable, ckci_half_float, ckci_float_half)
CKCI_BF16_WIDENING(f_portable)
CKCI_F16_WIDENING(f_portable)
CKCI_TILES(ckci_tile2_f_portable_, CKCI_R2)
#undef CKCI_T
#undef CKCI_V
#undef CKCI_LOAD
#undef CKCI_STORE
#undef CKCI_SPLAT
#undef CKCI_FMA
#undef CKCI_ADD
#undef CKCI_ZERO
#if CKCI_HAS_I8
#define CKCI_T uint32_t
#define CKCI_V ckci_vi
#define CKCI_LOAD ckci_load_vi
#define CKCI_STORE ckci_store_vi
#define CKCI_SPLAT ckci_splat_vi
#define CKCI_FMA ckci_fma_vi
#define CKCI_ADD ckci_add_vi
#define CKCI_ZERO ckci_splat_vi("\0\0\0\0\0\0\0")
CKCI_KERNELS(i_portable, CKCI_SPREAD_SCALAR, CKCI_TURN_SCALAR)
CKCI_TILES(ckci_tile2_i_portable_, CKCI_R2)
#undef CKCI_T
#undef CKCI_V
#undef CKCI_LOAD
#undef CKCI_STORE
#undef CKCI_SPLAT
#undef CKCI_FMA
#undef CKCI_ADD
#undef CKCI_ZERO
#endif
#undef CKCI_N
#if CKCI_HAS_F64
#define CKCI_T double
#define CKCI_V ckci_vd
#define CKCI_N 2
#define CKCI_LOAD ckci_load_vd
#define CKCI_STORE ckci_store_vd
#define CKCI_SPLAT ckci_splat_vd
#define CKCI_FMA ckci_fma_vd
#define CKCI_ADD ckci_add_vd
#define CKCI_ZERO ckci_splat_vd("\0\0\0\0\0\0\0")
CKCI_KERNELS(d_portable, CKCI_SPREAD_SCALAR, CKCI_TURN_SCALAR)
CKCI_TILES(ckci_tile2_d_portable_, CKCI_R2)
#undef CKCI_T
#undef CKCI_V
#undef CKCI_N
#undef CKCI_LOAD
#undef CKCI_STORE
#undef CKCI_SPLAT
#undef CKCI_FMA
#undef CKCI_ADD
#undef CKCI_ZERO
#endif
#undef CKCI_TARGET
#undef CKCI_M
#undef CKCI_ROWS

#if CKCI_X86
/* One vector kind of an x86 instruction set: BITS 256 or 512, SUFFIX ps or pd. */
#define CKCI_LOAD(p) CKCI_MM(loadu)(p)
#define CKCI_STORE(p, v) CKCI_MM(storeu)(p, v)
#define CKCI_SPLAT(p) CKCI_MM(set1)(*(p))
#define CKCI_FMA(a, b, c) CKCI_MM(fmadd)(a, b, c)
#define CKCI_ADD(a, b) CKCI_MM(add)(a, b)
/* AVX2: 16 registers, runs of 3 */
#define CKCI_TARGET __attribute__((target("avx2,fma")))
#define CKCI_M CKCI_R4
#define CKCI_ROWS 4
#define CKCI_MM(op) _mm256_##op##_ps
#define CKCI_ZERO _mm256_setzero_ps()
#define CKCI_T float
#define CKCI_V __m256
#define CKCI_N 8
#define CKCI_INDEX(NAME, map, c)                                                                             \
    __m256i NAME =                                                                                           \
        _mm256_add_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(map)), _mm256_set1_epi32(c));
#define CKCI_PERMUTE(v, index) _mm256_permutevar8x32_ps(v, index)
CKCI_KERNELS(f_avx2, CKCI_SPREAD_PERMUTE, CKCI_TURN_EIGHT)
CKCI_THREES(ckci_three14_f_avx2, ckci_three7_f_avx2)
CKCI_TARGET CKCI_INLINE __m256 ckci_wide_f_avx2(const uint16_t *p)
{
    __m256i u = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(u, 16));
}
CKCI_TARGET CKCI_INLINE void ckci_slim_f_avx2(uint16_t *p, __m256 v)
{
    __m256i u = _mm256_castps_si256(v), high = _mm256_srli_epi32(u, 16);
    __m256i half = _mm256_add_epi32(_mm256_and_si256(high, _mm256_set1_epi32(1)), _mm256_set1_epi32(0x7fff));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    __m256i even = _mm256_srli_epi32(_mm256_add_epi32(u, half), 16);
    __m256i r = _mm256_blendv_epi8(even, _mm256_or_si256(high, _mm256_set1_epi32(0x40)), nan);
    r = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 8);
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_castsi256_si128(r));
}
CKCI_BF16_WIDENING(f_avx2)
#undef CKCI_TARGET
#define CKCI_TARGET __attribute__((target("avx2,fma,f16c")))
CKCI_TARGET CKCI_INLINE __m256 ckci_wide16_f_avx2(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
CKCI_TARGET CKCI_INLINE void ckci_slim16_f_avx2(uint16_t *p, __m256 v)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
CKCI_F16_WIDENING(f_avx2)
#undef CKCI_TARGET
#define CKCI_TARGET __attribute__((target("avx2,fma")))
#undef CKCI_XT
#undef CKCI_X
#define CKCI_XT uint16_t
#define CKCI_X ckci_wide_f_avx2
CKCI_BF16_KERNELS(f_avx2)
#undef CKCI_XT
#undef CKCI_X
#define CKCI_XT CKCI_T
#define CKCI_X CKCI_LOAD
CKCI_TILES(ckci_tile3_f_avx2_, CKCI_R3)
#undef CKCI_INDEX
#undef CKCI_PERMUTE
#undef CKCI_MM
#undef CKCI_ZERO
#undef CKCI_T
#undef CKCI_V
#undef CKCI_N
#if CKCI_HAS_F64
#define CKCI_MM(op) _mm256_##op##_pd
#define CKCI_ZERO _mm256_setzero_pd()
#define CKCI_T double
#define CKCI_V __m256d
#define CKCI_N 4
CKCI_KERNELS(d_avx2, CKCI_SPREAD_SCALAR, CKCI_TURN_SCALAR)
CKCI_TILES(ckci_tile3_d_avx2_, CKCI_R3)
#undef CKCI_MM
#undef CKCI_ZERO
#undef CKCI_T
#undef CKCI_V
#undef CKCI_N
#endif
#undef CKCI_TARGET
#undef CKCI_M
#undef CKCI_ROWS
/* AVX-512: 32 registers, runs of 7, and 6 and 4 for widths that 7 does not divide well */
#define CKCI_TARGET __attribute__((target("avx512f,avx2,fma")))
#define CKCI_M CKCI_R8
#define CKCI_ROWS 8
#define CKCI_MM(op) _mm512_##op##_ps
#define CKCI_ZERO _mm512_setzero_ps()
#define CKCI_T float
#define CKCI_V __m512
#define CKCI_N 16
#define CKCI_INDEX(NAME, map, c)                                                                             \
    __m512i NAME = _mm512_add_epi32(_mm512_loadu_si512((const void *)(map)), _mm512_set1_epi32(c));
#define CKCI_PERMUTE(v, index) _mm512_maskz_permutexvar_ps((__mmask16)-1, index, v)
CKCI_KERNELS(f_avx512, CKCI_SPREAD_PERMUTE, CKCI_TURN_EIGHT)
CKCI_THREES(ckci_three14_f_avx512, ckci_three7_f_avx512)
CKCI_LINES_KERNEL(ckci_lines9_f_avx512)
CKCI_TARGET CKCI_INLINE __m512 ckci_wide_f_avx512(const uint16_t *p)
{
    __m512i u =
        _mm512_maskz_cvtepu16_epi32((__mmask16)-1, _mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32((__mmask16)-1, u, 16));
}
CKCI_TARGET CKCI_INLINE void ckci_slim_f_avx512(uint16_t *p, __m512 v)
{
    __m512i u = _mm512_castps_si512(v), high = _mm512_maskz_srli_epi32((__mmask16)-1, u, 16);
    __m512i half = _mm512_add_epi32(_mm512_and_si512(high, _mm512_set1_epi32(1)), _mm512_set1_epi32(0x7fff));
    __m512i even = _mm512_maskz_srli_epi32((__mmask16)-1, _mm512_add_epi32(u, half), 16);
    __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    __m512i r = _mm512_mask_or_epi32(even, nan, high, _mm512_set1_epi32(0x40));
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_maskz_cvtepi32_epi16((__mmask16)-1, r));
}
CKCI_BF16_WIDENING(f_avx512)
CKCI_TARGET CKCI_INLINE __m512 ckci_wide16_f_avx512(const uint16_t *p)
{
    return _mm512_maskz_cvtph_ps((__mmask16)-1, _mm256_loadu_si256((const __m256i *)(const void *)p));
}
CKCI_TARGET CKCI_INLINE void ckci_slim16_f_avx512(uint16_t *p, __m512 v)
{
    _mm256_storeu_si256((__m256i *)(void *)p,
                        _mm512_maskz_cvtps_ph((__mmask16)-1, v, _MM_FROUND_TO_NEAREST_INT));
}
CKCI_F16_WIDENING(f_avx512)
#undef CKCI_XT
#undef CKCI_X
#define CKCI_XT uint16_t
#define CKCI_X ckci_wide_f_avx512
CKCI_BF16_KERNELS(f_avx512)
CKCI_LINES_KERNEL(ckci_half_lines9_f_avx512)
#undef CKCI_XT
#undef CKCI_X
#define CKCI_XT CKCI_T
#define CKCI_X CKCI_LOAD
CKCI_TILES(ckci_tile7_f_avx512_, CKCI_R7)
CKCI_TILES(ckci_tile6_f_avx512_, CKCI_R6)
CKCI_TILES(ckci_tile4_f_avx512_, CKCI_R4)
#if CKCI_BF16_DOT
/* Elements that are pairs of bf16 neighbours in the reduction */
#undef CKCI_TARGET
#undef CKCI_FMA
#define CKCI_TARGET __attribute__((target("avx512f,avx512bf16,avx2,fma")))
#define CKCI_FMA(a, b, c)                                                                                    \
    _mm512_dpbf16_ps(c, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b))
CKCI_TILES(ckci_tile7_p_avx512_, CKCI_R7)
CKCI_TILES(ckci_tile6_p_avx512_, CKCI_R6)
CKCI_TILES(ckci_tile4_p_avx512_, CKCI_R4)
CKCI_OUTERS(ckci_outer_p_avx512)
CKCI_LINE_KERNEL(ckci_line14_p_avx512, CKCI_R14, 14)
CKCI_LINE_KERNEL(ckci_line7_p_avx512, CKCI_R7, 7)
CKCI_LINE_KERNEL(ckci_line4_p_avx512, CKCI_R4, 4)
CKCI_THREES(ckci_three14_p_avx512, ckci_three7_p_avx512)
#undef CKCI_TARGET
#undef CKCI_FMA
#define CKCI_TARGET __attribute__((target("avx512f,avx2,fma")))
#define CKCI_FMA(a, b, c) CKCI_MM(fmadd)(a, b, c)
__attribute__((target("avx512f,avx512bf16,avx2,fma"))) CKCI_FN void
ckci_narrow_p_avx512(int64_t n, int64_t count, const void *src, int64_t src_step, void *dst, int64_t dst_step)
{
    for (int64_t i = 0; i < n; i++) {
        const float *from = (const float *)src + i * src_step;
        uint16_t *to = (uint16_t *)dst + i * dst_step;
        int64_t j = 0;
        for (; j + 16 <= count; j += 16) {
            __m256bh r = _mm512_cvtneps_pbh(_mm512_loadu_ps(from + j));
            memcpy(to + j, &r, sizeof r);
        }
        for (; j < count; j++) {
            to[j] = ckci_float_bf16(from[j]);
        }
    }
}
CKCI_TARGET CKCI_INLINE __m512i ckci_load_pairs(const unsigned char *p, int high)
{
    __m512i u = _mm512_setzero_si512();
    if (p) {
        u = _mm512_maskz_cvtepu16_epi32((__mmask16)-1, _mm256_loadu_si256((const __m256i *)(const void *)p));
    }
    return high ? _mm512_maskz_slli_epi32((__mmask16)-1, u, 16) : u;
}
CKCI_TARGET CKCI_INLINE __m256i ckci_load_few_pairs(const unsigned char *p, int high)
{
    __m256i u = _mm256_setzero_si256();
    if (p) {
        u = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    }
    return high ? _mm256_slli_epi32(u, 16) : u;
}
CKCI_TARGET CKCI_FN void ckci_zip_avx512(int64_t n, int64_t count, const void *a, const void *b,
                                         int64_t src_step, void *dst, int64_t dst_step)
{
    for (int64_t i = 0; i < n; i++) {
        const unsigned char *p = a ? (const unsigned char *)a + 2 * i * src_step : NULL;
        const unsigned char *q = b ? (const unsigned char *)b + 2 * i * src_step : NULL;
        uint32_t *to = (uint32_t *)dst + i * dst_step;
        int64_t j = 0;
        for (; j + 16 <= count; j += 16) {
            _mm512_storeu_si512((void *)(to + j), _mm512_or_si512(ckci_load_pairs(p ? p + 2 * j : p, 0),
                                                                  ckci_load_pairs(q ? q + 2 * j : q, 1)));
        }
        for (; j + 8 <= count; j += 8) {
            _mm256_storeu_si256((__m256i *)(void *)(to + j),
                                _mm256_or_si256(ckci_load_few_pairs(p ? p + 2 * j : p, 0),
                                                ckci_load_few_pairs(q ? q + 2 * j : q, 1)));
        }
        for (; j + 4 <= count; j += 4) {
            __m128i low =
                p ? _mm_loadl_epi64((const __m128i *)(const void *)(p + 2 * j)) : _mm_setzero_si128();
            __m128i high =
                q ? _mm_loadl_epi64((const __m128i *)(const void *)(q + 2 * j)) : _mm_setzero_si128();
            _mm_storeu_si128((__m128i *)(void *)(to + j), _mm_unpacklo_epi16(low, high));
        }
        for (; j < count; j++) {
            uint16_t low = 0, high = 0; /* memory need not be aligned */
            if (p) {
                memcpy(&low, p + 2 * j, 2);
            }
            if (q) {
                memcpy(&high, q + 2 * j, 2);
            }
            to[j] = (uint32_t)low | (uint32_t)high << 16;
        }
    }
}
#endif
#undef CKCI_INDEX
#undef CKCI_PERMUTE
#undef CKCI_MM
#undef CKCI_ZERO
#undef CKCI_T
#undef CKCI_V
#undef CKCI_N
#if CKCI_HAS_F64
#define CKCI_MM(op) _mm512_##op##_pd
#define CKCI_ZERO _mm512_setzero_pd()
#define CKCI_T double
#define CKCI_V __m512d
#define CKCI_N 8
CKCI_KERNELS(d_avx512, CKCI_SPREAD_SCALAR, CKCI_TURN_SCALAR)
CKCI_TILES(ckci_tile7_d_avx512_, CKCI_R7)
#undef CKCI_MM
#undef CKCI_ZERO
#undef CKCI_T
#undef CKCI_V
#undef CKCI_N
#endif
#undef CKCI_TARGET
#undef CKCI_M
#undef CKCI_ROWS
#undef CKCI_LOAD
#undef CKCI_STORE
#undef CKCI_SPLAT
#undef CKCI_FMA
#undef CKCI_ADD
#if CKCI_HAS_I8
#define CKCI_LOAD(p) CKCI_MM(loadu)((const void *)(p))
#define CKCI_STORE(p, v) CKCI_MM(storeu)((void *)(p), v)
#define CKCI_SPLAT(p) CKCI_SPLAT1((int)*(p))
#define CKCI_FMA(a, b, c) CKCI_ADD32(CKCI_MUL32(a, b), c)
#define CKCI_ADD(a, b) CKCI_ADD32(a, b)
#define CKCI_T uint32_t
#define CKCI_TARGET __attribute__((target("avx2,fma")))
#define CKCI_M CKCI_R4
#define CKCI_ROWS 4
#define CKCI_ADD32 _mm256_add_epi32
#define CKCI_MUL32 _mm256_mullo_epi32
#define CKCI_SPLAT1 _mm256_set1_epi32
#define CKCI_ZERO _mm256_setzero_si256()
#define CKCI_V __m256i
#define CKCI_N 8
#undef CKCI_LOAD
#undef CKCI_STORE
#define CKCI_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define CKCI_STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
CKCI_KERNELS(i_avx2, CKCI_SPREAD_SCALAR, CKCI_TURN_EIGHT)
CKCI_TILES(ckci_tile3_i_avx2_, CKCI_R3)
#undef CKCI_LOAD
#undef CKCI_STORE
#undef CKCI_TARGET
#undef CKCI_M
#undef CKCI_ROWS
#undef CKCI_ADD32
#undef CKCI_MUL32
#undef CKCI_SPLAT1
#undef CKCI_ZERO
#undef CKCI_V
#undef CKCI_N
#define CKCI_TARGET __attribute__((target("avx512f,avx2,fma")))
#define CKCI_M CKCI_R8
#define CKCI_ROWS 8
#define CKCI_ADD32 _mm512_add_epi32
#define CKCI_MUL32 _mm512_mullo_epi32
#define CKCI_SPLAT1 _mm512_set1_epi32
#define CKCI_ZERO _mm512_setzero_si512()
#define CKCI_V __m512i
#define CKCI_N 16
#define CKCI_LOAD(p) _mm512_loadu_si512((const void *)(p))
#define CKCI_STORE(p, v) _mm512_storeu_si512((void *)(p), v)
CKCI_KERNELS(i_avx512, CKCI_SPREAD_SCALAR, CKCI_TURN_EIGHT)
CKCI_TILES(ckci_tile7_i_avx512_, CKCI_R7)
#undef CKCI_LOAD
#undef CKCI_STORE
#undef CKCI_SPLAT
#undef CKCI_FMA
#undef CKCI_ADD
#undef CKCI_T
#undef CKCI_TARGET
#undef CKCI_M
#undef CKCI_ROWS
#undef CKCI_ADD32
#undef CKCI_MUL32
#undef CKCI_SPLAT1
#undef CKCI_ZERO
#undef CKCI_V
#undef CKCI_N
#endif
#endif

/* The microkernels for a set of CPU features and a number kind (CKCONV_F32, CKCONV_F64, CKCONV_I32). */
CKCI_FN const ckci_kernels *ckci_find_kernels(int32_t features, ckconv_dtype dtype)
{
    static const ckci_kernels f[3] = {
        CKCI_KERNEL_SET(f_portable, 4, 2, 2, 2, 4, ckci_three14_f_portable, ckci_three7_f_portable,
                        ckci_widen16_f_portable, ckci_narrow16_f_portable, ckci_widen_f_portable,
                        ckci_narrow_f_portable, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
#if CKCI_X86
        CKCI_KERNEL_SET(f_avx2, 8, 3, 3, 3, 4, CKCI_BF16_SET(f_avx2), NULL, NULL),
        CKCI_KERNEL_SET(f_avx512, 16, 7, 6, 4, 8, CKCI_BF16_SET(f_avx512), ckci_lines9_f_avx512,
                        ckci_half_lines9_f_avx512)
#endif
    };
    /* facts of another machine are planned with the kernels that there are */
    int level = !CKCI_X86 ? 0 : features & CKCONV_CPU_AVX512 ? 2 : features & CKCONV_CPU_AVX2 ? 1 : 0;
#if CKCI_HAS_F64
    static const ckci_kernels d[3] = {
        CKCI_KERNEL_SET(d_portable, 2, 2, 2, 2, 4, CKCI_NO_BF16_SET),
#if CKCI_X86
        CKCI_KERNEL_SET(d_avx2, 4, 3, 3, 3, 4, CKCI_NO_BF16_SET),
        CKCI_KERNEL_SET(d_avx512, 8, 7, 7, 7, 8, CKCI_NO_BF16_SET)
#endif
    };
    if (dtype == CKCONV_F64) {
        return &d[level];
    }
#endif
#if CKCI_HAS_I8
    static const ckci_kernels i[3] = {
        CKCI_KERNEL_SET(i_portable, 4, 2, 2, 2, 4, CKCI_NO_BF16_SET),
#if CKCI_X86
        CKCI_KERNEL_SET(i_avx2, 8, 3, 3, 3, 4, CKCI_NO_BF16_SET),
        CKCI_KERNEL_SET(i_avx512, 16, 7, 7, 7, 8, CKCI_NO_BF16_SET)
#endif
    };
    if (dtype == CKCONV_I32) {
        return &i[level];
    }
#endif
    (void)dtype;
    return &f[level];
}

/* Those of bf16 pairs; depthwise convolutions have none and only store by other instructions. */
CKCI_FN const ckci_kernels *ckci_find_pair_kernels(int depthwise)
{
#if CKCI_BF16_DOT
    static const ckci_kernels p = {16,
                                   {7, 6, 4},
                                   8,
                                   {{ckci_tile7_p_avx512_1, ckci_tile7_p_avx512_2},
                                    {ckci_tile6_p_avx512_1, ckci_tile6_p_avx512_2},
                                    {ckci_tile4_p_avx512_1, ckci_tile4_p_avx512_2}},
                                   {ckci_outer_p_avx512_2, ckci_outer_p_avx512_3},
                                   ckci_line14_p_avx512,
                                   ckci_line7_p_avx512,
                                   ckci_line4_p_avx512,
                                   NULL,
                                   ckci_spread_f_avx512,
                                   ckci_copy_f_avx512,
                                   ckci_turn_f_avx512,
                                   ckci_three14_p_avx512,
                                   ckci_three7_p_avx512,
                                   ckci_widen16_f_avx512,
                                   ckci_narrow16_f_avx512,
                                   ckci_widen_f_avx512,
                                   ckci_narrow_p_avx512,
                                   NULL,
                                   NULL,
                                   NULL,
                                   NULL,
                                   NULL,
                                   ckci_zip_avx512,
                                   NULL,
                                   NULL};
    static const ckci_kernels d = CKCI_KERNEL_SET(
        f_avx512, 16, 7, 6, 4, 8, ckci_three14_f_avx512, ckci_three7_f_avx512, ckci_widen16_f_avx512,
        ckci_narrow16_f_avx512, ckci_widen_f_avx512, ckci_narrow_p_avx512, ckci_half14_f_avx512,
        ckci_half7_f_avx512, ckci_half_three14_f_avx512, ckci_half_three7_f_avx512, ckci_half_taps9_f_avx512,
        ckci_zip_avx512, ckci_lines9_f_avx512, ckci_half_lines9_f_avx512);
    return depthwise ? &d : &p;
#else
    (void)depthwise;
    return NULL;
#endif
}

/* AVX2 stands for FMA and F16C, too. Not every compiler's library knows the latter's name; a CPUID
   instruction takes 7 us in a virtual machine. */
#if CKCI_X86
CKCI_FN int ckci_cpu_f16c(void)
{
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11
    return __builtin_cpu_supports("f16c");
#else
    uint32_t leaf[4] = {1, 0, 0, 0};
    __asm__("cpuid" : "+a"(leaf[0]), "=b"(leaf[1]), "+c"(leaf[2]), "=d"(leaf[3]));
    return leaf[2] >> 29 & 1;
#endif
}
#endif

CKCI_FN int32_t ckci_cpu_features(void)
{
    int32_t features = 0;
#if CKCI_X86
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && ckci_cpu_f16c()) {
        features |= CKCONV_CPU_AVX2;
        if (__builtin_cpu_supports("avx512f")) {
            features |= CKCONV_CPU_AVX512;
#if CKCI_BF16_DOT
            if (__builtin_cpu_supports("avx512bf16")) {
                features |= CKCONV_CPU_AVX512_BF16;
            }
#endif
        }
    }
#endif
    return features;
}
