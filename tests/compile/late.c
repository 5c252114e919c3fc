/* Declarations first, as through some other header; then the implementation, twice. Compiled as C and as C++.
   SPDX-License-Identifier: MIT */
#include "ckconv.h"
#define CKCONV_IMPLEMENTATION
#include "ckconv.h"
#include "ckconv.h"
