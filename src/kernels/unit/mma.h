/*------------------------------------------------------------------------------------------------------------
  >>k-unit-mma
  NVIDIA: mma.sync for f16, bf16, tf32, i8 and f64, operands through ldmatrix; from sm_80 on. Each struct is
  the unit of one kind of operands with the members that >>k-unit lists. Products of 16 x 8 sums are taken in
  twos, so that kernels see square fragments. wgmma of sm_90a has a loop of its own (>>k-matrix-groups), since
  its operands stay in LDS.
*/
#pragma once
#include "kernels/unit/unit.h"

#if defined(CKCI_K_MMA)
/* A product of 16 x 8 sums d (in registers of kind C) of a and b0, b1: its shape and types. */
#define CKCI_K_MMA_ASM(TYPES, C)                                                                             \
    asm volatile("mma.sync.aligned." TYPES                                                                   \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                          \
                 : "+" C(d[0]), "+" C(d[1]), "+" C(d[2]), "+" C(d[3])                                        \
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1))

/* NVIDIA, from sm_80 on: two products of 16 x 8 sums. */
struct ckci_k_mma {
    enum {
        THREADS = 256,
        WAVE = 32,
        M = 16,
        N = 16,
        STEP = 32,
        SUMS = 8,
        KB = 128,
        ASYNC = 1,
        DIRECT = 0,
        SIZE = CKCI_K_HALF
    };
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
    enum {
        THREADS = 256,
        WAVE = 32,
        M = 16,
        N = 16,
        STEP = 64,
        SUMS = 8,
        KB = 128,
        ASYNC = 0,
        DIRECT = 0,
        SIZE = 8
    };
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
