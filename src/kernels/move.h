/*------------------------------------------------------------------------------------------------------------
  >>k-move
  Layout and type conversion. Dimension x is the one along which dst is dense, y the one along which src is.
  Equal types are copied bit for bit; f64 and i32 go through double, rounded once; the others through float,
  which is exact.
      move_copy       x is dense in both, equal types: pieces of 16, 8 or 4 bytes, four of them per thread,
                      of long runs in both tensors even where rows are short
      move_turn_E     x and y differ, equal types of E bytes, or f16 and bf16: through LDS
      move_convert_E  types but i32, E bytes in dst: converted on the way to LDS, or straight to dst where x
                      is dense in both
      move            everything else: short dimensions, strides of any kind, i32, to f64: single elements

  Through LDS. A block owns tile[0] elements along x by tile[1] along y; V elements of dst are 16 bytes. It
  loads rows of src in pieces of 16 bytes, several under way, and stores rows of dst in pieces of 16 bytes.
  What is not aligned is loaded as the two aligned pieces around it (AMD: as it is). Elements change places
      gather    behind LDS, which holds rows of src as they are: a thread takes V of them at a place y. Where
                rows that are V apart lie in the same banks, 16 bytes more follow as many of them as do not:
                eight threads with neighbouring pieces of a row of dst, and four at neighbouring places in
                others, meet 32 different banks, and so does what follows each other in LDS. Rows of dst that
                are not aligned: AMD stores pieces at any address. NVIDIA: they start in the middle of a
                piece; the block then reads V rows of src before its own and writes whole pieces that end
                early
      words     gather of elements smaller than a word of LDS, where both sides are aligned: words are loaded,
                their elements go to as many rows of dst
      scatter   before LDS, which holds dst: rows of dst are short and the tile is one run there; the mirror
                image of gather, with the same padding. What is loaded may be less than 16 bytes of dst: then
                more threads take neighbouring pieces, and fewer others rows beside (p.lanes)
  Where rows of src are short (`merged`), the tile is one run there, and V rows of it are one row.
*/
#pragma once
#include "kernels/tile/common.h"
#include "kernels/depth/common.h"

/* Nearest float in which a later rounding to fewer than 22 bits still sees whether x was above or below:
   inexact results have an odd last bit. */
CKCI_K_FN float ckci_k_odd_float(double x)
{
    float f = (float)x;
    uint32_t u = ckci_k_bits(f);
    double back = (double)f, over = x < 0 ? x - back : back - x; /* above 0: rounded away from 0 */
    if (x != x || back == x) {
        return f;
    }
    return ckci_k_float((over > 0 ? u - 1 : u) | 1u);
}

CKCI_K_FN bool ckci_k_move_wide(const ckci_gpu_move &p)
{
    return p.from == CKCONV_F64 || p.from == CKCONV_I32;
}

/* An element on its way: raw bits, a double or a float. */
CKCI_K_FN uint64_t ckci_k_move_read(const ckci_gpu_move &p, const unsigned char *at)
{
    if (p.from == CKCONV_F64) {
        return *(const uint64_t *)at;
    }
    if (p.from == p.to) {
        return ckci_k_load_bits(at, ckci_k_size(p.from));
    }
    if (p.from == CKCONV_I32) {
        double x = (double)*(const int32_t *)at;
        uint64_t u;
        memcpy(&u, &x, 8);
        return u;
    }
    return ckci_k_bits(ckci_k_load<float>(p.from, at));
}

CKCI_K_FN void ckci_k_move_write(const ckci_gpu_move &p, unsigned char *at, uint64_t u)
{
    int size = ckci_k_size(p.to);
    if (p.from == p.to) {
        if (size == 8) {
            *(uint64_t *)at = u;
        } else if (size == 4) {
            *(uint32_t *)at = (uint32_t)u;
        } else if (size == 2) {
            *(uint16_t *)at = (uint16_t)u;
        } else {
            *at = (unsigned char)u;
        }
        return;
    }
    double x = (double)ckci_k_float((uint32_t)u);
    float f = ckci_k_float((uint32_t)u);
    if (ckci_k_move_wide(p)) {
        memcpy(&x, &u, 8);
        f = p.to == CKCONV_F32 ? (float)x : ckci_k_odd_float(x);
    }
    if (p.to == CKCONV_F64) {
        *(double *)at = x;
    } else if (p.to == CKCONV_I32) {
        double r = rint(x < -2147483648.0 ? -2147483648.0 : x);
        *(int32_t *)at = x != x ? 0 : r >= 2147483647.0 ? INT32_MAX : (int32_t)r;
    } else {
        ckci_k_store(p.to, at, f);
    }
}

/* What a block moves: its first elements, the place of the first along x, how many of tile[..] there
   are. */
struct ckci_k_move_tile {
    const unsigned char *src;
    unsigned char *dst;
    int64_t x0;
    int32_t x1, y1, z1;
};

CKCI_K_FN int32_t ckci_k_move_end(int64_t rest, int32_t tile)
{
    return rest < tile ? (int32_t)rest : tile;
}

CKCI_K_FN ckci_k_move_tile ckci_k_find_move(const ckci_gpu_move &p)
{
    int32_t rest = (int32_t)blockIdx.x - p.first;
    ckci_k_move_tile tile = {p.src, p.dst, 0, 0, 0, 0};
    int64_t y0 = 0, z0 = 0;
    CKCI_K_UNROLL(1)
    for (int i = 0; i < 6 && rest > 0; i++) { /* the others have one block, from here on */
        const int32_t q = ckci_k_divide(rest, p.blocks[i]);
        const int64_t place = (int64_t)(rest - q * (int32_t)p.blocks[i].d) * p.tile[i];
        tile.src += place * p.src_step[i];
        tile.dst += place * p.dst_step[i];
        tile.x0 = i == 0 ? place : tile.x0;
        y0 = i == 1 ? place : y0;
        z0 = i == 2 ? place : z0;
        rest = q;
    }
    tile.x1 = ckci_k_move_end(p.len_x - tile.x0, p.tile[0]);
    tile.y1 = ckci_k_move_end(p.len_y - y0, p.tile[1]);
    tile.z1 = ckci_k_move_end(p.len_z - z0, p.tile[2]);
    return tile;
}

struct ckci_k_move {
    struct lds {
        uint64_t u[1280]; /* rows of 2^log_x */
    };

    /* Where an element lies, such that neither 16 neighbours along x meet in a bank nor 16 along y, nor,
       where there are fewer, those and their next along the other. NVIDIA: each row is one longer. */
    static CKCI_K_MEMBER int32_t spot(const ckci_gpu_move &p, int32_t wide, int32_t x, int32_t y)
    {
#if defined(__CUDA_ARCH__)
        (void)p;
        return y * (wide + 1) + x;
#else
        const int32_t mask = (wide < 16 ? wide : 16) - 1;
        const int32_t up = p.log_y < 4 ? 4 - p.log_y : 0, down = p.log_x < 4 ? 4 - p.log_x : 0;
        return (y << p.log_x | x) ^ ((y << up >> down) & mask);
#endif
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_move &p, lds &m)
    {
        const ckci_k_move_tile b = ckci_k_find_move(p);
        int32_t t = (int32_t)threadIdx.x, wide = 1 << p.log_x, high = 1 << p.log_y;
        uint64_t u[4] = {0, 0, 0, 0};
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            int32_t e = t + 256 * i, x = p.transpose ? e >> p.log_y : e & (wide - 1);
            int32_t y = p.transpose ? e & (high - 1) : e >> p.log_x;
            if (x < b.x1 && y < b.y1) {
                u[i] = ckci_k_move_read(p, b.src + x * p.src_step[0] + y * p.src_step[1]);
                if (p.transpose) {
                    m.u[spot(p, wide, x, y)] = u[i];
                }
            }
        }
        __syncthreads();
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            int32_t e = t + 256 * i, x = e & (wide - 1), y = e >> p.log_x;
            if (x < b.x1 && y < b.y1) {
                ckci_k_move_write(p, b.dst + x * p.dst_step[0] + y * p.dst_step[1],
                                  p.transpose ? m.u[spot(p, wide, x, y)] : u[i]);
            }
        }
    }
};

/* Steps, lengths and tiles count pieces of p.vec bytes along x; `tail` more bytes follow the last one. */
struct ckci_k_move_copy {
    struct lds {
        int32_t unused;
    };

    template <int WORDS> static CKCI_K_MEMBER void rows(const ckci_gpu_move &p, const ckci_k_move_tile &b)
    {
        ckci_k_vec<ckci_k_s_f32, WORDS> v[4];
        int32_t x[4], y[4], z[4];
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            const int32_t e = (int32_t)threadIdx.x + 256 * i, rest = e >> p.log_x;
            x[i] = e - (rest << p.log_x);
            z[i] = rest >> p.log_y;
            y[i] = rest - (z[i] << p.log_y);
            v[i].clear();
            if (x[i] < b.x1 && y[i] < b.y1 && z[i] < b.z1) {
                v[i].load(b.src + x[i] * (4 * WORDS) + y[i] * p.src_step[1] + z[i] * p.src_step[2]);
            }
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            if (x[i] < b.x1 && y[i] < b.y1 && z[i] < b.z1) {
                v[i].store(b.dst + x[i] * (4 * WORDS) + y[i] * p.dst_step[1] + z[i] * p.dst_step[2]);
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_move &p, lds &)
    {
        const ckci_k_move_tile b = ckci_k_find_move(p);
        if (p.vec == 16) {
            rows<4>(p, b);
        } else if (p.vec == 8) {
            rows<2>(p, b);
        } else {
            rows<1>(p, b);
        }
        if (blockIdx.x == 0 && (int32_t)threadIdx.x < p.tail) {
            int64_t at = p.len_x * p.vec + (int32_t)threadIdx.x;
            p.dst[at] = p.src[at];
        }
    }
};

/* Unsigned integers of E bytes */
template <int E> struct ckci_k_move_type;
template <> struct ckci_k_move_type<1> {
    typedef uint8_t word;
};
template <> struct ckci_k_move_type<2> {
    typedef uint16_t word;
};
template <> struct ckci_k_move_type<4> {
    typedef uint32_t word;
};

/* What is moved one by one: not known to the compiler, which would move the last of it together with the last
   part of a load or store of all, and so split that. */
CKCI_K_FN int32_t ckci_k_later(int32_t count)
{
    return ckci_k_again(count);
}

/* Element j of words. */
template <int E> CKCI_K_FN typename ckci_k_move_type<E>::word ckci_k_move_element(const uint32_t *w, int j)
{
    return (typename ckci_k_move_type<E>::word)(w[j * E / 4] >> j * E % 4 * 8);
}

template <int E> CKCI_K_FN void ckci_k_move_put(uint32_t *w, int j, typename ckci_k_move_type<E>::word x)
{
    w[j * E / 4] |= (uint32_t)x << j * E % 4 * 8;
}

/* A thread's elements on their way to LDS. Of a row that does not start at a multiple of a load, that are the
   two aligned loads around them; `shift` is the byte in which they begin. */
template <bool SHIFTED> struct ckci_k_move_unit {
    enum { WORDS = SHIFTED ? 8 : 4 };
#if defined(__HIP_DEVICE_COMPILE__)
    enum { ANY = 1 }; /* a load takes any address */
#else
    enum { ANY = 0 };
#endif
    uint32_t w[WORDS];
    uint32_t shift;

    /* W words; false: not loaded, for the loads would touch bytes before or after the tensor */
    template <int W> CKCI_K_MEMBER bool load(const ckci_gpu_move &p, const unsigned char *at)
    {
        ckci_k_vec<ckci_k_s_f32, W> q;
        uint32_t before = 0;
        if constexpr (SHIFTED) {
            before = (uint32_t)(uintptr_t)at & (4 * W - 1);
        }
        const unsigned char *low = at - before;
        if ((SHIFTED && low < p.src) || low + WORDS * W > p.src_end) {
            return false;
        }
        shift = before;
#if defined(__HIP_DEVICE_COMPILE__)
        typedef uint32_t any __attribute__((vector_size(4 * W), aligned(1)));
        const any v = *(const any *)low;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < W; i++) {
            q.w[i] = v[i];
        }
#else
        q.load(low);
#endif
        copy<W>(q, 0);
        if constexpr (SHIFTED) {
            q.load(low + 4 * W);
            copy<W>(q, W);
        }
        return true;
    }

    template <int W> CKCI_K_MEMBER void copy(const ckci_k_vec<ckci_k_s_f32, W> &q, int first)
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < W; i++) {
            w[first + i] = q.w[i];
        }
    }

    /* The first `count` of N elements of E bytes, or all of them. */
    template <int E, int N>
    CKCI_K_MEMBER void fetch(const ckci_gpu_move &p, const unsigned char *at, int32_t count)
    {
        if constexpr (E * N >= 4) {
            if (count > 0 && (SHIFTED || !p.shifted || ANY) && load<E * N / 4>(p, at)) {
                count = 0;
            }
        }
        CKCI_K_UNROLL(1)
        for (int j = 0; j < ckci_k_later(count < N ? count : N); j++) {
            const uint32_t low = ckci_k_load_bits(at + j * E, E);
            const int word = j * E / 4;
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                w[i] |= i == word ? low << j * E % 4 * 8 : 0;
            }
        }
    }

    CKCI_K_MEMBER void clear()
    {
        shift = 0;
        CKCI_K_UNROLL(8)
        for (int i = 0; i < WORDS; i++) {
            w[i] = 0;
        }
    }

    /* Elements in the first four words. */
    CKCI_K_MEMBER void settle()
    {
        if constexpr (SHIFTED) {
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 6; i++) {
                w[i] = shift & 8 ? w[i + 2] : w[i];
            }
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 5; i++) {
                w[i] = shift & 4 ? w[i + 1] : w[i];
            }
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                w[i] = (uint32_t)((w[i] | (uint64_t)w[i + 1] << 32) >> 8 * (shift & 3));
            }
        }
    }
};

template <int E, bool CONVERT> struct ckci_k_move_turn;
template <int E, bool CONVERT> struct ckci_k_resident<ckci_k_move_turn<E, CONVERT>> {
    enum { BLOCKS = 5 };
};

/* E: bytes of an element in dst and in LDS; CONVERT: those in src are of another type. */
template <int E, bool CONVERT> struct ckci_k_move_turn {
    typedef typename ckci_k_move_type<E>::word word;
    enum { V = 16 / E, UNIT = CONVERT ? 4 : V, WORDS = UNIT * E / 4 };
    enum { ASK = 2 }; /* p.scatter, where that is not known to the compiler */
    enum { USUAL = E == 2 ? CKCONV_F32 : E == 4 ? CKCONV_F16 : -1 }; /* other types: one load at a time */

    struct lds {
        alignas(16) unsigned char tile[CKCI_MOVE_LDS];
    };

    /* NVIDIA: padding after V rows everywhere, known to the compiler */
    static CKCI_K_MEMBER int32_t log(int32_t x)
    {
#if defined(__CUDA_ARCH__)
        (void)x;
        return E == 1 ? 4 : E == 2 ? 3 : 2;
#else
        return x;
#endif
    }

    /* Where V rows begin. */
    static CKCI_K_MEMBER int32_t place(const ckci_gpu_move &p, int32_t piece)
    {
#if defined(__CUDA_ARCH__)
        return piece * (V * p.pitch + p.pad);
#else
        return piece * V * p.pitch + (piece * V >> p.pad_log) * p.pad;
#endif
    }

    template <int SCATTER> static CKCI_K_MEMBER bool scatters(const ckci_gpu_move &p)
    {
        if constexpr (SCATTER == ASK) {
            return p.scatter != 0;
        } else {
            return SCATTER != 0;
        }
    }

    /* The loads of a thread in a tile of src: which rows there are, how many elements of them all. */
    struct walk {
        const unsigned char *src;
        int32_t first, rows, limit;

        CKCI_K_MEMBER walk(const ckci_gpu_move &p, const ckci_k_move_tile &b)
        {
            const int32_t skip = b.x0 < p.before ? p.before : 0;
            const int32_t all = p.straight ? b.y1 : b.x1 + p.before, run = p.straight ? b.x1 : b.y1;
            src = b.src - p.before * p.src_step[0];
            first = p.merged ? skip / V : skip;
            rows = (p.merged ? (all + V - 1) / V : all) - first;
            limit = p.merged ? all * run : run;
        }
    };

    /* A load: its row (merged: of V rows), the elements before it there, those from it on, if any. */
    struct spot {
        int32_t row, at, count;

        template <int SCATTER> CKCI_K_MEMBER void find(const ckci_gpu_move &p, const walk &walk, int32_t q)
        {
            if (scatters<SCATTER>(p)) {
#if defined(__CUDA_ARCH__)
                const int32_t log = 3;
#else
                const int32_t log = p.lanes;
#endif
                const int32_t high = ckci_k_divide(q >> 5, p.by_load), wide = 1 << log;
                row = ((q & 31) >> log) + (((q >> 5) - high * (int32_t)p.by_load.d) << (5 - log));
                at = ((q & (wide - 1)) + (high << log)) * UNIT;
            } else {
                row = ckci_k_divide(q, p.by_load);
                at = (q - row * (int32_t)p.by_load.d) * UNIT;
            }
            count =
                (uint32_t)(row - walk.first) < (uint32_t)walk.rows ? walk.limit - at - row * p.row_run : 0;
        }
    };

    /* UNIT elements of S bytes, side by side, to elements of dst; S = 0: any type, each in a word, f64 as the
       float that rounds alike. What converts types of one byte stands once: the elements go round. */
    template <int S> static CKCI_K_MEMBER void convert(const ckci_gpu_move &p, uint32_t *w)
    {
        uint32_t v[UNIT];
        CKCI_K_UNROLL(4)
        for (int j = 0; j < UNIT; j++) {
            v[j] = S == 2 ? ckci_k_move_element<2>(w, j) : w[j];
        }
        if (S != 4 && p.from == CKCONV_F16) {
            CKCI_K_UNROLL(4)
            for (int j = 0; j < UNIT; j++) {
                v[j] = ckci_k_bits(ckci_k_half_float(v[j]));
            }
        } else if (S != 4 && p.from == CKCONV_BF16) {
            CKCI_K_UNROLL(4)
            for (int j = 0; j < UNIT; j++) {
                v[j] <<= 16;
            }
        }
        if (S == 0 && (E == 1 || ckci_k_size(p.from) == 1)) {
            CKCI_K_UNROLL(1)
            for (int j = 0; j < UNIT; j++) {
                const float x = ckci_k_size(p.from) == 1 ? ckci_k_widen(p.from, v[0]) : ckci_k_float(v[0]);
                const uint32_t u = E != 1              ? ckci_k_bits(x)
                                   : p.to == CKCONV_I8 ? (uint32_t)ckci_k_int(x, -128.f, 127.f) & 0xffu
                                                       : ckci_k_float_fp8(ckci_k_find_fp8(p.to), x);
                CKCI_K_UNROLL(4)
                for (int i = 0; i + 1 < UNIT; i++) {
                    v[i] = v[i + 1];
                }
                v[UNIT - 1] = u;
            }
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < WORDS; i++) {
            w[i] = E == 2 ? ckci_k_two(p.to, v[2 * i % UNIT], v[(2 * i + 1) % UNIT]) : 0;
        }
        CKCI_K_UNROLL(4)
        for (int j = 0; j < UNIT && E != 2; j++) {
            ckci_k_move_put<E>(w, j, (word)v[j]);
        }
    }

    /* f16 to bf16, bf16 to f16 */
    static CKCI_K_MEMBER void convert_halves(const ckci_gpu_move &p, uint32_t *w)
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < WORDS; i++) {
            float v[2];
            if (p.from == CKCONV_F16) {
                ckci_k_s_half::widen<false>(w[i], v);
            } else {
                ckci_k_s_half::widen<true>(w[i], v);
            }
            w[i] = ckci_k_two(p.to, ckci_k_bits(v[0]), ckci_k_bits(v[1]));
        }
    }

    /* src to LDS, or straight to dst; elements of S bytes. */
    template <bool SHIFTED, int SCATTER, int S>
    static CKCI_K_MEMBER void fill(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m)
    {
        enum { DEPTH = SHIFTED ? 2 : 4 }; /* loads of a thread under way */
#if defined(__HIP_DEVICE_COMPILE__)
        enum { ROUNDS = 1 }; /* what follows them stands once: a third of the time to compile */
#else
        enum { ROUNDS = DEPTH };
#endif
        const walk walk(p, b);
        CKCI_K_UNROLL(1)
        for (int32_t q = (int32_t)threadIdx.x; q < p.loads; q += 256 * DEPTH) {
            ckci_k_move_unit<SHIFTED> u[DEPTH];
            spot s[DEPTH];
            CKCI_K_UNROLL(4)
            for (int i = 0; i < DEPTH; i++) {
                s[i].template find<SCATTER>(p, walk, q + 256 * i);
                u[i].clear();
                u[i].template fetch<S, UNIT>(p, walk.src + s[i].row * p.load_step + s[i].at * S, s[i].count);
            }
            CKCI_K_UNROLL(ROUNDS)
            for (int i = 0; i < DEPTH; i++) {
                if (s[0].count > 0) {
                    u[0].settle();
                    if constexpr (CONVERT) {
                        convert<S>(p, u[0].w);
                    } else if constexpr (E == 2) {
                        if (p.from != p.to) {
                            convert_halves(p, u[0].w);
                        }
                    }
                    put<SCATTER>(p, b, m, s[0], u[0].w);
                }
                CKCI_K_UNROLL(4)
                for (int k = 0; k + 1 < DEPTH; k++) {
                    u[k] = u[k + 1];
                    s[k] = s[k + 1];
                }
            }
        }
    }

    /* The same of other types. */
    static CKCI_K_MEMBER void fill_any(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m)
    {
        enum { DEPTH = 2 };
        const walk walk(p, b);
        const int size = ckci_k_size(p.from);
        CKCI_K_UNROLL(1)
        for (int32_t q = (int32_t)threadIdx.x; q < p.loads; q += 256 * DEPTH) {
            ckci_k_move_unit<false> u[DEPTH];
            spot s[DEPTH];
            CKCI_K_UNROLL(4)
            for (int i = 0; i < DEPTH; i++) {
                s[i].template find<ASK>(p, walk, q + 256 * i);
                u[i].clear();
                fetch_any(p, walk.src + s[i].row * p.load_step + s[i].at * size, s[i].count, size, u[i]);
            }
            CKCI_K_UNROLL(1)
            for (int i = 0; i < DEPTH; i++) {
                if (s[0].count > 0) {
                    convert_any(p, size, u[0].w);
                    put<ASK>(p, b, m, s[0], u[0].w);
                }
                CKCI_K_UNROLL(4)
                for (int k = 0; k + 1 < DEPTH; k++) {
                    u[k] = u[k + 1];
                    s[k] = s[k + 1];
                }
            }
        }
    }

    static CKCI_K_MEMBER void fetch_any(const ckci_gpu_move &p, const unsigned char *at, int32_t count,
                                        int size, ckci_k_move_unit<false> &u)
    {
        if (size == 2) {
            u.template fetch<2, UNIT>(p, at, count);
        } else if (size == 4) {
            u.template fetch<4, UNIT>(p, at, count);
        } else if (size == 1) {
            u.template fetch<1, UNIT>(p, at, count);
        } else { /* the float that rounds alike */
            CKCI_K_UNROLL(4)
            for (int j = 0; j < UNIT; j++) {
                const double x = j < count ? ((const double *)at)[j] : 0.;
                u.w[j] = ckci_k_bits(p.to == CKCONV_F32 ? (float)x : ckci_k_odd_float(x));
            }
        }
    }

    static CKCI_K_MEMBER void convert_any(const ckci_gpu_move &p, int size, uint32_t *w)
    {
        uint32_t v[UNIT];
        CKCI_K_UNROLL(4)
        for (int j = 0; j < UNIT; j++) {
            v[j] = size == 1 ? ckci_k_move_element<1>(w, j) : size == 2 ? ckci_k_move_element<2>(w, j) : w[j];
        }
        CKCI_K_UNROLL(4)
        for (int j = 0; j < UNIT; j++) {
            w[j] = v[j];
        }
        convert<0>(p, w);
    }

    template <int SCATTER>
    static CKCI_K_MEMBER void put(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m, const spot &s,
                                  const uint32_t *w)
    {
        if (scatters<SCATTER>(p)) {
            scatter(p, b, m, s, s.count, w);
        } else if (CONVERT && p.straight) {
            unsigned char *to = b.dst + s.row * p.dst_step[1] + s.at * E;
            if (p.dst_vec && s.count >= UNIT) {
                store<WORDS>(to, w);
                return;
            }
            uint32_t rotate[WORDS];
            CKCI_K_UNROLL(4)
            for (int i = 0; i < WORDS; i++) {
                rotate[i] = w[i];
            }
            CKCI_K_UNROLL(1)
            for (int j = 0; j < UNIT && j < s.count; j++) {
                ((word *)to)[j] = ckci_k_move_element<E>(rotate, 0);
                next(rotate);
            }
        } else {
            store<WORDS>(m.tile + s.row * p.load_pitch + (s.row >> log(p.load_log)) * p.load_pad + s.at * E,
                         w);
            (void)ckci_k_later(0); /* else part of that store becomes one with the last of scatter */
        }
    }

    template <int W> static CKCI_K_MEMBER void store(unsigned char *at, const uint32_t *w)
    {
        ckci_k_vec<ckci_k_s_f32, W> q;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < W; i++) {
            q.w[i] = w[i];
        }
        q.store(at);
    }

    /* Are pieces stored at any address, not at multiples of 16 bytes? */
    static CKCI_K_MEMBER bool anywhere(const ckci_gpu_move &p)
    {
        (void)p;
#if defined(__HIP_DEVICE_COMPILE__)
        return true;
#elif defined(__CUDA_ARCH__)
        return false;
#else
        return p.anywhere;
#endif
    }

    static CKCI_K_MEMBER void store_piece(const ckci_gpu_move &p, unsigned char *to, const uint32_t *w)
    {
        if (anywhere(p)) {
#if defined(__HIP_DEVICE_COMPILE__)
            typedef uint32_t any __attribute__((vector_size(16), aligned(1)));
            const any v = {w[0], w[1], w[2], w[3]};
            *(any *)to = v;
#else
            memcpy(to, w, 16);
#endif
        } else {
            store<4>(to, w);
        }
    }

    /* Elements between the last multiple of 16 bytes and `at`, where stores begin there. */
    static CKCI_K_MEMBER int32_t over(const ckci_gpu_move &p, const unsigned char *at)
    {
        return anywhere(p) ? 0 : ((int32_t)(uintptr_t)at & 15) / E;
    }

    static CKCI_K_MEMBER void scatter(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m,
                                      const spot &s, int32_t count, const uint32_t *w)
    {
        const int32_t wide = (int32_t)p.len_x, shift = over(p, b.dst), step = wide * E;
        unsigned char *at = m.tile + s.at * step + (s.row + shift) * E + (s.at >> log(p.pad_log)) * p.pad;
        if (shift == 0 && count >= UNIT) {
            CKCI_K_UNROLL(16)
            for (int j = 0; j < UNIT; j++) {
                *(word *)(at + j * step) = ckci_k_move_element<E>(w, j);
            }
            return;
        }
        const int32_t rows = 1 << log(p.pad_log);
        int32_t rest = (rows - (s.at & (rows - 1))) * wide - s.row - shift; /* up to the next padding */
        uint32_t rotate[WORDS];
        CKCI_K_UNROLL(4)
        for (int i = 0; i < WORDS; i++) {
            rotate[i] = w[i];
        }
        CKCI_K_UNROLL(1)
        for (int j = 0; j < UNIT && j < count; j++) {
            *(word *)(at + (rest <= 0 ? p.pad : 0)) = ckci_k_move_element<E>(rotate, 0);
            next(rotate);
            at += step;
            rest -= wide;
        }
    }

    /* The next element to the front. */
    static CKCI_K_MEMBER void next(uint32_t *w)
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < WORDS; i++) {
            const int one = i + 1 < WORDS ? i + 1 : i;
            w[i] = E == 4 ? w[one] : w[i] >> 8 * (E & 3) | w[one] << (32 - 8 * (E & 3)) % 32;
        }
    }

    /* CDNA serves four lanes from 4 i on together with the four from 4 (i ^ 5) on: a thread's number such
       that together are those that follow each other. */
    static CKCI_K_MEMBER int32_t lane()
    {
        const int32_t t = (int32_t)threadIdx.x;
#if defined(__HIP_DEVICE_COMPILE__) && defined(__GFX9__)
        return (t & ~28) | (t << 1 & 16) | ((t << 1 ^ t >> 1) & 8) | (t >> 2 & 4);
#else
        return t;
#endif
    }

    /* LDS to dst, in the same order: q counts pieces of 16 bytes. */
    static CKCI_K_MEMBER void drain(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m)
    {
        const int32_t shift = over(p, b.dst), end = shift + b.y1 * (int32_t)p.len_x;
        CKCI_K_UNROLL(2)
        for (int32_t q = lane(); q < p.stores; q += 256) {
            const unsigned char *from = m.tile + q * 16 + ckci_k_divide(q, p.by_store) * p.pad;
            unsigned char *to = b.dst + (q * V - shift) * E;
            if (q * V >= shift && q * V + V <= end) {
                ckci_k_vec<ckci_k_s_f32, 4> v;
                v.load(from);
                store_piece(p, to, v.w);
            } else {
                CKCI_K_UNROLL(1)
                for (int j = 0; j < V; j++) {
                    if (q * V + j >= shift && q * V + j < end) {
                        ((word *)to)[j] = ((const word *)from)[j];
                    }
                }
            }
        }
    }

    /* LDS to dst, across. Eight lanes take neighbouring pieces of a row of dst, four take rows that lie in
       different banks: neighbours, or, where each row is APART in its own way, 4 bytes apart. */
    template <bool APART>
    static CKCI_K_MEMBER void gather(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m)
    {
        CKCI_K_UNROLL(1)
        for (int32_t q = (int32_t)threadIdx.x; q < p.stores; q += 256) {
            enum { STEP = APART && E < 4 ? 4 / E : 1 };
            const int32_t far = ckci_k_divide(q >> 5, p.by_store), piece = (q & 7) + far * 8;
            const int32_t near = (q >> 5) - far * (int32_t)p.by_store.d;
            const int32_t y = (near / STEP * 4 + (q >> 3 & 3)) * STEP + near % STEP;
            if (y >= b.y1 || piece * V >= p.tile[0]) {
                continue;
            }
            unsigned char *to = b.dst + y * p.dst_step[1];
            int32_t shift = 0, next = V; /* the first element of the next V rows */
            const unsigned char *from = m.tile + place(p, piece) + y * E;
            int32_t more = 0; /* padding before those */
            if constexpr (APART) {
                shift = over(p, to);
                next = shift ? shift : V;
                more = place(p, piece + 1) - place(p, piece) - V * p.pitch;
                from += (V - shift) * p.pitch + (shift ? 0 : more);
            }
            const int32_t x = piece * V - shift;
            to += x * E;
            if ((!APART || b.x0 + x >= 0) && x + V <= b.x1) {
                ckci_k_vec<ckci_k_s_f32, 4> v;
                v.clear();
                CKCI_K_UNROLL(16)
                for (int j = 0; j < V; j++) {
                    const int32_t at = j * p.pitch + (APART && j >= next ? more : 0);
                    ckci_k_move_put<E>(v.w, j, *(const word *)(from + at));
                }
                store_piece(p, to, v.w);
            } else {
                CKCI_K_UNROLL(1)
                for (int j = 0; j < V; j++) {
                    if (b.x0 + x + j >= 0 && x + j < b.x1) {
                        ((word *)to)[j] = *(const word *)(from + j * p.pitch + (j >= next ? more : 0));
                    }
                }
            }
        }
    }

    /* The same of aligned rows, ACROSS of them at a time, which share a word of LDS. */
    enum { ACROSS = 4 / E };

    static CKCI_K_MEMBER void gather_words(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m)
    {
        CKCI_K_UNROLL(1)
        for (int32_t q = (int32_t)threadIdx.x; q < p.stores; q += 256) {
            const int32_t far = ckci_k_divide(q >> 5, p.by_store), piece = (q & 7) + far * 8;
            const int32_t near = (q >> 5) - far * (int32_t)p.by_store.d;
            const int32_t y = (near * 4 + (q >> 3 & 3)) * ACROSS, x = piece * V;
            if (y >= b.y1 || x >= b.x1) {
                continue;
            }
            const unsigned char *from = m.tile + place(p, piece) + y * E;
            uint32_t w[V];
            CKCI_K_UNROLL(16)
            for (int j = 0; j < V; j++) {
                w[j] = *(const uint32_t *)from;
                from += p.pitch;
            }
            unsigned char *to = b.dst + y * p.dst_step[1] + x * E;
            CKCI_K_UNROLL(4)
            for (int r = 0; r < ACROSS; r++) {
                uint32_t out[4];
                CKCI_K_UNROLL(4)
                for (int k = 0; k < 4; k++) {
                    out[k] = words(w + k * ACROSS, r);
                }
                if (y + r < b.y1 && x + V <= b.x1) {
                    const ckci_k_uint4 four = {out[0], out[1], out[2], out[3]};
                    *(ckci_k_uint4 *)to = four;
                }
                to += p.dst_step[1];
            }
        }
    }

    /* Element r of each of ACROSS words */
    static CKCI_K_MEMBER uint32_t words(const uint32_t *w, int r)
    {
        if constexpr (E == 2) {
            return r ? ckci_k_halves<1>(w[0], w[1]) : ckci_k_halves<0>(w[0], w[1]);
        } else {
            return (w[0] >> 8 * r & 0xffu) | (w[1] >> 8 * r & 0xffu) << 8 | (w[2] >> 8 * r & 0xffu) << 16 |
                   w[3] >> 8 * r << 24;
        }
    }

    template <int S>
    static CKCI_K_MEMBER void fill_all(const ckci_gpu_move &p, const ckci_k_move_tile &b, lds &m)
    {
#if defined(__HIP_DEVICE_COMPILE__) /* scalar branches are cheap, and loads take any address */
        fill<false, ASK, S>(p, b, m);
#else
        if (p.shifted && p.scatter) {
            fill<true, 1, S>(p, b, m);
        } else if (p.shifted) {
            fill<true, 0, S>(p, b, m);
        } else if (p.scatter) {
            fill<false, 1, S>(p, b, m);
        } else {
            fill<false, 0, S>(p, b, m);
        }
#endif
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_move &p, lds &m)
    {
        const ckci_k_move_tile b = ckci_k_find_move(p);
        if constexpr (!CONVERT) {
            fill_all<E>(p, b, m);
        } else if (p.from == USUAL || (E == 4 && p.from == CKCONV_BF16)) {
            if constexpr (E > 1) {
                fill_all<8 / E>(p, b, m);
            }
        } else {
            fill_any(p, b, m);
        }
        if (CONVERT && p.straight) {
            return;
        }
        __syncthreads();
        if (p.scatter) {
            drain(p, b, m);
            return;
        }
        if constexpr (E < 4) {
            if (p.words) {
                gather_words(p, b, m);
                return;
            }
        }
#if !defined(__HIP_DEVICE_COMPILE__)
        if (p.before) {
            gather<true>(p, b, m);
            return;
        }
#endif
        gather<false>(p, b, m);
    }
};

/* A launch that turns one tensor or two. */
template <class MOVE> struct ckci_k_moves {
    typedef typename MOVE::lds lds;

    static CKCI_K_MEMBER void run(const ckci_gpu_moves &p, lds &m)
    {
        MOVE::run(p.job[(int32_t)blockIdx.x >= p.job[1].first], m);
    }
};

template <class MOVE> struct ckci_k_resident<ckci_k_moves<MOVE>> : ckci_k_resident<MOVE> {
};
