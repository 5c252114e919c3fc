/*------------------------------------------------------------------------------------------------------------
  >>cpu-vector
  Register tiles of one vector kind, written once as macros and stamped out for each; and the types of the
  microkernels that cpu/isa.h collects in a table. Portable vectors are 16 bytes of the compiler's own vector
  extension, or plain numbers where it has none, so that code above them is written once. It knows neither
  tensors nor convolutions.
*/
#pragma once
#include "core/platform.h"

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
/* dst[column * dst_step + row] = src[row * src_step + column] */
typedef void (*ckci_turn_kernel)(int64_t rows, int64_t columns, const void *src, int64_t src_step, void *dst,
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
    ckci_turn_kernel turn;
    ckci_three_kernel three14, three7;  /* these and all after them: f32 only */
    ckci_copy_kernel widen16, narrow16; /* f16 */
    ckci_copy_kernel widen, narrow;     /* these and the next read or write bf16 */
    ckci_line_kernel half14, half7;
    ckci_three_kernel half_three14, half_three7;
    ckci_taps_kernel half_taps9;
    ckci_zip_kernel zip;                   /* of kernels that take pairs, else NULL */
    ckci_lines_kernel lines9, half_lines9; /* or NULL */
} ckci_kernels;
