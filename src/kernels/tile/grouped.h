/*------------------------------------------------------------------------------------------------------------
  >>k-tile-grouped
  fwd and bwd_data in f32 with few channels per group: groups lie side by side in a block, weights in LDS, and
  a thread owns some positions and a block of columns of one group. Threads take neighbouring groups, so that
  memory is read in lines though each group is narrow. There is no reduction to share: a thread's sums are its
  own.
*/
#pragma once
#include "kernels/tile/common.h"

/* ---- fwd and bwd_data with few channels per group. Neighbouring threads (p.lanes of them) take neighbouring
   groups, or blocks of CB columns of a group, as they lie in memory, the others positions. A thread owns RP
   positions and CB columns: it reads its positions from memory, 16 bytes at a time, the weights from LDS,
   where p.split taps of the block's groups lie at a time as [group][tap][channel][column]. A block takes
   p.part batches of positions one after the other, so that the weights are read once for all of them if they
   fit. */
enum { CKCI_K_GROUPED = 9600 };

template <int CB, int RP> struct ckci_k_grouped {
    struct lds {
        alignas(16) float w[CKCI_K_GROUPED];
        ckci_k_tap_entry table[CKCI_K_TAPS + 1];
    };

    /* Weights of taps from `first` on. */
    static CKCI_K_MEMBER void load(const ckci_gpu_conv &p, const ckci_k_block &b, int32_t first,
                                   int32_t count, int32_t pitch, lds &m)
    {
        int32_t rows = p.split * p.red, all = p.lanes * rows * CB;
        CKCI_K_UNROLL(1)
        for (int32_t e = (int32_t)threadIdx.x; e < all; e += 256) {
            /* the fastest index is that along which the weights are dense */
            int32_t up = p.b_mode == 1 ? e / CB : ckci_k_divide(e, p.by_red);
            int32_t r = e - up * p.red, column = e % CB;
            int32_t tap = ckci_k_divide(up, p.by_one_k), lane = up - tap * p.split;
            if (p.b_mode == 1) {
                tap = ckci_k_divide(up, p.by_red);
                r = up - tap * p.red;
                lane = ckci_k_divide(tap, p.by_one_k);
                tap -= lane * p.split;
            } else {
                int32_t line = tap;
                tap = lane;
                column = line % CB;
                lane = line / CB;
            }
            int32_t group = ckci_k_divide(b.column + lane, p.by_channels);
            int32_t c = (b.column + lane - group * (int32_t)p.by_channels.d) * CB + column;
            float x = 0;
            if (group < p.g && c < p.columns && first + tap < count) {
                x = *(const float *)(p.b.p + 4 * (group * p.b.stride[0] + c * p.b_column + r * p.b_red) +
                                     m.table[first + tap].b);
            }
            m.w[lane * pitch + (tap * p.red + r) * CB + column] = x;
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        int32_t t = (int32_t)threadIdx.x, wide = 256 / p.lanes, lane = t & (p.lanes - 1);
        ckci_k_block b = ckci_k_find_block(p, RP * wide * p.part, p.lanes);
        int64_t rows = (int64_t)p.n * b.axis[0].count * b.axis[1].count * b.axis[2].count;
        if (b.row >= rows) {
            return; /* a phase with fewer positions than the first one; the whole block */
        }
        int32_t taps = b.axis[0].taps * b.axis[1].taps * b.axis[2].taps;
        ckci_k_fill_taps(p, b.axis, 0, taps, m.table, 256);
        int32_t pitch = p.split * p.red * CB;
        pitch += pitch % 32 == 0 ? 4 : 20; /* eight neighbouring groups lie in different banks */
        int32_t group = ckci_k_divide(b.column + lane, p.by_channels);
        int32_t column = (b.column + lane - group * (int32_t)p.by_channels.d) * CB;
        bool inside = group < p.g;
        group = inside ? group : 0;
        int32_t start = ckci_k_row(b.axis, b.row).n;
        ckci_k_window wa = ckci_k_pinned_window(p.a.p + 4 * start * p.a.stride[1]);
        ckci_k_hold(b.axis);
        for (int32_t batch = 0; batch < p.part && b.row + batch * RP * wide < rows; batch++) {
            int32_t row0 = b.row + batch * RP * wide + t / p.lanes, at[RP];
            uint32_t mask[RP];
            float sum[RP][CB];
            const ckci_gpu_conv &u = ckci_k_late_again(p);
            const int32_t count = ckci_k_afresh(taps);
            const int64_t *s = u.a.stride;
            CKCI_K_UNROLL(16)
            for (int i = 0; i < RP; i++) {
                ckci_k_place q = ckci_k_first_tap(u, b.axis, row0 + i * wide);
                at[i] =
                    4 * (int32_t)(group * s[0] + (q.n - start) * s[1] + q.z * s[3] + q.y * s[4] + q.x * s[5]);
                mask[i] = ckci_k_pad_mask(u, b.axis, q, 0);
                CKCI_K_UNROLL(16)
                for (int j = 0; j < CB; j++) {
                    sum[i][j] = 0;
                }
            }
            for (int32_t first = 0; first < count; first += p.split) {
                if (batch == 0 || count > p.split || !p.o_vec) {
                    __syncthreads();
                    load(ckci_k_late_again(p), b, first, count, pitch, m);
                    __syncthreads();
                }
                int32_t past = first + p.split < count ? first + p.split : count;
                const float *w = m.w + lane * pitch;
                CKCI_K_UNROLL(1)
                for (int32_t tap = first; tap < past; tap++) {
                    ckci_k_tap_entry e = m.table[tap];
                    int32_t from[RP];
                    CKCI_K_UNROLL(16)
                    for (int i = 0; i < RP; i++) {
                        from[i] = mask[i] & e.need ? INT32_MIN : ckci_k_add(at[i], e.a, 0);
                    }
                    CKCI_K_UNROLL(1)
                    for (int32_t c = 0; c < u.red; c += 4, w += 4 * CB) {
                        multiply(wa, from, c, w, sum);
                    }
                }
            }
            write(p, b, row0, wide, inside, group, column, sum, m);
        }
    }

    static CKCI_K_MEMBER void multiply(const ckci_k_window &wa, const int32_t *from, int32_t c,
                                       const float *w, float (*sum)[CB])
    {
        ckci_k_quad a[RP];
        CKCI_K_UNROLL(16)
        for (int i = 0; i < RP; i++) {
            a[i] = ckci_k_window_quad(wa, from[i] + 4 * c);
        }
        CKCI_K_UNROLL(4)
        for (int k = 0; k < 4; k++) {
            CKCI_K_UNROLL(16)
            for (int j = 0; j < CB; j += 4) {
                ckci_k_quad b = *(const ckci_k_quad *)(w + k * CB + j);
                CKCI_K_UNROLL(16)
                for (int i = 0; i < RP; i++) {
                    CKCI_K_UNROLL(4)
                    for (int h = 0; h < 4; h++) {
                        sum[i][j + h] = ckci_k_fma(a[i].v[k], b.v[h], sum[i][j + h]);
                    }
                }
            }
        }
    }

    static CKCI_K_MEMBER void write(const ckci_gpu_conv &conv, const ckci_k_block &b, int32_t row0,
                                    int32_t wide, bool inside, int32_t group, int32_t column,
                                    float (*sum)[CB], lds &m)
    {
        const ckci_gpu_conv &p = ckci_k_late(conv);
        const int64_t *s = p.o.t.stride;
        int t = (int)threadIdx.x;
        if (!p.o_vec) {
            __syncthreads(); /* the weights make room */
        }
        CKCI_K_UNROLL(1)
        for (int i = 0; i < RP; i++) {
            ckci_k_place q = ckci_k_row(b.axis, row0 + i * wide);
            q.z = b.axis[0].write0 + q.z * p.dim[0].write_step;
            q.y = b.axis[1].write0 + q.y * p.dim[1].write_step;
            q.x = b.axis[2].write0 + q.x * p.dim[2].write_step;
            bool row = inside && q.n < p.n;
            if (p.o_vec) {
                unsigned char *out =
                    p.o.t.p + 4 * (group * s[0] + q.n * s[1] + column + q.z * s[3] + q.y * s[4] + q.x * s[5]);
                CKCI_K_UNROLL(16)
                for (int j = 0; j < CB; j += 4) {
                    ckci_k_quad v = {{sum[0][j], sum[0][j + 1], sum[0][j + 2], sum[0][j + 3]}};
                    if (row && column + j < p.columns) {
                        *(ckci_k_quad *)(out + 4 * j) = v;
                    }
                }
            } else {
                CKCI_K_UNROLL(16)
                for (int j = 0; j < CB; j++) {
                    m.w[j * 256 + t] = sum[0][j];
                }
                CKCI_K_UNROLL(1)
                for (int j = 0; j < CB; j++) {
                    if (row && column + j < p.columns) {
                        ckci_k_write<float>(p.o, m.w[j * 256 + t], group, q.n, column + j, q.z, q.y, q.x);
                    }
                }
            }
            CKCI_K_UNROLL(16)
            for (int j = 0; j < CB; j++) {
                CKCI_K_UNROLL(16)
                for (int h = 0; h + 1 < RP; h++) {
                    sum[h][j] = sum[h + 1][j]; /* an index known at compile time keeps sum in registers */
                }
            }
        }
    }
};
