/*------------------------------------------------------------------------------------------------------------
  >>k-pair-product
  The second convolution of a pair on a matrix unit: its weights on their way to LDS, products of mid and
  those. mid lies in LDS in slabs, whichever first convolution put it there. Weights come one step ahead,
  across tiles too. Every output is one sum in a fixed order, of one wave, and leaves through LDS so that
  stores are 16 bytes.
*/
#pragma once
#include "kernels/unit/mma.h"
#include "kernels/matrix/groups.h"

/* ---- On matrix units: f16 and bf16, channels last, a depthwise or a small pointwise first convolution, a
   pointwise second one. A block owns P positions of the result and all of its channels (or a slice). mid of
   these positions in all channels lies in LDS, in slabs of KB bytes of each row, as the unit's operands. It
   is multiplied with tiles of so many rows of the second weights, slab after slab; these are loaded one step
   ahead, across tiles too. Sums pass through LDS on their way out, each
   wave's through its own part, so that each store is 16 bytes. Every output is one sum in a fixed order. */

/* Rows of the second weights, COLUMNS of them in a tile: [tile][slab], one after the other, on their way to
   one of two places. */
template <class U, int THREADS, int COLUMNS> struct ckci_k_pair_weights {
    enum {
        KB = U::KB,
        SLAB = KB / 2,
        CHUNKS = KB / 16,
        EACH = THREADS / CHUNKS, /* rows that the block handles at a time */
        B = COLUMNS / EACH,
        TILE = COLUMNS * KB
    };
    static_assert(B >= 1, "all threads load");

    int32_t from[2]; /* the weights' address: a window takes four scalar registers, for long */
    ckci_k_uint4 raw[B];
    int32_t steps, slabs, columns, channels, column_step; /* of the tiles that are being multiplied */
    int32_t stage;                                        /* where the weights of the next step lie: 0, 1 */
    bool there;                                           /* all that the next region needs lie in LDS */

    CKCI_K_MEMBER void begin(const ckci_gpu_conv &p, int32_t column, int32_t count)
    {
        const uint64_t at = (uint64_t)(uintptr_t)(p.b.p + CKCI_K_HALF * (column * p.b_column));
        from[0] = ckci_k_lane_afresh((int32_t)(uint32_t)at);
        from[1] = ckci_k_lane_afresh((int32_t)(uint32_t)(at >> 32));
        columns = ckci_k_lane_afresh(count);
        channels = ckci_k_lane_afresh(p.red);
        column_step = ckci_k_lane_afresh(CKCI_K_HALF * (int32_t)p.b_column);
        slabs = (p.red + SLAB - 1) / SLAB;
        steps = (count + COLUMNS - 1) / COLUMNS * slabs;
        stage = 0;
        there = false;
    }

    /* Slab `slab` of tile `tile`: copied into LDS, or under way in registers. */
    CKCI_K_MEMBER void fetch(int32_t tile, int32_t slab, unsigned char *to)
    {
        const int32_t chunk = (int32_t)threadIdx.x % CHUNKS, lane = (int32_t)threadIdx.x / CHUNKS;
        const int32_t channel = slab * SLAB + chunk * 8;
        const ckci_k_window weights = ckci_k_make_window(
            (const unsigned char *)(uintptr_t)((uint64_t)(uint32_t)from[1] << 32 | (uint32_t)from[0]));
        CKCI_K_UNROLL(4)
        for (int i = 0; i < B; i++) {
            int32_t row = lane + i * EACH, column = tile * COLUMNS + row;
            bool good = channel < channels && column < columns;
            int32_t at = good ? column * column_step + channel * CKCI_K_HALF : INT32_MIN;
            if constexpr (U::ASYNC) {
#if defined(CKCI_K_MMA)
                ckci_k_copy(to + ckci_k_spot<KB>(row, chunk), weights, good ? at : 0, good ? 16 : 0);
#endif
            } else {
                raw[i] = ckci_k_window_load(weights, at);
            }
        }
#if defined(CKCI_K_MMA)
        if constexpr (U::ASYNC) {
            ckci_k_copies_end();
        }
#endif
        (void)to;
    }

    /* The first ones, ahead of run; ahead: steps that are to be multiplied before them, 0 or 1. */
    CKCI_K_MEMBER void fetch_first(unsigned char *tiles, int32_t ahead = 0)
    {
        if (U::ASYNC && !there) {
            fetch(0, 0, tiles + (stage ^ ahead) * TILE);
        }
    }

    CKCI_K_MEMBER void put(unsigned char *to) const
    {
        const int32_t chunk = (int32_t)threadIdx.x % CHUNKS, lane = (int32_t)threadIdx.x / CHUNKS;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < B; i++) {
            *(ckci_k_uint4 *)(to + ckci_k_spot<KB>(lane + i * EACH, chunk)) = raw[i];
        }
    }
};

/* Products of mid and those tiles: waves own 32 rows each. */
template <class E, class U, int P, int THREADS, int COLUMNS>
struct ckci_k_pair_product : ckci_k_pair_weights<U, THREADS, COLUMNS> {
    typedef ckci_k_pair_weights<U, THREADS, COLUMNS> rows;
    using rows::stage, rows::there, rows::steps, rows::slabs, rows::TILE, rows::KB;
    enum {
        WAVES = THREADS / U::WAVE,
        ACROSS = WAVES / (P / 32), /* waves side by side */
        TM = 32 / U::M,
        TN = COLUMNS / ACROSS / U::N,
        STRIP = THREADS > 256 ? 16 : 32, /* columns that pass through LDS together */
        ROOM = WAVES * U::M * STRIP * 4
    };
    static_assert(TM >= 1 && TN * U::N % STRIP == 0, "whole fragments and strips");
    static_assert(2 * TILE <= ROOM || U::ASYNC, "where weights come through registers, they share the room");

    typename U::sums sum[TM][TN];

    CKCI_K_MEMBER void multiply(const unsigned char *slab, const unsigned char *tile)
    {
        int wave = (int)threadIdx.x / U::WAVE, row = wave / ACROSS * 32,
            column = wave % ACROSS * (COLUMNS / ACROSS);
        CKCI_K_UNROLL(8)
        for (int at = 0; at < U::KB; at += U::STEP) {
            typename U::operand a[TM], b[TN];
            CKCI_K_UNROLL(8)
            for (int i = 0; i < TM; i++) {
                a[i] = U::load(slab, row + i * U::M, at);
            }
            CKCI_K_UNROLL(8)
            for (int j = 0; j < TN; j++) {
                b[j] = U::load(tile, column + j * U::N, at);
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < TM; i++) {
                CKCI_K_UNROLL(8)
                for (int j = 0; j < TN; j++) {
                    U::template multiply<E>(sum[i][j], a[i], b[j]);
                }
            }
        }
    }

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < TM * TN; i++) {
            CKCI_K_UNROLL(16)
            for (int e = 0; e < U::SUMS; e++) {
                sum[i / TN][i % TN].v[e] = 0;
            }
        }
    }

    /* All tiles; out(row, column, eight sums in LDS); meanwhile() is called once, before the last products.
       The first fetch is under way, or there for all threads if ready. */
    template <class Out, class Meanwhile>
    CKCI_K_MEMBER void run(const unsigned char *mid, unsigned char *tiles, float *room, bool ready,
                           const Out &out, const Meanwhile &meanwhile)
    {
        int32_t tile = 0, slab = 0;
        stage = there || !U::ASYNC ? 0 : stage;
        if constexpr (!U::ASYNC) {
            this->fetch(0, 0, NULL);
            __syncthreads(); /* others read what lay there */
            this->put(tiles);
        }
        clear();
        CKCI_K_UNROLL(1)
        for (int32_t s = 0; s < steps; s++) {
            const bool last = slab + 1 == slabs;
            const int32_t next_tile = last ? tile + 1 : tile, next = last ? 0 : slab + 1;
            unsigned char *now = tiles + stage * TILE, *other = tiles + (stage ^ 1) * TILE;
            if (!U::ASYNC || s > 0 || !ready) {
                ckci_k_copies_wait<0>();
                __syncthreads();
            }
            if (s + 1 == steps) {
                meanwhile();
            } else if (!there) {
                this->fetch(next_tile, next, other);
            }
            multiply(mid + slab * (P * KB), now);
            if (last) {
                write(room, tile * COLUMNS, out);
                clear();
            }
            if constexpr (!U::ASYNC) {
                if (last) {
                    __syncthreads();
                }
                if (s + 1 < steps) {
                    this->put(other);
                }
            }
            stage ^= 1;
            tile = next_tile;
            slab = next;
        }
    }

    /* Sums through LDS, STRIP columns of M rows for each wave at a time, always from the first sums, which
       the next ones follow, so that `out` stands once; eights of columns are permuted. */
    template <class Out> CKCI_K_MEMBER void write(float *room, int32_t column0, const Out &out)
    {
        enum { EIGHTS = STRIP / 8, HOLDS = STRIP / U::N, STRIPS = TN / HOLDS, ALL = TM * TN };
        int wave = (int)threadIdx.x / U::WAVE, lane = (int)threadIdx.x % U::WAVE;
        float *strip = room + wave * U::M * STRIP;
        column0 = ckci_k_lane_afresh(column0 + wave % ACROSS * (COLUMNS / ACROSS));
        __syncthreads(); /* others multiply: weights may lie in the room, and `out` may write mid */
        CKCI_K_UNROLL(1)
        for (int q = 0; q < TM * STRIPS; q++) {
            ckci_k_wave_barrier();
            CKCI_K_UNROLL(4)
            for (int s = 0; s < HOLDS; s++) {
                CKCI_K_UNROLL(16)
                for (int e = 0; e < U::SUMS; e++) {
                    int row = U::row(e), column = s * U::N + U::column(e);
                    strip[row * STRIP + (column ^ row % EIGHTS * 8)] = sum[0][s].v[e];
                }
            }
            CKCI_K_UNROLL(16)
            for (int s = 0; s + HOLDS < ALL; s++) {
                sum[s / TN][s % TN] = sum[(s + HOLDS) / TN][(s + HOLDS) % TN];
            }
            ckci_k_wave_barrier();
            CKCI_K_UNROLL(1)
            for (int e = lane; e < U::M * EIGHTS; e += U::WAVE) {
                int row = e / EIGHTS, column = e % EIGHTS * 8;
                out(wave / ACROSS * 32 + q / STRIPS * U::M + row, column0 + q % STRIPS * STRIP + column,
                    strip + row * STRIP + (column ^ row % EIGHTS * 8));
            }
        }
    }
};

/* Coordinates of one word: x and y below 512, z and n below 32, each with a guard above it. Compared all at
   once with bounds: a guard tells that a subtraction did not borrow. */
struct ckci_k_pair_fields {
    enum : uint32_t { GUARDS = 0x82080200u, ONES = 0x04100401u, NOTHING = GUARDS - ONES };

    static CKCI_K_MEMBER uint32_t word(int32_t n, int32_t z, int32_t y, int32_t x)
    {
        return (uint32_t)n << 26 | (uint32_t)z << 20 | (uint32_t)y << 10 | (uint32_t)x;
    }

    /* A bound for below: all coordinates are less than these, of which no more than 511 and 31 count. */
    static CKCI_K_MEMBER uint32_t bound(int32_t n, int32_t z, int32_t y, int32_t x)
    {
        return word(clip(n, 31), clip(z, 31), clip(y, 511), clip(x, 511)) + GUARDS - ONES;
    }

    static CKCI_K_MEMBER int32_t clip(int32_t x, int32_t most)
    {
        x = x < most ? x : most;
        return x < 0 ? 0 : x;
    }

    static CKCI_K_MEMBER bool below(uint32_t at, uint32_t bound)
    {
        return ((bound - at) & GUARDS) == GUARDS;
    }

    static CKCI_K_MEMBER bool inside(uint32_t at, uint32_t low, uint32_t bound)
    {
        return (((at | GUARDS) - low) & (bound - at) & GUARDS) == GUARDS;
    }
};

#if defined(CKCI_K_MMA)
/* NVIDIA: sums of a group of four waves, 64 columns of P positions; a wave has 16 of 64 positions. */
template <class E, class U, int P, int HELD> struct ckci_k_pair_group {
    enum { KB = U::KB, STRAIGHT = 0, WIDE = 64 / U::N };
    static_assert(P == 64 && U::M == 16 && U::N == 16, "a wave's rows are one fragment's");
    typename U::sums sum[WIDE];
    int32_t group;

    CKCI_K_MEMBER ckci_k_pair_group()
    {
        group = (int32_t)threadIdx.x / 128;
    }

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < WIDE; i++) {
            CKCI_K_UNROLL(16)
            for (int e = 0; e < U::SUMS; e++) {
                sum[i].v[e] = 0;
            }
        }
    }

    CKCI_K_MEMBER void start()
    {
    }

    CKCI_K_MEMBER void commit()
    {
    }

    CKCI_K_MEMBER void wait()
    {
    }

    CKCI_K_MEMBER void meet() const
    {
    }

    CKCI_K_MEMBER void multiply(const unsigned char *columns, const unsigned char *positions)
    {
        CKCI_K_UNROLL(1)
        for (int at = 0; at < KB; at += U::STEP) {
            const typename U::operand a = U::load(positions, (int)threadIdx.x / 32 % 4 * 16, at);
            CKCI_K_UNROLL(4)
            for (int j = 0; j < WIDE; j++) {
                U::template multiply<E>(sum[j], a, U::load(columns, j * 16, at));
            }
        }
    }

    /* out(position, this group's column, eight sums in LDS); room: of all waves, 1024 bytes each. */
    template <class Out> CKCI_K_MEMBER void write(float *room, const Out &out)
    {
        const int wave = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
        float *strip = room + wave * 256;
        CKCI_K_UNROLL(4)
        for (int q = 0; q < WIDE; q++) {
            ckci_k_wave_barrier();
            CKCI_K_UNROLL(16)
            for (int e = 0; e < U::SUMS; e++) {
                strip[U::row(e) * 16 + U::column(e)] = sum[q].v[e];
            }
            ckci_k_wave_barrier();
            out(wave % 4 * 16 + lane / 2, q * 16 + lane % 2 * 8, strip + lane / 2 * 16 + lane % 2 * 8);
        }
    }
};
#endif

#if defined(CKCI_K_WGMMA)
/* Groups own 64 columns of a tile and all positions. */
struct ckci_k_mma_groups : ckci_k_mma {
};

/* sm_90a: an instruction's rows are columns, as in ckci_k_groups. Sums that need no epilogue are rounded and
   turned in blocks of 8 x 8 on their way to LDS, HELD positions at a time. */
template <class E, int P, int HELD> struct ckci_k_pair_group<E, ckci_k_mma_groups, P, HELD> {
    enum { KB = 128, STRAIGHT = 1 };
    float sum[P / 2];
    int32_t group; /* the same for all of a wave, as compilers see */

    CKCI_K_MEMBER ckci_k_pair_group()
    {
        group = (int32_t)threadIdx.x / 128;
#if defined(__CUDA_ARCH__)
        group = __shfl_sync(0xffffffffu, group, 0);
#endif
    }

    CKCI_K_MEMBER void hold()
    {
#if defined(__CUDA_ARCH__)
        CKCI_K_UNROLL(128)
        for (int i = 0; i < P / 2; i++) {
            asm volatile("" : "+f"(sum[i])::"memory");
        }
#endif
    }

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(128)
        for (int i = 0; i < P / 2; i++) {
            sum[i] = 0;
        }
    }

    /* Products from start() on are under way until wait(). */
    CKCI_K_MEMBER void start()
    {
        hold();
#if defined(__CUDA_ARCH__)
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
    }

    CKCI_K_MEMBER void wait()
    {
#if defined(__CUDA_ARCH__)
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
        hold();
    }

    CKCI_K_MEMBER void commit()
    {
#if defined(__CUDA_ARCH__)
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
    }

    /* 64 channels of 64 columns and P positions, each a row of KB bytes in LDS. */
    CKCI_K_MEMBER void multiply(const unsigned char *columns, const unsigned char *positions)
    {
#if defined(__CUDA_ARCH__)
        const uint32_t a = (uint32_t)__cvta_generic_to_shared(columns) >> 4,
                       b = (uint32_t)__cvta_generic_to_shared(positions) >> 4;
#endif
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
#if defined(CKCI_SIMULATOR)
            sim_wgmma_m64nNk16<E>(sum, columns + i * 32, positions + i * 32, P, false, false);
#else
            ckci_k_multiply_groups<E, P, 0, 0>(sum, ckci_k_describe(a + (uint32_t)i * 2),
                                            ckci_k_describe(b + (uint32_t)i * 2));
#endif
        }
    }

    CKCI_K_MEMBER void meet() const
    {
        ckci_k_meet<128>(1 + group);
    }

    /* place.find(position, at): *at is where this thread's eight columns go, if anywhere. room: of all
       groups. */
    template <class Place> CKCI_K_MEMBER void write16(unsigned char *room, const Place &place)
    {
        const int thread = ckci_k_again((int32_t)threadIdx.x) % 128, lane = thread % 32, r0 = thread / 8,
                  c = thread % 8;
        const int eights = thread / 32 * 2 + lane / 8 % 2, row = lane / 16 * 8 + lane % 8;
        room += group * HELD * 128;
        unsigned char *to = room + row * 128 + (eights ^ (lane & 7)) * 16;
        const unsigned char *mine = room + r0 * 128 + (c ^ (r0 & 7)) * 16;
        CKCI_K_UNROLL(4)
        for (int h = 0; h < P / HELD; h++) {
            CKCI_K_UNROLL(8)
            for (int j = 0; j < HELD / 8; j += 2) {
                const float *from_sum = sum + (h * (HELD / 8) + j) * 4;
                uint32_t two[4];
                CKCI_K_UNROLL(4)
                for (int i = 0; i < 4; i++) {
                    two[i] =
                        ckci_k_two(E::TYPE, ckci_k_bits(from_sum[2 * i]), ckci_k_bits(from_sum[2 * i + 1]));
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
            unsigned char *at[HELD / 16]; /* rows first, then numbers, then stores: none waits for another */
            bool good[HELD / 16];
            ckci_k_uint4 v[HELD / 16];
            CKCI_K_UNROLL(4)
            for (int r = 0; r < HELD / 16; r++) {
                good[r] = place.find((uint32_t)(h * HELD) + r0 + (uint32_t)r * 16, &at[r]);
            }
            meet();
            CKCI_K_UNROLL(4)
            for (int r = 0; r < HELD / 16; r++) {
                v[r] = *(const ckci_k_uint4 *)(mine + r * 16 * 128);
            }
            CKCI_K_UNROLL(4)
            for (int r = 0; r < HELD / 16; r++) {
                if (good[r]) {
                    *(ckci_k_uint4 *)at[r] = v[r];
                }
            }
            if (h + 1 < P / HELD) {
                meet();
            }
        }
    }

    /* out(position, this group's column, eight sums in LDS): 16 positions of a wave's 16 columns together. */
    template <class Out> CKCI_K_MEMBER void write(float *room, const Out &out)
    {
        const int wave = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
        float *strip = room + wave * 256;
        CKCI_K_UNROLL(1)
        for (int q = 0; q < P / 16; q++) {
            ckci_k_wave_barrier();
            CKCI_K_UNROLL(64)
            for (int i = 0; i < P / 2; i++) { /* sums stay where they are */
                if (i / 8 == q) {
                    strip[(i % 8 / 4 * 8 + lane % 4 * 2 + i % 2) * 16 + i % 4 / 2 * 8 + lane / 4] = sum[i];
                }
            }
            ckci_k_wave_barrier();
            out(q * 16 + lane / 2, wave % 4 * 16 + lane % 2 * 8, strip + lane / 2 * 16 + lane % 2 * 8);
        }
    }
};

template <class E, int THREADS, int COLUMNS>
struct ckci_k_pair_product<E, ckci_k_mma_groups, 128, THREADS, COLUMNS>
    : ckci_k_pair_weights<ckci_k_mma, THREADS, COLUMNS> {
    typedef ckci_k_pair_weights<ckci_k_mma, THREADS, COLUMNS> rows;
    using rows::stage, rows::there, rows::steps, rows::slabs, rows::TILE, rows::KB;
    enum { P = 128, GROUPS = THREADS / 128, ROOM = 16384 };
    static_assert(GROUPS * 64 == COLUMNS, "groups own 64 columns");

    ckci_k_pair_group<E, ckci_k_mma_groups, P, ROOM / (GROUPS * 128)> sums;

    template <class Out, class Meanwhile>
    CKCI_K_MEMBER void run(const unsigned char *mid, unsigned char *tiles, float *room, bool ready,
                           const Out &out, const Meanwhile &meanwhile)
    {
        int32_t tile = 0, slab = 0;
        stage = there ? 0 : stage;
        sums.clear();
        CKCI_K_UNROLL(1)
        for (int32_t s = 0; s < steps; s++) {
            const bool last = slab + 1 == slabs;
            const int32_t next_tile = last ? tile + 1 : tile, next = last ? 0 : slab + 1;
            if (s > 0 || !ready) {
                ckci_k_copies_wait<0>();
                ckci_k_proxy_fence();
                __syncthreads();
            }
            if (s + 1 == steps) {
                meanwhile();
            } else if (!there) {
                this->fetch(next_tile, next, tiles + (stage ^ 1) * TILE);
            }
            sums.start();
            sums.multiply(tiles + stage * TILE + sums.group * 64 * KB, mid + slab * (P * KB));
            sums.commit();
            sums.wait();
            if (last) {
                const int32_t column0 = tile * COLUMNS + sums.group * 64;
                if (out.packed) {
                    const typename Out::place place(out, column0 + (int32_t)threadIdx.x % 8 * 8);
                    sums.write16((unsigned char *)room, place);
                } else {
                    sums.write(room,
                               [&](int32_t row, int32_t column, float *v) { out(row, column0 + column, v); });
                }
                sums.clear();
            }
            stage ^= 1;
            tile = next_tile;
            slab = next;
        }
    }
};
#endif
