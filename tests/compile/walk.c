/* walk: plans of some thousand problems for GPUs and the CPU, one line each: what runs, or why not. Linked
   with a build that switches left something out of, it prints the same lines as with the whole one, but for
   those that say which switch dropped what they need.
   SPDX-License-Identifier: MIT */
#include "ckconv.h"

#include <stdio.h>
#include <string.h>

static uint32_t state = 1;

static int pick(int count)
{
    state = state * 1664525u + 1013904223u;
    return (int)(state >> 16) % count;
}

#define PICK(list) list[pick((int)(sizeof list / sizeof list[0]))]

static void tell(const char *what, ckconv_op op, ckconv_status status, const ckconv_plan *plan,
                 const ckconv_error *err)
{
    char text[2048];
    if (status == CKCONV_OK) {
        ckconv_plan_describe(plan, text, sizeof text);
    } else {
        snprintf(text, sizeof text, "refused (%d): %s", (int)status, err->text);
    }
    printf("%s %s: %s\n", what, ckconv_op_name(op), text);
}

/* Few channels, depthwise, groups, or dense. */
static void channels(ckconv_conv_desc *d)
{
    static const int64_t small[] = {1, 2, 3, 4, 8, 12, 16, 32};
    static const int64_t large[] = {1, 3, 4, 16, 33, 64, 128, 256, 512};
    d->g = pick(2) ? 1 : (int64_t)PICK(small) * 8;
    d->k = d->c = 1;
    if (d->g == 1 || pick(2)) {
        d->k = d->g > 1 ? PICK(small) : PICK(large);
        d->c = pick(2) ? d->k : d->g > 1 ? PICK(small) : PICK(large);
    }
}

static void types(ckconv_conv_desc *d, ckconv_op op)
{
    static const ckconv_dtype all[] = {CKCONV_F16,  CKCONV_BF16, CKCONV_F32,     CKCONV_F16,
                                       CKCONV_BF16, CKCONV_F64,  CKCONV_I8,      CKCONV_F8E4M3,
                                       CKCONV_F16,  CKCONV_F32,  CKCONV_F8E5M2FNUZ};
    static const ckconv_dtype arithmetic[] = {CKCONV_TF32, CKCONV_BF16, CKCONV_BF16X3};
    const ckconv_dtype type = PICK(all);
    d->in.dtype = type;
    if (type == CKCONV_F32 && pick(2)) {
        d->compute_in = d->compute_wei = d->compute_out = PICK(arithmetic);
    } else if (type == CKCONV_F16 && pick(8) == 0) {
        d->compute_in = d->compute_wei = d->compute_out = CKCONV_F8E4M3;
    } else if (type == CKCONV_BF16 && pick(2)) {
        d->wei.dtype = CKCONV_F32;
    } else if (type == CKCONV_F8E4M3 && op == CKCONV_FWD && pick(2)) {
        d->out.dtype = pick(2) ? CKCONV_F32 : CKCONV_F16;
    }
}

static void conv(ckconv_conv_desc *d, ckconv_op op)
{
    static const int64_t filter[] = {1, 3, 3, 5, 7, 4}, image[] = {1, 7, 14, 28, 56, 65};
    memset(d, 0, sizeof *d);
    d->ndim = 1 + pick(3);
    d->n = pick(4) ? 8 : 1;
    channels(d);
    types(d, op);
    const int64_t f = PICK(filter), stride = pick(3) ? 1 : 2, dilation = pick(6) ? 1 : 2;
    for (int i = 0; i < d->ndim; i++) {
        d->filter[i] = d->ndim == 3 && i == 0 && pick(2) ? 1 : f;
        d->input[i] = PICK(image) + d->filter[i];
        d->stride[i] = stride;
        d->dilation[i] = dilation;
        d->pad_lo[i] = d->pad_hi[i] = pick(5) ? (d->filter[i] - 1) / 2 * dilation : d->filter[i] * dilation;
    }
    if (pick(4) == 0) {
        d->in.layout = pick(2) || d->g == 1 ? CKCONV_NGCHW : CKCONV_GNHWC;
        d->wei.layout = pick(2) ? CKCONV_GKCYX : CKCONV_GKYXC;
    }
    if (pick(6) == 0) {
        d->op_in.kind = op == CKCONV_BWD_DATA ? CKCONV_PASS : CKCONV_RELU;
    }
    if (op == CKCONV_FWD && pick(3) == 0) {
        d->op_out.kind = CKCONV_BIAS;
        d->num_d = 1;
        d->d[0].layout = CKCONV_CHANNEL;
        d->d[0].dtype = d->in.dtype == CKCONV_F64 ? CKCONV_F64 : CKCONV_F32;
    }
}

static void one(const char *what, const ckconv_device *device)
{
    static const int64_t limits[] = {0, 0, -1, 1 << 20};
    ckconv_options o;
    ckconv_plan plan;
    ckconv_error err;
    memset(&o, 0, sizeof o);
    memset(&err, 0, sizeof err);
    o.max_workspace = PICK(limits);
    const ckconv_op op = (ckconv_op)(CKCONV_FWD + pick(6));
    if (op == CKCONV_CONV_CONV_FWD) {
        ckconv_conv_conv_desc d;
        memset(&d, 0, sizeof d);
        conv(&d.conv0, CKCONV_FWD);
        memset(&d.conv0.op_out, 0, sizeof d.conv0.op_out);
        memset(d.conv0.d, 0, sizeof d.conv0.d);
        d.conv0.num_d = 0;
        d.k1 = pick(2) ? 64 : 24;
        tell(what, op, ckconv_plan_conv_conv(&plan, &d, &o, device, &err), &plan, &err);
    } else if (op >= CKCONV_GROUPNORM_FWD) {
        static const ckconv_dtype all[] = {CKCONV_F32, CKCONV_F16, CKCONV_BF16, CKCONV_F64};
        static const int64_t sizes[] = {1, 2, 4, 8, 16, 32, 7};
        ckconv_groupnorm_desc d;
        memset(&d, 0, sizeof d);
        d.ndim = 1 + pick(2);
        d.g = PICK(sizes);
        d.c = PICK(sizes);
        d.n = 4;
        d.input[0] = d.input[1] = PICK(sizes) * 7;
        d.input[1] = d.ndim == 2 ? d.input[1] : 0;
        d.eps = 1e-5;
        d.in.dtype = PICK(all);
        d.in.layout = pick(3) || d.g * d.c == 1 ? CKCONV_NHWGC : CKCONV_NGCHW;
        tell(what, op, ckconv_plan_groupnorm(&plan, op, &d, &o, device, &err), &plan, &err);
    } else {
        ckconv_conv_desc d;
        conv(&d, op);
        tell(what, op, ckconv_plan_conv(&plan, op, &d, &o, device, &err), &plan, &err);
    }
}

int main(void)
{
    static const char *const devices[] = {"sm_90", "gfx942", "sm_80", "gfx1100", "gfx90a", "gfx1030", "cpu"};
    for (int i = 0; i < 3500; i++) {
        ckconv_device device;
        ckconv_error err;
        const char *name = devices[i % 7];
        if (ckconv_device_named(name, &device, &err) != CKCONV_OK) {
            puts(err.text);
            return 1;
        }
        char what[32];
        snprintf(what, sizeof what, "%d %s", i, name);
        one(what, &device);
    }
    return 0;
}
