/* cuda_runtime.h - what ckconv takes of CUDA's header, declared for clang where no CUDA is installed
   SPDX-License-Identifier: MIT

   tests/test_nvidia.sh compiles the device pass with it, down to PTX. Nothing here runs or links. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <__clang_cuda_builtin_vars.h>

#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned wide = 1, unsigned high = 1, unsigned deep = 1) : x(wide), y(high), z(deep)
    {
    }
};

/* Device functions: clang's builtins, or a call that nothing resolves. */
#define CUDA_FN static __device__ __forceinline__
extern "C" {
__device__ float expf(float);
__device__ float erff(float);
__device__ float tanhf(float);
__device__ double exp(double);
__device__ double erf(double);
__device__ double tanh(double);
CUDA_FN float rintf(float x)
{
    return __builtin_rintf(x);
}
CUDA_FN double rint(double x)
{
    return __builtin_rint(x);
}
CUDA_FN float sqrtf(float x)
{
    return __nvvm_sqrt_rn_f(x);
}
CUDA_FN double sqrt(double x)
{
    return __nvvm_sqrt_rn_d(x);
}
CUDA_FN float fmaf(float a, float b, float c)
{
    return __nvvm_fma_rn_f(a, b, c);
}
CUDA_FN double fma(double a, double b, double c)
{
    return __nvvm_fma_rn_d(a, b, c);
}
CUDA_FN float fabsf(float x)
{
    return __builtin_fabsf(x);
}
CUDA_FN double fabs(double x)
{
    return __builtin_fabs(x);
}
CUDA_FN float __fmul_rn(float a, float b)
{
    return __nvvm_mul_rn_f(a, b);
}
CUDA_FN double __dmul_rn(double a, double b)
{
    return __nvvm_mul_rn_d(a, b);
}
CUDA_FN unsigned __umulhi(unsigned a, unsigned b)
{
    return __nvvm_mulhi_ui(a, b);
}
CUDA_FN unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    return __nvvm_prmt(a, b, selector);
}
CUDA_FN void *memcpy(void *to, const void *from, size_t bytes)
{
    return __builtin_memcpy(to, from, bytes);
}
CUDA_FN void *memset(void *to, int byte, size_t bytes)
{
    return __builtin_memset(to, byte, bytes);
}
}
CUDA_FN void __syncwarp()
{
    __nvvm_bar_warp_sync(0xffffffffu);
}
CUDA_FN size_t __cvta_generic_to_shared(const void *p)
{
    return (size_t)(const __attribute__((address_space(3))) void *)p;
}
template <class T> CUDA_FN T __shfl_sync(unsigned lanes, T value, int from, int width = 32)
{
    T result;
    int word;
    static_assert(sizeof(T) == 4, "one word");
    __builtin_memcpy(&word, &value, 4);
    word = __nvvm_shfl_sync_idx_i32(lanes, word, from, (32 - width) << 8 | 31);
    __builtin_memcpy(&result, &word, 4);
    return result;
}
CUDA_FN void __threadfence()
{
    __nvvm_membar_gl();
}
template <class T> CUDA_FN T __shfl_xor_sync(unsigned lanes, T value, int mask)
{
    return __shfl_sync(lanes, value, (int)(__nvvm_read_ptx_sreg_tid_x() % 32) ^ mask);
}

/* The host's side */
typedef enum {
    cudaSuccess,
    cudaErrorNoDevice,
    cudaErrorInsufficientDriver,
    cudaErrorInvalidValue,
    cudaErrorNoKernelImageForDevice,
    cudaErrorNotSupported
} cudaError_t;
typedef enum {
    cudaDevAttrWarpSize,
    cudaDevAttrMultiProcessorCount,
    cudaDevAttrMaxSharedMemoryPerBlockOptin,
    cudaDevAttrClockRate,
    cudaDevAttrMemoryClockRate,
    cudaDevAttrGlobalMemoryBusWidth
} cudaDeviceAttr;
typedef enum { cudaFuncAttributeMaxDynamicSharedMemorySize } cudaFuncAttribute;
typedef enum { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost } cudaMemcpyKind;
typedef struct cuda_stream *cudaStream_t;
typedef struct cuda_event *cudaEvent_t;
typedef struct {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin;
    int major, minor, multiProcessorCount, warpSize, l2CacheSize;
} cudaDeviceProp;
cudaError_t cudaGetLastError();
const char *cudaGetErrorString(cudaError_t);
cudaError_t cudaGetDevice(int *);
cudaError_t cudaSetDevice(int);
cudaError_t cudaGetDeviceCount(int *);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *, int);
cudaError_t cudaDeviceGetAttribute(int *, cudaDeviceAttr, int);
cudaError_t cudaDriverGetVersion(int *);
cudaError_t cudaRuntimeGetVersion(int *);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaMalloc(void **, size_t);
cudaError_t cudaFree(void *);
cudaError_t cudaMemcpy(void *, const void *, size_t, cudaMemcpyKind);
cudaError_t cudaMemset(void *, int, size_t);
cudaError_t cudaEventCreate(cudaEvent_t *);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float *, cudaEvent_t, cudaEvent_t);
cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);
typedef struct {
    int maxThreadsPerBlock;
} cudaFuncAttributes;
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *, const void *);
cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int);
