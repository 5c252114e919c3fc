/*------------------------------------------------------------------------------------------------------------
  >>k-matrix-groups
  The tile loop of >>k-matrix-fragments for groups of four waves (wgmma on sm_90a), which read operands from
  LDS by descriptors; and the choice between both loops by type. Tiles come by copies that do not wait, two or
  more steps ahead, and multiplications run while the next barrier is awaited. Sums stay where the instruction
  puts them; functions that store, add or round them know that order.
*/
#pragma once
#include "kernels/chunks.h"
#include "kernels/store.h"

#if defined(CKCI_K_WGMMA)
/* How an operand lies in LDS whose rows are 64, 32 or 16 places: swizzled by 128, 64 or 32 bytes, as far to
   the next eight rows. */
CKCI_K_FN uint32_t ckci_k_rows_of(int32_t wide)
{
    return (wide == 64 ? 1u : wide == 32 ? 2u : 3u) << 30 | (uint32_t)wide;
}

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
                 : "l"(a), "l"(b), "n"(ACROSS_A), "n"(ACROSS_B))

/* An operand's descriptor: where it begins in LDS (in 16 bytes), and how it goes on: as above, slabs (of 64
   rows or columns, where they lie across) 8192 bytes apart. */
CKCI_K_FN uint64_t ckci_k_describe(uint32_t at, uint32_t rows = 1u << 30 | 64u)
{
    return (uint64_t)rows << 32 | (512u << 16 | at);
}

/* ACROSS: places of the reduction are rows in LDS. */
template <class T, int N, int ACROSS_A, int ACROSS_B>
CKCI_K_FN void ckci_k_multiply_groups(float *d, uint64_t a, uint64_t b)
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

/* Blocks of 8 x 8 numbers of two bytes between LDS and sums, as pairs of them lie in registers; turn:
   transposed on the way. */
CKCI_K_FN void ckci_k_put_blocks(unsigned char *to, const uint32_t (&two)[4], bool turn)
{
#if defined(CKCI_SIMULATOR)
    if (turn) {
        sim_stmatrix_x4_trans(to, two);
    } else {
        sim_stmatrix_x4(to, two);
    }
#else
#define CKCI_K_PUT(TURN)                                                                                     \
    asm volatile("stmatrix.sync.aligned.m8n8.x4" TURN                                                        \
                 ".shared.b16 [%0], {%1, %2, %3, %4};" ::"r"((uint32_t)__cvta_generic_to_shared(to)),        \
                 "r"(two[0]), "r"(two[1]), "r"(two[2]), "r"(two[3])                                          \
                 : "memory")
    if (turn) {
        CKCI_K_PUT(".trans");
    } else {
        CKCI_K_PUT("");
    }
#undef CKCI_K_PUT
#endif
}

CKCI_K_FN void ckci_k_get_blocks(const unsigned char *from, uint32_t (&two)[4], bool turn)
{
#if defined(CKCI_SIMULATOR)
    if (turn) {
        sim_ldmatrix_x4_trans(two, from);
    } else {
        sim_ldmatrix_x4(two, from);
    }
#else
#define CKCI_K_GET(TURN)                                                                                     \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" TURN ".shared.b16 {%0, %1, %2, %3}, [%4];"                  \
                 : "=r"(two[0]), "=r"(two[1]), "=r"(two[2]), "=r"(two[3])                                    \
                 : "r"((uint32_t)__cvta_generic_to_shared(from))                                             \
                 : "memory")
    if (turn) {
        CKCI_K_GET(".trans");
    } else {
        CKCI_K_GET("");
    }
#undef CKCI_K_GET
#endif
}

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
    enum {
        THREADS = 256,
        SIXTEEN = 1,
        PLANES = 0, /* finish() has no order for them */
        SUMS_WIDE = 8,
        SIZE = CKCI_K_HALF,
        FACTORS = CKCI_GROUP_FACTORS(BN)
    };
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

    /* Sums are where they must be, and so is memory: 32 at a time, as statements are what compilers spend
       their time on. */
    CKCI_K_MEMBER void hold()
    {
#if defined(__CUDA_ARCH__)
        static_assert(N % 64 == 0, "sums in thirty-twos");
        CKCI_K_UNROLL(4)
        for (int i = 0; i < N / 2; i += 32) {
            asm volatile("" : CKCI_K_SUM32(sum, i)::"memory");
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
            if constexpr (Loader::BESIDE) {
                if (s >= 0) {
                    loader.template beside<T>(tiles + full, s);
                }
            }
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
            ckci_k_multiply_groups<T, COUNT, ACROSS != 0, ACROSS % 2>(
                sum, ckci_k_describe(from_a + (uint32_t)more_a / 16),
                ckci_k_describe(from_b + (uint32_t)more_b / 16));
#endif
        }
    }

    /* Can finish16 compute o's epilogue? */
    static CKCI_K_MEMBER bool takes(const ckci_gpu_target &o)
    {
        const bool factors = o.d[0].how == CKCI_EXTRA_MULTIPLY;
        bool good = o.form == CKCI_FORM_STORE ||
                    (o.form == CKCI_FORM_LINEAR && !o.scale && !o.shift &&
                     (!factors || (FACTORS && o.residual == CKCI_RESIDUAL_FACTORS &&
                                   o.across != CKCI_ACROSS_ROWS)));
        int32_t outputs = 0;
        for (int32_t j = 0; j < o.adds; j++) {
            outputs += o.d[j].line == CKCI_LINE_OUTPUT;
            good = good && (o.d[j].line == CKCI_LINE_CHANNELS || o.d[j].dtype != CKCONV_F32);
        }
        return good && outputs < 2 && (o.t.dtype == CKCONV_F16 || o.t.dtype == CKCONV_BF16);
    }

    /* Do D tensors add a number to each row? */
    static CKCI_K_MEMBER bool rows_add(const ckci_gpu_target &o)
    {
        return o.across == CKCI_ACROSS_ROWS && o.adds > 0;
    }

    /* Sums to f16 or bf16, transposed in blocks of 8 x 8 on the way to LDS, and from there to rows at out
       + 2 * places[row] (-1: none), of which `columns` columns exist; of planes not transposed, and eight
       rows, which are neighbours there, to their place in a column's plane. A group's 64 columns lie in a
       tile whose products are done: those before `full`, the two last ones where there are four or more. A
       D tensor that lies as the output comes through the same tile the opposite way; of the others the sum
       for each column, or row, is in `shift`, what columns' sums are multiplied with in `factor`. */
    CKCI_K_MEMBER void finish16(unsigned char *tiles, int32_t full, const ckci_gpu_target &o,
                                const float *shift, const float *factor, const int32_t *places,
                                int32_t columns, unsigned char *out)
    {
        const int thread = (int)threadIdx.x % 128, lane = thread % 32, group = (int)threadIdx.x / 128;
        const bool planes = o.across == CKCI_ACROSS_PLANES;
        const int32_t room = full - (FLYING ? 1 + group : 1) * TILE;
        const int32_t at = (room < 0 ? room + STAGES * TILE : room) + (FLYING ? 0 : group * N * 128);
        const int r0 = thread / 8, c = thread % 8, from = DOWN == 2 ? group * 64 : 0;
        const int32_t left = columns - from - (planes ? r0 : c * 8);
        const int64_t step = planes ? o.t.stride[2] : 0; /* from column to column */
        places += (DOWN == 2 ? 0 : group * N) + (planes ? c * 8 : r0);
        out += CKCI_K_HALF * (planes ? (from + r0) * step : (int64_t)(from + c * 8));
        unsigned char *own = tiles + at + r0 * 128 + (c ^ (r0 & 7)) * 16; /* and 16 rows down from each */
        __syncthreads();
        const ckci_gpu_extra *d = nullptr;
        for (int32_t j = 0; j < o.adds; j++) {
            d = o.d[j].line == CKCI_LINE_OUTPUT ? &o.d[j] : d;
        }
        if (d) {
            const unsigned char *beside = d->p + (out - o.t.p);
            ckci_k_meet<128>(1 + group); /* nobody reads what was there before */
            CKCI_K_UNROLL(8)
            for (int r = 0; r < N; r += 16) {
                const int32_t place = places[planes ? r / 64 * 64 : r];
                ckci_k_copy_from(own + r * 128, beside + CKCI_K_HALF * (place + r % 64 * step),
                                 place >= 0 && left > (planes ? r % 64 : 0) ? 16 : 0);
            }
            ckci_k_copies_end();
            ckci_k_copies_wait<0>();
            ckci_k_meet<128>(1 + group);
        }
        const int own_column = from + thread / 32 * 16 + lane / 4;
        shift += rows_add(o) ? (DOWN == 2 ? 0 : group * N) + lane % 4 * 2 : own_column;
        factor += own_column;
        unsigned char *to = tiles + at;
        if (o.form == CKCI_FORM_STORE) {
            blocks<0>(o, shift, factor, 0, to, planes);
        } else if (!d) {
            blocks<1>(o, shift, factor, 0, to, planes);
        } else if (d->how < CKCI_EXTRA_MASK) {
            blocks<2>(o, shift, factor, d->dtype, to, planes);
        } else {
            blocks<3>(o, shift, factor, d->dtype, to, planes, d->how);
        }
        ckci_k_meet<128>(1 + group);
        CKCI_K_UNROLL(8)
        for (int r = 0; r < N; r += 16) {
            const ckci_k_uint4 v = *(const ckci_k_uint4 *)(own + r * 128);
            const int32_t place = places[planes ? r / 64 * 64 : r];
            if (place >= 0 && left > (planes ? r % 64 : 0)) {
                *(ckci_k_uint4 *)(out + CKCI_K_HALF * (place + r % 64 * step)) = v;
            }
        }
    }

    /* Where this lane's eights of rows j * 8 on (two of each of the wave's columns) lie behind a group's room
       in LDS: a row of 64 columns each, or, of planes, 64 columns of 64 rows after the other. */
    static CKCI_K_MEMBER int32_t spot_of(bool planes, int j)
    {
        const int32_t lane = (int32_t)threadIdx.x % 32, wave = (int32_t)threadIdx.x % 128 / 32;
        const int32_t half = lane / 8 % 2, eight = lane / 16;
        return planes ? j / 8 * CKCI_TMA_BOX_BYTES + (wave * 16 + half * 8 + lane % 8) * 128 +
                            ((j % 8 + eight) ^ lane % 8) * 16
                      : (j * 8 + eight * 8 + lane % 8) * 128 + ((wave * 2 + half) ^ lane % 8) * 16;
    }

    /* Rounds all sums. FORM: 0: as they are, 1: factor * sum + shift, between low and high, 2: and with what
       lies in `to` added, numbers of type d_type, 3: with a gate, `how`. Each is done with as soon as it is
       computed: there are no registers for all that come of them. */
    template <int FORM>
    CKCI_K_MEMBER void blocks(const ckci_gpu_target &o, const float *shift, const float *factor,
                              int32_t d_type, unsigned char *to, bool planes,
                              int32_t how = CKCI_EXTRA_ADD)
    {
        const int32_t dtype = o.t.dtype;
        const bool bf16 = CKCI_K_BF16(d_type != CKCONV_F16);
        const float alpha = o.alpha;
        const bool rows = rows_add(o);
        const ckci_k_half_bounds bounds(o);
        float more[2] = {0, 0}, scale[2] = {alpha, alpha};
        if (FORM && !rows) {
            more[0] = shift[0];
            more[1] = shift[8];
            if constexpr (FACTORS) {
                scale[0] = factor[0];
                scale[1] = factor[8];
            }
        }
        CKCI_K_UNROLL(16)
        for (int j = 0; j < N / 8; j += 2) {
            uint32_t two[4];
            if constexpr (FORM >= 2) {
                ckci_k_get_blocks(to + spot_of(planes, j), two, !planes);
            }
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                float x[2] = {sum[4 * j + 2 * i], sum[4 * j + 2 * i + 1]};
                if constexpr (FORM) {
                    float add[2] = {more[i % 2], more[i % 2]};
                    if (rows) {
                        add[0] = shift[(j + i / 2) * 8];
                        add[1] = shift[(j + i / 2) * 8 + 1];
                    }
                    x[0] = fmaf(scale[i % 2], x[0], add[0]);
                    x[1] = fmaf(scale[i % 2], x[1], add[1]);
                }
                if constexpr (FORM >= 2) {
                    const float d[2] = {
                        bf16 ? ckci_k_float(two[i] << 16) : ckci_k_half_float(two[i] & 0xffffu),
                        bf16 ? ckci_k_float(two[i] & 0xffff0000u) : ckci_k_half_float(two[i] >> 16)};
                    ckci_k_add_numbers(o, FORM == 3 ? how : CKCI_EXTRA_ADD, d, x);
                }
                two[i] = ckci_k_two(dtype, ckci_k_bits(x[0]), ckci_k_bits(x[1]));
                if constexpr (FORM) {
                    two[i] = bounds.limit(two[i]);
                }
            }
            ckci_k_put_blocks(to + spot_of(planes, j), two, !planes);
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

    /* The same as f16 or bf16 by way of LDS, so that lines are stored whole: rows that are aligned to 16
       bytes, and columns in eights. */
    CKCI_K_MEMBER void store_lines(unsigned char *tiles, unsigned char *to, int64_t pitch, int32_t rows,
                                   int32_t columns, int32_t dtype) const
    {
        enum { LINE = BN * 2 + 16 }; /* eight rows meet all banks */
        const int thread = (int)threadIdx.x, lane = thread % 32, group = thread / 128;
        const int warp = thread % 128 / 32;
        const int first_row = STRAIGHT ? (DOWN == 2 ? group * 64 : 0) + warp * 16 : DOWN == 2 ? 0 : group * N;
        const int first = STRAIGHT ? (DOWN == 2 ? 0 : group * N) : (DOWN == 2 ? group * 64 : 0) + warp * 16;
        unsigned char *at = tiles + first_row * LINE + 2 * first;
        __syncthreads();
        if constexpr (STRAIGHT) {
            at += lane / 4 * LINE + lane % 4 * 4;
            CKCI_K_UNROLL(32)
            for (int i = 0; i < N / 8; i++) {
                if (i < N / 16 || !half) {
                    pair(at, i, dtype, sum[4 * i], sum[4 * i + 1]);
                    pair(at + 8 * LINE, i, dtype, sum[4 * i + 2], sum[4 * i + 3]);
                }
            }
        } else {
            at += (lane / 16 * 8 + lane % 8) * LINE + lane / 8 % 2 * 16;
            CKCI_K_UNROLL(16)
            for (int j = 0; j < N / 8; j += 2) {
                uint32_t two[4];
                CKCI_K_UNROLL(4)
                for (int i = 0; i < 4; i++) {
                    two[i] = ckci_k_two(dtype, ckci_k_bits(sum[4 * j + 2 * i]),
                                        ckci_k_bits(sum[4 * j + 2 * i + 1]));
                }
                if (j < N / 16 || !half) {
                    ckci_k_put_blocks(at + j * 8 * LINE, two, true);
                }
            }
        }
        __syncthreads();
        CKCI_K_UNROLL(4)
        for (int e = thread; e < BM * (BN / 8); e += 256) {
            const int r = e / (BN / 8), c = e % (BN / 8) * 8;
            if (r < rows && c < columns) {
                *(ckci_k_uint4 *)(to + 2 * (r * pitch + c)) =
                    *(const ckci_k_uint4 *)(tiles + r * LINE + 2 * c);
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
                        const ckci_k_uint2 two = *(const ckci_k_uint2 *)(from + 4 * (8 * j * pitch + i * 8));
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
    template <int, int = 0, class Out> CKCI_K_MEMBER void finish(unsigned char *tiles, int32_t order, Out out)
    {
        const bool rows_fast = order == CKCI_K_FINISH_ROWS;
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
    } else if (CKCI_K_BF16(type == CKCONV_BF16)) {
        f.template loop<ckci_k_bf16>(tiles, loader, steps);
    } else {
        f.template loop<ckci_k_f16>(tiles, loader, steps);
    }
}
