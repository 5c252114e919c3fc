/*------------------------------------------------------------------------------------------------------------
  >>k-depth-window
  What a thread reads of a row, a ring of such windows on their way from memory, and the store of a finished
  strip. For the kernels that keep rows in registers (walk, column and their gradients). NVIDIA's loads wait
  in LDS, each thread's in places of its own, so that no barrier is needed; AMD's wait in registers.
*/
#pragma once
#include "kernels/depth/common.h"
#include "kernels/depth/epilogue.h"

/* What a thread reads of a row: N channels-last positions of V channels, or pieces of 4 neighbours of a
   plane, one load each where that is aligned (vec). mask: the positions that exist; pieces exist as a whole
   then. channels: those that exist. */
template <class S, int V, int N, bool PLANES> struct ckci_k_depth_window {
    typedef typename S::T T;
    enum { PER = PLANES ? 4 : V, COUNT = PLANES ? N / 4 : N, BYTES = PER * S::SIZE, SIZE = S::SIZE };
    enum { PLANE = PLANES, ALL = (1 << N) - 1 };
    ckci_k_vec<S, PER> raw[COUNT];

    static CKCI_K_MEMBER bool inside(uint32_t mask, int i)
    {
        return mask >> (PLANES ? 4 * i : i) & 1;
    }

    /* word i of a piece */
    static CKCI_K_MEMBER bool inside_word(uint32_t mask, int i, int word)
    {
        return mask >> (PLANES ? 4 * i + word * 4 / (int)S::SIZE : i) & 1;
    }

    static CKCI_K_MEMBER int32_t step_of(int32_t step)
    {
        return PLANES ? (int32_t)BYTES : step;
    }

    /* at: bytes from src on */
    CKCI_K_MEMBER void load(const unsigned char *src, int32_t at, int32_t step, uint32_t mask, int32_t vec,
                            int32_t channels)
    {
        if (vec != 2) {
            CKCI_K_UNROLL(32)
            for (int i = 0; i < COUNT * PER; i++) {
                int x = PLANES ? i : i / V, channel = PLANES ? 0 : i % V;
                uint32_t one = 0;
                if (mask >> x & 1 && channel < channels) {
                    int32_t offset = at + x * (PLANES ? (int32_t)S::SIZE : step) + channel * (int32_t)S::SIZE;
                    one = ckci_k_load_bits(src + offset, S::SIZE);
                }
                if constexpr (S::SIZE == 2) {
                    uint32_t &pair = raw[i / PER].w[i % PER / 2];
                    pair = i % PER % 2 ? pair | one << 16 : one;
                } else {
                    raw[i / PER].w[i % PER] = one;
                }
            }
            return;
        }
        CKCI_K_UNROLL(16)
        for (int i = 0; i < COUNT; i++) {
            if (inside(mask, i)) {
                raw[i].load(src + (at + step_of(step) * i));
            } else {
                raw[i].clear();
            }
        }
    }

    CKCI_K_MEMBER void widen(T *v, int32_t bf16) const
    {
        ckci_k_depth_widen<COUNT>(raw, v, bf16);
    }
};

/* Windows on their way from memory. NVIDIA's loads can go past the registers (ASYNC): DEPTH - 1 windows are
   under way in LDS, each thread's in places of its own, so that no barrier is needed; AMD's are one, in
   registers. */
enum { CKCI_K_DEPTH_AHEAD = 4 };

template <class W, bool ASYNC, int DEPTH, int HELD = 1> struct ckci_k_depth_ring {
    enum { AHEAD = DEPTH - 1, PLACE = W::BYTES, ROW = W::COUNT * 256 * W::BYTES };

    struct lds {
        alignas(16) unsigned char place[DEPTH * ROW];
    };

    unsigned char *mine;
    int32_t write, read;

    CKCI_K_MEMBER void start(lds &m)
    {
        mine = m.place + threadIdx.x * PLACE;
        write = read = 0;
        W none;
        CKCI_K_UNROLL(1)
        for (int32_t k = 0; k < DEPTH; k++) {
            CKCI_K_UNROLL(16)
            for (int i = 0; i < W::COUNT; i++) {
                none.raw[i].clear();
                none.raw[i].store(mine + k * ROW + i * 256 * PLACE);
            }
        }
    }

    /* mask: the same each time; inside: whether there is such a row; vec: 0: element by element (no f32), 1:
       in words of 4 bytes, 2: in pieces */
    CKCI_K_MEMBER void push(const unsigned char *src, int32_t at, int32_t step, uint32_t mask, bool inside,
                            int32_t vec, int32_t channels)
    {
        unsigned char *to = mine + write;
        const unsigned char *from = src + (inside ? at : 0);     /* even a copy of nothing has an address */
        if (vec == 2 && !W::PLANE && mask == (uint32_t)W::ALL) { /* most waves */
            CKCI_K_UNROLL(16)
            for (int i = 0; i < W::COUNT; i++) {
                ckci_k_copy_async<PLACE>(to + i * 256 * PLACE, from, inside);
                from += (uint32_t)W::step_of(step);
            }
        } else if (vec == 2) {
            CKCI_K_UNROLL(16)
            for (int i = 0; i < W::COUNT; i++) {
                if (W::inside(mask, i)) {
                    ckci_k_copy_async<PLACE>(to + i * 256 * PLACE, from, inside);
                }
                from += (uint32_t)W::step_of(step);
            }
        } else if (W::SIZE == 4 || (W::PLANE && vec == 1)) {
            CKCI_K_UNROLL(1)
            for (int i = 0; i < W::COUNT; i++) {
                CKCI_K_UNROLL(4)
                for (int k = 0; k < PLACE / 4; k++) {
                    if (W::inside_word(mask, i, k) && (k < 1 || W::PLANE || k * 4 / W::SIZE < channels)) {
                        ckci_k_copy_async<4>(to + i * 256 * PLACE + 4 * k, from + 4 * k, inside);
                    }
                }
                from += (uint32_t)W::step_of(step);
            }
        } else if constexpr (W::SIZE != 4) {
            W w;
            w.load(src, at, step, inside ? mask : 0, 0, channels);
            CKCI_K_UNROLL(16)
            for (int i = 0; i < W::COUNT; i++) {
                w.raw[i].store(to + i * 256 * PLACE);
            }
        }
        write = write == (DEPTH - 1) * ROW ? 0 : write + ROW;
    }

    CKCI_K_MEMBER void pop(W &w)
    {
        CKCI_K_UNROLL(16)
        for (int i = 0; i < W::COUNT; i++) {
            w.raw[i].load(mine + read + i * 256 * PLACE);
        }
        read = read == (DEPTH - 1) * ROW ? 0 : read + ROW;
    }
};

template <class W, int DEPTH, int HELD> struct ckci_k_depth_ring<W, false, DEPTH, HELD> {
    enum { AHEAD = HELD };

    struct lds {
        int32_t unused;
    };

    W held;

    CKCI_K_MEMBER void start(lds &)
    {
    }

    CKCI_K_MEMBER void push(const unsigned char *src, int32_t at, int32_t step, uint32_t mask, bool inside,
                            int32_t vec, int32_t channels)
    {
        held.load(src, at, step, inside ? mask : 0, vec, channels);
    }

    CKCI_K_MEMBER void pop(W &w)
    {
        w = held;
    }
};

/* Positions x, x + 1, ... that lie in a row. */
CKCI_K_FN uint32_t ckci_k_depth_inside(int32_t x, int32_t length, int count)
{
    const int32_t before = x < -count ? count : x < 0 ? -x : 0; /* shifts by less than 32 */
    const int32_t end = length - x < count ? length - x : count;
    return end > before ? (1u << end) - (1u << before) : 0;
}

/* Byte offset of (channel, n, z, y, x): tensors of those that walk have less than 2^31. */
template <class S>
CKCI_K_FN int32_t ckci_k_depth_at(const ckci_tensor &t, int32_t channel, const ckci_k_place &q)
{
    return (int32_t)(uint32_t)((q.n * t.stride[1] + channel * t.stride[0] + q.z * t.stride[3] +
                                q.y * t.stride[4] + q.x * t.stride[5]) *
                               S::SIZE);
}

/* Sums c of XO outputs of V channels that are complete: their place as bytes (to) and as where() tells; left:
   outputs from the first one to the end of the row; ahead: what is ready of their epilogue. */
template <class S, int V, int XO, bool PLANES, class Where, class Ahead = ckci_k_depth_ahead<S, V, XO, 0>>
CKCI_K_FN void ckci_k_depth_row_write(const ckci_gpu_depth &args, const typename S::T *c, int32_t to,
                                      int32_t channel, int32_t left, const Where &where,
                                      const Ahead &ahead = {})
{
    const ckci_gpu_depth &p = ckci_k_late(args);
    typedef typename S::T T;
    typedef ckci_k_depth_window<S, V, XO, PLANES> window;
    constexpr int PER = window::PER, COUNT = XO * V / PER;
    if (p.o_same) {
        ckci_k_vec<S, PER> v[COUNT];
        const int32_t step = (int32_t)p.o.t.stride[5] * (int32_t)S::SIZE;
        if (p.o.form == CKCI_FORM_STORE) {
            ckci_k_depth_narrow<COUNT>(v, c, p.bf16);
        } else {
            T e[XO * V];
            CKCI_K_UNROLL(32)
            for (int i = 0; i < XO * V; i++) {
                e[i] = c[i];
            }
            if (ahead.takes(p)) {
                ahead.finish(p, e);
            } else {
                ckci_k_depth_epilogue<S, V, XO, PLANES>(p, e, to, PLANES ? (int64_t)S::SIZE : (int64_t)step,
                                                        channel, left, ahead.listed(p));
            }
            ckci_k_depth_narrow<COUNT>(v, e, p.bf16);
        }
        unsigned char *dst = p.o.t.p + to;
        if (p.o_vec && !PLANES && left >= XO) { /* most waves: no tests, offsets of 32 bits */
            CKCI_K_UNROLL(8)
            for (int i = 0; i < COUNT; i++) {
                v[i].store(p.o.t.p + (uint32_t)(to + i * step));
            }
            return;
        }
        if (p.o_vec) {
            CKCI_K_UNROLL(8)
            for (int i = 0; i < COUNT; i++) {
                if ((PLANES ? 4 * i : i) < left) {
                    v[i].store(dst);
                }
                dst += (uint32_t)window::step_of(step);
            }
            return;
        }
        const int32_t channels = ckci_k_lane_afresh(p.g - channel);
        CKCI_K_UNROLL(1)
        for (int i = 0; i < COUNT; i++) { /* always the first piece, which the others follow */
            CKCI_K_UNROLL(8)
            for (int k = 0; k < PER; k++) {
                ckci_k_vec<S, 1> one;
                one.w[0] = S::SIZE == 4 ? v[0].w[k] : k % 2 ? v[0].w[k / 2] >> 16 : v[0].w[k / 2];
                if (PLANES ? 4 * i + k < left : i < left && k < channels) {
                    one.store(dst + k * (int32_t)S::SIZE);
                }
            }
            dst += (uint32_t)window::step_of(step);
            CKCI_K_UNROLL(16)
            for (int k = 0; k + 1 < COUNT; k++) {
                v[k] = v[k + 1];
            }
        }
        return;
    }
    const ckci_k_place q = where();
    CKCI_K_UNROLL(1)
    for (int i = 0; i < XO * V; i++) {
        if (i / V < left && channel + i % V < p.g) {
            ckci_k_place at = {q.n, q.z, q.y, q.x + i / V};
            ckci_k_depth_write<false, T>(p, ckci_k_pick<T, XO * V>(c, i), channel + i % V, at);
        }
    }
}
