/* convnd_bwd_data - the gradient of a convolution with respect to its input, half precision
   SPDX-License-Identifier: MIT

   din[n,c,i] = sum over k and taps of dout[n,k,o] * wei[k,c,t] where i = o * stride + t * dilation - pad.
   With a stride above 1 some input pixels are reached by few taps or by none: the latter become 0 without
   any preparation by the caller.

   convnd_bwd_data [verify init time
       [ndim [G] N K C filter input strides dilations left-pads right-pads]] */
#include "example.h"

/* ndim, G, N, K, C, filter, input, strides, dilations, left pads, right pads */
static const int64_t standard[EX_MAX_PROBLEM] = {2, 1, 128, 256, 128, 3, 3, 71, 71, 2, 2, 1, 1, 1, 1, 1, 1};

int main(int argc, char **argv)
{
    ex_options options;
    ckconv_conv_desc desc;
    const int usage = ex_parse_conv(argc, argv, standard, 1, &options, &desc);
    if (usage >= 0) {
        return usage;
    }
    desc.in.dtype = CKCONV_F16; /* wei and out follow; layouts NHWGC, GKYXC, NHWGK are the default */

    ckconv_error err;
    ckconv_device device;
    ckconv_plan plan;
    ex_tensor din, wei, dout;
    void *workspace = NULL;
    if (ex_open_device(&device, &err) ||
        ex_plan_conv(&plan, CKCONV_BWD_DATA, &desc, NULL, &device, ex_runs(&options), &err) ||
        ex_tensor_open(&din, &plan, CKCONV_TENSOR_IN, "in", &err) ||
        ex_tensor_open(&wei, &plan, CKCONV_TENSOR_WEI, "wei", &err) ||
        ex_tensor_open(&dout, &plan, CKCONV_TENSOR_OUT, "out", &err) ||
        ex_fill(&wei, options.init, -0.5, 0.5, &err) || ex_fill(&dout, options.init, 0.0, 1.0, &err) ||
        ex_poison(&din, &err) || ex_workspace(&plan, &workspace, &err)) {
        return ex_fail(&err);
    }

    ckconv_args args;
    memset(&args, 0, sizeof args);
    args.dout = dout.memory;
    args.wei = wei.memory;
    args.din = din.memory;
    double seconds = 0;
    ex_print_plan(&plan);
    if (ex_time(&plan, &args, workspace, options.time, &seconds, &err) || ex_download(&din, &err)) {
        return ex_fail(&err);
    }

    int right = 1;
    if (options.verify) {
        ex_oracle oracle;
        if (ex_oracle_open(&oracle, &plan, &options, &din, &dout, &wei, NULL, &err)) {
            return ex_fail(&err);
        }
        right = ex_oracle_check(&oracle);
        ex_oracle_close(&oracle);
    }
    ex_print_perf("Perf", &plan, seconds, "");

    ckconv_device_free(&device, workspace);
    ex_tensor_close(&din);
    ex_tensor_close(&wei);
    ex_tensor_close(&dout);
    return right ? EX_OK : EX_FAILED;
}
