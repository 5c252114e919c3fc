/* Declarations after macros with common names.
   SPDX-License-Identifier: MIT */
#include "names.h"

#include "ckconv.h"
