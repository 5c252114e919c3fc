/*------------------------------------------------------------------------------------------------------------
  >>core-tensor
  What checks make of a tensor, and engines read: on the GPU, too. It is always six-dimensional, so that no
  engine tells 1D from 3D. A kernel's arguments hold such tensors as they are: members have fixed sizes, and
  only the pointer differs between a plan and a run.
*/
#pragma once
#include "core/platform.h"

/* A tensor of a problem in its final form: always {G, N or K, C or K, z, y, x}, missing dimensions of length
   1. */
typedef struct ckci_tensor {
    unsigned char *p;
    ckconv_dtype dtype;   /* storage */
    ckconv_dtype compute; /* what a read value is rounded to */
    int32_t plain;        /* reading is a pure conversion: no operation, no rounding */
    int32_t reserved;
    int64_t len[6], stride[6];
    ckconv_element_op op;
} ckci_tensor;
