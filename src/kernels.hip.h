/* kernels.hip.h - v0.1.0 - the GPU side of ckconv.h: HIP C++17, also read by nvcc
   SPDX-License-Identifier: MIT */
#ifndef CKCONV_KERNELS_HIP_H
#define CKCONV_KERNELS_HIP_H
/*  (licence text at the end of ckconv.h)

Included by ckconv.h on one marked line, when CKCONV_IMPLEMENTATION is defined and hipcc or nvcc reads it. Do
not include it yourself.

KERNELS (ckconv_k_NAME; the table, >>gpu-table in ckconv.h, has one line for each; T is f32, f64 or i32, the
type of the sums, and every storage type is converted when it is loaded)
    gather_T_S         fwd, bwd_data: implicit GEMM, blocks of S x S outputs through LDS
    weight_T_S         bwd_weight: the same over positions, split into parts where that fills the GPU
    matrix_gather_R    fwd, bwd_data on a matrix unit, f16 or bf16, blocks of R outputs
    matrix_back_R      bwd_data likewise, weights read as they lie
    matrix_weight_R    bwd_weight likewise
    matrix_tma_PASS_R  the same three on sm_90a, operands brought by the tensor memory accelerator
    matrix_near_Q      small groups in blocks of Q channels, fwd, bwd_data; matrix_near_down_Q: those of 3 x 3
                       filters by strips, matrix_near_deep_Q: of filters of several planes;
                       matrix_near_weight_Q: bwd_weight
    matrix_stem_OP     first layers: few channels, channels last
    matrix_pointwise_C fwd, bwd_data of one tap, channels last: a reduction of up to C channels;
                       matrix_planes_C: channels first
    matrix_whole_R     fwd, bwd_data in i8
    matrix_single_R    fwd, bwd_data in f32 (CDNA) and tf32; matrix_single_weight_R: bwd_weight
    matrix_double_R    fwd, bwd_data in f64; matrix_double_weight_R: bwd_weight
    pack, pack_..      weights and tensors in the order in which matrix_... read them
    tile_gather_S      fwd, bwd_data in f32, tensors read as they are: blocks of S outputs
    tile_weight_S      bwd_weight likewise
    grouped_C          fwd, bwd_data in f32, C columns of a group, groups side by side
    narrow             fwd, bwd_data in f32, at most four written channels per group
    reduce_T           sum of those parts in fixed order, and the epilogue
    depth_S_4_..       depthwise fwd and bwd_data, channels last: strips of outputs; S: half (f16, bf16), f32,
                       f64; near: stride 1, second: stride 2, any: the rest
    depth_S_1_..       the same for planes (channels first; lanes along x), odd channels, and sums over
                       several channels per group
    depth_S_plane_walk_F  F x F filters, channels first: a thread walks down a column
    depth_S_column_3   3 x 3, channels last: the same with two rows of inputs in registers (f32); second:
                       stride 2
    depth_S_down_F     F x F filters, channels last: blocks walk down columns of rows, which lie in LDS;
                       short: in strips of 4 outputs
    depth_S_deep       3 x 3 x 3, channels last: the same along planes
    depth_S_sheet_F    F x F filters, channels first: planes or bands of rows lie in LDS; second: stride 2,
                       back: its gradient
    depth_S_row        rows of planes in aligned pieces: long filters, 1D
    depth_weight_S_..  bwd_weight of each of them; depth_sum adds its parts in fixed order
    depth_matrix       large filters of f16 and bf16 on matrix units, without strides
    depth_matrix_weight_F  its bwd_weight, filters up to F x F
    direct_T           fwd, bwd_data with few channels per group: a thread owns an output
    direct_weight_T    bwd_weight with few channels per group: a block owns filters, its threads positions
    pair_T             conv_conv_fwd: the second GEMM, whose operand is the first convolution's result in LDS
    pair_matrix_T      the same on a matrix unit, all channels of mid in LDS; T: f16, bf16
    pair_depth_T       the same of a depthwise first convolution; pair_depth_wide_T, pair_strips_T: for NVIDIA
    norm_...           group norm: statistics, y, sums of the gradients, dx, dgamma and dbeta; .._last and
                       .._planes: wide, by layout; .._joined: planes of a group as one row; fwd_kept,
                       bwd_kept: x (and dy) stay in LDS (NVIDIA)
    move, move_..      layout and type conversion: single elements; copy: rows in pieces; turn_E: tiles of
                       E-byte elements turned in LDS (2: f16 and bf16, too); convert_E: other types to E
                       bytes, turned or not
    sample, spread     one tap with strides, channels first: the positions that are read become a dense
                       tensor; back, with zeros between
    im2col, col2im     few positions: a row of channels and taps for each; what such rows have for din, summed

No atomics; wave 32 or 64. Every output is written by one thread, and every sum has a fixed order; over
positions, its error does not grow with their number (>>k-prim, long sums). All but matrix_... are plain
multiply-adds on any target.

TAGS (one for each room of src/kernels/: >>k-depth-walk is src/kernels/depth/walk.h)
    >>k-arch           HIP, CUDA or simulator: names      >>k-tile-common    all three in f32, tuned
    >>k-prim           conversions, loads, stores         >>k-vector-direct  few channels per group
    >>k-map            coordinates                        >>k-depth-common   depthwise
    >>k-epilogue       from a sum to memory               >>k-pair-vector    conv_conv_fwd
    >>k-vector-gemm    all three, any target and type     >>k-norm-common    group norm
    >>k-unit           matrix units, one wrapper each     >>k-move           layout and type conversion
    >>k-chunks         16 bytes at a time through LDS     >>k-launch         the table expanded, launch
    >>k-matrix-gather  all three on matrix units          >>k-undef
    >>k-bias           dbias                              >>k-sample       one tap with strides
    >>k-im2col         few positions
*/

#ifndef CKCONV_IMPLEMENTATION
#error "kernels.hip.h is a part of ckconv.h: define CKCONV_IMPLEMENTATION and include ckconv.h"
#endif

#ifdef __cplusplus
} /* the vendor's headers open their own linkage */
#endif

#include "kernels/arch.h"
#if CKCI_PART || !CKCI_PARTS
#include "kernels/prim.h"
#include "kernels/map.h"
#include "kernels/epilogue.h"
#include "kernels/store.h"

#include "kernels/vector/gemm.h"
#include "kernels/vector/gather.h"
#include "kernels/bias.h"
#include "kernels/vector/weight.h"

#include "kernels/unit/unit.h"
#include "kernels/unit/mfma.h"
#include "kernels/unit/wmma.h"
#include "kernels/unit/mma.h"

#include "kernels/chunks.h"

#include "kernels/matrix/fragments.h"
#include "kernels/matrix/groups.h"


#include "kernels/matrix/gather.h"
#include "kernels/matrix/gather_reduce.h"
#include "kernels/matrix/weight.h"
#include "kernels/matrix/pack.h"
#include "kernels/matrix/near.h"
#include "kernels/matrix/near_gather.h"
#include "kernels/matrix/near_weight.h"
#include "kernels/matrix/by_unit.h"
#include "kernels/boxes.h"
#include "kernels/matrix/tma_send.h"
#include "kernels/matrix/tma.h"
#include "kernels/matrix/tma_kernel.h"
#include "kernels/matrix/stem.h"
#include "kernels/matrix/stem_weight.h"
#include "kernels/matrix/pointwise.h"
#include "kernels/matrix/planes.h"

#include "kernels/tile/common.h"
#if CKCI_HAS_F32
#include "kernels/tile/gather.h"
#include "kernels/tile/grouped.h"
#include "kernels/tile/narrow.h"
#include "kernels/tile/weight.h"
#endif /* CKCI_HAS_F32 */

#include "kernels/vector/direct.h"

#include "kernels/depth/common.h"
#include "kernels/vector/pixel.h"
#if CKCI_HAS_DEPTHWISE
#include "kernels/depth/epilogue.h"
#include "kernels/depth/strips.h"
#include "kernels/depth/window.h"
#include "kernels/depth/walk.h"
#include "kernels/depth/column.h"
#include "kernels/depth/rows.h"
#include "kernels/depth/down.h"
#include "kernels/depth/deep.h"
#include "kernels/depth/weight.h"
#include "kernels/depth/walk_weight.h"
#include "kernels/depth/down_weight.h"
#include "kernels/depth/deep_weight.h"
#include "kernels/depth/sheet.h"
#include "kernels/depth/sheet_weight.h"
#include "kernels/depth/row.h"
#include "kernels/depth/matrix.h"
#include "kernels/depth/matrix_weight.h"
#include "kernels/depth/sum.h"
#endif /* CKCI_HAS_DEPTHWISE */

#if CKCI_HAS_CONV_CONV
#include "kernels/pair/vector.h"
#include "kernels/pair/product.h"
#include "kernels/pair/point.h"
#include "kernels/pair/depth.h"
#include "kernels/pair/strips.h"
#include "kernels/pair/by_unit.h"
#endif /* CKCI_HAS_CONV_CONV */

#if CKCI_HAS_GROUPNORM
#include "kernels/norm/common.h"
#include "kernels/norm/wide.h"
#include "kernels/norm/statistics.h"
#include "kernels/norm/activation.h"
#include "kernels/norm/gradient.h"
#include "kernels/norm/kernels.h"
#include "kernels/norm/kept.h"
#include "kernels/norm/param.h"
#endif /* CKCI_HAS_GROUPNORM */

#if CKCI_KEEP_MOVE
#include "kernels/move.h"
#endif /* CKCI_KEEP_MOVE */
#if CKCI_KEEP_IM2COL || CKCI_KEEP_IM2COL_BACK
#include "kernels/im2col.h"
#endif /* CKCI_KEEP_IM2COL || CKCI_KEEP_IM2COL_BACK */
#if CKCI_KEEP_SAMPLE
#include "kernels/sample.h"
#endif /* CKCI_KEEP_SAMPLE */
#include "kernels/table.h"
#endif /* CKCI_PART || !CKCI_PARTS */

#if !CKCI_PART
#include "kernels/launch.h"
#endif
#include "kernels/undef.h"

#ifdef __cplusplus
extern "C" {
#endif

#endif /* CKCONV_KERNELS_HIP_H */
