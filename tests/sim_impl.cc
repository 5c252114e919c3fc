/* The implementation with its kernels executed by the simulator: what ckconv_impl.c is to a GPU compiler. */
#define CKCI_SIMULATOR "sim.h"
#define CKCONV_IMPLEMENTATION
#include "ckconv.h"
