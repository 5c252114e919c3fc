/*------------------------------------------------------------------------------------------------------------
  >>core-platform
  The common subset of C99 and C++11: what compilers call differently has one name here, and only here are the
  C library's headers read. Everything private begins with ckci_ or CKCI_. Fast-math options of the program
  are put aside while the implementation is read, since sums that keep what rounding takes would lose it.
*/
#pragma once
#include "core/switches.h"

#if defined(__HIP__) || defined(__HIPCC__) || defined(__CUDACC__) || defined(CKCI_SIMULATOR)
#define CKCI_GPU_COMPILER 1 /* CKCI_SIMULATOR: tests run kernels on the CPU */
#if !defined(__cplusplus) || (__cplusplus < 201703L && !(defined(_MSVC_LANG) && _MSVC_LANG >= 201703L))
#error "ckconv: the GPU's kernels need C++17: add -std=c++17"
#endif
#else
#define CKCI_GPU_COMPILER 0
#ifdef CKCONV_REQUIRE_GPU
#error "CKCONV_REQUIRE_GPU: no GPU compiler reads this; compile as .hip or .cu, or with -x hip"
#endif
#endif

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#if defined(__GNUC__) || defined(__clang__)
#define CKCI_FN static __attribute__((unused))
#define CKCI_PRINTF(a, b) __attribute__((format(printf, a, b)))
#define CKCI_COLD __attribute__((cold)) /* what leads there is kept small */
#define CKCI_INLINE static inline __attribute__((unused, always_inline))
#define CKCI_APART static __attribute__((unused, noinline)) /* its frame goes when it returns */
#else
#define CKCI_FN static
#define CKCI_PRINTF(a, b)
#define CKCI_COLD
#define CKCI_INLINE static inline
#define CKCI_APART static
#endif
#if (defined(__x86_64__) || defined(__amd64__)) && (defined(__GNUC__) || defined(__clang__)) &&              \
    !defined(CKCONV_NO_SIMD) && CKCI_HAS_CPU && !CKCI_PART
#define CKCI_X86 1
#include <immintrin.h>
#else
#define CKCI_X86 0
#endif

/* -ffast-math stays outside: results hold in this file, and the caller's flags come back at its end. */
#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) ||                                               \
    (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0)
#if defined(__clang__)
#define CKCI_PRECISE 2
#pragma float_control(precise, on, push)
#elif defined(__GNUC__)
#define CKCI_PRECISE 1
#pragma GCC push_options
#pragma GCC optimize("no-fast-math", "no-associative-math", "no-finite-math-only", "signed-zeros")
#endif
#endif
