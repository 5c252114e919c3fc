/*------------------------------------------------------------------------------------------------------------
  >>k-prim
  Conversions, loads and stores. T is float, double or int32_t: the type of the arithmetic. What needs an
  instruction of its own is a function here with a twin for the simulator. Also what keeps a compiler from
  moving a value to where registers are scarce (late, again, afresh, hold: each says why, once, here), and
  sums whose error does not grow with their length. It knows no family.
*/
#pragma once
#include "gpu/args.h"
#include "kernels/arch.h"

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
template <class T> CKCI_K_FN const T &ckci_k_late_again(const T &x)
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

/* The same on every GPU: what is computed from it is computed again, not kept in registers, and it is not
   itself computed a second time elsewhere. */
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

/* Threads that a block of a kernel can have; of one that is empty for NVIDIA's target fewer than it is
   launched with, which the host can ask for. */
template <class Body> struct ckci_k_most_threads {
    enum { COUNT = 1024 };
};

/* Waves that a SIMD should hold of a kernel, for AMD's compilers; 1: no wish. */
template <class Body> struct ckci_k_together {
    enum { WAVES = 1 };
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

/* Can its blocks go to several dies? (The simulator's AMD targets: as if, for one, too.) */
CKCI_K_FN bool ckci_k_has_dies()
{
#if defined(CKCI_SIMULATOR)
    return ckci_k_amd();
#elif CKCI_K_DIES > 1
    return true;
#else
    return false;
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

#if !defined(__CUDACC__)
/* 16 bytes as one value: aligned, or to numbers only, which AMD loads and stores as fast. */
typedef uint32_t ckci_k_piece __attribute__((vector_size(16), may_alias));
typedef uint32_t ckci_k_loose_piece __attribute__((vector_size(16), may_alias, aligned(2)));
#endif
#if defined(__HIP_DEVICE_COMPILE__) /* of memory: where it could be another, 16 bytes are eight loads */
typedef __attribute__((address_space(1))) ckci_k_loose_piece ckci_k_loose_global;
#elif !defined(__CUDACC__)
typedef ckci_k_loose_piece ckci_k_loose_global;
#endif

/* Of such a piece in memory; NVIDIA has none. */
CKCI_K_FN ckci_k_uint4 ckci_k_load_loose(const unsigned char *p)
{
#if !defined(__CUDACC__)
    const ckci_k_loose_piece q = *(const ckci_k_loose_global *)p;
    return {q[0], q[1], q[2], q[3]};
#else
    return *(const ckci_k_uint4 *)p;
#endif
}

CKCI_K_FN void ckci_k_store_loose(unsigned char *p, const ckci_k_uint4 &v)
{
#if !defined(__CUDACC__)
    const ckci_k_loose_piece q = {v.x, v.y, v.z, v.w};
    *(ckci_k_loose_global *)p = q;
#else
    *(ckci_k_uint4 *)p = v;
#endif
}

/* What lies at p will soon be loaded: it comes to the L2 cache meanwhile, and takes no register (NVIDIA). */
CKCI_K_FN void ckci_k_expect(const unsigned char *p)
{
#if defined(__CUDA_ARCH__)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
#else
    (void)p;
#endif
}

struct alignas(16) ckci_k_double2 {
    double x, y;
};

/* Copies into LDS that do not wait, on NVIDIA from sm_80 on: BYTES, or as many zeros. ckci_k_copies_end
   closes a batch of them, ckci_k_copies_wait<COUNT> waits for all but the last COUNT batches. */
template <int BYTES>
CKCI_K_FN void ckci_k_copy_async(unsigned char *to, const unsigned char *from, bool inside)
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

/* Until all threads of a cluster's blocks are here; mbarriers that have begun are known to all. */
CKCI_K_FN void ckci_k_cluster_meet()
{
#if defined(CKCI_SIMULATOR)
    sim_cluster_barrier();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.relaxed;\n\tbarrier.cluster.wait;" ::: "memory");
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
   of this one have. */
CKCI_K_FN void ckci_k_let_next()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Waits until all that earlier kernels of the run write is there for this one: before a thread reads or
   writes global memory. */
CKCI_K_FN void ckci_k_await_last()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Does a kernel await the last one itself, when it has done what needs no memory? Others begin with it. */
template <class Body> struct ckci_k_awaits {
    enum { ITSELF = 0 };
};

/* Is what is told apart at run time bf16 and not f16, in a build that may have only one of them? What the
   other would do is not compiled then. */
#if !CKCI_HAS_BF16
#define CKCI_K_BF16(x) (false && (x))
#elif !CKCI_USES_F16
#define CKCI_K_BF16(x) (true || (x))
#else
#define CKCI_K_BF16(x) (x)
#endif

/* What lane ^ mask has; all lanes of a wave call it. */
CKCI_K_FN float ckci_k_shuffle_xor(float v, int32_t mask)
{
#if defined(CKCI_SIMULATOR)
    return sim_shuffle_xor(v, mask);
#elif defined(__CUDA_ARCH__)
    return __shfl_xor_sync(0xffffffffu, v, mask);
#elif defined(__HIP_DEVICE_COMPILE__)
    /* The lane of this wave: a GPU takes an index beyond them modulo their number, an emulator may give 0.
       Counted, as clang 15 has no builtin for their number. */
    const int32_t lane = (int32_t)__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
    const int32_t from = lane ^ mask;
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
#if CKCI_USES_F16
    if (compute == CKCONV_F16) {
        return ckci_k_half_float(ckci_k_float_half(x));
    }
#endif
#if CKCI_HAS_F32
    if (compute == CKCONV_TF32) {
        return ckci_k_float(ckci_k_tf32_bits(ckci_k_bits(x)));
    }
#endif
#if CKCI_HAS_BF16
    if (compute == CKCONV_BF16 || compute == CKCONV_BF16X3) {
        float high = ckci_k_float(ckci_k_float_bf16(x) << 16), low = x - high;
        bool two = compute == CKCONV_BF16X3 && low - low == 0;
        return two ? high + ckci_k_float(ckci_k_float_bf16(low) << 16) : high;
    }
#endif
#if CKCI_HAS_FP8
    if (compute >= CKCONV_F8E4M3 && compute <= CKCONV_F8E5M2FNUZ) {
        ckci_k_fp8 f = ckci_k_find_fp8(compute);
        return ckci_k_fp8_float(f, ckci_k_float_fp8(f, x));
    }
#endif
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
#if CKCI_HAS_F16
    case CKCONV_F16:
        return ckci_k_half_float(bits);
#endif
#if CKCI_HAS_BF16
    case CKCONV_BF16:
        return ckci_k_float(bits << 16);
#endif
#if CKCI_HAS_I8
    case CKCONV_I32:
        return (float)(int32_t)bits;
    case CKCONV_I8:
        return (float)(int8_t)bits;
#endif
    default:
#if CKCI_HAS_FP8
#if defined(__HIP_DEVICE_COMPILE__)
        dtype = ckci_k_afresh(dtype); /* what follows from it is computed here */
#endif
        return ckci_k_fp8_float(ckci_k_find_fp8(dtype), bits);
#else
        return 0;
#endif
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
#if CKCI_HAS_F64
        if (dtype == CKCONV_F64) {
            return (float)*(const double *)p;
        }
#endif
        return ckci_k_widen(dtype, ckci_k_load_bits(p, ckci_k_size(dtype)));
    }
}

/* One element, rounded once. */
CKCI_K_FN void ckci_k_store(int32_t dtype, unsigned char *p, float x)
{
    switch (dtype) {
#if CKCI_HAS_F64
    case CKCONV_F64:
        *(double *)p = (double)x;
        break;
#endif
    case CKCONV_F32:
        *(float *)p = x;
        break;
#if CKCI_HAS_F16
    case CKCONV_F16:
        *(uint16_t *)p = (uint16_t)ckci_k_float_half(x);
        break;
#endif
#if CKCI_HAS_BF16
    case CKCONV_BF16:
        *(uint16_t *)p = (uint16_t)ckci_k_float_bf16(x);
        break;
#endif
#if CKCI_HAS_I8
    case CKCONV_I32:
        *(int32_t *)p = ckci_k_int(x, -2147483648.f, 2147483648.f);
        break;
    case CKCONV_I8:
        *p = (unsigned char)ckci_k_int(x, -128.f, 127.f);
        break;
#endif
    default:
#if CKCI_HAS_FP8
        *p = (unsigned char)ckci_k_float_fp8(ckci_k_find_fp8(dtype), x);
#endif
        break;
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

/* Two f32 to bf16 or f16, whose callers know which when they are compiled. */
CKCI_K_FN uint32_t ckci_k_two_halves(bool bf16, float low, float high)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint32_t two;
    if (bf16) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    } else {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    }
    return two;
#else
    if (!bf16) {
        return ckci_k_float_half(low) | ckci_k_float_half(high) << 16;
    }
#if defined(__HIP_DEVICE_COMPILE__) && CKCI_K_UNIT == CKCI_K_UNIT_CDNA4
    /* v_cvt_pk_bf16_f32; not as assembly, before which compilers do not wait for sums of MFMA */
    typedef float singles __attribute__((ext_vector_type(2)));
    typedef __bf16 halves __attribute__((ext_vector_type(2)));
    const singles two = {low, high};
    return __builtin_bit_cast(uint32_t, __builtin_convertvector(two, halves));
#elif defined(__HIP_DEVICE_COMPILE__)
    const uint32_t two[2] = {ckci_k_bits(low), ckci_k_bits(high)};
    uint32_t rounded[2]; /* in the upper half */
    CKCI_K_UNROLL(2)
    for (int i = 0; i < 2; i++) {
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ /* compilers take no number for a NaN */
        const bool nan = two[i] << 1 > 0xff000000u;
#else
        const bool nan = __builtin_amdgcn_classf(i ? high : low, 3); /* of either kind */
#endif
        rounded[i] = nan ? two[i] | 0x400000u : two[i] + 0x7fffu + (two[i] >> 16 & 1);
    }
    return __builtin_amdgcn_perm(rounded[1], rounded[0], 0x07060302u);
#else
    return ckci_k_float_bf16(low) | ckci_k_float_bf16(high) << 16;
#endif
#endif
}

/* Two f32, as their bits, to f16 or bf16. */
CKCI_K_FN uint32_t ckci_k_two(int32_t dtype, uint32_t low, uint32_t high)
{
    const float a = ckci_k_float(low), b = ckci_k_float(high);
    return CKCI_K_BF16(dtype != CKCONV_F16) ? ckci_k_two_halves(true, a, b) : ckci_k_two_halves(false, a, b);
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
