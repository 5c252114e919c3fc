/*------------------------------------------------------------------------------------------------------------
  >>k-matrix-pack
  Weights and tensors in the order and type in which the matrix kernels read them: launches of their own,
  before. What is merged, padded, converted or split into two bf16 terms becomes so here, which leaves the
  kernels one form of each operand. A thread owns two neighbouring weights, a block 2048 values of a tensor;
  what is read has its operation applied.
*/
#pragma once
#include "kernels/map.h"
#include "kernels/epilogue.h"
#include "kernels/chunks.h"

/* The bits of v as f32, f16, bf16 or i8. As a sum of two bf16 numbers (bf16x3) it is written three times:
   high, and then, number `low`, the rest, and high again. One operand has low = 1, the other one 2: that
   leaves out the product of both rests. The second high meets the other one's rest; it is 0 where it is not
   finite, so that infinity * 0 and infinity - infinity do not come about. */
CKCI_K_FN uint32_t ckci_k_term(int32_t type, float v, int32_t term, int32_t low)
{
    uint32_t high = CKCI_HAS_F32 && type == CKCONV_F32 ? ckci_k_bits(v)
                    : CKCI_HAS_I8 && type == CKCONV_I8 ? (uint32_t)ckci_k_int(v, -128.f, 127.f) & 0xffu
                    : CKCI_K_BF16(type != CKCONV_F16)  ? ckci_k_float_bf16(v)
                                                       : ckci_k_float_half(v);
    if (!CKCI_HAS_BF16 || term == 0) {
        return high;
    }
    float rest = v - ckci_k_float(high << 16);
    return rest - rest != 0 ? 0 : term == low ? ckci_k_float_bf16(rest) : high;
}

/* ---- Weights for the gather kernels. */
struct ckci_k_pack {
    struct lds {
        int32_t unused;
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_pack &p, lds &)
    {
        int32_t e = (int32_t)blockIdx.x * 256 + (int32_t)threadIdx.x;
        if (e >= p.count) {
            return;
        }
        int32_t tap_row = ckci_k_divide(e, p.by_red), red = (e - tap_row * (p.red / 2)) * 2;
        int32_t row = ckci_k_divide(tap_row, p.by_taps), tap = tap_row - row * (int32_t)p.by_taps.d;
        int32_t group = ckci_k_divide(row, p.by_columns), column = row - group * p.columns;
        int32_t one = ckci_k_divide(column, p.by_one_column), rest = ckci_k_divide(tap, p.by_x);
        int32_t z = ckci_k_divide(rest, p.by_y);
        column -= one * (int32_t)p.by_one_column.d;
        int64_t base = (group * p.merge + one) * p.w.stride[0] + column * p.column + z * p.w.stride[3] +
                       (rest - z * p.taps[1]) * p.w.stride[4] + (tap - rest * p.taps[2]) * p.w.stride[5];
        uint32_t h[2];
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 2; i++) {
            int32_t term = ckci_k_divide(red + i, p.by_term), r = red + i - term * (int32_t)p.by_term.d;
            int32_t other = ckci_k_divide(r, p.by_one_red), place = r - other * (int32_t)p.by_one_red.d;
            int64_t at = base + place * p.step;
            bool good = other == one;
            if (p.pairs) {
                int32_t c = r % 4, x = 2 * (tap - rest * p.taps[2]) + r / 4 - p.shift;
                good = c < (int32_t)p.by_one_red.d && x >= 0 && x < p.filter_x;
                at = base + (x - (tap - rest * p.taps[2])) * p.w.stride[5] + c * p.step;
            }
            if (CKCI_HAS_F64 && p.type == CKCONV_F64) {
                ((double *)p.dst)[2 * e + i] = good ? ckci_k_value<double>(p.w, at) : 0.;
                continue;
            }
            float v = good ? ckci_k_value<float>(p.w, at) : 0.f;
            h[i] = ckci_k_term(p.type, v, term, p.low);
        }
        if (CKCI_HAS_F64 && p.type == CKCONV_F64) {
            return;
        }
        if (CKCI_HAS_I8 && p.type == CKCONV_I8) {
            ((uint16_t *)p.dst)[e] = (uint16_t)(h[0] | h[1] << 8);
        } else if (CKCI_HAS_F32 && p.type == CKCONV_F32) {
            const ckci_k_uint2 two = {h[0], h[1]};
            ((ckci_k_uint2 *)p.dst)[e] = two;
        } else {
            ((uint32_t *)p.dst)[e] = h[0] | h[1] << 16;
        }
    }
};

/* ---- Tensors for the matrix kernels, where those cannot read them as they are: converted, in the order
   [n][z][y][x][g][channels], with zeros after the last channel. A block owns 2048 values, of 8, 16 or 32
   channels of a group; they pass through LDS, so that reads run along the tensor's own fastest dimension. */
struct ckci_k_pack_data {
    struct lds {
        alignas(16) float v[CKCI_PACK_ROOM / 2]; /* rows of channels, one apart */
    };

    /* Positions that follow each other, of two bytes a channel: as many 16 bytes as they are, and eight
       channels a thread from there. */
    static CKCI_K_MEMBER void run_rows(const ckci_gpu_pack_data &p, lds &m)
    {
        uint16_t *half = (uint16_t *)m.v;
        const int32_t row0 = (int32_t)blockIdx.x * p.rows, left = p.positions - row0;
        const int32_t rows = left < p.rows ? left : p.rows, all = rows * p.channels, eights = p.padded / 8;
        const unsigned char *from = p.t.p + CKCI_K_HALF * (int64_t)row0 * p.channels;
        CKCI_K_UNROLL(2)
        for (int32_t i = (int32_t)threadIdx.x; i < all / 8; i += 256) {
            ((ckci_k_uint4 *)m.v)[i] = ((const ckci_k_uint4 *)from)[i];
        }
        if ((int32_t)threadIdx.x < all % 8) {
            const int32_t i = all / 8 * 8 + (int32_t)threadIdx.x;
            half[i] = ((const uint16_t *)from)[i];
        }
        __syncthreads();
        CKCI_K_UNROLL(1)
        for (int32_t e = (int32_t)threadIdx.x; e < rows * eights; e += 256) {
            const int32_t row = ckci_k_divide(e, p.by_x), c = (e - row * eights) * 8;
            uint32_t two[4];
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                const uint16_t *v = half + row * p.channels + c + 2 * i;
                const uint32_t low = c + 2 * i < p.channels ? v[0] : 0u,
                               high = c + 2 * i + 1 < p.channels ? v[1] : 0u;
                two[i] = low | high << 16;
            }
            const ckci_k_uint4 out = {two[0], two[1], two[2], two[3]};
            *(ckci_k_uint4 *)(p.dst + CKCI_K_HALF * ((int64_t)(row0 + row) * p.pitch + c)) = out;
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_pack_data &p, lds &m)
    {
        if (p.rows > 0) {
            run_rows(p, m);
            return;
        }
        const int wide = 1 << p.log_c, high = 2048 >> p.log_c, t = (int)threadIdx.x;
        int32_t rest = ckci_k_divide((int32_t)blockIdx.x, p.by_tiles_c);
        const int32_t first = ((int32_t)blockIdx.x - rest * p.tiles_c) << p.log_c;
        const int32_t tile = ckci_k_divide(rest, p.by_groups), group = rest - tile * p.groups;
        const int32_t row0 = tile * high;
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 8; i++) {
            int e = t + 256 * i, column = p.along ? e & (wide - 1) : e >> (11 - p.log_c);
            int row = p.along ? e >> p.log_c : e & (high - 1);
            const ckci_k_place q = ckci_k_decode(row0 + row, p.by_z, p.by_y, p.by_x);
            int32_t c = first + column, x = q.x;
            if (p.pairs) {
                x = 2 * x + (c >> 2);
                c = c & 3;
            }
            const int64_t *s = p.t.stride;
            const int64_t from =
                group * s[0] + q.n * s[1] + c * s[2] + q.z * s[3] + q.y * s[4] + (int64_t)x * s[5];
            const bool good = row0 + row < p.positions && c < p.channels && x < p.wide;
            if (CKCI_HAS_F64 && p.type == CKCONV_F64) { /* LDS is for floats: straight to memory */
                if (row0 + row < p.positions && c < p.padded) {
                    const int64_t to = ((int64_t)(row0 + row) * p.groups + group) * p.pitch + c;
                    ((double *)p.dst)[to] = good ? ckci_k_value<double>(p.t, from) : 0.;
                }
                continue;
            }
            m.v[row * (wide + 1) + column] = good ? ckci_k_value<float>(p.t, from) : 0.f;
        }
        if (CKCI_HAS_F64 && p.type == CKCONV_F64) {
            return;
        }
        __syncthreads();
        const int row = t >> (p.log_c - 3), column = (t & ((wide >> 3) - 1)) * 8;
        if (row0 + row < p.positions && first + column < p.padded) {
            const float *v = m.v + row * (wide + 1) + column;
            int64_t at = ((int64_t)(row0 + row) * p.groups + group) * p.pitch + first + column;
            if (CKCI_HAS_F32 && p.type == CKCONV_F32) {
                for (int i = 0; i < 8 && first + column + i < p.padded; i += 4) {
                    const ckci_k_uint4 out = {ckci_k_bits(v[i]), ckci_k_bits(v[i + 1]), ckci_k_bits(v[i + 2]),
                                              ckci_k_bits(v[i + 3])};
                    *(ckci_k_uint4 *)(p.dst + 4 * (at + i)) = out;
                }
                return;
            }
            CKCI_K_UNROLL(1)
            for (int32_t term = 0; term < p.terms; term++) {
                uint32_t two[4];
                CKCI_K_UNROLL(4)
                for (int i = 0; i < 4; i++) {
                    two[i] = ckci_k_term(p.type, v[2 * i], term, p.low) |
                             ckci_k_term(p.type, v[2 * i + 1], term, p.low) << 16;
                }
                if (CKCI_HAS_I8 && p.type == CKCONV_I8) {
                    const ckci_k_uint2 out = {ckci_k_halves<0>(two[0] | two[0] >> 8, two[1] | two[1] >> 8),
                                              ckci_k_halves<0>(two[2] | two[2] >> 8, two[3] | two[3] >> 8)};
                    *(ckci_k_uint2 *)(p.dst + at) = out;
                    return;
                }
                const ckci_k_uint4 out = {two[0], two[1], two[2], two[3]};
                *(ckci_k_uint4 *)(p.dst + 2 * (at + term * p.term_step)) = out;
            }
        }
    }
};
