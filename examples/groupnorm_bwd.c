/* groupnorm_bwd - the gradients of a group normalisation, in single precision
   SPDX-License-Identifier: MIT

   The forward pass runs first and saves mean and inv_std of each (n, g); the backward pass, which is timed,
   takes them and gives dx, dgamma and dbeta. C counts channels per group. The layout is N, H, W, G, C.

   groupnorm_bwd [verify init time [N H W G C]] */
#include "example.h"

static const char help[] = "problem: N, H, W, G, C (channels per group; default 16 16 16 32 64)\n";
static const int64_t standard[5] = {16, 16, 16, 32, 64};

enum { X, DY, GAMMA, Y, MEAN, INV_STD, DX, DGAMMA, DBETA, TENSORS }; /* beta is not needed: absent, it is 0 */
static const char *const name[TENSORS] = {"x",       "dy", "gamma",  "y",    "mean",
                                          "inv_std", "dx", "dgamma", "dbeta"};
static const int32_t which[TENSORS] = {CKCONV_TENSOR_IN,  CKCONV_TENSOR_OUT,     CKCONV_TENSOR_CHANNEL,
                                       CKCONV_TENSOR_OUT, CKCONV_TENSOR_STAT,    CKCONV_TENSOR_STAT,
                                       CKCONV_TENSOR_DIN, CKCONV_TENSOR_CHANNEL, CKCONV_TENSOR_CHANNEL};

/* Compare dx, dgamma, dbeta with the reference in f64, which works out its own statistics. */
static int verify(const ckconv_groupnorm_desc *desc, ex_tensor *t, ckconv_error *err)
{
    double *value[TENSORS];
    for (int i = 0; i < TENSORS; ++i) {
        value[i] = (double *)ex_alloc(t[i].info.count, sizeof *value[i]);
        ckconv_to_double(CKCONV_F32, t[i].host, value[i], (size_t)t[i].info.count);
    }
    ckconv_groupnorm_desc wide = *desc;
    wide.in.dtype = CKCONV_F64;
    ckconv_args args;
    memset(&args, 0, sizeof args);
    args.in = value[X];
    args.dout = value[DY];
    args.gamma = value[GAMMA];
    args.din = value[DX];
    args.dgamma = value[DGAMMA];
    args.dbeta = value[DBETA];
    int right = ckconv_ref_groupnorm(CKCONV_GROUPNORM_BWD, &wide, &args, err) == CKCONV_OK;
    for (int i = DX; i <= DBETA; ++i) {
        right = ex_check_largest(&t[i], value[i], 2e-6) && right;
    }
    for (int i = 0; i < TENSORS; ++i) {
        free(value[i]);
    }
    return right;
}

int main(int argc, char **argv)
{
    ex_options options;
    const int usage = ex_parse(argc, argv, help, 5, &options);
    if (usage >= 0) {
        return usage;
    }
    const int64_t *problem = options.given == 0 ? standard : options.problem;
    ckconv_groupnorm_desc desc;
    memset(&desc, 0, sizeof desc); /* f32, NHWGC */
    desc.ndim = 2;
    desc.n = problem[0];
    desc.input[0] = problem[1];
    desc.input[1] = problem[2];
    desc.g = problem[3];
    desc.c = problem[4];
    desc.eps = 1e-6;

    ckconv_error err;
    ckconv_device device;
    ckconv_plan fwd, bwd;
    if (ex_open_device(&device, &err) ||
        ckconv_plan_groupnorm(&bwd, CKCONV_GROUPNORM_BWD, &desc, NULL, &device, &err)) {
        return ex_fail(&err);
    }
    desc.n = ex_cut_batch(&device, desc.n, 0, (double)bwd.bytes, 1);
    ex_tensor t[TENSORS];
    void *workspace = NULL;
    if (ckconv_plan_groupnorm(&fwd, CKCONV_GROUPNORM_FWD, &desc, NULL, &device, &err) ||
        ckconv_plan_groupnorm(&bwd, CKCONV_GROUPNORM_BWD, &desc, NULL, &device, &err) ||
        ex_workspace(fwd.workspace_bytes > bwd.workspace_bytes ? &fwd : &bwd, &workspace, &err)) {
        return ex_fail(&err);
    }
    for (int i = 0; i < TENSORS; ++i) {
        if (ex_tensor_open(&t[i], i < DX ? &fwd : &bwd, which[i], name[i], &err) ||
            (i <= GAMMA ? ex_fill(&t[i], options.init, 0, 1, &err) : ex_poison(&t[i], &err))) {
            return ex_fail(&err);
        }
    }
    ckconv_args args;
    memset(&args, 0, sizeof args);
    args.in = t[X].memory;
    args.gamma = t[GAMMA].memory;
    args.out = t[Y].memory;
    args.mean = t[MEAN].memory;
    args.inv_std = t[INV_STD].memory;
    if (ckconv_run(&fwd, &args, workspace, (size_t)fwd.workspace_bytes, NULL, &err)) {
        return ex_fail(&err);
    }
    memset(&args, 0, sizeof args);
    args.in = t[X].memory;
    args.dout = t[DY].memory;
    args.gamma = t[GAMMA].memory;
    args.saved_mean = t[MEAN].memory;
    args.saved_inv_std = t[INV_STD].memory;
    args.din = t[DX].memory;
    args.dgamma = t[DGAMMA].memory;
    args.dbeta = t[DBETA].memory;
    double seconds = 0;
    ex_print_plan(&bwd);
    if (ex_time(&bwd, &args, workspace, options.time, &seconds, &err) || ex_download(&t[DX], &err) ||
        ex_download(&t[DGAMMA], &err) || ex_download(&t[DBETA], &err)) {
        return ex_fail(&err);
    }
    const int right = !options.verify || verify(&desc, t, &err);
    ex_print_perf("Perf", &bwd, seconds, "");
    ckconv_device_free(&device, workspace);
    for (int i = 0; i < TENSORS; ++i) {
        ex_tensor_close(&t[i]);
    }
    return right ? EX_OK : EX_FAILED;
}
