/*------------------------------------------------------------------------------------------------------------
  >>k-matrix-pointwise
  fwd and bwd_data of one tap and few channels, whose time is that of their bytes. The weights lie in LDS for
  as long as a block lives; its waves go their own ways, without a barrier: each loads positions from memory
  as operands of the matrix unit, all channels of them, multiplies them with 32 columns of weights after the
  other, and stores its sums from registers. Nothing but weights passes through LDS, and as many loads are
  under way as registers hold. A residual is loaded as it is stored: as soon as registers have no need of what
  came for some columns, what the next ones get is on its way into them.
      rows, columns, reduction    fwd N * space, K, C    bwd_data N * space, C, K
  The order of the reduction inside 32 channels is free, and so is that of columns in a product: each lane
  loads 16 bytes of a position, and gets sums of eight or sixteen neighbouring columns of one.
*/
#pragma once
#include "kernels/store.h"
#include "kernels/unit/mfma.h"
#include "kernels/unit/mma.h"
#include "kernels/unit/wmma.h"

/* ---- The units. A wave multiplies POSITIONS positions by 32 columns, 32 channels of each at a time. Its
   operand of positions is LOADS chunks of eight channels for each lane, chunk(i) of position(i); that of
   weights WEIGHTS chunks, weight_chunk(i) of column weight_column(i). A lane's sums are LINES lines of eight
   columns: take() copies one, of position line_position(l), from column line_column(l) on. */
struct ckci_k_point_mfma;
struct ckci_k_point_mma;
template <int GFX> struct ckci_k_point_wmma;
#if defined(CKCI_K_MMA)
/* NVIDIA: positions are the rows of products of 16 x 8. A chunk's four words are places of two products. */
struct ckci_k_point_mma {
    enum { WAVE = 32, POSITIONS = 16, LOADS = 2, WEIGHTS = 4, LINES = 2, NVIDIA = 1 };
    struct sums {
        float v[16];
    };

    /* pairs: a lane has both positions of a pair. */
    static CKCI_K_MEMBER int position(int i, bool pairs = false)
    {
        const int lane = (int)threadIdx.x % 32 / 4;
        return pairs ? 2 * lane + i : lane + 8 * i;
    }

    static CKCI_K_MEMBER int chunk(int)
    {
        return (int)threadIdx.x % 4;
    }

    static CKCI_K_MEMBER int weight_column(int i)
    {
        return (int)threadIdx.x % 32 / 8 * 8 + 2 * i + (int)threadIdx.x / 4 % 2;
    }

    static CKCI_K_MEMBER int weight_chunk(int)
    {
        return (int)threadIdx.x % 4;
    }

    template <class T>
    static CKCI_K_MEMBER void multiply(sums &d, const ckci_k_uint4 (&x)[LOADS],
                                       const ckci_k_uint4 (&w)[WEIGHTS])
    {
        const ckci_k_uint4 first = {x[0].x, x[1].x, x[0].y, x[1].y},
                           second = {x[0].z, x[1].z, x[0].w, x[1].w};
        CKCI_K_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            ckci_k_mma::half<T>(d.v + 4 * j, first, w[j].x, w[j].y);
            ckci_k_mma::half<T>(d.v + 4 * j, second, w[j].z, w[j].w);
        }
    }

    static CKCI_K_MEMBER void clear(sums &d)
    {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < 16; i++) {
            d.v[i] = 0;
        }
    }

    static CKCI_K_MEMBER void settle(sums &)
    {
    }

    static CKCI_K_MEMBER int line_position(int l, bool pairs = false)
    {
        return position(l, pairs);
    }

    static CKCI_K_MEMBER int line_column(int)
    {
        return (int)threadIdx.x % 4 * 8;
    }

    static CKCI_K_MEMBER void take(const sums &d, int l, float (&v)[8])
    {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            v[i] = d.v[i / 2 * 4 + 2 * l + i % 2];
        }
    }
};
#endif

#if defined(CKCI_K_MFMA)
/* CDNA: positions are the columns of products of 32 x 32; a lane's 16 sums are neighbours. */
struct ckci_k_point_mfma {
    enum { WAVE = 64, POSITIONS = 32, LOADS = 2, WEIGHTS = 2, LINES = 2, NVIDIA = 0 };
    typedef ckci_k_mfma::sums sums;

    static CKCI_K_MEMBER int half()
    {
        return (int)threadIdx.x % 64 / 32;
    }

    static CKCI_K_MEMBER int position(int, bool = false)
    {
        return (int)threadIdx.x % 32;
    }

    static CKCI_K_MEMBER int chunk(int i)
    {
        return 2 * i + half();
    }

    /* row 8 * a + 4 * b + c of a product: column 16 * b + 4 * a + c */
    static CKCI_K_MEMBER int weight_column(int)
    {
        const int row = (int)threadIdx.x % 32;
        return row / 4 % 2 * 16 + row / 8 * 4 + row % 4;
    }

    static CKCI_K_MEMBER int weight_chunk(int i)
    {
        return chunk(i);
    }

    template <class T>
    static CKCI_K_MEMBER void multiply(sums &d, const ckci_k_uint4 (&x)[LOADS],
                                       const ckci_k_uint4 (&w)[WEIGHTS])
    {
        ckci_k_mfma::multiply<T>(d, w[0], x[0]);
        ckci_k_mfma::multiply<T>(d, w[1], x[1]);
    }

    static CKCI_K_MEMBER void clear(sums &d)
    {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < 16; i++) {
            d.v[i] = 0;
        }
    }

    static CKCI_K_MEMBER void settle(sums &)
    {
    }

    static CKCI_K_MEMBER int line_position(int, bool = false)
    {
        return position(0);
    }

    static CKCI_K_MEMBER int line_column(int l)
    {
        return half() * 16 + l * 8;
    }

    static CKCI_K_MEMBER void take(const sums &d, int l, float (&v)[8])
    {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            v[i] = d.v[l * 8 + i];
        }
    }
};
#endif

#if defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12)
/* RDNA: positions are the columns of products of 16 x 16, two of them; a lane has eight neighbouring sums of
   each. Before gfx12 both halves of a wave hold the same places. */
template <int GFX> struct ckci_k_point_wmma {
    enum {
        WAVE = 32,
        POSITIONS = 16,
        LOADS = GFX == 11 ? 4 : 2,
        WEIGHTS = 2 * LOADS,
        LINES = 2,
        NVIDIA = 0,
        EACH = LOADS / 2 /* chunks of a product */
    };
    typedef ckci_k_wmma<GFX> unit;
    struct sums {
        typename unit::sums v[2];
    };

    static CKCI_K_MEMBER int half()
    {
        return (int)threadIdx.x % 32 / 16;
    }

    static CKCI_K_MEMBER int position(int, bool = false)
    {
        return (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER int chunk(int i)
    {
        return GFX == 11 ? i : 2 * i + half();
    }

    static CKCI_K_MEMBER int weight_column(int i)
    {
        const int row = (int)threadIdx.x % 16;
        return i / LOADS * 16 + (GFX == 11 ? row % 2 * 8 + row / 2 : row);
    }

    static CKCI_K_MEMBER int weight_chunk(int i)
    {
        return chunk(i % LOADS);
    }

    template <class T>
    static CKCI_K_MEMBER void multiply(sums &d, const ckci_k_uint4 (&x)[LOADS],
                                       const ckci_k_uint4 (&w)[WEIGHTS])
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            typename unit::operand a, b;
            CKCI_K_UNROLL(2)
            for (int e = 0; e < EACH; e++) {
                a.v[e] = w[i / 2 * LOADS + i % 2 * EACH + e];
                b.v[e] = x[i % 2 * EACH + e];
            }
            unit::template multiply<T>(d.v[i / 2], a, b);
        }
    }

    static CKCI_K_MEMBER void clear(sums &d)
    {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < 16; i++) {
            d.v[i / 8].v[i % 8] = 0;
        }
    }

    static CKCI_K_MEMBER void settle(sums &d)
    {
        ckci_k_settle<unit>(d.v[0]);
        ckci_k_settle<unit>(d.v[1]);
    }

    static CKCI_K_MEMBER int line_position(int, bool = false)
    {
        return position(0);
    }

    static CKCI_K_MEMBER int line_column(int l)
    {
        return l * 16 + half() * 8;
    }

    static CKCI_K_MEMBER void take(const sums &d, int l, float (&v)[8])
    {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            v[i] = d.v[l].v[i];
        }
    }
};
#endif

/* What becomes of sums: they are stored, numbers in LDS come to them (ckci_gpu_conv's as.point.added), and a
   residual; or any other closed or curved form. */
enum { CKCI_K_POINT_STORE, CKCI_K_POINT_ADDED, CKCI_K_POINT_RESIDUAL, CKCI_K_POINT_ANY };

/* ---- Weights in LDS, of all units, by blocks of so many threads. */
template <int NVIDIA, int THREADS = 256> struct ckci_k_point_weights {
    /* Where chunk `chunk` of column `column` lies: rows of `pitch` bytes, a multiple of 128, chunks of each
       eight exchanged so that neither stores nor loads of neighbouring lanes meet in the banks. AMD: nor of
       those lanes that CDNA serves together, eight from 32 banks or, CDNA 4, sixteen from 64, for which
       chunks of rows of 256 bytes are exchanged among sixteen. */
    static CKCI_K_MEMBER int32_t spot(int32_t pitch, int32_t column, int32_t chunk)
    {
        const int32_t turn = (column & 1) << 2 | (column >> 1 & 3);
        if constexpr (!NVIDIA) {
            const int32_t far = pitch & 128 ? 0 : (column & 1) << 3;
            return column * pitch + (chunk ^ turn ^ far ^ (column >> 3 & 1) * 6) * 16;
        }
        return column * pitch + (chunk ^ turn ^ ((column >> 3 ^ column >> 4) & 1) << 1) * 16;
    }

    /* A chunk of memory, or zeros. */
    static CKCI_K_MEMBER ckci_k_uint4 some(const unsigned char *from, bool good)
    {
        ckci_k_uint4 v = {0, 0, 0, 0};
        if (good) {
            v = *(const ckci_k_uint4 *)from;
        }
        return v;
    }

    /* Weights of `count` columns from `column0` (an eight) on as rows, zeros behind both ends. A thread's
       loads are under way together, EACH of them. */
    static CKCI_K_MEMBER void fill(const ckci_gpu_conv &p, unsigned char *room, int32_t column0,
                                   int32_t count)
    {
        enum { EACH = 8 };
        const int32_t pitch = p.as.point.pitch, chunks = pitch / 16, columns = (count + 31) / 32 * 32,
                      pairs = chunks * 4, exist = p.columns - column0;
        const unsigned char *from = p.b.p + CKCI_K_HALF * (column0 * p.b_column);
        if (p.b_red == 1) {
            CKCI_K_UNROLL(1)
            for (int32_t first = (int32_t)threadIdx.x; first < columns * chunks; first += THREADS * EACH) {
                ckci_k_uint4 v[EACH];
                CKCI_K_UNROLL(8)
                for (int i = 0; i < EACH; i++) {
                    const int32_t e = first + i * THREADS, column = ckci_k_divide(e, p.as.point.by_chunks),
                                  chunk = e - column * chunks;
                    v[i] = some(from + CKCI_K_HALF * (column * p.b_column + chunk * 8),
                                column < exist && chunk * 8 < p.red);
                }
                CKCI_K_UNROLL(8)
                for (int i = 0; i < EACH; i++) {
                    const int32_t e = first + i * THREADS, column = ckci_k_divide(e, p.as.point.by_chunks),
                                  chunk = e - column * chunks;
                    if (column < columns) {
                        *(ckci_k_uint4 *)(room + spot(pitch, column, chunk)) = v[i];
                    }
                }
            }
            return;
        }
        /* turned: two rows of eight columns become a word of each */
        CKCI_K_UNROLL(1)
        for (int32_t first = (int32_t)threadIdx.x; first < columns / 8 * pairs; first += THREADS / 2 * EACH) {
            ckci_k_uint4 v[EACH];
            CKCI_K_UNROLL(8)
            for (int i = 0; i < EACH; i++) {
                const int32_t e = first + i / 2 * THREADS, eight = ckci_k_divide(e / 4, p.as.point.by_chunks),
                              row = (e - eight * pairs) * 2 + i % 2;
                v[i] =
                    some(from + CKCI_K_HALF * (row * p.b_red + eight * 8), eight * 8 < exist && row < p.red);
            }
            CKCI_K_UNROLL(4)
            for (int i = 0; i < EACH; i += 2) {
                const int32_t e = first + i / 2 * THREADS, eight = ckci_k_divide(e / 4, p.as.point.by_chunks),
                              pair = e - eight * pairs;
                if (eight * 8 < columns) {
                    turn(room, pitch, eight * 8, pair, v[i], v[i + 1]);
                }
            }
        }
    }

    /* What D tensors of one number a channel add to these columns, and multiply them with, behind the
       weights. */
    static CKCI_K_MEMBER void prepare(const ckci_gpu_conv &p, unsigned char *room, int32_t column0,
                                      int32_t count)
    {
        if (p.as.point.added) {
            ckci_k_add_channels<THREADS>(p.o, (float *)(room + p.as.point.added), column0,
                                         (count + 31) / 32 * 32, count,
                                         p.as.point.factors ? (float *)(room + p.as.point.factors) : nullptr);
        }
    }

    /* The kernel's form; with D tensors beside `added` that lie as the output but for the residual: any. */
    static CKCI_K_MEMBER int form(const ckci_gpu_conv &p)
    {
        return p.o.form == CKCI_FORM_STORE             ? CKCI_K_POINT_STORE
               : p.as.point.factors                    ? CKCI_K_POINT_ADDED
               : !p.as.point.added || p.o.residual < 0 ? CKCI_K_POINT_ANY
               : p.o.residual == 0                     ? CKCI_K_POINT_ADDED
               : p.as.point.residual                   ? CKCI_K_POINT_RESIDUAL
                                                       : CKCI_K_POINT_ANY;
    }

    /* The epilogue of N sums that go to memory at `to` together: of neighbouring columns from `column` on
       (ACROSS: of positions of that one), of which the first that a block has is `column0`; but for a
       residual and limits where its form is closed. */
    template <int N, bool ACROSS, int FORM>
    static CKCI_K_MEMBER void finish(const ckci_gpu_conv &p, const unsigned char *room, float (&x)[N],
                                     const unsigned char *to, int32_t column, int32_t column0)
    {
        if constexpr (FORM == CKCI_K_POINT_ANY) {
            ckci_k_epilogue<N, true, false>(p.o, x, to, column);
        } else if constexpr (FORM != CKCI_K_POINT_STORE) {
            const float *more = (const float *)(room + p.as.point.added) + (column - column0);
            if (FORM == CKCI_K_POINT_ADDED && p.as.point.factors) {
                const float *factor = (const float *)(room + p.as.point.factors) + (column - column0);
                CKCI_K_UNROLL(8)
                for (int i = 0; i < N; i++) {
                    x[i] *= factor[ACROSS ? 0 : i];
                }
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < N; i++) {
                x[i] = ckci_k_fma(p.o.alpha, x[i], more[ACROSS ? 0 : i]);
            }
        }
    }

    static CKCI_K_MEMBER void turn(unsigned char *room, int32_t pitch, int32_t column, int32_t pair,
                                   const ckci_k_uint4 &x, const ckci_k_uint4 &y)
    {
        const uint32_t low[4] = {x.x, x.y, x.z, x.w}, high[4] = {y.x, y.y, y.z, y.w};
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            const uint32_t word = i % 2 ? low[i / 2] >> 16 | (high[i / 2] & 0xffff0000u)
                                        : (low[i / 2] & 0xffffu) | high[i / 2] << 16;
            *(uint32_t *)(room + spot(pitch, column + i, pair / 4) + pair % 4 * 4) = word;
        }
    }
};

/* ---- The kernel: TILES times POSITIONS positions of a wave at a time, up to STEPS times 32 channels. */
template <class U, int STEPS> struct ckci_k_pointwise : ckci_k_point_weights<U::NVIDIA> {
    typedef ckci_k_point_weights<U::NVIDIA> held;
    enum {
        TILES = CKCI_POINTWISE_TILES(STEPS),
        WAVES = 256 / U::WAVE,
        AHEAD = STEPS * U::LOADS <= 16 /* the next tile, and a residual, are on their way meanwhile */
    };
    struct lds {
        alignas(16) unsigned char weights[CKCI_POINTWISE_LDS(U::NVIDIA)];
    };

    /* NVIDIA: do positions' rows begin in turns at 32 bytes, as memory has them, and between? */
    static CKCI_K_MEMBER bool paired(const ckci_gpu_conv &p)
    {
        return U::NVIDIA && p.as.point.pairs;
    }

    /* What a lane holds of a tile. */
    struct positions {
        ckci_k_uint4 v[TILES][STEPS][U::LOADS];

        CKCI_K_MEMBER void load(const ckci_gpu_conv &p, int32_t row0)
        {
            const unsigned char *from = p.a.p + CKCI_K_HALF * (row0 * p.a.stride[5]);
            const int32_t pitch = CKCI_K_HALF * (int32_t)p.a.stride[5], rows = p.rows - row0;
            CKCI_K_UNROLL(8)
            for (int t = 0; t < TILES; t++) {
                CKCI_K_UNROLL(8)
                for (int s = 0; s < STEPS; s++) {
                    CKCI_K_UNROLL(4)
                    for (int i = 0; i < U::LOADS; i++) {
                        const int32_t row = t * U::POSITIONS + U::position(i, paired(p)),
                                      chunk = s * 4 + U::chunk(i);
                        v[t][s][i] =
                            held::some(from + (row * pitch + chunk * 16), row < rows && chunk * 8 < p.red);
                    }
                }
            }
        }
    };

    /* What the residual has for a lane's lines of a tile and 32 columns. */
    struct lines {
        ckci_k_uint4 v[TILES][U::LINES];

        CKCI_K_MEMBER void load(const ckci_gpu_conv &p, int t, int l, int32_t row0, int32_t column0)
        {
            const int32_t row = row0 + t * U::POSITIONS + U::line_position(l),
                          column = column0 + U::line_column(l);
            const unsigned char *from = ckci_k_global(p.o.d[p.as.point.residual - 1].p);
            v[t][l] = held::some(from + CKCI_K_HALF * (row * p.o.t.stride[5] + column),
                                 row < p.rows && column < p.columns);
        }
    };

    template <class T, int RESIDUAL> static CKCI_K_MEMBER void loop(const ckci_gpu_conv &p, lds &m)
    {
        const int32_t steps = (p.red + 31) / 32, wave = (int32_t)threadIdx.x / U::WAVE;
        int32_t work = ckci_k_same((int32_t)blockIdx.x * WAVES + wave);
        positions x, next;
        if (AHEAD && work < p.work) {
            x.load(p, work * (TILES * U::POSITIONS));
        }
        lines more;
        CKCI_K_UNROLL(4)
        for (int i = 0; RESIDUAL && i < TILES * U::LINES; i++) {
            more.load(p, i / U::LINES, i % U::LINES, work * (TILES * U::POSITIONS), 0);
        }
        held::fill(p, m.weights, 0, p.columns);
        held::prepare(p, m.weights, 0, p.columns);
        __syncthreads();
        CKCI_K_UNROLL(1)
        for (; work < p.work; work += p.workers) {
            const int32_t row0 = work * (TILES * U::POSITIONS);
            if (!AHEAD) {
                x.load(p, row0);
            } else if (work + p.workers < p.work) {
                next.load(p, row0 + p.workers * (TILES * U::POSITIONS));
            }
            tile<T, RESIDUAL>(p, m, x, row0, steps, more);
            if (AHEAD) {
                x = next;
            }
        }
    }

    template <class T, int RESIDUAL>
    static CKCI_K_MEMBER void tile(const ckci_gpu_conv &p, const lds &m, const positions &x, int32_t row0,
                                   int32_t steps, lines &more)
    {
        ckci_k_uint4 late[TILES];
        CKCI_K_UNROLL(1)
        for (int32_t column0 = 0; column0 < p.columns; column0 += 32) {
            typename U::sums d[TILES];
            CKCI_K_UNROLL(8)
            for (int t = 0; t < TILES; t++) {
                U::clear(d[t]);
            }
            CKCI_K_UNROLL(8)
            for (int s = 0; s < STEPS; s++) {
                if (STEPS == 1 || s < steps) {
                    ckci_k_uint4 w[U::WEIGHTS];
                    CKCI_K_UNROLL(8)
                    for (int i = 0; i < U::WEIGHTS; i++) {
                        const int32_t column = column0 + U::weight_column(i),
                                      chunk = s * 4 + U::weight_chunk(i);
                        w[i] =
                            *(const ckci_k_uint4 *)(m.weights + held::spot(p.as.point.pitch, column, chunk));
                    }
                    CKCI_K_UNROLL(8)
                    for (int t = 0; t < TILES; t++) {
                        U::template multiply<T>(d[t], x.v[t][s], w);
                    }
                }
            }
            CKCI_K_UNROLL(8)
            for (int t = 0; t < TILES; t++) {
                U::settle(d[t]);
                if constexpr (RESIDUAL) {
                    CKCI_K_UNROLL(2)
                    for (int l = 0; l < U::LINES; l++) {
                        const bool last = column0 + 32 >= p.columns;
                        alignas(16) float v[8];
                        U::take(d[t], l, v);
                        finish(p, m, v, more.v[t][l], column0 + U::line_column(l));
                        more.load(p, t, l, last ? row0 + p.workers * (TILES * U::POSITIONS) : row0,
                                  last ? 0 : column0 + 32);
                        store<CKCI_K_POINT_RESIDUAL>(p, m, v, t, l, row0, column0);
                    }
                }
            }
            if constexpr (!RESIDUAL) {
                switch (held::form(p)) {
                case CKCI_K_POINT_STORE:
                    store_lines<CKCI_K_POINT_STORE>(p, m, d, row0, column0, late);
                    break;
                case CKCI_K_POINT_ADDED:
                    store_lines<CKCI_K_POINT_ADDED>(p, m, d, row0, column0, late);
                    break;
                default:
                    store_lines<CKCI_K_POINT_ANY>(p, m, d, row0, column0, late);
                }
            }
        }
    }

    /* Without a residual that is loaded ahead. */
    template <int FORM>
    static CKCI_K_MEMBER void store_lines(const ckci_gpu_conv &p, const lds &m,
                                          const typename U::sums (&d)[TILES], int32_t row0, int32_t column0,
                                          ckci_k_uint4 (&late)[TILES])
    {
        enum { PAIRS = U::NVIDIA && (FORM == CKCI_K_POINT_STORE || FORM == CKCI_K_POINT_ADDED) };
        CKCI_K_UNROLL(8)
        for (int t = 0; t < TILES; t++) {
            if constexpr (PAIRS) {
                if (paired(p)) {
                    alignas(16) float v[2][8];
                    U::take(d[t], 0, v[0]);
                    U::take(d[t], 1, v[1]);
                    store_pair<FORM>(p, m, v, row0 + t * U::POSITIONS + U::line_position(0, true), column0,
                                     late[t]);
                    continue;
                }
            }
            CKCI_K_UNROLL(2)
            for (int l = 0; l < U::LINES; l++) {
                alignas(16) float v[8];
                U::take(d[t], l, v);
                store<FORM>(p, m, v, t, l, row0, column0);
            }
        }
    }

    /* A line of sums, but for a residual: as it is stored at `to`. */
    template <int FORM>
    static CKCI_K_MEMBER void finish_line(const ckci_gpu_conv &p, const lds &m, float (&v)[8],
                                          const unsigned char *to, int32_t column)
    {
        if constexpr (FORM != CKCI_K_POINT_RESIDUAL) {
            held::template finish<8, false, FORM>(p, m.weights, v, to, column, 0);
        }
        if constexpr (FORM == CKCI_K_POINT_ADDED) {
            ckci_k_limit_line(p.o, v);
        }
    }

    /* Line l of product t to memory. */
    template <int FORM>
    static CKCI_K_MEMBER void store(const ckci_gpu_conv &p, const lds &m, float (&v)[8], int t, int l,
                                    int32_t row0, int32_t column0)
    {
        const int32_t row = row0 + t * U::POSITIONS + U::line_position(l),
                      column = column0 + U::line_column(l);
        if (row < p.rows && column < p.columns) {
            const int64_t at = row * p.o.t.stride[5] + column;
            unsigned char *to = p.o.t.p + ckci_k_size(p.o.t.dtype) * at;
            finish_line<FORM>(p, m, v, to, column);
            ckci_k_store8(p.o.t.dtype, to, v);
        }
    }

    static CKCI_K_MEMBER void put(unsigned char *to, const ckci_k_uint4 &line, bool some)
    {
        if (some) {
            *(ckci_k_uint4 *)to = line;
        }
    }

    /* By words: of two structs a compiler would select the address, and have them in memory. */
    static CKCI_K_MEMBER ckci_k_uint4 select(bool first, const ckci_k_uint4 &a, const ckci_k_uint4 &b)
    {
        return {first ? a.x : b.x, first ? a.y : b.y, first ? a.z : b.z, first ? a.w : b.w};
    }

    /* Numbers of eight columns, which lie from there on in LDS: two loads. (ckci_k_take_line makes eight of
       them on NVIDIA, where compilers do not know that they are aligned.) */
    static CKCI_K_MEMBER void load_numbers(const unsigned char *from, float (&x)[8])
    {
        const ckci_k_uint4 a = ((const ckci_k_uint4 *)from)[0], b = ((const ckci_k_uint4 *)from)[1];
        const uint32_t bits[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            x[i] = ckci_k_float(bits[i]);
        }
    }

    /* The same of two rows, in the form ADDED: their channels' numbers are loaded once. */
    static CKCI_K_MEMBER void finish_pair(const ckci_gpu_conv &p, const lds &m, float (&v)[2][8],
                                          int32_t column)
    {
        float more[8];
        if (p.as.point.factors) {
            load_numbers(m.weights + p.as.point.factors + 4 * column, more);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 8; i++) {
                v[0][i] *= more[i];
                v[1][i] *= more[i];
            }
        }
        load_numbers(m.weights + p.as.point.added + 4 * column, more);
        ckci_k_linear(p.o, v[0], more);
        ckci_k_linear(p.o, v[1], more);
        ckci_k_limit_line(p.o, v[0]);
        ckci_k_limit_line(p.o, v[1]);
    }

    /* Rows of an odd number of lines, two at a time, so that a store fills sectors of 32 bytes: half written
       ones cost as much again, and more where they leave the cache before their other half comes (H200, 32
       to 72 channels at 112 x 112: 102 us, in pairs 54, PyTorch 53). The second row's lines go 1 and 2, 3 to
       6, 7 to 10, ...: the last of four waits in its lane for the next ones. Line 0 waits in lane 1 for the
       first row's last one, which is lane 0's or 2's. */
    template <int FORM>
    static CKCI_K_MEMBER void store_pair(const ckci_gpu_conv &p, const lds &m, float (&v)[2][8], int32_t row,
                                         int32_t column0, ckci_k_uint4 &late)
    {
        const int32_t lane = (int32_t)threadIdx.x % 4, column = column0 + lane * 8;
        const bool some = column < p.columns, first = row < p.rows, second = row + 1 < p.rows,
                   last = column + 8 == p.columns;
        unsigned char *to[2];
        ckci_k_uint4 line[2];
        if constexpr (FORM == CKCI_K_POINT_ADDED) {
            finish_pair(p, m, v, column);
        }
        CKCI_K_UNROLL(2)
        for (int l = 0; l < 2; l++) {
            to[l] = p.o.t.p + CKCI_K_HALF * ((row + l) * p.o.t.stride[5] + column);
            line[l] = ckci_k_eight_halves(CKCI_K_BF16(p.o.t.dtype != CKCONV_F16),
                                          ((const ckci_k_uint4 *)v[l])[0], ((const ckci_k_uint4 *)v[l])[1]);
        }
        if (column0 == 0) {
            const ckci_k_uint4 before = {ckci_k_bits(ckci_k_shuffle_xor(ckci_k_float(line[1].x), 1)),
                                         ckci_k_bits(ckci_k_shuffle_xor(ckci_k_float(line[1].y), 1)),
                                         ckci_k_bits(ckci_k_shuffle_xor(ckci_k_float(line[1].z), 1)),
                                         ckci_k_bits(ckci_k_shuffle_xor(ckci_k_float(line[1].w), 1))};
            late = select(lane == 1, before, late);
        }
        /* each a store of all lanes: what they select makes its sectors whole */
        const bool held_line = lane == 3;
        const ckci_k_uint4 own = line[1], end = select(lane == 1, late, line[0]);
        unsigned char *past = lane == 1 ? to[1] - CKCI_K_HALF * column : to[0];
        put(to[0], line[0], some && first && !last);
        put(held_line ? to[1] - 64 : to[1], select(held_line, late, own),
            second && (held_line ? column0 > 0 : some && column > 0));
        put(past, end, column0 + 32 >= p.columns && (lane == 1 ? second : some && first && last));
        late = select(held_line, own, late);
    }

    /* With a residual: of a line from `column` on. */
    static CKCI_K_MEMBER void finish(const ckci_gpu_conv &p, const lds &m, float (&x)[8],
                                     const ckci_k_uint4 &more, int32_t column)
    {
        const uint32_t words[4] = {more.x, more.y, more.z, more.w};
        ckci_k_linear(p.o, x, (const float *)(m.weights + p.as.point.added) + column);
        ckci_k_add_residual(p.o, x, p.o.t.dtype, words, p.o.gate);
        ckci_k_limit_line(p.o, x);
    }

    template <class T> static CKCI_K_MEMBER void run_as(const ckci_gpu_conv &p, lds &m)
    {
        if (AHEAD && p.as.point.residual) {
            loop<T, AHEAD>(p, m);
        } else {
            loop<T, 0>(p, m);
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        if (CKCI_K_BF16(p.a.dtype != CKCONV_F16)) {
            run_as<ckci_k_bf16>(p, m);
        } else {
            run_as<ckci_k_f16>(p, m);
        }
    }
};

template <int STEPS>
struct ckci_k_matrix_pointwise
    : ckci_k_by_unit<
          ckci_k_pointwise<ckci_k_point_mfma, STEPS>, ckci_k_pointwise<ckci_k_point_wmma<11>, STEPS>,
          ckci_k_pointwise<ckci_k_point_wmma<12>, STEPS>, ckci_k_pointwise<ckci_k_point_mma, STEPS>> {
};

template <int STEPS> struct ckci_k_resident<ckci_k_matrix_pointwise<STEPS>> {
    enum { BLOCKS = STEPS > 4 ? 1 : 2 };
};

/* More than 256 registers would leave a SIMD of CDNA one wave. */
template <int STEPS> struct ckci_k_together<ckci_k_matrix_pointwise<STEPS>> {
    enum { WAVES = 2 };
};
