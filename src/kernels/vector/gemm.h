/*------------------------------------------------------------------------------------------------------------
  >>k-vector-gemm
  The tile loop. A block of THREADS threads computes S x S sums over a reduction taken KT at a time. Both
  operands pass through LDS as [place in the reduction][row or column], two buffers each: while the block
  multiplies from one, every thread has its four loads of the next in flight and stores them into the other;
  one barrier per step. Each thread fetches four places of one row and of one column and keeps raw bits
  until it stores them, so that conversions do not wait for memory. Thread (tx, ty) owns R x R sums: rows h
  * S/H + 4 * ty + i, columns likewise, so that its operands are read four at a time. Products are added in
  the order of the reduction: the result does not depend on the tile's place.
*/
#pragma once
#include "gpu/args.h"
#include "kernels/epilogue.h"

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
        } else if (CKCI_HAS_FP8 ? t.dtype == CKCONV_F16 : !CKCI_K_BF16(t.dtype == CKCONV_BF16)) {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                v[i] = ckci_k_half_float(raw[i]);
            }
        } else if (!CKCI_HAS_FP8 || t.dtype == CKCONV_BF16) {
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
    const ckci_gpu_conv &p = ckci_k_late_again(conv);
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
    const ckci_gpu_conv &p = ckci_k_late_again(conv);
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
