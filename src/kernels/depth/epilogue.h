/*------------------------------------------------------------------------------------------------------------
  >>k-depth-epilogue
  The epilogue of a strip: XO outputs of V channels that a thread holds in registers, in the closed form
  (ckci_set_form in gpu/conv.h). Channels are groups here. What D tensors have for a channel is loaded once
  for the strip, or, by kernels with room for it, for all strips, to LDS; D tensors that lie as the output are
  loaded in the pieces in which it is stored. Kernels that have registers for it load all this before the sums
  are ready (ckci_k_depth_ahead); those that keep strips in other ways write element by element
  (ckci_k_depth_write in kernels/depth/common.h).
*/
#pragma once
#include "kernels/depth/common.h"

/* Has the epilogue numbers of each channel, and a residual at most? */
CKCI_K_FN bool ckci_k_depth_has_numbers(const ckci_gpu_target &o)
{
    return o.residual != CKCI_RESIDUAL_ANY;
}

/* What those are for one channel: a factor of its sums, and what is added, beta in it. */
template <class T> CKCI_K_FN void ckci_k_depth_numbers(const ckci_gpu_target &o, int32_t channel, T *to)
{
    T factor = 1, sum = 0;
    CKCI_K_UNROLL(1)
    for (int j = 0; j < o.adds; j++) {
        const ckci_gpu_extra &t = o.d[j];
        if (t.line == CKCI_LINE_CHANNELS) {
            T d;
            ckci_k_load_number(t.dtype, t.p + channel * t.stride[2] * ckci_k_size(t.dtype), d);
            if (t.how == CKCI_EXTRA_MULTIPLY) {
                factor *= d;
            } else {
                sum = ckci_k_fma(ckci_k_closed<T>(o).beta, d, sum);
            }
        }
    }
    to[0] = factor;
    to[1] = sum;
}

/* And what they do to N sums of V channels, whose numbers lie beside each other. */
template <int V, int N, class T>
CKCI_K_FN void ckci_k_depth_scale(const ckci_gpu_target &o, const T *number, T (&x)[N])
{
    const T alpha = ckci_k_closed<T>(o).alpha;
    CKCI_K_UNROLL(32)
    for (int i = 0; i < N; i++) {
        x[i] = ckci_k_fma(alpha, x[i] * number[i % V * 2], number[i % V * 2 + 1]);
    }
}

/* The epilogue of XO outputs of V channels, in any form but SINGLE (p.o_same). Outputs are x_step bytes
   apart, the first one `to` bytes from the tensor's begin; left: those that exist. D tensors that lie as the
   output are of its type and loaded as it is stored. number: in LDS, of the channels; NULL: nowhere. */
template <class S, int V, int XO, bool PLANES, bool GELU = false>
CKCI_K_FN void ckci_k_depth_epilogue(const ckci_gpu_depth &p, typename S::T (&e)[XO * V], int64_t to,
                                     int64_t x_step, int32_t channel, int32_t left,
                                     const typename S::T *number = nullptr)
{
    typedef typename S::T T;
    constexpr int PER = PLANES ? 4 : V, COUNT = XO * V / PER;
    const ckci_gpu_target &o = p.o;
    const T alpha = ckci_k_closed<T>(o).alpha;
    T d[V];
    if (o.scale || o.shift) {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < V; i++) {
            const bool good = channel + i < p.g;
            const T scale = good && o.scale ? ((const T *)o.scale)[channel + i] : (T)1;
            d[i] = good && o.shift ? ((const T *)o.shift)[channel + i] : (T)0;
            CKCI_K_UNROLL(8)
            for (int x = 0; x < XO; x++) {
                e[x * V + i] = e[x * V + i] * scale + d[i];
            }
        }
    }
    if (number) {
        ckci_k_depth_scale<V>(o, number, e);
    } else {
        CKCI_K_UNROLL(32)
        for (int i = 0; i < XO * V; i++) {
            e[i] *= alpha;
        }
    }
    CKCI_K_UNROLL(1)
    for (int j = 0; j < o.adds; j++) {
        const ckci_gpu_extra &t = o.d[j];
        if (t.line == CKCI_LINE_CHANNELS && number) {
            continue;
        }
        if (t.line == CKCI_LINE_CHANNELS) {
            const int32_t size = t.dtype == CKCONV_F32 ? 4 : sizeof(T) == 8 ? 8 : 2;
            CKCI_K_UNROLL(4)
            for (int i = 0; i < V; i++) {
                d[i] = 0;
                if (channel + i < p.g) {
                    ckci_k_load_number(t.dtype, t.p + (channel + i) * t.stride[2] * size, d[i]);
                }
            }
            const bool factor = t.how == CKCI_EXTRA_MULTIPLY;
            const T beta = ckci_k_closed<T>(o).beta;
            CKCI_K_UNROLL(32)
            for (int i = 0; i < XO * V; i++) {
                const T more = d[PLANES ? 0 : i % V];
                e[i] = factor ? e[i] * more : ckci_k_fma(beta, more, e[i]);
            }
            continue;
        }
        ckci_k_vec<S, PER> w[COUNT];
        const unsigned char *from = t.p + to;
        CKCI_K_UNROLL(8)
        for (int i = 0; i < COUNT; i++) {
            w[i].clear();
            if ((PLANES ? 4 * i : i) >= left) {
                continue;
            }
            if (p.o_vec) {
                w[i].load(from + (PLANES ? 4 * i : i) * x_step);
                continue;
            }
            CKCI_K_UNROLL(4)
            for (int k = 0; k < PER; k++) {
                if (PLANES ? 4 * i + k < left : channel + k < p.g) {
                    const int64_t at = PLANES ? (4 * i + k) * x_step : i * x_step + k * (int64_t)S::SIZE;
                    if constexpr (S::SIZE == 2) {
                        w[i].w[k / 2] |= ckci_k_load_bits(from + at, 2) << k % 2 * 16;
                    } else if constexpr (S::SIZE == 4) {
                        w[i].w[k] = ckci_k_load_bits(from + at, 4);
                    } else {
                        w[i].w[2 * k] = ckci_k_load_bits(from + at, 4);
                        w[i].w[2 * k + 1] = ckci_k_load_bits(from + at + 4, 4);
                    }
                }
            }
        }
        T more[XO * V];
        ckci_k_depth_widen<COUNT>(w, more, p.bf16);
        ckci_k_join<true>(o, t, more, e);
    }
    if (o.form == CKCI_FORM_CURVED) {
        ckci_k_bend<GELU ? CKCI_K_OPS_ALL : CKCI_K_OPS_PLAIN>(o.t.op, e);
    }
    ckci_k_limit(o, e);
}

/* What strips of a thread's channels need of D tensors where p.o.residual is not negative, loaded before
   their sums are ready: of those with a number for each channel the sum, once for all strips; of the residual
   its pieces (p.o_vec). READY: 0: nothing is; 2: where there are factors, numbers in LDS. */
template <class S, int V, int XO, int READY> struct ckci_k_depth_ahead {
    typedef typename S::T T;
    T shift[V];
    ckci_k_vec<S, V> more[XO];
    const T *number;

    CKCI_K_MEMBER void start(const ckci_gpu_depth &p, int32_t channel)
    {
        CKCI_K_UNROLL(4)
        for (int i = 0; i < V; i++) {
            T two[2] = {1, 0};
            if (p.o.residual >= 0 && channel + i < p.g) {
                ckci_k_depth_numbers(p.o, channel + i, two);
            }
            shift[i] = two[1];
        }
    }

    CKCI_K_MEMBER void listed_at(const T *numbers)
    {
        number = numbers;
    }

    /* Of the strip that goes to byte `to`, if it does (good), the outputs that exist. */
    CKCI_K_MEMBER void fetch(const ckci_gpu_depth &p, int32_t to, int32_t left, bool good)
    {
        if (p.o.residual <= 0 || !p.o_vec) {
            return;
        }
        const unsigned char *from = p.o.d[p.o.residual - 1].p;
        const int32_t step = (int32_t)p.o.t.stride[5] * (int32_t)S::SIZE;
        CKCI_K_UNROLL(8)
        for (int i = 0; i < XO; i++) {
            if (good && i < left) {
                more[i].load(from + (uint32_t)(to + i * step));
            }
        }
    }

    /* Is the epilogue of that kind? */
    static CKCI_K_MEMBER bool takes(const ckci_gpu_depth &p)
    {
        return p.o.residual == 0 || (p.o.residual > 0 && p.o_vec) ||
               (READY == 2 && p.o.residual == CKCI_RESIDUAL_FACTORS);
    }

    static CKCI_K_MEMBER const T *listed(const ckci_gpu_depth &)
    {
        return nullptr;
    }

    CKCI_K_MEMBER void finish(const ckci_gpu_depth &p, T (&e)[XO * V]) const
    {
        const ckci_k_closed<T> f(p.o);
        if (READY == 2 && p.o.residual == CKCI_RESIDUAL_FACTORS) {
            ckci_k_depth_scale<V>(p.o, number, e);
        } else {
            CKCI_K_UNROLL(32)
            for (int i = 0; i < XO * V; i++) {
                e[i] = ckci_k_fma(f.alpha, e[i], shift[i % V]);
            }
        }
        if (p.o.residual > 0) {
            T d[XO * V];
            ckci_k_depth_widen<XO>(more, d, p.bf16);
            ckci_k_add_numbers(p.o, p.o.gate, d, e);
        }
        ckci_k_limit_line(p.o, e);
    }
};

template <class S, int V, int XO> struct ckci_k_depth_ahead<S, V, XO, 0> {
    typedef typename S::T T;

    CKCI_K_MEMBER void start(const ckci_gpu_depth &, int32_t)
    {
    }

    CKCI_K_MEMBER void listed_at(const T *)
    {
    }

    CKCI_K_MEMBER void fetch(const ckci_gpu_depth &, int32_t, int32_t, bool)
    {
    }

    static CKCI_K_MEMBER bool takes(const ckci_gpu_depth &)
    {
        return false;
    }

    CKCI_K_MEMBER void finish(const ckci_gpu_depth &, T (&)[XO * V]) const
    {
    }

    static CKCI_K_MEMBER const T *listed(const ckci_gpu_depth &)
    {
        return nullptr;
    }
};

/* The numbers of a thread's channels lie in LDS, if there are such. */
template <class S, int V, int XO> struct ckci_k_depth_listed {
    typedef typename S::T T;
    const T *number;

    static CKCI_K_MEMBER bool takes(const ckci_gpu_depth &p)
    {
        return p.o.residual == 0 || p.o.residual == CKCI_RESIDUAL_FACTORS;
    }

    CKCI_K_MEMBER void finish(const ckci_gpu_depth &p, T (&e)[XO * V]) const
    {
        ckci_k_depth_scale<V>(p.o, number, e);
        ckci_k_limit_line(p.o, e);
    }

    CKCI_K_MEMBER const T *listed(const ckci_gpu_depth &p) const
    {
        return p.o.residual > 0 ? number : nullptr;
    }
};
