/* The one file that holds the implementation for all programs of tests/. */
#define CKCONV_IMPLEMENTATION
#include "ckconv.h"
