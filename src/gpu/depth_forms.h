/*------------------------------------------------------------------------------------------------------------
  >>gpu-depth-forms
  Which depthwise kernels there are, and whether a problem is one of theirs: by where neighbours lie in
  memory, the type, filter, strides and alignment. Sheets, which hold planes in LDS, are laid out here, too:
  planes or bands of a block, and what lies where.
*/
#pragma once
#include "gpu/conv.h"

/* May `vec` neighbouring channels be one load? Channels are groups here. */
CKCI_FN int ckci_depth_vector(const ckci_tensor *t, int64_t vec)
{
    int fits = t->stride[0] == 1 && t->len[0] % vec == 0 &&
               (uintptr_t)t->p % (uintptr_t)(vec * (int64_t)ckci_size(t->dtype)) == 0;
    for (int i = 1; i < 6; i++) {
        fits = fits && (t->len[i] <= 1 || t->stride[i] % vec == 0);
    }
    return fits;
}

/* Which depthwise kernels: their place among those of one type, as gpu/table.h has them. */
enum {
    CKCI_DEPTH_DOWN, /* 3, 5, 7 */
    CKCI_DEPTH_PLANE_WALK_3 = CKCI_DEPTH_DOWN + 3,
    CKCI_DEPTH_PLANE_WALK_7,
    CKCI_DEPTH_ROW,
    CKCI_DEPTH_4_NEAR, /* loads of 4 channels */
    CKCI_DEPTH_4_SECOND,
    CKCI_DEPTH_1_NEAR,
    CKCI_DEPTH_1_ANY,
    CKCI_DEPTH_COLUMN_SECOND,
    CKCI_DEPTH_DEEP,
    CKCI_DEPTH_SHEET_3,
    CKCI_DEPTH_SHEET_5,
    CKCI_DEPTH_SHEET_3_SECOND,
    CKCI_DEPTH_SHEET_3_BACK,
    CKCI_DEPTH_SHEET_7,
    CKCI_DEPTH_WEIGHT, /* the first of bwd_weight */
    CKCI_DEPTH_WEIGHT_WALK_7 = CKCI_DEPTH_WEIGHT,
    CKCI_DEPTH_WEIGHT_PLANE_WALK_3,
    CKCI_DEPTH_WEIGHT_PLANE_WALK_7,
    CKCI_DEPTH_WEIGHT_ROW,
    CKCI_DEPTH_WEIGHT_4_NEAR,
    CKCI_DEPTH_WEIGHT_2_SECOND, /* stride 2, 3 x 3 taps */
    CKCI_DEPTH_WEIGHT_1_ANY,
    CKCI_DEPTH_WEIGHT_4_SECOND, /* stride 2, any taps */
    CKCI_DEPTH_WEIGHT_DOWN,     /* 3, 5 */
    CKCI_DEPTH_WEIGHT_DEEP = CKCI_DEPTH_WEIGHT_DOWN + 2,
    CKCI_DEPTH_WEIGHT_SHEET_3,
    CKCI_DEPTH_WEIGHT_SHEET_5,
    CKCI_DEPTH_WEIGHT_SHEET_3_SECOND,
    CKCI_DEPTH_WEIGHT_SHEET_7,
    CKCI_DEPTH_BOTH, /* as many have both types; of f16 and bf16 alone: */
    CKCI_DEPTH_PLANE_WALK_5 = CKCI_DEPTH_BOTH,
    CKCI_DEPTH_4_ANY,
    CKCI_DEPTH_1_SECOND,
    CKCI_DEPTH_DOWN_5_SHORT,
    CKCI_DEPTH_WEIGHT_4_ANY,
    CKCI_DEPTH_SHEET_5_SECOND,
    CKCI_DEPTH_SHEET_5_BACK,
    CKCI_DEPTH_WEIGHT_SHEET_5_SECOND,
    CKCI_DEPTH_WEIGHT_PLANE_WALK_5,
    CKCI_DEPTH_COLUMN = CKCI_DEPTH_BOTH, /* of f32 alone: */
    CKCI_DEPTH_WEIGHT_WALK_3
};

/* How a depthwise plan walks: what its lanes are. */
enum {
    CKCI_DEPTH_LAST = 0,   /* channels, strips along x */
    CKCI_DEPTH_PLANES = 1, /* positions along x, strips along y */
    CKCI_DEPTH_ROWS = 2    /* strips along x */
};

/* How a kernel that walks loads windows: 2: in pieces (of 4 neighbours in planes, which `aligned` tells, else
   of vec channels), 1: in words of 4 bytes, 0: element by element. */
CKCI_FN int32_t ckci_depth_pieces(const ckci_tensor *t, int32_t planes, int32_t vec, int32_t aligned)
{
    int fits = (uintptr_t)t->p % 4 == 0, size = (int)ckci_size(t->dtype);
    for (int i = 0; i < 6; i++) {
        fits = fits && (t->len[i] <= 1 || t->stride[i] * size % 4 == 0 || i == (planes ? 5 : 0));
    }
    /* pairs in planes: windows begin at even places, and rows end there */
    fits = fits && (size == 4 || (planes && t->len[5] % 2 == 0));
    return (planes ? aligned : ckci_depth_vector(t, vec)) ? 2 : fits;
}

/* Are types and operation those that all kernels know (kernels/depth, ckci_k_depth_write)? bwd_weight:
   the sums can be stored as they are. */
CKCI_FN int ckci_depth_common(const ckci_gpu_depth *k, int weight)
{
    if (weight) {
        ckconv_dtype type = k->o.t.dtype;
        return k->o.t.op.kind == CKCONV_PASS &&
               (k->a.dtype == CKCONV_F64 ? type == CKCONV_F64
                                         : type == CKCONV_F32 || type == CKCONV_F16 || type == CKCONV_BF16);
    }
    int fits =
        k->a.dtype != CKCONV_F64 && k->b.plain && ckci_few(&k->o.t.op, 1) && k->o.t.op.kind != CKCONV_GELU;
    for (int i = 0; i < 2 + k->o.num_d; i++) {
        ckconv_dtype type = i == 0 ? k->b.dtype : i == 1 ? k->o.t.dtype : k->o.d[i - 2].dtype;
        fits = fits && (type == CKCONV_F32 || type == CKCONV_F16 || type == CKCONV_BF16);
    }
    return fits;
}

/* Filter size of a kernel that walks down columns; 0: none does. */
CKCI_FN int32_t ckci_depth_walks(const ckci_gpu_depth *k, const ckconv_device *device, int32_t weight,
                                 int32_t planes)
{
    const ckci_gpu_dim *y = &k->dim[1], *x = &k->dim[2];
    const int32_t f = x->filter, narrow = k->a.dtype == CKCONV_F32;
    const int five = planes && !narrow && device->kind == CKCONV_DEVICE_NVIDIA;
    const int there = weight ? f == 7 || (f == 3 && (planes || narrow)) || (f == 5 && five)
                             : planes && (f == 3 || f == 7 || (f == 5 && !narrow));
    int fits = there && y->filter == f && k->phases == 1 && planes != CKCI_DEPTH_PLANES &&
               k->a.dtype != CKCONV_F64 && (weight || !k->full) && x->stride == 1 && y->stride == 1 &&
               x->dilation == 1 && y->dilation == 1 && y->length > 2;
    fits = fits && (planes ? x->pad == (f - 1) / 2 : k->a.stride[0] == 1 && k->b.stride[0] == 1);
    fits = fits && (weight ? x->length >= 8 : k->taps <= 128 && (f == 3 || k->dim[0].filter == 1));
    /* offsets have 32 bits */
    for (int i = 0; i < 2; i++) {
        const ckci_tensor *t = i == 0 ? &k->a : weight ? &k->b : &k->o.t;
        fits = fits && ckci_span(t) <= INT32_MAX;
    }
    /* rows on their way lie in LDS there; most of them in f32, channels first */
    const int32_t lds = weight && planes && k->a.dtype == CKCONV_F32 && f < 7 ? CKCI_DEPTH_WALK_LDS : 101376;
    fits = fits && (device->kind != CKCONV_DEVICE_NVIDIA || device->lds_bytes >= lds);
    return fits ? f : 0;
}

/* Filter size of a kernel that takes rows through LDS; 0: none does. */
CKCI_FN int32_t ckci_depth_downs(const ckci_gpu_depth *k, const ckconv_device *device, int32_t weight,
                                 int32_t planes)
{
    const ckci_gpu_dim *z = &k->dim[0], *y = &k->dim[1], *x = &k->dim[2];
    const ckci_tensor *other = weight ? &k->b : &k->o.t;
    int32_t f = x->filter, lanes = 64 / (int32_t)ckci_size(k->a.dtype);
    int fits = (f == 3 || f == 5 || (f == 7 && !weight)) && y->filter == f && z->filter == 1 && z->pad == 0 &&
               k->phases == 1 && planes == CKCI_DEPTH_LAST && k->a.dtype != CKCONV_F64 &&
               (weight || !k->full);
    fits = fits && x->stride == 1 && y->stride == 1 && x->dilation == 1 && y->dilation == 1 && y->pad < f;
    fits = fits && ((int64_t)z->length - 1) * z->read_step < z->read_len;
    /* at least a quarter of 16 lanes have channels; bwd_weight: rows have a strip */
    fits =
        fits && k->a.stride[0] == 1 && k->g >= lanes / 4 &&
        (!weight || (k->b.stride[0] == 1 &&
                     x->length >= ckci_max(CKCI_DEPTH_DOWN_STRIP((int32_t)ckci_size(k->a.dtype), f, 1), 7)));
    /* on an H100 those that walk were faster in f32 but for short rows (bwd_weight of 32 x 32: 115 us, here
       175; of 14 x 14: 49, here 47); fwd and bwd_data have one for fours of channels */
    fits = fits && (f != 3 || k->a.dtype != CKCONV_F32 || x->length <= 14 ||
                    (!weight && !ckci_depth_vector(&k->a, 4)));
    fits = fits && (device->kind != CKCONV_DEVICE_NVIDIA || device->lds_bytes >= 101376);
    return fits && ckci_span(&k->a) <= INT32_MAX && ckci_span(other) <= INT32_MAX ? f : 0;
}

/* Is there a kernel that takes planes through LDS? */
CKCI_FN int ckci_depth_deeps(const ckci_gpu_depth *k, const ckconv_device *device, int32_t weight,
                             int32_t planes)
{
    const ckci_tensor *other = weight ? &k->b : &k->o.t;
    int32_t lanes = 64 / (int32_t)ckci_size(k->a.dtype);
    int fits =
        planes == CKCI_DEPTH_LAST && k->phases == 1 && k->a.dtype != CKCONV_F64 && (weight || !k->full);
    for (int i = 0; i < 3; i++) {
        const ckci_gpu_dim *d = &k->dim[i];
        fits = fits && d->filter == 3 && d->stride == 1 && d->dilation == 1 && d->pad < 3;
    }
    fits = fits && k->a.stride[0] == 1 && (!weight || k->b.stride[0] == 1) && k->g >= lanes / 4;
    fits = fits && (device->kind != CKCONV_DEVICE_NVIDIA || device->lds_bytes >= 101376);
    return fits && ckci_span(&k->a) <= INT32_MAX && ckci_span(other) <= INT32_MAX;
}

/* Does a kernel walk down columns with two rows of inputs in registers? (fwd, bwd_data) */
CKCI_FN int ckci_depth_takes_columns(const ckci_gpu_depth *k, int32_t vec, int32_t planes)
{
    const ckci_gpu_dim *z = &k->dim[0], *y = &k->dim[1], *x = &k->dim[2];
    int fits = planes == CKCI_DEPTH_LAST && k->phases == 1 && !k->full && vec == 4 && z->filter == 1 &&
               z->pad == 0 && ((int64_t)z->length - 1) * z->read_step < z->read_len && y->length > 2;
    fits = fits && y->filter == 3 && x->filter == 3 && y->stride == x->stride &&
           (x->stride == 2 || (x->stride == 1 && k->a.dtype == CKCONV_F32)) && y->dilation == 1 &&
           x->dilation == 1 && y->pad < 3 && x->pad < 3;
    return fits && ckci_span(&k->a) <= INT32_MAX && ckci_span(&k->o.t) <= INT32_MAX;
}

/* ---- Sheets. */

/* Are the planes of t, all rows of them, one behind the other in memory? */
CKCI_FN int ckci_depth_dense_planes(const ckci_tensor *t)
{
    int64_t row = t->len[5], plane = row * t->len[4];
    return t->stride[5] == 1 && (t->len[4] == 1 || t->stride[4] == row) && t->len[3] == 1 &&
           (t->len[0] == 1 || t->stride[0] == plane) &&
           (t->len[1] == 1 || t->stride[1] == plane * t->len[0]) && ckci_span(t) <= INT32_MAX;
}

/* Bytes from thread to thread of what is read, written (dout). back: of stride 2. */
CKCI_FN int64_t ckci_depth_sheet_step(int64_t size, int64_t stride, int back, int weight, int written)
{
    int64_t columns = CKCI_DEPTH_SHEET_COLUMNS(size, stride, back, weight);
    return (written ? columns : back ? 1 : columns * stride) * size;
}

/* Room for a plane of `bytes` bytes: the threads of the next one, `step` bytes apart, go on in the banks of
   LDS, which are 128 bytes, where those of this one end. */
CKCI_FN int64_t ckci_depth_sheet_spread(int64_t bytes, int64_t step, int64_t wide)
{
    int64_t room = ckci_ceil_div(bytes, 16) * 16, more = ((step * wide - room) % 128 + 128) % 128;
    return room + ckci_ceil_div(more, 16) * 16 % 128;
}

/* Threads for a plane whose columns take `wide`: those of the next one can go on where they end if a multiple
   of 16 bytes is between them, which is worth an eighth of the threads. */
CKCI_FN int64_t ckci_depth_sheet_wide(int64_t wide, int64_t step)
{
    int64_t threads = CKCI_DEPTH_SHEET_THREADS, unit = ckci_max(16 / step, 1);
    int64_t more = ckci_ceil_div(wide, unit) * unit;
    return more <= threads && threads / more * 8 >= threads / wide * 7 ? more : wide;
}

/* Lays out LDS for `count` planes, `high` rows of each that are written (of dout), if it is large enough; the
   bytes that it takes. */
CKCI_FN int64_t ckci_depth_sheet_lay(ckci_gpu_depth_sheet *s, int64_t size, int64_t filter, int64_t stride,
                                     int back, int weight, int64_t count, int64_t high, int64_t bands)
{
    int64_t rows = bands == 1 ? s->in[0] : back ? (high + filter - 1) / 2 + 2 : (high - 1) * stride + filter;
    int64_t a_plane = size * s->in[0] * s->in[1], o_plane = size * s->out[0] * s->out[1];
    int64_t a = ckci_min(rows, s->in[0]) * s->in[1] * size, o = high * s->out[1] * size;
    if (s->slack < 0) {
        a = ckci_depth_sheet_spread(a, ckci_depth_sheet_step(size, stride, back, weight, 0), s->by_wide.d);
        o = ckci_depth_sheet_spread(o, ckci_depth_sheet_step(size, stride, back, weight, 1), s->by_wide.d);
    } else if (bands > 1) { /* they lie as in memory modulo 16, and what begins and ends with them has room */
        a += s->slack + ((a_plane - a - s->slack) % 16 + 16) % 16;
        o += s->slack + ((o_plane - o - s->slack) % 16 + 16) % 16;
    }
    /* windows begin and end up to 32 bytes before and after rows; those begin up to 15 bytes later */
    int64_t o_at = 80 + ckci_ceil_div(count * a, 16) * 16,
            w_at = o_at + 16 + ckci_ceil_div(count * o, 16) * 16;
    int64_t bytes = w_at + (weight ? 16 : count * (filter * filter * 4 + 8 * s->acts));
    if (bytes <= CKCI_DEPTH_SHEET_BYTES) {
        s->count = (int32_t)count;
        s->high = (int32_t)high;
        s->bands = (int32_t)bands;
        s->a_room = (int32_t)a;
        s->o_room = (int32_t)o;
        s->o_at = (int32_t)o_at;
        s->w_at = (int32_t)w_at;
    }
    return bytes;
}

/* How many planes and rows a block takes: as many planes as there are threads for, `wide` to a plane. Bands
   cost rows that are read, and walked, twice. 0: one row of a plane is too large. */
CKCI_FN int ckci_depth_sheet_bands(ckci_gpu_depth_sheet *s, const ckconv_device *device, int64_t size,
                                   int64_t f, int64_t stride, int back, int weight, int64_t wide, int64_t n)
{
    double best = 0, units = (double)ckci_max(device->compute_units, 1);
    const int64_t threads = CKCI_DEPTH_SHEET_THREADS;
    int64_t bands = 0, planes = 0, most = ckci_max(ckci_min(threads / wide, s->planes), 1);
    for (int64_t b = 1; b <= 32 && b <= s->out[0]; b++) {
        int64_t high = ckci_ceil_div(s->out[0], b), count = most;
        int64_t bytes = ckci_depth_sheet_lay(s, size, f, stride, back, weight, count, high, b);
        if (bytes > CKCI_DEPTH_SHEET_BYTES) {
            count = count * (CKCI_DEPTH_SHEET_BYTES - 128) / bytes; /* 128: all but planes and weights */
        }
        if (count == 0 ||
            ckci_depth_sheet_lay(s, size, f, stride, back, weight, count, high, b) > CKCI_DEPTH_SHEET_BYTES) {
            continue;
        }
        double full = (double)(ckci_ceil_div(s->planes, count) * b * n) / (4 * units);
        double busy = (double)(count * ckci_min(wide, threads)) / (double)threads;
        double score = (double)high / (double)(high + (f - 1) / stride);
        score *= (busy < 0.67 ? 1.5 * busy : 1) * (full < 1 ? full : 1);
        if (score > best * 1.02) {
            best = score;
            bands = b;
            planes = count;
        }
    }
    if (bands > 0) {
        ckci_depth_sheet_lay(s, size, f, stride, back, weight, planes, ckci_ceil_div(s->out[0], bands),
                             bands);
    }
    return bands > 0;
}

/* Aligned pieces of 16 bytes that hold what lies together in memory, planes or a band; of planes that are
   spread pieces of LDS, for threads that follow each other use different banks here, too. bits: those of the
   tensors' addresses; apart: planes from image to image. */
CKCI_FN ckci_divisor ckci_depth_sheet_pieces(const ckci_gpu_depth_sheet *s, const int32_t *plane,
                                             int64_t room, int64_t size, int64_t apart, uintptr_t bits)
{
    if (s->slack < 0) {
        return ckci_make_divisor(room / 16);
    }
    int64_t row = plane[1] * size, bytes = s->bands == 1 ? s->count * row * plane[0] : room;
    bits |= s->bands == 1 ? (uintptr_t)bytes | (uintptr_t)(apart * row * plane[0]) : (uintptr_t)row;
    return ckci_make_divisor(ckci_ceil_div(bytes, 16) + (bits % 16 != 0));
}

/* Is the epilogue one that sheets have: numbers for each channel, and a residual, which lies as the output
   and, on NVIDIA, like it in its 16 bytes? */
CKCI_FN int ckci_depth_sheet_acts(const ckconv_device *device, const ckci_gpu_target *o)
{
    if (o->form == CKCI_FORM_STORE) {
        return o->num_d == 0;
    }
    return o->residual != CKCI_RESIDUAL_ANY &&
           (o->residual <= 0 || device->kind == CKCONV_DEVICE_AMD ||
            ((uintptr_t)o->d[o->residual - 1].p - (uintptr_t)o->t.p) % 16 == 0);
}

/* Sheets, if there is a kernel for them: which, else -1. */
CKCI_FN int32_t ckci_depth_sheets(const ckci_conv *p, const ckconv_device *device, ckci_gpu_depth *k)
{
    int weight = p->op == CKCONV_BWD_WEIGHT, back = p->op == CKCONV_BWD_DATA;
    ckci_gpu_depth_sheet *s = &k->sheet;
    int64_t f = p->filter[2], stride = p->stride[2], size = (int64_t)ckci_size(k->a.dtype);
    const ckci_tensor *read = &p->t[back ? CKCI_OUT : CKCI_IN], *written = &p->t[back ? CKCI_IN : CKCI_OUT];
    /* f32 has strips for 5 x 5 with stride 2 */
    const int there = size == 2 || stride != 2 || f != 5;
    int fits = there && k->a.dtype != CKCONV_F64 && !k->full && p->filter[1] == f && p->stride[1] == stride &&
               (f == 3 || f == 5 || (f == 7 && stride == 1)) && stride <= 2 && p->filter[0] == 1 &&
               p->pad[0] == 0 && p->dilation[1] == 1 && p->dilation[2] == 1;
    fits = fits && (weight || (k->o.t.dtype == k->a.dtype && ckci_depth_sheet_acts(device, &k->o)));
    fits = fits && ckci_depth_dense_planes(read) && ckci_depth_dense_planes(written) && p->g > 1;
    /* on an H100 bwd_weight that walks was faster where rows are aligned (f16 3 x 3 of 56: 130 us, here 148);
       so were all passes of 7 x 7 of many rows (f16 fwd of 64 x 64: 132, of 61 x 61 here 171; but 16 x 16:
       176, of 13 x 13 here 159) */
    fits = fits && !((weight || f == 7) && k->a_vec && k->o_vec && !(f == 7 && p->output[1] < 24) &&
                     ckci_depth_walks(k, device, weight, CKCI_DEPTH_ROWS));
    /* windows end near their row: what they read past it is in LDS, too */
    for (int i = 1; i < 3; i++) {
        fits = fits && (p->output[i] - 1) * stride - p->pad[i] < p->input[i];
    }
    if (!fits) {
        return -1;
    }
    memset(s, 0, sizeof *s);
    s->acts = !weight && k->o.residual != CKCI_RESIDUAL_ANY;
    int back_2 = back && stride == 2;
    for (int i = 0; i < 2; i++) {
        s->in[i] = (int32_t)read->len[4 + i];
        s->out[i] = (int32_t)written->len[4 + i];
        s->pad[i] = (int32_t)(back && stride == 1 ? f - 1 - p->pad[1 + i] : p->pad[1 + i]);
        fits = fits && s->pad[i] >= 0 && s->pad[i] < f && s->pad[i] <= 4 && s->in[i] > 0 && s->out[i] > 0;
    }
    int64_t columns = CKCI_DEPTH_SHEET_COLUMNS(size, stride, back_2, weight), pad_x = s->pad[1];
    /* of the gradient of stride 2: both phases */
    int64_t wide = back_2 ? (s->out[1] - 1 + pad_x) / 2 - pad_x / 2 + 1 : ckci_ceil_div(s->out[1], columns);
    int64_t planes = ckci_saturating_mul(p->g, weight ? 1 : p->n);
    if (!fits || planes > INT32_MAX / 2 || planes == 0 || (weight && wide > CKCI_DEPTH_SHEET_THREADS) ||
        p->n == 0) {
        return -1;
    }
    s->planes = (int32_t)planes;
    uintptr_t bits = (uintptr_t)read->p | (uintptr_t)written->p;
    s->slack = (bits | (uintptr_t)(s->in[1] * size) | (uintptr_t)(s->out[1] * size)) % 16 == 0 ? 0 : 32;
    if (device->kind == CKCONV_DEVICE_AMD) {
        s->slack = -1;
        for (int i = 0; i < 2; i++) {
            wide = ckci_depth_sheet_wide(wide, ckci_depth_sheet_step(size, stride, back_2, weight, i));
        }
    }
    s->by_wide = ckci_make_divisor(wide);
    if (!ckci_depth_sheet_bands(s, device, size, f, stride, back_2, weight, wide, weight ? p->n : 1)) {
        return -1;
    }
    s->bands = (int32_t)ckci_ceil_div(s->out[0], s->high); /* the last ones may be none */
    s->pairs = stride == 1 && s->in[1] % 2 == 0 && s->out[1] % 2 == 0 && s->pad[1] % 2 == (f - 1) / 2 % 2 &&
               (s->slack < 0 || bits % (uintptr_t)(2 * size) == 0);
    s->by_bands = ckci_make_divisor(s->bands);
    s->by_g = ckci_make_divisor(p->g);
    int64_t apart = weight && p->n > 1 ? p->g : 0; /* images begin anywhere */
    s->by_a = ckci_depth_sheet_pieces(s, s->in, s->a_room, size, apart, bits);
    s->by_o = ckci_depth_sheet_pieces(s, s->out, s->o_room, size, apart, bits);
    if (f == 7) {
        return weight ? CKCI_DEPTH_WEIGHT_SHEET_7 : CKCI_DEPTH_SHEET_7;
    }
    static const int32_t sheets[2][5] = {
        {CKCI_DEPTH_SHEET_3, CKCI_DEPTH_SHEET_3_SECOND, CKCI_DEPTH_SHEET_3_BACK, CKCI_DEPTH_WEIGHT_SHEET_3,
         CKCI_DEPTH_WEIGHT_SHEET_3_SECOND},
        {CKCI_DEPTH_SHEET_5, CKCI_DEPTH_SHEET_5_SECOND, CKCI_DEPTH_SHEET_5_BACK, CKCI_DEPTH_WEIGHT_SHEET_5,
         CKCI_DEPTH_WEIGHT_SHEET_5_SECOND}};
    return sheets[f == 5][weight ? 2 + stride : stride == 1 ? 0 : 1 + back];
}
