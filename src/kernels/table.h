/*------------------------------------------------------------------------------------------------------------
  >>k-table
  The table of gpu/table.h as kernels with plain C names: those that this build has, in this part of it; and
  where they are. A kernel is a body, its arguments and its LDS; the plain name is what profilers show.
  Families that the build's switches drop are not read at all: what no kernel needs costs no time.
*/
#pragma once
#include "kernels/matrix/pack.h"
#include "kernels/matrix/near_weight.h"
#include "kernels/matrix/by_unit.h"
#include "kernels/matrix/tma_kernel.h"
#include "kernels/matrix/gather_reduce.h"
#include "kernels/matrix/stem_weight.h"
#include "kernels/matrix/pointwise.h"
#include "kernels/matrix/planes.h"
#include "kernels/vector/pixel.h"
#if CKCI_HAS_F32
#include "kernels/tile/gather.h"
#include "kernels/tile/grouped.h"
#include "kernels/tile/narrow.h"
#include "kernels/tile/weight.h"
#endif
#if CKCI_HAS_DEPTHWISE
#include "kernels/depth/column.h"
#include "kernels/depth/down.h"
#include "kernels/depth/walk_weight.h"
#include "kernels/depth/down_weight.h"
#include "kernels/depth/deep_weight.h"
#include "kernels/depth/sheet_weight.h"
#include "kernels/depth/row.h"
#include "kernels/depth/matrix_weight.h"
#include "kernels/depth/sum.h"
#endif
#if CKCI_HAS_CONV_CONV
#include "kernels/pair/vector.h"
#include "kernels/pair/by_unit.h"
#endif
#if CKCI_HAS_GROUPNORM
#include "kernels/norm/kept.h"
#include "kernels/norm/param.h"
#endif
#if CKCI_KEEP_MOVE
#include "kernels/move.h"
#endif
#if CKCI_KEEP_IM2COL || CKCI_KEEP_IM2COL_BACK
#include "kernels/im2col.h"
#endif
#if CKCI_KEEP_SAMPLE
#include "kernels/sample.h"
#endif

#ifdef CKCONV_STATIC
#define CKCI_K_KERNEL static __global__
#else
#define CKCI_K_KERNEL __global__
#endif
extern "C" {
#if defined(__CUDACC__) && !defined(CKCI_SIMULATOR) && !defined(__HIP__)
#define CKCI_K_BOUNDS(THREADS, ...)                                                                          \
    __launch_bounds__((THREADS) < ckci_k_most_threads<__VA_ARGS__>::COUNT                                    \
                          ? (THREADS)                                                                        \
                          : (ckci_k_most_threads<__VA_ARGS__>::COUNT),                                       \
                      (ckci_k_resident<__VA_ARGS__>::BLOCKS))
#elif defined(__HIP_DEVICE_COMPILE__)
#define CKCI_K_BOUNDS(THREADS, ...)                                                                          \
    __launch_bounds__(THREADS) __attribute__((amdgpu_waves_per_eu(ckci_k_together<__VA_ARGS__>::WAVES)))
#else
#define CKCI_K_BOUNDS(THREADS, ...) __launch_bounds__(THREADS)
#endif
#define CKCI_K_DEFINE_0(...)
#define CKCI_K_DEFINE_1(NAME, ARGS, THREADS, ...)                                                            \
    CKCI_K_KERNEL void CKCI_K_BOUNDS(THREADS, __VA_ARGS__) ckconv_k_##NAME(CKCI_K_PARAM const ARGS a)        \
    {                                                                                                        \
        typedef __VA_ARGS__ body;                                                                            \
        CKCI_K_LDS(body::lds, m);                                                                            \
        ckci_k_let_next();                                                                                   \
        if (!ckci_k_awaits<body>::ITSELF) {                                                                  \
            ckci_k_await_last();                                                                             \
        }                                                                                                    \
        body::run(CKCI_K_ARGS(ARGS, a), m);                                                                  \
    }
#define CKCI_ROW(NAME, KEEP, PART, ARGS, THREADS, ...)                                                       \
    CKCI_JOIN(CKCI_K_DEFINE_, CKCI_AND(CKCI_KEEP_##KEEP, CKCI_PART_##PART))(NAME, ARGS, THREADS, __VA_ARGS__)
CKCI_GPU_KERNELS(CKCI_ROW)
#undef CKCI_ROW
#undef CKCI_K_DEFINE_0
#undef CKCI_K_DEFINE_1

/* What a launch needs of a kernel: where it is (NULL: elsewhere, or nowhere) and its LDS, for CUDA. */
#if !defined(CKCI_SIMULATOR)
#if CKCI_PART
#define CKCI_K_FIND CKCI_JOIN(ckconv_k_part_, CKCI_PART)
const void *CKCI_K_FIND(int32_t kernel, size_t *lds);
#else
#define CKCI_K_FIND ckci_k_find
static const void *ckci_k_find(int32_t kernel, size_t *lds);
#endif
const void *CKCI_K_FIND(int32_t kernel, size_t *lds)
{
#define CKCI_K_ENTRY_0(...) {NULL, 0},
#if defined(__HIP__) || defined(__HIPCC__)
#define CKCI_K_ENTRY_1(NAME, ...) {(const void *)ckconv_k_##NAME, 0},
#else
#define CKCI_K_ENTRY_1(NAME, ...) {(const void *)ckconv_k_##NAME, sizeof(__VA_ARGS__::lds)},
#endif
#define CKCI_ROW(NAME, KEEP, PART, ARGS, THREADS, ...)                                                       \
    CKCI_JOIN(CKCI_K_ENTRY_, CKCI_AND(CKCI_KEEP_##KEEP, CKCI_PART_##PART))(NAME, __VA_ARGS__)
    static const struct {
        const void *kernel;
        size_t lds;
    } table[] = {CKCI_GPU_KERNELS(CKCI_ROW)};
#undef CKCI_ROW
#undef CKCI_K_ENTRY_0
#undef CKCI_K_ENTRY_1
    *lds = table[kernel].lds;
    return table[kernel].kernel;
}
#undef CKCI_K_FIND
#endif
}
