/*------------------------------------------------------------------------------------------------------------
  >>k-unit
  Matrix units, one struct for each kind of unit; T is what it multiplies. A wave multiplies M rows of one
  tile by N rows of another, STEP bytes of each at a time, into M x N sums:
      load      the wave's operand: M (or N) rows of a tile in LDS, STEP bytes from byte `at` of each. The two
                operands are alike, so any order of the reduction inside STEP is right that both share
      multiply  sums += rows * columns
      row, column  where sum i of this lane lies
  Tiles lie in LDS as rows of KB bytes whose 16-byte chunks are permuted (ckci_k_spot), so that neither the
  stores of a block nor the loads of a wave meet in the banks.
  Sources of the lane layouts: AMD's ISA documents of CDNA 3, RDNA 3 and RDNA 4, NVIDIA's PTX ISA; of gfx125x
  LLVM's builtins and Triton's layout of WMMA version 3.
*/
#pragma once
#include "kernels/prim.h"

#if defined(CKCI_SIMULATOR)
#define CKCI_K_MFMA 1
#define CKCI_K_WMMA 1
#define CKCI_K_WMMA12 1
#define CKCI_K_WMMA32 1
#define CKCI_K_MMA 1
#define CKCI_K_WGMMA 1
#elif CKCI_K_UNIT >= CKCI_K_UNIT_CDNA1 && CKCI_K_UNIT <= CKCI_K_UNIT_CDNA4
#define CKCI_K_MFMA 1
#elif CKCI_K_UNIT == CKCI_K_UNIT_RDNA3
#define CKCI_K_WMMA 1
#elif CKCI_K_UNIT == CKCI_K_UNIT_RDNA4
#define CKCI_K_WMMA12 1
#elif CKCI_K_UNIT == CKCI_K_UNIT_GFX125
#define CKCI_K_WMMA12 1
#define CKCI_K_WMMA32 1
#elif defined(__CUDACC__) && !defined(__HIP__) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800)
#define CKCI_K_MMA 1 /* on the host too: a launch needs the size of shared memory */
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define CKCI_K_WGMMA 1
#endif
#endif

/* Units that the target may not have: their names stand in every list of a kernel's bodies. */
struct ckci_k_mfma;
struct ckci_k_mfma16;
struct ckci_k_mfma_direct;
struct ckci_k_mma;
struct ckci_k_mma_groups;
template <int GFX> struct ckci_k_wmma;

/* A kernel's body with the unit of the target; without one it is empty, and no plan takes it. Wgmma: where
   groups of waves multiply. (The simulator's, which asks when it runs, is in kernels/prim.h.) */
#if defined(CKCI_SIMULATOR)
#elif defined(CKCI_K_MFMA)
template <class Mfma, class, class, class Mma, class = Mma> struct ckci_k_by_unit : Mfma {
};
#elif defined(CKCI_K_WMMA)
template <class, class Wmma, class, class Mma, class = Mma> struct ckci_k_by_unit : Wmma {
};
#elif defined(CKCI_K_WMMA12)
template <class, class, class Wmma12, class Mma, class = Mma> struct ckci_k_by_unit : Wmma12 {
};
#elif defined(CKCI_K_WGMMA)
template <class, class, class, class Mma, class Wgmma = Mma> struct ckci_k_by_unit : Wgmma {
};
#elif defined(CKCI_K_MMA)
template <class, class, class, class Mma, class = Mma> struct ckci_k_by_unit : Mma {
};
#else
template <class, class, class, class Mma, class = Mma> struct ckci_k_by_unit : ckci_k_nothing {
};
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

/* The same unit in blocks of so many threads. */
template <class U, int COUNT> struct ckci_k_wide : U {
    enum { THREADS = COUNT };
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

/* The same place in row H of eight rows of 64 bytes, of whose first, a multiple of eight, it is `at`. */
template <int H> CKCI_K_FN int ckci_k_spot_of_eight(int at)
{
    return at ^ (H * 64 | (H >> 1) * 16);
}

#if defined(CKCI_SIMULATOR) || CKCI_K_UNIT == CKCI_K_UNIT_CDNA3
#define CKCI_K_XF32 1
#else
#define CKCI_K_XF32 0
#endif

/* Are there loads that turn (>>k-chunks)? Clang knows them from 19 on. */
#define CKCI_K_TURNED 0
#if defined(CKCI_SIMULATOR)
#undef CKCI_K_TURNED
#define CKCI_K_TURNED 1
#elif CKCI_K_UNIT == CKCI_K_UNIT_RDNA4 && defined(__HIP_DEVICE_COMPILE__)
#if __has_builtin(__builtin_amdgcn_global_load_tr_b128_v8i16)
#undef CKCI_K_TURNED
#define CKCI_K_TURNED 1
#endif
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
    enum {
        THREADS = 256, /* of a block */
        M = MN,
        N = MN,
        STEP = 32,
        SUMS = S,
        KB = 64,
        ASYNC = 0,  /* threads copy chunks from memory into LDS (NVIDIA), */
        DIRECT = 0, /* waves do */
        SIZE = CKCI_K_HALF
    };
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
