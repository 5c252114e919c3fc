/*------------------------------------------------------------------------------------------------------------
  >>core-element
  Element operations: the table of them, one row each, and their arithmetic on the host. A row says what
  becomes of x and the D tensors first, and which activation comes then; checks, names, the planner and the
  CPU engine take from it what they need. The GPU's arithmetic is kernels/epilogue.h's: it has the same
  activations and the gradients.
*/
#pragma once
#include "core/base.h"
#include "core/math.h"

/* Sums: what z is. ONE x; SCALED alpha * x; BILINEAR alpha * x + beta * D0; SCALE_ADD alpha * x + D0; ADD x
   and all D tensors, in their order; AFTER x + D0, and D1 is added behind the activation; AFFINE x * D0 + D1;
   GRADIENT x times the activation's derivative where D0 says (see ckconv.h). From BILINEAR on they belong to
   the written tensor. ACCUMULATE has no D tensor of the caller's: checks make it BIAS, with the written
   tensor for D0. */
enum {
    CKCI_SUM_ONE,
    CKCI_SUM_SCALED,
    CKCI_SUM_BILINEAR,
    CKCI_SUM_SCALE_ADD,
    CKCI_SUM_ADD,
    CKCI_SUM_AFTER,
    CKCI_SUM_AFFINE,
    CKCI_SUM_GRADIENT
};

/* Name, text, sum, D tensors at least and at most, activation, does it use alpha and beta, is it one of the
   few that every GPU kernel computes (ckci_k_element_few in kernels/epilogue.h); 2: but near and f64 tiles on
   AMD, where compilers have no registers for gates. */
#define CKCI_ELEMENTS(X)                                                                                     \
    X(PASS, pass, ONE, 0, 0, PASS, 0, 0, 1)                                                                  \
    X(SCALE, scale, SCALED, 0, 0, PASS, 1, 0, 1)                                                             \
    X(RELU, relu, ONE, 0, 0, RELU, 0, 0, 1)                                                                  \
    X(CLAMP, clamp, ONE, 0, 0, CLAMP, 1, 1, 1)                                                               \
    X(SIGMOID, sigmoid, ONE, 0, 0, SIGMOID, 0, 0, 1)                                                         \
    X(SILU, silu, ONE, 0, 0, SILU, 0, 0, 1)                                                                  \
    X(GELU, gelu, ONE, 0, 0, GELU, 0, 0, 1)                                                                  \
    X(TANH, tanh, ONE, 0, 0, TANH, 0, 0, 0)                                                                  \
    X(LEAKY_RELU, leaky_relu, ONE, 0, 0, LEAKY_RELU, 1, 0, 0)                                                \
    X(HARDSIGMOID, hardsigmoid, ONE, 0, 0, HARDSIGMOID, 0, 0, 0)                                             \
    X(HARDSWISH, hardswish, ONE, 0, 0, HARDSWISH, 0, 0, 0)                                                   \
    X(BILINEAR, bilinear, BILINEAR, 1, 1, PASS, 1, 1, 1)                                                     \
    X(SCALE_ADD, scale_add, SCALE_ADD, 1, 1, PASS, 1, 0, 1)                                                  \
    X(BIAS, bias, ADD, 1, 1, PASS, 0, 0, 1)                                                                  \
    X(BIAS_RELU, bias_relu, ADD, 1, 1, RELU, 0, 0, 1)                                                        \
    X(BIAS_RESIDUAL_RELU, bias_residual_relu, ADD, 2, 2, RELU, 0, 0, 1)                                      \
    X(ADD, add, ADD, 1, 4, PASS, 0, 0, 1)                                                                    \
    X(ADD_RELU, add_relu, ADD, 1, 4, RELU, 0, 0, 1)                                                          \
    X(BIAS_SILU, bias_silu, ADD, 1, 1, SILU, 0, 0, 0)                                                        \
    X(BIAS_GELU, bias_gelu, ADD, 1, 1, GELU, 0, 0, 0)                                                        \
    X(BIAS_RELU_ADD, bias_relu_add, AFTER, 2, 2, RELU, 0, 0, 2)                                              \
    X(SCALE_SHIFT, scale_shift, AFFINE, 2, 2, PASS, 0, 0, 1)                                                 \
    X(SCALE_SHIFT_RELU, scale_shift_relu, AFFINE, 2, 2, RELU, 0, 0, 1)                                       \
    X(ACCUMULATE, accumulate, ADD, 0, 0, PASS, 0, 0, 1)                                                      \
    X(RELU_BWD, relu_bwd, GRADIENT, 1, 1, RELU, 0, 0, 2)                                                     \
    X(CLAMP_BWD, clamp_bwd, GRADIENT, 1, 1, CLAMP, 1, 1, 2)                                                  \
    X(SIGMOID_BWD, sigmoid_bwd, GRADIENT, 1, 1, SIGMOID, 0, 0, 0)                                            \
    X(SILU_BWD, silu_bwd, GRADIENT, 1, 1, SILU, 0, 0, 0)                                                     \
    X(GELU_BWD, gelu_bwd, GRADIENT, 1, 1, GELU, 0, 0, 0)

typedef struct ckci_element_row {
    ckconv_element kind;
    const char *name, *label; /* relu, RELU */
    int32_t sum, least, most;
    ckconv_element act;
    int32_t alpha, beta, few;
} ckci_element_row;

/* Row `index` of the table; NULL behind its end. */
CKCI_FN const ckci_element_row *ckci_element_at(int32_t index)
{
#define CKCI_ROW(NAME, TEXT, SUM, LEAST, MOST, ACT, ALPHA, BETA, FEW)                                        \
    {CKCONV_##NAME, #TEXT, #NAME, CKCI_SUM_##SUM, LEAST, MOST, CKCONV_##ACT, ALPHA, BETA, FEW},
    static const ckci_element_row rows[] = {CKCI_ELEMENTS(CKCI_ROW)};
#undef CKCI_ROW
    return index >= 0 && index < (int32_t)(sizeof rows / sizeof rows[0]) ? &rows[index] : NULL;
}

/* The row of an operation; NULL: there is no such operation. */
CKCI_FN const ckci_element_row *ckci_find_element(ckconv_element kind)
{
    const ckci_element_row *row = ckci_element_at(0);
    for (int32_t i = 1; row && row->kind != kind; i++) {
        row = ckci_element_at(i);
    }
    return row;
}

/* The kinds that belong to any tensor, or to the written one alone, in ranges: "16 to 28 or 32 to 36". */
CKCI_FN void ckci_element_kinds(int written, char *text, size_t size)
{
    const ckci_element_row *row, *next;
    size_t at = 0;
    for (int32_t i = 0, from = -1; (row = ckci_element_at(i)) != NULL; i++) {
        if ((row->sum >= CKCI_SUM_BILINEAR) != written) {
            continue;
        }
        next = ckci_element_at(i + 1);
        from = from < 0 ? row->kind : from;
        if (!next || next->kind != row->kind + 1 || (next->sum >= CKCI_SUM_BILINEAR) != written) {
            at = ckci_append(text, size, at, "%s%d to %d", at > 0 ? " or " : "", (int)from, (int)row->kind);
            from = -1;
        }
    }
}

/* Does a group norm fuse this activation? Those that have a gradient and take no parameters. */
CKCI_FN int ckci_norm_has(ckconv_element act)
{
    const ckci_element_row *row;
    for (int32_t i = 0; (row = ckci_element_at(i)) != NULL; i++) {
        if (row->act == act && row->sum == CKCI_SUM_GRADIENT && !row->alpha) {
            return 1;
        }
    }
    return act == CKCONV_PASS;
}

/* Their labels, or their numbers: "CKCONV_PASS, _RELU or _GELU", "0, 2, 6". */
CKCI_FN void ckci_norm_acts(int numbers, char *text, size_t size)
{
    const ckci_element_row *row;
    int count = 0, left = 0;
    size_t at = 0;
    for (int32_t i = 0; (row = ckci_element_at(i)) != NULL; i++) {
        left += row->kind == row->act && ckci_norm_has(row->kind);
    }
    for (int32_t i = 0; (row = ckci_element_at(i)) != NULL; i++) {
        if (row->kind != row->act || !ckci_norm_has(row->kind)) {
            continue;
        }
        if (numbers) {
            at = ckci_append(text, size, at, "%s%d", count > 0 ? ", " : "", (int)row->kind);
        } else {
            at = ckci_append(text, size, at, "%s%s_%s",
                             count == 0  ? ""
                             : left == 1 ? " or "
                                         : ", ",
                             count == 0 ? "CKCONV" : "", row->label);
        }
        count++;
        left--;
    }
}

/* Activations, their derivatives and whole operations, once in float and once in double. num_d entries of d
   are valid. */
#define CKCI_ELEMENT(NAME, T, EXP, ERF, TANH)                                                                \
    CKCI_INLINE T NAME##_act(ckconv_element act, T x, T alpha, T beta)                                       \
    {                                                                                                        \
        switch (act) {                                                                                       \
        case CKCONV_RELU:                                                                                    \
            return x < 0 ? (T)0 : x;                                                                         \
        case CKCONV_CLAMP:                                                                                   \
            return x < alpha ? alpha : x > beta ? beta : x;                                                  \
        case CKCONV_SIGMOID:                                                                                 \
            return 1 / (1 + EXP(-x));                                                                        \
        case CKCONV_SILU:                                                                                    \
            return x / (1 + EXP(-x));                                                                        \
        case CKCONV_GELU:                                                                                    \
            return x / 2 * (1 + ERF(x * (T)0.70710678118654752440));                                         \
        case CKCONV_TANH:                                                                                    \
            return TANH(x);                                                                                  \
        case CKCONV_LEAKY_RELU:                                                                              \
            return x < 0 ? alpha * x : x;                                                                    \
        case CKCONV_HARDSIGMOID:                                                                             \
            return x <= -3 ? (T)0 : x >= 3 ? (T)1 : (x + 3) / 6;                                             \
        case CKCONV_HARDSWISH:                                                                               \
            return x <= -3 ? (T)0 : x >= 3 ? x : x * (x + 3) / 6;                                            \
        default:                                                                                             \
            return x;                                                                                        \
        }                                                                                                    \
    }                                                                                                        \
    /* x times the derivative; sigmoid's at its result d, others' at their argument */                       \
    CKCI_INLINE T NAME##_slope(ckconv_element act, T x, T d, T alpha, T beta)                                \
    {                                                                                                        \
        switch (act) {                                                                                       \
        case CKCONV_RELU:                                                                                    \
            return d <= 0 ? (T)0 : x;                                                                        \
        case CKCONV_CLAMP:                                                                                   \
            return d <= alpha || d >= beta ? (T)0 : x;                                                       \
        case CKCONV_SIGMOID:                                                                                 \
            return x * (d * (1 - d));                                                                        \
        case CKCONV_SILU: {                                                                                  \
            const T s = 1 / (1 + EXP(-d));                                                                   \
            return x * (s * (1 + d * (1 - s)));                                                              \
        }                                                                                                    \
        default: /* GELU */                                                                                  \
            return x * ((1 + ERF(d * (T)0.70710678118654752440)) / 2 +                                       \
                        d * (EXP(-d * d / 2) * (T)0.39894228040143267794));                                  \
        }                                                                                                    \
    }                                                                                                        \
    CKCI_FN T NAME(const ckconv_element_op *op, T x, const T *d, int32_t num_d)                              \
    {                                                                                                        \
        const T alpha = (T)op->alpha, beta = (T)op->beta;                                                    \
        switch (op->kind) {                                                                                  \
            CKCI_ELEMENTS(NAME##_row)                                                                        \
        default:                                                                                             \
            return x;                                                                                        \
        }                                                                                                    \
    }
/* A row's operation, out of constants: what its case does is all that is left of it. */
#define CKCI_ELEMENT_CASE(NAME, T, KIND, SUM, ACT)                                                           \
    case CKCONV_##KIND: {                                                                                    \
        if (CKCI_SUM_##SUM == CKCI_SUM_GRADIENT) {                                                           \
            return NAME##_slope(CKCONV_##ACT, x, d[0], alpha, beta);                                         \
        }                                                                                                    \
        if (CKCI_SUM_##SUM == CKCI_SUM_AFFINE) {                                                             \
            x = x * d[0] + d[1];                                                                             \
        } else if (CKCI_SUM_##SUM == CKCI_SUM_AFTER) {                                                       \
            return NAME##_act(CKCONV_##ACT, x + d[0], alpha, beta) + d[1];                                   \
        } else if (CKCI_SUM_##SUM != CKCI_SUM_ONE && CKCI_SUM_##SUM != CKCI_SUM_ADD) {                       \
            x *= alpha;                                                                                      \
            if (CKCI_SUM_##SUM != CKCI_SUM_SCALED) {                                                         \
                x += CKCI_SUM_##SUM == CKCI_SUM_BILINEAR ? beta * d[0] : d[0];                               \
            }                                                                                                \
        }                                                                                                    \
        for (int32_t i = 0; CKCI_SUM_##SUM == CKCI_SUM_ADD && i < num_d; i++) {                              \
            x += d[i];                                                                                       \
        }                                                                                                    \
        return NAME##_act(CKCONV_##ACT, x, alpha, beta);                                                     \
    }
#define ckci_element_f_row(KIND, TEXT, SUM, LEAST, MOST, ACT, ALPHA, BETA, FEW)                              \
    CKCI_ELEMENT_CASE(ckci_element_f, float, KIND, SUM, ACT)
#define ckci_element_d_row(KIND, TEXT, SUM, LEAST, MOST, ACT, ALPHA, BETA, FEW)                              \
    CKCI_ELEMENT_CASE(ckci_element_d, double, KIND, SUM, ACT)
CKCI_ELEMENT(ckci_element_f, float, expf, erff, tanhf)
CKCI_ELEMENT(ckci_element_d, double, exp, erf, tanh)

/* dy times the derivative of an activation at its argument v. */
CKCI_FN double ckci_undo_act(ckconv_element act, double v, double dy)
{
    return act == CKCONV_PASS      ? dy
           : act == CKCONV_SIGMOID ? ckci_element_d_slope(act, dy, ckci_element_d_act(act, v, 0, 0), 0, 0)
                                   : ckci_element_d_slope(act, dy, v, 0, 0);
}
#undef CKCI_ELEMENT
#undef CKCI_ELEMENT_CASE
#undef ckci_element_f_row
#undef ckci_element_d_row
