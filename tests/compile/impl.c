/* The implementation alone and first in a file. Compiled as C, as C++, for GPUs, and with every switch.
   SPDX-License-Identifier: MIT */
#define CKCONV_IMPLEMENTATION
#include "ckconv.h"
