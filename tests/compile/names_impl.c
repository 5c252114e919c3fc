/* The implementation after macros with common names.
   SPDX-License-Identifier: MIT */
#include "names.h"

#define CKCONV_IMPLEMENTATION
#include "ckconv.h"
