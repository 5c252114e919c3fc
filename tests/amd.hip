/* The implementation alone, compiled for AMD targets by test_amd.sh.
   SPDX-License-Identifier: MIT */
#define CKCONV_IMPLEMENTATION
#include "ckconv.h"
