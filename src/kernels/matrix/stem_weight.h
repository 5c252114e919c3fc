/*------------------------------------------------------------------------------------------------------------
  >>k-matrix-stem-weight
  bwd_weight of first layers, and the sum of its parts. Positions are the reduction; rows of pixels are spread
  into planes in LDS, so that neighbouring positions of any tap are neighbours there. A block owns a part of
  the positions and writes its sums to workspace; stem_sum adds the parts in fixed order, eight threads to a
  weight. dbias is one column more, of ones, where the last tile of columns has room for it.
*/
#pragma once
#include "kernels/bias.h"
#include "kernels/matrix/stem.h"

/* Tiles of dout for bwd_weight, positions of 64 channels, and their transposed operand: rows are 16 channels
   from `channel` on, the reduction positions 16 * step and the next 15. NVIDIA transposes what it loads. The
   others hold words of two neighbouring positions, the 64 channels of a pair side by side. */
template <class U> struct ckci_k_stem_turn {
    enum { PITCH = 272, BUFFERS = 1, ROW = PITCH / 2 };

    static CKCI_K_MEMBER void copy(unsigned char *tile, const ckci_k_window &from, int32_t step,
                                   int32_t positions, int32_t good, int32_t chunks)
    {
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x; i < positions * 4; i += 128) {
            const int32_t pair = i / 8, chunk = i % 8, at = pair * 2 * step + chunk * 16;
            const bool some = chunk < chunks;
            const ckci_k_uint4 a = ckci_k_window_load(from, some && 2 * pair < good ? at : INT32_MIN);
            const ckci_k_uint4 b =
                ckci_k_window_load(from, some && 2 * pair + 1 < good ? at + step : INT32_MIN);
            const ckci_k_uint4 low = {ckci_k_halves<0>(a.x, b.x), ckci_k_halves<1>(a.x, b.x),
                                      ckci_k_halves<0>(a.y, b.y), ckci_k_halves<1>(a.y, b.y)};
            const ckci_k_uint4 high = {ckci_k_halves<0>(a.z, b.z), ckci_k_halves<1>(a.z, b.z),
                                       ckci_k_halves<0>(a.w, b.w), ckci_k_halves<1>(a.w, b.w)};
            ckci_k_uint4 *to = (ckci_k_uint4 *)(tile + pair * PITCH + chunk * 32);
            to[0] = low;
            to[1] = high;
        }
    }

    static CKCI_K_MEMBER typename U::operand load(const unsigned char *tile, int step, int channel)
    {
        const unsigned char *at = tile + step * (8 * PITCH) + (channel + U::held(0)) * 4;
        return U::words([&](int, int i) { return *(const uint32_t *)(at + U::pair(i) * PITCH); });
    }
};

#if defined(CKCI_K_MMA)
template <> struct ckci_k_stem_turn<ckci_k_stem_mma> {
    enum { BUFFERS = 2, ROW = 128 };

    static CKCI_K_MEMBER void copy(unsigned char *tile, const ckci_k_window &from, int32_t step,
                                   int32_t positions, int32_t good, int32_t chunks)
    {
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x; i < positions * 8; i += 128) {
            const int32_t position = i / 8, chunk = i % 8;
            ckci_k_stem_copy(tile + ckci_k_spot<128>(position, chunk), from, position * step + chunk * 16,
                             position < good && chunk < chunks);
        }
    }

    static CKCI_K_MEMBER ckci_k_uint4 load(const unsigned char *tile, int step, int channel)
    {
        return ckci_k_mma::load_across(tile, channel, step * 32);
    }
};
#endif

/* bwd_weight. Rows are 64 channels of dout, columns 160 of (tap, c), the reduction runs over positions, of
   which an operand's register takes two neighbours along x. For these the rows of pixels that a tile reads
   come into LDS as they are (raw) and are spread into planes there: number v of a row (from the first tap of
   position 0 on) is number v / P of plane v % P, P = stride * C, and position x reads number x + tap / stride
   of one plane. Where that is odd for even x it reads a second copy that lies one number before. Rows of dout
   pass beside them, one by one. Channels first: each channel has raw rows of its own (p.in_first), and a row
   of dout lies in LDS as in memory, p.line bytes for each channel (p.out_first). Of four waves (CDNA: two)
   two share the rows, the others the columns; a block writes its sums to its part of the workspace, and
   ckci_k_stem_sum adds the parts in their order. */
template <class U, int BYTES, int POSITIONS> struct ckci_k_stem_weight {
    enum { WAVES = 128 / U::WAVE, ACROSS = WAVES / 2, TILES = 10 / ACROSS };
    typedef ckci_k_stem_turn<U> turn;
    struct lds {
        alignas(128) unsigned char dout[turn::BUFFERS][64 * (2 * POSITIONS + 16)];
        unsigned char pixels[BYTES]; /* planes, raw rows behind them */
    };
    static_assert(POSITIONS * +turn::ROW <= 64 * (2 * POSITIONS + 16), "dout in either order");

    static CKCI_K_MEMBER void run(const ckci_gpu_stem &p, lds &m)
    {
        typename U::sums sum[2][TILES];
        int32_t item, channel0, column0, base[TILES][U::HOLDS];
        const int wave = (int)threadIdx.x / U::WAVE;
        place(p, item, channel0, column0);
        CKCI_K_UNROLL(10)
        for (int j = 0; j < TILES; j++) {
            CKCI_K_UNROLL(2)
            for (int h = 0; h < U::HOLDS; h++) {
                base[j][h] = column_at(p, column0 + (j * ACROSS + wave / 2) * 16 + U::held(h));
            }
        }
        const int32_t positions = (p.tile[1] + 15) / 16 * 16;
        const int32_t left = p.columns + (p.sums ? 1 : 0) - column0 - wave / 2 * 16;
        const int32_t row_step = p.stride[0] * p.pitch;
        unsigned char *rows = m.pixels + p.rows * p.pitch;
        if (p.sums) {
            put_ones(p, m.pixels);
        }
        raw(p, item, rows);
        ckci_k_stem_close();
        const int32_t part = item;
        CKCI_K_UNROLL(1)
        for (;;) { /* see ckci_k_matrix_weight_pieces */
            const int32_t rest = p.items - item, some = p.chain * p.blocks, from = item;
            const int32_t end = item + (p.chain && some < rest ? some : rest);
            clear(sum);
            CKCI_K_UNROLL(1)
            for (; item < end; item += p.blocks) {
                const ckci_k_stem_item t(p, item);
                const int32_t high = p.output[0] - t.y < p.tile[0] ? p.output[0] - t.y : p.tile[0];
                copy(p, t, 0, channel0, positions, m);
                ckci_k_stem_close();
                ckci_k_stem_wait<1>();
                __syncthreads();
                spread(p, rows, m.pixels);
                __syncthreads();
                raw(p, item + p.blocks, rows);
                CKCI_K_UNROLL(1)
                for (int32_t r = 0; r < high; r++) {
                    if (turn::BUFFERS == 2) {
                        copy(p, t, r + 1, channel0, r + 1 < high ? positions : 0, m);
                        ckci_k_stem_close();
                        ckci_k_stem_wait<turn::BUFFERS - 1>();
                    } else if (r > 0) {
                        copy(p, t, r, channel0, positions, m);
                    }
                    __syncthreads();
                    const unsigned char *planes = m.pixels + r * row_step, *dout = m.dout[r % turn::BUFFERS];
                    if (CKCI_K_BF16(p.type == CKCONV_BF16)) {
                        multiply<ckci_k_bf16>(p, dout, planes, positions / 16, base, left, sum);
                    } else {
                        multiply<ckci_k_f16>(p, dout, planes, positions / 16, base, left, sum);
                    }
                    __syncthreads();
                }
            }
            finish(ckci_k_late_again(p), from != part, sum);
            if (item >= p.items) {
                return;
            }
        }
    }

    /* The numbers of dbias's column, in each row. */
    static CKCI_K_MEMBER void put_ones(const ckci_gpu_stem &p, unsigned char *planes)
    {
        const uint32_t ones = CKCI_K_BF16(p.type == CKCONV_BF16) ? 0x3f803f80u : 0x3c003c00u;
        for (int32_t at = (int32_t)threadIdx.x * 4; at < p.rows * p.plane; at += 128 * 4) {
            const int32_t row = at / p.plane;
            *(uint32_t *)(planes + row * p.pitch + p.ones + at - row * p.plane) = ones;
        }
    }

    static CKCI_K_MEMBER void clear(typename U::sums (&sum)[2][TILES])
    {
        CKCI_K_UNROLL(10)
        for (int j = 0; j < TILES; j++) {
            CKCI_K_UNROLL(8)
            for (int e = 0; e < U::SUMS; e++) {
                sum[0][j].v[e] = sum[1][j].v[e] = 0;
            }
        }
    }

    /* A block's part, its channels and columns. */
    static CKCI_K_MEMBER void place(const ckci_gpu_stem &p, int32_t &part, int32_t &channel, int32_t &column)
    {
        const int32_t up = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c);
        column = ((int32_t)blockIdx.x - up * p.tiles_c) * 160;
        part = ckci_k_divide(up, p.by_tiles_n);
        channel = (up - part * p.tiles_n) * 64;
    }

    /* Where position 0 finds a column's number. */
    static CKCI_K_MEMBER int32_t column_at(const ckci_gpu_stem &p, int32_t column)
    {
        const int32_t tap = ckci_k_divide(column, p.by_c), y = ckci_k_divide(tap, p.by_filter_x);
        const int32_t x = tap - y * p.filter[1], o = ckci_k_divide(x, p.by_stride_x);
        const int32_t plane = (x - o * p.stride[1]) * p.c + column - tap * p.c + (o % 2 ? p.planes : 0);
        return column < p.columns ? y * p.dilation_y * p.pitch + plane * p.plane + o / 2 * 4 : p.ones;
    }

    /* Row r of a tile of dout. */
    static CKCI_K_MEMBER void copy(const ckci_gpu_stem &p, const ckci_k_stem_item &t, int32_t r,
                                   int32_t channel0, int32_t positions, lds &m)
    {
        const int64_t *s = p.a.stride;
        const int32_t left = p.output[1] - t.x;
        if (p.out_first) {
            if (positions > 0) {
                copy_first(p, t, r, channel0, positions, m.dout[r % turn::BUFFERS]);
            }
            return;
        }
        const ckci_k_window from =
            ckci_k_make_window(p.a.p + CKCI_K_HALF * (t.n * s[1] + (t.y + r) * s[4] + t.x * s[5] + channel0));
        turn::copy(m.dout[r % turn::BUFFERS], from, CKCI_K_HALF * (int32_t)s[5], positions,
                   left < p.tile[1] ? left : p.tile[1], (p.k - channel0) / 8);
    }

    /* The same with channels first: 64 of them. */
    static CKCI_K_MEMBER void copy_first(const ckci_gpu_stem &p, const ckci_k_stem_item &t, int32_t r,
                                         int32_t channel0, int32_t positions, unsigned char *dout)
    {
        const int64_t *s = p.a.stride;
        const int32_t left = p.output[1] - t.x, good = left < p.tile[1] ? left : p.tile[1];
        const int32_t chunks = positions / 8, plane = (int32_t)s[2];
        const ckci_k_window from =
            ckci_k_make_window(p.a.p + CKCI_K_HALF * (t.n * s[1] + channel0 * s[2] + (t.y + r) * s[4] + t.x));
        CKCI_K_UNROLL_SOME(4)
        for (int32_t i = (int32_t)threadIdx.x; i < 64 * chunks; i += 128) {
            const int32_t channel = ckci_k_divide(i, p.by_line), chunk = i - channel * chunks;
            ckci_k_stem_copy(dout + channel * p.line + chunk * 16, from,
                             CKCI_K_HALF * (channel * plane + chunk * 8),
                             channel0 + channel < p.k && chunk * 8 < good);
        }
    }

    /* The rows of pixels of a tile as memory holds them, from p.left numbers before the first pixel on. */
    static CKCI_K_MEMBER void raw(const ckci_gpu_stem &p, int32_t item, unsigned char *rows)
    {
        if (item >= p.items) {
            return;
        }
        const ckci_k_stem_item t(p, item);
        const ckci_k_window from = ckci_k_make_window(p.b.p + CKCI_K_HALF * t.n * p.b.stride[1]);
        const int32_t top = t.y * p.stride[0] - p.pad[0], step = (int32_t)p.b.stride[4];
        const int32_t each = p.in_first ? p.c : 1, one = p.in_first ? 1 : p.c;
        const int32_t first = t.x * p.stride[1] * one - p.left, plane = (int32_t)p.b.stride[2];
        CKCI_K_UNROLL_SOME(4)
        for (int32_t i = (int32_t)threadIdx.x; i < p.rows * each * p.chunks; i += 128) {
            const int32_t row = ckci_k_divide(i, p.by_chunks), at = first + (i - row * p.chunks) * 8;
            const int32_t down = p.in_first ? ckci_k_divide(row, p.by_c) : row, c = row - down * each;
            const int32_t y = top + down;
            const bool good = (uint32_t)y < (uint32_t)p.input[0] && at >= 0 && at < p.input[1] * one;
            ckci_k_stem_copy(rows + i * 16, from, CKCI_K_HALF * (y * step + c * plane + at), good);
        }
    }

    /* The same as planes, two numbers at a time; a wave takes a plane of a row. */
    static CKCI_K_MEMBER void spread(const ckci_gpu_stem &p, const unsigned char *rows, unsigned char *planes)
    {
        const int32_t lane = (int32_t)threadIdx.x % U::WAVE;
        const int32_t step = (p.in_first ? p.stride[1] : p.planes) * CKCI_K_HALF;
        const int32_t second = p.planes * p.plane;
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x / U::WAVE; i < p.rows * p.planes; i += WAVES) {
            const int32_t row = ckci_k_divide(i, p.by_planes), plane = i - row * p.planes;
            int32_t line = row, first = p.left - p.pad[1] * p.c + plane;
            if (p.in_first) {
                const int32_t x = ckci_k_divide(plane, p.by_c);
                line = row * p.c + plane - x * p.c;
                first = p.left - p.pad[1] + x;
            }
            const unsigned char *from = rows + line * p.chunks * 16 + CKCI_K_HALF * first + lane * 2 * step;
            unsigned char *to = planes + row * p.pitch + plane * p.plane + lane * 4;
            CKCI_K_UNROLL(2)
            for (int32_t x = lane * 2; x < p.length; x += 2 * U::WAVE) {
                const uint32_t a = *(const uint16_t *)from, b = *(const uint16_t *)(from + step),
                               c = *(const uint16_t *)(from + 2 * step);
                *(uint32_t *)to = a | b << 16;
                *(uint32_t *)(to + second) = b | c << 16;
                from += 2 * U::WAVE * step;
                to += 4 * U::WAVE;
            }
        }
    }

    /* left: columns from the first one of this wave on; all tiles but the first are computed or none */
    template <class T>
    static CKCI_K_MEMBER void
    multiply(const ckci_gpu_stem &p, const unsigned char *dout, const unsigned char *planes, int32_t steps,
             const int32_t (&base)[TILES][U::HOLDS], int32_t left, typename U::sums (&sum)[2][TILES])
    {
        if (p.out_first) {
            multiply_some<T, true>(p, dout, planes, steps, base, left, sum);
        } else {
            multiply_some<T, false>(p, dout, planes, steps, base, left, sum);
        }
    }

    template <class T, bool FIRST>
    static CKCI_K_MEMBER void multiply_some(const ckci_gpu_stem &p, const unsigned char *dout,
                                            const unsigned char *planes, int32_t steps,
                                            const int32_t (&base)[TILES][U::HOLDS], int32_t left,
                                            typename U::sums (&sum)[2][TILES])
    {
        const int channel = (int)threadIdx.x / U::WAVE % 2 * 32;
        if (left <= ACROSS * 16) {
            CKCI_K_UNROLL(1)
            for (int32_t step = 0; step < steps; step++) {
                one<T, 1, FIRST>(p, dout, planes + step * 32, step, channel, base, sum);
            }
        } else {
            CKCI_K_UNROLL(1)
            for (int32_t step = 0; step < steps; step++) {
                one<T, TILES, FIRST>(p, dout, planes + step * 32, step, channel, base, sum);
            }
        }
    }

    /* 16 channels of dout, at the positions of a step. */
    template <bool FIRST>
    static CKCI_K_MEMBER typename U::operand rows(const ckci_gpu_stem &p, const unsigned char *dout,
                                                  int32_t step, int channel)
    {
        if constexpr (FIRST) {
            return U::load_rows(dout + (channel + (int)threadIdx.x % 16) * p.line, step * 32);
        } else {
            return turn::load(dout, step, channel);
        }
    }

    template <class T, int COUNT, bool FIRST>
    static CKCI_K_MEMBER void one(const ckci_gpu_stem &p, const unsigned char *dout,
                                  const unsigned char *planes, int32_t step, int channel,
                                  const int32_t (&base)[TILES][U::HOLDS], typename U::sums (&sum)[2][TILES])
    {
        const typename U::operand a[2] = {rows<FIRST>(p, dout, step, channel),
                                          rows<FIRST>(p, dout, step, channel + 16)};
        CKCI_K_UNROLL(10)
        for (int j = 0; j < COUNT; j++) {
            const typename U::operand b = U::words(
                [&](int h, int i) { return *(const uint32_t *)(planes + base[j][h] + U::pair(i) * 4); });
            U::template multiply<T>(sum[0][j], a[0], b);
            U::template multiply<T>(sum[1][j], a[1], b);
        }
    }

    /* more: to what the part holds */
    static CKCI_K_MEMBER void finish(const ckci_gpu_stem &p, bool more, typename U::sums (&sum)[2][TILES])
    {
        const int wave = (int)threadIdx.x / U::WAVE;
        int32_t part, channel0, column0;
        place(p, part, channel0, column0);
        float *to = (float *)p.partial + (int64_t)part * p.k * p.columns;
        float *rows = p.sums ? (float *)p.sums + (int64_t)part * p.k : nullptr;
        CKCI_K_UNROLL(2)
        for (int i = 0; i < 2; i++) {
            CKCI_K_UNROLL(10)
            for (int j = 0; j < TILES; j++) {
                const int32_t k = channel0 + wave % 2 * 32 + i * 16,
                              column = column0 + (j * ACROSS + wave / 2) * 16;
                if (more) { /* loads together, before the stores */
                    CKCI_K_UNROLL(8)
                    for (int e = 0; e < U::SUMS; e++) {
                        if (k + U::row(e) < p.k && column + U::column(e) < p.columns) {
                            sum[i][j].v[e] += to[(k + U::row(e)) * p.columns + column + U::column(e)];
                        }
                    }
                }
                CKCI_K_UNROLL(8)
                for (int e = 0; e < U::SUMS; e++) {
                    if (k + U::row(e) < p.k && column + U::column(e) < p.columns) {
                        to[(k + U::row(e)) * p.columns + column + U::column(e)] = sum[i][j].v[e];
                    } else if (rows && k + U::row(e) < p.k && column + U::column(e) == p.columns) {
                        rows[k + U::row(e)] = sum[i][j].v[e] + (more ? rows[k + U::row(e)] : 0.f);
                    }
                }
            }
        }
    }
};

/* The sums of many parts: 32 neighbouring weights per block, and for each of them eight threads that add an
   eighth of the parts. */
struct ckci_k_stem_sum {
    struct lds {
        float v[8][32];
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        const int slice = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
        if (p.bias.sums && (int64_t)blockIdx.x >= p.bias_at) {
            ckci_k_bias_add<float>(p.bias, (int32_t)((int64_t)blockIdx.x - p.bias_at), m.v[0],
                                   [](int32_t, int32_t) { return true; });
            return;
        }
        const int32_t all = p.rows * p.columns, e = (int32_t)blockIdx.x * 32 + lane;
        const int32_t each = (p.split + 7) / 8,
                      end = (slice + 1) * each < p.split ? (slice + 1) * each : p.split;
        const float *from = (const float *)p.o.partial + e;
        float sum = 0;
        int32_t i = e < all ? slice * each : end;
        for (; i + 8 <= end; i += 8) { /* loads in flight together, additions in order */
            float v[8];
            CKCI_K_UNROLL(8)
            for (int j = 0; j < 8; j++) {
                v[j] = from[(int64_t)(i + j) * all];
            }
            CKCI_K_UNROLL(8)
            for (int j = 0; j < 8; j++) {
                sum += v[j];
            }
        }
        for (; i < end; i++) {
            sum += from[(int64_t)i * all];
        }
        m.v[slice][lane] = sum;
        __syncthreads();
        if (slice > 0 || e >= all) {
            return;
        }
        CKCI_K_UNROLL(8)
        for (int j = 1; j < 8; j++) {
            sum += m.v[j][lane];
        }
        const int32_t k = ckci_k_divide(e, p.by_columns);
        const ckci_k_tap tap = ckci_k_split_column(p, e - k * p.columns);
        ckci_k_write<float>(p.o, sum, 0, k, tap.c, tap.z, tap.y, tap.x);
    }
};

/* Body<U, NVIDIA> with the unit of the target. */
template <template <class, int> class Body>
struct ckci_k_stem
    : ckci_k_by_unit<typename Body<ckci_k_stem_mfma, 0>::type, typename Body<ckci_k_stem_wmma<11>, 0>::type,
                     typename Body<ckci_k_stem_wmma<12>, 0>::type, typename Body<ckci_k_stem_mma, 1>::type> {
};

template <class U, int NVIDIA> struct ckci_k_stem_fwd_of {
    typedef ckci_k_stem_fwd<U, 2, CKCI_STEM_PIXELS(NVIDIA), NVIDIA ? 2 : 1> type;
};

template <class U, int NVIDIA> struct ckci_k_stem_back_of {
    typedef ckci_k_stem_back<U, CKCI_STEM_BACK_PIXELS(NVIDIA)> type;
};

template <class U, int NVIDIA> struct ckci_k_stem_weight_of {
    typedef ckci_k_stem_weight<U, CKCI_STEM_PLANES(NVIDIA), CKCI_STEM_POSITIONS(NVIDIA)> type;
};

template <template <class, int> class Body> struct ckci_k_resident<ckci_k_stem<Body>> {
    enum { BLOCKS = 2 };
};
