/* grouped_conv_conv_fwd - two convolutions in one call, the tensor between them kept on chip, half precision
   SPDX-License-Identifier: MIT

   The default is a depthwise-separable layer: a 3x3 convolution of each channel by itself (as many groups
   as channels), then a 1x1 convolution that mixes all channels. Two chained 1x1 convolutions are a problem
   like any other:

     grouped_conv_conv_fwd 1 1 1  2 1 128 512 128  1 1  28 28  1 1  1 1  0 0  0 0  128

   grouped_conv_conv_fwd [verify init time
       [ndim G N K C filter input strides dilations left-pads right-pads [K1 [G1]]]] */
#include "example.h"

static const char help[] = EX_CONV_HELP(
    "G") "         of the first convolution; then [K1 [G1]]: output channels per group of the 1x1\n"
         "         convolution (default G * K), its groups (default 1)\n";

/* ndim, G, N, K, C, filter, input, strides, dilations, left pads, right pads, K1 */
static const int64_t standard[EX_MAX_PROBLEM] = {2, 128, 64, 1, 1, 3, 3, 56, 56, 1, 1, 1, 1, 1, 1, 1, 1, 128};

static int parse(int argc, char **argv, ex_options *options, ckconv_conv_conv_desc *desc)
{
    const int status = ex_parse(argc, argv, help, 0, options);
    if (status >= 0) {
        return status;
    }
    const int64_t *numbers = options->given == 0 ? standard : options->problem;
    const int count = options->given == 0 ? 18 : options->given;
    memset(desc, 0, sizeof *desc);
    const int used = ex_conv_numbers(numbers, count, &desc->conv0);
    if (used == 0 || count > used + 2) {
        ex_help(stderr, argv[0], help);
        return EX_BAD_ARGUMENTS;
    }
    desc->k1 = count > used ? numbers[used] : desc->conv0.g * desc->conv0.k;
    desc->g1 = count > used + 1 ? numbers[used + 1] : 1;
    desc->conv0.in.dtype = CKCONV_F16; /* all others follow; the second filter is 1x1 by default */
    return -1;
}

/* Plan for the batch that the device can do in time. */
static ckconv_status make_plan(ckconv_plan *plan, ckconv_conv_conv_desc *desc, const ckconv_device *device,
                               double runs, ckconv_error *err)
{
    const ckconv_status status = ckconv_plan_conv_conv(plan, desc, NULL, device, err);
    if (status != CKCONV_OK) {
        return status;
    }
    desc->conv0.n = ex_cut_batch(device, desc->conv0.n, (double)plan->flop, (double)plan->bytes, runs);
    return ckconv_plan_conv_conv(plan, desc, NULL, device, err);
}

int main(int argc, char **argv)
{
    ex_options options;
    ckconv_conv_conv_desc desc;
    const int usage = parse(argc, argv, &options, &desc);
    if (usage >= 0) {
        return usage;
    }

    ckconv_error err;
    ckconv_device device;
    ckconv_plan plan;
    ex_tensor in, wei0, wei1, out;
    void *workspace = NULL;
    if (ex_open_device(&device, &err) || make_plan(&plan, &desc, &device, ex_runs(&options), &err) ||
        ex_tensor_open(&in, &plan, CKCONV_TENSOR_IN, "in0", &err) ||
        ex_tensor_open(&wei0, &plan, CKCONV_TENSOR_WEI, "wei0", &err) ||
        ex_tensor_open(&wei1, &plan, CKCONV_TENSOR_WEI1, "wei1", &err) ||
        ex_tensor_open(&out, &plan, CKCONV_TENSOR_OUT, "out1", &err) ||
        ex_fill(&in, options.init, 0.0, 1.0, &err) || ex_fill(&wei0, options.init, -0.5, 0.5, &err) ||
        ex_fill(&wei1, options.init, -0.5, 0.5, &err) || ex_poison(&out, &err) ||
        ex_workspace(&plan, &workspace, &err)) {
        return ex_fail(&err);
    }

    ckconv_args args;
    memset(&args, 0, sizeof args);
    args.in = in.memory;
    args.wei = wei0.memory;
    args.wei1 = wei1.memory;
    args.out = out.memory;
    double seconds = 0;
    ex_print_plan(&plan);
    if (ex_time(&plan, &args, workspace, options.time, &seconds, &err) || ex_download(&out, &err)) {
        return ex_fail(&err);
    }

    int right = 1;
    if (options.verify) {
        ex_oracle oracle;
        if (ex_oracle_open(&oracle, &plan, &options, &out, &in, &wei0, &wei1, &err)) {
            return ex_fail(&err);
        }
        right = ex_oracle_check(&oracle);
        ex_oracle_close(&oracle);
    }
    ex_print_perf("Perf", &plan, seconds, "");
    ckconv_device_free(&device, workspace);
    ex_tensor_close(&in);
    ex_tensor_close(&wei0);
    ex_tensor_close(&wei1);
    ex_tensor_close(&out);
    return right ? EX_OK : EX_FAILED;
}
