/*------------------------------------------------------------------------------------------------------------
  >>k-depth-weight
  bwd_weight of any depthwise problem, and the fold of a block's sums in fixed order, which all depthwise
  gradients take. A block owns a part of the positions for some channels; its threads' sums meet in LDS in a
  fixed tree, and go to the part in workspace or, where there is one part, to dwei. Strides 1 and 2 have forms
  of their own.
*/
#pragma once
#include "kernels/depth/common.h"

/* Where a weight's sum goes: into a part of the workspace, [part][tap][channel], or to its place as it is. */
template <class S, class T>
CKCI_K_FN void ckci_k_depth_put(const ckci_gpu_depth &p, T sum, int32_t part, int32_t tap, int32_t channel)
{
    if (p.o.partial) {
        ((T *)p.o.partial)[((int64_t)part * p.taps + tap) * p.g + channel] = sum;
        return;
    }
    const ckci_k_tap f = ckci_k_split_tap(p.dim, tap);
    int64_t at =
        channel * p.o.t.stride[0] + f.z * p.o.t.stride[3] + f.y * p.o.t.stride[4] + f.x * p.o.t.stride[5];
    if constexpr (S::SIZE == 8) {
        *(double *)(p.o.t.p + at * 8) = sum;
    } else {
        ckci_k_depth_store(p.o.t.dtype, p.o.t.p + at * (p.o.t.dtype == CKCONV_F32 ? 4 : 2), sum);
    }
}

/* A thread of bwd_weight: its place in the block and what it sums. */
struct ckci_k_depth_member {
    int32_t slot, lane, lane_u, channel, part, fz, fy, fx;
    bool active;
};

/* Room for the sums of as many of TAPS taps as are added at a time, [tap][channel of V][thread]. */
template <class T, int V, int TAPS, bool WHOLE = false> struct ckci_k_depth_sums {
    enum { MOST = 32 / (int)sizeof(T) / V, ROUND = TAPS < MOST ? TAPS : +MOST };
#if defined(__HIP_DEVICE_COMPILE__)
    enum { PITCH = WHOLE ? 264 : 256 + 31 }; /* WHOLE: as ckci_k_depth_slot has threads */
#else
    enum { PITCH = WHOLE ? 264 : 257 };
#endif
    T sum[ROUND * V * PITCH];

    /* From tap to tap; AMD: where members are `apart` apart those of a wave, who add one tap each, read
       different banks. */
    static CKCI_K_MEMBER int32_t pitch(int32_t apart)
    {
#if defined(__HIP_DEVICE_COMPILE__)
        return WHOLE ? (int32_t)PITCH : 256 + apart % 32;
#else
        (void)apart;
        return PITCH;
#endif
    }
};

/* The sums of a block, in a fixed order. Those of a tap and channel come from `others` threads, its members,
   who share the channels and taps of a round. Neighbouring threads stand beside each other in LDS: members
   of planes, else channels; BESIDE: members of one channel. WHOLE: they are sums of all taps of the filter;
   their places in the workspace are then worked out without products. */
template <class S, class T, int V, int R, int G, int Z = 1, bool WHOLE = false, bool BESIDE = false>
CKCI_K_FN void ckci_k_depth_fold(const ckci_gpu_depth &args, ckci_k_depth_sums<T, V, Z * R * G, WHOLE> &m,
                                 T *c, const ckci_k_depth_member &w, bool planes)
{
    const ckci_gpu_depth &p = ckci_k_late(args);
    enum { TAPS = Z * R * G, ROUND = ckci_k_depth_sums<T, V, TAPS>::ROUND };
    const int32_t others = (planes ? p.lanes_c : 1) * p.lanes_p;
    const int32_t member = planes ? w.slot * p.lanes_c + w.lane : w.slot;
    const int32_t apart = planes || BESIDE ? 1 : p.lanes_u * p.lanes_c; /* from member to member */
    const int32_t first = planes   ? w.lane_u * others
                          : BESIDE ? w.lane * others
                                   : w.lane_u * p.lanes_c + w.lane;
    const int32_t pitch = ckci_k_depth_sums<T, V, TAPS, WHOLE>::pitch(apart);
    const bool present = w.slot < p.lanes_p && w.lane_u < p.lanes_u;
    static_assert(!WHOLE || V <= 2, "steps of less than two channels");
    const int32_t start = WHOLE ? member / V * p.g + member % V + w.channel : 0;
    CKCI_K_UNROLL(1)
    for (int j = 0; j < TAPS; j += ROUND) {
        __syncthreads();
        if (present) {
            CKCI_K_UNROLL(32)
            for (int k = 0; k < ROUND * V; k++) {
                m.sum[k * pitch + first + member * apart] = c[k];
            }
        }
        __syncthreads();
        if constexpr (WHOLE) {
            if (p.o.partial) {
                T *to = (T *)p.o.partial + ((int64_t)w.part * TAPS + j) * p.g;
                const T *from = m.sum + member * pitch + first;
                const int32_t end = present && w.active ? (TAPS - j < +ROUND ? TAPS - j : +ROUND) * V : 0;
                const int32_t step = others / V * p.g + others % V;
                int32_t at = start;
                CKCI_K_UNROLL(1)
                for (int32_t q = member; q < end; q += others) {
                    T sum[4] = {0, 0, 0, 0};
                    CKCI_K_UNROLL(1)
                    for (int32_t i = 0; i < others; i += 4) {
                        CKCI_K_UNROLL(4)
                        for (int k = 0; k < 4; k++) {
                            sum[k] += i + k < others ? from[(i + k) * apart] : 0;
                        }
                    }
                    if (w.channel + q % V < p.g) {
                        to[at] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
                    }
                    at += step + (V == 2 && others % 2 != 0 && q % 2 != 0 ? p.g - 2 : 0);
                    from += others * pitch;
                }
            }
        }
        CKCI_K_UNROLL(1)
        for (int32_t q = member; present && w.active && !(WHOLE && p.o.partial) && q < ROUND * V;
             q += others) {
            const int32_t tap = j + q / V, row = tap / G, rz = Z == 1 ? 0 : row / R;
            const int32_t tx = w.fx + tap - row * G, ty = w.fy + row - rz * R;
            if (tap >= TAPS || (uint32_t)tx >= (uint32_t)p.dim[2].filter || ty >= p.dim[1].filter ||
                w.channel + q % V >= p.g) {
                continue;
            }
            const T *from = m.sum + q * pitch + first;
            T sum[4] = {0, 0, 0, 0};
            CKCI_K_UNROLL(1)
            for (int32_t i = 0; i < others; i += 4) {
                CKCI_K_UNROLL(4)
                for (int k = 0; k < 4; k++) {
                    sum[k] += i + k < others ? from[(i + k) * apart] : 0;
                }
            }
            ckci_k_depth_put<S, T>(p, (sum[0] + sum[1]) + (sum[2] + sum[3]), w.part,
                                   ((w.fz + rz) * p.dim[1].filter + ty) * p.dim[2].filter + tx,
                                   w.channel + q % V);
        }
        CKCI_K_UNROLL(128)
        for (int k = 0; k + ROUND * V < TAPS * V; k++) {
            c[k] = c[k + ROUND * V];
        }
    }
}

/* R rows of neighbouring y x G taps; STEP: the stride along x; 0: any stride and dilation, one tap. WALKS
   (where STEP is not 0): a thread goes down columns of p.walk rows of dout, and the last row of inputs
   that one meets is the first of the next one's, whose others are on their way meanwhile. */
template <class S, int V, int XO, int R, int G, int STEP, bool WALKS = false> struct ckci_k_depth_weight {
    typedef typename S::T T;
    typedef ckci_k_depth_sums<T, V, R * G> lds;
    enum { APART = STEP ? STEP : 1, WINDOW = (XO - 1) * APART + G };
    typedef ckci_k_vec<S, V> vec;
    /* One tap: sums may be long. The planner leaves the others no long ones. */
    enum { LONG = STEP == 0 };
    typedef typename ckci_k_either<LONG, ckci_k_long_sums<T, R * G * V>, ckci_k_short_sums>::type whole_sums;

    /* A row of inputs; whole: all of them exist. */
    static CKCI_K_MEMBER void load_whole(const ckci_gpu_depth &p, vec *to, const unsigned char *src,
                                         int32_t y, int32_t x, bool whole)
    {
        if (!whole) {
            load_row(p, to, src, y, x, 1);
        } else if ((uint32_t)y < (uint32_t)p.dim[1].read_len) {
            const int64_t bytes = p.b.stride[5] * S::SIZE;
            CKCI_K_UNROLL(32)
            for (int k = 0; k < WINDOW; k++) {
                to[k].load(src + k * bytes);
            }
        }
    }

    static CKCI_K_MEMBER void load_left(const ckci_gpu_depth &p, vec *to, const unsigned char *src,
                                        int32_t count)
    {
        const int64_t bytes = p.a.stride[5] * S::SIZE;
        CKCI_K_UNROLL(8)
        for (int k = 0; k < XO; k++) {
            to[k].clear();
            if (k < count) {
                to[k].load(src + k * bytes);
            }
        }
    }

    /* N positions of dout, of which `count` exist, and a row of inputs: to sums of G taps. */
    template <int N> static CKCI_K_MEMBER void add(T *c, const T *d, const T *v, int32_t count)
    {
        CKCI_K_UNROLL(8)
        for (int k = 0; k < N; k++) {
            if (k < count) { /* nothing may meet the 0 of a missing dout */
                CKCI_K_UNROLL(8)
                for (int j = 0; j < G; j++) {
                    CKCI_K_UNROLL(4)
                    for (int l = 0; l < V; l++) {
                        T &sum = c[j * V + l];
                        sum = ckci_k_fma(d[k * V + l], v[(k * APART + j) * V + l], sum);
                    }
                }
            }
        }
    }

    /* `rows` rows of dout from a on, whose windows begin at b, in_y and in_x. */
    static CKCI_K_MEMBER void walk(const ckci_gpu_depth &p, T *c, const unsigned char *a,
                                   const unsigned char *b, int32_t rows, int32_t in_y, int32_t in_x,
                                   int32_t count)
    {
        const int32_t down = p.dim[1].dilation, step = p.dim[1].stride, high = p.dim[1].read_len;
        const int64_t a_row = p.a.stride[4] * S::SIZE, b_row = p.b.stride[4] * S::SIZE;
        const bool whole = in_x >= 0 && in_x + WINDOW <= p.dim[2].read_len, joins = step == (R - 1) * down;
        vec left[XO], right[R - 1][WINDOW]; /* right: rows after the first */
        T first[WINDOW * V], d[XO * V];
        CKCI_K_UNROLL(1)
        for (int32_t y = -1; y < rows; y++) { /* loads of row y + 1, for which a, b and in_y stand */
            const bool now = y >= 0, more = y + 1 < rows;
            if (now) {
                ckci_k_depth_widen<XO>(left, d, p.bf16);
                if ((uint32_t)(in_y - step) < (uint32_t)high) {
                    add<XO>(c, d, first, count);
                }
            }
            if (more) {
                load_left(p, left, a, count);
            }
            CKCI_K_UNROLL(8)
            for (int r = 1; r < R; r++) {
                if (now) {
                    ckci_k_depth_widen<WINDOW>(right[r - 1], first, p.bf16);
                }
                if (more) {
                    load_whole(p, right[r - 1], b + r * down * b_row, in_y + r * down, in_x, whole);
                }
                if (now && (uint32_t)(in_y - step + r * down) < (uint32_t)high) {
                    add<XO>(c + r * G * V, d, first, count);
                }
            }
            if (more && (!now || !joins)) {
                vec row[WINDOW];
                load_row(p, row, b, in_y, in_x, 1);
                ckci_k_depth_widen<WINDOW>(row, first, p.bf16);
            }
            a += a_row;
            b += step * b_row;
            in_y += step;
        }
    }

    static CKCI_K_MEMBER void load_row(const ckci_gpu_depth &p, ckci_k_vec<S, V> *to,
                                       const unsigned char *src, int32_t y, int32_t x, int32_t step)
    {
        int64_t bytes = p.b.stride[5] * step * S::SIZE;
#if defined(__HIP_DEVICE_COMPILE__) && __clang_major__ < 16
        x = ckci_k_lane_afresh(x); /* else which x are inside is kept for all rows, in scalar registers */
#endif
        CKCI_K_UNROLL(32)
        for (int k = 0; k < WINDOW; k++) {
            to[k].clear();
            if ((uint32_t)y < (uint32_t)p.dim[1].read_len &&
                (uint32_t)(x + k * step) < (uint32_t)p.dim[2].read_len) {
                to[k].load(src + k * bytes);
            }
        }
    }

    /* One strip: all rows of taps. */
    static CKCI_K_MEMBER void strip(const ckci_gpu_depth &p, T *c, const unsigned char *a,
                                    const unsigned char *b, int32_t in_y, int32_t in_x, int32_t count)
    {
        const int32_t step = STEP ? 1 : p.dim[2].stride;
        const int64_t b_row = p.dim[1].dilation * p.b.stride[4] * S::SIZE;
        vec left[XO];
        load_left(p, left, a, count);
        constexpr int SOME = V == 1 ? XO : 4;
        vec right[R][WINDOW]; /* rows are loaded before the first is taken */
        CKCI_K_UNROLL(8)
        for (int r = 0; r < R; r++) {
            load_row(p, right[r], b + r * b_row, in_y + r * p.dim[1].dilation, in_x, step);
        }
        CKCI_K_UNROLL(8)
        for (int r = 0; r < R; r++) {
            if ((uint32_t)(in_y + r * p.dim[1].dilation) >= (uint32_t)p.dim[1].read_len) {
                continue;
            }
            T v[WINDOW * V];
            ckci_k_depth_widen<WINDOW>(right[r], v, p.bf16);
            CKCI_K_UNROLL(8)
            for (int q = 0; q < XO; q += SOME) {
                T d[SOME * V];
                ckci_k_depth_widen<SOME>(left + q, d, p.bf16);
                add<SOME>(c + r * G * V, d, v + q * APART * V, count - q);
            }
        }
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_depth &p, lds &m)
    {
        bool planes = V == 1 && p.planes;
        int32_t t = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x;
        /* lanes fastest, then units (rows and groups of taps), then strips */
        int32_t rest = ckci_k_divide(t, p.by_lanes_c), lane = t - rest * p.lanes_c;
        int32_t slot = ckci_k_divide(rest, p.by_lanes_u), lane_u = rest - slot * p.lanes_u;
        int32_t up = ckci_k_divide(block, p.by_tiles_u), unit = (block - up * p.tiles_u) * p.lanes_u + lane_u;
        int32_t part = ckci_k_divide(up, p.by_tiles_c), tile = up - part * p.tiles_c;
        int32_t channel = planes ? tile : (tile * p.lanes_c + lane) * V;
        int32_t row = ckci_k_divide(unit, p.by_groups_x), fx = (unit - row * p.groups_x) * G;
        int32_t fz = ckci_k_divide(row, p.by_rows_y), fy = (row - fz * (int32_t)p.by_rows_y.d) * R;
        bool active = slot < p.lanes_p && channel < p.g && unit < p.units;
        int32_t count_y = p.dim[1].length, count_x = p.dim[2].length;
        const bool tall = planes || WALKS; /* several y to a line of strips */
        int32_t all = p.n * p.dim[0].length * (tall ? p.tiles_x : count_y) * p.strips;
        int32_t from = part * p.part, to = all - from < p.part ? all : from + p.part;
        T c[R * G * V];
        CKCI_K_UNROLL(128)
        for (int i = 0; i < R * G * V; i++) {
            c[i] = 0;
        }
        whole_sums whole;
        whole.clear();
        CKCI_K_UNROLL(1)
        for (int32_t first = from, stop = from; first + slot < to && active; first += p.lanes_p) {
            if (LONG && first >= stop) { /* the same for all threads */
                whole.settle(c);
                stop = first + CKCI_K_STRETCH / XO * p.lanes_p;
            }
            const int32_t i = first + slot;
            int32_t line = ckci_k_divide(i, p.by_strips), x = (i - line * p.strips) * XO;
            int32_t above = ckci_k_divide(line, tall ? p.by_tiles_x : p.dim[1].count[0]);
            int32_t y = line - above * (tall ? p.tiles_x : count_y);
            int32_t n = ckci_k_divide(above, p.dim[0].count[0]), z = above - n * p.dim[0].length;
            y = planes ? y * p.lanes_c + lane : WALKS ? y * p.walk : y;
            int32_t in_z = z * p.dim[0].stride + fz * p.dim[0].dilation - p.dim[0].pad;
            int32_t in_y = y * p.dim[1].stride + fy * p.dim[1].dilation - p.dim[1].pad;
            int32_t in_x = x * p.dim[2].stride + fx * p.dim[2].dilation - p.dim[2].pad;
            if (y >= count_y || (uint32_t)in_z >= (uint32_t)p.dim[0].read_len) {
                continue;
            }
            const unsigned char *a = p.a.p + (n * p.a.stride[1] + channel * p.a.stride[0] +
                                              z * p.a.stride[3] + y * p.a.stride[4] + x * p.a.stride[5]) *
                                                 S::SIZE;
            const unsigned char *b =
                p.b.p + (n * p.b.stride[1] + channel * p.b.stride[0] + in_z * p.b.stride[3] +
                         in_y * p.b.stride[4] + in_x * p.b.stride[5]) *
                            S::SIZE;
            const int32_t count = count_x - x;
            if constexpr (WALKS) {
                walk(p, c, a, b, count_y - y < p.walk ? count_y - y : p.walk, in_y, in_x, count);
            } else {
                strip(p, c, a, b, in_y, in_x, count);
            }
        }
        whole.finish(c);
        ckci_k_depth_member w = {slot, lane, lane_u, channel, part, fz, fy, fx, active};
        ckci_k_depth_fold<S, T, V, R, G>(p, m, c, w, planes);
    }
};

/* Two channels, 3 x 3 taps, stride 2. */
template <class S>
struct ckci_k_depth_weight_second
    : ckci_k_by_vendor<ckci_k_depth_weight<S, 2, 4, 3, 3, 2, true>, ckci_k_depth_weight<S, 2, 4, 3, 3, 2>> {
};

template <int V, int XO, int R, int G, int STEP>
struct ckci_k_resident<ckci_k_depth_weight<ckci_k_s_half, V, XO, R, G, STEP>> {
    enum { BLOCKS = V != 1 ? 2 : 0 };
};
template <> struct ckci_k_resident<ckci_k_depth_weight_second<ckci_k_s_half>> {
    enum { BLOCKS = 2 };
};
