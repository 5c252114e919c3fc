/*------------------------------------------------------------------------------------------------------------
  >>k-matrix-by-unit
  The kernels on matrix units, with the unit of the target; where there is none they are empty, and no plan
  takes them. A row of the table names a body and a tile; here it gets the unit, the loop (fragments, or
  groups of waves on sm_90a) and its LDS. A device's compiler knows the unit, the simulator asks for it when
  it runs.
*/
#pragma once
#include "kernels/matrix/fragments.h"
#include "kernels/matrix/weight.h"
#include "kernels/matrix/near_gather.h"

/* ---- The kernels, with the unit U of the target; elsewhere than ON they are empty, and no plan takes them.
   F: the tile loop, of fragments or of groups of waves. unit: U itself, or what computes i8 or f32 on it. */
enum {
    CKCI_K_ON_CDNA3 = 1, /* and before */
    CKCI_K_ON_CDNA4 = 8,
    CKCI_K_ON_RDNA4 = 16, /* alone of RDNA */
    CKCI_K_ON_CDNA = CKCI_K_ON_CDNA3 | CKCI_K_ON_CDNA4,
    CKCI_K_ON_RDNA = 2,
    CKCI_K_ON_NVIDIA = 4,
    CKCI_K_ON_ALL = CKCI_K_ON_CDNA | CKCI_K_ON_RDNA | CKCI_K_ON_NVIDIA,
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
    enum { GROUPS = BM >= 128 && BN >= 64, ACROSS = 0, WEIGHT = 0, WIDE = 0, DIRECT = BM >= 64 && BN >= 64 };

    template <class U, class F, class L> static CKCI_K_MEMBER void with(const ckci_gpu_conv &p, L &m)
    {
        ckci_k_matrix_gather_run<F, ckci_k_gather_chunks<U, BM, BN, 0>, BM, BN>(p, m);
    }
};

/* The same in other types: on Unit<U>, where ON says. */
template <template <class> class Unit, int WHERE, int BM, int BN> struct ckci_k_matrix_gather_by {
    enum { GROUPS = 0, ACROSS = 0, WEIGHT = 0, WIDE = 0, DIRECT = 0, ON = WHERE };
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
    enum { GROUPS = BM >= 128 && BN >= 64, ACROSS = 2, WEIGHT = 0, WIDE = 0, DIRECT = BM >= 64 && BN >= 64 };

    template <class U, class F, class L> static CKCI_K_MEMBER void with(const ckci_gpu_conv &p, L &m)
    {
        ckci_k_matrix_gather_run<F, ckci_k_gather_chunks<U, BM, BN, 1>, BM, BN>(p, m);
    }
};

template <class U, int BM, int BN, int ASYNC, int DIRECT> struct ckci_k_weight_loader {
    typedef ckci_k_weight_chunks<U, BM, BN> type;
};
template <class U, int BM, int BN> struct ckci_k_weight_loader<U, BM, BN, 0, 1> {
    typedef ckci_k_weight_lines<U, BM, BN> type;
};
#if defined(CKCI_K_MMA)
template <class U, int BM, int BN> struct ckci_k_weight_loader<U, BM, BN, 1, 0> {
    typedef ckci_k_weight_slabs<BM, BN> type;
};
#endif

template <int BM, int BN> struct ckci_k_matrix_weight : ckci_k_matrix_halves {
    enum {
        GROUPS = BM >= 64 && BN >= 128,
        ACROSS = BM > 128 ? 3 : 1,
        WEIGHT = 1,
        WIDE = 0,
        DIRECT = BM >= 64 && BN >= 64
    };

    template <class U, class F, class L> static CKCI_K_MEMBER void with(const ckci_gpu_conv &p, L &m)
    {
        typedef typename ckci_k_weight_loader<U, BM, BN, U::ASYNC, U::DIRECT>::type loader;
        ckci_k_matrix_weight_run<F, loader, BM, BN>(p, m);
    }
};

/* The same in other types, as ckci_k_matrix_gather_by. */
template <template <class> class Unit, int WHERE, int BM, int BN> struct ckci_k_matrix_weight_by {
    enum { GROUPS = 0, ACROSS = 0, WEIGHT = 1, WIDE = 0, DIRECT = 0, ON = WHERE };
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

/* The same three in wide tiles, of CDNA alone: plain steps only. Those that read across are CDNA 4's: waves
   fill their tiles. */
template <template <int, int> class Body, int BM, int BN, int WHERE> struct ckci_k_wide_of : Body<BM, BN> {
    enum { GROUPS = 0, WIDE = 1, ON = WHERE };
    template <class U> using unit = ckci_k_wide<U, CKCI_WIDE_THREADS(BM, BN)>;
};
template <int BM, int BN>
struct ckci_k_matrix_wide : ckci_k_wide_of<ckci_k_matrix_gather, BM, BN, CKCI_K_ON_CDNA> {
};
template <int BM, int BN>
struct ckci_k_matrix_wide_back : ckci_k_wide_of<ckci_k_matrix_back, BM, BN, CKCI_K_ON_CDNA4> {
};
template <int BM, int BN>
struct ckci_k_matrix_wide_weight : ckci_k_wide_of<ckci_k_matrix_weight, BM, BN, CKCI_K_ON_CDNA4> {
};

template <template <int, int> class Body, int BM, int BN> struct ckci_k_matrix {
    typedef Body<BM, BN> body;
    template <class U> using unit_of = typename body::template unit<U>;
    enum {
        LARGE = BM > 128 || BN > 128,
        ACROSS = body::ACROSS == 3 ? 1 : +body::ACROSS, /* of fragments */
        ON = body::WIDE          ? +body::ON
             : LARGE             ? +CKCI_K_ON_NVIDIA
             : body::ACROSS != 2 ? +body::ON
             : body::DIRECT      ? CKCI_K_ON_NVIDIA | CKCI_K_ON_CDNA4 | CKCI_K_ON_RDNA4
                                 : +CKCI_K_ON_NVIDIA,
        NO_TILE = body::WIDE ? 128 : 64 /* what an empty kernel names */
    };

#if defined(CKCI_SIMULATOR)
    struct lds {
    };

    template <class U, class F> static void with(const ckci_gpu_conv &p)
    {
        typedef typename ckci_k_matrix_room<F::BYTES, BM, body::WEIGHT * U::KB / U::SIZE,
                                            body::GROUPS && !body::WEIGHT ? BN : 0>::type bytes;
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
                with_mfma(p);
            }
        }
        if constexpr ((ON & CKCI_K_ON_RDNA) != 0) {
            if (kind == SIM_WMMA) {
                fragments<ckci_k_wmma<11>, 0>(p);
            } else if (kind == SIM_WMMA12 && sim_unit_number() == CKCI_UNIT_GFX125) {
                fragments<ckci_k_wmma32, 0>(p);
            }
        }
        if constexpr ((ON & (CKCI_K_ON_RDNA | CKCI_K_ON_RDNA4)) != 0) {
            if (kind == SIM_WMMA12 && sim_unit_number() != CKCI_UNIT_GFX125) {
                fragments<ckci_k_wmma<12>, 0>(p);
            }
        }
        if constexpr ((ON & CKCI_K_ON_NVIDIA) != 0) {
            with_groups(p, kind);
        }
    }

    static void with_mfma(const ckci_gpu_conv &p)
    {
        if constexpr (body::DIRECT) {
            if (sim_unit_number() == CKCI_UNIT_CDNA4) {
                fragments<ckci_k_mfma_direct, ACROSS>(p);
                return;
            }
        }
        if constexpr ((ON & CKCI_K_ON_CDNA3) != 0) {
            fragments<ckci_k_mfma, 0>(p);
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
    typedef unit_of<typename ckci_k_mfma_of<body::DIRECT>::type> unit;
#if CKCI_K_UNIT == CKCI_K_UNIT_CDNA4
    enum { EMPTY = (ON & CKCI_K_ON_CDNA4) == 0 };
#else
    enum { EMPTY = (ON & CKCI_K_ON_CDNA3) == 0 };
#endif
#elif defined(CKCI_K_WMMA)
    typedef unit_of<ckci_k_wmma<11>> unit;
    enum { EMPTY = (ON & CKCI_K_ON_RDNA) == 0 };
#elif defined(CKCI_K_WMMA32)
    typedef unit_of<ckci_k_wmma32> unit;
    enum { EMPTY = (ON & CKCI_K_ON_RDNA) == 0 };
#else
    typedef unit_of<ckci_k_wmma<12>> unit;
    enum { EMPTY = (ON & (CKCI_K_ON_RDNA | CKCI_K_ON_RDNA4)) == 0 };
#endif
    typedef ckci_k_fragments<unit, EMPTY ? +NO_TILE : BM, EMPTY ? +NO_TILE : BN, unit::DIRECT ? +ACROSS : 0>
        tile;
    typedef ckci_k_matrix_lds<EMPTY ? 16
                              : body::WEIGHT ? +tile::SUMS_BYTES
                                             : +tile::BYTES,
                              EMPTY || (body::WEIGHT != 0 && body::ACROSS != 0) ? 1 : BM,
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
    typedef ckci_k_fragments<unit, EMPTY ? +NO_TILE : BM, EMPTY ? +NO_TILE : BN, ACROSS> fragments;
    enum {
        STRIPS = EMPTY ? 0 : BM * (BN + 4) * 4,
        TILES = body::GROUPS ? CKCI_GROUP_STAGES(BM + BN) * (BM + BN) * 128 : 0,
        LEAST = TILES > fragments::BYTES ? +TILES : +fragments::BYTES,
        BYTES = body::GROUPS && STRIPS > LEAST ? +STRIPS : +LEAST
    };
    typedef typename ckci_k_matrix_room<BYTES, BM, body::WEIGHT * unit::KB / unit::SIZE,
                                        body::GROUPS && !body::WEIGHT ? BN : 0>::type lds;

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
template <> struct ckci_k_resident<ckci_k_matrix<ckci_k_matrix_weight, 32, 128>> {
    enum { BLOCKS = 3 };
};
template <> struct ckci_k_resident<ckci_k_matrix<ckci_k_matrix_weight, 64, 64>> {
    enum { BLOCKS = 3 };
};
template <> struct ckci_k_resident<ckci_k_matrix<ckci_k_matrix_single_weight, 64, 64>> {
    enum { BLOCKS = 3 };
};
#endif

/* Three blocks of 128 x 128, as LDS has room for; without the wish compilers take registers of two. With it
   clang 15 spills what bwd_weight adds: two blocks. */
#if CKCI_K_UNIT == CKCI_K_UNIT_CDNA3 || (CKCI_K_UNIT == CKCI_K_UNIT_CDNA2 && __clang_major__ > 15)
template <> struct ckci_k_together<ckci_k_matrix<ckci_k_matrix_weight, 128, 128>> {
    enum { WAVES = 3 };
};
#endif
#if CKCI_K_UNIT == CKCI_K_UNIT_CDNA2
template <> struct ckci_k_together<ckci_k_matrix<ckci_k_matrix_gather, 128, 128>> {
    enum { WAVES = 3 };
};
template <> struct ckci_k_together<ckci_k_matrix<ckci_k_matrix_single, 128, 128>> {
    enum { WAVES = 3 };
};
template <> struct ckci_k_together<ckci_k_matrix<ckci_k_matrix_whole, 128, 128>> {
    enum { WAVES = 3 };
};
#endif

#if defined(CKCI_K_MFMA) && CKCI_K_UNIT != CKCI_K_UNIT_CDNA1
template <int BM, int BN> struct ckci_k_together<ckci_k_matrix<ckci_k_matrix_wide, BM, BN>> {
    enum { WAVES = 2 };
};
template <int BM, int BN> struct ckci_k_together<ckci_k_matrix<ckci_k_matrix_wide_weight, BM, BN>> {
    enum { WAVES = 2 };
};
#endif

/* Body: ckci_k_near, ckci_k_near_down or ckci_k_near_weight. */
template <template <class, int> class Body, int Q>
struct ckci_k_matrix_near : ckci_k_by_unit<Body<ckci_k_mfma16, Q>, Body<ckci_k_wmma<11>, Q>,
                                           Body<ckci_k_wmma<12>, Q>, Body<ckci_k_mma, Q>> {
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
