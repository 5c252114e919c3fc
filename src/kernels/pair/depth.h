/*------------------------------------------------------------------------------------------------------------
  >>k-pair-depth
  A depthwise first convolution of a pair: regions of the result, one after the other. The window of inputs of
  a region lies in LDS, mid is computed from it by multiply-adds and lies there as the operand of the second
  convolution (>>k-pair-product). A block owns its regions in all channels of the result, or in a slice of
  them; mid that two regions need is computed twice.
*/
#pragma once
#include "kernels/pair/point.h"

/* Where a region of the result begins. */
struct ckci_k_pair_region {
    int32_t n, z, y, x;
};

/* What threads need of a region: where its window and its rows begin, and which of them exist. */
struct alignas(16) ckci_k_pair_entry {
    uint64_t in; /* its address */
    int64_t out; /* bytes */
    uint32_t low, high, rows_high, unused;
};

/* Weights of taps of the channels from channel0 on: [tap][channel], `held` channels, where in each SPAN first
   come fours of channels that threads begin with, then the others; missing channels are zeros. Weight e:
   where it lies in memory (-1: it is zero), and *to in LDS. */
template <int SPAN, int V>
CKCI_K_FN int64_t ckci_k_pair_find_weight(const ckci_gpu_pair &a, int32_t held, int32_t channel0, int32_t e,
                                          int32_t *to)
{
    const ckci_gpu_conv &p = a.first;
    const int64_t *s = p.b.stride;
    const int32_t taps = (int32_t)a.by_taps.d;
    const int32_t c = ckci_k_divide(e, a.by_taps), tap = e - c * taps, channel = channel0 + c;
    const int32_t line = ckci_k_divide(tap, a.by_row), x = tap - line * (int32_t)a.by_row.d;
    const int32_t z = ckci_k_divide(line, p.dim[1].taps[0]), y = line - z * p.dim[1].filter;
    *to = tap * held + c / SPAN * SPAN + c % V / 4 * (SPAN / V * 4) + c % SPAN / V * 4 + c % 4;
    return channel < p.g ? channel * s[0] + z * s[3] + y * s[4] + x * s[5] : -1;
}

/* Those from e on, of any type. A call on NVIDIA: the code of all types stands once. */
template <int SPAN, int V, int THREADS>
CKCI_K_APART void ckci_k_pair_put_weights(const ckci_gpu_pair &pair, int32_t held, int32_t channel0,
                                          int32_t e, float *w)
{
    const ckci_gpu_pair &a = ckci_k_late_again(pair);
    const int32_t all = (int32_t)a.by_taps.d * held;
    CKCI_K_UNROLL(1)
    for (; e < all; e += THREADS) {
        int32_t slot;
        const int64_t at = ckci_k_pair_find_weight<SPAN, V>(a, held, channel0, e, &slot);
        w[slot] = at < 0 ? 0.f : ckci_k_plain_value<float>(a.first.b, at);
    }
}

/* Scale, shift and operation of N sums of mid: V channels from `channel` on, position after position. */
template <int N, int V> CKCI_K_FN void ckci_k_pair_finish(const ckci_gpu_target &o, int32_t channel, float *v)
{
    if (o.scale) {
        CKCI_K_UNROLL(32)
        for (int i = 0; i < N; i++) {
            v[i] *= ((const float *)o.scale)[channel + i % V];
        }
    }
    if (o.shift) {
        CKCI_K_UNROLL(32)
        for (int i = 0; i < N; i++) {
            v[i] += ((const float *)o.shift)[channel + i % V];
        }
    }
    if (o.t.op.kind == CKCONV_RELU) {
        CKCI_K_UNROLL(32)
        for (int i = 0; i < N; i++) {
            v[i] = v[i] < 0 ? 0.f : v[i];
        }
    } else if (o.t.op.kind != CKCONV_PASS) { /* one copy of that code */
        const ckci_gpu_target &u = ckci_k_late(o);
        CKCI_K_UNROLL(1)
        for (int i = 0; i < N; i++) {
            const float x = ckci_k_element(u.t.op, ckci_k_pick<float, N>(v, i), 0.f);
            CKCI_K_UNROLL(32)
            for (int j = 0; j < N; j++) {
                v[j] = i == j ? x : v[j];
            }
        }
    }
}

/* A depthwise first convolution. A block takes regions of the result, one after the other: so many images,
   lines and columns (in strips of four neighbours), P positions at most. The inputs of a region lie in LDS as
   a window, SPAN channels of it at a time: pixels one after the other, what padding adds as zeros. A thread
   computes V channels of a strip; neighbours share inputs where taps and positions lie one pixel apart. The
   window of the next channels, or of the next region, is on its way meanwhile: copied by the block into a
   second window or, once this one is used up, into the same (NVIDIA), or in registers (AMD, where a block has
   one region). The taps' weights lie in LDS too, in f32; the second weights stay there from region to region
   where two steps are all. What lies where, the planner says: where LDS is short, windows share the place of
   the second weights and of sums on their way out, which costs a barrier and a later start. */
template <class E, class U, int P, int THREADS, int COLUMNS> struct ckci_k_pair_depth_tiles {
    typedef ckci_k_pair_product<E, U, P, THREADS, COLUMNS> product;
    typedef ckci_k_pair_mid<E, U::KB, P> middle;
    enum {
        SLAB = U::KB / 2,
        V = U::ASYNC ? 8 : 4,
        LANES = THREADS * 4 / P, /* threads of a strip */
        SPAN = LANES * V,
        PIXEL = SPAN * CKCI_K_HALF,
        PIECES = SPAN / 8, /* of 16 bytes */
        COPIES = U::ASYNC ? 1 : CKCI_PAIR_COPIES,
        AHEAD = U::ASYNC && THREADS == 256 ? 1 : 4, /* weights of taps that a thread holds */
        BYTES = !U::ASYNC       ? CKCI_PAIR_AMD
                : THREADS > 256 ? CKCI_PAIR_NVIDIA_WIDE
                                : CKCI_PAIR_NVIDIA
    };
    struct lds {
        alignas(1024) unsigned char bytes[BYTES];
    };

    static_assert(sizeof(lds) / sizeof(float) <= 65536, "places of weights have 16 bits");
    ckci_k_uint4 raw[COPIES];
    int32_t from, to;      /* where this thread reads a window and writes mid of its strip, in bytes */
    uint32_t ahead[AHEAD]; /* weights, above them their places in LDS */

    /* ---- Regions */

    static CKCI_K_MEMBER ckci_k_pair_region find(const ckci_gpu_pair &a, int32_t work)
    {
        const ckci_gpu_patch &q = a.second.as.patch;
        const int32_t tile = ckci_k_divide(work, a.second.by_tiles_n), down = ckci_k_divide(tile, q.by_wide),
                      plane = ckci_k_divide(down, q.by_high), group = ckci_k_divide(plane, q.by_planes);
        ckci_k_pair_region r;
        r.x = (tile - down * (int32_t)q.by_wide.d) * q.columns;
        r.y = (down - plane * (int32_t)q.by_high.d) * q.lines;
        r.z = plane - group * (int32_t)q.by_planes.d;
        r.n = group * q.images;
        return r;
    }

    /* Row `row` of a region in the result; false: none of it. */
    static CKCI_K_MEMBER bool place(const ckci_gpu_pair &a, const ckci_k_pair_region &r, int32_t row,
                                    ckci_k_place *out)
    {
        const ckci_gpu_patch &q = a.second.as.patch;
        const ckci_gpu_dim *d = a.second.dim;
        const int32_t line = ckci_k_divide(row >> 2, q.by_strips), image = ckci_k_divide(line, q.by_lines);
        out->n = r.n + image;
        out->z = r.z;
        out->y = r.y + line - image * q.lines;
        out->x = r.x + row - line * q.columns;
        return image < q.images && out->n < a.second.n && out->y < d[1].length && out->x < d[2].length;
    }

    /* ---- Windows */

    /* Of each pixel: where it lies behind the window's first, in bytes, and its coordinates there. */
    static CKCI_K_MEMBER void list_pixels(const ckci_gpu_pair &pair, lds &m)
    {
        const ckci_gpu_pair &a = ckci_k_late_again(pair);
        const ckci_gpu_patch &q = a.second.as.patch;
        const ckci_gpu_conv &p = a.first;
        const int64_t *s = p.a.stride;
        CKCI_K_UNROLL(1)
        for (int32_t i = (int32_t)threadIdx.x; i < q.pixels; i += THREADS) {
            const int32_t line = ckci_k_divide(i, q.by_window), x = i - line * (int32_t)q.by_window.d,
                          plane = ckci_k_divide(line, q.by_rows), y = line - plane * (int32_t)q.by_rows.d,
                          n = ckci_k_divide(plane, q.by_deep), z = plane - n * (int32_t)q.by_deep.d,
                          down = z * p.dim[0].read_tap;
            ckci_k_uint2 v;
            v.x = (uint32_t)(CKCI_K_HALF * (int32_t)(n * s[1] + down * s[3] + y * s[4] + x * s[5]));
            v.y = ckci_k_pair_fields::word(n, z, y, x);
            ((ckci_k_uint2 *)(m.bytes + q.at_pixels))[i] = v;
        }
    }

    /* Of each row of a region likewise, in the result; and what this thread works on. */
    CKCI_K_MEMBER void list_rows(const ckci_gpu_pair &pair, lds &m)
    {
        const ckci_gpu_pair &a = ckci_k_late_again(pair);
        const ckci_gpu_patch &q = a.second.as.patch;
        const int64_t *s = a.second.o.t.stride;
        const int32_t thread = (int32_t)threadIdx.x;
        if (thread < P) {
            const int32_t line = ckci_k_divide(thread >> 2, q.by_strips), n = ckci_k_divide(line, q.by_lines),
                          y = line - n * q.lines, x = thread - line * q.columns;
            ckci_k_uint2 v;
            v.x = (uint32_t)(int32_t)(n * s[1] + y * s[4] + x * s[5]);
            v.y = ckci_k_pair_fields::word(n < q.images ? n : 31, 0, y, x);
            ((ckci_k_uint2 *)(m.bytes + q.at_output))[thread] = v;
        }
        const int32_t lane = thread % LANES, row = thread / LANES * 4;
        const int32_t line = ckci_k_divide(row >> 2, q.by_strips), image = ckci_k_divide(line, q.by_lines);
        const int32_t x = (row - line * q.columns) * q.step, y = (line - image * q.lines) * q.step_y;
        int32_t pixel = (image * (int32_t)(q.by_deep.d * q.by_rows.d) + y) * (int32_t)q.by_window.d + x;
        pixel = image < q.images ? pixel : 0; /* rows that nobody wants */
        from = ckci_k_kept(pixel * PIXEL + lane * V * CKCI_K_HALF);
        to = ckci_k_kept((int32_t)(middle::spot(m.bytes, row, lane * V) - m.bytes));
    }

    /* Of the next regions of this block. */
    static CKCI_K_MEMBER void list_regions(const ckci_gpu_pair &pair, int32_t work, int32_t column0, lds &m)
    {
        const ckci_gpu_pair &a = ckci_k_late_again(pair);
        typedef ckci_k_pair_fields fields;
        const ckci_gpu_patch &q = a.second.as.patch;
        const ckci_gpu_conv &p = a.first, &o = a.second;
        const ckci_gpu_dim *d = o.dim;
        const int64_t *s = p.a.stride;
        const int32_t i = ckci_k_lane_afresh((int32_t)threadIdx.x);
        work += i * (int32_t)gridDim.x;
        if (i > (U::ASYNC ? CKCI_PAIR_LIST : 0)) {
            return;
        }
        ckci_k_pair_entry e = {0, 0, 0, fields::NOTHING, fields::NOTHING, 0};
        if ((uint32_t)work < (uint32_t)q.work) {
            const ckci_k_pair_region r = find(a, work);
            const ckci_k_place first = {r.n, r.z, r.y, r.x};
            const int32_t z0 = (r.z * d[0].read_step - d[0].pad) * p.dim[0].read_step - p.dim[0].pad,
                          y0 = (r.y * d[1].read_step - d[1].pad) * p.dim[1].read_step - p.dim[1].pad,
                          x0 = (r.x * d[2].read_step - d[2].pad) * p.dim[2].read_step - p.dim[2].pad,
                          tap = p.dim[0].read_tap;
            const int32_t low_z = z0 < 0 ? (tap - 1 - z0) / tap : 0,
                          high_z = (p.dim[0].read_len - z0 + tap - 1) / tap;
            e.in = (uint64_t)(uintptr_t)p.a.p +
                   (uint64_t)(CKCI_K_HALF * (r.n * s[1] + z0 * s[3] + y0 * s[4] + x0 * s[5]));
            e.out = ckci_k_pair_to(o.o.t, first, column0) - o.o.t.p;
            e.low = fields::word(0, fields::clip(low_z, 31), fields::clip(-y0, 511), fields::clip(-x0, 511));
            e.high = fields::bound(p.n - r.n, high_z, p.dim[1].read_len - y0, p.dim[2].read_len - x0);
            e.rows_high = fields::bound(p.n - r.n, 1, d[1].length - r.y, d[2].length - r.x);
        }
        ((ckci_k_pair_entry *)(m.bytes + q.at_regions))[i] = e;
    }

    /* Channels from span * SPAN on of a region's inputs: copied into LDS, or under way in registers. */
    CKCI_K_MEMBER void fetch(const ckci_gpu_pair &pair, int32_t region, int32_t span, lds &m)
    {
        const ckci_gpu_pair &a = ckci_k_late_again(pair);
        typedef ckci_k_pair_fields fields;
        const ckci_gpu_patch &q = a.second.as.patch;
        const ckci_k_pair_entry &e = ((const ckci_k_pair_entry *)(m.bytes + q.at_regions))[region];
        const ckci_k_window in = ckci_k_make_window((const unsigned char *)(uintptr_t)e.in);
        const int32_t piece = (int32_t)threadIdx.x % PIECES, channel = span * SPAN + piece * 8;
        const int32_t start = CKCI_K_HALF * channel;
        const uint32_t low = e.low, high = channel < a.second.red ? e.high : (uint32_t)fields::NOTHING;
        const ckci_k_uint2 *pixels = (const ckci_k_uint2 *)(m.bytes + q.at_pixels);
        const int32_t first = (int32_t)threadIdx.x / PIECES;
        if constexpr (U::ASYNC) {
#if defined(CKCI_K_MMA)
            unsigned char *place = m.bytes + q.at_window[span % 2] + first * PIXEL + piece * 16;
            CKCI_K_UNROLL(2)
            for (int32_t i = first; i < q.pixels; i += THREADS / PIECES) {
                const ckci_k_uint2 v = pixels[i];
                ckci_k_copy(place, in, start + (int32_t)v.x, fields::inside(v.y, low, high) ? 16 : 0);
                place += THREADS / PIECES * PIXEL;
            }
#endif
        } else {
            CKCI_K_UNROLL(8)
            for (int i = 0; i < COPIES; i++) {
                const int32_t pixel = first + i * (THREADS / PIECES);
                const ckci_k_uint2 v = pixels[pixel < q.pixels ? pixel : 0];
                const bool good = pixel < q.pixels && fields::inside(v.y, low, high);
                raw[i] = ckci_k_window_load(in, good ? start + (int32_t)v.x : INT32_MIN);
            }
        }
    }

    CKCI_K_MEMBER void put(const ckci_gpu_pair &pair, lds &m) const
    {
        const ckci_gpu_pair &a = ckci_k_late_again(pair);
        const ckci_gpu_patch &q = a.second.as.patch;
        CKCI_K_UNROLL(8)
        for (int i = 0; i < COPIES; i++) {
            const int32_t at = (int32_t)threadIdx.x + i * THREADS;
            if (at < q.pixels * PIECES) {
                *(ckci_k_uint4 *)(m.bytes + q.at_window[0] + at * 16) = raw[i];
            }
        }
    }

    /* ---- mid */

    static CKCI_K_MEMBER bool plain_weights(const ckci_gpu_pair &a)
    {
        return (int)a.first.b.dtype == (int)E::TYPE && a.first.b.plain;
    }

    /* Weights of all channels, or of SPAN from channel0 on: the first ones of a thread, on their way; the
       rest put_weights loads. */
    CKCI_K_MEMBER void load_weights(const ckci_gpu_pair &pair, int32_t channel0)
    {
        const ckci_gpu_pair &a = ckci_k_late_again(pair);
        const int32_t all = (int32_t)a.by_taps.d * a.second.as.patch.held;
        CKCI_K_UNROLL(4)
        for (int i = 0; i < AHEAD; i++) {
            const int32_t e = (int32_t)threadIdx.x + i * THREADS;
            int32_t slot;
            ahead[i] = 0;
            if (e < all && plain_weights(a)) {
                const int64_t at =
                    ckci_k_pair_find_weight<SPAN, V>(a, a.second.as.patch.held, channel0, e, &slot);
                ahead[i] = (uint32_t)slot << 16 | (at < 0 ? 0 : ((const uint16_t *)a.first.b.p)[at]);
            }
        }
    }

    CKCI_K_MEMBER void put_weights(const ckci_gpu_pair &pair, int32_t channel0, lds &m) const
    {
        const ckci_gpu_pair &a = ckci_k_late_again(pair);
        const ckci_gpu_patch &q = a.second.as.patch;
        const int32_t all = (int32_t)a.by_taps.d * q.held;
        float *w = (float *)(m.bytes + q.at_taps);
        int32_t e = (int32_t)threadIdx.x;
        if (plain_weights(a)) {
            CKCI_K_UNROLL(4)
            for (int i = 0; i < AHEAD; i++) {
                if (e < all) {
                    w[ahead[i] >> 16] = ckci_k_widen(E::TYPE, (uint16_t)ahead[i]);
                }
                e += THREADS;
            }
        }
        if (e < all) {
            ckci_k_pair_put_weights<SPAN, V, THREADS>(a, q.held, channel0, e, w);
        }
    }

    /* GROUP taps of a row for N channels of a strip. */
    template <int GROUP, int N>
    static CKCI_K_MEMBER void add_taps(const unsigned char *at, int32_t step, const float *w, int32_t held,
                                       float *sum)
    {
        enum { BF16 = (int)E::TYPE == (int)CKCONV_BF16 };
        float f[GROUP][N];
        CKCI_K_UNROLL(5)
        for (int j = 0; j < GROUP; j++) {
            CKCI_K_UNROLL(2)
            for (int c = 0; c < N; c += 4) {
                const ckci_k_uint4 v = *(const ckci_k_uint4 *)(w + j * held + c / 4 * (SPAN / V * 4));
                f[j][c] = ckci_k_float(v.x);
                f[j][c + 1] = ckci_k_float(v.y);
                f[j][c + 2] = ckci_k_float(v.z);
                f[j][c + 3] = ckci_k_float(v.w);
            }
        }
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 3 + GROUP; i++) {
            float x[N];
            if constexpr (N == 8) {
                const ckci_k_uint4 v = *(const ckci_k_uint4 *)(at + i * step);
                ckci_k_s_half::widen<BF16>(v.x, x);
                ckci_k_s_half::widen<BF16>(v.y, x + 2);
                ckci_k_s_half::widen<BF16>(v.z, x + 4);
                ckci_k_s_half::widen<BF16>(v.w, x + 6);
            } else {
                const ckci_k_uint2 v = *(const ckci_k_uint2 *)(at + i * step);
                ckci_k_s_half::widen<BF16>(v.x, x);
                ckci_k_s_half::widen<BF16>(v.y, x + 2);
            }
            CKCI_K_UNROLL(5)
            for (int j = 0; j < GROUP; j++) {
                if (i - j >= 0 && i - j < 4) {
                    CKCI_K_UNROLL(8)
                    for (int c = 0; c < N; c++) {
                        float &to = sum[(i - j) * V + c];
                        to = ckci_k_fma(x[c], f[j][c], to);
                    }
                }
            }
        }
    }

    /* The sums of a strip, [position][channel]: the window's pixels one after the other, each for all taps
       that it meets. GROUP 1: positions or taps lie apart. */
    template <int GROUP>
    static CKCI_K_MEMBER void sum_taps(const ckci_gpu_pair &a, const unsigned char *from, const float *w,
                                       float *sum)
    {
        enum {
            WIDE = GROUP == 5 ? 4 : V
        }; /* channels at a time: five taps of more take too many registers */
        const ckci_gpu_patch &q = a.second.as.patch;
        const int32_t step = GROUP == 1 ? q.step * PIXEL : PIXEL, held = q.held;
        CKCI_K_UNROLL(1)
        for (int32_t z = 0; z < a.first.dim[0].filter; z++) {
            const unsigned char *line = from;
            CKCI_K_UNROLL(1)
            for (int32_t y = 0; y < a.first.dim[1].filter; y++) {
                const unsigned char *at = line;
                CKCI_K_UNROLL(1)
                for (int32_t g = 0; g < a.groups; g++) {
                    CKCI_K_UNROLL(2)
                    for (int c0 = 0; c0 < V; c0 += WIDE) {
                        add_taps<GROUP, WIDE>(at + c0 * CKCI_K_HALF, step, w + c0 / 4 * (SPAN / V * 4), held,
                                              sum + c0);
                    }
                    w += GROUP * held;
                    at += q.next_group;
                }
                line += q.next_y;
            }
            from += q.next_z;
        }
    }

    /* SPAN channels of mid, from those of a window. */
    CKCI_K_MEMBER void convolve(const ckci_gpu_pair &pair, int32_t work, int32_t span, lds &m) const
    {
        const ckci_gpu_pair &a = ckci_k_late_again(pair);
        const ckci_gpu_patch &q = a.second.as.patch;
        const int32_t lane = (int32_t)threadIdx.x % LANES, channel = span * SPAN + lane * V;
        const unsigned char *window = m.bytes + q.at_window[U::ASYNC ? span % 2 : 0] + from;
        const float *w = (const float *)(m.bytes + q.at_taps) + (q.held > SPAN ? span * SPAN : 0) + lane * 4;
        float sum[4 * V];
        CKCI_K_UNROLL(32)
        for (int i = 0; i < 4 * V; i++) {
            sum[i] = 0;
        }
        if (q.group == 3) {
            sum_taps<3>(a, window, w, sum);
        } else if (q.group == 5) {
            sum_taps<5>(a, window, w, sum);
        } else {
            sum_taps<1>(a, window, w, sum);
        }
        if (channel >= (a.second.red + SLAB - 1) / SLAB * SLAB) {
            return;
        }
        if (channel < a.second.red) {
            ckci_k_pair_finish<4 * V, V>(a.first.o, channel, sum);
        }
        const int32_t slab = span * (SPAN / SLAB) * (P * U::KB) + to;
        int32_t inside = channel < a.second.red ? 15 : 0;
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 4 && q.padded; i++) {
            const ckci_gpu_pair &u = ckci_k_late_again(pair);
            ckci_k_place out, mid;
            place(u, find(u, work), (int32_t)threadIdx.x / LANES * 4 + i, &out);
            inside &= ckci_k_pair_read(u.second.dim, out, &mid) ? 15 : ~(1 << i);
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            const bool good = (inside >> i & 1) != 0;
            const ckci_k_uint2 low = middle::round(sum + i * V), zero = {0, 0};
            unsigned char *spot = m.bytes + middle::down(slab, i);
            if constexpr (V == 8) {
                const ckci_k_uint2 high = middle::round(sum + i * V + 4);
                const ckci_k_uint4 all = {low.x, low.y, high.x, high.y}, none = {0, 0, 0, 0};
                *(ckci_k_uint4 *)spot = good ? all : none;
            } else {
                *(ckci_k_uint2 *)spot = good ? low : zero;
            }
        }
    }

    /* A copy of a region's mid for a caller who wants it. */
    static CKCI_K_MEMBER void copy_mid(const ckci_gpu_pair &pair, int32_t work, lds &m)
    {
        const ckci_gpu_pair &a = ckci_k_late(pair);
        const int32_t eights = a.second.red / 8, lanes = THREADS / P;
        const int32_t row = (int32_t)threadIdx.x / lanes;
        ckci_k_place out, mid;
        if (!place(a, find(a, work), row, &out) || !ckci_k_pair_read(a.second.dim, out, &mid)) {
            return;
        }
        CKCI_K_UNROLL(1)
        for (int32_t e = (int32_t)threadIdx.x % lanes; e < eights; e += lanes) {
            middle::copy_out(ckci_k_late_again(a), *(const ckci_k_uint4 *)middle::spot(m.bytes, row, e * 8),
                             mid, e * 8);
        }
    }

    /* Are windows fetched before the last products are done; do weights of all taps lie in LDS? */
    static CKCI_K_MEMBER bool prefetches(const ckci_gpu_patch &q)
    {
        return !U::ASYNC || q.overlap < 2;
    }

    static CKCI_K_MEMBER bool whole(const ckci_gpu_patch &q)
    {
        return q.held > SPAN || q.spans == 1;
    }

    /* mid of a region, whose first window is under way. */
    CKCI_K_MEMBER void convolve_all(const ckci_gpu_pair &pair, int32_t work, int32_t region, lds &m)
    {
        CKCI_K_UNROLL(1)
        for (int32_t span = 0; span < ckci_k_late_again(pair).second.as.patch.spans; span++) {
            const ckci_gpu_patch &q = ckci_k_late_again(pair).second.as.patch;
            const bool more = span + 1 < q.spans;
            if constexpr (U::ASYNC) {
                if (more && !q.single) {
                    fetch(pair, region, span + 1, m);
                }
                ckci_k_copies_end();
                ckci_k_copies_wait<1>();
            } else {
                put(pair, m);
            }
            __syncthreads();
            if (!U::ASYNC && more) {
                fetch(pair, region, span + 1, m);
            }
            const int32_t channel = more ? (span + 1) * SPAN : 0;
            if (!whole(q)) {
                load_weights(pair, channel);
            }
            convolve(pair, work, span, m);
            ckci_k_proxy_fence();
            __syncthreads();
            const ckci_gpu_patch &u = ckci_k_late_again(pair).second.as.patch;
            if (U::ASYNC && more && u.single) {
                fetch(pair, region, span + 1, m);
                ckci_k_copies_end();
            }
            if (!whole(u)) {
                put_weights(pair, channel, m);
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_pair &pair, lds &m)
    {
        ckci_k_pair_depth_tiles f;
        product g;
        int32_t work = (int32_t)blockIdx.x, column0;
        {
            const ckci_gpu_conv &p = pair.second;
            const ckci_gpu_patch &q = p.as.patch;
            column0 = (work - ckci_k_divide(work, p.by_tiles_n) * p.tiles_n) * p.part;
            const int32_t count = p.columns - column0;
            g.begin(p, column0, count < p.part ? count : p.part);
            f.load_weights(pair, 0);
            list_pixels(pair, m);
            list_regions(pair, work, column0, m);
            f.list_rows(pair, m);
            __syncthreads();
            if (prefetches(q)) {
                f.fetch(pair, 0, 0, m);
                ckci_k_copies_end();
            }
            if (q.overlap == 0) {
                g.fetch_first(m.bytes + q.at_tiles);
            }
            f.put_weights(pair, 0, m);
        }
        int32_t region = 0;
        do { /* AMD: once, as constants of all epilogues would lie in scalar registers all along */
            if (U::ASYNC && region == CKCI_PAIR_LIST) {
                __syncthreads();
                list_regions(pair, work, column0, m);
                region = 0;
                __syncthreads();
            } else if (U::ASYNC && ckci_k_late_again(pair).second.as.patch.overlap != 0) {
                __syncthreads(); /* the last products are done with what windows share */
            }
            if (!prefetches(ckci_k_late_again(pair).second.as.patch)) {
                f.fetch(pair, region, 0, m);
                ckci_k_copies_end();
            }
            f.convolve_all(pair, work, region, m);
            const ckci_gpu_pair &a = ckci_k_late_again(pair);
            const ckci_gpu_conv &p = a.second;
            const ckci_gpu_patch &q = p.as.patch;
            if (a.write_mid && column0 == 0) {
                copy_mid(pair, work, m);
            }
            if (q.overlap != 0) {
                g.fetch_first(m.bytes + q.at_tiles);
            }
            const auto position = [&](int32_t row) {
                const ckci_gpu_pair &u = ckci_k_late(pair);
                ckci_k_place out;
                place(u, find(u, work), row, &out);
                return out;
            };
            const ckci_k_pair_entry &e = ((const ckci_k_pair_entry *)(m.bytes + q.at_regions))[region];
            g.run(m.bytes, m.bytes + q.at_tiles, (float *)(m.bytes + q.at_room), q.overlap == 0,
                  ckci_k_pair_out<E, decltype(position)>(p, (const ckci_k_uint2 *)(m.bytes + q.at_output),
                                                         p.o.t.p + e.out, e.rows_high, column0, position),
                  [&]() {
                      const ckci_gpu_patch &u = ckci_k_late_again(pair).second.as.patch;
                      g.there = u.resident != 0;
                      if (u.overlap == 0) {
                          g.fetch_first(m.bytes + u.at_tiles, 1);
                      }
                      if (U::ASYNC && prefetches(u)) {
                          f.fetch(pair, region + 1, 0, m);
                          ckci_k_copies_end();
                      }
                  });
            work += (int32_t)gridDim.x;
            region++;
        } while (U::ASYNC && work < ckci_k_late_again(pair).second.as.patch.work);
    }
};
