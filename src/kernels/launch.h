/*------------------------------------------------------------------------------------------------------------
  >>k-launch
  The launch of a kernel. In a build in parts (CKCONV_PART) kernels are in other objects, each of which tells
  where those are that it has. What differs by vendor ends here: LDS above 48 KiB, clusters and early starts
  are NVIDIA's, and the simulator calls the kernel itself. The argument struct is copied by the launch;
  nothing else is kept.
*/
#pragma once
#include "gpu/table.h"
#include "kernels/arch.h"
#if !CKCI_PARTS
#include "kernels/table.h"
#else
extern "C" {
const void *ckconv_k_part_1(int32_t kernel, size_t *lds);
const void *ckconv_k_part_2(int32_t kernel, size_t *lds);
const void *ckconv_k_part_3(int32_t kernel, size_t *lds);
const void *ckconv_k_part_4(int32_t kernel, size_t *lds);
}

static const void *ckci_k_find(int32_t kernel, size_t *lds)
{
#define CKCI_ROW(NAME, KEEP, PART, ARGS, THREADS, ...) ckconv_k_part_##PART,
    static const void *(*const parts[])(int32_t, size_t *) = {CKCI_GPU_KERNELS(CKCI_ROW)};
#undef CKCI_ROW
    return parts[kernel](kernel, lds);
}
#endif

#if !defined(CKCI_SIMULATOR) && !defined(__HIP__) && !defined(__HIPCC__)
/* Has the current device a kernel of that name that is not empty? */
static ckci_gpu_error ckci_k_is_there(const void *kernel, int threads)
{
    cudaFuncAttributes attributes;
    const ckci_gpu_error status = cudaFuncGetAttributes(&attributes, kernel);
    return status == cudaSuccess && attributes.maxThreadsPerBlock < threads ? cudaErrorNoKernelImageForDevice
                                                                            : status;
}

/* Lets a kernel of the current device have more LDS than 48 KiB: always as much, other threads may launch it
   now. A thread does so once; again: a device that was reset has forgotten it. Those that do not exist
   without the instructions of sm_90a have as much. */
static ckci_gpu_error ckci_k_allow_lds(const ckci_launch *l, const void *kernel, size_t lds, int again)
{
    const int32_t index = l->kernel;
    static thread_local uint64_t known[CKCI_KERNEL_COUNT]; /* a bit for each device */
    int most = (int)lds, current = 0, there = 0;
    ckci_gpu_error status = cudaGetDevice(&current);
    const uint64_t bit = current < 64 ? (uint64_t)1 << current : 0;
    if (status != cudaSuccess || (!again && (known[index] & bit) != 0)) {
        return status;
    }
    status = l->takes == CKCI_ARGS_ckci_gpu_tma ? ckci_k_is_there(kernel, l->threads) : status;
    if (status != cudaSuccess) {
        return status;
    }
    if (cudaDeviceGetAttribute(&there, cudaDevAttrMaxSharedMemoryPerBlockOptin, current) == cudaSuccess &&
        there < most) {
        most = there; /* a launch asks for no more than that */
    }
    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
    known[index] |= status == cudaSuccess ? bit : 0;
    return status;
}

/* What the TMA reads of a box. Functions of the driver are found by the runtime, so that nobody has to link
   the driver. */
#if CUDART_VERSION >= 12050
static ckci_gpu_error ckci_k_map_box(const ckci_gpu_box *b, uint64_t *to)
{
    typedef CUresult (*rows_function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                      const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                      const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                      CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    typedef CUresult (*pixels_function)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                        const cuuint64_t *, const cuuint64_t *, const int *, const int *,
                                        cuuint32_t, cuuint32_t, const cuuint32_t *, CUtensorMapInterleave,
                                        CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    static thread_local void *rows, *pixels;
    cudaDriverEntryPointQueryResult result;
    ckci_gpu_error status = cudaSuccess;
    if (!rows) {
        status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &rows, 12000, cudaEnableDefault,
                                                  &result);
    }
    if (!pixels && status == cudaSuccess) {
        status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeIm2col", &pixels, 12000,
                                                  cudaEnableDefault, &result);
    }
    if (status != cudaSuccess || !rows || !pixels) {
        return status != cudaSuccess ? status : cudaErrorNotSupported;
    }
    cuuint64_t len[5], pitch[4];
    cuuint32_t step[5] = {1, 1, 1, 1, 1}, rows_of = (cuuint32_t)b->rows,
               box[3] = {(cuuint32_t)b->wide, rows_of, rows_of};
    const CUtensorMapSwizzle swizzle = b->wide == 16   ? CU_TENSOR_MAP_SWIZZLE_32B
                                       : b->wide == 32 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                       : CU_TENSOR_MAP_SWIZZLE_128B;
    cuuint64_t any = 0;
    for (int32_t i = 0; i < b->rank; i++) {
        len[i] = (cuuint64_t)b->len[i];
        if (i > 0) {
            any |= pitch[i - 1] = (cuuint64_t)(2 * b->stride[i]);
        }
    }
    /* rows that are no lines of 128 bytes take a fifth longer by pairs of lines (H200) */
    const CUtensorMapL2promotion lines =
        any % 128 ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B : CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
    CUtensorMap *map = (CUtensorMap *)(void *)to;
    void *p = (void *)(uintptr_t)b->p;
    CUresult code;
    if (b->pixels) {
        for (int32_t i = 0; i < b->rank - 2; i++) {
            step[1 + i] = (cuuint32_t)b->step[i];
        }
        code = ((pixels_function)pixels)(
            map, CU_TENSOR_MAP_DATA_TYPE_UINT16, (cuuint32_t)b->rank, p, len, pitch, b->low, b->high, box[0],
            rows_of, step, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, lines, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    } else {
        box[1] = b->rank == 3 ? 1 : rows_of;
        code = ((rows_function)rows)(map, CU_TENSOR_MAP_DATA_TYPE_UINT16, (cuuint32_t)b->rank, p, len, pitch,
                                     box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, lines,
                                     CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    }
    return code == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}
#else
static ckci_gpu_error ckci_k_map_box(const ckci_gpu_box *, uint64_t *)
{
    return cudaErrorNotSupported;
}
#endif

static ckci_gpu_error ckci_k_start(const ckci_launch *l, int after, const void *kernel, size_t lds,
                                   ckci_gpu_stream stream)
{
    void *args[1] = {(void *)(uintptr_t)&l->a};
#if CUDART_VERSION >= 11080
    /* Graphs take such launches from 12.3 on. With much LDS its blocks would crowd on the units that are free
       first: a pair's 1 x 1 of 28 x 28 takes 57 us of both so, else 52 (H100). With 28 KB a unit has as many
       blocks of 256 threads as without any, eight; blocks of the TMA have a unit each. */
    const int few = lds <= 28672 || l->takes == CKCI_ARGS_ckci_gpu_tma;
    const int early = CUDART_VERSION >= 12030 && after && few;
    if (l->cluster > 1 || early) {
        cudaLaunchAttribute attribute[2];
        cudaLaunchConfig_t config = {};
        memset(attribute, 0, sizeof attribute);
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
        return cudaLaunchKernelExC(&config, kernel, args);
    }
#else
    (void)after;
    if (l->cluster > 1) {
        return cudaErrorNotSupported;
    }
#endif
    return cudaLaunchKernel(kernel, dim3((unsigned)l->grid), dim3((unsigned)l->threads), args, lds, stream);
}
#endif

/* after: another launch of this run came before, whose end the kernel can await (ckci_k_await_last). */
static ckci_gpu_error ckci_k_launch(const ckci_launch *l, int after, ckci_gpu_stream stream)
{
    (void)after;
#if defined(CKCI_SIMULATOR)
    switch (l->kernel) {
#define CKCI_K_CASE_0(...)
#define CKCI_K_CASE_1(NAME, ARGS)                                                                            \
    case CKCI_KERNEL_##NAME: {                                                                               \
        ARGS args;                                                                                           \
        memcpy(&args, &l->a, sizeof args);                                                                   \
        sim_block.lds_used = (size_t)l->lds;                                                                 \
        sim_in_order = l->takes == CKCI_ARGS_ckci_gpu_tma && l->a.tma.share > 0;                             \
        return sim_launch_named<const ARGS>("ckconv_k_" #NAME, ckconv_k_##NAME, args, l->grid, l->threads,   \
                                            l->cluster, stream);                                             \
    }
#define CKCI_ROW(NAME, KEEP, PART, ARGS, THREADS, ...) CKCI_JOIN(CKCI_K_CASE_, CKCI_KEEP_##KEEP)(NAME, ARGS)
        CKCI_GPU_KERNELS(CKCI_ROW)
#undef CKCI_ROW
#undef CKCI_K_CASE_0
#undef CKCI_K_CASE_1
    default:
        return simErrorInvalidValue;
    }
#else
    size_t lds = 0;
    const void *kernel = ckci_k_find(l->kernel, &lds);
#if defined(__HIP__) || defined(__HIPCC__)
    void *args[1] = {(void *)(uintptr_t)&l->a};
    return hipLaunchKernel(kernel, dim3((unsigned)l->grid), dim3((unsigned)l->threads), args, lds, stream);
#else
    ckci_launch mapped;
    if (l->takes == CKCI_ARGS_ckci_gpu_tma) {
        mapped = *l;
        for (int i = 0; i < 4; i++) {
            const ckci_gpu_box *box = &l->a.tma.box[i];
            const ckci_gpu_error bad = box->rank ? ckci_k_map_box(box, mapped.a.tma.map[i]) : cudaSuccess;
            if (bad != cudaSuccess) {
                return bad;
            }
        }
        l = &mapped;
    }
    const int large = lds > 49152;
    const size_t most = lds;
    ckci_gpu_error status = large ? ckci_k_allow_lds(l, kernel, most, 0) : cudaSuccess;
    lds = l->lds > 0 ? (size_t)l->lds : lds; /* what is left serves as cache */
    status = status == cudaSuccess ? ckci_k_start(l, after, kernel, lds, stream) : status;
    if (status == cudaErrorInvalidValue && large) {
        (void)cudaGetLastError();
        status = ckci_k_allow_lds(l, kernel, most, 1);
        status = status == cudaSuccess ? ckci_k_start(l, after, kernel, lds, stream) : status;
    }
    return status;
#endif
#endif
}

/* Has this build all that it could have for sm_90: code for sm_90a, and maps of tensors? Of a device that is
   not the current one only the latter is known; launches tell. */
static int ckci_k_all_instructions(int ordinal)
{
    (void)ordinal;
#if defined(CKCI_SIMULATOR) || defined(__HIP__) || defined(__HIPCC__)
    return 1;
#elif CUDART_VERSION < 12050
    return 0;
#else
#define CKCI_ROW(NAME, KEEP, PART, ARGS, THREADS, ...)                                                       \
    {CKCI_ARGS_##ARGS == CKCI_ARGS_ckci_gpu_tma && CKCI_KEEP_##KEEP, THREADS},
    static const struct {
        int here, threads;
    } table[] = {CKCI_GPU_KERNELS(CKCI_ROW)};
#undef CKCI_ROW
    int current = -1, good = 1;
    if (cudaGetDevice(&current) == cudaSuccess && current == ordinal) {
        for (int32_t i = 0; i < CKCI_KERNEL_COUNT; i++) {
            size_t lds;
            if (table[i].here) {
                good = ckci_k_is_there(ckci_k_find(i, &lds), table[i].threads) == cudaSuccess;
                break;
            }
        }
    }
    (void)cudaGetLastError();
    return good;
#endif
}
