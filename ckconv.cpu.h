/* ckconv.cpu.h - v0.1.0 - the CPU engine of ckconv.h: C99 and C++11
   SPDX-License-Identifier: MIT */
#ifndef CKCONV_CPU_H
#define CKCONV_CPU_H
/*  (licence text at the end of ckconv.h)

Included by ckconv.h on one marked line when CKCONV_IMPLEMENTATION is defined. Do not include it yourself.

The fast host engine. Four layers, each unaware of the one above:
  vectors       three instruction sets (portable, AVX2, AVX-512) x three number kinds (float, double,
                int32), each a handful of macros; chosen at run time, by target attributes, so that no
                compiler flag is needed
  microkernels  register tiles: a rows x 2-vector GEMM tile, a line of depthwise outputs, nine taps of a
                depthwise weight gradient; written once as macros, stamped out for each vector kind
  packing       the coordinate map of the pass gathers tensors of any type, layout and stride into dense
                tiles: im2col rows (A), weight panels (B), and for small groups lines of lane-expanded
                channels
  drivers       work items over output tiles; an item owns its outputs and sums its reduction in one fixed
                order
Determinism: block sizes over the reduction depend on the shape alone, never on threads.

TAGS
    >>c-kernel  vectors and microkernels             >>c-direct         depthwise and small groups
    >>c-view    phases, segments, epilogue           >>c-direct-weight  their bwd_weight
    >>c-patch   gathered input                       >>c-pair           conv_conv_fwd
    >>c-gather  fwd, bwd_data                        >>c-norm           group norm
    >>c-weight  bwd_weight                           >>c-undef
*/

#ifndef CKCONV_IMPLEMENTATION
#error "ckconv.cpu.h is a part of ckconv.h: define CKCONV_IMPLEMENTATION and include ckconv.h"
#endif


/*------------------------------------------------------------------------------------------------------------
  >>c-kernel
  Register tiles of one vector kind, written once as macros and stamped out for each.
*/

/* Compilers that know the dot products of AVX-512 BF16 */
#if CKCI_X86 && ((defined(__clang__) && __clang_major__ >= 9) || (!defined(__clang__) && __GNUC__ >= 10))
#define CKCI_BF16_DOT 1
#else
#define CKCI_BF16_DOT 0
#endif

/* 16-byte vectors without intrinsics. int32 is done in uint32_t: the same bits, and overflow is defined. */
#if defined(__GNUC__) || defined(__clang__)
#define CKCI_SHORT_VECTOR(S, V, T, N)                                                                        \
    typedef T V __attribute__((vector_size(16)));                                                            \
    CKCI_INLINE V ckci_fma_##S(V a, V b, V c)                                                                \
    {                                                                                                        \
        return a * b + c;                                                                                    \
    }                                                                                                        \
    CKCI_INLINE V ckci_add_##S(V a, V b)                                                                     \
    {                                                                                                        \
        return a + b;                                                                                        \
    }
#else
#define CKCI_SHORT_VECTOR(S, V, T, N)                                                                        \
    typedef struct V {                                                                                       \
        T lane[N];                                                                                           \
    } V;                                                                                                     \
    CKCI_INLINE V ckci_fma_##S(V a, V b, V c)                                                                \
    {                                                                                                        \
        for (int i = 0; i < N; i++) {                                                                        \
            c.lane[i] = a.lane[i] * b.lane[i] + c.lane[i];                                                   \
        }                                                                                                    \
        return c;                                                                                            \
    }                                                                                                        \
    CKCI_INLINE V ckci_add_##S(V a, V b)                                                                     \
    {                                                                                                        \
        for (int i = 0; i < N; i++) {                                                                        \
            a.lane[i] = a.lane[i] + b.lane[i];                                                               \
        }                                                                                                    \
        return a;                                                                                            \
    }
#endif
#define CKCI_SHORT_MEMORY(S, V, T, N, LANES)                                                                 \
    CKCI_SHORT_VECTOR(S, V, T, N)                                                                            \
    CKCI_INLINE V ckci_load_##S(const void *p)                                                               \
    {                                                                                                        \
        V v;                                                                                                 \
        memcpy(&v, p, sizeof v);                                                                             \
        return v;                                                                                            \
    }                                                                                                        \
    CKCI_INLINE void ckci_store_##S(void *p, V v)                                                            \
    {                                                                                                        \
        memcpy(p, &v, sizeof v);                                                                             \
    }                                                                                                        \
    CKCI_INLINE V ckci_splat_##S(const void *p)                                                              \
    {                                                                                                        \
        T x;                                                                                                 \
        memcpy(&x, p, sizeof x);                                                                             \
        V v = LANES;                                                                                         \
        return v;                                                                                            \
    }
/* clang-format off */
#if defined(__GNUC__) || defined(__clang__)
#define CKCI_X2 {x, x}
#define CKCI_X4 {x, x, x, x}
#else
#define CKCI_X2 {{x, x}}
#define CKCI_X4 {{x, x, x, x}}
#endif
/* clang-format on */
CKCI_SHORT_MEMORY(vf, ckci_vf, float, 4, CKCI_X4)
CKCI_SHORT_MEMORY(vd, ckci_vd, double, 2, CKCI_X2)
CKCI_SHORT_MEMORY(vi, ckci_vi, uint32_t, 4, CKCI_X4)
#undef CKCI_SHORT_VECTOR
#undef CKCI_SHORT_MEMORY
#undef CKCI_X2
#undef CKCI_X4

enum {
    CKCI_SPAN = 256, /* numbers of a buffer on the stack */
    CKCI_LDA = 272, /* elements between im2col rows: 17 or 34 cache lines, so that rows spread over L1 sets */
    CKCI_KC = 256,  /* reduction per packed block */
    CKCI_LINE = 14, /* outputs of a line kernel; 7 and 4 for the rest of a line */
    CKCI_TAPS = 9,  /* taps of a weight-gradient kernel */
    CKCI_LANES = 16 /* most lanes of a vector */
};

/* Two runs of consecutive output positions x 1 or 2 vectors of columns:
   c[run][position][column] (+)= sum over s < segments, k < len of
   a[run][offset[s] + position * a_step + k] * b[s * len + k][column]. Steps in elements; b is packed. */
typedef struct ckci_tile {
    int64_t segments, len;
    const int32_t *offset;
    const void *a[2];
    int64_t a_step;
    const void *b;
    void *c[2];
    int64_t ldc;
    int add;
} ckci_tile;
typedef void (*ckci_tile_kernel)(const ckci_tile *t);
/* A tile of a weight gradient, `outer_rows` output channels x 3 or 2 vectors of (tap, input channel):
   c[i * ldc + c_at[v]] (+)= sum over positions of dy[position][i] * x[x_at[v] + position]. Positions are
   planes x rows x width, x_plane, x_row and x_step apart in x and consecutive in dy, which is packed. */
typedef struct ckci_outer {
    int64_t planes, rows, width;
    const void *x;
    int64_t x_plane, x_row, x_step, x_at[3];
    const void *dy;
    void *c;
    int64_t ldc, c_at[3];
    int add;
} ckci_outer;
typedef void (*ckci_outer_kernel)(const ckci_outer *t);
/* out[output][1 vector] (+)= sum over taps of x[table[2i] + output * x_step] * w[table[2i+1]], offsets in
   elements. First count[0] taps of all outputs, then count[1..3] taps that the first 1..3 outputs lack, then
   count[4..6] that the last 1..3 lack: they would read padding. */
enum { CKCI_EDGES = 7 };
typedef void (*ckci_line_kernel)(const int32_t count[CKCI_EDGES], const int32_t *table, const void *x,
                                 int64_t x_step, const void *w, void *out, int64_t out_step, int add);
/* The same for three taps that read neighbouring positions, each position read once: for `count` entries i,
   out[output] (+)= sum over j < 3 of x[table[4i] + (output + j) * x_step] * w[table[4i+1] + j * w_step].
   Positions output + j before table[4i+2] <= 3 or from table[4i+3] >= outputs - 1 on would be padding. */
typedef void (*ckci_three_kernel)(int64_t count, const int32_t *table, const void *x, int64_t x_step,
                                  const void *w, int64_t w_step, void *out, int64_t out_step, int add);
/* acc[table[2i+1]][1 vector] += sum over rows and positions of x[table[2i] + position] * dy[position], for
   CKCI_TAPS taps i */
typedef void (*ckci_taps_kernel)(int64_t rows, int64_t width, const void *x, int64_t x_row, int64_t x_step,
                                 const int32_t *table, const void *dy, int64_t dy_row, int64_t dy_step,
                                 void *acc);
/* The same where taps 3l .. 3l + 2 of line l < 3 read neighbouring positions, as outputs do: each is read
   once. edges: 1 where the first tap of a row's first output would read padding, 2 the last tap of its last
   one. */
typedef void (*ckci_lines_kernel)(int64_t rows, int64_t width, const void *x, int64_t x_row, int64_t x_step,
                                  const int32_t *table, const void *dy, int64_t dy_row, int64_t dy_step,
                                  void *acc, int edges);
/* dst[c][position][lane] = src[position * src_step + map[lane] + c]: channels of a few groups spread over
   lanes. `span` channels belong to a position; a vector may be read from each. */
typedef void (*ckci_spread_kernel)(int64_t positions, const void *src, int64_t src_step, int64_t span,
                                   const int32_t *map, int64_t channels, void *dst, int64_t dst_channel);
/* n rows of `count` elements from src to dst, steps in elements; widen reads bf16 or f16, narrow writes it */
typedef void (*ckci_copy_kernel)(int64_t n, int64_t count, const void *src, int64_t src_step, void *dst,
                                 int64_t dst_step);

/* dst[i][j] = (a[i][j], b[i][j]) in bf16: pairs for dot products. a or b may be NULL: zeros. */
typedef void (*ckci_zip_kernel)(int64_t n, int64_t count, const void *a, const void *b, int64_t src_step,
                                void *dst, int64_t dst_step);

/* The microkernels of one instruction set and number kind. tile[h][w]: runs of run[h] positions, tiles of
   w + 1 vectors. */
typedef struct ckci_kernels {
    int32_t lanes, run[3], outer_rows;
    ckci_tile_kernel tile[3][2];
    ckci_outer_kernel outer[2]; /* 2 and 3 vectors */
    ckci_line_kernel line14, line7, line4;
    ckci_taps_kernel taps9;
    ckci_spread_kernel spread;
    ckci_copy_kernel copy;
    ckci_three_kernel three14, three7;  /* these and all after them: f32 only */
    ckci_copy_kernel widen16, narrow16; /* f16 */
    ckci_copy_kernel widen, narrow;     /* these and the next read or write bf16 */
    ckci_line_kernel half14, half7;
    ckci_three_kernel half_three14, half_three7;
    ckci_taps_kernel half_taps9;
    ckci_zip_kernel zip;                   /* of kernels that take pairs, else NULL */
    ckci_lines_kernel lines9, half_lines9; /* or NULL */
} ckci_kernels;

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

#define CKCI_KERNELS(S, SPREAD)                                                                              \
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
            ckci_taps9_##S, ckci_spread_##S, ckci_copy_##S, __VA_ARGS__                                      \
    }

/* What lines and taps read: elements, or bf16 that becomes them */
#define CKCI_XT CKCI_T
#define CKCI_X CKCI_LOAD
/* portable: 16 bytes, runs of 2 */
#define CKCI_TARGET
#define CKCI_M CKCI_R4
#define CKCI_ROWS 4
#define CKCI_T float
#define CKCI_V ckci_vf
#define CKCI_N 4
#define CKCI_LOAD ckci_load_vf
#define CKCI_STORE ckci_store_vf
#define CKCI_SPLAT ckci_splat_vf
#define CKCI_FMA ckci_fma_vf
#define CKCI_ADD ckci_add_vf
#define CKCI_ZERO ckci_splat_vf("\0\0\0\0\0\0\0")
CKCI_KERNELS(f_portable, CKCI_SPREAD_SCALAR)
CKCI_THREES(ckci_three14_f_portable, ckci_three7_f_portable)
#define CKCI_HALF_MEMORY(WIDE, SLIM, WIDE1, SLIM1)                                                           \
    CKCI_INLINE ckci_vf WIDE(const uint16_t *p)                                                              \
    {                                                                                                        \
        float x[4];                                                                                          \
        for (int i = 0; i < 4; i++) {                                                                        \
            x[i] = WIDE1(p[i]);                                                                              \
        }                                                                                                    \
        return ckci_load_vf(x);                                                                              \
    }                                                                                                        \
    CKCI_INLINE void SLIM(uint16_t *p, ckci_vf v)                                                            \
    {                                                                                                        \
        float x[4];                                                                                          \
        ckci_store_vf(x, v);                                                                                 \
        for (int i = 0; i < 4; i++) {                                                                        \
            p[i] = SLIM1(x[i]);                                                                              \
        }                                                                                                    \
    }
CKCI_HALF_MEMORY(ckci_wide_f_portable, ckci_slim_f_portable, ckci_bf16_float, ckci_float_bf16)
CKCI_HALF_MEMORY(ckci_wide16_f_portable, ckci_slim16_f_portable, ckci_half_float, ckci_float_half)
CKCI_BF16_WIDENING(f_portable)
CKCI_F16_WIDENING(f_portable)
CKCI_TILES(ckci_tile2_f_portable_, CKCI_R2)
#undef CKCI_T
#undef CKCI_V
#undef CKCI_LOAD
#undef CKCI_STORE
#undef CKCI_SPLAT
#undef CKCI_FMA
#undef CKCI_ADD
#undef CKCI_ZERO
#ifndef CKCONV_NO_I8
#define CKCI_T uint32_t
#define CKCI_V ckci_vi
#define CKCI_LOAD ckci_load_vi
#define CKCI_STORE ckci_store_vi
#define CKCI_SPLAT ckci_splat_vi
#define CKCI_FMA ckci_fma_vi
#define CKCI_ADD ckci_add_vi
#define CKCI_ZERO ckci_splat_vi("\0\0\0\0\0\0\0")
CKCI_KERNELS(i_portable, CKCI_SPREAD_SCALAR)
CKCI_TILES(ckci_tile2_i_portable_, CKCI_R2)
#undef CKCI_T
#undef CKCI_V
#undef CKCI_LOAD
#undef CKCI_STORE
#undef CKCI_SPLAT
#undef CKCI_FMA
#undef CKCI_ADD
#undef CKCI_ZERO
#endif
#undef CKCI_N
#ifndef CKCONV_NO_F64
#define CKCI_T double
#define CKCI_V ckci_vd
#define CKCI_N 2
#define CKCI_LOAD ckci_load_vd
#define CKCI_STORE ckci_store_vd
#define CKCI_SPLAT ckci_splat_vd
#define CKCI_FMA ckci_fma_vd
#define CKCI_ADD ckci_add_vd
#define CKCI_ZERO ckci_splat_vd("\0\0\0\0\0\0\0")
CKCI_KERNELS(d_portable, CKCI_SPREAD_SCALAR)
CKCI_TILES(ckci_tile2_d_portable_, CKCI_R2)
#undef CKCI_T
#undef CKCI_V
#undef CKCI_N
#undef CKCI_LOAD
#undef CKCI_STORE
#undef CKCI_SPLAT
#undef CKCI_FMA
#undef CKCI_ADD
#undef CKCI_ZERO
#endif
#undef CKCI_TARGET
#undef CKCI_M
#undef CKCI_ROWS

#if CKCI_X86
/* One vector kind of an x86 instruction set: BITS 256 or 512, SUFFIX ps or pd. */
#define CKCI_LOAD(p) CKCI_MM(loadu)(p)
#define CKCI_STORE(p, v) CKCI_MM(storeu)(p, v)
#define CKCI_SPLAT(p) CKCI_MM(set1)(*(p))
#define CKCI_FMA(a, b, c) CKCI_MM(fmadd)(a, b, c)
#define CKCI_ADD(a, b) CKCI_MM(add)(a, b)
/* AVX2: 16 registers, runs of 3 */
#define CKCI_TARGET __attribute__((target("avx2,fma")))
#define CKCI_M CKCI_R4
#define CKCI_ROWS 4
#define CKCI_MM(op) _mm256_##op##_ps
#define CKCI_ZERO _mm256_setzero_ps()
#define CKCI_T float
#define CKCI_V __m256
#define CKCI_N 8
#define CKCI_INDEX(NAME, map, c)                                                                             \
    __m256i NAME =                                                                                           \
        _mm256_add_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(map)), _mm256_set1_epi32(c));
#define CKCI_PERMUTE(v, index) _mm256_permutevar8x32_ps(v, index)
CKCI_KERNELS(f_avx2, CKCI_SPREAD_PERMUTE)
CKCI_THREES(ckci_three14_f_avx2, ckci_three7_f_avx2)
CKCI_TARGET CKCI_INLINE __m256 ckci_wide_f_avx2(const uint16_t *p)
{
    __m256i u = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(u, 16));
}
CKCI_TARGET CKCI_INLINE void ckci_slim_f_avx2(uint16_t *p, __m256 v)
{
    __m256i u = _mm256_castps_si256(v), high = _mm256_srli_epi32(u, 16);
    __m256i half = _mm256_add_epi32(_mm256_and_si256(high, _mm256_set1_epi32(1)), _mm256_set1_epi32(0x7fff));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    __m256i even = _mm256_srli_epi32(_mm256_add_epi32(u, half), 16);
    __m256i r = _mm256_blendv_epi8(even, _mm256_or_si256(high, _mm256_set1_epi32(0x40)), nan);
    r = _mm256_permute4x64_epi64(_mm256_packus_epi32(r, r), 8);
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_castsi256_si128(r));
}
CKCI_BF16_WIDENING(f_avx2)
#undef CKCI_TARGET
#define CKCI_TARGET __attribute__((target("avx2,fma,f16c")))
CKCI_TARGET CKCI_INLINE __m256 ckci_wide16_f_avx2(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
CKCI_TARGET CKCI_INLINE void ckci_slim16_f_avx2(uint16_t *p, __m256 v)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
CKCI_F16_WIDENING(f_avx2)
#undef CKCI_TARGET
#define CKCI_TARGET __attribute__((target("avx2,fma")))
#undef CKCI_XT
#undef CKCI_X
#define CKCI_XT uint16_t
#define CKCI_X ckci_wide_f_avx2
CKCI_BF16_KERNELS(f_avx2)
#undef CKCI_XT
#undef CKCI_X
#define CKCI_XT CKCI_T
#define CKCI_X CKCI_LOAD
CKCI_TILES(ckci_tile3_f_avx2_, CKCI_R3)
#undef CKCI_INDEX
#undef CKCI_PERMUTE
#undef CKCI_MM
#undef CKCI_ZERO
#undef CKCI_T
#undef CKCI_V
#undef CKCI_N
#ifndef CKCONV_NO_F64
#define CKCI_MM(op) _mm256_##op##_pd
#define CKCI_ZERO _mm256_setzero_pd()
#define CKCI_T double
#define CKCI_V __m256d
#define CKCI_N 4
CKCI_KERNELS(d_avx2, CKCI_SPREAD_SCALAR)
CKCI_TILES(ckci_tile3_d_avx2_, CKCI_R3)
#undef CKCI_MM
#undef CKCI_ZERO
#undef CKCI_T
#undef CKCI_V
#undef CKCI_N
#endif
#undef CKCI_TARGET
#undef CKCI_M
#undef CKCI_ROWS
/* AVX-512: 32 registers, runs of 7, and 6 and 4 for widths that 7 does not divide well */
#define CKCI_TARGET __attribute__((target("avx512f,avx2,fma")))
#define CKCI_M CKCI_R8
#define CKCI_ROWS 8
#define CKCI_MM(op) _mm512_##op##_ps
#define CKCI_ZERO _mm512_setzero_ps()
#define CKCI_T float
#define CKCI_V __m512
#define CKCI_N 16
#define CKCI_INDEX(NAME, map, c)                                                                             \
    __m512i NAME = _mm512_add_epi32(_mm512_loadu_si512((const void *)(map)), _mm512_set1_epi32(c));
#define CKCI_PERMUTE(v, index) _mm512_maskz_permutexvar_ps((__mmask16)-1, index, v)
CKCI_KERNELS(f_avx512, CKCI_SPREAD_PERMUTE)
CKCI_THREES(ckci_three14_f_avx512, ckci_three7_f_avx512)
CKCI_LINES_KERNEL(ckci_lines9_f_avx512)
CKCI_TARGET CKCI_INLINE __m512 ckci_wide_f_avx512(const uint16_t *p)
{
    __m512i u =
        _mm512_maskz_cvtepu16_epi32((__mmask16)-1, _mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32((__mmask16)-1, u, 16));
}
CKCI_TARGET CKCI_INLINE void ckci_slim_f_avx512(uint16_t *p, __m512 v)
{
    __m512i u = _mm512_castps_si512(v), high = _mm512_maskz_srli_epi32((__mmask16)-1, u, 16);
    __m512i half = _mm512_add_epi32(_mm512_and_si512(high, _mm512_set1_epi32(1)), _mm512_set1_epi32(0x7fff));
    __m512i even = _mm512_maskz_srli_epi32((__mmask16)-1, _mm512_add_epi32(u, half), 16);
    __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    __m512i r = _mm512_mask_or_epi32(even, nan, high, _mm512_set1_epi32(0x40));
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_maskz_cvtepi32_epi16((__mmask16)-1, r));
}
CKCI_BF16_WIDENING(f_avx512)
CKCI_TARGET CKCI_INLINE __m512 ckci_wide16_f_avx512(const uint16_t *p)
{
    return _mm512_maskz_cvtph_ps((__mmask16)-1, _mm256_loadu_si256((const __m256i *)(const void *)p));
}
CKCI_TARGET CKCI_INLINE void ckci_slim16_f_avx512(uint16_t *p, __m512 v)
{
    _mm256_storeu_si256((__m256i *)(void *)p,
                        _mm512_maskz_cvtps_ph((__mmask16)-1, v, _MM_FROUND_TO_NEAREST_INT));
}
CKCI_F16_WIDENING(f_avx512)
#undef CKCI_XT
#undef CKCI_X
#define CKCI_XT uint16_t
#define CKCI_X ckci_wide_f_avx512
CKCI_BF16_KERNELS(f_avx512)
CKCI_LINES_KERNEL(ckci_half_lines9_f_avx512)
#undef CKCI_XT
#undef CKCI_X
#define CKCI_XT CKCI_T
#define CKCI_X CKCI_LOAD
CKCI_TILES(ckci_tile7_f_avx512_, CKCI_R7)
CKCI_TILES(ckci_tile6_f_avx512_, CKCI_R6)
CKCI_TILES(ckci_tile4_f_avx512_, CKCI_R4)
#if CKCI_BF16_DOT
/* Elements that are pairs of bf16 neighbours in the reduction */
#undef CKCI_TARGET
#undef CKCI_FMA
#define CKCI_TARGET __attribute__((target("avx512f,avx512bf16,avx2,fma")))
#define CKCI_FMA(a, b, c)                                                                                    \
    _mm512_dpbf16_ps(c, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b))
CKCI_TILES(ckci_tile7_p_avx512_, CKCI_R7)
CKCI_TILES(ckci_tile6_p_avx512_, CKCI_R6)
CKCI_TILES(ckci_tile4_p_avx512_, CKCI_R4)
CKCI_OUTERS(ckci_outer_p_avx512)
CKCI_LINE_KERNEL(ckci_line14_p_avx512, CKCI_R14, 14)
CKCI_LINE_KERNEL(ckci_line7_p_avx512, CKCI_R7, 7)
CKCI_LINE_KERNEL(ckci_line4_p_avx512, CKCI_R4, 4)
CKCI_THREES(ckci_three14_p_avx512, ckci_three7_p_avx512)
#undef CKCI_TARGET
#undef CKCI_FMA
#define CKCI_TARGET __attribute__((target("avx512f,avx2,fma")))
#define CKCI_FMA(a, b, c) CKCI_MM(fmadd)(a, b, c)
__attribute__((target("avx512f,avx512bf16,avx2,fma"))) CKCI_FN void
ckci_narrow_p_avx512(int64_t n, int64_t count, const void *src, int64_t src_step, void *dst, int64_t dst_step)
{
    for (int64_t i = 0; i < n; i++) {
        const float *from = (const float *)src + i * src_step;
        uint16_t *to = (uint16_t *)dst + i * dst_step;
        int64_t j = 0;
        for (; j + 16 <= count; j += 16) {
            __m256bh r = _mm512_cvtneps_pbh(_mm512_loadu_ps(from + j));
            memcpy(to + j, &r, sizeof r);
        }
        for (; j < count; j++) {
            to[j] = ckci_float_bf16(from[j]);
        }
    }
}
CKCI_TARGET CKCI_INLINE __m512i ckci_load_pairs(const uint16_t *p, int high)
{
    __m512i u = _mm512_setzero_si512();
    if (p) {
        u = _mm512_maskz_cvtepu16_epi32((__mmask16)-1, _mm256_loadu_si256((const __m256i *)(const void *)p));
    }
    return high ? _mm512_maskz_slli_epi32((__mmask16)-1, u, 16) : u;
}
CKCI_TARGET CKCI_INLINE __m256i ckci_load_few_pairs(const uint16_t *p, int high)
{
    __m256i u = _mm256_setzero_si256();
    if (p) {
        u = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    }
    return high ? _mm256_slli_epi32(u, 16) : u;
}
CKCI_TARGET CKCI_FN void ckci_zip_avx512(int64_t n, int64_t count, const void *a, const void *b,
                                         int64_t src_step, void *dst, int64_t dst_step)
{
    for (int64_t i = 0; i < n; i++) {
        const uint16_t *p = a ? (const uint16_t *)a + i * src_step : NULL;
        const uint16_t *q = b ? (const uint16_t *)b + i * src_step : NULL;
        uint32_t *to = (uint32_t *)dst + i * dst_step;
        int64_t j = 0;
        for (; j + 16 <= count; j += 16) {
            _mm512_storeu_si512((void *)(to + j), _mm512_or_si512(ckci_load_pairs(p ? p + j : p, 0),
                                                                  ckci_load_pairs(q ? q + j : q, 1)));
        }
        for (; j + 8 <= count; j += 8) {
            _mm256_storeu_si256((__m256i *)(void *)(to + j),
                                _mm256_or_si256(ckci_load_few_pairs(p ? p + j : p, 0),
                                                ckci_load_few_pairs(q ? q + j : q, 1)));
        }
        for (; j + 4 <= count; j += 4) {
            __m128i low = p ? _mm_loadl_epi64((const __m128i *)(const void *)(p + j)) : _mm_setzero_si128();
            __m128i high = q ? _mm_loadl_epi64((const __m128i *)(const void *)(q + j)) : _mm_setzero_si128();
            _mm_storeu_si128((__m128i *)(void *)(to + j), _mm_unpacklo_epi16(low, high));
        }
        for (; j < count; j++) {
            uint16_t low = 0, high = 0; /* memory need not be aligned */
            if (p) {
                memcpy(&low, p + j, 2);
            }
            if (q) {
                memcpy(&high, q + j, 2);
            }
            to[j] = (uint32_t)low | (uint32_t)high << 16;
        }
    }
}
#endif
#undef CKCI_INDEX
#undef CKCI_PERMUTE
#undef CKCI_MM
#undef CKCI_ZERO
#undef CKCI_T
#undef CKCI_V
#undef CKCI_N
#ifndef CKCONV_NO_F64
#define CKCI_MM(op) _mm512_##op##_pd
#define CKCI_ZERO _mm512_setzero_pd()
#define CKCI_T double
#define CKCI_V __m512d
#define CKCI_N 8
CKCI_KERNELS(d_avx512, CKCI_SPREAD_SCALAR)
CKCI_TILES(ckci_tile7_d_avx512_, CKCI_R7)
#undef CKCI_MM
#undef CKCI_ZERO
#undef CKCI_T
#undef CKCI_V
#undef CKCI_N
#endif
#undef CKCI_TARGET
#undef CKCI_M
#undef CKCI_ROWS
#undef CKCI_LOAD
#undef CKCI_STORE
#undef CKCI_SPLAT
#undef CKCI_FMA
#undef CKCI_ADD
#ifndef CKCONV_NO_I8
#define CKCI_LOAD(p) CKCI_MM(loadu)((const void *)(p))
#define CKCI_STORE(p, v) CKCI_MM(storeu)((void *)(p), v)
#define CKCI_SPLAT(p) CKCI_SPLAT1((int)*(p))
#define CKCI_FMA(a, b, c) CKCI_ADD32(CKCI_MUL32(a, b), c)
#define CKCI_ADD(a, b) CKCI_ADD32(a, b)
#define CKCI_T uint32_t
#define CKCI_TARGET __attribute__((target("avx2,fma")))
#define CKCI_M CKCI_R4
#define CKCI_ROWS 4
#define CKCI_ADD32 _mm256_add_epi32
#define CKCI_MUL32 _mm256_mullo_epi32
#define CKCI_SPLAT1 _mm256_set1_epi32
#define CKCI_ZERO _mm256_setzero_si256()
#define CKCI_V __m256i
#define CKCI_N 8
#undef CKCI_LOAD
#undef CKCI_STORE
#define CKCI_LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define CKCI_STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
CKCI_KERNELS(i_avx2, CKCI_SPREAD_SCALAR)
CKCI_TILES(ckci_tile3_i_avx2_, CKCI_R3)
#undef CKCI_LOAD
#undef CKCI_STORE
#undef CKCI_TARGET
#undef CKCI_M
#undef CKCI_ROWS
#undef CKCI_ADD32
#undef CKCI_MUL32
#undef CKCI_SPLAT1
#undef CKCI_ZERO
#undef CKCI_V
#undef CKCI_N
#define CKCI_TARGET __attribute__((target("avx512f,avx2,fma")))
#define CKCI_M CKCI_R8
#define CKCI_ROWS 8
#define CKCI_ADD32 _mm512_add_epi32
#define CKCI_MUL32 _mm512_mullo_epi32
#define CKCI_SPLAT1 _mm512_set1_epi32
#define CKCI_ZERO _mm512_setzero_si512()
#define CKCI_V __m512i
#define CKCI_N 16
#define CKCI_LOAD(p) _mm512_loadu_si512((const void *)(p))
#define CKCI_STORE(p, v) _mm512_storeu_si512((void *)(p), v)
CKCI_KERNELS(i_avx512, CKCI_SPREAD_SCALAR)
CKCI_TILES(ckci_tile7_i_avx512_, CKCI_R7)
#undef CKCI_LOAD
#undef CKCI_STORE
#undef CKCI_SPLAT
#undef CKCI_FMA
#undef CKCI_ADD
#undef CKCI_T
#undef CKCI_TARGET
#undef CKCI_M
#undef CKCI_ROWS
#undef CKCI_ADD32
#undef CKCI_MUL32
#undef CKCI_SPLAT1
#undef CKCI_ZERO
#undef CKCI_V
#undef CKCI_N
#endif
#endif

/* The microkernels for a set of CPU features and a number kind (CKCONV_F32, CKCONV_F64, CKCONV_I32). */
CKCI_FN const ckci_kernels *ckci_find_kernels(int32_t features, ckconv_dtype dtype)
{
    static const ckci_kernels f[3] = {
        CKCI_KERNEL_SET(f_portable, 4, 2, 2, 2, 4, ckci_three14_f_portable, ckci_three7_f_portable,
                        ckci_widen16_f_portable, ckci_narrow16_f_portable, ckci_widen_f_portable,
                        ckci_narrow_f_portable, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
#if CKCI_X86
        CKCI_KERNEL_SET(f_avx2, 8, 3, 3, 3, 4, CKCI_BF16_SET(f_avx2), NULL, NULL),
        CKCI_KERNEL_SET(f_avx512, 16, 7, 6, 4, 8, CKCI_BF16_SET(f_avx512), ckci_lines9_f_avx512,
                        ckci_half_lines9_f_avx512)
#endif
    };
    /* facts of another machine are planned with the kernels that there are */
    int level = !CKCI_X86 ? 0 : features & CKCONV_CPU_AVX512 ? 2 : features & CKCONV_CPU_AVX2 ? 1 : 0;
#ifndef CKCONV_NO_F64
    static const ckci_kernels d[3] = {
        CKCI_KERNEL_SET(d_portable, 2, 2, 2, 2, 4, CKCI_NO_BF16_SET),
#if CKCI_X86
        CKCI_KERNEL_SET(d_avx2, 4, 3, 3, 3, 4, CKCI_NO_BF16_SET),
        CKCI_KERNEL_SET(d_avx512, 8, 7, 7, 7, 8, CKCI_NO_BF16_SET)
#endif
    };
    if (dtype == CKCONV_F64) {
        return &d[level];
    }
#endif
#ifndef CKCONV_NO_I8
    static const ckci_kernels i[3] = {
        CKCI_KERNEL_SET(i_portable, 4, 2, 2, 2, 4, CKCI_NO_BF16_SET),
#if CKCI_X86
        CKCI_KERNEL_SET(i_avx2, 8, 3, 3, 3, 4, CKCI_NO_BF16_SET),
        CKCI_KERNEL_SET(i_avx512, 16, 7, 7, 7, 8, CKCI_NO_BF16_SET)
#endif
    };
    if (dtype == CKCONV_I32) {
        return &i[level];
    }
#endif
    (void)dtype;
    return &f[level];
}

/* Those of bf16 pairs; depthwise convolutions have none and only store by other instructions. */
CKCI_FN const ckci_kernels *ckci_find_pair_kernels(int depthwise)
{
#if CKCI_BF16_DOT
    static const ckci_kernels p = {16,
                                   {7, 6, 4},
                                   8,
                                   {{ckci_tile7_p_avx512_1, ckci_tile7_p_avx512_2},
                                    {ckci_tile6_p_avx512_1, ckci_tile6_p_avx512_2},
                                    {ckci_tile4_p_avx512_1, ckci_tile4_p_avx512_2}},
                                   {ckci_outer_p_avx512_2, ckci_outer_p_avx512_3},
                                   ckci_line14_p_avx512,
                                   ckci_line7_p_avx512,
                                   ckci_line4_p_avx512,
                                   NULL,
                                   ckci_spread_f_avx512,
                                   ckci_copy_f_avx512,
                                   ckci_three14_p_avx512,
                                   ckci_three7_p_avx512,
                                   ckci_widen16_f_avx512,
                                   ckci_narrow16_f_avx512,
                                   ckci_widen_f_avx512,
                                   ckci_narrow_p_avx512,
                                   NULL,
                                   NULL,
                                   NULL,
                                   NULL,
                                   NULL,
                                   ckci_zip_avx512,
                                   NULL,
                                   NULL};
    static const ckci_kernels d = CKCI_KERNEL_SET(
        f_avx512, 16, 7, 6, 4, 8, ckci_three14_f_avx512, ckci_three7_f_avx512, ckci_widen16_f_avx512,
        ckci_narrow16_f_avx512, ckci_widen_f_avx512, ckci_narrow_p_avx512, ckci_half14_f_avx512,
        ckci_half7_f_avx512, ckci_half_three14_f_avx512, ckci_half_three7_f_avx512, ckci_half_taps9_f_avx512,
        ckci_zip_avx512, ckci_lines9_f_avx512, ckci_half_lines9_f_avx512);
    return depthwise ? &d : &p;
#else
    (void)depthwise;
    return NULL;
#endif
}


/*------------------------------------------------------------------------------------------------------------
  >>c-view
  A convolution as the kernels see it: stride phases, segments of the reduction, rows of sums to memory.
*/

/* A convolution as its kernels see it. The tensor that is gathered (in; out for bwd_data) has `red` channels
   per group in the reduction; the columns of the product are the `cols` channels per group of the other
   side. */
typedef struct ckci_view {
    const ckci_conv *p;
    const ckci_kind *kind;
    const ckci_kernels *k;
    const ckci_tensor *read;
    int64_t red, cols, taps;
    int64_t phases[3]; /* bwd_data: stride phases; else 1 */
    int wei_col, wei_red;
    int pairs; /* an element of the reduction is two bf16 channels, a float to all but the kernels */
    int twins; /* bwd_weight: the same of two planes (n, z) of outputs */
} ckci_view;

CKCI_FN ckci_view ckci_make_view(const ckci_conv *p, int32_t features)
{
    ckci_view v;
    int data = p->op == CKCONV_BWD_DATA;
    v.p = p;
    v.kind = ckci_find_kind(p->t[p->op == CKCONV_BWD_WEIGHT ? CKCI_IN : CKCI_WEI].compute);
    v.k = ckci_find_kernels(features, v.kind->dtype);
    v.read = &p->t[data ? CKCI_OUT : CKCI_IN];
    v.red = data ? p->k : p->c;
    v.cols = data ? p->c : p->k;
    v.taps = p->filter[0] * p->filter[1] * p->filter[2];
    v.pairs = v.twins = 0;
    v.wei_col = data ? 2 : 1;
    v.wei_red = data ? 1 : 2;
    for (int i = 0; i < 3; i++) {
        v.phases[i] = data ? ckci_min(p->stride[i], p->input[i]) : 1;
    }
    return v;
}

/* bf16 memory whose values are floats as they are */
CKCI_INLINE int ckci_is_bf16(const ckci_view *v, const ckci_tensor *t)
{
    return t->plain && t->dtype == CKCONV_BF16 && v->kind->dtype == CKCONV_F32 && (uintptr_t)t->p % 2 == 0;
}

/* What turns 2-byte floats of t into numbers, if they are floats as they are; else NULL. */
CKCI_INLINE ckci_copy_kernel ckci_widener(const ckci_view *v, const ckci_tensor *t)
{
    int half = t->plain && v->kind->dtype == CKCONV_F32 && (uintptr_t)t->p % 2 == 0;
    return !half                     ? NULL
           : t->dtype == CKCONV_BF16 ? v->k->widen
           : t->dtype == CKCONV_F16  ? v->k->widen16
                                     : NULL;
}

/* Zero n numbers of a kind; all-bits-zero is 0 in each. */
CKCI_INLINE void ckci_clear(const ckci_kind *kind, void *dst, int64_t n)
{
    memset(dst, 0, (size_t)(n * kind->size));
}

/* memcpy of a few vectors, without the call */
CKCI_INLINE void ckci_copy_bytes(unsigned char *dst, const unsigned char *src, int64_t bytes)
{
    while (bytes >= 64) {
        memcpy(dst, src, 64);
        dst += 64;
        src += 64;
        bytes -= 64;
    }
    for (; bytes >= 16; bytes -= 16) {
        memcpy(dst, src, 16);
        dst += 16;
        src += 16;
    }
    for (; bytes > 0; bytes -= 4) {
        memcpy(dst, src, 4);
        dst += 4;
        src += 4;
    }
}

/* dst[i * step] = src[i] */
CKCI_INLINE void ckci_scatter(const ckci_kind *kind, unsigned char *dst, int64_t step, const void *src,
                              int64_t n)
{
    const unsigned char *s = (const unsigned char *)src;
    if (kind->size == 4) {
        for (int64_t i = 0; i < n; i++) {
            memcpy(dst + i * step * 4, s + i * 4, 4);
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            memcpy(dst + i * step * 8, s + i * 8, 8);
        }
    }
}

/* dst[i] = src[i * step] */
CKCI_INLINE void ckci_collect(const ckci_kind *kind, void *dst, const unsigned char *src, int64_t step,
                              int64_t n)
{
    unsigned char *d = (unsigned char *)dst;
    if (kind->size == 4) {
        for (int64_t i = 0; i < n; i++) {
            memcpy(d + i * 4, src + i * step * 4, 4);
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            memcpy(d + i * 8, src + i * step * 8, 8);
        }
    }
}

/* Phase `index` of v: three axes. */
CKCI_FN void ckci_phase(const ckci_view *v, int64_t index, ckci_axis axis[3])
{
    axis[2] = ckci_map_axis(v->p, 2, index % v->phases[2]);
    axis[1] = ckci_map_axis(v->p, 1, index / v->phases[2] % v->phases[1]);
    axis[0] = ckci_map_axis(v->p, 0, index / v->phases[2] / v->phases[1]);
}

/* The written tensor in the coordinates of a phase: position q is write0 + q*write_step. d: room for the D
   tensors. */
CKCI_FN ckci_target ckci_phase_target(const ckci_target *whole, const ckci_axis *axis, ckci_tensor *d)
{
    ckci_target o = *whole;
    o.d = d;
    for (int32_t j = 0; j <= o.num_d; j++) {
        ckci_tensor *t = j < o.num_d ? &d[j] : &o.t;
        if (j < o.num_d) {
            d[j] = whole->d[j];
        }
        for (int i = 0; i < 3; i++) {
            t->p += axis[i].write0 * t->stride[3 + i] * (int64_t)ckci_size(t->dtype);
            /* a single position needs no stride, and its product could be huge */
            t->stride[3 + i] *= axis[i].count == 1 ? 0 : axis[i].write_step;
        }
    }
    return o;
}

/* Position m of a phase as {n, qz, qy, qx}. */
CKCI_FN void ckci_place(const ckci_axis axis[3], int64_t m, int64_t q[4])
{
    q[3] = m % axis[2].count;
    m /= axis[2].count;
    q[2] = m % axis[1].count;
    m /= axis[1].count;
    q[1] = m % axis[0].count;
    q[0] = m / axis[0].count;
}

CKCI_FN void ckci_next_place(const ckci_axis axis[3], int64_t q[4])
{
    if (++q[3] == axis[2].count) {
        q[3] = 0;
        if (++q[2] == axis[1].count) {
            q[2] = 0;
            if (++q[1] == axis[0].count) {
                q[1] = 0;
                q[0]++;
            }
        }
    }
}

/* Taps j in [*from, *to) whose read position first + j*step lies inside [0, len). */
CKCI_FN void ckci_inside(int64_t first, int64_t step, int64_t taps, int64_t len, int64_t *from, int64_t *to)
{
    int64_t lo = 0, hi = taps;
    if (step == 1 || taps == 1) { /* without a division */
        lo = first < 0 ? (taps == 1 ? 1 : -first) : 0;
        hi = first < len ? ckci_min(taps, taps == 1 ? 1 : len - first) : 0;
    } else if (step > 0) {
        lo = first < 0 ? ckci_ceil_div(-first, step) : 0;
        hi = first < len ? ckci_min(taps, (len - 1 - first) / step + 1) : 0;
    } else if (step < 0) {
        lo = first >= len ? ckci_ceil_div(first - len + 1, -step) : 0;
        hi = first >= 0 ? ckci_min(taps, first / -step + 1) : 0;
    } else if (first < 0 || first >= len) {
        hi = 0;
    }
    *from = ckci_min(lo, taps);
    *to = ckci_max(hi, *from);
}

/* One segment of an im2col row: numbers [skip, skip + n) of the channels of `line` neighbouring taps, whose
   first tap reads position x of a row of the tensor that begins at element `row` (row_inside 0: the row is
   padding). */
CKCI_INLINE void ckci_pack_segment(const ckci_view *v, const ckci_axis *ax, int64_t line,
                                   int64_t channel_step, int bare, int64_t row, int row_inside, int64_t x,
                                   int64_t skip, int64_t n, unsigned char *out)
{
    const ckci_tensor *t = v->read;
    int64_t from = skip, to = skip + n, size = v->kind->size;
    if (line == 1) {
        to = row_inside && x >= 0 && x < ax->read_len ? to : from;
    } else {
        int64_t first = 0, last = 0;
        if (row_inside) {
            ckci_inside(x, ax->read_tap, line, ax->read_len, &first, &last);
        }
        from = ckci_min(ckci_max(first * v->red, skip), skip + n);
        to = ckci_max(ckci_min(last * v->red, skip + n), from);
    }
    if (from > skip) {
        ckci_clear(v->kind, out, from - skip);
    }
    if (to > from) {
        int64_t at = row + x * t->stride[5] + from * channel_step;
        if (bare) {
            ckci_copy_bytes(out + (from - skip) * size, t->p + at * size, (to - from) * size);
        } else {
            v->kind->read(t, at, channel_step, to - from, out + (from - skip) * size);
        }
    }
    if (to < skip + n) {
        ckci_clear(v->kind, out + (to - skip) * size, skip + n - to);
    }
}

/* im2col: rows m0.. of the phase, columns [k0, k1) of the reduction (tap by tap, channels fastest), padding
   as zeros. Where neighbouring taps are neighbours in memory a whole filter row is one segment. */
CKCI_FN void ckci_pack_rows(const ckci_view *v, const ckci_axis axis[3], int64_t group, int64_t m0,
                            int64_t rows, int64_t k0, int64_t k1, unsigned char *dst, int64_t ld)
{
    const ckci_tensor *t = v->read;
    const ckci_axis *az = &axis[0], *ay = &axis[1], *ax = &axis[2];
    int64_t channel_step = v->red > 1 ? t->stride[2] : 1, size = v->kind->size;
    int joined = channel_step == 1 && ax->read_tap > 0 && ax->read_tap <= v->red && t->stride[5] <= v->red &&
                 ax->read_tap * t->stride[5] == v->red;
    int64_t line = joined ? ax->taps : 1, segment = line * v->red, across = joined ? 1 : ax->taps;
    int bare = t->plain && t->dtype == v->kind->dtype && channel_step == 1;
    int64_t s0 = k0 / segment, q[4];
    int64_t jx0 = s0 % across, jy0 = s0 / across % ay->taps, jz0 = s0 / across / ay->taps;
    ckci_place(axis, m0, q);
    for (int64_t r = 0; r < rows; r++, ckci_next_place(axis, q)) {
        unsigned char *out = dst + r * ld * size;
        int64_t base = group * t->stride[0] + q[0] * t->stride[1];
        int64_t skip = k0 - s0 * segment, jx = jx0, jy = jy0, jz = jz0;
        int64_t x0 = q[3] * ax->read_step + ax->read0;
        for (int64_t k = k0; k < k1; jx = 0) {
            int64_t z = q[1] * az->read_step + az->read0 + jz * az->read_tap;
            int64_t y = q[2] * ay->read_step + ay->read0 + jy * ay->read_tap;
            int inside = z >= 0 && z < az->read_len && y >= 0 && y < ay->read_len;
            int64_t row = inside ? base + z * t->stride[3] + y * t->stride[4] : 0;
            for (; jx < across && k < k1; jx++, skip = 0) {
                int64_t n = ckci_min(segment - skip, k1 - k);
                ckci_pack_segment(v, ax, line, channel_step, bare, row, inside, x0 + jx * ax->read_tap, skip,
                                  n, out);
                out += n * size;
                k += n;
            }
            if (++jy == ay->taps) {
                jy = 0;
                jz++;
            }
        }
    }
}

/* The same for pairs. */
CKCI_FN void ckci_pack_pairs(const ckci_view *v, int64_t at, int64_t n, int64_t valid, int64_t width,
                             unsigned char *dst)
{
    const ckci_tensor *w = &v->p->t[CKCI_WEI];
    int64_t col_step = w->stride[v->wei_col], red_step = w->stride[v->wei_red];
    const unsigned char *p = w->p + at * 2;
    if (col_step <= red_step) {
        for (int64_t i = 0; i < n; i++, dst += width * 4, p += red_step * 4) {
            for (int64_t j = 0; j < valid; j++) {
                memcpy(dst + j * 4, p + j * col_step * 2, 2);
                memcpy(dst + j * 4 + 2, p + (j * col_step + red_step) * 2, 2);
            }
            memset(dst + valid * 4, 0, (size_t)((width - valid) * 4));
        }
        return;
    }
    for (int64_t j = 0; j < width; j++, p += col_step * 2) {
        for (int64_t i = 0; i < n; i++) {
            unsigned char *out = dst + (i * width + j) * 4;
            memset(out, 0, 4);
            if (j < valid && red_step == 1) {
                memcpy(out, p + i * 4, 4);
            } else if (j < valid) {
                memcpy(out, p + i * red_step * 4, 2);
                memcpy(out + 2, p + (2 * i + 1) * red_step * 2, 2);
            }
        }
    }
}

/* Weights of a phase for columns [j0, j0 + width) and reduction [k0, k1): dst[k][width], columns past the end
   zero. */
CKCI_FN void ckci_pack_weights(const ckci_view *v, const ckci_axis axis[3], int64_t group, int64_t j0,
                               int64_t width, int64_t k0, int64_t k1, unsigned char *dst)
{
    enum { CKCI_CHUNK = 128 };
    double buffer[CKCI_CHUNK];
    const ckci_tensor *w = &v->p->t[CKCI_WEI];
    int64_t size = v->kind->size, valid = ckci_min(width, v->cols - j0);
    int64_t col_step = w->stride[v->wei_col], red_step = w->stride[v->wei_red];
    for (int64_t k = k0; k < k1;) {
        int64_t tap = k / v->red, c = k % v->red, n = ckci_min(ckci_min(v->red - c, k1 - k), CKCI_CHUNK);
        int64_t jx = tap % axis[2].taps, jy = tap / axis[2].taps % axis[1].taps,
                jz = tap / axis[2].taps / axis[1].taps;
        int64_t at = group * w->stride[0] + j0 * col_step + (v->pairs ? 2 * c : c) * red_step +
                     (axis[0].tap0 + jz * axis[0].tap_step) * w->stride[3] +
                     (axis[1].tap0 + jy * axis[1].tap_step) * w->stride[4] +
                     (axis[2].tap0 + jx * axis[2].tap_step) * w->stride[5];
        unsigned char *out = dst + (k - k0) * width * size;
        if (v->pairs) {
            ckci_pack_pairs(v, at, n, valid, width, out);
        } else if (col_step == 1 || n < 4) {
            for (int64_t i = 0; i < n; i++) {
                v->kind->read(w, at + i * red_step, col_step, valid, out + i * width * size);
                ckci_clear(v->kind, out + (i * width + valid) * size, width - valid);
            }
        } else {
            for (int64_t j = 0; j < width; j++) {
                if (j < valid) {
                    v->kind->read(w, at + j * col_step, red_step, n, buffer);
                } else {
                    ckci_clear(v->kind, buffer, n);
                }
                ckci_scatter(v->kind, out + j * size, width, buffer, n);
            }
        }
        k += n;
    }
}

/* Sums that an epilogue leaves alone go to memory in rows of dense elements: 1 as they are, 2 as bf16, 3 as
   f16, 4 and 5 rounded to these but kept as floats. 0: they need kind->write. */
CKCI_FN int ckci_plain_store(const ckci_view *v, const ckci_target *o)
{
    int pass = o->t.op.kind == CKCONV_PASS && !o->scale && !o->shift, same = o->t.dtype == v->kind->dtype;
    ckconv_dtype half = o->compute ? o->compute : o->t.dtype;
    int how = half == CKCONV_BF16 ? 2 : half == CKCONV_F16 ? 3 : 0;
    if (!pass || (uintptr_t)o->t.p % ckci_size(o->t.dtype) != 0) {
        return 0;
    }
    if (!o->compute && same) {
        return 1;
    }
    how = v->kind->dtype == CKCONV_F32 ? how : 0;
    return how == 0 || !o->compute ? how : same ? how + 2 : 0;
}

CKCI_FN void ckci_store_rows(const ckci_view *v, int how, int64_t n, int64_t count, const unsigned char *src,
                             int64_t src_step, unsigned char *dst, int64_t dst_step)
{
    uint16_t half[CKCI_SPAN];
    ckci_copy_kernel narrow = how % 2 == 0 ? v->k->narrow : v->k->narrow16;
    if (how <= 3) {
        (how == 1 ? v->k->copy : narrow)(n, count, src, src_step, dst, dst_step);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < count; j += CKCI_SPAN) {
            int64_t some = ckci_min(count - j, CKCI_SPAN);
            narrow(1, some, src + (i * src_step + j) * 4, 0, half, 0);
            (how == 4 ? v->k->widen : v->k->widen16)(1, some, half, 0, dst + (i * dst_step + j) * 4, 0);
        }
    }
}

/* Hand a tile of finished sums to the epilogue: `rows` positions from q = (n, z, y, x) on, which moves past
   them, `cols` channels from j0 on; src[row][ld]. Runs follow the denser axis of the written tensor. */
CKCI_FN void ckci_write_tile(const ckci_view *v, const ckci_target *o, const ckci_axis axis[3], int64_t group,
                             int64_t q[4], int64_t rows, int64_t j0, int64_t cols, const unsigned char *src,
                             int64_t ld)
{
    enum { CKCI_CHUNK = 128 };
    double buffer[CKCI_CHUNK];
    int64_t at[6];
    const ckci_kind *kind = v->kind;
    int along_x = o->t.stride[5] < o->t.stride[2] && cols > 1;
    int how = o->t.stride[2] == 1 || cols == 1 ? ckci_plain_store(v, o) : 0;
    at[0] = group;
    for (int64_t r = 0; r < rows;) {
        int64_t n = along_x || how ? ckci_min(ckci_min(rows - r, axis[2].count - q[3]), CKCI_CHUNK) : 1;
        at[1] = q[0];
        at[2] = j0;
        at[3] = q[1];
        at[4] = q[2];
        at[5] = q[3];
        const unsigned char *from = src + r * ld * kind->size;
        if (how) {
            ckci_store_rows(v, how, n, cols, from, ld,
                            o->t.p + ckci_offset(o->t.stride, at) * (int64_t)ckci_size(o->t.dtype),
                            o->t.stride[5]);
        } else if (!along_x) {
            kind->write(o, at, 2, cols, from);
        }
        for (int64_t j = 0; along_x && !how && j < cols; j++) {
            at[2] = j0 + j;
            ckci_collect(kind, buffer, from + j * kind->size, ld, n);
            kind->write(o, at, 5, n, buffer);
        }
        r += n;
        q[3] += n - 1;
        ckci_next_place(axis, q);
    }
}


/*------------------------------------------------------------------------------------------------------------
  >>c-patch
  The input that a block of outputs touches, gathered once for all taps.
*/

/* How the positions of one dimension that `count` outputs touch are laid out: shared (a dense range, `planes`
   interleaved residues of the stride), or one separate plane for each tap where a range would mostly hold
   unused positions. */
typedef struct ckci_window {
    int64_t count, taps, planes, width; /* planes x width positions are stored */
    int64_t first, step, tap;           /* of tap 0: read position of output 0, per output, per tap */
    int64_t low;                        /* lowest read position */
    int separate;
} ckci_window;

CKCI_FN ckci_window ckci_make_window(const ckci_axis *a, int64_t q0, int64_t count)
{
    ckci_window w;
    int64_t reach = (a->taps - 1) * (a->read_tap < 0 ? -a->read_tap : a->read_tap);
    w.count = count;
    w.taps = a->taps;
    w.step = a->read_step;
    w.tap = a->read_tap;
    w.first = q0 * a->read_step + a->read0;
    w.low = w.first - (a->read_tap < 0 ? reach : 0);
    w.planes = a->read_step;
    w.width = count + reach / a->read_step;
    w.separate = w.planes > a->taps || w.width > a->taps * count / w.planes;
    if (w.separate) {
        w.planes = a->taps;
        w.width = count;
    }
    return w;
}

/* Read position of entry i of a plane, and the place (plane, entry) of output 0 for tap j. */
CKCI_INLINE int64_t ckci_window_position(const ckci_window *w, int64_t plane, int64_t i)
{
    return w->separate ? w->first + i * w->step + plane * w->tap : w->low + i * w->step + plane;
}

CKCI_INLINE int64_t ckci_window_tap(const ckci_window *w, int64_t j)
{
    if (w->separate) {
        return j * w->width;
    }
    int64_t relative = w->first + j * w->tap - w->low;
    return relative % w->step * w->width + relative / w->step;
}

/* A plane that no tap uses need not be filled. */
CKCI_FN int ckci_window_used(const ckci_window *w, int64_t plane)
{
    for (int64_t j = 0; j < w->taps && !w->separate; j++) {
        if (ckci_window_tap(w, j) / w->width == plane) {
            return 1;
        }
    }
    return w->separate;
}

/* Tap j - *apart of output i + *later, a multiple of the stride further, reads what tap j of output i reads;
   with negative taps it is tap j + *apart. Separate planes share nothing. */
CKCI_FN void ckci_window_repeat(const ckci_window *w, int64_t *apart, int64_t *later)
{
    int64_t tap = w->tap < 0 ? -w->tap : w->tap, a = tap, b = w->step;
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    *apart = w->step / a;
    *later = w->separate ? CKCI_MAX_BYTES : tap / a;
}

/* Positions that the windows of yb x xb outputs hold, of the phase that needs most. chunk: filter rows (z, y)
   gathered together; 0: all of them. */
CKCI_FN int64_t ckci_window_entries(const ckci_view *v, int64_t yb, int64_t xb, int64_t chunk)
{
    int64_t most[3];
    for (int d = 0; d < 3; d++) {
        most[d] = 0;
        for (int64_t i = 0; i < v->phases[d]; i++) {
            ckci_axis a = ckci_map_axis(v->p, d, i);
            if (d == 0 || a.taps == 0) {
                most[d] = ckci_max(most[d], chunk ? ckci_min(a.taps, 1) : a.taps);
                continue;
            }
            if (d == 1 && chunk) {
                a.taps = ckci_min(a.taps, chunk);
            }
            ckci_window w = ckci_make_window(&a, 0, d == 1 ? yb : xb);
            most[d] = ckci_max(most[d], w.planes * w.width);
        }
    }
    return ckci_saturating_mul(ckci_saturating_mul(most[0], most[1]), most[2]);
}

/* Filter row `row` of a phase alone. */
CKCI_FN void ckci_filter_row(ckci_axis axis[3], int64_t row)
{
    int64_t jz = row / axis[1].taps, jy = row % axis[1].taps;
    axis[0].taps = axis[1].taps = 1;
    axis[0].tap0 += jz * axis[0].tap_step;
    axis[0].read0 += jz * axis[0].read_tap;
    axis[1].tap0 += jy * axis[1].tap_step;
    axis[1].read0 += jy * axis[1].read_tap;
}

/* The input that a block of outputs touches, channels [c0, c0 + cb) of one group, gathered once for all taps:
   [filter plane z][y][x][channel], padding as zeros. Neighbouring outputs are `step` elements apart. Where a
   filter row's taps are neighbours in memory and channels are few, positions keep their order and a filter
   row is one segment of the reduction (joined); else each tap is one. */
typedef struct ckci_patch {
    ckci_window y, x;
    int joined;
    int64_t cb, row, plane, image; /* elements per position, row of x, plane z, batch entry */
    int64_t step, segments, len;
} ckci_patch;

CKCI_FN int ckci_joins(const ckci_view *v, const ckci_axis *ax)
{
    return v->red < v->k->lanes && ax->read_tap == 1 && ax->read_step <= ax->taps && ax->taps > 1;
}

CKCI_FN ckci_patch ckci_make_patch(const ckci_axis axis[3], const int64_t q[3], int64_t yb, int64_t xb,
                                   int64_t cb, int joined)
{
    ckci_patch p;
    p.y = ckci_make_window(&axis[1], q[1], yb);
    p.x = ckci_make_window(&axis[2], q[2], xb);
    p.joined = joined;
    if (p.joined) {
        p.x.planes = p.x.step = 1;
        p.x.separate = 0;
        p.x.width = (xb - 1) * axis[2].read_step + axis[2].taps;
    }
    p.cb = cb;
    p.row = p.x.planes * p.x.width * cb;
    p.plane = p.y.planes * p.y.width * p.row;
    p.image = axis[0].taps * p.plane;
    p.step = p.joined ? axis[2].read_step * cb : cb;
    p.segments = axis[0].taps * axis[1].taps * (p.joined ? 1 : axis[2].taps);
    p.len = p.joined ? axis[2].taps * cb : cb;
    return p;
}

/* Where each segment begins for output (0, 0). */
CKCI_FN void ckci_patch_segments(const ckci_patch *p, const ckci_axis axis[3], int32_t *offset)
{
    int64_t across = p->joined ? 1 : axis[2].taps;
    for (int64_t jz = 0; jz < axis[0].taps; jz++) {
        for (int64_t jy = 0; jy < axis[1].taps; jy++) {
            int64_t row = jz * p->plane + ckci_window_tap(&p->y, jy) * p->row;
            for (int64_t jx = 0; jx < across; jx++) {
                *offset++ = (int32_t)(row + ckci_window_tap(&p->x, jx) * p->cb);
            }
        }
    }
}

/* One row of x of a patch; row: its first element in the tensor. */
CKCI_FN void ckci_pack_patch_row(const ckci_view *v, const ckci_patch *p, const ckci_axis *ax, int64_t row,
                                 unsigned char *dst)
{
    double buffer[128];
    const ckci_tensor *t = v->read;
    const ckci_window *w = &p->x;
    int64_t size = v->kind->size, cb = p->cb, channel = cb > 1 ? t->stride[2] : 1;
    int64_t step = w->step * t->stride[5];
    ckci_copy_kernel widen = ckci_widener(v, t);
    int bare =
        t->plain && t->dtype == v->kind->dtype && channel == 1 && (uintptr_t)t->p % (uintptr_t)size == 0;
    for (int64_t plane = 0; plane < w->planes; plane++, dst += w->width * cb * size) {
        int64_t from, to, x0 = ckci_window_position(w, plane, 0);
        if (w->planes > 1 && !ckci_window_used(w, plane)) {
            continue;
        }
        ckci_inside(x0, w->step, w->width, ax->read_len, &from, &to);
        ckci_clear(v->kind, dst, from * cb);
        ckci_clear(v->kind, dst + to * cb * size, (w->width - to) * cb);
        int64_t at = row + x0 * t->stride[5];
        if (to == from) {
            continue;
        }
        if (bare && step == cb) {
            memcpy(dst + from * cb * size, t->p + (at + from * step) * size,
                   (size_t)((to - from) * cb * size));
        } else if (bare) {
            v->k->copy(to - from, cb, t->p + (at + from * step) * size, step, dst + from * cb * size, cb);
        } else if (channel == 1 && widen) {
            widen(to - from, cb, t->p + (at + from * step) * 2, step, dst + from * cb * size, cb);
        } else if (t->stride[5] < channel && to - from > 1) {
            for (int64_t c = 0; c < cb; c++) {
                for (int64_t i = from; i < to; i += 128) {
                    int64_t n = ckci_min(to - i, 128);
                    v->kind->read(t, at + c * channel + i * step, step, n, buffer);
                    ckci_scatter(v->kind, dst + (i * cb + c) * size, cb, buffer, n);
                }
            }
        } else {
            for (int64_t i = from; i < to; i++) {
                v->kind->read(t, at + i * step, channel, cb, dst + i * cb * size);
            }
        }
    }
}

/* The patch of batch entry n for outputs of plane qz, channels from c0 on. */
CKCI_FN void ckci_pack_patch(const ckci_view *v, const ckci_patch *p, const ckci_axis axis[3], int64_t group,
                             int64_t n, int64_t qz, int64_t c0, unsigned char *dst)
{
    const ckci_tensor *t = v->read;
    int64_t size = v->kind->size;
    for (int64_t jz = 0; jz < axis[0].taps; jz++) {
        int64_t z = qz * axis[0].read_step + axis[0].read0 + jz * axis[0].read_tap;
        for (int64_t s = 0; s < p->y.planes * p->y.width; s++, dst += p->row * size) {
            int64_t y = ckci_window_position(&p->y, s / p->y.width, s % p->y.width);
            if (p->y.planes > 1 && !ckci_window_used(&p->y, s / p->y.width)) {
                continue;
            }
            if (z < 0 || z >= axis[0].read_len || y < 0 || y >= axis[1].read_len) {
                ckci_clear(v->kind, dst, p->row);
                continue;
            }
            int64_t row = group * t->stride[0] + n * t->stride[1] + c0 * t->stride[2] + z * t->stride[3] +
                          y * t->stride[4];
            ckci_pack_patch_row(v, p, &axis[2], row, dst);
        }
    }
}

/* A patch of twins: output planes 2 * twin and 2 * twin + 1 of all (n, z); past the last one zeros. */
CKCI_FN void ckci_zip_patch(const ckci_view *v, const ckci_patch *p, const ckci_axis axis[3], int64_t group,
                            int64_t twin, int64_t c0, unsigned char *dst)
{
    const ckci_tensor *t = v->read;
    const ckci_window *w = &p->x;
    int64_t cb = p->cb, step = w->step * t->stride[5];
    for (int64_t jz = 0; jz < axis[0].taps; jz++) {
        for (int64_t s = 0; s < p->y.planes * p->y.width; s++, dst += p->row * 4) {
            int64_t y = ckci_window_position(&p->y, s / p->y.width, s % p->y.width);
            if (p->y.planes > 1 && !ckci_window_used(&p->y, s / p->y.width)) {
                continue;
            }
            const unsigned char *row[2];
            for (int i = 0; i < 2; i++) {
                int64_t n = (2 * twin + i) / axis[0].count, qz = (2 * twin + i) % axis[0].count;
                int64_t z = qz * axis[0].read_step + axis[0].read0 + jz * axis[0].read_tap;
                int inside = n < v->p->n && z >= 0 && z < axis[0].read_len && y >= 0 && y < axis[1].read_len;
                row[i] = inside ? t->p + (group * t->stride[0] + n * t->stride[1] + c0 * t->stride[2] +
                                          z * t->stride[3] + y * t->stride[4]) *
                                             2
                                : NULL;
            }
            for (int64_t plane = 0; plane < w->planes; plane++) {
                int64_t from, to, x0 = ckci_window_position(w, plane, 0);
                unsigned char *out = dst + plane * w->width * cb * 4;
                if (w->planes > 1 && !ckci_window_used(w, plane)) {
                    continue;
                }
                ckci_inside(x0, w->step, w->width, axis[2].read_len, &from, &to);
                int64_t at = (x0 + from * w->step) * t->stride[5] * 2, n = to - from;
                ckci_clear(v->kind, out, from * cb);
                ckci_clear(v->kind, out + to * cb * 4, (w->width - to) * cb);
                if (n > 0) {
                    v->k->zip(step == cb ? 1 : n, step == cb ? n * cb : cb, row[0] ? row[0] + at : NULL,
                              row[1] ? row[1] + at : NULL, step, out + from * cb * 4, cb);
                }
            }
        }
    }
}


/*------------------------------------------------------------------------------------------------------------
  >>c-gather
  fwd and bwd_data as implicit GEMM: an item owns a block of outputs of one group and phase.
*/

/* Block sizes of a GEMM pass and the memory that they need. */
typedef struct ckci_tiles {
    int64_t mc, kc, nc, ldc; /* rows, reduction and columns of a block; row length of its sums */
    int64_t blocks_m, blocks_n, items;
    int64_t packed;         /* bytes of packed weights, shared by all threads; 0: packed by each item */
    int64_t scratch;        /* bytes per thread; at most CKCI_STACK when there is no workspace */
    int64_t split, partial; /* bwd_weight: parts of the reduction, bytes of one part's sums */
    int64_t totals;         /* bytes of a block's totals in scratch; 0: its reduction is short */
    int64_t bytes;          /* workspace */
    int32_t threads;
    /* A block of outputs whose input is gathered as a patch (0 entries: as im2col rows): nb batch entries x
       yb x xb outputs of a plane z, channels in blocks of cb; a run is `run` outputs of a row */
    int64_t entries, cb, nb, yb, xb, run, blocks_b, blocks_y, blocks_x, table;
    int chunk, height, groups_first, joined;
} ckci_tiles;

/* Whole cache lines; 2^62 stays 2^62. */
CKCI_FN int64_t ckci_line_up(int64_t bytes)
{
    return ckci_min(ckci_round_up(bytes, 64), CKCI_MAX_BYTES);
}

/* As many threads as have scratch within the limit; one at least fits when this is asked. Block sizes that
   results depend on are chosen before, for one thread, so that they do not depend on how many there are. */
CKCI_FN int32_t ckci_threads_within(int64_t limit, int64_t shared, int64_t scratch, int32_t threads)
{
    int64_t most = limit >= CKCI_MAX_BYTES ? threads : (limit - shared) / ckci_max(scratch, 1);
    return (int32_t)ckci_max(ckci_min(most, threads), 1);
}

/* What `threads` scratch areas and shared bytes take together. */
CKCI_FN int64_t ckci_total(int64_t shared, int64_t scratch, int32_t threads)
{
    return ckci_saturating_add(shared, ckci_saturating_mul(scratch, threads));
}

/* The error of a long sum does not grow with its length. A kernel adds some hundred products one after the
   other, such sums are added up over a few thousand products, and what is above that loses nothing: totals
   are doubles; those of f64 are pairs, a sum and what its additions lost. int32 is exact anyway. */
enum {
    CKCI_NEXT = 4096,  /* positions before sums are added to totals, about */
    CKCI_LONG = 16384, /* channels x taps of fwd and bwd_data before that */
    CKCI_CHAIN = 512   /* positions of a kernel, if a row is not longer */
};

/* Bytes of the totals of n sums */
CKCI_INLINE int64_t ckci_total_bytes(const ckci_kind *kind, int64_t n)
{
    return kind->dtype == CKCONV_I32 ? 0 : ckci_line_up(ckci_saturating_mul(n, 2 * kind->size));
}

/* Adds n sums to totals, or begins these. */
CKCI_FN void ckci_add_totals(const ckci_kind *kind, void *totals, const void *sums, int64_t n, int begin)
{
    double *t = (double *)totals;
    if (begin) {
        memset(totals, 0, (size_t)(n * 2 * kind->size));
    }
    if (kind->dtype == CKCONV_F32) {
        const float *s = (const float *)sums;
        for (int64_t i = 0; i < n; i++) {
            t[i] += (double)s[i];
        }
    } else {
        const double *s = (const double *)sums;
        for (int64_t i = 0; i < n; i++) {
            double sum = t[i] + s[i], rest = sum - t[i];
            t[n + i] += (t[i] - (sum - rest)) + (s[i] - rest);
            t[i] = sum;
        }
    }
}

/* Totals become n sums. */
CKCI_FN void ckci_end_totals(const ckci_kind *kind, const void *totals, void *sums, int64_t n)
{
    const double *t = (const double *)totals;
    if (kind->dtype == CKCONV_F32) {
        float *s = (float *)sums;
        for (int64_t i = 0; i < n; i++) {
            s[i] = (float)t[i];
        }
    } else {
        double *s = (double *)sums;
        for (int64_t i = 0; i < n; i++) {
            /* an infinite sum has lost NaN */
            s[i] = t[n + i] - t[n + i] == 0 ? t[i] + t[n + i] : t[i];
        }
    }
}

/* Adds the other parts of n sums to the first one, in order; parts are `step` bytes apart. int32 modulo
   2^32. */
CKCI_FN void ckci_add_parts(const ckci_kind *kind, unsigned char *sums, int64_t step, int64_t parts,
                            int64_t n)
{
    double totals[2 * CKCI_SPAN];
    for (int64_t i = 0, some; i < n && parts > 1; i += some) {
        unsigned char *first = sums + i * kind->size;
        some = ckci_min(n - i, CKCI_SPAN);
        if (kind->dtype == CKCONV_I32) {
            uint32_t *d = (uint32_t *)(void *)first;
            for (int64_t part = 1; part < parts; part++) {
                const uint32_t *s = (const uint32_t *)(const void *)(first + part * step);
                for (int64_t j = 0; j < some; j++) {
                    d[j] += s[j];
                }
            }
            continue;
        }
        for (int64_t part = 0; part < parts; part++) {
            ckci_add_totals(kind, totals, first + part * step, some, part == 0);
        }
        ckci_end_totals(kind, totals, first, some);
    }
}

/* Columns padded to whole panels: two vectors wide, the last one a single vector where that is enough. */
CKCI_FN int64_t ckci_panels(const ckci_kernels *k, int64_t cols)
{
    int64_t rest = cols % (2 * k->lanes);
    return cols - rest + (rest == 0 ? 0 : rest <= k->lanes ? k->lanes : 2 * k->lanes);
}

CKCI_INLINE int64_t ckci_panel_width(const ckci_kernels *k, int64_t rest)
{
    return rest <= k->lanes ? k->lanes : 2 * k->lanes;
}

/* Rows of the largest phase. */
CKCI_FN int64_t ckci_most_rows(const ckci_view *v)
{
    ckci_axis axis[3];
    ckci_phase(v, 0, axis);
    return v->p->n * axis[0].count * axis[1].count * axis[2].count;
}

/* The run length that wastes least of a row of `count` outputs, a longer one where it is close. */
CKCI_FN int ckci_best_run(const ckci_kernels *k, int64_t count)
{
    int best = 0;
    double least = 0;
    for (int i = 0; i < 3; i++) {
        double waste = (double)ckci_round_up(count, k->run[i]) * (1 + 0.02 * (k->run[0] - k->run[i]));
        if (i == 0 || waste < least) {
            best = i;
            least = waste;
        }
    }
    return best;
}

enum {
    CKCI_RUNS = 64,                /* most runs of a block */
    CKCI_BLOCK_ROWS = 256,         /* outputs of a block, about */
    CKCI_PATCH_BYTES = 384 * 1024, /* a patch, within a core's L2 */
    CKCI_PATCH_MOST = 16 << 20     /* larger than that: im2col rows */
};

/* Are all sizes such that those of a patch are far from overflow? */
CKCI_FN int ckci_patch_sane(const ckci_view *v, const ckci_axis axis[3])
{
    const int64_t most = (int64_t)1 << 40;
    int sane = v->red <= most && v->p->n <= most && v->p->g <= most;
    for (int i = 0; i < 3; i++) {
        sane = sane && v->p->stride[i] <= 1 << 16 && v->p->dilation[i] <= 1 << 16 &&
               v->p->filter[i] <= 1 << 16 && axis[i].count <= most;
    }
    return sane;
}

/* A patch per block: sizes of the block. 0 where im2col rows are better. */
CKCI_FN int ckci_patch_tiles(const ckci_view *v, int32_t threads, ckci_tiles *t)
{
    ckci_axis axis[3];
    ckci_phase(v, 0, axis);
    if (!ckci_patch_sane(v, axis)) {
        return 0;
    }
    int64_t z = axis[0].count, y = ckci_max(axis[1].count, 1), x = ckci_max(axis[2].count, 1);
    int64_t size = v->kind->size, n = ckci_max(v->p->n, 1);
    int64_t others = v->phases[0] * v->phases[1] * v->phases[2] * v->p->g * t->blocks_n;
    t->height = ckci_best_run(v->k, x);
    t->run = v->k->run[t->height];
    if (ckci_round_up(x, t->run) * 4 > x * 5) {
        return 0;
    }
    t->cb = ckci_min(v->red, CKCI_KC);
    t->nb = 1;
    t->yb = y;
    t->xb = x;
    for (t->chunk = 0; t->chunk < 2; t->chunk++) {
        for (;;) {
            int64_t runs = ckci_ceil_div(t->xb, t->run);
            t->entries = ckci_window_entries(v, t->yb, t->xb, t->chunk);
            int64_t bytes = ckci_saturating_mul(t->entries, t->cb * size);
            if ((bytes <= CKCI_PATCH_BYTES && t->yb * t->xb <= CKCI_BLOCK_ROWS &&
                 runs * t->yb <= CKCI_RUNS) ||
                (t->yb == 1 && t->xb <= 2 * t->run)) {
                break;
            }
            if (t->yb > 1) {
                t->yb = ckci_ceil_div(t->yb, 2);
            } else {
                t->xb = ckci_round_up(ckci_ceil_div(t->xb, 2), t->run);
            }
        }
        if (ckci_saturating_mul(t->entries, t->cb * size) <= 3 * CKCI_PATCH_BYTES) {
            break;
        }
    }
    t->chunk = t->chunk > 0;
    /* even shares, and enough items */
    int64_t all = others * n * z * ckci_ceil_div(x, t->xb);
    while (t->yb > 1 && t->yb * t->xb > 56 && all * ckci_ceil_div(y, t->yb) < 6 * threads) {
        t->yb = ckci_ceil_div(t->yb, 2);
    }
    t->yb = ckci_ceil_div(y, ckci_ceil_div(y, t->yb));
    int64_t runs = ckci_ceil_div(t->xb, t->run) * t->yb;
    while (t->yb == y && t->xb == x && t->nb < n && (t->nb + 1) * y * x <= CKCI_BLOCK_ROWS &&
           (t->nb + 1) * runs <= CKCI_RUNS && (t->nb + 1) * t->entries * t->cb * size <= CKCI_PATCH_BYTES &&
           others * z * ckci_ceil_div(n, t->nb + 1) >= (t->packed > 4 << 20 ? 2 : 6) * threads) {
        t->nb++;
    }
    t->entries = ckci_window_entries(v, t->yb, t->xb, t->chunk) * t->nb;
    t->blocks_b = ckci_ceil_div(n, t->nb);
    t->blocks_y = ckci_ceil_div(y, t->yb);
    t->blocks_x = ckci_ceil_div(x, t->xb);
    t->mc = t->nb * t->yb * t->xb;
    t->table = ckci_line_up(ckci_saturating_mul(v->taps, 4));
    return ckci_saturating_mul(t->entries, t->cb * size) <= CKCI_PATCH_MOST && v->taps < 1 << 20;
}

/* fwd and bwd_data. limit 0: everything on the stack. patches: 1 or 0 to insist on them or on im2col rows, -1
   for the better ones; both read the same packed weights. */
CKCI_FN ckci_tiles ckci_gather_tiles(const ckci_view *v, int32_t threads, int64_t limit, int patches)
{
    ckci_tiles t;
    memset(&t, 0, sizeof t);
    int64_t rows = ckci_most_rows(v), mr = 2 * v->k->run[0], nr = 2 * v->k->lanes, size = v->kind->size;
    int64_t padded = ckci_panels(v->k, v->cols);
    int64_t others = v->phases[0] * v->phases[1] * v->phases[2] * v->p->g;
    int deep = ckci_saturating_mul(v->taps, v->red) > 2 * CKCI_LONG;
    t.kc = CKCI_KC;
    t.nc = t.ldc = ckci_min(ckci_round_up(v->cols, nr), 256);
    t.blocks_n = ckci_ceil_div(v->cols, t.nc);
    t.packed =
        ckci_line_up(ckci_saturating_mul(ckci_saturating_mul(v->p->g * v->taps * v->red, padded), size));
    t.groups_first = t.packed / ckci_max(v->p->g, 1) <= 128 * 1024;
    t.threads = threads;
    /* whether patches fit decides the order of the sums: it is asked for the blocks of one thread, the
       largest */
    int patch = patches != 0;
    for (int32_t i = 0; i < 2 && patch; i++) {
        patch = ckci_patch_tiles(v, i ? threads : 1, &t);
        /* a run may reach past its row by all but one position */
        int64_t past = ckci_saturating_mul(t.run * t.cb, ckci_max(v->p->stride[2], 1));
        int64_t entries = ckci_saturating_add(ckci_saturating_mul(t.entries, t.cb), past);
        t.totals = deep ? ckci_total_bytes(v->kind, t.mc * t.ldc) : 0;
        t.scratch = ckci_total(ckci_line_up(ckci_saturating_mul(entries, size)),
                               ckci_line_up(t.mc * t.ldc * size) + t.totals + t.table, 1);
        patch = patch && t.entries > 0 && ckci_total(t.packed, t.scratch, 1) <= limit;
    }
    if (!patch) {
        t.entries = 0;
        t.cb = ckci_min(v->red, CKCI_KC);
        t.mc = ckci_min(ckci_round_up(112, mr), ckci_max(ckci_round_up(rows, mr), mr));
        t.totals = deep ? ckci_total_bytes(v->kind, t.mc * t.ldc) : 0;
        t.scratch =
            ckci_line_up(t.mc * CKCI_LDA * size) + ckci_line_up(t.mc * t.ldc * size) + t.totals;
        while (t.mc > 2 * mr && others * t.blocks_n * ckci_ceil_div(rows, t.mc) < 6 * threads) {
            t.mc -= mr;
        }
        t.blocks_m = ckci_max(ckci_ceil_div(rows, t.mc), 1);
    } else {
        ckci_axis axis[3];
        ckci_phase(v, 0, axis);
        t.blocks_m = v->p->n == 0 ? 0 : t.blocks_b * axis[0].count * t.blocks_y * t.blocks_x;
    }
    if (ckci_total(t.packed, t.scratch, 1) <= limit) {
        t.threads = ckci_threads_within(limit, t.packed, t.scratch, threads);
        t.bytes = ckci_total(t.packed, t.scratch, t.threads);
    } else {
        t.kc = deep ? CKCI_KC / 4 : CKCI_KC / 2; /* totals take room */
        t.nc = t.ldc = ckci_min(ckci_round_up(v->cols, nr), 64);
        t.mc = ckci_round_up(CKCI_LINE, mr);
        t.blocks_n = ckci_ceil_div(v->cols, t.nc);
        t.packed = t.bytes = 0;
        t.totals = deep ? ckci_total_bytes(v->kind, t.mc * t.ldc) : 0;
        t.scratch = t.mc * (CKCI_LDA + t.ldc) * size + t.totals + t.kc * nr * size;
        t.blocks_m = ckci_max(ckci_ceil_div(rows, t.mc), 1);
    }
    t.items = rows == 0 ? 0 : ckci_saturating_mul(ckci_saturating_mul(others, t.blocks_n), t.blocks_m);
    return t;
}

typedef struct ckci_gather_job {
    ckci_view v;
    ckci_tiles t;
    ckci_target target;
    unsigned char *packed;
} ckci_gather_job;

/* Where a phase's packed weights begin, in elements per (group, padded column): those of all earlier phases
   come first, and a phase has taps_z * taps_y * taps_x of them. */
CKCI_FN int64_t ckci_taps_before(const ckci_view *v, int64_t phase)
{
    int64_t index[3], before[3], here[3], all[3];
    index[2] = phase % v->phases[2];
    index[1] = phase / v->phases[2] % v->phases[1];
    index[0] = phase / v->phases[2] / v->phases[1];
    for (int i = 0; i < 3; i++) {
        before[i] = here[i] = all[i] = 0;
        for (int64_t tap = 0; tap < v->p->filter[i]; tap++) {
            /* the phase that this tap belongs to; one past the input has no positions */
            int64_t own = ckci_mod(tap * v->p->dilation[i] - v->p->pad[i], v->p->stride[i]);
            all[i] += own < v->phases[i];
            before[i] += own < index[i];
            here[i] += own == index[i];
        }
    }
    return before[0] * all[1] * all[2] + here[0] * (before[1] * all[2] + here[1] * before[2]);
}

/* Start of the panel at column j0. A panel holds [channel block][tap][channel][column]. */
CKCI_FN unsigned char *ckci_panel(const ckci_gather_job *job, int64_t group, int64_t phase, int64_t taps,
                                  int64_t j0)
{
    const ckci_view *v = &job->v;
    int64_t padded = ckci_panels(v->k, v->cols);
    int64_t before = v->phases[0] * v->phases[1] * v->phases[2] == 1 ? 0 : ckci_taps_before(v, phase);
    return job->packed + ((group * v->taps + before) * padded + taps * j0) * v->red * v->kind->size;
}

/* One item packs one panel of one group and phase. */
CKCI_FN void ckci_pack_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_gather_job *job = (const ckci_gather_job *)context;
    const ckci_view *v = &job->v;
    ckci_axis axis[3];
    int64_t nr = 2 * v->k->lanes, panels = ckci_ceil_div(v->cols, nr), j0 = item % panels * nr;
    int64_t phases = v->phases[0] * v->phases[1] * v->phases[2];
    int64_t phase = item / panels % phases, group = item / panels / phases;
    (void)scratch;
    ckci_phase(v, phase, axis);
    int64_t taps = axis[0].taps * axis[1].taps * axis[2].taps;
    if (taps > 0) {
        int64_t width = ckci_panel_width(v->k, v->cols - j0);
        unsigned char *dst = ckci_panel(job, group, phase, taps, j0);
        for (int64_t c0 = 0; c0 < v->red; c0 += job->t.cb) {
            int64_t n = ckci_min(job->t.cb, v->red - c0);
            for (int64_t tap = 0; tap < taps; tap++, dst += n * width * v->kind->size) {
                ckci_pack_weights(v, axis, group, j0, width, tap * v->red + c0, tap * v->red + c0 + n, dst);
            }
        }
    }
}

/* What an item owns: columns n0.. of mc rows from m0 on (im2col rows), or of `images` batch entries from n on
   x yb x xb outputs from q = (z, y, x) on. */
typedef struct ckci_block {
    ckci_axis axis[3];
    int64_t phase, group, n0, cols, taps;
    int64_t m0, rows;
    int64_t n, images, q[3], yb, xb;
} ckci_block;

/* 0: nothing to do. */
CKCI_FN int ckci_find_block(const ckci_gather_job *job, int64_t item, ckci_block *b)
{
    const ckci_view *v = &job->v;
    const ckci_tiles *t = &job->t;
    int64_t m, g = v->p->g;
    if (t->groups_first) {
        b->group = item % g;
        item /= g;
    }
    b->n0 = item % t->blocks_n * t->nc;
    item /= t->blocks_n;
    m = item % t->blocks_m;
    item /= t->blocks_m;
    if (!t->groups_first) {
        b->group = item % g;
        item /= g;
    }
    b->phase = item;
    ckci_phase(v, b->phase, b->axis);
    b->cols = ckci_min(t->nc, v->cols - b->n0);
    b->taps = b->axis[0].taps * b->axis[1].taps * b->axis[2].taps;
    if (!t->entries) {
        b->m0 = m * t->mc;
        b->rows = ckci_min(t->mc, v->p->n * b->axis[0].count * b->axis[1].count * b->axis[2].count - b->m0);
        return b->rows > 0;
    }
    b->q[2] = m % t->blocks_x * t->xb;
    m /= t->blocks_x;
    b->q[1] = m % t->blocks_y * t->yb;
    m /= t->blocks_y;
    b->n = m % t->blocks_b * t->nb;
    b->q[0] = m / t->blocks_b;
    b->images = ckci_min(t->nb, v->p->n - b->n);
    b->yb = ckci_min(t->yb, b->axis[1].count - b->q[1]);
    b->xb = ckci_min(t->xb, b->axis[2].count - b->q[2]);
    return b->q[0] < b->axis[0].count && b->yb > 0 && b->xb > 0;
}

/* A tile whose runs hold valid[0] and valid[1] positions, of `cols` columns: whole ones in place, others
   through a copy. */
CKCI_FN void ckci_run_tile(ckci_tile_kernel kernel, const ckci_tile *whole, int64_t run, int64_t width,
                           const int64_t valid[2], int64_t cols, int64_t size)
{
    double buffer[2 * 7 * 2 * 8]; /* 14 rows of two vectors */
    if (valid[0] == run && valid[1] == run && cols == width) {
        kernel(whole);
        return;
    }
    ckci_tile t = *whole;
    t.ldc = width;
    for (int i = 0; i < 2; i++) {
        unsigned char *c = (unsigned char *)whole->c[i],
                      *own = (unsigned char *)buffer + i * run * width * size;
        t.c[i] = own;
        for (int64_t r = 0; r < valid[i] && whole->add; r++) {
            memcpy(own + r * width * size, c + r * whole->ldc * size, (size_t)(cols * size));
        }
    }
    kernel(&t);
    for (int i = 0; i < 2; i++) {
        unsigned char *c = (unsigned char *)whole->c[i], *own = (unsigned char *)t.c[i];
        for (int64_t r = 0; r < valid[i]; r++) {
            memcpy(c + r * whole->ldc * size, own + r * width * size, (size_t)(cols * size));
        }
    }
}

/* How far the reduction of a block of outputs is: `since` products are in its sums, others in totals, if
   these have begun. */
typedef struct ckci_progress {
    unsigned char *totals; /* NULL: a short reduction */
    int64_t since;
    int begun;
} ckci_progress;

/* After `len` more products in n sums; the last call makes them whole. */
CKCI_FN void ckci_gather_next(const ckci_kind *kind, ckci_progress *r, int64_t len, int last,
                              unsigned char *sums, int64_t n)
{
    r->since += len;
    if (r->totals && (r->since >= CKCI_LONG || (last && r->begun && r->since > 0))) {
        ckci_add_totals(kind, r->totals, sums, n, !r->begun);
        r->begun = 1;
        r->since = 0;
    }
    if (last && r->begun) {
        ckci_end_totals(kind, r->totals, sums, n);
    }
}

/* Where a block's sums go: the written tensor itself if it takes them as they are, else scratch. Steps in
   elements. */
typedef struct ckci_sums {
    unsigned char *p;
    int64_t image, row, step;
    int direct;
} ckci_sums;

CKCI_FN ckci_sums ckci_place_sums(const ckci_view *v, const ckci_tiles *t, const ckci_target *o,
                                  const ckci_block *b, unsigned char *scratch)
{
    ckci_sums s;
    const int64_t *stride = o->t.stride;
    int64_t size = v->kind->size;
    s.direct = !t->totals && o->t.op.kind == CKCONV_PASS && !o->scale && !o->shift && !o->compute &&
               o->t.dtype == v->kind->dtype && (stride[2] == 1 || v->cols == 1) && b->taps > 0 &&
               (uintptr_t)o->t.p % (uintptr_t)size == 0;
    s.p = scratch;
    s.step = t->ldc;
    s.row = b->xb * t->ldc;
    s.image = b->yb * s.row;
    if (s.direct) {
        s.step = stride[5];
        s.row = stride[4];
        s.image = stride[1];
        s.p = o->t.p + (b->group * stride[0] + b->n * stride[1] + b->n0 * stride[2] + b->q[0] * stride[3] +
                        b->q[1] * stride[4] + b->q[2] * stride[5]) *
                           size;
    }
    return s;
}

/* Sums of all columns of a block over the segments of one patch, whose weights begin k0 into the panels. add:
   to those that there are. */
CKCI_FN void ckci_multiply_patch(const ckci_gather_job *job, const ckci_block *b, const ckci_patch *p,
                                 const int32_t *offset, const ckci_sums *sums, int64_t k0, int add,
                                 const unsigned char *patch)
{
    const ckci_view *v = &job->v;
    const ckci_kernels *k = v->k;
    int64_t size = v->kind->size, run = job->t.run, across = ckci_ceil_div(b->xb, run);
    int64_t runs = b->images * b->yb * across, some = ckci_max(job->t.kc / p->len, 1), from[CKCI_RUNS],
            to[CKCI_RUNS], valid[CKCI_RUNS];
    ckci_tile t;
    for (int64_t i = 0; i < runs; i++) {
        int64_t x = i % across * run, y = i / across % b->yb, n = i / across / b->yb;
        from[i] = (n * p->image + y * p->row + x * p->step) * size;
        to[i] = (n * sums->image + y * sums->row + x * sums->step) * size;
        valid[i] = ckci_min(run, b->xb - x);
    }
    t.len = p->len;
    t.a_step = p->step;
    t.ldc = sums->step;
    for (int64_t j = 0; j < b->cols; j += 2 * k->lanes) {
        int64_t width = ckci_panel_width(k, v->cols - b->n0 - j), cols = ckci_min(width, b->cols - j);
        const unsigned char *panel =
            ckci_panel(job, b->group, b->phase, b->taps, b->n0 + j) + k0 * width * size;
        ckci_tile_kernel kernel = k->tile[job->t.height][width > k->lanes];
        for (int64_t s = 0; s < p->segments; s += some) {
            t.segments = ckci_min(some, p->segments - s);
            t.offset = offset + s;
            t.b = panel + s * p->len * width * size;
            t.add = add || s > 0;
            for (int64_t i = 0; i < runs; i += 2) {
                int64_t other = ckci_min(i + 1, runs - 1), two[2];
                two[0] = valid[i];
                two[1] = other > i ? valid[other] : 0;
                t.a[0] = patch + from[i];
                t.a[1] = patch + from[other];
                t.c[0] = sums->p + to[i] + j * size;
                t.c[1] = sums->p + to[other] + j * size;
                ckci_run_tile(kernel, &t, run, width, two, cols, size);
            }
        }
    }
}

/* An item with patches. The reduction runs over channel blocks, then filter rows. */
CKCI_FN void ckci_patch_item(const ckci_gather_job *job, const ckci_block *b, unsigned char *scratch)
{
    const ckci_view *v = &job->v;
    const ckci_tiles *t = &job->t;
    int64_t size = v->kind->size, k0 = 0, rows = b->axis[0].taps * b->axis[1].taps, row = 0;
    unsigned char *c = scratch, *totals = c + ckci_line_up(t->mc * t->ldc * size);
    unsigned char *patch = totals + t->totals + t->table;
    ckci_progress r = {t->totals ? totals : NULL, 0, 0};
    int32_t *offset = (int32_t *)(void *)(patch - t->table);
    ckci_tensor d[4];
    ckci_target o = ckci_phase_target(&job->target, b->axis, d);
    ckci_sums sums = ckci_place_sums(v, t, &o, b, c);
    if (b->taps == 0) {
        ckci_clear(v->kind, c, b->images * sums.image);
        rows = 0;
    }
    for (int64_t c0 = 0; c0 < v->red && rows > 0; c0 += t->cb) {
        for (row = 0; row < (t->chunk ? rows : 1); row++) {
            ckci_axis part[3];
            memcpy(part, b->axis, sizeof part);
            if (t->chunk) {
                ckci_filter_row(part, row);
            }
            /* a joined row of taps is one chain of additions */
            int joined = ckci_joins(v, &part[2]) && part[2].taps * v->red <= 4 * CKCI_KC;
            ckci_patch p =
                ckci_make_patch(part, b->q, b->yb, b->xb, ckci_min(t->cb, v->red - c0), joined);
            ckci_patch_segments(&p, part, offset);
            for (int64_t i = 0; i < b->images; i++) {
                ckci_pack_patch(v, &p, part, b->group, b->n + i, b->q[0], c0, patch + i * p.image * size);
            }
            int64_t all = p.segments, some = t->totals ? ckci_max(CKCI_LONG / p.len, 1) : all;
            for (int64_t s = 0; s < all; s += some) {
                p.segments = ckci_min(some, all - s);
                ckci_multiply_patch(job, b, &p, offset + s, &sums, k0, r.since > 0, patch);
                k0 += p.segments * p.len;
                ckci_gather_next(v->kind, &r, p.segments * p.len, 0, c, b->images * sums.image);
            }
        }
    }
    ckci_gather_next(v->kind, &r, 0, 1, c, b->images * sums.image);
    for (int64_t i = 0; i < b->images * b->yb && !sums.direct; i++) {
        int64_t q[4];
        q[0] = b->n + i / b->yb;
        q[1] = b->q[0];
        q[2] = b->q[1] + i % b->yb;
        q[3] = b->q[2];
        ckci_write_tile(v, &o, b->axis, b->group, q, b->xb, b->n0, b->cols, c + i * sums.row * size, t->ldc);
    }
}

/* Sums of im2col rows a over reduction [k0, k1) to c. add: to those that there are. own: room for a panel of
   weights where none are packed. */
CKCI_FN void ckci_multiply_rows(const ckci_gather_job *job, const ckci_block *b, int64_t k0, int64_t k1,
                                int add, const unsigned char *a, unsigned char *c, unsigned char *own)
{
    const ckci_view *v = &job->v;
    const ckci_tiles *t = &job->t;
    const ckci_kernels *k = v->k;
    const int32_t zero = 0;
    int64_t size = v->kind->size, run = k->run[0];
    ckci_tile tile;
    tile.segments = 1;
    tile.len = k1 - k0;
    tile.offset = &zero;
    tile.a_step = CKCI_LDA;
    tile.ldc = t->ldc;
    tile.add = add;
    for (int64_t j = 0; j < b->cols; j += 2 * k->lanes) {
        int64_t width = ckci_panel_width(k, v->cols - b->n0 - j);
        tile.b = own;
        if (own) {
            ckci_pack_weights(v, b->axis, b->group, b->n0 + j, width, k0, k1, own);
        } else {
            tile.b = ckci_panel(job, b->group, b->phase, b->taps, b->n0 + j) + k0 * width * size;
        }
        for (int64_t r = 0; r < b->rows; r += 2 * run) {
            for (int i = 0; i < 2; i++) {
                tile.a[i] = a + (r + i * run) * CKCI_LDA * size;
                tile.c[i] = c + ((r + i * run) * t->ldc + j) * size;
            }
            k->tile[0][width > k->lanes](&tile);
        }
    }
}

/* One item owns a block of outputs of one group and phase; the reduction runs in blocks, in order. */
CKCI_FN void ckci_gather_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_gather_job *job = (const ckci_gather_job *)context;
    const ckci_view *v = &job->v;
    const ckci_tiles *t = &job->t;
    int64_t size = v->kind->size, mr = 2 * v->k->run[0];
    ckci_block b;
    if (!ckci_find_block(job, item, &b)) {
        return;
    }
    if (t->entries) {
        ckci_patch_item(job, &b, scratch);
        return;
    }
    /* packed rows are whole cache lines, so that nothing is lost between the parts of the scratch */
    unsigned char *a = scratch, *c = a + t->mc * CKCI_LDA * size;
    unsigned char *totals = c + t->mc * t->ldc * size, *own = t->packed ? NULL : totals + t->totals;
    ckci_progress reached = {t->totals ? totals : NULL, 0, 0};
    int64_t all = b.taps * v->red, cb = t->packed ? t->cb : v->red, done = 0;
    if (all == 0) {
        ckci_clear(v->kind, c, b.rows * t->ldc);
    }
    /* channel blocks and, where there are several, taps one by one: the order of the packed weights */
    for (int64_t c0 = 0; c0 < v->red && all > 0; c0 += cb) {
        int64_t n = ckci_min(cb, v->red - c0), part = n == v->red ? all : n;
        for (int64_t first = c0; first < all; first += n == v->red ? all : v->red) {
            for (int64_t k0 = 0; k0 < part; k0 += t->kc) {
                int64_t len = ckci_min(part - k0, t->kc);
                ckci_pack_rows(v, b.axis, b.group, b.m0, b.rows, first + k0, first + k0 + len, a, CKCI_LDA);
                for (int64_t r = b.rows; r < ckci_round_up(b.rows, mr); r++) {
                    ckci_clear(v->kind, a + r * CKCI_LDA * size, len);
                }
                ckci_multiply_rows(job, &b, done, done + len, reached.since > 0, a, c, own);
                done += len;
                ckci_gather_next(v->kind, &reached, len, 0, c, b.rows * t->ldc);
            }
        }
    }
    ckci_gather_next(v->kind, &reached, 0, 1, c, b.rows * t->ldc);
    int64_t q[4];
    ckci_tensor d[4];
    ckci_target o = ckci_phase_target(&job->target, b.axis, d);
    ckci_place(b.axis, b.m0, q);
    ckci_write_tile(v, &o, b.axis, b.group, q, b.rows, b.n0, b.cols, c, t->ldc);
}

/* Cost in vector multiply-adds: the padded product, plus packing it. Of one thread's blocks, so that the
   choice of an instance does not depend on the threads. */
CKCI_FN double ckci_gather_cost(const ckci_view *v, int64_t limit)
{
    ckci_tiles one = ckci_gather_tiles(v, 1, limit, -1);
    const ckci_tiles *t = &one;
    double rows = (double)ckci_most_rows(v) * (double)(v->phases[0] * v->phases[1] * v->phases[2]);
    double reduction =
        (double)v->taps * (double)v->red / (double)(v->phases[0] * v->phases[1] * v->phases[2]);
    double columns = (double)ckci_panels(v->k, v->cols) / v->k->lanes;
    if (t->entries) {
        double wide = (double)(ckci_ceil_div(t->xb, t->run) * t->run) / (double)t->xb;
        double halo = (double)t->entries / (double)t->mc;
        double gather = halo * (4 + 2 * (double)v->red / v->k->lanes) * (double)t->blocks_n;
        return (double)v->p->g * rows * (reduction * columns * wide * 1.05 + gather + columns * 2) + 3000;
    }
    double run = 2 + 24 / (double)v->red; /* a copied run costs its length and a call */
    double pack = t->packed ? (double)t->blocks_n * run / v->k->lanes
                            : 8.0 * (double)t->blocks_n / v->k->lanes + columns;
    return (double)v->p->g * rows * (reduction * (columns * 1.15 + pack) + columns * 4) + 2000;
}

CKCI_FN void ckci_run_gather_job(ckci_gather_job *job, unsigned char *ws)
{
    const ckci_view *v = &job->v;
    int32_t threads = job->t.threads;
    unsigned char *scratch = job->t.bytes ? ws + job->t.packed : NULL;
    job->packed = ws;
    if (job->t.packed) {
        int64_t panels = ckci_ceil_div(v->cols, 2 * v->k->lanes);
        ckci_parallel(threads, v->p->g * v->phases[0] * v->phases[1] * v->phases[2] * panels, ckci_pack_item,
                      job, ws, 0);
    }
    ckci_parallel(threads, job->t.items, ckci_gather_item, job, scratch, job->t.scratch);
}

CKCI_FN ckconv_status ckci_fit_gather_view(ckci_fit *f, const ckci_view *v)
{
    ckci_tiles t = ckci_gather_tiles(v, f->plan->device.threads, f->limit, -1);
    f->plan->workspace_bytes = t.bytes;
    f->plan->block[0] = t.threads;
    f->plan->grid[0] = t.items;
    f->plan->launches = t.packed ? 2 : 1;
    f->cost = ckci_gather_cost(v, f->limit);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_fit_gather(ckci_fit *f, ckconv_error *err)
{
    ckci_view v = ckci_make_view(&f->p->conv, f->features);
    if (f->split_k > 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "split_k is %d: fwd and bwd_data instances do not split", (int)f->split_k);
    }
    return ckci_fit_gather_view(f, &v);
}

CKCI_FN void ckci_run_gather(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                             unsigned char *ws, int32_t features)
{
    ckci_gather_job job;
    (void)args;
    job.v = ckci_make_view(&p->conv, features);
    job.t = ckci_gather_tiles(&job.v, plan->device.threads, ckci_plan_limit(plan), -1);
    job.target = ckci_make_target(&p->conv);
    ckci_run_gather_job(&job, ws);
}


/*------------------------------------------------------------------------------------------------------------
  >>c-weight
  bwd_weight: an item sums part of the reduction over n and output positions for a block of dwei, output
  channels x (tap, input channel). Vectors run over (tap, channel); output channels are the scalars. The
  input is gathered as a patch, or as im2col rows where that wastes lanes; dout is packed in panels of
  outer_rows channels.
*/


/* Planes of outputs, or twins of them, that a unit may hold several of */
CKCI_INLINE int64_t ckci_weight_planes(const ckci_view *v)
{
    return v->twins ? ckci_ceil_div(v->p->n * v->p->output[0], 2) : v->p->n;
}

/* A patch per unit of nb x yb x xb outputs; 0 where im2col rows are better. */
CKCI_FN int ckci_weight_patches(const ckci_view *v, ckci_tiles *t)
{
    ckci_axis axis[3];
    int64_t lanes = v->k->lanes, size = v->kind->size, n = ckci_max(ckci_weight_planes(v), 1);
    ckci_phase(v, 0, axis);
    if (!ckci_patch_sane(v, axis)) {
        return 0;
    }
    int64_t y = axis[1].count, x = axis[2].count, line = axis[2].taps * v->red;
    t->joined = ckci_joins(v, &axis[2]) && ckci_round_up(line, lanes) * 4 <= line * 7;
    if ((!t->joined && ckci_round_up(v->red, lanes) * 4 > v->red * 5) || v->taps > 4096) {
        return 0;
    }
    t->cb = ckci_min(v->red, ckci_max(1024 / v->taps / lanes * lanes, lanes));
    /* even blocks */
    t->cb = ckci_min(v->red, ckci_round_up(ckci_ceil_div(v->red, ckci_ceil_div(v->red, t->cb)), lanes));
    if (t->joined) {
        t->cb = v->red;
    }
    t->nb = 1;
    t->yb = y;
    t->xb = x;
    for (;;) {
        t->entries = ckci_window_entries(v, t->yb, t->xb, 0);
        if ((ckci_saturating_mul(t->entries, t->cb * size) <= CKCI_PATCH_BYTES &&
             t->yb * t->xb <= CKCI_BLOCK_ROWS) ||
            (t->yb == 1 && t->xb <= 16)) {
            break;
        }
        if (t->yb > 1) {
            t->yb = ckci_ceil_div(t->yb, 2);
        } else {
            t->xb = ckci_ceil_div(t->xb, 2);
        }
    }
    while (t->yb == y && t->xb == x && t->nb < n && (t->nb + 1) * y * x <= CKCI_BLOCK_ROWS &&
           (t->nb + 1) * t->entries * t->cb * size <= CKCI_PATCH_BYTES) {
        t->nb++;
    }
    t->yb = ckci_ceil_div(y, ckci_ceil_div(y, t->yb));
    t->xb = ckci_ceil_div(x, ckci_ceil_div(x, t->xb));
    t->entries = ckci_window_entries(v, t->yb, t->xb, 0) * t->nb;
    t->blocks_b = v->p->n == 0 ? 0 : ckci_ceil_div(n, t->nb) * (v->twins ? 1 : axis[0].count);
    t->blocks_y = ckci_ceil_div(y, t->yb);
    t->blocks_x = ckci_ceil_div(x, t->xb);
    t->kc = t->nb * t->yb * t->xb;
    t->ldc = t->joined ? v->taps / axis[2].taps * ckci_round_up(line, lanes)
                       : v->taps * ckci_round_up(t->cb, lanes);
    t->table = ckci_line_up(v->taps * 4);
    return ckci_saturating_mul(t->entries, t->cb * size) <= 4 * CKCI_PATCH_BYTES && t->ldc <= 16384;
}

/* Sums of a block take ldc numbers for each output channel; this many channels. */
CKCI_FN int64_t ckci_weight_rows(const ckci_view *v, const ckci_tiles *t, int64_t numbers)
{
    int64_t r = v->k->outer_rows, most = ckci_max(numbers / t->ldc / r * r, r);
    int64_t blocks = ckci_ceil_div(v->cols, most);
    return ckci_round_up(ckci_ceil_div(v->cols, blocks), r);
}

CKCI_FN void ckci_weight_scratch(const ckci_view *v, ckci_tiles *t)
{
    int64_t size = v->kind->size, lanes = v->k->lanes;
    int64_t x = t->entries ? t->entries * t->cb : ckci_saturating_mul(t->kc, t->ldc);
    t->scratch = ckci_line_up((x + lanes) * size) + ckci_line_up(t->kc * t->nc * size) +
                 ckci_line_up(t->nc * t->ldc * size) + t->table;
    t->totals = 0;
    t->blocks_m = t->entries ? ckci_ceil_div(v->red, t->cb) : ckci_ceil_div(v->taps * v->red, t->mc);
    t->blocks_n = ckci_ceil_div(v->cols, t->nc);
}

/* Units of kc positions whose sums are added up before they go to totals */
CKCI_INLINE int64_t ckci_weight_block_units(const ckci_tiles *t)
{
    return ckci_max(CKCI_NEXT / t->kc, 64);
}

/* Totals in scratch where a part has `units` units */
CKCI_FN void ckci_weight_totals(const ckci_view *v, ckci_tiles *t, int64_t units)
{
    if (units > ckci_weight_block_units(t)) {
        t->totals = ckci_total_bytes(v->kind, t->nc * t->ldc);
        t->scratch += t->totals;
    }
}

CKCI_FN ckci_tiles ckci_weight_tiles(const ckci_view *v, ckconv_family family, int32_t split_k,
                                     int32_t threads, int64_t limit)
{
    ckci_tiles t;
    memset(&t, 0, sizeof t);
    int64_t all = v->taps * v->red, lanes = v->k->lanes, size = v->kind->size;
    int64_t positions = v->p->n * v->p->output[0] * v->p->output[1] * v->p->output[2];
    if (!ckci_weight_patches(v, &t)) {
        t.entries = t.table = t.joined = 0;
        t.kc = CKCI_KC;
        t.mc = t.ldc = ckci_min(ckci_round_up(all, lanes), 16 * lanes);
    }
    t.nc = ckci_weight_rows(v, &t, 96 * 1024);
    ckci_weight_scratch(v, &t);
    t.split = 1;
    int64_t blocks = ckci_saturating_mul(ckci_saturating_mul(t.blocks_m, t.blocks_n), v->p->g);
    int64_t units = t.entries ? t.blocks_b * t.blocks_y * t.blocks_x : ckci_ceil_div(positions, t.kc);
    if (family == CKCONV_FAMILY_TWO_STAGE) {
        /* by shape alone, so that results do not depend on the threads */
        t.split = split_k ? split_k : ckci_max(ckci_min(ckci_ceil_div(32, blocks), units / 2), 2);
        t.split = ckci_max(ckci_min(t.split, t.entries ? units : positions), 1);
    }
    ckci_weight_totals(v, &t, ckci_ceil_div(units, t.split) + 1);
    t.partial = t.split > 1 ? ckci_line_up(t.nc * t.ldc * size) : 0;
    int64_t sums = ckci_saturating_mul(ckci_saturating_mul(blocks, t.split), t.partial);
    t.threads = threads;
    t.bytes = ckci_total(sums, t.scratch, 1);
    if (t.bytes <= limit) {
        t.threads = ckci_threads_within(limit, sums, t.scratch, threads);
        t.bytes = ckci_total(sums, t.scratch, t.threads);
    } else if (t.split == 1) {
        t.entries = t.table = t.joined = 0;
        t.kc = CKCI_KC / 8;
        t.mc = t.ldc = ckci_min(ckci_round_up(all, lanes), ckci_round_up(64, lanes));
        /* channels whose gradient, sums and totals fit beside the rows */
        int64_t most = (CKCI_STACK / size - t.kc * t.ldc - lanes - 64) / (t.kc + 3 * t.ldc);
        t.nc = ckci_weight_rows(v, &t, ckci_min(2048, most * t.ldc));
        ckci_weight_scratch(v, &t);
        ckci_weight_totals(v, &t, ckci_ceil_div(positions, t.kc));
        t.bytes = 0;
        blocks = ckci_saturating_mul(ckci_saturating_mul(t.blocks_m, t.blocks_n), v->p->g);
    }
    t.items = ckci_saturating_mul(blocks, t.split);
    return t;
}

typedef struct ckci_weight_job {
    ckci_view v;
    ckci_tiles t;
    ckci_target target;
    unsigned char *partial;
} ckci_weight_job;

/* A block of dwei: `rows` output channels from k0 on x `cols` (tap, channel) pairs from c0 on (im2col) or
   `cols` channels from c0 on for all taps. */
typedef struct ckci_weight_block {
    int64_t group, k0, rows, c0, cols;
} ckci_weight_block;

CKCI_FN ckci_weight_block ckci_find_weight_block(const ckci_weight_job *job, int64_t block)
{
    const ckci_tiles *t = &job->t;
    const ckci_view *v = &job->v;
    ckci_weight_block b;
    int64_t step = t->entries ? t->cb : t->mc;
    b.c0 = block % t->blocks_m * step;
    b.k0 = block / t->blocks_m % t->blocks_n * t->nc;
    b.group = block / t->blocks_m / t->blocks_n;
    b.cols = ckci_min(step, (t->entries ? v->red : v->taps * v->red) - b.c0);
    b.rows = ckci_min(t->nc, v->cols - b.k0);
    return b;
}

/* `count` positions of dout along x from element `at` on: dst[panel][position][outer_rows], panels of `all`
   positions. */
CKCI_FN void ckci_pack_gradient(const ckci_view *v, int64_t at, int64_t count, int64_t rows, int64_t all,
                                unsigned char *dst)
{
    double buffer[128];
    const ckci_tensor *t = &v->p->t[CKCI_OUT];
    int64_t size = v->kind->size, r = v->k->outer_rows, step = t->stride[5], channel = t->stride[2];
    int bare = t->plain && t->dtype == v->kind->dtype && channel == 1;
    for (int64_t k = 0; k < rows; k += r, dst += all * r * size) {
        int64_t valid = ckci_min(r, rows - k);
        if (bare && valid == r) {
            const unsigned char *from = t->p + (at + k) * size;
            for (int64_t i = 0; i < count; i++) {
                ckci_copy_bytes(dst + i * r * size, from + i * step * size, r * size);
            }
            continue;
        }
        if (channel == 1 && valid == r && ckci_widener(v, t)) {
            ckci_widener(v, t)(count, r, t->p + (at + k) * 2, step, dst, r);
            continue;
        }
        for (int64_t i = 0; i < count && valid < r; i++) {
            ckci_clear(v->kind, dst + (i * r + valid) * size, r - valid);
        }
        for (int64_t j = 0; j < valid && step < channel; j++) {
            for (int64_t i = 0; i < count; i += 128) {
                int64_t n = ckci_min(count - i, 128);
                v->kind->read(t, at + (k + j) * channel + i * step, step, n, buffer);
                ckci_scatter(v->kind, dst + (i * r + j) * size, r, buffer, n);
            }
        }
        for (int64_t i = 0; i < count && step >= channel; i++) {
            v->kind->read(t, at + k * channel + i * step, channel, valid, dst + i * r * size);
        }
    }
}

/* The same of twins: `count` positions of a row from q on. */
CKCI_FN void ckci_zip_gradient(const ckci_view *v, const ckci_weight_block *b, int64_t twin,
                               const int64_t q[3], int64_t count, int64_t all, unsigned char *dst)
{
    const ckci_tensor *t = &v->p->t[CKCI_OUT];
    int64_t r = v->k->outer_rows, planes = v->p->output[0];
    const unsigned char *row[2];
    for (int i = 0; i < 2; i++) {
        int64_t n = (2 * twin + i) / planes, z = (2 * twin + i) % planes;
        int64_t at = b->group * t->stride[0] + n * t->stride[1] + b->k0 * t->stride[2] + z * t->stride[3] +
                     q[1] * t->stride[4] + q[2] * t->stride[5];
        row[i] = n < v->p->n ? t->p + at * 2 : NULL;
    }
    for (int64_t k = 0; k < b->rows; k += r, dst += all * r * 4) {
        int64_t valid = ckci_min(r, b->rows - k);
        if (valid < r) {
            memset(dst, 0, (size_t)(count * r * 4));
        }
        v->k->zip(count, valid, row[0] ? row[0] + k * 2 : NULL, row[1] ? row[1] + k * 2 : NULL, t->stride[5],
                  dst, r);
    }
}

/* All tiles of a block over `o`'s positions. p, tap_at: the patch, where its segments begin; NULL for im2col
   rows. */
CKCI_FN void ckci_multiply_outer(const ckci_weight_job *job, const ckci_weight_block *b, ckci_outer *o,
                                 const ckci_patch *p, const int32_t *tap_at, const unsigned char *dy,
                                 unsigned char *c)
{
    const ckci_view *v = &job->v;
    int64_t size = v->kind->size, r = v->k->outer_rows, lanes = v->k->lanes, ldc = job->t.ldc;
    int64_t all = o->planes * o->rows * o->width, across = p && !p->joined ? v->p->filter[2] : 1;
    int64_t vectors = ckci_ceil_div(p ? p->len : b->cols, lanes), taps = p ? p->segments : 1;
    int64_t padded = p ? ldc / taps : 0;
    o->ldc = ldc;
    for (int64_t i = 0, some; i < taps * vectors; i += some) {
        int64_t rest = taps * vectors - i;
        some = rest < 3 || rest == 4 ? 2 : 3; /* 4 = 2 + 2 */
        for (int64_t j = 0; j < some; j++) {
            /* taps of a filter row one after the other: they read nearly the same positions */
            int64_t e = ckci_min(i + j, taps * vectors - 1), vector = e / across % vectors;
            int64_t tap = e / across / vectors * across + e % across;
            o->x_at[j] = (tap_at ? tap_at[tap] : 0) + vector * lanes;
            o->c_at[j] = tap * padded + vector * lanes;
        }
        for (int64_t k = 0; k < b->rows; k += r) {
            o->dy = dy + k * all * size;
            o->c = c + k * ldc * size;
            v->k->outer[some - 2](o);
        }
    }
}

/* After unit number `done` of a part: the sums go to totals if a block ends there, and back after the last
   one. */
CKCI_FN void ckci_weight_next(const ckci_weight_job *job, const ckci_weight_block *b, int64_t done, int last,
                              unsigned char *c, void *totals)
{
    const ckci_tiles *t = &job->t;
    int64_t units = ckci_weight_block_units(t), n = b->rows * t->ldc;
    if (t->totals && (last || (done + 1) % units == 0)) {
        ckci_add_totals(job->v.kind, totals, c, n, done < units);
    }
    if (t->totals && last) {
        ckci_end_totals(job->v.kind, totals, c, n);
    }
}

/* Units [from, to) with patches. */
CKCI_FN void ckci_weight_units(const ckci_weight_job *job, const ckci_weight_block *b, int64_t from,
                               int64_t to, unsigned char *x, unsigned char *dy, int32_t *offset,
                               unsigned char *c, void *totals)
{
    const ckci_view *v = &job->v;
    const ckci_tiles *t = &job->t;
    const ckci_tensor *g = &v->p->t[CKCI_OUT];
    int64_t size = v->kind->size, r = v->k->outer_rows;
    ckci_axis axis[3];
    ckci_phase(v, 0, axis);
    for (int64_t unit = from; unit < to; unit++) {
        int64_t q[3], rest = unit;
        q[2] = rest % t->blocks_x * t->xb;
        rest /= t->blocks_x;
        q[1] = rest % t->blocks_y * t->yb;
        rest /= t->blocks_y;
        q[0] = v->twins ? 0 : rest % axis[0].count;
        int64_t n = (v->twins ? rest : rest / axis[0].count) * t->nb;
        ckci_outer o;
        o.planes = ckci_min(t->nb, ckci_weight_planes(v) - n);
        o.rows = ckci_min(t->yb, axis[1].count - q[1]);
        o.width = ckci_min(t->xb, axis[2].count - q[2]);
        ckci_patch p = ckci_make_patch(axis, q, o.rows, o.width, b->cols, t->joined);
        ckci_patch_segments(&p, axis, offset);
        int64_t all = o.planes * o.rows * o.width;
        for (int64_t i = 0; i < o.planes; i++) {
            if (v->twins) {
                ckci_zip_patch(v, &p, axis, b->group, n + i, b->c0, x + i * p.image * size);
            } else {
                ckci_pack_patch(v, &p, axis, b->group, n + i, q[0], b->c0, x + i * p.image * size);
            }
            /* few positions at once: their cache lines serve several panels */
            for (int64_t at = 0, some; at < o.rows * o.width; at += some) {
                int64_t place[3];
                place[0] = q[0];
                place[1] = q[1] + at / o.width;
                place[2] = q[2] + at % o.width;
                some = ckci_min(o.width - at % o.width, 32);
                unsigned char *dst = dy + (i * o.rows * o.width + at) * r * size;
                if (v->twins) {
                    ckci_zip_gradient(v, b, n + i, place, some, all, dst);
                    continue;
                }
                int64_t from_dy = b->group * g->stride[0] + (n + i) * g->stride[1] + b->k0 * g->stride[2] +
                                  place[0] * g->stride[3] + place[1] * g->stride[4] + place[2] * g->stride[5];
                ckci_pack_gradient(v, from_dy, some, b->rows, all, dst);
            }
        }
        o.x = x;
        o.x_plane = p.image;
        o.x_row = p.row;
        o.x_step = p.step;
        o.add = t->totals ? (unit - from) % ckci_weight_block_units(t) > 0 : unit > from;
        ckci_multiply_outer(job, b, &o, &p, offset, dy, c);
        ckci_weight_next(job, b, unit - from, unit + 1 == to, c, totals);
    }
}

/* Positions [from, to) as im2col rows. */
CKCI_FN void ckci_weight_positions(const ckci_weight_job *job, const ckci_weight_block *b, int64_t from,
                                   int64_t to, unsigned char *x, unsigned char *dy, unsigned char *c,
                                   void *totals)
{
    const ckci_view *v = &job->v;
    const ckci_tiles *t = &job->t;
    const ckci_tensor *g = &v->p->t[CKCI_OUT];
    int64_t size = v->kind->size, r = v->k->outer_rows, q[4];
    ckci_axis axis[3];
    ckci_phase(v, 0, axis);
    for (int64_t m = from; m < to; m += t->kc) {
        int64_t count = ckci_min(t->kc, to - m);
        ckci_pack_rows(v, axis, b->group, m, count, b->c0, b->c0 + b->cols, x, t->ldc);
        for (int64_t i = 0; i < count && t->ldc > b->cols; i++) {
            ckci_clear(v->kind, x + (i * t->ldc + b->cols) * size, t->ldc - b->cols);
        }
        for (int64_t i = 0, n; i < count; i += n) {
            ckci_place(axis, m + i, q);
            n = ckci_min(axis[2].count - q[3], count - i);
            int64_t at = b->group * g->stride[0] + q[0] * g->stride[1] + b->k0 * g->stride[2] +
                         q[1] * g->stride[3] + q[2] * g->stride[4] + q[3] * g->stride[5];
            ckci_pack_gradient(v, at, n, b->rows, count, dy + i * r * size);
        }
        ckci_outer o;
        o.planes = o.rows = 1;
        o.width = count;
        o.x = x;
        o.x_plane = o.x_row = 0;
        o.x_step = t->ldc;
        int64_t unit = (m - from) / t->kc;
        o.add = t->totals ? unit % ckci_weight_block_units(t) > 0 : unit > 0;
        ckci_multiply_outer(job, b, &o, NULL, NULL, dy, c);
        ckci_weight_next(job, b, unit, m + count == to, c, totals);
    }
}

/* Sums c of a block to dwei, along input channels. */
CKCI_FN void ckci_write_weights(const ckci_weight_job *job, const ckci_weight_block *b,
                                const unsigned char *c)
{
    const ckci_view *v = &job->v;
    const ckci_tiles *t = &job->t;
    int64_t size = v->kind->size, at[6], across = v->p->filter[2];
    int64_t padded = t->joined ? t->ldc / (v->taps / across) : ckci_round_up(t->cb, v->k->lanes);
    at[0] = b->group;
    for (int64_t k = 0; k < b->rows; k++, c += t->ldc * size) {
        at[1] = b->k0 + k;
        int64_t first = t->entries ? 0 : b->c0 / v->red;
        int64_t last = t->entries ? v->taps : ckci_ceil_div(b->c0 + b->cols, v->red);
        for (int64_t tap = first; tap < last; tap++) {
            int64_t from = t->entries ? b->c0 : ckci_max(b->c0 - tap * v->red, 0);
            int64_t to = t->entries ? b->c0 + b->cols : ckci_min(v->red, b->c0 + b->cols - tap * v->red);
            at[2] = from;
            at[5] = tap % v->p->filter[2];
            at[4] = tap / v->p->filter[2] % v->p->filter[1];
            at[3] = tap / v->p->filter[2] / v->p->filter[1];
            int64_t place = t->joined    ? tap / across * padded + tap % across * v->red
                            : t->entries ? tap * padded
                                         : tap * v->red + from - b->c0;
            v->kind->write(&job->target, at, 2, to - from, c + place * size);
        }
    }
}

/* One item sums one part of the reduction for one block of dwei. */
CKCI_FN void ckci_weight_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_weight_job *job = (const ckci_weight_job *)context;
    const ckci_view *v = &job->v;
    const ckci_tiles *t = &job->t;
    int64_t size = v->kind->size, part = item % t->split;
    ckci_weight_block b = ckci_find_weight_block(job, item / t->split);
    int64_t all = v->p->n * v->p->output[0] * v->p->output[1] * v->p->output[2];
    if (t->entries) {
        all = t->blocks_b * t->blocks_y * t->blocks_x;
    }
    /* whole blocks, spread evenly */
    int64_t share = ckci_ceil_div(all, t->split);
    int64_t from = ckci_min(all, part * share), to = ckci_min(all, from + share);
    unsigned char *dy = scratch, *c = dy + ckci_line_up(t->kc * t->nc * size);
    unsigned char *offset = c + ckci_line_up(t->nc * t->ldc * size), *totals = offset + t->table;
    unsigned char *x = totals + t->totals;
    if (t->split > 1) {
        c = job->partial + item * t->partial;
    }
    if (from == to) {
        ckci_clear(v->kind, c, t->nc * t->ldc);
    } else if (t->entries) {
        ckci_weight_units(job, &b, from, to, x, dy, (int32_t *)(void *)offset, c, totals);
    } else {
        ckci_weight_positions(job, &b, from, to, x, dy, c, totals);
    }
    if (t->split == 1) {
        ckci_write_weights(job, &b, c);
    }
}

/* The second stage: one item adds the parts of one block, in order, and finishes it. */
CKCI_FN void ckci_weight_sum_item(const void *context, int64_t block, unsigned char *scratch)
{
    const ckci_weight_job *job = (const ckci_weight_job *)context;
    const ckci_tiles *t = &job->t;
    ckci_weight_block b = ckci_find_weight_block(job, block);
    (void)scratch;
    unsigned char *sum = job->partial + block * t->split * t->partial;
    ckci_add_parts(job->v.kind, sum, t->partial, t->split, b.rows * t->ldc);
    ckci_write_weights(job, &b, sum);
}

/* With dot products the reduction runs over twins. */
CKCI_FN ckci_view ckci_make_weight_view(const ckci_conv *p, int32_t features)
{
    ckci_view v = ckci_make_view(p, features);
    if (features & CKCONV_CPU_AVX512_BF16) {
        v.twins = 1;
        v.k = ckci_find_pair_kernels(0);
    }
    return v;
}

/* Does this problem have twins? */
CKCI_FN int ckci_has_twins(const ckci_view *v)
{
    const ckci_tensor *x = v->read, *dy = &v->p->t[CKCI_OUT];
    return v->k != NULL && x->plain && dy->plain && x->dtype == CKCONV_BF16 && dy->dtype == CKCONV_BF16 &&
           (x->stride[2] == 1 || v->red == 1) && (dy->stride[2] == 1 || v->cols == 1) &&
           v->kind->dtype == CKCONV_F32 && (v->p->n > 1 || (v->p->n == 1 && v->p->output[0] > 1));
}

CKCI_FN ckconv_status ckci_fit_weight(ckci_fit *f, ckconv_error *err)
{
    ckci_view v = ckci_make_weight_view(&f->p->conv, f->features);
    if (v.twins && !ckci_has_twins(&v)) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "bf16 dot products take plain bf16 tensors, channels side by side, and pairs of batch "
            "entries or planes z");
    }
    const ckci_conv *p = &f->p->conv;
    int32_t threads = f->plan->device.threads;
    ckci_tiles t = ckci_weight_tiles(&v, f->family, f->split_k, threads, f->limit);
    if (f->family == CKCONV_FAMILY_SINGLE_STAGE && f->split_k > 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "split_k is %d: single_stage sums in one part, two_stage splits", (int)f->split_k);
    }
    if (v.twins && !t.entries) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "bf16 dot products gather input patches: channels do not fill vectors, or the "
                         "workspace limit is too small");
    }
    if (t.bytes > f->limit) {
        return f->split_k > 1 ? ckci_sums_fit(f->split_k, t.bytes, f->limit, err)
                              : ckci_over_limit("two_stage", t.bytes, err);
    }
    f->plan->workspace_bytes = t.bytes;
    f->plan->block[0] = t.threads;
    f->plan->grid[0] = t.items;
    f->plan->split_k = (int32_t)t.split;
    f->plan->launches = t.split > 1 ? 2 : 1;
    double positions = (double)p->n * (double)p->output[0] * (double)p->output[1] * (double)p->output[2];
    double lanes = v.k->lanes, rows = (double)ckci_round_up(v.cols, v.k->outer_rows);
    double vectors = (double)(t.joined    ? t.ldc / v.k->lanes
                              : t.entries ? v.taps * ckci_ceil_div(v.red, v.k->lanes)
                                          : ckci_ceil_div(v.taps * v.red, v.k->lanes));
    double halo = (double)t.entries / (double)t.kc; /* positions copied for each one; else runs of taps */
    double runs = t.entries ? halo : (double)v.taps / (v.red < v.k->lanes ? (double)p->filter[2] : 1);
    double line = v.twins && v.red < 8 && p->g > 1 ? 12 : 0; /* a cache line for a few bytes */
    double pack = (double)t.blocks_n * runs * ((t.entries ? 4 + line : 60) + 2 * (double)v.red / lanes) +
                  (double)t.blocks_m * rows / v.k->outer_rows * 2;
    double work = (double)p->g * positions * (rows * vectors * (v.twins ? 0.55 : 1.1) + pack) + 2000;
    double sums = (double)p->g * rows * vectors * (8 + 2 * (double)t.split);
    double idle =
        (double)ckci_round_up(t.items, 16) / (double)ckci_max(t.items, 1); /* 16 threads: by shape alone */
    f->cost = work * idle + sums;
    return CKCONV_OK;
}

CKCI_FN void ckci_run_weight(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                             unsigned char *ws, int32_t features)
{
    ckci_weight_job job;
    int32_t threads = plan->device.threads;
    ckconv_family family = ckconv_instance_family(plan->instance);
    (void)args;
    job.v = ckci_make_weight_view(&p->conv, features);
    job.t = ckci_weight_tiles(&job.v, family, (int32_t)plan->tune[CKCI_TUNE_SPLIT], threads,
                              ckci_plan_limit(plan));
    job.target = ckci_make_target(&p->conv);
    int64_t shared = job.t.items * job.t.partial;
    threads = job.t.threads;
    job.partial = ws;
    ckci_parallel(threads, job.t.items, ckci_weight_item, &job, job.t.bytes ? ws + shared : NULL,
                  job.t.scratch);
    if (job.t.split > 1) {
        ckci_parallel(threads, job.t.items / job.t.split, ckci_weight_sum_item, &job, ws, 0);
    }
}


/*------------------------------------------------------------------------------------------------------------
  >>c-direct
  Direct convolution for depthwise and small groups. A vector's lanes are consecutive (group, column)
  pairs, so that no lane is wasted however few channels a group has. An item gathers the part of the input
  that its tile of outputs needs into lines, one for each (z, y) row and each reduction channel, in which the
  value for lane l is the one of l's group; then every tap is one vector multiply-add per output. Lines are
  split by position modulo the stride, so that neighbouring outputs are neighbouring vectors. Weights are
  laid out [block][tap][channel][lane].
*/


/* Which (group, channel) each lane of a block reads. */
typedef struct ckci_lanes {
    int64_t count;              /* lanes in use */
    int64_t group[CKCI_LANES];  /* group of each lane */
    int64_t column[CKCI_LANES]; /* and its column */
    int32_t map[CKCI_LANES];    /* place of the group's first channel in a span of the block's channels */
    int64_t first_group, groups;
} ckci_lanes;

CKCI_FN ckci_lanes ckci_make_lanes(const ckci_view *v, int64_t block)
{
    ckci_lanes l;
    int64_t first = block * v->k->lanes;
    l.count = ckci_min(v->k->lanes, v->p->g * v->cols - first);
    l.first_group = first / v->cols;
    l.groups = (first + l.count - 1) / v->cols - l.first_group + 1;
    int64_t group = l.first_group, column = first - group * v->cols;
    for (int i = 0; i < CKCI_LANES; i++) {
        l.group[i] = group;
        l.column[i] = column;
        l.map[i] = (int32_t)((group - l.first_group) * v->red);
        if (i + 1 < l.count && ++column == v->cols) {
            column = 0;
            group++;
        }
    }
    return l;
}

enum { CKCI_DIRECT_RED = 16 };

CKCI_INLINE int64_t ckci_last_element(const ckci_tensor *t)
{
    int64_t last = 0;
    for (int i = 0; i < 6; i++) {
        last += (t->len[i] - 1) * t->stride[i];
    }
    return last;
}

/* One stretch of a line: `n` positions from entry `at` on, the first one `place` elements into the tensor
   (group 0, channel 0), the next `step` elements further. dst: the plane, [channel][...][entry][lane].
   by_column: each lane has its own channel (a gradient), and there is a single reduction channel. */
CKCI_FN void ckci_gather_lanes(const ckci_view *v, const ckci_tensor *t, const ckci_lanes *l, int by_column,
                               int64_t place, int64_t step, int64_t n, unsigned char *dst,
                               int64_t dst_channel)
{
    double buffer[CKCI_SPAN + CKCI_LANES]; /* the spread kernel may read a vector past the last position */
    int64_t size = v->kind->size, lanes = v->k->lanes, red = by_column ? 1 : v->red;
    int64_t per_group = by_column ? v->cols : v->red;
    int dense = (per_group == 1 || t->stride[2] == 1) && (l->groups == 1 || t->stride[0] == per_group);
    int64_t span = by_column ? l->count : l->groups * v->red;
    int64_t start = place + l->first_group * t->stride[0] + (by_column ? l->column[0] * t->stride[2] : 0);
    const unsigned char *first = t->p + start * (int64_t)ckci_size(t->dtype);
    int bare = t->plain && t->dtype == v->kind->dtype && (uintptr_t)first % (uintptr_t)size == 0;
    ckci_copy_kernel widen = ckci_widener(v, t);
    if (dense && span == l->count && red == 1) {
        if (bare && span == lanes) {
            v->k->copy(n, lanes, first, step, dst, lanes);
            return;
        }
        if (span == lanes && widen) {
            widen(n, lanes, first, step, dst, lanes);
            return;
        }
        for (int64_t i = 0; i < n; i++) {
            unsigned char *out = dst + i * lanes * size;
            v->kind->read(t, start + i * step, 1, span, out);
            ckci_clear(v->kind, out + span * size, lanes - span);
        }
    } else if (dense && !by_column && span <= CKCI_SPAN) {
        int64_t batch = CKCI_SPAN / span, safe = 0;
        if (bare && span <= lanes) { /* whole vectors, as long as they end within the tensor */
            int64_t room = ckci_last_element(t) + 1 - start - lanes;
            safe = room < 0 ? 0 : step > 0 ? ckci_min(room / step + 1, n) : n;
            v->k->spread(safe, first, step, span, l->map, red, dst, dst_channel);
        }
        for (int64_t i = safe; i < n; i += batch) {
            int64_t count = ckci_min(batch, n - i);
            if (widen) {
                widen(count, span, first + i * step * 2, step, buffer, span);
            }
            for (int64_t j = 0; j < count && !widen; j++) {
                v->kind->read(t, start + (i + j) * step, 1, span, (unsigned char *)buffer + j * span * size);
            }
            v->k->spread(count, buffer, span, span, l->map, red, dst + i * lanes * size, dst_channel);
        }
    } else if (by_column && per_group > 1 && t->stride[2] == 1) {
        /* channels are dense, groups lie apart: one run for each group */
        for (int64_t i = 0; i < n; i++) {
            unsigned char *out = dst + i * lanes * size;
            for (int64_t lane = 0, run; lane < l->count; lane += run) {
                run = ckci_min(v->cols - l->column[lane], l->count - lane);
                v->kind->read(t, place + l->group[lane] * t->stride[0] + l->column[lane] + i * step, 1, run,
                              out + lane * size);
            }
            ckci_clear(v->kind, out + span * size, lanes - span);
        }
    } else if (!by_column && per_group > 1 && t->stride[2] == 1 && span <= CKCI_SPAN) {
        int64_t batch = CKCI_SPAN / span;
        for (int64_t i = 0; i < n; i += batch) {
            int64_t count = ckci_min(batch, n - i);
            for (int64_t g = 0; g < l->groups; g++) {
                for (int64_t j = 0; j < count; j++) {
                    v->kind->read(t, start + g * t->stride[0] + (i + j) * step, 1, red,
                                  (unsigned char *)buffer + (j * span + g * red) * size);
                }
            }
            v->k->spread(count, buffer, span, span, l->map, red, dst + i * lanes * size, dst_channel);
        }
    } else {
        for (int64_t c = 0; c < red; c++) {
            for (int64_t lane = 0; lane < lanes; lane++) {
                int64_t at =
                    place + l->group[lane] * t->stride[0] + (by_column ? l->column[lane] : c) * t->stride[2];
                for (int64_t i = 0; i < n; i += CKCI_SPAN) {
                    int64_t count = ckci_min(CKCI_SPAN, n - i);
                    v->kind->read(t, at + i * step, step, count, buffer);
                    ckci_scatter(v->kind, dst + (c * dst_channel + i * lanes + lane) * size, lanes, buffer,
                                 count);
                }
            }
        }
    }
}

/* One x line: all planes of window w of row (n, z, y), zero where it leaves the tensor. */
CKCI_FN void ckci_gather_line(const ckci_view *v, const ckci_tensor *t, const ckci_lanes *l,
                              const ckci_window *w, int64_t n, int64_t z, int64_t y, unsigned char *dst)
{
    int64_t size = v->kind->size, lanes = v->k->lanes, channel = w->planes * w->width * lanes;
    for (int64_t plane = 0; plane < w->planes; plane++) {
        if (!ckci_window_used(w, plane)) {
            continue;
        }
        int64_t from = 0, to = 0, x0 = ckci_window_position(w, plane, 0);
        if (z >= 0 && z < t->len[3] && y >= 0 && y < t->len[4]) {
            ckci_inside(x0, w->step, w->width, t->len[5], &from, &to);
        }
        unsigned char *out = dst + plane * w->width * lanes * size;
        for (int64_t c = 0; c < v->red; c++) {
            ckci_clear(v->kind, out + c * channel * size, from * lanes);
            ckci_clear(v->kind, out + (c * channel + to * lanes) * size, (w->width - to) * lanes);
        }
        if (to > from) {
            int64_t place =
                n * t->stride[1] + z * t->stride[3] + y * t->stride[4] + (x0 + from * w->step) * t->stride[5];
            ckci_gather_lanes(v, t, l, 0, place, w->step * t->stride[5], to - from, out + from * lanes * size,
                              channel);
        }
    }
}

/* Tile sizes of the direct family. A chunk of filter rows is gathered at a time: all, or one z row's [chunk]
   rows. */
typedef struct ckci_direct_tiles {
    int64_t blocks, yb, xb, blocks_y, blocks_x; /* lane blocks; outputs of an item */
    int64_t some, sets;                         /* lane blocks of an item, items beside each other */
    int64_t chunk;                              /* filter rows (z, y) gathered together; 0: all of them */
    int64_t lines, sums, table;                 /* bytes of an item's scratch */
    int64_t packed, scratch, items, bytes;
    int64_t split, partial, units; /* bwd_weight */
    int64_t totals;                /* where they begin in a part; 0: none, its reduction is short */
    int32_t threads;
} ckci_direct_tiles;

/* Bytes of the lines for a tile of yb x xb outputs in every phase: the largest. */
CKCI_FN int64_t ckci_line_bytes(const ckci_view *v, int64_t yb, int64_t xb, int64_t chunk)
{
    int64_t bytes = v->kind->size * v->k->lanes * v->red;
    return ckci_line_up(ckci_saturating_mul(bytes, ckci_window_entries(v, yb, xb, chunk)));
}

/* Bytes that `outputs` positions of all channels read and write, about; what an item walks for one block
   of lanes after the other stays in L2. */
enum { CKCI_NEAR = 640 * 1024, CKCI_FAR = 4 << 20 };

CKCI_FN int64_t ckci_line_block(const ckci_view *v, int64_t outputs)
{
    int64_t steps = v->p->op == CKCONV_BWD_DATA ? 1 : v->p->stride[1] * v->p->stride[2];
    int64_t channels = ckci_saturating_add(ckci_saturating_mul(v->red, ckci_min(steps, v->taps)), v->cols);
    return ckci_saturating_mul(ckci_saturating_mul(v->p->g * v->kind->size, channels), outputs);
}

CKCI_FN ckci_direct_tiles ckci_find_direct_tiles(const ckci_view *v, int32_t threads, int64_t limit)
{
    ckci_direct_tiles t;
    ckci_axis axis[3];
    int64_t size = v->kind->size, lanes = v->k->lanes;
    memset(&t, 0, sizeof t);
    ckci_phase(v, 0, axis);
    t.blocks = ckci_ceil_div(v->p->g * v->cols, lanes);
    t.packed =
        ckci_line_up(ckci_saturating_mul(ckci_saturating_mul(t.blocks, lanes * size), v->taps * v->red));
    t.table = ckci_line_up(ckci_saturating_mul(v->taps * v->red, 8));
    for (int stack = 0; stack < 2; stack++) {
        int64_t room = stack ? CKCI_STACK : 768 * 1024;
        if (stack) {
            /* weights and taps of a chunk are laid out by the item itself */
            t.packed = 0;
            t.chunk = 1;
            t.table = ckci_line_up(v->p->filter[2] * v->red * (8 + lanes * size));
        }
        t.xb = ckci_min(axis[2].count, 448);
        t.yb = ckci_min(axis[1].count, 16);
        /* the lines that one row of outputs reads stay in L1 */
        while (v->red > 1 && t.xb > CKCI_LINE && ckci_line_bytes(v, 1, t.xb, 0) > 40 * 1024) {
            t.xb = ckci_round_up(t.xb / 2, CKCI_LINE);
        }
        for (;;) {
            t.lines = ckci_line_bytes(v, t.yb, t.xb, t.chunk);
            t.sums = ckci_line_up((t.chunk ? t.yb : 1) * (t.xb + CKCI_LINE) * lanes * size);
            if (ckci_saturating_add(t.lines, t.sums + t.table) <= room || (t.yb == 1 && t.xb <= CKCI_LINE)) {
                break;
            }
            if (t.yb > 1 && (t.yb > 4 || t.xb <= 4 * CKCI_LINE)) {
                t.yb = ckci_ceil_div(t.yb, 2);
            } else if (t.xb > CKCI_LINE) {
                t.xb = ckci_max(ckci_round_up(t.xb / 2, CKCI_LINE), CKCI_LINE);
            } else {
                t.yb = ckci_ceil_div(t.yb, 2);
            }
        }
        t.scratch = ckci_saturating_add(t.lines, ckci_line_up(t.sums + t.table + CKCI_LINE * lanes * size));
        t.threads = threads;
        t.bytes = stack ? (t.scratch <= CKCI_STACK ? 0 : CKCI_MAX_BYTES) : ckci_total(t.packed, t.scratch, 1);
        if (t.bytes <= limit && t.lines < CKCI_MAX_BYTES / 4) {
            if (!stack) {
                t.threads = ckci_threads_within(limit, t.packed, t.scratch, threads);
                t.bytes = ckci_total(t.packed, t.scratch, t.threads);
            }
            break;
        }
    }
    while (t.yb > 4 && ckci_line_block(v, t.yb * t.xb) > CKCI_NEAR) {
        t.yb = ckci_ceil_div(t.yb, 2);
    }
    t.blocks_y = ckci_ceil_div(axis[1].count, t.yb);
    t.blocks_x = ckci_ceil_div(axis[2].count, t.xb);
    t.items = v->p->n * axis[0].count * v->phases[0] * v->phases[1] * v->phases[2];
    t.items = ckci_saturating_mul(t.items, t.blocks_y * t.blocks_x);
    /* blocks of lanes lie side by side in memory */
    t.sets = ckci_min(t.blocks, ckci_ceil_div(8 * (int64_t)threads, ckci_max(t.items, 1)));
    t.some = ckci_ceil_div(t.blocks, t.sets);
    t.sets = ckci_ceil_div(t.blocks, t.some);
    t.items = ckci_saturating_mul(t.items, t.sets);
    return t;
}

typedef struct ckci_direct_job {
    ckci_view v;
    ckci_direct_tiles t;
    ckci_target target;
    unsigned char *packed;
} ckci_direct_job;

/* Weights of lane block `l` for the taps of three axes: dst[tap][channel][lane], the order of the tap
   table. */
CKCI_FN void ckci_pack_lanes(const ckci_view *v, const ckci_axis axis[3], const ckci_lanes *l,
                             unsigned char *dst)
{
    double buffer[CKCI_SPAN];
    const ckci_tensor *w = &v->p->t[CKCI_WEI];
    int64_t size = v->kind->size, lanes = v->k->lanes;
    for (int64_t row = 0; row < axis[0].taps * axis[1].taps; row++) {
        int64_t jz = row / axis[1].taps, jy = row % axis[1].taps;
        int64_t place = (axis[0].tap0 + jz * axis[0].tap_step) * w->stride[3] +
                        (axis[1].tap0 + jy * axis[1].tap_step) * w->stride[4] + axis[2].tap0 * w->stride[5];
        for (int64_t c = 0; c < v->red; c++) {
            for (int64_t lane = 0; lane < lanes; lane++) {
                int64_t at = place + l->group[lane] * w->stride[0] + l->column[lane] * w->stride[v->wei_col] +
                             (v->pairs ? 2 * c : c) * w->stride[v->wei_red];
                for (int64_t j = 0; j < axis[2].taps; j += CKCI_SPAN) {
                    int64_t n = ckci_min(CKCI_SPAN, axis[2].taps - j), step = axis[2].tap_step * w->stride[5];
                    if (lane < l->count && v->pairs) {
                        for (int64_t i = 0; i < n; i++) {
                            const unsigned char *from = w->p + (at + (j + i) * step) * 2;
                            memcpy((unsigned char *)buffer + i * 4, from, 2);
                            memcpy((unsigned char *)buffer + i * 4 + 2, from + w->stride[v->wei_red] * 2, 2);
                        }
                    } else if (lane < l->count) {
                        v->kind->read(w, at + j * step, step, n, buffer);
                    } else {
                        ckci_clear(v->kind, buffer, n);
                    }
                    ckci_scatter(v->kind,
                                 dst + (((row * v->red + c) * axis[2].taps + j) * lanes + lane) * size, lanes,
                                 buffer, n);
                }
            }
        }
    }
}

/* Packed weights of a phase begin here; see ckci_taps_before. */
CKCI_FN unsigned char *ckci_direct_weights(const ckci_direct_job *job, int64_t block, int64_t phase)
{
    const ckci_view *v = &job->v;
    int64_t before = v->phases[0] * v->phases[1] * v->phases[2] == 1 ? 0 : ckci_taps_before(v, phase);
    return job->packed + (block * v->taps + before) * v->red * v->k->lanes * v->kind->size;
}

CKCI_FN void ckci_direct_pack_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_direct_job *job = (const ckci_direct_job *)context;
    int64_t phases = job->v.phases[0] * job->v.phases[1] * job->v.phases[2];
    ckci_lanes l = ckci_make_lanes(&job->v, item / phases);
    ckci_axis axis[3];
    (void)scratch;
    ckci_phase(&job->v, item % phases, axis);
    if (axis[0].taps * axis[1].taps * axis[2].taps > 0) {
        ckci_pack_lanes(&job->v, axis, &l, ckci_direct_weights(job, item / phases, item % phases));
    }
}

/* Finished sums of one row, [x][lane], to the written tensor. */
CKCI_FN void ckci_write_lanes(const ckci_view *v, const ckci_target *o, const ckci_lanes *l, int64_t n,
                              int64_t z, int64_t y, int64_t x0, int64_t count, const unsigned char *src)
{
    double buffer[CKCI_SPAN];
    int64_t size = v->kind->size, lanes = v->k->lanes, at[6];
    int flat = v->cols == 1 || l->groups == 1, along_x = o->t.stride[5] < o->t.stride[v->cols == 1 ? 0 : 2];
    int axis = v->cols == 1 ? 0 : 2;
    if (!flat) {
        flat = o->t.stride[0] == v->cols * o->t.stride[2];
        for (int32_t j = 0; j < o->num_d; j++) {
            flat = flat && o->d[j].stride[0] == v->cols * o->d[j].stride[2];
        }
    }
    at[0] = l->group[0];
    at[1] = n;
    at[2] = l->column[0];
    at[3] = z;
    at[4] = y;
    at[5] = x0;
    int how = flat && o->t.stride[axis] == 1 ? ckci_plain_store(v, o) : 0;
    if (how) {
        ckci_store_rows(v, how, count, l->count, src, lanes,
                        o->t.p + ckci_offset(o->t.stride, at) * (int64_t)ckci_size(o->t.dtype),
                        o->t.stride[5]);
        return;
    }
    if (flat && !along_x) {
        for (int64_t x = 0; x < count; x++) {
            at[5] = x0 + x;
            v->kind->write(o, at, axis, l->count, src + x * lanes * size);
        }
        return;
    }
    for (int64_t x = 0; x < count && !along_x; x++) {
        at[5] = x0 + x;
        for (int64_t lane = 0, run; lane < l->count; lane += run) {
            run = ckci_min(v->cols - l->column[lane], l->count - lane);
            at[0] = l->group[lane];
            at[2] = l->column[lane];
            v->kind->write(o, at, 2, run, src + (x * lanes + lane) * size);
        }
    }
    for (int64_t lane = 0; lane < l->count && along_x; lane++) {
        at[0] = l->group[lane];
        at[2] = l->column[lane];
        for (int64_t x = 0; x < count; x += CKCI_SPAN) {
            int64_t run = ckci_min(CKCI_SPAN, count - x);
            at[5] = x0 + x;
            ckci_collect(v->kind, buffer, src + (x * lanes + lane) * size, lanes, run);
            v->kind->write(o, at, 5, run, buffer);
        }
    }
}

/* Tap tables of filter rows: `threes` entries of three taps each for a row, all rows' one after the other,
   then `ones` single taps for a row. w_step: from tap to tap in reading order. */
typedef struct ckci_line_taps {
    int64_t threes, ones, w_step;
    const int32_t *three, *one;
} ckci_line_taps;

/* One stretch of an output row: the taps of filter rows [from, to) for `count` outputs. */
CKCI_FN void ckci_run_line(const ckci_kernels *k, int64_t size, int64_t from, int64_t to,
                           const ckci_line_taps *taps, const unsigned char *x, const unsigned char *w,
                           unsigned char *acc, int64_t count, int add)
{
    int32_t all[CKCI_EDGES] = {0, 0, 0, 0, 0, 0, 0};
    all[0] = (int32_t)((to - from) * taps->ones);
    for (int64_t i = 0; i < count;) {
        int64_t rest = count - i, step = rest > 7 ? 14 : rest > 4 ? 7 : 4, at = i * k->lanes * size;
        ckci_line_kernel kernel = step == 14 ? k->line14 : step == 7 ? k->line7 : k->line4;
        if (taps->threes) {
            (step == 14 ? k->three14 : k->three7)((to - from) * taps->threes,
                                                  taps->three + 4 * from * taps->threes, x + at, k->lanes, w,
                                                  taps->w_step, acc + at, k->lanes, add);
        }
        if (taps->ones) {
            kernel(all, taps->one + 2 * from * taps->ones, x + at, k->lanes, w, acc + at, k->lanes,
                   add || taps->threes);
        }
        i += step;
    }
}

/* The tables of a chunk, to `table`: 8 bytes for each tap and channel are enough. */
CKCI_FN ckci_line_taps ckci_find_line_taps(const ckci_view *v, const ckci_axis *axis, const ckci_window *wy,
                                           const ckci_window *wx, int32_t *table)
{
    ckci_line_taps t;
    int64_t lanes = v->k->lanes, channel = wx->planes * wx->width * lanes, row = v->red * channel;
    int64_t rows = axis[0].taps * axis[1].taps, taps = axis[2].taps;
    int neighbours = v->k->three14 && wx->step == 1 && (wx->tap == 1 || wx->tap == -1) && !wx->separate;
    int64_t whole = neighbours ? taps / 3 : 0;
    t.threes = v->red * whole;
    t.ones = v->red * (taps - 3 * whole);
    t.w_step = wx->tap < 0 ? -lanes : lanes;
    t.three = table;
    t.one = table + 4 * rows * t.threes;
    int32_t *three = table, *one = table + 4 * rows * t.threes;
    for (int64_t r = 0; r < rows * v->red; r++) {
        int64_t jz = r / v->red / axis[1].taps, jy = r / v->red % axis[1].taps;
        int64_t at = (jz * wy->planes * wy->width + ckci_window_tap(wy, jy)) * row + r % v->red * channel;
        for (int64_t i = 0; i < whole; i++) {
            int64_t jx = wx->tap < 0 ? 3 * i + 2 : 3 * i; /* reads the first of three positions */
            *three++ = (int32_t)(at + ckci_window_tap(wx, jx) * lanes);
            *three++ = (int32_t)((r * taps + jx) * lanes);
            *three++ = 0;
            *three++ = CKCI_LINE + 2;
        }
        for (int64_t jx = 3 * whole; jx < taps; jx++) {
            *one++ = (int32_t)(at + ckci_window_tap(wx, jx) * lanes);
            *one++ = (int32_t)((r * taps + jx) * lanes);
        }
    }
    return t;
}

/* The tap table of one chunk of filter rows, then all rows of the tile, each after the lines that it is the
   first to read, which are in L1 then. Filter rows that fall outside the tensor for an output row are
   skipped: taps of one filter row are consecutive in the table. */
CKCI_FN void ckci_direct_chunk(const ckci_direct_job *job, const ckci_axis axis[3], const ckci_lanes *l,
                               int64_t n, const int64_t q[3], int64_t yb, int64_t xb,
                               const unsigned char *weights, int add, const ckci_target *finished,
                               unsigned char *scratch)
{
    const ckci_view *v = &job->v;
    const ckci_direct_tiles *t = &job->t;
    int64_t size = v->kind->size, lanes = v->k->lanes;
    unsigned char *lines = scratch, *sums = lines + t->lines + CKCI_LINE * lanes * size;
    int32_t *table = (int32_t *)(void *)(sums + t->sums);
    ckci_window wy = ckci_make_window(&axis[1], q[1], yb), wx = ckci_make_window(&axis[2], q[2], xb);
    int64_t row = v->red * wx.planes * wx.width * lanes, slots = wy.planes * wy.width;
    int64_t apart, later;
    ckci_window_repeat(&wy, &apart, &later);
    ckci_line_taps taps = ckci_find_line_taps(v, axis, &wy, &wx, table);
    for (int64_t i = 0; i < yb; i++) {
        const unsigned char *x = lines + i * row * size;
        unsigned char *acc = finished ? sums : sums + i * (t->xb + CKCI_LINE) * lanes * size;
        int64_t from, to;
        int started = add;
        ckci_inside((q[1] + i) * axis[1].read_step + axis[1].read0, axis[1].read_tap, axis[1].taps,
                    axis[1].read_len, &from, &to);
        for (int64_t jz = 0; jz < axis[0].taps; jz++) {
            int64_t z = q[0] * axis[0].read_step + axis[0].read0 + jz * axis[0].read_tap;
            if (z >= 0 && z < axis[0].read_len && to > from) {
                int64_t first = jz * axis[1].taps;
                for (int64_t jy = from; jy < to; jy++) {
                    int64_t before = wy.tap < 0 ? jy - apart : jy + apart;
                    if (i < later || before < 0 || before >= axis[1].taps) {
                        int64_t s = ckci_window_tap(&wy, jy) + i;
                        ckci_gather_line(v, v->read, l, &wx, n, z,
                                         ckci_window_position(&wy, s / wy.width, s % wy.width),
                                         lines + (jz * slots + s) * row * size);
                    }
                }
                ckci_run_line(v->k, size, first + from, first + to, &taps, x, weights, acc, xb, started);
                started = 1;
            }
        }
        if (!started) {
            ckci_clear(v->kind, acc, xb * lanes);
        }
        if (finished) {
            ckci_write_lanes(v, finished, l, n, q[0], q[1] + i, q[2], xb, acc);
        }
    }
}

/* ---- Depthwise straight from the tensor, without lines, where a vector of lanes is a vector of it. */
typedef struct ckci_stretch {
    int64_t threes;      /* in each filter row; the other taps are read one by one */
    int64_t at, outputs; /* 14 or 7 outputs of a row from `at` on; they may overlap the one before */
    unsigned char edge[CKCI_SPAN]; /* for each tap in x: which count of a line kernel; CKCI_EDGES: of none */
} ckci_stretch;

/* The stretch of a row of xb outputs that begins at `at` or, at the end, before. 0: kernels cannot do it. */
CKCI_FN int ckci_find_stretch(const ckci_axis *ax, int64_t q, int64_t at, int64_t xb, ckci_stretch *s)
{
    s->outputs = xb - at > 7 && xb >= 14 ? 14 : 7;
    s->at = ckci_min(at, xb - s->outputs);
    for (int64_t j = 0; j < ax->taps; j++) {
        int64_t from, to, lack;
        ckci_inside((q + s->at) * ax->read_step + ax->read0 + j * ax->read_tap, ax->read_step, s->outputs,
                    ax->read_len, &from, &to);
        lack = s->outputs - to;
        if (from < to && (from > 3 || lack > 3 || (from > 0 && lack > 0))) {
            return 0;
        }
        s->edge[j] = (unsigned char)(from == to ? (int64_t)CKCI_EDGES : lack > 0 ? lack + 3 : from);
    }
    s->threes = ax->read_step == 1 && (ax->read_tap == 1 || ax->read_tap == -1) ? ax->taps / 3 : 0;
    for (int64_t j = 0; j < 3 * s->threes; j++) {
        s->threes = s->edge[j] == CKCI_EDGES ? 0 : s->threes;
    }
    return 1;
}

/* Taps first[] <= (z, y) < last[], in x those that are not read by threes: their table for outputs of one
   stretch of a row, sorted by edge. */
CKCI_FN void ckci_stretch_table(const ckci_view *v, const ckci_axis axis[3], const ckci_stretch *s,
                                const int64_t first[2], const int64_t last[2], int32_t *table,
                                int32_t count[CKCI_EDGES])
{
    const int64_t *stride = v->read->stride;
    int64_t z_step = axis[0].read_tap * stride[3], y_step = axis[1].read_tap * stride[4],
            x_step = axis[2].read_tap * stride[5], lanes = v->k->lanes;
    for (int edge = 0; edge < CKCI_EDGES; edge++) {
        const int32_t *begin = table;
        for (int64_t jx = 3 * s->threes; jx < axis[2].taps; jx++) {
            for (int64_t jz = first[0]; jz < last[0] && s->edge[jx] == edge; jz++) {
                for (int64_t jy = first[1]; jy < last[1]; jy++) {
                    *table++ = (int32_t)(jz * z_step + jy * y_step + jx * x_step);
                    *table++ = (int32_t)(((jz * axis[1].taps + jy) * axis[2].taps + jx) * lanes);
                }
            }
        }
        count[edge] = (int32_t)((table - begin) / 2);
    }
}

/* The table of those that are. Returns their number. */
CKCI_FN int64_t ckci_stretch_threes(const ckci_view *v, const ckci_axis axis[3], const ckci_stretch *s,
                                    int64_t q, const int64_t first[2], const int64_t last[2], int32_t *table)
{
    const int64_t *stride = v->read->stride;
    const int32_t *begin = table;
    for (int64_t jz = first[0]; jz < last[0]; jz++) {
        for (int64_t j = first[1]; j < last[1]; j++) {
            int64_t jy = axis[1].read_tap < 0 ? first[1] + last[1] - 1 - j : j; /* memory upwards */
            for (int64_t i = 0; i < s->threes; i++) {
                int64_t jx = axis[2].read_tap < 0 ? 3 * i + 2 : 3 * i;
                int64_t low = q + s->at + axis[2].read0 + jx * axis[2].read_tap;
                *table++ = (int32_t)(jz * axis[0].read_tap * stride[3] + jy * axis[1].read_tap * stride[4] +
                                     jx * axis[2].read_tap * stride[5]);
                *table++ = (int32_t)(((jz * axis[1].taps + jy) * axis[2].taps + jx) * v->k->lanes);
                *table++ = (int32_t)ckci_max(-low, 0);
                *table++ = (int32_t)ckci_min(axis[2].read_len - low, CKCI_LINE + 2);
            }
        }
    }
    return (table - begin) / 4;
}

/* How many outputs from q on, before `end`, have the same valid taps, [*first, *last). */
CKCI_FN int64_t ckci_same_taps(const ckci_axis *a, int64_t q, int64_t end, int64_t *first, int64_t *last)
{
    int64_t low = q * a->read_step + a->read0, n = 0, other_first, other_last;
    ckci_inside(low, a->read_tap, a->taps, a->read_len, first, last);
    do {
        n++;
        low += a->read_step;
        ckci_inside(low, a->read_tap, a->taps, a->read_len, &other_first, &other_last);
    } while (q + n < end && other_first == *first && other_last == *last);
    return n;
}

/* Vectors of lanes are vectors of t, which is one of the tensors of a depthwise convolution. */
CKCI_FN int ckci_lanes_lie(const ckci_view *v, const ckci_tensor *t, const ckci_axis axis[3])
{
    int64_t reach = 0;
    for (int i = 0; i < 3; i++) {
        int64_t tap = axis[i].read_tap < 0 ? -axis[i].read_tap : axis[i].read_tap;
        reach = ckci_saturating_add(
            reach, ckci_saturating_mul(ckci_saturating_mul(tap, axis[i].taps), t->stride[3 + i]));
    }
    return v->red == 1 && v->cols == 1 && t->stride[0] == 1 && reach < (int64_t)1 << 30 &&
           ((v->k->half14 && ckci_is_bf16(v, t)) ||
            (t->plain && t->dtype == v->kind->dtype && (uintptr_t)t->p % (uintptr_t)v->kind->size == 0));
}

/* Whether rows of xb outputs from q on are read in place, of all blocks that fill their lanes. */
CKCI_FN int ckci_reads_in_place(const ckci_view *v, const ckci_axis axis[3], int64_t q, int64_t xb)
{
    ckci_stretch s;
    if (!ckci_lanes_lie(v, v->read, axis) || xb < 7 || axis[2].taps > 16 ||
        axis[0].taps * axis[1].taps * axis[2].taps == 0) {
        return 0;
    }
    for (int64_t x = 0; x < xb; x = s.at + s.outputs) {
        if (!ckci_find_stretch(&axis[2], q, x, xb, &s)) {
            return 0;
        }
    }
    return 1;
}

/* The tile at q for blocks [block, end), which fill their lanes; they share tap tables. */
CKCI_FN void ckci_direct_in_place(const ckci_direct_job *job, const ckci_axis axis[3], int64_t phase,
                                  int64_t n, const int64_t q[3], int64_t block, int64_t end,
                                  unsigned char *scratch)
{
    const ckci_view *v = &job->v;
    const ckci_direct_tiles *t = &job->t;
    const ckci_tensor *from = v->read;
    int64_t yb = ckci_min(t->yb, axis[1].count - q[1]), xb = ckci_min(t->xb, axis[2].count - q[2]);
    int64_t size = v->kind->size, lanes = v->k->lanes, y_step = xb * lanes, x_step = lanes, b_step = 0;
    /* sums need no more room than the lines that are not gathered */
    unsigned char *out = scratch;
    int32_t *table = (int32_t *)(void *)(scratch + t->lines + CKCI_LINE * lanes * size + t->sums);
    int32_t count[CKCI_EDGES];
    ckci_tensor d[4];
    ckci_target o = ckci_phase_target(&job->target, axis, d);
    int how = o.t.stride[0] == 1 ? ckci_plain_store(v, &o) : 0;
    int64_t out_size = how ? (int64_t)ckci_size(o.t.dtype) : size;
    if (how) {
        y_step = o.t.stride[4];
        x_step = o.t.stride[5];
        b_step = lanes;
        out = o.t.p +
              (block * lanes + n * o.t.stride[1] + q[0] * o.t.stride[3] + q[1] * y_step + q[2] * x_step) *
                  out_size;
    } else if (end > block + 1) {
        for (; block < end; block++) { /* there is room for the sums of one */
            ckci_direct_in_place(job, axis, phase, n, q, block, block + 1, scratch);
        }
        return;
    }
    ckci_stretch s;
    int half = from->dtype == CKCONV_BF16;
    int64_t from_size = (int64_t)ckci_size(from->dtype);
    int64_t first[2], last[2];
    int64_t base =
        block * lanes + n * from->stride[1] + (q[0] * axis[0].read_step + axis[0].read0) * from->stride[3];
    const unsigned char *weights = ckci_direct_weights(job, block, phase);
    int64_t weights_step = ckci_direct_weights(job, 1, phase) - ckci_direct_weights(job, 0, phase);
    ckci_inside(q[0] * axis[0].read_step + axis[0].read0, axis[0].read_tap, axis[0].taps, axis[0].read_len,
                &first[0], &last[0]);
    for (int64_t x = 0; x < xb; x = s.at + s.outputs) {
        ckci_find_stretch(&axis[2], q[2], x, xb, &s);
        int whole = s.outputs == 14;
        ckci_line_kernel kernel =
            whole ? (half ? v->k->half14 : v->k->line14) : (half ? v->k->half7 : v->k->line7);
        ckci_three_kernel three =
            whole ? (half ? v->k->half_three14 : v->k->three14) : (half ? v->k->half_three7 : v->k->three7);
        s.threes = three ? s.threes : 0;
        int64_t x_at = ((q[2] + s.at) * axis[2].read_step + axis[2].read0) * from->stride[5];
        for (int64_t y = 0, rows; y < yb; y += rows) {
            int64_t low = (q[1] + y) * axis[1].read_step + axis[1].read0;
            rows = ckci_same_taps(&axis[1], q[1] + y, q[1] + yb, &first[1], &last[1]);
            int64_t threes = ckci_stretch_threes(v, axis, &s, q[2], first, last, table);
            int32_t *ones = table + 4 * threes;
            ckci_stretch_table(v, axis, &s, first, last, ones, count);
            /* of bf16 two blocks at once: a cache line */
            int64_t beside = how > 1 ? 2 : 1, step = how > 1 ? 2 * lanes : x_step;
            for (int64_t i = 0; i < ckci_ceil_div(end - block, beside) * rows; i++) {
                int64_t b = i / rows * beside, row = i % rows, some = ckci_min(beside, end - block - b);
                unsigned char *to = out + ((y + row) * y_step + s.at * x_step + b * b_step) * out_size;
                for (int64_t j = b; j < b + some; j++) {
                    /* the place of tap 0 may lie outside the tensor: added to it as a number */
                    int64_t place =
                        base + j * lanes + x_at + (low + row * axis[1].read_step) * from->stride[4];
                    unsigned char *sums = how > 1 ? scratch + (j - b) * lanes * size : to;
                    const unsigned char *w = weights + j * weights_step;
                    const void *in = (const void *)((uintptr_t)from->p + (uintptr_t)(place * from_size));
                    if (threes > 0) {
                        three(threes, table, in, from->stride[5], w, axis[2].read_tap * lanes, sums, step, 0);
                    }
                    if (threes == 0 || axis[2].taps > 3 * s.threes) {
                        kernel(count, ones, in, axis[2].read_step * from->stride[5], w, sums, step,
                               threes > 0);
                    }
                }
                if (how > 1) {
                    ckci_store_rows(v, how, s.outputs, some * lanes, scratch, step, to, x_step);
                }
            }
        }
    }
    ckci_lanes l = ckci_make_lanes(v, block);
    for (int64_t y = 0; y < yb && !how; y++) {
        ckci_write_lanes(v, &o, &l, n, q[0], q[1] + y, q[2], xb, out + y * y_step * size);
    }
}

/* Reads a byte of every cache line of outputs q.. (or, of the tensor that is gathered, all that they need):
   blocks of lanes that follow each other walk strips of memory a vector at a time, which the processor does
   not fetch ahead; this it does. */
CKCI_FN void ckci_touch(const ckci_view *v, const ckci_tensor *t, int gathered, const ckci_axis axis[3],
                        int64_t n, const int64_t q[3], int64_t yb, int64_t xb, int64_t block, int64_t end)
{
    int64_t from[3], count[3], size = (int64_t)ckci_size(t->dtype), per_group = gathered ? v->red : v->cols;
    int64_t first = block * v->k->lanes / v->cols,
            channels = (end - block) * v->k->lanes / v->cols * per_group;
    if (end == block + 1 || (per_group > 1 && t->stride[2] != 1) || t->stride[0] != per_group ||
        t->len[0] * t->len[1] * t->len[2] * t->len[3] * t->len[4] * t->len[5] * size < CKCI_FAR) {
        return;
    }
    channels = ckci_min(channels, (t->len[0] - first) * per_group);
    for (int i = 0; i < 3; i++) {
        int64_t outputs = i == 0 ? 1 : i == 1 ? yb : xb, low = q[i], high = q[i] + outputs;
        if (gathered) {
            int64_t reach = (axis[i].taps - 1) * axis[i].read_tap;
            low = q[i] * axis[i].read_step + axis[i].read0;
            high = low + (outputs - 1) * axis[i].read_step + 1 + ckci_max(reach, 0);
            low += ckci_min(reach, 0);
        }
        from[i] = ckci_max(low, 0);
        count[i] = ckci_min(high, t->len[3 + i]) - from[i];
    }
    for (int64_t row = 0; row < ckci_max(count[0], 0) * ckci_max(count[1], 0); row++) {
        int64_t z = from[0] + row / count[1], y = from[1] + row % count[1];
        const unsigned char *p = t->p + (first * per_group + n * t->stride[1] + z * t->stride[3] +
                                         y * t->stride[4] + from[2] * t->stride[5]) *
                                            size;
        for (int64_t x = 0; x < count[2]; x++, p += t->stride[5] * size) {
            for (int64_t b = 0; b < channels * size; b += 64) {
                (void)*(const volatile unsigned char *)(p + b);
            }
        }
    }
}

/* The tile at q of phase `axis` of entry n, for one block of lanes. */
CKCI_FN void ckci_direct_block(const ckci_direct_job *job, const ckci_axis axis[3], int64_t phase, int64_t n,
                               const int64_t q[3], int64_t block, unsigned char *scratch)
{
    const ckci_view *v = &job->v;
    const ckci_direct_tiles *t = &job->t;
    int64_t size = v->kind->size, lanes = v->k->lanes;
    int64_t yb = ckci_min(t->yb, axis[1].count - q[1]), xb = ckci_min(t->xb, axis[2].count - q[2]);
    ckci_axis part[3];
    ckci_lanes l = ckci_make_lanes(v, block);
    ckci_tensor d[4];
    ckci_target o = ckci_phase_target(&job->target, axis, d);
    if (axis[0].taps * axis[1].taps * axis[2].taps == 0) {
        /* no tap reaches this phase: the epilogue of 0 */
        memcpy(part, axis, sizeof part);
        part[0].taps = 0;
        part[1].taps = part[2].taps = 1;
        ckci_direct_chunk(job, part, &l, n, q, yb, xb, NULL, 0, &o, scratch);
        return;
    }
    if (!t->chunk) {
        ckci_direct_chunk(job, axis, &l, n, q, yb, xb, ckci_direct_weights(job, block, phase), 0, &o,
                          scratch);
        return;
    }
    unsigned char *sums = scratch + t->lines + CKCI_LINE * lanes * size;
    unsigned char *weights = sums + t->sums + ckci_line_up(v->p->filter[2] * v->red * 8);
    for (int64_t row = 0; row < axis[0].taps * axis[1].taps; row++) {
        memcpy(part, axis, sizeof part);
        ckci_filter_row(part, row);
        ckci_pack_lanes(v, part, &l, weights);
        ckci_direct_chunk(job, part, &l, n, q, yb, xb, weights, row > 0, NULL, scratch);
    }
    for (int64_t i = 0; i < yb; i++) {
        ckci_write_lanes(v, &o, &l, n, q[0], q[1] + i, q[2], xb,
                         sums + i * (t->xb + CKCI_LINE) * lanes * size);
    }
}

/* One item owns a tile of one output plane for some blocks of lanes. */
CKCI_FN void ckci_direct_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_direct_job *job = (const ckci_direct_job *)context;
    const ckci_view *v = &job->v;
    const ckci_direct_tiles *t = &job->t;
    int64_t phases = v->phases[0] * v->phases[1] * v->phases[2];
    ckci_axis axis[3];
    int64_t q[3], rest = item, block = rest % t->sets * t->some, end = ckci_min(block + t->some, t->blocks);
    rest /= t->sets;
    int64_t phase = rest % phases; /* phases of one place share its cache lines */
    rest /= phases;
    q[2] = rest % t->blocks_x * t->xb;
    rest /= t->blocks_x;
    q[1] = rest % t->blocks_y * t->yb;
    rest /= t->blocks_y;
    int64_t n = rest % v->p->n;
    q[0] = rest / v->p->n;
    ckci_phase(v, phase, axis);
    if (q[0] < axis[0].count && q[1] < axis[1].count && q[2] < axis[2].count) {
        int64_t yb = ckci_min(t->yb, axis[1].count - q[1]), xb = ckci_min(t->xb, axis[2].count - q[2]);
        ckci_tensor d[4];
        ckci_target o = ckci_phase_target(&job->target, axis, d);
        if (phase == 0) {
            ckci_touch(v, v->read, 1, axis, n, q, yb, xb, block, end);
        }
        ckci_touch(v, &o.t, 0, axis, n, q, yb, xb, block, end);
        int64_t full = ckci_min(end, v->p->g * v->cols / v->k->lanes);
        if (!t->chunk && full > block && ckci_reads_in_place(v, axis, q[2], xb)) {
            ckci_direct_in_place(job, axis, phase, n, q, block, full, scratch);
            block = full;
        }
        for (; block < end; block++) {
            ckci_direct_block(job, axis, phase, n, q, block, scratch);
        }
    }
}

CKCI_FN double ckci_direct_cost(const ckci_view *v, const ckci_direct_tiles *t)
{
    double phases = (double)(v->phases[0] * v->phases[1] * v->phases[2]);
    double positions = (double)ckci_most_rows(v) * phases, taps = (double)v->taps * (double)v->red / phases;
    double spread = (double)v->red * (v->red == 1 && v->cols == 1 ? 2 : 4) * (1 + 2.0 / (double)t->yb);
    double store = v->k->half14 && v->k->zip ? 2 : 3;
    return (double)t->blocks * positions * (taps * 1.25 + spread + store) + 4000;
}

/* Shapes that the direct family takes. */
CKCI_FN ckconv_status ckci_direct_takes(const ckci_view *v, ckconv_error *err)
{
    if (v->red > CKCI_DIRECT_RED) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "direct takes %d channels per group in the reduction at most, here %lld",
                         CKCI_DIRECT_RED, CKCI_LL(v->red));
    }
    if (v->taps > 65536) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "direct takes 65536 taps at most, here %lld",
                         CKCI_LL(v->taps));
    }
    if (v->p->op != CKCONV_BWD_WEIGHT && v->taps * v->red > CKCI_LONG) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "direct adds %d channels x taps at most one after the other, here %lld", CKCI_LONG,
                         CKCI_LL(v->taps * v->red));
    }
    for (int i = 0; i < 3; i++) {
        if (v->p->stride[i] > 65536 || v->p->dilation[i] > 65536 || v->phases[i] > 64) {
            return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                             "direct takes strides of 65536 (bwd_data: 64) and dilations of 65536 at most, "
                             "here %lld and %lld",
                             CKCI_LL(v->p->stride[i]), CKCI_LL(v->p->dilation[i]));
        }
    }
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_fit_direct_view(ckci_fit *f, const ckci_view *v, ckconv_error *err)
{
    CKCI_TRY(ckci_direct_takes(v, err));
    ckci_direct_tiles t = ckci_find_direct_tiles(v, f->plan->device.threads, f->limit);
    if (t.bytes > f->limit || t.lines > ((int64_t)1 << 30)) {
        return ckci_over_limit("direct, a line of this shape", t.bytes, err);
    }
    f->plan->workspace_bytes = t.bytes;
    f->plan->block[0] = t.threads;
    f->plan->grid[0] = t.items;
    f->plan->launches = t.packed ? 2 : 1;
    f->cost = ckci_direct_cost(v, &t);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_fit_direct(ckci_fit *f, ckconv_error *err)
{
    ckci_view v = ckci_make_view(&f->p->conv, f->features);
    if (f->split_k > 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "split_k is %d: fwd and bwd_data instances do not split", (int)f->split_k);
    }
    return ckci_fit_direct_view(f, &v, err);
}

CKCI_FN void ckci_run_direct_job(ckci_direct_job *job, unsigned char *ws)
{
    const ckci_view *v = &job->v;
    int32_t threads = job->t.threads;
    job->packed = ws;
    if (job->t.packed) {
        ckci_parallel(threads, job->t.blocks * v->phases[0] * v->phases[1] * v->phases[2],
                      ckci_direct_pack_item, job, ws, 0);
    }
    ckci_parallel(threads, job->t.items, ckci_direct_item, job, job->t.bytes ? ws + job->t.packed : NULL,
                  job->t.scratch);
}

CKCI_FN void ckci_run_direct(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                             unsigned char *ws, int32_t features)
{
    ckci_direct_job job;
    (void)args;
    job.v = ckci_make_view(&p->conv, features);
    job.t = ckci_find_direct_tiles(&job.v, plan->device.threads, ckci_plan_limit(plan));
    job.target = ckci_make_target(&p->conv);
    ckci_run_direct_job(&job, ws);
}

/* A bf16 problem as one of pairs of channels, which `paired` becomes, a copy that the view refers to. 0: its
   channels do not pair. */
CKCI_FN int ckci_pair_channels(const ckci_conv *p, ckci_conv *paired, ckci_view *v, int32_t features)
{
    int data = p->op == CKCONV_BWD_DATA, read = data ? CKCI_OUT : CKCI_IN;
    const ckci_tensor *w = &p->t[CKCI_WEI];
    int64_t red = data ? p->k : p->c;
    int pairs = red % 2 == 0 && p->t[read].stride[2] == 1;
    *paired = *p;
    ckci_tensor *t = &paired->t[read];
    pairs = pairs && t->plain && t->dtype == CKCONV_BF16 && w->plain && w->dtype == CKCONV_BF16;
    for (int i = 0; i < 6; i++) {
        pairs = pairs && (i == 2 || t->len[i] == 1 || t->stride[i] % 2 == 0);
        t->stride[i] = i == 2 ? 1 : t->stride[i] / 2;
    }
    t->len[2] /= 2;
    t->dtype = t->compute = CKCONV_F32;
    *(data ? &paired->k : &paired->c) = red / 2;
    *v = ckci_make_view(paired, features);
    v->pairs = 1;
    v->k = ckci_find_pair_kernels(0);
    return pairs && v->k != NULL;
}

/* A depthwise bf16 problem: the view of its own. */
CKCI_FN int ckci_half_lanes(const ckci_conv *p, ckci_view *v, int32_t features)
{
    const ckci_tensor *in = &p->t[CKCI_IN], *out = &p->t[CKCI_OUT];
    *v = ckci_make_view(p, features);
    v->k = ckci_find_pair_kernels(1);
    return v->k != NULL && v->red == 1 && v->cols == 1 && v->kind->dtype == CKCONV_F32 &&
           in->dtype == CKCONV_BF16 && out->dtype == CKCONV_BF16;
}

/* What an instance with dot products sees; 0: it does not take the problem. */
CKCI_FN int ckci_dot_view(const ckci_conv *p, ckconv_family family, ckci_conv *paired, ckci_view *v,
                          int32_t features)
{
    return (family == CKCONV_FAMILY_DIRECT && ckci_half_lanes(p, v, features)) ||
           ckci_pair_channels(p, paired, v, features);
}

CKCI_FN ckconv_status ckci_fit_pairs(ckci_fit *f, ckconv_error *err)
{
    ckci_conv paired;
    ckci_view v;
    if (f->split_k > 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "split_k is %d: fwd and bwd_data instances do not split", (int)f->split_k);
    }
    if (!ckci_dot_view(&f->p->conv, f->family, &paired, &v, f->features)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "bf16 dot products take plain bf16 tensors of an even number of channels, side by "
                         "side, and even strides; direct takes depthwise ones too");
    }
    return f->family == CKCONV_FAMILY_DIRECT ? ckci_fit_direct_view(f, &v, err) : ckci_fit_gather_view(f, &v);
}

CKCI_FN void ckci_run_pairs(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                            unsigned char *ws, int32_t features)
{
    ckci_gather_job job;
    ckci_direct_job line;
    ckci_conv paired;
    ckconv_family family = ckconv_instance_family(plan->instance);
    int64_t limit = ckci_plan_limit(plan);
    (void)args;
    if (!ckci_dot_view(&p->conv, family, &paired, &job.v, features)) {
        return;
    }
    job.target = line.target = ckci_make_target(&p->conv);
    line.v = job.v;
    if (family == CKCONV_FAMILY_DIRECT) {
        line.t = ckci_find_direct_tiles(&line.v, plan->device.threads, limit);
        ckci_run_direct_job(&line, ws);
    } else {
        job.t = ckci_gather_tiles(&job.v, plan->device.threads, limit, -1);
        ckci_run_gather_job(&job, ws);
    }
}


/*------------------------------------------------------------------------------------------------------------
  >>c-direct-weight
  Direct bwd_weight: the same lines, and the gradient's lanes beside them. An item holds the sums of all
  taps (or of one filter row without workspace) of a block of lanes and streams a share of x and dy through
  once.
*/


/* Units whose sums are added up before they go to totals */
CKCI_INLINE int64_t ckci_direct_block_units(const ckci_direct_tiles *t)
{
    return ckci_max(CKCI_NEXT / (t->yb * t->xb), 1);
}

/* A unit is a tile of yb rows and xb columns of one (n, z) plane of outputs. */
CKCI_FN ckci_direct_tiles ckci_find_direct_weight_tiles(const ckci_view *v, int32_t split_k, int32_t threads,
                                                        int64_t limit)
{
    ckci_direct_tiles t;
    ckci_axis axis[3];
    int64_t size = v->kind->size, lanes = v->k->lanes;
    memset(&t, 0, sizeof t);
    ckci_phase(v, 0, axis);
    t.blocks = ckci_ceil_div(v->p->g * v->cols, lanes);
    for (int stack = 0; stack < 2; stack++) {
        int64_t rows = stack ? 1 : v->p->filter[0] * v->p->filter[1];
        t.chunk = stack;
        int64_t room = stack ? CKCI_STACK : 768 * 1024, sums;
        t.table =
            ckci_line_up(ckci_saturating_mul(ckci_round_up(rows * v->p->filter[2] * v->red, CKCI_TAPS), 8));
        sums = ckci_line_up(
            ckci_saturating_mul(ckci_round_up(rows * v->p->filter[2] * v->red, CKCI_TAPS) + 1, lanes * size));
        t.totals = stack && ckci_most_rows(v) > CKCI_NEXT && v->kind->dtype != CKCONV_I32 ? sums : 0;
        t.partial = ckci_saturating_add(sums, t.totals ? ckci_total_bytes(v->kind, sums / size) : 0);
        t.xb = ckci_min(axis[2].count, 448);
        t.yb = ckci_min(axis[1].count, 16);
        for (;;) {
            t.lines = ckci_line_bytes(v, t.yb, t.xb, t.chunk);
            t.sums = ckci_line_up(t.yb * t.xb * lanes * size); /* the gradient's lanes */
            t.scratch = ckci_saturating_add(t.lines, t.sums + t.table + t.partial);
            if (t.scratch <= room || (t.yb == 1 && t.xb <= CKCI_LINE)) {
                break;
            }
            if (t.yb > 1 && (t.yb > 4 || t.xb <= 4 * CKCI_LINE)) {
                t.yb = ckci_ceil_div(t.yb, 2);
            } else if (t.xb > CKCI_LINE) {
                t.xb = ckci_max(ckci_round_up(t.xb / 2, CKCI_LINE), CKCI_LINE);
            } else {
                t.yb = ckci_ceil_div(t.yb, 2);
            }
        }
        while (t.yb > 4 && ckci_line_block(v, t.yb * t.xb) > CKCI_NEAR) {
            t.yb = ckci_ceil_div(t.yb, 2);
        }
        t.blocks_y = ckci_ceil_div(axis[1].count, t.yb);
        t.blocks_x = ckci_ceil_div(axis[2].count, t.xb);
        t.units = v->p->n * axis[0].count * t.blocks_y * t.blocks_x;
        /* by shape alone, so that results do not depend on the threads */
        t.split = stack ? 1 : ckci_max(ckci_min(32, t.units), 1);
        t.split = split_k && !stack ? ckci_max(ckci_min(split_k, t.units), 1) : split_k > 1 ? 2 : t.split;
        if (!stack && ckci_ceil_div(t.units, t.split) > ckci_direct_block_units(&t) &&
            v->kind->dtype != CKCONV_I32) {
            t.totals = sums;
            t.partial = ckci_saturating_add(sums, ckci_total_bytes(v->kind, sums / size));
        }
        t.sets = ckci_min(t.blocks, ckci_ceil_div(8 * (int64_t)threads, t.split));
        t.some = ckci_ceil_div(t.blocks, t.sets);
        t.sets = ckci_ceil_div(t.blocks, t.some);
        t.items = ckci_saturating_mul(t.sets, t.split);
        /* all parts of all blocks */
        t.packed = ckci_saturating_mul(ckci_saturating_mul(t.blocks, t.split), t.partial);
        t.threads = threads;
        t.bytes = ckci_total(t.packed, t.scratch, 1);
        if (stack) {
            t.packed = 0;
            t.bytes = t.scratch <= CKCI_STACK && t.split == 1 ? 0 : CKCI_MAX_BYTES;
            t.items = t.blocks * v->p->filter[0] * v->p->filter[1];
        }
        if (t.bytes <= limit && t.lines < CKCI_MAX_BYTES / 4) {
            if (!stack) {
                t.threads = ckci_threads_within(limit, t.packed, t.scratch, threads);
                t.bytes = ckci_total(t.packed, t.scratch, t.threads);
            }
            break;
        }
    }
    return t;
}

/* Rows of `width` positions, `bytes` each, that stay in L1 and that a kernel may add one after the other */
CKCI_INLINE int64_t ckci_strip(int64_t width, int64_t bytes)
{
    return ckci_max(ckci_min(16384 / bytes, CKCI_CHAIN) / width, 1);
}

/* Sums of the taps of `axis` over units [from, to): acc[tap][lane], taps in the order (z, y, channel, x). */
CKCI_FN void ckci_direct_weight_sums(const ckci_direct_job *job, const ckci_axis axis[3], const ckci_lanes *l,
                                     int64_t from, int64_t to, int add, unsigned char *acc,
                                     unsigned char *scratch)
{
    const ckci_view *v = &job->v;
    const ckci_direct_tiles *t = &job->t;
    const ckci_tensor *dy = &v->p->t[CKCI_OUT];
    int64_t size = v->kind->size, lanes = v->k->lanes,
            taps = axis[0].taps * axis[1].taps * axis[2].taps * v->red;
    unsigned char *lines = scratch, *gradient = lines + t->lines;
    int32_t *offset = (int32_t *)(void *)(gradient + t->sums);
    if (!add) {
        ckci_clear(v->kind, acc, ckci_round_up(taps, CKCI_TAPS) * lanes);
    }
    for (int64_t unit = from; unit < to; unit++) {
        int64_t x0 = unit % t->blocks_x * t->xb, y0 = unit / t->blocks_x % t->blocks_y * t->yb;
        int64_t qz = unit / t->blocks_x / t->blocks_y % axis[0].count,
                n = unit / t->blocks_x / t->blocks_y / axis[0].count;
        int64_t yb = ckci_min(t->yb, axis[1].count - y0), xb = ckci_min(t->xb, axis[2].count - x0);
        ckci_window wy = ckci_make_window(&axis[1], y0, yb), wx = ckci_make_window(&axis[2], x0, xb);
        int64_t row = v->red * wx.planes * wx.width * lanes, slots = wy.planes * wy.width, entry = 0;
        for (int64_t jz = 0; jz < axis[0].taps; jz++) {
            int64_t z = qz * axis[0].read_step + axis[0].read0 + jz * axis[0].read_tap;
            for (int64_t s = 0; s < slots; s++) {
                int64_t y = ckci_window_position(&wy, s / wy.width, s % wy.width);
                if (ckci_window_used(&wy, s / wy.width)) {
                    ckci_gather_line(v, v->read, l, &wx, n, z, y, lines + (jz * slots + s) * row * size);
                }
            }
            for (int64_t jy = 0; jy < axis[1].taps; jy++) {
                for (int64_t c = 0; c < v->red; c++) {
                    for (int64_t jx = 0; jx < axis[2].taps; jx++) {
                        offset[2 * entry] =
                            (int32_t)((jz * slots + ckci_window_tap(&wy, jy)) * row +
                                      (c * wx.planes * wx.width + ckci_window_tap(&wx, jx)) * lanes);
                        offset[2 * entry + 1] = (int32_t)entry;
                        entry++;
                    }
                }
            }
        }
        for (; entry % CKCI_TAPS != 0; entry++) {
            offset[2 * entry] = offset[0];
            offset[2 * entry + 1] = (int32_t)entry;
        }
        /* the gradient is read where it lies if lanes are vectors of it */
        int64_t place = n * dy->stride[1] + qz * dy->stride[3] + y0 * dy->stride[4] + x0 * dy->stride[5];
        int64_t dy_row = xb * lanes, dy_step = lanes;
        const unsigned char *from_dy = gradient;
        if (l->count == lanes && dy->plain && dy->dtype == v->kind->dtype &&
            (v->cols == 1 || dy->stride[2] == 1) && (l->groups == 1 || dy->stride[0] == v->cols) &&
            (uintptr_t)dy->p % (uintptr_t)size == 0) {
            dy_row = dy->stride[4];
            dy_step = dy->stride[5];
            place += l->group[0] * dy->stride[0] + l->column[0] * dy->stride[2];
            from_dy = dy->p + place * size;
        } else {
            for (int64_t i = 0; i < yb; i++) {
                ckci_gather_lanes(v, dy, l, 1, place + i * dy->stride[4], dy->stride[5], xb,
                                  gradient + i * xb * lanes * size, 0);
            }
        }
        /* strips of rows whose gradient stays in L1 for all taps */
        for (int64_t y = 0; y < yb; y += ckci_strip(xb, lanes * size)) {
            int64_t rows = ckci_min(ckci_strip(xb, lanes * size), yb - y);
            for (int64_t i = 0; i < entry; i += CKCI_TAPS) {
                v->k->taps9(rows, xb, lines + y * row * size, row, lanes, offset + 2 * i,
                            from_dy + y * dy_row * size, dy_row, dy_step, acc);
            }
        }
    }
}

/* Sums of the taps of `axis` to dwei, along x taps. */
CKCI_FN void ckci_direct_weight_write(const ckci_direct_job *job, const ckci_axis axis[3],
                                      const ckci_lanes *l, const unsigned char *acc)
{
    double buffer[CKCI_SPAN];
    const ckci_view *v = &job->v;
    int64_t size = v->kind->size, lanes = v->k->lanes, at[6];
    const int64_t *stride = job->target.t.stride;
    int64_t taps = axis[0].taps * axis[1].taps * axis[2].taps;
    if (v->red == 1 && job->target.num_d == 0 && axis[1].taps == v->p->filter[1] && taps <= CKCI_SPAN &&
        stride[5] == 1 && (stride[4] == axis[2].taps || axis[1].taps == 1) &&
        (stride[3] == axis[1].taps * axis[2].taps || axis[0].taps == 1)) {
        /* all taps of a lane are one run */
        at[2] = at[4] = at[5] = 0;
        at[3] = axis[0].tap0;
        for (int64_t lane = 0; lane < l->count; lane++) {
            at[0] = l->group[lane];
            at[1] = l->column[lane];
            ckci_collect(v->kind, buffer, acc + lane * size, lanes, taps);
            v->kind->write(&job->target, at, 5, taps, buffer);
        }
        return;
    }
    for (int64_t lane = 0; lane < l->count; lane++) {
        at[0] = l->group[lane];
        at[1] = l->column[lane];
        for (int64_t row = 0; row < axis[0].taps * axis[1].taps; row++) {
            at[3] = axis[0].tap0 + row / axis[1].taps;
            at[4] = axis[1].tap0 + row % axis[1].taps;
            for (at[2] = 0; at[2] < v->red; at[2]++) {
                for (at[5] = 0; at[5] < axis[2].taps; at[5] += CKCI_SPAN) {
                    int64_t n = ckci_min(CKCI_SPAN, axis[2].taps - at[5]);
                    int64_t from = (row * v->red + at[2]) * axis[2].taps + at[5];
                    ckci_collect(v->kind, buffer, acc + (from * lanes + lane) * size, lanes, n);
                    v->kind->write(&job->target, at, 5, n, buffer);
                }
            }
        }
    }
}

/* Depthwise gradients straight from the tensors: whether a unit falls into few rectangles of outputs with
   the same valid taps. */
CKCI_FN int ckci_sums_in_place(const ckci_view *v, const ckci_axis axis[3], const int64_t q[3], int64_t yb,
                               int64_t xb)
{
    int64_t pieces[3], first, last;
    for (int i = 1; i < 3; i++) {
        int64_t end = q[i] + (i == 1 ? yb : xb);
        pieces[i] = 0;
        for (int64_t at = q[i]; at < end; at += ckci_same_taps(&axis[i], at, end, &first, &last)) {
            pieces[i]++;
        }
    }
    return pieces[1] * pieces[2] <= 9 && v->read->dtype == v->p->t[CKCI_OUT].dtype &&
           ckci_lanes_lie(v, v->read, axis) && ckci_lanes_lie(v, &v->p->t[CKCI_OUT], axis);
}

/* Do three taps read neighbouring positions for `count` outputs from q on, none of them padding but the first
   tap of the first output and the last one of the last? *edges: see ckci_lines_kernel. */
CKCI_FN int ckci_reads_lines(const ckci_axis *a, int64_t q, int64_t count, int *edges)
{
    int64_t low = q * a->read_step + a->read0, high = low + (count + 1) * a->read_step;
    *edges = (low < 0 ? 1 : 0) | (high >= a->read_len ? 2 : 0);
    return a->taps == 3 && a->read_tap == a->read_step && low + a->read_step >= 0 &&
           high - a->read_step < a->read_len;
}

/* The table of taps first[] <= (z, y, x) < last[], offsets from where tap base[] reads, for a kernel of taps
   or of lines. Returns their number; spare ones, whose sums nobody reads, fill the last nine. */
CKCI_FN int64_t ckci_sums_table(const ckci_view *v, const ckci_axis axis[3], const int64_t first[3],
                                const int64_t last[3], const int64_t base[3], int lines, int32_t *table)
{
    const int64_t *stride = v->read->stride;
    int64_t taps = 0, repeat = lines ? 3 : 1;
    for (int64_t jz = first[0]; jz < last[0]; jz++) {
        for (int64_t jy = first[1]; jy < last[1]; jy++) {
            for (int64_t jx = first[2]; jx < last[2]; jx++, taps++) {
                table[2 * taps] = (int32_t)((jz - base[0]) * axis[0].read_tap * stride[3] +
                                            (jy - base[1]) * axis[1].read_tap * stride[4] +
                                            (jx - base[2]) * axis[2].read_tap * stride[5]);
                table[2 * taps + 1] = (int32_t)((jz * axis[1].taps + jy) * axis[2].taps + jx);
            }
        }
    }
    for (; taps % CKCI_TAPS != 0; taps++) {
        table[2 * taps] = table[2 * (taps % repeat)];
        table[2 * taps + 1] = (int32_t)ckci_round_up(v->taps, CKCI_TAPS);
    }
    return taps;
}

/* Adds outputs q.. of entry n to part `part` of blocks [block, end), which fill their lanes. */
CKCI_FN void ckci_add_in_place(const ckci_direct_job *job, const ckci_axis axis[3], int64_t n,
                               const int64_t q[3], int64_t yb, int64_t xb, int64_t block, int64_t end,
                               int64_t part, int32_t *table)
{
    const ckci_view *v = &job->v;
    const ckci_direct_tiles *t = &job->t;
    const ckci_tensor *x = v->read, *dy = &v->p->t[CKCI_OUT];
    int64_t size = v->kind->size, lanes = v->k->lanes, from = (int64_t)ckci_size(x->dtype);
    int64_t first[3], last[3], at[3], rows, width;
    ckci_taps_kernel taps9 = x->dtype == CKCONV_BF16 ? v->k->half_taps9 : v->k->taps9;
    ckci_lines_kernel lines9 = x->dtype == CKCONV_BF16 ? v->k->half_lines9 : v->k->lines9;
    int64_t x_row = axis[1].read_step * x->stride[4], x_step = axis[2].read_step * x->stride[5];
    at[0] = q[0];
    ckci_same_taps(&axis[0], q[0], q[0] + 1, &first[0], &last[0]);
    for (at[1] = q[1]; at[1] < q[1] + yb; at[1] += rows) {
        rows = ckci_same_taps(&axis[1], at[1], q[1] + yb, &first[1], &last[1]);
        for (at[2] = q[2]; at[2] < q[2] + xb; at[2] += width) {
            int64_t x_at = n * x->stride[1], dy_at = n * dy->stride[1], base[3];
            int edges = 0, lines = lines9 && ckci_reads_lines(&axis[2], at[2], q[2] + xb - at[2], &edges);
            width = ckci_same_taps(&axis[2], at[2], q[2] + xb, &first[2], &last[2]);
            memcpy(base, first, sizeof base);
            if (lines) {
                width = q[2] + xb - at[2];
                first[2] = 0;
                last[2] = 3;
            }
            for (int i = 0; i < 3; i++) {
                int64_t low = at[i] * axis[i].read_step + axis[i].read0 + base[i] * axis[i].read_tap;
                x_at += low * x->stride[3 + i];
                dy_at += at[i] * dy->stride[3 + i];
            }
            int64_t taps = ckci_sums_table(v, axis, first, last, base, lines, table);
            /* the longer side inside, or whole lines; the other one in strips */
            int tall = rows > width && !lines;
            int64_t inner = tall ? rows : width, outer = tall ? width : rows;
            int64_t x_in = tall ? x_row : x_step, x_out = tall ? x_step : x_row;
            int64_t dy_in = dy->stride[tall ? 4 : 5], dy_out = dy->stride[tall ? 5 : 4];
            int64_t strip = ckci_strip(inner, lanes * size);
            for (int64_t b = block; b < end && taps > 0; b++) {
                unsigned char *acc = job->packed + (b * t->split + part) * t->partial;
                for (int64_t y = 0; y < outer; y += strip) {
                    const unsigned char *x_p = x->p + (x_at + y * x_out + b * lanes) * from;
                    const unsigned char *dy_p = dy->p + (dy_at + y * dy_out + b * lanes) * from;
                    int64_t some = ckci_min(strip, outer - y);
                    for (int64_t i = 0; i < taps; i += CKCI_TAPS) {
                        const int32_t *nine = table + 2 * i;
                        if (lines) {
                            lines9(some, inner, x_p, x_out, x_in, nine, dy_p, dy_out, dy_in, acc, edges);
                        } else {
                            taps9(some, inner, x_p, x_out, x_in, nine, dy_p, dy_out, dy_in, acc);
                        }
                    }
                }
            }
        }
    }
}

/* Part `part`, units [from, to), of some blocks of lanes, unit by unit: the blocks share cache lines. */
CKCI_FN void ckci_direct_weight_blocks(const ckci_direct_job *job, const ckci_axis axis[3], int64_t block,
                                       int64_t end, int64_t part, int64_t from, int64_t to,
                                       unsigned char *scratch)
{
    const ckci_direct_tiles *t = &job->t;
    const ckci_view *v = &job->v;
    int64_t unit = from, units = t->totals ? ckci_direct_block_units(t) : ckci_max(to - from, 1);
    int64_t numbers = v->taps * v->red * v->k->lanes;
    do {
        int begin = (unit - from) % units == 0;
        int64_t q[3], n = unit / t->blocks_x / t->blocks_y / axis[0].count;
        q[0] = unit / t->blocks_x / t->blocks_y % axis[0].count;
        q[1] = unit / t->blocks_x % t->blocks_y * t->yb;
        q[2] = unit % t->blocks_x * t->xb;
        if (from < to) {
            ckci_touch(v, v->read, 1, axis, n, q, t->yb, t->xb, block, end);
            ckci_touch(v, &v->p->t[CKCI_OUT], 0, axis, n, q, t->yb, t->xb, block, end);
        }
        int64_t yb = ckci_min(t->yb, axis[1].count - q[1]), xb = ckci_min(t->xb, axis[2].count - q[2]);
        int64_t full = ckci_min(end, v->p->g * v->cols / v->k->lanes), b = block;
        if (from < to && full > block && ckci_sums_in_place(v, axis, q, yb, xb)) {
            for (; b < full && begin; b++) {
                ckci_clear(v->kind, job->packed + (b * t->split + part) * t->partial,
                           (t->totals ? t->totals : t->partial) / v->kind->size);
            }
            ckci_add_in_place(job, axis, n, q, yb, xb, block, full, part,
                              (int32_t *)(void *)(scratch + t->lines + t->sums));
            b = full;
        }
        for (; b < end; b++) {
            ckci_lanes l = ckci_make_lanes(v, b);
            ckci_direct_weight_sums(job, axis, &l, unit, ckci_min(unit + 1, to), !begin,
                                    job->packed + (b * t->split + part) * t->partial, scratch);
        }
        int last = unit + 1 == to;
        for (b = block; b < end && t->totals && (last || (unit + 1 - from) % units == 0); b++) {
            unsigned char *acc = job->packed + (b * t->split + part) * t->partial;
            ckci_add_totals(v->kind, acc + t->totals, acc, numbers, unit - from < units);
            if (last) {
                ckci_end_totals(v->kind, acc + t->totals, acc, numbers);
            }
        }
    } while (++unit < to);
}

CKCI_FN void ckci_direct_weight_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_direct_job *job = (const ckci_direct_job *)context;
    const ckci_view *v = &job->v;
    const ckci_direct_tiles *t = &job->t;
    ckci_axis axis[3];
    ckci_phase(v, 0, axis);
    if (!t->chunk) {
        int64_t part = item / t->sets, block = item % t->sets * t->some;
        int64_t share = ckci_ceil_div(t->units, t->split), from = ckci_min(t->units, part * share);
        ckci_direct_weight_blocks(job, axis, block, ckci_min(block + t->some, t->blocks), part, from,
                                  ckci_min(t->units, from + share), scratch);
        return;
    }
    /* without workspace an item owns one filter row of one block of lanes */
    int64_t rows = v->p->filter[0] * v->p->filter[1], row = item % rows;
    ckci_lanes l = ckci_make_lanes(v, item / rows);
    unsigned char *acc = scratch + t->lines + t->sums + t->table;
    axis[0].tap0 = row / v->p->filter[1];
    axis[0].read0 += axis[0].tap0 * axis[0].read_tap;
    axis[1].tap0 = row % v->p->filter[1];
    axis[1].read0 += axis[1].tap0 * axis[1].read_tap;
    axis[0].taps = axis[1].taps = 1;
    int64_t from = 0, units = t->totals ? ckci_direct_block_units(t) : t->units;
    int64_t numbers = axis[2].taps * v->red * v->k->lanes;
    do {
        ckci_direct_weight_sums(job, axis, &l, from, ckci_min(from + units, t->units), 0, acc, scratch);
        if (t->totals) {
            ckci_add_totals(v->kind, acc + t->totals, acc, numbers, from == 0);
        }
        from += units;
    } while (from < t->units);
    if (t->totals) {
        ckci_end_totals(v->kind, acc + t->totals, acc, numbers);
    }
    ckci_direct_weight_write(job, axis, &l, acc);
}

/* The second stage: one item adds the parts of one block of lanes, in order, and finishes it. */
CKCI_FN void ckci_direct_weight_sum_item(const void *context, int64_t block, unsigned char *scratch)
{
    const ckci_direct_job *job = (const ckci_direct_job *)context;
    const ckci_view *v = &job->v;
    const ckci_direct_tiles *t = &job->t;
    ckci_axis axis[3];
    ckci_lanes l = ckci_make_lanes(v, block);
    unsigned char *sum = job->packed + block * t->split * t->partial;
    (void)scratch;
    ckci_phase(v, 0, axis);
    ckci_add_parts(v->kind, sum, t->partial, t->split, v->taps * v->red * v->k->lanes);
    ckci_direct_weight_write(job, axis, &l, sum);
}

CKCI_FN ckconv_status ckci_fit_direct_weight(ckci_fit *f, ckconv_error *err)
{
    ckci_view v = ckci_make_view(&f->p->conv, f->features);
    CKCI_TRY(ckci_direct_takes(&v, err));
    ckci_direct_tiles t = ckci_find_direct_weight_tiles(&v, f->split_k, f->plan->device.threads, f->limit);
    if (t.bytes > f->limit || t.lines > ((int64_t)1 << 30)) {
        return ckci_over_limit("direct, a line of this shape", t.bytes, err);
    }
    f->plan->workspace_bytes = t.bytes;
    f->plan->block[0] = t.threads;
    f->plan->grid[0] = t.items;
    f->plan->split_k = (int32_t)t.split;
    f->plan->launches = t.chunk ? 1 : 2;
    double positions = (double)ckci_most_rows(&v);
    double taps = (double)ckci_round_up(v.taps * v.red, CKCI_TAPS), each = v.red == 1 ? 1.25 : 2.5;
    double spread = (double)v.red * (v.red == 1 && v.cols == 1 ? 2 : 4) * (1 + 2.0 / (double)t.yb) + 3;
    f->cost =
        (double)t.blocks * (positions * (taps * each + spread) + taps * (double)(t.split + 8 * v.k->lanes)) +
        4000;
    return CKCONV_OK;
}

CKCI_FN void ckci_run_direct_weight(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                                    unsigned char *ws, int32_t features)
{
    ckci_direct_job job;
    int32_t threads = plan->device.threads;
    (void)args;
    job.v = ckci_make_view(&p->conv, features);
    job.t = ckci_find_direct_weight_tiles(&job.v, (int32_t)plan->tune[CKCI_TUNE_SPLIT], threads,
                                          ckci_plan_limit(plan));
    job.target = ckci_make_target(&p->conv);
    job.packed = ws;
    threads = job.t.threads;
    ckci_parallel(threads, job.t.items, ckci_direct_weight_item, &job, job.t.bytes ? ws + job.t.packed : NULL,
                  job.t.scratch);
    if (!job.t.chunk) {
        ckci_parallel(threads, job.t.blocks, ckci_direct_weight_sum_item, &job, ws, 0);
    }
}


/*------------------------------------------------------------------------------------------------------------
  >>c-pair
  One convolution of a pair, by whichever of the two families costs less.
*/

typedef struct ckci_stage {
    int direct, dots; /* dots: the implicit GEMM's view is one of pairs */
    int32_t features;
    ckci_gather_job gather;
    ckci_direct_job line;
    int64_t packed, scratch; /* bytes */
} ckci_stage;

/* The views of both families. paired: the problem of pairs if it is one; the views refer to it. */
CKCI_FN void ckci_view_stage(ckci_stage *s, const ckci_conv *p, ckci_conv *paired)
{
    ckci_view v = ckci_make_view(p, s->features);
    s->gather.v = s->line.v = v;
    s->dots =
        (s->features & CKCONV_CPU_AVX512_BF16) && ckci_pair_channels(p, paired, &s->gather.v, s->features);
    if (!s->dots) {
        s->gather.v = v;
    }
    if ((s->features & CKCONV_CPU_AVX512_BF16) && ckci_half_lanes(p, &v, s->features)) {
        s->line.v = v;
    } else if (s->dots) {
        s->line.v = s->gather.v;
    }
}

CKCI_FN ckci_stage ckci_make_stage(const ckci_conv *p, ckci_conv *paired, int32_t features, int32_t threads)
{
    ckci_stage s;
    memset(&s, 0, sizeof s);
    s.features = features;
    ckci_view_stage(&s, p, paired);
    s.gather.t = ckci_gather_tiles(&s.gather.v, threads, CKCI_MAX_BYTES, -1);
    s.gather.target = s.line.target = ckci_make_target(p);
    s.packed = s.gather.t.packed;
    s.scratch = s.gather.t.scratch;
    if (ckci_direct_takes(&s.line.v, NULL) == CKCONV_OK) {
        s.line.t = ckci_find_direct_tiles(&s.line.v, threads, CKCI_MAX_BYTES - 1);
        s.direct = s.line.t.bytes < CKCI_MAX_BYTES && s.line.t.packed > 0 &&
                   s.line.t.lines < ((int64_t)1 << 30) &&
                   ckci_direct_cost(&s.line.v, &s.line.t) < ckci_gather_cost(&s.gather.v, CKCI_MAX_BYTES);
    }
    if (s.direct) {
        s.packed = s.line.t.packed;
        s.scratch = s.line.t.scratch;
    }
    return s;
}

CKCI_FN void ckci_pack_stage(ckci_stage *s, unsigned char *packed, int32_t threads)
{
    const ckci_view *v = &s->gather.v;
    s->gather.packed = s->line.packed = packed;
    if (s->direct) {
        ckci_parallel(threads, s->line.t.blocks, ckci_direct_pack_item, &s->line, packed, 0);
    } else {
        ckci_parallel(threads, v->p->g * ckci_ceil_div(v->cols, 2 * v->k->lanes), ckci_pack_item, &s->gather,
                      packed, 0);
    }
}

/* All items of a packed stage, on `threads` threads with scratch for each. */
CKCI_FN void ckci_run_stage(const ckci_stage *s, unsigned char *scratch, int32_t threads)
{
    if (s->direct) {
        ckci_parallel(threads, s->line.t.items, ckci_direct_item, &s->line, scratch, s->scratch);
    } else {
        ckci_parallel(threads, s->gather.t.items, ckci_gather_item, &s->gather, scratch, s->scratch);
    }
}

/* The same packed weights, for a problem that differs in batch, spatial sizes and pointers. */
CKCI_FN ckci_stage ckci_restage(const ckci_stage *s, const ckci_conv *p, ckci_conv *paired,
                                const ckci_target *target)
{
    ckci_stage r = *s;
    ckci_view_stage(&r, p, paired);
    r.gather.target = r.line.target = *target;
    if (r.direct) {
        r.line.t = ckci_find_direct_tiles(&r.line.v, 1, CKCI_MAX_BYTES - 1);
        r.scratch = r.line.t.scratch;
    } else {
        r.gather.t = ckci_gather_tiles(&r.gather.v, 1, CKCI_MAX_BYTES, -1);
        r.scratch = r.gather.t.scratch;
    }
    return r;
}

/* ---- conv_conv_fwd. Fused: an item owns a tile of output positions of one batch entry in all channels; it
   computes mid there into its scratch ([position][channel] in the number kind of the arithmetic or in bf16,
   values rounded to the compute type), copies it out if asked, and multiplies it by the second weights at
   once. Unfused: all of mid lies in workspace. */
typedef struct ckci_pair_tiles {
    int64_t yb, xb, blocks_y, blocks_x, items;
    int64_t mid, packed[2], scratch, bytes;
    int32_t threads;
} ckci_pair_tiles;

typedef struct ckci_pair_job {
    const ckci_conv_conv *p;
    ckci_pair_tiles t;
    ckci_conv second, paired[2]; /* p's second one, whose input is a dense mid */
    ckconv_dtype held;           /* mid's type in scratch: the number kind, or bf16 for dot products */
    ckci_stage stage[2];
    ckci_target mid; /* scale, shift, operation, rounding; stored in the number kind */
    ckci_target out;
    unsigned char *copy;  /* the caller's mid, or NULL */
    unsigned char *whole; /* unfused: all of mid */
} ckci_pair_job;

/* mid as a dense tensor of `positions`: logical [groups, n, per group, z, y, x], channels fastest. */
CKCI_FN void ckci_dense_mid(ckci_tensor *t, ckconv_dtype dtype, int64_t groups, int64_t n, int64_t per_group,
                            const int64_t size[3], unsigned char *p)
{
    t->p = p;
    t->dtype = t->compute = dtype;
    t->plain = 1;
    t->len[0] = groups;
    t->len[1] = n;
    t->len[2] = per_group;
    t->len[3] = size[0];
    t->len[4] = size[1];
    t->len[5] = size[2];
    t->stride[0] = per_group;
    t->stride[2] = 1;
    t->stride[5] = groups * per_group;
    t->stride[4] = t->stride[5] * size[2];
    t->stride[3] = t->stride[4] * size[1];
    t->stride[1] = t->stride[3] * size[0];
}

/* Planning walks the same code without pointers. */
CKCI_FN void ckci_advance(ckci_tensor *t, int64_t elements)
{
    if (t->p) {
        t->p += elements * (int64_t)ckci_size(t->dtype);
    }
}

/* The two convolutions restricted to the tile at q of `size` positions of entry n, mid at `memory`. */
CKCI_FN void ckci_pair_part(const ckci_pair_job *job, int64_t n, int64_t count, const int64_t q[3],
                            const int64_t size[3], unsigned char *memory, ckci_conv part[2],
                            ckci_target target[2])
{
    part[0] = job->p->first;
    part[1] = job->second;
    target[0] = job->mid;
    target[1] = job->out;
    for (int i = 0; i < 2; i++) {
        part[i].n = count;
    }
    ckci_tensor *in = &part[0].t[CKCI_IN], *out = &target[1].t;
    ckci_advance(in, n * in->stride[1]);
    in->len[1] = count;
    target[1].d = part[1].d;
    for (int32_t j = 0; j <= part[1].num_d; j++) {
        ckci_tensor *t = j < part[1].num_d ? &part[1].d[j] : out;
        ckci_advance(t, n * t->stride[1] + q[0] * t->stride[3] + q[1] * t->stride[4] + q[2] * t->stride[5]);
    }
    for (int i = 0; i < 3; i++) {
        part[0].pad[i] -= q[i] * part[0].stride[i];
        part[0].output[i] = size[i];
        part[1].input[i] = part[1].output[i] = size[i];
    }
    ckci_dense_mid(&target[0].t, job->held, part[0].g, count, part[0].k, size, memory);
    target[0].t.op = job->mid.t.op;
    ckci_dense_mid(&part[1].t[CKCI_IN], job->held, part[1].g, count, part[1].c, size, memory);
}

/* mid of a tile to the caller's copy. values: [position][channel] */
CKCI_FN void ckci_copy_mid(const ckci_pair_job *job, int64_t n, const int64_t q[3], const int64_t size[3],
                           const unsigned char *values)
{
    const ckci_conv *p = &job->p->first;
    const ckci_kind *kind = job->stage[0].gather.v.kind;
    ckci_target copy;
    int64_t at[6];
    memset(&copy, 0, sizeof copy);
    copy.t = p->t[CKCI_OUT];
    memset(&copy.t.op, 0, sizeof copy.t.op);
    at[1] = n;
    for (at[3] = q[0]; at[3] < q[0] + size[0]; at[3]++) {
        for (at[4] = q[1]; at[4] < q[1] + size[1]; at[4]++) {
            for (at[5] = q[2]; at[5] < q[2] + size[2]; at[5]++) {
                for (at[0] = 0; at[0] < p->g; at[0]++) {
                    if (job->held == kind->dtype) {
                        at[2] = 0;
                        kind->write(&copy, at, 2, p->k, values);
                        values += p->k * kind->size;
                        continue;
                    }
                    for (at[2] = 0; at[2] < p->k; at[2] += CKCI_SPAN) {
                        float buffer[CKCI_SPAN];
                        int64_t some = ckci_min(p->k - at[2], CKCI_SPAN);
                        job->stage[0].gather.v.k->widen(1, some, values, 0, buffer, 0);
                        kind->write(&copy, at, 2, some, buffer);
                        values += some * 2;
                    }
                }
            }
        }
    }
}

CKCI_FN void ckci_pair_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_pair_job *job = (const ckci_pair_job *)context;
    const ckci_pair_tiles *t = &job->t;
    const ckci_conv *first = &job->p->first;
    int64_t q[3], size[3], rest = item;
    q[2] = rest % t->blocks_x * t->xb;
    rest /= t->blocks_x;
    q[1] = rest % t->blocks_y * t->yb;
    rest /= t->blocks_y;
    q[0] = rest % first->output[0];
    int64_t n = rest / first->output[0];
    size[0] = 1;
    size[1] = ckci_min(t->yb, first->output[1] - q[1]);
    size[2] = ckci_min(t->xb, first->output[2] - q[2]);
    ckci_conv part[2], paired;
    ckci_target target[2];
    ckci_pair_part(job, n, 1, q, size, scratch, part, target);
    for (int i = 0; i < 2; i++) {
        ckci_stage s = ckci_restage(&job->stage[i], &part[i], &paired, &target[i]);
        ckci_run_stage(&s, scratch + t->mid, 1);
        if (i == 0 && job->copy) {
            ckci_copy_mid(job, n, q, size, scratch);
        }
    }
}

/* Workspace: packed weights and `shared` bytes, and scratch for as many threads as the limit allows. */
CKCI_FN void ckci_pair_total(ckci_pair_tiles *t, int64_t shared, int64_t limit, int32_t threads)
{
    shared = ckci_saturating_add(ckci_saturating_add(shared, t->packed[0]), t->packed[1]);
    t->threads = ckci_total(shared, t->scratch, 1) > limit
                     ? 1
                     : ckci_threads_within(limit, shared, t->scratch, threads);
    t->bytes = ckci_total(shared, t->scratch, t->threads);
}

/* Fused tiles: mid of one tile within about half of a core's L2. */
CKCI_FN ckci_pair_tiles ckci_find_pair_tiles(const ckci_pair_job *job, int64_t limit, int32_t threads)
{
    ckci_pair_tiles t;
    const ckci_conv *first = &job->p->first;
    int64_t channels = first->g * first->k, size = (int64_t)ckci_size(job->held);
    memset(&t, 0, sizeof t);
    t.xb = first->output[2];
    t.yb = first->output[1];
    while (t.xb * t.yb * channels * size > 256 * 1024 && t.xb * t.yb > 28) {
        if (t.yb > 1) {
            t.yb = ckci_ceil_div(t.yb, 2);
        } else {
            t.xb = ckci_ceil_div(t.xb, 2);
        }
    }
    t.blocks_y = ckci_ceil_div(first->output[1], t.yb);
    t.blocks_x = ckci_ceil_div(first->output[2], t.xb);
    t.items = ckci_saturating_mul(first->n * first->output[0], t.blocks_y * t.blocks_x);
    t.mid = ckci_line_up(t.xb * t.yb * channels * size);
    /* a tile at the edge is smaller, but its stages may choose taller blocks: the most that any of the four
       needs */
    for (int edge = 0; edge < 4; edge++) {
        int64_t none[3] = {0, 0, 0}, tile[3];
        tile[0] = 1;
        tile[1] = edge & 1 ? first->output[1] - (t.blocks_y - 1) * t.yb : t.yb;
        tile[2] = edge & 2 ? first->output[2] - (t.blocks_x - 1) * t.xb : t.xb;
        ckci_conv part[2], paired;
        ckci_target target[2];
        ckci_pair_part(job, 0, 1, none, tile, NULL, part, target);
        for (int i = 0; i < 2; i++) {
            ckci_stage s = ckci_restage(&job->stage[i], &part[i], &paired, &target[i]);
            t.packed[i] = job->stage[i].packed;
            t.scratch = ckci_max(t.scratch, ckci_saturating_add(t.mid, s.scratch));
        }
    }
    ckci_pair_total(&t, 0, limit, threads);
    return t;
}

CKCI_FN void ckci_make_pair_job(ckci_pair_job *job, const ckci_conv_conv *p, const ckconv_args *args,
                                int32_t features, int32_t threads, int64_t limit, ckconv_family family)
{
    memset(job, 0, sizeof *job);
    job->p = p;
    job->second = p->second;
    job->held = ckci_find_kind(p->first.t[CKCI_WEI].compute)->dtype;
    ckci_tensor *mid = &job->second.t[CKCI_IN];
    if ((features & CKCONV_CPU_AVX512_BF16) && p->first.t[CKCI_IN].compute == CKCONV_BF16) {
        ckci_view v;
        ckci_dense_mid(mid, CKCONV_BF16, p->second.g, p->second.n, p->second.c, p->second.input, NULL);
        job->held = ckci_pair_channels(&job->second, &job->paired[1], &v, features) ? CKCONV_BF16 : job->held;
    }
    ckci_dense_mid(mid, job->held, p->second.g, p->second.n, p->second.c, p->second.input, NULL);
    job->stage[0] = ckci_make_stage(&p->first, &job->paired[0], features, threads);
    job->stage[1] = ckci_make_stage(&job->second, &job->paired[1], features, threads);
    job->mid = ckci_make_target(&p->first);
    job->mid.compute = job->held == CKCONV_BF16 ? (ckconv_dtype)0 : p->first.t[CKCI_IN].compute;
    if (job->mid.compute == CKCONV_F32 || job->mid.compute == CKCONV_F64) {
        job->mid.compute = (ckconv_dtype)0; /* as it is summed */
    }
    job->out = ckci_make_target(&p->second);
    if (args) {
        job->mid.scale = (const unsigned char *)args->scale;
        job->mid.shift = (const unsigned char *)args->shift;
        job->copy = (unsigned char *)args->mid;
    }
    if (family == CKCONV_FAMILY_FUSED) {
        job->t = ckci_find_pair_tiles(job, limit, threads);
        return;
    }
    ckci_pair_tiles *t = &job->t;
    int64_t size = job->stage[0].gather.v.kind->size;
    t->mid = ckci_line_up(ckci_saturating_mul(ckci_count(&p->first.t[CKCI_OUT]), size));
    t->packed[0] = job->stage[0].packed;
    t->packed[1] = job->stage[1].packed;
    t->scratch = ckci_max(job->stage[0].scratch, job->stage[1].scratch);
    t->items = job->stage[1].direct ? job->stage[1].line.t.items : job->stage[1].gather.t.items;
    ckci_pair_total(t, t->mid, limit, threads);
}

CKCI_FN int ckci_pointwise(const ckci_conv *p)
{
    for (int i = 0; i < 3; i++) {
        if (p->filter[i] != 1 || (p->stride[i] != 1 && p->output[i] != 1) || p->pad[i] != 0 ||
            p->output[i] != p->input[i]) {
            return 0;
        }
    }
    return 1;
}

CKCI_FN ckconv_status ckci_fit_pair(ckci_fit *f, ckconv_error *err)
{
    const ckci_conv_conv *p = &f->p->pair;
    int fused = f->family == CKCONV_FAMILY_FUSED;
    ckci_pair_job job;
    if (f->split_k > 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: conv_conv_fwd does not split",
                         (int)f->split_k);
    }
    if (fused && !ckci_pointwise(&p->second)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "fused takes a 1x1 second convolution with stride 1 and no pads; unfused takes all");
    }
    ckci_make_pair_job(&job, p, NULL, f->features, f->plan->device.threads, f->limit, f->family);
    if ((f->features & CKCONV_CPU_AVX512_BF16) && job.held != CKCONV_BF16) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "bf16 dot products take bf16 arithmetic, plain weights and an even number of channels "
            "in the second convolution");
    }
    if (job.t.bytes > f->limit || job.t.bytes >= CKCI_MAX_BYTES) {
        return ckci_over_limit(fused ? "fused" : "unfused", job.t.bytes, err);
    }
    f->plan->workspace_bytes = job.t.bytes;
    f->plan->block[0] = job.t.threads;
    f->plan->grid[0] = job.t.items;
    f->plan->launches = fused ? 3 : 4;
    f->cost = 0;
    for (int i = 0; i < 2; i++) {
        f->cost += job.stage[i].direct ? ckci_direct_cost(&job.stage[i].line.v, &job.stage[i].line.t)
                                       : ckci_gather_cost(&job.stage[i].gather.v, CKCI_MAX_BYTES);
    }
    if (!fused) {
        f->cost += (double)ckci_count(&p->first.t[CKCI_OUT]); /* mid to memory and back */
    }
    return CKCONV_OK;
}

CKCI_FN void ckci_run_pair(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                           unsigned char *ws, int32_t features)
{
    ckci_pair_job job;
    int32_t threads = plan->device.threads;
    ckconv_family family = ckconv_instance_family(plan->instance);
    int64_t none[3] = {0, 0, 0};
    if (p->pair.first.n == 0) {
        return;
    }
    ckci_make_pair_job(&job, &p->pair, args, features, threads, ckci_plan_limit(plan), family);
    threads = job.t.threads;
    unsigned char *after = ws + job.t.packed[0] + job.t.packed[1];
    ckci_pack_stage(&job.stage[0], ws, threads);
    ckci_pack_stage(&job.stage[1], ws + job.t.packed[0], threads);
    if (family == CKCONV_FAMILY_FUSED) {
        ckci_parallel(threads, job.t.items, ckci_pair_item, &job, after, job.t.scratch);
        return;
    }
    /* unfused: the same two stages over everything at once */
    const ckci_conv *first = &p->pair.first;
    ckci_conv part[2];
    ckci_target target[2];
    ckci_pair_part(&job, 0, first->n, none, first->output, after, part, target);
    for (int i = 0; i < 3; i++) {
        part[1].output[i] = p->pair.second.output[i];
    }
    for (int i = 0; i < 2; i++) {
        ckci_stage s = job.stage[i];
        s.gather.v.p = s.line.v.p = &part[i];
        s.gather.v.read = s.line.v.read = &part[i].t[CKCI_IN];
        s.gather.target = s.line.target = target[i];
        ckci_run_stage(&s, after + job.t.mid, threads);
        int64_t entry = first->g * first->k * first->output[0] * first->output[1] * first->output[2];
        for (int64_t n = 0; i == 0 && job.copy && n < first->n; n++) {
            ckci_copy_mid(&job, n, none, first->output, after + n * entry * s.gather.v.kind->size);
        }
    }
}

/* Without workspace mid is computed again wherever it is needed, by the specification's own code. */
CKCI_FN ckconv_status ckci_fit_recompute(ckci_fit *f, ckconv_error *err)
{
    const ckci_conv *b = &f->p->pair.second;
    if (f->split_k > 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: conv_conv_fwd does not split",
                         (int)f->split_k);
    }
    f->plan->grid[0] = b->n * b->output[0] * b->output[1] * b->output[2];
    f->cost = 1e29;
    return CKCONV_OK;
}

CKCI_FN void ckci_run_recompute(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                                unsigned char *ws, int32_t features)
{
    (void)ws;
    (void)features;
    ckci_ref_conv_conv(&p->pair, args, plan->device.threads);
}

CKCI_FN int32_t ckci_cpu_features(void);


/*------------------------------------------------------------------------------------------------------------
  >>c-norm
  Group norm. A slab (n, g) is walked in tiles of at most CKCI_TILE numbers, channels fastest where they
  are dense, else along x. Everything is summed in double: two passes for the statistics, so that a mean far
  from 0 does no harm; a saved mean that is too coarse (ckci_coarse_mean) is computed again. bwd walks x and
  dy once for the sums of dx and, per channel, those of dgamma and dbeta (kept for each n in workspace and
  added over n in order), once more for dx. Without workspace dgamma and dbeta walk x and dy on their own.
*/

enum { CKCI_NORM_TILE = 1024 };

/* Rows that lie side by side, of channels or of positions, go through vectors of doubles instead. A slab's
   statistics are then one pass over x - shift, shift being one of its values: at most sqrt(numbers) standard
   deviations off, which costs half the digits of the count, and doubles have them. */
#if defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 9)
#define CKCI_NORM_ROWS 1
#else
#define CKCI_NORM_ROWS 0
#endif

enum { CKCI_NORM_WIDTH = 256, CKCI_NORM_BATCH = 4 };

/* sums[c] += u, sums[width + c] += v over rows: (u, v) = (x - shift, its square) or (dy * (x - shift), dy) */
typedef void (*ckci_norm_sum_kernel)(int64_t rows, int64_t width, const float *x, int64_t x_step,
                                     const float *dy, int64_t dy_step, const double *shift, double *sums);
/* out = ((x - shift) * kx + (dy * kd + k0)) * ks, factors for each channel; without a dy of its own no
   dy * kd. A gradient that cancels does so in the inner sum. */
typedef void (*ckci_norm_map_kernel)(int64_t rows, int64_t width, const float *x, int64_t x_step,
                                     const float *dy, int64_t dy_step, const double *shift, const double *kx,
                                     const double *kd, const double *k0, const double *ks, float *out,
                                     int64_t out_step);

/* v = (x - shift) * k + b; out = act(v), or if dy is another row dy * act'(v) */
typedef void (*ckci_norm_act_kernel)(int64_t rows, int64_t width, const float *x, int64_t x_step,
                                     const float *dy, int64_t dy_step, const double *shift, const double *k,
                                     const double *b, int silu, float *out, int64_t out_step);

#if CKCI_NORM_ROWS
typedef int64_t ckci_i8x8 __attribute__((vector_size(64)));
typedef int32_t ckci_i4x8 __attribute__((vector_size(32)));
typedef double ckci_d8 __attribute__((vector_size(64)));
typedef float ckci_f8 __attribute__((vector_size(32)));

#define CKCI_NORM_DOUBLES(v, p)                                                                              \
    ckci_d8 v;                                                                                               \
    {                                                                                                        \
        ckci_f8 narrow;                                                                                      \
        memcpy(&narrow, p, sizeof narrow);                                                                   \
        v = __builtin_convertvector(narrow, ckci_d8);                                                        \
    }
#define CKCI_NORM_SUMS(NAME)                                                                                 \
    CKCI_TARGET CKCI_FN void NAME(int64_t rows, int64_t width, const float *x, int64_t x_step,               \
                                  const float *dy, int64_t dy_step, const double *shift, double *sums)       \
    {                                                                                                        \
        int64_t c = 0;                                                                                       \
        for (; c + 8 <= width; c += 8) {                                                                     \
            ckci_d8 s, u, v;                                                                                 \
            memcpy(&s, shift + c, sizeof s);                                                                 \
            memcpy(&u, sums + c, sizeof u);                                                                  \
            memcpy(&v, sums + width + c, sizeof v);                                                          \
            for (int64_t r = 0; r < rows; r++) {                                                             \
                CKCI_NORM_DOUBLES(a, x + r * x_step + c)                                                     \
                CKCI_NORM_DOUBLES(b, dy + r * dy_step + c)                                                   \
                a -= s;                                                                                      \
                u += dy == x ? a : a * b;                                                                    \
                v += dy == x ? a * a : b;                                                                    \
            }                                                                                                \
            memcpy(sums + c, &u, sizeof u);                                                                  \
            memcpy(sums + width + c, &v, sizeof v);                                                          \
        }                                                                                                    \
        for (; c < width; c++) {                                                                             \
            for (int64_t r = 0; r < rows; r++) {                                                             \
                double a = (double)x[r * x_step + c] - shift[c], b = (double)dy[r * dy_step + c];            \
                sums[c] += dy == x ? a : a * b;                                                              \
                sums[width + c] += dy == x ? a * a : b;                                                      \
            }                                                                                                \
        }                                                                                                    \
    }
#define CKCI_NORM_MAP(NAME)                                                                                  \
    CKCI_TARGET CKCI_FN void NAME(int64_t rows, int64_t width, const float *x, int64_t x_step,               \
                                  const float *dy, int64_t dy_step, const double *shift, const double *kx,   \
                                  const double *kd, const double *k0, const double *ks, float *out,          \
                                  int64_t out_step)                                                          \
    {                                                                                                        \
        int64_t c = 0;                                                                                       \
        for (; c + 8 <= width; c += 8) {                                                                     \
            ckci_d8 s, fx, fd, f0, fs;                                                                       \
            memcpy(&s, shift + c, sizeof s);                                                                 \
            memcpy(&fx, kx + c, sizeof fx);                                                                  \
            memcpy(&fd, kd + c, sizeof fd);                                                                  \
            memcpy(&f0, k0 + c, sizeof f0);                                                                  \
            memcpy(&fs, ks + c, sizeof fs);                                                                  \
            for (int64_t r = 0; r < rows; r++) {                                                             \
                CKCI_NORM_DOUBLES(a, x + r * x_step + c)                                                     \
                ckci_d8 t = f0;                                                                              \
                if (dy != x) {                                                                               \
                    CKCI_NORM_DOUBLES(b, dy + r * dy_step + c)                                               \
                    t += b * fd;                                                                             \
                }                                                                                            \
                ckci_f8 y = __builtin_convertvector(((a - s) * fx + t) * fs, ckci_f8);                       \
                memcpy(out + r * out_step + c, &y, sizeof y);                                                \
            }                                                                                                \
        }                                                                                                    \
        for (; c < width; c++) {                                                                             \
            for (int64_t r = 0; r < rows; r++) {                                                             \
                double t = k0[c] + (dy != x ? (double)dy[r * dy_step + c] * kd[c] : 0);                      \
                double a = ((double)x[r * x_step + c] - shift[c]) * kx[c] + t;                               \
                out[r * out_step + c] = (float)(a * ks[c]);                                                  \
            }                                                                                                \
        }                                                                                                    \
    }
/* exp(-v) = 2^n * exp(r), |r| <= ln(2) / 2, by the Taylor polynomial of degree 11: the next term is below
   1e-14 of it. |v| is cut at 700, where sigmoids are 0 or 1 to f32. NaN stays NaN: it is added. n comes from
   a conversion, and NaN from its bits: compilers that reassociate, or keep more digits (x87), would undo a
   sum with 1.5 * 2^52, which rounds as well; those that know of no NaN take v == v for true. */
#define CKCI_NORM_EXP(e, v)                                                                                  \
    ckci_d8 e;                                                                                               \
    {                                                                                                        \
        const ckci_i8x8 zeros = {0, 0, 0, 0, 0, 0, 0, 0}, sign = zeros + INT64_MIN;                          \
        const ckci_i8x8 most = (ckci_i8x8)((ckci_d8)zeros + 700.0);                                          \
        const ckci_i8x8 half = (ckci_i8x8)((ckci_d8)zeros + 0.5);                                            \
        const ckci_i8x8 infinity = zeros + ((int64_t)0x7ff << 52), u = (ckci_i8x8)(v) ^ sign;                \
        const ckci_i8x8 size = u & ~sign, over = size > most, not_number = size > infinity;                  \
        const ckci_d8 cut = (ckci_d8)((u & (sign | ~over)) | (most & over));                                 \
        const ckci_d8 powers = cut * 1.4426950408889634;                                                     \
        const ckci_i4x8 whole = __builtin_convertvector(powers + (ckci_d8)((u & sign) | half), ckci_i4x8);   \
        const ckci_i8x8 power = __builtin_convertvector(whole, ckci_i8x8) << 52;                             \
        const ckci_d8 n = __builtin_convertvector(whole, ckci_d8);                                           \
        ckci_d8 part = (cut - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;              \
        e = part * (1 / 39916800.0) + 1 / 3628800.0;                                                         \
        e = e * part + 1 / 362880.0;                                                                         \
        e = e * part + 1 / 40320.0;                                                                          \
        e = e * part + 1 / 5040.0;                                                                           \
        e = e * part + 1 / 720.0;                                                                            \
        e = e * part + 1 / 120.0;                                                                            \
        e = e * part + 1 / 24.0;                                                                             \
        e = e * part + 1 / 6.0;                                                                              \
        e = e * part + 0.5;                                                                                  \
        e = e * part + 1.0;                                                                                  \
        e = e * part + 1.0;                                                                                  \
        e = (ckci_d8)((ckci_i8x8)e + power) + (ckci_d8)(u & not_number);                                     \
    }
#define CKCI_NORM_ACT(NAME)                                                                                  \
    CKCI_TARGET CKCI_FN void NAME(int64_t rows, int64_t width, const float *x, int64_t x_step,               \
                                  const float *dy, int64_t dy_step, const double *shift, const double *k,    \
                                  const double *b, int silu, float *out, int64_t out_step)                   \
    {                                                                                                        \
        for (int64_t c = 0; c < width; c += 8) {                                                             \
            size_t some = (size_t)(width - c < 8 ? width - c : 8) * sizeof(float);                           \
            ckci_d8 s, fk, fb;                                                                               \
            memcpy(&s, shift + c, sizeof s); /* these are arrays of whole vectors */                         \
            memcpy(&fk, k + c, sizeof fk);                                                                   \
            memcpy(&fb, b + c, sizeof fb);                                                                   \
            for (int64_t r = 0; r < rows; r++) {                                                             \
                ckci_f8 in = {0, 0, 0, 0, 0, 0, 0, 0}, by = in;                                              \
                if (some == sizeof in) {                                                                     \
                    memcpy(&in, x + r * x_step + c, sizeof in);                                              \
                    memcpy(&by, dy + r * dy_step + c, sizeof by);                                            \
                } else {                                                                                     \
                    memcpy(&in, x + r * x_step + c, some);                                                   \
                    memcpy(&by, dy + r * dy_step + c, some);                                                 \
                }                                                                                            \
                ckci_d8 v = (__builtin_convertvector(in, ckci_d8) - s) * fk + fb;                            \
                CKCI_NORM_EXP(e, v)                                                                          \
                ckci_d8 sigmoid = 1.0 / (1.0 + e), y = silu ? v * sigmoid : sigmoid;                         \
                if (dy != x) {                                                                               \
                    y = sigmoid * (1.0 - sigmoid);                                                           \
                    y = (silu ? sigmoid + v * y : y) * __builtin_convertvector(by, ckci_d8);                 \
                }                                                                                            \
                ckci_f8 narrow = __builtin_convertvector(y, ckci_f8);                                        \
                memcpy(out + r * out_step + c, &narrow, some);                                               \
            }                                                                                                \
        }                                                                                                    \
    }
#define CKCI_TARGET
CKCI_NORM_SUMS(ckci_norm_sums_portable)
CKCI_NORM_MAP(ckci_norm_map_portable)
CKCI_NORM_ACT(ckci_norm_act_portable)
#undef CKCI_TARGET
#if CKCI_X86
#define CKCI_TARGET __attribute__((target("avx2,fma")))
CKCI_NORM_SUMS(ckci_norm_sums_avx2)
CKCI_NORM_MAP(ckci_norm_map_avx2)
CKCI_NORM_ACT(ckci_norm_act_avx2)
#undef CKCI_TARGET
#define CKCI_TARGET __attribute__((target("avx512f,avx2,fma")))
CKCI_NORM_SUMS(ckci_norm_sums_avx512)
CKCI_NORM_MAP(ckci_norm_map_avx512)
CKCI_NORM_ACT(ckci_norm_act_avx512)
#undef CKCI_TARGET
#endif
#endif

typedef struct ckci_norm_work {
    const ckci_groupnorm *p;
    const ckconv_args *args;
    double *sums; /* [n][g * c][2]: dgamma and dbeta of each n; NULL without workspace */
    /* rows: groups of an item, items of an entry; flat: of positions, else of channels */
    int64_t groups, blocks;
    int flat;
    const ckci_kernels *k;
    ckci_norm_sum_kernel sum;
    ckci_norm_map_kernel map;
    ckci_norm_act_kernel act;
} ckci_norm_work;

/* A tile: channels [c, c + channels) at positions [x, x + positions) of row (z, y).
   values[position][channel], or [channel][position] when along_x. */
typedef struct ckci_norm_tile {
    int64_t z, y, x, c, positions, channels;
    int along_x;
} ckci_norm_tile;

/* Spatial axes that are one dense axis in all tensors are walked as one. */
CKCI_FN ckci_groupnorm ckci_flatten_norm(const ckci_groupnorm *p)
{
    ckci_groupnorm f = *p;
    ckci_tensor *t[3];
    t[0] = &f.in;
    t[1] = &f.out;
    t[2] = &f.din;
    for (int axis = 4; axis >= 3; axis--) {
        int dense = 1;
        for (int i = 0; i < 3; i++) {
            dense = dense && (t[i]->len[axis] == 1 || t[i]->stride[axis] == t[i]->len[5] * t[i]->stride[5]) &&
                    (axis == 4 || t[i]->len[4] == 1);
        }
        for (int i = 0; i < 3 && dense; i++) {
            t[i]->len[5] *= t[i]->len[axis];
            t[i]->len[axis] = 1;
        }
    }
    return f;
}

/* First tile of channels [c0, c1), or the next one; 0 at the end. */
CKCI_FN int ckci_next_tile(const ckci_groupnorm *p, int64_t c0, int64_t c1, ckci_norm_tile *t, int first)
{
    const int64_t *len = p->in.len;
    if (first) {
        memset(t, 0, sizeof *t);
        t->c = c0;
        t->along_x = p->in.stride[5] < p->in.stride[2] && len[5] > 1;
    } else {
        t->x += t->positions;
        if (t->x == len[5]) {
            t->x = 0;
            if (++t->y == len[4]) {
                t->y = 0;
                if (++t->z == len[3]) {
                    t->z = 0;
                    t->c += t->channels;
                }
            }
        }
    }
    if (t->c >= c1) {
        return 0;
    }
    const int64_t most = CKCI_NORM_TILE;
    t->channels = t->along_x ? 1 : ckci_min(c1 - t->c, most);
    t->positions = ckci_min(len[5] - t->x, t->along_x ? most : most / t->channels);
    return 1;
}

CKCI_FN int64_t ckci_tile_place(const ckci_tensor *x, const ckci_norm_tile *t, int64_t g, int64_t n)
{
    return g * x->stride[0] + n * x->stride[1] + t->c * x->stride[2] + t->z * x->stride[3] +
           t->y * x->stride[4] + t->x * x->stride[5];
}

CKCI_FN void ckci_load_tile(const ckci_tensor *x, const ckci_norm_tile *t, int64_t g, int64_t n, double *dst)
{
    float buffer[CKCI_NORM_TILE];
    int64_t at = ckci_tile_place(x, t, g, n), run = t->along_x ? t->positions : t->channels;
    int64_t step = x->stride[t->along_x ? 5 : 2], rows = t->along_x ? 1 : t->positions;
    for (int64_t r = 0; r < rows; r++) {
        if (x->dtype == CKCONV_F64) {
            ckci_read_d(x, at + r * x->stride[5], step, run, dst + r * run);
        } else {
            ckci_widen(x, at + r * x->stride[5], step, run, buffer + r * run);
        }
    }
    for (int64_t i = 0; i < rows * run && x->dtype != CKCONV_F64; i++) {
        dst[i] = (double)buffer[i];
    }
}

CKCI_FN void ckci_store_tile(const ckci_tensor *x, const ckci_norm_tile *t, int64_t g, int64_t n,
                             const double *src)
{
    int64_t size = (int64_t)ckci_size(x->dtype), run = t->along_x ? t->positions : t->channels;
    int64_t step = x->stride[t->along_x ? 5 : 2] * size, rows = t->along_x ? 1 : t->positions;
    for (int64_t r = 0; r < rows; r++) {
        unsigned char *p = x->p + (ckci_tile_place(x, t, g, n) + r * x->stride[5]) * size;
        const double *s = src + r * run;
        for (int64_t i = 0; i < run; i++) {
            if (x->dtype == CKCONV_F32) {
                float f = (float)s[i];
                memcpy(p + i * step, &f, 4);
            } else {
                ckci_store(x->dtype, p + i * step, s[i]);
            }
        }
    }
}

/* In two passes over values less a guess of the mean, the first one's guess being one of them: equal values
   have that mean exactly. */
CKCI_FN void ckci_slab_statistics(const ckci_norm_work *w, int64_t n, int64_t g, ckci_mean *mean,
                                  double *inv_std)
{
    const ckci_groupnorm *p = w->p;
    double x[CKCI_NORM_TILE], count = (double)p->c * (double)p->space, variance = 0;
    int64_t entry = (n * p->g + g) * (int64_t)ckci_size(p->stat);
    int given = p->op == CKCONV_GROUPNORM_BWD && w->args->saved_mean;
    mean->low = 0;
    if (given) {
        mean->high = ckci_load(p->stat, (const unsigned char *)w->args->saved_mean + entry);
        *inv_std = ckci_load(p->stat, (const unsigned char *)w->args->saved_inv_std + entry);
        if (!ckci_coarse_mean(mean->high, *inv_std)) {
            return;
        }
    }
    for (int pass = 0; pass < 2; pass++) {
        ckci_norm_tile t;
        double sum = 0, square = 0;
        for (int more = ckci_next_tile(p, 0, p->c, &t, 1), i = 0; more;
             more = ckci_next_tile(p, 0, p->c, &t, 0), i++) {
            double part[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
            ckci_load_tile(&p->in, &t, g, n, x);
            if (pass == 0 && i == 0) {
                mean->high = x[0];
            }
            int64_t numbers = t.channels * t.positions;
            for (int64_t j = 0; j < numbers; j++) {
                double v = ckci_less_mean(x[j], mean);
                part[0][j & 3] += v;
                part[1][j & 3] += v * v;
            }
            sum += (part[0][0] + part[0][1]) + (part[0][2] + part[0][3]);
            square += (part[1][0] + part[1][1]) + (part[1][2] + part[1][3]);
        }
        double more = sum / count;
        *mean = ckci_add_to_mean(mean, more);
        variance = square / count - more * more;
    }
    if (!given) {
        *inv_std = 1 / sqrt((variance < 0 ? 0 : variance) + p->eps);
    }
}

/* gamma and beta for the channels of a tile */
CKCI_FN void ckci_tile_params(const ckci_norm_work *w, const ckci_norm_tile *t, int64_t g, double *gamma,
                              double *beta)
{
    for (int64_t c = 0; c < t->channels; c++) {
        int64_t channel = g * w->p->c + t->c + c;
        gamma[c] = ckci_param(w->p, w->args->gamma, channel, 1);
        beta[c] = ckci_param(w->p, w->args->beta, channel, 0);
    }
}

CKCI_FN void ckci_norm_fwd_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_norm_work *w = (const ckci_norm_work *)context;
    const ckci_groupnorm *p = w->p;
    double x[CKCI_NORM_TILE], gamma[CKCI_NORM_TILE], beta[CKCI_NORM_TILE], inv_std;
    ckci_mean mean;
    int64_t g = item % p->g, n = item / p->g, entry = item * (int64_t)ckci_size(p->stat), loaded = -1;
    ckci_norm_tile t;
    ckconv_element_op act;
    memset(&act, 0, sizeof act);
    act.kind = p->act;
    (void)scratch;
    ckci_slab_statistics(w, n, g, &mean, &inv_std);
    if (w->args->mean) {
        ckci_store(p->stat, (unsigned char *)w->args->mean + entry, mean.high + mean.low);
    }
    if (w->args->inv_std) {
        ckci_store(p->stat, (unsigned char *)w->args->inv_std + entry, inv_std);
    }
    for (int more = ckci_next_tile(p, 0, p->c, &t, 1); more; more = ckci_next_tile(p, 0, p->c, &t, 0)) {
        if (t.c != loaded) {
            ckci_tile_params(w, &t, g, gamma, beta);
            loaded = t.c;
        }
        ckci_load_tile(&p->in, &t, g, n, x);
        int64_t run = t.along_x ? t.positions : t.channels, rows = t.along_x ? 1 : t.positions;
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t i = 0; i < run; i++) {
                int64_t c = t.along_x ? 0 : i;
                x[r * run + i] = ckci_less_mean(x[r * run + i], &mean) * inv_std * gamma[c] + beta[c];
            }
        }
        for (int64_t i = 0; i < rows * run && p->act != CKCONV_PASS; i++) {
            x[i] = ckci_element_d(&act, x[i], NULL, 0);
        }
        ckci_store_tile(&p->out, &t, g, n, x);
    }
}

/* xhat and the gradient before the affine part, for a tile */
CKCI_FN void ckci_tile_gradient(const ckci_norm_work *w, const ckci_norm_tile *t, int64_t g, int64_t n,
                                const ckci_mean *mean, double inv_std, const double *gamma,
                                const double *beta, double *xhat, double *dy)
{
    const ckci_groupnorm *p = w->p;
    int64_t numbers = t->channels * t->positions;
    ckci_load_tile(&p->in, t, g, n, xhat);
    ckci_load_tile(&p->out, t, g, n, dy);
    for (int64_t i = 0; i < numbers; i++) {
        xhat[i] = ckci_less_mean(xhat[i], mean) * inv_std;
    }
    for (int64_t i = 0; i < numbers && p->act != CKCONV_PASS; i++) {
        int64_t c = t->along_x ? 0 : i % t->channels;
        dy[i] *= ckci_act_slope(p->act, xhat[i] * gamma[c] + beta[c]);
    }
}

/* Add a tile's sums of dy*xhat and dy to those of its channels: sums[channel][2]. */
CKCI_FN void ckci_add_tile(const ckci_norm_tile *t, const double *xhat, const double *dy, double *sums)
{
    int64_t run = t->along_x ? t->positions : t->channels, rows = t->along_x ? 1 : t->positions;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < run; i++) {
            double *s = sums + (t->along_x ? 0 : 2 * i);
            s[0] += dy[r * run + i] * xhat[r * run + i];
            s[1] += dy[r * run + i];
        }
    }
}

/* dx of one slab and, with workspace, its sums for dgamma and dbeta */
CKCI_FN void ckci_norm_bwd_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_norm_work *w = (const ckci_norm_work *)context;
    const ckci_groupnorm *p = w->p;
    double xhat[CKCI_NORM_TILE], dy[CKCI_NORM_TILE], gamma[CKCI_NORM_TILE], beta[CKCI_NORM_TILE];
    double part[2 * CKCI_NORM_TILE], inv_std, a = 0, b = 0, count = (double)p->c * (double)p->space;
    ckci_mean mean;
    int64_t g = item % p->g, n = item / p->g, loaded = -1;
    ckci_norm_tile t;
    (void)scratch;
    ckci_slab_statistics(w, n, g, &mean, &inv_std);
    for (int more = ckci_next_tile(p, 0, p->c, &t, 1); more; more = ckci_next_tile(p, 0, p->c, &t, 0)) {
        double *sums = w->sums ? w->sums + 2 * ((n * p->g + g) * p->c + t.c) : NULL;
        if (t.c != loaded) {
            ckci_tile_params(w, &t, g, gamma, beta);
            loaded = t.c;
            memset(sums ? sums : part, 0, (size_t)t.channels * 2 * sizeof *part);
        }
        ckci_tile_gradient(w, &t, g, n, &mean, inv_std, gamma, beta, xhat, dy);
        memset(part, 0, (size_t)t.channels * 2 * sizeof *part);
        ckci_add_tile(&t, xhat, dy, part);
        for (int64_t c = 0; c < t.channels; c++) {
            b += part[2 * c] * gamma[c];
            a += part[2 * c + 1] * gamma[c];
        }
        for (int64_t c = 0; c < 2 * t.channels && sums; c++) {
            sums[c] += part[c];
        }
    }
    a /= count;
    b /= count;
    loaded = -1;
    for (int more = w->args->din && ckci_next_tile(p, 0, p->c, &t, 1); more;
         more = ckci_next_tile(p, 0, p->c, &t, 0)) {
        if (t.c != loaded) {
            ckci_tile_params(w, &t, g, gamma, beta);
            loaded = t.c;
        }
        ckci_tile_gradient(w, &t, g, n, &mean, inv_std, gamma, beta, xhat, dy);
        int64_t run = t.along_x ? t.positions : t.channels, rows = t.along_x ? 1 : t.positions;
        for (int64_t i = 0; i < rows * run; i++) {
            dy[i] *= gamma[t.along_x ? 0 : i % run];
        }
        /* on its own: a fused multiply-add would not cancel exactly where a is the only product */
        for (int64_t i = 0; i < rows * run; i++) {
            dy[i] = inv_std * (dy[i] - a - xhat[i] * b);
        }
        ckci_store_tile(&p->din, &t, g, n, dy);
    }
}

CKCI_FN void ckci_store_params(const ckci_norm_work *w, int64_t channel, const double *sum)
{
    int64_t at = channel * (int64_t)ckci_size(w->p->param);
    if (w->args->dgamma) {
        ckci_store(w->p->param, (unsigned char *)w->args->dgamma + at, sum[0]);
    }
    if (w->args->dbeta) {
        ckci_store(w->p->param, (unsigned char *)w->args->dbeta + at, sum[1]);
    }
}

/* dgamma and dbeta of 64 channels from the sums of each n, in order */
CKCI_FN void ckci_norm_sum_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_norm_work *w = (const ckci_norm_work *)context;
    int64_t all = w->p->g * w->p->c;
    (void)scratch;
    for (int64_t channel = item * 64; channel < ckci_min(all, item * 64 + 64); channel++) {
        double sum[2] = {0, 0};
        for (int64_t n = 0; n < w->p->n; n++) {
            sum[0] += w->sums[2 * (n * all + channel)];
            sum[1] += w->sums[2 * (n * all + channel) + 1];
        }
        ckci_store_params(w, channel, sum);
    }
}

/* The same without workspace: one item owns up to a tile's width of channels of one group. */
CKCI_FN void ckci_norm_param_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_norm_work *w = (const ckci_norm_work *)context;
    const ckci_groupnorm *p = w->p;
    double xhat[CKCI_NORM_TILE], dy[CKCI_NORM_TILE], gamma[CKCI_NORM_TILE], beta[CKCI_NORM_TILE];
    double sums[2 * CKCI_NORM_TILE], inv_std;
    ckci_mean mean;
    int64_t blocks = ckci_ceil_div(p->c, CKCI_NORM_TILE), g = item / blocks,
            c0 = item % blocks * CKCI_NORM_TILE;
    int64_t c1 = ckci_min(p->c, c0 + CKCI_NORM_TILE);
    (void)scratch;
    memset(sums, 0, sizeof sums);
    for (int64_t n = 0; n < p->n; n++) {
        ckci_norm_tile t;
        ckci_slab_statistics(w, n, g, &mean, &inv_std);
        for (int more = ckci_next_tile(p, c0, c1, &t, 1); more; more = ckci_next_tile(p, c0, c1, &t, 0)) {
            ckci_tile_params(w, &t, g, gamma, beta);
            ckci_tile_gradient(w, &t, g, n, &mean, inv_std, gamma, beta, xhat, dy);
            ckci_add_tile(&t, xhat, dy, sums + 2 * (t.c - c0));
        }
    }
    for (int64_t c = c0; c < c1; c++) {
        ckci_store_params(w, g * p->c + c, sums + 2 * (c - c0));
    }
}

/* ---- The same for rows. An item is one or several groups of an entry, in blocks: some channels, each a
   column of the rows, or (flat) one channel, whose positions the columns are. */

/* Can t be walked in rows of channels, or flat of positions? */
CKCI_FN int ckci_norm_row(const ckci_groupnorm *p, const ckci_tensor *t, int flat)
{
    return (t->dtype == CKCONV_F32 || t->dtype == CKCONV_BF16 || t->dtype == CKCONV_F16) &&
           (flat ? t->stride[5] == 1 || t->len[5] == 1 : t->stride[2] == 1 || p->c == 1) &&
           (uintptr_t)t->p % ckci_size(t->dtype) == 0;
}

/* Whether rows are walked, and by which kernels. */
CKCI_FN int ckci_norm_takes_rows(ckci_norm_work *w, int32_t features, int32_t threads)
{
#if CKCI_NORM_ROWS
    const ckci_groupnorm *p = w->p;
    const ckci_tensor *t[3];
    int count = p->op == CKCONV_GROUPNORM_BWD && w->args->din ? 3 : 2, takes[2] = {1, 1}, beside = 1;
    t[0] = &p->in;
    t[1] = &p->out;
    t[2] = &p->din;
    for (int i = 0; i < count; i++) {
        takes[0] = takes[0] && ckci_norm_row(p, t[i], 0);
        takes[1] = takes[1] && ckci_norm_row(p, t[i], 1);
        beside = beside && t[i]->stride[0] == p->c;
    }
    if (p->stat == CKCONV_F64 || (!takes[0] && !takes[1])) {
        return 0;
    }
    /* short rows of channels are worth less than long ones of positions */
    w->flat = takes[1] && (!takes[0] || (!beside && p->c < 8));
    w->groups = w->flat || !beside ? 1 : ckci_max(ckci_min(p->g, CKCI_NORM_WIDTH / p->c), 1);
    while (w->groups > 1 && w->groups * p->c > 32 && p->n * ckci_ceil_div(p->g, w->groups) < 4 * threads) {
        w->groups = ckci_ceil_div(w->groups, 2);
    }
    w->groups = ckci_ceil_div(p->g, ckci_ceil_div(p->g, w->groups)); /* even shares */
    w->blocks = ckci_ceil_div(p->g, w->groups);
    w->k = ckci_find_kernels(features, CKCONV_F32);
    w->sum = ckci_norm_sums_portable;
    w->map = ckci_norm_map_portable;
    w->act = ckci_norm_act_portable;
#if CKCI_X86
    if (features & CKCONV_CPU_AVX512) {
        w->sum = ckci_norm_sums_avx512;
        w->map = ckci_norm_map_avx512;
        w->act = ckci_norm_act_avx512;
    } else if (features & CKCONV_CPU_AVX2) {
        w->sum = ckci_norm_sums_avx2;
        w->map = ckci_norm_map_avx2;
        w->act = ckci_norm_act_avx2;
    }
#endif
    return 1;
#else
    (void)w, (void)features, (void)threads;
    return 0;
#endif
}

/* A block: channels [c, c + channels) of the item's groups */
typedef struct ckci_norm_rows {
    int64_t n, group, groups, c, channels;
    double shift[CKCI_NORM_WIDTH], kx[CKCI_NORM_WIDTH], kd[CKCI_NORM_WIDTH], k0[CKCI_NORM_WIDTH];
    double ks[CKCI_NORM_WIDTH], kv[CKCI_NORM_WIDTH], kb[CKCI_NORM_WIDTH]; /* before the activation */
    double sums[2 * CKCI_NORM_WIDTH], tail[2 * CKCI_NORM_WIDTH]; /* tail: columns of a last, short row */
    double mean[CKCI_NORM_WIDTH], inv_std[CKCI_NORM_WIDTH];      /* of each group */
    double a[CKCI_NORM_WIDTH], b[CKCI_NORM_WIDTH];
} ckci_norm_rows;

/* column[] of channel c of the block */
CKCI_INLINE void ckci_norm_set(const ckci_norm_work *w, double *column, int64_t c, double value)
{
    for (int64_t i = w->flat ? 0 : c; i < (w->flat ? (int64_t)CKCI_NORM_WIDTH : c + 1); i++) {
        column[i] = value;
    }
}

/* The next block of channels; 0 at the end. Start with channels = c = 0. */
CKCI_FN int ckci_norm_next(const ckci_norm_work *w, ckci_norm_rows *b)
{
    int64_t most = w->flat ? 1 : CKCI_NORM_WIDTH;
    b->c += b->channels;
    b->channels = ckci_min(b->groups * w->p->c - b->c, most);
    if (b->channels <= 0) {
        b->c = b->channels = 0;
        return 0;
    }
    return 1;
}

/* `rows` rows of t as floats: in place, or in buffer. */
CKCI_FN const float *ckci_norm_load(const ckci_norm_work *w, const ckci_tensor *t, int64_t at, int64_t rows,
                                    int64_t width, float *buffer, int64_t *step)
{
    if (t->dtype == CKCONV_F32) {
        return (const float *)(const void *)(t->p + at * 4);
    }
    (t->dtype == CKCONV_F16 ? w->k->widen16 : w->k->widen)(rows, width, t->p + at * 2, *step, buffer,
                                                           CKCI_NORM_WIDTH);
    *step = CKCI_NORM_WIDTH;
    return buffer;
}

/* Some rows, at[] and step[] apart in x, dy and out. dy, out: may be NULL; without out they are summed. */
CKCI_FN void ckci_norm_piece(const ckci_norm_work *w, ckci_norm_rows *b, const ckci_tensor *dy,
                             const ckci_tensor *out, const int64_t at[3], int64_t step[3], int64_t rows,
                             int64_t width, double *sums)
{
    float buffer[3][CKCI_NORM_BATCH * CKCI_NORM_WIDTH];
    const float *from = ckci_norm_load(w, &w->p->in, at[0], rows, width, buffer[0], &step[0]), *by = from;
    int act = w->p->act != CKCONV_PASS, silu = w->p->act == CKCONV_SILU;
    if (!dy) {
        step[1] = step[0];
    } else {
        by = ckci_norm_load(w, dy, at[1], rows, width, buffer[1], &step[1]);
        if (by == from) { /* the caller's dy may be x; the kernels know a single tensor by that */
            w->k->copy(rows, width, by, step[1], buffer[1], CKCI_NORM_WIDTH);
            by = buffer[1];
            step[1] = CKCI_NORM_WIDTH;
        }
    }
    if (dy && act) {
        w->act(rows, width, from, step[0], by, step[1], b->shift, b->kv, b->kb, silu, buffer[1],
               CKCI_NORM_WIDTH);
        by = buffer[1];
        step[1] = CKCI_NORM_WIDTH;
    }
    if (!out) {
        w->sum(rows, width, from, step[0], by, step[1], b->shift, sums);
        return;
    }
    int half = out->dtype != CKCONV_F32;
    float *to = half ? buffer[2] : (float *)(void *)(out->p + at[2] * 4);
    int64_t to_step = half ? (int64_t)CKCI_NORM_WIDTH : step[2];
    if (act && !dy) {
        w->act(rows, width, from, step[0], by, step[1], b->shift, b->kv, b->kb, silu, to, to_step);
    } else {
        w->map(rows, width, from, step[0], by, step[1], b->shift, b->kx, b->kd, b->k0, b->ks, to, to_step);
    }
    if (half) {
        (out->dtype == CKCONV_F16 ? w->k->narrow16 : w->k->narrow)(rows, width, to, to_step,
                                                                   out->p + at[2] * 2, step[2]);
    }
}

/* Rows of channels, `step` numbers apart, are short pieces of memory: no processor sees where they lead. */
CKCI_FN void ckci_norm_ahead(const ckci_tensor *t, int64_t at, int64_t step, int64_t rows, int64_t width)
{
    int64_t size = (int64_t)ckci_size(t->dtype);
    for (int64_t row = 0; row < rows; row++) {
        uintptr_t p = (uintptr_t)t->p + (uintptr_t)((at + row * step) * size);
        for (int64_t byte = 0; byte < width * size; byte += 64) {
            CKCI_PREFETCH(p + (uintptr_t)byte);
        }
    }
}

/* One walk over the rows of a block. */
CKCI_FN void ckci_norm_walk(const ckci_norm_work *w, ckci_norm_rows *b, const ckci_tensor *dy,
                            const ckci_tensor *out)
{
    const int64_t wide = CKCI_NORM_WIDTH, *len = w->p->in.len;
    const ckci_tensor *all[3];
    all[0] = &w->p->in;
    all[1] = dy;
    all[2] = out;
    for (int64_t line = 0; line < len[3] * len[4]; line++) {
        int64_t z = line / len[4], y = line % len[4], positions = len[5];
        for (int64_t i = 0, some; i < positions; i += some) {
            int64_t at[3], step[3], rest = positions - i, rows = ckci_min(rest, CKCI_NORM_BATCH), width;
            if (w->flat) { /* whole rows, then a short one */
                width = ckci_min(rest, wide);
                rows = ckci_max(ckci_min(rest / wide, CKCI_NORM_BATCH), 1);
            } else {
                width = b->channels;
            }
            some = w->flat ? rows * width : rows;
            for (int j = 0; j < 3; j++) {
                const ckci_tensor *t = all[j] ? all[j] : all[0];
                at[j] = b->n * t->stride[1] + b->group * t->stride[0] + b->c * t->stride[2] +
                        z * t->stride[3] + y * t->stride[4] + i * t->stride[5];
                step[j] = w->flat ? wide : t->stride[5];
                if (all[j] && !w->flat) {
                    ckci_norm_ahead(t, at[j] + 2 * rows * step[j], step[j], rows, width);
                }
            }
            ckci_norm_piece(w, b, dy, out, at, step, rows, width,
                            w->flat && width < wide ? b->tail : b->sums);
        }
    }
}

/* Sums of a walk for channel c of the block: of u, and of v if it is the second */
CKCI_FN double ckci_norm_total(const ckci_norm_work *w, const ckci_norm_rows *b, int64_t c, int second)
{
    if (!w->flat) {
        return b->sums[second * b->channels + c];
    }
    double total = 0;
    int64_t last = w->p->in.len[5] % CKCI_NORM_WIDTH;
    for (int64_t i = 0; i < CKCI_NORM_WIDTH; i++) {
        total += b->sums[second * CKCI_NORM_WIDTH + i];
    }
    for (int64_t i = 0; i < last; i++) {
        total += b->tail[second * last + i];
    }
    return total;
}

CKCI_FN void ckci_norm_sum(const ckci_norm_work *w, ckci_norm_rows *b, const ckci_tensor *dy)
{
    memset(b->sums, 0, sizeof b->sums);
    memset(b->tail, 0, sizeof b->tail);
    ckci_norm_walk(w, b, dy, NULL);
}

/* Mean and inv_std of the groups of an item, given or computed. */
CKCI_FN void ckci_norm_row_statistics(const ckci_norm_work *w, ckci_norm_rows *b)
{
    const ckci_groupnorm *p = w->p;
    double count = (double)p->c * (double)p->space;
    int given = p->op == CKCONV_GROUPNORM_BWD && w->args->saved_mean, good = given;
    double *u = b->a, *v = b->b, *shift = b->mean;
    for (int64_t g = 0; g < b->groups && given; g++) {
        int64_t entry = (b->n * p->g + b->group + g) * (int64_t)ckci_size(p->stat);
        b->mean[g] = ckci_load(p->stat, (const unsigned char *)w->args->saved_mean + entry);
        b->inv_std[g] = ckci_load(p->stat, (const unsigned char *)w->args->saved_inv_std + entry);
        good = good && !ckci_coarse_mean(b->mean[g], b->inv_std[g]);
    }
    if (good) {
        return;
    }
    for (int64_t g = 0; g < b->groups; g++) {
        float first;
        ckci_widen(&p->in, (b->group + g) * p->in.stride[0] + b->n * p->in.stride[1], 1, 1, &first);
        shift[g] = (double)first;
        u[g] = v[g] = 0;
    }
    while (ckci_norm_next(w, b)) {
        for (int64_t c = 0; c < b->channels; c++) {
            ckci_norm_set(w, b->shift, c, shift[(b->c + c) / p->c]);
        }
        ckci_norm_sum(w, b, NULL);
        for (int64_t c = 0; c < b->channels; c++) {
            u[(b->c + c) / p->c] += ckci_norm_total(w, b, c, 0);
            v[(b->c + c) / p->c] += ckci_norm_total(w, b, c, 1);
        }
    }
    for (int64_t g = 0; g < b->groups; g++) {
        double mean = u[g] / count, square = v[g] / count - mean * mean;
        b->mean[g] = shift[g] + mean;
        b->inv_std[g] = given ? b->inv_std[g] : 1 / sqrt((square < 0 ? 0 : square) + p->eps);
    }
}

/* The block's columns that are known from the statistics. */
CKCI_FN void ckci_norm_columns(const ckci_norm_work *w, ckci_norm_rows *b)
{
    const ckci_groupnorm *p = w->p;
    double count = (double)p->c * (double)p->space;
    for (int64_t c = 0; c < b->channels; c++) {
        int64_t g = (b->c + c) / p->c, channel = b->group * p->c + b->c + c;
        double gamma = ckci_param(p, w->args->gamma, channel, 1), inv_std = b->inv_std[g];
        double beta = ckci_param(p, w->args->beta, channel, 0);
        int forward = p->op == CKCONV_GROUPNORM_FWD;
        ckci_norm_set(w, b->shift, c, b->mean[g]);
        ckci_norm_set(w, b->kv, c, inv_std * gamma);
        ckci_norm_set(w, b->kb, c, beta);
        ckci_norm_set(w, b->kd, c, forward ? 0 : gamma);
        ckci_norm_set(w, b->kx, c, forward ? inv_std * gamma : -inv_std * b->b[g] / count);
        ckci_norm_set(w, b->k0, c, forward ? beta : -b->a[g] / count);
        ckci_norm_set(w, b->ks, c, forward ? 1 : inv_std);
    }
}

/* Sums of dx, dgamma and dbeta: a, b of each group. */
CKCI_FN void ckci_norm_gradient_sums(const ckci_norm_work *w, ckci_norm_rows *b)
{
    const ckci_groupnorm *p = w->p;
    memset(b->a, 0, sizeof b->a);
    memset(b->b, 0, sizeof b->b);
    while (ckci_norm_next(w, b)) {
        ckci_norm_columns(w, b);
        ckci_norm_sum(w, b, &p->out);
        for (int64_t c = 0; c < b->channels; c++) {
            int64_t g = (b->c + c) / p->c, channel = b->group * p->c + b->c + c;
            double gamma = ckci_param(p, w->args->gamma, channel, 1), sums[2];
            sums[0] = ckci_norm_total(w, b, c, 0) * b->inv_std[g];
            sums[1] = ckci_norm_total(w, b, c, 1);
            b->b[g] += sums[0] * gamma;
            b->a[g] += sums[1] * gamma;
            if (w->sums) {
                memcpy(w->sums + 2 * (b->n * p->g * p->c + channel), sums, sizeof sums);
            }
        }
    }
}

CKCI_FN void ckci_norm_rows_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_norm_work *w = (const ckci_norm_work *)context;
    const ckci_groupnorm *p = w->p;
    ckci_norm_rows b;
    int64_t stat = (int64_t)ckci_size(p->stat);
    int forward = p->op == CKCONV_GROUPNORM_FWD;
    (void)scratch;
    b.n = item / w->blocks;
    b.group = item % w->blocks * w->groups;
    b.groups = ckci_min(w->groups, p->g - b.group);
    b.c = b.channels = 0;
    ckci_norm_row_statistics(w, &b);
    for (int64_t g = 0; g < b.groups && forward; g++) {
        int64_t entry = (b.n * p->g + b.group + g) * stat;
        if (w->args->mean) {
            ckci_store(p->stat, (unsigned char *)w->args->mean + entry, b.mean[g]);
        }
        if (w->args->inv_std) {
            ckci_store(p->stat, (unsigned char *)w->args->inv_std + entry, b.inv_std[g]);
        }
    }
    if (!forward) {
        ckci_norm_gradient_sums(w, &b);
    }
    while ((forward || w->args->din) && ckci_norm_next(w, &b)) {
        ckci_norm_columns(w, &b);
        ckci_norm_walk(w, &b, forward ? NULL : &p->out, forward ? &p->out : &p->din);
    }
}

CKCI_FN int64_t ckci_norm_bytes(const ckci_groupnorm *p)
{
    if (p->op == CKCONV_GROUPNORM_FWD) {
        return 0;
    }
    return ckci_saturating_mul(ckci_saturating_mul(p->n * p->g, p->c), 16);
}

CKCI_FN ckconv_status ckci_fit_norm(ckci_fit *f, ckconv_error *err)
{
    const ckci_groupnorm *p = &f->p->norm;
    int64_t bytes = ckci_norm_bytes(p);
    if (f->split_k > 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: group norms do not split",
                         (int)f->split_k);
    }
    f->plan->workspace_bytes = bytes <= f->limit && bytes < CKCI_MAX_BYTES ? bytes : 0;
    f->plan->grid[0] = p->n * p->g;
    f->plan->launches = p->op == CKCONV_GROUPNORM_FWD ? 1 : 2;
    f->cost = 8 * (double)ckci_count(&p->in);
    return CKCONV_OK;
}

CKCI_FN void ckci_run_norm(const ckconv_plan *plan, const ckci_problem *problem, const ckconv_args *args,
                           unsigned char *ws, int32_t features)
{
    ckci_norm_work w;
    ckci_groupnorm p = ckci_flatten_norm(&problem->norm);
    int32_t threads = plan->device.threads;
    int params = args->dgamma || args->dbeta;
    memset(&w, 0, sizeof w);
    w.p = &p;
    w.args = args;
    /* the instance needs no features and takes those that there are */
    features = plan->device.features & ckci_cpu_features();
    int rows = ckci_norm_takes_rows(&w, features, threads);
    if (p.op == CKCONV_GROUPNORM_FWD && rows) {
        ckci_parallel(threads, p.n * w.blocks, ckci_norm_rows_item, &w, ws, 0);
        return;
    }
    if (p.op == CKCONV_GROUPNORM_FWD) {
        ckci_parallel(threads, p.n * p.g, ckci_norm_fwd_item, &w, ws, 0);
        return;
    }
    if (plan->workspace_bytes > 0 && params) {
        w.sums = (double *)(void *)ws;
    }
    if (rows && (args->din || w.sums)) {
        ckci_parallel(threads, p.n * w.blocks, ckci_norm_rows_item, &w, ws, 0);
    } else if (args->din || w.sums) {
        ckci_parallel(threads, p.n * p.g, ckci_norm_bwd_item, &w, ws, 0);
    }
    if (w.sums) {
        ckci_parallel(threads, ckci_ceil_div(p.g * p.c, 64), ckci_norm_sum_item, &w, ws, 0);
    } else if (params) {
        ckci_parallel(threads, p.g * ckci_ceil_div(p.c, CKCI_NORM_TILE), ckci_norm_param_item, &w, ws, 0);
    }
}


/*------------------------------------------------------------------------------------------------------------
  >>c-undef
*/
#undef CKCI_HALF_MEMORY
#undef CKCI_PREFETCH
#undef CKCI_PIN
#undef CKCI_LINES_BEGIN
#undef CKCI_LINES_SUM
#undef CKCI_LINES_FIRST
#undef CKCI_LINES_TURN
#undef CKCI_LINES_STEP
#undef CKCI_LINES_SHIFT
#undef CKCI_LINES_LAST
#undef CKCI_LINES_KERNEL
#undef CKCI_CONVERTER
#undef CKCI_KERNELS
#undef CKCI_KERNEL_SET
#undef CKCI_LINE_ADD
#undef CKCI_LINE_BEGIN
#undef CKCI_LINE_END
#undef CKCI_LINE_KERNEL
#undef CKCI_LINE_STEP
#undef CKCI_LINE_TAPS
#undef CKCI_OPAQUE
#undef CKCI_OUTER
#undef CKCI_R14
#undef CKCI_R2
#undef CKCI_R3
#undef CKCI_R4
#undef CKCI_R6
#undef CKCI_R7
#undef CKCI_R8
#undef CKCI_R9
#undef CKCI_COPY_KERNEL
#undef CKCI_NORM_ROWS
#undef CKCI_NORM_DOUBLES
#undef CKCI_NORM_SUMS
#undef CKCI_NORM_MAP
#undef CKCI_NORM_EXP
#undef CKCI_NORM_ACT
#undef CKCI_BF16_KERNELS
#undef CKCI_BF16_SET
#undef CKCI_NO_BF16_SET
#undef CKCI_OUTER2_ADD
#undef CKCI_OUTER2_BEGIN
#undef CKCI_OUTER2_END
#undef CKCI_OUTER2_LOAD
#undef CKCI_OUTER2_STEP
#undef CKCI_OUTER3_ADD
#undef CKCI_OUTER3_BEGIN
#undef CKCI_OUTER3_END
#undef CKCI_OUTER3_LOAD
#undef CKCI_OUTER3_STEP
#undef CKCI_OUTERS
#undef CKCI_THREE
#undef CKCI_THREES
#undef CKCI_THREE_AT
#undef CKCI_THREE_KERNEL
#undef CKCI_THREE_MIDDLE14
#undef CKCI_THREE_MIDDLE7
#undef CKCI_WIDENING
#undef CKCI_BF16_WIDENING
#undef CKCI_F16_WIDENING
#undef CKCI_XT
#undef CKCI_X
#undef CKCI_SPREAD_PERMUTE
#undef CKCI_SPREAD_SCALAR
#undef CKCI_TAPS_BEGIN
#undef CKCI_TAPS_END
#undef CKCI_TAPS_KERNEL
#undef CKCI_TAPS_NEXT
#undef CKCI_TAPS_STEP
#undef CKCI_TILE
#undef CKCI_TILES
#undef CKCI_TILE1_ADD
#undef CKCI_TILE1_BEGIN
#undef CKCI_TILE1_END
#undef CKCI_TILE1_FIRST
#undef CKCI_TILE1_LOAD
#undef CKCI_TILE1_SECOND
#undef CKCI_TILE2_ADD
#undef CKCI_TILE2_BEGIN
#undef CKCI_TILE2_END
#undef CKCI_TILE2_FIRST
#undef CKCI_TILE2_LOAD
#undef CKCI_TILE2_SECOND

#endif /* CKCONV_CPU_H */
