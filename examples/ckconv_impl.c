/* The one file that holds the implementation, for all programs here that only call it. A GPU build compiles
   this file, and nothing else, with hipcc -x hip or nvcc -x cu. */
#define CKCONV_IMPLEMENTATION
#include "ckconv.h"
