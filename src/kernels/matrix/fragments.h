/*------------------------------------------------------------------------------------------------------------
  >>k-matrix-fragments
  The tile loop of waves that own fragments: operands come through LDS, in steps of KB bytes, double buffered.
  It knows a unit (>>k-unit) and a loader, which brings rows and columns of any pass, and owns the sums of a
  tile until finish() hands them on, through LDS, so that stores are long. Sums are added in the order of the
  steps. A loader that is BESIDE looks at each tile, too: bwd_weight's sums rows of dout for dbias.
*/
#pragma once
#include "kernels/chunks.h"

/* In which order finish() hands sums on: eights of columns, single ones of rows, eights of rows (planes). */
enum { CKCI_K_FINISH_LINES, CKCI_K_FINISH_ROWS, CKCI_K_FINISH_PLANES };
/* sm_90a: two more pointers are more than the registers of three blocks, and it has tiles of the TMA. */
#if defined(CKCI_K_WGMMA) && !defined(CKCI_SIMULATOR)
enum { CKCI_K_FINISHES_PLANES = 0 };
#else
enum { CKCI_K_FINISHES_PLANES = 1 };
#endif

/* A block's tile: U's fragments in TM x TN per wave, waves in WM x WN. Both operands lie in one tile, rows of
   the first, then of the second; ACROSS (1: both, 2: the second): in slabs of 64 rows, whose rows in LDS are
   places of the reduction. */
template <class U, int BM, int BN, int ACROSS> struct ckci_k_grid {
    enum {
        THREADS = U::THREADS,
        WIDE = BM * BN > 128 * 128,
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
        STAGES = U::ASYNC    ? 3
                 : U::DIRECT ? CKCI_DIRECT_STAGES(BM + BN)
                             : 1,
        STRIP = COLUMNS < 32        ? COLUMNS /* columns that pass through LDS together */
                : COLUMNS % 32 == 0 ? 32
                                    : 16,
        PITCH = STRIP + 4,
        /* Of planes: rows of a strip, columns of as many sums, and from column to column. 32 rows of f16 fill
           lines of AMD's. */
        SHIFT = U::ASYNC || U::SIZE == 8 || (U::WAVE == 32 && U::SIZE == 4),
        BELOW = !SHIFT && U::M == 16 && STRIP == 32 && TM % 2 == 0,
        DOWN = BELOW ? 32 : +U::M,
        ALONG = U::M * STRIP / DOWN,
        PLANE_PITCH = U::ASYNC || ALONG <= DOWN ? DOWN + 4 : +DOWN,
        PLANES = U::SIZE != 8 && CKCI_K_FINISHES_PLANES,
        STRIPS = WAVES * U::M * PITCH * (int)sizeof(typename U::number),
        BYTES = STAGES * TILE > STRIPS ? STAGES *TILE : STRIPS,
        DENSE = WAVES * U::M * STRIP * (int)sizeof(typename U::number), /* finish<4> */
        DENSE_BYTES = STAGES * TILE > DENSE ? STAGES *TILE : DENSE
    };
    static_assert(TM >= 1 && TN >= 1 && STRIP % U::N == 0, "a wave owns at least one fragment");
    static_assert(!PLANES || WAVES * ALONG * PLANE_PITCH * (int)sizeof(typename U::number) <= BYTES,
                  "strips of planes have room where others have");
};

/* The tile loop. ASYNC: the block's copies into LDS are two steps ahead, one barrier for each step. Else a
   tile lies in LDS, the next in registers: once all waves hold the first as operands, the second replaces it
   and the loads of the third begin; two barriers for each step, with the multiplications around the first. */
template <class U, int BM, int BN, int ACROSS> struct ckci_k_fragments {
    typedef ckci_k_grid<U, BM, BN, ACROSS> G;
    enum {
        KB = U::KB,
        BYTES = G::BYTES,
        THREADS = G::THREADS,
        SIXTEEN = 0,
        PLANES = G::PLANES,
        SUMS_WIDE = U::ASYNC ? 8 : 4,
        SUMS_BYTES = U::ASYNC ? G::BYTES : G::DENSE_BYTES, /* of bwd_weight: finish<SUMS_WIDE> */
        SIZE = U::SIZE
    };
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
        } else if (loader.plain()) {
            if constexpr (Loader::DIRECT > 0) {
                direct<T, 1>(tiles, loader, steps);
            } else {
                beside<T, 1>(tiles, loader, steps);
            }
        } else if constexpr (Loader::DIRECT == 2) {
            direct<T, 0>(tiles, loader, steps);
        } else if constexpr (!G::WIDE && ACROSS != 2 && Loader::DIRECT >= 0) { /* others: plain steps only */
            beside<T, 0>(tiles, loader, steps);
        }
    }

    /* A loop of its own where the loader looks at tiles, lest the others' be cut in pieces. */
    template <class T, int PLAIN, class Loader>
    CKCI_K_MEMBER void beside(unsigned char *tile, Loader &loader, int32_t steps)
    {
        if constexpr (Loader::BESIDE) {
            if (loader.looks()) {
                behind<T, PLAIN, 1>(tile, loader, steps);
                return;
            }
        }
        behind<T, PLAIN, 0>(tile, loader, steps);
    }

    /* A loader looks SEGMENT steps ahead (0: has nothing to look up) each time that next() is called. */
    template <class T, int PLAIN, int LOOKS, class Loader>
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
                step<T, PLAIN, LOOKS>(tile, loader, s);
            }
        }
    }

    template <class T, int PLAIN, int LOOKS, class Loader>
    CKCI_K_MEMBER void step(unsigned char *tile, Loader &loader, int32_t s)
    {
        enum { SLICES = U::KB / U::STEP };
        if constexpr (LOOKS) {
            loader.template beside<T>(tile, s);
        }
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
        if constexpr (G::WIDE) { /* another block's waves, or this one's other half, load meanwhile */
            ckci_k_priority<1>();
            multiply<T>(a[SLICES - 1], b[SLICES - 1]);
            ckci_k_priority<0>();
        } else {
            multiply<T>(a[SLICES - 1], b[SLICES - 1]);
        }
        ckci_k_lds_barrier();
    }

    /* Waves fill tiles, STAGES - 1 steps ahead. A step has two phases: operands from LDS to registers, while
       the copies of a later step begin; then products of registers alone. Where a block has eight waves, the
       second four run a phase behind the first, so that of the two on a SIMD one loads while the other
       multiplies; else another block's wave does. A tile is filled again after a barrier behind the last
       phase that read it, and read after a barrier behind which all waves' copies into it have arrived. */
    template <class T, int PLAIN, class Loader>
    CKCI_K_MEMBER void direct(unsigned char *tiles, Loader &loader, int32_t steps)
    {
        enum {
            SLICES = U::KB / U::STEP,
            HALVES = G::WAVES / 4,
            AHEAD = G::STAGES - 1,
            LEFT = (AHEAD - 1) * Loader::LOADS, /* copies that a wave may still wait for */
            LAST = AHEAD * G::TILE
        };
        static_assert(HALVES <= 2 && AHEAD >= 2, "a tile is not filled while the other half reads it");
        const bool second = HALVES == 2 && ckci_k_same((int32_t)threadIdx.x / 256) > 0;
        loader.template begin<PLAIN>();
        CKCI_K_UNROLL(4)
        for (int i = 0; i < AHEAD; i++) {
            loader.template fill<PLAIN>(i, tiles + i * G::TILE);
        }
        ckci_k_direct_barrier<LEFT>();
        if (second) {
            ckci_k_direct_barrier<LEFT>();
        }
        int32_t full = 0, empty = LAST;
        for (int32_t s = 0; s < steps;) {
            int32_t end = steps;
            if constexpr (Loader::SEGMENT > 0) {
                loader.next(s);
                end = s + Loader::SEGMENT < steps ? s + Loader::SEGMENT : steps;
            }
            CKCI_K_UNROLL(1)
            for (; s < end; s++) {
                typename U::operand a[SLICES][G::TM], b[SLICES][G::TN];
                CKCI_K_UNROLL(4)
                for (int k = 0; k < SLICES; k++) {
                    operands(tiles + full, k * U::STEP, a[k], b[k]);
                }
                if constexpr (Loader::BESIDE) {
                    loader.template beside<T>(tiles + full, s);
                }
                loader.template fill<PLAIN>(s + AHEAD, tiles + empty);
                if constexpr (HALVES == 2) {
                    ckci_k_direct_barrier<LEFT>();
                }
                ckci_k_priority<1>();
                CKCI_K_UNROLL(4)
                for (int k = 0; k < SLICES; k++) {
                    multiply<T>(a[k], b[k]);
                }
                ckci_k_priority<0>();
                ckci_k_direct_barrier<LEFT>();
                full = full == LAST ? 0 : full + G::TILE;
                empty = empty == LAST ? 0 : empty + G::TILE;
            }
        }
        if (HALVES == 2 && !second) {
            ckci_k_direct_barrier<0>();
        }
        ckci_k_direct_barrier<0>();
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
                if constexpr (Loader::BESIDE) {
                    loader.template beside<T>(tiles + full, s);
                }
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
       neighbouring outputs. out(row, column, v, count): sums of `count` columns, 1 or WIDE, or of eight rows:
       then columns lie in LDS as rows do otherwise, of DOWN sums, and are read the same way. (RDNA's and
       NVIDIA's lanes write them to all banks once; of CDNA's, which have neighbouring rows, eight meet in
       one, where two must: 16 bytes at a time they would not, but for that compilers move all sums.)
       The code of out stands once: sums move up a strip (SHIFT) where the compiler would otherwise index
       them, in memory or by long tests. */
    template <int WIDE, int MAY_PLANES = 0, class Out>
    CKCI_K_MEMBER void finish(unsigned char *tiles, int32_t order, Out out)
    {
        enum {
            PER = G::STRIP / U::N,
            EACH = G::TN / PER, /* strips side by side */
            STRIPS = G::TM * EACH,
            PITCH = WIDE == 4 ? +G::STRIP : +G::PITCH, /* so that reads do not meet in the banks */
            APART = U::DIRECT && WIDE == 8 && G::STRIP == 32,
            BELOW = MAY_PLANES && G::BELOW,
            TURNED = MAY_PLANES && !BELOW && !G::SHIFT, /* strips may be */
            PLANES_EACH = G::TN * U::N / G::ALONG
        };
        const bool rows_fast = order == CKCI_K_FINISH_ROWS;
        const bool planes = MAY_PLANES && order == CKCI_K_FINISH_PLANES;
        const int pitch = planes ? +G::PLANE_PITCH : +PITCH, line = (planes ? +G::DOWN : +G::STRIP) / WIDE;
        int wave = (int)threadIdx.x / U::WAVE, lane = (int)threadIdx.x % U::WAVE;
        number *strip = (number *)tiles + wave * (planes ? G::ALONG * G::PLANE_PITCH : U::M * PITCH);
        int row0 = wave / G::WN * G::ROWS, column0 = wave % G::WN * G::COLUMNS;
        /* APART, CDNA 4: the line of four lanes among 16; the sixteen that read together meet in no bank */
        const int four = lane / 4, apart = (four >> 2 & 1) | ((four ^ four >> 1 ^ four >> 2) & 1) << 1 |
                                           (four >> 3) << 2 | (four >> 1 & 1) << 3;
        CKCI_K_UNROLL(1)
        for (int n = 0; n < STRIPS; n++) {
            ckci_k_lds_barrier();
            const int down = TURNED ? ckci_k_uniform_again(planes ? 1 : +PITCH) : +PITCH;
            const int along = TURNED && planes ? +G::PLANE_PITCH : 1;
            if constexpr (G::SHIFT) {
                if (planes) {
                    put<0>(strip, 0, 1, G::PLANE_PITCH);
                } else {
                    put<0>(strip, 0, PITCH, 1);
                }
                shift_strips();
            } else if (BELOW && planes) {
                CKCI_K_UNROLL(16)
                for (int k = 0; k < STRIPS; k++) {
                    if (k == n) {
                        put<BELOW>(strip, k, 1, G::PLANE_PITCH);
                    }
                }
            } else {
                CKCI_K_UNROLL(16)
                for (int k = 0; k < STRIPS; k++) {
                    if (k == n) {
                        put<0>(strip, k, down, along);
                    }
                }
            }
            ckci_k_lds_barrier();
            int row = row0 + (planes ? n / PLANES_EACH * G::DOWN : n / EACH * U::M);
            int column = column0 + (planes ? n % PLANES_EACH * G::ALONG : n % EACH * G::STRIP);
            int count = rows_fast ? 1 : WIDE;
            CKCI_K_UNROLL(1)
            for (int e = lane; e < U::M * G::STRIP / count; e += U::WAVE) {
                int r = rows_fast ? e % U::M : APART ? apart + (e - lane) / 4 : e / line;
                int c = rows_fast ? e / U::M : e % line * WIDE;
                out(row + (planes ? c : r), column + (planes ? r : c), strip + r * pitch + c, count);
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

    /* Strip n to LDS, where rows are `down` numbers apart, columns `along`: of fragments side by side, or, as
       many, BELOW each other. */
    template <int BELOW> CKCI_K_MEMBER void put(number *strip, int n, int down, int along) const
    {
        enum { PER = G::STRIP / U::N, EACH = G::TN / PER };
        /* what all of a lane's sums have in common; AMD has no register for it beside them */
        const int row0 = U::ASYNC ? U::row(0) : 0, column0 = U::ASYNC ? U::column(0) : 0;
        strip += row0 * down + column0 * along;
        CKCI_K_UNROLL(8)
        for (int s = 0; s < PER; s++) {
            const int i = BELOW ? n / G::TN * PER + s : n / EACH, j = BELOW ? n % G::TN : n % EACH * PER + s;
            const int row = BELOW ? s * U::M : 0, column = BELOW ? 0 : s * U::N;
            CKCI_K_UNROLL(16)
            for (int e = 0; e < U::SUMS; e++) {
                const int r = row + U::row(e) - row0, c = column + U::column(e) - column0;
                strip[r * down + c * along] = sum[i][j].v[e];
            }
        }
    }
};
