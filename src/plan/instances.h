/*------------------------------------------------------------------------------------------------------------
  >>plan-instances
  Pure selection: description + device facts + options -> instance, block sizes, workspace. Each instance says
  whether it fits and what it would cost; the cheapest one wins. Here is the one table of them, CPU and GPU:
  its rows join what the engines below offer, and a plan's instance is a row's number. What switches drop
  keeps its row, so that numbers stay, and answers with the switch's name.
*/
#pragma once
#include "core/problem.h"
#if CKCI_HAS_CPU
#include "cpu/weight.h"
#include "cpu/along_weight.h"
#include "cpu/turn.h"
#include "cpu/bias.h"
#include "cpu/pair.h"
#include "cpu/norm.h"
#endif
#include "ref/ref.h"
#include "gpu/bias.h"
#include "gpu/stem.h"
#include "gpu/pointwise.h"
#include "gpu/matrix_weight.h"
#include "gpu/tile.h"
#include "gpu/norm.h"
#include "gpu/pair.h"
#include "gpu/patches.h"
#include "gpu/pixel.h"
#include "gpu/sample.h"
#include "gpu/im2col.h"
#include "gpu/sections.h"

#if !CKCI_HAS_CPU
CKCI_FN int32_t ckci_cpu_features(void)
{
    return 0;
}
#endif

/* The table of CPU instances: name (its place is the index), engine, family, operation (ALL: each), CPU
   features that it needs, rows and columns of its register tile, lanes of a vector for f32, the function
   that says whether it fits, and the one that runs it. */
#define CKCI_CPU_ROWS(X, ISA, FEATURES, TM, TN, VL)                                                          \
    X(cpu_gemm_fwd_##ISA, CPU, SINGLE_STAGE, FWD, FEATURES, TM, TN, VL, ckci_fit_turned_gather,              \
      ckci_run_turned_gather)                                                                                \
    X(cpu_gemm_bwd_data_##ISA, CPU, SINGLE_STAGE, BWD_DATA, FEATURES, TM, TN, VL, ckci_fit_turned_gather,    \
      ckci_run_turned_gather)                                                                                \
    X(cpu_gemm_bwd_weight_##ISA, CPU, SINGLE_STAGE, BWD_WEIGHT, FEATURES, TM, TN, VL,                        \
      ckci_fit_turned_weight, ckci_run_turned_weight)                                                        \
    X(cpu_gemm_bwd_weight_split_##ISA, CPU, TWO_STAGE, BWD_WEIGHT, FEATURES, TM, TN, VL,                     \
      ckci_fit_turned_weight, ckci_run_turned_weight)                                                        \
    X(cpu_direct_fwd_##ISA, CPU, DIRECT, FWD, FEATURES, 14, VL, VL, ckci_fit_turned_direct,                  \
      ckci_run_turned_direct)                                                                                \
    X(cpu_direct_bwd_data_##ISA, CPU, DIRECT, BWD_DATA, FEATURES, 14, VL, VL, ckci_fit_turned_direct,        \
      ckci_run_turned_direct)                                                                                \
    X(cpu_direct_bwd_weight_##ISA, CPU, DIRECT, BWD_WEIGHT, FEATURES, 9, VL, VL,                             \
      ckci_fit_turned_direct_weight, ckci_run_turned_direct_weight)                                          \
    X(cpu_fused_conv_conv_##ISA, CPU, FUSED, CONV_CONV_FWD, FEATURES, TM, TN, VL, ckci_fit_pair,             \
      ckci_run_pair)                                                                                         \
    X(cpu_unfused_conv_conv_##ISA, CPU, UNFUSED, CONV_CONV_FWD, FEATURES, TM, TN, VL, ckci_fit_pair,         \
      ckci_run_pair)

#define CKCI_INSTANCES(X)                                                                                    \
    X(ref, REF, REF, ALL, 0, 1, 1, 1, ckci_fit_ref, ckci_run_ref)                                            \
    CKCI_CPU_ROWS(X, portable, 0, 4, 8, 4)                                                                   \
    CKCI_CPU_ROWS(X, avx2, CKCONV_CPU_AVX2, 6, 16, 8)                                                        \
    CKCI_CPU_ROWS(X, avx512, CKCONV_CPU_AVX512, 14, 32, 16)                                                  \
    X(cpu_gemm_fwd_avx512_bf16, CPU, SINGLE_STAGE, FWD, CKCONV_CPU_AVX512 | CKCONV_CPU_AVX512_BF16, 14, 32,  \
      16, ckci_fit_pairs, ckci_run_pairs)                                                                    \
    X(cpu_gemm_bwd_data_avx512_bf16, CPU, SINGLE_STAGE, BWD_DATA,                                            \
      CKCONV_CPU_AVX512 | CKCONV_CPU_AVX512_BF16, 14, 32, 16, ckci_fit_pairs, ckci_run_pairs)                \
    X(cpu_direct_fwd_avx512_bf16, CPU, DIRECT, FWD, CKCONV_CPU_AVX512 | CKCONV_CPU_AVX512_BF16, 14, 16, 16,  \
      ckci_fit_pairs, ckci_run_pairs)                                                                        \
    X(cpu_direct_bwd_data_avx512_bf16, CPU, DIRECT, BWD_DATA, CKCONV_CPU_AVX512 | CKCONV_CPU_AVX512_BF16,    \
      14, 16, 16, ckci_fit_pairs, ckci_run_pairs)                                                            \
    X(cpu_gemm_bwd_weight_avx512_bf16, CPU, SINGLE_STAGE, BWD_WEIGHT,                                        \
      CKCONV_CPU_AVX512 | CKCONV_CPU_AVX512_BF16, 8, 48, 16, ckci_fit_weight, ckci_run_weight)               \
    X(cpu_gemm_bwd_weight_split_avx512_bf16, CPU, TWO_STAGE, BWD_WEIGHT,                                     \
      CKCONV_CPU_AVX512 | CKCONV_CPU_AVX512_BF16, 8, 48, 16, ckci_fit_weight, ckci_run_weight)               \
    X(cpu_fused_conv_conv_avx512_bf16, CPU, FUSED, CONV_CONV_FWD,                                            \
      CKCONV_CPU_AVX512 | CKCONV_CPU_AVX512_BF16, 14, 32, 16, ckci_fit_pair, ckci_run_pair)                  \
    X(cpu_recompute_conv_conv, CPU, FUSED, CONV_CONV_FWD, 0, 1, 1, 1, ckci_fit_recompute,                    \
      ckci_run_recompute)                                                                                    \
    X(cpu_groupnorm_fwd, CPU, GROUPNORM, GROUPNORM_FWD, 0, 1, 1, 1, ckci_fit_norm, ckci_run_norm)            \
    X(cpu_groupnorm_bwd, CPU, GROUPNORM, GROUPNORM_BWD, 0, 1, 1, 1, ckci_fit_norm, ckci_run_norm)

/* The table of GPU instances: name, family, operation, type of the sums (0: any), tile (the members of a
   ckci_gpu_tile), the function that says whether it fits, and the one that lists its launches. */
#define CKCI_NO_TILE(FORM, SIDE) (CKCI_TILE_##FORM, SIDE, SIDE, 0, 0, 0, 0, 0, 0, {0, 0})

#define CKCI_GPU_TILES(X, OP, LOW, FIT, LIST)                                                                \
    X(gpu_vector_##LOW##_f32_128, VECTOR, OP, CKCONV_F32, CKCI_NO_TILE(VECTOR, 128), FIT, LIST)              \
    X(gpu_vector_##LOW##_f32_64, VECTOR, OP, CKCONV_F32, CKCI_NO_TILE(VECTOR, 64), FIT, LIST)                \
    X(gpu_vector_##LOW##_f64_64, VECTOR, OP, CKCONV_F64, CKCI_NO_TILE(VECTOR, 64), FIT, LIST)                \
    X(gpu_vector_##LOW##_i32_64, VECTOR, OP, CKCONV_I32, CKCI_NO_TILE(VECTOR, 64), FIT, LIST)                \
    X(gpu_direct_##LOW##_f32, DIRECT, OP, CKCONV_F32, CKCI_NO_TILE(DIRECT, 0), FIT, LIST)                    \
    X(gpu_direct_##LOW##_f64, DIRECT, OP, CKCONV_F64, CKCI_NO_TILE(DIRECT, 0), FIT, LIST)                    \
    X(gpu_direct_##LOW##_i32, DIRECT, OP, CKCONV_I32, CKCI_NO_TILE(DIRECT, 0), FIT, LIST)

#define CKCI_MATRIX_ROW(X, FAMILY, OP, BODY, NAME, KIND, ...)                                                \
    X(NAME, FAMILY, OP, KIND, (__VA_ARGS__), ckci_fit_matrix_##BODY, ckci_list_matrix_##BODY)

/* A row of each of gpu/table.h's tables of tiles, for a family of matrix units. */
#define CKCI_GATHER_ROW(X, FAMILY, LOW, OP, PASS, ROWS, COLUMNS, SLOW, OTHER)                                \
    CKCI_MATRIX_ROW(X, FAMILY, OP, gather, gpu_##LOW##_##PASS##_##ROWS##x##COLUMNS, CKCONV_F32,              \
                    CKCI_TILE_HALF, ROWS, COLUMNS, CKCI_KERNEL_matrix_gather_##ROWS##x##COLUMNS,             \
                    CKCI_KERNEL_matrix_back_##ROWS##x##COLUMNS, 0, 0, 0, 0, {SLOW, OTHER})
#define CKCI_WEIGHT_ROW(X, FAMILY, LOW, ROWS, COLUMNS, SLOW, OTHER)                                          \
    CKCI_MATRIX_ROW(X, FAMILY, BWD_WEIGHT, weight, gpu_##LOW##_bwd_weight_##ROWS##x##COLUMNS, CKCONV_F32,    \
                    CKCI_TILE_HALF, ROWS, COLUMNS, CKCI_KERNEL_matrix_weight_##ROWS##x##COLUMNS, 0, 0, 0, 0, \
                    0, {SLOW, OTHER})
#define CKCI_WEIGHT_I8_ROW(X, FAMILY, LOW, ROWS, COLUMNS, SLOW, OTHER)                                       \
    CKCI_MATRIX_ROW(X, FAMILY, BWD_WEIGHT, weight, gpu_##LOW##_bwd_weight_i8_##ROWS##x##COLUMNS, CKCONV_I32, \
                    CKCI_TILE_WHOLE, ROWS, COLUMNS, CKCI_KERNEL_matrix_weight_##ROWS##x##COLUMNS, 0, 0, 0,   \
                    0, 0, {SLOW, OTHER})
#define CKCI_CDNA_ROW(X, OP, PASS, ROWS, COLUMNS)                                                            \
    CKCI_MATRIX_ROW(X, MFMA, OP, gather, gpu_mfma_##PASS##_##ROWS##x##COLUMNS, CKCONV_F32, CKCI_TILE_HALF,   \
                    ROWS, COLUMNS, CKCI_KERNEL_matrix_wide_##ROWS##x##COLUMNS,                               \
                    CKCI_KERNEL_matrix_wide_back_##ROWS##x##COLUMNS, 0, 0, 0, 0, {0, 0})
#define CKCI_CDNA_WEIGHT_ROW(X, ROWS, COLUMNS, PART)                                                         \
    CKCI_MATRIX_ROW(X, MFMA, BWD_WEIGHT, weight, gpu_mfma_bwd_weight_##ROWS##x##COLUMNS, CKCONV_F32,         \
                    CKCI_TILE_HALF, ROWS, COLUMNS, CKCI_KERNEL_matrix_wide_weight_##ROWS##x##COLUMNS, 0, 0,  \
                    0, 0, 0, {0, 0})
#define CKCI_TMA_ROW(X, OP, PASS, BODY, KERNEL, ACROSS, ROWS, COLUMNS, SLOW, PIXELS)                         \
    CKCI_MATRIX_ROW(X, MMA, OP, BODY, gpu_mma_##PASS##_tma_##ROWS##x##COLUMNS, CKCONV_F32, CKCI_TILE_TMA,    \
                    ROWS, COLUMNS, CKCI_KERNEL_matrix_tma_##KERNEL##_##ROWS##x##COLUMNS,                     \
                    CKCI_KERNEL_matrix_tma_##ACROSS##_##ROWS##x##COLUMNS, 0, 0, 0, 0, {SLOW, PIXELS})
#define CKCI_WHOLE_ROW(X, FAMILY, LOW, OP, PASS, ROWS, COLUMNS, SLOW)                                        \
    CKCI_MATRIX_ROW(X, FAMILY, OP, gather, gpu_##LOW##_##PASS##_i8_##ROWS##x##COLUMNS, CKCONV_I32,           \
                    CKCI_TILE_WHOLE, ROWS, COLUMNS, CKCI_KERNEL_matrix_whole_##ROWS##x##COLUMNS, 0, 0, 0, 0, \
                    0, {0, SLOW})
#define CKCI_SINGLE_ROW(X, FAMILY, LOW, TYPE, OP, PASS, ROWS, COLUMNS, SLOW)                                 \
    CKCI_MATRIX_ROW(X, FAMILY, OP, gather, gpu_##LOW##_##PASS##_##TYPE##_##ROWS##x##COLUMNS, CKCONV_F32,     \
                    CKCI_TILE_SINGLE, ROWS, COLUMNS, CKCI_KERNEL_matrix_single_##ROWS##x##COLUMNS, 0, 0, 0,  \
                    0, 0, {0, SLOW})
#define CKCI_SINGLE_WEIGHT_ROW(X, FAMILY, LOW, TYPE, ROWS, COLUMNS, SLOW)                                    \
    CKCI_MATRIX_ROW(X, FAMILY, BWD_WEIGHT, weight, gpu_##LOW##_bwd_weight_##TYPE##_##ROWS##x##COLUMNS,       \
                    CKCONV_F32, CKCI_TILE_SINGLE, ROWS, COLUMNS,                                             \
                    CKCI_KERNEL_matrix_single_weight_##ROWS##x##COLUMNS, 0, 0, 0, 0, 0, {0, SLOW})
#define CKCI_DOUBLE_ROW(X, FAMILY, LOW, OP, PASS, ROWS, COLUMNS, SLOW)                                       \
    CKCI_MATRIX_ROW(X, FAMILY, OP, gather, gpu_##LOW##_##PASS##_f64_##ROWS##x##COLUMNS, CKCONV_F64,          \
                    CKCI_TILE_DOUBLE, ROWS, COLUMNS, CKCI_KERNEL_matrix_double_##ROWS##x##COLUMNS, 0, 0, 0,  \
                    0, 0, {0, SLOW})
#define CKCI_DOUBLE_WEIGHT_ROW(X, FAMILY, LOW, ROWS, COLUMNS, SLOW)                                          \
    CKCI_MATRIX_ROW(X, FAMILY, BWD_WEIGHT, weight, gpu_##LOW##_bwd_weight_f64_##ROWS##x##COLUMNS,            \
                    CKCONV_F64, CKCI_TILE_DOUBLE, ROWS, COLUMNS,                                             \
                    CKCI_KERNEL_matrix_double_weight_##ROWS##x##COLUMNS, 0, 0, 0, 0, 0, {0, SLOW})

/* Rows of a family's tiles. Of fwd and bwd_data: */
#define CKCI_BOTH(ROW, X, FAMILY, LOW, ...)                                                                  \
    ROW(X, FAMILY, LOW, FWD, fwd, __VA_ARGS__)                                                               \
    ROW(X, FAMILY, LOW, BWD_DATA, bwd_data, __VA_ARGS__)
#define CKCI_MFMA_ALL(...) __VA_ARGS__
#define CKCI_WMMA_ALL(...) __VA_ARGS__
#define CKCI_MMA_ALL(...) __VA_ARGS__
#define CKCI_MFMA_MMA(...)
#define CKCI_WMMA_MMA(...)
#define CKCI_MMA_MMA(...) __VA_ARGS__
#define CKCI_ROW_I8(...) __VA_ARGS__
#define CKCI_ROW_HALF(...)
#define CKCI_ANY_GATHER(X, FAMILY, LOW, UNITS, ROWS, COLUMNS, PART, BACK, SLOW, OTHER)                       \
    CKCI_##FAMILY##_##UNITS(CKCI_BOTH(CKCI_GATHER_ROW, X, FAMILY, LOW, ROWS, COLUMNS, SLOW, OTHER))
#define CKCI_ANY_WEIGHT(X, FAMILY, LOW, UNITS, I8, ROWS, COLUMNS, PART, SLOW, OTHER)                         \
    CKCI_##FAMILY##_##UNITS(CKCI_WEIGHT_ROW(X, FAMILY, LOW, ROWS, COLUMNS, SLOW, OTHER) CKCI_ROW_##I8(       \
        CKCI_WEIGHT_I8_ROW(X, FAMILY, LOW, ROWS, COLUMNS, SLOW, OTHER)))
#define CKCI_ANY_WHOLE(X, FAMILY, LOW, ROWS, COLUMNS, PART, SLOW)                                            \
    CKCI_BOTH(CKCI_WHOLE_ROW, X, FAMILY, LOW, ROWS, COLUMNS, SLOW)
#define CKCI_ANY_SINGLE(X, FAMILY, LOW, TYPE, ROWS, COLUMNS, PART, WEIGHT, SLOW, WEIGHT_SLOW)                \
    CKCI_SINGLE_ROW(X, FAMILY, LOW, TYPE, FWD, fwd, ROWS, COLUMNS, SLOW)                                     \
    CKCI_SINGLE_ROW(X, FAMILY, LOW, TYPE, BWD_DATA, bwd_data, ROWS, COLUMNS, SLOW)                           \
    CKCI_SINGLE_WEIGHT_ROW(X, FAMILY, LOW, TYPE, ROWS, COLUMNS, WEIGHT_SLOW)
#define CKCI_ANY_DOUBLE(X, FAMILY, LOW, ROWS, COLUMNS, PART, WEIGHT, SLOW, WEIGHT_SLOW)                      \
    CKCI_BOTH(CKCI_DOUBLE_ROW, X, FAMILY, LOW, ROWS, COLUMNS, SLOW)                                          \
    CKCI_DOUBLE_WEIGHT_ROW(X, FAMILY, LOW, ROWS, COLUMNS, WEIGHT_SLOW)

#define CKCI_MFMA_GATHER(X, ...) CKCI_ANY_GATHER(X, MFMA, mfma, __VA_ARGS__)
#define CKCI_MFMA_WEIGHT(X, ...) CKCI_ANY_WEIGHT(X, MFMA, mfma, __VA_ARGS__)
#define CKCI_MFMA_WHOLE(X, ...) CKCI_ANY_WHOLE(X, MFMA, mfma, __VA_ARGS__)
#define CKCI_MFMA_SINGLE(X, ...) CKCI_ANY_SINGLE(X, MFMA, mfma, f32, __VA_ARGS__)
#define CKCI_MFMA_DOUBLE(X, ...) CKCI_ANY_DOUBLE(X, MFMA, mfma, __VA_ARGS__)
#define CKCI_MFMA_CDNA(X, ROWS, COLUMNS, PART)                                                               \
    CKCI_CDNA_ROW(X, FWD, fwd, ROWS, COLUMNS)                                                                \
    CKCI_CDNA_ROW(X, BWD_DATA, bwd_data, ROWS, COLUMNS)
#define CKCI_WMMA_GATHER(X, ...) CKCI_ANY_GATHER(X, WMMA, wmma, __VA_ARGS__)
#define CKCI_WMMA_WEIGHT(X, ...) CKCI_ANY_WEIGHT(X, WMMA, wmma, __VA_ARGS__)
#define CKCI_WMMA_WHOLE(X, ...) CKCI_ANY_WHOLE(X, WMMA, wmma, __VA_ARGS__)
#define CKCI_MMA_GATHER(X, ...) CKCI_ANY_GATHER(X, MMA, mma, __VA_ARGS__)
#define CKCI_MMA_WEIGHT(X, ...) CKCI_ANY_WEIGHT(X, MMA, mma, __VA_ARGS__)
#define CKCI_MMA_TMA(X, ROWS, COLUMNS, PART, BACK, F_SLOW, F_PIXELS, B_SLOW, B_PIXELS)                       \
    CKCI_TMA_ROW(X, FWD, fwd, gather, gather, back, ROWS, COLUMNS, F_SLOW, F_PIXELS)                         \
    CKCI_TMA_ROW(X, BWD_DATA, bwd_data, gather, gather, back, ROWS, COLUMNS, B_SLOW, B_PIXELS)
#define CKCI_MMA_TMA_WEIGHT(X, ROWS, COLUMNS, PART, SLOW, PIXELS)                                            \
    CKCI_TMA_ROW(X, BWD_WEIGHT, bwd_weight, weight, weight, weight, ROWS, COLUMNS, SLOW, PIXELS)
#define CKCI_MMA_WHOLE(X, ...) CKCI_ANY_WHOLE(X, MMA, mma, __VA_ARGS__)
#define CKCI_MMA_SINGLE(X, ...) CKCI_ANY_SINGLE(X, MMA, mma, tf32, __VA_ARGS__)
#define CKCI_MMA_DOUBLE(X, ...) CKCI_ANY_DOUBLE(X, MMA, mma, __VA_ARGS__)

/* small groups, first layers */
#define CKCI_GPU_MATRIX_NEAR(X, FAMILY, LOW)                                                                 \
    CKCI_MATRIX_ROW(X, FAMILY, FWD, gather, gpu_##LOW##_fwd_near, CKCONV_F32, CKCI_TILE_NEAR, 0, 0, 0, 0, 0, \
                    0, 0, 0, {0, 0})                                                                         \
    CKCI_MATRIX_ROW(X, FAMILY, BWD_DATA, gather, gpu_##LOW##_bwd_data_near, CKCONV_F32, CKCI_TILE_NEAR, 0,   \
                    0, 0, 0, 0, 0, 0, 0, {0, 0})                                                             \
    CKCI_MATRIX_ROW(X, FAMILY, BWD_WEIGHT, weight, gpu_##LOW##_bwd_weight_near, CKCONV_F32, CKCI_TILE_NEAR,  \
                    0, 0, 0, 0, 0, 0, 0, 0, {0, 0})
/* one tap, few channels */
#define CKCI_GPU_POINTWISE(X, FAMILY, LOW)                                                                   \
    X(gpu_##LOW##_fwd_pointwise, FAMILY, FWD, CKCONV_F32, CKCI_NO_TILE(NONE, 0), ckci_fit_pointwise,         \
      ckci_list_pointwise)                                                                                   \
    X(gpu_##LOW##_bwd_data_pointwise, FAMILY, BWD_DATA, CKCONV_F32, CKCI_NO_TILE(NONE, 0),                   \
      ckci_fit_pointwise, ckci_list_pointwise)
#define CKCI_GPU_MATRIX_STEM(X, FAMILY, LOW)                                                                 \
    X(gpu_##LOW##_fwd_stem, FAMILY, FWD, CKCONV_F32, CKCI_NO_TILE(NONE, 0), ckci_fit_matrix_stem,            \
      ckci_list_matrix_stem)                                                                                 \
    X(gpu_##LOW##_bwd_weight_stem, FAMILY, BWD_WEIGHT, CKCONV_F32, CKCI_NO_TILE(NONE, 0),                    \
      ckci_fit_stem_weight, ckci_list_stem_weight)                                                           \
    X(gpu_##LOW##_bwd_data_stem, FAMILY, BWD_DATA, CKCONV_F32, CKCI_NO_TILE(NONE, 0), ckci_fit_matrix_stem,  \
      ckci_list_matrix_stem)

#define CKCI_FMA_GATHER_ROW(X, NAME, ROWS, COLUMNS, THREADS, WIDTH, BLOCKS, RATE, PART, M, N, STEP, SHARE)   \
    X(gpu_tile_fwd_##NAME, VECTOR, FWD, CKCONV_F32,                                                          \
      (CKCI_TILE_FMA, ROWS, COLUMNS, CKCI_KERNEL_tile_gather_##NAME, 0, THREADS, WIDTH, STEP, BLOCKS,        \
       {RATE, 0}),                                                                                           \
      ckci_fit_gpu_gather, ckci_list_gpu_gather)                                                             \
    X(gpu_tile_bwd_data_##NAME, VECTOR, BWD_DATA, CKCONV_F32,                                                \
      (CKCI_TILE_FMA, ROWS, COLUMNS, CKCI_KERNEL_tile_gather_##NAME, 0, THREADS, WIDTH, STEP, BLOCKS,        \
       {RATE, 0}),                                                                                           \
      ckci_fit_gpu_gather, ckci_list_gpu_gather)
#define CKCI_FMA_WEIGHT_ROW(X, NAME, ROWS, COLUMNS, THREADS, WIDTH, BLOCKS, RATE, PART, M, N, STEP, SHARE)   \
    X(gpu_tile_bwd_weight_##NAME, VECTOR, BWD_WEIGHT, CKCONV_F32,                                            \
      (CKCI_TILE_FMA, ROWS, COLUMNS, CKCI_KERNEL_tile_weight_##NAME, 0, THREADS, WIDTH, 0, BLOCKS,           \
       {RATE, 0}),                                                                                           \
      ckci_fit_gpu_weight, ckci_list_gpu_weight)
#define CKCI_FMA_OTHER_ROW(X, NAME, OP, FORM, KERNEL, ROWS, THREADS, STEP, BLOCKS, RATE)                     \
    X(NAME, VECTOR, OP, CKCONV_F32,                                                                          \
      (CKCI_TILE_##FORM, ROWS, 4, CKCI_KERNEL_##KERNEL, 0, THREADS, 4, STEP, BLOCKS, {RATE, 0}),             \
      ckci_fit_gpu_gather, ckci_list_gpu_gather)

#define CKCI_GPU_INSTANCES(X)                                                                                \
    CKCI_GPU_TILES(X, FWD, fwd, ckci_fit_gpu_gather, ckci_list_gpu_gather)                                   \
    CKCI_GPU_TILES(X, BWD_DATA, bwd_data, ckci_fit_gpu_gather, ckci_list_gpu_gather)                         \
    CKCI_GPU_TILES(X, BWD_WEIGHT, bwd_weight, ckci_fit_gpu_weight, ckci_list_gpu_weight)                     \
    CKCI_FMA_GATHER_TILES(CKCI_FMA_GATHER_ROW, X)                                                            \
    CKCI_FMA_OTHER_ROW(X, gpu_narrow_bwd_data, BWD_DATA, NARROW, narrow, 1024, 128, 8, 3, 1.05)              \
    CKCI_FMA_OTHER_ROW(X, gpu_grouped_fwd_4, FWD, GROUPED, grouped_4, 1024, 256, 4, 2, 1.8)                  \
    CKCI_FMA_OTHER_ROW(X, gpu_grouped_bwd_data_4, BWD_DATA, GROUPED, grouped_4, 1024, 256, 4, 2, 1.8)        \
    CKCI_FMA_WEIGHT_TILES(CKCI_FMA_WEIGHT_ROW, X)                                                            \
    X(gpu_depthwise_fwd, DIRECT, FWD, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_depth_gather,                       \
      ckci_list_depth_gather)                                                                                \
    X(gpu_depthwise_bwd_data, DIRECT, BWD_DATA, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_depth_gather,             \
      ckci_list_depth_gather)                                                                                \
    X(gpu_depthwise_bwd_weight, DIRECT, BWD_WEIGHT, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_depth_weight,         \
      ckci_list_depth_weight)                                                                                \
    X(gpu_depthwise_matrix_fwd, DIRECT, FWD, 0, CKCI_NO_TILE(DEPTH_MATRIX, 0), ckci_fit_depth_gather,        \
      ckci_list_depth_gather)                                                                                \
    X(gpu_depthwise_matrix_bwd_data, DIRECT, BWD_DATA, 0, CKCI_NO_TILE(DEPTH_MATRIX, 0),                     \
      ckci_fit_depth_gather, ckci_list_depth_gather)                                                         \
    X(gpu_depthwise_matrix_bwd_weight, DIRECT, BWD_WEIGHT, 0, CKCI_NO_TILE(DEPTH_MATRIX, 0),                 \
      ckci_fit_depth_weight, ckci_list_depth_weight)                                                         \
    CKCI_GPU_MATRIX_NEAR(X, MFMA, mfma)                                                                      \
    CKCI_GPU_MATRIX_STEM(X, MFMA, mfma)                                                                      \
    CKCI_GPU_POINTWISE(X, MFMA, mfma)                                                                        \
    CKCI_GATHER_TILES(CKCI_MFMA_GATHER, X)                                                                   \
    CKCI_WEIGHT_TILES(CKCI_MFMA_WEIGHT, X)                                                                   \
    CKCI_WHOLE_TILES(CKCI_MFMA_WHOLE, X)                                                                     \
    CKCI_SINGLE_TILES(CKCI_MFMA_SINGLE, X)                                                                   \
    CKCI_DOUBLE_TILES(CKCI_MFMA_DOUBLE, X)                                                                   \
    CKCI_CDNA_TILES(CKCI_MFMA_CDNA, X)                                                                       \
    CKCI_CDNA_WEIGHT_TILES(CKCI_CDNA_WEIGHT_ROW, X)                                                          \
    CKCI_GPU_MATRIX_NEAR(X, WMMA, wmma)                                                                      \
    CKCI_GPU_MATRIX_STEM(X, WMMA, wmma)                                                                      \
    CKCI_GPU_POINTWISE(X, WMMA, wmma)                                                                        \
    CKCI_GATHER_TILES(CKCI_WMMA_GATHER, X)                                                                   \
    CKCI_WEIGHT_TILES(CKCI_WMMA_WEIGHT, X)                                                                   \
    CKCI_WHOLE_TILES(CKCI_WMMA_WHOLE, X)                                                                     \
    CKCI_GPU_MATRIX_NEAR(X, MMA, mma)                                                                        \
    CKCI_GPU_MATRIX_STEM(X, MMA, mma)                                                                        \
    CKCI_GPU_POINTWISE(X, MMA, mma)                                                                          \
    CKCI_GATHER_TILES(CKCI_MMA_GATHER, X)                                                                    \
    CKCI_WEIGHT_TILES(CKCI_MMA_WEIGHT, X)                                                                    \
    CKCI_TMA_TILES(CKCI_MMA_TMA, X)                                                                          \
    CKCI_TMA_WEIGHT_TILES(CKCI_MMA_TMA_WEIGHT, X)                                                            \
    CKCI_WHOLE_TILES(CKCI_MMA_WHOLE, X)                                                                      \
    CKCI_SINGLE_TILES(CKCI_MMA_SINGLE, X)                                                                    \
    CKCI_DOUBLE_TILES(CKCI_MMA_DOUBLE, X)                                                                    \
    X(gpu_pixel_fwd, DIRECT, FWD, CKCONV_F32, CKCI_NO_TILE(NONE, 0), ckci_fit_pixel, ckci_list_pixel)        \
    X(gpu_pixel_bwd_data, DIRECT, BWD_DATA, CKCONV_F32, CKCI_NO_TILE(NONE, 0), ckci_fit_pixel,               \
      ckci_list_pixel)                                                                                       \
    X(gpu_pixel_bwd_weight, DIRECT, BWD_WEIGHT, CKCONV_F32, CKCI_NO_TILE(NONE, 0), ckci_fit_pixel,           \
      ckci_list_pixel)                                                                                       \
    X(gpu_sections_fwd, TWO_STAGE, FWD, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_sections, ckci_list_sections)     \
    X(gpu_sections_bwd_data, TWO_STAGE, BWD_DATA, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_sections,               \
      ckci_list_sections)                                                                                    \
    X(gpu_sections_bwd_weight, TWO_STAGE, BWD_WEIGHT, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_sections,           \
      ckci_list_sections)                                                                                    \
    X(gpu_sums_fwd, UNFUSED, FWD, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_sums, ckci_list_sums)                   \
    X(gpu_sums_bwd_data, UNFUSED, BWD_DATA, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_sums, ckci_list_sums)         \
    X(gpu_patches_fwd, UNFUSED, FWD, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_patches, ckci_list_patches)          \
    X(gpu_patches_bwd_data, UNFUSED, BWD_DATA, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_patches,                   \
      ckci_list_patches)                                                                                     \
    X(gpu_patches_bwd_weight, UNFUSED, BWD_WEIGHT, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_patches,               \
      ckci_list_patches)                                                                                     \
    X(gpu_sample_fwd, UNFUSED, FWD, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_sample, ckci_list_sample)             \
    X(gpu_sample_bwd_data, UNFUSED, BWD_DATA, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_sample, ckci_list_sample)   \
    X(gpu_sample_bwd_weight, UNFUSED, BWD_WEIGHT, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_sample,                 \
      ckci_list_sample)                                                                                      \
    X(gpu_im2col_fwd, UNFUSED, FWD, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_im2col, ckci_list_im2col)             \
    X(gpu_im2col_bwd_data, UNFUSED, BWD_DATA, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_im2col, ckci_list_im2col)   \
    X(gpu_im2col_bwd_weight, UNFUSED, BWD_WEIGHT, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_im2col,                 \
      ckci_list_im2col)                                                                                      \
    X(gpu_fused_conv_conv_f32, FUSED, CONV_CONV_FWD, CKCONV_F32, CKCI_NO_TILE(PAIR, 64), ckci_fit_gpu_pair,  \
      ckci_list_gpu_pair)                                                                                    \
    CKCI_MATRIX_ROW(X, FUSED, CONV_CONV_FWD, pair, gpu_fused_conv_conv_matrix, CKCONV_F32,                   \
                    CKCI_TILE_PAIR_POINT, 64, 128, 0, 0, 0, 0, 0, 0, {0, 0})                                 \
    CKCI_MATRIX_ROW(X, FUSED, CONV_CONV_FWD, pair, gpu_fused_depth_matrix_128, CKCONV_F32,                   \
                    CKCI_TILE_PAIR_DEPTH, 128, 128, 0, 0, 0, 0, 0, 0, {0, 0})                                \
    CKCI_MATRIX_ROW(X, FUSED, CONV_CONV_FWD, pair, gpu_fused_depth_matrix_256, CKCONV_F32,                   \
                    CKCI_TILE_PAIR_WIDE, 128, 256, 0, 0, 0, 0, 0, 0, {0, 0})                                 \
    CKCI_MATRIX_ROW(X, FUSED, CONV_CONV_FWD, pair, gpu_fused_depth_strips, CKCONV_F32,                       \
                    CKCI_TILE_PAIR_STRIPS, 64, 256, 0, 0, 0, 0, 0, 0, {0, 0})                                \
    X(gpu_recompute_conv_conv, FUSED, CONV_CONV_FWD, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_gpu_pair,            \
      ckci_list_gpu_pair)                                                                                    \
    X(gpu_unfused_conv_conv, UNFUSED, CONV_CONV_FWD, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_gpu_pair,            \
      ckci_list_gpu_pair)                                                                                    \
    X(gpu_groupnorm_fwd, GROUPNORM, GROUPNORM_FWD, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_gpu_norm,              \
      ckci_list_gpu_norm)                                                                                    \
    X(gpu_groupnorm_bwd, GROUPNORM, GROUPNORM_BWD, 0, CKCI_NO_TILE(NONE, 0), ckci_fit_gpu_norm,              \
      ckci_list_gpu_norm)

/* A row's operation: one of the table, which has none twice, or all. */
#define CKCI_ROW(NAME, ...) CKCI_OP_##NAME = CKCONV_##NAME,
enum { CKCI_OPERATIONS(CKCI_ROW) CKCI_OP_ALL = 0 };
#undef CKCI_ROW

CKCI_FN ckconv_status ckci_fit_ref(ckci_fit *f, ckconv_error *err)
{
    ckconv_plan *plan = f->plan;
    if (f->split_k > 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: ref sums in one part", (int)f->split_k);
    }
    if (ckci_desc_of(plan->op) == CKCI_DESC_CONV) {
        const ckci_tensor *t = &f->p->conv.t[ckci_written(plan->op)];
        plan->grid[0] = t->len[0] * t->len[1] * t->len[2];
    } else if (ckci_desc_of(plan->op) == CKCI_DESC_CONV_CONV) {
        const ckci_tensor *t = &f->p->pair.second.t[CKCI_OUT];
        plan->grid[0] = t->len[1] * t->len[3] * t->len[4] * t->len[5];
    } else {
        plan->grid[0] = f->p->norm.in.len[0] * f->p->norm.in.len[1];
    }
    f->cost = 1e30;
    return CKCONV_OK;
}

CKCI_FN void ckci_run_ref(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                          unsigned char *ws, int32_t features)
{
    int32_t threads = plan->device.threads;
    (void)ws;
    (void)features;
    if (ckci_desc_of(plan->op) == CKCI_DESC_CONV) {
        ckci_ref_conv(&p->conv, threads);
    } else if (CKCI_HAS_CONV_CONV && ckci_desc_of(plan->op) == CKCI_DESC_CONV_CONV) {
        ckci_ref_conv_conv(&p->pair, args, threads);
    } else if (CKCI_HAS_GROUPNORM) {
        ckci_ref_groupnorm(&p->norm, args, threads);
    }
}

typedef struct ckci_instance {
    const char *name;
    ckconv_engine engine;
    ckconv_family family;
    ckconv_op op; /* 0: all */
    int32_t features, lanes;
    ckci_gpu_tile tile;
    ckconv_dtype kind; /* GPU: type of the sums, 0: any */
    ckconv_status (*fit)(ckci_fit *f, ckconv_error *err);
    /* host engines compute in run; the GPU engine lists its launches */
    void (*run)(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args, unsigned char *ws,
                int32_t features);
    ckconv_status (*list)(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                          unsigned char *ws, const ckci_gpu_tile *tile, const ckci_emitter *e,
                          ckconv_error *err);
} ckci_instance;

/* An instance of a dropped engine or operation has this function in place of its own. Its row stays, so that
   the numbers of the other instances stay. */
CKCI_FN ckconv_status ckci_fit_dropped(ckci_fit *f, ckconv_error *err)
{
    CKCI_TRY(f->plan->engine == CKCONV_ENGINE_CPU && !CKCI_HAS_CPU
                 ? ckci_check_held("engine cpu", "CKCONV_NO_CPU", err)
                 : ckci_check_op(f->plan->op, err));
    return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "it was left out of this build");
}

CKCI_FN const ckci_instance *ckci_find_instance(int32_t index)
{
#define CKCI_ROW(NAME, ENGINE, FAMILY, OP, FEATURES, ROWS, COLUMNS, LANES, FIT, RUN)                         \
    {#NAME,                                                                                                  \
     CKCONV_ENGINE_##ENGINE,                                                                                 \
     CKCONV_FAMILY_##FAMILY,                                                                                 \
     CKCI_OP_##OP,                                                                                           \
     FEATURES,                                                                                               \
     LANES,                                                                                                  \
     {CKCI_TILE_NONE, ROWS, COLUMNS, 0, 0, 0, 0, 0, 0, {0, 0}},                                              \
     0,                                                                                                      \
     CKCI_JOIN(CKCI_FIT_, CKCI_AND(CKCI_KEEP_ENGINE_##ENGINE, CKCI_KEEP_OP_##OP))(FIT),                      \
     CKCI_JOIN(CKCI_RUN_, CKCI_AND(CKCI_KEEP_ENGINE_##ENGINE, CKCI_KEEP_OP_##OP))(RUN),                      \
     NULL},
#define CKCI_GPU_ROW(NAME, FAMILY, OP, KIND, TILE, FIT, LIST)                                                \
    {#NAME,                                                                                                  \
     CKCONV_ENGINE_GPU,                                                                                      \
     CKCONV_FAMILY_##FAMILY,                                                                                 \
     CKCI_OP_##OP,                                                                                           \
     0,                                                                                                      \
     4,                                                                                                      \
     {CKCI_MEMBERS TILE},                                                                                    \
     KIND,                                                                                                   \
     CKCI_JOIN(CKCI_FIT_, CKCI_KEEP_OP_##OP)(FIT),                                                           \
     NULL,                                                                                                   \
     CKCI_JOIN(CKCI_RUN_, CKCI_KEEP_OP_##OP)(LIST)},
#define CKCI_MEMBERS(...) __VA_ARGS__
#define CKCI_FIT_1(FIT) FIT
#define CKCI_FIT_0(FIT) ckci_fit_dropped
#define CKCI_RUN_1(RUN) RUN
#define CKCI_RUN_0(RUN) NULL
    static const ckci_instance table[] = {CKCI_INSTANCES(CKCI_ROW) CKCI_GPU_INSTANCES(CKCI_GPU_ROW)};
#undef CKCI_ROW
#undef CKCI_GPU_ROW
#undef CKCI_MEMBERS
#undef CKCI_FIT_1
#undef CKCI_FIT_0
#undef CKCI_RUN_1
#undef CKCI_RUN_0
    return index >= 0 && index < (int32_t)(sizeof table / sizeof table[0]) ? &table[index] : NULL;
}

/* Is this a GPU's plan of fwd or bwd_data whose epilogue acts element by element? bwd_weight's acts on few
   numbers; sections, patches, samples, im2col and sums have the launches that they consist of. */
CKCI_FN int ckci_acts_single(const ckconv_plan *plan, const ckci_problem *p)
{
    const ckconv_family family = ckci_find_instance(plan->instance)->family;
    return plan->engine == CKCONV_ENGINE_GPU && ckci_desc_of(plan->op) == CKCI_DESC_CONV &&
           ckci_sums_over(plan->op) == CKCI_OVER_TAPS && family != CKCONV_FAMILY_UNFUSED &&
           family != CKCONV_FAMILY_TWO_STAGE && ckci_single(&p->conv);
}

/* Does this problem ask for dbias? */
CKCI_FN int ckci_has_bias(const ckconv_plan *plan, const ckci_problem *p)
{
    return ckci_desc_of(plan->op) == CKCI_DESC_CONV && p->conv.dbias.dtype != 0;
}

/* Adds to an instance that fits what dbias takes: workspace, which it shares with dwei, launches and time.
   */
CKCI_FN ckconv_status ckci_fit_bias(ckci_fit *f, ckconv_error *err)
{
    ckconv_plan *plan = f->plan;
    const ckci_conv *p = &f->p->conv;
    int64_t bytes = 0, grid;
    if (!ckci_has_bias(plan, f->p) || plan->engine == CKCONV_ENGINE_REF) {
        return CKCONV_OK;
    }
    if (plan->engine == CKCONV_ENGINE_GPU) {
        ckci_gpu_bias k;
        CKCI_TRY(ckci_make_gpu_bias(p, &plan->device, f->limit, &k, &bytes, &grid, err));
        const double apart = plan->tune[CKCI_TUNE_BIAS] ? 0 : ckci_gpu_bias_cost(p, &plan->device);
        f->cost += apart;
        f->ns += apart;
    }
#if CKCI_HAS_CPU
    if (plan->engine == CKCONV_ENGINE_CPU) {
        bytes = plan->tune[CKCI_TUNE_STACK] ? 0 : ckci_cpu_bias_bytes(p, f->limit);
        plan->launches += bytes > 0 ? 2 : 1;
    }
#endif
    plan->workspace_bytes = ckci_max(plan->workspace_bytes, bytes);
    return CKCONV_OK;
}

/* Computes dbias on the host. */
CKCI_FN void ckci_run_bias(const ckconv_plan *plan, const ckci_problem *p, unsigned char *ws,
                           int32_t features)
{
    (void)ws;
    (void)features;
    if (!ckci_has_bias(plan, p)) {
        return;
    }
    if (plan->engine == CKCONV_ENGINE_REF) {
        ckci_ref_bias(&p->conv, plan->device.threads);
    }
#if CKCI_HAS_CPU
    else {
        ckci_cpu_bias(&p->conv, features, plan->device.threads, ckci_run_limit(plan), ws);
    }
#endif
}

/* Lists all launches of a run. dbias comes first, unless the tiles of dwei sum it; where dwei is not wanted
   it comes alone. */
CKCI_FN ckconv_status ckci_list_launches(const ckconv_plan *plan, const ckci_instance *instance,
                                         const ckci_problem *p, const ckconv_args *args, unsigned char *ws,
                                         const ckci_emitter *e, ckconv_error *err)
{
    if (ckci_has_bias(plan, p)) {
        if (!plan->tune[CKCI_TUNE_BIAS] || !ckci_result(args, plan->op)) {
            CKCI_TRY(ckci_emit_bias(plan, &p->conv, ws, e, err));
        }
        if (!ckci_result(args, plan->op)) {
            return CKCONV_OK;
        }
    }
    return instance->list(plan, p, args, ws, &instance->tile, e, err);
}
