/*------------------------------------------------------------------------------------------------------------
  >>core-check
  Descriptions are copied, defaulted, then checked; each return has one reason. One function checks each
  family, and what it makes of a description, 3D and with all strides, is all that planner and engines see of
  it. `at` prefixes member names in texts ("conv0." inside a conv_conv description). Sizes are checked for
  overflow here, so that products of them need no test further up.
*/
#pragma once
#include "core/base.h"
#include "core/element.h"
#include "core/ops.h"
#include "core/tensor.h"

/* What a layout is for. */
enum { CKCI_ROLE_ACTIVATION = 0, CKCI_ROLE_WEIGHT = 1 };
/* At most this many channels per group on both sides count as depthwise. */
enum { CKCI_DEPTH_CHANNELS = 4 };

CKCI_FN ckconv_status ckci_check_range(const char *at, const char *name, const char *sfx, int index,
                                       int64_t value, int64_t low, const char *allowed, ckconv_error *err)
{
    char place[16] = "";
    if (value >= low && value <= CKCI_MAX_BYTES) {
        return CKCONV_OK;
    }
    if (index >= 0) {
        snprintf(place, sizeof place, "[%d]", index);
    }
    if (value < low) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%s%s%s%s is %lld: must be %s", at, name, sfx, place,
                         CKCI_LL(value), allowed);
    }
    return ckci_fail(err, CKCONV_ERR_OVERFLOW, "%s%s%s%s is %lld: must be 2^62 at most", at, name, sfx, place,
                     CKCI_LL(value));
}

/* why: the switch that dropped it (>>core-switches), NULL: none did. */
CKCI_FN ckconv_status ckci_check_held(const char *what, const char *why, ckconv_error *err)
{
    return why ? ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "%s was left out of this build by %s", what, why)
               : CKCONV_OK;
}

/* Is it a type of this build? read: the tensor is read; tensors that are only written or added, and
   parameters, may be f32 in every build. */
CKCI_FN ckconv_status ckci_check_switches(ckconv_dtype dtype, int read, ckconv_error *err)
{
    switch (dtype) {
    case CKCONV_F64:
        return ckci_check_held("f64", CKCI_WHY_F64, err);
    case CKCONV_F32:
    case CKCONV_TF32:
        return ckci_check_held("f32", read ? CKCI_WHY_F32 : (const char *)NULL, err);
    case CKCONV_F16:
        return ckci_check_held("f16", CKCI_WHY_F16, err);
    case CKCONV_BF16:
    case CKCONV_BF16X3:
        return ckci_check_held("bf16", CKCI_WHY_BF16, err);
    case CKCONV_I8:
    case CKCONV_I32:
        return ckci_check_held("i8", CKCI_WHY_I8, err);
    default:
        return ckci_is_fp8(dtype) ? ckci_check_held("fp8", CKCI_WHY_FP8, err) : CKCONV_OK;
    }
}

/* Is it an operation of this build? */
CKCI_FN ckconv_status ckci_check_op(ckconv_op op, ckconv_error *err)
{
    const ckci_operation *row = ckci_find_operation(op);
    return !row ? CKCONV_OK
                : ckci_check_held(row->desc == CKCI_DESC_GROUPNORM ? "group norm" : row->text, row->why, err);
}

/* Type, layout and strides of one tensor by themselves. rank: 3 + ndim. is_d: strides may be 0, a D
   tensor. */
CKCI_FN ckconv_status ckci_check_tensor(const char *at, const char *name, const ckconv_tensor *t, int role,
                                        int32_t rank, int is_d, ckconv_error *err)
{
    if (ckci_size(t->dtype) == 0) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "%s%s.dtype is %d: must be a storage type, CKCONV_F64 (1) to CKCONV_I32 (10)", at,
                         name, (int)t->dtype);
    }
    CKCI_TRY(ckci_check_switches(t->dtype, 0, err));
    int known =
        t->layout == CKCONV_STRIDED || (t->layout == CKCONV_CHANNEL && is_d && role == CKCI_ROLE_ACTIVATION);
    known |= role == CKCI_ROLE_ACTIVATION && t->layout >= CKCONV_NHWGC && t->layout <= CKCONV_NGCHW;
    known |= role == CKCI_ROLE_WEIGHT && (t->layout == CKCONV_GKYXC || t->layout == CKCONV_GKCYX);
    if (!known) {
        const char *given = ckconv_layout_name(t->layout);
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%s%s.layout is %d (%s): must be %s%s or CKCONV_STRIDED",
                         at, name, (int)t->layout, given ? given : "unknown",
                         role == CKCI_ROLE_WEIGHT ? "CKCONV_GKYXC, CKCONV_GKCYX"
                                                  : "CKCONV_NHWGC, CKCONV_GNHWC, CKCONV_NGCHW",
                         is_d && role == CKCI_ROLE_ACTIVATION ? ", CKCONV_CHANNEL" : "");
    }
    for (int32_t i = 0; i < 6; i++) {
        int64_t s = t->stride[i];
        if (t->layout != CKCONV_STRIDED || i >= rank) {
            if (s != 0) {
                return ckci_fail(
                    err, CKCONV_ERR_ARGUMENT, "%s%s.stride[%d] is %lld: must be 0 %s", at, name, (int)i,
                    CKCI_LL(s), i >= rank ? "past the tensor's rank" : "unless the layout is CKCONV_STRIDED");
            }
        } else if (s < (is_d ? 0 : 1) || s > CKCI_MAX_BYTES) {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%s%s.stride[%d] is %lld: must be %d to 2^62", at,
                             name, (int)i, CKCI_LL(s), is_d ? 0 : 1);
        }
    }
    return CKCONV_OK;
}

/* Strides of a layout, in logical order {G, N or K, C or K, z, y, x}. Returns 0 when a product passes
   2^62. */
CKCI_FN int ckci_layout_strides(ckconv_layout layout, const int64_t len[6], int64_t stride[6])
{
    static const int order[6][6] = {{1, 3, 4, 5, 0, 2},  /* NHWGC */
                                    {0, 1, 3, 4, 5, 2},  /* GNHWC */
                                    {1, 0, 2, 3, 4, 5},  /* NGCHW */
                                    {0, 1, 3, 4, 5, 2},  /* GKYXC */
                                    {0, 1, 2, 3, 4, 5},  /* GKCYX */
                                    {0, 2, 2, 2, 2, 2}}; /* CHANNEL: G, C */
    int64_t next = 1;
    if (layout == CKCONV_CHANNEL) {
        memset(stride, 0, 6 * sizeof stride[0]);
        stride[0] = len[2];
        stride[2] = 1;
        return 1;
    }
    for (int i = 5; i >= 0; i--) {
        int axis = order[layout - 1][i];
        stride[axis] = next;
        if (!ckci_mul(&next, ckci_max(len[axis], 1))) {
            return 0;
        }
    }
    return 1;
}

/* Lengths and strides in 3D. len3: logical lengths, six entries. Overflow and nesting are checked here. */
CKCI_FN ckconv_status ckci_resolve(const char *at, const char *name, const ckconv_tensor *t, int32_t ndim,
                                   const int64_t len3[6], int written, ckci_tensor *r, ckconv_error *err)
{
    memset(r, 0, sizeof *r);
    r->dtype = t->dtype;
    memcpy(r->len, len3, sizeof r->len);
    int64_t count = 1;
    int fits = 1;
    for (int i = 0; i < 6; i++) {
        fits = fits && ckci_mul(&count, len3[i] == 0 ? 1 : len3[i]);
    }
    if (t->layout == CKCONV_STRIDED) {
        for (int i = 0; i < 3; i++) {
            r->stride[i] = t->stride[i];
        }
        for (int32_t i = 0; i < ndim; i++) {
            r->stride[6 - ndim + i] = t->stride[3 + i];
        }
        int64_t span = 1;
        for (int i = 0; i < 6; i++) {
            int64_t reach = ckci_max(r->len[i] - 1, 0);
            fits = fits && ckci_mul(&reach, r->stride[i]) && reach <= CKCI_MAX_BYTES - span;
            span = fits ? span + reach : span;
        }
        fits = fits && ckci_mul(&span, (int64_t)ckci_size(t->dtype));
    } else {
        fits = fits && ckci_layout_strides(t->layout, len3, r->stride);
    }
    if (!fits || !ckci_mul(&count, (int64_t)ckci_size(t->dtype))) {
        return ckci_fail(err, CKCONV_ERR_OVERFLOW,
                         "%s%s: lengths {%lld, %lld, %lld, %lld, %lld, %lld} and strides pass 2^62 bytes, "
                         "the most allowed",
                         at, name, CKCI_LL(len3[0]), CKCI_LL(len3[1]), CKCI_LL(len3[2]), CKCI_LL(len3[3]),
                         CKCI_LL(len3[4]), CKCI_LL(len3[5]));
    }
    if (!written || t->layout != CKCONV_STRIDED) {
        return CKCONV_OK;
    }
    /* axes by rising stride; each must reach past everything that the smaller ones address */
    int axis[6];
    int used = 0;
    for (int i = 0; i < 6; i++) {
        if (r->len[i] > 1) {
            int at_slot = used++;
            while (at_slot > 0 && r->stride[axis[at_slot - 1]] > r->stride[i]) {
                axis[at_slot] = axis[at_slot - 1];
                at_slot--;
            }
            axis[at_slot] = i;
        }
    }
    int64_t past = 1;
    for (int i = 0; i < used; i++) {
        int64_t s = r->stride[axis[i]];
        if (s < past) {
            int shown = axis[i] < 3 ? axis[i] : axis[i] - (3 - ndim);
            return ckci_fail(
                err, CKCONV_ERR_ARGUMENT,
                "%s%s.stride[%d] is %lld: elements of a written tensor overlap, must be %lld or more", at,
                name, shown, CKCI_LL(s), CKCI_LL(past));
        }
        past += (r->len[axis[i]] - 1) * s;
    }
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_check_element(const char *at, const char *name, const ckconv_element_op *op,
                                         int written, ckconv_error *err)
{
    const ckci_element_row *row = ckci_find_element(op->kind);
    char any[32] = "", others[64] = "";
    if (!row) {
        ckci_element_kinds(0, any, sizeof any);
        ckci_element_kinds(1, others, sizeof others);
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%s%s.kind is %d: must be %s, or on the written tensor %s",
                         at, name, (int)op->kind, any, others);
    }
    if (row->sum >= CKCI_SUM_BILINEAR && !written) {
        ckci_element_kinds(0, any, sizeof any);
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "%s%s.kind is %s: %s belong to the written tensor; here %s", at, name, row->name,
                         row->most > 0 ? "operations with D tensors" : "sums in place", any);
    }
    if (op->reserved != 0) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%s%s.reserved is %d: must be 0 (uninitialised struct?)",
                         at, name, (int)op->reserved);
    }
    if ((!row->alpha && !(op->alpha == 0)) || (!row->beta && !(op->beta == 0))) {
        int first = !row->alpha && !(op->alpha == 0);
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%s%s.%s is %g: must be 0, %s does not use it", at, name,
                         first ? "alpha" : "beta", first ? op->alpha : op->beta, row->name);
    }
    if (row->act == CKCONV_CLAMP && !(op->alpha <= op->beta)) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%s%s clamps to [%g, %g]: alpha must be <= beta", at, name,
                         op->alpha, op->beta);
    }
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_check_d(const char *at, int32_t num_d, const ckconv_element_op *op,
                                   const ckconv_tensor *d, int role, int32_t rank, ckconv_error *err)
{
    static const char *const names[4] = {"d[0]", "d[1]", "d[2]", "d[3]"};
    const ckci_element_row *row = ckci_find_element(op->kind);
    int32_t low = row ? row->least : 0, high = row ? row->most : 0;
    if (num_d < low || num_d > high) {
        char range[32];
        snprintf(range, sizeof range, low == high ? "%d" : "%d to %d", (int)low, (int)high);
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%snum_d is %d: the epilogue %s takes %s D tensor%s", at,
                         (int)num_d, ckconv_element_name(op->kind), range, high == 1 ? "" : "s");
    }
    for (int32_t i = 0; i < 4; i++) {
        if (i < num_d) {
            CKCI_TRY(ckci_check_tensor(at, names[i], &d[i], role, rank, 1, err));
            continue;
        }
        ckconv_tensor zero;
        memset(&zero, 0, sizeof zero);
        if (memcmp(&zero, &d[i], sizeof zero) != 0) {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%s%s is filled, but num_d is %d: must be all zero",
                             at, names[i], (int)num_d);
        }
    }
    return CKCONV_OK;
}

CKCI_FN void ckci_default_tensor(ckconv_tensor *t, ckconv_dtype dtype, ckconv_layout layout)
{
    if (t->dtype == 0) {
        t->dtype = dtype;
    }
    if (t->layout == 0) {
        t->layout = layout;
    }
}

/* Where out's type and layout are left open, they are those of in. Strides of in cannot be those of another
   shape: then out's layout stays 0, which is refused. */
CKCI_FN void ckci_default_out(const ckconv_tensor *in, ckconv_tensor *out)
{
    ckci_default_tensor(out, in->dtype, in->layout == CKCONV_STRIDED ? 0 : in->layout);
}

CKCI_FN ckconv_status ckci_need_out_layout(const char *at, const ckconv_tensor *out, ckconv_error *err)
{
    return out->layout != 0
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_ARGUMENT,
                           "%sout.layout is 0 (as in), but in is CKCONV_STRIDED: must be given", at);
}

/* base: the type of the activations that are read, in or dout. */
CKCI_FN ckconv_dtype ckci_default_compute(ckconv_dtype compute, ckconv_dtype storage, ckconv_dtype base)
{
    if (compute != 0) {
        return compute;
    }
    return storage == CKCONV_F32 && base == CKCONV_BF16 ? (ckconv_dtype)CKCONV_BF16 : storage;
}

/* Defaults of a convolution's sizes. */
CKCI_FN void ckci_default_sizes(ckconv_conv_desc *d)
{
    if (d->g == 0) {
        d->g = 1;
    }
    for (int32_t i = 0; i < 3; i++) {
        if (i >= d->ndim) {
            d->filter[i] = d->input[i] = d->stride[i] = d->dilation[i] = d->pad_lo[i] = d->pad_hi[i] = 0;
            continue;
        }
        if (d->stride[i] == 0) {
            d->stride[i] = 1;
        }
        if (d->dilation[i] == 0) {
            d->dilation[i] = 1;
        }
    }
}

/* All defaults of a convolution. A D tensor without a type or layout takes those of the written tensor;
   strided tensors give their strides along. */
CKCI_FN void ckci_default_conv(ckconv_conv_desc *d, ckconv_op op)
{
    ckci_default_sizes(d);
    ckci_default_tensor(&d->in, CKCONV_F32, CKCONV_NHWGC);
    ckci_default_tensor(&d->wei, d->in.dtype, CKCONV_GKYXC);
    ckci_default_out(&d->in, &d->out);
    int w = ckci_written(op);
    const ckconv_tensor *written = w == CKCI_IN ? &d->in : w == CKCI_WEI ? &d->wei : &d->out;
    for (int32_t i = 0; i < 4 && i < d->num_d; i++) {
        ckconv_tensor *t = &d->d[i];
        if (t->layout == 0 && written->layout == CKCONV_STRIDED) {
            memcpy(t->stride, written->stride, sizeof t->stride);
        }
        ckci_default_tensor(t, written->dtype, written->layout);
    }
    ckconv_dtype base = ckci_base(op) == CKCI_OUT ? d->out.dtype : d->in.dtype;
    d->compute_in = ckci_default_compute(d->compute_in, d->in.dtype, base);
    d->compute_wei = ckci_default_compute(d->compute_wei, d->wei.dtype, base);
    d->compute_out = ckci_default_compute(d->compute_out, d->out.dtype, base);
}

/* Is it a row of the type table (>>types) in which all tensors have one type? The written tensor may be as
   wide as its sums, and bf16 may have f32 weights. types: in, wei, out. */
CKCI_FN int ckci_same_row(ckconv_op op, const ckconv_dtype types[3])
{
    int w = ckci_written(op);
    ckconv_dtype base = types[ckci_base(op)];
    int good = base >= CKCONV_F64 && base <= CKCONV_BF16;
    for (int i = 0; i < 3; i++) {
        int wide = types[i] == CKCONV_F32 && ((i == w && (base == CKCONV_F16 || base == CKCONV_BF16)) ||
                                              (i == CKCI_WEI && base == CKCONV_BF16));
        good = good && (types[i] == base || wide);
    }
    return good;
}

/* Is it a row with fp8 in and weights? Gradients that are read may be wider, and so may what is written. */
CKCI_FN int ckci_fp8_row(ckconv_op op, const ckconv_dtype types[3])
{
    int w = ckci_written(op), good = 1;
    for (int i = 0; i < 3; i++) {
        int wide = types[i] == CKCONV_F16 || types[i] == CKCONV_BF16 || types[i] == CKCONV_F32;
        good = good && (ckci_is_fp8(types[i]) || (wide && (i == w || i == CKCI_OUT)));
    }
    return good;
}

CKCI_FN int ckci_i8_row(ckconv_op op, const ckconv_dtype types[3])
{
    int w = ckci_written(op), good = 1;
    for (int i = 0; i < 3; i++) {
        good = good && (types[i] == CKCONV_I8 || (i == w && types[i] == CKCONV_I32));
    }
    return good;
}

CKCI_FN ckconv_status ckci_check_types(const char *at, const char *sfx, const ckconv_conv_desc *d,
                                       ckconv_op op, ckconv_error *err)
{
    static const char *const names[3] = {"compute_in", "compute_wei", "compute_out"};
    ckconv_dtype storage[3], compute[3];
    storage[0] = d->in.dtype;
    storage[1] = d->wei.dtype;
    storage[2] = d->out.dtype;
    compute[0] = d->compute_in;
    compute[1] = d->compute_wei;
    compute[2] = d->compute_out;
    int w = ckci_written(op);
    int r0 = w == CKCI_IN ? CKCI_WEI : CKCI_IN, r1 = w == CKCI_OUT ? CKCI_WEI : CKCI_OUT;
    int same = ckci_same_row(op, storage);
    ckconv_dtype base = same ? storage[ckci_base(op)] : (ckconv_dtype)0;
    if (!same && !ckci_fp8_row(op, storage) && !ckci_i8_row(op, storage)) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "%sin, wei%s, out have types %s, %s, %s: not a row of the type table for %s (all "
                         "alike, bf16 with f32 wei, fp8, i8; what is written may be wider: f32, of fp8 f16 "
                         "or bf16, too, of i8 i32)",
                         at, sfx, ckconv_dtype_name(storage[0]), ckconv_dtype_name(storage[1]),
                         ckconv_dtype_name(storage[2]), ckconv_op_name(op));
    }
    for (int i = 0; i < 3; i++) {
        ckconv_dtype c = compute[i];
        if (c < CKCONV_F64 || c > CKCONV_BF16X3 || c == CKCONV_I32) {
            if (i == w && c == storage[i]) {
                continue;
            }
            return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                             "%s%s%s is %d: must be a compute type, 0 to 9, 11 or 12", at, names[i],
                             i == CKCI_WEI ? sfx : "", (int)c);
        }
        CKCI_TRY(ckci_check_switches(c, 0, err));
        if (i == w) {
            continue;
        }
        int fits = c == storage[i];
        fits |= base == CKCONV_F32 && (c == CKCONV_TF32 || c == CKCONV_BF16 || c == CKCONV_BF16X3);
        fits |= base == CKCONV_F16 && ckci_is_fp8(c);
        if (base == CKCONV_BF16) {
            fits = c == CKCONV_BF16;
        }
        if (!fits) {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%s%s%s is %s: %s tensors do not compute in it", at,
                             names[i], i == CKCI_WEI ? sfx : "", ckconv_dtype_name(c),
                             ckconv_dtype_name(storage[i]));
        }
    }
    if (base == CKCONV_F32 && compute[r0] != compute[r1]) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "%s%s is %s and %s%s%s is %s: f32 tensors need the same on both", at, names[r0],
                         ckconv_dtype_name(compute[r0]), at, names[r1], r1 == CKCI_WEI ? sfx : "",
                         ckconv_dtype_name(compute[r1]));
    }
    return CKCONV_OK;
}

/* The type of a bias gradient: that of the weights or of dout; f32, unless sums are f64 or i32; then i32. */
CKCI_FN ckconv_status ckci_check_dbias(const char *at, const ckconv_conv_desc *d, ckconv_error *err)
{
    int whole = d->out.dtype == CKCONV_I8 || d->in.dtype == CKCONV_I8;
    ckconv_dtype sums = whole ? CKCONV_I32 : d->in.dtype == CKCONV_F64 ? CKCONV_F64 : CKCONV_F32;
    return d->dbias == 0 || d->dbias == sums || d->dbias == d->wei.dtype || d->dbias == d->out.dtype
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_ARGUMENT,
                           "%sdbias is %d: must be 0 (none), the type of wei or out (%s, %s) or %s", at,
                           (int)d->dbias, ckconv_dtype_name(d->wei.dtype), ckconv_dtype_name(d->out.dtype),
                           ckconv_dtype_name(sums));
}

/* Output size of one dimension; 0 or less when the filter does not fit. Operands are at most 2^62. */
CKCI_FN ckconv_status ckci_check_output(const char *at, const char *sfx, const ckconv_conv_desc *d, int i,
                                        int64_t *out, ckconv_error *err)
{
    int64_t reach = d->filter[i] - 1;
    int64_t padded = d->input[i];
    if (!ckci_mul(&reach, d->dilation[i]) || d->pad_lo[i] > CKCI_MAX_BYTES - padded ||
        d->pad_hi[i] > CKCI_MAX_BYTES - padded - d->pad_lo[i]) {
        return ckci_fail(
            err, CKCONV_ERR_OVERFLOW,
            "%sfilter%s[%d] is %lld, dilation %lld, input %lld, pads %lld, %lld: together past 2^62", at, sfx,
            i, CKCI_LL(d->filter[i]), CKCI_LL(d->dilation[i]), CKCI_LL(d->input[i]), CKCI_LL(d->pad_lo[i]),
            CKCI_LL(d->pad_hi[i]));
    }
    padded += d->pad_lo[i] + d->pad_hi[i];
    if (padded < reach + 1) {
        return ckci_fail(
            err, CKCONV_ERR_ARGUMENT,
            "%sfilter%s[%d] spans %lld with its dilation, but the padded input is %lld: no output", at, sfx,
            i, CKCI_LL(reach + 1), CKCI_LL(padded));
    }
    *out = (padded - reach - 1) / d->stride[i] + 1;
    return CKCONV_OK;
}

/* A convolution in its final form, always 3D. t: in, wei, out; d in the written tensor's logical order. */
typedef struct ckci_conv {
    ckconv_op op;
    int32_t num_d;
    int64_t g, n, k, c;
    int64_t filter[3], input[3], output[3], stride[3], dilation[3], pad[3];
    ckci_tensor t[3];
    ckci_tensor d[4];
    ckci_tensor dbias;  /* dtype 0: not wanted. One vector along the channels, [1, 1, g*k, 1, 1, 1] */
    int32_t accumulate; /* d[0] is the written tensor itself */
} ckci_conv;

/* What is written is added to what is there: x + D0, where D0 is the written tensor. */
CKCI_FN void ckci_accumulate(ckci_conv *r)
{
    ckci_tensor *t = &r->t[ckci_written(r->op)];
    r->accumulate = 1;
    r->num_d = 1;
    r->d[0] = *t;
    memset(&r->d[0].op, 0, sizeof r->d[0].op);
    t->op.kind = CKCONV_BIAS;
    r->dbias.op.kind = CKCONV_BIAS;
}

/* Do channels lie side by side? Those of a group must, and where a group has one channel, the groups must,
   except those of weights. */
CKCI_FN ckconv_status ckci_check_last(const char *name, const ckci_tensor *t, int weights, ckconv_error *err)
{
    int last = t->len[2] > 1 ? t->stride[2] == 1 : weights || t->len[0] == 1 || t->stride[0] == 1;
    char what[64];
    if (last) {
        return CKCONV_OK;
    }
    snprintf(what, sizeof what, "%s is not channels last: channels first", name);
    return ckci_check_held(what, CKCI_WHY_CHANNELS_FIRST, err);
}

/* Checks the same of all tensors of a convolution. With few channels it looks for planes: a group, or a
   tensor of one channel, that has positions side by side. */
CKCI_FN ckconv_status ckci_check_all_last(const char *wei, const ckci_conv *p, ckconv_error *err)
{
    CKCI_TRY(ckci_check_last("in", &p->t[CKCI_IN], 0, err));
    CKCI_TRY(ckci_check_last(wei, &p->t[CKCI_WEI], 1, err));
    CKCI_TRY(ckci_check_last("out", &p->t[CKCI_OUT], 0, err));
    const char *what = "few channels in planes: channels first";
    const int few = p->k <= CKCI_DEPTH_CHANNELS && p->c <= CKCI_DEPTH_CHANNELS;
    for (int i = CKCI_IN; few && i <= CKCI_OUT; i += CKCI_OUT) {
        const ckci_tensor *t = &p->t[i];
        int planes = p->g > 1 ? t->stride[5] < t->stride[0] : t->len[2] == 1;
        CKCI_TRY(planes ? ckci_check_held(what, CKCI_WHY_CHANNELS_FIRST, err) : CKCONV_OK);
    }
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_check_ndim(const char *at, int32_t ndim, ckconv_error *err)
{
    return ndim >= 1 && ndim <= 3
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_ARGUMENT, "%sndim is %d: must be 1, 2 or 3", at, (int)ndim);
}

/* The sizes of a convolution that has its defaults. */
CKCI_FN ckconv_status ckci_check_sizes(const char *at, const char *sfx, const ckconv_conv_desc *d,
                                       ckconv_error *err)
{
    CKCI_TRY(ckci_check_range(at, "g", sfx, -1, d->g, 1, "1 or more (0 means 1)", err));
    CKCI_TRY(ckci_check_range(at, "n", "", -1, d->n, 0, "0 or more", err));
    CKCI_TRY(ckci_check_range(at, "k", sfx, -1, d->k, 1, "1 or more output channels per group", err));
    CKCI_TRY(ckci_check_range(at, "c", "", -1, d->c, 1, "1 or more input channels per group", err));
    for (int i = 0; i < d->ndim; i++) {
        CKCI_TRY(ckci_check_range(at, "filter", sfx, i, d->filter[i], 1, "1 or more", err));
        CKCI_TRY(ckci_check_range(at, "input", "", i, d->input[i], 1, "1 or more", err));
        CKCI_TRY(ckci_check_range(at, "stride", sfx, i, d->stride[i], 1, "1 or more (0 means 1)", err));
        CKCI_TRY(ckci_check_range(at, "dilation", sfx, i, d->dilation[i], 1, "1 or more (0 means 1)", err));
        CKCI_TRY(ckci_check_range(at, "pad_lo", sfx, i, d->pad_lo[i], 0, "0 or more", err));
        CKCI_TRY(ckci_check_range(at, "pad_hi", sfx, i, d->pad_hi[i], 0, "0 or more", err));
    }
    return CKCONV_OK;
}

/* Everything that can be wrong with a convolution; d is a copy and comes back with its defaults. at and sfx
   make the member names of texts: "conv0." before those of a pair's first convolution, "1" after those of its
   second. */
CKCI_FN ckconv_status ckci_check_conv(const char *at, const char *sfx, ckconv_op op, ckconv_conv_desc *d,
                                      ckci_conv *r, ckconv_error *err)
{
    CKCI_TRY(ckci_check_ndim(at, d->ndim, err));
    if (d->num_d < 0 || d->num_d > 4) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "%snum_d is %d: must be 0 to 4 (uninitialised struct?)",
                         at, (int)d->num_d);
    }
    ckci_default_conv(d, op);
    CKCI_TRY(ckci_check_sizes(at, sfx, d, err));
    CKCI_TRY(ckci_check_switches(d->in.dtype, 1, err));
    if (d->k <= CKCI_DEPTH_CHANNELS && d->c <= CKCI_DEPTH_CHANNELS) {
        CKCI_TRY(ckci_check_held("k and c of 4 at most", CKCI_WHY_DEPTHWISE, err));
    }
    int w = ckci_written(op);
    int32_t rank = 3 + d->ndim;
    CKCI_TRY(ckci_check_tensor(at, "in", &d->in, CKCI_ROLE_ACTIVATION, rank, 0, err));
    const char *wei = sfx[0] ? "wei1" : "wei";
    CKCI_TRY(ckci_check_tensor(at, wei, &d->wei, CKCI_ROLE_WEIGHT, rank, 0, err));
    CKCI_TRY(ckci_need_out_layout(at, &d->out, err));
    CKCI_TRY(ckci_check_tensor(at, "out", &d->out, CKCI_ROLE_ACTIVATION, rank, 0, err));
    CKCI_TRY(ckci_check_types(at, sfx, d, op, err));
    CKCI_TRY(ckci_check_dbias(at, d, err));
    CKCI_TRY(ckci_check_element(at, "op_in", &d->op_in, w == CKCI_IN, err));
    CKCI_TRY(ckci_check_element(at, sfx[0] ? "op_wei1" : "op_wei", &d->op_wei, w == CKCI_WEI, err));
    CKCI_TRY(ckci_check_element(at, "op_out", &d->op_out, w == CKCI_OUT, err));
    const ckconv_element_op *epilogue = w == CKCI_IN ? &d->op_in : w == CKCI_WEI ? &d->op_wei : &d->op_out;
    int role = w == CKCI_WEI ? CKCI_ROLE_WEIGHT : CKCI_ROLE_ACTIVATION;
    CKCI_TRY(ckci_check_d(at, d->num_d, epilogue, d->d, role, rank, err));

    memset(r, 0, sizeof *r);
    r->op = op;
    r->num_d = d->num_d;
    r->g = d->g;
    r->n = d->n;
    r->k = d->k;
    r->c = d->c;
    for (int i = 0; i < 3; i++) {
        int from = i - (3 - d->ndim);
        r->filter[i] = r->input[i] = r->output[i] = r->stride[i] = r->dilation[i] = 1;
        if (from >= 0) {
            CKCI_TRY(ckci_check_output(at, sfx, d, from, &r->output[i], err));
            r->filter[i] = d->filter[from];
            r->input[i] = d->input[from];
            r->stride[i] = d->stride[from];
            r->dilation[i] = d->dilation[from];
            r->pad[i] = d->pad_lo[from];
            if (r->filter[i] == 1) {
                r->dilation[i] = 1; /* both have no effect then, and may be huge */
            }
            if (r->output[i] == 1) {
                r->stride[i] = ckci_min(r->stride[i], d->input[from] + d->pad_lo[from] + d->pad_hi[from] + 1);
            }
        }
    }
    int64_t len[3][6];
    for (int i = 0; i < 3; i++) {
        len[0][3 + i] = r->input[i];
        len[1][3 + i] = r->filter[i];
        len[2][3 + i] = r->output[i];
        len[i][0] = r->g;
        len[i][1] = i == CKCI_WEI ? r->k : r->n;
        len[i][2] = i == CKCI_OUT ? r->k : r->c;
    }
    CKCI_TRY(ckci_resolve(at, "in", &d->in, d->ndim, len[0], w == CKCI_IN, &r->t[0], err));
    CKCI_TRY(ckci_resolve(at, wei, &d->wei, d->ndim, len[1], w == CKCI_WEI, &r->t[1], err));
    CKCI_TRY(ckci_resolve(at, "out", &d->out, d->ndim, len[2], w == CKCI_OUT, &r->t[2], err));
    r->t[0].op = d->op_in;
    r->t[1].op = d->op_wei;
    r->t[2].op = d->op_out;
    r->t[0].compute = d->compute_in;
    r->t[1].compute = d->compute_wei;
    r->t[2].compute = d->compute_out;
    for (int i = 0; i < 3; i++) {
        r->t[i].plain = r->t[i].op.kind == CKCONV_PASS && r->t[i].compute == r->t[i].dtype;
    }
    CKCI_TRY(ckci_check_all_last(wei, r, err));
    for (int i = 0; i < d->num_d; i++) {
        char name[8] = "d[0]";
        name[2] = (char)('0' + i);
        CKCI_TRY(ckci_resolve(at, name, &d->d[i], d->ndim, len[w], 0, &r->d[i], err));
    }
    if (ckci_sums_over(op) == CKCI_OVER_POSITIONS && d->dbias != 0) {
        r->dbias.dtype = r->dbias.compute = d->dbias;
        for (int i = 0; i < 6; i++) {
            r->dbias.len[i] = i == 2 ? r->g * r->k : 1; /* fits: dout was checked */
            r->dbias.stride[i] = 1;
        }
    }
    if (epilogue->kind == CKCONV_ACCUMULATE) {
        ckci_accumulate(r);
    }
    return CKCONV_OK;
}

/* The second convolution of a pair, as a convolution of its own whose input is mid. */
CKCI_FN ckconv_status ckci_second_conv(const ckconv_conv_conv_desc *d, const ckci_conv *first,
                                       ckconv_conv_desc *second, ckconv_error *err)
{
    int32_t ndim = d->conv0.ndim;
    int64_t channels = first->g * first->k; /* fits: wei0 was checked */
    int64_t g1 = d->g1 == 0 ? 1 : d->g1;
    if (g1 < 1 || channels % g1 != 0) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "g1 is %lld: must divide the %lld channels of conv0",
                         CKCI_LL(g1), CKCI_LL(channels));
    }
    memset(second, 0, sizeof *second);
    second->ndim = ndim;
    second->num_d = d->num_d;
    second->g = g1;
    second->n = first->n;
    second->k = d->k1;
    second->c = channels / g1;
    for (int i = 0; i < ndim; i++) {
        second->filter[i] = d->filter1[i] == 0 ? 1 : d->filter1[i];
        second->input[i] = first->output[3 - ndim + i];
        second->stride[i] = d->stride1[i];
        second->dilation[i] = d->dilation1[i];
        second->pad_lo[i] = d->pad_lo1[i];
        second->pad_hi[i] = d->pad_hi1[i];
    }
    second->in.dtype = d->conv0.in.dtype;
    second->wei = d->wei1;
    second->out = d->out;
    ckci_default_out(&d->conv0.in, &second->out);
    CKCI_TRY(ckci_need_out_layout("", &second->out, err));
    if (second->wei.dtype == 0) {
        second->wei.dtype = d->conv0.wei.dtype;
    }
    second->compute_in = d->conv0.compute_in;
    int like = d->compute_wei1 == 0 && second->wei.dtype == d->conv0.wei.dtype;
    second->compute_wei = like ? d->conv0.compute_wei : d->compute_wei1;
    second->op_wei = d->op_wei1;
    second->op_out = d->op_out;
    memcpy(second->d, d->d, sizeof second->d);
    return CKCONV_OK;
}

/* Both stages of a pair. first writes mid, second reads it. */
typedef struct ckci_conv_conv {
    ckci_conv first, second;
} ckci_conv_conv;

CKCI_FN ckconv_status ckci_check_conv_conv(ckconv_conv_conv_desc *d, ckci_conv_conv *r, ckconv_error *err)
{
    ckconv_conv_desc *c0 = &d->conv0;
    if (c0->num_d != 0) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "conv0.num_d is %d: must be 0, D tensors belong to the pair's out", (int)c0->num_d);
    }
    const ckci_element_row *act = ckci_find_element(c0->op_out.kind);
    if (act && act->sum >= CKCI_SUM_BILINEAR) {
        char any[32] = "";
        ckci_element_kinds(0, any, sizeof any);
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "conv0.op_out.kind is %s: must be %s, %s the pair's out",
                         act->name, any, act->most > 0 ? "D tensors belong to" : "what adds in place is");
    }
    ckconv_dtype in = c0->in.dtype == 0 ? (ckconv_dtype)CKCONV_F32 : c0->in.dtype;
    if (c0->out.dtype != 0 && c0->out.dtype != in) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "conv0.out.dtype is %d: mid has the type of in (%d), leave it 0", (int)c0->out.dtype,
                         (int)in);
    }
    CKCI_TRY(ckci_check_conv("conv0.", "", CKCONV_FWD, c0, &r->first, err));
    ckconv_conv_desc second;
    CKCI_TRY(ckci_second_conv(d, &r->first, &second, err));
    for (int i = 0; i < d->conv0.ndim; i++) {
        CKCI_TRY(ckci_check_range("", "filter1", "", i, second.filter[i], 1, "1 or more (0 means 1)", err));
    }
    CKCI_TRY(ckci_check_range("", "k1", "", -1, second.k, 1, "1 or more output channels per group", err));
    CKCI_TRY(ckci_check_conv("", "1", CKCONV_FWD, &second, &r->second, err));
    d->g1 = second.g;
    memcpy(d->filter1, second.filter, sizeof d->filter1);
    memcpy(d->stride1, second.stride, sizeof d->stride1);
    memcpy(d->dilation1, second.dilation, sizeof d->dilation1);
    memcpy(d->pad_lo1, second.pad_lo, sizeof d->pad_lo1);
    memcpy(d->pad_hi1, second.pad_hi, sizeof d->pad_hi1);
    d->wei1 = second.wei;
    d->out = second.out;
    d->compute_wei1 = second.compute_wei;
    memcpy(d->d, second.d, sizeof d->d);
    return CKCONV_OK;
}

/* A group norm in its final form. */
typedef struct ckci_groupnorm {
    ckconv_op op;
    ckconv_element act;
    ckconv_dtype param, stat;
    int64_t g, n, c, space;
    int64_t param_step; /* gamma and what is like it: from an entry's to the next one's; 0: all share them */
    double eps;
    ckci_tensor in, out, din;
} ckci_groupnorm;

CKCI_FN ckconv_status ckci_check_groupnorm(ckconv_op op, ckconv_groupnorm_desc *d, ckci_groupnorm *r,
                                           ckconv_error *err)
{
    if (d->ndim < 1 || d->ndim > 3) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "ndim is %d: must be 1, 2 or 3", (int)d->ndim);
    }
    for (int i = 0; i < 2; i++) {
        if (d->reserved[i] != 0) {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                             "reserved[%d] is %d: must be 0 (uninitialised struct?)", i, (int)d->reserved[i]);
        }
    }
    d->g = d->g == 0 ? 1 : d->g;
    ckci_default_tensor(&d->in, CKCONV_F32, CKCONV_NHWGC);
    ckconv_tensor *like[2];
    like[0] = &d->out;
    like[1] = &d->din;
    for (int i = 0; i < 2; i++) {
        if (like[i]->layout == 0 && d->in.layout == CKCONV_STRIDED) {
            memcpy(like[i]->stride, d->in.stride, sizeof d->in.stride);
        }
        ckci_default_tensor(like[i], d->in.dtype, d->in.layout);
    }
    d->param_dtype = d->param_dtype == 0 ? d->in.dtype : d->param_dtype;
    CKCI_TRY(ckci_check_range("", "g", "", -1, d->g, 1, "1 or more groups (0 means 1)", err));
    CKCI_TRY(ckci_check_range("", "n", "", -1, d->n, 0, "0 or more", err));
    CKCI_TRY(ckci_check_range("", "c", "", -1, d->c, 1,
                              "1 or more channels per group (gamma has g*c entries)", err));
    int64_t len[6];
    len[0] = d->g;
    len[1] = d->n;
    len[2] = d->c;
    for (int i = 0; i < 3; i++) {
        int from = i - (3 - d->ndim);
        len[3 + i] = 1;
        if (from >= 0) {
            CKCI_TRY(ckci_check_range("", "input", "", from, d->input[from], 1, "1 or more", err));
            len[3 + i] = d->input[from];
        }
        if (i >= d->ndim) {
            d->input[i] = 0;
        }
    }
    if (!(d->eps > 0) || !(d->eps < 1e300)) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "eps is %g: must be above 0 and finite (PyTorch's default is 1e-5)", d->eps);
    }
    if (!ckci_norm_has(d->act)) {
        char labels[96] = "", numbers[32] = "";
        ckci_norm_acts(0, labels, sizeof labels);
        ckci_norm_acts(1, numbers, sizeof numbers);
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "act is %d: must be %s (%s)", (int)d->act, labels,
                         numbers);
    }
    if (d->param_per_image != 0 && d->param_per_image != 1) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "param_per_image is %d: must be 0 (gamma has g*c entries) or 1 (n*g*c)",
                         (int)d->param_per_image);
    }
    int32_t rank = 3 + d->ndim;
    CKCI_TRY(ckci_check_tensor("", "in", &d->in, CKCI_ROLE_ACTIVATION, rank, 0, err));
    CKCI_TRY(ckci_check_tensor("", "out", &d->out, CKCI_ROLE_ACTIVATION, rank, 0, err));
    CKCI_TRY(ckci_check_tensor("", "din", &d->din, CKCI_ROLE_ACTIVATION, rank, 0, err));
    static const char *const names[4] = {"in.dtype", "out.dtype", "din.dtype", "param_dtype"};
    ckconv_dtype types[4];
    types[0] = d->in.dtype;
    types[1] = d->out.dtype;
    types[2] = d->din.dtype;
    types[3] = d->param_dtype;
    for (int i = 0; i < 4; i++) {
        int wide = types[0] == CKCONV_F64;
        if (types[i] < CKCONV_F64 || types[i] > CKCONV_BF16 || (types[i] == CKCONV_F64) != wide) {
            return ckci_fail(
                err, CKCONV_ERR_ARGUMENT,
                "%s is %d: must be CKCONV_F32, _F16 or _BF16 (2, 3, 4), or all four CKCONV_F64 (1)", names[i],
                (int)types[i]);
        }
    }
    CKCI_TRY(ckci_check_switches(d->in.dtype, 1, err));
    memset(r, 0, sizeof *r);
    r->op = op;
    r->act = d->act;
    r->param = d->param_dtype;
    r->stat = d->in.dtype == CKCONV_F64 ? (ckconv_dtype)CKCONV_F64 : (ckconv_dtype)CKCONV_F32;
    r->g = d->g;
    r->n = d->n;
    r->c = d->c;
    r->eps = d->eps;
    CKCI_TRY(ckci_resolve("", "in", &d->in, d->ndim, len, 0, &r->in, err));
    CKCI_TRY(ckci_resolve("", "out", &d->out, d->ndim, len, ckci_written(op) == CKCI_OUT, &r->out, err));
    CKCI_TRY(ckci_resolve("", "din", &d->din, d->ndim, len, ckci_written(op) == CKCI_IN, &r->din, err));
    CKCI_TRY(ckci_check_last("in", &r->in, 0, err));
    CKCI_TRY(ckci_check_last("out", &r->out, 0, err));
    CKCI_TRY(ckci_check_last("din", &r->din, 0, err));
    r->in.plain = r->out.plain = r->din.plain = 1;
    r->in.compute = r->in.dtype;
    r->out.compute = r->out.dtype;
    r->space = len[3] * len[4] * len[5];
    r->param_step = d->param_per_image ? d->g * d->c : 0;
    return CKCONV_OK;
}

CKCONV_API ckconv_status ckconv_conv_output(const ckconv_conv_desc *desc, int64_t *out, ckconv_error *err)
{
    if (!desc || !out) {
        return ckci_fail(err, CKCONV_ERR_NULL, "%s is NULL", desc ? "out" : "desc");
    }
    ckconv_conv_desc d = *desc;
    int64_t size[3] = {0, 0, 0};
    CKCI_TRY(ckci_check_ndim("", d.ndim, err));
    ckci_default_sizes(&d);
    CKCI_TRY(ckci_check_sizes("", "", &d, err));
    for (int i = 0; i < d.ndim; i++) {
        CKCI_TRY(ckci_check_output("", "", &d, i, &size[i], err));
    }
    memcpy(out, size, (size_t)d.ndim * sizeof out[0]);
    return ckci_ok(err);
}
