/*------------------------------------------------------------------------------------------------------------
  >>k-depth-sheet-weight
  bwd_weight of what sheet computes: channels first, in and dout of some channels, or bands of them, in LDS. A
  thread has all F x F sums of its channel in registers for all pieces of its block; they are folded in fixed
  order (>>k-depth-weight) into the block's part.
*/
#pragma once
#include "kernels/depth/weight.h"
#include "kernels/depth/sheet.h"

/* bwd_weight of the same: `in` and dout of `count` channels of an image, or bands of them, lie in LDS. A
   thread owns XO columns of dout and has all F x F sums of its channel in registers, for all pieces of its
   block, which are `parts` apart. */
template <class S, int F, int STRIDE> struct ckci_k_depth_sheet_weight {
    typedef typename S::T T;
    typedef ckci_k_sheet<S> sheet;
    enum { HELD = STRIDE == 1 ? F : (F + 1) / 2, XO = CKCI_DEPTH_SHEET_COLUMNS(S::SIZE, STRIDE, 0, 1) };
    enum { SLIP = STRIDE == 1 && !(sheet::EIGHTS && S::SIZE == 4) ? (F - 1) / 2 % 2 : 0 };
    enum { WINDOW = (XO - 1) * STRIDE + F };
    enum { LOADED = STRIDE == 1 ? (SLIP + WINDOW + 1) / 2 * 2 : +WINDOW };
    enum { ODD = (((F - 1) / 2 + SLIP) * S::SIZE + 3) / 4 % 2 }; /* all of them as in ckci_k_depth_sheet */

    union lds {
        typename sheet::lds rows;
        ckci_k_depth_sums<T, 1, F * F> sums;
    };

    struct columns {
        typename sheet::template numbers<LOADED, XO * STRIDE *(int)S::SIZE> in;
        typename sheet::template numbers<XO, XO *(int)S::SIZE> out; /* dout */
        int32_t row, length; /* the row of inputs that comes; those that exist */
    };

    /* A row of inputs meets the rows of dout that read it, PHASE: its place among the rows of a stride. */
    template <bool BF16, bool PAIRS, int PHASE> static CKCI_K_MEMBER void add(columns &a, const T *d, T *c)
    {
        if ((uint32_t)a.row < (uint32_t)a.length) { /* the same for all threads */
            T v[LOADED];
            a.in.template load<BF16, PAIRS, sheet::EIGHTS && STRIDE == 2, ODD>(v);
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
        a.in.next();
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
                a.out.template load<BF16, PAIRS, false>(d);
            }
            a.out.next();
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
        int32_t in = 0, out = 0; /* in LDS */
        __syncthreads();         /* the piece before */
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 2; i++) { /* the code of copies stands once */
            const ckci_gpu_depth &late = ckci_k_late(args);
            const ckci_gpu_depth_sheet &now = late.sheet;
            const int32_t *size = i ? now.out : now.in;
            unsigned char *t = i ? late.a.p : late.b.p;
            unsigned char *memory = sheet::memory(t, first, size, i ? y : from);
            in = out;
            out = (i ? now.o_at : (int32_t)sheet::FRONT) + sheet::slip(late, memory);
            sheet::template rows<false>(late, t, m.rows.pool + out, memory, planes, size,
                                        i ? rows : to - from, i ? now.o_room : now.a_room,
                                        i ? now.by_o : now.by_a);
        }
        ckci_k_copies_end();
        ckci_k_copies_wait<0>();
        __syncthreads();
        if (!active) {
            return;
        }
        const int32_t left = x * STRIDE - s.pad[1] - SLIP;
        const int32_t pitch = s.in[1] * (int32_t)S::SIZE, pitch_out = s.out[1] * (int32_t)S::SIZE;
        columns a;
        a.in.begin(m.rows.pool, in + plane * s.a_room + (top - from) * pitch + left * (int32_t)S::SIZE, left,
                   s.in[1], pitch);
        a.out.begin(m.rows.pool, out + plane * s.o_room + x * (int32_t)S::SIZE, x, s.out[1], pitch_out);
        a.row = top;
        a.length = to; /* no dout is left for rows after it */
        constexpr bool HALVES = S::SIZE == 2, TWO = STRIDE == 1;
        if (TWO && s.pairs) {
            if (HALVES && CKCI_K_BF16(p.bf16)) {
                walk<HALVES, TWO>(a, rows, c);
            } else {
                walk<false, TWO>(a, rows, c);
            }
        } else if (HALVES && CKCI_K_BF16(p.bf16)) {
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
        for (int j = 0; j < F * F; j++) {
            c[j] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t k = part; k < p.all; k += p.parts) {
            piece(args, m, k, base, planes, plane, i * XO,
                  plane < planes && (!sheet::spread(p) || i * XO < p.sheet.out[1]), c);
        }
        const int32_t slot = plane < p.lanes_c ? i : p.lanes_p; /* threads that have no column */
        const ckci_k_depth_member w = {slot, plane, 0, base + plane, part, 0, 0, 0, plane < planes};
        ckci_k_depth_fold<S, T, 1, F, F, 1, false, sheet::EIGHTS>(p, m.sums, c, w, false);
    }
};

template <class S, int F, int STRIDE> struct ckci_k_resident<ckci_k_depth_sheet_weight<S, F, STRIDE>> {
    enum { BLOCKS = F == 3 ? 7 : F == 5 ? 5 : 4 };
};
