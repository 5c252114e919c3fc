/*------------------------------------------------------------------------------------------------------------
  >>gpu-table
  The one table of kernels: name, CKCI_KEEP_... that tells whether a build has it (>>core-switches), part (the
  four take about as long to compile), argument struct, threads per block, what kernels/ instantiates; and a
  launch, one row of it with its arguments. gather computes fwd and bwd_data: they differ in the coordinate
  map only.
*/
#pragma once
#include "gpu/args.h"

/* ---- Tiles. A row is all that there is to say of one: kernels are made of it here, instances in
   plan/instances.h, and the planner reads the rest. M makes something of a row, with X.

   fwd and bwd_data on matrix units: families that have it (ALL; MMA: where LDS holds it), rows and columns of
   a block, parts of the kernel that reads weights along the reduction and of the one that reads them across
   (bwd_data of MMA), and how much slower than .022 ns an output it takes 64 places of the reduction: groups
   of waves (sm_90, f16 and bf16; fitted to an H100 and an H200), and mma.sync (not measured). */
#define CKCI_GATHER_TILES(M, X)                                                                              \
    M(X, ALL, 128, 128, 1, 3, 1.12, 1.08)                                                                    \
    M(X, ALL, 64, 64, 3, 4, 3.6, 2.6)                                                                        \
    M(X, ALL, 128, 32, 1, 3, 3.6, 2.6)                                                                       \
    M(X, MMA, 256, 128, 1, 2, 1.01, .97)                                                                     \
    M(X, MMA, 192, 128, 2, 1, 1.12, 1.075)                                                                   \
    M(X, MMA, 512, 64, 3, 3, 1.35, 1.53)

/* bwd_weight: the same, with one kernel; I8: i8 has an instance of it, too, which multiplies as f16 */
#define CKCI_WEIGHT_TILES(M, X)                                                                              \
    M(X, ALL, I8, 128, 128, 3, 1.23, 1.2)                                                                    \
    M(X, ALL, I8, 64, 64, 3, 4.3, 2.6)                                                                       \
    M(X, ALL, HALF, 32, 128, 4, 4.6, 2.6)                                                                    \
    M(X, MMA, HALF, 128, 256, 4, 1.12, 1.12)                                                                 \
    M(X, MMA, HALF, 64, 256, 3, 1.7, 1.7)                                                                    \
    M(X, MMA, HALF, 64, 192, 3, 1.57, 1.87)                                                                  \
    M(X, MMA, HALF, 192, 128, 4, 1.17, 1.17)

/* sm_90's tiles that the TMA brings: rows and columns, parts of the kernels that read weights along the
   reduction and across it; how much slower than .022 ns an output fwd and bwd_data take 64 places of the
   reduction, where boxes are of rows (1x1) and of pixels (fitted to 337 layers of networks on an H200, and
   corrected by others: by what a tile takes less since it does not wait for the waves that send, 256 x 128 of
   pixels by 101 layers and passes) */
#define CKCI_TMA_TILES(M, X)                                                                                 \
    M(X, 128, 256, 1, 2, .84, .95, .89, .95)                                                                 \
    M(X, 256, 128, 2, 3, .94, .9, .93, 1)                                                                    \
    M(X, 128, 128, 3, 4, 1.04, 1.1, 1.08, 1.12)                                                              \
    M(X, 256, 64, 1, 2, 1.06, 1.2, 1.08, 1.2)

/* and those that have a kernel for bwd_data with strides: rows, columns, part (38 layers: others were ahead
   by 5 % at most) */
#define CKCI_TMA_PHASE_TILES(M, X)                                                                           \
    M(X, 128, 128, 1)                                                                                        \
    M(X, 256, 64, 4)

/* and bwd_weight's, with one kernel (rows: 113 layers, both orders; pixels: reckoned likewise) */
#define CKCI_TMA_WEIGHT_TILES(M, X)                                                                          \
    M(X, 128, 256, 3, 1.05, 1.02)                                                                            \
    M(X, 128, 128, 1, 1.08, 1.6)                                                                             \
    M(X, 64, 256, 4, 1.24, 1.18)

/* fwd and bwd_data, of MFMA alone: rows, columns, part; on CDNA 4 with a second kernel, which reads weights
   across */
#define CKCI_CDNA_TILES(M, X)                                                                                \
    M(X, 256, 256, 3)                                                                                        \
    M(X, 256, 128, 2)

/* bwd_weight, where waves fill tiles (CDNA 4) alone: rows, columns, part */
#define CKCI_CDNA_WEIGHT_TILES(M, X)                                                                         \
    M(X, 256, 256, 4)

/* i8, fwd and bwd_data: rows, columns, part, mma.sync's slowness */
#define CKCI_WHOLE_TILES(M, X)                                                                               \
    M(X, 128, 128, 2, 1.08)                                                                                  \
    M(X, 64, 64, 2, 2.6)

/* f32 and tf32: rows, columns, parts of the kernels for fwd and bwd_data and for bwd_weight, and slowness of
   both */
#define CKCI_SINGLE_TILES(M, X)                                                                              \
    M(X, 128, 128, 3, 3, 1.08, 1.2)                                                                          \
    M(X, 64, 64, 1, 2, 2.6, 2.6)

/* f64: the same */
#define CKCI_DOUBLE_TILES(M, X) M(X, 128, 64, 3, 4, 2.6, 2.6)

/* FMA tiles of fwd and bwd_data: name, rows, columns and threads of a block, elements per load, blocks that
   share a compute unit, time of a multiply-add (of a generic 128 x 128 tile: 1; H100), part, rows and columns
   of a thread, places of the reduction per step, threads that share a sum */
#define CKCI_FMA_GATHER_TILES(M, X)                                                                          \
    M(X, 256x64, 256, 64, 128, 4, 2, .49, 4, 16, 8, 8, 1)                                                    \
    M(X, 64x64, 64, 64, 64, 4, 6, .515, 1, 8, 8, 8, 1)                                                       \
    M(X, 256x32, 256, 32, 128, 4, 3, .6, 2, 8, 8, 8, 1)                                                      \
    M(X, 128x16, 128, 16, 64, 4, 6, .9, 2, 8, 8, 16, 2)                                                      \
    M(X, 128x64_any, 128, 64, 128, 1, 3, .78, 4, 8, 8, 8, 1)

/* and of bwd_weight */
#define CKCI_FMA_WEIGHT_TILES(M, X)                                                                          \
    M(X, 128x128, 128, 128, 128, 4, 2, .495, 1, 16, 8, 8, 1)                                                 \
    M(X, 48x128, 48, 128, 64, 4, 6, .565, 3, 12, 8, 8, 1)                                                    \
    M(X, 64x64, 64, 64, 128, 4, 2, .56, 1, 16, 8, CKCI_K_DEEP, 4)                                            \
    M(X, 32x96, 32, 96, 192, 4, 2, .8, 1, 8, 8, 16, 4)                                                       \
    M(X, 16x48, 16, 48, 192, 4, 3, 1.05, 3, 8, 4, 64, 8)                                                     \
    M(X, 8x72, 8, 72, 144, 4, 4, 1.6, 1, 8, 4, 32, 8)                                                        \
    M(X, 4x36, 4, 36, 144, 4, 4, 3.2, 4, 4, 4, 64, 16)                                                       \
    M(X, 64x64_any, 64, 64, 128, 1, 3, .72, 2, 8, 8, 16, 2)

/* ---- Kernels */
#define CKCI_GATHER_KERNELS(X, UNITS, ROWS, COLUMNS, PART, BACK, SLOW, OTHER)                                \
    X(matrix_gather_##ROWS##x##COLUMNS, GATHER_HALF, PART, ckci_gpu_conv, 256,                               \
      ckci_k_matrix<ckci_k_matrix_gather, ROWS, COLUMNS>)                                                    \
    X(matrix_back_##ROWS##x##COLUMNS, BACK_HALF, BACK, ckci_gpu_conv, 256,                                   \
      ckci_k_matrix<ckci_k_matrix_back, ROWS, COLUMNS>)
#define CKCI_WEIGHT_KERNELS(X, UNITS, I8, ROWS, COLUMNS, PART, SLOW, OTHER)                                  \
    X(matrix_weight_##ROWS##x##COLUMNS, WEIGHT_HALF, PART, ckci_gpu_conv, 256,                               \
      ckci_k_matrix<ckci_k_matrix_weight, ROWS, COLUMNS>)
#define CKCI_CDNA_KERNELS(X, ROWS, COLUMNS, PART)                                                            \
    X(matrix_wide_##ROWS##x##COLUMNS, GATHER_HALF, PART, ckci_gpu_conv, CKCI_WIDE_THREADS(ROWS, COLUMNS),    \
      ckci_k_matrix<ckci_k_matrix_wide, ROWS, COLUMNS>)
#define CKCI_CDNA_BACK_KERNELS(X, ROWS, COLUMNS, PART)                                                       \
    X(matrix_wide_back_##ROWS##x##COLUMNS, BACK_HALF, PART, ckci_gpu_conv, CKCI_WIDE_THREADS(ROWS, COLUMNS), \
      ckci_k_matrix<ckci_k_matrix_wide_back, ROWS, COLUMNS>)
#define CKCI_CDNA_WEIGHT_KERNELS(X, ROWS, COLUMNS, PART)                                                     \
    X(matrix_wide_weight_##ROWS##x##COLUMNS, WEIGHT_HALF, PART, ckci_gpu_conv,                               \
      CKCI_WIDE_THREADS(ROWS, COLUMNS), ckci_k_matrix<ckci_k_matrix_wide_weight, ROWS, COLUMNS>)
#define CKCI_TMA_KERNELS(X, ROWS, COLUMNS, PART, BACK, ...)                                                  \
    X(matrix_tma_gather_##ROWS##x##COLUMNS, GATHER_HALF, PART, ckci_gpu_tma, 384,                            \
      ckci_k_matrix_tma<CKCI_K_TMA_GATHER, ROWS, COLUMNS>)                                                   \
    X(matrix_tma_back_##ROWS##x##COLUMNS, BACK_HALF, BACK, ckci_gpu_tma, 384,                                \
      ckci_k_matrix_tma<CKCI_K_TMA_BACK, ROWS, COLUMNS>)
#define CKCI_TMA_PHASE_KERNELS(X, ROWS, COLUMNS, PART)                                                       \
    X(matrix_tma_phase_##ROWS##x##COLUMNS, BACK_HALF, PART, ckci_gpu_tma, 384,                               \
      ckci_k_matrix_tma<CKCI_K_TMA_PHASE, ROWS, COLUMNS>)
#define CKCI_TMA_WEIGHT_KERNELS(X, ROWS, COLUMNS, PART, ...)                                                 \
    X(matrix_tma_weight_##ROWS##x##COLUMNS, WEIGHT_HALF, PART, ckci_gpu_tma, 384,                            \
      ckci_k_matrix_tma<CKCI_K_TMA_WEIGHT, ROWS, COLUMNS>)
#define CKCI_WHOLE_KERNELS(X, ROWS, COLUMNS, PART, SLOW)                                                     \
    X(matrix_whole_##ROWS##x##COLUMNS, CONV_I8, PART, ckci_gpu_conv, 256,                                    \
      ckci_k_matrix<ckci_k_matrix_whole, ROWS, COLUMNS>)
#define CKCI_SINGLE_KERNELS(X, ROWS, COLUMNS, PART, WEIGHT, SLOW, WEIGHT_SLOW)                               \
    X(matrix_single_##ROWS##x##COLUMNS, GATHER_F32, PART, ckci_gpu_conv, 256,                                \
      ckci_k_matrix<ckci_k_matrix_single, ROWS, COLUMNS>)                                                    \
    X(matrix_single_weight_##ROWS##x##COLUMNS, WEIGHT_F32, WEIGHT, ckci_gpu_conv, 256,                       \
      ckci_k_matrix<ckci_k_matrix_single_weight, ROWS, COLUMNS>)
#define CKCI_DOUBLE_KERNELS(X, ROWS, COLUMNS, PART, WEIGHT, SLOW, WEIGHT_SLOW)                               \
    X(matrix_double_##ROWS##x##COLUMNS, GATHER_F64, PART, ckci_gpu_conv, 256,                                \
      ckci_k_matrix<ckci_k_matrix_double, ROWS, COLUMNS>)                                                    \
    X(matrix_double_weight_##ROWS##x##COLUMNS, WEIGHT_F64, WEIGHT, ckci_gpu_conv, 256,                       \
      ckci_k_matrix<ckci_k_matrix_double_weight, ROWS, COLUMNS>)
#define CKCI_FMA_GATHER_KERNELS(X, NAME, ROWS, COLUMNS, THREADS, WIDTH, BLOCKS, RATE, PART, M, N, STEP,      \
                                SHARE)                                                                       \
    X(tile_gather_##NAME, GATHER_F32, PART, ckci_gpu_conv, THREADS,                                          \
      ckci_k_tile_gather<ckci_k_shape<ROWS, COLUMNS, M, N, STEP, SHARE>, WIDTH>)
#define CKCI_FMA_WEIGHT_KERNELS(X, NAME, ROWS, COLUMNS, THREADS, WIDTH, BLOCKS, RATE, PART, M, N, STEP,      \
                                SHARE)                                                                       \
    X(tile_weight_##NAME, WEIGHT_F32, PART, ckci_gpu_conv, THREADS,                                          \
      ckci_k_tile_weight<ckci_k_shape<ROWS, COLUMNS, M, N, STEP, SHARE>, WIDTH>)

/* Those whose o_vec stands for eight neighbouring columns, whatever the epilogue. */
#define CKCI_GPU_MATRIX(X)                                                                                   \
    CKCI_CDNA_TILES(CKCI_CDNA_KERNELS, X)                                                                    \
    CKCI_CDNA_TILES(CKCI_CDNA_BACK_KERNELS, X)                                                               \
    CKCI_CDNA_WEIGHT_TILES(CKCI_CDNA_WEIGHT_KERNELS, X)                                                      \
    CKCI_GATHER_TILES(CKCI_GATHER_KERNELS, X)                                                                \
    CKCI_WEIGHT_TILES(CKCI_WEIGHT_KERNELS, X)                                                                \
    CKCI_TMA_TILES(CKCI_TMA_KERNELS, X)                                                                      \
    CKCI_TMA_PHASE_TILES(CKCI_TMA_PHASE_KERNELS, X)                                                          \
    CKCI_TMA_WEIGHT_TILES(CKCI_TMA_WEIGHT_KERNELS, X)                                                        \
    X(gather_reduce, GATHER_SUMS, 2, ckci_gpu_conv, 256, ckci_k_gather_reduce)                               \
    X(matrix_near_16, GATHER_HALF, 1, ckci_gpu_conv, 256, ckci_k_matrix_near<ckci_k_near, 16>)               \
    X(matrix_near_32, GATHER_HALF, 3, ckci_gpu_conv, 256, ckci_k_matrix_near<ckci_k_near, 32>)               \
    X(matrix_near_down_16, GATHER_HALF, 3, ckci_gpu_conv, 256, ckci_k_matrix_near<ckci_k_near_down, 16>)     \
    X(matrix_near_down_32, GATHER_HALF, 2, ckci_gpu_conv, 256, ckci_k_matrix_near<ckci_k_near_down, 32>)     \
    X(matrix_near_deep_16, GATHER_HALF, 2, ckci_gpu_conv, 256, ckci_k_matrix_near<ckci_k_near_deep, 16>)     \
    X(matrix_near_deep_32, GATHER_HALF, 2, ckci_gpu_conv, 256, ckci_k_matrix_near<ckci_k_near_deep, 32>)     \
    X(matrix_near_weight_16, WEIGHT_HALF, 3, ckci_gpu_conv, 256, ckci_k_matrix_near<ckci_k_near_weight, 16>) \
    X(matrix_near_weight_32, WEIGHT_HALF, 1, ckci_gpu_conv, 256, ckci_k_matrix_near<ckci_k_near_weight, 32>) \
    X(matrix_stem_fwd, FWD_HALF, 4, ckci_gpu_stem, 256, ckci_k_stem<ckci_k_stem_fwd_of>)                     \
    X(matrix_stem_bwd_data, BACK_HALF, 1, ckci_gpu_stem, 256, ckci_k_stem<ckci_k_stem_back_of>)              \
    X(matrix_stem_bwd_weight, WEIGHT_HALF, 1, ckci_gpu_stem, 128, ckci_k_stem<ckci_k_stem_weight_of>)        \
    X(matrix_stem_sum, WEIGHT_HALF, 4, ckci_gpu_conv, 256, ckci_k_stem_sum)                                  \
    X(matrix_pointwise_32, GATHER_HALF, 3, ckci_gpu_conv, 256, ckci_k_matrix_pointwise<1>)                   \
    X(matrix_pointwise_128, GATHER_HALF, 2, ckci_gpu_conv, 256, ckci_k_matrix_pointwise<4>)                  \
    X(matrix_pointwise_256, GATHER_HALF, 1, ckci_gpu_conv, 256, ckci_k_matrix_pointwise<8>)                  \
    X(matrix_planes_32, GATHER_HALF, 4, ckci_gpu_conv, 128, ckci_k_matrix_planes<1, 128>)                    \
    X(matrix_planes_64, GATHER_HALF, 1, ckci_gpu_conv, 128, ckci_k_matrix_planes<2, 128>)                    \
    X(matrix_planes_128, GATHER_HALF, 3, ckci_gpu_conv, 256, ckci_k_matrix_planes<4, 256>)                   \
    CKCI_WHOLE_TILES(CKCI_WHOLE_KERNELS, X)                                                                  \
    CKCI_SINGLE_TILES(CKCI_SINGLE_KERNELS, X)                                                                \
    CKCI_DOUBLE_TILES(CKCI_DOUBLE_KERNELS, X)

#define CKCI_GPU_FMA(X)                                                                                      \
    CKCI_FMA_GATHER_TILES(CKCI_FMA_GATHER_KERNELS, X)                                                        \
    X(narrow, GATHER_F32, 2, ckci_gpu_conv, 128, ckci_k_narrow)                                              \
    X(grouped_4, GATHER_F32, 2, ckci_gpu_conv, 256, ckci_k_grouped<4, 4>)                                    \
    CKCI_FMA_WEIGHT_TILES(CKCI_FMA_WEIGHT_KERNELS, X)

/* Depthwise: storage type; numbers of a load of walk_weight_7 and of columns; strip of columns. Those of a
   type alone follow its others (gpu/depth.h). */
#define CKCI_GPU_DEPTH(X, S, V, V3, X3)                                                                      \
    X(depth_##S##_down_3, GATHER_DEPTH_##S, 1, ckci_gpu_depth, 256, ckci_k_depth_down<ckci_k_s_##S, 3>)      \
    X(depth_##S##_down_5, GATHER_DEPTH_##S, 3, ckci_gpu_depth, 256, ckci_k_depth_down<ckci_k_s_##S, 5>)      \
    X(depth_##S##_down_7, GATHER_DEPTH_##S, 4, ckci_gpu_depth, 256, ckci_k_depth_down<ckci_k_s_##S, 7>)      \
    X(depth_##S##_plane_walk_3, GATHER_PLANES_##S, 4, ckci_gpu_depth, 256,                                   \
      ckci_k_depth_walk<ckci_k_s_##S, 8, 3>)                                                                 \
    X(depth_##S##_plane_walk_7, GATHER_PLANES_##S, 2, ckci_gpu_depth, 256,                                   \
      ckci_k_depth_walk<ckci_k_s_##S, 4, 7>)                                                                 \
    X(depth_##S##_row, GATHER_PLANES_##S, 2, ckci_gpu_depth, 256, ckci_k_depth_row<ckci_k_s_##S>)            \
    X(depth_##S##_4_near, GATHER_DEPTH_##S, 2, ckci_gpu_depth, 256,                                          \
      ckci_k_depth<ckci_k_s_##S, 4, 8, 1, false>)                                                            \
    X(depth_##S##_4_second, GATHER_DEPTH_##S, 3, ckci_gpu_depth, 256,                                        \
      ckci_k_depth<ckci_k_s_##S, 4, 8, 2, false>)                                                            \
    X(depth_##S##_1_near, GATHER_DEPTH_##S, 2, ckci_gpu_depth, 256,                                          \
      ckci_k_depth<ckci_k_s_##S, 1, 8, 1, false>)                                                            \
    X(depth_##S##_1_any, GATHER_DEPTH_##S, 1, ckci_gpu_depth, 256,                                           \
      ckci_k_depth<ckci_k_s_##S, 1, 8, 0, true>)                                                             \
    X(depth_##S##_column_3_second, GATHER_DEPTH_##S, 1, ckci_gpu_depth, 256,                                 \
      ckci_k_depth_column<ckci_k_s_##S, V3, X3, 2>)                                                          \
    X(depth_##S##_deep, GATHER_DEPTH_##S, 3, ckci_gpu_depth, 256, ckci_k_depth_deep<ckci_k_s_##S>)           \
    X(depth_##S##_sheet_3, GATHER_PLANES_##S, 2, ckci_gpu_depth, 128,                                        \
      ckci_k_depth_sheet<ckci_k_s_##S, 3, 1, false>)                                                         \
    X(depth_##S##_sheet_5, GATHER_PLANES_##S, 2, ckci_gpu_depth, 128,                                        \
      ckci_k_depth_sheet<ckci_k_s_##S, 5, 1, false>)                                                         \
    X(depth_##S##_sheet_3_second, GATHER_PLANES_##S, 4, ckci_gpu_depth, 128,                                 \
      ckci_k_depth_sheet<ckci_k_s_##S, 3, 2, false>)                                                         \
    X(depth_##S##_sheet_3_back, GATHER_PLANES_##S, 2, ckci_gpu_depth, 128,                                   \
      ckci_k_depth_sheet<ckci_k_s_##S, 3, 2, true>)                                                          \
    X(depth_##S##_sheet_7, GATHER_PLANES_##S, 3, ckci_gpu_depth, 128,                                        \
      ckci_k_depth_sheet<ckci_k_s_##S, 7, 1, false>)                                                         \
    X(depth_weight_##S##_walk_7, WEIGHT_DEPTH_##S, 4, ckci_gpu_depth, 256,                                   \
      ckci_k_depth_walk_weight<ckci_k_s_##S, V, 4, 7, false>)                                                \
    X(depth_weight_##S##_plane_walk_3, WEIGHT_PLANES_##S, 3, ckci_gpu_depth, 256,                            \
      ckci_k_depth_walk_weight<ckci_k_s_##S, 1, 8, 3, true>)                                                 \
    X(depth_weight_##S##_plane_walk_7, WEIGHT_PLANES_##S, 3, ckci_gpu_depth, 256,                            \
      ckci_k_depth_walk_weight<ckci_k_s_##S, 1, 4, 7, true>)                                                 \
    X(depth_weight_##S##_row, WEIGHT_PLANES_##S, 1, ckci_gpu_depth, 256,                                     \
      ckci_k_depth_row_weight<ckci_k_s_##S>)                                                                 \
    X(depth_weight_##S##_4_near, WEIGHT_DEPTH_##S, 4, ckci_gpu_depth, 256,                                   \
      ckci_k_depth_weight<ckci_k_s_##S, 4, 8, 1, 8, 1>)                                                      \
    X(depth_weight_##S##_2_second, WEIGHT_DEPTH_##S, 3, ckci_gpu_depth, 256,                                 \
      ckci_k_depth_weight_second<ckci_k_s_##S>)                                                              \
    X(depth_weight_##S##_1_any, WEIGHT_DEPTH_##S, 1, ckci_gpu_depth, 256,                                    \
      ckci_k_depth_weight<ckci_k_s_##S, 1, 8, 1, 1, 0>)                                                      \
    X(depth_weight_##S##_4_second, WEIGHT_DEPTH_##S, 4, ckci_gpu_depth, 256,                                 \
      ckci_k_depth_weight<ckci_k_s_##S, 4, 4, 1, 5, 2>)                                                      \
    X(depth_weight_##S##_down_3, WEIGHT_DEPTH_##S, 1, ckci_gpu_depth, 256,                                   \
      ckci_k_depth_down_weight<ckci_k_s_##S, 3>)                                                             \
    X(depth_weight_##S##_down_5, WEIGHT_DEPTH_##S, 2, ckci_gpu_depth, 256,                                   \
      ckci_k_depth_down_weight<ckci_k_s_##S, 5>)                                                             \
    X(depth_weight_##S##_deep, WEIGHT_DEPTH_##S, 1, ckci_gpu_depth, 256,                                     \
      ckci_k_depth_deep_weight<ckci_k_s_##S>)                                                                \
    X(depth_weight_##S##_sheet_3, WEIGHT_PLANES_##S, 1, ckci_gpu_depth, 128,                                 \
      ckci_k_depth_sheet_weight<ckci_k_s_##S, 3, 1>)                                                         \
    X(depth_weight_##S##_sheet_5, WEIGHT_PLANES_##S, 4, ckci_gpu_depth, 128,                                 \
      ckci_k_depth_sheet_weight<ckci_k_s_##S, 5, 1>)                                                         \
    X(depth_weight_##S##_sheet_3_second, WEIGHT_PLANES_##S, 2, ckci_gpu_depth, 128,                          \
      ckci_k_depth_sheet_weight<ckci_k_s_##S, 3, 2>)                                                         \
    X(depth_weight_##S##_sheet_7, WEIGHT_PLANES_##S, 1, ckci_gpu_depth, 128,                                 \
      ckci_k_depth_sheet_weight<ckci_k_s_##S, 7, 1>)
#define CKCI_GPU_DEPTH_HALF(X)                                                                               \
    X(depth_half_plane_walk_5, GATHER_PLANES_half, 4, ckci_gpu_depth, 256,                                   \
      ckci_k_depth_walk<ckci_k_s_half, 8, 5>)                                                                \
    X(depth_half_4_any, GATHER_DEPTH_half, 2, ckci_gpu_depth, 256,                                           \
      ckci_k_depth<ckci_k_s_half, 4, 8, 0, false>)                                                           \
    X(depth_half_1_second, GATHER_DEPTH_half, 1, ckci_gpu_depth, 256,                                        \
      ckci_k_depth<ckci_k_s_half, 1, 8, 2, false>)                                                           \
    X(depth_half_down_5_short, GATHER_DEPTH_half, 2, ckci_gpu_depth, 256,                                    \
      ckci_k_depth_down<ckci_k_s_half, 5, CKCI_DEPTH_DOWN_SHORT>)                                            \
    X(depth_weight_half_4_any, WEIGHT_DEPTH_half, 4, ckci_gpu_depth, 256,                                    \
      ckci_k_depth_weight<ckci_k_s_half, 4, 8, 1, 1, 0>)                                                     \
    X(depth_half_sheet_5_second, GATHER_PLANES_half, 1, ckci_gpu_depth, 128,                                 \
      ckci_k_depth_sheet<ckci_k_s_half, 5, 2, false>)                                                        \
    X(depth_half_sheet_5_back, GATHER_PLANES_half, 1, ckci_gpu_depth, 128,                                   \
      ckci_k_depth_sheet<ckci_k_s_half, 5, 2, true>)                                                         \
    X(depth_weight_half_sheet_5_second, WEIGHT_PLANES_half, 4, ckci_gpu_depth, 128,                          \
      ckci_k_depth_sheet_weight<ckci_k_s_half, 5, 2>)                                                        \
    X(depth_weight_half_plane_walk_5, WEIGHT_PLANES_half, 3, ckci_gpu_depth, 256,                            \
      ckci_k_depth_walk_weight<ckci_k_s_half, 1, 8, 5, true>)
#define CKCI_GPU_DEPTH_F32(X)                                                                                \
    X(depth_f32_column_3, GATHER_DEPTH_f32, 2, ckci_gpu_depth, 256,                                          \
      ckci_k_depth_column<ckci_k_s_f32, 2, 4, 1>)                                                            \
    X(depth_weight_f32_walk_3, WEIGHT_DEPTH_f32, 4, ckci_gpu_depth, 256,                                     \
      ckci_k_depth_walk_weight<ckci_k_s_f32, 2, 4, 3, false>)

#define CKCI_GPU_KERNELS(X)                                                                                  \
    X(gather_f32_128, GATHER_SUMS, 1, ckci_gpu_conv, 256, ckci_k_gather<float, 128, 8, 256>)                 \
    X(gather_f32_64, GATHER_SUMS, 2, ckci_gpu_conv, 256, ckci_k_gather<float, 64, 16, 256>)                  \
    X(gather_f64_64, GATHER_F64, 4, ckci_gpu_conv, 256, ckci_k_gather<double, 64, 16, 256>)                  \
    X(gather_i32_64, GATHER_I8, 4, ckci_gpu_conv, 256, ckci_k_gather<int32_t, 64, 16, 256>)                  \
    X(weight_f32_128, WEIGHT_SUMS, 4, ckci_gpu_conv, 256, ckci_k_weight<float, 128, 8, 256>)                 \
    X(weight_f32_64, WEIGHT_SUMS, 4, ckci_gpu_conv, 256, ckci_k_weight<float, 64, 16, 256>)                  \
    X(weight_f64_64, WEIGHT_F64, 2, ckci_gpu_conv, 256, ckci_k_weight<double, 64, 16, 256>)                  \
    X(weight_i32_64, WEIGHT_I8, 3, ckci_gpu_conv, 256, ckci_k_weight<int32_t, 64, 16, 256>)                  \
    X(direct_f32, GATHER_SUMS, 1, ckci_gpu_conv, 256, ckci_k_direct<float>)                                  \
    X(direct_f64, GATHER_F64, 2, ckci_gpu_conv, 256, ckci_k_direct<double>)                                  \
    X(direct_i32, GATHER_I8, 3, ckci_gpu_conv, 256, ckci_k_direct<int32_t>)                                  \
    X(direct_weight_f32, WEIGHT_SUMS, 3, ckci_gpu_conv, 256, ckci_k_direct_weight<float>)                    \
    X(direct_weight_f64, WEIGHT_F64, 1, ckci_gpu_conv, 256, ckci_k_direct_weight<double>)                    \
    X(direct_weight_i32, WEIGHT_I8, 3, ckci_gpu_conv, 256, ckci_k_direct_weight<int32_t>)                    \
    CKCI_GPU_FMA(X)                                                                                          \
    CKCI_GPU_MATRIX(X)                                                                                       \
    CKCI_GPU_DEPTH(X, half, 2, 4, 3)                                                                         \
    CKCI_GPU_DEPTH_HALF(X)                                                                                   \
    CKCI_GPU_DEPTH(X, f32, 1, 2, 4)                                                                          \
    CKCI_GPU_DEPTH_F32(X)                                                                                    \
    X(depth_matrix, GATHER_DEPTH_half, 4, ckci_gpu_depth, 256, ckci_k_depth_matrix)                          \
    X(depth_matrix_weight_16, WEIGHT_DEPTH_half, 4, ckci_gpu_depth, 256, ckci_k_depth_matrix_weight<0>)      \
    X(depth_matrix_weight_32, WEIGHT_DEPTH_half, 2, ckci_gpu_depth, 256, ckci_k_depth_matrix_weight<1>)      \
    X(depth_f64, GATHER_DEPTH_f64, 4, ckci_gpu_depth, 256, ckci_k_depth<ckci_k_s_f64, 1, 8, 0, true>)        \
    X(depth_weight_f64, WEIGHT_DEPTH_f64, 2, ckci_gpu_depth, 256,                                            \
      ckci_k_depth_weight<ckci_k_s_f64, 1, 8, 1, 1, 0>)                                                      \
    X(depth_sum_f32, WEIGHT_DEPTH_sum, 1, ckci_gpu_depth, 256, ckci_k_depth_sum<float>)                      \
    X(depth_sum_f64, WEIGHT_DEPTH_f64, 2, ckci_gpu_depth, 256, ckci_k_depth_sum<double>)                     \
    X(reduce_f32, WEIGHT_SUMS, 4, ckci_gpu_conv, 256, ckci_k_reduce<float>)                                  \
    X(reduce_f64, WEIGHT_F64, 3, ckci_gpu_conv, 256, ckci_k_reduce<double>)                                  \
    X(reduce_i32, WEIGHT_I8, 1, ckci_gpu_conv, 256, ckci_k_reduce<int32_t>)                                  \
    X(bias_f32, WEIGHT_SUMS, 2, ckci_gpu_bias, 256, ckci_k_bias<float>)                                      \
    X(bias_f64, WEIGHT_F64, 1, ckci_gpu_bias, 256, ckci_k_bias<double>)                                      \
    X(bias_i32, WEIGHT_I8, 2, ckci_gpu_bias, 256, ckci_k_bias<int32_t>)                                      \
    X(bias_sum_f32, WEIGHT_SUMS, 2, ckci_gpu_bias, 256, ckci_k_bias_sum<float>)                              \
    X(bias_sum_f64, WEIGHT_F64, 1, ckci_gpu_bias, 256, ckci_k_bias_sum<double>)                              \
    X(bias_sum_i32, WEIGHT_I8, 2, ckci_gpu_bias, 256, ckci_k_bias_sum<int32_t>)                              \
    X(pair_f32, PAIR, 1, ckci_gpu_pair, 256, ckci_k_pair<float>)                                             \
    X(pair_matrix_f16, PAIR_F16, 3, ckci_gpu_pair, 256, ckci_k_pair_matrix<ckci_k_f16>)                      \
    X(pair_matrix_bf16, PAIR_BF16, 4, ckci_gpu_pair, 256, ckci_k_pair_matrix<ckci_k_bf16>)                   \
    X(pair_depth_f16, PAIR_F16, 4, ckci_gpu_pair, 256, ckci_k_pair_depth<ckci_k_f16>)                        \
    X(pair_depth_bf16, PAIR_BF16, 4, ckci_gpu_pair, 256, ckci_k_pair_depth<ckci_k_bf16>)                     \
    X(pair_depth_wide_f16, PAIR_F16, 2, ckci_gpu_pair, 512, ckci_k_pair_depth_wide<ckci_k_f16>)              \
    X(pair_depth_wide_bf16, PAIR_BF16, 1, ckci_gpu_pair, 512, ckci_k_pair_depth_wide<ckci_k_bf16>)           \
    X(pair_strips_f16, PAIR_F16, 4, ckci_gpu_pair, 512, ckci_k_pair_strips<ckci_k_f16>)                      \
    X(pair_strips_bf16, PAIR_BF16, 3, ckci_gpu_pair, 512, ckci_k_pair_strips<ckci_k_bf16>)                   \
    X(recompute_f32, PAIR, 3, ckci_gpu_pair, 256, ckci_k_recompute<float>)                                   \
    X(recompute_f64, PAIR_F64, 1, ckci_gpu_pair, 256, ckci_k_recompute<double>)                              \
    X(recompute_i32, PAIR_I8, 1, ckci_gpu_pair, 256, ckci_k_recompute<int32_t>)                              \
    X(norm_stats_f32, NORM, 3, ckci_gpu_norm, 256, ckci_k_norm_stats<float>)                                 \
    X(norm_stats_last, NORM, 4, ckci_gpu_norm, 256, ckci_k_norm_stats<float, 1>)                             \
    X(norm_stats_planes, NORM_PLANES, 3, ckci_gpu_norm, 256, ckci_k_norm_stats<float, 2>)                    \
    X(norm_stats_f64, NORM_F64, 4, ckci_gpu_norm, 256, ckci_k_norm_stats<double>)                            \
    X(norm_fwd_f32, NORM, 1, ckci_gpu_norm, 256, ckci_k_norm_fwd<float>)                                     \
    X(norm_fwd_last, NORM, 1, ckci_gpu_norm, 256, ckci_k_norm_fwd<float, 1>)                                 \
    X(norm_fwd_planes, NORM_PLANES, 2, ckci_gpu_norm, 256, ckci_k_norm_fwd<float, 2>)                        \
    X(norm_fwd_f64, NORM_F64, 1, ckci_gpu_norm, 256, ckci_k_norm_fwd<double>)                                \
    X(norm_din_f32, NORM, 3, ckci_gpu_norm, 256, ckci_k_norm_din<float>)                                     \
    X(norm_din_last, NORM, 4, ckci_gpu_norm, 256, ckci_k_norm_din<float, 1>)                                 \
    X(norm_din_planes, NORM_PLANES, 4, ckci_gpu_norm, 256, ckci_k_norm_din<float, 2>)                        \
    X(norm_din_f64, NORM_F64, 3, ckci_gpu_norm, 256, ckci_k_norm_din<double>)                                \
    X(norm_fwd_kept, NORM, 3, ckci_gpu_norm, 256, ckci_k_norm_fwd_kept)                                      \
    X(norm_fwd_joined, NORM_PLANES, 1, ckci_gpu_norm, 256, ckci_k_norm_fwd<float, 2, true>)                  \
    X(norm_fwd_kept_joined, NORM_PLANES, 2, ckci_gpu_norm, 256, ckci_k_norm_fwd_kept_joined)                 \
    X(norm_bwd_kept_last, NORM, 1, ckci_gpu_norm, 256, ckci_k_norm_bwd_kept<false>)                          \
    X(norm_bwd_kept_planes, NORM_PLANES, 4, ckci_gpu_norm, 256, ckci_k_norm_bwd_kept<true>)                  \
    X(norm_param_f32, NORM, 2, ckci_gpu_norm, 256, ckci_k_norm_param<float>)                                 \
    X(norm_param_f64, NORM_F64, 2, ckci_gpu_norm, 256, ckci_k_norm_param<double>)                            \
    X(pack_data, PACK, 3, ckci_gpu_pack_data, 256, ckci_k_pack_data)                                         \
    X(pack, PACK, 4, ckci_gpu_pack, 256, ckci_k_pack)                                                        \
    X(move, MOVE, 1, ckci_gpu_move, 256, ckci_k_move)                                                        \
    X(move_copy, MOVE, 1, ckci_gpu_move, 256, ckci_k_move_copy)                                              \
    X(move_turn_1, MOVE, 4, ckci_gpu_moves, 256, ckci_k_moves<ckci_k_move_turn<1, false>>)                   \
    X(move_turn_2, MOVE, 3, ckci_gpu_moves, 256, ckci_k_moves<ckci_k_move_turn<2, false>>)                   \
    X(move_turn_4, MOVE, 4, ckci_gpu_moves, 256, ckci_k_moves<ckci_k_move_turn<4, false>>)                   \
    X(move_convert_1, MOVE, 2, ckci_gpu_move, 256, ckci_k_move_turn<1, true>)                                \
    X(move_convert_2, MOVE, 3, ckci_gpu_move, 256, ckci_k_move_turn<2, true>)                                \
    X(move_convert_4, MOVE, 4, ckci_gpu_move, 256, ckci_k_move_turn<4, true>)                                \
    X(sample, SAMPLE, 1, ckci_gpu_sample, 256, ckci_k_sample<false>)                                         \
    X(spread, SAMPLE_BACK, 1, ckci_gpu_sample, 256, ckci_k_sample<true>)                                     \
    X(im2col, IM2COL, 3, ckci_gpu_im2col, 256, ckci_k_im2col<false>)                                         \
    X(col2im, IM2COL_BACK, 4, ckci_gpu_im2col, 256, ckci_k_im2col<true>)                                     \
    X(pixel_half, PIXEL_half, 2, ckci_gpu_conv, 256, ckci_k_pixel<ckci_k_s_half>)                            \
    X(pixel_f32, PIXEL_f32, 2, ckci_gpu_conv, 256, ckci_k_pixel<ckci_k_s_f32>)

enum {
#define CKCI_ROW(NAME, KEEP, PART, ARGS, THREADS, ...) CKCI_KERNEL_##NAME,
    CKCI_GPU_KERNELS(CKCI_ROW)
#undef CKCI_ROW
        CKCI_KERNEL_COUNT
};

/* What an instance is, beside its family and operation. Forms: which part of the planner knows it. */
enum {
    CKCI_TILE_NONE, /* the family says it */
    CKCI_TILE_DIRECT,
    CKCI_TILE_VECTOR,
    CKCI_TILE_FMA,
    CKCI_TILE_NARROW,
    CKCI_TILE_GROUPED,
    CKCI_TILE_HALF,   /* matrix units, by what they multiply: two bytes, */
    CKCI_TILE_TMA,    /* two bytes that the TMA brings, */
    CKCI_TILE_WHOLE,  /* i8 */
    CKCI_TILE_SINGLE, /* f32, tf32 */
    CKCI_TILE_DOUBLE,
    CKCI_TILE_NEAR,
    CKCI_TILE_DEPTH_MATRIX,
    CKCI_TILE_PAIR, /* a pair of convolutions: f32, on matrix units: pointwise, then depthwise */
    CKCI_TILE_PAIR_POINT,
    CKCI_TILE_PAIR_DEPTH,
    CKCI_TILE_PAIR_WIDE,
    CKCI_TILE_PAIR_STRIPS
};
typedef struct ckci_gpu_tile {
    int32_t form;
    int32_t rows, columns; /* of a block, or of the CPU's registers; 0: it is not a tile */
    int32_t kernel, back;  /* CKCI_KERNEL_... if it has one of its own; back: weights read across */
    int32_t threads, width, step, blocks; /* FMA tiles, as in their table */
    double slow[2]; /* matrix units: groups of waves, mma.sync; TMA: boxes of rows, of pixels; FMA tiles: time
                       of a multiply-add */
} ckci_gpu_tile;

/* Argument structs. */
enum {
    CKCI_ARGS_ckci_gpu_conv,
    CKCI_ARGS_ckci_gpu_tma,
    CKCI_ARGS_ckci_gpu_stem,
    CKCI_ARGS_ckci_gpu_depth,
    CKCI_ARGS_ckci_gpu_pack,
    CKCI_ARGS_ckci_gpu_pack_data,
    CKCI_ARGS_ckci_gpu_pair,
    CKCI_ARGS_ckci_gpu_norm,
    CKCI_ARGS_ckci_gpu_move,
    CKCI_ARGS_ckci_gpu_moves,
    CKCI_ARGS_ckci_gpu_sample,
    CKCI_ARGS_ckci_gpu_im2col,
    CKCI_ARGS_ckci_gpu_bias
};

/* One kernel of a plan, ready to go: the only thing that the runtime's half gets to see. */
typedef struct ckci_launch {
    int32_t kernel, threads;
    int32_t takes;   /* CKCI_ARGS_...: which of a */
    int32_t cluster; /* blocks that wait for each other (NVIDIA, from sm_90 on); 1: none do */
    int32_t lds;     /* bytes that a block uses of its struct's (NVIDIA); 0: all */
    int64_t grid;    /* blocks, one dimension */
    size_t bytes;    /* of the argument struct */
    union {
        ckci_gpu_conv conv;
        ckci_gpu_tma tma; /* begins with conv */
        ckci_gpu_stem stem;
        ckci_gpu_depth depth;
        ckci_gpu_pack pack;
        ckci_gpu_pack_data data;
        ckci_gpu_pair pair;
        ckci_gpu_norm norm;
        ckci_gpu_move move;
        ckci_gpu_moves moves; /* begins with move */
        ckci_gpu_sample sample;
        ckci_gpu_im2col im2col;
        ckci_gpu_bias bias;
    } a;
} ckci_launch;

/* ckconv_launch keeps a copy, and CUDA passes 4096 bytes at most. */
typedef char ckci_arguments_fit[sizeof(((ckci_launch *)0)->a) <= sizeof(((ckconv_launch *)0)->arg) ? 1 : -1];

/* Where a plan's launches go: to the GPU, or to a caller who wants to look at them. */
typedef struct ckci_emitter {
    ckconv_status (*emit)(void *context, const ckci_launch *launch, ckconv_error *err);
    void *context;
} ckci_emitter;

CKCI_FN const char *ckci_kernel_name(int32_t kernel)
{
#define CKCI_ROW(NAME, KEEP, PART, ARGS, THREADS, ...) "ckconv_k_" #NAME,
    static const char *const names[] = {CKCI_GPU_KERNELS(CKCI_ROW)};
#undef CKCI_ROW
    return kernel >= 0 && kernel < CKCI_KERNEL_COUNT ? names[kernel] : NULL;
}

/* Does this build have it? */
CKCI_FN int ckci_kernel_kept(int32_t kernel)
{
#define CKCI_ROW(NAME, KEEP, PART, ARGS, THREADS, ...) CKCI_KEEP_##KEEP,
    static const unsigned char kept[] = {CKCI_GPU_KERNELS(CKCI_ROW)};
#undef CKCI_ROW
    return kept[kernel];
}

/* 90 for sm_90; 0: no NVIDIA GPU, or one that has no row. */
CKCI_FN int ckci_sm(const ckconv_device *d)
{
    const ckci_architecture *row = ckci_find_architecture(d->arch);
    return row && row->kind == CKCONV_DEVICE_NVIDIA ? atoi(row->name + 3) : 0;
}

/* Is it of CKCI_GPU_MATRIX? */
CKCI_FN int ckci_kernel_of_unit(int32_t kernel)
{
    switch (kernel) {
#define CKCI_ROW(NAME, KEEP, PART, ARGS, THREADS, ...) case CKCI_KERNEL_##NAME:
        CKCI_GPU_MATRIX(CKCI_ROW)
#undef CKCI_ROW
        return 1;
    default:
        return 0;
    }
}

/* Threads and arguments of a kernel. */
CKCI_FN void ckci_set_kernel(ckci_launch *l, int32_t kernel)
{
#define CKCI_ROW(NAME, KEEP, PART, ARGS, THREADS, ...) {THREADS, CKCI_ARGS_##ARGS, sizeof(ARGS)},
    static const struct {
        int32_t threads, takes;
        size_t bytes;
    } table[] = {CKCI_GPU_KERNELS(CKCI_ROW)};
#undef CKCI_ROW
    l->kernel = kernel;
    l->threads = table[kernel].threads;
    l->takes = table[kernel].takes;
    l->cluster = 1;
    l->lds = 0;
    l->bytes = table[kernel].bytes;
}
