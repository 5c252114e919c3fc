/* kernels.hip.h - v0.1.0 - the GPU side of ckconv.h: HIP C++17, also read by nvcc
   SPDX-License-Identifier: MIT */
#ifndef CKCONV_KERNELS_HIP_H
#define CKCONV_KERNELS_HIP_H
/*  (licence text at the end of ckconv.h)

Included by ckconv.h on one marked line, when CKCONV_IMPLEMENTATION is defined and hipcc or nvcc reads it. Do
not include it yourself.

This version holds no kernels: it maps the runtime's names, so that the device helpers of ckconv.h (facts,
memory, timers) work on AMD and NVIDIA GPUs. Computation runs on the host engines; a plan for engine gpu says
so.

TAGS
    >>k-runtime  HIP or CUDA names of the runtime calls
*/

#ifndef CKCONV_IMPLEMENTATION
#error "kernels.hip.h is a part of ckconv.h: define CKCONV_IMPLEMENTATION and include ckconv.h"
#endif


/*------------------------------------------------------------------------------------------------------------
  >>k-runtime
  The runtime calls that ckconv.h makes, under one name each; undefined again at the end of ckconv.h.
*/
#ifdef __cplusplus
} /* the vendor's headers open their own linkage */
#endif
#if defined(__HIP__) || defined(__HIPCC__)
#include <hip/hip_runtime.h>
#define CKCI_GPU(name) hip##name
#define CKCI_GPU_KIND CKCONV_DEVICE_AMD
typedef hipDeviceProp_t ckci_gpu_properties;
#else
#include <cuda_runtime.h>
#define CKCI_GPU(name) cuda##name
#define CKCI_GPU_KIND CKCONV_DEVICE_NVIDIA
typedef cudaDeviceProp ckci_gpu_properties;
#endif
#ifdef __cplusplus
extern "C" {
#endif

typedef CKCI_GPU(Error_t) ckci_gpu_error;
typedef CKCI_GPU(Event_t) ckci_gpu_event;
typedef CKCI_GPU(Stream_t) ckci_gpu_stream;

/* "gfx90a" or "sm_90"; LDS (shared memory) that one block may use. */
static void ckci_gpu_describe(const ckci_gpu_properties *prop, char *arch, size_t size, int32_t *lds)
{
#if defined(__HIP__) || defined(__HIPCC__)
    size_t length = strcspn(prop->gcnArchName, ":"); /* "gfx90a:sramecc+:xnack-" */
    length = length < size ? length : size - 1;
    memcpy(arch, prop->gcnArchName, length);
    arch[length] = 0;
    *lds = (int32_t)prop->sharedMemPerBlock;
#else
    snprintf(arch, size, "sm_%d%d", prop->major, prop->minor);
    *lds = (int32_t)prop->sharedMemPerBlockOptin;
#endif
}

#endif /* CKCONV_KERNELS_HIP_H */
