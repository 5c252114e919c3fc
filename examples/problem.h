/* problem.h - problems as options, their tensors and generated data
   SPDX-License-Identifier: MIT

   Shared by the driver, the tests and the examples; needs ckconv.h and the C library only. bounds.h compares.

     options   pb_problem: "--g 4 --n 8 ..." -> descriptions, options, plan. pb_set each one, then
               pb_finish, pb_plan. pb_command writes a plan's problem as such options again.
     tensors   pb_data: every tensor of a plan, on the host and (for a GPU plan) on the device. pb_alloc,
               pb_fill, pb_run, pb_free. pb_row_get and pb_row_put reach the elements of any layout.
     files     pb_import, pb_export: a tensor from and to PyTorch's order.
     data      pb_pattern, pb_fill_memory: integers, uniform or normal reals.
     tables    pb_table: one problem per row.

   Functions that can fail return 0 and fill a ckconv_error (where the first word names the option, if one is
   to blame); 1 is success. */
#ifndef PROBLEM_H
#define PROBLEM_H

#include "ckconv.h"
#include "gpu.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define PB_FUNCTION static __attribute__((unused))
#define PB_PRINTF __attribute__((format(printf, 2, 3)))
#else
#define PB_FUNCTION static
#define PB_PRINTF
#endif

/* Set *err (NULL is fine) and answer 0. */
PB_FUNCTION int pb_fail(ckconv_error *err, const char *format, ...) PB_PRINTF;
PB_FUNCTION int pb_fail(ckconv_error *err, const char *format, ...)
{
    if (err != NULL) {
        err->status = CKCONV_ERR_ARGUMENT;
        va_list list;
        va_start(list, format);
        vsnprintf(err->text, sizeof err->text, format, list);
        va_end(list);
    }
    return 0;
}


/*------------------------------------------------------------------------------------------------------------
  Options
*/
enum {
    PB_FWD = 1 << CKCONV_FWD,
    PB_BWD_DATA = 1 << CKCONV_BWD_DATA,
    PB_BWD_WEIGHT = 1 << CKCONV_BWD_WEIGHT,
    PB_CONV_CONV = 1 << CKCONV_CONV_CONV_FWD,
    PB_GN_FWD = 1 << CKCONV_GROUPNORM_FWD,
    PB_GN_BWD = 1 << CKCONV_GROUPNORM_BWD,
    PB_ONE = PB_FWD | PB_BWD_DATA | PB_BWD_WEIGHT, /* one convolution */
    PB_ANY = PB_ONE | PB_CONV_CONV,                /* any convolution */
    PB_GN = PB_GN_FWD | PB_GN_BWD,
    PB_ALL = PB_ANY | PB_GN
};

typedef struct pb_option {
    const char *name;  /* without the two dashes */
    int ops;           /* operations that take it */
    const char *value; /* what follows it; NULL: nothing */
    const char *help;  /* NULL: as the line before */
} pb_option;

static const pb_option pb_options[] = {
    {"ndim", PB_ALL, "1..3", "spatial dimensions; default: as many as --input has"},
    {"g", PB_ALL, "INT", "groups, default 1"},
    {"n", PB_ALL, "INT", "batch"},
    {"k", PB_ANY, "INT", "output channels PER GROUP"},
    {"c", PB_ALL, "INT", "input channels PER GROUP"},
    {"filter", PB_ANY, "LIST", "taps, outermost dimension first, as all lists: 3,3"},
    {"input", PB_ALL, "LIST", "spatial size of the input"},
    {"stride", PB_ANY, "LIST", "default 1"},
    {"dilation", PB_ANY, "LIST", "default 1"},
    {"pad", PB_ANY, "LIST", "zeros before (and after, without --pad-hi); default 0"},
    {"pad-hi", PB_ANY, "LIST", "zeros after"},
    {"layout", PB_ALL, "NAME", "NHWGC, GNHWC or NGCHW, for input and output; default NHWGC"},
    {"wei-layout", PB_ANY, "NAME", "GKYXC or GKCYX; default GKYXC"},
    {"out-layout", PB_ALL, "NAME", "when it differs from --layout"},
    {"din-layout", PB_GN_BWD, "NAME", NULL},
    {"mid-layout", PB_CONV_CONV, "NAME", "of the tensor between the convolutions, default --layout"},
    {"wei1-layout", PB_CONV_CONV, "NAME", "default GKYXC"},
    {"dtype", PB_ALL, "TYPE", "f64 f32 f16 bf16 i8 f8e4m3 f8e5m2 f8e4m3fnuz f8e5m2fnuz; default f32"},
    {"wei-dtype", PB_ANY, "TYPE", "when it differs from --dtype"},
    {"out-dtype", PB_ALL, "TYPE", NULL},
    {"din-dtype", PB_GN_BWD, "TYPE", NULL},
    {"wei1-dtype", PB_CONV_CONV, "TYPE", NULL},
    {"param-dtype", PB_GN, "TYPE", "of gamma, beta and their gradients; default --dtype"},
    {"compute-in", PB_ANY, "TYPE", "type to round a read tensor to; also tf32, bf16x3"},
    {"compute-wei", PB_ANY, "TYPE", NULL},
    {"compute-out", PB_ONE, "TYPE", NULL},
    {"compute-wei1", PB_CONV_CONV, "TYPE", NULL},
    {"dbias-dtype", PB_BWD_WEIGHT, "TYPE", "also the bias gradient, of this type: f32 or that of wei or out"},
    {"strides-in", PB_ALL, "LIST", "in elements, in the order G,N,C,spatial; replaces a layout"},
    {"strides-out", PB_ALL, "LIST", "G,N,K,spatial"},
    {"strides-wei", PB_ANY, "LIST", "G,K,C,filter"},
    {"strides-din", PB_GN_BWD, "LIST", "G,N,C,spatial"},
    {"strides-mid", PB_CONV_CONV, "LIST", "G,N,K,spatial"},
    {"strides-wei1", PB_CONV_CONV, "LIST", "G1,K1,G*K/G1,filter1"},
    {"k1", PB_CONV_CONV, "INT", "output channels per group of the second convolution"},
    {"g1", PB_CONV_CONV, "INT", "its groups, default 1"},
    {"filter1", PB_CONV_CONV, "LIST", "its filter, default 1"},
    {"stride1", PB_CONV_CONV, "LIST", "default 1"},
    {"dilation1", PB_CONV_CONV, "LIST", "default 1"},
    {"pad1", PB_CONV_CONV, "LIST", "default 0"},
    {"pad-hi1", PB_CONV_CONV, "LIST", "default --pad1"},
    {"scale0", PB_CONV_CONV, "FILE", "vector of G*K factors between the convolutions (see FILES)"},
    {"shift0", PB_CONV_CONV, "FILE", "vector of G*K terms between the convolutions"},
    {"act0", PB_CONV_CONV, "OP", "activation between the convolutions"},
    {"eps", PB_GN, "REAL", "default 1e-5"},
    {"act", PB_GN, "NAME", "relu, sigmoid, silu or gelu, fused"},
    {"per-image", PB_GN, NULL, "gamma, beta and their gradients are [N, G*C] (adaptive group norm)"},
    {"op-in", PB_ANY, "OP", "element operation on a tensor (see ELEMENTS): relu, scale:2, clamp:-1:1"},
    {"op-wei", PB_ANY, "OP", NULL},
    {"op-wei1", PB_CONV_CONV, "OP", NULL},
    {"op-out", PB_ANY, "OP", NULL},
    {"epilogue", PB_ANY, "NAME", "the written tensor's operation, with --alpha, --beta and --d0..--d3"},
    {"alpha", PB_ANY, "REAL", "its first number, for those that take one"},
    {"beta", PB_ANY, "REAL", "and its second one (--op-<written tensor> bilinear:2:0.5 says the same)"},
    {"d0", PB_ANY, "FILE", "extra tensor of the epilogue (see FILES), up to --d3"},
    {"d0-dtype", PB_ANY, "TYPE", "default: the written tensor's"},
    {"d0-layout", PB_ANY, "NAME", "default: the written tensor's, CHANNEL for a vector (bias)"},
    {"strides-d0", PB_ANY, "LIST", "0 broadcasts"},
    {"d1", PB_ANY, "FILE", ""},
    {"d1-dtype", PB_ANY, "TYPE", ""},
    {"d1-layout", PB_ANY, "NAME", ""},
    {"strides-d1", PB_ANY, "LIST", ""},
    {"d2", PB_ANY, "FILE", ""},
    {"d2-dtype", PB_ANY, "TYPE", ""},
    {"d2-layout", PB_ANY, "NAME", ""},
    {"strides-d2", PB_ANY, "LIST", ""},
    {"d3", PB_ANY, "FILE", ""},
    {"d3-dtype", PB_ANY, "TYPE", ""},
    {"d3-layout", PB_ANY, "NAME", ""},
    {"strides-d3", PB_ANY, "LIST", ""},
    {"engine", PB_ALL, "NAME", "ref, cpu or gpu; default: gpu if there is one, else cpu"},
    {"device", PB_ALL, "INT", "GPU number, default 0"},
    {"target", PB_ALL, "NAME", "plan for this GPU (gfx942, sm_90, ..), here or not: list, run --dump-launch"},
    {"costs", PB_ALL, "FILE", "GPU: corrections of modelled times, which find --fit wrote"},
    {"threads", PB_ALL, "INT", "CPU threads"},
    {"instance", PB_ALL, "NAME", "an instance or a family, see ckconv list"},
    {"split-k", PB_ALL, "INT", "parts of the reduction; default: the planner's choice"},
    {"max-workspace", PB_ALL, "INT", "bytes at most; 0: no limit, -1: none at all"},
};
enum { PB_OPTIONS = (int)(sizeof pb_options / sizeof pb_options[0]), PB_MAX_D = 4 };

/* A problem being put together. Zero it and set op, then pb_set for each option, then pb_finish. */
typedef struct pb_problem {
    ckconv_op op;
    const char *value[PB_OPTIONS]; /* as given; not copied */
    int d_rank[PB_MAX_D];          /* 1: the file of this D tensor holds a vector, so its layout is CHANNEL */
    /* filled by pb_finish */
    ckconv_conv_desc conv;           /* fwd, bwd_data, bwd_weight */
    ckconv_conv_conv_desc conv_conv; /* conv_conv_fwd */
    ckconv_groupnorm_desc groupnorm; /* groupnorm_fwd, groupnorm_bwd */
    ckconv_options options;
    ckconv_device device;
} pb_problem;

PB_FUNCTION const char *pb_op_text(ckconv_op op)
{
    const char *name = ckconv_op_name(op);
    return name != NULL ? name : "?";
}

/* Index of an option of this operation by its name, -1 for none. */
PB_FUNCTION int pb_find(ckconv_op op, const char *name)
{
    for (int i = 0; i < PB_OPTIONS; i++) {
        if ((pb_options[i].ops & 1 << op) != 0 && strcmp(pb_options[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* The value given for an option, NULL when it was not given. */
PB_FUNCTION const char *pb_value(const pb_problem *p, const char *name)
{
    int i = pb_find(p->op, name);
    return i < 0 ? NULL : p->value[i];
}

/* Take "name" with its value ("" for an option without one). 1: taken, 0: not an option of p->op (and *err
   says so). The pointer is kept. */
PB_FUNCTION int pb_set(pb_problem *p, const char *name, const char *value, ckconv_error *err)
{
    int i = pb_find(p->op, name);
    if (i >= 0) {
        p->value[i] = value;
        return 1;
    }
    for (i = 0; i < PB_OPTIONS; i++) {
        if (strcmp(pb_options[i].name, name) == 0) {
            return pb_fail(err, "--%s: not an option of %s", name, pb_op_text(p->op));
        }
    }
    return pb_fail(err, "--%s: unknown option", name);
}

PB_FUNCTION int pb_parse_int(const char *text, const char **end, int64_t *value)
{
    char *stop;
    errno = 0;
    long long number = strtoll(text, &stop, 10);
    *end = stop;
    *value = (int64_t)number;
    return stop != text && errno == 0 && *text != ' ' && *text != '+';
}

PB_FUNCTION int pb_parse_real(const char *text, const char **end, double *value)
{
    char *stop;
    *value = strtod(text, &stop);
    *end = stop;
    return stop != text && *value - *value == 0.0; /* finite */
}

/* One whole number of at least `least`; an absent option leaves *value. */
PB_FUNCTION int pb_int(const pb_problem *p, const char *name, int required, int64_t least, int64_t *value,
                       ckconv_error *err)
{
    const char *text = pb_value(p, name), *end;
    if (text == NULL) {
        return required ? pb_fail(err, "--%s: missing, %s needs it", name, pb_op_text(p->op)) : 1;
    }
    if (!pb_parse_int(text, &end, value) || *end != '\0') {
        return pb_fail(err, "--%s: '%.60s' is not a whole number", name, text);
    }
    if (*value < least) {
        return pb_fail(err, "--%s: is %lld, at least %lld is allowed", name, (long long)*value,
                       (long long)least);
    }
    return 1;
}

PB_FUNCTION int pb_int32(const pb_problem *p, const char *name, int64_t least, int32_t *value,
                         ckconv_error *err)
{
    int64_t wide = *value;
    if (!pb_int(p, name, 0, least, &wide, err)) {
        return 0;
    }
    if (wide > INT32_MAX) {
        return pb_fail(err, "--%s: %lld is too large", name, (long long)wide);
    }
    *value = (int32_t)wide;
    return 1;
}

/* `count` whole numbers with commas between; an absent option leaves them. */
PB_FUNCTION int pb_list(const pb_problem *p, const char *name, int required, int64_t least, int count,
                        int64_t *values, ckconv_error *err)
{
    const char *text = pb_value(p, name);
    if (text == NULL) {
        return required ? pb_fail(err, "--%s: missing, %s needs it", name, pb_op_text(p->op)) : 1;
    }
    const char *at = text;
    for (int i = 0; i < count; i++) {
        if (!pb_parse_int(at, &at, &values[i]) || *at != (i + 1 < count ? ',' : '\0')) {
            return pb_fail(err, "--%s: '%.60s' must be %d whole number%s", name, text, count,
                           count == 1 ? " (--input has one dimension)" : "s with commas between");
        }
        if (values[i] < least) {
            return pb_fail(err, "--%s: holds %lld, at least %lld is allowed", name, (long long)values[i],
                           (long long)least);
        }
        at++;
    }
    return 1;
}

PB_FUNCTION int pb_real(const pb_problem *p, const char *name, double *value, ckconv_error *err)
{
    const char *text = pb_value(p, name), *end;
    if (text != NULL && (!pb_parse_real(text, &end, value) || *end != '\0')) {
        return pb_fail(err, "--%s: '%.60s' is not a number", name, text);
    }
    return 1;
}

PB_FUNCTION int pb_dtype(const pb_problem *p, const char *name, ckconv_dtype *dtype, ckconv_error *err)
{
    const char *text = pb_value(p, name);
    if (text != NULL && (*dtype = ckconv_dtype_from_name(text)) == 0) {
        return pb_fail(err,
                       "--%s: '%.60s' is none of f64, f32, f16, bf16, i8, i32, f8e4m3, f8e5m2, f8e4m3fnuz, "
                       "f8e5m2fnuz, tf32, bf16x3",
                       name, text);
    }
    return 1;
}

PB_FUNCTION int pb_layout(const pb_problem *p, const char *name, ckconv_layout *layout, ckconv_error *err)
{
    const char *text = pb_value(p, name);
    if (text != NULL && (*layout = ckconv_layout_from_name(text)) == 0) {
        return pb_fail(err,
                       "--%s: '%.60s' is none of NHWGC, GNHWC, NGCHW (plain NCHW is NGCHW), GKYXC, GKCYX, "
                       "CHANNEL",
                       name, text);
    }
    return 1;
}

/* --NAME-dtype, --NAME-layout, --strides-NAME ("in" has the plain names --dtype and --layout). */
PB_FUNCTION int pb_tensor_options(const pb_problem *p, const char *name, int ndim, int64_t least_stride,
                                  ckconv_tensor *tensor, ckconv_error *err)
{
    char dtype[24], layout[24], strides[24];
    int plain = strcmp(name, "in") == 0;
    snprintf(dtype, sizeof dtype, "%s%s", plain ? "" : name, plain ? "dtype" : "-dtype");
    snprintf(layout, sizeof layout, "%s%s", plain ? "" : name, plain ? "layout" : "-layout");
    snprintf(strides, sizeof strides, "strides-%s", name);
    if (!pb_dtype(p, dtype, &tensor->dtype, err) || !pb_layout(p, layout, &tensor->layout, err)) {
        return 0;
    }
    if (pb_value(p, strides) != NULL) {
        if (!plain && pb_value(p, layout) != NULL) {
            return pb_fail(err, "--%s: not together with --%s", strides, layout);
        }
        tensor->layout = CKCONV_STRIDED;
    }
    return pb_list(p, strides, 0, least_stride, 3 + ndim, tensor->stride, err);
}

/* The name of the next element operation from *kind on, which becomes its number; NULL: there is none. */
PB_FUNCTION const char *pb_next_element(ckconv_element *kind)
{
    while (*kind < 256 && ckconv_element_name(*kind) == NULL) {
        ++*kind;
    }
    return ckconv_element_name(*kind);
}

/* "--option: 'text' is none of pass, scale, ..." */
PB_FUNCTION int pb_fail_element(ckconv_error *err, const char *option, const char *text)
{
    char list[sizeof err->text];
    size_t at = 0;
    for (ckconv_element kind = 0; pb_next_element(&kind) != NULL && at < sizeof list; kind++) {
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at > 0 ? ", " : "",
                               ckconv_element_name(kind));
    }
    return pb_fail(err, "--%s: '%.60s' is none of %s", option, text, list);
}

/* How many parameters and D tensors an operation takes; -1 D tensors: any number. */
PB_FUNCTION void pb_element_needs(ckconv_element kind, int *parameters, int *d)
{
    int one = kind == CKCONV_SCALE || kind == CKCONV_SCALE_ADD || kind == CKCONV_LEAKY_RELU;
    int two = kind == CKCONV_CLAMP || kind == CKCONV_BILINEAR || kind == CKCONV_CLAMP_BWD;
    int pair = kind == CKCONV_BIAS_RESIDUAL_RELU || kind == CKCONV_BIAS_RELU_ADD ||
               kind == CKCONV_SCALE_SHIFT || kind == CKCONV_SCALE_SHIFT_RELU;
    int any = kind == CKCONV_ADD || kind == CKCONV_ADD_RELU;
    *parameters = one ? 1 : two ? 2 : 0;
    *d = any ? -1 : pair ? 2 : kind >= CKCONV_BILINEAR && kind != CKCONV_ACCUMULATE ? 1 : 0;
}

/* "relu", "scale:2", "clamp:-1:1" */
PB_FUNCTION int pb_element(const pb_problem *p, const char *name, ckconv_element_op *op, ckconv_error *err)
{
    const char *text = pb_value(p, name);
    if (text == NULL) {
        return 1;
    }
    char kind[32];
    size_t length = strcspn(text, ":");
    snprintf(kind, sizeof kind, "%.*s", (int)(length < sizeof kind ? length : sizeof kind - 1), text);
    op->kind = ckconv_element_from_name(kind);
    if (op->kind < 0) {
        return pb_fail_element(err, name, kind);
    }
    int parameters, d, given = 0;
    pb_element_needs(op->kind, &parameters, &d);
    const char *at = text + length;
    while (*at == ':' && given < 2) {
        if (!pb_parse_real(at + 1, &at, given == 0 ? &op->alpha : &op->beta)) {
            return pb_fail(err, "--%s: '%.60s' has a parameter that is not a number", name, text);
        }
        given++;
    }
    if (*at != '\0' || given != parameters) {
        return pb_fail(err, "--%s: '%.60s': %s takes %d parameter%s, like %s", name, text, kind, parameters,
                       parameters == 1 ? "" : "s",
                       parameters == 0   ? "relu"
                       : parameters == 1 ? "scale:2"
                                         : "clamp:-1:1");
    }
    return 1;
}

/* --epilogue with --alpha and --beta. `same` is the option that says the same thing. */
PB_FUNCTION int pb_epilogue_options(const pb_problem *p, const char *same, ckconv_element_op *op,
                                    ckconv_error *err)
{
    const char *text = pb_value(p, "epilogue");
    int alpha = pb_value(p, "alpha") != NULL, beta = pb_value(p, "beta") != NULL;
    if (text == NULL) {
        if (alpha || beta) {
            return pb_fail(err, "--%s: only with --epilogue", alpha ? "alpha" : "beta");
        }
        return pb_element(p, same, op, err);
    }
    if (pb_value(p, same) != NULL) {
        return pb_fail(err, "--epilogue: not together with --%s, which says the same", same);
    }
    op->kind = ckconv_element_from_name(text);
    if (op->kind < 0) {
        return pb_fail_element(err, "epilogue", text);
    }
    int parameters, d;
    pb_element_needs(op->kind, &parameters, &d);
    if (alpha != (parameters >= 1)) {
        return pb_fail(err, "--alpha: %s --epilogue %s", alpha ? "is no parameter of" : "missing, needed by",
                       text);
    }
    if (beta != (parameters == 2)) {
        return pb_fail(err, "--beta: %s --epilogue %s", beta ? "is no parameter of" : "missing, needed by",
                       text);
    }
    return pb_real(p, "alpha", &op->alpha, err) && pb_real(p, "beta", &op->beta, err);
}

/* The D tensors: as many as were named, at least as many as the epilogue needs. */
PB_FUNCTION int pb_d_options(const pb_problem *p, int ndim, const ckconv_element_op *op, ckconv_tensor *d,
                             int32_t *num_d, ckconv_error *err)
{
    int parameters, needs;
    pb_element_needs(op->kind, &parameters, &needs);
    *num_d = needs > 0 ? needs : 0;
    for (int i = 0; i < PB_MAX_D; i++) {
        char option[4][24];
        snprintf(option[0], sizeof option[0], "d%d", i);
        snprintf(option[1], sizeof option[1], "d%d-dtype", i);
        snprintf(option[2], sizeof option[2], "d%d-layout", i);
        snprintf(option[3], sizeof option[3], "strides-d%d", i);
        for (int f = 0; f < 4; f++) {
            if (pb_value(p, option[f]) == NULL || i < *num_d) {
                continue;
            }
            if (needs >= 0) {
                return pb_fail(err, "--%s: the epilogue '%s' takes %d D tensor%s", option[f],
                               ckconv_element_name(op->kind), needs, needs == 1 ? "" : "s");
            }
            *num_d = i + 1;
        }
        if (!pb_tensor_options(p, option[0], ndim, 0, &d[i], err)) {
            return 0;
        }
        int bias = (i == 0 && (op->kind == CKCONV_BIAS || op->kind == CKCONV_BIAS_RELU ||
                               op->kind == CKCONV_BIAS_RESIDUAL_RELU || op->kind == CKCONV_BIAS_SILU ||
                               op->kind == CKCONV_BIAS_GELU || op->kind == CKCONV_BIAS_RELU_ADD)) ||
                   op->kind == CKCONV_SCALE_SHIFT || op->kind == CKCONV_SCALE_SHIFT_RELU;
        if (i < *num_d && d[i].layout == 0 && p->op != CKCONV_BWD_WEIGHT &&
            (p->d_rank[i] == 1 || (bias && p->d_rank[i] == 0))) {
            d[i].layout = CKCONV_CHANNEL;
        }
    }
    return 1;
}

/* The name of the option that holds the written tensor's operation. */
PB_FUNCTION const char *pb_written_op(ckconv_op op)
{
    return op == CKCONV_BWD_DATA ? "op-in" : op == CKCONV_BWD_WEIGHT ? "op-wei" : "op-out";
}

/* Everything of one convolution (the first of two) except its epilogue. base: --layout. */
PB_FUNCTION int pb_conv_options(const pb_problem *p, int ndim, ckconv_layout base, ckconv_conv_desc *d,
                                ckconv_error *err)
{
    int single = p->op != CKCONV_CONV_CONV_FWD;
    const char *written = single ? pb_written_op(p->op) : "";
    d->ndim = ndim;
    d->g = 1;
    d->in.layout = base;
    d->out.layout = base;
    for (int i = 0; i < ndim; i++) {
        d->stride[i] = 1;
        d->dilation[i] = 1;
    }
    if (!pb_int(p, "g", 0, 1, &d->g, err) || !pb_int(p, "n", 1, 0, &d->n, err) ||
        !pb_int(p, "k", 1, 0, &d->k, err) || !pb_int(p, "c", 1, 0, &d->c, err) ||
        !pb_list(p, "filter", 1, 1, ndim, d->filter, err) ||
        !pb_list(p, "input", 1, 0, ndim, d->input, err) ||
        !pb_list(p, "stride", 0, 1, ndim, d->stride, err) ||
        !pb_list(p, "dilation", 0, 1, ndim, d->dilation, err) ||
        !pb_list(p, "pad", 0, 0, ndim, d->pad_lo, err)) {
        return 0;
    }
    memcpy(d->pad_hi, d->pad_lo, sizeof d->pad_hi);
    return pb_list(p, "pad-hi", 0, 0, ndim, d->pad_hi, err) &&
           pb_tensor_options(p, "in", ndim, 1, &d->in, err) &&
           pb_tensor_options(p, "wei", ndim, 1, &d->wei, err) &&
           pb_tensor_options(p, single ? "out" : "mid", ndim, 1, &d->out, err) &&
           pb_dtype(p, "compute-in", &d->compute_in, err) &&
           pb_dtype(p, "compute-wei", &d->compute_wei, err) &&
           pb_dtype(p, "compute-out", &d->compute_out, err) && pb_dtype(p, "dbias-dtype", &d->dbias, err) &&
           (strcmp(written, "op-in") == 0 || pb_element(p, "op-in", &d->op_in, err)) &&
           (strcmp(written, "op-wei") == 0 || pb_element(p, "op-wei", &d->op_wei, err)) &&
           (!single || strcmp(written, "op-out") == 0 || pb_element(p, "op-out", &d->op_out, err));
}

PB_FUNCTION int pb_conv_conv_options(const pb_problem *p, int ndim, ckconv_layout base,
                                     ckconv_conv_conv_desc *d, ckconv_error *err)
{
    d->g1 = 1;
    d->out.layout = base;
    for (int i = 0; i < ndim; i++) {
        d->filter1[i] = 1;
        d->stride1[i] = 1;
        d->dilation1[i] = 1;
    }
    if (!pb_conv_options(p, ndim, base, &d->conv0, err) || !pb_element(p, "act0", &d->conv0.op_out, err) ||
        !pb_int(p, "k1", 1, 0, &d->k1, err) || !pb_int(p, "g1", 0, 1, &d->g1, err) ||
        !pb_list(p, "filter1", 0, 1, ndim, d->filter1, err) ||
        !pb_list(p, "stride1", 0, 1, ndim, d->stride1, err) ||
        !pb_list(p, "dilation1", 0, 1, ndim, d->dilation1, err) ||
        !pb_list(p, "pad1", 0, 0, ndim, d->pad_lo1, err)) {
        return 0;
    }
    memcpy(d->pad_hi1, d->pad_lo1, sizeof d->pad_hi1);
    return pb_list(p, "pad-hi1", 0, 0, ndim, d->pad_hi1, err) &&
           pb_tensor_options(p, "wei1", ndim, 1, &d->wei1, err) &&
           pb_tensor_options(p, "out", ndim, 1, &d->out, err) &&
           pb_dtype(p, "compute-wei1", &d->compute_wei1, err) && pb_element(p, "op-wei1", &d->op_wei1, err) &&
           pb_epilogue_options(p, "op-out", &d->op_out, err) &&
           pb_d_options(p, ndim, &d->op_out, d->d, &d->num_d, err);
}

PB_FUNCTION int pb_groupnorm_options(const pb_problem *p, int ndim, ckconv_layout base,
                                     ckconv_groupnorm_desc *d, ckconv_error *err)
{
    d->ndim = ndim;
    d->g = 1;
    d->eps = 1e-5;
    d->in.layout = base;
    d->out.layout = base;
    d->din.layout = base;
    const char *act = pb_value(p, "act");
    if (act != NULL) {
        d->act = ckconv_element_from_name(act);
        if (d->act < 0) {
            return pb_fail_element(err, "act", act);
        }
    }
    d->param_per_image = pb_value(p, "per-image") != NULL;
    return pb_int(p, "g", 0, 1, &d->g, err) && pb_int(p, "n", 1, 0, &d->n, err) &&
           pb_int(p, "c", 1, 0, &d->c, err) && pb_list(p, "input", 1, 0, ndim, d->input, err) &&
           pb_real(p, "eps", &d->eps, err) && pb_dtype(p, "param-dtype", &d->param_dtype, err) &&
           pb_tensor_options(p, "in", ndim, 1, &d->in, err) &&
           pb_tensor_options(p, "out", ndim, 1, &d->out, err) &&
           pb_tensor_options(p, "din", ndim, 1, &d->din, err);
}

/* A target by name is no device here: tensors of its plans stay on the host. */
enum { PB_NO_DEVICE = 1 << 20 };

/* --costs: a file's text into the device. */
PB_FUNCTION int pb_costs(pb_problem *p, ckconv_error *err)
{
    static const size_t most = 4096;
    const char *path = pb_value(p, "costs");
    char text[4096 + 1];
    ckconv_error why;
    if (path == NULL) {
        return 1;
    }
    if (p->device.kind == CKCONV_DEVICE_CPU) {
        return pb_fail(err, "--costs: only for the engine gpu");
    }
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return pb_fail(err, "--costs: %.100s: cannot be opened", path);
    }
    const size_t length = fread(text, 1, most, file);
    const int whole = feof(file);
    fclose(file);
    text[length] = '\0';
    if (!whole || ckconv_costs_from_text(&p->device, text, &why) != CKCONV_OK) {
        return pb_fail(err, "--costs: %.100s: %s", path, whole ? why.text : "longer than 4096 bytes");
    }
    return 1;
}

/* --engine, --device and what else says how to compute. */
PB_FUNCTION int pb_engine_options(pb_problem *p, ckconv_error *err)
{
    ckconv_options *o = &p->options;
    const char *engine = pb_value(p, "engine");
    if (engine != NULL) {
        o->engine = ckconv_engine_from_name(engine);
        if (o->engine < 0 || (o->engine == CKCONV_ENGINE_AUTO && strcmp(engine, "auto") != 0)) {
            return pb_fail(err, "--engine: '%.60s' is none of auto, ref, cpu, gpu", engine);
        }
    }
    o->instance = pb_value(p, "instance");
    int32_t ordinal = 0;
    if (!pb_int32(p, "device", 0, &ordinal, err) || !pb_int32(p, "split-k", 0, &o->split_k, err) ||
        !pb_int32(p, "threads", 0, &o->threads, err) ||
        !pb_int(p, "max-workspace", 0, -1, &o->max_workspace, err)) {
        return 0;
    }
    const char *target = pb_value(p, "target");
    ckconv_error why;
    if (target != NULL) {
        if (ckconv_device_named(target, &p->device, &why) != CKCONV_OK) {
            return pb_fail(err, "--target: %s", why.text);
        }
        if (p->device.kind == CKCONV_DEVICE_CPU || o->engine == CKCONV_ENGINE_REF ||
            o->engine == CKCONV_ENGINE_CPU) {
            return pb_fail(err, "--target: must name a GPU, with engine gpu");
        }
        p->device.ordinal = PB_NO_DEVICE;
        return pb_costs(p, err);
    }
    int gpu = o->engine == CKCONV_ENGINE_GPU ||
              (o->engine == CKCONV_ENGINE_AUTO && (pb_value(p, "device") != NULL || example_has_gpu()));
    if (!gpu) {
        if (pb_value(p, "device") != NULL) {
            return pb_fail(err, "--device: only for the engine gpu");
        }
        ckconv_device_cpu(&p->device);
        return pb_costs(p, err);
    }
    if (ckconv_device_gpu(ordinal, &p->device, &why) != CKCONV_OK) {
        return pb_fail(err, "--%s: %s", pb_value(p, "device") != NULL ? "device" : "engine", why.text);
    }
    if (ckconv_device_open(&p->device, &why) != CKCONV_OK) {
        return pb_fail(err, "--device: %s", why.text);
    }
    return pb_costs(p, err);
}

/* All options -> descriptions, options, device. */
PB_FUNCTION int pb_finish(pb_problem *p, ckconv_error *err)
{
    memset(&p->conv, 0, sizeof p->conv);
    memset(&p->conv_conv, 0, sizeof p->conv_conv);
    memset(&p->groupnorm, 0, sizeof p->groupnorm);
    memset(&p->options, 0, sizeof p->options);
    int32_t ndim = 1;
    for (const char *at = pb_value(p, "input"); at != NULL && (at = strchr(at, ',')) != NULL; at++) {
        ndim++;
    }
    if (!pb_int32(p, "ndim", 1, &ndim, err)) {
        return 0;
    }
    if (ndim > 3) {
        return pb_fail(err, "--%s: %d dimensions, 1 to 3 are allowed",
                       pb_value(p, "ndim") != NULL ? "ndim" : "input", (int)ndim);
    }
    ckconv_layout base = CKCONV_NHWGC;
    if (!pb_engine_options(p, err) || !pb_layout(p, "layout", &base, err)) {
        return 0;
    }
    if (p->op == CKCONV_CONV_CONV_FWD) {
        return pb_conv_conv_options(p, ndim, base, &p->conv_conv, err);
    }
    if (p->op == CKCONV_GROUPNORM_FWD || p->op == CKCONV_GROUPNORM_BWD) {
        return pb_groupnorm_options(p, ndim, base, &p->groupnorm, err);
    }
    ckconv_conv_desc *d = &p->conv;
    ckconv_element_op *written = p->op == CKCONV_FWD        ? &d->op_out
                                 : p->op == CKCONV_BWD_DATA ? &d->op_in
                                                            : &d->op_wei;
    return pb_conv_options(p, ndim, base, d, err) &&
           pb_epilogue_options(p, pb_written_op(p->op), written, err) &&
           pb_d_options(p, ndim, written, d->d, &d->num_d, err);
}

/* The option that a text about a member of a description is about: "conv0.filter[1] is ..." -> "filter". */
PB_FUNCTION const char *pb_blame(const pb_problem *p, const char *text, char *option, size_t size)
{
    static const char *const renamed[][2] = {{"pad_lo", "pad"}, {"pad_lo1", "pad1"}, {"out", "mid"}};
    int first = strncmp(text, "conv0.", 6) == 0;
    text += first ? 6 : strncmp(text, "options.", 8) == 0 ? 8 : 0;
    char name[24], part[24] = "";
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz_0123456789");
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : 0), text);
    text += length;
    if (strcmp(name, "d") == 0 && *text == '[') { /* d[0].layout */
        snprintf(name, sizeof name, "d%c", text[1]);
        text += strcspn(text, "]") + 1;
    }
    if (*text == '.') {
        length = strspn(text + 1, "abcdefghijklmnopqrstuvwxyz_");
        snprintf(part, sizeof part, "%.*s", (int)(length < sizeof part ? length : 0), text + 1);
    }
    for (int i = 0; i < (first ? 3 : 2); i++) {
        if (strcmp(name, renamed[i][0]) == 0) {
            snprintf(name, sizeof name, "%s", renamed[i][1]);
        }
    }
    if (strcmp(part, "stride") == 0) {
        snprintf(option, size, "strides-%s", name);
    } else if (strcmp(part, "dtype") == 0 || strcmp(part, "layout") == 0) {
        snprintf(option, size, "%s-%s", name, part);
    } else if (strcmp(name, "num_d") == 0 || strncmp(name, "op_", 3) == 0) {
        int written = strcmp(name, "num_d") == 0 || strcmp(name, "op_out") == 0;
        snprintf(option, size, "%s",
                 first && written ? "act0"
                 : name[0] == 'n' ? pb_written_op(p->op)
                                  : name);
    } else if (*text == ':') { /* "in: the tensor passes 2^62 bytes" */
        snprintf(option, size, "%s", strncmp(name, "wei", 3) == 0 ? "k" : "n");
    } else {
        snprintf(option, size, "%s", name);
    }
    for (char *at = strchr(option, '_'); at != NULL; at = strchr(at, '_')) {
        *at = '-';
    }
    if (strcmp(option, pb_written_op(p->op)) == 0 && pb_value(p, "epilogue") != NULL) {
        snprintf(option, size, "epilogue");
    }
    if (pb_value(p, option) == NULL && (strcmp(part, "layout") == 0 || strcmp(part, "dtype") == 0)) {
        snprintf(option, size, "%s", part);
    }
    if (strcmp(option, "dbias") == 0) {
        snprintf(option, size, "dbias-dtype");
    }
    if (strcmp(option, "in") == 0 || strcmp(option, "wei") == 0) { /* "in, wei, out have types ..." */
        snprintf(option, size, "dtype");
    }
    return pb_find(p->op, option) >= 0 ? option : pb_value(p, "instance") != NULL ? "instance" : NULL;
}

/* The plan of a finished problem with these options, for p->device. */
PB_FUNCTION int pb_plan_with(const pb_problem *p, const ckconv_options *options, ckconv_plan *plan,
                             ckconv_error *err)
{
    ckconv_error why;
    ckconv_status status = p->op == CKCONV_CONV_CONV_FWD
                               ? ckconv_plan_conv_conv(plan, &p->conv_conv, options, &p->device, &why)
                           : p->op == CKCONV_GROUPNORM_FWD || p->op == CKCONV_GROUPNORM_BWD
                               ? ckconv_plan_groupnorm(plan, p->op, &p->groupnorm, options, &p->device, &why)
                               : ckconv_plan_conv(plan, p->op, &p->conv, options, &p->device, &why);
    if (status == CKCONV_OK) {
        return 1;
    }
    char name[48];
    const char *option = pb_blame(p, why.text, name, sizeof name);
    pb_fail(err, "%s%s%s%.200s", option != NULL ? "--" : "", option != NULL ? option : "",
            option != NULL ? ": " : "", why.text);
    if (err != NULL) {
        err->status = status;
    }
    return 0;
}

/* The plan that the options ask for. */
PB_FUNCTION int pb_plan(const pb_problem *p, ckconv_plan *plan, ckconv_error *err)
{
    return pb_plan_with(p, &p->options, plan, err);
}


/*------------------------------------------------------------------------------------------------------------
  A plan's problem as options
*/
typedef struct pb_text {
    char *text;
    size_t size, used;
} pb_text;

PB_FUNCTION void pb_put(pb_text *out, const char *format, ...) PB_PRINTF;
PB_FUNCTION void pb_put(pb_text *out, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    size_t left = out->used < out->size ? out->size - out->used : 0;
    int length = vsnprintf(left > 0 ? out->text + out->used : NULL, left, format, list);
    va_end(list);
    out->used += length > 0 ? (size_t)length : 0;
}

PB_FUNCTION void pb_put_list(pb_text *out, const char *name, int count, const int64_t *values, int64_t usual)
{
    int differs = usual < 0;
    for (int i = 0; i < count; i++) {
        differs = differs || (values[i] != usual && !(usual == 1 && values[i] == 0));
    }
    for (int i = 0; differs && i < count; i++) {
        if (i == 0) {
            pb_put(out, " --%s %lld", name, (long long)values[i]);
        } else {
            pb_put(out, ",%lld", (long long)values[i]);
        }
    }
}

PB_FUNCTION void pb_put_tensor(pb_text *out, const char *name, int ndim, const ckconv_tensor *tensor)
{
    int plain = strcmp(name, "in") == 0;
    if (tensor->dtype != 0) {
        pb_put(out, " --%s%sdtype %s", plain ? "" : name, plain ? "" : "-", ckconv_dtype_name(tensor->dtype));
    }
    if (tensor->layout == CKCONV_STRIDED) {
        char strides[24];
        snprintf(strides, sizeof strides, "strides-%s", name);
        pb_put_list(out, strides, 3 + ndim, tensor->stride, -1);
    } else if (tensor->layout != 0) {
        pb_put(out, " --%s%slayout %s", plain ? "" : name, plain ? "" : "-",
               ckconv_layout_name(tensor->layout));
    }
}

PB_FUNCTION void pb_put_element(pb_text *out, const char *name, const ckconv_element_op *op)
{
    int parameters, d;
    if (op->kind != CKCONV_PASS) {
        pb_element_needs(op->kind, &parameters, &d);
        pb_put(out, " --%s %s", name, ckconv_element_name(op->kind));
        if (parameters > 0) {
            pb_put(out, ":%.17g", op->alpha);
        }
        if (parameters > 1) {
            pb_put(out, ":%.17g", op->beta);
        }
    }
}

PB_FUNCTION void pb_put_d(pb_text *out, int ndim, int num_d, const ckconv_tensor *d)
{
    for (int i = 0; i < num_d; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", i);
        pb_put(out, " --%s -", name);
        pb_put_tensor(out, name, ndim, &d[i]);
    }
}

PB_FUNCTION void pb_put_dtype(pb_text *out, const char *name, ckconv_dtype dtype)
{
    if (dtype != 0) {
        pb_put(out, " --%s %s", name, ckconv_dtype_name(dtype));
    }
}

PB_FUNCTION void pb_put_conv(pb_text *out, const ckconv_conv_desc *d, int single)
{
    int ndim = d->ndim;
    pb_put(out, " --ndim %d --g %lld --n %lld --k %lld --c %lld", (int)ndim, (long long)d->g, (long long)d->n,
           (long long)d->k, (long long)d->c);
    pb_put_list(out, "filter", ndim, d->filter, -1);
    pb_put_list(out, "input", ndim, d->input, -1);
    pb_put_list(out, "stride", ndim, d->stride, 1);
    pb_put_list(out, "dilation", ndim, d->dilation, 1);
    pb_put_list(out, "pad", ndim, d->pad_lo, 0);
    if (memcmp(d->pad_lo, d->pad_hi, sizeof d->pad_lo) != 0) {
        pb_put_list(out, "pad-hi", ndim, d->pad_hi, -1);
    }
    pb_put_tensor(out, "in", ndim, &d->in);
    pb_put_tensor(out, "wei", ndim, &d->wei);
    ckconv_tensor written = d->out;
    written.dtype = single ? written.dtype : 0; /* mid always has the type of in */
    pb_put_tensor(out, single ? "out" : "mid", ndim, &written);
    pb_put_dtype(out, "compute-in", d->compute_in);
    pb_put_dtype(out, "compute-wei", d->compute_wei);
    if (single) {
        pb_put_dtype(out, "compute-out", d->compute_out);
        pb_put_dtype(out, "dbias-dtype", d->dbias);
    }
    pb_put_element(out, "op-in", &d->op_in);
    pb_put_element(out, "op-wei", &d->op_wei);
    pb_put_element(out, single ? "op-out" : "act0", &d->op_out);
    if (single) {
        pb_put_d(out, ndim, d->num_d, d->d);
    }
}

/* "fwd --ndim 2 --g 1 ...": what the driver takes to plan the same problem. How it is computed is not part of
   it (add --instance and --split-k for that); D files and the vectors between two convolutions are "-".
   Returns the full length, as snprintf does. */
PB_FUNCTION size_t pb_command(const ckconv_plan *plan, char *text, size_t size)
{
    pb_text out = {text, size, 0};
    pb_put(&out, "%s", pb_op_text(plan->op));
    if (plan->op == CKCONV_CONV_CONV_FWD) {
        const ckconv_conv_conv_desc *d = &plan->u.conv_conv;
        int ndim = d->conv0.ndim;
        pb_put_conv(&out, &d->conv0, 0);
        pb_put(&out, " --k1 %lld --g1 %lld", (long long)d->k1, (long long)d->g1);
        pb_put_list(&out, "filter1", ndim, d->filter1, 1);
        pb_put_list(&out, "stride1", ndim, d->stride1, 1);
        pb_put_list(&out, "dilation1", ndim, d->dilation1, 1);
        pb_put_list(&out, "pad1", ndim, d->pad_lo1, 0);
        if (memcmp(d->pad_lo1, d->pad_hi1, sizeof d->pad_lo1) != 0) {
            pb_put_list(&out, "pad-hi1", ndim, d->pad_hi1, -1);
        }
        pb_put_tensor(&out, "wei1", ndim, &d->wei1);
        pb_put_tensor(&out, "out", ndim, &d->out);
        pb_put_dtype(&out, "compute-wei1", d->compute_wei1);
        pb_put_element(&out, "op-wei1", &d->op_wei1);
        pb_put_element(&out, "op-out", &d->op_out);
        pb_put_d(&out, ndim, d->num_d, d->d);
    } else if (plan->op == CKCONV_GROUPNORM_FWD || plan->op == CKCONV_GROUPNORM_BWD) {
        const ckconv_groupnorm_desc *d = &plan->u.groupnorm;
        pb_put(&out, " --ndim %d --g %lld --n %lld --c %lld", (int)d->ndim, (long long)d->g, (long long)d->n,
               (long long)d->c);
        pb_put_list(&out, "input", d->ndim, d->input, -1);
        pb_put(&out, " --eps %.17g", d->eps);
        pb_put_dtype(&out, "param-dtype", d->param_dtype);
        pb_put_tensor(&out, "in", d->ndim, &d->in);
        pb_put_tensor(&out, "out", d->ndim, &d->out);
        if (plan->op == CKCONV_GROUPNORM_BWD) {
            pb_put_tensor(&out, "din", d->ndim, &d->din);
        }
        if (d->act != CKCONV_PASS) {
            pb_put(&out, " --act %s", ckconv_element_name(d->act));
        }
        if (d->param_per_image) {
            pb_put(&out, " --per-image");
        }
    } else {
        pb_put_conv(&out, &plan->u.conv, 1);
    }
    return out.used;
}


/*------------------------------------------------------------------------------------------------------------
  Elements of a tensor in any layout. A row is all entries of the last index; rows are numbered in logical
  order.
*/
PB_FUNCTION int64_t pb_rows(const ckconv_tensor_info *t)
{
    int64_t rows = t->count > 0 ? 1 : 0;
    for (int i = 0; rows > 0 && i + 1 < t->rank; i++) {
        rows *= t->length[i];
    }
    return rows;
}

PB_FUNCTION int64_t pb_row_length(const ckconv_tensor_info *t)
{
    return t->rank > 0 ? t->length[t->rank - 1] : 1;
}

PB_FUNCTION int64_t pb_row_offset(const ckconv_tensor_info *t, int64_t row)
{
    int64_t offset = 0;
    for (int i = t->rank - 2; i >= 0; i--) {
        offset += row % t->length[i] * t->stride[i];
        row /= t->length[i];
    }
    return offset;
}

enum { PB_PIECE = 512 }; /* elements that one pb_row_get or pb_row_put may move */

/* Entries first .. first+count-1 of a row as doubles, count <= PB_PIECE. */
PB_FUNCTION void pb_row_get(const ckconv_tensor_info *t, const void *data, int64_t row, int64_t first,
                            int64_t count, double *values)
{
    size_t size = ckconv_dtype_size(t->dtype);
    int64_t step = t->rank > 0 ? t->stride[t->rank - 1] : 1;
    const char *from = (const char *)data + (size_t)(pb_row_offset(t, row) + first * step) * size;
    char packed[PB_PIECE * 8];
    if (step != 1) {
        for (int64_t i = 0; i < count; i++) {
            memcpy(packed + (size_t)i * size, from + (size_t)(i * step) * size, size);
        }
        from = packed;
    }
    ckconv_to_double(t->dtype, from, values, (size_t)count);
}

PB_FUNCTION void pb_row_put(const ckconv_tensor_info *t, void *data, int64_t row, int64_t first,
                            int64_t count, const double *values)
{
    size_t size = ckconv_dtype_size(t->dtype);
    int64_t step = t->rank > 0 ? t->stride[t->rank - 1] : 1;
    char *to = (char *)data + (size_t)(pb_row_offset(t, row) + first * step) * size;
    if (step == 1) {
        ckconv_from_double(t->dtype, values, to, (size_t)count);
        return;
    }
    char packed[PB_PIECE * 8];
    ckconv_from_double(t->dtype, values, packed, (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        memcpy(to + (size_t)(i * step) * size, packed + (size_t)i * size, size);
    }
}


/*------------------------------------------------------------------------------------------------------------
  The tensors of a plan
*/
typedef struct pb_role {
    const char *name; /* its file option */
    int32_t which;    /* CKCONV_TENSOR_... */
    size_t member;    /* pointer in ckconv_args */
    const char
        use[7]; /* by operation: r read, o read if wanted, d read as a D tensor, w written, x written if
                           wanted, . not used */
    char shape; /* i: input-like, w: weights, v: vector [G*C], or [N, G*C], s: [N, G], e: as the written
                   tensor */
} pb_role;

static const pb_role pb_roles[] = {
    {"in", CKCONV_TENSOR_IN, offsetof(ckconv_args, in), "r.rrrr", 'i'},
    {"wei", CKCONV_TENSOR_WEI, offsetof(ckconv_args, wei), "rr....", 'w'},
    {"wei0", CKCONV_TENSOR_WEI, offsetof(ckconv_args, wei), "...r..", 'w'},
    {"wei1", CKCONV_TENSOR_WEI1, offsetof(ckconv_args, wei1), "...r..", 'w'},
    {"dout", CKCONV_TENSOR_OUT, offsetof(ckconv_args, dout), ".rr..r", 'i'},
    {"d0", CKCONV_TENSOR_D0, offsetof(ckconv_args, d), "dddd..", 'e'},
    {"d1", CKCONV_TENSOR_D0 + 1, offsetof(ckconv_args, d) + sizeof(void *), "dddd..", 'e'},
    {"d2", CKCONV_TENSOR_D0 + 2, offsetof(ckconv_args, d) + 2 * sizeof(void *), "dddd..", 'e'},
    {"d3", CKCONV_TENSOR_D0 + 3, offsetof(ckconv_args, d) + 3 * sizeof(void *), "dddd..", 'e'},
    {"scale0", CKCONV_TENSOR_CHANNEL, offsetof(ckconv_args, scale), "...o..", 'v'},
    {"shift0", CKCONV_TENSOR_CHANNEL, offsetof(ckconv_args, shift), "...o..", 'v'},
    {"gamma", CKCONV_TENSOR_CHANNEL, offsetof(ckconv_args, gamma), "....oo", 'v'},
    {"beta", CKCONV_TENSOR_CHANNEL, offsetof(ckconv_args, beta), "....oo", 'v'},
    {"mean", CKCONV_TENSOR_STAT, offsetof(ckconv_args, saved_mean), ".....o", 's'},
    {"inv-std", CKCONV_TENSOR_STAT, offsetof(ckconv_args, saved_inv_std), ".....o", 's'},
    {"out", CKCONV_TENSOR_OUT, offsetof(ckconv_args, out), "w..ww.", 'i'},
    {"din", CKCONV_TENSOR_IN, offsetof(ckconv_args, din), ".w....", 'i'},
    {"din", CKCONV_TENSOR_DIN, offsetof(ckconv_args, din), ".....x", 'i'},
    {"dwei", CKCONV_TENSOR_WEI, offsetof(ckconv_args, dwei), "..w...", 'w'},
    {"dbias", CKCONV_TENSOR_DBIAS, offsetof(ckconv_args, dbias), "..x...", 'v'},
    {"mid", CKCONV_TENSOR_MID, offsetof(ckconv_args, mid), "...x..", 'i'},
    {"mean", CKCONV_TENSOR_STAT, offsetof(ckconv_args, mean), "....x.", 's'},
    {"inv-std", CKCONV_TENSOR_STAT, offsetof(ckconv_args, inv_std), "....x.", 's'},
    {"dgamma", CKCONV_TENSOR_CHANNEL, offsetof(ckconv_args, dgamma), ".....x", 'v'},
    {"dbeta", CKCONV_TENSOR_CHANNEL, offsetof(ckconv_args, dbeta), ".....x", 'v'},
};
enum { PB_ROLES = (int)(sizeof pb_roles / sizeof pb_roles[0]) };

/* Role of a tensor by its file option, -1 when the operation has none of this name. */
PB_FUNCTION int pb_role_of(ckconv_op op, const char *name)
{
    for (int r = 0; r < PB_ROLES; r++) {
        if (pb_roles[r].use[op - 1] != '.' && strcmp(pb_roles[r].name, name) == 0) {
            return r;
        }
    }
    return -1;
}

PB_FUNCTION int pb_is_written(ckconv_op op, int role)
{
    return pb_roles[role].use[op - 1] == 'w' || pb_roles[role].use[op - 1] == 'x';
}

/* Which tensor the epilogue writes, its operation and D tensors; group norms have none (NULL). */
PB_FUNCTION const ckconv_element_op *pb_plan_epilogue(const ckconv_plan *plan, int *num_d,
                                                      const ckconv_tensor **d)
{
    const ckconv_conv_desc *conv = &plan->u.conv;
    *num_d = 0;
    *d = NULL;
    switch (plan->op) {
    case CKCONV_FWD:
    case CKCONV_BWD_DATA:
    case CKCONV_BWD_WEIGHT:
        *num_d = conv->num_d;
        *d = conv->d;
        return plan->op == CKCONV_FWD        ? &conv->op_out
               : plan->op == CKCONV_BWD_DATA ? &conv->op_in
                                             : &conv->op_wei;
    case CKCONV_CONV_CONV_FWD:
        *num_d = plan->u.conv_conv.num_d;
        *d = plan->u.conv_conv.d;
        return &plan->u.conv_conv.op_out;
    default:
        return NULL;
    }
}

/* The tensors of one plan in memory: host[] everywhere, device[] what a run gets (the same on a CPU). */
typedef struct pb_data {
    ckconv_device where;
    ckconv_op op;
    int used[PB_ROLES]; /* 0: absent, 1: owned, 2: shared */
    ckconv_tensor_info info[PB_ROLES];
    void *host[PB_ROLES], *device[PB_ROLES];
    ckconv_args args;
    void *workspace;
    size_t workspace_bytes;
} pb_data;

/* Memory that begins at a cache line, as real programs' tensors do. */
PB_FUNCTION void *pb_new(size_t bytes)
{
    enum { LINE = 64 };
    char *base = bytes < SIZE_MAX - 2 * LINE ? (char *)malloc(bytes + 2 * LINE) : NULL;
    if (base == NULL) {
        return NULL;
    }
    size_t shift = (size_t)LINE - (size_t)((uintptr_t)base % LINE);
    char *start = base + (shift < sizeof base ? shift + LINE : shift);
    memcpy(start - sizeof base, &base, sizeof base);
    return start;
}

PB_FUNCTION void pb_delete(void *memory)
{
    if (memory != NULL) {
        char *base;
        memcpy(&base, (char *)memory - sizeof base, sizeof base);
        free(base);
    }
}

PB_FUNCTION void pb_set_arg(pb_data *data, int role)
{
    memcpy((char *)&data->args + pb_roles[role].member, &data->device[role], sizeof(void *));
}

PB_FUNCTION void pb_free(pb_data *data)
{
    int gpu = data->where.kind != CKCONV_DEVICE_CPU;
    for (int r = 0; r < PB_ROLES; r++) {
        if (gpu && data->device[r] != NULL) {
            ckconv_device_free(&data->where, data->device[r]);
        }
        if (data->used[r] == 1) {
            pb_delete(data->host[r]);
        }
    }
    if (gpu && data->workspace != NULL) {
        ckconv_device_free(&data->where, data->workspace);
    } else {
        pb_delete(data->workspace);
    }
    memset(data, 0, sizeof *data);
}

PB_FUNCTION int pb_alloc_failed(pb_data *data, ckconv_error *err)
{
    pb_free(data);
    return err->text[0] != '\0' ? 0 : pb_fail(err, "out of memory");
}

/* A workspace of this size in place of the one there is, filled with 0xff bytes on the host. */
PB_FUNCTION int pb_workspace(pb_data *data, int64_t bytes, ckconv_error *err)
{
    int gpu = data->where.kind != CKCONV_DEVICE_CPU;
    if (gpu) {
        ckconv_device_free(&data->where, data->workspace);
    } else {
        pb_delete(data->workspace);
    }
    data->workspace = NULL;
    data->workspace_bytes = (size_t)bytes;
    if (bytes > 0) {
        data->workspace = gpu ? ckconv_device_alloc(&data->where, data->workspace_bytes, err)
                              : pb_new(data->workspace_bytes);
        if (data->workspace == NULL) {
            return 0;
        }
        if (!gpu) {
            memset(data->workspace, 0xff, data->workspace_bytes);
        }
    }
    return 1;
}

/* Allocate what a run of the plan needs. wanted: bit r set when the optional role r is to take part. share:
   data of another plan of the same problem whose host copies of the read tensors are used as they are, or
   NULL. Read tensors are not initialised; written ones (but those that are added to) and the workspace are
   filled with 0xff bytes (NaN). */
PB_FUNCTION int pb_alloc(pb_data *data, const ckconv_plan *plan, uint32_t wanted, const pb_data *share,
                         ckconv_error *err)
{
    memset(data, 0, sizeof *data);
    memset(err, 0, sizeof *err);
    data->where = plan->device;
    data->op = plan->op;
    if (plan->engine == CKCONV_ENGINE_REF || plan->engine == CKCONV_ENGINE_CPU ||
        plan->device.ordinal == PB_NO_DEVICE) {
        data->where.kind = CKCONV_DEVICE_CPU;
    }
    int gpu = data->where.kind != CKCONV_DEVICE_CPU, num_d;
    const ckconv_tensor *d;
    const ckconv_element_op *epilogue = pb_plan_epilogue(plan, &num_d, &d);
    for (int r = 0; r < PB_ROLES; r++) {
        char use = pb_roles[r].use[plan->op - 1];
        int optional = use == 'o' || use == 'x';
        if (use != '.' && pb_roles[r].which == CKCONV_TENSOR_DBIAS) { /* as the description says */
            optional = 0;
            use = plan->u.conv.dbias == 0 ? '.' : use;
        }
        if (use == '.' || (optional && (wanted >> r & 1) == 0) ||
            (use == 'd' && pb_roles[r].which - CKCONV_TENSOR_D0 >= num_d)) {
            continue;
        }
        if (ckconv_plan_tensor(plan, pb_roles[r].which, &data->info[r], err) != CKCONV_OK) {
            return pb_alloc_failed(data, err);
        }
        size_t bytes = data->info[r].bytes > 0 ? (size_t)data->info[r].bytes : 1;
        int written = pb_is_written(plan->op, r);
        if (share != NULL && !written && share->used[r] != 0) {
            data->host[r] = share->host[r];
            data->used[r] = 2;
        } else {
            data->host[r] = pb_new(bytes);
            data->used[r] = 1;
        }
        data->device[r] = gpu ? ckconv_device_alloc(&data->where, bytes, err) : data->host[r];
        if (data->host[r] == NULL || data->device[r] == NULL) {
            return pb_alloc_failed(data, err);
        }
        if (written) { /* what is added to holds zeros */
            memset(data->host[r], epilogue != NULL && epilogue->kind == CKCONV_ACCUMULATE ? 0 : 0xff, bytes);
        }
        pb_set_arg(data, r);
    }
    return pb_workspace(data, plan->workspace_bytes, err) ? 1 : pb_alloc_failed(data, err);
}

/* Host -> device for all tensors (poisoned outputs too), device -> host for the written ones. Free on a CPU.
   */
PB_FUNCTION int pb_upload(pb_data *data, ckconv_error *err)
{
    for (int r = 0; r < PB_ROLES; r++) {
        if (data->used[r] != 0 && data->device[r] != data->host[r] &&
            ckconv_device_upload(&data->where, data->device[r], data->host[r], (size_t)data->info[r].bytes,
                                 err) != CKCONV_OK) {
            return 0;
        }
    }
    return data->where.kind == CKCONV_DEVICE_CPU || data->workspace == NULL ||
           ckconv_device_fill(&data->where, data->workspace, 0xff, data->workspace_bytes, err) == CKCONV_OK;
}

PB_FUNCTION int pb_download(pb_data *data, ckconv_error *err)
{
    for (int r = 0; r < PB_ROLES; r++) {
        if (data->used[r] != 0 && data->device[r] != data->host[r] && pb_is_written(data->op, r) &&
            ckconv_device_download(&data->where, data->host[r], data->device[r], (size_t)data->info[r].bytes,
                                   err) != CKCONV_OK) {
            return 0;
        }
    }
    return 1;
}

/* Upload, run once, download. */
PB_FUNCTION int pb_run(const ckconv_plan *plan, pb_data *data, ckconv_error *err)
{
    return pb_upload(data, err) &&
           ckconv_run(plan, &data->args, data->workspace, data->workspace_bytes, NULL, err) == CKCONV_OK &&
           ckconv_device_synchronise(&data->where, err) == CKCONV_OK && pb_download(data, err);
}


/*------------------------------------------------------------------------------------------------------------
  PyTorch's order
*/

/* D tensors have the written tensor's shape and, here, length 1 where they broadcast. A CHANNEL one is a
   vector. */
PB_FUNCTION ckconv_tensor_info pb_stored(const ckconv_tensor_info *info)
{
    ckconv_tensor_info t = *info;
    t.count = 1;
    for (int i = 0; i < t.rank; i++) {
        if (t.stride[i] == 0) {
            t.length[i] = 1;
        }
        t.count *= t.length[i];
    }
    return t;
}

/* Shape of a role's tensor as PyTorch has it; returns the rank. */
PB_FUNCTION int pb_torch_shape(ckconv_op op, int role, const ckconv_tensor_info *info, int64_t *shape)
{
    ckconv_tensor_info t = pb_stored(info);
    char kind = pb_roles[role].shape;
    if (kind == 'e') {
        kind = op == CKCONV_BWD_WEIGHT ? 'w' : 'i';
    }
    if (t.rank == 2 && kind == 's') {
        shape[0] = t.length[0];
        shape[1] = t.length[1];
        return 2;
    }
    if (t.rank == 3) { /* vectors of each image */
        shape[0] = t.length[0];
        shape[1] = t.length[1] * t.length[2];
        return 2;
    }
    if (t.rank == 2 || info->layout == CKCONV_CHANNEL) {
        shape[0] = t.count;
        return 1;
    }
    shape[0] = kind == 'w' ? t.length[0] * t.length[1] : t.length[1];
    shape[1] = kind == 'w' ? t.length[2] : t.length[0] * t.length[2];
    for (int i = 3; i < t.rank; i++) {
        shape[i - 1] = t.length[i];
    }
    return t.rank - 1;
}

/* One transform between a stored tensor and packed doubles in PyTorch's order. */
PB_FUNCTION int pb_convert(ckconv_op op, int role, const ckconv_tensor_info *info, double *values, void *data,
                           int import, ckconv_error *err)
{
    ckconv_tensor_info t = pb_stored(info);
    if (t.count == 0) {
        return 1;
    }
    if (t.rank <= 3) {
        if (import) {
            ckconv_from_double(t.dtype, values, data, (size_t)t.count);
        } else {
            ckconv_to_double(t.dtype, data, values, (size_t)t.count);
        }
        return 1;
    }
    int weights = pb_roles[role].shape == 'w' || (pb_roles[role].shape == 'e' && op == CKCONV_BWD_WEIGHT);
    ckconv_tensor file, own;
    memset(&file, 0, sizeof file);
    memset(&own, 0, sizeof own);
    file.dtype = CKCONV_F64;
    file.layout = weights ? CKCONV_GKCYX : CKCONV_NGCHW;
    own.dtype = t.dtype;
    own.layout = t.layout;
    if (t.layout == CKCONV_STRIDED || t.layout == CKCONV_CHANNEL) {
        own.layout = CKCONV_STRIDED;
        for (int i = 0; i < t.rank;
             i++) { /* a broadcast index has one entry: any stride that nests will do */
            own.stride[i] = t.stride[i] != 0 ? t.stride[i] : t.count;
        }
    }
    return (import
                ? ckconv_transform(t.rank - 3, t.length, &file, values, &own, data, NULL, err)
                : ckconv_transform(t.rank - 3, t.length, &own, data, &file, values, NULL, err)) == CKCONV_OK;
}

/* Values in PyTorch's order -> the tensor as the plan wants it, and back. */
PB_FUNCTION int pb_import(const pb_data *data, int role, double *values, ckconv_error *err)
{
    return pb_convert(data->op, role, &data->info[role], values, data->host[role], 1, err);
}

PB_FUNCTION int pb_export(const pb_data *data, int role, double *values, ckconv_error *err)
{
    return pb_convert(data->op, role, &data->info[role], values, data->host[role], 0, err);
}


/*------------------------------------------------------------------------------------------------------------
  Generated data: a function of seed and position, so it does not depend on threads
*/
enum { PB_ZEROS = 0, PB_INTEGERS = 1, PB_UNIFORM = 2, PB_NORMAL = 3 };

typedef struct pb_pattern {
    int kind;
    double low, high; /* integers low..high; reals in [low, high); normal: mean low, deviation high */
    double density;   /* share of elements that are not 0; 0 means 1 */
    uint64_t seed;
} pb_pattern;

/* splitmix64's finaliser */
PB_FUNCTION uint64_t pb_random(uint64_t seed, uint64_t index)
{
    uint64_t z = (seed + 1) * UINT64_C(0xd1342543de82ef95) + index * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

PB_FUNCTION double pb_unit_random(uint64_t seed, uint64_t index) /* in [0, 1) */
{
    return (double)(pb_random(seed, index) >> 11) * (1.0 / 9007199254740992.0);
}

PB_FUNCTION double pb_pattern_value(const pb_pattern *p, uint64_t i)
{
    if (p->density > 0 && p->density < 1 && pb_unit_random(p->seed ^ 0x5eed, i) >= p->density) {
        return 0;
    }
    if (p->kind == PB_INTEGERS) {
        return p->low + (double)(pb_random(p->seed, i) % (uint64_t)(p->high - p->low + 1));
    }
    if (p->kind == PB_UNIFORM) {
        return p->low + (p->high - p->low) * pb_unit_random(p->seed, i);
    }
    if (p->kind == PB_NORMAL) { /* Box and Muller: each pair of positions shares a radius and an angle */
        double radius = sqrt(-2 * log(1 - pb_unit_random(p->seed, i | 1)));
        double angle = 6.283185307179586 * pb_unit_random(p->seed, i & ~UINT64_C(1));
        return p->low + p->high * radius * (i & 1 ? sin(angle) : cos(angle));
    }
    return 0;
}

/* count packed elements, gaps of a strided tensor included. */
PB_FUNCTION void pb_fill_memory(ckconv_dtype dtype, void *memory, int64_t count, const pb_pattern *pattern)
{
    int64_t pieces = (count + PB_PIECE - 1) / PB_PIECE;
    size_t size = ckconv_dtype_size(dtype);
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (int64_t piece = 0; piece < pieces; piece++) {
        double values[PB_PIECE];
        int64_t first = piece * PB_PIECE, n = count - first < PB_PIECE ? count - first : (int64_t)PB_PIECE;
        if (pattern->kind == PB_NORMAL && !(pattern->density > 0 && pattern->density < 1)) {
            for (int64_t i = 0; i < n; i += 2) { /* PB_PIECE is even: both of a pair at once */
                uint64_t at = (uint64_t)(first + i);
                double radius = sqrt(-2 * log(1 - pb_unit_random(pattern->seed, at | 1)));
                double angle = 6.283185307179586 * pb_unit_random(pattern->seed, at);
                values[i] = pattern->low + pattern->high * radius * cos(angle);
                if (i + 1 < n) {
                    values[i + 1] = pattern->low + pattern->high * radius * sin(angle);
                }
            }
        } else {
            for (int64_t i = 0; i < n; i++) {
                values[i] = pb_pattern_value(pattern, (uint64_t)(first + i));
            }
        }
        ckconv_from_double(dtype, values, (char *)memory + (size_t)first * size, (size_t)n);
    }
}

/* mean and inv_std of a group norm's gradient, from its x. */
PB_FUNCTION int pb_fill_statistics(pb_data *data, const ckconv_plan *plan, int mean, int inv_std,
                                   ckconv_error *err)
{
    ckconv_plan forward;
    ckconv_device cpu;
    ckconv_options o;
    memset(&o, 0, sizeof o);
    o.engine = CKCONV_ENGINE_REF;
    ckconv_device_cpu(&cpu);
    if (ckconv_plan_groupnorm(&forward, CKCONV_GROUPNORM_FWD, &plan->u.groupnorm, &o, &cpu, err) !=
        CKCONV_OK) {
        return 0;
    }
    pb_data work;
    if (!pb_alloc(&work, &forward, 0, data, err)) {
        return 0;
    }
    work.args.mean = data->host[mean];
    work.args.inv_std = data->host[inv_std];
    int good = pb_run(&forward, &work, err);
    pb_free(&work);
    return good;
}

/* Fill every read tensor; each gets its own seed. Saved statistics of a group norm are computed from x. */
PB_FUNCTION int pb_fill(pb_data *data, const ckconv_plan *plan, const pb_pattern *pattern, ckconv_error *err)
{
    int mean = pb_role_of(plan->op, "mean"), inv_std = pb_role_of(plan->op, "inv-std");
    for (int r = 0; r < PB_ROLES; r++) {
        if (data->used[r] == 1 && !pb_is_written(plan->op, r) && r != mean && r != inv_std) {
            pb_pattern own = *pattern;
            own.seed = pattern->seed * 64 + (uint64_t)r;
            pb_fill_memory(data->info[r].dtype, data->host[r],
                           data->info[r].bytes / (int64_t)ckconv_dtype_size(data->info[r].dtype), &own);
        }
    }
    return plan->op != CKCONV_GROUPNORM_BWD || data->used[mean] == 0 ||
           pb_fill_statistics(data, plan, mean, inv_std, err);
}


/*------------------------------------------------------------------------------------------------------------
  Tables of problems: tab-separated columns, named by the first line: name op ndim G N K C filter input
  stride dilation pad (or pad_left and pad_right), and note (or extra) which may hold K1=128 or eps=1e-5. op
  is an operation, or conv, conv_conv or groupnorm for all that fit. "-" is no value; lines that begin with #
  are skipped.
*/
enum { PB_COLUMNS = 32, PB_LINE = 4096 };

typedef struct pb_table {
    FILE *file;
    int line_number, titles, cells;
    char *title[PB_COLUMNS], *cell[PB_COLUMNS]; /* cell[0] is the row's name */
    int ops;                                    /* operations that fit the row, PB_... bits */
    char head[PB_LINE], line[PB_LINE];
    char batch[32], k1[32], eps[32];
} pb_table;

/* Split a line at tabs, in place. */
PB_FUNCTION int pb_split(char *line, char **cell)
{
    int count = 0;
    line[strcspn(line, "\r\n")] = '\0';
    for (char *from = line; count < PB_COLUMNS;) {
        cell[count++] = from;
        from = strchr(from, '\t');
        if (from == NULL) {
            break;
        }
        *from++ = '\0';
    }
    return count;
}

PB_FUNCTION int pb_row_ops(const char *kind)
{
    ckconv_op op = ckconv_op_from_name(kind);
    return strcmp(kind, "conv") == 0        ? PB_ONE
           : strcmp(kind, "conv_conv") == 0 ? PB_CONV_CONV
           : strcmp(kind, "groupnorm") == 0 ? PB_GN
           : op != 0                        ? 1 << op
                                            : 0;
}

/* The next row. 1: it is in *t, 0: the end, -1: *err says what is wrong. *t is zero but for the file at
   first. */
PB_FUNCTION int pb_table_next(pb_table *t, ckconv_error *err)
{
    while (fgets(t->line, PB_LINE, t->file) != NULL) {
        t->line_number++;
        if (strchr(t->line, '\n') == NULL && !feof(t->file)) {
            pb_fail(err, "line %d is too long", t->line_number);
            return -1;
        }
        if (t->titles == 0) {
            memcpy(t->head, t->line, sizeof t->head);
            t->titles = pb_split(t->head + strspn(t->head, "# "), t->title);
            if (t->titles < 3 || strcmp(t->title[0], "name") != 0 || strcmp(t->title[1], "op") != 0) {
                pb_fail(err, "the first line does not name the columns (name, op, ndim, ...)");
                return -1;
            }
            continue;
        }
        if (t->line[0] == '#' || t->line[strspn(t->line, " \t\r\n")] == '\0') {
            continue;
        }
        t->cells = pb_split(t->line, t->cell);
        t->ops = t->cells > 1 ? pb_row_ops(t->cell[1]) : 0;
        if (t->ops == 0) {
            pb_fail(err, "line %d: no operation in the second column", t->line_number);
            return -1;
        }
        return 1;
    }
    return 0;
}

/* "K1=128" or "eps=1e-5" in a remark, as an option. */
PB_FUNCTION void pb_remark(pb_problem *p, const char *text, const char *key, const char *option, char *value,
                           size_t size)
{
    const char *found = strstr(text, key);
    if (found != NULL && pb_find(p->op, option) >= 0) {
        found += strlen(key);
        snprintf(value, size, "%.*s", (int)strcspn(found, " ,;"), found);
        pb_set(p, option, value, NULL);
    }
}

/* Set the row's values in a problem that has its operation. small: with max(min(N, 8), N/16) for N. */
PB_FUNCTION void pb_table_problem(pb_table *t, int small, pb_problem *p)
{
    static const char *const known[][2] = {{"ndim", "ndim"},   {"G", "g"},           {"N", "n"},
                                           {"K", "k"},         {"C", "c"},           {"filter", "filter"},
                                           {"input", "input"}, {"stride", "stride"}, {"dilation", "dilation"},
                                           {"pad", "pad"},     {"pad_left", "pad"},  {"pad_right", "pad-hi"}};
    for (int i = 0; i < t->titles && i < t->cells; i++) {
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
            if (strcmp(known[k][0], t->title[i]) == 0 && strcmp(t->cell[i], "-") != 0 &&
                pb_find(p->op, known[k][1]) >= 0) {
                pb_set(p, known[k][1], t->cell[i], NULL);
            }
        }
        if (strcmp(t->title[i], "note") == 0 || strcmp(t->title[i], "extra") == 0) {
            pb_remark(p, t->cell[i], "K1=", "k1", t->k1, sizeof t->k1);
            pb_remark(p, t->cell[i], "eps=", "eps", t->eps, sizeof t->eps);
        }
    }
    const char *batch = pb_value(p, "n");
    if (small && batch != NULL) {
        long n = strtol(batch, NULL, 10), few = n < 8 ? n : 8;
        snprintf(t->batch, sizeof t->batch, "%ld", few > n / 16 ? few : n / 16);
        pb_set(p, "n", t->batch, NULL);
    }
}

#endif /* PROBLEM_H */
