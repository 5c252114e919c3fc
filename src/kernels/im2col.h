/*------------------------------------------------------------------------------------------------------------
  >>k-im2col
  Few positions (>>gpu-im2col). im2col: in's numbers that a position of out meets become a row, channels and
  taps in the order of the weights, zeros where taps lie on padding. A thread has 16 bytes of the rows of four
  neighbouring positions, neighbouring threads what follows in a row. col2im: the same rows, of f32, are what
  taps have for din; a thread sums eight neighbouring positions of a channel, tap by tap, neighbouring threads
  neighbouring channels. A channel's taps share lines, and neighbouring positions rows: a block has an image's
  rows of some channels in LDS, where those of four have room there and channels are a row's outermost axis.
*/
#pragma once
#include "kernels/store.h"

template <bool BACK> struct ckci_k_im2col {
    enum { PLACES = CKCI_IM2COL_POSITIONS, RUN = CKCI_COL2IM_POSITIONS };
    struct lds {
        alignas(16) unsigned char rows[BACK ? +CKCI_COL2IM_LDS : 16];
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_im2col &p, lds &m)
    {
        if constexpr (BACK) {
            if (p.channels) {
                sum_near(p, m);
                return;
            }
        }
        const int32_t e = (int32_t)blockIdx.x * 256 + (int32_t)threadIdx.x;
        if (e >= p.count) {
            return;
        }
        if constexpr (BACK) {
            const int32_t item = ckci_k_divide(e, p.by_c), c = e - item * (int32_t)p.by_c.d,
                          n = ckci_k_divide(item, p.by_items);
            const int64_t row = (int64_t)n * p.positions * p.row + c * p.of_row[0];
            sum(p, ckci_k_global(p.rows) + 4 * row, 4 * (int32_t)p.row, n, item - n * (int32_t)p.by_items.d,
                c);
        } else if (ckci_k_size(p.t.dtype) == 2) {
            rows<uint16_t>(p, e);
        } else {
            rows<uint32_t>(p, e);
        }
    }

    /* Where a position of out meets tap 0: places of in along the axes of a row (c: 0), and the number there,
       counted from in's first, modulo 2^32: places on padding may be far. */
    struct place {
        int32_t at[4];
        uint32_t from;
        bool good;
    };

    static CKCI_K_MEMBER place find(const ckci_gpu_im2col &p, int32_t position)
    {
        place q;
        const int32_t y = ckci_k_divide(position, p.by_out[2]), z = ckci_k_divide(y, p.by_out[1]),
                      n = ckci_k_divide(z, p.by_out[0]);
        const int32_t ox = position - y * p.output[2], oy = y - z * p.output[1], oz = z - n * p.output[0];
        q.from = (uint32_t)n * (uint32_t)p.t.stride[1];
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            q.at[i] = oz * p.go[i][0] + oy * p.go[i][1] + ox * p.go[i][2] - p.before[i];
            q.from += (uint32_t)q.at[i] * p.step[i];
        }
        q.good = n < (int32_t)p.t.len[1];
        return q;
    }

    /* W: a number's bits. Loads have no branches, so that all are under way together. */
    template <class W> static CKCI_K_MEMBER void rows(const ckci_gpu_im2col &p, int32_t e)
    {
        enum { PER = 16 / sizeof(W) };
        const int32_t group = ckci_k_divide(e, p.by_pieces),
                      first = (e - group * (int32_t)p.by_pieces.d) * PER;
        const unsigned char *in = ckci_k_global(p.t.p);
        place q[PLACES];
        int32_t tap[4], rest = first;
        W v[PLACES][PER];
        CKCI_K_UNROLL(4)
        for (int i = 0; i < PLACES; i++) {
            q[i] = find(p, group * PLACES + i);
        }
        CKCI_K_UNROLL(3)
        for (int j = 0; j < 3; j++) {
            const int32_t up = ckci_k_divide(rest, p.by_len[j]);
            tap[j] = rest - up * (int32_t)p.by_len[j].d;
            rest = up;
        }
        tap[3] = rest;
        CKCI_K_UNROLL(8)
        for (int h = 0; h < PER; h++) {
            int32_t far[4];
            uint32_t more = 0;
            CKCI_K_UNROLL(4)
            for (int j = 0; j < 4; j++) {
                far[j] = tap[j] * p.apart[j];
                more += (uint32_t)far[j] * p.step[j];
            }
            CKCI_K_UNROLL(4)
            for (int i = 0; i < PLACES; i++) {
                int32_t outside = q[i].good ? 0 : -1; /* negative: a place is below 0, or at its limit */
                CKCI_K_UNROLL(4)
                for (int j = 0; j < 4; j++) {
                    const int32_t to = q[i].at[j] + far[j];
                    outside |= to | (p.limit[j] - 1 - to);
                }
                const bool good = outside >= 0;
                const uint32_t at = good ? (q[i].from + more) * (uint32_t)sizeof(W) : 0;
                const W bits = *(const W *)(in + at);
                v[i][h] = good ? bits : (W)0;
            }
            next(p, tap);
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < PLACES; i++) {
            uint32_t w[4];
            CKCI_K_UNROLL(4)
            for (int j = 0; j < 4; j++) {
                w[j] = PER == 8 ? (uint32_t)v[i][j * PER / 4] | (uint32_t)v[i][(j * PER / 4 + 1) % PER] << 16
                                : (uint32_t)v[i][j % PER];
            }
            if (q[i].good) {
                const ckci_k_uint4 all = {w[0], w[1], w[2], w[3]};
                const int64_t to = (int64_t)(group * PLACES + i) * p.row + first;
                *(ckci_k_uint4 *)(ckci_k_global(p.rows) + to * (int)sizeof(W)) = all;
            }
        }
    }

    /* The next number of a row. */
    static CKCI_K_MEMBER void next(const ckci_gpu_im2col &p, int32_t (&tap)[4])
    {
        bool carry = true;
        CKCI_K_UNROLL(3)
        for (int j = 0; j < 3; j++) {
            tap[j] += carry;
            carry = carry && tap[j] == (int32_t)p.by_len[j].d;
            tap[j] = carry ? 0 : tap[j];
        }
        tap[3] += carry;
    }

    /* The position of out, along axis a, whose tap t is place `at` of din; -1: there is none. */
    static CKCI_K_MEMBER int32_t meets(const ckci_gpu_im2col &p, int a, int32_t at, int32_t t)
    {
        const int32_t far = at + p.pad[a] - t * p.dilation[a], o = ckci_k_divide(far, p.by_stride[a]);
        const int32_t outside = far | (p.output[a] - 1 - o) | -(o * p.stride[a] != far);
        return outside < 0 ? -1 : o;
    }

    /* A block's channels of an image. */
    static CKCI_K_MEMBER void sum_near(const ckci_gpu_im2col &p, lds &m)
    {
        const int32_t n = ckci_k_divide((int32_t)blockIdx.x, p.by_parts);
        const int32_t first = ((int32_t)blockIdx.x - n * (int32_t)p.by_parts.d) * p.channels;
        const int32_t left = (int32_t)p.t.len[2] - first, channels = left < p.channels ? left : p.channels;
        const int32_t pieces = channels * p.of_row[0] / 4, pitch = 4 * p.channels * p.of_row[0];
        const unsigned char *from =
            ckci_k_global(p.rows) + 4 * ((int64_t)n * p.positions * p.row + first * p.of_row[0]);
        /* 32 threads have a row */
        CKCI_K_UNROLL(4)
        for (int32_t r = (int32_t)threadIdx.x / 32; r < p.positions; r += 8) {
            CKCI_K_UNROLL(4)
            for (int32_t i = (int32_t)threadIdx.x % 32; i < pieces; i += 32) {
                *(ckci_k_uint4 *)(m.rows + r * pitch + 16 * i) =
                    *(const ckci_k_uint4 *)(from + 4 * (r * p.row) + 16 * i);
            }
        }
        __syncthreads();
        CKCI_K_UNROLL(1)
        for (int32_t e = (int32_t)threadIdx.x; e < p.channels * (int32_t)p.by_items.d; e += 256) {
            const int32_t item = ckci_k_divide(e, p.by_c), c = e - item * p.channels;
            if (c < channels) {
                sum(p, m.rows + 4 * c * p.of_row[0], pitch, n, item, first + c);
            }
        }
    }

    /* Channel c of run `item` of image n, whose rows begin at `rows`, `pitch` bytes apart. */
    static CKCI_K_MEMBER void sum(const ckci_gpu_im2col &p, const unsigned char *rows, int32_t pitch,
                                  int32_t n, int32_t item, int32_t c)
    {
        const int32_t row = ckci_k_divide(item, p.by_runs), x = (item - row * (int32_t)p.by_runs.d) * RUN;
        const int32_t z = ckci_k_divide(row, p.by_y), y = row - z * p.input[1];
        alignas(16) float d[RUN];
        CKCI_K_UNROLL(8)
        for (int i = 0; i < RUN; i++) {
            d[i] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t tz = 0; tz < p.filter[0]; tz++) {
            const int32_t oz = meets(p, 0, z, tz);
            CKCI_K_UNROLL(1)
            for (int32_t ty = 0; ty < p.filter[1] && oz >= 0; ty++) {
                const int32_t oy = meets(p, 1, y, ty);
                const int64_t line = (oz * p.output[1] + oy) * p.output[2];
                const unsigned char *from = rows + line * pitch + 4 * (tz * p.of_row[1] + ty * p.of_row[2]);
                CKCI_K_UNROLL(1)
                for (int32_t tx = 0; tx < p.filter[2] && oy >= 0; tx++) {
                    float more[RUN];
                    CKCI_K_UNROLL(8)
                    for (int i = 0; i < RUN; i++) {
                        const int32_t ox = meets(p, 2, x + i, tx);
                        const uint32_t at = ox < 0 ? 0 : (uint32_t)(ox * pitch);
                        const float one = *(const float *)(from + at);
                        more[i] = ox < 0 ? 0 : one;
                    }
                    CKCI_K_UNROLL(8)
                    for (int i = 0; i < RUN; i++) {
                        d[i] += more[i];
                    }
                    from += 4 * p.of_row[3];
                }
            }
        }
        const int64_t *s = p.t.stride;
        unsigned char *to = ckci_k_global(p.t.p) +
                            (n * s[1] + c * s[2] + z * s[3] + y * s[4] + x * s[5]) * ckci_k_size(p.t.dtype);
        if (p.vec) {
            ckci_k_store8(p.t.dtype, to, d);
            return;
        }
        CKCI_K_UNROLL(8)
        for (int i = 0; i < RUN; i++) {
            if (x + i < p.input[2]) {
                unsigned char *one = to + i * s[5] * ckci_k_size(p.t.dtype);
                if (p.t.dtype == CKCONV_F32) {
                    *(float *)one = d[i];
                } else {
                    *(uint16_t *)one = (uint16_t)ckci_k_two(p.t.dtype, ckci_k_bits(d[i]), 0);
                }
            }
        }
    }
};
