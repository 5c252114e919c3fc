/*------------------------------------------------------------------------------------------------------------
  >>k-depth-walk
  fwd and bwd_data, stride and dilation 1: a thread walks down a column of strips and reads each row of inputs
  once, from memory into registers, for the F rows of outputs that it belongs to. For small filters, whose
  sums fit registers; weights lie in LDS or there. Nothing waits for other threads on the way. A thread owns
  its column of outputs.
*/
#pragma once
#include "kernels/depth/strips.h"
#include "kernels/depth/window.h"

/* fwd, bwd_data with stride and dilation 1, channels last with filters of Z x 3 x 3; planes with F x F and
   padding that keeps the size, which makes windows begin at a piece (V is 1 there). A thread walks down a
   column of strips: each row of inputs is loaded once and added to the F rows of outputs that it belongs to.
   Those lie in registers and move up a row with the first tap. The weights lie there too where they are few.
   */
template <class S, int V, int XO, int F, bool PLANES, bool ASYNC> struct ckci_k_depth_walk_by {
    typedef typename S::T T;
    /* numbers of a window, and those before the first tap */
    enum { WINDOW = PLANES ? XO + 8 : XO + F - 1, BEFORE = PLANES ? 4 - (F - 1) / 2 : 0 };
    enum { HELD = PLANES, DEPTH = CKCI_K_DEPTH_AHEAD };
    typedef ckci_k_depth_window<S, V, WINDOW, PLANES> window;
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

    static CKCI_K_MEMBER void weights(T *f, const T *w, int32_t channels)
    {
        CKCI_K_UNROLL(64)
        for (int i = 0; i < F * F; i++) {
            ckci_k_spread<T, V>(w + i * channels, f + i * V);
        }
    }

    /* A row of inputs into all rows of sums; MOVE: the first tap moves them up. f or w: the weights. */
    template <bool MOVE>
    static CKCI_K_MEMBER void multiply(T *c, const window &raw, const T *f, const T *w, int32_t channels,
                                       int32_t bf16)
    {
        T v[WINDOW * V];
        raw.widen(v, bf16);
        CKCI_K_UNROLL(8)
        for (int s = 0; s < F; s++) {
            CKCI_K_UNROLL(8)
            for (int x = 0; x < F; x++) {
                int tap = (F - 1 - s) * F + x;
                T one[V];
                if constexpr (!HELD) {
                    ckci_k_spread<T, V>(w + tap * channels, one);
                }
                CKCI_K_UNROLL(32)
                for (int i = 0; i < XO * V; i++) {
                    T before =
                        MOVE && x == 0 ? (s + 1 < F ? c[(s + 1) * XO * V + i] : (T)0) : c[s * XO * V + i];
                    T weight = HELD ? f[tap * V + i % V] : one[i % V];
                    c[s * XO * V + i] = ckci_k_fma(v[(BEFORE + x) * V + i], weight, before);
                }
            }
        }
    }

    static CKCI_K_MEMBER void stage(const ckci_gpu_depth &p, T *to, int32_t tile)
    {
        int32_t channels = p.lanes_c * V, count = p.taps * channels;
        bool back = p.dim[2].gather_back != 0;
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

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        int32_t t = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x;
        int32_t slot = ckci_k_divide(t, p.by_lanes_c), lane = t - slot * p.lanes_c;
        int32_t part = ckci_k_divide(block, p.by_tiles_c), tile = block - part * p.tiles_c;
        int32_t channel = (tile * p.lanes_c + lane) * V, i = part * p.lanes_p + slot;
        /* columns: z, whose neighbours read the same rows (planes: after strips), strips, pieces of y, n */
        ckci_k_place q;
        int32_t rest = ckci_k_divide(i, PLANES ? p.by_strips : p.dim[0].count[0]);
        int32_t inner = i - rest * (PLANES ? p.strips : p.dim[0].length);
        int32_t line = ckci_k_divide(rest, PLANES ? p.dim[0].count[0] : p.by_strips);
        int32_t outer = rest - line * (PLANES ? p.dim[0].length : p.strips);
        q.z = PLANES ? outer : inner;
        q.x = (PLANES ? inner : outer) * XO;
        q.n = ckci_k_divide(line, p.by_tiles_x);
        q.y = (line - q.n * p.tiles_x) * p.walk;
        bool active = slot < p.lanes_p && channel < p.g && q.n < p.n;
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
        int32_t channels = p.lanes_c * V, k = 0, r = 0, steps = (rows + F - 1) * zs;
        const T *w = m.w.w + lane * V;
        T c[F * XO * V], f[HELD ? F * F * V : 1];
        CKCI_K_UNROLL(128)
        for (int j = 0; j < F * XO * V; j++) {
            c[j] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t step = -ring::AHEAD; step < steps; step++) {
            window raw;
            if (step == 0) { /* the weights follow the first rows */
                stage(p, m.w.w, tile);
                __syncthreads();
                if (!active) {
                    return;
                }
                to = ckci_k_depth_at<S>(p.o.t, channel, q);
                if (HELD) {
                    weights(f, w, channels);
                }
            }
            if (step >= 0) {
                ckci_k_copies_wait<DEPTH - 2>();
                next.pop(raw);
            }
            from.push(p, next);
            if (step < 0) {
                continue;
            }
            if (F == 3 && zs > 1 && HELD) {
                weights(f, w + k * F * F * channels, channels);
            }
            if (F != 3 || k == 0) {
                multiply<true>(c, raw, f, w, channels, p.bf16);
            } else {
                multiply<false>(c, raw, f, w + k * F * F * channels, channels, p.bf16);
            }
            k++;
            if (k < zs) {
                continue;
            }
            k = 0;
            if (r >= F - 1) {
                ckci_k_depth_row_write<S, V, XO, PLANES>(
                    p, c, to, channel, ckci_k_lane_afresh(p.dim[2].length - q.x), [&] { return q; });
                to += (int32_t)ckci_k_late(p).o.t.stride[4] * (int32_t)S::SIZE;
                q.y++;
            }
            r++;
        }
    }
};

template <class S, int V, int XO, int F, bool PLANES>
struct ckci_k_depth_walk : ckci_k_by_vendor<ckci_k_depth_walk_by<S, V, XO, F, PLANES, true>,
                                            ckci_k_depth_walk_by<S, V, XO, F, PLANES, false>> {
};

template <class S, int V, int XO, int F, bool PLANES>
struct ckci_k_resident<ckci_k_depth_walk<S, V, XO, F, PLANES>> {
    enum { BLOCKS = 2 };
};
