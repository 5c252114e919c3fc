/*------------------------------------------------------------------------------------------------------------
  >>core-layout
  Spans, offsets, coordinate maps, and runs of elements: the two functions through which engines on the CPU
  read and write memory, whatever the type, stride and element operation. Only here is an epilogue computed on
  the CPU, so that ref/ and cpu/ round alike. Whoever calls owns the elements that a run is written to.
  Spatial axes that are one dense axis in all tensors are made one here, too.
*/
#pragma once
#include "core/check.h"

CKCI_FN int64_t ckci_count(const ckci_tensor *t)
{
    return t->len[0] * t->len[1] * t->len[2] * t->len[3] * t->len[4] * t->len[5];
}

/* Bytes from the first element to past the last one. */
CKCI_FN int64_t ckci_span(const ckci_tensor *t)
{
    int64_t last = 0;
    for (int i = 0; i < 6; i++) {
        if (t->len[i] == 0) {
            return 0;
        }
        last += (t->len[i] - 1) * t->stride[i];
    }
    return (last + 1) * (int64_t)ckci_size(t->dtype);
}

/* Where one dimension of the tensor that is read lies for a dimension of the tensor that is written,
   restricted to written positions write0 + q*write_step, q < count, which all use the taps tap0 + j*tap_step,
   j < taps: read position = q*read_step + read0 + j*read_tap. Positions outside [0, read_len) are padding.
   fwd is one phase, and bwd_weight walks the same map; bwd_data has one phase for each input position modulo
   the stride. */
typedef struct ckci_axis {
    int64_t count, write0, write_step;
    int64_t taps, tap0, tap_step;
    int64_t read_step, read0, read_tap, read_len;
} ckci_axis;

CKCI_FN ckci_axis ckci_map_axis(const ckci_conv *p, int dim, int64_t phase)
{
    ckci_axis a;
    int64_t s = p->stride[dim], d = p->dilation[dim], pad = p->pad[dim];
    if (p->op != CKCONV_BWD_DATA) {
        a.count = p->output[dim];
        a.write0 = 0;
        a.write_step = 1;
        a.taps = p->filter[dim];
        a.tap0 = 0;
        a.tap_step = 1;
        a.read_step = s;
        a.read0 = -pad;
        a.read_tap = d;
        a.read_len = p->input[dim];
        return a;
    }
    /* out = (in + pad - tap*d) / s must be whole: taps t with t*d = in + pad (mod s) */
    int64_t period = s / ckci_gcd(s, d);
    int64_t tap = 0;
    while (tap < period && tap < p->filter[dim] && ckci_mod(phase + pad - tap * d, s) != 0) {
        tap++;
    }
    a.count = phase < p->input[dim] ? (p->input[dim] - phase - 1) / s + 1 : 0;
    a.write0 = phase;
    a.write_step = s;
    a.tap0 = tap;
    a.tap_step = period;
    a.taps = tap < period && tap < p->filter[dim] ? (p->filter[dim] - tap - 1) / period + 1 : 0;
    a.read_step = 1;
    a.read0 = a.taps ? (phase + pad - tap * d) / s : 0;
    a.read_tap = -(d / ckci_gcd(s, d));
    a.read_len = p->output[dim];
    return a;
}

/* `n` values of a read tensor, `stride` elements apart from element `at` on: operation applied, rounded to
   the compute type. */
CKCI_FN void ckci_widen(const ckci_tensor *t, int64_t at, int64_t stride, int64_t n, float *dst)
{
    int64_t size = (int64_t)ckci_size(t->dtype);
    const unsigned char *p = t->p + at * size;
    if (t->dtype == CKCONV_F32 && stride == 1) {
        memcpy(dst, p, (size_t)n * 4);
    } else if (t->dtype == CKCONV_F32) {
        for (int64_t i = 0; i < n; i++) {
            memcpy(dst + i, p + i * stride * 4, 4);
        }
    } else if (t->dtype == CKCONV_F16) {
        for (int64_t i = 0; i < n; i++) {
            uint16_t h;
            memcpy(&h, p + i * stride * 2, 2);
            dst[i] = ckci_half_float(h);
        }
    } else if (t->dtype == CKCONV_BF16) {
        for (int64_t i = 0; i < n; i++) {
            uint16_t h;
            memcpy(&h, p + i * stride * 2, 2);
            dst[i] = ckci_bf16_float(h);
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            dst[i] = (float)ckci_load(t->dtype, p + i * stride * size);
        }
    }
}

CKCI_FN void ckci_read_f(const ckci_tensor *t, int64_t at, int64_t stride, int64_t n, void *out)
{
    float *dst = (float *)out;
    ckci_widen(t, at, stride, n, dst);
    if (t->plain) {
        return;
    }
    if (t->op.kind != CKCONV_PASS) {
        for (int64_t i = 0; i < n; i++) {
            dst[i] = ckci_element_f(&t->op, dst[i], NULL, 0);
        }
    }
    for (int64_t i = 0; i < n; i++) {
        dst[i] = ckci_round_float(t->compute, dst[i]);
    }
}

CKCI_FN void ckci_read_d(const ckci_tensor *t, int64_t at, int64_t stride, int64_t n, void *out)
{
    double *dst = (double *)out;
    const unsigned char *p = t->p + at * 8;
    for (int64_t i = 0; i < n; i++) {
        memcpy(dst + i, p + i * stride * 8, 8);
        if (!t->plain) {
            dst[i] = ckci_element_d(&t->op, dst[i], NULL, 0);
        }
    }
}

CKCI_FN void ckci_read_i(const ckci_tensor *t, int64_t at, int64_t stride, int64_t n, void *out)
{
    int32_t *dst = (int32_t *)out;
    if (t->dtype == CKCONV_I32) { /* a tile of mid: int8 values already */
        for (int64_t i = 0; i < n; i++) {
            memcpy(dst + i, t->p + (at + i * stride) * 4, 4);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int32_t x = t->p[at + i * stride];
        x = x < 128 ? x : x - 256;
        dst[i] = t->plain ? x : ckci_to_int((double)ckci_element_f(&t->op, (float)x, NULL, 0), -128, 127);
    }
}

/* The written tensor with all that its epilogue needs. */
typedef struct ckci_target {
    ckci_tensor t;
    int32_t num_d;
    const ckci_tensor *d;
    /* for mid only: acc * scale[channel] + shift[channel] before the operation, and rounding to a compute
       type */
    const unsigned char *scale, *shift;
    ckconv_dtype compute; /* 0: none */
} ckci_target;

CKCI_FN int64_t ckci_offset(const int64_t stride[6], const int64_t at[6])
{
    return at[0] * stride[0] + at[1] * stride[1] + at[2] * stride[2] + at[3] * stride[3] + at[4] * stride[4] +
           at[5] * stride[5];
}

/* One finished value: scale, shift, operation and compute rounding in float; the caller stores it. */
CKCI_FN float ckci_finish_f(const ckci_target *o, float x, const float *d, int64_t channel)
{
    float f;
    if (o->scale) {
        memcpy(&f, o->scale + channel * 4, 4);
        x *= f;
    }
    if (o->shift) {
        memcpy(&f, o->shift + channel * 4, 4);
        x += f;
    }
    x = ckci_element_f(&o->t.op, x, d, o->num_d);
    return o->compute ? ckci_round_float(o->compute, x) : x;
}

CKCI_FN double ckci_finish_d(const ckci_target *o, double x, const double *d, int64_t channel)
{
    double f;
    if (o->scale) {
        memcpy(&f, o->scale + channel * 8, 8);
        x *= f;
    }
    if (o->shift) {
        memcpy(&f, o->shift + channel * 8, 8);
        x += f;
    }
    return ckci_element_d(&o->t.op, x, d, o->num_d);
}

/* The same for `n` <= CKCI_STRIP values in place, d[j]: the values of D tensor j. The additive epilogues of
   training go without a call for each value. */
enum { CKCI_STRIP = 64 };

CKCI_FN void ckci_finish_strip(const ckci_target *o, float *y, int64_t n, float d[4][CKCI_STRIP],
                               const int64_t at[6], int axis)
{
    const ckci_element_row *row = ckci_find_element(o->t.op.kind);
    int relu = row->act == CKCONV_RELU;
    if (o->scale || o->shift || o->compute || (row->sum != CKCI_SUM_ADD && row->sum != CKCI_SUM_ONE) ||
        !(relu || row->act == CKCONV_PASS)) {
        for (int64_t i = 0; i < n; i++) {
            float e[4];
            for (int32_t j = 0; j < o->num_d; j++) {
                e[j] = d[j][i];
            }
            int64_t channel = at[0] * o->t.len[2] + at[2] + (axis == 2 ? i : axis == 0 ? i * o->t.len[2] : 0);
            y[i] = ckci_finish_f(o, y[i], e, channel);
        }
        return;
    }
    for (int32_t j = 0; j < o->num_d; j++) {
        for (int64_t i = 0; i < n; i++) {
            y[i] += d[j][i];
        }
    }
    for (int64_t i = 0; i < n && relu; i++) {
        y[i] = y[i] < 0 ? 0 : y[i];
    }
}

/* n floats to memory, `step` bytes apart, rounded to the storage type */
CKCI_FN void ckci_narrow(ckconv_dtype dtype, const float *y, int64_t n, unsigned char *p, int64_t step)
{
    for (int64_t i = 0; i < n; i++) {
        unsigned char *q = p + i * step;
        uint16_t h;
        if (dtype == CKCONV_F32) {
            memcpy(q, &y[i], 4);
        } else if (dtype == CKCONV_F16) {
            h = ckci_float_half(y[i]);
            memcpy(q, &h, 2);
        } else if (dtype == CKCONV_BF16) {
            h = ckci_float_bf16(y[i]);
            memcpy(q, &h, 2);
        } else {
            ckci_store(dtype, q, (double)y[i]);
        }
    }
}

/* Write n results along `axis` (0, 1, 2: a group or channel; 5: x) from logical position at[]. src:
   accumulators. */
CKCI_FN void ckci_write_f(const ckci_target *o, const int64_t at[6], int axis, int64_t n, const void *src)
{
    const float *x = (const float *)src;
    int64_t size = (int64_t)ckci_size(o->t.dtype), stride = o->t.stride[axis];
    unsigned char *p = o->t.p + ckci_offset(o->t.stride, at) * size;
    int bare = o->t.op.kind == CKCONV_PASS && !o->scale && !o->shift && !o->compute;
    if (bare && o->t.dtype == CKCONV_F32 && stride == 1) {
        memcpy(p, x, (size_t)n * 4);
        return;
    }
    if (bare) {
        ckci_narrow(o->t.dtype, x, n, p, stride * size);
        return;
    }
    int64_t here[6];
    memcpy(here, at, sizeof here);
    for (int64_t i = 0; i < n; i += CKCI_STRIP) {
        float y[CKCI_STRIP], d[4][CKCI_STRIP];
        int64_t run = ckci_min(CKCI_STRIP, n - i);
        memcpy(y, x + i, (size_t)run * 4);
        here[axis] = at[axis] + i;
        for (int32_t j = 0; j < o->num_d; j++) {
            ckci_widen(&o->d[j], ckci_offset(o->d[j].stride, here), o->d[j].stride[axis], run, d[j]);
        }
        ckci_finish_strip(o, y, run, d, here, axis);
        ckci_narrow(o->t.dtype, y, run, p + i * stride * size, stride * size);
    }
}

CKCI_FN void ckci_write_d(const ckci_target *o, const int64_t at[6], int axis, int64_t n, const void *src)
{
    const double *x = (const double *)src;
    unsigned char *p = o->t.p + ckci_offset(o->t.stride, at) * 8;
    for (int64_t i = 0; i < n; i++) {
        double d[4];
        for (int32_t j = 0; j < o->num_d; j++) {
            const ckci_tensor *e = &o->d[j];
            int64_t place = ckci_offset(e->stride, at) + i * e->stride[axis];
            d[j] = ckci_load(e->dtype, e->p + place * (int64_t)ckci_size(e->dtype));
        }
        int64_t channel = at[0] * o->t.len[2] + at[2] + (axis == 2 ? i : axis == 0 ? i * o->t.len[2] : 0);
        double y = ckci_finish_d(o, x[i], d, channel);
        memcpy(p + i * o->t.stride[axis] * 8, &y, 8);
    }
}

/* int32 sums: exact without an operation; with one, float, then round and saturate. */
CKCI_FN void ckci_write_i(const ckci_target *o, const int64_t at[6], int axis, int64_t n, const void *src)
{
    const int32_t *x = (const int32_t *)src;
    int64_t size = (int64_t)ckci_size(o->t.dtype);
    unsigned char *p = o->t.p + ckci_offset(o->t.stride, at) * size;
    int bare = o->t.op.kind == CKCONV_PASS && !o->scale && !o->shift;
    for (int64_t i = 0; i < n; i++) {
        double y = (double)x[i];
        if (!bare) {
            float d[4];
            for (int32_t j = 0; j < o->num_d; j++) {
                const ckci_tensor *e = &o->d[j];
                int64_t place = ckci_offset(e->stride, at) + i * e->stride[axis];
                d[j] = (float)ckci_load(e->dtype, e->p + place * (int64_t)ckci_size(e->dtype));
            }
            int64_t channel = at[0] * o->t.len[2] + at[2] + (axis == 2 ? i : axis == 0 ? i * o->t.len[2] : 0);
            y = (double)ckci_finish_f(o, (float)x[i], d, channel);
        }
        if (o->compute == CKCONV_I8) {
            y = (double)ckci_to_int(y, -128, 127);
        }
        ckci_store(o->t.dtype, p + i * o->t.stride[axis] * size, y);
    }
}

/* How a problem's values are held between memory and arithmetic: float, double, or int32 for i8. */
typedef struct ckci_kind {
    int64_t size;
    ckconv_dtype dtype; /* CKCONV_F32, CKCONV_F64 or CKCONV_I32 */
    void (*read)(const ckci_tensor *t, int64_t at, int64_t stride, int64_t n, void *out);
    void (*write)(const ckci_target *o, const int64_t at[6], int axis, int64_t n, const void *src);
} ckci_kind;

CKCI_FN const ckci_kind *ckci_find_kind(ckconv_dtype dtype)
{
    static const ckci_kind f = {4, CKCONV_F32, ckci_read_f, ckci_write_f};
    static const ckci_kind d = {8, CKCONV_F64, ckci_read_d, ckci_write_d};
    static const ckci_kind i = {4, CKCONV_I32, ckci_read_i, ckci_write_i};
    return dtype == CKCONV_F64 ? &d : dtype == CKCONV_I8 || dtype == CKCONV_I32 ? &i : &f;
}

CKCI_FN ckci_target ckci_make_target(const ckci_conv *p)
{
    ckci_target o;
    memset(&o, 0, sizeof o);
    o.t = p->t[ckci_written(p->op)];
    o.num_d = p->num_d;
    o.d = p->d;
    return o;
}

/* dbias as a target: with accumulate it is added to what is there. */
CKCI_FN ckci_target ckci_bias_target(const ckci_conv *p)
{
    ckci_target o;
    memset(&o, 0, sizeof o);
    o.t = p->dbias;
    o.num_d = p->accumulate;
    o.d = &p->dbias;
    return o;
}

/* Entries of gamma, and of what is like it. */
CKCI_FN int64_t ckci_param_count(const ckci_groupnorm *p)
{
    return p->param_step > 0 ? p->n * p->param_step : p->g * p->c;
}

/* gamma or beta of entry n and of a channel of all groups */
CKCI_FN double ckci_param(const ckci_groupnorm *p, const void *vector, int64_t n, int64_t channel,
                          double missing)
{
    const int64_t at = (n * p->param_step + channel) * (int64_t)ckci_size(p->param);
    return vector ? ckci_load(p->param, (const unsigned char *)vector + at) : missing;
}

/* The distance in elements from a tensor's first element to its last. */
CKCI_INLINE int64_t ckci_last_element(const ckci_tensor *t)
{
    int64_t last = 0;
    for (int i = 0; i < 6; i++) {
        last += (t->len[i] - 1) * t->stride[i];
    }
    return last;
}

/* Spatial axes that are one dense axis in all tensors are walked as one. */
CKCI_FN ckci_groupnorm ckci_flatten_norm(const ckci_groupnorm *p)
{
    ckci_groupnorm f = *p;
    ckci_tensor *t[3];
    t[0] = &f.in;
    t[1] = &f.out;
    t[2] = &f.din;
    for (int axis = 4; axis >= 3; axis--) {
        int dense = 1;
        for (int i = 0; i < 3; i++) {
            dense = dense && (t[i]->len[axis] == 1 || t[i]->stride[axis] == t[i]->len[5] * t[i]->stride[5]) &&
                    (axis == 4 || t[i]->len[4] == 1);
        }
        for (int i = 0; i < 3 && dense; i++) {
            t[i]->len[5] *= t[i]->len[axis];
            t[i]->len[axis] = 1;
        }
    }
    return f;
}

/* Batch and spatial axes in the order of their strides, the closest as axis 5. */
CKCI_FN void ckci_sort_positions(ckci_tensor *t)
{
    static const int axis[4] = {1, 3, 4, 5};
    for (int i = 1; i < 4; i++) {
        for (int j = i; j > 0; j--) {
            int far = axis[j - 1], near = axis[j];
            /* an axis of one position lies farther out than all others */
            int64_t a = t->len[far] > 1 ? t->stride[far] : INT64_MAX;
            int64_t b = t->len[near] > 1 ? t->stride[near] : INT64_MAX;
            if (b > a) {
                int64_t len = t->len[far], stride = t->stride[far];
                t->len[far] = t->len[near];
                t->stride[far] = t->stride[near];
                t->len[near] = len;
                t->stride[near] = stride;
            }
        }
    }
}

/* Axes of positions that are one, and groups whose channels follow each other. */
CKCI_FN void ckci_join_positions(ckci_tensor *t)
{
    static const int axis[4] = {1, 3, 4, 5};
    for (int i = 2; i >= 0; i--) {
        int far = axis[i];
        if (t->len[far] > 1 && t->stride[far] == t->len[5] * t->stride[5]) {
            t->len[5] *= t->len[far];
            t->len[far] = 1;
        }
    }
    if (t->len[2] == 1) {
        t->stride[2] = t->stride[0];
    }
    if (t->len[0] > 1 && t->stride[0] == t->len[2] * t->stride[2]) {
        t->len[2] *= t->len[0];
        t->len[0] = 1;
    }
}

/* mid as a dense tensor of `positions`: logical [groups, n, per group, z, y, x], channels fastest. */
CKCI_FN void ckci_dense_mid(ckci_tensor *t, ckconv_dtype dtype, int64_t groups, int64_t n, int64_t per_group,
                            const int64_t size[3], unsigned char *p)
{
    t->p = p;
    t->dtype = t->compute = dtype;
    t->plain = 1;
    t->len[0] = groups;
    t->len[1] = n;
    t->len[2] = per_group;
    t->len[3] = size[0];
    t->len[4] = size[1];
    t->len[5] = size[2];
    t->stride[0] = per_group;
    t->stride[2] = 1;
    t->stride[5] = groups * per_group;
    t->stride[4] = t->stride[5] * size[2];
    t->stride[3] = t->stride[4] * size[1];
    t->stride[1] = t->stride[3] * size[0];
}
