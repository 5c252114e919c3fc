/* A program's file in C: descriptions initialised in the ways of C, a convolution, an error.
   SPDX-License-Identifier: MIT */
#include "ckconv.h"

#include <stdio.h>

int run_c(void);

int run_c(void)
{
    ckconv_conv_desc d = {0};
    ckconv_options options = {0};
    ckconv_conv_desc named = {.ndim = 2, .n = 1, .k = 1, .c = 1, .filter = {1, 1}, .input = {1, 1}};
    ckconv_error err;
    ckconv_plan plan;
    float in[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, wei[4] = {1, 10, 100, 1000}, out[4];
    d.ndim = 2;
    d.n = d.k = d.c = 1;
    d.filter[0] = d.filter[1] = 2;
    d.input[0] = d.input[1] = 3;
    if (ckconv_fwd(&d, in, wei, out, NULL, 0, NULL, &err) != CKCONV_OK) {
        puts(err.text);
        return 1;
    }
    options.engine = CKCONV_ENGINE_REF;
    if (ckconv_plan_conv(&plan, CKCONV_FWD, &named, &options, NULL, &err) != CKCONV_OK) {
        puts(err.text);
        return 1;
    }
    if (ckconv_version() != CKCONV_VERSION || (int)out[0] != 5421 || (int)out[3] != 9865) {
        puts("user_c: wrong version or result");
        return 1;
    }
    d.k = -1;
    return ckconv_fwd(&d, in, wei, out, NULL, 0, NULL, &err) != CKCONV_ERR_ARGUMENT;
}
