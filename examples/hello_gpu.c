/* hello_gpu - upload, run, download: the convolution of hello.c on a GPU, without a HIP or CUDA header
   SPDX-License-Identifier: MIT

   hipcc -x hip -std=c++17 -O3 --offload-arch=gfx942 hello_gpu.c -o hello_gpu
   nvcc -x cu -std=c++17 -O3 -arch=sm_90a hello_gpu.c -o hello_gpu */
#define CKCONV_IMPLEMENTATION
#include "ckconv.h"
#include <stdio.h>
#include <string.h>

static float in[8 * 28 * 28 * 32], wei[64 * 3 * 3 * 32], out[8 * 28 * 28 * 64]; /* NHWC, KYXC, NHWK */
static ckconv_device gpu;
static ckconv_error err;

static int failed(ckconv_status status)
{
    if (status != CKCONV_OK) {
        puts(err.text);
    }
    return status != CKCONV_OK;
}

int main(void)
{
    for (int i = 0; i < 8 * 28 * 28 * 32; i++) {
        in[i] = 1;
        wei[i % (64 * 3 * 3 * 32)] = 1;
    }
    ckconv_conv_desc d;
    memset(&d, 0, sizeof d); /* as in hello.c */
    d.ndim = 2;
    d.n = 8;
    d.k = 64;
    d.c = 32;
    d.filter[0] = d.filter[1] = 3;
    d.input[0] = d.input[1] = 28;
    d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = 1;

    ckconv_plan plan;
    if (failed(ckconv_device_gpu(0, &gpu, &err)) || failed(ckconv_device_open(&gpu, &err)) ||
        failed(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, &gpu, &err))) {
        return 1;
    }
    /* one piece of memory for the three tensors and the workspace */
    size_t workspace_bytes = (size_t)plan.workspace_bytes;
    char *x = (char *)ckconv_device_alloc(&gpu, sizeof in + sizeof wei + sizeof out + workspace_bytes, &err);
    if (!x) {
        puts(err.text);
        return 1;
    }
    char *w = x + sizeof in, *y = w + sizeof wei, *workspace = y + sizeof out;
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.in = x;
    a.wei = w;
    a.out = y;
    int wrong = failed(ckconv_device_upload(&gpu, x, in, sizeof in, &err)) ||
                failed(ckconv_device_upload(&gpu, w, wei, sizeof wei, &err)) ||
                failed(ckconv_run(&plan, &a, workspace, workspace_bytes, NULL, &err)) || /* NULL: stream */
                failed(ckconv_device_download(&gpu, out, y, sizeof out, &err)); /* waits for the kernels */
    ckconv_device_free(&gpu, x);
    if (wrong) {
        return 1;
    }
    const float corner = out[0], middle = out[(14 * 28 + 14) * 64];
    printf("%s: corner %g, middle %g: %s\n", gpu.arch, (double)corner, (double)middle,
           corner == 128 && middle == 288 ? "right" : "WRONG");
    return corner == 128 && middle == 288 ? 0 : 1;
}
