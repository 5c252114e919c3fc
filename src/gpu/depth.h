/*------------------------------------------------------------------------------------------------------------
  >>gpu-depth
  Depthwise (>>k-depth-common). One plan for all layouts and types: the kernel follows from where neighbours
  lie in memory, the type, the filter and the alignment. It also chooses how long a block walks, how lanes
  share channels and positions, and how bwd_weight is cut into parts. Few channels per group are planned as
  several such launches, each of which owns its output channels.
*/
#pragma once
#include "gpu/conv.h"

CKCI_FN void ckci_exchange_yx(ckci_tensor *t)
{
    int64_t len = t->len[4], stride = t->stride[4];
    t->len[4] = t->len[5];
    t->stride[4] = t->stride[5];
    t->len[5] = len;
    t->stride[5] = stride;
}

CKCI_FN void ckci_exchange_target(ckci_gpu_target *o)
{
    ckci_exchange_yx(&o->t);
    for (int32_t j = 0; j < o->num_d; j++) {
        int64_t stride = o->d[j].stride[4];
        o->d[j].stride[4] = o->d[j].stride[5];
        o->d[j].stride[5] = stride;
    }
}

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

/* Few channels per group are depthwise convolutions as well, one launch each: an output channel (fwd) or an
   input channel (bwd_data), with a sum over those that are read, or a pair of them (bwd_weight). */
CKCI_FN int64_t ckci_depth_launches(const ckci_conv *p)
{
    return (p->op == CKCONV_BWD_DATA ? 1 : p->k) * (p->op == CKCONV_FWD ? 1 : p->c);
}

CKCI_FN void ckci_select_channel(ckci_tensor *t, int axis, int64_t at)
{
    t->p =
        (unsigned char *)((uintptr_t)t->p + (uintptr_t)(at * t->stride[axis] * (int64_t)ckci_size(t->dtype)));
    t->len[axis] = 1;
}

/* Launch i of them. */
CKCI_FN ckci_conv ckci_depth_part(const ckci_conv *p, int64_t i)
{
    ckci_conv one = *p;
    int64_t k = p->op == CKCONV_BWD_WEIGHT ? i / p->c : i, c = p->op == CKCONV_BWD_WEIGHT ? i % p->c : i;
    if (p->op != CKCONV_BWD_DATA) {
        ckci_select_channel(&one.t[CKCI_OUT], 2, k);
        ckci_select_channel(&one.t[CKCI_WEI], 1, k);
        one.k = 1;
    }
    if (p->op != CKCONV_FWD) {
        ckci_select_channel(&one.t[CKCI_IN], 2, c);
        ckci_select_channel(&one.t[CKCI_WEI], 2, c);
        one.c = 1;
    }
    for (int j = 0; j < p->num_d; j++) {
        if (p->op != CKCONV_BWD_DATA) {
            ckci_select_channel(&one.d[j], p->op == CKCONV_FWD ? 2 : 1, k);
        }
        if (p->op != CKCONV_FWD) {
            ckci_select_channel(&one.d[j], 2, c);
        }
    }
    return one;
}

/* Do others lie between the channels of t, as with several per group channels last? */
CKCI_FN int ckci_depth_apart(const ckci_tensor *t)
{
    return t->len[0] > 1 && t->stride[0] > 1 && t->stride[0] < t->stride[5];
}

/* What all depthwise plans share. *vec: channels of a load; *planes: lanes are positions. */
CKCI_FN ckconv_status ckci_depth_start(const ckci_conv *p, ckci_gpu_depth *k, int32_t *vec, int32_t *planes,
                                       ckconv_error *err)
{
    int weight = p->op == CKCONV_BWD_WEIGHT, back = p->op == CKCONV_BWD_DATA;
    memset(k, 0, sizeof *k);
    CKCI_TRY(ckci_gpu_takes(p, err));
    k->a = p->t[p->op == CKCONV_FWD ? CKCI_IN : CKCI_OUT];
    k->b = p->t[weight ? CKCI_IN : CKCI_WEI];
    ckci_set_target(p, &k->o);
    ckconv_dtype type = k->a.dtype;
    int fits =
        k->a.plain && (type == CKCONV_F64 || type == CKCONV_F32 || type == CKCONV_F16 || type == CKCONV_BF16);
    if (!fits || (weight && (!k->b.plain || k->b.dtype != type))) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "depthwise reads f64, f32, f16 and bf16 tensors without an operation; here %s",
                         ckconv_dtype_name(type));
    }
    k->red = weight ? 1 : (int32_t)(back ? p->k : p->c);
    k->a_red = k->a.stride[2] * (int64_t)ckci_size(type);
    k->b_red = k->b.stride[back ? 1 : 2];
    k->phases = 1;
    for (int i = 0; i < 3; i++) {
        k->dim[i] = ckci_make_gpu_dim(p, i);
        k->phases *= k->dim[i].phases;
    }
    int rows = k->red == 1 && k->a.stride[5] == 1 && (!weight || k->b.stride[5] == 1) && type != CKCONV_F64 &&
               k->phases == 1 && p->stride[2] == 1 && p->dilation[2] == 1;
    int several = (back ? p->input[1] / p->stride[1] : p->output[1]) > 2;
    /* whole pieces of 4: those of the window, those that are written (dout for bwd_weight) */
    k->a_vec = ckci_vector_loads(weight ? &k->b : &k->a, 5, k->dim[2].read_len);
    k->o_vec = weight ? ckci_vector_loads(&k->a, 5, k->dim[2].length)
                      : k->o.t.dtype == type && ckci_vector_loads(&k->o.t, 5, k->dim[2].length);
    k->bf16 = type == CKCONV_BF16;
    k->full = !ckci_depth_common(k, weight);
    k->g = (int32_t)p->g;
    k->n = (int32_t)p->n;
    k->taps = (int32_t)(p->filter[0] * p->filter[1] * p->filter[2]);
    rows = rows && (weight || !k->full) && (weight || !several || (k->a_vec && k->o_vec));
    /* strips run along y in planes: not where there is only one row */
    int last = !CKCI_HAS_CHANNELS_FIRST || (k->a.stride[5] >= k->a.stride[0] && (p->g > 1 || !rows));
    *planes = last ? CKCI_DEPTH_LAST : rows ? CKCI_DEPTH_ROWS : several ? CKCI_DEPTH_PLANES : CKCI_DEPTH_LAST;
    k->planes = *planes == CKCI_DEPTH_PLANES;
    *vec = *planes == CKCI_DEPTH_LAST && type != CKCONV_F64 &&
                   (weight || (!k->full && k->red == 1 && !ckci_depth_apart(&k->o.t))) &&
                   ckci_depth_vector(&k->a, 4) && (!weight || ckci_depth_vector(&k->b, 4))
               ? 4
               : 1;
    if (*planes == CKCI_DEPTH_PLANES) {
        ckci_gpu_dim y = k->dim[1];
        k->dim[1] = k->dim[2];
        k->dim[2] = y;
        ckci_exchange_yx(&k->a);
        ckci_exchange_yx(&k->b);
        ckci_exchange_target(&k->o);
    }
    int64_t apart = ckci_max(k->a.stride[5], weight ? k->b.stride[5] : 1);
    int64_t reach =
        ckci_saturating_mul(256, ckci_saturating_mul(ckci_max(k->dim[2].dilation, k->dim[2].stride), apart));
    if (reach > INT32_MAX) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "depthwise takes windows of 2^31 bytes; here they reach over %lld", CKCI_LL(reach));
    }
    k->strips = (int32_t)ckci_ceil_div(k->dim[2].count[0].d, 8);
    return CKCONV_OK;
}

/* Columns of so many rows, and so many rounds of `lanes` columns for a block, that all compute units are done
   soon; two blocks at a time on each, `tiles` of them side by side for one round of columns. extra: what a
   block costs besides, in rows. */
CKCI_FN void ckci_depth_columns(ckci_gpu_depth *k, const ckconv_device *device, int32_t strip, int64_t tiles,
                                int64_t extra, int64_t *all)
{
    int64_t rows = k->dim[1].length, best = INT64_MAX, lanes = k->lanes_p;
    int64_t at_once = 2 * (int64_t)ckci_max(device->compute_units, 1), rounds = 1;
    k->strips = (int32_t)ckci_ceil_div(k->dim[2].length, strip);
    int64_t columns = (int64_t)k->n * k->dim[0].length * k->strips;
    for (int64_t pieces = 1; pieces <= ckci_max(ckci_min(rows / 4, 16), 1); pieces++) {
        int64_t walk = ckci_ceil_div(rows, pieces);
        int64_t parts = ckci_ceil_div(columns * ckci_ceil_div(rows, walk), lanes);
        /* those that fill all units once to four times; gather has one round */
        for (int64_t waves = 1; waves <= (extra ? 4 : 1); waves++) {
            int64_t some = extra ? ckci_ceil_div(ckci_saturating_mul(parts, tiles), waves * at_once) : 1;
            some = ckci_max(some, 1); /* an empty batch */
            int64_t blocks = ckci_saturating_mul(ckci_ceil_div(parts, some), tiles);
            /* up to two waves of blocks take as long as full ones; at the end, half a block's time is lost */
            int64_t full = ckci_ceil_div(blocks, at_once) * at_once, one = walk + k->dim[1].filter;
            int64_t time = ckci_saturating_mul(2 * (blocks > 2 * at_once ? blocks : full) + at_once, one + 7);
            if (extra) {
                time = ckci_saturating_mul(full, some * (one + 3) + 2 + extra);
            }
            if (time < best) {
                best = time;
                k->walk = (int32_t)walk;
                rounds = some;
            }
        }
    }
    k->tiles_x = (int32_t)ckci_ceil_div(rows, k->walk);
    k->part = (int32_t)(rounds * lanes);
    *all = columns * k->tiles_x;
}

/* Columns of those with two rows of inputs in registers. Short ones of stride 1 find the rows that they share
   with the next one in the caches (H100, f32, 56 x 56: 8 rows 183 us, 28 rows 197). All columns. */
CKCI_FN int64_t ckci_depth_short_columns(ckci_gpu_depth *k, int32_t strip)
{
    int32_t rows = k->dim[1].length, most = k->dim[1].stride == 1 ? 8 : 20;
    k->strips = (int32_t)ckci_ceil_div(k->dim[2].length, strip);
    k->walk = (int32_t)ckci_max(ckci_ceil_div(rows, ckci_ceil_div(rows, most)), 1);
    k->tiles_x = (int32_t)ckci_ceil_div(rows, k->walk);
    return (int64_t)k->n * k->dim[0].length * k->strips * k->tiles_x;
}

/* Which kernel: how taps lie, planes. vec: 4 or 1 channels of a load; those of single ones take both. */
CKCI_FN int32_t ckci_depth_kernel(const ckci_gpu_depth *k, int32_t down, int deep, int32_t columns,
                                  int32_t walks, int32_t weight, int32_t vec, int32_t planes)
{
    const ckci_gpu_dim *d = &k->dim[2];
    int32_t tap = d->read_tap < 0 ? -d->read_tap : d->read_tap;
    if (deep) {
        return weight ? CKCI_DEPTH_WEIGHT_DEEP : CKCI_DEPTH_DEEP;
    }
    if (down) {
        return (weight ? CKCI_DEPTH_WEIGHT_DOWN : CKCI_DEPTH_DOWN) + (down - 3) / 2;
    }
    if (columns) {
        return d->stride == 1 ? CKCI_DEPTH_COLUMN : CKCI_DEPTH_COLUMN_SECOND;
    }
    if (walks && weight) {
        return walks == 7   ? (planes ? CKCI_DEPTH_WEIGHT_PLANE_WALK_7 : CKCI_DEPTH_WEIGHT_WALK_7)
               : walks == 5 ? CKCI_DEPTH_WEIGHT_PLANE_WALK_5
                            : (planes ? CKCI_DEPTH_WEIGHT_PLANE_WALK_3 : CKCI_DEPTH_WEIGHT_WALK_3);
    }
    if (walks) {
        return walks == 3   ? CKCI_DEPTH_PLANE_WALK_3
               : walks == 5 ? CKCI_DEPTH_PLANE_WALK_5
                            : CKCI_DEPTH_PLANE_WALK_7;
    }
    if (planes == CKCI_DEPTH_ROWS) {
        return weight ? CKCI_DEPTH_WEIGHT_ROW : CKCI_DEPTH_ROW;
    }
    const int beside = tap == 1 && d->read_step == 1, second = tap == 1 && d->read_step == 2;
    const int narrow = k->a.dtype == CKCONV_F32;
    if (weight) { /* two channels would be few with five taps */
        const int three = second && d->filter == 3 && k->dim[1].filter % 3 == 0;
        return vec == 1                   ? CKCI_DEPTH_WEIGHT_1_ANY
               : beside                   ? CKCI_DEPTH_WEIGHT_4_NEAR
               : three                    ? CKCI_DEPTH_WEIGHT_2_SECOND
               : second && d->filter >= 3 ? CKCI_DEPTH_WEIGHT_4_SECOND
               : narrow                   ? CKCI_DEPTH_WEIGHT_1_ANY
                                          : CKCI_DEPTH_WEIGHT_4_ANY;
    }
    if (k->full || (narrow && !beside && (vec == 1 || !second))) {
        return CKCI_DEPTH_1_ANY;
    }
    return vec == 1 ? (beside   ? CKCI_DEPTH_1_NEAR
                       : second ? CKCI_DEPTH_1_SECOND
                                : CKCI_DEPTH_1_ANY)
                    : (beside   ? CKCI_DEPTH_4_NEAR
                       : second ? CKCI_DEPTH_4_SECOND
                                : CKCI_DEPTH_4_ANY);
}

CKCI_FN void ckci_depth_set(const ckci_gpu_depth *k, int32_t weight, int32_t which, ckci_launch *l)
{
    int32_t first = k->a.dtype == CKCONV_F32 ? CKCI_KERNEL_depth_f32_down_3 : CKCI_KERNEL_depth_half_down_3;
    ckci_set_kernel(l, k->a.dtype != CKCONV_F64 ? first + which
                       : weight                 ? CKCI_KERNEL_depth_weight_f64
                                                : CKCI_KERNEL_depth_f64);
}

/* Lanes for `vectors` of channels, `bytes` each: whole multiples of 64 bytes or all there are, which waste
   few threads, and whose weights fit LDS: `most` lanes with all taps, `limit` with one row of taps. Short
   filters take as many as fit; with longer ones (`few`) neighbouring windows should be in one block. */
CKCI_FN int32_t ckci_depth_lanes(int64_t vectors, int64_t bytes, int64_t most, int64_t limit, int64_t units,
                                 int few)
{
    double best = 0;
    int32_t lanes = 1;
    int64_t last = ckci_min(ckci_min(256, vectors), limit);
    for (int64_t j = 1; j <= last; j++) {
        int64_t i = few ? j : last + 1 - j, u = ckci_min(units, 256 / i), all = i * bytes;
        int64_t tiles = ckci_ceil_div(vectors, i) * ckci_ceil_div(units, u);
        double used = (double)(vectors * units) / (double)(tiles * i * u);
        used *= (double)(256 / (i * u) * i * u) / 256;
        used *= i > most ? 0.7 * (double)(limit / i) / (double)(limit / i + 1) : 1;
        used *= i == vectors             ? 1
                : all < 64               ? 0.7 * (double)all / 64
                : all % 64 != 0          ? 0.7
                : all < (few ? 64 : 256) ? 0.9
                                         : 1;
        used *= u < units ? 0.8 : 1;
        if (used > best * 1.02) {
            best = used;
            lanes = (int32_t)i;
        }
    }
    return lanes;
}

/* Bytes of a copy into LDS of lanes_c words of channels. */
CKCI_FN int32_t ckci_depth_copies(const ckci_gpu_depth *k, int32_t weight)
{
    int32_t size = (int32_t)ckci_size(k->a.dtype), bytes = 16;
    for (; bytes > size; bytes /= 2) {
        int64_t vec = bytes / size;
        if (k->lanes_c * 4 % bytes == 0 && ckci_depth_vector(&k->a, vec) &&
            (!weight || ckci_depth_vector(&k->b, vec))) {
            break;
        }
    }
    return bytes;
}

/* Strips that a block of those that take rows through LDS has side by side, and the positions of their rows.
   0: with so many channels not even one fits. */
CKCI_FN int32_t ckci_depth_down_side(const ckci_gpu_depth *k, int32_t strip, int32_t weight, int32_t room,
                                     int32_t *positions)
{
    int32_t f = k->dim[1].filter, strips = (int32_t)ckci_ceil_div(k->dim[2].length, strip);
    int32_t side = 256 / k->lanes_c;
    for (; side > 0; side--) {
        /* rows that the strips of a block pass through, but the first */
        int32_t over = strips % side == 0   ? 0
                       : side % strips == 0 ? side / strips - 1
                                            : (side - 2) / strips + 1;
        *positions = side * strip + (over + 1) * (f - 1) + (weight ? strips * strip - k->dim[2].length : 0);
        if (*positions <= CKCI_DEPTH_DOWN_POSITIONS && *positions * k->lanes_c * 4 <= room) {
            break;
        }
    }
    return side;
}

/* Outputs of a strip. Short ones take .7 of the time (H100; elsewhere for want of measurements) and leave
   fewer threads without a strip. */
CKCI_FN int32_t ckci_depth_down_strip(const ckci_gpu_depth *k, int32_t weight, int32_t room)
{
    int32_t f = k->dim[1].filter, size = (int32_t)ckci_size(k->a.dtype), few = CKCI_DEPTH_DOWN_SHORT;
    int32_t strip = CKCI_DEPTH_DOWN_STRIP(size, f, weight), positions;
    if (weight || size != 2 || f != 5) {
        return strip;
    }
    double turns = (double)ckci_ceil_div(k->dim[2].length, strip) /
                   ckci_depth_down_side(k, strip, weight, room, &positions),
           more = (double)ckci_ceil_div(k->dim[2].length, few) /
                  ckci_depth_down_side(k, few, weight, room, &positions);
    return .7 * more < turns ? few : strip;
}

/* Columns of those that take rows through LDS. Returns the outputs of a strip. */
CKCI_FN int32_t ckci_depth_down_columns(ckci_gpu_depth *k, const ckconv_device *device, int32_t weight)
{
    int32_t f = k->dim[1].filter, size = (int32_t)ckci_size(k->a.dtype), positions = 0;
    int64_t words = ckci_ceil_div(k->g, 4 / size);
    /* LDS: weights of fwd and bwd_data, where one strip of a row fits in any case; one of bwd_weight may not,
       as the last ones end past their rows */
    const int free = device->kind != CKCONV_DEVICE_NVIDIA && !weight && CKCI_DEPTH_DOWN_FREE(size, f);
    int32_t lanes = free || (weight && size == 2) ? 128 : CKCI_DEPTH_DOWN_LANES(f), strip = 0;
    const int32_t room = free ? CKCI_DEPTH_DOWN_MORE : CKCI_DEPTH_DOWN_BYTES;
    for (k->lanes_p = 0; k->lanes_p == 0; lanes /= 2) {
        k->lanes_c = ckci_depth_lanes(words, 4, 256, lanes, 1, 0);
        strip = ckci_depth_down_strip(k, weight, room);
        k->lanes_p = ckci_depth_down_side(k, strip, weight, room, &positions);
    }
    k->tiles_c = (int32_t)ckci_ceil_div(words, k->lanes_c);
    k->a_vec = ckci_depth_copies(k, weight);
    k->strips = (int32_t)ckci_ceil_div(k->dim[2].length, strip);
    k->pitch = k->strips * strip + f - 1;
    k->by_pieces = ckci_make_divisor(k->lanes_c * 4 / k->a_vec); /* of a position */
    k->pieces = positions * (k->lanes_c * 4 / k->a_vec);
    k->by_pitch = ckci_make_divisor(k->pitch);
    k->all =
        (int32_t)ckci_ceil_div((int64_t)k->n * k->dim[0].length * k->strips, k->lanes_p) * k->dim[1].length;
    return strip;
}

/* Rows of a block: those that run at once own equally many, or `split` share them. The result counts the
   blocks of lanes_c words of channels. */
CKCI_FN int64_t ckci_depth_down_share(ckci_gpu_depth *k, const ckconv_device *device, int64_t split)
{
    int64_t at_once = 2 * (int64_t)ckci_max(device->compute_units, 1);
    split = split ? split : ckci_min(ckci_max(at_once / k->tiles_c, 1), ckci_max(k->all / 4, 1));
    k->walk = (int32_t)ckci_max(ckci_ceil_div(k->all, split), 1);
    return ckci_ceil_div(k->all, k->walk);
}

/* Tiles of those that take planes through LDS, and pieces of planes. A step of a thread costs about 540
   instructions and six for each copy. */
CKCI_FN void ckci_depth_deep_tiles(ckci_gpu_depth *k, const ckconv_device *device, int32_t weight)
{
    int32_t size = (int32_t)ckci_size(k->a.dtype), strip = CKCI_DEPTH_DEEP_STRIP(size, weight);
    int64_t words = ckci_ceil_div(k->g, 4 / size), best = INT64_MAX;
    const int amd = device->kind != CKCONV_DEVICE_NVIDIA, lines = k->a.stride[5] * size % 64 == 0;
    int64_t lanes = CKCI_DEPTH_DEEP_LANES, room = amd ? CKCI_DEPTH_DEEP_ALONE(size) : CKCI_DEPTH_DEEP_BYTES;
    if (amd && !lines) {
        /* lines do not end with a position: blocks share few of them if they have all channels of many */
        lanes = CKCI_DEPTH_DEEP_MOST(size);
    }
    k->tiles_c = (int32_t)ckci_ceil_div(words, lanes);
    k->lanes_c = (int32_t)ckci_ceil_div(ckci_ceil_div(words, k->tiles_c), 4) * 4;
    k->lanes_c = amd && k->tiles_c == 1 ? (int32_t)words : k->lanes_c;
    k->a_vec = ckci_depth_copies(k, weight);
    int32_t slots = 256 / k->lanes_c;
    for (int32_t strips = 1; strips <= slots; strips++) {
        for (int32_t rows = 1; rows <= slots / strips; rows++) {
            int32_t positions = (rows + 2) * (strips * strip + 2);
            int64_t tiles = ckci_ceil_div(k->dim[1].length, rows) *
                            ckci_ceil_div(k->dim[2].length, (int64_t)strips * strip);
            int64_t time = tiles * (540 + positions * k->lanes_c * 4 / k->a_vec / 256 * 6);
            if (positions <= CKCI_DEPTH_DOWN_POSITIONS && positions * k->lanes_c * 4 <= room && time < best) {
                best = time;
                k->tile_y = rows;
                k->strips = strips;
            }
        }
    }
    k->lanes_p = k->tile_y * k->strips;
    k->pitch = k->strips * strip + 2;
    k->by_pitch = ckci_make_divisor(k->pitch);
    k->by_wide = ckci_make_divisor((int64_t)k->strips * strip);
    k->by_pieces = ckci_make_divisor(k->lanes_c * 4 / k->a_vec); /* of a position */
    k->pieces = (k->tile_y + 2) * k->pitch * (k->lanes_c * 4 / k->a_vec);
    k->tiles_y = (int32_t)ckci_ceil_div(k->dim[1].length, k->tile_y);
    k->tiles_x = (int32_t)ckci_ceil_div(k->dim[2].length, (int64_t)k->strips * strip);
    int64_t columns = (int64_t)k->n * k->tiles_y * k->tiles_x, planes = k->dim[0].length;
    int64_t at_once = 2 * (int64_t)ckci_max(device->compute_units, 1);
    best = INT64_MAX;
    for (int64_t pieces = 1; pieces <= ckci_max(ckci_min(planes / 4, 16), 1); pieces++) {
        int64_t walk = ckci_ceil_div(planes, pieces), all = columns * ckci_ceil_div(planes, walk);
        int64_t blocks = ckci_saturating_mul(all, k->tiles_c);
        /* up to two waves of blocks take as long as full ones; at the end, half a block's time is lost */
        int64_t full = ckci_ceil_div(blocks, at_once) * at_once;
        int64_t time =
            ckci_saturating_mul(2 * (blocks > 2 * at_once && !weight ? blocks : full) + at_once, walk + 3);
        if (time < best) {
            best = time;
            k->walk = (int32_t)ckci_max(walk, 1);
            k->all = (int32_t)all;
        }
    }
    k->tiles_z = (int32_t)ckci_ceil_div(planes, k->walk);
    k->by_tiles_y = ckci_make_divisor(k->tiles_y);
    k->by_tiles_z = ckci_make_divisor(k->tiles_z);
}

/* AMD: which threads of those that take rows or planes through LDS have which channels
   (kernels/depth, ckci_k_depth_slot): a strip has whole multiples of 32, with some that have none,
   or as many as fit, and the rest follows. */
CKCI_FN void ckci_depth_stretches(ckci_gpu_depth *k)
{
    int32_t whole = k->lanes_c / 32 * 32, rest = k->lanes_c - whole, padded = rest > 0 ? whole + 32 : whole;
    if (k->lanes_p * padded <= 256) {
        whole = padded;
        rest = 0;
    } else if (whole == 0) {
        whole = rest;
        rest = 0;
    }
    k->whole = rest > 0 ? whole * k->lanes_p : 256;
    k->by_whole = ckci_make_divisor(whole);
    k->by_rest = ckci_make_divisor(ckci_max(rest, 1));
}

/* Memory and arithmetic together: the time of ten multiply-adds for a byte, of whole sectors. */
CKCI_FN double ckci_depth_cost(const ckci_conv *p, const ckconv_device *device, double rate)
{
    double products = (double)ckci_count(&p->t[CKCI_OUT]) * (double)p->c, bytes = 0;
    for (int i = 0; i < 3; i++) {
        products *= (double)p->filter[i];
        double size = (double)ckci_size(p->t[i].dtype);
        double apart = ckci_depth_apart(&p->t[i]) ? (double)p->t[i].stride[0] / (double)p->t[i].len[2] : 1;
        bytes += (double)ckci_count(&p->t[i]) * (apart * size < 32 ? apart * size : 32);
    }
    const ckci_rates rates = ckci_device_rates(device, 0);
    const double fma = device->kind == CKCONV_DEVICE_AMD ? rates.fma / CKCI_FMA_REAL : rates.fma;
    const double work = (products * rate * fma + bytes * 10 * rates.bytes) / ckci_units(device);
    return (work / 16 + 500 * rates.launch) / CKCI_FMA_NS;
}

CKCI_FN void ckci_depth_divisors(ckci_gpu_depth *k)
{
    k->by_lanes_c = ckci_make_divisor(k->lanes_c);
    k->by_lanes_u = ckci_make_divisor(k->lanes_u);
    k->by_phases = ckci_make_divisor(k->phases);
    k->by_tiles_c = ckci_make_divisor(k->tiles_c);
    k->by_tiles_x = ckci_make_divisor(k->tiles_x);
    k->by_tiles_u = ckci_make_divisor(k->tiles_u);
    k->by_strips = ckci_make_divisor(k->strips);
    k->by_groups_x = ckci_make_divisor(k->groups_x);
}

/* All strips, and lanes along x for planes. */
CKCI_FN ckconv_status ckci_depth_strips(ckci_gpu_depth *k, int32_t planes, int64_t *all, ckconv_error *err)
{
    int64_t wide = k->dim[1].count[0].d;
    int lanes = planes == CKCI_DEPTH_PLANES;
    k->tiles_x = (int32_t)(lanes ? ckci_ceil_div(wide, 256) : 1);
    k->lanes_c = (int32_t)(lanes ? ckci_max(ckci_ceil_div(wide, k->tiles_x), 1) : 1);
    *all = ckci_saturating_mul(ckci_saturating_mul(k->n, k->dim[0].count[0].d),
                               ckci_saturating_mul(lanes ? k->tiles_x : wide, k->strips));
    return *all <= INT32_MAX / 4
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                           "depthwise takes 2^29 strips of 8 positions; here %lld", CKCI_LL(*all));
}

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
   and, on NVIDIA, like it in its 16 bytes? *acts: it does something. */
CKCI_FN int ckci_depth_sheet_acts(const ckconv_device *device, const ckci_gpu_depth *k, int32_t *acts)
{
    const ckci_gpu_target *o = &k->o;
    *acts = o->form != CKCI_FORM_STORE;
    if (!*acts) {
        return o->num_d == 0;
    }
    return o->residual == 0 || o->residual == CKCI_RESIDUAL_FACTORS ||
           (o->residual > 0 &&
            (device->kind == CKCONV_DEVICE_AMD ||
             ((uintptr_t)o->d[o->residual - 1].p - (uintptr_t)o->t.p) % 16 == 0));
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
    int32_t acts = 0;
    fits = fits && (weight || (k->o.t.dtype == k->a.dtype && ckci_depth_sheet_acts(device, k, &acts)));
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
    s->acts = acts;
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

/* Undoes what ckci_depth_start does for planes: sheets have y before x. */
CKCI_FN void ckci_depth_as_written(const ckci_conv *p, ckci_gpu_depth *k)
{
    if (k->planes) {
        ckci_exchange_yx(&k->a);
        ckci_exchange_yx(&k->b);
        ckci_exchange_target(&k->o);
        k->dim[1] = ckci_make_gpu_dim(p, 1);
        k->dim[2] = ckci_make_gpu_dim(p, 2);
    }
}

/* D tensors that lie as the output are of its type, so that they are loaded as it is stored. */
CKCI_FN int ckci_depth_adds(const ckci_gpu_depth *k)
{
    int same = k->o.form != CKCI_FORM_SINGLE;
    for (int32_t j = 0; j < k->o.adds; j++) {
        same = same && (k->o.d[j].line == CKCI_LINE_CHANNELS || k->o.d[j].dtype == k->o.t.dtype);
    }
    return same;
}

/* Results in the type of what is read, in any form but SINGLE, and several together. */
CKCI_FN void ckci_depth_stores(ckci_gpu_depth *k, int32_t vec, int32_t planes)
{
    int together = planes == CKCI_DEPTH_ROWS ? k->o_vec : vec == 1 || ckci_depth_vector(&k->o.t, vec);
    k->o_same = k->o.t.dtype == k->a.dtype && ckci_depth_adds(k) && (vec == 1 || k->o.t.stride[0] == 1);
    k->o_vec = k->o_same && together;
}

CKCI_FN ckconv_status ckci_depth_gather(const ckci_conv *p, const ckconv_device *device, ckci_launch *l,
                                        double *cost, ckconv_error *err)
{
    ckci_gpu_depth *k = &l->a.depth;
    int32_t vec, planes;
    int64_t all, size = p->t[p->op == CKCONV_BWD_DATA ? CKCI_OUT : CKCI_IN].dtype == CKCONV_F64 ? 8 : 4;
    CKCI_TRY(ckci_depth_start(p, k, &vec, &planes, err));
    int single = k->red > 1 || (planes == CKCI_DEPTH_LAST && ckci_depth_apart(&k->o.t));
    int32_t sheet = planes == CKCI_DEPTH_LAST || k->red > 1 ? -1 : ckci_depth_sheets(p, device, k);
    if (sheet >= 0) {
        ckci_depth_as_written(p, k);
        ckci_depth_set(k, 0, sheet, l);
        l->grid = ckci_saturating_mul(ckci_ceil_div(k->sheet.planes, k->sheet.count), k->sheet.bands);
        *cost = ckci_depth_cost(p, device, 1);
        return ckci_too_many_blocks(l->grid, err);
    }
    CKCI_TRY(ckci_depth_strips(k, planes, &all, err));
    int64_t room = 16384 / size, row = k->dim[2].filter;
    if (row + 6 > room) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "depthwise takes %lld taps of a row; here %lld",
                         CKCI_LL(room - 6), CKCI_LL(row));
    }
    int32_t down = single ? 0 : ckci_depth_downs(k, device, 0, planes), half = k->a.dtype != CKCONV_F32;
    int deep = !single && ckci_depth_deeps(k, device, 0, planes), through = down || deep;
    int columns = !through && ckci_depth_takes_columns(k, vec, planes);
    int32_t walks = through || columns || single ? 0 : ckci_depth_walks(k, device, 0, planes);
    int32_t which = ckci_depth_kernel(k, down, deep, columns, walks, 0, vec, planes);
    vec = which == CKCI_DEPTH_1_ANY ? 1 : vec;
    if (columns) {
        vec = half ? 4 : 2;
    }
    if (walks) {
        k->a_vec = ckci_depth_pieces(&k->a, planes, vec, k->a_vec);
    }
    if (through) {
        vec = half ? 2 : 1;
    } else if (!planes) {
        const int numbers = columns && k->o.residual != CKCI_RESIDUAL_ANY; /* two a channel, behind weights */
        int64_t most = room / (((int64_t)k->taps * k->red + 2 * numbers) * vec);
        k->lanes_c = ckci_depth_lanes(ckci_ceil_div(p->g, vec), vec * (int64_t)ckci_size(k->a.dtype), most,
                                      columns ? most : room / (row * vec), 1, k->dim[2].filter >= 5);
    }
    k->lanes_u = k->tiles_u = k->groups_x = 1;
    k->row_taps = (int32_t)(row + 6) / 4 * 4;
    if (deep) {
        ckci_depth_deep_tiles(k, device, 0);
        all = k->all;
    } else if (down) {
        const int32_t strip = ckci_depth_down_columns(k, device, 0);
        which = strip == CKCI_DEPTH_DOWN_SHORT ? +CKCI_DEPTH_DOWN_5_SHORT : which;
        all = ckci_depth_down_share(k, device, 0);
    } else {
        k->lanes_p = 256 / k->lanes_c;
        k->tiles_c = (int32_t)(planes ? p->g : ckci_ceil_div(p->g, (int64_t)k->lanes_c * vec));
    }
    if (walks) {
        ckci_depth_columns(k, device, walks != 7 ? 8 : 4, k->tiles_c, 0, &all);
    }
    if (columns) {
        all = ckci_depth_short_columns(k, half ? 3 : 4);
    }
    int rowwise = planes == CKCI_DEPTH_ROWS && !walks;
    k->rows = (int32_t)(room / (rowwise ? k->row_taps : planes ? row : row * k->lanes_c * vec));
    /* sixteen blocks for each compute unit, each with whole rounds of strips */
    int64_t want = ckci_ceil_div(16 * (int64_t)ckci_max(device->compute_units, 1),
                                 ckci_saturating_mul(k->tiles_c, k->phases));
    int64_t part = ckci_ceil_div(ckci_ceil_div(all, want), k->lanes_p) * k->lanes_p;
    k->part = through ? 1 : walks || columns ? k->lanes_p : (int32_t)ckci_max(part, 1);
    k->parts = (int32_t)ckci_ceil_div(all, k->part);
    ckci_depth_divisors(k);
    ckci_depth_stretches(k);
    k->by_channels = ckci_make_divisor(rowwise ? k->row_taps : k->planes ? 1 : (int64_t)k->lanes_c * vec);
    ckci_depth_stores(k, vec, planes);
    ckci_depth_set(k, 0, which, l);
    l->grid = ckci_saturating_mul(ckci_saturating_mul(k->parts, k->tiles_c), k->phases);
    *cost = ckci_depth_cost(p, device, vec == 1 && !through ? 3 : 1.5);
    return ckci_too_many_blocks(l->grid, err);
}

/* Two channels with stride 2 (NVIDIA): rows of the columns that threads walk down, so that the longest way is
   short, each column beginning with a row of inputs more; two blocks to a compute unit. All columns. */
CKCI_FN int64_t ckci_depth_second_columns(ckci_gpu_depth *k, const ckconv_device *device)
{
    int64_t blocks = 2 * ckci_max(device->compute_units, 1) / ckci_saturating_mul(k->tiles_c, k->tiles_u);
    int64_t beside = ckci_saturating_mul(ckci_saturating_mul(k->n, k->dim[0].length), k->strips), all = 0;
    int64_t slots = ckci_max(blocks, 1) * k->lanes_p;
    double best = 1e30;
    for (int32_t walk = 7; walk <= 16; walk++) {
        int64_t high = ckci_ceil_div(k->dim[1].length, walk), columns = ckci_saturating_mul(beside, high);
        double cost =
            (double)ckci_ceil_div(columns, slots) * ((double)ckci_min(walk, k->dim[1].length) + 1.5);
        if (cost < best) {
            best = cost;
            all = columns;
            k->walk = walk;
            k->tiles_x = (int32_t)ckci_max(high, 1);
        }
    }
    return all;
}

/* What a thread of bwd_weight takes: taps, groups of taps side by side, places of the reduction. through:
   rows, planes or sheets come through LDS. *vec and *all (strips) are as ckci_depth_start and
   ckci_depth_strips set them, or become what suits the kernel. */
CKCI_FN ckconv_status ckci_depth_weight_lanes(const ckci_conv *p, const ckconv_device *device,
                                              ckci_gpu_depth *k, int32_t kind, int32_t planes, int32_t walks,
                                              int through, int deep, int32_t *vec, int64_t *all,
                                              ckconv_error *err)
{
    int wide = k->a.dtype != CKCONV_F64, narrow = k->a.dtype == CKCONV_F32;
    int pairs = wide && kind == CKCI_DEPTH_WEIGHT_2_SECOND,
        second = wide && kind == CKCI_DEPTH_WEIGHT_4_SECOND;
    int64_t taps = pairs                                      ? 3 /* of a thread, along dimension 2 */
                   : second                                   ? 5
                   : wide && kind == CKCI_DEPTH_WEIGHT_4_NEAR ? 8
                                                              : 1;
    if (pairs || second) { /* strips of 4 */
        *vec = pairs ? 2 : *vec;
        k->strips = (int32_t)ckci_ceil_div(k->dim[2].length, 4);
        CKCI_TRY(ckci_depth_strips(k, planes, all, err));
    }
    if (walks) {
        *vec = planes || (walks > 3 && narrow) ? 1 : 2;
        /* planes: the last strip ends with the row of dout, and its window begins as that is aligned */
        int32_t length = planes ? k->dim[2].length : 4;
        k->a_vec = ckci_depth_pieces(&k->b, planes, *vec, k->a_vec && length % 4 == 0);
        k->a_vec = length % 2 == 0 || narrow ? k->a_vec : 0;
        k->o_vec = ckci_depth_pieces(&k->a, planes, *vec, k->o_vec);
    }
    int rowwise = planes == CKCI_DEPTH_ROWS && !walks;
    k->groups_x = (int32_t)(walks || through ? 1 : ckci_ceil_div(k->dim[2].filter, taps));
    if (rowwise) { /* places are counted from an aligned one on */
        k->groups_x = (int32_t)ckci_ceil_div((-p->pad[2] & 3) + p->filter[2], 8);
    }
    int64_t rows_y = walks || through ? 1 : ckci_ceil_div(k->dim[1].filter, pairs ? 3 : 1);
    k->by_rows_y = ckci_make_divisor(rows_y);
    k->units = (int32_t)((deep ? 1 : k->dim[0].filter) * rows_y * k->groups_x);
    if (!planes) {
        k->lanes_c = ckci_depth_lanes(ckci_ceil_div(p->g, *vec), *vec * (int64_t)ckci_size(k->a.dtype), 256,
                                      256, k->units, 0);
    }
    k->lanes_u = (int32_t)ckci_min(k->units, 256 / k->lanes_c);
    k->lanes_p = 256 / (k->lanes_c * k->lanes_u);
    if (rowwise) {
        k->lanes_u = (int32_t)ckci_min(k->units, 8);
        k->lanes_c = 256 / k->lanes_u;
        k->lanes_p = 1;
    }
    k->tiles_u = (int32_t)ckci_ceil_div(k->units, k->lanes_u);
    k->tiles_c = (int32_t)(planes ? p->g : ckci_ceil_div(p->g, (int64_t)k->lanes_c * *vec));
    if (pairs && device->kind == CKCONV_DEVICE_NVIDIA) {
        *all = ckci_depth_second_columns(k, device);
    }
    return CKCONV_OK;
}

/* Parts of the reduction where rows, planes (deep) or sheets come through LDS. split: 0 or what was asked
   for; most: what fits into the workspace. */
CKCI_FN int64_t ckci_depth_weight_parts(const ckci_conv *p, const ckconv_device *device, ckci_gpu_depth *k,
                                        int deep, int32_t sheet, int64_t split, int64_t most, ckci_launch *l)
{
    int64_t units = ckci_max(device->compute_units, 1);
    if (sheet >= 0) {
        ckci_depth_as_written(p, k);
        ckci_depth_set(k, 1, sheet, l);
        k->lanes_c = k->sheet.count;
        k->lanes_p = (int32_t)k->sheet.by_wide.d;
        k->lanes_u = k->tiles_u = k->units = 1;
        k->tiles_c = (int32_t)ckci_ceil_div(p->g, k->sheet.count);
        k->all = (int32_t)(p->n * k->sheet.bands);
        /* seven blocks for each compute unit, which read while others multiply */
        split = split ? split : ckci_min(ckci_ceil_div(7 * units, k->tiles_c), most);
        split = ckci_max(ckci_min(split, k->all), 1);
        return ckci_max(ckci_ceil_div(k->all, ckci_ceil_div(k->all, split)), 1);
    }
    if (deep) {
        ckci_depth_deep_tiles(k, device, 1);
        split = split ? split : ckci_min(ckci_max(2 * units / k->tiles_c, 1), most);
        return ckci_max(ckci_min(split, k->all), 1);
    }
    (void)ckci_depth_down_columns(k, device, 1);
    split = split ? split : ckci_min(ckci_depth_down_share(k, device, 0), most);
    return ckci_max(ckci_depth_down_share(k, device, ckci_min(split, k->all)), 1);
}

/* Parts of the others; all: strips. */
CKCI_FN int64_t ckci_depth_weight_split(const ckconv_device *device, ckci_gpu_depth *k, int32_t planes,
                                        int32_t walks, int64_t all, int64_t split, int64_t most)
{
    int64_t tiles = ckci_saturating_mul(k->tiles_c, k->tiles_u);
    if (walks) {
        ckci_depth_columns(k, device, planes && walks != 7 ? 8 : 4, tiles, 12, &all);
        split = split ? split : ckci_min(ckci_ceil_div(all, k->part), most);
    }
    if (split == 0) {
        const int columns = k->walk > 0 && !walks; /* stride 2 */
        split = ckci_min(ckci_ceil_div((columns ? 2 : 4) * ckci_max(device->compute_units, 1), tiles),
                         all / ((int64_t)k->lanes_p * (planes == CKCI_DEPTH_ROWS ? k->lanes_c
                                                       : columns                 ? 1
                                                                                 : 4)));
        split = ckci_min(ckci_min(split, most), 4096);
    }
    k->part = (int32_t)ckci_max(ckci_ceil_div(all, ckci_max(ckci_min(split, all), 1)), 1);
    if (walks) {
        k->part = (int32_t)ckci_ceil_div(k->part, k->lanes_p) * k->lanes_p;
    }
    return ckci_max(ckci_ceil_div(all, k->part), 1);
}

/* Strips of eight positions that a row does not fill, rows above and below: H100, f16, 3 x 3, 128
   channels, all of 2^18 positions: 16 x 16 71 us, 17 x 17 98, 13 x 13 81, 3 x 80 83. */
CKCI_FN double ckci_depth_waste(const ckci_gpu_depth *k)
{
    double length = (double)ckci_max(k->dim[2].length, 1), high = (double)ckci_max(k->dim[1].length, 1);
    return (double)ckci_ceil_div(k->dim[2].length, 8) * 8 / length * (1 + 0.2 / high);
}

/* Products that a thread adds to one sum one after the other, once the parts are known; 1: that kernel takes
   long sums in stretches. which: of those that read no rows, planes or sheets through LDS. */
CKCI_FN int64_t ckci_depth_weight_chain(const ckci_gpu_depth *k, int32_t which, int down, int deep,
                                        int32_t sheet, int32_t walks)
{
    int32_t size = (int32_t)ckci_size(k->a.dtype);
    if (sheet >= 0) {
        int64_t columns = CKCI_DEPTH_SHEET_COLUMNS(size, k->dim[2].stride, 0, 1);
        return columns * k->sheet.high * ckci_ceil_div(k->all, k->parts);
    }
    if (deep) {
        return (int64_t)CKCI_DEPTH_DEEP_STRIP(size, 1) * k->walk * ckci_ceil_div(k->all, k->parts);
    }
    if (down) {
        return (int64_t)CKCI_DEPTH_DOWN_STRIP(size, k->dim[1].filter, 1) * k->walk;
    }
    int64_t strip = ckci_saturating_mul(8, ckci_max(k->walk, 1));
    int stretches = !walks && (k->a.dtype == CKCONV_F64 || which == CKCI_DEPTH_WEIGHT_ROW ||
                               which == CKCI_DEPTH_WEIGHT_1_ANY || which == CKCI_DEPTH_WEIGHT_4_ANY);
    return stretches ? 1 : ckci_saturating_mul(strip, ckci_ceil_div(k->part, k->lanes_p));
}

/* bwd_weight. split_k and limit as in ckci_gpu_weight; sums lie in workspace as [part][tap][channel].
   lasting: with a kernel that takes sums of any length. *chain: see ckci_depth_weight_chain. */
CKCI_FN ckconv_status ckci_depth_weight_by(const ckci_conv *p, const ckconv_device *device, int lasting,
                                           int64_t split_k, int64_t limit, ckci_launch *l, int64_t *bytes,
                                           double *cost, int64_t *chain, ckconv_error *err)
{
    ckci_gpu_depth *k = &l->a.depth;
    int32_t vec, planes;
    int64_t all, units = ckci_max(device->compute_units, 1);
    CKCI_TRY(ckci_depth_start(p, k, &vec, &planes, err));
    int32_t sheet = planes == CKCI_DEPTH_LAST || lasting ? -1 : ckci_depth_sheets(p, device, k);
    CKCI_TRY(ckci_depth_strips(k, planes, &all, err));
    int32_t down = lasting ? 0 : ckci_depth_downs(k, device, 1, planes);
    int deep = !lasting && ckci_depth_deeps(k, device, 1, planes), through = down || deep || sheet >= 0;
    int32_t walks = through || lasting ? 0 : ckci_depth_walks(k, device, 1, planes);
    int32_t which = ckci_depth_kernel(k, down, deep, 0, walks, 1, vec, planes);
    if (lasting && planes != CKCI_DEPTH_ROWS) {
        which = vec == 1 || k->a.dtype == CKCONV_F32 ? CKCI_DEPTH_WEIGHT_1_ANY : CKCI_DEPTH_WEIGHT_4_ANY;
    }
    vec = which == CKCI_DEPTH_WEIGHT_1_ANY ? 1 : vec;
    ckci_depth_set(k, 1, which, l);
    CKCI_TRY(ckci_depth_weight_lanes(p, device, k, which, planes, walks, through, deep, &vec, &all, err));
    int64_t one = ckci_saturating_mul(ckci_saturating_mul(k->taps, k->g), k->a.dtype == CKCONV_F64 ? 8 : 4);
    int64_t most = limit / ckci_max(one, 1);
    if (through) {
        k->parts = (int32_t)ckci_depth_weight_parts(p, device, k, deep, sheet, split_k, ckci_max(most, 1), l);
    } else {
        k->parts = (int32_t)ckci_depth_weight_split(device, k, planes, walks, all, split_k, most);
    }
    k->sums = k->parts > 1 || k->full;
    *bytes = k->sums ? ckci_saturating_mul(k->parts, one) : 0;
    CKCI_TRY(ckci_sums_fit((int32_t)split_k, *bytes, limit, err));
    if (k->sums && one > INT32_MAX) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: 2^29 - 1 weights can be split",
                         (int)split_k);
    }
    *chain = ckci_depth_weight_chain(k, which, down, deep, sheet, walks);
    ckci_depth_divisors(k);
    ckci_depth_stretches(k);
    k->by_channels = ckci_make_divisor(k->g);
    l->grid = ckci_saturating_mul(ckci_saturating_mul(k->tiles_c, k->tiles_u), k->parts);
    double idle = (double)units / (double)ckci_max(l->grid, 1); /* compute units without work */
    double more = down && !planes && k->taps == 9 ? ckci_depth_waste(k) : 1;
    if (which == CKCI_DEPTH_WEIGHT_4_NEAR && !planes && k->dim[1].length < 8) {
        more = 3.7; /* a thread has few positions for its sums (H200: 3 x 3 and 7 x 7 on 7 x 7) */
    }
    *cost = ckci_depth_cost(p, device,
                            sheet >= 0             ? 1
                            : vec == 1 && !through ? 3
                                                   : 1.5) *
            (double)ckci_max((int64_t)idle, 1) * more;
    if (!planes && (ckci_depth_apart(&k->a) || ckci_depth_apart(&k->b))) { /* matrix units are faster */
        *cost *= k->a.dtype == CKCONV_F32 ? 2.5 : 4;
    }
    return ckci_too_many_blocks(l->grid, err);
}

/* The kernel that suits the filter, with so many parts that no sum is long, if they are free and workspace
   holds them; else one that takes long sums. */
CKCI_FN ckconv_status ckci_depth_weight(const ckci_conv *p, const ckconv_device *device, int32_t split_k,
                                        int64_t limit, ckci_launch *l, int64_t *bytes, double *cost,
                                        ckconv_error *err)
{
    int64_t chain;
    CKCI_TRY(ckci_depth_weight_by(p, device, 0, split_k, limit, l, bytes, cost, &chain, err));
    if (chain > CKCI_GPU_CHAIN && split_k == 0) {
        const ckci_gpu_depth *k = &l->a.depth;
        int64_t one = ckci_saturating_mul(ckci_saturating_mul(k->taps, k->g), 4), before = k->parts;
        int64_t parts = ckci_saturating_mul(before, ckci_ceil_div(chain, CKCI_GPU_CHAIN / 2));
        parts = ckci_min(ckci_min(parts, limit / ckci_max(one, 1)), INT32_MAX / 2);
        if (parts > before &&
            ckci_depth_weight_by(p, device, 0, parts, limit, l, bytes, cost, &chain, NULL) != CKCONV_OK) {
            chain = INT64_MAX;
        }
    }
    return chain > CKCI_GPU_CHAIN
               ? ckci_depth_weight_by(p, device, 1, split_k, limit, l, bytes, cost, &chain, err)
               : CKCONV_OK;
}
