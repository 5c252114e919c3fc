/*------------------------------------------------------------------------------------------------------------
  >>k-bias
  dbias of bwd_weight: dbias[channel] = sum over batch and positions of dout, where no tile of bwd_weight sums
  it. A block owns some channels of one group and a part of the positions; its threads are channels x
  positions, loads of 16 bytes where memory allows, and a fixed tree in LDS adds their sums. Parts lie in
  workspace, [part][channel], and bias_sum adds them in a fixed order: 16 threads share a channel. Without
  workspace a block has all positions. dout's operation acts on what is read; rounding to a compute type does
  not, but i8 stays whole.
*/
#pragma once
#include "kernels/vector/gather.h"

/* A finished sum to its place: what is there is added in f32 (f64), as epilogues add. */
template <class T> CKCI_K_FN void ckci_k_bias_put(const ckci_gpu_vector &o, int32_t channel, T sum)
{
    typedef typename ckci_k_real<T>::type real;
    unsigned char *to = o.out + (int64_t)channel * ckci_k_size(o.dtype);
    if (o.adds) {
        const real v = (real)sum + ckci_k_load<real>(o.dtype, to);
        if constexpr (T(0.5f) == T(0)) {
            sum = ckci_k_int(v, -2147483648.f, 2147483648.f);
        } else {
            sum = v;
        }
    }
    if constexpr (T(0.5f) != T(0)) {
        ckci_k_store(o.dtype, to, sum);
    } else if (o.dtype == CKCONV_I32) {
        *(int32_t *)to = sum;
    } else {
        *to = (unsigned char)(sum < -128 ? -128 : sum > 127 ? 127 : sum);
    }
}

/* The parts of 16 channels in fixed order, of o.parts those that has(channel, part); `room` holds 256. */
template <class T, class Has>
CKCI_K_FN void ckci_k_bias_add(const ckci_gpu_vector &o, int32_t block, T *room, Has has)
{
    const int32_t t = (int32_t)threadIdx.x, channel = block * 16 + (t & 15);
    const T *sums = (const T *)o.sums;
    ckci_k_long_sums<T, 1> whole;
    T sum = 0;
    whole.clear();
    const int32_t end = channel < o.channels ? o.parts : 0;
    CKCI_K_UNROLL(4)
    for (int32_t part = t >> 4; part < end; part += 16) {
        const T more = has(channel, part) ? sums[(int64_t)part * o.channels + channel] : (T)0;
        sum = ckci_k_fma((T)1, more, sum);
        whole.settle(&sum);
    }
    whole.finish(&sum);
    room[t] = sum;
    for (int32_t half = 128; half >= 16; half /= 2) {
        __syncthreads();
        if (t < half) {
            room[t] = ckci_k_fma((T)1, room[t + half], room[t]);
        }
    }
    if (t < 16 && channel < o.channels) {
        ckci_k_bias_put<T>(o, channel, room[t]);
    }
}

template <class T> struct ckci_k_bias_sum {
    struct lds {
        T sum[256];
    };

    static CKCI_K_MEMBER void run(const ckci_gpu_bias &p, lds &m)
    {
        ckci_k_bias_add<T>(p.o, (int32_t)blockIdx.x, m.sum, [](int32_t, int32_t) { return true; });
    }
};

template <class T> struct ckci_k_bias {
    /* numbers of a load: 16 bytes of f16, bf16, f32; of other types one */
    enum {
        WIDE = sizeof(T) == 4 && T(0.5f) != T(0) ? 8 : 1,
        AHEAD = 4,
        STRETCH = CKCI_K_STRETCH / AHEAD / 4
    };
    struct lds {
        T sum[WIDE][256];
    };

    /* What a number counts for. */
    static CKCI_K_MEMBER T value(const ckci_tensor &tensor, T x)
    {
        const ckci_tensor &t = ckci_k_late(tensor);
        if (t.op.kind == CKCONV_PASS) {
            return x;
        }
        if constexpr (T(0.5f) == T(0)) {
            return ckci_k_prepare(t, x);
        } else {
            return ckci_k_element(t.op, x, (T)0);
        }
    }

    static CKCI_K_MEMBER float half(int32_t dtype, uint32_t two, int high)
    {
        return CKCI_K_BF16(dtype == CKCONV_BF16) ? ckci_k_float(high ? two & 0xffff0000u : two << 16)
                                                 : ckci_k_half_float(high ? two >> 16 : two & 0xffffu);
    }

    /* The numbers of a load to the sums, or all to the first one. */
    static CKCI_K_MEMBER void add(const ckci_gpu_bias &p, const ckci_k_uint4 &raw, T (&sum)[WIDE])
    {
        if constexpr (WIDE == 8) {
            const uint32_t word[4] = {raw.x, raw.y, raw.z, raw.w};
            const bool wide = p.t.dtype == CKCONV_F32;
            T x[8];
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 8; i++) {
                x[i] = wide ? i < 4 ? ckci_k_float(word[i % 4]) : 0.f : half(p.t.dtype, word[i / 2], i % 2);
            }
            /* without a branch: gfx90a would keep sums in scratch memory */
            const T all = ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
            CKCI_K_UNROLL(8)
            for (int i = 0; i < 8; i++) {
                sum[i] += !p.along ? x[i] : i == 0 ? all : (T)0;
            }
        } else {
            (void)p;
            (void)raw;
            (void)sum;
        }
    }

    /* Bytes from `at` of a group's first channel to load `load` of positions. */
    static CKCI_K_MEMBER int64_t offset(const ckci_gpu_bias &p, int32_t load)
    {
        const ckci_k_place q = ckci_k_decode(load, p.count[0], p.count[1], p.count[2]);
        const int64_t *s = p.t.stride;
        return (q.n * s[1] + q.z * s[3] + q.y * s[4] + (int64_t)q.x * (p.along ? p.vec : 1) * s[5]) *
               ckci_k_size(p.t.dtype);
    }

    static CKCI_K_MEMBER void run(const ckci_gpu_bias &p, lds &m)
    {
        const int32_t t = (int32_t)threadIdx.x, block = (int32_t)blockIdx.x;
        const int32_t rest = ckci_k_divide(block, p.by_tiles), slice = ckci_k_divide(rest, p.by_g);
        const int32_t tile = block - rest * p.tiles, group = rest - slice * (int32_t)p.by_g.d;
        const int32_t lanes_c = 1 << p.log_c, lanes_p = 256 >> p.log_c, each = p.along ? 1 : p.vec;
        const int32_t lane_c = p.along ? t >> (8 - p.log_c) : t & (lanes_c - 1);
        const int32_t lane_p = p.along ? t & (lanes_p - 1) : t >> p.log_c;
        const int32_t channel = (tile * lanes_c + lane_c) * each, channels = (int32_t)p.t.len[2];
        const int32_t from = slice * p.part + (slice < p.part_rest ? slice : p.part_rest);
        const int32_t to = from + p.part + (slice < p.part_rest ? 1 : 0);
        const unsigned char *at =
            p.t.p + (group * p.t.stride[0] + channel * p.t.stride[2]) * ckci_k_size(p.t.dtype);
        ckci_k_long_sums<T, WIDE> whole;
        T sum[WIDE];
        whole.clear();
        CKCI_K_UNROLL(8)
        for (int i = 0; i < WIDE; i++) {
            sum[i] = 0;
        }
        CKCI_K_UNROLL(1)
        for (int32_t load = channel < channels ? from + lane_p : to; load < to;) {
            CKCI_K_UNROLL(1)
            for (int32_t turn = 0; turn < STRETCH && load < to; turn++) {
                if (WIDE == 8 && p.vec > 1) {
                    ckci_k_uint4 raw[AHEAD] = {};
                    CKCI_K_UNROLL(4)
                    for (int i = 0; i < AHEAD; i++) {
                        if (load + i * lanes_p < to) {
                            raw[i] = *(const ckci_k_uint4 *)(at + offset(p, load + i * lanes_p));
                        }
                    }
                    CKCI_K_UNROLL(4)
                    for (int i = 0; i < AHEAD; i++) {
                        if (load + i * lanes_p < to) {
                            add(p, raw[i], sum);
                        }
                    }
                } else {
                    T x[AHEAD];
                    CKCI_K_UNROLL(4)
                    for (int i = 0; i < AHEAD; i++) {
                        x[i] = load + i * lanes_p < to
                                   ? ckci_k_load<T>(p.t.dtype, at + offset(p, load + i * lanes_p))
                                   : (T)0;
                    }
                    CKCI_K_UNROLL(4)
                    for (int i = 0; i < AHEAD; i++) {
                        if (load + i * lanes_p < to) {
                            sum[0] = ckci_k_fma((T)1, value(p.t, x[i]), sum[0]);
                        }
                    }
                }
                load += AHEAD * lanes_p;
            }
            whole.settle(sum);
        }
        whole.finish(sum);
        const int32_t place = lane_p * lanes_c + lane_c;
        CKCI_K_UNROLL(8)
        for (int i = 0; i < WIDE; i++) {
            m.sum[i][place] = sum[i];
        }
        for (int32_t half = lanes_p / 2; half >= 1; half /= 2) {
            __syncthreads();
            if (lane_p < half) {
                CKCI_K_UNROLL(8)
                for (int i = 0; i < WIDE; i++) {
                    m.sum[i][place] = ckci_k_fma((T)1, m.sum[i][place + half * lanes_c], m.sum[i][place]);
                }
            }
        }
        if (lane_p > 0) {
            return;
        }
        CKCI_K_UNROLL(1)
        for (int i = 0; i < each && channel + i < channels; i++) {
            const int32_t out = group * channels + channel + i;
            const T total = m.sum[i][place];
            if (p.o.sums) {
                ((T *)p.o.sums)[(int64_t)slice * p.o.channels + out] = total;
            } else {
                ckci_k_bias_put<T>(p.o, out, total);
            }
        }
    }
};
