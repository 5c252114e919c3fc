/*------------------------------------------------------------------------------------------------------------
  >>k-matrix-gather-reduce
  fwd and bwd_data of few positions: tiles are fewer than compute units, and each has many steps. Blocks then
  take parts of them (kernels/matrix/gather.h) and leave f32 sums [part][group][row][column] in the workspace;
  here they are added, part after part, always in that order, and written with the epilogue. Neighbouring
  threads add neighbouring words of four columns, so that loads of a wave fill lines; through LDS each gets
  eight columns of a row.
*/
#pragma once
#include "kernels/matrix/gather.h"

struct ckci_k_gather_reduce {
    enum { WORDS = 2, BLOCK = 256 * WORDS * 16 }; /* of a thread, bytes of a block */
    struct lds {
        alignas(16) float sum[BLOCK / 4 / 8 * 9];
    };

    /* A word behind every eight: neither stores nor loads of neighbouring lanes meet in the banks. */
    static CKCI_K_MEMBER float *spot(lds &m, int32_t word)
    {
        return m.sum + (word + word / 8) * 4;
    }

    /* Which eight columns of the block's are a thread's: of the next row those of its neighbour, where
       columns are not written together. */
    static CKCI_K_MEMBER int32_t eight_of(const ckci_gpu_conv &p, int32_t thread)
    {
        const int32_t wide = (int32_t)p.by_columns.d;
        if (p.o_vec || wide > 256 || (wide & (wide - 1)) != 0) {
            return thread;
        }
        const int32_t column = thread * wide / 256;
        return (thread - column * (256 / wide)) * wide + column;
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        const int32_t thread = (int32_t)threadIdx.x, own = eight_of(p, thread),
                      e = (int32_t)blockIdx.x * 256 + own, row_all = ckci_k_divide(e, p.by_columns);
        const int32_t column = (e - row_all * (int32_t)p.by_columns.d) * 8,
                      group = ckci_k_divide(row_all, p.by_tiles_m);
        const int64_t step = (int64_t)p.g * p.rows * (int32_t)p.by_columns.d * 32;
        const unsigned char *from = p.o.partial + (int64_t)blockIdx.x * BLOCK;
        int32_t at[WORDS];
        float sum[WORDS][4];
        CKCI_K_UNROLL(2)
        for (int i = 0; i < WORDS; i++) { /* behind the end: the block's first word, for nobody */
            at[i] = (i * 256 + thread) * 16;
            at[i] = (int64_t)blockIdx.x * BLOCK + at[i] < step ? at[i] : 0;
            CKCI_K_UNROLL(4)
            for (int j = 0; j < 4; j++) {
                sum[i][j] = 0;
            }
        }
        CKCI_K_UNROLL(4)
        for (int32_t part = 0; part < p.split; part++) {
            CKCI_K_UNROLL(2)
            for (int i = 0; i < WORDS; i++) {
                float more[4];
                ckci_k_load_line<4>(CKCONV_F32, from + at[i], more);
                CKCI_K_UNROLL(4)
                for (int j = 0; j < 4; j++) {
                    sum[i][j] += more[j];
                }
            }
            from += step;
        }
        CKCI_K_UNROLL(2)
        for (int i = 0; i < WORDS; i++) {
            float *to = spot(m, i * 256 + thread);
            CKCI_K_UNROLL(4)
            for (int j = 0; j < 4; j++) {
                to[j] = sum[i][j];
            }
        }
        __syncthreads();
        if (group >= p.g) {
            return;
        }
        ckci_k_axis axis[3];
        ckci_k_find_axes(p.dim, 0, axis);
        const ckci_k_place q = ckci_k_row(axis, row_all - group * p.rows);
        ckci_k_write8(p, spot(m, WORDS * own), 8, group, q.n, column, p.columns,
                      axis[0].write0 + q.z * p.dim[0].write_step, axis[1].write0 + q.y * p.dim[1].write_step,
                      axis[2].write0 + q.x * p.dim[2].write_step);
    }
};
