/*------------------------------------------------------------------------------------------------------------
  >>k-matrix-stem
  fwd and bwd_data of first layers: few channels, whose taps fill the reduction together with them. Pixels of
  a tile of positions lie in LDS as channels last has them, weights are packed once by each block, which then
  takes one tile after the other and owns their outputs. The planner (>>gpu-stem) chooses tiles and refuses
  tensors that do not lie dense.
*/
#pragma once
#include "kernels/store.h"
#include "kernels/unit/mfma.h"
#include "kernels/unit/wmma.h"
#include "kernels/unit/mma.h"
#include "kernels/chunks.h"

/* ---- First layers: few channels (C), 16-bit types, in one or two dimensions. The general tiles pad C to
   eight and read memory once for each tap; here the pixels that a tile of positions reads lie in LDS as
   memory with channels last holds them. Blocks stay: each packs the weights once and then takes tiles of
   positions (items) p.blocks apart. Channels first: pixels are turned on their way into LDS, and eight
   neighbouring positions of a channel are stored together. Of a unit these kernels ask, besides its products:
       words     the operand whose row r, pair i of the reduction is f(h, i'): a lane holds HOLDS rows,
                 held(h), and PAIRS pairs of each, pair(i')
       channel   which of 64 channels stands in row (column) i of tile t of the weights, such that a lane has
                 eight neighbouring ones in its sums: chunk u of row held(h), of CHUNKS, from
                 chunk_channel(u) on
       product   sums of which a lane holds channels of one position (`across`: rows are positions)
       turned    the same of which it holds positions of a channel: `line` l, of LINES, of 16 channels and two
                 tiles of positions is eight neighbours, from line_first on, of channel line_channel; position
                 says which of the 32 is row r of tile i */
struct ckci_k_stem_mfma;
struct ckci_k_stem_mma;
template <int GFX> struct ckci_k_stem_wmma;
#if defined(CKCI_K_MFMA)
struct ckci_k_stem_mfma : ckci_k_mfma16 {
    enum { HOLDS = 1, PAIRS = 2, CHUNKS = 2, LINES = 1 };

    static CKCI_K_MEMBER int held(int)
    {
        return (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER int pair(int i)
    {
        return (int)threadIdx.x % WAVE / 16 * 2 + i;
    }

    template <class F> static CKCI_K_MEMBER operand words(F f)
    {
        const operand r = {f(0, 0), f(0, 1)};
        return r;
    }

    static CKCI_K_MEMBER int channel(int t, int row)
    {
        return t / 2 * 32 + row / 4 * 8 + t % 2 * 4 + row % 4;
    }

    static CKCI_K_MEMBER int chunk_channel(int u)
    {
        return u * 32 + (int)threadIdx.x % WAVE / 16 * 8;
    }

    static CKCI_K_MEMBER float chunk(const sums (&s)[4], int u, int, int i)
    {
        return s[2 * u + i / 4].v[i % 4];
    }

    /* The operand of the weights, of this lane's row wei_row() from `at` on. */
    static CKCI_K_MEMBER int wei_row()
    {
        return (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER operand wei(const unsigned char *at)
    {
        return load_rows(at, 0);
    }

    template <class T> static CKCI_K_MEMBER void product(sums &d, const operand &pixels, const operand &wei)
    {
        multiply<T>(d, wei, pixels);
    }

    template <class T> static CKCI_K_MEMBER void across(sums &d, const operand &pixels, const operand &wei)
    {
        multiply<T>(d, pixels, wei);
    }

    template <class T> static CKCI_K_MEMBER void turned(sums &d, const operand &pixels, const operand &wei)
    {
        across<T>(d, pixels, wei);
    }

    static CKCI_K_MEMBER int position(int i, int row)
    {
        return row / 4 * 8 + i * 4 + row % 4;
    }

    static CKCI_K_MEMBER int line_first(int)
    {
        return (int)threadIdx.x % WAVE / 16 * 8;
    }

    static CKCI_K_MEMBER int line_channel(int)
    {
        return (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER float line(const sums &low, const sums &high, int, int i)
    {
        return i < 4 ? low.v[i] : high.v[i - 4];
    }
};
#endif

#if defined(CKCI_K_WMMA) || defined(CKCI_K_WMMA12)
template <int GFX> struct ckci_k_stem_wmma : ckci_k_wmma<GFX> {
    enum { HOLDS = 1, PAIRS = GFX == 11 ? 8 : 4, CHUNKS = 4, LINES = 2 };
    typedef ckci_k_wmma<GFX> base;
    typedef typename base::operand operand;
    typedef typename base::sums sums;

    static CKCI_K_MEMBER int half()
    {
        return (int)threadIdx.x % 32 / 16;
    }

    static CKCI_K_MEMBER int held(int)
    {
        return (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER int pair(int i)
    {
        return GFX == 11 ? i : half() * 4 + i;
    }

    template <class F> static CKCI_K_MEMBER operand words(F f)
    {
        operand r;
        CKCI_K_UNROLL(2)
        for (int i = 0; i < PAIRS / 4; i++) {
            const ckci_k_uint4 v = {f(0, 4 * i), f(0, 4 * i + 1), f(0, 4 * i + 2), f(0, 4 * i + 3)};
            r.v[i] = v;
        }
        return r;
    }

    static CKCI_K_MEMBER int channel(int t, int row)
    {
        return GFX == 11 ? t * 16 + row % 2 * 8 + row / 2 : t * 16 + row;
    }

    static CKCI_K_MEMBER int chunk_channel(int u)
    {
        return u * 16 + half() * 8;
    }

    static CKCI_K_MEMBER float chunk(const sums (&s)[4], int u, int, int i)
    {
        return s[u].v[i];
    }

    /* The operand of the weights, of this lane's row wei_row() from `at` on. */
    static CKCI_K_MEMBER int wei_row()
    {
        return (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER operand wei(const unsigned char *at)
    {
        return base::load_rows(at, 0);
    }

    template <class T> static CKCI_K_MEMBER void product(sums &d, const operand &pixels, const operand &wei)
    {
        base::template multiply<T>(d, wei, pixels);
    }

    template <class T> static CKCI_K_MEMBER void across(sums &d, const operand &pixels, const operand &wei)
    {
        base::template multiply<T>(d, pixels, wei);
    }

    template <class T> static CKCI_K_MEMBER void turned(sums &d, const operand &pixels, const operand &wei)
    {
        across<T>(d, pixels, wei);
    }

    static CKCI_K_MEMBER int position(int i, int row)
    {
        return i * 16 + (GFX == 11 ? row % 2 * 8 + row / 2 : row);
    }

    static CKCI_K_MEMBER int line_first(int l)
    {
        return l * 16 + half() * 8;
    }

    static CKCI_K_MEMBER int line_channel(int)
    {
        return (int)threadIdx.x % 16;
    }

    static CKCI_K_MEMBER float line(const sums &low, const sums &high, int l, int i)
    {
        return l ? high.v[i] : low.v[i];
    }
};
#endif

#if defined(CKCI_K_MMA)
struct ckci_k_stem_mma : ckci_k_mma {
    enum { HOLDS = 2, PAIRS = 2, CHUNKS = 2, LINES = 2 };

    static CKCI_K_MEMBER int held(int h)
    {
        return (int)threadIdx.x % WAVE / 4 + 8 * h;
    }

    static CKCI_K_MEMBER int pair(int i)
    {
        return (int)threadIdx.x % 4 + 4 * i;
    }

    template <class F> static CKCI_K_MEMBER operand words(F f)
    {
        const operand r = {f(0, 0), f(1, 0), f(0, 1), f(1, 1)};
        return r;
    }

    static CKCI_K_MEMBER int channel(int t, int column)
    {
        return t / 2 * 32 + column % 8 / 2 * 8 + t % 2 * 4 + column / 8 * 2 + column % 2;
    }

    static CKCI_K_MEMBER int chunk_channel(int u)
    {
        return u * 32 + (int)threadIdx.x % 4 * 8;
    }

    static CKCI_K_MEMBER float chunk(const sums (&s)[4], int u, int h, int i)
    {
        return s[2 * u + i / 4].v[i % 4 / 2 * 4 + h * 2 + i % 2];
    }

    /* x, y: columns 0 to 7, neighbouring registers as the product takes them; z, w: the others */
    static CKCI_K_MEMBER int wei_row()
    {
        return (int)threadIdx.x % 8 + (int)threadIdx.x % WAVE / 16 * 8;
    }

    static CKCI_K_MEMBER operand wei(const unsigned char *at)
    {
        return load_rows(at + ((int)threadIdx.x / 8 % 2 - (int)threadIdx.x % WAVE / 16) * 16, 0);
    }

    template <class T> static CKCI_K_MEMBER void product(sums &d, const operand &pixels, const operand &wei)
    {
        half<T>(d.v, pixels, wei.x, wei.y);
        half<T>(d.v + 4, pixels, wei.z, wei.w);
    }

    template <class T> static CKCI_K_MEMBER void across(sums &d, const operand &pixels, const operand &wei)
    {
        product<T>(d, pixels, wei);
    }

    /* Weights are the rows. */
    template <class T> static CKCI_K_MEMBER void turned(sums &d, const operand &pixels, const operand &wei)
    {
        const operand rows = {wei.x, wei.z, wei.y, wei.w};
        half<T>(d.v, rows, pixels.x, pixels.z);
        half<T>(d.v + 4, rows, pixels.y, pixels.w);
    }

    static CKCI_K_MEMBER int position(int i, int row)
    {
        return row % 8 / 2 * 8 + i * 4 + row / 8 * 2 + row % 2;
    }

    static CKCI_K_MEMBER int line_first(int)
    {
        return (int)threadIdx.x % 4 * 8;
    }

    static CKCI_K_MEMBER int line_channel(int l)
    {
        return (int)threadIdx.x % WAVE / 4 + 8 * l;
    }

    static CKCI_K_MEMBER float line(const sums &low, const sums &high, int l, int i)
    {
        return (i < 4 ? low : high).v[i % 4 / 2 * 4 + l * 2 + i % 2];
    }
};
#endif

/* A tile of positions: its image, its first position. */
struct ckci_k_stem_item {
    int32_t n, y, x;

    CKCI_K_MEMBER ckci_k_stem_item(const ckci_gpu_stem &p, int32_t item)
    {
        int32_t up = ckci_k_divide(item, p.by_tiles_x);
        x = (item - up * p.tiles[1]) * p.tile[1];
        n = ckci_k_divide(up, p.by_tiles_y);
        y = (up - n * p.tiles[0]) * p.tile[0];
    }
};

/* 16 bytes into LDS, or zeros; complete after ckci_k_stem_wait and a barrier. */
CKCI_K_FN void ckci_k_stem_copy(unsigned char *to, const ckci_k_window &w, int32_t offset, bool good)
{
#if defined(CKCI_K_MMA)
    ckci_k_copy(to, w, good ? offset : 0, good ? 16 : 0);
#else
    *(ckci_k_uint4 *)to = ckci_k_window_load(w, good ? offset : INT32_MIN);
#endif
}

/* All copies but the last COUNT batches are complete. */
template <int COUNT> CKCI_K_FN void ckci_k_stem_wait()
{
#if defined(CKCI_K_MMA)
    ckci_k_copies_wait<COUNT>();
#endif
}

CKCI_K_FN void ckci_k_stem_close()
{
#if defined(CKCI_K_MMA)
    ckci_k_copies_end();
#endif
}

/* Eight pixels of C channels as channels last has them, but of WIDE, with zeros, to LDS. v: 16 bytes for each
   channel, or, DENSE, the pixels one after the other. */
template <int C, int WIDE, bool DENSE>
CKCI_K_FN void ckci_k_stem_turn_pixels(unsigned char *to, const ckci_k_uint4 (&v)[C])
{
    uint32_t from[C][4], word[4 * WIDE];
    CKCI_K_UNROLL(4)
    for (int c = 0; c < C; c++) {
        from[c][0] = v[c].x;
        from[c][1] = v[c].y;
        from[c][2] = v[c].z;
        from[c][3] = v[c].w;
    }
    CKCI_K_UNROLL(16)
    for (int i = 0; i < 4 * WIDE; i++) {
        word[i] = 0;
        CKCI_K_UNROLL(2)
        for (int h = 0; h < 2; h++) {
            const int pixel = (2 * i + h) / WIDE, c = (2 * i + h) % WIDE;
            const int at = DENSE ? pixel * C + c : c * 8 + pixel;
            if (c < C) {
                const uint32_t both = from[at / 8][at % 8 / 2], one = at % 2 ? both >> 16 : both & 0xffffu;
                word[i] |= h ? one << 16 : one;
            }
        }
    }
    CKCI_K_UNROLL(4)
    for (int c = 0; c < WIDE; c++) {
        const ckci_k_uint4 some = {word[4 * c], word[4 * c + 1], word[4 * c + 2], word[4 * c + 3]};
        ((ckci_k_uint4 *)to)[c] = some;
    }
}

/* fwd. Rows of pixels lie in LDS as in memory, from p.left numbers before the tile's first pixel on, zeros
   where they are padding: the taps of a filter's row are neighbours there (filter * C numbers) and begin at
   an even number, or p.odd before them (its weight is zero). The reduction runs over pairs of them:
   p.row_pairs for each row of the filter, in steps of eight; a pair lies `offset` bytes behind a position's
   first one. A block holds the weights of 64 channels, a wave takes TILES * 16 positions of a tile at a time.
   While it multiplies one tile, the next one comes into the other of two buffers. Pixels whose
   channels lie apart, or become an even number of them, are staged by eights, of which the first begins at a
   multiple of eight before the tile. */
template <class U, int TILES, int BYTES, int BUFFERS> struct ckci_k_stem_fwd {
    enum { WAVES = 256 / U::WAVE };
    struct lds {
        alignas(128) unsigned char wei[64 * (4 * CKCI_STEM_PAIRS + 16)];
        unsigned char pixels[BUFFERS][BYTES];
        int32_t offset[CKCI_STEM_PAIRS];
        alignas(16) float added[64], factor[64]; /* what an epilogue has for each channel */
    };

    /* What is known of an epilogue: nothing; that there is none; that a channel has a number that is added,
       and a factor (in LDS); that a residual is added, too. */
    enum { ANY, PLAIN, NUMBERS, RESIDUAL };

    static CKCI_K_MEMBER int form(const ckci_gpu_stem &p)
    {
        return p.o.form == CKCI_FORM_STORE                                  ? PLAIN
               : p.o.residual == CKCI_RESIDUAL_ANY                          ? ANY
               : p.o.residual == 0 || p.o.residual == CKCI_RESIDUAL_FACTORS ? NUMBERS
                                                                            : RESIDUAL;
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_stem &p, lds &m)
    {
        int32_t item = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_n);
        const int32_t channel0 = ((int32_t)blockIdx.x - item * p.tiles_n) * 64;
        int buffer = 0;
        if (BUFFERS == 2) {
            stage(p, item, m.pixels[0]);
            ckci_k_stem_close();
        }
        weights(p, channel0, m);
        if (form(p) >= NUMBERS) {
            ckci_k_add_channels<256>(p.o, m.added, channel0, 64, p.k - channel0, m.factor);
        }
        CKCI_K_UNROLL(1)
        for (; item < p.items; item += p.blocks) {
            if (BUFFERS == 2 && item + p.blocks < p.items) {
                stage(p, item + p.blocks, m.pixels[BUFFERS - 1 - buffer]);
            } else if (BUFFERS == 1) {
                stage(p, item, m.pixels[0]);
            }
            ckci_k_stem_close();
            ckci_k_stem_wait<BUFFERS - 1>();
            __syncthreads();
            if (CKCI_K_BF16(p.type == CKCONV_BF16)) {
                tile<ckci_k_bf16>(p, item, channel0, m, m.pixels[buffer]);
            } else {
                tile<ckci_k_f16>(p, item, channel0, m, m.pixels[buffer]);
            }
            __syncthreads();
            buffer = BUFFERS - 1 - buffer;
        }
    }

    static CKCI_K_MEMBER void weights(const ckci_gpu_stem &p, int32_t channel0, lds &m)
    {
        const int32_t pairs = p.steps * 8, pitch = p.steps * 32 + 16, width = p.filter[1] * p.c;
        const int64_t *s = p.b.stride;
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x; i < 64 * pairs; i += 256) {
            const int32_t row = ckci_k_divide(i, p.by_pairs), pair = i - row * pairs;
            const int32_t y = ckci_k_divide(pair, p.by_row), at = (pair - y * p.row_pairs) * 2 - p.odd;
            const int32_t k = channel0 + (p.out_first ? row : U::channel(row / 16, row % 16));
            uint32_t v[2];
            CKCI_K_UNROLL(2)
            for (int h = 0; h < 2; h++) {
                const int32_t x = ckci_k_divide(at + h < 0 ? 0 : at + h, p.by_c);
                const int32_t c = at + h - x * p.c;
                const bool good =
                    k < p.k && y < p.filter[0] && at + h >= 0 && at + h < width && c < p.channels;
                const int64_t from = k * s[1] + c * s[2] + y * s[4] + x * s[5];
                v[h] = good ? ckci_k_bits(ckci_k_value<float>(p.b, from)) : 0u;
            }
            *(uint32_t *)(m.wei + row * pitch + pair * 4) = ckci_k_two(p.type, v[0], v[1]);
            if (row == 0) { /* those behind the last tap are anywhere inside the window */
                m.offset[pair] = y < p.filter[0] ? y * p.dilation_y * p.pitch + (at + p.odd) * 2 : p.odd * 4;
            }
        }
    }

    /* Eight pixels at a time. */
    template <int C, int WIDE, bool DENSE>
    static CKCI_K_MEMBER void stage_eights(const ckci_gpu_stem &p, int32_t item, unsigned char *pixels)
    {
        const ckci_k_stem_item t(p, item);
        const ckci_k_window from = ckci_k_make_window(p.a.p + CKCI_K_HALF * t.n * p.a.stride[1]);
        const int32_t chunks = p.pitch / (16 * WIDE), top = t.y * p.stride[0] - p.pad[0];
        const int32_t first = t.x * p.stride[1] - p.left / WIDE, step = (int32_t)p.a.stride[4];
        const int32_t next = DENSE ? 8 : (int32_t)p.a.stride[2];
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x; i < p.rows * chunks; i += 256) {
            const int32_t row = ckci_k_divide(i, p.by_chunks), at = first + (i - row * chunks) * 8;
            const int32_t y = top + row, offset = y * step + at * (DENSE ? C : 1);
            const bool good = (uint32_t)y < (uint32_t)p.input[0] && at >= 0 && at < p.input[1];
            ckci_k_uint4 v[C];
            CKCI_K_UNROLL(4)
            for (int c = 0; c < C; c++) {
                v[c] = ckci_k_window_load(from, good ? CKCI_K_HALF * (offset + c * next) : INT32_MIN);
            }
            ckci_k_stem_turn_pixels<C, WIDE, DENSE>(pixels + i * (16 * WIDE), v);
        }
    }

    static CKCI_K_MEMBER void stage(const ckci_gpu_stem &p, int32_t item, unsigned char *pixels)
    {
        if (p.channels < p.c) {
            if (p.channels == 1) {
                stage_eights<1, 2, false>(p, item, pixels);
            } else if (p.in_first) {
                stage_eights<3, 4, false>(p, item, pixels);
            } else {
                stage_eights<3, 4, true>(p, item, pixels);
            }
            return;
        }
        if (p.in_first) {
            if (p.c == 2) {
                stage_eights<2, 2, false>(p, item, pixels);
            } else if (p.c == 3) {
                stage_eights<3, 3, false>(p, item, pixels);
            } else {
                stage_eights<4, 4, false>(p, item, pixels);
            }
            return;
        }
        const ckci_k_stem_item t(p, item);
        const ckci_k_window from = ckci_k_make_window(p.a.p + CKCI_K_HALF * t.n * p.a.stride[1]);
        const int32_t chunks = p.pitch / 16, top = t.y * p.stride[0] - p.pad[0];
        const int32_t first = t.x * p.stride[1] * p.c - p.left, step = (int32_t)p.a.stride[4];
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x; i < p.rows * chunks; i += 256) {
            const int32_t row = ckci_k_divide(i, p.by_chunks), at = first + (i - row * chunks) * 8;
            const int32_t y = top + row;
            const bool good = (uint32_t)y < (uint32_t)p.input[0] && at >= 0 && at < p.input[1] * p.c;
            ckci_k_stem_copy(pixels + i * 16, from, CKCI_K_HALF * (y * step + at), good);
        }
    }

    /* Sums of a tile and 64 channels; a lane holds EIGHTS times eight of them, which lie side by side. */
    enum { EIGHTS = TILES * U::HOLDS * U::CHUNKS };
    typedef typename U::sums all_sums[TILES][4];

    template <class T>
    static CKCI_K_MEMBER void tile(const ckci_gpu_stem &p, int32_t item, int32_t channel0, const lds &m,
                                   const unsigned char *pixels)
    {
        static_assert(TILES == 2 && +EIGHTS == 4 * U::LINES, "lines are of two tiles");
        const int32_t count = p.tile[0] * p.tile[1];
        const unsigned char *first = pixels + CKCI_K_HALF * (p.left - p.pad[1] * p.c - p.odd);
        CKCI_K_UNROLL(1)
        for (int32_t row0 = (int32_t)threadIdx.x / U::WAVE * (TILES * 16); row0 < count;
             row0 += WAVES * TILES * 16) {
            const unsigned char *at[TILES][U::HOLDS];
            all_sums sum;
            CKCI_K_UNROLL(4)
            for (int i = 0; i < TILES; i++) {
                CKCI_K_UNROLL(2)
                for (int h = 0; h < U::HOLDS; h++) {
                    int32_t e = row0 + (p.out_first ? U::position(i, U::held(h)) : i * 16 + U::held(h));
                    e = e < count ? e : count - 1;
                    const int32_t y = ckci_k_divide(e, p.by_tile_x), x = e - y * p.tile[1];
                    at[i][h] = first + y * p.stride[0] * p.pitch + x * (p.stride[1] * p.c * CKCI_K_HALF);
                }
                CKCI_K_UNROLL(4)
                for (int j = 0; j < 4; j++) {
                    CKCI_K_UNROLL(8)
                    for (int e = 0; e < U::SUMS; e++) {
                        sum[i][j].v[e] = 0;
                    }
                }
            }
            if (p.out_first) { /* the item anew: registers */
                multiply<T, true>(p, m, at, sum);
                store_lines<T>(p, m, ckci_k_stem_item(p, item), row0, channel0, sum);
            } else {
                multiply<T, false>(p, m, at, sum);
                store_chunks<T>(p, m, ckci_k_stem_item(p, item), row0, channel0, sum);
            }
        }
    }

    /* FIRST: lanes hold positions of a channel. */
    template <class T, bool FIRST>
    static CKCI_K_MEMBER void multiply(const ckci_gpu_stem &p, const lds &m,
                                       const unsigned char *const (&at)[TILES][U::HOLDS], all_sums &sum)
    {
        const int32_t pitch = p.steps * 32 + 16;
        const unsigned char *wei = m.wei + U::wei_row() * pitch;
        CKCI_K_UNROLL_SOME(FIRST ? 1 : 2)
        for (int32_t step = 0; step < p.steps; step++) {
            typename U::operand a[TILES];
            int32_t offset[U::PAIRS];
            CKCI_K_UNROLL(8)
            for (int i = 0; i < U::PAIRS; i++) {
                offset[i] = m.offset[step * 8 + U::pair(i)];
            }
            CKCI_K_UNROLL(4)
            for (int i = 0; i < TILES; i++) {
                a[i] = U::words([&](int h, int e) { return *(const uint32_t *)(at[i][h] + offset[e]); });
            }
            CKCI_K_UNROLL(4)
            for (int j = 0; j < 4; j++) {
                typename U::operand b = U::wei(wei + j * 16 * pitch + step * 32);
                CKCI_K_UNROLL(4)
                for (int i = 0; i < TILES; i++) {
                    if constexpr (FIRST) {
                        U::template turned<T>(sum[i][j], a[i], b);
                    } else {
                        U::template product<T>(sum[i][j], a[i], b);
                    }
                }
            }
        }
    }

    /* A lane's lines to memory: the code stands once, it takes the first one, and the others move up. */
    template <class T>
    static CKCI_K_MEMBER void store_lines(const ckci_gpu_stem &p, const lds &m, const ckci_k_stem_item &t,
                                          int32_t row0, int32_t channel0, const all_sums &sum)
    {
        alignas(16) float v[EIGHTS][8];
        CKCI_K_UNROLL(8)
        for (int e = 0; e < EIGHTS; e++) {
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 8; i++) {
                v[e][i] = U::line(sum[0][e / U::LINES], sum[1][e / U::LINES], e % U::LINES, i);
            }
        }
        CKCI_K_UNROLL(1)
        for (int e = 0; e < EIGHTS; e++) {
            store_line<T>(p, m, t, row0 + U::line_first(e % U::LINES), channel0,
                          e / U::LINES * 16 + U::line_channel(e % U::LINES), v[0]);
            CKCI_K_UNROLL(8)
            for (int i = 0; i + 1 < EIGHTS; i++) {
                CKCI_K_UNROLL(8)
                for (int k = 0; k < 8; k++) {
                    v[i][k] = v[i + 1][k];
                }
            }
        }
    }

    /* Eight positions of channel channel0 + k. */
    template <class T>
    static CKCI_K_MEMBER void store_line(const ckci_gpu_stem &p, const lds &m, const ckci_k_stem_item &t,
                                         int32_t position, int32_t channel0, int32_t k, float (&x)[8])
    {
        const int64_t *s = p.o.t.stride;
        const int32_t up = ckci_k_divide(position, p.by_tile_x), along = t.x + position - up * p.tile[1];
        if (up >= p.tile[0] || t.y + up >= p.output[0] || along >= p.output[1] || channel0 + k >= p.k) {
            return;
        }
        unsigned char *to =
            p.o.t.p + CKCI_K_HALF * (t.n * s[1] + (channel0 + k) * s[2] + (t.y + up) * s[4] + along);
        const int what = form(p);
        if (what >= NUMBERS) {
            uint32_t words[4];
            if (what == RESIDUAL) {
                load_residual(p, to, words);
            }
            const float added = m.added[k], factor = m.factor[k];
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 8; i++) {
                x[i] = ckci_k_fma(p.o.alpha, x[i] * factor, added);
            }
            if (what == RESIDUAL) {
                ckci_k_add_residual(p.o, x, T::TYPE, words, p.o.gate);
            }
            ckci_k_limit_line(p.o, x);
        } else if (what == ANY) {
            ckci_k_epilogue<8, false>(p.o, x, to, channel0 + k);
        }
        ckci_k_store8(T::TYPE, to, x);
    }

    /* The residual's 16 bytes beside those at `to`. */
    static CKCI_K_MEMBER void load_residual(const ckci_gpu_stem &p, const unsigned char *to,
                                            uint32_t (&words)[4])
    {
        ckci_k_load_words<8>(ckci_k_global(p.o.d[p.o.residual - 1].p + (to - p.o.t.p)), words);
    }

    /* The same of channels of a position. */
    template <class T>
    static CKCI_K_MEMBER void store_chunks(const ckci_gpu_stem &p, const lds &m, const ckci_k_stem_item &t,
                                           int32_t row0, int32_t channel0, all_sums &sum)
    {
        const int what = form(p);
        if (what == PLAIN) {
            store_tiles<T, PLAIN>(p, m, t, row0, channel0, sum);
        } else if (what == NUMBERS) {
            store_tiles<T, NUMBERS>(p, m, t, row0, channel0, sum);
        } else if (what == RESIDUAL && U::HOLDS == 1) {
            store_tiles<T, RESIDUAL>(p, m, t, row0, channel0, sum);
        } else if (what == RESIDUAL) { /* NVIDIA has no registers for two tiles */
            store_in_turns<T, RESIDUAL>(p, m, t, row0, channel0, sum);
        } else {
            store_in_turns<T, ANY>(p, m, t, row0, channel0, sum);
        }
    }

    /* The code stands once: it takes the first sums, and the others move up. */
    template <class T, int FORM>
    static CKCI_K_MEMBER void store_in_turns(const ckci_gpu_stem &p, const lds &m, const ckci_k_stem_item &t,
                                             int32_t row0, int32_t channel0, all_sums &sum)
    {
        CKCI_K_UNROLL(1)
        for (int i = 0; i < TILES; i++) {
            store<T, FORM>(p, m, t, row0 + i * 16, channel0, sum[0]);
            CKCI_K_UNROLL(4)
            for (int j = 0; j < (TILES - 1) * 4; j++) {
                sum[j / 4][j % 4] = sum[j / 4 + 1][j % 4];
            }
        }
    }

    template <class T, int FORM>
    static CKCI_K_MEMBER void store_tiles(const ckci_gpu_stem &p, const lds &m, const ckci_k_stem_item &t,
                                          int32_t row0, int32_t channel0, const all_sums &sum)
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < TILES; i++) {
            store<T, FORM>(p, m, t, row0 + i * 16, channel0, sum[i]);
        }
    }

    /* What eight channels from channel0 + k on have, to their sums. */
    static CKCI_K_MEMBER void add(const ckci_gpu_stem &p, const lds &m, int32_t k, float (&x)[8])
    {
        alignas(16) float more[8];
        if (p.o.residual == CKCI_RESIDUAL_FACTORS) {
            ckci_k_take_line(m.factor + k, more);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 8; i++) {
                x[i] *= more[i];
            }
        }
        ckci_k_take_line(m.added + k, more);
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            x[i] = ckci_k_fma(p.o.alpha, x[i], more[i]);
        }
    }

    template <class T, int FORM>
    static CKCI_K_MEMBER void store(const ckci_gpu_stem &p, const lds &m, const ckci_k_stem_item &t,
                                    int32_t row0, int32_t channel0, const typename U::sums (&sum)[4])
    {
        const int32_t sy = (int32_t)p.o.t.stride[4], sx = (int32_t)p.o.t.stride[5];
        unsigned char *image = p.o.t.p + CKCI_K_HALF * (t.n * p.o.t.stride[1] + channel0);
        CKCI_K_UNROLL(2)
        for (int h = 0; h < U::HOLDS; h++) {
            const int32_t e = row0 + U::held(h), up = ckci_k_divide(e, p.by_tile_x);
            const int32_t y = t.y + up, x = t.x + e - up * p.tile[1];
            if (up >= p.tile[0] || y >= p.output[0] || x >= p.output[1]) {
                continue;
            }
            unsigned char *to = image + CKCI_K_HALF * (y * sy + x * sx);
            uint32_t words[U::CHUNKS][4];
            if constexpr (FORM == RESIDUAL && U::HOLDS == 1) {
                CKCI_K_UNROLL(4)
                for (int u = 0; u < U::CHUNKS; u++) {
                    if (channel0 + U::chunk_channel(u) < p.k) {
                        load_residual(p, to + CKCI_K_HALF * U::chunk_channel(u), words[u]);
                    }
                }
            }
            CKCI_K_UNROLL(4)
            for (int u = 0; u < U::CHUNKS; u++) {
                const int32_t k = U::chunk_channel(u);
                alignas(16) float x[8];
                CKCI_K_UNROLL(8)
                for (int i = 0; i < 8; i++) {
                    x[i] = U::chunk(sum, u, h, i);
                }
                if (channel0 + k >= p.k) {
                    continue;
                }
                if constexpr (FORM == NUMBERS || FORM == RESIDUAL) {
                    add(p, m, k, x);
                    if constexpr (FORM == RESIDUAL) {
                        if (U::HOLDS > 1) {
                            load_residual(p, to + CKCI_K_HALF * k, words[u]);
                        }
                        ckci_k_add_residual(p.o, x, T::TYPE, words[u], p.o.gate);
                    }
                    ckci_k_limit_line(p.o, x);
                } else if (FORM == ANY) {
                    ckci_k_epilogue<8, false>(p.o, x, to + CKCI_K_HALF * k, channel0 + k);
                }
                ckci_k_store8(T::TYPE, to + CKCI_K_HALF * k, x);
            }
        }
    }
};

/* bwd_data. With the padding counted, input u = s * q + e (in each dimension) reads dout q - j with tap
   e + s * j, for all j below p.window: the phases e of a stride s and the channels are the columns of one
   product, whose rows are the q and whose reduction runs over windows and the channels of dout; taps behind
   the filter have zero weights. A block holds the pixels of dout that a tile of q reads, 2 * K + 16 bytes
   each, and all weights, rows of columns. A wave takes 32 q and 16 columns at a time. */
template <class U, int BYTES> struct ckci_k_stem_back {
    enum { WAVES = 256 / U::WAVE, TILES = 2 };
    struct lds {
        alignas(128) unsigned char wei[CKCI_STEM_WEIGHTS];
        unsigned char pixels[BYTES];
        struct {
            int32_t y, x, offset, good; /* of a column: phases, from the place of q in din */
        } column[CKCI_STEM_COLUMNS];
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_stem &p, lds &m)
    {
        weights(p, m);
        CKCI_K_UNROLL(1)
        for (int32_t item = (int32_t)blockIdx.x; item < p.items; item += p.blocks) {
            stage(p, item, m.pixels);
            ckci_k_stem_close();
            ckci_k_stem_wait<0>();
            __syncthreads();
            CKCI_K_UNROLL(1)
            for (int32_t column = 0; column < p.columns; column += 16) {
                if (CKCI_K_BF16(p.type == CKCONV_BF16)) {
                    tile<ckci_k_bf16>(p, item, column, m);
                } else {
                    tile<ckci_k_f16>(p, item, column, m);
                }
            }
            __syncthreads();
        }
    }

    static CKCI_K_MEMBER void weights(const ckci_gpu_stem &p, lds &m)
    {
        const int32_t pairs = p.steps * 8, pitch = p.steps * 32 + 16, thread = (int32_t)threadIdx.x;
        const int32_t columns = (p.columns + 15) / 16 * 16, half = p.k / 2;
        const int64_t *s = p.b.stride;
        if (thread < columns) {
            const int32_t phase = ckci_k_divide(thread, p.by_c), y = ckci_k_divide(phase, p.by_stride_x);
            const int32_t x = phase - y * p.stride[1];
            m.column[thread].y = y;
            m.column[thread].x = x;
            m.column[thread].good = thread < p.columns;
            m.column[thread].offset = (int32_t)(y * p.o.t.stride[4] + x * p.o.t.stride[5] +
                                                (thread - phase * p.c) * p.o.t.stride[2]);
        }
        CKCI_K_UNROLL(1)
        for (int32_t i = thread; i < columns * pairs; i += 256) {
            const int32_t column = ckci_k_divide(i, p.by_pairs), pair = i - column * pairs;
            const int32_t tap = ckci_k_divide(pair, p.by_row), k = (pair - tap * half) * 2;
            const int32_t phase = ckci_k_divide(column, p.by_c), up = ckci_k_divide(phase, p.by_stride_x);
            const int32_t jy = ckci_k_divide(tap, p.by_window_x), jx = tap - jy * p.window[1];
            const int32_t y = up + p.stride[0] * jy, x = phase - up * p.stride[1] + p.stride[1] * jx;
            const bool good = column < p.columns && y < p.filter[0] && x < p.filter[1];
            const int64_t at = k * s[1] + (column - phase * p.c) * s[2] + y * s[4] + x * s[5];
            const float low = good ? ckci_k_value<float>(p.b, at) : 0.f;
            const float high = good ? ckci_k_value<float>(p.b, at + s[1]) : 0.f;
            *(uint32_t *)(m.wei + column * pitch + pair * 4) =
                ckci_k_two(p.type, ckci_k_bits(low), ckci_k_bits(high));
        }
    }

    static CKCI_K_MEMBER void stage(const ckci_gpu_stem &p, int32_t item, unsigned char *pixels)
    {
        const ckci_k_stem_item t(p, item);
        const ckci_k_window from = ckci_k_make_window(p.a.p + CKCI_K_HALF * t.n * p.a.stride[1]);
        const int32_t chunks = p.k / 8, wide = p.tile[1] + p.window[1] - 1;
        const int32_t top = p.first[0] + t.y - p.window[0] + 1, left = p.first[1] + t.x - p.window[1] + 1;
        const int32_t sy = (int32_t)p.a.stride[4], sx = (int32_t)p.a.stride[5];
        CKCI_K_UNROLL_SOME(4)
        for (int32_t i = (int32_t)threadIdx.x; i < p.rows * wide * chunks; i += 256) {
            const int32_t pixel = ckci_k_divide(i, p.by_chunks), chunk = i - pixel * chunks;
            const int32_t row = ckci_k_divide(pixel, p.by_wide), y = top + row, x = left + pixel - row * wide;
            const bool good = (uint32_t)y < (uint32_t)p.output[0] && (uint32_t)x < (uint32_t)p.output[1];
            ckci_k_stem_copy(pixels + pixel * p.pitch + chunk * 16, from,
                             CKCI_K_HALF * (y * sy + x * sx + chunk * 8), good);
        }
    }

    template <class T>
    static CKCI_K_MEMBER void tile(const ckci_gpu_stem &p, int32_t item, int32_t column0, const lds &m)
    {
        const int lane = (int)threadIdx.x % 16;
        const int32_t count = p.tile[0] * p.tile[1], wide = p.tile[1] + p.window[1] - 1;
        const unsigned char *wei = m.wei + (column0 + U::wei_row()) * (p.steps * 32 + 16);
        CKCI_K_UNROLL(1)
        for (int32_t row0 = (int32_t)threadIdx.x / U::WAVE * (TILES * 16); row0 < count;
             row0 += WAVES * TILES * 16) {
            const unsigned char *at[TILES];
            typename U::sums sum[TILES];
            CKCI_K_UNROLL(2)
            for (int i = 0; i < TILES; i++) {
                int32_t e = row0 + i * 16 + lane;
                e = e < count ? e : count - 1;
                const int32_t y = ckci_k_divide(e, p.by_tile_x), x = e - y * p.tile[1];
                at[i] = m.pixels + ((y + p.window[0] - 1) * wide + x + p.window[1] - 1) * p.pitch;
                CKCI_K_UNROLL(8)
                for (int k = 0; k < U::SUMS; k++) {
                    sum[i].v[k] = 0;
                }
            }
            const unsigned char *w = wei;
            CKCI_K_UNROLL(1)
            for (int32_t jy = 0; jy < p.window[0]; jy++) {
                CKCI_K_UNROLL(1)
                for (int32_t jx = 0; jx < p.window[1]; jx++) {
                    const int32_t back = (jy * wide + jx) * p.pitch;
                    CKCI_K_UNROLL_SOME(4)
                    for (int32_t k = 0; k < p.k; k += 16) {
                        const typename U::operand b = U::wei(w);
                        CKCI_K_UNROLL(2)
                        for (int i = 0; i < TILES; i++) {
                            U::template across<T>(sum[i], U::load_rows(at[i] - back + 2 * k, 0), b);
                        }
                        w += 32;
                    }
                }
            }
            store<T>(p, ckci_k_stem_item(p, item), row0, column0, m, sum);
        }
    }

    template <class T>
    static CKCI_K_MEMBER void store(const ckci_gpu_stem &p, const ckci_k_stem_item &t, int32_t row0,
                                    int32_t column0, const lds &m, const typename U::sums (&sum)[TILES])
    {
        const int64_t *s = p.o.t.stride;
        CKCI_K_UNROLL(2)
        for (int i = 0; i < TILES; i++) {
            CKCI_K_UNROLL(8)
            for (int e = 0; e < U::SUMS; e++) {
                const auto &c = m.column[column0 + U::column(e)];
                const int32_t row = row0 + i * 16 + U::row(e), up = ckci_k_divide(row, p.by_tile_x);
                const int32_t y0 = (p.first[0] + t.y + up) * p.stride[0] - p.pad[0];
                const int32_t x0 = (p.first[1] + t.x + row - up * p.tile[1]) * p.stride[1] - p.pad[1];
                if (c.good && up < p.tile[0] && (uint32_t)(y0 + c.y) < (uint32_t)p.input[0] &&
                    (uint32_t)(x0 + c.x) < (uint32_t)p.input[1]) {
                    const int64_t at = t.n * s[1] + y0 * s[4] + x0 * s[5] + c.offset;
                    const uint32_t v = ckci_k_bits(sum[i].v[e]);
                    *(uint16_t *)(p.o.t.p + CKCI_K_HALF * at) = (uint16_t)ckci_k_two(T::TYPE, v, v);
                }
            }
        }
    }
};
