/* Macros with names that programs and system headers like to define.
   SPDX-License-Identifier: MIT */
#include <complex.h> /* I, complex */
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define near
#define far
#define small char
#define STRICT 1
#define major(x) ((x) >> 8)
#define minor(x) ((x)&255)
#define BLOCK_SIZE 16
#define WARP_SIZE 32
#define TILE 8
#define ceil_div(a, b) (((a) + (b)-1) / (b))
#define ERROR 0
#define PASS 1
