/*------------------------------------------------------------------------------------------------------------
  >>k-unit-mfma
  CDNA: MFMA for f16, bf16, fp8, i8, f32, xf32 and f64. A wave of 64 holds 32 x 32 or 16 x 16 sums. Each
  struct is the unit of one kind of operands with the members that >>k-unit lists: how lanes hold operands and
  sums, a load from LDS, a product. tests/sim.h has the same layouts, written down a second time.
*/
#pragma once
#include "kernels/unit/unit.h"

#if defined(CKCI_K_MFMA)
/* CDNA: 32 x 32 sums, the halves of a wave hold neighbouring chunks of the reduction. */
struct ckci_k_mfma : ckci_k_cdna<32, 16> {
    typedef ckci_k_uint4 operand;

    static CKCI_K_MEMBER operand load(const unsigned char *tile, int row0, int at)
    {
        int lane = (int)threadIdx.x % WAVE;
        return *(const operand *)(tile + row0 * KB + ckci_k_spot<KB>(lane % M, at / 16 + lane / M));
    }

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
#if defined(CKCI_SIMULATOR)
        sim_mfma_32x32x8<T>(&a, &b, d.v, 0);
        sim_mfma_32x32x8<T>(&a, &b, d.v, 8);
#elif CKCI_K_UNIT == CKCI_K_UNIT_CDNA4
        if constexpr (T::TYPE == CKCONV_F16) {
            d.v = __builtin_amdgcn_mfma_f32_32x32x16_f16(ckci_k_as<_Float16, 8>(a), ckci_k_as<_Float16, 8>(b),
                                                         d.v, 0, 0, 0);
        } else {
            d.v = __builtin_amdgcn_mfma_f32_32x32x16_bf16(ckci_k_as<__bf16, 8>(a), ckci_k_as<__bf16, 8>(b),
                                                          d.v, 0, 0, 0);
        }
#else
        ckci_k_uint2 a0 = {a.x, a.y}, a1 = {a.z, a.w}, b0 = {b.x, b.y}, b1 = {b.z, b.w};
        half<T>(d, a0, b0);
        half<T>(d, a1, b1);
#endif
    }

#if !defined(CKCI_SIMULATOR) && CKCI_K_UNIT != CKCI_K_UNIT_CDNA4
    template <class T> static CKCI_K_MEMBER void half(sums &d, const ckci_k_uint2 &a, const ckci_k_uint2 &b)
    {
        if constexpr (T::TYPE == CKCONV_F16) {
            d.v = __builtin_amdgcn_mfma_f32_32x32x8f16(ckci_k_as<_Float16, 4>(a), ckci_k_as<_Float16, 4>(b),
                                                       d.v, 0, 0, 0);
        } else {
#if CKCI_K_UNIT == CKCI_K_UNIT_CDNA1
            d.v = __builtin_amdgcn_mfma_f32_32x32x4bf16(ckci_k_as<short, 2>(a.x), ckci_k_as<short, 2>(b.x),
                                                        d.v, 0, 0, 0);
            d.v = __builtin_amdgcn_mfma_f32_32x32x4bf16(ckci_k_as<short, 2>(a.y), ckci_k_as<short, 2>(b.y),
                                                        d.v, 0, 0, 0);
#else
            d.v = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(ckci_k_as<short, 4>(a), ckci_k_as<short, 4>(b),
                                                           d.v, 0, 0, 0);
#endif
        }
    }
#endif
};

/* CDNA 4, where waves fill tiles: the same with rows of LDS in order and chunks permuted for 64 banks, of
   which a load's lanes 0 to 3, 12 to 15 and 20 to 27 meet at a time, and the others. */
struct ckci_k_mfma_direct : ckci_k_mfma {
    enum { DIRECT = 1 };

    /* The chunk that place `place` of a row has; the place that a chunk has. */
    static CKCI_K_MEMBER int chunk_of(int row, int place)
    {
        return place ^ (row >> 2 & 3);
    }

    static CKCI_K_MEMBER operand load(const unsigned char *tile, int row0, int at)
    {
        const int lane = (int)threadIdx.x % WAVE, row = lane % M;
        return *(const operand *)(tile + (row0 + row) * KB + chunk_of(row, at / 16 + lane / M) * 16);
    }

    /* The same for slabs of 64 rows, of which LDS holds places of the reduction, 128 bytes each: which chunk
       a place of such a line has, so that two lines of four do not meet in the banks. */
    static CKCI_K_MEMBER int across_chunk_of(int line, int place)
    {
        return place ^ (line >> 1 & 1) * 4;
    }

    /* 16 lanes read 16 neighbours of four lines and get four lines of one of them. */
    static CKCI_K_MEMBER operand load_across(const unsigned char *tile, int row0, int at)
    {
        const int lane = (int)threadIdx.x % WAVE, line = at / 2 + lane / M * 8 + lane % 16 / 4;
        const int row = row0 % 64 + lane % M / 16 * 16 + lane % 4 * 4;
        const unsigned char *from =
            tile + row0 / 64 * (64 * KB) + line * 128 + across_chunk_of(line, row / 8) * 16 + row / 4 % 2 * 8;
        const ckci_k_uint2 low = read_turned(from), high = read_turned(from + 4 * 128);
        const operand r = {low.x, low.y, high.x, high.y};
        return r;
    }

    /* Of 16 lanes, of which four each read four times four halves, lane i gets halves i of all four. */
    static CKCI_K_MEMBER ckci_k_uint2 read_turned(const unsigned char *from)
    {
#if defined(CKCI_SIMULATOR)
        ckci_k_uint2 r;
        sim_read_turned(&r, from);
        return r;
#elif CKCI_K_UNIT == CKCI_K_UNIT_CDNA4
        typedef ckci_k_vector<short, 4> four;
        typedef __attribute__((address_space(3))) four *pointer;
        return ckci_k_cast<ckci_k_uint2>(__builtin_amdgcn_ds_read_tr16_b64_v4i16((pointer)from));
#else
        return *(const ckci_k_uint2 *)from; /* nobody calls it */
#endif
    }
};
/* What multiplies tiles of halves; DIRECT: that waves fill where they can. */
template <int DIRECT> struct ckci_k_mfma_of {
    typedef ckci_k_mfma type;
};
#if CKCI_K_UNIT == CKCI_K_UNIT_CDNA4
template <> struct ckci_k_mfma_of<1> {
    typedef ckci_k_mfma_direct type;
};
#endif

template <> struct ckci_k_whole<ckci_k_mfma> : ckci_k_mfma {
    enum { SIZE = 1 };
    typedef int32_t number;
    typedef ckci_k_lane_sums<int32_t, SUMS> sums;

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
#if defined(CKCI_SIMULATOR)
        for (int at = 0; at < 16; at += sim_mfma_i8_bytes()) {
            sim_mfma_i32_32x32(&a, &b, d.v, at);
        }
#elif CKCI_K_UNIT == CKCI_K_UNIT_CDNA4
        d.v = __builtin_amdgcn_mfma_i32_32x32x32_i8(ckci_k_as<int, 4>(a), ckci_k_as<int, 4>(b), d.v, 0, 0, 0);
#elif CKCI_K_UNIT == CKCI_K_UNIT_CDNA3
        const ckci_k_uint2 a0 = {a.x, a.y}, a1 = {a.z, a.w}, b0 = {b.x, b.y}, b1 = {b.z, b.w};
        d.v =
            __builtin_amdgcn_mfma_i32_32x32x16_i8(ckci_k_cast<long>(a0), ckci_k_cast<long>(b0), d.v, 0, 0, 0);
        d.v =
            __builtin_amdgcn_mfma_i32_32x32x16_i8(ckci_k_cast<long>(a1), ckci_k_cast<long>(b1), d.v, 0, 0, 0);
#else
        d.v = __builtin_amdgcn_mfma_i32_32x32x8i8((int)a.x, (int)b.x, d.v, 0, 0, 0);
        d.v = __builtin_amdgcn_mfma_i32_32x32x8i8((int)a.y, (int)b.y, d.v, 0, 0, 0);
        d.v = __builtin_amdgcn_mfma_i32_32x32x8i8((int)a.z, (int)b.z, d.v, 0, 0, 0);
        d.v = __builtin_amdgcn_mfma_i32_32x32x8i8((int)a.w, (int)b.w, d.v, 0, 0, 0);
#endif
    }
};

/* Four places of a lane's half of the reduction, one at a time; tf32 on gfx94x (xf32) two, rounded on their
   way into LDS. For the others the planner rounds tf32 while it packs, and takes it for f32. */
template <> struct ckci_k_single<ckci_k_mfma> : ckci_k_mfma {
    enum { SIZE = 4, F32 = 1, TF32 = CKCI_K_XF32 };

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
#if defined(CKCI_SIMULATOR)
        const int places = sim_mfma_f32_places(T::TF32);
        for (int at = 0; at < 16; at += 4 * places) {
            sim_mfma_f32_32x32(&a, &b, d.v, at, places);
        }
#else
        if constexpr (T::TF32) {
#if CKCI_K_XF32
            const ckci_k_uint2 a0 = {a.x, a.y}, a1 = {a.z, a.w}, b0 = {b.x, b.y}, b1 = {b.z, b.w};
            d.v = __builtin_amdgcn_mfma_f32_32x32x4_xf32(ckci_k_as<float, 2>(a0), ckci_k_as<float, 2>(b0),
                                                         d.v, 0, 0, 0);
            d.v = __builtin_amdgcn_mfma_f32_32x32x4_xf32(ckci_k_as<float, 2>(a1), ckci_k_as<float, 2>(b1),
                                                         d.v, 0, 0, 0);
#endif
        } else {
            one(d, a.x, b.x);
            one(d, a.y, b.y);
            one(d, a.z, b.z);
            one(d, a.w, b.w);
        }
#endif
    }

#if !defined(CKCI_SIMULATOR)
    static CKCI_K_MEMBER void one(sums &d, uint32_t x, uint32_t y)
    {
        d.v = __builtin_amdgcn_mfma_f32_32x32x2f32(ckci_k_float(x), ckci_k_float(y), d.v, 0, 0, 0);
    }
#endif
};

#if CKCI_K_UNIT != CKCI_K_UNIT_CDNA1
/* CDNA from gfx90a on: 16 x 16 sums; the quarters of a wave hold neighbouring chunks, two places each. */
template <> struct ckci_k_double<ckci_k_mfma> : ckci_k_square<16, 4> {
    enum { WAVE = 64, STEP = 64, SIZE = 8 };
    typedef double number;
    typedef ckci_k_lane_sums<double, 4> sums;
    typedef ckci_k_uint4 operand;

    static CKCI_K_MEMBER operand load(const unsigned char *tile, int row0, int at)
    {
        int lane = (int)threadIdx.x % WAVE;
        return *(const operand *)(tile + row0 * KB + ckci_k_spot<KB>(lane % M, at / 16 + lane / M));
    }

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
#if defined(CKCI_SIMULATOR)
        sim_mfma_f64_16x16x4(&a, &b, d.v, 0);
        sim_mfma_f64_16x16x4(&a, &b, d.v, 8);
#else
        const ckci_k_vector<double, 2> x = ckci_k_as<double, 2>(a), y = ckci_k_as<double, 2>(b);
        d.v = __builtin_amdgcn_mfma_f64_16x16x4f64(x.x, y.x, d.v, 0, 0, 0);
        d.v = __builtin_amdgcn_mfma_f64_16x16x4f64(x.y, y.y, d.v, 0, 0, 0);
#endif
    }

    static CKCI_K_MEMBER int row(int i)
    {
        return 4 * i + (int)threadIdx.x % WAVE / 16;
    }
};
#endif

/* CDNA: 16 x 16 sums, for small groups. */
struct ckci_k_mfma16 : ckci_k_cdna<16, 4> {
    typedef ckci_k_uint2 operand;

    static CKCI_K_MEMBER operand load_rows(const unsigned char *row, int at)
    {
        return *(const operand *)(row + at + (int)threadIdx.x % WAVE / 16 * 8);
    }

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
#if defined(CKCI_SIMULATOR)
        sim_mfma_16x16x16<T>(&a, &b, d.v);
#else
        if constexpr (T::TYPE == CKCONV_F16) {
            d.v = __builtin_amdgcn_mfma_f32_16x16x16f16(ckci_k_as<_Float16, 4>(a), ckci_k_as<_Float16, 4>(b),
                                                        d.v, 0, 0, 0);
        } else {
#if CKCI_K_UNIT == CKCI_K_UNIT_CDNA1
            d.v = __builtin_amdgcn_mfma_f32_16x16x8bf16(ckci_k_as<short, 2>(a.x), ckci_k_as<short, 2>(b.x),
                                                        d.v, 0, 0, 0);
            d.v = __builtin_amdgcn_mfma_f32_16x16x8bf16(ckci_k_as<short, 2>(a.y), ckci_k_as<short, 2>(b.y),
                                                        d.v, 0, 0, 0);
#else
            d.v = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(ckci_k_as<short, 4>(a), ckci_k_as<short, 4>(b),
                                                            d.v, 0, 0, 0);
#endif
        }
#endif
    }
};
#endif
