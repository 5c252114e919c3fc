/*------------------------------------------------------------------------------------------------------------
  >>k-boxes
  The tensor memory accelerator (TMA) of sm_90a: boxes of rows of 128, 64 or 32 bytes between memory and LDS,
  where they lie swizzled as groups of waves multiply them; barriers that count what came, and who is done
  with it; barriers of some of a block's waves. One instruction each, or what the simulator does in its place.
*/
#pragma once
#include "kernels/chunks.h"

#if defined(CKCI_K_WGMMA)
#if defined(__CUDA_ARCH__)
CKCI_K_FN uint32_t ckci_k_lds_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}
#endif

/* A wave's number in its block, as what compilers know to be the same for its lanes. */
CKCI_K_FN int32_t ckci_k_wave_number()
{
    int32_t wave = (int32_t)threadIdx.x / 32;
#if defined(__CUDA_ARCH__)
    wave = __shfl_sync(0xffffffffu, wave, 0);
#endif
    return wave;
}

/* What another lane has; all lanes of a wave call it. */
CKCI_K_FN int32_t ckci_k_of_lane(int32_t value, int32_t lane)
{
#if defined(CKCI_SIMULATOR)
    return sim_shuffle(value, lane);
#elif defined(__CUDA_ARCH__)
    return __shfl_sync(0xffffffffu, value, lane);
#else
    return value + lane; /* host pass */
#endif
}

/* One of a wave's lanes, always the same one; by this instruction, as compilers then know that a thread is
   alone: others that send or store boxes would each have them converted for its wave, which takes as long as
   to send several. */
CKCI_K_FN bool ckci_k_elect()
{
#if defined(__CUDA_ARCH__)
    uint32_t elected;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(elected));
    return elected != 0;
#else
    return threadIdx.x % 32 == 0;
#endif
}

/* A turn of the barrier ends when so many have arrived, and as many bytes came as were expected; turns are
   told apart by their parity. Each is begun by one thread, then the block meets. */
CKCI_K_FN void ckci_k_turns_begin(uint64_t *barrier, int32_t arrivals)
{
#if defined(CKCI_SIMULATOR)
    sim_turns_begin(barrier, arrivals);
#else
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(ckci_k_lds_address(barrier)), "r"(arrivals)
                 : "memory");
#endif
}

CKCI_K_FN void ckci_k_turns_begun()
{
#if !defined(CKCI_SIMULATOR)
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

CKCI_K_FN void ckci_k_turns_arrive(uint64_t *barrier)
{
#if defined(CKCI_SIMULATOR)
    sim_turns_arrive(barrier, 0);
#else
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(ckci_k_lds_address(barrier)) : "memory");
#endif
}

/* At the same barrier of another block of the cluster; it says nothing of what was written (that would wait
   for all of memory, H200: a step took twice as long). */
CKCI_K_FN void ckci_k_turns_arrive_at(uint64_t *barrier, int32_t block)
{
#if defined(CKCI_SIMULATOR)
    sim_turns_arrive((uint64_t *)sim_lds_of_other(barrier, block), 0);
#else
    asm volatile("{\n.reg .u32 at;\nmapa.shared::cluster.u32 at, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [at];\n}" ::"r"(
                     ckci_k_lds_address(barrier)),
                 "r"(block)
                 : "memory");
#endif
}

CKCI_K_FN void ckci_k_turns_expect(uint64_t *barrier, int32_t bytes)
{
#if defined(CKCI_SIMULATOR)
    sim_turns_arrive(barrier, bytes);
#else
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(ckci_k_lds_address(barrier)),
                 "r"(bytes)
                 : "memory");
#endif
}

/* Until the turn of that parity has ended; all of a wave, which is together again after it. */
CKCI_K_FN void ckci_k_turns_await(uint64_t *barrier, uint32_t parity)
{
#if defined(CKCI_SIMULATOR)
    sim_turns_await(barrier, parity);
#else
    asm volatile("{\n.reg .pred p;\nTRY:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@!p bra TRY;\n}" ::"r"(ckci_k_lds_address(barrier)),
                 "r"(parity)
                 : "memory");
    __syncwarp();
#endif
}

#if defined(CKCI_SIMULATOR)
/* Chunk `chunk` of row r of a box in LDS. */
CKCI_K_FN int ckci_k_box_spot(const ckci_gpu_box &b, int r, int chunk)
{
    const int spot = r * b.wide * 2 + chunk * 16;
    return spot ^ (spot >> 7 & (b.wide / 8 - 1)) << 4;
}

/* Row r of a box, from NULL: outside. */
CKCI_K_FN void ckci_k_box_row(const ckci_gpu_box &b, unsigned char *to, int r, const unsigned char *from,
                              int32_t place)
{
    for (int i = 0; i < b.wide; i++) {
        const int64_t at = place + (int64_t)i;
        *(uint16_t *)(to + ckci_k_box_spot(b, r, i / 8) + i % 8 * 2) =
            from && at >= 0 && at < b.len[0] ? *(const uint16_t *)(from + 2 * at) : (uint16_t)0;
    }
}
#endif

/* Where a box begins: numbers along a row; then rows (rank 2), or a tap or image and rows (3); or, of pixels,
   those of the first position at the first tap, and how far the tap's are from them. */
struct ckci_k_corner {
    int32_t place, x, y, z, n;
    int32_t tap_x, tap_y, tap_z;
};

/* Brings a box of the first or second operand, or of the residual (3), into LDS. KIND: its rank, more by so
   much if its rows are pixels. BOTH: into that of two blocks of a cluster, and each one's barrier. */
enum { CKCI_K_BOX_PIXELS = 8 };
template <int KIND, bool BOTH = false>
CKCI_K_FN void ckci_k_box_load(const ckci_gpu_tma &p, int32_t which, unsigned char *to, uint64_t *barrier,
                               const ckci_k_corner &c)
{
#if defined(CKCI_SIMULATOR)
    const ckci_gpu_box &b = p.box[which];
    if (KIND != b.rank + b.pixels * CKCI_K_BOX_PIXELS) {
        sim_die("a box of kind %d is sent for as %d", b.rank + b.pixels * CKCI_K_BOX_PIXELS, KIND);
    }
    if (c.place % 8 != 0) {
        sim_die("a box begins at number %d of its rows, not at 16 bytes", c.place);
    }
    if (BOTH) {
        for (int block = 0; block < 2; block++) {
            ckci_k_box_load<KIND>(p, which, (unsigned char *)sim_lds_of_other(to, block),
                                  (uint64_t *)sim_lds_of_other(barrier, block), c);
        }
        return;
    }
    int64_t at[3] = {c.x, c.y, c.z}, n = c.n;
    const int axes = b.rank - 2;
    const int32_t tap[3] = {c.tap_x, c.tap_y, c.tap_z};
    for (int r = 0; r < b.rows; r++) {
        if (!b.pixels) {
            const int64_t row = (b.rank == 2 ? c.x : c.y) + (int64_t)r, rows = b.len[b.rank - 1];
            const bool in = row >= 0 && row < rows && (b.rank == 2 || (c.x >= 0 && c.x < b.len[1]));
            const int64_t offset = row * b.stride[b.rank - 1] + (b.rank == 2 ? 0 : c.x * b.stride[1]);
            ckci_k_box_row(b, to, r, in ? b.p + 2 * offset : nullptr, c.place);
            continue;
        }
        int64_t offset = n * b.stride[axes + 1];
        bool in = n >= 0 && n < b.len[axes + 1];
        for (int i = 0; i < axes; i++) {
            const int64_t pixel = at[i] + tap[i];
            in = in && pixel >= 0 && pixel < b.len[1 + i];
            offset += pixel * b.stride[1 + i];
        }
        ckci_k_box_row(b, to, r, in ? b.p + 2 * offset : nullptr, c.place);
        for (int i = 0; i < axes; i++) {
            at[i] += b.step[i];
            if (at[i] <= b.len[1 + i] - 1 + b.high[i]) {
                break;
            }
            at[i] = b.low[i];
            n += i == axes - 1;
        }
    }
    sim_turns_bytes(barrier, 2 * b.wide * b.rows);
#elif defined(__CUDA_ARCH__)
    const uint64_t *map = which == 3 ? p.map[3] : which ? p.map[1] : p.map[0];
#define CKCI_K_TMA_LOAD(KIND, AT, TAPS, ...)                                                                 \
    if constexpr (BOTH) {                                                                                    \
        asm volatile("cp.async.bulk.tensor." KIND ".mbarrier::complete_tx::bytes.multicast::cluster [%0], "  \
                     "[%1, {" AT "}], [%2]" TAPS ", 3;" ::"r"(ckci_k_lds_address(to)),                       \
                     "l"(map), "r"(ckci_k_lds_address(barrier)), "r"(c.place), __VA_ARGS__                   \
                     : "memory");                                                                            \
    } else {                                                                                                 \
        asm volatile("cp.async.bulk.tensor." KIND ".mbarrier::complete_tx::bytes [%0], [%1, {" AT "}], "     \
                     "[%2]" TAPS ";" ::"r"(ckci_k_lds_address(to)),                                          \
                     "l"(map), "r"(ckci_k_lds_address(barrier)), "r"(c.place), __VA_ARGS__                   \
                     : "memory");                                                                            \
    }
    if constexpr (KIND == 2) {
        CKCI_K_TMA_LOAD("2d.shared::cluster.global.tile", "%3, %4", "", "r"(c.x));
    } else if constexpr (KIND == 3) {
        CKCI_K_TMA_LOAD("3d.shared::cluster.global.tile", "%3, %4, %5", "", "r"(c.x), "r"(c.y));
    } else if constexpr (KIND == CKCI_K_BOX_PIXELS + 3) {
        CKCI_K_TMA_LOAD("3d.shared::cluster.global.im2col", "%3, %4, %5", ", {%6}", "r"(c.x), "r"(c.n),
                        "h"((uint16_t)c.tap_x));
    } else if constexpr (KIND == CKCI_K_BOX_PIXELS + 4) {
        CKCI_K_TMA_LOAD("4d.shared::cluster.global.im2col", "%3, %4, %5, %6", ", {%7, %8}", "r"(c.x),
                        "r"(c.y), "r"(c.n), "h"((uint16_t)c.tap_x), "h"((uint16_t)c.tap_y));
    } else {
        CKCI_K_TMA_LOAD("5d.shared::cluster.global.im2col", "%3, %4, %5, %6, %7", ", {%8, %9, %10}", "r"(c.x),
                        "r"(c.y), "r"(c.z), "r"(c.n), "h"((uint16_t)c.tap_x), "h"((uint16_t)c.tap_y),
                        "h"((uint16_t)c.tap_z));
    }
#undef CKCI_K_TMA_LOAD
#endif
}

/* A box of 64 rows of p.box[2] from LDS to memory, where it does not end outside; by one thread, which says
   what it has sent, and later awaits that it was read. c: its place, x and y, none before the first. */
CKCI_K_FN void ckci_k_box_store(const ckci_gpu_tma &p, const unsigned char *from, const ckci_k_corner &c)
{
    const ckci_gpu_box &b = p.box[2];
#if defined(CKCI_SIMULATOR)
    if (c.place < 0 || c.place % 8 != 0 || c.x < 0 || c.y < 0) {
        sim_die("a box is stored from %d, %d, %d on", c.place, c.x, c.y);
    }
    for (int r = 0; r < CKCI_TMA_BOX; r++) {
        const int64_t row = (b.rank == 2 ? c.x : c.y) + (int64_t)r;
        const int64_t offset = row * b.stride[b.rank - 1] + (b.rank == 2 ? 0 : c.x * b.stride[1]);
        for (int i = 0; i < CKCI_TMA_BOX && row < b.len[b.rank - 1]; i++) {
            const int64_t at = c.place + (int64_t)i;
            if (at < b.len[0] && (b.rank == 2 || c.x < b.len[1])) {
                *(uint16_t *)(uintptr_t)(b.p + 2 * (offset + at)) =
                    *(const uint16_t *)(from + ckci_k_spot<128>(r, i / 8) + i % 8 * 2);
            }
        }
    }
#elif defined(__CUDA_ARCH__)
    if (b.rank == 2) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(
                         p.map[2]),
                     "r"(ckci_k_lds_address(from)), "r"(c.place), "r"(c.x)
                     : "memory");
    } else {
        asm volatile(
            "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
                p.map[2]),
            "r"(ckci_k_lds_address(from)), "r"(c.place), "r"(c.x), "r"(c.y)
            : "memory");
    }
#endif
}

/* What this thread has sent since it said so last is a group of boxes. */
CKCI_K_FN void ckci_k_boxes_sent()
{
#if defined(__CUDA_ARCH__)
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}

/* All groups of boxes that this thread stores are read but COUNT. */
template <int COUNT> CKCI_K_FN void ckci_k_boxes_read()
{
#if defined(__CUDA_ARCH__)
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(COUNT) : "memory");
#endif
}

/* Boxes of p.box[which] will be moved: the TMA reads what it has to know of them. */
CKCI_K_FN void ckci_k_box_known(const ckci_gpu_tma &p, int32_t which)
{
#if defined(__CUDA_ARCH__)
    asm volatile("prefetch.tensormap [%0];" ::"l"(p.map[which]) : "memory");
#else
    (void)p;
    (void)which;
#endif
}

/* COUNT threads of a block have written what another block awaits: a word says so, which that one clears. */
template <int COUNT> CKCI_K_FN void ckci_k_publish(uint64_t *word, int32_t barrier)
{
#if defined(__CUDA_ARCH__)
    __threadfence();
    ckci_k_meet<COUNT>(barrier);
    if (threadIdx.x % COUNT == 0) {
        asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(CKCI_TMA_DONE) : "memory");
    }
#else
    ckci_k_meet<COUNT>(barrier);
    *word = CKCI_TMA_DONE;
    ckci_k_meet<COUNT>(barrier);
#endif
}

template <int COUNT> CKCI_K_FN void ckci_k_obtain(uint64_t *word, int32_t barrier)
{
#if defined(__CUDA_ARCH__)
    if (threadIdx.x % COUNT == 0) {
        uint64_t found;
        do {
            asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(found) : "l"(word) : "memory");
        } while (found != CKCI_TMA_DONE);
        *word = 0;
    }
    ckci_k_meet<COUNT>(barrier);
    __threadfence();
#else
    if (*word != CKCI_TMA_DONE) {
        sim_die("sums of another block are not there");
    }
    ckci_k_meet<COUNT>(barrier);
    *word = 0;
    ckci_k_meet<COUNT>(barrier);
#endif
}

/* What another block has written in this launch: not by way of the cache of a unit. */
CKCI_K_FN ckci_k_uint4 ckci_k_load_others(const ckci_k_uint4 *from)
{
#if defined(__CUDA_ARCH__)
    ckci_k_uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from)
                 : "memory");
    return v;
#else
    return *from;
#endif
}

/* What lies at the same place in the LDS of a cluster's block. */
CKCI_K_FN ckci_k_uint4 ckci_k_cluster_load(const ckci_k_uint4 *own, int32_t block)
{
#if defined(CKCI_SIMULATOR)
    return *(const ckci_k_uint4 *)sim_lds_of_other(own, block);
#else
    ckci_k_uint4 v;
    asm volatile("{\n.reg .u32 at;\nmapa.shared::cluster.u32 at, %4, %5;\n"
                 "ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [at];\n}"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(ckci_k_lds_address(own)), "r"(block)
                 : "memory");
    return v;
#endif
}

/* Registers of a wave's threads from now on, of a group of four waves that all say so. */
template <int COUNT> CKCI_K_FN void ckci_k_take_registers()
{
#if defined(__CUDA_ARCH__)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
#endif
}

template <int COUNT> CKCI_K_FN void ckci_k_leave_registers()
{
#if defined(__CUDA_ARCH__)
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
#endif
}
#endif
