/*------------------------------------------------------------------------------------------------------------
  >>k-pair-strips
  NVIDIA: a 3 x 3 depthwise first convolution of stride 1, from memory through registers. A thread holds three
  rows of inputs and reads each row once as it walks down a column of tiles; mid goes to LDS, into one of two
  places, where groups of waves multiply it while the next tile is computed. All weights stay in LDS, for
  which a block has a compute unit alone.
*/
#pragma once
#include "kernels/pair/depth.h"

template <class E, class U> struct ckci_k_pair_strips_tiles;
#if defined(CKCI_K_MMA)
/* A strip of a tile, eight neighbours along x of the result: where it goes, and how many positions exist. */
struct alignas(16) ckci_k_pair_strip {
    uint64_t out;
    int32_t positions;
};

/* NVIDIA: a 3 x 3 depthwise first convolution of step 1, from memory through registers. A block takes tiles
   of a line of several strips each, line after line. The second weights and those of the taps lie in LDS all
   along. A thread computes four channels of one strip: of the three rows of inputs that it holds one is new
   in each tile, and on its way since the one before was computed. mid goes to LDS, where groups of four waves
   multiply it with 64 columns each of the second weights; meanwhile threads compute mid of the next tile,
   into a second place. */
template <class E, class U> struct ckci_k_pair_strips_tiles {
    enum { THREADS = 512, V = 4, X = 8, N = X + 2, KB = 128, SLAB = 64, TILE = SLAB * KB };
    typedef ckci_k_pair_group<E, U, 64, 32> product;
    struct lds {
        alignas(1024) unsigned char bytes[CKCI_PAIR_NVIDIA_WIDE];
    };
    struct row {
        ckci_k_uint2 v[N];
    };

    row rows[3];             /* see place_of */
    const unsigned char *in; /* what the first tap of this thread's strip reads in row 0 */
    uint32_t columns;        /* inputs of a row that exist, a bit each */

    /* Which of the three rows is row y of the input; y >= -2. */
    static CKCI_K_MEMBER int32_t place_of(int32_t y)
    {
        return (y + 3) % 3;
    }

    /* This thread's strip of a tile, and its first channel. */
    static CKCI_K_MEMBER int32_t strip_of(const ckci_gpu_strips &q, int32_t thread, int32_t *channel)
    {
        const int32_t strip = ckci_k_divide(thread, q.by_quads);
        *channel = (thread - strip * (int32_t)q.by_quads.d) * V;
        return strip;
    }

    /* Position 0 of strip `strip` of all that follow each other in a line, in line 0. */
    static CKCI_K_MEMBER ckci_k_place place(const ckci_gpu_strips &q, int32_t strip)
    {
        const int32_t plane = ckci_k_divide(strip, q.by_line), n = ckci_k_divide(plane, q.by_planes);
        return {n, plane - n * (int32_t)q.by_planes.d, 0, (strip - plane * (int32_t)q.by_line.d) * X};
    }

    /* The line of a tile, and which strips of all it has. */
    static CKCI_K_MEMBER int32_t line_of(const ckci_gpu_strips &q, int32_t tile, int32_t *group)
    {
        *group = ckci_k_divide(tile, q.by_high);
        return tile - *group * (int32_t)q.by_high.d;
    }

    static CKCI_K_MEMBER ckci_k_pair_strip *strips(const ckci_gpu_strips &q, lds &m, int32_t tile)
    {
        return (ckci_k_pair_strip *)(m.bytes + q.at_strips) + (tile & 1) * q.strips;
    }

    /* A tile's strips, for those that store its results. */
    static CKCI_K_MEMBER void list(const ckci_gpu_pair &pair, int32_t tile, lds &m)
    {
        const ckci_gpu_pair &a = ckci_k_late_again(pair);
        const ckci_gpu_strips &q = a.second.as.strips;
        const int32_t i = (int32_t)threadIdx.x;
        if (i >= q.strips) {
            return;
        }
        int32_t group;
        const int32_t y = line_of(q, tile, &group), strip = group * q.strips + i;
        ckci_k_pair_strip e = {0, 0};
        if (strip < q.all) {
            ckci_k_place o = place(q, strip);
            o.y = y;
            e.out = (uint64_t)(uintptr_t)ckci_k_pair_to(a.second.o.t, o, 0);
            e.positions = a.first.dim[2].length - o.x;
        }
        strips(q, m, tile)[i] = e;
    }

    /* This thread's strip among the group's. */
    CKCI_K_MEMBER void aim(const ckci_gpu_pair &a, int32_t group)
    {
        const ckci_gpu_strips &q = a.second.as.strips;
        const ckci_gpu_conv &p = a.first;
        int32_t channel;
        const int32_t i = strip_of(q, (int32_t)threadIdx.x, &channel), strip = group * q.strips + i;
        columns = 0;
        in = p.a.p;
        if (i < q.strips && strip < q.all && channel < a.second.red) {
            const ckci_k_place o = place(q, strip), from = {o.n, o.z, 0, o.x - p.dim[2].pad};
            const int32_t low = from.x < 0 ? -from.x : 0,
                          high = p.dim[2].read_len - from.x < N ? p.dim[2].read_len - from.x : N;
            in = p.a.p + CKCI_K_HALF * (ckci_k_pair_at(p.a, from) + channel);
            columns = high > low ? (1u << high) - (1u << low) : 0;
        }
    }

    /* Row y of the input, on its way; zeros where there is none. */
    CKCI_K_MEMBER void load(const ckci_gpu_pair &a, int32_t y)
    {
        const ckci_gpu_conv &p = a.first;
        const uint32_t exist = (uint32_t)y < (uint32_t)p.dim[1].read_len ? columns : 0;
        const unsigned char *at = in + CKCI_K_HALF * (y * p.a.stride[4]);
        const int32_t step = CKCI_K_HALF * (int32_t)p.a.stride[5], which = place_of(y);
        if (which == 0) {
            load(at, step, exist, rows[0]);
        } else if (which == 1) {
            load(at, step, exist, rows[1]);
        } else {
            load(at, step, exist, rows[2]);
        }
    }

    static CKCI_K_MEMBER void load(const unsigned char *at, int32_t step, uint32_t exist, row &r)
    {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < N; i++) {
            const ckci_k_uint2 none = {0, 0};
            r.v[i] = none;
            if (exist >> i & 1) {
                r.v[i] = *(const ckci_k_uint2 *)(at + (int64_t)i * step);
            }
        }
    }

    /* What a tile needs and this thread does not hold. first: of this block. */
    CKCI_K_MEMBER void fetch(const ckci_gpu_pair &pair, int32_t tile, bool first)
    {
        const ckci_gpu_pair &a = ckci_k_late_again(pair);
        int32_t group;
        const int32_t y = line_of(a.second.as.strips, tile, &group) - a.first.dim[1].pad;
        const bool all = first || y == -a.first.dim[1].pad;
        if (all) {
            aim(a, group);
        }
        CKCI_K_UNROLL(1)
        for (int32_t r = all ? y : y + 2; r <= y + 2; r++) {
            load(a, r);
        }
    }

    /* A row of taps. */
    static CKCI_K_MEMBER void add(const row &r, const float *w, int32_t held, float (&sum)[X * V])
    {
        enum { BF16 = (int)E::TYPE == (int)CKCONV_BF16 };
        float f[3][V];
        CKCI_K_UNROLL(4)
        for (int j = 0; j < 3; j++) {
            const ckci_k_uint4 v = *(const ckci_k_uint4 *)(w + j * held);
            f[j][0] = ckci_k_float(v.x);
            f[j][1] = ckci_k_float(v.y);
            f[j][2] = ckci_k_float(v.z);
            f[j][3] = ckci_k_float(v.w);
        }
        CKCI_K_UNROLL(16)
        for (int i = 0; i < N; i++) {
            float x[V];
            ckci_k_s_half::widen<BF16>(r.v[i].x, x);
            ckci_k_s_half::widen<BF16>(r.v[i].y, x + 2);
            CKCI_K_UNROLL(4)
            for (int j = 0; j < 3; j++) {
                if (i - j >= 0 && i - j < X) {
                    CKCI_K_UNROLL(4)
                    for (int c = 0; c < V; c++) {
                        sum[(i - j) * V + c] = ckci_k_fma(x[c], f[j][c], sum[(i - j) * V + c]);
                    }
                }
            }
        }
    }

    /* mid of a tile. */
    CKCI_K_MEMBER void convolve(const ckci_gpu_pair &pair, int32_t tile, lds &m)
    {
        const ckci_gpu_pair &a = ckci_k_late_again(pair);
        const ckci_gpu_strips &q = a.second.as.strips;
        int32_t channel, group;
        const int32_t strip = strip_of(q, ckci_k_again((int32_t)threadIdx.x), &channel),
                      held = q.slabs * SLAB;
        if (strip >= q.strips) {
            return;
        }
        /* the row that meets the filter's first one */
        const int32_t first = place_of(line_of(q, tile, &group) - a.first.dim[1].pad);
        const float *w = (const float *)(m.bytes + q.at_taps) + channel;
        float sum[X * V];
        CKCI_K_UNROLL(32)
        for (int i = 0; i < X * V; i++) {
            sum[i] = 0;
        }
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 3; i++) {
            const int32_t tap = i >= first ? i - first : i - first + 3;
            add(rows[i], w + tap * 3 * held, held, sum);
        }
        if (channel < a.second.red) {
            ckci_k_pair_finish<X * V, V>(a.first.o, channel, sum);
        }
        unsigned char *to = m.bytes + q.at_mid +
                            ((tile & 1) * q.slabs + channel / SLAB) * (q.strips * X * KB) + strip * (X * KB) +
                            channel % 8 * CKCI_K_HALF;
        ckci_k_uint2 v[X];
        CKCI_K_UNROLL(8)
        for (int i = 0; i < X; i++) {
            v[i] = ckci_k_pair_mid<E, KB, 64>::round(sum + i * V);
            *(ckci_k_uint2 *)(to + ckci_k_spot<KB>(i, channel % SLAB / 8)) = v[i];
        }
        if (__builtin_expect(a.write_mid, 0)) {
            copy(ckci_k_late(a), tile, channel, v);
        }
    }

    /* mid of a strip's four channels for a caller who wants it. */
    static CKCI_K_MEMBER void copy(const ckci_gpu_pair &a, int32_t tile, int32_t channel,
                                   const ckci_k_uint2 (&v)[X])
    {
        const ckci_gpu_strips &q = a.second.as.strips;
        const ckci_tensor &t = a.first.o.t;
        int32_t group, first;
        const int32_t y = line_of(q, tile, &group),
                      strip = group * q.strips + strip_of(q, (int32_t)threadIdx.x, &first);
        if (strip < q.all && channel < a.second.red) {
            ckci_k_place o = place(q, strip);
            o.y = y;
            unsigned char *at = ckci_k_pair_to(t, o, channel);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < X; i++) {
                if (o.x + i < a.first.dim[2].length) {
                    *(ckci_k_uint2 *)(at + CKCI_K_HALF * i * t.stride[5]) = v[i];
                }
            }
        }
    }

    /* The taps' weights, as f32: all loads of plain ones before the first is waited for. */
    static CKCI_K_MEMBER void fill_taps(const ckci_gpu_pair &a, lds &m)
    {
        const ckci_gpu_strips &q = a.second.as.strips;
        const int32_t held = q.slabs * SLAB, thread = (int32_t)threadIdx.x;
        float *w = (float *)(m.bytes + q.at_taps);
        if (!a.first.b.plain || (int)a.first.b.dtype != (int)E::TYPE) {
            ckci_k_pair_put_weights<V, V, THREADS>(a, held, 0, thread, w);
            return;
        }
        if (thread < held) {
            const int64_t *step = a.first.b.stride;
            const uint16_t *from = (const uint16_t *)a.first.b.p + thread * step[0];
            uint16_t bits[9];
            CKCI_K_UNROLL(9)
            for (int i = 0; i < 9; i++) {
                bits[i] = thread < a.second.red ? from[i / 3 * step[4] + i % 3 * step[5]] : (uint16_t)0;
            }
            CKCI_K_UNROLL(9)
            for (int i = 0; i < 9; i++) {
                w[i * held + thread] = ckci_k_widen(E::TYPE, bits[i]);
            }
        }
    }

    /* The second weights, for good: 64 channels of all columns side by side, zeros where there are none. */
    static CKCI_K_MEMBER void fill(const ckci_gpu_pair &a, lds &m)
    {
        const ckci_gpu_conv &p = a.second;
        const ckci_gpu_strips &q = p.as.strips;
        const ckci_k_window weights = ckci_k_make_window(p.b.p);
        const int32_t count = q.wide * 64, chunk = (int32_t)threadIdx.x % 8, slabs = q.slabs;
        CKCI_K_UNROLL(1)
        for (int32_t slab = 0; slab < slabs; slab++) {
            CKCI_K_UNROLL(4)
            for (int32_t r = (int32_t)threadIdx.x / 8; r < count; r += THREADS / 8) {
                const int32_t channel = slab * SLAB + chunk * 8;
                const bool good = channel < p.red && r < p.columns;
                const int32_t at = good ? r * CKCI_K_HALF * (int32_t)p.b_column + channel * CKCI_K_HALF : 0;
                ckci_k_copy(m.bytes + slab * count * KB + ckci_k_spot<KB>(r, chunk), weights, at,
                            good ? 16 : 0);
            }
        }
        ckci_k_copies_end();
    }

    /* Where this thread's eight columns of a row go. */
    struct out {
        const ckci_k_pair_strip *of_rows; /* strips of this group's rows */
        int64_t step, column;             /* bytes */
        bool exists;

        CKCI_K_MEMBER bool find(uint32_t row, unsigned char **at) const
        {
            const ckci_k_pair_strip e = of_rows[row / X];
            *at = (unsigned char *)(uintptr_t)e.out + ((int64_t)(row % X) * step + column);
            return exists && (int32_t)(row % X) < e.positions;
        }
    };

    /* Eight columns of a position, in LDS, through the epilogue: four at a time, or (curves, factors; D
       tensors that lie otherwise) one by one, as a thread holds three rows of inputs meanwhile. */
    static CKCI_K_MEMBER void write_row(const ckci_gpu_conv &p, float *v, int32_t channel, int32_t n,
                                        int32_t z, int32_t y, int32_t x)
    {
        const ckci_gpu_target &o = p.o;
        const ckci_tensor &t = o.t;
        const bool factors = o.d[0].how == CKCI_EXTRA_MULTIPLY;
        if (!p.o_vec || factors || (o.form != CKCI_FORM_STORE && o.form != CKCI_FORM_LINEAR)) {
            CKCI_K_UNROLL(1)
            for (int i = 0; i < 8 && channel + i < p.columns; i++) {
                ckci_k_write<float, ckci_k_line_ops<float>::OPS>(o, v[i], 0, n, channel + i, z, y, x);
            }
            return;
        }
        const int32_t size = ckci_k_size(t.dtype);
        unsigned char *to =
            t.p + (n * t.stride[1] + channel + z * t.stride[3] + y * t.stride[4] + x * t.stride[5]) * size;
        CKCI_K_UNROLL(1)
        for (int i = 0; i < 8 && o.form != CKCI_FORM_STORE; i += 4) {
            float some[4] = {v[i], v[i + 1], v[i + 2], v[i + 3]};
            ckci_k_epilogue<4, false, false>(o, some, to + i * size, channel + i);
            CKCI_K_UNROLL(4)
            for (int j = 0; j < 4; j++) {
                v[i + j] = some[j];
            }
        }
        ckci_k_store8(t.dtype, to, v);
    }

    /* Item of a tile: 64 rows of it, 64 columns. */
    static CKCI_K_MEMBER void write(const ckci_gpu_pair &pair, product &g, int32_t item, int32_t tile, lds &m)
    {
        const ckci_gpu_pair &a = ckci_k_late_again(pair);
        const ckci_gpu_conv &p = a.second;
        const ckci_gpu_strips &q = p.as.strips;
        unsigned char *room = m.bytes + q.at_room;
        const int32_t part = item >> q.log_wide, eights = ckci_k_again((int32_t)threadIdx.x) % 8 * 8,
                      column0 = (item - (part << q.log_wide)) * 64;
        const out to = {strips(q, m, tile) + (part < q.parts ? part : 0) * (64 / X),
                        p.o.t.stride[5] * CKCI_K_HALF, (int64_t)(column0 + eights) * CKCI_K_HALF,
                        part < q.parts && column0 + eights < p.columns};
        if constexpr (product::STRAIGHT) {
            if (q.packed) {
                g.write16(room, to);
                return;
            }
        }
        g.write((float *)room, [&](int32_t row, int32_t column, float *v) {
            const ckci_gpu_pair &u = ckci_k_late(pair);
            const ckci_gpu_strips &s = u.second.as.strips;
            const int32_t channel = column0 + column;
            if (part < s.parts && channel < u.second.columns && row % X < to.of_rows[row / X].positions) {
                int32_t group;
                const int32_t y = line_of(s, tile, &group);
                const ckci_k_place o = place(s, group * s.strips + part * (64 / X) + row / X);
                write_row(u.second, v, channel, o.n, o.z, y, o.x + row % X);
            }
        });
    }

    static CKCI_K_MEMBER int32_t first_tile(const ckci_gpu_strips &q, int32_t block)
    {
        return block * q.part + (block < q.part_rest ? block : q.part_rest);
    }

    static CKCI_K_MEMBER void multiply(const ckci_gpu_strips &q, product &g, int32_t item, int32_t tile,
                                       lds &m)
    {
        const int32_t part = item >> q.log_wide, apart = q.strips * X * KB;
        const unsigned char *columns = m.bytes + (item - (part << q.log_wide)) * TILE,
                            *positions = m.bytes + q.at_mid + (tile & 1) * q.slabs * apart + part * TILE;
        g.clear();
        CKCI_K_UNROLL(1)
        for (int32_t slab = part < q.parts ? q.slabs : 0; slab > 0; slab--) {
            g.start();
            g.multiply(columns, positions);
            g.commit();
            columns += q.wide * TILE;
            positions += apart;
        }
        g.wait();
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_pair &pair, lds &m)
    {
        ckci_k_pair_strips_tiles f;
        product g;
        const int32_t end = first_tile(pair.second.as.strips, (int32_t)blockIdx.x + 1);
        int32_t tile = first_tile(pair.second.as.strips, (int32_t)blockIdx.x);
        f.fetch(pair, tile, true);
        fill_taps(pair, m);
        fill(pair, m);
        __syncthreads();
        CKCI_K_UNROLL(1)
        for (tile--; tile < end;
             tile++) { /* mid of this tile is in LDS; in the first round there is none yet */
            const ckci_gpu_strips &q = ckci_k_late_again(pair).second.as.strips;
            const bool begun = tile >= first_tile(q, (int32_t)blockIdx.x), more = tile + 1 < end;
            /* half of the groups multiply first, the others last: matrix unit and FMA units have work */
            CKCI_K_UNROLL(1)
            for (int32_t step = 0; step < 2; step++) {
                if (step == (g.group & 1)) {
                    CKCI_K_UNROLL(1)
                    for (int32_t turn = begun ? 0 : q.turns; turn < q.turns; turn++) {
                        if (turn > 0) {
                            g.meet(); /* others read what lies in the room */
                        }
                        multiply(q, g, g.group + turn * 4, tile, m);
                        write(pair, g, g.group + turn * 4, tile, m);
                    }
                } else if (more) {
                    f.convolve(pair, tile + 1, m);
                    ckci_k_copies_wait<0>(); /* the second weights, once */
                    ckci_k_proxy_fence();    /* before loads, for which it would wait */
                    if (tile + 2 < end) {
                        f.fetch(pair, tile + 2, false);
                    }
                }
            }
            if (more) {
                list(pair, tile + 1, m);
            }
            __syncthreads();
        }
    }
};
#endif
