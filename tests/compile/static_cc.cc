/* user_cc.cc with a copy of the library of its own.
   SPDX-License-Identifier: MIT */
#define CKCONV_STATIC
#define CKCONV_IMPLEMENTATION
#include "user_cc.cc"
