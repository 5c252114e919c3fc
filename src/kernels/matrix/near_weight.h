/*------------------------------------------------------------------------------------------------------------
  >>k-matrix-near-weight
  bwd_weight of small groups: channels of dout are rows, those of the input columns, positions the reduction.
  A wave owns 16 x 16 of them for all taps of a plane of the filter, all along the regions of its block,
  as >>k-matrix-near brings them. A block writes its sums to a part of its own, and a later launch adds the
  parts in order.
*/
#pragma once
#include "kernels/matrix/near.h"

template <class U, int Q> struct ckci_k_near_weight {
    typedef ckci_k_near_lds<U::ASYNC> lds;
    typedef ckci_k_near_unit<U> unit;
    typedef typename U::operand operand;
    enum {
        WAVES = 256 / U::WAVE,
        TASKS = Q / 16 * 4, /* blocks of 16 x 16 weights */
        HALVES = WAVES > TASKS ? WAVES / TASKS : 1,
        EACH = TASKS > WAVES ? TASKS / WAVES : 1,
        ZEROS = lds::BYTES - 128 /* what positions beyond a region read, lest dout's 0 meet an infinity */
    };
    typedef typename U::sums block[CKCI_K_NEAR_TAPS][EACH];

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        const int32_t slice = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_n);
        const int32_t first = ((int32_t)blockIdx.x - slice * p.tiles_n) * 64;
        const int32_t part = ckci_k_divide(slice, p.as.region.by_planes);
        const int32_t plane = slice - part * p.as.region.planes;
        const int32_t task = ckci_k_same((int32_t)threadIdx.x / U::WAVE) * EACH % TASKS;
        /* the first channel of both slices; from there on, this wave's 16 output and 16 input channels */
        const int32_t less_in = p.as.region.less_in, less_out = p.as.region.less_out;
        const int32_t channel = first >> less_out & ~63, channel_in = first >> less_in & ~63;
        const int32_t own = first + task / (Q / 16) * 16;
        const int32_t row = (own >> less_out & ~15) - channel;
        const int32_t column =
            Q == 16 ? (own >> less_in & ~15) - channel_in : row / Q * Q + task % (Q / 16) * 16;
        ckci_k_near_tables(p, p.b, p.a, m);
        int32_t from = part;
        CKCI_K_UNROLL(1)
        for (;;) { /* see ckci_k_matrix_weight_pieces; AMD's loop would take registers of a second block */
            const int32_t left = p.as.region.regions - from, some = p.chain * p.as.region.parts;
            const int32_t end = from + (U::ASYNC && p.chain && some < left ? some : left);
            block sum;
            clear(p, m, sum);
            ckci_k_near_walk<U, 1, 0>(
                p, m, from, end, channel_in, channel, plane, []() {}, [](int32_t, int32_t) {},
                [&](const ckci_k_near_region &r, int32_t, const unsigned char *stage) {
                    if (CKCI_K_BF16(p.a.compute == CKCONV_BF16)) {
                        multiply<ckci_k_bf16>(p, r, m, stage, channel, row, column, sum);
                    } else {
                        multiply<ckci_k_f16>(p, r, m, stage, channel, row, column, sum);
                    }
                });
            finish(ckci_k_late(p), m, channel + row, channel_in + column, U::ASYNC && from != part, sum);
            from = end;
            if (!U::ASYNC || from >= p.as.region.regions) {
                return;
            }
        }
    }

    static CKCI_K_MEMBER void clear(const ckci_gpu_conv &p, lds &m, block &sum)
    {
        CKCI_K_UNROLL(9)
        for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
            CKCI_K_UNROLL(2)
            for (int j = 0; j < EACH; j++) {
                CKCI_K_UNROLL(8)
                for (int e = 0; e < U::SUMS; e++) {
                    sum[t][j].v[e] = 0;
                }
            }
        }
        if (threadIdx.x < 32 * lds::STAGES) {
            const int32_t thread = (int32_t)threadIdx.x;
            unsigned char *stage = m.stage + thread / 32 * lds::BYTES + thread % 32 * 4;
            *(uint32_t *)(stage + ZEROS) = 0;
            /* and dout's places after the last one in use */
            const ckci_gpu_near &q = p.as.region;
            CKCI_K_UNROLL(1)
            for (int32_t i = q.images * q.rows * q.columns; i < q.tiles * 16; i++) {
                *(uint32_t *)(stage + q.bytes + i * CKCI_NEAR_PITCH) = 0;
            }
        }
    }

    template <class T>
    static CKCI_K_MEMBER void multiply(const ckci_gpu_conv &p, const ckci_k_near_region &r, const lds &m,
                                       const unsigned char *stage, int32_t first, int32_t row, int32_t column,
                                       block &sum)
    {
        const ckci_gpu_near &q = p.as.region;
        if (ckci_k_afresh(q.channels) <= first + row) {
            return; /* a slice that has fewer channels */
        }
        const bool whole = r.images == q.images && r.rows == q.rows && r.columns == q.columns;
        CKCI_K_UNROLL(1)
        for (int32_t tile = ckci_k_same((int32_t)threadIdx.x / U::WAVE) * EACH / TASKS; tile < q.tiles;
             tile += HALVES) {
            int32_t at[unit::TURNED], mask[unit::TURNED];
            CKCI_K_UNROLL(16)
            for (int i = 0; i < unit::TURNED; i++) {
                const int32_t position = tile * 16 + unit::turned_second(i);
                const ckci_k_near_spot s = m.position[position];
                const bool good = r.holds(q, position, s);
                at[i] = good ? s.at() + column * CKCI_K_HALF : +ZEROS;
                mask[i] = good ? -1 : 0;
            }
            const operand a = unit::load_turned([&](int i) {
                return stage + q.bytes + (tile * 16 + unit::turned(i)) * CKCI_NEAR_PITCH + row * CKCI_K_HALF;
            });
            if (U::ASYNC && whole && tile * 16 + 16 <= q.images * q.rows * q.columns) {
                products<T, 0>(q, stage, at, mask, a, sum);
            } else {
                products<T, 1>(q, stage, at, mask, a, sum);
            }
        }
    }

    /* 16 positions with all taps. HOLES: some of them are none. */
    template <class T, int HOLES>
    static CKCI_K_MEMBER void products(const ckci_gpu_near &q, const unsigned char *stage,
                                       const int32_t (&at)[unit::TURNED], const int32_t (&mask)[unit::TURNED],
                                       const operand &a, block &sum)
    {
        CKCI_K_UNROLL(9)
        for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
            CKCI_K_UNROLL(2)
            for (int j = 0; j < EACH; j++) {
                const int32_t more = q.tap[t] + 16 * j * CKCI_K_HALF;
                unit::template multiply_turned<T>(sum[t][j], a, unit::load_turned_second([&](int i) {
                                                      return stage + at[i] + (HOLES ? more & mask[i] : more);
                                                  }));
            }
        }
    }

    /* more: to what the part holds */
    static CKCI_K_MEMBER void finish(const ckci_gpu_conv &p, lds &m, int32_t row, int32_t column, bool more,
                                     block &sum)
    {
        const int32_t slice = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_n);
        const int32_t part = ckci_k_divide(slice, p.as.region.by_planes);
        const int32_t plane = slice - part * p.as.region.planes;
        const int wave = (int)threadIdx.x / U::WAVE;
        if constexpr (HALVES == 2) {
            float *shared = (float *)m.stage + (int)threadIdx.x % 128;
            CKCI_K_UNROLL(3)
            for (int first = 0; first < CKCI_K_NEAR_TAPS; first += 3) {
                if (wave >= TASKS) {
                    exchange<0>(shared, first, sum);
                }
                __syncthreads();
                if (wave < TASKS) {
                    exchange<1>(shared, first, sum);
                }
                __syncthreads();
            }
        }
        if (HALVES == 2 && wave >= TASKS) {
            return;
        }
        const int32_t c = (int32_t)p.by_one_c.d, taps = p.as.region.taps, all = p.as.region.planes * taps;
        float *to = (float *)p.o.partial + ((int64_t)part * p.as.region.channels * all + plane * taps) * c;
        CKCI_K_UNROLL(2)
        for (int j = 0; j < EACH; j++) {
            CKCI_K_UNROLL(8)
            for (int e = 0; e < U::SUMS; e += unit::ACROSS) {
                const int32_t y = row + U::row(e), x = column + 16 * j + U::column(e);
                const int32_t group = ckci_k_divide(y, p.by_one_k), from = x - group * c;
                const bool second = unit::ACROSS == 2 && c == 1 && from == -1; /* of two neighbours */
                if (y >= p.as.region.channels || (uint32_t)(second ? 0 : from) >= (uint32_t)c) {
                    continue;
                }
                float *filter = to + (int64_t)y * all * c + (second ? 0 : from);
                float before[2][CKCI_K_NEAR_TAPS] = {};
                CKCI_K_UNROLL(9)
                for (int t = 0; t < CKCI_K_NEAR_TAPS && more; t++) {
                    if (t < taps) {
                        before[0][t] = filter[t * c];
                        before[1][t] = unit::ACROSS == 2 && c > 1 ? filter[t * c + 1] : before[0][t];
                    }
                }
                CKCI_K_UNROLL(9)
                for (int t = 0; t < CKCI_K_NEAR_TAPS; t++) {
                    if (t >= taps) {
                        continue;
                    }
                    const float one = before[0][t] + sum[t][j].v[e],
                                next = before[1][t] + sum[t][j].v[e + unit::ACROSS - 1];
                    if (unit::ACROSS == 2 && c > 1) {
                        const ckci_k_uint2 two = {ckci_k_bits(one), ckci_k_bits(next)};
                        *(ckci_k_uint2 *)(filter + t * c) = two;
                    } else {
                        filter[t * c] = second ? next : one;
                    }
                }
            }
        }
    }

    /* Three taps' sums of the second waves into LDS; from there, added to those of the first. */
    template <int ADD> static CKCI_K_MEMBER void exchange(float *shared, int first, block &sum)
    {
        CKCI_K_UNROLL(3)
        for (int t = 0; t < 3; t++) {
            CKCI_K_UNROLL(8)
            for (int e = 0; e < U::SUMS; e++) {
                float *at = shared + (t * U::SUMS + e) * 128;
                if (ADD) {
                    sum[first + t][0].v[e] += *at;
                } else {
                    *at = sum[first + t][0].v[e];
                }
            }
        }
    }
};
