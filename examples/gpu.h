/* gpu.h - whether the programs of this folder run on a GPU
   SPDX-License-Identifier: MIT */
#ifndef EXAMPLES_GPU_H
#define EXAMPLES_GPU_H

#include "ckconv.h"

/* A GPU is there, and the build holds instances that compute on it. */
static inline int example_has_gpu(void)
{
    if (ckconv_device_count() < 1) {
        return 0;
    }
    for (int32_t i = 0; i < ckconv_instance_count(); i++) {
        if (ckconv_instance_engine(i) == CKCONV_ENGINE_GPU) {
            return 1;
        }
    }
    return 0;
}

#endif /* EXAMPLES_GPU_H */
