/*------------------------------------------------------------------------------------------------------------
  >>k-depth-strips
  fwd and bwd_data of any depthwise problem: a thread owns a strip of outputs. Any stride, dilation, type and
  operation: what no other depthwise kernel takes comes here. Strides 1 and 2 have forms of their own, in
  which a thread reads each input of its strip once for all taps of a row.
*/
#pragma once
#include "kernels/depth/common.h"
#include "kernels/depth/epilogue.h"

template <class T> struct ckci_k_depth_lds {
    alignas(16) T w[CKCI_K_DEPTH_LDS / sizeof(T)];
};

/* Where a thread works: what stays the same for all its strips. */
struct ckci_k_depth_place {
    int32_t lane, slot; /* channels (x for planes); strips side by side */
    int32_t tile, channel;
    int32_t from, to; /* strips of the block, `lanes_p` at a time */
    bool active;
};

template <class S, int V, int XO, int STEP, bool FULL> struct ckci_k_depth {
    typedef typename S::T T;
    typedef ckci_k_depth_lds<T> lds;

    const ckci_gpu_depth &args; /* FULL has no registers left for those of a strip: they are loaded again */
    bool planes;
    ckci_k_axis axis[3];
    ckci_k_depth_place at;
    int32_t x_first;             /* input of the first tap of output 0 */
    int32_t x_step, x_bytes;     /* from one element of a window to the next */
    int32_t tap_step, tap_bytes; /* from one tap to the next, ascending */
    T c[XO * V];

    CKCI_K_MEMBER explicit ckci_k_depth(const ckci_gpu_depth &p) : args(p), planes(V == 1 && p.planes)
    {
        int32_t t = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x;
        at.slot = ckci_k_divide(t, p.by_lanes_c);
        at.lane = t - at.slot * p.lanes_c;
        int32_t rest = ckci_k_divide(block, p.by_phases), phase = block - rest * p.phases;
        int32_t part = ckci_k_divide(rest, p.by_tiles_c);
        at.tile = rest - part * p.tiles_c;
        ckci_k_find_axes(p.dim, phase, axis);
        if constexpr (STEP == 0) { /* too much for scalar registers; used by lanes only */
            ckci_k_hold(axis);
        }
        at.channel = planes ? at.tile : (at.tile * p.lanes_c + at.lane) * V;
        at.active = at.slot < p.lanes_p && at.channel < p.g;
        int32_t all = p.n * axis[0].count * (planes ? p.tiles_x : axis[1].count) * p.strips;
        at.from = part * p.part;
        at.to = all - at.from < p.part ? all : at.from + p.part;
        tap_step = p.dim[2].read_tap < 0 ? -p.dim[2].read_tap : p.dim[2].read_tap;
        x_first = axis[2].read0 + (p.dim[2].read_tap < 0 ? (axis[2].taps - 1) * p.dim[2].read_tap : 0);
        int32_t bytes = (int32_t)p.a.stride[5] * S::SIZE;
        x_step = STEP == 0 ? p.dim[2].read_step : 1;
        x_bytes = x_step * bytes;
        tap_bytes = tap_step * bytes;
#if defined(__HIP_DEVICE_COMPILE__) && __clang_major__ < 16
        if constexpr (V == 1) { /* used by lanes only; scalar registers hold no more */
            tap_step = ckci_k_lane_afresh(tap_step);
            tap_bytes = ckci_k_lane_afresh(tap_bytes);
            x_first = ckci_k_lane_afresh(x_first);
            x_step = STEP == 0 ? ckci_k_lane_afresh(x_step) : 1;
        }
#endif
    }

    /* Weights of `rows` filter rows from r0 on, in the order in which they are multiplied. */
    CKCI_K_MEMBER void stage(lds &m, int32_t r0, int32_t rows)
    {
        const ckci_gpu_depth &p = ckci_k_opaque_argument<FULL>(args);
        int32_t channels = planes ? 1 : p.lanes_c * V, taps = axis[2].taps;
        int32_t count = rows * taps * channels;
        for (int32_t e = (int32_t)threadIdx.x; e < count; e += 256) {
            int32_t tap = ckci_k_divide(e, p.by_channels), channel = e - tap * channels;
            int32_t row = ckci_k_divide(tap, axis[2].by_taps), x = tap - row * taps;
            row += r0;
            int32_t z = ckci_k_divide(row, axis[1].by_taps), y = row - z * axis[1].taps;
            int64_t red = 0;
            if constexpr (V == 1) {
                const ckci_gpu_depth &late = ckci_k_late_again(args);
                if (late.red > 1) {
                    const int32_t c = z / axis[0].taps; /* a divisor would stay in scalar registers */
                    z -= c * axis[0].taps;
                    red = c * late.b_red;
                }
            }
            x = p.dim[2].read_tap < 0 ? taps - 1 - x : x;
            int32_t g = planes ? at.tile : at.tile * channels + channel;
            int64_t w = red + g * p.b.stride[0] + (axis[0].tap0 + z * p.dim[0].period) * p.b.stride[3] +
                        (axis[1].tap0 + y * p.dim[1].period) * p.b.stride[4] +
                        (axis[2].tap0 + x * p.dim[2].period) * p.b.stride[5];
            m.w[tap * channels + channel] = g < p.g ? ckci_k_depth_tap<FULL, T>(p, w) : (T)0;
        }
    }

    /* G neighbouring taps; src and x: the first element of the window. They move on to the next tap. */
    template <int G>
    CKCI_K_MEMBER void taps(const unsigned char *&src, int32_t &x, const T *&w, int32_t channels)
    {
        constexpr int APART = STEP ? STEP : 1, WINDOW = (XO - 1) * APART + G, CHUNK = V == 1 ? 8 : 4,
                      CHUNKS = (WINDOW + CHUNK - 1) / CHUNK;
        ckci_k_vec<S, V> raw[CHUNKS * CHUNK];
        const int32_t bytes = ckci_k_afresh(this->x_bytes);
        CKCI_K_UNROLL(32)
        for (int i = 0; i < CHUNKS * CHUNK; i++) {
            raw[i].clear();
            if (i < WINDOW && (uint32_t)(x + i * x_step) < (uint32_t)args.dim[2].read_len) {
                raw[i].load(src + i * bytes);
            }
        }
        T f[G][V];
        CKCI_K_UNROLL(8)
        for (int j = 0; j < G; j++) {
            ckci_k_spread<T, V>(w + j * channels, f[j]);
        }
        CKCI_K_UNROLL(8)
        for (int q = 0; q < CHUNKS; q++) {
            T v[CHUNK * V];
            ckci_k_depth_widen<CHUNK>(raw + q * CHUNK, v, args.bf16);
            CKCI_K_UNROLL(8)
            for (int j = 0; j < G; j++) {
                CKCI_K_UNROLL(8)
                for (int i = q * CHUNK; i < (q + 1) * CHUNK; i++) {
                    if (i - j >= 0 && (i - j) % APART == 0 && (i - j) / APART < XO) {
                        CKCI_K_UNROLL(4)
                        for (int k = 0; k < V; k++) {
                            T &sum = c[(i - j) / APART * V + k];
                            sum = ckci_k_fma(v[(i - q * CHUNK) * V + k], f[j][k], sum);
                        }
                    }
                }
            }
        }
        src += G * tap_bytes;
        x += G * tap_step;
        w += G * channels;
    }

    CKCI_K_MEMBER void row(const unsigned char *src, int32_t x, const T *w, int32_t channels)
    {
        constexpr int MOST = STEP == 1 ? 8 : STEP == 2 ? 3 : 1;
        int32_t left = axis[2].taps;
        CKCI_K_UNROLL(1)
        for (; left >= MOST; left -= MOST) {
            taps<MOST>(src, x, w, channels);
        }
        if constexpr (STEP == 1) {
            if (left & 4) {
                taps<4>(src, x, w, channels);
            }
            left &= 3;
            if (left == 3) {
                taps<3>(src, x, w, channels);
                return;
            }
            if (left == 2) {
                taps<2>(src, x, w, channels);
                return;
            }
        }
        if constexpr (STEP != 0) {
            CKCI_K_UNROLL(1)
            for (; left > 0; left--) {
                taps<1>(src, x, w, channels);
            }
        }
    }

    /* A strip: outputs x0 ... of (n, z, y); its first input row and place. */
    struct strip {
        int32_t n, z, y, x; /* written */
        int32_t in_z, in_y, in_x, tap_y, tap_z;
        const unsigned char *src;
        bool inside;
    };

    CKCI_K_MEMBER strip find(int32_t i) const
    {
        const ckci_gpu_depth &p = ckci_k_opaque_argument<FULL>(args);
        strip s;
        int32_t rest = ckci_k_divide(i, p.by_strips), sx = i - rest * p.strips;
        ckci_divisor by_y = axis[1].by_count; /* copies: clang 15 would choose among addresses */
        int32_t count_y = axis[1].count;
        if (planes) {
            by_y = p.by_tiles_x;
            count_y = p.tiles_x;
        }
        int32_t up = ckci_k_divide(rest, by_y);
        int32_t y = rest - up * count_y;
        s.n = ckci_k_divide(up, axis[0].by_count);
        int32_t z = up - s.n * axis[0].count, x = sx * XO;
        y = planes ? y * p.lanes_c + at.lane : y;
        s.inside = at.active && i < at.to && y < axis[1].count;
        s.in_z = z * p.dim[0].read_step + axis[0].read0;
        s.in_y = y * p.dim[1].read_step + axis[1].read0;
        s.in_x = x * p.dim[2].read_step + x_first;
        s.z = axis[0].write0 + z * p.dim[0].write_step;
        s.y = axis[1].write0 + y * p.dim[1].write_step;
        s.x = x;
        s.tap_y = 0;
        s.tap_z = ckci_k_lane_afresh(0); /* scalar registers hold no more */
        s.src = p.a.p + (s.n * p.a.stride[1] + at.channel * p.a.stride[0] + s.in_z * p.a.stride[3] +
                         s.in_y * p.a.stride[4] + s.in_x * p.a.stride[5]) *
                            S::SIZE;
        return s;
    }

    /* `rows` rows of the filter, from where the strip stands. */
    CKCI_K_MEMBER void multiply(const lds &m, strip &s, int32_t rows)
    {
        const ckci_gpu_depth &p = ckci_k_opaque_argument<FULL>(args);
        int32_t channels = planes ? 1 : p.lanes_c * V;
        const T *w = m.w + (planes ? 0 : at.lane * V);
        int64_t step_y = (int64_t)p.dim[1].read_tap * p.a.stride[4] * S::SIZE;
        CKCI_K_UNROLL(1)
        for (int32_t r = 0; r < rows; r++) {
            if ((uint32_t)s.in_z < (uint32_t)p.dim[0].read_len &&
                (uint32_t)s.in_y < (uint32_t)p.dim[1].read_len) {
                row(s.src, s.in_x, w, channels);
            }
            w += axis[2].taps * channels;
            s.src += step_y;
            s.in_y += p.dim[1].read_tap;
            s.tap_y++;
            if (s.tap_y == axis[1].taps) {
                const ckci_gpu_depth &late = ckci_k_late_again(args);
                const int64_t z_bytes = (int64_t)late.dim[0].read_tap * late.a.stride[3] * S::SIZE;
                s.tap_y = 0;
                s.in_y -= axis[1].taps * p.dim[1].read_tap;
                s.in_z += late.dim[0].read_tap;
                s.src += z_bytes - axis[1].taps * step_y;
                if constexpr (V == 1) {
                    s.tap_z++;
                    if (s.tap_z == axis[0].taps) { /* the next channel that is summed */
                        s.tap_z = 0;
                        s.in_z -= axis[0].taps * late.dim[0].read_tap;
                        s.src += late.a_red - axis[0].taps * z_bytes;
                    }
                }
            }
        }
    }

    CKCI_K_MEMBER void write(const strip &s)
    {
        const ckci_gpu_depth &p = ckci_k_opaque_argument<FULL>(args);
        const ckci_gpu_target &o = p.o;
        if (p.o_vec) {
            int64_t first = s.n * o.t.stride[1] + at.channel * o.t.stride[0] + s.z * o.t.stride[3] +
                            s.y * o.t.stride[4] +
                            (axis[2].write0 + s.x * p.dim[2].write_step) * o.t.stride[5];
            int64_t step = p.dim[2].write_step * o.t.stride[5] * S::SIZE;
            unsigned char *dst = o.t.p + first * S::SIZE;
            ckci_k_vec<S, V> v[XO];
            if (o.form != CKCI_FORM_STORE) {
                ckci_k_depth_epilogue<S, V, XO, false, FULL>(p, c, first * S::SIZE, step, at.channel,
                                                             axis[2].count - s.x);
            }
            ckci_k_depth_narrow<XO>(v, c, p.bf16);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < XO; i++) {
                if (s.x + i < axis[2].count) {
                    v[i].store(dst + i * step);
                }
            }
            return;
        }
        CKCI_K_UNROLL(1)
        for (int i = 0; i < XO * V; i++) {
            int32_t x = s.x + i / V;
            if (x < axis[2].count) {
                ckci_k_place q = {s.n, s.z, s.y, axis[2].write0 + x * p.dim[2].write_step};
                ckci_k_depth_write<FULL, T>(p, ckci_k_pick<T, XO * V>(c, i), at.channel + i % V, q);
            }
        }
    }

    CKCI_K_MEMBER void work(lds &m)
    {
        const ckci_gpu_depth &p = ckci_k_opaque_argument<FULL>(args);
        int32_t all = axis[0].taps * axis[1].taps * (V == 1 ? ckci_k_late_again(args).red : 1);
        if (axis[2].taps == 0) {
            all = 0;
        }
        const int32_t first = ckci_k_lane_afresh(at.from);
        for (int32_t i = at.from; i < at.to; i += p.lanes_p) {
            const int32_t rows = ckci_k_afresh(all);
            strip s = find(i + at.slot);
            CKCI_K_UNROLL(32)
            for (int j = 0; j < XO * V; j++) {
                c[j] = 0;
            }
            for (int32_t r = 0; r < rows; r += p.rows) {
                int32_t some_rows = rows - r < p.rows ? rows - r : p.rows;
                if (rows > p.rows || i == ckci_k_same(first)) {
                    __syncthreads();
                    stage(m, r, some_rows);
                    __syncthreads();
                }
                if (s.inside) {
                    multiply(m, s, some_rows);
                }
            }
            if (s.inside) {
                write(s);
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &a, lds &m)
    {
        ckci_k_depth self(a);
        self.work(m);
    }
};

template <int V, int XO, int STEP, bool FULL>
struct ckci_k_resident<ckci_k_depth<ckci_k_s_half, V, XO, STEP, FULL>> {
    enum { BLOCKS = V == 1 ? 3 : 2 };
};

template <int XO, int STEP> struct ckci_k_resident<ckci_k_depth<ckci_k_s_f32, 4, XO, STEP, false>> {
    enum { BLOCKS = 2 };
};
