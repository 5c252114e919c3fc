/* hello - plan, workspace, run: a 3x3 convolution of ones, in one file
   SPDX-License-Identifier: MIT

   cc -O3 -fopenmp hello.c -lm */
#define CKCONV_IMPLEMENTATION /* in exactly one file of a program */
#include "ckconv.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float in[8 * 28 * 28 * 32], wei[64 * 3 * 3 * 32], out[8 * 28 * 28 * 64]; /* NHWC, KYXC, NHWK */

int main(void)
{
    for (int i = 0; i < 8 * 28 * 28 * 32; i++) {
        in[i] = 1;
        wei[i % (64 * 3 * 3 * 32)] = 1;
    }
    ckconv_conv_desc d;
    memset(&d, 0, sizeof d); /* zero means default: f32, channels last, stride 1, no pads */
    d.ndim = 2;
    d.n = 8;  /* batch */
    d.k = 64; /* output channels, per group */
    d.c = 32; /* input channels, per group */
    d.filter[0] = d.filter[1] = 3;
    d.input[0] = d.input[1] = 28;
    d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = 1;

    ckconv_plan plan;
    ckconv_args a;
    ckconv_error err;
    if (ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, NULL, &err) != CKCONV_OK) {
        puts(err.text); /* which argument, its value, what is allowed */
        return 1;
    }
    void *workspace = malloc((size_t)plan.workspace_bytes);
    memset(&a, 0, sizeof a);
    a.in = in;
    a.wei = wei;
    a.out = out;
    ckconv_status status = ckconv_run(&plan, &a, workspace, (size_t)plan.workspace_bytes, NULL, &err);
    free(workspace);
    if (status != CKCONV_OK) {
        puts(err.text);
        return 1;
    }
    const float corner = out[0], middle = out[(14 * 28 + 14) * 64]; /* 4 and 9 taps inside, of 32 channels */
    printf("corner %g, middle %g: %s\n", (double)corner, (double)middle,
           corner == 128 && middle == 288 ? "right" : "WRONG");
    return corner == 128 && middle == 288 ? 0 : 1;
}
