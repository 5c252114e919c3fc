/* kernels.matrix.hip.h - v0.1.0 - kernels of ckconv.h: matrix units, tiles in f32: HIP C++17, nvcc
   SPDX-License-Identifier: MIT */
#ifndef CKCONV_KERNELS_MATRIX_HIP_H
#define CKCONV_KERNELS_MATRIX_HIP_H
/*  (licence text at the end of ckconv.h)

Included by kernels.hip.h on one marked line. Do not include it yourself.

Convolutions that arithmetic limits: fwd, bwd_data and bwd_weight on matrix units, small groups and first
layers among them, and in f32 on multiply-adds. The table of kernels stands in kernels.hip.h.

TAGS
    >>k-matrix  all three on matrix units
    >>k-tile    all three in f32, tuned
*/

#ifndef CKCONV_IMPLEMENTATION
#error "kernels.matrix.hip.h is a part of kernels.hip.h: define CKCONV_IMPLEMENTATION and include ckconv.h"
#endif


/*------------------------------------------------------------------------------------------------------------
  >>k-matrix
  Matrix units, one struct for each kind of unit; T is what it multiplies. A wave multiplies M rows of one
  tile by N rows of another, STEP bytes of each at a time, into M x N sums:
      load      the wave's operand: M (or N) rows of a tile in LDS, STEP bytes from byte `at` of each. The two
                operands are alike, so any order of the reduction inside STEP is right that both share
      multiply  sums += rows * columns
      row, column  where sum i of this lane lies
  Tiles lie in LDS as rows of KB bytes whose 16-byte chunks are permuted (ckci_k_spot), so that neither the
  stores of a block nor the loads of a wave meet in the banks.
  Sources of the lane layouts: AMD's ISA documents of CDNA 3, RDNA 3 and RDNA 4, NVIDIA's PTX ISA.
*/
#if defined(CKCI_SIMULATOR)
#define CKCI_K_MFMA 1
#define CKCI_K_WMMA 1
#define CKCI_K_WMMA12 1
#define CKCI_K_MMA 1
#define CKCI_K_WGMMA 1
#elif CKCI_K_UNIT >= CKCI_K_UNIT_CDNA1 && CKCI_K_UNIT <= CKCI_K_UNIT_CDNA4
#define CKCI_K_MFMA 1
#elif CKCI_K_UNIT == CKCI_K_UNIT_RDNA3
#define CKCI_K_WMMA 1
#elif CKCI_K_UNIT == CKCI_K_UNIT_RDNA4
#define CKCI_K_WMMA12 1
#elif defined(__CUDACC__) && !defined(__HIP__) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800)
#define CKCI_K_MMA 1 /* on the host too: a launch needs the size of shared memory */
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define CKCI_K_WGMMA 1
#endif
#endif

/* What is multiplied. Sums of f16 and bf16 are f32; kernels take both: they differ in the loop alone, which a
   kernel holds once for each. Likewise f32 and tf32, in kernels and units (ckci_k_single) of their own; f64
   (ckci_k_double) and i8, whose sums are i32 (ckci_k_whole), have others. */
struct ckci_k_f16 {
    enum { TYPE = CKCONV_F16, TF32 = 0 };
};
struct ckci_k_bf16 {
    enum { TYPE = CKCONV_BF16, TF32 = 0 };
};
struct ckci_k_f32 {
    enum { TF32 = 0 };
};
struct ckci_k_tf32 {
    enum { TF32 = 1 };
};
struct ckci_k_f64 {
    enum { TF32 = 0 };
};
struct ckci_k_i8 {
    enum { TYPE = CKCONV_I8, TF32 = 0 };
};
enum { CKCI_K_HALF = 2 }; /* bytes of f16 and bf16 */

/* The same unit for i8: SIZE is 1, number is int32_t. */
template <class U> struct ckci_k_whole;

/* The same unit for f32 and tf32: SIZE is 4. Without one of its own it stands in empty kernels. */
template <class U> struct ckci_k_single : U {
};

/* That unit where tiles come through registers, as those of bwd_weight do to be transposed. */
template <class U> struct ckci_k_single_late : ckci_k_single<U> {
};

/* The same unit for f64: SIZE is 8, number is double. Without one of its own it stands in empty kernels. */
template <class U> struct ckci_k_double : U {
};

/* The same bits as another type. */
template <class To, class From> CKCI_K_FN To ckci_k_cast(const From &from)
{
    static_assert(sizeof(To) == sizeof(From), "as many bits");
#if defined(__HIP_DEVICE_COMPILE__)
    return __builtin_bit_cast(To, from); /* clang 15 leaves the copy in scratch */
#else
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
#endif
}

/* A chunk, of four floats and rounded if T is tf32. */
template <class T> CKCI_K_FN ckci_k_uint4 ckci_k_rounded(const ckci_k_uint4 &from)
{
    if constexpr (T::TF32) {
        const ckci_k_uint4 to = {ckci_k_tf32_bits(from.x), ckci_k_tf32_bits(from.y), ckci_k_tf32_bits(from.z),
                                 ckci_k_tf32_bits(from.w)};
        return to;
    } else {
        return from;
    }
}

/* Where chunk `chunk` of row `row` lies in a tile, in bytes. */
template <int KB> CKCI_K_FN int ckci_k_spot(int row, int chunk)
{
    if (KB == 128) {
        return row * 128 + (chunk ^ (row & 7)) * 16;
    }
    row ^= row >> 3 & 1;
    return row * 64 + (chunk ^ (row >> 1 & 3)) * 16;
}

#if defined(CKCI_SIMULATOR) || CKCI_K_UNIT == CKCI_K_UNIT_CDNA3
#define CKCI_K_XF32 1
#else
#define CKCI_K_XF32 0
#endif

#if defined(CKCI_K_MFMA) || defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12)
/* What AMD's units share: MN x MN sums, as many of them in a lane as S; a lane's lie in one column. */
#if !defined(CKCI_SIMULATOR)
template <class T, int N> using ckci_k_vector = T __attribute__((ext_vector_type(N)));

/* The same bits as N of type T. */
template <class T, int N, class From> CKCI_K_FN ckci_k_vector<T, N> ckci_k_as(const From &from)
{
    return ckci_k_cast<ckci_k_vector<T, N>>(from);
}
#endif
template <class T, int S> struct ckci_k_lane_sums {
#if defined(CKCI_SIMULATOR)
    T v[S];
#else
    ckci_k_vector<T, S> v;
#endif
};
template <int MN, int S> struct ckci_k_square {
    enum { M = MN, N = MN, STEP = 32, SUMS = S, KB = 64, ASYNC = 0, SIZE = CKCI_K_HALF };
    typedef float number;
    typedef ckci_k_lane_sums<float, S> sums;

    static CKCI_K_MEMBER int column(int)
    {
        return (int)threadIdx.x % N;
    }
};

/* CDNA: of each eight rows a lane holds four. */
template <int MN, int S> struct ckci_k_cdna : ckci_k_square<MN, S> {
    enum { WAVE = 64 };

    static CKCI_K_MEMBER int row(int i)
    {
        return i / 4 * 8 + (int)threadIdx.x % WAVE / MN * 4 + i % 4;
    }
};
#endif

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

#if defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12)
/* RDNA: 16 x 16 sums. Before gfx12 both halves of a wave hold the same 16 places of the reduction, from then
   on each holds eight. */
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

#if defined(CKCI_K_MMA)
/* A product of 16 x 8 sums d (in registers of kind C) of a and b0, b1: its shape and types. */
#define CKCI_K_MMA_ASM(TYPES, C)                                                                             \
    asm volatile("mma.sync.aligned." TYPES                                                                   \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                          \
                 : "+" C(d[0]), "+" C(d[1]), "+" C(d[2]), "+" C(d[3])                                        \
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1))

/* NVIDIA, from sm_80 on: two products of 16 x 8 sums. */
struct ckci_k_mma {
    enum { WAVE = 32, M = 16, N = 16, STEP = 32, SUMS = 8, KB = 128, ASYNC = 1, SIZE = CKCI_K_HALF };
    typedef ckci_k_uint4 operand;
    typedef float number;
    struct sums {
        float v[SUMS];
    };

    /* x: rows 0 to 7, y: rows 8 to 15 of the first chunk; z and w of the second */
    static CKCI_K_MEMBER operand load(const unsigned char *tile, int row0, int at)
    {
        int lane = (int)threadIdx.x % WAVE;
        const unsigned char *p = tile + row0 * KB + ckci_k_spot<KB>(lane % 16, at / 16 + lane / 16);
        operand r;
#if defined(CKCI_SIMULATOR)
        sim_ldmatrix_x4(&r, p);
#else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
                     : "r"((uint32_t)__cvta_generic_to_shared(p)));
#endif
        return r;
    }

    /* 16 rows of their own addresses, this lane's (of row lane % 16) in `row`. */
    static CKCI_K_MEMBER operand load_rows(const unsigned char *row, int at)
    {
        const unsigned char *p = row + at + (int)threadIdx.x % WAVE / 16 * 16;
        operand r;
#if defined(CKCI_SIMULATOR)
        sim_ldmatrix_x4(&r, p);
#else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
                     : "r"((uint32_t)__cvta_generic_to_shared(p)));
#endif
        return r;
    }

    /* The same from slabs (see ckci_k_weight_slabs), whose rows are places of the reduction. */
    static CKCI_K_MEMBER operand load_across(const unsigned char *tile, int row0, int at)
    {
        int lane = (int)threadIdx.x % WAVE, place = at / 2 + lane / 16 * 8 + lane % 8;
        const unsigned char *p =
            tile + row0 / 64 * (64 * KB) + ckci_k_spot<KB>(place, row0 % 64 / 8 + lane / 8 % 2);
        operand r;
#if defined(CKCI_SIMULATOR)
        sim_ldmatrix_x4_trans(&r, p);
#else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
                     : "r"((uint32_t)__cvta_generic_to_shared(p)));
#endif
        return r;
    }

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
        half<T>(d.v, a, b.x, b.z);
        half<T>(d.v + 4, a, b.y, b.w);
    }

    template <class T> static CKCI_K_MEMBER void half(float *d, const operand &a, uint32_t b0, uint32_t b1)
    {
#if defined(CKCI_SIMULATOR)
        uint32_t b[2] = {b0, b1};
        sim_mma_m16n8k16<T>(&a, b, d);
#else
        if constexpr (T::TYPE == CKCONV_F16) {
            CKCI_K_MMA_ASM("m16n8k16.row.col.f32.f16.f16.f32", "f");
        } else {
            CKCI_K_MMA_ASM("m16n8k16.row.col.f32.bf16.bf16.f32", "f");
        }
#endif
    }

    static CKCI_K_MEMBER int row(int i)
    {
        return i % 4 / 2 * 8 + (int)threadIdx.x % WAVE / 4;
    }

    static CKCI_K_MEMBER int column(int i)
    {
        return i / 4 * 8 + (int)threadIdx.x % 4 * 2 + i % 2;
    }
};

template <> struct ckci_k_whole<ckci_k_mma> : ckci_k_mma {
    enum { SIZE = 1 };
    typedef int32_t number;
    struct sums {
        int32_t v[SUMS];
    };

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
        half(d.v, a, b.x, b.z);
        half(d.v + 4, a, b.y, b.w);
    }

    static CKCI_K_MEMBER void half(int32_t *d, const operand &a, uint32_t b0, uint32_t b1)
    {
#if defined(CKCI_SIMULATOR)
        uint32_t b[2] = {b0, b1};
        sim_mma_m16n8k32(&a, b, d);
#else
        CKCI_K_MMA_ASM("m16n8k32.row.col.s32.s8.s8.s32", "r");
#endif
    }
};

/* tf32 alone: the unit has no f32. LATE: rounded already, on its way from registers into LDS. */
template <int LATE> struct ckci_k_single_mma : ckci_k_mma {
    enum { SIZE = 4, F32 = 0, TF32 = 1, ASYNC = !LATE };

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
        if constexpr (LATE) {
            half(d.v, a, b.x, b.z);
            half(d.v + 4, a, b.y, b.w);
        } else {
            const operand x = ckci_k_rounded<T>(a), y = ckci_k_rounded<T>(b);
            half(d.v, x, y.x, y.z);
            half(d.v + 4, x, y.y, y.w);
        }
    }

    static CKCI_K_MEMBER void half(float *d, const operand &a, uint32_t b0, uint32_t b1)
    {
#if defined(CKCI_SIMULATOR)
        uint32_t b[2] = {b0, b1};
        sim_mma_m16n8k8(&a, b, d);
#else
        CKCI_K_MMA_ASM("m16n8k8.row.col.f32.tf32.tf32.f32", "f");
#endif
    }
};
template <> struct ckci_k_single<ckci_k_mma> : ckci_k_single_mma<0> {
};
template <> struct ckci_k_single_late<ckci_k_mma> : ckci_k_single_mma<1> {
};

/* f64: four products of 8 x 8 sums and two places each; quads of lanes hold a row's (or column's) chunks. */
template <> struct ckci_k_double<ckci_k_mma> {
    enum { WAVE = 32, M = 16, N = 16, STEP = 64, SUMS = 8, KB = 128, ASYNC = 0, SIZE = 8 };
    struct operand {
        double v[2][2]; /* rows 0 to 7 and 8 to 15 */
    };
    typedef double number;
    struct sums {
        double v[SUMS];
    };

    static CKCI_K_MEMBER operand load(const unsigned char *tile, int row0, int at)
    {
        int lane = (int)threadIdx.x % WAVE;
        operand r;
        CKCI_K_UNROLL(2)
        for (int i = 0; i < 2; i++) {
            memcpy(r.v[i], tile + row0 * KB + ckci_k_spot<KB>(8 * i + lane / 4, at / 16 + lane % 4), 16);
        }
        return r;
    }

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            one(d.v + i % 4 * 2, a.v[i % 2][i / 4], b.v[i % 4 / 2][i / 4]);
        }
    }

    static CKCI_K_MEMBER void one(double *d, double a, double b)
    {
#if defined(CKCI_SIMULATOR)
        sim_mma_m8n8k4(&a, &b, d);
#else
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+d"(d[0]), "+d"(d[1])
                     : "d"(a), "d"(b));
#endif
    }

    static CKCI_K_MEMBER int row(int i)
    {
        return i / 2 % 2 * 8 + (int)threadIdx.x % WAVE / 4;
    }

    static CKCI_K_MEMBER int column(int i)
    {
        return i / 4 * 8 + (int)threadIdx.x % 4 * 2 + i % 2;
    }
};
#endif

/* Taps that a block can have; how tiles lie in LDS (groups of waves need their swizzle's period). */
#if defined(__HIP_DEVICE_COMPILE__)
enum { CKCI_K_TAPS = 128, CKCI_K_TILE_ALIGN = 128 };
#else
enum { CKCI_K_TAPS = 128, CKCI_K_TILE_ALIGN = 1024 };
#endif

#if CKCI_K_BUFFERS
typedef int ckci_k_int4 __attribute__((ext_vector_type(4)));
__device__ ckci_k_int4 ckci_k_buffer_load(ckci_k_int4 window, int offset, int scalar_offset,
                                          int cache) __asm("llvm.amdgcn.raw.buffer.load.v4i32");
#endif

/* 2^31 bytes of memory from `base` on; a load at a negative offset gives zeros. AMD: a buffer, whose
   descriptor has a form of its own in each generation; where that is not known, a pointer. */
struct ckci_k_window {
#if CKCI_K_BUFFERS
    ckci_k_int4 v;
#else
    const unsigned char *base;
#endif
};

CKCI_K_FN ckci_k_window ckci_k_make_window(const unsigned char *base)
{
    ckci_k_window w;
#if CKCI_K_BUFFERS
    uint64_t at = (uint64_t)base;
    w.v.x = __builtin_amdgcn_readfirstlane((int)at);
    w.v.y = __builtin_amdgcn_readfirstlane((int)(at >> 32) & 0xffff);
    w.v.z = INT32_MIN;
#if defined(__GFX9__)
    w.v.w = 0x00020000;
#elif defined(__GFX10__)
    w.v.w = 0x31014000;
#else
    w.v.w = 0x31004000;
#endif
#else
    w.base = base;
#endif
    return w;
}

/* more: the same for all of a wave, not negative, less than 2^31 together with a good offset */
CKCI_K_FN ckci_k_uint4 ckci_k_window_load(const ckci_k_window &w, int32_t offset, int32_t more = 0)
{
#if CKCI_K_BUFFERS
#if __clang_major__ < 16 || !defined(__OPTIMIZE__) /* which do not keep it in a scalar register */
    return ckci_k_cast<ckci_k_uint4>(
        ckci_k_buffer_load(w.v, offset, __builtin_amdgcn_readfirstlane(more), 0));
#else
    return ckci_k_cast<ckci_k_uint4>(ckci_k_buffer_load(w.v, offset, more, 0));
#endif
#else
    ckci_k_uint4 zero = {0, 0, 0, 0};
    return offset < 0 ? zero : *(const ckci_k_uint4 *)(w.base + ((int64_t)offset + more));
#endif
}

/* A number that is the same for all threads of a wave, as the compiler does not see. */
CKCI_K_FN int32_t ckci_k_same(int32_t x)
{
#if defined(__HIP_DEVICE_COMPILE__)
    return __builtin_amdgcn_readfirstlane(x);
#else
    return x;
#endif
}

/* A number that is not to be computed anew. */
CKCI_K_FN int32_t ckci_k_kept(int32_t x)
{
#if defined(__CUDA_ARCH__)
    asm volatile("" : "+r"(x));
#endif
    return x;
}

/* What this thread wrote into LDS, multiplications of groups of waves see after the next barrier. */
CKCI_K_FN void ckci_k_proxy_fence()
{
#if defined(__CUDA_ARCH__) && defined(CKCI_K_WGMMA)
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/* A barrier of a wave alone: what a lane wrote into LDS before it, the others of its wave see after. */
CKCI_K_FN void ckci_k_wave_barrier()
{
#if defined(__CUDA_ARCH__)
    __syncwarp();
#elif defined(__HIP_DEVICE_COMPILE__)
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
#elif defined(CKCI_SIMULATOR)
    (void)sim_meet(0, 0, 0, __LINE__);
#endif
}

/* A barrier for LDS alone: __syncthreads also waits for loads from memory on some targets. */
CKCI_K_FN void ckci_k_lds_barrier()
{
#if CKCI_K_BUFFERS && defined(__GFX12__)
    asm volatile("s_wait_dscnt 0x0\n\ts_barrier_signal -1\n\ts_barrier_wait -1" ::: "memory");
#elif CKCI_K_BUFFERS
    asm volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" ::: "memory");
#else
    __syncthreads();
#endif
}

/* A pointer that is not to be computed anew. */
CKCI_K_FN void ckci_k_known(const unsigned char *&p)
{
#if defined(__CUDA_ARCH__)
    asm volatile("" : "+l"(p));
#else
    (void)p;
#endif
}

/* 16 bytes (size 0: zeros) straight into LDS, as ckci_k_copy_late, but past the first cache. */
CKCI_K_FN void ckci_k_copy_from(unsigned char *to, const unsigned char *from, int32_t size)
{
#if defined(__CUDA_ARCH__)
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
        "l"(from), "r"(size)
        : "memory");
#else
    const ckci_k_uint4 zero = {0, 0, 0, 0};
    *(ckci_k_uint4 *)to = size == 0 ? zero : *(const ckci_k_uint4 *)from;
#endif
}

#if defined(CKCI_K_MMA)
CKCI_K_FN void ckci_k_copy(unsigned char *to, const ckci_k_window &w, int32_t offset, int32_t size)
{
    ckci_k_copy_from(to, w.base + (uint32_t)offset, size);
}
#endif

CKCI_K_FN int32_t ckci_k_add(int32_t a, int32_t b, int32_t c)
{
    return (int32_t)((uint32_t)a + (uint32_t)b + (uint32_t)c);
}

/* (low half of a, low half of b) or (high, high) */
template <int HIGH> CKCI_K_FN uint32_t ckci_k_halves(uint32_t a, uint32_t b)
{
#if defined(__HIP_DEVICE_COMPILE__)
    return __builtin_amdgcn_perm(b, a, HIGH ? 0x07060302u : 0x05040100u);
#elif defined(__CUDA_ARCH__)
    return __byte_perm(a, b, HIGH ? 0x7632u : 0x5410u);
#else
    return HIGH ? a >> 16 | (b & 0xffff0000u) : (a & 0xffffu) | b << 16;
#endif
}

/* A block's tile: U's fragments in TM x TN per wave, waves in WM x WN. Both operands lie in one tile, rows of
   the first, then of the second; ACROSS (1: both, 2: the second): in slabs of 64 rows, whose rows in LDS are
   places of the reduction. */
template <class U, int BM, int BN, int ACROSS> struct ckci_k_grid {
    enum {
        THREADS = 256,
        WAVES = THREADS / U::WAVE,
        WM = BM == 32   ? WAVES / 4
             : BN == 32 ? 4
                        : 2,
        WN = WAVES / WM,
        ROWS = BM / WM, /* of a wave */
        COLUMNS = BN / WN,
        TM = ROWS / U::M,
        TN = COLUMNS / U::N,
        FIRST = ACROSS == 1 ? (BM + 63) / 64 * 64 : BM, /* where the second operand begins */
        TILE = (FIRST + (ACROSS ? (BN + 63) / 64 * 64 : BN)) * U::KB,
        STAGES = U::ASYNC ? 3 : 1,
        STRIP = COLUMNS < 32        ? COLUMNS /* columns that pass through LDS together */
                : COLUMNS % 32 == 0 ? 32
                                    : 16,
        PITCH = STRIP + 4,
        STRIPS = WAVES * U::M * PITCH * (int)sizeof(typename U::number),
        BYTES = STAGES * TILE > STRIPS ? STAGES *TILE : STRIPS
    };
    static_assert(TM >= 1 && TN >= 1 && STRIP % U::N == 0, "a wave owns at least one fragment");
};

/* The tile loop. ASYNC: the block's copies into LDS are two steps ahead, one barrier for each step. Else a
   tile lies in LDS, the next in registers: once all waves hold the first as operands, the second replaces it
   and the loads of the third begin; two barriers for each step, with the multiplications around the first. */
template <class U, int BM, int BN, int ACROSS> struct ckci_k_fragments {
    typedef ckci_k_grid<U, BM, BN, ACROSS> G;
    enum { KB = U::KB, BYTES = G::BYTES, SIXTEEN = 0, SUMS_WIDE = U::ASYNC ? 8 : 4, SIZE = U::SIZE };
    typedef U unit;
    typedef typename U::number number;
    typename U::sums sum[G::TM][G::TN];

    CKCI_K_MEMBER void add(const ckci_k_fragments &more)
    {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < G::TM * G::TN; i++) {
            CKCI_K_UNROLL(16)
            for (int e = 0; e < U::SUMS; e++) {
                sum[i / G::TN][i % G::TN].v[e] += more.sum[i / G::TN][i % G::TN].v[e];
            }
        }
    }

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < G::TM * G::TN; i++) {
            CKCI_K_UNROLL(16)
            for (int e = 0; e < U::SUMS; e++) {
                sum[i / G::TN][i % G::TN].v[e] = 0;
            }
        }
    }

    template <class T, class Loader>
    CKCI_K_MEMBER void loop(unsigned char *tiles, Loader &loader, int32_t steps)
    {
        if constexpr (U::ASYNC) {
            ahead<T>(tiles, loader, steps);
            return;
        } else {
            if (loader.plain()) {
                behind<T, 1>(tiles, loader, steps);
            } else if constexpr (BM * BN < 256 * 256) { /* the planner takes that for plain loads only */
                behind<T, 0>(tiles, loader, steps);
            }
        }
    }

    /* A loader looks SEGMENT steps ahead (0: has nothing to look up) each time that next() is called. */
    template <class T, int PLAIN, class Loader>
    CKCI_K_MEMBER void behind(unsigned char *tile, Loader &loader, int32_t steps)
    {
        loader.template begin<PLAIN>();
        loader.template fetch<PLAIN>(0);
        loader.template put<T>(tile);
        loader.template fetch<PLAIN>(1);
        ckci_k_lds_barrier();
        for (int32_t s = 0; s < steps;) {
            int32_t end = steps;
            if constexpr (Loader::SEGMENT > 0) {
                loader.next(s);
                end = s + Loader::SEGMENT < steps ? s + Loader::SEGMENT : steps;
            }
            CKCI_K_UNROLL(1)
            for (; s < end; s++) {
                step<T, PLAIN>(tile, loader, s);
            }
        }
    }

    template <class T, int PLAIN, class Loader>
    CKCI_K_MEMBER void step(unsigned char *tile, Loader &loader, int32_t s)
    {
        enum { SLICES = U::KB / U::STEP };
        typename U::operand a[SLICES][G::TM], b[SLICES][G::TN];
        static_assert(SLICES <= 4, "an index known at compile time keeps operands in registers");
        operands(tile, 0, a[0], b[0]);
        CKCI_K_UNROLL(4)
        for (int k = 1; k < SLICES; k++) {
            operands(tile, k * U::STEP, a[k], b[k]);
            multiply<T>(a[k - 1], b[k - 1]);
        }
        ckci_k_lds_barrier();
        loader.template put<T>(tile);
        loader.template fetch<PLAIN>(s + 2);
        multiply<T>(a[SLICES - 1], b[SLICES - 1]);
        ckci_k_lds_barrier();
    }

    template <class T, class Loader>
    CKCI_K_MEMBER void ahead(unsigned char *tiles, Loader &loader, int32_t steps)
    {
#if defined(CKCI_K_MMA)
        int32_t full = G::TILE, empty = 0;
        CKCI_K_UNROLL(1)
        for (int32_t s = -2; s < steps; s++) {
            if (s >= 0) {
                ckci_k_copies_wait<1>();
                __syncthreads();
            }
            if (s + 2 < steps) {
                loader.copy(s + 2, tiles + empty);
            }
            ckci_k_copies_end();
            if (s >= 0) {
                multiply<T>(tiles + full);
            }
            full = full == 2 * G::TILE ? 0 : full + G::TILE;
            empty = empty == 2 * G::TILE ? 0 : empty + G::TILE;
        }
        ckci_k_copies_wait<0>();
#else
        (void)tiles;
        (void)loader;
        (void)steps;
#endif
    }

    template <int IS_ACROSS>
    static CKCI_K_MEMBER typename U::operand load(const unsigned char *tile, int row0, int at)
    {
        if constexpr (IS_ACROSS) {
            return U::load_across(tile, row0, at);
        } else {
            return U::load(tile, row0, at);
        }
    }

    template <class T> CKCI_K_MEMBER void multiply(const unsigned char *tile)
    {
        CKCI_K_UNROLL(8)
        for (int at = 0; at < U::KB; at += U::STEP) {
            typename U::operand a[G::TM], b[G::TN];
            operands(tile, at, a, b);
            multiply<T>(a, b);
        }
    }

    static CKCI_K_MEMBER void operands(const unsigned char *tile, int at, typename U::operand (&a)[G::TM],
                                       typename U::operand (&b)[G::TN])
    {
        int wave = (int)threadIdx.x / U::WAVE, row = wave / G::WN * G::ROWS,
            column = G::FIRST + wave % G::WN * G::COLUMNS;
        CKCI_K_UNROLL(8)
        for (int i = 0; i < G::TM; i++) {
            a[i] = load<ACROSS == 1>(tile, row + i * U::M, at);
        }
        CKCI_K_UNROLL(8)
        for (int j = 0; j < G::TN; j++) {
            b[j] = load<ACROSS != 0>(tile, column + j * U::N, at);
        }
    }

    template <class T>
    CKCI_K_MEMBER void multiply(const typename U::operand (&a)[G::TM], const typename U::operand (&b)[G::TN])
    {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < G::TM; i++) {
            CKCI_K_UNROLL(8)
            for (int j = 0; j < G::TN; j++) {
                U::template multiply<T>(sum[i][j], a[i], b[j]);
            }
        }
    }

    /* Sums through LDS, a strip of M rows for each wave at a time, so that neighbouring threads write
       neighbouring outputs. out(row, column, v, count): sums of `count` columns, 1 or WIDE. The code of out
       stands once, but where no registers are to spare for a loop that keeps all sums. In that loop sums move
       up a strip (SHIFT) where the compiler would otherwise index them, in memory or by long tests. */
    template <int WIDE, class Out> CKCI_K_MEMBER void finish(unsigned char *tiles, bool rows_fast, Out out)
    {
        enum {
            ACROSS_STRIPS = G::TN * U::N / G::STRIP,
            STRIPS = G::TM * ACROSS_STRIPS,
            SHIFT = U::ASYNC || (U::WAVE == 32 && (SIZE == 8 || SIZE == 4)),
            SPREAD = SIZE == 8 && !SHIFT,
            PITCH = WIDE == 4 ? +G::STRIP : +G::PITCH /* so that reads do not meet in the banks */
        };
        int wave = (int)threadIdx.x / U::WAVE, lane = (int)threadIdx.x % U::WAVE;
        number *strip = (number *)tiles + wave * U::M * PITCH;
        int row0 = wave / G::WN * G::ROWS, column0 = wave % G::WN * G::COLUMNS;
        CKCI_K_UNROLL(SPREAD ? 64 : 1)
        for (int n = 0; n < STRIPS; n++) {
            __syncthreads();
            if constexpr (SPREAD) {
                put_strip<PITCH>(strip, n);
            } else if constexpr (SHIFT) {
                put_strip<PITCH>(strip, 0);
                shift_strips();
            } else {
                CKCI_K_UNROLL(16)
                for (int k = 0; k < STRIPS; k++) {
                    if (k == n) {
                        put_strip<PITCH>(strip, k);
                    }
                }
            }
            __syncthreads();
            int row = row0 + n / ACROSS_STRIPS * U::M, column = column0 + n % ACROSS_STRIPS * G::STRIP;
            int count = rows_fast ? 1 : WIDE;
            CKCI_K_UNROLL(1)
            for (int e = lane; e < U::M * G::STRIP / count; e += U::WAVE) {
                int r = rows_fast ? e % U::M : e / (G::STRIP / WIDE);
                int c = rows_fast ? e / U::M : e % (G::STRIP / WIDE) * WIDE;
                out(row + r, column + c, strip + r * PITCH + c, count);
            }
        }
    }

    /* The next strip takes the first one's place: indices known at compile time keep sums in registers. */
    CKCI_K_MEMBER void shift_strips()
    {
        enum { PER = G::STRIP / U::N };
        CKCI_K_UNROLL(16)
        for (int k = 0; k < G::TM * G::TN - PER; k++) {
            sum[k / G::TN][k % G::TN] = sum[(k + PER) / G::TN][(k + PER) % G::TN];
        }
    }

    template <int PITCH> CKCI_K_MEMBER void put_strip(number *strip, int n) const
    {
        enum { PER = G::STRIP / U::N, EACH = G::TN / PER };
        CKCI_K_UNROLL(8)
        for (int s = 0; s < PER; s++) {
            CKCI_K_UNROLL(16)
            for (int e = 0; e < U::SUMS; e++) {
                strip[U::row(e) * PITCH + s * U::N + U::column(e)] = sum[n / EACH][n % EACH * PER + s].v[e];
            }
        }
    }
};

#if defined(CKCI_K_WGMMA)
/* NVIDIA sm_90a: four waves multiply together, and both operands come straight from LDS. In fwd and bwd_data
   the instruction's rows are a block's columns (output channels), its columns the rows (positions), so that
   the many positions are its 128 to 256 columns; in bwd_weight (ACROSS) they are as they are. */
#if !defined(CKCI_SIMULATOR)
#define CKCI_K_SUMS_32                                                                                       \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "        \
    "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define CKCI_K_SUMS_64                                                                                       \
    CKCI_K_SUMS_32                                                                                           \
    ", "                                                                                                     \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, "        \
    "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define CKCI_K_SUMS_96                                                                                       \
    CKCI_K_SUMS_64                                                                                           \
    ", "                                                                                                     \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, "        \
    "%83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define CKCI_K_SUMS_128                                                                                      \
    CKCI_K_SUMS_96                                                                                           \
    ", "                                                                                                     \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "           \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define CKCI_K_SUM8(d, i)                                                                                    \
    "+f"((d)[i]), "+f"((d)[i + 1]), "+f"((d)[i + 2]), "+f"((d)[i + 3]), "+f"((d)[i + 4]), "+f"((d)[i + 5]),  \
        "+f"((d)[i + 6]), "+f"((d)[i + 7])
#define CKCI_K_SUM32(d, i)                                                                                   \
    CKCI_K_SUM8(d, i), CKCI_K_SUM8(d, i + 8), CKCI_K_SUM8(d, i + 16), CKCI_K_SUM8(d, i + 24)
/* columns, types, names of the sums, operands after them (two descriptors, transposed), the sums */
#define CKCI_K_WGMMA_ASM(N, TYPES, SUMS, A, B, TA, TB, ...)                                                  \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned.m64n" N               \
                 "k16.f32." TYPES " {" SUMS "}, " A ", " B ", p, 1, 1, " TA ", " TB ";\n}"                   \
                 : __VA_ARGS__                                                                               \
                 : "l"(a), "l"(b), "n"(ACROSS != 0), "n"(ACROSS % 2))

/* An operand's descriptor: where it begins in LDS (in 16 bytes), and how it goes on: 128-byte swizzle, 1024
   bytes to the next eight rows, slabs (of 64 rows or columns, where they lie across) 8192 bytes apart. */
CKCI_K_FN uint64_t ckci_k_describe(uint32_t at)
{
    return (uint64_t)(1u << 30 | 64u) << 32 | (512u << 16 | at);
}

template <class T, int N, int ACROSS> CKCI_K_FN void ckci_k_multiply_groups(float *d, uint64_t a, uint64_t b)
{
    if constexpr (N == 256 && T::TYPE == CKCONV_F16) {
        CKCI_K_WGMMA_ASM("256", "f16.f16", CKCI_K_SUMS_128, "%128", "%129", "%130", "%131",
                         CKCI_K_SUM32(d, 0), CKCI_K_SUM32(d, 32), CKCI_K_SUM32(d, 64), CKCI_K_SUM32(d, 96));
    } else if constexpr (N == 256 && T::TYPE == CKCONV_BF16) {
        CKCI_K_WGMMA_ASM("256", "bf16.bf16", CKCI_K_SUMS_128, "%128", "%129", "%130", "%131",
                         CKCI_K_SUM32(d, 0), CKCI_K_SUM32(d, 32), CKCI_K_SUM32(d, 64), CKCI_K_SUM32(d, 96));
    } else if constexpr (N == 192 && T::TYPE == CKCONV_F16) {
        CKCI_K_WGMMA_ASM("192", "f16.f16", CKCI_K_SUMS_96, "%96", "%97", "%98", "%99", CKCI_K_SUM32(d, 0),
                         CKCI_K_SUM32(d, 32), CKCI_K_SUM32(d, 64));
    } else if constexpr (N == 192 && T::TYPE == CKCONV_BF16) {
        CKCI_K_WGMMA_ASM("192", "bf16.bf16", CKCI_K_SUMS_96, "%96", "%97", "%98", "%99", CKCI_K_SUM32(d, 0),
                         CKCI_K_SUM32(d, 32), CKCI_K_SUM32(d, 64));
    } else if constexpr (N == 128 && T::TYPE == CKCONV_F16) {
        CKCI_K_WGMMA_ASM("128", "f16.f16", CKCI_K_SUMS_64, "%64", "%65", "%66", "%67", CKCI_K_SUM32(d, 0),
                         CKCI_K_SUM32(d, 32));
    } else if constexpr (N == 128 && T::TYPE == CKCONV_BF16) {
        CKCI_K_WGMMA_ASM("128", "bf16.bf16", CKCI_K_SUMS_64, "%64", "%65", "%66", "%67", CKCI_K_SUM32(d, 0),
                         CKCI_K_SUM32(d, 32));
    } else if constexpr (N == 64 && T::TYPE == CKCONV_F16) {
        CKCI_K_WGMMA_ASM("64", "f16.f16", CKCI_K_SUMS_32, "%32", "%33", "%34", "%35", CKCI_K_SUM32(d, 0));
    } else if constexpr (N == 64 && T::TYPE == CKCONV_BF16) {
        CKCI_K_WGMMA_ASM("64", "bf16.bf16", CKCI_K_SUMS_32, "%32", "%33", "%34", "%35", CKCI_K_SUM32(d, 0));
    }
}
#endif

/* The tile loop of ckci_k_fragments for such groups of waves. ACROSS: 0: none lies across, 2: the second
   does, 1 and 3: both; with 1 the instruction's rows are the tile's, with the others its columns. Loads are
   two steps ahead, with five tiles in LDS three; their tile is free once all have multiplied what it held and
   met at the barrier. With four tiles a step's products are still under way at the next one's barrier. */
template <int BM, int BN, int ACROSS> struct ckci_k_groups {
    enum {
        KB = 128,
        STAGES = CKCI_GROUP_STAGES(BM + BN),
        FLYING = STAGES > 3,         /* steps that are being multiplied at a barrier */
        AHEAD = STAGES - 1 - FLYING, /* steps whose copies are on their way */
        SECOND = BM * KB,            /* the second operand in a tile */
        TILE = (BM + BN) * KB,
        STRAIGHT = ACROSS == 1,           /* the tile's rows are the instruction's */
        DOWN = (STRAIGHT ? BM : BN) / 64, /* groups along the instruction's rows, 1 or 2 */
        WIDE = STRAIGHT ? BN : BM,
        UNEVEN = DOWN == 1 && WIDE == 192,  /* whole slabs: the second group has 64 columns */
        N = UNEVEN ? 128 : WIDE * DOWN / 2, /* the instruction's columns */
        PITCH = BN + 4,
        STRIPS = BM * PITCH * 4,
        BYTES = STAGES * TILE > STRIPS ? STAGES *TILE : STRIPS
    };
    enum { SIXTEEN = 1, SUMS_WIDE = 8, SIZE = CKCI_K_HALF };
    typedef float number;
    static_assert(DOWN == 1 || DOWN == 2, "two groups of four waves");
    float sum[N / 2];
    int32_t at_a, at_b; /* what this thread's group multiplies in a tile, the same for all of a wave */
    bool half;          /* and whether it has half of N columns */

    CKCI_K_MEMBER ckci_k_groups()
    {
        int32_t group = (int32_t)threadIdx.x / 128;
#if defined(__CUDA_ARCH__)
        group = __shfl_sync(0xffffffffu, group, 0); /* so that compilers see it */
#endif
        at_a = (STRAIGHT ? 0 : SECOND) + (DOWN == 2 ? group * 64 * KB : 0);
        at_b = (STRAIGHT ? SECOND : 0) + (DOWN == 2 ? 0 : group * N * KB);
        half = UNEVEN && group == 1;
    }

    CKCI_K_MEMBER void hold()
    {
#if defined(__CUDA_ARCH__)
        CKCI_K_UNROLL(128)
        for (int i = 0; i < N / 2; i++) {
            asm volatile("" : "+f"(sum[i])::"memory");
        }
#endif
    }

    template <int COUNT> CKCI_K_MEMBER void wait()
    {
#if defined(__CUDA_ARCH__)
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(COUNT) : "memory");
#endif
        hold();
    }

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(128)
        for (int i = 0; i < N / 2; i++) {
            sum[i] = 0;
        }
    }

    template <class T, class Loader>
    CKCI_K_MEMBER void loop(unsigned char *tiles, Loader &loader, int32_t steps)
    {
        int32_t full = (STAGES - AHEAD) * TILE, empty = 0;
        CKCI_K_UNROLL(1)
        for (int32_t s = -AHEAD; s < steps; s++) {
            if (s >= 0) {
                ckci_k_copies_wait<AHEAD - 1>();
                arrive();
                multiply<T>(tiles, full);
            }
            if (s + AHEAD < steps) {
                loader.copy(s + AHEAD, tiles + empty);
            }
            ckci_k_copies_end();
            full = full == (STAGES - 1) * TILE ? 0 : full + TILE;
            empty = empty == (STAGES - 1) * TILE ? 0 : empty + TILE;
        }
        wait<0>();
    }

    /* To the barrier at which a step's tile is complete and all but FLYING steps are multiplied. */
    CKCI_K_MEMBER void arrive()
    {
        wait<FLYING>();
        ckci_k_proxy_fence();
        __syncthreads();
    }

    template <class T> CKCI_K_MEMBER void multiply(const unsigned char *tiles, int32_t full)
    {
        hold();
#if defined(__CUDA_ARCH__)
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
        if constexpr (UNEVEN) {
            if (half) {
                multiply_columns<T, N / 2>(tiles, full);
            } else {
                multiply_columns<T, N>(tiles, full);
            }
        } else {
            multiply_columns<T, N>(tiles, full);
        }
#if defined(__CUDA_ARCH__)
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
        hold();
    }

    template <class T, int COUNT>
    CKCI_K_MEMBER void multiply_columns(const unsigned char *tiles, int32_t full)
    {
        const int32_t a = full + at_a, b = full + at_b;
#if defined(__CUDA_ARCH__)
        const uint32_t start = (uint32_t)__cvta_generic_to_shared(tiles), from_a = (start + (uint32_t)a) >> 4,
                       from_b = (start + (uint32_t)b) >> 4;
#endif
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            const int more_a = ACROSS ? i * 16 * KB : i * 32, more_b = ACROSS % 2 ? i * 16 * KB : i * 32;
#if defined(CKCI_SIMULATOR)
            sim_wgmma_m64nNk16<T>(sum, tiles + a + more_a, tiles + b + more_b, COUNT, ACROSS != 0,
                                  ACROSS % 2 != 0);
#else
            ckci_k_multiply_groups<T, COUNT, ACROSS>(sum, ckci_k_describe(from_a + (uint32_t)more_a / 16),
                                                     ckci_k_describe(from_b + (uint32_t)more_b / 16));
#endif
        }
    }

    /* Sums to f16 or bf16, transposed in blocks of 8 x 8 on the way to LDS, and from there to rows at
       out + 2 * places[row] (-1: none), of which `columns` columns exist. A group's 64 columns lie in a tile
       whose products are done: those before `full`, the two last ones where there are four or more. */
    CKCI_K_MEMBER void finish16(unsigned char *tiles, int32_t full, int32_t dtype, const int32_t *places,
                                int32_t columns, unsigned char *out)
    {
        const int thread = (int)threadIdx.x % 128, lane = thread % 32, group = (int)threadIdx.x / 128;
        const int column = thread / 32 * 2 + lane / 8 % 2, row = lane / 16 * 8 + lane % 8; /* in eights; */
        int32_t at = full - (FLYING ? 1 + group : 1) * TILE;
        at = (at < 0 ? at + STAGES * TILE : at) + (FLYING ? 0 : group * N * 128);
        unsigned char *to = tiles + at + row * 128 + (column ^ (lane & 7)) * 16;
        __syncthreads();
        CKCI_K_UNROLL(16)
        for (int j = 0; j < N / 8; j += 2) {
            uint32_t two[4];
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                two[i] =
                    ckci_k_two(dtype, ckci_k_bits(sum[4 * j + 2 * i]), ckci_k_bits(sum[4 * j + 2 * i + 1]));
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
#if defined(__CUDA_ARCH__)
        asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
#else
        __syncthreads();
#endif
        const int r0 = thread / 8, c = thread % 8, from = DOWN == 2 ? group * 64 : 0;
        const bool good = from + c * 8 < columns;
        places += (DOWN == 2 ? 0 : group * N) + r0;
        out += 2 * (from + c * 8);
        CKCI_K_UNROLL(8)
        for (int r = 0; r < N; r += 16) {
            const ckci_k_uint4 v = *(const ckci_k_uint4 *)(tiles + at + (r0 + r) * 128 + (c ^ (r0 & 7)) * 16);
            if (good && places[r] >= 0) {
                *(ckci_k_uint4 *)(out + 2 * (int64_t)places[r]) = v;
            }
        }
    }

    /* Sums as they lie in registers, as f32, f16 or bf16: of so many rows and columns, to rows that are
       `pitch` numbers apart. Four threads fill a sector of f32 (columns are an even number); where the
       instruction's rows are the tile's columns, eight, one number each. */
    CKCI_K_MEMBER void store(unsigned char *to, int64_t pitch, int32_t rows, int32_t columns,
                             int32_t dtype) const
    {
        const int thread = (int)threadIdx.x, lane = thread % 32, group = thread / 128;
        const int row = (DOWN == 2 ? group * 64 : 0) + thread % 128 / 32 * 16 + lane / 4;
        const int column = (DOWN == 2 ? 0 : group * N) + lane % 4 * 2, size = dtype == CKCONV_F32 ? 4 : 2;
        if constexpr (!STRAIGHT) {
            to += size * (column * pitch + row);
            CKCI_K_UNROLL(64)
            for (int i = 0; i < N / 4; i++, to += size * pitch) {
                if (column + i / 2 * 8 + i % 2 >= rows) {
                    return;
                }
                if (row < columns) {
                    one(to, dtype, sum[i / 2 * 4 + i % 2]);
                }
                if (row + 8 < columns) {
                    one(to + size * 8, dtype, sum[i / 2 * 4 + i % 2 + 2]);
                }
                to += i % 2 ? size * 6 * pitch : 0;
            }
            return;
        }
        unsigned char *down = to + size * ((row + 8) * pitch + column);
        const bool above = row < rows, below = row + 8 < rows;
        to += size * (row * pitch + column);
        columns -= column;
        CKCI_K_UNROLL(32)
        for (int i = 0; i < N / 8; i++) {
            if (i * 8 >= columns || (i >= N / 16 && half)) {
                return;
            }
            if (above) {
                pair(to, i, dtype, sum[4 * i], sum[4 * i + 1]);
            }
            if (below) {
                pair(down, i, dtype, sum[4 * i + 2], sum[4 * i + 3]);
            }
        }
    }

    /* Adds what store() has put there as f32. Some loads at a time: registers hold no more. */
    CKCI_K_MEMBER void add(const unsigned char *from, int64_t pitch, int32_t rows, int32_t columns)
    {
        const int thread = (int)threadIdx.x, lane = thread % 32, group = thread / 128;
        const int row = (DOWN == 2 ? group * 64 : 0) + thread % 128 / 32 * 16 + lane / 4;
        const int column = (DOWN == 2 ? 0 : group * N) + lane % 4 * 2;
        from += 4 * (STRAIGHT ? row * pitch + column : column * pitch + row);
        CKCI_K_UNROLL(32)
        for (int i = 0; i < N / 8; i++) {
            CKCI_K_UNROLL(2)
            for (int j = 0; j < 2; j++) {
                if constexpr (STRAIGHT) {
                    if (row + 8 * j < rows && column + i * 8 < columns && (i < N / 16 || !half)) {
                        const ckci_k_uint2 two =
                            *(const ckci_k_uint2 *)(from + 4 * (8 * j * pitch + i * 8));
                        sum[4 * i + 2 * j] += ckci_k_float(two.x);
                        sum[4 * i + 2 * j + 1] += ckci_k_float(two.y);
                    }
                } else {
                    const float *at = (const float *)(from + 4 * (i * 8 + j) * pitch);
                    if (column + i * 8 + j < rows) {
                        sum[4 * i + j] += row < columns ? at[0] : 0.f;
                        sum[4 * i + j + 2] += row + 8 < columns ? at[8] : 0.f;
                    }
                }
            }
#if defined(__CUDA_ARCH__)
            if (i % 8 == 7) {
                asm volatile("" ::: "memory");
            }
#endif
        }
    }

    static CKCI_K_MEMBER void one(unsigned char *to, int32_t dtype, float x)
    {
        if (dtype == CKCONV_F32) {
            *(float *)to = x;
        } else {
            *(uint16_t *)to = (uint16_t)ckci_k_two(dtype, ckci_k_bits(x), 0);
        }
    }

    static CKCI_K_MEMBER void pair(unsigned char *to, int i, int32_t dtype, float x, float y)
    {
        if (dtype == CKCONV_F32) {
            const ckci_k_uint2 two = {ckci_k_bits(x), ckci_k_bits(y)};
            *(ckci_k_uint2 *)(to + i * 32) = two;
        } else {
            *(uint32_t *)(to + i * 16) = ckci_k_two(dtype, ckci_k_bits(x), ckci_k_bits(y));
        }
    }

    /* Sums through LDS, all at once; see ckci_k_fragments::finish. */
    template <int, class Out> CKCI_K_MEMBER void finish(unsigned char *tiles, bool rows_fast, Out out)
    {
        int thread = (int)threadIdx.x, lane = thread % 32, group = thread / 128;
        int row0 = (DOWN == 2 ? group * 64 : 0) + thread % 128 / 32 * 16 + lane / 4;
        int column0 = (DOWN == 2 ? 0 : group * N) + lane % 4 * 2;
        float *strip = (float *)tiles;
        __syncthreads();
        CKCI_K_UNROLL(128)
        for (int i = 0; i < N / 2; i++) {
            int row = row0 + i % 4 / 2 * 8, column = column0 + i / 4 * 8 + i % 2;
            if (i < N / 4 || !half) {
                strip[STRAIGHT ? row * PITCH + column : column * PITCH + row] = sum[i];
            }
        }
        __syncthreads();
        int count = rows_fast ? 1 : 8;
        CKCI_K_UNROLL(1)
        for (int e = thread; e < BM * BN / count; e += 256) {
            int r = rows_fast ? e % BM : e / (BN / 8), c = rows_fast ? e / BM : e % (BN / 8) * 8;
            out(r, c, strip + r * PITCH + c, count);
        }
    }
};
#endif

/* All of a block's tile loop, F: fragments or groups. type: what is multiplied, but by units of one type. */
template <class F, class Loader>
CKCI_K_FN void ckci_k_multiply_all(F &f, unsigned char *tiles, Loader &loader, int32_t steps,
                                   ckconv_dtype type)
{
    f.clear();
    if (steps <= 0) {
        return;
    }
    if constexpr (F::SIZE == 1) {
        f.template loop<ckci_k_i8>(tiles, loader, steps);
    } else if constexpr (F::SIZE == 8) {
        f.template loop<ckci_k_f64>(tiles, loader, steps);
    } else if constexpr (F::SIZE == 4) {
        if constexpr (F::unit::F32) {
            if (!F::unit::TF32 || type == CKCONV_F32) {
                f.template loop<ckci_k_f32>(tiles, loader, steps);
            }
        }
        if constexpr (F::unit::TF32) {
            if (!F::unit::F32 || type == CKCONV_TF32) {
                f.template loop<ckci_k_tf32>(tiles, loader, steps);
            }
        }
    } else if (type == CKCONV_BF16) {
        f.template loop<ckci_k_bf16>(tiles, loader, steps);
    } else {
        f.template loop<ckci_k_f16>(tiles, loader, steps);
    }
}

/* Eight neighbouring finished values, aligned together. */
CKCI_K_FN void ckci_k_store8(int32_t dtype, unsigned char *p, const int32_t *v)
{
    if (dtype == CKCONV_I32) {
        ((ckci_k_uint4 *)p)[0] = *(const ckci_k_uint4 *)v;
        ((ckci_k_uint4 *)p)[1] = *(const ckci_k_uint4 *)(v + 4);
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

CKCI_K_FN void ckci_k_store8(int32_t dtype, unsigned char *p, const float *v)
{
    if (dtype == CKCONV_F32) {
        ((ckci_k_uint4 *)p)[0] = *(const ckci_k_uint4 *)v;
        ((ckci_k_uint4 *)p)[1] = *(const ckci_k_uint4 *)(v + 4);
        return;
    }
    ckci_k_uint4 a = ((const ckci_k_uint4 *)v)[0], b = ((const ckci_k_uint4 *)v)[1], packed;
    packed.x = ckci_k_two(dtype, a.x, a.y);
    packed.y = ckci_k_two(dtype, a.z, a.w);
    packed.z = ckci_k_two(dtype, b.x, b.y);
    packed.w = ckci_k_two(dtype, b.z, b.w);
    *(ckci_k_uint4 *)p = packed;
}

/* `count` (1 or 8) columns c, ... of one position. v lies in LDS and is overwritten. */
template <class T>
CKCI_K_FN void ckci_k_write8(const ckci_gpu_conv &conv, T *v, int32_t count, int32_t g, int32_t n, int32_t c,
                             int32_t columns, int32_t z, int32_t y, int32_t x)
{
    const ckci_gpu_conv &p = ckci_k_late(conv);
    const bool together = p.o_vec && count == 8;
    if (!together || p.o.t.op.kind != CKCONV_PASS || p.o.scale || p.o.shift || p.o.compute) {
        CKCI_K_UNROLL(1)
        for (int i = 0; i < count && c + i < columns; i++) {
            v[i] = ckci_k_finish<T>(p.o, v[i], g, n, c + i, z, y, x);
            if (!together) {
                ckci_k_put<T>(p.o, v[i], g, n, c + i, z, y, x);
            }
        }
    }
    if (!together) {
        return;
    }
    const ckci_tensor &t = p.o.t;
    int64_t at = g * t.stride[0] + n * t.stride[1] + c + z * t.stride[3] + y * t.stride[4] + x * t.stride[5];
    ckci_k_store8(t.dtype, t.p + at * ckci_k_size(t.dtype), v);
}

/* A bit for each tap t of a dimension for which first + t * step lies outside 0 to len - 1. */
CKCI_K_FN uint32_t ckci_k_bad_taps(int32_t first, int32_t taps, int32_t step, int32_t len)
{
    if (step == 1 || step == -1) {
        int32_t low = step > 0 ? -first : first - len + 1, high = step > 0 ? len - first : first + 1;
        low = low < 0 ? 0 : low > taps ? taps : low;
        high = high < low ? low : high > taps ? taps : high;
        return ((1u << taps) - 1) & ~((1u << high) - (1u << low));
    }
    uint32_t bad = 0;
    CKCI_K_UNROLL(1)
    for (int32_t t = 0; t < taps; t++) {
        bad |= (uint32_t)(first + t * step) < (uint32_t)len ? 0u : 1u << t;
    }
    return bad;
}

/* Which taps of a row or position lie on padding. Masks: a bit for each tap of each dimension (z above y
   above x), bit 31 always set; a tap needs three clear bits. Ranges, where one dimension alone has several
   taps: taps low to low + count - 1 are good. Either way the sign of `bad` tells. */
struct ckci_k_hole {
    uint32_t word;

    CKCI_K_MEMBER void close(int32_t ranges)
    {
        word = ranges ? 0u : 0xffffffffu;
    }

    CKCI_K_MEMBER void open(int32_t ranges)
    {
        word = ranges ? (uint32_t)CKCI_K_TAPS << 16 : 0x80000000u;
    }

    /* A dimension: coordinate at tap 0, taps and the step between them, its end; the first of its bits. */
    CKCI_K_MEMBER void add(int32_t ranges, int32_t first, int32_t taps, int32_t step, int32_t end, int shift)
    {
        if (!ranges) {
            word |= ckci_k_bad_taps(first, taps, step, end) << shift;
            return;
        }
        int32_t low = 0, high = 0;
        for (int32_t t = taps - 1; t >= 0; t--) {
            if ((uint32_t)(first + t * step) < (uint32_t)end) {
                low = t;
                high = high == 0 ? t + 1 : high;
            }
        }
        if (taps > 1) {
            word = word == 0 ? 0 : (uint32_t)(high - low) << 16 | (uint32_t)low;
        } else if (high == 0) {
            word = 0;
        }
    }

    /* All dimensions of what reads from z, y, x on; taps in each of them. One after the other, so that the
       code stands once. */
    CKCI_K_MEMBER void add_all(int32_t ranges, const ckci_gpu_dim dim[3], const ckci_k_place &q,
                               int32_t taps_z, int32_t taps_y, int32_t taps_x)
    {
        int32_t shift = 0;
        CKCI_K_UNROLL(1)
        for (int i = 2; i >= 0; i--) {
            int32_t first = i == 2 ? q.x : i == 1 ? q.y : q.z;
            int32_t taps = i == 2 ? taps_x : i == 1 ? taps_y : taps_z;
            add(ranges, first, taps, dim[i].read_tap, dim[i].read_len, shift);
            shift += taps;
        }
    }

    CKCI_K_MEMBER bool good(int32_t ranges, int32_t tap, uint32_t need) const
    {
        return ranges ? bad(1, tap, need) >= 0 : (word & need) == 0;
    }

    CKCI_K_MEMBER int32_t bad(int32_t ranges, int32_t tap, uint32_t need) const
    {
        if (!ranges) {
            return (int32_t)(0u - (word & need));
        }
        int32_t past = tap - (int32_t)(word & 0xffffu);
        return (past | ((int32_t)(word >> 16) - 1 - past)) & INT32_MIN;
    }
};

/* The taps of a phase, in LDS: byte offsets in both operands, and what the tap needs of a row. One more entry
   follows them, a tap that is never good. bwd_weight: the positions of a step, with their holes in `need`. */
struct alignas(16) ckci_k_tap_entry {
    int32_t a, b;
    uint32_t need;
    int32_t unused;
};

/* A row of a block: its offset at the first tap, and which taps lie on padding. */
struct ckci_k_row_entry {
    int32_t at;
    ckci_k_hole hole;
};

/* ---- fwd and bwd_data. Rows, columns and the reduction are those of >>k-gather; the reduction is taken in
   chunks of 16 bytes, which lie in one tap: the channels of a tap are a multiple of a chunk. A thread fetches
   chunks of one place in the reduction, of several rows and columns. Rows keep the offset of their first tap
   and what lies on padding, taps their offsets (in LDS), so that a chunk costs an addition and a test. */
template <class U, int BM, int BN, int BACK> struct ckci_k_gather_chunks {
    enum {
        CHUNKS = U::KB / 16,
        EACH = 256 / CHUNKS, /* rows that the block fetches at a time */
        A = (BM + EACH - 1) / EACH,
        B = (BN + EACH - 1) / EACH,
        SLABS = (BN + 63) / 64,
        SEGMENT = 0,
        LOOPS = U::ASYNC, /* a block may take several tiles */
        SIZE = U::SIZE    /* of an element */
    };
    const ckci_gpu_conv &p;
    const ckci_k_tap_entry *taps;
    ckci_k_window wa, wb;
    int32_t tap, at, count, red, first; /* at: bytes past the first channel of the tap */
    int32_t next_a, next_b, need;       /* of plain steps */
    int32_t down;                       /* BACK: bytes past the first row of weights */
    int32_t a_at[A], b_at[B];
    ckci_k_hole hole[A];
    ckci_k_uint4 a_raw[A], b_raw[B];

    CKCI_K_MEMBER ckci_k_gather_chunks(const ckci_gpu_conv &conv, const ckci_k_block &b,
                                       ckci_k_tap_entry *table, ckci_k_row_entry *rows)
        : p(conv), taps(table)
    {
        const ckci_k_axis *axis = b.axis;
        count = axis[0].taps * axis[1].taps * axis[2].taps;
        red = p.red * SIZE;
        next_a = next_b = need = 0;
        int32_t row_low = 0, tap_low = 0; /* what makes all offsets of rows and of taps positive */
        if constexpr (!U::ASYNC) {
            CKCI_K_UNROLL(3)
            for (int i = 0; i < 3; i++) {
                int32_t reach = (axis[i].taps - 1) * p.dim[i].read_tap, step = (int32_t)p.a.stride[3 + i];
                row_low += axis[i].read0 < 0 ? axis[i].read0 * step : 0;
                tap_low += reach < 0 ? reach * step : 0;
            }
            row_low *= SIZE;
            tap_low *= SIZE;
        }
        fill(axis, count, table, tap_low);
        ckci_k_place start = ckci_k_row(axis, b.row);
        for (int r = (int)threadIdx.x; r < BM; r += 256) {
            rows[r] = row(axis, ckci_k_row(axis, b.row + r), start.n);
            rows[r].at -= row_low;
        }
        __syncthreads();
        wa = ckci_k_make_window(p.a.p + SIZE * (b.group * p.a.stride[0] + start.n * p.a.stride[1]) +
                                (row_low + tap_low));
        wb = ckci_k_make_window(p.b.p + SIZE * (b.group * p.b.stride[0] + b.column * p.b_column));
        settle(b.column, rows);
    }

    /* One that is told later where it reads: settle(), after its windows and tables. */
    explicit CKCI_K_MEMBER ckci_k_gather_chunks(const ckci_gpu_conv &conv) : p(conv)
    {
        red = p.red * SIZE;
        next_a = next_b = need = 0;
    }

    CKCI_K_MEMBER void settle(int32_t column0, const ckci_k_row_entry *rows)
    {
        first = (int32_t)threadIdx.x / CHUNKS;
        at = (int32_t)threadIdx.x % CHUNKS * 16;
        tap = 0;
        wrap();
        CKCI_K_UNROLL(16)
        for (int i = 0; i < A; i++) {
            const ckci_k_row_entry e = rows[(BM >= EACH ? first : first % BM) + i * EACH];
            a_at[i] = e.at;
            hole[i] = e.hole;
        }
        down = 0;
        if constexpr (BACK) {
            const int32_t column = (int32_t)threadIdx.x % CHUNKS * 8;
            CKCI_K_UNROLL(2)
            for (int i = 0; i < SLABS; i++) {
                b_at[i] = column0 + column + i * 64 < p.columns && column + i * 64 < BN
                              ? SIZE * (first * (int32_t)p.b_red + column + i * 64)
                              : INT32_MIN;
            }
        } else {
            CKCI_K_UNROLL(8)
            for (int i = 0; i < B; i++) {
                int32_t column = first + i * EACH;
                b_at[i] = column0 + column < p.columns ? SIZE * column * (int32_t)p.b_column : INT32_MIN;
            }
        }
    }

    /* Row q: its offset at the first tap, from batch n0 on, and what lies on padding. */
    CKCI_K_MEMBER ckci_k_row_entry row(const ckci_k_axis axis[3], ckci_k_place q, int32_t n0) const
    {
        const int64_t *s = p.a.stride;
        q.z = q.z * p.dim[0].read_step + axis[0].read0;
        q.y = q.y * p.dim[1].read_step + axis[1].read0;
        q.x = q.x * p.dim[2].read_step + axis[2].read0;
        ckci_k_row_entry e;
        e.at = SIZE * (int32_t)((q.n - n0) * s[1] + q.z * s[3] + q.y * s[4] + q.x * s[5]);
        e.hole.close(p.ranges);
        if (q.n < p.n) {
            e.hole.open(p.ranges);
            e.hole.add_all(p.ranges, p.dim, q, axis[0].taps, axis[1].taps, axis[2].taps);
        }
        return e;
    }

    CKCI_K_MEMBER void fill(const ckci_k_axis axis[3], int32_t all, ckci_k_tap_entry *table,
                            int32_t low) const
    {
        const int64_t *s = p.a.stride;
        for (int32_t i = (int32_t)threadIdx.x; i <= all; i += 256) {
            ckci_k_tap t = ckci_k_find_tap(p, axis, i * p.red);
            ckci_k_tap_entry e = {0, INT32_MIN, 0x80000000u, 0};
            if (i < all) {
                e.a = SIZE * (int32_t)(t.z * p.dim[0].read_tap * s[3] + t.y * p.dim[1].read_tap * s[4] +
                                       t.x * p.dim[2].read_tap * s[5]) -
                      low;
                e.b = SIZE * (int32_t)ckci_k_weight_at(p, axis, t);
                e.need = p.ranges ? 0
                                  : 1u << t.x % 32 | 1u << (axis[2].taps + t.y) % 32 |
                                        1u << (axis[2].taps + axis[1].taps + t.z) % 32;
            }
            table[i] = e;
        }
    }

    CKCI_K_MEMBER void wrap()
    {
        while (at >= red) {
            at -= red;
            tap++;
        }
        tap = tap < count ? tap : count;
    }

    /* To the next step: the next tap of the same channels where no step has several taps, since neighbouring
       taps read the same lines; else the next channels. */
    CKCI_K_MEMBER void advance()
    {
        if (p.taps_inside) {
            if (++tap == count) {
                tap = 0;
                at += U::KB;
                down += SIZE * 64 * (int32_t)p.b_red;
            }
        } else {
            at += U::KB;
            wrap();
        }
    }

    CKCI_K_MEMBER int32_t a_offset(int i, const ckci_k_tap_entry &e) const
    {
        return ckci_k_add(a_at[i], e.a, at) | hole[i].bad(p.ranges, tap, e.need);
    }

    CKCI_K_MEMBER int32_t b_offset(int i, const ckci_k_tap_entry &e) const
    {
        return ckci_k_add(b_at[i], e.b, b_at[i] < 0 ? 0 : at);
    }

    /* Is the tap of a step the same for all threads? Then its offsets lie in scalar registers. */
    CKCI_K_MEMBER bool plain() const
    {
        return p.taps_inside && !p.ranges;
    }

    template <int PLAIN> CKCI_K_MEMBER void begin()
    {
        if constexpr (PLAIN) {
            CKCI_K_UNROLL(8)
            for (int i = 0; i < A; i++) {
                a_at[i] += at;
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < B; i++) {
                b_at[i] += b_at[i] < 0 ? 0 : at;
            }
            at = tap = 0;
            look();
        }
    }

    CKCI_K_MEMBER void look()
    {
        ckci_k_tap_entry e = taps[tap];
        next_a = ckci_k_same(e.a) + at;
        next_b = ckci_k_same(e.b) + at;
        need = ckci_k_same((int32_t)e.need);
    }

    /* Beyond the last step it loads something again. */
    template <int PLAIN> CKCI_K_MEMBER void fetch(int32_t)
    {
        if constexpr (PLAIN) {
            CKCI_K_UNROLL(8)
            for (int i = 0; i < A; i++) {
                int32_t bad = hole[i].bad(0, 0, (uint32_t)need);
                a_raw[i] = ckci_k_window_load(wa, a_at[i] | bad, next_a);
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < B; i++) {
                b_raw[i] = ckci_k_window_load(wb, b_at[i], next_b);
            }
            tap++;
            int32_t wrap = tap == count, last = red - U::KB;
            tap = wrap ? 0 : tap;
            at = !wrap ? at : at < last ? at + U::KB : last;
            look();
        } else {
            ckci_k_tap_entry e = taps[tap];
            CKCI_K_UNROLL(8)
            for (int i = 0; i < A; i++) {
                a_raw[i] = ckci_k_window_load(wa, a_offset(i, e));
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < B; i++) {
                b_raw[i] = ckci_k_window_load(wb, b_offset(i, e));
            }
            at += U::KB;
            wrap();
        }
    }

#if defined(CKCI_K_MMA)
    CKCI_K_MEMBER void copy(int32_t, unsigned char *tile)
    {
        if (p.ranges) {
            copy_step<1>(tile);
        } else {
            copy_step<0>(tile);
        }
        advance();
    }

    template <int RANGES> CKCI_K_MEMBER void copy_step(unsigned char *tile) const
    {
        const ckci_k_tap_entry e = taps[tap];
        const int32_t most = (int32_t)e.need < 0 ? 0 : 16;
        const unsigned char *a = wa.base + (e.a + at);
        unsigned char *to = tile + ckci_k_spot<U::KB>(first, (int)threadIdx.x % CHUNKS);
        ckci_k_known(a);
        CKCI_K_UNROLL(16)
        for (int i = 0; i < A; i++) {
            ckci_k_copy_from(to + i * EACH * U::KB, a + a_at[i], hole[i].good(RANGES, tap, e.need) ? 16 : 0);
        }
        if constexpr (BACK) {
            CKCI_K_UNROLL(2)
            for (int j = 0; j < 2; j++) {
                const int32_t row = ckci_k_add(e.b, down, j * SIZE * 32 * (int32_t)p.b_red);
                CKCI_K_UNROLL(2)
                for (int i = 0; i < SLABS; i++) {
                    ckci_k_copy(to + (BM + i * 64 + j * 32) * U::KB, wb, ckci_k_add(b_at[i], row, 0),
                                b_at[i] < 0 ? 0 : 16);
                }
            }
        } else {
            const int32_t b = ckci_k_add(e.b, at, 0);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < B; i++) {
                ckci_k_copy(to + (BM + i * EACH) * U::KB, wb, ckci_k_add(b_at[i], b, 0),
                            b_at[i] < 0 ? 0 : most);
            }
        }
    }
#endif

    template <class T> CKCI_K_MEMBER void put(unsigned char *tile) const
    {
        int chunk = (int)threadIdx.x % CHUNKS;
        CKCI_K_UNROLL(8)
        for (int i = 0; i < A; i++) {
            if (BM >= EACH || first < BM) {
                *(ckci_k_uint4 *)(tile + ckci_k_spot<U::KB>(first + i * EACH, chunk)) =
                    ckci_k_rounded<T>(a_raw[i]);
            }
        }
        CKCI_K_UNROLL(8)
        for (int i = 0; i < B; i++) {
            if (BN >= EACH || first < BN) {
                *(ckci_k_uint4 *)(tile + ckci_k_spot<U::KB>(BM + first + i * EACH, chunk)) =
                    ckci_k_rounded<T>(b_raw[i]);
            }
        }
    }
};

/* The table holds the taps and, in bwd_weight, eight steps of places in the reduction; rows afterwards their
   offsets in the output. */
template <int BYTES, int ROWS, int PLACES> struct ckci_k_matrix_lds {
    alignas(CKCI_K_TILE_ALIGN) unsigned char tiles[BYTES];
    ckci_k_tap_entry table[PLACES ? PLACES * 8 : CKCI_K_TAPS + 1];
    union {
        ckci_k_row_entry rows[ROWS];
        int64_t outputs[ROWS];
    };
};

/* The same for a block that takes several tiles (ckci_k_stream): where its rows lie in the output, and what
   else a tile begins with, for the tile that is multiplied and for the next one. */
struct ckci_k_stream_tile {
    const unsigned char *a, *b;
    unsigned char *out;
    int32_t column, taps, steps, unused;
};

template <int BYTES, int ROWS> struct ckci_k_stream_lds {
    alignas(CKCI_K_TILE_ALIGN) unsigned char tiles[BYTES];
    ckci_k_tap_entry table[CKCI_K_TAPS + 1];
    union {
        ckci_k_row_entry rows[ROWS];
        int64_t outputs[ROWS];
    };
    ckci_k_stream_tile tile[2];
    int32_t places[2][ROWS];
};

template <int BYTES, int ROWS, int PLACES, int STREAM> struct ckci_k_matrix_room {
    typedef ckci_k_matrix_lds<BYTES, PLACES ? 1 : ROWS, PLACES> type;
};
template <int BYTES, int ROWS, int PLACES> struct ckci_k_matrix_room<BYTES, ROWS, PLACES, 1> {
    typedef ckci_k_stream_lds<BYTES, ROWS> type;
};

/* The sums of tile `work` to memory. */
template <class F, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_gather_finish(const ckci_gpu_conv &conv, int32_t work, F &f, L &m)
{
    const ckci_gpu_conv &p = ckci_k_late(conv);
    ckci_k_block b = ckci_k_block_of(p, work, BM, BN);
    const ckci_tensor &t = p.o.t;
    const bool plain = p.o_vec && t.op.kind == CKCONV_PASS && !p.o.scale && !p.o.shift && !p.o.compute;
    int64_t *at = m.outputs;
    if (plain) {
        for (int r = (int)threadIdx.x; r < BM; r += 256) {
            ckci_k_place q = ckci_k_row(b.axis, b.row + r);
            at[r] = q.n >= p.n ? -1
                               : b.group * t.stride[0] + q.n * t.stride[1] +
                                     (b.axis[0].write0 + q.z * p.dim[0].write_step) * t.stride[3] +
                                     (b.axis[1].write0 + q.y * p.dim[1].write_step) * t.stride[4] +
                                     (b.axis[2].write0 + q.x * p.dim[2].write_step) * t.stride[5];
        }
    }
    f.template finish<8>(m.tiles, !plain && t.stride[5] < t.stride[2],
                         [&](int row, int column, typename F::number *v, int count) {
                             column += b.column;
                             if (plain) {
                                 if (at[row] >= 0 && column < p.columns) {
                                     ckci_k_store8(t.dtype, t.p + (at[row] + column) * ckci_k_size(t.dtype),
                                                   v);
                                 }
                                 return;
                             }
                             ckci_k_place q = ckci_k_row(b.axis, b.row + row);
                             if (q.n < p.n && column < p.columns) {
                                 ckci_k_write8(p, v, count, b.group, q.n, column, p.columns,
                                               b.axis[0].write0 + q.z * p.dim[0].write_step,
                                               b.axis[1].write0 + q.y * p.dim[1].write_step,
                                               b.axis[2].write0 + q.x * p.dim[2].write_step);
                             }
                         });
}

template <class F, class Loader, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_gather_tile(const ckci_gpu_conv &p, int32_t work, L &m)
{
    F f;
    {
        ckci_k_block b = ckci_k_block_of(p, work, BM, BN);
        int64_t rows = (int64_t)p.n * b.axis[0].count * b.axis[1].count * b.axis[2].count;
        if (b.row >= rows) {
            return; /* a phase with fewer positions than the first one; the whole block */
        }
        Loader loader(p, b, m.table, m.rows);
        int32_t bytes = ckci_k_reduction(p, b.axis) * F::SIZE;
        ckci_k_multiply_all(f, m.tiles, loader, (bytes + F::KB - 1) / F::KB, p.a.compute);
    }
    ckci_k_matrix_gather_finish<F, BM, BN>(p, work, f, m);
}

#if defined(CKCI_K_WGMMA)
/* Groups of waves: a block takes several tiles. While it multiplies one it prepares the tables of the next,
   and its last steps load the next one's first ones, which arrive while the sums are written; these pass
   through tiles in LDS that nothing is on its way to. That is so where stores are plain, of two bytes, and
   all tiles have as many steps, or three at least (p.stream); else tiles follow one another. Blocks take
   every p.workers-th tile, not neighbours: what they all read at a time should lie close together. */
template <class F, class Loader, int BM, int BN, class L> struct ckci_k_stream {
    const ckci_gpu_conv &p;
    L &m;
    Loader loader;
    F f;
    int32_t slot, full, empty; /* the tile's tables; what is multiplied, what is loaded next */

    CKCI_K_MEMBER ckci_k_stream(const ckci_gpu_conv &conv, L &lds)
        : p(conv), m(lds), loader(conv), slot(0), full(0), empty(0)
    {
    }

    CKCI_K_MEMBER ckci_k_tap_entry *table(int32_t of) const
    {
        return m.table + (p.phases > 1 && p.stream ? of * CKCI_STREAM_TAPS : 0);
    }

    CKCI_K_MEMBER void prepare(int32_t work, int32_t to, bool taps)
    {
        const ckci_k_block b = ckci_k_block_of(p, work, BM, BN);
        const ckci_k_axis *axis = b.axis;
        const ckci_k_place start = ckci_k_row(axis, b.row);
        const int64_t *s = p.o.t.stride;
        const int32_t count = axis[0].taps * axis[1].taps * axis[2].taps;
        if (taps) {
            loader.fill(axis, count, table(to), 0);
        }
        for (int r = (int)threadIdx.x; r < BM; r += 256) {
            const ckci_k_place q = ckci_k_row(axis, b.row + r);
            m.rows[r] = loader.row(axis, q, start.n);
            m.places[to][r] = q.n >= p.n ? -1
                                         : (int32_t)((q.n - start.n) * s[1] +
                                                     (axis[0].write0 + q.z * p.dim[0].write_step) * s[3] +
                                                     (axis[1].write0 + q.y * p.dim[1].write_step) * s[4] +
                                                     (axis[2].write0 + q.x * p.dim[2].write_step) * s[5]);
        }
        if (threadIdx.x == 0) {
            ckci_k_stream_tile &t = m.tile[to];
            const int32_t bytes = ckci_k_reduction(p, axis) * F::SIZE;
            t.a = p.a.p + F::SIZE * (b.group * p.a.stride[0] + start.n * p.a.stride[1]);
            t.b = p.b.p + F::SIZE * (b.group * p.b.stride[0] + b.column * p.b_column);
            t.out = p.o.t.p + 2 * (b.group * s[0] + start.n * s[1] + b.column);
            t.column = b.column;
            t.taps = count;
            t.steps = start.n < p.n ? (bytes + F::KB - 1) / F::KB : -1;
        }
    }

    CKCI_K_MEMBER void start(int32_t from)
    {
        const ckci_k_stream_tile &t = m.tile[from];
        loader.wa = ckci_k_make_window(t.a);
        loader.wb = ckci_k_make_window(t.b);
        loader.taps = table(from);
        loader.count = t.taps;
        loader.settle(t.column, m.rows);
    }

    static CKCI_K_MEMBER int32_t after(int32_t tile)
    {
        return tile == (F::STAGES - 1) * F::TILE ? 0 : tile + F::TILE;
    }

    CKCI_K_MEMBER void load()
    {
        loader.copy(0, m.tiles + empty);
        empty = after(empty);
    }

    /* All steps of a tile, whose first `ahead` are loaded. next: the tile of which as many are to be loaded;
       -1: none. */
    template <class T> CKCI_K_MEMBER void multiply(int32_t steps, int32_t ahead, int32_t next)
    {
        CKCI_K_UNROLL(1)
        for (int32_t s = 0; s < steps; s++) {
            if (ahead == 1) {
                ckci_k_copies_wait<0>();
            } else if (F::AHEAD == 2 || ahead == 2) {
                ckci_k_copies_wait<1>();
            } else {
                ckci_k_copies_wait<2>();
            }
            f.arrive();
            f.template multiply<T>(m.tiles, full);
            full = after(full);
            if (s == 0 && next >= 0) {
                prepare(next, slot ^ 1, p.phases > 1);
                if (steps <= ahead) {
                    __syncthreads();
                }
            }
            if (s + ahead == steps && next >= 0) {
                start(slot ^ 1);
            }
            if (s + ahead < steps || next >= 0) {
                load();
            }
            ckci_k_copies_end();
        }
        f.template wait<0>();
    }

    /* Has a tile no rows? A phase can have fewer than the first one. */
    CKCI_K_MEMBER bool no_rows(int32_t work) const
    {
        const ckci_k_block b = ckci_k_block_of(p, work, BM, BN);
        return ckci_k_row(b.axis, b.row).n >= p.n;
    }

    CKCI_K_MEMBER void run()
    {
        const ckci_gpu_target &o = p.o;
        const bool plain = p.o_vec && o.t.op.kind == CKCONV_PASS && !o.scale && !o.shift && !o.compute &&
                           (o.t.dtype == CKCONV_F16 || o.t.dtype == CKCONV_BF16);
        const bool stream = plain && p.stream, skips = stream && p.phases > 1;
        bool loaded = false;
        int32_t work = (int32_t)blockIdx.x;
        CKCI_K_UNROLL(1)
        while (work < p.work) {
            int32_t next = work + p.workers;
            CKCI_K_UNROLL(1)
            while (skips && next < p.work && no_rows(next)) {
                next += p.workers;
            }
            if (!loaded) {
                __syncthreads();
                prepare(work, slot, true);
                __syncthreads();
                start(slot);
            }
            const int32_t steps = m.tile[slot].steps,
                          ahead = stream && steps > 0 && steps < F::AHEAD ? steps : +F::AHEAD;
            for (int32_t s = 0; s < ahead && !loaded; s++) {
                if (s < steps) {
                    load();
                }
                ckci_k_copies_end();
            }
            loaded = stream && steps > 0 && next < p.work;
            f.clear();
            if (p.a.compute == CKCONV_BF16) {
                multiply<ckci_k_bf16>(steps, ahead, loaded ? next : -1);
            } else {
                multiply<ckci_k_f16>(steps, ahead, loaded ? next : -1);
            }
            if (plain && steps >= 0) {
                const ckci_k_stream_tile &t = m.tile[slot];
                f.finish16(m.tiles, full, o.t.dtype, m.places[slot], p.columns - t.column, t.out);
            } else if (steps >= 0) {
                ckci_k_matrix_gather_finish<F, BM, BN>(p, work, f, m);
            }
            slot ^= 1;
            work = next;
        }
    }
};
#endif

template <class F, class Loader, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_gather_run(const ckci_gpu_conv &p, L &m)
{
    if constexpr (F::SIXTEEN) {
#if defined(CKCI_K_WGMMA)
        ckci_k_stream<F, Loader, BM, BN, L> stream(p, m);
        stream.run();
#endif
    } else if constexpr (Loader::LOOPS) {
        CKCI_K_UNROLL(1)
        for (int32_t work = (int32_t)blockIdx.x; work < p.work; work += p.workers) {
            __syncthreads();
            ckci_k_matrix_gather_tile<F, Loader, BM, BN>(p, work, m);
        }
    } else {
        ckci_k_matrix_gather_tile<F, Loader, BM, BN>(p, (int32_t)blockIdx.x, m);
    }
}

/* The positions of bwd_weight. Each is decoded once, by one thread, and passes through LDS: offsets in dout
   and in, what lies on padding. KT positions a step; threads decode those of four steps at a time, while the
   four before are used. PAIRS: the entries of dout (without holes) and of in lie apart, half a
   ckci_k_tap_entry each, a step's as [tensor][half of a four][four][position of the half], with the fours of
   the second half in another order, so that neither the lanes that store entries nor those that load two at a
   time meet in the banks. SIZE: bytes of an element. */
struct alignas(8) ckci_k_position_entry {
    int32_t at;
    uint32_t holes;
};

template <int KT, int PAIRS, int SIZE> struct ckci_k_positions {
    const ckci_gpu_conv &p;
    ckci_k_tap_entry *table;
    int32_t from, to, start; /* start: the batch that offsets count from */

    CKCI_K_MEMBER ckci_k_positions(const ckci_gpu_conv &conv, int32_t first, int32_t last,
                                   ckci_k_tap_entry *entries)
        : p(conv), table(entries), from(first), to(last)
    {
        start = place(from).n;
    }

    CKCI_K_MEMBER ckci_k_place place(int32_t k) const
    {
        return ckci_k_decode(k, p.dim[0].count[0], p.dim[1].count[0], p.dim[2].count[0]);
    }

    CKCI_K_MEMBER ckci_k_window window(const ckci_tensor &t, int32_t group) const
    {
        return ckci_k_make_window(t.p + SIZE * (group * t.stride[0] + start * t.stride[1]));
    }

    CKCI_K_MEMBER void begin()
    {
        prepare(0);
        __syncthreads();
    }

    /* After the entries of a step were read; those of the four steps before are not read any more, since
       there was a barrier after them. */
    CKCI_K_MEMBER void next(int32_t step)
    {
        if (step % 4 == 1) {
            prepare(step / 4 + 1);
        }
    }

    CKCI_K_MEMBER const ckci_k_tap_entry &entry(int32_t step, int32_t j) const
    {
        return table[step % 8 * KT + j];
    }

    CKCI_K_MEMBER void prepare(int32_t four)
    {
        int32_t j = (int32_t)threadIdx.x, k = from + four * 4 * KT + j;
        if (j >= 4 * KT) {
            return;
        }
        ckci_k_tap_entry e = {INT32_MIN, INT32_MIN, 0, 0};
        ckci_k_hole hole;
        hole.close(p.ranges);
        if (k < to) {
            ckci_k_place q = place(k);
            const int64_t *a = p.a.stride, *b = p.b.stride;
            e.a = SIZE * (int32_t)((q.n - start) * a[1] + q.z * a[3] + q.y * a[4] + q.x * a[5]);
            q.z = q.z * p.dim[0].stride - p.dim[0].pad;
            q.y = q.y * p.dim[1].stride - p.dim[1].pad;
            q.x = q.x * p.dim[2].stride - p.dim[2].pad;
            e.b = SIZE * (int32_t)((q.n - start) * b[1] + q.z * b[3] + q.y * b[4] + q.x * b[5]);
            hole.open(p.ranges);
            hole.add_all(p.ranges, p.dim, q, p.dim[0].filter, p.dim[1].filter, p.dim[2].filter);
        }
        e.need = hole.word;
        if constexpr (PAIRS) {
            ckci_k_position_entry *pairs = (ckci_k_position_entry *)(table + (four % 2 * 4 + j / KT) * KT);
            int32_t half = j % 4 / 2, four_at = (j % KT / 4) ^ (half * (KT / 8));
            int32_t at = half * (KT / 2) + four_at * 2 + j % 2;
            pairs[at].at = e.a;
            pairs[at].holes = p.ranges ? (uint32_t)CKCI_K_TAPS << 16 : 0;
            pairs[KT + at].at = e.b;
            pairs[KT + at].holes = hole.word;
        } else {
            table[four % 2 * 4 * KT + j] = e;
        }
    }
};

/* A chunk of neighbouring rows or columns of bwd_weight, against a position's entry. */
struct ckci_k_weight_column {
    int32_t offset, tap;
    uint32_t need;

    CKCI_K_MEMBER void row(int32_t size, bool good, int32_t r)
    {
        offset = good ? size * r : INT32_MIN;
        tap = 0;
        need = 0;
    }

    CKCI_K_MEMBER void column(const ckci_gpu_conv &p, int32_t size, bool good, int32_t c)
    {
        int32_t rest, z, y, x;
        tap = ckci_k_divide(c, p.by_red);
        rest = ckci_k_divide(tap, p.dim[2].taps[0]);
        z = ckci_k_divide(rest, p.dim[1].taps[0]);
        y = rest - z * p.dim[1].filter;
        x = tap - rest * p.dim[2].filter;
        const int64_t *s = p.b.stride;
        offset = size * (int32_t)(c - tap * p.red + z * p.dim[0].dilation * s[3] +
                                  y * p.dim[1].dilation * s[4] + x * p.dim[2].dilation * s[5]);
        need = p.ranges ? 0
                        : 1u << x % 32 | 1u << (p.dim[2].filter + y) % 32 |
                              1u << (p.dim[2].filter + p.dim[1].filter + z) % 32;
        if (!good) {
            offset = 0;
            need = 0x80000000u;
        }
    }

    CKCI_K_MEMBER int32_t a(const ckci_k_tap_entry &e) const
    {
        return offset < 0 ? INT32_MIN : ckci_k_add(offset, e.a, 0);
    }

    CKCI_K_MEMBER int32_t b(int32_t ranges, const ckci_k_tap_entry &e) const
    {
        ckci_k_hole hole = {e.need};
        int32_t bad = hole.bad(ranges, tap, need) | ((int32_t)need & INT32_MIN);
        return ckci_k_add(offset, e.b, 0) | bad;
    }
};

/* ---- bwd_weight. Rows are output channels, columns a tap and, fastest, an input channel, the reduction runs
   over positions. In memory rows and columns are contiguous, not the reduction: a thread loads eight channels
   (f32: four, f64: two) at four positions, transposes them in registers and stores each channel's four places
   of the reduction. */
template <class U, int BM, int BN> struct ckci_k_weight_chunks {
    enum {
        SIZE = U::SIZE,
        CHUNK = 16 / SIZE, /* channels of a load */
        KT = U::KB / SIZE, /* positions of a step */
        FOURS = KT / 4,
        EACH = 256 / FOURS * CHUNK,      /* rows and columns that the block fetches at a time, */
        ALIKE = U::WAVE / FOURS * CHUNK, /* that a wave does: of one tensor */
        FIRST = (BM + ALIKE - 1) / ALIKE * ALIKE,
        PASSES = (FIRST + BN + EACH - 1) / EACH,
        SEGMENT = 4
    };
    const ckci_gpu_conv &p;
    ckci_k_positions<KT, 1, SIZE> positions;
    ckci_k_window window[PASSES];
    ckci_k_weight_column pass[PASSES];
    const unsigned char *entries[PASSES][2]; /* of both halves of this thread's four */
    ckci_k_uint4 raw[PASSES][4];

    CKCI_K_MEMBER ckci_k_weight_chunks(const ckci_gpu_conv &conv, int32_t group, int32_t row0,
                                       int32_t column0, int32_t first, int32_t last, ckci_k_tap_entry *table)
        : p(conv), positions(conv, first, last, table)
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < PASSES; i++) {
            int32_t r = channel(i), c = r - FIRST;
            const bool left = ckci_k_same(r / ALIKE) < FIRST / ALIKE;
            if (left) {
                pass[i].row(SIZE, r < BM && row0 + r < p.rows, row0 + r);
                window[i] = positions.window(p.a, group);
            } else {
                pass[i].column(p, SIZE, c < BN && column0 + c < p.columns, column0 + c);
                window[i] = positions.window(p.b, group);
            }
            CKCI_K_UNROLL(2)
            for (int j = 0; j < 2; j++) {
                entries[i][j] = (const unsigned char *)table + (left ? 0 : KT * 8) + j * (KT * 4) +
                                (place() ^ (j * (FOURS / 2))) * 16;
            }
        }
        positions.begin();
    }

    /* First of the rows (columns: from FIRST on) of this thread's pass i; its positions are 4 * place to
       4 * place + 3. */
    CKCI_K_MEMBER int32_t channel(int i) const
    {
        return (int32_t)threadIdx.x / FOURS * CHUNK + i * EACH;
    }

    CKCI_K_MEMBER int32_t place() const
    {
        return (int32_t)threadIdx.x % FOURS;
    }

    CKCI_K_MEMBER bool plain() const
    {
        return !p.ranges;
    }

    template <int PLAIN> CKCI_K_MEMBER void begin() const
    {
    }

    /* Before step `step`, that fetches two steps ahead. */
    CKCI_K_MEMBER void next(int32_t step)
    {
        positions.prepare(step / 4 + 1);
    }

    template <int PLAIN> CKCI_K_MEMBER void fetch(int32_t step)
    {
        const int32_t at = step % 8 * (KT * 16);
        CKCI_K_UNROLL(4)
        for (int i = 0; i < PASSES; i++) {
            CKCI_K_UNROLL(2)
            for (int j = 0; j < 2; j++) {
                const ckci_k_uint4 two = *(const ckci_k_uint4 *)(entries[i][j] + at);
                raw[i][2 * j] = load<PLAIN>(i, two.x, two.y);
                raw[i][2 * j + 1] = load<PLAIN>(i, two.z, two.w);
            }
        }
    }

    template <int PLAIN> CKCI_K_MEMBER ckci_k_uint4 load(int i, uint32_t at, uint32_t holes) const
    {
        const ckci_k_hole hole = {holes};
        int32_t bad = hole.bad(PLAIN ? 0 : p.ranges, pass[i].tap, pass[i].need);
        bad = PLAIN ? bad : bad | ((int32_t)pass[i].need & INT32_MIN);
        return ckci_k_window_load(window[i], ckci_k_add(pass[i].offset, (int32_t)at, 0) | bad);
    }

    template <class T> CKCI_K_MEMBER void put(unsigned char *tile) const
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < PASSES; i++) {
            const int32_t row =
                channel(i) - (FIRST - BM) * (ckci_k_same(channel(i) / ALIKE) >= FIRST / ALIKE);
            /* those between BM and FIRST hold neither rows nor columns */
            const bool held = FIRST == BM || channel(i) < BM || channel(i) >= FIRST;
            if (held && ((FIRST + BN) % EACH == 0 || row < BM + BN)) {
                const ckci_k_uint4 *r = raw[i];
                if constexpr (SIZE == 8) {
                    both(tile, row, r[0].x, r[0].y, r[1].x, r[1].y, 0);
                    both(tile, row, r[2].x, r[2].y, r[3].x, r[3].y, 1);
                    both(tile, row + 1, r[0].z, r[0].w, r[1].z, r[1].w, 0);
                    both(tile, row + 1, r[2].z, r[2].w, r[3].z, r[3].w, 1);
                    continue;
                } else if constexpr (SIZE == 4) {
                    single<T>(tile, row, r[0].x, r[1].x, r[2].x, r[3].x);
                    single<T>(tile, row + 1, r[0].y, r[1].y, r[2].y, r[3].y);
                    single<T>(tile, row + 2, r[0].z, r[1].z, r[2].z, r[3].z);
                    single<T>(tile, row + 3, r[0].w, r[1].w, r[2].w, r[3].w);
                    continue;
                }
                pair<0>(tile, row, r[0].x, r[1].x, r[2].x, r[3].x);
                pair<2>(tile, row, r[0].y, r[1].y, r[2].y, r[3].y);
                pair<4>(tile, row, r[0].z, r[1].z, r[2].z, r[3].z);
                pair<6>(tile, row, r[0].w, r[1].w, r[2].w, r[3].w);
            }
        }
    }

    /* Two positions of f64. */
    CKCI_K_MEMBER void both(unsigned char *tile, int32_t row, uint32_t low0, uint32_t high0, uint32_t low1,
                            uint32_t high1, int second) const
    {
        const ckci_k_uint4 two = {low0, high0, low1, high1};
        *(ckci_k_uint4 *)(tile + ckci_k_spot<U::KB>(row, 2 * place() + second)) = two;
    }

    template <class T>
    CKCI_K_MEMBER void single(unsigned char *tile, int32_t row, uint32_t r0, uint32_t r1, uint32_t r2,
                              uint32_t r3) const
    {
        const ckci_k_uint4 four = {r0, r1, r2, r3};
        *(ckci_k_uint4 *)(tile + ckci_k_spot<U::KB>(row, place())) = ckci_k_rounded<T>(four);
    }

    template <int H>
    CKCI_K_MEMBER void pair(unsigned char *tile, int32_t row, uint32_t r0, uint32_t r1, uint32_t r2,
                            uint32_t r3) const
    {
        int half = place() % 2 * 8, chunk = place() / 2;
        ckci_k_uint2 low = {ckci_k_halves<0>(r0, r1), ckci_k_halves<0>(r2, r3)};
        ckci_k_uint2 high = {ckci_k_halves<1>(r0, r1), ckci_k_halves<1>(r2, r3)};
        *(ckci_k_uint2 *)(tile + ckci_k_spot<U::KB>(row + H, chunk) + half) = low;
        *(ckci_k_uint2 *)(tile + ckci_k_spot<U::KB>(row + H + 1, chunk) + half) = high;
    }
};

#if defined(CKCI_K_MMA)
/* A position that a thread of bwd_weight follows, and the one 256 further on: a step adds the coordinates of
   position 256, each with a carry at most. Coordinates are those in `in`, padding included. */
struct ckci_k_weight_place {
    int32_t a, b, z, y, x; /* a, b: byte offsets in dout and in */
};

struct ckci_k_weight_stride {
    ckci_k_weight_place step;       /* of 256 positions */
    int32_t end[3], back[3], up[2]; /* z, y, x: where a dimension ends and how long it is; y and z go up */
    int32_t a[3], b[3];             /* what a carry out of z, y, x adds to the offsets */

    CKCI_K_MEMBER ckci_k_weight_stride(const ckci_gpu_conv &p, const ckci_k_place &q)
    {
        const ckci_gpu_dim *d = p.dim;
        const int64_t *s = p.a.stride, *t = p.b.stride;
        step = make(p, q, 0);
        CKCI_K_UNROLL(3)
        for (int i = 0; i < 3; i++) {
            const int above = i == 0 ? 1 : i + 2;
            const int64_t up_b = i == 0 ? t[1] : d[i == 0 ? 0 : i - 1].stride * t[above];
            back[i] = d[i].length * d[i].stride;
            end[i] = back[i] - d[i].pad;
            a[i] = CKCI_K_HALF * (int32_t)(s[above] - d[i].length * s[3 + i]);
            b[i] = CKCI_K_HALF * (int32_t)(up_b - back[i] * t[3 + i]);
        }
        up[0] = d[0].stride;
        up[1] = d[1].stride;
    }

    /* Position q, `pad` times the padding before it. */
    static CKCI_K_MEMBER ckci_k_weight_place make(const ckci_gpu_conv &p, const ckci_k_place &q, int32_t pad)
    {
        const int64_t *s = p.a.stride, *t = p.b.stride;
        ckci_k_weight_place w;
        w.z = q.z * p.dim[0].stride - pad * p.dim[0].pad;
        w.y = q.y * p.dim[1].stride - pad * p.dim[1].pad;
        w.x = q.x * p.dim[2].stride - pad * p.dim[2].pad;
        w.a = CKCI_K_HALF * (int32_t)(q.n * s[1] + q.z * s[3] + q.y * s[4] + q.x * s[5]);
        w.b = CKCI_K_HALF * (int32_t)(q.n * t[1] + w.z * t[3] + w.y * t[4] + w.x * t[5]);
        return w;
    }

    CKCI_K_MEMBER void advance(ckci_k_weight_place &w) const
    {
        w.a = ckci_k_add(w.a, step.a, 0);
        w.b = ckci_k_add(w.b, step.b, 0);
        w.z += step.z;
        w.y += step.y;
        w.x += step.x;
        if (w.x >= end[2]) {
            w.x -= back[2];
            w.y += up[1];
            carry(w, 2);
        }
        if (w.y >= end[1]) {
            w.y -= back[1];
            w.z += up[0];
            carry(w, 1);
        }
        if (w.z >= end[0]) {
            w.z -= back[0];
            carry(w, 0);
        }
    }

    CKCI_K_MEMBER void carry(ckci_k_weight_place &w, int i) const
    {
        w.a = ckci_k_add(w.a, a[i], 0);
        w.b = ckci_k_add(w.b, b[i], 0);
    }
};

/* The same where the unit takes operands that lie across: tiles are slabs of 64 channels, a row in LDS is a
   position, and chunks go straight from memory into LDS. A thread copies one chunk of two positions in each
   slab. What it must know of a position, one thread finds out for all: each follows one of every 256, and
   hands it on through LDS, for four steps at a time, while the four before are used. */
template <int BM, int BN> struct ckci_k_weight_slabs {
    enum { KT = 64, FOUR = 4 * KT, ROWS = (BM + 63) / 64, COLUMNS = (BN + 63) / 64, OUTSIDE = 2 };
    const ckci_gpu_conv &p;
    ckci_k_tap_entry *table; /* unused: 1, and OUTSIDE */
    const unsigned char *a, *b;
    ckci_k_weight_stride stride;
    ckci_k_weight_place at;
    int32_t left; /* positions from the thread's next one on */
    int32_t row[ROWS];
    ckci_k_weight_column column[COLUMNS];

    CKCI_K_MEMBER ckci_k_weight_slabs(const ckci_gpu_conv &conv, int32_t group, int32_t row0, int32_t column0,
                                      int32_t first, int32_t last, ckci_k_tap_entry *entries)
        : p(conv), table(entries), stride(conv, place(conv, FOUR))
    {
        const int32_t start = place(p, first).n, chunk = (int32_t)threadIdx.x % 8 * 8;
        a = p.a.p + CKCI_K_HALF * (group * p.a.stride[0] + start * p.a.stride[1] + row0 + chunk);
        b = p.b.p + CKCI_K_HALF * (group * p.b.stride[0] + start * p.b.stride[1]);
        ckci_k_known(a);
        ckci_k_known(b);
        const int32_t own = first + (int32_t)threadIdx.x;
        left = last - own;
        ckci_k_place q = place(p, own);
        q.n -= start;
        at = ckci_k_weight_stride::make(p, q, 1);
        CKCI_K_UNROLL(4)
        for (int i = 0; i < ROWS; i++) {
            const int32_t r = chunk + i * 64;
            row[i] = r < BM && row0 + r < p.rows ? +OUTSIDE : +OUTSIDE | 1;
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < COLUMNS; i++) {
            const int32_t c = chunk + i * 64;
            column[i].column(p, CKCI_K_HALF, c < BN && column0 + c < p.columns, column0 + c);
        }
        prepare(0);
        __syncthreads();
    }

    static CKCI_K_MEMBER ckci_k_place place(const ckci_gpu_conv &p, int32_t k)
    {
        return ckci_k_decode(k, p.dim[0].count[0], p.dim[1].count[0], p.dim[2].count[0]);
    }

    CKCI_K_MEMBER void prepare(int32_t four)
    {
        ckci_k_tap_entry e = {at.a, at.b, 0, left > 0 ? 1 : 1 | OUTSIDE};
        ckci_k_hole hole;
        hole.close(p.ranges);
        if (left > 0) {
            const ckci_k_place q = {0, at.z, at.y, at.x};
            hole.open(p.ranges);
            hole.add_all(p.ranges, p.dim, q, p.dim[0].filter, p.dim[1].filter, p.dim[2].filter);
        }
        e.need = hole.word;
        table[four % 2 * FOUR + (int)threadIdx.x] = e;
        stride.advance(at);
        left -= FOUR;
    }

    CKCI_K_MEMBER void copy(int32_t step, unsigned char *tile)
    {
        if (p.ranges) {
            copy_step<1>(step, tile);
        } else {
            copy_step<0>(step, tile);
        }
        if ((uint32_t)step % 4 == 1) { /* the entries of the four before were read before a barrier */
            prepare(step / 4 + 1);
        }
    }

    template <int RANGES> CKCI_K_MEMBER void copy_step(int32_t step, unsigned char *tile) const
    {
        unsigned char *to = tile + ckci_k_spot<128>((int)threadIdx.x / 8, (int)threadIdx.x % 8);
        CKCI_K_UNROLL(2)
        for (int j = 0; j < 2; j++) {
            const ckci_k_tap_entry e = table[(uint32_t)step % 8 * KT + threadIdx.x / 8 + 32 * j];
            const unsigned char *from_a = a + (uint32_t)e.a, *from_b = b + e.b;
            CKCI_K_UNROLL(4)
            for (int i = 0; i < ROWS; i++) {
                ckci_k_copy_from(to + (i * 64 + 32 * j) * 128, from_a + i * 128,
                                 ((uint32_t)e.unused & (uint32_t)row[i]) == 0 ? 16 : 0);
            }
            CKCI_K_UNROLL(4)
            for (int i = 0; i < COLUMNS; i++) {
                const ckci_k_hole hole = {e.need};
                const bool good = RANGES ? (hole.bad(1, column[i].tap, 0) | (int32_t)column[i].need) >= 0
                                         : (e.need & column[i].need) == 0;
                ckci_k_copy_from(to + ((ROWS + i) * 64 + 32 * j) * 128, from_b + (uint32_t)column[i].offset,
                                 good ? 16 : 0);
            }
        }
    }
};
#endif

/* The sums of tile `work` to part `part`; more: they are added to what it holds. */
template <class F, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_weight_finish(const ckci_gpu_conv &p, int32_t work, int32_t part, bool more,
                                           F &f, L &m)
{
    const int32_t rest = ckci_k_divide(work, p.by_tiles_n), group = ckci_k_divide(rest, p.by_tiles_m);
    const int32_t column0 = (work - rest * p.tiles_n) * BN, row0 = (rest - group * p.tiles_m) * BM;
    typedef typename F::number number;
    if constexpr (F::SIXTEEN) {
        if (p.o_vec) {
            const int32_t dtype = p.o.partial ? CKCONV_F32 : p.o.t.dtype;
            const int32_t size = p.o.partial ? 4 : ckci_k_size(dtype);
            const int64_t row = ((int64_t)part * p.g + group) * p.rows + row0;
            unsigned char *to =
                (p.o.partial ? p.o.partial : p.o.t.p) + size * (row * p.columns + column0);
            if (more) {
                f.add(to, p.columns, p.rows - row0, p.columns - column0);
            }
            f.store(to, p.columns, p.rows - row0, p.columns - column0, dtype);
            return;
        }
    }
    f.template finish<F::SUMS_WIDE>(m.tiles, false, [&](int row, int column, number *v, int count) {
        row += row0;
        column += column0;
        if (row >= p.rows || column >= p.columns) {
            return;
        }
        if (p.o.partial && p.merge == 0 && count == F::SUMS_WIDE && column + count <= p.columns) {
            int64_t at = (((int64_t)part * p.g + group) * p.rows + row) * p.columns + column;
            unsigned char *dst = (unsigned char *)p.o.partial + (int)sizeof(number) * at;
            if (more) {
                CKCI_K_UNROLL(8)
                for (int i = 0; i < F::SUMS_WIDE; i++) {
                    v[i] += ((const number *)dst)[i];
                }
            }
            if constexpr (F::SUMS_WIDE == 8) {
                ckci_k_store8(CKCONV_F32, dst, v);
            } else if constexpr (sizeof(number) == 8) {
                ((ckci_k_uint4 *)dst)[0] = ((const ckci_k_uint4 *)v)[0];
                ((ckci_k_uint4 *)dst)[1] = ((const ckci_k_uint4 *)v)[1];
            } else { /* so that a wave's stores fill lines */
                *(ckci_k_uint4 *)dst = *(const ckci_k_uint4 *)v;
            }
            return;
        }
        CKCI_K_UNROLL(1)
        for (int i = 0; i < count && column + i < p.columns; i++) {
            ckci_k_write_weight<number, 1>(p, v[i], part, group, row, column + i, more);
        }
    });
}

/* The block's number, of which the compiler is not to know more: what follows from it is not kept. */
CKCI_K_FN int32_t ckci_k_block_again()
{
#if defined(__CUDA_ARCH__)
    return ckci_k_again((int32_t)blockIdx.x);
#else
    return ckci_k_afresh((int32_t)blockIdx.x);
#endif
}

template <class F, class Loader, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_weight_piece(const ckci_gpu_conv &p, int32_t work, int32_t from, int32_t to,
                                          F &f, L &m)
{
    enum { KT = F::KB / F::SIZE };
    const int32_t rest = ckci_k_divide(work, p.by_tiles_n), group = ckci_k_divide(rest, p.by_tiles_m);
    Loader loader(p, group, (rest - group * p.tiles_m) * BM, (work - rest * p.tiles_n) * BN, from, to,
                  m.table);
    ckci_k_multiply_all(f, m.tiles, loader, (to - from + KT - 1) / KT, p.a.compute);
}

/* What a block has of a tile: positions from .. to - 1, whose sums go to part `part`. */
struct ckci_k_weight_share {
    int32_t work, part, from, to;

    CKCI_K_MEMBER ckci_k_weight_share(const ckci_gpu_conv &p, int32_t block)
    {
        part = ckci_k_divide(ckci_k_divide(ckci_k_divide(block, p.by_tiles_n), p.by_tiles_m), p.by_phases);
        work = block - part * (p.tiles_m * p.tiles_n * p.g);
        from = part * p.part + (part < p.part_rest ? part : p.part_rest);
        to = from + p.part + (part < p.part_rest ? 1 : 0);
    }
};

/* Positions are summed p.chain at a time (0: all), lest the error of a sum grow with their number. What one
   piece sums is added to what those before did: in registers (CKCI_MATRIX_FAR), else in memory, to the part,
   which is no other block's. */
template <class F, class Loader, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_weight_pieces(const ckci_gpu_conv &p, const ckci_k_weight_share &s, L &m)
{
    int32_t from = s.from;
    CKCI_K_UNROLL(1)
    for (;;) {
        const int32_t end = p.chain && s.to - from > p.chain ? from + p.chain : s.to;
        F f;
        ckci_k_matrix_weight_piece<F, Loader, BM, BN>(p, s.work, from, end, f, m);
        ckci_k_matrix_weight_finish<F, BM, BN>(p, s.work, s.part, from > s.from, f, m);
        from = end;
        if (from >= s.to) {
            return;
        }
        __syncthreads(); /* nobody is at the piece before any more */
    }
}

/* The same of fragments, whose registers are scarce: from piece to piece a block knows how many positions
   are done, and nothing else. */
template <class F, class Loader, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_weight_pieces(const ckci_gpu_conv &args, L &m)
{
    enum { FAR = CKCI_MATRIX_FAR(F::SIZE, BM, BN) };
    F far;
    if constexpr (FAR) {
        far.clear();
    }
    int32_t done = 0;
    CKCI_K_UNROLL(1)
    for (bool last = false; !last;) {
        const ckci_gpu_conv &p = ckci_k_again(args);
        F f;
        {
            const ckci_k_weight_share s(p, ckci_k_block_again());
            const int32_t from = s.from + done;
            const int32_t end = p.chain && s.to - from > p.chain ? from + p.chain : s.to;
            ckci_k_matrix_weight_piece<F, Loader, BM, BN>(p, s.work, from, end, f, m);
        }
        const ckci_gpu_conv &q = ckci_k_again(args);
        const ckci_k_weight_share s(q, ckci_k_block_again());
        if constexpr (FAR) {
            far.add(f);
        } else {
            ckci_k_matrix_weight_finish<F, BM, BN>(q, s.work, s.part, done > 0, f, m);
        }
        last = q.chain == 0 || s.to - s.from - done <= q.chain;
        done += q.chain;
        __syncthreads(); /* nobody is at the piece before any more */
    }
    if constexpr (FAR) {
        const ckci_k_weight_share s(args, ckci_k_block_again());
        ckci_k_matrix_weight_finish<F, BM, BN>(args, s.work, s.part, false, far, m);
    }
}

/* A block has one tile and a part of its positions; or, groups of waves with p.share, as many steps as every
   other block: of neighbouring tiles, one after the other. */
template <class F, class Loader, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_weight_run(const ckci_gpu_conv &p, L &m)
{
    if constexpr (F::SIXTEEN) {
        const int32_t block = (int32_t)blockIdx.x;
        const ckci_gpu_share &share = p.share;
        int32_t next = block, end = block + 1;
        if (share.steps) {
            next = block * share.part + (block < share.rest ? block : share.rest);
            end = next + share.part + (block < share.rest ? 1 : 0);
        }
        CKCI_K_UNROLL(1)
        while (next < end) {
            ckci_k_weight_share s(p, next);
            if (share.steps) {
                s.work = ckci_k_divide(next, share.by_steps);
                const int32_t first = s.work * share.steps, past = first + share.steps;
                s.part = block - ckci_k_share_block(share, first);
                s.from = (next - first) * 64;
                next = end < past ? end : past;
                s.to = (next - first) * 64 < share.positions ? (next - first) * 64 : share.positions;
                __syncthreads(); /* nobody is at the tile before any more */
            } else {
                next++;
            }
            ckci_k_matrix_weight_pieces<F, Loader, BM, BN>(p, s, m);
        }
    } else {
        ckci_k_matrix_weight_pieces<F, Loader, BM, BN>(p, m);
    }
}

/* The bits of v as f32, f16, bf16 or i8. As a sum of two bf16 numbers (bf16x3) it is written three times:
   high, and then, number `low`, the rest, and high again. One operand has low = 1, the other one 2: that
   leaves out the product of both rests. The second high meets the other one's rest; it is 0 where it is not
   finite, so that infinity * 0 and infinity - infinity do not come about. */
CKCI_K_FN uint32_t ckci_k_term(int32_t type, float v, int32_t term, int32_t low)
{
    uint32_t high = type == CKCONV_F32   ? ckci_k_bits(v)
                    : type == CKCONV_F16 ? ckci_k_float_half(v)
                    : type == CKCONV_I8  ? (uint32_t)ckci_k_int(v, -128.f, 127.f) & 0xffu
                                         : ckci_k_float_bf16(v);
    if (term == 0) {
        return high;
    }
    float rest = v - ckci_k_float(high << 16);
    return rest - rest != 0 ? 0 : term == low ? ckci_k_float_bf16(rest) : high;
}

/* ---- Weights for the gather kernels. */
struct ckci_k_pack {
    struct lds {
        int32_t unused;
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_pack &p, lds &)
    {
        int32_t e = (int32_t)blockIdx.x * 256 + (int32_t)threadIdx.x;
        if (e >= p.count) {
            return;
        }
        int32_t tap_row = ckci_k_divide(e, p.by_red), red = (e - tap_row * (p.red / 2)) * 2;
        int32_t row = ckci_k_divide(tap_row, p.by_taps), tap = tap_row - row * (int32_t)p.by_taps.d;
        int32_t group = ckci_k_divide(row, p.by_columns), column = row - group * p.columns;
        int32_t one = ckci_k_divide(column, p.by_one_column), rest = ckci_k_divide(tap, p.by_x);
        int32_t z = ckci_k_divide(rest, p.by_y);
        column -= one * (int32_t)p.by_one_column.d;
        int64_t base = (group * p.merge + one) * p.w.stride[0] + column * p.column + z * p.w.stride[3] +
                       (rest - z * p.taps[1]) * p.w.stride[4] + (tap - rest * p.taps[2]) * p.w.stride[5];
        uint32_t h[2];
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 2; i++) {
            int32_t term = ckci_k_divide(red + i, p.by_term), r = red + i - term * (int32_t)p.by_term.d;
            int32_t other = ckci_k_divide(r, p.by_one_red), place = r - other * (int32_t)p.by_one_red.d;
            int64_t at = base + place * p.step;
            bool good = other == one;
            if (p.pairs) {
                int32_t c = r % 4, x = 2 * (tap - rest * p.taps[2]) + r / 4 - p.shift;
                good = c < (int32_t)p.by_one_red.d && x >= 0 && x < p.filter_x;
                at = base + (x - (tap - rest * p.taps[2])) * p.w.stride[5] + c * p.step;
            }
            if (p.type == CKCONV_F64) {
                ((double *)p.dst)[2 * e + i] = good ? ckci_k_value<double>(p.w, at) : 0.;
                continue;
            }
            float v = good ? ckci_k_value<float>(p.w, at) : 0.f;
            h[i] = ckci_k_term(p.type, v, term, p.low);
        }
        if (p.type == CKCONV_F64) {
            return;
        }
        if (p.type == CKCONV_I8) {
            ((uint16_t *)p.dst)[e] = (uint16_t)(h[0] | h[1] << 8);
        } else if (p.type == CKCONV_F32) {
            const ckci_k_uint2 two = {h[0], h[1]};
            ((ckci_k_uint2 *)p.dst)[e] = two;
        } else {
            ((uint32_t *)p.dst)[e] = h[0] | h[1] << 16;
        }
    }
};

/* The same for groups as they are, where columns lie side by side: through LDS, 64 columns of 64 places of
   the reduction, so that both sides are read and written along their lines. Planned for AMD; NVIDIA reads
   such weights as they are. */
struct ckci_k_pack_turn {
    enum { PITCH = 65 };
    struct lds {
        uint16_t half[64 * PITCH];
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_pack &p, lds &m)
    {
        int32_t work = (int32_t)blockIdx.x, rest = ckci_k_divide(work, p.by_one_column);
        int32_t column0 = (work - rest * (int32_t)p.by_one_column.d) * 64;
        int32_t up = ckci_k_divide(rest, p.by_one_red), red0 = (rest - up * (int32_t)p.by_one_red.d) * 64;
        int32_t group = ckci_k_divide(up, p.by_taps), tap = up - group * (int32_t)p.by_taps.d;
        int32_t line = ckci_k_divide(tap, p.by_x), z = ckci_k_divide(line, p.by_y);
        int64_t base = group * p.w.stride[0] + z * p.w.stride[3] + (line - z * p.taps[1]) * p.w.stride[4] +
                       (tap - line * p.taps[2]) * p.w.stride[5];
        int32_t thread = (int32_t)threadIdx.x, c = column0 + thread % 64;
        CKCI_K_UNROLL(2)
        for (int i = 0; i < 16; i++) {
            int32_t r = i * 4 + thread / 64;
            float x = c < p.columns && red0 + r < p.red
                          ? ckci_k_value<float>(p.w, base + c * p.column + (red0 + r) * p.step)
                          : 0.f;
            m.half[r * PITCH + thread % 64] =
                (uint16_t)(p.type == CKCONV_F16 ? ckci_k_float_half(x) : ckci_k_float_bf16(x));
        }
        __syncthreads();
        int32_t r = thread % 32 * 2;
        CKCI_K_UNROLL(4)
        for (int n = 0; n < 8; n++) {
            int32_t i = n * 8 + thread / 32;
            if (column0 + i < p.columns && red0 + r < p.red) {
                int64_t row = ((int64_t)group * p.columns + column0 + i) * (int32_t)p.by_taps.d + tap;
                ((uint32_t *)p.dst)[(row * p.red + red0 + r) / 2] =
                    m.half[r * PITCH + i] | (uint32_t)m.half[(r + 1) * PITCH + i] << 16;
            }
        }
    }
};

/* ---- Tensors for the matrix kernels, where those cannot read them as they are: converted, in the order
   [n][z][y][x][g][channels], with zeros after the last channel. A block owns 2048 values, of 8, 16 or 32
   channels of a group; they pass through LDS, so that reads run along the tensor's own fastest dimension. */
struct ckci_k_pack_data {
    struct lds {
        float v[2304]; /* rows of channels, one apart */
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_pack_data &p, lds &m)
    {
        const int wide = 1 << p.log_c, high = 2048 >> p.log_c, t = (int)threadIdx.x;
        int32_t rest = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c);
        const int32_t first = ((int32_t)blockIdx.x - rest * p.tiles_c) << p.log_c;
        const int32_t tile = ckci_k_divide(rest, p.by_groups), group = rest - tile * p.groups;
        const int32_t row0 = tile * high;
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 8; i++) {
            int e = t + 256 * i, column = p.along ? e & (wide - 1) : e >> (11 - p.log_c);
            int row = p.along ? e >> p.log_c : e & (high - 1);
            const ckci_k_place q = ckci_k_decode(row0 + row, p.by_z, p.by_y, p.by_x);
            int32_t c = first + column, x = q.x;
            if (p.pairs) {
                x = 2 * x + (c >> 2);
                c = c & 3;
            }
            const int64_t *s = p.t.stride;
            const int64_t from =
                group * s[0] + q.n * s[1] + c * s[2] + q.z * s[3] + q.y * s[4] + (int64_t)x * s[5];
            const bool good = row0 + row < p.positions && c < p.channels && x < p.wide;
            if (p.type == CKCONV_F64) { /* LDS is for floats: straight to memory */
                if (row0 + row < p.positions && c < p.padded) {
                    const int64_t to = ((int64_t)(row0 + row) * p.groups + group) * p.pitch + c;
                    ((double *)p.dst)[to] = good ? ckci_k_value<double>(p.t, from) : 0.;
                }
                continue;
            }
            m.v[row * (wide + 1) + column] = good ? ckci_k_value<float>(p.t, from) : 0.f;
        }
        if (p.type == CKCONV_F64) {
            return;
        }
        __syncthreads();
        const int row = t >> (p.log_c - 3), column = (t & ((wide >> 3) - 1)) * 8;
        if (row0 + row < p.positions && first + column < p.padded) {
            const float *v = m.v + row * (wide + 1) + column;
            int64_t at = ((int64_t)(row0 + row) * p.groups + group) * p.pitch + first + column;
            if (p.type == CKCONV_F32) {
                for (int i = 0; i < 8 && first + column + i < p.padded; i += 4) {
                    const ckci_k_uint4 out = {ckci_k_bits(v[i]), ckci_k_bits(v[i + 1]), ckci_k_bits(v[i + 2]),
                                              ckci_k_bits(v[i + 3])};
                    *(ckci_k_uint4 *)(p.dst + 4 * (at + i)) = out;
                }
                return;
            }
            CKCI_K_UNROLL(1)
            for (int32_t term = 0; term < p.terms; term++) {
                uint32_t two[4];
                CKCI_K_UNROLL(4)
                for (int i = 0; i < 4; i++) {
                    two[i] = ckci_k_term(p.type, v[2 * i], term, p.low) |
                             ckci_k_term(p.type, v[2 * i + 1], term, p.low) << 16;
                }
                if (p.type == CKCONV_I8) {
                    const ckci_k_uint2 out = {ckci_k_halves<0>(two[0] | two[0] >> 8, two[1] | two[1] >> 8),
                                              ckci_k_halves<0>(two[2] | two[2] >> 8, two[3] | two[3] >> 8)};
                    *(ckci_k_uint2 *)(p.dst + at) = out;
                    return;
                }
                const ckci_k_uint4 out = {two[0], two[1], two[2], two[3]};
                *(ckci_k_uint4 *)(p.dst + 2 * (at + term * p.term_step)) = out;
            }
        }
    }
};

/* ---- Small groups in one phase: fwd and bwd_data, and bwd_weight. A block owns 64 channels, in blocks of Q
   that hold one group or several whole ones, and walks over regions of some images x rows x columns of
   positions in one plane of the output. What the positions of a region read of a plane, with its halo, lies
   in LDS as rows of 128 bytes for each pixel, padding as zeros; every tap reads its operand from there, so
   that memory is read once for each plane of the filter. A row's pitch is such that 16 positions, which may
   be parts of two rows, meet in no bank. The next region is on its way while one is multiplied: on NVIDIA
   into LDS, on AMD into registers.
   fwd, bwd_data: a wave owns 16 channels of the written tensor, whose weights it keeps in registers, and all
   positions of a region, or half of them. The weights of merged groups lie on the diagonal, [column][tap][Q].
   With 3 x 3 filters that step from row to row (near_down), 16 positions are of one row (of several images,
   if these are narrow), and the wave walks down: what it reads of a row of pixels serves three rows of
   positions. On NVIDIA a region may then be as high as the image and pass through LDS in chunks of rows:
   waves keep the sums of the rows that a chunk leaves unfinished, and no row is read twice.
   With filters of several planes (near_deep) those that a region reads pass through LDS one after the other;
   a wave keeps the sums of all its positions. The weights of a plane come with it: on NVIDIA into LDS too,
   where bwd_data finds them as they lie in memory and turns them when it loads them.
   bwd_weight: dout lies in LDS behind the pixels. Channels are rows and columns here and positions the
   reduction, so operands are turned when they are loaded. A wave owns 16 output x 16 input channels, for all
   taps of a plane of the filter, all along its regions; two waves that share them add theirs at the end. Sums
   go to workspace. Where K is not C, the 64 channels of a block are the wider side's; of the other side, of
   which several blocks then use parts, it loads the 64 among which its own are. */
enum { CKCI_K_NEAR_TAPS = 9 };

/* A position or pixel of a region: where it lies from the region's first in memory (bytes of pixels, elements
   of positions); in LDS, of a position its first pixel; its row and column. */
struct ckci_k_near_spot {
    int32_t offset;
    uint32_t word;

    CKCI_K_MEMBER void set(int64_t from_first, int32_t at, int32_t y, int32_t x)
    {
        offset = (int32_t)from_first;
        word = (uint32_t)(at / 16) | (uint32_t)y << 12 | (uint32_t)x << 22;
    }

    CKCI_K_MEMBER int32_t at() const
    {
        return (int32_t)(word & 0xfffu) * 16;
    }

    CKCI_K_MEMBER int32_t y() const
    {
        return (int32_t)(word >> 12 & 0x3ffu);
    }

    CKCI_K_MEMBER int32_t x() const
    {
        return (int32_t)(word >> 22);
    }
};

/* What near asks of a unit. Weights are an operand of 16 columns; sums of 16 positions and 16 channels come
   in PIECES of RUN neighbouring channels of one position: sum j of a piece, its position, its first channel.
   load_turned reads an operand whose rows are 16 channels and whose reduction 16 positions, of which a lane
   gives the addresses of TURNED. Of sums of such operands ACROSS neighbours lie in neighbouring columns. */
template <class U> struct ckci_k_near_unit;

#if defined(CKCI_K_MFMA) || defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12)
/* AMD: weights are the rows, a lane's sums lie in one position. */
template <class U, int R, int T> struct ckci_k_near_amd {
    enum { PIECES = 1, RUN = R, TURNED = T, ACROSS = 1 };
    typedef typename U::operand operand;

    template <class E>
    static CKCI_K_MEMBER void multiply(typename U::sums &d, const operand &weights, const operand &pixels)
    {
        U::template multiply<E>(d, weights, pixels);
    }

    static CKCI_K_MEMBER int sum(int, int j)
    {
        return j;
    }

    static CKCI_K_MEMBER int position(int)
    {
        return (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER int channel()
    {
        return (int)threadIdx.x % U::WAVE / 16 * RUN;
    }

    template <class E>
    static CKCI_K_MEMBER void multiply_turned(typename U::sums &d, const operand &first,
                                              const operand &second)
    {
        U::template multiply<E>(d, first, second);
    }

    template <class F> static CKCI_K_MEMBER operand load_turned_second(const F &position)
    {
        return load_turned(position);
    }

    /* this lane's channel of 16, from the address of a position's first one */
    template <class F> static CKCI_K_MEMBER operand load_turned(const F &position)
    {
        uint32_t two[TURNED / 2];
        CKCI_K_UNROLL(8)
        for (int i = 0; i < TURNED / 2; i++) {
            two[i] = channel_of(position(2 * i)) | channel_of(position(2 * i + 1)) << 16;
        }
        return ckci_k_cast<operand>(two);
    }

    static CKCI_K_MEMBER uint32_t channel_of(const unsigned char *position)
    {
        return ((const uint16_t *)position)[(int)threadIdx.x % 16];
    }
};
#endif

#if defined(CKCI_K_MFMA)
template <> struct ckci_k_near_unit<ckci_k_mfma16> : ckci_k_near_amd<ckci_k_mfma16, 4, 4> {
    template <class F> static CKCI_K_MEMBER operand load_weights(const F &row)
    {
        const int lane = (int)threadIdx.x % 64;
        return *(const operand *)(row(lane % 16) + lane / 16 * 8);
    }

    static CKCI_K_MEMBER int turned(int i)
    {
        return (int)threadIdx.x % 64 / 16 * 4 + i;
    }

    static CKCI_K_MEMBER int turned_second(int i)
    {
        return turned(i);
    }
};
#endif

#if defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12)
/* Rows of sums alternate between the halves of a wave before gfx12, so weights are put in such an order. */
template <int GFX>
struct ckci_k_near_unit<ckci_k_wmma<GFX>> : ckci_k_near_amd<ckci_k_wmma<GFX>, 8, GFX == 11 ? 16 : 8> {
    typedef typename ckci_k_wmma<GFX>::operand operand;

    template <class F> static CKCI_K_MEMBER operand load_weights(const F &row)
    {
        const int lane = (int)threadIdx.x % 16, half = (int)threadIdx.x % 32 / 16;
        const unsigned char *from = row(GFX == 11 ? lane % 2 * 8 + lane / 2 : lane);
        operand r;
        if constexpr (GFX == 11) {
            r.v[0] = ((const ckci_k_uint4 *)from)[0];
            r.v[1] = ((const ckci_k_uint4 *)from)[1];
        } else {
            r.v[0] = ((const ckci_k_uint4 *)from)[half];
        }
        (void)half;
        return r;
    }

    static CKCI_K_MEMBER int turned(int i)
    {
        return GFX == 11 ? i : (int)threadIdx.x % 32 / 16 * 8 + i;
    }

    static CKCI_K_MEMBER int turned_second(int i)
    {
        return turned(i);
    }
};
#endif

#if defined(CKCI_K_MMA)
/* Columns of the weights are in such an order that a lane's sums are four neighbours. */
template <> struct ckci_k_near_unit<ckci_k_mma> {
    enum { PIECES = 2, RUN = 4, TURNED = 1, ACROSS = 2 };
    typedef ckci_k_mma::operand operand;

    /* Of the second operand the registers of one product lie side by side. */
    template <class E>
    static CKCI_K_MEMBER void multiply(ckci_k_mma::sums &d, const operand &weights, const operand &pixels)
    {
        ckci_k_mma::half<E>(d.v, pixels, weights.x, weights.y);
        ckci_k_mma::half<E>(d.v + 4, pixels, weights.z, weights.w);
    }

    static CKCI_K_MEMBER int sum(int piece, int j)
    {
        return 2 * piece + j % 2 + j / 2 * 4;
    }

    static CKCI_K_MEMBER int position(int piece)
    {
        return (int)threadIdx.x % 32 / 4 + 8 * piece;
    }

    static CKCI_K_MEMBER int channel()
    {
        return (int)threadIdx.x % 4 * 4;
    }

    template <class F> static CKCI_K_MEMBER operand load_weights(const F &row)
    {
        const int lane = (int)threadIdx.x % 32, column = lane / 8 * 4 + lane / 4 % 2, word = lane % 4;
        const uint32_t *low = (const uint32_t *)row(column), *high = (const uint32_t *)row(column + 2);
        const operand r = {low[word], low[4 + word], high[word], high[4 + word]};
        return r;
    }

    /* of the first operand, and of the second one */
    static CKCI_K_MEMBER int turned(int)
    {
        const int lane = (int)threadIdx.x % 32;
        return lane / 16 * 8 + lane % 8;
    }

    static CKCI_K_MEMBER int turned_second(int)
    {
        return (int)threadIdx.x % 16;
    }

    /* Weights from LDS, 16 rows `pitch` apart and those from the eighth on 32 bytes more, so that no two
       meet in a bank: rows are columns of the product, in the order above, or, TURN, the reduction, and
       columns in their own order; see own_four. Where this lane reads: */
    template <int TURN> static CKCI_K_MEMBER int32_t weights_at(int32_t pitch)
    {
        const int lane = (int)threadIdx.x % 32, one = lane % 8, two = lane / 8 % 2;
        const int32_t row = TURN ? two * 8 + one : one / 2 * 4 + one % 2 + lane / 16 * 2;
        return row * pitch + row / 8 * 32 + (TURN ? lane / 16 : two) * 16;
    }

    template <int TURN> static CKCI_K_MEMBER operand load_weights_at(const unsigned char *p)
    {
        if constexpr (TURN) {
            return load_trans(p);
        } else {
            return ckci_k_mma::load_rows(p - (int)threadIdx.x % 32 / 16 * 16, 0);
        }
    }

    /* After TURN a lane has sums of two channels and of those eight further on: its neighbour's two and its
       own make four, the first ones of an even lane. */
    static CKCI_K_MEMBER void own_four(ckci_k_mma::sums &d)
    {
        const bool odd = threadIdx.x % 2;
        CKCI_K_UNROLL(4)
        for (int e = 0; e < 4; e++) {
            const float given = odd ? d.v[e] : d.v[4 + e];
            const float other = ckci_k_shuffle_xor(given, 1);
            d.v[e] = odd ? other : d.v[e];
            d.v[4 + e] = odd ? d.v[4 + e] : other;
        }
    }

    static CKCI_K_MEMBER int channel_of_four()
    {
        return (int)threadIdx.x % 4 / 2 * 4 + (int)threadIdx.x % 2 * 8;
    }

    template <class F> static CKCI_K_MEMBER operand load_turned(const F &position)
    {
        return load_trans(position(0) + (int)threadIdx.x / 8 % 2 * 16);
    }

    template <class F> static CKCI_K_MEMBER operand load_turned_second(const F &position)
    {
        return load_trans(position(0) + (int)threadIdx.x / 16 % 2 * 16);
    }

    template <class E>
    static CKCI_K_MEMBER void multiply_turned(ckci_k_mma::sums &d, const operand &first,
                                              const operand &second)
    {
        multiply<E>(d, second, first);
    }

    static CKCI_K_MEMBER operand load_trans(const unsigned char *p)
    {
        operand r;
#if defined(CKCI_SIMULATOR)
        sim_ldmatrix_x4_trans(&r, p);
#else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
                     : "r"((uint32_t)__cvta_generic_to_shared(p)));
#endif
        return r;
    }
};
#endif

template <int ASYNC> struct ckci_k_near_lds {
    enum { STAGES = ASYNC ? 2 : 1, BYTES = ASYNC ? CKCI_NEAR_NVIDIA_BYTES : CKCI_NEAR_AMD_BYTES };
    alignas(128) unsigned char stage[STAGES * BYTES];
    ckci_k_near_spot pixel[ASYNC ? 1 : CKCI_NEAR_AMD_PIXELS]; /* of which threads copy eight channels each */
    ckci_k_near_spot position[ASYNC ? CKCI_NEAR_NVIDIA_POSITIONS : CKCI_NEAR_AMD_POSITIONS];
};

/* A region: its first position, how much of it there is. */
struct ckci_k_near_region {
    int32_t n, z, y, x, images, rows, columns;

    CKCI_K_MEMBER ckci_k_near_region(const ckci_gpu_conv &conv, int32_t index)
    {
        const ckci_gpu_conv &p = ckci_k_again(conv);
        const ckci_gpu_near &q = p.as.region;
        const int32_t line = ckci_k_divide(index, q.by_regions_x),
                      plane = ckci_k_divide(line, q.by_regions_y),
                      group = ckci_k_divide(plane, q.by_regions_z);
        n = group * q.images;
        z = plane - group * (int32_t)q.by_regions_z.d;
        y = (line - plane * (int32_t)q.by_regions_y.d) * q.rows;
        x = (index - line * (int32_t)q.by_regions_x.d) * q.columns;
        images = p.n - n < q.images ? p.n - n : q.images;
        rows = p.dim[1].length - y < q.rows ? p.dim[1].length - y : q.rows;
        columns = p.dim[2].length - x < q.columns ? p.dim[2].length - x : q.columns;
    }

    CKCI_K_MEMBER bool holds(const ckci_gpu_near &q, int32_t i, const ckci_k_near_spot &s) const
    {
        return i < images * q.lines * q.columns && s.y() < rows && s.x() < columns;
    }
};

/* From one image, plane, row, pixel to the next, in elements: images of a block reach over less than 2^31
   bytes. */
struct ckci_k_near_steps {
    int32_t n, z, y, x;

    explicit CKCI_K_MEMBER ckci_k_near_steps(const ckci_tensor &t)
    {
        n = (int32_t)t.stride[1];
        z = (int32_t)t.stride[3];
        y = (int32_t)t.stride[4];
        x = (int32_t)t.stride[5];
    }

    CKCI_K_MEMBER int64_t at(int32_t image, int32_t plane, int32_t row, int32_t column) const
    {
        return (int64_t)image * n + (plane * z + row * y + column * x);
    }
};

/* The plane of pixels that a plane of the filter reads. */
CKCI_K_FN int32_t ckci_k_near_plane(const ckci_gpu_conv &p, const ckci_k_near_region &r, int32_t plane)
{
    return r.z * p.dim[0].read_step + p.as.region.first_z + plane * p.dim[0].dilation;
}

/* AMD: what threads copy from memory, eight of them the 128 bytes of a pixel and of a position of dout. */
template <class U, int WEIGHT> struct ckci_k_near_copies {
    typedef ckci_k_near_lds<0> lds;
    enum { PIXELS = CKCI_NEAR_AMD_PIXELS / 32, POSITIONS = WEIGHT ? CKCI_NEAR_AMD_POSITIONS / 32 : 0 };
    ckci_k_uint4 kept[PIXELS + POSITIONS];
    int32_t channel, channel_dout;

    /* the slice's first channel of the pixels' tensor, and of dout */
    CKCI_K_MEMBER ckci_k_near_copies(const ckci_gpu_conv &, int32_t first, int32_t dout)
    {
        channel = first;
        channel_dout = dout;
    }

    /* Begins to load what a region reads of a plane. */
    CKCI_K_MEMBER void fetch(const ckci_gpu_conv &conv, const ckci_k_near_region &r, lds &m, int32_t plane,
                             int32_t, int32_t)
    {
        const ckci_gpu_conv &p = ckci_k_again(conv);
        const ckci_gpu_near &q = p.as.region;
        const ckci_tensor &t = WEIGHT ? p.b : p.a;
        const int32_t thread = ckci_k_lane_afresh((int32_t)threadIdx.x), chunk = thread % 8 * 16;
        /* not kept from region to region */
        const bool inside = channel + thread % 8 * 8 < (WEIGHT ? q.channels_in : q.channels);
        const int32_t z = ckci_k_near_plane(p, r, plane);
        const int32_t y = r.y * p.dim[1].read_step + q.first_y, x = r.x * p.dim[2].read_step + q.first_x;
        const ckci_k_window from =
            ckci_k_make_window(t.p + CKCI_K_HALF * (r.n * t.stride[1] + z * t.stride[3] + y * t.stride[4] +
                                                    x * t.stride[5] + channel));
        const int32_t images = (uint32_t)z < (uint32_t)p.dim[0].read_len ? r.images : 0;
        const int32_t pixels = images * q.high * q.wide, room = q.images * q.high * q.wide;
        CKCI_K_UNROLL(6)
        for (int slot = 0; slot < PIXELS; slot++) {
            const int32_t i = thread / 8 + slot * 32;
            if (i >= room) {
                break;
            }
            const ckci_k_near_spot s = m.pixel[i];
            const bool good = inside && i < pixels && (uint32_t)(y + s.y()) < (uint32_t)p.dim[1].read_len &&
                              (uint32_t)(x + s.x()) < (uint32_t)p.dim[2].read_len;
            kept[slot] = ckci_k_window_load(from, good ? s.offset + chunk : INT32_MIN);
        }
        if constexpr (WEIGHT) {
            const int64_t *s = p.a.stride;
            const ckci_k_window dout = ckci_k_make_window(
                p.a.p + CKCI_K_HALF * (r.n * s[1] + r.z * s[3] + r.y * s[4] + r.x * s[5] + channel_dout));
            const bool holds = channel_dout + thread % 8 * 8 < q.channels;
            CKCI_K_UNROLL(4)
            for (int slot = 0; slot < POSITIONS; slot++) {
                const int32_t i = thread / 8 + slot * 32;
                if (i >= q.tiles * 16) {
                    break;
                }
                const ckci_k_near_spot e = m.position[i];
                kept[PIXELS + slot] = ckci_k_window_load(
                    dout, holds && r.holds(q, i, e) ? CKCI_K_HALF * e.offset + chunk : INT32_MIN);
            }
        }
    }

    /* What was loaded, into LDS. */
    CKCI_K_MEMBER void store(const ckci_gpu_conv &p, lds &m) const
    {
        const ckci_gpu_near &q = ckci_k_again(p).as.region;
        const int32_t thread = ckci_k_lane_afresh((int32_t)threadIdx.x), chunk = thread % 8 * 16;
        CKCI_K_UNROLL(6)
        for (int slot = 0; slot < PIXELS; slot++) {
            const int32_t i = thread / 8 + slot * 32;
            if (i < q.images * q.high * q.wide) {
                *(ckci_k_uint4 *)(m.stage + m.pixel[i].at() + chunk) = kept[slot];
            }
        }
        CKCI_K_UNROLL(4)
        for (int slot = 0; slot < POSITIONS; slot++) {
            const int32_t i = thread / 8 + slot * 32;
            if (i < q.tiles * 16) {
                *(ckci_k_uint4 *)(m.stage + q.bytes + i * CKCI_NEAR_PITCH + chunk) = kept[PIXELS + slot];
            }
        }
    }
};

#if defined(CKCI_K_MMA)
/* NVIDIA: eight threads copy a pixel straight into LDS, a block 32 pixels of one or several rows at a time,
   and then those of the rows below. */
template <int WEIGHT> struct ckci_k_near_copies<ckci_k_mma, WEIGHT> {
    typedef ckci_k_near_lds<1> lds;
    int32_t channel, channel_dout, chunk;
    bool inside, inside_dout;

    /* the slice's first channel of the pixels' tensor, and of dout */
    CKCI_K_MEMBER ckci_k_near_copies(const ckci_gpu_conv &p, int32_t first, int32_t dout)
    {
        chunk = (int32_t)threadIdx.x % 8 * 16;
        channel = first + chunk / CKCI_K_HALF;
        inside = channel < (WEIGHT ? p.as.region.channels_in : p.as.region.channels);
        channel_dout = dout + chunk / CKCI_K_HALF;
        inside_dout = channel_dout < p.as.region.channels;
    }

    /* Begins to load what a region reads of a plane, or its chunk of rows that begins at `row` (pixels that
       no chunk before it had), into the stage that begins there. */
    CKCI_K_MEMBER void fetch(const ckci_gpu_conv &p, const ckci_k_near_region &r, lds &m, int32_t plane,
                             int32_t row, int32_t stage) const
    {
        const ckci_gpu_near &q = p.as.region;
        const int32_t above = q.high - q.chunk,
                      had = row ? row + above : 0; /* rolled: rows of taps less one */
        unsigned char *to = m.stage + stage + chunk;
        const int32_t y = r.y * p.dim[1].read_step + q.first_y + had;
        const int32_t x = r.x * p.dim[2].read_step + q.first_x;
        const int32_t high = row ? q.chunk : q.high, left = r.rows + above - had;
        const int32_t z = ckci_k_near_plane(p, r, plane);
        const int32_t end_y = (uint32_t)z < (uint32_t)p.dim[0].read_len ? p.dim[1].read_len : 0;
        const rows in = {
            z, y, x, end_y, p.dim[2].read_len, q.rolled && left < high ? left : high, q.wide, q.row_pitch};
        image(WEIGHT ? p.b : p.a, r, in, q.by_wide, q.images, q.image_pitch, channel, inside, to);
        if constexpr (WEIGHT) {
            const int32_t pitch = q.columns * CKCI_NEAR_PITCH;
            const rows dout = {r.z, r.y, r.x, r.y + r.rows, r.x + r.columns, q.rows, q.columns, pitch};
            image(p.a, r, dout, q.by_columns, q.images, q.rows * pitch, channel_dout, inside_dout,
                  to + q.bytes);
        }
    }

    /* From where on, up to where rows and columns exist; how many, and how far apart in LDS rows are. */
    struct rows {
        int32_t z, y, x, end_y, end_x, high, wide, pitch;
    };

    CKCI_K_MEMBER void image(const ckci_tensor &t, const ckci_k_near_region &r, const rows &w,
                             const ckci_divisor &by_wide, int32_t images, int32_t image_pitch, int32_t first,
                             bool exists, unsigned char *to) const
    {
        int32_t first_x = (int32_t)threadIdx.x / 8, first_y = 0, down = 1;
        if (w.wide < 32) {
            down = ckci_k_divide(32, by_wide);
            first_y = ckci_k_divide(first_x, by_wide);
            first_x = first_y < down ? first_x - first_y * w.wide : w.wide;
        }
        const ckci_k_near_steps s(t);
        const unsigned char *from =
            t.p + CKCI_K_HALF * (s.at(r.n, w.z, w.y + first_y, w.x + first_x) + first);
        const int32_t below = CKCI_K_HALF * down * s.y, pitch = down * w.pitch;
        to += first_y * w.pitch + first_x * CKCI_NEAR_PITCH;
        CKCI_K_UNROLL(1)
        for (int32_t n = 0; n < images; n++) {
            const unsigned char *column = from;
            unsigned char *place = to;
            CKCI_K_UNROLL(1)
            for (int32_t x = first_x; x < w.wide; x += 32) {
                const bool good = exists && n < r.images && (uint32_t)(w.x + x) < (uint32_t)w.end_x;
                const uint32_t end = good ? (uint32_t)w.end_y : 0;
                const unsigned char *now = column;
                unsigned char *at = place;
                CKCI_K_UNROLL(4)
                for (int32_t row = first_y; row < w.high; row += down) {
                    ckci_k_copy_from(at, now, (uint32_t)(w.y + row) < end ? 16 : 0);
                    now += below;
                    at += pitch;
                }
                column += 32 * CKCI_K_HALF * s.x;
                place += 32 * CKCI_NEAR_PITCH;
            }
            from += CKCI_K_HALF * s.n;
            to += image_pitch;
        }
    }
};
#endif

/* The walk of a block over its regions: work(region, step, stage) for each, where a step is the first row of
   a chunk (NVIDIA; elsewhere 0) or, if DEEP, a plane of the filter: all of them one after the other. Others
   take `plane`. begin() comes once, while the first pixels are on their way; beside(step, stage) for each
   step, on NVIDIA when the copies of its pixels begin, elsewhere before they are multiplied. */
template <class U, int WEIGHT, int DEEP, class B, class A, class F>
CKCI_K_FN void ckci_k_near_walk(const ckci_gpu_conv &p, ckci_k_near_lds<U::ASYNC> &m, int32_t part,
                                int32_t regions, int32_t channel, int32_t dout, int32_t plane, const B &begin,
                                const A &beside, const F &work)
{
    const int32_t parts = p.as.region.parts;
    ckci_k_near_copies<U, WEIGHT> copies(p, channel, dout);
    copies.fetch(p, ckci_k_near_region(p, part), m, plane, 0, 0);
    if constexpr (U::ASYNC) {
        beside(0, 0);
        ckci_k_copies_end();
    }
    begin();
    int32_t region = part, step = 0, stage = 0;
    ckci_k_near_region now(p, region);
    CKCI_K_UNROLL(1)
    while (region < regions) {
        if constexpr (!WEIGHT) {
            now = ckci_k_near_region(p, region); /* not kept in registers, which are few there */
        }
        int32_t next = region + parts, next_step = 0;
        if constexpr (DEEP) {
            if (step + 1 < p.as.region.planes) {
                next = region;
                next_step = step + 1;
            }
        } else if constexpr (U::ASYNC) {
            if (step + p.as.region.chunk < now.rows) {
                next = region;
                next_step = step + p.as.region.chunk;
            }
        }
        const int32_t other = CKCI_NEAR_NVIDIA_BYTES - stage;
        if constexpr (!U::ASYNC) {
            copies.store(p, m);
            __syncthreads();
        }
        ckci_k_near_region upcoming(p, next);
        if (next < regions) {
            copies.fetch(p, upcoming, m, DEEP ? next_step : plane, DEEP ? 0 : next_step, other);
            if constexpr (U::ASYNC) {
                beside(next_step, other);
            }
        }
        if constexpr (U::ASYNC) {
            ckci_k_copies_end();
            ckci_k_copies_wait<1>();
            __syncthreads();
        } else {
            beside(step, 0);
        }
        work(now, step, m.stage + stage);
        now = upcoming;
        region = next;
        step = next_step;
        stage = U::ASYNC ? other : 0;
        __syncthreads();
    }
}

template <int ASYNC>
CKCI_K_FN void ckci_k_near_tables(const ckci_gpu_conv &p, const ckci_tensor &pixels,
                                  const ckci_tensor &positions, ckci_k_near_lds<ASYNC> &m)
{
    const ckci_gpu_near &q = p.as.region;
    const int64_t *s = pixels.stride, *o = positions.stride;
    CKCI_K_UNROLL(1)
    for (int32_t i = (int32_t)threadIdx.x; !ASYNC && i < q.images * q.high * q.wide; i += 256) {
        const int32_t row = ckci_k_divide(i, q.by_wide), n = ckci_k_divide(row, q.by_high);
        const int32_t y = row - n * q.high, x = i - row * q.wide;
        m.pixel[i].set(CKCI_K_HALF * (n * s[1] + y * s[4] + x * s[5]),
                       n * q.image_pitch + y * q.row_pitch + x * CKCI_NEAR_PITCH, y, x);
    }
    CKCI_K_UNROLL(1)
    for (int32_t i = (int32_t)threadIdx.x; i < q.tiles * 16; i += 256) {
        const int32_t row = ckci_k_divide(i, q.by_columns), n = ckci_k_divide(row, q.by_rows);
        const int32_t y = row - n * q.lines, x = i - row * q.columns;
        if (n < q.images) {
            m.position[i].set(n * o[1] + y * o[4] + x * o[5],
                              n * q.image_pitch + y * p.dim[1].read_step * q.row_pitch +
                                  x * p.dim[2].read_step * CKCI_NEAR_PITCH,
                              y, x);
        } else {
            m.position[i].set(0, 0, 0x3ff, 0x3ff); /* beyond every region */
        }
    }
    __syncthreads();
}

/* WMMA demands all lanes: no product may sink to where its sums are stored, by some of them only. */
template <class U> CKCI_K_FN void ckci_k_settle(typename U::sums &d)
{
#if defined(__HIP_DEVICE_COMPILE__)
    if constexpr (U::WAVE == 32) {
        asm volatile("" : "+v"(d.v));
    }
#endif
    (void)d;
}

/* Sums of one position in N neighbouring channels. */
template <int N> struct ckci_k_near_run {
    float v[N];
};

/* They go through the epilogue; apart, lest it take registers from the rest. i: of the positions of a region
   that begins at image n; z, y, x: where that is. */
template <int N>
CKCI_K_APART void ckci_k_near_finish(const ckci_gpu_conv &p, int32_t n, int32_t z, int32_t y, int32_t x,
                                     int32_t i, const ckci_k_near_spot s, int32_t channel,
                                     const ckci_k_near_run<N> sum)
{
    n += ckci_k_divide(ckci_k_divide(i, p.as.region.by_columns), p.as.region.by_rows);
    const int32_t group = ckci_k_divide(channel, p.by_columns), c = channel - group * p.columns;
    CKCI_K_UNROLL(1)
    for (int j = 0; j < N; j++) {
        float v = 0;
        CKCI_K_UNROLL(8)
        for (int e = 0; e < N; e++) {
            v = e == j ? sum.v[e] : v;
        }
        ckci_k_write<float>(p.o, v, group, n, c + j, z, y + s.y(), x + s.x());
    }
}

/* How: by tiles of any filter, by strips, by planes. */
enum { CKCI_K_NEAR_TILES, CKCI_K_NEAR_DOWN, CKCI_K_NEAR_DEEP };

template <class U, int Q, int HOW> struct ckci_k_near_gather {
    typedef ckci_k_near_lds<U::ASYNC> lds;
    typedef ckci_k_near_unit<U> unit;
    typedef typename U::operand operand;
    enum {
        WAVES = 256 / U::WAVE,
        HALVES = WAVES / 4,
        TERMS = Q / 16,
        FILL = 12, /* weights of a thread on their way together */
        DOWN = HOW == CKCI_K_NEAR_DOWN,
        DEEP = HOW == CKCI_K_NEAR_DEEP,
        /* gfx11's operands are twice as large: weights of 32 channels are read again for each region */
        HELD = !(DEEP && (U::ASYNC || sizeof(operand) > 16)) &&
               CKCI_K_NEAR_TAPS * TERMS * sizeof(operand) <= 288,
        TWO = 2,
        TILES = DEEP   ? 32 / U::SUMS /* side by side */
                : HELD ? 1
                       : CKCI_NEAR_AMD_POSITIONS / 16 / HALVES
    };
    typedef operand held[HELD ? +CKCI_K_NEAR_TAPS : 1][TERMS];
    typedef typename U::sums all_sums[DEEP ? TILES / TWO : 1][TWO];
    /* Where a lane's sums of 16 positions go, so many rows further and then row by row, and how many rows
       there are of each. */
    struct places {
        unsigned char *to[unit::PIECES];
        int32_t rows[unit::PIECES];
    };
    /* and the sums of three rows on the way down */
    struct strip {
        places out;
        typename U::sums sum[3];
    };
    typedef ckci_k_near_run<unit::RUN> run_sums;

    /* `from`: weights of `column` and its neighbours in the order [column][tap][Q], `pitch` apart. */
    static CKCI_K_MEMBER void load_weights(const ckci_gpu_conv &p, const unsigned char *from, int32_t pitch,
                                           int t, operand (&w)[TERMS])
    {
        const int32_t taps = p.as.region.taps, tap = DEEP               ? t
                                                     : t >= taps        ? 0
                                                     : p.as.region.back ? taps - 1 - t
                                                                        : t;
        CKCI_K_UNROLL(2)
        for (int i = 0; i < TERMS; i++) {
            w[i] = unit::load_weights(
                [&](int row) { return from + row * pitch + (tap * Q + i * 16) * CKCI_K_HALF; });
        }
    }

    static CKCI_K_MEMBER const unsigned char *packed(const ckci_gpu_conv &p, int32_t column)
    {
        return p.b.p + (int64_t)(column < p.as.region.channels ? column : 0) * pitch_of(p);
    }

    static CKCI_K_MEMBER int32_t pitch_of(const ckci_gpu_conv &p)
    {
        return p.as.region.planes * p.as.region.taps * (Q * CKCI_K_HALF);
    }

    /* NVIDIA: the weights of 64 columns on their way through LDS, rows 16 bytes more than 32 apart, modulo
       64. Either they lie packed, or each is fetched from where it lies in its tensor. */
    static CKCI_K_MEMBER void fill(const ckci_gpu_conv &conv, unsigned char *to, int32_t channel)
    {
        const ckci_gpu_conv &p = ckci_k_late(conv);
        const int32_t thread = (int32_t)threadIdx.x, taps = p.as.region.taps, row = taps * (Q * CKCI_K_HALF);
        const int32_t chunks = row / 16, pitch = row + 16, good = p.as.region.channels - channel;
        if (p.as.region.packed || (int32_t)p.by_one_c.d < Q) {
            CKCI_K_UNROLL(2)
            for (int32_t i = thread; i < 64 * chunks; i += 256) {
                const int32_t column = ckci_k_divide(i / (Q / 8), p.as.region.by_taps);
                ckci_k_uint4 v = {};
                if (p.as.region.packed && column < good) {
                    v = *(const ckci_k_uint4 *)(p.b.p + ((int64_t)channel * chunks + i) * 16);
                }
                *(ckci_k_uint4 *)(to + i * 16 + column * 16) = v;
            }
        }
        if (p.as.region.packed) {
            return;
        }
        __syncthreads();
        const int32_t c = (int32_t)p.by_one_c.d, all = (good < 64 ? good : 64) * c * taps;
        const int64_t *s = p.b.stride;
        const uint16_t *from = (const uint16_t *)p.b.p + ckci_k_divide(channel, p.by_one_c) * s[0];
        if (p.as.region.eights) {
            /* threads side by side have columns side by side, or neighbours of the reduction: no two of a
               wave write to a bank */
            const int32_t pieces = 64 * taps * (c / 8);
            CKCI_K_UNROLL(1)
            for (int32_t first = thread; first < pieces; first += FILL / 2 * 256) {
                ckci_k_uint4 v[FILL / 2];
                int32_t at[FILL / 2];
                CKCI_K_UNROLL(6)
                for (int j = 0; j < FILL / 2; j++) {
                    const int32_t i = first + j * 256, k = i % 64;
                    at[j] = -1;
                    if (i < pieces && k < good) {
                        v[j] = *(const ckci_k_uint4 *)(from + place(p, k, i / 64 * 8, pitch, at[j]));
                    }
                }
                CKCI_K_UNROLL(6)
                for (int j = 0; j < FILL / 2; j++) {
                    if (at[j] < 0) {
                        continue;
                    }
                    if (!p.as.region.back) {
                        *(ckci_k_uint4 *)(to + at[j]) = v[j];
                        continue;
                    }
                    const uint32_t two[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
                    CKCI_K_UNROLL(8)
                    for (int e = 0; e < 8; e++) {
                        *(uint16_t *)(to + at[j] + e * pitch) = (uint16_t)(two[e / 2] >> 16 * (e % 2));
                    }
                }
            }
            return;
        }
        CKCI_K_UNROLL(1)
        for (int32_t first = thread; first < all; first += FILL * 256) {
            uint16_t v[FILL];
            int32_t at[FILL];
            CKCI_K_UNROLL(12)
            for (int j = 0; j < FILL; j++) {
                const int32_t i = first + j * 256 < all ? first + j * 256 : first;
                const int32_t k = ckci_k_divide(ckci_k_divide(i, p.by_one_c), p.as.region.by_taps);
                v[j] = from[place(p, k, i - k * taps * c, pitch, at[j])];
            }
            CKCI_K_UNROLL(12)
            for (int j = 0; j < FILL; j++) {
                *(uint16_t *)(to + at[j]) = v[j];
            }
        }
    }

    /* Where weight i of output channel k lies, from those of the first one on; `at`: in LDS. */
    static CKCI_K_MEMBER int64_t place(const ckci_gpu_conv &p, int32_t k, int32_t i, int32_t pitch,
                                       int32_t &at)
    {
        const int32_t c = (int32_t)p.by_one_c.d, tap = ckci_k_divide(i, p.by_one_c), one = i - tap * c;
        const int32_t group = ckci_k_divide(k, p.by_one_c), y = ckci_k_divide(tap, p.as.region.by_filter_x);
        const int32_t other = group * c + one, x = tap - y * (int32_t)p.as.region.by_filter_x.d;
        const int64_t *s = p.b.stride;
        at = (p.as.region.back ? other : k) * pitch +
             (tap * Q + (p.as.region.back ? k : other) % Q) * CKCI_K_HALF;
        return group * s[0] + (k - group * c) * s[1] + one * s[2] + y * s[4] + x * s[5];
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        if constexpr (HELD || !DOWN) {
            walk(p, m);
        }
    }

    static CKCI_K_MEMBER void walk(const ckci_gpu_conv &p, lds &m)
    {
        const int32_t part = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_n);
        const int32_t channel = ((int32_t)blockIdx.x - part * p.tiles_n) * 64;
        const int32_t wave = ckci_k_same((int32_t)threadIdx.x / U::WAVE);
        const int32_t column = channel + (DEEP ? wave & ((1 << p.as.region.log_sides) - 1) : wave % 4) * 16;
        held weights;
        strip down;
        all_sums sum;
        ckci_k_near_tables(p, p.a, p.o.t, m);
        ckci_k_near_walk<U, 0, DEEP>(
            p, m, part, p.as.region.regions, channel, channel, 0,
            [&]() {
                if constexpr (HELD && !DEEP) {
                    const unsigned char *from = packed(p, column);
                    int32_t pitch = pitch_of(p);
                    if constexpr (U::ASYNC) {
                        fill(p, m.stage + lds::BYTES, channel);
                        pitch += 16;
                        from = m.stage + lds::BYTES + column % 64 * pitch;
                        __syncthreads();
                    }
                    CKCI_K_UNROLL(9)
                    for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
                        load_weights(p, from, pitch, t, weights[t]);
                    }
                    if constexpr (U::ASYNC) {
                        __syncthreads();
                    }
                }
            },
            [&](int32_t plane, int32_t at) {
                if constexpr (DEEP && U::ASYNC) {
                    copy_weights(p, m.stage + at + p.as.region.bytes, channel, plane);
                } else if constexpr (DEEP && HELD) {
                    if (p.as.region.taps == CKCI_K_NEAR_TAPS) {
                        const unsigned char *from = of_plane(p, column, plane);
                        const int32_t pitch = pitch_of(p);
                        CKCI_K_UNROLL(9)
                        for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
                            load_weights(p, from, pitch, t, weights[t]);
                        }
                    }
                }
                (void)plane, (void)at;
            },
            [&](const ckci_k_near_region &r, int32_t step, const unsigned char *stage) {
                if (ckci_k_lane_afresh(column) >= p.as.region.channels) {
                    return;
                }
                if (p.a.compute == CKCONV_BF16) {
                    multiply<ckci_k_bf16>(p, r, m, step, stage, column, weights, down, sum);
                } else {
                    multiply<ckci_k_f16>(p, r, m, step, stage, column, weights, down, sum);
                }
            });
    }

    /* NVIDIA: the weights of a plane on their way into LDS, in rows of which the unit tells. */
    static CKCI_K_MEMBER void copy_weights(const ckci_gpu_conv &p, unsigned char *to, int32_t channel,
                                           int32_t plane)
    {
        const int32_t left = p.as.region.channels - channel, columns = 16 << p.as.region.log_sides;
        const int32_t chunks = p.as.region.taps * (Q / 8), good = left < columns ? left : columns;
        const unsigned char *from = of_plane(p, channel, plane);
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x; i < good * chunks; i += 256) {
            const int32_t column = ckci_k_divide(i / (Q / 8), p.as.region.by_taps),
                          piece = i - column * chunks;
            ckci_k_copy_from(to + (i + column + column / 8 * 2) * 16,
                             from + (int64_t)column * pitch_of(p) + piece * 16, 16);
        }
    }

    static CKCI_K_MEMBER const unsigned char *of_plane(const ckci_gpu_conv &p, int32_t column, int32_t plane)
    {
        const ckci_gpu_near &q = p.as.region;
        return packed(p, column) + (q.back ? q.planes - 1 - plane : plane) * q.taps * (Q * CKCI_K_HALF);
    }

    template <class T>
    static CKCI_K_MEMBER void multiply(const ckci_gpu_conv &p, const ckci_k_near_region &r, const lds &m,
                                       int32_t row, const unsigned char *stage, int32_t column, held &weights,
                                       strip &down, all_sums &sum)
    {
        if constexpr (DEEP) {
            if constexpr (U::ASYNC) {
                if (!ckci_k_afresh(p.as.region.packed)) {
                    planes<T, 1>(p, r, m, row, stage, column, weights, sum);
                    return;
                }
            }
            planes<T, 0>(p, r, m, row, stage, column, weights, sum);
        } else if constexpr (DOWN && HELD) {
            if (p.as.region.plain) {
                strips<T, 1>(p, r, m, row, stage, column, weights, down);
            } else {
                strips<T, 0>(p, r, m, row, stage, column, weights, down);
            }
        } else if constexpr (!DOWN) {
            if (ckci_k_afresh(p.as.region.taps) == CKCI_K_NEAR_TAPS) {
                tiles<T, 1>(p, r, m, stage, column, weights);
            } else {
                tiles<T, 0>(p, r, m, stage, column, weights);
            }
        }
    }

    /* Down the rows of 16 columns of positions: what is read of a row of pixels is multiplied with all three
       rows of the filter, into the sums of three rows of positions, of which one is then complete. A chunk
       that begins at a row other than 0 goes on with the sums of the one before. On NVIDIA the next row is
       on its way from LDS meanwhile. */
    template <class T, int PLAIN>
    static CKCI_K_MEMBER void strips(const ckci_gpu_conv &p, const ckci_k_near_region &r, const lds &m,
                                     int32_t first, const unsigned char *stage, int32_t column, held &weights,
                                     strip &down)
    {
        enum { AHEAD = U::ASYNC && PLAIN };
        const ckci_gpu_near &q = p.as.region;
        const int32_t end = U::ASYNC && first + q.chunk < r.rows ? first + q.chunk : r.rows;
        stage += column % 64 / Q * (Q * CKCI_K_HALF);
        CKCI_K_UNROLL(1)
        for (int32_t tile = ckci_k_same((int32_t)threadIdx.x / U::WAVE) / 4; tile < q.tiles; tile += HALVES) {
            const unsigned char *from = stage + m.position[tile * 16 + (int32_t)threadIdx.x % 16].at();
            typename U::sums(&sum)[3] = down.sum;
            operand pixels[3][TERMS];
            if (first == 0) {
                targets(p, r, m, tile, column + unit::channel(), -2, down.out);
                CKCI_K_UNROLL(8)
                for (int e = 0; e < U::SUMS; e++) {
                    sum[0].v[e] = sum[1].v[e] = 0;
                }
            }
            if constexpr (AHEAD) {
                load_row(from, pixels);
            }
            CKCI_K_UNROLL(1)
            for (int32_t row = first ? first : -2; row < end; row++) {
                operand ahead[3][TERMS];
                if constexpr (AHEAD) {
                    from += row + 1 < end ? q.row_pitch : 0;
                    load_row(from, ahead);
                } else {
                    load_row(from, pixels);
                    from += ckci_k_lane_afresh(q.row_pitch);
                }
                CKCI_K_UNROLL(8)
                for (int e = 0; e < U::SUMS; e++) {
                    sum[2].v[e] = 0;
                }
                CKCI_K_UNROLL(3)
                for (int x = 0; x < 3; x++) {
                    CKCI_K_UNROLL(2)
                    for (int i = 0; i < TERMS; i++) {
                        CKCI_K_UNROLL(3)
                        for (int y = 0; y < 3; y++) {
                            unit::template multiply<T>(sum[2 - y], weights[3 * y + x][i], pixels[x][i]);
                        }
                        if constexpr (AHEAD) {
                            pixels[x][i] = ahead[x][i];
                        }
                    }
                }
                write<T, PLAIN>(p, r, m, tile, row, column + unit::channel(), down.out, sum[0]);
                sum[0] = sum[1];
                sum[1] = sum[2];
            }
        }
    }

    /* What 16 positions read of a row of pixels. */
    static CKCI_K_MEMBER void load_row(const unsigned char *from, operand (&pixels)[3][TERMS])
    {
        CKCI_K_UNROLL(3)
        for (int x = 0; x < 3; x++) {
            CKCI_K_UNROLL(2)
            for (int i = 0; i < TERMS; i++) {
                pixels[x][i] = U::load_rows(from + x * CKCI_NEAR_PITCH, i * 32);
            }
        }
    }

    template <class T, int ALL>
    static CKCI_K_MEMBER void tiles(const ckci_gpu_conv &p, const ckci_k_near_region &r, const lds &m,
                                    const unsigned char *stage, int32_t column, held &weights)
    {
        const ckci_gpu_near &q = p.as.region;
        stage += column % 64 / Q * (Q * CKCI_K_HALF);
        CKCI_K_UNROLL(1)
        for (int32_t tile = ckci_k_same((int32_t)threadIdx.x / U::WAVE) / 4; tile < q.tiles;
             tile += HALVES * TILES) {
            typename U::sums sum[TILES];
            const unsigned char *from[TILES];
            CKCI_K_UNROLL(4)
            for (int n = 0; n < TILES; n++) {
                const int32_t at = tile + n * HALVES;
                from[n] =
                    stage + m.position[(at < q.tiles ? at : tile) * 16 + (int32_t)threadIdx.x % 16].at();
                CKCI_K_UNROLL(8)
                for (int e = 0; e < U::SUMS; e++) {
                    sum[n].v[e] = 0;
                }
            }
            if constexpr (HELD) {
                const int32_t taps = ckci_k_afresh(q.taps);
                CKCI_K_UNROLL(9)
                for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
                    if (ALL || t < taps) {
                        one<T>(from, q.tap[t], weights[t], sum);
                    }
                }
            } else {
                CKCI_K_UNROLL(1)
                for (int t = 0; t < q.taps; t++) {
                    operand now[TERMS];
                    load_weights(p, packed(p, column), pitch_of(p), t, now);
                    one<T>(from, q.tap[t], now, sum);
                }
            }
            CKCI_K_UNROLL(4)
            for (int n = 0; n < TILES; n++) {
                if (tile + n * HALVES < q.tiles) {
                    finish_tile<T>(p, r, m, tile + n * HALVES, column + unit::channel(), sum[n]);
                }
            }
        }
    }

    /* One plane of the filter for all tiles of a wave, TWO at a time. The last one completes the sums. TURN
       (NVIDIA): rows of weights are the reduction. */
    template <class T, int TURN>
    static CKCI_K_MEMBER void planes(const ckci_gpu_conv &conv, const ckci_k_near_region &r, const lds &m,
                                     int32_t plane, const unsigned char *stage, int32_t column, held &weights,
                                     all_sums &sum)
    {
        const ckci_gpu_conv &p = ckci_k_again(conv);
        const ckci_gpu_near &q = p.as.region;
        const int32_t first = ckci_k_same((int32_t)threadIdx.x / U::WAVE) >> q.log_sides;
        const int32_t step = WAVES >> q.log_sides;
        const int32_t block = column % 64 / Q * Q; /* its first channel in the slice */
        const unsigned char *of_weights = stage;
        int32_t next_term = 0, channel = column + unit::channel();
        if constexpr (U::ASYNC) {
            const int32_t pitch = q.taps * (Q * CKCI_K_HALF) + 16, row = TURN ? block : column % 64;
            of_weights += q.bytes + row * pitch + row / 8 * 32 + unit::template weights_at<TURN>(pitch);
            of_weights += TURN ? (column % 64 - block) * CKCI_K_HALF : 0;
            next_term = TURN ? 16 * pitch + 64 : 32;
            channel = TURN ? column + unit::channel_of_four() : channel;
        }
        stage += block * CKCI_K_HALF;
        CKCI_K_UNROLL(4)
        for (int n = 0; n < TILES / TWO; n++) {
            const int32_t tile = first + n * TWO * step;
            if (tile >= q.tiles) {
                break;
            }
            const unsigned char *from[TWO];
            CKCI_K_UNROLL(2)
            for (int j = 0; j < TWO; j++) {
                const int32_t at = tile + j * step;
                from[j] = stage + m.position[(at < q.tiles ? at : 0) * 16 + (int32_t)threadIdx.x % 16].at();
                if (plane == 0) {
                    CKCI_K_UNROLL(8)
                    for (int e = 0; e < U::SUMS; e++) {
                        sum[n][j].v[e] = 0;
                    }
                }
            }
            if ((HELD || U::ASYNC) && q.taps == CKCI_K_NEAR_TAPS) {
                CKCI_K_UNROLL(9)
                for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
                    if constexpr (HELD) {
                        one<T>(from, q.tap[t], weights[t], sum[n]);
                    } else {
                        one_from<T, TURN>(p, from, t, of_weights, next_term, column, plane, sum[n]);
                    }
                }
            } else {
                CKCI_K_UNROLL(1)
                for (int t = 0; t < q.taps; t++) {
                    one_from<T, TURN>(p, from, t, of_weights, next_term, column, plane, sum[n]);
                }
            }
        }
        if (plane + 1 < q.planes) {
            return;
        }
        /* the code that stores stands once: it takes the first sums, and the others move up */
        CKCI_K_UNROLL(1)
        for (int n = 0; n < TILES && first + n * step < q.tiles; n++) {
            if constexpr (TURN) {
                unit::own_four(sum[0][0]);
            }
            finish_tile<T>(ckci_k_again(conv), r, m, first + n * step, channel, sum[0][0]);
            CKCI_K_UNROLL(8)
            for (int i = 1; i < TILES; i++) {
                sum[(i - 1) / TWO][(i - 1) % TWO] = sum[i / TWO][i % TWO];
            }
        }
    }

    /* A tap whose weights are not held: from LDS (NVIDIA) or memory. */
    template <class T, int TURN>
    static CKCI_K_MEMBER void one_from(const ckci_gpu_conv &p, const unsigned char *const (&from)[TWO], int t,
                                       const unsigned char *of_weights, int32_t next_term, int32_t column,
                                       int32_t plane, typename U::sums (&sum)[TWO])
    {
        operand now[TERMS];
        if constexpr (U::ASYNC) {
            CKCI_K_UNROLL(2)
            for (int i = 0; i < TERMS; i++) {
                now[i] =
                    unit::template load_weights_at<TURN>(of_weights + t * (Q * CKCI_K_HALF) + i * next_term);
            }
        } else {
            load_weights(p, of_plane(p, column, plane), pitch_of(p), t, now);
        }
        one<T>(from, p.as.region.tap[t], now, sum);
    }

    template <class T>
    static CKCI_K_MEMBER void finish_tile(const ckci_gpu_conv &p, const ckci_k_near_region &r, const lds &m,
                                          int32_t tile, int32_t channel, typename U::sums &sum)
    {
        places out;
        targets(p, r, m, tile, channel, 0, out);
        if (p.as.region.plain) {
            write<T, 1>(p, r, m, tile, 0, channel, out, sum);
        } else {
            write<T, 0>(p, r, m, tile, 0, channel, out, sum);
        }
    }

    /* a tap */
    template <class T, int N>
    static CKCI_K_MEMBER void one(const unsigned char *const (&from)[N], int32_t tap,
                                  const operand (&weights)[TERMS], typename U::sums (&sum)[N])
    {
        CKCI_K_UNROLL(4)
        for (int n = 0; n < N; n++) {
            CKCI_K_UNROLL(2)
            for (int i = 0; i < TERMS; i++) {
                unit::template multiply<T>(sum[n], weights[i], U::load_rows(from[n] + tap, i * 32));
            }
        }
    }

    static CKCI_K_MEMBER void targets(const ckci_gpu_conv &conv, const ckci_k_near_region &r, const lds &m,
                                      int32_t tile, int32_t channel, int32_t row, places &out)
    {
        const ckci_gpu_conv &p = ckci_k_late(conv);
        const ckci_tensor &t = p.o.t;
        unsigned char *first =
            t.p + (ckci_k_near_steps(t).at(r.n, r.z, r.y + row, r.x) + channel) * CKCI_K_HALF;
        CKCI_K_UNROLL(2)
        for (int piece = 0; piece < unit::PIECES; piece++) {
            const int32_t i = tile * 16 + unit::position(piece);
            const ckci_k_near_spot s = m.position[i];
            out.rows[piece] = r.holds(p.as.region, i, s) ? r.rows : 0;
            out.to[piece] = first + (int64_t)s.offset * CKCI_K_HALF;
        }
    }

    /* The sums of such a row (before the first one: of none): straight to memory or each through the
       epilogue. */
    template <class T, int PLAIN>
    static CKCI_K_MEMBER void write(const ckci_gpu_conv &conv, const ckci_k_near_region &r, const lds &m,
                                    int32_t tile, int32_t row, int32_t channel, places &out,
                                    typename U::sums &sum)
    {
        const ckci_gpu_conv &p = ckci_k_late(conv);
        ckci_k_settle<U>(sum);
        CKCI_K_UNROLL(2)
        for (int piece = 0; piece < unit::PIECES; piece++) {
            run_sums own;
            CKCI_K_UNROLL(8)
            for (int j = 0; j < unit::RUN; j++) {
                own.v[j] = sum.v[unit::sum(piece, j)];
            }
            const bool good = (uint32_t)row < (uint32_t)out.rows[piece];
            if constexpr (PLAIN) {
                if (good) {
                    store<T>(out.to[piece], own);
                }
                out.to[piece] += CKCI_K_HALF * ckci_k_near_steps(p.o.t).y;
            } else if (good) {
                const int32_t i = tile * 16 + unit::position(piece);
                ckci_k_near_finish(p, r.n, r.z, r.y + row, r.x, i, m.position[i], channel, own);
            }
        }
    }

    template <class T> static CKCI_K_MEMBER void store(unsigned char *to, const run_sums &sum)
    {
        uint32_t v[unit::RUN / 2];
        CKCI_K_UNROLL(4)
        for (int j = 0; j < unit::RUN / 2; j++) {
            v[j] = ckci_k_two(T::TYPE, ckci_k_bits(sum.v[2 * j]), ckci_k_bits(sum.v[2 * j + 1]));
        }
        if constexpr (unit::RUN == 4) {
            const ckci_k_uint2 two = {v[0], v[1]};
            *(ckci_k_uint2 *)to = two;
        } else {
            const ckci_k_uint4 four = {v[0], v[1], v[2], v[3]};
            *(ckci_k_uint4 *)to = four;
        }
    }
};

template <class U, int Q> struct ckci_k_near : ckci_k_near_gather<U, Q, CKCI_K_NEAR_TILES> {
};
template <class U, int Q> struct ckci_k_near_down : ckci_k_near_gather<U, Q, CKCI_K_NEAR_DOWN> {
};
template <class U, int Q> struct ckci_k_near_deep : ckci_k_near_gather<U, Q, CKCI_K_NEAR_DEEP> {
};

template <class U, int Q> struct ckci_k_near_weight {
    typedef ckci_k_near_lds<U::ASYNC> lds;
    typedef ckci_k_near_unit<U> unit;
    typedef typename U::operand operand;
    enum {
        WAVES = 256 / U::WAVE,
        TASKS = Q / 16 * 4, /* blocks of 16 x 16 weights */
        HALVES = WAVES > TASKS ? WAVES / TASKS : 1,
        EACH = TASKS > WAVES ? TASKS / WAVES : 1,
        ZEROS = lds::BYTES - 128 /* what positions beyond a region read, lest dout's 0 meet an infinity */
    };
    typedef typename U::sums block[CKCI_K_NEAR_TAPS][EACH];

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        const int32_t slice = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_n);
        const int32_t first = ((int32_t)blockIdx.x - slice * p.tiles_n) * 64;
        const int32_t part = ckci_k_divide(slice, p.as.region.by_planes);
        const int32_t plane = slice - part * p.as.region.planes;
        const int32_t task = ckci_k_same((int32_t)threadIdx.x / U::WAVE) * EACH % TASKS;
        /* the first channel of both slices; from there on, this wave's 16 output and 16 input channels */
        const int32_t less_in = p.as.region.less_in, less_out = p.as.region.less_out;
        const int32_t channel = first >> less_out & ~63, channel_in = first >> less_in & ~63;
        const int32_t own = first + task / (Q / 16) * 16;
        const int32_t row = (own >> less_out & ~15) - channel;
        const int32_t column =
            Q == 16 ? (own >> less_in & ~15) - channel_in : row / Q * Q + task % (Q / 16) * 16;
        ckci_k_near_tables(p, p.b, p.a, m);
        int32_t from = part;
        CKCI_K_UNROLL(1)
        for (;;) { /* see ckci_k_matrix_weight_pieces; AMD's loop would take registers of a second block */
            const int32_t left = p.as.region.regions - from, some = p.chain * p.as.region.parts;
            const int32_t end = from + (U::ASYNC && p.chain && some < left ? some : left);
            block sum;
            clear(p, m, sum);
            ckci_k_near_walk<U, 1, 0>(
                p, m, from, end, channel_in, channel, plane, []() {}, [](int32_t, int32_t) {},
                [&](const ckci_k_near_region &r, int32_t, const unsigned char *stage) {
                    if (p.a.compute == CKCONV_BF16) {
                        multiply<ckci_k_bf16>(p, r, m, stage, channel, row, column, sum);
                    } else {
                        multiply<ckci_k_f16>(p, r, m, stage, channel, row, column, sum);
                    }
                });
            finish(ckci_k_late(p), m, channel + row, channel_in + column, U::ASYNC && from != part, sum);
            from = end;
            if (!U::ASYNC || from >= p.as.region.regions) {
                return;
            }
        }
    }

    static CKCI_K_MEMBER void clear(const ckci_gpu_conv &p, lds &m, block &sum)
    {
        CKCI_K_UNROLL(9)
        for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
            CKCI_K_UNROLL(2)
            for (int j = 0; j < EACH; j++) {
                CKCI_K_UNROLL(8)
                for (int e = 0; e < U::SUMS; e++) {
                    sum[t][j].v[e] = 0;
                }
            }
        }
        if (threadIdx.x < 32 * lds::STAGES) {
            const int32_t thread = (int32_t)threadIdx.x;
            unsigned char *stage = m.stage + thread / 32 * lds::BYTES + thread % 32 * 4;
            *(uint32_t *)(stage + ZEROS) = 0;
            /* and dout's places after the last one in use */
            const ckci_gpu_near &q = p.as.region;
            CKCI_K_UNROLL(1)
            for (int32_t i = q.images * q.rows * q.columns; i < q.tiles * 16; i++) {
                *(uint32_t *)(stage + q.bytes + i * CKCI_NEAR_PITCH) = 0;
            }
        }
    }

    template <class T>
    static CKCI_K_MEMBER void multiply(const ckci_gpu_conv &p, const ckci_k_near_region &r, const lds &m,
                                       const unsigned char *stage, int32_t first, int32_t row, int32_t column,
                                       block &sum)
    {
        const ckci_gpu_near &q = p.as.region;
        if (ckci_k_afresh(q.channels) <= first + row) {
            return; /* a slice that has fewer channels */
        }
        const bool whole = r.images == q.images && r.rows == q.rows && r.columns == q.columns;
        CKCI_K_UNROLL(1)
        for (int32_t tile = ckci_k_same((int32_t)threadIdx.x / U::WAVE) * EACH / TASKS; tile < q.tiles;
             tile += HALVES) {
            int32_t at[unit::TURNED], mask[unit::TURNED];
            CKCI_K_UNROLL(16)
            for (int i = 0; i < unit::TURNED; i++) {
                const int32_t position = tile * 16 + unit::turned_second(i);
                const ckci_k_near_spot s = m.position[position];
                const bool good = r.holds(q, position, s);
                at[i] = good ? s.at() + column * CKCI_K_HALF : +ZEROS;
                mask[i] = good ? -1 : 0;
            }
            const operand a = unit::load_turned([&](int i) {
                return stage + q.bytes + (tile * 16 + unit::turned(i)) * CKCI_NEAR_PITCH + row * CKCI_K_HALF;
            });
            if (U::ASYNC && whole && tile * 16 + 16 <= q.images * q.rows * q.columns) {
                products<T, 0>(q, stage, at, mask, a, sum);
            } else {
                products<T, 1>(q, stage, at, mask, a, sum);
            }
        }
    }

    /* 16 positions with all taps. HOLES: some of them are none. */
    template <class T, int HOLES>
    static CKCI_K_MEMBER void products(const ckci_gpu_near &q, const unsigned char *stage,
                                       const int32_t (&at)[unit::TURNED], const int32_t (&mask)[unit::TURNED],
                                       const operand &a, block &sum)
    {
        CKCI_K_UNROLL(9)
        for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
            CKCI_K_UNROLL(2)
            for (int j = 0; j < EACH; j++) {
                const int32_t more = q.tap[t] + 16 * j * CKCI_K_HALF;
                unit::template multiply_turned<T>(sum[t][j], a, unit::load_turned_second([&](int i) {
                                                      return stage + at[i] + (HOLES ? more & mask[i] : more);
                                                  }));
            }
        }
    }

    /* more: to what the part holds */
    static CKCI_K_MEMBER void finish(const ckci_gpu_conv &p, lds &m, int32_t row, int32_t column, bool more,
                                     block &sum)
    {
        const int32_t slice = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_n);
        const int32_t part = ckci_k_divide(slice, p.as.region.by_planes);
        const int32_t plane = slice - part * p.as.region.planes;
        const int wave = (int)threadIdx.x / U::WAVE;
        if constexpr (HALVES == 2) {
            float *shared = (float *)m.stage + (int)threadIdx.x % 128;
            CKCI_K_UNROLL(3)
            for (int first = 0; first < CKCI_K_NEAR_TAPS; first += 3) {
                if (wave >= TASKS) {
                    exchange<0>(shared, first, sum);
                }
                __syncthreads();
                if (wave < TASKS) {
                    exchange<1>(shared, first, sum);
                }
                __syncthreads();
            }
        }
        if (HALVES == 2 && wave >= TASKS) {
            return;
        }
        const int32_t c = (int32_t)p.by_one_c.d, taps = p.as.region.taps, all = p.as.region.planes * taps;
        float *to = (float *)p.o.partial + ((int64_t)part * p.as.region.channels * all + plane * taps) * c;
        CKCI_K_UNROLL(2)
        for (int j = 0; j < EACH; j++) {
            CKCI_K_UNROLL(8)
            for (int e = 0; e < U::SUMS; e += unit::ACROSS) {
                const int32_t y = row + U::row(e), x = column + 16 * j + U::column(e);
                const int32_t group = ckci_k_divide(y, p.by_one_k), from = x - group * c;
                const bool second = unit::ACROSS == 2 && c == 1 && from == -1; /* of two neighbours */
                if (y >= p.as.region.channels || (uint32_t)(second ? 0 : from) >= (uint32_t)c) {
                    continue;
                }
                float *filter = to + (int64_t)y * all * c + (second ? 0 : from);
                float before[2][CKCI_K_NEAR_TAPS] = {};
                CKCI_K_UNROLL(9)
                for (int t = 0; t < CKCI_K_NEAR_TAPS && more; t++) {
                    if (t < taps) {
                        before[0][t] = filter[t * c];
                        before[1][t] = unit::ACROSS == 2 && c > 1 ? filter[t * c + 1] : before[0][t];
                    }
                }
                CKCI_K_UNROLL(9)
                for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
                    if (t >= taps) {
                        continue;
                    }
                    const float one = before[0][t] + sum[t][j].v[e],
                                next = before[1][t] + sum[t][j].v[e + unit::ACROSS - 1];
                    if (unit::ACROSS == 2 && c > 1) {
                        const ckci_k_uint2 two = {ckci_k_bits(one), ckci_k_bits(next)};
                        *(ckci_k_uint2 *)(filter + t * c) = two;
                    } else {
                        filter[t * c] = second ? next : one;
                    }
                }
            }
        }
    }

    /* Three taps' sums of the second waves into LDS; from there, added to those of the first. */
    template <int ADD> static CKCI_K_MEMBER void exchange(float *shared, int first, block &sum)
    {
        CKCI_K_UNROLL(3)
        for (int t = 0; t < 3; t++) {
            CKCI_K_UNROLL(8)
            for (int e = 0; e < U::SUMS; e++) {
                float *at = shared + (t * U::SUMS + e) * 128;
                if (ADD) {
                    sum[first + t][0].v[e] += *at;
                } else {
                    *at = sum[first + t][0].v[e];
                }
            }
        }
    }
};

/* ---- The kernels, with the unit U of the target; elsewhere than ON they are empty, and no plan takes them.
   F: the tile loop, of fragments or of groups of waves. unit: U itself, or what computes i8 or f32 on it. */
enum {
    CKCI_K_ON_CDNA = 1,
    CKCI_K_ON_RDNA = 2,
    CKCI_K_ON_NVIDIA = 4,
    CKCI_K_ON_ALL = 7,
    CKCI_K_ON_SINGLE = CKCI_K_ON_CDNA | CKCI_K_ON_NVIDIA,
#if CKCI_K_UNIT == CKCI_K_UNIT_CDNA1
    CKCI_K_ON_DOUBLE = CKCI_K_ON_NVIDIA
#else
    CKCI_K_ON_DOUBLE = CKCI_K_ON_CDNA | CKCI_K_ON_NVIDIA
#endif
};

struct ckci_k_matrix_halves {
    enum { ON = CKCI_K_ON_ALL };
    template <class U> using unit = U;
};

template <int BM, int BN> struct ckci_k_matrix_gather : ckci_k_matrix_halves {
    enum { GROUPS = BM >= 128 && BN >= 64, ACROSS = 0, WEIGHT = 0 };

    template <class U, class F, class L> static CKCI_K_MEMBER void with(const ckci_gpu_conv &p, L &m)
    {
        ckci_k_matrix_gather_run<F, ckci_k_gather_chunks<U, BM, BN, 0>, BM, BN>(p, m);
    }
};

/* The same in other types: on Unit<U>, where ON says. */
template <template <class> class Unit, int WHERE, int BM, int BN> struct ckci_k_matrix_gather_by {
    enum { GROUPS = 0, ACROSS = 0, WEIGHT = 0, ON = WHERE };
    template <class U> using unit = Unit<U>;

    template <class U, class F, class L> static CKCI_K_MEMBER void with(const ckci_gpu_conv &p, L &m)
    {
        ckci_k_matrix_gather_run<F, ckci_k_gather_chunks<U, BM, BN, 0>, BM, BN>(p, m);
    }
};

template <int BM, int BN>
struct ckci_k_matrix_whole : ckci_k_matrix_gather_by<ckci_k_whole, CKCI_K_ON_ALL, BM, BN> {
};

template <int BM, int BN>
struct ckci_k_matrix_single : ckci_k_matrix_gather_by<ckci_k_single, CKCI_K_ON_SINGLE, BM, BN> {
};

template <int BM, int BN>
struct ckci_k_matrix_double : ckci_k_matrix_gather_by<ckci_k_double, CKCI_K_ON_DOUBLE, BM, BN> {
};

/* bwd_data that reads weights as they are, rows of output channels: places of the reduction. */
template <int BM, int BN> struct ckci_k_matrix_back : ckci_k_matrix_halves {
    enum { GROUPS = BM >= 128 && BN >= 64, ACROSS = 2, WEIGHT = 0 };

    template <class U, class F, class L> static CKCI_K_MEMBER void with(const ckci_gpu_conv &p, L &m)
    {
        ckci_k_matrix_gather_run<F, ckci_k_gather_chunks<U, BM, BN, 1>, BM, BN>(p, m);
    }
};

template <class U, int BM, int BN, int ASYNC> struct ckci_k_weight_loader {
    typedef ckci_k_weight_chunks<U, BM, BN> type;
};
#if defined(CKCI_K_MMA)
template <class U, int BM, int BN> struct ckci_k_weight_loader<U, BM, BN, 1> {
    typedef ckci_k_weight_slabs<BM, BN> type;
};
#endif

template <int BM, int BN> struct ckci_k_matrix_weight : ckci_k_matrix_halves {
    enum { GROUPS = BM >= 64 && BN >= 128, ACROSS = BM > 128 ? 3 : 1, WEIGHT = 1 };

    template <class U, class F, class L> static CKCI_K_MEMBER void with(const ckci_gpu_conv &p, L &m)
    {
        typedef typename ckci_k_weight_loader<U, BM, BN, U::ASYNC>::type loader;
        ckci_k_matrix_weight_run<F, loader, BM, BN>(p, m);
    }
};

/* The same in other types, as ckci_k_matrix_gather_by. */
template <template <class> class Unit, int WHERE, int BM, int BN> struct ckci_k_matrix_weight_by {
    enum { GROUPS = 0, ACROSS = 0, WEIGHT = 1, ON = WHERE };
    template <class U> using unit = Unit<U>;

    template <class U, class F, class L> static CKCI_K_MEMBER void with(const ckci_gpu_conv &p, L &m)
    {
        ckci_k_matrix_weight_run<F, ckci_k_weight_chunks<U, BM, BN>, BM, BN>(p, m);
    }
};

template <int BM, int BN>
struct ckci_k_matrix_single_weight : ckci_k_matrix_weight_by<ckci_k_single_late, CKCI_K_ON_SINGLE, BM, BN> {
};

template <int BM, int BN>
struct ckci_k_matrix_double_weight : ckci_k_matrix_weight_by<ckci_k_double, CKCI_K_ON_DOUBLE, BM, BN> {
};

template <template <int, int> class Body, int BM, int BN> struct ckci_k_matrix {
    typedef Body<BM, BN> body;
    template <class U> using unit_of = typename body::template unit<U>;
    enum {
        WIDEST = BM * BN == 256 * 256,
        LARGE = BM > 128 || BN > 128 || body::ACROSS == 2,
        ACROSS = body::ACROSS == 3 ? 1 : +body::ACROSS, /* of fragments */
        ON = WIDEST  ? +CKCI_K_ON_CDNA
             : LARGE ? +CKCI_K_ON_NVIDIA
                     : +body::ON
    };

#if defined(CKCI_SIMULATOR)
    struct lds {
    };

    template <class U, class F> static void with(const ckci_gpu_conv &p)
    {
        typedef typename ckci_k_matrix_room<F::BYTES, BM, body::WEIGHT * U::KB / U::SIZE,
                                            body::GROUPS && !body::WEIGHT>::type bytes;
        CKCI_K_LDS(bytes, m);
        body::template with<U, F>(p, m);
    }

    template <class Base, int LIE> static void fragments(const ckci_gpu_conv &p)
    {
        typedef unit_of<Base> unit;
        with<unit, ckci_k_fragments<unit, BM, BN, LIE>>(p);
    }

    static void run(const ckci_gpu_conv &p, lds &)
    {
        int kind = sim_matrix_unit();
        if constexpr ((ON & CKCI_K_ON_CDNA) != 0) {
            if (kind == SIM_MFMA) {
                fragments<ckci_k_mfma, 0>(p);
            }
        }
        if constexpr ((ON & CKCI_K_ON_RDNA) != 0) {
            if (kind == SIM_WMMA) {
                fragments<ckci_k_wmma<11>, 0>(p);
            } else if (kind == SIM_WMMA12) {
                fragments<ckci_k_wmma<12>, 0>(p);
            }
        }
        if constexpr ((ON & CKCI_K_ON_NVIDIA) != 0) {
            with_groups(p, kind);
        }
    }

    static void with_groups(const ckci_gpu_conv &p, int kind)
    {
        if constexpr (body::GROUPS) {
            if (kind == SIM_WGMMA) {
                with<ckci_k_mma, ckci_k_groups<BM, BN, body::ACROSS>>(p);
                return;
            }
        }
        if (kind == SIM_MMA || kind == SIM_WGMMA) {
            fragments<ckci_k_mma, ACROSS>(p);
        }
    }
#elif defined(CKCI_K_MFMA) || defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12)
#if defined(CKCI_K_MFMA)
    typedef unit_of<ckci_k_mfma> unit;
#if CKCI_K_QUIRK == CKCI_K_QUIRK_NO_256
    enum { EMPTY = (ON & CKCI_K_ON_CDNA) == 0 || WIDEST };
#else
    enum { EMPTY = (ON & CKCI_K_ON_CDNA) == 0 };
#endif
#elif defined(CKCI_K_WMMA)
    typedef unit_of<ckci_k_wmma<11>> unit;
    enum { EMPTY = (ON & CKCI_K_ON_RDNA) == 0 };
#else
    typedef unit_of<ckci_k_wmma<12>> unit;
    enum { EMPTY = (ON & CKCI_K_ON_RDNA) == 0 };
#endif
    typedef ckci_k_fragments<unit, EMPTY ? 64 : BM, EMPTY ? 64 : BN, 0> tile;
    typedef ckci_k_matrix_lds<EMPTY ? 16 : +tile::BYTES, EMPTY || body::ACROSS != 0 ? 1 : BM,
                              body::WEIGHT * unit::KB / unit::SIZE>
        lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        if constexpr (!EMPTY) {
            body::template with<unit, tile>(p, m);
        } else {
            (void)p;
            (void)m;
        }
    }
#elif defined(CKCI_K_MMA)
    /* as much LDS for groups of waves and for fragments: the host does not know for which it was compiled */
    typedef unit_of<ckci_k_mma> unit;
    enum { EMPTY = (ON & CKCI_K_ON_NVIDIA) == 0 };
    typedef ckci_k_fragments<unit, EMPTY ? 64 : BM, EMPTY ? 64 : BN, ACROSS> fragments;
    enum {
        STRIPS = EMPTY ? 0 : BM * (BN + 4) * 4,
        TILES = body::GROUPS ? CKCI_GROUP_STAGES(BM + BN) * (BM + BN) * 128 : 0,
        LEAST = TILES > fragments::BYTES ? +TILES : +fragments::BYTES,
        BYTES = body::GROUPS && STRIPS > LEAST ? +STRIPS : +LEAST
    };
    typedef typename ckci_k_matrix_room<BYTES, BM, body::WEIGHT * unit::KB / unit::SIZE,
                                        body::GROUPS && !body::WEIGHT>::type lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        if constexpr (EMPTY) {
            (void)p;
            (void)m;
            return;
        }
#if defined(CKCI_K_WGMMA)
        else if constexpr (body::GROUPS) {
            body::template with<ckci_k_mma, ckci_k_groups<BM, BN, body::ACROSS>>(p, m);
            return;
        }
#endif
        else {
            body::template with<unit, fragments>(p, m);
        }
    }
#else
    struct lds {
        int32_t unused;
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &, lds &)
    {
    }
#endif
};

#if defined(CKCI_K_WGMMA) && !defined(CKCI_SIMULATOR)
template <> struct ckci_k_resident<ckci_k_matrix<ckci_k_matrix_gather, 128, 128>> {
    enum { BLOCKS = 2 };
};
template <> struct ckci_k_resident<ckci_k_matrix<ckci_k_matrix_back, 128, 128>> {
    enum { BLOCKS = 2 };
};
template <> struct ckci_k_resident<ckci_k_matrix<ckci_k_matrix_single, 128, 128>> {
    enum { BLOCKS = 2 };
};
template <> struct ckci_k_resident<ckci_k_matrix<ckci_k_matrix_weight, 64, 192>> {
    enum { BLOCKS = 2 };
};
template <> struct ckci_k_resident<ckci_k_matrix<ckci_k_matrix_weight, 64, 64>> {
    enum { BLOCKS = 3 };
};
template <> struct ckci_k_resident<ckci_k_matrix<ckci_k_matrix_single_weight, 64, 64>> {
    enum { BLOCKS = 3 };
};
#endif

/* Body: ckci_k_near, ckci_k_near_down or ckci_k_near_weight. */
template <template <class, int> class Body, int Q> struct ckci_k_matrix_near {
#if defined(CKCI_SIMULATOR)
    typedef ckci_k_by_unit<Body<ckci_k_mfma16, Q>, Body<ckci_k_wmma<11>, Q>, Body<ckci_k_wmma<12>, Q>,
                           Body<ckci_k_mma, Q>>
        body;
#elif defined(CKCI_K_MFMA)
    typedef Body<ckci_k_mfma16, Q> body;
#elif defined(CKCI_K_WMMA)
    typedef Body<ckci_k_wmma<11>, Q> body;
#elif defined(CKCI_K_WMMA12)
    typedef Body<ckci_k_wmma<12>, Q> body;
#elif defined(CKCI_K_MMA)
    typedef Body<ckci_k_mma, Q> body;
#else
    typedef ckci_k_nothing body;
#endif
    typedef typename body::lds lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        body::run(p, m);
    }
};

/* Weights of 32 channels take the registers of two blocks. */
template <template <class, int> class Body, int Q> struct ckci_k_resident<ckci_k_matrix_near<Body, Q>> {
    enum { BLOCKS = 2 };
};
template <> struct ckci_k_resident<ckci_k_matrix_near<ckci_k_near, 32>> {
    enum { BLOCKS = 1 };
};
template <> struct ckci_k_resident<ckci_k_matrix_near<ckci_k_near_down, 32>> {
    enum { BLOCKS = 1 };
};

/* ---- First layers: few channels (C), 16-bit types, channels last, in one or two dimensions. The general
   tiles pad C to eight and read memory once for each tap; here the pixels that a tile of positions reads lie
   in LDS as memory holds them. Blocks stay: each packs the weights once and then takes tiles of positions
   (items) p.blocks apart. Of a unit these kernels ask, besides its products:
       words     the operand whose row r, pair i of the reduction is f(h, i'): a lane holds HOLDS rows,
                 held(h), and PAIRS pairs of each, pair(i')
       channel   which of 64 channels stands in row (column) i of tile t of the weights, such that a lane has
                 eight neighbouring ones in its sums: chunk u of row held(h), of CHUNKS, from
                 chunk_channel(u) on
       product   sums of which a lane holds channels of one position (`across`: rows are positions) */
#if defined(CKCI_K_MFMA)
struct ckci_k_stem_mfma : ckci_k_mfma16 {
    enum { HOLDS = 1, PAIRS = 2, CHUNKS = 2 };

    static CKCI_K_MEMBER int held(int)
    {
        return (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER int pair(int i)
    {
        return (int)threadIdx.x % WAVE / 16 * 2 + i;
    }

    template <class F> static CKCI_K_MEMBER operand words(F f)
    {
        const operand r = {f(0, 0), f(0, 1)};
        return r;
    }

    static CKCI_K_MEMBER int channel(int t, int row)
    {
        return t / 2 * 32 + row / 4 * 8 + t % 2 * 4 + row % 4;
    }

    static CKCI_K_MEMBER int chunk_channel(int u)
    {
        return u * 32 + (int)threadIdx.x % WAVE / 16 * 8;
    }

    static CKCI_K_MEMBER float chunk(const sums (&s)[4], int u, int, int i)
    {
        return s[2 * u + i / 4].v[i % 4];
    }

    /* The operand of the weights, of this lane's row wei_row() from `at` on. */
    static CKCI_K_MEMBER int wei_row()
    {
        return (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER operand wei(const unsigned char *at)
    {
        return load_rows(at, 0);
    }

    template <class T> static CKCI_K_MEMBER void product(sums &d, const operand &pixels, const operand &wei)
    {
        multiply<T>(d, wei, pixels);
    }

    template <class T> static CKCI_K_MEMBER void across(sums &d, const operand &pixels, const operand &wei)
    {
        multiply<T>(d, pixels, wei);
    }
};
#endif

#if defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12)
template <int GFX> struct ckci_k_stem_wmma : ckci_k_wmma<GFX> {
    enum { HOLDS = 1, PAIRS = GFX == 11 ? 8 : 4, CHUNKS = 4 };
    typedef ckci_k_wmma<GFX> base;
    typedef typename base::operand operand;
    typedef typename base::sums sums;

    static CKCI_K_MEMBER int half()
    {
        return (int)threadIdx.x % 32 / 16;
    }

    static CKCI_K_MEMBER int held(int)
    {
        return (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER int pair(int i)
    {
        return GFX == 11 ? i : half() * 4 + i;
    }

    template <class F> static CKCI_K_MEMBER operand words(F f)
    {
        operand r;
        CKCI_K_UNROLL(2)
        for (int i = 0; i < PAIRS / 4; i++) {
            const ckci_k_uint4 v = {f(0, 4 * i), f(0, 4 * i + 1), f(0, 4 * i + 2), f(0, 4 * i + 3)};
            r.v[i] = v;
        }
        return r;
    }

    static CKCI_K_MEMBER int channel(int t, int row)
    {
        return GFX == 11 ? t * 16 + row % 2 * 8 + row / 2 : t * 16 + row;
    }

    static CKCI_K_MEMBER int chunk_channel(int u)
    {
        return u * 16 + half() * 8;
    }

    static CKCI_K_MEMBER float chunk(const sums (&s)[4], int u, int, int i)
    {
        return s[u].v[i];
    }

    /* The operand of the weights, of this lane's row wei_row() from `at` on. */
    static CKCI_K_MEMBER int wei_row()
    {
        return (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER operand wei(const unsigned char *at)
    {
        return base::load_rows(at, 0);
    }

    template <class T> static CKCI_K_MEMBER void product(sums &d, const operand &pixels, const operand &wei)
    {
        base::template multiply<T>(d, wei, pixels);
    }

    template <class T> static CKCI_K_MEMBER void across(sums &d, const operand &pixels, const operand &wei)
    {
        base::template multiply<T>(d, pixels, wei);
    }
};
#endif

#if defined(CKCI_K_MMA)
struct ckci_k_stem_mma : ckci_k_mma {
    enum { HOLDS = 2, PAIRS = 2, CHUNKS = 2 };

    static CKCI_K_MEMBER int held(int h)
    {
        return (int)threadIdx.x % WAVE / 4 + 8 * h;
    }

    static CKCI_K_MEMBER int pair(int i)
    {
        return (int)threadIdx.x % 4 + 4 * i;
    }

    template <class F> static CKCI_K_MEMBER operand words(F f)
    {
        const operand r = {f(0, 0), f(1, 0), f(0, 1), f(1, 1)};
        return r;
    }

    static CKCI_K_MEMBER int channel(int t, int column)
    {
        return t / 2 * 32 + column % 8 / 2 * 8 + t % 2 * 4 + column / 8 * 2 + column % 2;
    }

    static CKCI_K_MEMBER int chunk_channel(int u)
    {
        return u * 32 + (int)threadIdx.x % 4 * 8;
    }

    static CKCI_K_MEMBER float chunk(const sums (&s)[4], int u, int h, int i)
    {
        return s[2 * u + i / 4].v[i % 4 / 2 * 4 + h * 2 + i % 2];
    }

    /* x, y: columns 0 to 7, neighbouring registers as the product takes them; z, w: the others */
    static CKCI_K_MEMBER int wei_row()
    {
        return (int)threadIdx.x % 8 + (int)threadIdx.x % WAVE / 16 * 8;
    }

    static CKCI_K_MEMBER operand wei(const unsigned char *at)
    {
        return load_rows(at + ((int)threadIdx.x / 8 % 2 - (int)threadIdx.x % WAVE / 16) * 16, 0);
    }

    template <class T> static CKCI_K_MEMBER void product(sums &d, const operand &pixels, const operand &wei)
    {
        half<T>(d.v, pixels, wei.x, wei.y);
        half<T>(d.v + 4, pixels, wei.z, wei.w);
    }

    template <class T> static CKCI_K_MEMBER void across(sums &d, const operand &pixels, const operand &wei)
    {
        product<T>(d, pixels, wei);
    }
};
#endif

/* A tile of positions: its image, its first position. */
struct ckci_k_stem_item {
    int32_t n, y, x;

    CKCI_K_MEMBER ckci_k_stem_item(const ckci_gpu_stem &p, int32_t item)
    {
        int32_t up = ckci_k_divide(item, p.by_tiles_x);
        x = (item - up * p.tiles[1]) * p.tile[1];
        n = ckci_k_divide(up, p.by_tiles_y);
        y = (up - n * p.tiles[0]) * p.tile[0];
    }
};

/* 16 bytes into LDS, or zeros; complete after ckci_k_stem_wait and a barrier. */
CKCI_K_FN void ckci_k_stem_copy(unsigned char *to, const ckci_k_window &w, int32_t offset, bool good)
{
#if defined(CKCI_K_MMA)
    ckci_k_copy(to, w, good ? offset : 0, good ? 16 : 0);
#else
    *(ckci_k_uint4 *)to = ckci_k_window_load(w, good ? offset : INT32_MIN);
#endif
}

/* All copies but the last COUNT batches are complete. */
template <int COUNT> CKCI_K_FN void ckci_k_stem_wait()
{
#if defined(CKCI_K_MMA)
    ckci_k_copies_wait<COUNT>();
#endif
}

CKCI_K_FN void ckci_k_stem_close()
{
#if defined(CKCI_K_MMA)
    ckci_k_copies_end();
#endif
}

/* fwd. Rows of pixels lie in LDS as in memory, from p.left numbers before the tile's first pixel on, zeros
   where they are padding: the taps of a filter's row are neighbours there (filter * C numbers) and begin at
   an even number, or p.odd before them (its weight is zero). The reduction runs over pairs of them:
   p.row_pairs for each row of the filter, in steps of eight; a pair lies `offset` bytes behind a position's
   first one. A block holds the weights of 64 channels, a wave takes TILES * 16 positions of a tile at a time.
   While it multiplies one tile, the next one comes into the other of two buffers. */
template <class U, int TILES, int BYTES, int BUFFERS> struct ckci_k_stem_fwd {
    enum { WAVES = 256 / U::WAVE };
    struct lds {
        alignas(128) unsigned char wei[64 * (4 * CKCI_STEM_PAIRS + 16)];
        unsigned char pixels[BUFFERS][BYTES];
        int32_t offset[CKCI_STEM_PAIRS];
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_stem &p, lds &m)
    {
        int32_t item = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_n);
        const int32_t channel0 = ((int32_t)blockIdx.x - item * p.tiles_n) * 64;
        int buffer = 0;
        if (BUFFERS == 2) {
            stage(p, item, m.pixels[0]);
            ckci_k_stem_close();
        }
        weights(p, channel0, m);
        CKCI_K_UNROLL(1)
        for (; item < p.items; item += p.blocks) {
            if (BUFFERS == 2 && item + p.blocks < p.items) {
                stage(p, item + p.blocks, m.pixels[BUFFERS - 1 - buffer]);
            } else if (BUFFERS == 1) {
                stage(p, item, m.pixels[0]);
            }
            ckci_k_stem_close();
            ckci_k_stem_wait<BUFFERS - 1>();
            __syncthreads();
            if (p.type == CKCONV_BF16) {
                tile<ckci_k_bf16>(p, item, channel0, m, m.pixels[buffer]);
            } else {
                tile<ckci_k_f16>(p, item, channel0, m, m.pixels[buffer]);
            }
            __syncthreads();
            buffer = BUFFERS - 1 - buffer;
        }
    }

    static CKCI_K_MEMBER void weights(const ckci_gpu_stem &p, int32_t channel0, lds &m)
    {
        const int32_t pairs = p.steps * 8, pitch = p.steps * 32 + 16, width = p.filter[1] * p.c;
        const int64_t *s = p.b.stride;
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x; i < 64 * pairs; i += 256) {
            const int32_t row = ckci_k_divide(i, p.by_pairs), pair = i - row * pairs;
            const int32_t y = ckci_k_divide(pair, p.by_row), at = (pair - y * p.row_pairs) * 2 - p.odd;
            const int32_t k = channel0 + U::channel(row / 16, row % 16);
            uint32_t v[2];
            CKCI_K_UNROLL(2)
            for (int h = 0; h < 2; h++) {
                const int32_t x = ckci_k_divide(at + h < 0 ? 0 : at + h, p.by_c);
                const bool good = k < p.k && y < p.filter[0] && at + h >= 0 && at + h < width;
                const int64_t from = k * s[1] + (at + h - x * p.c) * s[2] + y * s[4] + x * s[5];
                v[h] = good ? ckci_k_bits(ckci_k_value<float>(p.b, from)) : 0u;
            }
            *(uint32_t *)(m.wei + row * pitch + pair * 4) = ckci_k_two(p.type, v[0], v[1]);
            if (row == 0) { /* those behind the last tap are anywhere inside the window */
                m.offset[pair] = y < p.filter[0] ? y * p.dilation_y * p.pitch + (at + p.odd) * 2 : p.odd * 4;
            }
        }
    }

    static CKCI_K_MEMBER void stage(const ckci_gpu_stem &p, int32_t item, unsigned char *pixels)
    {
        const ckci_k_stem_item t(p, item);
        const ckci_k_window from = ckci_k_make_window(p.a.p + CKCI_K_HALF * t.n * p.a.stride[1]);
        const int32_t chunks = p.pitch / 16, top = t.y * p.stride[0] - p.pad[0];
        const int32_t first = t.x * p.stride[1] * p.c - p.left, step = (int32_t)p.a.stride[4];
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x; i < p.rows * chunks; i += 256) {
            const int32_t row = ckci_k_divide(i, p.by_chunks), at = first + (i - row * chunks) * 8;
            const int32_t y = top + row;
            const bool good = (uint32_t)y < (uint32_t)p.input[0] && at >= 0 && at < p.input[1] * p.c;
            ckci_k_stem_copy(pixels + i * 16, from, CKCI_K_HALF * (y * step + at), good);
        }
    }

    template <class T>
    static CKCI_K_MEMBER void tile(const ckci_gpu_stem &p, int32_t item, int32_t channel0, const lds &m,
                                   const unsigned char *pixels)
    {
        const ckci_k_stem_item t(p, item);
        const int32_t count = p.tile[0] * p.tile[1], pitch = p.steps * 32 + 16;
        const unsigned char *wei = m.wei + U::wei_row() * pitch;
        const unsigned char *first = pixels + CKCI_K_HALF * (p.left - p.pad[1] * p.c - p.odd);
        CKCI_K_UNROLL(1)
        for (int32_t row0 = (int32_t)threadIdx.x / U::WAVE * (TILES * 16); row0 < count;
             row0 += WAVES * TILES * 16) {
            const unsigned char *at[TILES][U::HOLDS];
            typename U::sums sum[TILES][4];
            CKCI_K_UNROLL(4)
            for (int i = 0; i < TILES; i++) {
                CKCI_K_UNROLL(2)
                for (int h = 0; h < U::HOLDS; h++) {
                    int32_t e = row0 + i * 16 + U::held(h);
                    e = e < count ? e : count - 1;
                    const int32_t y = ckci_k_divide(e, p.by_tile_x), x = e - y * p.tile[1];
                    at[i][h] = first + y * p.stride[0] * p.pitch + x * (p.stride[1] * p.c * CKCI_K_HALF);
                }
                CKCI_K_UNROLL(4)
                for (int j = 0; j < 4; j++) {
                    CKCI_K_UNROLL(8)
                    for (int e = 0; e < U::SUMS; e++) {
                        sum[i][j].v[e] = 0;
                    }
                }
            }
            CKCI_K_UNROLL_SOME(2)
            for (int32_t step = 0; step < p.steps; step++) {
                typename U::operand a[TILES];
                int32_t offset[U::PAIRS];
                CKCI_K_UNROLL(8)
                for (int i = 0; i < U::PAIRS; i++) {
                    offset[i] = m.offset[step * 8 + U::pair(i)];
                }
                CKCI_K_UNROLL(4)
                for (int i = 0; i < TILES; i++) {
                    a[i] = U::words([&](int h, int e) { return *(const uint32_t *)(at[i][h] + offset[e]); });
                }
                CKCI_K_UNROLL(4)
                for (int j = 0; j < 4; j++) {
                    typename U::operand b = U::wei(wei + j * 16 * pitch + step * 32);
                    CKCI_K_UNROLL(4)
                    for (int i = 0; i < TILES; i++) {
                        U::template product<T>(sum[i][j], a[i], b);
                    }
                }
            }
            CKCI_K_UNROLL(4)
            for (int i = 0; i < TILES; i++) {
                store<T>(p, t, row0 + i * 16, channel0, sum[i]);
            }
        }
    }

    template <class T>
    static CKCI_K_MEMBER void store(const ckci_gpu_stem &p, const ckci_k_stem_item &t, int32_t row0,
                                    int32_t channel0, const typename U::sums (&sum)[4])
    {
        const int32_t sy = (int32_t)p.o.stride[4], sx = (int32_t)p.o.stride[5];
        unsigned char *image = p.o.p + CKCI_K_HALF * (t.n * p.o.stride[1] + channel0);
        CKCI_K_UNROLL(2)
        for (int h = 0; h < U::HOLDS; h++) {
            const int32_t e = row0 + U::held(h), up = ckci_k_divide(e, p.by_tile_x);
            const int32_t y = t.y + up, x = t.x + e - up * p.tile[1];
            if (up >= p.tile[0] || y >= p.output[0] || x >= p.output[1]) {
                continue;
            }
            unsigned char *to = image + CKCI_K_HALF * (y * sy + x * sx);
            CKCI_K_UNROLL(4)
            for (int u = 0; u < U::CHUNKS; u++) {
                const int32_t k = U::chunk_channel(u);
                uint32_t two[4];
                CKCI_K_UNROLL(4)
                for (int i = 0; i < 4; i++) {
                    two[i] = ckci_k_two(T::TYPE, ckci_k_bits(U::chunk(sum, u, h, 2 * i)),
                                        ckci_k_bits(U::chunk(sum, u, h, 2 * i + 1)));
                }
                if (channel0 + k < p.k) {
                    const ckci_k_uint4 v = {two[0], two[1], two[2], two[3]};
                    *(ckci_k_uint4 *)(to + CKCI_K_HALF * k) = v;
                }
            }
        }
    }
};

/* bwd_data. With the padding counted, input u = s * q + e (in each dimension) reads dout q - j with tap
   e + s * j, for all j below p.window: the phases e of a stride s and the channels are the columns of one
   product, whose rows are the q and whose reduction runs over windows and the channels of dout; taps behind
   the filter have zero weights. A block holds the pixels of dout that a tile of q reads, 2 * K + 16 bytes
   each, and all weights, rows of columns. A wave takes 32 q and 16 columns at a time. */
template <class U, int BYTES> struct ckci_k_stem_back {
    enum { WAVES = 256 / U::WAVE, TILES = 2 };
    struct lds {
        alignas(128) unsigned char wei[CKCI_STEM_WEIGHTS];
        unsigned char pixels[BYTES];
        struct {
            int32_t y, x, offset, good; /* of a column: phases, from the place of q in din */
        } column[CKCI_STEM_COLUMNS];
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_stem &p, lds &m)
    {
        weights(p, m);
        CKCI_K_UNROLL(1)
        for (int32_t item = (int32_t)blockIdx.x; item < p.items; item += p.blocks) {
            stage(p, item, m.pixels);
            ckci_k_stem_close();
            ckci_k_stem_wait<0>();
            __syncthreads();
            CKCI_K_UNROLL(1)
            for (int32_t column = 0; column < p.columns; column += 16) {
                if (p.type == CKCONV_BF16) {
                    tile<ckci_k_bf16>(p, item, column, m);
                } else {
                    tile<ckci_k_f16>(p, item, column, m);
                }
            }
            __syncthreads();
        }
    }

    static CKCI_K_MEMBER void weights(const ckci_gpu_stem &p, lds &m)
    {
        const int32_t pairs = p.steps * 8, pitch = p.steps * 32 + 16, thread = (int32_t)threadIdx.x;
        const int32_t columns = (p.columns + 15) / 16 * 16, half = p.k / 2;
        const int64_t *s = p.b.stride;
        if (thread < columns) {
            const int32_t phase = ckci_k_divide(thread, p.by_c), y = ckci_k_divide(phase, p.by_stride_x);
            const int32_t x = phase - y * p.stride[1];
            m.column[thread].y = y;
            m.column[thread].x = x;
            m.column[thread].good = thread < p.columns;
            m.column[thread].offset =
                (int32_t)(y * p.o.stride[4] + x * p.o.stride[5] + (thread - phase * p.c) * p.o.stride[2]);
        }
        CKCI_K_UNROLL(1)
        for (int32_t i = thread; i < columns * pairs; i += 256) {
            const int32_t column = ckci_k_divide(i, p.by_pairs), pair = i - column * pairs;
            const int32_t tap = ckci_k_divide(pair, p.by_row), k = (pair - tap * half) * 2;
            const int32_t phase = ckci_k_divide(column, p.by_c), up = ckci_k_divide(phase, p.by_stride_x);
            const int32_t jy = ckci_k_divide(tap, p.by_window_x), jx = tap - jy * p.window[1];
            const int32_t y = up + p.stride[0] * jy, x = phase - up * p.stride[1] + p.stride[1] * jx;
            const bool good = column < p.columns && y < p.filter[0] && x < p.filter[1];
            const int64_t at = k * s[1] + (column - phase * p.c) * s[2] + y * s[4] + x * s[5];
            const float low = good ? ckci_k_value<float>(p.b, at) : 0.f;
            const float high = good ? ckci_k_value<float>(p.b, at + s[1]) : 0.f;
            *(uint32_t *)(m.wei + column * pitch + pair * 4) =
                ckci_k_two(p.type, ckci_k_bits(low), ckci_k_bits(high));
        }
    }

    static CKCI_K_MEMBER void stage(const ckci_gpu_stem &p, int32_t item, unsigned char *pixels)
    {
        const ckci_k_stem_item t(p, item);
        const ckci_k_window from = ckci_k_make_window(p.a.p + CKCI_K_HALF * t.n * p.a.stride[1]);
        const int32_t chunks = p.k / 8, wide = p.tile[1] + p.window[1] - 1;
        const int32_t top = p.first[0] + t.y - p.window[0] + 1, left = p.first[1] + t.x - p.window[1] + 1;
        const int32_t sy = (int32_t)p.a.stride[4], sx = (int32_t)p.a.stride[5];
        CKCI_K_UNROLL_SOME(4)
        for (int32_t i = (int32_t)threadIdx.x; i < p.rows * wide * chunks; i += 256) {
            const int32_t pixel = ckci_k_divide(i, p.by_chunks), chunk = i - pixel * chunks;
            const int32_t row = ckci_k_divide(pixel, p.by_wide), y = top + row, x = left + pixel - row * wide;
            const bool good = (uint32_t)y < (uint32_t)p.output[0] && (uint32_t)x < (uint32_t)p.output[1];
            ckci_k_stem_copy(pixels + pixel * p.pitch + chunk * 16, from,
                             CKCI_K_HALF * (y * sy + x * sx + chunk * 8), good);
        }
    }

    template <class T>
    static CKCI_K_MEMBER void tile(const ckci_gpu_stem &p, int32_t item, int32_t column0, const lds &m)
    {
        const int lane = (int)threadIdx.x % 16;
        const int32_t count = p.tile[0] * p.tile[1], wide = p.tile[1] + p.window[1] - 1;
        const unsigned char *wei = m.wei + (column0 + U::wei_row()) * (p.steps * 32 + 16);
        CKCI_K_UNROLL(1)
        for (int32_t row0 = (int32_t)threadIdx.x / U::WAVE * (TILES * 16); row0 < count;
             row0 += WAVES * TILES * 16) {
            const unsigned char *at[TILES];
            typename U::sums sum[TILES];
            CKCI_K_UNROLL(2)
            for (int i = 0; i < TILES; i++) {
                int32_t e = row0 + i * 16 + lane;
                e = e < count ? e : count - 1;
                const int32_t y = ckci_k_divide(e, p.by_tile_x), x = e - y * p.tile[1];
                at[i] = m.pixels + ((y + p.window[0] - 1) * wide + x + p.window[1] - 1) * p.pitch;
                CKCI_K_UNROLL(8)
                for (int k = 0; k < U::SUMS; k++) {
                    sum[i].v[k] = 0;
                }
            }
            const unsigned char *w = wei;
            CKCI_K_UNROLL(1)
            for (int32_t jy = 0; jy < p.window[0]; jy++) {
                CKCI_K_UNROLL(1)
                for (int32_t jx = 0; jx < p.window[1]; jx++) {
                    const int32_t back = (jy * wide + jx) * p.pitch;
                    CKCI_K_UNROLL_SOME(4)
                    for (int32_t k = 0; k < p.k; k += 16) {
                        const typename U::operand b = U::wei(w);
                        CKCI_K_UNROLL(2)
                        for (int i = 0; i < TILES; i++) {
                            U::template across<T>(sum[i], U::load_rows(at[i] - back + 2 * k, 0), b);
                        }
                        w += 32;
                    }
                }
            }
            store<T>(p, ckci_k_stem_item(p, item), row0, column0, m, sum);
        }
    }

    template <class T>
    static CKCI_K_MEMBER void store(const ckci_gpu_stem &p, const ckci_k_stem_item &t, int32_t row0,
                                    int32_t column0, const lds &m, const typename U::sums (&sum)[TILES])
    {
        const int64_t *s = p.o.stride;
        CKCI_K_UNROLL(2)
        for (int i = 0; i < TILES; i++) {
            CKCI_K_UNROLL(8)
            for (int e = 0; e < U::SUMS; e++) {
                const auto &c = m.column[column0 + U::column(e)];
                const int32_t row = row0 + i * 16 + U::row(e), up = ckci_k_divide(row, p.by_tile_x);
                const int32_t y0 = (p.first[0] + t.y + up) * p.stride[0] - p.pad[0];
                const int32_t x0 = (p.first[1] + t.x + row - up * p.tile[1]) * p.stride[1] - p.pad[1];
                if (c.good && up < p.tile[0] && (uint32_t)(y0 + c.y) < (uint32_t)p.input[0] &&
                    (uint32_t)(x0 + c.x) < (uint32_t)p.input[1]) {
                    const int64_t at = t.n * s[1] + y0 * s[4] + x0 * s[5] + c.offset;
                    const uint32_t v = ckci_k_bits(sum[i].v[e]);
                    *(uint16_t *)(p.o.p + CKCI_K_HALF * at) = (uint16_t)ckci_k_two(T::TYPE, v, v);
                }
            }
        }
    }
};

/* Tiles of dout for bwd_weight, positions of 64 channels, and their transposed operand: rows are 16 channels
   from `channel` on, the reduction positions 16 * step and the next 15. NVIDIA transposes what it loads. The
   others hold words of two neighbouring positions, the 64 channels of a pair side by side. */
template <class U> struct ckci_k_stem_turn {
    enum { PITCH = 272, BUFFERS = 1, ROW = PITCH / 2 };

    static CKCI_K_MEMBER void copy(unsigned char *tile, const ckci_k_window &from, int32_t step,
                                   int32_t positions, int32_t good, int32_t chunks)
    {
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x; i < positions * 4; i += 128) {
            const int32_t pair = i / 8, chunk = i % 8, at = pair * 2 * step + chunk * 16;
            const bool some = chunk < chunks;
            const ckci_k_uint4 a = ckci_k_window_load(from, some && 2 * pair < good ? at : INT32_MIN);
            const ckci_k_uint4 b =
                ckci_k_window_load(from, some && 2 * pair + 1 < good ? at + step : INT32_MIN);
            const ckci_k_uint4 low = {ckci_k_halves<0>(a.x, b.x), ckci_k_halves<1>(a.x, b.x),
                                      ckci_k_halves<0>(a.y, b.y), ckci_k_halves<1>(a.y, b.y)};
            const ckci_k_uint4 high = {ckci_k_halves<0>(a.z, b.z), ckci_k_halves<1>(a.z, b.z),
                                       ckci_k_halves<0>(a.w, b.w), ckci_k_halves<1>(a.w, b.w)};
            ckci_k_uint4 *to = (ckci_k_uint4 *)(tile + pair * PITCH + chunk * 32);
            to[0] = low;
            to[1] = high;
        }
    }

    static CKCI_K_MEMBER typename U::operand load(const unsigned char *tile, int step, int channel)
    {
        const unsigned char *at = tile + step * (8 * PITCH) + (channel + U::held(0)) * 4;
        return U::words([&](int, int i) { return *(const uint32_t *)(at + U::pair(i) * PITCH); });
    }
};

#if defined(CKCI_K_MMA)
template <> struct ckci_k_stem_turn<ckci_k_stem_mma> {
    enum { BUFFERS = 2, ROW = 128 };

    static CKCI_K_MEMBER void copy(unsigned char *tile, const ckci_k_window &from, int32_t step,
                                   int32_t positions, int32_t good, int32_t chunks)
    {
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x; i < positions * 8; i += 128) {
            const int32_t position = i / 8, chunk = i % 8;
            ckci_k_stem_copy(tile + ckci_k_spot<128>(position, chunk), from, position * step + chunk * 16,
                             position < good && chunk < chunks);
        }
    }

    static CKCI_K_MEMBER ckci_k_uint4 load(const unsigned char *tile, int step, int channel)
    {
        return ckci_k_mma::load_across(tile, channel, step * 32);
    }
};
#endif

/* bwd_weight. Rows are 64 channels of dout, columns 160 of (tap, c), the reduction runs over positions, of
   which an operand's register takes two neighbours along x. For these the rows of pixels that a tile reads
   come into LDS as they are (raw) and are spread into planes there: number v of a row (from the first tap of
   position 0 on) is number v / P of plane v % P, P = stride * C, and position x reads number x + tap / stride
   of one plane. Where that is odd for even x it reads a second copy that lies one number before. Rows of dout
   pass beside them, one by one. Of four waves (CDNA: two) two share the rows, the others the columns; a block
   writes its sums to its part of the workspace, and ckci_k_stem_sum adds the parts in their order. */
template <class U, int BYTES, int POSITIONS> struct ckci_k_stem_weight {
    enum { WAVES = 128 / U::WAVE, ACROSS = WAVES / 2, TILES = 10 / ACROSS };
    typedef ckci_k_stem_turn<U> turn;
    struct lds {
        alignas(128) unsigned char dout[turn::BUFFERS][POSITIONS * turn::ROW];
        unsigned char pixels[BYTES]; /* planes, raw rows behind them */
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_stem &p, lds &m)
    {
        typename U::sums sum[2][TILES];
        int32_t item, channel0, column0, base[TILES][U::HOLDS];
        const int wave = (int)threadIdx.x / U::WAVE;
        place(p, item, channel0, column0);
        CKCI_K_UNROLL(10)
        for (int j = 0; j < TILES; j++) {
            CKCI_K_UNROLL(2)
            for (int h = 0; h < U::HOLDS; h++) {
                base[j][h] = column_at(p, column0 + (j * ACROSS + wave / 2) * 16 + U::held(h));
            }
        }
        const int32_t positions = (p.tile[1] + 15) / 16 * 16, left = p.columns - column0 - wave / 2 * 16;
        const int32_t row_step = p.stride[0] * p.pitch;
        unsigned char *rows = m.pixels + p.rows * p.pitch;
        raw(p, item, rows);
        ckci_k_stem_close();
        const int32_t part = item;
        CKCI_K_UNROLL(1)
        for (;;) { /* see ckci_k_matrix_weight_pieces */
            const int32_t rest = p.items - item, some = p.chain * p.blocks, from = item;
            const int32_t end = item + (p.chain && some < rest ? some : rest);
            clear(sum);
            CKCI_K_UNROLL(1)
            for (; item < end; item += p.blocks) {
                const ckci_k_stem_item t(p, item);
                const int32_t high = p.output[0] - t.y < p.tile[0] ? p.output[0] - t.y : p.tile[0];
                copy(p, t, 0, channel0, positions, m);
                ckci_k_stem_close();
                ckci_k_stem_wait<1>();
                __syncthreads();
                spread(p, rows, m.pixels);
                __syncthreads();
                raw(p, item + p.blocks, rows);
                CKCI_K_UNROLL(1)
                for (int32_t r = 0; r < high; r++) {
                    if (turn::BUFFERS == 2) {
                        copy(p, t, r + 1, channel0, r + 1 < high ? positions : 0, m);
                        ckci_k_stem_close();
                        ckci_k_stem_wait<turn::BUFFERS - 1>();
                    } else if (r > 0) {
                        copy(p, t, r, channel0, positions, m);
                    }
                    __syncthreads();
                    const unsigned char *planes = m.pixels + r * row_step, *dout = m.dout[r % turn::BUFFERS];
                    if (p.type == CKCONV_BF16) {
                        multiply<ckci_k_bf16>(dout, planes, positions / 16, base, left, sum);
                    } else {
                        multiply<ckci_k_f16>(dout, planes, positions / 16, base, left, sum);
                    }
                    __syncthreads();
                }
            }
            finish(ckci_k_again(p), from != part, sum);
            if (item >= p.items) {
                return;
            }
        }
    }

    static CKCI_K_MEMBER void clear(typename U::sums (&sum)[2][TILES])
    {
        CKCI_K_UNROLL(10)
        for (int j = 0; j < TILES; j++) {
            CKCI_K_UNROLL(8)
            for (int e = 0; e < U::SUMS; e++) {
                sum[0][j].v[e] = sum[1][j].v[e] = 0;
            }
        }
    }

    /* A block's part, its channels and columns. */
    static CKCI_K_MEMBER void place(const ckci_gpu_stem &p, int32_t &part, int32_t &channel, int32_t &column)
    {
        const int32_t up = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c);
        column = ((int32_t)blockIdx.x - up * p.tiles_c) * 160;
        part = ckci_k_divide(up, p.by_tiles_n);
        channel = (up - part * p.tiles_n) * 64;
    }

    /* Where position 0 finds a column's number. */
    static CKCI_K_MEMBER int32_t column_at(const ckci_gpu_stem &p, int32_t column)
    {
        const int32_t tap = ckci_k_divide(column, p.by_c), y = ckci_k_divide(tap, p.by_filter_x);
        const int32_t x = tap - y * p.filter[1], o = ckci_k_divide(x, p.by_stride_x);
        const int32_t plane = (x - o * p.stride[1]) * p.c + column - tap * p.c + (o % 2 ? p.planes : 0);
        return column < p.columns ? y * p.dilation_y * p.pitch + plane * p.plane + o / 2 * 4 : 0;
    }

    /* Row r of a tile of dout. */
    static CKCI_K_MEMBER void copy(const ckci_gpu_stem &p, const ckci_k_stem_item &t, int32_t r,
                                   int32_t channel0, int32_t positions, lds &m)
    {
        const int64_t *s = p.a.stride;
        const int32_t left = p.output[1] - t.x;
        const ckci_k_window from =
            ckci_k_make_window(p.a.p + CKCI_K_HALF * (t.n * s[1] + (t.y + r) * s[4] + t.x * s[5] + channel0));
        turn::copy(m.dout[r % turn::BUFFERS], from, CKCI_K_HALF * (int32_t)s[5], positions,
                   left < p.tile[1] ? left : p.tile[1], (p.k - channel0) / 8);
    }

    /* The rows of pixels of a tile as memory holds them, from p.left numbers before the first pixel on. */
    static CKCI_K_MEMBER void raw(const ckci_gpu_stem &p, int32_t item, unsigned char *rows)
    {
        if (item >= p.items) {
            return;
        }
        const ckci_k_stem_item t(p, item);
        const ckci_k_window from = ckci_k_make_window(p.b.p + CKCI_K_HALF * t.n * p.b.stride[1]);
        const int32_t top = t.y * p.stride[0] - p.pad[0], step = (int32_t)p.b.stride[4];
        const int32_t first = t.x * p.planes - p.left;
        CKCI_K_UNROLL_SOME(4)
        for (int32_t i = (int32_t)threadIdx.x; i < p.rows * p.chunks; i += 128) {
            const int32_t row = ckci_k_divide(i, p.by_chunks), at = first + (i - row * p.chunks) * 8;
            const int32_t y = top + row;
            const bool good = (uint32_t)y < (uint32_t)p.input[0] && at >= 0 && at < p.input[1] * p.c;
            ckci_k_stem_copy(rows + i * 16, from, CKCI_K_HALF * (y * step + at), good);
        }
    }

    /* The same as planes, two numbers at a time; a wave takes a plane of a row. */
    static CKCI_K_MEMBER void spread(const ckci_gpu_stem &p, const unsigned char *rows, unsigned char *planes)
    {
        const int32_t lane = (int32_t)threadIdx.x % U::WAVE, step = p.planes * CKCI_K_HALF;
        const int32_t second = p.planes * p.plane;
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x / U::WAVE; i < p.rows * p.planes; i += WAVES) {
            const int32_t row = ckci_k_divide(i, p.by_planes), plane = i - row * p.planes;
            const unsigned char *from = rows + row * p.chunks * 16 +
                                        CKCI_K_HALF * (p.left - p.pad[1] * p.c + plane) + lane * 2 * step;
            unsigned char *to = planes + row * p.pitch + plane * p.plane + lane * 4;
            CKCI_K_UNROLL(2)
            for (int32_t x = lane * 2; x < p.length; x += 2 * U::WAVE) {
                const uint32_t a = *(const uint16_t *)from, b = *(const uint16_t *)(from + step),
                               c = *(const uint16_t *)(from + 2 * step);
                *(uint32_t *)to = a | b << 16;
                *(uint32_t *)(to + second) = b | c << 16;
                from += 2 * U::WAVE * step;
                to += 4 * U::WAVE;
            }
        }
    }

    /* left: columns from the first one of this wave on; all tiles but the first are computed or none */
    template <class T>
    static CKCI_K_MEMBER void multiply(const unsigned char *dout, const unsigned char *planes, int32_t steps,
                                       const int32_t (&base)[TILES][U::HOLDS], int32_t left,
                                       typename U::sums (&sum)[2][TILES])
    {
        const int channel = (int)threadIdx.x / U::WAVE % 2 * 32;
        if (left <= ACROSS * 16) {
            CKCI_K_UNROLL(1)
            for (int32_t step = 0; step < steps; step++) {
                one<T, 1>(dout, planes + step * 32, step, channel, base, sum);
            }
        } else {
            CKCI_K_UNROLL(1)
            for (int32_t step = 0; step < steps; step++) {
                one<T, TILES>(dout, planes + step * 32, step, channel, base, sum);
            }
        }
    }

    template <class T, int COUNT>
    static CKCI_K_MEMBER void one(const unsigned char *dout, const unsigned char *planes, int32_t step,
                                  int channel, const int32_t (&base)[TILES][U::HOLDS],
                                  typename U::sums (&sum)[2][TILES])
    {
        const typename U::operand a[2] = {turn::load(dout, step, channel),
                                          turn::load(dout, step, channel + 16)};
        CKCI_K_UNROLL(10)
        for (int j = 0; j < COUNT; j++) {
            const typename U::operand b = U::words(
                [&](int h, int i) { return *(const uint32_t *)(planes + base[j][h] + U::pair(i) * 4); });
            U::template multiply<T>(sum[0][j], a[0], b);
            U::template multiply<T>(sum[1][j], a[1], b);
        }
    }

    /* more: to what the part holds */
    static CKCI_K_MEMBER void finish(const ckci_gpu_stem &p, bool more, typename U::sums (&sum)[2][TILES])
    {
        const int wave = (int)threadIdx.x / U::WAVE;
        int32_t part, channel0, column0;
        place(p, part, channel0, column0);
        float *to = (float *)p.partial + (int64_t)part * p.k * p.columns;
        CKCI_K_UNROLL(2)
        for (int i = 0; i < 2; i++) {
            CKCI_K_UNROLL(10)
            for (int j = 0; j < TILES; j++) {
                const int32_t k = channel0 + wave % 2 * 32 + i * 16,
                              column = column0 + (j * ACROSS + wave / 2) * 16;
                if (more) { /* loads together, before the stores */
                    CKCI_K_UNROLL(8)
                    for (int e = 0; e < U::SUMS; e++) {
                        if (k + U::row(e) < p.k && column + U::column(e) < p.columns) {
                            sum[i][j].v[e] += to[(k + U::row(e)) * p.columns + column + U::column(e)];
                        }
                    }
                }
                CKCI_K_UNROLL(8)
                for (int e = 0; e < U::SUMS; e++) {
                    if (k + U::row(e) < p.k && column + U::column(e) < p.columns) {
                        to[(k + U::row(e)) * p.columns + column + U::column(e)] = sum[i][j].v[e];
                    }
                }
            }
        }
    }
};

/* The sums of many parts: 32 neighbouring weights per block, and for each of them eight threads that add an
   eighth of the parts. */
struct ckci_k_stem_sum {
    struct lds {
        float v[8][32];
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        const int slice = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
        const int32_t all = p.rows * p.columns, e = (int32_t)blockIdx.x * 32 + lane;
        const int32_t each = (p.split + 7) / 8,
                      end = (slice + 1) * each < p.split ? (slice + 1) * each : p.split;
        const float *from = (const float *)p.o.partial + e;
        float sum = 0;
        int32_t i = e < all ? slice * each : end;
        for (; i + 8 <= end; i += 8) { /* loads in flight together, additions in order */
            float v[8];
            CKCI_K_UNROLL(8)
            for (int j = 0; j < 8; j++) {
                v[j] = from[(int64_t)(i + j) * all];
            }
            CKCI_K_UNROLL(8)
            for (int j = 0; j < 8; j++) {
                sum += v[j];
            }
        }
        for (; i < end; i++) {
            sum += from[(int64_t)i * all];
        }
        m.v[slice][lane] = sum;
        __syncthreads();
        if (slice > 0 || e >= all) {
            return;
        }
        CKCI_K_UNROLL(8)
        for (int j = 1; j < 8; j++) {
            sum += m.v[j][lane];
        }
        const int32_t k = ckci_k_divide(e, p.by_columns);
        const ckci_k_tap tap = ckci_k_split_column(p, e - k * p.columns);
        ckci_k_write<float>(p.o, sum, 0, k, tap.c, tap.z, tap.y, tap.x);
    }
};

/* Body<U, NVIDIA> with the unit of the target. */
template <template <class, int> class Body> struct ckci_k_stem {
#if defined(CKCI_SIMULATOR)
    typedef ckci_k_by_unit<
        typename Body<ckci_k_stem_mfma, 0>::type, typename Body<ckci_k_stem_wmma<11>, 0>::type,
        typename Body<ckci_k_stem_wmma<12>, 0>::type, typename Body<ckci_k_stem_mma, 1>::type>
        body;
#elif defined(CKCI_K_MFMA)
    typedef typename Body<ckci_k_stem_mfma, 0>::type body;
#elif defined(CKCI_K_WMMA)
    typedef typename Body<ckci_k_stem_wmma<11>, 0>::type body;
#elif defined(CKCI_K_WMMA12)
    typedef typename Body<ckci_k_stem_wmma<12>, 0>::type body;
#elif defined(CKCI_K_MMA)
    typedef typename Body<ckci_k_stem_mma, 1>::type body;
#else
    typedef ckci_k_nothing body;
#endif
    typedef typename body::lds lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_stem &p, lds &m)
    {
        body::run(p, m);
    }
};

template <class U, int NVIDIA> struct ckci_k_stem_fwd_of {
    typedef ckci_k_stem_fwd<U, 2, CKCI_STEM_PIXELS(NVIDIA), NVIDIA ? 2 : 1> type;
};

template <class U, int NVIDIA> struct ckci_k_stem_back_of {
    typedef ckci_k_stem_back<U, CKCI_STEM_BACK_PIXELS(NVIDIA)> type;
};

template <class U, int NVIDIA> struct ckci_k_stem_weight_of {
    typedef ckci_k_stem_weight<U, CKCI_STEM_PLANES(NVIDIA), CKCI_STEM_POSITIONS(NVIDIA)> type;
};

template <template <class, int> class Body> struct ckci_k_resident<ckci_k_stem<Body>> {
    enum { BLOCKS = 2 };
};


/*------------------------------------------------------------------------------------------------------------
  >>k-tile
  The three passes in f32 on plain multiply-adds, for tensors that are read as they are (f32, no operation):
  what >>k-gather and >>k-weight compute, with what costs them most taken out of the loop. Offsets come from
  tables in LDS (as in >>k-matrix: taps for fwd and bwd_data, positions for bwd_weight), padding is a test of
  a mask, memory is read in 16-byte chunks.
  A block owns BM x BN sums, a thread RM x RN of them; KT places of the reduction pass through LDS at a time,
  as [place][row or column], in two buffers: while the block multiplies from one, the loads of the next are
  in flight. Where a tile has fewer sums than keep a block busy, SLICES groups of threads own the same sums at
  every SLICES-th place of each step, and the first one adds those of the others in their order at the end.
  Rows and columns past the end read a valid neighbour instead: their sums are not written.
*/
template <int M, int N, int M1, int N1, int K, int S> struct ckci_k_shape {
    enum { BM = M, BN = N, RM = M1, RN = N1, KT = K, SLICES = S, TY = BM / RM, TX = BN / RN, EACH = TX * TY };
    enum { THREADS = EACH * SLICES, LA = BM + 4, LB = BN + 4 };
    static_assert(KT % SLICES == 0 && RM % 4 == 0 && RN % 4 == 0, "whole quads for every thread");
};

/* Places of the reduction at a time where slices share few sums: as many as LDS holds of the blocks that the
   registers hold. */
#if defined(__HIP__) || defined(__HIPCC__)
enum { CKCI_K_DEEP = 16 };
#else
enum { CKCI_K_DEEP = 32 };
#endif

struct alignas(16) ckci_k_quad {
    float v[4];
};

template <class S, int ENTRIES> struct ckci_k_tile_lds {
    alignas(16) float a[2][S::KT][S::LA];
    alignas(16) float b[2][S::KT][S::LB];
    ckci_k_tap_entry table[ENTRIES];
};

#if CKCI_K_BUFFERS
__device__ int ckci_k_buffer_word(ckci_k_int4 window, int offset, int scalar_offset,
                                  int cache) __asm("llvm.amdgcn.raw.buffer.load.i32");
#endif

/* The same value, which the compiler does not know any more: it is not computed again, or kept, elsewhere. */
CKCI_K_FN int32_t ckci_k_opaque(int32_t x)
{
#if defined(__HIP_DEVICE_COMPILE__)
    asm volatile("" : "+v"(x));
#elif defined(__CUDA_ARCH__)
    asm volatile("" : "+r"(x));
#endif
    return x;
}

/* Keeps the base in registers: not computed again at each load. */
CKCI_K_FN ckci_k_window ckci_k_pinned_window(const unsigned char *base)
{
    ckci_k_window w = ckci_k_make_window(base);
#if defined(__CUDA_ARCH__)
    asm volatile("" : "+l"(w.base));
#endif
    return w;
}

/* Four floats from the window, zero where `hole` is not 0; on NVIDIA without a branch, which would keep the
   compiler from mixing loads and multiply-adds. hole: 2^31 at most. */
CKCI_K_FN ckci_k_quad ckci_k_window_quad(const ckci_k_window &w, int32_t offset, uint32_t hole)
{
#if defined(__CUDA_ARCH__)
    ckci_k_quad q;
    asm volatile("{\n\t.reg .pred p;\n\tsetp.eq.u32 p, %5, 0;\n\t"
                 "mov.f32 %0, 0f00000000;\n\tmov.f32 %1, 0f00000000;\n\t"
                 "mov.f32 %2, 0f00000000;\n\tmov.f32 %3, 0f00000000;\n\t"
                 "@p ld.global.v4.f32 {%0, %1, %2, %3}, [%4];\n\t}"
                 : "=&f"(q.v[0]), "=&f"(q.v[1]), "=&f"(q.v[2]), "=&f"(q.v[3])
                 : "l"(w.base + (uint32_t)offset), "r"(hole));
    return q;
#else
    return ckci_k_cast<ckci_k_quad>(ckci_k_window_load(w, offset | (int32_t)(0u - hole)));
#endif
}

/* Four floats, and one, zero at a negative offset. */
CKCI_K_FN ckci_k_quad ckci_k_window_quad(const ckci_k_window &w, int32_t offset)
{
    return ckci_k_window_quad(w, offset, (uint32_t)offset & 0x80000000u);
}

CKCI_K_FN float ckci_k_window_word(const ckci_k_window &w, int32_t offset)
{
#if CKCI_K_BUFFERS
    return ckci_k_cast<float>(ckci_k_buffer_word(w.v, offset, 0, 0));
#elif defined(__CUDA_ARCH__)
    float x;
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ge.s32 p, %2, 0;\n\tmov.f32 %0, 0f00000000;\n\t"
                 "@p ld.global.f32 %0, [%1];\n\t}"
                 : "=&f"(x)
                 : "l"(w.base + (uint32_t)offset), "r"(offset));
    return x;
#else
    return offset < 0 ? 0.f : *(const float *)(w.base + offset);
#endif
}

/* n / D for 0 <= n < 256 and D <= 128 */
template <int D> CKCI_K_FN int ckci_k_over(int n)
{
    return (D & (D - 1)) == 0 ? n / D : (int)((uint32_t)n * (65536u / D + 1) >> 16);
}

template <class S> struct ckci_k_tile_sums {
    float c[S::RM][S::RN];
    /* STEPS: places of the reduction whose code stands in a row. AHEAD: operands are read one place ahead,
       those of the next buffer before the last place of this one is multiplied; not where its registers would
       cost blocks, nor on AMD, whose compiler would load more than fits the registers. */
#if defined(__HIP_DEVICE_COMPILE__)
    enum { STEPS = S::RM * S::RN > 64 ? 2 : 4, AHEAD = 0 };
#else
    enum { STEPS = 16, AHEAD = S::RM * S::RN != 32 };
#endif

    /* A wave's threads form a patch of rows and columns, neighbours two by two, so that the quads that eight
       threads read together lie in different banks or are the same. */
    static CKCI_K_MEMBER int inner()
    {
        return (int)threadIdx.x - slice() * S::EACH;
    }

    static CKCI_K_MEMBER int slice()
    {
        return S::SLICES == 1 ? 0 : ckci_k_over<S::EACH>((int)threadIdx.x);
    }

    static CKCI_K_MEMBER int tx()
    {
        constexpr int wide = S::TX < 8 ? S::TX : 8;
        if constexpr (S::EACH % 32 != 0) {
            return inner() - ckci_k_over<S::TX>(inner()) * S::TX;
        } else {
            return inner() / 32 % (S::TX / wide) * wide + inner() % 32 / 2 % wide;
        }
    }

    static CKCI_K_MEMBER int ty()
    {
        constexpr int wide = S::TX < 8 ? S::TX : 8;
        if constexpr (S::EACH % 32 != 0) {
            return ckci_k_over<S::TX>(inner());
        } else {
            int lane = inner() % 32;
            return inner() / 32 / (S::TX / wide) * (32 / wide) + lane % 2 + lane / (2 * wide) * 2;
        }
    }

    static CKCI_K_MEMBER int row(int i)
    {
        return i / 4 * (S::BM / (S::RM / 4)) + 4 * ty() + i % 4;
    }

    static CKCI_K_MEMBER int column(int j)
    {
        return j / 4 * (S::BN / (S::RN / 4)) + 4 * tx() + j % 4;
    }

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < S::RM; i++) {
            CKCI_K_UNROLL(16)
            for (int j = 0; j < S::RN; j++) {
                c[i][j] = 0;
            }
        }
    }

    /* What a thread multiplies at one place of the reduction. */
    struct operands {
        ckci_k_quad a[S::RM / 4], b[S::RN / 4];
    };

    template <class L> static CKCI_K_MEMBER void read(const L &m, int buffer, int k, operands &o)
    {
        const float *a = &m.a[buffer][slice()][row(0)], *b = &m.b[buffer][slice()][column(0)];
        CKCI_K_UNROLL(16)
        for (int i = 0; i < S::RM / 4; i++) {
            o.a[i] = *(const ckci_k_quad *)(a + k * S::LA + i * (S::BM / (S::RM / 4)));
        }
        CKCI_K_UNROLL(16)
        for (int j = 0; j < S::RN / 4; j++) {
            o.b[j] = *(const ckci_k_quad *)(b + k * S::LB + j * (S::BN / (S::RN / 4)));
        }
    }

    /* To and fro, so that each multiply-add shares an operand with the one before: on NVIDIA, reading three
       registers takes longer than two. */
    CKCI_K_MEMBER void multiply(const operands &o)
    {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < S::RM; i++) {
            CKCI_K_UNROLL(16)
            for (int n = 0; n < S::RN; n++) {
                const int j = i % 2 ? S::RN - 1 - n : n;
                c[i][j] = ckci_k_fma(o.a[i / 4].v[i % 4], o.b[j / 4].v[j % 4], c[i][j]);
            }
        }
    }

    /* On NVIDIA, the next step's loads are not sunk below this place: they need the time. */
    static CKCI_K_MEMBER void loads_end(bool here)
    {
#if defined(__CUDA_ARCH__)
        if (here) {
            __syncwarp();
        }
#endif
        (void)here;
    }

    /* All places of a buffer. */
    template <int TIMES, class L> CKCI_K_MEMBER void multiply(const L &m, int buffer)
    {
        CKCI_K_UNROLL(TIMES)
        for (int k = 0; k < S::KT; k += S::SLICES) {
            operands o;
            loads_end(TIMES > 1 && k == S::KT / 2);
            read(m, buffer, k, o);
            multiply(o);
        }
    }

    /* Adds to the sums. loader: fetch(step), put it into a buffer; renew before steps from s on: up to which
       step? */
    template <class L, class Loader> CKCI_K_MEMBER void run(L &m, Loader &loader, int32_t steps)
    {
        if (steps <= 0) {
            return;
        }
        loader.fetch(0);
        loader.put(m, 0);
        __syncthreads();
        int buffer = 0;
        operands o[2];
        if constexpr (AHEAD) {
            read(m, 0, 0, o[0]);
        }
        for (int32_t s = 1; s < steps;) {
            int32_t stop = loader.renew(s, steps);
            CKCI_K_UNROLL(1)
            for (; s < stop; s++) {
                loader.fetch(s);
                if constexpr (AHEAD) {
                    CKCI_K_UNROLL(16)
                    for (int k = 0; k < S::KT - S::SLICES; k += S::SLICES) {
                        loads_end(k == 2 * S::SLICES);
                        read(m, buffer, k + S::SLICES, o[(k / S::SLICES + 1) % 2]);
                        multiply(o[k / S::SLICES % 2]);
                    }
                } else {
                    multiply<STEPS>(m, buffer);
                }
                buffer ^= 1;
                loader.put(m, buffer);
                __syncthreads();
                if constexpr (AHEAD) {
                    read(m, buffer, 0, o[0]);
                    multiply(o[1]);
                }
            }
        }
        multiply<1>(m, buffer); /* once: its code need not be long */
    }

    /* Sums of the other slices, one slice after the other. */
    template <class L> CKCI_K_MEMBER void join(L &m)
    {
        float *sums = &m.a[0][0][0];
        static_assert(S::SLICES == 1 || S::BM * S::BN <= 2 * S::KT * (S::LA + S::LB), "LDS holds a slice");
        CKCI_K_UNROLL(1)
        for (int s = 1; s < S::SLICES; s++) {
            __syncthreads();
            if (slice() == s) {
                CKCI_K_UNROLL(16)
                for (int i = 0; i < S::RM; i++) {
                    CKCI_K_UNROLL(16)
                    for (int j = 0; j < S::RN; j++) {
                        sums[(i * S::RN + j) * S::EACH + inner()] = c[i][j];
                    }
                }
            }
            __syncthreads();
            if (slice() == 0) {
                CKCI_K_UNROLL(16)
                for (int i = 0; i < S::RM; i++) {
                    CKCI_K_UNROLL(16)
                    for (int j = 0; j < S::RN; j++) {
                        c[i][j] += sums[(i * S::RN + j) * S::EACH + inner()];
                    }
                }
            }
        }
    }

    /* A stretch ends: the first slice adds the sums of all of them to those before. */
    template <class L>
    CKCI_K_MEMBER void settle(L &m, const ckci_gpu_conv &p, const ckci_k_weight_block &b, bool fresh,
                              bool end)
    {
        float *room = &m.a[0][0][0];
        static_assert((int)S::SLICES * S::RN * S::EACH <= 2 * S::KT * (S::LA + S::LB), "a row of each");
        const auto join = [&](float *c) {
            if constexpr (S::SLICES > 1) {
                float *own = room + slice() * (S::RN * S::EACH) + inner();
                __syncthreads();
                CKCI_K_UNROLL(16)
                for (int j = 0; j < S::RN; j++) {
                    own[j * S::EACH] = c[j];
                }
                __syncthreads();
                CKCI_K_UNROLL(1)
                for (int s = 1; s < S::SLICES; s++) {
                    own += S::RN * S::EACH;
                    CKCI_K_UNROLL(16)
                    for (int j = 0; j < S::RN; j++) {
                        c[j] += slice() == 0 ? own[j * S::EACH] : 0;
                    }
                }
            }
            return slice() == 0;
        };
        ckci_k_settle_there<S::RM, S::RN, S::SLICES == 1 ? 4 : 1>(
            p, b, row(0), column(0), S::BM / (S::RM / 4), S::BN / (S::RN / 4), &c[0][0], fresh, end, join);
    }

    /* Sums to memory. vec: four columns are one store at out + at(row), negative: no such row; columns: how
       many there are. Else through LDS, RM-th part of the rows at a time, to one(row, column, sum), so that
       the code of the epilogue stands once and neighbouring threads write neighbours. */
    template <class L, class At, class One>
    CKCI_K_MEMBER void finish(L &m, bool vec, bool along_rows, unsigned char *out, int32_t columns,
                              const At &at, const One &one)
    {
#if defined(__CUDA_ARCH__)
        /* With 0, as the compiler does not know: sums need not lie in the loop where a store of four wants
           them, in the same bank of registers as the operand that changes with them. */
        CKCI_K_UNROLL(16)
        for (int i = 0; i < S::RM; i++) {
            CKCI_K_UNROLL(16)
            for (int j = 0; j < S::RN; j++) {
                c[i][j] = ckci_k_float(ckci_k_bits(c[i][j]) ^ threadIdx.z);
            }
        }
#endif
        join(m);
        __syncthreads();
        if (vec) {
            int64_t *rows = (int64_t *)&m.a[0][0][0];
            for (int r = (int)threadIdx.x; r < S::BM; r += S::THREADS) {
                rows[r] = at(r);
            }
            __syncthreads();
            if (slice() != 0) {
                return;
            }
            CKCI_K_UNROLL(16)
            for (int i = 0; i < S::RM; i++) {
                int64_t place = rows[row(i)];
                CKCI_K_UNROLL(16)
                for (int j = 0; j < S::RN; j += 4) {
                    ckci_k_quad q = {{c[i][j], c[i][j + 1], c[i][j + 2], c[i][j + 3]}};
                    if (place >= 0 && column(j) < columns) {
                        *(ckci_k_quad *)(out + place + 4 * column(j)) = q;
                    }
                }
            }
            return;
        }
        float *strip = &m.a[0][0][0]; /* [TY rows][BN + 1] */
        static_assert(S::TY * (S::BN + 1) <= 2 * S::KT * (S::LA + S::LB), "LDS holds a strip");
        CKCI_K_UNROLL(1)
        for (int s = 0; s < S::RM; s++) {
            __syncthreads();
            CKCI_K_UNROLL(16)
            for (int j = 0; j < S::RN; j++) {
                if (S::SLICES == 1 || slice() == 0) {
                    strip[ty() * (S::BN + 1) + column(j)] = c[0][j];
                }
                CKCI_K_UNROLL(16)
                for (int i = 0; i + 1 < S::RM; i++) {
                    c[i][j] = c[i + 1][j]; /* an index known at compile time keeps c in registers */
                }
            }
            __syncthreads();
            CKCI_K_UNROLL(1)
            for (int e = (int)threadIdx.x; e < S::TY * S::BN; e += S::THREADS) {
                int r = along_rows ? e % S::TY : e / S::BN, column = along_rows ? e / S::TY : e % S::BN;
                one(s / 4 * (S::BM / (S::RM / 4)) + 4 * r + s % 4, column, strip[r * (S::BN + 1) + column]);
            }
        }
    }
};

/* What reads a row: where it begins to read (its batch, coordinates of tap 0). */
CKCI_K_FN ckci_k_place ckci_k_first_tap(const ckci_gpu_conv &p, const ckci_k_axis axis[3], int32_t row)
{
    ckci_k_place q = ckci_k_row(axis, row);
    q.z = q.z * p.dim[0].read_step + axis[0].read0;
    q.y = q.y * p.dim[1].read_step + axis[1].read0;
    q.x = q.x * p.dim[2].read_step + axis[2].read0;
    return q;
}

/* Taps in the masks of a long filter. */
enum { CKCI_K_BITS = 30 };

/* A bit for each tap of each dimension (z above y above x) that lies on padding; bit 31 always. Where the
   taps do not fit, one dimension alone has several: then the bits are those of taps from `first` on, as
   many as a window holds and a step can reach beyond it. */
CKCI_K_FN uint32_t ckci_k_pad_mask(const ckci_gpu_conv &p, const ckci_k_axis axis[3], const ckci_k_place &q,
                                   int32_t first)
{
    ckci_k_hole hole = {0x80000000u};
    if (!p.ranges) {
        hole.add_all(0, p.dim, q, axis[0].taps, axis[1].taps, axis[2].taps);
        return q.n < p.n ? hole.word : 0xffffffffu;
    }
    CKCI_K_UNROLL(1)
    for (int d = 2; d >= 0; d--) {
        int32_t have = d == 2 ? axis[2].taps : d == 1 ? axis[1].taps : axis[0].taps, several = have > 1;
        int32_t from = d == 2 ? q.x : d == 1 ? q.y : q.z, t = several ? first : 0;
        have = several && have - t > CKCI_K_BITS ? t + CKCI_K_BITS : have;
        CKCI_K_UNROLL(1)
        for (; t < have; t++) {
            uint32_t bit = several ? 1u << t % CKCI_K_BITS : 0xffffffffu;
            int32_t at = from + t * p.dim[d].read_tap;
            hole.word |= (uint32_t)at < (uint32_t)p.dim[d].read_len ? 0u : bit;
        }
    }
    return q.n < p.n ? hole.word : 0xffffffffu;
}

/* The table of a phase's taps: byte offsets in both tensors, the bit of the masks. */
CKCI_K_FN void ckci_k_fill_taps(const ckci_gpu_conv &p, const ckci_k_axis axis[3], ckci_k_tap_entry *table,
                                int threads)
{
    const int64_t *s = p.a.stride;
    int32_t count = axis[0].taps * axis[1].taps * axis[2].taps;
    for (int32_t i = (int32_t)threadIdx.x; i <= count; i += threads) {
        ckci_k_tap t = ckci_k_find_tap(p, axis, i * p.red);
        ckci_k_tap_entry e = {0, INT32_MIN, 0x80000000u, 0};
        if (i < count) {
            t.c = 0;
            e.a = 4 * (int32_t)(t.z * p.dim[0].read_tap * s[3] + t.y * p.dim[1].read_tap * s[4] +
                                t.x * p.dim[2].read_tap * s[5]);
            e.b = 4 * (int32_t)ckci_k_weight_at(p, axis, t);
            e.need = p.ranges ? 1u << i % CKCI_K_BITS
                              : 1u << t.x % 32 | 1u << (axis[2].taps + t.y) % 32 |
                                    1u << (axis[2].taps + axis[1].taps + t.z) % 32;
        }
        table[i] = e;
    }
    __syncthreads();
}

/* ---- fwd and bwd_data. V 4: chunks of the tensor that is read are four channels of one tap; V 1: four
   places of the reduction, each where it lies. Weights come in chunks of four places of the reduction
   (b_mode 0), of four columns (1), or, with V 1 only, one by one (2). */
template <class S, int V> struct ckci_k_tile_gather_loader {
    enum {
        CHUNKS = S::KT / 4,
        ROWS = S::THREADS / CHUNKS,
        A = S::BM / ROWS,
        QUADS = S::BN / 4,
        ALL = S::KT * QUADS, /* chunks of b */
        B = (ALL + (int)S::THREADS - 1) / (int)S::THREADS,
        LONG = 20 /* a step reaches KT taps at most */
    };
    static_assert(S::BM % ROWS == 0 && (B == 1 || ALL % (int)S::THREADS == 0), "whole passes");
    const ckci_gpu_conv &p;
    ckci_k_axis axis[3]; /* copies: what a pointer in this struct leads to would lie in scratch */
    const ckci_k_tap_entry *taps;
    ckci_k_window wa, wb;
    int32_t row0, count, tap, at, end, step; /* of a: bytes past the tap's first channel, channels, one */
    int32_t b_tap[B], b_c[B], b_at[B], b_step;
    int32_t a_at[A], window; /* of taps in the masks, where all do not fit */
    uint32_t mask[A];
    float raw[A][4], b_raw[B][4];

    CKCI_K_MEMBER ckci_k_tile_gather_loader(const ckci_gpu_conv &conv, const ckci_k_block &b,
                                            ckci_k_tap_entry *table)
        : p(conv), axis{b.axis[0], b.axis[1], b.axis[2]}, taps(table), row0(b.row)
    {
        const int64_t *s = p.a.stride;
        int t = (int)threadIdx.x;
        count = axis[0].taps * axis[1].taps * axis[2].taps;
        ckci_k_fill_taps(p, axis, table, S::THREADS);
        ckci_k_place start = ckci_k_row(axis, b.row);
        wa = ckci_k_pinned_window(p.a.p + 4 * (b.group * s[0] + start.n * s[1]));
        wb = ckci_k_pinned_window(p.b.p + 4 * (b.group * p.b.stride[0] + b.column * p.b_column));
        step = V == 4 ? 4 : 4 * (int32_t)s[2];
        end = p.red * step;
        tap = 0;
        at = t % CHUNKS * 4 * step;
        wrap(tap, at, end);
        window = 0;
        CKCI_K_UNROLL(16)
        for (int i = 0; i < A; i++) {
            ckci_k_place q = ckci_k_first_tap(p, axis, row0 + t / CHUNKS + i * ROWS);
            a_at[i] = 4 * (int32_t)((q.n - start.n) * s[1] + q.z * s[3] + q.y * s[4] + q.x * s[5]);
            mask[i] = ckci_k_pad_mask(p, axis, q, 0);
        }
        b_step = 4 * (int32_t)p.b_red;
        CKCI_K_UNROLL(16)
        for (int i = 0; i < B; i++) {
            int32_t column = p.b_mode == 1 ? t % QUADS * 4 : t / CHUNKS + i * ROWS;
            b_at[i] = b.column + column < p.columns ? 4 * column * (int32_t)p.b_column : 0;
            if (ALL < (int)S::THREADS && t >= ALL) {
                b_at[i] = INT32_MIN; /* nothing to fetch */
            }
            b_tap[i] = 0;
            b_c[i] = place(i);
            wrap(b_tap[i], b_c[i], p.red);
        }
    }

    /* First place of the reduction in chunk i of b. */
    CKCI_K_MEMBER int32_t place(int i) const
    {
        int32_t t = (int32_t)threadIdx.x;
        return p.b_mode == 1 ? (t / QUADS + i * (S::THREADS / QUADS)) % S::KT : t % CHUNKS * 4;
    }

    /* V 4: the channels of a tap are a step at least, so that one test will do, and no place is past the tap
       that follows the last one. */
    CKCI_K_MEMBER void wrap(int32_t &t, int32_t &place, int32_t past) const
    {
        if constexpr (V == 4) {
            bool over = place >= past;
            place -= over ? past : 0;
            t += over ? 1 : 0;
        } else {
            while (place >= past) {
                place -= past;
                t++;
            }
            t = t < count ? t : count;
        }
    }

    CKCI_K_MEMBER int32_t a_offset(int i, const ckci_k_tap_entry &e, int32_t place) const
    {
        return ckci_k_add(a_at[i], e.a, place) | (int32_t)(0u - (mask[i] & e.need));
    }

    /* Masks for the next window of taps. */
    CKCI_K_MEMBER int32_t renew(int32_t s, int32_t steps)
    {
        if (!p.ranges) {
            return steps;
        }
        if (s > 1) {
            window++;
            int32_t row = ckci_k_opaque(row0);
            CKCI_K_UNROLL(16)
            for (int i = 0; i < A; i++) {
                ckci_k_place q = ckci_k_first_tap(p, axis, row + (int32_t)threadIdx.x / CHUNKS + i * ROWS);
                mask[i] = ckci_k_pad_mask(p, axis, q, window * LONG);
            }
        }
        int32_t stop = ((window + 1) * LONG * p.red + S::KT - 1) / S::KT;
        return stop < steps ? stop : steps;
    }

    CKCI_K_MEMBER void fetch(int32_t)
    {
        if constexpr (V == 4) {
            ckci_k_tap_entry e = taps[tap];
            CKCI_K_UNROLL(16)
            for (int i = 0; i < A; i++) {
                ckci_k_quad q = ckci_k_window_quad(wa, ckci_k_add(a_at[i], e.a, at), mask[i] & e.need);
                CKCI_K_UNROLL(16)
                for (int j = 0; j < 4; j++) {
                    raw[i][j] = q.v[j];
                }
            }
        } else {
            int32_t t = tap, place = at;
            CKCI_K_UNROLL(16)
            for (int j = 0; j < 4; j++) {
                ckci_k_tap_entry e = taps[t];
                CKCI_K_UNROLL(16)
                for (int i = 0; i < A; i++) {
                    raw[i][j] = ckci_k_window_word(wa, a_offset(i, e, place));
                }
                place += step;
                wrap(t, place, end);
            }
        }
        at += S::KT * step;
        wrap(tap, at, end);
        CKCI_K_UNROLL(16)
        for (int i = 0; i < B; i++) {
            if (V == 4 || p.b_mode < 2) {
                ckci_k_quad q =
                    ckci_k_window_quad(wb, ckci_k_add(b_at[i], taps[b_tap[i]].b, b_c[i] * b_step));
                CKCI_K_UNROLL(16)
                for (int j = 0; j < 4; j++) {
                    b_raw[i][j] = q.v[j];
                }
            } else {
                int32_t t = b_tap[i], c = b_c[i];
                CKCI_K_UNROLL(16)
                for (int j = 0; j < 4; j++) {
                    b_raw[i][j] = ckci_k_window_word(wb, ckci_k_add(b_at[i], taps[t].b, c * b_step));
                    c++;
                    wrap(t, c, p.red);
                }
            }
            b_c[i] += S::KT;
            wrap(b_tap[i], b_c[i], p.red);
        }
    }

    template <class L> CKCI_K_MEMBER void put(L &m, int buffer) const
    {
        int t = (int)threadIdx.x, k = t % CHUNKS * 4;
        CKCI_K_UNROLL(16)
        for (int i = 0; i < A; i++) {
            float *row = &m.a[buffer][k][t / CHUNKS + i * ROWS];
            CKCI_K_UNROLL(16)
            for (int j = 0; j < 4; j++) {
                row[j * S::LA] = raw[i][j];
            }
        }
        if (ALL < (int)S::THREADS && t >= ALL) {
            return;
        }
        CKCI_K_UNROLL(16)
        for (int i = 0; i < B; i++) {
            if (p.b_mode == 1) {
                ckci_k_quad q = {{b_raw[i][0], b_raw[i][1], b_raw[i][2], b_raw[i][3]}};
                *(ckci_k_quad *)&m.b[buffer][place(i)][t % QUADS * 4] = q;
            } else {
                float *column = &m.b[buffer][k][t / CHUNKS + i * ROWS];
                CKCI_K_UNROLL(16)
                for (int j = 0; j < 4; j++) {
                    column[j * S::LB] = b_raw[i][j];
                }
            }
        }
    }
};

template <class S, int V> struct ckci_k_tile_gather {
    typedef ckci_k_tile_lds<S, CKCI_K_TAPS + 1> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &conv, lds &m)
    {
        ckci_k_tile_sums<S> sums;
        {
            const ckci_gpu_conv &p = conv;
            ckci_k_block b = ckci_k_find_block(p, S::BM, S::BN);
            int64_t rows = (int64_t)p.n * b.axis[0].count * b.axis[1].count * b.axis[2].count;
            if (b.row >= rows) {
                return; /* a phase with fewer positions than the first one; the whole block */
            }
            ckci_k_tile_gather_loader<S, V> loader(p, b, m.table);
            sums.clear();
            sums.run(m, loader, ckci_k_opaque((ckci_k_reduction(p, b.axis) + S::KT - 1) / S::KT));
        }
        const ckci_gpu_conv &p = ckci_k_late(conv);
        ckci_k_block b = ckci_k_find_block(p, S::BM, S::BN);
        const int64_t *s = p.o.t.stride;
        sums.finish(
            m, p.o_vec != 0, s[5] < s[2], p.o.t.p + 4 * (b.group * s[0] + b.column), p.columns - b.column,
            [&](int row) {
                ckci_k_place q = ckci_k_row(b.axis, b.row + row);
                return q.n < p.n ? 4 * (q.n * s[1] + (b.axis[0].write0 + q.z * p.dim[0].write_step) * s[3] +
                                        (b.axis[1].write0 + q.y * p.dim[1].write_step) * s[4] +
                                        (b.axis[2].write0 + q.x * p.dim[2].write_step) * s[5])
                                 : (int64_t)-1;
            },
            [&](int row, int column, float sum) {
                ckci_k_place q = ckci_k_row(b.axis, b.row + row);
                if (q.n < p.n && b.column + column < p.columns) {
                    ckci_k_write<float>(p.o, sum, b.group, q.n, b.column + column,
                                        b.axis[0].write0 + q.z * p.dim[0].write_step,
                                        b.axis[1].write0 + q.y * p.dim[1].write_step,
                                        b.axis[2].write0 + q.x * p.dim[2].write_step);
                }
            });
    }
};

/* ---- fwd and bwd_data with few channels per group. Neighbouring threads (p.lanes of them) take neighbouring
   groups, or blocks of CB columns of a group, as they lie in memory, the others positions. A thread owns RP
   positions and CB columns: it reads its positions from memory, 16 bytes at a time, the weights from LDS,
   where p.split taps of the block's groups lie at a time as [group][tap][channel][column]. A block takes
   p.part batches of positions one after the other, so that the weights are read once for all of them if they
   fit. */
enum { CKCI_K_GROUPED = 9600 };

template <int CB, int RP> struct ckci_k_grouped {
    struct lds {
        alignas(16) float w[CKCI_K_GROUPED];
        ckci_k_tap_entry table[CKCI_K_TAPS + 1];
    };

    /* Weights of taps from `first` on. */
    static CKCI_K_MEMBER void load(const ckci_gpu_conv &p, const ckci_k_block &b, int32_t first,
                                   int32_t count, int32_t pitch, lds &m)
    {
        int32_t rows = p.split * p.red, all = p.lanes * rows * CB;
        CKCI_K_UNROLL(1)
        for (int32_t e = (int32_t)threadIdx.x; e < all; e += 256) {
            /* the fastest index is that along which the weights are dense */
            int32_t up = p.b_mode == 1 ? e / CB : ckci_k_divide(e, p.by_red);
            int32_t r = e - up * p.red, column = e % CB;
            int32_t tap = ckci_k_divide(up, p.by_one_k), lane = up - tap * p.split;
            if (p.b_mode == 1) {
                tap = ckci_k_divide(up, p.by_red);
                r = up - tap * p.red;
                lane = ckci_k_divide(tap, p.by_one_k);
                tap -= lane * p.split;
            } else {
                int32_t line = tap;
                tap = lane;
                column = line % CB;
                lane = line / CB;
            }
            int32_t group = ckci_k_divide(b.column + lane, p.by_channels);
            int32_t c = (b.column + lane - group * (int32_t)p.by_channels.d) * CB + column;
            float x = 0;
            if (group < p.g && c < p.columns && first + tap < count) {
                x = *(const float *)(p.b.p + 4 * (group * p.b.stride[0] + c * p.b_column + r * p.b_red) +
                                     m.table[first + tap].b);
            }
            m.w[lane * pitch + (tap * p.red + r) * CB + column] = x;
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        int32_t t = (int32_t)threadIdx.x, wide = 256 / p.lanes, lane = t & (p.lanes - 1);
        ckci_k_block b = ckci_k_find_block(p, RP * wide * p.part, p.lanes);
        int64_t rows = (int64_t)p.n * b.axis[0].count * b.axis[1].count * b.axis[2].count;
        if (b.row >= rows) {
            return; /* a phase with fewer positions than the first one; the whole block */
        }
        ckci_k_fill_taps(p, b.axis, m.table, 256);
        int32_t taps = b.axis[0].taps * b.axis[1].taps * b.axis[2].taps;
        int32_t pitch = p.split * p.red * CB;
        pitch += pitch % 32 == 0 ? 4 : 20; /* eight neighbouring groups lie in different banks */
        int32_t group = ckci_k_divide(b.column + lane, p.by_channels);
        int32_t column = (b.column + lane - group * (int32_t)p.by_channels.d) * CB;
        bool inside = group < p.g;
        group = inside ? group : 0;
        int32_t start = ckci_k_row(b.axis, b.row).n;
        ckci_k_window wa = ckci_k_pinned_window(p.a.p + 4 * start * p.a.stride[1]);
        ckci_k_hold(b.axis);
        for (int32_t batch = 0; batch < p.part && b.row + batch * RP * wide < rows; batch++) {
            int32_t row0 = b.row + batch * RP * wide + t / p.lanes, at[RP];
            uint32_t mask[RP];
            float sum[RP][CB];
            const ckci_gpu_conv &u = ckci_k_again(p);
            const int32_t count = ckci_k_afresh(taps);
            const int64_t *s = u.a.stride;
            CKCI_K_UNROLL(16)
            for (int i = 0; i < RP; i++) {
                ckci_k_place q = ckci_k_first_tap(u, b.axis, row0 + i * wide);
                at[i] =
                    4 * (int32_t)(group * s[0] + (q.n - start) * s[1] + q.z * s[3] + q.y * s[4] + q.x * s[5]);
                mask[i] = ckci_k_pad_mask(u, b.axis, q, 0);
                CKCI_K_UNROLL(16)
                for (int j = 0; j < CB; j++) {
                    sum[i][j] = 0;
                }
            }
            for (int32_t first = 0; first < count; first += p.split) {
                if (batch == 0 || count > p.split || !p.o_vec) {
                    __syncthreads();
                    load(ckci_k_again(p), b, first, count, pitch, m);
                    __syncthreads();
                }
                int32_t past = first + p.split < count ? first + p.split : count;
                const float *w = m.w + lane * pitch;
                CKCI_K_UNROLL(1)
                for (int32_t tap = first; tap < past; tap++) {
                    ckci_k_tap_entry e = m.table[tap];
                    int32_t from[RP];
                    CKCI_K_UNROLL(16)
                    for (int i = 0; i < RP; i++) {
                        from[i] = mask[i] & e.need ? INT32_MIN : ckci_k_add(at[i], e.a, 0);
                    }
                    CKCI_K_UNROLL(1)
                    for (int32_t c = 0; c < u.red; c += 4, w += 4 * CB) {
                        multiply(wa, from, c, w, sum);
                    }
                }
            }
            write(p, b, row0, wide, inside, group, column, sum, m);
        }
    }

    static CKCI_K_MEMBER void multiply(const ckci_k_window &wa, const int32_t *from, int32_t c,
                                       const float *w, float (*sum)[CB])
    {
        ckci_k_quad a[RP];
        CKCI_K_UNROLL(16)
        for (int i = 0; i < RP; i++) {
            a[i] = ckci_k_window_quad(wa, from[i] + 4 * c);
        }
        CKCI_K_UNROLL(4)
        for (int k = 0; k < 4; k++) {
            CKCI_K_UNROLL(16)
            for (int j = 0; j < CB; j += 4) {
                ckci_k_quad b = *(const ckci_k_quad *)(w + k * CB + j);
                CKCI_K_UNROLL(16)
                for (int i = 0; i < RP; i++) {
                    CKCI_K_UNROLL(4)
                    for (int h = 0; h < 4; h++) {
                        sum[i][j + h] = ckci_k_fma(a[i].v[k], b.v[h], sum[i][j + h]);
                    }
                }
            }
        }
    }

    static CKCI_K_MEMBER void write(const ckci_gpu_conv &conv, const ckci_k_block &b, int32_t row0,
                                    int32_t wide, bool inside, int32_t group, int32_t column,
                                    float (*sum)[CB], lds &m)
    {
        const ckci_gpu_conv &p = ckci_k_late(conv);
        const int64_t *s = p.o.t.stride;
        int t = (int)threadIdx.x;
        if (!p.o_vec) {
            __syncthreads(); /* the weights make room */
        }
        CKCI_K_UNROLL(1)
        for (int i = 0; i < RP; i++) {
            ckci_k_place q = ckci_k_row(b.axis, row0 + i * wide);
            q.z = b.axis[0].write0 + q.z * p.dim[0].write_step;
            q.y = b.axis[1].write0 + q.y * p.dim[1].write_step;
            q.x = b.axis[2].write0 + q.x * p.dim[2].write_step;
            bool row = inside && q.n < p.n;
            if (p.o_vec) {
                unsigned char *out =
                    p.o.t.p + 4 * (group * s[0] + q.n * s[1] + column + q.z * s[3] + q.y * s[4] + q.x * s[5]);
                CKCI_K_UNROLL(16)
                for (int j = 0; j < CB; j += 4) {
                    ckci_k_quad v = {{sum[0][j], sum[0][j + 1], sum[0][j + 2], sum[0][j + 3]}};
                    if (row && column + j < p.columns) {
                        *(ckci_k_quad *)(out + 4 * j) = v;
                    }
                }
            } else {
                CKCI_K_UNROLL(16)
                for (int j = 0; j < CB; j++) {
                    m.w[j * 256 + t] = sum[0][j];
                }
                CKCI_K_UNROLL(1)
                for (int j = 0; j < CB; j++) {
                    if (row && column + j < p.columns) {
                        ckci_k_write<float>(p.o, m.w[j * 256 + t], group, q.n, column + j, q.z, q.y, q.x);
                    }
                }
            }
            CKCI_K_UNROLL(16)
            for (int j = 0; j < CB; j++) {
                CKCI_K_UNROLL(16)
                for (int h = 0; h + 1 < RP; h++) {
                    sum[h][j] = sum[h + 1][j]; /* an index known at compile time keeps sum in registers */
                }
            }
        }
    }
};

/* ---- fwd and bwd_data with at most four columns, where the tensor that is read is walked in steps of one. A
   block owns a patch of positions of one phase, p.part rows of at most 8 * p.lanes; a thread owns eight
   positions of a row, p.lanes apart, and all columns. What the patch reads, with its rim, lies in LDS, eight
   channels at a time, as [quad of channels][position], so that neighbouring threads read neighbouring quads;
   beside it the weights of those channels as [tap][channel][column]. Blocks: phases fastest, so that those
   that read the same patch run together. */
struct ckci_k_narrow {
    enum { PATCH = 1472, FLAT = 64, P = 8 };
    struct lds {
        ckci_k_quad a[2][PATCH];
        ckci_k_quad w[FLAT][8];
    };

    /* Where the block's patch begins, and its extent with the rim. */
    struct window {
        int32_t group, n, z, y, x; /* of the first written position */
        int32_t top, left, high, wide, pitch;
    };

    static CKCI_K_MEMBER window find(const ckci_gpu_conv &p, ckci_k_axis axis[3])
    {
        window v;
        int32_t work = (int32_t)blockIdx.x, rest = ckci_k_divide(work, p.by_phases);
        ckci_k_find_axes(p.dim, work - rest * p.phases, axis);
        int32_t up = ckci_k_divide(rest, p.by_tiles_n), line = ckci_k_divide(up, p.by_tiles_m);
        v.x = (rest - up * p.tiles_n) * P * p.lanes;
        v.y = (up - line * p.tiles_m) * p.part;
        int32_t depth = ckci_k_divide(line, p.dim[0].count[0]);
        v.z = line - depth * (int32_t)p.dim[0].count[0].d;
        v.group = depth / p.n;
        v.n = depth - v.group * p.n;
        int32_t span_y = (axis[1].taps - 1) * p.dim[1].read_tap,
                span_x = (axis[2].taps - 1) * p.dim[2].read_tap;
        v.top = v.y + axis[1].read0 + (span_y < 0 ? span_y : 0);
        v.left = v.x + axis[2].read0 + (span_x < 0 ? span_x : 0);
        v.high = p.part + (span_y < 0 ? -span_y : span_y);
        v.wide = P * p.lanes + (span_x < 0 ? -span_x : span_x);
        v.pitch = v.wide + ((p.lanes - v.wide) & 7); /* rows of a wave meet no bank twice */
        return v;
    }

    /* Channels c to c + 7 of the patch at depth z, 32 threads along a row of it. */
    static CKCI_K_MEMBER void load(const ckci_gpu_conv &p, const window &v, const ckci_k_window &wa,
                                   int32_t z, int32_t c, lds &m)
    {
        const int64_t *s = p.a.stride;
        int32_t t = (int32_t)threadIdx.x, q = t & 1;
        CKCI_K_UNROLL(1)
        for (int32_t iy = t / 32; iy < v.high; iy += 4) {
            int32_t y = v.top + iy;
            bool row = (uint32_t)y < (uint32_t)p.dim[1].read_len &&
                       (uint32_t)z < (uint32_t)p.dim[0].read_len && c + 4 * q < p.red;
            int32_t at = 4 * (int32_t)(z * s[3] + y * s[4] + c + 4 * q);
            CKCI_K_UNROLL(1)
            for (int32_t ix = t % 32 / 2; ix < v.wide; ix += 16) {
                int32_t x = v.left + ix;
                bool good = row && (uint32_t)x < (uint32_t)p.dim[2].read_len;
                m.a[q][iy * v.pitch + ix] =
                    ckci_k_window_quad(wa, good ? ckci_k_add(at, 4 * x * (int32_t)s[5], 0) : INT32_MIN);
            }
        }
    }

    static CKCI_K_MEMBER void load_weights(const ckci_gpu_conv &p, const window &v, const ckci_k_axis axis[3],
                                           int32_t tz, int32_t c, lds &m)
    {
        int32_t flat = axis[1].taps * axis[2].taps;
        CKCI_K_UNROLL(1)
        for (int32_t e = (int32_t)threadIdx.x; e < flat * 32; e += 128) {
            int32_t tap = e / 32, column = e % 4, r = e / 4 % 8 + c;
            ckci_k_tap at = {r, tz, tap / axis[2].taps, tap % axis[2].taps};
            float x = 0;
            if (column < p.columns && r < p.red) {
                x = *(const float *)(p.b.p + 4 * (v.group * p.b.stride[0] + column * p.b_column +
                                                  ckci_k_weight_at(p, axis, at)));
            }
            m.w[tap][e / 4 % 8].v[column] = x;
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &conv, lds &m)
    {
        float sum[P][4];
        const ckci_gpu_conv &p = conv;
        ckci_k_axis axis[3];
        window v = find(p, axis);
        if (v.x >= axis[2].count || v.y >= axis[1].count || v.z >= axis[0].count) {
            return; /* a phase with fewer positions than the first one; the whole block */
        }
        int32_t t = (int32_t)threadIdx.x, ty = t / p.lanes, tx = t - ty * p.lanes;
        bool works = ty < p.part;
        ty = works ? ty : 0;
        CKCI_K_UNROLL(32)
        for (int i = 0; i < P * 4; i++) {
            sum[i / 4][i % 4] = 0;
        }
        ckci_k_window wa = ckci_k_pinned_window(p.a.p + 4 * (v.group * p.a.stride[0] + v.n * p.a.stride[1]));
        int32_t step_y = p.dim[1].read_tap, step_x = p.dim[2].read_tap;
        int32_t origin = (ty + (step_y < 0 ? (1 - axis[1].taps) * step_y : 0)) * v.pitch + tx +
                         (step_x < 0 ? (1 - axis[2].taps) * step_x : 0);
        int32_t taps_z = axis[1].taps * axis[2].taps > 0 ? axis[0].taps : 0;
        for (int32_t tz = 0; tz < taps_z; tz++) {
            int32_t z = v.z * p.dim[0].read_step + axis[0].read0 + tz * p.dim[0].read_tap;
            for (int32_t c = 0; c < p.red; c += 8) {
                __syncthreads();
                load(p, v, wa, z, c, m);
                load_weights(p, v, axis, tz, c, m);
                __syncthreads();
                CKCI_K_UNROLL(1)
                for (int32_t fy = 0; fy < axis[1].taps; fy++) {
                    CKCI_K_UNROLL(1)
                    for (int32_t fx = 0; fx < axis[2].taps; fx++) {
                        const ckci_k_quad *a = &m.a[0][origin + fy * step_y * v.pitch + fx * step_x];
                        multiply(a, p.lanes, m.w[fy * axis[2].taps + fx], sum);
                        multiply(a + PATCH, p.lanes, m.w[fy * axis[2].taps + fx] + 4, sum);
                    }
                }
            }
        }
        write(conv, axis, v, works ? v.y + ty : INT32_MAX, v.x + tx, sum);
    }

    /* a: four channels at the first of the positions; w: their weights */
    static CKCI_K_MEMBER void multiply(const ckci_k_quad *a, int32_t lanes, const ckci_k_quad *w,
                                       float (*sum)[4])
    {
        ckci_k_quad b[4] = {w[0], w[1], w[2], w[3]};
        CKCI_K_UNROLL(16)
        for (int i = 0; i < P; i++) {
            ckci_k_quad x = a[i * lanes];
            CKCI_K_UNROLL(16)
            for (int k = 0; k < 4; k++) {
                CKCI_K_UNROLL(16)
                for (int j = 0; j < 4; j++) {
                    sum[i][j] = ckci_k_fma(x.v[k], b[k].v[j], sum[i][j]);
                }
            }
        }
    }

    static CKCI_K_MEMBER void write(const ckci_gpu_conv &conv, const ckci_k_axis axis[3], const window &v,
                                    int32_t y, int32_t x, float (*sum)[4])
    {
        const ckci_gpu_conv &p = ckci_k_late(conv);
        CKCI_K_UNROLL(1)
        for (int i = 0; i < P; i++) {
            CKCI_K_UNROLL(1)
            for (int j = 0; j < p.columns; j++) {
                if (y < axis[1].count && x + i * p.lanes < axis[2].count) {
                    ckci_k_write<float>(p.o, sum[0][0], v.group, v.n, j,
                                        axis[0].write0 + v.z * p.dim[0].write_step,
                                        axis[1].write0 + y * p.dim[1].write_step,
                                        axis[2].write0 + (x + i * p.lanes) * p.dim[2].write_step);
                }
                float first = sum[0][0]; /* a turn: an index known at compile time keeps sum in registers */
                sum[0][0] = sum[0][1];
                sum[0][1] = sum[0][2];
                sum[0][2] = sum[0][3];
                sum[0][3] = first;
            }
            CKCI_K_UNROLL(16)
            for (int h = 0; h + 1 < P; h++) {
                CKCI_K_UNROLL(16)
                for (int j = 0; j < 4; j++) {
                    sum[h][j] = sum[h + 1][j];
                }
            }
        }
    }
};

/* ---- bwd_weight. In memory rows and columns are contiguous, as they are in LDS. A thread's columns stay the
   same, its positions advance: they are decoded PT at a time, each by one thread, into the table. V 1: each
   of a chunk's four rows and columns where it lies. */
template <class S, int V> struct ckci_k_tile_weight_loader {
    enum {
        PT = 128,
        QA = S::BM / 4,
        QB = S::BN / 4,
        PA = S::THREADS / QA, /* positions that the block fetches at a time */
        PB = S::THREADS / QB,
        A = (S::KT + PA - 1) / PA,
        B = (S::KT + PB - 1) / PB,
        PARTS = 4 / V
    };
    static_assert(PT % (2 * S::KT) == 0, "a chapter is two steps at least");
    const ckci_gpu_conv &p;
    ckci_k_tap_entry *table; /* two times PT positions */
    ckci_k_window wa, wb;
    int32_t from, to, start; /* start: the batch that offsets count from */
    int32_t a_at[PARTS], b_at[PARTS], tap[PARTS];
    uint32_t need[PARTS];
    float a_raw[A][4], b_raw[B][4];

    CKCI_K_MEMBER ckci_k_tile_weight_loader(const ckci_gpu_conv &conv, int32_t group, int32_t row0,
                                            int32_t column0, int32_t first, int32_t last,
                                            ckci_k_tap_entry *entries)
        : p(conv), table(entries), from(first), to(last)
    {
        int t = (int)threadIdx.x;
        start = position(from).n;
        wa = ckci_k_pinned_window(p.a.p + 4 * (group * p.a.stride[0] + start * p.a.stride[1]));
        wb = ckci_k_pinned_window(p.b.p + 4 * (group * p.b.stride[0] + start * p.b.stride[1]));
        CKCI_K_UNROLL(4)
        for (int i = 0; i < PARTS; i++) {
            int32_t row = row0 + t % QA * 4 + i, column = column0 + t % QB * 4 + i;
            a_at[i] = row < p.rows ? 4 * row * (int32_t)p.a.stride[2] : 0;
            column = column < p.columns ? column : 0;
            tap[i] = ckci_k_divide(column, p.by_red);
            int32_t rest = ckci_k_divide(tap[i], p.dim[2].taps[0]), z = ckci_k_divide(rest, p.dim[1].taps[0]),
                    y = rest - z * p.dim[1].filter, x = tap[i] - rest * p.dim[2].filter;
            const int64_t *s = p.b.stride;
            b_at[i] = 4 * (int32_t)((column - tap[i] * p.red) * s[2] + z * p.dim[0].dilation * s[3] +
                                    y * p.dim[1].dilation * s[4] + x * p.dim[2].dilation * s[5]);
            need[i] = 1u << x % 32 | 1u << (p.dim[2].filter + y) % 32 |
                      1u << (p.dim[2].filter + p.dim[1].filter + z) % 32;
        }
        prepare(0);
        __syncthreads();
    }

    CKCI_K_MEMBER ckci_k_place position(int32_t k) const
    {
        return ckci_k_decode(k, p.dim[0].count[0], p.dim[1].count[0], p.dim[2].count[0]);
    }

    CKCI_K_MEMBER void prepare(int32_t chapter)
    {
        const int64_t *a = p.a.stride, *b = p.b.stride;
        for (int32_t j = (int32_t)threadIdx.x; j < PT; j += S::THREADS) {
            int32_t k = from + chapter * PT + j;
            ckci_k_tap_entry e = {INT32_MIN, INT32_MIN, 0, 0};
            ckci_k_hole hole;
            hole.close(p.ranges);
            if (k < to) {
                ckci_k_place q = position(k);
                e.a = 4 * (int32_t)((q.n - start) * a[1] + q.z * a[3] + q.y * a[4] + q.x * a[5]);
                q.z = q.z * p.dim[0].stride - p.dim[0].pad;
                q.y = q.y * p.dim[1].stride - p.dim[1].pad;
                q.x = q.x * p.dim[2].stride - p.dim[2].pad;
                e.b = 4 * (int32_t)((q.n - start) * b[1] + q.z * b[3] + q.y * b[4] + q.x * b[5]);
                hole.open(p.ranges);
                hole.add_all(p.ranges, p.dim, q, p.dim[0].filter, p.dim[1].filter, p.dim[2].filter);
            }
            e.need = hole.word;
            table[chapter % 2 * PT + j] = e;
        }
    }

    CKCI_K_MEMBER int32_t b_offset(const ckci_k_tap_entry &e, int i) const
    {
        ckci_k_hole hole = {e.need};
        return ckci_k_add(b_at[i], e.b, 0) | hole.bad(p.ranges, tap[i], need[i]);
    }

    /* A chapter is decoded before the steps of the one ahead of it: its half of the table was read to the end
       before the last barrier, and another barrier follows before it is read. */
    CKCI_K_MEMBER int32_t renew(int32_t s, int32_t steps)
    {
        int32_t chapter = s * S::KT / PT + 1, stop = chapter * (PT / S::KT);
        if (stop < steps) {
            prepare(chapter);
        }
        return stop < steps ? stop : steps;
    }

    CKCI_K_MEMBER void fetch(int32_t step)
    {
        const ckci_k_tap_entry *entries = table + step * S::KT % (2 * PT);
        int t = (int)threadIdx.x;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < A; i++) {
            int place = t / QA + i * PA;
            ckci_k_tap_entry e = entries[S::KT % PA != 0 && place >= S::KT ? 0 : place];
            load(a_raw[i], wa, [&](int j) { return ckci_k_add(a_at[j], e.a, 0); });
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < B; i++) {
            int place = t / QB + i * PB;
            ckci_k_tap_entry e = entries[S::KT % PB != 0 && place >= S::KT ? 0 : place];
            load(b_raw[i], wb, [&](int j) { return b_offset(e, j); });
        }
    }

    template <class F> CKCI_K_MEMBER void load(float *raw, const ckci_k_window &w, const F &offset) const
    {
        if constexpr (V == 4) {
            ckci_k_quad q = ckci_k_window_quad(w, offset(0));
            CKCI_K_UNROLL(4)
            for (int j = 0; j < 4; j++) {
                raw[j] = q.v[j];
            }
        } else {
            CKCI_K_UNROLL(4)
            for (int j = 0; j < 4; j++) {
                raw[j] = ckci_k_window_word(w, offset(j));
            }
        }
    }

    template <class L> CKCI_K_MEMBER void put(L &m, int buffer) const
    {
        int t = (int)threadIdx.x;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < A; i++) {
            ckci_k_quad q = {{a_raw[i][0], a_raw[i][1], a_raw[i][2], a_raw[i][3]}};
            if ((S::KT % PA == 0 || t / QA + i * PA < S::KT) && ((int)S::THREADS % QA == 0 || t < PA * QA)) {
                *(ckci_k_quad *)&m.a[buffer][t / QA + i * PA][t % QA * 4] = q;
            }
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < B; i++) {
            ckci_k_quad q = {{b_raw[i][0], b_raw[i][1], b_raw[i][2], b_raw[i][3]}};
            if ((S::KT % PB == 0 || t / QB + i * PB < S::KT) && ((int)S::THREADS % QB == 0 || t < PB * QB)) {
                *(ckci_k_quad *)&m.b[buffer][t / QB + i * PB][t % QB * 4] = q;
            }
        }
    }
};

template <class S, int V> struct ckci_k_tile_weight {
    typedef ckci_k_tile_lds<S, 2 * 128> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        ckci_k_tile_sums<S> sums;
        sums.clear();
        /* the block's place is computed again where it is needed: it need not live through the loop */
        int32_t left = ckci_k_find_weight_block(p, S::BM, S::BN).positions();
        CKCI_K_UNROLL(1)
        while (left > 0) {
            const int32_t before = left;
            {
                const ckci_k_weight_block b = ckci_k_find_weight_block(p, S::BM, S::BN);
                left = ckci_k_after_stretch(p, before, S::SLICES);
                ckci_k_tile_weight_loader<S, V> loader(p, b.group, b.row, b.column, b.to - before,
                                                       b.to - left, m.table);
                sums.run(m, loader, ckci_k_opaque((before - left + S::KT - 1) / S::KT));
            }
            const ckci_k_weight_block b = ckci_k_find_weight_block(p, S::BM, S::BN);
            const bool fresh = b.positions() - left <= CKCI_K_KEPT_STRETCH * S::SLICES;
            if (!fresh || left > 0) {
                sums.settle(m, p, b, fresh, left == 0);
            }
        }
        const ckci_k_weight_block b = ckci_k_find_weight_block(p, S::BM, S::BN);
        /* o_vec: dw is dense in the order of the sums */
        unsigned char *out = p.o.partial ? p.o.partial : p.o.t.p;
        sums.finish(
            m, p.o_vec != 0, false, out, p.columns - b.column,
            [&](int row) {
                int64_t filter = ((int64_t)b.part * p.g + b.group) * p.rows + b.row + row;
                return b.row + row < p.rows ? 4 * (filter * p.columns + b.column) : (int64_t)-1;
            },
            [&](int row, int column, float sum) {
                if (b.row + row < p.rows && b.column + column < p.columns) {
                    ckci_k_write_weight<float>(p, sum, b.part, b.group, b.row + row, b.column + column);
                }
            });
    }
};

/* Long sums take registers at their ends only. */
template <> struct ckci_k_resident<ckci_k_tile_weight<ckci_k_shape<8, 72, 8, 4, 32, 8>, 4>> {
    enum { BLOCKS = 4 };
};
template <> struct ckci_k_resident<ckci_k_tile_weight<ckci_k_shape<4, 36, 4, 4, 64, 16>, 4>> {
    enum { BLOCKS = 6 };
};

#endif /* CKCONV_KERNELS_MATRIX_HIP_H */
