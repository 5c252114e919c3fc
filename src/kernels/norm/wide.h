/*------------------------------------------------------------------------------------------------------------
  >>k-norm-wide
  Eight numbers at once: loads, the ring in LDS, cursors, and moments of all that a block reads. For tensors
  whose eights are aligned, channels last or first; others take the single numbers of >>k-norm-common. Loads
  run ahead: on NVIDIA through a ring in LDS, in which a thread has places of its own, on AMD in registers.
  Threads' sums meet in LDS in a fixed tree.
*/
#pragma once
#include "kernels/depth/common.h"
#include "kernels/norm/common.h"

/* ---- Wide. Are eight of a tensor aligned? Channels last, the planner sees to it. */
template <bool PLANES> CKCI_K_FN bool ckci_k_norm_aligned(const ckci_gpu_norm &p)
{
    return !PLANES || p.aligned;
}

/* Numbers i and i + 1 of eight; of one channel (N is 1), twice the same. */
template <int N> CKCI_K_FN ckci_k_float2 ckci_k_norm_two(const float (&v)[N], int i)
{
    const ckci_k_float2 two = {v[N == 1 ? 0 : i], v[N == 1 ? 0 : i + 1]};
    return two;
}

/* Number i of eight. */
CKCI_K_FN float ckci_k_norm_one(const ckci_k_float2 *v, int i)
{
    return i % 2 ? v[i / 2].y : v[i / 2].x;
}

/* Eight numbers, of which `rest` exist, at least one: the others become `missing`. */
CKCI_K_FN void ckci_k_norm_end(ckci_k_float2 *v, int32_t rest, float missing)
{
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        v[i].x = i == 0 || 2 * i < rest ? v[i].x : missing;
        v[i].y = 2 * i + 1 < rest ? v[i].y : missing;
    }
}

/* Eight neighbouring numbers as they lie in memory, 16 or 32 bytes; `count` of them exist. */
struct ckci_k_norm_raw {
#if defined(CKCI_SIMULATOR) /* gcc does not see that */
    ckci_k_uint4 a = {0, 0, 0, 0}, b = {0, 0, 0, 0};
#else
    ckci_k_uint4 a, b; /* b: of f32 only; both are loaded before they are read */
#endif

    template <bool PLANES>
    CKCI_K_MEMBER void load(const ckci_gpu_norm &p, int32_t dtype, const unsigned char *from, int32_t count)
    {
        if (ckci_k_norm_aligned<PLANES>(p)) {
            a = *(const ckci_k_uint4 *)from;
            if (dtype == CKCONV_F32) {
                b = ((const ckci_k_uint4 *)from)[1];
            }
            return;
        }
        if constexpr (CKCI_K_MAYBE_AMD) {
            if (ckci_k_amd() && count >= 8) { /* single loads of a wave would meet in 16 lines each */
                a = ckci_k_load_loose(from);
                if (dtype == CKCONV_F32) {
                    b = ckci_k_load_loose(from + 16);
                }
                return;
            }
        }
        count = ckci_k_lane_afresh(count);
        if (dtype == CKCONV_F32) {
            const uint32_t *f = (const uint32_t *)from;
            a.x = f[0];
            a.y = 1 < count ? f[1] : 0;
            a.z = 2 < count ? f[2] : 0;
            a.w = 3 < count ? f[3] : 0;
            b.x = 4 < count ? f[4] : 0;
            b.y = 5 < count ? f[5] : 0;
            b.z = 6 < count ? f[6] : 0;
            b.w = 7 < count ? f[7] : 0;
        } else {
            const uint16_t *h = (const uint16_t *)from;
            a.x = h[0] | (1 < count ? (uint32_t)h[1] << 16 : 0);
            a.y = (2 < count ? h[2] : 0) | (3 < count ? (uint32_t)h[3] << 16 : 0);
            a.z = (4 < count ? h[4] : 0) | (5 < count ? (uint32_t)h[5] << 16 : 0);
            a.w = (6 < count ? h[6] : 0) | (7 < count ? (uint32_t)h[7] << 16 : 0);
#if defined(__HIP_DEVICE_COMPILE__) /* any b will do: else the last one is moved to and fro */
            asm volatile("" : "=v"(b.x), "=v"(b.y), "=v"(b.z), "=v"(b.w));
#endif
        }
    }

    /* Eight numbers, two by two. */
    CKCI_K_MEMBER void widen(int32_t dtype, ckci_k_float2 *v) const
    {
        if (dtype == CKCONV_F32) {
            const uint32_t w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                v[i] = {ckci_k_float(w[2 * i]), ckci_k_float(w[2 * i + 1])};
            }
        } else if (dtype == CKCONV_F16) {
            halves<false>(v);
        } else {
            halves<true>(v);
        }
    }

    template <bool BF16> CKCI_K_MEMBER void halves(ckci_k_float2 *v) const
    {
        const uint32_t w[4] = {a.x, a.y, a.z, a.w};
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            float two[2];
            ckci_k_s_half::widen<BF16>(w[i], two);
            v[i] = {two[0], two[1]};
        }
    }

    /* AMD: less hi, of channels c; SCALED: times r, but for f16, whose sums take r at the end. */
    template <bool SCALED, class Channels>
    CKCI_K_MEMBER void differences(int32_t dtype, const Channels &c, ckci_k_float2 *v) const
    {
        if (dtype == CKCONV_F32) {
            widen(CKCONV_F32, v);
            less<SCALED>(c, v);
        } else if (dtype == CKCONV_F16) {
            const uint32_t w[4] = {a.x, a.y, a.z, a.w};
            CKCI_K_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                const ckci_k_float2 hi = ckci_k_norm_two(c.hi, 2 * i);
                v[i] = {ckci_k_half_less(w[i], hi.x), ckci_k_half_less(w[i] >> 16, hi.y)};
            }
        } else {
            widen(CKCONV_BF16, v);
            less<SCALED>(c, v);
        }
    }

    template <bool SCALED, class Channels> static CKCI_K_MEMBER void less(const Channels &c, ckci_k_float2 *v)
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < 4; i++) {
            v[i] = v[i] - ckci_k_norm_two(c.hi, 2 * i);
            v[i] = SCALED ? v[i] * ckci_k_norm_two(c.r, 2 * i) : v[i];
        }
    }
};

/* The same into LDS, without waiting where they are aligned. */
template <bool PLANES>
CKCI_K_FN void ckci_k_norm_copy8(const ckci_gpu_norm &p, int32_t dtype, ckci_k_uint4 *to,
                                 const unsigned char *from, int32_t count)
{
    if (ckci_k_norm_aligned<PLANES>(p)) {
        ckci_k_copy_async<16>((unsigned char *)to, from, true);
        if (dtype == CKCONV_F32) {
            ckci_k_copy_async<16>((unsigned char *)(to + 1), from + 16, true);
        }
        return;
    }
    ckci_k_norm_raw raw = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    raw.load<PLANES>(p, dtype, from, count);
    to[0] = raw.a;
    if (dtype == CKCONV_F32) {
        to[1] = raw.b;
    }
}

/* Where a thread stands in a tensor; bytes from a position to its next one, and from a column. Wide: channels
   first, a block has one group; channels last, columns lie beside each other. */
template <bool PLANES> struct ckci_k_norm_cursor {
    unsigned char *column, *at;
    int64_t step, apart;
    int32_t pos; /* the first one of a column */

    CKCI_K_MEMBER ckci_k_norm_cursor(const ckci_gpu_norm &p, const ckci_tensor &t, const ckci_k_slab &s)
    {
        const int64_t size = ckci_k_size(t.dtype), wide = PLANES ? t.stride[2] : 1;
        const int32_t first = PLANES ? s.lc : s.lc * 8;
        pos = s.from + s.lp * (PLANES ? 8 : 1);
        if (ckci_k_amd()) {
            column = at = place(t, s, first, pos);
        } else {
            column = at = t.p + (ckci_k_norm_base(t, s, 0, 0) + first * wide + pos * t.stride[5]) * size;
        }
        step = p.lanes_p * (PLANES ? 8 : 1) * t.stride[5] * size;
        apart = p.lanes_c * (PLANES ? 1 : 8) * wide * size;
    }

    /* AMD: a channel and a position of the block's first group. Products of 64 bits are slow there. */
    static CKCI_K_MEMBER unsigned char *place(const ckci_tensor &t, const ckci_k_slab &s, int32_t channel,
                                              int32_t position)
    {
        const int64_t base = ckci_k_norm_base(t, s, 0, 0);
        const int64_t there = PLANES ? channel * t.stride[2] + position : channel + position * t.stride[5];
        return t.p + (int64_t)((uint64_t)(base + there) << (t.dtype == CKCONV_F32 ? 2 : 1));
    }

    /* Through this thread's part of what is kept in LDS. */
    CKCI_K_MEMBER ckci_k_norm_cursor(const ckci_tensor &t, const ckci_k_slab &s, unsigned char *kept,
                                     int32_t places)
    {
        const int32_t size = 8 * ckci_k_size(t.dtype);
        pos = s.from + s.lp * (PLANES ? 8 : 1);
        column = at = kept + (int32_t)threadIdx.x * size;
        step = 256 * size;
        apart = places * step;
    }

    CKCI_K_MEMBER void next_column()
    {
        at = column += apart;
    }

    /* Stretches of CKCI_NORM_CHAIN places, and columns, to go. */
    CKCI_K_MEMBER void next_stretch(int32_t stretches, int32_t columns, int32_t positions)
    {
        at = column += stretches * (CKCI_NORM_CHAIN * step) + columns * apart;
        pos += stretches * positions;
    }

    /* From the last of `columns` columns on, and there from the last of `places` places on. */
    CKCI_K_MEMBER void turn(int32_t columns, int32_t places)
    {
        at = column += (columns - 1) * apart + (places - 1) * step;
        apart = -apart;
        step = -step;
    }

    /* AMD: the place that turn has found, anew, as products of 64 bits are slow there. */
    CKCI_K_MEMBER void turn_amd(const ckci_gpu_norm &p, const ckci_tensor &t, const ckci_k_slab &s,
                                int32_t columns, int32_t places)
    {
        if (ckci_k_amd()) {
            const int32_t channel = (s.lc + (columns - 1) * p.lanes_c) * (PLANES ? 1 : 8);
            column = at = place(t, s, channel, pos + (places - 1) * p.lanes_p * (PLANES ? 8 : 1));
        }
    }
};

/* Where x is read. */
template <bool PLANES>
CKCI_K_FN ckci_k_norm_cursor<PLANES> ckci_k_norm_x(const ckci_gpu_norm &p, const ckci_k_slab &s)
{
    return ckci_k_norm_cursor<PLANES>(p, p.x, s);
}
template <bool PLANES>
CKCI_K_FN ckci_k_norm_cursor<PLANES> ckci_k_norm_x(const ckci_gpu_norm &p, const ckci_k_kept_slab &s)
{
    return ckci_k_norm_cursor<PLANES>(p.x, s, s.x, s.places);
}

/* Places of this thread in a column; columns of this thread. */
template <bool PLANES>
CKCI_K_FN int32_t ckci_k_norm_places_of(const ckci_gpu_norm &p, const ckci_k_slab &s, int32_t pos)
{
    const int32_t rest = PLANES ? (s.to - pos + 7) >> 3 : s.to - pos;
    return rest > 0 ? ckci_k_divide(rest + p.lanes_p - 1, p.by_lanes_p) : 0;
}
template <bool PLANES> CKCI_K_FN int32_t ckci_k_norm_columns_of(const ckci_gpu_norm &p, const ckci_k_slab &s)
{
    if (PLANES) { /* all channels of one group */
        return p.chunks - (s.lc + (p.chunks - 1) * p.lanes_c < s.columns ? 0 : 1);
    }
    const int32_t eights = s.columns / 8 - s.lc;
    return eights > 0 ? ckci_k_divide(eights + p.lanes_c - 1, p.by_fast) : 0;
}

template <bool PLANES>
CKCI_K_FN void ckci_k_norm_store8(const ckci_gpu_norm &p, int32_t dtype, unsigned char *to, int32_t count,
                                  const ckci_k_float2 *v)
{
    const bool aligned = __builtin_expect(ckci_k_norm_aligned<PLANES>(p), 1);
    const bool loose = CKCI_K_MAYBE_AMD && ckci_k_amd() && count >= 8;
    if (dtype == CKCONV_F32) {
        const ckci_k_uint4 a = {ckci_k_bits(v[0].x), ckci_k_bits(v[0].y), ckci_k_bits(v[1].x),
                                ckci_k_bits(v[1].y)};
        const ckci_k_uint4 b = {ckci_k_bits(v[2].x), ckci_k_bits(v[2].y), ckci_k_bits(v[3].x),
                                ckci_k_bits(v[3].y)};
        if (aligned) {
            ((ckci_k_uint4 *)to)[0] = a;
            ((ckci_k_uint4 *)to)[1] = b;
            return;
        }
        if (loose) {
            ckci_k_store_loose(to, a);
            ckci_k_store_loose(to + 16, b);
            return;
        }
        count = ckci_k_lane_afresh(count);
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            if (i < count) {
                ((float *)to)[i] = ckci_k_norm_one(v, i);
            }
        }
        return;
    }
    const ckci_k_uint4 a = {
        ckci_k_two(dtype, ckci_k_bits(v[0].x), ckci_k_bits(v[0].y)),
        ckci_k_two(dtype, ckci_k_bits(v[1].x), ckci_k_bits(v[1].y)),
        ckci_k_two(dtype, ckci_k_bits(v[2].x), ckci_k_bits(v[2].y)),
        ckci_k_two(dtype, ckci_k_bits(v[3].x), ckci_k_bits(v[3].y)),
    };
    if (aligned) {
        *(ckci_k_uint4 *)to = a;
        return;
    }
    if (loose) {
        ckci_k_store_loose(to, a);
        return;
    }
    const uint32_t w[4] = {a.x, a.y, a.z, a.w};
    count = ckci_k_lane_afresh(count);
    CKCI_K_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        if (i < count) {
            ((uint16_t *)to)[i] = (uint16_t)(w[i / 2] >> 16 * (i % 2));
        }
    }
}

/* May loads go through the ring? */
CKCI_K_FN bool ckci_k_norm_rings()
{
#if defined(CKCI_SIMULATOR)
    return sim_device.kind == CKCONV_DEVICE_NVIDIA;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return true;
#else
    return false;
#endif
}

/* Channels last: eights of x, and of dy, of one place after the other, on their way through the ring. */
template <bool DY> struct ckci_k_norm_ahead {
    ckci_k_uint4 *ring;
    int32_t each[2], all, depth, from, to, left; /* vectors of a place; places in the ring, not yet loaded */

    CKCI_K_MEMBER ckci_k_norm_ahead(const ckci_gpu_norm &p, ckci_k_uint4 *of, int32_t places)
    {
        ring = of + threadIdx.x;
        each[0] = p.x.dtype == CKCONV_F32 ? 2 : 1;
        each[1] = !DY ? 0 : p.y.dtype == CKCONV_F32 ? 2 : 1;
        all = each[0] + each[1];
        depth = all == 1 ? 8 : all == 2 ? 4 : 2;
        from = to = 0;
        left = places;
    }

    /* Loads the next place, if there is one. */
    CKCI_K_MEMBER void load(ckci_k_norm_cursor<false> &x, ckci_k_norm_cursor<false> &y)
    {
        if (left-- > 0) {
            ckci_k_uint4 *at = ring + to * 256;
            for (int32_t i = 0; i < each[0]; i++, at += 256) {
                ckci_k_copy_async<16>((unsigned char *)at, x.at + i * 16, true);
            }
            x.at += x.step;
            if (DY) {
                for (int32_t i = 0; i < each[1]; i++, at += 256) {
                    ckci_k_copy_async<16>((unsigned char *)at, y.at + i * 16, true);
                }
                y.at += y.step;
            }
        }
        ckci_k_copies_end();
        to = to + 2 * all > 8 ? 0 : to + all;
    }

    /* The oldest place; dy's is loaded after x's. */
    CKCI_K_MEMBER void take(const ckci_gpu_norm &p, ckci_k_norm_raw &x, ckci_k_norm_raw &dy)
    {
        if (all == 1) {
            ckci_k_copies_wait<7>();
        } else if (all == 2) {
            ckci_k_copies_wait<3>();
        } else {
            ckci_k_copies_wait<1>();
        }
        const ckci_k_uint4 *at = ring + from * 256;
        x.a = at[0];
        if (p.x.dtype == CKCONV_F32) {
            x.b = at[256];
        }
        if (DY) {
            at += each[0] * 256;
            dy.a = at[0];
            if (p.y.dtype == CKCONV_F32) {
                dy.b = at[256];
            }
        }
        from = from + 2 * all > 8 ? 0 : from + all;
    }
};

/* body(how many positions are left, eight of x, eight of dy) at places of this thread in a column; loads are
   ahead, between() comes after the first ones. widen(raw, v): x as body takes it. rest: positions from the
   first place on. DY: dy is read too. TURNED: from the last of `places` places to the first, as the cursors
   then go. */
template <bool PLANES, bool DY, bool TURNED, class T, class Between, class Widen, class Body>
CKCI_K_FN void ckci_k_norm_each(const ckci_gpu_norm &p, const ckci_k_slab &s, const ckci_k_norm_lds<T> &m,
                                ckci_k_norm_cursor<PLANES> &x, ckci_k_norm_cursor<PLANES> &y, int32_t places,
                                const Between &between, const Widen &widen, const Body &body)
{
    const int32_t step = p.lanes_p * (PLANES ? 8 : 1);
    int32_t rest = s.to - x.pos;
    if constexpr (TURNED) { /* of the last place; 0 or less: there is none */
        rest -= places > 0 ? (places - 1) * step : 0;
    }
    ckci_k_norm_raw raw, raw_dy;
    ckci_k_float2 v[4], w[4];
    if constexpr (!PLANES && CKCI_K_NORM_RING > 0) {
        if (ckci_k_norm_rings()) {
            typedef ckci_k_norm_room<T, CKCI_K_NORM_RING> room;
            int32_t count = TURNED ? places : ckci_k_norm_places_of<PLANES>(p, s, x.pos);
            ckci_k_norm_ahead<DY> ahead(p, const_cast<room &>(static_cast<const room &>(m)).ring, count);
            CKCI_K_UNROLL(1)
            for (int32_t i = 0; i < ahead.depth; i++) {
                ahead.load(x, y);
            }
            between();
            for (; count > 0; count--, rest += TURNED ? step : -step) {
                ahead.take(p, raw, raw_dy);
                widen(raw, v);
                if (DY) {
                    raw_dy.widen(p.y.dtype, w);
                }
                ahead.load(x, y);
                body(rest, v, w);
            }
            return;
        }
    }
    if (rest > 0) {
        raw.load<PLANES>(p, p.x.dtype, x.at, rest);
        if (DY) {
            raw_dy.load<PLANES>(p, p.y.dtype, y.at, rest);
        }
    }
    between();
    for (; TURNED ? places > 0 : rest > 0; rest += TURNED ? step : -step) {
        widen(raw, v);
        if (DY) {
            raw_dy.widen(p.y.dtype, w);
        }
        if (TURNED ? --places > 0 : rest > step) {
            const int32_t then = TURNED ? rest + step : rest - step;
            x.at += x.step;
            raw.load<PLANES>(p, p.x.dtype, x.at, then);
            if (DY) {
                y.at += y.step;
                raw_dy.load<PLANES>(p, p.y.dtype, y.at, then);
            }
        }
        body(rest, v, w);
    }
}

/* Where thread t has its entries among 256 of one kind. Channels first, 32 of several channels are read
   together: in LDS they lie in different banks. */
CKCI_K_FN int32_t ckci_k_norm_cell(const ckci_gpu_norm &p, int32_t t)
{
    return p.along_x ? t ^ t / 32 * 4 : t;
}

/* Entries of eight channels of each thread, added over the threads of a channel: those of lane_p 0 are the
   sums. 32 threads share the entries of a kind, `several` of them a channel; the first `kinds` kinds are
   wanted. join(to, from) */
template <class F> CKCI_K_FN void ckci_k_norm_fold8(const ckci_gpu_norm &p, int32_t kinds, const F &join)
{
    const int32_t t = (int32_t)threadIdx.x % 32, kind = (int32_t)threadIdx.x / 32 * 256;
    const int32_t all = p.lanes_c * p.lanes_p, lane_p = p.along_x ? 1 : p.lanes_c;
    int32_t several = 1, log = 0;
    while (2 * several * p.lanes_c <= 32 && 2 * several <= p.lanes_p) {
        several *= 2;
        log++;
    }
    const int32_t apart = several * lane_p, first = p.along_x ? t & (several - 1) : 0;
    const int32_t mine = p.along_x ? (t >> log) * p.lanes_p + first : t;
    const auto add = [&](int32_t to, int32_t from) {
        join(kind + ckci_k_norm_cell(p, to), kind + ckci_k_norm_cell(p, from));
    };
    const bool wanted = kinds >= 8 || (int32_t)threadIdx.x / 32 < kinds;
    __syncthreads();
    for (int32_t to = wanted ? mine : all; to < (p.along_x ? all : apart);
         to += p.along_x ? (32 >> log) * p.lanes_p : 32) {
        const int32_t end = p.along_x ? to - first + p.lanes_p : all;
        for (int32_t from = to + apart; from < end; from += apart) {
            add(to, from);
        }
    }
    for (int32_t half = several / 2; half > 0; half /= 2) {
        __syncthreads();
        if (wanted && (p.along_x ? mine < all && first < half : t < half * lane_p)) {
            add(mine, mine + half * lane_p);
        }
    }
    __syncthreads();
}

/* The first numbers of the groups of eight columns, channels last: groups follow each other. */
CKCI_K_FN void ckci_k_norm_pivots(const ckci_gpu_norm &p, const unsigned char *first, int32_t column,
                                  float (&pivot)[8])
{
    uint32_t bits[8];
    CKCI_K_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        bits[i] = (uint32_t)(ckci_k_divide(column + i, p.by_c) * p.c);
    }
    if (p.x.dtype == CKCONV_F32) {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            pivot[i] = ((const float *)first)[bits[i]];
        }
        return;
    }
    CKCI_K_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        bits[i] = ((const uint16_t *)first)[bits[i]];
    }
    CKCI_K_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        pivot[i] = ckci_k_norm_number(p.x.dtype, bits[i]);
    }
}

/* Moments of all that this block reads: those of group k become m.u.of[k]. PLANES: channels first. */
template <bool PLANES, class S, class T>
CKCI_K_FN void ckci_k_norm_gather8(const ckci_gpu_norm &p, const S &s, ckci_k_norm_lds<T> &m)
{
    const int32_t t = (int32_t)threadIdx.x, each = PLANES ? 1 : 8;
    const int64_t size = ckci_k_size(p.x.dtype);
    double sum[8] = {0, 0, 0, 0, 0, 0, 0, 0}, square[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    const unsigned char *first = p.x.p + ckci_k_norm_base(p.x, s, 0, 0) * size;
    ckci_k_norm_cursor<PLANES> x = ckci_k_norm_x<PLANES>(p, s);
    float pivot[8];
    pivot[0] = ckci_k_norm_load1(p.x.dtype, first, 0);
    for (int32_t column = s.lc * each; s.active && column < s.columns; column += p.lanes_c * each) {
        if (!PLANES) {
            ckci_k_norm_pivots(p, first, column, pivot);
        }
        ckci_k_norm_each<PLANES, false, false>(
            p, s, m, x, x, 0, [] {},
            [&](const ckci_k_norm_raw &raw, ckci_k_float2 *v) { raw.widen(p.x.dtype, v); },
            [&](int32_t rest, ckci_k_float2 *v, const ckci_k_float2 *) {
                if (PLANES && rest < 8) {
                    ckci_k_norm_end(v, rest, pivot[0]);
                }
                CKCI_K_UNROLL(8)
                for (int i = 0; i < 8; i++) {
                    const double d = (double)ckci_k_norm_one(v, i) - (double)pivot[PLANES ? 0 : i];
                    sum[i] += d;
                    square[i] += d * d;
                }
            });
        x.next_column();
    }
    if (p.set == 1) {
        ckci_k_moments all = {0, 0};
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            all.sum += sum[i];
            all.square += square[i];
        }
        m.u.of[t] = all;
        ckci_k_norm_fold(t, 256, 256,
                         [&](int32_t to, int32_t from) { ckci_k_norm_join(m.u.of[to], m.u.of[from]); });
        return;
    }
    ckci_k_moments of = {0, 0};
    CKCI_K_UNROLL(1)
    for (int which = 0; which < 2; which++) {
        CKCI_K_UNROLL(8)
        for (int i = 0; i < 8; i++) {
            m.u.moment[i * 256 + t] = which ? square[i] : sum[i];
        }
        ckci_k_norm_fold8(p, 8, [&](int32_t to, int32_t from) { m.u.moment[to] += m.u.moment[from]; });
        double all = 0;
        for (int32_t c = t * p.c; t < s.groups && c < (t + 1) * p.c; c++) {
            all += m.u.moment[c % 8 * 256 + c / 8];
        }
        of.sum = which ? of.sum : all;
        of.square = all;
        __syncthreads();
    }
    m.u.of[t] = of;
    __syncthreads();
}

/* m.u.of[k * length] becomes the moments of group k; returns length. */
template <int W, class S, class T>
CKCI_K_FN int32_t ckci_k_norm_gather(const ckci_gpu_norm &p, const S &s, ckci_k_norm_lds<T> &m)
{
    int32_t t = (int32_t)threadIdx.x, length = (int32_t)p.by_segment.d, total = p.lanes_c * p.lanes_p;
    int32_t k = ckci_k_divide(t, p.by_segment);
    if constexpr (W != CKCI_K_NORM_ANY) {
        ckci_k_norm_gather8<W == CKCI_K_NORM_PLANES>(p, s, m);
        return 1;
    }
    if (s.active) {
        m.u.of[s.lc * p.lanes_p + s.lp] = ckci_k_norm_read<T>(p, s);
    }
    ckci_k_norm_fold(t - k * length, length, total,
                     [&](int32_t to, int32_t from) { ckci_k_norm_join(m.u.of[to], m.u.of[from]); });
    return length;
}
