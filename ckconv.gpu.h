/* ckconv.gpu.h - v0.1.0 - the GPU engine of ckconv.h, host half: C99 and C++11
   SPDX-License-Identifier: MIT */
#ifndef CKCONV_GPU_H
#define CKCONV_GPU_H
/*  (licence text at the end of ckconv.h)

Included by ckconv.h on one marked line when CKCONV_IMPLEMENTATION is defined. Do not include it yourself.

The GPU engine's host half, pure C: what kernels are told, whether an instance fits, and the launches of a
plan in their order. No GPU call is made here; kernels.hip.h is the device half. Kernels index with 32 bits
inside a tensor's (n, g) slice where that is enough and with 64 bits elsewhere; what does not fit 32-bit
indices (positions of one phase, products of a reduction, phases, reach of a filter, tiles) is refused.
Macros are undefined at the end of ckconv.h: kernels need them, too.

TAGS
    >>g-table         kernels, their arguments, a launch           >>g-stem  first layers
    >>g-conv          what convolutions share, portable kernels    >>g-tile  f32 on multiply-adds
    >>g-depth         depthwise                                    >>g-norm  group norm
    >>g-depth-matrix  depthwise on matrix units                    >>g-move  layout and type conversion
    >>g-matrix        matrix units                                 >>g-pair  conv_conv_fwd
    >>g-near          small groups on matrix units
*/

#ifndef CKCONV_IMPLEMENTATION
#error "ckconv.gpu.h is a part of ckconv.h: define CKCONV_IMPLEMENTATION and include ckconv.h"
#endif


/*------------------------------------------------------------------------------------------------------------
  >>g-table
  The one table of kernels: name, argument struct, threads per block, what kernels.hip.h instantiates. gather
  computes fwd and bwd_data: they differ in the coordinate map only.
*/
/* What a block of matrix_near holds: bytes of a region (NVIDIA: of each of two), its pixels and positions;
   from a pixel to the next one in LDS. */
#define CKCI_NEAR_NVIDIA_BYTES 54272
#define CKCI_NEAR_NVIDIA_PIXELS 384
#define CKCI_NEAR_NVIDIA_POSITIONS 256
#define CKCI_NEAR_AMD_BYTES 27648
#define CKCI_NEAR_AMD_PIXELS 192
#define CKCI_NEAR_AMD_POSITIONS 128
#define CKCI_NEAR_PITCH 144

/* What blocks of matrix_stem hold: pairs of a reduction in fwd, bytes of weights and columns in bwd_data,
   bytes of pixels (on NVIDIA or not), positions of bwd_weight. */
#define CKCI_STEM_PAIRS 128
#define CKCI_STEM_WEIGHTS 33024
#define CKCI_STEM_COLUMNS 64
#define CKCI_STEM_PIXELS(NVIDIA) ((NVIDIA) ? 38912 : 29696)
#define CKCI_STEM_BACK_PIXELS(NVIDIA) ((NVIDIA) ? 79872 : 31232)
#define CKCI_STEM_PLANES(NVIDIA) ((NVIDIA) ? 81920 : 20480)
#define CKCI_STEM_POSITIONS(NVIDIA) ((NVIDIA) ? 112 : 64)
/* Tiles in LDS where groups of four waves multiply: of a first and a second operand with so many rows. */
#define CKCI_GROUP_STAGES(ROWS) ((ROWS) <= 256 || (ROWS) > 384 ? 3 : (ROWS) <= 320 ? 5 : 4)
/* Tiles of bwd_weight that add up the pieces of a long sum in registers, of which they have some to spare. */
#define CKCI_MATRIX_FAR(SIZE, ROWS, COLUMNS) ((SIZE) == 2 && (ROWS) == 32 && (COLUMNS) == 128)
/* Room for the taps of a phase in half of a table; one stands for none. */
#define CKCI_STREAM_TAPS 64

/* Channels of mid that a block of pair_matrix holds; LDS of blocks of pair_depth (two share NVIDIA's 228 KiB,
   with a KiB each; pair_depth_wide and pair_strips have it alone), and loads that a thread holds (AMD). */
#define CKCI_PAIR_POINT_NVIDIA 512
#define CKCI_PAIR_POINT_AMD 352
#define CKCI_PAIR_NVIDIA 115712
#define CKCI_PAIR_STRIPS 64256 /* tile of the instance: 64 positions, 256 columns */
#define CKCI_PAIR_NVIDIA_WIDE 232448
#define CKCI_PAIR_AMD 65536
#define CKCI_PAIR_COPIES 8
#define CKCI_PAIR_LIST 24 /* regions whose places a block lists at a time */

#define CKCI_GPU_MATRIX(X)                                                                                   \
    X(matrix_gather_256x256, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_gather, 256, 256>)              \
    X(matrix_gather_256x128, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_gather, 256, 128>)              \
    X(matrix_gather_192x128, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_gather, 192, 128>)              \
    X(matrix_gather_128x128, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_gather, 128, 128>)              \
    X(matrix_gather_512x64, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_gather, 512, 64>)                \
    X(matrix_gather_64x64, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_gather, 64, 64>)                  \
    X(matrix_gather_128x32, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_gather, 128, 32>)                \
    X(matrix_back_256x128, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_back, 256, 128>)                  \
    X(matrix_back_192x128, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_back, 192, 128>)                  \
    X(matrix_back_128x128, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_back, 128, 128>)                  \
    X(matrix_back_512x64, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_back, 512, 64>)                    \
    X(matrix_back_64x64, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_back, 64, 64>)                      \
    X(matrix_back_128x32, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_back, 128, 32>)                    \
    X(matrix_weight_128x256, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_weight, 128, 256>)              \
    X(matrix_weight_128x128, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_weight, 128, 128>)              \
    X(matrix_weight_64x256, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_weight, 64, 256>)                \
    X(matrix_weight_64x64, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_weight, 64, 64>)                  \
    X(matrix_weight_32x128, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_weight, 32, 128>)                \
    X(matrix_weight_64x192, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_weight, 64, 192>)                \
    X(matrix_weight_192x128, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_weight, 192, 128>)              \
    X(matrix_near_16, ckci_gpu_conv, 256, ckci_k_matrix_near<ckci_k_near, 16>)                               \
    X(matrix_near_32, ckci_gpu_conv, 256, ckci_k_matrix_near<ckci_k_near, 32>)                               \
    X(matrix_near_down_16, ckci_gpu_conv, 256, ckci_k_matrix_near<ckci_k_near_down, 16>)                     \
    X(matrix_near_down_32, ckci_gpu_conv, 256, ckci_k_matrix_near<ckci_k_near_down, 32>)                     \
    X(matrix_near_deep_16, ckci_gpu_conv, 256, ckci_k_matrix_near<ckci_k_near_deep, 16>)                     \
    X(matrix_near_deep_32, ckci_gpu_conv, 256, ckci_k_matrix_near<ckci_k_near_deep, 32>)                     \
    X(matrix_near_weight_16, ckci_gpu_conv, 256, ckci_k_matrix_near<ckci_k_near_weight, 16>)                 \
    X(matrix_near_weight_32, ckci_gpu_conv, 256, ckci_k_matrix_near<ckci_k_near_weight, 32>)                 \
    X(matrix_stem_fwd, ckci_gpu_stem, 256, ckci_k_stem<ckci_k_stem_fwd_of>)                                  \
    X(matrix_stem_bwd_data, ckci_gpu_stem, 256, ckci_k_stem<ckci_k_stem_back_of>)                            \
    X(matrix_stem_bwd_weight, ckci_gpu_stem, 128, ckci_k_stem<ckci_k_stem_weight_of>)                        \
    X(matrix_stem_sum, ckci_gpu_conv, 256, ckci_k_stem_sum)                                                  \
    X(matrix_whole_128x128, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_whole, 128, 128>)                \
    X(matrix_whole_64x64, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_whole, 64, 64>)                    \
    X(matrix_single_128x128, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_single, 128, 128>)              \
    X(matrix_single_64x64, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_single, 64, 64>)                  \
    X(matrix_single_weight_128x128, ckci_gpu_conv, 256,                                                      \
      ckci_k_matrix<ckci_k_matrix_single_weight, 128, 128>)                                                  \
    X(matrix_single_weight_64x64, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_single_weight, 64, 64>)    \
    X(matrix_double_128x64, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_double, 128, 64>)                \
    X(matrix_double_weight_128x64, ckci_gpu_conv, 256, ckci_k_matrix<ckci_k_matrix_double_weight, 128, 64>)

#define CKCI_GPU_FMA(X)                                                                                      \
    X(tile_gather_256x64, ckci_gpu_conv, 128, ckci_k_tile_gather<ckci_k_shape<256, 64, 16, 8, 8, 1>, 4>)     \
    X(tile_gather_64x64, ckci_gpu_conv, 64, ckci_k_tile_gather<ckci_k_shape<64, 64, 8, 8, 8, 1>, 4>)         \
    X(tile_gather_256x32, ckci_gpu_conv, 128, ckci_k_tile_gather<ckci_k_shape<256, 32, 8, 8, 8, 1>, 4>)      \
    X(tile_gather_128x16, ckci_gpu_conv, 64, ckci_k_tile_gather<ckci_k_shape<128, 16, 8, 8, 16, 2>, 4>)      \
    X(tile_gather_128x64_any, ckci_gpu_conv, 128, ckci_k_tile_gather<ckci_k_shape<128, 64, 8, 8, 8, 1>, 1>)  \
    X(narrow, ckci_gpu_conv, 128, ckci_k_narrow)                                                             \
    X(grouped_4, ckci_gpu_conv, 256, ckci_k_grouped<4, 4>)                                                   \
    X(tile_weight_128x128, ckci_gpu_conv, 128, ckci_k_tile_weight<ckci_k_shape<128, 128, 16, 8, 8, 1>, 4>)   \
    X(tile_weight_48x128, ckci_gpu_conv, 64, ckci_k_tile_weight<ckci_k_shape<48, 128, 12, 8, 8, 1>, 4>)      \
    X(tile_weight_64x64, ckci_gpu_conv, 128,                                                                 \
      ckci_k_tile_weight<ckci_k_shape<64, 64, 16, 8, CKCI_K_DEEP, 4>, 4>)                                    \
    X(tile_weight_32x96, ckci_gpu_conv, 192, ckci_k_tile_weight<ckci_k_shape<32, 96, 8, 8, 16, 4>, 4>)       \
    X(tile_weight_16x48, ckci_gpu_conv, 192, ckci_k_tile_weight<ckci_k_shape<16, 48, 8, 4, 64, 8>, 4>)       \
    X(tile_weight_8x72, ckci_gpu_conv, 144, ckci_k_tile_weight<ckci_k_shape<8, 72, 8, 4, 32, 8>, 4>)         \
    X(tile_weight_4x36, ckci_gpu_conv, 144, ckci_k_tile_weight<ckci_k_shape<4, 36, 4, 4, 64, 16>, 4>)        \
    X(tile_weight_64x64_any, ckci_gpu_conv, 128, ckci_k_tile_weight<ckci_k_shape<64, 64, 8, 8, 16, 2>, 1>)

/* Depthwise: storage type; strip of walk_weight_3; numbers of a load of walk_weight_5, of walk_3 and columns;
   strip of columns with stride 2. */
#define CKCI_GPU_DEPTH(X, S, XO, V, V3, X3)                                                                  \
    X(depth_##S##_down_3, ckci_gpu_depth, 256, ckci_k_depth_down<ckci_k_s_##S, 3>)                           \
    X(depth_##S##_down_5, ckci_gpu_depth, 256, ckci_k_depth_down<ckci_k_s_##S, 5>)                           \
    X(depth_##S##_down_7, ckci_gpu_depth, 256, ckci_k_depth_down<ckci_k_s_##S, 7>)                           \
    X(depth_##S##_plane_walk_3, ckci_gpu_depth, 256, ckci_k_depth_walk<ckci_k_s_##S, 1, 8, 3, true>)         \
    X(depth_##S##_plane_walk_5, ckci_gpu_depth, 256, ckci_k_depth_walk<ckci_k_s_##S, 1, 8, 5, true>)         \
    X(depth_##S##_plane_walk_7, ckci_gpu_depth, 256, ckci_k_depth_walk<ckci_k_s_##S, 1, 4, 7, true>)         \
    X(depth_##S##_row, ckci_gpu_depth, 256, ckci_k_depth_row<ckci_k_s_##S>)                                  \
    X(depth_##S##_4_near, ckci_gpu_depth, 256, ckci_k_depth<ckci_k_s_##S, 4, 8, 1, false>)                   \
    X(depth_##S##_4_second, ckci_gpu_depth, 256, ckci_k_depth<ckci_k_s_##S, 4, 8, 2, false>)                 \
    X(depth_##S##_4_any, ckci_gpu_depth, 256, ckci_k_depth<ckci_k_s_##S, 4, 8, 0, false>)                    \
    X(depth_##S##_1_near, ckci_gpu_depth, 256, ckci_k_depth<ckci_k_s_##S, 1, 8, 1, false>)                   \
    X(depth_##S##_1_second, ckci_gpu_depth, 256, ckci_k_depth<ckci_k_s_##S, 1, 8, 2, false>)                 \
    X(depth_##S##_1_any, ckci_gpu_depth, 256, ckci_k_depth<ckci_k_s_##S, 1, 8, 0, true>)                     \
    X(depth_##S##_walk_3, ckci_gpu_depth, 256, ckci_k_depth_walk<ckci_k_s_##S, V3, 4, 3, false>)             \
    X(depth_##S##_column_3_second, ckci_gpu_depth, 256, ckci_k_depth_column<ckci_k_s_##S, V3, X3, 2>)        \
    X(depth_##S##_deep, ckci_gpu_depth, 256, ckci_k_depth_deep<ckci_k_s_##S>)                                \
    X(depth_##S##_sheet_3, ckci_gpu_depth, 128, ckci_k_depth_sheet<ckci_k_s_##S, 3, 1, false>)               \
    X(depth_##S##_sheet_5, ckci_gpu_depth, 128, ckci_k_depth_sheet<ckci_k_s_##S, 5, 1, false>)               \
    X(depth_##S##_sheet_3_second, ckci_gpu_depth, 128, ckci_k_depth_sheet<ckci_k_s_##S, 3, 2, false>)        \
    X(depth_##S##_sheet_5_second, ckci_gpu_depth, 128, ckci_k_depth_sheet<ckci_k_s_##S, 5, 2, false>)        \
    X(depth_##S##_sheet_3_back, ckci_gpu_depth, 128, ckci_k_depth_sheet<ckci_k_s_##S, 3, 2, true>)           \
    X(depth_##S##_sheet_5_back, ckci_gpu_depth, 128, ckci_k_depth_sheet<ckci_k_s_##S, 5, 2, true>)           \
    X(depth_##S##_sheet_7, ckci_gpu_depth, 128, ckci_k_depth_sheet<ckci_k_s_##S, 7, 1, false>)               \
    X(depth_weight_##S##_walk_3, ckci_gpu_depth, 256,                                                        \
      ckci_k_depth_walk_weight<ckci_k_s_##S, 2, XO, 3, false>)                                               \
    X(depth_weight_##S##_walk_5, ckci_gpu_depth, 256,                                                        \
      ckci_k_depth_walk_weight<ckci_k_s_##S, V, 4, 5, false>)                                                \
    X(depth_weight_##S##_walk_7, ckci_gpu_depth, 256,                                                        \
      ckci_k_depth_walk_weight<ckci_k_s_##S, V, 4, 7, false>)                                                \
    X(depth_weight_##S##_plane_walk_3, ckci_gpu_depth, 256,                                                  \
      ckci_k_depth_walk_weight<ckci_k_s_##S, 1, 8, 3, true>)                                                 \
    X(depth_weight_##S##_plane_walk_5, ckci_gpu_depth, 256,                                                  \
      ckci_k_depth_walk_weight<ckci_k_s_##S, 1, 8, 5, true>)                                                 \
    X(depth_weight_##S##_plane_walk_7, ckci_gpu_depth, 256,                                                  \
      ckci_k_depth_walk_weight<ckci_k_s_##S, 1, 4, 7, true>)                                                 \
    X(depth_weight_##S##_row, ckci_gpu_depth, 256, ckci_k_depth_row_weight<ckci_k_s_##S>)                    \
    X(depth_weight_##S##_4_near, ckci_gpu_depth, 256, ckci_k_depth_weight<ckci_k_s_##S, 4, 8, 1, 8, 1>)      \
    X(depth_weight_##S##_2_second, ckci_gpu_depth, 256, ckci_k_depth_weight_second<ckci_k_s_##S>)            \
    X(depth_weight_##S##_4_any, ckci_gpu_depth, 256, ckci_k_depth_weight<ckci_k_s_##S, 4, 8, 1, 1, 0>)       \
    X(depth_weight_##S##_1_second, ckci_gpu_depth, 256, ckci_k_depth_weight<ckci_k_s_##S, 1, 8, 3, 3, 2>)    \
    X(depth_weight_##S##_1_any, ckci_gpu_depth, 256, ckci_k_depth_weight<ckci_k_s_##S, 1, 8, 1, 1, 0>)       \
    X(depth_weight_##S##_down_3, ckci_gpu_depth, 256, ckci_k_depth_down_weight<ckci_k_s_##S, 3>)             \
    X(depth_weight_##S##_down_5, ckci_gpu_depth, 256, ckci_k_depth_down_weight<ckci_k_s_##S, 5>)             \
    X(depth_weight_##S##_deep, ckci_gpu_depth, 256, ckci_k_depth_deep_weight<ckci_k_s_##S>)                  \
    X(depth_weight_##S##_sheet_3, ckci_gpu_depth, 128, ckci_k_depth_sheet_weight<ckci_k_s_##S, 3, 1>)        \
    X(depth_weight_##S##_sheet_5, ckci_gpu_depth, 128, ckci_k_depth_sheet_weight<ckci_k_s_##S, 5, 1>)        \
    X(depth_weight_##S##_sheet_3_second, ckci_gpu_depth, 128, ckci_k_depth_sheet_weight<ckci_k_s_##S, 3, 2>) \
    X(depth_weight_##S##_sheet_5_second, ckci_gpu_depth, 128, ckci_k_depth_sheet_weight<ckci_k_s_##S, 5, 2>) \
    X(depth_weight_##S##_sheet_7, ckci_gpu_depth, 128, ckci_k_depth_sheet_weight<ckci_k_s_##S, 7, 1>)

#define CKCI_GPU_KERNELS(X)                                                                                  \
    X(gather_f32_128, ckci_gpu_conv, 256, ckci_k_gather<float, 128, 8, 256>)                                 \
    X(gather_f32_64, ckci_gpu_conv, 256, ckci_k_gather<float, 64, 16, 256>)                                  \
    X(gather_f32_32, ckci_gpu_conv, 64, ckci_k_gather<float, 32, 8, 64>)                                     \
    X(gather_f64_64, ckci_gpu_conv, 256, ckci_k_gather<double, 64, 16, 256>)                                 \
    X(gather_i32_64, ckci_gpu_conv, 256, ckci_k_gather<int32_t, 64, 16, 256>)                                \
    X(weight_f32_128, ckci_gpu_conv, 256, ckci_k_weight<float, 128, 8, 256>)                                 \
    X(weight_f32_64, ckci_gpu_conv, 256, ckci_k_weight<float, 64, 16, 256>)                                  \
    X(weight_f64_64, ckci_gpu_conv, 256, ckci_k_weight<double, 64, 16, 256>)                                 \
    X(weight_i32_64, ckci_gpu_conv, 256, ckci_k_weight<int32_t, 64, 16, 256>)                                \
    X(direct_f32, ckci_gpu_conv, 256, ckci_k_direct<float>)                                                  \
    X(direct_f64, ckci_gpu_conv, 256, ckci_k_direct<double>)                                                 \
    X(direct_i32, ckci_gpu_conv, 256, ckci_k_direct<int32_t>)                                                \
    X(direct_weight_f32, ckci_gpu_conv, 256, ckci_k_direct_weight<float>)                                    \
    X(direct_weight_f64, ckci_gpu_conv, 256, ckci_k_direct_weight<double>)                                   \
    X(direct_weight_i32, ckci_gpu_conv, 256, ckci_k_direct_weight<int32_t>)                                  \
    CKCI_GPU_FMA(X)                                                                                          \
    CKCI_GPU_MATRIX(X)                                                                                       \
    CKCI_GPU_DEPTH(X, half, 8, 2, 4, 3)                                                                      \
    CKCI_GPU_DEPTH(X, f32, 4, 1, 2, 4)                                                                       \
    X(depth_f32_column_3, ckci_gpu_depth, 256, ckci_k_depth_column<ckci_k_s_f32, 2, 4, 1>)                   \
    X(depth_half_down_5_short, ckci_gpu_depth, 256,                                                          \
      ckci_k_depth_down<ckci_k_s_half, 5, CKCI_DEPTH_DOWN_SHORT>)                                            \
    X(depth_matrix, ckci_gpu_depth, 256, ckci_k_depth_matrix)                                                \
    X(depth_matrix_weight_16, ckci_gpu_depth, 256, ckci_k_depth_matrix_weight<0>)                            \
    X(depth_matrix_weight_32, ckci_gpu_depth, 256, ckci_k_depth_matrix_weight<1>)                            \
    X(depth_f64, ckci_gpu_depth, 256, ckci_k_depth<ckci_k_s_f64, 1, 8, 0, true>)                             \
    X(depth_weight_f64, ckci_gpu_depth, 256, ckci_k_depth_weight<ckci_k_s_f64, 1, 8, 1, 1, 0>)               \
    X(depth_sum_f32, ckci_gpu_depth, 256, ckci_k_depth_sum<float>)                                           \
    X(depth_sum_f64, ckci_gpu_depth, 256, ckci_k_depth_sum<double>)                                          \
    X(reduce_f32, ckci_gpu_conv, 256, ckci_k_reduce<float>)                                                  \
    X(reduce_f64, ckci_gpu_conv, 256, ckci_k_reduce<double>)                                                 \
    X(reduce_i32, ckci_gpu_conv, 256, ckci_k_reduce<int32_t>)                                                \
    X(pair_f32, ckci_gpu_pair, 256, ckci_k_pair<float>)                                                      \
    X(pair_matrix_f16, ckci_gpu_pair, 256, ckci_k_pair_matrix<ckci_k_f16>)                                   \
    X(pair_matrix_bf16, ckci_gpu_pair, 256, ckci_k_pair_matrix<ckci_k_bf16>)                                 \
    X(pair_depth_f16, ckci_gpu_pair, 256, ckci_k_pair_depth<ckci_k_f16>)                                     \
    X(pair_depth_bf16, ckci_gpu_pair, 256, ckci_k_pair_depth<ckci_k_bf16>)                                   \
    X(pair_depth_wide_f16, ckci_gpu_pair, 512, ckci_k_pair_depth_wide<ckci_k_f16>)                           \
    X(pair_depth_wide_bf16, ckci_gpu_pair, 512, ckci_k_pair_depth_wide<ckci_k_bf16>)                         \
    X(pair_strips_f16, ckci_gpu_pair, 512, ckci_k_pair_strips<ckci_k_f16>)                                   \
    X(pair_strips_bf16, ckci_gpu_pair, 512, ckci_k_pair_strips<ckci_k_bf16>)                                 \
    X(recompute_f32, ckci_gpu_pair, 256, ckci_k_recompute<float>)                                            \
    X(recompute_f64, ckci_gpu_pair, 256, ckci_k_recompute<double>)                                           \
    X(recompute_i32, ckci_gpu_pair, 256, ckci_k_recompute<int32_t>)                                          \
    X(norm_stats_f32, ckci_gpu_norm, 256, ckci_k_norm_stats<float>)                                          \
    X(norm_stats_last, ckci_gpu_norm, 256, ckci_k_norm_stats<float, 1>)                                      \
    X(norm_stats_planes, ckci_gpu_norm, 256, ckci_k_norm_stats<float, 2>)                                    \
    X(norm_stats_f64, ckci_gpu_norm, 256, ckci_k_norm_stats<double>)                                         \
    X(norm_fwd_f32, ckci_gpu_norm, 256, ckci_k_norm_fwd<float>)                                              \
    X(norm_fwd_last, ckci_gpu_norm, 256, ckci_k_norm_fwd<float, 1>)                                          \
    X(norm_fwd_planes, ckci_gpu_norm, 256, ckci_k_norm_fwd<float, 2>)                                        \
    X(norm_fwd_f64, ckci_gpu_norm, 256, ckci_k_norm_fwd<double>)                                             \
    X(norm_din_f32, ckci_gpu_norm, 256, ckci_k_norm_din<float>)                                              \
    X(norm_din_last, ckci_gpu_norm, 256, ckci_k_norm_din<float, 1>)                                          \
    X(norm_din_planes, ckci_gpu_norm, 256, ckci_k_norm_din<float, 2>)                                        \
    X(norm_din_f64, ckci_gpu_norm, 256, ckci_k_norm_din<double>)                                             \
    X(norm_fwd_kept, ckci_gpu_norm, 256, ckci_k_norm_fwd_kept)                                               \
    X(norm_bwd_kept_last, ckci_gpu_norm, 256, ckci_k_norm_bwd_kept<false>)                                   \
    X(norm_bwd_kept_planes, ckci_gpu_norm, 256, ckci_k_norm_bwd_kept<true>)                                  \
    X(norm_param_f32, ckci_gpu_norm, 256, ckci_k_norm_param<float>)                                          \
    X(norm_param_f64, ckci_gpu_norm, 256, ckci_k_norm_param<double>)                                         \
    X(pack_data, ckci_gpu_pack_data, 256, ckci_k_pack_data)                                                  \
    X(pack, ckci_gpu_pack, 256, ckci_k_pack)                                                                 \
    X(pack_turn, ckci_gpu_pack, 256, ckci_k_pack_turn)                                                       \
    X(move, ckci_gpu_move, 256, ckci_k_move)                                                                 \
    X(move_copy, ckci_gpu_move, 256, ckci_k_move_copy)                                                       \
    X(move_turn_1, ckci_gpu_move, 256, ckci_k_move_turn<1, false>)                                           \
    X(move_turn_2, ckci_gpu_move, 256, ckci_k_move_turn<2, false>)                                           \
    X(move_turn_4, ckci_gpu_move, 256, ckci_k_move_turn<4, false>)                                           \
    X(move_turn_8, ckci_gpu_move, 256, ckci_k_move_turn<8, false>)                                           \
    X(move_convert_1, ckci_gpu_move, 256, ckci_k_move_turn<1, true>)                                         \
    X(move_convert_2, ckci_gpu_move, 256, ckci_k_move_turn<2, true>)                                         \
    X(move_convert_4, ckci_gpu_move, 256, ckci_k_move_turn<4, true>)                                         \
    X(move_convert_8, ckci_gpu_move, 256, ckci_k_move_turn<8, true>)

enum {
#define CKCI_ROW(NAME, ARGS, THREADS, ...) CKCI_KERNEL_##NAME,
    CKCI_GPU_KERNELS(CKCI_ROW)
#undef CKCI_ROW
        CKCI_KERNEL_COUNT
};

/* n / d for n < 2^31 without a division: (mulhi(n, mul) + n) >> shift */
typedef struct ckci_divisor {
    uint32_t d, mul, shift;
} ckci_divisor;

CKCI_FN ckci_divisor ckci_make_divisor(int64_t d)
{
    ckci_divisor r;
    r.d = (uint32_t)ckci_max(d, 1);
    r.shift = 0;
    uint32_t rest = r.d - 1; /* bits of d - 1: 2^shift is the first power that is not below d */
    for (uint32_t bits = 16; bits > 0; bits /= 2) {
        uint32_t half = rest >> bits ? bits : 0;
        rest >>= half;
        r.shift += half;
    }
    r.shift += rest;
    r.mul = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << r.shift) - r.d)) / r.d + 1);
    return r;
}

/* One spatial dimension in all its phases: what ckci_map_axis computes on the host, kernels compute from
   this. Counts and taps of two phases differ by one at most, so both have two divisors: the larger value,
   the smaller one. */
typedef struct ckci_gpu_dim {
    int32_t phases; /* bwd_data: input positions modulo the stride that exist; else 1 */
    int32_t length; /* of the written dimension (of the output for bwd_weight) */
    int32_t stride, dilation, pad, filter;
    int32_t write_step, period;            /* written positions and taps of a phase are these apart */
    int32_t slip;                          /* dilation modulo stride */
    int32_t read_step, read_tap, read_len; /* as in ckci_axis */
    int32_t gather_back;                   /* bwd_data */
    ckci_divisor count[2], taps[2], by_stride, by_period, by_phases;
} ckci_gpu_dim;

/* The written tensor with all that its epilogue needs. */
typedef struct ckci_gpu_target {
    ckci_tensor t, d[4];
    const unsigned char *scale, *shift; /* mid only */
    unsigned char *partial;             /* split reductions: sums go here, part after part */
    int32_t num_d;
    ckconv_dtype compute; /* mid only: rounded to this before it is stored; else 0 */
} ckci_gpu_target;

/* near: regions of so many images, rows and columns of positions, of one plane of the output. */
typedef struct ckci_gpu_near {
    int32_t images, rows, columns, tiles; /* positions; a tile has 16 of them */
    int32_t rolled, lines;          /* waves walk down rows; rows of positions that tiles hold, then 1 */
    int32_t chunk;                  /* rows of positions that are in LDS at a time (rolled, NVIDIA) */
    int32_t high, wide;             /* pixels of one image of a region, halo and all */
    int32_t image_pitch, row_pitch; /* in LDS, bytes */
    int32_t bytes;                  /* of all pixels there; bwd_weight: dout lies behind them */
    int32_t first_y, first_x;       /* the first pixel of position 0 */
    int32_t regions, parts;         /* block i of a slice of channels takes regions i, i + parts, ... */
    int32_t channels, taps, plain;  /* of all groups; of the filter; stored without an epilogue */
    int32_t channels_in, less_in, less_out; /* bwd_weight: in's; log2 of K / C, of C / K */
    int32_t back, packed;                   /* taps are turned round; weights lie in order */
    int32_t eights;                         /* eight neighbours along C of weights that do not are one load */
    int32_t planes, first_z; /* of the filter, each with so many taps; the first one of output 0 */
    int32_t tap[9];          /* from a position's first pixel to a tap's in LDS, bytes */
    ckci_divisor by_wide, by_high, by_columns, by_rows, by_regions_x, by_regions_y; /* by_rows: lines */
    ckci_divisor by_regions_z, by_planes;
    ckci_divisor by_taps, by_filter_x;
    int32_t log_sides; /* deep: waves for the 16s of a slice's channels: 1, 2, 4 */
} ckci_gpu_near;

/* pair_depth: regions of the result, their windows of the input, and where all that lies in LDS, in bytes. */
typedef struct ckci_gpu_patch {
    int32_t work;                       /* regions, times parts of the columns */
    int32_t images, lines, columns;     /* of a region, 4 * by_strips.d */
    int32_t pixels;                     /* of a window */
    int32_t spans, held;                /* of channels; of which weights of taps lie in LDS */
    int32_t group;                      /* taps of a row that share inputs: 3, 5, or 1 if none do */
    int32_t step, step_y;               /* pixels between positions */
    int32_t next_group, next_y, next_z; /* bytes from taps to taps in a window */
    int32_t padded;                     /* mid may not exist where the result does */
    int32_t resident;                   /* its weights stay in LDS */
    int32_t single;                     /* one window */
    int32_t overlap;                    /* 0: none, 1: the second window, 2: all share the weights' place */
    int32_t at_taps, at_output, at_regions, at_pixels, at_tiles, at_room, at_window[2];
    /* strips of a line, lines of an image; regions along x and y, planes; pixels, rows, planes of a window */
    ckci_divisor by_strips, by_lines, by_wide, by_high, by_planes, by_window, by_rows, by_deep;
} ckci_gpu_patch;

/* pair_strips: a tile is a line of so many strips, eight positions along x of the result each; tiles follow
   each other line after line. */
typedef struct ckci_gpu_strips {
    int32_t all;                                 /* strips of a line of all planes and images */
    int32_t strips;                              /* of a tile */
    int32_t part, part_rest;                     /* tiles of a block; blocks with one more */
    int32_t wide, log_wide, parts;               /* 64s of columns, 64s of rows of a tile */
    int32_t turns;                               /* of four groups, each with 64 columns of 64 rows */
    int32_t slabs;                               /* of 64 channels */
    int32_t packed;                              /* results are of mid's type, stored as they are */
    int32_t at_mid, at_room, at_taps, at_strips; /* in LDS; the second weights come first */
    ckci_divisor by_line, by_high, by_planes;    /* strips and lines of a plane; planes of an image */
    ckci_divisor by_quads;                       /* fours of channels */
} ckci_gpu_strips;

/* matrix bwd_weight in groups of waves: all blocks have equal shares of the steps of all tiles, tile by tile.
   A tile's parts are those of the blocks that have a share in it. */
typedef struct ckci_gpu_share {
    int32_t steps;      /* of a tile, 64 positions each; 0: not so */
    int32_t part, rest; /* steps of a block; blocks with one more */
    int32_t positions;
    ckci_divisor by_steps, by_part, by_more; /* more: part + 1 */
    ckci_divisor by_rows, by_columns;        /* of a tile */
} ckci_gpu_share;

/* A convolution for the kernels. gather and direct: a is the tensor that is read (in; dout for bwd_data), b
   the weights, a row is a position of a phase, a column a channel of the written tensor, and the reduction
   runs over taps and, fastest, channels of a. bwd_weight: a is dout, b is in, a row is an output channel, a
   column a tap and, fastest, an input channel, and the reduction runs over positions of dout.
   Divisors divide by the member of their name, with these exceptions:
     weight, matrix_weight   by_phases: g
     direct_weight           by_tiles_m: taps; by_channels: K
     reduce                  by_tiles_m: rows */
typedef struct ckci_gpu_conv {
    ckci_tensor a, b;
    ckci_gpu_target o;
    ckci_gpu_dim dim[3];
    int64_t b_column, b_red; /* gather: strides of the weights */
    int32_t g, n, rows, columns, red;
    int32_t phases, tiles_m, tiles_n;
    int32_t split, part, part_rest; /* bwd_weight: parts, positions of a part, parts with one more */
    int32_t a_vec, b_vec;           /* four neighbours along the reduction are one aligned load */
    int32_t a_along, b_along;   /* neighbouring threads load along the reduction, not along rows or columns */
    int32_t a_narrow, b_narrow; /* offsets inside a slice fit 32 bits */
    int32_t o_vec;              /* neighbouring columns are one aligned store; matrix: eight, tile: four
                                   that need no epilogue */
    int32_t float_parts;        /* reduce to i32: sums of parts are f32 */
    int32_t ranges;             /* matrix, tile: padding as ranges of taps, not as masks */
    int32_t b_mode;             /* tile: a chunk of the weights is 0: along the reduction, 1: along columns,
                                   2: single elements along the reduction */
    int32_t taps_inside;        /* matrix fwd, bwd_data: taps are the inner loop, channels the outer one */
    int32_t work, workers;      /* matrix fwd, bwd_data on NVIDIA: tiles, blocks that take them in turns */
    int32_t stream;             /* and: from one tile into the next, if stores are plain */
    int32_t merge; /* matrix bwd_weight: groups that are one here, 0: rows and columns are weights */
    int32_t shift, filter_x; /* and taps along x: those of the filter, if two are one here, and the first */
    int32_t chain;           /* matrix, near bwd_weight: positions (regions) of a block that are summed at a
                                time, 0: all; see ckci_sum_chain */
    int32_t lanes;           /* direct, grouped: neighbouring threads that take channels (groups), the
                                   others positions; narrow: that take positions of a row; reduce: log2 of
                                   threads for the same weights */
    ckci_divisor by_red, by_columns, by_tiles_n, by_tiles_m, by_phases, by_channels;
    ckci_divisor by_one_k, by_one_c; /* matrix bwd_weight, near: channels of one group */
    ckci_gpu_share share;
    union {
        ckci_gpu_near region;
        ckci_gpu_patch patch; /* of a pair's second convolution */
        ckci_gpu_strips strips;
    } as;
} ckci_gpu_conv;

/* Rows of halves in LDS: where the first plane lies, bytes from row to row and from channel to channel. vec:
   16: a piece is eight channels of two positions, else so many positions of a row. */
typedef struct ckci_gpu_depth_rows {
    int32_t at, pitch, plane, vec, pieces;
    ckci_divisor by_pieces;
} ckci_gpu_depth_rows;

/* Depthwise on matrix units: what lies in LDS and which products are taken (ckci_k_depth_bands). b: the
   tensor whose rows are multiplied, t: filters (dout) as bands, o: results on their way out, over b. */
typedef struct ckci_gpu_depth_box {
    ckci_gpu_depth_rows b, t, o;
    int32_t channels, skew;         /* of a block; bytes after each eight planes */
    int32_t tile_y, tile_x, tiles;  /* positions (bwd_weight: rows of dout, inputs) of a tile; all tiles */
    int32_t pad_y, back, lead;      /* inputs and numbers of a band that lie before the first position */
    int32_t wide, fold, step;       /* groups side by side; rows are stretches; bytes from row to row */
    int32_t skip, chunks, from, to; /* 16 places each: of the padded row not in LDS, in LDS; those taken */
    int32_t some, origin;           /* chunks at a time; number 0 of the band of chunk 0 */
    int32_t high;                   /* fold: rows of a tile */
    ckci_divisor by_groups, by_rows, by_z, by_tiles_y, by_tiles_x;
} ckci_gpu_depth_box;

/* LDS that they take, and the zeros at its beginning, which stand for rows of padding. */
enum { CKCI_DEPTH_BOX_BYTES = 65536, CKCI_DEPTH_BOX_ZEROS = 256 };

/* Rows through LDS: what a row takes there at most, outputs of a thread's strip (SIZE: bytes of an element),
   words of channels of a block. fwd and bwd_data of 5 x 5 and 2 bytes have a second kernel, with short
   strips. */
enum {
    CKCI_DEPTH_DOWN_POSITIONS = 128,
    CKCI_DEPTH_DOWN_BYTES = 8192,
    CKCI_DEPTH_DOWN_MORE = 12288,
    CKCI_DEPTH_DOWN_SHORT = 4
};
#define CKCI_DEPTH_DOWN_STRIP(SIZE, F, WEIGHT)                                                               \
    ((SIZE) == 4 ? 7 : (F) == 3 ? ((WEIGHT) ? 8 : 7) : (WEIGHT) ? 4 : (F) == 5 ? 7 : 5)
#define CKCI_DEPTH_DOWN_LANES(F) ((F) == 3 ? 128 : (F) == 5 ? 64 : 16)
/* AMD: those whose weights are in registers and leave LDS to rows, of MORE bytes, with up to 128 lanes. */
#define CKCI_DEPTH_DOWN_FREE(SIZE, F) ((SIZE) == 2 && (F) == 5)

/* The same of planes, for filters of 3 x 3 x 3. AMD (ALONE, MOST): bytes of the one plane in LDS, and words
   of channels, whose weights leave room for two blocks on a compute unit. */
enum { CKCI_DEPTH_DEEP_BYTES = 12288, CKCI_DEPTH_DEEP_LANES = 32 };
#define CKCI_DEPTH_DEEP_ALONE(SIZE) ((SIZE) == 2 ? 12288 : 16384)
#define CKCI_DEPTH_DEEP_MOST(SIZE) ((SIZE) == 2 ? 56 : 112)
#define CKCI_DEPTH_DEEP_STRIP(SIZE, WEIGHT) ((SIZE) == 2 && (WEIGHT) ? 5 : 7)

/* Planes of channels-first tensors as they lie in memory (kernels.direct.hip.h, ckci_k_sheet), y before x. */
enum { CKCI_DEPTH_SHEET_BYTES = 30720 };
enum { CKCI_DEPTH_SHEET_THREADS = 128 };
/* Columns of a thread. */
#define CKCI_DEPTH_SHEET_COLUMNS(SIZE, STRIDE, BACK, WEIGHT)                                                 \
    ((STRIDE) == 1 ? 8 / (SIZE) : (BACK) ? 2 : (WEIGHT) ? 1 : 4 / (SIZE))
typedef struct ckci_gpu_depth_sheet {
    int32_t count, high, bands;    /* planes of a block, rows of what is written (of dout) of a block,
                                            blocks that share a plane */
    int32_t planes;                /* all that are written */
    int32_t pad[2], in[2], out[2]; /* `in` is what is read: dout for bwd_data; bwd_weight: out is dout */
    int32_t pairs;                 /* two columns are one load */
    int32_t slack;                 /* bytes between bands in LDS, for the rest of 16 beside them; 0: there is
                                            none, rows are aligned; < 0: planes are spread */
    int32_t a_room, o_room;        /* bytes of LDS from plane to plane of what is read, written */
    int32_t o_at, w_at;            /* where what is written, weights begin */
    ckci_divisor by_bands, by_wide, by_g; /* by_wide: threads for all columns of it, and some without */
    ckci_divisor by_a, by_o;              /* copies of what lies together in memory */
} ckci_gpu_depth_sheet;

/* A depthwise convolution. fwd, bwd_data: a is the tensor that is read, b the weights. bwd_weight: a is dout,
   b is in. A strip is 8 neighbouring positions of the written tensor (of dout) along dimension 2. For planes
   dimensions 1 and 2 are exchanged, in tensors too, and the lanes are positions along dimension 1. */
typedef struct ckci_gpu_depth {
    ckci_tensor a, b;
    ckci_gpu_target o;
    ckci_gpu_dim dim[3];
    int32_t g, n, phases, taps;
    int32_t red;              /* fwd, bwd_data: channels that are summed, for kernels that load single ones */
    int64_t a_red, b_red;     /* from one to the next: bytes of a, elements of b */
    int32_t lanes_c, lanes_p; /* threads of a block: channels (x for planes) and strips side by side */
    int32_t tiles_c, tiles_x; /* blocks for all channels; planes: groups of lanes for all x */
    int32_t strips;           /* along dimension 2 */
    int32_t parts, part;      /* strips of a block */
    int32_t rows, row_taps;   /* rows of the filter that lie in LDS together; room for one */
    int32_t a_vec;            /* rows: windows are read in aligned pieces of 4; down: bytes of a load */
    int32_t walk;             /* walk: rows of a column; tiles_x: columns one above the other */
    /* down: positions of an image in LDS, pieces of a row there (of a_vec bytes), rows of all columns; a
       block has lanes_p strips of a row and `walk` rows */
    int32_t pitch, pieces, all;
    /* deep: a tile has tile_y rows of `strips` strips, an image tiles_y x tiles_x of them and tiles_z pieces
       of `walk` planes; pitch: positions of a row in LDS, pieces: those of a tile, all: tiles and pieces */
    int32_t tile_y, tiles_y, tiles_z;
    int32_t o_same, o_vec; /* results are stored without an epilogue; and 4 of a row together */
    int32_t bf16, planes;  /* not f16; lanes are positions */
    int32_t full;          /* types or an operation that most kernels do not know */
    int32_t sums;          /* bwd_weight: through workspace */
    int32_t lanes_u, tiles_u, units, groups_x; /* bwd_weight: rows and groups of taps */
    ckci_divisor by_lanes_c, by_lanes_u, by_phases, by_tiles_c, by_tiles_x, by_tiles_u, by_strips,
        by_channels, by_groups_x, by_rows_y, by_pitch, by_pieces, by_tiles_y, by_tiles_z,
        by_wide; /* positions of dout in a row of a tile */
    ckci_gpu_depth_box box;
    ckci_gpu_depth_sheet sheet;
    /* down, deep on AMD: threads before `whole` have channels below by_whole, those from there on others */
    int32_t whole;
    ckci_divisor by_whole, by_rest;
    int32_t halves; /* bwd_weight on AMD's matrix units: times box.channels that a block has */
    int32_t chain;  /* and on all: tiles of a block that are summed at a time, 0: all; see ckci_sum_chain */
} ckci_gpu_depth;

/* Weights in the order in which matrix kernels read them: dst[g / merge][column][tap][red], of type f16,
   bf16 or i8, two of them per thread. Groups that are merged are blocks on the diagonal, the rest is zero. */
typedef struct ckci_gpu_pack {
    ckci_tensor w;
    unsigned char *dst;
    int64_t column, step; /* strides of w along columns and the reduction */
    int32_t columns, red, merge, count, taps[3];
    int32_t pairs, shift, filter_x; /* places of the reduction are two taps of four channels, the first tap is
                                       one before the filter; its real size */
    ckconv_dtype type;
    int32_t low; /* see ckci_k_term; the reduction is three terms of by_term places, without low one */
    ckci_divisor by_term, by_red, by_taps, by_columns, by_one_column, by_one_red, by_x, by_y;
} ckci_gpu_pack;

typedef struct ckci_gpu_pack_data {
    ckci_tensor t; /* groups merged */
    unsigned char *dst;
    ckconv_dtype type;
    int32_t pairs;                    /* a position is two neighbours along x, of four channels each */
    int32_t channels, padded, groups; /* of t, of dst */
    int32_t wide, positions;          /* of t along x, of dst */
    int32_t along, log_c, tiles_c;    /* neighbouring threads read channels; channels of a block */
    int32_t terms, low, pitch;        /* written one after the other, see ckci_k_term; channels from a */
    int64_t term_step;                /* position to the next, from a term to the next */
    ckci_divisor by_tiles_c, by_groups, by_x, by_y, by_z;
} ckci_gpu_pack_data;

/* A first layer; arrays of two: y, x. a is the tensor that is read, b the weights. */
typedef struct ckci_gpu_stem {
    ckci_tensor a, b, o;
    ckconv_dtype type;
    int32_t n, k, c;
    int32_t filter[2], input[2], output[2], stride[2], pad[2], dilation_y;
    int32_t tile[2], tiles[2], tiles_n; /* positions of a tile, tiles of an image; blocks for all k */
    int32_t items, blocks;              /* tiles of all images; those that run side by side */
    int32_t rows, pitch;                /* of a tile's pixels in LDS; bytes of a row, bwd_data: of a pixel */
    int32_t left, odd, row_pairs;       /* see ckci_k_stem_fwd */
    int32_t steps;                      /* of 16 places of the reduction */
    int32_t columns, window[2], first[2]; /* bwd_data: stride x stride x C; taps of a phase; the first q */
    /* bwd_weight (columns: taps x C): blocks for all columns, planes of a row in one copy, numbers of a
       plane, its bytes in LDS, chunks of a row that is read */
    int32_t tiles_c, planes, length, plane, chunks;
    int32_t chain;          /* items of a block that are summed at a time, 0: all; see ckci_sum_chain */
    unsigned char *partial; /* [block][k][column] */
    /* by_row: row_pairs, bwd_data: pairs of K; by_wide: pixels of a row */
    ckci_divisor by_tile_x, by_tiles_x, by_tiles_y, by_tiles_n, by_pairs, by_row, by_c, by_chunks, by_wide,
        by_stride_x, by_window_x, by_planes, by_tiles_c, by_filter_x;
} ckci_gpu_stem;

typedef struct ckci_gpu_pair {
    ckci_gpu_conv first, second;
    int32_t write_mid; /* second reads each position of mid once: the blocks of column 0 store it */
    int32_t groups;    /* depth: of taps in a row of the first filter, see ckci_gpu_patch */
    int32_t mid_vec;   /* matrix, depth: eight channels of the copy of mid are one store */
    ckci_divisor by_row, by_taps; /* depth: taps of a row, of all rows */
} ckci_gpu_pair;

/* LDS of a block that keeps what it reads: two of them share 228 KiB, with a KiB and 23 KiB of sums each. */
enum { CKCI_NORM_KEPT = 92160, CKCI_NORM_KEPT_LDS = 23552 + CKCI_NORM_KEPT };

/* Likewise, of one that keeps dy too; its groups at most. */
enum { CKCI_NORM_BACK = 106496, CKCI_NORM_BACK_SET = 32 };
/* Bytes of LDS of wide blocks, channels last (NVIDIA). */
enum { CKCI_NORM_RING_LDS = 23552 + 8 * 256 * 16 };
enum { CKCI_NORM_BACK_LDS = 8192 + 16 + 16 * CKCI_NORM_BACK_SET + CKCI_NORM_BACK };

/* A group norm for the kernels. A block owns part of the positions of `set` neighbouring groups of one n,
   whose set * c channels are its columns. Its threads are lanes_c columns x lanes_p positions; each one walks
   columns lanes_c and positions lanes_p apart. set is above 1 where groups are narrow: then all columns have
   a lane of their own. Spatial axes that are one dense axis are merged. */
typedef struct ckci_gpu_norm {
    ckci_tensor x, y, dx; /* y: dy in the backward pass */
    const unsigned char *gamma, *beta, *saved_mean, *saved_inv_std;
    unsigned char *mean, *inv_std, *dgamma, *dbeta;
    /* workspace, NULL: computed on the spot. double [n][parts][g][2] sums of x - p and of its square, p a
       number of the (n, g) (ckci_k_norm_pivot);
       T [n][parts][g][2] sums of gamma*dy' and gamma*dy'*xhat;
       T [2][n][parts][g*c] sums of dy' and of dy'*xhat */
    unsigned char *stats, *slab_sums, *sums;
    double eps;
    ckconv_dtype param;
    ckconv_element act;
    int32_t n, g, c, space;
    int32_t set, sets;
    int32_t parts, part, part_rest; /* positions of a part; the first part_rest parts have one more */
    int32_t lanes_c, lanes_p;
    int32_t along_x; /* neighbouring threads take neighbouring positions, not columns */
    int32_t flat;    /* positions are one axis in all tensors */
    int32_t wide;    /* lanes take eight channels, along_x: eight positions; flat, and columns whole eights */
    int32_t aligned; /* wide: eight are one or two loads */
    int32_t chunks;  /* times that lanes_c goes into the columns */
    int32_t kept;    /* x stays in LDS, bwd: so does dy; the parts are a cluster */
    int32_t bulk;    /* kept, bwd, channels first: rows are bulk copies */
    int32_t late;    /* kept, bwd, channels first: blocks late to 2*late - 1 start a little later */
    int32_t summing; /* norm_din: leaves sums in workspace, no dx */
    ckci_divisor by_sets, by_parts, by_c, by_fast, by_lanes_p, by_segment, by_chunks, by_y, by_x;
} ckci_gpu_norm;

enum { CKCI_MOVE_LDS = 26624 }; /* bytes of a tile */

/* Layout and type conversion of one tensor. Dimensions x and y are those along which dst and src are dense;
   a block moves tile[..] elements along them and a third one, z, at one place in the other
   three. When x is dense in both, y is any other dimension (transpose is 0). */
typedef struct ckci_gpu_move {
    const unsigned char *src, *src_end;
    unsigned char *dst;
    ckconv_dtype from, to;
    int64_t len_x, len_y, len_z;
    int64_t src_step[6], dst_step[6]; /* bytes; x, y, z, the others */
    int32_t tile[6];                  /* elements of a block; 1 along the others */
    int32_t log_x, log_y;             /* move, move_copy: of tile[0], tile[1] */
    int32_t transpose;
    int32_t vec, tail; /* move_copy: bytes of its elements; bytes after the last one */
    /* Through LDS (>>k-move). V: elements of dst in 16 bytes */
    int32_t straight; /* x is dense in both */
    int32_t scatter;  /* turned before LDS: rows of dst are short, and one run */
    int32_t merged;   /* rows of src are short, and one run */
    int32_t shifted;  /* rows of src are not aligned for loads */
    int32_t before;   /* rows of dst are not aligned: V, the rows of src that a block reads before its own */
    int32_t anywhere; /* AMD: whole pieces are stored at any address */
    int32_t dst_vec;  /* straight: rows of dst are aligned */
    int32_t words;    /* otherwise: words of LDS hold elements of several rows of dst */
    int32_t pitch, load_pitch;  /* LDS: bytes between rows */
    int32_t pad, pad_log;       /* and those more after 2^pad_log of them: elements along x (scatter: y) */
    int32_t load_pad, load_log; /* the same of what is loaded: merged: V rows of src are one */
    int32_t lanes;         /* scatter: 2^lanes lanes load neighbouring pieces, the others in rows beside */
    int32_t loads, stores; /* of a block */
    int32_t row_run;       /* merged: elements of V rows of src */
    int64_t load_step;     /* bytes between rows of src */
    ckci_divisor by_load, by_store;
    ckci_divisor blocks[6]; /* along each dimension */
} ckci_gpu_move;

/* One kernel of a plan, ready to go: the only thing that the runtime's half gets to see. */
typedef struct ckci_launch {
    int32_t kernel, threads;
    int32_t cluster; /* blocks that wait for each other (NVIDIA, from sm_90 on); 1: none do */
    int32_t lds;     /* bytes that a block uses of its struct's (NVIDIA); 0: all */
    int64_t grid;    /* blocks, one dimension */
    size_t bytes;    /* of the argument struct */
    union {
        ckci_gpu_conv conv;
        ckci_gpu_stem stem;
        ckci_gpu_depth depth;
        ckci_gpu_pack pack;
        ckci_gpu_pack_data data;
        ckci_gpu_pair pair;
        ckci_gpu_norm norm;
        ckci_gpu_move move;
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
#define CKCI_ROW(NAME, ARGS, THREADS, ...) "ckconv_k_" #NAME,
    static const char *const names[] = {CKCI_GPU_KERNELS(CKCI_ROW)};
#undef CKCI_ROW
    return kernel >= 0 && kernel < CKCI_KERNEL_COUNT ? names[kernel] : NULL;
}

/* The matrix unit of a GPU: CKCI_UNIT_... */
CKCI_FN int32_t ckci_matrix_unit(const ckconv_device *d)
{
    const ckci_architecture *row = ckci_find_architecture(d->arch);
    return row ? row->unit : (int32_t)CKCI_UNIT_NONE;
}

/* 90 for sm_90; 0: no NVIDIA GPU, or one that has no row. */
CKCI_FN int ckci_sm(const ckconv_device *d)
{
    const ckci_architecture *row = ckci_find_architecture(d->arch);
    return row && row->kind == CKCONV_DEVICE_NVIDIA ? atoi(row->name + 3) : 0;
}

/* Threads and argument size of a kernel. */
CKCI_FN void ckci_set_kernel(ckci_launch *l, int32_t kernel)
{
#define CKCI_ROW(NAME, ARGS, THREADS, ...) {THREADS, sizeof(ARGS)},
    static const struct {
        int32_t threads;
        size_t bytes;
    } table[] = {CKCI_GPU_KERNELS(CKCI_ROW)};
#undef CKCI_ROW
    l->kernel = kernel;
    l->threads = table[kernel].threads;
    l->cluster = 1;
    l->lds = 0;
    l->bytes = table[kernel].bytes;
}


/*------------------------------------------------------------------------------------------------------------
  >>g-conv
  What convolutions share, and the kernels for any tensors (>>k-gather, >>k-weight, >>k-direct).
*/

CKCI_FN ckci_gpu_dim ckci_make_gpu_dim(const ckci_conv *p, int dim)
{
    ckci_gpu_dim d;
    int back = p->op == CKCONV_BWD_DATA;
    int64_t s = p->stride[dim], period = back ? s / ckci_gcd(s, p->dilation[dim]) : 1;
    int64_t length = back ? p->input[dim] : p->output[dim], step = back ? s : 1;
    memset(&d, 0, sizeof d);
    d.phases = (int32_t)(back ? ckci_min(s, length) : 1);
    d.length = (int32_t)length;
    d.stride = (int32_t)s;
    d.dilation = (int32_t)p->dilation[dim];
    d.pad = (int32_t)p->pad[dim];
    d.filter = (int32_t)p->filter[dim];
    d.write_step = (int32_t)step;
    d.period = (int32_t)period;
    d.read_step = (int32_t)(back ? 1 : s);
    d.read_tap = (int32_t)(back ? -(p->dilation[dim] / ckci_gcd(s, p->dilation[dim])) : p->dilation[dim]);
    d.read_len = (int32_t)(back ? p->output[dim] : p->input[dim]);
    d.gather_back = back;
    d.count[0] = ckci_make_divisor(ckci_ceil_div(length, step));
    d.count[1] = ckci_make_divisor(length / step);
    d.taps[0] = ckci_make_divisor(ckci_ceil_div(p->filter[dim], period));
    d.taps[1] = ckci_make_divisor(p->filter[dim] / period);
    d.slip = (int32_t)(p->dilation[dim] % s);
    d.by_stride = ckci_make_divisor(s);
    d.by_period = ckci_make_divisor(period);
    d.by_phases = ckci_make_divisor(d.phases);
    return d;
}

/* Do all offsets inside a slice fit 32 bits? `channels` of step `channel`, positions of the tensor. */
CKCI_FN int32_t ckci_narrow_slice(const ckci_tensor *t, int64_t channels, int64_t channel)
{
    int64_t reach = ckci_saturating_mul(channels - 1, channel);
    for (int i = 3; i < 6; i++) {
        reach = ckci_saturating_add(reach, ckci_saturating_mul(ckci_max(t->len[i] - 1, 0), t->stride[i]));
    }
    return reach <= INT32_MAX;
}

/* May four neighbours along the dimension with stride `channel` be one load, wherever they begin? NULL: the
   pointer is not known yet. */
CKCI_FN int32_t ckci_vector_loads(const ckci_tensor *t, int dim, int64_t channels)
{
    int64_t size = (int64_t)ckci_size(t->dtype);
    int fits =
        channels % 4 == 0 && t->stride[dim] == 1 && (uintptr_t)t->p % (uintptr_t)ckci_min(4 * size, 16) == 0;
    for (int i = 0; i < 6; i++) {
        fits = fits && (i == dim || t->len[i] <= 1 || t->stride[i] % 4 == 0);
    }
    return fits;
}

/* May eight neighbouring columns be one store? */
CKCI_FN int32_t ckci_aligned_columns(const ckci_tensor *t, int64_t columns)
{
    int fits = columns % 8 == 0 && t->stride[2] == 1 && (uintptr_t)t->p % 16 == 0 &&
               (t->dtype == CKCONV_F64 || t->dtype == CKCONV_F32 || t->dtype == CKCONV_F16 ||
                t->dtype == CKCONV_BF16 || t->dtype == CKCONV_I8 || t->dtype == CKCONV_I32);
    for (int i = 0; i < 6; i++) {
        fits = fits && (i == 2 || t->len[i] <= 1 || t->stride[i] % 8 == 0);
    }
    return fits;
}

/* Everything that does not depend on the kernel. The caller has checked ckci_gpu_takes. */
CKCI_FN void ckci_make_gpu_conv(const ckci_conv *p, ckci_gpu_conv *k)
{
    int weight = p->op == CKCONV_BWD_WEIGHT, back = p->op == CKCONV_BWD_DATA;
    int64_t rows = p->n;
    memset(k, 0, sizeof *k);
    k->a = p->t[p->op == CKCONV_FWD ? CKCI_IN : CKCI_OUT];
    k->b = p->t[weight ? CKCI_IN : CKCI_WEI];
    k->o.t = p->t[ckci_written(p->op)];
    k->o.num_d = p->num_d;
    memcpy(k->o.d, p->d, sizeof k->o.d);
    k->phases = 1;
    k->columns = (int32_t)(back ? p->c : p->k);
    k->red = (int32_t)(back ? p->k : p->c);
    for (int i = 0; i < 3; i++) {
        k->dim[i] = ckci_make_gpu_dim(p, i);
        k->phases *= k->dim[i].phases;
        rows *= k->dim[i].count[0].d;
    }
    k->g = (int32_t)p->g;
    k->n = (int32_t)p->n;
    k->split = 1;
    if (weight) {
        k->columns = (int32_t)(p->c * p->filter[0] * p->filter[1] * p->filter[2]);
        k->rows = (int32_t)p->k;
        k->a_along = k->a.stride[5] < k->a.stride[2];
        k->b_along = k->b.stride[5] < k->b.stride[2];
        k->a_narrow = ckci_narrow_slice(&k->a, 1, 0);
        k->b_narrow = ckci_narrow_slice(&k->b, 1, 0);
    } else {
        int column = back ? 2 : 1, red = back ? 1 : 2;
        k->rows = (int32_t)rows;
        k->b_column = k->b.stride[column];
        k->b_red = k->b.stride[red];
        k->a_vec = ckci_vector_loads(&k->a, 2, k->red);
        k->b_vec = ckci_vector_loads(&k->b, red, k->red);
        k->a_along = k->a_vec || (k->red >= 4 && k->a.stride[2] < k->a.stride[5]);
        k->b_along = k->b_vec || k->b_red < k->b_column;
        k->a_narrow = ckci_narrow_slice(&k->a, k->red, k->a.stride[2]);
        k->b_narrow = ckci_narrow_slice(&k->b, k->red, k->b_red);
    }
    k->by_red = ckci_make_divisor(k->red);
    k->by_columns = ckci_make_divisor(k->columns);
    k->by_phases = ckci_make_divisor(k->phases);
}

/* What 32-bit indices hold; each return has one reason. */
CKCI_FN ckconv_status ckci_gpu_takes(const ckci_conv *p, ckconv_error *err)
{
    static const char *const dims[3] = {"z", "y", "x"};
    int64_t most = INT32_MAX / 2, positions = p->n, taps = 1, phases = 1;
    for (int i = 0; i < 3; i++) {
        int64_t largest = ckci_max(ckci_max(p->input[i], p->output[i]), ckci_max(p->filter[i], p->stride[i]));
        largest = ckci_max(largest, ckci_max(p->dilation[i], p->pad[i]));
        largest = ckci_max(largest, ckci_saturating_mul(p->output[i], p->stride[i]));
        largest = ckci_max(largest, ckci_saturating_mul(p->filter[i] - 1, p->dilation[i]));
        largest = ckci_saturating_add(largest, p->pad[i]);
        if (largest > most) {
            return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                             "GPU kernels take up to 2^30 - 1 for sizes, output * stride and (filter-1) * "
                             "dilation, each with pad_lo added; %s has %lld",
                             dims[i], CKCI_LL(largest));
        }
        phases = ckci_saturating_mul(phases, ckci_min(p->stride[i], p->input[i]));
        positions = ckci_saturating_mul(
            positions, p->op == CKCONV_BWD_DATA ? ckci_ceil_div(p->input[i], p->stride[i]) : p->output[i]);
        taps = ckci_saturating_mul(taps, p->filter[i]);
    }
    int64_t red = ckci_saturating_mul(taps, ckci_max(p->c, p->k));
    int64_t channels = ckci_saturating_mul(p->g, ckci_saturating_mul(p->k, p->c));
    if (positions > most || red > most || channels > most) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "GPU kernels take 2^30 - 1 positions (N x space, of one stride phase), taps x "
                         "channels and G*K*C; here they are %lld, %lld and %lld",
                         CKCI_LL(positions), CKCI_LL(red), CKCI_LL(channels));
    }
    if (p->op == CKCONV_BWD_DATA && phases > most) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "GPU kernels take 2^30 - 1 stride phases (the product of the strides); here they are "
            "%lld",
            CKCI_LL(phases));
    }
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_too_many_blocks(int64_t blocks, ckconv_error *err)
{
    return blocks <= INT32_MAX
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                           "GPU kernels take 2^31 - 1 blocks; this problem has %lld", CKCI_LL(blocks));
}

/* NVIDIA limits the blocks of a launch; AMD its threads, to 2^32 - 1. */
CKCI_FN ckconv_status ckci_check_launch(const ckconv_device *device, const ckci_launch *l, ckconv_error *err)
{
    int64_t most = device->kind == CKCONV_DEVICE_AMD ? (int64_t)UINT32_MAX / l->threads : INT32_MAX;
    return l->grid >= 1 && l->grid <= most
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                           "%s needs %lld blocks of %d threads; %s launches 1 to %lld of them",
                           ckci_kernel_name(l->kernel), CKCI_LL(l->grid), (int)l->threads, device->arch,
                           CKCI_LL(most));
}

/* Does it put tensors in another order? */
CKCI_FN int ckci_packs(const ckci_launch *l)
{
    return l->kernel == CKCI_KERNEL_pack || l->kernel == CKCI_KERNEL_pack_turn ||
           l->kernel == CKCI_KERNEL_pack_data;
}

/* Does it write o of an argument struct ckci_gpu_conv or ckci_gpu_depth? Then the epilogue of mid may be put
   there. */
CKCI_FN int ckci_writes_target(const ckci_launch *l)
{
    return !ckci_packs(l) && (l->bytes == sizeof(ckci_gpu_conv) || l->bytes == sizeof(ckci_gpu_depth));
}

/* An emitter that checks the launches of a plan and counts them. mid: they are to write mid. */
typedef struct ckci_launch_count {
    const ckconv_device *device;
    int32_t count, mid;
} ckci_launch_count;

CKCI_FN ckconv_status ckci_count_launch(void *context, const ckci_launch *launch, ckconv_error *err)
{
    ckci_launch_count *c = (ckci_launch_count *)context;
    c->count++;
    if (c->mid && !ckci_packs(launch) && !ckci_writes_target(launch)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "%s does not take the epilogue of mid",
                         ckci_kernel_name(launch->kernel));
    }
    return ckci_check_launch(c->device, launch, err);
}

/* Products that a thread of bwd_weight adds to one sum of f32 one after the other, at most, where its
   registers have no room for long sums (kernels.hip.h, CKCI_K_STRETCH). */
enum { CKCI_GPU_CHAIN = 1024 };

/* What costs count beside those of tiles, vector and matrix units' alike, of which 8e4 to 15e4 are a
   microsecond on an H100 (216 problems there: 1 to 8 channels per group on each side, f16, f32, both
   layouts). Direct kernels load two numbers for each product. */
#define CKCI_DIRECT_BESIDE 11
#define CKCI_DIRECT_WEIGHT_BESIDE 20

/* A kernel's cost is the time of multiply-adds on one compute unit. Smaller tiles read LDS more often, direct
   kernels read memory for each product. */
CKCI_FN double ckci_gpu_cost(const ckconv_device *device, int64_t blocks, double per_block, int32_t tile)
{
    double units = (double)ckci_max(device->compute_units, 1), rate = tile == 128  ? 1
                                                                      : tile == 64 ? 1.6
                                                                                   : 3.5;
    double share = (double)blocks / units;
    return per_block * rate * (share < 1.5 ? 1.5 : share);
}

/* Which of the table's kernels: base is the f32 one; f64 and i32 follow it in each family. */
CKCI_FN int32_t ckci_kernel_for(ckconv_dtype kind, int32_t f32, int32_t f64, int32_t i32)
{
    return kind == CKCONV_F64 ? f64 : kind == CKCONV_I32 ? i32 : f32;
}

CKCI_FN ckconv_dtype ckci_conv_kind(const ckci_conv *p)
{
    return ckci_find_kind(p->t[p->op == CKCONV_BWD_DATA ? CKCI_OUT : CKCI_IN].compute)->dtype;
}

/* Blocks of 256 outputs: lanes channels, and positions. Channels go first where they lie closer together in
   the tensor that is written. */
CKCI_FN void ckci_direct_blocks(ckci_gpu_conv *k, int64_t channels)
{
    const ckci_tensor *t = &k->o.t;
    int channels_first = t->stride[5] >= ckci_min(t->stride[0], t->stride[2]);
    k->lanes = 1;
    while (k->lanes < 64 && k->lanes < channels && channels_first) {
        k->lanes *= 2;
    }
    k->tiles_m = (int32_t)ckci_max(ckci_ceil_div(k->rows, 256 / k->lanes), 1);
    k->tiles_n = (int32_t)ckci_ceil_div(channels, k->lanes);
}

/* Places of the reduction of one phase, on average, of `channels` each. */
CKCI_FN double ckci_reduction(const ckci_gpu_conv *k, double channels)
{
    for (int i = 0; i < 3; i++) {
        channels *= (double)k->dim[i].filter / (double)k->dim[i].period;
    }
    return channels;
}

/* Positions of an image (of one phase), and how far a filter reaches beyond it. */
CKCI_FN void ckci_image(const ckci_conv *p, int64_t *positions, int64_t *pad)
{
    int back = p->op == CKCONV_BWD_DATA;
    *positions = 1;
    *pad = 0;
    for (int i = 0; i < 3; i++) {
        *positions *= ckci_max(back ? p->input[i] / p->stride[i] : p->output[i], 1);
        *pad = ckci_max(*pad, ckci_saturating_add(p->pad[i], p->filter[i] * p->dilation[i]));
    }
}

/* The grid, once tiles_m and tiles_n are known: those of `slices` phases and groups; nothing for an empty
   batch. */
CKCI_FN ckconv_status ckci_make_grid(ckci_gpu_conv *k, int64_t slices, ckci_launch *l, ckconv_error *err)
{
    l->grid = ckci_saturating_mul(ckci_saturating_mul(k->tiles_m, k->tiles_n), slices);
    CKCI_TRY(ckci_too_many_blocks(l->grid, err));
    l->grid = k->rows == 0 ? 0 : l->grid;
    k->by_tiles_n = ckci_make_divisor(k->tiles_n);
    k->by_tiles_m = ckci_make_divisor(k->tiles_m);
    return CKCONV_OK;
}

/* fwd and bwd_data with one kernel. tile 0: direct. */
CKCI_FN ckconv_status ckci_gpu_gather(const ckci_conv *p, const ckconv_device *device, int32_t tile,
                                      ckci_launch *l, double *cost, ckconv_error *err)
{
    ckci_gpu_conv *k = &l->a.conv;
    ckconv_dtype kind = ckci_conv_kind(p);
    CKCI_TRY(ckci_gpu_takes(p, err));
    ckci_make_gpu_conv(p, k);
    double red = ckci_reduction(k, (double)k->red);
    if (tile) {
        ckci_set_kernel(l, tile == 128 ? CKCI_KERNEL_gather_f32_128
                           : tile == 64
                               ? ckci_kernel_for(kind, CKCI_KERNEL_gather_f32_64, CKCI_KERNEL_gather_f64_64,
                                                 CKCI_KERNEL_gather_i32_64)
                               : CKCI_KERNEL_gather_f32_32);
        k->tiles_m = (int32_t)ckci_max(ckci_ceil_div(k->rows, tile), 1);
        k->tiles_n = (int32_t)ckci_ceil_div(k->columns, tile);
        CKCI_TRY(ckci_make_grid(k, ckci_saturating_mul(k->phases, k->g), l, err));
        *cost = ckci_gpu_cost(device, l->grid, (double)tile * tile * (red + 32), tile);
    } else {
        int64_t channels = p->g * k->columns;
        ckci_set_kernel(
            l, ckci_kernel_for(kind, CKCI_KERNEL_direct_f32, CKCI_KERNEL_direct_f64, CKCI_KERNEL_direct_i32));
        ckci_direct_blocks(k, channels);
        CKCI_TRY(ckci_make_grid(k, k->phases, l, err));
        *cost = CKCI_DIRECT_BESIDE * ckci_gpu_cost(device, l->grid, 256 * 4 * (red + 16), 128);
    }
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_gpu_no_split(const ckci_fit *f, ckconv_error *err)
{
    return f->split_k <= 1 ? CKCONV_OK
                           : ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: only bwd_weight splits",
                                       (int)f->split_k);
}

CKCI_FN ckconv_status ckci_gpu_wrong_kind(const ckci_fit *f, ckconv_dtype kind, ckconv_error *err)
{
    return f->kind == 0 || f->kind == kind
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "the sums are %s, the instance's are %s",
                           ckconv_dtype_name(kind), ckconv_dtype_name(f->kind));
}

/* Direct kernels read memory for each product: with many channels per group they would be slower by tens. */
CKCI_FN ckconv_status ckci_gpu_direct_takes(const ckci_fit *f, ckconv_error *err)
{
    const ckci_conv *p = &f->p->conv;
    return f->tile != 0 || ckci_min(p->k, p->c) <= 16
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                           "direct takes up to 16 channels per group on one side; here K is %lld and C %lld",
                           CKCI_LL(p->k), CKCI_LL(p->c));
}

CKCI_FN void ckci_plan_launch(ckconv_plan *plan, const ckci_launch *l, int32_t launches)
{
    plan->grid[0] = l->grid;
    plan->block[0] = l->threads;
    plan->launches = launches;
}

/* Tiles whose registers have no room for long sums keep them in the parts' workspace: of one part, with no
   `place` in dw, none may be long. *split becomes two parts if it is free. */
CKCI_FN ckconv_status ckci_place_long_sums(int64_t positions, int place, int32_t split_k, int64_t sum_bytes,
                                           int64_t limit, int64_t *split, ckconv_error *err)
{
    if (place || *split > 1 || positions <= CKCI_GPU_CHAIN) {
        return CKCONV_OK;
    }
    int64_t bytes = ckci_saturating_mul(2, sum_bytes);
    if (split_k == 0 && bytes <= limit && sum_bytes / 4 <= INT32_MAX) {
        *split = 2;
        return CKCONV_OK;
    }
    return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                     "this tile adds up %lld positions (more than %d) only in parts: split_k is %d, the sums "
                     "of two parts need %lld bytes of workspace, options.max_workspace allows %lld",
                     CKCI_LL(positions), (int)CKCI_GPU_CHAIN, (int)split_k, CKCI_LL(bytes), CKCI_LL(limit));
}

/* bwd_weight. split_k 0: as many parts as fill the GPU, within `limit` bytes. tile 0: direct. Sums of parts
   lie in workspace at *bytes = parts * G * K * taps * C sums. */
CKCI_FN ckconv_status ckci_gpu_weight(const ckci_conv *p, const ckconv_device *device, int32_t tile,
                                      int32_t split_k, int64_t limit, ckci_launch *l, int64_t *bytes,
                                      double *cost, ckconv_error *err)
{
    ckci_gpu_conv *k = &l->a.conv;
    ckconv_dtype kind = ckci_conv_kind(p);
    CKCI_TRY(ckci_gpu_takes(p, err));
    ckci_make_gpu_conv(p, k);
    int64_t positions = p->n * p->output[0] * p->output[1] * p->output[2], tiles;
    int64_t sums = ckci_saturating_mul(ckci_saturating_mul(p->g, k->rows), k->columns);
    if (tile) {
        ckci_set_kernel(l, tile == 128
                               ? CKCI_KERNEL_weight_f32_128
                               : ckci_kernel_for(kind, CKCI_KERNEL_weight_f32_64, CKCI_KERNEL_weight_f64_64,
                                                 CKCI_KERNEL_weight_i32_64));
        k->tiles_m = (int32_t)ckci_ceil_div(k->rows, tile);
        k->tiles_n = (int32_t)ckci_ceil_div(k->columns, tile);
        tiles = ckci_saturating_mul(ckci_saturating_mul(k->tiles_m, k->tiles_n), p->g);
        k->by_phases = ckci_make_divisor(p->g);
    } else {
        int64_t filters = p->g * p->k * p->c;
        ckci_set_kernel(l, ckci_kernel_for(kind, CKCI_KERNEL_direct_weight_f32, CKCI_KERNEL_direct_weight_f64,
                                           CKCI_KERNEL_direct_weight_i32));
        k->lanes = 1;
        while (k->lanes < 32 && k->lanes < filters &&
               k->a.stride[5] >= ckci_min(k->a.stride[0], k->a.stride[2])) {
            k->lanes *= 2;
        }
        k->tiles_m = (int32_t)(p->filter[0] * p->filter[1] * p->filter[2]);
        k->tiles_n = (int32_t)ckci_ceil_div(filters, k->lanes);
        tiles = ckci_saturating_mul(k->tiles_m, k->tiles_n);
        k->by_channels = ckci_make_divisor(p->k);
    }
    /* parts: four blocks for each compute unit, none with fewer than 512 positions */
    int64_t split = split_k, sum_bytes = ckci_saturating_mul(sums, kind == CKCONV_F64 ? 8 : 4);
    if (split == 0) {
        int64_t want = ckci_ceil_div(4 * (int64_t)ckci_max(device->compute_units, 1), ckci_max(tiles, 1));
        split = ckci_min(ckci_min(want, positions / 512), 1024);
        split = ckci_min(split, limit / ckci_max(sum_bytes, 1));
        split = sums > INT32_MAX ? 1 : split;
    }
    split = ckci_max(ckci_min(split, positions), 1);
    CKCI_TRY(ckci_place_long_sums(positions, tile != 128, split_k, sum_bytes, limit, &split, err));
    *bytes = split > 1 ? ckci_saturating_mul(split, sum_bytes) : 0;
    CKCI_TRY(ckci_sums_fit(split_k, *bytes, limit, err));
    if (split > 1 && sums > INT32_MAX) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: 2^31 - 1 weights can be split",
                         (int)split_k);
    }
    k->split = (int32_t)split;
    k->part = (int32_t)(positions / split);
    k->part_rest = (int32_t)(positions % split);
    l->grid = ckci_saturating_mul(tiles, split);
    CKCI_TRY(ckci_too_many_blocks(l->grid, err));
    k->by_tiles_n = ckci_make_divisor(k->tiles_n);
    k->by_tiles_m = ckci_make_divisor(k->tiles_m);
    *cost = tile ? ckci_gpu_cost(device, l->grid, (double)tile * tile * ((double)k->part + 32), tile)
                 : CKCI_DIRECT_WEIGHT_BESIDE *
                       ckci_gpu_cost(device, l->grid, 4.0 * k->lanes * ((double)k->part + 256), 128);
    *cost += split > 1 ? 2e4 + (double)*bytes / 64 / (double)ckci_max(device->compute_units, 1) : 0;
    return CKCONV_OK;
}

/* Are weights stored in the order of their sums, [g][k][tap][c], without an epilogue, four at a time? */
CKCI_FN int32_t ckci_weights_as_sums(const ckci_tensor *t)
{
    static const int order[6] = {2, 5, 4, 3, 1, 0};
    int64_t next = 1;
    int fits = t->op.kind == CKCONV_PASS && (uintptr_t)t->p % 16 == 0 &&
               (t->dtype == CKCONV_F32 || t->dtype == CKCONV_F16 || t->dtype == CKCONV_BF16);
    for (int i = 0; i < 6; i++) {
        int axis = order[i];
        fits = fits && (t->len[axis] <= 1 || t->stride[axis] == next);
        next = ckci_saturating_mul(next, ckci_max(t->len[axis], 1));
    }
    return fits && next % 4 == 0;
}

/* The launch that adds the sums of bwd_weight's parts, [part][g][k][taps][c], in a fixed order. matrix: what
   wrote them, if a matrix kernel did; else NULL. */
CKCI_FN ckconv_status ckci_emit_reduce(const ckci_conv *p, int32_t split, const ckci_gpu_conv *matrix,
                                       unsigned char *ws, const ckci_emitter *e, ckconv_error *err)
{
    ckci_launch l;
    ckci_gpu_conv *k = &l.a.conv;
    ckci_make_gpu_conv(p, k);
    ckci_set_kernel(&l, ckci_kernel_for(ckci_conv_kind(p), CKCI_KERNEL_reduce_f32, CKCI_KERNEL_reduce_f64,
                                        CKCI_KERNEL_reduce_i32));
    k->split = split;
    k->o.partial = ws;
    k->by_tiles_m = ckci_make_divisor(k->rows);
    if (matrix) {
        k->share = matrix->share;
        k->tiles_m = matrix->tiles_m;
        k->tiles_n = matrix->tiles_n;
        k->float_parts = matrix->float_parts;
    }
    k->o_vec = ckci_conv_kind(p) == CKCONV_F32 && ckci_weights_as_sums(&k->o.t) && !k->o.scale &&
               !k->o.shift && !k->o.compute && (uintptr_t)ws % 16 == 0;
    /* several threads for the same weights, lest they be few; each with four parts at least */
    int64_t weights = (int64_t)k->g * k->rows * k->columns;
    while (k->o_vec && k->lanes < 5 && 8 << k->lanes <= split && weights << k->lanes < 524288) {
        k->lanes++;
    }
    l.grid = ckci_ceil_div(weights, k->o_vec ? 1024 >> k->lanes : 256);
    return e->emit(e->context, &l, err);
}


/*------------------------------------------------------------------------------------------------------------
  >>g-depth
  Depthwise (kernels.direct.hip.h, >>k-depth). One plan for all layouts and types: the kernel follows from
  where neighbours lie in memory, the type, the filter and the alignment.
*/

CKCI_FN void ckci_exchange_yx(ckci_tensor *t)
{
    int64_t len = t->len[4], stride = t->stride[4];
    t->len[4] = t->len[5];
    t->stride[4] = t->stride[5];
    t->len[5] = len;
    t->stride[5] = stride;
}

/* May `vec` neighbouring channels be one load? Channels are groups here. */
CKCI_FN int ckci_depth_vector(const ckci_tensor *t, int64_t vec)
{
    int fits = t->stride[0] == 1 && t->len[0] % vec == 0 &&
               (uintptr_t)t->p % (uintptr_t)(vec * (int64_t)ckci_size(t->dtype)) == 0;
    for (int i = 1; i < 6; i++) {
        fits = fits && (t->len[i] <= 1 || t->stride[i] % vec == 0);
    }
    return fits;
}

/* Which depthwise kernels: their place among those of one type. */
enum {
    CKCI_DEPTH_WALK,           /* 3, 5, 7: bwd_weight's; those of fwd and bwd_data take rows through LDS */
    CKCI_DEPTH_PLANE_WALK = 3, /* 3, 5, 7 */
    CKCI_DEPTH_ROW = CKCI_DEPTH_PLANE_WALK + 3, /* each kind of strips after it: near, second, any */
    CKCI_DEPTH_4,                               /* loads of 4 channels */
    CKCI_DEPTH_1 = CKCI_DEPTH_4 + 3,
    CKCI_DEPTH_WALK_3 = CKCI_DEPTH_1 + 3,
    CKCI_DEPTH_COLUMN, /* stride 2 */
    CKCI_DEPTH_DEEP,
    CKCI_DEPTH_SHEET,                         /* 3, 5; stride 2: 3, 5; its gradient: 3, 5; 7 */
    CKCI_DEPTH_WEIGHT = CKCI_DEPTH_SHEET + 7, /* the same again; CKCI_DEPTH_1: second, any */
    CKCI_DEPTH_WEIGHT_DOWN = CKCI_DEPTH_1 + 2,
    CKCI_DEPTH_WEIGHT_DEEP = CKCI_DEPTH_WEIGHT_DOWN + 2,
    CKCI_DEPTH_WEIGHT_SHEET
};

/* How a depthwise plan walks: what its lanes are. */
enum {
    CKCI_DEPTH_LAST = 0,   /* channels, strips along x */
    CKCI_DEPTH_PLANES = 1, /* positions along x, strips along y */
    CKCI_DEPTH_ROWS = 2    /* strips along x */
};

/* How a kernel that walks loads windows: 2: in pieces (of 4 neighbours in planes, which `aligned` tells, else
   of vec channels), 1: in words of 4 bytes, 0: element by element. */
CKCI_FN int32_t ckci_depth_pieces(const ckci_tensor *t, int32_t planes, int32_t vec, int32_t aligned)
{
    int fits = (uintptr_t)t->p % 4 == 0, size = (int)ckci_size(t->dtype);
    for (int i = 0; i < 6; i++) {
        fits = fits && (t->len[i] <= 1 || t->stride[i] * size % 4 == 0 || i == (planes ? 5 : 0));
    }
    /* pairs in planes: windows begin at even places, and rows end there */
    fits = fits && (size == 4 || (planes && t->len[5] % 2 == 0));
    return (planes ? aligned : ckci_depth_vector(t, vec)) ? 2 : fits;
}

/* Are types and operation those that all kernels know (kernels.direct.hip.h, ckci_k_depth_write)? bwd_weight:
   the sums can be stored as they are. */
CKCI_FN int ckci_depth_common(const ckci_gpu_depth *k, int weight)
{
    if (weight) {
        ckconv_dtype type = k->o.t.dtype;
        return k->o.t.op.kind == CKCONV_PASS &&
               (k->a.dtype == CKCONV_F64 ? type == CKCONV_F64
                                         : type == CKCONV_F32 || type == CKCONV_F16 || type == CKCONV_BF16);
    }
    int fits = k->a.dtype != CKCONV_F64 && k->b.plain && k->o.t.op.kind != CKCONV_GELU;
    for (int i = 0; i < 2 + k->o.num_d; i++) {
        ckconv_dtype type = i == 0 ? k->b.dtype : i == 1 ? k->o.t.dtype : k->o.d[i - 2].dtype;
        fits = fits && (type == CKCONV_F32 || type == CKCONV_F16 || type == CKCONV_BF16);
    }
    return fits;
}

/* Filter size of a kernel that walks down columns; 0: none does. */
CKCI_FN int32_t ckci_depth_walks(const ckci_gpu_depth *k, const ckconv_device *device, int32_t weight,
                                 int32_t planes)
{
    const ckci_gpu_dim *y = &k->dim[1], *x = &k->dim[2];
    int32_t f = x->filter;
    int fits = (f == 3 || f == 5 || f == 7) && y->filter == f && k->phases == 1 &&
               planes != CKCI_DEPTH_PLANES && k->a.dtype != CKCONV_F64 && (weight || !k->full) &&
               x->stride == 1 && y->stride == 1 && x->dilation == 1 && y->dilation == 1 && y->length > 2;
    fits = fits && (planes ? x->pad == (f - 1) / 2 : k->a.stride[0] == 1 && (!weight || k->b.stride[0] == 1));
    fits =
        fits && (weight ? x->length >= 8 : k->taps <= 128 && (f == 3 || (planes && k->dim[0].filter == 1)));
    /* offsets have 32 bits */
    for (int i = 0; i < 2; i++) {
        const ckci_tensor *t = i == 0 ? &k->a : weight ? &k->b : &k->o.t;
        fits = fits && ckci_span(t) <= INT32_MAX;
    }
    /* rows on their way lie in LDS there */
    fits = fits && (device->kind != CKCONV_DEVICE_NVIDIA || device->lds_bytes >= 101376);
    return fits ? f : 0;
}

/* Filter size of a kernel that takes rows through LDS; 0: none does. */
CKCI_FN int32_t ckci_depth_downs(const ckci_gpu_depth *k, const ckconv_device *device, int32_t weight,
                                 int32_t planes)
{
    const ckci_gpu_dim *z = &k->dim[0], *y = &k->dim[1], *x = &k->dim[2];
    const ckci_tensor *other = weight ? &k->b : &k->o.t;
    int32_t f = x->filter, lanes = 64 / (int32_t)ckci_size(k->a.dtype);
    int fits = (f == 3 || f == 5 || (f == 7 && !weight)) && y->filter == f && z->filter == 1 && z->pad == 0 &&
               k->phases == 1 && planes == CKCI_DEPTH_LAST && k->a.dtype != CKCONV_F64 &&
               (weight || !k->full);
    fits = fits && x->stride == 1 && y->stride == 1 && x->dilation == 1 && y->dilation == 1 && y->pad < f;
    fits = fits && ((int64_t)z->length - 1) * z->read_step < z->read_len;
    /* at least a quarter of 16 lanes have channels; bwd_weight: rows have a strip */
    fits =
        fits && k->a.stride[0] == 1 && k->g >= lanes / 4 &&
        (!weight || (k->b.stride[0] == 1 &&
                     x->length >= ckci_max(CKCI_DEPTH_DOWN_STRIP((int32_t)ckci_size(k->a.dtype), f, 1), 7)));
    /* on an H100 those that walk were faster in f32 but for short rows (bwd_weight of 32 x 32: 115 us, here
       175; of 14 x 14: 49, here 47) */
    fits = fits && (f != 3 || k->a.dtype != CKCONV_F32 || x->length <= 14);
    fits = fits && (device->kind != CKCONV_DEVICE_NVIDIA || device->lds_bytes >= 101376);
    return fits && ckci_span(&k->a) <= INT32_MAX && ckci_span(other) <= INT32_MAX ? f : 0;
}

/* Is there a kernel that takes planes through LDS? */
CKCI_FN int ckci_depth_deeps(const ckci_gpu_depth *k, const ckconv_device *device, int32_t weight,
                             int32_t planes)
{
    const ckci_tensor *other = weight ? &k->b : &k->o.t;
    int32_t lanes = 64 / (int32_t)ckci_size(k->a.dtype);
    int fits =
        planes == CKCI_DEPTH_LAST && k->phases == 1 && k->a.dtype != CKCONV_F64 && (weight || !k->full);
    for (int i = 0; i < 3; i++) {
        const ckci_gpu_dim *d = &k->dim[i];
        fits = fits && d->filter == 3 && d->stride == 1 && d->dilation == 1 && d->pad < 3;
    }
    fits = fits && k->a.stride[0] == 1 && (!weight || k->b.stride[0] == 1) && k->g >= lanes / 4;
    fits = fits && (device->kind != CKCONV_DEVICE_NVIDIA || device->lds_bytes >= 101376);
    return fits && ckci_span(&k->a) <= INT32_MAX && ckci_span(other) <= INT32_MAX;
}

/* Does a kernel walk down columns with two rows of inputs in registers? (fwd, bwd_data) */
CKCI_FN int ckci_depth_takes_columns(const ckci_gpu_depth *k, int32_t vec, int32_t planes)
{
    const ckci_gpu_dim *z = &k->dim[0], *y = &k->dim[1], *x = &k->dim[2];
    int fits = planes == CKCI_DEPTH_LAST && k->phases == 1 && !k->full && vec == 4 && z->filter == 1 &&
               z->pad == 0 && ((int64_t)z->length - 1) * z->read_step < z->read_len && y->length > 2;
    fits = fits && y->filter == 3 && x->filter == 3 && y->stride == x->stride &&
           (x->stride == 2 || (x->stride == 1 && k->a.dtype == CKCONV_F32)) && y->dilation == 1 &&
           x->dilation == 1 && y->pad < 3 && x->pad < 3;
    return fits && ckci_span(&k->a) <= INT32_MAX && ckci_span(&k->o.t) <= INT32_MAX;
}

/* Few channels per group are depthwise convolutions as well, one launch each: an output channel (fwd) or an
   input channel (bwd_data), with a sum over those that are read, or a pair of them (bwd_weight). */
enum { CKCI_DEPTH_CHANNELS = 4 };

CKCI_FN int64_t ckci_depth_launches(const ckci_conv *p)
{
    return (p->op == CKCONV_BWD_DATA ? 1 : p->k) * (p->op == CKCONV_FWD ? 1 : p->c);
}

CKCI_FN void ckci_select_channel(ckci_tensor *t, int axis, int64_t at)
{
    t->p =
        (unsigned char *)((uintptr_t)t->p + (uintptr_t)(at * t->stride[axis] * (int64_t)ckci_size(t->dtype)));
    t->len[axis] = 1;
}

/* Launch i of them. */
CKCI_FN ckci_conv ckci_depth_part(const ckci_conv *p, int64_t i)
{
    ckci_conv one = *p;
    int64_t k = p->op == CKCONV_BWD_WEIGHT ? i / p->c : i, c = p->op == CKCONV_BWD_WEIGHT ? i % p->c : i;
    if (p->op != CKCONV_BWD_DATA) {
        ckci_select_channel(&one.t[CKCI_OUT], 2, k);
        ckci_select_channel(&one.t[CKCI_WEI], 1, k);
        one.k = 1;
    }
    if (p->op != CKCONV_FWD) {
        ckci_select_channel(&one.t[CKCI_IN], 2, c);
        ckci_select_channel(&one.t[CKCI_WEI], 2, c);
        one.c = 1;
    }
    for (int j = 0; j < p->num_d; j++) {
        if (p->op != CKCONV_BWD_DATA) {
            ckci_select_channel(&one.d[j], p->op == CKCONV_FWD ? 2 : 1, k);
        }
        if (p->op != CKCONV_FWD) {
            ckci_select_channel(&one.d[j], 2, c);
        }
    }
    return one;
}

/* Do others lie between the channels of t, as with several per group channels last? */
CKCI_FN int ckci_depth_apart(const ckci_tensor *t)
{
    return t->len[0] > 1 && t->stride[0] > 1 && t->stride[0] < t->stride[5];
}

/* What all depthwise plans share. *vec: channels of a load; *planes: lanes are positions. */
CKCI_FN ckconv_status ckci_depth_start(const ckci_conv *p, ckci_gpu_depth *k, int32_t *vec, int32_t *planes,
                                       ckconv_error *err)
{
    int weight = p->op == CKCONV_BWD_WEIGHT, back = p->op == CKCONV_BWD_DATA;
    memset(k, 0, sizeof *k);
    CKCI_TRY(ckci_gpu_takes(p, err));
    k->a = p->t[p->op == CKCONV_FWD ? CKCI_IN : CKCI_OUT];
    k->b = p->t[weight ? CKCI_IN : CKCI_WEI];
    k->o.t = p->t[ckci_written(p->op)];
    k->o.num_d = p->num_d;
    memcpy(k->o.d, p->d, sizeof k->o.d);
    ckconv_dtype type = k->a.dtype;
    int fits =
        k->a.plain && (type == CKCONV_F64 || type == CKCONV_F32 || type == CKCONV_F16 || type == CKCONV_BF16);
    if (!fits || (weight && (!k->b.plain || k->b.dtype != type))) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "depthwise reads f64, f32, f16 and bf16 tensors without an operation; here %s",
                         ckconv_dtype_name(type));
    }
    k->red = weight ? 1 : (int32_t)(back ? p->k : p->c);
    k->a_red = k->a.stride[2] * (int64_t)ckci_size(type);
    k->b_red = k->b.stride[back ? 1 : 2];
    k->phases = 1;
    for (int i = 0; i < 3; i++) {
        k->dim[i] = ckci_make_gpu_dim(p, i);
        k->phases *= k->dim[i].phases;
    }
    int rows = k->red == 1 && k->a.stride[5] == 1 && (!weight || k->b.stride[5] == 1) && type != CKCONV_F64 &&
               k->phases == 1 && p->stride[2] == 1 && p->dilation[2] == 1;
    int several = (back ? p->input[1] / p->stride[1] : p->output[1]) > 2;
    /* whole pieces of 4: those of the window, those that are written (dout for bwd_weight) */
    k->a_vec = ckci_vector_loads(weight ? &k->b : &k->a, 5, k->dim[2].read_len);
    k->o_vec = weight ? ckci_vector_loads(&k->a, 5, k->dim[2].length)
                      : k->o.t.dtype == type && ckci_vector_loads(&k->o.t, 5, k->dim[2].length);
    k->bf16 = type == CKCONV_BF16;
    k->full = !ckci_depth_common(k, weight);
    k->g = (int32_t)p->g;
    k->n = (int32_t)p->n;
    k->taps = (int32_t)(p->filter[0] * p->filter[1] * p->filter[2]);
    rows = rows && (weight || !k->full) && (weight || !several || (k->a_vec && k->o_vec));
    /* strips run along y in planes: not where there is only one row */
    *planes = k->a.stride[5] >= k->a.stride[0] && (p->g > 1 || !rows) ? CKCI_DEPTH_LAST
              : rows                                                  ? CKCI_DEPTH_ROWS
              : several                                               ? CKCI_DEPTH_PLANES
                                                                      : CKCI_DEPTH_LAST;
    k->planes = *planes == CKCI_DEPTH_PLANES;
    *vec = *planes == CKCI_DEPTH_LAST && type != CKCONV_F64 &&
                   (weight || (!k->full && k->red == 1 && !ckci_depth_apart(&k->o.t))) &&
                   ckci_depth_vector(&k->a, 4) && (!weight || ckci_depth_vector(&k->b, 4))
               ? 4
               : 1;
    if (*planes == CKCI_DEPTH_PLANES) {
        ckci_gpu_dim y = k->dim[1];
        k->dim[1] = k->dim[2];
        k->dim[2] = y;
        ckci_exchange_yx(&k->a);
        ckci_exchange_yx(&k->b);
        ckci_exchange_yx(&k->o.t);
        for (int i = 0; i < 4; i++) {
            ckci_exchange_yx(&k->o.d[i]);
        }
    }
    int64_t reach = 32 * ckci_saturating_mul(ckci_max(k->dim[2].dilation, k->dim[2].stride),
                                             8 * ckci_max(k->a.stride[5], weight ? k->b.stride[5] : 1));
    if (reach > INT32_MAX) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "depthwise takes windows of 2^31 bytes; here they reach over %lld", CKCI_LL(reach));
    }
    k->strips = (int32_t)ckci_ceil_div(k->dim[2].count[0].d, 8);
    return CKCONV_OK;
}

/* Columns of so many rows, and so many rounds of `lanes` columns for a block, that all compute units are done
   soon; two blocks at a time on each, `tiles` of them side by side for one round of columns. extra: what a
   block costs besides, in rows. */
CKCI_FN void ckci_depth_columns(ckci_gpu_depth *k, const ckconv_device *device, int32_t strip, int64_t tiles,
                                int64_t extra, int64_t *all)
{
    int64_t rows = k->dim[1].length, best = INT64_MAX, lanes = k->lanes_p;
    int64_t at_once = 2 * (int64_t)ckci_max(device->compute_units, 1), rounds = 1;
    k->strips = (int32_t)ckci_ceil_div(k->dim[2].length, strip);
    int64_t columns = (int64_t)k->n * k->dim[0].length * k->strips;
    for (int64_t pieces = 1; pieces <= ckci_max(ckci_min(rows / 4, 16), 1); pieces++) {
        int64_t walk = ckci_ceil_div(rows, pieces);
        int64_t parts = ckci_ceil_div(columns * ckci_ceil_div(rows, walk), lanes);
        /* those that fill all units once to four times; gather has one round */
        for (int64_t waves = 1; waves <= (extra ? 4 : 1); waves++) {
            int64_t some = extra ? ckci_ceil_div(ckci_saturating_mul(parts, tiles), waves * at_once) : 1;
            some = ckci_max(some, 1); /* an empty batch */
            int64_t blocks = ckci_saturating_mul(ckci_ceil_div(parts, some), tiles);
            /* up to two waves of blocks take as long as full ones; at the end, half a block's time is lost */
            int64_t full = ckci_ceil_div(blocks, at_once) * at_once, one = walk + k->dim[1].filter;
            int64_t time = ckci_saturating_mul(2 * (blocks > 2 * at_once ? blocks : full) + at_once, one + 7);
            if (extra) {
                time = ckci_saturating_mul(full, some * (one + 3) + 2 + extra);
            }
            if (time < best) {
                best = time;
                k->walk = (int32_t)walk;
                rounds = some;
            }
        }
    }
    k->tiles_x = (int32_t)ckci_ceil_div(rows, k->walk);
    k->part = (int32_t)(rounds * lanes);
    *all = columns * k->tiles_x;
}

/* Columns of those with two rows of inputs in registers. Short ones of stride 1 find the rows that they share
   with the next one in the caches (H100, f32, 56 x 56: 8 rows 183 us, 28 rows 197). All columns. */
CKCI_FN int64_t ckci_depth_short_columns(ckci_gpu_depth *k, int32_t strip)
{
    int32_t rows = k->dim[1].length, most = k->dim[1].stride == 1 ? 8 : 20;
    k->strips = (int32_t)ckci_ceil_div(k->dim[2].length, strip);
    k->walk = (int32_t)ckci_max(ckci_ceil_div(rows, ckci_ceil_div(rows, most)), 1);
    k->tiles_x = (int32_t)ckci_ceil_div(rows, k->walk);
    return (int64_t)k->n * k->dim[0].length * k->strips * k->tiles_x;
}

/* Which kernel: how taps lie, planes. */
CKCI_FN int32_t ckci_depth_kernel(const ckci_gpu_depth *k, int32_t down, int deep, int32_t columns,
                                  int32_t walks, int32_t weight, int32_t vec, int32_t planes)
{
    const ckci_gpu_dim *d = &k->dim[2];
    int32_t tap = d->read_tap < 0 ? -d->read_tap : d->read_tap;
    int32_t base = weight ? CKCI_DEPTH_WEIGHT : 0;
    if (deep) {
        return base + (weight ? CKCI_DEPTH_WEIGHT_DEEP : CKCI_DEPTH_DEEP);
    }
    if (down) {
        return base + (weight ? CKCI_DEPTH_WEIGHT_DOWN : 0) + (down - 3) / 2;
    }
    if (columns) {
        return CKCI_DEPTH_COLUMN;
    }
    if (walks) {
        int32_t first = planes ? CKCI_DEPTH_PLANE_WALK : weight ? CKCI_DEPTH_WALK : CKCI_DEPTH_WALK_3;
        return base + first + (walks - 3) / 2;
    }
    if (planes == CKCI_DEPTH_ROWS) {
        return base + CKCI_DEPTH_ROW;
    }
    int beside = tap == 1 && d->read_step == 1, second = tap == 1 && d->read_step == 2;
    if (weight) { /* those with a stride take 3 x 3 taps; single channels have no others */
        second = second && d->filter == 3 && k->dim[1].filter % 3 == 0;
        return base + (vec == 1 ? CKCI_DEPTH_1 + (second ? 0 : 1)
                                : CKCI_DEPTH_4 + (beside   ? 0
                                                  : second ? 1
                                                           : 2));
    }
    return base + (vec == 1 ? CKCI_DEPTH_1 : CKCI_DEPTH_4) + (k->full ? 2 : beside ? 0 : second ? 1 : 2);
}

CKCI_FN void ckci_depth_set(const ckci_gpu_depth *k, int32_t weight, int32_t which, ckci_launch *l)
{
    int32_t first = k->a.dtype == CKCONV_F32 ? CKCI_KERNEL_depth_f32_down_3 : CKCI_KERNEL_depth_half_down_3;
    ckci_set_kernel(l, k->a.dtype != CKCONV_F64 ? first + which
                       : weight                 ? CKCI_KERNEL_depth_weight_f64
                                                : CKCI_KERNEL_depth_f64);
}

/* Lanes for `vectors` of channels, `bytes` each: whole multiples of 64 bytes or all there are, which waste
   few threads, and whose weights fit LDS: `most` lanes with all taps, `limit` with one row of taps. Short
   filters take as many as fit; with longer ones (`few`) neighbouring windows should be in one block. */
CKCI_FN int32_t ckci_depth_lanes(int64_t vectors, int64_t bytes, int64_t most, int64_t limit, int64_t units,
                                 int few)
{
    double best = 0;
    int32_t lanes = 1;
    int64_t last = ckci_min(ckci_min(256, vectors), limit);
    for (int64_t j = 1; j <= last; j++) {
        int64_t i = few ? j : last + 1 - j, u = ckci_min(units, 256 / i), all = i * bytes;
        int64_t tiles = ckci_ceil_div(vectors, i) * ckci_ceil_div(units, u);
        double used = (double)(vectors * units) / (double)(tiles * i * u);
        used *= (double)(256 / (i * u) * i * u) / 256;
        used *= i > most ? 0.7 * (double)(limit / i) / (double)(limit / i + 1) : 1;
        used *= i == vectors             ? 1
                : all < 64               ? 0.7 * (double)all / 64
                : all % 64 != 0          ? 0.7
                : all < (few ? 64 : 256) ? 0.9
                                         : 1;
        used *= u < units ? 0.8 : 1;
        if (used > best * 1.02) {
            best = used;
            lanes = (int32_t)i;
        }
    }
    return lanes;
}

/* Bytes of a copy into LDS of lanes_c words of channels. */
CKCI_FN int32_t ckci_depth_copies(const ckci_gpu_depth *k, int32_t weight)
{
    int32_t size = (int32_t)ckci_size(k->a.dtype), bytes = 16;
    for (; bytes > size; bytes /= 2) {
        int64_t vec = bytes / size;
        if (k->lanes_c * 4 % bytes == 0 && ckci_depth_vector(&k->a, vec) &&
            (!weight || ckci_depth_vector(&k->b, vec))) {
            break;
        }
    }
    return bytes;
}

/* Strips that a block of those that take rows through LDS has side by side, and the positions of their rows.
   0: with so many channels not even one fits. */
CKCI_FN int32_t ckci_depth_down_side(const ckci_gpu_depth *k, int32_t strip, int32_t weight, int32_t room,
                                     int32_t *positions)
{
    int32_t f = k->dim[1].filter, strips = (int32_t)ckci_ceil_div(k->dim[2].length, strip);
    int32_t side = 256 / k->lanes_c;
    for (; side > 0; side--) {
        /* rows that the strips of a block pass through, but the first */
        int32_t over = strips % side == 0   ? 0
                       : side % strips == 0 ? side / strips - 1
                                            : (side - 2) / strips + 1;
        *positions = side * strip + (over + 1) * (f - 1) + (weight ? strips * strip - k->dim[2].length : 0);
        if (*positions <= CKCI_DEPTH_DOWN_POSITIONS && *positions * k->lanes_c * 4 <= room) {
            break;
        }
    }
    return side;
}

/* Outputs of a strip. Short ones take .7 of the time (H100; elsewhere for want of measurements) and leave
   fewer threads without a strip. */
CKCI_FN int32_t ckci_depth_down_strip(const ckci_gpu_depth *k, int32_t weight, int32_t room)
{
    int32_t f = k->dim[1].filter, size = (int32_t)ckci_size(k->a.dtype), few = CKCI_DEPTH_DOWN_SHORT;
    int32_t strip = CKCI_DEPTH_DOWN_STRIP(size, f, weight), positions;
    if (weight || size != 2 || f != 5) {
        return strip;
    }
    double turns = (double)ckci_ceil_div(k->dim[2].length, strip) /
                   ckci_depth_down_side(k, strip, weight, room, &positions),
           more = (double)ckci_ceil_div(k->dim[2].length, few) /
                  ckci_depth_down_side(k, few, weight, room, &positions);
    return .7 * more < turns ? few : strip;
}

/* Columns of those that take rows through LDS. Returns the outputs of a strip. */
CKCI_FN int32_t ckci_depth_down_columns(ckci_gpu_depth *k, const ckconv_device *device, int32_t weight)
{
    int32_t f = k->dim[1].filter, size = (int32_t)ckci_size(k->a.dtype), positions = 0;
    int64_t words = ckci_ceil_div(k->g, 4 / size);
    /* LDS: weights of fwd and bwd_data, where one strip of a row fits in any case; one of bwd_weight may not,
       as the last ones end past their rows */
    const int free = device->kind != CKCONV_DEVICE_NVIDIA && !weight && CKCI_DEPTH_DOWN_FREE(size, f);
    int32_t lanes = free || (weight && size == 2) ? 128 : CKCI_DEPTH_DOWN_LANES(f), strip = 0;
    const int32_t room = free ? CKCI_DEPTH_DOWN_MORE : CKCI_DEPTH_DOWN_BYTES;
    for (k->lanes_p = 0; k->lanes_p == 0; lanes /= 2) {
        k->lanes_c = ckci_depth_lanes(words, 4, 256, lanes, 1, 0);
        strip = ckci_depth_down_strip(k, weight, room);
        k->lanes_p = ckci_depth_down_side(k, strip, weight, room, &positions);
    }
    k->tiles_c = (int32_t)ckci_ceil_div(words, k->lanes_c);
    k->a_vec = ckci_depth_copies(k, weight);
    k->strips = (int32_t)ckci_ceil_div(k->dim[2].length, strip);
    k->pitch = k->strips * strip + f - 1;
    k->by_pieces = ckci_make_divisor(k->lanes_c * 4 / k->a_vec); /* of a position */
    k->pieces = positions * (k->lanes_c * 4 / k->a_vec);
    k->by_pitch = ckci_make_divisor(k->pitch);
    k->all =
        (int32_t)ckci_ceil_div((int64_t)k->n * k->dim[0].length * k->strips, k->lanes_p) * k->dim[1].length;
    return strip;
}

/* Rows of a block: those that run at once own equally many, or `split` share them. The result counts the
   blocks of lanes_c words of channels. */
CKCI_FN int64_t ckci_depth_down_share(ckci_gpu_depth *k, const ckconv_device *device, int64_t split)
{
    int64_t at_once = 2 * (int64_t)ckci_max(device->compute_units, 1);
    split = split ? split : ckci_min(ckci_max(at_once / k->tiles_c, 1), ckci_max(k->all / 4, 1));
    k->walk = (int32_t)ckci_max(ckci_ceil_div(k->all, split), 1);
    return ckci_ceil_div(k->all, k->walk);
}

/* Tiles of those that take planes through LDS, and pieces of planes. A step of a thread costs about 540
   instructions and six for each copy. */
CKCI_FN void ckci_depth_deep_tiles(ckci_gpu_depth *k, const ckconv_device *device, int32_t weight)
{
    int32_t size = (int32_t)ckci_size(k->a.dtype), strip = CKCI_DEPTH_DEEP_STRIP(size, weight);
    int64_t words = ckci_ceil_div(k->g, 4 / size), best = INT64_MAX;
    const int amd = device->kind != CKCONV_DEVICE_NVIDIA, lines = k->a.stride[5] * size % 64 == 0;
    int64_t lanes = CKCI_DEPTH_DEEP_LANES, room = amd ? CKCI_DEPTH_DEEP_ALONE(size) : CKCI_DEPTH_DEEP_BYTES;
    if (amd && !lines) {
        /* lines do not end with a position: blocks share few of them if they have all channels of many */
        lanes = CKCI_DEPTH_DEEP_MOST(size);
    }
    k->tiles_c = (int32_t)ckci_ceil_div(words, lanes);
    k->lanes_c = (int32_t)ckci_ceil_div(ckci_ceil_div(words, k->tiles_c), 4) * 4;
    k->lanes_c = amd && k->tiles_c == 1 ? (int32_t)words : k->lanes_c;
    k->a_vec = ckci_depth_copies(k, weight);
    int32_t slots = 256 / k->lanes_c;
    for (int32_t strips = 1; strips <= slots; strips++) {
        for (int32_t rows = 1; rows <= slots / strips; rows++) {
            int32_t positions = (rows + 2) * (strips * strip + 2);
            int64_t tiles = ckci_ceil_div(k->dim[1].length, rows) *
                            ckci_ceil_div(k->dim[2].length, (int64_t)strips * strip);
            int64_t time = tiles * (540 + positions * k->lanes_c * 4 / k->a_vec / 256 * 6);
            if (positions <= CKCI_DEPTH_DOWN_POSITIONS && positions * k->lanes_c * 4 <= room && time < best) {
                best = time;
                k->tile_y = rows;
                k->strips = strips;
            }
        }
    }
    k->lanes_p = k->tile_y * k->strips;
    k->pitch = k->strips * strip + 2;
    k->by_pitch = ckci_make_divisor(k->pitch);
    k->by_wide = ckci_make_divisor((int64_t)k->strips * strip);
    k->by_pieces = ckci_make_divisor(k->lanes_c * 4 / k->a_vec); /* of a position */
    k->pieces = (k->tile_y + 2) * k->pitch * (k->lanes_c * 4 / k->a_vec);
    k->tiles_y = (int32_t)ckci_ceil_div(k->dim[1].length, k->tile_y);
    k->tiles_x = (int32_t)ckci_ceil_div(k->dim[2].length, (int64_t)k->strips * strip);
    int64_t columns = (int64_t)k->n * k->tiles_y * k->tiles_x, planes = k->dim[0].length;
    int64_t at_once = 2 * (int64_t)ckci_max(device->compute_units, 1);
    best = INT64_MAX;
    for (int64_t pieces = 1; pieces <= ckci_max(ckci_min(planes / 4, 16), 1); pieces++) {
        int64_t walk = ckci_ceil_div(planes, pieces), all = columns * ckci_ceil_div(planes, walk);
        int64_t blocks = ckci_saturating_mul(all, k->tiles_c);
        /* up to two waves of blocks take as long as full ones; at the end, half a block's time is lost */
        int64_t full = ckci_ceil_div(blocks, at_once) * at_once;
        int64_t time =
            ckci_saturating_mul(2 * (blocks > 2 * at_once && !weight ? blocks : full) + at_once, walk + 3);
        if (time < best) {
            best = time;
            k->walk = (int32_t)ckci_max(walk, 1);
            k->all = (int32_t)all;
        }
    }
    k->tiles_z = (int32_t)ckci_ceil_div(planes, k->walk);
    k->by_tiles_y = ckci_make_divisor(k->tiles_y);
    k->by_tiles_z = ckci_make_divisor(k->tiles_z);
}

/* AMD: which threads of those that take rows or planes through LDS have which channels
   (kernels.direct.hip.h, ckci_k_depth_slot): a strip has whole multiples of 32, with some that have none,
   or as many as fit, and the rest follows. */
CKCI_FN void ckci_depth_stretches(ckci_gpu_depth *k)
{
    int32_t whole = k->lanes_c / 32 * 32, rest = k->lanes_c - whole, padded = rest > 0 ? whole + 32 : whole;
    if (k->lanes_p * padded <= 256) {
        whole = padded;
        rest = 0;
    } else if (whole == 0) {
        whole = rest;
        rest = 0;
    }
    k->whole = rest > 0 ? whole * k->lanes_p : 256;
    k->by_whole = ckci_make_divisor(whole);
    k->by_rest = ckci_make_divisor(ckci_max(rest, 1));
}

/* Memory and arithmetic together, in multiply-adds of a compute unit: ten for a byte, of whole sectors. */
CKCI_FN double ckci_depth_cost(const ckci_conv *p, const ckconv_device *device, double rate)
{
    double products = (double)ckci_count(&p->t[CKCI_OUT]) * (double)p->c, bytes = 0;
    for (int i = 0; i < 3; i++) {
        products *= (double)p->filter[i];
        double size = (double)ckci_size(p->t[i].dtype);
        double apart = ckci_depth_apart(&p->t[i]) ? (double)p->t[i].stride[0] / (double)p->t[i].len[2] : 1;
        bytes += (double)ckci_count(&p->t[i]) * (apart * size < 32 ? apart * size : 32);
    }
    return (products * rate + bytes * 10) / (double)ckci_max(device->compute_units, 1) / 16 + 500;
}

CKCI_FN void ckci_depth_divisors(ckci_gpu_depth *k)
{
    k->by_lanes_c = ckci_make_divisor(k->lanes_c);
    k->by_lanes_u = ckci_make_divisor(k->lanes_u);
    k->by_phases = ckci_make_divisor(k->phases);
    k->by_tiles_c = ckci_make_divisor(k->tiles_c);
    k->by_tiles_x = ckci_make_divisor(k->tiles_x);
    k->by_tiles_u = ckci_make_divisor(k->tiles_u);
    k->by_strips = ckci_make_divisor(k->strips);
    k->by_groups_x = ckci_make_divisor(k->groups_x);
}

/* All strips, and lanes along x for planes. */
CKCI_FN ckconv_status ckci_depth_strips(ckci_gpu_depth *k, int32_t planes, int64_t *all, ckconv_error *err)
{
    int64_t wide = k->dim[1].count[0].d;
    int lanes = planes == CKCI_DEPTH_PLANES;
    k->tiles_x = (int32_t)(lanes ? ckci_ceil_div(wide, 256) : 1);
    k->lanes_c = (int32_t)(lanes ? ckci_max(ckci_ceil_div(wide, k->tiles_x), 1) : 1);
    *all = ckci_saturating_mul(ckci_saturating_mul(k->n, k->dim[0].count[0].d),
                               ckci_saturating_mul(lanes ? k->tiles_x : wide, k->strips));
    return *all <= INT32_MAX / 4
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                           "depthwise takes 2^29 strips of 8 positions; here %lld", CKCI_LL(*all));
}

/* Are the planes of t, all rows of them, one behind the other in memory? */
CKCI_FN int ckci_depth_dense_planes(const ckci_tensor *t)
{
    int64_t row = t->len[5], plane = row * t->len[4];
    return t->stride[5] == 1 && (t->len[4] == 1 || t->stride[4] == row) && t->len[3] == 1 &&
           (t->len[0] == 1 || t->stride[0] == plane) &&
           (t->len[1] == 1 || t->stride[1] == plane * t->len[0]) && ckci_span(t) <= INT32_MAX;
}

/* Bytes from thread to thread of what is read, written (dout). back: of stride 2. */
CKCI_FN int64_t ckci_depth_sheet_step(int64_t size, int64_t stride, int back, int weight, int written)
{
    int64_t columns = CKCI_DEPTH_SHEET_COLUMNS(size, stride, back, weight);
    return (written ? columns : back ? 1 : columns * stride) * size;
}

/* Room for a plane of `bytes` bytes: the threads of the next one, `step` bytes apart, go on in the banks of
   LDS, which are 128 bytes, where those of this one end. */
CKCI_FN int64_t ckci_depth_sheet_spread(int64_t bytes, int64_t step, int64_t wide)
{
    int64_t room = ckci_ceil_div(bytes, 16) * 16, more = ((step * wide - room) % 128 + 128) % 128;
    return room + ckci_ceil_div(more, 16) * 16 % 128;
}

/* Threads for a plane whose columns take `wide`: those of the next one can go on where they end if a multiple
   of 16 bytes is between them, which is worth an eighth of the threads. */
CKCI_FN int64_t ckci_depth_sheet_wide(int64_t wide, int64_t step)
{
    int64_t threads = CKCI_DEPTH_SHEET_THREADS, unit = ckci_max(16 / step, 1);
    int64_t more = ckci_ceil_div(wide, unit) * unit;
    return more <= threads && threads / more * 8 >= threads / wide * 7 ? more : wide;
}

/* Lays out LDS for `count` planes, `high` rows of each that are written (of dout), if it is large enough; the
   bytes that it takes. */
CKCI_FN int64_t ckci_depth_sheet_lay(ckci_gpu_depth_sheet *s, int64_t size, int64_t filter, int64_t stride,
                                     int back, int weight, int64_t count, int64_t high, int64_t bands)
{
    int64_t rows = bands == 1 ? s->in[0] : back ? (high + filter - 1) / 2 + 2 : (high - 1) * stride + filter;
    int64_t a_plane = size * s->in[0] * s->in[1], o_plane = size * s->out[0] * s->out[1];
    int64_t a = ckci_min(rows, s->in[0]) * s->in[1] * size, o = high * s->out[1] * size;
    if (s->slack < 0) {
        a = ckci_depth_sheet_spread(a, ckci_depth_sheet_step(size, stride, back, weight, 0), s->by_wide.d);
        o = ckci_depth_sheet_spread(o, ckci_depth_sheet_step(size, stride, back, weight, 1), s->by_wide.d);
    } else if (bands > 1) { /* they lie as in memory modulo 16, and what begins and ends with them has room */
        a += s->slack + ((a_plane - a - s->slack) % 16 + 16) % 16;
        o += s->slack + ((o_plane - o - s->slack) % 16 + 16) % 16;
    }
    /* windows begin and end up to 32 bytes before and after rows; those begin up to 15 bytes later */
    int64_t o_at = 80 + ckci_ceil_div(count * a, 16) * 16,
            w_at = o_at + 16 + ckci_ceil_div(count * o, 16) * 16;
    int64_t bytes = w_at + (weight ? 16 : count * filter * filter * 4);
    if (bytes <= CKCI_DEPTH_SHEET_BYTES) {
        s->count = (int32_t)count;
        s->high = (int32_t)high;
        s->bands = (int32_t)bands;
        s->a_room = (int32_t)a;
        s->o_room = (int32_t)o;
        s->o_at = (int32_t)o_at;
        s->w_at = (int32_t)w_at;
    }
    return bytes;
}

/* How many planes and rows a block takes: as many planes as there are threads for, `wide` to a plane. Bands
   cost rows that are read, and walked, twice. 0: one row of a plane is too large. */
CKCI_FN int ckci_depth_sheet_bands(ckci_gpu_depth_sheet *s, const ckconv_device *device, int64_t size,
                                   int64_t f, int64_t stride, int back, int weight, int64_t wide, int64_t n)
{
    double best = 0, units = (double)ckci_max(device->compute_units, 1);
    const int64_t threads = CKCI_DEPTH_SHEET_THREADS;
    int64_t bands = 0, planes = 0, most = ckci_max(ckci_min(threads / wide, s->planes), 1);
    for (int64_t b = 1; b <= 32 && b <= s->out[0]; b++) {
        int64_t high = ckci_ceil_div(s->out[0], b), count = most;
        int64_t bytes = ckci_depth_sheet_lay(s, size, f, stride, back, weight, count, high, b);
        if (bytes > CKCI_DEPTH_SHEET_BYTES) {
            count = count * (CKCI_DEPTH_SHEET_BYTES - 128) / bytes; /* 128: all but planes and weights */
        }
        if (count == 0 ||
            ckci_depth_sheet_lay(s, size, f, stride, back, weight, count, high, b) > CKCI_DEPTH_SHEET_BYTES) {
            continue;
        }
        double full = (double)(ckci_ceil_div(s->planes, count) * b * n) / (4 * units);
        double busy = (double)(count * ckci_min(wide, threads)) / (double)threads;
        double score = (double)high / (double)(high + (f - 1) / stride);
        score *= (busy < 0.67 ? 1.5 * busy : 1) * (full < 1 ? full : 1);
        if (score > best * 1.02) {
            best = score;
            bands = b;
            planes = count;
        }
    }
    if (bands > 0) {
        ckci_depth_sheet_lay(s, size, f, stride, back, weight, planes, ckci_ceil_div(s->out[0], bands),
                             bands);
    }
    return bands > 0;
}

/* Aligned pieces of 16 bytes that hold what lies together in memory, planes or a band; of planes that are
   spread pieces of LDS, for threads that follow each other use different banks here, too. bits: those of the
   tensors' addresses; apart: planes from image to image. */
CKCI_FN ckci_divisor ckci_depth_sheet_pieces(const ckci_gpu_depth_sheet *s, const int32_t *plane,
                                             int64_t room, int64_t size, int64_t apart, uintptr_t bits)
{
    if (s->slack < 0) {
        return ckci_make_divisor(room / 16);
    }
    int64_t row = plane[1] * size, bytes = s->bands == 1 ? s->count * row * plane[0] : room;
    bits |= s->bands == 1 ? (uintptr_t)bytes | (uintptr_t)(apart * row * plane[0]) : (uintptr_t)row;
    return ckci_make_divisor(ckci_ceil_div(bytes, 16) + (bits % 16 != 0));
}

/* Sheets, if there is a kernel for them: its place among those of its kind, else -1. */
CKCI_FN int32_t ckci_depth_sheets(const ckci_conv *p, const ckconv_device *device, ckci_gpu_depth *k)
{
    int weight = p->op == CKCONV_BWD_WEIGHT, back = p->op == CKCONV_BWD_DATA;
    ckci_gpu_depth_sheet *s = &k->sheet;
    int64_t f = p->filter[2], stride = p->stride[2], size = (int64_t)ckci_size(k->a.dtype);
    const ckci_tensor *read = &p->t[back ? CKCI_OUT : CKCI_IN], *written = &p->t[back ? CKCI_IN : CKCI_OUT];
    int fits = k->a.dtype != CKCONV_F64 && !k->full && p->filter[1] == f && p->stride[1] == stride &&
               (f == 3 || f == 5 || (f == 7 && stride == 1)) && stride <= 2 && p->filter[0] == 1 &&
               p->pad[0] == 0 && p->dilation[1] == 1 && p->dilation[2] == 1;
    fits =
        fits && (weight || (k->o.t.dtype == k->a.dtype && k->o.t.op.kind == CKCONV_PASS && k->o.num_d == 0));
    fits = fits && ckci_depth_dense_planes(read) && ckci_depth_dense_planes(written) && p->g > 1;
    /* on an H100 bwd_weight that walks was faster where rows are aligned (f16 3 x 3 of 56: 130 us, here 148;
       5 x 5 of 28: 89, here 98), but for f32 5 x 5 (184, here 118); so were all passes of 7 x 7 of many rows
       (f16 fwd of 64 x 64: 132, of 61 x 61 here 171; but 16 x 16: 176, of 13 x 13 here 159) */
    fits = fits && !((weight || f == 7) && k->a_vec && k->o_vec && (size == 2 || f != 5) &&
                     !(f == 7 && p->output[1] < 24) && ckci_depth_walks(k, device, weight, CKCI_DEPTH_ROWS));
    /* windows end near their row: what they read past it is in LDS, too */
    for (int i = 1; i < 3; i++) {
        fits = fits && (p->output[i] - 1) * stride - p->pad[i] < p->input[i];
    }
    if (!fits) {
        return -1;
    }
    memset(s, 0, sizeof *s);
    int back_2 = back && stride == 2;
    for (int i = 0; i < 2; i++) {
        s->in[i] = (int32_t)read->len[4 + i];
        s->out[i] = (int32_t)written->len[4 + i];
        s->pad[i] = (int32_t)(back && stride == 1 ? f - 1 - p->pad[1 + i] : p->pad[1 + i]);
        fits = fits && s->pad[i] >= 0 && s->pad[i] < f && s->pad[i] <= 4 && s->in[i] > 0 && s->out[i] > 0;
    }
    int64_t columns = CKCI_DEPTH_SHEET_COLUMNS(size, stride, back_2, weight), pad_x = s->pad[1];
    /* of the gradient of stride 2: both phases */
    int64_t wide = back_2 ? (s->out[1] - 1 + pad_x) / 2 - pad_x / 2 + 1 : ckci_ceil_div(s->out[1], columns);
    int64_t planes = ckci_saturating_mul(p->g, weight ? 1 : p->n);
    if (!fits || planes > INT32_MAX / 2 || planes == 0 || (weight && wide > CKCI_DEPTH_SHEET_THREADS) ||
        p->n == 0) {
        return -1;
    }
    s->planes = (int32_t)planes;
    uintptr_t bits = (uintptr_t)read->p | (uintptr_t)written->p;
    s->slack = (bits | (uintptr_t)(s->in[1] * size) | (uintptr_t)(s->out[1] * size)) % 16 == 0 ? 0 : 32;
    if (device->kind == CKCONV_DEVICE_AMD) {
        s->slack = -1;
        for (int i = 0; i < 2; i++) {
            wide = ckci_depth_sheet_wide(wide, ckci_depth_sheet_step(size, stride, back_2, weight, i));
        }
    }
    s->by_wide = ckci_make_divisor(wide);
    if (!ckci_depth_sheet_bands(s, device, size, f, stride, back_2, weight, wide, weight ? p->n : 1)) {
        return -1;
    }
    s->bands = (int32_t)ckci_ceil_div(s->out[0], s->high); /* the last ones may be none */
    s->pairs = stride == 1 && s->in[1] % 2 == 0 && s->out[1] % 2 == 0 && s->pad[1] % 2 == (f - 1) / 2 % 2 &&
               (s->slack < 0 || bits % (uintptr_t)(2 * size) == 0);
    s->by_bands = ckci_make_divisor(s->bands);
    s->by_g = ckci_make_divisor(p->g);
    int64_t apart = weight && p->n > 1 ? p->g : 0; /* images begin anywhere */
    s->by_a = ckci_depth_sheet_pieces(s, s->in, s->a_room, size, apart, bits);
    s->by_o = ckci_depth_sheet_pieces(s, s->out, s->o_room, size, apart, bits);
    return f == 7 ? weight ? 4 : 6 : (int32_t)(stride == 1 ? 0 : back ? 4 : 2) + (int32_t)(f - 3) / 2;
}

/* Undoes what ckci_depth_start does for planes: sheets have y before x. */
CKCI_FN void ckci_depth_as_written(const ckci_conv *p, ckci_gpu_depth *k)
{
    if (k->planes) {
        ckci_exchange_yx(&k->a);
        ckci_exchange_yx(&k->b);
        ckci_exchange_yx(&k->o.t);
        k->dim[1] = ckci_make_gpu_dim(p, 1);
        k->dim[2] = ckci_make_gpu_dim(p, 2);
    }
}

/* Stores without an epilogue, and several together. */
CKCI_FN void ckci_depth_stores(ckci_gpu_depth *k, int32_t vec, int32_t planes)
{
    int together = planes == CKCI_DEPTH_ROWS ? k->o_vec : vec == 1 || ckci_depth_vector(&k->o.t, vec);
    k->o_same =
        k->o.t.dtype == k->a.dtype && k->o.t.op.kind == CKCONV_PASS && (vec == 1 || k->o.t.stride[0] == 1);
    k->o_vec = k->o_same && together;
}

CKCI_FN ckconv_status ckci_depth_gather(const ckci_conv *p, const ckconv_device *device, ckci_launch *l,
                                        double *cost, ckconv_error *err)
{
    ckci_gpu_depth *k = &l->a.depth;
    int32_t vec, planes;
    int64_t all, size = p->t[p->op == CKCONV_BWD_DATA ? CKCI_OUT : CKCI_IN].dtype == CKCONV_F64 ? 8 : 4;
    CKCI_TRY(ckci_depth_start(p, k, &vec, &planes, err));
    int single = k->red > 1 || (planes == CKCI_DEPTH_LAST && ckci_depth_apart(&k->o.t));
    int32_t sheet = planes == CKCI_DEPTH_LAST || k->red > 1 ? -1 : ckci_depth_sheets(p, device, k);
    if (sheet >= 0) {
        ckci_depth_as_written(p, k);
        ckci_depth_set(k, 0, CKCI_DEPTH_SHEET + sheet, l);
        l->grid = ckci_saturating_mul(ckci_ceil_div(k->sheet.planes, k->sheet.count), k->sheet.bands);
        *cost = ckci_depth_cost(p, device, 1);
        return ckci_too_many_blocks(l->grid, err);
    }
    CKCI_TRY(ckci_depth_strips(k, planes, &all, err));
    int64_t room = 16384 / size, row = k->dim[2].filter;
    if (row + 6 > room) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "depthwise takes %lld taps of a row; here %lld",
                         CKCI_LL(room - 6), CKCI_LL(row));
    }
    int32_t down = single ? 0 : ckci_depth_downs(k, device, 0, planes), half = k->a.dtype != CKCONV_F32;
    int deep = !single && ckci_depth_deeps(k, device, 0, planes), through = down || deep;
    int columns = !through && ckci_depth_takes_columns(k, vec, planes);
    int32_t walks = through || columns || single ? 0 : ckci_depth_walks(k, device, 0, planes), strip = 0;
    if (columns) {
        vec = half ? 4 : 2;
    }
    if (walks) {
        vec = planes ? 1 : half ? 4 : 2;
        k->a_vec = ckci_depth_pieces(&k->a, planes, vec, k->a_vec);
    }
    if (through) {
        vec = half ? 2 : 1;
    } else if (!planes) {
        int64_t most = room / ((int64_t)k->taps * k->red * vec);
        k->lanes_c = ckci_depth_lanes(ckci_ceil_div(p->g, vec), vec * (int64_t)ckci_size(k->a.dtype), most,
                                      walks || columns ? most : room / (row * vec), 1, k->dim[2].filter >= 5);
    }
    k->lanes_u = k->tiles_u = k->groups_x = 1;
    k->row_taps = (int32_t)(row + 6) / 4 * 4;
    if (deep) {
        ckci_depth_deep_tiles(k, device, 0);
        all = k->all;
    } else if (down) {
        strip = ckci_depth_down_columns(k, device, 0);
        all = ckci_depth_down_share(k, device, 0);
    } else {
        k->lanes_p = 256 / k->lanes_c;
        k->tiles_c = (int32_t)(planes ? p->g : ckci_ceil_div(p->g, (int64_t)k->lanes_c * vec));
    }
    if (walks) {
        ckci_depth_columns(k, device, planes && walks != 7 ? 8 : 4, k->tiles_c, 0, &all);
    }
    if (columns) {
        all = ckci_depth_short_columns(k, half ? 3 : 4);
    }
    int rowwise = planes == CKCI_DEPTH_ROWS && !walks;
    k->rows = (int32_t)(room / (rowwise ? k->row_taps : planes ? row : row * k->lanes_c * vec));
    /* sixteen blocks for each compute unit, each with whole rounds of strips */
    int64_t want = ckci_ceil_div(16 * (int64_t)ckci_max(device->compute_units, 1),
                                 ckci_saturating_mul(k->tiles_c, k->phases));
    int64_t part = ckci_ceil_div(ckci_ceil_div(all, want), k->lanes_p) * k->lanes_p;
    k->part = through ? 1 : walks || columns ? k->lanes_p : (int32_t)ckci_max(part, 1);
    k->parts = (int32_t)ckci_ceil_div(all, k->part);
    ckci_depth_divisors(k);
    ckci_depth_stretches(k);
    k->by_channels = ckci_make_divisor(rowwise ? k->row_taps : k->planes ? 1 : (int64_t)k->lanes_c * vec);
    ckci_depth_stores(k, vec, planes);
    ckci_depth_set(k, 0, ckci_depth_kernel(k, down, deep, columns, walks, 0, vec, planes), l);
    if (strip == CKCI_DEPTH_DOWN_SHORT) {
        ckci_set_kernel(l, CKCI_KERNEL_depth_half_down_5_short);
    } else if (columns && k->dim[2].stride == 1) {
        ckci_set_kernel(l, CKCI_KERNEL_depth_f32_column_3);
    }
    l->grid = ckci_saturating_mul(ckci_saturating_mul(k->parts, k->tiles_c), k->phases);
    *cost = ckci_depth_cost(p, device, vec == 1 && !through ? 3 : 1.5);
    return ckci_too_many_blocks(l->grid, err);
}

/* Two channels with stride 2 (NVIDIA): rows of the columns that threads walk down, so that the longest way is
   short, each column beginning with a row of inputs more; two blocks to a compute unit. All columns. */
CKCI_FN int64_t ckci_depth_second_columns(ckci_gpu_depth *k, const ckconv_device *device)
{
    int64_t blocks = 2 * ckci_max(device->compute_units, 1) / ckci_saturating_mul(k->tiles_c, k->tiles_u);
    int64_t beside = ckci_saturating_mul(ckci_saturating_mul(k->n, k->dim[0].length), k->strips), all = 0;
    int64_t slots = ckci_max(blocks, 1) * k->lanes_p;
    double best = 1e30;
    for (int32_t walk = 7; walk <= 16; walk++) {
        int64_t high = ckci_ceil_div(k->dim[1].length, walk), columns = ckci_saturating_mul(beside, high);
        double cost =
            (double)ckci_ceil_div(columns, slots) * ((double)ckci_min(walk, k->dim[1].length) + 1.5);
        if (cost < best) {
            best = cost;
            all = columns;
            k->walk = walk;
            k->tiles_x = (int32_t)ckci_max(high, 1);
        }
    }
    return all;
}

/* What a thread of bwd_weight takes: taps, groups of taps side by side, places of the reduction. through:
   rows, planes or sheets come through LDS. *vec and *all (strips) are as ckci_depth_start and
   ckci_depth_strips set them, or become what suits the kernel. */
CKCI_FN ckconv_status ckci_depth_weight_lanes(const ckci_conv *p, const ckconv_device *device,
                                              ckci_gpu_depth *k, int32_t kind, int32_t planes, int32_t walks,
                                              int through, int deep, int32_t *vec, int64_t *all,
                                              ckconv_error *err)
{
    int wide = k->a.dtype != CKCONV_F64, narrow = k->a.dtype == CKCONV_F32;
    int three = wide && (kind == CKCI_DEPTH_4 + 1 || kind == CKCI_DEPTH_1);
    int64_t taps = three ? 3 : wide && kind == CKCI_DEPTH_4 ? 8 : 1; /* of a thread, along dimension 2 */
    if (wide && kind == CKCI_DEPTH_4 + 1) {                          /* strips of 4, loads of 2 */
        *vec = 2;
        k->strips = (int32_t)ckci_ceil_div(k->dim[2].length, 4);
        CKCI_TRY(ckci_depth_strips(k, planes, all, err));
    }
    if (walks) {
        *vec = planes || (walks > 3 && narrow) ? 1 : 2;
        /* planes: the last strip ends with the row of dout, and its window begins as that is aligned */
        int32_t length = planes ? k->dim[2].length : 4;
        k->a_vec = ckci_depth_pieces(&k->b, planes, *vec, k->a_vec && length % 4 == 0);
        k->a_vec = length % 2 == 0 || narrow ? k->a_vec : 0;
        k->o_vec = ckci_depth_pieces(&k->a, planes, *vec, k->o_vec);
    }
    int rowwise = planes == CKCI_DEPTH_ROWS && !walks;
    k->groups_x = (int32_t)(walks || through ? 1 : ckci_ceil_div(k->dim[2].filter, taps));
    if (rowwise) { /* places are counted from an aligned one on */
        k->groups_x = (int32_t)ckci_ceil_div((-p->pad[2] & 3) + p->filter[2], 8);
    }
    int64_t rows_y = walks || through ? 1 : ckci_ceil_div(k->dim[1].filter, three ? 3 : 1);
    k->by_rows_y = ckci_make_divisor(rows_y);
    k->units = (int32_t)((deep ? 1 : k->dim[0].filter) * rows_y * k->groups_x);
    if (!planes) {
        k->lanes_c = ckci_depth_lanes(ckci_ceil_div(p->g, *vec), *vec * (int64_t)ckci_size(k->a.dtype), 256,
                                      256, k->units, 0);
    }
    k->lanes_u = (int32_t)ckci_min(k->units, 256 / k->lanes_c);
    k->lanes_p = 256 / (k->lanes_c * k->lanes_u);
    if (rowwise) {
        k->lanes_u = (int32_t)ckci_min(k->units, 8);
        k->lanes_c = 256 / k->lanes_u;
        k->lanes_p = 1;
    }
    k->tiles_u = (int32_t)ckci_ceil_div(k->units, k->lanes_u);
    k->tiles_c = (int32_t)(planes ? p->g : ckci_ceil_div(p->g, (int64_t)k->lanes_c * *vec));
    if (wide && kind == CKCI_DEPTH_4 + 1 && device->kind == CKCONV_DEVICE_NVIDIA) {
        *all = ckci_depth_second_columns(k, device);
    }
    return CKCONV_OK;
}

/* Parts of the reduction where rows, planes (deep) or sheets come through LDS. split: 0 or what was asked
   for; most: what fits into the workspace. */
CKCI_FN int64_t ckci_depth_weight_parts(const ckci_conv *p, const ckconv_device *device, ckci_gpu_depth *k,
                                        int deep, int32_t sheet, int64_t split, int64_t most, ckci_launch *l)
{
    int64_t units = ckci_max(device->compute_units, 1);
    if (sheet >= 0) {
        ckci_depth_as_written(p, k);
        ckci_depth_set(k, 1, CKCI_DEPTH_WEIGHT + CKCI_DEPTH_WEIGHT_SHEET + sheet, l);
        k->lanes_c = k->sheet.count;
        k->lanes_p = (int32_t)k->sheet.by_wide.d;
        k->lanes_u = k->tiles_u = k->units = 1;
        k->tiles_c = (int32_t)ckci_ceil_div(p->g, k->sheet.count);
        k->all = (int32_t)(p->n * k->sheet.bands);
        /* seven blocks for each compute unit, which read while others multiply */
        split = split ? split : ckci_min(ckci_ceil_div(7 * units, k->tiles_c), most);
        split = ckci_max(ckci_min(split, k->all), 1);
        return ckci_max(ckci_ceil_div(k->all, ckci_ceil_div(k->all, split)), 1);
    }
    if (deep) {
        ckci_depth_deep_tiles(k, device, 1);
        split = split ? split : ckci_min(ckci_max(2 * units / k->tiles_c, 1), most);
        return ckci_max(ckci_min(split, k->all), 1);
    }
    (void)ckci_depth_down_columns(k, device, 1);
    split = split ? split : ckci_min(ckci_depth_down_share(k, device, 0), most);
    return ckci_max(ckci_depth_down_share(k, device, ckci_min(split, k->all)), 1);
}

/* Parts of the others; all: strips. */
CKCI_FN int64_t ckci_depth_weight_split(const ckconv_device *device, ckci_gpu_depth *k, int32_t planes,
                                        int32_t walks, int64_t all, int64_t split, int64_t most)
{
    int64_t tiles = ckci_saturating_mul(k->tiles_c, k->tiles_u);
    if (walks) {
        int wide_strip = planes ? walks != 7 : walks == 3 && k->a.dtype != CKCONV_F32;
        ckci_depth_columns(k, device, wide_strip ? 8 : 4, tiles, 12, &all);
        split = split ? split : ckci_min(ckci_ceil_div(all, k->part), most);
    }
    if (split == 0) {
        const int columns = k->walk > 0 && !walks; /* stride 2 */
        split = ckci_min(ckci_ceil_div((columns ? 2 : 4) * ckci_max(device->compute_units, 1), tiles),
                         all / ((int64_t)k->lanes_p * (planes == CKCI_DEPTH_ROWS ? k->lanes_c
                                                       : columns                 ? 1
                                                                                 : 4)));
        split = ckci_min(ckci_min(split, most), 4096);
    }
    k->part = (int32_t)ckci_max(ckci_ceil_div(all, ckci_max(ckci_min(split, all), 1)), 1);
    if (walks) {
        k->part = (int32_t)ckci_ceil_div(k->part, k->lanes_p) * k->lanes_p;
    }
    return ckci_max(ckci_ceil_div(all, k->part), 1);
}

/* Strips of eight positions that a row does not fill, rows above and below: H100, f16, 3 x 3, 128
   channels, all of 2^18 positions: 16 x 16 71 us, 17 x 17 98, 13 x 13 81, 3 x 80 83. */
CKCI_FN double ckci_depth_waste(const ckci_gpu_depth *k)
{
    double length = (double)ckci_max(k->dim[2].length, 1), high = (double)ckci_max(k->dim[1].length, 1);
    return (double)ckci_ceil_div(k->dim[2].length, 8) * 8 / length * (1 + 0.2 / high);
}

/* Products that a thread adds to one sum one after the other, once the parts are known; 1: that kernel takes
   long sums in stretches. which: of those that read no rows, planes or sheets through LDS. */
CKCI_FN int64_t ckci_depth_weight_chain(const ckci_gpu_depth *k, int32_t which, int down, int deep,
                                        int32_t sheet, int32_t walks)
{
    int32_t size = (int32_t)ckci_size(k->a.dtype);
    if (sheet >= 0) {
        int64_t columns = CKCI_DEPTH_SHEET_COLUMNS(size, sheet == 2 || sheet == 3 ? 2 : 1, 0, 1);
        return columns * k->sheet.high * ckci_ceil_div(k->all, k->parts);
    }
    if (deep) {
        return (int64_t)CKCI_DEPTH_DEEP_STRIP(size, 1) * k->walk * ckci_ceil_div(k->all, k->parts);
    }
    if (down) {
        return (int64_t)CKCI_DEPTH_DOWN_STRIP(size, k->dim[1].filter, 1) * k->walk;
    }
    int64_t strip = ckci_saturating_mul(8, ckci_max(k->walk, 1));
    int stretches = !walks && (k->a.dtype == CKCONV_F64 || which == CKCI_DEPTH_ROW ||
                               which == CKCI_DEPTH_4 + 2 || which == CKCI_DEPTH_1 + 1);
    return stretches ? 1 : ckci_saturating_mul(strip, ckci_ceil_div(k->part, k->lanes_p));
}

/* bwd_weight. split_k and limit as in ckci_gpu_weight; sums lie in workspace as [part][tap][channel].
   lasting: with a kernel that takes sums of any length. *chain: see ckci_depth_weight_chain. */
CKCI_FN ckconv_status ckci_depth_weight_by(const ckci_conv *p, const ckconv_device *device, int lasting,
                                           int64_t split_k, int64_t limit, ckci_launch *l, int64_t *bytes,
                                           double *cost, int64_t *chain, ckconv_error *err)
{
    ckci_gpu_depth *k = &l->a.depth;
    int32_t vec, planes;
    int64_t all, units = ckci_max(device->compute_units, 1);
    CKCI_TRY(ckci_depth_start(p, k, &vec, &planes, err));
    int32_t sheet = planes == CKCI_DEPTH_LAST || lasting ? -1 : ckci_depth_sheets(p, device, k);
    CKCI_TRY(ckci_depth_strips(k, planes, &all, err));
    int32_t down = lasting ? 0 : ckci_depth_downs(k, device, 1, planes);
    int deep = !lasting && ckci_depth_deeps(k, device, 1, planes), through = down || deep || sheet >= 0;
    int32_t walks = through || lasting ? 0 : ckci_depth_walks(k, device, 1, planes);
    int32_t which = ckci_depth_kernel(k, down, deep, 0, walks, 1, vec, planes);
    if (lasting && planes != CKCI_DEPTH_ROWS) {
        which = CKCI_DEPTH_WEIGHT + (vec == 1 ? CKCI_DEPTH_1 + 1 : CKCI_DEPTH_4 + 2);
    }
    ckci_depth_set(k, 1, which, l);
    which -= CKCI_DEPTH_WEIGHT;
    CKCI_TRY(ckci_depth_weight_lanes(p, device, k, which, planes, walks, through, deep, &vec, &all, err));
    int64_t one = ckci_saturating_mul(ckci_saturating_mul(k->taps, k->g), k->a.dtype == CKCONV_F64 ? 8 : 4);
    int64_t most = limit / ckci_max(one, 1);
    if (through) {
        k->parts = (int32_t)ckci_depth_weight_parts(p, device, k, deep, sheet, split_k, ckci_max(most, 1), l);
    } else {
        k->parts = (int32_t)ckci_depth_weight_split(device, k, planes, walks, all, split_k, most);
    }
    k->sums = k->parts > 1 || k->full;
    *bytes = k->sums ? ckci_saturating_mul(k->parts, one) : 0;
    CKCI_TRY(ckci_sums_fit(split_k, *bytes, limit, err));
    if (k->sums && one > INT32_MAX) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: 2^29 - 1 weights can be split",
                         (int)split_k);
    }
    *chain = ckci_depth_weight_chain(k, which, down, deep, sheet, walks);
    ckci_depth_divisors(k);
    ckci_depth_stretches(k);
    k->by_channels = ckci_make_divisor(k->g);
    l->grid = ckci_saturating_mul(ckci_saturating_mul(k->tiles_c, k->tiles_u), k->parts);
    double idle = (double)units / (double)ckci_max(l->grid, 1); /* compute units without work */
    double more = down && !planes && k->taps == 9 ? ckci_depth_waste(k) : 1;
    *cost = ckci_depth_cost(p, device,
                            sheet >= 0             ? 1
                            : vec == 1 && !through ? 3
                                                   : 1.5) *
            (double)ckci_max((int64_t)idle, 1) * more;
    if (!planes && (ckci_depth_apart(&k->a) || ckci_depth_apart(&k->b))) { /* matrix units are faster */
        *cost *= k->a.dtype == CKCONV_F32 ? 2.5 : 4;
    }
    return ckci_too_many_blocks(l->grid, err);
}

/* The kernel that suits the filter, with so many parts that no sum is long, if they are free and workspace
   holds them; else one that takes long sums. */
CKCI_FN ckconv_status ckci_depth_weight(const ckci_conv *p, const ckconv_device *device, int32_t split_k,
                                        int64_t limit, ckci_launch *l, int64_t *bytes, double *cost,
                                        ckconv_error *err)
{
    int64_t chain;
    CKCI_TRY(ckci_depth_weight_by(p, device, 0, split_k, limit, l, bytes, cost, &chain, err));
    if (chain > CKCI_GPU_CHAIN && split_k == 0) {
        const ckci_gpu_depth *k = &l->a.depth;
        int64_t one = ckci_saturating_mul(ckci_saturating_mul(k->taps, k->g), 4), before = k->parts;
        int64_t parts = ckci_saturating_mul(before, ckci_ceil_div(chain, CKCI_GPU_CHAIN / 2));
        parts = ckci_min(ckci_min(parts, limit / ckci_max(one, 1)), INT32_MAX / 2);
        if (parts > before &&
            ckci_depth_weight_by(p, device, 0, parts, limit, l, bytes, cost, &chain, NULL) != CKCONV_OK) {
            chain = INT64_MAX;
        }
    }
    return chain > CKCI_GPU_CHAIN
               ? ckci_depth_weight_by(p, device, 1, split_k, limit, l, bytes, cost, &chain, err)
               : CKCONV_OK;
}


/*------------------------------------------------------------------------------------------------------------
  >>g-depth-matrix
  Depthwise on matrix units (kernels.direct.hip.h, >>k-depth).
*/

/* The family of a GPU's matrix unit; 0: none. */
CKCI_FN ckconv_family ckci_matrix_family(const ckconv_device *d)
{
    switch (ckci_matrix_unit(d)) {
    case CKCI_UNIT_CDNA1:
    case CKCI_UNIT_CDNA2:
    case CKCI_UNIT_CDNA3:
    case CKCI_UNIT_CDNA4:
        return CKCONV_FAMILY_MFMA;
    case CKCI_UNIT_RDNA3:
    case CKCI_UNIT_RDNA4:
        return CKCONV_FAMILY_WMMA;
    case CKCI_UNIT_MMA:
    case CKCI_UNIT_WGMMA:
        return CKCONV_FAMILY_MMA;
    default:
        return 0;
    }
}

/* Refuses a GPU without the matrix unit of a family. */
CKCI_FN ckconv_status ckci_need_unit(const ckconv_device *d, ckconv_family family, ckconv_error *err)
{
    if (ckci_matrix_family(d) == family) {
        return CKCONV_OK;
    }
    const char *why = ckci_find_architecture(d->arch) ? "" : " (no row in the table of architectures)";
    return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "%s has no %s unit%s", d->arch, ckconv_family_name(family),
                     why);
}

/* Pieces of `t` along rows in LDS (ckci_gpu_depth_rows). */
CKCI_FN int32_t ckci_depth_box_pieces(const ckci_tensor *t)
{
    if (ckci_depth_vector(t, 8)) {
        return 16;
    }
    int32_t vec = t->stride[5] == 1 || t->len[5] == 1 ? 8 : 1;
    for (; vec > 1; vec /= 2) {
        int fits = t->len[5] % vec == 0 && (uintptr_t)t->p % (uintptr_t)(2 * vec) == 0;
        for (int i = 0; i < 5; i++) {
            fits = fits && (t->len[i] <= 1 || t->stride[i] % vec == 0);
        }
        if (fits) {
            break;
        }
    }
    return vec;
}

CKCI_FN void ckci_depth_box_rows(ckci_gpu_depth_rows *r, int32_t vec, int64_t positions)
{
    r->vec = vec;
    r->pieces = (int32_t)ckci_ceil_div(positions, vec == 16 ? 2 : vec);
    r->by_pieces = ckci_make_divisor(r->pieces);
}

/* Chunks that are taken, in steps of two or four. */
CKCI_FN void ckci_depth_box_steps(ckci_gpu_depth_box *x, int32_t count)
{
    x->some = count <= 2 ? 2 : 4;
    x->to = x->from + (int32_t)(ckci_ceil_div(count, x->some) * x->some);
}

/* Bytes that a lane of the matrix unit loads of a row in LDS at a time; 0: NVIDIA's, whose rows lie 16 bytes
   modulo 32 apart. 16 rows (stretches of a folded one, `gap` bytes of it after each) that lie an odd multiple
   of them apart meet all banks. */
CKCI_FN int32_t ckci_depth_box_gap(const ckconv_device *device)
{
    const ckconv_family family = ckci_matrix_family(device);
    return family == CKCONV_FAMILY_MFMA ? 8 : family == CKCONV_FAMILY_WMMA ? 16 : 0;
}

/* Channels of a block: eights, as many as fit and leave few of the last block idle. */
CKCI_FN int32_t ckci_depth_box_channels(const ckci_gpu_depth *k, int64_t most)
{
    const ckci_gpu_depth_box *x = &k->box;
    const int64_t room = CKCI_DEPTH_BOX_BYTES - CKCI_DEPTH_BOX_ZEROS - 64;
    int64_t one = (int64_t)x->b.plane + x->t.plane + 16, best = 0;
    double used = 0;
    for (int64_t c = ckci_min(room / one, most) / 8 * 8; c >= 8; c -= 8) {
        double part = (double)k->g / (double)(ckci_ceil_div(k->g, c) * c);
        if (part > used * 1.1) {
            used = part;
            best = c;
        }
    }
    return (int32_t)best;
}

/* Planes after each other, tiles and blocks. */
CKCI_FN void ckci_depth_box_finish(ckci_gpu_depth *k, int64_t tiles_y, int64_t tiles_x)
{
    ckci_gpu_depth_box *x = &k->box;
    int32_t groups = x->channels / 8;
    x->skew = 128 / (groups < 8 ? groups : 8) / 16 * 16;
    x->b.at = CKCI_DEPTH_BOX_ZEROS;
    x->t.at = x->b.at + x->channels * x->b.plane + groups * x->skew;
    x->o.at = x->b.at;
    x->o.plane = x->b.plane;
    x->by_groups = ckci_make_divisor(groups);
    x->by_rows = ckci_make_divisor(k->dim[1].filter);
    x->by_z = ckci_make_divisor(k->dim[0].length);
    x->by_tiles_y = ckci_make_divisor(tiles_y);
    x->by_tiles_x = ckci_make_divisor(tiles_x);
    x->tiles = (int32_t)(k->n * k->dim[0].length * tiles_y * tiles_x);
    k->tiles_c = (int32_t)ckci_ceil_div(k->g, x->channels);
    k->by_tiles_c = ckci_make_divisor(k->tiles_c);
}

/* bwd_weight on matrix units. An accumulator that takes one product after the other loses a unit in the last
   place with each instruction, half of one where it rounds to nearest; NVIDIA's cuts off, so that all losses
   have one sign. A block whose part has more than WHOLE positions therefore takes so many of them at a time,
   and adds their sums to those before, in the part in memory, which no other block touches; that part has
   no more than PIECES of them where workspace allows as many parts. */
enum { CKCI_SUM_WHOLE = 16384, CKCI_SUM_PIECES = 256 };
CKCI_FN int64_t ckci_sum_chain(const ckconv_device *device)
{
    return device->kind == CKCONV_DEVICE_NVIDIA ? 4096 : 8192;
}

/* The parts that so many positions ask for. */
CKCI_FN int64_t ckci_sum_parts(const ckconv_device *device, int64_t positions)
{
    return ckci_max(ckci_ceil_div(positions, CKCI_SUM_PIECES * ckci_sum_chain(device)), 1);
}

/* Of `count` items of a part, `each` positions apiece, those that are a piece; 0: all. */
CKCI_FN int32_t ckci_sum_items(const ckconv_device *device, int64_t count, int64_t each)
{
    return ckci_saturating_mul(count, each) > CKCI_SUM_WHOLE
               ? (int32_t)ckci_max(ckci_sum_chain(device) / ckci_max(each, 1), 1)
               : 0;
}

/* Tiles of a block so that three blocks of each compute unit have all of them, or `parts` blocks do. */
CKCI_FN void ckci_depth_box_split(ckci_gpu_depth *k, const ckconv_device *device, int64_t parts)
{
    const int64_t all = k->box.tiles, units = ckci_max(device->compute_units, 1);
    int64_t part = ckci_ceil_div(all * k->tiles_c, 3 * units);
    part = parts > 0 ? ckci_max(ckci_ceil_div(all, parts), 1) : ckci_max(part, 1);
    k->part = (int32_t)ckci_min(part, INT32_MAX);
    k->parts = (int32_t)ckci_max(ckci_ceil_div(all, part), 1);
}

/* What both kernels ask for. *fold: one row. */
CKCI_FN ckconv_status ckci_depth_box_start(const ckci_conv *p, const ckconv_device *device, ckci_gpu_depth *k,
                                           ckconv_error *err)
{
    int32_t vec, planes;
    const int weight = p->op == CKCONV_BWD_WEIGHT;
    CKCI_TRY(ckci_depth_start(p, k, &vec, &planes, err));
    if (k->planes) { /* as they were */
        ckci_gpu_dim y = k->dim[1];
        k->dim[1] = k->dim[2];
        k->dim[2] = y;
        ckci_exchange_yx(&k->a);
        ckci_exchange_yx(&k->b);
        ckci_exchange_yx(&k->o.t);
        for (int i = 0; i < 4; i++) {
            ckci_exchange_yx(&k->o.d[i]);
        }
        k->planes = 0;
    }
    const ckci_gpu_dim *z = &k->dim[0], *y = &k->dim[1], *x = &k->dim[2];
    int fits = ckci_matrix_family(device) != 0 && (k->a.dtype == CKCONV_F16 || k->a.dtype == CKCONV_BF16) &&
               k->b.dtype == k->a.dtype && (weight || !k->full) && z->filter == 1 && z->stride == 1 &&
               z->pad == 0 && z->length == z->read_len && x->stride == 1 && y->stride == 1 &&
               x->dilation == 1 && y->dilation == 1;
    fits = fits && (!x->gather_back || (x->pad < x->filter && y->pad < y->filter));
    const ckci_tensor *t[3] = {&k->a, &k->b, &k->o.t};
    int64_t positions = 1;
    for (int i = 0; i < 3; i++) {
        fits = fits && ckci_span(t[i]) <= INT32_MAX / 2;
        positions = ckci_saturating_mul(positions, k->dim[i].length);
    }
    fits = fits && ckci_saturating_mul(positions, k->n) <= INT32_MAX / 4;
    k->box.fold = y->filter == 1 && y->length == 1 && y->read_len == 1 && x->length > 32;
    return fits ? CKCONV_OK
                : ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                            "depthwise on a matrix unit takes f16 and bf16, neither stride nor dilation, no "
                            "filter along z, padding below the filter and 2^30 bytes");
}

/* Time beside that of the other kernels, as it was measured: the matrix unit wins where each input meets many
   taps, in bwd_weight from 7 x 7 on, where rows are long (H100, channels first 37 x 37 474 us, sheets 238;
   16 x 16 324, sheets 253; 64 x 64 152, sheets 210; channels last 16 x 16 322, walks 190; 4 x 64 174, walks
   287). */
CKCI_FN double ckci_depth_box_cost(const ckci_conv *p, const ckconv_device *device, const ckci_gpu_depth *k)
{
    const int32_t f = k->dim[2].filter, taps = f * k->dim[1].filter;
    int64_t length = k->dim[2].length, vec = ckci_min(k->box.b.vec, k->box.t.vec);
    int shorter =
        f == 7 && taps == 49 && (vec == 16 ? length < 48 && k->dim[1].length >= 8 : length < 32 || vec < 8);
    /* tiles are 64 wide (channels last 80 x 80 242 us, walks 200; 64 x 64 177, 166; 61 x 61 178, 244) */
    shorter = shorter || (f == 7 && taps == 49 && k->a.stride[0] == 1 && length >= 64 && length % 64 < 48 &&
                          k->dim[1].length >= 8);
    int better = p->op == CKCONV_BWD_WEIGHT ? (k->box.fold ? f >= 16 : taps >= 49 && !shorter)
                 : k->box.fold              ? f >= 16 && k->box.b.vec != 16
                                            : taps >= 100;
    return ckci_depth_cost(p, device, 1.5) * (better ? 0.5 : 3);
}

/* No tile fits LDS, or one needs more. */
CKCI_FN ckconv_status ckci_depth_box_full(const ckci_gpu_depth *k, ckconv_error *err)
{
    return ckci_fail(
        err, CKCONV_ERR_UNSUPPORTED,
        "depthwise on a matrix unit: eight channels of a filter of %d x %d and a tile of inputs are "
        "more than %d bytes of LDS",
        (int)k->dim[1].filter, (int)k->dim[2].filter, (int)CKCI_DEPTH_BOX_BYTES);
}

CKCI_FN ckconv_status ckci_depth_box_gather(const ckci_conv *p, const ckconv_device *device, ckci_launch *l,
                                            double *cost, ckconv_error *err)
{
    ckci_gpu_depth *k = &l->a.depth;
    ckci_gpu_depth_box *x = &k->box;
    CKCI_TRY(ckci_depth_box_start(p, device, k, err));
    const ckci_gpu_dim *dy = &k->dim[1], *dx = &k->dim[2];
    const int32_t f = dx->filter, pad = dx->gather_back ? f - 1 - dx->pad : dx->pad;
    x->pad_y = dx->gather_back ? dy->filter - 1 - dy->pad : dy->pad;
    x->wide = !x->fold && dx->length > 32;
    x->tile_x = x->fold ? (int32_t)ckci_min((dx->length + 31) / 32 * 32, 1024) : x->wide ? 64 : 32;
    x->tile_y = x->fold ? 1 : x->wide ? 16 : 32;
    x->high = x->tile_x / 32;
    const int64_t tiles_x = ckci_ceil_div(dx->length, x->tile_x),
                  tiles_y = ckci_ceil_div(dy->length, x->tile_y);
    /* a single tile's rows begin at a chunk, others at a piece */
    const int narrow = !x->fold && !x->wide;
    const int32_t left = narrow ? (pad + 15) / 16 * 16 : (pad + 7) / 8 * 8;
    x->skip = narrow ? left / 16 : 0;
    x->back = left - 16 * x->skip;
    const int32_t bands = (f + 14 + left - pad) / 16 + 1; /* that are not zero */
    int64_t positions = x->tile_x + left - pad + f - 1;
    if (!x->fold && tiles_x == 1) {
        positions = ckci_min(positions - 16 * x->skip, x->back + dx->read_len);
    }
    x->chunks = (int32_t)ckci_max(ckci_ceil_div(positions, 16), 1);
    x->from = x->skip;
    ckci_depth_box_steps(x, narrow ? (int32_t)ckci_min(x->chunks, bands + 1 - x->skip) : bands + 1);
    if (x->fold) {
        x->chunks = x->to + 2 * (x->high - 1);
    }
    x->lead = (int32_t)ckci_max(15 + left - pad - 16 * (x->from - 1) + 1, 0) / 2 * 2;
    x->origin = pad - left + x->lead;
    int32_t most = 16 * (x->to - 1) + 15 + x->origin;
    int64_t high = ckci_max(ckci_min((int64_t)x->tile_y + dy->filter - 1, dy->read_len),
                            ckci_min(x->tile_y, dy->length));
    if (x->chunks > CKCI_DEPTH_BOX_ZEROS / 32 && !x->fold) {
        return ckci_depth_box_full(k, err);
    }
    const int32_t gap = ckci_depth_box_gap(device);
    const int32_t stored = (int32_t)ckci_max(x->chunks, ckci_ceil_div(ckci_min(dx->length, x->tile_x), 16));
    const int32_t bytes = 32 * stored + (x->fold ? (stored + 1) / 2 * gap : 0);
    x->b.pitch = (bytes + 15) / 16 * 16 + (gap == 8 ? 8 : 16);
    x->b.plane = (int32_t)(ckci_ceil_div(ckci_max(high, 1) * x->b.pitch, 16) * 16);
    x->step = x->fold ? 64 + gap : x->b.pitch;
    x->o.pitch = x->step;
    x->t.pitch = 2 * ((most + 2) / 2 * 2);
    int64_t filters = (int64_t)dy->filter * x->t.pitch;
    if (filters > CKCI_DEPTH_BOX_BYTES) {
        return ckci_depth_box_full(k, err);
    }
    x->t.plane = (int32_t)filters;
    x->t.by_pieces = ckci_make_divisor(x->t.pitch / 2);
    ckci_depth_box_rows(&x->b, ckci_depth_box_pieces(&k->a), 16 * x->chunks);
    ckci_depth_box_rows(&x->o, ckci_depth_box_pieces(&k->o.t), ckci_min(dx->length, x->tile_x));
    x->channels = ckci_depth_box_channels(k, 64);
    if (x->channels == 0) {
        return ckci_depth_box_full(k, err);
    }
    ckci_depth_box_finish(k, tiles_y, tiles_x);
    ckci_depth_box_split(k, device, 0);
    k->o_same = k->o.t.dtype == k->a.dtype && k->o.t.op.kind == CKCONV_PASS;
    ckci_set_kernel(l, CKCI_KERNEL_depth_matrix);
    l->grid = ckci_saturating_mul(k->parts, k->tiles_c);
    *cost = ckci_depth_box_cost(p, device, k);
    return ckci_too_many_blocks(l->grid, err);
}

/* bwd_weight: a is dout, of which bands are made, b is in. */
CKCI_FN ckconv_status ckci_depth_box_weight(const ckci_conv *p, const ckconv_device *device, int32_t split_k,
                                            int64_t limit, ckci_launch *l, int64_t *bytes, double *cost,
                                            ckconv_error *err)
{
    ckci_gpu_depth *k = &l->a.depth;
    ckci_gpu_depth_box *x = &k->box;
    CKCI_TRY(ckci_depth_box_start(p, device, k, err));
    const ckci_gpu_dim *dy = &k->dim[1], *dx = &k->dim[2];
    const int32_t f = dx->filter;
    x->fold = x->fold && f <= 256;
    const int32_t large = !x->fold && (f > 16 || dy->filter > 16);
    const int32_t shifts = x->fold ? (f + 15) / 16 : 1;
    if (large && (f > 32 || dy->filter > 32)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "bwd_weight of depthwise on a matrix unit takes filters of 32 x 32; here %d x %d",
                         (int)dy->filter, (int)f);
    }
    x->pad_y = dy->pad;
    x->back = 16 * (shifts - 1);
    x->high = shifts;
    const int64_t wide = (int64_t)dx->read_len + x->back;
    const int64_t tiles_x = ckci_ceil_div(wide, x->fold ? 512 : 64);
    ckci_depth_box_steps(x, (int32_t)ckci_max(ckci_ceil_div(ckci_ceil_div(wide, tiles_x), 16), 1));
    x->chunks = x->to;
    x->tile_x = 16 * x->chunks;
    int32_t before = 15 - dx->pad + x->back + 16;
    x->lead = before > 0 ? (before + 7) / 8 * 8 : 0;
    x->origin = dx->pad - x->back + x->lead;
    int32_t numbers = (16 * (x->to - 1) + 15 + x->origin + 8) / 8 * 8;
    x->t.pitch = 2 * numbers;
    x->b.pitch = 2 * (x->tile_x + x->back) + (ckci_depth_box_gap(device) == 8 && !x->fold ? 8 : 16);
    x->step = x->fold ? 32 : x->b.pitch;
    ckci_depth_box_rows(&x->b, ckci_depth_box_pieces(&k->b), x->tile_x + x->back);
    ckci_depth_box_rows(&x->t, ckci_depth_box_pieces(&k->a), numbers);
    /* as many rows of dout as fit, in tiles of one height */
    int64_t tiles_y = 1, most = large ? 8 : 16;
    for (; tiles_y <= dy->length; tiles_y++) {
        x->tile_y = (int32_t)ckci_ceil_div(dy->length, tiles_y);
        int64_t rows = ckci_max(ckci_min((int64_t)x->tile_y + dy->filter - 1, dy->read_len), 1);
        if (rows * x->b.pitch > CKCI_DEPTH_BOX_BYTES || x->tile_y > CKCI_DEPTH_BOX_BYTES / x->t.pitch) {
            continue;
        }
        x->b.plane = (int32_t)((rows * x->b.pitch + 15) / 16 * 16);
        x->t.plane = x->tile_y * x->t.pitch;
        x->channels = ckci_depth_box_channels(k, most);
        if (x->channels == most || (x->channels > 0 && (x->tile_y <= 8 || k->g <= x->channels))) {
            break;
        }
    }
    if (x->channels == 0 || tiles_y > dy->length) {
        return ckci_depth_box_full(k, err);
    }
    ckci_depth_box_finish(k, tiles_y, tiles_x);
    /* sixteen channels are 32 bytes: half a line */
    k->halves = ckci_depth_box_gap(device) && !large && x->channels == 16 && x->b.vec == 16 &&
                        x->t.vec == 16 && k->g > 16
                    ? 2
                    : 1;
    k->tiles_c = (int32_t)ckci_ceil_div(k->tiles_c, k->halves);
    k->by_tiles_c = ckci_make_divisor(k->tiles_c);
    int64_t one = ckci_saturating_mul(ckci_saturating_mul(k->taps, k->g), 4);
    const int64_t tile = (int64_t)x->tile_y * x->tile_x, room = ckci_max(limit / ckci_max(one, 1), 1);
    const int64_t least = ckci_sum_parts(device, ckci_saturating_mul(x->tiles, tile));
    ckci_depth_box_split(k, device, split_k);
    if (split_k == 0 && k->parts < least) {
        ckci_depth_box_split(k, device, least);
    }
    if (split_k == 0 && k->parts > room) {
        ckci_depth_box_split(k, device, room);
    }
    k->chain = ckci_sum_items(device, k->part, tile);
    k->sums = k->parts > 1 || k->full || k->chain;
    *bytes = k->sums ? ckci_saturating_mul(k->parts, one) : 0;
    CKCI_TRY(ckci_sums_fit(split_k, *bytes, limit, err));
    if (k->sums && one > INT32_MAX) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: 2^29 - 1 weights can be split",
                         (int)split_k);
    }
    k->by_channels = ckci_make_divisor(k->g);
    ckci_set_kernel(l, large ? CKCI_KERNEL_depth_matrix_weight_32 : CKCI_KERNEL_depth_matrix_weight_16);
    l->grid = ckci_saturating_mul(k->parts, k->tiles_c);
    *cost = ckci_depth_box_cost(p, device, k);
    return ckci_too_many_blocks(l->grid, err);
}

/* The sums of the parts, where k has some. */
CKCI_FN ckconv_status ckci_emit_depth_weight(ckci_launch *l, unsigned char *ws, const ckci_emitter *e,
                                             ckconv_error *err)
{
    ckci_gpu_depth *k = &l->a.depth;
    k->o.partial = k->sums ? ws : NULL;
    CKCI_TRY(e->emit(e->context, l, err));
    if (!k->sums) {
        return CKCONV_OK;
    }
    ckci_set_kernel(l, k->a.dtype == CKCONV_F64 ? CKCI_KERNEL_depth_sum_f64 : CKCI_KERNEL_depth_sum_f32);
    l->grid = ckci_ceil_div((int64_t)k->taps * k->g, 8);
    return e->emit(e->context, l, err);
}

/* Both ways, tile 0: multiply-adds, 1: the matrix unit. */
CKCI_FN ckconv_status ckci_depth_any_gather(const ckci_conv *p, const ckconv_device *device, int32_t tile,
                                            ckci_launch *l, double *cost, ckconv_error *err)
{
    return tile ? ckci_depth_box_gather(p, device, l, cost, err) : ckci_depth_gather(p, device, l, cost, err);
}

CKCI_FN ckconv_status ckci_depth_any_weight(const ckci_conv *p, const ckconv_device *device, int32_t tile,
                                            int32_t split_k, int64_t limit, ckci_launch *l, int64_t *bytes,
                                            double *cost, ckconv_error *err)
{
    return tile ? ckci_depth_box_weight(p, device, split_k, limit, l, bytes, cost, err)
                : ckci_depth_weight(p, device, split_k, limit, l, bytes, cost, err);
}

/* Channels per group. mid has one scale and shift for all of a launch's channels, side by side. */
CKCI_FN ckconv_status ckci_depth_fits(const ckci_fit *f, ckconv_error *err)
{
    const ckci_conv *p = &f->p->conv;
    int64_t most = f->tile ? 1 : CKCI_DEPTH_CHANNELS;
    int fits = p->k <= most && p->c <= most && (p->k == 1 || f->plan->tune[CKCI_TUNE_MID] == 0);
    return fits ? CKCONV_OK
                : ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "%s takes groups of 1%s; here K is %lld and C %lld",
                            f->tile ? "depthwise on the matrix unit" : "depthwise",
                            f->tile ? " channel" : " to 4 channels (a pair's first convolution: K of 1)",
                            CKCI_LL(p->k), CKCI_LL(p->c));
}

/* What its cost counts beside those of other families if groups have several channels or channels of
   others lie between them: these are far from depthwise's own, of which 1e4 are a microsecond on an H100. */
CKCI_FN double ckci_depth_beside(const ckci_conv *p)
{
    const ckci_tensor *t = &p->t[p->op == CKCONV_FWD ? CKCI_IN : CKCI_OUT];
    const int weight = p->op == CKCONV_BWD_WEIGHT, half = ckci_size(t->dtype) == 2;
    const int first = t->stride[5] < t->stride[0]; /* channels first, GNHWC */
    const int several = p->k * p->c > 1;
    if (!several && (first || weight || !ckci_depth_apart(&p->t[ckci_written(p->op)]))) {
        return 1;
    }
    return first ? (weight ? 16 : 7) : weight ? 9 : half ? 28 : 11;
}

CKCI_FN ckconv_status ckci_fit_depth_gather(ckci_fit *f, ckconv_error *err)
{
    ckci_launch l;
    CKCI_TRY(ckci_gpu_no_split(f, err));
    CKCI_TRY(ckci_depth_fits(f, err));
    ckci_conv one = ckci_depth_part(&f->p->conv, 0);
    int64_t launches = ckci_depth_launches(&f->p->conv);
    CKCI_TRY(ckci_depth_any_gather(&one, &f->plan->device, f->tile, &l, &f->cost, err));
    f->cost *= (double)launches * ckci_depth_beside(&f->p->conv);
    ckci_plan_launch(f->plan, &l, (int32_t)launches);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_depth_gather(const ckconv_plan *plan, const ckci_problem *p,
                                             const ckconv_args *args, unsigned char *ws, int32_t tile,
                                             const ckci_emitter *e, ckconv_error *err)
{
    ckci_launch l;
    double cost;
    (void)args;
    (void)ws;
    for (int64_t i = 0; i < ckci_depth_launches(&p->conv); i++) {
        ckci_conv one = ckci_depth_part(&p->conv, i);
        CKCI_TRY(ckci_depth_any_gather(&one, &plan->device, tile, &l, &cost, err));
        if (l.grid > 0) {
            CKCI_TRY(e->emit(e->context, &l, err));
        }
    }
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_fit_depth_weight(ckci_fit *f, ckconv_error *err)
{
    ckci_launch l;
    int64_t bytes, launches = ckci_depth_launches(&f->p->conv);
    CKCI_TRY(ckci_depth_fits(f, err));
    ckci_conv one = ckci_depth_part(&f->p->conv, 0);
    CKCI_TRY(ckci_depth_any_weight(&one, &f->plan->device, f->tile, f->split_k, f->limit, &l, &bytes,
                                   &f->cost, err));
    f->cost *= (double)launches * ckci_depth_beside(&f->p->conv);
    ckci_plan_launch(f->plan, &l, (int32_t)launches * (l.a.depth.sums ? 2 : 1));
    f->plan->split_k = l.a.depth.parts;
    f->plan->workspace_bytes = bytes;
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_depth_weight(const ckconv_plan *plan, const ckci_problem *p,
                                             const ckconv_args *args, unsigned char *ws, int32_t tile,
                                             const ckci_emitter *e, ckconv_error *err)
{
    ckci_launch l;
    double cost;
    int64_t bytes;
    (void)args;
    for (int64_t i = 0; i < ckci_depth_launches(&p->conv); i++) { /* one after the other in one workspace */
        ckci_conv one = ckci_depth_part(&p->conv, i);
        CKCI_TRY(ckci_depth_any_weight(&one, &plan->device, tile, plan->split_k, ckci_run_limit(plan), &l,
                                       &bytes, &cost, err));
        CKCI_TRY(ckci_emit_depth_weight(&l, ws, e, err));
    }
    return CKCONV_OK;
}


/*------------------------------------------------------------------------------------------------------------
  >>g-matrix
  Matrix units. They take f64, f32, f16, bf16 and i8 tensors whose channels are dense and aligned to 16 bytes;
  tensors in any other order, type or number of channels are packed into workspace first. fp8 is exact in
  bf16, and in f16 next to an f16 operand. tf32 is rounded on its way into the unit (CDNA without xf32: while
  it is packed, and multiplied as f32), f32 is left to CDNA. These and f64 have tiles of their own and merge
  no groups: infinities and NaNs stay in theirs. bf16x3 is bf16 over three times the reduction (fwd, bwd_data:
  channels, bwd_weight: batches), [high, low, high] terms of one operand against [high, high, low] of the
  other.
*/

/* A matrix plan of one convolution. */
typedef struct ckci_matrix {
    ckci_conv conv;    /* as the kernel sees it: groups merged, packed tensors */
    int64_t merge;     /* groups that are one here */
    int64_t bytes;     /* workspace so far: sums of parts, packed weights, packed tensors */
    int32_t split;     /* bwd_weight: parts */
    int32_t fold;      /* bwd_weight: the sums of parts are added by a launch of its own */
    int32_t pack;      /* weights are packed */
    int32_t data[3];   /* in, -, out: these tensors are packed */
    ckconv_dtype type; /* what is multiplied */
    int32_t terms;     /* 3: bf16x3, else 1 */
    int32_t whole;     /* bwd_weight of i8: integers in f16 */
    int32_t pairs,
        shift; /* a pixel is two neighbours along x; the first tap of all, 1: one before the filter */
    int32_t tile_m, tile_n;
    double packing; /* cost */
    ckci_launch l;
} ckci_matrix;

/* Codes of tiles: rows * 1000 + columns, and added to it for f32 and tf32, and for f64: */
enum { CKCI_SINGLE_TILE = 1000000, CKCI_DOUBLE_TILE = 2000000, CKCI_TILE_KIND = 1000000 };

/* Products of i8 are at most 2^14: as many of them are a sum below 2^23, which f32 holds in any order. */
enum { CKCI_WHOLE_PART = 512 };

/* options.split_k and ckconv_choice.split_k go so far. */
enum { CKCI_MOST_PARTS = 65536 };

/* What the unit multiplies; 0: it does not compute in these types. fp8 alone becomes bf16, since some units
   take subnormal f16 numbers as zeros. */
CKCI_FN ckconv_dtype ckci_matrix_type(ckconv_dtype a, ckconv_dtype b)
{
    if ((a == CKCONV_BF16 || ckci_is_fp8(a)) && (b == CKCONV_BF16 || ckci_is_fp8(b))) {
        return CKCONV_BF16;
    }
    if ((a == CKCONV_F16 || ckci_is_fp8(a)) && (b == CKCONV_F16 || ckci_is_fp8(b))) {
        return CKCONV_F16;
    }
    if (a == CKCONV_I8 && b == CKCONV_I8) {
        return CKCONV_I8;
    }
    if ((a == CKCONV_F64 || a == CKCONV_F32 || a == CKCONV_TF32) && a == b) {
        return a;
    }
    return a == CKCONV_BF16X3 && b == CKCONV_BF16X3 ? CKCONV_BF16 : 0;
}

/* Do the groups of a tensor lie side by side, so that several are one group with more channels? */
CKCI_FN int ckci_groups_touch(const ckci_tensor *t)
{
    return t->len[0] <= 1 || t->stride[0] == t->len[2] * t->stride[2];
}

CKCI_FN void ckci_merge_tensor(ckci_tensor *t, int64_t m)
{
    t->len[0] /= m;
    t->len[2] *= m;
    t->stride[0] *= m;
}

/* m groups as one; weights stay as they are. */
CKCI_FN void ckci_merge_groups(ckci_conv *p, int64_t m)
{
    p->g /= m;
    p->k *= m;
    p->c *= m;
    ckci_merge_tensor(&p->t[CKCI_IN], m);
    ckci_merge_tensor(&p->t[CKCI_OUT], m);
    for (int i = 0; i < p->num_d && p->op != CKCONV_BWD_WEIGHT; i++) {
        ckci_merge_tensor(&p->d[i], m);
    }
}

/* How many groups to merge: until both sides have 32 channels. */
CKCI_FN int64_t ckci_matrix_merge(const ckci_conv *p)
{
    int64_t m = 1;
    int touch = ckci_groups_touch(&p->t[CKCI_IN]) && ckci_groups_touch(&p->t[CKCI_OUT]);
    for (int i = 0; i < p->num_d && p->op != CKCONV_BWD_WEIGHT; i++) {
        touch = touch && ckci_groups_touch(&p->d[i]);
    }
    while (touch && p->g % (2 * m) == 0 && (m * p->c < 32 || m * p->k < 32)) {
        m *= 2;
    }
    return m;
}

/* How memory holds what is multiplied. */
CKCI_FN ckconv_dtype ckci_matrix_stored(ckconv_dtype type)
{
    return type == CKCONV_TF32 ? CKCONV_F32 : type;
}

/* Channels of a 16-byte chunk. */
CKCI_FN int64_t ckci_matrix_chunk(ckconv_dtype type)
{
    return 16 / (int64_t)ckci_size(ckci_matrix_stored(type));
}

/* May 16-byte chunks along the channels be one load each? */
CKCI_FN ckconv_status ckci_matrix_reads(const ckci_tensor *t, const char *what, ckconv_dtype type,
                                        int64_t channels, ckconv_error *err)
{
    if (t->dtype != ckci_matrix_stored(type) || t->compute != type || t->op.kind != CKCONV_PASS) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "matrix tiles read %s as %s without an operation; here it is %s", what,
                         ckconv_dtype_name(type), ckconv_dtype_name(t->dtype));
    }
    int64_t chunk = ckci_matrix_chunk(type);
    int fits = t->stride[2] == 1 || channels == 1;
    for (int i = 0; i < 6; i++) {
        fits = fits && (i == 2 || t->len[i] <= 1 || t->stride[i] % chunk == 0);
    }
    if (!fits || channels % chunk != 0 || (uintptr_t)t->p % 16 != 0) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "matrix tiles load 16 bytes along the channels: %s needs channels last, a multiple of %d "
            "(here %lld) and alignment",
            what, (int)chunk, CKCI_LL(channels));
    }
    return CKCONV_OK;
}

/* Offsets from the first position of a block have 31 bits; images: batches that a block can touch. */
CKCI_FN ckconv_status ckci_matrix_reach(const ckci_tensor *t, const char *what, int64_t images, int64_t pad,
                                        ckconv_error *err)
{
    int64_t reach = ckci_saturating_mul(t->stride[1], ckci_min(images, t->len[1]));
    for (int i = 2; i < 6; i++) {
        int64_t len = i == 2 ? t->len[i] : ckci_saturating_add(t->len[i], pad);
        reach = ckci_saturating_add(reach, ckci_saturating_mul(len, t->stride[i]));
    }
    return ckci_saturating_mul(reach, (int64_t)ckci_size(t->dtype)) <= INT32_MAX
               ? CKCONV_OK
               : ckci_fail(
                     err, CKCONV_ERR_UNSUPPORTED,
                     "matrix tiles take 2^31 bytes of %s for a block's images; here it reaches over more",
                     what);
}

/* The filter's size: see ckci_k_hole in kernels.matrix.hip.h. */
CKCI_FN ckconv_status ckci_matrix_taps(const ckci_conv *p, int32_t *ranges, ckconv_error *err)
{
    int64_t taps = p->filter[0] * p->filter[1] * p->filter[2],
            sum = p->filter[0] + p->filter[1] + p->filter[2];
    int several = (p->filter[0] > 1) + (p->filter[1] > 1) + (p->filter[2] > 1);
    *ranges = sum > 31;
    return taps <= 128 && (sum <= 31 || several == 1)
               ? CKCONV_OK
               : ckci_fail(
                     err, CKCONV_ERR_UNSUPPORTED,
                     "matrix tiles take filters of 128 taps (31 for the sum of several sizes); here %lld",
                     CKCI_LL(taps));
}

/* Weights as gather kernels read them: [g][column][taps][channel of the reduction], dense. */
CKCI_FN void ckci_packed_weights(const ckci_conv *p, ckconv_dtype type, unsigned char *ws, ckci_tensor *t)
{
    int back = p->op == CKCONV_BWD_DATA;
    int64_t columns = back ? p->c : p->k, red = back ? p->k : p->c;
    memset(t, 0, sizeof *t);
    t->p = ws;
    t->dtype = ckci_matrix_stored(type);
    t->compute = type;
    t->plain = 1;
    t->len[0] = p->g;
    t->len[1] = p->k;
    t->len[2] = p->c;
    t->stride[back ? 1 : 2] = 1;
    t->stride[5] = red;
    for (int i = 5; i >= 3; i--) {
        t->len[i] = p->filter[i - 3];
        t->stride[i - 1 > 2 ? i - 1 : (back ? 2 : 1)] = t->stride[i] * t->len[i];
    }
    t->stride[0] = t->stride[back ? 2 : 1] * columns;
}

/* A piece of workspace. */
CKCI_FN ckconv_status ckci_matrix_take(ckci_matrix *m, int64_t bytes, int64_t limit, unsigned char *ws,
                                       unsigned char **piece, ckconv_error *err)
{
    *piece = ws ? ws + m->bytes : NULL;
    m->bytes = ckci_saturating_add(m->bytes, ckci_saturating_mul(ckci_ceil_div(bytes, 256), 256));
    return m->bytes <= limit ? CKCONV_OK : ckci_over_limit("packed tensors and sums", m->bytes, err);
}

/* What it costs to write `bytes` of packed values. */
CKCI_FN double ckci_pack_cost(const ckconv_device *device, double bytes)
{
    return 218 * (2500 + 2 * bytes / (12 * (double)ckci_max(device->compute_units, 1)));
}

/* A first layer: few channels, and a stride along x that lets two neighbours be one pixel of eight. */
CKCI_FN void ckci_matrix_pairs(ckci_matrix *m)
{
    ckci_conv *c = &m->conv;
    if (c->op == CKCONV_BWD_DATA || ckci_matrix_chunk(m->type) != 8 || c->c > 4 || m->merge > 1 ||
        c->g != 1 || c->stride[2] % 2 != 0 || c->dilation[2] != 1) {
        return;
    }
    m->pairs = 1;
    m->shift = c->pad[2] % 2 != 0;
    c->filter[2] = ckci_ceil_div(c->filter[2] + m->shift, 2);
    c->pad[2] = (c->pad[2] + m->shift) / 2;
    c->stride[2] /= 2;
    c->input[2] = ckci_ceil_div(c->input[2], 2);
}

/* `which` (in or out) as the kernels read it, or packed: [n][z][y][x][g][channels], whole chunks. */
CKCI_FN ckconv_status ckci_matrix_data(ckci_matrix *m, int which, const char *what,
                                       const ckconv_device *device, int64_t limit, unsigned char *ws,
                                       ckconv_error *err)
{
    ckci_conv *c = &m->conv;
    int weight = c->op == CKCONV_BWD_WEIGHT;
    int64_t chunk = ckci_matrix_chunk(m->type);
    int64_t *channels = which == CKCI_IN ? &c->c : &c->k;
    ckci_tensor *t = &c->t[which], packed;
    if (ckci_matrix_reads(t, what, m->type, *channels, NULL) == CKCONV_OK) {
        return CKCONV_OK;
    }
    if (which == CKCI_IN) {
        ckci_matrix_pairs(m);
    }
    *channels = which == CKCI_IN && m->pairs ? 8 : ckci_ceil_div(*channels, chunk) * chunk;
    *channels = ckci_saturating_mul(*channels, weight ? 1 : m->terms);
    m->data[which] = t->len[1] > 0;
    memset(&packed, 0, sizeof packed);
    packed.dtype = ckci_matrix_stored(m->type);
    packed.compute = m->type;
    packed.plain = 1;
    memcpy(packed.len, t->len, sizeof packed.len);
    packed.len[1] = ckci_saturating_mul(packed.len[1], weight ? m->terms : 1);
    packed.len[2] = *channels;
    packed.len[5] = which == CKCI_IN ? c->input[2] : c->output[2];
    packed.stride[2] = 1;
    packed.stride[0] = packed.len[2];
    packed.stride[5] = packed.stride[0] * packed.len[0];
    packed.stride[4] = ckci_saturating_mul(packed.stride[5], packed.len[5]);
    packed.stride[3] = ckci_saturating_mul(packed.stride[4], packed.len[4]);
    packed.stride[1] = ckci_saturating_mul(packed.stride[3], packed.len[3]);
    int64_t count = ckci_saturating_mul(packed.stride[1], packed.len[1]),
            bytes = ckci_saturating_mul(count, (int64_t)ckci_size(packed.dtype));
    if (count / packed.stride[5] > INT32_MAX / 2) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "%s has too many positions to be packed", what);
    }
    CKCI_TRY(ckci_matrix_take(m, bytes, limit, ws, &packed.p, err));
    m->packing += ckci_pack_cost(device, (double)bytes);
    *t = packed;
    return CKCONV_OK;
}

/* LDS of a tile's kernel, as in kernels.matrix.hip.h: NVIDIA keeps three to five tiles of 128-byte rows
   there, AMD one of 64 bytes, or the sums that pass through; tables of positions or of taps and rows. */
CKCI_FN int64_t ckci_matrix_lds(const ckconv_device *device, ckconv_op op, int32_t tile_m, int32_t tile_n)
{
    int nvidia = device->kind == CKCONV_DEVICE_NVIDIA;
    int64_t rows = tile_m + tile_n, sums = (int64_t)tile_m * (tile_n + 4) * 4;
    int64_t tables = op == CKCONV_BWD_WEIGHT ? (nvidia ? 8200 : 4104) : 2064 + 8 * tile_m;
    tables += nvidia && op != CKCONV_BWD_WEIGHT && tile_m >= 128 && tile_n >= 64 ? 96 + 8 * tile_m : 0;
    int64_t stages = tile_m >= 64 && tile_n >= 64 ? CKCI_GROUP_STAGES(rows) : 3;
    return tables + (nvidia ? ckci_max(stages * 128 * rows, sums) : ckci_max(64 * rows, 18432));
}

/* What all matrix plans share: groups merged, types and alignment checked. */
CKCI_FN ckconv_status ckci_matrix_start(const ckci_conv *p, const ckconv_device *device, ckconv_family family,
                                        int32_t tile, ckci_matrix *m, ckconv_error *err)
{
    ckconv_dtype a = p->t[p->op == CKCONV_BWD_DATA ? CKCI_OUT : CKCI_IN].compute,
                 b = p->t[p->op == CKCONV_BWD_WEIGHT ? CKCI_OUT : CKCI_WEI].compute,
                 type = ckci_matrix_type(a, b);
    int32_t ranges;
    CKCI_TRY(ckci_need_unit(device, family, err));
    int mfma = family == CKCONV_FAMILY_MFMA;
    int32_t own = type == CKCONV_F64                          ? CKCI_DOUBLE_TILE
                  : type == CKCONV_F32 || type == CKCONV_TF32 ? CKCI_SINGLE_TILE
                                                              : 0;
    if (type == 0 || tile / CKCI_TILE_KIND != own / CKCI_TILE_KIND || (type == CKCONV_F32 && !mfma)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "these matrix tiles compute in %s, not in %s and %s",
                         tile > CKCI_DOUBLE_TILE   ? "f64"
                         : tile < CKCI_SINGLE_TILE ? "f16, bf16, bf16x3, fp8 and i8"
                         : mfma                    ? "f32 and tf32"
                                                   : "tf32",
                         ckconv_dtype_name(a), ckconv_dtype_name(b));
    }
    if (type == CKCONV_F64 && ckci_matrix_unit(device) == CKCI_UNIT_CDNA1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "the matrix unit of %s has no f64", device->arch);
    }
    CKCI_TRY(ckci_gpu_takes(p, err));
    CKCI_TRY(ckci_matrix_taps(p, &ranges, err));
    memset(m, 0, sizeof *m);
    m->conv = *p;
    m->type = type == CKCONV_TF32 && mfma && ckci_matrix_unit(device) != CKCI_UNIT_CDNA3 ? CKCONV_F32 : type;
    /* To transpose bytes costs more than f16's half rate. f16 holds them, f32 the sums of a short part. */
    m->whole = type == CKCONV_I8 && p->op == CKCONV_BWD_WEIGHT;
    m->type = m->whole ? CKCONV_F16 : m->type;
    m->terms = a == CKCONV_BF16X3 ? 3 : 1;
    m->merge = own ? 1 : ckci_matrix_merge(p);
    m->tile_m = tile % CKCI_TILE_KIND / 1000;
    m->tile_n = tile % 1000;
    int64_t lds = ckci_matrix_lds(device, p->op, m->tile_m, m->tile_n);
    if (lds > device->lds_bytes) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "this tile needs %lld bytes of LDS, %s has %d",
                         CKCI_LL(lds), device->arch, (int)device->lds_bytes);
    }
    ckci_merge_groups(&m->conv, m->merge);
    return CKCONV_OK;
}

/* The kernel for a tile: its place in CKCI_GPU_MATRIX. across: weights as they are in bwd_data. */
CKCI_FN int32_t ckci_matrix_kernel(ckconv_op op, ckconv_dtype type, int across, int32_t tile)
{
    static const int32_t tiles[2][7] = {{256128, 192128, 128128, 512064, 64064, 128032},
                                        {128256, 128128, 64256, 64064, 32128, 64192, 192128}};
    int weight = op == CKCONV_BWD_WEIGHT, next = 0, second = tile % CKCI_TILE_KIND == 64064;
    if (type == CKCONV_I8) {
        return CKCI_KERNEL_matrix_whole_128x128 + second;
    }
    if (tile > CKCI_DOUBLE_TILE) {
        return weight ? CKCI_KERNEL_matrix_double_weight_128x64 : CKCI_KERNEL_matrix_double_128x64;
    }
    if (tile > CKCI_SINGLE_TILE) {
        return (weight ? CKCI_KERNEL_matrix_single_weight_128x128 : CKCI_KERNEL_matrix_single_128x128) +
               second;
    }
    if (tile == 256256) {
        return CKCI_KERNEL_matrix_gather_256x256;
    }
    while (tiles[weight][next] != tile) {
        next++;
    }
    return next + (weight   ? CKCI_KERNEL_matrix_weight_128x256
                   : across ? CKCI_KERNEL_matrix_back_256x128
                            : CKCI_KERNEL_matrix_gather_256x128);
}

/* Blocks that a compute unit holds at a time: by LDS, and of 128 x 128 two (AMD: three) by registers. */
CKCI_FN int64_t ckci_matrix_blocks(const ckconv_device *device, ckconv_op op, int32_t tile_m, int32_t tile_n)
{
    int64_t lds = device->lds_bytes / ckci_matrix_lds(device, op, tile_m, tile_n),
            sums = (device->kind == CKCONV_DEVICE_NVIDIA ? 32768 : 49152) / (tile_m * tile_n);
    return ckci_max(ckci_min(ckci_min(lds, sums), 3), 1);
}

/* Can groups of waves multiply there (wgmma)? In types of two bytes. */
CKCI_FN int ckci_matrix_groups(const ckconv_device *device, const ckci_matrix *m)
{
    return ckci_matrix_unit(device) == CKCI_UNIT_WGMMA && ckci_size(ckci_matrix_stored(m->type)) == 2;
}

/* Do they multiply these tiles? */
CKCI_FN int ckci_matrix_grouped(const ckconv_device *device, const ckci_matrix *m)
{
    int weight = m->conv.op == CKCONV_BWD_WEIGHT;
    return ckci_matrix_groups(device, m) && m->tile_m >= (weight ? 64 : 128) &&
           m->tile_n >= (weight ? 128 : 64);
}

/* A tile, 1000 times its rows plus its columns, and how much slower than the best one it is. */
typedef struct ckci_tile_speed {
    int32_t tile;
    double gather, weight;
} ckci_tile_speed;

/* How much slower than .022 ns an output a tile takes 64 places of the reduction. sm_90 with f16 and bf16:
   fitted to an H100 and an H200; on other NVIDIA devices and in other types all tiles are mma.sync's, and not
   measured. AMD: by the bytes that it takes from memory and LDS for a multiply-add, for want of
   measurements. */
CKCI_FN double ckci_matrix_slow(const ckconv_device *device, const ckci_matrix *m)
{
    static const ckci_tile_speed sm_90[] = {
        {256128, .97, 0}, {192128, 1.075, 1.17}, {128128, 1.08, 1.23}, {512064, 1.3, 0}, {128256, 0, 1.12},
        {64256, 0, 1.7},  {64192, 0, 1.57},      {64064, 3.6, 3.6},    {128032, 3.6, 0}, {32128, 0, 4.6}};
    static const ckci_tile_speed others[] = {{256128, .97, 0},  {192128, 1.075, 1.17}, {128128, 1.08, 1.2},
                                             {512064, 1.53, 0}, {128256, 0, 1.12},     {64256, 0, 1.7},
                                             {64192, 0, 1.87}};
    if (device->kind != CKCONV_DEVICE_NVIDIA) {
        return 0.6 + 36. / m->tile_m + 36. / m->tile_n;
    }
    int fitted = ckci_matrix_groups(device, m);
    const ckci_tile_speed *table = fitted ? sm_90 : others;
    size_t count = fitted ? sizeof sm_90 / sizeof sm_90[0] : sizeof others / sizeof others[0];
    for (size_t i = 0; i < count; i++) {
        if (table[i].tile == m->tile_m * 1000 + m->tile_n) {
            return m->conv.op == CKCONV_BWD_WEIGHT ? table[i].weight : table[i].gather;
        }
    }
    return 2.6;
}

/* Time on m's matrix unit, as multiply-adds of one compute unit's vector unit. Rounds of blocks that run side
   by side; each takes nanoseconds to begin and write its sums, fewer where a block goes from one tile into
   the next, and for 64 places of the reduction: what ckci_matrix_slow says for two bytes each. CDNA
   multiplies f32 at the rate of 5.4 bytes, or less, and f64 as NVIDIA does at that of 8. */
CKCI_FN double ckci_matrix_cost(const ckconv_device *device, const ckci_matrix *m, int64_t blocks, double red)
{
    int amd = device->kind != CKCONV_DEVICE_NVIDIA;
    ckconv_op op = m->conv.op;
    double side = (double)ckci_matrix_blocks(device, op, m->tile_m, m->tile_n), units = device->compute_units;
    double slow = ckci_matrix_slow(device, m), size = (double)m->tile_m * m->tile_n;
    units = units < 1 ? 1 : units;
    if (amd) { /* no more side by side than there are; few wait often */
        double most = ceil((double)blocks / units);
        side = most < 1 ? 1 : side < most ? side : most;
        slow *= side * size < 32768 ? 1.5 : 1;
    } else if (side > 1 && (double)blocks <= units) {
        side = 1;
        slow *= 1.4;
    }
    slow *= 8 / (double)ckci_matrix_chunk(m->type);
    slow = m->type == CKCONV_F32 && slow < 2.7 ? 2.7 : slow;
    double area = side * size, share = (double)blocks / (side * units);
    double rounds = share > (amd ? 6 : 16) ? share : ceil(share), once = 1700 + area * .125;
    if (op == CKCONV_BWD_WEIGHT && red > CKCI_SUM_WHOLE) { /* pieces are read, too */
        once *= 2 * ceil(red / (double)ckci_sum_chain(device)) - 1;
    }
    if (op != CKCONV_BWD_WEIGHT && ckci_matrix_grouped(device, m)) {
        once = 1300 + size * .038 + (m->l.a.conv.stream ? 0 : 2500);
    }
    return 218 * rounds * (once + red / 64 * area * .022 * slow);
}

/* May groups of waves go from one tile into the next? If all have as many steps; or where phases differ, if
   each has three steps at least, and taps that fit half of a table. */
CKCI_FN int32_t ckci_matrix_streams(const ckci_gpu_conv *k)
{
    int64_t least = 1, most = 1;
    if (k->phases == 1) {
        return 1;
    }
    for (int i = 0; i < 3; i++) {
        const ckci_gpu_dim *d = &k->dim[i];
        int64_t few = INT32_MAX, many = 0;
        if (d->stride > 64) {
            return 0;
        }
        for (int64_t phase = 0; phase < ckci_max(d->phases, 1); phase++) {
            int64_t taps = 0;
            for (int64_t t = 0; t < d->filter; t++) {
                taps += (phase + d->pad - t * d->dilation) % d->stride == 0;
            }
            few = ckci_min(few, taps);
            many = ckci_max(many, taps);
        }
        least *= few;
        most *= many;
    }
    return least * k->red > 128 && most < CKCI_STREAM_TAPS;
}

/* Tiles that groups of waves multiply (sm_90): as many blocks as run side by side take them. Plain stores of
   a tile are at most 2^31 elements apart. */
CKCI_FN void ckci_matrix_workers(const ckconv_device *device, ckci_matrix *m)
{
    ckci_gpu_conv *k = &m->l.a.conv;
    int64_t side = ckci_matrix_blocks(device, m->conv.op, m->tile_m, m->tile_n) * device->compute_units,
            space = 1, reach = 0;
    for (int i = 3; i < 6; i++) {
        space = ckci_saturating_mul(space, ckci_max(k->o.t.len[i], 1));
        reach = ckci_saturating_add(reach, ckci_saturating_mul(k->o.t.len[i], k->o.t.stride[i]));
    }
    reach = ckci_saturating_add(reach, ckci_saturating_mul(m->tile_m / space + 2, k->o.t.stride[1]));
    k->work = k->workers = (int32_t)m->l.grid;
    if (ckci_matrix_grouped(device, m) && side > 0) {
        k->o_vec = k->o_vec && reach <= INT32_MAX;
        m->l.grid = ckci_min(m->l.grid, side);
        k->workers = (int32_t)m->l.grid;
    }
}

CKCI_FN ckconv_status ckci_matrix_gather(const ckci_conv *p, const ckconv_device *device,
                                         ckconv_family family, int32_t tile, int64_t limit, unsigned char *ws,
                                         ckci_matrix *m, double *cost, ckconv_error *err)
{
    CKCI_TRY(ckci_matrix_start(p, device, family, tile, m, err));
    ckci_conv *c = &m->conv;
    ckci_gpu_conv *k = &m->l.a.conv;
    int back = p->op == CKCONV_BWD_DATA, which = back ? CKCI_OUT : CKCI_IN;
    ckci_tensor *read = &c->t[which], *w = &c->t[CKCI_WEI];
    const char *what = back ? "dout" : "in";
    ckconv_dtype type = m->type;
    int64_t before = back ? c->k : c->c, positions, pad;
    CKCI_TRY(ckci_matrix_data(m, which, what, device, limit, ws, err));
    CKCI_TRY(ckci_gpu_takes(c, err));
    int64_t red = back ? c->k : c->c;
    ckci_image(c, &positions, &pad);
    CKCI_TRY(ckci_matrix_reach(read, what, m->tile_m / positions + 2, pad, err));
    int as_is = m->merge == 1 && red == before;
    int64_t size = (int64_t)ckci_size(ckci_matrix_stored(type));
    int across = back && family == CKCONV_FAMILY_MMA && size == 2 && as_is && red % 64 == 0 &&
                 ckci_matrix_reads(w, "wei", type, c->c, NULL) == CKCONV_OK;
    if (!across && (!as_is || w->stride[back ? 1 : 2] != 1 || ckci_matrix_reads(w, "wei", type, red, NULL))) {
        m->pack = 1;
        ckci_packed_weights(c, type, NULL, w);
        CKCI_TRY(ckci_matrix_take(m, ckci_saturating_mul(ckci_count(w), size), limit, ws, &w->p, err));
        m->packing += 6e5;
    }
    if (ckci_count(w) > INT32_MAX / 4) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "matrix tiles take 2^29 weights; here %lld",
                         CKCI_LL(ckci_count(w)));
    }
    int64_t reach = ckci_saturating_mul(m->tile_n, w->stride[back ? 2 : 1]);
    reach = ckci_saturating_add(reach, ckci_saturating_mul(red, w->stride[back ? 1 : 2]));
    for (int i = 3; i < 6; i++) {
        reach = ckci_saturating_add(reach, ckci_saturating_mul(w->len[i], w->stride[i]));
    }
    if (ckci_saturating_mul(reach, size) > INT32_MAX) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "matrix tiles take 2^31 bytes of weights for a block's columns; here they reach over more");
    }
    ckci_make_gpu_conv(c, k);
    CKCI_TRY(ckci_matrix_taps(c, &k->ranges, err));
    ckci_set_kernel(&m->l, ckci_matrix_kernel(p->op, type, across, tile));
    k->tiles_m = (int32_t)ckci_max(ckci_ceil_div(k->rows, m->tile_m), 1);
    k->tiles_n = (int32_t)ckci_ceil_div(k->columns, m->tile_n);
    k->o_vec = ckci_aligned_columns(&k->o.t, k->columns);
    k->taps_inside = red * size % (family == CKCONV_FAMILY_MMA ? 128 : 64) == 0;
    const ckci_architecture *row = ckci_find_architecture(device->arch);
    if (tile == 256256 && (!k->taps_inside || k->ranges || !row || row->quirk == CKCI_QUIRK_NO_256)) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "this tile takes channels in multiples of 32 and filters of 31 taps (summed), not on "
            "gfx950; here %lld channels on %s",
            CKCI_LL(red), device->arch);
    }
    CKCI_TRY(ckci_make_grid(k, ckci_saturating_mul(k->phases, k->g), &m->l, err));
    k->stream = ckci_matrix_grouped(device, m) && ckci_matrix_streams(k);
    *cost = ckci_matrix_cost(device, m, m->l.grid, ckci_reduction(k, (double)red)) + m->packing;
    ckci_matrix_workers(device, m);
    return CKCONV_OK;
}

/* Packs the weights of problem p, as m's kernel reads them. amd: for such a device. */
CKCI_FN void ckci_make_pack(const ckci_conv *p, const ckci_matrix *m, int amd, ckci_launch *l)
{
    ckci_gpu_pack *k = &l->a.pack;
    int back = p->op == CKCONV_BWD_DATA;
    const ckci_conv *c = &m->conv;
    const ckci_tensor *w = &c->t[CKCI_WEI];
    memset(k, 0, sizeof *k);
    ckci_set_kernel(l, CKCI_KERNEL_pack);
    k->w = p->t[CKCI_WEI];
    k->dst = w->p;
    k->type = w->dtype;
    k->columns = (int32_t)(back ? m->conv.c : m->conv.k);
    k->red = (int32_t)(back ? m->conv.k : m->conv.c);
    k->merge = (int32_t)m->merge;
    k->column = k->w.stride[back ? 2 : 1];
    k->step = k->w.stride[back ? 1 : 2];
    k->taps[0] = (int32_t)c->filter[0];
    k->taps[1] = (int32_t)c->filter[1];
    k->taps[2] = (int32_t)c->filter[2];
    k->pairs = m->pairs;
    k->shift = m->shift;
    k->filter_x = (int32_t)p->filter[2];
    k->count = (int32_t)(ckci_count(w) / 2);
    k->low = m->terms - 1;
    k->by_term = ckci_make_divisor(k->red / m->terms);
    k->by_red = ckci_make_divisor(k->red / 2);
    k->by_taps = ckci_make_divisor(c->filter[0] * c->filter[1] * c->filter[2]);
    k->by_columns = ckci_make_divisor(k->columns);
    k->by_one_column = ckci_make_divisor(k->columns / m->merge);
    k->by_one_red = ckci_make_divisor(back ? p->k : p->c);
    k->by_x = ckci_make_divisor(c->filter[2]);
    k->by_y = ckci_make_divisor(c->filter[1]);
    l->grid = ckci_ceil_div(k->count, 256);
    if (amd && ckci_size(k->type) == 2 && m->merge == 1 && k->column == 1 && k->step > 1 && !m->pairs &&
        c->k == p->k && c->c == p->c) {
        int64_t columns = ckci_ceil_div(k->columns, 64), red = ckci_ceil_div(k->red, 64);
        int64_t blocks = ckci_saturating_mul(columns * red, m->conv.g * (int64_t)k->by_taps.d);
        if (blocks <= INT32_MAX) {
            ckci_set_kernel(l, CKCI_KERNEL_pack_turn);
            k->by_one_column = ckci_make_divisor(columns);
            k->by_one_red = ckci_make_divisor(red);
            l->grid = blocks;
        }
    }
}

/* The packing of `which`; p: groups merged, everything else as the caller sees it. */
CKCI_FN void ckci_make_pack_data(const ckci_conv *p, const ckci_matrix *m, int which, ckci_launch *l)
{
    ckci_gpu_pack_data *k = &l->a.data;
    const ckci_tensor *to = &m->conv.t[which];
    int weight = p->op == CKCONV_BWD_WEIGHT;
    memset(k, 0, sizeof *k);
    ckci_set_kernel(l, CKCI_KERNEL_pack_data);
    k->t = p->t[which];
    k->dst = to->p;
    k->type = to->dtype;
    k->pairs = which == CKCI_IN && m->pairs;
    k->channels = (int32_t)k->t.len[2];
    k->padded = (int32_t)(to->len[2] / (weight ? 1 : m->terms));
    k->groups = (int32_t)to->len[0];
    k->wide = (int32_t)k->t.len[5];
    k->positions = (int32_t)(k->t.len[1] * to->len[3] * to->len[4] * to->len[5]);
    k->terms = m->terms;
    k->low = weight && which == CKCI_OUT ? 2 : 1;
    k->pitch = (int32_t)to->len[2];
    k->term_step = weight ? k->t.len[1] * to->stride[1] : k->padded;
    k->along = k->t.stride[2] <= k->t.stride[5];
    k->log_c = k->padded <= 8 ? 3 : k->padded <= 16 ? 4 : 5;
    k->tiles_c = (int32_t)ckci_ceil_div(k->padded, (int64_t)1 << k->log_c);
    k->by_tiles_c = ckci_make_divisor(k->tiles_c);
    k->by_groups = ckci_make_divisor(k->groups);
    k->by_x = ckci_make_divisor(to->len[5]);
    k->by_y = ckci_make_divisor(to->len[4]);
    k->by_z = ckci_make_divisor(to->len[3]);
    l->grid =
        ckci_saturating_mul(ckci_ceil_div(k->positions, 2048 >> k->log_c), (int64_t)k->tiles_c * k->groups);
}

/* The launches of a plan: what is packed, and the product. */
CKCI_FN ckconv_status ckci_emit_packed(const ckconv_plan *plan, const ckci_problem *p, const ckci_matrix *m,
                                       const ckci_emitter *e, ckconv_error *err)
{
    ckci_launch pack;
    ckci_conv merged = p->conv;
    ckci_merge_groups(&merged, m->merge);
    if (m->l.grid == 0) {
        return CKCONV_OK;
    }
    if (m->pack) {
        ckci_make_pack(&p->conv, m, plan->device.kind == CKCONV_DEVICE_AMD, &pack);
        CKCI_TRY(e->emit(e->context, &pack, err));
    }
    for (int i = 0; i < 3; i++) {
        if (m->data[i]) {
            ckci_make_pack_data(&merged, m, i, &pack);
            CKCI_TRY(e->emit(e->context, &pack, err));
        }
    }
    return e->emit(e->context, &m->l, err);
}

/* So many launches are a plan's, without the sum of parts. */
CKCI_FN int32_t ckci_packed_launches(const ckci_matrix *m)
{
    return 1 + m->pack + m->data[0] + m->data[1] + m->data[2];
}


/*------------------------------------------------------------------------------------------------------------
  >>g-near
  Small groups: blocks of 16 or 32 channels, 64 side by side; see ckci_k_near in kernels.matrix.hip.h.
*/

/* May near take the problem? The groups of a block are merged. In bwd_weight one side may have more channels
   than the other: blocks are for 64 channels of the wider one. */
CKCI_FN ckconv_status ckci_near_start(const ckci_conv *p, const ckconv_device *device, ckconv_family family,
                                      ckci_matrix *m, ckconv_error *err)
{
    int weight = p->op == CKCONV_BWD_WEIGHT;
    int64_t more = ckci_max(p->k, p->c), less = ckci_max(ckci_min(p->k, p->c), 1);
    int64_t block = less > 16 ? 32 : 16, merge = ckci_max(block / ckci_max(more, 1), 1);
    int fits = weight ? more <= 32 && (more & (more - 1)) == 0 && (less & (less - 1)) == 0 && more > 0
                      : more == less && more > 1 && merge * more == block;
    CKCI_TRY(ckci_matrix_start(p, device, family, 64064, m, err));
    if (!fits || p->g % merge != 0) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "near takes groups of 2, 4, 8, 16 or 32 channels on both sides (bwd_weight: also of 1, and "
            "K other than C) that fill blocks of 16 or 32; here K is %lld, C %lld, G %lld",
            CKCI_LL(p->k), CKCI_LL(p->c), CKCI_LL(p->g));
    }
    int touch = ckci_groups_touch(&p->t[CKCI_IN]) && ckci_groups_touch(&p->t[CKCI_OUT]);
    for (int i = 0; i < p->num_d && !weight; i++) {
        touch = touch && ckci_groups_touch(&p->d[i]);
    }
    int steps = p->stride[0] > 1 || p->stride[1] > 1 || p->stride[2] > 1;
    if (p->filter[1] * p->filter[2] > 9 || device->lds_bytes < 65536 || (p->op == CKCONV_BWD_DATA && steps) ||
        m->terms > 1 || !touch) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "near takes up to 9 taps in a plane, no stride in bwd_data, channels of all groups side by "
            "side, and 64 KiB of LDS");
    }
    m->conv = *p;
    m->merge = merge;
    ckci_merge_groups(&m->conv, merge);
    return CKCONV_OK;
}

/* fwd and bwd_data of filters of several planes: by near_deep */
CKCI_FN int ckci_near_deep(const ckci_conv *c)
{
    return c->op != CKCONV_BWD_WEIGHT && c->filter[0] > 1;
}

/* Pixels along a dimension of so many positions and their taps. */
CKCI_FN int64_t ckci_near_span(const ckci_conv *c, const ckci_gpu_conv *k, int dim, int64_t positions)
{
    return (positions - 1) * k->dim[dim].read_step + (c->filter[dim] - 1) * c->dilation[dim] + 1;
}

/* Sizes of a region and how it lies in LDS. Rows and images are so far apart there that positions lie 16
   bytes further each, modulo 128, across the ends of rows. 0: it is larger than LDS. */
CKCI_FN int ckci_near_shape(const ckci_conv *c, const ckconv_device *device, ckci_gpu_conv *k, int64_t images,
                            int64_t rows, int64_t columns)
{
    ckci_gpu_near *q = &k->as.region;
    int nvidia = device->kind == CKCONV_DEVICE_NVIDIA, weight = c->op == CKCONV_BWD_WEIGHT;
    int64_t bytes = nvidia ? CKCI_NEAR_NVIDIA_BYTES : CKCI_NEAR_AMD_BYTES;
    int64_t most = nvidia ? CKCI_NEAR_NVIDIA_PIXELS : CKCI_NEAR_AMD_PIXELS;
    int64_t high = ckci_near_span(c, k, 1, rows), wide = ckci_near_span(c, k, 2, columns);
    if (high > most || wide > most || images * high * wide > most) {
        return 0;
    }
    int64_t lines = q->rolled ? 1 : rows;
    int64_t row = wide * (CKCI_NEAR_PITCH / 16), image;
    row += q->rolled ? 0 : (columns * k->dim[2].read_step - row) & 7;
    image = high * row;
    image += (lines * columns * k->dim[2].read_step - image) & 7;
    q->images = (int32_t)images;
    q->rows = q->chunk = (int32_t)rows;
    q->columns = (int32_t)columns;
    q->lines = (int32_t)lines;
    q->tiles = (int32_t)ckci_ceil_div(images * lines * columns, 16);
    q->high = (int32_t)high;
    q->wide = (int32_t)wide;
    q->row_pitch = (int32_t)(row * 16);
    q->image_pitch = (int32_t)(image * 16);
    q->bytes = (int32_t)(images * image * 16);
    int64_t behind = weight ? (int64_t)q->tiles * 16 * CKCI_NEAR_PITCH
                     : nvidia && ckci_near_deep(c)
                         ? ((int64_t)16 << q->log_sides) * (c->filter[1] * c->filter[2] * c->k * 2 + 20)
                         : 0;
    return q->bytes + behind <= bytes - 128;
}

/* What near's time counts beside that of tiles, whose costs are less than half of what they take where groups
   are merged. */
#define CKCI_NEAR_BESIDE 0.45

/* Nanoseconds that a block takes for a region while another shares its compute unit. */
CKCI_FN double ckci_near_cost(const ckci_conv *c, const ckci_gpu_near *q)
{
    double pixels = (double)q->images * q->high * q->wide,
           positions = (double)q->images * q->rows * q->columns;
    if (q->rolled) {
        int64_t chunks = ckci_ceil_div(q->rows, q->chunk);
        double steps = (q->rows + 2) * (20 + 1.5 * (double)c->k) + q->rows * 25;
        pixels = (double)q->images * (q->rows + 2) * q->wide;
        return 5 * ((double)chunks * 180 + 80 + pixels * 0.36 +
                    (double)ckci_ceil_div(q->tiles, 2) * (120 + steps));
    }
    if (ckci_near_deep(c)) { /* as timed on an H200 */
        double tiles = (double)ckci_ceil_div((int64_t)q->tiles << q->log_sides, 8);
        double weights = (double)(q->taps << q->log_sides) * (double)c->k;
        return q->planes * (1480 + 4 * pixels + tiles * (double)c->k * 24 + weights * 0.56);
    }
    return 2 * (250 + pixels * 1.5 + positions * 11.2 + (double)q->tiles * (double)ckci_max(c->k, c->c) * 2);
}

/* No region of so many images, rows and columns, or chunk of rows, takes less (taller regions have as many
   chunks in all): planning again at each run has no time to look at all of them. */
CKCI_FN double ckci_near_least(const ckci_conv *c, int rolled, int64_t images, int64_t rows, int64_t columns)
{
    double positions = (double)(images * rows * columns);
    if (rolled) {
        double tiles = (double)((images * columns + 15) / 16);
        return 5 * (180 + positions * 0.36 + tiles / 2 * (double)rows * (45 + 1.5 * (double)c->k));
    }
    return ckci_near_deep(c) ? (double)c->filter[0] * (1480 + 4 * positions) : 2 * (250 + positions * 12.7);
}

/* The next smaller size of regions that covers `all` with no more to spare than needed; 0: there is none. */
CKCI_FN int64_t ckci_near_less(int64_t all, int64_t size)
{
    return size > 1 ? ckci_ceil_div(all, ckci_ceil_div(all, size - 1)) : 0;
}

/* Chooses the regions of a problem: the cheapest that LDS holds. c: groups merged; side: blocks for a slice
   of channels. */
CKCI_FN ckconv_status ckci_near_regions(const ckci_conv *c, const ckconv_device *device, int64_t side,
                                        ckci_gpu_conv *k, double *cost, ckconv_error *err)
{
    int64_t deep = ckci_max(k->dim[0].length, 1);
    int64_t high = ckci_max(k->dim[1].length, 1), wide = ckci_max(k->dim[2].length, 1);
    int rolled = k->as.region.rolled, nvidia = device->kind == CKCONV_DEVICE_NVIDIA;
    int64_t lanes = nvidia ? CKCI_NEAR_NVIDIA_POSITIONS : CKCI_NEAR_AMD_POSITIONS;
    if (nvidia && ckci_near_deep(c) && k->as.region.log_sides == 2) {
        lanes /= 2; /* a wave's sums: four tiles */
    }
    ckci_gpu_near best;
    memset(&best, 0, sizeof best);
    int64_t over = ckci_ceil_div(wide, lanes);
    for (int64_t x = ckci_ceil_div(wide, over); x > 0; x = ckci_near_less(wide, x)) {
        int64_t down = rolled ? 1 : ckci_ceil_div(high, lanes / x);
        for (int64_t y = ckci_ceil_div(high, down); y > 0; y = ckci_near_less(high, y)) {
            over = ckci_ceil_div(wide, x);
            down = ckci_ceil_div(high, y);
            int64_t line = rolled ? 1 : y, most = 1;
            if (over == 1 && (rolled || down == 1)) {
                most = ckci_max(ckci_min(c->n, lanes / (x * line)), 1);
            }
            for (int64_t n = most; n > 0; n--) {
                int64_t images = ckci_ceil_div(ckci_max(c->n, 1), n);
                double parts = (double)images * (double)deep * (double)over * (double)down;
                if ((best.images && parts * ckci_near_least(c, rolled, n, y, x) >= *cost * (double)side) ||
                    !ckci_near_shape(c, device, k, n, y, x)) {
                    continue;
                }
                /* the waves' way down: of one chunk, or on through several ones of up to all rows */
                int64_t ways = rolled && nvidia && k->as.region.plain && k->as.region.tiles <= 2 ? down : 1;
                for (int64_t way = 1; way <= ways; way = way < ways ? ckci_min(2 * way, ways) : ways + 1) {
                    int64_t tall = ckci_min(ckci_ceil_div(high, ckci_ceil_div(ways, way)), high);
                    k->as.region.rows = (int32_t)(way == 1 ? y : ckci_ceil_div(tall, y) * y);
                    int64_t regions = ckci_saturating_mul(
                        ckci_saturating_mul(images, deep),
                        ckci_saturating_mul(over, ckci_ceil_div(high, k->as.region.rows)));
                    double time = (double)ckci_ceil_div(regions, side) * ckci_near_cost(c, &k->as.region);
                    if (regions <= INT32_MAX && (best.images == 0 || time < *cost)) {
                        best = k->as.region;
                        best.regions = (int32_t)regions;
                        *cost = time;
                    }
                }
            }
        }
    }
    k->as.region = best;
    return best.images ? CKCONV_OK
                       : ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                                   "near holds a position and its taps in LDS; these are too far apart");
}

/* The walk over regions: everything that the kernels read of it. blocks: for a slice; 0: the planner's. */
CKCI_FN ckconv_status ckci_near_walk(const ckci_conv *c, const ckconv_device *device, int64_t blocks,
                                     ckci_gpu_conv *k, double *cost, ckconv_error *err)
{
    ckci_gpu_near *q = &k->as.region;
    int back = c->op == CKCONV_BWD_DATA, weight = c->op == CKCONV_BWD_WEIGHT;
    int64_t first[3];
    k->tiles_n = (int32_t)ckci_max(ckci_ceil_div(c->g * ckci_max(c->k, c->c), 64), 1);
    k->by_tiles_n = ckci_make_divisor(k->tiles_n);
    int once = device->kind == CKCONV_DEVICE_NVIDIA && c->k == 32 && !weight && c->filter[0] == 1;
    q->planes = (int32_t)c->filter[0];
    q->taps = (int32_t)(c->filter[1] * c->filter[2]);
    q->by_planes = ckci_make_divisor(q->planes);
    int64_t side = (once ? 1 : 2) * (int64_t)ckci_max(device->compute_units, 1) / k->tiles_n;
    side = ckci_max(weight ? side / q->planes : side, 1);
    if (weight) {
        int64_t positions = c->n * c->output[0] * c->output[1] * c->output[2];
        side = ckci_max(side, device->kind == CKCONV_DEVICE_NVIDIA
                                  ? ckci_sum_parts(device, positions)
                                  : ckci_ceil_div(positions, CKCI_SUM_WHOLE)); /* no pieces there */
    }
    /* RDNA 3's operands are large: it holds the weights of 16 channels, and no more */
    q->rolled = !weight && q->planes == 1 && c->filter[1] == 3 && c->filter[2] == 3 && c->dilation[1] == 1 &&
                c->dilation[2] == 1 && k->dim[1].read_step == 1 &&
                (c->k == 16 || ckci_matrix_unit(device) != CKCI_UNIT_RDNA3);
    q->channels = (int32_t)(c->g * c->k);
    q->channels_in = (int32_t)(c->g * c->c);
    q->less_in = q->less_out = 0;
    for (int64_t more = c->k; more > c->c; more /= 2) {
        q->less_in++;
    }
    for (int64_t more = c->c; more > c->k; more /= 2) {
        q->less_out++;
    }
    q->log_sides = q->channels <= 16 ? 0 : q->channels <= 32 ? 1 : 2;
    CKCI_TRY(ckci_near_regions(c, device, blocks ? blocks : side, k, cost, err));
    q->parts = (int32_t)ckci_min(blocks ? blocks : side, q->regions);
    int64_t each = (int64_t)q->images * q->rows * q->columns,
            most = ckci_ceil_div(q->regions, ckci_max(q->parts, 1));
    k->chain = weight ? ckci_sum_items(device, most, each) : 0;
    if (k->chain && device->kind != CKCONV_DEVICE_NVIDIA && most * each > 2 * CKCI_SUM_WHOLE) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "near sums up to %d positions in a part; here split_k of %d leaves %lld",
                         (int)CKCI_SUM_WHOLE, (int)q->parts, CKCI_LL(most * each));
    }
    for (int i = 0; i < 3; i++) {
        int64_t reach = (c->filter[i] - 1) * c->dilation[i];
        first[i] = back ? c->pad[i] - reach : -c->pad[i];
    }
    q->first_z = (int32_t)first[0];
    q->first_y = (int32_t)first[1];
    q->first_x = (int32_t)first[2];
    q->back = back;
    for (int32_t t = 0; t < q->taps; t++) {
        int32_t at =
            back && ckci_near_deep(c) ? q->taps - 1 - t : t; /* in the order of the weights, not of pixels */
        int64_t y = at / c->filter[2], x = at % c->filter[2];
        q->tap[t] = (int32_t)(y * c->dilation[1] * q->row_pitch + x * c->dilation[2] * CKCI_NEAR_PITCH);
    }
    q->by_wide = ckci_make_divisor(q->wide);
    q->by_high = ckci_make_divisor(q->high);
    q->by_columns = ckci_make_divisor(q->columns);
    q->by_rows = ckci_make_divisor(q->lines);
    q->by_regions_x = ckci_make_divisor(ckci_ceil_div(k->dim[2].length, q->columns));
    q->by_regions_y = ckci_make_divisor(ckci_ceil_div(k->dim[1].length, q->rows));
    q->by_regions_z = ckci_make_divisor(k->dim[0].length);
    return CKCONV_OK;
}

/* fwd and bwd_data */
CKCI_FN ckconv_status ckci_near_gather(const ckci_conv *p, const ckconv_device *device, ckconv_family family,
                                       int64_t limit, unsigned char *ws, ckci_matrix *m, double *cost,
                                       ckconv_error *err)
{
    CKCI_TRY(ckci_near_start(p, device, family, m, err));
    ckci_conv *c = &m->conv;
    ckci_gpu_conv *k = &m->l.a.conv;
    int back = p->op == CKCONV_BWD_DATA;
    ckci_tensor *read = &c->t[back ? CKCI_OUT : CKCI_IN], *w = &c->t[CKCI_WEI];
    const char *what = back ? "dout" : "in";
    int64_t block = c->k, space, span;
    ckci_image(c, &space, &span);
    CKCI_TRY(ckci_matrix_reads(read, what, m->type, block, err));
    ckci_tensor native = *w;
    m->pack = 1;
    /* several planes on NVIDIA: turned on the way from LDS */
    int turn = back && p->filter[0] > 1 && device->kind == CKCONV_DEVICE_NVIDIA;
    c->op = turn ? CKCONV_FWD : p->op;
    ckci_packed_weights(c, m->type, NULL, w);
    c->op = p->op;
    if (m->merge == 1 && native.plain && native.dtype == w->dtype && (uintptr_t)native.p % 16 == 0 &&
        memcmp(native.stride, w->stride, sizeof native.stride) == 0) {
        *w = native; /* they lie like that */
        m->pack = 0;
    } else {
        turn = 0;
        ckci_packed_weights(c, m->type, NULL, w);
    }
    /* blocks of NVIDIA put weights in order themselves, if these are few or eight of them are a load */
    int own = m->pack && device->kind == CKCONV_DEVICE_NVIDIA && native.plain && native.dtype == w->dtype;
    int eights = p->c % 8 == 0 && native.stride[2] == 1;
    for (int i = 0; i < 6; i++) {
        eights = eights && (i == 2 || native.stride[i] % 8 == 0);
    }
    own = own && p->filter[0] == 1 && (eights || p->c <= 16);
    if (own) {
        m->pack = 0;
        *w = p->t[CKCI_WEI];
    }
    if (m->pack) {
        CKCI_TRY(ckci_matrix_take(m, ckci_saturating_mul(ckci_count(w), 2), limit, ws, &w->p, err));
    }
    ckci_make_gpu_conv(c, k);
    k->as.region.packed = !own && !turn;
    k->as.region.eights = own && eights && (uintptr_t)native.p % 16 == 0;
    k->as.region.by_taps = ckci_make_divisor(p->filter[1] * p->filter[2]);
    k->as.region.by_filter_x = ckci_make_divisor(p->filter[2]);
    k->by_one_c = ckci_make_divisor(p->c);
    k->o_vec = ckci_aligned_columns(&k->o.t, k->columns);
    ckconv_dtype type = k->o.t.dtype;
    k->as.region.plain = k->o_vec && k->o.t.op.kind == CKCONV_PASS && !k->o.scale && !k->o.shift &&
                         !k->o.compute && type == m->type;
    CKCI_TRY(ckci_near_walk(c, device, 0, k, cost, err));
    ckci_set_kernel(&m->l, (k->as.region.rolled ? CKCI_KERNEL_matrix_near_down_16
                            : ckci_near_deep(c) ? CKCI_KERNEL_matrix_near_deep_16
                                                : CKCI_KERNEL_matrix_near_16) +
                               (block == 32));
    CKCI_TRY(ckci_matrix_reach(read, what, k->as.region.images + 1, span, err));
    CKCI_TRY(ckci_matrix_reach(&k->o.t, back ? "din" : "out", k->as.region.images + 1, 0, err));
    m->l.grid = k->rows == 0 ? 0 : (int64_t)k->as.region.parts * k->tiles_n;
    /* on NVIDIA strips were timed: a block that has a compute unit for itself takes three quarters */
    *cost = ckci_near_deep(c) ? 1.67 * (*cost + 4000)
            : k->as.region.rolled && device->kind == CKCONV_DEVICE_NVIDIA
                ? (block == 32 ? 0.82 : 1.1) * *cost + 5000
                : 1.3 * *cost + 8000;
    *cost = 218 * CKCI_NEAR_BESIDE * (*cost + (m->pack ? 4500 : 0));
    return CKCONV_OK;
}

/* tile 0: near */
CKCI_FN ckconv_status ckci_matrix_either(const ckci_conv *p, const ckconv_device *device,
                                         ckconv_family family, int32_t tile, int64_t limit, unsigned char *ws,
                                         ckci_matrix *m, double *cost, ckconv_error *err)
{
    return tile == 0 ? ckci_near_gather(p, device, family, limit, ws, m, cost, err)
                     : ckci_matrix_gather(p, device, family, tile, limit, ws, m, cost, err);
}

CKCI_FN ckconv_status ckci_fit_matrix_gather(ckci_fit *f, ckconv_error *err)
{
    ckci_matrix m;
    CKCI_TRY(ckci_gpu_no_split(f, err));
    CKCI_TRY(ckci_gpu_wrong_kind(f, ckci_conv_kind(&f->p->conv), err));
    CKCI_TRY(ckci_matrix_either(&f->p->conv, &f->plan->device, f->family, f->tile, f->limit, NULL, &m,
                                &f->cost, err));
    ckci_plan_launch(f->plan, &m.l, ckci_packed_launches(&m));
    f->plan->workspace_bytes = m.bytes;
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_matrix_gather(const ckconv_plan *plan, const ckci_problem *p,
                                              const ckconv_args *args, unsigned char *ws, int32_t tile,
                                              const ckci_emitter *e, ckconv_error *err)
{
    ckci_matrix m;
    double cost;
    (void)args;
    if (ckci_matrix_either(&p->conv, &plan->device, ckci_matrix_family(&plan->device), tile,
                           ckci_run_limit(plan), ws, &m, &cost, NULL) != CKCONV_OK) {
        /* pointers less aligned than planned for */
        memset(&m, 0, sizeof m);
        m.merge = 1;
        CKCI_TRY(ckci_gpu_gather(&p->conv, &plan->device, 64, &m.l, &cost, err));
    }
    return ckci_emit_packed(plan, p, &m, e, err);
}


/*------------------------------------------------------------------------------------------------------------
  >>g-stem
  First layers (see ckci_k_stem_fwd and ckci_k_stem_back in kernels.matrix.hip.h).
*/

/* Is a tensor of channels last one row of numbers for each y, whole 16-byte chunks? */
CKCI_FN int ckci_stem_dense(const ckci_tensor *t, ckconv_dtype type)
{
    return t->dtype == type && t->compute == type && t->op.kind == CKCONV_PASS &&
           (t->stride[2] == 1 || t->len[2] == 1) && t->stride[5] == t->len[2] &&
           t->len[2] * t->len[5] % 8 == 0 && (t->len[4] == 1 || t->stride[4] % 8 == 0) &&
           (t->len[1] == 1 || t->stride[1] % 8 == 0) && (uintptr_t)t->p % 16 == 0;
}

/* Do its offsets inside an image fit 32 bits, in bytes? */
CKCI_FN int ckci_stem_near(const ckci_tensor *t, int64_t rows)
{
    int64_t reach = ckci_saturating_mul(t->stride[4], t->len[4] + rows);
    reach = ckci_saturating_add(reach, ckci_saturating_mul(t->stride[5], t->len[5] + rows));
    return ckci_saturating_mul(ckci_saturating_add(reach, t->stride[2] * t->len[2]), 2) <= INT32_MAX;
}

/* What stem kernels take. */
CKCI_FN ckconv_status ckci_stem_takes(const ckci_conv *p, const ckconv_device *device, ckconv_family family,
                                      ckconv_error *err)
{
    const ckci_tensor *in = &p->t[CKCI_IN], *out = &p->t[CKCI_OUT], *w = &p->t[CKCI_WEI];
    ckconv_dtype type = out->dtype;
    CKCI_TRY(ckci_need_unit(device, family, err));
    CKCI_TRY(ckci_gpu_takes(p, err));
    int weight = p->op == CKCONV_BWD_WEIGHT, back = p->op == CKCONV_BWD_DATA;
    if ((type != CKCONV_F16 && type != CKCONV_BF16) || in->dtype != type || (!weight && w->compute != type) ||
        (!weight && p->t[ckci_written(p->op)].op.kind != CKCONV_PASS)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "stem takes f16 or bf16 alone, and no operation on what it writes");
    }
    if (p->g != 1 || p->c > 4 || p->k % 16 != 0 || p->k > 128 || p->filter[0] * p->input[0] != 1 ||
        p->pad[0] != 0 || p->output[0] != 1 || p->dilation[2] != 1 ||
        (p->dilation[1] != 1 && p->op == CKCONV_BWD_DATA)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "stem takes one group with C up to 4 and K up to 128, a multiple of 16, in 1D or 2D "
                         "without dilation; here C is %lld, K %lld",
                         CKCI_LL(p->c), CKCI_LL(p->k));
    }
    int rows = back || ckci_stem_dense(in, type), chunks = ckci_aligned_columns(out, p->k);
    if (!rows || !chunks || (p->op != CKCONV_FWD && (out->compute != type || out->op.kind != CKCONV_PASS))) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "stem takes channels last, aligned to 16 bytes, with rows of `in` that are multiples "
            "of them");
    }
    int64_t beside = 0; /* bwd_data: phases are offsets, too */
    for (int i = 1; i < 3; i++) {
        beside = ckci_max(beside, p->filter[i] * p->dilation[i] + p->pad[i] + (back ? p->stride[i] : 0));
    }
    if (device->lds_bytes < (device->kind == CKCONV_DEVICE_NVIDIA ? 116224 : 65536) ||
        !ckci_stem_near(in, beside) || !ckci_stem_near(out, p->filter[1])) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "stem takes 64 KiB of LDS (NVIDIA: 113.5) and images of less than 2^31 bytes");
    }
    return CKCONV_OK;
}

/* Bytes of LDS of a tile of `high` rows of `wide` positions. */
CKCI_FN int64_t ckci_stem_bytes(const ckci_gpu_stem *k, int back, int64_t high, int64_t wide)
{
    if (back) {
        return (high + k->window[0] - 1) * (wide + k->window[1] - 1) * k->pitch;
    }
    int64_t numbers =
        k->left - k->pad[1] * k->c - k->odd + (wide - 1) * k->stride[1] * k->c + 2 * (int64_t)k->row_pairs;
    return ((high - 1) * k->stride[0] + (k->filter[0] - 1) * (int64_t)k->dilation_y + 1) *
           (ckci_ceil_div(numbers, 8) * 16);
}

/* The cheapest tile of the positions y and x, in cycles of a compute unit: products (`each` for 16
   positions), bytes that are staged, barriers. 0: none fits. */
CKCI_FN double ckci_stem_tile(ckci_gpu_stem *k, const ckconv_device *device, int back, int64_t y, int64_t x,
                              double each)
{
    int nvidia = device->kind == CKCONV_DEVICE_NVIDIA;
    int64_t most = back ? CKCI_STEM_BACK_PIXELS(nvidia) : CKCI_STEM_PIXELS(nvidia), before = 0;
    int64_t side = nvidia ? 2 : 1, sweep = device->wave_size == 64 ? 128 : 256;
    int64_t blocks = ckci_max(ckci_max(device->compute_units, 1) * side / k->tiles_n, 1);
    double least = 0;
    for (int64_t parts = 1; parts <= 1024; parts += parts < 24 ? 1 : parts / 2) {
        int64_t wide = ckci_ceil_div(x, parts);
        wide = parts > 1 && !back ? ckci_ceil_div(wide, 8) * 8 : wide;
        for (int64_t high = 1; high <= ckci_min(y, 32) && wide != before; high++) {
            int64_t bytes = ckci_stem_bytes(k, back, high, wide);
            if (bytes > most) {
                break;
            }
            int64_t tiles = ckci_ceil_div(y, high) * ckci_ceil_div(x, wide);
            int64_t rounds = ckci_ceil_div(ckci_saturating_mul(tiles, k->n), blocks);
            double cycles = (double)(ckci_ceil_div(high * wide, sweep) * (sweep / 16)) * each;
            cycles = (double)side * (double)rounds * (cycles + (double)bytes / 40 + 600);
            if (least == 0 || cycles < least) {
                least = cycles;
                k->tile[0] = (int32_t)high;
                k->tile[1] = (int32_t)wide;
            }
        }
        before = wide;
    }
    if (least > 0) {
        k->tiles[0] = (int32_t)ckci_ceil_div(y, k->tile[0]);
        k->tiles[1] = (int32_t)ckci_ceil_div(x, k->tile[1]);
        int64_t items = ckci_saturating_mul((int64_t)k->tiles[0] * k->tiles[1], k->n);
        k->items = (int32_t)ckci_min(items, INT32_MAX);
        k->blocks = (int32_t)ckci_min(blocks, items);
    }
    return least;
}

CKCI_FN void ckci_stem_start(const ckci_conv *p, ckci_gpu_stem *k)
{
    int back = p->op == CKCONV_BWD_DATA;
    memset(k, 0, sizeof *k);
    k->a = p->t[back ? CKCI_OUT : CKCI_IN];
    k->b = p->t[CKCI_WEI];
    k->o = p->t[back ? CKCI_IN : CKCI_OUT];
    k->type = p->t[CKCI_OUT].dtype;
    k->n = (int32_t)p->n;
    k->k = (int32_t)p->k;
    k->c = (int32_t)p->c;
    k->dilation_y = (int32_t)p->dilation[1];
    for (int i = 0; i < 2; i++) {
        k->filter[i] = (int32_t)p->filter[i + 1];
        k->input[i] = (int32_t)p->input[i + 1];
        k->output[i] = (int32_t)p->output[i + 1];
        k->stride[i] = (int32_t)p->stride[i + 1];
        k->pad[i] = (int32_t)p->pad[i + 1];
        k->window[i] = (int32_t)ckci_ceil_div(p->filter[i + 1], p->stride[i + 1]);
        k->first[i] = k->pad[i] / k->stride[i];
    }
    k->by_c = ckci_make_divisor(k->c);
    k->by_stride_x = ckci_make_divisor(k->stride[1]);
    k->by_window_x = ckci_make_divisor(k->window[1]);
}

CKCI_FN ckconv_status ckci_matrix_stem(const ckci_conv *p, const ckconv_device *device, ckconv_family family,
                                       ckci_launch *l, double *cost, ckconv_error *err)
{
    int back = p->op == CKCONV_BWD_DATA;
    ckci_gpu_stem *k = &l->a.stem;
    CKCI_TRY(ckci_stem_takes(p, device, family, err));
    ckci_stem_start(p, k);
    int64_t y = k->output[0], x = k->output[1], steps, chunks;
    if (back) {
        int64_t columns = p->stride[1] * p->stride[2] * p->c;
        steps = (int64_t)k->window[0] * k->window[1] * p->k / 16;
        if (columns > CKCI_STEM_COLUMNS ||
            ckci_ceil_div(columns, 16) * 16 * (steps * 32 + 16) > CKCI_STEM_WEIGHTS) {
            return ckci_fail(
                err, CKCONV_ERR_UNSUPPORTED,
                "stem takes strides whose product with C is up to %d in bwd_data, and weights that "
                "fill %d bytes of LDS",
                CKCI_STEM_COLUMNS, CKCI_STEM_WEIGHTS);
        }
        k->columns = (int32_t)columns;
        k->pitch = (int32_t)p->k * 2 + 16;
        k->row_pairs = (int32_t)p->k / 2;
        k->tiles_n = 1;
        chunks = p->k / 8;
        y = (k->input[0] - 1 + k->pad[0]) / k->stride[0] - k->first[0] + 1;
        x = (k->input[1] - 1 + k->pad[1]) / k->stride[1] - k->first[1] + 1;
    } else {
        k->odd = k->pad[1] * k->c % 2;
        k->left = (k->pad[1] * k->c + k->odd + 7) / 8 * 8;
        k->row_pairs = (k->odd + k->filter[1] * k->c + 1) / 2;
        steps = ckci_ceil_div((int64_t)k->filter[0] * k->row_pairs, 8);
        if (steps * 8 > CKCI_STEM_PAIRS || k->stride[1] * k->c % 2 != 0) {
            return ckci_fail(
                err, CKCONV_ERR_UNSUPPORTED,
                "stem takes filters of up to %d numbers, and a stride along x whose product with C "
                "is even",
                2 * CKCI_STEM_PAIRS);
        }
        k->tiles_n = (int32_t)ckci_ceil_div(p->k, 64);
        chunks = 0;
    }
    k->steps = (int32_t)steps;
    double each = (double)steps * (back ? 10 * (double)ckci_ceil_div(k->columns, 16) : 18);
    double cycles = ckci_stem_tile(k, device, back, y, x, each);
    if (y > 0 && x > 0 && k->n > 0 && cycles == 0) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "stem holds no tile of these pixels in LDS");
    }
    if (back) {
        k->rows = k->tile[0] + k->window[0] - 1;
    } else {
        int64_t wide = ckci_stem_bytes(k, 0, 1, k->tile[1]);
        k->rows = (k->tile[0] - 1) * k->stride[0] + (k->filter[0] - 1) * k->dilation_y + 1;
        k->pitch = (int32_t)(wide / ((k->filter[0] - 1) * k->dilation_y + 1));
        chunks = k->pitch / 16;
    }
    k->by_tile_x = ckci_make_divisor(k->tile[1]);
    k->by_tiles_x = ckci_make_divisor(k->tiles[1]);
    k->by_tiles_y = ckci_make_divisor(k->tiles[0]);
    k->by_tiles_n = ckci_make_divisor(k->tiles_n);
    k->by_pairs = ckci_make_divisor(steps * 8);
    k->by_row = ckci_make_divisor(k->row_pairs);
    k->by_chunks = ckci_make_divisor(chunks);
    k->by_wide = ckci_make_divisor(k->tile[1] + k->window[1] - 1);
    ckci_set_kernel(l, CKCI_KERNEL_matrix_stem_fwd + back);
    l->grid = (int64_t)k->blocks * k->tiles_n;
    *cost = 218 * (4000 + cycles / 1.7);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_fit_matrix_stem(ckci_fit *f, ckconv_error *err)
{
    ckci_launch l;
    CKCI_TRY(ckci_gpu_no_split(f, err));
    CKCI_TRY(ckci_gpu_wrong_kind(f, ckci_conv_kind(&f->p->conv), err));
    CKCI_TRY(ckci_matrix_stem(&f->p->conv, &f->plan->device, f->family, &l, &f->cost, err));
    ckci_plan_launch(f->plan, &l, 1);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_matrix_stem(const ckconv_plan *plan, const ckci_problem *p,
                                            const ckconv_args *args, unsigned char *ws, int32_t tile,
                                            const ckci_emitter *e, ckconv_error *err)
{
    ckci_launch l;
    double cost;
    (void)args;
    (void)ws;
    (void)tile;
    if (ckci_matrix_stem(&p->conv, &plan->device, ckci_matrix_family(&plan->device), &l, &cost, NULL) !=
        CKCONV_OK) { /* pointers less aligned than planned for */
        CKCI_TRY(ckci_gpu_gather(&p->conv, &plan->device, 64, &l, &cost, err));
    }
    return l.grid == 0 ? CKCONV_OK : e->emit(e->context, &l, err);
}

/* The tile of bwd_weight: as ckci_stem_tile, and its planes. */
CKCI_FN double ckci_stem_weight_tile(ckci_gpu_stem *k, const ckconv_device *device, int64_t blocks,
                                     double each)
{
    int nvidia = device->kind == CKCONV_DEVICE_NVIDIA;
    int64_t y = k->output[0], x = k->output[1], before = 0;
    double least = 0;
    for (int64_t parts = ckci_ceil_div(x, CKCI_STEM_POSITIONS(nvidia)), more = 0; more < 4; parts++, more++) {
        int64_t wide = ckci_ceil_div(x, ckci_max(parts, 1));
        wide = parts > 1 ? ckci_ceil_div(wide, 8) * 8 : wide;
        int64_t positions = ckci_ceil_div(wide, 16) * 16,
                length = positions + (k->filter[1] - 1) / k->stride[1];
        int64_t plane = ckci_ceil_div(length * 2 - 14, 128) * 128 + 16, pitch = 2 * k->planes * plane;
        int64_t chunks = ckci_ceil_div(k->left - k->pad[1] * k->c + (length / 2 * 2 + 3) * k->planes, 8);
        for (int64_t high = 1; high <= ckci_min(y, 16) && wide != before && wide > 0; high++) {
            int64_t rows = (high - 1) * k->stride[0] + (k->filter[0] - 1) * (int64_t)k->dilation_y + 1;
            if (rows * (pitch + chunks * 16) > CKCI_STEM_PLANES(nvidia) ||
                positions > CKCI_STEM_POSITIONS(nvidia)) {
                break;
            }
            int64_t tiles = ckci_ceil_div(y, high) * ckci_ceil_div(x, wide);
            int64_t rounds = ckci_ceil_div(ckci_saturating_mul(tiles, k->n), blocks);
            double cycles = (double)(high * positions / 16) * each + (double)(rows * length * k->planes) / 6;
            cycles = (double)rounds * (cycles + 800);
            if (least == 0 || cycles < least) {
                least = cycles;
                k->tile[0] = (int32_t)high;
                k->tile[1] = (int32_t)wide;
                k->rows = (int32_t)rows;
                k->length = (int32_t)length;
                k->plane = (int32_t)plane;
                k->pitch = (int32_t)pitch;
                k->chunks = (int32_t)chunks;
                k->tiles[0] = (int32_t)ckci_ceil_div(y, high);
                k->tiles[1] = (int32_t)ckci_ceil_div(x, wide);
                k->items = (int32_t)ckci_min(ckci_saturating_mul(tiles, k->n), INT32_MAX);
            }
        }
        before = wide;
    }
    return least;
}

/* bwd_weight: parts of the positions are the blocks that run side by side, or split_k. */
CKCI_FN ckconv_status ckci_stem_weight(const ckci_conv *p, const ckconv_device *device, ckconv_family family,
                                       int32_t split_k, int64_t limit, ckci_launch *l, int64_t *bytes,
                                       double *cost, ckconv_error *err)
{
    ckci_gpu_stem *k = &l->a.stem;
    CKCI_TRY(ckci_stem_takes(p, device, family, err));
    ckci_stem_start(p, k);
    k->a = p->t[CKCI_OUT];
    k->b = p->t[CKCI_IN];
    k->o = p->t[CKCI_WEI];
    int64_t columns = p->filter[1] * p->filter[2] * p->c, one = ckci_saturating_mul(columns * p->k, 4);
    k->columns = (int32_t)columns;
    k->tiles_c = (int32_t)ckci_ceil_div(columns, 160);
    k->tiles_n = (int32_t)ckci_ceil_div(p->k, 64);
    k->planes = k->stride[1] * k->c;
    k->left = (k->pad[1] * k->c + 7) / 8 * 8;
    int64_t shares = (int64_t)k->tiles_c * k->tiles_n;
    int64_t blocks = ckci_max(ckci_max(device->compute_units, 1) * 2 / shares, 1);
    int64_t positions = ckci_saturating_mul(p->n, p->output[1] * p->output[2]);
    blocks = ckci_max(blocks, ckci_sum_parts(device, positions));
    blocks = split_k > 0 ? split_k : ckci_max(ckci_min(blocks, limit / ckci_max(one, 1)), 1);
    double each = 90 * (double)ckci_ceil_div(ckci_min(columns, 160), 32) / 5;
    double cycles = ckci_stem_weight_tile(k, device, blocks, 2 * each);
    if (cycles == 0 && k->n > 0 && k->output[0] > 0 && k->output[1] > 0) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "stem holds no tile of these pixels in LDS");
    }
    blocks = ckci_max(ckci_min(blocks, k->items), 1);
    k->blocks = (int32_t)blocks;
    k->chain = ckci_sum_items(device, ckci_ceil_div(k->items, blocks), (int64_t)k->tile[0] * k->tile[1]);
    *bytes = ckci_saturating_mul(blocks, one);
    CKCI_TRY(ckci_sums_fit(split_k, *bytes, limit, err));
    if (one > INT32_MAX) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: 2^29 - 1 weights can be split",
                         (int)split_k);
    }
    k->by_tile_x = ckci_make_divisor(k->tile[1]);
    k->by_tiles_x = ckci_make_divisor(k->tiles[1]);
    k->by_tiles_y = ckci_make_divisor(k->tiles[0]);
    k->by_tiles_n = ckci_make_divisor(k->tiles_n);
    k->by_tiles_c = ckci_make_divisor(k->tiles_c);
    k->by_chunks = ckci_make_divisor(k->chunks);
    k->by_planes = ckci_make_divisor(k->planes);
    k->by_filter_x = ckci_make_divisor(k->filter[1]);
    ckci_set_kernel(l, CKCI_KERNEL_matrix_stem_bwd_weight);
    l->grid = blocks * shares;
    *cost = 218 * (10000 + cycles / 1.7);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_fit_stem_weight(ckci_fit *f, ckconv_error *err)
{
    ckci_launch l;
    int64_t bytes;
    CKCI_TRY(ckci_gpu_wrong_kind(f, ckci_conv_kind(&f->p->conv), err));
    CKCI_TRY(ckci_stem_weight(&f->p->conv, &f->plan->device, f->family, f->split_k, f->limit, &l, &bytes,
                              &f->cost, err));
    ckci_plan_launch(f->plan, &l, 2);
    f->plan->split_k = l.a.stem.blocks;
    f->plan->workspace_bytes = bytes;
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_stem_weight(const ckconv_plan *plan, const ckci_problem *p,
                                            const ckconv_args *args, unsigned char *ws, int32_t tile,
                                            const ckci_emitter *e, ckconv_error *err)
{
    ckci_launch l;
    int64_t bytes;
    double cost;
    (void)args;
    (void)tile;
    if (ckci_stem_weight(&p->conv, &plan->device, ckci_matrix_family(&plan->device), plan->split_k,
                         ckci_run_limit(plan), &l, &bytes, &cost, NULL) == CKCONV_OK) {
        l.a.stem.partial = ws;
        CKCI_TRY(e->emit(e->context, &l, err));
        int32_t split = l.a.stem.blocks;
        ckci_make_gpu_conv(&p->conv, &l.a.conv);
        ckci_set_kernel(&l, CKCI_KERNEL_matrix_stem_sum);
        l.a.conv.split = split;
        l.a.conv.o.partial = ws;
        l.grid = ckci_ceil_div((int64_t)l.a.conv.rows * l.a.conv.columns, 32);
        return e->emit(e->context, &l, err);
    }
    /* pointers less aligned than planned for */
    CKCI_TRY(ckci_gpu_weight(&p->conv, &plan->device, 64, plan->split_k, ckci_run_limit(plan), &l, &bytes,
                             &cost, err));
    l.a.conv.o.partial = bytes ? ws : NULL;
    CKCI_TRY(e->emit(e->context, &l, err));
    return l.a.conv.split > 1 ? ckci_emit_reduce(&p->conv, l.a.conv.split, NULL, ws, e, err) : CKCONV_OK;
}

/* What it costs to write the sums of `split` parts and to add them. */
CKCI_FN double ckci_sums_cost(const ckconv_device *device, int64_t split, int64_t bytes)
{
    double units = (double)ckci_max(device->compute_units, 1);
    double passes =
        device->kind == CKCONV_DEVICE_NVIDIA ? 1 : 2; /* there they are written into the L2 cache */
    return split > 1 ? 218 * (3000 + passes * (double)split * (double)bytes / (20 * units)) : 0;
}

/* Equal shares of all steps for the blocks that run side by side, with at most `split` parts of a tile: what
   it takes, or more than anything where it cannot be so. Blocks are not at the same positions at a time: only
   where the L2 cache keeps both tensors. */
CKCI_FN double ckci_matrix_share(const ckconv_device *device, const ckci_matrix *m, int64_t tiles,
                                 int64_t positions, int64_t split, ckci_gpu_share *share)
{
    const ckci_conv *c = &m->conv;
    int64_t steps = ckci_ceil_div(positions, 64), items = ckci_saturating_mul(tiles, steps);
    int64_t side =
        ckci_matrix_blocks(device, CKCONV_BWD_WEIGHT, m->tile_m, m->tile_n) * device->compute_units;
    int64_t bytes = ckci_saturating_mul(2, ckci_count(&c->t[CKCI_IN]) + ckci_count(&c->t[CKCI_OUT]));
    memset(share, 0, sizeof *share);
    if (!ckci_matrix_grouped(device, m) || m->merge > 1 || m->whole || side < 1 || side > items ||
        items > INT32_MAX || bytes > 32000000 ||
        (c->c * c->filter[0] * c->filter[1] * c->filter[2]) % 4 != 0) {
        return 1e300;
    }
    int64_t part = items / side, parts = (ckci_max(steps, 2) - 2) / part + 2;
    double size = (double)m->tile_m * m->tile_n, touched = ceil((double)part / (double)steps) + 1;
    if (parts > split) {
        return 1e300;
    }
    share->steps = (int32_t)steps;
    share->part = (int32_t)part;
    share->rest = (int32_t)(items % side);
    share->positions = (int32_t)positions;
    share->by_steps = ckci_make_divisor(steps);
    share->by_part = ckci_make_divisor(part);
    share->by_more = ckci_make_divisor(part + 1);
    share->by_rows = ckci_make_divisor(m->tile_m);
    share->by_columns = ckci_make_divisor(m->tile_n);
    return ckci_matrix_cost(device, m, side, 64. * (double)(part + 1)) +
           218 * (touched - 1) * (1700 + size * .125) +
           ckci_sums_cost(device, 2, (int64_t)((double)(side + tiles) * size * 2));
}

/* Positions of a piece of a part of so many; 0: all. */
CKCI_FN int32_t ckci_matrix_chain(const ckconv_device *device, int64_t part)
{
    return ckci_sum_items(device, part, 1);
}

/* Parts of the positions: such that the blocks fill one to eight rounds (AMD: halves of them also), or have
   equal shares; the cheapest. */
CKCI_FN int64_t ckci_matrix_split(const ckconv_device *device, const ckci_matrix *m, int64_t tiles,
                                  int64_t positions, int64_t bytes, int64_t limit)
{
    int64_t side = ckci_matrix_blocks(device, CKCONV_BWD_WEIGHT, m->tile_m, m->tile_n) *
                   ckci_max(device->compute_units, 1);
    int64_t pieces = device->kind == CKCONV_DEVICE_NVIDIA ? 1 : 2;
    int64_t best = 1, most = ckci_min(ckci_min(positions / 256, 1024), limit / ckci_max(bytes, 1));
    double least = 1e300;
    ckci_gpu_share share;
    for (int64_t rounds = 0; rounds <= 8 * pieces && bytes / 4 <= INT32_MAX; rounds++) {
        int64_t split = ckci_max(ckci_min(rounds * side / pieces / tiles, most), 1);
        double cost = ckci_matrix_cost(device, m, tiles * split, (double)ckci_ceil_div(positions, split)) +
                      ckci_sums_cost(device, split, bytes);
        if (cost < least) {
            least = cost;
            best = split;
        }
    }
    for (int64_t split = 2; split <= ckci_min(most, 4) && bytes / 4 <= INT32_MAX; split++) {
        double cost = ckci_matrix_share(device, m, tiles, positions, split, &share);
        if (cost < least) {
            least = cost;
            best = split;
        }
    }
    return best;
}

/* Depthwise: beside depthwise kernels' costs (see ckci_depth_waste; near takes 72 to 76 us for all of
   those). */
CKCI_FN double ckci_near_single(const ckci_conv *p, const ckconv_device *device)
{
    int timed =
        device->kind == CKCONV_DEVICE_NVIDIA && p->filter[0] == 1 && p->filter[1] == 3 && p->filter[2] == 3;
    for (int i = 0; i < 3; i++) {
        timed = timed && p->stride[i] == 1 && p->dilation[i] == 1;
    }
    double slices = (double)ckci_ceil_div(p->g, 64) * 64 / (double)ckci_max(p->g, 1);
    return ckci_depth_cost(p, device, 1.5) * (timed ? slices : 4) + 3.5e4;
}

/* bwd_weight; a part of the sums for each block of a slice. */
CKCI_FN ckconv_status ckci_near_weight(const ckci_conv *p, const ckconv_device *device, ckconv_family family,
                                       int32_t split_k, int64_t limit, unsigned char *ws, ckci_matrix *m,
                                       double *cost, ckconv_error *err)
{
    CKCI_TRY(ckci_near_start(p, device, family, m, err));
    ckci_conv *c = &m->conv;
    ckci_gpu_conv *k = &m->l.a.conv;
    int64_t space, span;
    ckci_image(c, &space, &span);
    int64_t one = ckci_saturating_mul(ckci_saturating_mul(p->g * p->k, p->c),
                                      ckci_saturating_mul(p->filter[0], p->filter[1] * p->filter[2]));
    ckci_tensor in = c->t[CKCI_IN], dout = c->t[CKCI_OUT]; /* their groups as one */
    ckci_merge_tensor(&in, in.len[0]);
    ckci_merge_tensor(&dout, dout.len[0]);
    CKCI_TRY(ckci_matrix_reads(&in, "in", m->type, in.len[2], err));
    CKCI_TRY(ckci_matrix_reads(&dout, "dout", m->type, dout.len[2], err));
    ckci_make_gpu_conv(c, k);
    ckci_set_kernel(&m->l, CKCI_KERNEL_matrix_near_weight_16 + (ckci_min(c->k, c->c) == 32));
    CKCI_TRY(ckci_near_walk(c, device, split_k, k, cost, err));
    CKCI_TRY(ckci_matrix_reach(&c->t[CKCI_IN], "in", k->as.region.images + 1, span, err));
    CKCI_TRY(ckci_matrix_reach(&c->t[CKCI_OUT], "dout", k->as.region.images + 1, 0, err));
    int64_t positions = c->n * c->output[0] * c->output[1] * c->output[2];
    int64_t bytes = ckci_saturating_mul(one, 4), parts = ckci_saturating_mul(bytes, k->as.region.parts);
    if (one > INT32_MAX || positions == 0 || one == 0) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "near takes up to 2^31 - 1 weights and some positions");
    }
    CKCI_TRY(ckci_matrix_take(m, parts, limit, ws, &k->o.partial, err));
    m->split = k->as.region.parts;
    m->fold = 1;
    k->by_one_k = ckci_make_divisor(p->k);
    k->by_one_c = ckci_make_divisor(p->c);
    m->l.grid = ckci_saturating_mul((int64_t)k->as.region.parts * k->tiles_n, k->as.region.planes);
    if (p->k * p->c == 1) {
        *cost = ckci_near_single(p, device);
        return CKCONV_OK;
    }
    double sums = ckci_sums_cost(device, m->split + 1, bytes);
    *cost = ckci_matrix_groups(device, m)
                ? 218 * (*cost > 12000 ? 0.62 * *cost - 7500 : 0) + 2.8 * sums /* measured beside tiles */
                : 218 * CKCI_NEAR_BESIDE * (*cost + 8000) + sums / 2;
    return CKCONV_OK;
}

/* bwd_weight. Parts of the reduction as in ckci_gpu_weight. tile 0: near */
CKCI_FN ckconv_status ckci_matrix_weight(const ckci_conv *p, const ckconv_device *device,
                                         ckconv_family family, int32_t tile, int32_t split_k, int64_t limit,
                                         unsigned char *ws, ckci_matrix *m, double *cost, ckconv_error *err)
{
    if (tile == 0) {
        return ckci_near_weight(p, device, family, split_k, limit, ws, m, cost, err);
    }
    CKCI_TRY(ckci_matrix_start(p, device, family, tile, m, err));
    if (m->whole && (p->t[CKCI_IN].op.kind != CKCONV_PASS || p->t[CKCI_OUT].op.kind != CKCONV_PASS)) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "i8 on matrix units takes no operation on what bwd_weight reads"); /* it would round */
    }
    ckci_conv *c = &m->conv;
    ckci_gpu_conv *k = &m->l.a.conv;
    int64_t real_k = c->k, real_c = c->c, space, pad;
    CKCI_TRY(ckci_matrix_data(m, CKCI_IN, "in", device, limit, ws, err));
    CKCI_TRY(ckci_matrix_data(m, CKCI_OUT, "dout", device, limit, ws, err));
    c->n = ckci_saturating_mul(c->n, m->terms);
    CKCI_TRY(ckci_gpu_takes(c, err));
    ckci_image(c, &space, &pad);
    int64_t positions = c->n * space;
    ckci_make_gpu_conv(c, k);
    CKCI_TRY(ckci_matrix_taps(c, &k->ranges, err));
    ckci_set_kernel(&m->l, ckci_matrix_kernel(p->op, m->type, 0, tile));
    k->tiles_m = (int32_t)ckci_ceil_div(k->rows, m->tile_m);
    k->tiles_n = (int32_t)ckci_ceil_div(k->columns, m->tile_n);
    k->by_phases = ckci_make_divisor(c->g);
    int64_t tiles = ckci_saturating_mul(ckci_saturating_mul(k->tiles_m, k->tiles_n), c->g);
    int64_t one = ckci_saturating_mul(ckci_saturating_mul(p->g, p->k),
                                      p->c * p->filter[0] * p->filter[1] * p->filter[2]);
    int64_t split = split_k, bytes = ckci_saturating_mul(one, m->type == CKCONV_F64 ? 8 : 4);
    int64_t least = m->whole ? ckci_ceil_div(positions, CKCI_WHOLE_PART) : 1;
    if (split == 0) {
        int64_t room = (limit - m->bytes) / ckci_max(bytes, 1);
        split = ckci_matrix_split(device, m, tiles, positions, bytes, limit - m->bytes);
        split = ckci_max(split, ckci_min(ckci_sum_parts(device, positions), one > INT32_MAX ? 1 : room));
        split = ckci_max(split, least);
    }
    split = ckci_max(ckci_min(split, positions), 1);
    if (split < least || least > CKCI_MOST_PARTS) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "i8 on matrix units adds parts of %d positions: split_k %lld at least, here %lld (up to "
            "%d)",
            (int)CKCI_WHOLE_PART, CKCI_LL(least), CKCI_LL(split), (int)CKCI_MOST_PARTS);
    }
    k->chain = m->whole ? 0 : ckci_matrix_chain(device, ckci_ceil_div(positions, split));
    /* one part is the weights themselves, or what they come of */
    int adds = k->chain && !CKCI_MATRIX_FAR(ckci_size(ckci_matrix_stored(m->type)), m->tile_m, m->tile_n);
    int here = adds && split == 1 && k->o.t.dtype == CKCONV_F32 && ckci_weights_as_sums(&k->o.t);
    m->fold = split > 1 || m->whole || (adds && !here);
    if (here) {
        k->o.partial = k->o.t.p;
    }
    if (m->fold) {
        if (one > INT32_MAX) {
            return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "2^31 - 1 weights can be split; here %lld",
                             CKCI_LL(one));
        }
        CKCI_TRY(ckci_matrix_take(m, ckci_saturating_mul(split, bytes), limit, ws, &k->o.partial, err));
    }
    m->split = k->split = (int32_t)split;
    k->float_parts = m->whole;
    k->o_vec = k->o.partial || ckci_weights_as_sums(&k->o.t);
    k->part = (int32_t)(positions / split);
    k->part_rest = (int32_t)(positions % split);
    int64_t images = k->part / ckci_max(space, 1) + 2;
    CKCI_TRY(ckci_matrix_reach(&c->t[CKCI_IN], "in", images, pad, err));
    CKCI_TRY(ckci_matrix_reach(&c->t[CKCI_OUT], "dout", images, 0, err));
    k->merge = m->merge > 1 || c->k != real_k || c->c != real_c ? (int32_t)m->merge : 0;
    k->shift = m->shift;
    k->filter_x = m->pairs ? (int32_t)p->filter[2] : 0;
    k->by_one_k = ckci_make_divisor(p->k);
    k->by_one_c = ckci_make_divisor(p->c);
    k->o_vec = k->o_vec && k->merge == 0 && k->columns % 2 == 0;
    CKCI_TRY(ckci_make_grid(k, ckci_saturating_mul(c->g, split), &m->l, err));
    *cost = ckci_matrix_cost(device, m, m->l.grid, (double)k->part) + ckci_sums_cost(device, split, bytes);
    if (split > 1 && k->merge == 0) {
        ckci_gpu_share share;
        double shared = ckci_matrix_share(device, m, tiles, positions, split, &share);
        images = ckci_max(positions / ckci_max(space, 1), images);
        if (shared < *cost && ckci_matrix_reach(&c->t[CKCI_IN], "in", images, pad, NULL) == CKCONV_OK &&
            ckci_matrix_reach(&c->t[CKCI_OUT], "dout", images, 0, NULL) == CKCONV_OK) {
            *cost = shared;
            k->share = share;
            k->chain = ckci_matrix_chain(device, 64 * (int64_t)ckci_min(share.part + 1, share.steps));
            m->l.grid = ckci_matrix_blocks(device, p->op, m->tile_m, m->tile_n) * device->compute_units;
        }
    }
    *cost += m->packing;
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_fit_matrix_weight(ckci_fit *f, ckconv_error *err)
{
    ckci_matrix m;
    CKCI_TRY(ckci_gpu_wrong_kind(f, ckci_conv_kind(&f->p->conv), err));
    CKCI_TRY(ckci_matrix_weight(&f->p->conv, &f->plan->device, f->family, f->tile, f->split_k, f->limit, NULL,
                                &m, &f->cost, err));
    ckci_plan_launch(f->plan, &m.l, ckci_packed_launches(&m) + m.fold);
    f->plan->split_k = m.split;
    f->plan->workspace_bytes = m.bytes;
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_matrix_weight(const ckconv_plan *plan, const ckci_problem *p,
                                              const ckconv_args *args, unsigned char *ws, int32_t tile,
                                              const ckci_emitter *e, ckconv_error *err)
{
    ckci_matrix m;
    double cost;
    (void)args;
    if (ckci_matrix_weight(&p->conv, &plan->device, ckci_matrix_family(&plan->device), tile, plan->split_k,
                           ckci_run_limit(plan), ws, &m, &cost, NULL) != CKCONV_OK) {
        /* pointers less aligned than planned for */
        int64_t sums;
        memset(&m, 0, sizeof m);
        m.merge = 1;
        CKCI_TRY(ckci_gpu_weight(&p->conv, &plan->device, 64, plan->split_k, ckci_run_limit(plan), &m.l,
                                 &sums, &cost, err));
        m.split = m.l.a.conv.split;
        m.fold = m.split > 1;
        m.l.a.conv.o.partial = sums ? ws : NULL;
    }
    CKCI_TRY(ckci_emit_packed(plan, p, &m, e, err));
    return m.fold ? ckci_emit_reduce(&p->conv, m.split, &m.l.a.conv, m.l.a.conv.o.partial, e, err)
                  : CKCONV_OK;
}


/*------------------------------------------------------------------------------------------------------------
  >>g-tile
  FMA tiles: f32 tensors that are read as they are.
*/

/* Name, kernel, rows, columns and threads of a block, elements per load, places of the reduction per step,
   blocks that share a compute unit, time of a multiply-add (of a generic 128 x 128 tile: 1). */
typedef struct ckci_fma_tile {
    int32_t code, kernel, rows, columns, threads, width, step, blocks;
    double rate;
} ckci_fma_tile;

CKCI_FN ckci_fma_tile ckci_find_tile(ckconv_op op, int32_t code)
{
    static const ckci_fma_tile gather[] = {
        {256064, CKCI_KERNEL_tile_gather_256x64, 256, 64, 128, 4, 8, 2, 0.49},
        {64064, CKCI_KERNEL_tile_gather_64x64, 64, 64, 64, 4, 8, 6, 0.515},
        {256032, CKCI_KERNEL_tile_gather_256x32, 256, 32, 128, 4, 8, 3, 0.6},
        {128016, CKCI_KERNEL_tile_gather_128x16, 128, 16, 64, 4, 16, 6, 0.9},
        {1128064, CKCI_KERNEL_tile_gather_128x64_any, 128, 64, 128, 1, 8, 3, 0.78}};
    static const ckci_fma_tile weight[] = {
        {128128, CKCI_KERNEL_tile_weight_128x128, 128, 128, 128, 4, 8, 2, 0.495},
        {48128, CKCI_KERNEL_tile_weight_48x128, 48, 128, 64, 4, 8, 6, 0.565},
        {64064, CKCI_KERNEL_tile_weight_64x64, 64, 64, 128, 4, 32, 2, 0.56},
        {32096, CKCI_KERNEL_tile_weight_32x96, 32, 96, 192, 4, 16, 2, 0.8},
        {16048, CKCI_KERNEL_tile_weight_16x48, 16, 48, 192, 4, 64, 3, 1.05},
        {8072, CKCI_KERNEL_tile_weight_8x72, 8, 72, 144, 4, 32, 4, 1.6},
        {4036, CKCI_KERNEL_tile_weight_4x36, 4, 36, 144, 4, 64, 4, 3.2},
        {1064064, CKCI_KERNEL_tile_weight_64x64_any, 64, 64, 128, 1, 16, 3, 0.72}};
    const ckci_fma_tile *table = op == CKCONV_BWD_WEIGHT ? weight : gather;
    size_t count =
        op == CKCONV_BWD_WEIGHT ? sizeof weight / sizeof weight[0] : sizeof gather / sizeof gather[0];
    for (size_t i = 1; i < count; i++) {
        if (table[i].code == code) {
            return table[i];
        }
    }
    return table[0];
}

/* While blocks are few, they take a compute unit in turns of so many as share it; one alone leaves it waiting
   now and then. */
CKCI_FN double ckci_tile_cost(const ckconv_device *device, int64_t blocks, const ckci_fma_tile *t, double red)
{
    double units = (double)ckci_max(device->compute_units, 1), slots = units * t->blocks;
    double block = (double)t->rows * t->columns * t->rate * (red + 48);
    double rounds = (double)blocks / slots;
    if (rounds <= 1) {
        double share = (double)ckci_ceil_div(blocks, (int64_t)units);
        return block * share * (share * t->threads < 256 ? 1.5 : share * t->threads < 512 ? 1.1 : 1);
    }
    double whole = (double)ckci_ceil_div(blocks, (int64_t)slots);
    return block * t->blocks * (rounds > 8 ? rounds + 0.3 : 0.3 * rounds + 0.7 * whole);
}

/* Do offsets of a block's images fit 31 bits, in bytes? */
CKCI_FN int ckci_tile_reach(const ckci_tensor *t, int64_t images, int64_t channels, int64_t pad)
{
    int64_t reach = ckci_saturating_mul(t->stride[1], ckci_min(images, t->len[1]));
    reach = ckci_saturating_add(reach, ckci_saturating_mul(channels, t->stride[2]));
    for (int i = 3; i < 6; i++) {
        reach = ckci_saturating_add(reach,
                                    ckci_saturating_mul(ckci_saturating_add(t->len[i], pad), t->stride[i]));
    }
    return ckci_saturating_mul(reach, 4) <= INT32_MAX;
}

/* What all FMA tiles ask for. a, b: the tensors that are read. */
CKCI_FN ckconv_status ckci_tile_takes(const ckci_conv *p, int32_t *ranges, ckconv_error *err)
{
    const ckci_tensor *a = &p->t[p->op == CKCONV_FWD ? CKCI_IN : CKCI_OUT];
    const ckci_tensor *b = &p->t[p->op == CKCONV_BWD_WEIGHT ? CKCI_IN : CKCI_WEI];
    int64_t taps = p->filter[0] * p->filter[1] * p->filter[2];
    CKCI_TRY(ckci_gpu_takes(p, err));
    if (a->dtype != CKCONV_F32 || b->dtype != CKCONV_F32 || !a->plain || !b->plain) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "FMA tiles read f32 tensors without an operation or rounding; here %s and %s",
                         ckconv_dtype_name(a->dtype), ckconv_dtype_name(b->dtype));
    }
    if (ckci_matrix_taps(p, ranges, NULL) != CKCONV_OK) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "FMA tiles take filters of 128 taps (31 for the sum of several sizes); here %lld",
                         CKCI_LL(taps));
    }
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_tile_too_far(ckconv_error *err)
{
    return ckci_fail(
        err, CKCONV_ERR_UNSUPPORTED,
        "FMA tiles take 2^31 bytes of weights per group and of a block's images; here it is more");
}

CKCI_FN ckconv_status ckci_tile_unaligned(ckconv_error *err)
{
    return ckci_fail(
        err, CKCONV_ERR_UNSUPPORTED,
        "this FMA tile loads 16 bytes along the channels: it needs channels last, a multiple of 4, "
        "and alignment");
}

CKCI_FN ckconv_status ckci_tile_gather(const ckci_conv *p, const ckconv_device *device, int32_t code,
                                       ckci_launch *l, double *cost, ckconv_error *err)
{
    ckci_gpu_conv *k = &l->a.conv;
    ckci_fma_tile tile = ckci_find_tile(p->op, code);
    int back = p->op == CKCONV_BWD_DATA;
    int64_t positions, pad;
    int32_t ranges;
    CKCI_TRY(ckci_tile_takes(p, &ranges, err));
    ckci_make_gpu_conv(p, k);
    k->ranges = ranges;
    ckci_image(p, &positions, &pad);
    if (!ckci_tile_reach(&k->a, tile.rows / positions + 2, k->red, pad) ||
        ckci_saturating_mul(k->b.len[1], k->b.stride[1]) > INT32_MAX / 8 ||
        !ckci_tile_reach(&k->b, 0, k->b.len[2], 0)) {
        return ckci_tile_too_far(err);
    }
    if (tile.width == 4 && !ckci_vector_loads(&k->a, 2, k->red)) {
        return ckci_tile_unaligned(err);
    }
    if (tile.width == 4 && k->red < tile.step) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "this FMA tile takes %d channels per group at least; here %d", (int)tile.step,
                         (int)k->red);
    }
    k->b_mode = ckci_vector_loads(&k->b, back ? 1 : 2, k->red)       ? 0
                : ckci_vector_loads(&k->b, back ? 2 : 1, k->columns) ? 1
                                                                     : 2;
    if (tile.width == 4 && k->b_mode == 2) {
        return ckci_tile_unaligned(err);
    }
    k->o_vec = k->o.t.dtype == CKCONV_F32 && k->o.t.op.kind == CKCONV_PASS &&
               ckci_vector_loads(&k->o.t, 2, k->columns);
    double red = ckci_reduction(k, (double)k->red);
    ckci_set_kernel(l, tile.kernel);
    k->tiles_m = (int32_t)ckci_max(ckci_ceil_div(k->rows, tile.rows), 1);
    k->tiles_n = (int32_t)ckci_ceil_div(k->columns, tile.columns);
    CKCI_TRY(ckci_make_grid(k, ckci_saturating_mul(k->phases, k->g), l, err));
    *cost = ckci_tile_cost(device, l->grid, &tile, red);
    return CKCONV_OK;
}

/* ---- Few channels per group. */

/* A block's groups lie side by side, 512 bytes of them, with all taps of the weights in LDS where they
   fit. */
CKCI_FN void ckci_grouped_blocks(ckci_gpu_conv *k, int32_t wide, int32_t deep, int64_t units)
{
    int32_t room = 9536, taps = 1, items = k->g * (int32_t)ckci_ceil_div(k->columns, wide);
    for (int i = 0; i < 3; i++) {
        taps *= (int32_t)k->dim[i].taps[0].d;
    }
    k->lanes = 1;
    while (2 * k->lanes <= items && 2 * k->lanes <= 128 / wide) {
        k->lanes *= 2;
    }
    while (k->lanes > 1 && k->lanes * wide > 16 && k->lanes * (taps * k->red * wide + 20) > room) {
        k->lanes /= 2;
    }
    k->split = (room / k->lanes - 20) / (k->red * wide);
    k->split = k->split > taps ? taps : k->split;
    int64_t rows = (int64_t)deep * 256 / k->lanes;
    k->tiles_n = (int32_t)ckci_ceil_div(items, k->lanes);
    k->tiles_m = (int32_t)ckci_max(ckci_ceil_div(k->rows, rows), 1);
    int64_t batches = ckci_saturating_mul(k->tiles_n, ckci_saturating_mul(k->tiles_m, k->phases));
    k->part = k->split < taps ? 1 : (int32_t)ckci_max(ckci_min(batches / (units * 12), 16), 1);
    k->tiles_m = (int32_t)ckci_max(ckci_ceil_div(k->rows, rows * k->part), 1);
    k->by_channels = ckci_make_divisor(ckci_ceil_div(k->columns, wide));
    k->by_one_k = ckci_make_divisor(k->split);
}

/* wide: columns of a thread. */
CKCI_FN ckconv_status ckci_grouped(const ckci_conv *p, const ckconv_device *device, int32_t wide,
                                   ckci_launch *l, double *cost, ckconv_error *err)
{
    ckci_gpu_conv *k = &l->a.conv;
    int64_t positions, pad, units = ckci_max(device->compute_units, 1);
    int32_t ranges, deep = 4;
    CKCI_TRY(ckci_tile_takes(p, &ranges, err));
    ckci_make_gpu_conv(p, k);
    if (ranges || k->red % 4 != 0 || k->red * wide > 1024 || !ckci_vector_loads(&k->a, 2, k->red)) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "grouped kernels take channels last, aligned, a multiple of 4 up to %d per group, and "
            "31 for the sum of filter sizes; here %d",
            (int)(1024 / wide), (int)k->red);
    }
    ckci_image(p, &positions, &pad);
    ckci_grouped_blocks(k, wide, deep, units);
    int64_t rows = (int64_t)deep * 256 / k->lanes * k->part;
    ckci_tensor all = k->a;
    all.stride[2] = all.stride[0] > all.stride[2] ? all.stride[0] : all.stride[2]; /* all groups */
    if (!ckci_tile_reach(&all, rows / positions + 2, p->g + k->red, pad) ||
        !ckci_tile_reach(&k->b, 0, k->b.len[2], 0)) {
        return ckci_tile_too_far(err);
    }
    k->b_mode = k->b_column < k->b_red ? 1 : 0;
    k->o_vec = k->o.t.dtype == CKCONV_F32 && k->o.t.op.kind == CKCONV_PASS &&
               ckci_vector_loads(&k->o.t, 2, k->columns);
    double red = ckci_reduction(k, (double)k->red);
    /* neighbouring threads read neighbouring groups: with few groups, they read apart */
    ckci_fma_tile shape = {
        4, CKCI_KERNEL_grouped_4, 1024 * k->part, 4, 256, 4, 4, 2, k->lanes >= 8 ? 1.8 : 16. / k->lanes};
    ckci_set_kernel(l, shape.kernel);
    CKCI_TRY(ckci_make_grid(k, k->phases, l, err));
    *cost = ckci_tile_cost(device, l->grid, &shape, red);
    return CKCONV_OK;
}

/* ---- Few written channels: all of a pixel's in one thread, the tensor that is read through LDS. */
CKCI_FN ckconv_status ckci_few_columns(const ckci_conv *p, const ckconv_device *device, ckci_launch *l,
                                       double *cost, ckconv_error *err)
{
    ckci_gpu_conv *k = &l->a.conv;
    int32_t ranges;
    CKCI_TRY(ckci_tile_takes(p, &ranges, err));
    ckci_make_gpu_conv(p, k);
    const ckci_gpu_dim *d = k->dim;
    int64_t width = d[2].count[0].d, height = d[1].count[0].d;
    k->lanes = (int32_t)ckci_min(ckci_ceil_div(width, 8), 128);
    k->lanes = (int32_t)ckci_ceil_div(width, ckci_ceil_div(width, 8 * k->lanes) * 8);
    k->part = 128 / k->lanes;
    k->part = k->part > height ? (int32_t)height : k->part;
    int64_t span_x = (int64_t)(d[2].taps[0].d - 1) * abs(d[2].read_tap),
            span_y = (int64_t)(d[1].taps[0].d - 1) * abs(d[1].read_tap);
    int64_t flat = (int64_t)d[1].taps[0].d * d[2].taps[0].d, wide = 8 * k->lanes + span_x;
    int64_t pitch = wide + ((k->lanes - wide) & 7); /* as in the kernel */
    while (k->part > 1 && pitch * (k->part + span_y) > 1472) {
        k->part--;
    }
    int64_t patch = pitch * (k->part + span_y);
    if (k->columns > 4 || k->red % 4 != 0 || d[1].read_step != 1 || d[2].read_step != 1 || patch > 1472 ||
        flat > 64 || !ckci_vector_loads(&k->a, 2, k->red)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "narrow kernels take 4 written channels per group, steps of 1 in the tensor that is "
                         "read, whose channels are last, aligned and a multiple of 4, and small filters");
    }
    if (!ckci_tile_reach(&k->a, 1, k->red, ckci_max(span_x, span_y) + ckci_max(p->pad[1], p->pad[2])) ||
        !ckci_tile_reach(&k->b, 0, k->b.len[2], 0) ||
        ckci_saturating_mul(k->b.len[1], k->b.stride[1]) > INT32_MAX / 8) {
        return ckci_tile_too_far(err);
    }
    ckci_fma_tile shape = {1, CKCI_KERNEL_narrow, 1024, 4, 128, 4, 8, 3, 1.05};
    double red = ckci_reduction(k, (double)ckci_ceil_div(k->red, 8) * 8);
    ckci_set_kernel(l, shape.kernel);
    k->tiles_n = (int32_t)ckci_ceil_div(width, 8 * k->lanes);
    k->tiles_m = (int32_t)ckci_ceil_div(height, k->part);
    int64_t slices = ckci_saturating_mul(ckci_saturating_mul(p->g, p->n), d[0].count[0].d);
    CKCI_TRY(ckci_make_grid(k, ckci_saturating_mul(slices, k->phases), l, err));
    *cost = ckci_tile_cost(device, l->grid, &shape, red + 200);
    return CKCONV_OK;
}

/* Is dw dense as [g][k][taps][c], so that sums are stored as they come? */
CKCI_FN int ckci_tile_dense(const ckci_tensor *t)
{
    static const int order[6] = {2, 5, 4, 3, 1, 0};
    int64_t step = 1;
    int dense = t->dtype == CKCONV_F32 && t->op.kind == CKCONV_PASS && (uintptr_t)t->p % 16 == 0;
    for (int i = 0; i < 6; i++) {
        dense = dense && (t->len[order[i]] == 1 || t->stride[order[i]] == step);
        step *= t->len[order[i]];
    }
    return dense;
}

/* bwd_weight. split_k 0: the number of parts that takes the least time, within `limit` bytes. */
CKCI_FN ckconv_status ckci_tile_weight(const ckci_conv *p, const ckconv_device *device, int32_t code,
                                       int32_t split_k, int64_t limit, ckci_launch *l, int64_t *bytes,
                                       double *cost, ckconv_error *err)
{
    ckci_gpu_conv *k = &l->a.conv;
    ckci_fma_tile tile = ckci_find_tile(p->op, code);
    int32_t ranges;
    CKCI_TRY(ckci_tile_takes(p, &ranges, err));
    ckci_make_gpu_conv(p, k);
    k->ranges = ranges;
    int64_t space, pad;
    ckci_image(p, &space, &pad);
    int64_t positions = p->n * space;
    if (tile.width == 4 && (!ckci_vector_loads(&k->a, 2, k->rows) || !ckci_vector_loads(&k->b, 2, k->red))) {
        return ckci_tile_unaligned(err);
    }
    ckci_set_kernel(l, tile.kernel);
    k->tiles_m = (int32_t)ckci_ceil_div(k->rows, tile.rows);
    k->tiles_n = (int32_t)ckci_ceil_div(k->columns, tile.columns);
    k->by_phases = ckci_make_divisor(p->g);
    int64_t tiles = ckci_saturating_mul(ckci_saturating_mul(k->tiles_m, k->tiles_n), p->g);
    int64_t sums = ckci_saturating_mul(ckci_saturating_mul(p->g, k->rows), k->columns);
    int64_t sum_bytes = ckci_saturating_mul(sums, 4), split = split_k, most = 1;
    double units = (double)ckci_max(device->compute_units, 1), best = 1e300;
    if (split == 0) {
        most = ckci_min(ckci_ceil_div(8 * (int64_t)units, ckci_max(tiles, 1)), positions / 256);
        most = ckci_min(ckci_min(most, 1024), sums > INT32_MAX ? 1 : limit / ckci_max(sum_bytes, 1));
        most = ckci_max(most, 1);
    }
    for (int64_t s = split == 0 ? 1 : split; s <= (split_k == 0 ? most : split_k); s++) {
        double time =
            ckci_tile_cost(device, ckci_saturating_mul(tiles, s), &tile, (double)positions / (double)s);
        time += s > 1 ? 2e5 + (double)sum_bytes * (double)s * 8 / units : 0;
        if (time < best) {
            best = time;
            split = s;
        }
    }
    *cost = best;
    split = ckci_max(ckci_min(split, positions), 1);
    CKCI_TRY(ckci_place_long_sums(positions, k->columns % 4 == 0 && ckci_tile_dense(&k->o.t), split_k,
                                  sum_bytes, limit, &split, err));
    *bytes = split > 1 ? ckci_saturating_mul(split, sum_bytes) : 0;
    CKCI_TRY(ckci_sums_fit(split_k, *bytes, limit, err));
    if (split > 1 && sums > INT32_MAX) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: 2^31 - 1 weights can be split",
                         (int)split_k);
    }
    k->split = (int32_t)split;
    k->part = (int32_t)(positions / split);
    k->part_rest = (int32_t)(positions % split);
    int64_t images = k->part / ckci_max(space, 1) + 2;
    if (!ckci_tile_reach(&k->b, images, k->red, pad) || !ckci_tile_reach(&k->a, images, k->rows, 0)) {
        return ckci_tile_too_far(err);
    }
    k->o_vec = k->columns % 4 == 0 && (split > 1 || ckci_tile_dense(&k->o.t));
    l->grid = ckci_saturating_mul(tiles, split);
    CKCI_TRY(ckci_too_many_blocks(l->grid, err));
    k->by_tiles_n = ckci_make_divisor(k->tiles_n);
    k->by_tiles_m = ckci_make_divisor(k->tiles_m);
    return CKCONV_OK;
}

/* ---- The instances of >>k-gather, >>k-weight, >>k-tile and >>k-direct. A tile's name says whose it is: 0,
   32, 64 and 128 are direct and the vector tiles, 1 and 4 narrow and grouped, others FMA tiles. */

CKCI_FN ckconv_status ckci_make_gather(const ckci_conv *p, const ckconv_device *device, int32_t tile,
                                       ckci_launch *l, double *cost, ckconv_error *err)
{
    return tile == 1     ? ckci_few_columns(p, device, l, cost, err)
           : tile == 4   ? ckci_grouped(p, device, tile, l, cost, err)
           : tile > 1000 ? ckci_tile_gather(p, device, tile, l, cost, err)
                         : ckci_gpu_gather(p, device, tile, l, cost, err);
}

CKCI_FN ckconv_status ckci_make_weight(const ckci_conv *p, const ckconv_device *device, int32_t tile,
                                       int32_t split_k, int64_t limit, ckci_launch *l, int64_t *bytes,
                                       double *cost, ckconv_error *err)
{
    return tile > 1000 ? ckci_tile_weight(p, device, tile, split_k, limit, l, bytes, cost, err)
                       : ckci_gpu_weight(p, device, tile, split_k, limit, l, bytes, cost, err);
}

CKCI_FN ckconv_status ckci_fit_gpu_gather(ckci_fit *f, ckconv_error *err)
{
    ckci_launch l;
    CKCI_TRY(ckci_gpu_no_split(f, err));
    CKCI_TRY(ckci_gpu_wrong_kind(f, ckci_conv_kind(&f->p->conv), err));
    CKCI_TRY(ckci_gpu_direct_takes(f, err));
    CKCI_TRY(ckci_make_gather(&f->p->conv, &f->plan->device, f->tile, &l, &f->cost, err));
    ckci_plan_launch(f->plan, &l, 1);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_gpu_gather(const ckconv_plan *plan, const ckci_problem *p,
                                           const ckconv_args *args, unsigned char *ws, int32_t tile,
                                           const ckci_emitter *e, ckconv_error *err)
{
    ckci_launch l;
    double cost;
    (void)args;
    (void)ws;
    if (ckci_make_gather(&p->conv, &plan->device, tile, &l, &cost, NULL) != CKCONV_OK) {
        /* pointers less aligned than planned for */
        CKCI_TRY(ckci_gpu_gather(&p->conv, &plan->device, 64, &l, &cost, err));
    }
    return l.grid == 0 ? CKCONV_OK : e->emit(e->context, &l, err);
}

CKCI_FN ckconv_status ckci_fit_gpu_weight(ckci_fit *f, ckconv_error *err)
{
    ckci_launch l;
    int64_t bytes;
    CKCI_TRY(ckci_gpu_wrong_kind(f, ckci_conv_kind(&f->p->conv), err));
    CKCI_TRY(ckci_gpu_direct_takes(f, err));
    CKCI_TRY(ckci_make_weight(&f->p->conv, &f->plan->device, f->tile, f->split_k, f->limit, &l, &bytes,
                              &f->cost, err));
    ckci_plan_launch(f->plan, &l, l.a.conv.split > 1 ? 2 : 1);
    f->plan->split_k = l.a.conv.split;
    f->plan->workspace_bytes = bytes;
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_gpu_weight(const ckconv_plan *plan, const ckci_problem *p,
                                           const ckconv_args *args, unsigned char *ws, int32_t tile,
                                           const ckci_emitter *e, ckconv_error *err)
{
    ckci_launch l;
    double cost;
    int64_t bytes;
    (void)args;
    if (ckci_make_weight(&p->conv, &plan->device, tile, plan->split_k, ckci_run_limit(plan), &l, &bytes,
                         &cost, NULL) != CKCONV_OK) {
        /* pointers less aligned than planned for */
        CKCI_TRY(ckci_gpu_weight(&p->conv, &plan->device, 64, plan->split_k, ckci_run_limit(plan), &l, &bytes,
                                 &cost, err));
    }
    int32_t split = l.a.conv.split;
    l.a.conv.o.partial = split > 1 ? ws : NULL;
    CKCI_TRY(e->emit(e->context, &l, err));
    return split > 1 ? ckci_emit_reduce(&p->conv, split, NULL, ws, e, err) : CKCONV_OK;
}


/*------------------------------------------------------------------------------------------------------------
  >>g-norm
  Group norm.
*/

/* Lanes for a block of `columns` x `positions` that waste least. fast: what neighbouring threads take. */
CKCI_FN void ckci_norm_lanes(int64_t fast, int64_t slow, int64_t *fast_lanes, int64_t *slow_lanes)
{
    int64_t best = INT64_MAX, most = 256;
    *fast_lanes = *slow_lanes = 1;
    for (int i = -1; i < 8; i++) {
        /* all, else 64, 32, 96, ... 256 */
        int64_t lanes = i < 0 ? ckci_min(fast, most) : i == 0 ? 64 : i == 1 ? 32 : 32 * (int64_t)(i + 1);
        int64_t others = ckci_min(256 / lanes, slow);
        int64_t time = ckci_saturating_mul(ckci_ceil_div(fast, lanes), ckci_ceil_div(slow, others));
        if (lanes <= fast && time < best) {
            best = time;
            *fast_lanes = lanes;
            *slow_lanes = others;
        }
    }
}

/* The same of wide blocks on AMD, channels first, where a column costs a lane as much as a place in it does.
   `least` lanes or more of a channel: whole lines of memory. */
CKCI_FN void ckci_norm_lanes_amd(int64_t fast, int64_t slow, int64_t least, int64_t *fast_lanes,
                                 int64_t *slow_lanes)
{
    int64_t best = INT64_MAX;
    *fast_lanes = *slow_lanes = 1;
    for (int64_t lanes = 256; lanes >= 1 && (lanes >= least || 2 * lanes > fast); lanes /= 2) {
        int64_t all = ckci_min(lanes, fast), others = ckci_min(256 / all, slow);
        int64_t time = ckci_saturating_mul(ckci_ceil_div(fast, all) + 1, ckci_ceil_div(slow, others));
        if (time < best) {
            best = time;
            *fast_lanes = all;
            *slow_lanes = others;
        }
    }
}

/* Bytes of the three workspace arrays. */
CKCI_FN int64_t ckci_norm_workspace(const ckci_groupnorm *p, int64_t parts, int64_t bytes[3])
{
    int64_t size = (int64_t)ckci_size(p->stat);
    int64_t slabs = ckci_saturating_mul(ckci_saturating_mul(p->n, p->g), parts);
    int back = p->op == CKCONV_GROUPNORM_BWD;
    bytes[0] = parts > 1 ? ckci_saturating_mul(slabs, 16) : 0;
    bytes[1] = parts > 1 && back ? ckci_saturating_mul(slabs, 2 * size) : 0;
    bytes[2] = back ? ckci_saturating_mul(ckci_saturating_mul(slabs, p->c), 2 * size) : 0;
    return ckci_saturating_add(ckci_saturating_add(bytes[0], bytes[1]), bytes[2]);
}

/* May lanes take eight numbers of every tensor? 2: with loads of 16 bytes, 1: one by one (channels first
   only). */
CKCI_FN int32_t ckci_norm_wide(const ckci_groupnorm *p, int along_x)
{
    const ckci_tensor *t[3] = {&p->in, &p->out, p->op == CKCONV_GROUPNORM_BWD ? &p->din : &p->out};
    int fits = p->stat != CKCONV_F64 && p->in.len[3] == 1 && p->in.len[4] == 1, aligned = 1,
        dim = along_x ? 5 : 2;
    for (int i = 0; i < 3; i++) {
        int64_t size = (int64_t)ckci_size(t[i]->dtype);
        fits = fits && (t[i]->stride[dim] == 1 || t[i]->len[dim] == 1) && size >= 2 && size <= 4;
        aligned = aligned && (uintptr_t)t[i]->p % 16 == 0 && p->in.len[5] % (along_x ? 8 : 1) == 0;
        for (int j = 0; j < 6; j++) {
            /* channels last: groups follow each other without a gap */
            int64_t stride = t[i]->stride[j];
            fits = fits && (along_x || j != 0 || t[i]->len[0] == 1 || stride == p->c);
            aligned = aligned && (j == dim || (j == 0 && !along_x) || t[i]->len[j] == 1 || stride % 8 == 0);
        }
    }
    aligned = aligned && (along_x || p->g * p->c % 8 == 0);
    return !fits ? 0 : aligned ? 2 : along_x ? 1 : 0;
}

/* Groups of a wide block; 0: none fit. Channels last, so many channels or more, whole eights, each with a
   lane of its own; channels first, one that fills a block. */
CKCI_FN int64_t ckci_norm_wide_set(const ckci_groupnorm *p, int along_x, int64_t channels)
{
    int64_t set = 1;
    while (!along_x && set < p->g && set < 256 && set * p->c < 1024 &&
           (set * p->c < channels || set * p->c % 8 != 0 || set * p->c / 8 * p->space < 256)) {
        set++;
    }
    while (!along_x && set > 1 && set * p->c % 8 != 0) {
        set--;
    }
    int fits = along_x ? ckci_saturating_mul(p->c, p->space) >= 256
                       : set * p->c % 8 == 0 && (set == 1 || (set * p->c <= 2048 && set <= 256));
    return fits ? set : 0;
}

/* Lanes of wide blocks, which have k->part positions. */
CKCI_FN void ckci_norm_wide_lanes(const ckci_groupnorm *p, const ckconv_device *device, ckci_gpu_norm *k)
{
    int64_t lanes_c, lanes_p, positions = ckci_max(k->part + (k->part_rest > 0), 1);
    if (k->along_x && device->kind != CKCONV_DEVICE_NVIDIA) {
        /* 16 lanes take 256 bytes at least, of which a fifth is wasted where rows begin inside of lines */
        const int64_t least = p->space % 32 == 0 ? 16 : 32;
        ckci_norm_lanes_amd(ckci_ceil_div(positions, 8), p->c, least, &lanes_p, &lanes_c);
    } else if (k->along_x) {
        ckci_norm_lanes(ckci_ceil_div(positions, 8), p->c, &lanes_p, &lanes_c);
    } else {
        lanes_c = ckci_min(k->set * p->c / 8, 256);
        lanes_p = ckci_min(256 / lanes_c, positions);
    }
    k->lanes_c = (int32_t)lanes_c;
    k->lanes_p = (int32_t)lanes_p;
}

/* Lanes of blocks that keep x and dy. Channels first, of a channel: a power of two, a wave or all that it
   needs at least, so that sums of channels are few shuffles. */
CKCI_FN void ckci_norm_kept_lanes(const ckci_groupnorm *p, const ckconv_device *device, ckci_gpu_norm *k)
{
    const int64_t positions = ckci_max(k->part + (k->part_rest > 0), 1), eights = ckci_ceil_div(positions, 8);
    int64_t best = INT64_MAX;
    ckci_norm_wide_lanes(p, device, k);
    for (int32_t lanes = 256; k->along_x && lanes >= 1 && (lanes >= 32 || 2 * lanes > eights); lanes /= 2) {
        int64_t time = ckci_ceil_div(p->c, 256 / lanes) * ckci_ceil_div(eights, lanes);
        if (time < best && p->c * ckci_max(lanes / 32, 1) <= 768) {
            best = time;
            k->lanes_p = lanes;
            k->lanes_c = 256 / lanes;
        }
    }
}

/* Positions of the parts, and lanes of wide blocks. Those with channels first have whole eights, on AMD whole
   lines of memory if they are long: there may be fewer parts. */
CKCI_FN void ckci_norm_parts(const ckci_groupnorm *p, const ckconv_device *device, int64_t parts,
                             ckci_gpu_norm *k)
{
    k->parts = (int32_t)parts;
    k->part = (int32_t)(p->space / parts);
    k->part_rest = (int32_t)(p->space % parts);
    if (!k->wide) {
        return;
    }
    if (k->along_x) {
        const int64_t each = ckci_ceil_div(p->space, parts);
        const int64_t whole = parts > 1 && each >= 1024 && device->kind != CKCONV_DEVICE_NVIDIA ? 64 : 8;
        k->part = (int32_t)(ckci_ceil_div(each, whole) * whole);
        k->part_rest = 0;
        k->parts = (int32_t)ckci_max(ckci_ceil_div(p->space, k->part), 1);
    }
    if (k->kept && p->op == CKCONV_GROUPNORM_BWD) {
        ckci_norm_kept_lanes(p, device, k);
    } else {
        ckci_norm_wide_lanes(p, device, k);
    }
}

/* Does a part fit into LDS? bwd: but for three eighths, channels last seven fifteenths, which are read again
   from the caches. */
CKCI_FN int ckci_norm_fits(const ckci_groupnorm *p, const ckci_gpu_norm *k)
{
    const int64_t size = (int64_t)ckci_size(p->in.dtype);
    if (p->op == CKCONV_GROUPNORM_BWD) {
        return 2 * size * k->set * p->c * (k->part + (k->part_rest > 0)) <=
               (k->along_x ? CKCI_NORM_BACK / 5 * 8 : CKCI_NORM_BACK / 8 * 15);
    }
    const int64_t columns = ckci_ceil_div(p->c, k->lanes_c), place = 8 * 256 * size;
    const int64_t places = ckci_ceil_div(ckci_ceil_div(k->part, 8), k->lanes_p);
    return ckci_min(ckci_saturating_mul(columns, places), CKCI_NORM_KEPT) * place <= CKCI_NORM_KEPT;
}

/* Time of clusters that keep x and dy, channels last, in elements of one block; fitted to an H100. What does
   not stay costs six times as much again. Two blocks run on a unit; a cluster stays among 16 units that share
   a part of the chip (NVIDIA: GPC), so that half a cluster's room is lost there. */
CKCI_FN double ckci_norm_kept_time(const ckci_groupnorm *p, const ckconv_device *device, int64_t slabs,
                                   const ckci_gpu_norm *k)
{
    const int64_t units = device->compute_units, lost = ckci_ceil_div(units, 16) * (k->parts - 1) / 2;
    const int64_t room = ckci_max((2 * units - lost) / k->parts, 1);
    const double all = (double)k->set * (double)p->c * (double)(k->part + (k->part_rest > 0));
    const double past = all - (double)CKCI_NORM_BACK / (2 * (double)ckci_size(p->in.dtype));
    const double rounds = (double)slabs / (double)room / 2 + (double)ckci_ceil_div(slabs, room) / 2;
    return (rounds < 1 ? 1 : rounds) * (16384 + all + (past > 0 ? 6 * past : 0));
}

/* Parts where the blocks of a pass keep what they read in LDS, 0: they do not. Those of one slab are a
   cluster. Channels last: those of the least ckci_norm_kept_time. First: the fewest, a power of two, that
   fit; more while two blocks for each compute unit have 8192 elements. */
CKCI_FN int64_t ckci_norm_keep(const ckci_groupnorm *p, const ckconv_device *device, int64_t limit,
                               ckci_gpu_norm *k)
{
    const int sm = ckci_sm(device), back = p->op == CKCONV_GROUPNORM_BWD;
    const int64_t most = sm >= 90 ? 8 : 1, sets = ckci_ceil_div(p->g, k->set);
    const int64_t slabs = ckci_max(ckci_saturating_mul(p->n, sets), 1);
    const int64_t lds = back ? (int64_t)CKCI_NORM_BACK_LDS : (int64_t)CKCI_NORM_KEPT_LDS;
    int64_t array[3], best = 0;
    k->kept = 0;
    if ((!back && !k->along_x) || sm < 80 || device->lds_bytes < lds ||
        (back && (k->set * p->c > 256 || k->set > CKCI_NORM_BACK_SET || p->out.dtype != p->in.dtype ||
                  p->din.dtype != p->in.dtype))) {
        return 0;
    }
    k->kept = 1;
    if (back && !k->along_x) {
        double least = 0;
        for (int64_t parts = 1; parts <= most && parts <= p->space; parts++) {
            ckci_norm_parts(p, device, parts, k);
            if (best > 0 && k->set * p->c * k->part < 8192) {
                break;
            }
            if (ckci_norm_workspace(p, parts, array) <= limit && ckci_norm_fits(p, k)) {
                const double time = ckci_norm_kept_time(p, device, slabs, k);
                if (best == 0 || time < least) {
                    best = parts;
                    least = time;
                }
            }
        }
        k->kept = best > 0;
        return best;
    }
    for (int64_t parts = 1; parts <= most && parts <= p->space; parts *= 2) {
        ckci_norm_parts(p, device, parts, k);
        if (k->parts == parts && ckci_norm_workspace(p, parts, array) <= limit && ckci_norm_fits(p, k)) {
            best = parts;
        }
        if (best > 0 && (ckci_saturating_mul(slabs, parts) > (int64_t)device->compute_units ||
                         k->set * p->c * (p->space / parts) < 16384)) {
            break;
        }
    }
    k->kept = best > 0;
    k->bulk = best > 0 && back && sm >= 90 && k->aligned && k->along_x;
    k->late = device->compute_units;
    return best;
}

/* Makes blocks wide where they can be. Returns the parts of ckci_norm_keep. Sums of channels need workspace.
   Channels last, a row of a block is 64 channels where a slab of them fits into LDS or is large, else 32. */
CKCI_FN int64_t ckci_norm_widen(const ckci_groupnorm *p, const ckconv_device *device, int64_t limit, int keep,
                                ckci_gpu_norm *k)
{
    int64_t array[3];
    const int32_t wide = ckci_norm_wide(p, k->along_x), any = k->set;
    if (!wide || ckci_norm_workspace(p, 1, array) > limit ||
        (!k->along_x && device->kind == CKCONV_DEVICE_NVIDIA && device->lds_bytes < CKCI_NORM_RING_LDS)) {
        return 0;
    }
    const int broad = p->op == CKCONV_GROUPNORM_BWD && !k->along_x;
    k->wide = 1;
    k->aligned = wide == 2;
    for (int64_t channels = broad ? 64 : 32; keep && channels >= 32; channels /= 2) {
        k->set = (int32_t)ckci_norm_wide_set(p, k->along_x, channels);
        const int64_t kept = k->set > 0 ? ckci_norm_keep(p, device, limit, k) : 0;
        if (kept > 0) {
            return kept;
        }
    }
    int64_t set = ckci_norm_wide_set(p, k->along_x, 64);
    set = ckci_saturating_mul(set * p->c, p->space) < 65536 ? ckci_norm_wide_set(p, k->along_x, 32) : set;
    k->wide = set > 0;
    k->set = set > 0 ? (int32_t)set : any;
    return 0;
}

/* Geometry, within `limit` bytes of workspace. *blocks is the grid of all kernels but norm_param. keep: a
   pass may keep what it reads in LDS. */
CKCI_FN ckconv_status ckci_make_gpu_norm(const ckci_groupnorm *problem, const ckconv_device *device,
                                         int64_t limit, int keep, ckci_gpu_norm *k, int64_t *bytes,
                                         int64_t *blocks, ckconv_error *err)
{
    ckci_groupnorm p = ckci_flatten_norm(problem);
    int64_t most = INT32_MAX / 2, array[3], lanes_c, lanes_p, units = ckci_max(device->compute_units, 1);
    if (p.space > most || ckci_saturating_mul(p.g, p.c) > most || p.n > most) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "GPU kernels take 2^30 positions, channels (G*C) and batches; here they are %lld, "
                         "%lld and %lld",
                         CKCI_LL(p.space), CKCI_LL(ckci_saturating_mul(p.g, p.c)), CKCI_LL(p.n));
    }
    memset(k, 0, sizeof *k);
    k->x = p.in;
    k->y = p.out;
    k->dx = p.din;
    k->eps = p.eps;
    k->param = p.param;
    k->act = p.act;
    k->n = (int32_t)p.n;
    k->g = (int32_t)p.g;
    k->c = (int32_t)p.c;
    k->space = (int32_t)p.space;
    k->along_x = p.in.len[5] > 1 && p.in.stride[5] < p.in.stride[2];
    k->flat = p.in.len[3] == 1 && p.in.len[4] == 1;
    /* several groups: where they lie side by side in memory, up to 32 channels; and where they are tiny */
    int64_t set = p.in.stride[0] < p.in.stride[5] && !k->along_x ? ckci_ceil_div(32, p.c) : 1;
    set = ckci_min(ckci_max(set, 256 / ckci_saturating_mul(p.c, p.space)), p.g);
    int64_t columns = set * p.c;
    if (k->along_x) {
        ckci_norm_lanes(p.space, columns, &lanes_p, &lanes_c);
    } else {
        ckci_norm_lanes(columns, p.space, &lanes_c, &lanes_p);
    }
    if (set > 1) {
        lanes_c = columns;
        lanes_p = ckci_min(256 / columns, p.space);
    }
    k->set = (int32_t)set;
    k->lanes_c = (int32_t)lanes_c;
    k->lanes_p = (int32_t)lanes_p;
    const int64_t kept = ckci_norm_widen(&p, device, limit, keep, k);
    set = k->set;
    columns = set * p.c;
    k->sets = (int32_t)ckci_ceil_div(p.g, set);
    /* parts: eight blocks for each compute unit where there would be fewer than four; of 8192 elements or
       more */
    int64_t slabs = ckci_max(ckci_saturating_mul(p.n, k->sets), 1), parts = 1;
    if (k->kept) {
        parts = kept;
    } else if (k->wide) {
        /* one round of two or three blocks for each compute unit, as LDS and registers allow */
        const int64_t each = k->along_x && device->kind == CKCONV_DEVICE_NVIDIA ? 3 : 2;
        parts = ckci_min(each * units / slabs, ckci_saturating_mul(columns, p.space) / 8192);
        parts = ckci_max(ckci_min(ckci_min(parts, 256 / set), p.space), 1);
    } else if (slabs < 4 * units) {
        parts = ckci_min(ckci_ceil_div(8 * units, slabs), ckci_saturating_mul(columns, p.space) / 8192);
        parts = ckci_max(ckci_min(ckci_min(parts, 256 / set), p.space), 1);
    }
    while (parts > 1 && ckci_norm_workspace(&p, parts, array) > limit) {
        parts /= 2;
    }
    *bytes = ckci_norm_workspace(&p, parts, array);
    *bytes = *bytes <= limit && *bytes < CKCI_MAX_BYTES ? *bytes : 0;
    ckci_norm_parts(&p, device, parts, k);
    parts = k->parts;
    lanes_c = k->lanes_c;
    lanes_p = k->lanes_p;
    k->chunks = (int32_t)ckci_ceil_div(columns, lanes_c);
    k->by_sets = ckci_make_divisor(k->sets);
    k->by_parts = ckci_make_divisor(parts);
    k->by_c = ckci_make_divisor(p.c);
    k->by_fast = ckci_make_divisor(k->along_x ? lanes_p : lanes_c);
    k->by_lanes_p = ckci_make_divisor(lanes_p);
    k->by_segment = ckci_make_divisor(lanes_c * lanes_p / set);
    k->by_chunks = ckci_make_divisor(k->chunks);
    k->by_y = ckci_make_divisor(p.in.len[4]);
    k->by_x = ckci_make_divisor(p.in.len[5]);
    *blocks = ckci_saturating_mul(ckci_saturating_mul(p.n, k->sets), parts);
    return ckci_too_many_blocks(ckci_max(*blocks, ckci_saturating_mul(k->sets, k->chunks)), err);
}

CKCI_FN ckconv_status ckci_fit_gpu_norm(ckci_fit *f, ckconv_error *err)
{
    ckci_gpu_norm k;
    int64_t bytes, blocks;
    const ckci_groupnorm *p = &f->p->norm;
    int back = p->op == CKCONV_GROUPNORM_BWD;
    if (f->split_k > 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: group norms do not split",
                         (int)f->split_k);
    }
    /* a backward pass keeps nothing without saved statistics, or where dx is not wanted: room for either */
    int64_t other = 0;
    if (back) {
        CKCI_TRY(ckci_make_gpu_norm(p, &f->plan->device, f->limit, 0, &k, &other, &blocks, err));
    }
    CKCI_TRY(ckci_make_gpu_norm(p, &f->plan->device, f->limit, 1, &k, &bytes, &blocks, err));
    f->plan->workspace_bytes = ckci_max(bytes, other);
    f->plan->grid[0] = blocks;
    f->plan->block[0] = 256;
    f->plan->launches = (k.parts > 1 && !k.kept ? 2 : 1) * (back ? 2 : 1);
    f->plan->tune[CKCI_TUNE_KEPT] = k.kept ? k.parts : 0;
    f->cost = 8 * (double)ckci_count(&p->in) / (double)ckci_max(f->plan->device.compute_units, 1);
    return CKCONV_OK;
}

/* base: the kernel of f32 sums for any layout; those for wide blocks and f64 follow it. */
CKCI_FN ckconv_status ckci_emit_norm(const ckci_emitter *e, ckci_launch *l, int f64, int32_t base,
                                     int64_t grid, ckconv_error *err)
{
    const ckci_gpu_norm *k = &l->a.norm;
    ckci_set_kernel(l, base + (f64 ? 3 : !k->wide ? 0 : k->along_x ? 2 : 1));
    l->grid = grid;
    return grid == 0 ? CKCONV_OK : e->emit(e->context, l, err);
}

/* dgamma and dbeta, if wanted. */
CKCI_FN ckconv_status ckci_emit_norm_param(const ckci_emitter *e, ckci_launch *l, int f64, int wanted,
                                           ckconv_error *err)
{
    const ckci_gpu_norm *k = &l->a.norm;
    ckci_set_kernel(l, f64 ? CKCI_KERNEL_norm_param_f64 : CKCI_KERNEL_norm_param_f32);
    l->grid = k->sums ? ckci_ceil_div((int64_t)k->g * k->c, 16) : (int64_t)k->sets * k->chunks;
    return wanted ? e->emit(e->context, l, err) : CKCONV_OK;
}

/* fwd: one kernel; with parts that are no cluster, statistics before it. bwd: those too, a kernel that mostly
   has nothing to do where there are saved ones; sums of dgamma and dbeta for each n come from the kernel of
   dx; where there are parts or no dx, from a pass of it for sums alone; without workspace norm_param computes
   all. */
CKCI_FN ckconv_status ckci_list_gpu_norm(const ckconv_plan *plan, const ckci_problem *p,
                                         const ckconv_args *args, unsigned char *ws, int32_t tile,
                                         const ckci_emitter *e, ckconv_error *err)
{
    ckci_launch l;
    (void)tile;
    ckci_gpu_norm *k = &l.a.norm;
    int64_t limit = ckci_run_limit(plan), bytes, blocks, array[3];
    int f64 = p->norm.stat == CKCONV_F64, params = args->dgamma || args->dbeta;
    const int back = p->norm.op == CKCONV_GROUPNORM_BWD;
    CKCI_TRY(ckci_make_gpu_norm(&p->norm, &plan->device, limit, !back || (args->din && args->saved_mean), k,
                                &bytes, &blocks, err));
    ckci_norm_workspace(&p->norm, k->parts, array);
    k->gamma = (const unsigned char *)args->gamma;
    k->beta = (const unsigned char *)args->beta;
    if (p->norm.op == CKCONV_GROUPNORM_BWD) {
        k->saved_mean = (const unsigned char *)args->saved_mean;
        k->saved_inv_std = (const unsigned char *)args->saved_inv_std;
    }
    if (p->norm.op == CKCONV_GROUPNORM_FWD) {
        k->mean = (unsigned char *)args->mean;
        k->inv_std = (unsigned char *)args->inv_std;
    }
    k->dgamma = (unsigned char *)args->dgamma;
    k->dbeta = (unsigned char *)args->dbeta;
    k->stats = k->parts > 1 ? ws : NULL; /* with saved ones, of the groups whose mean is too coarse */
    k->slab_sums = back && k->parts > 1 && args->din ? ws + array[0] : NULL;
    k->sums = back && bytes > 0 && params ? ws + array[0] + array[1] : NULL;
    if (k->kept) {
        ckci_set_kernel(&l, !back        ? CKCI_KERNEL_norm_fwd_kept
                            : k->along_x ? CKCI_KERNEL_norm_bwd_kept_planes
                                         : CKCI_KERNEL_norm_bwd_kept_last);
        l.cluster = k->parts;
        l.grid = blocks;
        if (blocks > 0) {
            CKCI_TRY(e->emit(e->context, &l, err));
        }
        return back ? ckci_emit_norm_param(e, &l, 0, params, err) : CKCONV_OK;
    }
    if (k->stats) {
        CKCI_TRY(ckci_emit_norm(e, &l, f64, CKCI_KERNEL_norm_stats_f32, blocks, err));
    }
    if (!back) {
        return ckci_emit_norm(e, &l, f64, CKCI_KERNEL_norm_fwd_f32, blocks, err);
    }
    if (k->parts > 1 || (k->sums && !args->din)) {
        k->summing = 1;
        CKCI_TRY(ckci_emit_norm(e, &l, f64, CKCI_KERNEL_norm_din_f32, blocks, err));
        k->summing = 0;
    }
    if (args->din) {
        CKCI_TRY(ckci_emit_norm(e, &l, f64, CKCI_KERNEL_norm_din_f32, blocks, err));
    }
    return ckci_emit_norm_param(e, &l, f64, params, err);
}


/*------------------------------------------------------------------------------------------------------------
  >>g-move
  Layout and type conversion.
*/

/* Merge dimension i into j where together they are one dense dimension in both tensors. */
CKCI_FN int ckci_merge_move(int64_t len[6], int64_t step[2][6], int i, int j)
{
    int dense = i != j && len[i] > 1 && len[j] > 1;
    for (int t = 0; t < 2; t++) {
        dense = dense && step[t][i] == step[t][j] * len[j];
    }
    if (dense) {
        len[j] *= len[i];
        len[i] = 1;
    }
    return dense;
}

/* The tile of a block where elements move one by one: 1024 in all, 32 x 32, or a short dimension whole and
   more of the other. */
CKCI_FN void ckci_move_tile(ckci_gpu_move *k)
{
    int least = k->transpose ? 2 : 0, half = k->transpose ? 5 : 10;
    for (k->log_x = least; k->log_x < half && ((int64_t)1 << k->log_x) < k->len_x;) {
        k->log_x++;
    }
    for (k->log_y = least; k->log_y < 10 - k->log_x && ((int64_t)1 << k->log_y) < k->len_y;) {
        k->log_y++;
    }
    k->log_x = 10 - k->log_y;
    k->log_x = k->transpose && k->log_x > 8 ? 8 : k->log_x;
    k->log_y = 10 - k->log_x;
    k->tile[0] = 1 << k->log_x;
    k->tile[1] = 1 << k->log_y;
}

/* Are all elements multiples of `bytes` from 0, but for steps along dimensions of the bits in `except`? */
CKCI_FN int32_t ckci_move_aligned(const unsigned char *p, const int64_t step[6], const int64_t len[6],
                                  unsigned except, int64_t bytes)
{
    int fits = (uintptr_t)p % (uintptr_t)bytes == 0;
    for (int i = 0; i < 6; i++) {
        fits = fits && (except >> i & 1 || len[i] <= 1 || step[i] % bytes == 0);
    }
    return fits;
}

/* Rows dense in both tensors, equal types: pieces of so many bytes; 0: there are none. Where rows follow each
   other they are whole pieces. */
CKCI_FN int32_t ckci_move_piece(const ckci_gpu_move *k, int64_t step[2][6], const int64_t len[6])
{
    int64_t bytes = k->len_x * (int64_t)ckci_size(k->from), rows = 1;
    for (int i = 1; i < 6; i++) {
        rows = ckci_saturating_mul(rows, len[i]);
    }
    for (int32_t vec = 16; vec >= 4; vec /= 2) {
        if (bytes >= vec && (rows == 1 || bytes % vec == 0) &&
            ckci_move_aligned(k->src, step[0], len, 1, vec) &&
            ckci_move_aligned(k->dst, step[1], len, 1, vec)) {
            return vec;
        }
    }
    return 0;
}

/* The dimension from i on with the shortest steps comes first. */
CKCI_FN void ckci_move_first(const int64_t by[6], int64_t step[2][6], int64_t len[6], int i)
{
    int best = i;
    for (int j = i; j < 6; j++) {
        best = len[j] > 1 && (len[best] == 1 || by[j] < by[best]) ? j : best;
    }
    for (int t = 0; t < 3; t++) {
        int64_t *array = t < 2 ? step[t] : len, kept = array[i];
        array[i] = array[best];
        array[best] = kept;
    }
}

/* 2^log is at least n, but no more than 2^most. */
CKCI_FN int ckci_move_log(int64_t n, int most)
{
    int log = 0;
    while (log < most && ((int64_t)1 << log) < n) {
        log++;
    }
    return log;
}

/* move_copy: 1024 pieces. y follows x in dst, z in src, so that a block reads and writes long runs even where
   rows are short. */
CKCI_FN void ckci_move_copy(ckci_gpu_move *k, int64_t step[2][6], int64_t len[6])
{
    k->tail = (int32_t)(len[0] * (int64_t)ckci_size(k->from) % k->vec);
    len[0] = len[0] * (int64_t)ckci_size(k->from) / k->vec;
    step[0][0] = step[1][0] = k->vec;
    ckci_move_first(step[1], step, len, 1);
    ckci_move_first(step[0], step, len, 2);
    k->len_x = len[0];
    k->len_y = len[1];
    k->len_z = len[2];
    int log_x = ckci_move_log(len[0], 10), log_z = 0;
    if (step[0][2] < step[0][1]) {
        log_z = ckci_move_log(len[2], (11 - log_x) / 2);
    }
    int log_y = ckci_move_log(len[1], 10 - log_x - log_z);
    log_z = ckci_move_log(len[2], 10 - log_x - log_y);
    k->log_x = 10 - log_y - log_z;
    k->log_y = log_y;
    k->tile[0] = 1 << k->log_x;
    k->tile[1] = 1 << log_y;
    k->tile[2] = 1 << log_z;
}

/* A length in equal parts of at most `most`, multiples of `unit` as that is. */
CKCI_FN int32_t ckci_move_part(int64_t length, int64_t most, int64_t unit)
{
    most = most < unit ? unit : most - most % unit;
    int64_t part = ckci_ceil_div(length, ckci_ceil_div(length, most));
    return (int32_t)(ckci_ceil_div(part, unit) * unit);
}

/* Tiles in LDS: pieces, of 2^log rows, `bytes` apart. 128 bytes are all banks; where eight neighbouring
   pieces do not meet them all, 16 bytes more after as many of them as do: an odd multiple of 128 bytes, so
   that what follows each other in LDS does not lie in one bank either. (NVIDIA: after each.) */
CKCI_FN void ckci_move_pad(ckci_gpu_move *k, int64_t bytes, int log, int each)
{
    for (int64_t part = bytes; part % 128 != 0 && !each; part *= 2) {
        log++;
    }
    k->pad = bytes / 16 % 2 || bytes % 16 != 0 ? 0 : 16;
    k->pad_log = log;
}

/* Both tensors of a turned tile: lengths along x and y; bytes of an element of src and of dst; elements of
   dst in 16 bytes, of src in a load; bytes of the device's lines; elements of a tile that are wanted, and
   that LDS holds; how many along a side are whole lines of 128 bytes, and whole lines of the device; whether
   rows of dst (x) and of src (y) begin at 16 bytes and loads, and at lines of the device. */
typedef struct ckci_turn {
    int64_t x, y, from, to, v, unit, line, want, most;
    int64_t least_x, least_y, unit_x, unit_y;
    int rows_x, rows_y, lines_x, lines_y;
    int amd; /* lines of 64 bytes; parts of rows that begin inside them are as long as LDS allows */
    int log_v;
} ckci_turn;

CKCI_FN ckci_turn ckci_start_turn(const ckci_gpu_move *k, int64_t step[2][6], const int64_t len[6],
                                  int64_t unit, int64_t line)
{
    ckci_turn t;
    t.x = k->len_x;
    t.y = k->len_y;
    t.from = (int64_t)ckci_size(k->from);
    t.to = (int64_t)ckci_size(k->to);
    t.v = 16 / t.to;
    t.unit = unit;
    t.line = line;
    t.want = 16384 / t.to;
    t.amd = line > 32;
    t.most = t.amd ? (CKCI_MOVE_LDS - 32) / 9 * 8 / t.to : t.want;
    t.least_x = ckci_max(t.v, 128 / t.to);
    t.least_y = ckci_max(t.v, 128 / t.from);
    t.unit_x = ckci_max(t.v, line / t.to);
    t.unit_y = ckci_max(t.v, line / t.from);
    t.rows_x = ckci_move_aligned(k->dst, step[1], len, 1, 16);
    t.rows_y = ckci_move_aligned(k->src, step[0], len, 2, unit * t.from);
    t.lines_x = ckci_move_aligned(k->dst, step[1], len, 1, line);
    t.lines_y = ckci_move_aligned(k->src, step[0], len, 2, line);
    t.log_v = ckci_move_log(t.v, 4);
    return t;
}

/* Rows of dst are whole and follow each other; each element of src goes to its place in LDS. Does it fit? */
CKCI_FN int ckci_turn_scatter(ckci_gpu_move *k, int64_t step[2][6], const ckci_turn *t)
{
    const int64_t x = t->x, to = t->to, unit = t->unit;
    k->scatter = 1;
    k->tile[0] = (int32_t)x;
    const int64_t rows = ckci_max((t->lines_y ? t->want : t->most) / x / t->least_y, 1) * t->least_y;
    const int whole = t->amd && !t->lines_y && t->y <= t->most / x;
    k->tile[1] = ckci_move_part(t->y, whole ? t->y + t->unit_y : rows, t->unit_y);
    ckci_move_pad(k, t->amd ? unit * to * x : 16 * x, t->amd ? ckci_move_log(unit, 4) : t->log_v, !t->amd);
    k->load_step = step[0][0];
    k->shifted = !t->rows_y;
    /* eight pieces, or so many that with them all banks are met */
    k->lanes = 3;
    while (t->amd && ((unit * to * x) << k->lanes & 127) != 0 && /* unit * to >= 4: five lanes at most */
           (to > 1 || unit << k->lanes < 2 * k->tile[1])) {
        k->lanes++;
    }
    int64_t high = ckci_ceil_div(x, 32 >> k->lanes);
    k->by_load = ckci_make_divisor(high);
    k->loads = (int32_t)(32 * high * ckci_ceil_div(k->tile[1], unit << k->lanes));
    k->by_store = ckci_make_divisor((x * to << k->pad_log) / 16); /* pieces between padding */
    k->stores = (int32_t)ckci_ceil_div(k->tile[1] * x + t->v - 1, t->v);
    high = ckci_min(k->tile[1], t->y);
    return high * x * to + (high >> k->pad_log) * k->pad + 16 <= CKCI_MOVE_LDS;
}

/* Rows of src are whole and follow each other. */
CKCI_FN void ckci_turn_merge(ckci_gpu_move *k, int64_t step[2][6], const int64_t len[6], const ckci_turn *t)
{
    const int64_t y = t->y, v = t->v, row = v / t->unit * y;
    k->merged = 1;
    k->tile[0] = ckci_move_part(
        t->x, ckci_max((t->lines_x ? t->want : t->most) / y / t->least_x, 1) * t->least_x, t->unit_x);
    k->tile[1] = (int32_t)y;
    k->pitch = (int32_t)(y * t->to);
    ckci_move_pad(k, 16 * y, t->log_v, !t->amd);
    k->load_pitch = (int32_t)(16 * y) + (t->amd ? 0 : k->pad);
    k->load_pad = t->amd ? k->pad : 0;
    k->load_log = k->pad_log - t->log_v;
    k->load_step = v * y * t->from;
    k->row_run = (int32_t)(v * y);
    k->shifted = !ckci_move_aligned(k->src, step[0], len, 3, t->unit * t->from);
    k->by_load = ckci_make_divisor(row);
    k->loads = (int32_t)((k->tile[0] + k->before) / v * row);
}

/* Parts of rows of both. */
CKCI_FN void ckci_turn_gather(ckci_gpu_move *k, int64_t step[2][6], const ckci_turn *t)
{
    const int64_t x = t->x, y = t->y, from = t->from, to = t->to, v = t->v, unit = t->unit, want = t->want;
    int64_t side = to == 1 ? 128 : to == 8 ? 32 : 64;
    side = t->rows_x ? side : want / side;
    side = x > side && x <= side * 3 / 2 ? x : side;
    int64_t room = want, grain_x = ckci_min(t->unit_x, side), grain_y = ckci_max(unit, t->line / from);
    if (t->amd && t->lines_x != t->lines_y) {
        /* rows of one tensor begin inside lines: 640 bytes of each, or all there is */
        const int64_t long_x = ckci_min(ckci_max(ckci_min(x, 640 / to), side), want / t->unit_y),
                      long_y = want / ckci_min(y, 640 / from) / t->unit_x * t->unit_x;
        side = t->lines_y ? long_x : ckci_max(ckci_min(long_y, side), t->unit_x);
        grain_x = ckci_min(t->unit_x, side);
    } else if (t->amd && !t->lines_x) {
        /* of both: as many bytes of each, or rows of src that are one run, and more along x */
        const int64_t long_x = t->most / (ckci_ceil_div(y, v) * v);
        int64_t bytes = 16;
        while ((bytes + 16) * (bytes + 16) <= t->most * to * from) {
            bytes += 16;
        }
        side = step[0][0] == y * from && long_x * to > bytes ? long_x - long_x % v : bytes / to;
        room = t->most;
        grain_x = v;
        grain_y = ckci_max(unit, v);
    }
    k->tile[0] = ckci_move_part(x, ckci_ceil_div(side, v) * v, grain_x);
    k->tile[1] = ckci_move_part(y, ckci_min(room / k->tile[0], 512), grain_y);
    k->pitch = (int32_t)ckci_ceil_div(k->tile[1] * to, 16) * 16;
    ckci_move_pad(k, k->pitch * v, t->log_v, !t->amd);
    k->load_pitch = k->pitch;
    k->load_pad = k->pad;
    k->load_log = k->pad_log;
    k->load_step = step[0][0];
    k->shifted = !t->rows_y;
    k->by_load = ckci_make_divisor(ckci_ceil_div(k->tile[1], unit));
    k->loads = (k->tile[0] + k->before) * (int32_t)k->by_load.d;
}

/* Tensors that are turned: in which way, and the tile. unit: elements of a load; line: bytes that memory
   reads and writes together. 0: not so. */
CKCI_FN int ckci_move_turn(ckci_gpu_move *k, int64_t step[2][6], const int64_t len[6], int64_t unit,
                           int64_t line)
{
    const ckci_turn t = ckci_start_turn(k, step, len, unit, line);
    const int64_t x = t.x, y = t.y, to = t.to, v = t.v;
    /* 16 bytes of dst for each element of V rows, and what pads them */
    const int can_scatter = step[1][1] == x * to && y >= t.least_y / 2 && x < 4096 &&
                            ckci_ceil_div(t.least_y, v) * (16 * x + 16) + 32 <= CKCI_MOVE_LDS;
    const int can_merge = step[0][0] == y * t.from && x >= t.least_x / 2 && y < 4096 &&
                          (ckci_ceil_div(t.least_x, v) + 1) * (16 * y + 16) <= CKCI_MOVE_LDS;
    k->anywhere = t.amd;
    /* also where a row of dst would be several parts that are not whole lines */
    if (can_scatter && (!t.rows_x || x < 128 / to || (t.rows_y && x > 96 && x * to % 128 != 0))) {
        return ckci_turn_scatter(k, step, &t);
    }
    k->before = t.rows_x || k->anywhere ? 0 : (int32_t)v;
    if (can_merge && (!t.rows_y || y < 128 / t.from)) {
        ckci_turn_merge(k, step, len, &t);
    } else {
        ckci_turn_gather(k, step, &t);
        if (x * to < 32 || y * t.from < 32) {
            return 0;
        }
    }
    k->words = to < 4 && t.rows_x && k->pitch % 4 == 0 && x % v == 0;
    int64_t apart = k->before && to < 4 ? 4 / to : 1;
    int64_t high = ckci_ceil_div(k->tile[1], 4 * apart * (k->words ? 4 / to : 1)) * apart;
    k->by_store = ckci_make_divisor(high);
    k->stores = (int32_t)(32 * high * ckci_ceil_div(k->tile[0], 8 * v));
    const int64_t rows = k->tile[0] + k->before;
    return rows * k->pitch + (rows >> k->pad_log) * k->pad <= CKCI_MOVE_LDS;
}

/* Other types, x dense in both: rows, or parts of them. */
CKCI_FN int ckci_move_straight(ckci_gpu_move *k, int64_t step[2][6], const int64_t len[6], int64_t unit)
{
    k->straight = 1;
    k->tile[0] = ckci_move_part(k->len_x, 8192, unit);
    k->tile[1] = (int32_t)ckci_min(8192 / k->tile[0], k->len_y);
    k->load_step = step[0][1];
    k->shifted = !ckci_move_aligned(k->src, step[0], len, 1, unit * (int64_t)ckci_size(k->from));
    k->dst_vec = ckci_move_aligned(k->dst, step[1], len, 1, unit * (int64_t)ckci_size(k->to));
    k->by_load = ckci_make_divisor(k->tile[0] / unit);
    k->loads = k->tile[1] * (int32_t)k->by_load.d;
    return k->len_x >= 4;
}

/* Which kernel, its tile; dimensions in the kernel's order, x first. */
CKCI_FN void ckci_move_kernel(ckci_gpu_move *k, ckci_launch *l, int64_t step[2][6], int64_t len[6],
                              int64_t line)
{
    int64_t from = (int64_t)ckci_size(k->from), to = (int64_t)ckci_size(k->to);
    int same = k->from == k->to, dense = step[0][k->transpose ? 1 : 0] == from && step[1][0] == to;
    const int alike = same || (k->transpose && from == 2 && to == 2); /* f16 and bf16 */
    int64_t unit = alike ? 16 / to : to == 8 ? 2 : 4;
    static const int32_t turn[2][4] = {
        {CKCI_KERNEL_move_convert_1, CKCI_KERNEL_move_convert_2, CKCI_KERNEL_move_convert_4,
         CKCI_KERNEL_move_convert_8},
        {CKCI_KERNEL_move_turn_1, CKCI_KERNEL_move_turn_2, CKCI_KERNEL_move_turn_4, CKCI_KERNEL_move_turn_8},
    };
    for (int i = 0; i < 6; i++) {
        k->tile[i] = 1;
    }
    k->src_end = k->src + from;
    for (int i = 0; i < 6; i++) {
        k->src_end += (len[i] - 1) * step[0][i];
    }
    ckci_set_kernel(l, CKCI_KERNEL_move);
    if (dense && same && !k->transpose) {
        k->vec = ckci_move_piece(k, step, len);
        if (k->vec) {
            ckci_set_kernel(l, CKCI_KERNEL_move_copy);
            ckci_move_copy(k, step, len);
            return;
        }
    } else if (dense && (same || (k->from != CKCONV_I32 && k->to != CKCONV_I32)) &&
               (k->transpose ? ckci_move_turn(k, step, len, unit, line)
                             : ckci_move_straight(k, step, len, unit))) {
        ckci_set_kernel(l, turn[alike][to == 8 ? 3 : to / 2]);
        return;
    }
    k->before = 0;
    ckci_move_tile(k);
}

CKCI_FN ckconv_status ckci_make_move(const ckconv_device *device, const ckci_tensor *src,
                                     const ckci_tensor *dst, ckci_launch *l, ckconv_error *err)
{
    ckci_gpu_move *k = &l->a.move;
    int64_t all[6], steps[2][6], len[6], step[2][6];
    int x = -1, y = -1, dense = -1, order[6], count = 2;
    memset(k, 0, sizeof *k);
    k->src = src->p;
    k->dst = dst->p;
    k->from = src->dtype;
    k->to = dst->dtype;
    for (int i = 0; i < 6; i++) {
        all[i] = src->len[i];
        steps[0][i] = src->stride[i] * (int64_t)ckci_size(src->dtype);
        steps[1][i] = dst->stride[i] * (int64_t)ckci_size(dst->dtype);
    }
    for (int merged = 1; merged;) {
        merged = 0;
        for (int i = 0; i < 36; i++) {
            merged = merged || ckci_merge_move(all, steps, i / 6, i % 6);
        }
    }
    for (int i = 0; i < 6; i++) {
        if (all[i] != 1) {
            x = x < 0 || steps[1][i] < steps[1][x] ? i : x;
            dense = dense < 0 || steps[0][i] < steps[0][dense] ? i : dense;
        }
    }
    x = x < 0 ? 5 : x;
    k->transpose = dense >= 0 && dense != x;
    y = k->transpose ? dense : -1;
    for (int i = 0; i < 6 && !k->transpose; i++) {
        y = i != x && (y < 0 || all[i] > all[y]) ? i : y;
    }
    order[0] = x;
    order[1] = y;
    for (int i = 0; i < 6; i++) {
        if (i != x && i != y) {
            order[count++] = i;
        }
    }
    for (int i = 0; i < 6; i++) {
        len[i] = all[order[i]];
        step[0][i] = steps[0][order[i]];
        step[1][i] = steps[1][order[i]];
    }
    k->len_x = len[0];
    k->len_y = len[1];
    k->len_z = len[2];
    ckci_move_kernel(k, l, step, len, device->kind == CKCONV_DEVICE_NVIDIA ? 32 : 64);
    len[0] = ckci_ceil_div(len[0] + (k->before ? k->before - 1 : 0), k->tile[0]);
    len[1] = ckci_ceil_div(len[1], k->tile[1]);
    len[2] = ckci_ceil_div(len[2], k->tile[2]);
    l->grid = 1;
    for (int i = 0; i < 6; i++) {
        k->src_step[i] = step[0][i];
        k->dst_step[i] = step[1][i];
        l->grid = ckci_saturating_mul(l->grid, len[i]);
    }
    CKCI_TRY(ckci_too_many_blocks(l->grid, err)); /* divisors have 31 bits */
    for (int i = 0; i < 6; i++) {
        k->blocks[i] = ckci_make_divisor(len[i]);
    }
    return CKCONV_OK;
}


/*------------------------------------------------------------------------------------------------------------
  >>g-pair
  conv_conv_fwd: fused, or two convolutions through workspace.
*/

/* The type in which mid lies in workspace: its compute type, so that the second convolution reads it as it
   is. */
CKCI_FN ckconv_dtype ckci_gpu_mid_type(const ckci_conv *first)
{
    ckconv_dtype c = first->t[CKCI_IN].compute;
    return c == CKCONV_F64 || c == CKCONV_I8 || c == CKCONV_F16 || c == CKCONV_BF16
               ? c
               : (ckconv_dtype)CKCONV_F32;
}

/* mid in workspace, dense, channels of all groups fastest: [groups][per group] is one index for both
   convolutions. */
CKCI_FN void ckci_gpu_mid(const ckci_conv *first, int64_t groups, int64_t per_group, unsigned char *ws,
                          ckci_tensor *t)
{
    ckconv_dtype type = ckci_gpu_mid_type(first);
    ckconv_element_op none = t->op;
    ckci_dense_mid(t, ckci_find_kind(type)->dtype, groups, first->n, per_group, first->output, ws);
    t->dtype = t->compute = type;
    t->op = none;
}

/* Bytes of mid in workspace; what follows it is aligned too. */
CKCI_FN int64_t ckci_mid_bytes(const ckci_conv *first)
{
    const ckci_tensor *mid = &first->t[CKCI_OUT];
    int64_t bytes = ckci_saturating_mul(ckci_count(mid), (int64_t)ckci_size(mid->dtype));
    return ckci_saturating_mul(ckci_ceil_div(bytes, CKCI_ALIGN), CKCI_ALIGN);
}

/* Both convolutions with mid in workspace. */
CKCI_FN void ckci_gpu_unfused(const ckci_conv_conv *p, unsigned char *ws, ckci_conv part[2])
{
    part[0] = p->first;
    part[1] = p->second;
    ckci_gpu_mid(&p->first, p->first.g, p->first.k, ws, &part[0].t[CKCI_OUT]);
    ckci_gpu_mid(&p->first, p->second.g, p->second.c, ws, &part[1].t[CKCI_IN]);
    memset(&part[1].t[CKCI_IN].op, 0, sizeof part[1].t[CKCI_IN].op);
}

/* One convolution of a pair is planned like any other, within `limit` bytes of workspace. mid: only
   instances that take the first convolution's epilogue; only: this one, or -1. A scratch plan gets
   instance, geometry and workspace. */
CKCI_FN ckconv_status ckci_plan_part(const ckci_conv *p, const ckconv_device *device, int64_t limit, int mid,
                                     int32_t only, ckconv_plan *part, double *cost, ckconv_error *err);
/* Its launches. */
CKCI_FN ckconv_status ckci_list_part(const ckconv_plan *part, const ckci_conv *p, unsigned char *ws,
                                     const ckci_emitter *e, ckconv_error *err);

/* The first convolution's epilogue: scale, shift, operation, rounding (storing it is that already where mid
   lies as what it is rounded to). */
CKCI_FN void ckci_gpu_mid_target(const ckci_conv *first, const ckconv_args *args, ckci_gpu_target *o)
{
    ckconv_dtype compute = first->t[CKCI_IN].compute;
    int stored = o->t.dtype == compute && compute != CKCONV_I8;
    o->scale = args ? (const unsigned char *)args->scale : NULL;
    o->shift = args ? (const unsigned char *)args->shift : NULL;
    o->compute = stored ? (ckconv_dtype)0 : compute;
}

/* What costs count beside those of matrix units (H100: the f32 kernel takes 49 to 2,860 us where two kernels
   take 17 to 204, the one that takes everything 270); and those of two kernels, the second of which waits for
   all blocks of the first. */
#define CKCI_FUSED_BESIDE 8
#define CKCI_RECOMPUTE_BESIDE 16
#define CKCI_UNFUSED_MORE 2e6

/* Both in one launch. tile 64: the f32 kernel for 1x1 second filters; 0: the one that takes everything. */
CKCI_FN ckconv_status ckci_gpu_fused(const ckci_conv_conv *p, const ckconv_device *device, int32_t tile,
                                     ckci_launch *l, double *cost, ckconv_error *err)
{
    ckci_gpu_pair *pair = &l->a.pair;
    ckconv_dtype kind = ckci_conv_kind(&p->first);
    int64_t taps1 = p->second.filter[0] * p->second.filter[1] * p->second.filter[2];
    if (tile && taps1 != 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "filter1 has %lld taps: the fused kernel takes 1, larger ones run unfused",
                         CKCI_LL(taps1));
    }
    CKCI_TRY(ckci_gpu_takes(&p->first, err));
    CKCI_TRY(ckci_gpu_takes(&p->second, err));
    memset(pair, 0, sizeof *pair);
    ckci_make_gpu_conv(&p->first, &pair->first);
    ckci_make_gpu_conv(&p->second, &pair->second);
    ckci_gpu_conv *k = &pair->second;
    double taps = (double)(p->first.filter[0] * p->first.filter[1] * p->first.filter[2]);
    double mid = (double)k->red * (4 * taps * (double)p->first.c + 16); /* of one position */
    if (tile) {
        ckci_set_kernel(l, CKCI_KERNEL_pair_f32);
        k->tiles_m = (int32_t)ckci_max(ckci_ceil_div(k->rows, 64), 1);
        k->tiles_n = (int32_t)ckci_ceil_div(k->columns, 64);
        CKCI_TRY(ckci_make_grid(k, k->g, l, err));
        *cost = CKCI_FUSED_BESIDE *
                ckci_gpu_cost(device, l->grid, 64 * mid + 64.0 * 64.0 * ((double)k->red + 32), 64);
    } else {
        ckci_set_kernel(l, ckci_kernel_for(kind, CKCI_KERNEL_recompute_f32, CKCI_KERNEL_recompute_f64,
                                           CKCI_KERNEL_recompute_i32));
        ckci_direct_blocks(k, ckci_saturating_mul(p->second.g, k->columns));
        CKCI_TRY(ckci_make_grid(k, k->phases, l, err));
        *cost = CKCI_RECOMPUTE_BESIDE * ckci_gpu_cost(device, l->grid, 256 * mid * (double)taps1, 128);
    }
    return CKCONV_OK;
}

/* Fused (tile 64), recomputing (tile 0) and unfused. */
CKCI_FN ckconv_status ckci_fit_gpu_pair(ckci_fit *f, ckconv_error *err)
{
    const ckci_conv_conv *p = &f->p->pair;
    ckci_launch l;
    l.grid = l.threads = 0; /* some compilers do not see that it is set */
    CKCI_TRY(ckci_gpu_no_split(f, err));
    CKCI_TRY(ckci_gpu_wrong_kind(f, ckci_conv_kind(&p->first), err));
    if (f->family == CKCONV_FAMILY_FUSED) {
        CKCI_TRY(ckci_gpu_fused(p, &f->plan->device, f->tile, &l, &f->cost, err));
        ckci_plan_launch(f->plan, &l, 1);
        return CKCONV_OK;
    }
    ckci_conv part[2];
    ckci_gpu_unfused(p, NULL, part);
    int64_t bytes = ckci_mid_bytes(&part[0]), extra = 0;
    if (bytes > f->limit) {
        return ckci_over_limit("unfused, mid alone", bytes, err);
    }
    f->cost = CKCI_UNFUSED_MORE;
    for (int i = 0; i < 2; i++) {
        ckconv_plan one;
        double cost;
        int64_t given = f->plan->tune[CKCI_TUNE_FIRST + i]; /* when it is planned again: no search */
        int32_t only = given > 0 && given < ckconv_instance_count() ? (int32_t)given : -1;
        CKCI_TRY(
            ckci_plan_part(&part[i], &f->plan->device, f->limit - bytes, i == 0, only, &one, &cost, err));
        /* no faster than memory: a kernel's cost may be for comparing it with its like only */
        double memory = 3000;
        for (int j = 0; j < 3; j++) {
            memory += (double)ckci_count(&part[i].t[j]) * (double)ckci_size(part[i].t[j].dtype) / 20 /
                      (double)ckci_max(f->plan->device.compute_units, 1);
        }
        f->cost += cost > 218 * memory ? cost : 218 * memory;
        f->plan->tune[CKCI_TUNE_FIRST + i] = one.instance;
        f->plan->grid[0] = one.grid[0];
        f->plan->block[0] = one.block[0];
        extra = ckci_max(extra, one.workspace_bytes);
    }
    f->plan->workspace_bytes = bytes + extra; /* both parts use the rest, one after the other */
    return CKCONV_OK;
}

/* The emitter of the first convolution of a pair: mid's epilogue goes into the launches. */
typedef struct ckci_mid_emitter {
    const ckci_conv *first;
    const ckconv_args *args;
    const ckci_emitter *next;
} ckci_mid_emitter;

CKCI_FN ckconv_status ckci_emit_mid(void *context, const ckci_launch *launch, ckconv_error *err)
{
    const ckci_mid_emitter *m = (const ckci_mid_emitter *)context;
    ckci_launch l = *launch;
    if (launch->bytes == sizeof(ckci_gpu_depth)) {
        ckci_gpu_depth *k = &l.a.depth;
        ckci_gpu_mid_target(m->first, m->args, &k->o);
        k->o_same = k->o_same && !k->o.scale && !k->o.shift && !k->o.compute;
        k->o_vec = k->o_vec && k->o_same;
    } else if (ckci_writes_target(launch)) {
        ckci_gpu_conv *k = &l.a.conv;
        ckci_gpu_mid_target(m->first, m->args, &k->o);
        if (l.kernel < CKCI_KERNEL_matrix_gather_256x256 ||
            l.kernel > CKCI_KERNEL_matrix_double_weight_128x64) {
            /* elsewhere than on matrix units it stands for results without an epilogue */
            k->o_vec = k->o_vec && !k->o.scale && !k->o.shift && !k->o.compute;
        }
    }
    return m->next->emit(m->next->context, &l, err);
}

CKCI_FN ckconv_status ckci_list_mid(const ckconv_plan *part, const ckci_conv *first, const ckci_conv *p,
                                    const ckconv_args *args, unsigned char *ws, const ckci_emitter *e,
                                    ckconv_error *err)
{
    ckci_mid_emitter m;
    ckci_emitter to_mid;
    m.first = first;
    m.args = args;
    m.next = e;
    to_mid.emit = ckci_emit_mid;
    to_mid.context = &m;
    return ckci_list_part(part, p, ws, &to_mid, err);
}

/* Does the second convolution read each position of mid exactly once? */
CKCI_FN int ckci_pair_whole(const ckci_conv_conv *p)
{
    int whole = 1;
    for (int i = 0; i < 3; i++) {
        whole = whole && p->second.filter[i] == 1 && p->second.stride[i] == 1 && p->second.pad[i] == 0 &&
                p->second.output[i] == p->second.input[i];
    }
    return whole;
}

/* A copy of mid by itself, where the fused kernel cannot write it. */
CKCI_FN ckconv_status ckci_list_mid_copy(const ckconv_plan *plan, const ckci_conv_conv *pair,
                                         const ckconv_args *args, const ckci_emitter *e, ckconv_error *err)
{
    ckconv_plan part;
    double cost;
    CKCI_TRY(ckci_plan_part(&pair->first, &plan->device, 0, 1, -1, &part, &cost, err));
    return ckci_list_mid(&part, &pair->first, &pair->first, args, NULL, e, err);
}

/* Fused; with a copy of mid that the fused kernel cannot write, a kernel for that. */
CKCI_FN ckconv_status ckci_list_fused(const ckconv_plan *plan, const ckci_conv_conv *pair,
                                      const ckconv_args *args, int32_t tile, const ckci_emitter *e,
                                      ckconv_error *err)
{
    ckci_launch l;
    double cost;
    int whole = ckci_pair_whole(pair);
    CKCI_TRY(ckci_gpu_fused(pair, &plan->device, tile, &l, &cost, err));
    ckci_gpu_mid_target(&pair->first, args, &l.a.pair.first.o);
    l.a.pair.first.o.compute = pair->first.t[CKCI_IN].compute; /* mid may not be stored at all */
    l.a.pair.write_mid = whole && args->mid != NULL;
    if (l.grid > 0) {
        CKCI_TRY(e->emit(e->context, &l, err));
    }
    return whole || !args->mid ? CKCONV_OK : ckci_list_mid_copy(plan, pair, args, e, err);
}

/* ---- conv_conv_fwd on a matrix unit; see ckci_k_pair_tiles and ckci_k_pair_depth_tiles in
   kernels.direct.hip.h */

/* Channels of all groups side by side, in eights: as a tensor of one group. */
CKCI_FN ckci_tensor ckci_one_group(const ckci_tensor *t)
{
    ckci_tensor one = *t;
    if (t->len[2] == 1) {
        one.len[2] = t->len[0];
        one.stride[2] = t->len[0] > 1 ? t->stride[0] : 1;
    }
    one.len[0] = 1;
    return one;
}

/* What a block of a fused kernel is. positions: rows of its tiles; columns: of the second weights at a time;
   lanes: channels that a thread computes of a strip; slab: channels of mid side by side; lds: bytes, of
   strips at most. */
typedef struct ckci_pair_shape {
    int32_t kernel, positions, threads, columns, lanes, slab, lds, side, async;
} ckci_pair_shape;

CKCI_FN ckconv_status ckci_pair_lds(const ckconv_device *device, int32_t lds, ckconv_error *err)
{
    return lds <= device->lds_bytes
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                           "a block of this fused kernel has %d bytes of LDS; on %s it can have %d", (int)lds,
                           device->arch, (int)device->lds_bytes);
}

/* tile: of the instance. 64128: pointwise, 128128, 128256 and CKCI_PAIR_STRIPS: depthwise, the latter two 512
   threads. */
CKCI_FN ckconv_status ckci_find_pair_shape(const ckconv_device *device, int32_t tile, ckci_pair_shape *s,
                                           ckconv_error *err)
{
    static const ckci_pair_shape point[2] = {
        {CKCI_KERNEL_pair_matrix_f16, 64, 256, 128, 0, 32, 62464, 1, 0},
        {CKCI_KERNEL_pair_matrix_f16, 64, 256, 128, 0, 64, 115712, 2, 1}};
    static const ckci_pair_shape depth[2] = {
        {CKCI_KERNEL_pair_depth_f16, 64, 256, 128, 4, 32, CKCI_PAIR_AMD, 1, 0},
        {CKCI_KERNEL_pair_depth_f16, 128, 256, 128, 8, 64, CKCI_PAIR_NVIDIA, 2, 1}};
    static const ckci_pair_shape wide = {CKCI_KERNEL_pair_depth_wide_f16, 128, 512, 256, 8, 64,
                                         CKCI_PAIR_NVIDIA_WIDE,           1,   1};
    static const ckci_pair_shape strips = {CKCI_KERNEL_pair_strips_f16, 64, 512, 256, 4, 64,
                                           CKCI_PAIR_NVIDIA_WIDE,       1,  0};
    int nvidia = device->kind == CKCONV_DEVICE_NVIDIA;
    *s = tile == 64128 ? point[nvidia] : tile == 128128 ? depth[nvidia] : tile == 128256 ? wide : strips;
    if (!nvidia && (tile == 128256 || tile == CKCI_PAIR_STRIPS)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "this fused kernel is for NVIDIA; here the GPU is %s",
                         device->arch);
    }
    if (tile != CKCI_PAIR_STRIPS) { /* there it depends on the channels */
        CKCI_TRY(ckci_pair_lds(device, s->lds, err));
    }
    s->side = device->lds_bytes < 2 * s->lds ? 1 : s->side;
    return CKCONV_OK;
}

/* Nanoseconds: rounds of blocks on the unit, each so long, or memory. */
CKCI_FN double ckci_pair_time(const ckci_conv_conv *p, const ckconv_device *device, int64_t blocks,
                              const ckci_pair_shape *s, double block)
{
    double units = (double)ckci_max(device->compute_units, 1), memory = 0;
    double share = (double)blocks / ((double)s->side * units);
    const ckci_tensor *moved[4] = {&p->first.t[CKCI_IN], &p->first.t[CKCI_WEI], &p->second.t[CKCI_WEI],
                                   &p->second.t[CKCI_OUT]};
    for (int i = 0; i < 4; i++) {
        memory += (double)ckci_count(moved[i]) * (double)ckci_size(moved[i]->dtype) / (20 * units);
    }
    double time = block * (share > 6 ? share : ceil(share));
    return 3000 + (time > memory ? time : memory);
}

/* A region of so many images, lines and strips of four columns: its window, and where all lies in LDS, with
   as little in one place as fits. */
CKCI_FN int ckci_make_pair_patch(const ckci_conv_conv *p, const ckci_pair_shape *s, int64_t images,
                                 int64_t lines, int64_t strips, ckci_gpu_patch *q)
{
    const ckci_conv *first = &p->first, *second = &p->second;
    int64_t span = s->threads * 4 / s->positions * s->lanes, pixel = 2 * span;
    int64_t step_y = first->stride[1] * second->stride[1], step = first->stride[2] * second->stride[2];
    int64_t rows = (lines - 1) * step_y + (first->filter[1] - 1) * first->dilation[1] + 1;
    int64_t wide = (strips * 4 - 1) * step + (first->filter[2] - 1) * first->dilation[2] + 1;
    int64_t deep = first->filter[0], taps = deep * first->filter[1] * first->filter[2];
    if (images > 31 || deep > 31 || rows > 511 || wide > 511 ||
        images * deep * rows * wide * (span / 8) > (s->async ? 65536 : s->threads * CKCI_PAIR_COPIES)) {
        return 0;
    }
    memset(q, 0, sizeof *q);
    q->images = (int32_t)images;
    q->lines = (int32_t)lines;
    q->columns = (int32_t)(strips * 4);
    q->pixels = (int32_t)(images * deep * rows * wide);
    q->spans = (int32_t)ckci_max(ckci_ceil_div(second->c, span), 1);
    q->step = (int32_t)step;
    q->step_y = (int32_t)step_y;
    q->group = step > 1 || first->dilation[2] > 1 ? 1
               : first->filter[2] % 3 == 0        ? 3
               : first->filter[2] % 5 == 0        ? 5
                                                  : 1;
    q->next_group = (int32_t)(q->group * first->dilation[2] * pixel);
    q->next_y = (int32_t)(first->dilation[1] * wide * pixel);
    q->next_z = (int32_t)(rows * wide * pixel);
    q->by_strips = ckci_make_divisor(strips);
    q->by_lines = ckci_make_divisor(lines);
    q->by_wide = ckci_make_divisor(ckci_ceil_div(second->output[2], strips * 4));
    q->by_high = ckci_make_divisor(ckci_ceil_div(second->output[1], lines));
    q->by_planes = ckci_make_divisor(second->output[0]);
    q->by_window = ckci_make_divisor(wide);
    q->by_rows = ckci_make_divisor(rows);
    q->by_deep = ckci_make_divisor(deep);
    int64_t mid = ckci_ceil_div(second->c, s->slab) * s->slab * 2 * s->positions;
    int64_t weights = 4 * (int64_t)s->columns * s->slab, room = 16384, window = q->pixels * pixel;
    int64_t shared = s->async ? weights + room : room, taps_all = taps * q->spans * span * 4;
    for (int way = 0; way < 4; way++) { /* all apart, two windows of which one is, one window, none apart */
        q->single = !s->async || q->spans == 1 || way == 2;
        q->overlap = way == 1 ? 1 : way == 3 ? 2 : 0;
        int64_t windows = q->single ? 1 : 2;
        if ((way == 1 || way == 2) && (!s->async || q->spans == 1)) {
            continue;
        }
        for (int held = 1; held >= 0; held--) { /* weights of all taps, or those of a span */
            int64_t at = mid, apart = q->overlap == 2 ? 0 : window, other = windows * window - window;
            q->held = (int32_t)(held ? q->spans * span : span);
            q->at_taps = (int32_t)at;
            at += ckci_ceil_div(held ? taps_all : taps * span * 4, 128) * 128;
            q->at_output = (int32_t)at;
            at += 8 * s->positions;
            q->at_regions = (int32_t)at;
            at += 32 * (CKCI_PAIR_LIST + 1);
            q->at_pixels = (int32_t)at;
            at = ckci_ceil_div(at + 8 * q->pixels, 1024) * 1024;
            q->at_tiles = (int32_t)at;
            q->at_room = (int32_t)(at + (s->async ? weights : 0));
            int64_t place = ckci_max(shared, q->overlap == 2   ? windows * window
                                             : q->overlap == 1 ? other
                                                               : 0);
            q->at_window[0] = (int32_t)(q->overlap == 2 ? at : at + place);
            q->at_window[1] = (int32_t)(q->overlap == 1 ? at : q->at_window[0] + (q->single ? 0 : window));
            at += place + apart + (q->overlap == 0 ? other : 0);
            if (at <= s->lds) {
                return 1;
            }
        }
    }
    return 0;
}

/* The region that wastes least: of positions, of inputs around it, of units that wait for the last blocks. */
CKCI_FN int64_t ckci_choose_patch(const ckci_conv_conv *p, const ckconv_device *device,
                                  const ckci_pair_shape *s, ckci_gpu_patch *best)
{
    const ckci_conv *second = &p->second;
    double least = 1e30;
    int64_t regions = 0, most = s->positions / 4, slots = ckci_max(device->compute_units, 1) * s->side;
    for (int64_t strips = 1; strips <= most; strips++) {
        for (int64_t lines = 1; strips * lines <= most; lines++) {
            int64_t images =
                lines >= second->output[1] && strips * 4 >= second->output[2] && second->output[0] == 1
                    ? ckci_max(ckci_min(most / (strips * lines), second->n), 1)
                    : 1;
            ckci_gpu_patch q;
            if ((strips > 1 && (strips - 1) * 4 >= second->output[2]) ||
                (lines > 1 && lines > second->output[1]) ||
                !ckci_make_pair_patch(p, s, images, lines, strips, &q)) {
                continue;
            }
            int64_t all = ckci_saturating_mul(ckci_ceil_div(second->n, images), (int64_t)q.by_planes.d);
            all = ckci_saturating_mul(all, (int64_t)q.by_high.d * q.by_wide.d);
            double share = (double)all / (double)slots;
            double cost =
                (share > 4 ? share : ceil(share)) * (1.5 * s->positions + q.pixels) * (1 + .05 * q.overlap);
            if (cost < least) {
                least = cost;
                regions = ckci_max(all, 1); /* an empty batch has a plan, too */
                *best = q;
            }
        }
    }
    return regions;
}

/* Offsets of weights have 31 bits. */
CKCI_FN ckconv_status ckci_pair_span(const ckci_tensor *t, const char *what, ckconv_error *err)
{
    return ckci_span(t) <= INT32_MAX / 4
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                           "fused on a matrix unit, %s takes up to 2^30 bytes; here it reaches over more",
                           what);
}

/* What both kernels ask of a pair. */
CKCI_FN ckconv_status ckci_pair_reads(const ckci_conv_conv *p, const ckconv_device *device, ckci_gpu_pair *a,
                                      ckconv_error *err)
{
    const ckci_conv *first = &p->first, *second = &p->second;
    ckconv_dtype type = first->t[CKCI_IN].compute;
    if (ckci_matrix_family(device) == 0 || (type != CKCONV_F16 && type != CKCONV_BF16) ||
        second->t[CKCI_WEI].compute != type) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "fused on a matrix unit computes in f16 or bf16; here in %s, on %s",
                         ckconv_dtype_name(type), device->arch);
    }
    if (second->filter[0] * second->filter[1] * second->filter[2] != 1 || second->g != 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "fused on a matrix unit, the second convolution is 1x1 with one group");
    }
    CKCI_TRY(ckci_gpu_takes(first, err));
    CKCI_TRY(ckci_gpu_takes(second, err));
    memset(a, 0, sizeof *a);
    ckci_make_gpu_conv(first, &a->first);
    ckci_make_gpu_conv(second, &a->second);
    a->first.a = ckci_one_group(&a->first.a);
    CKCI_TRY(ckci_matrix_reads(&a->first.a, "in", type, a->first.a.len[2], err));
    CKCI_TRY(ckci_matrix_reads(&a->second.b, "wei1", type, second->c, err));
    CKCI_TRY(ckci_pair_span(&a->second.b, "wei1", err));
    ckci_tensor mid = ckci_one_group(&a->first.o.t);
    a->mid_vec = mid.dtype == type && ckci_aligned_columns(&mid, second->c);
    a->second.o_vec = ckci_aligned_columns(&a->second.o.t, a->second.columns);
    int64_t space = ckci_max(second->output[0] * second->output[1] * second->output[2], 1), pad = 0;
    for (int i = 0; i < 3; i++) {
        pad = ckci_max(pad, 2 * first->pad[i] + (first->filter[i] - 1) * first->dilation[i]);
    }
    CKCI_TRY(ckci_matrix_reach(&a->first.a, "in", 128 / space + 2, pad, err));
    return ckci_matrix_reach(&a->second.o.t, "out", 128 / space + 2, 0, err);
}

/* A depthwise or a pointwise first convolution, as the shape's kernel takes it: its plan, and nanoseconds
   of a block. */
CKCI_FN ckconv_status ckci_pair_depth(const ckci_conv_conv *p, const ckconv_device *device,
                                      const ckci_pair_shape *s, ckci_gpu_pair *a, int64_t *regions,
                                      double *block, ckconv_error *err)
{
    const ckci_conv *c = &p->first;
    int64_t taps = ckci_saturating_mul(ckci_saturating_mul(c->filter[0], c->filter[1]), c->filter[2]);
    if (c->c != 1 || c->k != 1) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "this fused kernel has a depthwise first convolution; here G is %lld, K %lld, C %lld",
            CKCI_LL(c->g), CKCI_LL(c->k), CKCI_LL(c->c));
    }
    *regions = taps <= 128 ? ckci_choose_patch(p, device, s, &a->second.as.patch) : 0;
    if (*regions == 0) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "this fused kernel holds mid and a window of in in %d bytes of LDS: %lld channels "
                         "and %lld taps do not fit",
                         (int)s->lds, CKCI_LL(p->second.c), CKCI_LL(taps));
    }
    a->groups = (int32_t)(c->filter[2] / a->second.as.patch.group);
    a->by_row = ckci_make_divisor(c->filter[2]);
    a->by_taps = ckci_make_divisor(taps);
    a->second.as.patch.padded = !ckci_pair_whole(p);
    /* fitted to an H100, two blocks or one wide one on a unit */
    const ckci_gpu_patch *q = &a->second.as.patch;
    double span = s->threads > 256 ? 1000 + 110 * (double)taps
                  : s->async       ? 1600 + 180 * (double)taps
                                   : 280 * (double)taps;
    double products = s->async ? (s->threads > 256 ? 1750 : 1000) : 2000;
    *block = (s->async ? 1800 : 3000) + q->spans * span +
             ceil((double)p->second.c / 64) * ceil((double)p->second.k / s->columns) * products;
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_pair_point(const ckci_conv_conv *p, const ckci_pair_shape *s, ckci_gpu_pair *a,
                                      int64_t *regions, double *block, ckconv_error *err)
{
    const ckci_conv *c = &p->first;
    int64_t taps = c->filter[0] * c->filter[1] * c->filter[2];
    int64_t most = s->async ? CKCI_PAIR_POINT_NVIDIA : CKCI_PAIR_POINT_AMD;
    if (c->g != 1 || taps != 1 || c->c > 128) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "this fused kernel has a pointwise first convolution with up to 128 channels and one "
            "group; here G is %lld, C %lld, with %lld taps",
            CKCI_LL(c->g), CKCI_LL(c->c), CKCI_LL(taps));
    }
    if (ckci_ceil_div(p->second.c, 128) * 128 > most) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "fused on a matrix unit, a block holds %lld channels of mid; here they are %lld",
                         CKCI_LL(most), CKCI_LL(p->second.c));
    }
    CKCI_TRY(ckci_matrix_reads(&a->first.b, "wei", p->first.t[CKCI_IN].compute, c->c, err));
    CKCI_TRY(ckci_pair_span(&a->first.b, "wei", err));
    *regions = ckci_max(ckci_ceil_div(a->second.rows, s->positions), 1);
    double slabs = ceil((double)p->second.c / 64); /* fitted to an H100 */
    *block =
        3000 + slabs / 2 * ceil((double)c->c / 64) * 2000 + slabs * ceil((double)p->second.k / 128) * 2000;
    return CKCONV_OK;
}

/* The kernel whose inputs go through registers: its plan, blocks, nanoseconds of a block, bytes of LDS. */
CKCI_FN ckconv_status ckci_pair_strips(const ckci_conv_conv *p, const ckconv_device *device, ckci_gpu_pair *a,
                                       int64_t *blocks, double *block, int32_t *lds, ckconv_error *err)
{
    const ckci_conv *c = &p->first, *second = &p->second;
    ckci_gpu_strips *q = &a->second.as.strips;
    int takes = c->c == 1 && c->k == 1 && c->filter[0] == 1 && c->pad[0] == 0 &&
                c->output[0] == c->input[0] && c->pad[1] <= 2 && ckci_pair_whole(p);
    for (int i = 0; i < 3; i++) {
        takes = takes && c->stride[i] == 1 && c->dilation[i] == 1 && (i == 0 || c->filter[i] == 3);
    }
    if (!takes) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "this fused kernel has a depthwise first convolution of 3 x 3 taps without stride or "
            "dilation, and a second one without stride or padding");
    }
    if (!a->mid_vec) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "this fused kernel stores mid in eights of channels, side by side, aligned and of the "
            "inputs' type");
    }
    if (second->k > 256 || second->c > 256) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "this fused kernel has up to 256 channels of mid and of the result; here are %lld and "
            "%lld",
            CKCI_LL(second->c), CKCI_LL(second->k));
    }
    memset(q, 0, sizeof *q);
    const ckci_gpu_target *o = &a->second.o;
    q->packed = a->second.o_vec && o->t.op.kind == CKCONV_PASS && o->t.dtype == a->first.a.dtype;
    q->slabs = (int32_t)ckci_max(ckci_ceil_div(second->c, 64), 1);
    q->log_wide = second->k > 128 ? 2 : second->k > 64;
    q->wide = 1 << q->log_wide;
    q->parts = 4 / q->slabs; /* a thread has one strip */
    q->turns = (q->parts * q->wide + 3) / 4;
    q->strips = 8 * q->parts;
    /* 64 channels of 64 rows or columns; two places of mid; sums on their way out; f32 taps; two lists */
    const int32_t each = 64 * 64 * 2, room = 16384, taps = 9 * 4 * 64, strip = 16;
    q->at_mid = each * q->wide * q->slabs;
    q->at_room = q->at_mid + 2 * each * q->parts * q->slabs;
    q->at_taps = q->at_room + room;
    q->at_strips = q->at_taps + taps * q->slabs;
    *lds = q->at_strips + 2 * strip * q->strips;
    const int64_t line = ckci_ceil_div(second->output[2], 8), high = ckci_max(second->output[1], 1);
    const int64_t all = ckci_saturating_mul(ckci_saturating_mul(second->n, second->output[0]), line);
    const int64_t tiles = ckci_saturating_mul(ckci_ceil_div(all, q->strips), high);
    CKCI_TRY(ckci_too_many_blocks(ckci_saturating_mul(ckci_saturating_add(tiles, 4), q->strips), err));
    *blocks = ckci_max(ckci_min(tiles, device->compute_units), 1);
    q->all = (int32_t)all;
    q->part = (int32_t)(tiles / *blocks);
    q->part_rest = (int32_t)(tiles % *blocks);
    q->by_line = ckci_make_divisor(ckci_max(line, 1));
    q->by_high = ckci_make_divisor(high);
    q->by_planes = ckci_make_divisor(ckci_max(second->output[0], 1));
    q->by_quads = ckci_make_divisor(16 * q->slabs);
    a->by_row = ckci_make_divisor(3);
    a->by_taps = ckci_make_divisor(9);
    /* fitted to an H100 */
    *block = 4750 + (double)(q->part + (q->part_rest > 0)) * (1800 + 72.0 * q->strips * q->slabs);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_matrix_pair(const ckci_conv_conv *p, const ckconv_device *device, int32_t tile,
                                       ckci_launch *l, double *cost, ckconv_error *err)
{
    ckci_gpu_pair *a = &l->a.pair;
    ckci_gpu_conv *k = &a->second;
    ckci_pair_shape s;
    int64_t regions = 0, units = ckci_max(device->compute_units, 1);
    double block = 0;
    CKCI_TRY(ckci_pair_reads(p, device, a, err));
    CKCI_TRY(ckci_find_pair_shape(device, tile, &s, err));
    if (tile == CKCI_PAIR_STRIPS) {
        int32_t lds = 0;
        CKCI_TRY(ckci_pair_strips(p, device, a, &regions, &block, &lds, err));
        CKCI_TRY(ckci_pair_lds(device, lds, err));
        l->grid = k->rows == 0 ? 0 : regions;
        ckci_set_kernel(l, s.kernel + (p->first.t[CKCI_IN].compute == CKCONV_BF16));
        l->lds = lds;
        *cost = 218 * ckci_pair_time(p, device, regions, &s, block);
        return CKCONV_OK;
    }
    if (tile == 64128) {
        CKCI_TRY(ckci_pair_point(p, &s, a, &regions, &block, err));
    } else {
        CKCI_TRY(ckci_pair_depth(p, device, &s, a, &regions, &block, err));
    }
    /* blocks share the columns where there would be few of them */
    int64_t tiles = ckci_ceil_div(k->columns, s.columns), share = 1;
    while (share < tiles && regions * share * 2 <= units) {
        share++;
    }
    k->part = (int32_t)(ckci_ceil_div(tiles, share) * s.columns);
    k->tiles_n = (int32_t)ckci_ceil_div(k->columns, k->part);
    k->by_tiles_n = ckci_make_divisor(k->tiles_n);
    int64_t work = k->rows == 0 ? 0 : ckci_saturating_mul(regions, k->tiles_n);
    CKCI_TRY(ckci_too_many_blocks(ckci_saturating_add(work, units * 4), err));
    l->grid = work;
    if (tile != 64128) { /* a block keeps its columns */
        int64_t slots = ckci_max(units * s.side / k->tiles_n, 1) * k->tiles_n;
        l->grid = s.async ? ckci_min(work, slots) : work;
        a->second.as.patch.work = (int32_t)work;
        a->second.as.patch.resident =
            s.async && a->second.as.patch.overlap == 0 &&
            ckci_ceil_div(k->part, s.columns) * ckci_ceil_div(p->second.c, s.slab) <= 2;
    }
    ckci_set_kernel(l, s.kernel + (p->first.t[CKCI_IN].compute == CKCONV_BF16));
    double start = tile != 64128 && s.async ? 5000 : 0; /* tables; fitted to an H100 */
    *cost = 218 * (start + ckci_pair_time(p, device, work, &s, block));
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_fit_matrix_pair(ckci_fit *f, ckconv_error *err)
{
    ckci_launch l;
    CKCI_TRY(ckci_gpu_no_split(f, err));
    CKCI_TRY(ckci_matrix_pair(&f->p->pair, &f->plan->device, f->tile, &l, &f->cost, err));
    ckci_plan_launch(f->plan, &l, 1);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_matrix_pair(const ckconv_plan *plan, const ckci_problem *p,
                                            const ckconv_args *args, unsigned char *ws, int32_t tile,
                                            const ckci_emitter *e, ckconv_error *err)
{
    ckci_launch l;
    double cost;
    int whole = ckci_pair_whole(&p->pair);
    (void)ws;
    if (ckci_matrix_pair(&p->pair, &plan->device, tile, &l, &cost, NULL) != CKCONV_OK) {
        return ckci_list_fused(plan, &p->pair, args, 64, e, err); /* pointers less aligned than planned for */
    }
    ckci_gpu_mid_target(&p->pair.first, args, &l.a.pair.first.o);
    l.a.pair.first.o.compute = (ckconv_dtype)0; /* what lies in LDS is rounded */
    l.a.pair.write_mid = whole && args->mid != NULL;
    if (l.grid > 0) {
        CKCI_TRY(e->emit(e->context, &l, err));
    }
    return whole || !args->mid ? CKCONV_OK : ckci_list_mid_copy(plan, &p->pair, args, e, err);
}

CKCI_FN ckconv_status ckci_list_gpu_pair(const ckconv_plan *plan, const ckci_problem *p,
                                         const ckconv_args *args, unsigned char *ws, int32_t tile,
                                         const ckci_emitter *e, ckconv_error *err)
{
    const ckci_conv_conv *pair = &p->pair;
    if (plan->tune[CKCI_TUNE_SECOND] == 0) {
        return ckci_list_fused(plan, pair, args, tile, e, err);
    }
    ckci_launch l;
    ckci_conv part[2];
    ckconv_plan scratch = *plan;
    ckci_gpu_unfused(pair, ws, part);
    int64_t bytes = ckci_mid_bytes(&part[0]);
    if (bytes == 0) {
        return CKCONV_OK; /* an empty batch */
    }
    ws += bytes;
    scratch.workspace_bytes -= bytes;
    scratch.instance = (int32_t)plan->tune[CKCI_TUNE_FIRST];
    CKCI_TRY(ckci_list_mid(&scratch, &pair->first, &part[0], args, ws, e, err));
    if (args->mid) {
        CKCI_TRY(ckci_make_move(&plan->device, &part[0].t[CKCI_OUT], &pair->first.t[CKCI_OUT], &l, err));
        CKCI_TRY(e->emit(e->context, &l, err));
    }
    scratch.instance = (int32_t)plan->tune[CKCI_TUNE_SECOND];
    return ckci_list_part(&scratch, &part[1], ws, e, err);
}

#endif /* CKCONV_GPU_H */
