/*------------------------------------------------------------------------------------------------------------
  >>k-norm-gradient
  What forward and backward do to numbers: scale and shift, activations and their gradients, sums of dy and
  dy*xhat. All kernels of group norm that apply or sum come here, with eight numbers at once or with one. Sums
  of channels go to workspace, each block's to a place of its own, and param adds them in order. AMD has forms
  of its own where conversions and exponentials cost most.
*/
#pragma once
#include "kernels/norm/activation.h"
#include "kernels/norm/statistics.h"

template <class T>
CKCI_K_FN ckci_k_norm_channel<T> ckci_k_find_channel(const ckci_gpu_norm &p, const ckci_k_slab &s,
                                                     const ckci_k_norm_lds<T> &m, int32_t column)
{
    ckci_k_norm_channel<T> c;
    int32_t group = ckci_k_divide(column, p.by_c), rest = column - group * p.c;
    c.x = ckci_k_norm_base(p.x, s, group, rest);
    c.y = ckci_k_norm_base(p.y, s, group, rest);
    c.dx = ckci_k_norm_base(p.dx, s, group, rest);
    c.hi = m.hi[group];
    c.lo = m.lo[group];
    c.r = m.r[group];
    c.gamma = ckci_k_norm_factor<T>(p, p.gamma, ckci_k_norm_entry(p, s) + column, 1);
    c.beta = ckci_k_norm_factor<T>(p, p.beta, ckci_k_norm_entry(p, s) + column, 0);
    c.mean_a = m.mean[0][group];
    c.mean_b = m.mean[1][group];
    return c;
}

/* x * y, finite where y is: a channel without deviation has a large x, and differences of 0. */
CKCI_K_FN float ckci_k_norm_bounded(float x, float y)
{
    const uint32_t infinite = 0x7f800000u, bits = ckci_k_bits(x * y);
    const bool over = (bits & 0x7fffffffu) == infinite && (ckci_k_bits(y) & 0x7fffffffu) != infinite;
    return ckci_k_float(bits - (over ? 1 : 0)); /* the largest number comes before infinity */
}

/* Sigmoid or silu? */
CKCI_K_FN bool ckci_k_norm_curved(const ckci_gpu_norm &p)
{
    return p.act == CKCONV_SILU || p.act == CKCONV_SIGMOID;
}

/* AMD: what dy' is to be multiplied by, and powers of two in one of e. */
CKCI_K_FN float ckci_k_norm_unit(const ckci_gpu_norm &p)
{
    return ckci_k_amd() && ckci_k_norm_curved(p) ? 1.44269504f : 1;
}

/* AMD: is d of f16, x - hi, not yet multiplied by r? */
CKCI_K_FN bool ckci_k_norm_late_r(const ckci_gpu_norm &p)
{
    return ckci_k_amd() && p.x.dtype == CKCONV_F16;
}

/* Wide: what eight numbers of one channel, or of eight, need. y is (x - hi)*scale + shift; with
   d = (x - hi)*r, xhat but for the rest of the mean, it is d*gamma + shift, and dx is
   r * (gamma*dy' - level - d*slope): 0 for a group of one number. */
template <int N> struct ckci_k_norm_channels {
    float hi[N], r[N], gamma[N], scale[N], shift[N], slope[N], level[N];
    float steep[N], start[N]; /* AMD: y before the activation, in ckci_k_norm_unit, is d*steep + start */

    /* What belongs to the groups of N columns, and to these themselves. */
    template <class M> CKCI_K_MEMBER void groups(const ckci_gpu_norm &p, const M &m, int32_t column)
    {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < N; i++) {
            const int32_t group = N == 1 ? 0 : ckci_k_divide(column + i, p.by_c);
            hi[i] = m.hi[group];
            r[i] = m.r[group];
            slope[i] = m.mean[1][group] * (ckci_k_norm_late_r(p) ? r[i] : 1);
            level[i] = m.mean[0][group];
        }
    }

    template <bool BACK, class M>
    CKCI_K_MEMBER void factors(const ckci_gpu_norm &p, const ckci_k_slab &s, const M &m, int32_t column)
    {
        uint32_t bits[2][N];
        ckci_k_norm_factor_bits(p, p.gamma, ckci_k_norm_entry(p, s) + column, bits[0]);
        ckci_k_norm_factor_bits(p, p.beta, ckci_k_norm_entry(p, s) + column, bits[1]);
        CKCI_K_UNROLL(8)
        for (int i = 0; i < N; i++) {
            const int32_t group = N == 1 ? 0 : ckci_k_divide(column + i, p.by_c);
            gamma[i] = p.gamma ? ckci_k_norm_number(p.param, bits[0][i]) : 1;
            scale[i] = ckci_k_norm_bounded(m.r[group], gamma[i]);
            shift[i] = ckci_k_norm_number(p.param, bits[1][i]) - m.lo[group] * scale[i];
            const float binary = ckci_k_norm_unit(p);
            steep[i] = ckci_k_norm_bounded(binary, BACK && !ckci_k_norm_late_r(p) ? gamma[i] : scale[i]);
            start[i] = shift[i] * binary;
        }
    }
};

/* The sum of dy'*xhat from those of dy' and of dy'*d. */
template <class T>
CKCI_K_FN float ckci_k_norm_hat(const ckci_k_norm_lds<T> &m, int32_t group, float sum, float products)
{
    return products - m.lo[group] * m.r[group] * sum;
}

/* body(how many positions are left, eight of x, eight of dy) for all positions of this thread in a column;
   loads are ahead. c becomes the column's (PLANES: its group's it is). DY: dy is read too. TURNED: from
   the last of `places` places to the first, as the cursors then go. */
template <bool PLANES, bool DY, bool TURNED, class T, class Body>
CKCI_K_FN void ckci_k_norm_walk(const ckci_gpu_norm &p, const ckci_k_slab &s, const ckci_k_norm_lds<T> &m,
                                ckci_k_norm_channels<PLANES ? 1 : 8> &c, ckci_k_norm_cursor<PLANES> &x,
                                ckci_k_norm_cursor<PLANES> &y, int32_t column, int32_t places,
                                const Body &body)
{
    ckci_k_norm_each<PLANES, DY, TURNED>(
        p, s, m, x, y, places,
        [&] {
            if (!PLANES) {
                c.groups(p, m, column);
            }
            c.template factors<DY>(p, s, m, column);
        },
        [&](const ckci_k_norm_raw &raw, ckci_k_float2 *v) {
            if (ckci_k_amd()) {
                raw.differences<DY>(p.x.dtype, c, v);
            } else {
                raw.widen(p.x.dtype, v);
            }
        },
        body);
    x.next_column();
    if (DY) {
        y.next_column();
    }
}

/* e^-v, and 1 / (1 + that) */
CKCI_K_FN ckci_k_float2 ckci_k_norm_sigmoid(const ckci_k_float2 &v, ckci_k_float2 &e)
{
    const ckci_k_float2 one = {1, 1}, to_binary = {-1.44269504f, -1.44269504f};
    ckci_k_float2 power = v * to_binary;
    e.x = ckci_k_quick_exp2(power.x);
    e.y = ckci_k_quick_exp2(power.y);
    power = one + e;
    const ckci_k_float2 sigmoid = {ckci_k_quick_inverse(power.x), ckci_k_quick_inverse(power.y)};
    return sigmoid;
}

/* y of eight of x before the activation; not OF_X: of eight differences from hi. */
template <bool OF_X, int N>
CKCI_K_FN void ckci_k_norm_affine8(const ckci_k_norm_channels<N> &c, ckci_k_float2 *v)
{
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const ckci_k_float2 d = OF_X ? v[i] - ckci_k_norm_two(c.hi, 2 * i) : v[i];
        v[i] = d * ckci_k_norm_two(c.scale, 2 * i) + ckci_k_norm_two(c.shift, 2 * i);
    }
}

/* Silu, else sigmoid, of eight numbers. */
template <bool SILU> CKCI_K_FN void ckci_k_norm_activate8(ckci_k_float2 *v)
{
    ckci_k_float2 e;
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        v[i] = SILU ? v[i] * ckci_k_norm_sigmoid(v[i], e) : ckci_k_norm_sigmoid(v[i], e);
    }
}

/* AMD: y of eight differences, with silu, else sigmoid. */
template <bool SILU, int N>
CKCI_K_FN void ckci_k_norm_activate8_amd(const ckci_k_norm_channels<N> &c, ckci_k_float2 *y)
{
    const float unit = SILU ? 1.44269504f : 1;
    const ckci_k_float2 units = {unit, unit};
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const ckci_k_float2 v = y[i] * ckci_k_norm_two(c.steep, 2 * i) + ckci_k_norm_two(c.start, 2 * i);
        ckci_k_float2 e = {ckci_k_quick_exp2(-v.x), ckci_k_quick_exp2(-v.y)};
        e = e * units + units;
        const ckci_k_float2 inverse = {ckci_k_quick_inverse(e.x), ckci_k_quick_inverse(e.y)};
        y[i] = SILU ? v * inverse : inverse;
    }
}

/* y of eight numbers of x; AMD: of eight differences from hi. */
template <int N>
CKCI_K_FN void ckci_k_norm_y8(const ckci_gpu_norm &p, const ckci_k_norm_channels<N> &c, ckci_k_float2 *v)
{
    if (!ckci_k_amd()) {
        ckci_k_norm_affine8<true>(c, v);
        if (p.act == CKCONV_SILU) {
            ckci_k_norm_activate8<true>(v);
        } else if (p.act == CKCONV_SIGMOID) {
            ckci_k_norm_activate8<false>(v);
        }
    } else if (p.act == CKCONV_SILU) {
        ckci_k_norm_activate8_amd<true>(c, v);
    } else if (p.act == CKCONV_SIGMOID) {
        ckci_k_norm_activate8_amd<false>(c, v);
    } else {
        ckci_k_norm_affine8<false>(c, v);
    }
    if (p.act == CKCONV_RELU) {
        ckci_k_norm_bend8<true>(v);
    } else if (p.act == CKCONV_GELU) {
        ckci_k_norm_bend8<false>(v);
    }
}

template <bool PLANES, class S, class T>
CKCI_K_FN void ckci_k_norm_apply8(const ckci_gpu_norm &p, const S &s, const ckci_k_norm_lds<T> &m)
{
    const int32_t each = PLANES ? 1 : 8;
    ckci_k_norm_cursor<PLANES> x = ckci_k_norm_x<PLANES>(p, s), y(p, p.y, s);
    ckci_k_norm_channels<PLANES ? 1 : 8> c;
    if (PLANES) {
        c.groups(p, m, 0);
    }
    /* backwards: what was read last is still in the caches */
    const int32_t places = ckci_k_norm_places_of<PLANES>(p, s, x.pos);
    int32_t left = s.active ? ckci_k_norm_columns_of<PLANES>(p, s) : 0;
    x.turn(left, places);
    y.turn(left, places);
    if constexpr (CKCI_K_MAYBE_AMD != 0) {
        x.turn_amd(p, p.x, s, left, places);
        y.turn_amd(p, p.y, s, left, places);
    }
    while (left-- > 0) {
        const int32_t column = (s.lc + left * p.lanes_c) * each;
        const auto apply = [&](int32_t rest, ckci_k_float2 *v, const ckci_k_float2 *) {
            ckci_k_norm_y8(p, c, v);
            ckci_k_norm_store8<PLANES>(p, p.y.dtype, y.at, rest, v);
            y.at += y.step;
        };
        ckci_k_norm_walk<PLANES, false, true>(p, s, m, c, x, y, column, places, apply);
        y.next_column();
    }
}

/* The same where all channels of the group are one row. Their factors go to LDS first. Eight numbers are of
   one channel or of two, as each has eight positions or more. */
template <class S, class T>
CKCI_K_FN void ckci_k_norm_apply_joined(const ckci_gpu_norm &p, const S &s, ckci_k_norm_lds<T> &m)
{
    const int32_t row = (int32_t)p.by_row.d, from = ckci_k_divide(s.from, p.by_row);
    const int32_t to = ckci_k_divide(s.to - 1, p.by_row);
    const int32_t before = s.g0 * (p.joined - 1); /* channels that ckci_k_norm_entry does not see */
    const bool start = ckci_k_amd() && ckci_k_norm_curved(p);
    for (int32_t channel = from + (int32_t)threadIdx.x; channel <= to; channel += 256) {
        ckci_k_norm_channels<1> one;
        one.template factors<false>(p, s, m, before + channel);
        m.u.line[channel - from] = {start ? one.steep[0] : one.scale[0], start ? one.start[0] : one.shift[0]};
    }
    __syncthreads();
    if (!s.active) {
        return;
    }
    ckci_k_norm_cursor<true> x = ckci_k_norm_x<true>(p, s), y(p, p.y, s);
    ckci_k_norm_channels<8> c;
    CKCI_K_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        c.hi[i] = m.hi[0];
    }
    /* backwards: what was read last is still in the caches */
    const int32_t places = ckci_k_norm_places_of<true>(p, s, x.pos);
    x.turn(1, places);
    y.turn(1, places);
    if constexpr (CKCI_K_MAYBE_AMD != 0) {
        x.turn_amd(p, p.x, s, 1, places);
        y.turn_amd(p, p.y, s, 1, places);
    }
    ckci_k_norm_each<true, false, true>(
        p, s, m, x, y, places, [] {},
        [&](const ckci_k_norm_raw &raw, ckci_k_float2 *v) {
            if (ckci_k_amd()) {
                raw.differences<false>(p.x.dtype, c, v);
            } else {
                raw.widen(p.x.dtype, v);
            }
        },
        [&](int32_t rest, ckci_k_float2 *v, const ckci_k_float2 *) {
            const int32_t first = s.to - rest, channel = ckci_k_divide(first, p.by_row);
            const int32_t next = (channel + 1) * row - first; /* numbers before the next channel's */
            const ckci_k_norm_line *line = m.u.line + (channel - from);
            const ckci_k_norm_line a = line[0], b = line[next < 8 ? 1 : 0];
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 8; i++) {
                c.scale[i] = c.steep[i] = i < next ? a.scale : b.scale;
                c.shift[i] = c.start[i] = i < next ? a.shift : b.shift;
            }
            ckci_k_norm_y8(p, c, v);
            ckci_k_norm_store8<true>(p, p.y.dtype, y.at, rest, v);
            y.at += y.step;
        });
}

/* The activation of dy at d is undone: silu or sigmoid. Not EXACT: 1 - sigmoid loses what f16 cannot
   hold. */
template <bool PLANES, bool EXACT>
CKCI_K_FN void ckci_k_norm_undo8(const ckci_k_norm_channels<PLANES ? 1 : 8> &c, bool silu,
                                 const ckci_k_float2 *d, ckci_k_float2 *dy)
{
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const ckci_k_float2 one = {1, 1};
        ckci_k_float2 v = d[i] * ckci_k_norm_two(c.gamma, 2 * i) + ckci_k_norm_two(c.shift, 2 * i), e;
        if (EXACT) { /* e is finite */
            v.x = v.x < -87 ? -87 : v.x;
            v.y = v.y < -87 ? -87 : v.y;
        }
        const ckci_k_float2 sigmoid = ckci_k_norm_sigmoid(v, e), rest = EXACT ? e * sigmoid : one - sigmoid;
        const ckci_k_float2 of_silu = v * rest + one, front = dy[i] * sigmoid;
        dy[i].x = front.x * (silu ? of_silu.x : rest.x);
        dy[i].y = front.y * (silu ? of_silu.y : rest.y);
    }
}

/* Inverses of eight numbers from 1 to 4: all share one, which AMD computes as slowly as four products. */
CKCI_K_FN void ckci_k_norm_inverses(ckci_k_float2 *x)
{
    const ckci_k_float2 front = x[0] * x[1], back = x[2] * x[3], all = front * back;
    const float inverse = ckci_k_quick_inverse(all.x * all.y);
    const ckci_k_float2 both = {inverse * all.y, inverse * all.x};
    const ckci_k_float2 of_front = both * back, of_back = both * front, first = x[0], third = x[2];
    x[0] = of_front * x[1];
    x[1] = of_front * first;
    x[2] = of_back * x[3];
    x[3] = of_back * third;
}

/* The same for AMD, but for a factor ckci_k_norm_unit. With v in powers of two, e = 2^-|v| and
   q = 1 / (1 + e), sigmoid is q, where v < 0 e*q, and its derivative e*q*q. Where v is NaN, dy' is, but q of
   the others is not: e is a number there. */
template <bool PLANES, bool SILU>
CKCI_K_FN void ckci_k_norm_undo8_amd(const ckci_k_norm_channels<PLANES ? 1 : 8> &c, const ckci_k_float2 *d,
                                     ckci_k_float2 *dy)
{
    const ckci_k_float2 unit = {1.44269504f, 1.44269504f}, far = {1e38f, 1e38f};
    ckci_k_float2 v[4], power[4], e[4], q[4];
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        v[i] = d[i] * ckci_k_norm_two(c.steep, 2 * i) + ckci_k_norm_two(c.start, 2 * i);
        power[i] = {ckci_k_quick_exp2(-ckci_k_abs(v[i].x)), ckci_k_quick_exp2(-ckci_k_abs(v[i].y))};
        e[i] = {ckci_k_unit(power[i].x), ckci_k_unit(power[i].y)};
        q[i] = e[i] * unit + unit;
    }
    ckci_k_norm_inverses(q);
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const ckci_k_float2 front = dy[i] * q[i], ve = v[i] * e[i], sign = v[i] * far;
        const ckci_k_float2 one = {ckci_k_middle(e[i].x, 1, sign.x), ckci_k_middle(e[i].y, 1, sign.y)};
        dy[i] = front * (SILU ? ve * q[i] + one : unit * power[i] * q[i]);
    }
}

/* The same of relu, else gelu. On AMD steep and start are in no other unit then. */
template <bool PLANES, bool RELU>
CKCI_K_FN void ckci_k_norm_unbend8(const ckci_k_norm_channels<PLANES ? 1 : 8> &c, const ckci_k_float2 *d,
                                   ckci_k_float2 *dy)
{
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const ckci_k_float2 scale = ckci_k_norm_two(ckci_k_amd() ? c.steep : c.gamma, 2 * i);
        const ckci_k_float2 shift = ckci_k_norm_two(ckci_k_amd() ? c.start : c.shift, 2 * i);
        ckci_k_norm_unbend<RELU>(d[i] * scale + shift, dy[i]);
    }
}

/* Eight of x become (x - hi)*r, and the activation of dy is undone. TYPE: of dx; 0: any, not known to the
   compiler. */
template <bool PLANES, int TYPE>
CKCI_K_FN void ckci_k_norm_gradient8(const ckci_gpu_norm &p, const ckci_k_norm_channels<PLANES ? 1 : 8> &c,
                                     ckci_k_float2 *d, ckci_k_float2 *dy)
{
    if (ckci_k_amd()) {
        if (p.act == CKCONV_SILU) {
            ckci_k_norm_undo8_amd<PLANES, true>(c, d, dy);
        } else if (p.act == CKCONV_SIGMOID) {
            ckci_k_norm_undo8_amd<PLANES, false>(c, d, dy);
        } else if (p.act == CKCONV_RELU) {
            ckci_k_norm_unbend8<PLANES, true>(c, d, dy);
        } else if (p.act == CKCONV_GELU) {
            ckci_k_norm_unbend8<PLANES, false>(c, d, dy);
        }
        return;
    }
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        d[i] = (d[i] - ckci_k_norm_two(c.hi, 2 * i)) * ckci_k_norm_two(c.r, 2 * i);
    }
    if (__builtin_expect(p.act != CKCONV_PASS, 0)) {
        if (p.act == CKCONV_RELU) {
            ckci_k_norm_unbend8<PLANES, true>(c, d, dy);
        } else if (p.act == CKCONV_GELU) {
            ckci_k_norm_unbend8<PLANES, false>(c, d, dy);
        } else if constexpr (TYPE == 0 || TYPE == CKCONV_F32) {
            ckci_k_norm_undo8<PLANES, true>(c, p.act == CKCONV_SILU, d, dy);
        } else if (p.act == CKCONV_SILU) {
            ckci_k_norm_undo8<PLANES, false>(c, true, d, dy);
        } else {
            ckci_k_norm_undo8<PLANES, true>(c, false, d, dy);
        }
    }
}

/* A stretch of a thread's sums ends (>>k-prim, long sums): channels last, those before lie in its cells,
   channels first, where all eight are one sum, in its place of m.total. fresh: nothing is there yet; end: all
   of it is wanted in sum. */
template <bool PLANES, class T>
CKCI_K_FN void ckci_k_norm_settle8(ckci_k_norm_lds<T> &m, int32_t cell, ckci_k_float2 (&sum)[2][4],
                                   bool fresh, bool end)
{
    CKCI_K_UNROLL(2)
    for (int which = 0; which < 2; which++) {
        if (PLANES) {
            ckci_k_float2 *four = sum[which];
            const ckci_k_float2 two = (four[0] + four[1]) + (four[2] + four[3]), none = {0, 0};
            four[0].x = two.x + two.y;
            four[0].y = 0;
            four[1] = four[2] = four[3] = none;
        }
        CKCI_K_UNROLL(4)
        for (int e = 0; e < (PLANES ? 1 : 4); e++) {
            float part[2] = {sum[which][e].x, sum[which][e].y};
            CKCI_K_UNROLL(2)
            for (int i = 0; i < (PLANES ? 1 : 2); i++) {
                float &whole =
                    PLANES ? m.total[which][threadIdx.x] : m.u.cell[which][(2 * e + i) * 256 + cell];
                float before = fresh ? 0 : whole;
                ckci_k_carry(before, part[i]);
                whole = before;
                part[i] = end ? before + part[i] : part[i];
            }
            sum[which][e].x = part[0];
            sum[which][e].y = part[1];
        }
    }
}

/* Sums of this block, of eight columns of each lane at a time: those of channels to workspace when wanted,
   those of group k, weighted, in m.total. */
template <bool PLANES, class T>
CKCI_K_FN void ckci_k_norm_add8(const ckci_gpu_norm &p, const ckci_k_slab &s, ckci_k_norm_lds<T> &m)
{
    const int32_t t = (int32_t)threadIdx.x, apart = PLANES ? p.lanes_c : 1, cell = ckci_k_norm_cell(p, t);
    const int64_t channels = (int64_t)p.g * p.c, all = (int64_t)p.n * p.parts * channels;
    const int64_t first = ((int64_t)s.n * p.parts + s.part) * channels + s.g0 * p.c;
    ckci_k_norm_cursor<PLANES> x(p, p.x, s), y(p, p.y, s);
    ckci_k_norm_channels<PLANES ? 1 : 8> c;
    if (PLANES) {
        c.groups(p, m, 0);
    }
    float a = 0, b = 0;
    const ckci_k_float2 none = {0, 0};
    const int32_t stretch = CKCI_NORM_CHAIN * p.lanes_p * (PLANES ? 8 : 1);
    for (int32_t j = 0; j < s.columns; j += 8 * p.lanes_c) {
        const int32_t column0 = j + (PLANES ? s.lc : s.lc * 8); /* of eight, `apart` columns apart */
        ckci_k_float2 sum[2][4];
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            sum[0][i] = sum[1][i] = none;
        }
        CKCI_K_UNROLL(1)
        for (int32_t i = 0; i < (PLANES ? 8 : 1); i++) {
            const int32_t column = column0 + i * apart;
            if (!s.active || column >= s.columns) {
                break;
            }
            const auto add = [&](int32_t rest, ckci_k_float2 *d, ckci_k_float2 *dy) {
                ckci_k_norm_gradient8<PLANES, 0>(p, c, d, dy);
                if (PLANES && (ckci_k_amd() ? !p.aligned : rest < 8)) {
                    ckci_k_norm_end(d, rest, 0);
                    ckci_k_norm_end(dy, rest, 0);
                }
                CKCI_K_UNROLL(4)
                for (int e = 0; e < 4; e++) {
                    sum[0][e] = sum[0][e] + dy[e];
                    sum[1][e] = dy[e] * d[e] + sum[1][e];
                }
            };
            ckci_k_slab piece = s;
            CKCI_K_UNROLL(1)
            for (int32_t n = 0;; n++) {
                piece.to = s.to - piece.from > stretch ? piece.from + stretch : s.to;
                ckci_k_norm_walk<PLANES, true, false>(p, piece, m, c, x, y, column, 0, add);
                const bool end = piece.to == s.to;
                if (n > 0 || !end) {
                    ckci_k_norm_settle8<PLANES>(m, cell, sum, n == 0, end);
                    /* to the next stretch of this column, or to the first one of the next column */
                    x.next_stretch(end ? -n : 1, end ? 0 : -1, stretch);
                    y.next_stretch(end ? -n : 1, end ? 0 : -1, stretch);
                }
                if (end) {
                    break;
                }
                piece.from = piece.to;
            }
            if (PLANES) {
                float both[2];
                CKCI_K_UNROLL(2)
                for (int e = 0; e < 2; e++) {
                    both[e] = ((sum[e][0].x + sum[e][0].y) + (sum[e][1].x + sum[e][1].y)) +
                              ((sum[e][2].x + sum[e][2].y) + (sum[e][3].x + sum[e][3].y));
                    CKCI_K_UNROLL(4)
                    for (int f = 0; f < 4; f++) {
                        sum[e][f] = none;
                    }
                }
                if (ckci_k_amd()) {
                    const ckci_gpu_norm &late = ckci_k_late_again(p);
                    const float unit = ckci_k_norm_unit(late);
                    both[0] *= unit;
                    both[1] *= unit * (ckci_k_norm_late_r(late) ? c.r[0] : 1);
                }
                both[1] = ckci_k_norm_hat(m, 0, both[0], both[1]);
                m.u.cell[0][i * 256 + cell] = both[0];
                m.u.cell[1][i * 256 + cell] = both[1];
                a += c.gamma[0] * both[0];
                b += c.gamma[0] * both[1];
            }
        }
        if (!PLANES && s.active && column0 < s.columns) {
            const float unit = ckci_k_norm_unit(p);
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 8; i++) {
                float one = ckci_k_norm_one(sum[0], i), hat = ckci_k_norm_one(sum[1], i);
                if (ckci_k_amd()) {
                    one *= unit;
                    hat *= unit * (ckci_k_norm_late_r(p) ? c.r[i] : 1);
                }
                hat = ckci_k_norm_hat(m, ckci_k_divide(column0 + i, p.by_c), one, hat);
                m.u.cell[0][i * 256 + cell] = one;
                m.u.cell[1][i * 256 + cell] = hat;
                a += c.gamma[i] * one;
                b += c.gamma[i] * hat;
            }
        }
        const ckci_gpu_norm &late = ckci_k_late_again(p);
        if (!late.sums && late.set == 1) {
            continue;
        }
        /* columns i of each lane; channels first, there may be fewer */
        const int32_t kinds = ckci_k_amd() && PLANES && s.columns - j <= late.lanes_c       ? 1
                              : ckci_k_amd() && PLANES && s.columns - j <= 2 * late.lanes_c ? 2
                                                                                            : 8;
        ckci_k_norm_fold8(late, kinds, [&](int32_t to, int32_t from) {
            m.u.cell[0][to] += m.u.cell[0][from];
            m.u.cell[1][to] += m.u.cell[1][from];
        });
        CKCI_K_UNROLL(1)
        for (int32_t i = 0; i < 8 && late.sums && s.active && s.lp == 0; i++) {
            const int32_t column = column0 + i * apart;
            if (column < s.columns) {
                ((float *)late.sums)[first + column] = m.u.cell[0][i * 256 + cell];
                ((float *)late.sums)[all + first + column] = m.u.cell[1][i * 256 + cell];
            }
        }
        if (late.set > 1) { /* all columns at once */
            a = b = 0;
            for (int32_t i = t * late.c; t < s.groups && i < (t + 1) * late.c; i++) {
                float gamma = ckci_k_norm_factor<float>(late, late.gamma, ckci_k_norm_entry(late, s) + i, 1);
                a += gamma * m.u.cell[0][i % 8 * 256 + i / 8];
                b += gamma * m.u.cell[1][i % 8 * 256 + i / 8];
            }
        }
        __syncthreads();
    }
    m.total[0][t] = a;
    m.total[1][t] = b;
    if (p.set == 1) {
        ckci_k_norm_fold(t, 256, 256, [&](int32_t to, int32_t from) {
            m.total[0][to] += m.total[0][from];
            m.total[1][to] += m.total[1][from];
        });
    }
    __syncthreads();
}

/* dx of eight dy', into these. */
template <int N>
CKCI_K_FN void ckci_k_norm_dx8(const ckci_k_norm_channels<N> &c, const ckci_k_float2 *d, ckci_k_float2 *dy)
{
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const ckci_k_float2 gamma = ckci_k_norm_two(c.gamma, 2 * i);
        const ckci_k_float2 product = {ckci_k_product(gamma.x, dy[i].x), ckci_k_product(gamma.y, dy[i].y)};
        dy[i] = ckci_k_norm_two(c.r, 2 * i) *
                ((product - ckci_k_norm_two(c.level, 2 * i)) - d[i] * ckci_k_norm_two(c.slope, 2 * i));
    }
}

template <bool PLANES, class T>
CKCI_K_FN void ckci_k_norm_din8(const ckci_gpu_norm &p, const ckci_k_slab &s, const ckci_k_norm_lds<T> &m)
{
    const int32_t each = PLANES ? 1 : 8;
    ckci_k_norm_cursor<PLANES> x(p, p.x, s), y(p, p.y, s), dx(p, p.dx, s);
    ckci_k_norm_channels<PLANES ? 1 : 8> c;
    const float unit = ckci_k_norm_unit(p);
    if (PLANES) {
        c.groups(p, m, 0);
    }
    /* backwards, as in ckci_k_norm_apply8 */
    const int32_t places = ckci_k_norm_places_of<PLANES>(p, s, x.pos);
    int32_t left = s.active ? ckci_k_norm_columns_of<PLANES>(p, s) : 0;
    x.turn(left, places);
    y.turn(left, places);
    dx.turn(left, places);
    if constexpr (CKCI_K_MAYBE_AMD != 0) {
        x.turn_amd(p, p.x, s, left, places);
        y.turn_amd(p, p.y, s, left, places);
        dx.turn_amd(p, p.dx, s, left, places);
    }
    while (left-- > 0) {
        const int32_t column = (s.lc + left * p.lanes_c) * each;
        const auto write = [&](int32_t rest, ckci_k_float2 *d, ckci_k_float2 *dy) {
            ckci_k_norm_gradient8<PLANES, 0>(p, c, d, dy);
            if (ckci_k_amd() && unit != 1) {
                CKCI_K_UNROLL(4)
                for (int i = 0; i < 4; i++) {
                    dy[i].x = ckci_k_product(unit, dy[i].x);
                    dy[i].y = ckci_k_product(unit, dy[i].y);
                }
            }
            ckci_k_norm_dx8(c, d, dy);
            ckci_k_norm_store8<PLANES>(p, p.dx.dtype, dx.at, rest, dy);
            dx.at += dx.step;
        };
        ckci_k_norm_walk<PLANES, true, true>(p, s, m, c, x, y, column, places, write);
        dx.next_column();
    }
}
