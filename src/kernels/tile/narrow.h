/*------------------------------------------------------------------------------------------------------------
  >>k-tile-narrow
  fwd and bwd_data in f32 with at most four written channels per group: a thread owns all of them at eight
  positions, since a tile's columns would mostly be empty. What a patch of positions reads lies in LDS, eight
  channels at a time, and serves all taps. For last layers, and for bwd_data of first ones.
*/
#pragma once
#include "kernels/tile/common.h"

/* ---- fwd and bwd_data with at most four columns, where the tensor that is read is walked in steps of one. A
   block owns a patch of positions of one phase, p.part rows of at most 8 * p.lanes; a thread owns eight
   positions of a row, p.lanes apart, and all columns. What the patch reads, with its rim, lies in LDS, eight
   channels at a time, as [quad of channels][position], so that neighbouring threads read neighbouring quads;
   beside it the weights of those channels as [tap][channel][column]. Blocks: phases fastest, so that those
   that read the same patch run together. */
struct ckci_k_narrow {
    enum { PATCH = 1472, FLAT = 64, P = 8 };
    struct lds {
        ckci_k_quad a[2][PATCH];
        ckci_k_quad w[FLAT][8];
    };
    static_assert(sizeof(lds) == CKCI_NARROW_LDS, "what the planner asks a device for");

    /* Where the block's patch begins, and its extent with the rim. */
    struct window {
        int32_t group, n, z, y, x; /* of the first written position */
        int32_t top, left, high, wide, pitch;
    };

    static CKCI_K_MEMBER window find(const ckci_gpu_conv &p, ckci_k_axis axis[3])
    {
        window v;
        int32_t work = (int32_t)blockIdx.x, rest = ckci_k_divide(work, p.by_phases);
        ckci_k_find_axes(p.dim, work - rest * p.phases, axis);
        int32_t up = ckci_k_divide(rest, p.by_tiles_n), line = ckci_k_divide(up, p.by_tiles_m);
        v.x = (rest - up * p.tiles_n) * P * p.lanes;
        v.y = (up - line * p.tiles_m) * p.part;
        int32_t depth = ckci_k_divide(line, p.dim[0].count[0]);
        v.z = line - depth * (int32_t)p.dim[0].count[0].d;
        v.group = depth / p.n;
        v.n = depth - v.group * p.n;
        int32_t span_y = (axis[1].taps - 1) * p.dim[1].read_tap,
                span_x = (axis[2].taps - 1) * p.dim[2].read_tap;
        v.top = v.y + axis[1].read0 + (span_y < 0 ? span_y : 0);
        v.left = v.x + axis[2].read0 + (span_x < 0 ? span_x : 0);
        v.high = p.part + (span_y < 0 ? -span_y : span_y);
        v.wide = P * p.lanes + (span_x < 0 ? -span_x : span_x);
        v.pitch = v.wide + ((p.lanes - v.wide) & 7); /* rows of a wave meet no bank twice */
        return v;
    }

    /* Channels c to c + 7 of the patch at depth z, 32 threads along a row of it. */
    static CKCI_K_MEMBER void load(const ckci_gpu_conv &p, const window &v, const ckci_k_window &wa,
                                   int32_t z, int32_t c, lds &m)
    {
        const int64_t *s = p.a.stride;
        int32_t t = (int32_t)threadIdx.x, q = t & 1;
        CKCI_K_UNROLL(1)
        for (int32_t iy = t / 32; iy < v.high; iy += 4) {
            int32_t y = v.top + iy;
            bool row = (uint32_t)y < (uint32_t)p.dim[1].read_len &&
                       (uint32_t)z < (uint32_t)p.dim[0].read_len && c + 4 * q < p.red;
            int32_t at = 4 * (int32_t)(z * s[3] + y * s[4] + c + 4 * q);
            CKCI_K_UNROLL(1)
            for (int32_t ix = t % 32 / 2; ix < v.wide; ix += 16) {
                int32_t x = v.left + ix;
                bool good = row && (uint32_t)x < (uint32_t)p.dim[2].read_len;
                m.a[q][iy * v.pitch + ix] =
                    ckci_k_window_quad(wa, good ? ckci_k_add(at, 4 * x * (int32_t)s[5], 0) : INT32_MIN);
            }
        }
    }

    static CKCI_K_MEMBER void load_weights(const ckci_gpu_conv &p, const window &v, const ckci_k_axis axis[3],
                                           int32_t tz, int32_t c, lds &m)
    {
        int32_t flat = axis[1].taps * axis[2].taps;
        CKCI_K_UNROLL(1)
        for (int32_t e = (int32_t)threadIdx.x; e < flat * 32; e += 128) {
            int32_t tap = e / 32, column = e % 4, r = e / 4 % 8 + c;
            ckci_k_tap at = {r, tz, tap / axis[2].taps, tap % axis[2].taps};
            float x = 0;
            if (column < p.columns && r < p.red) {
                x = *(const float *)(p.b.p + 4 * (v.group * p.b.stride[0] + column * p.b_column +
                                                  ckci_k_weight_at(p, axis, at)));
            }
            m.w[tap][e / 4 % 8].v[column] = x;
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &conv, lds &m)
    {
        float sum[P][4];
        const ckci_gpu_conv &p = conv;
        ckci_k_axis axis[3];
        window v = find(p, axis);
        if (v.x >= axis[2].count || v.y >= axis[1].count || v.z >= axis[0].count) {
            return; /* a phase with fewer positions than the first one; the whole block */
        }
        int32_t t = (int32_t)threadIdx.x, ty = t / p.lanes, tx = t - ty * p.lanes;
        bool works = ty < p.part;
        ty = works ? ty : 0;
        CKCI_K_UNROLL(32)
        for (int i = 0; i < P * 4; i++) {
            sum[i / 4][i % 4] = 0;
        }
        ckci_k_window wa = ckci_k_pinned_window(p.a.p + 4 * (v.group * p.a.stride[0] + v.n * p.a.stride[1]));
        int32_t step_y = p.dim[1].read_tap, step_x = p.dim[2].read_tap;
        int32_t origin = (ty + (step_y < 0 ? (1 - axis[1].taps) * step_y : 0)) * v.pitch + tx +
                         (step_x < 0 ? (1 - axis[2].taps) * step_x : 0);
        int32_t taps_z = axis[1].taps * axis[2].taps > 0 ? axis[0].taps : 0;
        for (int32_t tz = 0; tz < taps_z; tz++) {
            int32_t z = v.z * p.dim[0].read_step + axis[0].read0 + tz * p.dim[0].read_tap;
            for (int32_t c = 0; c < p.red; c += 8) {
                __syncthreads();
                load(p, v, wa, z, c, m);
                load_weights(p, v, axis, tz, c, m);
                __syncthreads();
                CKCI_K_UNROLL(1)
                for (int32_t fy = 0; fy < axis[1].taps; fy++) {
                    CKCI_K_UNROLL(1)
                    for (int32_t fx = 0; fx < axis[2].taps; fx++) {
                        const ckci_k_quad *a = &m.a[0][origin + fy * step_y * v.pitch + fx * step_x];
                        multiply(a, p.lanes, m.w[fy * axis[2].taps + fx], sum);
                        multiply(a + PATCH, p.lanes, m.w[fy * axis[2].taps + fx] + 4, sum);
                    }
                }
            }
        }
        write(conv, axis, v, works ? v.y + ty : INT32_MAX, v.x + tx, sum);
    }

    /* a: four channels at the first of the positions; w: their weights */
    static CKCI_K_MEMBER void multiply(const ckci_k_quad *a, int32_t lanes, const ckci_k_quad *w,
                                       float (*sum)[4])
    {
        ckci_k_quad b[4] = {w[0], w[1], w[2], w[3]};
        CKCI_K_UNROLL(16)
        for (int i = 0; i < P; i++) {
            ckci_k_quad x = a[i * lanes];
            CKCI_K_UNROLL(16)
            for (int k = 0; k < 4; k++) {
                CKCI_K_UNROLL(16)
                for (int j = 0; j < 4; j++) {
                    sum[i][j] = ckci_k_fma(x.v[k], b[k].v[j], sum[i][j]);
                }
            }
        }
    }

    static CKCI_K_MEMBER void write(const ckci_gpu_conv &conv, const ckci_k_axis axis[3], const window &v,
                                    int32_t y, int32_t x, float (*sum)[4])
    {
        const ckci_gpu_conv &p = ckci_k_late(conv);
        CKCI_K_UNROLL(1)
        for (int i = 0; i < P; i++) {
            CKCI_K_UNROLL(1)
            for (int j = 0; j < p.columns; j++) {
                if (y < axis[1].count && x + i * p.lanes < axis[2].count) {
                    ckci_k_write<float>(p.o, sum[0][0], v.group, v.n, j,
                                        axis[0].write0 + v.z * p.dim[0].write_step,
                                        axis[1].write0 + y * p.dim[1].write_step,
                                        axis[2].write0 + (x + i * p.lanes) * p.dim[2].write_step);
                }
                float first = sum[0][0]; /* a turn: an index known at compile time keeps sum in registers */
                sum[0][0] = sum[0][1];
                sum[0][1] = sum[0][2];
                sum[0][2] = sum[0][3];
                sum[0][3] = first;
            }
            CKCI_K_UNROLL(16)
            for (int h = 0; h + 1 < P; h++) {
                CKCI_K_UNROLL(16)
                for (int j = 0; j < 4; j++) {
                    sum[h][j] = sum[h + 1][j];
                }
            }
        }
    }
};
