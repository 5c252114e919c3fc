/*------------------------------------------------------------------------------------------------------------
  >>k-matrix-gather-reduce
  fwd and bwd_data of few positions: tiles are fewer than compute units, and each has many steps. Blocks then
  take parts of them (kernels/matrix/gather.h) and leave f32 sums [part][group][row][column] in the workspace;
  here a thread adds eight columns of a row, part after part, always in that order, and writes them with the
  epilogue. Neighbouring threads have neighbouring columns where these are written together, else rows.
*/
#pragma once
#include "kernels/matrix/gather.h"

struct ckci_k_gather_reduce {
    struct lds {
        alignas(16) float sum[256 * 8];
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_conv &p, lds &m)
    {
        const int32_t e = (int32_t)blockIdx.x * 256 + (int32_t)threadIdx.x, wide = (int32_t)p.by_columns.d;
        int32_t row, eight, group;
        if (p.o_vec) {
            const int32_t all = ckci_k_divide(e, p.by_columns);
            eight = e - all * wide;
            group = ckci_k_divide(all, p.by_tiles_m);
            row = all - group * p.rows;
        } else {
            const int32_t all = ckci_k_divide(e, p.by_tiles_m);
            row = e - all * p.rows;
            group = ckci_k_divide(all, p.by_columns);
            eight = all - group * wide;
        }
        if (group >= p.g) {
            return;
        }
        const int64_t step = (int64_t)p.g * p.rows * wide * 32;
        const unsigned char *from = p.o.partial + (((int64_t)group * p.rows + row) * wide + eight) * 32;
        float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        CKCI_K_UNROLL(4)
        for (int32_t part = 0; part < p.split; part++) {
            float more[8];
            ckci_k_load_line<8>(CKCONV_F32, from, more);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 8; i++) {
                sum[i] += more[i];
            }
            from += step;
        }
        float *own = m.sum + threadIdx.x * 8;
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            own[i] = sum[i];
        }
        ckci_k_axis axis[3];
        ckci_k_find_axes(p.dim, 0, axis);
        const ckci_k_place q = ckci_k_row(axis, row);
        ckci_k_write8(p, own, 8, group, q.n, 8 * eight, p.columns, axis[0].write0 + q.z * p.dim[0].write_step,
                      axis[1].write0 + q.y * p.dim[1].write_step, axis[2].write0 + q.x * p.dim[2].write_step);
    }
};
