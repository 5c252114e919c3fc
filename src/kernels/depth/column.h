/*------------------------------------------------------------------------------------------------------------
  >>k-depth-column
  fwd and bwd_data of 3 x 3, channels last: a walk (>>k-depth-walk) with two rows of inputs in registers,
  stride 1 or (fwd) 2. A thread owns a column of strips of outputs. Two rows at a time leave more loads under
  way than one, and each row of inputs is still read once.
*/
#pragma once
#include "kernels/depth/walk.h"

/* The same with channels last, filters of 3 x 3 in a plane, stride 1, or 2 (fwd only), and V channels in one
   load. A step takes two rows of inputs, which complete two rows of outputs or (STRIDE 2) one; those of the
   next step are on their way from memory into registers meanwhile. */
template <class S, int V, int XO, int STRIDE> struct ckci_k_depth_column {
    typedef typename S::T T;
    typedef ckci_k_vec<S, V> vec;
    typedef ckci_k_depth_lds<T> lds;
    enum { WINDOW = (XO - 1) * STRIDE + 3, ALL = (1 << WINDOW) - 1, SUMS = XO * V, HELD = S::SIZE == 4 };

    /* A row: those positions of it that mask tells. */
    static CKCI_K_MEMBER void load(vec *to, const unsigned char *src, int32_t at, int32_t step, uint32_t mask)
    {
        if (mask == (uint32_t)ALL) { /* most waves */
            CKCI_K_UNROLL(32)
            for (int i = 0; i < WINDOW; i++) {
                to[i].load(src + (uint32_t)(at + i * step));
            }
            return;
        }
        CKCI_K_UNROLL(32)
        for (int i = 0; i < WINDOW; i++) {
            to[i].clear();
            if (mask >> i & 1) {
                to[i].load(src + (uint32_t)(at + i * step));
            }
        }
    }

    /* A row of inputs by row r of the taps, added to sums, or (FIRST) in their place. f or w: the weights. */
    template <bool FIRST>
    static CKCI_K_MEMBER void add(T *c, const T *v, const T *f, const T *w, int32_t channels, int r)
    {
        CKCI_K_UNROLL(8)
        for (int x = 0; x < 3; x++) {
            T one[V];
            if constexpr (!HELD) {
                ckci_k_spread<T, V>(w + (r * 3 + x) * channels, one);
            }
            CKCI_K_UNROLL(32)
            for (int i = 0; i < SUMS; i++) {
                const T before = FIRST && x == 0 ? (T)0 : c[i];
                const T weight = HELD ? f[(r * 3 + x) * V + i % V] : one[i % V];
                c[i] = ckci_k_fma(v[(i / V * STRIDE + x) * V + i % V], weight, before);
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        const int32_t t = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x;
        const int32_t slot = ckci_k_divide(t, p.by_lanes_c), lane = t - slot * p.lanes_c;
        const int32_t part = ckci_k_divide(block, p.by_tiles_c), tile = block - part * p.tiles_c;
        const int32_t channel = (tile * p.lanes_c + lane) * V;
        /* columns: strips, pieces of y, z, n */
        const int32_t own = part * p.lanes_p + slot, line = ckci_k_divide(own, p.by_strips);
        const int32_t image = ckci_k_divide(line, p.by_tiles_x);
        ckci_k_place q;
        q.n = ckci_k_divide(image, p.dim[0].count[0]);
        q.z = image - q.n * p.dim[0].length;
        q.y = (line - image * p.tiles_x) * p.walk;
        q.x = (own - line * p.strips) * XO;
        const bool active = slot < p.lanes_p && channel < p.g && q.n < p.n;
        const int32_t rest = p.dim[1].length - q.y, rows = rest < p.walk ? rest : p.walk;
        const bool back = p.dim[2].gather_back != 0; /* the last tap reads the first input */
        const int32_t x = q.x * STRIDE + (back ? p.dim[2].pad - 2 : -p.dim[2].pad);
        const int32_t top = q.y * STRIDE + (back ? p.dim[1].pad - 2 : -p.dim[1].pad);
        const int32_t low = top < 0 ? 0 : top, high = top + (rows - 1) * STRIDE + 3;
        const int32_t end = high < p.dim[1].read_len ? high : p.dim[1].read_len;
        const uint32_t mask = active ? ckci_k_depth_inside(x, p.dim[2].read_len, WINDOW) : 0;
        const int32_t step = (int32_t)p.a.stride[5] * (int32_t)S::SIZE;
        const int32_t a_row = (int32_t)p.a.stride[4] * (int32_t)S::SIZE;
        int32_t y = top - (STRIDE - 1); /* with stride 2, the first step has one row */
        const ckci_k_place first = {q.n, q.z * p.dim[0].read_step, y, x};
        int32_t at = ckci_k_depth_at<S>(p.a, channel, first);
        vec raw[2][WINDOW];
        CKCI_K_UNROLL(2)
        for (int r = 0; r < 2; r++) {
            load(raw[r], p.a.p, at + r * a_row, step, y + r >= low && y + r < end ? mask : 0);
        }
        const int32_t channels = p.lanes_c * V;
        ckci_k_depth_stage<T, 3>(p, m.w, tile, channels);
        CKCI_K_UNROLL(1)
        for (int32_t i = t; ckci_k_depth_has_numbers(p.o) && i < channels; i += 256) {
            if (tile * channels + i < p.g) {
                ckci_k_depth_numbers(p.o, tile * channels + i, m.w + 9 * channels + 2 * i);
            }
        }
        __syncthreads();
        if (!active) {
            return;
        }
        T f[HELD ? 9 * V : 1], c[2 / STRIDE][SUMS];
        CKCI_K_UNROLL(16)
        for (int k = 0; k < (HELD ? 9 : 0); k++) {
            ckci_k_spread<T, V>(m.w + k * channels + lane * V, f + k * V);
        }
        CKCI_K_UNROLL(64)
        for (int k = 0; k < 2 / STRIDE * SUMS; k++) {
            c[k / SUMS][k % SUMS] = 0;
        }
        int32_t to = ckci_k_depth_at<S>(p.o.t, channel, q);
        CKCI_K_UNROLL(1)
        for (int32_t done = -2 / STRIDE; done < rows; done += 2 / STRIDE) {
            const T *w = m.w + ckci_k_lane_afresh(lane * V); /* registers do not hold them all */
            y += 2;
            at += 2 * a_row;
            CKCI_K_UNROLL(2)
            for (int r = 0; r < 2; r++) {
                T v[WINDOW * V];
                ckci_k_depth_widen<WINDOW>(raw[r], v, p.bf16);
                load(raw[r], p.a.p, at + r * a_row, step, y + r >= low && y + r < end ? mask : 0);
                T *sums = c[STRIDE == 1 ? r : 0], *next = c[STRIDE == 1 ? 1 - r : 0];
                const int tap = STRIDE == 1 || r == 1 ? 2 : 1; /* of the output row that is farthest */
                add<false>(sums, v, f, w, channels, tap);
                if (STRIDE == 2 && r == 0) {
                    continue;
                }
                const int32_t row = done + (STRIDE == 1 ? r : 0);
                if (row >= 0 && row < rows) {
                    const ckci_k_depth_listed<S, V, XO> listed = {w + 9 * channels + lane * V};
                    auto where = [&] {
                        ckci_k_place written = q;
                        written.y += row;
                        return written;
                    };
                    ckci_k_depth_row_write<S, V, XO, false>(
                        p, sums, to, channel, ckci_k_lane_afresh(p.dim[2].length - q.x), where, listed);
                    to += (int32_t)ckci_k_late(p).o.t.stride[4] * (int32_t)S::SIZE;
                }
                add<true>(sums, v, f, w, channels, 0);
                if (STRIDE == 1) {
                    add<false>(next, v, f, w, channels, 1);
                }
            }
        }
    }
};

template <class S, int V, int XO, int STRIDE> struct ckci_k_resident<ckci_k_depth_column<S, V, XO, STRIDE>> {
    enum { BLOCKS = 2 };
};
