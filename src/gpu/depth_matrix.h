/*------------------------------------------------------------------------------------------------------------
  >>gpu-depth-matrix
  Depthwise on matrix units (>>k-depth-matrix): filters so large that products with bands of zeros are cheaper
  than multiply-adds. It chooses the tile, what lies where in LDS, and the channels of a block; bwd_weight
  also the parts. Instances of all depthwise kernels stand here, too: multiply-adds and matrix units answer
  the same questions.
*/
#pragma once
#include "gpu/depth.h"

/* Pieces of `t` along rows in LDS (ckci_gpu_depth_rows). */
CKCI_FN int32_t ckci_depth_box_pieces(const ckci_tensor *t)
{
    if (ckci_depth_vector(t, 8)) {
        return 16;
    }
    int32_t vec = t->stride[5] == 1 || t->len[5] == 1 ? 8 : 1;
    for (; vec > 1; vec /= 2) {
        int fits = t->len[5] % vec == 0 && (uintptr_t)t->p % (uintptr_t)(2 * vec) == 0;
        for (int i = 0; i < 5; i++) {
            fits = fits && (t->len[i] <= 1 || t->stride[i] % vec == 0);
        }
        if (fits) {
            break;
        }
    }
    return vec;
}

CKCI_FN void ckci_depth_box_rows(ckci_gpu_depth_rows *r, int32_t vec, int64_t positions)
{
    r->vec = vec;
    r->pieces = (int32_t)ckci_ceil_div(positions, vec == 16 ? 2 : vec);
    r->by_pieces = ckci_make_divisor(r->pieces);
}

/* Chunks that are taken, in steps of two or four. */
CKCI_FN void ckci_depth_box_steps(ckci_gpu_depth_box *x, int32_t count)
{
    x->some = count <= 2 ? 2 : 4;
    x->to = x->from + (int32_t)(ckci_ceil_div(count, x->some) * x->some);
}

/* Bytes that a lane of the matrix unit loads of a row in LDS at a time; 0: NVIDIA's, whose rows lie 16 bytes
   modulo 32 apart. 16 rows (stretches of a folded one, `gap` bytes of it after each) that lie an odd multiple
   of them apart meet all banks. */
CKCI_FN int32_t ckci_depth_box_gap(const ckconv_device *device)
{
    const ckconv_family family = ckci_matrix_family(device);
    return family == CKCONV_FAMILY_MFMA ? 8 : family == CKCONV_FAMILY_WMMA ? 16 : 0;
}

/* Channels of a block: eights, as many as fit and leave few of the last block idle. */
CKCI_FN int32_t ckci_depth_box_channels(const ckci_gpu_depth *k, int64_t most)
{
    const ckci_gpu_depth_box *x = &k->box;
    const int64_t room = CKCI_DEPTH_BOX_BYTES - CKCI_DEPTH_BOX_ZEROS - 64;
    int64_t one = (int64_t)x->b.plane + x->t.plane + 16, best = 0;
    double used = 0;
    for (int64_t c = ckci_min(room / one, most) / 8 * 8; c >= 8; c -= 8) {
        double part = (double)k->g / (double)(ckci_ceil_div(k->g, c) * c);
        if (part > used * 1.1) {
            used = part;
            best = c;
        }
    }
    return (int32_t)best;
}

/* Planes after each other, tiles and blocks. */
CKCI_FN void ckci_depth_box_finish(ckci_gpu_depth *k, int64_t tiles_y, int64_t tiles_x)
{
    ckci_gpu_depth_box *x = &k->box;
    int32_t groups = x->channels / 8;
    x->skew = 128 / (groups < 8 ? groups : 8) / 16 * 16;
    x->b.at = CKCI_DEPTH_BOX_ZEROS;
    x->t.at = x->b.at + x->channels * x->b.plane + groups * x->skew;
    x->o.at = x->b.at;
    x->o.plane = x->b.plane;
    x->by_groups = ckci_make_divisor(groups);
    x->by_rows = ckci_make_divisor(k->dim[1].filter);
    x->by_z = ckci_make_divisor(k->dim[0].length);
    x->by_tiles_y = ckci_make_divisor(tiles_y);
    x->by_tiles_x = ckci_make_divisor(tiles_x);
    x->tiles = (int32_t)(k->n * k->dim[0].length * tiles_y * tiles_x);
    k->tiles_c = (int32_t)ckci_ceil_div(k->g, x->channels);
    k->by_tiles_c = ckci_make_divisor(k->tiles_c);
}

/* Tiles of a block so that three blocks of each compute unit have all of them, or `parts` blocks do. */
CKCI_FN void ckci_depth_box_split(ckci_gpu_depth *k, const ckconv_device *device, int64_t parts)
{
    const int64_t all = k->box.tiles, units = ckci_max(device->compute_units, 1);
    int64_t part = ckci_ceil_div(all * k->tiles_c, 3 * units);
    part = parts > 0 ? ckci_max(ckci_ceil_div(all, parts), 1) : ckci_max(part, 1);
    k->part = (int32_t)ckci_min(part, INT32_MAX);
    k->parts = (int32_t)ckci_max(ckci_ceil_div(all, part), 1);
}

/* What both kernels ask for. *fold: one row. */
CKCI_FN ckconv_status ckci_depth_box_start(const ckci_conv *p, const ckconv_device *device, ckci_gpu_depth *k,
                                           ckconv_error *err)
{
    int32_t vec, planes;
    const int weight = p->op == CKCONV_BWD_WEIGHT;
    CKCI_TRY(ckci_depth_start(p, k, &vec, &planes, err));
    if (k->planes) { /* as they were */
        ckci_gpu_dim y = k->dim[1];
        k->dim[1] = k->dim[2];
        k->dim[2] = y;
        ckci_exchange_yx(&k->a);
        ckci_exchange_yx(&k->b);
        ckci_exchange_target(&k->o);
        k->planes = 0;
    }
    const ckci_gpu_dim *z = &k->dim[0], *y = &k->dim[1], *x = &k->dim[2];
    int fits = ckci_matrix_family(device) != 0 && device->lds_bytes >= CKCI_DEPTH_BOX_BYTES &&
               (k->a.dtype == CKCONV_F16 || k->a.dtype == CKCONV_BF16) && k->b.dtype == k->a.dtype &&
               (weight || !k->full) && z->filter == 1 && z->stride == 1 && z->pad == 0 &&
               z->length == z->read_len && x->stride == 1 && y->stride == 1 && x->dilation == 1 &&
               y->dilation == 1;
    fits = fits && (!x->gather_back || (x->pad < x->filter && y->pad < y->filter));
    const ckci_tensor *t[3] = {&k->a, &k->b, &k->o.t};
    int64_t positions = 1;
    for (int i = 0; i < 3; i++) {
        fits = fits && ckci_span(t[i]) <= INT32_MAX / 2;
        positions = ckci_saturating_mul(positions, k->dim[i].length);
    }
    fits = fits && ckci_saturating_mul(positions, k->n) <= INT32_MAX / 4;
    k->box.fold = y->filter == 1 && y->length == 1 && y->read_len == 1 && x->length > 32;
    return fits ? CKCONV_OK
                : ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                            "depthwise on a matrix unit takes f16 and bf16, neither stride nor dilation, no "
                            "filter along z, padding below the filter and 2^30 bytes");
}

/* Time beside that of the other kernels, as it was measured: the matrix unit wins where each input meets many
   taps, in bwd_weight from 7 x 7 on, where rows are long (H100, channels first 37 x 37 474 us, sheets 238;
   16 x 16 324, sheets 253; 64 x 64 152, sheets 210; channels last 16 x 16 322, walks 190; 4 x 64 174, walks
   287). */
CKCI_FN double ckci_depth_box_cost(const ckci_conv *p, const ckconv_device *device, const ckci_gpu_depth *k)
{
    const int32_t f = k->dim[2].filter, taps = f * k->dim[1].filter;
    int64_t length = k->dim[2].length, vec = ckci_min(k->box.b.vec, k->box.t.vec);
    int shorter =
        f == 7 && taps == 49 &&
        (vec == 16 ? (length < 24 || (length > 32 && length < 48)) && (k->dim[1].length >= 8 || length < 16)
                   : length < 32 || vec < 8);
    /* tiles are 64 wide (channels last 80 x 80 242 us, walks 200; 64 x 64 177, 166; 61 x 61 178, 244) */
    shorter = shorter || (f == 7 && taps == 49 && k->a.stride[0] == 1 && length >= 64 && length % 64 < 48 &&
                          k->dim[1].length >= 8);
    int better = p->op == CKCONV_BWD_WEIGHT ? (k->box.fold ? f >= 16 : taps >= 49 && !shorter)
                 : k->box.fold              ? f >= 16 && k->box.b.vec != 16
                                            : taps >= 100;
    /* a tile is 32 wide (channels last 28 x 28 75 us, walks 86; 14 x 14 71, 63; 7 x 7 81, others 53; H200) */
    const double less = shorter && length < 16 ? 16. / (double)ckci_max(length, 1) : 1;
    return ckci_depth_cost(p, device, 1.5) * (better ? 0.5 : 3) * less;
}

/* No tile fits LDS, or one needs more. */
CKCI_FN ckconv_status ckci_depth_box_full(const ckci_gpu_depth *k, ckconv_error *err)
{
    return ckci_fail(
        err, CKCONV_ERR_UNSUPPORTED,
        "depthwise on a matrix unit: eight channels of a filter of %d x %d and a tile of inputs are "
        "more than %d bytes of LDS",
        (int)k->dim[1].filter, (int)k->dim[2].filter, (int)CKCI_DEPTH_BOX_BYTES);
}

CKCI_FN ckconv_status ckci_depth_box_gather(const ckci_conv *p, const ckconv_device *device, ckci_launch *l,
                                            double *cost, ckconv_error *err)
{
    ckci_gpu_depth *k = &l->a.depth;
    ckci_gpu_depth_box *x = &k->box;
    CKCI_TRY(ckci_depth_box_start(p, device, k, err));
    const ckci_gpu_dim *dy = &k->dim[1], *dx = &k->dim[2];
    const int32_t f = dx->filter, pad = dx->gather_back ? f - 1 - dx->pad : dx->pad;
    x->pad_y = dx->gather_back ? dy->filter - 1 - dy->pad : dy->pad;
    x->wide = !x->fold && dx->length > 32;
    x->tile_x = x->fold ? (int32_t)ckci_min((dx->length + 31) / 32 * 32, 1024) : x->wide ? 64 : 32;
    x->tile_y = x->fold ? 1 : x->wide ? 16 : 32;
    x->high = x->tile_x / 32;
    const int64_t tiles_x = ckci_ceil_div(dx->length, x->tile_x),
                  tiles_y = ckci_ceil_div(dy->length, x->tile_y);
    /* a single tile's rows begin at a chunk, others at a piece */
    const int narrow = !x->fold && !x->wide;
    const int32_t left = narrow ? (pad + 15) / 16 * 16 : (pad + 7) / 8 * 8;
    x->skip = narrow ? left / 16 : 0;
    x->back = left - 16 * x->skip;
    const int32_t bands = (f + 14 + left - pad) / 16 + 1; /* that are not zero */
    int64_t positions = x->tile_x + left - pad + f - 1;
    if (!x->fold && tiles_x == 1) {
        positions = ckci_min(positions - 16 * x->skip, x->back + dx->read_len);
    }
    x->chunks = (int32_t)ckci_max(ckci_ceil_div(positions, 16), 1);
    x->from = x->skip;
    ckci_depth_box_steps(x, narrow ? (int32_t)ckci_min(x->chunks, bands + 1 - x->skip) : bands + 1);
    if (x->fold) {
        x->chunks = x->to + 2 * (x->high - 1);
    }
    x->lead = (int32_t)ckci_max(15 + left - pad - 16 * (x->from - 1) + 1, 0) / 2 * 2;
    x->origin = pad - left + x->lead;
    int32_t most = 16 * (x->to - 1) + 15 + x->origin;
    int64_t high = ckci_max(ckci_min((int64_t)x->tile_y + dy->filter - 1, dy->read_len),
                            ckci_min(x->tile_y, dy->length));
    if (x->chunks > CKCI_DEPTH_BOX_ZEROS / 32 && !x->fold) {
        return ckci_depth_box_full(k, err);
    }
    const int32_t gap = ckci_depth_box_gap(device);
    const int32_t stored = (int32_t)ckci_max(x->chunks, ckci_ceil_div(ckci_min(dx->length, x->tile_x), 16));
    const int32_t bytes = 32 * stored + (x->fold ? (stored + 1) / 2 * gap : 0);
    x->b.pitch = (bytes + 15) / 16 * 16 + (gap == 8 ? 8 : 16);
    x->b.plane = (int32_t)(ckci_ceil_div(ckci_max(high, 1) * x->b.pitch, 16) * 16);
    x->step = x->fold ? 64 + gap : x->b.pitch;
    x->o.pitch = x->step;
    x->t.pitch = 2 * ((most + 2) / 2 * 2);
    int64_t filters = (int64_t)dy->filter * x->t.pitch;
    if (filters > CKCI_DEPTH_BOX_BYTES) {
        return ckci_depth_box_full(k, err);
    }
    x->t.plane = (int32_t)filters;
    x->t.by_pieces = ckci_make_divisor(x->t.pitch / 2);
    ckci_depth_box_rows(&x->b, ckci_depth_box_pieces(&k->a), 16 * x->chunks);
    ckci_depth_box_rows(&x->o, ckci_depth_box_pieces(&k->o.t), ckci_min(dx->length, x->tile_x));
    x->channels = ckci_depth_box_channels(k, 64);
    if (x->channels == 0) {
        return ckci_depth_box_full(k, err);
    }
    ckci_depth_box_finish(k, tiles_y, tiles_x);
    ckci_depth_box_split(k, device, 0);
    k->o_same = k->o.t.dtype == k->a.dtype && k->o.form <= CKCI_FORM_LINEAR;
    for (int32_t j = 0; j < k->o.adds; j++) {
        k->o_same = k->o_same && k->o.d[j].line == CKCI_LINE_CHANNELS;
    }
    ckci_set_kernel(l, CKCI_KERNEL_depth_matrix);
    l->grid = ckci_saturating_mul(k->parts, k->tiles_c);
    *cost = ckci_depth_box_cost(p, device, k);
    return ckci_too_many_blocks(l->grid, err);
}

/* bwd_weight: a is dout, of which bands are made, b is in. */
CKCI_FN ckconv_status ckci_depth_box_weight(const ckci_conv *p, const ckconv_device *device, int32_t split_k,
                                            int64_t limit, ckci_launch *l, int64_t *bytes, double *cost,
                                            ckconv_error *err)
{
    ckci_gpu_depth *k = &l->a.depth;
    ckci_gpu_depth_box *x = &k->box;
    CKCI_TRY(ckci_depth_box_start(p, device, k, err));
    const ckci_gpu_dim *dy = &k->dim[1], *dx = &k->dim[2];
    const int32_t f = dx->filter;
    x->fold = x->fold && f <= 256;
    const int32_t large = !x->fold && (f > 16 || dy->filter > 16);
    const int32_t shifts = x->fold ? (f + 15) / 16 : 1;
    if (large && (f > 32 || dy->filter > 32)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "bwd_weight of depthwise on a matrix unit takes filters of 32 x 32; here %d x %d",
                         (int)dy->filter, (int)f);
    }
    x->pad_y = dy->pad;
    x->back = 16 * (shifts - 1);
    x->high = shifts;
    const int64_t wide = (int64_t)dx->read_len + x->back;
    const int64_t tiles_x = ckci_ceil_div(wide, x->fold ? 512 : 64);
    ckci_depth_box_steps(x, (int32_t)ckci_max(ckci_ceil_div(ckci_ceil_div(wide, tiles_x), 16), 1));
    x->chunks = x->to;
    x->tile_x = 16 * x->chunks;
    int32_t before = 15 - dx->pad + x->back + 16;
    x->lead = before > 0 ? (before + 7) / 8 * 8 : 0;
    x->origin = dx->pad - x->back + x->lead;
    int32_t numbers = (16 * (x->to - 1) + 15 + x->origin + 8) / 8 * 8;
    x->t.pitch = 2 * numbers;
    x->b.pitch = 2 * (x->tile_x + x->back) + (ckci_depth_box_gap(device) == 8 && !x->fold ? 8 : 16);
    x->step = x->fold ? 32 : x->b.pitch;
    ckci_depth_box_rows(&x->b, ckci_depth_box_pieces(&k->b), x->tile_x + x->back);
    ckci_depth_box_rows(&x->t, ckci_depth_box_pieces(&k->a), numbers);
    /* as many rows of dout as fit, in tiles of one height */
    int64_t tiles_y = 1, most = large ? 8 : 16;
    for (; tiles_y <= dy->length; tiles_y++) {
        x->tile_y = (int32_t)ckci_ceil_div(dy->length, tiles_y);
        int64_t rows = ckci_max(ckci_min((int64_t)x->tile_y + dy->filter - 1, dy->read_len), 1);
        if (rows * x->b.pitch > CKCI_DEPTH_BOX_BYTES || x->tile_y > CKCI_DEPTH_BOX_BYTES / x->t.pitch) {
            continue;
        }
        x->b.plane = (int32_t)((rows * x->b.pitch + 15) / 16 * 16);
        x->t.plane = x->tile_y * x->t.pitch;
        x->channels = ckci_depth_box_channels(k, most);
        if (x->channels == most || (x->channels > 0 && (x->tile_y <= 8 || k->g <= x->channels))) {
            break;
        }
    }
    if (x->channels == 0 || tiles_y > dy->length) {
        return ckci_depth_box_full(k, err);
    }
    ckci_depth_box_finish(k, tiles_y, tiles_x);
    /* sixteen channels are 32 bytes: half a line */
    k->halves = ckci_depth_box_gap(device) && !large && x->channels == 16 && x->b.vec == 16 &&
                        x->t.vec == 16 && k->g > 16
                    ? 2
                    : 1;
    k->tiles_c = (int32_t)ckci_ceil_div(k->tiles_c, k->halves);
    k->by_tiles_c = ckci_make_divisor(k->tiles_c);
    int64_t one = ckci_saturating_mul(ckci_saturating_mul(k->taps, k->g), 4);
    const int64_t tile = (int64_t)x->tile_y * x->tile_x, room = ckci_max(limit / ckci_max(one, 1), 1);
    const int64_t least = ckci_sum_parts(device, ckci_saturating_mul(x->tiles, tile));
    ckci_depth_box_split(k, device, split_k);
    if (split_k == 0 && k->parts < least) {
        ckci_depth_box_split(k, device, least);
    }
    if (split_k == 0 && k->parts > room) {
        ckci_depth_box_split(k, device, room);
    }
    k->chain = ckci_sum_items(device, k->part, tile);
    if (k->chain) {
        CKCI_TRY(ckci_sum_fits(device, ckci_saturating_mul(k->part, tile), err));
    }
    k->sums = k->parts > 1 || k->full || k->chain;
    *bytes = k->sums ? ckci_saturating_mul(k->parts, one) : 0;
    CKCI_TRY(ckci_sums_fit(split_k, *bytes, limit, err));
    if (k->sums && one > INT32_MAX) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: 2^29 - 1 weights can be split",
                         (int)split_k);
    }
    k->by_channels = ckci_make_divisor(k->g);
    ckci_set_kernel(l, large ? CKCI_KERNEL_depth_matrix_weight_32 : CKCI_KERNEL_depth_matrix_weight_16);
    l->grid = ckci_saturating_mul(k->parts, k->tiles_c);
    *cost = ckci_depth_box_cost(p, device, k);
    return ckci_too_many_blocks(l->grid, err);
}

/* The sums of the parts, where k has some. */
CKCI_FN ckconv_status ckci_emit_depth_weight(ckci_launch *l, unsigned char *ws, const ckci_emitter *e,
                                             ckconv_error *err)
{
    ckci_gpu_depth *k = &l->a.depth;
    k->o.partial = k->sums ? ws : NULL;
    CKCI_TRY(e->emit(e->context, l, err));
    if (!k->sums) {
        return CKCONV_OK;
    }
    ckci_set_kernel(l, k->a.dtype == CKCONV_F64 ? CKCI_KERNEL_depth_sum_f64 : CKCI_KERNEL_depth_sum_f32);
    l->grid = ckci_ceil_div((int64_t)k->taps * k->g, 8);
    return e->emit(e->context, l, err);
}

/* Both ways: multiply-adds, and the matrix unit. */
CKCI_FN ckconv_status ckci_depth_any_gather(const ckci_conv *p, const ckconv_device *device,
                                            const ckci_gpu_tile *tile, ckci_launch *l, double *cost,
                                            ckconv_error *err)
{
    return tile->form == CKCI_TILE_DEPTH_MATRIX ? ckci_depth_box_gather(p, device, l, cost, err)
                                                : ckci_depth_gather(p, device, l, cost, err);
}

CKCI_FN ckconv_status ckci_depth_any_weight(const ckci_conv *p, const ckconv_device *device,
                                            const ckci_gpu_tile *tile, int32_t split_k, int64_t limit,
                                            ckci_launch *l, int64_t *bytes, double *cost, ckconv_error *err)
{
    return tile->form == CKCI_TILE_DEPTH_MATRIX
               ? ckci_depth_box_weight(p, device, split_k, limit, l, bytes, cost, err)
               : ckci_depth_weight(p, device, split_k, limit, l, bytes, cost, err);
}

/* Channels per group. mid has one scale and shift for all of a launch's channels, side by side. */
CKCI_FN ckconv_status ckci_depth_fits(const ckci_fit *f, ckconv_error *err)
{
    const ckci_conv *p = &f->p->conv;
    int unit = f->tile->form == CKCI_TILE_DEPTH_MATRIX;
    int64_t most = unit ? 1 : CKCI_DEPTH_CHANNELS;
    int fits = p->k <= most && p->c <= most && (p->k == 1 || f->plan->tune[CKCI_TUNE_MID] == 0);
    return fits ? CKCONV_OK
                : ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "%s takes groups of 1%s; here K is %lld and C %lld",
                            unit ? "depthwise on the matrix unit" : "depthwise",
                            unit ? " channel" : " to 4 channels (a pair's first convolution: K of 1)",
                            CKCI_LL(p->k), CKCI_LL(p->c));
}

/* What its cost counts beside those of other families if groups have several channels or channels of
   others lie between them: these are far from depthwise's own, of which 46 are a microsecond
   (CKCI_DEPTH_REAL). */
CKCI_FN double ckci_depth_beside(const ckci_conv *p)
{
    const ckci_tensor *t = &p->t[p->op == CKCONV_FWD ? CKCI_IN : CKCI_OUT];
    const int weight = p->op == CKCONV_BWD_WEIGHT, half = ckci_size(t->dtype) == 2;
    const int first = t->stride[5] < t->stride[0]; /* channels first, GNHWC */
    const int several = p->k * p->c > 1;
    if (!several && (first || weight || !ckci_depth_apart(&p->t[ckci_written(p->op)]))) {
        return 1;
    }
    return first ? (weight ? 16 : 7) : weight ? 9 : half ? 28 : 11;
}

CKCI_FN ckconv_status ckci_fit_depth_gather(ckci_fit *f, ckconv_error *err)
{
    ckci_launch l;
    CKCI_TRY(ckci_gpu_no_split(f, err));
    CKCI_TRY(ckci_depth_fits(f, err));
    ckci_conv one = ckci_depth_part(&f->p->conv, 0);
    int64_t launches = ckci_depth_launches(&f->p->conv);
    CKCI_TRY(ckci_depth_any_gather(&one, &f->plan->device, f->tile, &l, &f->cost, err));
    const double beside = ckci_depth_beside(&f->p->conv);
    f->cost *= (double)launches * beside;
    f->ns = ckci_cost_ns(f->cost, beside > 1 ? 1 : CKCI_DEPTH_REAL);
    ckci_plan_launch(f->plan, &l, (int32_t)launches);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_depth_gather(const ckconv_plan *plan, const ckci_problem *p,
                                             const ckconv_args *args, unsigned char *ws,
                                             const ckci_gpu_tile *tile, const ckci_emitter *e,
                                             ckconv_error *err)
{
    ckci_launch l;
    double cost;
    (void)args;
    (void)ws;
    for (int64_t i = 0; i < ckci_depth_launches(&p->conv); i++) {
        ckci_conv one = ckci_depth_part(&p->conv, i);
        CKCI_TRY(ckci_depth_any_gather(&one, &plan->device, tile, &l, &cost, err));
        if (l.grid > 0) {
            CKCI_TRY(e->emit(e->context, &l, err));
        }
    }
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_fit_depth_weight(ckci_fit *f, ckconv_error *err)
{
    ckci_launch l;
    int64_t bytes, launches = ckci_depth_launches(&f->p->conv);
    CKCI_TRY(ckci_depth_fits(f, err));
    ckci_conv one = ckci_depth_part(&f->p->conv, 0);
    CKCI_TRY(ckci_depth_any_weight(&one, &f->plan->device, f->tile, f->split_k, f->limit, &l, &bytes,
                                   &f->cost, err));
    const double beside = ckci_depth_beside(&f->p->conv);
    f->cost *= (double)launches * beside;
    f->ns = ckci_cost_ns(f->cost, beside > 1 ? 1 : CKCI_DEPTH_REAL);
    ckci_plan_launch(f->plan, &l, (int32_t)launches * (l.a.depth.sums ? 2 : 1));
    f->plan->split_k = l.a.depth.parts;
    f->plan->workspace_bytes = bytes;
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_depth_weight(const ckconv_plan *plan, const ckci_problem *p,
                                             const ckconv_args *args, unsigned char *ws,
                                             const ckci_gpu_tile *tile, const ckci_emitter *e,
                                             ckconv_error *err)
{
    ckci_launch l;
    double cost;
    int64_t bytes;
    (void)args;
    for (int64_t i = 0; i < ckci_depth_launches(&p->conv); i++) { /* one after the other in one workspace */
        ckci_conv one = ckci_depth_part(&p->conv, i);
        CKCI_TRY(ckci_depth_any_weight(&one, &plan->device, tile, plan->split_k, ckci_run_limit(plan), &l,
                                       &bytes, &cost, err));
        CKCI_TRY(ckci_emit_depth_weight(&l, ws, e, err));
    }
    return CKCONV_OK;
}
