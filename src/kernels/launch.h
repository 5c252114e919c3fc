/*------------------------------------------------------------------------------------------------------------
  >>k-launch
  The table as kernels with plain C names, and the launch of one.
*/
#pragma once
#include "kernels/matrix/pack.h"
#include "kernels/matrix/near_weight.h"
#include "kernels/matrix/by_unit.h"
#include "kernels/matrix/stem_weight.h"
#include "kernels/tile/gather.h"
#include "kernels/tile/grouped.h"
#include "kernels/tile/narrow.h"
#include "kernels/tile/weight.h"
#include "kernels/depth/column.h"
#include "kernels/depth/down.h"
#include "kernels/depth/walk_weight.h"
#include "kernels/depth/down_weight.h"
#include "kernels/depth/deep_weight.h"
#include "kernels/depth/sheet_weight.h"
#include "kernels/depth/row.h"
#include "kernels/depth/matrix_weight.h"
#include "kernels/depth/sum.h"
#include "kernels/pair/vector.h"
#include "kernels/pair/by_unit.h"
#include "kernels/norm/kept.h"
#include "kernels/norm/param.h"
#include "kernels/move.h"

#ifdef CKCONV_STATIC
#define CKCI_K_KERNEL static __global__
#else
#define CKCI_K_KERNEL __global__
#endif
extern "C" {
#if defined(__CUDACC__) && !defined(CKCI_SIMULATOR) && !defined(__HIP__)
#define CKCI_K_BOUNDS(THREADS, ...) __launch_bounds__(THREADS, (ckci_k_resident<__VA_ARGS__>::BLOCKS))
#else
#define CKCI_K_BOUNDS(THREADS, ...) __launch_bounds__(THREADS)
#endif
#define CKCI_ROW(NAME, ARGS, THREADS, ...)                                                                   \
    CKCI_K_KERNEL void CKCI_K_BOUNDS(THREADS, __VA_ARGS__) ckconv_k_##NAME(CKCI_K_PARAM const ARGS a)        \
    {                                                                                                        \
        typedef __VA_ARGS__ body;                                                                            \
        CKCI_K_LDS(body::lds, m);                                                                            \
        ckci_k_take_turn();                                                                                  \
        body::run(CKCI_K_ARGS(ARGS, a), m);                                                                  \
    }
CKCI_GPU_KERNELS(CKCI_ROW)
#undef CKCI_ROW
}

/* after: another launch of this run came before, whose end the kernel can await itself (ckci_k_take_turn). */
static ckci_gpu_error ckci_k_launch(const ckci_launch *l, int after, ckci_gpu_stream stream)
{
    (void)after;
#if defined(CKCI_SIMULATOR)
    switch (l->kernel) {
#define CKCI_ROW(NAME, ARGS, THREADS, ...)                                                                   \
    case CKCI_KERNEL_##NAME: {                                                                               \
        ARGS args;                                                                                           \
        memcpy(&args, &l->a, sizeof args);                                                                   \
        sim_block.lds_used = (size_t)l->lds;                                                                 \
        return sim_launch_named<const ARGS>("ckconv_k_" #NAME, ckconv_k_##NAME, args, l->grid, l->threads,   \
                                            l->cluster, stream);                                             \
    }
        CKCI_GPU_KERNELS(CKCI_ROW)
#undef CKCI_ROW
    default:
        return simErrorInvalidValue;
    }
#else
#define CKCI_ROW(NAME, ARGS, THREADS, ...) (const void *)ckconv_k_##NAME,
    static const void *const kernels[] = {CKCI_GPU_KERNELS(CKCI_ROW)};
#undef CKCI_ROW
    void *args[1] = {(void *)(uintptr_t)&l->a};
    size_t lds = 0;
#if !defined(__HIP__) && !defined(__HIPCC__)
#define CKCI_ROW(NAME, ARGS, THREADS, ...) sizeof(__VA_ARGS__::lds),
    static const size_t bytes[] = {CKCI_GPU_KERNELS(CKCI_ROW)};
#undef CKCI_ROW
    lds = bytes[l->kernel];
    if (lds > 49152) {
        /* on a device always the same attribute: other threads may launch this kernel now */
        int most = (int)lds, current = 0, there = 0;
        if (l->lds > 0 && cudaGetDevice(&current) == cudaSuccess &&
            cudaDeviceGetAttribute(&there, cudaDevAttrMaxSharedMemoryPerBlockOptin, current) == cudaSuccess &&
            there < most) {
            most = there; /* the launch asks for no more than that */
        }
        ckci_gpu_error status =
            cudaFuncSetAttribute(kernels[l->kernel], cudaFuncAttributeMaxDynamicSharedMemorySize, most);
        if (status != cudaSuccess) {
            return status;
        }
    }
    lds = l->lds > 0 ? (size_t)l->lds : lds; /* what is left serves as cache */
#if CUDART_VERSION >= 11080
    /* Graphs take such launches from 12.3 on. With much LDS its blocks would crowd on the units that are free
       first: a pair's 1 x 1 of 28 x 28 takes 57 us of both so, else 52 (H100). */
    const int early = CUDART_VERSION >= 12030 && after && lds <= 24576;
    if (l->cluster > 1 || early) {
        cudaLaunchAttribute attribute[2];
        cudaLaunchConfig_t config;
        memset(attribute, 0, sizeof attribute);
        memset(&config, 0, sizeof config);
        attribute[0].id = cudaLaunchAttributeClusterDimension;
        attribute[0].val.clusterDim.x = (unsigned)l->cluster;
        attribute[0].val.clusterDim.y = attribute[0].val.clusterDim.z = 1;
        attribute[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute[1].val.programmaticStreamSerializationAllowed = 1;
        config.gridDim = dim3((unsigned)l->grid);
        config.blockDim = dim3((unsigned)l->threads);
        config.dynamicSmemBytes = lds;
        config.stream = stream;
        config.attrs = l->cluster > 1 ? attribute : attribute + 1;
        config.numAttrs = (l->cluster > 1) + early;
        return cudaLaunchKernelExC(&config, kernels[l->kernel], args);
    }
#else
    if (l->cluster > 1) {
        return cudaErrorNotSupported;
    }
#endif
#endif
    return CKCI_GPU(LaunchKernel)(kernels[l->kernel], dim3((unsigned)l->grid), dim3((unsigned)l->threads),
                                  args, lds, stream);
#endif
}
