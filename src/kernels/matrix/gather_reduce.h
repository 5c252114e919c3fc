/*------------------------------------------------------------------------------------------------------------
  >>k-matrix-gather-reduce
  fwd and bwd_data of few positions: tiles are fewer than compute units, and each has many steps. Blocks then
  take parts of them (kernels/matrix/gather.h) and leave f32 sums [part][group][row][column] in the workspace;
  here they are added, part after part, always in that order, and written with the epilogue. So are sums of
  one part whose epilogue would take longer in the kernel that computes them (gpu/sums.h). Neighbouring
  threads add neighbouring words of four columns, so that loads of a wave fill lines; through LDS each gets
  eight columns of a row: of the same row as its neighbour, or, where columns are not written together
  (channels first), of the next one, whose positions are.
*/
#pragma once
#include "kernels/matrix/gather.h"

struct ckci_k_gather_reduce {
    enum {
        WORDS = 2,                /* of a thread */
        BLOCK = 256 * WORDS * 16, /* bytes of a block */
        ROWS = CKCI_SUMS_ROWS,
        EIGHTS = CKCI_SUMS_EIGHTS
    };
    static_assert(ROWS * EIGHTS == 256 && EIGHTS * WORDS == 8, "a row in LDS is eight words");
    struct lds {
        alignas(16) float sum[BLOCK / 4 / 8 * 9];
    };

    /* A word behind every eight: neither stores nor loads of neighbouring lanes meet in the banks. */
    static CKCI_K_MEMBER float *spot(lds &m, int32_t word)
    {
        return m.sum + (word + word / 8) * 4;
    }

    /* What a block adds: 256 eights that follow each other, or ROWS rows of EIGHTS. */
    struct place {
        int64_t first;                  /* bytes of a part before its first word */
        int32_t group, row, eight, own; /* of this thread; its eight in LDS */
        bool exists;

        CKCI_K_MEMBER explicit place(const ckci_gpu_conv &p)
        {
            const int32_t thread = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x,
                          wide = (int32_t)p.by_columns.d;
            if (p.o_vec) {
                const int32_t all = block * 256 + thread, row_all = ckci_k_divide(all, p.by_columns);
                first = (int64_t)block * BLOCK;
                group = ckci_k_divide(row_all, p.by_tiles_m);
                row = row_all - group * p.rows;
                eight = all - row_all * wide;
                own = thread;
                exists = group < p.g;
                return;
            }
            const int32_t up = ckci_k_divide(block, p.by_tiles_n);
            group = ckci_k_divide(up, p.by_tiles_m);
            const int32_t row0 = (up - group * p.tiles_m) * ROWS, eight0 = (block - up * p.tiles_n) * EIGHTS;
            first = (((int64_t)group * p.rows + row0) * wide + eight0) * 32;
            row = row0 + thread % ROWS;
            eight = eight0 + thread / ROWS;
            own = thread % ROWS * EIGHTS + thread / ROWS;
            exists = row < p.rows && eight < wide;
        }

        /* Bytes from the block's first word to this thread's i-th; what does not exist is that word. */
        CKCI_K_MEMBER int64_t word(const ckci_gpu_conv &p, int i, int64_t part) const
        {
            const int32_t thread = (int32_t)threadIdx.x, w = i * 256 + thread;
            if (p.o_vec) {
                return first + w * 16 < part ? w * 16 : 0;
            }
            const int32_t wide = (int32_t)p.by_columns.d, row0 = row - thread % ROWS,
                          eight0 = eight - thread / ROWS;
            const bool good = row0 + w / 8 < p.rows && eight0 + w % 8 / WORDS < wide;
            return good ? (int64_t)(w / 8) * wide * 32 + w % 8 * 16 : 0;
        }
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        const int64_t step = (int64_t)p.g * p.rows * (int32_t)p.by_columns.d * 32;
        const place b(p);
        const unsigned char *from = p.o.partial + b.first;
        int64_t at[WORDS];
        float sum[WORDS][4];
        CKCI_K_UNROLL(2)
        for (int i = 0; i < WORDS; i++) {
            at[i] = b.word(p, i, step);
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
            float *to = spot(m, i * 256 + (int32_t)threadIdx.x);
            CKCI_K_UNROLL(4)
            for (int j = 0; j < 4; j++) {
                to[j] = sum[i][j];
            }
        }
        __syncthreads();
        if (!b.exists) {
            return;
        }
        ckci_k_axis axis[3];
        ckci_k_find_axes(p.dim, 0, axis);
        const ckci_k_place q = ckci_k_row(axis, b.row);
        ckci_k_write8<true, true>(p, spot(m, WORDS * b.own), 8, b.group, q.n, b.eight * 8, p.columns,
                                  axis[0].write0 + q.z * p.dim[0].write_step,
                                  axis[1].write0 + q.y * p.dim[1].write_step,
                                  axis[2].write0 + q.x * p.dim[2].write_step);
    }
};
