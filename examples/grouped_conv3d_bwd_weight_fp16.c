/* grouped_conv3d_bwd_weight_fp16 - weight gradient by every instance, 3D, half precision
   SPDX-License-Identifier: MIT

   Runs all instances that support the problem with split_k 2, verifies and times each, names the best.

   grouped_conv3d_bwd_weight_fp16 [verify init time
       [ndim G N K C filter input strides dilations left-pads right-pads]] */
#include "example.h"

/* ndim, G, N, K, C, filter, input, strides, dilations, left pads, right pads */
static const int64_t standard[EX_MAX_PROBLEM] = {3, 8, 64, 128, 128, 3, 3, 3, 28, 28, 3, 1,
                                                 1, 1, 1,  1,   1,   1, 1, 1, 1,  1,  1};

int main(int argc, char **argv)
{
    ckconv_conv_desc types;
    memset(&types, 0, sizeof types);
    types.in.dtype = CKCONV_F16; /* wei and out follow */
    types.in.layout = CKCONV_GNHWC;
    types.out.layout = CKCONV_GNHWK;
    return ex_client_bwd_weight(argc, argv, standard, &types);
}
