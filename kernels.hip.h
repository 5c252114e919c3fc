/* kernels.hip.h - v0.1.0 - the GPU side of ckconv.h: HIP C++17, also read by nvcc
   SPDX-License-Identifier: MIT */
#ifndef CKCONV_KERNELS_HIP_H
#define CKCONV_KERNELS_HIP_H
/*  (licence text at the end of ckconv.h)

Included by ckconv.h on one marked line, when CKCONV_IMPLEMENTATION is defined and hipcc or nvcc reads it. Do
not include it yourself.

KERNELS (ckconv_k_NAME; the table in ckconv.h, >>gpu, has one line for each; T is f32, f64 or i32, the type of
the sums, and every storage type is converted when it is loaded)
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
    depth_S_1_..       the same for planes (channels first; lanes along x) and odd channels
    depth_S_walk_F     F x F filters: a thread walks down a column (plane_walk: channels first; channels last:
                       3 x 3 and Z x 3 x 3)
    depth_S_down_F     F x F filters, channels last: blocks walk down columns of rows, which lie in LDS
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
    norm_...           group norm: statistics, y, sums of the gradients, dx, dgamma and dbeta; .._last and
                       .._planes: wide, by layout; fwd_kept: x stays in LDS (NVIDIA)
    move, move_..      layout and type conversion: single elements; copy: rows in pieces; turn_E: tiles of
                       E-byte elements turned in LDS; convert_E: other types to E bytes, turned or not

No atomics; wave 32 or 64. Every output is written by one thread, and every sum has a fixed order. All but
matrix_... are plain multiply-adds on any target.

TAGS
    >>k-arch     HIP, CUDA or simulator: names, linkage     >>k-direct  few channels per group
    >>k-prim     conversions, loads, stores                 >>k-depth   depthwise
    >>k-map      coordinates                                >>k-pair    conv_conv_fwd
    >>k-gemm     the tile loop                              >>k-norm    group norm
    >>k-gather   fwd, bwd_data                              >>k-move    layout and type conversion
    >>k-weight   bwd_weight                                 >>k-inst    the table expanded, launch
    >>k-matrix   all three on matrix units                  >>k-undef
    >>k-tile     all three in f32, tuned
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
    size_t length = strcspn(prop->gcnArchName, ":"); /* "gfx90a:sramecc+:xnack-" */
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

/* Blocks that a compute unit should hold of a kernel, for compilers that ask; 0: no wish. */
template <class Body> struct ckci_k_resident {
    enum { BLOCKS = 0 };
};

/* A kernel's body by vendor: a device's compiler knows which, the simulator when it runs. */
#if defined(CKCI_SIMULATOR)
template <class Nvidia, class Amd> struct ckci_k_by_vendor {
    struct lds {
    };

    template <class Body, class Args> static void with(const Args &p)
    {
        typedef typename Body::lds body_lds;
        CKCI_K_LDS(body_lds, m);
        Body::run(p, m);
    }

    template <class Args> static void run(const Args &p, lds &)
    {
        if (sim_device.kind == CKCONV_DEVICE_NVIDIA) {
            with<Nvidia>(p);
        } else {
            with<Amd>(p);
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

/* A barrier of all threads of a cluster's blocks (NVIDIA, from sm_90 on): what they wrote before it, all see
   after it. */
CKCI_K_FN void ckci_k_cluster_barrier()
{
#if defined(CKCI_SIMULATOR)
    sim_cluster_barrier();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
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

/* Element operations (ckconv.h, >>types). d: D0; those that add all D tensors have them in x already. */
template <class T> CKCI_K_FN T ckci_k_element(const ckconv_element_op &op, T x, T d)
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
        return x / 2 * (1 + ckci_k_erf(x * (T)0.70710678118654752440));
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

    /* a, b: loaders with fetch(first place of the step) and store(buffer). One loop also for the first tile
       and for the last product, so that each part of it stands once. */
    template <class A, class B>
    CKCI_K_MEMBER void run(ckci_k_tile<T, S, KT> &m, A &a, B &b, int32_t from, int32_t to)
    {
        clear();
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
            }
            if (step < steps) {
                a.store(&m.a[buffer][0][0]);
                b.store(&m.b[buffer][0][0]);
            }
            __syncthreads();
        }
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
   may be merged; then what couples two of them is dropped. */
template <class T, int MERGE = 0>
CKCI_K_FN void ckci_k_write_weight(const ckci_gpu_conv &p, T sum, int32_t part, int32_t group, int32_t k,
                                   int32_t column)
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
        ((T *)p.o.partial)[at] = sum;
        return;
    }
    ckci_k_write<T>(p.o, sum, group, k, c, tap.z, tap.y, x);
}

template <class T, int S, int KT, int THREADS> struct ckci_k_weight {
    typedef ckci_k_tile<T, S, KT> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        int32_t work = (int32_t)blockIdx.x, rest = ckci_k_divide(work, p.by_tiles_n);
        int32_t column0 = (work - rest * p.tiles_n) * S, up = ckci_k_divide(rest, p.by_tiles_m);
        int32_t row0 = (rest - up * p.tiles_m) * S, part = ckci_k_divide(up, p.by_phases);
        int32_t group = up - part * p.g;
        int32_t from = part * p.part + (part < p.part_rest ? part : p.part_rest);
        int32_t to = from + p.part + (part < p.part_rest ? 1 : 0);
        ckci_k_weight_a<T, S, KT, THREADS> left(p, group, row0, to);
        ckci_k_weight_b<T, S, KT, THREADS> right(p, group, column0, to);
        ckci_k_sums<T, S, KT, THREADS> sums;
        sums.run(m, left, right, from, to);
        sums.finish(m, false, [&](int row, int column, T sum) {
            if (row0 + row < p.rows && column0 + column < p.columns) {
                ckci_k_write_weight<T>(p, sum, part, group, row0 + row, column0 + column);
            }
        });
    }
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
            part += 4 * next;
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            m.sum[i][t] = sum[i];
        }
        __syncthreads();
        if (first > 0 || e >= all) {
            return;
        }
        CKCI_K_UNROLL(1)
        for (int32_t at = t + wide; at < 256; at += wide) {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                sum[i] += m.sum[i][at];
            }
        }
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
            part += 32 * all;
        }
        int32_t filter = ckci_k_divide((int32_t)e, p.by_columns), column = (int32_t)e - filter * p.columns;
        int32_t group = ckci_k_divide(filter, p.by_tiles_m), k = filter - group * p.rows;
        const ckci_k_tap tap = ckci_k_split_column(p, column);
        ckci_k_write<T>(p.o, sum, group, k, tap.c, tap.z, tap.y, tap.x);
    }
};


/*------------------------------------------------------------------------------------------------------------
  >>k-matrix
  Matrix units, one struct for each kind of unit; T is what it multiplies. A wave multiplies M rows of one
  tile by N rows of another, STEP bytes of each at a time, into M x N sums:
      load      the wave's operand: M (or N) rows of a tile in LDS, STEP bytes from byte `at` of each. The two
                operands are alike, so any order of the reduction inside STEP is right that both share
      multiply  sums += rows * columns
      row, column  where sum i of this lane lies
  Tiles lie in LDS as rows of KB bytes whose 16-byte chunks are permuted (ckci_k_spot), so that neither the
  stores of a block nor the loads of a wave meet in the banks.
  Sources of the lane layouts: AMD's ISA documents of CDNA 3, RDNA 3 and RDNA 4, NVIDIA's PTX ISA.
*/
#if defined(CKCI_SIMULATOR)
#define CKCI_K_MFMA 1
#define CKCI_K_WMMA 1
#define CKCI_K_WMMA12 1
#define CKCI_K_MMA 1
#define CKCI_K_WGMMA 1
#elif defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) ||            \
    defined(__gfx942__) || defined(__gfx950__)
#define CKCI_K_MFMA 1
#elif defined(__GFX11__)
#define CKCI_K_WMMA 1
#elif defined(__GFX12__)
#define CKCI_K_WMMA12 1
#elif defined(__CUDACC__) && !defined(__HIP__) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800)
#define CKCI_K_MMA 1 /* on the host too: a launch needs the size of shared memory */
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define CKCI_K_WGMMA 1
#endif
#endif

/* What is multiplied. Sums of f16 and bf16 are f32; kernels take both: they differ in the loop alone, which a
   kernel holds once for each. Likewise f32 and tf32, in kernels and units (ckci_k_single) of their own; f64
   (ckci_k_double) and i8, whose sums are i32 (ckci_k_whole), have others. */
struct ckci_k_f16 {
    enum { TYPE = CKCONV_F16, TF32 = 0 };
};
struct ckci_k_bf16 {
    enum { TYPE = CKCONV_BF16, TF32 = 0 };
};
struct ckci_k_f32 {
    enum { TF32 = 0 };
};
struct ckci_k_tf32 {
    enum { TF32 = 1 };
};
struct ckci_k_f64 {
    enum { TF32 = 0 };
};
struct ckci_k_i8 {
    enum { TYPE = CKCONV_I8, TF32 = 0 };
};
enum { CKCI_K_HALF = 2 }; /* bytes of f16 and bf16 */

/* The same unit for i8: SIZE is 1, number is int32_t. */
template <class U> struct ckci_k_whole;

/* The same unit for f32 and tf32: SIZE is 4. Without one of its own it stands in empty kernels. */
template <class U> struct ckci_k_single : U {
};

/* That unit where tiles come through registers, as those of bwd_weight do to be transposed. */
template <class U> struct ckci_k_single_late : ckci_k_single<U> {
};

/* The same unit for f64: SIZE is 8, number is double. Without one of its own it stands in empty kernels. */
template <class U> struct ckci_k_double : U {
};

/* The same bits as another type. */
template <class To, class From> CKCI_K_FN To ckci_k_cast(const From &from)
{
    static_assert(sizeof(To) == sizeof(From), "as many bits");
#if defined(__HIP_DEVICE_COMPILE__)
    return __builtin_bit_cast(To, from); /* clang 15 leaves the copy in scratch */
#else
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
#endif
}

/* A chunk, of four floats and rounded if T is tf32. */
template <class T> CKCI_K_FN ckci_k_uint4 ckci_k_rounded(const ckci_k_uint4 &from)
{
    if constexpr (T::TF32) {
        const ckci_k_uint4 to = {ckci_k_tf32_bits(from.x), ckci_k_tf32_bits(from.y), ckci_k_tf32_bits(from.z),
                                 ckci_k_tf32_bits(from.w)};
        return to;
    } else {
        return from;
    }
}

/* Where chunk `chunk` of row `row` lies in a tile, in bytes. */
template <int KB> CKCI_K_FN int ckci_k_spot(int row, int chunk)
{
    if (KB == 128) {
        return row * 128 + (chunk ^ (row & 7)) * 16;
    }
    row ^= row >> 3 & 1;
    return row * 64 + (chunk ^ (row >> 1 & 3)) * 16;
}

#if defined(CKCI_SIMULATOR) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__)
#define CKCI_K_XF32 1
#else
#define CKCI_K_XF32 0
#endif

#if defined(CKCI_K_MFMA) || defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12)
/* What AMD's units share: MN x MN sums, as many of them in a lane as S; a lane's lie in one column. */
#if !defined(CKCI_SIMULATOR)
template <class T, int N> using ckci_k_vector = T __attribute__((ext_vector_type(N)));

/* The same bits as N of type T. */
template <class T, int N, class From> CKCI_K_FN ckci_k_vector<T, N> ckci_k_as(const From &from)
{
    return ckci_k_cast<ckci_k_vector<T, N>>(from);
}
#endif
template <class T, int S> struct ckci_k_lane_sums {
#if defined(CKCI_SIMULATOR)
    T v[S];
#else
    ckci_k_vector<T, S> v;
#endif
};
template <int MN, int S> struct ckci_k_square {
    enum { M = MN, N = MN, STEP = 32, SUMS = S, KB = 64, ASYNC = 0, SIZE = CKCI_K_HALF };
    typedef float number;
    typedef ckci_k_lane_sums<float, S> sums;

    static CKCI_K_MEMBER int column(int)
    {
        return (int)threadIdx.x % N;
    }
};

/* CDNA: of each eight rows a lane holds four. */
template <int MN, int S> struct ckci_k_cdna : ckci_k_square<MN, S> {
    enum { WAVE = 64 };

    static CKCI_K_MEMBER int row(int i)
    {
        return i / 4 * 8 + (int)threadIdx.x % WAVE / MN * 4 + i % 4;
    }
};
#endif

#if defined(CKCI_K_MFMA)
/* CDNA: 32 x 32 sums, the halves of a wave hold neighbouring chunks of the reduction. */
struct ckci_k_mfma : ckci_k_cdna<32, 16> {
    typedef ckci_k_uint4 operand;

    static CKCI_K_MEMBER operand load(const unsigned char *tile, int row0, int at)
    {
        int lane = (int)threadIdx.x % WAVE;
        return *(const operand *)(tile + row0 * KB + ckci_k_spot<KB>(lane % M, at / 16 + lane / M));
    }

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
#if defined(CKCI_SIMULATOR)
        sim_mfma_32x32x8<T>(&a, &b, d.v, 0);
        sim_mfma_32x32x8<T>(&a, &b, d.v, 8);
#elif defined(__gfx950__)
        if constexpr (T::TYPE == CKCONV_F16) {
            d.v = __builtin_amdgcn_mfma_f32_32x32x16_f16(ckci_k_as<_Float16, 8>(a), ckci_k_as<_Float16, 8>(b),
                                                         d.v, 0, 0, 0);
        } else {
            d.v = __builtin_amdgcn_mfma_f32_32x32x16_bf16(ckci_k_as<__bf16, 8>(a), ckci_k_as<__bf16, 8>(b),
                                                          d.v, 0, 0, 0);
        }
#else
        ckci_k_uint2 a0 = {a.x, a.y}, a1 = {a.z, a.w}, b0 = {b.x, b.y}, b1 = {b.z, b.w};
        half<T>(d, a0, b0);
        half<T>(d, a1, b1);
#endif
    }

#if !defined(CKCI_SIMULATOR) && !defined(__gfx950__)
    template <class T> static CKCI_K_MEMBER void half(sums &d, const ckci_k_uint2 &a, const ckci_k_uint2 &b)
    {
        if constexpr (T::TYPE == CKCONV_F16) {
            d.v = __builtin_amdgcn_mfma_f32_32x32x8f16(ckci_k_as<_Float16, 4>(a), ckci_k_as<_Float16, 4>(b),
                                                       d.v, 0, 0, 0);
        } else {
#if defined(__gfx908__)
            d.v = __builtin_amdgcn_mfma_f32_32x32x4bf16(ckci_k_as<short, 2>(a.x), ckci_k_as<short, 2>(b.x),
                                                        d.v, 0, 0, 0);
            d.v = __builtin_amdgcn_mfma_f32_32x32x4bf16(ckci_k_as<short, 2>(a.y), ckci_k_as<short, 2>(b.y),
                                                        d.v, 0, 0, 0);
#else
            d.v = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(ckci_k_as<short, 4>(a), ckci_k_as<short, 4>(b),
                                                           d.v, 0, 0, 0);
#endif
        }
    }
#endif
};

template <> struct ckci_k_whole<ckci_k_mfma> : ckci_k_mfma {
    enum { SIZE = 1 };
    typedef int32_t number;
    typedef ckci_k_lane_sums<int32_t, SUMS> sums;

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
#if defined(CKCI_SIMULATOR)
        for (int at = 0; at < 16; at += sim_mfma_i8_bytes()) {
            sim_mfma_i32_32x32(&a, &b, d.v, at);
        }
#elif defined(__gfx950__)
        d.v = __builtin_amdgcn_mfma_i32_32x32x32_i8(ckci_k_as<int, 4>(a), ckci_k_as<int, 4>(b), d.v, 0, 0, 0);
#elif defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__)
        const ckci_k_uint2 a0 = {a.x, a.y}, a1 = {a.z, a.w}, b0 = {b.x, b.y}, b1 = {b.z, b.w};
        d.v =
            __builtin_amdgcn_mfma_i32_32x32x16_i8(ckci_k_cast<long>(a0), ckci_k_cast<long>(b0), d.v, 0, 0, 0);
        d.v =
            __builtin_amdgcn_mfma_i32_32x32x16_i8(ckci_k_cast<long>(a1), ckci_k_cast<long>(b1), d.v, 0, 0, 0);
#else
        d.v = __builtin_amdgcn_mfma_i32_32x32x8i8((int)a.x, (int)b.x, d.v, 0, 0, 0);
        d.v = __builtin_amdgcn_mfma_i32_32x32x8i8((int)a.y, (int)b.y, d.v, 0, 0, 0);
        d.v = __builtin_amdgcn_mfma_i32_32x32x8i8((int)a.z, (int)b.z, d.v, 0, 0, 0);
        d.v = __builtin_amdgcn_mfma_i32_32x32x8i8((int)a.w, (int)b.w, d.v, 0, 0, 0);
#endif
    }
};

/* Four places of a lane's half of the reduction, one at a time; tf32 on gfx94x (xf32) two, rounded on their
   way into LDS. For the others the planner rounds tf32 while it packs, and takes it for f32. */
template <> struct ckci_k_single<ckci_k_mfma> : ckci_k_mfma {
    enum { SIZE = 4, F32 = 1, TF32 = CKCI_K_XF32 };

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
#if defined(CKCI_SIMULATOR)
        const int places = sim_mfma_f32_places(T::TF32);
        for (int at = 0; at < 16; at += 4 * places) {
            sim_mfma_f32_32x32(&a, &b, d.v, at, places);
        }
#else
        if constexpr (T::TF32) {
#if CKCI_K_XF32
            const ckci_k_uint2 a0 = {a.x, a.y}, a1 = {a.z, a.w}, b0 = {b.x, b.y}, b1 = {b.z, b.w};
            d.v = __builtin_amdgcn_mfma_f32_32x32x4_xf32(ckci_k_as<float, 2>(a0), ckci_k_as<float, 2>(b0),
                                                         d.v, 0, 0, 0);
            d.v = __builtin_amdgcn_mfma_f32_32x32x4_xf32(ckci_k_as<float, 2>(a1), ckci_k_as<float, 2>(b1),
                                                         d.v, 0, 0, 0);
#endif
        } else {
            one(d, a.x, b.x);
            one(d, a.y, b.y);
            one(d, a.z, b.z);
            one(d, a.w, b.w);
        }
#endif
    }

#if !defined(CKCI_SIMULATOR)
    static CKCI_K_MEMBER void one(sums &d, uint32_t x, uint32_t y)
    {
        d.v = __builtin_amdgcn_mfma_f32_32x32x2f32(ckci_k_float(x), ckci_k_float(y), d.v, 0, 0, 0);
    }
#endif
};

#if !defined(__gfx908__)
/* CDNA from gfx90a on: 16 x 16 sums; the quarters of a wave hold neighbouring chunks, two places each. */
template <> struct ckci_k_double<ckci_k_mfma> : ckci_k_square<16, 4> {
    enum { WAVE = 64, STEP = 64, SIZE = 8 };
    typedef double number;
    typedef ckci_k_lane_sums<double, 4> sums;
    typedef ckci_k_uint4 operand;

    static CKCI_K_MEMBER operand load(const unsigned char *tile, int row0, int at)
    {
        int lane = (int)threadIdx.x % WAVE;
        return *(const operand *)(tile + row0 * KB + ckci_k_spot<KB>(lane % M, at / 16 + lane / M));
    }

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
#if defined(CKCI_SIMULATOR)
        sim_mfma_f64_16x16x4(&a, &b, d.v, 0);
        sim_mfma_f64_16x16x4(&a, &b, d.v, 8);
#else
        const ckci_k_vector<double, 2> x = ckci_k_as<double, 2>(a), y = ckci_k_as<double, 2>(b);
        d.v = __builtin_amdgcn_mfma_f64_16x16x4f64(x.x, y.x, d.v, 0, 0, 0);
        d.v = __builtin_amdgcn_mfma_f64_16x16x4f64(x.y, y.y, d.v, 0, 0, 0);
#endif
    }

    static CKCI_K_MEMBER int row(int i)
    {
        return 4 * i + (int)threadIdx.x % WAVE / 16;
    }
};
#endif

/* CDNA: 16 x 16 sums, for small groups. */
struct ckci_k_mfma16 : ckci_k_cdna<16, 4> {
    typedef ckci_k_uint2 operand;

    static CKCI_K_MEMBER operand load_rows(const unsigned char *row, int at)
    {
        return *(const operand *)(row + at + (int)threadIdx.x % WAVE / 16 * 8);
    }

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
#if defined(CKCI_SIMULATOR)
        sim_mfma_16x16x16<T>(&a, &b, d.v);
#else
        if constexpr (T::TYPE == CKCONV_F16) {
            d.v = __builtin_amdgcn_mfma_f32_16x16x16f16(ckci_k_as<_Float16, 4>(a), ckci_k_as<_Float16, 4>(b),
                                                        d.v, 0, 0, 0);
        } else {
#if defined(__gfx908__)
            d.v = __builtin_amdgcn_mfma_f32_16x16x8bf16(ckci_k_as<short, 2>(a.x), ckci_k_as<short, 2>(b.x),
                                                        d.v, 0, 0, 0);
            d.v = __builtin_amdgcn_mfma_f32_16x16x8bf16(ckci_k_as<short, 2>(a.y), ckci_k_as<short, 2>(b.y),
                                                        d.v, 0, 0, 0);
#else
            d.v = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(ckci_k_as<short, 4>(a), ckci_k_as<short, 4>(b),
                                                            d.v, 0, 0, 0);
#endif
        }
#endif
    }
};
#endif

#if defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12)
/* RDNA: 16 x 16 sums. Before gfx12 both halves of a wave hold the same 16 places of the reduction, from then
   on each holds eight. */
template <int GFX> struct ckci_k_wmma : ckci_k_square<16, 8> {
    enum { WAVE = 32 };
    struct operand {
        ckci_k_uint4 v[GFX == 11 ? 2 : 1];
    };

    static CKCI_K_MEMBER operand load(const unsigned char *tile, int row0, int at)
    {
        int lane = (int)threadIdx.x % WAVE;
        operand r;
        if constexpr (GFX == 11) {
            r.v[0] = *(const ckci_k_uint4 *)(tile + row0 * KB + ckci_k_spot<KB>(lane % M, at / 16));
            r.v[1] = *(const ckci_k_uint4 *)(tile + row0 * KB + ckci_k_spot<KB>(lane % M, at / 16 + 1));
        } else {
            r.v[0] =
                *(const ckci_k_uint4 *)(tile + row0 * KB + ckci_k_spot<KB>(lane % M, at / 16 + lane / M));
        }
        return r;
    }

    /* 16 rows of their own addresses, this lane's (of row lane % 16) in `row`. */
    static CKCI_K_MEMBER operand load_rows(const unsigned char *row, int at)
    {
        const int half = (int)threadIdx.x % WAVE / 16;
        operand r;
        if constexpr (GFX == 11) {
            r.v[0] = *(const ckci_k_uint4 *)(row + at);
            r.v[1] = *(const ckci_k_uint4 *)(row + at + 16);
        } else {
            r.v[0] = *(const ckci_k_uint4 *)(row + at + half * 16);
        }
        (void)half;
        return r;
    }

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
#if defined(CKCI_SIMULATOR)
        sim_wmma_16x16x16<T>(GFX, &a, &b, d.v);
#elif defined(CKCI_K_WMMA)
        if constexpr (T::TYPE == CKCONV_F16) {
            d.v = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(ckci_k_as<_Float16, 16>(a),
                                                             ckci_k_as<_Float16, 16>(b), d.v);
        } else {
            d.v = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(ckci_k_as<short, 16>(a),
                                                              ckci_k_as<short, 16>(b), d.v);
        }
#else
        if constexpr (T::TYPE == CKCONV_F16) {
            d.v = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(ckci_k_as<_Float16, 8>(a),
                                                                   ckci_k_as<_Float16, 8>(b), d.v);
        } else {
            d.v = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(ckci_k_as<short, 8>(a),
                                                                    ckci_k_as<short, 8>(b), d.v);
        }
#endif
    }

    static CKCI_K_MEMBER int row(int i)
    {
        int half = (int)threadIdx.x % WAVE / 16;
        return GFX == 11 ? 2 * i + half : 8 * half + i;
    }
};

/* Two products of 16 places of the reduction. */
template <int GFX> struct ckci_k_whole<ckci_k_wmma<GFX>> : ckci_k_wmma<GFX> {
    enum { SIZE = 1 };
    typedef int32_t number;
    typedef ckci_k_lane_sums<int32_t, 8> sums;
    typedef typename ckci_k_wmma<GFX>::operand operand;

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
#if defined(CKCI_SIMULATOR)
        for (int i = 0; i < 2; i++) { /* chunks; of one chunk its halves */
            const int at = GFX == 11 ? 16 * i : 8 * i;
            sim_wmma_i32_16x16x16(GFX, (const unsigned char *)&a + at, (const unsigned char *)&b + at, d.v);
        }
#elif defined(CKCI_K_WMMA)
        CKCI_K_UNROLL(2)
        for (int i = 0; i < 2; i++) {
            d.v = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, ckci_k_as<int, 4>(a.v[i]), true,
                                                             ckci_k_as<int, 4>(b.v[i]), d.v, false);
        }
#else
        const ckci_k_uint4 &c = a.v[0], &e = b.v[0];
        const ckci_k_uint2 a0 = {c.x, c.y}, a1 = {c.z, c.w}, b0 = {e.x, e.y}, b1 = {e.z, e.w};
        d.v = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, ckci_k_as<int, 2>(a0), true,
                                                               ckci_k_as<int, 2>(b0), d.v, false);
        d.v = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, ckci_k_as<int, 2>(a1), true,
                                                               ckci_k_as<int, 2>(b1), d.v, false);
#endif
    }
};
#endif

#if defined(CKCI_K_MMA)
/* A product of 16 x 8 sums d (in registers of kind C) of a and b0, b1: its shape and types. */
#define CKCI_K_MMA_ASM(TYPES, C)                                                                             \
    asm volatile("mma.sync.aligned." TYPES                                                                   \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                          \
                 : "+" C(d[0]), "+" C(d[1]), "+" C(d[2]), "+" C(d[3])                                        \
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1))

/* NVIDIA, from sm_80 on: two products of 16 x 8 sums. */
struct ckci_k_mma {
    enum { WAVE = 32, M = 16, N = 16, STEP = 32, SUMS = 8, KB = 128, ASYNC = 1, SIZE = CKCI_K_HALF };
    typedef ckci_k_uint4 operand;
    typedef float number;
    struct sums {
        float v[SUMS];
    };

    /* x: rows 0 to 7, y: rows 8 to 15 of the first chunk; z and w of the second */
    static CKCI_K_MEMBER operand load(const unsigned char *tile, int row0, int at)
    {
        int lane = (int)threadIdx.x % WAVE;
        const unsigned char *p = tile + row0 * KB + ckci_k_spot<KB>(lane % 16, at / 16 + lane / 16);
        operand r;
#if defined(CKCI_SIMULATOR)
        sim_ldmatrix_x4(&r, p);
#else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
                     : "r"((uint32_t)__cvta_generic_to_shared(p)));
#endif
        return r;
    }

    /* 16 rows of their own addresses, this lane's (of row lane % 16) in `row`. */
    static CKCI_K_MEMBER operand load_rows(const unsigned char *row, int at)
    {
        const unsigned char *p = row + at + (int)threadIdx.x % WAVE / 16 * 16;
        operand r;
#if defined(CKCI_SIMULATOR)
        sim_ldmatrix_x4(&r, p);
#else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
                     : "r"((uint32_t)__cvta_generic_to_shared(p)));
#endif
        return r;
    }

    /* The same from slabs (see ckci_k_weight_slabs), whose rows are places of the reduction. */
    static CKCI_K_MEMBER operand load_across(const unsigned char *tile, int row0, int at)
    {
        int lane = (int)threadIdx.x % WAVE, place = at / 2 + lane / 16 * 8 + lane % 8;
        const unsigned char *p =
            tile + row0 / 64 * (64 * KB) + ckci_k_spot<KB>(place, row0 % 64 / 8 + lane / 8 % 2);
        operand r;
#if defined(CKCI_SIMULATOR)
        sim_ldmatrix_x4_trans(&r, p);
#else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
                     : "r"((uint32_t)__cvta_generic_to_shared(p)));
#endif
        return r;
    }

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
        half<T>(d.v, a, b.x, b.z);
        half<T>(d.v + 4, a, b.y, b.w);
    }

    template <class T> static CKCI_K_MEMBER void half(float *d, const operand &a, uint32_t b0, uint32_t b1)
    {
#if defined(CKCI_SIMULATOR)
        uint32_t b[2] = {b0, b1};
        sim_mma_m16n8k16<T>(&a, b, d);
#else
        if constexpr (T::TYPE == CKCONV_F16) {
            CKCI_K_MMA_ASM("m16n8k16.row.col.f32.f16.f16.f32", "f");
        } else {
            CKCI_K_MMA_ASM("m16n8k16.row.col.f32.bf16.bf16.f32", "f");
        }
#endif
    }

    static CKCI_K_MEMBER int row(int i)
    {
        return i % 4 / 2 * 8 + (int)threadIdx.x % WAVE / 4;
    }

    static CKCI_K_MEMBER int column(int i)
    {
        return i / 4 * 8 + (int)threadIdx.x % 4 * 2 + i % 2;
    }
};

template <> struct ckci_k_whole<ckci_k_mma> : ckci_k_mma {
    enum { SIZE = 1 };
    typedef int32_t number;
    struct sums {
        int32_t v[SUMS];
    };

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
        half(d.v, a, b.x, b.z);
        half(d.v + 4, a, b.y, b.w);
    }

    static CKCI_K_MEMBER void half(int32_t *d, const operand &a, uint32_t b0, uint32_t b1)
    {
#if defined(CKCI_SIMULATOR)
        uint32_t b[2] = {b0, b1};
        sim_mma_m16n8k32(&a, b, d);
#else
        CKCI_K_MMA_ASM("m16n8k32.row.col.s32.s8.s8.s32", "r");
#endif
    }
};

/* tf32 alone: the unit has no f32. LATE: rounded already, on its way from registers into LDS. */
template <int LATE> struct ckci_k_single_mma : ckci_k_mma {
    enum { SIZE = 4, F32 = 0, TF32 = 1, ASYNC = !LATE };

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
        if constexpr (LATE) {
            half(d.v, a, b.x, b.z);
            half(d.v + 4, a, b.y, b.w);
        } else {
            const operand x = ckci_k_rounded<T>(a), y = ckci_k_rounded<T>(b);
            half(d.v, x, y.x, y.z);
            half(d.v + 4, x, y.y, y.w);
        }
    }

    static CKCI_K_MEMBER void half(float *d, const operand &a, uint32_t b0, uint32_t b1)
    {
#if defined(CKCI_SIMULATOR)
        uint32_t b[2] = {b0, b1};
        sim_mma_m16n8k8(&a, b, d);
#else
        CKCI_K_MMA_ASM("m16n8k8.row.col.f32.tf32.tf32.f32", "f");
#endif
    }
};
template <> struct ckci_k_single<ckci_k_mma> : ckci_k_single_mma<0> {
};
template <> struct ckci_k_single_late<ckci_k_mma> : ckci_k_single_mma<1> {
};

/* f64: four products of 8 x 8 sums and two places each; quads of lanes hold a row's (or column's) chunks. */
template <> struct ckci_k_double<ckci_k_mma> {
    enum { WAVE = 32, M = 16, N = 16, STEP = 64, SUMS = 8, KB = 128, ASYNC = 0, SIZE = 8 };
    struct operand {
        double v[2][2]; /* rows 0 to 7 and 8 to 15 */
    };
    typedef double number;
    struct sums {
        double v[SUMS];
    };

    static CKCI_K_MEMBER operand load(const unsigned char *tile, int row0, int at)
    {
        int lane = (int)threadIdx.x % WAVE;
        operand r;
        CKCI_K_UNROLL(2)
        for (int i = 0; i < 2; i++) {
            memcpy(r.v[i], tile + row0 * KB + ckci_k_spot<KB>(8 * i + lane / 4, at / 16 + lane % 4), 16);
        }
        return r;
    }

    template <class T> static CKCI_K_MEMBER void multiply(sums &d, const operand &a, const operand &b)
    {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            one(d.v + i % 4 * 2, a.v[i % 2][i / 4], b.v[i % 4 / 2][i / 4]);
        }
    }

    static CKCI_K_MEMBER void one(double *d, double a, double b)
    {
#if defined(CKCI_SIMULATOR)
        sim_mma_m8n8k4(&a, &b, d);
#else
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                     : "+d"(d[0]), "+d"(d[1])
                     : "d"(a), "d"(b));
#endif
    }

    static CKCI_K_MEMBER int row(int i)
    {
        return i / 2 % 2 * 8 + (int)threadIdx.x % WAVE / 4;
    }

    static CKCI_K_MEMBER int column(int i)
    {
        return i / 4 * 8 + (int)threadIdx.x % 4 * 2 + i % 2;
    }
};
#endif

/* Taps that a block can have; how tiles lie in LDS (groups of waves need their swizzle's period). */
#if defined(__HIP_DEVICE_COMPILE__)
enum { CKCI_K_TAPS = 128, CKCI_K_TILE_ALIGN = 128 };
#else
enum { CKCI_K_TAPS = 128, CKCI_K_TILE_ALIGN = 1024 };
#endif

#if defined(__HIP_DEVICE_COMPILE__)
typedef int ckci_k_int4 __attribute__((ext_vector_type(4)));
__device__ ckci_k_int4 ckci_k_buffer_load(ckci_k_int4 window, int offset, int scalar_offset,
                                          int cache) __asm("llvm.amdgcn.raw.buffer.load.v4i32");
#endif

/* 2^31 bytes of memory from `base` on; a load at a negative offset gives zeros. */
struct ckci_k_window {
#if defined(__HIP_DEVICE_COMPILE__)
    ckci_k_int4 v;
#else
    const unsigned char *base;
#endif
};

CKCI_K_FN ckci_k_window ckci_k_make_window(const unsigned char *base)
{
    ckci_k_window w;
#if defined(__HIP_DEVICE_COMPILE__)
    uint64_t at = (uint64_t)base;
    w.v.x = __builtin_amdgcn_readfirstlane((int)at);
    w.v.y = __builtin_amdgcn_readfirstlane((int)(at >> 32) & 0xffff);
    w.v.z = INT32_MIN;
#if defined(__GFX9__)
    w.v.w = 0x00020000;
#elif defined(__GFX10__)
    w.v.w = 0x31014000;
#else
    w.v.w = 0x31004000;
#endif
#else
    w.base = base;
#endif
    return w;
}

/* more: the same for all of a wave, not negative, less than 2^31 together with a good offset */
CKCI_K_FN ckci_k_uint4 ckci_k_window_load(const ckci_k_window &w, int32_t offset, int32_t more = 0)
{
#if defined(__HIP_DEVICE_COMPILE__)
#if __clang_major__ < 16 || !defined(__OPTIMIZE__) /* which do not keep it in a scalar register */
    return ckci_k_cast<ckci_k_uint4>(
        ckci_k_buffer_load(w.v, offset, __builtin_amdgcn_readfirstlane(more), 0));
#else
    return ckci_k_cast<ckci_k_uint4>(ckci_k_buffer_load(w.v, offset, more, 0));
#endif
#else
    ckci_k_uint4 zero = {0, 0, 0, 0};
    return offset < 0 ? zero : *(const ckci_k_uint4 *)(w.base + ((int64_t)offset + more));
#endif
}

/* A number that is the same for all threads of a wave, as the compiler does not see. */
CKCI_K_FN int32_t ckci_k_same(int32_t x)
{
#if defined(__HIP_DEVICE_COMPILE__)
    return __builtin_amdgcn_readfirstlane(x);
#else
    return x;
#endif
}

/* A barrier for LDS alone: __syncthreads also waits for loads from memory on some targets. */
CKCI_K_FN void ckci_k_lds_barrier()
{
#if defined(__HIP_DEVICE_COMPILE__) && defined(__GFX12__)
    asm volatile("s_wait_dscnt 0x0\n\ts_barrier_signal -1\n\ts_barrier_wait -1" ::: "memory");
#elif defined(__HIP_DEVICE_COMPILE__)
    asm volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" ::: "memory");
#else
    __syncthreads();
#endif
}

/* A pointer that is not to be computed anew. */
CKCI_K_FN void ckci_k_known(const unsigned char *&p)
{
#if defined(__CUDA_ARCH__)
    asm volatile("" : "+l"(p));
#else
    (void)p;
#endif
}

/* 16 bytes (size 0: zeros) straight into LDS, as ckci_k_copy_late, but past the first cache. */
CKCI_K_FN void ckci_k_copy_from(unsigned char *to, const unsigned char *from, int32_t size)
{
#if defined(__CUDA_ARCH__)
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
        "l"(from), "r"(size)
        : "memory");
#else
    const ckci_k_uint4 zero = {0, 0, 0, 0};
    *(ckci_k_uint4 *)to = size == 0 ? zero : *(const ckci_k_uint4 *)from;
#endif
}

#if defined(CKCI_K_MMA)
CKCI_K_FN void ckci_k_copy(unsigned char *to, const ckci_k_window &w, int32_t offset, int32_t size)
{
    ckci_k_copy_from(to, w.base + (uint32_t)offset, size);
}
#endif

CKCI_K_FN int32_t ckci_k_add(int32_t a, int32_t b, int32_t c)
{
    return (int32_t)((uint32_t)a + (uint32_t)b + (uint32_t)c);
}

/* (low half of a, low half of b) or (high, high) */
template <int HIGH> CKCI_K_FN uint32_t ckci_k_halves(uint32_t a, uint32_t b)
{
#if defined(__HIP_DEVICE_COMPILE__)
    return __builtin_amdgcn_perm(b, a, HIGH ? 0x07060302u : 0x05040100u);
#elif defined(__CUDA_ARCH__)
    return __byte_perm(a, b, HIGH ? 0x7632u : 0x5410u);
#else
    return HIGH ? a >> 16 | (b & 0xffff0000u) : (a & 0xffffu) | b << 16;
#endif
}

/* A block's tile: U's fragments in TM x TN per wave, waves in WM x WN. Both operands lie in one tile, rows of
   the first, then of the second; ACROSS (1: both, 2: the second): in slabs of 64 rows, whose rows in LDS are
   places of the reduction. */
template <class U, int BM, int BN, int ACROSS> struct ckci_k_grid {
    enum {
        THREADS = 256,
        WAVES = THREADS / U::WAVE,
        WM = BM == 32   ? WAVES / 4
             : BN == 32 ? 4
                        : 2,
        WN = WAVES / WM,
        ROWS = BM / WM, /* of a wave */
        COLUMNS = BN / WN,
        TM = ROWS / U::M,
        TN = COLUMNS / U::N,
        FIRST = ACROSS == 1 ? (BM + 63) / 64 * 64 : BM, /* where the second operand begins */
        TILE = (FIRST + (ACROSS ? (BN + 63) / 64 * 64 : BN)) * U::KB,
        STAGES = U::ASYNC ? 3 : 1,
        STRIP = COLUMNS < 32        ? COLUMNS /* columns that pass through LDS together */
                : COLUMNS % 32 == 0 ? 32
                                    : 16,
        PITCH = STRIP + 4,
        STRIPS = WAVES * U::M * PITCH * (int)sizeof(typename U::number),
        BYTES = STAGES * TILE > STRIPS ? STAGES *TILE : STRIPS
    };
    static_assert(TM >= 1 && TN >= 1 && STRIP % U::N == 0, "a wave owns at least one fragment");
};

/* The tile loop. ASYNC: the block's copies into LDS are two steps ahead, one barrier for each step. Else a
   tile lies in LDS, the next in registers: once all waves hold the first as operands, the second replaces it
   and the loads of the third begin; two barriers for each step, with the multiplications around the first. */
template <class U, int BM, int BN, int ACROSS> struct ckci_k_fragments {
    typedef ckci_k_grid<U, BM, BN, ACROSS> G;
    enum { KB = U::KB, BYTES = G::BYTES, SIXTEEN = 0, SUMS_WIDE = U::ASYNC ? 8 : 4, SIZE = U::SIZE };
    typedef U unit;
    typedef typename U::number number;
    typename U::sums sum[G::TM][G::TN];

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < G::TM * G::TN; i++) {
            CKCI_K_UNROLL(16)
            for (int e = 0; e < U::SUMS; e++) {
                sum[i / G::TN][i % G::TN].v[e] = 0;
            }
        }
    }

    template <class T, class Loader>
    CKCI_K_MEMBER void loop(unsigned char *tiles, Loader &loader, int32_t steps)
    {
        if constexpr (U::ASYNC) {
            ahead<T>(tiles, loader, steps);
            return;
        } else {
            if (loader.plain()) {
                behind<T, 1>(tiles, loader, steps);
            } else if constexpr (BM * BN < 256 * 256) { /* the planner takes that for plain loads only */
                behind<T, 0>(tiles, loader, steps);
            }
        }
    }

    /* A loader looks SEGMENT steps ahead (0: has nothing to look up) each time that next() is called. */
    template <class T, int PLAIN, class Loader>
    CKCI_K_MEMBER void behind(unsigned char *tile, Loader &loader, int32_t steps)
    {
        loader.template begin<PLAIN>();
        loader.template fetch<PLAIN>(0);
        loader.template put<T>(tile);
        loader.template fetch<PLAIN>(1);
        ckci_k_lds_barrier();
        for (int32_t s = 0; s < steps;) {
            int32_t end = steps;
            if constexpr (Loader::SEGMENT > 0) {
                loader.next(s);
                end = s + Loader::SEGMENT < steps ? s + Loader::SEGMENT : steps;
            }
            CKCI_K_UNROLL(1)
            for (; s < end; s++) {
                step<T, PLAIN>(tile, loader, s);
            }
        }
    }

    template <class T, int PLAIN, class Loader>
    CKCI_K_MEMBER void step(unsigned char *tile, Loader &loader, int32_t s)
    {
        enum { SLICES = U::KB / U::STEP };
        typename U::operand a[SLICES][G::TM], b[SLICES][G::TN];
        static_assert(SLICES <= 4, "an index known at compile time keeps operands in registers");
        operands(tile, 0, a[0], b[0]);
        CKCI_K_UNROLL(4)
        for (int k = 1; k < SLICES; k++) {
            operands(tile, k * U::STEP, a[k], b[k]);
            multiply<T>(a[k - 1], b[k - 1]);
        }
        ckci_k_lds_barrier();
        loader.template put<T>(tile);
        loader.template fetch<PLAIN>(s + 2);
        multiply<T>(a[SLICES - 1], b[SLICES - 1]);
        ckci_k_lds_barrier();
    }

    template <class T, class Loader>
    CKCI_K_MEMBER void ahead(unsigned char *tiles, Loader &loader, int32_t steps)
    {
#if defined(CKCI_K_MMA)
        int32_t full = G::TILE, empty = 0;
        CKCI_K_UNROLL(1)
        for (int32_t s = -2; s < steps; s++) {
            if (s >= 0) {
                ckci_k_copies_wait<1>();
                __syncthreads();
            }
            if (s + 2 < steps) {
                loader.copy(s + 2, tiles + empty);
            }
            ckci_k_copies_end();
            if (s >= 0) {
                multiply<T>(tiles + full);
            }
            full = full == 2 * G::TILE ? 0 : full + G::TILE;
            empty = empty == 2 * G::TILE ? 0 : empty + G::TILE;
        }
        ckci_k_copies_wait<0>();
#else
        (void)tiles;
        (void)loader;
        (void)steps;
#endif
    }

    template <int IS_ACROSS>
    static CKCI_K_MEMBER typename U::operand load(const unsigned char *tile, int row0, int at)
    {
        if constexpr (IS_ACROSS) {
            return U::load_across(tile, row0, at);
        } else {
            return U::load(tile, row0, at);
        }
    }

    template <class T> CKCI_K_MEMBER void multiply(const unsigned char *tile)
    {
        CKCI_K_UNROLL(8)
        for (int at = 0; at < U::KB; at += U::STEP) {
            typename U::operand a[G::TM], b[G::TN];
            operands(tile, at, a, b);
            multiply<T>(a, b);
        }
    }

    static CKCI_K_MEMBER void operands(const unsigned char *tile, int at, typename U::operand (&a)[G::TM],
                                       typename U::operand (&b)[G::TN])
    {
        int wave = (int)threadIdx.x / U::WAVE, row = wave / G::WN * G::ROWS,
            column = G::FIRST + wave % G::WN * G::COLUMNS;
        CKCI_K_UNROLL(8)
        for (int i = 0; i < G::TM; i++) {
            a[i] = load<ACROSS == 1>(tile, row + i * U::M, at);
        }
        CKCI_K_UNROLL(8)
        for (int j = 0; j < G::TN; j++) {
            b[j] = load<ACROSS != 0>(tile, column + j * U::N, at);
        }
    }

    template <class T>
    CKCI_K_MEMBER void multiply(const typename U::operand (&a)[G::TM], const typename U::operand (&b)[G::TN])
    {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < G::TM; i++) {
            CKCI_K_UNROLL(8)
            for (int j = 0; j < G::TN; j++) {
                U::template multiply<T>(sum[i][j], a[i], b[j]);
            }
        }
    }

    /* Sums through LDS, a strip of M rows for each wave at a time, so that neighbouring threads write
       neighbouring outputs. out(row, column, v, count): sums of `count` columns, 1 or WIDE. The code of out
       stands once, but where no registers are to spare for a loop that keeps all sums. In that loop sums move
       up a strip (SHIFT) where the compiler would otherwise index them, in memory or by long tests. */
    template <int WIDE, class Out> CKCI_K_MEMBER void finish(unsigned char *tiles, bool rows_fast, Out out)
    {
        enum {
            ACROSS_STRIPS = G::TN * U::N / G::STRIP,
            STRIPS = G::TM * ACROSS_STRIPS,
            SHIFT = U::ASYNC || (U::WAVE == 32 && (SIZE == 8 || SIZE == 4)),
            SPREAD = SIZE == 8 && !SHIFT,
            PITCH = WIDE == 4 ? +G::STRIP : +G::PITCH /* so that reads do not meet in the banks */
        };
        int wave = (int)threadIdx.x / U::WAVE, lane = (int)threadIdx.x % U::WAVE;
        number *strip = (number *)tiles + wave * U::M * PITCH;
        int row0 = wave / G::WN * G::ROWS, column0 = wave % G::WN * G::COLUMNS;
        CKCI_K_UNROLL(SPREAD ? 64 : 1)
        for (int n = 0; n < STRIPS; n++) {
            __syncthreads();
            if constexpr (SPREAD) {
                put_strip<PITCH>(strip, n);
            } else if constexpr (SHIFT) {
                put_strip<PITCH>(strip, 0);
                shift_strips();
            } else {
                CKCI_K_UNROLL(16)
                for (int k = 0; k < STRIPS; k++) {
                    if (k == n) {
                        put_strip<PITCH>(strip, k);
                    }
                }
            }
            __syncthreads();
            int row = row0 + n / ACROSS_STRIPS * U::M, column = column0 + n % ACROSS_STRIPS * G::STRIP;
            int count = rows_fast ? 1 : WIDE;
            CKCI_K_UNROLL(1)
            for (int e = lane; e < U::M * G::STRIP / count; e += U::WAVE) {
                int r = rows_fast ? e % U::M : e / (G::STRIP / WIDE);
                int c = rows_fast ? e / U::M : e % (G::STRIP / WIDE) * WIDE;
                out(row + r, column + c, strip + r * PITCH + c, count);
            }
        }
    }

    /* The next strip takes the first one's place: indices known at compile time keep sums in registers. */
    CKCI_K_MEMBER void shift_strips()
    {
        enum { PER = G::STRIP / U::N };
        CKCI_K_UNROLL(16)
        for (int k = 0; k < G::TM * G::TN - PER; k++) {
            sum[k / G::TN][k % G::TN] = sum[(k + PER) / G::TN][(k + PER) % G::TN];
        }
    }

    template <int PITCH> CKCI_K_MEMBER void put_strip(number *strip, int n) const
    {
        enum { PER = G::STRIP / U::N, EACH = G::TN / PER };
        CKCI_K_UNROLL(8)
        for (int s = 0; s < PER; s++) {
            CKCI_K_UNROLL(16)
            for (int e = 0; e < U::SUMS; e++) {
                strip[U::row(e) * PITCH + s * U::N + U::column(e)] = sum[n / EACH][n % EACH * PER + s].v[e];
            }
        }
    }
};

#if defined(CKCI_K_WGMMA)
/* NVIDIA sm_90a: four waves multiply together, and both operands come straight from LDS. In fwd and bwd_data
   the instruction's rows are a block's columns (output channels), its columns the rows (positions), so that
   the many positions are its 128 to 256 columns; in bwd_weight (ACROSS) they are as they are. */
#if !defined(CKCI_SIMULATOR)
#define CKCI_K_SUMS_32                                                                                       \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "        \
    "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define CKCI_K_SUMS_64                                                                                       \
    CKCI_K_SUMS_32                                                                                           \
    ", "                                                                                                     \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, "        \
    "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define CKCI_K_SUMS_96                                                                                       \
    CKCI_K_SUMS_64                                                                                           \
    ", "                                                                                                     \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, "        \
    "%83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define CKCI_K_SUMS_128                                                                                      \
    CKCI_K_SUMS_96                                                                                           \
    ", "                                                                                                     \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "           \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define CKCI_K_SUM8(d, i)                                                                                    \
    "+f"((d)[i]), "+f"((d)[i + 1]), "+f"((d)[i + 2]), "+f"((d)[i + 3]), "+f"((d)[i + 4]), "+f"((d)[i + 5]),  \
        "+f"((d)[i + 6]), "+f"((d)[i + 7])
#define CKCI_K_SUM32(d, i)                                                                                   \
    CKCI_K_SUM8(d, i), CKCI_K_SUM8(d, i + 8), CKCI_K_SUM8(d, i + 16), CKCI_K_SUM8(d, i + 24)
/* columns, types, names of the sums, operands after them (two descriptors, transposed), the sums */
#define CKCI_K_WGMMA_ASM(N, TYPES, SUMS, A, B, TA, TB, ...)                                                  \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\nwgmma.mma_async.sync.aligned.m64n" N               \
                 "k16.f32." TYPES " {" SUMS "}, " A ", " B ", p, 1, 1, " TA ", " TB ";\n}"                   \
                 : __VA_ARGS__                                                                               \
                 : "l"(a), "l"(b), "n"(ACROSS != 0), "n"(ACROSS == 1))

/* An operand's descriptor: where it begins in LDS (in 16 bytes), and how it goes on: 128-byte swizzle, 1024
   bytes to the next eight rows, slabs (of 64 rows or columns, where they lie across) 8192 bytes apart. */
CKCI_K_FN uint64_t ckci_k_describe(uint32_t at)
{
    return (uint64_t)(1u << 30 | 64u) << 32 | (512u << 16 | at);
}

template <class T, int N, int ACROSS> CKCI_K_FN void ckci_k_multiply_groups(float *d, uint64_t a, uint64_t b)
{
    if constexpr (N == 256 && T::TYPE == CKCONV_F16) {
        CKCI_K_WGMMA_ASM("256", "f16.f16", CKCI_K_SUMS_128, "%128", "%129", "%130", "%131",
                         CKCI_K_SUM32(d, 0), CKCI_K_SUM32(d, 32), CKCI_K_SUM32(d, 64), CKCI_K_SUM32(d, 96));
    } else if constexpr (N == 256 && T::TYPE == CKCONV_BF16) {
        CKCI_K_WGMMA_ASM("256", "bf16.bf16", CKCI_K_SUMS_128, "%128", "%129", "%130", "%131",
                         CKCI_K_SUM32(d, 0), CKCI_K_SUM32(d, 32), CKCI_K_SUM32(d, 64), CKCI_K_SUM32(d, 96));
    } else if constexpr (N == 192 && T::TYPE == CKCONV_F16) {
        CKCI_K_WGMMA_ASM("192", "f16.f16", CKCI_K_SUMS_96, "%96", "%97", "%98", "%99", CKCI_K_SUM32(d, 0),
                         CKCI_K_SUM32(d, 32), CKCI_K_SUM32(d, 64));
    } else if constexpr (N == 192 && T::TYPE == CKCONV_BF16) {
        CKCI_K_WGMMA_ASM("192", "bf16.bf16", CKCI_K_SUMS_96, "%96", "%97", "%98", "%99", CKCI_K_SUM32(d, 0),
                         CKCI_K_SUM32(d, 32), CKCI_K_SUM32(d, 64));
    } else if constexpr (N == 128 && T::TYPE == CKCONV_F16) {
        CKCI_K_WGMMA_ASM("128", "f16.f16", CKCI_K_SUMS_64, "%64", "%65", "%66", "%67", CKCI_K_SUM32(d, 0),
                         CKCI_K_SUM32(d, 32));
    } else if constexpr (N == 128 && T::TYPE == CKCONV_BF16) {
        CKCI_K_WGMMA_ASM("128", "bf16.bf16", CKCI_K_SUMS_64, "%64", "%65", "%66", "%67", CKCI_K_SUM32(d, 0),
                         CKCI_K_SUM32(d, 32));
    } else if constexpr (N == 64 && T::TYPE == CKCONV_F16) {
        CKCI_K_WGMMA_ASM("64", "f16.f16", CKCI_K_SUMS_32, "%32", "%33", "%34", "%35", CKCI_K_SUM32(d, 0));
    } else if constexpr (N == 64 && T::TYPE == CKCONV_BF16) {
        CKCI_K_WGMMA_ASM("64", "bf16.bf16", CKCI_K_SUMS_32, "%32", "%33", "%34", "%35", CKCI_K_SUM32(d, 0));
    }
}
#endif

/* The tile loop of ckci_k_fragments for such groups of waves. Loads are two steps ahead, with five tiles in
   LDS three; their tile is free once all have multiplied what it held and met at the barrier. With four tiles
   a step's products are still under way at the next one's barrier. */
template <int BM, int BN, int ACROSS> struct ckci_k_groups {
    enum {
        KB = 128,
        STAGES = CKCI_GROUP_STAGES(BM + BN),
        FLYING = STAGES > 3,         /* steps that are being multiplied at a barrier */
        AHEAD = STAGES - 1 - FLYING, /* steps whose copies are on their way */
        SECOND = BM * KB,            /* the second operand in a tile */
        TILE = (BM + BN) * KB,
        DOWN = (ACROSS == 1 ? BM : BN) / 64, /* groups along the instruction's rows, 1 or 2 */
        WIDE = ACROSS == 1 ? BN : BM,
        UNEVEN = DOWN == 1 && WIDE == 192,  /* whole slabs: the second group has 64 columns */
        N = UNEVEN ? 128 : WIDE * DOWN / 2, /* the instruction's columns */
        PITCH = BN + 4,
        STRIPS = BM * PITCH * 4,
        BYTES = STAGES * TILE > STRIPS ? STAGES *TILE : STRIPS
    };
    enum { SIXTEEN = 1, SUMS_WIDE = 8, SIZE = CKCI_K_HALF };
    typedef float number;
    static_assert(DOWN == 1 || DOWN == 2, "two groups of four waves");
    float sum[N / 2];
    int32_t at_a, at_b; /* what this thread's group multiplies in a tile, the same for all of a wave */
    bool half;          /* and whether it has half of N columns */

    CKCI_K_MEMBER ckci_k_groups()
    {
        int32_t group = (int32_t)threadIdx.x / 128;
#if defined(__CUDA_ARCH__)
        group = __shfl_sync(0xffffffffu, group, 0); /* so that compilers see it */
#endif
        at_a = (ACROSS == 1 ? 0 : SECOND) + (DOWN == 2 ? group * 64 * KB : 0);
        at_b = (ACROSS == 1 ? SECOND : 0) + (DOWN == 2 ? 0 : group * N * KB);
        half = UNEVEN && group == 1;
    }

    CKCI_K_MEMBER void hold()
    {
#if defined(__CUDA_ARCH__)
        CKCI_K_UNROLL(128)
        for (int i = 0; i < N / 2; i++) {
            asm volatile("" : "+f"(sum[i])::"memory");
        }
#endif
    }

    template <int COUNT> CKCI_K_MEMBER void wait()
    {
#if defined(__CUDA_ARCH__)
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(COUNT) : "memory");
#endif
        hold();
    }

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(128)
        for (int i = 0; i < N / 2; i++) {
            sum[i] = 0;
        }
    }

    template <class T, class Loader>
    CKCI_K_MEMBER void loop(unsigned char *tiles, Loader &loader, int32_t steps)
    {
        int32_t full = (STAGES - AHEAD) * TILE, empty = 0;
        CKCI_K_UNROLL(1)
        for (int32_t s = -AHEAD; s < steps; s++) {
            if (s >= 0) {
                ckci_k_copies_wait<AHEAD - 1>();
                arrive();
                multiply<T>(tiles, full);
            }
            if (s + AHEAD < steps) {
                loader.copy(s + AHEAD, tiles + empty);
            }
            ckci_k_copies_end();
            full = full == (STAGES - 1) * TILE ? 0 : full + TILE;
            empty = empty == (STAGES - 1) * TILE ? 0 : empty + TILE;
        }
        wait<0>();
    }

    /* To the barrier at which a step's tile is complete and all but FLYING steps are multiplied. */
    CKCI_K_MEMBER void arrive()
    {
        wait<FLYING>();
#if defined(__CUDA_ARCH__)
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
        __syncthreads();
    }

    template <class T> CKCI_K_MEMBER void multiply(const unsigned char *tiles, int32_t full)
    {
        hold();
#if defined(__CUDA_ARCH__)
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
        if constexpr (UNEVEN) {
            if (half) {
                multiply_columns<T, N / 2>(tiles, full);
            } else {
                multiply_columns<T, N>(tiles, full);
            }
        } else {
            multiply_columns<T, N>(tiles, full);
        }
#if defined(__CUDA_ARCH__)
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
        hold();
    }

    template <class T, int COUNT>
    CKCI_K_MEMBER void multiply_columns(const unsigned char *tiles, int32_t full)
    {
        const int32_t a = full + at_a, b = full + at_b;
#if defined(__CUDA_ARCH__)
        const uint32_t start = (uint32_t)__cvta_generic_to_shared(tiles), from_a = (start + (uint32_t)a) >> 4,
                       from_b = (start + (uint32_t)b) >> 4;
#endif
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            const int more_a = ACROSS ? i * 16 * KB : i * 32, more_b = ACROSS == 1 ? i * 16 * KB : i * 32;
#if defined(CKCI_SIMULATOR)
            sim_wgmma_m64nNk16<T>(sum, tiles + a + more_a, tiles + b + more_b, COUNT, ACROSS != 0,
                                  ACROSS == 1);
#else
            ckci_k_multiply_groups<T, COUNT, ACROSS>(sum, ckci_k_describe(from_a + (uint32_t)more_a / 16),
                                                     ckci_k_describe(from_b + (uint32_t)more_b / 16));
#endif
        }
    }

    /* Sums to f16 or bf16, transposed in blocks of 8 x 8 on the way to LDS, and from there to rows at
       out + 2 * places[row] (-1: none), of which `columns` columns exist. A group's 64 columns lie in a tile
       whose products are done: those before `full`, the two last ones where there are four or more. */
    CKCI_K_MEMBER void finish16(unsigned char *tiles, int32_t full, int32_t dtype, const int32_t *places,
                                int32_t columns, unsigned char *out)
    {
        const int thread = (int)threadIdx.x % 128, lane = thread % 32, group = (int)threadIdx.x / 128;
        const int column = thread / 32 * 2 + lane / 8 % 2, row = lane / 16 * 8 + lane % 8; /* in eights; */
        int32_t at = full - (FLYING ? 1 + group : 1) * TILE;
        at = (at < 0 ? at + STAGES * TILE : at) + (FLYING ? 0 : group * N * 128);
        unsigned char *to = tiles + at + row * 128 + (column ^ (lane & 7)) * 16;
        __syncthreads();
        CKCI_K_UNROLL(16)
        for (int j = 0; j < N / 8; j += 2) {
            uint32_t two[4];
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                two[i] =
                    ckci_k_two(dtype, ckci_k_bits(sum[4 * j + 2 * i]), ckci_k_bits(sum[4 * j + 2 * i + 1]));
            }
#if defined(CKCI_SIMULATOR)
            sim_stmatrix_x4_trans(to + j * 1024, two);
#else
            asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                             (uint32_t)__cvta_generic_to_shared(to + j * 1024)),
                         "r"(two[0]), "r"(two[1]), "r"(two[2]), "r"(two[3])
                         : "memory");
#endif
        }
#if defined(__CUDA_ARCH__)
        asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
#else
        __syncthreads();
#endif
        const int r0 = thread / 8, c = thread % 8, from = DOWN == 2 ? group * 64 : 0;
        const bool good = from + c * 8 < columns;
        places += (DOWN == 2 ? 0 : group * N) + r0;
        out += 2 * (from + c * 8);
        CKCI_K_UNROLL(8)
        for (int r = 0; r < N; r += 16) {
            const ckci_k_uint4 v = *(const ckci_k_uint4 *)(tiles + at + (r0 + r) * 128 + (c ^ (r0 & 7)) * 16);
            if (good && places[r] >= 0) {
                *(ckci_k_uint4 *)(out + 2 * (int64_t)places[r]) = v;
            }
        }
    }

    /* Sums as they lie in registers, as f32, f16 or bf16: of so many rows and columns (an even number), to
       rows that are `pitch` numbers apart. Four threads fill a sector of f32. */
    CKCI_K_MEMBER void store(unsigned char *to, int64_t pitch, int32_t rows, int32_t columns,
                             int32_t dtype) const
    {
        const int thread = (int)threadIdx.x, lane = thread % 32, group = thread / 128;
        const int row = (DOWN == 2 ? group * 64 : 0) + thread % 128 / 32 * 16 + lane / 4;
        const int column = (DOWN == 2 ? 0 : group * N) + lane % 4 * 2, size = dtype == CKCONV_F32 ? 4 : 2;
        unsigned char *down = to + size * ((row + 8) * pitch + column);
        const bool above = row < rows, below = row + 8 < rows;
        to += size * (row * pitch + column);
        columns -= column;
        CKCI_K_UNROLL(32)
        for (int i = 0; i < N / 8; i++) {
            if (i * 8 >= columns || (i >= N / 16 && half)) {
                return;
            }
            if (above) {
                pair(to, i, dtype, sum[4 * i], sum[4 * i + 1]);
            }
            if (below) {
                pair(down, i, dtype, sum[4 * i + 2], sum[4 * i + 3]);
            }
        }
    }

    static CKCI_K_MEMBER void pair(unsigned char *to, int i, int32_t dtype, float x, float y)
    {
        if (dtype == CKCONV_F32) {
            const ckci_k_uint2 two = {ckci_k_bits(x), ckci_k_bits(y)};
            *(ckci_k_uint2 *)(to + i * 32) = two;
        } else {
            *(uint32_t *)(to + i * 16) = ckci_k_two(dtype, ckci_k_bits(x), ckci_k_bits(y));
        }
    }

    /* Sums through LDS, all at once; see ckci_k_fragments::finish. */
    template <int, class Out> CKCI_K_MEMBER void finish(unsigned char *tiles, bool rows_fast, Out out)
    {
        int thread = (int)threadIdx.x, lane = thread % 32, group = thread / 128;
        int row0 = (DOWN == 2 ? group * 64 : 0) + thread % 128 / 32 * 16 + lane / 4;
        int column0 = (DOWN == 2 ? 0 : group * N) + lane % 4 * 2;
        float *strip = (float *)tiles;
        __syncthreads();
        CKCI_K_UNROLL(128)
        for (int i = 0; i < N / 2; i++) {
            int row = row0 + i % 4 / 2 * 8, column = column0 + i / 4 * 8 + i % 2;
            if (i < N / 4 || !half) {
                strip[ACROSS == 1 ? row * PITCH + column : column * PITCH + row] = sum[i];
            }
        }
        __syncthreads();
        int count = rows_fast ? 1 : 8;
        CKCI_K_UNROLL(1)
        for (int e = thread; e < BM * BN / count; e += 256) {
            int r = rows_fast ? e % BM : e / (BN / 8), c = rows_fast ? e / BM : e % (BN / 8) * 8;
            out(r, c, strip + r * PITCH + c, count);
        }
    }
};
#endif

/* All of a block's tile loop, F: fragments or groups. type: what is multiplied, but by units of one type. */
template <class F, class Loader>
CKCI_K_FN void ckci_k_multiply_all(F &f, unsigned char *tiles, Loader &loader, int32_t steps,
                                   ckconv_dtype type)
{
    f.clear();
    if (steps <= 0) {
        return;
    }
    if constexpr (F::SIZE == 1) {
        f.template loop<ckci_k_i8>(tiles, loader, steps);
    } else if constexpr (F::SIZE == 8) {
        f.template loop<ckci_k_f64>(tiles, loader, steps);
    } else if constexpr (F::SIZE == 4) {
        if constexpr (F::unit::F32) {
            if (!F::unit::TF32 || type == CKCONV_F32) {
                f.template loop<ckci_k_f32>(tiles, loader, steps);
            }
        }
        if constexpr (F::unit::TF32) {
            if (!F::unit::F32 || type == CKCONV_TF32) {
                f.template loop<ckci_k_tf32>(tiles, loader, steps);
            }
        }
    } else if (type == CKCONV_BF16) {
        f.template loop<ckci_k_bf16>(tiles, loader, steps);
    } else {
        f.template loop<ckci_k_f16>(tiles, loader, steps);
    }
}

/* Eight neighbouring finished values, aligned together. */
CKCI_K_FN void ckci_k_store8(int32_t dtype, unsigned char *p, const int32_t *v)
{
    if (dtype == CKCONV_I32) {
        ((ckci_k_uint4 *)p)[0] = *(const ckci_k_uint4 *)v;
        ((ckci_k_uint4 *)p)[1] = *(const ckci_k_uint4 *)(v + 4);
        return;
    }
    uint32_t two[2] = {0, 0};
    CKCI_K_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        int32_t x = v[i] < -128 ? -128 : v[i] > 127 ? 127 : v[i];
        two[i / 4] |= ((uint32_t)x & 0xffu) << i % 4 * 8;
    }
    const ckci_k_uint2 packed = {two[0], two[1]};
    *(ckci_k_uint2 *)p = packed;
}

CKCI_K_FN void ckci_k_store8(int32_t, unsigned char *p, const double *v)
{
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        ((ckci_k_uint4 *)p)[i] = ((const ckci_k_uint4 *)v)[i];
    }
}

CKCI_K_FN void ckci_k_store8(int32_t dtype, unsigned char *p, const float *v)
{
    if (dtype == CKCONV_F32) {
        ((ckci_k_uint4 *)p)[0] = *(const ckci_k_uint4 *)v;
        ((ckci_k_uint4 *)p)[1] = *(const ckci_k_uint4 *)(v + 4);
        return;
    }
    ckci_k_uint4 a = ((const ckci_k_uint4 *)v)[0], b = ((const ckci_k_uint4 *)v)[1], packed;
    packed.x = ckci_k_two(dtype, a.x, a.y);
    packed.y = ckci_k_two(dtype, a.z, a.w);
    packed.z = ckci_k_two(dtype, b.x, b.y);
    packed.w = ckci_k_two(dtype, b.z, b.w);
    *(ckci_k_uint4 *)p = packed;
}

/* `count` (1 or 8) columns c, ... of one position. v lies in LDS and is overwritten. */
template <class T>
CKCI_K_FN void ckci_k_write8(const ckci_gpu_conv &conv, T *v, int32_t count, int32_t g, int32_t n, int32_t c,
                             int32_t columns, int32_t z, int32_t y, int32_t x)
{
    const ckci_gpu_conv &p = ckci_k_late(conv);
    const bool together = p.o_vec && count == 8;
    if (!together || p.o.t.op.kind != CKCONV_PASS || p.o.scale || p.o.shift || p.o.compute) {
        CKCI_K_UNROLL(1)
        for (int i = 0; i < count && c + i < columns; i++) {
            v[i] = ckci_k_finish<T>(p.o, v[i], g, n, c + i, z, y, x);
            if (!together) {
                ckci_k_put<T>(p.o, v[i], g, n, c + i, z, y, x);
            }
        }
    }
    if (!together) {
        return;
    }
    const ckci_tensor &t = p.o.t;
    int64_t at = g * t.stride[0] + n * t.stride[1] + c + z * t.stride[3] + y * t.stride[4] + x * t.stride[5];
    ckci_k_store8(t.dtype, t.p + at * ckci_k_size(t.dtype), v);
}

/* A bit for each tap t of a dimension for which first + t * step lies outside 0 to len - 1. */
CKCI_K_FN uint32_t ckci_k_bad_taps(int32_t first, int32_t taps, int32_t step, int32_t len)
{
    if (step == 1 || step == -1) {
        int32_t low = step > 0 ? -first : first - len + 1, high = step > 0 ? len - first : first + 1;
        low = low < 0 ? 0 : low > taps ? taps : low;
        high = high < low ? low : high > taps ? taps : high;
        return ((1u << taps) - 1) & ~((1u << high) - (1u << low));
    }
    uint32_t bad = 0;
    CKCI_K_UNROLL(1)
    for (int32_t t = 0; t < taps; t++) {
        bad |= (uint32_t)(first + t * step) < (uint32_t)len ? 0u : 1u << t;
    }
    return bad;
}

/* Which taps of a row or position lie on padding. Masks: a bit for each tap of each dimension (z above y
   above x), bit 31 always set; a tap needs three clear bits. Ranges, where one dimension alone has several
   taps: taps low to low + count - 1 are good. Either way the sign of `bad` tells. */
struct ckci_k_hole {
    uint32_t word;

    CKCI_K_MEMBER void close(int32_t ranges)
    {
        word = ranges ? 0u : 0xffffffffu;
    }

    CKCI_K_MEMBER void open(int32_t ranges)
    {
        word = ranges ? (uint32_t)CKCI_K_TAPS << 16 : 0x80000000u;
    }

    /* A dimension: coordinate at tap 0, taps and the step between them, its end; the first of its bits. */
    CKCI_K_MEMBER void add(int32_t ranges, int32_t first, int32_t taps, int32_t step, int32_t end, int shift)
    {
        if (!ranges) {
            word |= ckci_k_bad_taps(first, taps, step, end) << shift;
            return;
        }
        int32_t low = 0, high = 0;
        for (int32_t t = taps - 1; t >= 0; t--) {
            if ((uint32_t)(first + t * step) < (uint32_t)end) {
                low = t;
                high = high == 0 ? t + 1 : high;
            }
        }
        if (taps > 1) {
            word = word == 0 ? 0 : (uint32_t)(high - low) << 16 | (uint32_t)low;
        } else if (high == 0) {
            word = 0;
        }
    }

    /* All dimensions of what reads from z, y, x on; taps in each of them. One after the other, so that the
       code stands once. */
    CKCI_K_MEMBER void add_all(int32_t ranges, const ckci_gpu_dim dim[3], const ckci_k_place &q,
                               int32_t taps_z, int32_t taps_y, int32_t taps_x)
    {
        int32_t shift = 0;
        CKCI_K_UNROLL(1)
        for (int i = 2; i >= 0; i--) {
            int32_t first = i == 2 ? q.x : i == 1 ? q.y : q.z;
            int32_t taps = i == 2 ? taps_x : i == 1 ? taps_y : taps_z;
            add(ranges, first, taps, dim[i].read_tap, dim[i].read_len, shift);
            shift += taps;
        }
    }

    CKCI_K_MEMBER bool good(int32_t ranges, int32_t tap, uint32_t need) const
    {
        return ranges ? bad(1, tap, need) >= 0 : (word & need) == 0;
    }

    CKCI_K_MEMBER int32_t bad(int32_t ranges, int32_t tap, uint32_t need) const
    {
        if (!ranges) {
            return (int32_t)(0u - (word & need));
        }
        int32_t past = tap - (int32_t)(word & 0xffffu);
        return (past | ((int32_t)(word >> 16) - 1 - past)) & INT32_MIN;
    }
};

/* The taps of a phase, in LDS: byte offsets in both operands, and what the tap needs of a row. One more entry
   follows them, a tap that is never good. bwd_weight: the positions of a step, with their holes in `need`. */
struct alignas(16) ckci_k_tap_entry {
    int32_t a, b;
    uint32_t need;
    int32_t unused;
};

/* A row of a block: its offset at the first tap, and which taps lie on padding. */
struct ckci_k_row_entry {
    int32_t at;
    ckci_k_hole hole;
};

/* ---- fwd and bwd_data. Rows, columns and the reduction are those of >>k-gather; the reduction is taken in
   chunks of 16 bytes, which lie in one tap: the channels of a tap are a multiple of a chunk. A thread fetches
   chunks of one place in the reduction, of several rows and columns. Rows keep the offset of their first tap
   and what lies on padding, taps their offsets (in LDS), so that a chunk costs an addition and a test. */
template <class U, int BM, int BN, int BACK> struct ckci_k_gather_chunks {
    enum {
        CHUNKS = U::KB / 16,
        EACH = 256 / CHUNKS, /* rows that the block fetches at a time */
        A = (BM + EACH - 1) / EACH,
        B = (BN + EACH - 1) / EACH,
        SLABS = (BN + 63) / 64,
        SEGMENT = 0,
        LOOPS = U::ASYNC, /* a block may take several tiles */
        SIZE = U::SIZE    /* of an element */
    };
    const ckci_gpu_conv &p;
    const ckci_k_tap_entry *taps;
    ckci_k_window wa, wb;
    int32_t tap, at, count, red, first; /* at: bytes past the first channel of the tap */
    int32_t next_a, next_b, need;       /* of plain steps */
    int32_t down;                       /* BACK: bytes past the first row of weights */
    int32_t a_at[A], b_at[B];
    ckci_k_hole hole[A];
    ckci_k_uint4 a_raw[A], b_raw[B];

    CKCI_K_MEMBER ckci_k_gather_chunks(const ckci_gpu_conv &conv, const ckci_k_block &b,
                                       ckci_k_tap_entry *table, ckci_k_row_entry *rows)
        : p(conv), taps(table)
    {
        const ckci_k_axis *axis = b.axis;
        count = axis[0].taps * axis[1].taps * axis[2].taps;
        red = p.red * SIZE;
        next_a = next_b = need = 0;
        int32_t row_low = 0, tap_low = 0; /* what makes all offsets of rows and of taps positive */
        if constexpr (!U::ASYNC) {
            CKCI_K_UNROLL(3)
            for (int i = 0; i < 3; i++) {
                int32_t reach = (axis[i].taps - 1) * p.dim[i].read_tap, step = (int32_t)p.a.stride[3 + i];
                row_low += axis[i].read0 < 0 ? axis[i].read0 * step : 0;
                tap_low += reach < 0 ? reach * step : 0;
            }
            row_low *= SIZE;
            tap_low *= SIZE;
        }
        fill(axis, count, table, tap_low);
        ckci_k_place start = ckci_k_row(axis, b.row);
        for (int r = (int)threadIdx.x; r < BM; r += 256) {
            rows[r] = row(axis, ckci_k_row(axis, b.row + r), start.n);
            rows[r].at -= row_low;
        }
        __syncthreads();
        wa = ckci_k_make_window(p.a.p + SIZE * (b.group * p.a.stride[0] + start.n * p.a.stride[1]) +
                                (row_low + tap_low));
        wb = ckci_k_make_window(p.b.p + SIZE * (b.group * p.b.stride[0] + b.column * p.b_column));
        settle(b.column, rows);
    }

    /* One that is told later where it reads: settle(), after its windows and tables. */
    explicit CKCI_K_MEMBER ckci_k_gather_chunks(const ckci_gpu_conv &conv) : p(conv)
    {
        red = p.red * SIZE;
        next_a = next_b = need = 0;
    }

    CKCI_K_MEMBER void settle(int32_t column0, const ckci_k_row_entry *rows)
    {
        first = (int32_t)threadIdx.x / CHUNKS;
        at = (int32_t)threadIdx.x % CHUNKS * 16;
        tap = 0;
        wrap();
        CKCI_K_UNROLL(16)
        for (int i = 0; i < A; i++) {
            const ckci_k_row_entry e = rows[(BM >= EACH ? first : first % BM) + i * EACH];
            a_at[i] = e.at;
            hole[i] = e.hole;
        }
        down = 0;
        if constexpr (BACK) {
            const int32_t column = (int32_t)threadIdx.x % CHUNKS * 8;
            CKCI_K_UNROLL(2)
            for (int i = 0; i < SLABS; i++) {
                b_at[i] = column0 + column + i * 64 < p.columns && column + i * 64 < BN
                              ? SIZE * (first * (int32_t)p.b_red + column + i * 64)
                              : INT32_MIN;
            }
        } else {
            CKCI_K_UNROLL(8)
            for (int i = 0; i < B; i++) {
                int32_t column = first + i * EACH;
                b_at[i] = column0 + column < p.columns ? SIZE * column * (int32_t)p.b_column : INT32_MIN;
            }
        }
    }

    /* Row q: its offset at the first tap, from batch n0 on, and what lies on padding. */
    CKCI_K_MEMBER ckci_k_row_entry row(const ckci_k_axis axis[3], ckci_k_place q, int32_t n0) const
    {
        const int64_t *s = p.a.stride;
        q.z = q.z * p.dim[0].read_step + axis[0].read0;
        q.y = q.y * p.dim[1].read_step + axis[1].read0;
        q.x = q.x * p.dim[2].read_step + axis[2].read0;
        ckci_k_row_entry e;
        e.at = SIZE * (int32_t)((q.n - n0) * s[1] + q.z * s[3] + q.y * s[4] + q.x * s[5]);
        e.hole.close(p.ranges);
        if (q.n < p.n) {
            e.hole.open(p.ranges);
            e.hole.add_all(p.ranges, p.dim, q, axis[0].taps, axis[1].taps, axis[2].taps);
        }
        return e;
    }

    CKCI_K_MEMBER void fill(const ckci_k_axis axis[3], int32_t all, ckci_k_tap_entry *table,
                            int32_t low) const
    {
        const int64_t *s = p.a.stride;
        for (int32_t i = (int32_t)threadIdx.x; i <= all; i += 256) {
            ckci_k_tap t = ckci_k_find_tap(p, axis, i * p.red);
            ckci_k_tap_entry e = {0, INT32_MIN, 0x80000000u, 0};
            if (i < all) {
                e.a = SIZE * (int32_t)(t.z * p.dim[0].read_tap * s[3] + t.y * p.dim[1].read_tap * s[4] +
                                       t.x * p.dim[2].read_tap * s[5]) -
                      low;
                e.b = SIZE * (int32_t)ckci_k_weight_at(p, axis, t);
                e.need = p.ranges ? 0
                                  : 1u << t.x % 32 | 1u << (axis[2].taps + t.y) % 32 |
                                        1u << (axis[2].taps + axis[1].taps + t.z) % 32;
            }
            table[i] = e;
        }
    }

    CKCI_K_MEMBER void wrap()
    {
        while (at >= red) {
            at -= red;
            tap++;
        }
        tap = tap < count ? tap : count;
    }

    /* To the next step: the next tap of the same channels where no step has several taps, since neighbouring
       taps read the same lines; else the next channels. */
    CKCI_K_MEMBER void advance()
    {
        if (p.taps_inside) {
            if (++tap == count) {
                tap = 0;
                at += U::KB;
                down += SIZE * 64 * (int32_t)p.b_red;
            }
        } else {
            at += U::KB;
            wrap();
        }
    }

    CKCI_K_MEMBER int32_t a_offset(int i, const ckci_k_tap_entry &e) const
    {
        return ckci_k_add(a_at[i], e.a, at) | hole[i].bad(p.ranges, tap, e.need);
    }

    CKCI_K_MEMBER int32_t b_offset(int i, const ckci_k_tap_entry &e) const
    {
        return ckci_k_add(b_at[i], e.b, b_at[i] < 0 ? 0 : at);
    }

    /* Is the tap of a step the same for all threads? Then its offsets lie in scalar registers. */
    CKCI_K_MEMBER bool plain() const
    {
        return p.taps_inside && !p.ranges;
    }

    template <int PLAIN> CKCI_K_MEMBER void begin()
    {
        if constexpr (PLAIN) {
            CKCI_K_UNROLL(8)
            for (int i = 0; i < A; i++) {
                a_at[i] += at;
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < B; i++) {
                b_at[i] += b_at[i] < 0 ? 0 : at;
            }
            at = tap = 0;
            look();
        }
    }

    CKCI_K_MEMBER void look()
    {
        ckci_k_tap_entry e = taps[tap];
        next_a = ckci_k_same(e.a) + at;
        next_b = ckci_k_same(e.b) + at;
        need = ckci_k_same((int32_t)e.need);
    }

    /* Beyond the last step it loads something again. */
    template <int PLAIN> CKCI_K_MEMBER void fetch(int32_t)
    {
        if constexpr (PLAIN) {
            CKCI_K_UNROLL(8)
            for (int i = 0; i < A; i++) {
                int32_t bad = hole[i].bad(0, 0, (uint32_t)need);
                a_raw[i] = ckci_k_window_load(wa, a_at[i] | bad, next_a);
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < B; i++) {
                b_raw[i] = ckci_k_window_load(wb, b_at[i], next_b);
            }
            tap++;
            int32_t wrap = tap == count, last = red - U::KB;
            tap = wrap ? 0 : tap;
            at = !wrap ? at : at < last ? at + U::KB : last;
            look();
        } else {
            ckci_k_tap_entry e = taps[tap];
            CKCI_K_UNROLL(8)
            for (int i = 0; i < A; i++) {
                a_raw[i] = ckci_k_window_load(wa, a_offset(i, e));
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < B; i++) {
                b_raw[i] = ckci_k_window_load(wb, b_offset(i, e));
            }
            at += U::KB;
            wrap();
        }
    }

#if defined(CKCI_K_MMA)
    CKCI_K_MEMBER void copy(int32_t, unsigned char *tile)
    {
        if (p.ranges) {
            copy_step<1>(tile);
        } else {
            copy_step<0>(tile);
        }
        advance();
    }

    template <int RANGES> CKCI_K_MEMBER void copy_step(unsigned char *tile) const
    {
        const ckci_k_tap_entry e = taps[tap];
        const int32_t most = (int32_t)e.need < 0 ? 0 : 16;
        const unsigned char *a = wa.base + (e.a + at);
        unsigned char *to = tile + ckci_k_spot<U::KB>(first, (int)threadIdx.x % CHUNKS);
        ckci_k_known(a);
        CKCI_K_UNROLL(16)
        for (int i = 0; i < A; i++) {
            ckci_k_copy_from(to + i * EACH * U::KB, a + a_at[i], hole[i].good(RANGES, tap, e.need) ? 16 : 0);
        }
        if constexpr (BACK) {
            CKCI_K_UNROLL(2)
            for (int j = 0; j < 2; j++) {
                const int32_t row = ckci_k_add(e.b, down, j * SIZE * 32 * (int32_t)p.b_red);
                CKCI_K_UNROLL(2)
                for (int i = 0; i < SLABS; i++) {
                    ckci_k_copy(to + (BM + i * 64 + j * 32) * U::KB, wb, ckci_k_add(b_at[i], row, 0),
                                b_at[i] < 0 ? 0 : 16);
                }
            }
        } else {
            const int32_t b = ckci_k_add(e.b, at, 0);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < B; i++) {
                ckci_k_copy(to + (BM + i * EACH) * U::KB, wb, ckci_k_add(b_at[i], b, 0),
                            b_at[i] < 0 ? 0 : most);
            }
        }
    }
#endif

    template <class T> CKCI_K_MEMBER void put(unsigned char *tile) const
    {
        int chunk = (int)threadIdx.x % CHUNKS;
        CKCI_K_UNROLL(8)
        for (int i = 0; i < A; i++) {
            if (BM >= EACH || first < BM) {
                *(ckci_k_uint4 *)(tile + ckci_k_spot<U::KB>(first + i * EACH, chunk)) =
                    ckci_k_rounded<T>(a_raw[i]);
            }
        }
        CKCI_K_UNROLL(8)
        for (int i = 0; i < B; i++) {
            if (BN >= EACH || first < BN) {
                *(ckci_k_uint4 *)(tile + ckci_k_spot<U::KB>(BM + first + i * EACH, chunk)) =
                    ckci_k_rounded<T>(b_raw[i]);
            }
        }
    }
};

/* The table holds the taps and, in bwd_weight, eight steps of places in the reduction; rows afterwards their
   offsets in the output. */
template <int BYTES, int ROWS, int PLACES> struct ckci_k_matrix_lds {
    alignas(CKCI_K_TILE_ALIGN) unsigned char tiles[BYTES];
    ckci_k_tap_entry table[PLACES ? PLACES * 8 : CKCI_K_TAPS + 1];
    union {
        ckci_k_row_entry rows[ROWS];
        int64_t outputs[ROWS];
    };
};

/* The same for a block that takes several tiles (ckci_k_stream): where its rows lie in the output, and what
   else a tile begins with, for the tile that is multiplied and for the next one. */
struct ckci_k_stream_tile {
    const unsigned char *a, *b;
    unsigned char *out;
    int32_t column, taps, steps, unused;
};

template <int BYTES, int ROWS> struct ckci_k_stream_lds {
    alignas(CKCI_K_TILE_ALIGN) unsigned char tiles[BYTES];
    ckci_k_tap_entry table[CKCI_K_TAPS + 1];
    union {
        ckci_k_row_entry rows[ROWS];
        int64_t outputs[ROWS];
    };
    ckci_k_stream_tile tile[2];
    int32_t places[2][ROWS];
};

template <int BYTES, int ROWS, int PLACES, int STREAM> struct ckci_k_matrix_room {
    typedef ckci_k_matrix_lds<BYTES, PLACES ? 1 : ROWS, PLACES> type;
};
template <int BYTES, int ROWS, int PLACES> struct ckci_k_matrix_room<BYTES, ROWS, PLACES, 1> {
    typedef ckci_k_stream_lds<BYTES, ROWS> type;
};

/* The sums of tile `work` to memory. */
template <class F, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_gather_finish(const ckci_gpu_conv &conv, int32_t work, F &f, L &m)
{
    const ckci_gpu_conv &p = ckci_k_late(conv);
    ckci_k_block b = ckci_k_block_of(p, work, BM, BN);
    const ckci_tensor &t = p.o.t;
    const bool plain = p.o_vec && t.op.kind == CKCONV_PASS && !p.o.scale && !p.o.shift && !p.o.compute;
    int64_t *at = m.outputs;
    if (plain) {
        for (int r = (int)threadIdx.x; r < BM; r += 256) {
            ckci_k_place q = ckci_k_row(b.axis, b.row + r);
            at[r] = q.n >= p.n ? -1
                               : b.group * t.stride[0] + q.n * t.stride[1] +
                                     (b.axis[0].write0 + q.z * p.dim[0].write_step) * t.stride[3] +
                                     (b.axis[1].write0 + q.y * p.dim[1].write_step) * t.stride[4] +
                                     (b.axis[2].write0 + q.x * p.dim[2].write_step) * t.stride[5];
        }
    }
    f.template finish<8>(m.tiles, !plain && t.stride[5] < t.stride[2],
                         [&](int row, int column, typename F::number *v, int count) {
                             column += b.column;
                             if (plain) {
                                 if (at[row] >= 0 && column < p.columns) {
                                     ckci_k_store8(t.dtype, t.p + (at[row] + column) * ckci_k_size(t.dtype),
                                                   v);
                                 }
                                 return;
                             }
                             ckci_k_place q = ckci_k_row(b.axis, b.row + row);
                             if (q.n < p.n && column < p.columns) {
                                 ckci_k_write8(p, v, count, b.group, q.n, column, p.columns,
                                               b.axis[0].write0 + q.z * p.dim[0].write_step,
                                               b.axis[1].write0 + q.y * p.dim[1].write_step,
                                               b.axis[2].write0 + q.x * p.dim[2].write_step);
                             }
                         });
}

template <class F, class Loader, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_gather_tile(const ckci_gpu_conv &p, int32_t work, L &m)
{
    F f;
    {
        ckci_k_block b = ckci_k_block_of(p, work, BM, BN);
        int64_t rows = (int64_t)p.n * b.axis[0].count * b.axis[1].count * b.axis[2].count;
        if (b.row >= rows) {
            return; /* a phase with fewer positions than the first one; the whole block */
        }
        Loader loader(p, b, m.table, m.rows);
        int32_t bytes = ckci_k_reduction(p, b.axis) * F::SIZE;
        ckci_k_multiply_all(f, m.tiles, loader, (bytes + F::KB - 1) / F::KB, p.a.compute);
    }
    ckci_k_matrix_gather_finish<F, BM, BN>(p, work, f, m);
}

#if defined(CKCI_K_WGMMA)
/* Groups of waves: a block takes several tiles. While it multiplies one it prepares the tables of the next,
   and its last steps load the next one's first ones, which arrive while the sums are written; these pass
   through tiles in LDS that nothing is on its way to. That is so where stores are plain, of two bytes, and
   all tiles have as many steps, or three at least (p.stream); else tiles follow one another. Blocks take
   every p.workers-th tile, not neighbours: what they all read at a time should lie close together. */
template <class F, class Loader, int BM, int BN, class L> struct ckci_k_stream {
    const ckci_gpu_conv &p;
    L &m;
    Loader loader;
    F f;
    int32_t slot, full, empty; /* the tile's tables; what is multiplied, what is loaded next */

    CKCI_K_MEMBER ckci_k_stream(const ckci_gpu_conv &conv, L &lds)
        : p(conv), m(lds), loader(conv), slot(0), full(0), empty(0)
    {
    }

    CKCI_K_MEMBER ckci_k_tap_entry *table(int32_t of) const
    {
        return m.table + (p.phases > 1 && p.stream ? of * CKCI_STREAM_TAPS : 0);
    }

    CKCI_K_MEMBER void prepare(int32_t work, int32_t to, bool taps)
    {
        const ckci_k_block b = ckci_k_block_of(p, work, BM, BN);
        const ckci_k_axis *axis = b.axis;
        const ckci_k_place start = ckci_k_row(axis, b.row);
        const int64_t *s = p.o.t.stride;
        const int32_t count = axis[0].taps * axis[1].taps * axis[2].taps;
        if (taps) {
            loader.fill(axis, count, table(to), 0);
        }
        for (int r = (int)threadIdx.x; r < BM; r += 256) {
            const ckci_k_place q = ckci_k_row(axis, b.row + r);
            m.rows[r] = loader.row(axis, q, start.n);
            m.places[to][r] = q.n >= p.n ? -1
                                         : (int32_t)((q.n - start.n) * s[1] +
                                                     (axis[0].write0 + q.z * p.dim[0].write_step) * s[3] +
                                                     (axis[1].write0 + q.y * p.dim[1].write_step) * s[4] +
                                                     (axis[2].write0 + q.x * p.dim[2].write_step) * s[5]);
        }
        if (threadIdx.x == 0) {
            ckci_k_stream_tile &t = m.tile[to];
            const int32_t bytes = ckci_k_reduction(p, axis) * F::SIZE;
            t.a = p.a.p + F::SIZE * (b.group * p.a.stride[0] + start.n * p.a.stride[1]);
            t.b = p.b.p + F::SIZE * (b.group * p.b.stride[0] + b.column * p.b_column);
            t.out = p.o.t.p + 2 * (b.group * s[0] + start.n * s[1] + b.column);
            t.column = b.column;
            t.taps = count;
            t.steps = start.n < p.n ? (bytes + F::KB - 1) / F::KB : -1;
        }
    }

    CKCI_K_MEMBER void start(int32_t from)
    {
        const ckci_k_stream_tile &t = m.tile[from];
        loader.wa = ckci_k_make_window(t.a);
        loader.wb = ckci_k_make_window(t.b);
        loader.taps = table(from);
        loader.count = t.taps;
        loader.settle(t.column, m.rows);
    }

    static CKCI_K_MEMBER int32_t after(int32_t tile)
    {
        return tile == (F::STAGES - 1) * F::TILE ? 0 : tile + F::TILE;
    }

    CKCI_K_MEMBER void load()
    {
        loader.copy(0, m.tiles + empty);
        empty = after(empty);
    }

    /* All steps of a tile, whose first `ahead` are loaded. next: the tile of which as many are to be loaded;
       -1: none. */
    template <class T> CKCI_K_MEMBER void multiply(int32_t steps, int32_t ahead, int32_t next)
    {
        CKCI_K_UNROLL(1)
        for (int32_t s = 0; s < steps; s++) {
            if (ahead == 1) {
                ckci_k_copies_wait<0>();
            } else if (F::AHEAD == 2 || ahead == 2) {
                ckci_k_copies_wait<1>();
            } else {
                ckci_k_copies_wait<2>();
            }
            f.arrive();
            f.template multiply<T>(m.tiles, full);
            full = after(full);
            if (s == 0 && next >= 0) {
                prepare(next, slot ^ 1, p.phases > 1);
                if (steps <= ahead) {
                    __syncthreads();
                }
            }
            if (s + ahead == steps && next >= 0) {
                start(slot ^ 1);
            }
            if (s + ahead < steps || next >= 0) {
                load();
            }
            ckci_k_copies_end();
        }
        f.template wait<0>();
    }

    /* Has a tile no rows? A phase can have fewer than the first one. */
    CKCI_K_MEMBER bool no_rows(int32_t work) const
    {
        const ckci_k_block b = ckci_k_block_of(p, work, BM, BN);
        return ckci_k_row(b.axis, b.row).n >= p.n;
    }

    CKCI_K_MEMBER void run()
    {
        const ckci_gpu_target &o = p.o;
        const bool plain = p.o_vec && o.t.op.kind == CKCONV_PASS && !o.scale && !o.shift && !o.compute &&
                           (o.t.dtype == CKCONV_F16 || o.t.dtype == CKCONV_BF16);
        const bool stream = plain && p.stream, skips = stream && p.phases > 1;
        bool loaded = false;
        int32_t work = (int32_t)blockIdx.x;
        CKCI_K_UNROLL(1)
        while (work < p.work) {
            int32_t next = work + p.workers;
            CKCI_K_UNROLL(1)
            while (skips && next < p.work && no_rows(next)) {
                next += p.workers;
            }
            if (!loaded) {
                __syncthreads();
                prepare(work, slot, true);
                __syncthreads();
                start(slot);
            }
            const int32_t steps = m.tile[slot].steps,
                          ahead = stream && steps > 0 && steps < F::AHEAD ? steps : +F::AHEAD;
            for (int32_t s = 0; s < ahead && !loaded; s++) {
                if (s < steps) {
                    load();
                }
                ckci_k_copies_end();
            }
            loaded = stream && steps > 0 && next < p.work;
            f.clear();
            if (p.a.compute == CKCONV_BF16) {
                multiply<ckci_k_bf16>(steps, ahead, loaded ? next : -1);
            } else {
                multiply<ckci_k_f16>(steps, ahead, loaded ? next : -1);
            }
            if (plain && steps >= 0) {
                const ckci_k_stream_tile &t = m.tile[slot];
                f.finish16(m.tiles, full, o.t.dtype, m.places[slot], p.columns - t.column, t.out);
            } else if (steps >= 0) {
                ckci_k_matrix_gather_finish<F, BM, BN>(p, work, f, m);
            }
            slot ^= 1;
            work = next;
        }
    }
};
#endif

template <class F, class Loader, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_gather_run(const ckci_gpu_conv &p, L &m)
{
    if constexpr (F::SIXTEEN) {
#if defined(CKCI_K_WGMMA)
        ckci_k_stream<F, Loader, BM, BN, L> stream(p, m);
        stream.run();
#endif
    } else if constexpr (Loader::LOOPS) {
        CKCI_K_UNROLL(1)
        for (int32_t work = (int32_t)blockIdx.x; work < p.work; work += p.workers) {
            __syncthreads();
            ckci_k_matrix_gather_tile<F, Loader, BM, BN>(p, work, m);
        }
    } else {
        ckci_k_matrix_gather_tile<F, Loader, BM, BN>(p, (int32_t)blockIdx.x, m);
    }
}

/* The positions of bwd_weight. Each is decoded once, by one thread, and passes through LDS: offsets in dout
   and in, what lies on padding. KT positions a step; threads decode those of four steps at a time, while the
   four before are used. PAIRS: the entries of dout (without holes) and of in lie apart, half a
   ckci_k_tap_entry each, a step's as [tensor][half of a four][four][position of the half], with the fours of
   the second half in another order, so that neither the lanes that store entries nor those that load two at a
   time meet in the banks. SIZE: bytes of an element. */
struct alignas(8) ckci_k_position_entry {
    int32_t at;
    uint32_t holes;
};

template <int KT, int PAIRS, int SIZE> struct ckci_k_positions {
    const ckci_gpu_conv &p;
    ckci_k_tap_entry *table;
    int32_t from, to, start; /* start: the batch that offsets count from */

    CKCI_K_MEMBER ckci_k_positions(const ckci_gpu_conv &conv, int32_t first, int32_t last,
                                   ckci_k_tap_entry *entries)
        : p(conv), table(entries), from(first), to(last)
    {
        start = place(from).n;
    }

    CKCI_K_MEMBER ckci_k_place place(int32_t k) const
    {
        return ckci_k_decode(k, p.dim[0].count[0], p.dim[1].count[0], p.dim[2].count[0]);
    }

    CKCI_K_MEMBER ckci_k_window window(const ckci_tensor &t, int32_t group) const
    {
        return ckci_k_make_window(t.p + SIZE * (group * t.stride[0] + start * t.stride[1]));
    }

    CKCI_K_MEMBER void begin()
    {
        prepare(0);
        __syncthreads();
    }

    /* After the entries of a step were read; those of the four steps before are not read any more, since
       there was a barrier after them. */
    CKCI_K_MEMBER void next(int32_t step)
    {
        if (step % 4 == 1) {
            prepare(step / 4 + 1);
        }
    }

    CKCI_K_MEMBER const ckci_k_tap_entry &entry(int32_t step, int32_t j) const
    {
        return table[step % 8 * KT + j];
    }

    CKCI_K_MEMBER void prepare(int32_t four)
    {
        int32_t j = (int32_t)threadIdx.x, k = from + four * 4 * KT + j;
        if (j >= 4 * KT) {
            return;
        }
        ckci_k_tap_entry e = {INT32_MIN, INT32_MIN, 0, 0};
        ckci_k_hole hole;
        hole.close(p.ranges);
        if (k < to) {
            ckci_k_place q = place(k);
            const int64_t *a = p.a.stride, *b = p.b.stride;
            e.a = SIZE * (int32_t)((q.n - start) * a[1] + q.z * a[3] + q.y * a[4] + q.x * a[5]);
            q.z = q.z * p.dim[0].stride - p.dim[0].pad;
            q.y = q.y * p.dim[1].stride - p.dim[1].pad;
            q.x = q.x * p.dim[2].stride - p.dim[2].pad;
            e.b = SIZE * (int32_t)((q.n - start) * b[1] + q.z * b[3] + q.y * b[4] + q.x * b[5]);
            hole.open(p.ranges);
            hole.add_all(p.ranges, p.dim, q, p.dim[0].filter, p.dim[1].filter, p.dim[2].filter);
        }
        e.need = hole.word;
        if constexpr (PAIRS) {
            ckci_k_position_entry *pairs = (ckci_k_position_entry *)(table + (four % 2 * 4 + j / KT) * KT);
            int32_t half = j % 4 / 2, four_at = (j % KT / 4) ^ (half * (KT / 8));
            int32_t at = half * (KT / 2) + four_at * 2 + j % 2;
            pairs[at].at = e.a;
            pairs[at].holes = p.ranges ? (uint32_t)CKCI_K_TAPS << 16 : 0;
            pairs[KT + at].at = e.b;
            pairs[KT + at].holes = hole.word;
        } else {
            table[four % 2 * 4 * KT + j] = e;
        }
    }
};

/* A chunk of neighbouring rows or columns of bwd_weight, against a position's entry. */
struct ckci_k_weight_column {
    int32_t offset, tap;
    uint32_t need;

    CKCI_K_MEMBER void row(int32_t size, bool good, int32_t r)
    {
        offset = good ? size * r : INT32_MIN;
        tap = 0;
        need = 0;
    }

    CKCI_K_MEMBER void column(const ckci_gpu_conv &p, int32_t size, bool good, int32_t c)
    {
        int32_t rest, z, y, x;
        tap = ckci_k_divide(c, p.by_red);
        rest = ckci_k_divide(tap, p.dim[2].taps[0]);
        z = ckci_k_divide(rest, p.dim[1].taps[0]);
        y = rest - z * p.dim[1].filter;
        x = tap - rest * p.dim[2].filter;
        const int64_t *s = p.b.stride;
        offset = size * (int32_t)(c - tap * p.red + z * p.dim[0].dilation * s[3] +
                                  y * p.dim[1].dilation * s[4] + x * p.dim[2].dilation * s[5]);
        need = p.ranges ? 0
                        : 1u << x % 32 | 1u << (p.dim[2].filter + y) % 32 |
                              1u << (p.dim[2].filter + p.dim[1].filter + z) % 32;
        if (!good) {
            offset = 0;
            need = 0x80000000u;
        }
    }

    CKCI_K_MEMBER int32_t a(const ckci_k_tap_entry &e) const
    {
        return offset < 0 ? INT32_MIN : ckci_k_add(offset, e.a, 0);
    }

    CKCI_K_MEMBER int32_t b(int32_t ranges, const ckci_k_tap_entry &e) const
    {
        ckci_k_hole hole = {e.need};
        int32_t bad = hole.bad(ranges, tap, need) | ((int32_t)need & INT32_MIN);
        return ckci_k_add(offset, e.b, 0) | bad;
    }
};

/* ---- bwd_weight. Rows are output channels, columns a tap and, fastest, an input channel, the reduction runs
   over positions. In memory rows and columns are contiguous, not the reduction: a thread loads eight channels
   (f32: four, f64: two) at four positions, transposes them in registers and stores each channel's four places
   of the reduction. */
template <class U, int BM, int BN> struct ckci_k_weight_chunks {
    enum {
        SIZE = U::SIZE,
        CHUNK = 16 / SIZE, /* channels of a load */
        KT = U::KB / SIZE, /* positions of a step */
        FOURS = KT / 4,
        EACH = 256 / FOURS * CHUNK,      /* rows and columns that the block fetches at a time, */
        ALIKE = U::WAVE / FOURS * CHUNK, /* that a wave does: of one tensor */
        FIRST = (BM + ALIKE - 1) / ALIKE * ALIKE,
        PASSES = (FIRST + BN + EACH - 1) / EACH,
        SEGMENT = 4
    };
    const ckci_gpu_conv &p;
    ckci_k_positions<KT, 1, SIZE> positions;
    ckci_k_window window[PASSES];
    ckci_k_weight_column pass[PASSES];
    const unsigned char *entries[PASSES][2]; /* of both halves of this thread's four */
    ckci_k_uint4 raw[PASSES][4];

    CKCI_K_MEMBER ckci_k_weight_chunks(const ckci_gpu_conv &conv, int32_t group, int32_t row0,
                                       int32_t column0, int32_t first, int32_t last, ckci_k_tap_entry *table)
        : p(conv), positions(conv, first, last, table)
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < PASSES; i++) {
            int32_t r = channel(i), c = r - FIRST;
            const bool left = ckci_k_same(r / ALIKE) < FIRST / ALIKE;
            if (left) {
                pass[i].row(SIZE, r < BM && row0 + r < p.rows, row0 + r);
                window[i] = positions.window(p.a, group);
            } else {
                pass[i].column(p, SIZE, c < BN && column0 + c < p.columns, column0 + c);
                window[i] = positions.window(p.b, group);
            }
            CKCI_K_UNROLL(2)
            for (int j = 0; j < 2; j++) {
                entries[i][j] = (const unsigned char *)table + (left ? 0 : KT * 8) + j * (KT * 4) +
                                (place() ^ (j * (FOURS / 2))) * 16;
            }
        }
        positions.begin();
    }

    /* First of the rows (columns: from FIRST on) of this thread's pass i; its positions are 4 * place to
       4 * place + 3. */
    CKCI_K_MEMBER int32_t channel(int i) const
    {
        return (int32_t)threadIdx.x / FOURS * CHUNK + i * EACH;
    }

    CKCI_K_MEMBER int32_t place() const
    {
        return (int32_t)threadIdx.x % FOURS;
    }

    CKCI_K_MEMBER bool plain() const
    {
        return !p.ranges;
    }

    template <int PLAIN> CKCI_K_MEMBER void begin() const
    {
    }

    /* Before step `step`, that fetches two steps ahead. */
    CKCI_K_MEMBER void next(int32_t step)
    {
        positions.prepare(step / 4 + 1);
    }

    template <int PLAIN> CKCI_K_MEMBER void fetch(int32_t step)
    {
        const int32_t at = step % 8 * (KT * 16);
        CKCI_K_UNROLL(4)
        for (int i = 0; i < PASSES; i++) {
            CKCI_K_UNROLL(2)
            for (int j = 0; j < 2; j++) {
                const ckci_k_uint4 two = *(const ckci_k_uint4 *)(entries[i][j] + at);
                raw[i][2 * j] = load<PLAIN>(i, two.x, two.y);
                raw[i][2 * j + 1] = load<PLAIN>(i, two.z, two.w);
            }
        }
    }

    template <int PLAIN> CKCI_K_MEMBER ckci_k_uint4 load(int i, uint32_t at, uint32_t holes) const
    {
        const ckci_k_hole hole = {holes};
        int32_t bad = hole.bad(PLAIN ? 0 : p.ranges, pass[i].tap, pass[i].need);
        bad = PLAIN ? bad : bad | ((int32_t)pass[i].need & INT32_MIN);
        return ckci_k_window_load(window[i], ckci_k_add(pass[i].offset, (int32_t)at, 0) | bad);
    }

    template <class T> CKCI_K_MEMBER void put(unsigned char *tile) const
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < PASSES; i++) {
            const int32_t row =
                channel(i) - (FIRST - BM) * (ckci_k_same(channel(i) / ALIKE) >= FIRST / ALIKE);
            /* those between BM and FIRST hold neither rows nor columns */
            const bool held = FIRST == BM || channel(i) < BM || channel(i) >= FIRST;
            if (held && ((FIRST + BN) % EACH == 0 || row < BM + BN)) {
                const ckci_k_uint4 *r = raw[i];
                if constexpr (SIZE == 8) {
                    both(tile, row, r[0].x, r[0].y, r[1].x, r[1].y, 0);
                    both(tile, row, r[2].x, r[2].y, r[3].x, r[3].y, 1);
                    both(tile, row + 1, r[0].z, r[0].w, r[1].z, r[1].w, 0);
                    both(tile, row + 1, r[2].z, r[2].w, r[3].z, r[3].w, 1);
                    continue;
                } else if constexpr (SIZE == 4) {
                    single<T>(tile, row, r[0].x, r[1].x, r[2].x, r[3].x);
                    single<T>(tile, row + 1, r[0].y, r[1].y, r[2].y, r[3].y);
                    single<T>(tile, row + 2, r[0].z, r[1].z, r[2].z, r[3].z);
                    single<T>(tile, row + 3, r[0].w, r[1].w, r[2].w, r[3].w);
                    continue;
                }
                pair<0>(tile, row, r[0].x, r[1].x, r[2].x, r[3].x);
                pair<2>(tile, row, r[0].y, r[1].y, r[2].y, r[3].y);
                pair<4>(tile, row, r[0].z, r[1].z, r[2].z, r[3].z);
                pair<6>(tile, row, r[0].w, r[1].w, r[2].w, r[3].w);
            }
        }
    }

    /* Two positions of f64. */
    CKCI_K_MEMBER void both(unsigned char *tile, int32_t row, uint32_t low0, uint32_t high0, uint32_t low1,
                            uint32_t high1, int second) const
    {
        const ckci_k_uint4 two = {low0, high0, low1, high1};
        *(ckci_k_uint4 *)(tile + ckci_k_spot<U::KB>(row, 2 * place() + second)) = two;
    }

    template <class T>
    CKCI_K_MEMBER void single(unsigned char *tile, int32_t row, uint32_t r0, uint32_t r1, uint32_t r2,
                              uint32_t r3) const
    {
        const ckci_k_uint4 four = {r0, r1, r2, r3};
        *(ckci_k_uint4 *)(tile + ckci_k_spot<U::KB>(row, place())) = ckci_k_rounded<T>(four);
    }

    template <int H>
    CKCI_K_MEMBER void pair(unsigned char *tile, int32_t row, uint32_t r0, uint32_t r1, uint32_t r2,
                            uint32_t r3) const
    {
        int half = place() % 2 * 8, chunk = place() / 2;
        ckci_k_uint2 low = {ckci_k_halves<0>(r0, r1), ckci_k_halves<0>(r2, r3)};
        ckci_k_uint2 high = {ckci_k_halves<1>(r0, r1), ckci_k_halves<1>(r2, r3)};
        *(ckci_k_uint2 *)(tile + ckci_k_spot<U::KB>(row + H, chunk) + half) = low;
        *(ckci_k_uint2 *)(tile + ckci_k_spot<U::KB>(row + H + 1, chunk) + half) = high;
    }
};

#if defined(CKCI_K_MMA)
/* A position that a thread of bwd_weight follows, and the one 256 further on: a step adds the coordinates of
   position 256, each with a carry at most. Coordinates are those in `in`, padding included. */
struct ckci_k_weight_place {
    int32_t a, b, z, y, x; /* a, b: byte offsets in dout and in */
};

struct ckci_k_weight_stride {
    ckci_k_weight_place step;       /* of 256 positions */
    int32_t end[3], back[3], up[2]; /* z, y, x: where a dimension ends and how long it is; y and z go up */
    int32_t a[3], b[3];             /* what a carry out of z, y, x adds to the offsets */

    CKCI_K_MEMBER ckci_k_weight_stride(const ckci_gpu_conv &p, const ckci_k_place &q)
    {
        const ckci_gpu_dim *d = p.dim;
        const int64_t *s = p.a.stride, *t = p.b.stride;
        step = make(p, q, 0);
        CKCI_K_UNROLL(3)
        for (int i = 0; i < 3; i++) {
            const int above = i == 0 ? 1 : i + 2;
            const int64_t up_b = i == 0 ? t[1] : d[i == 0 ? 0 : i - 1].stride * t[above];
            back[i] = d[i].length * d[i].stride;
            end[i] = back[i] - d[i].pad;
            a[i] = CKCI_K_HALF * (int32_t)(s[above] - d[i].length * s[3 + i]);
            b[i] = CKCI_K_HALF * (int32_t)(up_b - back[i] * t[3 + i]);
        }
        up[0] = d[0].stride;
        up[1] = d[1].stride;
    }

    /* Position q, `pad` times the padding before it. */
    static CKCI_K_MEMBER ckci_k_weight_place make(const ckci_gpu_conv &p, const ckci_k_place &q, int32_t pad)
    {
        const int64_t *s = p.a.stride, *t = p.b.stride;
        ckci_k_weight_place w;
        w.z = q.z * p.dim[0].stride - pad * p.dim[0].pad;
        w.y = q.y * p.dim[1].stride - pad * p.dim[1].pad;
        w.x = q.x * p.dim[2].stride - pad * p.dim[2].pad;
        w.a = CKCI_K_HALF * (int32_t)(q.n * s[1] + q.z * s[3] + q.y * s[4] + q.x * s[5]);
        w.b = CKCI_K_HALF * (int32_t)(q.n * t[1] + w.z * t[3] + w.y * t[4] + w.x * t[5]);
        return w;
    }

    CKCI_K_MEMBER void advance(ckci_k_weight_place &w) const
    {
        w.a = ckci_k_add(w.a, step.a, 0);
        w.b = ckci_k_add(w.b, step.b, 0);
        w.z += step.z;
        w.y += step.y;
        w.x += step.x;
        if (w.x >= end[2]) {
            w.x -= back[2];
            w.y += up[1];
            carry(w, 2);
        }
        if (w.y >= end[1]) {
            w.y -= back[1];
            w.z += up[0];
            carry(w, 1);
        }
        if (w.z >= end[0]) {
            w.z -= back[0];
            carry(w, 0);
        }
    }

    CKCI_K_MEMBER void carry(ckci_k_weight_place &w, int i) const
    {
        w.a = ckci_k_add(w.a, a[i], 0);
        w.b = ckci_k_add(w.b, b[i], 0);
    }
};

/* The same where the unit takes operands that lie across: tiles are slabs of 64 channels, a row in LDS is a
   position, and chunks go straight from memory into LDS. A thread copies one chunk of two positions in each
   slab. What it must know of a position, one thread finds out for all: each follows one of every 256, and
   hands it on through LDS, for four steps at a time, while the four before are used. */
template <int BM, int BN> struct ckci_k_weight_slabs {
    enum { KT = 64, FOUR = 4 * KT, ROWS = (BM + 63) / 64, COLUMNS = (BN + 63) / 64, OUTSIDE = 2 };
    const ckci_gpu_conv &p;
    ckci_k_tap_entry *table; /* unused: 1, and OUTSIDE */
    const unsigned char *a, *b;
    ckci_k_weight_stride stride;
    ckci_k_weight_place at;
    int32_t left; /* positions from the thread's next one on */
    int32_t row[ROWS];
    ckci_k_weight_column column[COLUMNS];

    CKCI_K_MEMBER ckci_k_weight_slabs(const ckci_gpu_conv &conv, int32_t group, int32_t row0, int32_t column0,
                                      int32_t first, int32_t last, ckci_k_tap_entry *entries)
        : p(conv), table(entries), stride(conv, place(conv, FOUR))
    {
        const int32_t start = place(p, first).n, chunk = (int32_t)threadIdx.x % 8 * 8;
        a = p.a.p + CKCI_K_HALF * (group * p.a.stride[0] + start * p.a.stride[1] + row0 + chunk);
        b = p.b.p + CKCI_K_HALF * (group * p.b.stride[0] + start * p.b.stride[1]);
        ckci_k_known(a);
        ckci_k_known(b);
        const int32_t own = first + (int32_t)threadIdx.x;
        left = last - own;
        ckci_k_place q = place(p, own);
        q.n -= start;
        at = ckci_k_weight_stride::make(p, q, 1);
        CKCI_K_UNROLL(2)
        for (int i = 0; i < ROWS; i++) {
            const int32_t r = chunk + i * 64;
            row[i] = r < BM && row0 + r < p.rows ? +OUTSIDE : +OUTSIDE | 1;
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < COLUMNS; i++) {
            const int32_t c = chunk + i * 64;
            column[i].column(p, CKCI_K_HALF, c < BN && column0 + c < p.columns, column0 + c);
        }
        prepare(0);
        __syncthreads();
    }

    static CKCI_K_MEMBER ckci_k_place place(const ckci_gpu_conv &p, int32_t k)
    {
        return ckci_k_decode(k, p.dim[0].count[0], p.dim[1].count[0], p.dim[2].count[0]);
    }

    CKCI_K_MEMBER void prepare(int32_t four)
    {
        ckci_k_tap_entry e = {at.a, at.b, 0, left > 0 ? 1 : 1 | OUTSIDE};
        ckci_k_hole hole;
        hole.close(p.ranges);
        if (left > 0) {
            const ckci_k_place q = {0, at.z, at.y, at.x};
            hole.open(p.ranges);
            hole.add_all(p.ranges, p.dim, q, p.dim[0].filter, p.dim[1].filter, p.dim[2].filter);
        }
        e.need = hole.word;
        table[four % 2 * FOUR + (int)threadIdx.x] = e;
        stride.advance(at);
        left -= FOUR;
    }

    CKCI_K_MEMBER void copy(int32_t step, unsigned char *tile)
    {
        if (p.ranges) {
            copy_step<1>(step, tile);
        } else {
            copy_step<0>(step, tile);
        }
        if ((uint32_t)step % 4 == 1) { /* the entries of the four before were read before a barrier */
            prepare(step / 4 + 1);
        }
    }

    template <int RANGES> CKCI_K_MEMBER void copy_step(int32_t step, unsigned char *tile) const
    {
        unsigned char *to = tile + ckci_k_spot<128>((int)threadIdx.x / 8, (int)threadIdx.x % 8);
        CKCI_K_UNROLL(2)
        for (int j = 0; j < 2; j++) {
            const ckci_k_tap_entry e = table[(uint32_t)step % 8 * KT + threadIdx.x / 8 + 32 * j];
            const unsigned char *from_a = a + (uint32_t)e.a, *from_b = b + e.b;
            CKCI_K_UNROLL(2)
            for (int i = 0; i < ROWS; i++) {
                ckci_k_copy_from(to + (i * 64 + 32 * j) * 128, from_a + i * 128,
                                 ((uint32_t)e.unused & (uint32_t)row[i]) == 0 ? 16 : 0);
            }
            CKCI_K_UNROLL(4)
            for (int i = 0; i < COLUMNS; i++) {
                const ckci_k_hole hole = {e.need};
                const bool good = RANGES ? (hole.bad(1, column[i].tap, 0) | (int32_t)column[i].need) >= 0
                                         : (e.need & column[i].need) == 0;
                ckci_k_copy_from(to + ((ROWS + i) * 64 + 32 * j) * 128, from_b + (uint32_t)column[i].offset,
                                 good ? 16 : 0);
            }
        }
    }
};
#endif

/* Positions from .. to - 1 of tile `work`, whose sums go to part `part`. */
template <class F, class Loader, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_weight_part(const ckci_gpu_conv &p, int32_t work, int32_t part, int32_t from,
                                         int32_t to, L &m)
{
    const int32_t rest = ckci_k_divide(work, p.by_tiles_n), group = ckci_k_divide(rest, p.by_tiles_m);
    const int32_t column0 = (work - rest * p.tiles_n) * BN, row0 = (rest - group * p.tiles_m) * BM;
    F f;
    {
        enum { KT = F::KB / F::SIZE };
        Loader loader(p, group, row0, column0, from, to, m.table);
        ckci_k_multiply_all(f, m.tiles, loader, (to - from + KT - 1) / KT, p.a.compute);
    }
    typedef typename F::number number;
    if constexpr (F::SIXTEEN) {
        if (p.o_vec) {
            const int32_t dtype = p.o.partial ? CKCONV_F32 : p.o.t.dtype;
            const int32_t size = p.o.partial ? 4 : ckci_k_size(dtype);
            const int64_t row = ((int64_t)part * p.g + group) * p.rows + row0;
            f.store((p.o.partial ? p.o.partial : p.o.t.p) + size * (row * p.columns + column0), p.columns,
                    p.rows - row0, p.columns - column0, dtype);
            return;
        }
    }
    f.template finish<F::SUMS_WIDE>(m.tiles, false, [&](int row, int column, number *v, int count) {
        row += row0;
        column += column0;
        if (row >= p.rows || column >= p.columns) {
            return;
        }
        if (p.o.partial && p.merge == 0 && count == F::SUMS_WIDE && column + count <= p.columns) {
            int64_t at = (((int64_t)part * p.g + group) * p.rows + row) * p.columns + column;
            unsigned char *to = (unsigned char *)p.o.partial + (int)sizeof(number) * at;
            if constexpr (F::SUMS_WIDE == 8) {
                ckci_k_store8(CKCONV_F32, to, v);
            } else if constexpr (sizeof(number) == 8) {
                ((ckci_k_uint4 *)to)[0] = ((const ckci_k_uint4 *)v)[0];
                ((ckci_k_uint4 *)to)[1] = ((const ckci_k_uint4 *)v)[1];
            } else { /* so that a wave's stores fill lines */
                *(ckci_k_uint4 *)to = *(const ckci_k_uint4 *)v;
            }
            return;
        }
        CKCI_K_UNROLL(1)
        for (int i = 0; i < count && column + i < p.columns; i++) {
            ckci_k_write_weight<number, 1>(p, v[i], part, group, row, column + i);
        }
    });
}

/* A block has one tile and a part of its positions; or, groups of waves with p.share, as many steps as every
   other block: of neighbouring tiles, one after the other. */
template <class F, class Loader, int BM, int BN, class L>
CKCI_K_FN void ckci_k_matrix_weight_run(const ckci_gpu_conv &p, L &m)
{
    const int32_t block = (int32_t)blockIdx.x;
    if constexpr (F::SIXTEEN) {
        const ckci_gpu_share &share = p.share;
        int32_t next = block, end = block + 1;
        if (share.steps) {
            next = block * share.part + (block < share.rest ? block : share.rest);
            end = next + share.part + (block < share.rest ? 1 : 0);
        }
        CKCI_K_UNROLL(1)
        while (next < end) {
            int32_t work = next, part = 0, from, to;
            if (share.steps) {
                work = ckci_k_divide(next, share.by_steps);
                const int32_t first = work * share.steps, past = first + share.steps;
                part = block - ckci_k_share_block(share, first);
                from = (next - first) * 64;
                next = end < past ? end : past;
                to = (next - first) * 64 < share.positions ? (next - first) * 64 : share.positions;
                __syncthreads(); /* nobody is at the tile before any more */
            } else {
                const int32_t tiles = p.tiles_m * p.tiles_n * p.g;
                part = ckci_k_divide(ckci_k_divide(ckci_k_divide(work, p.by_tiles_n), p.by_tiles_m),
                                     p.by_phases);
                work -= part * tiles;
                from = part * p.part + (part < p.part_rest ? part : p.part_rest);
                to = from + p.part + (part < p.part_rest ? 1 : 0);
                next++;
            }
            ckci_k_matrix_weight_part<F, Loader, BM, BN>(p, work, part, from, to, m);
        }
    } else {
        const int32_t part =
            ckci_k_divide(ckci_k_divide(ckci_k_divide(block, p.by_tiles_n), p.by_tiles_m), p.by_phases);
        const int32_t from = part * p.part + (part < p.part_rest ? part : p.part_rest);
        ckci_k_matrix_weight_part<F, Loader, BM, BN>(p, block - part * (p.tiles_m * p.tiles_n * p.g), part,
                                                     from, from + p.part + (part < p.part_rest ? 1 : 0), m);
    }
}

/* The bits of v as f32, f16, bf16 or i8. As a sum of two bf16 numbers (bf16x3) it is written three times:
   high, and then, number `low`, the rest, and high again. One operand has low = 1, the other one 2: that
   leaves out the product of both rests. The second high meets the other one's rest; it is 0 where it is not
   finite, so that infinity * 0 and infinity - infinity do not come about. */
CKCI_K_FN uint32_t ckci_k_term(int32_t type, float v, int32_t term, int32_t low)
{
    uint32_t high = type == CKCONV_F32   ? ckci_k_bits(v)
                    : type == CKCONV_F16 ? ckci_k_float_half(v)
                    : type == CKCONV_I8  ? (uint32_t)ckci_k_int(v, -128.f, 127.f) & 0xffu
                                         : ckci_k_float_bf16(v);
    if (term == 0) {
        return high;
    }
    float rest = v - ckci_k_float(high << 16);
    return rest - rest != 0 ? 0 : term == low ? ckci_k_float_bf16(rest) : high;
}

/* ---- Weights for the gather kernels. */
struct ckci_k_pack {
    struct lds {
        int32_t unused;
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_pack &p, lds &)
    {
        int32_t e = (int32_t)blockIdx.x * 256 + (int32_t)threadIdx.x;
        if (e >= p.count) {
            return;
        }
        int32_t tap_row = ckci_k_divide(e, p.by_red), red = (e - tap_row * (p.red / 2)) * 2;
        int32_t row = ckci_k_divide(tap_row, p.by_taps), tap = tap_row - row * (int32_t)p.by_taps.d;
        int32_t group = ckci_k_divide(row, p.by_columns), column = row - group * p.columns;
        int32_t one = ckci_k_divide(column, p.by_one_column), rest = ckci_k_divide(tap, p.by_x);
        int32_t z = ckci_k_divide(rest, p.by_y);
        column -= one * (int32_t)p.by_one_column.d;
        int64_t base = (group * p.merge + one) * p.w.stride[0] + column * p.column + z * p.w.stride[3] +
                       (rest - z * p.taps[1]) * p.w.stride[4] + (tap - rest * p.taps[2]) * p.w.stride[5];
        uint32_t h[2];
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 2; i++) {
            int32_t term = ckci_k_divide(red + i, p.by_term), r = red + i - term * (int32_t)p.by_term.d;
            int32_t other = ckci_k_divide(r, p.by_one_red), place = r - other * (int32_t)p.by_one_red.d;
            int64_t at = base + place * p.step;
            bool good = other == one;
            if (p.pairs) {
                int32_t c = r % 4, x = 2 * (tap - rest * p.taps[2]) + r / 4 - p.shift;
                good = c < (int32_t)p.by_one_red.d && x >= 0 && x < p.filter_x;
                at = base + (x - (tap - rest * p.taps[2])) * p.w.stride[5] + c * p.step;
            }
            if (p.type == CKCONV_F64) {
                ((double *)p.dst)[2 * e + i] = good ? ckci_k_value<double>(p.w, at) : 0.;
                continue;
            }
            float v = good ? ckci_k_value<float>(p.w, at) : 0.f;
            h[i] = ckci_k_term(p.type, v, term, p.low);
        }
        if (p.type == CKCONV_F64) {
            return;
        }
        if (p.type == CKCONV_I8) {
            ((uint16_t *)p.dst)[e] = (uint16_t)(h[0] | h[1] << 8);
        } else if (p.type == CKCONV_F32) {
            const ckci_k_uint2 two = {h[0], h[1]};
            ((ckci_k_uint2 *)p.dst)[e] = two;
        } else {
            ((uint32_t *)p.dst)[e] = h[0] | h[1] << 16;
        }
    }
};

/* The same for groups as they are, where columns lie side by side: through LDS, 64 columns of 64 places of
   the reduction, so that both sides are read and written along their lines. Planned for AMD; NVIDIA reads
   such weights as they are. */
struct ckci_k_pack_turn {
    enum { PITCH = 65 };
    struct lds {
        uint16_t half[64 * PITCH];
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_pack &p, lds &m)
    {
        int32_t work = (int32_t)blockIdx.x, rest = ckci_k_divide(work, p.by_one_column);
        int32_t column0 = (work - rest * (int32_t)p.by_one_column.d) * 64;
        int32_t up = ckci_k_divide(rest, p.by_one_red), red0 = (rest - up * (int32_t)p.by_one_red.d) * 64;
        int32_t group = ckci_k_divide(up, p.by_taps), tap = up - group * (int32_t)p.by_taps.d;
        int32_t line = ckci_k_divide(tap, p.by_x), z = ckci_k_divide(line, p.by_y);
        int64_t base = group * p.w.stride[0] + z * p.w.stride[3] + (line - z * p.taps[1]) * p.w.stride[4] +
                       (tap - line * p.taps[2]) * p.w.stride[5];
        int32_t thread = (int32_t)threadIdx.x, c = column0 + thread % 64;
        CKCI_K_UNROLL(2)
        for (int i = 0; i < 16; i++) {
            int32_t r = i * 4 + thread / 64;
            float x = c < p.columns && red0 + r < p.red
                          ? ckci_k_value<float>(p.w, base + c * p.column + (red0 + r) * p.step)
                          : 0.f;
            m.half[r * PITCH + thread % 64] =
                (uint16_t)(p.type == CKCONV_F16 ? ckci_k_float_half(x) : ckci_k_float_bf16(x));
        }
        __syncthreads();
        int32_t r = thread % 32 * 2;
        CKCI_K_UNROLL(4)
        for (int n = 0; n < 8; n++) {
            int32_t i = n * 8 + thread / 32;
            if (column0 + i < p.columns && red0 + r < p.red) {
                int64_t row = ((int64_t)group * p.columns + column0 + i) * (int32_t)p.by_taps.d + tap;
                ((uint32_t *)p.dst)[(row * p.red + red0 + r) / 2] =
                    m.half[r * PITCH + i] | (uint32_t)m.half[(r + 1) * PITCH + i] << 16;
            }
        }
    }
};

/* ---- Tensors for the matrix kernels, where those cannot read them as they are: converted, in the order
   [n][z][y][x][g][channels], with zeros after the last channel. A block owns 2048 values, of 8, 16 or 32
   channels of a group; they pass through LDS, so that reads run along the tensor's own fastest dimension. */
struct ckci_k_pack_data {
    struct lds {
        float v[2304]; /* rows of channels, one apart */
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_pack_data &p, lds &m)
    {
        const int wide = 1 << p.log_c, high = 2048 >> p.log_c, t = (int)threadIdx.x;
        int32_t rest = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c);
        const int32_t first = ((int32_t)blockIdx.x - rest * p.tiles_c) << p.log_c;
        const int32_t tile = ckci_k_divide(rest, p.by_groups), group = rest - tile * p.groups;
        const int32_t row0 = tile * high;
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 8; i++) {
            int e = t + 256 * i, column = p.along ? e & (wide - 1) : e >> (11 - p.log_c);
            int row = p.along ? e >> p.log_c : e & (high - 1);
            const ckci_k_place q = ckci_k_decode(row0 + row, p.by_z, p.by_y, p.by_x);
            int32_t c = first + column, x = q.x;
            if (p.pairs) {
                x = 2 * x + (c >> 2);
                c = c & 3;
            }
            const int64_t *s = p.t.stride;
            const int64_t from =
                group * s[0] + q.n * s[1] + c * s[2] + q.z * s[3] + q.y * s[4] + (int64_t)x * s[5];
            const bool good = row0 + row < p.positions && c < p.channels && x < p.wide;
            if (p.type == CKCONV_F64) { /* LDS is for floats: straight to memory */
                if (row0 + row < p.positions && c < p.padded) {
                    const int64_t to = ((int64_t)(row0 + row) * p.groups + group) * p.pitch + c;
                    ((double *)p.dst)[to] = good ? ckci_k_value<double>(p.t, from) : 0.;
                }
                continue;
            }
            m.v[row * (wide + 1) + column] = good ? ckci_k_value<float>(p.t, from) : 0.f;
        }
        if (p.type == CKCONV_F64) {
            return;
        }
        __syncthreads();
        const int row = t >> (p.log_c - 3), column = (t & ((wide >> 3) - 1)) * 8;
        if (row0 + row < p.positions && first + column < p.padded) {
            const float *v = m.v + row * (wide + 1) + column;
            int64_t at = ((int64_t)(row0 + row) * p.groups + group) * p.pitch + first + column;
            if (p.type == CKCONV_F32) {
                for (int i = 0; i < 8 && first + column + i < p.padded; i += 4) {
                    const ckci_k_uint4 out = {ckci_k_bits(v[i]), ckci_k_bits(v[i + 1]), ckci_k_bits(v[i + 2]),
                                              ckci_k_bits(v[i + 3])};
                    *(ckci_k_uint4 *)(p.dst + 4 * (at + i)) = out;
                }
                return;
            }
            CKCI_K_UNROLL(1)
            for (int32_t term = 0; term < p.terms; term++) {
                uint32_t two[4];
                CKCI_K_UNROLL(4)
                for (int i = 0; i < 4; i++) {
                    two[i] = ckci_k_term(p.type, v[2 * i], term, p.low) |
                             ckci_k_term(p.type, v[2 * i + 1], term, p.low) << 16;
                }
                if (p.type == CKCONV_I8) {
                    const ckci_k_uint2 out = {ckci_k_halves<0>(two[0] | two[0] >> 8, two[1] | two[1] >> 8),
                                              ckci_k_halves<0>(two[2] | two[2] >> 8, two[3] | two[3] >> 8)};
                    *(ckci_k_uint2 *)(p.dst + at) = out;
                    return;
                }
                const ckci_k_uint4 out = {two[0], two[1], two[2], two[3]};
                *(ckci_k_uint4 *)(p.dst + 2 * (at + term * p.term_step)) = out;
            }
        }
    }
};

/* ---- Small groups in one phase: fwd and bwd_data, and bwd_weight. A block owns 64 channels, in blocks of Q
   that hold one group or several whole ones, and walks over regions of some images x rows x columns of
   positions in one plane of the output. What the positions of a region read of a plane, with its halo, lies
   in LDS as rows of 128 bytes for each pixel, padding as zeros; every tap reads its operand from there, so
   that memory is read once for each plane of the filter. A row's pitch is such that 16 positions, which may
   be parts of two rows, meet in no bank. The next region is on its way while one is multiplied: on NVIDIA
   into LDS, on AMD into registers.
   fwd, bwd_data: a wave owns 16 channels of the written tensor, whose weights it keeps in registers, and all
   positions of a region, or half of them. The weights of merged groups lie on the diagonal, [column][tap][Q].
   With 3 x 3 filters that step from row to row (near_down), 16 positions are of one row (of several images,
   if these are narrow), and the wave walks down: what it reads of a row of pixels serves three rows of
   positions. On NVIDIA a region may then be as high as the image and pass through LDS in chunks of rows:
   waves keep the sums of the rows that a chunk leaves unfinished, and no row is read twice.
   With filters of several planes (near_deep) those that a region reads pass through LDS one after the other;
   a wave keeps the sums of all its positions. The weights of a plane come with it: on NVIDIA into LDS too,
   where bwd_data finds them as they lie in memory and turns them when it loads them.
   bwd_weight: dout lies in LDS behind the pixels. Channels are rows and columns here and positions the
   reduction, so operands are turned when they are loaded. A wave owns 16 output x 16 input channels, for all
   taps of a plane of the filter, all along its regions; two waves that share them add theirs at the end. Sums
   go to workspace. */
enum { CKCI_K_NEAR_TAPS = 9 };

/* A position or pixel of a region: where it lies from the region's first in memory (bytes of pixels, elements
   of positions); in LDS, of a position its first pixel; its row and column. */
struct ckci_k_near_spot {
    int32_t offset;
    uint32_t word;

    CKCI_K_MEMBER void set(int64_t from_first, int32_t at, int32_t y, int32_t x)
    {
        offset = (int32_t)from_first;
        word = (uint32_t)(at / 16) | (uint32_t)y << 12 | (uint32_t)x << 22;
    }

    CKCI_K_MEMBER int32_t at() const
    {
        return (int32_t)(word & 0xfffu) * 16;
    }

    CKCI_K_MEMBER int32_t y() const
    {
        return (int32_t)(word >> 12 & 0x3ffu);
    }

    CKCI_K_MEMBER int32_t x() const
    {
        return (int32_t)(word >> 22);
    }
};

/* What near asks of a unit. Weights are an operand of 16 columns; sums of 16 positions and 16 channels come
   in PIECES of RUN neighbouring channels of one position: sum j of a piece, its position, its first channel.
   load_turned reads an operand whose rows are 16 channels and whose reduction 16 positions, of which a lane
   gives the addresses of TURNED. Of sums of such operands ACROSS neighbours lie in neighbouring columns. */
template <class U> struct ckci_k_near_unit;

#if defined(CKCI_K_MFMA) || defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12)
/* AMD: weights are the rows, a lane's sums lie in one position. */
template <class U, int R, int T> struct ckci_k_near_amd {
    enum { PIECES = 1, RUN = R, TURNED = T, ACROSS = 1 };
    typedef typename U::operand operand;

    template <class E>
    static CKCI_K_MEMBER void multiply(typename U::sums &d, const operand &weights, const operand &pixels)
    {
        U::template multiply<E>(d, weights, pixels);
    }

    static CKCI_K_MEMBER int sum(int, int j)
    {
        return j;
    }

    static CKCI_K_MEMBER int position(int)
    {
        return (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER int channel()
    {
        return (int)threadIdx.x % U::WAVE / 16 * RUN;
    }

    template <class E>
    static CKCI_K_MEMBER void multiply_turned(typename U::sums &d, const operand &first,
                                              const operand &second)
    {
        U::template multiply<E>(d, first, second);
    }

    template <class F> static CKCI_K_MEMBER operand load_turned_second(const F &position)
    {
        return load_turned(position);
    }

    /* this lane's channel of 16, from the address of a position's first one */
    template <class F> static CKCI_K_MEMBER operand load_turned(const F &position)
    {
        uint32_t two[TURNED / 2];
        CKCI_K_UNROLL(8)
        for (int i = 0; i < TURNED / 2; i++) {
            two[i] = channel_of(position(2 * i)) | channel_of(position(2 * i + 1)) << 16;
        }
        return ckci_k_cast<operand>(two);
    }

    static CKCI_K_MEMBER uint32_t channel_of(const unsigned char *position)
    {
        return ((const uint16_t *)position)[(int)threadIdx.x % 16];
    }
};
#endif

#if defined(CKCI_K_MFMA)
template <> struct ckci_k_near_unit<ckci_k_mfma16> : ckci_k_near_amd<ckci_k_mfma16, 4, 4> {
    template <class F> static CKCI_K_MEMBER operand load_weights(const F &row)
    {
        const int lane = (int)threadIdx.x % 64;
        return *(const operand *)(row(lane % 16) + lane / 16 * 8);
    }

    static CKCI_K_MEMBER int turned(int i)
    {
        return (int)threadIdx.x % 64 / 16 * 4 + i;
    }

    static CKCI_K_MEMBER int turned_second(int i)
    {
        return turned(i);
    }
};
#endif

#if defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12)
/* Rows of sums alternate between the halves of a wave before gfx12, so weights are put in such an order. */
template <int GFX>
struct ckci_k_near_unit<ckci_k_wmma<GFX>> : ckci_k_near_amd<ckci_k_wmma<GFX>, 8, GFX == 11 ? 16 : 8> {
    typedef typename ckci_k_wmma<GFX>::operand operand;

    template <class F> static CKCI_K_MEMBER operand load_weights(const F &row)
    {
        const int lane = (int)threadIdx.x % 16, half = (int)threadIdx.x % 32 / 16;
        const unsigned char *from = row(GFX == 11 ? lane % 2 * 8 + lane / 2 : lane);
        operand r;
        if constexpr (GFX == 11) {
            r.v[0] = ((const ckci_k_uint4 *)from)[0];
            r.v[1] = ((const ckci_k_uint4 *)from)[1];
        } else {
            r.v[0] = ((const ckci_k_uint4 *)from)[half];
        }
        (void)half;
        return r;
    }

    static CKCI_K_MEMBER int turned(int i)
    {
        return GFX == 11 ? i : (int)threadIdx.x % 32 / 16 * 8 + i;
    }

    static CKCI_K_MEMBER int turned_second(int i)
    {
        return turned(i);
    }
};
#endif

#if defined(CKCI_K_MMA)
/* Columns of the weights are in such an order that a lane's sums are four neighbours. */
template <> struct ckci_k_near_unit<ckci_k_mma> {
    enum { PIECES = 2, RUN = 4, TURNED = 1, ACROSS = 2 };
    typedef ckci_k_mma::operand operand;

    /* Of the second operand the registers of one product lie side by side. */
    template <class E>
    static CKCI_K_MEMBER void multiply(ckci_k_mma::sums &d, const operand &weights, const operand &pixels)
    {
        ckci_k_mma::half<E>(d.v, pixels, weights.x, weights.y);
        ckci_k_mma::half<E>(d.v + 4, pixels, weights.z, weights.w);
    }

    static CKCI_K_MEMBER int sum(int piece, int j)
    {
        return 2 * piece + j % 2 + j / 2 * 4;
    }

    static CKCI_K_MEMBER int position(int piece)
    {
        return (int)threadIdx.x % 32 / 4 + 8 * piece;
    }

    static CKCI_K_MEMBER int channel()
    {
        return (int)threadIdx.x % 4 * 4;
    }

    template <class F> static CKCI_K_MEMBER operand load_weights(const F &row)
    {
        const int lane = (int)threadIdx.x % 32, column = lane / 8 * 4 + lane / 4 % 2, word = lane % 4;
        const uint32_t *low = (const uint32_t *)row(column), *high = (const uint32_t *)row(column + 2);
        const operand r = {low[word], low[4 + word], high[word], high[4 + word]};
        return r;
    }

    /* of the first operand, and of the second one */
    static CKCI_K_MEMBER int turned(int)
    {
        const int lane = (int)threadIdx.x % 32;
        return lane / 16 * 8 + lane % 8;
    }

    static CKCI_K_MEMBER int turned_second(int)
    {
        return (int)threadIdx.x % 16;
    }

    /* Weights from LDS, 16 rows `pitch` apart and those from the eighth on 32 bytes more, so that no two
       meet in a bank: rows are columns of the product, in the order above, or, TURN, the reduction, and
       columns in their own order; see own_four. Where this lane reads: */
    template <int TURN> static CKCI_K_MEMBER int32_t weights_at(int32_t pitch)
    {
        const int lane = (int)threadIdx.x % 32, one = lane % 8, two = lane / 8 % 2;
        const int32_t row = TURN ? two * 8 + one : one / 2 * 4 + one % 2 + lane / 16 * 2;
        return row * pitch + row / 8 * 32 + (TURN ? lane / 16 : two) * 16;
    }

    template <int TURN> static CKCI_K_MEMBER operand load_weights_at(const unsigned char *p)
    {
        if constexpr (TURN) {
            return load_trans(p);
        } else {
            return ckci_k_mma::load_rows(p - (int)threadIdx.x % 32 / 16 * 16, 0);
        }
    }

    /* After TURN a lane has sums of two channels and of those eight further on: its neighbour's two and its
       own make four, the first ones of an even lane. */
    static CKCI_K_MEMBER void own_four(ckci_k_mma::sums &d)
    {
        const bool odd = threadIdx.x % 2;
        CKCI_K_UNROLL(4)
        for (int e = 0; e < 4; e++) {
            const float given = odd ? d.v[e] : d.v[4 + e];
#if defined(CKCI_SIMULATOR)
            const float other = sim_shuffle_xor(given, 1);
#else
            const float other = __shfl_xor_sync(0xffffffffu, given, 1);
#endif
            d.v[e] = odd ? other : d.v[e];
            d.v[4 + e] = odd ? d.v[4 + e] : other;
        }
    }

    static CKCI_K_MEMBER int channel_of_four()
    {
        return (int)threadIdx.x % 4 / 2 * 4 + (int)threadIdx.x % 2 * 8;
    }

    template <class F> static CKCI_K_MEMBER operand load_turned(const F &position)
    {
        return load_trans(position(0) + (int)threadIdx.x / 8 % 2 * 16);
    }

    template <class F> static CKCI_K_MEMBER operand load_turned_second(const F &position)
    {
        return load_trans(position(0) + (int)threadIdx.x / 16 % 2 * 16);
    }

    template <class E>
    static CKCI_K_MEMBER void multiply_turned(ckci_k_mma::sums &d, const operand &first,
                                              const operand &second)
    {
        multiply<E>(d, second, first);
    }

    static CKCI_K_MEMBER operand load_trans(const unsigned char *p)
    {
        operand r;
#if defined(CKCI_SIMULATOR)
        sim_ldmatrix_x4_trans(&r, p);
#else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
                     : "r"((uint32_t)__cvta_generic_to_shared(p)));
#endif
        return r;
    }
};
#endif

template <int ASYNC> struct ckci_k_near_lds {
    enum { STAGES = ASYNC ? 2 : 1, BYTES = ASYNC ? CKCI_NEAR_NVIDIA_BYTES : CKCI_NEAR_AMD_BYTES };
    alignas(128) unsigned char stage[STAGES * BYTES];
    ckci_k_near_spot pixel[ASYNC ? 1 : CKCI_NEAR_AMD_PIXELS]; /* of which threads copy eight channels each */
    ckci_k_near_spot position[ASYNC ? CKCI_NEAR_NVIDIA_POSITIONS : CKCI_NEAR_AMD_POSITIONS];
};

/* A region: its first position, how much of it there is. */
struct ckci_k_near_region {
    int32_t n, z, y, x, images, rows, columns;

    CKCI_K_MEMBER ckci_k_near_region(const ckci_gpu_conv &conv, int32_t index)
    {
        const ckci_gpu_conv &p = ckci_k_again(conv);
        const ckci_gpu_near &q = p.region;
        const int32_t line = ckci_k_divide(index, q.by_regions_x),
                      plane = ckci_k_divide(line, q.by_regions_y),
                      group = ckci_k_divide(plane, q.by_regions_z);
        n = group * q.images;
        z = plane - group * (int32_t)q.by_regions_z.d;
        y = (line - plane * (int32_t)q.by_regions_y.d) * q.rows;
        x = (index - line * (int32_t)q.by_regions_x.d) * q.columns;
        images = p.n - n < q.images ? p.n - n : q.images;
        rows = p.dim[1].length - y < q.rows ? p.dim[1].length - y : q.rows;
        columns = p.dim[2].length - x < q.columns ? p.dim[2].length - x : q.columns;
    }

    CKCI_K_MEMBER bool holds(const ckci_gpu_near &q, int32_t i, const ckci_k_near_spot &s) const
    {
        return i < images * q.lines * q.columns && s.y() < rows && s.x() < columns;
    }
};

/* From one image, plane, row, pixel to the next, in elements: images of a block reach over less than 2^31
   bytes. */
struct ckci_k_near_steps {
    int32_t n, z, y, x;

    explicit CKCI_K_MEMBER ckci_k_near_steps(const ckci_tensor &t)
    {
        n = (int32_t)t.stride[1];
        z = (int32_t)t.stride[3];
        y = (int32_t)t.stride[4];
        x = (int32_t)t.stride[5];
    }

    CKCI_K_MEMBER int64_t at(int32_t image, int32_t plane, int32_t row, int32_t column) const
    {
        return (int64_t)image * n + (plane * z + row * y + column * x);
    }
};

/* The plane of pixels that a plane of the filter reads. */
CKCI_K_FN int32_t ckci_k_near_plane(const ckci_gpu_conv &p, const ckci_k_near_region &r, int32_t plane)
{
    return r.z * p.dim[0].read_step + p.region.first_z + plane * p.dim[0].dilation;
}

/* AMD: what threads copy from memory, eight of them the 128 bytes of a pixel and of a position of dout. */
template <class U, int WEIGHT> struct ckci_k_near_copies {
    typedef ckci_k_near_lds<0> lds;
    enum { PIXELS = CKCI_NEAR_AMD_PIXELS / 32, POSITIONS = WEIGHT ? CKCI_NEAR_AMD_POSITIONS / 32 : 0 };
    ckci_k_uint4 kept[PIXELS + POSITIONS];
    int32_t channel;

    CKCI_K_MEMBER ckci_k_near_copies(const ckci_gpu_conv &, int32_t first)
    {
        channel = first;
    }

    /* Begins to load what a region reads of a plane. */
    CKCI_K_MEMBER void fetch(const ckci_gpu_conv &conv, const ckci_k_near_region &r, lds &m, int32_t plane,
                             int32_t, int32_t)
    {
        const ckci_gpu_conv &p = ckci_k_again(conv);
        const ckci_gpu_near &q = p.region;
        const ckci_tensor &t = WEIGHT ? p.b : p.a;
        const int32_t thread = ckci_k_lane_afresh((int32_t)threadIdx.x), chunk = thread % 8 * 16;
        const bool inside = channel + thread % 8 * 8 < q.channels; /* not kept from region to region */
        const int32_t z = ckci_k_near_plane(p, r, plane);
        const int32_t y = r.y * p.dim[1].read_step + q.first_y, x = r.x * p.dim[2].read_step + q.first_x;
        const ckci_k_window from =
            ckci_k_make_window(t.p + CKCI_K_HALF * (r.n * t.stride[1] + z * t.stride[3] + y * t.stride[4] +
                                                    x * t.stride[5] + channel));
        const int32_t images = (uint32_t)z < (uint32_t)p.dim[0].read_len ? r.images : 0;
        const int32_t pixels = images * q.high * q.wide, room = q.images * q.high * q.wide;
        CKCI_K_UNROLL(6)
        for (int slot = 0; slot < PIXELS; slot++) {
            const int32_t i = thread / 8 + slot * 32;
            if (i >= room) {
                break;
            }
            const ckci_k_near_spot s = m.pixel[i];
            const bool good = inside && i < pixels && (uint32_t)(y + s.y()) < (uint32_t)p.dim[1].read_len &&
                              (uint32_t)(x + s.x()) < (uint32_t)p.dim[2].read_len;
            kept[slot] = ckci_k_window_load(from, good ? s.offset + chunk : INT32_MIN);
        }
        if constexpr (WEIGHT) {
            const int64_t *s = p.a.stride;
            const ckci_k_window dout = ckci_k_make_window(
                p.a.p + CKCI_K_HALF * (r.n * s[1] + r.z * s[3] + r.y * s[4] + r.x * s[5] + channel));
            CKCI_K_UNROLL(4)
            for (int slot = 0; slot < POSITIONS; slot++) {
                const int32_t i = thread / 8 + slot * 32;
                if (i >= q.tiles * 16) {
                    break;
                }
                const ckci_k_near_spot e = m.position[i];
                kept[PIXELS + slot] = ckci_k_window_load(
                    dout, inside && r.holds(q, i, e) ? CKCI_K_HALF * e.offset + chunk : INT32_MIN);
            }
        }
    }

    /* What was loaded, into LDS. */
    CKCI_K_MEMBER void store(const ckci_gpu_conv &p, lds &m) const
    {
        const ckci_gpu_near &q = ckci_k_again(p).region;
        const int32_t thread = ckci_k_lane_afresh((int32_t)threadIdx.x), chunk = thread % 8 * 16;
        CKCI_K_UNROLL(6)
        for (int slot = 0; slot < PIXELS; slot++) {
            const int32_t i = thread / 8 + slot * 32;
            if (i < q.images * q.high * q.wide) {
                *(ckci_k_uint4 *)(m.stage + m.pixel[i].at() + chunk) = kept[slot];
            }
        }
        CKCI_K_UNROLL(4)
        for (int slot = 0; slot < POSITIONS; slot++) {
            const int32_t i = thread / 8 + slot * 32;
            if (i < q.tiles * 16) {
                *(ckci_k_uint4 *)(m.stage + q.bytes + i * CKCI_NEAR_PITCH + chunk) = kept[PIXELS + slot];
            }
        }
    }
};

#if defined(CKCI_K_MMA)
/* NVIDIA: eight threads copy a pixel straight into LDS, a block 32 pixels of one or several rows at a time,
   and then those of the rows below. */
template <int WEIGHT> struct ckci_k_near_copies<ckci_k_mma, WEIGHT> {
    typedef ckci_k_near_lds<1> lds;
    int32_t channel, chunk;
    bool inside;

    CKCI_K_MEMBER ckci_k_near_copies(const ckci_gpu_conv &p, int32_t first)
    {
        chunk = (int32_t)threadIdx.x % 8 * 16;
        channel = first + chunk / CKCI_K_HALF;
        inside = channel < p.region.channels;
    }

    /* Begins to load what a region reads of a plane, or its chunk of rows that begins at `row` (pixels that
       no chunk before it had), into the stage that begins there. */
    CKCI_K_MEMBER void fetch(const ckci_gpu_conv &p, const ckci_k_near_region &r, lds &m, int32_t plane,
                             int32_t row, int32_t stage) const
    {
        const ckci_gpu_near &q = p.region;
        const int32_t above = q.high - q.chunk,
                      had = row ? row + above : 0; /* rolled: rows of taps less one */
        unsigned char *to = m.stage + stage + chunk;
        const int32_t y = r.y * p.dim[1].read_step + q.first_y + had;
        const int32_t x = r.x * p.dim[2].read_step + q.first_x;
        const int32_t high = row ? q.chunk : q.high, left = r.rows + above - had;
        const int32_t z = ckci_k_near_plane(p, r, plane);
        const int32_t end_y = (uint32_t)z < (uint32_t)p.dim[0].read_len ? p.dim[1].read_len : 0;
        const rows in = {
            z, y, x, end_y, p.dim[2].read_len, q.rolled && left < high ? left : high, q.wide, q.row_pitch};
        image(WEIGHT ? p.b : p.a, r, in, q.by_wide, q.images, q.image_pitch, to);
        if constexpr (WEIGHT) {
            const int32_t pitch = q.columns * CKCI_NEAR_PITCH;
            const rows dout = {r.z, r.y, r.x, r.y + r.rows, r.x + r.columns, q.rows, q.columns, pitch};
            image(p.a, r, dout, q.by_columns, q.images, q.rows * pitch, to + q.bytes);
        }
    }

    /* From where on, up to where rows and columns exist; how many, and how far apart in LDS rows are. */
    struct rows {
        int32_t z, y, x, end_y, end_x, high, wide, pitch;
    };

    CKCI_K_MEMBER void image(const ckci_tensor &t, const ckci_k_near_region &r, const rows &w,
                             const ckci_divisor &by_wide, int32_t images, int32_t image_pitch,
                             unsigned char *to) const
    {
        int32_t first_x = (int32_t)threadIdx.x / 8, first_y = 0, down = 1;
        if (w.wide < 32) {
            down = ckci_k_divide(32, by_wide);
            first_y = ckci_k_divide(first_x, by_wide);
            first_x = first_y < down ? first_x - first_y * w.wide : w.wide;
        }
        const ckci_k_near_steps s(t);
        const unsigned char *from =
            t.p + CKCI_K_HALF * (s.at(r.n, w.z, w.y + first_y, w.x + first_x) + channel);
        const int32_t below = CKCI_K_HALF * down * s.y, pitch = down * w.pitch;
        to += first_y * w.pitch + first_x * CKCI_NEAR_PITCH;
        CKCI_K_UNROLL(1)
        for (int32_t n = 0; n < images; n++) {
            const unsigned char *column = from;
            unsigned char *place = to;
            CKCI_K_UNROLL(1)
            for (int32_t x = first_x; x < w.wide; x += 32) {
                const bool good = inside && n < r.images && (uint32_t)(w.x + x) < (uint32_t)w.end_x;
                const uint32_t end = good ? (uint32_t)w.end_y : 0;
                const unsigned char *now = column;
                unsigned char *at = place;
                CKCI_K_UNROLL(4)
                for (int32_t row = first_y; row < w.high; row += down) {
                    ckci_k_copy_from(at, now, (uint32_t)(w.y + row) < end ? 16 : 0);
                    now += below;
                    at += pitch;
                }
                column += 32 * CKCI_K_HALF * s.x;
                place += 32 * CKCI_NEAR_PITCH;
            }
            from += CKCI_K_HALF * s.n;
            to += image_pitch;
        }
    }
};
#endif

/* The walk of a block over its regions: work(region, step, stage) for each, where a step is the first row of
   a chunk (NVIDIA; elsewhere 0) or, if DEEP, a plane of the filter: all of them one after the other. Others
   take `plane`. begin() comes once, while the first pixels are on their way; beside(step, stage) for each
   step, on NVIDIA when the copies of its pixels begin, elsewhere before they are multiplied. */
template <class U, int WEIGHT, int DEEP, class B, class A, class F>
CKCI_K_FN void ckci_k_near_walk(const ckci_gpu_conv &p, ckci_k_near_lds<U::ASYNC> &m, int32_t part,
                                int32_t channel, int32_t plane, const B &begin, const A &beside,
                                const F &work)
{
    const int32_t regions = p.region.regions, parts = p.region.parts;
    ckci_k_near_copies<U, WEIGHT> copies(p, channel);
    copies.fetch(p, ckci_k_near_region(p, part), m, plane, 0, 0);
    if constexpr (U::ASYNC) {
        beside(0, 0);
        ckci_k_copies_end();
    }
    begin();
    int32_t region = part, step = 0, stage = 0;
    ckci_k_near_region now(p, region);
    CKCI_K_UNROLL(1)
    while (region < regions) {
        if constexpr (!WEIGHT) {
            now = ckci_k_near_region(p, region); /* not kept in registers, which are few there */
        }
        int32_t next = region + parts, next_step = 0;
        if constexpr (DEEP) {
            if (step + 1 < p.region.planes) {
                next = region;
                next_step = step + 1;
            }
        } else if constexpr (U::ASYNC) {
            if (step + p.region.chunk < now.rows) {
                next = region;
                next_step = step + p.region.chunk;
            }
        }
        const int32_t other = CKCI_NEAR_NVIDIA_BYTES - stage;
        if constexpr (!U::ASYNC) {
            copies.store(p, m);
            __syncthreads();
        }
        ckci_k_near_region upcoming(p, next);
        if (next < regions) {
            copies.fetch(p, upcoming, m, DEEP ? next_step : plane, DEEP ? 0 : next_step, other);
            if constexpr (U::ASYNC) {
                beside(next_step, other);
            }
        }
        if constexpr (U::ASYNC) {
            ckci_k_copies_end();
            ckci_k_copies_wait<1>();
            __syncthreads();
        } else {
            beside(step, 0);
        }
        work(now, step, m.stage + stage);
        now = upcoming;
        region = next;
        step = next_step;
        stage = U::ASYNC ? other : 0;
        __syncthreads();
    }
}

template <int ASYNC>
CKCI_K_FN void ckci_k_near_tables(const ckci_gpu_conv &p, const ckci_tensor &pixels,
                                  const ckci_tensor &positions, ckci_k_near_lds<ASYNC> &m)
{
    const ckci_gpu_near &q = p.region;
    const int64_t *s = pixels.stride, *o = positions.stride;
    CKCI_K_UNROLL(1)
    for (int32_t i = (int32_t)threadIdx.x; !ASYNC && i < q.images * q.high * q.wide; i += 256) {
        const int32_t row = ckci_k_divide(i, q.by_wide), n = ckci_k_divide(row, q.by_high);
        const int32_t y = row - n * q.high, x = i - row * q.wide;
        m.pixel[i].set(CKCI_K_HALF * (n * s[1] + y * s[4] + x * s[5]),
                       n * q.image_pitch + y * q.row_pitch + x * CKCI_NEAR_PITCH, y, x);
    }
    CKCI_K_UNROLL(1)
    for (int32_t i = (int32_t)threadIdx.x; i < q.tiles * 16; i += 256) {
        const int32_t row = ckci_k_divide(i, q.by_columns), n = ckci_k_divide(row, q.by_rows);
        const int32_t y = row - n * q.lines, x = i - row * q.columns;
        if (n < q.images) {
            m.position[i].set(n * o[1] + y * o[4] + x * o[5],
                              n * q.image_pitch + y * p.dim[1].read_step * q.row_pitch +
                                  x * p.dim[2].read_step * CKCI_NEAR_PITCH,
                              y, x);
        } else {
            m.position[i].set(0, 0, 0x3ff, 0x3ff); /* beyond every region */
        }
    }
    __syncthreads();
}

/* WMMA demands all lanes: no product may sink to where its sums are stored, by some of them only. */
template <class U> CKCI_K_FN void ckci_k_settle(typename U::sums &d)
{
#if defined(__HIP_DEVICE_COMPILE__)
    if constexpr (U::WAVE == 32) {
        asm volatile("" : "+v"(d.v));
    }
#endif
    (void)d;
}

/* Sums of one position in N neighbouring channels. */
template <int N> struct ckci_k_near_run {
    float v[N];
};

/* They go through the epilogue; apart, lest it take registers from the rest. i: of the positions of a region
   that begins at image n; z, y, x: where that is. */
template <int N>
CKCI_K_APART void ckci_k_near_finish(const ckci_gpu_conv &p, int32_t n, int32_t z, int32_t y, int32_t x,
                                     int32_t i, const ckci_k_near_spot s, int32_t channel,
                                     const ckci_k_near_run<N> sum)
{
    n += ckci_k_divide(ckci_k_divide(i, p.region.by_columns), p.region.by_rows);
    const int32_t group = ckci_k_divide(channel, p.by_columns), c = channel - group * p.columns;
    CKCI_K_UNROLL(1)
    for (int j = 0; j < N; j++) {
        float v = 0;
        CKCI_K_UNROLL(8)
        for (int e = 0; e < N; e++) {
            v = e == j ? sum.v[e] : v;
        }
        ckci_k_write<float>(p.o, v, group, n, c + j, z, y + s.y(), x + s.x());
    }
}

/* How: by tiles of any filter, by strips, by planes. */
enum { CKCI_K_NEAR_TILES, CKCI_K_NEAR_DOWN, CKCI_K_NEAR_DEEP };

template <class U, int Q, int HOW> struct ckci_k_near_gather {
    typedef ckci_k_near_lds<U::ASYNC> lds;
    typedef ckci_k_near_unit<U> unit;
    typedef typename U::operand operand;
    enum {
        WAVES = 256 / U::WAVE,
        HALVES = WAVES / 4,
        TERMS = Q / 16,
        FILL = 12, /* weights of a thread on their way together */
        DOWN = HOW == CKCI_K_NEAR_DOWN,
        DEEP = HOW == CKCI_K_NEAR_DEEP,
        /* gfx11's operands are twice as large: weights of 32 channels are read again for each region */
        HELD = !(DEEP && (U::ASYNC || sizeof(operand) > 16)) &&
               CKCI_K_NEAR_TAPS * TERMS * sizeof(operand) <= 288,
        TWO = 2,
        TILES = DEEP   ? 32 / U::SUMS /* side by side */
                : HELD ? 1
                       : CKCI_NEAR_AMD_POSITIONS / 16 / HALVES
    };
    typedef operand held[HELD ? +CKCI_K_NEAR_TAPS : 1][TERMS];
    typedef typename U::sums all_sums[DEEP ? TILES / TWO : 1][TWO];
    /* Where a lane's sums of 16 positions go, so many rows further and then row by row, and how many rows
       there are of each. */
    struct places {
        unsigned char *to[unit::PIECES];
        int32_t rows[unit::PIECES];
    };
    /* and the sums of three rows on the way down */
    struct strip {
        places out;
        typename U::sums sum[3];
    };
    typedef ckci_k_near_run<unit::RUN> run_sums;

    /* `from`: weights of `column` and its neighbours in the order [column][tap][Q], `pitch` apart. */
    static CKCI_K_MEMBER void load_weights(const ckci_gpu_conv &p, const unsigned char *from, int32_t pitch,
                                           int t, operand (&w)[TERMS])
    {
        const int32_t taps = p.region.taps, tap = DEEP ? t : t >= taps ? 0 : p.region.back ? taps - 1 - t : t;
        CKCI_K_UNROLL(2)
        for (int i = 0; i < TERMS; i++) {
            w[i] = unit::load_weights(
                [&](int row) { return from + row * pitch + (tap * Q + i * 16) * CKCI_K_HALF; });
        }
    }

    static CKCI_K_MEMBER const unsigned char *packed(const ckci_gpu_conv &p, int32_t column)
    {
        return p.b.p + (int64_t)(column < p.region.channels ? column : 0) * pitch_of(p);
    }

    static CKCI_K_MEMBER int32_t pitch_of(const ckci_gpu_conv &p)
    {
        return p.region.planes * p.region.taps * (Q * CKCI_K_HALF);
    }

    /* NVIDIA: the weights of 64 columns on their way through LDS, rows 16 bytes more than 32 apart, modulo
       64. Either they lie packed, or each is fetched from where it lies in its tensor. */
    static CKCI_K_MEMBER void fill(const ckci_gpu_conv &conv, unsigned char *to, int32_t channel)
    {
        const ckci_gpu_conv &p = ckci_k_late(conv);
        const int32_t thread = (int32_t)threadIdx.x, taps = p.region.taps, row = taps * (Q * CKCI_K_HALF);
        const int32_t chunks = row / 16, pitch = row + 16, good = p.region.channels - channel;
        if (p.region.packed || (int32_t)p.by_one_c.d < Q) {
            CKCI_K_UNROLL(2)
            for (int32_t i = thread; i < 64 * chunks; i += 256) {
                const int32_t column = ckci_k_divide(i / (Q / 8), p.region.by_taps);
                ckci_k_uint4 v = {};
                if (p.region.packed && column < good) {
                    v = *(const ckci_k_uint4 *)(p.b.p + ((int64_t)channel * chunks + i) * 16);
                }
                *(ckci_k_uint4 *)(to + i * 16 + column * 16) = v;
            }
        }
        if (p.region.packed) {
            return;
        }
        __syncthreads();
        const int32_t c = (int32_t)p.by_one_c.d, all = (good < 64 ? good : 64) * c * taps;
        const int64_t *s = p.b.stride;
        const uint16_t *from = (const uint16_t *)p.b.p + ckci_k_divide(channel, p.by_one_c) * s[0];
        if (p.region.eights) {
            /* threads side by side have columns side by side, or neighbours of the reduction: no two of a
               wave write to a bank */
            const int32_t pieces = 64 * taps * (c / 8);
            CKCI_K_UNROLL(1)
            for (int32_t first = thread; first < pieces; first += FILL / 2 * 256) {
                ckci_k_uint4 v[FILL / 2];
                int32_t at[FILL / 2];
                CKCI_K_UNROLL(6)
                for (int j = 0; j < FILL / 2; j++) {
                    const int32_t i = first + j * 256, k = i % 64;
                    at[j] = -1;
                    if (i < pieces && k < good) {
                        v[j] = *(const ckci_k_uint4 *)(from + place(p, k, i / 64 * 8, pitch, at[j]));
                    }
                }
                CKCI_K_UNROLL(6)
                for (int j = 0; j < FILL / 2; j++) {
                    if (at[j] < 0) {
                        continue;
                    }
                    if (!p.region.back) {
                        *(ckci_k_uint4 *)(to + at[j]) = v[j];
                        continue;
                    }
                    const uint32_t two[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
                    CKCI_K_UNROLL(8)
                    for (int e = 0; e < 8; e++) {
                        *(uint16_t *)(to + at[j] + e * pitch) = (uint16_t)(two[e / 2] >> 16 * (e % 2));
                    }
                }
            }
            return;
        }
        CKCI_K_UNROLL(1)
        for (int32_t first = thread; first < all; first += FILL * 256) {
            uint16_t v[FILL];
            int32_t at[FILL];
            CKCI_K_UNROLL(12)
            for (int j = 0; j < FILL; j++) {
                const int32_t i = first + j * 256 < all ? first + j * 256 : first;
                const int32_t k = ckci_k_divide(ckci_k_divide(i, p.by_one_c), p.region.by_taps);
                v[j] = from[place(p, k, i - k * taps * c, pitch, at[j])];
            }
            CKCI_K_UNROLL(12)
            for (int j = 0; j < FILL; j++) {
                *(uint16_t *)(to + at[j]) = v[j];
            }
        }
    }

    /* Where weight i of output channel k lies, from those of the first one on; `at`: in LDS. */
    static CKCI_K_MEMBER int64_t place(const ckci_gpu_conv &p, int32_t k, int32_t i, int32_t pitch,
                                       int32_t &at)
    {
        const int32_t c = (int32_t)p.by_one_c.d, tap = ckci_k_divide(i, p.by_one_c), one = i - tap * c;
        const int32_t group = ckci_k_divide(k, p.by_one_c), y = ckci_k_divide(tap, p.region.by_filter_x);
        const int32_t other = group * c + one, x = tap - y * (int32_t)p.region.by_filter_x.d;
        const int64_t *s = p.b.stride;
        at = (p.region.back ? other : k) * pitch + (tap * Q + (p.region.back ? k : other) % Q) * CKCI_K_HALF;
        return group * s[0] + (k - group * c) * s[1] + one * s[2] + y * s[4] + x * s[5];
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        if constexpr (HELD || !DOWN) {
            walk(p, m);
        }
    }

    static CKCI_K_MEMBER void walk(const ckci_gpu_conv &p, lds &m)
    {
        const int32_t part = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_n);
        const int32_t channel = ((int32_t)blockIdx.x - part * p.tiles_n) * 64;
        const int32_t wave = ckci_k_same((int32_t)threadIdx.x / U::WAVE);
        const int32_t column = channel + (DEEP ? wave & ((1 << p.region.log_sides) - 1) : wave % 4) * 16;
        held weights;
        strip down;
        all_sums sum;
        ckci_k_near_tables(p, p.a, p.o.t, m);
        ckci_k_near_walk<U, 0, DEEP>(
            p, m, part, channel, 0,
            [&]() {
                if constexpr (HELD && !DEEP) {
                    const unsigned char *from = packed(p, column);
                    int32_t pitch = pitch_of(p);
                    if constexpr (U::ASYNC) {
                        fill(p, m.stage + lds::BYTES, channel);
                        pitch += 16;
                        from = m.stage + lds::BYTES + column % 64 * pitch;
                        __syncthreads();
                    }
                    CKCI_K_UNROLL(9)
                    for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
                        load_weights(p, from, pitch, t, weights[t]);
                    }
                    if constexpr (U::ASYNC) {
                        __syncthreads();
                    }
                }
            },
            [&](int32_t plane, int32_t at) {
                if constexpr (DEEP && U::ASYNC) {
                    copy_weights(p, m.stage + at + p.region.bytes, channel, plane);
                } else if constexpr (DEEP && HELD) {
                    if (p.region.taps == CKCI_K_NEAR_TAPS) {
                        const unsigned char *from = of_plane(p, column, plane);
                        const int32_t pitch = pitch_of(p);
                        CKCI_K_UNROLL(9)
                        for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
                            load_weights(p, from, pitch, t, weights[t]);
                        }
                    }
                }
                (void)plane, (void)at;
            },
            [&](const ckci_k_near_region &r, int32_t step, const unsigned char *stage) {
                if (ckci_k_lane_afresh(column) >= p.region.channels) {
                    return;
                }
                if (p.a.compute == CKCONV_BF16) {
                    multiply<ckci_k_bf16>(p, r, m, step, stage, column, weights, down, sum);
                } else {
                    multiply<ckci_k_f16>(p, r, m, step, stage, column, weights, down, sum);
                }
            });
    }

    /* NVIDIA: the weights of a plane on their way into LDS, in rows of which the unit tells. */
    static CKCI_K_MEMBER void copy_weights(const ckci_gpu_conv &p, unsigned char *to, int32_t channel,
                                           int32_t plane)
    {
        const int32_t left = p.region.channels - channel, columns = 16 << p.region.log_sides;
        const int32_t chunks = p.region.taps * (Q / 8), good = left < columns ? left : columns;
        const unsigned char *from = of_plane(p, channel, plane);
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x; i < good * chunks; i += 256) {
            const int32_t column = ckci_k_divide(i / (Q / 8), p.region.by_taps), piece = i - column * chunks;
            ckci_k_copy_from(to + (i + column + column / 8 * 2) * 16,
                             from + (int64_t)column * pitch_of(p) + piece * 16, 16);
        }
    }

    static CKCI_K_MEMBER const unsigned char *of_plane(const ckci_gpu_conv &p, int32_t column, int32_t plane)
    {
        const ckci_gpu_near &q = p.region;
        return packed(p, column) + (q.back ? q.planes - 1 - plane : plane) * q.taps * (Q * CKCI_K_HALF);
    }

    template <class T>
    static CKCI_K_MEMBER void multiply(const ckci_gpu_conv &p, const ckci_k_near_region &r, const lds &m,
                                       int32_t row, const unsigned char *stage, int32_t column, held &weights,
                                       strip &down, all_sums &sum)
    {
        if constexpr (DEEP) {
            if constexpr (U::ASYNC) {
                if (!ckci_k_afresh(p.region.packed)) {
                    planes<T, 1>(p, r, m, row, stage, column, weights, sum);
                    return;
                }
            }
            planes<T, 0>(p, r, m, row, stage, column, weights, sum);
        } else if constexpr (DOWN && HELD) {
            if (p.region.plain) {
                strips<T, 1>(p, r, m, row, stage, column, weights, down);
            } else {
                strips<T, 0>(p, r, m, row, stage, column, weights, down);
            }
        } else if constexpr (!DOWN) {
            if (ckci_k_afresh(p.region.taps) == CKCI_K_NEAR_TAPS) {
                tiles<T, 1>(p, r, m, stage, column, weights);
            } else {
                tiles<T, 0>(p, r, m, stage, column, weights);
            }
        }
    }

    /* Down the rows of 16 columns of positions: what is read of a row of pixels is multiplied with all three
       rows of the filter, into the sums of three rows of positions, of which one is then complete. A chunk
       that begins at a row other than 0 goes on with the sums of the one before. On NVIDIA the next row is
       on its way from LDS meanwhile. */
    template <class T, int PLAIN>
    static CKCI_K_MEMBER void strips(const ckci_gpu_conv &p, const ckci_k_near_region &r, const lds &m,
                                     int32_t first, const unsigned char *stage, int32_t column, held &weights,
                                     strip &down)
    {
        enum { AHEAD = U::ASYNC && PLAIN };
        const ckci_gpu_near &q = p.region;
        const int32_t end = U::ASYNC && first + q.chunk < r.rows ? first + q.chunk : r.rows;
        stage += column % 64 / Q * (Q * CKCI_K_HALF);
        CKCI_K_UNROLL(1)
        for (int32_t tile = ckci_k_same((int32_t)threadIdx.x / U::WAVE) / 4; tile < q.tiles; tile += HALVES) {
            const unsigned char *from = stage + m.position[tile * 16 + (int32_t)threadIdx.x % 16].at();
            typename U::sums(&sum)[3] = down.sum;
            operand pixels[3][TERMS];
            if (first == 0) {
                targets(p, r, m, tile, column + unit::channel(), -2, down.out);
                CKCI_K_UNROLL(8)
                for (int e = 0; e < U::SUMS; e++) {
                    sum[0].v[e] = sum[1].v[e] = 0;
                }
            }
            if constexpr (AHEAD) {
                load_row(from, pixels);
            }
            CKCI_K_UNROLL(1)
            for (int32_t row = first ? first : -2; row < end; row++) {
                operand ahead[3][TERMS];
                if constexpr (AHEAD) {
                    from += row + 1 < end ? q.row_pitch : 0;
                    load_row(from, ahead);
                } else {
                    load_row(from, pixels);
                    from += q.row_pitch;
                }
                CKCI_K_UNROLL(8)
                for (int e = 0; e < U::SUMS; e++) {
                    sum[2].v[e] = 0;
                }
                CKCI_K_UNROLL(3)
                for (int x = 0; x < 3; x++) {
                    CKCI_K_UNROLL(2)
                    for (int i = 0; i < TERMS; i++) {
                        CKCI_K_UNROLL(3)
                        for (int y = 0; y < 3; y++) {
                            unit::template multiply<T>(sum[2 - y], weights[3 * y + x][i], pixels[x][i]);
                        }
                        if constexpr (AHEAD) {
                            pixels[x][i] = ahead[x][i];
                        }
                    }
                }
                write<T, PLAIN>(p, r, m, tile, row, column + unit::channel(), down.out, sum[0]);
                sum[0] = sum[1];
                sum[1] = sum[2];
            }
        }
    }

    /* What 16 positions read of a row of pixels. */
    static CKCI_K_MEMBER void load_row(const unsigned char *from, operand (&pixels)[3][TERMS])
    {
        CKCI_K_UNROLL(3)
        for (int x = 0; x < 3; x++) {
            CKCI_K_UNROLL(2)
            for (int i = 0; i < TERMS; i++) {
                pixels[x][i] = U::load_rows(from + x * CKCI_NEAR_PITCH, i * 32);
            }
        }
    }

    template <class T, int ALL>
    static CKCI_K_MEMBER void tiles(const ckci_gpu_conv &p, const ckci_k_near_region &r, const lds &m,
                                    const unsigned char *stage, int32_t column, held &weights)
    {
        const ckci_gpu_near &q = p.region;
        stage += column % 64 / Q * (Q * CKCI_K_HALF);
        CKCI_K_UNROLL(1)
        for (int32_t tile = ckci_k_same((int32_t)threadIdx.x / U::WAVE) / 4; tile < q.tiles;
             tile += HALVES * TILES) {
            typename U::sums sum[TILES];
            const unsigned char *from[TILES];
            CKCI_K_UNROLL(4)
            for (int n = 0; n < TILES; n++) {
                const int32_t at = tile + n * HALVES;
                from[n] =
                    stage + m.position[(at < q.tiles ? at : tile) * 16 + (int32_t)threadIdx.x % 16].at();
                CKCI_K_UNROLL(8)
                for (int e = 0; e < U::SUMS; e++) {
                    sum[n].v[e] = 0;
                }
            }
            if constexpr (HELD) {
                const int32_t taps = ckci_k_afresh(q.taps);
                CKCI_K_UNROLL(9)
                for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
                    if (ALL || t < taps) {
                        one<T>(from, q.tap[t], weights[t], sum);
                    }
                }
            } else {
                CKCI_K_UNROLL(1)
                for (int t = 0; t < q.taps; t++) {
                    operand now[TERMS];
                    load_weights(p, packed(p, column), pitch_of(p), t, now);
                    one<T>(from, q.tap[t], now, sum);
                }
            }
            CKCI_K_UNROLL(4)
            for (int n = 0; n < TILES; n++) {
                if (tile + n * HALVES < q.tiles) {
                    finish_tile<T>(p, r, m, tile + n * HALVES, column + unit::channel(), sum[n]);
                }
            }
        }
    }

    /* One plane of the filter for all tiles of a wave, TWO at a time. The last one completes the sums. TURN
       (NVIDIA): rows of weights are the reduction. */
    template <class T, int TURN>
    static CKCI_K_MEMBER void planes(const ckci_gpu_conv &conv, const ckci_k_near_region &r, const lds &m,
                                     int32_t plane, const unsigned char *stage, int32_t column, held &weights,
                                     all_sums &sum)
    {
        const ckci_gpu_conv &p = ckci_k_again(conv);
        const ckci_gpu_near &q = p.region;
        const int32_t first = ckci_k_same((int32_t)threadIdx.x / U::WAVE) >> q.log_sides;
        const int32_t step = WAVES >> q.log_sides;
        const int32_t block = column % 64 / Q * Q; /* its first channel in the slice */
        const unsigned char *of_weights = stage;
        int32_t next_term = 0, channel = column + unit::channel();
        if constexpr (U::ASYNC) {
            const int32_t pitch = q.taps * (Q * CKCI_K_HALF) + 16, row = TURN ? block : column % 64;
            of_weights += q.bytes + row * pitch + row / 8 * 32 + unit::template weights_at<TURN>(pitch);
            of_weights += TURN ? (column % 64 - block) * CKCI_K_HALF : 0;
            next_term = TURN ? 16 * pitch + 64 : 32;
            channel = TURN ? column + unit::channel_of_four() : channel;
        }
        stage += block * CKCI_K_HALF;
        CKCI_K_UNROLL(4)
        for (int n = 0; n < TILES / TWO; n++) {
            const int32_t tile = first + n * TWO * step;
            if (tile >= q.tiles) {
                break;
            }
            const unsigned char *from[TWO];
            CKCI_K_UNROLL(2)
            for (int j = 0; j < TWO; j++) {
                const int32_t at = tile + j * step;
                from[j] = stage + m.position[(at < q.tiles ? at : 0) * 16 + (int32_t)threadIdx.x % 16].at();
                if (plane == 0) {
                    CKCI_K_UNROLL(8)
                    for (int e = 0; e < U::SUMS; e++) {
                        sum[n][j].v[e] = 0;
                    }
                }
            }
            if ((HELD || U::ASYNC) && q.taps == CKCI_K_NEAR_TAPS) {
                CKCI_K_UNROLL(9)
                for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
                    if constexpr (HELD) {
                        one<T>(from, q.tap[t], weights[t], sum[n]);
                    } else {
                        one_from<T, TURN>(p, from, t, of_weights, next_term, column, plane, sum[n]);
                    }
                }
            } else {
                CKCI_K_UNROLL(1)
                for (int t = 0; t < q.taps; t++) {
                    one_from<T, TURN>(p, from, t, of_weights, next_term, column, plane, sum[n]);
                }
            }
        }
        if (plane + 1 < q.planes) {
            return;
        }
        /* the code that stores stands once: it takes the first sums, and the others move up */
        CKCI_K_UNROLL(1)
        for (int n = 0; n < TILES && first + n * step < q.tiles; n++) {
            if constexpr (TURN) {
                unit::own_four(sum[0][0]);
            }
            finish_tile<T>(ckci_k_again(conv), r, m, first + n * step, channel, sum[0][0]);
            CKCI_K_UNROLL(8)
            for (int i = 1; i < TILES; i++) {
                sum[(i - 1) / TWO][(i - 1) % TWO] = sum[i / TWO][i % TWO];
            }
        }
    }

    /* A tap whose weights are not held: from LDS (NVIDIA) or memory. */
    template <class T, int TURN>
    static CKCI_K_MEMBER void one_from(const ckci_gpu_conv &p, const unsigned char *const (&from)[TWO], int t,
                                       const unsigned char *of_weights, int32_t next_term, int32_t column,
                                       int32_t plane, typename U::sums (&sum)[TWO])
    {
        operand now[TERMS];
        if constexpr (U::ASYNC) {
            CKCI_K_UNROLL(2)
            for (int i = 0; i < TERMS; i++) {
                now[i] =
                    unit::template load_weights_at<TURN>(of_weights + t * (Q * CKCI_K_HALF) + i * next_term);
            }
        } else {
            load_weights(p, of_plane(p, column, plane), pitch_of(p), t, now);
        }
        one<T>(from, p.region.tap[t], now, sum);
    }

    template <class T>
    static CKCI_K_MEMBER void finish_tile(const ckci_gpu_conv &p, const ckci_k_near_region &r, const lds &m,
                                          int32_t tile, int32_t channel, typename U::sums &sum)
    {
        places out;
        targets(p, r, m, tile, channel, 0, out);
        if (p.region.plain) {
            write<T, 1>(p, r, m, tile, 0, channel, out, sum);
        } else {
            write<T, 0>(p, r, m, tile, 0, channel, out, sum);
        }
    }

    /* a tap */
    template <class T, int N>
    static CKCI_K_MEMBER void one(const unsigned char *const (&from)[N], int32_t tap,
                                  const operand (&weights)[TERMS], typename U::sums (&sum)[N])
    {
        CKCI_K_UNROLL(4)
        for (int n = 0; n < N; n++) {
            CKCI_K_UNROLL(2)
            for (int i = 0; i < TERMS; i++) {
                unit::template multiply<T>(sum[n], weights[i], U::load_rows(from[n] + tap, i * 32));
            }
        }
    }

    static CKCI_K_MEMBER void targets(const ckci_gpu_conv &conv, const ckci_k_near_region &r, const lds &m,
                                      int32_t tile, int32_t channel, int32_t row, places &out)
    {
        const ckci_gpu_conv &p = ckci_k_late(conv);
        const ckci_tensor &t = p.o.t;
        unsigned char *first =
            t.p + (ckci_k_near_steps(t).at(r.n, r.z, r.y + row, r.x) + channel) * CKCI_K_HALF;
        CKCI_K_UNROLL(2)
        for (int piece = 0; piece < unit::PIECES; piece++) {
            const int32_t i = tile * 16 + unit::position(piece);
            const ckci_k_near_spot s = m.position[i];
            out.rows[piece] = r.holds(p.region, i, s) ? r.rows : 0;
            out.to[piece] = first + (int64_t)s.offset * CKCI_K_HALF;
        }
    }

    /* The sums of such a row (before the first one: of none): straight to memory or each through the
       epilogue. */
    template <class T, int PLAIN>
    static CKCI_K_MEMBER void write(const ckci_gpu_conv &conv, const ckci_k_near_region &r, const lds &m,
                                    int32_t tile, int32_t row, int32_t channel, places &out,
                                    typename U::sums &sum)
    {
        const ckci_gpu_conv &p = ckci_k_late(conv);
        ckci_k_settle<U>(sum);
        CKCI_K_UNROLL(2)
        for (int piece = 0; piece < unit::PIECES; piece++) {
            run_sums own;
            CKCI_K_UNROLL(8)
            for (int j = 0; j < unit::RUN; j++) {
                own.v[j] = sum.v[unit::sum(piece, j)];
            }
            const bool good = (uint32_t)row < (uint32_t)out.rows[piece];
            if constexpr (PLAIN) {
                if (good) {
                    store<T>(out.to[piece], own);
                }
                out.to[piece] += CKCI_K_HALF * ckci_k_near_steps(p.o.t).y;
            } else if (good) {
                const int32_t i = tile * 16 + unit::position(piece);
                ckci_k_near_finish(p, r.n, r.z, r.y + row, r.x, i, m.position[i], channel, own);
            }
        }
    }

    template <class T> static CKCI_K_MEMBER void store(unsigned char *to, const run_sums &sum)
    {
        uint32_t v[unit::RUN / 2];
        CKCI_K_UNROLL(4)
        for (int j = 0; j < unit::RUN / 2; j++) {
            v[j] = ckci_k_two(T::TYPE, ckci_k_bits(sum.v[2 * j]), ckci_k_bits(sum.v[2 * j + 1]));
        }
        if constexpr (unit::RUN == 4) {
            const ckci_k_uint2 two = {v[0], v[1]};
            *(ckci_k_uint2 *)to = two;
        } else {
            const ckci_k_uint4 four = {v[0], v[1], v[2], v[3]};
            *(ckci_k_uint4 *)to = four;
        }
    }
};

template <class U, int Q> struct ckci_k_near : ckci_k_near_gather<U, Q, CKCI_K_NEAR_TILES> {
};
template <class U, int Q> struct ckci_k_near_down : ckci_k_near_gather<U, Q, CKCI_K_NEAR_DOWN> {
};
template <class U, int Q> struct ckci_k_near_deep : ckci_k_near_gather<U, Q, CKCI_K_NEAR_DEEP> {
};

template <class U, int Q> struct ckci_k_near_weight {
    typedef ckci_k_near_lds<U::ASYNC> lds;
    typedef ckci_k_near_unit<U> unit;
    typedef typename U::operand operand;
    enum {
        WAVES = 256 / U::WAVE,
        TASKS = Q / 16 * 4, /* blocks of 16 x 16 weights */
        HALVES = WAVES > TASKS ? WAVES / TASKS : 1,
        EACH = TASKS > WAVES ? TASKS / WAVES : 1,
        ZEROS = lds::BYTES - 128 /* what positions beyond a region read, lest dout's 0 meet an infinity */
    };
    typedef typename U::sums block[CKCI_K_NEAR_TAPS][EACH];

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        const int32_t slice = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_n);
        const int32_t channel = ((int32_t)blockIdx.x - slice * p.tiles_n) * 64;
        const int32_t part = ckci_k_divide(slice, p.region.by_planes);
        const int32_t plane = slice - part * p.region.planes;
        const int32_t task = ckci_k_same((int32_t)threadIdx.x / U::WAVE) * EACH % TASKS;
        /* of the slice: output channels, and the input channels of its block */
        const int32_t row = task / (Q / 16) * 16, column = row / Q * Q + task % (Q / 16) * 16;
        block sum;
        CKCI_K_UNROLL(9)
        for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
            CKCI_K_UNROLL(2)
            for (int j = 0; j < EACH; j++) {
                CKCI_K_UNROLL(8)
                for (int e = 0; e < U::SUMS; e++) {
                    sum[t][j].v[e] = 0;
                }
            }
        }
        if (threadIdx.x < 32 * lds::STAGES) {
            const int32_t thread = (int32_t)threadIdx.x;
            unsigned char *stage = m.stage + thread / 32 * lds::BYTES + thread % 32 * 4;
            *(uint32_t *)(stage + ZEROS) = 0;
            /* and dout's places after the last one in use */
            const ckci_gpu_near &q = p.region;
            CKCI_K_UNROLL(1)
            for (int32_t i = q.images * q.rows * q.columns; i < q.tiles * 16; i++) {
                *(uint32_t *)(stage + q.bytes + i * CKCI_NEAR_PITCH) = 0;
            }
        }
        ckci_k_near_tables(p, p.b, p.a, m);
        ckci_k_near_walk<U, 1, 0>(
            p, m, part, channel, plane, []() {}, [](int32_t, int32_t) {},
            [&](const ckci_k_near_region &r, int32_t, const unsigned char *stage) {
                if (p.a.compute == CKCONV_BF16) {
                    multiply<ckci_k_bf16>(p, r, m, stage, channel, row, column, sum);
                } else {
                    multiply<ckci_k_f16>(p, r, m, stage, channel, row, column, sum);
                }
            });
        finish(ckci_k_late(p), m, channel + row, channel + column, sum);
    }

    template <class T>
    static CKCI_K_MEMBER void multiply(const ckci_gpu_conv &p, const ckci_k_near_region &r, const lds &m,
                                       const unsigned char *stage, int32_t first, int32_t row, int32_t column,
                                       block &sum)
    {
        const ckci_gpu_near &q = p.region;
        if (ckci_k_afresh(q.channels) <= first + row) {
            return; /* a slice that has fewer channels */
        }
        const bool whole = r.images == q.images && r.rows == q.rows && r.columns == q.columns;
        CKCI_K_UNROLL(1)
        for (int32_t tile = ckci_k_same((int32_t)threadIdx.x / U::WAVE) * EACH / TASKS; tile < q.tiles;
             tile += HALVES) {
            int32_t at[unit::TURNED], mask[unit::TURNED];
            CKCI_K_UNROLL(16)
            for (int i = 0; i < unit::TURNED; i++) {
                const int32_t position = tile * 16 + unit::turned_second(i);
                const ckci_k_near_spot s = m.position[position];
                const bool good = r.holds(q, position, s);
                at[i] = good ? s.at() + column * CKCI_K_HALF : +ZEROS;
                mask[i] = good ? -1 : 0;
            }
            const operand a = unit::load_turned([&](int i) {
                return stage + q.bytes + (tile * 16 + unit::turned(i)) * CKCI_NEAR_PITCH + row * CKCI_K_HALF;
            });
            if (U::ASYNC && whole && tile * 16 + 16 <= q.images * q.rows * q.columns) {
                products<T, 0>(q, stage, at, mask, a, sum);
            } else {
                products<T, 1>(q, stage, at, mask, a, sum);
            }
        }
    }

    /* 16 positions with all taps. HOLES: some of them are none. */
    template <class T, int HOLES>
    static CKCI_K_MEMBER void products(const ckci_gpu_near &q, const unsigned char *stage,
                                       const int32_t (&at)[unit::TURNED], const int32_t (&mask)[unit::TURNED],
                                       const operand &a, block &sum)
    {
        CKCI_K_UNROLL(9)
        for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
            CKCI_K_UNROLL(2)
            for (int j = 0; j < EACH; j++) {
                const int32_t more = q.tap[t] + 16 * j * CKCI_K_HALF;
                unit::template multiply_turned<T>(sum[t][j], a, unit::load_turned_second([&](int i) {
                                                      return stage + at[i] + (HOLES ? more & mask[i] : more);
                                                  }));
            }
        }
    }

    static CKCI_K_MEMBER void finish(const ckci_gpu_conv &p, lds &m, int32_t row, int32_t column, block &sum)
    {
        const int32_t slice = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_n);
        const int32_t part = ckci_k_divide(slice, p.region.by_planes);
        const int32_t plane = slice - part * p.region.planes;
        const int wave = (int)threadIdx.x / U::WAVE;
        if constexpr (HALVES == 2) {
            float *shared = (float *)m.stage + (int)threadIdx.x % 128;
            CKCI_K_UNROLL(3)
            for (int first = 0; first < CKCI_K_NEAR_TAPS; first += 3) {
                if (wave >= TASKS) {
                    exchange<0>(shared, first, sum);
                }
                __syncthreads();
                if (wave < TASKS) {
                    exchange<1>(shared, first, sum);
                }
                __syncthreads();
            }
        }
        if (HALVES == 2 && wave >= TASKS) {
            return;
        }
        const int32_t c = (int32_t)p.by_one_c.d, taps = p.region.taps, all = p.region.planes * taps;
        float *to = (float *)p.o.partial + ((int64_t)part * p.region.channels * all + plane * taps) * c;
        CKCI_K_UNROLL(2)
        for (int j = 0; j < EACH; j++) {
            CKCI_K_UNROLL(8)
            for (int e = 0; e < U::SUMS; e += unit::ACROSS) {
                const int32_t y = row + U::row(e), x = column + 16 * j + U::column(e);
                const int32_t group = ckci_k_divide(y, p.by_one_k);
                if (y >= p.region.channels || group != ckci_k_divide(x, p.by_one_c)) {
                    continue;
                }
                float *filter = to + (int64_t)y * all * c + (x - group * c);
                CKCI_K_UNROLL(9)
                for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
                    if (t >= taps) {
                        continue;
                    }
                    if constexpr (unit::ACROSS == 2) {
                        const ckci_k_uint2 two = {ckci_k_bits(sum[t][j].v[e]),
                                                  ckci_k_bits(sum[t][j].v[e + 1])};
                        *(ckci_k_uint2 *)(filter + t * c) = two;
                    } else {
                        filter[t * c] = sum[t][j].v[e];
                    }
                }
            }
        }
    }

    /* Three taps' sums of the second waves into LDS; from there, added to those of the first. */
    template <int ADD> static CKCI_K_MEMBER void exchange(float *shared, int first, block &sum)
    {
        CKCI_K_UNROLL(3)
        for (int t = 0; t < 3; t++) {
            CKCI_K_UNROLL(8)
            for (int e = 0; e < U::SUMS; e++) {
                float *at = shared + (t * U::SUMS + e) * 128;
                if (ADD) {
                    sum[first + t][0].v[e] += *at;
                } else {
                    *at = sum[first + t][0].v[e];
                }
            }
        }
    }
};

/* ---- The kernels, with the unit U of the target; elsewhere than ON they are empty, and no plan takes them.
   F: the tile loop, of fragments or of groups of waves. unit: U itself, or what computes i8 or f32 on it. */
enum {
    CKCI_K_ON_CDNA = 1,
    CKCI_K_ON_RDNA = 2,
    CKCI_K_ON_NVIDIA = 4,
    CKCI_K_ON_ALL = 7,
    CKCI_K_ON_SINGLE = CKCI_K_ON_CDNA | CKCI_K_ON_NVIDIA,
#if defined(__gfx908__)
    CKCI_K_ON_DOUBLE = CKCI_K_ON_NVIDIA
#else
    CKCI_K_ON_DOUBLE = CKCI_K_ON_CDNA | CKCI_K_ON_NVIDIA
#endif
};

struct ckci_k_matrix_halves {
    enum { ON = CKCI_K_ON_ALL };
    template <class U> using unit = U;
};

template <int BM, int BN> struct ckci_k_matrix_gather : ckci_k_matrix_halves {
    enum { GROUPS = BM >= 128 && BN >= 64, ACROSS = 0, WEIGHT = 0 };

    template <class U, class F, class L> static CKCI_K_MEMBER void with(const ckci_gpu_conv &p, L &m)
    {
        ckci_k_matrix_gather_run<F, ckci_k_gather_chunks<U, BM, BN, 0>, BM, BN>(p, m);
    }
};

/* The same in other types: on Unit<U>, where ON says. */
template <template <class> class Unit, int WHERE, int BM, int BN> struct ckci_k_matrix_gather_by {
    enum { GROUPS = 0, ACROSS = 0, WEIGHT = 0, ON = WHERE };
    template <class U> using unit = Unit<U>;

    template <class U, class F, class L> static CKCI_K_MEMBER void with(const ckci_gpu_conv &p, L &m)
    {
        ckci_k_matrix_gather_run<F, ckci_k_gather_chunks<U, BM, BN, 0>, BM, BN>(p, m);
    }
};

template <int BM, int BN>
struct ckci_k_matrix_whole : ckci_k_matrix_gather_by<ckci_k_whole, CKCI_K_ON_ALL, BM, BN> {
};

template <int BM, int BN>
struct ckci_k_matrix_single : ckci_k_matrix_gather_by<ckci_k_single, CKCI_K_ON_SINGLE, BM, BN> {
};

template <int BM, int BN>
struct ckci_k_matrix_double : ckci_k_matrix_gather_by<ckci_k_double, CKCI_K_ON_DOUBLE, BM, BN> {
};

/* bwd_data that reads weights as they are, rows of output channels: places of the reduction. */
template <int BM, int BN> struct ckci_k_matrix_back : ckci_k_matrix_halves {
    enum { GROUPS = BM >= 128 && BN >= 64, ACROSS = 2, WEIGHT = 0 };

    template <class U, class F, class L> static CKCI_K_MEMBER void with(const ckci_gpu_conv &p, L &m)
    {
        ckci_k_matrix_gather_run<F, ckci_k_gather_chunks<U, BM, BN, 1>, BM, BN>(p, m);
    }
};

template <class U, int BM, int BN, int ASYNC> struct ckci_k_weight_loader {
    typedef ckci_k_weight_chunks<U, BM, BN> type;
};
#if defined(CKCI_K_MMA)
template <class U, int BM, int BN> struct ckci_k_weight_loader<U, BM, BN, 1> {
    typedef ckci_k_weight_slabs<BM, BN> type;
};
#endif

template <int BM, int BN> struct ckci_k_matrix_weight : ckci_k_matrix_halves {
    enum { GROUPS = BM >= 64 && BN >= 128, ACROSS = 1, WEIGHT = 1 };

    template <class U, class F, class L> static CKCI_K_MEMBER void with(const ckci_gpu_conv &p, L &m)
    {
        typedef typename ckci_k_weight_loader<U, BM, BN, U::ASYNC>::type loader;
        ckci_k_matrix_weight_run<F, loader, BM, BN>(p, m);
    }
};

/* The same in other types, as ckci_k_matrix_gather_by. */
template <template <class> class Unit, int WHERE, int BM, int BN> struct ckci_k_matrix_weight_by {
    enum { GROUPS = 0, ACROSS = 0, WEIGHT = 1, ON = WHERE };
    template <class U> using unit = Unit<U>;

    template <class U, class F, class L> static CKCI_K_MEMBER void with(const ckci_gpu_conv &p, L &m)
    {
        ckci_k_matrix_weight_run<F, ckci_k_weight_chunks<U, BM, BN>, BM, BN>(p, m);
    }
};

template <int BM, int BN>
struct ckci_k_matrix_single_weight : ckci_k_matrix_weight_by<ckci_k_single_late, CKCI_K_ON_SINGLE, BM, BN> {
};

template <int BM, int BN>
struct ckci_k_matrix_double_weight : ckci_k_matrix_weight_by<ckci_k_double, CKCI_K_ON_DOUBLE, BM, BN> {
};

template <template <int, int> class Body, int BM, int BN> struct ckci_k_matrix {
    typedef Body<BM, BN> body;
    template <class U> using unit_of = typename body::template unit<U>;
    enum {
        WIDEST = BM * BN == 256 * 256,
        LARGE = BM > 128 || BN > 128 || body::ACROSS == 2,
        ON = WIDEST  ? +CKCI_K_ON_CDNA
             : LARGE ? +CKCI_K_ON_NVIDIA
                     : +body::ON
    };

#if defined(CKCI_SIMULATOR)
    struct lds {
    };

    template <class U, class F> static void with(const ckci_gpu_conv &p)
    {
        typedef typename ckci_k_matrix_room<F::BYTES, BM, body::WEIGHT * U::KB / U::SIZE,
                                            body::GROUPS && !body::WEIGHT>::type bytes;
        CKCI_K_LDS(bytes, m);
        body::template with<U, F>(p, m);
    }

    template <class Base, int ACROSS> static void fragments(const ckci_gpu_conv &p)
    {
        typedef unit_of<Base> unit;
        with<unit, ckci_k_fragments<unit, BM, BN, ACROSS>>(p);
    }

    static void run(const ckci_gpu_conv &p, lds &)
    {
        int kind = sim_matrix_unit();
        if constexpr ((ON & CKCI_K_ON_CDNA) != 0) {
            if (kind == SIM_MFMA) {
                fragments<ckci_k_mfma, 0>(p);
            }
        }
        if constexpr ((ON & CKCI_K_ON_RDNA) != 0) {
            if (kind == SIM_WMMA) {
                fragments<ckci_k_wmma<11>, 0>(p);
            } else if (kind == SIM_WMMA12) {
                fragments<ckci_k_wmma<12>, 0>(p);
            }
        }
        if constexpr ((ON & CKCI_K_ON_NVIDIA) != 0) {
            with_groups(p, kind);
        }
    }

    static void with_groups(const ckci_gpu_conv &p, int kind)
    {
        if constexpr (body::GROUPS) {
            if (kind == SIM_WGMMA) {
                with<ckci_k_mma, ckci_k_groups<BM, BN, body::ACROSS>>(p);
                return;
            }
        }
        if (kind == SIM_MMA || kind == SIM_WGMMA) {
            fragments<ckci_k_mma, body::ACROSS>(p);
        }
    }
#elif defined(CKCI_K_MFMA) || defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12)
#if defined(CKCI_K_MFMA)
    typedef unit_of<ckci_k_mfma> unit;
#if defined(__gfx950__) /* compilers move its sums between registers */
    enum { EMPTY = (ON & CKCI_K_ON_CDNA) == 0 || WIDEST };
#else
    enum { EMPTY = (ON & CKCI_K_ON_CDNA) == 0 };
#endif
#elif defined(CKCI_K_WMMA)
    typedef unit_of<ckci_k_wmma<11>> unit;
    enum { EMPTY = (ON & CKCI_K_ON_RDNA) == 0 };
#else
    typedef unit_of<ckci_k_wmma<12>> unit;
    enum { EMPTY = (ON & CKCI_K_ON_RDNA) == 0 };
#endif
    typedef ckci_k_fragments<unit, EMPTY ? 64 : BM, EMPTY ? 64 : BN, 0> tile;
    typedef ckci_k_matrix_lds<EMPTY ? 16 : +tile::BYTES, EMPTY || body::ACROSS != 0 ? 1 : BM,
                              body::WEIGHT * unit::KB / unit::SIZE>
        lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        if constexpr (!EMPTY) {
            body::template with<unit, tile>(p, m);
        } else {
            (void)p;
            (void)m;
        }
    }
#elif defined(CKCI_K_MMA)
    /* as much LDS for groups of waves and for fragments: the host does not know for which it was compiled */
    typedef unit_of<ckci_k_mma> unit;
    enum { EMPTY = (ON & CKCI_K_ON_NVIDIA) == 0 };
    typedef ckci_k_fragments<unit, EMPTY ? 64 : BM, EMPTY ? 64 : BN, body::ACROSS> fragments;
    enum {
        STRIPS = EMPTY ? 0 : BM * (BN + 4) * 4,
        TILES = body::GROUPS ? CKCI_GROUP_STAGES(BM + BN) * (BM + BN) * 128 : 0,
        LEAST = TILES > fragments::BYTES ? +TILES : +fragments::BYTES,
        BYTES = body::GROUPS && STRIPS > LEAST ? +STRIPS : +LEAST
    };
    typedef typename ckci_k_matrix_room<BYTES, BM, body::WEIGHT * unit::KB / unit::SIZE,
                                        body::GROUPS && !body::WEIGHT>::type lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        if constexpr (EMPTY) {
            (void)p;
            (void)m;
            return;
        }
#if defined(CKCI_K_WGMMA)
        else if constexpr (body::GROUPS) {
            body::template with<ckci_k_mma, ckci_k_groups<BM, BN, body::ACROSS>>(p, m);
            return;
        }
#endif
        else {
            body::template with<unit, fragments>(p, m);
        }
    }
#else
    struct lds {
        int32_t unused;
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &, lds &)
    {
    }
#endif
};

#if defined(CKCI_K_WGMMA) && !defined(CKCI_SIMULATOR)
template <> struct ckci_k_resident<ckci_k_matrix<ckci_k_matrix_gather, 128, 128>> {
    enum { BLOCKS = 2 };
};
template <> struct ckci_k_resident<ckci_k_matrix<ckci_k_matrix_back, 128, 128>> {
    enum { BLOCKS = 2 };
};
template <> struct ckci_k_resident<ckci_k_matrix<ckci_k_matrix_single, 128, 128>> {
    enum { BLOCKS = 2 };
};
template <> struct ckci_k_resident<ckci_k_matrix<ckci_k_matrix_weight, 64, 192>> {
    enum { BLOCKS = 2 };
};
template <> struct ckci_k_resident<ckci_k_matrix<ckci_k_matrix_weight, 64, 64>> {
    enum { BLOCKS = 3 };
};
#endif

/* Body: ckci_k_near, ckci_k_near_down or ckci_k_near_weight. */
template <template <class, int> class Body, int Q> struct ckci_k_matrix_near {
#if defined(CKCI_SIMULATOR)
    struct lds {
    };

    template <class U> static void with(const ckci_gpu_conv &p)
    {
        typedef typename Body<U, Q>::lds body_lds;
        CKCI_K_LDS(body_lds, m);
        Body<U, Q>::run(p, m);
    }

    static void run(const ckci_gpu_conv &p, lds &)
    {
        int kind = sim_matrix_unit();
        if (kind == SIM_MFMA) {
            with<ckci_k_mfma16>(p);
        } else if (kind == SIM_WMMA) {
            with<ckci_k_wmma<11>>(p);
        } else if (kind == SIM_WMMA12) {
            with<ckci_k_wmma<12>>(p);
        } else if (kind == SIM_MMA || kind == SIM_WGMMA) {
            with<ckci_k_mma>(p);
        }
    }
#elif defined(CKCI_K_MFMA) || defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12) || defined(CKCI_K_MMA)
#if defined(CKCI_K_MFMA)
    typedef Body<ckci_k_mfma16, Q> body;
#elif defined(CKCI_K_WMMA)
    typedef Body<ckci_k_wmma<11>, Q> body;
#elif defined(CKCI_K_WMMA12)
    typedef Body<ckci_k_wmma<12>, Q> body;
#else
    typedef Body<ckci_k_mma, Q> body;
#endif
    typedef typename body::lds lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        body::run(p, m);
    }
#else
    struct lds {
        int32_t unused;
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &, lds &)
    {
    }
#endif
};

/* Weights of 32 channels take the registers of two blocks. */
template <template <class, int> class Body, int Q> struct ckci_k_resident<ckci_k_matrix_near<Body, Q>> {
    enum { BLOCKS = 2 };
};
template <> struct ckci_k_resident<ckci_k_matrix_near<ckci_k_near, 32>> {
    enum { BLOCKS = 1 };
};
template <> struct ckci_k_resident<ckci_k_matrix_near<ckci_k_near_down, 32>> {
    enum { BLOCKS = 1 };
};

/* ---- First layers: few channels (C), 16-bit types, channels last, in one or two dimensions. The general
   tiles pad C to eight and read memory once for each tap; here the pixels that a tile of positions reads lie
   in LDS as memory holds them. Blocks stay: each packs the weights once and then takes tiles of positions
   (items) p.blocks apart. Of a unit these kernels ask, besides its products:
       words     the operand whose row r, pair i of the reduction is f(h, i'): a lane holds HOLDS rows,
                 held(h), and PAIRS pairs of each, pair(i')
       channel   which of 64 channels stands in row (column) i of tile t of the weights, such that a lane has
                 eight neighbouring ones in its sums: chunk u of row held(h), of CHUNKS, from
                 chunk_channel(u) on
       product   sums of which a lane holds channels of one position (`across`: rows are positions) */
#if defined(CKCI_K_MFMA)
struct ckci_k_stem_mfma : ckci_k_mfma16 {
    enum { HOLDS = 1, PAIRS = 2, CHUNKS = 2 };

    static CKCI_K_MEMBER int held(int)
    {
        return (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER int pair(int i)
    {
        return (int)threadIdx.x % WAVE / 16 * 2 + i;
    }

    template <class F> static CKCI_K_MEMBER operand words(F f)
    {
        const operand r = {f(0, 0), f(0, 1)};
        return r;
    }

    static CKCI_K_MEMBER int channel(int t, int row)
    {
        return t / 2 * 32 + row / 4 * 8 + t % 2 * 4 + row % 4;
    }

    static CKCI_K_MEMBER int chunk_channel(int u)
    {
        return u * 32 + (int)threadIdx.x % WAVE / 16 * 8;
    }

    static CKCI_K_MEMBER float chunk(const sums (&s)[4], int u, int, int i)
    {
        return s[2 * u + i / 4].v[i % 4];
    }

    /* The operand of the weights, of this lane's row wei_row() from `at` on. */
    static CKCI_K_MEMBER int wei_row()
    {
        return (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER operand wei(const unsigned char *at)
    {
        return load_rows(at, 0);
    }

    template <class T> static CKCI_K_MEMBER void product(sums &d, const operand &pixels, const operand &wei)
    {
        multiply<T>(d, wei, pixels);
    }

    template <class T> static CKCI_K_MEMBER void across(sums &d, const operand &pixels, const operand &wei)
    {
        multiply<T>(d, pixels, wei);
    }
};
#endif

#if defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12)
template <int GFX> struct ckci_k_stem_wmma : ckci_k_wmma<GFX> {
    enum { HOLDS = 1, PAIRS = GFX == 11 ? 8 : 4, CHUNKS = 4 };
    typedef ckci_k_wmma<GFX> base;
    typedef typename base::operand operand;
    typedef typename base::sums sums;

    static CKCI_K_MEMBER int half()
    {
        return (int)threadIdx.x % 32 / 16;
    }

    static CKCI_K_MEMBER int held(int)
    {
        return (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER int pair(int i)
    {
        return GFX == 11 ? i : half() * 4 + i;
    }

    template <class F> static CKCI_K_MEMBER operand words(F f)
    {
        operand r;
        CKCI_K_UNROLL(2)
        for (int i = 0; i < PAIRS / 4; i++) {
            const ckci_k_uint4 v = {f(0, 4 * i), f(0, 4 * i + 1), f(0, 4 * i + 2), f(0, 4 * i + 3)};
            r.v[i] = v;
        }
        return r;
    }

    static CKCI_K_MEMBER int channel(int t, int row)
    {
        return GFX == 11 ? t * 16 + row % 2 * 8 + row / 2 : t * 16 + row;
    }

    static CKCI_K_MEMBER int chunk_channel(int u)
    {
        return u * 16 + half() * 8;
    }

    static CKCI_K_MEMBER float chunk(const sums (&s)[4], int u, int, int i)
    {
        return s[u].v[i];
    }

    /* The operand of the weights, of this lane's row wei_row() from `at` on. */
    static CKCI_K_MEMBER int wei_row()
    {
        return (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER operand wei(const unsigned char *at)
    {
        return base::load_rows(at, 0);
    }

    template <class T> static CKCI_K_MEMBER void product(sums &d, const operand &pixels, const operand &wei)
    {
        base::template multiply<T>(d, wei, pixels);
    }

    template <class T> static CKCI_K_MEMBER void across(sums &d, const operand &pixels, const operand &wei)
    {
        base::template multiply<T>(d, pixels, wei);
    }
};
#endif

#if defined(CKCI_K_MMA)
struct ckci_k_stem_mma : ckci_k_mma {
    enum { HOLDS = 2, PAIRS = 2, CHUNKS = 2 };

    static CKCI_K_MEMBER int held(int h)
    {
        return (int)threadIdx.x % WAVE / 4 + 8 * h;
    }

    static CKCI_K_MEMBER int pair(int i)
    {
        return (int)threadIdx.x % 4 + 4 * i;
    }

    template <class F> static CKCI_K_MEMBER operand words(F f)
    {
        const operand r = {f(0, 0), f(1, 0), f(0, 1), f(1, 1)};
        return r;
    }

    static CKCI_K_MEMBER int channel(int t, int column)
    {
        return t / 2 * 32 + column % 8 / 2 * 8 + t % 2 * 4 + column / 8 * 2 + column % 2;
    }

    static CKCI_K_MEMBER int chunk_channel(int u)
    {
        return u * 32 + (int)threadIdx.x % 4 * 8;
    }

    static CKCI_K_MEMBER float chunk(const sums (&s)[4], int u, int h, int i)
    {
        return s[2 * u + i / 4].v[i % 4 / 2 * 4 + h * 2 + i % 2];
    }

    /* x, y: columns 0 to 7, neighbouring registers as the product takes them; z, w: the others */
    static CKCI_K_MEMBER int wei_row()
    {
        return (int)threadIdx.x % 8 + (int)threadIdx.x % WAVE / 16 * 8;
    }

    static CKCI_K_MEMBER operand wei(const unsigned char *at)
    {
        return load_rows(at + ((int)threadIdx.x / 8 % 2 - (int)threadIdx.x % WAVE / 16) * 16, 0);
    }

    template <class T> static CKCI_K_MEMBER void product(sums &d, const operand &pixels, const operand &wei)
    {
        half<T>(d.v, pixels, wei.x, wei.y);
        half<T>(d.v + 4, pixels, wei.z, wei.w);
    }

    template <class T> static CKCI_K_MEMBER void across(sums &d, const operand &pixels, const operand &wei)
    {
        product<T>(d, pixels, wei);
    }
};
#endif

/* A tile of positions: its image, its first position. */
struct ckci_k_stem_item {
    int32_t n, y, x;

    CKCI_K_MEMBER ckci_k_stem_item(const ckci_gpu_stem &p, int32_t item)
    {
        int32_t up = ckci_k_divide(item, p.by_tiles_x);
        x = (item - up * p.tiles[1]) * p.tile[1];
        n = ckci_k_divide(up, p.by_tiles_y);
        y = (up - n * p.tiles[0]) * p.tile[0];
    }
};

/* 16 bytes into LDS, or zeros; complete after ckci_k_stem_wait and a barrier. */
CKCI_K_FN void ckci_k_stem_copy(unsigned char *to, const ckci_k_window &w, int32_t offset, bool good)
{
#if defined(CKCI_K_MMA)
    ckci_k_copy(to, w, good ? offset : 0, good ? 16 : 0);
#else
    *(ckci_k_uint4 *)to = ckci_k_window_load(w, good ? offset : INT32_MIN);
#endif
}

/* All copies but the last COUNT batches are complete. */
template <int COUNT> CKCI_K_FN void ckci_k_stem_wait()
{
#if defined(CKCI_K_MMA)
    ckci_k_copies_wait<COUNT>();
#endif
}

CKCI_K_FN void ckci_k_stem_close()
{
#if defined(CKCI_K_MMA)
    ckci_k_copies_end();
#endif
}

/* fwd. Rows of pixels lie in LDS as in memory, from p.left numbers before the tile's first pixel on, zeros
   where they are padding: the taps of a filter's row are neighbours there (filter * C numbers) and begin at
   an even number, or p.odd before them (its weight is zero). The reduction runs over pairs of them:
   p.row_pairs for each row of the filter, in steps of eight; a pair lies `offset` bytes behind a position's
   first one. A block holds the weights of 64 channels, a wave takes TILES * 16 positions of a tile at a time.
   While it multiplies one tile, the next one comes into the other of two buffers. */
template <class U, int TILES, int BYTES, int BUFFERS> struct ckci_k_stem_fwd {
    enum { WAVES = 256 / U::WAVE };
    struct lds {
        alignas(128) unsigned char wei[64 * (4 * CKCI_STEM_PAIRS + 16)];
        unsigned char pixels[BUFFERS][BYTES];
        int32_t offset[CKCI_STEM_PAIRS];
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_stem &p, lds &m)
    {
        int32_t item = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_n);
        const int32_t channel0 = ((int32_t)blockIdx.x - item * p.tiles_n) * 64;
        int buffer = 0;
        if (BUFFERS == 2) {
            stage(p, item, m.pixels[0]);
            ckci_k_stem_close();
        }
        weights(p, channel0, m);
        CKCI_K_UNROLL(1)
        for (; item < p.items; item += p.blocks) {
            if (BUFFERS == 2 && item + p.blocks < p.items) {
                stage(p, item + p.blocks, m.pixels[BUFFERS - 1 - buffer]);
            } else if (BUFFERS == 1) {
                stage(p, item, m.pixels[0]);
            }
            ckci_k_stem_close();
            ckci_k_stem_wait<BUFFERS - 1>();
            __syncthreads();
            if (p.type == CKCONV_BF16) {
                tile<ckci_k_bf16>(p, item, channel0, m, m.pixels[buffer]);
            } else {
                tile<ckci_k_f16>(p, item, channel0, m, m.pixels[buffer]);
            }
            __syncthreads();
            buffer = BUFFERS - 1 - buffer;
        }
    }

    static CKCI_K_MEMBER void weights(const ckci_gpu_stem &p, int32_t channel0, lds &m)
    {
        const int32_t pairs = p.steps * 8, pitch = p.steps * 32 + 16, width = p.filter[1] * p.c;
        const int64_t *s = p.b.stride;
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x; i < 64 * pairs; i += 256) {
            const int32_t row = ckci_k_divide(i, p.by_pairs), pair = i - row * pairs;
            const int32_t y = ckci_k_divide(pair, p.by_row), at = (pair - y * p.row_pairs) * 2 - p.odd;
            const int32_t k = channel0 + U::channel(row / 16, row % 16);
            uint32_t v[2];
            CKCI_K_UNROLL(2)
            for (int h = 0; h < 2; h++) {
                const int32_t x = ckci_k_divide(at + h < 0 ? 0 : at + h, p.by_c);
                const bool good = k < p.k && y < p.filter[0] && at + h >= 0 && at + h < width;
                const int64_t from = k * s[1] + (at + h - x * p.c) * s[2] + y * s[4] + x * s[5];
                v[h] = good ? ckci_k_bits(ckci_k_value<float>(p.b, from)) : 0u;
            }
            *(uint32_t *)(m.wei + row * pitch + pair * 4) = ckci_k_two(p.type, v[0], v[1]);
            if (row == 0) { /* those behind the last tap are anywhere inside the window */
                m.offset[pair] = y < p.filter[0] ? y * p.dilation_y * p.pitch + (at + p.odd) * 2 : p.odd * 4;
            }
        }
    }

    static CKCI_K_MEMBER void stage(const ckci_gpu_stem &p, int32_t item, unsigned char *pixels)
    {
        const ckci_k_stem_item t(p, item);
        const ckci_k_window from = ckci_k_make_window(p.a.p + CKCI_K_HALF * t.n * p.a.stride[1]);
        const int32_t chunks = p.pitch / 16, top = t.y * p.stride[0] - p.pad[0];
        const int32_t first = t.x * p.stride[1] * p.c - p.left, step = (int32_t)p.a.stride[4];
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x; i < p.rows * chunks; i += 256) {
            const int32_t row = ckci_k_divide(i, p.by_chunks), at = first + (i - row * chunks) * 8;
            const int32_t y = top + row;
            const bool good = (uint32_t)y < (uint32_t)p.input[0] && at >= 0 && at < p.input[1] * p.c;
            ckci_k_stem_copy(pixels + i * 16, from, CKCI_K_HALF * (y * step + at), good);
        }
    }

    template <class T>
    static CKCI_K_MEMBER void tile(const ckci_gpu_stem &p, int32_t item, int32_t channel0, const lds &m,
                                   const unsigned char *pixels)
    {
        const ckci_k_stem_item t(p, item);
        const int32_t count = p.tile[0] * p.tile[1], pitch = p.steps * 32 + 16;
        const unsigned char *wei = m.wei + U::wei_row() * pitch;
        const unsigned char *first = pixels + CKCI_K_HALF * (p.left - p.pad[1] * p.c - p.odd);
        CKCI_K_UNROLL(1)
        for (int32_t row0 = (int32_t)threadIdx.x / U::WAVE * (TILES * 16); row0 < count;
             row0 += WAVES * TILES * 16) {
            const unsigned char *at[TILES][U::HOLDS];
            typename U::sums sum[TILES][4];
            CKCI_K_UNROLL(4)
            for (int i = 0; i < TILES; i++) {
                CKCI_K_UNROLL(2)
                for (int h = 0; h < U::HOLDS; h++) {
                    int32_t e = row0 + i * 16 + U::held(h);
                    e = e < count ? e : count - 1;
                    const int32_t y = ckci_k_divide(e, p.by_tile_x), x = e - y * p.tile[1];
                    at[i][h] = first + y * p.stride[0] * p.pitch + x * (p.stride[1] * p.c * CKCI_K_HALF);
                }
                CKCI_K_UNROLL(4)
                for (int j = 0; j < 4; j++) {
                    CKCI_K_UNROLL(8)
                    for (int e = 0; e < U::SUMS; e++) {
                        sum[i][j].v[e] = 0;
                    }
                }
            }
            CKCI_K_UNROLL_SOME(2)
            for (int32_t step = 0; step < p.steps; step++) {
                typename U::operand a[TILES];
                int32_t offset[U::PAIRS];
                CKCI_K_UNROLL(8)
                for (int i = 0; i < U::PAIRS; i++) {
                    offset[i] = m.offset[step * 8 + U::pair(i)];
                }
                CKCI_K_UNROLL(4)
                for (int i = 0; i < TILES; i++) {
                    a[i] = U::words([&](int h, int e) { return *(const uint32_t *)(at[i][h] + offset[e]); });
                }
                CKCI_K_UNROLL(4)
                for (int j = 0; j < 4; j++) {
                    typename U::operand b = U::wei(wei + j * 16 * pitch + step * 32);
                    CKCI_K_UNROLL(4)
                    for (int i = 0; i < TILES; i++) {
                        U::template product<T>(sum[i][j], a[i], b);
                    }
                }
            }
            CKCI_K_UNROLL(4)
            for (int i = 0; i < TILES; i++) {
                store<T>(p, t, row0 + i * 16, channel0, sum[i]);
            }
        }
    }

    template <class T>
    static CKCI_K_MEMBER void store(const ckci_gpu_stem &p, const ckci_k_stem_item &t, int32_t row0,
                                    int32_t channel0, const typename U::sums (&sum)[4])
    {
        const int32_t sy = (int32_t)p.o.stride[4], sx = (int32_t)p.o.stride[5];
        unsigned char *image = p.o.p + CKCI_K_HALF * (t.n * p.o.stride[1] + channel0);
        CKCI_K_UNROLL(2)
        for (int h = 0; h < U::HOLDS; h++) {
            const int32_t e = row0 + U::held(h), up = ckci_k_divide(e, p.by_tile_x);
            const int32_t y = t.y + up, x = t.x + e - up * p.tile[1];
            if (up >= p.tile[0] || y >= p.output[0] || x >= p.output[1]) {
                continue;
            }
            unsigned char *to = image + CKCI_K_HALF * (y * sy + x * sx);
            CKCI_K_UNROLL(4)
            for (int u = 0; u < U::CHUNKS; u++) {
                const int32_t k = U::chunk_channel(u);
                uint32_t two[4];
                CKCI_K_UNROLL(4)
                for (int i = 0; i < 4; i++) {
                    two[i] = ckci_k_two(T::TYPE, ckci_k_bits(U::chunk(sum, u, h, 2 * i)),
                                        ckci_k_bits(U::chunk(sum, u, h, 2 * i + 1)));
                }
                if (channel0 + k < p.k) {
                    const ckci_k_uint4 v = {two[0], two[1], two[2], two[3]};
                    *(ckci_k_uint4 *)(to + CKCI_K_HALF * k) = v;
                }
            }
        }
    }
};

/* bwd_data. With the padding counted, input u = s * q + e (in each dimension) reads dout q - j with tap
   e + s * j, for all j below p.window: the phases e of a stride s and the channels are the columns of one
   product, whose rows are the q and whose reduction runs over windows and the channels of dout; taps behind
   the filter have zero weights. A block holds the pixels of dout that a tile of q reads, 2 * K + 16 bytes
   each, and all weights, rows of columns. A wave takes 32 q and 16 columns at a time. */
template <class U, int BYTES> struct ckci_k_stem_back {
    enum { WAVES = 256 / U::WAVE, TILES = 2 };
    struct lds {
        alignas(128) unsigned char wei[CKCI_STEM_WEIGHTS];
        unsigned char pixels[BYTES];
        struct {
            int32_t y, x, offset, good; /* of a column: phases, from the place of q in din */
        } column[CKCI_STEM_COLUMNS];
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_stem &p, lds &m)
    {
        weights(p, m);
        CKCI_K_UNROLL(1)
        for (int32_t item = (int32_t)blockIdx.x; item < p.items; item += p.blocks) {
            stage(p, item, m.pixels);
            ckci_k_stem_close();
            ckci_k_stem_wait<0>();
            __syncthreads();
            CKCI_K_UNROLL(1)
            for (int32_t column = 0; column < p.columns; column += 16) {
                if (p.type == CKCONV_BF16) {
                    tile<ckci_k_bf16>(p, item, column, m);
                } else {
                    tile<ckci_k_f16>(p, item, column, m);
                }
            }
            __syncthreads();
        }
    }

    static CKCI_K_MEMBER void weights(const ckci_gpu_stem &p, lds &m)
    {
        const int32_t pairs = p.steps * 8, pitch = p.steps * 32 + 16, thread = (int32_t)threadIdx.x;
        const int32_t columns = (p.columns + 15) / 16 * 16, half = p.k / 2;
        const int64_t *s = p.b.stride;
        if (thread < columns) {
            const int32_t phase = ckci_k_divide(thread, p.by_c), y = ckci_k_divide(phase, p.by_stride_x);
            const int32_t x = phase - y * p.stride[1];
            m.column[thread].y = y;
            m.column[thread].x = x;
            m.column[thread].good = thread < p.columns;
            m.column[thread].offset =
                (int32_t)(y * p.o.stride[4] + x * p.o.stride[5] + (thread - phase * p.c) * p.o.stride[2]);
        }
        CKCI_K_UNROLL(1)
        for (int32_t i = thread; i < columns * pairs; i += 256) {
            const int32_t column = ckci_k_divide(i, p.by_pairs), pair = i - column * pairs;
            const int32_t tap = ckci_k_divide(pair, p.by_row), k = (pair - tap * half) * 2;
            const int32_t phase = ckci_k_divide(column, p.by_c), up = ckci_k_divide(phase, p.by_stride_x);
            const int32_t jy = ckci_k_divide(tap, p.by_window_x), jx = tap - jy * p.window[1];
            const int32_t y = up + p.stride[0] * jy, x = phase - up * p.stride[1] + p.stride[1] * jx;
            const bool good = column < p.columns && y < p.filter[0] && x < p.filter[1];
            const int64_t at = k * s[1] + (column - phase * p.c) * s[2] + y * s[4] + x * s[5];
            const float low = good ? ckci_k_value<float>(p.b, at) : 0.f;
            const float high = good ? ckci_k_value<float>(p.b, at + s[1]) : 0.f;
            *(uint32_t *)(m.wei + column * pitch + pair * 4) =
                ckci_k_two(p.type, ckci_k_bits(low), ckci_k_bits(high));
        }
    }

    static CKCI_K_MEMBER void stage(const ckci_gpu_stem &p, int32_t item, unsigned char *pixels)
    {
        const ckci_k_stem_item t(p, item);
        const ckci_k_window from = ckci_k_make_window(p.a.p + CKCI_K_HALF * t.n * p.a.stride[1]);
        const int32_t chunks = p.k / 8, wide = p.tile[1] + p.window[1] - 1;
        const int32_t top = p.first[0] + t.y - p.window[0] + 1, left = p.first[1] + t.x - p.window[1] + 1;
        const int32_t sy = (int32_t)p.a.stride[4], sx = (int32_t)p.a.stride[5];
        CKCI_K_UNROLL_SOME(4)
        for (int32_t i = (int32_t)threadIdx.x; i < p.rows * wide * chunks; i += 256) {
            const int32_t pixel = ckci_k_divide(i, p.by_chunks), chunk = i - pixel * chunks;
            const int32_t row = ckci_k_divide(pixel, p.by_wide), y = top + row, x = left + pixel - row * wide;
            const bool good = (uint32_t)y < (uint32_t)p.output[0] && (uint32_t)x < (uint32_t)p.output[1];
            ckci_k_stem_copy(pixels + pixel * p.pitch + chunk * 16, from,
                             CKCI_K_HALF * (y * sy + x * sx + chunk * 8), good);
        }
    }

    template <class T>
    static CKCI_K_MEMBER void tile(const ckci_gpu_stem &p, int32_t item, int32_t column0, const lds &m)
    {
        const int lane = (int)threadIdx.x % 16;
        const int32_t count = p.tile[0] * p.tile[1], wide = p.tile[1] + p.window[1] - 1;
        const unsigned char *wei = m.wei + (column0 + U::wei_row()) * (p.steps * 32 + 16);
        CKCI_K_UNROLL(1)
        for (int32_t row0 = (int32_t)threadIdx.x / U::WAVE * (TILES * 16); row0 < count;
             row0 += WAVES * TILES * 16) {
            const unsigned char *at[TILES];
            typename U::sums sum[TILES];
            CKCI_K_UNROLL(2)
            for (int i = 0; i < TILES; i++) {
                int32_t e = row0 + i * 16 + lane;
                e = e < count ? e : count - 1;
                const int32_t y = ckci_k_divide(e, p.by_tile_x), x = e - y * p.tile[1];
                at[i] = m.pixels + ((y + p.window[0] - 1) * wide + x + p.window[1] - 1) * p.pitch;
                CKCI_K_UNROLL(8)
                for (int k = 0; k < U::SUMS; k++) {
                    sum[i].v[k] = 0;
                }
            }
            const unsigned char *w = wei;
            CKCI_K_UNROLL(1)
            for (int32_t jy = 0; jy < p.window[0]; jy++) {
                CKCI_K_UNROLL(1)
                for (int32_t jx = 0; jx < p.window[1]; jx++) {
                    const int32_t back = (jy * wide + jx) * p.pitch;
                    CKCI_K_UNROLL_SOME(4)
                    for (int32_t k = 0; k < p.k; k += 16) {
                        const typename U::operand b = U::wei(w);
                        CKCI_K_UNROLL(2)
                        for (int i = 0; i < TILES; i++) {
                            U::template across<T>(sum[i], U::load_rows(at[i] - back + 2 * k, 0), b);
                        }
                        w += 32;
                    }
                }
            }
            store<T>(p, ckci_k_stem_item(p, item), row0, column0, m, sum);
        }
    }

    template <class T>
    static CKCI_K_MEMBER void store(const ckci_gpu_stem &p, const ckci_k_stem_item &t, int32_t row0,
                                    int32_t column0, const lds &m, const typename U::sums (&sum)[TILES])
    {
        const int64_t *s = p.o.stride;
        CKCI_K_UNROLL(2)
        for (int i = 0; i < TILES; i++) {
            CKCI_K_UNROLL(8)
            for (int e = 0; e < U::SUMS; e++) {
                const auto &c = m.column[column0 + U::column(e)];
                const int32_t row = row0 + i * 16 + U::row(e), up = ckci_k_divide(row, p.by_tile_x);
                const int32_t y0 = (p.first[0] + t.y + up) * p.stride[0] - p.pad[0];
                const int32_t x0 = (p.first[1] + t.x + row - up * p.tile[1]) * p.stride[1] - p.pad[1];
                if (c.good && up < p.tile[0] && (uint32_t)(y0 + c.y) < (uint32_t)p.input[0] &&
                    (uint32_t)(x0 + c.x) < (uint32_t)p.input[1]) {
                    const int64_t at = t.n * s[1] + y0 * s[4] + x0 * s[5] + c.offset;
                    const uint32_t v = ckci_k_bits(sum[i].v[e]);
                    *(uint16_t *)(p.o.p + CKCI_K_HALF * at) = (uint16_t)ckci_k_two(T::TYPE, v, v);
                }
            }
        }
    }
};

/* Tiles of dout for bwd_weight, positions of 64 channels, and their transposed operand: rows are 16 channels
   from `channel` on, the reduction positions 16 * step and the next 15. NVIDIA transposes what it loads. The
   others hold words of two neighbouring positions, the 64 channels of a pair side by side. */
template <class U> struct ckci_k_stem_turn {
    enum { PITCH = 272, BUFFERS = 1, ROW = PITCH / 2 };

    static CKCI_K_MEMBER void copy(unsigned char *tile, const ckci_k_window &from, int32_t step,
                                   int32_t positions, int32_t good, int32_t chunks)
    {
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x; i < positions * 4; i += 128) {
            const int32_t pair = i / 8, chunk = i % 8, at = pair * 2 * step + chunk * 16;
            const bool some = chunk < chunks;
            const ckci_k_uint4 a = ckci_k_window_load(from, some && 2 * pair < good ? at : INT32_MIN);
            const ckci_k_uint4 b =
                ckci_k_window_load(from, some && 2 * pair + 1 < good ? at + step : INT32_MIN);
            const ckci_k_uint4 low = {ckci_k_halves<0>(a.x, b.x), ckci_k_halves<1>(a.x, b.x),
                                      ckci_k_halves<0>(a.y, b.y), ckci_k_halves<1>(a.y, b.y)};
            const ckci_k_uint4 high = {ckci_k_halves<0>(a.z, b.z), ckci_k_halves<1>(a.z, b.z),
                                       ckci_k_halves<0>(a.w, b.w), ckci_k_halves<1>(a.w, b.w)};
            ckci_k_uint4 *to = (ckci_k_uint4 *)(tile + pair * PITCH + chunk * 32);
            to[0] = low;
            to[1] = high;
        }
    }

    static CKCI_K_MEMBER typename U::operand load(const unsigned char *tile, int step, int channel)
    {
        const unsigned char *at = tile + step * (8 * PITCH) + (channel + U::held(0)) * 4;
        return U::words([&](int, int i) { return *(const uint32_t *)(at + U::pair(i) * PITCH); });
    }
};

#if defined(CKCI_K_MMA)
template <> struct ckci_k_stem_turn<ckci_k_stem_mma> {
    enum { BUFFERS = 2, ROW = 128 };

    static CKCI_K_MEMBER void copy(unsigned char *tile, const ckci_k_window &from, int32_t step,
                                   int32_t positions, int32_t good, int32_t chunks)
    {
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x; i < positions * 8; i += 128) {
            const int32_t position = i / 8, chunk = i % 8;
            ckci_k_stem_copy(tile + ckci_k_spot<128>(position, chunk), from, position * step + chunk * 16,
                             position < good && chunk < chunks);
        }
    }

    static CKCI_K_MEMBER ckci_k_uint4 load(const unsigned char *tile, int step, int channel)
    {
        return ckci_k_mma::load_across(tile, channel, step * 32);
    }
};
#endif

/* bwd_weight. Rows are 64 channels of dout, columns 160 of (tap, c), the reduction runs over positions, of
   which an operand's register takes two neighbours along x. For these the rows of pixels that a tile reads
   come into LDS as they are (raw) and are spread into planes there: number v of a row (from the first tap of
   position 0 on) is number v / P of plane v % P, P = stride * C, and position x reads number x + tap / stride
   of one plane. Where that is odd for even x it reads a second copy that lies one number before. Rows of dout
   pass beside them, one by one. Of four waves (CDNA: two) two share the rows, the others the columns; a block
   writes its sums to its part of the workspace, and ckci_k_stem_sum adds the parts in their order. */
template <class U, int BYTES, int POSITIONS> struct ckci_k_stem_weight {
    enum { WAVES = 128 / U::WAVE, ACROSS = WAVES / 2, TILES = 10 / ACROSS };
    typedef ckci_k_stem_turn<U> turn;
    struct lds {
        alignas(128) unsigned char dout[turn::BUFFERS][POSITIONS * turn::ROW];
        unsigned char pixels[BYTES]; /* planes, raw rows behind them */
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_stem &p, lds &m)
    {
        typename U::sums sum[2][TILES];
        int32_t item, channel0, column0, base[TILES][U::HOLDS];
        const int wave = (int)threadIdx.x / U::WAVE;
        place(p, item, channel0, column0);
        CKCI_K_UNROLL(10)
        for (int j = 0; j < TILES; j++) {
            CKCI_K_UNROLL(2)
            for (int h = 0; h < U::HOLDS; h++) {
                base[j][h] = column_at(p, column0 + (j * ACROSS + wave / 2) * 16 + U::held(h));
            }
            CKCI_K_UNROLL(8)
            for (int e = 0; e < U::SUMS; e++) {
                sum[0][j].v[e] = sum[1][j].v[e] = 0;
            }
        }
        const int32_t positions = (p.tile[1] + 15) / 16 * 16, left = p.columns - column0 - wave / 2 * 16;
        const int32_t row_step = p.stride[0] * p.pitch;
        unsigned char *rows = m.pixels + p.rows * p.pitch;
        raw(p, item, rows);
        ckci_k_stem_close();
        CKCI_K_UNROLL(1)
        for (; item < p.items; item += p.blocks) {
            const ckci_k_stem_item t(p, item);
            const int32_t high = p.output[0] - t.y < p.tile[0] ? p.output[0] - t.y : p.tile[0];
            copy(p, t, 0, channel0, positions, m);
            ckci_k_stem_close();
            ckci_k_stem_wait<1>();
            __syncthreads();
            spread(p, rows, m.pixels);
            __syncthreads();
            raw(p, item + p.blocks, rows);
            CKCI_K_UNROLL(1)
            for (int32_t r = 0; r < high; r++) {
                if (turn::BUFFERS == 2) {
                    copy(p, t, r + 1, channel0, r + 1 < high ? positions : 0, m);
                    ckci_k_stem_close();
                    ckci_k_stem_wait<turn::BUFFERS - 1>();
                } else if (r > 0) {
                    copy(p, t, r, channel0, positions, m);
                }
                __syncthreads();
                const unsigned char *planes = m.pixels + r * row_step;
                if (p.type == CKCONV_BF16) {
                    multiply<ckci_k_bf16>(m.dout[r % turn::BUFFERS], planes, positions / 16, base, left, sum);
                } else {
                    multiply<ckci_k_f16>(m.dout[r % turn::BUFFERS], planes, positions / 16, base, left, sum);
                }
                __syncthreads();
            }
        }
        finish(ckci_k_late(p), sum);
    }

    /* A block's part, its channels and columns. */
    static CKCI_K_MEMBER void place(const ckci_gpu_stem &p, int32_t &part, int32_t &channel, int32_t &column)
    {
        const int32_t up = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c);
        column = ((int32_t)blockIdx.x - up * p.tiles_c) * 160;
        part = ckci_k_divide(up, p.by_tiles_n);
        channel = (up - part * p.tiles_n) * 64;
    }

    /* Where position 0 finds a column's number. */
    static CKCI_K_MEMBER int32_t column_at(const ckci_gpu_stem &p, int32_t column)
    {
        const int32_t tap = ckci_k_divide(column, p.by_c), y = ckci_k_divide(tap, p.by_filter_x);
        const int32_t x = tap - y * p.filter[1], o = ckci_k_divide(x, p.by_stride_x);
        const int32_t plane = (x - o * p.stride[1]) * p.c + column - tap * p.c + (o % 2 ? p.planes : 0);
        return column < p.columns ? y * p.dilation_y * p.pitch + plane * p.plane + o / 2 * 4 : 0;
    }

    /* Row r of a tile of dout. */
    static CKCI_K_MEMBER void copy(const ckci_gpu_stem &p, const ckci_k_stem_item &t, int32_t r,
                                   int32_t channel0, int32_t positions, lds &m)
    {
        const int64_t *s = p.a.stride;
        const int32_t left = p.output[1] - t.x;
        const ckci_k_window from =
            ckci_k_make_window(p.a.p + CKCI_K_HALF * (t.n * s[1] + (t.y + r) * s[4] + t.x * s[5] + channel0));
        turn::copy(m.dout[r % turn::BUFFERS], from, CKCI_K_HALF * (int32_t)s[5], positions,
                   left < p.tile[1] ? left : p.tile[1], (p.k - channel0) / 8);
    }

    /* The rows of pixels of a tile as memory holds them, from p.left numbers before the first pixel on. */
    static CKCI_K_MEMBER void raw(const ckci_gpu_stem &p, int32_t item, unsigned char *rows)
    {
        if (item >= p.items) {
            return;
        }
        const ckci_k_stem_item t(p, item);
        const ckci_k_window from = ckci_k_make_window(p.b.p + CKCI_K_HALF * t.n * p.b.stride[1]);
        const int32_t top = t.y * p.stride[0] - p.pad[0], step = (int32_t)p.b.stride[4];
        const int32_t first = t.x * p.planes - p.left;
        CKCI_K_UNROLL_SOME(4)
        for (int32_t i = (int32_t)threadIdx.x; i < p.rows * p.chunks; i += 128) {
            const int32_t row = ckci_k_divide(i, p.by_chunks), at = first + (i - row * p.chunks) * 8;
            const int32_t y = top + row;
            const bool good = (uint32_t)y < (uint32_t)p.input[0] && at >= 0 && at < p.input[1] * p.c;
            ckci_k_stem_copy(rows + i * 16, from, CKCI_K_HALF * (y * step + at), good);
        }
    }

    /* The same as planes, two numbers at a time; a wave takes a plane of a row. */
    static CKCI_K_MEMBER void spread(const ckci_gpu_stem &p, const unsigned char *rows, unsigned char *planes)
    {
        const int32_t lane = (int32_t)threadIdx.x % U::WAVE, step = p.planes * CKCI_K_HALF;
        const int32_t second = p.planes * p.plane;
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x / U::WAVE; i < p.rows * p.planes; i += WAVES) {
            const int32_t row = ckci_k_divide(i, p.by_planes), plane = i - row * p.planes;
            const unsigned char *from = rows + row * p.chunks * 16 +
                                        CKCI_K_HALF * (p.left - p.pad[1] * p.c + plane) + lane * 2 * step;
            unsigned char *to = planes + row * p.pitch + plane * p.plane + lane * 4;
            CKCI_K_UNROLL(2)
            for (int32_t x = lane * 2; x < p.length; x += 2 * U::WAVE) {
                const uint32_t a = *(const uint16_t *)from, b = *(const uint16_t *)(from + step),
                               c = *(const uint16_t *)(from + 2 * step);
                *(uint32_t *)to = a | b << 16;
                *(uint32_t *)(to + second) = b | c << 16;
                from += 2 * U::WAVE * step;
                to += 4 * U::WAVE;
            }
        }
    }

    /* left: columns from the first one of this wave on; all tiles but the first are computed or none */
    template <class T>
    static CKCI_K_MEMBER void multiply(const unsigned char *dout, const unsigned char *planes, int32_t steps,
                                       const int32_t (&base)[TILES][U::HOLDS], int32_t left,
                                       typename U::sums (&sum)[2][TILES])
    {
        const int channel = (int)threadIdx.x / U::WAVE % 2 * 32;
        if (left <= ACROSS * 16) {
            CKCI_K_UNROLL(1)
            for (int32_t step = 0; step < steps; step++) {
                one<T, 1>(dout, planes + step * 32, step, channel, base, sum);
            }
        } else {
            CKCI_K_UNROLL(1)
            for (int32_t step = 0; step < steps; step++) {
                one<T, TILES>(dout, planes + step * 32, step, channel, base, sum);
            }
        }
    }

    template <class T, int COUNT>
    static CKCI_K_MEMBER void one(const unsigned char *dout, const unsigned char *planes, int32_t step,
                                  int channel, const int32_t (&base)[TILES][U::HOLDS],
                                  typename U::sums (&sum)[2][TILES])
    {
        const typename U::operand a[2] = {turn::load(dout, step, channel),
                                          turn::load(dout, step, channel + 16)};
        CKCI_K_UNROLL(10)
        for (int j = 0; j < COUNT; j++) {
            const typename U::operand b = U::words(
                [&](int h, int i) { return *(const uint32_t *)(planes + base[j][h] + U::pair(i) * 4); });
            U::template multiply<T>(sum[0][j], a[0], b);
            U::template multiply<T>(sum[1][j], a[1], b);
        }
    }

    static CKCI_K_MEMBER void finish(const ckci_gpu_stem &p, const typename U::sums (&sum)[2][TILES])
    {
        const int wave = (int)threadIdx.x / U::WAVE;
        int32_t part, channel0, column0;
        place(p, part, channel0, column0);
        float *to = (float *)p.partial + (int64_t)part * p.k * p.columns;
        CKCI_K_UNROLL(2)
        for (int i = 0; i < 2; i++) {
            CKCI_K_UNROLL(10)
            for (int j = 0; j < TILES; j++) {
                CKCI_K_UNROLL(8)
                for (int e = 0; e < U::SUMS; e++) {
                    const int32_t k = channel0 + wave % 2 * 32 + i * 16 + U::row(e);
                    const int32_t column = column0 + (j * ACROSS + wave / 2) * 16 + U::column(e);
                    if (k < p.k && column < p.columns) {
                        to[k * p.columns + column] = sum[i][j].v[e];
                    }
                }
            }
        }
    }
};

/* The sums of many parts: 32 neighbouring weights per block, and for each of them eight threads that add an
   eighth of the parts. */
struct ckci_k_stem_sum {
    struct lds {
        float v[8][32];
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        const int slice = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
        const int32_t all = p.rows * p.columns, e = (int32_t)blockIdx.x * 32 + lane;
        const int32_t each = (p.split + 7) / 8,
                      end = (slice + 1) * each < p.split ? (slice + 1) * each : p.split;
        const float *from = (const float *)p.o.partial + e;
        float sum = 0;
        int32_t i = e < all ? slice * each : end;
        for (; i + 8 <= end; i += 8) { /* loads in flight together, additions in order */
            float v[8];
            CKCI_K_UNROLL(8)
            for (int j = 0; j < 8; j++) {
                v[j] = from[(int64_t)(i + j) * all];
            }
            CKCI_K_UNROLL(8)
            for (int j = 0; j < 8; j++) {
                sum += v[j];
            }
        }
        for (; i < end; i++) {
            sum += from[(int64_t)i * all];
        }
        m.v[slice][lane] = sum;
        __syncthreads();
        if (slice > 0 || e >= all) {
            return;
        }
        CKCI_K_UNROLL(8)
        for (int i = 1; i < 8; i++) {
            sum += m.v[i][lane];
        }
        const int32_t k = ckci_k_divide(e, p.by_columns);
        const ckci_k_tap tap = ckci_k_split_column(p, e - k * p.columns);
        ckci_k_write<float>(p.o, sum, 0, k, tap.c, tap.z, tap.y, tap.x);
    }
};

/* Body<U, NVIDIA> with the unit of the target. */
template <template <class, int> class Body> struct ckci_k_stem {
#if defined(CKCI_SIMULATOR)
    struct lds {
    };

    template <class U, int NVIDIA> static void with(const ckci_gpu_stem &p)
    {
        typedef typename Body<U, NVIDIA>::type body;
        typedef typename body::lds body_lds;
        CKCI_K_LDS(body_lds, m);
        body::run(p, m);
    }

    static void run(const ckci_gpu_stem &p, lds &)
    {
        int kind = sim_matrix_unit();
        if (kind == SIM_MFMA) {
            with<ckci_k_stem_mfma, 0>(p);
        } else if (kind == SIM_WMMA) {
            with<ckci_k_stem_wmma<11>, 0>(p);
        } else if (kind == SIM_WMMA12) {
            with<ckci_k_stem_wmma<12>, 0>(p);
        } else if (kind == SIM_MMA || kind == SIM_WGMMA) {
            with<ckci_k_stem_mma, 1>(p);
        }
    }
#elif defined(CKCI_K_MFMA) || defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12) || defined(CKCI_K_MMA)
#if defined(CKCI_K_MFMA)
    typedef typename Body<ckci_k_stem_mfma, 0>::type body;
#elif defined(CKCI_K_WMMA)
    typedef typename Body<ckci_k_stem_wmma<11>, 0>::type body;
#elif defined(CKCI_K_WMMA12)
    typedef typename Body<ckci_k_stem_wmma<12>, 0>::type body;
#else
    typedef typename Body<ckci_k_stem_mma, 1>::type body;
#endif
    typedef typename body::lds lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_stem &p, lds &m)
    {
        body::run(p, m);
    }
#else
    struct lds {
        int32_t unused;
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_stem &, lds &)
    {
    }
#endif
};

template <class U, int NVIDIA> struct ckci_k_stem_fwd_of {
    typedef ckci_k_stem_fwd<U, 2, CKCI_STEM_PIXELS(NVIDIA), NVIDIA ? 2 : 1> type;
};

template <class U, int NVIDIA> struct ckci_k_stem_back_of {
    typedef ckci_k_stem_back<U, CKCI_STEM_BACK_PIXELS(NVIDIA)> type;
};

template <class U, int NVIDIA> struct ckci_k_stem_weight_of {
    typedef ckci_k_stem_weight<U, CKCI_STEM_PLANES(NVIDIA), CKCI_STEM_POSITIONS(NVIDIA)> type;
};

template <template <class, int> class Body> struct ckci_k_resident<ckci_k_stem<Body>> {
    enum { BLOCKS = 2 };
};


/*------------------------------------------------------------------------------------------------------------
  >>k-tile
  The three passes in f32 on plain multiply-adds, for tensors that are read as they are (f32, no operation):
  what >>k-gather and >>k-weight compute, with what costs them most taken out of the loop. Offsets come from
  tables in LDS (as in >>k-matrix: taps for fwd and bwd_data, positions for bwd_weight), padding is a test of
  a mask, memory is read in 16-byte chunks.
  A block owns BM x BN sums, a thread RM x RN of them; KT places of the reduction pass through LDS at a time,
  as [place][row or column], in two buffers: while the block multiplies from one, the loads of the next are
  in flight. Where a tile has fewer sums than keep a block busy, SLICES groups of threads own the same sums at
  every SLICES-th place of each step, and the first one adds those of the others in their order at the end.
  Rows and columns past the end read a valid neighbour instead: their sums are not written.
*/
template <int M, int N, int M1, int N1, int K, int S> struct ckci_k_shape {
    enum { BM = M, BN = N, RM = M1, RN = N1, KT = K, SLICES = S, TY = BM / RM, TX = BN / RN, EACH = TX * TY };
    enum { THREADS = EACH * SLICES, LA = BM + 4, LB = BN + 4 };
    static_assert(KT % SLICES == 0 && RM % 4 == 0 && RN % 4 == 0, "whole quads for every thread");
};

/* Places of the reduction at a time where slices share few sums: as many as LDS holds of the blocks that the
   registers hold. */
#if defined(__HIP__) || defined(__HIPCC__)
enum { CKCI_K_DEEP = 16 };
#else
enum { CKCI_K_DEEP = 32 };
#endif

struct alignas(16) ckci_k_quad {
    float v[4];
};

template <class S, int ENTRIES> struct ckci_k_tile_lds {
    alignas(16) float a[2][S::KT][S::LA];
    alignas(16) float b[2][S::KT][S::LB];
    ckci_k_tap_entry table[ENTRIES];
};

#if defined(__HIP_DEVICE_COMPILE__)
__device__ int ckci_k_buffer_word(ckci_k_int4 window, int offset, int scalar_offset,
                                  int cache) __asm("llvm.amdgcn.raw.buffer.load.i32");
#endif

/* The same value, which the compiler does not know any more: it is not computed again, or kept, elsewhere. */
CKCI_K_FN int32_t ckci_k_opaque(int32_t x)
{
#if defined(__HIP_DEVICE_COMPILE__)
    asm volatile("" : "+v"(x));
#elif defined(__CUDA_ARCH__)
    asm volatile("" : "+r"(x));
#endif
    return x;
}

/* Keeps the base in registers: not computed again at each load. */
CKCI_K_FN ckci_k_window ckci_k_pinned_window(const unsigned char *base)
{
    ckci_k_window w = ckci_k_make_window(base);
#if defined(__CUDA_ARCH__)
    asm volatile("" : "+l"(w.base));
#endif
    return w;
}

/* Four floats from the window, zero where `hole` is not 0; on NVIDIA without a branch, which would keep the
   compiler from mixing loads and multiply-adds. hole: 2^31 at most. */
CKCI_K_FN ckci_k_quad ckci_k_window_quad(const ckci_k_window &w, int32_t offset, uint32_t hole)
{
#if defined(__CUDA_ARCH__)
    ckci_k_quad q;
    asm volatile("{\n\t.reg .pred p;\n\tsetp.eq.u32 p, %5, 0;\n\t"
                 "mov.f32 %0, 0f00000000;\n\tmov.f32 %1, 0f00000000;\n\t"
                 "mov.f32 %2, 0f00000000;\n\tmov.f32 %3, 0f00000000;\n\t"
                 "@p ld.global.v4.f32 {%0, %1, %2, %3}, [%4];\n\t}"
                 : "=&f"(q.v[0]), "=&f"(q.v[1]), "=&f"(q.v[2]), "=&f"(q.v[3])
                 : "l"(w.base + (uint32_t)offset), "r"(hole));
    return q;
#else
    return ckci_k_cast<ckci_k_quad>(ckci_k_window_load(w, offset | (int32_t)(0u - hole)));
#endif
}

/* Four floats, and one, zero at a negative offset. */
CKCI_K_FN ckci_k_quad ckci_k_window_quad(const ckci_k_window &w, int32_t offset)
{
    return ckci_k_window_quad(w, offset, (uint32_t)offset & 0x80000000u);
}

CKCI_K_FN float ckci_k_window_word(const ckci_k_window &w, int32_t offset)
{
#if defined(__HIP_DEVICE_COMPILE__)
    return ckci_k_cast<float>(ckci_k_buffer_word(w.v, offset, 0, 0));
#elif defined(__CUDA_ARCH__)
    float x;
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ge.s32 p, %2, 0;\n\tmov.f32 %0, 0f00000000;\n\t"
                 "@p ld.global.f32 %0, [%1];\n\t}"
                 : "=&f"(x)
                 : "l"(w.base + (uint32_t)offset), "r"(offset));
    return x;
#else
    return offset < 0 ? 0.f : *(const float *)(w.base + offset);
#endif
}

/* n / D for 0 <= n < 256 and D <= 128 */
template <int D> CKCI_K_FN int ckci_k_over(int n)
{
    return (D & (D - 1)) == 0 ? n / D : (int)((uint32_t)n * (65536u / D + 1) >> 16);
}

template <class S> struct ckci_k_tile_sums {
    float c[S::RM][S::RN];
    /* STEPS: places of the reduction whose code stands in a row. AHEAD: operands are read one place ahead,
       those of the next buffer before the last place of this one is multiplied; not where its registers would
       cost blocks, nor on AMD, whose compiler would load more than fits the registers. */
#if defined(__HIP_DEVICE_COMPILE__)
    enum { STEPS = S::RM * S::RN > 64 ? 2 : 4, AHEAD = 0 };
#else
    enum { STEPS = 16, AHEAD = S::RM * S::RN != 32 };
#endif

    /* A wave's threads form a patch of rows and columns, neighbours two by two, so that the quads that eight
       threads read together lie in different banks or are the same. */
    static CKCI_K_MEMBER int inner()
    {
        return (int)threadIdx.x - slice() * S::EACH;
    }

    static CKCI_K_MEMBER int slice()
    {
        return S::SLICES == 1 ? 0 : ckci_k_over<S::EACH>((int)threadIdx.x);
    }

    static CKCI_K_MEMBER int tx()
    {
        constexpr int wide = S::TX < 8 ? S::TX : 8;
        if constexpr (S::EACH % 32 != 0) {
            return inner() - ckci_k_over<S::TX>(inner()) * S::TX;
        } else {
            return inner() / 32 % (S::TX / wide) * wide + inner() % 32 / 2 % wide;
        }
    }

    static CKCI_K_MEMBER int ty()
    {
        constexpr int wide = S::TX < 8 ? S::TX : 8;
        if constexpr (S::EACH % 32 != 0) {
            return ckci_k_over<S::TX>(inner());
        } else {
            int lane = inner() % 32;
            return inner() / 32 / (S::TX / wide) * (32 / wide) + lane % 2 + lane / (2 * wide) * 2;
        }
    }

    static CKCI_K_MEMBER int row(int i)
    {
        return i / 4 * (S::BM / (S::RM / 4)) + 4 * ty() + i % 4;
    }

    static CKCI_K_MEMBER int column(int j)
    {
        return j / 4 * (S::BN / (S::RN / 4)) + 4 * tx() + j % 4;
    }

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < S::RM; i++) {
            CKCI_K_UNROLL(16)
            for (int j = 0; j < S::RN; j++) {
                c[i][j] = 0;
            }
        }
    }

    /* What a thread multiplies at one place of the reduction. */
    struct operands {
        ckci_k_quad a[S::RM / 4], b[S::RN / 4];
    };

    template <class L> static CKCI_K_MEMBER void read(const L &m, int buffer, int k, operands &o)
    {
        const float *a = &m.a[buffer][slice()][row(0)], *b = &m.b[buffer][slice()][column(0)];
        CKCI_K_UNROLL(16)
        for (int i = 0; i < S::RM / 4; i++) {
            o.a[i] = *(const ckci_k_quad *)(a + k * S::LA + i * (S::BM / (S::RM / 4)));
        }
        CKCI_K_UNROLL(16)
        for (int j = 0; j < S::RN / 4; j++) {
            o.b[j] = *(const ckci_k_quad *)(b + k * S::LB + j * (S::BN / (S::RN / 4)));
        }
    }

    /* To and fro, so that each multiply-add shares an operand with the one before: on NVIDIA, reading three
       registers takes longer than two. */
    CKCI_K_MEMBER void multiply(const operands &o)
    {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < S::RM; i++) {
            CKCI_K_UNROLL(16)
            for (int n = 0; n < S::RN; n++) {
                const int j = i % 2 ? S::RN - 1 - n : n;
                c[i][j] = ckci_k_fma(o.a[i / 4].v[i % 4], o.b[j / 4].v[j % 4], c[i][j]);
            }
        }
    }

    /* On NVIDIA, the next step's loads are not sunk below this place: they need the time. */
    static CKCI_K_MEMBER void loads_end(bool here)
    {
#if defined(__CUDA_ARCH__)
        if (here) {
            __syncwarp();
        }
#endif
        (void)here;
    }

    /* All places of a buffer. */
    template <int TIMES, class L> CKCI_K_MEMBER void multiply(const L &m, int buffer)
    {
        CKCI_K_UNROLL(TIMES)
        for (int k = 0; k < S::KT; k += S::SLICES) {
            operands o;
            loads_end(TIMES > 1 && k == S::KT / 2);
            read(m, buffer, k, o);
            multiply(o);
        }
    }

    /* loader: fetch(step), put it into a buffer; renew before steps from s on: up to which step? */
    template <class L, class Loader> CKCI_K_MEMBER void run(L &m, Loader &loader, int32_t steps)
    {
        clear();
        if (steps <= 0) {
            return;
        }
        loader.fetch(0);
        loader.put(m, 0);
        __syncthreads();
        int buffer = 0;
        operands o[2];
        if constexpr (AHEAD) {
            read(m, 0, 0, o[0]);
        }
        for (int32_t s = 1; s < steps;) {
            int32_t stop = loader.renew(s, steps);
            CKCI_K_UNROLL(1)
            for (; s < stop; s++) {
                loader.fetch(s);
                if constexpr (AHEAD) {
                    CKCI_K_UNROLL(16)
                    for (int k = 0; k < S::KT - S::SLICES; k += S::SLICES) {
                        loads_end(k == 2 * S::SLICES);
                        read(m, buffer, k + S::SLICES, o[(k / S::SLICES + 1) % 2]);
                        multiply(o[k / S::SLICES % 2]);
                    }
                } else {
                    multiply<STEPS>(m, buffer);
                }
                buffer ^= 1;
                loader.put(m, buffer);
                __syncthreads();
                if constexpr (AHEAD) {
                    read(m, buffer, 0, o[0]);
                    multiply(o[1]);
                }
            }
        }
        multiply<1>(m, buffer); /* once: its code need not be long */
    }

    /* Sums of the other slices, one slice after the other. */
    template <class L> CKCI_K_MEMBER void join(L &m)
    {
        float *sums = &m.a[0][0][0];
        static_assert(S::SLICES == 1 || S::BM * S::BN <= 2 * S::KT * (S::LA + S::LB), "LDS holds a slice");
        CKCI_K_UNROLL(1)
        for (int s = 1; s < S::SLICES; s++) {
            __syncthreads();
            if (slice() == s) {
                CKCI_K_UNROLL(16)
                for (int i = 0; i < S::RM; i++) {
                    CKCI_K_UNROLL(16)
                    for (int j = 0; j < S::RN; j++) {
                        sums[(i * S::RN + j) * S::EACH + inner()] = c[i][j];
                    }
                }
            }
            __syncthreads();
            if (slice() == 0) {
                CKCI_K_UNROLL(16)
                for (int i = 0; i < S::RM; i++) {
                    CKCI_K_UNROLL(16)
                    for (int j = 0; j < S::RN; j++) {
                        c[i][j] += sums[(i * S::RN + j) * S::EACH + inner()];
                    }
                }
            }
        }
    }

    /* Sums to memory. vec: four columns are one store at out + at(row), negative: no such row; columns: how
       many there are. Else through LDS, RM-th part of the rows at a time, to one(row, column, sum), so that
       the code of the epilogue stands once and neighbouring threads write neighbours. */
    template <class L, class At, class One>
    CKCI_K_MEMBER void finish(L &m, bool vec, bool along_rows, unsigned char *out, int32_t columns,
                              const At &at, const One &one)
    {
#if defined(__CUDA_ARCH__)
        /* With 0, as the compiler does not know: sums need not lie in the loop where a store of four wants
           them, in the same bank of registers as the operand that changes with them. */
        CKCI_K_UNROLL(16)
        for (int i = 0; i < S::RM; i++) {
            CKCI_K_UNROLL(16)
            for (int j = 0; j < S::RN; j++) {
                c[i][j] = ckci_k_float(ckci_k_bits(c[i][j]) ^ threadIdx.z);
            }
        }
#endif
        join(m);
        __syncthreads();
        if (vec) {
            int64_t *rows = (int64_t *)&m.a[0][0][0];
            for (int r = (int)threadIdx.x; r < S::BM; r += S::THREADS) {
                rows[r] = at(r);
            }
            __syncthreads();
            if (slice() != 0) {
                return;
            }
            CKCI_K_UNROLL(16)
            for (int i = 0; i < S::RM; i++) {
                int64_t place = rows[row(i)];
                CKCI_K_UNROLL(16)
                for (int j = 0; j < S::RN; j += 4) {
                    ckci_k_quad q = {{c[i][j], c[i][j + 1], c[i][j + 2], c[i][j + 3]}};
                    if (place >= 0 && column(j) < columns) {
                        *(ckci_k_quad *)(out + place + 4 * column(j)) = q;
                    }
                }
            }
            return;
        }
        float *strip = &m.a[0][0][0]; /* [TY rows][BN + 1] */
        static_assert(S::TY * (S::BN + 1) <= 2 * S::KT * (S::LA + S::LB), "LDS holds a strip");
        CKCI_K_UNROLL(1)
        for (int s = 0; s < S::RM; s++) {
            __syncthreads();
            CKCI_K_UNROLL(16)
            for (int j = 0; j < S::RN; j++) {
                if (S::SLICES == 1 || slice() == 0) {
                    strip[ty() * (S::BN + 1) + column(j)] = c[0][j];
                }
                CKCI_K_UNROLL(16)
                for (int i = 0; i + 1 < S::RM; i++) {
                    c[i][j] = c[i + 1][j]; /* an index known at compile time keeps c in registers */
                }
            }
            __syncthreads();
            CKCI_K_UNROLL(1)
            for (int e = (int)threadIdx.x; e < S::TY * S::BN; e += S::THREADS) {
                int r = along_rows ? e % S::TY : e / S::BN, column = along_rows ? e / S::TY : e % S::BN;
                one(s / 4 * (S::BM / (S::RM / 4)) + 4 * r + s % 4, column, strip[r * (S::BN + 1) + column]);
            }
        }
    }
};

/* What reads a row: where it begins to read (its batch, coordinates of tap 0). */
CKCI_K_FN ckci_k_place ckci_k_first_tap(const ckci_gpu_conv &p, const ckci_k_axis axis[3], int32_t row)
{
    ckci_k_place q = ckci_k_row(axis, row);
    q.z = q.z * p.dim[0].read_step + axis[0].read0;
    q.y = q.y * p.dim[1].read_step + axis[1].read0;
    q.x = q.x * p.dim[2].read_step + axis[2].read0;
    return q;
}

/* Taps in the masks of a long filter. */
enum { CKCI_K_BITS = 30 };

/* A bit for each tap of each dimension (z above y above x) that lies on padding; bit 31 always. Where the
   taps do not fit, one dimension alone has several: then the bits are those of taps from `first` on, as
   many as a window holds and a step can reach beyond it. */
CKCI_K_FN uint32_t ckci_k_pad_mask(const ckci_gpu_conv &p, const ckci_k_axis axis[3], const ckci_k_place &q,
                                   int32_t first)
{
    ckci_k_hole hole = {0x80000000u};
    if (!p.ranges) {
        hole.add_all(0, p.dim, q, axis[0].taps, axis[1].taps, axis[2].taps);
        return q.n < p.n ? hole.word : 0xffffffffu;
    }
    CKCI_K_UNROLL(1)
    for (int d = 2; d >= 0; d--) {
        int32_t have = d == 2 ? axis[2].taps : d == 1 ? axis[1].taps : axis[0].taps, several = have > 1;
        int32_t from = d == 2 ? q.x : d == 1 ? q.y : q.z, t = several ? first : 0;
        have = several && have - t > CKCI_K_BITS ? t + CKCI_K_BITS : have;
        CKCI_K_UNROLL(1)
        for (; t < have; t++) {
            uint32_t bit = several ? 1u << t % CKCI_K_BITS : 0xffffffffu;
            int32_t at = from + t * p.dim[d].read_tap;
            hole.word |= (uint32_t)at < (uint32_t)p.dim[d].read_len ? 0u : bit;
        }
    }
    return q.n < p.n ? hole.word : 0xffffffffu;
}

/* The table of a phase's taps: byte offsets in both tensors, the bit of the masks. */
CKCI_K_FN void ckci_k_fill_taps(const ckci_gpu_conv &p, const ckci_k_axis axis[3], ckci_k_tap_entry *table,
                                int threads)
{
    const int64_t *s = p.a.stride;
    int32_t count = axis[0].taps * axis[1].taps * axis[2].taps;
    for (int32_t i = (int32_t)threadIdx.x; i <= count; i += threads) {
        ckci_k_tap t = ckci_k_find_tap(p, axis, i * p.red);
        ckci_k_tap_entry e = {0, INT32_MIN, 0x80000000u, 0};
        if (i < count) {
            t.c = 0;
            e.a = 4 * (int32_t)(t.z * p.dim[0].read_tap * s[3] + t.y * p.dim[1].read_tap * s[4] +
                                t.x * p.dim[2].read_tap * s[5]);
            e.b = 4 * (int32_t)ckci_k_weight_at(p, axis, t);
            e.need = p.ranges ? 1u << i % CKCI_K_BITS
                              : 1u << t.x % 32 | 1u << (axis[2].taps + t.y) % 32 |
                                    1u << (axis[2].taps + axis[1].taps + t.z) % 32;
        }
        table[i] = e;
    }
    __syncthreads();
}

/* ---- fwd and bwd_data. V 4: chunks of the tensor that is read are four channels of one tap; V 1: four
   places of the reduction, each where it lies. Weights come in chunks of four places of the reduction
   (b_mode 0), of four columns (1), or, with V 1 only, one by one (2). */
template <class S, int V> struct ckci_k_tile_gather_loader {
    enum {
        CHUNKS = S::KT / 4,
        ROWS = S::THREADS / CHUNKS,
        A = S::BM / ROWS,
        QUADS = S::BN / 4,
        ALL = S::KT * QUADS, /* chunks of b */
        B = (ALL + (int)S::THREADS - 1) / (int)S::THREADS,
        LONG = 20 /* a step reaches KT taps at most */
    };
    static_assert(S::BM % ROWS == 0 && (B == 1 || ALL % (int)S::THREADS == 0), "whole passes");
    const ckci_gpu_conv &p;
    ckci_k_axis axis[3]; /* copies: what a pointer in this struct leads to would lie in scratch */
    const ckci_k_tap_entry *taps;
    ckci_k_window wa, wb;
    int32_t row0, count, tap, at, end, step; /* of a: bytes past the tap's first channel, channels, one */
    int32_t b_tap[B], b_c[B], b_at[B], b_step;
    int32_t a_at[A], window; /* of taps in the masks, where all do not fit */
    uint32_t mask[A];
    float raw[A][4], b_raw[B][4];

    CKCI_K_MEMBER ckci_k_tile_gather_loader(const ckci_gpu_conv &conv, const ckci_k_block &b,
                                            ckci_k_tap_entry *table)
        : p(conv), axis{b.axis[0], b.axis[1], b.axis[2]}, taps(table), row0(b.row)
    {
        const int64_t *s = p.a.stride;
        int t = (int)threadIdx.x;
        count = axis[0].taps * axis[1].taps * axis[2].taps;
        ckci_k_fill_taps(p, axis, table, S::THREADS);
        ckci_k_place start = ckci_k_row(axis, b.row);
        wa = ckci_k_pinned_window(p.a.p + 4 * (b.group * s[0] + start.n * s[1]));
        wb = ckci_k_pinned_window(p.b.p + 4 * (b.group * p.b.stride[0] + b.column * p.b_column));
        step = V == 4 ? 4 : 4 * (int32_t)s[2];
        end = p.red * step;
        tap = 0;
        at = t % CHUNKS * 4 * step;
        wrap(tap, at, end);
        window = 0;
        CKCI_K_UNROLL(16)
        for (int i = 0; i < A; i++) {
            ckci_k_place q = ckci_k_first_tap(p, axis, row0 + t / CHUNKS + i * ROWS);
            a_at[i] = 4 * (int32_t)((q.n - start.n) * s[1] + q.z * s[3] + q.y * s[4] + q.x * s[5]);
            mask[i] = ckci_k_pad_mask(p, axis, q, 0);
        }
        b_step = 4 * (int32_t)p.b_red;
        CKCI_K_UNROLL(16)
        for (int i = 0; i < B; i++) {
            int32_t column = p.b_mode == 1 ? t % QUADS * 4 : t / CHUNKS + i * ROWS;
            b_at[i] = b.column + column < p.columns ? 4 * column * (int32_t)p.b_column : 0;
            if (ALL < (int)S::THREADS && t >= ALL) {
                b_at[i] = INT32_MIN; /* nothing to fetch */
            }
            b_tap[i] = 0;
            b_c[i] = place(i);
            wrap(b_tap[i], b_c[i], p.red);
        }
    }

    /* First place of the reduction in chunk i of b. */
    CKCI_K_MEMBER int32_t place(int i) const
    {
        int32_t t = (int32_t)threadIdx.x;
        return p.b_mode == 1 ? (t / QUADS + i * (S::THREADS / QUADS)) % S::KT : t % CHUNKS * 4;
    }

    /* V 4: the channels of a tap are a step at least, so that one test will do, and no place is past the tap
       that follows the last one. */
    CKCI_K_MEMBER void wrap(int32_t &t, int32_t &place, int32_t past) const
    {
        if constexpr (V == 4) {
            bool over = place >= past;
            place -= over ? past : 0;
            t += over ? 1 : 0;
        } else {
            while (place >= past) {
                place -= past;
                t++;
            }
            t = t < count ? t : count;
        }
    }

    CKCI_K_MEMBER int32_t a_offset(int i, const ckci_k_tap_entry &e, int32_t place) const
    {
        return ckci_k_add(a_at[i], e.a, place) | (int32_t)(0u - (mask[i] & e.need));
    }

    /* Masks for the next window of taps. */
    CKCI_K_MEMBER int32_t renew(int32_t s, int32_t steps)
    {
        if (!p.ranges) {
            return steps;
        }
        if (s > 1) {
            window++;
            int32_t row = ckci_k_opaque(row0);
            CKCI_K_UNROLL(16)
            for (int i = 0; i < A; i++) {
                ckci_k_place q = ckci_k_first_tap(p, axis, row + (int32_t)threadIdx.x / CHUNKS + i * ROWS);
                mask[i] = ckci_k_pad_mask(p, axis, q, window * LONG);
            }
        }
        int32_t stop = ((window + 1) * LONG * p.red + S::KT - 1) / S::KT;
        return stop < steps ? stop : steps;
    }

    CKCI_K_MEMBER void fetch(int32_t)
    {
        if constexpr (V == 4) {
            ckci_k_tap_entry e = taps[tap];
            CKCI_K_UNROLL(16)
            for (int i = 0; i < A; i++) {
                ckci_k_quad q = ckci_k_window_quad(wa, ckci_k_add(a_at[i], e.a, at), mask[i] & e.need);
                CKCI_K_UNROLL(16)
                for (int j = 0; j < 4; j++) {
                    raw[i][j] = q.v[j];
                }
            }
        } else {
            int32_t t = tap, place = at;
            CKCI_K_UNROLL(16)
            for (int j = 0; j < 4; j++) {
                ckci_k_tap_entry e = taps[t];
                CKCI_K_UNROLL(16)
                for (int i = 0; i < A; i++) {
                    raw[i][j] = ckci_k_window_word(wa, a_offset(i, e, place));
                }
                place += step;
                wrap(t, place, end);
            }
        }
        at += S::KT * step;
        wrap(tap, at, end);
        CKCI_K_UNROLL(16)
        for (int i = 0; i < B; i++) {
            if (V == 4 || p.b_mode < 2) {
                ckci_k_quad q =
                    ckci_k_window_quad(wb, ckci_k_add(b_at[i], taps[b_tap[i]].b, b_c[i] * b_step));
                CKCI_K_UNROLL(16)
                for (int j = 0; j < 4; j++) {
                    b_raw[i][j] = q.v[j];
                }
            } else {
                int32_t t = b_tap[i], c = b_c[i];
                CKCI_K_UNROLL(16)
                for (int j = 0; j < 4; j++) {
                    b_raw[i][j] = ckci_k_window_word(wb, ckci_k_add(b_at[i], taps[t].b, c * b_step));
                    c++;
                    wrap(t, c, p.red);
                }
            }
            b_c[i] += S::KT;
            wrap(b_tap[i], b_c[i], p.red);
        }
    }

    template <class L> CKCI_K_MEMBER void put(L &m, int buffer) const
    {
        int t = (int)threadIdx.x, k = t % CHUNKS * 4;
        CKCI_K_UNROLL(16)
        for (int i = 0; i < A; i++) {
            float *row = &m.a[buffer][k][t / CHUNKS + i * ROWS];
            CKCI_K_UNROLL(16)
            for (int j = 0; j < 4; j++) {
                row[j * S::LA] = raw[i][j];
            }
        }
        if (ALL < (int)S::THREADS && t >= ALL) {
            return;
        }
        CKCI_K_UNROLL(16)
        for (int i = 0; i < B; i++) {
            if (p.b_mode == 1) {
                ckci_k_quad q = {{b_raw[i][0], b_raw[i][1], b_raw[i][2], b_raw[i][3]}};
                *(ckci_k_quad *)&m.b[buffer][place(i)][t % QUADS * 4] = q;
            } else {
                float *column = &m.b[buffer][k][t / CHUNKS + i * ROWS];
                CKCI_K_UNROLL(16)
                for (int j = 0; j < 4; j++) {
                    column[j * S::LB] = b_raw[i][j];
                }
            }
        }
    }
};

template <class S, int V> struct ckci_k_tile_gather {
    typedef ckci_k_tile_lds<S, CKCI_K_TAPS + 1> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &conv, lds &m)
    {
        ckci_k_tile_sums<S> sums;
        {
            const ckci_gpu_conv &p = conv;
            ckci_k_block b = ckci_k_find_block(p, S::BM, S::BN);
            int64_t rows = (int64_t)p.n * b.axis[0].count * b.axis[1].count * b.axis[2].count;
            if (b.row >= rows) {
                return; /* a phase with fewer positions than the first one; the whole block */
            }
            ckci_k_tile_gather_loader<S, V> loader(p, b, m.table);
            sums.run(m, loader, ckci_k_opaque((ckci_k_reduction(p, b.axis) + S::KT - 1) / S::KT));
        }
        const ckci_gpu_conv &p = ckci_k_late(conv);
        ckci_k_block b = ckci_k_find_block(p, S::BM, S::BN);
        const int64_t *s = p.o.t.stride;
        sums.finish(
            m, p.o_vec != 0, s[5] < s[2], p.o.t.p + 4 * (b.group * s[0] + b.column), p.columns - b.column,
            [&](int row) {
                ckci_k_place q = ckci_k_row(b.axis, b.row + row);
                return q.n < p.n ? 4 * (q.n * s[1] + (b.axis[0].write0 + q.z * p.dim[0].write_step) * s[3] +
                                        (b.axis[1].write0 + q.y * p.dim[1].write_step) * s[4] +
                                        (b.axis[2].write0 + q.x * p.dim[2].write_step) * s[5])
                                 : (int64_t)-1;
            },
            [&](int row, int column, float sum) {
                ckci_k_place q = ckci_k_row(b.axis, b.row + row);
                if (q.n < p.n && b.column + column < p.columns) {
                    ckci_k_write<float>(p.o, sum, b.group, q.n, b.column + column,
                                        b.axis[0].write0 + q.z * p.dim[0].write_step,
                                        b.axis[1].write0 + q.y * p.dim[1].write_step,
                                        b.axis[2].write0 + q.x * p.dim[2].write_step);
                }
            });
    }
};

/* ---- fwd and bwd_data with few channels per group. Neighbouring threads (p.lanes of them) take neighbouring
   groups, or blocks of CB columns of a group, as they lie in memory, the others positions. A thread owns RP
   positions and CB columns: it reads its positions from memory, 16 bytes at a time, the weights from LDS,
   where p.split taps of the block's groups lie at a time as [group][tap][channel][column]. A block takes
   p.part batches of positions one after the other, so that the weights are read once for all of them if they
   fit. */
enum { CKCI_K_GROUPED = 9600 };

template <int CB, int RP> struct ckci_k_grouped {
    struct lds {
        alignas(16) float w[CKCI_K_GROUPED];
        ckci_k_tap_entry table[CKCI_K_TAPS + 1];
    };

    /* Weights of taps from `first` on. */
    static CKCI_K_MEMBER void load(const ckci_gpu_conv &p, const ckci_k_block &b, int32_t first,
                                   int32_t count, int32_t pitch, lds &m)
    {
        int32_t rows = p.split * p.red, all = p.lanes * rows * CB;
        CKCI_K_UNROLL(1)
        for (int32_t e = (int32_t)threadIdx.x; e < all; e += 256) {
            /* the fastest index is that along which the weights are dense */
            int32_t up = p.b_mode == 1 ? e / CB : ckci_k_divide(e, p.by_red);
            int32_t r = e - up * p.red, column = e % CB;
            int32_t tap = ckci_k_divide(up, p.by_one_k), lane = up - tap * p.split;
            if (p.b_mode == 1) {
                tap = ckci_k_divide(up, p.by_red);
                r = up - tap * p.red;
                lane = ckci_k_divide(tap, p.by_one_k);
                tap -= lane * p.split;
            } else {
                int32_t line = tap;
                tap = lane;
                column = line % CB;
                lane = line / CB;
            }
            int32_t group = ckci_k_divide(b.column + lane, p.by_channels);
            int32_t c = (b.column + lane - group * (int32_t)p.by_channels.d) * CB + column;
            float x = 0;
            if (group < p.g && c < p.columns && first + tap < count) {
                x = *(const float *)(p.b.p + 4 * (group * p.b.stride[0] + c * p.b_column + r * p.b_red) +
                                     m.table[first + tap].b);
            }
            m.w[lane * pitch + (tap * p.red + r) * CB + column] = x;
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        int32_t t = (int32_t)threadIdx.x, wide = 256 / p.lanes, lane = t & (p.lanes - 1);
        ckci_k_block b = ckci_k_find_block(p, RP * wide * p.part, p.lanes);
        int64_t rows = (int64_t)p.n * b.axis[0].count * b.axis[1].count * b.axis[2].count;
        if (b.row >= rows) {
            return; /* a phase with fewer positions than the first one; the whole block */
        }
        ckci_k_fill_taps(p, b.axis, m.table, 256);
        int32_t taps = b.axis[0].taps * b.axis[1].taps * b.axis[2].taps;
        int32_t pitch = p.split * p.red * CB;
        pitch += pitch % 32 == 0 ? 4 : 20; /* eight neighbouring groups lie in different banks */
        int32_t group = ckci_k_divide(b.column + lane, p.by_channels);
        int32_t column = (b.column + lane - group * (int32_t)p.by_channels.d) * CB;
        bool inside = group < p.g;
        group = inside ? group : 0;
        int32_t start = ckci_k_row(b.axis, b.row).n;
        ckci_k_window wa = ckci_k_pinned_window(p.a.p + 4 * start * p.a.stride[1]);
        ckci_k_hold(b.axis);
        for (int32_t batch = 0; batch < p.part && b.row + batch * RP * wide < rows; batch++) {
            int32_t row0 = b.row + batch * RP * wide + t / p.lanes, at[RP];
            uint32_t mask[RP];
            float sum[RP][CB];
            const ckci_gpu_conv &u = ckci_k_again(p);
            const int32_t count = ckci_k_afresh(taps);
            const int64_t *s = u.a.stride;
            CKCI_K_UNROLL(16)
            for (int i = 0; i < RP; i++) {
                ckci_k_place q = ckci_k_first_tap(u, b.axis, row0 + i * wide);
                at[i] =
                    4 * (int32_t)(group * s[0] + (q.n - start) * s[1] + q.z * s[3] + q.y * s[4] + q.x * s[5]);
                mask[i] = ckci_k_pad_mask(u, b.axis, q, 0);
                CKCI_K_UNROLL(16)
                for (int j = 0; j < CB; j++) {
                    sum[i][j] = 0;
                }
            }
            for (int32_t first = 0; first < count; first += p.split) {
                if (batch == 0 || count > p.split || !p.o_vec) {
                    __syncthreads();
                    load(ckci_k_again(p), b, first, count, pitch, m);
                    __syncthreads();
                }
                int32_t past = first + p.split < count ? first + p.split : count;
                const float *w = m.w + lane * pitch;
                CKCI_K_UNROLL(1)
                for (int32_t tap = first; tap < past; tap++) {
                    ckci_k_tap_entry e = m.table[tap];
                    int32_t from[RP];
                    CKCI_K_UNROLL(16)
                    for (int i = 0; i < RP; i++) {
                        from[i] = mask[i] & e.need ? INT32_MIN : ckci_k_add(at[i], e.a, 0);
                    }
                    CKCI_K_UNROLL(1)
                    for (int32_t c = 0; c < u.red; c += 4, w += 4 * CB) {
                        multiply(wa, from, c, w, sum);
                    }
                }
            }
            write(p, b, row0, wide, inside, group, column, sum, m);
        }
    }

    static CKCI_K_MEMBER void multiply(const ckci_k_window &wa, const int32_t *from, int32_t c,
                                       const float *w, float (*sum)[CB])
    {
        ckci_k_quad a[RP];
        CKCI_K_UNROLL(16)
        for (int i = 0; i < RP; i++) {
            a[i] = ckci_k_window_quad(wa, from[i] + 4 * c);
        }
        CKCI_K_UNROLL(4)
        for (int k = 0; k < 4; k++) {
            CKCI_K_UNROLL(16)
            for (int j = 0; j < CB; j += 4) {
                ckci_k_quad b = *(const ckci_k_quad *)(w + k * CB + j);
                CKCI_K_UNROLL(16)
                for (int i = 0; i < RP; i++) {
                    CKCI_K_UNROLL(4)
                    for (int h = 0; h < 4; h++) {
                        sum[i][j + h] = ckci_k_fma(a[i].v[k], b.v[h], sum[i][j + h]);
                    }
                }
            }
        }
    }

    static CKCI_K_MEMBER void write(const ckci_gpu_conv &conv, const ckci_k_block &b, int32_t row0,
                                    int32_t wide, bool inside, int32_t group, int32_t column,
                                    float (*sum)[CB], lds &m)
    {
        const ckci_gpu_conv &p = ckci_k_late(conv);
        const int64_t *s = p.o.t.stride;
        int t = (int)threadIdx.x;
        if (!p.o_vec) {
            __syncthreads(); /* the weights make room */
        }
        CKCI_K_UNROLL(1)
        for (int i = 0; i < RP; i++) {
            ckci_k_place q = ckci_k_row(b.axis, row0 + i * wide);
            q.z = b.axis[0].write0 + q.z * p.dim[0].write_step;
            q.y = b.axis[1].write0 + q.y * p.dim[1].write_step;
            q.x = b.axis[2].write0 + q.x * p.dim[2].write_step;
            bool row = inside && q.n < p.n;
            if (p.o_vec) {
                unsigned char *out =
                    p.o.t.p + 4 * (group * s[0] + q.n * s[1] + column + q.z * s[3] + q.y * s[4] + q.x * s[5]);
                CKCI_K_UNROLL(16)
                for (int j = 0; j < CB; j += 4) {
                    ckci_k_quad v = {{sum[0][j], sum[0][j + 1], sum[0][j + 2], sum[0][j + 3]}};
                    if (row && column + j < p.columns) {
                        *(ckci_k_quad *)(out + 4 * j) = v;
                    }
                }
            } else {
                CKCI_K_UNROLL(16)
                for (int j = 0; j < CB; j++) {
                    m.w[j * 256 + t] = sum[0][j];
                }
                CKCI_K_UNROLL(1)
                for (int j = 0; j < CB; j++) {
                    if (row && column + j < p.columns) {
                        ckci_k_write<float>(p.o, m.w[j * 256 + t], group, q.n, column + j, q.z, q.y, q.x);
                    }
                }
            }
            CKCI_K_UNROLL(16)
            for (int j = 0; j < CB; j++) {
                CKCI_K_UNROLL(16)
                for (int h = 0; h + 1 < RP; h++) {
                    sum[h][j] = sum[h + 1][j]; /* an index known at compile time keeps sum in registers */
                }
            }
        }
    }
};

/* ---- fwd and bwd_data with at most four columns, where the tensor that is read is walked in steps of one. A
   block owns a patch of positions of one phase, p.part rows of at most 8 * p.lanes; a thread owns eight
   positions of a row, p.lanes apart, and all columns. What the patch reads, with its rim, lies in LDS, eight
   channels at a time, as [quad of channels][position], so that neighbouring threads read neighbouring quads;
   beside it the weights of those channels as [tap][channel][column]. Blocks: phases fastest, so that those
   that read the same patch run together. */
struct ckci_k_narrow {
    enum { PATCH = 1472, FLAT = 64, P = 8 };
    struct lds {
        ckci_k_quad a[2][PATCH];
        ckci_k_quad w[FLAT][8];
    };

    /* Where the block's patch begins, and its extent with the rim. */
    struct window {
        int32_t group, n, z, y, x; /* of the first written position */
        int32_t top, left, high, wide, pitch;
    };

    static CKCI_K_MEMBER window find(const ckci_gpu_conv &p, ckci_k_axis axis[3])
    {
        window v;
        int32_t work = (int32_t)blockIdx.x, rest = ckci_k_divide(work, p.by_phases);
        ckci_k_find_axes(p.dim, work - rest * p.phases, axis);
        int32_t up = ckci_k_divide(rest, p.by_tiles_n), line = ckci_k_divide(up, p.by_tiles_m);
        v.x = (rest - up * p.tiles_n) * P * p.lanes;
        v.y = (up - line * p.tiles_m) * p.part;
        int32_t depth = ckci_k_divide(line, p.dim[0].count[0]);
        v.z = line - depth * (int32_t)p.dim[0].count[0].d;
        v.group = depth / p.n;
        v.n = depth - v.group * p.n;
        int32_t span_y = (axis[1].taps - 1) * p.dim[1].read_tap,
                span_x = (axis[2].taps - 1) * p.dim[2].read_tap;
        v.top = v.y + axis[1].read0 + (span_y < 0 ? span_y : 0);
        v.left = v.x + axis[2].read0 + (span_x < 0 ? span_x : 0);
        v.high = p.part + (span_y < 0 ? -span_y : span_y);
        v.wide = P * p.lanes + (span_x < 0 ? -span_x : span_x);
        v.pitch = v.wide + ((p.lanes - v.wide) & 7); /* rows of a wave meet no bank twice */
        return v;
    }

    /* Channels c to c + 7 of the patch at depth z, 32 threads along a row of it. */
    static CKCI_K_MEMBER void load(const ckci_gpu_conv &p, const window &v, const ckci_k_window &wa,
                                   int32_t z, int32_t c, lds &m)
    {
        const int64_t *s = p.a.stride;
        int32_t t = (int32_t)threadIdx.x, q = t & 1;
        CKCI_K_UNROLL(1)
        for (int32_t iy = t / 32; iy < v.high; iy += 4) {
            int32_t y = v.top + iy;
            bool row = (uint32_t)y < (uint32_t)p.dim[1].read_len &&
                       (uint32_t)z < (uint32_t)p.dim[0].read_len && c + 4 * q < p.red;
            int32_t at = 4 * (int32_t)(z * s[3] + y * s[4] + c + 4 * q);
            CKCI_K_UNROLL(1)
            for (int32_t ix = t % 32 / 2; ix < v.wide; ix += 16) {
                int32_t x = v.left + ix;
                bool good = row && (uint32_t)x < (uint32_t)p.dim[2].read_len;
                m.a[q][iy * v.pitch + ix] =
                    ckci_k_window_quad(wa, good ? ckci_k_add(at, 4 * x * (int32_t)s[5], 0) : INT32_MIN);
            }
        }
    }

    static CKCI_K_MEMBER void load_weights(const ckci_gpu_conv &p, const window &v, const ckci_k_axis axis[3],
                                           int32_t tz, int32_t c, lds &m)
    {
        int32_t flat = axis[1].taps * axis[2].taps;
        CKCI_K_UNROLL(1)
        for (int32_t e = (int32_t)threadIdx.x; e < flat * 32; e += 128) {
            int32_t tap = e / 32, column = e % 4, r = e / 4 % 8 + c;
            ckci_k_tap at = {r, tz, tap / axis[2].taps, tap % axis[2].taps};
            float x = 0;
            if (column < p.columns && r < p.red) {
                x = *(const float *)(p.b.p + 4 * (v.group * p.b.stride[0] + column * p.b_column +
                                                  ckci_k_weight_at(p, axis, at)));
            }
            m.w[tap][e / 4 % 8].v[column] = x;
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &conv, lds &m)
    {
        float sum[P][4];
        const ckci_gpu_conv &p = conv;
        ckci_k_axis axis[3];
        window v = find(p, axis);
        if (v.x >= axis[2].count || v.y >= axis[1].count || v.z >= axis[0].count) {
            return; /* a phase with fewer positions than the first one; the whole block */
        }
        int32_t t = (int32_t)threadIdx.x, ty = t / p.lanes, tx = t - ty * p.lanes;
        bool works = ty < p.part;
        ty = works ? ty : 0;
        CKCI_K_UNROLL(32)
        for (int i = 0; i < P * 4; i++) {
            sum[i / 4][i % 4] = 0;
        }
        ckci_k_window wa = ckci_k_pinned_window(p.a.p + 4 * (v.group * p.a.stride[0] + v.n * p.a.stride[1]));
        int32_t step_y = p.dim[1].read_tap, step_x = p.dim[2].read_tap;
        int32_t origin = (ty + (step_y < 0 ? (1 - axis[1].taps) * step_y : 0)) * v.pitch + tx +
                         (step_x < 0 ? (1 - axis[2].taps) * step_x : 0);
        int32_t taps_z = axis[1].taps * axis[2].taps > 0 ? axis[0].taps : 0;
        for (int32_t tz = 0; tz < taps_z; tz++) {
            int32_t z = v.z * p.dim[0].read_step + axis[0].read0 + tz * p.dim[0].read_tap;
            for (int32_t c = 0; c < p.red; c += 8) {
                __syncthreads();
                load(p, v, wa, z, c, m);
                load_weights(p, v, axis, tz, c, m);
                __syncthreads();
                CKCI_K_UNROLL(1)
                for (int32_t fy = 0; fy < axis[1].taps; fy++) {
                    CKCI_K_UNROLL(1)
                    for (int32_t fx = 0; fx < axis[2].taps; fx++) {
                        const ckci_k_quad *a = &m.a[0][origin + fy * step_y * v.pitch + fx * step_x];
                        multiply(a, p.lanes, m.w[fy * axis[2].taps + fx], sum);
                        multiply(a + PATCH, p.lanes, m.w[fy * axis[2].taps + fx] + 4, sum);
                    }
                }
            }
        }
        write(conv, axis, v, works ? v.y + ty : INT32_MAX, v.x + tx, sum);
    }

    /* a: four channels at the first of the positions; w: their weights */
    static CKCI_K_MEMBER void multiply(const ckci_k_quad *a, int32_t lanes, const ckci_k_quad *w,
                                       float (*sum)[4])
    {
        ckci_k_quad b[4] = {w[0], w[1], w[2], w[3]};
        CKCI_K_UNROLL(16)
        for (int i = 0; i < P; i++) {
            ckci_k_quad x = a[i * lanes];
            CKCI_K_UNROLL(16)
            for (int k = 0; k < 4; k++) {
                CKCI_K_UNROLL(16)
                for (int j = 0; j < 4; j++) {
                    sum[i][j] = ckci_k_fma(x.v[k], b[k].v[j], sum[i][j]);
                }
            }
        }
    }

    static CKCI_K_MEMBER void write(const ckci_gpu_conv &conv, const ckci_k_axis axis[3], const window &v,
                                    int32_t y, int32_t x, float (*sum)[4])
    {
        const ckci_gpu_conv &p = ckci_k_late(conv);
        CKCI_K_UNROLL(1)
        for (int i = 0; i < P; i++) {
            CKCI_K_UNROLL(1)
            for (int j = 0; j < p.columns; j++) {
                if (y < axis[1].count && x + i * p.lanes < axis[2].count) {
                    ckci_k_write<float>(p.o, sum[0][0], v.group, v.n, j,
                                        axis[0].write0 + v.z * p.dim[0].write_step,
                                        axis[1].write0 + y * p.dim[1].write_step,
                                        axis[2].write0 + (x + i * p.lanes) * p.dim[2].write_step);
                }
                float first = sum[0][0]; /* a turn: an index known at compile time keeps sum in registers */
                sum[0][0] = sum[0][1];
                sum[0][1] = sum[0][2];
                sum[0][2] = sum[0][3];
                sum[0][3] = first;
            }
            CKCI_K_UNROLL(16)
            for (int h = 0; h + 1 < P; h++) {
                CKCI_K_UNROLL(16)
                for (int j = 0; j < 4; j++) {
                    sum[h][j] = sum[h + 1][j];
                }
            }
        }
    }
};

/* ---- bwd_weight. In memory rows and columns are contiguous, as they are in LDS. A thread's columns stay the
   same, its positions advance: they are decoded PT at a time, each by one thread, into the table. V 1: each
   of a chunk's four rows and columns where it lies. */
template <class S, int V> struct ckci_k_tile_weight_loader {
    enum {
        PT = 128,
        QA = S::BM / 4,
        QB = S::BN / 4,
        PA = S::THREADS / QA, /* positions that the block fetches at a time */
        PB = S::THREADS / QB,
        A = (S::KT + PA - 1) / PA,
        B = (S::KT + PB - 1) / PB,
        PARTS = 4 / V
    };
    static_assert(PT % (2 * S::KT) == 0, "a chapter is two steps at least");
    const ckci_gpu_conv &p;
    ckci_k_tap_entry *table; /* two times PT positions */
    ckci_k_window wa, wb;
    int32_t from, to, start; /* start: the batch that offsets count from */
    int32_t a_at[PARTS], b_at[PARTS], tap[PARTS];
    uint32_t need[PARTS];
    float a_raw[A][4], b_raw[B][4];

    CKCI_K_MEMBER ckci_k_tile_weight_loader(const ckci_gpu_conv &conv, int32_t group, int32_t row0,
                                            int32_t column0, int32_t first, int32_t last,
                                            ckci_k_tap_entry *entries)
        : p(conv), table(entries), from(first), to(last)
    {
        int t = (int)threadIdx.x;
        start = position(from).n;
        wa = ckci_k_pinned_window(p.a.p + 4 * (group * p.a.stride[0] + start * p.a.stride[1]));
        wb = ckci_k_pinned_window(p.b.p + 4 * (group * p.b.stride[0] + start * p.b.stride[1]));
        CKCI_K_UNROLL(4)
        for (int i = 0; i < PARTS; i++) {
            int32_t row = row0 + t % QA * 4 + i, column = column0 + t % QB * 4 + i;
            a_at[i] = row < p.rows ? 4 * row * (int32_t)p.a.stride[2] : 0;
            column = column < p.columns ? column : 0;
            tap[i] = ckci_k_divide(column, p.by_red);
            int32_t rest = ckci_k_divide(tap[i], p.dim[2].taps[0]), z = ckci_k_divide(rest, p.dim[1].taps[0]),
                    y = rest - z * p.dim[1].filter, x = tap[i] - rest * p.dim[2].filter;
            const int64_t *s = p.b.stride;
            b_at[i] = 4 * (int32_t)((column - tap[i] * p.red) * s[2] + z * p.dim[0].dilation * s[3] +
                                    y * p.dim[1].dilation * s[4] + x * p.dim[2].dilation * s[5]);
            need[i] = 1u << x % 32 | 1u << (p.dim[2].filter + y) % 32 |
                      1u << (p.dim[2].filter + p.dim[1].filter + z) % 32;
        }
        prepare(0);
        __syncthreads();
    }

    CKCI_K_MEMBER ckci_k_place position(int32_t k) const
    {
        return ckci_k_decode(k, p.dim[0].count[0], p.dim[1].count[0], p.dim[2].count[0]);
    }

    CKCI_K_MEMBER void prepare(int32_t chapter)
    {
        const int64_t *a = p.a.stride, *b = p.b.stride;
        for (int32_t j = (int32_t)threadIdx.x; j < PT; j += S::THREADS) {
            int32_t k = from + chapter * PT + j;
            ckci_k_tap_entry e = {INT32_MIN, INT32_MIN, 0, 0};
            ckci_k_hole hole;
            hole.close(p.ranges);
            if (k < to) {
                ckci_k_place q = position(k);
                e.a = 4 * (int32_t)((q.n - start) * a[1] + q.z * a[3] + q.y * a[4] + q.x * a[5]);
                q.z = q.z * p.dim[0].stride - p.dim[0].pad;
                q.y = q.y * p.dim[1].stride - p.dim[1].pad;
                q.x = q.x * p.dim[2].stride - p.dim[2].pad;
                e.b = 4 * (int32_t)((q.n - start) * b[1] + q.z * b[3] + q.y * b[4] + q.x * b[5]);
                hole.open(p.ranges);
                hole.add_all(p.ranges, p.dim, q, p.dim[0].filter, p.dim[1].filter, p.dim[2].filter);
            }
            e.need = hole.word;
            table[chapter % 2 * PT + j] = e;
        }
    }

    CKCI_K_MEMBER int32_t b_offset(const ckci_k_tap_entry &e, int i) const
    {
        ckci_k_hole hole = {e.need};
        return ckci_k_add(b_at[i], e.b, 0) | hole.bad(p.ranges, tap[i], need[i]);
    }

    /* A chapter is decoded before the steps of the one ahead of it: its half of the table was read to the end
       before the last barrier, and another barrier follows before it is read. */
    CKCI_K_MEMBER int32_t renew(int32_t s, int32_t steps)
    {
        int32_t chapter = s * S::KT / PT + 1, stop = chapter * (PT / S::KT);
        if (stop < steps) {
            prepare(chapter);
        }
        return stop < steps ? stop : steps;
    }

    CKCI_K_MEMBER void fetch(int32_t step)
    {
        const ckci_k_tap_entry *entries = table + step * S::KT % (2 * PT);
        int t = (int)threadIdx.x;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < A; i++) {
            int place = t / QA + i * PA;
            ckci_k_tap_entry e = entries[S::KT % PA != 0 && place >= S::KT ? 0 : place];
            load(a_raw[i], wa, [&](int j) { return ckci_k_add(a_at[j], e.a, 0); });
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < B; i++) {
            int place = t / QB + i * PB;
            ckci_k_tap_entry e = entries[S::KT % PB != 0 && place >= S::KT ? 0 : place];
            load(b_raw[i], wb, [&](int j) { return b_offset(e, j); });
        }
    }

    template <class F> CKCI_K_MEMBER void load(float *raw, const ckci_k_window &w, const F &offset) const
    {
        if constexpr (V == 4) {
            ckci_k_quad q = ckci_k_window_quad(w, offset(0));
            CKCI_K_UNROLL(4)
            for (int j = 0; j < 4; j++) {
                raw[j] = q.v[j];
            }
        } else {
            CKCI_K_UNROLL(4)
            for (int j = 0; j < 4; j++) {
                raw[j] = ckci_k_window_word(w, offset(j));
            }
        }
    }

    template <class L> CKCI_K_MEMBER void put(L &m, int buffer) const
    {
        int t = (int)threadIdx.x;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < A; i++) {
            ckci_k_quad q = {{a_raw[i][0], a_raw[i][1], a_raw[i][2], a_raw[i][3]}};
            if ((S::KT % PA == 0 || t / QA + i * PA < S::KT) && ((int)S::THREADS % QA == 0 || t < PA * QA)) {
                *(ckci_k_quad *)&m.a[buffer][t / QA + i * PA][t % QA * 4] = q;
            }
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < B; i++) {
            ckci_k_quad q = {{b_raw[i][0], b_raw[i][1], b_raw[i][2], b_raw[i][3]}};
            if ((S::KT % PB == 0 || t / QB + i * PB < S::KT) && ((int)S::THREADS % QB == 0 || t < PB * QB)) {
                *(ckci_k_quad *)&m.b[buffer][t / QB + i * PB][t % QB * 4] = q;
            }
        }
    }
};

template <class S, int V> struct ckci_k_tile_weight {
    typedef ckci_k_tile_lds<S, 2 * 128> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        int32_t work = (int32_t)blockIdx.x, rest = ckci_k_divide(work, p.by_tiles_n);
        int32_t column0 = (work - rest * p.tiles_n) * S::BN, up = ckci_k_divide(rest, p.by_tiles_m);
        int32_t row0 = (rest - up * p.tiles_m) * S::BM, part = ckci_k_divide(up, p.by_phases);
        int32_t group = up - part * p.g;
        int32_t from = part * p.part + (part < p.part_rest ? part : p.part_rest);
        int32_t to = from + p.part + (part < p.part_rest ? 1 : 0);
        ckci_k_tile_sums<S> sums;
        {
            ckci_k_tile_weight_loader<S, V> loader(p, group, row0, column0, from, to, m.table);
            sums.run(m, loader, ckci_k_opaque((to - from + S::KT - 1) / S::KT));
        }
        /* o_vec: dw is dense in the order of the sums */
        unsigned char *out = p.o.partial ? p.o.partial : p.o.t.p;
        sums.finish(
            m, p.o_vec != 0, false, out, p.columns - column0,
            [&](int row) {
                int64_t filter = ((int64_t)part * p.g + group) * p.rows + row0 + row;
                return row0 + row < p.rows ? 4 * (filter * p.columns + column0) : (int64_t)-1;
            },
            [&](int row, int column, float sum) {
                if (row0 + row < p.rows && column0 + column < p.columns) {
                    ckci_k_write_weight<float>(p, sum, part, group, row0 + row, column0 + column);
                }
            });
    }
};


/*------------------------------------------------------------------------------------------------------------
  >>k-direct
  Depthwise and few channels per group, where a matrix tile would be mostly padding. fwd and bwd_data: a
  thread owns one output and walks its taps and channels; a block is lanes x (256 / lanes): neighbouring
  threads take neighbouring channels of all groups, or positions, whichever lie together in memory. Nothing
  passes through LDS; neighbours meet in the caches.
  bwd_weight: a block owns `lanes` filters (g, k, c) at one tap, over one part of the positions; the threads
  of a filter share the positions, and their sums are added in LDS in a fixed tree.
*/
template <class T>
CKCI_K_FN T ckci_k_direct_sum(const ckci_gpu_conv &p, const ckci_k_axis axis[3], int32_t group,
                              int32_t column, const ckci_k_place &q)
{
    T sum = 0;
    const ckci_gpu_conv &late = ckci_k_late(p);
    int64_t base = group * late.a.stride[0] + q.n * late.a.stride[1];
    int64_t wei = group * late.b.stride[0] + column * late.b_column;
    for (int32_t fz = 0; fz < axis[0].taps; fz++) {
        const ckci_gpu_dim &dz = ckci_k_again(p).dim[0];
        int32_t z = q.z * dz.read_step + axis[0].read0 + fz * dz.read_tap;
        const int32_t rows = ckci_k_lane_afresh((uint32_t)z < (uint32_t)dz.read_len ? axis[1].taps : 0);
        for (int32_t fy = 0; fy < rows; fy++) {
            const ckci_gpu_dim &dy = ckci_k_again(p).dim[1];
            int32_t y = q.y * dy.read_step + axis[1].read0 + fy * dy.read_tap;
            const int32_t taps = ckci_k_lane_afresh((uint32_t)y < (uint32_t)dy.read_len ? axis[2].taps : 0);
            for (int32_t fx = 0; fx < taps; fx++) {
                int32_t x = q.x * p.dim[2].read_step + axis[2].read0 + fx * p.dim[2].read_tap;
                if ((uint32_t)x >= (uint32_t)p.dim[2].read_len) {
                    continue;
                }
                ckci_k_tap t = {0, fz, fy, fx};
                int64_t at = base + ckci_k_inside(p.a, p.a_narrow, 0, z, y, x);
                int64_t w = wei + ckci_k_weight_at(p, axis, t);
                for (int32_t c = 0; c < p.red; c++) {
                    sum = ckci_k_fma(ckci_k_value<T>(p.a, at), ckci_k_value<T>(p.b, w), sum);
                    at += p.a.stride[2];
                    w += p.b_red;
                }
            }
        }
    }
    return sum;
}

template <class T> struct ckci_k_direct {
    struct lds {
        int32_t unused;
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &)
    {
        int32_t t = (int32_t)threadIdx.x, lane = t & (p.lanes - 1);
        ckci_k_block b = ckci_k_find_block(p, 1, 1);
        int32_t channel = b.column * p.lanes + lane, row = b.row * (256 / p.lanes) + t / p.lanes;
        int32_t group = ckci_k_divide(channel, p.by_columns), column = channel - group * p.columns;
        ckci_k_place q = ckci_k_row(b.axis, row);
        if (group >= p.g || q.n >= p.n) {
            return;
        }
        const int32_t z = b.axis[0].write0 + q.z * p.dim[0].write_step,
                      y = b.axis[1].write0 + q.y * p.dim[1].write_step,
                      x = b.axis[2].write0 + q.x * p.dim[2].write_step;
        ckci_k_hold(b.axis);
        T sum = ckci_k_direct_sum<T>(p, b.axis, group, column, q);
        ckci_k_write<T>(p.o, sum, group, q.n, column, z, y, x);
    }
};

template <class T> struct ckci_k_direct_weight {
    struct lds {
        T sum[256];
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        int32_t t = (int32_t)threadIdx.x, lane = t & (p.lanes - 1), share = 256 / p.lanes;
        /* blocks: filters fastest, then taps, then parts */
        int32_t work = (int32_t)blockIdx.x, rest = ckci_k_divide(work, p.by_tiles_n);
        int32_t filter = (work - rest * p.tiles_n) * p.lanes + lane;
        int32_t part = ckci_k_divide(rest, p.by_tiles_m), tap = rest - part * p.tiles_m;
        int32_t gk = ckci_k_divide(filter, p.by_red), c = filter - gk * p.red;
        int32_t group = ckci_k_divide(gk, p.by_channels), k = gk - group * p.rows;
        const ckci_k_tap f = ckci_k_split_tap(p.dim, tap);
        int32_t x0 = f.x * p.dim[2].dilation - p.dim[2].pad, y0 = f.y * p.dim[1].dilation - p.dim[1].pad;
        int32_t z0 = f.z * p.dim[0].dilation - p.dim[0].pad;
        int32_t from = part * p.part + (part < p.part_rest ? part : p.part_rest);
        int32_t to = from + p.part + (part < p.part_rest ? 1 : 0);
        bool inside = group < p.g;
        int64_t dout = group * p.a.stride[0] + k * p.a.stride[2];
        int64_t in = group * p.b.stride[0] + c * p.b.stride[2];
        T sum = 0;
        for (int32_t i = from + t / p.lanes; i < to && inside; i += share) {
            ckci_k_place q = ckci_k_decode(i, p.dim[0].count[0], p.dim[1].count[0], p.dim[2].count[0]);
            int32_t z = z0 + q.z * p.dim[0].stride, y = y0 + q.y * p.dim[1].stride,
                    x = x0 + q.x * p.dim[2].stride;
            if ((uint32_t)z < (uint32_t)p.dim[0].read_len && (uint32_t)y < (uint32_t)p.dim[1].read_len &&
                (uint32_t)x < (uint32_t)p.dim[2].read_len) {
                int64_t at = dout + q.n * p.a.stride[1] + ckci_k_inside(p.a, p.a_narrow, 0, q.z, q.y, q.x);
                int64_t from_in = in + q.n * p.b.stride[1] + ckci_k_inside(p.b, p.b_narrow, 0, z, y, x);
                sum = ckci_k_fma(ckci_k_value<T>(p.a, at), ckci_k_value<T>(p.b, from_in), sum);
            }
        }
        m.sum[t] = sum;
        for (int32_t half = share / 2; half > 0; half /= 2) {
            __syncthreads();
            if (t < half * p.lanes) {
                m.sum[t] = ckci_k_fma((T)1, m.sum[t + half * p.lanes], m.sum[t]);
            }
        }
        if (t < p.lanes && inside) {
            ckci_k_write_weight<T>(p, m.sum[t], part, group, k, tap * p.red + c);
        }
    }
};


/*------------------------------------------------------------------------------------------------------------
  >>k-depth
  Depthwise convolutions (one input and one output channel per group), limited by memory, not by arithmetic.
  Each thread owns a strip of XO neighbouring outputs along dimension 2 in registers. Rows of the filter are
  walked one by one; along dimension 2, a window of inputs is loaded once and serves G taps of all outputs of
  the strip, so that every number is loaded and converted once for G x V products. Neighbouring rows meet in
  the caches: a block walks its strips in the order of memory.
  Channels last: the lanes of a block take V neighbouring channels each (one load), dimension 2 is x.
  Planes (channels first, V = 1): the lanes take neighbouring x of one channel, and the host has exchanged x
  and y in all tensors and dimensions, so that strips run along y. The weights of a block's channels lie in
  LDS as they are multiplied, as many rows of the filter at a time as fit; for the gradient (bwd_data) taps
  are turned round, so that windows ascend. STEP: the stride, where neighbouring taps share a window; 0: any
  stride and dilation, taps one by one. FULL: any types of weights, output and D tensors, any operation.
  Where taps lie beside each other (3 x 3, 5 x 5, 7 x 7, stride 1), threads walk down columns of rows (walk),
  and with channels last the rows, for 3 x 3 x 3 the planes, come through LDS (down, deep). Channels first,
  3 x 3 and 5 x 5 with strides 1 and 2 take planes, or bands of their rows, through LDS (sheet).
  bwd_weight: a thread owns R rows x G taps of a filter for V channels and walks strips of dout with the
  inputs beside them. The sums of a block's threads are added in LDS in a fixed tree, those of blocks by
  depth_sum in a fixed order.
*/

/* Storage: f16 or bf16, told apart at run time; f32; f64. */
struct ckci_k_s_half {
    typedef float T;
    enum { SIZE = 2 };

    /* A number, in the low half of w. */
    template <bool BF16> static CKCI_K_MEMBER float widen(uint32_t w)
    {
        if constexpr (BF16) {
            return ckci_k_float(w << 16);
        } else {
#if defined(__CUDA_ARCH__)
            float x;
            asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((uint16_t)w));
            return x;
#else
            return ckci_k_half_float(w & 0xffffu);
#endif
        }
    }

    /* Two numbers of a word. */
    template <bool BF16> static CKCI_K_MEMBER void widen(uint32_t w, float *v)
    {
        if constexpr (BF16) {
            v[0] = ckci_k_float(w << 16);
            v[1] = ckci_k_float(w & 0xffff0000u);
        } else {
#if defined(__CUDA_ARCH__)
            asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }"
                : "=f"(v[0]), "=f"(v[1])
                : "r"(w));
#else
            v[0] = ckci_k_half_float(w & 0xffffu);
            v[1] = ckci_k_half_float(w >> 16);
#endif
        }
    }

    template <bool BF16> static CKCI_K_MEMBER uint32_t narrow(float low, float high)
    {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        uint32_t w;
        if constexpr (BF16) {
            asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
        } else {
            asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
        }
        return w;
#else
        if constexpr (BF16) {
            return ckci_k_float_bf16(low) | ckci_k_float_bf16(high) << 16;
        } else {
            return ckci_k_float_half(low) | ckci_k_float_half(high) << 16;
        }
#endif
    }
};

struct ckci_k_s_f32 {
    typedef float T;
    enum { SIZE = 4 };
};

struct ckci_k_s_f64 {
    typedef double T;
    enum { SIZE = 8 };
};

/* V neighbouring numbers as they lie in memory, aligned to their size together. */
template <class S, int V> struct ckci_k_vec {
    typedef typename S::T T;
    enum { BYTES = V * S::SIZE, WORDS = BYTES < 4 ? 1 : BYTES / 4 };
    uint32_t w[WORDS];

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < WORDS; i++) {
            w[i] = 0;
        }
    }

    CKCI_K_MEMBER void load(const unsigned char *p)
    {
        if constexpr (BYTES == 16) {
            ckci_k_uint4 q = *(const ckci_k_uint4 *)p;
            w[0] = q.x;
            w[1] = q.y;
            w[2] = q.z;
            w[3] = q.w;
        } else if constexpr (BYTES == 8) {
            ckci_k_uint2 q = *(const ckci_k_uint2 *)p;
            w[0] = q.x;
            w[1] = q.y;
        } else if constexpr (BYTES == 4) {
            w[0] = *(const uint32_t *)p;
        } else {
            w[0] = *(const uint16_t *)p;
        }
    }

    CKCI_K_MEMBER void store(unsigned char *p) const
    {
        if constexpr (BYTES == 16) {
            ckci_k_uint4 q = {w[0], w[1], w[2], w[3]};
            *(ckci_k_uint4 *)p = q;
        } else if constexpr (BYTES == 8) {
            ckci_k_uint2 q = {w[0], w[1]};
            *(ckci_k_uint2 *)p = q;
        } else if constexpr (BYTES == 4) {
            *(uint32_t *)p = w[0];
        } else {
            *(uint16_t *)p = (uint16_t)w[0];
        }
    }

    template <bool BF16> CKCI_K_MEMBER void widen(T *v) const
    {
        if constexpr (S::SIZE == 2) {
            T pair[2];
            CKCI_K_UNROLL(4)
            for (int i = 0; i < V; i += 2) {
                S::template widen<BF16>(w[i / 2], pair);
                v[i] = pair[0];
                if (i + 1 < V) {
                    v[i + 1] = pair[1];
                }
            }
        } else {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < V; i++) {
                memcpy(&v[i], &w[i * (S::SIZE / 4)], S::SIZE);
            }
        }
    }

    template <bool BF16> CKCI_K_MEMBER void narrow(const T *v)
    {
        if constexpr (S::SIZE == 2) {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < V; i += 2) {
                w[i / 2] = S::template narrow<BF16>(v[i], i + 1 < V ? v[i + 1] : 0);
            }
        } else {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < V; i++) {
                memcpy(&w[i * (S::SIZE / 4)], &v[i], S::SIZE);
            }
        }
    }
};

/* N of them at once: the branch that tells f16 from bf16 is the same for all threads. */
template <int N, class S, int V>
CKCI_K_FN void ckci_k_depth_widen(const ckci_k_vec<S, V> *raw, typename S::T *v, int32_t bf16)
{
    if (S::SIZE == 2 && bf16) {
        CKCI_K_UNROLL(32)
        for (int i = 0; i < N; i++) {
            raw[i].template widen<S::SIZE == 2>(v + i * V);
        }
    } else {
        CKCI_K_UNROLL(32)
        for (int i = 0; i < N; i++) {
            raw[i].template widen<false>(v + i * V);
        }
    }
}

template <int N, class S, int V>
CKCI_K_FN void ckci_k_depth_narrow(ckci_k_vec<S, V> *raw, const typename S::T *v, int32_t bf16)
{
    if (S::SIZE == 2 && bf16) {
        CKCI_K_UNROLL(32)
        for (int i = 0; i < N; i++) {
            raw[i].template narrow<S::SIZE == 2>(v + i * V);
        }
    } else {
        CKCI_K_UNROLL(32)
        for (int i = 0; i < N; i++) {
            raw[i].template narrow<false>(v + i * V);
        }
    }
}

/* V numbers of LDS. */
template <class T, int V> CKCI_K_FN void ckci_k_spread(const T *p, T *v)
{
    if constexpr (V == 4 && sizeof(T) == 4) {
        ckci_k_uint4 q = *(const ckci_k_uint4 *)p;
        v[0] = ckci_k_float(q.x);
        v[1] = ckci_k_float(q.y);
        v[2] = ckci_k_float(q.z);
        v[3] = ckci_k_float(q.w);
    } else {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < V; i++) {
            v[i] = p[i];
        }
    }
}

/* Element i of N registers. */
template <class T, int N> CKCI_K_FN T ckci_k_pick(const T *c, int i)
{
    T x = c[0];
    CKCI_K_UNROLL(64)
    for (int j = 1; j < N; j++) {
        T y = c[j];
#if defined(__HIP_DEVICE_COMPILE__)
        asm("" : "+v"(y)); /* clang 15 would choose among addresses, and so keep all of c in scratch */
#endif
        x = i == j ? y : x;
    }
    return x;
}

/* f16, bf16 or f32 */
CKCI_K_FN float ckci_k_depth_load(int32_t dtype, const unsigned char *p)
{
    if (dtype == CKCONV_F32) {
        return *(const float *)p;
    }
    uint32_t bits = *(const uint16_t *)p;
    return dtype == CKCONV_F16 ? ckci_k_half_float(bits) : ckci_k_float(bits << 16);
}

CKCI_K_FN void ckci_k_depth_store(int32_t dtype, unsigned char *p, float x)
{
    if (dtype == CKCONV_F32) {
        *(float *)p = x;
    } else {
        *(uint16_t *)p = (uint16_t)(dtype == CKCONV_F16 ? ckci_k_float_half(x) : ckci_k_float_bf16(x));
    }
}

/* The epilogue of one output where it is more than a store. FULL: any types and any operation; else f16, bf16
   and f32, and no GELU, which is a lot of code. */
template <bool FULL, class T>
CKCI_K_FN void ckci_k_depth_write(const ckci_gpu_depth &p, T x, int32_t g, const ckci_k_place &q)
{
    if constexpr (FULL) {
        ckci_k_write<T>(p.o, x, g, q.n, 0, q.z, q.y, q.x);
    } else {
        const ckci_gpu_target &o = ckci_k_late(p.o);
        T v = x, d = 0;
        if (o.t.op.kind == CKCONV_GELU) {
            __builtin_unreachable();
        }
        if (o.scale) {
            v *= ((const T *)o.scale)[g];
        }
        if (o.shift) {
            v += ((const T *)o.shift)[g];
        }
        bool sums = o.t.op.kind >= CKCONV_BIAS;
        CKCI_K_UNROLL(1)
        for (int j = o.t.op.kind == CKCONV_PASS ? o.num_d : 0; j < o.num_d; j++) {
            const ckci_tensor &t = o.d[j];
            int64_t at = g * t.stride[0] + q.n * t.stride[1] + q.z * t.stride[3] + q.y * t.stride[4] +
                         q.x * t.stride[5];
            T value = ckci_k_depth_load(t.dtype, t.p + at * (t.dtype == CKCONV_F32 ? 4 : 2));
            v = sums ? v + value : v;
            d = j == 0 ? value : d;
        }
        int64_t at = g * o.t.stride[0] + q.n * o.t.stride[1] + q.z * o.t.stride[3] + q.y * o.t.stride[4] +
                     q.x * o.t.stride[5];
        v = ckci_k_element(o.t.op, v, d);
        if (o.compute == CKCONV_F16) { /* the compute type of mid, which is one that these kernels read */
            v = ckci_k_half_float(ckci_k_float_half(v));
        } else if (o.compute == CKCONV_BF16) {
            v = ckci_k_float(ckci_k_float_bf16(v) << 16);
        }
        ckci_k_depth_store(o.t.dtype, o.t.p + at * (o.t.dtype == CKCONV_F32 ? 4 : 2), v);
    }
}

/* Element `at` of the weights. */
template <bool FULL, class T> CKCI_K_FN T ckci_k_depth_tap(const ckci_gpu_depth &p, int64_t at)
{
    if constexpr (FULL) {
        return ckci_k_value<T>(p.b, at);
    } else {
        return ckci_k_depth_load(p.b.dtype, p.b.p + at * (p.b.dtype == CKCONV_F32 ? 4 : 2));
    }
}

enum { CKCI_K_DEPTH_LDS = 16384 };

template <class T> struct ckci_k_depth_lds {
    alignas(16) T w[CKCI_K_DEPTH_LDS / sizeof(T)];
};

/* Where a thread works: what stays the same for all its strips. */
struct ckci_k_depth_place {
    int32_t lane, slot; /* channels (x for planes); strips side by side */
    int32_t tile, channel;
    int32_t from, to; /* strips of the block, `lanes_p` at a time */
    bool active;
};

template <class S, int V, int XO, int STEP, bool FULL> struct ckci_k_depth {
    typedef typename S::T T;
    typedef ckci_k_depth_lds<T> lds;

    const ckci_gpu_depth &args; /* FULL has no registers left for those of a strip: they are loaded again */
    bool planes;
    ckci_k_axis axis[3];
    ckci_k_depth_place at;
    int32_t x_first;             /* input of the first tap of output 0 */
    int32_t x_step, x_bytes;     /* from one element of a window to the next */
    int32_t tap_step, tap_bytes; /* from one tap to the next, ascending */
    T c[XO * V];

    CKCI_K_MEMBER explicit ckci_k_depth(const ckci_gpu_depth &p) : args(p), planes(V == 1 && p.planes)
    {
        int32_t t = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x;
        at.slot = ckci_k_divide(t, p.by_lanes_c);
        at.lane = t - at.slot * p.lanes_c;
        int32_t rest = ckci_k_divide(block, p.by_phases), phase = block - rest * p.phases;
        int32_t part = ckci_k_divide(rest, p.by_tiles_c);
        at.tile = rest - part * p.tiles_c;
        ckci_k_find_axes(p.dim, phase, axis);
        if constexpr (STEP == 0) { /* too much for scalar registers; used by lanes only */
            ckci_k_hold(axis);
        }
        at.channel = planes ? at.tile : (at.tile * p.lanes_c + at.lane) * V;
        at.active = at.slot < p.lanes_p && at.channel < p.g;
        int32_t all = p.n * axis[0].count * (planes ? p.tiles_x : axis[1].count) * p.strips;
        at.from = part * p.part;
        at.to = all - at.from < p.part ? all : at.from + p.part;
        tap_step = p.dim[2].read_tap < 0 ? -p.dim[2].read_tap : p.dim[2].read_tap;
        x_first = axis[2].read0 + (p.dim[2].read_tap < 0 ? (axis[2].taps - 1) * p.dim[2].read_tap : 0);
        int32_t bytes = (int32_t)p.a.stride[5] * S::SIZE;
        x_step = STEP == 0 ? p.dim[2].read_step : 1;
        x_bytes = x_step * bytes;
        tap_bytes = tap_step * bytes;
    }

    /* Weights of `rows` filter rows from r0 on, in the order in which they are multiplied. */
    CKCI_K_MEMBER void stage(lds &m, int32_t r0, int32_t rows)
    {
        const ckci_gpu_depth &p = ckci_k_opaque_argument<FULL>(args);
        int32_t channels = planes ? 1 : p.lanes_c * V, taps = axis[2].taps;
        int32_t count = rows * taps * channels;
        for (int32_t e = (int32_t)threadIdx.x; e < count; e += 256) {
            int32_t tap = ckci_k_divide(e, p.by_channels), channel = e - tap * channels;
            int32_t row = ckci_k_divide(tap, axis[2].by_taps), x = tap - row * taps;
            row += r0;
            int32_t z = ckci_k_divide(row, axis[1].by_taps), y = row - z * axis[1].taps;
            x = p.dim[2].read_tap < 0 ? taps - 1 - x : x;
            int32_t g = planes ? at.tile : at.tile * channels + channel;
            int64_t w = g * p.b.stride[0] + (axis[0].tap0 + z * p.dim[0].period) * p.b.stride[3] +
                        (axis[1].tap0 + y * p.dim[1].period) * p.b.stride[4] +
                        (axis[2].tap0 + x * p.dim[2].period) * p.b.stride[5];
            m.w[tap * channels + channel] = g < p.g ? ckci_k_depth_tap<FULL, T>(p, w) : (T)0;
        }
    }

    /* G neighbouring taps; src and x: the first element of the window. They move on to the next tap. */
    template <int G>
    CKCI_K_MEMBER void taps(const unsigned char *&src, int32_t &x, const T *&w, int32_t channels)
    {
        constexpr int APART = STEP ? STEP : 1, WINDOW = (XO - 1) * APART + G, CHUNK = V == 1 ? 8 : 4,
                      CHUNKS = (WINDOW + CHUNK - 1) / CHUNK;
        ckci_k_vec<S, V> raw[CHUNKS * CHUNK];
        const int32_t x_bytes = ckci_k_afresh(this->x_bytes);
        CKCI_K_UNROLL(32)
        for (int i = 0; i < CHUNKS * CHUNK; i++) {
            raw[i].clear();
            if (i < WINDOW && (uint32_t)(x + i * x_step) < (uint32_t)args.dim[2].read_len) {
                raw[i].load(src + i * x_bytes);
            }
        }
        T f[G][V];
        CKCI_K_UNROLL(8)
        for (int j = 0; j < G; j++) {
            ckci_k_spread<T, V>(w + j * channels, f[j]);
        }
        CKCI_K_UNROLL(8)
        for (int q = 0; q < CHUNKS; q++) {
            T v[CHUNK * V];
            ckci_k_depth_widen<CHUNK>(raw + q * CHUNK, v, args.bf16);
            CKCI_K_UNROLL(8)
            for (int j = 0; j < G; j++) {
                CKCI_K_UNROLL(8)
                for (int i = q * CHUNK; i < (q + 1) * CHUNK; i++) {
                    if (i - j >= 0 && (i - j) % APART == 0 && (i - j) / APART < XO) {
                        CKCI_K_UNROLL(4)
                        for (int k = 0; k < V; k++) {
                            T &sum = c[(i - j) / APART * V + k];
                            sum = ckci_k_fma(v[(i - q * CHUNK) * V + k], f[j][k], sum);
                        }
                    }
                }
            }
        }
        src += G * tap_bytes;
        x += G * tap_step;
        w += G * channels;
    }

    CKCI_K_MEMBER void row(const unsigned char *src, int32_t x, const T *w, int32_t channels)
    {
        constexpr int MOST = STEP == 1 ? 8 : STEP == 2 ? 3 : 1;
        int32_t left = axis[2].taps;
        CKCI_K_UNROLL(1)
        for (; left >= MOST; left -= MOST) {
            taps<MOST>(src, x, w, channels);
        }
        if constexpr (STEP == 1) {
            if (left & 4) {
                taps<4>(src, x, w, channels);
            }
            left &= 3;
            if (left == 3) {
                taps<3>(src, x, w, channels);
                return;
            }
            if (left == 2) {
                taps<2>(src, x, w, channels);
                return;
            }
        }
        if constexpr (STEP != 0) {
            CKCI_K_UNROLL(1)
            for (; left > 0; left--) {
                taps<1>(src, x, w, channels);
            }
        }
    }

    /* A strip: outputs x0 ... of (n, z, y); its first input row and place. */
    struct strip {
        int32_t n, z, y, x; /* written */
        int32_t in_z, in_y, in_x, tap_y;
        const unsigned char *src;
        bool inside;
    };

    CKCI_K_MEMBER strip find(int32_t i) const
    {
        const ckci_gpu_depth &p = ckci_k_opaque_argument<FULL>(args);
        strip s;
        int32_t rest = ckci_k_divide(i, p.by_strips), sx = i - rest * p.strips;
        ckci_divisor by_y = axis[1].by_count; /* copies: clang 15 would choose among addresses */
        int32_t count_y = axis[1].count;
        if (planes) {
            by_y = p.by_tiles_x;
            count_y = p.tiles_x;
        }
        int32_t up = ckci_k_divide(rest, by_y);
        int32_t y = rest - up * count_y;
        s.n = ckci_k_divide(up, axis[0].by_count);
        int32_t z = up - s.n * axis[0].count, x = sx * XO;
        y = planes ? y * p.lanes_c + at.lane : y;
        s.inside = at.active && i < at.to && y < axis[1].count;
        s.in_z = z * p.dim[0].read_step + axis[0].read0;
        s.in_y = y * p.dim[1].read_step + axis[1].read0;
        s.in_x = x * p.dim[2].read_step + x_first;
        s.z = axis[0].write0 + z * p.dim[0].write_step;
        s.y = axis[1].write0 + y * p.dim[1].write_step;
        s.x = x;
        s.tap_y = 0;
        s.src = p.a.p + (s.n * p.a.stride[1] + at.channel * p.a.stride[0] + s.in_z * p.a.stride[3] +
                         s.in_y * p.a.stride[4] + s.in_x * p.a.stride[5]) *
                            S::SIZE;
        return s;
    }

    /* `rows` rows of the filter, from where the strip stands. */
    CKCI_K_MEMBER void multiply(const lds &m, strip &s, int32_t rows)
    {
        const ckci_gpu_depth &p = ckci_k_opaque_argument<FULL>(args);
        int32_t channels = planes ? 1 : p.lanes_c * V;
        const T *w = m.w + (planes ? 0 : at.lane * V);
        int64_t step_y = (int64_t)p.dim[1].read_tap * p.a.stride[4] * S::SIZE;
        int64_t step_z = (int64_t)p.dim[0].read_tap * p.a.stride[3] * S::SIZE - axis[1].taps * step_y;
        CKCI_K_UNROLL(1)
        for (int32_t r = 0; r < rows; r++) {
            if ((uint32_t)s.in_z < (uint32_t)p.dim[0].read_len &&
                (uint32_t)s.in_y < (uint32_t)p.dim[1].read_len) {
                row(s.src, s.in_x, w, channels);
            }
            w += axis[2].taps * channels;
            s.src += step_y;
            s.in_y += p.dim[1].read_tap;
            s.tap_y++;
            if (s.tap_y == axis[1].taps) {
                s.tap_y = 0;
                s.in_y -= axis[1].taps * p.dim[1].read_tap;
                s.in_z += p.dim[0].read_tap;
                s.src += step_z;
            }
        }
    }

    CKCI_K_MEMBER void write(const strip &s)
    {
        const ckci_gpu_depth &p = ckci_k_opaque_argument<FULL>(args);
        const ckci_gpu_target &o = p.o;
        if (p.o_vec) {
            int64_t first = s.n * o.t.stride[1] + at.channel * o.t.stride[0] + s.z * o.t.stride[3] +
                            s.y * o.t.stride[4] +
                            (axis[2].write0 + s.x * p.dim[2].write_step) * o.t.stride[5];
            int64_t step = p.dim[2].write_step * o.t.stride[5] * S::SIZE;
            unsigned char *dst = o.t.p + first * S::SIZE;
            ckci_k_vec<S, V> v[XO];
            ckci_k_depth_narrow<XO>(v, c, p.bf16);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < XO; i++) {
                if (s.x + i < axis[2].count) {
                    v[i].store(dst + i * step);
                }
            }
            return;
        }
        CKCI_K_UNROLL(1)
        for (int i = 0; i < XO * V; i++) {
            int32_t x = s.x + i / V;
            if (x < axis[2].count) {
                ckci_k_place q = {s.n, s.z, s.y, axis[2].write0 + x * p.dim[2].write_step};
                ckci_k_depth_write<FULL, T>(p, ckci_k_pick<T, XO * V>(c, i), at.channel + i % V, q);
            }
        }
    }

    CKCI_K_MEMBER void work(lds &m)
    {
        const ckci_gpu_depth &p = ckci_k_opaque_argument<FULL>(args);
        int32_t all = axis[0].taps * axis[1].taps;
        if (axis[2].taps == 0) {
            all = 0;
        }
        const int32_t first = ckci_k_lane_afresh(at.from);
        for (int32_t i = at.from; i < at.to; i += p.lanes_p) {
            const int32_t rows = ckci_k_afresh(all);
            strip s = find(i + at.slot);
            CKCI_K_UNROLL(32)
            for (int j = 0; j < XO * V; j++) {
                c[j] = 0;
            }
            for (int32_t r = 0; r < rows; r += p.rows) {
                int32_t some_rows = rows - r < p.rows ? rows - r : p.rows;
                if (rows > p.rows || i == ckci_k_same(first)) {
                    __syncthreads();
                    stage(m, r, some_rows);
                    __syncthreads();
                }
                if (s.inside) {
                    multiply(m, s, some_rows);
                }
            }
            if (s.inside) {
                write(s);
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &a, lds &m)
    {
        ckci_k_depth self(a);
        self.work(m);
    }
};

template <int V, int XO, int STEP, bool FULL>
struct ckci_k_resident<ckci_k_depth<ckci_k_s_half, V, XO, STEP, FULL>> {
    enum { BLOCKS = V == 1 ? 3 : 2 };
};

/* What a thread reads of a row: N channels-last positions of V channels, or pieces of 4 neighbours of a
   plane, one load each where that is aligned (vec). mask: the positions that exist; pieces exist as a whole
   then. channels: those that exist. */
template <class S, int V, int N, bool PLANES> struct ckci_k_depth_window {
    typedef typename S::T T;
    enum { PER = PLANES ? 4 : V, COUNT = PLANES ? N / 4 : N, BYTES = PER * S::SIZE, SIZE = S::SIZE };
    enum { PLANE = PLANES, ALL = (1 << N) - 1 };
    ckci_k_vec<S, PER> raw[COUNT];

    static CKCI_K_MEMBER bool inside(uint32_t mask, int i)
    {
        return mask >> (PLANES ? 4 * i : i) & 1;
    }

    /* word i of a piece */
    static CKCI_K_MEMBER bool inside_word(uint32_t mask, int i, int word)
    {
        return mask >> (PLANES ? 4 * i + word * 4 / (int)S::SIZE : i) & 1;
    }

    static CKCI_K_MEMBER int32_t step_of(int32_t step)
    {
        return PLANES ? (int32_t)BYTES : step;
    }

    /* at: bytes from src on */
    CKCI_K_MEMBER void load(const unsigned char *src, int32_t at, int32_t step, uint32_t mask, int32_t vec,
                            int32_t channels)
    {
        if (vec != 2) {
            CKCI_K_UNROLL(32)
            for (int i = 0; i < COUNT * PER; i++) {
                int x = PLANES ? i : i / V, channel = PLANES ? 0 : i % V;
                uint32_t one = 0;
                if (mask >> x & 1 && channel < channels) {
                    int32_t offset = at + x * (PLANES ? (int32_t)S::SIZE : step) + channel * (int32_t)S::SIZE;
                    one = ckci_k_load_bits(src + offset, S::SIZE);
                }
                if constexpr (S::SIZE == 2) {
                    uint32_t &pair = raw[i / PER].w[i % PER / 2];
                    pair = i % PER % 2 ? pair | one << 16 : one;
                } else {
                    raw[i / PER].w[i % PER] = one;
                }
            }
            return;
        }
        CKCI_K_UNROLL(16)
        for (int i = 0; i < COUNT; i++) {
            if (inside(mask, i)) {
                raw[i].load(src + (at + step_of(step) * i));
            } else {
                raw[i].clear();
            }
        }
    }

    CKCI_K_MEMBER void widen(T *v, int32_t bf16) const
    {
        ckci_k_depth_widen<COUNT>(raw, v, bf16);
    }
};

/* Windows on their way from memory. NVIDIA's loads can go past the registers (ASYNC): DEPTH - 1 windows are
   under way in LDS, each thread's in places of its own, so that no barrier is needed; AMD's are one, in
   registers. */
enum { CKCI_K_DEPTH_AHEAD = 4 };

template <class W, bool ASYNC, int DEPTH, int HELD = 1> struct ckci_k_depth_ring {
    enum { AHEAD = DEPTH - 1, PLACE = W::BYTES, ROW = W::COUNT * 256 * W::BYTES };

    struct lds {
        alignas(16) unsigned char place[DEPTH * ROW];
    };

    unsigned char *mine;
    int32_t write, read;

    CKCI_K_MEMBER void start(lds &m)
    {
        mine = m.place + threadIdx.x * PLACE;
        write = read = 0;
        W none;
        CKCI_K_UNROLL(1)
        for (int32_t k = 0; k < DEPTH; k++) {
            CKCI_K_UNROLL(16)
            for (int i = 0; i < W::COUNT; i++) {
                none.raw[i].clear();
                none.raw[i].store(mine + k * ROW + i * 256 * PLACE);
            }
        }
    }

    /* mask: the same each time; inside: whether there is such a row; vec: 0: element by element, 1: in words
       of 4 bytes, 2: in pieces */
    CKCI_K_MEMBER void push(const unsigned char *src, int32_t at, int32_t step, uint32_t mask, bool inside,
                            int32_t vec, int32_t channels)
    {
        unsigned char *to = mine + write;
        const unsigned char *from = src + (inside ? at : 0);     /* even a copy of nothing has an address */
        if (vec == 2 && !W::PLANE && mask == (uint32_t)W::ALL) { /* most waves */
            CKCI_K_UNROLL(16)
            for (int i = 0; i < W::COUNT; i++) {
                ckci_k_copy_late<PLACE>(to + i * 256 * PLACE, from, inside);
                from += (uint32_t)W::step_of(step);
            }
        } else if (vec == 2) {
            CKCI_K_UNROLL(16)
            for (int i = 0; i < W::COUNT; i++) {
                if (W::inside(mask, i)) {
                    ckci_k_copy_late<PLACE>(to + i * 256 * PLACE, from, inside);
                }
                from += (uint32_t)W::step_of(step);
            }
        } else if ((W::PLANE || W::SIZE == 4) && vec == 1) {
            CKCI_K_UNROLL(16)
            for (int i = 0; i < W::COUNT; i++) {
                CKCI_K_UNROLL(4)
                for (int k = 0; k < PLACE / 4; k++) {
                    if (W::inside_word(mask, i, k) && (k < 1 || W::PLANE || k * 4 / W::SIZE < channels)) {
                        ckci_k_copy_late<4>(to + i * 256 * PLACE + 4 * k, from + 4 * k, inside);
                    }
                }
                from += (uint32_t)W::step_of(step);
            }
        } else {
            W w;
            w.load(src, at, step, inside ? mask : 0, 0, channels);
            CKCI_K_UNROLL(16)
            for (int i = 0; i < W::COUNT; i++) {
                w.raw[i].store(to + i * 256 * PLACE);
            }
        }
        write = write == (DEPTH - 1) * ROW ? 0 : write + ROW;
    }

    CKCI_K_MEMBER void pop(W &w)
    {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < W::COUNT; i++) {
            w.raw[i].load(mine + read + i * 256 * PLACE);
        }
        read = read == (DEPTH - 1) * ROW ? 0 : read + ROW;
    }
};

template <class W, int DEPTH, int HELD> struct ckci_k_depth_ring<W, false, DEPTH, HELD> {
    enum { AHEAD = HELD };

    struct lds {
        int32_t unused;
    };

    W held;

    CKCI_K_MEMBER void start(lds &)
    {
    }

    CKCI_K_MEMBER void push(const unsigned char *src, int32_t at, int32_t step, uint32_t mask, bool inside,
                            int32_t vec, int32_t channels)
    {
        held.load(src, at, step, inside ? mask : 0, vec, channels);
    }

    CKCI_K_MEMBER void pop(W &w)
    {
        w = held;
    }
};

/* Positions x, x + 1, ... that lie in a row. */
CKCI_K_FN uint32_t ckci_k_depth_inside(int32_t x, int32_t length, int count)
{
    uint32_t mask = 0;
    CKCI_K_UNROLL(16)
    for (int i = 0; i < count; i++) {
        mask |= (uint32_t)(x + i) < (uint32_t)length ? 1u << i : 0;
    }
    return mask;
}

/* Byte offset of (channel, n, z, y, x): tensors of those that walk have less than 2^31. */
template <class S>
CKCI_K_FN int32_t ckci_k_depth_at(const ckci_tensor &t, int32_t channel, const ckci_k_place &q)
{
    return (int32_t)(uint32_t)((q.n * t.stride[1] + channel * t.stride[0] + q.z * t.stride[3] +
                                q.y * t.stride[4] + q.x * t.stride[5]) *
                               S::SIZE);
}

/* Sums c of XO outputs of V channels that are complete: their place as bytes (to) and as where() tells; left:
   outputs from the first one to the end of the row. */
template <class S, int V, int XO, bool PLANES, class Where>
CKCI_K_FN void ckci_k_depth_row_write(const ckci_gpu_depth &args, const typename S::T *c, int32_t to,
                                      int32_t channel, int32_t left, const Where &where)
{
    const ckci_gpu_depth &p = ckci_k_late(args);
    typedef typename S::T T;
    typedef ckci_k_depth_window<S, V, XO, PLANES> window;
    constexpr int PER = window::PER, COUNT = XO * V / PER;
    if (p.o_same) {
        ckci_k_vec<S, PER> v[COUNT];
        ckci_k_depth_narrow<COUNT>(v, c, p.bf16);
        const int32_t step = (int32_t)p.o.t.stride[5] * (int32_t)S::SIZE;
        unsigned char *dst = p.o.t.p + to;
        if (p.o_vec && !PLANES && left >= XO) { /* most waves: no tests, offsets of 32 bits */
            CKCI_K_UNROLL(8)
            for (int i = 0; i < COUNT; i++) {
                v[i].store(p.o.t.p + (uint32_t)(to + i * step));
            }
            return;
        }
        if (p.o_vec) {
            CKCI_K_UNROLL(8)
            for (int i = 0; i < COUNT; i++) {
                if ((PLANES ? 4 * i : i) < left) {
                    v[i].store(dst);
                }
                dst += (uint32_t)window::step_of(step);
            }
            return;
        }
        const int32_t channels = ckci_k_lane_afresh(p.g - channel);
        CKCI_K_UNROLL(16)
        for (int i = 0; i < XO * V; i++) {
            ckci_k_vec<S, 1> one;
            one.w[0] = S::SIZE == 4  ? v[i / PER].w[i % PER]
                       : i % PER % 2 ? v[i / PER].w[i % PER / 2] >> 16
                                     : v[i / PER].w[i % PER / 2];
            if (i / V < left && i % V < channels) {
                one.store(dst + i / V * step + i % V * (int32_t)S::SIZE);
            }
        }
        return;
    }
    const ckci_k_place q = where();
    CKCI_K_UNROLL(1)
    for (int i = 0; i < XO * V; i++) {
        if (i / V < left && channel + i % V < p.g) {
            ckci_k_place at = {q.n, q.z, q.y, q.x + i / V};
            ckci_k_depth_write<false, T>(p, ckci_k_pick<T, XO * V>(c, i), channel + i % V, at);
        }
    }
}

/* fwd, bwd_data with stride and dilation 1, channels last with filters of Z x 3 x 3; planes with F x F and
   padding that keeps the size, which makes windows begin at a piece (V is 1 there). A thread walks down a
   column of strips: each row of inputs is loaded once and added to the F rows of outputs that it belongs to.
   Those lie in registers and move up a row with the first tap. The weights lie there too where they are few.
   */
template <class S, int V, int XO, int F, bool PLANES, bool ASYNC> struct ckci_k_depth_walk_by {
    typedef typename S::T T;
    /* numbers of a window, and those before the first tap */
    enum { WINDOW = PLANES ? XO + 8 : XO + F - 1, BEFORE = PLANES ? 4 - (F - 1) / 2 : 0 };
    enum { HELD = PLANES, DEPTH = CKCI_K_DEPTH_AHEAD };
    typedef ckci_k_depth_window<S, V, WINDOW, PLANES> window;
    typedef ckci_k_depth_ring<window, ASYNC, DEPTH> ring;

    struct lds {
        ckci_k_depth_lds<T> w;
        typename ring::lds rows;
    };

    /* Rows of inputs in the order in which they are multiplied: planes of z, then y. */
    struct cursor {
        int32_t at, row_step, plane_step;
        int32_t step, y, z, z_step, k, planes, rows; /* rows: still to come */
        uint32_t mask;
        int32_t channels;

        CKCI_K_MEMBER void push(const ckci_gpu_depth &p, ring &to)
        {
            bool inside = (uint32_t)y < (uint32_t)p.dim[1].read_len && rows > 0 &&
                          (uint32_t)(z + k * z_step) < (uint32_t)p.dim[0].read_len;
            to.push(p.a.p, at, step, mask, inside, p.a_vec, channels);
            ckci_k_copies_end();
            k++;
            at += plane_step;
            if (k == planes) {
                at += row_step;
                k = 0;
                y++;
                rows--;
            }
        }
    };

    static CKCI_K_MEMBER void weights(T *f, const T *w, int32_t channels)
    {
        CKCI_K_UNROLL(64)
        for (int i = 0; i < F * F; i++) {
            ckci_k_spread<T, V>(w + i * channels, f + i * V);
        }
    }

    /* A row of inputs into all rows of sums; MOVE: the first tap moves them up. f or w: the weights. */
    template <bool MOVE>
    static CKCI_K_MEMBER void multiply(T *c, const window &raw, const T *f, const T *w, int32_t channels,
                                       int32_t bf16)
    {
        T v[WINDOW * V];
        raw.widen(v, bf16);
        CKCI_K_UNROLL(8)
        for (int s = 0; s < F; s++) {
            CKCI_K_UNROLL(8)
            for (int x = 0; x < F; x++) {
                int tap = (F - 1 - s) * F + x;
                T one[V];
                if constexpr (!HELD) {
                    ckci_k_spread<T, V>(w + tap * channels, one);
                }
                CKCI_K_UNROLL(32)
                for (int i = 0; i < XO * V; i++) {
                    T before =
                        MOVE && x == 0 ? (s + 1 < F ? c[(s + 1) * XO * V + i] : (T)0) : c[s * XO * V + i];
                    T weight = HELD ? f[tap * V + i % V] : one[i % V];
                    c[s * XO * V + i] = ckci_k_fma(v[(BEFORE + x) * V + i], weight, before);
                }
            }
        }
    }

    static CKCI_K_MEMBER void stage(const ckci_gpu_depth &p, T *to, int32_t tile)
    {
        int32_t channels = p.lanes_c * V, count = p.taps * channels;
        bool back = p.dim[2].gather_back != 0;
        for (int32_t e = (int32_t)threadIdx.x; e < count; e += 256) {
            int32_t tap = ckci_k_divide(e, p.by_channels), channel = e - tap * channels;
            int32_t row = ckci_k_divide(tap, p.dim[2].taps[0]), x = tap - row * F;
            int32_t z = ckci_k_divide(row, p.dim[1].taps[0]), y = row - z * F, g = tile * channels + channel;
            x = back ? F - 1 - x : x;
            y = back ? F - 1 - y : y;
            int64_t w = g * p.b.stride[0] + z * p.b.stride[3] + y * p.b.stride[4] + x * p.b.stride[5];
            to[e] = g < p.g ? ckci_k_depth_tap<false, T>(p, w) : (T)0;
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        int32_t t = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x;
        int32_t slot = ckci_k_divide(t, p.by_lanes_c), lane = t - slot * p.lanes_c;
        int32_t part = ckci_k_divide(block, p.by_tiles_c), tile = block - part * p.tiles_c;
        int32_t channel = (tile * p.lanes_c + lane) * V, i = part * p.lanes_p + slot;
        /* columns: z, whose neighbours read the same rows (planes: after strips), strips, pieces of y, n */
        ckci_k_place q;
        int32_t rest = ckci_k_divide(i, PLANES ? p.by_strips : p.dim[0].count[0]);
        int32_t inner = i - rest * (PLANES ? p.strips : p.dim[0].length);
        int32_t line = ckci_k_divide(rest, PLANES ? p.dim[0].count[0] : p.by_strips);
        int32_t outer = rest - line * (PLANES ? p.dim[0].length : p.strips);
        q.z = PLANES ? outer : inner;
        q.x = (PLANES ? inner : outer) * XO;
        q.n = ckci_k_divide(line, p.by_tiles_x);
        q.y = (line - q.n * p.tiles_x) * p.walk;
        bool active = slot < p.lanes_p && channel < p.g && q.n < p.n;
        int32_t rows = p.dim[1].length - q.y < p.walk ? p.dim[1].length - q.y : p.walk, zs = p.dim[0].filter;
        /* bwd_data: the last tap reads the first input */
        bool back = p.dim[2].gather_back != 0;
        int32_t x = q.x + (back ? p.dim[2].pad - (F - 1) : -p.dim[2].pad);
        int32_t y = q.y + (back ? p.dim[1].pad - (F - 1) : -p.dim[1].pad);
        int32_t z = q.z * p.dim[0].read_step + (back ? p.dim[0].pad : -p.dim[0].pad);
        x -= BEFORE;
        cursor from;
        ckci_k_place first = {q.n, z, y, x};
        from.at = ckci_k_depth_at<S>(p.a, channel, first);
        from.plane_step = p.dim[0].read_tap * (int32_t)p.a.stride[3] * (int32_t)S::SIZE;
        from.row_step = (int32_t)p.a.stride[4] * (int32_t)S::SIZE - zs * from.plane_step;
        from.step = (int32_t)p.a.stride[5] * S::SIZE;
        from.y = y;
        from.z = z;
        from.z_step = p.dim[0].read_tap;
        from.k = 0;
        from.planes = zs;
        from.rows = rows + F - 1;
        from.mask = active ? ckci_k_depth_inside(x, p.dim[2].read_len, WINDOW) : 0;
        from.channels = p.g - channel;
        ring next;
        next.start(m.rows);
        int32_t to = 0;
        int32_t channels = p.lanes_c * V, k = 0, r = 0, steps = (rows + F - 1) * zs;
        const T *w = m.w.w + lane * V;
        T c[F * XO * V], f[HELD ? F * F * V : 1];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * XO * V; i++) {
            c[i] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t step = -ring::AHEAD; step < steps; step++) {
            window raw;
            if (step == 0) { /* the weights follow the first rows */
                stage(p, m.w.w, tile);
                __syncthreads();
                if (!active) {
                    return;
                }
                to = ckci_k_depth_at<S>(p.o.t, channel, q);
                if (HELD) {
                    weights(f, w, channels);
                }
            }
            if (step >= 0) {
                ckci_k_copies_wait<DEPTH - 2>();
                next.pop(raw);
            }
            from.push(p, next);
            if (step < 0) {
                continue;
            }
            if (F == 3 && zs > 1 && HELD) {
                weights(f, w + k * F * F * channels, channels);
            }
            if (F != 3 || k == 0) {
                multiply<true>(c, raw, f, w, channels, p.bf16);
            } else {
                multiply<false>(c, raw, f, w + k * F * F * channels, channels, p.bf16);
            }
            k++;
            if (k < zs) {
                continue;
            }
            k = 0;
            if (r >= F - 1) {
                ckci_k_depth_row_write<S, V, XO, PLANES>(
                    p, c, to, channel, ckci_k_lane_afresh(p.dim[2].length - q.x), [&] { return q; });
                to += (int32_t)ckci_k_late(p).o.t.stride[4] * (int32_t)S::SIZE;
                q.y++;
            }
            r++;
        }
    }
};

template <class S, int V, int XO, int F, bool PLANES>
struct ckci_k_depth_walk : ckci_k_by_vendor<ckci_k_depth_walk_by<S, V, XO, F, PLANES, true>,
                                            ckci_k_depth_walk_by<S, V, XO, F, PLANES, false>> {
};

template <class S, int V, int XO, int F, bool PLANES>
struct ckci_k_resident<ckci_k_depth_walk<S, V, XO, F, PLANES>> {
    enum { BLOCKS = 2 };
};

/* Rows of a tensor, channels last, on their way into LDS: some channels, in words of 4 bytes, of positions
   that lie beside each other (or in a plane), at most BYTES together, R rows at a time. NVIDIA's copies do
   not wait (ASYNC): STAGES - 1 times R rows are under way; AMD's pass through registers while the row before
   is taken. What lies outside the tensor is 0. A thread knows where its pieces lie if they have at least
   LEAST bytes, and works out others each time. */
template <int R, bool ASYNC, int BYTES = CKCI_DEPTH_DOWN_BYTES, int LEAST = 16> struct ckci_k_depth_rows {
    enum { STAGES = ASYNC ? 4 : 2, ROW = BYTES, STAGE = R * ROW, KEPT = ROW / 256 / LEAST };

    struct lds {
        alignas(16) unsigned char stage[STAGES * STAGE];
        int32_t at[CKCI_DEPTH_DOWN_POSITIONS]; /* bytes from row to position; < 0: outside */
    };

    int32_t write;       /* the stage that comes next */
    int32_t piece[KEPT]; /* bytes from row; < 0: outside; NONE: there is none */
    uint32_t held[ASYNC ? 1 : ROW / 256 / 4];
    enum { NONE = INT32_MIN };

    /* Piece i of a thread. inside: bytes of channels that exist. */
    static CKCI_K_MEMBER int32_t find(const lds &m, const ckci_gpu_depth &p, int32_t vec, int32_t count,
                                      int32_t inside, int32_t i)
    {
        const int32_t e = ckci_k_lane_afresh((int32_t)threadIdx.x + i * 256),
                      q = ckci_k_divide(e, p.by_pieces);
        if (e >= count) {
            return NONE;
        }
        const int32_t byte = (e - q * (int32_t)p.by_pieces.d) * vec, at = m.at[q];
        return at >= 0 && byte < inside ? at + byte : -1;
    }

    /* `at` is written. */
    CKCI_K_MEMBER void start(const lds &m, const ckci_gpu_depth &p, int32_t vec, int32_t count,
                             int32_t inside)
    {
        static_assert(KEPT >= 2, "what others are worked out from");
        write = 0;
        CKCI_K_UNROLL(8)
        for (int i = 0; i < KEPT; i++) {
            piece[i] = vec >= LEAST ? find(m, p, vec, count, inside, i) : i == 0 ? inside : count;
        }
    }

    /* Pieces of B bytes: i of 256 threads each. from: of row 0. */
    template <int B>
    CKCI_K_MEMBER void pieces(lds &m, const ckci_gpu_depth &p, const unsigned char *from, int32_t step,
                              int32_t length, int32_t y)
    {
        constexpr int COUNT = ROW / 256 / B;
        CKCI_K_UNROLL(ASYNC ? +KEPT : 32)
        for (int i = 0; i < COUNT; i++) {
            const int32_t at =
                B >= LEAST ? ckci_k_lane_afresh(piece[i % KEPT]) : find(m, p, B, piece[1], piece[0], i);
            if (ASYNC && at == NONE) {
                break;
            }
            CKCI_K_UNROLL(2)
            for (int r = 0; r < R; r++) {
                const bool some = at >= 0 && (uint32_t)(y + r) < (uint32_t)length;
                const unsigned char *src = from + (uint32_t)(some ? (y + r) * step + at : 0);
                if constexpr (ASYNC && B >= 4) { /* even a copy of nothing has an address */
                    ckci_k_copy_late<B>(m.stage + write + r * ROW + ((int)threadIdx.x + i * 256) * B, src,
                                        some);
                } else if constexpr (ASYNC) {
                    *(uint16_t *)(m.stage + write + r * ROW + ((int)threadIdx.x + i * 256) * B) =
                        some ? *(const uint16_t *)src : (uint16_t)0;
                } else {
                    static_assert(R == 1, "registers hold one row");
                    ckci_k_uint4 v = {0, 0, 0, 0};
                    if (some) {
                        if constexpr (B == 16) {
                            v = *(const ckci_k_uint4 *)src;
                        } else if constexpr (B == 8) {
                            const ckci_k_uint2 two = *(const ckci_k_uint2 *)src;
                            v.x = two.x;
                            v.y = two.y;
                        } else {
                            v.x = ckci_k_load_bits(src, B);
                        }
                    }
                    if constexpr (B == 2) {
                        held[i / 2] = i % 2 ? held[i / 2] | v.x << 16 : v.x;
                    } else {
                        const uint32_t words[4] = {v.x, v.y, v.z, v.w};
                        CKCI_K_UNROLL(4)
                        for (int k = 0; k < B / 4; k++) {
                            held[i * (B / 4) + k] = words[k];
                        }
                    }
                }
            }
        }
    }

    /* What pieces has read, into LDS. */
    template <int B> CKCI_K_MEMBER void land(lds &m)
    {
        const int32_t t = (int32_t)threadIdx.x;
        unsigned char *to = m.stage + write + t * B;
        CKCI_K_UNROLL(32)
        for (int i = 0; i < ROW / 256 / B; i++) {
            if constexpr (B == 16) {
                const ckci_k_uint4 v = {held[4 * i], held[4 * i + 1], held[4 * i + 2], held[4 * i + 3]};
                *(ckci_k_uint4 *)(to + i * 256 * B) = v;
            } else if constexpr (B == 8) {
                const ckci_k_uint2 v = {held[2 * i], held[2 * i + 1]};
                *(ckci_k_uint2 *)(to + i * 256 * B) = v;
            } else if constexpr (B == 4) {
                *(uint32_t *)(to + i * 256 * B) = held[i];
            } else {
                *(uint16_t *)(to + i * 256 * B) = (uint16_t)(held[i / 2] >> 16 * (i % 2));
            }
        }
    }

    /* Rows y and, with R, the next set out, of `length`, `step` bytes apart, in pieces of `vec` bytes.
       commit() follows. */
    CKCI_K_MEMBER void push(lds &m, const ckci_gpu_depth &p, const unsigned char *from, int32_t step,
                            int32_t length, int32_t y, bool wanted, int32_t vec)
    {
        if (wanted) {
            if (vec == 16) {
                pieces<16>(m, p, from, step, length, y);
            } else if (vec == 8) {
                pieces<8>(m, p, from, step, length, y);
            } else if (vec == 4) {
                pieces<4>(m, p, from, step, length, y);
            } else {
                pieces<2>(m, p, from, step, length, y);
            }
        }
        if constexpr (ASYNC) {
            write = write == (STAGES - 1) * STAGE ? 0 : write + STAGE;
        }
    }

    /* What set out first goes on into LDS. arrive() follows. */
    CKCI_K_MEMBER void settle(lds &m, int32_t vec)
    {
        if constexpr (!ASYNC) {
            if (vec == 16) {
                land<16>(m);
            } else if (vec == 8) {
                land<8>(m);
            } else if (vec == 4) {
                land<4>(m);
            } else {
                land<2>(m);
            }
            write = write == (STAGES - 1) * STAGE ? 0 : write + STAGE;
        }
    }

    static CKCI_K_MEMBER void commit()
    {
        if constexpr (ASYNC) {
            ckci_k_copies_end();
        }
    }

    /* It is there for all threads, who have left the stage that comes next. */
    static CKCI_K_MEMBER void arrive()
    {
        if constexpr (ASYNC) {
            ckci_k_copies_wait<STAGES - 2>();
        }
        __syncthreads();
    }
};

/* Where a block stands in a column, and a thread in it. */
struct ckci_k_depth_stand {
    int32_t channel, y, rows; /* of the block: the first channel and row, rows to come */
    int32_t before, before_x; /* its first position: in which image, which of its padded row */
    int32_t at, lane;         /* position of the thread in LDS, its channels */
    int32_t twice;            /* outputs that the strip before has, too */
    ckci_k_place first;       /* its first output */
    bool active;
};

template <int V, int XO, bool WHOLE>
CKCI_K_FN ckci_k_depth_stand ckci_k_depth_find(const ckci_gpu_depth &args, int32_t t, int32_t block,
                                               int32_t row, int32_t end)
{
    const ckci_gpu_depth &p = ckci_k_late(args);
    ckci_k_depth_stand a;
    const int32_t team = ckci_k_divide(block, p.by_tiles_c);
    const int32_t group = ckci_k_divide(row, p.dim[1].count[0]), slot = ckci_k_divide(t, p.by_lanes_c);
    a.channel = (block - team * p.tiles_c) * p.lanes_c * V;
    a.y = row - group * p.dim[1].length;
    a.rows = p.dim[1].length - a.y < end - row ? p.dim[1].length - a.y : end - row;
    const int32_t pair = group * p.lanes_p, mine = pair + slot;
    a.before = ckci_k_divide(pair, p.by_strips);
    a.before_x = (pair - a.before * p.strips) * XO;
    const int32_t last = WHOLE ? p.dim[2].length - XO : a.before_x;
    a.before_x = a.before_x < last ? a.before_x : last;
    const int32_t image = ckci_k_divide(mine, p.by_strips), strip = (mine - image * p.strips) * XO;
    const int32_t x = WHOLE && strip > last ? last : strip;
    a.twice = strip - x;
    const int32_t n = ckci_k_divide(image, p.dim[0].count[0]);
    a.first = {n, image - n * p.dim[0].length, a.y, x};
    a.active =
        slot < p.lanes_p && n < p.n && x < p.dim[2].length && a.channel + (t - slot * p.lanes_c) * V < p.g;
    a.lane = t - slot * p.lanes_c;
    a.at = a.active ? (image - a.before) * p.pitch + x - a.before_x : 0;
    return a;
}

/* Bytes from a row of t to the positions of a block: places of padded rows, `pad` before the first; `length`
   exist, planes are `step` apart. */
template <class S>
CKCI_K_FN void ckci_k_depth_positions(const ckci_gpu_depth &p, const ckci_tensor &t, int32_t *at,
                                      const ckci_k_depth_stand &own, int32_t pad, int32_t length,
                                      int32_t step, int32_t i)
{
    if (i < CKCI_DEPTH_DOWN_POSITIONS) {
        const int32_t image = ckci_k_divide(own.before_x + i, p.by_pitch), one = own.before + image;
        const int32_t x = own.before_x + i - image * p.pitch - pad;
        const int32_t n = ckci_k_divide(one, p.dim[0].count[0]), z = (one - n * p.dim[0].length) * step;
        const ckci_k_place q = {n, z, 0, x};
        at[i] = n < p.n && (uint32_t)x < (uint32_t)length ? ckci_k_depth_at<S>(t, own.channel, q) : -1;
    }
}

/* N words of LDS, `pitch` bytes apart, as numbers; the first `none` of them count as 0. */
template <int N, class S, int V>
CKCI_K_FN void ckci_k_depth_line(const unsigned char *from, int32_t pitch, int32_t none, typename S::T *v,
                                 int32_t bf16)
{
    ckci_k_vec<S, V> raw[N];
    CKCI_K_UNROLL(16)
    for (int i = 0; i < N; i++) {
        raw[i].load(from + i * pitch);
    }
    if (none > 0) {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < N; i++) {
            raw[i].w[0] = i < none ? 0 : raw[i].w[0];
        }
    }
    ckci_k_depth_widen<N>(raw, v, bf16);
}

/* fwd, bwd_data with stride and dilation 1, channels last, filters of F x F in a plane. A block walks down a
   column of rows: lanes_c words of 4 bytes of channels, V = 4 / SIZE each, beside each other, and `lanes_p`
   strips of XO outputs, which follow each other through the same row of one image and the next. Inputs come
   row by row through LDS, a position beside the other, and one copy serves all threads. Each row is added to
   the F rows of outputs that it belongs to: those lie in registers and move up a row with the first tap.
   Weights are in registers (F = 3) or in LDS, as they are multiplied. All blocks own the same number of rows
   (walk), which go on in the next column; F - 1 rows more are read for each column that a block begins.
   Neighbouring blocks take neighbouring channels of the same rows, so that lines of memory are read and
   written together. */
template <class S, int F, bool ASYNC> struct ckci_k_depth_down_by {
    typedef typename S::T T;
    enum {
        V = 4 / S::SIZE,
        LANES = CKCI_DEPTH_DOWN_LANES(F),
        XO = CKCI_DEPTH_DOWN_STRIP(S::SIZE, F, 0),
        WINDOW = XO + F - 1,
        HELD = F == 3,
        R = HELD && ASYNC ? 2 : 1
    };
    typedef ckci_k_depth_rows<R, ASYNC> source;

    struct lds {
        typename source::lds rows;
        alignas(16) T w[F * F * LANES * V];
    };

    static CKCI_K_MEMBER void stage(const ckci_gpu_depth &args, T *to, int32_t channel)
    {
        const ckci_gpu_depth &p = ckci_k_late(args);
        const bool back = p.dim[2].gather_back != 0;
        for (int32_t e = (int32_t)threadIdx.x; e < F * F * LANES * V; e += 256) {
            const int32_t tap = e / (LANES * V), g = channel + e % (LANES * V);
            if (e % (LANES * V) >= p.lanes_c * V) {
                continue;
            }
            const int32_t y = back ? F - 1 - tap / F : tap / F, x = back ? F - 1 - tap % F : tap % F;
            const int64_t w = g * p.b.stride[0] + y * p.b.stride[4] + x * p.b.stride[5];
            to[e] = g < p.g ? ckci_k_depth_tap<false, T>(p, w) : (T)0;
        }
    }

    /* A row of inputs into all rows of sums, which the first tap moves up. f or w: the weights. */
    static CKCI_K_MEMBER void multiply(T *c, const unsigned char *from, int32_t pitch, const T *f, const T *w,
                                       int32_t bf16)
    {
        T v[WINDOW * V];
        ckci_k_depth_line<WINDOW, S, V>(from, pitch, 0, v, bf16);
        CKCI_K_UNROLL(8)
        for (int s = 0; s < F; s++) {
            CKCI_K_UNROLL(8)
            for (int x = 0; x < F; x++) {
                const int tap = (F - 1 - s) * F + x;
                T one[V];
                ckci_k_spread<T, V>(HELD ? f + tap * V : w + tap * LANES * V, one);
                CKCI_K_UNROLL(32)
                for (int i = 0; i < XO * V; i++) {
                    T before = c[s * XO * V + i];
                    if (x == 0) {
                        before = s + 1 < F ? c[(s + 1) * XO * V + i] : (T)0;
                    }
                    c[s * XO * V + i] = ckci_k_fma(v[x * V + i], one[i % V], before);
                }
            }
        }
    }

    /* Rows from..end of all columns, of one column. */
    static CKCI_K_MEMBER int32_t column(const ckci_gpu_depth &args, lds &m, int32_t from, int32_t to_row)
    {
        const int32_t t = (int32_t)threadIdx.x;
        const ckci_gpu_depth &p = ckci_k_late(args); /* scalar registers hold no more, here and below */
        const ckci_k_depth_stand own =
            ckci_k_depth_find<V, XO, false>(p, t, (int32_t)blockIdx.x, from, to_row);
        const int32_t lane = own.lane, channel = own.channel + lane * V;
        const bool back = p.dim[2].gather_back != 0, active = own.active;
        const int32_t pad_x = back ? F - 1 - p.dim[2].pad : p.dim[2].pad;
        const int32_t pad_y = back ? F - 1 - p.dim[1].pad : p.dim[1].pad;
        __syncthreads(); /* the column before */
        ckci_k_depth_positions<S>(p, p.a, m.rows.at, own, pad_x, p.dim[2].read_len, p.dim[0].read_step, t);
        __syncthreads();
        source next;
        next.start(m.rows, ckci_k_late(p), p.a_vec, p.pieces, (p.g - own.channel) * (int32_t)S::SIZE);
        const int32_t pitch = p.lanes_c * 4;
        const int32_t a_step = (int32_t)p.a.stride[4] * (int32_t)S::SIZE;
        int32_t to = ckci_k_depth_at<S>(p.o.t, channel, own.first);
        const int32_t left = p.dim[2].length - own.first.x;
        /* rows above the image add nothing */
        const int32_t top = own.y - pad_y, end = top + own.rows + F - 1;
        int32_t y = top < 0 ? 0 : top;
        CKCI_K_UNROLL(1)
        for (int i = 0; i < source::STAGES - 1; i++) {
            const ckci_gpu_depth &late = ckci_k_late(p);
            next.push(m.rows, late, late.a.p, a_step, late.dim[1].read_len, y + i * R, y + i * R < end,
                      late.a_vec);
            source::commit();
        }
        T c[F * XO * V], f[HELD ? F * F * V : 1];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * XO * V; i++) {
            c[i] = 0;
        }
        if constexpr (HELD) {
            CKCI_K_UNROLL(64)
            for (int i = 0; i < F * F; i++) {
                ckci_k_spread<T, V>(m.w + i * LANES * V + lane * V, f + i * V);
            }
        }
        const unsigned char *mine = m.rows.stage + own.at * pitch + lane * 4;
        int32_t read = 0;
        CKCI_K_UNROLL(1)
        for (; y < end; y += R) {
            const ckci_gpu_depth &late = ckci_k_late(p);
            const int32_t ahead = y + (source::STAGES - 1) * R;
            next.settle(m.rows, late.a_vec);
            source::arrive();
            next.push(m.rows, late, late.a.p, a_step, late.dim[1].read_len, ahead, ahead < end, late.a_vec);
            source::commit();
            if (active) {
                CKCI_K_UNROLL(2)
                for (int r = 0; r < R; r++) {
                    multiply(c, mine + read + r * source::ROW, pitch, f, m.w + lane * V, late.bf16);
                    if (y + r - top >= F - 1 && y + r < end) {
                        auto where = [&] {
                            ckci_k_place q =
                                ckci_k_depth_find<V, XO, false>(late, ckci_k_again((int32_t)threadIdx.x),
                                                                ckci_k_again((int32_t)blockIdx.x),
                                                                ckci_k_again(from), to_row)
                                    .first;
                            q.y += y + r - top - (F - 1);
                            return q;
                        };
                        ckci_k_depth_row_write<S, V, XO, false>(late, c, to, channel, left, where);
                        to += (int32_t)late.o.t.stride[4] * (int32_t)S::SIZE;
                    }
                }
            }
            read = read == (source::STAGES - 1) * source::STAGE ? 0 : read + source::STAGE;
        }
        return from + own.rows;
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        const int32_t part = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c), first = part * p.walk;
        const int32_t end = p.all - first < p.walk ? p.all : first + p.walk;
        stage(p, m.w, ((int32_t)blockIdx.x - part * p.tiles_c) * p.lanes_c * V);
        CKCI_K_UNROLL(1)
        for (int32_t row = first; row < end;) {
            row = column(ckci_k_late(p), m, row, end);
        }
    }
};

template <class S, int F>
struct ckci_k_depth_down
    : ckci_k_by_vendor<ckci_k_depth_down_by<S, F, true>, ckci_k_depth_down_by<S, F, false>> {
};

template <class S, int F> struct ckci_k_resident<ckci_k_depth_down<S, F>> {
    enum { BLOCKS = 2 };
};

/* Where a block stands that walks along dimension 0, and a thread in it. */
struct ckci_k_depth_spot {
    int32_t n, z, y, x, rows; /* its first output, rows to come: positions along dimension 0 */
    int32_t row, strip, lane; /* of the thread, in the tile */
    bool active;
};

template <int XO>
CKCI_K_FN ckci_k_depth_spot ckci_k_depth_find_tile(const ckci_gpu_depth &args, int32_t t, int32_t piece)
{
    const ckci_gpu_depth &p = ckci_k_late(args);
    ckci_k_depth_spot a;
    const int32_t row = ckci_k_divide(piece, p.by_tiles_x), plane = ckci_k_divide(row, p.by_tiles_y);
    a.n = ckci_k_divide(plane, p.by_tiles_z);
    a.z = (plane - a.n * p.tiles_z) * p.walk;
    a.y = (row - plane * p.tiles_y) * p.tile_y;
    a.x = (piece - row * p.tiles_x) * p.strips * XO;
    a.rows = p.dim[0].length - a.z < p.walk ? p.dim[0].length - a.z : p.walk;
    const int32_t slot = ckci_k_divide(t, p.by_lanes_c);
    a.lane = t - slot * p.lanes_c;
    a.row = ckci_k_divide(slot, p.by_strips);
    a.strip = slot - a.row * p.strips;
    a.active = slot < p.lanes_p && a.y + a.row < p.dim[1].length && a.x + a.strip * XO < p.dim[2].length;
    return a;
}

/* Bytes from plane 0 of t to position i of a tile, `wide` positions to a row, which begins at y, x. */
template <class S>
CKCI_K_FN int32_t ckci_k_depth_in_tile(const ckci_tensor &t, ckci_divisor wide, int32_t channel, int32_t n,
                                       int32_t y, int32_t x, const int32_t *length, int32_t i)
{
    const int32_t row = ckci_k_divide(i, wide);
    const ckci_k_place q = {n, 0, y + row, x + i - row * (int32_t)wide.d};
    const bool inside = (uint32_t)q.y < (uint32_t)length[0] && (uint32_t)q.x < (uint32_t)length[1];
    return inside ? ckci_k_depth_at<S>(t, channel, q) : -1;
}

/* fwd, bwd_data of 3 x 3 x 3 with stride and dilation 1, channels last: as ckci_k_depth_down, but along
   dimension 0. A block owns a tile of a plane, tile_y rows of `strips` strips of XO outputs, and lanes_c
   words of channels, and walks `walk` planes. The tile of inputs, with its border, comes through LDS plane
   by plane; each thread adds its three rows of windows to the three planes of outputs that they belong to:
   those lie in registers and move up a plane with the first tap. Weights are in LDS. Neighbouring blocks take
   neighbouring channels, then neighbouring tiles of the same planes, so that borders come from the caches. */
template <class S, bool ASYNC> struct ckci_k_depth_deep_by {
    typedef typename S::T T;
    enum { F = 3, V = 4 / S::SIZE, LANES = CKCI_DEPTH_DEEP_LANES, XO = CKCI_DEPTH_DEEP_STRIP(S::SIZE, 0) };
    enum { WINDOW = XO + F - 1 };
    typedef ckci_k_depth_rows<1, ASYNC, CKCI_DEPTH_DEEP_BYTES, ASYNC ? 8 : 4> source;

    struct lds {
        typename source::lds rows;
        alignas(16) T w[F * F * F * LANES * V];
    };

    static CKCI_K_MEMBER void stage(const ckci_gpu_depth &args, T *to, int32_t channel)
    {
        const ckci_gpu_depth &p = ckci_k_late(args);
        const bool back = p.dim[2].gather_back != 0;
        for (int32_t e = (int32_t)threadIdx.x; e < F * F * F * LANES * V; e += 256) {
            const int32_t place = e / (LANES * V), g = channel + e % (LANES * V);
            if (e % (LANES * V) >= p.lanes_c * V) {
                continue;
            }
            const int32_t tap = back ? F * F * F - 1 - place : place, row = tap / F, z = row / F;
            const int64_t w = g * p.b.stride[0] + z * p.b.stride[3] + (row - z * F) * p.b.stride[4] +
                              (tap - row * F) * p.b.stride[5];
            to[e] = g < p.g ? ckci_k_depth_tap<false, T>(p, w) : (T)0;
        }
    }

    /* Three rows of inputs, `rows` bytes apart, into all planes of sums, which the first tap moves up. */
    static CKCI_K_MEMBER void multiply(T *c, const unsigned char *from, int32_t pitch, int32_t rows,
                                       const T *w, int32_t bf16)
    {
        CKCI_K_UNROLL(4)
        for (int y = 0; y < F; y++) {
            T v[WINDOW * V];
            ckci_k_depth_line<WINDOW, S, V>(from + y * rows, pitch, 0, v, bf16);
            CKCI_K_UNROLL(4)
            for (int s = 0; s < F; s++) {
                CKCI_K_UNROLL(4)
                for (int x = 0; x < F; x++) {
                    T one[V];
                    ckci_k_spread<T, V>(w + (((F - 1 - s) * F + y) * F + x) * LANES * V, one);
                    CKCI_K_UNROLL(32)
                    for (int i = 0; i < XO * V; i++) {
                        T before = c[s * XO * V + i];
                        if (y == 0 && x == 0) {
                            before = s + 1 < F ? c[(s + 1) * XO * V + i] : (T)0;
                        }
                        c[s * XO * V + i] = ckci_k_fma(v[x * V + i], one[i % V], before);
                    }
                }
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &args, lds &m)
    {
        const ckci_gpu_depth &p = ckci_k_late(args); /* scalar registers hold no more, here and below */
        const int32_t t = (int32_t)threadIdx.x, piece = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c);
        const int32_t base = ((int32_t)blockIdx.x - piece * p.tiles_c) * p.lanes_c * V;
        const bool back = p.dim[2].gather_back != 0;
        const ckci_k_depth_spot own = ckci_k_depth_find_tile<XO>(p, t, piece);
        const int32_t channel = base + own.lane * V;
        const bool active = own.active && channel < p.g;
        stage(p, m.w, base);
        if (t < CKCI_DEPTH_DOWN_POSITIONS) {
            const int32_t length[2] = {p.dim[1].read_len, p.dim[2].read_len};
            m.rows.at[t] = ckci_k_depth_in_tile<S>(
                p.a, p.by_pitch, base, own.n, own.y - (back ? F - 1 - p.dim[1].pad : p.dim[1].pad),
                own.x - (back ? F - 1 - p.dim[2].pad : p.dim[2].pad), length, t);
        }
        __syncthreads();
        source next;
        next.start(m.rows, ckci_k_late(p), p.a_vec, p.pieces, (p.g - base) * (int32_t)S::SIZE);
        const int32_t pitch = p.lanes_c * 4, rows = p.pitch * pitch;
        const int32_t a_step = (int32_t)p.a.stride[3] * (int32_t)S::SIZE;
        const ckci_k_place first = {own.n, own.z, own.y + own.row, own.x + own.strip * XO};
        int32_t to = ckci_k_depth_at<S>(p.o.t, channel, first);
        const int32_t left = p.dim[2].length - first.x;
        /* planes before the image add nothing */
        const int32_t top = own.z - (back ? F - 1 - p.dim[0].pad : p.dim[0].pad),
                      end = top + own.rows + F - 1;
        int32_t z = top < 0 ? 0 : top;
        CKCI_K_UNROLL(1)
        for (int i = 0; i < source::STAGES - 1; i++) {
            const ckci_gpu_depth &late = ckci_k_late(p);
            next.push(m.rows, late, late.a.p, a_step, late.dim[0].read_len, z + i, z + i < end, late.a_vec);
            source::commit();
        }
        T c[F * XO * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * XO * V; i++) {
            c[i] = 0;
        }
        const unsigned char *mine =
            m.rows.stage + (own.row * p.pitch + own.strip * XO) * pitch + own.lane * 4;
        const T *w = m.w + own.lane * V;
        int32_t read = 0;
        CKCI_K_UNROLL(1)
        for (; z < end; z++) {
            const ckci_gpu_depth &late = ckci_k_late(p);
            const int32_t ahead = z + source::STAGES - 1;
            next.settle(m.rows, late.a_vec);
            source::arrive();
            next.push(m.rows, late, late.a.p, a_step, late.dim[0].read_len, ahead, ahead < end, late.a_vec);
            source::commit();
            if (active) {
                multiply(c, mine + read, pitch, rows, w, late.bf16);
                if (z - top >= F - 1) {
                    auto where = [&] {
                        const ckci_k_depth_spot tile = ckci_k_depth_find_tile<XO>(
                            late, ckci_k_again((int32_t)threadIdx.x),
                            ckci_k_divide(ckci_k_again((int32_t)blockIdx.x), ckci_k_late(late).by_tiles_c));
                        const ckci_k_place q = {tile.n, tile.z + z - top - (F - 1), tile.y + tile.row,
                                                tile.x + tile.strip * XO};
                        return q;
                    };
                    ckci_k_depth_row_write<S, V, XO, false>(late, c, to, channel, left, where);
                    to += (int32_t)late.o.t.stride[3] * (int32_t)S::SIZE;
                }
            }
            read = read == (source::STAGES - 1) * source::STAGE ? 0 : read + source::STAGE;
        }
    }
};

template <class S>
struct ckci_k_depth_deep : ckci_k_by_vendor<ckci_k_depth_deep_by<S, true>, ckci_k_depth_deep_by<S, false>> {
};

template <class S> struct ckci_k_resident<ckci_k_depth_deep<S>> {
    enum { BLOCKS = 2 };
};

/* Where a weight's sum goes: into a part of the workspace, [part][tap][channel], or to its place as it is. */
template <class S, class T>
CKCI_K_FN void ckci_k_depth_put(const ckci_gpu_depth &p, T sum, int32_t part, int32_t tap, int32_t channel)
{
    if (p.o.partial) {
        ((T *)p.o.partial)[((int64_t)part * p.taps + tap) * p.g + channel] = sum;
        return;
    }
    const ckci_k_tap f = ckci_k_split_tap(p.dim, tap);
    int64_t at =
        channel * p.o.t.stride[0] + f.z * p.o.t.stride[3] + f.y * p.o.t.stride[4] + f.x * p.o.t.stride[5];
    if constexpr (S::SIZE == 8) {
        *(double *)(p.o.t.p + at * 8) = sum;
    } else {
        ckci_k_depth_store(p.o.t.dtype, p.o.t.p + at * (p.o.t.dtype == CKCONV_F32 ? 4 : 2), sum);
    }
}

/* A thread of bwd_weight: its place in the block and what it sums. */
struct ckci_k_depth_member {
    int32_t slot, lane, lane_u, channel, part, fz, fy, fx;
    bool active;
};

/* Room for the sums of as many of TAPS taps as are added at a time, [tap][channel of V][thread]. */
template <class T, int V, int TAPS> struct ckci_k_depth_sums {
    enum { MOST = 32 / (int)sizeof(T) / V, ROUND = TAPS < MOST ? TAPS : +MOST, PITCH = 257 };
    T sum[ROUND * V * PITCH];
};

/* The sums of a block, in a fixed order. Those of a tap and channel come from `others` threads, its members,
   who share the channels and taps of a round. Neighbouring threads stand beside each other in LDS: members
   of planes, else channels. */
template <class S, class T, int V, int R, int G>
CKCI_K_FN void ckci_k_depth_fold(const ckci_gpu_depth &args, ckci_k_depth_sums<T, V, R * G> &m, T *c,
                                 const ckci_k_depth_member &w, bool planes)
{
    const ckci_gpu_depth &p = ckci_k_late(args);
    enum { TAPS = R * G, ROUND = ckci_k_depth_sums<T, V, TAPS>::ROUND };
    enum { PITCH = ckci_k_depth_sums<T, V, TAPS>::PITCH };
    const int32_t others = (planes ? p.lanes_c : 1) * p.lanes_p;
    const int32_t member = planes ? w.slot * p.lanes_c + w.lane : w.slot;
    const int32_t apart = planes ? 1 : p.lanes_u * p.lanes_c; /* from member to member */
    const int32_t first = planes ? w.lane_u * others : w.lane_u * p.lanes_c + w.lane;
    const bool present = w.slot < p.lanes_p && w.lane_u < p.lanes_u;
    CKCI_K_UNROLL(1)
    for (int j = 0; j < TAPS; j += ROUND) {
        __syncthreads();
        if (present) {
            CKCI_K_UNROLL(32)
            for (int k = 0; k < ROUND * V; k++) {
                m.sum[k * PITCH + first + member * apart] = c[k];
            }
        }
        __syncthreads();
        CKCI_K_UNROLL(1)
        for (int32_t q = member; present && w.active && q < ROUND * V; q += others) {
            const int32_t tap = j + q / V, ry = tap / G, tx = w.fx + tap - ry * G, ty = w.fy + ry;
            if (tap >= TAPS || (uint32_t)tx >= (uint32_t)p.dim[2].filter || ty >= p.dim[1].filter ||
                w.channel + q % V >= p.g) {
                continue;
            }
            const T *from = m.sum + q * PITCH + first;
            T sum[4] = {0, 0, 0, 0};
            CKCI_K_UNROLL(1)
            for (int32_t i = 0; i < others; i += 4) {
                CKCI_K_UNROLL(4)
                for (int k = 0; k < 4; k++) {
                    sum[k] += i + k < others ? from[(i + k) * apart] : 0;
                }
            }
            ckci_k_depth_put<S, T>(p, (sum[0] + sum[1]) + (sum[2] + sum[3]), w.part,
                                   (w.fz * p.dim[1].filter + ty) * p.dim[2].filter + tx, w.channel + q % V);
        }
        CKCI_K_UNROLL(128)
        for (int k = 0; k + ROUND * V < TAPS * V; k++) {
            c[k] = c[k + ROUND * V];
        }
    }
}

/* R rows of neighbouring y x G taps; STEP: the stride; 0: any stride and dilation, one tap. */
template <class S, int V, int XO, int R, int G, int STEP> struct ckci_k_depth_weight {
    typedef typename S::T T;
    typedef ckci_k_depth_sums<T, V, R * G> lds;
    enum { APART = STEP ? STEP : 1, WINDOW = (XO - 1) * APART + G };

    static CKCI_K_MEMBER void load_row(const ckci_gpu_depth &p, ckci_k_vec<S, V> *to,
                                       const unsigned char *src, int32_t y, int32_t x, int32_t step)
    {
        int64_t bytes = p.b.stride[5] * step * S::SIZE;
#if defined(__HIP_DEVICE_COMPILE__) && __clang_major__ < 16
        x = ckci_k_lane_afresh(x); /* else which x are inside is kept for all rows, in scalar registers */
#endif
        CKCI_K_UNROLL(32)
        for (int k = 0; k < WINDOW; k++) {
            to[k].clear();
            if ((uint32_t)y < (uint32_t)p.dim[1].read_len &&
                (uint32_t)(x + k * step) < (uint32_t)p.dim[2].read_len) {
                to[k].load(src + k * bytes);
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        bool planes = V == 1 && p.planes;
        int32_t t = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x;
        /* lanes fastest, then units (rows and groups of taps), then strips */
        int32_t rest = ckci_k_divide(t, p.by_lanes_c), lane = t - rest * p.lanes_c;
        int32_t slot = ckci_k_divide(rest, p.by_lanes_u), lane_u = rest - slot * p.lanes_u;
        int32_t up = ckci_k_divide(block, p.by_tiles_u), unit = (block - up * p.tiles_u) * p.lanes_u + lane_u;
        int32_t part = ckci_k_divide(up, p.by_tiles_c), tile = up - part * p.tiles_c;
        int32_t channel = planes ? tile : (tile * p.lanes_c + lane) * V;
        int32_t row = ckci_k_divide(unit, p.by_groups_x), fx = (unit - row * p.groups_x) * G;
        int32_t fz = ckci_k_divide(row, p.by_rows_y), fy = (row - fz * (int32_t)p.by_rows_y.d) * R;
        bool active = slot < p.lanes_p && channel < p.g && unit < p.units;
        int32_t count_y = p.dim[1].length, count_x = p.dim[2].length;
        int32_t all = p.n * p.dim[0].length * (planes ? p.tiles_x : count_y) * p.strips;
        int32_t from = part * p.part, to = all - from < p.part ? all : from + p.part;
        int32_t step = STEP ? 1 : p.dim[2].stride;
        int64_t a_step = p.a.stride[5] * S::SIZE;
        int64_t b_row = p.dim[1].dilation * p.b.stride[4] * S::SIZE;
        T c[R * G * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < R * G * V; i++) {
            c[i] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t i = from + slot; i < to && active; i += p.lanes_p) {
            int32_t line = ckci_k_divide(i, p.by_strips), x = (i - line * p.strips) * XO;
            int32_t above = ckci_k_divide(line, planes ? p.by_tiles_x : p.dim[1].count[0]);
            int32_t y = line - above * (planes ? p.tiles_x : count_y);
            int32_t n = ckci_k_divide(above, p.dim[0].count[0]), z = above - n * p.dim[0].length;
            y = planes ? y * p.lanes_c + lane : y;
            int32_t in_z = z * p.dim[0].stride + fz * p.dim[0].dilation - p.dim[0].pad;
            int32_t in_y = y * p.dim[1].stride + fy * p.dim[1].dilation - p.dim[1].pad;
            int32_t in_x = x * p.dim[2].stride + fx * p.dim[2].dilation - p.dim[2].pad;
            if (y >= count_y || (uint32_t)in_z >= (uint32_t)p.dim[0].read_len) {
                continue;
            }
            const unsigned char *a = p.a.p + (n * p.a.stride[1] + channel * p.a.stride[0] +
                                              z * p.a.stride[3] + y * p.a.stride[4] + x * p.a.stride[5]) *
                                                 S::SIZE;
            const unsigned char *b =
                p.b.p + (n * p.b.stride[1] + channel * p.b.stride[0] + in_z * p.b.stride[3] +
                         in_y * p.b.stride[4] + in_x * p.b.stride[5]) *
                            S::SIZE;
            ckci_k_vec<S, V> left[XO];
            CKCI_K_UNROLL(8)
            for (int k = 0; k < XO; k++) {
                if (x + k < count_x) {
                    left[k].load(a + k * a_step);
                } else {
                    left[k].clear();
                }
            }
            constexpr int SOME = V == 1 ? XO : 4;
            constexpr bool TOGETHER = V > 1; /* rows are loaded before the first is taken */
            ckci_k_vec<S, V> right[TOGETHER ? R : 1][WINDOW];
            CKCI_K_UNROLL(8)
            for (int r = 0; r < (TOGETHER ? R : 0); r++) {
                load_row(p, right[r], b + r * b_row, in_y + r * p.dim[1].dilation, in_x, step);
            }
            CKCI_K_UNROLL(8)
            for (int r = 0; r < R; r++) {
                if ((uint32_t)(in_y + r * p.dim[1].dilation) >= (uint32_t)p.dim[1].read_len) {
                    continue;
                }
                if (!TOGETHER) {
                    load_row(p, right[0], b + r * b_row, in_y + r * p.dim[1].dilation, in_x, step);
                }
                T v[WINDOW * V];
                ckci_k_depth_widen<WINDOW>(right[TOGETHER ? r : 0], v, p.bf16);
                CKCI_K_UNROLL(8)
                for (int q = 0; q < XO; q += SOME) {
                    T d[SOME * V];
                    ckci_k_depth_widen<SOME>(left + q, d, p.bf16);
                    CKCI_K_UNROLL(8)
                    for (int k = q; k < q + SOME; k++) {
                        if (x + k < count_x) { /* nothing may meet the 0 of a missing dout */
                            CKCI_K_UNROLL(8)
                            for (int j = 0; j < G; j++) {
                                CKCI_K_UNROLL(4)
                                for (int l = 0; l < V; l++) {
                                    T &sum = c[(r * G + j) * V + l];
                                    sum = ckci_k_fma(d[(k - q) * V + l], v[(k * APART + j) * V + l], sum);
                                }
                            }
                        }
                    }
                }
            }
        }
        ckci_k_depth_member w = {slot, lane, lane_u, channel, part, fz, fy, fx, active};
        ckci_k_depth_fold<S, T, V, R, G>(p, m, c, w, planes);
    }
};

template <int V, int XO, int R, int G, int STEP>
struct ckci_k_resident<ckci_k_depth_weight<ckci_k_s_half, V, XO, R, G, STEP>> {
    enum { BLOCKS = V != 1 ? 2 : STEP == 2 ? 3 : 0 };
};

/* bwd_weight of the same. A thread walks down a column of strips with all F x F sums (of one z) in registers:
   each row of inputs meets the last F rows of dout, all of which are loaded once. Rows have XO positions at
   least. */
template <class S, int V, int XO, int F, bool PLANES, bool ASYNC> struct ckci_k_depth_walk_weight_by {
    typedef typename S::T T;
    enum {
        WINDOW = PLANES ? XO + 8 : XO + F - 1,
        BEFORE = PLANES ? 4 - (F - 1) / 2 : 0,
        DEPTH = CKCI_K_DEPTH_AHEAD
    };
    enum { WIDE = F == 3 };                 /* rows of dout are kept as they are multiplied */
    enum { HELD = F == 3 || S::SIZE == 2 }; /* else registers have no room for a row ahead */
    typedef ckci_k_depth_window<S, V, WINDOW, PLANES> window;
    typedef ckci_k_depth_window<S, V, XO, PLANES> strip;
    typedef ckci_k_depth_ring<window, ASYNC, DEPTH, HELD> window_ring;
    typedef ckci_k_depth_ring<strip, ASYNC, DEPTH, HELD> strip_ring;

    struct lds {
        ckci_k_depth_sums<T, V, F * F> sums;
        typename window_ring::lds windows;
        typename strip_ring::lds strips;
    };

    /* Rows of dout, the newest last. */
    struct history {
        T wide[WIDE ? F : 1][XO * V];
        strip narrow[WIDE ? 1 : F];

        CKCI_K_MEMBER void clear()
        {
            CKCI_K_UNROLL(8)
            for (int k = 0; k < F; k++) {
                if constexpr (WIDE) {
                    CKCI_K_UNROLL(32)
                    for (int i = 0; i < XO * V; i++) {
                        wide[k][i] = 0;
                    }
                } else {
                    narrow[k].load(nullptr, 0, 0, 0, 2, 0);
                }
            }
        }

        CKCI_K_MEMBER void add(const strip &row, int32_t bf16)
        {
            CKCI_K_UNROLL(8)
            for (int k = 0; k + 1 < F; k++) {
                if constexpr (WIDE) {
                    CKCI_K_UNROLL(32)
                    for (int i = 0; i < XO * V; i++) {
                        wide[k][i] = wide[k + 1][i];
                    }
                } else {
                    narrow[k] = narrow[k + 1];
                }
            }
            if constexpr (WIDE) {
                row.widen(wide[F - 1], bf16);
            } else {
                narrow[F - 1] = row;
            }
        }
    };

    /* row: the newest of dout; those outside the column do not exist. */
    static CKCI_K_MEMBER void multiply(T *c, const history &left, const window &right, int32_t row,
                                       int32_t rows, int32_t bf16)
    {
        T v[WINDOW * V];
        right.widen(v, bf16);
        CKCI_K_UNROLL(8)
        for (int y = 0; y < F; y++) {
            if (row - y < 0 || row - y >= rows) {
                continue; /* nothing may meet the 0 of a missing dout */
            }
            T d[XO * V];
            if constexpr (WIDE) {
                CKCI_K_UNROLL(32)
                for (int i = 0; i < XO * V; i++) {
                    d[i] = left.wide[F - 1 - y][i];
                }
            } else {
                left.narrow[F - 1 - y].widen(d, bf16);
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < XO; i++) {
                CKCI_K_UNROLL(8)
                for (int x = 0; x < F; x++) {
                    CKCI_K_UNROLL(4)
                    for (int l = 0; l < V; l++) {
                        T &sum = c[(y * F + x) * V + l];
                        sum = ckci_k_fma(d[i * V + l], v[(BEFORE + i + x) * V + l], sum);
                    }
                }
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        int32_t t = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x;
        int32_t rest = ckci_k_divide(t, p.by_lanes_c), lane = t - rest * p.lanes_c;
        int32_t slot = ckci_k_divide(rest, p.by_lanes_u), lane_u = rest - slot * p.lanes_u;
        int32_t up = ckci_k_divide(block, p.by_tiles_u), fz = (block - up * p.tiles_u) * p.lanes_u + lane_u;
        int32_t part = ckci_k_divide(up, p.by_tiles_c), tile = up - part * p.tiles_c;
        int32_t channel = (tile * p.lanes_c + lane) * V;
        bool active = slot < p.lanes_p && channel < p.g && fz < p.units;
        int32_t all = p.n * p.dim[0].length * p.tiles_x * p.strips;
        int32_t from = part * p.part, to = all - from < p.part ? all : from + p.part;
        int32_t a_step = (int32_t)p.a.stride[5] * S::SIZE, b_step = (int32_t)p.b.stride[5] * S::SIZE;
        int32_t a_row = (int32_t)p.a.stride[4] * (int32_t)S::SIZE,
                b_row = (int32_t)p.b.stride[4] * (int32_t)S::SIZE;
        T c[F * F * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * F * V; i++) {
            c[i] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t i = from + slot; i < to && active; i += p.lanes_p) {
            int32_t line = ckci_k_divide(i, p.by_strips), first = (i - line * p.strips) * XO;
            /* the last strip overlaps the one before it */
            int32_t x = first + XO > p.dim[2].length ? p.dim[2].length - XO : first;
            int32_t above = ckci_k_divide(line, p.by_tiles_x), y = (line - above * p.tiles_x) * p.walk;
            int32_t n = ckci_k_divide(above, p.dim[0].count[0]), z = above - n * p.dim[0].length;
            int32_t in_z = z * p.dim[0].stride + fz * p.dim[0].dilation - p.dim[0].pad;
            if ((uint32_t)in_z >= (uint32_t)p.dim[0].read_len) {
                continue;
            }
            int32_t rows = p.dim[1].length - y < p.walk ? p.dim[1].length - y : p.walk;
            int32_t in_y = y - p.dim[1].pad, in_x = x - p.dim[2].pad - BEFORE;
            uint32_t a_mask = ((1u << XO) - 1) & ~((1u << (first - x)) - 1);
            uint32_t b_mask = ckci_k_depth_inside(in_x, p.dim[2].read_len, WINDOW);
            ckci_k_place a_first = {n, z, y, x}, b_first = {n, in_z, in_y, in_x};
            int32_t a = ckci_k_depth_at<S>(p.a, channel, a_first);
            int32_t b = ckci_k_depth_at<S>(p.b, channel, b_first);
            history left;
            left.clear();
            ckci_k_copies_wait<0>(); /* those of the last column, which nobody took */
            window_ring windows;
            strip_ring strips;
            windows.start(m.windows);
            strips.start(m.strips);
            CKCI_K_UNROLL(1)
            for (int32_t r = -window_ring::AHEAD; r < rows + F - 1; r++) {
                window right;
                strip newest;
                auto pop = [&] {
                    if (r >= 0) {
                        ckci_k_copies_wait<DEPTH - 2>();
                        strips.pop(newest);
                        windows.pop(right);
                    }
                };
                if constexpr (window_ring::AHEAD > 0) {
                    pop();
                }
                int32_t ahead = r + window_ring::AHEAD;
                strips.push(p.a.p, a, a_step, a_mask, ahead < rows, p.o_vec, p.g - channel);
                windows.push(p.b.p, b, b_step, b_mask,
                             (uint32_t)in_y < (uint32_t)p.dim[1].read_len && ahead < rows + F - 1, p.a_vec,
                             p.g - channel);
                ckci_k_copies_end();
                a += a_row;
                b += b_row;
                in_y++;
                if constexpr (window_ring::AHEAD == 0) {
                    pop();
                }
                if (r >= 0) {
                    left.add(newest, p.bf16);
                    multiply(c, left, right, r, rows, p.bf16);
                }
            }
        }
        ckci_k_depth_member w = {slot, lane, lane_u, channel, part, fz, 0, 0, active};
        ckci_k_depth_fold<S, T, V, F, F>(p, m.sums, c, w, false);
    }
};

template <class S, int V, int XO, int F, bool PLANES>
struct ckci_k_depth_walk_weight : ckci_k_by_vendor<ckci_k_depth_walk_weight_by<S, V, XO, F, PLANES, true>,
                                                   ckci_k_depth_walk_weight_by<S, V, XO, F, PLANES, false>> {
};

template <class S, int V, int XO, int F, bool PLANES>
struct ckci_k_resident<ckci_k_depth_walk_weight<S, V, XO, F, PLANES>> {
    enum { BLOCKS = F == 7 ? 1 : 2 };
};

/* bwd_weight of the same, filters of 3 x 3 and 5 x 5. Rows of inputs and of dout come through LDS, dout where
   the first tap of an output lies. A thread has all F x F sums of V channels in registers, for all rows of
   its block: each row of inputs meets the last F rows of a strip of dout, which stay in registers as they are
   multiplied, in F places that take turns. The last strip of a row overlaps the one before it; what both have
   is 0 in it. */
template <class S, int F, bool ASYNC> struct ckci_k_depth_down_weight_by {
    typedef typename S::T T;
    enum { V = 4 / S::SIZE, XO = CKCI_DEPTH_DOWN_STRIP(S::SIZE, F, 1), WINDOW = XO + F - 1 };
    typedef ckci_k_depth_rows<1, ASYNC> source;

    struct lds {
        typename source::lds inputs, douts;
        ckci_k_depth_sums<T, V, F * F> sums;
    };

    /* Row r of a column with `rows` of dout: the newest is in place r % F = TURN. Rows of dout that the
       column does not have meet nothing, nor do rows outside the image. */
    template <int TURN>
    static CKCI_K_MEMBER void multiply(T *c, const T *d, const unsigned char *from, int32_t pitch, int32_t r,
                                       int32_t rows, int32_t bf16)
    {
        T v[WINDOW * V];
        ckci_k_depth_line<WINDOW, S, V>(from, pitch, 0, v, bf16);
        CKCI_K_UNROLL(8)
        for (int y = 0; y < F; y++) {
            if (r - y >= 0 && r - y < rows) {
                const T *left = d + (TURN + F - y) % F * XO * V;
                CKCI_K_UNROLL(8)
                for (int i = 0; i < XO; i++) {
                    CKCI_K_UNROLL(8)
                    for (int x = 0; x < F; x++) {
                        CKCI_K_UNROLL(4)
                        for (int l = 0; l < V; l++) {
                            T &sum = c[(y * F + x) * V + l];
                            sum = ckci_k_fma(left[i * V + l], v[(i + x) * V + l], sum);
                        }
                    }
                }
            }
        }
    }

    /* State of a walk down a column. */
    struct walk {
        source inputs, douts;
        int32_t y, first, rows, r, read; /* of inputs, of dout; rows of dout; the row that comes; its stage */
        int32_t a_step, b_step, vec;

        CKCI_K_MEMBER void push(lds &m, const ckci_gpu_depth &p, int32_t r)
        {
            inputs.push(m.inputs, p, p.b.p, b_step, p.dim[1].read_len, y + r, r < rows + F - 1, vec);
            douts.push(m.douts, p, p.a.p, a_step, p.dim[1].length, first + r, r < rows, vec);
            source::commit();
        }
    };

    /* What row r of a thread's strip adds. Its dout takes place `turn`, which is TURN or a later one. */
    template <int TURN>
    static CKCI_K_MEMBER void add(const ckci_gpu_depth &args, const lds &m, const walk &w, T *c, T *d,
                                  int32_t turn, int32_t mine, int32_t twice)
    {
        if constexpr (TURN < F - 1) {
            if (turn > TURN) {
                add<TURN + 1>(args, m, w, c, d, turn, mine, twice);
                return;
            }
        }
        const ckci_gpu_depth &p = ckci_k_late(args);
        const int32_t pitch = p.lanes_c * 4;
        if (w.r < w.rows) {
            ckci_k_depth_line<XO, S, V>(m.douts.stage + w.read + mine, pitch, twice, d + TURN * XO * V,
                                        p.bf16);
        }
        if ((uint32_t)(w.y + w.r) < (uint32_t)p.dim[1].read_len) {
            multiply<TURN>(c, d, m.inputs.stage + w.read + mine, pitch, w.r, w.rows, p.bf16);
        }
    }

    /* Rows from..end of all columns, of one column. */
    static CKCI_K_MEMBER int32_t column(const ckci_gpu_depth &args, lds &m, T *c, int32_t from,
                                        int32_t to_row)
    {
        const ckci_gpu_depth &p = ckci_k_late(args); /* scalar registers hold no more, here and below */
        const int32_t t = (int32_t)threadIdx.x;
        const ckci_k_depth_stand own =
            ckci_k_depth_find<V, XO, true>(p, t, (int32_t)blockIdx.x, from, to_row);
        const int32_t twice = own.active ? own.twice : 0;
        __syncthreads(); /* the column before */
        ckci_k_depth_positions<S>(p, p.b, m.inputs.at, own, p.dim[2].pad, p.dim[2].read_len, p.dim[0].stride,
                                  t);
        ckci_k_depth_positions<S>(p, p.a, m.douts.at, own, 0, p.dim[2].length, 1, t);
        __syncthreads();
        walk w;
        w.vec = p.a_vec;
        w.inputs.start(m.inputs, p, w.vec, p.pieces, (p.g - own.channel) * (int32_t)S::SIZE);
        w.douts.start(m.douts, p, w.vec, p.pieces, (p.g - own.channel) * (int32_t)S::SIZE);
        w.y = own.y - p.dim[1].pad;
        w.first = own.y;
        w.rows = own.rows;
        w.read = 0;
        w.a_step = (int32_t)p.a.stride[4] * (int32_t)S::SIZE;
        w.b_step = (int32_t)p.b.stride[4] * (int32_t)S::SIZE;
        T d[F * XO * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * XO * V; i++) {
            d[i] = 0;
        }
        const int32_t mine = own.at * p.lanes_c * 4 + own.lane * 4;
        /* copies stand once, for the rows that are ahead, too */
        int32_t turn = 0;
        CKCI_K_UNROLL(1)
        for (w.r = 1 - source::STAGES; w.r < w.rows + F - 1; w.r++) {
            if (w.r >= 0) {
                w.inputs.settle(m.inputs, w.vec);
                w.douts.settle(m.douts, w.vec);
                source::arrive();
            }
            w.push(m, ckci_k_late(p), w.r + source::STAGES - 1);
            if (w.r < 0) {
                continue;
            }
            if (own.active) {
                add<0>(p, m, w, c, d, turn, mine, twice);
            }
            turn = turn == F - 1 ? 0 : turn + 1;
            w.read = w.read == (source::STAGES - 1) * source::STAGE ? 0 : w.read + source::STAGE;
        }
        return from + own.rows;
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        const int32_t t = (int32_t)threadIdx.x, part = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c);
        const int32_t first = part * p.walk, end = p.all - first < p.walk ? p.all : first + p.walk;
        T c[F * F * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * F * V; i++) {
            c[i] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t row = first; row < end;) {
            row = column(p, m, c, row, end);
        }
        const int32_t slot = ckci_k_divide(t, p.by_lanes_c), lane = t - slot * p.lanes_c;
        const int32_t channel = (((int32_t)blockIdx.x - part * p.tiles_c) * p.lanes_c + lane) * V;
        ckci_k_depth_member w = {slot, lane, 0, channel, part, 0, 0, 0, slot < p.lanes_p && channel < p.g};
        ckci_k_depth_fold<S, T, V, F, F>(p, m.sums, c, w, false);
    }
};

template <class S, int F>
struct ckci_k_depth_down_weight
    : ckci_k_by_vendor<ckci_k_depth_down_weight_by<S, F, true>, ckci_k_depth_down_weight_by<S, F, false>> {
};

template <class S, int F> struct ckci_k_resident<ckci_k_depth_down_weight<S, F>> {
    enum { BLOCKS = 2 };
};

/* bwd_weight of 3 x 3 x 3: tiles walk along dimension 0 as those of ckci_k_depth_deep, dout beside them. A
   thread has all 27 sums of V channels in registers, for all pieces of its block, which are `parts` apart:
   each of its three rows of inputs meets the last three planes of a strip of dout, as in
   ckci_k_depth_down_weight. */
template <class S, bool ASYNC> struct ckci_k_depth_deep_weight_by {
    typedef typename S::T T;
    enum { F = 3, V = 4 / S::SIZE, XO = CKCI_DEPTH_DEEP_STRIP(S::SIZE, 1), WINDOW = XO + F - 1 };
    typedef ckci_k_depth_rows<1, ASYNC, CKCI_DEPTH_DEEP_BYTES, ASYNC ? 8 : 4> source;
    typedef ckci_k_depth_rows<1, ASYNC, 8192, ASYNC ? 8 : 4> source_out;
    static_assert(XO * 256 * 4 <= 8192, "all strips of a block");

    struct lds {
        union {
            struct {
                typename source::lds inputs;
                typename source_out::lds douts;
            };
            ckci_k_depth_sums<T, V, F * F> sums;
        };
    };

    /* Plane r of a piece with `planes` of dout: the newest is in place r % F = TURN. Planes of dout that the
       piece does not have meet nothing. */
    template <int TURN>
    static CKCI_K_MEMBER void multiply(T *c, const T *d, const unsigned char *from, int32_t pitch,
                                       int32_t rows, int32_t r, int32_t planes, int32_t bf16)
    {
        CKCI_K_UNROLL(4)
        for (int y = 0; y < F; y++) {
            T v[WINDOW * V];
            ckci_k_depth_line<WINDOW, S, V>(from + y * rows, pitch, 0, v, bf16);
            CKCI_K_UNROLL(4)
            for (int z = 0; z < F; z++) {
                if (r - z >= 0 && r - z < planes) {
                    const T *left = d + (TURN + F - z) % F * XO * V;
                    CKCI_K_UNROLL(8)
                    for (int i = 0; i < XO; i++) {
                        CKCI_K_UNROLL(4)
                        for (int x = 0; x < F; x++) {
                            CKCI_K_UNROLL(4)
                            for (int l = 0; l < V; l++) {
                                T &sum = c[((z * F + y) * F + x) * V + l];
                                sum = ckci_k_fma(left[i * V + l], v[(i + x) * V + l], sum);
                            }
                        }
                    }
                }
            }
        }
    }

    /* State of a walk along a piece. */
    struct walk {
        source inputs;
        source_out douts;
        int32_t z, first;       /* the first plane of inputs, of dout */
        int32_t planes, r;      /* of dout; the one that comes */
        int32_t read, read_out; /* its stages */
        int32_t at, at_out;     /* of this thread in a stage */
        int32_t a_step, b_step, vec, rows;

        CKCI_K_MEMBER void push(lds &m, const ckci_gpu_depth &p, int32_t r)
        {
            inputs.push(m.inputs, p, p.b.p, b_step, p.dim[0].read_len, z + r, r < planes + F - 1, vec);
            douts.push(m.douts, p, p.a.p, a_step, p.dim[0].length, first + r, r < planes, vec);
            source::commit();
        }
    };

    /* What plane r of a thread's strip adds. Its dout takes place `turn`, which is TURN or a later one. */
    template <int TURN>
    static CKCI_K_MEMBER void add(const ckci_gpu_depth &args, const lds &m, const walk &w, T *c, T *d,
                                  int32_t turn)
    {
        if constexpr (TURN < F - 1) {
            if (turn > TURN) {
                add<TURN + 1>(args, m, w, c, d, turn);
                return;
            }
        }
        const ckci_gpu_depth &p = ckci_k_late(args);
        const int32_t pitch = p.lanes_c * 4;
        if (w.r < w.planes) {
            ckci_k_depth_line<XO, S, V>(m.douts.stage + w.read_out + w.at_out, pitch, 0, d + TURN * XO * V,
                                        p.bf16);
        }
        if ((uint32_t)(w.z + w.r) < (uint32_t)p.dim[0].read_len) {
            multiply<TURN>(c, d, m.inputs.stage + w.read + w.at, pitch, w.rows, w.r, w.planes, p.bf16);
        }
    }

    static CKCI_K_MEMBER void piece(const ckci_gpu_depth &args, lds &m, T *c, int32_t index, int32_t base)
    {
        const ckci_gpu_depth &p = ckci_k_late(args); /* scalar registers hold no more, here and below */
        const int32_t t = (int32_t)threadIdx.x, pitch = p.lanes_c * 4;
        const ckci_k_depth_spot own = ckci_k_depth_find_tile<XO>(p, t, index);
        const bool active = own.active && base + own.lane * V < p.g;
        __syncthreads(); /* the piece before */
        if (t < CKCI_DEPTH_DOWN_POSITIONS) {
            const int32_t length[2] = {p.dim[1].read_len, p.dim[2].read_len};
            const int32_t out[2] = {p.dim[1].length, p.dim[2].length};
            m.inputs.at[t] = ckci_k_depth_in_tile<S>(p.b, p.by_pitch, base, own.n, own.y - p.dim[1].pad,
                                                     own.x - p.dim[2].pad, length, t);
            m.douts.at[t] = ckci_k_depth_in_tile<S>(p.a, p.by_wide, base, own.n, own.y, own.x, out, t);
        }
        __syncthreads();
        walk w;
        w.vec = p.a_vec;
        w.inputs.start(m.inputs, p, w.vec, p.pieces, (p.g - base) * (int32_t)S::SIZE);
        w.douts.start(m.douts, p, w.vec, p.lanes_p * XO * (int32_t)p.by_pieces.d,
                      (p.g - base) * (int32_t)S::SIZE);
        w.z = own.z - p.dim[0].pad;
        w.first = own.z;
        w.planes = own.rows;
        w.read = w.read_out = 0;
        w.a_step = (int32_t)p.a.stride[3] * (int32_t)S::SIZE;
        w.b_step = (int32_t)p.b.stride[3] * (int32_t)S::SIZE;
        w.rows = p.pitch * pitch;
        w.at = (own.row * p.pitch + own.strip * XO) * pitch + own.lane * 4;
        w.at_out = (own.row * p.strips + own.strip) * XO * pitch + own.lane * 4;
        T d[F * XO * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * XO * V; i++) {
            d[i] = 0;
        }
        int32_t turn = 0;
        CKCI_K_UNROLL(1)
        for (w.r = 1 - source::STAGES; w.r < w.planes + F - 1; w.r++) {
            if (w.r >= 0) {
                w.inputs.settle(m.inputs, w.vec);
                w.douts.settle(m.douts, w.vec);
                source::arrive();
            }
            w.push(m, ckci_k_late(p), w.r + source::STAGES - 1);
            if (w.r < 0) {
                continue;
            }
            if (active) {
                add<0>(p, m, w, c, d, turn);
            }
            turn = turn == F - 1 ? 0 : turn + 1;
            w.read = w.read == (source::STAGES - 1) * source::STAGE ? 0 : w.read + source::STAGE;
            w.read_out = w.read == 0 ? 0 : w.read_out + source_out::STAGE;
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        const int32_t t = (int32_t)threadIdx.x, part = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c);
        const int32_t base = ((int32_t)blockIdx.x - part * p.tiles_c) * p.lanes_c * V;
        T c[F * F * F * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < F * F * F * V; i++) {
            c[i] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t i = part; i < p.all; i += p.parts) {
            piece(p, m, c, i, base);
        }
        const int32_t slot = ckci_k_divide(t, p.by_lanes_c), lane = t - slot * p.lanes_c;
        const int32_t channel = base + lane * V;
        ckci_k_depth_member w = {slot, lane, 0, channel, part, 0, 0, 0, slot < p.lanes_p && channel < p.g};
        CKCI_K_UNROLL(4)
        for (w.fz = 0; w.fz < F; w.fz++) {
            ckci_k_depth_fold<S, T, V, F, F>(p, m.sums, c + w.fz * F * F * V, w, false);
        }
    }
};

template <class S>
struct ckci_k_depth_deep_weight
    : ckci_k_by_vendor<ckci_k_depth_deep_weight_by<S, true>, ckci_k_depth_deep_weight_by<S, false>> {
};

template <class S> struct ckci_k_resident<ckci_k_depth_deep_weight<S>> {
    enum { BLOCKS = 2 };
};

/* Sheets: planes (channels first) that are small, or bands of their rows, in LDS as they lie in memory, so
   that memory is read and written in whole lines whatever the width, stride or padding. */
template <class S> struct ckci_k_sheet {
    typedef typename S::T T;
    enum { THREADS = CKCI_DEPTH_SHEET_THREADS };
    enum { FRONT = 32 }; /* what a window reads before the first number is in LDS, too */

    struct lds {
        alignas(16) unsigned char pool[CKCI_DEPTH_SHEET_BYTES];
    };

    /* Copies of B bytes between LDS and `planes` pieces of memory of `bytes` bytes, `apart` apart there and
       `room` apart in LDS, of which each has at most by.d copies. Several are under way. */
    template <int B, bool OUT>
    static CKCI_K_MEMBER void move(unsigned char *at, unsigned char *memory, int32_t planes, int32_t bytes,
                                   int64_t apart, int32_t room, ckci_divisor by)
    {
        enum { SEVERAL = 2 };
        const int32_t d = (int32_t)by.d, all = planes * d, t = ckci_k_again((int32_t)threadIdx.x);
        const int32_t plane = ckci_k_divide(t, by),
                      on = ckci_k_divide(THREADS, by); /* planes from copy to copy */
        const int64_t step = on * apart + (THREADS - on * d) * B, wrap = apart - (int64_t)d * B;
        int32_t i = (t - plane * d) * B, near = plane * room + i;
        unsigned char *far = memory + (plane * apart + i);
        CKCI_K_UNROLL(1)
        for (int32_t e = t; e < all; e += SEVERAL * THREADS) {
            ckci_k_vec<ckci_k_s_half, B / 2> v[SEVERAL];
            unsigned char *out[SEVERAL];
            int32_t in[SEVERAL]; /* < 0: there is nothing to store */
            CKCI_K_UNROLL(4)
            for (int k = 0; k < SEVERAL; k++) {
                const int32_t left = e + k * THREADS < all ? bytes - i : 0;
                const bool whole = left >= B;
                out[k] = far;
                in[k] = whole ? near : -1;
#if defined(__CUDA_ARCH__)
                if constexpr (!OUT && B >= 4) {
                    if (whole) {
                        ckci_k_copy_late<B>(at + near, far, true);
                    }
                    in[k] = -1;
                }
#endif
                if (in[k] >= 0) {
                    if constexpr (OUT) {
                        v[k].load(at + near);
                    } else {
                        v[k].load(far);
                    }
                }
                CKCI_K_UNROLL(1)
                for (int32_t b = 0; !whole && b < left; b += S::SIZE) {
                    ckci_k_vec<S, 1> one;
                    if constexpr (OUT) {
                        one.load(at + near + b);
                        one.store(far + b);
                    } else {
                        one.load(far + b);
                        one.store(at + near + b);
                    }
                }
                i += (THREADS - on * d) * B;
                near += on * room + (THREADS - on * d) * B;
                far += step;
                if (i >= d * B) {
                    i -= d * B;
                    near += room - d * B;
                    far += wrap;
                }
            }
            CKCI_K_UNROLL(4)
            for (int k = 0; k < SEVERAL; k++) {
                if (in[k] >= 0) {
                    if constexpr (OUT) {
                        v[k].store(out[k]);
                    } else {
                        v[k].store(at + in[k]);
                    }
                }
            }
        }
    }

    template <bool OUT>
    static CKCI_K_MEMBER void move(int32_t vec, unsigned char *at, unsigned char *memory, int32_t planes,
                                   int32_t bytes, int64_t apart, int32_t room, ckci_divisor by)
    {
        if (vec == 16) {
            move<16, OUT>(at, memory, planes, bytes, apart, room, by);
        } else if (vec == 8) {
            move<8, OUT>(at, memory, planes, bytes, apart, room, by);
        } else if (vec == 4) {
            move<4, OUT>(at, memory, planes, bytes, apart, room, by);
        } else {
            move<2, OUT>(at, memory, planes, bytes, apart, room, by);
        }
    }

    /* Rows from..to of `planes` planes from `first` on, of t. */
    template <bool OUT>
    static CKCI_K_MEMBER void rows(const ckci_gpu_depth &p, const ckci_tensor &t, unsigned char *at,
                                   int64_t first, int32_t planes, const int32_t *size, int32_t from,
                                   int32_t to, int32_t room, ckci_divisor by)
    {
        const int32_t row = size[1] * (int32_t)S::SIZE;
        unsigned char *memory = ckci_k_global(t.p) + (first * size[0] + from) * row;
        if (p.sheet.bands == 1) { /* one piece */
            move<OUT>(p.sheet.vec, at, memory, 1, planes * size[0] * row, 0, 0, by);
        } else {
            move<OUT>(p.sheet.vec, at, memory, planes, (to - from) * row, (int64_t)size[0] * row, room, by);
        }
    }

    /* N numbers from `at` on, of those that exist (inside). PAIRS: a load for two of them, which both exist
       or neither. */
    template <bool BF16, bool PAIRS, int N>
    static CKCI_K_MEMBER void load(const unsigned char *at, uint32_t inside, T *v)
    {
        constexpr int W = PAIRS ? 2 : 1;
        static_assert(N % W == 0, "whole pairs");
        CKCI_K_UNROLL(16)
        for (int i = 0; i < N / W; i++) {
            ckci_k_vec<S, W> raw;
            raw.load(at + i * W * (int)S::SIZE);
            CKCI_K_UNROLL(2)
            for (int k = 0; k < ckci_k_vec<S, W>::WORDS; k++) {
                raw.w[k] = inside >> i * W & 1 ? raw.w[k] : 0;
            }
            if constexpr (S::SIZE == 2 && !PAIRS) {
                v[i] = S::template widen<BF16>(raw.w[0]);
            } else {
                raw.template widen<BF16>(v + i * W);
            }
        }
    }

    /* N numbers, of which those that are wanted exist; PAIRS as above. */
    template <bool BF16, bool PAIRS, int N>
    static CKCI_K_MEMBER void store(unsigned char *at, uint32_t wanted, const T *v)
    {
        constexpr int W = PAIRS ? 2 : 1;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < N / W; i++) {
            if (wanted >> i * W & 1) {
                ckci_k_vec<S, W> raw;
                raw.template narrow<BF16>(v + i * W);
                raw.store(at + i * W * (int)S::SIZE);
            }
        }
    }
};

/* Stride 1 or 2, dilation 1. BACK: the gradient of stride 2; that of stride 1 is a convolution with the
   filter turned round. A block owns `high` rows of `count` planes; a thread owns XO neighbouring columns of
   one of them and walks down the rows that are read: each is added to the sums of the outputs that it belongs
   to, which lie in registers. Results go to LDS, too, and from there to memory. */
template <class S, int F, int STRIDE, bool BACK> struct ckci_k_depth_sheet {
    typedef typename S::T T;
    typedef ckci_k_sheet<S> sheet;
    typedef typename sheet::lds lds;
    enum { HALF = (F + 1) / 2, XO = CKCI_DEPTH_SHEET_COLUMNS(S::SIZE, STRIDE, BACK, 0) };
    enum { SUMS = BACK || STRIDE == 1 ? F : +HALF };
    /* a window begins at an even column where pairs are loaded */
    enum { SLIP = STRIDE == 1 ? (F - 1) / 2 % 2 : 0, WINDOW = BACK ? +HALF : (XO - 1) * STRIDE + F };
    enum { LOADED = STRIDE == 1 ? (SLIP + WINDOW + 1) / 2 * 2 : +WINDOW };

    /* The first row that is read for output row r, and one past the last. */
    static CKCI_K_MEMBER int32_t first_row(const ckci_gpu_depth_sheet &s, int32_t r)
    {
        return BACK ? (r + s.pad[0] - (F - 1)) >> 1 : r * STRIDE - s.pad[0];
    }
    static CKCI_K_MEMBER int32_t end_row(const ckci_gpu_depth_sheet &s, int32_t r)
    {
        return BACK ? ((r + s.pad[0]) >> 1) + 1 : r * STRIDE - s.pad[0] + F;
    }

    struct columns {
        const unsigned char *from; /* of the row that comes: the first number of the window */
        unsigned char *to;         /* of the output row that comes */
        int32_t pitch, pitch_out;  /* bytes */
        int32_t row, length;       /* the row that comes; rows that exist, or that the band needs */
        uint32_t inside, wanted;   /* numbers of the window, outputs that exist */
        T w[F * F];
    };

    template <bool BF16, bool PAIRS> static CKCI_K_MEMBER void read(columns &a, T *v)
    {
        if ((uint32_t)a.row < (uint32_t)a.length) { /* the same for all threads */
            sheet::template load<BF16, PAIRS, LOADED>(a.from, a.inside, v);
        } else {
            CKCI_K_UNROLL(16)
            for (int i = 0; i < LOADED; i++) {
                v[i] = 0;
            }
        }
        a.row++;
        a.from += a.pitch;
    }

    /* What row y of the filter adds to output o of a thread. */
    static CKCI_K_MEMBER T row(const columns &a, const T *v, int y, int o, T x)
    {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < F; i++) {
            if (!BACK || i % 2 == o) {
                x = ckci_k_fma(v[BACK ? HALF - 1 - i / 2 : SLIP + o * STRIDE + i], a.w[y * F + i], x);
            }
        }
        return x;
    }

    template <bool BF16, bool PAIRS> static CKCI_K_MEMBER void write(columns &a, const T *c)
    {
        sheet::template store<BF16, PAIRS, XO>(a.to, a.wanted, c);
        a.to += a.pitch_out;
    }

    /* `rows` output rows. BACK: two at a time, from `before` rows before the first one on. */
    template <bool BF16, bool PAIRS> static CKCI_K_MEMBER void walk(columns &a, int32_t rows, int32_t before)
    {
        T c[SUMS * XO], v[LOADED];
        CKCI_K_UNROLL(32)
        for (int i = 0; i < SUMS * XO; i++) {
            c[i] = 0;
        }
        if constexpr (BACK) {
            CKCI_K_UNROLL(1)
            for (int32_t y = -before; y < rows; y += 2) {
                read<BF16, PAIRS>(a, v);
                CKCI_K_UNROLL(8)
                for (int i = 0; i < F; i++) {
                    CKCI_K_UNROLL(4)
                    for (int o = 0; o < XO; o++) {
                        c[i * XO + o] = row(a, v, i, o, i + 2 < F ? c[(i + 2) % F * XO + o] : (T)0);
                    }
                }
                if (y >= 0) {
                    write<BF16, PAIRS>(a, c);
                }
                if (y >= -1 && y + 1 < rows) {
                    write<BF16, PAIRS>(a, c + XO);
                }
            }
        } else if constexpr (STRIDE == 1) {
            CKCI_K_UNROLL(1)
            for (int32_t y = 1 - F; y < rows; y++) {
                read<BF16, PAIRS>(a, v);
                CKCI_K_UNROLL(8)
                for (int i = 0; i < F; i++) {
                    CKCI_K_UNROLL(4)
                    for (int o = 0; o < XO; o++) {
                        c[i * XO + o] = row(a, v, F - 1 - i, o, i + 1 < F ? c[(i + 1) % F * XO + o] : (T)0);
                    }
                }
                if (y >= 0) {
                    write<BF16, PAIRS>(a, c);
                }
            }
        } else {
            CKCI_K_UNROLL(1)
            for (int32_t y = 1 - HALF; y < rows; y++) {
                read<BF16, PAIRS>(a, v);
                CKCI_K_UNROLL(8)
                for (int i = HALF - 1; i >= 0; i--) {
                    CKCI_K_UNROLL(4)
                    for (int o = 0; o < XO; o++) {
                        c[i * XO + o] = row(a, v, 2 * i, o, i > 0 ? c[(i + HALF - 1) % HALF * XO + o] : (T)0);
                    }
                }
                if (y >= 0) {
                    write<BF16, PAIRS>(a, c + (HALF - 1) * XO);
                }
                read<BF16, PAIRS>(a, v);
                CKCI_K_UNROLL(8)
                for (int i = 0; i < HALF - 1; i++) {
                    CKCI_K_UNROLL(4)
                    for (int o = 0; o < XO; o++) {
                        c[i * XO + o] = row(a, v, 2 * i + 1, o, c[i * XO + o]);
                    }
                }
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &args, lds &m)
    {
        const ckci_gpu_depth &p = ckci_k_late(args);
        const ckci_gpu_depth_sheet &s = p.sheet;
        const int32_t t = (int32_t)threadIdx.x, tile = ckci_k_divide((int32_t)blockIdx.x, s.by_bands);
        const int32_t first = tile * s.count, y = ((int32_t)blockIdx.x - tile * s.bands) * s.high;
        const int32_t planes = s.planes - first < s.count ? s.planes - first : s.count;
        const int32_t rows = s.out[0] - y < s.high ? s.out[0] - y : s.high;
        const int32_t top = first_row(s, y);
        int32_t from = 0, to = s.in[0];
        if (s.bands > 1) {
            const int32_t end = end_row(s, y + rows - 1);
            from = top < 0 ? 0 : top;
            to = end < to ? end : to;
        }
        sheet::template rows<false>(p, p.a, m.pool + sheet::FRONT, first, planes, s.in, from, to, s.a_room,
                                    s.by_a);
        ckci_k_copies_end();
        T *w = (T *)(m.pool + s.w_at);
        const bool turn = !BACK && p.dim[2].gather_back;
        for (int32_t e = t; e < planes * F * F; e += sheet::THREADS) {
            const int32_t plane = e / (F * F), tap = e - plane * (F * F), at = turn ? F * F - 1 - tap : tap;
            const int32_t q = first + plane, g = q - ckci_k_divide(q, s.by_g) * p.g;
            w[e] = ckci_k_depth_tap<false, T>(p, g * p.b.stride[0] + at / F * p.b.stride[4] +
                                                     at % F * p.b.stride[5]);
        }
        ckci_k_copies_wait<0>();
        __syncthreads();
        const int32_t wide = (int32_t)s.by_wide.d;
        CKCI_K_UNROLL(1)
        for (int32_t e = t; e < planes * wide; e += sheet::THREADS) {
            const int32_t plane = ckci_k_divide(e, s.by_wide), i = e - plane * wide;
            /* BACK: outputs of both phases that read the same numbers */
            const int32_t x = BACK ? (i + s.pad[1] / 2) * 2 - s.pad[1] : i * XO;
            const int32_t left = BACK ? i + s.pad[1] / 2 - (HALF - 1) : x * STRIDE - s.pad[1] - SLIP;
            columns a;
            a.pitch = s.in[1] * (int32_t)S::SIZE;
            a.pitch_out = s.out[1] * (int32_t)S::SIZE;
            a.from =
                m.pool + sheet::FRONT + plane * s.a_room + (top - from) * a.pitch + left * (int32_t)S::SIZE;
            a.to = m.pool + s.o_at + plane * s.o_room + x * (int32_t)S::SIZE;
            a.row = top;
            a.length = to; /* stride 2 takes a row more, which no output needs */
            a.inside = a.wanted = 0;
            CKCI_K_UNROLL(16)
            for (int k = 0; k < LOADED; k++) {
                a.inside |= (uint32_t)((uint32_t)(left + k) < (uint32_t)s.in[1]) << k;
            }
            CKCI_K_UNROLL(4)
            for (int k = 0; k < XO; k++) {
                a.wanted |= (uint32_t)((uint32_t)(x + k) < (uint32_t)s.out[1]) << k;
            }
            CKCI_K_UNROLL(64)
            for (int k = 0; k < F * F; k++) {
                a.w[k] = w[plane * (F * F) + k];
            }
            const int32_t before = BACK ? y + s.pad[0] - 2 * top : 0;
            constexpr bool HALVES = S::SIZE == 2, TWO = STRIDE == 1;
            if (TWO && s.pairs) {
                if (HALVES && p.bf16) {
                    walk<HALVES, TWO>(a, rows, before);
                } else {
                    walk<false, TWO>(a, rows, before);
                }
            } else if (HALVES && p.bf16) {
                walk<HALVES, false>(a, rows, before);
            } else {
                walk<false, false>(a, rows, before);
            }
        }
        __syncthreads();
        sheet::template rows<true>(p, p.o.t, m.pool + s.o_at, first, planes, s.out, y, y + rows, s.o_room,
                                   s.by_o);
    }
};

template <class S, int F, int STRIDE, bool BACK>
struct ckci_k_resident<ckci_k_depth_sheet<S, F, STRIDE, BACK>> {
    enum { BLOCKS = F == 3 ? 7 : 5 };
};

/* bwd_weight of the same: `in` and dout of `count` channels of an image, or bands of them, lie in LDS. A
   thread owns XO columns of dout and has all F x F sums of its channel in registers, for all pieces of its
   block, which are `parts` apart. */
template <class S, int F, int STRIDE> struct ckci_k_depth_sheet_weight {
    typedef typename S::T T;
    typedef ckci_k_sheet<S> sheet;
    enum { HELD = STRIDE == 1 ? F : (F + 1) / 2, XO = CKCI_DEPTH_SHEET_COLUMNS(S::SIZE, STRIDE, 0, 1) };
    enum { SLIP = STRIDE == 1 ? (F - 1) / 2 % 2 : 0, WINDOW = (XO - 1) * STRIDE + F };
    enum { LOADED = STRIDE == 1 ? (SLIP + WINDOW + 1) / 2 * 2 : +WINDOW }; /* as in ckci_k_depth_sheet */

    union lds {
        typename sheet::lds rows;
        ckci_k_depth_sums<T, 1, F * F> sums;
    };

    struct columns {
        const unsigned char *in, *out; /* of the rows that come: the first number of the window, of dout */
        int32_t pitch, pitch_out;      /* bytes */
        int32_t row, length;           /* the row of inputs that comes; those that exist */
        uint32_t inside, wanted;       /* numbers of the window, of dout that exist */
    };

    /* A row of inputs meets the rows of dout that read it, PHASE: its place among the rows of a stride. */
    template <bool BF16, bool PAIRS, int PHASE> static CKCI_K_MEMBER void add(columns &a, const T *d, T *c)
    {
        if ((uint32_t)a.row < (uint32_t)a.length) { /* the same for all threads */
            T v[LOADED];
            sheet::template load<BF16, PAIRS, LOADED>(a.in, a.inside, v);
            CKCI_K_UNROLL(8)
            for (int k = 0; k < HELD; k++) {
                if (k * STRIDE + PHASE < F) {
                    CKCI_K_UNROLL(32)
                    for (int i = 0; i < F * XO; i++) {
                        T &sum = c[(k * STRIDE + PHASE) % F * F + i % F];
                        sum = ckci_k_fma(d[k * XO + i / F], v[SLIP + i / F * STRIDE + i % F], sum);
                    }
                }
            }
        }
        a.row++;
        a.in += a.pitch;
    }

    template <bool BF16, bool PAIRS> static CKCI_K_MEMBER void walk(columns &a, int32_t rows, T *c)
    {
        T d[HELD * XO];
        CKCI_K_UNROLL(32)
        for (int k = 0; k < HELD * XO; k++) {
            d[k] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t y = 0; y < rows + HELD - 1; y++) {
            CKCI_K_UNROLL(32)
            for (int k = HELD * XO - 1; k >= 0; k--) {
                d[k] = k >= XO ? d[(k + HELD * XO - XO) % (HELD * XO)] : (T)0;
            }
            if (y < rows) {
                sheet::template load<BF16, PAIRS, XO>(a.out, a.wanted, d);
            }
            a.out += a.pitch_out;
            add<BF16, PAIRS, 0>(a, d, c);
            if constexpr (STRIDE == 2) {
                add<BF16, PAIRS, 1>(a, d, c);
            }
        }
    }

    /* Band and channels of a piece. */
    static CKCI_K_MEMBER void piece(const ckci_gpu_depth &args, lds &m, int32_t index, int32_t base,
                                    int32_t planes, int32_t plane, int32_t x, bool active, T *c)
    {
        const ckci_gpu_depth &p = ckci_k_late(args);
        const ckci_gpu_depth_sheet &s = p.sheet;
        const int32_t n = ckci_k_divide(index, s.by_bands), y = (index - n * s.bands) * s.high;
        const int32_t rows = s.out[0] - y < s.high ? s.out[0] - y : s.high;
        const int32_t top = y * STRIDE - s.pad[0];
        const int64_t first = (int64_t)n * p.g + base;
        int32_t from = 0, to = s.in[0];
        if (s.bands > 1) {
            const int32_t end = top + (rows - 1) * STRIDE + F;
            from = top < 0 ? 0 : top;
            to = end < to ? end : to;
        }
        __syncthreads(); /* the piece before */
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 2; i++) { /* the code of copies stands once */
            const ckci_gpu_depth &late = ckci_k_late(args);
            const ckci_gpu_depth_sheet &now = late.sheet;
            sheet::template rows<false>(late, i ? late.a : late.b,
                                        m.rows.pool + (i ? now.o_at : (int32_t)sheet::FRONT), first, planes,
                                        i ? now.out : now.in, i ? y : from, i ? y + rows : to,
                                        i ? now.o_room : now.a_room, i ? now.by_o : now.by_a);
        }
        ckci_k_copies_end();
        ckci_k_copies_wait<0>();
        __syncthreads();
        if (!active) {
            return;
        }
        const int32_t left = x * STRIDE - s.pad[1] - SLIP;
        columns a;
        a.pitch = s.in[1] * (int32_t)S::SIZE;
        a.pitch_out = s.out[1] * (int32_t)S::SIZE;
        a.in =
            m.rows.pool + sheet::FRONT + plane * s.a_room + (top - from) * a.pitch + left * (int32_t)S::SIZE;
        a.out = m.rows.pool + s.o_at + plane * s.o_room + x * (int32_t)S::SIZE;
        a.row = top;
        a.length = to; /* no dout is left for rows after it */
        a.inside = a.wanted = 0;
        CKCI_K_UNROLL(16)
        for (int i = 0; i < LOADED; i++) {
            a.inside |= (uint32_t)((uint32_t)(left + i) < (uint32_t)s.in[1]) << i;
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < XO; i++) {
            a.wanted |= (uint32_t)(x + i < s.out[1]) << i;
        }
        constexpr bool HALVES = S::SIZE == 2, TWO = STRIDE == 1;
        if (TWO && s.pairs) {
            if (HALVES && p.bf16) {
                walk<HALVES, TWO>(a, rows, c);
            } else {
                walk<false, TWO>(a, rows, c);
            }
        } else if (HALVES && p.bf16) {
            walk<HALVES, false>(a, rows, c);
        } else {
            walk<false, false>(a, rows, c);
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &args, lds &m)
    {
        const ckci_gpu_depth &p = ckci_k_late(args);
        const int32_t t = (int32_t)threadIdx.x, part = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c);
        const int32_t base = ((int32_t)blockIdx.x - part * p.tiles_c) * p.sheet.count;
        const int32_t planes = p.g - base < p.sheet.count ? p.g - base : p.sheet.count;
        const int32_t plane = ckci_k_divide(t, p.sheet.by_wide), i = t - plane * (int32_t)p.sheet.by_wide.d;
        T c[F * F];
        CKCI_K_UNROLL(64)
        for (int i = 0; i < F * F; i++) {
            c[i] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t k = part; k < p.all; k += p.parts) {
            piece(args, m, k, base, planes, plane, i * XO, plane < planes, c);
        }
        const int32_t slot = plane < p.lanes_c ? i : p.lanes_p; /* threads that have no column */
        const ckci_k_depth_member w = {slot, plane, 0, base + plane, part, 0, 0, 0, plane < planes};
        ckci_k_depth_fold<S, T, 1, F, F>(p, m.sums, c, w, false);
    }
};

template <class S, int F, int STRIDE> struct ckci_k_resident<ckci_k_depth_sheet_weight<S, F, STRIDE>> {
    enum { BLOCKS = F == 3 ? 7 : 5 };
};

/* Planes with stride and dilation 1 along x. A thread owns 8 neighbouring outputs of a row and reads the
   inputs beside them in aligned pieces of 4, one load each where rows are aligned: the window holds three
   pieces, and moves on by one for 4 taps. Taps are counted from the first piece on; those before the filter
   and after it are left out, the whole block alike. Strips follow each other through rows, so that the lanes
   of a block read memory in its order. */
template <class S> struct ckci_k_depth_piece {
    typedef typename S::T T;
    ckci_k_vec<S, 4> raw;

    /* 4 numbers from x on, in a row of `length`; vec: aligned, all or none are inside */
    CKCI_K_MEMBER void load(const unsigned char *row, int32_t x, int32_t length, int32_t vec)
    {
        const unsigned char *src = row + (int64_t)x * S::SIZE;
        if (vec) {
            if ((uint32_t)x < (uint32_t)length) {
                raw.load(src);
            } else {
                raw.clear();
            }
            return;
        }
        uint32_t one[4];
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            one[i] = (uint32_t)(x + i) < (uint32_t)length ? ckci_k_load_bits(src + i * S::SIZE, S::SIZE) : 0;
        }
        if constexpr (S::SIZE == 2) {
            raw.w[0] = one[0] | one[1] << 16;
            raw.w[1] = one[2] | one[3] << 16;
        } else {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                raw.w[i] = one[i];
            }
        }
    }
};

/* A strip of planes: its place and those of its rows. */
struct ckci_k_depth_strip {
    ckci_k_place q;
    bool inside;
};

CKCI_K_FN ckci_k_depth_strip ckci_k_depth_find(const ckci_gpu_depth &p, int32_t i, int32_t to)
{
    ckci_k_depth_strip s;
    int32_t line = ckci_k_divide(i, p.by_strips), above = ckci_k_divide(line, p.dim[1].count[0]);
    s.q.x = (i - line * p.strips) * 8;
    s.q.y = line - above * p.dim[1].length;
    s.q.n = ckci_k_divide(above, p.dim[0].count[0]);
    s.q.z = above - s.q.n * p.dim[0].length;
    s.inside = i < to;
    return s;
}

template <class S> struct ckci_k_depth_row {
    typedef typename S::T T;
    typedef ckci_k_depth_lds<T> lds;

    /* Weights of `rows` filter rows from r0 on, in ascending order, `shift` zeros before each row. */
    static CKCI_K_MEMBER void stage(const ckci_gpu_depth &p, lds &m, int32_t g, int32_t r0, int32_t rows,
                                    int32_t shift)
    {
        bool back = p.dim[2].gather_back != 0;
        int32_t taps = p.dim[2].filter, count = rows * p.row_taps;
        for (int32_t e = (int32_t)threadIdx.x; e < count; e += 256) {
            int32_t row = ckci_k_divide(e, p.by_channels), x = e - row * p.row_taps - shift;
            row += r0;
            int32_t z = ckci_k_divide(row, p.dim[1].taps[0]), y = row - z * p.dim[1].filter;
            bool inside = (uint32_t)x < (uint32_t)taps;
            x = back ? taps - 1 - x : x;
            int64_t w = g * p.b.stride[0] + z * p.b.stride[3] + y * p.b.stride[4] + x * p.b.stride[5];
            m.w[e] = inside ? ckci_k_depth_tap<false, T>(p, w) : (T)0;
        }
    }

    /* One row of the filter. x: of the first piece; from, to: its taps, counted from there. */
    static CKCI_K_MEMBER void multiply(T *c, const unsigned char *src, int32_t x, int32_t length, int32_t vec,
                                       const T *w, int32_t from, int32_t to, int32_t bf16)
    {
        ckci_k_depth_piece<S> next;
        T v[12];
        next.load(src, x, length, vec);
        ckci_k_depth_widen<1>(&next.raw, v, bf16);
        next.load(src, x + 4, length, vec);
        ckci_k_depth_widen<1>(&next.raw, v + 4, bf16);
        next.load(src, x + 8, length, vec);
        CKCI_K_UNROLL(1)
        for (int32_t k = 0; k < to; k += 4) {
            ckci_k_depth_widen<1>(&next.raw, v + 8, bf16);
            x += 4;
            next.load(src, x + 8, k + 4 < to ? length : 0, vec);
            T f[4];
            ckci_k_spread<T, 4>(w + k, f);
            if (k >= from && k + 4 <= to) {
                CKCI_K_UNROLL(4)
                for (int j = 0; j < 4; j++) {
                    CKCI_K_UNROLL(8)
                    for (int i = 0; i < 8; i++) {
                        c[i] = ckci_k_fma(v[i + j], f[j], c[i]);
                    }
                }
            } else {
                CKCI_K_UNROLL(4)
                for (int j = 0; j < 4; j++) {
                    if (k + j >= from && k + j < to) {
                        CKCI_K_UNROLL(8)
                        for (int i = 0; i < 8; i++) {
                            c[i] = ckci_k_fma(v[i + j], f[j], c[i]);
                        }
                    }
                }
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 8; i++) {
                v[i] = v[i + 4];
            }
        }
    }

    static CKCI_K_MEMBER void write(const ckci_gpu_depth &p, T *c, int32_t channel, const ckci_k_place &q)
    {
        const ckci_gpu_target &o = p.o;
        if (p.o_same) {
            unsigned char *dst = o.t.p + (q.n * o.t.stride[1] + channel * o.t.stride[0] +
                                          q.z * o.t.stride[3] + q.y * o.t.stride[4] + q.x * o.t.stride[5]) *
                                             S::SIZE;
            if (p.o_vec) {
                ckci_k_vec<S, 4> v[2];
                ckci_k_depth_narrow<2>(v, c, p.bf16);
                CKCI_K_UNROLL(2)
                for (int i = 0; i < 2; i++) {
                    if (q.x + 4 * i < p.dim[2].length) {
                        v[i].store(dst + 4 * i * S::SIZE);
                    }
                }
                return;
            }
            int64_t step = o.t.stride[5] * S::SIZE;
            ckci_k_vec<S, 1> v[8];
            ckci_k_depth_narrow<8>(v, c, p.bf16);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 8; i++) {
                if (q.x + i < p.dim[2].length) {
                    v[i].store(dst + i * step);
                }
            }
            return;
        }
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 8; i++) {
            if (q.x + i < p.dim[2].length) {
                ckci_k_place at = {q.n, q.z, q.y, q.x + i};
                ckci_k_depth_write<false, T>(p, ckci_k_pick<T, 8>(c, i), channel, at);
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        int32_t block = (int32_t)blockIdx.x, part = ckci_k_divide(block, p.by_tiles_c);
        int32_t channel = block - part * p.tiles_c, filter_rows = p.dim[0].filter * p.dim[1].filter;
        int32_t all = p.n * p.dim[0].length * p.dim[1].length * p.strips;
        int32_t begin = part * p.part, end = all - begin < p.part ? all : begin + p.part;
        bool back = p.dim[2].gather_back != 0;
        int32_t first = back ? p.dim[2].pad - (p.dim[2].filter - 1) : -p.dim[2].pad;
        int32_t shift = first & 3, to = shift + p.dim[2].filter;
        int64_t row_step = p.dim[1].read_tap * p.a.stride[4] * S::SIZE;
        int64_t plane_step = p.dim[0].read_tap * p.a.stride[3] * S::SIZE - p.dim[1].filter * row_step;
        for (int32_t i = begin; i < end; i += 256) {
            ckci_k_depth_strip s = ckci_k_depth_find(p, i + (int32_t)threadIdx.x, end);
            int32_t z = s.q.z * p.dim[0].read_step + (back ? p.dim[0].pad : -p.dim[0].pad);
            int32_t y = s.q.y * p.dim[1].read_step + (back ? p.dim[1].pad : -p.dim[1].pad);
            const unsigned char *src = p.a.p + (s.q.n * p.a.stride[1] + channel * p.a.stride[0] +
                                                z * p.a.stride[3] + y * p.a.stride[4]) *
                                                   S::SIZE;
            T c[8] = {0, 0, 0, 0, 0, 0, 0, 0};
            int32_t ty = 0;
            for (int32_t r = 0; r < filter_rows; r += p.rows) {
                int32_t rows = filter_rows - r < p.rows ? filter_rows - r : p.rows;
                if (filter_rows > p.rows || i == begin) {
                    __syncthreads();
                    stage(p, m, channel, r, rows, shift);
                    __syncthreads();
                }
                CKCI_K_UNROLL(1)
                for (int32_t k = 0; k < rows && s.inside; k++) {
                    if ((uint32_t)z < (uint32_t)p.dim[0].read_len &&
                        (uint32_t)y < (uint32_t)p.dim[1].read_len) {
                        multiply(c, src, s.q.x + first - shift, p.dim[2].read_len, p.a_vec,
                                 m.w + k * p.row_taps, shift, to, p.bf16);
                    }
                    src += row_step;
                    y += p.dim[1].read_tap;
                    ty++;
                    if (ty == p.dim[1].filter) {
                        ty = 0;
                        y -= p.dim[1].filter * p.dim[1].read_tap;
                        z += p.dim[0].read_tap;
                        src += plane_step;
                    }
                }
            }
            if (s.inside) {
                write(p, c, channel, s.q);
            }
        }
    }
};

/* bwd_weight of such planes: a thread sums 8 places of one row of the filter, counted from the first aligned
   piece on. */
template <class S> struct ckci_k_depth_row_weight {
    typedef typename S::T T;
    typedef ckci_k_depth_sums<T, 1, 8> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        int32_t t = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x;
        int32_t lane_u = ckci_k_divide(t, p.by_lanes_c), slot = t - lane_u * p.lanes_c;
        int32_t up = ckci_k_divide(block, p.by_tiles_u), unit = (block - up * p.tiles_u) * p.lanes_u + lane_u;
        int32_t part = ckci_k_divide(up, p.by_tiles_c), channel = up - part * p.tiles_c;
        int32_t row = ckci_k_divide(unit, p.by_groups_x), place = (unit - row * p.groups_x) * 8;
        int32_t fz = ckci_k_divide(row, p.by_rows_y), fy = row - fz * p.dim[1].filter;
        bool active = lane_u < p.lanes_u && unit < p.units;
        int32_t all = p.n * p.dim[0].length * p.dim[1].length * p.strips;
        int32_t from = part * p.part, to = all - from < p.part ? all : from + p.part;
        int32_t first = -p.dim[2].pad, shift = first & 3;
        T c[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        CKCI_K_UNROLL(1)
        for (int32_t i = from + slot; i < to && active; i += p.lanes_c) {
            ckci_k_depth_strip s = ckci_k_depth_find(p, i, to);
            int32_t z = s.q.z * p.dim[0].stride + fz * p.dim[0].dilation - p.dim[0].pad;
            int32_t y = s.q.y * p.dim[1].stride + fy * p.dim[1].dilation - p.dim[1].pad;
            if ((uint32_t)z >= (uint32_t)p.dim[0].read_len || (uint32_t)y >= (uint32_t)p.dim[1].read_len) {
                continue;
            }
            const unsigned char *a = p.a.p + (s.q.n * p.a.stride[1] + channel * p.a.stride[0] +
                                              s.q.z * p.a.stride[3] + s.q.y * p.a.stride[4]) *
                                                 S::SIZE;
            const unsigned char *b = p.b.p + (s.q.n * p.b.stride[1] + channel * p.b.stride[0] +
                                              z * p.b.stride[3] + y * p.b.stride[4]) *
                                                 S::SIZE;
            ckci_k_depth_piece<S> left[2], right[4];
            CKCI_K_UNROLL(2)
            for (int k = 0; k < 2; k++) {
                left[k].load(a, s.q.x + 4 * k, p.dim[2].length, p.o_vec);
            }
            CKCI_K_UNROLL(4)
            for (int k = 0; k < 4; k++) {
                right[k].load(b, s.q.x + first - shift + place + 4 * k, p.dim[2].read_len, p.a_vec);
            }
            ckci_k_vec<S, 4> words[6] = {left[0].raw,  left[1].raw,  right[0].raw,
                                         right[1].raw, right[2].raw, right[3].raw};
            T both[24];
            ckci_k_depth_widen<6>(words, both, p.bf16);
            int32_t count = p.dim[2].length - s.q.x;
            CKCI_K_UNROLL(8)
            for (int k = 0; k < 8; k++) {
                if (k < count) { /* nothing may meet the 0 of a missing dout */
                    CKCI_K_UNROLL(8)
                    for (int j = 0; j < 8; j++) {
                        c[j] = ckci_k_fma(both[k], both[8 + k + j], c[j]);
                    }
                }
            }
        }
        ckci_k_depth_member w = {0, slot, lane_u, channel, part, fz, fy, place - shift, active};
        ckci_k_depth_fold<S, T, 1, 1, 8>(p, m, c, w, true);
    }
};

/* ---- On matrix units: f16 and bf16, strides and dilations of 1 along x and y, no filter along z.
   Rows of the tensor that is read are multiplied with bands: the matrix of element (i, k) = f[k - i], made of
   a row f of the filter, takes 16 neighbouring inputs to 16 neighbouring outputs. So for each row of the
   filter, sums[x][y] += band(k - x) * rows[k][y + r]: 16 rows of one channel are one operand of the unit, and
   the band is read from LDS at an address of each lane's own. bwd_weight is the same with rows of dout for
   those of the filter and with weights for outputs: sums[s][r] += band of dout(k - s) * rows[k][y + r], over
   all y, tiles and images.
   A block owns `channels` channels of some tiles (bwd_weight: adds up those of all its tiles). A tile's rows
   lie in LDS, a plane for each channel, whose waves each compute whole channels: where channels are
   neighbours in memory, eight of two positions come in one piece and are parted on their way into LDS.
   fwd and bwd_data: the filters lie in LDS once for all tiles, and results take the place of a channel's
   plane on their way out, so that stores are whole pieces again.
   A signal without rows is folded: rows of the unit are its stretches of 32 outputs (bwd_weight: shifts by
   16 taps), which overlap in LDS.
   Products with the zeros of a band make NaN of an infinity that lies next to the filter's window. */

/* N words of halves, from half 0 of p on or (shift: 16) from half 1 on. */
template <int N> CKCI_K_FN void ckci_k_depth_words(const uint32_t *p, uint32_t shift, uint32_t *w)
{
    uint32_t v[N + 1];
    CKCI_K_UNROLL(16)
    for (int i = 0; i <= N; i++) {
        v[i] = p[i];
    }
    CKCI_K_UNROLL(16)
    for (int i = 0; i < N; i++) {
#if defined(__HIP_DEVICE_COMPILE__)
        w[i] = __builtin_amdgcn_alignbit(v[i + 1], v[i], shift);
#elif defined(__CUDA_ARCH__)
        asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(w[i]) : "r"(v[i]), "r"(v[i + 1]), "r"(shift));
#else
        w[i] = (uint32_t)(((uint64_t)v[i + 1] << 32 | v[i]) >> shift);
#endif
    }
}

/* A unit's operand whose element (i, k) is number at + k - i of a row: the lane's begin at at + lane().
   ACROSS: sums lie in a lane so that neighbours are columns; bands are then the columns. PAIRS: sums 2 i and
   2 i + 1 are neighbours. */
template <class U> struct ckci_k_band;

#if defined(CKCI_K_MFMA)
template <> struct ckci_k_band<ckci_k_mfma16> {
    enum { ACROSS = 0, PAIRS = 1 };

    static CKCI_K_MEMBER int32_t lane()
    {
        return (int)threadIdx.x % 64 / 16 * 4 - (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER ckci_k_uint2 start(const uint32_t *, uint32_t)
    {
        return ckci_k_uint2();
    }

    static CKCI_K_MEMBER ckci_k_uint2 load(const uint32_t *p, uint32_t shift, const ckci_k_uint2 &)
    {
        uint32_t w[2];
        ckci_k_depth_words<2>(p, shift, w);
        return {w[0], w[1]};
    }
};
#endif

#if defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12)
template <int GFX> struct ckci_k_band<ckci_k_wmma<GFX>> {
    enum { ACROSS = 0, PAIRS = GFX != 11 };
    typedef typename ckci_k_wmma<GFX>::operand operand;

    static CKCI_K_MEMBER int32_t lane()
    {
        return (GFX == 11 ? 0 : (int)threadIdx.x % 32 / 16 * 8) - (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER operand start(const uint32_t *, uint32_t)
    {
        return operand();
    }

    static CKCI_K_MEMBER operand load(const uint32_t *p, uint32_t shift, const operand &)
    {
        constexpr int N = GFX == 11 ? 8 : 4;
        uint32_t w[N];
        ckci_k_depth_words<N>(p, shift, w);
        operand r;
        CKCI_K_UNROLL(2)
        for (int i = 0; i < N / 4; i++) {
            r.v[i] = {w[4 * i], w[4 * i + 1], w[4 * i + 2], w[4 * i + 3]};
        }
        return r;
    }
};
#endif

#if defined(CKCI_K_MMA)
template <> struct ckci_k_band<ckci_k_mma> {
    enum { ACROSS = 1, PAIRS = 1 };

    static CKCI_K_MEMBER int32_t lane()
    {
        return (int)threadIdx.x % 4 * 2 - (int)threadIdx.x % 32 / 4;
    }

    /* rows 8 to 15 of the first chunk are rows 0 to 7 of `before`'s second one, 16 places before */
    /* of the operand before the first one, what load takes over */
    static CKCI_K_MEMBER ckci_k_uint4 start(const uint32_t *p, uint32_t shift)
    {
        ckci_k_uint4 r = {0, 0, 0, 0};
        ckci_k_depth_words<1>(p - 4, shift, &r.z);
        return r;
    }

    static CKCI_K_MEMBER ckci_k_uint4 load(const uint32_t *p, uint32_t shift, const ckci_k_uint4 &before)
    {
        ckci_k_uint4 r;
        ckci_k_depth_words<1>(p, shift, &r.x);
        ckci_k_depth_words<1>(p + 4, shift, &r.z);
        r.y = before.z;
        r.w = r.x;
        return r;
    }
};
#endif

/* Where a channel's plane lies in LDS. */
CKCI_K_FN int32_t ckci_k_depth_plane(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                     int32_t channel)
{
    return r.at + channel * r.plane + (channel >> 3) * x.skew;
}

/* A stretch of a tensor: `rows` rows from y on, r.pieces pieces of each from x on, of `channels` channels. */
struct ckci_k_depth_stretch {
    int32_t channel, channels, n, z, y, rows, x, len_x;
};

/* How far from its first element, in bytes: the planner has checked that 32 bits hold it. */
CKCI_K_FN const unsigned char *ckci_k_depth_start(const ckci_tensor &t, const ckci_k_depth_stretch &s)
{
    return t.p + (s.channel * t.stride[0] + s.n * t.stride[1] + s.z * t.stride[3] + s.y * t.stride[4] +
                  s.x * t.stride[5]) *
                     2;
}

/* From memory into LDS and back: eight channels of two positions. */
struct ckci_k_depth_eights {
    static CKCI_K_MEMBER bool find(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                   const ckci_k_depth_stretch &s, int32_t i, int32_t *channel, int32_t *row,
                                   int32_t *pair)
    {
        int32_t rest = ckci_k_divide(i, x.by_groups);
        *channel = (i - rest * (int32_t)x.by_groups.d) * 8;
        *row = ckci_k_divide(rest, r.by_pieces);
        *pair = rest - *row * r.pieces;
        return *row < s.rows && *channel < s.channels;
    }

    static CKCI_K_MEMBER void fill(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                   const ckci_tensor &t, const ckci_k_depth_stretch &s, unsigned char *lds)
    {
        constexpr int SOME = 3;
        const unsigned char *src = ckci_k_depth_start(t, s);
        const int32_t all = s.rows * r.pieces * (int32_t)x.by_groups.d;
        const int32_t step_y = (int32_t)t.stride[4] * 2, step_x = (int32_t)t.stride[5] * 2;
        CKCI_K_UNROLL(1)
        for (int32_t first = (int32_t)threadIdx.x; first < all; first += SOME * 256) {
            ckci_k_uint4 v[SOME][2];
            int32_t to[SOME];
            CKCI_K_UNROLL(4)
            for (int j = 0; j < SOME; j++) {
                int32_t channel, row, pair;
                bool inside = find(x, r, s, first + j * 256, &channel, &row, &pair);
                to[j] = inside ? channel * r.plane + (channel >> 3) * x.skew + row * r.pitch + pair * 4 : -1;
                const unsigned char *p = src + (row * step_y + 2 * pair * step_x + channel * 2);
                CKCI_K_UNROLL(2)
                for (int k = 0; k < 2; k++) {
                    v[j][k] = {0, 0, 0, 0};
                    if (inside && (uint32_t)(s.x + 2 * pair + k) < (uint32_t)s.len_x) {
                        v[j][k] = *(const ckci_k_uint4 *)(p + k * step_x);
                    }
                }
            }
            CKCI_K_UNROLL(4)
            for (int j = 0; j < SOME; j++) {
                if (to[j] >= 0) {
                    part(lds + r.at + to[j], r.plane, v[j][0].x, v[j][1].x);
                    part(lds + r.at + to[j] + 2 * r.plane, r.plane, v[j][0].y, v[j][1].y);
                    part(lds + r.at + to[j] + 4 * r.plane, r.plane, v[j][0].z, v[j][1].z);
                    part(lds + r.at + to[j] + 6 * r.plane, r.plane, v[j][0].w, v[j][1].w);
                }
            }
        }
    }

    static CKCI_K_MEMBER void part(unsigned char *to, int32_t plane, uint32_t left, uint32_t right)
    {
        *(uint32_t *)to = ckci_k_halves<0>(left, right);
        *(uint32_t *)(to + plane) = ckci_k_halves<1>(left, right);
    }

    static CKCI_K_MEMBER void store(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                    const ckci_tensor &t, const ckci_k_depth_stretch &s,
                                    const unsigned char *lds)
    {
        unsigned char *dst = (unsigned char *)(uintptr_t)ckci_k_depth_start(t, s);
        const int32_t all = s.rows * r.pieces * (int32_t)x.by_groups.d;
        const int32_t step_y = (int32_t)t.stride[4] * 2, step_x = (int32_t)t.stride[5] * 2;
        CKCI_K_UNROLL(2)
        for (int32_t i = (int32_t)threadIdx.x; i < all; i += 256) {
            int32_t channel, row, pair;
            bool inside = find(x, r, s, i, &channel, &row, &pair);
            const unsigned char *from =
                lds + r.at + channel * r.plane + (channel >> 3) * x.skew + row * r.pitch + pair * 4;
            if (!inside) {
                continue;
            }
            /* named: clang 19 leaves an array of them in scratch */
            const uint32_t w0 = word(from), w1 = word(from + r.plane), w2 = word(from + 2 * r.plane),
                           w3 = word(from + 3 * r.plane), w4 = word(from + 4 * r.plane),
                           w5 = word(from + 5 * r.plane), w6 = word(from + 6 * r.plane),
                           w7 = word(from + 7 * r.plane);
            unsigned char *p = dst + (row * step_y + 2 * pair * step_x + channel * 2);
            const int32_t left = s.len_x - s.x - 2 * pair;
            if (left > 0) {
                *(ckci_k_uint4 *)p = {ckci_k_halves<0>(w0, w1), ckci_k_halves<0>(w2, w3),
                                      ckci_k_halves<0>(w4, w5), ckci_k_halves<0>(w6, w7)};
            }
            if (left > 1) {
                *(ckci_k_uint4 *)(p + step_x) = {ckci_k_halves<1>(w0, w1), ckci_k_halves<1>(w2, w3),
                                                 ckci_k_halves<1>(w4, w5), ckci_k_halves<1>(w6, w7)};
            }
        }
    }

    static CKCI_K_MEMBER uint32_t word(const unsigned char *p)
    {
        return *(const uint32_t *)p;
    }
};

/* The same: V neighbours of a row. A wave takes whole channels. */
template <int V, int WAVE> struct ckci_k_depth_stripes {
    typedef ckci_k_vec<ckci_k_s_half, V> vec;

    static CKCI_K_MEMBER void fill(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                   const ckci_tensor &t, const ckci_k_depth_stretch &s, unsigned char *lds)
    {
        constexpr int SOME = 4;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        constexpr bool ASYNC = V > 1;
#else
        constexpr bool ASYNC = false;
#endif
        const int32_t lane = (int32_t)threadIdx.x % WAVE, all = s.rows * r.pieces;
        const int32_t step_y = (int32_t)t.stride[4] * 2, step_x = (int32_t)t.stride[5] * 2;
        CKCI_K_UNROLL(1)
        for (int32_t c = (int32_t)threadIdx.x / WAVE; c < s.channels; c += 256 / WAVE) {
            const unsigned char *src = ckci_k_depth_start(t, s) + c * t.stride[0] * 2;
            unsigned char *plane = lds + ckci_k_depth_plane(x, r, c);
            CKCI_K_UNROLL(1)
            for (int32_t first = lane; first < all; first += SOME * WAVE) {
                vec v[SOME];
                unsigned char *to[SOME];
                CKCI_K_UNROLL(4)
                for (int j = 0; j < SOME; j++) {
                    int32_t i = first + j * WAVE, row = ckci_k_divide(i, r.by_pieces);
                    int32_t at = (i - row * r.pieces) * V;
                    bool inside = i < all && (uint32_t)(s.x + at) < (uint32_t)s.len_x;
                    const unsigned char *p = src + (row * step_y + at * step_x);
                    to[j] = plane + (row * r.pitch + at * 2);
                    if constexpr (ASYNC) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
                        if (i < all) {
                            ckci_k_copy_late<2 * V>(to[j], p, inside);
                        }
#endif
                    } else {
                        v[j].clear();
                        if (inside) {
                            v[j].load(p);
                        }
                    }
                }
                if constexpr (!ASYNC) {
                    CKCI_K_UNROLL(4)
                    for (int j = 0; j < SOME; j++) {
                        if (first + j * WAVE < all) {
                            v[j].store(to[j]);
                        }
                    }
                }
            }
        }
    }

    static CKCI_K_MEMBER void store(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                    const ckci_tensor &t, const ckci_k_depth_stretch &s, unsigned char *lds)
    {
        const int32_t lane = (int32_t)threadIdx.x % WAVE, all = s.rows * r.pieces;
        const int32_t step_y = (int32_t)t.stride[4] * 2, step_x = (int32_t)t.stride[5] * 2;
        CKCI_K_UNROLL(1)
        for (int32_t c = (int32_t)threadIdx.x / WAVE; c < s.channels; c += 256 / WAVE) {
            unsigned char *dst = (unsigned char *)(uintptr_t)ckci_k_depth_start(t, s) + c * t.stride[0] * 2;
            const unsigned char *plane = lds + ckci_k_depth_plane(x, r, c);
            CKCI_K_UNROLL(4)
            for (int32_t i = lane; i < all; i += WAVE) {
                int32_t row = ckci_k_divide(i, r.by_pieces), at = (i - row * r.pieces) * V;
                if (s.x + at < s.len_x) {
                    vec v;
                    v.load(plane + (row * r.pitch + at * 2));
                    v.store(dst + (row * step_y + at * step_x));
                }
            }
        }
    }
};

template <int WAVE>
CKCI_K_FN void ckci_k_depth_fill(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                 const ckci_tensor &t, const ckci_k_depth_stretch &s, unsigned char *lds)
{
    if (r.vec == 16) {
        ckci_k_depth_eights::fill(x, r, t, s, lds);
    } else if (r.vec == 8) {
        ckci_k_depth_stripes<8, WAVE>::fill(x, r, t, s, lds);
    } else if (r.vec == 4) {
        ckci_k_depth_stripes<4, WAVE>::fill(x, r, t, s, lds);
    } else if (r.vec == 2) {
        ckci_k_depth_stripes<2, WAVE>::fill(x, r, t, s, lds);
    } else {
        ckci_k_depth_stripes<1, WAVE>::fill(x, r, t, s, lds);
    }
}

template <int WAVE>
CKCI_K_FN void ckci_k_depth_empty(const ckci_gpu_depth_box &x, const ckci_gpu_depth_rows &r,
                                  const ckci_tensor &t, const ckci_k_depth_stretch &s, unsigned char *lds)
{
    if (r.vec == 16) {
        ckci_k_depth_eights::store(x, r, t, s, lds);
    } else if (r.vec == 8) {
        ckci_k_depth_stripes<8, WAVE>::store(x, r, t, s, lds);
    } else if (r.vec == 4) {
        ckci_k_depth_stripes<4, WAVE>::store(x, r, t, s, lds);
    } else if (r.vec == 2) {
        ckci_k_depth_stripes<2, WAVE>::store(x, r, t, s, lds);
    } else {
        ckci_k_depth_stripes<1, WAVE>::store(x, r, t, s, lds);
    }
}

/* Sums of one channel: G groups of 16 rows, each by MX times 16 columns. */
template <class U, int MX, int G> struct ckci_k_depth_bands {
    typedef typename U::operand operand;
    typedef ckci_k_band<U> band;
    typename U::sums c[G][MX];

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(2)
        for (int g = 0; g < G; g++) {
            CKCI_K_UNROLL(2)
            for (int m = 0; m < MX; m++) {
                c[g][m] = typename U::sums();
            }
        }
    }

    template <class E>
    static CKCI_K_MEMBER void multiply(typename U::sums &d, const operand &rows, const operand &across)
    {
        if constexpr (band::ACROSS) {
            U::template multiply<E>(d, rows, across);
        } else {
            U::template multiply<E>(d, across, rows);
        }
    }

    /* count rows of bands at `bands` in LDS; at: where row 0 of group 0 meets the first of them, of `stored`
       rows at `plane`; rows and columns of the sums that are wanted. N: chunks of 16 places whose operands
       are loaded together. */
    template <class E, int N>
    CKCI_K_MEMBER void some(const ckci_gpu_depth_box &x, const unsigned char *lds, int32_t plane,
                            int32_t bands, int32_t count, int32_t at, int32_t stored, int32_t rows,
                            int32_t columns)
    {
        const int32_t lane = (int32_t)threadIdx.x % 16, index = x.origin + band::lane();
        const uint32_t shift = (uint32_t)index % 2 * 16;
        const int32_t pitch = x.t.pitch, step = x.step, from = x.from, to = x.to,
                      wide = ckci_k_afresh(x.wide), chunks = x.chunks + x.skip, fold = ckci_k_afresh(x.fold);
        int32_t words = bands + (index >> 1) * 4 + 32 * from;
        bool both[G];
        int32_t row[G], start[G];
        CKCI_K_UNROLL(2)
        for (int g = 0; g < G; g++) {
            int32_t down = wide ? 0 : 16 * g, right = wide ? 32 * g : 0;
            int32_t high = down + lane < x.high ? down + lane : x.high - 1;
            start[g] = at + down; /* rows that are not wanted meet none */
            start[g] = down >= rows || right >= columns ? stored : start[g];
            row[g] =
                plane + (fold ? high : at + down + lane) * step + 32 * (from - x.skip) + (wide ? 64 * g : 0);
            both[g] = MX > 1 && right + 16 < columns;
        }
        CKCI_K_UNROLL(1)
        for (int32_t q = 0; q < count; q++) {
            CKCI_K_UNROLL(1)
            for (int32_t k = 0; k < to - from; k += N) {
                operand now[N + 1];
                now[0] = operand();
                if (band::ACROSS || MX > 1) {
                    const uint32_t *p = (const uint32_t *)(lds + words + 32 * (k - 1));
                    now[0] = band::load(p, shift, band::start(p, shift));
                }
                CKCI_K_UNROLL(4)
                for (int j = 0; j < N; j++) {
                    now[j + 1] = band::load((const uint32_t *)(lds + words + 32 * (k + j)), shift, now[j]);
                }
                CKCI_K_UNROLL(2)
                for (int g = 0; g < G; g++) {
                    if (fold ? start[g] == stored : start[g] <= -16 || start[g] >= stored) {
                        continue;
                    }
                    bool inside = fold || (uint32_t)(start[g] + lane) < (uint32_t)stored;
                    operand in[N];
                    CKCI_K_UNROLL(4)
                    for (int j = 0; j < N; j++) {
                        bool there = inside && from + k + j + (wide ? 2 * g : 0) < chunks;
                        in[j] = U::load_rows(lds + (there ? row[g] + 32 * (k + j) : 0), 0);
                    }
                    CKCI_K_UNROLL(4)
                    for (int j = 0; j < N; j++) {
                        multiply<E>(c[g][0], in[j], now[j + 1]);
                    }
                    if (both[g]) {
                        CKCI_K_UNROLL(4)
                        for (int j = 0; j < N; j++) {
                            multiply<E>(c[g][MX - 1], in[j], now[j]);
                        }
                    }
                }
            }
            words += pitch;
            CKCI_K_UNROLL(2)
            for (int g = 0; g < G; g++) {
                row[g] += fold ? 0 : step;
                start[g] += start[g] < stored && !fold;
            }
        }
    }

    template <class E>
    CKCI_K_MEMBER void run(const ckci_gpu_depth_box &x, const unsigned char *lds, int32_t plane,
                           int32_t bands, int32_t count, int32_t at, int32_t stored, int32_t rows,
                           int32_t columns)
    {
        if (ckci_k_afresh(x.some) == 2) {
            some<E, 2>(x, lds, plane, bands, count, at, stored, rows, columns);
        } else {
            some<E, 4>(x, lds, plane, bands, count, at, stored, rows, columns);
        }
    }

    /* Row and column (16 of `m` in front of it) of sum i. */
    static CKCI_K_MEMBER int32_t row(int i)
    {
        return band::ACROSS ? U::row(i) : U::column(i);
    }

    static CKCI_K_MEMBER int32_t column(int i)
    {
        return band::ACROSS ? U::column(i) : U::row(i);
    }
};

struct ckci_k_depth_matrix_lds {
    alignas(16) unsigned char bytes[CKCI_DEPTH_BOX_BYTES];
};

/* Where a block works. */
struct ckci_k_depth_block {
    int32_t channel, channels, part, from, to;

    CKCI_K_MEMBER explicit ckci_k_depth_block(const ckci_gpu_depth &p)
    {
        part = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c);
        channel = ((int32_t)blockIdx.x - part * p.tiles_c) * p.box.channels;
        channels = p.g - channel < p.box.channels ? p.g - channel : p.box.channels;
        from = part * p.part;
        to = p.box.tiles - from < p.part ? p.box.tiles : from + p.part;
    }

    /* Into vector registers, for a loop; back into scalar ones, in a pass of it. */
    CKCI_K_MEMBER void hold()
    {
        channel = ckci_k_lane_afresh(channel);
        channels = ckci_k_lane_afresh(channels);
        to = ckci_k_lane_afresh(to);
    }

    CKCI_K_MEMBER ckci_k_depth_block scalar() const
    {
        ckci_k_depth_block b = *this;
        b.channel = ckci_k_same(channel);
        b.channels = ckci_k_same(channels);
        b.to = ckci_k_same(to);
        return b;
    }

    /* n, z, and the tile's place in y and x */
    static CKCI_K_MEMBER ckci_k_place find(const ckci_gpu_depth_box &x, int32_t i)
    {
        ckci_k_place q = ckci_k_decode(i, x.by_z, x.by_tiles_y, x.by_tiles_x);
        q.y *= x.tile_y;
        q.x *= x.tile_x;
        return q;
    }
};

/* A tile of fwd and bwd_data: rows y, ... of what is read, rows of sums. */
struct ckci_k_depth_tile {
    ckci_k_place q;
    int32_t at, y, rows, len_y, out_rows;

    CKCI_K_MEMBER ckci_k_depth_tile(const ckci_gpu_depth &p, int32_t i)
    {
        const ckci_gpu_depth_box &x = p.box;
        q = ckci_k_depth_block::find(x, i);
        const int32_t top = q.y - x.pad_y, end = top + x.tile_y + p.dim[1].filter - 1;
        y = top < 0 ? 0 : top;
        at = top - y;
        rows = (end < p.dim[1].read_len ? end : p.dim[1].read_len) - y;
        len_y = p.dim[1].length - q.y < x.tile_y ? p.dim[1].length - q.y : x.tile_y;
        const int32_t left = p.dim[2].length - q.x;
        out_rows = x.fold ? ((left < x.tile_x ? left : x.tile_x) + 31) / 32 : len_y;
    }
};

/* fwd and bwd_data */
template <class U> struct ckci_k_depth_matrix_unit {
    typedef ckci_k_depth_matrix_lds lds;
    enum { WAVE = U::WAVE };

    /* The filters, in the type that is multiplied, with the zeros beside them. */
    static CKCI_K_MEMBER void stage(const ckci_gpu_depth &p, const ckci_k_depth_block &b, lds &m)
    {
        const ckci_gpu_depth_box &x = p.box;
        const int32_t f = p.dim[2].filter, rows = p.dim[1].filter, wide = x.t.pitch / 2;
        const int32_t all = b.channels * rows * wide;
        for (int32_t i = (int32_t)threadIdx.x; i < all; i += 256) {
            int32_t line = ckci_k_divide(i, x.t.by_pieces), s = i - line * wide - x.lead;
            int32_t channel = ckci_k_divide(line, x.by_rows), r = line - channel * rows;
            uint16_t bits = 0;
            if ((uint32_t)s < (uint32_t)f) {
                bool back = p.dim[2].gather_back != 0;
                int32_t fy = back ? rows - 1 - r : r, fx = back ? f - 1 - s : s;
                bits = *(const uint16_t *)(p.b.p + ((b.channel + channel) * p.b.stride[0] +
                                                    fy * p.b.stride[4] + fx * p.b.stride[5]) *
                                                       2);
            }
            *(uint16_t *)(m.bytes + x.t.at + channel * x.t.plane + r * x.t.pitch + 2 * (s + x.lead)) = bits;
        }
        if (threadIdx.x < CKCI_DEPTH_BOX_ZEROS / 4) {
            ((uint32_t *)m.bytes)[threadIdx.x] = 0;
        }
    }

    /* A channel's sums, into its plane. */
    template <class E, class S>
    static CKCI_K_MEMBER void keep(const ckci_gpu_depth_box &x, unsigned char *plane, const S &sums,
                                   int32_t rows, int32_t columns)
    {
        constexpr int STEP = S::band::PAIRS ? 2 : 1;
        CKCI_K_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            const int32_t down = x.wide ? 0 : j / 2 * 16, right = (x.wide ? j / 2 * 32 : 0) + j % 2 * 16;
            if (right >= columns) {
                continue;
            }
            unsigned char *corner = plane + down * x.o.pitch + right * 2;
            CKCI_K_UNROLL(8)
            for (int i = 0; i < (int)U::SUMS; i += STEP) {
                const auto &c = sums.c[j / 2][j % 2];
                uint32_t w = ckci_k_s_half::template narrow<(int)E::TYPE == (int)CKCONV_BF16>(
                    c.v[i], c.v[i + STEP - 1]);
                unsigned char *to = corner + (S::row(i) * x.o.pitch + S::column(i) * 2);
                if (down + S::row(i) < rows) {
                    if constexpr (STEP == 2) {
                        *(uint32_t *)to = w;
                    } else {
                        *(uint16_t *)to = (uint16_t)w;
                    }
                }
            }
        }
    }

    /* With an epilogue, to where they go. */
    template <class S>
    static CKCI_K_MEMBER void write(const ckci_gpu_depth &p, const S &sums, int32_t channel,
                                    const ckci_k_place &q, int32_t rows)
    {
        const ckci_gpu_depth_box &x = p.box;
        constexpr int SUMS = (int)U::SUMS;
        float all[4 * SUMS];
        CKCI_K_UNROLL(32)
        for (int i = 0; i < 4 * SUMS; i++) {
            all[i] = sums.c[i / SUMS / 2][i / SUMS % 2].v[i % SUMS];
        }
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 4 * SUMS; i++) {
            const float v = ckci_k_pick<float, 4 * SUMS>(all, i);
            const int32_t group = i / SUMS / 2, part = i / SUMS % 2;
            const int32_t row = (x.wide ? 0 : group * 16) + S::row(i % SUMS);
            const int32_t column = (x.wide ? group * 32 : 0) + part * 16 + S::column(i % SUMS);
            const ckci_k_place at = {q.n, q.z, x.fold ? q.y : q.y + row,
                                     q.x + column + (x.fold ? 32 * row : 0)};
            if (row < rows && at.x < p.dim[2].length) {
                ckci_k_depth_write<false, float>(ckci_k_again(p), v, channel, at);
            }
        }
    }

    static CKCI_K_MEMBER void compute(const ckci_gpu_depth &p, const ckci_k_depth_block &b, lds &m,
                                      const ckci_k_depth_tile &t)
    {
        const ckci_gpu_depth_box &x = p.box;
        const int32_t left = p.dim[2].length - t.q.x;
        CKCI_K_UNROLL(1)
        for (int32_t c = ckci_k_same((int32_t)threadIdx.x / WAVE); c < b.channels; c += 256 / WAVE) {
            const int32_t plane = ckci_k_depth_plane(x, x.b, c);
            ckci_k_depth_bands<U, 2, 2> sums;
            sums.clear();
            if (p.bf16) {
                sums.template run<ckci_k_bf16>(x, m.bytes, plane, x.t.at + c * x.t.plane, p.dim[1].filter,
                                               t.at, t.rows, t.out_rows, x.fold ? 32 : left);
            } else {
                sums.template run<ckci_k_f16>(x, m.bytes, plane, x.t.at + c * x.t.plane, p.dim[1].filter,
                                              t.at, t.rows, t.out_rows, x.fold ? 32 : left);
            }
#if defined(__CUDA_ARCH__)
            __syncwarp();
#elif defined(__HIP_DEVICE_COMPILE__)
            __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
#elif defined(CKCI_SIMULATOR)
            (void)sim_meet(0, 0, 0, __LINE__);
#endif
            const ckci_gpu_depth &o = ckci_k_again(p);
            const int32_t rows = ckci_k_afresh(t.out_rows);
            if (o.o_same && o.bf16) {
                keep<ckci_k_bf16>(o.box, m.bytes + plane, sums, rows, o.box.fold ? 32 : left);
            } else if (o.o_same) {
                keep<ckci_k_f16>(o.box, m.bytes + plane, sums, rows, o.box.fold ? 32 : left);
            } else {
                write(o, sums, b.channel + c, t.q, rows);
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        ckci_k_depth_block kept(p);
        stage(p, kept, m);
        kept.hold();
        CKCI_K_UNROLL(1)
        for (int32_t i = kept.from; i < ckci_k_same(kept.to); i++) {
            const ckci_k_depth_block b = kept.scalar();
            {
                const ckci_gpu_depth &u = ckci_k_again(p), &v = ckci_k_again(p);
                ckci_k_depth_tile t(u, i);
                const ckci_k_depth_stretch in = {
                    b.channel, b.channels, t.q.n, t.q.z, t.y, t.rows, t.q.x - u.box.back, u.dim[2].read_len};
                ckci_k_depth_fill<WAVE>(u.box, u.box.b, u.a, in, m.bytes);
                ckci_k_copies_end();
                ckci_k_copies_wait<0>();
                __syncthreads();
                t.q.n = ckci_k_lane_afresh(t.q.n); /* only the epilogue needs them now */
                t.q.z = ckci_k_lane_afresh(t.q.z);
                t.q.y = ckci_k_lane_afresh(t.q.y);
                compute(v, b, m, t);
                __syncthreads();
            }
            const ckci_gpu_depth &w = ckci_k_again(p);
            if (w.o_same) {
                const ckci_k_depth_tile t(w, ckci_k_afresh(i));
                const ckci_k_depth_stretch out = {b.channel, b.channels, t.q.n, t.q.z,
                                                  t.q.y,     t.len_y,    t.q.x, w.dim[2].length};
                ckci_k_depth_empty<WAVE>(w.box, w.box.o, w.o.t, out, m.bytes);
                __syncthreads();
            }
        }
    }
};

/* bwd_weight. MX: 16 columns of the filter, G: 16 rows, SLOTS: channels of a wave. */
template <class U, int MX, int G> struct ckci_k_depth_matrix_weight_unit {
    typedef ckci_k_depth_matrix_lds lds;
    enum { WAVE = U::WAVE, WAVES = 256 / WAVE, SLOTS = (MX == 2 ? 8 : 16) / WAVES };
    typedef ckci_k_depth_bands<U, MX, G> bands;

    template <class E>
    static CKCI_K_MEMBER void multiply(const ckci_gpu_depth &p, int32_t channels, lds &m, bands *sums,
                                       int32_t len_y, int32_t above, int32_t rows)
    {
        const ckci_gpu_depth_box &x = p.box;
        CKCI_K_UNROLL(4)
        for (int s = 0; s < (int)SLOTS; s++) {
            int32_t c = (int32_t)threadIdx.x / WAVE + s * WAVES;
            if (c < channels) {
                sums[s].template run<E>(x, m.bytes, ckci_k_depth_plane(x, x.b, c),
                                        ckci_k_depth_plane(x, x.t, c), len_y, above, rows,
                                        x.fold ? 16 : p.dim[1].filter, x.fold ? 16 : p.dim[2].filter);
            }
        }
    }

    /* Inputs and dout of a tile come one after the other, so that the code stands once. */
    static CKCI_K_MEMBER void tiles(const ckci_gpu_depth &args, const ckci_k_depth_block &b, lds &m,
                                    bands *sums)
    {
        const ckci_gpu_depth_box &box = args.box;
        CKCI_K_UNROLL(1)
        for (int32_t i = b.from; i < b.to; i++) {
            const ckci_gpu_depth &p = ckci_k_again(args);
            const ckci_gpu_depth_box &x = ckci_k_again(box);
            const ckci_k_place q = ckci_k_depth_block::find(x, i);
            const int32_t top = q.y - x.pad_y, end = top + x.tile_y + p.dim[1].filter - 1;
            const int32_t y = top < 0 ? 0 : top,
                          rows = (end < p.dim[1].read_len ? end : p.dim[1].read_len) - y;
            const int32_t len_y = p.dim[1].length - q.y < x.tile_y ? p.dim[1].length - q.y : x.tile_y;
            CKCI_K_UNROLL(1)
            for (int douts = 0; douts < 2; douts++) {
                const ckci_k_depth_stretch stretch = {b.channel,
                                                      b.channels,
                                                      q.n,
                                                      q.z,
                                                      douts ? q.y : y,
                                                      douts ? len_y : rows,
                                                      q.x - (douts ? x.lead : x.back),
                                                      douts ? p.dim[2].length : p.dim[2].read_len};
                ckci_k_depth_fill<WAVE>(x, douts ? x.t : x.b, douts ? p.a : p.b, stretch, m.bytes);
            }
            ckci_k_copies_end();
            ckci_k_copies_wait<0>();
            __syncthreads();
            if (p.bf16) {
                multiply<ckci_k_bf16>(p, b.channels, m, sums, len_y, top - y, rows);
            } else {
                multiply<ckci_k_f16>(p, b.channels, m, sums, len_y, top - y, rows);
            }
            __syncthreads();
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        const ckci_k_depth_block b(p);
        bands sums[SLOTS];
        CKCI_K_UNROLL(4)
        for (int s = 0; s < (int)SLOTS; s++) {
            sums[s].clear();
        }
        if (threadIdx.x < CKCI_DEPTH_BOX_ZEROS / 4) {
            ((uint32_t *)m.bytes)[threadIdx.x] = 0;
        }
        tiles(p, b, m, sums);
        finish(p, b, (float *)m.bytes, sums);
    }

    /* All sums into LDS, [channel][row][column], one more for each row and channel so that neither lanes that
       store nor those that load meet in the banks; and from there to neighbouring channels. */
    static CKCI_K_MEMBER void finish(const ckci_gpu_depth &args, const ckci_k_depth_block &b, float *all,
                                     const bands *sums)
    {
        enum { COLUMNS = 16 * MX, ROWS = 16 * G, LINE = COLUMNS + 1, PITCH = ROWS * LINE + 1 };
        enum { CHANNELS = WAVES * SLOTS };
        static_assert(CHANNELS * PITCH * 4 <= CKCI_DEPTH_BOX_BYTES, "they fit");
        const ckci_gpu_depth &p = ckci_k_late(args);
        __syncthreads(); /* without tiles: the zeros */
        CKCI_K_UNROLL(4)
        for (int s = 0; s < (int)SLOTS; s++) {
            float *plane = all + ((int)threadIdx.x / WAVE + s * WAVES) * PITCH;
            CKCI_K_UNROLL(4)
            for (int j = 0; j < MX * G; j++) {
                CKCI_K_UNROLL(8)
                for (int i = 0; i < (int)U::SUMS; i++) {
                    plane[(j / MX * 16 + bands::row(i)) * LINE + j % MX * 16 + bands::column(i)] =
                        sums[s].c[j / MX][j % MX].v[i];
                }
            }
        }
        __syncthreads();
        CKCI_K_UNROLL(1)
        for (int32_t e = (int32_t)threadIdx.x; e < ROWS * COLUMNS * CHANNELS; e += 256) {
            const int32_t c = e % CHANNELS, at = e / CHANNELS;
            /* fold: MX is 1, and a row goes on in the next one */
            const int32_t row = p.box.fold ? 0 : at / COLUMNS, column = p.box.fold ? at : at % COLUMNS;
            if (c < b.channels && row < p.dim[1].filter && column < p.dim[2].filter) {
                ckci_k_depth_put<ckci_k_s_half, float>(p, all[c * PITCH + at + at / COLUMNS], b.part,
                                                       row * p.dim[2].filter + column, b.channel + c);
            }
        }
    }
};

/* The kernels, with the unit of the target; without one they are empty, and no plan takes them. */
#if defined(CKCI_SIMULATOR)
template <template <class> class Body> struct ckci_k_depth_by_unit {
    struct lds {
    };

    template <class U> static void with(const ckci_gpu_depth &p)
    {
        CKCI_K_LDS(ckci_k_depth_matrix_lds, m);
        Body<U>::run(p, m);
    }

    static void run(const ckci_gpu_depth &p, lds &)
    {
        int kind = sim_matrix_unit();
        if (kind == SIM_MFMA) {
            with<ckci_k_mfma16>(p);
        } else if (kind == SIM_WMMA) {
            with<ckci_k_wmma<11>>(p);
        } else if (kind == SIM_WMMA12) {
            with<ckci_k_wmma<12>>(p);
        } else if (kind == SIM_MMA || kind == SIM_WGMMA) {
            with<ckci_k_mma>(p);
        }
    }
};
#elif defined(CKCI_K_MFMA)
template <template <class> class Body> struct ckci_k_depth_by_unit : Body<ckci_k_mfma16> {
};
#elif defined(CKCI_K_WMMA)
template <template <class> class Body> struct ckci_k_depth_by_unit : Body<ckci_k_wmma<11>> {
};
#elif defined(CKCI_K_WMMA12)
template <template <class> class Body> struct ckci_k_depth_by_unit : Body<ckci_k_wmma<12>> {
};
#elif defined(CKCI_K_MMA)
template <template <class> class Body> struct ckci_k_depth_by_unit : Body<ckci_k_mma> {
};
#else
template <template <class> class Body> struct ckci_k_depth_by_unit {
    struct lds {
        int32_t unused;
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &, lds &)
    {
    }
};
#endif
template <class U> struct ckci_k_depth_matrix_small : ckci_k_depth_matrix_weight_unit<U, 1, 1> {
};
template <class U> struct ckci_k_depth_matrix_large : ckci_k_depth_matrix_weight_unit<U, 2, 2> {
};
struct ckci_k_depth_matrix : ckci_k_depth_by_unit<ckci_k_depth_matrix_unit> {
};
template <int LARGE> struct ckci_k_depth_matrix_weight;
template <> struct ckci_k_depth_matrix_weight<0> : ckci_k_depth_by_unit<ckci_k_depth_matrix_small> {
};
template <> struct ckci_k_depth_matrix_weight<1> : ckci_k_depth_by_unit<ckci_k_depth_matrix_large> {
};
template <> struct ckci_k_resident<ckci_k_depth_matrix> {
    enum { BLOCKS = 3 };
};
template <int LARGE> struct ckci_k_resident<ckci_k_depth_matrix_weight<LARGE>> {
    enum { BLOCKS = LARGE ? 2 : 3 };
};

/* The parts of 8 weights: 32 threads share a weight. */
template <class T> struct ckci_k_depth_sum {
    struct lds {
        T sum[256];
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        int32_t t = (int32_t)threadIdx.x, e = (int32_t)blockIdx.x * 8 + (t & 7), all = p.taps * p.g;
        const T *sums = (const T *)p.o.partial;
        T sum = 0;
        if (e < all) {
            CKCI_K_UNROLL(8)
            for (int32_t part = t >> 3; part < p.parts; part += 32) {
                sum += sums[(int64_t)part * all + e];
            }
        }
        m.sum[t] = sum;
        for (int32_t half = 128; half >= 8; half /= 2) {
            __syncthreads();
            if (t < half) {
                m.sum[t] += m.sum[t + half];
            }
        }
        if (t < 8 && e < all) {
            int32_t tap = ckci_k_divide(e, p.by_channels), channel = e - tap * p.g;
            const ckci_k_tap f = ckci_k_split_tap(p.dim, tap);
            ckci_k_write<T>(p.o, m.sum[t], channel, 0, 0, f.z, f.y, f.x);
        }
    }
};


/*------------------------------------------------------------------------------------------------------------
  >>k-pair
  conv_conv_fwd in one launch: the tile loop of the second, 1x1 convolution, whose left operand is not loaded
  but computed: each thread computes mid at four channels of one position (a direct sum, then scale, shift,
  operation and the rounding to the compute type) and stores it into LDS. mid never passes through memory; the
  blocks of the first columns copy it out when the caller asked. Every 64 output channels compute mid again,
  so this is for few output channels, cheap first convolutions, or no workspace.
*/

/* The axes of a block of a fwd convolution, without the code of bwd_data. */
CKCI_K_FN void ckci_k_go_forward(const ckci_gpu_conv &p, ckci_k_block &b)
{
    CKCI_K_UNROLL(3)
    for (int i = 0; i < 3; i++) {
        b.axis[i] = ckci_k_forward(p.dim[i]);
    }
}

/* From a position of the second convolution's result to the one of mid that a tap reads; false: padding. */
CKCI_K_FN bool ckci_k_mid_place(const ckci_gpu_conv &p, const ckci_k_axis axis[3], const ckci_k_tap &tap,
                                ckci_k_place *q)
{
    q->z = q->z * p.dim[0].read_step + axis[0].read0 + tap.z * p.dim[0].read_tap;
    q->y = q->y * p.dim[1].read_step + axis[1].read0 + tap.y * p.dim[1].read_tap;
    q->x = q->x * p.dim[2].read_step + axis[2].read0 + tap.x * p.dim[2].read_tap;
    return (uint32_t)q->z < (uint32_t)p.dim[0].read_len && (uint32_t)q->y < (uint32_t)p.dim[1].read_len &&
           (uint32_t)q->x < (uint32_t)p.dim[2].read_len;
}

/* mid at one position, channel of all groups; copies: store it too. */
template <class T>
CKCI_K_FN T ckci_k_mid(const ckci_gpu_pair &a, const ckci_k_place &q, int32_t channel, bool copies)
{
    const ckci_gpu_conv &p = ckci_k_again(a.first);
    ckci_k_axis axis[3] = {ckci_k_forward(p.dim[0]), ckci_k_forward(p.dim[1]), ckci_k_forward(p.dim[2])};
    ckci_k_hold(axis);
    axis[1].taps = ckci_k_lane_afresh(axis[1].taps);
    axis[2].taps = ckci_k_lane_afresh(axis[2].taps);
    int32_t group = ckci_k_divide(channel, p.by_columns), column = channel - group * p.columns;
    T v = ckci_k_direct_sum<T>(p, axis, group, column, q);
    v = ckci_k_finish<T>(p.o, v, group, q.n, column, q.z, q.y, q.x);
    if (copies) {
        ckci_k_put<T>(p.o, v, group, q.n, column, q.z, q.y, q.x);
    }
    return v;
}

template <class T, int S, int KT, int THREADS> struct ckci_k_pair_a {
    const ckci_gpu_pair &a;
    ckci_k_share s;
    ckci_k_place q;
    int32_t channel0, place;
    bool inside, copies;

    CKCI_K_MEMBER ckci_k_pair_a(const ckci_gpu_pair &pair, const ckci_k_block &b) : a(pair)
    {
        const ckci_gpu_conv &p = pair.second;
        s = ckci_k_make_share<S, THREADS>(true);
        q = ckci_k_row(b.axis, b.row + s.row);
        inside = q.n < p.n;
        inside = ckci_k_mid_place(p, b.axis, ckci_k_tap{0, 0, 0, 0}, &q) && inside;
        channel0 = b.group * p.red;
        copies = pair.write_mid && b.column == 0;
    }

    CKCI_K_MEMBER void fetch(int32_t k0)
    {
        place = k0;
    }

    CKCI_K_MEMBER void store(T *m) const
    {
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 4; i++) {
            int32_t k = place + s.first + i * s.step;
            T v = 0;
            if (inside && k < a.second.red) {
                v = ckci_k_mid<T>(a, q, channel0 + k, copies);
            }
            m[(s.first + i * s.step) * (S + 4) + s.row] = v;
        }
    }
};

template <class T> struct ckci_k_pair {
    typedef ckci_k_tile<T, 64, 16> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_pair &a, lds &m)
    {
        const ckci_gpu_conv &p = a.second;
        ckci_k_block b = ckci_k_find_block(p, 64, 64);
        ckci_k_go_forward(p, b);
        ckci_k_pair_a<T, 64, 16, 256> left(a, b);
        CKCI_K_UNROLL(3)
        for (int i = 0; i < 3; i++) { /* one tap */
            const ckci_divisor one = {1, 1, 0};
            b.axis[i].taps = 1;
            b.axis[i].tap0 = 0;
            b.axis[i].by_taps = one;
        }
        ckci_k_gather_b<T, 64, 16, 256> right(p, b, p.red);
        ckci_k_sums<T, 64, 16, 256> sums;
        sums.run(m, left, right, 0, p.red);
        ckci_k_finish_block<T, 64, 16, 256>(p, m, sums);
    }
};

/* The same without tiles, for sums in f64 and int32, and for second filters of more than one tap when there
   is no workspace: a thread owns one output and computes mid where it needs it. */
template <class T> struct ckci_k_recompute {
    struct lds {
        int32_t unused;
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_pair &a, lds &)
    {
        const ckci_gpu_conv &p = a.second;
        int32_t t = (int32_t)threadIdx.x;
        ckci_k_block b = ckci_k_find_block(p, 1, 1);
        ckci_k_go_forward(p, b);
        int32_t channel = b.column * p.lanes + (t & (p.lanes - 1)),
                row = b.row * (256 / p.lanes) + t / p.lanes;
        int32_t group = ckci_k_divide(channel, p.by_columns), column = channel - group * p.columns;
        ckci_k_place q = ckci_k_row(b.axis, row), o = q;
        if (group >= p.g || q.n >= p.n) {
            return;
        }
        int64_t wei = group * p.b.stride[0] + column * p.b_column;
        int32_t taps = b.axis[0].taps * b.axis[1].taps * b.axis[2].taps;
        T sum = 0;
        for (int32_t tap = 0; tap < taps; tap++) {
            const ckci_gpu_conv &u = ckci_k_again(p);
            ckci_k_go_forward(u, b);
            ckci_k_tap f = ckci_k_find_tap(u, b.axis, tap * u.red);
            q = o;
            if (!ckci_k_mid_place(u, b.axis, f, &q)) {
                continue;
            }
            int64_t at = wei + ckci_k_weight_at(u, b.axis, f);
            for (int32_t k = 0; k < u.red; k++) {
                const bool copies = a.write_mid && ckci_k_lane_afresh(column) == 0;
                T mid = ckci_k_mid<T>(a, q, group * u.red + k, copies);
                sum = ckci_k_fma(mid, ckci_k_value<T>(u.b, at), sum);
                at += u.b_red;
            }
        }
        ckci_k_write<T>(p.o, sum, group, o.n, column, o.z, o.y, o.x);
    }
};

/* ---- On matrix units: f16 and bf16, channels last, a depthwise or a small pointwise first convolution, a
   pointwise second one. A block owns P positions of the result and all of its channels (or a slice). They
   are strips of four neighbours along x; strips follow each other along x in a band of the image, then along
   y, so that the block's inputs are few more than its outputs. mid of these positions in all channels lies in
   LDS, in slabs of KB bytes of each row, as the unit's operands.
   Depthwise: a thread computes four channels of a strip; where neighbours share inputs, a window of six
   serves three taps of all four. The taps' weights lie in LDS, in f32. Pointwise: inputs lie in the last
   slabs of mid, and tiles of 128 channels are multiplied, finished, rounded and stored into their slabs; the
   last of them overwrite the inputs.
   Then mid is multiplied with tiles of 128 rows of the second weights, slab after slab. These are loaded one
   step ahead, across tiles too; sums pass through LDS on their way out, so that each store is 16 bytes.
   Where weights come through registers (AMD), everything but mid shares one place. Every output is one sum in
   a fixed order. */
#if defined(__HIP_DEVICE_COMPILE__)
typedef int ckci_k_int2 __attribute__((ext_vector_type(2)));
__device__ ckci_k_int2 ckci_k_buffer_load2(ckci_k_int4 window, int offset, int scalar_offset,
                                           int cache) __asm("llvm.amdgcn.raw.buffer.load.v2i32");
#endif

/* Eight bytes; see ckci_k_window_load. */
CKCI_K_FN ckci_k_uint2 ckci_k_window_load2(const ckci_k_window &w, int32_t offset)
{
#if defined(__HIP_DEVICE_COMPILE__)
    return ckci_k_cast<ckci_k_uint2>(ckci_k_buffer_load2(w.v, offset, 0, 0));
#else
    ckci_k_uint2 zero = {0, 0};
    return offset < 0 ? zero : *(const ckci_k_uint2 *)(w.base + offset);
#endif
}

/* Where a strip reads: coordinates and bytes (from the block's first image on) of the first tap of its first
   position; bits of the positions that exist in mid. */
struct ckci_k_pair_strip {
    int32_t z, y, x, at;
    uint32_t inside;
};

/* A step of a strip's taps: taps GROUP * g, ... of row (z, y) of the filter. */
struct ckci_k_pair_step {
    int32_t z, y, g;
};

template <class E, class U, int P, int C> struct ckci_k_pair_tiles {
    typedef ckci_k_grid<U, P, 128, 0> G;
    enum {
        KB = U::KB,
        SLAB = KB / 2,
        CHUNKS = KB / 16,
        EACH = 256 / CHUNKS, /* rows that the block handles at a time */
        R = P / EACH,
        SPAN = 64, /* channels of mid that a step of the depthwise convolution computes */
        B = 128 / EACH,
        TILE = 128 * KB,
        ROOM = 16384 /* of the first weights, and of sums on their way out */
    };
    static_assert(P % EACH == 0 && ROOM == G::WAVES * U::M * 32 * 4, "as laid out below");
    struct lds {
        alignas(1024) unsigned char mid[P * C * 2];
        unsigned char tiles[U::ASYNC ? 2 * TILE + ROOM : ROOM];
        int64_t output[P];
    };
    static_assert(2 * TILE <= ROOM || U::ASYNC, "tiles and weights share a place");

    typename U::sums sum[G::TM][G::TN];
    ckci_k_window weights;
    ckci_k_uint4 raw[B];
    int32_t steps, slabs, columns, channels, column_step; /* of the tiles that are being multiplied */

    static CKCI_K_MEMBER float *room(lds &m)
    {
        return (float *)(m.tiles + (U::ASYNC ? 2 * TILE : 0));
    }

    /* ---- Positions */

    /* Position `row` in the result and in mid; false: the second convolution's padding, or none. */
    static CKCI_K_MEMBER bool find(const ckci_gpu_pair &a, int32_t row, ckci_k_place *out, ckci_k_place *mid)
    {
        const ckci_gpu_conv &p = a.second;
        int32_t line = ckci_k_divide(row / 4, a.by_strips), band = ckci_k_divide(line, p.dim[1].count[0]);
        int32_t plane = ckci_k_divide(band, a.by_bands);
        out->n = ckci_k_divide(plane, p.dim[0].count[0]);
        out->z = plane - out->n * p.dim[0].length;
        out->y = line - band * p.dim[1].length;
        out->x = ((band - plane * (int32_t)a.by_bands.d) * (int32_t)a.by_strips.d + row / 4 -
                  line * (int32_t)a.by_strips.d) *
                     4 +
                 row % 4;
        mid->n = out->n;
        mid->z = out->z * p.dim[0].read_step - p.dim[0].pad;
        mid->y = out->y * p.dim[1].read_step - p.dim[1].pad;
        mid->x = out->x * p.dim[2].read_step - p.dim[2].pad;
        return out->n < p.n && out->x < p.dim[2].length && (uint32_t)mid->z < (uint32_t)p.dim[0].read_len &&
               (uint32_t)mid->y < (uint32_t)p.dim[1].read_len &&
               (uint32_t)mid->x < (uint32_t)p.dim[2].read_len;
    }

    static CKCI_K_MEMBER int32_t first_row(const ckci_gpu_pair &a)
    {
        return ckci_k_afresh(ckci_k_divide((int32_t)blockIdx.x, a.second.by_tiles_n)) * P;
    }

    static CKCI_K_MEMBER int32_t first_column(const ckci_gpu_pair &a)
    {
        int32_t work = (int32_t)blockIdx.x;
        return (work - ckci_k_divide(work, a.second.by_tiles_n) * a.second.tiles_n) * a.second.part;
    }

    static CKCI_K_MEMBER ckci_k_pair_strip strip(const ckci_gpu_pair &a, int32_t row, int32_t n0)
    {
        const ckci_gpu_conv &p = a.first;
        const int64_t *s = p.a.stride;
        ckci_k_pair_strip r;
        ckci_k_place out, q;
        uint32_t first = find(a, row, &out, &q);
        r.inside = 0;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            int32_t x = q.x + i * a.second.dim[2].read_step;
            bool line = out.n < a.second.n && (uint32_t)q.z < (uint32_t)a.second.dim[0].read_len &&
                        (uint32_t)q.y < (uint32_t)a.second.dim[1].read_len;
            bool good = line && out.x + i < a.second.dim[2].length &&
                        (uint32_t)x < (uint32_t)a.second.dim[2].read_len;
            r.inside |= (i == 0 ? first : (uint32_t)good) << i;
        }
        r.z = q.z * p.dim[0].read_step - p.dim[0].pad;
        r.y = q.y * p.dim[1].read_step - p.dim[1].pad;
        r.x = q.x * p.dim[2].read_step - p.dim[2].pad;
        r.at = CKCI_K_HALF * (int32_t)((q.n - n0) * s[1] + r.z * s[3] + r.y * s[4] + r.x * s[5]);
        if (out.n >= a.second.n) {
            r.y = INT32_MIN / 2; /* no row of an image past the last one is read */
        }
        return r;
    }

    /* ---- mid */

    static CKCI_K_MEMBER unsigned char *spot_of(lds &m, int32_t row, int32_t channel)
    {
        return m.mid + channel / SLAB * (P * KB) + ckci_k_spot<KB>(row, channel % SLAB * CKCI_K_HALF / 16) +
               channel % 8 * CKCI_K_HALF;
    }

    /* Four finished channels of a row into their slab. */
    static CKCI_K_MEMBER void keep(lds &m, int32_t row, int32_t channel, const ckci_k_uint2 &v)
    {
        *(ckci_k_uint2 *)spot_of(m, row, channel) = v;
    }

    /* And into memory, for a caller who wants a copy: of several rows, or of several fours of channels. */
    static CKCI_K_MEMBER void copy(const ckci_gpu_pair &pair, lds &m, int32_t row, int32_t rows,
                                   int32_t channel, int32_t fours)
    {
        const ckci_gpu_pair &a = ckci_k_late(pair);
        if (!a.write_mid || first_column(a) != 0) {
            return;
        }
        CKCI_K_UNROLL(1)
        for (int32_t i = 0; i < rows * fours; i++) {
            const int32_t r = row + (rows > 1 ? i : 0), c = channel + (rows > 1 ? 0 : i * 4);
            if (c < a.second.red) {
                copy_out(ckci_k_again(a), spot_of(m, r, c), first_row(a) + r, c);
            }
        }
    }

    static CKCI_K_MEMBER void copy_out(const ckci_gpu_pair &a, const unsigned char *v, int32_t row,
                                       int32_t channel)
    {
        ckci_k_place q, out;
        if (!find(a, row, &out, &q)) {
            return;
        }
        const ckci_tensor &t = a.first.o.t;
        if (a.mid_vec) {
            int64_t at =
                channel + q.n * t.stride[1] + q.z * t.stride[3] + q.y * t.stride[4] + q.x * t.stride[5];
            *(ckci_k_uint2 *)(t.p + at * CKCI_K_HALF) = *(const ckci_k_uint2 *)v;
            return;
        }
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 4; i++) {
            int32_t g = ckci_k_divide(channel + i, a.first.by_columns);
            ckci_k_put<float>(a.first.o, ckci_k_widen(E::TYPE, ((const uint16_t *)v)[i]), g, q.n,
                              channel + i - g * a.first.columns, q.z, q.y, q.x);
        }
    }

    /* Scale, shift and operation of the sums of four positions in four channels. */
    static CKCI_K_MEMBER void finish_mid(const ckci_gpu_target &o, int32_t channel, float *v)
    {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < 16; i++) {
            v[i] = o.scale ? v[i] * ((const float *)o.scale)[channel + i % 4] : v[i];
            v[i] = o.shift ? v[i] + ((const float *)o.shift)[channel + i % 4] : v[i];
        }
        if (o.t.op.kind == CKCONV_RELU) {
            CKCI_K_UNROLL(16)
            for (int i = 0; i < 16; i++) {
                v[i] = v[i] < 0 ? 0.f : v[i];
            }
        } else if (o.t.op.kind != CKCONV_PASS) { /* one copy of that code */
            const ckci_gpu_target &u = ckci_k_late(o);
            CKCI_K_UNROLL(1)
            for (int i = 0; i < 16; i++) {
                float x = ckci_k_element(u.t.op, ckci_k_pick<float, 16>(v, i), 0.f);
                CKCI_K_UNROLL(16)
                for (int j = 0; j < 16; j++) {
                    v[j] = i == j ? x : v[j];
                }
            }
        }
    }

    static CKCI_K_MEMBER ckci_k_uint2 round(const float *v)
    {
        ckci_k_uint2 r;
        r.x = ckci_k_two(E::TYPE, ckci_k_bits(v[0]), ckci_k_bits(v[1]));
        r.y = ckci_k_two(E::TYPE, ckci_k_bits(v[2]), ckci_k_bits(v[3]));
        return r;
    }

    /* Weights of SPAN channels, [row of the filter][tap][channel]; rows are filled up to whole groups of
       taps, these and missing channels with zeros. */
    static CKCI_K_MEMBER void stage(const ckci_gpu_pair &a, int32_t channel0, float *w)
    {
        const ckci_gpu_conv &p = a.first;
        const int64_t *s = p.b.stride;
        const int32_t taps = (int32_t)a.by_taps.d;
        for (int32_t e = (int32_t)threadIdx.x; e < taps * SPAN; e += 256) {
            int32_t c = ckci_k_divide(e, a.by_taps), tap = e - c * taps, channel = channel0 + c;
            int32_t line = ckci_k_divide(tap, a.by_row), x = tap - line * (int32_t)a.by_row.d;
            int32_t z = ckci_k_divide(line, p.dim[1].taps[0]), y = line - z * p.dim[1].filter;
            float v = 0;
            if (x < p.dim[2].filter && channel < p.g) {
                v = ckci_k_value<float>(p.b, channel * s[0] + z * s[3] + y * s[4] + x * s[5]);
            }
            w[tap * SPAN + c] = v;
        }
    }

    /* What a step of the taps needs: WINDOW neighbours of a strip, or with GROUP 1 one for each position. */
    template <int GROUP>
    static CKCI_K_MEMBER void load(const ckci_gpu_conv &p, const ckci_k_window &in,
                                   const ckci_k_pair_strip &s, const ckci_k_pair_step &t, int32_t channel,
                                   int32_t step, bool some, ckci_k_uint2 (&raw)[3 + GROUP])
    {
        int32_t z = s.z + t.z * p.dim[0].read_tap, y = s.y + t.y * p.dim[1].read_tap,
                x = t.g * GROUP * p.dim[2].read_tap;
        bool good =
            some && (uint32_t)z < (uint32_t)p.dim[0].read_len && (uint32_t)y < (uint32_t)p.dim[1].read_len;
        int32_t along = CKCI_K_HALF * (int32_t)p.a.stride[5];
        int32_t at = s.at + channel * CKCI_K_HALF + x * along +
                     CKCI_K_HALF * (t.z * p.dim[0].read_tap * (int32_t)p.a.stride[3] +
                                    t.y * p.dim[1].read_tap * (int32_t)p.a.stride[4]);
        x += s.x;
        CKCI_K_UNROLL(6)
        for (int i = 0; i < 3 + GROUP; i++) {
            raw[i] =
                ckci_k_window_load2(in, good && (uint32_t)x < (uint32_t)p.dim[2].read_len ? at : INT32_MIN);
            x += step;
            at += step * along;
        }
    }

    static CKCI_K_MEMBER void next(const ckci_gpu_pair &a, ckci_k_pair_step *t)
    {
        t->g++;
        if (t->g == a.groups) {
            t->g = 0;
            t->y++;
        }
        if (t->y == a.first.dim[1].filter) {
            t->y = 0;
            t->z++;
        }
    }

    /* The sums of a strip in four channels: [position][channel]. */
    template <int GROUP>
    static CKCI_K_MEMBER void sum_taps(const ckci_gpu_pair &a, const ckci_k_window &in,
                                       const ckci_k_pair_strip &s, int32_t channel, const float *w,
                                       float *sum)
    {
        enum { BF16 = (int)E::TYPE == (int)CKCONV_BF16 };
        const ckci_gpu_conv &p = a.first;
        const int32_t steps = p.dim[0].filter * p.dim[1].filter * a.groups,
                      step = GROUP == 1 ? p.dim[2].read_step * a.second.dim[2].read_step : 1;
        const bool some = channel < a.second.red;
        ckci_k_pair_step t = {0, 0, 0};
        ckci_k_uint2 ahead[3 + GROUP];
        load<GROUP>(p, in, s, t, channel, step, some, ahead);
        __syncthreads(); /* the weights are there */
        CKCI_K_UNROLL(1)
        for (int32_t i = 0; i < steps; i++) {
            float x[3 + GROUP][4];
            CKCI_K_UNROLL(6)
            for (int j = 0; j < 3 + GROUP; j++) {
                ckci_k_s_half::widen<BF16>(ahead[j].x, x[j]);
                ckci_k_s_half::widen<BF16>(ahead[j].y, x[j] + 2);
            }
            next(a, &t);
            if (i + 1 < steps) {
                load<GROUP>(p, in, s, t, channel, step, some, ahead);
            }
            CKCI_K_UNROLL(3)
            for (int j = 0; j < GROUP; j++) {
                const ckci_k_uint4 f = *(const ckci_k_uint4 *)(w + (i * GROUP + j) * SPAN);
                const float v[4] = {ckci_k_float(f.x), ckci_k_float(f.y), ckci_k_float(f.z),
                                    ckci_k_float(f.w)};
                CKCI_K_UNROLL(16)
                for (int e = 0; e < 16; e++) {
                    sum[e] = ckci_k_fma(x[j + e / 4][e % 4], v[e % 4], sum[e]);
                }
            }
        }
    }

    static CKCI_K_MEMBER void depthwise(const ckci_gpu_pair &a, const ckci_k_window &in, int32_t n0, lds &m)
    {
        const int32_t chunk = (int32_t)threadIdx.x % 16, row = (int32_t)threadIdx.x / 16 * 4;
        const ckci_k_pair_strip s = strip(a, first_row(a) + row, n0);
        float *w = room(m);
        CKCI_K_UNROLL(1)
        for (int32_t channel0 = 0; channel0 < a.second.red; channel0 += SPAN) {
            const int32_t channel = channel0 + chunk * 4;
            float sum[16];
            CKCI_K_UNROLL(16)
            for (int i = 0; i < 16; i++) {
                sum[i] = 0;
            }
            if (channel0 > 0) {
                __syncthreads();
            }
            stage(a, channel0, w);
            if (a.groups * 3 == (int32_t)a.by_row.d) {
                sum_taps<3>(a, in, s, channel, w + chunk * 4, sum);
            } else {
                sum_taps<1>(a, in, s, channel, w + chunk * 4, sum);
            }
            if (channel < a.second.red) {
                finish_mid(a.first.o, channel, sum);
            }
            if (channel < (a.second.red + SLAB - 1) / SLAB * SLAB) {
                CKCI_K_UNROLL(4)
                for (int i = 0; i < 4; i++) {
                    ckci_k_uint2 v = round(sum + i * 4), zero = {0, 0};
                    keep(m, row + i, channel, s.inside >> i & 1 && channel < a.second.red ? v : zero);
                }
                copy(a, m, row, 4, channel, 1);
            }
        }
    }

    /* The inputs of a pointwise first convolution into the slabs from `slab` on. */
    static CKCI_K_MEMBER void read(const ckci_gpu_pair &a, const ckci_k_window &in, int32_t n0, int32_t slab,
                                   lds &m)
    {
        const ckci_gpu_conv &p = a.first;
        const int32_t chunk = (int32_t)threadIdx.x % CHUNKS, lane = (int32_t)threadIdx.x / CHUNKS;
        CKCI_K_UNROLL(1)
        for (int r = 0; r < R; r++) {
            const ckci_k_pair_strip s = strip(a, first_row(a) + lane + r * EACH, n0);
            const bool good = (s.inside & 1) && (uint32_t)s.z < (uint32_t)p.dim[0].read_len &&
                              (uint32_t)s.y < (uint32_t)p.dim[1].read_len &&
                              (uint32_t)s.x < (uint32_t)p.dim[2].read_len;
            for (int32_t c = chunk * 8; c < (p.red + SLAB - 1) / SLAB * SLAB; c += SLAB) {
                *(ckci_k_uint4 *)(m.mid + (slab + c / SLAB) * (P * KB) +
                                  ckci_k_spot<KB>(lane + r * EACH, chunk)) =
                    ckci_k_window_load(in, good && c < p.red ? s.at + c * CKCI_K_HALF : INT32_MIN);
            }
        }
    }

    /* ---- Tiles of weights */

    CKCI_K_MEMBER void begin(const ckci_gpu_conv &p, int32_t column, int32_t count, unsigned char *tiles)
    {
        (void)tiles;
        weights = ckci_k_make_window(p.b.p + CKCI_K_HALF * (column * p.b_column));
        columns = ckci_k_lane_afresh(count);
        channels = ckci_k_lane_afresh(p.red);
        column_step = ckci_k_lane_afresh(CKCI_K_HALF * (int32_t)p.b_column);
        slabs = (p.red + SLAB - 1) / SLAB;
        steps = (count + 127) / 128 * slabs;
        if constexpr (U::ASYNC) {
            fetch(0, 0, tiles);
        }
    }

    /* Slab `slab` of tile `tile`: copied into LDS, or under way in registers. */
    CKCI_K_MEMBER void fetch(int32_t tile, int32_t slab, unsigned char *to)
    {
        const int32_t chunk = (int32_t)threadIdx.x % CHUNKS, lane = (int32_t)threadIdx.x / CHUNKS;
        const int32_t channel = slab * SLAB + chunk * 8;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < B; i++) {
            int32_t row = lane + i * EACH, column = tile * 128 + row;
            bool good = channel < channels && column < columns;
            int32_t at = good ? column * column_step + channel * CKCI_K_HALF : INT32_MIN;
            if constexpr (U::ASYNC) {
#if defined(CKCI_K_MMA)
                ckci_k_copy(to + ckci_k_spot<KB>(row, chunk), weights, good ? at : 0, good ? 16 : 0);
#endif
            } else {
                raw[i] = ckci_k_window_load(weights, at);
            }
        }
#if defined(CKCI_K_MMA)
        if constexpr (U::ASYNC) {
            ckci_k_copies_end();
        }
#endif
        (void)to;
    }

    CKCI_K_MEMBER void put(unsigned char *to) const
    {
        const int32_t chunk = (int32_t)threadIdx.x % CHUNKS, lane = (int32_t)threadIdx.x / CHUNKS;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < B; i++) {
            *(ckci_k_uint4 *)(to + ckci_k_spot<KB>(lane + i * EACH, chunk)) = raw[i];
        }
    }

    CKCI_K_MEMBER void multiply(const unsigned char *slab, const unsigned char *tile)
    {
        int wave = (int)threadIdx.x / U::WAVE, row = wave / G::WN * G::ROWS,
            column = wave % G::WN * G::COLUMNS;
        CKCI_K_UNROLL(8)
        for (int at = 0; at < U::KB; at += U::STEP) {
            typename U::operand a[G::TM], b[G::TN];
            CKCI_K_UNROLL(8)
            for (int i = 0; i < G::TM; i++) {
                a[i] = U::load(slab, row + i * U::M, at);
            }
            CKCI_K_UNROLL(8)
            for (int j = 0; j < G::TN; j++) {
                b[j] = U::load(tile, column + j * U::N, at);
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < G::TM; i++) {
                CKCI_K_UNROLL(8)
                for (int j = 0; j < G::TN; j++) {
                    U::template multiply<E>(sum[i][j], a[i], b[j]);
                }
            }
        }
    }

    CKCI_K_MEMBER void clear()
    {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < G::TM * G::TN; i++) {
            CKCI_K_UNROLL(16)
            for (int e = 0; e < U::SUMS; e++) {
                sum[i / G::TN][i % G::TN].v[e] = 0;
            }
        }
    }

    /* All tiles; out(row, column, eight sums in LDS). The first fetch is under way (begin). */
    template <class Out> CKCI_K_MEMBER void run_tiles(lds &m, int32_t slab0, const Out &out)
    {
        int32_t tile = 0, slab = 0;
        if constexpr (!U::ASYNC) {
            fetch(0, 0, NULL);
            __syncthreads(); /* the first weights share their place */
            put(m.tiles);
        }
        clear();
        CKCI_K_UNROLL(1)
        for (int32_t s = 0; s < steps; s++) {
            bool last = slab + 1 == slabs;
            int32_t next_tile = last ? tile + 1 : tile, next = last ? 0 : slab + 1;
            unsigned char *other = m.tiles + (s + 1) % 2 * TILE;
#if defined(CKCI_K_MMA)
            if constexpr (U::ASYNC) {
                ckci_k_copies_wait<0>();
            }
#endif
            __syncthreads();
            if (s + 1 < steps) {
                fetch(next_tile, next, other);
            }
            multiply(m.mid + (slab0 + slab) * (P * KB), m.tiles + s % 2 * TILE);
            if (last) {
                write(room(m), tile * 128, out);
                clear();
            }
            if constexpr (!U::ASYNC) {
                if (last) {
                    __syncthreads();
                }
                if (s + 1 < steps) {
                    put(other);
                }
            }
            tile = next_tile;
            slab = next;
        }
    }

    /* Sums through LDS, 32 columns of M rows for each wave at a time, always from the first sums, which the
       next ones follow, so that `out` stands once; eights of columns are permuted. */
    template <class Out> CKCI_K_MEMBER void write(float *place, int32_t column0, const Out &out)
    {
        enum { EACH = 32 / U::N, STRIPS = G::TN / EACH, ALL = G::TM * G::TN };
        int wave = (int)threadIdx.x / U::WAVE, lane = (int)threadIdx.x % U::WAVE;
        float *strip = place + wave * U::M * 32;
        column0 = ckci_k_lane_afresh(column0 + wave % G::WN * G::COLUMNS);
        CKCI_K_UNROLL(1)
        for (int q = 0; q < G::TM * STRIPS; q++) {
            __syncthreads();
            CKCI_K_UNROLL(4)
            for (int s = 0; s < EACH; s++) {
                CKCI_K_UNROLL(16)
                for (int e = 0; e < U::SUMS; e++) {
                    int row = U::row(e), column = s * U::N + U::column(e);
                    strip[row * 32 + (column ^ (row & 3) * 8)] = sum[0][s].v[e];
                }
            }
            CKCI_K_UNROLL(16)
            for (int s = 0; s + EACH < ALL; s++) {
                sum[s / G::TN][s % G::TN] = sum[(s + EACH) / G::TN][(s + EACH) % G::TN];
            }
            __syncthreads();
            CKCI_K_UNROLL(1)
            for (int e = lane; e < U::M * 4; e += U::WAVE) {
                int row = e / 4, column = e % 4 * 8;
                out(wave / G::WN * G::ROWS + q / STRIPS * U::M + row, column0 + q % STRIPS * 32 + column,
                    strip + row * 32 + (column ^ (row & 3) * 8));
            }
        }
    }

    /* A pointwise first convolution's tile is finished, rounded and kept. */
    static CKCI_K_MEMBER void keep_sums(const ckci_gpu_pair &pair, lds &m, int32_t row, int32_t channel,
                                        float *v)
    {
        const ckci_gpu_pair &a = ckci_k_late(pair);
        const ckci_gpu_target &o = a.first.o;
        ckci_k_place out, q;
        ckci_k_uint2 low = {0, 0}, high = {0, 0};
        if (channel >= (a.second.red + SLAB - 1) / SLAB * SLAB) {
            return;
        }
        if (channel < a.second.red && find(a, first_row(a) + row, &out, &q)) {
            if (o.t.op.kind != CKCONV_PASS || o.scale || o.shift) {
                CKCI_K_UNROLL(1)
                for (int i = 0; i < 8; i++) {
                    v[i] = ckci_k_finish<float>(o, v[i], 0, 0, channel + i, 0, 0, 0);
                }
            }
            low = round(v);
            high = round(v + 4);
        }
        keep(m, row, channel, low);
        keep(m, row, channel + 4, high);
        copy(a, m, row, 1, channel, 2);
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_pair &pair, lds &m)
    {
        ckci_k_pair_tiles f;
        {
            const ckci_gpu_pair &a = pair;
            ckci_k_place start, q;
            find(a, first_row(a), &start, &q);
            const ckci_k_window in =
                ckci_k_make_window(a.first.a.p + CKCI_K_HALF * (start.n * a.first.a.stride[1]));
            if (a.pointwise) {
                int32_t slab0 = (a.second.red + 127) / 128 * (128 / SLAB) - (a.first.red + SLAB - 1) / SLAB;
                f.begin(a.first, 0, a.first.columns, m.tiles);
                read(a, in, start.n, slab0, m);
                f.run_tiles(m, slab0,
                            [&](int row, int column, float *v) { keep_sums(a, m, row, column, v); });
                __syncthreads();
            }
            int32_t column = first_column(a), count = a.second.columns - column;
            f.begin(a.second, column, count < a.second.part ? count : a.second.part, m.tiles);
            if (!ckci_k_again(a).pointwise) {
                depthwise(a, in, start.n, m);
            }
        }
        const ckci_gpu_pair &a = ckci_k_late(pair);
        const ckci_gpu_conv &p = a.second;
        const ckci_tensor &t = p.o.t;
        const bool plain = p.o_vec && t.op.kind == CKCONV_PASS && !p.o.scale && !p.o.shift && !p.o.compute;
        const int32_t row0 = first_row(a), column0 = first_column(a), size = ckci_k_size(t.dtype);
        ckci_k_place q, unused;
        __syncthreads();
        if ((int32_t)threadIdx.x < P) {
            find(a, row0 + (int32_t)threadIdx.x, &q, &unused);
            m.output[threadIdx.x] =
                q.n >= p.n || q.x >= p.dim[2].length
                    ? -1
                    : q.n * t.stride[1] + q.z * t.stride[3] + q.y * t.stride[4] + q.x * t.stride[5];
        }
        f.run_tiles(m, 0, [&](int row, int column, float *v) {
            int64_t at = m.output[row];
            if (at < 0 || column + column0 >= p.columns) {
                return;
            }
            column += column0;
            if (plain) {
                ckci_k_store8(t.dtype, t.p + (at + column) * size, v);
            } else {
                ckci_k_place o, mid;
                find(a, row0 + row, &o, &mid);
                ckci_k_write8(p, v, 8, 0, o.n, column, p.columns, o.z, o.y, o.x);
            }
        });
    }
};

/* The kernel, with the unit of the target; without one it is empty, and no plan takes it. */
template <class E> struct ckci_k_pair_matrix {
#if defined(CKCI_SIMULATOR)
    struct lds {
    };

    template <class U, int C> static void with(const ckci_gpu_pair &p)
    {
        typedef ckci_k_pair_tiles<E, U, 64, C> body;
        typedef typename body::lds body_lds;
        CKCI_K_LDS(body_lds, m);
        body::run(p, m);
    }

    static void run(const ckci_gpu_pair &p, lds &)
    {
        int kind = sim_matrix_unit();
        if (kind == SIM_MFMA) {
            with<ckci_k_mfma, CKCI_PAIR_AMD>(p);
        } else if (kind == SIM_WMMA) {
            with<ckci_k_wmma<11>, CKCI_PAIR_AMD>(p);
        } else if (kind == SIM_WMMA12) {
            with<ckci_k_wmma<12>, CKCI_PAIR_AMD>(p);
        } else if (kind == SIM_MMA || kind == SIM_WGMMA) {
            with<ckci_k_mma, CKCI_PAIR_NVIDIA>(p);
        }
    }
#elif defined(CKCI_K_MFMA) || defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12) || defined(CKCI_K_MMA)
#if defined(CKCI_K_MFMA)
    typedef ckci_k_pair_tiles<E, ckci_k_mfma, 64, CKCI_PAIR_AMD> body;
#elif defined(CKCI_K_WMMA)
    typedef ckci_k_pair_tiles<E, ckci_k_wmma<11>, 64, CKCI_PAIR_AMD> body;
#elif defined(CKCI_K_WMMA12)
    typedef ckci_k_pair_tiles<E, ckci_k_wmma<12>, 64, CKCI_PAIR_AMD> body;
#else
    typedef ckci_k_pair_tiles<E, ckci_k_mma, 64, CKCI_PAIR_NVIDIA> body;
#endif
    typedef typename body::lds lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_pair &p, lds &m)
    {
        body::run(p, m);
    }
#else
    struct lds {
        int32_t unused;
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_pair &, lds &)
    {
    }
#endif
};

template <class E> struct ckci_k_resident<ckci_k_pair_matrix<E>> {
    enum { BLOCKS = 2 };
};


/*------------------------------------------------------------------------------------------------------------
  >>k-norm
  Group norm. A block owns a part of the positions of a few neighbouring groups (set) of one n; a thread walks
  whole channels of them, or every lanes_p-th position of one, so what belongs to a channel stays in
  registers.
  Statistics take one pass, in double: sums of x - p and of its square, p the first number of the (n, g); they
  just add up over threads and parts, in LDS in a fixed tree. Since (p - mean)^2 is at most count * variance,
  little is lost where |mean| >> deviation. The mean is then two numbers of type T, hi + lo: x - hi is nearly
  exact, and lo is small.
  Wide kernels (f16, bf16, f32, where tensors are dense): a lane takes eight numbers, of neighbouring channels
  (last) or of neighbouring positions (planes: channels first). Channels last, neighbouring groups are one set
  where one is narrow. What is read twice comes from the caches the second time, as far as they reach; loads
  are one step ahead. On NVIDIA, y of planes keeps x in LDS instead, in that of a cluster's blocks where one
  has too little: they leave their sums for each other in workspace.
  Backward: dy' is dy with the activation undone; sums of dy' and dy'*xhat per channel give dgamma and dbeta
  (norm_param adds them over n in order) and, weighted with gamma, the two means that dx takes.
*/
enum { CKCI_K_NORM_RUN = 4 };

/* Any tensors; wide, channels last; wide, channels first. */
enum { CKCI_K_NORM_ANY = 0, CKCI_K_NORM_LAST = 1, CKCI_K_NORM_PLANES = 2 };

/* Sums of x - pivot and of its square. */
struct ckci_k_moments {
    double sum, square;
};

template <class T> struct ckci_k_norm_lds {
    union {
        ckci_k_moments of[256];
        T sum[2][256];                        /* of dy' and dy'*xhat */
        T cell[2][8 * 256 / (sizeof(T) / 4)]; /* wide: the same of eight channels of each thread */
        double moment[8 * 256];
    } u;
    T total[2][256];            /* wide: of each group, weighted */
    T hi[256], lo[256], r[256]; /* of each group: mean, inverse deviation */
    T mean[2][256];             /* of each group: means that dx takes; wide: its level and slope */
};

/* What a block owns, and this thread's place in it. */
struct ckci_k_slab {
    enum { KEPT = 0 };
    int32_t n, part, from, to; /* positions */
    int32_t g0, groups, columns;
    int32_t lc, lp;
    int32_t active;
};

CKCI_K_FN ckci_k_slab ckci_k_find_slab(const ckci_gpu_norm &p, int32_t block)
{
    ckci_k_slab s;
    int32_t t = (int32_t)threadIdx.x, rest = ckci_k_divide(block, p.by_sets);
    s.g0 = (block - rest * p.sets) * p.set;
    s.n = ckci_k_divide(rest, p.by_parts);
    s.part = rest - s.n * p.parts;
    s.from = s.part * p.part + (s.part < p.part_rest ? s.part : p.part_rest);
    s.to = s.from + p.part + (s.part < p.part_rest ? 1 : 0);
    s.to = s.to < p.space ? s.to : p.space;
    s.groups = p.g - s.g0 < p.set ? p.g - s.g0 : p.set;
    s.columns = s.groups * p.c;
    int32_t slow = ckci_k_divide(t, p.by_fast), fast = t - slow * (p.along_x ? p.lanes_p : p.lanes_c);
    s.lc = p.along_x ? slow : fast;
    s.lp = p.along_x ? fast : slow;
    s.active = p.along_x ? slow < p.lanes_c : slow < p.lanes_p;
    return s;
}

/* One whose x lies in LDS: what a thread reads, place after place, column after column, for itself. */
struct ckci_k_kept_slab : ckci_k_slab {
    enum { KEPT = 1 };
    unsigned char *x;
    int32_t places; /* in a column */
};

/* The block's number where another kernel has read the tensors: the last ones are first, since what they read
   is still in the caches. */
CKCI_K_FN int32_t ckci_k_norm_block(const ckci_gpu_norm &p)
{
    const int32_t block = (int32_t)blockIdx.x;
    return p.parts > 1 ? p.n * p.sets * p.parts - 1 - block : block;
}

CKCI_K_FN int64_t ckci_k_norm_base(const ckci_tensor &t, const ckci_k_slab &s, int32_t group, int32_t c)
{
    return (s.g0 + group) * t.stride[0] + s.n * t.stride[1] + c * t.stride[2];
}

/* A run: positions pos, pos + lanes_p, ... below `to` of one channel. */
CKCI_K_FN void ckci_k_norm_places(const ckci_gpu_norm &p, const ckci_tensor &t, int64_t base, int32_t pos,
                                  int64_t *at)
{
    const int32_t apart = ckci_k_afresh(p.lanes_p);
    if (p.flat) {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < CKCI_K_NORM_RUN; i++) {
            at[i] = base + (pos + i * apart) * t.stride[5];
        }
        return;
    }
    CKCI_K_UNROLL(8)
    for (int i = 0; i < CKCI_K_NORM_RUN; i++) {
        int32_t q = pos + i * apart, row = ckci_k_divide(q, p.by_x), z = ckci_k_divide(row, p.by_y);
        int32_t x = q - row * (int32_t)p.by_x.d, y = row - z * (int32_t)p.by_y.d;
        at[i] = base + z * t.stride[3] + y * t.stride[4] + x * t.stride[5];
    }
}

/* Missing numbers are 0. All loads come first, so that they are under way together. */
template <class T>
CKCI_K_FN void ckci_k_norm_load(const ckci_gpu_norm &p, const ckci_tensor &t, int64_t base, int32_t pos,
                                int32_t to, T *v)
{
    int64_t at[CKCI_K_NORM_RUN];
    const int32_t apart = ckci_k_afresh(p.lanes_p);
    ckci_k_norm_places(p, t, base, pos, at);
    if constexpr (sizeof(T) == 8) {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < CKCI_K_NORM_RUN; i++) {
            v[i] = pos + i * apart < to ? ((const double *)t.p)[at[i]] : 0;
        }
    } else if (t.dtype == CKCONV_F32) {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < CKCI_K_NORM_RUN; i++) {
            v[i] = pos + i * apart < to ? ((const float *)t.p)[at[i]] : 0;
        }
    } else {
        uint32_t bits[CKCI_K_NORM_RUN];
        CKCI_K_UNROLL(8)
        for (int i = 0; i < CKCI_K_NORM_RUN; i++) {
            bits[i] = pos + i * apart < to ? ((const uint16_t *)t.p)[at[i]] : 0;
        }
        CKCI_K_UNROLL(8)
        for (int i = 0; i < CKCI_K_NORM_RUN; i++) {
            v[i] = t.dtype == CKCONV_F16 ? ckci_k_half_float(bits[i]) : ckci_k_float(bits[i] << 16);
        }
    }
}

template <class T>
CKCI_K_FN void ckci_k_norm_store(const ckci_gpu_norm &p, const ckci_tensor &t, int64_t base, int32_t pos,
                                 int32_t to, const T *v)
{
    int64_t at[CKCI_K_NORM_RUN];
    const int32_t apart = ckci_k_afresh(p.lanes_p);
    ckci_k_norm_places(p, t, base, pos, at);
    CKCI_K_UNROLL(8)
    for (int i = 0; i < CKCI_K_NORM_RUN; i++) {
        if (pos + i * apart >= to) {
            break;
        }
        if constexpr (sizeof(T) == 8) {
            ((double *)t.p)[at[i]] = v[i];
        } else if (t.dtype == CKCONV_F32) {
            ((float *)t.p)[at[i]] = v[i];
        } else {
            ((uint16_t *)t.p)[at[i]] =
                (uint16_t)(t.dtype == CKCONV_F16 ? ckci_k_float_half(v[i]) : ckci_k_float_bf16(v[i]));
        }
    }
}

/* gamma or beta of a channel of all groups */
template <class T>
CKCI_K_FN T ckci_k_norm_factor(const ckci_gpu_norm &p, const unsigned char *vector, int32_t channel,
                               T missing)
{
    if (!vector) {
        return missing;
    }
    if constexpr (sizeof(T) == 8) {
        return ((const double *)vector)[channel];
    } else if (p.param == CKCONV_F32) {
        return ((const float *)vector)[channel];
    } else {
        uint32_t bits = ((const uint16_t *)vector)[channel];
        return p.param == CKCONV_F16 ? ckci_k_half_float(bits) : ckci_k_float(bits << 16);
    }
}

/* Sums in LDS of segments of `length` threads (this is number i of its segment; threads from `total` on have
   none), in a fixed tree: join(t, u) adds entry u to entry t. */
template <class F> CKCI_K_FN void ckci_k_norm_fold(int32_t i, int32_t length, int32_t total, const F &join)
{
    int32_t t = (int32_t)threadIdx.x, half = 1;
    while (half < length) {
        half *= 2;
    }
    for (half /= 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < total && i < half && i + half < length) {
            join(t, t + half);
        }
    }
    __syncthreads();
}

CKCI_K_FN void ckci_k_norm_join(ckci_k_moments &a, const ckci_k_moments &b)
{
    a.sum += b.sum;
    a.square += b.square;
}

/* The first number of a (n, g). */
template <class T>
CKCI_K_FN double ckci_k_norm_pivot(const ckci_gpu_norm &p, const ckci_k_slab &s, int32_t group)
{
    int64_t at = ckci_k_norm_base(p.x, s, group, 0);
    return (double)ckci_k_load<T>(p.x.dtype, p.x.p + at * ckci_k_size(p.x.dtype));
}

/* Moments of all that this thread reads. */
template <class T> CKCI_K_FN ckci_k_moments ckci_k_norm_read(const ckci_gpu_norm &p, const ckci_k_slab &s)
{
    ckci_k_moments moments = {0, 0};
    for (int32_t column = s.lc; s.active && column < s.columns; column += p.lanes_c) {
        int32_t group = ckci_k_divide(column, p.by_c);
        int64_t base = ckci_k_norm_base(p.x, s, group, column - group * p.c);
        double pivot = ckci_k_norm_pivot<T>(p, s, group);
        for (int32_t pos = s.from + s.lp; pos < s.to; pos += CKCI_K_NORM_RUN * p.lanes_p) {
            T v[CKCI_K_NORM_RUN];
            ckci_k_norm_load(p, p.x, base, pos, s.to, v);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < CKCI_K_NORM_RUN; i++) {
                double d = pos + i * p.lanes_p < s.to ? (double)v[i] - pivot : 0;
                moments.sum += d;
                moments.square += d * d;
            }
        }
    }
    return moments;
}

/* ---- Wide. One number of f16, bf16 or f32. */
CKCI_K_FN float ckci_k_norm_load1(int32_t dtype, const unsigned char *from, int32_t i)
{
    if (dtype == CKCONV_F32) {
        return ((const float *)from)[i];
    }
    uint32_t bits = ((const uint16_t *)from)[i];
    return dtype == CKCONV_F16 ? ckci_k_half_float(bits) : ckci_k_float(bits << 16);
}

/* Eight neighbouring numbers as they lie in memory, 16 or 32 bytes; `count` of them exist. */
struct ckci_k_norm_raw {
    ckci_k_uint4 a, b;

    CKCI_K_MEMBER void load(const ckci_gpu_norm &p, const ckci_tensor &t, const unsigned char *from,
                            int32_t count)
    {
        ckci_k_uint4 zero = {0, 0, 0, 0};
        b = zero;
        if (p.aligned) {
            a = *(const ckci_k_uint4 *)from;
            if (t.dtype == CKCONV_F32) {
                b = ((const ckci_k_uint4 *)from)[1];
            }
            return;
        }
        count = ckci_k_lane_afresh(count);
        if (t.dtype == CKCONV_F32) {
            const uint32_t *f = (const uint32_t *)from;
            a.x = f[0];
            a.y = 1 < count ? f[1] : 0;
            a.z = 2 < count ? f[2] : 0;
            a.w = 3 < count ? f[3] : 0;
            b.x = 4 < count ? f[4] : 0;
            b.y = 5 < count ? f[5] : 0;
            b.z = 6 < count ? f[6] : 0;
            b.w = 7 < count ? f[7] : 0;
        } else {
            const uint16_t *h = (const uint16_t *)from;
            a.x = h[0] | (1 < count ? (uint32_t)h[1] << 16 : 0);
            a.y = (2 < count ? h[2] : 0) | (3 < count ? (uint32_t)h[3] << 16 : 0);
            a.z = (4 < count ? h[4] : 0) | (5 < count ? (uint32_t)h[5] << 16 : 0);
            a.w = (6 < count ? h[6] : 0) | (7 < count ? (uint32_t)h[7] << 16 : 0);
        }
    }

    CKCI_K_MEMBER void widen(const ckci_tensor &t, float *v) const
    {
        if (t.dtype == CKCONV_F32) {
            v[0] = ckci_k_float(a.x);
            v[1] = ckci_k_float(a.y);
            v[2] = ckci_k_float(a.z);
            v[3] = ckci_k_float(a.w);
            v[4] = ckci_k_float(b.x);
            v[5] = ckci_k_float(b.y);
            v[6] = ckci_k_float(b.z);
            v[7] = ckci_k_float(b.w);
        } else if (t.dtype == CKCONV_F16) {
            ckci_k_s_half::widen<false>(a.x, v);
            ckci_k_s_half::widen<false>(a.y, v + 2);
            ckci_k_s_half::widen<false>(a.z, v + 4);
            ckci_k_s_half::widen<false>(a.w, v + 6);
        } else {
            ckci_k_s_half::widen<true>(a.x, v);
            ckci_k_s_half::widen<true>(a.y, v + 2);
            ckci_k_s_half::widen<true>(a.z, v + 4);
            ckci_k_s_half::widen<true>(a.w, v + 6);
        }
    }
};

/* Where a thread stands in a tensor; bytes from a position to its next one, and from a column. Wide: channels
   first, a block has one group; channels last, columns lie beside each other. */
template <bool PLANES> struct ckci_k_norm_cursor {
    unsigned char *column, *at;
    int64_t step, apart;
    int32_t pos; /* the first one of a column */

    CKCI_K_MEMBER ckci_k_norm_cursor(const ckci_gpu_norm &p, const ckci_tensor &t, const ckci_k_slab &s)
    {
        const int64_t size = ckci_k_size(t.dtype), wide = PLANES ? t.stride[2] : 1;
        const int32_t first = PLANES ? s.lc : s.lc * 8;
        pos = s.from + s.lp * (PLANES ? 8 : 1);
        column = at = t.p + (ckci_k_norm_base(t, s, 0, 0) + first * wide + pos * t.stride[5]) * size;
        step = p.lanes_p * (PLANES ? 8 : 1) * t.stride[5] * size;
        apart = p.lanes_c * (PLANES ? 1 : 8) * wide * size;
    }

    /* Through this thread's part of what is kept in LDS. */
    CKCI_K_MEMBER ckci_k_norm_cursor(const ckci_tensor &t, const ckci_k_slab &s, unsigned char *kept,
                                     int32_t places)
    {
        const int32_t size = 8 * ckci_k_size(t.dtype);
        pos = s.from + s.lp * (PLANES ? 8 : 1);
        column = at = kept + (int32_t)threadIdx.x * size;
        step = 256 * size;
        apart = places * step;
    }

    CKCI_K_MEMBER void next_column()
    {
        at = column += apart;
    }

    /* From the last of `columns` columns on, and there from the last of `places` places on. */
    CKCI_K_MEMBER void turn(int32_t columns, int32_t places)
    {
        at = column += (columns - 1) * apart + (places - 1) * step;
        apart = -apart;
        step = -step;
    }
};

/* Where x is read. */
template <bool PLANES>
CKCI_K_FN ckci_k_norm_cursor<PLANES> ckci_k_norm_x(const ckci_gpu_norm &p, const ckci_k_slab &s)
{
    return ckci_k_norm_cursor<PLANES>(p, p.x, s);
}
template <bool PLANES>
CKCI_K_FN ckci_k_norm_cursor<PLANES> ckci_k_norm_x(const ckci_gpu_norm &p, const ckci_k_kept_slab &s)
{
    return ckci_k_norm_cursor<PLANES>(p.x, s, s.x, s.places);
}

/* Places of this thread in a column; columns of this thread. */
template <bool PLANES>
CKCI_K_FN int32_t ckci_k_norm_places_of(const ckci_gpu_norm &p, const ckci_k_slab &s, int32_t pos)
{
    const int32_t rest = PLANES ? (s.to - pos + 7) >> 3 : s.to - pos;
    return rest > 0 ? ckci_k_divide(rest + p.lanes_p - 1, p.by_lanes_p) : 0;
}
template <bool PLANES> CKCI_K_FN int32_t ckci_k_norm_columns_of(const ckci_gpu_norm &p, const ckci_k_slab &s)
{
    if (PLANES) { /* all channels of one group */
        return p.chunks - (s.lc + (p.chunks - 1) * p.lanes_c < s.columns ? 0 : 1);
    }
    const int32_t eights = s.columns / 8 - s.lc;
    return eights > 0 ? ckci_k_divide(eights + p.lanes_c - 1, p.by_fast) : 0;
}

CKCI_K_FN void ckci_k_norm_store8(const ckci_gpu_norm &p, const ckci_tensor &t, unsigned char *to,
                                  int32_t count, const float *v)
{
    if (!p.aligned) {
        count = ckci_k_lane_afresh(count);
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            if (i < count) {
                if (t.dtype == CKCONV_F32) {
                    ((float *)to)[i] = v[i];
                } else {
                    ((uint16_t *)to)[i] =
                        (uint16_t)(t.dtype == CKCONV_F16 ? ckci_k_float_half(v[i]) : ckci_k_float_bf16(v[i]));
                }
            }
        }
    } else if (t.dtype == CKCONV_F32) {
        const ckci_k_uint4 a = {ckci_k_bits(v[0]), ckci_k_bits(v[1]), ckci_k_bits(v[2]), ckci_k_bits(v[3])};
        const ckci_k_uint4 b = {ckci_k_bits(v[4]), ckci_k_bits(v[5]), ckci_k_bits(v[6]), ckci_k_bits(v[7])};
        ((ckci_k_uint4 *)to)[0] = a;
        ((ckci_k_uint4 *)to)[1] = b;
    } else {
        const ckci_k_uint4 a = {ckci_k_two(t.dtype, ckci_k_bits(v[0]), ckci_k_bits(v[1])),
                                ckci_k_two(t.dtype, ckci_k_bits(v[2]), ckci_k_bits(v[3])),
                                ckci_k_two(t.dtype, ckci_k_bits(v[4]), ckci_k_bits(v[5])),
                                ckci_k_two(t.dtype, ckci_k_bits(v[6]), ckci_k_bits(v[7]))};
        *(ckci_k_uint4 *)to = a;
    }
}

/* Entries of eight channels of each thread, added over the threads of a channel: those of lane_p 0 are the
   sums. All threads share the work, `several` of them a channel. join(to, from) */
template <class F> CKCI_K_FN void ckci_k_norm_fold8(const ckci_gpu_norm &p, const F &join)
{
    const int32_t t = (int32_t)threadIdx.x, channels = 8 * p.lanes_c;
    const int32_t lane_c = p.along_x ? p.lanes_p : 1, lane_p = p.along_x ? 1 : p.lanes_c;
    int32_t several = 1, log = 0;
    while (2 * several * channels <= 256 && 2 * several <= p.lanes_p) {
        several *= 2;
        log++;
    }
    const int32_t first = t & (several - 1);
    __syncthreads();
    for (int32_t q = t >> log; q < channels; q += 256 >> log) {
        const int32_t at = q % 8 * 256 + q / 8 * lane_c;
        for (int32_t lane = first + several; lane < p.lanes_p; lane += several) {
            join(at + first * lane_p, at + lane * lane_p);
        }
    }
    const int32_t at = (t >> log) % 8 * 256 + (t >> log) / 8 * lane_c + first * lane_p;
    for (int32_t half = several / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t >> log < channels && first < half) {
            join(at, at + half * lane_p);
        }
    }
    __syncthreads();
}

/* Moments of all that this block reads: those of group k become m.u.of[k]. PLANES: channels first. */
template <bool PLANES, class S, class T>
CKCI_K_FN void ckci_k_norm_gather8(const ckci_gpu_norm &p, const S &s, ckci_k_norm_lds<T> &m)
{
    const int32_t t = (int32_t)threadIdx.x, each = PLANES ? 1 : 8, step = p.lanes_p * (PLANES ? 8 : 1);
    const int64_t size = ckci_k_size(p.x.dtype);
    double sum[8] = {0, 0, 0, 0, 0, 0, 0, 0}, square[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    const unsigned char *first = p.x.p + ckci_k_norm_base(p.x, s, 0, 0) * size;
    ckci_k_norm_cursor<PLANES> x = ckci_k_norm_x<PLANES>(p, s);
    float pivot[8];
    pivot[0] = ckci_k_norm_load1(p.x.dtype, first, 0);
    for (int32_t column = s.lc * each; s.active && column < s.columns; column += p.lanes_c * each) {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8 && !PLANES; i++) {
            const int32_t group = ckci_k_divide(column + i, p.by_c);
            pivot[i] = ckci_k_norm_load1(p.x.dtype, first + group * p.x.stride[0] * size, 0);
        }
        int32_t rest = s.to - x.pos;
        ckci_k_norm_raw raw;
        if (rest > 0) {
            raw.load(p, p.x, x.at, rest);
        }
        for (; rest > 0; rest -= step) {
            float v[8];
            raw.widen(p.x, v);
            if (rest > step) {
                x.at += x.step;
                raw.load(p, p.x, x.at, rest - step);
            }
            if (PLANES && rest < 8) {
                CKCI_K_UNROLL(8)
                for (int i = 1; i < 8; i++) {
                    v[i] = i < rest ? v[i] : pivot[0];
                }
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 8; i++) {
                const double d = (double)v[i] - (double)pivot[PLANES ? 0 : i];
                sum[i] += d;
                square[i] += d * d;
            }
        }
        x.next_column();
    }
    if (p.set == 1) {
        ckci_k_moments all = {0, 0};
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            all.sum += sum[i];
            all.square += square[i];
        }
        m.u.of[t] = all;
        ckci_k_norm_fold(t, 256, 256,
                         [&](int32_t to, int32_t from) { ckci_k_norm_join(m.u.of[to], m.u.of[from]); });
        return;
    }
    ckci_k_moments of = {0, 0};
    CKCI_K_UNROLL(1)
    for (int which = 0; which < 2; which++) {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            m.u.moment[i * 256 + t] = which ? square[i] : sum[i];
        }
        ckci_k_norm_fold8(p, [&](int32_t to, int32_t from) { m.u.moment[to] += m.u.moment[from]; });
        double all = 0;
        for (int32_t c = t * p.c; t < s.groups && c < (t + 1) * p.c; c++) {
            all += m.u.moment[c % 8 * 256 + c / 8];
        }
        of.sum = which ? of.sum : all;
        of.square = all;
        __syncthreads();
    }
    m.u.of[t] = of;
    __syncthreads();
}

/* m.u.of[k * length] becomes the moments of group k; returns length. */
template <int W, class S, class T>
CKCI_K_FN int32_t ckci_k_norm_gather(const ckci_gpu_norm &p, const S &s, ckci_k_norm_lds<T> &m)
{
    int32_t t = (int32_t)threadIdx.x, length = (int32_t)p.by_segment.d, total = p.lanes_c * p.lanes_p;
    int32_t k = ckci_k_divide(t, p.by_segment);
    if constexpr (W != CKCI_K_NORM_ANY) {
        ckci_k_norm_gather8<W == CKCI_K_NORM_PLANES>(p, s, m);
        return 1;
    }
    if (s.active) {
        m.u.of[s.lc * p.lanes_p + s.lp] = ckci_k_norm_read<T>(p, s);
    }
    ckci_k_norm_fold(t - k * length, length, total,
                     [&](int32_t to, int32_t from) { ckci_k_norm_join(m.u.of[to], m.u.of[from]); });
    return length;
}

/* Moments of this block's groups, of which k has those at m.u.of[k * length], to workspace. */
template <class T>
CKCI_K_FN void ckci_k_norm_put_stats(const ckci_gpu_norm &p, const ckci_k_slab &s,
                                     const ckci_k_norm_lds<T> &m, int32_t length)
{
    const int32_t t = (int32_t)threadIdx.x;
    if (t < s.groups) {
        double *stats = (double *)p.stats + (((int64_t)s.n * p.parts + s.part) * p.g + s.g0 + t) * 2;
        stats[0] = m.u.of[t * length].sum;
        stats[1] = m.u.of[t * length].square;
    }
}

/* Mean and inverse deviation of each group into LDS: saved ones, or of the parts in workspace (to which kept
   slabs bring theirs here), or of what this block reads, which is all positions then. */
template <int W, class S, class T>
CKCI_K_FN void ckci_k_norm_statistics(const ckci_gpu_norm &p, const S &s, ckci_k_norm_lds<T> &m)
{
    int32_t t = (int32_t)threadIdx.x, length = 1;
    int64_t first = (int64_t)s.n * p.g + s.g0;
    if (p.saved_mean) {
        if (t < s.groups) {
            m.hi[t] = ((const T *)p.saved_mean)[first + t];
            m.lo[t] = 0;
            m.r[t] = ((const T *)p.saved_inv_std)[first + t];
        }
        __syncthreads();
        return;
    }
    if (S::KEPT || !p.stats) {
        length = ckci_k_norm_gather<W>(p, s, m);
    }
    if (p.stats) {
        int32_t k = ckci_k_divide(t, p.by_parts), part = t - k * p.parts;
        if (S::KEPT) {
            ckci_k_norm_put_stats(p, s, m, length);
            ckci_k_cluster_barrier();
        }
        length = p.parts;
        if (k < s.groups) {
            const double *stats =
                (const double *)p.stats + (((int64_t)s.n * p.parts + part) * p.g + s.g0 + k) * 2;
            m.u.of[t].sum = stats[0];
            m.u.of[t].square = stats[1];
        }
        ckci_k_norm_fold(part, length, s.groups * p.parts,
                         [&](int32_t to, int32_t from) { ckci_k_norm_join(m.u.of[to], m.u.of[from]); });
    }
    if (t < s.groups) {
        ckci_k_moments of = m.u.of[t * length];
        double all = (double)p.c * (double)p.space, shift = of.sum / all, m2 = of.square - of.sum * shift;
        double exact = ckci_k_norm_pivot<T>(p, s, t) + shift,
               deviation = sqrt((m2 < 0 ? 0 : m2) / all + p.eps);
        T r = (T)(1 / deviation), mean = (T)exact;
        if (p.mean && s.part == 0) {
            ((T *)p.mean)[first + t] = mean;
        }
        if (p.inv_std && s.part == 0) {
            ((T *)p.inv_std)[first + t] = r;
        }
        m.hi[t] = mean;
        m.lo[t] = (T)(exact - (double)mean);
        m.r[t] = sizeof(T) == 4 && r > (T)3e38 ? (T)3e38 : r; /* 0 * infinity, with a tiny eps */
    }
    __syncthreads();
}

template <class T, int W = CKCI_K_NORM_ANY> struct ckci_k_norm_stats {
    typedef ckci_k_norm_lds<T> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_norm &p, lds &m)
    {
        ckci_k_slab s = ckci_k_find_slab(p, (int32_t)blockIdx.x);
        ckci_k_norm_put_stats(p, s, m, ckci_k_norm_gather<W>(p, s, m));
    }
};

/* A channel as a thread sees it. */
template <class T> struct ckci_k_norm_channel {
    int64_t x, y, dx; /* of position 0 */
    T hi, lo, r, gamma, beta, mean_a, mean_b;
};

template <class T>
CKCI_K_FN ckci_k_norm_channel<T> ckci_k_find_channel(const ckci_gpu_norm &p, const ckci_k_slab &s,
                                                     const ckci_k_norm_lds<T> &m, int32_t column)
{
    ckci_k_norm_channel<T> c;
    int32_t group = ckci_k_divide(column, p.by_c), rest = column - group * p.c;
    c.x = ckci_k_norm_base(p.x, s, group, rest);
    c.y = ckci_k_norm_base(p.y, s, group, rest);
    c.dx = ckci_k_norm_base(p.dx, s, group, rest);
    c.hi = m.hi[group];
    c.lo = m.lo[group];
    c.r = m.r[group];
    c.gamma = ckci_k_norm_factor<T>(p, p.gamma, s.g0 * p.c + column, 1);
    c.beta = ckci_k_norm_factor<T>(p, p.beta, s.g0 * p.c + column, 0);
    c.mean_a = m.mean[0][group];
    c.mean_b = m.mean[1][group];
    return c;
}

/* x * y, finite where y is: a channel without deviation has a large x, and differences of 0. */
CKCI_K_FN float ckci_k_norm_bounded(float x, float y)
{
    const uint32_t infinite = 0x7f800000u, bits = ckci_k_bits(x * y);
    return (bits & 0x7fffffffu) == infinite && (ckci_k_bits(y) & 0x7fffffffu) != infinite
               ? ckci_k_float((bits & 0x80000000u) | 0x7f7fffffu)
               : x * y;
}

/* Wide: what eight numbers of one channel, or of eight, need. With d = x - hi, xhat*gamma + beta is
   d*scale + shift, and dx is r * (gamma*dy' - level + d*slope): 0 for a group of one number. */
template <int N> struct ckci_k_norm_channels {
    float hi[N], r[N], gamma[N], scale[N], shift[N], slope[N], level[N];

    /* What belongs to the groups of N columns, and to these themselves. */
    template <class T>
    CKCI_K_MEMBER void groups(const ckci_gpu_norm &p, const ckci_k_norm_lds<T> &m, int32_t column)
    {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < N; i++) {
            const int32_t group = N == 1 ? 0 : ckci_k_divide(column + i, p.by_c);
            hi[i] = m.hi[group];
            r[i] = m.r[group];
            slope[i] = m.mean[1][group];
            level[i] = m.mean[0][group];
        }
    }

    template <class T>
    CKCI_K_MEMBER void factors(const ckci_gpu_norm &p, const ckci_k_slab &s, const ckci_k_norm_lds<T> &m,
                               int32_t column)
    {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < N; i++) {
            const int32_t group = N == 1 ? 0 : ckci_k_divide(column + i, p.by_c);
            gamma[i] = ckci_k_norm_factor<float>(p, p.gamma, s.g0 * p.c + column + i, 1);
            scale[i] = ckci_k_norm_bounded(m.r[group], gamma[i]);
            shift[i] =
                ckci_k_norm_factor<float>(p, p.beta, s.g0 * p.c + column + i, 0) - m.lo[group] * scale[i];
        }
    }
};

/* The sum of dy'*xhat from those of dy' and of dy'*(x - hi). */
template <class T>
CKCI_K_FN float ckci_k_norm_hat(const ckci_k_norm_lds<T> &m, int32_t group, float sum, float products)
{
    return m.r[group] * (products - m.lo[group] * sum);
}

/* body(how many positions are left, eight of x, eight of dy) for all positions of this thread in a column;
   loads are one ahead. c becomes the column's (PLANES: its group's it is). DY: dy is read too. TURNED: from
   the last of `places` places to the first, as the cursors then go. */
template <bool PLANES, bool DY, bool TURNED, class T, class Body>
CKCI_K_FN void ckci_k_norm_walk(const ckci_gpu_norm &p, const ckci_k_slab &s, const ckci_k_norm_lds<T> &m,
                                ckci_k_norm_channels<PLANES ? 1 : 8> &c, ckci_k_norm_cursor<PLANES> &x,
                                ckci_k_norm_cursor<PLANES> &y, int32_t column, int32_t places,
                                const Body &body)
{
    const int32_t step = p.lanes_p * (PLANES ? 8 : 1);
    int32_t rest = s.to - x.pos;
    if constexpr (TURNED) { /* of the last place; 0 or less: there is none */
        rest -= places > 0 ? (places - 1) * step : 0;
    }
    ckci_k_norm_raw raw, raw_dy;
    if (rest > 0) {
        raw.load(p, p.x, x.at, rest);
        if (DY) {
            raw_dy.load(p, p.y, y.at, rest);
        }
    }
    if (!PLANES) {
        c.groups(p, m, column);
    }
    c.factors(p, s, m, column);
    for (; TURNED ? places > 0 : rest > 0; rest += TURNED ? step : -step) {
        float v[8], w[8];
        raw.widen(p.x, v);
        if (DY) {
            raw_dy.widen(p.y, w);
        }
        if (TURNED ? --places > 0 : rest > step) {
            const int32_t then = TURNED ? rest + step : rest - step;
            x.at += x.step;
            raw.load(p, p.x, x.at, then);
            if (DY) {
                y.at += y.step;
                raw_dy.load(p, p.y, y.at, then);
            }
        }
        body(rest, v, w);
    }
    x.next_column();
    if (DY) {
        y.next_column();
    }
}

template <bool PLANES, class S, class T>
CKCI_K_FN void ckci_k_norm_apply8(const ckci_gpu_norm &p, const S &s, const ckci_k_norm_lds<T> &m)
{
    const int32_t each = PLANES ? 1 : 8;
    ckci_k_norm_cursor<PLANES> x = ckci_k_norm_x<PLANES>(p, s), y(p, p.y, s);
    ckci_k_norm_channels<PLANES ? 1 : 8> c;
    if (PLANES) {
        c.groups(p, m, 0);
    }
    /* backwards: what was read last is still in the caches */
    const int32_t places = ckci_k_norm_places_of<PLANES>(p, s, x.pos);
    int32_t left = s.active ? ckci_k_norm_columns_of<PLANES>(p, s) : 0;
    x.turn(left, places);
    y.turn(left, places);
    while (left-- > 0) {
        const int32_t column = (s.lc + left * p.lanes_c) * each;
        const auto apply = [&](int32_t rest, float *v, const float *) {
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 8; i++) {
                const int j = PLANES ? 0 : i;
                v[i] = (v[i] - c.hi[j]) * c.scale[j] + c.shift[j];
            }
            if (p.act != CKCONV_PASS) {
                CKCI_K_UNROLL(8)
                for (int i = 0; i < 8; i++) {
                    v[i] = (p.act == CKCONV_SILU ? v[i] : 1.f) / (1 + ckci_k_exp(-v[i]));
                }
            }
            ckci_k_norm_store8(p, p.y, y.at, rest, v);
            y.at += y.step;
        };
        ckci_k_norm_walk<PLANES, false, true>(p, s, m, c, x, y, column, places, apply);
        y.next_column();
    }
}

/* Eight of x become x - hi, and the activation of dy is undone. */
template <bool PLANES>
CKCI_K_FN void ckci_k_norm_gradient8(const ckci_gpu_norm &p, const ckci_k_norm_channels<PLANES ? 1 : 8> &c,
                                     float *d, float *dy)
{
    CKCI_K_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        d[i] -= c.hi[PLANES ? 0 : i];
    }
    if (p.act != CKCONV_PASS) {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            /* see ckci_k_norm_gradient */
            const int j = PLANES ? 0 : i;
            float v = d[i] * c.scale[j] + c.shift[j], e = ckci_k_exp(v < 0 ? v : -v), large = 1 / (1 + e);
            float sig = v < 0 ? e * large : large, no = v < 0 ? large : e * large;
            dy[i] *= p.act == CKCONV_SILU ? sig * (1 + v * no) : sig * no;
        }
    }
}

/* Sums of this block, of eight columns of each lane at a time: those of channels to workspace when wanted,
   those of group k, weighted, in m.total. */
template <bool PLANES, class T>
CKCI_K_FN void ckci_k_norm_add8(const ckci_gpu_norm &p, const ckci_k_slab &s, ckci_k_norm_lds<T> &m)
{
    const int32_t t = (int32_t)threadIdx.x, apart = PLANES ? p.lanes_c : 1;
    const int64_t channels = (int64_t)p.g * p.c, all = (int64_t)p.n * p.parts * channels;
    const int64_t first = ((int64_t)s.n * p.parts + s.part) * channels + s.g0 * p.c;
    ckci_k_norm_cursor<PLANES> x(p, p.x, s), y(p, p.y, s);
    ckci_k_norm_channels<PLANES ? 1 : 8> c;
    if (PLANES) {
        c.groups(p, m, 0);
    }
    float a = 0, b = 0;
    for (int32_t j = 0; j < s.columns; j += 8 * p.lanes_c) {
        const int32_t column0 = j + (PLANES ? s.lc : s.lc * 8); /* of eight, `apart` columns apart */
        float sum[2][8];
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            sum[0][i] = sum[1][i] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t i = 0; i < (PLANES ? 8 : 1); i++) {
            const int32_t column = column0 + i * apart;
            if (!s.active || column >= s.columns) {
                break;
            }
            const auto add = [&](int32_t rest, float *d, float *dy) {
                ckci_k_norm_gradient8<PLANES>(p, c, d, dy);
                if (PLANES && rest < 8) {
                    CKCI_K_UNROLL(8)
                    for (int e = 1; e < 8; e++) {
                        d[e] = e < rest ? d[e] : 0;
                        dy[e] = e < rest ? dy[e] : 0;
                    }
                }
                CKCI_K_UNROLL(8)
                for (int e = 0; e < 8; e++) {
                    sum[0][e] += dy[e];
                    sum[1][e] += dy[e] * d[e];
                }
            };
            ckci_k_norm_walk<PLANES, true, false>(p, s, m, c, x, y, column, 0, add);
            if (PLANES) {
                float both[2];
                CKCI_K_UNROLL(2)
                for (int e = 0; e < 2; e++) {
                    both[e] = ((sum[e][0] + sum[e][1]) + (sum[e][2] + sum[e][3])) +
                              ((sum[e][4] + sum[e][5]) + (sum[e][6] + sum[e][7]));
                    CKCI_K_UNROLL(8)
                    for (int f = 0; f < 8; f++) {
                        sum[e][f] = 0;
                    }
                }
                both[1] = ckci_k_norm_hat(m, 0, both[0], both[1]);
                m.u.cell[0][i * 256 + t] = both[0];
                m.u.cell[1][i * 256 + t] = both[1];
                a += c.gamma[0] * both[0];
                b += c.gamma[0] * both[1];
            }
        }
        if (!PLANES && s.active && column0 < s.columns) {
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 8; i++) {
                const float hat =
                    ckci_k_norm_hat(m, ckci_k_divide(column0 + i, p.by_c), sum[0][i], sum[1][i]);
                m.u.cell[0][i * 256 + t] = sum[0][i];
                m.u.cell[1][i * 256 + t] = hat;
                a += c.gamma[i] * sum[0][i];
                b += c.gamma[i] * hat;
            }
        }
        if (!p.sums && p.set == 1) {
            continue;
        }
        ckci_k_norm_fold8(p, [&](int32_t to, int32_t from) {
            m.u.cell[0][to] += m.u.cell[0][from];
            m.u.cell[1][to] += m.u.cell[1][from];
        });
        CKCI_K_UNROLL(1)
        for (int32_t i = 0; i < 8 && p.sums && s.active && s.lp == 0; i++) {
            const int32_t column = column0 + i * apart;
            if (column < s.columns) {
                ((float *)p.sums)[first + column] = m.u.cell[0][i * 256 + t];
                ((float *)p.sums)[all + first + column] = m.u.cell[1][i * 256 + t];
            }
        }
        if (p.set > 1) { /* all columns at once */
            a = b = 0;
            for (int32_t i = t * p.c; t < s.groups && i < (t + 1) * p.c; i++) {
                float gamma = ckci_k_norm_factor<float>(p, p.gamma, s.g0 * p.c + i, 1);
                a += gamma * m.u.cell[0][i % 8 * 256 + i / 8];
                b += gamma * m.u.cell[1][i % 8 * 256 + i / 8];
            }
        }
        __syncthreads();
    }
    m.total[0][t] = a;
    m.total[1][t] = b;
    if (p.set == 1) {
        ckci_k_norm_fold(t, 256, 256, [&](int32_t to, int32_t from) {
            m.total[0][to] += m.total[0][from];
            m.total[1][to] += m.total[1][from];
        });
    }
    __syncthreads();
}

template <bool PLANES, class T>
CKCI_K_FN void ckci_k_norm_din8(const ckci_gpu_norm &p, const ckci_k_slab &s, const ckci_k_norm_lds<T> &m)
{
    const int32_t each = PLANES ? 1 : 8;
    ckci_k_norm_cursor<PLANES> x(p, p.x, s), y(p, p.y, s), dx(p, p.dx, s);
    ckci_k_norm_channels<PLANES ? 1 : 8> c;
    if (PLANES) {
        c.groups(p, m, 0);
    }
    /* backwards, as in ckci_k_norm_apply8 */
    const int32_t places = ckci_k_norm_places_of<PLANES>(p, s, x.pos);
    int32_t left = s.active ? ckci_k_norm_columns_of<PLANES>(p, s) : 0;
    x.turn(left, places);
    y.turn(left, places);
    dx.turn(left, places);
    while (left-- > 0) {
        const int32_t column = (s.lc + left * p.lanes_c) * each;
        const auto write = [&](int32_t rest, float *d, float *dy) {
            ckci_k_norm_gradient8<PLANES>(p, c, d, dy);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 8; i++) {
                const int j = PLANES ? 0 : i;
                dy[i] = c.r[j] * ((ckci_k_product(c.gamma[j], dy[i]) - c.level[j]) + d[i] * c.slope[j]);
            }
            ckci_k_norm_store8(p, p.dx, dx.at, rest, dy);
            dx.at += dx.step;
        };
        ckci_k_norm_walk<PLANES, true, true>(p, s, m, c, x, y, column, places, write);
        dx.next_column();
    }
}

template <class T, int W = CKCI_K_NORM_ANY> struct ckci_k_norm_fwd {
    typedef ckci_k_norm_lds<T> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_norm &p, lds &m)
    {
        finish(p, ckci_k_find_slab(p, ckci_k_norm_block(p)), m);
    }

    template <class S> static CKCI_K_MEMBER void finish(const ckci_gpu_norm &p, const S &s, lds &m)
    {
        ckci_k_norm_statistics<W>(p, s, m);
        if constexpr (W != CKCI_K_NORM_ANY) {
            ckci_k_norm_apply8<W == CKCI_K_NORM_PLANES>(p, s, m);
        } else {
            for (int32_t column = s.lc; s.active && column < s.columns; column += p.lanes_c) {
                ckci_k_norm_channel<T> c = ckci_k_find_channel(p, s, m, column);
                for (int32_t pos = s.from + s.lp; pos < s.to; pos += CKCI_K_NORM_RUN * p.lanes_p) {
                    T v[CKCI_K_NORM_RUN];
                    ckci_k_norm_load(p, p.x, c.x, pos, s.to, v);
                    CKCI_K_UNROLL(8)
                    for (int i = 0; i < CKCI_K_NORM_RUN; i++) {
                        v[i] = ((v[i] - c.hi) - c.lo) * c.r * c.gamma + c.beta;
                    }
                    if (p.act != CKCONV_PASS) {
                        CKCI_K_UNROLL(8)
                        for (int i = 0; i < CKCI_K_NORM_RUN; i++) {
                            v[i] = (p.act == CKCONV_SILU ? v[i] : (T)1) / (1 + ckci_k_exp(-v[i]));
                        }
                    }
                    ckci_k_norm_store(p, p.y, c.y, pos, s.to, v);
                }
            }
        }
    }
};

/* A run of xhat, and of dy with the activation undone. */
template <class T>
CKCI_K_FN void ckci_k_norm_gradient(const ckci_gpu_norm &p, const ckci_k_norm_channel<T> &c, int32_t pos,
                                    int32_t to, T *xhat, T *dy)
{
    ckci_k_norm_load(p, p.x, c.x, pos, to, xhat);
    ckci_k_norm_load(p, p.y, c.y, pos, to, dy);
    CKCI_K_UNROLL(8)
    for (int i = 0; i < CKCI_K_NORM_RUN; i++) {
        xhat[i] = ((xhat[i] - c.hi) - c.lo) * c.r;
    }
    if (p.act != CKCONV_PASS) {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < CKCI_K_NORM_RUN; i++) {
            /* sig = sigmoid(v), not = 1 - sig without cancellation */
            T v = xhat[i] * c.gamma + c.beta, e = ckci_k_exp(v < 0 ? v : -v), large = 1 / (1 + e);
            T sig = v < 0 ? e * large : large, no = v < 0 ? large : e * large;
            dy[i] *= p.act == CKCONV_SILU ? sig * (1 + v * no) : sig * no;
        }
    }
}

/* Sums of dy' and dy'*xhat of columns j, j + 1, ... into m.u.sum, lanes_p entries apart. Runs are added
   with what rounding lost. */
template <class T>
CKCI_K_FN void ckci_k_norm_add(const ckci_gpu_norm &p, const ckci_k_slab &s, ckci_k_norm_lds<T> &m, int32_t j)
{
    int32_t t = (int32_t)threadIdx.x, column = j + s.lc, first = ckci_k_divide(t, p.by_lanes_p) * p.lanes_p;
    T sum[2] = {0, 0}, lost[2] = {0, 0};
    if (s.active && column < s.columns) {
        ckci_k_norm_channel<T> c = ckci_k_find_channel(p, s, m, column);
        for (int32_t pos = s.from + s.lp; pos < s.to; pos += CKCI_K_NORM_RUN * p.lanes_p) {
            T xhat[CKCI_K_NORM_RUN], dy[CKCI_K_NORM_RUN], run[2] = {0, 0};
            ckci_k_norm_gradient(p, c, pos, s.to, xhat, dy);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < CKCI_K_NORM_RUN; i++) {
                bool inside = pos + i * p.lanes_p < s.to;
                run[0] += inside ? dy[i] : 0;
                run[1] += inside ? dy[i] * xhat[i] : 0;
            }
            CKCI_K_UNROLL(2)
            for (int i = 0; i < 2; i++) {
                T next = sum[i] + run[i], back = next - sum[i];
                lost[i] += (sum[i] - (next - back)) + (run[i] - back);
                sum[i] = next;
            }
        }
    }
    __syncthreads(); /* the entries may still be read */
    if (s.active) {
        m.u.sum[0][s.lc * p.lanes_p + s.lp] = sum[0] + (lost[0] == lost[0] ? lost[0] : 0);
        m.u.sum[1][s.lc * p.lanes_p + s.lp] = sum[1] + (lost[1] == lost[1] ? lost[1] : 0);
    }
    ckci_k_norm_fold(t - first, p.lanes_p, p.lanes_c * p.lanes_p, [&](int32_t to, int32_t from) {
        m.u.sum[0][to] += m.u.sum[0][from];
        m.u.sum[1][to] += m.u.sum[1][from];
    });
}

/* Sums of this block: those of channels to workspace when wanted; those of group k, weighted, in m.u.sum
   at k * (returned length). */
template <int W, class T>
CKCI_K_FN int32_t ckci_k_norm_add_all(const ckci_gpu_norm &p, const ckci_k_slab &s, ckci_k_norm_lds<T> &m)
{
    if constexpr (W != CKCI_K_NORM_ANY) {
        ckci_k_norm_add8<W == CKCI_K_NORM_PLANES>(p, s, m);
        m.u.sum[0][threadIdx.x] = m.total[0][threadIdx.x];
        m.u.sum[1][threadIdx.x] = m.total[1][threadIdx.x];
        __syncthreads();
        return 1;
    }
    int32_t t = (int32_t)threadIdx.x, lane = ckci_k_divide(t, p.by_lanes_p), total = p.lanes_c * p.lanes_p;
    int32_t length = (int32_t)p.by_segment.d;
    int64_t channels = (int64_t)p.g * p.c, all = (int64_t)p.n * p.parts * channels;
    int64_t first = ((int64_t)s.n * p.parts + s.part) * channels + s.g0 * p.c;
    T a = 0, b = 0;
    for (int32_t j = 0; j < s.columns; j += p.lanes_c) {
        int32_t column = j + lane;
        ckci_k_norm_add(p, s, m, j);
        if (t < total && lane * p.lanes_p == t && column < s.columns) {
            T gamma = ckci_k_norm_factor<T>(p, p.gamma, s.g0 * p.c + column, 1);
            a += gamma * m.u.sum[0][t];
            b += gamma * m.u.sum[1][t];
            if (p.sums) {
                ((T *)p.sums)[first + column] = m.u.sum[0][t];
                ((T *)p.sums)[all + first + column] = m.u.sum[1][t];
            }
        }
    }
    __syncthreads();
    m.u.sum[0][t] = a;
    m.u.sum[1][t] = b;
    ckci_k_norm_fold(t - ckci_k_divide(t, p.by_segment) * length, length, total,
                     [&](int32_t to, int32_t from) {
                         m.u.sum[0][to] += m.u.sum[0][from];
                         m.u.sum[1][to] += m.u.sum[1][from];
                     });
    return length;
}

template <class T, int W = CKCI_K_NORM_ANY> struct ckci_k_norm_sums {
    typedef ckci_k_norm_lds<T> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_norm &p, lds &m)
    {
        ckci_k_slab s = ckci_k_find_slab(p, (int32_t)blockIdx.x);
        int32_t t = (int32_t)threadIdx.x;
        ckci_k_norm_statistics<W>(p, s, m);
        int32_t length = ckci_k_norm_add_all<W>(p, s, m);
        if (p.slab_sums && t < s.groups) {
            T *sums = (T *)p.slab_sums + (((int64_t)s.n * p.parts + s.part) * p.g + s.g0 + t) * 2;
            sums[0] = m.u.sum[0][t * length];
            sums[1] = m.u.sum[1][t * length];
        }
    }
};

/* dx = inv_std * (gamma*dy' - mean_a - xhat*mean_b) */
template <class T, int W = CKCI_K_NORM_ANY> struct ckci_k_norm_din {
    typedef ckci_k_norm_lds<T> lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_norm &p, lds &m)
    {
        ckci_k_slab s = ckci_k_find_slab(p, ckci_k_norm_block(p));
        int32_t t = (int32_t)threadIdx.x, length = p.parts;
        ckci_k_norm_statistics<W>(p, s, m);
        if (p.slab_sums) {
            int32_t k = ckci_k_divide(t, p.by_parts), part = t - k * p.parts;
            if (k < s.groups) {
                const T *sums =
                    (const T *)p.slab_sums + (((int64_t)s.n * p.parts + part) * p.g + s.g0 + k) * 2;
                m.u.sum[0][t] = sums[0];
                m.u.sum[1][t] = sums[1];
            }
            ckci_k_norm_fold(part, length, s.groups * p.parts, [&](int32_t to, int32_t from) {
                m.u.sum[0][to] += m.u.sum[0][from];
                m.u.sum[1][to] += m.u.sum[1][from];
            });
        } else {
            length = ckci_k_norm_add_all<W>(p, s, m);
        }
        if (t < s.groups) {
            T count = (T)p.c * (T)p.space;
            m.mean[0][t] = m.u.sum[0][t * length] / count;
            m.mean[1][t] = m.u.sum[1][t * length] / count;
            if constexpr (W != CKCI_K_NORM_ANY) { /* level and slope of ckci_k_norm_channels */
                m.mean[1][t] = -ckci_k_norm_bounded(m.r[t], m.mean[1][t]);
                m.mean[0][t] += m.lo[t] * m.mean[1][t];
            }
        }
        __syncthreads();
        if constexpr (W != CKCI_K_NORM_ANY) {
            ckci_k_norm_din8<W == CKCI_K_NORM_PLANES>(p, s, m);
        } else {
            for (int32_t column = s.lc; s.active && column < s.columns; column += p.lanes_c) {
                ckci_k_norm_channel<T> c = ckci_k_find_channel(p, s, m, column);
                for (int32_t pos = s.from + s.lp; pos < s.to; pos += CKCI_K_NORM_RUN * p.lanes_p) {
                    T xhat[CKCI_K_NORM_RUN], dy[CKCI_K_NORM_RUN];
                    ckci_k_norm_gradient(p, c, pos, s.to, xhat, dy);
                    CKCI_K_UNROLL(8)
                    for (int i = 0; i < CKCI_K_NORM_RUN; i++) {
                        dy[i] = c.r * (ckci_k_product(c.gamma, dy[i]) - c.mean_a - xhat[i] * c.mean_b);
                    }
                    ckci_k_norm_store(p, p.dx, c.dx, pos, s.to, dy);
                }
            }
        }
    }
};

/* y where channels come first and a slab fits into LDS, or into that of a cluster's blocks (parts), which
   leave statistics in workspace for each other: x is read once. All copies are under way before the first one
   is waited for; a thread reads its own only. */
struct ckci_k_norm_kept {
    struct lds {
        ckci_k_norm_lds<float> m;
        ckci_k_uint4 kept[CKCI_NORM_KEPT / 16];
    };

    static CKCI_K_MEMBER void fill(const ckci_gpu_norm &p, const ckci_k_kept_slab &s)
    {
        const int32_t step = p.lanes_p * 8, wide = p.x.dtype == CKCONV_F32;
        ckci_k_norm_cursor<true> x(p, p.x, s), to = ckci_k_norm_x<true>(p, s);
        for (int32_t left = s.active ? ckci_k_norm_columns_of<true>(p, s) : 0; left > 0; left--) {
            for (int32_t rest = s.to - x.pos; rest > 0; rest -= step) {
                if (p.aligned) {
                    ckci_k_copy_late<16>(to.at, x.at, true);
                    if (wide) {
                        ckci_k_copy_late<16>(to.at + 16, x.at + 16, true);
                    }
                } else {
                    ckci_k_norm_raw raw;
                    raw.load(p, p.x, x.at, rest);
                    *(ckci_k_uint4 *)to.at = raw.a;
                    if (wide) {
                        ((ckci_k_uint4 *)to.at)[1] = raw.b;
                    }
                }
                x.at += x.step;
                to.at += to.step;
            }
            x.next_column();
            to.next_column();
        }
        ckci_k_copies_end();
        ckci_k_copies_wait<0>();
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_norm &p, lds &l)
    {
        /* blocks of a cluster follow each other */
        const int32_t rest = ckci_k_divide((int32_t)blockIdx.x, p.by_parts),
                      n = ckci_k_divide(rest, p.by_sets);
        const int32_t part = (int32_t)blockIdx.x - rest * p.parts, set = rest - n * p.sets;
        ckci_k_kept_slab s;
        (ckci_k_slab &)s = ckci_k_find_slab(p, (n * p.parts + part) * p.sets + set);
        s.places = ckci_k_norm_places_of<true>(p, s, s.from + s.lp * 8);
        s.x = (unsigned char *)l.kept;
        fill(p, s);
        ckci_k_norm_fwd<float, CKCI_K_NORM_PLANES>::finish(p, s, l.m);
    }
};

/* Elsewhere L2 holds the slabs of all blocks. */
struct ckci_k_norm_kept_none {
    struct lds {
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_norm &, lds &)
    {
    }
};

struct ckci_k_norm_fwd_kept : ckci_k_by_vendor<ckci_k_norm_kept, ckci_k_norm_kept_none> {
};

/* As the planner counts on: three where channels come first, at least two where they come last. */
template <int W> struct ckci_k_resident<ckci_k_norm_stats<float, W>> {
    enum { BLOCKS = W == CKCI_K_NORM_ANY ? 0 : 3 };
};
template <int W> struct ckci_k_resident<ckci_k_norm_fwd<float, W>> {
    enum { BLOCKS = W == CKCI_K_NORM_ANY ? 0 : W == CKCI_K_NORM_PLANES ? 3 : 2 };
};
template <int W> struct ckci_k_resident<ckci_k_norm_sums<float, W>> {
    enum { BLOCKS = W == CKCI_K_NORM_ANY ? 0 : W == CKCI_K_NORM_PLANES ? 3 : 2 };
};
template <int W> struct ckci_k_resident<ckci_k_norm_din<float, W>> {
    enum { BLOCKS = W == CKCI_K_NORM_ANY ? 0 : W == CKCI_K_NORM_PLANES ? 3 : 2 };
};

template <> struct ckci_k_resident<ckci_k_norm_fwd_kept> {
    enum { BLOCKS = 2 };
};

/* dgamma and dbeta. From workspace: 16 channels, whose n and parts are shared by 16 threads each. Without:
   a chunk of one set's columns, batch after batch. */
template <class T> struct ckci_k_norm_param {
    typedef ckci_k_norm_lds<T> lds;

    static CKCI_K_MEMBER void write(const ckci_gpu_norm &p, int32_t channel, T dbeta, T dgamma)
    {
        int size = ckci_k_size(p.param);
        if (p.dbeta) {
            ckci_k_store(p.param, p.dbeta + (int64_t)channel * size, dbeta);
        }
        if (p.dgamma) {
            ckci_k_store(p.param, p.dgamma + (int64_t)channel * size, dgamma);
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_norm &p, lds &m)
    {
        int32_t t = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x;
        T a = 0, b = 0;
        if (p.sums) {
            int32_t channel = block * 16 + (t & 15), channels = p.g * p.c;
            int64_t entries = (int64_t)p.n * p.parts;
            const T *sums = (const T *)p.sums;
            for (int64_t e = t >> 4; e < entries && channel < channels; e += 16) {
                a += sums[e * channels + channel];
                b += sums[(entries + e) * channels + channel];
            }
            m.u.sum[0][t] = a;
            m.u.sum[1][t] = b;
            for (int32_t half = 128; half >= 16; half /= 2) {
                __syncthreads();
                if (t < half) {
                    m.u.sum[0][t] += m.u.sum[0][t + half];
                    m.u.sum[1][t] += m.u.sum[1][t + half];
                }
            }
            if (t < 16 && channel < channels) {
                write(p, channel, m.u.sum[0][t], m.u.sum[1][t]);
            }
            return;
        }
        int32_t set = ckci_k_divide(block, p.by_chunks), lane = ckci_k_divide(t, p.by_lanes_p);
        int32_t j = (block - set * p.chunks) * p.lanes_c, column = j + lane;
        ckci_k_slab s = ckci_k_find_slab(p, set);
        bool owner = lane < p.lanes_c && lane * p.lanes_p == t && column < s.columns;
        for (s.n = 0; s.n < p.n; s.n++) {
            const ckci_gpu_norm &u = ckci_k_again(p);
            ckci_k_norm_statistics<CKCI_K_NORM_ANY>(u, s, m);
            ckci_k_norm_add(u, s, m, j);
            a += owner ? m.u.sum[0][t] : 0;
            b += owner ? m.u.sum[1][t] : 0;
            __syncthreads(); /* before the next statistics overwrite them */
        }
        if (owner) {
            write(p, s.g0 * p.c + column, a, b);
        }
    }
};


/*------------------------------------------------------------------------------------------------------------
  >>k-move
  Layout and type conversion. Dimension x is the one along which dst is dense, y the one along which src is.
  Equal types are copied bit for bit; f64 and i32 go through double, rounded once; the others through float,
  which is exact.
      move_copy       x is dense in both, equal types: pieces of 16, 8 or 4 bytes, four of them per thread,
                      of long runs in both tensors even where rows are short
      move_turn_E     x and y differ, equal types of E bytes: through LDS
      move_convert_E  types but i32, E bytes in dst: converted on the way to LDS, or straight to dst where x
                      is dense in both
      move            everything else: short dimensions, strides of any kind, i32: single elements

  Through LDS. A block owns tile[0] elements along x by tile[1] along y; V elements of dst are 16 bytes. It
  loads rows of src in pieces of 16 bytes, several under way, and stores rows of dst in pieces of 16 bytes.
  What is not aligned is loaded as the two aligned pieces around it (AMD: as it is). Elements change places
      gather    behind LDS, which holds rows of src as they are: a thread takes V of them at a place y. After
                each V rows lie 0 or 16 bytes more, so that V rows are an odd multiple of 16 bytes: eight
                threads with neighbouring pieces of a row of dst, and four at neighbouring places in others,
                meet 32 different banks. Rows of dst that are not aligned start in the middle of a piece; the
                block then reads V rows of src before its own and writes whole pieces that end early
      words     gather of elements smaller than a word of LDS, where both sides are aligned: words are loaded,
                their elements go to as many rows of dst
      scatter   before LDS, which holds dst: rows of dst are short and the tile is one run there; the mirror
                image of gather, with the same padding
  Where rows of src are short (`merged`), the tile is one run there, and V rows of it are one row.
*/

/* Nearest float in which a later rounding to fewer than 22 bits still sees whether x was above or below:
   inexact results have an odd last bit. */
CKCI_K_FN float ckci_k_odd_float(double x)
{
    float f = (float)x;
    uint32_t u = ckci_k_bits(f);
    double back = (double)f, over = x < 0 ? x - back : back - x; /* above 0: rounded away from 0 */
    if (x != x || back == x) {
        return f;
    }
    return ckci_k_float((over > 0 ? u - 1 : u) | 1u);
}

CKCI_K_FN bool ckci_k_move_wide(const ckci_gpu_move &p)
{
    return p.from == CKCONV_F64 || p.from == CKCONV_I32;
}

/* An element on its way: raw bits, a double or a float. */
CKCI_K_FN uint64_t ckci_k_move_read(const ckci_gpu_move &p, const unsigned char *at)
{
    if (p.from == CKCONV_F64) {
        return *(const uint64_t *)at;
    }
    if (p.from == p.to) {
        return ckci_k_load_bits(at, ckci_k_size(p.from));
    }
    if (p.from == CKCONV_I32) {
        double x = (double)*(const int32_t *)at;
        uint64_t u;
        memcpy(&u, &x, 8);
        return u;
    }
    return ckci_k_bits(ckci_k_load<float>(p.from, at));
}

CKCI_K_FN void ckci_k_move_write(const ckci_gpu_move &p, unsigned char *at, uint64_t u)
{
    int size = ckci_k_size(p.to);
    if (p.from == p.to) {
        if (size == 8) {
            *(uint64_t *)at = u;
        } else if (size == 4) {
            *(uint32_t *)at = (uint32_t)u;
        } else if (size == 2) {
            *(uint16_t *)at = (uint16_t)u;
        } else {
            *at = (unsigned char)u;
        }
        return;
    }
    double x = (double)ckci_k_float((uint32_t)u);
    float f = ckci_k_float((uint32_t)u);
    if (ckci_k_move_wide(p)) {
        memcpy(&x, &u, 8);
        f = p.to == CKCONV_F32 ? (float)x : ckci_k_odd_float(x);
    }
    if (p.to == CKCONV_F64) {
        *(double *)at = x;
    } else if (p.to == CKCONV_I32) {
        double r = rint(x < -2147483648.0 ? -2147483648.0 : x);
        *(int32_t *)at = x != x ? 0 : r >= 2147483647.0 ? INT32_MAX : (int32_t)r;
    } else {
        ckci_k_store(p.to, at, f);
    }
}

/* What a block moves: its first elements, the place of the first along x, how many of tile[..] there
   are. */
struct ckci_k_move_tile {
    const unsigned char *src;
    unsigned char *dst;
    int64_t x0;
    int32_t x1, y1, z1;
};

CKCI_K_FN int32_t ckci_k_move_end(int64_t rest, int32_t tile)
{
    return rest < tile ? (int32_t)rest : tile;
}

CKCI_K_FN ckci_k_move_tile ckci_k_find_move(const ckci_gpu_move &p)
{
    int32_t rest = (int32_t)blockIdx.x;
    ckci_k_move_tile tile = {p.src, p.dst, 0, 0, 0, 0};
    int64_t y0 = 0, z0 = 0;
    CKCI_K_UNROLL(1)
    for (int i = 0; i < 6 && rest > 0; i++) { /* the others have one block, from here on */
        const int32_t q = ckci_k_divide(rest, p.blocks[i]);
        const int64_t place = (int64_t)(rest - q * (int32_t)p.blocks[i].d) * p.tile[i];
        tile.src += place * p.src_step[i];
        tile.dst += place * p.dst_step[i];
        tile.x0 = i == 0 ? place : tile.x0;
        y0 = i == 1 ? place : y0;
        z0 = i == 2 ? place : z0;
        rest = q;
    }
    tile.x1 = ckci_k_move_end(p.len_x - tile.x0, p.tile[0]);
    tile.y1 = ckci_k_move_end(p.len_y - y0, p.tile[1]);
    tile.z1 = ckci_k_move_end(p.len_z - z0, p.tile[2]);
    return tile;
}

struct ckci_k_move {
    struct lds {
        uint64_t u[1280]; /* rows of 2^log_x, one apart */
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_move &p, lds &m)
    {
        const ckci_k_move_tile b = ckci_k_find_move(p);
        int32_t t = (int32_t)threadIdx.x, wide = 1 << p.log_x, high = 1 << p.log_y;
        uint64_t u[4] = {0, 0, 0, 0};
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            int32_t e = t + 256 * i, x = p.transpose ? e >> p.log_y : e & (wide - 1);
            int32_t y = p.transpose ? e & (high - 1) : e >> p.log_x;
            if (x < b.x1 && y < b.y1) {
                u[i] = ckci_k_move_read(p, b.src + x * p.src_step[0] + y * p.src_step[1]);
                if (p.transpose) {
                    m.u[y * (wide + 1) + x] = u[i];
                }
            }
        }
        __syncthreads();
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            int32_t e = t + 256 * i, x = e & (wide - 1), y = e >> p.log_x;
            if (x < b.x1 && y < b.y1) {
                ckci_k_move_write(p, b.dst + x * p.dst_step[0] + y * p.dst_step[1],
                                  p.transpose ? m.u[y * (wide + 1) + x] : u[i]);
            }
        }
    }
};

/* Steps, lengths and tiles count pieces of p.vec bytes along x; `tail` more bytes follow the last one. */
struct ckci_k_move_copy {
    struct lds {
        int32_t unused;
    };

    template <int WORDS> static CKCI_K_MEMBER void rows(const ckci_gpu_move &p, const ckci_k_move_tile &b)
    {
        ckci_k_vec<ckci_k_s_f32, WORDS> v[4];
        int32_t x[4], y[4], z[4];
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            const int32_t e = (int32_t)threadIdx.x + 256 * i, rest = e >> p.log_x;
            x[i] = e - (rest << p.log_x);
            z[i] = rest >> p.log_y;
            y[i] = rest - (z[i] << p.log_y);
            v[i].clear();
            if (x[i] < b.x1 && y[i] < b.y1 && z[i] < b.z1) {
                v[i].load(b.src + x[i] * (4 * WORDS) + y[i] * p.src_step[1] + z[i] * p.src_step[2]);
            }
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            if (x[i] < b.x1 && y[i] < b.y1 && z[i] < b.z1) {
                v[i].store(b.dst + x[i] * (4 * WORDS) + y[i] * p.dst_step[1] + z[i] * p.dst_step[2]);
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_move &p, lds &)
    {
        const ckci_k_move_tile b = ckci_k_find_move(p);
        if (p.vec == 16) {
            rows<4>(p, b);
        } else if (p.vec == 8) {
            rows<2>(p, b);
        } else {
            rows<1>(p, b);
        }
        if (blockIdx.x == 0 && (int32_t)threadIdx.x < p.tail) {
            int64_t at = p.len_x * p.vec + (int32_t)threadIdx.x;
            p.dst[at] = p.src[at];
        }
    }
};

/* Unsigned integers of E bytes */
template <int E> struct ckci_k_move_type;
template <> struct ckci_k_move_type<1> {
    typedef uint8_t word;
};
template <> struct ckci_k_move_type<2> {
    typedef uint16_t word;
};
template <> struct ckci_k_move_type<4> {
    typedef uint32_t word;
};
template <> struct ckci_k_move_type<8> {
    typedef uint64_t word;
};

/* What is moved one by one: not known to the compiler, which would move the last of it together with the last
   part of a load or store of all, and so split that. */
CKCI_K_FN int32_t ckci_k_later(int32_t count)
{
    return ckci_k_opaque(count);
}

/* Element j of words. */
template <int E> CKCI_K_FN typename ckci_k_move_type<E>::word ckci_k_move_element(const uint32_t *w, int j)
{
    if constexpr (E == 8) {
        return w[2 * j] | (uint64_t)w[2 * j + 1] << 32;
    } else {
        return (typename ckci_k_move_type<E>::word)(w[j * E / 4] >> j * E % 4 * 8);
    }
}

template <int E> CKCI_K_FN void ckci_k_move_put(uint32_t *w, int j, typename ckci_k_move_type<E>::word x)
{
    if constexpr (E == 8) {
        w[2 * j] = (uint32_t)x;
        w[2 * j + 1] = (uint32_t)(x >> 32);
    } else {
        w[j * E / 4] |= (uint32_t)x << j * E % 4 * 8;
    }
}

/* A thread's elements on their way to LDS. Of a row that does not start at a multiple of a load, that are the
   two aligned loads around them; `shift` is the byte in which they begin. */
template <bool SHIFTED> struct ckci_k_move_unit {
    enum { WORDS = SHIFTED ? 8 : 4 };
#if defined(__HIP_DEVICE_COMPILE__)
    enum { ANY = 1 }; /* a load takes any address */
#else
    enum { ANY = 0 };
#endif
    uint32_t w[WORDS];
    uint32_t shift;

    /* W words; false: not loaded, for the loads would touch bytes before or after the tensor */
    template <int W> CKCI_K_MEMBER bool load(const ckci_gpu_move &p, const unsigned char *at)
    {
        ckci_k_vec<ckci_k_s_f32, W> q;
        uint32_t before = 0;
        if constexpr (SHIFTED) {
            before = (uint32_t)(uintptr_t)at & (4 * W - 1);
        }
        const unsigned char *low = at - before;
        if ((SHIFTED && low < p.src) || low + WORDS * W > p.src_end) {
            return false;
        }
        shift = before;
#if defined(__HIP_DEVICE_COMPILE__)
        typedef uint32_t any __attribute__((vector_size(4 * W), aligned(1)));
        const any v = *(const any *)low;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < W; i++) {
            q.w[i] = v[i];
        }
#else
        q.load(low);
#endif
        copy<W>(q, 0);
        if constexpr (SHIFTED) {
            q.load(low + 4 * W);
            copy<W>(q, W);
        }
        return true;
    }

    template <int W> CKCI_K_MEMBER void copy(const ckci_k_vec<ckci_k_s_f32, W> &q, int first)
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < W; i++) {
            w[first + i] = q.w[i];
        }
    }

    /* The first `count` of N elements of E bytes, or all of them. */
    template <int E, int N>
    CKCI_K_MEMBER void fetch(const ckci_gpu_move &p, const unsigned char *at, int32_t count)
    {
        if constexpr (E * N >= 4) {
            if (count > 0 && (SHIFTED || !p.shifted || ANY) && load<E * N / 4>(p, at)) {
                count = 0;
            }
        }
        CKCI_K_UNROLL(1)
        for (int j = 0; j < ckci_k_later(count < N ? count : N); j++) {
            const uint32_t low = E == 8 ? ((const uint32_t *)at)[2 * j] : ckci_k_load_bits(at + j * E, E);
            const int word = j * E / 4;
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                w[i] |= i == word ? low << j * E % 4 * 8 : 0;
                if (E == 8 && i == word + 1) {
                    w[i] = ((const uint32_t *)at)[2 * j + 1];
                }
            }
        }
    }

    CKCI_K_MEMBER void clear()
    {
        shift = 0;
        CKCI_K_UNROLL(8)
        for (int i = 0; i < WORDS; i++) {
            w[i] = 0;
        }
    }

    /* Elements in the first four words. */
    CKCI_K_MEMBER void settle()
    {
        if constexpr (SHIFTED) {
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 6; i++) {
                w[i] = shift & 8 ? w[i + 2] : w[i];
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 5; i++) {
                w[i] = shift & 4 ? w[i + 1] : w[i];
            }
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                w[i] = (uint32_t)((w[i] | (uint64_t)w[i + 1] << 32) >> 8 * (shift & 3));
            }
        }
    }
};

template <int E, bool CONVERT> struct ckci_k_move_turn;
template <int E, bool CONVERT> struct ckci_k_resident<ckci_k_move_turn<E, CONVERT>> {
    enum { BLOCKS = 5 };
};

/* E: bytes of an element in dst and in LDS; CONVERT: those in src are of another type. */
template <int E, bool CONVERT> struct ckci_k_move_turn {
    typedef typename ckci_k_move_type<E>::word word;
    enum { V = 16 / E, UNIT = !CONVERT ? V : E == 8 ? 2 : 4, WORDS = UNIT * E / 4 };
    enum { ASK = 2 }; /* p.scatter, where that is not known to the compiler */
    enum { USUAL = E == 2 ? CKCONV_F32 : E == 4 ? CKCONV_F16 : -1 }; /* other types: one load at a time */

    struct lds {
        alignas(16) unsigned char tile[CKCI_MOVE_LDS];
    };

    template <int SCATTER> static CKCI_K_MEMBER bool scatters(const ckci_gpu_move &p)
    {
        if constexpr (SCATTER == ASK) {
            return p.scatter != 0;
        } else {
            return SCATTER != 0;
        }
    }

    /* The loads of a thread in a tile of src: which rows there are, how many elements of them all. */
    struct walk {
        const unsigned char *src;
        int32_t first, rows, limit;

        CKCI_K_MEMBER walk(const ckci_gpu_move &p, const ckci_k_move_tile &b)
        {
            const int32_t skip = b.x0 < p.before ? p.before : 0;
            const int32_t all = p.straight ? b.y1 : b.x1 + p.before, run = p.straight ? b.x1 : b.y1;
            src = b.src - p.before * p.src_step[0];
            first = p.merged ? skip / V : skip;
            rows = (p.merged ? (all + V - 1) / V : all) - first;
            limit = p.merged ? all * run : run;
        }
    };

    /* A load: its row (merged: of V rows), the elements before it there, those from it on, if any. */
    struct spot {
        int32_t row, at, count;

        template <int SCATTER> CKCI_K_MEMBER void find(const ckci_gpu_move &p, const walk &walk, int32_t q)
        {
            if (scatters<SCATTER>(p)) {
                const int32_t high = ckci_k_divide(q >> 5, p.by_load);
                row = (q >> 3 & 3) + ((q >> 5) - high * (int32_t)p.by_load.d) * 4;
                at = ((q & 7) + high * 8) * UNIT;
            } else {
                row = ckci_k_divide(q, p.by_load);
                at = (q - row * (int32_t)p.by_load.d) * UNIT;
            }
            count =
                (uint32_t)(row - walk.first) < (uint32_t)walk.rows ? walk.limit - at - row * p.row_run : 0;
        }
    };

    /* UNIT elements of S bytes, side by side, to elements of dst; S = 0: any type, each in a word, f64 as the
       float that rounds alike. What converts types of one byte stands once: the elements go round. */
    template <int S> static CKCI_K_MEMBER void convert(const ckci_gpu_move &p, uint32_t *w)
    {
        uint32_t v[UNIT];
        CKCI_K_UNROLL(4)
        for (int j = 0; j < UNIT; j++) {
            v[j] = S == 2 ? ckci_k_move_element<2>(w, j) : w[j];
        }
        if (S != 4 && p.from == CKCONV_F16) {
            CKCI_K_UNROLL(4)
            for (int j = 0; j < UNIT; j++) {
                v[j] = ckci_k_bits(ckci_k_half_float(v[j]));
            }
        } else if (S != 4 && p.from == CKCONV_BF16) {
            CKCI_K_UNROLL(4)
            for (int j = 0; j < UNIT; j++) {
                v[j] <<= 16;
            }
        }
        if (S == 0 && (E == 1 || ckci_k_size(p.from) == 1)) {
            CKCI_K_UNROLL(1)
            for (int j = 0; j < UNIT; j++) {
                const float x = ckci_k_size(p.from) == 1 ? ckci_k_widen(p.from, v[0]) : ckci_k_float(v[0]);
                const uint32_t u = E != 1              ? ckci_k_bits(x)
                                   : p.to == CKCONV_I8 ? (uint32_t)ckci_k_int(x, -128.f, 127.f) & 0xffu
                                                       : ckci_k_float_fp8(ckci_k_find_fp8(p.to), x);
                CKCI_K_UNROLL(4)
                for (int i = 0; i + 1 < UNIT; i++) {
                    v[i] = v[i + 1];
                }
                v[UNIT - 1] = u;
            }
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < WORDS; i++) {
            w[i] = 0;
        }
        if (E == 2 && p.to == CKCONV_F16) {
            CKCI_K_UNROLL(4)
            for (int j = 0; j < UNIT; j++) {
                ckci_k_move_put<2>(w, j, (uint16_t)ckci_k_float_half(ckci_k_float(v[j])));
            }
            return;
        }
        CKCI_K_UNROLL(4)
        for (int j = 0; j < UNIT; j++) {
            if constexpr (E == 8) {
                const double x = (double)ckci_k_float(v[j]);
                uint64_t bits;
                memcpy(&bits, &x, 8);
                ckci_k_move_put<8>(w, j, bits);
            } else {
                ckci_k_move_put<E>(w, j, (word)(E == 2 ? ckci_k_float_bf16(ckci_k_float(v[j])) : v[j]));
            }
        }
    }

    /* src to LDS, or straight to dst; elements of S bytes. */
    template <bool SHIFTED, int SCATTER, int S>
    static CKCI_K_MEMBER void fill(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m)
    {
        enum { DEPTH = SHIFTED ? 2 : 4 }; /* loads of a thread under way */
#if defined(__HIP_DEVICE_COMPILE__)
        enum { ROUNDS = 1 }; /* what follows them stands once: a third of the time to compile */
#else
        enum { ROUNDS = DEPTH };
#endif
        const walk walk(p, b);
        CKCI_K_UNROLL(1)
        for (int32_t q = (int32_t)threadIdx.x; q < p.loads; q += 256 * DEPTH) {
            ckci_k_move_unit<SHIFTED> u[DEPTH];
            spot s[DEPTH];
            CKCI_K_UNROLL(4)
            for (int i = 0; i < DEPTH; i++) {
                s[i].template find<SCATTER>(p, walk, q + 256 * i);
                u[i].clear();
                u[i].template fetch<S, UNIT>(p, walk.src + s[i].row * p.load_step + s[i].at * S, s[i].count);
            }
            CKCI_K_UNROLL(ROUNDS)
            for (int i = 0; i < DEPTH; i++) {
                if (s[0].count > 0) {
                    u[0].settle();
                    if constexpr (CONVERT) {
                        convert<S>(p, u[0].w);
                    }
                    put<SCATTER>(p, b, m, s[0], u[0].w);
                }
                CKCI_K_UNROLL(4)
                for (int k = 0; k + 1 < DEPTH; k++) {
                    u[k] = u[k + 1];
                    s[k] = s[k + 1];
                }
            }
        }
    }

    /* The same of other types. */
    static CKCI_K_MEMBER void fill_any(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m)
    {
        enum { DEPTH = 2 };
        const walk walk(p, b);
        const int size = ckci_k_size(p.from);
        CKCI_K_UNROLL(1)
        for (int32_t q = (int32_t)threadIdx.x; q < p.loads; q += 256 * DEPTH) {
            ckci_k_move_unit<false> u[DEPTH];
            spot s[DEPTH];
            CKCI_K_UNROLL(4)
            for (int i = 0; i < DEPTH; i++) {
                s[i].template find<ASK>(p, walk, q + 256 * i);
                u[i].clear();
                fetch_any(p, walk.src + s[i].row * p.load_step + s[i].at * size, s[i].count, size, u[i]);
            }
            CKCI_K_UNROLL(1)
            for (int i = 0; i < DEPTH; i++) {
                if (s[0].count > 0) {
                    convert_any(p, size, u[0].w);
                    put<ASK>(p, b, m, s[0], u[0].w);
                }
                CKCI_K_UNROLL(4)
                for (int k = 0; k + 1 < DEPTH; k++) {
                    u[k] = u[k + 1];
                    s[k] = s[k + 1];
                }
            }
        }
    }

    static CKCI_K_MEMBER void fetch_any(const ckci_gpu_move &p, const unsigned char *at, int32_t count,
                                        int size, ckci_k_move_unit<false> &u)
    {
        if (size == 2) {
            u.template fetch<2, UNIT>(p, at, count);
        } else if (size == 4) {
            u.template fetch<4, UNIT>(p, at, count);
        } else if (size == 1) {
            u.template fetch<1, UNIT>(p, at, count);
        } else { /* the float that rounds alike */
            CKCI_K_UNROLL(4)
            for (int j = 0; j < UNIT; j++) {
                const double x = j < count ? ((const double *)at)[j] : 0.;
                u.w[j] = ckci_k_bits(p.to == CKCONV_F32 ? (float)x : ckci_k_odd_float(x));
            }
        }
    }

    static CKCI_K_MEMBER void convert_any(const ckci_gpu_move &p, int size, uint32_t *w)
    {
        uint32_t v[UNIT];
        CKCI_K_UNROLL(4)
        for (int j = 0; j < UNIT; j++) {
            v[j] = size == 1 ? ckci_k_move_element<1>(w, j) : size == 2 ? ckci_k_move_element<2>(w, j) : w[j];
        }
        CKCI_K_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            w[j] = j < UNIT ? v[j < UNIT ? j : 0] : 0;
        }
        convert<0>(p, w);
    }

    template <int SCATTER>
    static CKCI_K_MEMBER void put(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m, const spot &s,
                                  const uint32_t *w)
    {
        if (scatters<SCATTER>(p)) {
            scatter(p, b, m, s, s.count, w);
        } else if (CONVERT && p.straight) {
            unsigned char *to = b.dst + s.row * p.dst_step[1] + s.at * E;
            if (p.dst_vec && s.count >= UNIT) {
                store(to, w);
                return;
            }
            uint32_t rotate[WORDS];
            CKCI_K_UNROLL(4)
            for (int i = 0; i < WORDS; i++) {
                rotate[i] = w[i];
            }
            CKCI_K_UNROLL(1)
            for (int j = 0; j < UNIT && j < s.count; j++) {
                ((word *)to)[j] = ckci_k_move_element<E>(rotate, 0);
                next(rotate);
            }
        } else {
            store(m.tile + s.row * p.load_pitch + s.row / V * p.load_pad + s.at * E, w);
            (void)ckci_k_later(0); /* else part of that store becomes one with the last of scatter */
        }
    }

    static CKCI_K_MEMBER void store(unsigned char *at, const uint32_t *w)
    {
        ckci_k_vec<ckci_k_s_f32, WORDS> q;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < WORDS; i++) {
            q.w[i] = w[i];
        }
        q.store(at);
    }

    /* Elements between the last multiple of 16 bytes and `at`. */
    static CKCI_K_MEMBER int32_t over(const unsigned char *at)
    {
        return ((int32_t)(uintptr_t)at & 15) / E;
    }

    static CKCI_K_MEMBER void scatter(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m,
                                      const spot &s, int32_t count, const uint32_t *w)
    {
        const int32_t wide = (int32_t)p.len_x, shift = over(b.dst), step = wide * E;
        unsigned char *at = m.tile + s.at * step + (s.row + shift) * E + s.at / V * p.pad;
        if (shift == 0 && count >= UNIT) {
            CKCI_K_UNROLL(16)
            for (int j = 0; j < UNIT; j++) {
                *(word *)(at + j * step) = ckci_k_move_element<E>(w, j);
            }
            return;
        }
        int32_t rest = V * wide - ((s.at & (V - 1)) * wide + s.row + shift); /* of these V rows */
        uint32_t rotate[WORDS];
        CKCI_K_UNROLL(4)
        for (int i = 0; i < WORDS; i++) {
            rotate[i] = w[i];
        }
        CKCI_K_UNROLL(1)
        for (int j = 0; j < UNIT && j < count; j++) {
            *(word *)(at + (rest <= 0 ? p.pad : 0)) = ckci_k_move_element<E>(rotate, 0);
            next(rotate);
            at += step;
            rest -= wide;
        }
    }

    /* The next element to the front. */
    static CKCI_K_MEMBER void next(uint32_t *w)
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < WORDS; i++) {
            const int wide = E / 4, one = i + 1 < WORDS ? i + 1 : i;
            w[i] = wide == 2   ? w[i + 2 < WORDS ? i + 2 : i]
                   : wide == 1 ? w[one]
                               : w[i] >> 8 * (E & 3) | w[one] << (32 - 8 * (E & 3)) % 32;
        }
    }

    /* LDS to dst, in the same order: q counts pieces of 16 bytes. */
    static CKCI_K_MEMBER void drain(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m)
    {
        const int32_t shift = over(b.dst), end = shift + b.y1 * (int32_t)p.len_x;
        CKCI_K_UNROLL(2)
        for (int32_t q = (int32_t)threadIdx.x; q < p.stores; q += 256) {
            const unsigned char *from = m.tile + q * 16 + ckci_k_divide(q, p.by_store) * p.pad;
            unsigned char *to = b.dst + (q * V - shift) * E;
            if (q * V >= shift && q * V + V <= end) {
                ckci_k_vec<ckci_k_s_f32, 4> v;
                v.load(from);
                v.store(to);
            } else {
                CKCI_K_UNROLL(1)
                for (int j = 0; j < V; j++) {
                    if (q * V + j >= shift && q * V + j < end) {
                        ((word *)to)[j] = ((const word *)from)[j];
                    }
                }
            }
        }
    }

    /* LDS to dst, across. Eight lanes take neighbouring pieces of a row of dst, four take rows that lie in
       different banks: neighbours, or, where each row is APART in its own way, 4 bytes apart. */
    template <bool APART>
    static CKCI_K_MEMBER void gather(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m)
    {
        CKCI_K_UNROLL(1)
        for (int32_t q = (int32_t)threadIdx.x; q < p.stores; q += 256) {
            enum { STEP = APART && E < 4 ? 4 / E : 1 };
            const int32_t far = ckci_k_divide(q >> 5, p.by_store), piece = (q & 7) + far * 8;
            const int32_t near = (q >> 5) - far * (int32_t)p.by_store.d;
            const int32_t y = (near / STEP * 4 + (q >> 3 & 3)) * STEP + near % STEP;
            if (y >= b.y1 || piece * V >= p.tile[0]) {
                continue;
            }
            unsigned char *to = b.dst + y * p.dst_step[1];
            int32_t shift = 0, next = V; /* the first element of the next V rows */
            const unsigned char *from = m.tile + piece * (V * p.pitch + p.pad) + y * E;
            if constexpr (APART) {
                shift = over(to);
                next = shift ? shift : V;
                from += (V - shift) * p.pitch + (shift ? 0 : p.pad);
            }
            const int32_t x = piece * V - shift;
            to += x * E;
            if ((!APART || b.x0 + x >= 0) && x + V <= b.x1) {
                ckci_k_vec<ckci_k_s_f32, 4> v;
                v.clear();
                CKCI_K_UNROLL(16)
                for (int j = 0; j < V; j++) {
                    const int32_t at = j * p.pitch + (APART && j >= next ? p.pad : 0);
                    ckci_k_move_put<E>(v.w, j, *(const word *)(from + at));
                }
                v.store(to);
            } else {
                CKCI_K_UNROLL(1)
                for (int j = 0; j < V; j++) {
                    if (b.x0 + x + j >= 0 && x + j < b.x1) {
                        ((word *)to)[j] = *(const word *)(from + j * p.pitch + (j >= next ? p.pad : 0));
                    }
                }
            }
        }
    }

    /* The same of aligned rows, ACROSS of them at a time, which share a word of LDS. */
    enum { ACROSS = 4 / E };

    static CKCI_K_MEMBER void gather_words(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m)
    {
        CKCI_K_UNROLL(1)
        for (int32_t q = (int32_t)threadIdx.x; q < p.stores; q += 256) {
            const int32_t far = ckci_k_divide(q >> 5, p.by_store), piece = (q & 7) + far * 8;
            const int32_t near = (q >> 5) - far * (int32_t)p.by_store.d;
            const int32_t y = (near * 4 + (q >> 3 & 3)) * ACROSS, x = piece * V;
            if (y >= b.y1 || x >= b.x1) {
                continue;
            }
            const unsigned char *from = m.tile + piece * (V * p.pitch + p.pad) + y * E;
            uint32_t w[V];
            CKCI_K_UNROLL(16)
            for (int j = 0; j < V; j++) {
                w[j] = *(const uint32_t *)from;
                from += p.pitch;
            }
            unsigned char *to = b.dst + y * p.dst_step[1] + x * E;
            CKCI_K_UNROLL(4)
            for (int r = 0; r < ACROSS; r++) {
                uint32_t out[4];
                CKCI_K_UNROLL(4)
                for (int k = 0; k < 4; k++) {
                    out[k] = words(w + k * ACROSS, r);
                }
                if (y + r < b.y1 && x + V <= b.x1) {
                    const ckci_k_uint4 four = {out[0], out[1], out[2], out[3]};
                    *(ckci_k_uint4 *)to = four;
                }
                to += p.dst_step[1];
            }
        }
    }

    /* Element r of each of ACROSS words */
    static CKCI_K_MEMBER uint32_t words(const uint32_t *w, int r)
    {
        if constexpr (E == 2) {
            return r ? ckci_k_halves<1>(w[0], w[1]) : ckci_k_halves<0>(w[0], w[1]);
        } else {
            return (w[0] >> 8 * r & 0xffu) | (w[1] >> 8 * r & 0xffu) << 8 | (w[2] >> 8 * r & 0xffu) << 16 |
                   w[3] >> 8 * r << 24;
        }
    }

    template <int S>
    static CKCI_K_MEMBER void fill_all(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m)
    {
#if defined(__HIP_DEVICE_COMPILE__) /* scalar branches are cheap, and loads take any address */
        fill<false, ASK, S>(p, b, m);
#else
        if (p.shifted && p.scatter) {
            fill<true, 1, S>(p, b, m);
        } else if (p.shifted) {
            fill<true, 0, S>(p, b, m);
        } else if (p.scatter) {
            fill<false, 1, S>(p, b, m);
        } else {
            fill<false, 0, S>(p, b, m);
        }
#endif
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_move &p, lds &m)
    {
        const ckci_k_move_tile b = ckci_k_find_move(p);
        if constexpr (!CONVERT) {
            fill_all<E>(p, b, m);
        } else if (p.from == USUAL || (E == 4 && p.from == CKCONV_BF16)) {
            if constexpr (E == 2 || E == 4) {
                fill_all<8 / E>(p, b, m);
            }
        } else {
            fill_any(p, b, m);
        }
        if (CONVERT && p.straight) {
            return;
        }
        __syncthreads();
        if (p.scatter) {
            drain(p, b, m);
            return;
        }
        if constexpr (E < 4) {
            if (p.words) {
                gather_words(p, b, m);
                return;
            }
        }
        if (p.before) {
            gather<true>(p, b, m);
        } else {
            gather<false>(p, b, m);
        }
    }
};


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
        body::run(CKCI_K_ARGS(ARGS, a), m);                                                                  \
    }
CKCI_GPU_KERNELS(CKCI_ROW)
#undef CKCI_ROW
}

static ckci_gpu_error ckci_k_launch(const ckci_launch *l, ckci_gpu_stream stream)
{
#if defined(CKCI_SIMULATOR)
    switch (l->kernel) {
#define CKCI_ROW(NAME, ARGS, THREADS, ...)                                                                   \
    case CKCI_KERNEL_##NAME: {                                                                               \
        ARGS args;                                                                                           \
        memcpy(&args, &l->a, sizeof args);                                                                   \
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
        ckci_gpu_error status =
            cudaFuncSetAttribute(kernels[l->kernel], cudaFuncAttributeMaxDynamicSharedMemorySize, (int)lds);
        if (status != cudaSuccess) {
            return status;
        }
    }
#if CUDART_VERSION >= 11080
    if (l->cluster > 1) {
        cudaLaunchAttribute attribute;
        cudaLaunchConfig_t config;
        memset(&attribute, 0, sizeof attribute);
        memset(&config, 0, sizeof config);
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim.x = (unsigned)l->cluster;
        attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
        config.gridDim = dim3((unsigned)l->grid);
        config.blockDim = dim3((unsigned)l->threads);
        config.dynamicSmemBytes = lds;
        config.stream = stream;
        config.attrs = &attribute;
        config.numAttrs = 1;
        return cudaLaunchKernelExC(&config, kernels[l->kernel], args);
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
#undef CKCI_K_FN
#undef CKCI_K_KERNEL
#undef CKCI_K_LDS
#undef CKCI_K_MEMBER
#undef CKCI_K_MFMA
#undef CKCI_K_MMA
#undef CKCI_K_PARAM
#undef CKCI_K_PRAGMA
#undef CKCI_K_SUM32
#undef CKCI_K_SUM8
#undef CKCI_K_SUMS_128
#undef CKCI_K_SUMS_32
#undef CKCI_K_SUMS_64
#undef CKCI_K_SUMS_96
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
