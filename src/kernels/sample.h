/*------------------------------------------------------------------------------------------------------------
  >>k-sample
  Layers of one tap with strides, channels first (>>gpu-sample). sample: every stride-th position of planes
  becomes a dense tensor, in the order in which it lay. spread: such a tensor goes to its positions, and all
  others become zero. Numbers are copied bit for bit. A piece is what a thread moves at once: of a row of the
  planes, 4 to 16 bytes in which every other number is wanted (stride 2 along x), up to 16 bytes that are all
  wanted (stride 1), or one number. A thread has four of them under way, neighbouring threads neighbouring
  pieces. sample never touches rows that no stride meets; spread writes them without a load.
*/
#pragma once
#include "kernels/chunks.h"
#include "kernels/depth/common.h"

template <bool SPREAD> struct ckci_k_sample {
    enum { PIECES = CKCI_SAMPLE_BLOCK / 256 };
    struct lds {
        int32_t unused;
    };
    template <int BYTES> using bits = ckci_k_vec<ckci_k_s_half, BYTES / 2>;

    /* Where pieces are read and written. spread: met becomes false of those that no stride meets. */
    static CKCI_K_MEMBER void find(const ckci_gpu_sample &p, int32_t *e, int32_t *from, int32_t *to,
                                   bool *met)
    {
        CKCI_K_UNROLL(1)
        for (int d = 0; d < p.dims; d++) {
            const ckci_divisor len = p.by_len[d], stride = p.by_stride[d];
            const int32_t src = p.src_step[d], dst = p.dst_step[d];
            CKCI_K_UNROLL(4)
            for (int i = 0; i < PIECES; i++) {
                const int32_t up = ckci_k_divide(e[i], len);
                int32_t at = e[i] - up * (int32_t)len.d;
                to[i] += at * dst;
                if (SPREAD && stride.d > 1) {
                    const int32_t q = ckci_k_divide(at, stride);
                    met[i] = met[i] && q * (int32_t)stride.d == at;
                    at = q;
                }
                from[i] += at * src;
                e[i] = up;
            }
        }
    }

    /* All numbers of a piece, every other one (E: bytes of a number), or zeros between them. */
    template <int E, int FROM, int TO> static CKCI_K_MEMBER bits<TO> change(const bits<FROM> &from)
    {
        bits<TO> to;
        to.clear();
        CKCI_K_UNROLL(4)
        for (int i = 0; i < bits<TO>::WORDS && i < bits<FROM>::WORDS; i++) {
            if constexpr (FROM == TO) {
                to.w[i] = from.w[i];
            } else if constexpr (FROM < TO) {
                to.w[TO > 4 ? 2 * i : 0] = E == 4 ? from.w[i] : from.w[i] & 0xffffu;
                if (TO > 4 && E == 2) {
                    to.w[TO > 4 ? 2 * i + 1 : 0] = from.w[i] >> 16;
                }
            } else if constexpr (FROM > 4) {
                to.w[i] = E == 4 ? from.w[2 * i] : ckci_k_halves<0>(from.w[2 * i], from.w[2 * i + 1]);
            } else {
                to.w[i] = from.w[i]; /* of which the low half is stored */
            }
        }
        return to;
    }

    template <int E, int FROM, int TO> static CKCI_K_MEMBER void pieces(const ckci_gpu_sample &p)
    {
        const int32_t first = (int32_t)blockIdx.x * CKCI_SAMPLE_BLOCK + (int32_t)threadIdx.x;
        bits<TO> v[PIECES];
        int32_t e[PIECES];
        int32_t from[PIECES], to[PIECES];
        bool met[PIECES];
        CKCI_K_UNROLL(4)
        for (int i = 0; i < PIECES; i++) {
            e[i] = first + 256 * i;
            from[i] = to[i] = 0;
            met[i] = e[i] < p.count;
        }
        find(p, e, from, to, met);
        CKCI_K_UNROLL(4)
        for (int i = 0; i < PIECES; i++) {
            bits<FROM> raw;
            raw.clear();
            if (met[i]) {
                raw.load(p.src + CKCI_K_HALF * (int64_t)from[i]);
            }
            v[i] = change<E, FROM, TO>(raw);
        }
        /* loads are waited for together: some AMD GPUs count them with stores, which would wait in turns */
        CKCI_K_UNROLL(4)
        for (int i = 0; i < PIECES; i++) {
            v[i].w[0] = (uint32_t)ckci_k_again((int32_t)v[i].w[0]);
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < PIECES; i++) {
            if (first + 256 * i < p.count) {
                v[i].store(p.dst + CKCI_K_HALF * (int64_t)to[i]);
            }
        }
    }

    /* Stride 2 along x: pieces of so many bytes in the planes. */
    template <int E, int BYTES> static CKCI_K_MEMBER void halve(const ckci_gpu_sample &p)
    {
        pieces<E, SPREAD ? BYTES / 2 : BYTES, SPREAD ? BYTES : BYTES / 2>(p);
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_sample &p, lds &)
    {
        if (p.halve == 2) {
            p.piece == 16 ? halve<2, 16>(p) : p.piece == 8 ? halve<2, 8>(p) : halve<2, 4>(p);
        } else if (p.halve == 4) {
            p.piece == 16 ? halve<4, 16>(p) : halve<4, 8>(p);
        } else if (p.piece >= 8) {
            p.piece == 16 ? pieces<2, 16, 16>(p) : pieces<2, 8, 8>(p);
        } else {
            p.piece == 4 ? pieces<2, 4, 4>(p) : pieces<2, 2, 2>(p);
        }
    }
};
