/* grouped_conv3d_bwd_weight_fp16_comp_bf8_fp8 - tensors in half precision, products of 8-bit numbers
   SPDX-License-Identifier: MIT

   dout is rounded to bf8 (e5m2) and in to fp8 (e4m3), in the FNUZ encodings; sums are f32. A device without
   these types computes the same numbers in f16, which holds them exactly. Runs all instances that support
   the problem with split_k 2, verifies and times each, names the best.

   grouped_conv3d_bwd_weight_fp16_comp_bf8_fp8 [verify init time
       [ndim G N K C filter input strides dilations left-pads right-pads]] */
#include "example.h"

/* ndim, G, N, K, C, filter, input, strides, dilations, left pads, right pads */
static const int64_t standard[EX_MAX_PROBLEM] = {3, 8, 64, 128, 128, 3, 3, 3, 28, 28, 3, 1,
                                                 1, 1, 1,  1,   1,   1, 1, 1, 1,  1,  1};

int main(int argc, char **argv)
{
    ckconv_conv_desc types;
    memset(&types, 0, sizeof types);
    types.in.dtype = CKCONV_F16; /* wei and out follow; layouts NHWGC, GKYXC, NHWGK are the default */
    types.compute_in = CKCONV_F8E4M3FNUZ;
    types.compute_out = CKCONV_F8E5M2FNUZ;
    return ex_client_bwd_weight(argc, argv, standard, &types);
}
