/* main.c - a program of somebody else, which asks its library for a convolution and checks it
   SPDX-License-Identifier: MIT */
#include <ckconv.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    float in[4] = {1, 2, 3, 4}, wei[2] = {10, 1}, out[3] = {0, 0, 0};
    ckconv_conv_desc d;
    ckconv_error err;
    memset(&d, 0, sizeof d);
    d.ndim = 1;
    d.n = d.k = d.c = 1;
    d.filter[0] = 2;
    d.input[0] = 4;
    if (ckconv_version() != CKCONV_VERSION) {
        puts("the library is not the header's");
        return 1;
    }
    if (ckconv_fwd(&d, in, wei, out, NULL, 0, NULL, &err) != CKCONV_OK) {
        puts(err.text);
        return 1;
    }
    printf("%g %g %g\n", (double)out[0], (double)out[1], (double)out[2]);
    return out[0] != 12 || out[1] != 23 || out[2] != 34;
}
