/* Declarations alone and first in a file, twice. Compiled as C and as C++.
   SPDX-License-Identifier: MIT */
#include "ckconv.h"
#include "ckconv.h"

int ckconv_test_declare(void);
int ckconv_test_declare(void)
{
    return CKCONV_VERSION;
}
