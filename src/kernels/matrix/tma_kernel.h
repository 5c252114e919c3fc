/*------------------------------------------------------------------------------------------------------------
  >>k-matrix-tma-kernel
  Bodies of the kernels whose tiles are those of >>k-matrix-tma: LDS of the size that the host knows, too, and
  what a launch has to know of them. They wait themselves for the kernel before, a block has a unit for
  itself, and code for other GPUs than sm_90a has nothing in them.
*/
#pragma once
#include "kernels/matrix/tma.h"

/* The kernel. Code that is not for sm_90a has none, and says so by the threads that it takes. */
template <int KIND, int BM, int BN> struct ckci_k_matrix_tma {
#if defined(CKCI_SIMULATOR)
    struct lds {
    };

    static void run(const ckci_gpu_tma &p, lds &)
    {
        typedef ckci_k_tma_tiles<KIND, BM, BN> tiles;
        typedef typename tiles::lds room;
        CKCI_K_LDS(room, m);
        tiles::run(p, m);
    }
#elif defined(CKCI_K_MMA)
    struct lds { /* on the host too, which does not know for what it was compiled */
        alignas(1024) unsigned char bytes[CKCI_TMA_ROOM + CKCI_TMA_TABLES];
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_tma &p, lds &m)
    {
#if defined(CKCI_K_WGMMA)
        typedef ckci_k_tma_tiles<KIND, BM, BN> tiles;
        static_assert(sizeof(typename tiles::lds) <= sizeof m.bytes, "stages, strips, barriers");
        tiles::run(p, *(typename tiles::lds *)m.bytes);
#else
        (void)p;
        (void)m;
#endif
    }
#else
    struct lds {
        int32_t unused;
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_tma &, lds &)
    {
    }
#endif
};

template <int KIND, int BM, int BN> struct ckci_k_awaits<ckci_k_matrix_tma<KIND, BM, BN>> {
    enum { ITSELF = 1 };
};

#if defined(CKCI_K_WGMMA) && !defined(CKCI_SIMULATOR)
template <int KIND, int BM, int BN> struct ckci_k_resident<ckci_k_matrix_tma<KIND, BM, BN>> {
    enum { BLOCKS = 1 };
};
#elif defined(__CUDA_ARCH__) && !defined(__HIP__)
template <int KIND, int BM, int BN> struct ckci_k_most_threads<ckci_k_matrix_tma<KIND, BM, BN>> {
    enum { COUNT = 32 };
};
#endif
