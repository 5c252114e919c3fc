/*------------------------------------------------------------------------------------------------------------
  >>cpu-micro
  Microkernels as macros over the vectors of one instruction set: a register tile of GEMM and of an outer
  product, lines of depthwise outputs, taps of their weight gradients, copies and conversions. Macros, since
  C99 has no templates and tile sizes must be known where loops are unrolled. cpu/isa.h says what CKCI_V,
  CKCI_N and the others are, and expands them. A microkernel owns the sums that it is handed and adds in the
  order of its table.
*/
#pragma once
#include "core/math.h"
#include "cpu/vector.h"

#define CKCI_R2(M) M(0) M(1)
#define CKCI_R3(M) CKCI_R2(M) M(2)
#define CKCI_R4(M) M(0) M(1) M(2) M(3)
#define CKCI_R6(M) CKCI_R4(M) M(4) M(5)
#define CKCI_R7(M) CKCI_R6(M) M(6)
#define CKCI_R8(M) CKCI_R7(M) M(7)
#define CKCI_R9(M) CKCI_R8(M) M(8)
#define CKCI_R14(M) CKCI_R9(M) M(9) M(10) M(11) M(12) M(13)

/* Hides a pointer's value, so that addresses stay pointer + multiple of a step instead of one pointer each */
#if defined(__GNUC__) || defined(__clang__)
#define CKCI_OPAQUE(p) __asm__("" : "+r"(p))
#else
#define CKCI_OPAQUE(p) (void)(p)
#endif

/* The cache line at an address that may lie outside of all memory, in time for later */
#if defined(__GNUC__) || defined(__clang__)
#define CKCI_PREFETCH(address) __builtin_prefetch((const void *)(address))
#else
#define CKCI_PREFETCH(address) (void)(address)
#endif

/* Keeps a vector that several multiply-adds read in its register: compilers would rather load it for each */
#if CKCI_X86
#define CKCI_PIN(v) __asm__("" : "+v"(v))
#else
#define CKCI_PIN(v) (void)(v)
#endif

/* The macros below use those of the vector kind in force: CKCI_T element, CKCI_V vector, CKCI_N lanes,
   CKCI_LOAD, CKCI_STORE, CKCI_SPLAT, CKCI_FMA(a, b, c), CKCI_ADD, CKCI_ZERO, CKCI_TARGET, CKCI_M rows of an
   outer tile. */
#define CKCI_TILE2_BEGIN(i)                                                                                  \
    CKCI_V c##i##a = CKCI_ZERO, c##i##b = CKCI_ZERO, d##i##a = CKCI_ZERO, d##i##b = CKCI_ZERO;
#define CKCI_TILE2_FIRST(i)                                                                                  \
    {                                                                                                        \
        CKCI_V x = CKCI_SPLAT(p + (i)*step);                                                                 \
        c##i##a = CKCI_FMA(x, b0, c##i##a);                                                                  \
        c##i##b = CKCI_FMA(x, b1, c##i##b);                                                                  \
    }
#define CKCI_TILE2_SECOND(i)                                                                                 \
    {                                                                                                        \
        CKCI_V x = CKCI_SPLAT(r + (i)*step);                                                                 \
        d##i##a = CKCI_FMA(x, b0, d##i##a);                                                                  \
        d##i##b = CKCI_FMA(x, b1, d##i##b);                                                                  \
    }
#define CKCI_TILE2_ADD(i)                                                                                    \
    c##i##a = CKCI_ADD(c##i##a, CKCI_LOAD(u + (i)*ldc));                                                     \
    c##i##b = CKCI_ADD(c##i##b, CKCI_LOAD(u + (i)*ldc + CKCI_N));                                            \
    d##i##a = CKCI_ADD(d##i##a, CKCI_LOAD(w + (i)*ldc));                                                     \
    d##i##b = CKCI_ADD(d##i##b, CKCI_LOAD(w + (i)*ldc + CKCI_N));
#define CKCI_TILE2_END(i)                                                                                    \
    CKCI_STORE(u + (i)*ldc, c##i##a);                                                                        \
    CKCI_STORE(u + (i)*ldc + CKCI_N, c##i##b);                                                               \
    CKCI_STORE(w + (i)*ldc, d##i##a);                                                                        \
    CKCI_STORE(w + (i)*ldc + CKCI_N, d##i##b);
#define CKCI_TILE2_LOAD CKCI_V b0 = CKCI_LOAD(q), b1 = CKCI_LOAD(q + CKCI_N);
#define CKCI_TILE1_BEGIN(i) CKCI_V c##i = CKCI_ZERO, d##i = CKCI_ZERO;
#define CKCI_TILE1_FIRST(i) c##i = CKCI_FMA(CKCI_SPLAT(p + (i)*step), b0, c##i);
#define CKCI_TILE1_SECOND(i) d##i = CKCI_FMA(CKCI_SPLAT(r + (i)*step), b0, d##i);
#define CKCI_TILE1_ADD(i)                                                                                    \
    c##i = CKCI_ADD(c##i, CKCI_LOAD(u + (i)*ldc));                                                           \
    d##i = CKCI_ADD(d##i, CKCI_LOAD(w + (i)*ldc));
#define CKCI_TILE1_END(i)                                                                                    \
    CKCI_STORE(u + (i)*ldc, c##i);                                                                           \
    CKCI_STORE(w + (i)*ldc, d##i);
#define CKCI_TILE1_LOAD CKCI_V b0 = CKCI_LOAD(q);
#define CKCI_TILE(NAME, REPEAT, W)                                                                           \
    CKCI_TARGET CKCI_FN void NAME(const ckci_tile *t)                                                        \
    {                                                                                                        \
        const CKCI_T *q = (const CKCI_T *)t->b;                                                              \
        const int64_t step = t->a_step, len = t->len;                                                        \
        REPEAT(CKCI_TILE##W##_BEGIN)                                                                         \
        for (int64_t s = 0; s < t->segments; s++) {                                                          \
            const CKCI_T *p = (const CKCI_T *)t->a[0] + t->offset[s];                                        \
            const CKCI_T *r = (const CKCI_T *)t->a[1] + t->offset[s];                                        \
            for (int64_t k = len; k > 0; k--) {                                                              \
                CKCI_TILE##W##_LOAD CKCI_OPAQUE(p);                                                          \
                CKCI_OPAQUE(r);                                                                              \
                REPEAT(CKCI_TILE##W##_FIRST)                                                                 \
                REPEAT(CKCI_TILE##W##_SECOND)                                                                \
                p++;                                                                                         \
                r++;                                                                                         \
                q += W * CKCI_N;                                                                             \
            }                                                                                                \
        }                                                                                                    \
        CKCI_T *u = (CKCI_T *)t->c[0], *w = (CKCI_T *)t->c[1];                                               \
        const int64_t ldc = t->ldc;                                                                          \
        if (t->add) {                                                                                        \
            REPEAT(CKCI_TILE##W##_ADD)                                                                       \
        }                                                                                                    \
        REPEAT(CKCI_TILE##W##_END)                                                                           \
    }
#define CKCI_TILES(NAME, REPEAT) CKCI_TILE(NAME##1, REPEAT, 1) CKCI_TILE(NAME##2, REPEAT, 2)

#define CKCI_OUTER3_BEGIN(i) CKCI_V c##i##a = CKCI_ZERO, c##i##b = CKCI_ZERO, c##i##c = CKCI_ZERO;
#define CKCI_OUTER3_LOAD CKCI_V x0 = CKCI_LOAD(p + at0), x1 = CKCI_LOAD(p + at1), x2 = CKCI_LOAD(p + at2);
#define CKCI_OUTER3_STEP(i)                                                                                  \
    {                                                                                                        \
        CKCI_V y = CKCI_SPLAT(q + (i));                                                                      \
        c##i##a = CKCI_FMA(y, x0, c##i##a);                                                                  \
        c##i##b = CKCI_FMA(y, x1, c##i##b);                                                                  \
        c##i##c = CKCI_FMA(y, x2, c##i##c);                                                                  \
    }
#define CKCI_OUTER3_ADD(i)                                                                                   \
    c##i##a = CKCI_ADD(c##i##a, CKCI_LOAD(out + (i)*ldc + t->c_at[0]));                                      \
    c##i##b = CKCI_ADD(c##i##b, CKCI_LOAD(out + (i)*ldc + t->c_at[1]));                                      \
    c##i##c = CKCI_ADD(c##i##c, CKCI_LOAD(out + (i)*ldc + t->c_at[2]));
#define CKCI_OUTER3_END(i)                                                                                   \
    CKCI_STORE(out + (i)*ldc + t->c_at[0], c##i##a);                                                         \
    CKCI_STORE(out + (i)*ldc + t->c_at[1], c##i##b);                                                         \
    CKCI_STORE(out + (i)*ldc + t->c_at[2], c##i##c);
#define CKCI_OUTER2_BEGIN(i) CKCI_V c##i##a = CKCI_ZERO, c##i##b = CKCI_ZERO;
#define CKCI_OUTER2_LOAD CKCI_V x0 = CKCI_LOAD(p + at0), x1 = CKCI_LOAD(p + at1);
#define CKCI_OUTER2_STEP(i)                                                                                  \
    {                                                                                                        \
        CKCI_V y = CKCI_SPLAT(q + (i));                                                                      \
        c##i##a = CKCI_FMA(y, x0, c##i##a);                                                                  \
        c##i##b = CKCI_FMA(y, x1, c##i##b);                                                                  \
    }
#define CKCI_OUTER2_ADD(i)                                                                                   \
    c##i##a = CKCI_ADD(c##i##a, CKCI_LOAD(out + (i)*ldc + t->c_at[0]));                                      \
    c##i##b = CKCI_ADD(c##i##b, CKCI_LOAD(out + (i)*ldc + t->c_at[1]));
/* in this order: a vector past the last one repeats it */
#define CKCI_OUTER2_END(i)                                                                                   \
    CKCI_STORE(out + (i)*ldc + t->c_at[1], c##i##b);                                                         \
    CKCI_STORE(out + (i)*ldc + t->c_at[0], c##i##a);
#define CKCI_OUTER(NAME, W)                                                                                  \
    CKCI_TARGET CKCI_FN void NAME(const ckci_outer *t)                                                       \
    {                                                                                                        \
        const CKCI_T *q = (const CKCI_T *)t->dy;                                                             \
        const int64_t at0 = t->x_at[0], at1 = t->x_at[1], at2 = t->x_at[W - 1], step = t->x_step;            \
        (void)at2;                                                                                           \
        CKCI_M(CKCI_OUTER##W##_BEGIN)                                                                        \
        for (int64_t n = 0; n < t->planes; n++) {                                                            \
            for (int64_t r = 0; r < t->rows; r++) {                                                          \
                const CKCI_T *p = (const CKCI_T *)t->x + n * t->x_plane + r * t->x_row;                      \
                for (int64_t j = t->width; j > 0; j--) {                                                     \
                    CKCI_OPAQUE(p);                                                                          \
                    CKCI_OUTER##W##_LOAD CKCI_M(CKCI_OUTER##W##_STEP) p += step;                             \
                    q += CKCI_ROWS;                                                                          \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        CKCI_T *out = (CKCI_T *)t->c;                                                                        \
        const int64_t ldc = t->ldc;                                                                          \
        if (t->add) {                                                                                        \
            CKCI_M(CKCI_OUTER##W##_ADD)                                                                      \
        }                                                                                                    \
        CKCI_M(CKCI_OUTER##W##_END)                                                                          \
    }
#define CKCI_OUTERS(NAME) CKCI_OUTER(NAME##_2, 2) CKCI_OUTER(NAME##_3, 3)

#define CKCI_LINE_BEGIN(i) CKCI_V c##i = CKCI_ZERO;
#define CKCI_LINE_ADD(i) c##i = CKCI_LOAD(y + (i)*out_step);
#define CKCI_LINE_STEP(i)                                                                                    \
    if ((i) >= first && (i) < last) {                                                                        \
        c##i = CKCI_FMA(CKCI_X(((i) < 7 ? p : r) + (i) % 7 * x_step), w0, c##i);                             \
    }
#define CKCI_LINE_TAPS(REPEAT, EDGE, FIRST, LAST)                                                            \
    {                                                                                                        \
        const int first = FIRST, last = LAST;                                                                \
        for (int32_t t = count[EDGE]; t > 0; t--, table += 2) {                                              \
            const CKCI_XT *p = in + table[0];                                                                \
            const CKCI_XT *r = p + 7 * x_step;                                                               \
            CKCI_V w0 = CKCI_LOAD(wei + table[1]);                                                           \
            CKCI_OPAQUE(p);                                                                                  \
            CKCI_OPAQUE(r);                                                                                  \
            REPEAT(CKCI_LINE_STEP)                                                                           \
        }                                                                                                    \
    }
#define CKCI_LINE_END(i) CKCI_STORE(y + (i)*out_step, c##i);
#define CKCI_LINE_KERNEL(NAME, REPEAT, OUTPUTS)                                                              \
    CKCI_TARGET CKCI_FN void NAME(const int32_t count[CKCI_EDGES], const int32_t *table, const void *x,      \
                                  int64_t x_step, const void *w, void *out, int64_t out_step, int add)       \
    {                                                                                                        \
        const CKCI_XT *in = (const CKCI_XT *)x;                                                              \
        const CKCI_T *wei = (const CKCI_T *)w;                                                               \
        CKCI_T *y = (CKCI_T *)out;                                                                           \
        REPEAT(CKCI_LINE_BEGIN)                                                                              \
        if (add) {                                                                                           \
            REPEAT(CKCI_LINE_ADD)                                                                            \
        }                                                                                                    \
        CKCI_LINE_TAPS(REPEAT, 0, 0, OUTPUTS)                                                                \
        CKCI_LINE_TAPS(REPEAT, 1, 1, OUTPUTS)                                                                \
        CKCI_LINE_TAPS(REPEAT, 2, 2, OUTPUTS)                                                                \
        CKCI_LINE_TAPS(REPEAT, 3, 3, OUTPUTS)                                                                \
        CKCI_LINE_TAPS(REPEAT, 4, 0, OUTPUTS - 1)                                                            \
        CKCI_LINE_TAPS(REPEAT, 5, 0, OUTPUTS - 2)                                                            \
        CKCI_LINE_TAPS(REPEAT, 6, 0, OUTPUTS - 3)                                                            \
        REPEAT(CKCI_LINE_END)                                                                                \
    }

/* Position j for outputs a, b = a - 1 and d = a - 2 */
#define CKCI_THREE_AT(j) CKCI_X(((j) < 7 ? p : (j) < 14 ? r : u) + (j) % 7 * x_step)
#define CKCI_THREE(j, a, b, d)                                                                               \
    {                                                                                                        \
        CKCI_V v = CKCI_THREE_AT(j);                                                                         \
        CKCI_PIN(v);                                                                                         \
        c##a = CKCI_FMA(v, w0, c##a);                                                                        \
        c##b = CKCI_FMA(v, w1, c##b);                                                                        \
        c##d = CKCI_FMA(v, w2, c##d);                                                                        \
    }
#define CKCI_THREE_MIDDLE7 CKCI_THREE(3, 3, 2, 1) CKCI_THREE(4, 4, 3, 2) CKCI_THREE(5, 5, 4, 3)
#define CKCI_THREE_MIDDLE14                                                                                  \
    CKCI_THREE_MIDDLE7 CKCI_THREE(6, 6, 5, 4) CKCI_THREE(7, 7, 6, 5) CKCI_THREE(8, 8, 7, 6)                  \
        CKCI_THREE(9, 9, 8, 7) CKCI_THREE(10, 10, 9, 8) CKCI_THREE(11, 11, 10, 9) CKCI_THREE(12, 12, 11, 10)
/* The last outputs are A, B = A - 1, D = A - 2. */
#define CKCI_THREE_KERNEL(NAME, REPEAT, OUTPUTS, A, B, D)                                                    \
    CKCI_TARGET CKCI_FN void NAME(int64_t count, const int32_t *table, const void *x, int64_t x_step,        \
                                  const void *w, int64_t w_step, void *out, int64_t out_step, int add)       \
    {                                                                                                        \
        CKCI_T *y = (CKCI_T *)out;                                                                           \
        REPEAT(CKCI_LINE_BEGIN)                                                                              \
        if (add) {                                                                                           \
            REPEAT(CKCI_LINE_ADD)                                                                            \
        }                                                                                                    \
        for (; count > 0; count--, table += 4) {                                                             \
            const CKCI_XT *p = (const CKCI_XT *)x + table[0];                                                \
            const CKCI_XT *r = p + 7 * x_step, *u = r + 7 * x_step;                                          \
            const CKCI_T *wei = (const CKCI_T *)w + table[1];                                                \
            CKCI_V w0 = CKCI_LOAD(wei), w1 = CKCI_LOAD(wei + w_step), w2 = CKCI_LOAD(wei + 2 * w_step);      \
            const int32_t first = table[2], last = table[3];                                                 \
            CKCI_OPAQUE(p);                                                                                  \
            CKCI_OPAQUE(r);                                                                                  \
            CKCI_OPAQUE(u);                                                                                  \
            if (first < 1) {                                                                                 \
                c0 = CKCI_FMA(CKCI_THREE_AT(0), w0, c0);                                                     \
            }                                                                                                \
            if (first < 2) {                                                                                 \
                CKCI_V v = CKCI_THREE_AT(1);                                                                 \
                c1 = CKCI_FMA(v, w0, c1);                                                                    \
                c0 = CKCI_FMA(v, w1, c0);                                                                    \
            }                                                                                                \
            if (first < 3) {                                                                                 \
                CKCI_THREE(2, 2, 1, 0)                                                                       \
            }                                                                                                \
            CKCI_THREE_MIDDLE##OUTPUTS if (last >= OUTPUTS)                                                  \
            {                                                                                                \
                CKCI_THREE(OUTPUTS - 1, A, B, D)                                                             \
            }                                                                                                \
            if (last > OUTPUTS) {                                                                            \
                CKCI_V v = CKCI_THREE_AT(OUTPUTS);                                                           \
                c##A = CKCI_FMA(v, w1, c##A);                                                                \
                c##B = CKCI_FMA(v, w2, c##B);                                                                \
            }                                                                                                \
            if (last > OUTPUTS + 1) {                                                                        \
                c##A = CKCI_FMA(CKCI_THREE_AT(OUTPUTS + 1), w2, c##A);                                       \
            }                                                                                                \
        }                                                                                                    \
        REPEAT(CKCI_LINE_END)                                                                                \
    }
#define CKCI_THREES(NAME14, NAME7)                                                                           \
    CKCI_THREE_KERNEL(NAME14, CKCI_R14, 14, 13, 12, 11)                                                      \
    CKCI_THREE_KERNEL(NAME7, CKCI_R7, 7, 6, 5, 4)

#define CKCI_TAPS_BEGIN(i)                                                                                   \
    CKCI_V c##i = CKCI_ZERO;                                                                                 \
    const CKCI_XT *p##i = (const CKCI_XT *)x + table[2 * (i)];
#define CKCI_TAPS_STEP(i) c##i = CKCI_FMA(CKCI_X(p##i + at), y, c##i);
#define CKCI_TAPS_NEXT(i) p##i += x_row;
/* A sum starts from zero: few positions are added one after the other. */
#define CKCI_TAPS_END(i)                                                                                     \
    CKCI_STORE(out + table[2 * (i) + 1] * CKCI_N,                                                            \
               CKCI_ADD(c##i, CKCI_LOAD(out + table[2 * (i) + 1] * CKCI_N)));
#define CKCI_TAPS_KERNEL(NAME)                                                                               \
    CKCI_TARGET CKCI_FN void NAME(int64_t rows, int64_t width, const void *x, int64_t x_row, int64_t x_step, \
                                  const int32_t *table, const void *dy, int64_t dy_row, int64_t dy_step,     \
                                  void *acc)                                                                 \
    {                                                                                                        \
        CKCI_T *out = (CKCI_T *)acc;                                                                         \
        CKCI_R9(CKCI_TAPS_BEGIN)                                                                             \
        for (int64_t row = 0; row < rows; row++) {                                                           \
            const CKCI_XT *g = (const CKCI_XT *)dy + row * dy_row;                                           \
            for (int64_t j = 0, at = 0; j < width; j++, at += x_step) {                                      \
                CKCI_V y = CKCI_X(g);                                                                        \
                CKCI_R9(CKCI_TAPS_STEP)                                                                      \
                g += dy_step;                                                                                \
            }                                                                                                \
            CKCI_R9(CKCI_TAPS_NEXT)                                                                          \
        }                                                                                                    \
        CKCI_R9(CKCI_TAPS_END)                                                                               \
    }
#define CKCI_LINES_BEGIN(l) const CKCI_XT *p##l = (const CKCI_XT *)x + table[6 * (l) + 2];
#define CKCI_LINES_SUM(i) CKCI_V c##i = CKCI_ZERO;
#define CKCI_LINES_FIRST(l) CKCI_V w##l, v##l = CKCI_X(p##l), u##l = edges & 1 ? zero : CKCI_X(p##l - x_step);
/* U, V, W: what the three taps of each line read, which turns from output to output */
#define CKCI_LINES_TURN(l, I, J, K, U, V, W)                                                                 \
    W##l = CKCI_X(p##l + turn);                                                                              \
    c##I = CKCI_FMA(U##l, y, c##I);                                                                          \
    c##J = CKCI_FMA(V##l, y, c##J);                                                                          \
    c##K = CKCI_FMA(W##l, y, c##K);
/* The next call is for the next lanes: they are fetched ahead. */
#define CKCI_LINES_STEP(OUTPUT, U, V, W)                                                                     \
    CKCI_PREFETCH(g + OUTPUT * dy_step + CKCI_N);                                                            \
    CKCI_PREFETCH(p2 + at + OUTPUT * x_step + CKCI_N);                                                       \
    y = CKCI_X(g + OUTPUT * dy_step);                                                                        \
    turn = at + OUTPUT * x_step;                                                                             \
    CKCI_LINES_TURN(0, 0, 1, 2, U, V, W)                                                                     \
    CKCI_LINES_TURN(1, 3, 4, 5, U, V, W)                                                                     \
    CKCI_LINES_TURN(2, 6, 7, 8, U, V, W)
#define CKCI_LINES_SHIFT(l) u##l = v##l, v##l = w##l;
#define CKCI_LINES_LAST(l, I, J)                                                                             \
    c##I = CKCI_FMA(u##l, y, c##I);                                                                          \
    c##J = CKCI_FMA(v##l, y, c##J);
#define CKCI_LINES_KERNEL(NAME)                                                                              \
    CKCI_TARGET CKCI_FN void NAME(int64_t rows, int64_t width, const void *x, int64_t x_row, int64_t x_step, \
                                  const int32_t *table, const void *dy, int64_t dy_row, int64_t dy_step,     \
                                  void *acc, int edges)                                                      \
    {                                                                                                        \
        const int64_t whole = edges & 2 ? width - 1 : width;                                                 \
        const CKCI_V zero = CKCI_ZERO;                                                                       \
        CKCI_T *out = (CKCI_T *)acc;                                                                         \
        CKCI_R3(CKCI_LINES_BEGIN)                                                                            \
        CKCI_R9(CKCI_LINES_SUM)                                                                              \
        for (int64_t row = 0; row < rows; row++) {                                                           \
            const CKCI_XT *g = (const CKCI_XT *)dy + row * dy_row;                                           \
            int64_t j = 0, at = x_step, turn;                                                                \
            CKCI_V y;                                                                                        \
            CKCI_R3(CKCI_LINES_FIRST)                                                                        \
            for (; j + 3 <= whole; j += 3, at += 3 * x_step, g += 3 * dy_step) {                             \
                CKCI_LINES_STEP(0, u, v, w)                                                                  \
                CKCI_LINES_STEP(1, v, w, u)                                                                  \
                CKCI_LINES_STEP(2, w, u, v)                                                                  \
            }                                                                                                \
            for (; j < whole; j++, at += x_step, g += dy_step) {                                             \
                CKCI_LINES_STEP(0, u, v, w)                                                                  \
                CKCI_R3(CKCI_LINES_SHIFT)                                                                    \
            }                                                                                                \
            if (whole < width) {                                                                             \
                y = CKCI_X(g);                                                                               \
                CKCI_LINES_LAST(0, 0, 1)                                                                     \
                CKCI_LINES_LAST(1, 3, 4)                                                                     \
                CKCI_LINES_LAST(2, 6, 7)                                                                     \
            }                                                                                                \
            CKCI_R3(CKCI_TAPS_NEXT)                                                                          \
        }                                                                                                    \
        CKCI_R9(CKCI_TAPS_END)                                                                               \
    }

#define CKCI_SPREAD_SCALAR(NAME)                                                                             \
    CKCI_TARGET CKCI_FN void NAME(int64_t positions, const void *src, int64_t src_step, int64_t span,        \
                                  const int32_t *map, int64_t channels, void *dst, int64_t dst_channel)      \
    {                                                                                                        \
        (void)span;                                                                                          \
        for (int64_t p = 0; p < positions; p++) {                                                            \
            const CKCI_T *from = (const CKCI_T *)src + p * src_step;                                         \
            for (int64_t c = 0; c < channels; c++) {                                                         \
                CKCI_T *to = (CKCI_T *)dst + c * dst_channel + p * CKCI_N;                                   \
                for (int l = 0; l < CKCI_N; l++) {                                                           \
                    to[l] = from[map[l] + c];                                                                \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }
/* The same with one permutation for each vector, where a position's channels fit into one. */
#define CKCI_SPREAD_PERMUTE(NAME)                                                                            \
    CKCI_SPREAD_SCALAR(NAME##_scalar)                                                                        \
    CKCI_TARGET CKCI_FN void NAME(int64_t positions, const void *src, int64_t src_step, int64_t span,        \
                                  const int32_t *map, int64_t channels, void *dst, int64_t dst_channel)      \
    {                                                                                                        \
        if (span > CKCI_N) {                                                                                 \
            NAME##_scalar(positions, src, src_step, span, map, channels, dst, dst_channel);                  \
            return;                                                                                          \
        }                                                                                                    \
        for (int64_t c = 0; c < channels; c++) {                                                             \
            CKCI_T *to = (CKCI_T *)dst + c * dst_channel;                                                    \
            CKCI_INDEX(index, map, (int)c)                                                                   \
            for (int64_t p = 0; p < positions; p++) {                                                        \
                CKCI_STORE(to + p * CKCI_N,                                                                  \
                           CKCI_PERMUTE(CKCI_LOAD((const CKCI_T *)src + p * src_step), index));              \
            }                                                                                                \
        }                                                                                                    \
    }
#define CKCI_COPY_KERNEL(NAME)                                                                               \
    CKCI_TARGET CKCI_FN void NAME(int64_t n, int64_t count, const void *src, int64_t src_step, void *dst,    \
                                  int64_t dst_step)                                                          \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            const CKCI_T *from = (const CKCI_T *)src + i * src_step;                                         \
            CKCI_T *to = (CKCI_T *)dst + i * dst_step;                                                       \
            int64_t j = 0;                                                                                   \
            for (; j + CKCI_N <= count; j += CKCI_N) {                                                       \
                CKCI_STORE(to + j, CKCI_LOAD(from + j));                                                     \
            }                                                                                                \
            for (; j < count; j++) {                                                                         \
                to[j] = from[j];                                                                             \
            }                                                                                                \
        }                                                                                                    \
    }

#define CKCI_TURN_SCALAR(NAME)                                                                               \
    CKCI_TARGET CKCI_FN void NAME(int64_t rows, int64_t columns, const void *src, int64_t src_step,          \
                                  void *dst, int64_t dst_step)                                               \
    {                                                                                                        \
        for (int64_t r = 0; r < rows; r++) {                                                                 \
            const CKCI_T *from = (const CKCI_T *)src + r * src_step;                                         \
            CKCI_T *to = (CKCI_T *)dst + r;                                                                  \
            for (int64_t c = 0; c < columns; c++) {                                                          \
                to[c * dst_step] = from[c];                                                                  \
            }                                                                                                \
        }                                                                                                    \
    }
/* The same for numbers of 4 bytes, by squares of eight rows and columns: vectors exchange their odd and even
   numbers, then pairs of them, then halves. The last square of a side overlaps the one before. */
#define CKCI_TURN_LOAD(I) const __m256 a##I = _mm256_loadu_ps(from + I * src_step);
#define CKCI_TURN_ONES(I, J)                                                                                 \
    const __m256 b##I = _mm256_unpacklo_ps(a##I, a##J), b##J = _mm256_unpackhi_ps(a##I, a##J);
#define CKCI_TURN_TWOS(I, J, K, L)                                                                           \
    const __m256 c##I = _mm256_shuffle_ps(b##I, b##K, 0x44), c##J = _mm256_shuffle_ps(b##I, b##K, 0xee);     \
    const __m256 c##K = _mm256_shuffle_ps(b##J, b##L, 0x44), c##L = _mm256_shuffle_ps(b##J, b##L, 0xee);
#define CKCI_TURN_FOURS(I, J)                                                                                \
    _mm256_storeu_ps(to + I * dst_step, _mm256_permute2f128_ps(c##I, c##J, 0x20));                           \
    _mm256_storeu_ps(to + J * dst_step, _mm256_permute2f128_ps(c##I, c##J, 0x31));
#define CKCI_TURN_EIGHT(NAME)                                                                                \
    CKCI_TURN_SCALAR(NAME##_scalar)                                                                          \
    CKCI_TARGET CKCI_FN void NAME(int64_t rows, int64_t columns, const void *src, int64_t src_step,          \
                                  void *dst, int64_t dst_step)                                               \
    {                                                                                                        \
        if (rows < 8 || columns < 8) {                                                                       \
            NAME##_scalar(rows, columns, src, src_step, dst, dst_step);                                      \
            return;                                                                                          \
        }                                                                                                    \
        for (int64_t i = 0; i < columns; i += 8) {                                                           \
            const int64_t column = i + 8 <= columns ? i : columns - 8;                                       \
            for (int64_t j = 0; j < rows; j += 8) {                                                          \
                const int64_t row = j + 8 <= rows ? j : rows - 8;                                            \
                const float *from = (const float *)src + row * src_step + column;                            \
                float *to = (float *)dst + column * dst_step + row;                                          \
                CKCI_R8(CKCI_TURN_LOAD)                                                                      \
                CKCI_TURN_ONES(0, 1)                                                                         \
                CKCI_TURN_ONES(2, 3)                                                                         \
                CKCI_TURN_ONES(4, 5)                                                                         \
                CKCI_TURN_ONES(6, 7)                                                                         \
                CKCI_TURN_TWOS(0, 1, 2, 3)                                                                   \
                CKCI_TURN_TWOS(4, 5, 6, 7)                                                                   \
                CKCI_TURN_FOURS(0, 4)                                                                        \
                CKCI_TURN_FOURS(1, 5)                                                                        \
                CKCI_TURN_FOURS(2, 6)                                                                        \
                CKCI_TURN_FOURS(3, 7)                                                                        \
            }                                                                                                \
        }                                                                                                    \
    }

#define CKCI_BF16_KERNELS(S)                                                                                 \
    CKCI_LINE_KERNEL(ckci_half14_##S, CKCI_R14, 14)                                                          \
    CKCI_LINE_KERNEL(ckci_half7_##S, CKCI_R7, 7)                                                             \
    CKCI_TAPS_KERNEL(ckci_half_taps9_##S)                                                                    \
    CKCI_THREES(ckci_half_three14_##S, ckci_half_three7_##S)
/* Rows of `count` numbers of type FROM become rows of TO: VECTOR does those that begin at j, ONE a single
   one. */
#define CKCI_CONVERTER(NAME, FROM, TO, VECTOR, ONE)                                                          \
    CKCI_TARGET CKCI_FN void NAME(int64_t n, int64_t count, const void *src, int64_t src_step, void *dst,    \
                                  int64_t dst_step)                                                          \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            const FROM *from = (const FROM *)src + i * src_step;                                             \
            TO *to = (TO *)dst + i * dst_step;                                                               \
            int64_t j = 0;                                                                                   \
            for (; j + CKCI_N <= count; j += CKCI_N) {                                                       \
                VECTOR;                                                                                      \
            }                                                                                                \
            for (; j < count; j++) {                                                                         \
                to[j] = ONE(from[j]);                                                                        \
            }                                                                                                \
        }                                                                                                    \
    }
/* Memory of 2-byte floats to and from vectors; WIDE and SLIM do a vector, WIDE1 and SLIM1 a number. */
#define CKCI_WIDENING(WIDEN, NARROW, WIDE, SLIM, WIDE1, SLIM1)                                               \
    CKCI_CONVERTER(WIDEN, uint16_t, float, CKCI_STORE(to + j, WIDE(from + j)), WIDE1)                        \
    CKCI_CONVERTER(NARROW, float, uint16_t, SLIM(to + j, CKCI_LOAD(from + j)), SLIM1)
#define CKCI_BF16_WIDENING(S)                                                                                \
    CKCI_WIDENING(ckci_widen_##S, ckci_narrow_##S, ckci_wide_##S, ckci_slim_##S, ckci_bf16_float,            \
                  ckci_float_bf16)
#define CKCI_F16_WIDENING(S)                                                                                 \
    CKCI_WIDENING(ckci_widen16_##S, ckci_narrow16_##S, ckci_wide16_##S, ckci_slim16_##S, ckci_half_float,    \
                  ckci_float_half)

#define CKCI_KERNELS(S, SPREAD, TURN)                                                                        \
    TURN(ckci_turn_##S)                                                                                      \
    CKCI_OUTERS(ckci_outer_##S)                                                                              \
    CKCI_LINE_KERNEL(ckci_line14_##S, CKCI_R14, 14)                                                          \
    CKCI_LINE_KERNEL(ckci_line7_##S, CKCI_R7, 7)                                                             \
    CKCI_LINE_KERNEL(ckci_line4_##S, CKCI_R4, 4)                                                             \
    CKCI_TAPS_KERNEL(ckci_taps9_##S)                                                                         \
    SPREAD(ckci_spread_##S) CKCI_COPY_KERNEL(ckci_copy_##S)
/* A, B, C: its run lengths; ROWS those of an outer tile */
#define CKCI_BF16_SET(S)                                                                                     \
    ckci_three14_##S, ckci_three7_##S, ckci_widen16_##S, ckci_narrow16_##S, ckci_widen_##S, ckci_narrow_##S, \
        ckci_half14_##S, ckci_half7_##S, ckci_half_three14_##S, ckci_half_three7_##S, ckci_half_taps9_##S,   \
        NULL
#define CKCI_NO_BF16_SET NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
#define CKCI_KERNEL_SET(S, LANES, A, B, C, ROWS, ...)                                                        \
    {                                                                                                        \
        LANES, {A, B, C}, ROWS,                                                                              \
            {{ckci_tile##A##_##S##_1, ckci_tile##A##_##S##_2},                                               \
             {ckci_tile##B##_##S##_1, ckci_tile##B##_##S##_2},                                               \
             {ckci_tile##C##_##S##_1, ckci_tile##C##_##S##_2}},                                              \
            {ckci_outer_##S##_2, ckci_outer_##S##_3}, ckci_line14_##S, ckci_line7_##S, ckci_line4_##S,       \
            ckci_taps9_##S, ckci_spread_##S, ckci_copy_##S, ckci_turn_##S, __VA_ARGS__                       \
    }
