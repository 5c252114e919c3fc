/*------------------------------------------------------------------------------------------------------------
  >>device-code
  The kernels, when a GPU compiler reads this, and a launch of one. A build in parts (CKCONV_PART) has no more
  than this in the parts with kernels. It is the only room that includes kernels.hip.h, so that everything
  else is C99 and compiles without a GPU.
*/
#pragma once
#include "gpu/table.h"

#if CKCI_GPU_COMPILER
#include "kernels.hip.h" /* CKCONV-SINGLE: copy it with ckconv.h */
#endif
