/*------------------------------------------------------------------------------------------------------------
  >>gpu-depth
  Depthwise (>>k-depth-common). One plan for all layouts and types: the kernel follows from where neighbours
  lie in memory, the type, the filter and the alignment. It also chooses how long a block walks, how lanes
  share channels and positions, and how bwd_weight is cut into parts. Few channels per group are planned as
  several such launches, each of which owns its output channels.
*/
#pragma once
#include "gpu/depth_forms.h"

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
