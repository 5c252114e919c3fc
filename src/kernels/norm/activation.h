/*------------------------------------------------------------------------------------------------------------
  >>k-norm-activation
  Relu and gelu of group norm, and what all of its activations are to kernels that take single numbers. Those
  with eight numbers at once have sigmoid and silu in >>k-norm-gradient, where factors of the channel are
  folded into them. erf of gelu comes from one power of two and no division: phi, which is a sum with 1, needs
  no more than f32 holds next to 1, so that the library's care around 0 would be lost.
*/
#pragma once
#include "kernels/epilogue.h"
#include "kernels/norm/common.h"

/* (1 + erf(v / sqrt 2)) / 2, of two numbers: erfc(|v| / sqrt 2) / 2 is 2 to the power of a polynomial in |v|
   that falls without end, fitted up to 6. v * phi is off by less than 2^-24. */
CKCI_K_FN ckci_k_float2 ckci_k_norm_phi(const ckci_k_float2 &v)
{
    const float factor[8] = {3.296795e-05f,  -1.5727844e-04f, -2.0247986e-04f, 7.1427831e-03f,
                             -5.2546438e-02f, -4.5919305e-01f, -1.1511070f,     -0.99999994f};
    const ckci_k_float2 z = {ckci_k_abs(v.x), ckci_k_abs(v.y)};
    ckci_k_float2 power = {-2.2758666e-06f, -2.2758666e-06f};
    CKCI_K_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        const ckci_k_float2 next = {factor[i], factor[i]};
        power = power * z + next;
    }
    const float x = ckci_k_quick_exp2(power.x), y = ckci_k_quick_exp2(power.y);
    return {v.x < 0 ? x : 1 - x, v.y < 0 ? y : 1 - y};
}

/* The derivative of v * phi: phi + v * e^(-v^2 / 2) / sqrt(2 pi). */
CKCI_K_FN ckci_k_float2 ckci_k_norm_gelu_slope(const ckci_k_float2 &v)
{
    const ckci_k_float2 to_binary = {-0.72134752f, -0.72134752f}, factor = {0.39894228f, 0.39894228f};
    const ckci_k_float2 power = v * v * to_binary;
    const ckci_k_float2 bell = {ckci_k_quick_exp2(power.x), ckci_k_quick_exp2(power.y)};
    return v * factor * bell + ckci_k_norm_phi(v);
}

/* Relu, else gelu, of eight numbers. */
template <bool RELU> CKCI_K_FN void ckci_k_norm_bend8(ckci_k_float2 *v)
{
    CKCI_K_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        if (RELU) {
            v[i].x = v[i].x < 0 ? 0 : v[i].x;
            v[i].y = v[i].y < 0 ? 0 : v[i].y;
        } else {
            v[i] = v[i] * ckci_k_norm_phi(v[i]);
        }
    }
}

/* dy of two numbers times the derivative of relu, else gelu, at v. */
template <bool RELU> CKCI_K_FN void ckci_k_norm_unbend(const ckci_k_float2 &v, ckci_k_float2 &dy)
{
    if (RELU) {
        dy.x = v.x <= 0 ? 0 : dy.x;
        dy.y = v.y <= 0 ? 0 : dy.y;
    } else {
        dy = dy * ckci_k_norm_gelu_slope(v);
    }
}

/* One number: an activation that is not pass. */
CKCI_K_FN float ckci_k_norm_gelu(float v)
{
    const ckci_k_float2 both = {v, v};
    return v * ckci_k_norm_phi(both).x;
}
CKCI_K_FN double ckci_k_norm_gelu(double v)
{
    return v / 2 * (1 + ckci_k_erf(v * 0.70710678118654752440));
}
template <class T> CKCI_K_FN T ckci_k_norm_activate(ckconv_element act, T v)
{
    if (act == CKCONV_RELU) {
        return v < 0 ? (T)0 : v;
    }
    if (act == CKCONV_GELU) {
        return ckci_k_norm_gelu(v);
    }
    return (act == CKCONV_SILU ? v : (T)1) / (1 + ckci_k_exp(-v));
}

/* And what dy is then to be multiplied by; relu is not among these: 0 times infinity is no 0. */
CKCI_K_FN float ckci_k_norm_gelu_slope(float v)
{
    const ckci_k_float2 both = {v, v};
    return ckci_k_norm_gelu_slope(both).x;
}
CKCI_K_FN double ckci_k_norm_gelu_slope(double v)
{
    return (1 + ckci_k_erf(v * 0.70710678118654752440)) / 2 +
           v * (ckci_k_exp(v * v * -0.5) * 0.39894228040143267794);
}
template <class T> CKCI_K_FN T ckci_k_norm_slope(ckconv_element act, T v)
{
    if (act == CKCONV_GELU) {
        return ckci_k_norm_gelu_slope(v);
    }
    /* sig = sigmoid(v), not = 1 - sig without cancellation */
    const T e = ckci_k_exp(v < 0 ? v : -v), large = 1 / (1 + e);
    const T sig = v < 0 ? e * large : large, no = v < 0 ? large : e * large;
    return act == CKCONV_SILU ? sig * (1 + v * no) : sig * no;
}
