/*------------------------------------------------------------------------------------------------------------
  >>k-tile-common
  The three passes in f32 on plain multiply-adds, for tensors that are read as they are (f32, no operation):
  what >>k-vector-gather and >>k-vector-weight compute, with what costs them most taken out of the loop.
  Offsets come from tables in LDS (as in >>k-matrix-gather: taps for fwd and bwd_data, positions for
  bwd_weight), padding is a test of a mask, memory is read in 16-byte chunks. A block owns BM x BN sums, a
  thread RM x RN of them; KT places of the reduction pass through LDS at a time, as [place][row or column], in
  two buffers: while the block multiplies from one, the loads of the next are in flight. Where a tile has
  fewer sums than keep a block busy, SLICES groups of threads own the same sums at every SLICES-th place of
  each step, and the first one adds those of the others in their order at the end. Rows and columns past the
  end read a valid neighbour instead: their sums are not written.
*/
#pragma once
#include "kernels/matrix/gather.h"

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

#if CKCI_K_BUFFERS
__device__ int ckci_k_buffer_word(ckci_k_int4 window, int offset, int scalar_offset,
                                  int cache) __asm("llvm.amdgcn.raw.buffer.load.i32");
#endif

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
#if CKCI_K_BUFFERS
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

    /* Adds to the sums. loader: fetch(step), put it into a buffer; renew before steps from s on: up to which
       step? */
    template <class L, class Loader> CKCI_K_MEMBER void run(L &m, Loader &loader, int32_t steps)
    {
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

    /* A stretch ends: the first slice adds the sums of all of them to those before. */
    template <class L>
    CKCI_K_MEMBER void settle(L &m, const ckci_gpu_conv &p, const ckci_k_weight_block &b, bool fresh,
                              bool end)
    {
        float *room = &m.a[0][0][0];
        static_assert((int)S::SLICES * S::RN * S::EACH <= 2 * S::KT * (S::LA + S::LB), "a row of each");
        const auto join = [&](float *c) {
            if constexpr (S::SLICES > 1) {
                float *own = room + slice() * (S::RN * S::EACH) + inner();
                __syncthreads();
                CKCI_K_UNROLL(16)
                for (int j = 0; j < S::RN; j++) {
                    own[j * S::EACH] = c[j];
                }
                __syncthreads();
                CKCI_K_UNROLL(1)
                for (int s = 1; s < S::SLICES; s++) {
                    own += S::RN * S::EACH;
                    CKCI_K_UNROLL(16)
                    for (int j = 0; j < S::RN; j++) {
                        c[j] += slice() == 0 ? own[j * S::EACH] : 0;
                    }
                }
            }
            return slice() == 0;
        };
        ckci_k_settle_there<S::RM, S::RN, S::SLICES == 1 ? 4 : 1>(
            p, b, row(0), column(0), S::BM / (S::RM / 4), S::BN / (S::RN / 4), &c[0][0], fresh, end, join);
    }

    /* alpha * sum + beta * (D tensors), between low and high, of columns that lie together: `out` and the
       places in LDS are finish's; channel: that of column 0. */
    CKCI_K_MEMBER void scale(const ckci_gpu_target &o, const unsigned char *out, const int64_t *places,
                             int32_t columns, int64_t channel)
    {
        const float alpha = o.alpha, beta = o.beta;
        CKCI_K_UNROLL(16)
        for (int i = 0; i < S::RM; i++) {
            CKCI_K_UNROLL(16)
            for (int j = 0; j < S::RN; j++) {
                c[i][j] *= alpha;
            }
        }
        CKCI_K_UNROLL(1)
        for (int d = 0; d < o.adds; d++) {
            const ckci_gpu_extra &t = o.d[d];
            const bool output = t.line == CKCI_LINE_OUTPUT;
            const unsigned char *from = t.p + (out - o.t.p);
            CKCI_K_UNROLL(16)
            for (int j = 0; j < S::RN; j += 4) {
                const bool good = column(j) < columns;
                float more[4] = {0, 0, 0, 0};
                if (good && !output) {
                    ckci_k_load_channels<4>(t, 0, channel + column(j), more);
                }
                CKCI_K_UNROLL(16)
                for (int i = 0; i < S::RM; i++) {
                    const int64_t place = places[row(i)];
                    if (output && good && place >= 0) {
                        ckci_k_load_line<4>(CKCONV_F32, from + place + 4 * column(j), more);
                    }
                    const bool factor = t.how == CKCI_EXTRA_MULTIPLY;
                    CKCI_K_UNROLL(4)
                    for (int k = 0; k < 4; k++) {
                        c[i][j + k] = factor ? c[i][j + k] * more[k] : fmaf(beta, more[k], c[i][j + k]);
                    }
                }
            }
        }
        CKCI_K_UNROLL(16)
        for (int i = 0; i < S::RM; i++) {
            ckci_k_limit(o, c[i]);
        }
    }

    /* Sums to memory. vec: four columns are one store at out + at(row), negative: no such row; columns: how
       many there are; linear: with the epilogue of o. Else through LDS, RM-th part of the rows at a time, to
       one(row, column, sum), so that the code of the epilogue stands once and neighbouring threads write
       neighbours. */
    template <class L, class At, class One>
    CKCI_K_MEMBER void finish(L &m, bool vec, bool along_rows, unsigned char *out, int32_t columns,
                              const ckci_gpu_target &o, bool linear, int64_t channel, const At &at,
                              const One &one)
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
            if (linear && !ckci_k_amd()) { /* gfx11 has no registers for it */
                scale(o, out, rows, columns, channel);
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

/* The table of a phase's `count` taps from tap0 on: byte offsets in both tensors, the bit of the masks. */
CKCI_K_FN void ckci_k_fill_taps(const ckci_gpu_conv &p, const ckci_k_axis axis[3], int32_t tap0,
                                int32_t count, ckci_k_tap_entry *table, int threads)
{
    const int64_t *s = p.a.stride;
    for (int32_t i = (int32_t)threadIdx.x; i <= count; i += threads) {
        ckci_k_tap t = ckci_k_find_tap(p, axis, (tap0 + i) * p.red);
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
