/* A program's file in C++: descriptions initialised in the way of C++11, a convolution, an error.
   SPDX-License-Identifier: MIT */
#include "ckconv.h"

#include <cstdio>
#include <vector>

extern "C" int run_cc(void);

extern "C" int run_cc(void)
{
    ckconv_conv_desc d = {};
    ckconv_options options{};
    ckconv_error err;
    ckconv_plan plan;
    const std::vector<float> in = {1, 2, 3, 4, 5, 6, 7, 8, 9}, wei = {1, 10, 100, 1000};
    std::vector<float> out(4);
    d.ndim = 2;
    d.n = d.k = d.c = 1;
    d.filter[0] = d.filter[1] = 2;
    d.input[0] = d.input[1] = 3;
    if (ckconv_fwd(&d, in.data(), wei.data(), out.data(), nullptr, 0, nullptr, &err) != CKCONV_OK) {
        std::puts(err.text);
        return 1;
    }
    options.engine = CKCONV_ENGINE_REF;
    if (ckconv_plan_conv(&plan, CKCONV_BWD_DATA, &d, &options, nullptr, &err) != CKCONV_OK) {
        std::puts(err.text);
        return 1;
    }
    if (ckconv_version() != CKCONV_VERSION || int(out[0]) != 5421 || int(out[3]) != 9865) {
        std::puts("user_cc: wrong version or result");
        return 1;
    }
    d.k = -1;
    return ckconv_fwd(&d, in.data(), wei.data(), out.data(), nullptr, 0, nullptr, &err) !=
           CKCONV_ERR_ARGUMENT;
}
