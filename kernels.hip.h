/* kernels.hip.h - v0.1.0 - the GPU side of ckconv.h: HIP C++17, also read by nvcc
   SPDX-License-Identifier: MIT */
#ifndef CKCONV_KERNELS_HIP_H
#define CKCONV_KERNELS_HIP_H
/*  (licence text at the end of ckconv.h)

Included by ckconv.h on one marked line, when CKCONV_IMPLEMENTATION is defined and hipcc or nvcc reads it. Do
not include it yourself.

KERNELS (ckconv_k_NAME; the table in ckconv.gpu.h, >>g-table, has one line for each; T is f32, f64 or i32, the
type of the sums, and every storage type is converted when it is loaded)
    gather_T_S         fwd, bwd_data: implicit GEMM, blocks of S x S outputs through LDS
    weight_T_S         bwd_weight: the same over positions, split into parts where that fills the GPU
    matrix_gather_R    fwd, bwd_data on a matrix unit, f16 or bf16, blocks of R outputs
    matrix_back_R      bwd_data likewise, weights read as they lie
    matrix_weight_R    bwd_weight likewise
    matrix_near_Q      small groups in blocks of Q channels, fwd, bwd_data; matrix_near_down_Q: those of 3 x 3
                       filters by strips, matrix_near_deep_Q: of filters of several planes;
                       matrix_near_weight_Q: bwd_weight
    matrix_stem_OP     first layers: few channels, channels last
    matrix_whole_R     fwd, bwd_data in i8
    matrix_single_R    fwd, bwd_data in f32 (CDNA) and tf32; matrix_single_weight_R: bwd_weight
    matrix_double_R    fwd, bwd_data in f64; matrix_double_weight_R: bwd_weight
    pack, pack_..      weights and tensors in the order in which matrix_... read them
    tile_gather_S      fwd, bwd_data in f32, tensors read as they are: blocks of S outputs
    tile_weight_S      bwd_weight likewise
    grouped_C          fwd, bwd_data in f32, C columns of a group, groups side by side
    narrow             fwd, bwd_data in f32, at most four written channels per group
    reduce_T           sum of those parts in fixed order, and the epilogue
    depth_S_4_..       depthwise fwd and bwd_data, channels last: strips of outputs; S: half (f16, bf16), f32,
                       f64; near: stride 1, second: stride 2, any: the rest
    depth_S_1_..       the same for planes (channels first; lanes along x), odd channels, and sums over
                       several channels per group
    depth_S_walk_F     F x F filters: a thread walks down a column (plane_walk: channels first; channels last:
                       3 x 3 and Z x 3 x 3)
    depth_S_column_3   3 x 3, channels last: the same with two rows of inputs in registers (f32); second:
                       stride 2
    depth_S_down_F     F x F filters, channels last: blocks walk down columns of rows, which lie in LDS;
                       short: in strips of 4 outputs
    depth_S_deep       3 x 3 x 3, channels last: the same along planes
    depth_S_sheet_F    F x F filters, channels first: planes or bands of rows lie in LDS; second: stride 2,
                       back: its gradient
    depth_S_row        rows of planes in aligned pieces: long filters, 1D
    depth_weight_S_..  bwd_weight of each of them; depth_sum adds its parts in fixed order
    depth_matrix       large filters of f16 and bf16 on matrix units, without strides
    depth_matrix_weight_F  its bwd_weight, filters up to F x F
    direct_T           fwd, bwd_data with few channels per group: a thread owns an output
    direct_weight_T    bwd_weight with few channels per group: a block owns filters, its threads positions
    pair_T             conv_conv_fwd: the second GEMM, whose operand is the first convolution's result in LDS
    pair_matrix_T      the same on a matrix unit, all channels of mid in LDS; T: f16, bf16
    pair_depth_T       the same of a depthwise first convolution; pair_depth_wide_T, pair_strips_T: for NVIDIA
    norm_...           group norm: statistics, y, sums of the gradients, dx, dgamma and dbeta; .._last and
                       .._planes: wide, by layout; fwd_kept, bwd_kept: x (and dy) stay in LDS (NVIDIA)
    move, move_..      layout and type conversion: single elements; copy: rows in pieces; turn_E: tiles of
                       E-byte elements turned in LDS (2: f16 and bf16, too); convert_E: other types to E
                       bytes, turned or not

No atomics; wave 32 or 64. Every output is written by one thread, and every sum has a fixed order; over
positions, its error does not grow with their number (>>k-prim, long sums). All but matrix_... are plain
multiply-adds on any target.

FILES (parts of this one, which includes them at >>k-families)
    kernels.matrix.hip.h    >>k-matrix  all three on matrix units
                            >>k-tile    all three in f32, tuned
    kernels.direct.hip.h    >>k-direct  few channels per group
                            >>k-depth   depthwise
                            >>k-pair    conv_conv_fwd
    kernels.norm.hip.h      >>k-norm    group norm
                            >>k-move    layout and type conversion

TAGS
    >>k-arch    HIP, CUDA or simulator: names, linkage      >>k-weight    bwd_weight
    >>k-prim    conversions, loads, stores                  >>k-families  the files above
    >>k-map     coordinates                                 >>k-inst      the table expanded, launch
    >>k-gemm    the tile loop                               >>k-undef
    >>k-gather  fwd, bwd_data
*/

#ifndef CKCONV_IMPLEMENTATION
#error "kernels.hip.h is a part of ckconv.h: define CKCONV_IMPLEMENTATION and include ckconv.h"
#endif


/*------------------------------------------------------------------------------------------------------------
  >>k-arch
  One name each for what HIP, CUDA and the simulator of tests/ call differently; undefined again at the end of
  ckconv.h.
*/
#ifdef __cplusplus
} /* the vendor's headers open their own linkage */
#endif
#if defined(CKCI_SIMULATOR)
#include CKCI_SIMULATOR
#define CKCI_GPU(name) sim##name
#define CKCI_K_LDS(T, name) T &name = *(T *)sim_lds_of<T>() /* one per kernel */
#define CKCI_GPU_UNITS simDeviceAttributeMultiprocessorCount
#define CKCI_GPU_WAVE simDeviceAttributeWarpSize
typedef simDeviceProp_t ckci_gpu_properties;
#elif defined(__HIP__) || defined(__HIPCC__)
#include <hip/hip_runtime.h>
#define CKCI_GPU(name) hip##name
#define CKCI_K_LDS(T, name) __shared__ T name
#define CKCI_GPU_UNITS hipDeviceAttributeMultiprocessorCount
#define CKCI_GPU_WAVE hipDeviceAttributeWarpSize
typedef hipDeviceProp_t ckci_gpu_properties;
#else
#include <cuda_runtime.h>
#define CKCI_GPU(name) cuda##name
/* dynamic: static shared memory ends at 48 KiB */
#define CKCI_K_LDS(T, name)                                                                                  \
    extern __shared__ __align__(1024) unsigned char ckci_k_shared[];                                         \
    T &name = *(T *)ckci_k_shared
#define CKCI_GPU_UNITS cudaDevAttrMultiProcessorCount
#define CKCI_GPU_WAVE cudaDevAttrWarpSize
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

/* What the table of architectures has in the row of the target that is compiled for: unit and quirk; and
   whether its buffer descriptors and barriers are known. Exact names: __GFX12__, say, is also gfx1250, whose
   unit is another. */
#define CKCI_K_UNIT_NONE 0
#define CKCI_K_UNIT_CDNA1 1
#define CKCI_K_UNIT_CDNA2 2
#define CKCI_K_UNIT_CDNA3 3
#define CKCI_K_UNIT_CDNA4 4
#define CKCI_K_UNIT_RDNA3 5
#define CKCI_K_UNIT_RDNA4 6
#define CKCI_K_UNIT_MMA 7
#define CKCI_K_UNIT_WGMMA 8
#define CKCI_K_QUIRK_NONE 0
#define CKCI_K_QUIRK_NO_256 1
#if !defined(__HIP_DEVICE_COMPILE__)
#define CKCI_K_UNIT 0
#define CKCI_K_QUIRK 0
#define CKCI_K_BUFFERS 0
#elif defined(__gfx9_generic__) || defined(__gfx10_1_generic__) || defined(__gfx10_3_generic__)
#define CKCI_K_UNIT 0
#define CKCI_K_QUIRK 0
#define CKCI_K_BUFFERS 1
#elif defined(__gfx11_generic__)
#define CKCI_K_UNIT CKCI_K_UNIT_RDNA3
#define CKCI_K_QUIRK 0
#define CKCI_K_BUFFERS 1
#elif defined(__gfx12_generic__)
#define CKCI_K_UNIT CKCI_K_UNIT_RDNA4
#define CKCI_K_QUIRK 0
#define CKCI_K_BUFFERS 1
#elif defined(__gfx9_4_generic__)
#error "ckconv.h: no plan knows which matrix unit code for gfx9-4-generic has; name gfx942, gfx950 or both"
#else
#define CKCI_K_ROW_UNIT(NAME, VENDOR, UNIT, WAVE, UNITS, LDS, QUIRK) +__##NAME##__ * CKCI_K_UNIT_##UNIT
#define CKCI_K_ROW_QUIRK(NAME, VENDOR, UNIT, WAVE, UNITS, LDS, QUIRK) +__##NAME##__ * CKCI_K_QUIRK_##QUIRK
#define CKCI_K_ROW_KNOWN(NAME, VENDOR, UNIT, WAVE, UNITS, LDS, QUIRK) +__##NAME##__
#define CKCI_K_UNIT (CKCI_ARCHITECTURES(CKCI_K_ROW_UNIT))
#define CKCI_K_QUIRK (CKCI_ARCHITECTURES(CKCI_K_ROW_QUIRK))
#if CKCI_ARCHITECTURES(CKCI_K_ROW_KNOWN)
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
static void ckci_gpu_describe(const ckci_gpu_properties *prop, ckconv_device *device)
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


/*------------------------------------------------------------------------------------------------------------
  >>k-prim
  Conversions, loads and stores. T is float, double or int32_t: the type of the arithmetic. What needs an
  instruction of its own is a function here with a twin for the simulator.
*/
CKCI_K_FN uint32_t ckci_k_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

CKCI_K_FN float ckci_k_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

/* An argument through a pointer of which the compiler knows nothing: where it sees how, the pointer to all
   arguments, which is one for all of them. (Without optimisation it does not lie in scalar registers.) clang
   15 and 22 do not always see that it is, and fail with an "illegal VGPR to SGPR copy". */
template <bool AGAIN, class T> CKCI_K_FN const T &ckci_k_opaque_argument(const T &x)
{
#if defined(__HIP_DEVICE_COMPILE__) && defined(__OPTIMIZE__)
    typedef const T __attribute__((address_space(4))) * pointer;
    uint64_t at = (uint64_t)&x, all = (uint64_t)__builtin_amdgcn_kernarg_segment_ptr(), from = at - all;
    if (__builtin_constant_p(from)) {
        at = all;
    } else {
        from = 0;
    }
#if __clang_major__ < 16 || __clang_major__ > 19
    at = (uint32_t)__builtin_amdgcn_readfirstlane((int)at) |
         (uint64_t)(uint32_t)__builtin_amdgcn_readfirstlane((int)(at >> 32)) << 32;
#endif
    if constexpr (AGAIN) {
        asm volatile("" : "+s"(at));
    } else {
        asm("" : "+s"(at));
    }
    return *(const T *)(pointer)(at + from);
#else
    return x;
#endif
}

/* Arguments that only a rare path needs: loaded there, not kept in scalar registers all along. */
template <class T> CKCI_K_FN const T &ckci_k_late(const T &x)
{
    return ckci_k_opaque_argument<false>(x);
}

/* The same in a loop, where each pass loads them once more. */
template <class T> CKCI_K_FN const T &ckci_k_again(const T &x)
{
    return ckci_k_opaque_argument<true>(x);
}

/* The same pointer, known to lead to global memory. */
CKCI_K_FN unsigned char *ckci_k_global(unsigned char *p)
{
#if defined(__HIP_DEVICE_COMPILE__)
    return (unsigned char *)(__attribute__((address_space(1))) unsigned char *)p;
#else
    return p;
#endif
}

/* A value that all threads share, of which the compiler is not to know more: multiples of it are computed
   where they are needed, not before the loop, from where they would have to stay in scalar registers. */
CKCI_K_FN int32_t ckci_k_afresh(int32_t x)
{
#if defined(__HIP_DEVICE_COMPILE__) && defined(__OPTIMIZE__)
#if __clang_major__ < 16 /* which may hold it in a vector register, and then fails at -O1 */
    x = __builtin_amdgcn_readfirstlane(x);
#endif
    asm volatile("" : "+s"(x));
#endif
    return x;
}

/* The same of a value of each thread: tests of it, whose results are scalar registers. */
CKCI_K_FN int32_t ckci_k_lane_afresh(int32_t x)
{
#if defined(__HIP_DEVICE_COMPILE__)
    asm volatile("" : "+v"(x));
#endif
    return x;
}

/* The same on every GPU: what is computed from it is computed again, not kept in registers. */
CKCI_K_FN int32_t ckci_k_again(int32_t x)
{
#if defined(__CUDA_ARCH__)
    asm volatile("" : "+r"(x));
    return x;
#else
    return ckci_k_lane_afresh(x);
#endif
}

/* The same of a value that all threads share. */
CKCI_K_FN int32_t ckci_k_uniform_again(int32_t x)
{
#if defined(__CUDA_ARCH__)
    return ckci_k_again(x);
#else
    return ckci_k_afresh(x);
#endif
}

/* Blocks that a compute unit should hold of a kernel, for compilers that ask; 0: no wish. */
template <class Body> struct ckci_k_resident {
    enum { BLOCKS = 0 };
};

/* The body of a kernel that a target does not have: no plan takes it. */
struct ckci_k_nothing {
    struct lds {
        int32_t unused;
    };

    template <class Args> static CKCI_K_MEMBER void run(const Args &, lds &)
    {
    }
};

/* Is this AMD? For what one body does in two ways; the simulator knows when it runs. */
CKCI_K_FN bool ckci_k_amd()
{
#if defined(CKCI_SIMULATOR)
    return sim_device.kind != CKCONV_DEVICE_NVIDIA;
#elif defined(__CUDACC__) && !defined(__HIP__)
    return false;
#else
    return true;
#endif
}

/* Can it be? What stands behind `if constexpr` leaves NVIDIA's code as if it were not there: a branch that is
   never taken can still change how the compiler computes addresses (5 % of a group norm). */
#if defined(__CUDACC__) && !defined(__HIP__) && !defined(CKCI_SIMULATOR)
enum { CKCI_K_MAYBE_AMD = 0 };
#else
enum { CKCI_K_MAYBE_AMD = 1 };
#endif

/* A kernel's body by vendor, and for the simulator by unit: a device's compiler knows which, the simulator
   when it runs. */
#if defined(CKCI_SIMULATOR)
struct ckci_k_simulated {
    struct lds {
    };

    template <class Body, class Args> static void with(const Args &p)
    {
        typedef typename Body::lds body_lds;
        CKCI_K_LDS(body_lds, m);
        Body::run(p, m);
    }
};

template <class Nvidia, class Amd> struct ckci_k_by_vendor : ckci_k_simulated {
    template <class Args> static void run(const Args &p, lds &)
    {
        if (sim_device.kind == CKCONV_DEVICE_NVIDIA) {
            with<Nvidia>(p);
        } else {
            with<Amd>(p);
        }
    }
};

template <class Mfma, class Wmma, class Wmma12, class Mma, class Wgmma = Mma>
struct ckci_k_by_unit : ckci_k_simulated {
    template <class Args> static void run(const Args &p, lds &)
    {
        const int kind = sim_matrix_unit();
        if (kind == SIM_MFMA) {
            with<Mfma>(p);
        } else if (kind == SIM_WMMA) {
            with<Wmma>(p);
        } else if (kind == SIM_WMMA12) {
            with<Wmma12>(p);
        } else if (kind == SIM_MMA) {
            with<Mma>(p);
        } else if (kind == SIM_WGMMA) {
            with<Wgmma>(p);
        }
    }
};
#elif defined(__CUDACC__) && !defined(__HIP__)
template <class Nvidia, class Amd> struct ckci_k_by_vendor : Nvidia {
};
#else
template <class Nvidia, class Amd> struct ckci_k_by_vendor : Amd {
};
#endif

/* Two numbers, which AMD multiplies in one instruction. */
#if defined(__HIP_DEVICE_COMPILE__)
typedef float ckci_k_float2 __attribute__((ext_vector_type(2)));
#else
struct ckci_k_float2 {
    float x, y;
};
CKCI_K_FN ckci_k_float2 operator+(const ckci_k_float2 &a, const ckci_k_float2 &b)
{
    return {a.x + b.x, a.y + b.y};
}
CKCI_K_FN ckci_k_float2 operator-(const ckci_k_float2 &a, const ckci_k_float2 &b)
{
    return {a.x - b.x, a.y - b.y};
}
CKCI_K_FN ckci_k_float2 operator*(const ckci_k_float2 &a, const ckci_k_float2 &b)
{
    return {a.x * b.x, a.y * b.y};
}
#endif

/* Several elements in one load. */
struct alignas(8) ckci_k_uint2 {
    uint32_t x, y;
};
struct alignas(16) ckci_k_uint4 {
    uint32_t x, y, z, w;
};
struct alignas(16) ckci_k_double2 {
    double x, y;
};

/* Copies into LDS that do not wait, on NVIDIA from sm_80 on: BYTES, or as many zeros. ckci_k_copies_end
   closes a batch of them, ckci_k_copies_wait<COUNT> waits for all but the last COUNT batches. */
template <int BYTES>
CKCI_K_FN void ckci_k_copy_late(unsigned char *to, const unsigned char *from, bool inside)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile(
        "cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
        "l"(from), "n"(BYTES), "r"(inside ? BYTES : 0)
        : "memory");
#else
#if defined(CKCI_SIMULATOR)
    if (((uintptr_t)to | (uintptr_t)(inside ? from : to)) % BYTES != 0) {
        sim_die("copy of %d bytes from or to an address that is no multiple of them", BYTES);
    }
#endif
    if (inside) {
        memcpy(to, from, BYTES);
    } else {
        memset(to, 0, BYTES);
    }
#endif
}

CKCI_K_FN void ckci_k_copies_end()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int COUNT> CKCI_K_FN void ckci_k_copies_wait()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(COUNT) : "memory");
#endif
}

/* Bulk copies into LDS (NVIDIA, from sm_90 on): multiples of 16 bytes that a thread starts. They arrive at an
   object in LDS: one thread begins it and says how many bytes to expect, before a barrier and the copies;
   then all threads of the block wait, once. Too many are waited for for ever: the simulator counts. */
struct alignas(16) ckci_k_arrival {
    uint64_t word[2]; /* the first one */
};

CKCI_K_FN void ckci_k_arrival_begin(ckci_k_arrival *arrival, int32_t bytes)
{
#if defined(CKCI_SIMULATOR)
    arrival->word[0] = (uint64_t)bytes;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(arrival);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\tfence.mbarrier_init.release.cluster;" ::"r"(at)
                 : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
#else
    (void)arrival;
    (void)bytes;
#endif
}

CKCI_K_FN void ckci_k_copy_bulk(ckci_k_arrival *arrival, void *to, const unsigned char *from, int32_t bytes)
{
#if defined(CKCI_SIMULATOR)
    if (((uintptr_t)to | (uintptr_t)from | (uint32_t)bytes) % 16 != 0 || bytes <= 0) {
        sim_die("bulk copy of %d bytes, or from or to an address, that is no multiple of 16", (int)bytes);
    }
    memcpy(to, from, (size_t)bytes);
    arrival->word[0] -= (uint64_t)bytes;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            (uint32_t)__cvta_generic_to_shared(to)),
        "l"(from), "r"(bytes), "r"((uint32_t)__cvta_generic_to_shared(arrival))
        : "memory");
#else
    (void)arrival;
    (void)to;
    (void)from;
    (void)bytes;
#if defined(__CUDA_ARCH__)
    asm volatile("trap;"); /* a plan for another architecture */
#endif
#endif
}

CKCI_K_FN void ckci_k_arrival_wait(ckci_k_arrival *arrival)
{
#if defined(CKCI_SIMULATOR)
    __syncthreads();
    if (arrival->word[0] != 0) {
        sim_die("bulk copies: %d bytes less than expected", (int)arrival->word[0]);
    }
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint32_t there;
    do {
        asm volatile("{\n\t.reg .pred p;\n\t"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(there)
                     : "r"((uint32_t)__cvta_generic_to_shared(arrival))
                     : "memory");
    } while (!there);
#else
    (void)arrival;
#endif
}

/* A barrier of all threads of a cluster's blocks (NVIDIA, from sm_90 on): what they wrote before it, all see
   after it. */
CKCI_K_FN void ckci_k_cluster_barrier()
{
#if defined(CKCI_SIMULATOR)
    sim_cluster_barrier();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
#elif defined(__CUDA_ARCH__)
    asm volatile("trap;"); /* a plan for another architecture */
#endif
}

/* So many nanoseconds, about (NVIDIA). */
CKCI_K_FN void ckci_k_pause(uint32_t time)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
    asm volatile("nanosleep.u32 %0;" ::"r"(time));
#else
    (void)time;
#endif
}

/* NVIDIA, from sm_90 on: the first thing a kernel does. The run's next kernel may start as soon as all blocks
   of this one have, and waits here for all that this one writes, as this one does for the one before. */
CKCI_K_FN void ckci_k_take_turn()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory");
#endif
}

/* What lane ^ mask has; all lanes of a wave call it. */
CKCI_K_FN float ckci_k_shuffle_xor(float v, int32_t mask)
{
#if defined(CKCI_SIMULATOR)
    return sim_shuffle_xor(v, mask);
#elif defined(__CUDA_ARCH__)
    return __shfl_xor_sync(0xffffffffu, v, mask);
#elif defined(__HIP_DEVICE_COMPILE__)
    const int32_t from = (int32_t)threadIdx.x ^ mask;
    return ckci_k_float((uint32_t)__builtin_amdgcn_ds_bpermute(from * 4, (int)ckci_k_bits(v)));
#else
    return v + (float)mask; /* host pass: never called */
#endif
}

/* high half of a 32 x 32 bit product */
CKCI_K_FN uint32_t ckci_k_mulhi(uint32_t a, uint32_t b)
{
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
    return __umulhi(a, b);
#else
    return (uint32_t)((uint64_t)a * b >> 32);
#endif
}

CKCI_K_FN float ckci_k_half_float(uint32_t h)
{
#if defined(__HIP_DEVICE_COMPILE__)
    uint16_t bits = (uint16_t)h;
    _Float16 x;
    memcpy(&x, &bits, 2);
    return (float)x;
#elif defined(__CUDA_ARCH__)
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((uint16_t)h));
    return x;
#elif defined(CKCI_SIMULATOR)
    return ckci_half_float((uint16_t)h);
#else
    (void)h;
    return 0; /* host pass */
#endif
}

/* A number of f16 less y. AMD: in one instruction, if the compiler does not see the 1. */
CKCI_K_FN float ckci_k_half_less(uint32_t h, float y)
{
#if defined(__HIP_DEVICE_COMPILE__) && defined(__OPTIMIZE__)
    float one = 1;
    asm("" : "+s"(one));
    y = __builtin_fmaf(ckci_k_half_float(h), one, -y);
    asm("" : "+v"(y)); /* else two of them become three instructions */
    return y;
#else
    return ckci_k_half_float(h) - y;
#endif
}

CKCI_K_FN uint32_t ckci_k_float_half(float x)
{
#if defined(__HIP_DEVICE_COMPILE__)
    _Float16 h = (_Float16)x;
    uint16_t bits;
    memcpy(&bits, &h, 2);
    return bits;
#elif defined(__CUDA_ARCH__)
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
#elif defined(CKCI_SIMULATOR)
    return ckci_float_half(x);
#else
    (void)x;
    return 0;
#endif
}

/* Round to nearest even, to bfloat16; NaN stays one. */
CKCI_K_FN uint32_t ckci_k_float_bf16(float x)
{
    uint32_t u = ckci_k_bits(x);
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1)) >> 16;
    return (u & 0x7fffffffu) > 0x7f800000u ? u >> 16 | 0x40u : rounded;
}

/* The fp8 formats: mantissa bits, exponent bias, largest finite code, NaN code, whether infinity exists just
   past the largest, FNUZ. */
struct ckci_k_fp8 {
    int mant, bias, top, inf, fnuz;
};

CKCI_K_FN ckci_k_fp8 ckci_k_find_fp8(int32_t dtype)
{
    ckci_k_fp8 f;
    bool wide = dtype == CKCONV_F8E5M2 || dtype == CKCONV_F8E5M2FNUZ;
    f.fnuz = dtype == CKCONV_F8E4M3FNUZ || dtype == CKCONV_F8E5M2FNUZ;
    f.mant = wide ? 2 : 3;
    f.bias = (wide ? 15 : 7) + f.fnuz;
    f.top = f.fnuz ? 0x7f : wide ? 0x7b : 0x7e;
    f.inf = wide && !f.fnuz;
    return f;
}

CKCI_K_FN float ckci_k_fp8_float(const ckci_k_fp8 &f, uint32_t code)
{
    int rest = (int)(code & 0x7f), field = rest >> f.mant, mantissa = rest & ((1 << f.mant) - 1);
    uint32_t sign = (code & 0x80) << 24;
    /* a subnormal is a whole number of last places; f32 holds it as a normal number */
    float small = (float)mantissa * ckci_k_float((uint32_t)(128 - f.bias - f.mant) << 23);
    float x = ckci_k_float((uint32_t)(field + 127 - f.bias) << 23 | (uint32_t)mantissa << (23 - f.mant));
    x = field == 0 ? small : x;
    if (f.fnuz ? code == 0x80 : rest > f.top) {
        return ckci_k_float(f.inf && rest == f.top + 1 ? sign | 0x7f800000u : 0x7fc00000u);
    }
    return ckci_k_float(ckci_k_bits(x) | sign);
}

/* Rounded to nearest even; overflow saturates; infinity and NaN as in ckconv.h. */
CKCI_K_FN uint32_t ckci_k_float_fp8(const ckci_k_fp8 &f, float x)
{
    uint32_t u = ckci_k_bits(x), sign = (u >> 24) & 0x80, rest = u & 0x7fffffffu;
    if (rest > 0x7f800000u) {
        return f.fnuz ? 0x80u : sign | (uint32_t)(f.inf ? f.top + 3 : f.top + 1);
    }
    if (rest == 0x7f800000u) {
        return f.fnuz ? 0x80u : sign | (uint32_t)(f.inf ? f.top + 1 : f.top);
    }
    int field = (int)(rest >> 23) - 127 + f.bias;
    int shift = 23 - f.mant + (field >= 1 ? 0 : 1 - field);
    uint32_t m = (rest & 0x7fffffu) | 0x800000u, code = 0;
    if (shift <= 24 && rest >= 0x800000u) {
        code = (m + ((1u << (shift - 1)) - 1) + ((m >> shift) & 1)) >> shift;
    }
    code += field > 1 ? (uint32_t)(field - 1) << f.mant : 0;
    code = code > (uint32_t)f.top ? (uint32_t)f.top : code;
    return f.fnuz && code == 0 ? 0 : sign | code;
}

/* Bits of a float rounded to tf32; a NaN stays one without its low bits. */
CKCI_K_FN uint32_t ckci_k_tf32_bits(uint32_t u)
{
    uint32_t special = u & 0x7fffffu ? u | 0x400000u : u;
    bool finite = (u & 0x7f800000u) != 0x7f800000u;
    return finite ? (u + 0xfffu + ((u >> 13) & 1)) & ~0x1fffu : special;
}

/* Round to a compute type, result as float (ckconv.h, ckci_round_float). */
CKCI_K_FN float ckci_k_round(int32_t compute, float x)
{
    if (compute == CKCONV_F32) {
        return x;
    }
    if (compute == CKCONV_F16) {
        return ckci_k_half_float(ckci_k_float_half(x));
    }
    if (compute == CKCONV_TF32) {
        return ckci_k_float(ckci_k_tf32_bits(ckci_k_bits(x)));
    }
    if (compute == CKCONV_BF16 || compute == CKCONV_BF16X3) {
        float high = ckci_k_float(ckci_k_float_bf16(x) << 16), low = x - high;
        bool two = compute == CKCONV_BF16X3 && low - low == 0;
        return two ? high + ckci_k_float(ckci_k_float_bf16(low) << 16) : high;
    }
    if (compute >= CKCONV_F8E4M3 && compute <= CKCONV_F8E5M2FNUZ) {
        ckci_k_fp8 f = ckci_k_find_fp8(compute);
        return ckci_k_fp8_float(f, ckci_k_float_fp8(f, x));
    }
    return x;
}

/* To a whole number, to nearest even, saturating; NaN gives 0. */
CKCI_K_FN int32_t ckci_k_int(float x, float low, float high)
{
    float r = rintf(x < low ? low : x);
    return x != x ? 0 : r >= high ? (high > 127.f ? INT32_MAX : (int32_t)high) : (int32_t)r;
}

CKCI_K_FN int ckci_k_size(int32_t dtype)
{
    return dtype == CKCONV_F64                           ? 8
           : dtype == CKCONV_F32 || dtype == CKCONV_I32  ? 4
           : dtype == CKCONV_F16 || dtype == CKCONV_BF16 ? 2
                                                         : 1;
}

/* Bits of one element of at most four bytes. */
CKCI_K_FN uint32_t ckci_k_load_bits(const unsigned char *p, int size)
{
    return size == 4 ? *(const uint32_t *)p : size == 2 ? *(const uint16_t *)p : *p;
}

CKCI_K_FN float ckci_k_widen(int32_t dtype, uint32_t bits)
{
    switch (dtype) {
    case CKCONV_F32:
        return ckci_k_float(bits);
    case CKCONV_F16:
        return ckci_k_half_float(bits);
    case CKCONV_BF16:
        return ckci_k_float(bits << 16);
    case CKCONV_I32:
        return (float)(int32_t)bits;
    case CKCONV_I8:
        return (float)(int8_t)bits;
    default:
#if defined(__HIP_DEVICE_COMPILE__)
        dtype = ckci_k_afresh(dtype); /* what follows from it is computed here */
#endif
        return ckci_k_fp8_float(ckci_k_find_fp8(dtype), bits);
    }
}

/* One element, any storage type that T can hold, naturally aligned: float also reads i8 and i32, double reads
   all, int32_t reads i8 and i32. */
template <class T> CKCI_K_FN T ckci_k_load(int32_t dtype, const unsigned char *p)
{
    if constexpr (sizeof(T) == 8) {
        return dtype == CKCONV_F64 ? *(const double *)p
                                   : (double)ckci_k_widen(dtype, ckci_k_load_bits(p, ckci_k_size(dtype)));
    } else if constexpr (T(0.5f) == T(0)) {
        return dtype == CKCONV_I32 ? *(const int32_t *)p : (int32_t) * (const int8_t *)p;
    } else {
        return dtype == CKCONV_F64 ? (float)*(const double *)p
                                   : ckci_k_widen(dtype, ckci_k_load_bits(p, ckci_k_size(dtype)));
    }
}

/* One element, rounded once. */
CKCI_K_FN void ckci_k_store(int32_t dtype, unsigned char *p, float x)
{
    switch (dtype) {
    case CKCONV_F64:
        *(double *)p = (double)x;
        break;
    case CKCONV_F32:
        *(float *)p = x;
        break;
    case CKCONV_F16:
        *(uint16_t *)p = (uint16_t)ckci_k_float_half(x);
        break;
    case CKCONV_BF16:
        *(uint16_t *)p = (uint16_t)ckci_k_float_bf16(x);
        break;
    case CKCONV_I32:
        *(int32_t *)p = ckci_k_int(x, -2147483648.f, 2147483648.f);
        break;
    case CKCONV_I8:
        *p = (unsigned char)ckci_k_int(x, -128.f, 127.f);
        break;
    default:
        *p = (unsigned char)ckci_k_float_fp8(ckci_k_find_fp8(dtype), x);
    }
}

CKCI_K_FN void ckci_k_store(int32_t dtype, unsigned char *p, double x)
{
    if (dtype == CKCONV_F64) {
        *(double *)p = x;
    } else {
        ckci_k_store(dtype, p, (float)x);
    }
}

/* Quotient by a divisor of the host; n < 2^31. */
CKCI_K_FN int32_t ckci_k_divide(int32_t n, const ckci_divisor &d)
{
    return (int32_t)((ckci_k_mulhi((uint32_t)n, d.mul) + (uint32_t)n) >> d.shift);
}

/* A divisor in vector registers. */
CKCI_K_FN void ckci_k_hold(ckci_divisor &d)
{
    d.mul = (uint32_t)ckci_k_lane_afresh((int32_t)d.mul);
    d.shift = (uint32_t)ckci_k_lane_afresh((int32_t)d.shift);
}

/* Two f32, as their bits, to f16 or bf16. */
CKCI_K_FN uint32_t ckci_k_two(int32_t dtype, uint32_t low, uint32_t high)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint32_t two;
    if (dtype == CKCONV_F16) {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(ckci_k_float(high)), "f"(ckci_k_float(low)));
    } else {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(ckci_k_float(high)), "f"(ckci_k_float(low)));
    }
    return two;
#else
    float a = ckci_k_float(low), b = ckci_k_float(high);
    return dtype == CKCONV_F16 ? ckci_k_float_half(a) | ckci_k_float_half(b) << 16
                               : ckci_k_float_bf16(a) | ckci_k_float_bf16(b) << 16;
#endif
}

/* Long sums. A sum takes CKCI_K_STRETCH products one after the other at most; then it is added to the sum of
   all stretches before it, and what that addition lost to rounding begins the next stretch: the error is that
   of one stretch, however many there are. */
enum { CKCI_K_STRETCH = 256 };

/* whole + part: whole becomes the rounded sum, part what rounding took from it, exactly. The order of these
   operations is the algorithm, whatever else the compiler may reorder (-ffast-math). What is not finite loses
   nothing. */
CKCI_K_FN void ckci_k_carry(float &whole, float &part)
{
#if defined(__clang__)
#pragma clang fp reassociate(off) contract(off)
#endif
    const float sum = whole + part, back = sum - whole;
    const float lost = (whole - (sum - back)) + (part - back);
    part = (ckci_k_bits(sum) & 0x7f800000u) == 0x7f800000u ? 0 : lost;
    whole = sum;
}

/* Sums that are not so long. */
struct ckci_k_short_sums {
    CKCI_K_MEMBER void clear()
    {
    }

    template <class T> CKCI_K_MEMBER void settle(T *)
    {
    }

    template <class T> CKCI_K_MEMBER void finish(T *) const
    {
    }
};

template <int FIRST, class A, class B> struct ckci_k_either {
    typedef A type;
};
template <class A, class B> struct ckci_k_either<0, A, B> {
    typedef B type;
};

/* N sums of a thread over all stretches, beside those of the stretch that runs; f64 has bits enough for all
   of them, and int32 is exact. */
template <class T, int N> struct ckci_k_long_sums : ckci_k_short_sums {
};

template <int N> struct ckci_k_long_sums<float, N> {
    float whole[N];

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(64)
        for (int i = 0; i < N; i++) {
            whole[i] = 0;
        }
    }

    /* A stretch ends: c is what begins the next one. */
    CKCI_K_MEMBER void settle(float *c)
    {
        CKCI_K_UNROLL(64)
        for (int i = 0; i < N; i++) {
            ckci_k_carry(whole[i], c[i]);
        }
    }

    /* All stretches, into c, which holds the last one or what it left. */
    CKCI_K_MEMBER void finish(float *c) const
    {
        CKCI_K_UNROLL(64)
        for (int i = 0; i < N; i++) {
            c[i] += whole[i];
        }
    }
};


/*------------------------------------------------------------------------------------------------------------
  >>k-map
  From rows, columns and places in the reduction to elements. A slice is what one (n, g) addresses; offsets
  inside it are 32-bit when the host found that enough ("narrow").
*/
struct ckci_k_axis {
    int32_t count, taps, read0, tap0, write0;
    ckci_divisor by_count, by_taps;
};

/* In vector registers: what only lanes use of it. */
CKCI_K_FN void ckci_k_hold(ckci_k_axis &a)
{
    ckci_k_hold(a.by_count);
    ckci_k_hold(a.by_taps);
    a.read0 = ckci_k_lane_afresh(a.read0);
    a.tap0 = ckci_k_lane_afresh(a.tap0);
    a.write0 = ckci_k_lane_afresh(a.write0);
}

CKCI_K_FN void ckci_k_hold(ckci_k_axis (&axis)[3])
{
    ckci_k_hold(axis[0]);
    ckci_k_hold(axis[1]);
    ckci_k_hold(axis[2]);
}

/* Of a fwd convolution. */
CKCI_K_FN ckci_k_axis ckci_k_forward(const ckci_gpu_dim &d)
{
    ckci_k_axis a;
    a.count = d.length;
    a.taps = d.filter;
    a.read0 = -d.pad;
    a.tap0 = a.write0 = 0;
    a.by_count = d.count[0];
    a.by_taps = d.taps[0];
    return a;
}

/* Taps t of a phase satisfy t * dilation = phase + pad (modulo stride): the first one by trying, the others a
   period apart. */
CKCI_K_FN ckci_k_axis ckci_k_phase(const ckci_gpu_dim &d, int32_t phase)
{
    ckci_k_axis a = ckci_k_forward(d);
    if (d.gather_back) {
        int32_t sum = phase + d.pad, rest = sum - ckci_k_divide(sum, d.by_stride) * d.stride, tap = 0;
        const int32_t most = d.period < d.filter ? d.period : d.filter;
        CKCI_K_UNROLL(1)
        while (rest != 0 && tap < most) {
            rest -= d.slip;
            rest += rest < 0 ? d.stride : 0;
            tap++;
        }
        bool some = rest == 0 && tap < most;
        int32_t read = sum - tap * d.dilation, up = ckci_k_divide(read < 0 ? -read : read, d.by_stride);
        a.tap0 = tap;
        a.taps = some ? ckci_k_divide(d.filter - tap - 1, d.by_period) + 1 : 0;
        a.read0 = !some ? 0 : read < 0 ? -up : up;
        a.write0 = phase;
        a.count = ckci_k_divide(d.length - phase - 1, d.by_stride) + 1;
        a.by_count = a.count == (int32_t)d.count[0].d ? d.count[0] : d.count[1];
        a.by_taps = a.taps == (int32_t)d.taps[0].d ? d.taps[0] : d.taps[1];
    }
    return a;
}

CKCI_K_FN void ckci_k_find_axes(const ckci_gpu_dim dim[3], int32_t phase, ckci_k_axis axis[3])
{
    int32_t zy = ckci_k_divide(phase, dim[2].by_phases), z = ckci_k_divide(zy, dim[1].by_phases);
    axis[2] = ckci_k_phase(dim[2], phase - zy * dim[2].phases);
    axis[1] = ckci_k_phase(dim[1], zy - z * dim[1].phases);
    axis[0] = ckci_k_phase(dim[0], z);
}

/* n, z, y, x */
struct ckci_k_place {
    int32_t n, z, y, x;
};

CKCI_K_FN ckci_k_place ckci_k_decode(int32_t m, const ckci_divisor &dz, const ckci_divisor &dy,
                                     const ckci_divisor &dx)
{
    ckci_k_place q;
    int32_t rest = ckci_k_divide(m, dx);
    q.x = m - rest * (int32_t)dx.d;
    int32_t up = ckci_k_divide(rest, dy);
    q.y = rest - up * (int32_t)dy.d;
    q.n = ckci_k_divide(up, dz);
    q.z = up - q.n * (int32_t)dz.d;
    return q;
}

/* Offset of (c, z, y, x) inside a slice, in elements. */
CKCI_K_FN int64_t ckci_k_inside(const ckci_tensor &t, int32_t narrow, int32_t c, int32_t z, int32_t y,
                                int32_t x)
{
    if (narrow) {
        return (int32_t)((uint32_t)c * (uint32_t)t.stride[2] + (uint32_t)z * (uint32_t)t.stride[3] +
                         (uint32_t)y * (uint32_t)t.stride[4] + (uint32_t)x * (uint32_t)t.stride[5]);
    }
    const ckci_tensor &u = ckci_k_late(t);
    return c * u.stride[2] + z * u.stride[3] + y * u.stride[4] + x * u.stride[5];
}

CKCI_K_FN float ckci_k_exp(float x)
{
    return expf(x);
}

/* 2^x and 1 / x within 2^-22 of themselves, in an instruction: for 1 / (1 + 2^x), where that is less than
   rounding costs. */
CKCI_K_FN float ckci_k_quick_exp2(float x)
{
#if defined(__CUDA_ARCH__)
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
#else
#if defined(__HIP_DEVICE_COMPILE__)
#if __has_builtin(__builtin_amdgcn_exp2f)
    return __builtin_amdgcn_exp2f(x);
#endif
#endif
    return exp2f(x); /* some compilers for AMD have no name for the instruction */
#endif
}

CKCI_K_FN float ckci_k_quick_inverse(float x)
{
#if defined(__HIP_DEVICE_COMPILE__)
    return __builtin_amdgcn_rcpf(x);
#elif defined(__CUDA_ARCH__)
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    return inverse;
#else
    return 1 / x;
#endif
}

CKCI_K_FN float ckci_k_abs(float x)
{
    return ckci_k_float(ckci_k_bits(x) & 0x7fffffffu);
}

/* The one in the middle of three; x is a number. */
CKCI_K_FN float ckci_k_middle(float x, float y, float z)
{
#if defined(__HIP_DEVICE_COMPILE__)
    return __builtin_amdgcn_fmed3f(x, y, z);
#else
    const float least = x < y ? x : y, most = x < y ? y : x;
    return z > most ? most : z > least ? z : least;
#endif
}

/* x from 0 to 1: less is 0, more is 1, NaN is 0. A part of the instruction that computes x, on AMD. */
CKCI_K_FN float ckci_k_unit(float x)
{
#if defined(__HIP_DEVICE_COMPILE__)
    return __builtin_amdgcn_fmed3f(x, 0.f, 1.f);
#else
    return x > 0 ? x < 1 ? x : 1 : 0;
#endif
}

CKCI_K_FN float ckci_k_erf(float x)
{
    return erff(x);
}

#if defined(__HIP_DEVICE_COMPILE__) || defined(CKCI_SIMULATOR)
/* exp and erf in f64, from tables: the library's coefficients would lie in scalar registers, two for each,
   all through the loops around them, and leave too few for the rest. Errors are less than two units in the
   last place. The simulator takes them too, so that tests see them. */
template <int N> CKCI_K_FN double ckci_k_polynomial(const double (&coefficient)[N], double x)
{
    double sum = coefficient[N - 1];
    CKCI_K_UNROLL(1)
    for (int i = N - 2; i >= 0; i--) {
        sum = fma(sum, x, coefficient[i]);
    }
    return sum;
}

/* 2^n * e^rest, |rest| at most log(2) / 2 */
CKCI_K_FN double ckci_k_exp(double x)
{
    static constexpr double inverse_factorial[] = {
        1.,
        1.,
        0.5,
        0.16666666666666666,
        0.041666666666666664,
        0.008333333333333333,
        0.001388888888888889,
        0.0001984126984126984,
        2.48015873015873e-05,
        2.7557319223985893e-06,
        2.755731922398589e-07,
        2.505210838544172e-08,
        2.08767569878681e-09,
        1.6059043836821613e-10,
    };
    const double near = x > 1024 ? 1024. : x < -1024 ? -1024. : x; /* these overflow to infinity, to 0 */
    const double n = rint(near * 1.4426950408889634);
    const double rest = fma(n, -2.3190468138462996e-17, fma(n, -0.6931471805599453, near));
    const double result = ldexp(ckci_k_polynomial(inverse_factorial, rest), (int)n);
    return x != x ? x : result;
}

/* Up to 1 a polynomial in its square, times x; above, 1 - e^(-x^2) * (a polynomial in (x - 4) / (x + 4)). */
CKCI_K_FN double ckci_k_erf(double x)
{
    static constexpr double inner[] = {
        1.1283791670955126,     -0.37612638903183543,    0.11283791670945006,    -0.02686617064323777,
        0.0052239776071164225,  -0.0008548325975389692,  0.00012055294904839707, -1.492473690741966e-05,
        1.6447424703317362e-06, -1.6208483801871705e-07, 1.3720064546777686e-08, -7.795898827002142e-10};
    static constexpr double outer[] = {
        0.13699945762506138,     -0.2590680487601718,    0.21871967891826713,    -0.16425781669724077,
        0.10896317739865745,     -0.0631078156473828,    0.03129905651583277,    -0.012843945687071453,
        0.004060264660151152,    -0.0007991322076390439, -2.179568166418796e-05, 7.895694927713207e-05,
        -2.2294712208280907e-05, -9.380004337296444e-07, 4.460009108363892e-06,  7.423164251116965e-07};
    const double size = fabs(x), near = size < 6 ? size : 6.; /* from 6 on it is 1 */
    double result = x * ckci_k_polynomial(inner, x * x);
    if (size >= 1) {
        const double rest = ckci_k_exp(-near * near) * ckci_k_polynomial(outer, (near - 4) / (near + 4));
        result = x < 0 ? rest - 1 : 1 - rest;
    }
    return result;
}
#else
CKCI_K_FN double ckci_k_exp(double x)
{
    return exp(x);
}

CKCI_K_FN double ckci_k_erf(double x)
{
    return erf(x);
}
#endif

/* Element operations (ckconv.h, >>types), with GELU or without. d: D0; those that add all D tensors have them
   in x already. */
template <bool GELU = true, class T> CKCI_K_FN T ckci_k_element(const ckconv_element_op &op, T x, T d)
{
    T alpha = (T)op.alpha, beta = (T)op.beta;
    switch (op.kind) {
    case CKCONV_SCALE:
        return alpha * x;
    case CKCONV_CLAMP:
        return x < alpha ? alpha : x > beta ? beta : x;
    case CKCONV_SIGMOID:
    case CKCONV_SILU:
        return (op.kind == CKCONV_SILU ? x : (T)1) / (1 + ckci_k_exp(-x));
    case CKCONV_GELU:
        return GELU ? x / 2 * (1 + ckci_k_erf(x * (T)0.70710678118654752440)) : x;
    case CKCONV_BILINEAR:
        return alpha * x + beta * d;
    case CKCONV_SCALE_ADD:
        return alpha * x + d;
    case CKCONV_RELU:
    case CKCONV_BIAS_RELU:
    case CKCONV_BIAS_RESIDUAL_RELU:
    case CKCONV_ADD_RELU:
        return x < 0 ? (T)0 : x;
    default:
        return x;
    }
}

/* A read value that is not a plain conversion: operation, then rounding to the compute type. */
CKCI_K_FN float ckci_k_prepare(const ckci_tensor &tensor, float x)
{
    const ckci_tensor &t = ckci_k_late(tensor);
    return ckci_k_round(t.compute, ckci_k_element(t.op, x, 0.f));
}

CKCI_K_FN double ckci_k_prepare(const ckci_tensor &tensor, double x)
{
    const ckci_tensor &t = ckci_k_late(tensor);
    return ckci_k_element(t.op, x, 0.);
}

CKCI_K_FN int32_t ckci_k_prepare(const ckci_tensor &tensor, int32_t x)
{
    const ckci_tensor &t = ckci_k_late(tensor);
    return ckci_k_int(ckci_k_element(t.op, (float)x, 0.f), -128.f, 127.f);
}

template <class T> CKCI_K_FN T ckci_k_value(const ckci_tensor &t, int64_t at)
{
    T x = ckci_k_load<T>(t.dtype, t.p + at * ckci_k_size(t.dtype));
    return t.plain ? x : ckci_k_prepare(t, x);
}

/* The arithmetic of epilogues: float for int32 sums. */
template <class T> struct ckci_k_real {
    typedef float type;
};
template <> struct ckci_k_real<double> {
    typedef double type;
};

CKCI_K_FN float ckci_k_fma(float a, float b, float c)
{
    return fmaf(a, b, c);
}

CKCI_K_FN double ckci_k_fma(double a, double b, double c)
{
    return fma(a, b, c);
}

/* A product that is rounded by itself, not as a part of a fused multiply-add. */
CKCI_K_FN float ckci_k_product(float a, float b)
{
#if defined(__CUDA_ARCH__)
    return __fmul_rn(a, b);
#else
#if defined(__clang__)
#pragma clang fp contract(off)
#endif
    return a * b;
#endif
}

CKCI_K_FN double ckci_k_product(double a, double b)
{
#if defined(__CUDA_ARCH__)
    return __dmul_rn(a, b);
#else
#if defined(__clang__)
#pragma clang fp contract(off)
#endif
    return a * b;
#endif
}

/* int32 sums wrap modulo 2^32, everywhere alike */
CKCI_K_FN int32_t ckci_k_fma(int32_t a, int32_t b, int32_t c)
{
    return (int32_t)((uint32_t)a * (uint32_t)b + (uint32_t)c);
}

/* The epilogue of one output at logical (g, n, c, z, y, w), up to its rounding to storage. */
template <class T>
CKCI_K_FN T ckci_k_finish(const ckci_gpu_target &target, T x, int32_t g, int32_t n, int32_t c, int32_t z,
                          int32_t y, int32_t w)
{
    const ckci_gpu_target &o = ckci_k_late(target);
    constexpr bool whole = T(0.5f) == T(0);
    typedef typename ckci_k_real<T>::type real;
    T result = x;
    if (o.t.op.kind != CKCONV_PASS || o.scale || o.shift) {
        real v = (real)x, d = 0;
        int64_t channel = g * o.t.len[2] + c;
        if (o.scale) {
            v *= ((const real *)o.scale)[channel];
        }
        if (o.shift) {
            v += ((const real *)o.shift)[channel];
        }
        /* D tensors one after the other, so that this code stands once: sums take all, the rest D0 */
        bool sums = o.t.op.kind >= CKCONV_BIAS;
        CKCI_K_UNROLL(1)
        for (int j = 0; j < o.num_d; j++) {
            const ckci_tensor &t = o.d[j];
            int64_t at = g * t.stride[0] + n * t.stride[1] + c * t.stride[2] + z * t.stride[3] +
                         y * t.stride[4] + w * t.stride[5];
            real value = ckci_k_load<real>(t.dtype, t.p + at * ckci_k_size(t.dtype));
            v = sums ? v + value : v;
            d = j == 0 ? value : d;
        }
        v = ckci_k_element(o.t.op, v, d);
        if constexpr (whole) {
            result = ckci_k_int(v, -2147483648.f, 2147483648.f);
        } else {
            result = v;
        }
    }
    if constexpr (whole) {
        return o.compute != CKCONV_I8 ? result : result < -128 ? -128 : result > 127 ? 127 : result;
    } else if constexpr (sizeof(T) == 4) {
        return o.compute ? ckci_k_round(o.compute, result) : result;
    } else {
        return result;
    }
}

template <class T>
CKCI_K_FN void ckci_k_put(const ckci_gpu_target &target, T x, int32_t g, int32_t n, int32_t c, int32_t z,
                          int32_t y, int32_t w)
{
    const ckci_gpu_target &o = ckci_k_late(target);
    int64_t at = g * o.t.stride[0] + n * o.t.stride[1] + c * o.t.stride[2] + z * o.t.stride[3] +
                 y * o.t.stride[4] + w * o.t.stride[5];
    unsigned char *p = o.t.p + at * ckci_k_size(o.t.dtype);
    if constexpr (T(0.5f) != T(0)) {
        ckci_k_store(o.t.dtype, p, x);
    } else if (o.t.dtype == CKCONV_I32) {
        *(int32_t *)p = x;
    } else {
        *p = (unsigned char)(x < -128 ? -128 : x > 127 ? 127 : x);
    }
}

/* ckci_k_finish where epilogues are not what takes the time: a call on NVIDIA, lest it take registers from
   the rest. */
template <class T>
CKCI_K_APART T ckci_k_finish_apart(const ckci_gpu_target &o, T x, int32_t g, int32_t n, int32_t c, int32_t z,
                                   int32_t y, int32_t w)
{
    return ckci_k_finish<T>(o, x, g, n, c, z, y, w);
}

template <class T>
CKCI_K_FN void ckci_k_write(const ckci_gpu_target &o, T x, int32_t g, int32_t n, int32_t c, int32_t z,
                            int32_t y, int32_t w)
{
    ckci_k_put<T>(o, ckci_k_finish<T>(o, x, g, n, c, z, y, w), g, n, c, z, y, w);
}


/*------------------------------------------------------------------------------------------------------------
  >>k-gemm
  The tile loop. A block of THREADS threads computes S x S sums over a reduction taken KT at a time. Both
  operands pass through LDS as [place in the reduction][row or column], two buffers each: while the block
  multiplies from one, every thread has its four loads of the next in flight and stores them into the other;
  one barrier per step. Each thread fetches four places of one row and of one column and keeps raw bits
  until it stores them, so that conversions do not wait for memory. Thread (tx, ty) owns R x R sums: rows h
  * S/H + 4 * ty + i, columns likewise, so that its operands are read four at a time. Products are added in
  the order of the reduction: the result does not depend on the tile's place.
*/
template <class T> struct ckci_k_word {
    typedef uint32_t type;
};
template <> struct ckci_k_word<double> {
    typedef double type;
};

/* Four places of the reduction in one row or column, as they lie in memory. mask: which of them exist. */
template <class T> struct ckci_k_slots {
    typename ckci_k_word<T>::type raw[4];
    uint32_t mask;

    CKCI_K_MEMBER void clear()
    {
        raw[0] = raw[1] = raw[2] = raw[3] = 0;
        mask = 0;
    }

    CKCI_K_MEMBER void fetch(const ckci_tensor &t, int64_t at, int i)
    {
        if constexpr (sizeof(T) == 8) {
            raw[i] = ((const double *)t.p)[at];
        } else {
            int size = ckci_k_size(t.dtype);
            raw[i] = ckci_k_load_bits(t.p + at * size, size);
        }
        mask |= 1u << i;
    }

    /* four neighbours, aligned to their size together (16 bytes at most) */
    CKCI_K_MEMBER void fetch4(const ckci_tensor &t, int64_t at)
    {
        if constexpr (sizeof(T) == 8) {
            const ckci_k_double2 *p = (const ckci_k_double2 *)(t.p + at * 8);
            ckci_k_double2 low = p[0], high = p[1];
            raw[0] = low.x;
            raw[1] = low.y;
            raw[2] = high.x;
            raw[3] = high.y;
        } else {
            int size = ckci_k_size(t.dtype);
            const unsigned char *p = t.p + at * size;
            if (size == 4) {
                ckci_k_uint4 v = *(const ckci_k_uint4 *)p;
                raw[0] = v.x;
                raw[1] = v.y;
                raw[2] = v.z;
                raw[3] = v.w;
            } else if (size == 2) {
                ckci_k_uint2 v = *(const ckci_k_uint2 *)p;
                raw[0] = v.x & 0xffffu;
                raw[1] = v.x >> 16;
                raw[2] = v.y & 0xffffu;
                raw[3] = v.y >> 16;
            } else {
                uint32_t v = *(const uint32_t *)p;
                raw[0] = v & 0xffu;
                raw[1] = v >> 8 & 0xffu;
                raw[2] = v >> 16 & 0xffu;
                raw[3] = v >> 24;
            }
        }
        mask = 15;
    }

    /* Into LDS, `step` rows of `ld` apart; places that do not exist as 0. Values that need more than a
       conversion are taken back once more: that code stands once, not four times. */
    CKCI_K_MEMBER void store(const ckci_tensor &t, T *p, int ld) const
    {
        T v[4];
        if constexpr (sizeof(T) == 8) {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                v[i] = raw[i];
            }
        } else if constexpr (T(0.5f) == T(0)) {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                v[i] = (int8_t)raw[i];
            }
        } else if (t.dtype == CKCONV_F32) {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                v[i] = ckci_k_float(raw[i]);
            }
        } else if (t.dtype == CKCONV_F16) {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                v[i] = ckci_k_half_float(raw[i]);
            }
        } else if (t.dtype == CKCONV_BF16) {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                v[i] = ckci_k_float(raw[i] << 16);
            }
        } else {
            ckci_k_fp8 f = ckci_k_find_fp8(t.dtype);
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                v[i] = ckci_k_fp8_float(f, raw[i]);
            }
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            p[i * ld] = v[i];
        }
        if (!t.plain) {
            CKCI_K_UNROLL(1)
            for (int i = 0; i < 4; i++) {
                if (mask >> i & 1) {
                    p[i * ld] = ckci_k_prepare(t, p[i * ld]);
                }
            }
        }
    }
};

template <class T, int S, int KT> struct ckci_k_tile {
    T a[2][KT][S + 4], b[2][KT][S + 4];
};

/* Which row (or column) and places of each step a thread fetches. */
struct ckci_k_share {
    int row, first, step;
};

template <int S, int THREADS> CKCI_K_FN ckci_k_share ckci_k_make_share(bool along)
{
    constexpr int quads = THREADS / S; /* threads of a row: KT / 4 */
    int t = (int)threadIdx.x;
    ckci_k_share s;
    s.row = along ? t / quads : t % S;
    s.first = along ? t % quads * 4 : t / S;
    s.step = along ? 1 : quads;
    return s;
}

/* Where registers have no room for a thread's long sums, they lie where they are written in the end, in the
   part of the workspace or (p.o_vec) in dw that is dense: there, each belongs to one thread all along.
   Stretches are longer, as this takes some time. Without such a place the planner leaves no sum to be
   long. */
enum { CKCI_K_KEPT_STRETCH = CKCI_GPU_CHAIN };

/* A block of bwd_weight: its first row and column of a group, and the positions of its part. */
struct ckci_k_weight_block {
    int32_t row, column, group, part, from, to;

    CKCI_K_MEMBER int32_t positions() const
    {
        return to - from;
    }
};

/* Found again each time. */
CKCI_K_FN ckci_k_weight_block ckci_k_find_weight_block(const ckci_gpu_conv &conv, int32_t tile_m,
                                                       int32_t tile_n)
{
    const ckci_gpu_conv &p = ckci_k_again(conv);
    ckci_k_weight_block b;
    const int32_t work = ckci_k_uniform_again((int32_t)blockIdx.x), rest = ckci_k_divide(work, p.by_tiles_n);
    const int32_t up = ckci_k_divide(rest, p.by_tiles_m);
    b.column = (work - rest * p.tiles_n) * tile_n;
    b.row = (rest - up * p.tiles_m) * tile_m;
    b.part = ckci_k_divide(up, p.by_phases);
    b.group = up - b.part * p.g;
    b.from = b.part * p.part + (b.part < p.part_rest ? b.part : p.part_rest);
    b.to = b.from + p.part + (b.part < p.part_rest ? 1 : 0);
    return b;
}

/* Of so many positions, those that are left after a stretch, of which threads share `slices` equal shares. */
CKCI_K_FN int32_t ckci_k_after_stretch(const ckci_gpu_conv &p, int32_t left, int32_t slices)
{
    const bool place = p.o.partial != nullptr || p.o_vec;
    const int32_t stretch = CKCI_K_KEPT_STRETCH * slices;
    return place && left > stretch ? left - stretch : 0;
}

/* A stretch ends: a thread's RM x RN sums c, of quads of rows and columns that are rows_apart and
   columns_apart from each other, the first of them at row, column of the block. fresh: nothing is there yet;
   end: all of it goes into c. ROWS: rows whose loads are under way together; the others move up, as indices
   known at compile time keep c in registers. join(c): the first rows become the sums of all threads that
   share them, if this one has their place. */
template <int RM, int RN, int ROWS, class Join>
CKCI_K_FN void ckci_k_settle_there(const ckci_gpu_conv &conv, const ckci_k_weight_block &b, int32_t row,
                                   int32_t column, int32_t rows_apart, int32_t columns_apart, float *c,
                                   bool fresh, bool end, const Join &join)
{
    const ckci_gpu_conv &p = ckci_k_again(conv);
    const int32_t columns_left = p.columns - b.column - column;
    CKCI_K_UNROLL(1)
    for (int32_t q = 0; q < RM; q += ROWS) {
        const int32_t at = b.row + row + q / 4 * rows_apart + q % 4, rows_left = p.rows - at;
        const int64_t filter = ((int64_t)b.part * p.g + b.group) * p.rows + at;
        float *place = (float *)(p.o.partial ? p.o.partial : p.o.t.p);
        place += filter * p.columns + b.column + column;
        const bool mine = join(c);
        float whole[ROWS * RN], next[ROWS * RN];
        CKCI_K_UNROLL(64)
        for (int i = 0; i < ROWS * RN; i++) {
            const int32_t j = i % RN, x = j / 4 * columns_apart + j % 4;
            const bool there = mine && !fresh && i / RN < rows_left && x < columns_left;
            whole[i] = there ? place[(int64_t)(i / RN) * p.columns + x] : 0;
        }
        CKCI_K_UNROLL(64)
        for (int i = 0; i < ROWS * RN; i++) {
            const int32_t j = i % RN, x = j / 4 * columns_apart + j % 4;
            next[i] = mine ? c[i] : 0;
            ckci_k_carry(whole[i], next[i]);
            if (end) {
                next[i] += whole[i];
            } else if (mine && i / RN < rows_left && x < columns_left) {
                place[(int64_t)(i / RN) * p.columns + x] = whole[i];
            }
        }
        CKCI_K_UNROLL(128)
        for (int i = 0; i < RM * RN; i++) {
            c[i] = i < (RM - ROWS) * RN ? c[(i + ROWS * RN) % (RM * RN)] : next[i % (ROWS * RN)];
        }
    }
}

/* The sums of one thread. */
template <class T, int S, int KT, int THREADS> struct ckci_k_sums {
    static constexpr int R = S == 128 ? 8 : 4, H = R / 4, SIDE = S / R;
#if defined(__HIP_DEVICE_COMPILE__) /* int32: 64-bit multiply-adds, which unrolled take twice the registers */
    static constexpr int STEPS = T(0.5f) == T(0) ? 1 : 4;
#else
    static constexpr int STEPS = 4;
#endif
    static_assert(SIDE * SIDE == THREADS && S * KT == 4 * THREADS, "a thread owns R x R sums and four loads");
    T c[R][R];

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(R)
        for (int i = 0; i < R; i++) {
            CKCI_K_UNROLL(R)
            for (int j = 0; j < R; j++) {
                c[i][j] = 0;
            }
        }
    }

    CKCI_K_MEMBER void multiply(const ckci_k_tile<T, S, KT> &m, int buffer)
    {
        int tx = (int)threadIdx.x % SIDE, ty = (int)threadIdx.x / SIDE;
        CKCI_K_UNROLL(STEPS)
        for (int k = 0; k < KT; k++) {
            T a[R], b[R];
            CKCI_K_UNROLL(R)
            for (int i = 0; i < R; i++) {
                a[i] = m.a[buffer][k][i / 4 * (S / H) + 4 * ty + i % 4];
                b[i] = m.b[buffer][k][i / 4 * (S / H) + 4 * tx + i % 4];
            }
            CKCI_K_UNROLL(R)
            for (int i = 0; i < R; i++) {
                CKCI_K_UNROLL(R)
                for (int j = 0; j < R; j++) {
                    c[i][j] = ckci_k_fma(a[i], b[j], c[i][j]);
                }
            }
        }
    }

    /* Adds to the sums. a, b: loaders with fetch(first place of the step) and store(buffer). One loop also
       for the first tile and for the last product, so that each part of it stands once. whole: takes the sums
       of stretches. */
    template <class A, class B, class Whole>
    CKCI_K_MEMBER void add(ckci_k_tile<T, S, KT> &m, A &a, B &b, int32_t from, int32_t to, Whole &whole)
    {
        const int32_t steps = from < to ? (to - from - 1) / KT + 1 : -1;
        CKCI_K_UNROLL(1)
        for (int32_t step = 0; step <= steps; step++) {
            const int buffer = (int)(step & 1);
            if (step < steps) {
                a.fetch(from + step * KT);
                b.fetch(from + step * KT);
            }
            if (step > 0) {
                multiply(m, buffer ^ 1);
                if (step % (CKCI_K_STRETCH / KT) == 0) {
                    whole.settle(&c[0][0]);
                }
            }
            if (step < steps) {
                a.store(&m.a[buffer][0][0]);
                b.store(&m.b[buffer][0][0]);
            }
            __syncthreads();
        }
    }

    template <class A, class B>
    CKCI_K_MEMBER void run(ckci_k_tile<T, S, KT> &m, A &a, B &b, int32_t from, int32_t to)
    {
        ckci_k_short_sums none;
        clear();
        add(m, a, b, from, to, none);
    }

    /* A stretch ends. */
    CKCI_K_MEMBER void settle(const ckci_gpu_conv &p, const ckci_k_weight_block &b, bool fresh, bool end)
    {
        const int32_t t = ckci_k_again((int32_t)threadIdx.x);
        ckci_k_settle_there<R, R, 1>(p, b, 4 * (t / SIDE), 4 * (t % SIDE), S / H, S / H, &c[0][0], fresh, end,
                                     [](float *) { return true; });
    }

    /* Hand every sum to out(row, column, sum), 1/R of the rows at a time through LDS, so that the code of the
       epilogue stands once and neighbouring threads write neighbours: columns, or rows when along_rows. */
    template <class F> CKCI_K_MEMBER void finish(ckci_k_tile<T, S, KT> &m, bool along_rows, const F &out)
    {
        T *strip = &m.a[0][0][0]; /* [SIDE rows][S + 1] */
        int tx = (int)threadIdx.x % SIDE, ty = (int)threadIdx.x / SIDE;
        CKCI_K_UNROLL(1)
        for (int s = 0; s < R; s++) {
            __syncthreads();
            CKCI_K_UNROLL(R)
            for (int j = 0; j < R; j++) {
                strip[ty * (S + 1) + j / 4 * (S / H) + 4 * tx + j % 4] = c[0][j];
                CKCI_K_UNROLL(R)
                for (int i = 0; i + 1 < R; i++) {
                    c[i][j] = c[i + 1][j]; /* an index known at compile time keeps c in registers */
                }
            }
            __syncthreads();
            CKCI_K_UNROLL(1)
            for (int e = (int)threadIdx.x; e < SIDE * S; e += THREADS) {
                int r = along_rows ? e % SIDE : e / S, column = along_rows ? e / SIDE : e % S;
                out(s / 4 * (S / H) + 4 * r + s % 4, column, strip[r * (S + 1) + column]);
            }
        }
    }
};


/*------------------------------------------------------------------------------------------------------------
  >>k-gather
  fwd and bwd_data, one kernel: out(row, column) = sum over taps and channels of a(position of the row, tap,
  channel) * weight(column, tap, channel). Rows are the written positions of one phase (bwd_data with a stride
  has one phase for each input position modulo the stride, each with its own taps; all phases are in one
  launch), columns the written channels of a group. A block owns S x S outputs of one group and phase; padding
  and tails enter LDS as zeros, so nothing is masked in the loop. Pixels that no tap reaches have an empty
  reduction and still get their epilogue.
*/

/* The block's place: columns fastest, then rows, phases, groups. */
struct ckci_k_block {
    int32_t column, row, group;
    ckci_k_axis axis[3];
};

CKCI_K_FN ckci_k_block ckci_k_block_of(const ckci_gpu_conv &a, int32_t work, int tile_m, int tile_n)
{
    ckci_k_block b;
    int32_t rest = ckci_k_divide(work, a.by_tiles_n);
    b.column = (work - rest * a.tiles_n) * tile_n;
    int32_t up = ckci_k_divide(rest, a.by_tiles_m);
    b.row = (rest - up * a.tiles_m) * tile_m;
    b.group = ckci_k_divide(up, a.by_phases);
    ckci_k_find_axes(a.dim, up - b.group * a.phases, b.axis);
    return b;
}

CKCI_K_FN ckci_k_block ckci_k_find_block(const ckci_gpu_conv &a, int tile_m, int tile_n)
{
    return ckci_k_block_of(a, (int32_t)blockIdx.x, tile_m, tile_n);
}

/* Row m of a phase; rows past the end keep n = a.n. */
CKCI_K_FN ckci_k_place ckci_k_row(const ckci_k_axis axis[3], int32_t m)
{
    return ckci_k_decode(m, axis[0].by_count, axis[1].by_count, axis[2].by_count);
}

/* Place k of the reduction. */
struct ckci_k_tap {
    int32_t c, z, y, x;
};

CKCI_K_FN ckci_k_tap ckci_k_find_tap(const ckci_gpu_conv &a, const ckci_k_axis axis[3], int32_t k)
{
    ckci_k_tap t;
    int32_t tap = ckci_k_divide(k, a.by_red);
    t.c = k - tap * a.red;
    int32_t rest = ckci_k_divide(tap, axis[2].by_taps);
    t.x = tap - rest * axis[2].taps;
    t.z = ckci_k_divide(rest, axis[1].by_taps);
    t.y = rest - t.z * axis[1].taps;
    return t;
}

/* Where tap number `tap` of a whole filter lies; c is 0. */
CKCI_K_FN ckci_k_tap ckci_k_split_tap(const ckci_gpu_dim dim[3], int32_t tap)
{
    ckci_k_tap t;
    int32_t rest = ckci_k_divide(tap, dim[2].taps[0]);
    t.c = 0;
    t.x = tap - rest * dim[2].filter;
    t.z = ckci_k_divide(rest, dim[1].taps[0]);
    t.y = rest - t.z * dim[1].filter;
    return t;
}

/* Tap and channel of a weight gradient's column, [tap][channel]. */
CKCI_K_FN ckci_k_tap ckci_k_split_column(const ckci_gpu_conv &p, int32_t column)
{
    int32_t tap = ckci_k_divide(column, p.by_red);
    ckci_k_tap t = ckci_k_split_tap(p.dim, tap);
    t.c = column - tap * p.red;
    return t;
}

/* Offset of a tap and channel of the weights inside (group, column). */
CKCI_K_FN int64_t ckci_k_weight_at(const ckci_gpu_conv &a, const ckci_k_axis axis[3], const ckci_k_tap &t)
{
    const int64_t *s = a.b.stride;
    int32_t z = axis[0].tap0 + t.z * a.dim[0].period, y = axis[1].tap0 + t.y * a.dim[1].period,
            x = axis[2].tap0 + t.x * a.dim[2].period;
    if (a.b_narrow) {
        return (int32_t)((uint32_t)t.c * (uint32_t)a.b_red + (uint32_t)z * (uint32_t)s[3] +
                         (uint32_t)y * (uint32_t)s[4] + (uint32_t)x * (uint32_t)s[5]);
    }
    const ckci_tensor &wide = ckci_k_late(a.b);
    return t.c * a.b_red + z * wide.stride[3] + y * wide.stride[4] + x * wide.stride[5];
}

template <class T, int S, int KT, int THREADS> struct ckci_k_gather_a {
    const ckci_gpu_conv &p;
    const ckci_k_axis *axis;
    ckci_k_share s;
    ckci_k_slots<T> slots;
    int64_t base;
    int32_t z0, y0, x0, end;
    bool inside;

    CKCI_K_MEMBER ckci_k_gather_a(const ckci_gpu_conv &conv, const ckci_k_block &b, int32_t reduction)
        : p(conv), axis(b.axis)
    {
        s = ckci_k_make_share<S, THREADS>(p.a_along != 0);
        ckci_k_place q = ckci_k_row(axis, b.row + s.row);
        inside = q.n < p.n;
        base = b.group * p.a.stride[0] + q.n * p.a.stride[1];
        z0 = q.z * p.dim[0].read_step + axis[0].read0;
        y0 = q.y * p.dim[1].read_step + axis[1].read0;
        x0 = q.x * p.dim[2].read_step + axis[2].read0;
        end = reduction;
    }

    CKCI_K_MEMBER void one(int32_t k, int i)
    {
        ckci_k_tap t = ckci_k_find_tap(p, axis, k);
        int32_t z = z0 + t.z * p.dim[0].read_tap, y = y0 + t.y * p.dim[1].read_tap,
                x = x0 + t.x * p.dim[2].read_tap;
        if (inside && k < end && (uint32_t)z < (uint32_t)p.dim[0].read_len &&
            (uint32_t)y < (uint32_t)p.dim[1].read_len && (uint32_t)x < (uint32_t)p.dim[2].read_len) {
            int64_t at = base + ckci_k_inside(p.a, p.a_narrow, t.c, z, y, x);
            if (i < 0) {
                slots.fetch4(p.a, at);
            } else {
                slots.fetch(p.a, at, i);
            }
        }
    }

    CKCI_K_MEMBER void fetch(int32_t k0)
    {
        slots.clear();
        if (p.a_vec) {
            one(k0 + s.first, -1);
        } else {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                one(k0 + s.first + i * s.step, i);
            }
        }
    }

    CKCI_K_MEMBER void store(T *m) const
    {
        slots.store(p.a, m + s.first * (S + 4) + s.row, s.step * (S + 4));
    }
};

template <class T, int S, int KT, int THREADS> struct ckci_k_gather_b {
    const ckci_gpu_conv &p;
    const ckci_k_axis *axis;
    ckci_k_share s;
    ckci_k_slots<T> slots;
    int64_t base;
    int32_t end;
    bool inside;

    CKCI_K_MEMBER ckci_k_gather_b(const ckci_gpu_conv &conv, const ckci_k_block &b, int32_t reduction)
        : p(conv), axis(b.axis)
    {
        s = ckci_k_make_share<S, THREADS>(p.b_along != 0);
        inside = b.column + s.row < p.columns;
        base = b.group * p.b.stride[0] + (b.column + s.row) * p.b_column;
        end = reduction;
    }

    CKCI_K_MEMBER void one(int32_t k, int i)
    {
        if (inside && k < end) {
            int64_t at = base + ckci_k_weight_at(p, axis, ckci_k_find_tap(p, axis, k));
            if (i < 0) {
                slots.fetch4(p.b, at);
            } else {
                slots.fetch(p.b, at, i);
            }
        }
    }

    CKCI_K_MEMBER void fetch(int32_t k0)
    {
        slots.clear();
        if (p.b_vec) {
            one(k0 + s.first, -1);
        } else {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                one(k0 + s.first + i * s.step, i);
            }
        }
    }

    CKCI_K_MEMBER void store(T *m) const
    {
        slots.store(p.b, m + s.first * (S + 4) + s.row, s.step * (S + 4));
    }
};

CKCI_K_FN int32_t ckci_k_reduction(const ckci_gpu_conv &p, const ckci_k_axis axis[3])
{
    return p.red * axis[0].taps * axis[1].taps * axis[2].taps;
}

/* Sums of a block to the epilogue. The block's place is computed once more: it need not live in scalar
   registers through the loop. */
template <class T, int S, int KT, int THREADS>
CKCI_K_FN void ckci_k_finish_block(const ckci_gpu_conv &conv, ckci_k_tile<T, S, KT> &m,
                                   ckci_k_sums<T, S, KT, THREADS> &sums)
{
    const ckci_gpu_conv &p = ckci_k_late(conv);
    ckci_k_block b = ckci_k_find_block(p, S, S);
    sums.finish(m, p.o.t.stride[5] < p.o.t.stride[2], [&](int row, int column, T sum) {
        ckci_k_place q = ckci_k_row(b.axis, b.row + row);
        if (q.n < p.n && b.column + column < p.columns) {
            ckci_k_write<T>(
                p.o, sum, b.group, q.n, b.column + column, b.axis[0].write0 + q.z * p.dim[0].write_step,
                b.axis[1].write0 + q.y * p.dim[1].write_step, b.axis[2].write0 + q.x * p.dim[2].write_step);
        }
    });
}

template <class T, int S, int KT, int THREADS> struct ckci_k_gather {
    typedef ckci_k_tile<T, S, KT> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        ckci_k_block b = ckci_k_find_block(p, S, S);
        int64_t rows = (int64_t)p.n * b.axis[0].count * b.axis[1].count * b.axis[2].count;
        if (b.row >= rows) {
            return; /* a phase with fewer positions than the first one; the whole block */
        }
        int32_t reduction = ckci_k_reduction(p, b.axis);
        ckci_k_gather_a<T, S, KT, THREADS> left(p, b, reduction);
        ckci_k_gather_b<T, S, KT, THREADS> right(p, b, reduction);
        ckci_k_sums<T, S, KT, THREADS> sums;
        sums.run(m, left, right, 0, reduction);
        ckci_k_finish_block<T, S, KT, THREADS>(p, m, sums);
    }
};


/*------------------------------------------------------------------------------------------------------------
  >>k-weight
  bwd_weight: dw(k, (tap, c)) = sum over positions of dout(position, k) * in(position and tap, c). A block
  owns S output channels and S columns of one group, over one part of the positions. One part: the sums go
  to the epilogue. Several: they go to workspace as they are, and the reduce kernel adds the parts in their
  order.
*/
template <class T, int S, int KT, int THREADS> struct ckci_k_weight_a {
    const ckci_gpu_conv &p;
    ckci_k_share s;
    ckci_k_slots<T> slots;
    int64_t base;
    int32_t end;
    bool inside;

    CKCI_K_MEMBER ckci_k_weight_a(const ckci_gpu_conv &conv, int32_t group, int32_t row0, int32_t to)
        : p(conv)
    {
        s = ckci_k_make_share<S, THREADS>(p.a_along != 0);
        inside = row0 + s.row < p.rows;
        base = group * p.a.stride[0] + (row0 + s.row) * p.a.stride[2];
        end = to;
    }

    CKCI_K_MEMBER void fetch(int32_t k0)
    {
        slots.clear();
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            int32_t k = k0 + s.first + i * s.step;
            if (inside && k < end) {
                ckci_k_place q = ckci_k_decode(k, p.dim[0].count[0], p.dim[1].count[0], p.dim[2].count[0]);
                slots.fetch(p.a,
                            base + q.n * p.a.stride[1] + ckci_k_inside(p.a, p.a_narrow, 0, q.z, q.y, q.x), i);
            }
        }
    }

    CKCI_K_MEMBER void store(T *m) const
    {
        slots.store(p.a, m + s.first * (S + 4) + s.row, s.step * (S + 4));
    }
};

template <class T, int S, int KT, int THREADS> struct ckci_k_weight_b {
    const ckci_gpu_conv &p;
    ckci_k_share s;
    ckci_k_slots<T> slots;
    int64_t base;
    int32_t z0, y0, x0, end;
    bool inside;

    CKCI_K_MEMBER ckci_k_weight_b(const ckci_gpu_conv &conv, int32_t group, int32_t column0, int32_t to)
        : p(conv)
    {
        s = ckci_k_make_share<S, THREADS>(p.b_along != 0);
        int32_t column = column0 + s.row;
        ckci_k_tap tap = ckci_k_split_column(p, column);
        inside = column < p.columns;
        base = group * p.b.stride[0] + tap.c * p.b.stride[2];
        x0 = tap.x * p.dim[2].dilation - p.dim[2].pad;
        y0 = tap.y * p.dim[1].dilation - p.dim[1].pad;
        z0 = tap.z * p.dim[0].dilation - p.dim[0].pad;
        end = to;
    }

    CKCI_K_MEMBER void fetch(int32_t k0)
    {
        slots.clear();
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            int32_t k = k0 + s.first + i * s.step;
            ckci_k_place q = ckci_k_decode(k, p.dim[0].count[0], p.dim[1].count[0], p.dim[2].count[0]);
            int32_t z = z0 + q.z * p.dim[0].stride, y = y0 + q.y * p.dim[1].stride,
                    x = x0 + q.x * p.dim[2].stride;
            if (inside && k < end && (uint32_t)z < (uint32_t)p.dim[0].read_len &&
                (uint32_t)y < (uint32_t)p.dim[1].read_len && (uint32_t)x < (uint32_t)p.dim[2].read_len) {
                slots.fetch(p.b, base + q.n * p.b.stride[1] + ckci_k_inside(p.b, p.b_narrow, 0, z, y, x), i);
            }
        }
    }

    CKCI_K_MEMBER void store(T *m) const
    {
        slots.store(p.b, m + s.first * (S + 4) + s.row, s.step * (S + 4));
    }
};

/* dw(group, k, column): to the epilogue, or into a part of the workspace, [part][g][k][tap][c]. MERGE: groups
   may be merged; then what couples two of them is dropped. more: the part holds the sum of others. */
template <class T, int MERGE = 0>
CKCI_K_FN void ckci_k_write_weight(const ckci_gpu_conv &p, T sum, int32_t part, int32_t group, int32_t k,
                                   int32_t column, bool more = false)
{
    const ckci_k_tap tap = ckci_k_split_column(p, column);
    int32_t c = tap.c, x = tap.x;
    int32_t groups = p.g, rows = p.rows, columns = p.columns;
    if (MERGE && p.merge > 0) {
        int32_t wide = p.dim[2].filter, per_c = (int32_t)p.by_one_c.d;
        if (p.filter_x) {
            wide = p.filter_x;
            x = 2 * x + (c >> 2) - p.shift;
            c &= 3;
            if ((uint32_t)x >= (uint32_t)wide) {
                return;
            }
        }
        int32_t one = ckci_k_divide(k, p.by_one_k);
        if (one >= p.merge || one != ckci_k_divide(c, p.by_one_c)) {
            return;
        }
        rows = (int32_t)p.by_one_k.d;
        columns = p.dim[0].filter * p.dim[1].filter * wide * per_c;
        k -= one * rows;
        c -= one * per_c;
        column = ((tap.z * p.dim[1].filter + tap.y) * wide + x) * per_c + c;
        group = group * p.merge + one;
        groups *= p.merge;
    }
    if (p.o.partial) {
        int64_t at = (((int64_t)part * groups + group) * rows + k) * columns + column;
        ((T *)p.o.partial)[at] = more ? ((const T *)p.o.partial)[at] + sum : sum;
        return;
    }
    ckci_k_write<T>(p.o, sum, group, k, c, tap.z, tap.y, x);
}

template <class T, int S, int KT, int THREADS> struct ckci_k_weight {
    typedef ckci_k_tile<T, S, KT> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        ckci_k_sums<T, S, KT, THREADS> sums;
        sums.clear();
        if constexpr (S == 128) {
            ckci_k_short_sums none;
            int32_t left = ckci_k_find_weight_block(p, S, S).positions();
            CKCI_K_UNROLL(1)
            while (left > 0) {
                const int32_t before = left;
                {
                    const ckci_k_weight_block b = ckci_k_find_weight_block(p, S, S);
                    left = ckci_k_after_stretch(p, before, 1);
                    ckci_k_weight_a<T, S, KT, THREADS> a(p, b.group, b.row, b.to - left);
                    ckci_k_weight_b<T, S, KT, THREADS> in(p, b.group, b.column, b.to - left);
                    sums.add(m, a, in, b.to - before, b.to - left, none);
                }
                const ckci_k_weight_block b = ckci_k_find_weight_block(p, S, S);
                const bool fresh = b.positions() - left <= CKCI_K_KEPT_STRETCH;
                if (!fresh || left > 0) {
                    sums.settle(p, b, fresh, left == 0);
                }
            }
        } else {
            const ckci_k_weight_block b = ckci_k_find_weight_block(p, S, S);
            ckci_k_weight_a<T, S, KT, THREADS> left(p, b.group, b.row, b.to);
            ckci_k_weight_b<T, S, KT, THREADS> right(p, b.group, b.column, b.to);
            ckci_k_long_sums<T, 16> whole;
            whole.clear();
            sums.add(m, left, right, b.from, b.to, whole);
            whole.finish(&sums.c[0][0]);
        }
        const ckci_k_weight_block b = ckci_k_find_weight_block(p, S, S);
        sums.finish(m, false, [&](int row, int column, T sum) {
            if (b.row + row < p.rows && b.column + column < p.columns) {
                ckci_k_write_weight<T>(p, sum, b.part, b.group, b.row + row, b.column + column);
            }
        });
    }
};

template <int KT> struct ckci_k_resident<ckci_k_weight<float, 128, KT, 256>> {
    enum { BLOCKS = 2 };
};

template <class T> struct ckci_k_is_float {
    enum { YES = 0 };
};
template <> struct ckci_k_is_float<float> {
    enum { YES = 1 };
};

/* A sum of a part. */
CKCI_K_FN float ckci_k_part(const ckci_gpu_conv &, const float *at)
{
    return *at;
}

CKCI_K_FN double ckci_k_part(const ckci_gpu_conv &, const double *at)
{
    return *at;
}

CKCI_K_FN int32_t ckci_k_part(const ckci_gpu_conv &p, const int32_t *at)
{
    return p.float_parts ? (int32_t)ckci_k_float((uint32_t)*at) : *at;
}

/* The block that has item `item`: blocks have part items of their own, the first `rest` one more. */
CKCI_K_FN int32_t ckci_k_share_block(const ckci_gpu_share &s, int32_t item)
{
    const int32_t more = s.rest * (s.part + 1);
    return item < more ? ckci_k_divide(item, s.by_more) : s.rest + ckci_k_divide(item - more, s.by_part);
}

/* One thread per weight adds the parts in their order and runs the epilogue once. o_vec: four weights, that
   are stored as they lie in the workspace; of 2^lanes threads for them each adds every 2^lanes-th part, and
   the first one adds their sums, in LDS, in their order. */
template <class T> struct ckci_k_reduce {
    struct lds {
        float sum[ckci_k_is_float<T>::YES ? 4 : 1][256];
    };

    /* Parts of weight e, as many as blocks had a share in its tile. */
    static CKCI_K_MEMBER int32_t parts(const ckci_gpu_conv &p, int64_t e)
    {
        if (p.share.steps == 0) {
            return p.split;
        }
        const int32_t filter = ckci_k_divide((int32_t)e, p.by_columns),
                      column = (int32_t)e - filter * p.columns;
        const int32_t group = ckci_k_divide(filter, p.by_tiles_m), k = filter - group * p.rows;
        const int32_t tile = (group * p.tiles_m + ckci_k_divide(k, p.share.by_rows)) * p.tiles_n +
                             ckci_k_divide(column, p.share.by_columns);
        const int32_t first = tile * p.share.steps;
        return ckci_k_share_block(p.share, first + p.share.steps - 1) - ckci_k_share_block(p.share, first) +
               1;
    }

    static CKCI_K_MEMBER void four(const ckci_gpu_conv &p, int64_t all, lds &m)
    {
        const int32_t log = p.lanes, wide = 256 >> log, t = (int32_t)threadIdx.x, first = t >> (8 - log);
        const int64_t e = 4 * ((int64_t)blockIdx.x * wide + (t & (wide - 1)));
        ckci_k_long_sums<float, 4> whole;
        whole.clear();
        float sum[4] = {0, 0, 0, 0};
        const unsigned char *part = p.o.partial + 4 * (first * all + e);
        const int64_t next = 4 * all << log;
        for (int32_t left = e < all ? parts(p, e) - first : 0; left > 0; left -= 4 << log) {
            ckci_k_uint4 v[4] = {};
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                if (i << log < left) {
                    v[i] = *(const ckci_k_uint4 *)(part + i * next);
                }
            }
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                if (i << log < left) {
                    sum[0] += ckci_k_float(v[i].x);
                    sum[1] += ckci_k_float(v[i].y);
                    sum[2] += ckci_k_float(v[i].z);
                    sum[3] += ckci_k_float(v[i].w);
                }
            }
            whole.settle(sum);
            part += 4 * next;
        }
        whole.finish(sum);
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            m.sum[i][t] = sum[i];
        }
        __syncthreads();
        if (first > 0 || e >= all) {
            return;
        }
        whole.clear();
        CKCI_K_UNROLL(1)
        for (int32_t at = t + wide; at < 256; at += wide) {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                sum[i] += m.sum[i][at];
            }
            whole.settle(sum);
        }
        whole.finish(sum);
        const int32_t dtype = p.o.t.dtype;
        if (dtype == CKCONV_F32) {
            const ckci_k_uint4 out = {ckci_k_bits(sum[0]), ckci_k_bits(sum[1]), ckci_k_bits(sum[2]),
                                      ckci_k_bits(sum[3])};
            *(ckci_k_uint4 *)(p.o.t.p + 4 * e) = out;
        } else {
            const ckci_k_uint2 out = {ckci_k_two(dtype, ckci_k_bits(sum[0]), ckci_k_bits(sum[1])),
                                      ckci_k_two(dtype, ckci_k_bits(sum[2]), ckci_k_bits(sum[3]))};
            *(ckci_k_uint2 *)(p.o.t.p + 2 * e) = out;
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        (void)m;
        int64_t all = (int64_t)p.g * p.rows * p.columns;
        int64_t e = (int64_t)blockIdx.x * 256 + threadIdx.x;
        if constexpr (ckci_k_is_float<T>::YES) {
            if (p.o_vec) {
                four(p, all, m);
                return;
            }
        }
        if (e >= all) {
            return;
        }
        ckci_k_long_sums<T, 1> whole;
        whole.clear();
        T sum = 0;
        const T *part = (const T *)p.o.partial + e;
        CKCI_K_UNROLL(1)
        for (int32_t left = parts(p, e); left > 0;
             left -= 32) { /* loads in flight together, additions in order */
            T v[32];
            CKCI_K_UNROLL(32)
            for (int i = 0; i < 32; i++) {
                v[i] = i < left ? ckci_k_part(p, part + i * all) : (T)0;
            }
            CKCI_K_UNROLL(32)
            for (int i = 0; i < 32; i++) {
                sum = ckci_k_fma((T)1, v[i], sum);
            }
            whole.settle(&sum);
            part += 32 * all;
        }
        whole.finish(&sum);
        int32_t filter = ckci_k_divide((int32_t)e, p.by_columns), column = (int32_t)e - filter * p.columns;
        int32_t group = ckci_k_divide(filter, p.by_tiles_m), k = filter - group * p.rows;
        const ckci_k_tap tap = ckci_k_split_column(p, column);
        ckci_k_write<T>(p.o, sum, group, k, tap.c, tap.z, tap.y, tap.x);
    }
};


/*------------------------------------------------------------------------------------------------------------
  >>k-families
  The other families are files of their own, for their length.
*/
#include "kernels.matrix.hip.h" /* CKCONV-SINGLE: copy it with kernels.hip.h */
#include "kernels.direct.hip.h" /* CKCONV-SINGLE: copy it with kernels.hip.h */
#include "kernels.norm.hip.h"   /* CKCONV-SINGLE: copy it with kernels.hip.h */


/*------------------------------------------------------------------------------------------------------------
  >>k-inst
  The table as kernels with plain C names, and the launch of one.
*/
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


/*------------------------------------------------------------------------------------------------------------
  >>k-undef
*/
#undef CKCI_K_APART
#undef CKCI_K_ARGS
#undef CKCI_K_BOUNDS
#undef CKCI_K_BUFFERS
#undef CKCI_K_FN
#undef CKCI_K_KERNEL
#undef CKCI_K_LDS
#undef CKCI_K_MEMBER
#undef CKCI_K_MFMA
#undef CKCI_K_MMA
#undef CKCI_K_PARAM
#undef CKCI_K_PRAGMA
#undef CKCI_K_QUIRK
#undef CKCI_K_QUIRK_NONE
#undef CKCI_K_QUIRK_NO_256
#undef CKCI_K_ROW_KNOWN
#undef CKCI_K_ROW_QUIRK
#undef CKCI_K_ROW_UNIT
#undef CKCI_K_SUM32
#undef CKCI_K_SUM8
#undef CKCI_K_SUMS_128
#undef CKCI_K_SUMS_32
#undef CKCI_K_SUMS_64
#undef CKCI_K_SUMS_96
#undef CKCI_K_UNIT
#undef CKCI_K_UNIT_NONE
#undef CKCI_K_UNIT_CDNA1
#undef CKCI_K_UNIT_CDNA2
#undef CKCI_K_UNIT_CDNA3
#undef CKCI_K_UNIT_CDNA4
#undef CKCI_K_UNIT_RDNA3
#undef CKCI_K_UNIT_RDNA4
#undef CKCI_K_UNIT_MMA
#undef CKCI_K_UNIT_WGMMA
#undef CKCI_K_UNROLL
#undef CKCI_K_UNROLL_SOME
#undef CKCI_K_WGMMA
#undef CKCI_K_WGMMA_ASM
#undef CKCI_K_WMMA
#undef CKCI_K_WMMA12
#undef CKCI_K_MMA_ASM
#undef CKCI_K_XF32

#ifdef __cplusplus
extern "C" {
#endif

#endif /* CKCONV_KERNELS_HIP_H */
