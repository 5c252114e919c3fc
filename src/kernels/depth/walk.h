/*------------------------------------------------------------------------------------------------------------
  >>k-depth-walk
  fwd and bwd_data, channels first, stride and dilation 1: a thread walks down a column of strips and reads
  each row of inputs once, from memory into registers, for the F rows of outputs that it belongs to. For small
  filters, whose sums and weights fit registers. Nothing waits for other threads on the way. A thread owns its
  column of outputs.
*/
#pragma once
#include "kernels/depth/strips.h"
#include "kernels/depth/window.h"

/* Weights of F x F taps, and of Z such planes, of `channels` channels from those of `tile` on. */
template <class T, int F>
CKCI_K_FN void ckci_k_depth_stage(const ckci_gpu_depth &p, T *to, int32_t tile, int32_t channels)
{
    const int32_t count = p.taps * channels;
    const bool back = p.dim[2].gather_back != 0;
    for (int32_t e = (int32_t)threadIdx.x; e < count; e += 256) {
        int32_t tap = ckci_k_divide(e, p.by_channels), channel = e - tap * channels;
        int32_t row = ckci_k_divide(tap, p.dim[2].taps[0]), x = tap - row * F;
        int32_t z = ckci_k_divide(row, p.dim[1].taps[0]), y = row - z * F, g = tile * channels + channel;
        x = back ? F - 1 - x : x;
        y = back ? F - 1 - y : y;
        int64_t w = g * p.b.stride[0] + z * p.b.stride[3] + y * p.b.stride[4] + x * p.b.stride[5];
        to[e] = g < p.g ? ckci_k_depth_tap<false, T>(p, w) : (T)0;
    }
}

/* F x F taps (F = 3: Z x 3 x 3) with padding that keeps the size, which makes windows begin at a piece. Each
   row of inputs is loaded once and added to the F rows of outputs that it belongs to, which move up a row
   with the first tap. */
template <class S, int XO, int F, bool ASYNC> struct ckci_k_depth_walk_by {
    typedef typename S::T T;
    /* numbers of a window, and those before the first tap */
    enum { WINDOW = XO + 8, BEFORE = 4 - (F - 1) / 2, DEPTH = CKCI_K_DEPTH_AHEAD };
    typedef ckci_k_depth_window<S, 1, WINDOW, true> window;
    typedef ckci_k_depth_ring<window, ASYNC, DEPTH> ring;

    struct lds {
        ckci_k_depth_lds<T> w;
        typename ring::lds rows;
    };

    /* Rows of inputs in the order in which they are multiplied: planes of z, then y. */
    struct cursor {
        int32_t at, row_step, plane_step;
        int32_t step, y, z, z_step, k, planes, rows; /* rows: still to come */
        uint32_t mask;
        int32_t channels;

        CKCI_K_MEMBER void push(const ckci_gpu_depth &p, ring &to)
        {
            bool inside = (uint32_t)y < (uint32_t)p.dim[1].read_len && rows > 0 &&
                          (uint32_t)(z + k * z_step) < (uint32_t)p.dim[0].read_len;
            to.push(p.a.p, at, step, mask, inside, p.a_vec, channels);
            ckci_k_copies_end();
            k++;
            at += plane_step;
            if (k == planes) {
                at += row_step;
                k = 0;
                y++;
                rows--;
            }
        }
    };

    static CKCI_K_MEMBER void weights(T *f, const T *w)
    {
        CKCI_K_UNROLL(64)
        for (int i = 0; i < F * F; i++) { /* one by one: clang 19 would pick them out of scratch memory */
            f[i] = w[ckci_k_lane_afresh(i)];
        }
    }

    /* A row of inputs into all rows of sums; MOVE: the first tap moves them up. f: the weights. */
    template <bool MOVE> static CKCI_K_MEMBER void multiply(T *c, const window &raw, const T *f, int32_t bf16)
    {
        T v[WINDOW];
        raw.widen(v, bf16);
        CKCI_K_UNROLL(8)
        for (int s = 0; s < F; s++) {
            CKCI_K_UNROLL(8)
            for (int x = 0; x < F; x++) {
                CKCI_K_UNROLL(32)
                for (int i = 0; i < XO; i++) {
                    T before = MOVE && x == 0 ? (s + 1 < F ? c[(s + 1) * XO + i] : (T)0) : c[s * XO + i];
                    c[s * XO + i] = ckci_k_fma(v[BEFORE + x + i], f[(F - 1 - s) * F + x], before);
                }
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        int32_t block = (int32_t)blockIdx.x;
        int32_t part = ckci_k_divide(block, p.by_tiles_c), channel = block - part * p.tiles_c;
        int32_t i = part * p.lanes_p + (int32_t)threadIdx.x;
        /* columns: strips, z, whose neighbours read the same rows, pieces of y, n */
        ckci_k_place q;
        int32_t rest = ckci_k_divide(i, p.by_strips), line = ckci_k_divide(rest, p.dim[0].count[0]);
        q.z = rest - line * p.dim[0].length;
        q.x = (i - rest * p.strips) * XO;
        q.n = ckci_k_divide(line, p.by_tiles_x);
        q.y = (line - q.n * p.tiles_x) * p.walk;
        bool active = q.n < p.n;
        int32_t rows = p.dim[1].length - q.y < p.walk ? p.dim[1].length - q.y : p.walk, zs = p.dim[0].filter;
        /* bwd_data: the last tap reads the first input */
        bool back = p.dim[2].gather_back != 0;
        int32_t x = q.x + (back ? p.dim[2].pad - (F - 1) : -p.dim[2].pad);
        int32_t y = q.y + (back ? p.dim[1].pad - (F - 1) : -p.dim[1].pad);
        int32_t z = q.z * p.dim[0].read_step + (back ? p.dim[0].pad : -p.dim[0].pad);
        x -= BEFORE;
        cursor from;
        ckci_k_place first = {q.n, z, y, x};
        from.at = ckci_k_depth_at<S>(p.a, channel, first);
        from.plane_step = p.dim[0].read_tap * (int32_t)p.a.stride[3] * (int32_t)S::SIZE;
        from.row_step = (int32_t)p.a.stride[4] * (int32_t)S::SIZE - zs * from.plane_step;
        from.step = (int32_t)p.a.stride[5] * S::SIZE;
        from.y = y;
        from.z = z;
        from.z_step = p.dim[0].read_tap;
        from.k = 0;
        from.planes = zs;
        from.rows = rows + F - 1;
        from.mask = active ? ckci_k_depth_inside(x, p.dim[2].read_len, WINDOW) : 0;
        from.channels = p.g - channel;
        ring next;
        next.start(m.rows);
        int32_t to = 0;
        int32_t k = 0, r = 0, steps = (rows + F - 1) * zs;
        T c[F * XO], f[F * F];
        CKCI_K_UNROLL(128)
        for (int j = 0; j < F * XO; j++) {
            c[j] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t step = -ring::AHEAD; step < steps; step++) {
            window raw;
            if (step == 0) { /* the weights follow the first rows */
                ckci_k_depth_stage<T, F>(p, m.w.w, channel, 1);
                if (threadIdx.x == 0 && ckci_k_depth_has_numbers(p.o)) {
                    ckci_k_depth_numbers(p.o, channel, m.w.w + p.taps);
                }
                __syncthreads();
                if (!active) {
                    return;
                }
                to = ckci_k_depth_at<S>(p.o.t, channel, q);
                weights(f, m.w.w);
            }
            if (step >= 0) {
                ckci_k_copies_wait<DEPTH - 2>();
                next.pop(raw);
            }
            from.push(p, next);
            if (step < 0) {
                continue;
            }
            if (F == 3 && zs > 1) {
                weights(f, m.w.w + k * F * F);
            }
            if (F != 3 || k == 0) {
                multiply<true>(c, raw, f, p.bf16);
            } else {
                multiply<false>(c, raw, f, p.bf16);
            }
            k++;
            if (k < zs) {
                continue;
            }
            k = 0;
            if (r >= F - 1) {
                const ckci_k_depth_listed<S, 1, XO> listed = {m.w.w + p.taps};
                ckci_k_depth_row_write<S, 1, XO, true>(
                    p, c, to, channel, ckci_k_lane_afresh(p.dim[2].length - q.x), [&] { return q; }, listed);
                to += (int32_t)ckci_k_late(p).o.t.stride[4] * (int32_t)S::SIZE;
                q.y++;
            }
            r++;
        }
    }
};

template <class S, int XO, int F>
struct ckci_k_depth_walk
    : ckci_k_by_vendor<ckci_k_depth_walk_by<S, XO, F, true>, ckci_k_depth_walk_by<S, XO, F, false>> {
};

template <class S, int XO, int F> struct ckci_k_resident<ckci_k_depth_walk<S, XO, F>> {
    enum { BLOCKS = 2 };
};
