/*------------------------------------------------------------------------------------------------------------
  >>k-matrix-near-gather
  fwd and bwd_data of small groups: by tiles of any filter, by strips (near_down, 3 x 3) or by planes
  (near_deep). A wave owns 16 channels of the written tensor, with their weights in registers, and 16
  positions at a time. The pixels that it reads come as >>k-matrix-near brings them. Results are its own.
*/
#pragma once
#include "kernels/matrix/near.h"

/* How: by tiles of any filter, by strips, by planes. */
enum { CKCI_K_NEAR_TILES, CKCI_K_NEAR_DOWN, CKCI_K_NEAR_DEEP };

template <class U, int Q, int HOW> struct ckci_k_near_gather {
    typedef ckci_k_near_lds<U::ASYNC> lds;
    typedef ckci_k_near_unit<U> unit;
    typedef typename U::operand operand;
    enum {
        WAVES = 256 / U::WAVE,
        HALVES = WAVES / 4,
        TERMS = Q / 16,
        FILL = 12, /* weights of a thread on their way together */
        DOWN = HOW == CKCI_K_NEAR_DOWN,
        DEEP = HOW == CKCI_K_NEAR_DEEP,
        /* gfx11's operands are twice as large: weights of 32 channels are read again for each region */
        HELD = !(DEEP && (U::ASYNC || sizeof(operand) > 16)) &&
               CKCI_K_NEAR_TAPS * TERMS * sizeof(operand) <= 288,
        TWO = 2,
        TILES = DEEP   ? 32 / U::SUMS /* side by side */
                : HELD ? 1
                       : CKCI_NEAR_AMD_POSITIONS / 16 / HALVES
    };
    typedef operand held[HELD ? +CKCI_K_NEAR_TAPS : 1][TERMS];
    typedef typename U::sums all_sums[DEEP ? TILES / TWO : 1][TWO];
    /* Where a lane's sums of 16 positions go, so many rows further and then row by row, and how many rows
       there are of each. */
    struct places {
        unsigned char *to[unit::PIECES];
        int32_t rows[unit::PIECES];
        float shift[unit::RUN]; /* what D tensors of one number a channel add (NVIDIA) */
    };
    /* and the sums of three rows on the way down */
    struct strip {
        places out;
        typename U::sums sum[3];
    };
    typedef ckci_k_near_run<unit::RUN> run_sums;

    /* `from`: weights of `column` and its neighbours in the order [column][tap][Q], `pitch` apart. */
    static CKCI_K_MEMBER void load_weights(const ckci_gpu_conv &p, const unsigned char *from, int32_t pitch,
                                           int t, operand (&w)[TERMS])
    {
        const int32_t taps = p.as.region.taps, tap = DEEP               ? t
                                                     : t >= taps        ? 0
                                                     : p.as.region.back ? taps - 1 - t
                                                                        : t;
        CKCI_K_UNROLL(2)
        for (int i = 0; i < TERMS; i++) {
            w[i] = unit::load_weights(
                [&](int row) { return from + row * pitch + (tap * Q + i * 16) * CKCI_K_HALF; });
        }
    }

    static CKCI_K_MEMBER const unsigned char *packed(const ckci_gpu_conv &p, int32_t column)
    {
        return p.b.p + (int64_t)(column < p.as.region.channels ? column : 0) * pitch_of(p);
    }

    static CKCI_K_MEMBER int32_t pitch_of(const ckci_gpu_conv &p)
    {
        return p.as.region.planes * p.as.region.taps * (Q * CKCI_K_HALF);
    }

    /* NVIDIA: the weights of 64 columns on their way through LDS, rows 16 bytes more than 32 apart, modulo
       64. Either they lie packed, or each is fetched from where it lies in its tensor. */
    static CKCI_K_MEMBER void fill(const ckci_gpu_conv &conv, unsigned char *to, int32_t channel)
    {
        const ckci_gpu_conv &p = ckci_k_late(conv);
        const int32_t thread = (int32_t)threadIdx.x, taps = p.as.region.taps, row = taps * (Q * CKCI_K_HALF);
        const int32_t chunks = row / 16, pitch = row + 16, good = p.as.region.channels - channel;
        if (p.as.region.packed || (int32_t)p.by_one_c.d < Q) {
            CKCI_K_UNROLL(2)
            for (int32_t i = thread; i < 64 * chunks; i += 256) {
                const int32_t column = ckci_k_divide(i / (Q / 8), p.as.region.by_taps);
                ckci_k_uint4 v = {};
                if (p.as.region.packed && column < good) {
                    v = *(const ckci_k_uint4 *)(p.b.p + ((int64_t)channel * chunks + i) * 16);
                }
                *(ckci_k_uint4 *)(to + i * 16 + column * 16) = v;
            }
        }
        if (p.as.region.packed) {
            return;
        }
        __syncthreads();
        const int32_t c = (int32_t)p.by_one_c.d, all = (good < 64 ? good : 64) * c * taps;
        const int64_t *s = p.b.stride;
        const uint16_t *from = (const uint16_t *)p.b.p + ckci_k_divide(channel, p.by_one_c) * s[0];
        if (p.as.region.eights) {
            /* threads side by side have columns side by side, or neighbours of the reduction: no two of a
               wave write to a bank */
            const int32_t pieces = 64 * taps * (c / 8);
            CKCI_K_UNROLL(1)
            for (int32_t first = thread; first < pieces; first += FILL / 2 * 256) {
                ckci_k_uint4 v[FILL / 2];
                int32_t at[FILL / 2];
                CKCI_K_UNROLL(6)
                for (int j = 0; j < FILL / 2; j++) {
                    const int32_t i = first + j * 256, k = i % 64;
                    at[j] = -1;
                    if (i < pieces && k < good) {
                        v[j] = *(const ckci_k_uint4 *)(from + place(p, k, i / 64 * 8, pitch, at[j]));
                    }
                }
                CKCI_K_UNROLL(6)
                for (int j = 0; j < FILL / 2; j++) {
                    if (at[j] < 0) {
                        continue;
                    }
                    if (!p.as.region.back) {
                        *(ckci_k_uint4 *)(to + at[j]) = v[j];
                        continue;
                    }
                    const uint32_t two[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
                    CKCI_K_UNROLL(8)
                    for (int e = 0; e < 8; e++) {
                        *(uint16_t *)(to + at[j] + e * pitch) = (uint16_t)(two[e / 2] >> 16 * (e % 2));
                    }
                }
            }
            return;
        }
        CKCI_K_UNROLL(1)
        for (int32_t first = thread; first < all; first += FILL * 256) {
            uint16_t v[FILL];
            int32_t at[FILL];
            CKCI_K_UNROLL(12)
            for (int j = 0; j < FILL; j++) {
                const int32_t i = first + j * 256 < all ? first + j * 256 : first;
                const int32_t k = ckci_k_divide(ckci_k_divide(i, p.by_one_c), p.as.region.by_taps);
                v[j] = from[place(p, k, i - k * taps * c, pitch, at[j])];
            }
            CKCI_K_UNROLL(12)
            for (int j = 0; j < FILL; j++) {
                *(uint16_t *)(to + at[j]) = v[j];
            }
        }
    }

    /* Where weight i of output channel k lies, from those of the first one on; `at`: in LDS. */
    static CKCI_K_MEMBER int64_t place(const ckci_gpu_conv &p, int32_t k, int32_t i, int32_t pitch,
                                       int32_t &at)
    {
        const int32_t c = (int32_t)p.by_one_c.d, tap = ckci_k_divide(i, p.by_one_c), one = i - tap * c;
        const int32_t group = ckci_k_divide(k, p.by_one_c), y = ckci_k_divide(tap, p.as.region.by_filter_x);
        const int32_t other = group * c + one, x = tap - y * (int32_t)p.as.region.by_filter_x.d;
        const int64_t *s = p.b.stride;
        at = (p.as.region.back ? other : k) * pitch +
             (tap * Q + (p.as.region.back ? k : other) % Q) * CKCI_K_HALF;
        return group * s[0] + (k - group * c) * s[1] + one * s[2] + y * s[4] + x * s[5];
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        if constexpr (HELD || !DOWN) {
            walk(p, m);
        }
    }

    static CKCI_K_MEMBER void walk(const ckci_gpu_conv &p, lds &m)
    {
        const int32_t part = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_n);
        const int32_t channel = ((int32_t)blockIdx.x - part * p.tiles_n) * 64;
        const int32_t wave = ckci_k_same((int32_t)threadIdx.x / U::WAVE);
        const int32_t column = channel + (DEEP ? wave & ((1 << p.as.region.log_sides) - 1) : wave % 4) * 16;
        held weights;
        strip down;
        all_sums sum;
        if constexpr (U::ASYNC) {
            const int32_t good = linear(p) ? p.as.region.channels - channel : 0;
            ckci_k_add_channels<256>(p.o, m.numbers[0], channel, 64, good, m.numbers[1]);
        }
        ckci_k_near_tables(p, p.a, p.o.t, m);
        ckci_k_near_walk<U, 0, DEEP>(
            p, m, part, p.as.region.regions, channel, channel, 0,
            [&]() {
                if constexpr (HELD && !DEEP) {
                    const unsigned char *from = packed(p, column);
                    int32_t pitch = pitch_of(p);
                    if constexpr (U::ASYNC) {
                        fill(p, m.stage + lds::BYTES, channel);
                        pitch += 16;
                        from = m.stage + lds::BYTES + column % 64 * pitch;
                        __syncthreads();
                    }
                    CKCI_K_UNROLL(9)
                    for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
                        load_weights(p, from, pitch, t, weights[t]);
                    }
                    if constexpr (U::ASYNC) {
                        __syncthreads();
                    }
                }
            },
            [&](int32_t plane, int32_t at) {
                if constexpr (DEEP && U::ASYNC) {
                    copy_weights(p, m.stage + at + p.as.region.bytes, channel, plane);
                } else if constexpr (DEEP && HELD) {
                    if (p.as.region.taps == CKCI_K_NEAR_TAPS) {
                        const unsigned char *from = of_plane(p, column, plane);
                        const int32_t pitch = pitch_of(p);
                        CKCI_K_UNROLL(9)
                        for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
                            load_weights(p, from, pitch, t, weights[t]);
                        }
                    }
                }
                (void)plane, (void)at;
            },
            [&](const ckci_k_near_region &r, int32_t step, const unsigned char *stage) {
                if (ckci_k_lane_afresh(column) >= p.as.region.channels) {
                    return;
                }
                if (CKCI_K_BF16(p.a.compute == CKCONV_BF16)) {
                    multiply<ckci_k_bf16>(p, r, m, step, stage, column, weights, down, sum);
                } else {
                    multiply<ckci_k_f16>(p, r, m, step, stage, column, weights, down, sum);
                }
            });
    }

    /* NVIDIA: the weights of a plane on their way into LDS, in rows of which the unit tells. */
    static CKCI_K_MEMBER void copy_weights(const ckci_gpu_conv &p, unsigned char *to, int32_t channel,
                                           int32_t plane)
    {
        const int32_t left = p.as.region.channels - channel, columns = 16 << p.as.region.log_sides;
        const int32_t chunks = p.as.region.taps * (Q / 8), good = left < columns ? left : columns;
        const unsigned char *from = of_plane(p, channel, plane);
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x; i < good * chunks; i += 256) {
            const int32_t column = ckci_k_divide(i / (Q / 8), p.as.region.by_taps),
                          piece = i - column * chunks;
            ckci_k_copy_from(to + (i + column + column / 8 * 2) * 16,
                             from + (int64_t)column * pitch_of(p) + piece * 16, 16);
        }
    }

    static CKCI_K_MEMBER const unsigned char *of_plane(const ckci_gpu_conv &p, int32_t column, int32_t plane)
    {
        const ckci_gpu_near &q = p.as.region;
        return packed(p, column) + (q.back ? q.planes - 1 - plane : plane) * q.taps * (Q * CKCI_K_HALF);
    }

    template <class T>
    static CKCI_K_MEMBER void multiply(const ckci_gpu_conv &p, const ckci_k_near_region &r, const lds &m,
                                       int32_t row, const unsigned char *stage, int32_t column, held &weights,
                                       strip &down, all_sums &sum)
    {
        if constexpr (DEEP) {
            if constexpr (U::ASYNC) {
                if (!ckci_k_afresh(p.as.region.packed)) {
                    planes<T, 1>(p, r, m, row, stage, column, weights, sum);
                    return;
                }
            }
            planes<T, 0>(p, r, m, row, stage, column, weights, sum);
        } else if constexpr (DOWN && HELD) {
            if (p.as.region.whole && p.o.form == CKCI_FORM_STORE) {
                strips<T, PLAIN>(p, r, m, row, stage, column, weights, down);
                return;
            }
            if constexpr (U::ASYNC) {
                if (linear(p)) {
                    strips<T, LINEAR>(p, r, m, row, stage, column, weights, down);
                    return;
                }
            }
            strips<T, ANY>(p, r, m, row, stage, column, weights, down);
        } else if constexpr (!DOWN) {
            if constexpr (U::ASYNC) {
                if (linear(p)) {
                    tiles_of<T, LINEAR>(p, r, m, stage, column, weights);
                    return;
                }
            }
            tiles_of<T, ANY>(p, r, m, stage, column, weights);
        }
    }

    template <class T, int FORM>
    static CKCI_K_MEMBER void tiles_of(const ckci_gpu_conv &p, const ckci_k_near_region &r, const lds &m,
                                       const unsigned char *stage, int32_t column, held &weights)
    {
        if (ckci_k_afresh(p.as.region.taps) == CKCI_K_NEAR_TAPS) {
            tiles<T, 1, FORM>(p, r, m, stage, column, weights);
        } else {
            tiles<T, 0, FORM>(p, r, m, stage, column, weights);
        }
    }

    /* Down the rows of 16 columns of positions: what is read of a row of pixels is multiplied with all three
       rows of the filter, into the sums of three rows of positions, of which one is then complete. A chunk
       that begins at a row other than 0 goes on with the sums of the one before. On NVIDIA the next row is
       on its way from LDS meanwhile. */
    template <class T, int FORM>
    static CKCI_K_MEMBER void strips(const ckci_gpu_conv &p, const ckci_k_near_region &r, const lds &m,
                                     int32_t first, const unsigned char *stage, int32_t column, held &weights,
                                     strip &down)
    {
        enum { AHEAD = U::ASYNC && FORM != ANY };
        const ckci_gpu_near &q = p.as.region;
        const int32_t end = U::ASYNC && first + q.chunk < r.rows ? first + q.chunk : r.rows;
        const int32_t more_pitch = q.images * q.columns * CKCI_NEAR_PITCH;
        const unsigned char *more = stage + q.bytes - first * more_pitch;
        stage += column % 64 / Q * (Q * CKCI_K_HALF);
        CKCI_K_UNROLL(1)
        for (int32_t tile = ckci_k_same((int32_t)threadIdx.x / U::WAVE) / 4; tile < q.tiles; tile += HALVES) {
            const unsigned char *from = stage + m.position[tile * 16 + (int32_t)threadIdx.x % 16].at();
            typename U::sums(&sum)[3] = down.sum;
            operand pixels[3][TERMS];
            if (first == 0) {
                targets<FORM>(p, r, m, tile, column + unit::channel(), -2, down.out);
                CKCI_K_UNROLL(8)
                for (int e = 0; e < U::SUMS; e++) {
                    sum[0].v[e] = sum[1].v[e] = 0;
                }
            }
            if constexpr (AHEAD) {
                load_row(from, pixels);
            }
            CKCI_K_UNROLL(1)
            for (int32_t row = first ? first : -2; row < end; row++) {
                operand ahead[3][TERMS];
                if constexpr (AHEAD) {
                    from += row + 1 < end ? q.row_pitch : 0;
                    load_row(from, ahead);
                } else {
                    load_row(from, pixels);
                    from += ckci_k_lane_afresh(q.row_pitch);
                }
                CKCI_K_UNROLL(8)
                for (int e = 0; e < U::SUMS; e++) {
                    sum[2].v[e] = 0;
                }
                CKCI_K_UNROLL(3)
                for (int x = 0; x < 3; x++) {
                    CKCI_K_UNROLL(2)
                    for (int i = 0; i < TERMS; i++) {
                        CKCI_K_UNROLL(3)
                        for (int y = 0; y < 3; y++) {
                            unit::template multiply<T>(sum[2 - y], weights[3 * y + x][i], pixels[x][i]);
                        }
                        if constexpr (AHEAD) {
                            pixels[x][i] = ahead[x][i];
                        }
                    }
                }
                write<T, FORM>(p, r, m, tile, row, column + unit::channel(), down.out,
                               more + row * more_pitch, sum[0]);
                sum[0] = sum[1];
                sum[1] = sum[2];
            }
        }
    }

    /* What 16 positions read of a row of pixels. */
    static CKCI_K_MEMBER void load_row(const unsigned char *from, operand (&pixels)[3][TERMS])
    {
        CKCI_K_UNROLL(3)
        for (int x = 0; x < 3; x++) {
            CKCI_K_UNROLL(2)
            for (int i = 0; i < TERMS; i++) {
                pixels[x][i] = U::load_rows(from + x * CKCI_NEAR_PITCH, i * 32);
            }
        }
    }

    template <class T, int ALL, int FORM>
    static CKCI_K_MEMBER void tiles(const ckci_gpu_conv &p, const ckci_k_near_region &r, const lds &m,
                                    const unsigned char *stage, int32_t column, held &weights)
    {
        const ckci_gpu_near &q = p.as.region;
        const unsigned char *more = stage + q.bytes;
        stage += column % 64 / Q * (Q * CKCI_K_HALF);
        CKCI_K_UNROLL(1)
        for (int32_t tile = ckci_k_same((int32_t)threadIdx.x / U::WAVE) / 4; tile < q.tiles;
             tile += HALVES * TILES) {
            typename U::sums sum[TILES];
            const unsigned char *from[TILES];
            CKCI_K_UNROLL(4)
            for (int n = 0; n < TILES; n++) {
                const int32_t at = tile + n * HALVES;
                from[n] =
                    stage + m.position[(at < q.tiles ? at : tile) * 16 + (int32_t)threadIdx.x % 16].at();
                CKCI_K_UNROLL(8)
                for (int e = 0; e < U::SUMS; e++) {
                    sum[n].v[e] = 0;
                }
            }
            if constexpr (HELD) {
                const int32_t taps = ckci_k_afresh(q.taps);
                CKCI_K_UNROLL(9)
                for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
                    if (ALL || t < taps) {
                        one<T>(from, q.tap[t], weights[t], sum);
                    }
                }
            } else {
                CKCI_K_UNROLL(1)
                for (int t = 0; t < q.taps; t++) {
                    operand now[TERMS];
                    load_weights(p, packed(p, column), pitch_of(p), t, now);
                    one<T>(from, q.tap[t], now, sum);
                }
            }
            CKCI_K_UNROLL(4)
            for (int n = 0; n < TILES; n++) {
                if (tile + n * HALVES < q.tiles) {
                    finish_tile<T, FORM>(p, r, m, tile + n * HALVES, column + unit::channel(), more, sum[n]);
                }
            }
        }
    }

    /* One plane of the filter for all tiles of a wave, TWO at a time. The last one completes the sums. TURN
       (NVIDIA): rows of weights are the reduction. */
    template <class T, int TURN>
    static CKCI_K_MEMBER void planes(const ckci_gpu_conv &conv, const ckci_k_near_region &r, const lds &m,
                                     int32_t plane, const unsigned char *stage, int32_t column, held &weights,
                                     all_sums &sum)
    {
        const ckci_gpu_conv &p = ckci_k_late_again(conv);
        const ckci_gpu_near &q = p.as.region;
        const int32_t first = ckci_k_same((int32_t)threadIdx.x / U::WAVE) >> q.log_sides;
        const int32_t step = WAVES >> q.log_sides;
        const int32_t block = column % 64 / Q * Q; /* its first channel in the slice */
        const unsigned char *of_weights = stage;
        int32_t next_term = 0, channel = column + unit::channel();
        if constexpr (U::ASYNC) {
            const int32_t pitch = q.taps * (Q * CKCI_K_HALF) + 16, row = TURN ? block : column % 64;
            of_weights += q.bytes + row * pitch + row / 8 * 32 + unit::template weights_at<TURN>(pitch);
            of_weights += TURN ? (column % 64 - block) * CKCI_K_HALF : 0;
            next_term = TURN ? 16 * pitch + 64 : 32;
            channel = TURN ? column + unit::channel_of_four() : channel;
        }
        stage += block * CKCI_K_HALF;
        CKCI_K_UNROLL(4)
        for (int n = 0; n < TILES / TWO; n++) {
            const int32_t tile = first + n * TWO * step;
            if (tile >= q.tiles) {
                break;
            }
            const unsigned char *from[TWO];
            CKCI_K_UNROLL(2)
            for (int j = 0; j < TWO; j++) {
                const int32_t at = tile + j * step;
                from[j] = stage + m.position[(at < q.tiles ? at : 0) * 16 + (int32_t)threadIdx.x % 16].at();
                if (plane == 0) {
                    CKCI_K_UNROLL(8)
                    for (int e = 0; e < U::SUMS; e++) {
                        sum[n][j].v[e] = 0;
                    }
                }
            }
            if ((HELD || U::ASYNC) && q.taps == CKCI_K_NEAR_TAPS) {
                CKCI_K_UNROLL(9)
                for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
                    if constexpr (HELD) {
                        one<T>(from, q.tap[t], weights[t], sum[n]);
                    } else {
                        one_from<T, TURN>(p, from, t, of_weights, next_term, column, plane, sum[n]);
                    }
                }
            } else {
                CKCI_K_UNROLL(1)
                for (int t = 0; t < q.taps; t++) {
                    one_from<T, TURN>(p, from, t, of_weights, next_term, column, plane, sum[n]);
                }
            }
        }
        if (plane + 1 < q.planes) {
            return;
        }
        /* the code that stores stands once: it takes the first sums, and the others move up */
        CKCI_K_UNROLL(1)
        for (int n = 0; n < TILES && first + n * step < q.tiles; n++) {
            if constexpr (TURN) {
                unit::own_four(sum[0][0]);
            }
            finish_tile<T, ANY>(ckci_k_late_again(conv), r, m, first + n * step, channel, stage, sum[0][0]);
            CKCI_K_UNROLL(8)
            for (int i = 1; i < TILES; i++) {
                sum[(i - 1) / TWO][(i - 1) % TWO] = sum[i / TWO][i % TWO];
            }
        }
    }

    /* A tap whose weights are not held: from LDS (NVIDIA) or memory. */
    template <class T, int TURN>
    static CKCI_K_MEMBER void one_from(const ckci_gpu_conv &p, const unsigned char *const (&from)[TWO], int t,
                                       const unsigned char *of_weights, int32_t next_term, int32_t column,
                                       int32_t plane, typename U::sums (&sum)[TWO])
    {
        operand now[TERMS];
        if constexpr (U::ASYNC) {
            CKCI_K_UNROLL(2)
            for (int i = 0; i < TERMS; i++) {
                now[i] =
                    unit::template load_weights_at<TURN>(of_weights + t * (Q * CKCI_K_HALF) + i * next_term);
            }
        } else {
            load_weights(p, of_plane(p, column, plane), pitch_of(p), t, now);
        }
        one<T>(from, p.as.region.tap[t], now, sum);
    }

    template <class T, int FORM>
    static CKCI_K_MEMBER void finish_tile(const ckci_gpu_conv &p, const ckci_k_near_region &r, const lds &m,
                                          int32_t tile, int32_t channel, const unsigned char *more,
                                          typename U::sums &sum)
    {
        places out;
        if constexpr (FORM != ANY) {
            targets<FORM>(p, r, m, tile, channel, 0, out);
            write<T, FORM>(p, r, m, tile, 0, channel, out, more, sum);
        } else if (p.as.region.whole && p.o.form == CKCI_FORM_STORE) {
            targets<PLAIN>(p, r, m, tile, channel, 0, out);
            write<T, PLAIN>(p, r, m, tile, 0, channel, out, more, sum);
        } else {
            targets<ANY>(p, r, m, tile, channel, 0, out);
            write<T, ANY>(p, r, m, tile, 0, channel, out, more, sum);
        }
    }

    /* a tap */
    template <class T, int N>
    static CKCI_K_MEMBER void one(const unsigned char *const (&from)[N], int32_t tap,
                                  const operand (&weights)[TERMS], typename U::sums (&sum)[N])
    {
        CKCI_K_UNROLL(4)
        for (int n = 0; n < N; n++) {
            CKCI_K_UNROLL(2)
            for (int i = 0; i < TERMS; i++) {
                unit::template multiply<T>(sum[n], weights[i], U::load_rows(from[n] + tap, i * 32));
            }
        }
    }

    /* What is known of the epilogue where sums go to memory: nothing, that there is none, that it is linear,
       with factors or without, and a residual, if there is one, has come with the pixels (NVIDIA: such tiles
       go on as fast as plain ones). */
    enum { ANY, PLAIN, LINEAR };

    static CKCI_K_MEMBER bool linear(const ckci_gpu_conv &p)
    {
        return p.as.region.whole && p.o.residual != CKCI_RESIDUAL_ANY && p.o.residual == p.as.region.residual;
    }

    template <int FORM>
    static CKCI_K_MEMBER void targets(const ckci_gpu_conv &conv, const ckci_k_near_region &r, const lds &m,
                                      int32_t tile, int32_t channel, int32_t row, places &out)
    {
        const ckci_gpu_conv &p = ckci_k_late(conv);
        const ckci_tensor &t = p.o.t;
        unsigned char *first =
            t.p + (ckci_k_near_steps(t).at(r.n, r.z, r.y + row, r.x) + channel) * CKCI_K_HALF;
        CKCI_K_UNROLL(2)
        for (int piece = 0; piece < unit::PIECES; piece++) {
            const int32_t i = tile * 16 + unit::position(piece);
            const ckci_k_near_spot s = m.position[i];
            out.rows[piece] = r.holds(p.as.region, i, s) ? r.rows : 0;
            out.to[piece] = first + (int64_t)s.offset * CKCI_K_HALF;
        }
        if constexpr (FORM == LINEAR) {
            CKCI_K_UNROLL(8)
            for (int j = 0; j < unit::RUN; j++) {
                out.shift[j] = m.numbers[0][channel % 64 + j];
            }
        }
    }

    /* The sums of such a row (before the first one: of none) to memory. more: where in LDS the residual of
       the row's positions is. AMD computes epilogues element by element: with more code clang 19 wants
       scalars from vector registers on gfx11. */
    template <class T, int FORM>
    static CKCI_K_MEMBER void write(const ckci_gpu_conv &conv, const ckci_k_near_region &r, const lds &m,
                                    int32_t tile, int32_t row, int32_t channel, places &out,
                                    const unsigned char *more, typename U::sums &sum)
    {
        const ckci_gpu_conv &p = ckci_k_late(conv);
        ckci_k_settle<U>(sum);
        CKCI_K_UNROLL(2)
        for (int piece = 0; piece < unit::PIECES; piece++) {
            run_sums own;
            CKCI_K_UNROLL(8)
            for (int j = 0; j < unit::RUN; j++) {
                own.v[j] = sum.v[unit::sum(piece, j)];
            }
            const bool good = (uint32_t)row < (uint32_t)out.rows[piece];
            if constexpr (FORM != ANY) {
                if (good) {
                    if constexpr (FORM == LINEAR) {
                        const int32_t residual = p.as.region.residual;
                        CKCI_K_UNROLL(8)
                        for (int j = 0; j < unit::RUN && residual == CKCI_RESIDUAL_FACTORS; j++) {
                            own.v[j] *= m.numbers[1][channel % 64 + j];
                        }
                        ckci_k_linear(p.o, own.v, out.shift);
                        if (residual > 0) {
                            const ckci_k_uint2 two = *(
                                const ckci_k_uint2 *)(more + channel % 64 * CKCI_K_HALF +
                                                      (tile * 16 + unit::position(piece)) * CKCI_NEAR_PITCH);
                            const uint32_t words[2] = {two.x, two.y};
                            ckci_k_add_residual(p.o, own.v, T::TYPE, words, p.o.gate);
                        }
                        ckci_k_limit(p.o, own.v); /* shorter than to ask for bounds, row by row */
                    }
                    store<T>(out.to[piece], own);
                }
            } else if (U::ASYNC && good && p.as.region.whole && p.o.form != CKCI_FORM_SINGLE) {
                own = ckci_k_near_line(p, own, out.to[piece], channel);
                store<T>(out.to[piece], own);
            } else if (good) {
                const int32_t i = tile * 16 + unit::position(piece);
                ckci_k_near_finish(p, r.n, r.z, r.y + row, r.x, i, m.position[i], channel, own);
            }
            if constexpr (FORM == PLAIN || U::ASYNC) {
                out.to[piece] += CKCI_K_HALF * ckci_k_near_steps(p.o.t).y;
            }
        }
    }

    template <class T> static CKCI_K_MEMBER void store(unsigned char *to, const run_sums &sum)
    {
        uint32_t v[unit::RUN / 2];
        CKCI_K_UNROLL(4)
        for (int j = 0; j < unit::RUN / 2; j++) {
            v[j] = ckci_k_two(T::TYPE, ckci_k_bits(sum.v[2 * j]), ckci_k_bits(sum.v[2 * j + 1]));
        }
        if constexpr (unit::RUN == 4) {
            const ckci_k_uint2 two = {v[0], v[1]};
            *(ckci_k_uint2 *)to = two;
        } else {
            const ckci_k_uint4 four = {v[0], v[1], v[2], v[3]};
            *(ckci_k_uint4 *)to = four;
        }
    }
};

template <class U, int Q> struct ckci_k_near : ckci_k_near_gather<U, Q, CKCI_K_NEAR_TILES> {
};
template <class U, int Q> struct ckci_k_near_down : ckci_k_near_gather<U, Q, CKCI_K_NEAR_DOWN> {
};
template <class U, int Q> struct ckci_k_near_deep : ckci_k_near_gather<U, Q, CKCI_K_NEAR_DEEP> {
};
