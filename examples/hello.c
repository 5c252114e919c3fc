/* hello - a 3x3 convolution of ones, in one file
   SPDX-License-Identifier: MIT

   cc -O3 -I. examples/hello.c -lm */
#define CKCONV_IMPLEMENTATION
#include "ckconv.h"
#include <stdio.h>
#include <string.h>

int main(void)
{
    float in[4 * 4 * 2], wei[1 * 3 * 3 * 2], out[4 * 4]; /* NHWC, KYXC, NHWK */
    for (int i = 0; i < 32; ++i) {
        in[i] = 1;
        wei[i % 18] = 1;
    }
    ckconv_conv_desc d;
    memset(&d, 0, sizeof d); /* zero means default */
    d.ndim = 2;
    d.n = 1;
    d.k = 1;
    d.c = 2;
    d.filter[0] = d.filter[1] = 3;
    d.input[0] = d.input[1] = 4;
    d.pad_lo[0] = d.pad_lo[1] = d.pad_hi[0] = d.pad_hi[1] = 1;
    ckconv_error err;
    if (ckconv_fwd(&d, in, wei, out, NULL, 0, NULL, &err) != CKCONV_OK) {
        puts(err.text);
        return 1;
    }
    const int ok = out[0] == 8 && out[1] == 12 && out[5] == 18; /* 4, 6, 9 taps inside, 2 channels */
    printf("hello conv: corner %g, edge %g, centre %g: %s\n", out[0], out[1], out[5], ok ? "right" : "WRONG");
    return ok ? 0 : 1;
}
