/*------------------------------------------------------------------------------------------------------------
  >>k-chunks
  Chunks of 16 bytes between memory, registers and LDS: windows of memory with a bound, copies that go
  straight to LDS, barriers for LDS alone. For every family that stages tiles. Loads outside a window give
  zeros, so that padding costs no branch: an offset with its sign bit set is outside. Each function has a form
  for the vendor that has an instruction for it, and one for the simulator.
*/
#pragma once
#include "kernels/unit/unit.h"

/* Taps that a block can have; how tiles lie in LDS (groups of waves need their swizzle's period). */
#if defined(__HIP_DEVICE_COMPILE__)
enum { CKCI_K_TAPS = 128, CKCI_K_TILE_ALIGN = 128 };
#else
enum { CKCI_K_TAPS = 128, CKCI_K_TILE_ALIGN = 1024 };
#endif

#if CKCI_K_BUFFERS
typedef int ckci_k_int4 __attribute__((ext_vector_type(4)));
__device__ ckci_k_int4 ckci_k_buffer_load(ckci_k_int4 window, int offset, int scalar_offset,
                                          int cache) __asm("llvm.amdgcn.raw.buffer.load.v4i32");
#endif

/* 2^31 bytes of memory from `base` on; a load at a negative offset gives zeros. AMD: a buffer, whose
   descriptor has a form of its own in each generation; where that is not known, a pointer. */
struct ckci_k_window {
#if CKCI_K_BUFFERS
    ckci_k_int4 v;
#else
    const unsigned char *base;
#endif
};

CKCI_K_FN ckci_k_window ckci_k_make_window(const unsigned char *base)
{
    ckci_k_window w;
#if CKCI_K_BUFFERS
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
#if CKCI_K_BUFFERS
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

/* A number that is not to be computed anew. */
CKCI_K_FN int32_t ckci_k_kept(int32_t x)
{
#if defined(__CUDA_ARCH__)
    asm volatile("" : "+r"(x));
#endif
    return x;
}

/* What this thread wrote into LDS, multiplications of groups of waves see after the next barrier. */
CKCI_K_FN void ckci_k_proxy_fence()
{
#if defined(__CUDA_ARCH__) && defined(CKCI_K_WGMMA)
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/* NVIDIA: whole waves of COUNT threads meet at a barrier of that number, 0 being the block's: those of a
   group of four waves, or all that multiply. */
template <int COUNT> CKCI_K_FN void ckci_k_meet(int32_t barrier)
{
#if defined(CKCI_SIMULATOR)
    sim_some_meet(barrier, COUNT);
#elif defined(__CUDA_ARCH__)
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(COUNT) : "memory");
#else
    (void)barrier;
#endif
}

/* A barrier of a wave alone: what a lane wrote into LDS before it, the others of its wave see after. */
CKCI_K_FN void ckci_k_wave_barrier()
{
#if defined(__CUDA_ARCH__)
    __syncwarp();
#elif defined(__HIP_DEVICE_COMPILE__)
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
#elif defined(CKCI_SIMULATOR)
    (void)sim_meet(0, 0, 0, __LINE__);
#endif
}

/* A barrier for LDS alone: __syncthreads also waits for loads from memory on some targets. */
CKCI_K_FN void ckci_k_lds_barrier()
{
#if CKCI_K_BUFFERS && defined(__GFX12__)
    asm volatile("s_wait_dscnt 0x0\n\ts_barrier_signal -1\n\ts_barrier_wait -1" ::: "memory");
#elif CKCI_K_BUFFERS
    asm volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" ::: "memory");
#else
    __syncthreads();
#endif
}

/* 16 bytes for each lane of a wave straight into LDS, lane after lane from `to` on, which is the same for all
   of them: CDNA 4. Zeros where the offset is outside the window. They count as loads from memory, and arrive
   in order. A compiler that knew of the copies would wait for all of them before it reads LDS; that is up to
   ckci_k_direct_barrier. Five wait states are between a lane's number that becomes the wave's and its use. */
CKCI_K_FN void ckci_k_copy_direct(unsigned char *to, const ckci_k_window &w, int32_t offset, int32_t more)
{
#if defined(CKCI_SIMULATOR)
    const ckci_k_uint4 v = ckci_k_window_load(w, offset, more);
    sim_copy_later(to + (int)threadIdx.x % 64 * 16, &v);
#elif CKCI_K_UNIT == CKCI_K_UNIT_CDNA4 && defined(__OPTIMIZE__)
    typedef __attribute__((address_space(3))) unsigned char *pointer;
    asm volatile("s_mov_b32 m0, %0\n\ts_nop 3\n\tbuffer_load_dwordx4 %1, %2, %3 offen lds" ::"s"(
                     (uint32_t)(uintptr_t)(pointer)to),
                 "v"(offset), "s"(w.v), "s"(__builtin_amdgcn_readfirstlane(more))
                 : "memory"); /* M0 cannot be named here; nothing else keeps a value there */
#else /* without optimisation a window does not lie in scalar registers */
    *(ckci_k_uint4 *)(to + (int)threadIdx.x % 64 * 16) = ckci_k_window_load(w, offset, more);
#endif
}

/* Loads that turn, gfx12's global_load_tr_b128: eight lanes name a chunk of eight halves each, lane i gets
   halves i of all. All lanes of a wave must be on. Nothing tests the address: a lane that is to get zeros
   names ckci_k_zeros. Sources: LLVM's builtins, Composable Kernel's ABTransferWaveTiles. */
#if CKCI_K_TURNED
static __device__ const ckci_k_uint4 ckci_k_zeros = {0, 0, 0, 0};
#endif

CKCI_K_FN ckci_k_uint4 ckci_k_load_turned(const unsigned char *from)
{
#if defined(CKCI_SIMULATOR)
    ckci_k_uint4 r;
    sim_load_turned(&r, from);
    return r;
#elif CKCI_K_TURNED
    typedef short eight __attribute__((ext_vector_type(8)));
    typedef __attribute__((address_space(1))) eight *pointer;
    return ckci_k_cast<ckci_k_uint4>(__builtin_amdgcn_global_load_tr_b128_v8i16((pointer)from));
#elif defined(__HIP_DEVICE_COMPILE__) /* slow: a compiler without the builtin, or nobody calls it */
    const uint64_t own = (uint64_t)from;
    const int lane = (int)threadIdx.x % 8, first = (int)threadIdx.x % 32 - lane;
    uint16_t h[8];
    CKCI_K_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        const uint32_t low = (uint32_t)__builtin_amdgcn_ds_bpermute(4 * (first + i), (int)own);
        const uint32_t high = (uint32_t)__builtin_amdgcn_ds_bpermute(4 * (first + i), (int)(own >> 32));
        h[i] = ((const uint16_t *)((uint64_t)high << 32 | low))[lane];
    }
    const ckci_k_uint4 r = {h[0] | (uint32_t)h[1] << 16, h[2] | (uint32_t)h[3] << 16,
                            h[4] | (uint32_t)h[5] << 16, h[6] | (uint32_t)h[7] << 16};
    return r;
#else
    return *(const ckci_k_uint4 *)from; /* nobody calls it */
#endif
}

/* Are there such loads for a unit, and does the compiler know them as one instruction? */
template <class U> struct ckci_k_turns {
    enum { LOADS = 0, FAST = 0 };
};
template <> struct ckci_k_turns<ckci_k_wmma<12>> {
    enum { LOADS = 1, FAST = CKCI_K_TURNED };
};

/* Where a window begins. */
CKCI_K_FN const unsigned char *ckci_k_window_begin(const ckci_k_window &w)
{
#if CKCI_K_BUFFERS
    return (const unsigned char *)((uint64_t)(uint32_t)w.v.y << 32 | (uint32_t)w.v.x);
#else
    return w.base;
#endif
}

/* A barrier for LDS, behind which all copies have arrived but the last LEFT of each wave. */
template <int LEFT> CKCI_K_FN void ckci_k_direct_barrier()
{
#if defined(CKCI_SIMULATOR)
    sim_copies_arrive(LEFT);
    __syncthreads();
#elif CKCI_K_UNIT == CKCI_K_UNIT_CDNA4
    asm volatile("s_waitcnt vmcnt(%0) lgkmcnt(0)\n\ts_barrier" ::"n"(LEFT) : "memory");
#endif
}

/* 1: this wave goes first where two on a SIMD could issue; 0: as any. What stands before and after it, a
   compiler does not mix. */
template <int HIGH> CKCI_K_FN void ckci_k_priority()
{
#if CKCI_K_UNIT >= CKCI_K_UNIT_CDNA2 && CKCI_K_UNIT <= CKCI_K_UNIT_CDNA4
    if constexpr (HIGH) {
        __builtin_amdgcn_sched_barrier(0);
        __builtin_amdgcn_s_setprio(1);
    } else {
        __builtin_amdgcn_s_setprio(0);
        __builtin_amdgcn_sched_barrier(0);
    }
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

/* 16 bytes (size 0: zeros) straight into LDS, as ckci_k_copy_async, but past the first cache. */
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
