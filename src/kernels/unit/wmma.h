/*------------------------------------------------------------------------------------------------------------
  >>k-unit-wmma
  RDNA 3 and 4, gfx125x: WMMA for f16, bf16 and i8. They differ in where operands lie, and the last multiplies
  twice as many places of the reduction. A wave of 32 holds 16 x 16 sums. Each struct is the unit of one kind
  of operands with the members that >>k-unit lists; the generation is a parameter, so that a layout that
  differs is one expression.
*/
#pragma once
#include "kernels/unit/unit.h"

#if defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12)
#if defined(CKCI_K_WMMA32) && !defined(CKCI_SIMULATOR)
/* Sums += products of 32 places of f16 or bf16. */
template <class T, class Sums, class Operand>
CKCI_K_FN void ckci_k_wmma_32(Sums &d, const Operand &a, const Operand &b)
{
    if constexpr (T::TYPE == CKCONV_F16) {
        d.v = __builtin_amdgcn_wmma_f32_16x16x32_f16(false, ckci_k_as<_Float16, 16>(a), false,
                                                     ckci_k_as<_Float16, 16>(b), (short)0, d.v, false, false);
    } else {
        d.v = __builtin_amdgcn_wmma_f32_16x16x32_bf16(false, ckci_k_as<__bf16, 16>(a), false,
                                                      ckci_k_as<__bf16, 16>(b), (short)0, d.v, false, false);
    }
}
#endif

/* RDNA: 16 x 16 sums. Before gfx12 both halves of a wave hold the same 16 places of the reduction, from then
   on each holds eight. gfx125x multiplies 32 places: here half of them are zeros, which fits kernels whose
   reductions are short; tiles have ckci_k_wmma32. */
template <int GFX> struct ckci_k_wmma : ckci_k_square<16, 8> {
    enum { WAVE = 32 };
    struct operand {
        ckci_k_uint4 v[GFX == 11 ? 2 : 1];
    };

    static CKCI_K_MEMBER operand load(const unsigned char *tile, int row0, int at)
    {
        int lane = (int)threadIdx.x % WAVE;
        operand r;
        if constexpr (GFX == 11) {
            r.v[0] = *(const ckci_k_uint4 *)(tile + row0 * KB + ckci_k_spot<KB>(lane % M, at / 16));
            r.v[1] = *(const ckci_k_uint4 *)(tile + row0 * KB + ckci_k_spot<KB>(lane % M, at / 16 + 1));
        } else {
            r.v[0] =
                *(const ckci_k_uint4 *)(tile + row0 * KB + ckci_k_spot<KB>(lane % M, at / 16 + lane / M));
        }
        return r;
    }

    /* 16 rows of their own addresses, this lane's (of row lane % 16) in `row`. */
    static CKCI_K_MEMBER operand load_rows(const unsigned char *row, int at)
    {
        const int half = (int)threadIdx.x % WAVE / 16;
        operand r;
        if constexpr (GFX == 11) {
            r.v[0] = *(const ckci_k_uint4 *)(row + at);
            r.v[1] = *(const ckci_k_uint4 *)(row + at + 16);
        } else {
            r.v[0] = *(const ckci_k_uint4 *)(row + at + half * 16);
        }
        (void)half;
        return r;
    }

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
#if defined(CKCI_SIMULATOR)
        sim_wmma_16x16x16<T>(GFX, &a, &b, d.v);
#elif defined(CKCI_K_WMMA)
        if constexpr (T::TYPE == CKCONV_F16) {
            d.v = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(ckci_k_as<_Float16, 16>(a),
                                                             ckci_k_as<_Float16, 16>(b), d.v);
        } else {
            d.v = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(ckci_k_as<short, 16>(a),
                                                              ckci_k_as<short, 16>(b), d.v);
        }
#elif defined(CKCI_K_WMMA32)
        const struct {
            ckci_k_uint4 v[2];
        } x = {{a.v[0], {0, 0, 0, 0}}}, y = {{b.v[0], {0, 0, 0, 0}}};
        ckci_k_wmma_32<T>(d, x, y);
#else
        if constexpr (T::TYPE == CKCONV_F16) {
            d.v = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(ckci_k_as<_Float16, 8>(a),
                                                                   ckci_k_as<_Float16, 8>(b), d.v);
        } else {
            d.v = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(ckci_k_as<short, 8>(a),
                                                                    ckci_k_as<short, 8>(b), d.v);
        }
#endif
    }

    static CKCI_K_MEMBER int row(int i)
    {
        int half = (int)threadIdx.x % WAVE / 16;
        return GFX == 11 ? 2 * i + half : 8 * half + i;
    }
};

#if defined(CKCI_K_WMMA32)
/* gfx125x, in tiles: 32 places of the reduction, of which each half of a wave holds eight and eight. */
struct ckci_k_wmma32 : ckci_k_wmma<12> {
    enum { STEP = 64 };
    struct operand {
        ckci_k_uint4 v[2];
    };

    static CKCI_K_MEMBER operand load(const unsigned char *tile, int row0, int at)
    {
        const int lane = (int)threadIdx.x % WAVE;
        operand r;
        CKCI_K_UNROLL(2)
        for (int i = 0; i < 2; i++) {
            r.v[i] = *(const ckci_k_uint4 *)(tile + row0 * KB +
                                             ckci_k_spot<KB>(lane % M, at / 16 + 2 * i + lane / M));
        }
        return r;
    }

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
#if defined(CKCI_SIMULATOR)
        sim_wmma_16x16x32<T>(&a, &b, d.v);
#else
        ckci_k_wmma_32<T>(d, a, b);
#endif
    }
};

/* 64 places of the reduction in as many bytes. */
template <> struct ckci_k_whole<ckci_k_wmma32> : ckci_k_wmma32 {
    enum { SIZE = 1 };
    typedef int32_t number;
    typedef ckci_k_lane_sums<int32_t, 8> sums;

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
#if defined(CKCI_SIMULATOR)
        sim_wmma_i32_16x16x64(&a, &b, d.v);
#else
        d.v = __builtin_amdgcn_wmma_i32_16x16x64_iu8(true, ckci_k_as<int, 8>(a), true, ckci_k_as<int, 8>(b),
                                                     d.v, false, false);
#endif
    }
};
#endif

#if defined(CKCI_SIMULATOR) || !defined(CKCI_K_WMMA32)
/* Two products of 16 places of the reduction. */
template <int GFX> struct ckci_k_whole<ckci_k_wmma<GFX>> : ckci_k_wmma<GFX> {
    enum { SIZE = 1 };
    typedef int32_t number;
    typedef ckci_k_lane_sums<int32_t, 8> sums;
    typedef typename ckci_k_wmma<GFX>::operand operand;

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
#if defined(CKCI_SIMULATOR)
        for (int i = 0; i < 2; i++) { /* chunks; of one chunk its halves */
            const int at = GFX == 11 ? 16 * i : 8 * i;
            sim_wmma_i32_16x16x16(GFX, (const unsigned char *)&a + at, (const unsigned char *)&b + at, d.v);
        }
#elif defined(CKCI_K_WMMA)
        CKCI_K_UNROLL(2)
        for (int i = 0; i < 2; i++) {
            d.v = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, ckci_k_as<int, 4>(a.v[i]), true,
                                                             ckci_k_as<int, 4>(b.v[i]), d.v, false);
        }
#else
        const ckci_k_uint4 &c = a.v[0], &e = b.v[0];
        const ckci_k_uint2 a0 = {c.x, c.y}, a1 = {c.z, c.w}, b0 = {e.x, e.y}, b1 = {e.z, e.w};
        d.v = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, ckci_k_as<int, 2>(a0), true,
                                                               ckci_k_as<int, 2>(b0), d.v, false);
        d.v = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, ckci_k_as<int, 2>(a1), true,
                                                               ckci_k_as<int, 2>(b1), d.v, false);
#endif
    }
};
#endif
#endif
