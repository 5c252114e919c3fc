/*------------------------------------------------------------------------------------------------------------
  >>k-arch
  One name each for what HIP, CUDA and the simulator of tests/ call differently; undefined again at the end of
  ckconv.h. Names and attributes of a vendor are spelled here, instructions in >>k-prim, >>k-chunks
  and >>k-unit. What is told apart by the target that is compiled for, its matrix unit above all, comes from
  the row of the table of architectures (>>core-target).
*/
#pragma once
#include "core/target.h"

#if defined(CKCI_SIMULATOR)
#include CKCI_SIMULATOR
#define CKCI_GPU(name) sim##name
#define CKCI_K_LDS(T, name) T &name = *(T *)sim_lds_of<T>() /* one per kernel */
#define CKCI_GPU_UNITS simDeviceAttributeMultiprocessorCount
#define CKCI_GPU_WAVE simDeviceAttributeWarpSize
#define CKCI_GPU_CLOCK 0 /* it has none */
#define CKCI_GPU_MEMORY_CLOCK 0
#define CKCI_GPU_MEMORY_BITS 0
#define CKCI_GPU_NAME(prop) (prop).arch
#define CKCI_GPU_TARGET(prop) ""
#define CKCI_GPU_COMPILED "the simulator's, " __VERSION__
typedef simDeviceProp_t ckci_gpu_properties;
#elif defined(__HIP__) || defined(__HIPCC__)
#include <hip/hip_runtime.h>
#define CKCI_GPU(name) hip##name
#define CKCI_K_LDS(T, name) __shared__ T name
#define CKCI_GPU_UNITS hipDeviceAttributeMultiprocessorCount
#define CKCI_GPU_WAVE hipDeviceAttributeWarpSize
#define CKCI_GPU_CLOCK hipDeviceAttributeClockRate
#define CKCI_GPU_MEMORY_CLOCK hipDeviceAttributeMemoryClockRate
#define CKCI_GPU_MEMORY_BITS hipDeviceAttributeMemoryBusWidth
#define CKCI_GPU_NAME(prop) (prop).name
#define CKCI_GPU_TARGET(prop) (prop).gcnArchName
#define CKCI_GPU_COMPILED "HIP, " __VERSION__
typedef hipDeviceProp_t ckci_gpu_properties;
#else
#include <cuda_runtime.h>
#if CUDART_VERSION >= 12050
#include <cuda.h> /* types of tensor maps */
#endif
#define CKCI_GPU(name) cuda##name
/* dynamic: static shared memory ends at 48 KiB */
#define CKCI_K_LDS(T, name)                                                                                  \
    extern __shared__ __align__(1024) unsigned char ckci_k_shared[];                                         \
    T &name = *(T *)ckci_k_shared
#define CKCI_GPU_UNITS cudaDevAttrMultiProcessorCount
#define CKCI_GPU_WAVE cudaDevAttrWarpSize
#define CKCI_GPU_CLOCK cudaDevAttrClockRate
#define CKCI_GPU_MEMORY_CLOCK cudaDevAttrMemoryClockRate
#define CKCI_GPU_MEMORY_BITS cudaDevAttrGlobalMemoryBusWidth
#define CKCI_GPU_NAME(prop) (prop).name
#define CKCI_GPU_TARGET(prop) ""
#define CKCI_GPU_COMPILED "CUDA"
typedef cudaDeviceProp ckci_gpu_properties;
#endif
#if defined(CKCI_SIMULATOR)
#define CKCI_K_MEMBER inline __attribute__((unused))
#elif defined(__CUDACC__) && !defined(__HIP__)
#define CKCI_K_MEMBER __device__ __forceinline__
#else
#define CKCI_K_MEMBER __device__ inline __attribute__((always_inline, unused))
#endif
#define CKCI_K_FN static CKCI_K_MEMBER
/* What NVIDIA calls, lest it take registers from the rest; calls on AMD would need scratch. */
#if defined(__CUDACC__) && !defined(__HIP__)
#define CKCI_K_APART __device__ __noinline__
#else
#define CKCI_K_APART CKCI_K_MEMBER
#endif
/* The argument struct where it lies in constant memory: a copy, which an index known at run time would make,
   would lie in scratch. */
#if defined(__HIP_DEVICE_COMPILE__)
#define CKCI_K_PARAM
#define CKCI_K_ARGS(T, a) ((void)a, *(const T *)__builtin_amdgcn_kernarg_segment_ptr())
#elif defined(__CUDACC__) && !defined(CKCI_SIMULATOR) && !defined(__HIP__)
#define CKCI_K_PARAM __grid_constant__
#define CKCI_K_ARGS(T, a) a
#else
#define CKCI_K_PARAM
#define CKCI_K_ARGS(T, a) a
#endif
#if defined(__clang__)
#define CKCI_K_UNROLL(n) CKCI_K_PRAGMA(unroll n)
#elif defined(__CUDACC__)
#define CKCI_K_UNROLL(n) CKCI_K_PRAGMA(unroll n)
#else
#define CKCI_K_UNROLL(n)
#endif
/* Of a loop whose count is known at run time; clang for AMD does not always do it, and says so. */
#if defined(__CUDACC__) && !defined(__HIP__)
#define CKCI_K_UNROLL_SOME(n) CKCI_K_UNROLL(n)
#else
#define CKCI_K_UNROLL_SOME(n)
#endif
#define CKCI_K_PRAGMA(x) _Pragma(#x)

/* What the table of architectures has in the row of the target that is compiled for: unit and dies; and
   whether its buffer descriptors and barriers are known: gfx125x has others. Exact names: __GFX12__, say, is
   also gfx1250, whose unit is another. */
#define CKCI_K_UNIT_NONE 0
#define CKCI_K_UNIT_CDNA1 1
#define CKCI_K_UNIT_CDNA2 2
#define CKCI_K_UNIT_CDNA3 3
#define CKCI_K_UNIT_CDNA4 4
#define CKCI_K_UNIT_RDNA3 5
#define CKCI_K_UNIT_RDNA4 6
#define CKCI_K_UNIT_MMA 7
#define CKCI_K_UNIT_WGMMA 8
#define CKCI_K_UNIT_GFX125 9
#if !defined(__HIP_DEVICE_COMPILE__)
#define CKCI_K_UNIT 0
#define CKCI_K_DIES 1
#define CKCI_K_BUFFERS 0
#elif defined(__gfx9_generic__) || defined(__gfx10_1_generic__) || defined(__gfx10_3_generic__)
#define CKCI_K_UNIT 0
#define CKCI_K_DIES 1
#define CKCI_K_BUFFERS 1
#elif defined(__gfx11_generic__)
#define CKCI_K_UNIT CKCI_K_UNIT_RDNA3
#define CKCI_K_DIES 1
#define CKCI_K_BUFFERS 1
#elif defined(__gfx12_generic__)
#define CKCI_K_UNIT CKCI_K_UNIT_RDNA4
#define CKCI_K_DIES 1
#define CKCI_K_BUFFERS 1
#elif defined(__gfx9_4_generic__)
#error "ckconv.h: no plan knows which matrix unit code for gfx9-4-generic has; name gfx942, gfx950 or both"
#else
#define CKCI_K_ROW_UNIT(NAME, VENDOR, UNIT, WAVE, UNITS, LDS, DIES) +__##NAME##__ * CKCI_K_UNIT_##UNIT
#define CKCI_K_ROW_DIES(NAME, VENDOR, UNIT, WAVE, UNITS, LDS, DIES) +__##NAME##__ * DIES
#define CKCI_K_ROW_KNOWN(NAME, VENDOR, UNIT, WAVE, UNITS, LDS, DIES) +__##NAME##__
#define CKCI_K_UNIT (CKCI_ARCHITECTURES(CKCI_K_ROW_UNIT))
#define CKCI_K_DIES (CKCI_ARCHITECTURES(CKCI_K_ROW_DIES))
#if CKCI_ARCHITECTURES(CKCI_K_ROW_KNOWN) && CKCI_K_UNIT != CKCI_K_UNIT_GFX125
#define CKCI_K_BUFFERS 1
#else
#define CKCI_K_BUFFERS 0
#endif
#endif

extern "C" {
typedef CKCI_GPU(Error_t) ckci_gpu_error;
typedef CKCI_GPU(Event_t) ckci_gpu_event;
typedef CKCI_GPU(Stream_t) ckci_gpu_stream;

/* "gfx90a" or "sm_90"; AMD or NVIDIA; LDS (shared memory) that one block may use. */
CKCI_FN void ckci_gpu_describe(const ckci_gpu_properties *prop, ckconv_device *device)
{
#if defined(CKCI_SIMULATOR)
    device->kind = prop->kind;
    memcpy(device->arch, prop->arch, sizeof device->arch);
    device->lds_bytes = (int32_t)prop->sharedMemPerBlock;
#elif defined(__HIP__) || defined(__HIPCC__)
    size_t length = ckci_architecture_length(prop->gcnArchName); /* "gfx90a:sramecc+:xnack-" */
    length = length < sizeof device->arch ? length : sizeof device->arch - 1;
    memcpy(device->arch, prop->gcnArchName, length);
    device->kind = CKCONV_DEVICE_AMD;
    device->lds_bytes = (int32_t)prop->sharedMemPerBlock;
#else
    int sm = prop->major * 10 + prop->minor;
#if defined(__CUDA_ARCH_LIST__)
    /* What runs there is code for the newest architecture, up to its own, of those compiled for: facts are of
       that one. */
    static const int compiled[] = {__CUDA_ARCH_LIST__};
    int newest = 0;
    for (size_t i = 0; i < sizeof compiled / sizeof compiled[0]; i++) {
        newest = compiled[i] / 10 <= sm && compiled[i] / 10 > newest ? compiled[i] / 10 : newest;
    }
    sm = newest ? newest : sm;
#endif
    snprintf(device->arch, sizeof device->arch, "sm_%d", sm);
    device->kind = CKCONV_DEVICE_NVIDIA;
    device->lds_bytes = (int32_t)prop->sharedMemPerBlockOptin;
#endif
}
}
