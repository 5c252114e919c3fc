/* grouped_conv_bwd_weight - the gradient of a grouped convolution with respect to its weight, half precision
   SPDX-License-Identifier: MIT

   dwei[g,k,c,t] = sum over n and o of dout[g,n,k,o] * in[g,n,c,o * stride + t * dilation - pad]. The sum runs
   over the batch and all positions, so it is long while the result is small; the library may split it
   (split_k) and then adds the parts in a fixed order. dwei is written, not added to: it needs no zeroing.

   grouped_conv_bwd_weight [verify init time
       [ndim G N K C filter input strides dilations left-pads right-pads]] */
#include "example.h"

/* ndim, G, N, K, C, filter, input, strides, dilations, left pads, right pads */
static const int64_t standard[EX_MAX_PROBLEM] = {3, 4, 1, 128, 256, 3, 3, 3, 14, 14, 14, 1,
                                                 1, 1, 1, 1,   1,   1, 1, 1, 1,  1,  1};

int main(int argc, char **argv)
{
    ex_options options;
    ckconv_conv_desc desc;
    const int usage = ex_parse_conv(argc, argv, standard, 0, &options, &desc);
    if (usage >= 0) {
        return usage;
    }
    desc.in.dtype = CKCONV_F16; /* wei and out follow */
    desc.in.layout = CKCONV_GNHWC;
    desc.out.layout = CKCONV_GNHWK;

    ckconv_error err;
    ckconv_device device;
    ckconv_plan plan;
    ex_tensor in, dwei, dout;
    void *workspace = NULL;
    if (ex_open_device(&device, &err) ||
        ex_plan_conv(&plan, CKCONV_BWD_WEIGHT, &desc, NULL, &device, ex_runs(&options), &err) ||
        ex_tensor_open(&in, &plan, CKCONV_TENSOR_IN, "in", &err) ||
        ex_tensor_open(&dwei, &plan, CKCONV_TENSOR_WEI, "wei", &err) ||
        ex_tensor_open(&dout, &plan, CKCONV_TENSOR_OUT, "out", &err) ||
        ex_fill(&in, options.init, 0.0, 0.2, &err) || ex_fill(&dout, options.init, -0.1, 0.1, &err) ||
        ex_poison(&dwei, &err) || ex_workspace(&plan, &workspace, &err)) {
        return ex_fail(&err);
    }

    ckconv_args args;
    memset(&args, 0, sizeof args);
    args.in = in.memory;
    args.dout = dout.memory;
    args.dwei = dwei.memory;
    double seconds = 0;
    ex_print_plan(&plan);
    if (ex_time(&plan, &args, workspace, options.time, &seconds, &err) || ex_download(&dwei, &err)) {
        return ex_fail(&err);
    }

    int right = 1;
    if (options.verify) {
        ex_oracle oracle;
        if (ex_oracle_open(&oracle, &plan, &options, &dwei, &in, &dout, NULL, &err)) {
            return ex_fail(&err);
        }
        right = ex_oracle_check(&oracle);
        ex_oracle_close(&oracle);
    }
    ex_print_perf("Perf", &plan, seconds, "");

    ckconv_device_free(&device, workspace);
    ex_tensor_close(&in);
    ex_tensor_close(&dwei);
    ex_tensor_close(&dout);
    return right ? EX_OK : EX_FAILED;
}
