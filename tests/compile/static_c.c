/* user_c.c with a copy of the library of its own.
   SPDX-License-Identifier: MIT */
#define CKCONV_STATIC
#define CKCONV_IMPLEMENTATION
#include "user_c.c"
