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
#include "cpu/pair.h"
#include "cpu/norm.h"
#endif
#include "ref/ref.h"
#include "gpu/stem.h"
#include "gpu/matrix_weight.h"
#include "gpu/tile.h"
#include "gpu/norm.h"
#include "gpu/pair.h"

#if !CKCI_HAS_CPU
CKCI_FN int32_t ckci_cpu_holds(void)
{
    return 0;
}
CKCI_FN int32_t ckci_cpu_features(void)
{
    return 0;
}
#endif

/* The one table of instances: name (its place is the index), engine, family, operation (0: all), CPU features
   it needs, rows and columns of its register tile and lanes of a vector for f32, does it fit, run it. */
#define CKCI_CPU_ROWS(X, ISA, FEATURES, TM, TN, VL)                                                          \
    X(cpu_gemm_fwd_##ISA, CPU, SINGLE_STAGE, FWD, FEATURES, TM, TN, VL, ckci_fit_gather, ckci_run_gather)    \
    X(cpu_gemm_bwd_data_##ISA, CPU, SINGLE_STAGE, BWD_DATA, FEATURES, TM, TN, VL, ckci_fit_gather,           \
      ckci_run_gather)                                                                                       \
    X(cpu_gemm_bwd_weight_##ISA, CPU, SINGLE_STAGE, BWD_WEIGHT, FEATURES, TM, TN, VL, ckci_fit_weight,       \
      ckci_run_weight)                                                                                       \
    X(cpu_gemm_bwd_weight_split_##ISA, CPU, TWO_STAGE, BWD_WEIGHT, FEATURES, TM, TN, VL, ckci_fit_weight,    \
      ckci_run_weight)                                                                                       \
    X(cpu_direct_fwd_##ISA, CPU, DIRECT, FWD, FEATURES, 14, VL, VL, ckci_fit_direct, ckci_run_direct)        \
    X(cpu_direct_bwd_data_##ISA, CPU, DIRECT, BWD_DATA, FEATURES, 14, VL, VL, ckci_fit_direct,               \
      ckci_run_direct)                                                                                       \
    X(cpu_direct_bwd_weight_##ISA, CPU, DIRECT, BWD_WEIGHT, FEATURES, 9, VL, VL, ckci_fit_direct_weight,     \
      ckci_run_direct_weight)                                                                                \
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

/* GPU instances: name, family, operation, type of the sums (0: any), tile, does it fit, list the launches. */
#define CKCI_GPU_TILES(X, OP, LOW, FIT, LIST)                                                                \
    X(gpu_vector_##LOW##_f32_128, VECTOR, OP, CKCONV_F32, 128, FIT, LIST)                                    \
    X(gpu_vector_##LOW##_f32_64, VECTOR, OP, CKCONV_F32, 64, FIT, LIST)                                      \
    X(gpu_vector_##LOW##_f64_64, VECTOR, OP, CKCONV_F64, 64, FIT, LIST)                                      \
    X(gpu_vector_##LOW##_i32_64, VECTOR, OP, CKCONV_I32, 64, FIT, LIST)                                      \
    X(gpu_direct_##LOW##_f32, DIRECT, OP, CKCONV_F32, 0, FIT, LIST)                                          \
    X(gpu_direct_##LOW##_f64, DIRECT, OP, CKCONV_F64, 0, FIT, LIST)                                          \
    X(gpu_direct_##LOW##_i32, DIRECT, OP, CKCONV_I32, 0, FIT, LIST)

#define CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, OP, PASS, TILE, CODE, BODY)                                      \
    X(gpu_##LOW##_##PASS##_##TILE, FAMILY, OP, CKCONV_F32, CODE, ckci_fit_matrix_##BODY,                     \
      ckci_list_matrix_##BODY)

/* every matrix unit */
#define CKCI_GPU_MATRIX_TILES(X, FAMILY, LOW)                                                                \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, FWD, fwd, 128x128, 128128, gather)                                   \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, FWD, fwd, 64x64, 64064, gather)                                      \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, FWD, fwd, 128x32, 128032, gather)                                    \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_DATA, bwd_data, 128x128, 128128, gather)                         \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_DATA, bwd_data, 64x64, 64064, gather)                            \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_DATA, bwd_data, 128x32, 128032, gather)                          \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_WEIGHT, bwd_weight, 128x128, 128128, weight)                     \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_WEIGHT, bwd_weight, 64x64, 64064, weight)                        \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_WEIGHT, bwd_weight, 32x128, 32128, weight)

/* i8 on every matrix unit */
#define CKCI_GPU_MATRIX_WHOLE(X, FAMILY, LOW)                                                                \
    X(gpu_##LOW##_fwd_i8_128x128, FAMILY, FWD, CKCONV_I32, 128128, ckci_fit_matrix_gather,                   \
      ckci_list_matrix_gather)                                                                               \
    X(gpu_##LOW##_fwd_i8_64x64, FAMILY, FWD, CKCONV_I32, 64064, ckci_fit_matrix_gather,                      \
      ckci_list_matrix_gather)                                                                               \
    X(gpu_##LOW##_bwd_data_i8_128x128, FAMILY, BWD_DATA, CKCONV_I32, 128128, ckci_fit_matrix_gather,         \
      ckci_list_matrix_gather)                                                                               \
    X(gpu_##LOW##_bwd_data_i8_64x64, FAMILY, BWD_DATA, CKCONV_I32, 64064, ckci_fit_matrix_gather,            \
      ckci_list_matrix_gather)                                                                               \
    X(gpu_##LOW##_bwd_weight_i8_128x128, FAMILY, BWD_WEIGHT, CKCONV_I32, 128128, ckci_fit_matrix_weight,     \
      ckci_list_matrix_weight)                                                                               \
    X(gpu_##LOW##_bwd_weight_i8_64x64, FAMILY, BWD_WEIGHT, CKCONV_I32, 64064, ckci_fit_matrix_weight,        \
      ckci_list_matrix_weight)

/* f32 and tf32 on CDNA, tf32 on NVIDIA */
#define CKCI_GPU_MATRIX_SINGLE(X, FAMILY, LOW, TYPE)                                                         \
    X(gpu_##LOW##_fwd_##TYPE##_128x128, FAMILY, FWD, CKCONV_F32, CKCI_SINGLE_TILE + 128128,                  \
      ckci_fit_matrix_gather, ckci_list_matrix_gather)                                                       \
    X(gpu_##LOW##_fwd_##TYPE##_64x64, FAMILY, FWD, CKCONV_F32, CKCI_SINGLE_TILE + 64064,                     \
      ckci_fit_matrix_gather, ckci_list_matrix_gather)                                                       \
    X(gpu_##LOW##_bwd_data_##TYPE##_128x128, FAMILY, BWD_DATA, CKCONV_F32, CKCI_SINGLE_TILE + 128128,        \
      ckci_fit_matrix_gather, ckci_list_matrix_gather)                                                       \
    X(gpu_##LOW##_bwd_data_##TYPE##_64x64, FAMILY, BWD_DATA, CKCONV_F32, CKCI_SINGLE_TILE + 64064,           \
      ckci_fit_matrix_gather, ckci_list_matrix_gather)                                                       \
    X(gpu_##LOW##_bwd_weight_##TYPE##_128x128, FAMILY, BWD_WEIGHT, CKCONV_F32, CKCI_SINGLE_TILE + 128128,    \
      ckci_fit_matrix_weight, ckci_list_matrix_weight)                                                       \
    X(gpu_##LOW##_bwd_weight_##TYPE##_64x64, FAMILY, BWD_WEIGHT, CKCONV_F32, CKCI_SINGLE_TILE + 64064,       \
      ckci_fit_matrix_weight, ckci_list_matrix_weight)

/* f64 on both */
#define CKCI_GPU_MATRIX_DOUBLE(X, FAMILY, LOW)                                                               \
    X(gpu_##LOW##_fwd_f64_128x64, FAMILY, FWD, CKCONV_F64, CKCI_DOUBLE_TILE + 128064,                        \
      ckci_fit_matrix_gather, ckci_list_matrix_gather)                                                       \
    X(gpu_##LOW##_bwd_data_f64_128x64, FAMILY, BWD_DATA, CKCONV_F64, CKCI_DOUBLE_TILE + 128064,              \
      ckci_fit_matrix_gather, ckci_list_matrix_gather)                                                       \
    X(gpu_##LOW##_bwd_weight_f64_128x64, FAMILY, BWD_WEIGHT, CKCONV_F64, CKCI_DOUBLE_TILE + 128064,          \
      ckci_fit_matrix_weight, ckci_list_matrix_weight)

/* small groups */
#define CKCI_GPU_MATRIX_NEAR(X, FAMILY, LOW)                                                                 \
    X(gpu_##LOW##_fwd_near, FAMILY, FWD, CKCONV_F32, 0, ckci_fit_matrix_gather, ckci_list_matrix_gather)     \
    X(gpu_##LOW##_bwd_data_near, FAMILY, BWD_DATA, CKCONV_F32, 0, ckci_fit_matrix_gather,                    \
      ckci_list_matrix_gather)                                                                               \
    X(gpu_##LOW##_bwd_weight_near, FAMILY, BWD_WEIGHT, CKCONV_F32, 0, ckci_fit_matrix_weight,                \
      ckci_list_matrix_weight)

/* first layers */
#define CKCI_GPU_MATRIX_STEM(X, FAMILY, LOW)                                                                 \
    X(gpu_##LOW##_fwd_stem, FAMILY, FWD, CKCONV_F32, 0, ckci_fit_matrix_stem, ckci_list_matrix_stem)         \
    X(gpu_##LOW##_bwd_weight_stem, FAMILY, BWD_WEIGHT, CKCONV_F32, 0, ckci_fit_stem_weight,                  \
      ckci_list_stem_weight)                                                                                 \
    X(gpu_##LOW##_bwd_data_stem, FAMILY, BWD_DATA, CKCONV_F32, 0, ckci_fit_matrix_stem, ckci_list_matrix_stem)

/* where LDS holds larger tiles */
#define CKCI_GPU_MATRIX_LARGE(X, FAMILY, LOW)                                                                \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, FWD, fwd, 256x128, 256128, gather)                                   \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_DATA, bwd_data, 256x128, 256128, gather)                         \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, FWD, fwd, 192x128, 192128, gather)                                   \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, FWD, fwd, 512x64, 512064, gather)                                    \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_DATA, bwd_data, 192x128, 192128, gather)                         \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_DATA, bwd_data, 512x64, 512064, gather)                          \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_WEIGHT, bwd_weight, 128x256, 128256, weight)                     \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_WEIGHT, bwd_weight, 64x256, 64256, weight)                       \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_WEIGHT, bwd_weight, 64x192, 64192, weight)                       \
    CKCI_GPU_MATRIX_ROW(X, FAMILY, LOW, BWD_WEIGHT, bwd_weight, 192x128, 192128, weight)

#define CKCI_GPU_FMA_TILES(X)                                                                                \
    X(gpu_tile_fwd_256x64, VECTOR, FWD, CKCONV_F32, 256064, ckci_fit_gpu_gather, ckci_list_gpu_gather)       \
    X(gpu_tile_fwd_64x64, VECTOR, FWD, CKCONV_F32, 64064, ckci_fit_gpu_gather, ckci_list_gpu_gather)         \
    X(gpu_tile_fwd_256x32, VECTOR, FWD, CKCONV_F32, 256032, ckci_fit_gpu_gather, ckci_list_gpu_gather)       \
    X(gpu_tile_fwd_128x16, VECTOR, FWD, CKCONV_F32, 128016, ckci_fit_gpu_gather, ckci_list_gpu_gather)       \
    X(gpu_tile_fwd_128x64_any, VECTOR, FWD, CKCONV_F32, 1128064, ckci_fit_gpu_gather, ckci_list_gpu_gather)  \
    X(gpu_tile_bwd_data_256x64, VECTOR, BWD_DATA, CKCONV_F32, 256064, ckci_fit_gpu_gather,                   \
      ckci_list_gpu_gather)                                                                                  \
    X(gpu_tile_bwd_data_64x64, VECTOR, BWD_DATA, CKCONV_F32, 64064, ckci_fit_gpu_gather,                     \
      ckci_list_gpu_gather)                                                                                  \
    X(gpu_tile_bwd_data_256x32, VECTOR, BWD_DATA, CKCONV_F32, 256032, ckci_fit_gpu_gather,                   \
      ckci_list_gpu_gather)                                                                                  \
    X(gpu_tile_bwd_data_128x16, VECTOR, BWD_DATA, CKCONV_F32, 128016, ckci_fit_gpu_gather,                   \
      ckci_list_gpu_gather)                                                                                  \
    X(gpu_tile_bwd_data_128x64_any, VECTOR, BWD_DATA, CKCONV_F32, 1128064, ckci_fit_gpu_gather,              \
      ckci_list_gpu_gather)                                                                                  \
    X(gpu_narrow_fwd, VECTOR, FWD, CKCONV_F32, 1, ckci_fit_gpu_gather, ckci_list_gpu_gather)                 \
    X(gpu_narrow_bwd_data, VECTOR, BWD_DATA, CKCONV_F32, 1, ckci_fit_gpu_gather, ckci_list_gpu_gather)       \
    X(gpu_grouped_fwd_4, VECTOR, FWD, CKCONV_F32, 4, ckci_fit_gpu_gather, ckci_list_gpu_gather)              \
    X(gpu_grouped_bwd_data_4, VECTOR, BWD_DATA, CKCONV_F32, 4, ckci_fit_gpu_gather, ckci_list_gpu_gather)    \
    X(gpu_tile_bwd_weight_128x128, VECTOR, BWD_WEIGHT, CKCONV_F32, 128128, ckci_fit_gpu_weight,              \
      ckci_list_gpu_weight)                                                                                  \
    X(gpu_tile_bwd_weight_48x128, VECTOR, BWD_WEIGHT, CKCONV_F32, 48128, ckci_fit_gpu_weight,                \
      ckci_list_gpu_weight)                                                                                  \
    X(gpu_tile_bwd_weight_64x64, VECTOR, BWD_WEIGHT, CKCONV_F32, 64064, ckci_fit_gpu_weight,                 \
      ckci_list_gpu_weight)                                                                                  \
    X(gpu_tile_bwd_weight_32x96, VECTOR, BWD_WEIGHT, CKCONV_F32, 32096, ckci_fit_gpu_weight,                 \
      ckci_list_gpu_weight)                                                                                  \
    X(gpu_tile_bwd_weight_16x48, VECTOR, BWD_WEIGHT, CKCONV_F32, 16048, ckci_fit_gpu_weight,                 \
      ckci_list_gpu_weight)                                                                                  \
    X(gpu_tile_bwd_weight_8x72, VECTOR, BWD_WEIGHT, CKCONV_F32, 8072, ckci_fit_gpu_weight,                   \
      ckci_list_gpu_weight)                                                                                  \
    X(gpu_tile_bwd_weight_4x36, VECTOR, BWD_WEIGHT, CKCONV_F32, 4036, ckci_fit_gpu_weight,                   \
      ckci_list_gpu_weight)                                                                                  \
    X(gpu_tile_bwd_weight_64x64_any, VECTOR, BWD_WEIGHT, CKCONV_F32, 1064064, ckci_fit_gpu_weight,           \
      ckci_list_gpu_weight)

#define CKCI_GPU_INSTANCES(X)                                                                                \
    CKCI_GPU_TILES(X, FWD, fwd, ckci_fit_gpu_gather, ckci_list_gpu_gather)                                   \
    X(gpu_vector_fwd_f32_32, VECTOR, FWD, CKCONV_F32, 32, ckci_fit_gpu_gather, ckci_list_gpu_gather)         \
    CKCI_GPU_TILES(X, BWD_DATA, bwd_data, ckci_fit_gpu_gather, ckci_list_gpu_gather)                         \
    X(gpu_vector_bwd_data_f32_32, VECTOR, BWD_DATA, CKCONV_F32, 32, ckci_fit_gpu_gather,                     \
      ckci_list_gpu_gather)                                                                                  \
    CKCI_GPU_TILES(X, BWD_WEIGHT, bwd_weight, ckci_fit_gpu_weight, ckci_list_gpu_weight)                     \
    CKCI_GPU_FMA_TILES(X)                                                                                    \
    X(gpu_depthwise_fwd, DIRECT, FWD, 0, 0, ckci_fit_depth_gather, ckci_list_depth_gather)                   \
    X(gpu_depthwise_bwd_data, DIRECT, BWD_DATA, 0, 0, ckci_fit_depth_gather, ckci_list_depth_gather)         \
    X(gpu_depthwise_bwd_weight, DIRECT, BWD_WEIGHT, 0, 0, ckci_fit_depth_weight, ckci_list_depth_weight)     \
    X(gpu_depthwise_matrix_fwd, DIRECT, FWD, 0, 1, ckci_fit_depth_gather, ckci_list_depth_gather)            \
    X(gpu_depthwise_matrix_bwd_data, DIRECT, BWD_DATA, 0, 1, ckci_fit_depth_gather, ckci_list_depth_gather)  \
    X(gpu_depthwise_matrix_bwd_weight, DIRECT, BWD_WEIGHT, 0, 1, ckci_fit_depth_weight,                      \
      ckci_list_depth_weight)                                                                                \
    CKCI_GPU_MATRIX_NEAR(X, MFMA, mfma)                                                                      \
    CKCI_GPU_MATRIX_STEM(X, MFMA, mfma)                                                                      \
    CKCI_GPU_MATRIX_TILES(X, MFMA, mfma)                                                                     \
    CKCI_GPU_MATRIX_WHOLE(X, MFMA, mfma)                                                                     \
    CKCI_GPU_MATRIX_SINGLE(X, MFMA, mfma, f32)                                                               \
    CKCI_GPU_MATRIX_DOUBLE(X, MFMA, mfma)                                                                    \
    CKCI_GPU_MATRIX_ROW(X, MFMA, mfma, FWD, fwd, 256x256, 256256, gather)                                    \
    CKCI_GPU_MATRIX_ROW(X, MFMA, mfma, BWD_DATA, bwd_data, 256x256, 256256, gather)                          \
    CKCI_GPU_MATRIX_NEAR(X, WMMA, wmma)                                                                      \
    CKCI_GPU_MATRIX_STEM(X, WMMA, wmma)                                                                      \
    CKCI_GPU_MATRIX_TILES(X, WMMA, wmma)                                                                     \
    CKCI_GPU_MATRIX_WHOLE(X, WMMA, wmma)                                                                     \
    CKCI_GPU_MATRIX_NEAR(X, MMA, mma)                                                                        \
    CKCI_GPU_MATRIX_STEM(X, MMA, mma)                                                                        \
    CKCI_GPU_MATRIX_TILES(X, MMA, mma)                                                                       \
    CKCI_GPU_MATRIX_WHOLE(X, MMA, mma)                                                                       \
    CKCI_GPU_MATRIX_SINGLE(X, MMA, mma, tf32)                                                                \
    CKCI_GPU_MATRIX_DOUBLE(X, MMA, mma)                                                                      \
    CKCI_GPU_MATRIX_LARGE(X, MMA, mma)                                                                       \
    X(gpu_fused_conv_conv_f32, FUSED, CONV_CONV_FWD, CKCONV_F32, 64, ckci_fit_gpu_pair, ckci_list_gpu_pair)  \
    X(gpu_fused_conv_conv_matrix, FUSED, CONV_CONV_FWD, CKCONV_F32, 64128, ckci_fit_matrix_pair,             \
      ckci_list_matrix_pair)                                                                                 \
    X(gpu_fused_depth_matrix_128, FUSED, CONV_CONV_FWD, CKCONV_F32, 128128, ckci_fit_matrix_pair,            \
      ckci_list_matrix_pair)                                                                                 \
    X(gpu_fused_depth_matrix_256, FUSED, CONV_CONV_FWD, CKCONV_F32, 128256, ckci_fit_matrix_pair,            \
      ckci_list_matrix_pair)                                                                                 \
    X(gpu_fused_depth_strips, FUSED, CONV_CONV_FWD, CKCONV_F32, CKCI_PAIR_STRIPS, ckci_fit_matrix_pair,      \
      ckci_list_matrix_pair)                                                                                 \
    X(gpu_recompute_conv_conv, FUSED, CONV_CONV_FWD, 0, 0, ckci_fit_gpu_pair, ckci_list_gpu_pair)            \
    X(gpu_unfused_conv_conv, UNFUSED, CONV_CONV_FWD, 0, 0, ckci_fit_gpu_pair, ckci_list_gpu_pair)            \
    X(gpu_groupnorm_fwd, GROUPNORM, GROUPNORM_FWD, 0, 0, ckci_fit_gpu_norm, ckci_list_gpu_norm)              \
    X(gpu_groupnorm_bwd, GROUPNORM, GROUPNORM_BWD, 0, 0, ckci_fit_gpu_norm, ckci_list_gpu_norm)

enum {
    CKCI_OP_ALL = 0,
    CKCI_OP_FWD = CKCONV_FWD,
    CKCI_OP_BWD_DATA = CKCONV_BWD_DATA,
    CKCI_OP_BWD_WEIGHT = CKCONV_BWD_WEIGHT,
    CKCI_OP_CONV_CONV_FWD = CKCONV_CONV_CONV_FWD,
    CKCI_OP_GROUPNORM_FWD = CKCONV_GROUPNORM_FWD,
    CKCI_OP_GROUPNORM_BWD = CKCONV_GROUPNORM_BWD
};

CKCI_FN ckconv_status ckci_fit_ref(ckci_fit *f, ckconv_error *err)
{
    ckconv_plan *plan = f->plan;
    if (f->split_k > 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: ref sums in one part", (int)f->split_k);
    }
    const ckci_tensor *t = plan->op <= CKCONV_BWD_WEIGHT      ? &f->p->conv.t[ckci_written(plan->op)]
                           : plan->op == CKCONV_CONV_CONV_FWD ? &f->p->pair.second.t[CKCI_OUT]
                                                              : &f->p->norm.in;
    plan->grid[0] = plan->op == CKCONV_CONV_CONV_FWD ? t->len[1] * t->len[3] * t->len[4] * t->len[5]
                    : plan->op <= CKCONV_BWD_WEIGHT  ? t->len[0] * t->len[1] * t->len[2]
                                                     : t->len[0] * t->len[1];
    f->cost = 1e30;
    return CKCONV_OK;
}

CKCI_FN void ckci_run_ref(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                          unsigned char *ws, int32_t features)
{
    int32_t threads = plan->device.threads;
    (void)ws;
    (void)features;
    if (plan->op <= CKCONV_BWD_WEIGHT) {
        ckci_ref_conv(&p->conv, threads);
    } else if (CKCI_HAS_CONV_CONV && plan->op == CKCONV_CONV_CONV_FWD) {
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
    int32_t features, tile_rows, tile_columns, lanes;
    ckconv_dtype kind; /* GPU: type of the sums, 0: any */
    ckconv_status (*fit)(ckci_fit *f, ckconv_error *err);
    /* host engines compute in run; the GPU engine lists its launches */
    void (*run)(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args, unsigned char *ws,
                int32_t features);
    ckconv_status (*list)(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                          unsigned char *ws, int32_t tile, const ckci_emitter *e, ckconv_error *err);
} ckci_instance;

/* In the place of what an instance of a dropped engine or operation does: places of the others stay. */
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
     ROWS,                                                                                                   \
     COLUMNS,                                                                                                \
     LANES,                                                                                                  \
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
     TILE,                                                                                                   \
     TILE,                                                                                                   \
     4,                                                                                                      \
     KIND,                                                                                                   \
     CKCI_JOIN(CKCI_FIT_, CKCI_KEEP_OP_##OP)(FIT),                                                           \
     NULL,                                                                                                   \
     CKCI_JOIN(CKCI_RUN_, CKCI_KEEP_OP_##OP)(LIST)},
#define CKCI_FIT_1(FIT) FIT
#define CKCI_FIT_0(FIT) ckci_fit_dropped
#define CKCI_RUN_1(RUN) RUN
#define CKCI_RUN_0(RUN) NULL
    static const ckci_instance table[] = {CKCI_INSTANCES(CKCI_ROW) CKCI_GPU_INSTANCES(CKCI_GPU_ROW)};
#undef CKCI_ROW
#undef CKCI_GPU_ROW
#undef CKCI_FIT_1
#undef CKCI_FIT_0
#undef CKCI_RUN_1
#undef CKCI_RUN_0
    return index >= 0 && index < (int32_t)(sizeof table / sizeof table[0]) ? &table[index] : NULL;
}
