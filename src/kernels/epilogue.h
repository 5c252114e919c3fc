/*------------------------------------------------------------------------------------------------------------
  >>k-epilogue
  Element operations, and the one way of a sum to memory: operation, D tensors, one rounding, store. Every
  family ends here or tests first that nothing of this is asked for, so that all round alike and as the CPU
  does (>>core-math). One thread writes each output. Functions of f64 are the library's on NVIDIA and tables
  here on AMD, where coefficients would take the registers of the loops around them.
*/
#pragma once
#include "kernels/prim.h"

CKCI_K_FN float ckci_k_exp(float x)
{
    return expf(x);
}

/* 2^x and 1 / x within 2^-22 of themselves, in an instruction: for 1 / (1 + 2^x), where that is less than
   rounding costs. */
CKCI_K_FN float ckci_k_quick_exp2(float x)
{
#if defined(__CUDA_ARCH__)
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
#else
#if defined(__HIP_DEVICE_COMPILE__)
#if __has_builtin(__builtin_amdgcn_exp2f)
    return __builtin_amdgcn_exp2f(x);
#endif
#endif
    return exp2f(x); /* some compilers for AMD have no name for the instruction */
#endif
}

CKCI_K_FN float ckci_k_quick_inverse(float x)
{
#if defined(__HIP_DEVICE_COMPILE__)
    return __builtin_amdgcn_rcpf(x);
#elif defined(__CUDA_ARCH__)
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    return inverse;
#else
    return 1 / x;
#endif
}

CKCI_K_FN float ckci_k_abs(float x)
{
    return ckci_k_float(ckci_k_bits(x) & 0x7fffffffu);
}

/* The one in the middle of three; x is a number. */
CKCI_K_FN float ckci_k_middle(float x, float y, float z)
{
#if defined(__HIP_DEVICE_COMPILE__)
    return __builtin_amdgcn_fmed3f(x, y, z);
#else
    const float least = x < y ? x : y, most = x < y ? y : x;
    return z > most ? most : z > least ? z : least;
#endif
}

/* x from 0 to 1: less is 0, more is 1, NaN is 0. A part of the instruction that computes x, on AMD. */
CKCI_K_FN float ckci_k_unit(float x)
{
#if defined(__HIP_DEVICE_COMPILE__)
    return __builtin_amdgcn_fmed3f(x, 0.f, 1.f);
#else
    return x > 0 ? x < 1 ? x : 1 : 0;
#endif
}

CKCI_K_FN float ckci_k_erf(float x)
{
    return erff(x);
}

#if defined(__HIP_DEVICE_COMPILE__) || defined(CKCI_SIMULATOR)
/* exp and erf in f64, from tables: the library's coefficients would lie in scalar registers, two for each,
   all through the loops around them, and leave too few for the rest. Errors are less than two units in the
   last place. The simulator takes them too, so that tests see them. */
template <int N> CKCI_K_FN double ckci_k_polynomial(const double (&coefficient)[N], double x)
{
    double sum = coefficient[N - 1];
    CKCI_K_UNROLL(1)
    for (int i = N - 2; i >= 0; i--) {
        sum = fma(sum, x, coefficient[i]);
    }
    return sum;
}

/* 2^n * e^rest, |rest| at most log(2) / 2 */
CKCI_K_FN double ckci_k_exp(double x)
{
    static constexpr double inverse_factorial[] = {
        1.,
        1.,
        0.5,
        0.16666666666666666,
        0.041666666666666664,
        0.008333333333333333,
        0.001388888888888889,
        0.0001984126984126984,
        2.48015873015873e-05,
        2.7557319223985893e-06,
        2.755731922398589e-07,
        2.505210838544172e-08,
        2.08767569878681e-09,
        1.6059043836821613e-10,
    };
    const double near = x > 1024 ? 1024. : x < -1024 ? -1024. : x; /* these overflow to infinity, to 0 */
    const double n = rint(near * 1.4426950408889634);
    const double rest = fma(n, -2.3190468138462996e-17, fma(n, -0.6931471805599453, near));
    const double result = ldexp(ckci_k_polynomial(inverse_factorial, rest), (int)n);
    return x != x ? x : result;
}

/* Up to 1 a polynomial in its square, times x; above, 1 - e^(-x^2) * (a polynomial in (x - 4) / (x + 4)). */
CKCI_K_FN double ckci_k_erf(double x)
{
    static constexpr double inner[] = {
        1.1283791670955126,     -0.37612638903183543,    0.11283791670945006,    -0.02686617064323777,
        0.0052239776071164225,  -0.0008548325975389692,  0.00012055294904839707, -1.492473690741966e-05,
        1.6447424703317362e-06, -1.6208483801871705e-07, 1.3720064546777686e-08, -7.795898827002142e-10};
    static constexpr double outer[] = {
        0.13699945762506138,     -0.2590680487601718,    0.21871967891826713,    -0.16425781669724077,
        0.10896317739865745,     -0.0631078156473828,    0.03129905651583277,    -0.012843945687071453,
        0.004060264660151152,    -0.0007991322076390439, -2.179568166418796e-05, 7.895694927713207e-05,
        -2.2294712208280907e-05, -9.380004337296444e-07, 4.460009108363892e-06,  7.423164251116965e-07};
    const double size = fabs(x), near = size < 6 ? size : 6.; /* from 6 on it is 1 */
    double result = x * ckci_k_polynomial(inner, x * x);
    if (size >= 1) {
        const double rest = ckci_k_exp(-near * near) * ckci_k_polynomial(outer, (near - 4) / (near + 4));
        result = x < 0 ? rest - 1 : 1 - rest;
    }
    return result;
}
#else
CKCI_K_FN double ckci_k_exp(double x)
{
    return exp(x);
}

CKCI_K_FN double ckci_k_erf(double x)
{
    return erf(x);
}
#endif

/* tanh(x), and e = exp(2 |x|): up to 5/8 a quotient of polynomials (as Cephes has it). */
template <class T> CKCI_K_FN T ckci_k_tanh(T x, T e)
{
    const T s = x * x, far = 1 - 2 / (e + 1);
    const T p = ((T)-0.96439917942505224 * s - (T)99.287723100191859) * s - (T)1614.6876844170845;
    const T q = ((s + (T)112.81167849163293) * s + (T)2235.4883906010045) * s + (T)4844.063053251255;
    return s < (T)0.390625 ? x + x * s * (p / q) : x < 0 ? -far : far;
}

/* How many operations a kernel computes: all; the few, of whose rows in core/element.h that is said, where
   more take registers from the rest, or are more than clang 19 compiles well, without gates; PLAIN: of those
   the ones without an error function, which gelu has (gpu/depth.h knows), with gates. */
enum { CKCI_K_OPS_ALL, CKCI_K_OPS_PLAIN, CKCI_K_OPS_FEW };

/* Of lines that matrix units computed: few in f64 on AMD, where the rest would take scratch memory. */
template <class T> struct ckci_k_line_ops {
#if defined(__HIP_DEVICE_COMPILE__)
    enum { OPS = sizeof(T) == 8 ? CKCI_K_OPS_FEW : CKCI_K_OPS_ALL };
#else
    enum { OPS = CKCI_K_OPS_ALL };
#endif
};

/* The few. x: with the D tensors that are added to it; d: the one that is not. */
template <bool GELU, bool GATES, class T>
CKCI_K_FN T ckci_k_element_few(const ckconv_element_op &op, T x, T d)
{
    T alpha = (T)op.alpha, beta = (T)op.beta;
    if constexpr (GATES) {
        switch (op.kind) {
        case CKCONV_BIAS_RELU_ADD:
            return (x < 0 ? (T)0 : x) + d;
        case CKCONV_RELU_BWD:
            return d <= 0 ? (T)0 : x;
        case CKCONV_CLAMP_BWD:
            return d <= alpha || d >= beta ? (T)0 : x;
        default:
            break;
        }
    }
    switch (op.kind) {
    case CKCONV_SCALE:
        return alpha * x;
    case CKCONV_CLAMP:
        return x < alpha ? alpha : x > beta ? beta : x;
    case CKCONV_SIGMOID:
    case CKCONV_SILU:
        return (op.kind == CKCONV_SILU ? x : (T)1) / (1 + ckci_k_exp(-x));
    case CKCONV_GELU:
        return GELU ? x / 2 * (1 + ckci_k_erf(x * (T)0.70710678118654752440)) : x;
    case CKCONV_BILINEAR:
        return alpha * x + beta * d;
    case CKCONV_SCALE_ADD:
        return alpha * x + d;
    case CKCONV_RELU:
    case CKCONV_BIAS_RELU:
    case CKCONV_BIAS_RESIDUAL_RELU:
    case CKCONV_ADD_RELU:
    case CKCONV_SCALE_SHIFT_RELU:
        return x < 0 ? (T)0 : x;
    default:
        return x;
    }
}

/* tanh, silu and gelu of x, and x times the derivatives of the latter at d: one exponential and one error
   function for all. */
template <class T> CKCI_K_FN T ckci_k_curve(ckconv_element kind, T x, T d)
{
    const bool tanh = kind == CKCONV_TANH, back = kind == CKCONV_SILU_BWD || kind == CKCONV_GELU_BWD;
    const bool bell = kind == CKCONV_GELU_BWD || kind == CKCONV_BIAS_GELU;
    const T z = back ? d : x;
    const T e = ckci_k_exp(tanh ? 2 * (x < 0 ? -x : x) : bell ? z * z * (T)-0.5 : -z);
    if (tanh) {
        return ckci_k_tanh(x, e);
    }
    if (bell) {
        const T twice = 1 + ckci_k_erf(z * (T)0.70710678118654752440);
        return back ? x * (twice / 2 + z * (e * (T)0.39894228040143267794)) : z / 2 * twice;
    }
    return back ? x * (1 / (1 + e) * (1 + d * (1 - 1 / (1 + e)))) : x / (1 + e);
}

/* Element operations (ckconv.h, >>types). x: with what D tensors are added to it or multiplied with it
   (ckci_k_extra); d: the one that is not. */
template <int OPS = CKCI_K_OPS_ALL, class T> CKCI_K_FN T ckci_k_element(const ckconv_element_op &op, T x, T d)
{
    if constexpr (OPS == CKCI_K_OPS_ALL) {
        const T alpha = (T)op.alpha;
        switch (op.kind) {
        case CKCONV_LEAKY_RELU:
            return x < 0 ? alpha * x : x;
        case CKCONV_HARDSIGMOID:
            return x <= -3 ? (T)0 : x >= 3 ? (T)1 : (x + 3) / 6;
        case CKCONV_HARDSWISH:
            return x <= -3 ? (T)0 : x >= 3 ? x : x * (x + 3) / 6;
        case CKCONV_SIGMOID_BWD:
            return x * (d * (1 - d));
        case CKCONV_TANH:
        case CKCONV_BIAS_SILU:
        case CKCONV_BIAS_GELU:
        case CKCONV_SILU_BWD:
        case CKCONV_GELU_BWD:
            return ckci_k_curve(op.kind, x, d);
        default:
            break;
        }
    }
    return ckci_k_element_few<OPS != CKCI_K_OPS_PLAIN, OPS != CKCI_K_OPS_FEW>(op, x, d);
}

/* A number of a D tensor on its way into x or, if neither, to ckci_k_element's d. */
template <class T> CKCI_K_FN void ckci_k_extra(int32_t how, T number, T &x, T &d)
{
    const bool adds = how == CKCI_EXTRA_ADD;
    x = how == CKCI_EXTRA_MULTIPLY ? x * number : x;
    x = adds ? x + number : x;
    d = adds ? d : number;
}

/* A read value that is not a plain conversion: operation, then rounding to the compute type. */
CKCI_K_FN float ckci_k_prepare(const ckci_tensor &tensor, float x)
{
    const ckci_tensor &t = ckci_k_late(tensor);
    return ckci_k_round(t.compute, ckci_k_element(t.op, x, 0.f));
}

CKCI_K_FN double ckci_k_prepare(const ckci_tensor &tensor, double x)
{
    const ckci_tensor &t = ckci_k_late(tensor);
    return ckci_k_element(t.op, x, 0.);
}

CKCI_K_FN int32_t ckci_k_prepare(const ckci_tensor &tensor, int32_t x)
{
    const ckci_tensor &t = ckci_k_late(tensor);
    return ckci_k_int(ckci_k_element(t.op, (float)x, 0.f), -128.f, 127.f);
}

template <class T> CKCI_K_FN T ckci_k_value(const ckci_tensor &t, int64_t at)
{
    T x = ckci_k_load<T>(t.dtype, t.p + at * ckci_k_size(t.dtype));
    return t.plain ? x : ckci_k_prepare(t, x);
}

/* The arithmetic of epilogues: float for int32 sums. */
template <class T> struct ckci_k_real {
    typedef float type;
};
template <> struct ckci_k_real<double> {
    typedef double type;
};

CKCI_K_FN float ckci_k_fma(float a, float b, float c)
{
    return fmaf(a, b, c);
}

CKCI_K_FN double ckci_k_fma(double a, double b, double c)
{
    return fma(a, b, c);
}

/* A product that is rounded by itself, not as a part of a fused multiply-add. */
CKCI_K_FN float ckci_k_product(float a, float b)
{
#if defined(__CUDA_ARCH__)
    return __fmul_rn(a, b);
#else
#if defined(__clang__)
#pragma clang fp contract(off)
#endif
    return a * b;
#endif
}

CKCI_K_FN double ckci_k_product(double a, double b)
{
#if defined(__CUDA_ARCH__)
    return __dmul_rn(a, b);
#else
#if defined(__clang__)
#pragma clang fp contract(off)
#endif
    return a * b;
#endif
}

/* int32 sums wrap modulo 2^32, everywhere alike */
CKCI_K_FN int32_t ckci_k_fma(int32_t a, int32_t b, int32_t c)
{
    return (int32_t)((uint32_t)a * (uint32_t)b + (uint32_t)c);
}

/* The epilogue of one output at logical (g, n, c, z, y, w), up to its rounding to storage. */
template <class T, int OPS = CKCI_K_OPS_ALL>
CKCI_K_FN T ckci_k_finish(const ckci_gpu_target &target, T x, int32_t g, int32_t n, int32_t c, int32_t z,
                          int32_t y, int32_t w)
{
    const ckci_gpu_target &o = ckci_k_late(target);
    constexpr bool whole = T(0.5f) == T(0);
    typedef typename ckci_k_real<T>::type real;
    T result = x;
    if (o.t.op.kind != CKCONV_PASS || o.scale || o.shift) {
        real v = (real)x, d = 0;
        int64_t channel = g * o.t.len[2] + c;
        if (o.scale) {
            v *= ((const real *)o.scale)[channel];
        }
        if (o.shift) {
            v += ((const real *)o.shift)[channel];
        }
        /* D tensors one after the other, so that this code stands once */
        CKCI_K_UNROLL(1)
        for (int j = 0; j < o.num_d; j++) {
            const ckci_gpu_extra &t = o.d[j];
            int64_t at = g * t.stride[0] + n * t.stride[1] + c * t.stride[2] + z * t.stride[3] +
                         y * t.stride[4] + w * t.stride[5];
            ckci_k_extra(t.how, ckci_k_load<real>(t.dtype, t.p + at * ckci_k_size(t.dtype)), v, d);
        }
        v = ckci_k_element<OPS>(o.t.op, v, d);
        if constexpr (whole) {
            result = ckci_k_int(v, -2147483648.f, 2147483648.f);
        } else {
            result = v;
        }
    }
    if constexpr (whole) {
        return o.compute != CKCONV_I8 ? result : result < -128 ? -128 : result > 127 ? 127 : result;
    } else if constexpr (sizeof(T) == 4) {
        return o.compute ? ckci_k_round(o.compute, result) : result;
    } else {
        return result;
    }
}

template <class T> CKCI_K_FN void ckci_k_put_at(const ckci_gpu_target &o, unsigned char *p, T x)
{
    if constexpr (T(0.5f) != T(0)) {
        ckci_k_store(o.t.dtype, p, x);
    } else if (o.t.dtype == CKCONV_I32) {
        *(int32_t *)p = x;
    } else {
        *p = (unsigned char)(x < -128 ? -128 : x > 127 ? 127 : x);
    }
}

template <class T>
CKCI_K_FN void ckci_k_put(const ckci_gpu_target &target, T x, int32_t g, int32_t n, int32_t c, int32_t z,
                          int32_t y, int32_t w)
{
    const ckci_gpu_target &o = ckci_k_late(target);
    int64_t at = g * o.t.stride[0] + n * o.t.stride[1] + c * o.t.stride[2] + z * o.t.stride[3] +
                 y * o.t.stride[4] + w * o.t.stride[5];
    ckci_k_put_at<T>(o, o.t.p + at * ckci_k_size(o.t.dtype), x);
}

/* ckci_k_finish where epilogues are not what takes the time: a call on NVIDIA, lest it take registers from
   the rest. */
template <class T>
CKCI_K_APART T ckci_k_finish_apart(const ckci_gpu_target &o, T x, int32_t g, int32_t n, int32_t c, int32_t z,
                                   int32_t y, int32_t w)
{
    return ckci_k_finish<T>(o, x, g, n, c, z, y, w);
}

template <class T, int OPS = CKCI_K_OPS_ALL>
CKCI_K_FN void ckci_k_write(const ckci_gpu_target &o, T x, int32_t g, int32_t n, int32_t c, int32_t z,
                            int32_t y, int32_t w)
{
    ckci_k_put<T>(o, ckci_k_finish<T, OPS>(o, x, g, n, c, z, y, w), g, n, c, z, y, w);
}
