/*------------------------------------------------------------------------------------------------------------
  >>gpu-tile
  FMA tiles: f32 tensors that are read as they are, by multiply-adds (kernels/tile/). It chooses the tile
  among the table's by the time of its rounds, small groups and few written channels by kernels of their own,
  and the parts of the reduction. Tensors that no chunk of 16 bytes can be read of have tiles that read single
  numbers.
*/
#pragma once
#include "gpu/sums.h"

/* While blocks are few, they take a compute unit in turns of so many as share it; one alone leaves it waiting
   now and then. */
CKCI_FN double ckci_tile_cost(const ckconv_device *device, int64_t blocks, const ckci_gpu_tile *t, double red)
{
    double units = ckci_units(device), slots = units * t->blocks;
    double block = (double)t->rows * t->columns * t->slow[0] * (red + 48);
    double rounds = (double)blocks / slots;
    if (rounds <= 1) {
        double share = (double)ckci_ceil_div(blocks, (int64_t)units);
        return ckci_cost_fma(device, block * share *
                                         (share * t->threads < 256   ? 1.5
                                          : share * t->threads < 512 ? 1.1
                                                                     : 1));
    }
    double whole = (double)ckci_ceil_div(blocks, (int64_t)slots);
    rounds = rounds > 8 ? rounds + 0.3 : 0.3 * rounds + 0.7 * whole;
    return ckci_cost_fma(device, block * t->blocks * rounds);
}

/* Do offsets of a block's images fit 31 bits, in bytes? */
CKCI_FN int ckci_tile_reach(const ckci_tensor *t, int64_t images, int64_t channels, const int64_t *beyond)
{
    return ckci_saturating_mul(ckci_reach(t, images, channels, beyond), 4) <= INT32_MAX;
}

/* What all FMA tiles ask for. a, b: the tensors that are read. */
CKCI_FN ckconv_status ckci_tile_takes(const ckci_conv *p, int32_t *ranges, ckconv_error *err)
{
    const ckci_tensor *a = &p->t[p->op == CKCONV_FWD ? CKCI_IN : CKCI_OUT];
    const ckci_tensor *b = &p->t[p->op == CKCONV_BWD_WEIGHT ? CKCI_IN : CKCI_WEI];
    CKCI_TRY(ckci_gpu_takes(p, err));
    if (a->dtype != CKCONV_F32 || b->dtype != CKCONV_F32 || !a->plain || !b->plain) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "FMA tiles read f32 tensors without an operation or rounding; here %s and %s",
                         ckconv_dtype_name(a->dtype), ckconv_dtype_name(b->dtype));
    }
    return ckci_matrix_taps(p, ranges, err);
}

CKCI_FN ckconv_status ckci_tile_too_far(ckconv_error *err)
{
    return ckci_fail(
        err, CKCONV_ERR_UNSUPPORTED,
        "FMA tiles take 2^31 bytes of weights per group and of a block's images; here it is more");
}

CKCI_FN ckconv_status ckci_tile_unaligned(ckconv_error *err)
{
    return ckci_fail(
        err, CKCONV_ERR_UNSUPPORTED,
        "this FMA tile loads 16 bytes along the channels: it needs channels last, a multiple of 4, "
        "and alignment");
}

/* Places of the reduction that tiles of fwd and bwd_data multiply: they leave out taps from here on. */
CKCI_FN double ckci_tile_places(const ckconv_device *device, const ckci_gpu_tile *tile, ckci_launch *l)
{
    ckci_gpu_conv *k = &l->a.conv;
    const double rounds = (double)l->grid / (tile->blocks * ckci_units(device));
    return ckci_reduction(k, (double)k->red) *
           (tile->form == CKCI_TILE_FMA ? ckci_trim(k, tile->rows, rounds) : 1);
}

CKCI_FN ckconv_status ckci_tile_gather(const ckci_conv *p, const ckconv_device *device,
                                       const ckci_gpu_tile *tile, ckci_launch *l, double *cost,
                                       ckconv_error *err)
{
    ckci_gpu_conv *k = &l->a.conv;
    int back = p->op == CKCONV_BWD_DATA;
    int64_t positions, beyond[3];
    int32_t ranges;
    CKCI_TRY(ckci_tile_takes(p, &ranges, err));
    ckci_make_gpu_conv(p, k);
    k->ranges = ranges;
    ckci_image(p, &positions, beyond);
    if (!ckci_tile_reach(&k->a, tile->rows / positions + 2, k->red, beyond) ||
        ckci_saturating_mul(k->b.len[1], k->b.stride[1]) > INT32_MAX / 8 ||
        !ckci_tile_reach(&k->b, 0, k->b.len[2], NULL)) {
        return ckci_tile_too_far(err);
    }
    if (tile->width == 4 && !ckci_vector_loads(&k->a, 2, k->red)) {
        return ckci_tile_unaligned(err);
    }
    if (tile->width == 4 && k->red < tile->step) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "this FMA tile takes %d channels per group at least; here %d", (int)tile->step,
                         (int)k->red);
    }
    k->b_mode = ckci_vector_loads(&k->b, back ? 1 : 2, k->red)       ? 0
                : ckci_vector_loads(&k->b, back ? 2 : 1, k->columns) ? 1
                                                                     : 2;
    if (tile->width == 4 && k->b_mode == 2) {
        return ckci_tile_unaligned(err);
    }
    int nvidia = device->kind == CKCONV_DEVICE_NVIDIA;
    k->o_vec = k->o.t.dtype == CKCONV_F32 && k->o.form <= (nvidia ? CKCI_FORM_LINEAR : CKCI_FORM_STORE) &&
               ckci_vector_loads(&k->o.t, 2, k->columns);
    for (int32_t j = 0; j < k->o.adds; j++) { /* gates would take registers from the loop (H200: 1 %) */
        k->o_vec = k->o_vec && (k->o.d[j].line == CKCI_LINE_CHANNELS ||
                                (k->o.d[j].dtype == CKCONV_F32 && k->o.gate < CKCI_EXTRA_MASK));
    }
    ckci_set_kernel(l, tile->kernel);
    k->tiles_m = (int32_t)ckci_max(ckci_ceil_div(k->rows, tile->rows), 1);
    k->tiles_n = (int32_t)ckci_ceil_div(k->columns, tile->columns);
    CKCI_TRY(ckci_make_grid(k, ckci_saturating_mul(k->phases, k->g), l, err));
    *cost = ckci_tile_cost(device, l->grid, tile, ckci_tile_places(device, tile, l));
    return CKCONV_OK;
}

/* What it costs that sums of `bytes` pass through memory `split` times, in a launch more. */
CKCI_FN double ckci_tile_parts_cost(const ckconv_device *device, int64_t bytes, int64_t split)
{
    return split > 1 ? ckci_cost_launch(device, 917.4) +
                           ckci_cost_bytes(device, (double)bytes * (double)split, 27.25)
                     : 0;
}

/* fwd and bwd_data of few positions: if that takes less time, parts of a tile's steps are blocks of their
   own, whose sums lie in *s. Tiles with masks of padding only, and columns in fours. split: so many parts, 0:
   as many as take least time, with *cost. */
CKCI_FN ckconv_status ckci_tile_parts(const ckci_conv *p, const ckconv_device *device,
                                      const ckci_gpu_tile *tile, int64_t split, int64_t limit,
                                      unsigned char *ws, ckci_launch *l, ckci_gpu_sums *s, double *cost,
                                      ckconv_error *err)
{
    ckci_gpu_conv *k = &l->a.conv;
    int64_t tiles = l->grid, best = split ? split : 1;
    const double red = ckci_tile_places(device, tile, l), steps = red / tile->step;
    ckci_conv part = *p;
    memset(s, 0, sizeof *s);
    if (split == 0 && tile->form == CKCI_TILE_FMA && !k->ranges && k->columns % 4 == 0 && tiles > 0 &&
        tiles <= tile->blocks * (int64_t)ckci_max(device->compute_units, 1)) {
        for (int64_t some = 2; some <= 32 && steps / (double)some >= 4; some += 1 + some / 8) {
            if (ckci_place_gpu_sums(p, some, limit, NULL, s, NULL) != CKCONV_OK || s->part > INT32_MAX) {
                break;
            }
            double time = ckci_tile_cost(device, tiles * some, tile, red / (double)some) +
                          ckci_tile_parts_cost(device, s->part, some);
            if (time < *cost) {
                *cost = time;
                best = some;
            }
        }
        s->bytes = 0;
    }
    if (best == 1) {
        return CKCONV_OK;
    }
    CKCI_TRY(ckci_place_gpu_sums(p, best, limit, ws, s, err));
    part.t[ckci_written(p->op)] = s->t;
    part.num_d = 0;
    ckci_set_target(&part, &k->o);
    k->o_vec = 1;
    k->part_step = s->part;
    k->split = (int32_t)best;
    k->by_split = ckci_make_divisor(best);
    k->by_work = ckci_make_divisor(tiles);
    l->grid = tiles * best;
    return CKCONV_OK;
}

/* ---- Few channels per group. */

/* A block's groups lie side by side, 512 bytes of them, with all taps of the weights in LDS where they
   fit. */
CKCI_FN void ckci_grouped_blocks(ckci_gpu_conv *k, int32_t wide, int32_t deep, int64_t units)
{
    int32_t room = 9536, taps = 1, items = k->g * (int32_t)ckci_ceil_div(k->columns, wide);
    for (int i = 0; i < 3; i++) {
        taps *= (int32_t)k->dim[i].taps[0].d;
    }
    k->lanes = 1;
    while (2 * k->lanes <= items && 2 * k->lanes <= 128 / wide) {
        k->lanes *= 2;
    }
    while (k->lanes > 1 && k->lanes * wide > 16 && k->lanes * (taps * k->red * wide + 20) > room) {
        k->lanes /= 2;
    }
    k->split = (room / k->lanes - 20) / (k->red * wide);
    k->split = k->split > taps ? taps : k->split;
    int64_t rows = (int64_t)deep * 256 / k->lanes;
    k->tiles_n = (int32_t)ckci_ceil_div(items, k->lanes);
    k->tiles_m = (int32_t)ckci_max(ckci_ceil_div(k->rows, rows), 1);
    int64_t batches = ckci_saturating_mul(k->tiles_n, ckci_saturating_mul(k->tiles_m, k->phases));
    k->part = k->split < taps ? 1 : (int32_t)ckci_max(ckci_min(batches / (units * 12), 16), 1);
    k->tiles_m = (int32_t)ckci_max(ckci_ceil_div(k->rows, rows * k->part), 1);
    k->by_channels = ckci_make_divisor(ckci_ceil_div(k->columns, wide));
    k->by_one_k = ckci_make_divisor(k->split);
}

/* wide: columns of a thread. */
CKCI_FN ckconv_status ckci_grouped(const ckci_conv *p, const ckconv_device *device, const ckci_gpu_tile *tile,
                                   ckci_launch *l, double *cost, ckconv_error *err)
{
    ckci_gpu_conv *k = &l->a.conv;
    int64_t positions, beyond[3], units = ckci_max(device->compute_units, 1);
    int32_t ranges, deep = 4;
    CKCI_TRY(ckci_tile_takes(p, &ranges, err));
    ckci_make_gpu_conv(p, k);
    if (ranges || k->red % 4 != 0 || k->red * tile->columns > 1024 || !ckci_vector_loads(&k->a, 2, k->red)) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "grouped kernels take channels last, aligned, a multiple of 4 up to %d per group, and "
            "31 for the sum of filter sizes; here %d",
            (int)(1024 / tile->columns), (int)k->red);
    }
    ckci_image(p, &positions, beyond);
    ckci_grouped_blocks(k, tile->columns, deep, units);
    int64_t rows = (int64_t)deep * 256 / k->lanes * k->part;
    ckci_tensor all = k->a;
    all.stride[2] = all.stride[0] > all.stride[2] ? all.stride[0] : all.stride[2]; /* all groups */
    if (!ckci_tile_reach(&all, rows / positions + 2, p->g + k->red, beyond) ||
        !ckci_tile_reach(&k->b, 0, k->b.len[2], NULL)) {
        return ckci_tile_too_far(err);
    }
    k->b_mode = k->b_column < k->b_red ? 1 : 0;
    k->o_vec = k->o.t.dtype == CKCONV_F32 && k->o.t.op.kind == CKCONV_PASS &&
               ckci_vector_loads(&k->o.t, 2, k->columns);
    double red = ckci_reduction(k, (double)k->red);
    /* neighbouring threads read neighbouring groups: with few groups, they read apart */
    ckci_gpu_tile shape = *tile;
    shape.rows *= k->part;
    shape.slow[0] = k->lanes >= 8 ? shape.slow[0] : 16. / k->lanes;
    ckci_set_kernel(l, shape.kernel);
    CKCI_TRY(ckci_make_grid(k, k->phases, l, err));
    *cost = ckci_tile_cost(device, l->grid, &shape, red);
    return CKCONV_OK;
}

/* ---- Few written channels: all of a pixel's in one thread, the tensor that is read through LDS. */
CKCI_FN ckconv_status ckci_few_columns(const ckci_conv *p, const ckconv_device *device,
                                       const ckci_gpu_tile *tile, ckci_launch *l, double *cost,
                                       ckconv_error *err)
{
    ckci_gpu_conv *k = &l->a.conv;
    int32_t ranges;
    CKCI_TRY(ckci_tile_takes(p, &ranges, err));
    ckci_make_gpu_conv(p, k);
    const ckci_gpu_dim *d = k->dim;
    int64_t width = d[2].count[0].d, height = d[1].count[0].d;
    k->lanes = (int32_t)ckci_min(ckci_ceil_div(width, 8), 128);
    k->lanes = (int32_t)ckci_ceil_div(width, ckci_ceil_div(width, 8 * k->lanes) * 8);
    k->part = 128 / k->lanes;
    k->part = k->part > height ? (int32_t)height : k->part;
    int64_t span_x = (int64_t)(d[2].taps[0].d - 1) * abs(d[2].read_tap),
            span_y = (int64_t)(d[1].taps[0].d - 1) * abs(d[1].read_tap);
    int64_t flat = (int64_t)d[1].taps[0].d * d[2].taps[0].d, wide = 8 * k->lanes + span_x;
    int64_t pitch = wide + ((k->lanes - wide) & 7); /* as in the kernel */
    while (k->part > 1 && pitch * (k->part + span_y) > 1472) {
        k->part--;
    }
    int64_t patch = pitch * (k->part + span_y);
    if (k->columns > 4 || k->red % 4 != 0 || d[1].read_step != 1 || d[2].read_step != 1 || patch > 1472 ||
        flat > 64 || device->lds_bytes < CKCI_NARROW_LDS || !ckci_vector_loads(&k->a, 2, k->red)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "narrow kernels take 4 written channels per group, steps of 1 in the tensor that is "
                         "read, whose channels are last, aligned and a multiple of 4, small filters and %d "
                         "bytes of LDS",
                         (int)CKCI_NARROW_LDS);
    }
    int64_t positions, beyond[3];
    ckci_image(p, &positions, beyond);
    beyond[1] += k->part; /* of tiles that end behind the last row */
    beyond[2] += 8 * k->lanes;
    if (!ckci_tile_reach(&k->a, 1, k->red, beyond) || !ckci_tile_reach(&k->b, 0, k->b.len[2], NULL) ||
        ckci_saturating_mul(k->b.len[1], k->b.stride[1]) > INT32_MAX / 8) {
        return ckci_tile_too_far(err);
    }
    double red = ckci_reduction(k, (double)ckci_ceil_div(k->red, 8) * 8);
    ckci_set_kernel(l, tile->kernel);
    k->tiles_n = (int32_t)ckci_ceil_div(width, 8 * k->lanes);
    k->tiles_m = (int32_t)ckci_ceil_div(height, k->part);
    int64_t slices = ckci_saturating_mul(ckci_saturating_mul(p->g, p->n), d[0].count[0].d);
    CKCI_TRY(ckci_make_grid(k, ckci_saturating_mul(slices, k->phases), l, err));
    *cost = ckci_tile_cost(device, l->grid, tile, red + 200);
    return CKCONV_OK;
}

/* Is dw dense as [g][k][taps][c], so that sums are stored as they come? */
CKCI_FN int ckci_tile_dense(const ckci_tensor *t)
{
    static const int order[6] = {2, 5, 4, 3, 1, 0};
    int64_t step = 1;
    int dense = t->dtype == CKCONV_F32 && t->op.kind == CKCONV_PASS && (uintptr_t)t->p % 16 == 0;
    for (int i = 0; i < 6; i++) {
        dense = dense && (t->len[order[i]] == 1 || t->stride[order[i]] == step);
        step *= t->len[order[i]];
    }
    return dense;
}

/* bwd_weight. split_k 0: the number of parts that takes the least time, within `limit` bytes. */
CKCI_FN ckconv_status ckci_tile_weight(const ckci_conv *p, const ckconv_device *device,
                                       const ckci_gpu_tile *tile, int32_t split_k, int64_t limit,
                                       ckci_launch *l, int64_t *bytes, double *cost, ckconv_error *err)
{
    ckci_gpu_conv *k = &l->a.conv;
    int32_t ranges;
    CKCI_TRY(ckci_tile_takes(p, &ranges, err));
    ckci_make_gpu_conv(p, k);
    k->ranges = ranges;
    int64_t space, beyond[3];
    ckci_image(p, &space, beyond);
    int64_t positions = p->n * space;
    if (tile->width == 4 && (!ckci_vector_loads(&k->a, 2, k->rows) || !ckci_vector_loads(&k->b, 2, k->red))) {
        return ckci_tile_unaligned(err);
    }
    ckci_set_kernel(l, tile->kernel);
    k->tiles_m = (int32_t)ckci_ceil_div(k->rows, tile->rows);
    k->tiles_n = (int32_t)ckci_ceil_div(k->columns, tile->columns);
    k->by_phases = ckci_make_divisor(p->g);
    int64_t tiles = ckci_saturating_mul(ckci_saturating_mul(k->tiles_m, k->tiles_n), p->g);
    int64_t sums = ckci_saturating_mul(ckci_saturating_mul(p->g, k->rows), k->columns);
    int64_t sum_bytes = ckci_saturating_mul(sums, 4), split = split_k, most = 1;
    double units = (double)ckci_max(device->compute_units, 1), best = 1e300;
    if (split == 0) {
        most = ckci_min(ckci_ceil_div(8 * (int64_t)units, ckci_max(tiles, 1)), positions / 256);
        most = ckci_min(ckci_min(most, 1024), sums > INT32_MAX ? 1 : limit / ckci_max(sum_bytes, 1));
        most = ckci_max(most, 1);
    }
    for (int64_t s = split == 0 ? 1 : split; s <= (split_k == 0 ? most : split_k); s++) {
        double time =
            ckci_tile_cost(device, ckci_saturating_mul(tiles, s), tile, (double)positions / (double)s);
        time += ckci_tile_parts_cost(device, sum_bytes, s);
        if (time < best) {
            best = time;
            split = s;
        }
    }
    *cost = best;
    split = ckci_max(ckci_min(split, positions), 1);
    CKCI_TRY(ckci_place_long_sums(positions, k->columns % 4 == 0 && ckci_tile_dense(&k->o.t), split_k,
                                  sum_bytes, limit, &split, err));
    *bytes = split > 1 ? ckci_saturating_mul(split, sum_bytes) : 0;
    CKCI_TRY(ckci_sums_fit(split_k, *bytes, limit, err));
    if (split > 1 && sums > INT32_MAX) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: 2^31 - 1 weights can be split",
                         (int)split_k);
    }
    k->split = (int32_t)split;
    k->part = (int32_t)(positions / split);
    k->part_rest = (int32_t)(positions % split);
    int64_t images = k->part / ckci_max(space, 1) + 2;
    if (!ckci_tile_reach(&k->b, images, k->red, beyond) || !ckci_tile_reach(&k->a, images, k->rows, NULL)) {
        return ckci_tile_too_far(err);
    }
    k->o_vec = k->columns % 4 == 0 && (split > 1 || ckci_tile_dense(&k->o.t));
    l->grid = ckci_saturating_mul(tiles, split);
    CKCI_TRY(ckci_too_many_blocks(l->grid, err));
    k->by_tiles_n = ckci_make_divisor(k->tiles_n);
    k->by_tiles_m = ckci_make_divisor(k->tiles_m);
    return CKCONV_OK;
}

/* ---- The instances of >>k-vector-gather, >>k-vector-weight, >>k-tile-common and >>k-vector-direct */

CKCI_FN ckconv_status ckci_make_gather(const ckci_conv *p, const ckconv_device *device,
                                       const ckci_gpu_tile *tile, ckci_launch *l, double *cost,
                                       ckconv_error *err)
{
    switch (tile->form) {
    case CKCI_TILE_NARROW:
        return ckci_few_columns(p, device, tile, l, cost, err);
    case CKCI_TILE_GROUPED:
        return ckci_grouped(p, device, tile, l, cost, err);
    case CKCI_TILE_FMA:
        return ckci_tile_gather(p, device, tile, l, cost, err);
    default:
        return ckci_gpu_gather(p, device, tile->rows, l, cost, err);
    }
}

CKCI_FN ckconv_status ckci_make_weight(const ckci_conv *p, const ckconv_device *device,
                                       const ckci_gpu_tile *tile, int32_t split_k, int64_t limit,
                                       ckci_launch *l, int64_t *bytes, double *cost, ckconv_error *err)
{
    return tile->form == CKCI_TILE_FMA
               ? ckci_tile_weight(p, device, tile, split_k, limit, l, bytes, cost, err)
               : ckci_gpu_weight(p, device, tile->rows, split_k, limit, l, bytes, cost, err);
}

CKCI_FN ckconv_status ckci_fit_gpu_gather(ckci_fit *f, ckconv_error *err)
{
    ckci_launch l;
    CKCI_TRY(ckci_gpu_no_split(f, err));
    CKCI_TRY(ckci_gpu_wrong_kind(f, ckci_conv_kind(&f->p->conv), err));
    CKCI_TRY(ckci_gpu_direct_takes(f, err));
    ckci_gpu_sums sums;
    CKCI_TRY(ckci_make_gather(&f->p->conv, &f->plan->device, f->tile, &l, &f->cost, err));
    CKCI_TRY(
        ckci_tile_parts(&f->p->conv, &f->plan->device, f->tile, 0, f->limit, NULL, &l, &sums, &f->cost, err));
    const ckci_gpu_target *o = &l.a.conv.o;
    const int gate = f->tile->form == CKCI_TILE_FMA && o->gate >= CKCI_EXTRA_MASK;
    if (sums.bytes == 0 && ckci_beside(o) && (gate || o->t.stride[2] != 1)) {
        f->cost += ckci_single_cost(&f->plan->device, &o->t) / ckci_fma_real(&f->plan->device);
    }
    f->ns = ckci_cost_ns(f->cost, ckci_fma_real(&f->plan->device));
    ckci_plan_launch(f->plan, &l, sums.bytes > 0 ? 2 : 1);
    f->plan->split_k = sums.bytes > 0 ? l.a.conv.split : 1;
    f->plan->workspace_bytes = sums.bytes;
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_gpu_gather(const ckconv_plan *plan, const ckci_problem *p,
                                           const ckconv_args *args, unsigned char *ws,
                                           const ckci_gpu_tile *tile, const ckci_emitter *e,
                                           ckconv_error *err)
{
    ckci_launch l;
    ckci_gpu_sums sums;
    double cost;
    (void)args;
    if (ckci_make_gather(&p->conv, &plan->device, tile, &l, &cost, NULL) != CKCONV_OK) {
        /* pointers less aligned than planned for */
        CKCI_TRY(ckci_gpu_gather(&p->conv, &plan->device, 64, &l, &cost, err));
        return l.grid == 0 ? CKCONV_OK : e->emit(e->context, &l, err);
    }
    CKCI_TRY(ckci_tile_parts(&p->conv, &plan->device, tile, plan->split_k, ckci_run_limit(plan), ws, &l,
                             &sums, &cost, err));
    if (l.grid == 0) {
        return CKCONV_OK;
    }
    const int64_t parts = l.a.conv.split;
    CKCI_TRY(e->emit(e->context, &l, err));
    return sums.bytes > 0 ? ckci_emit_gpu_sums(&p->conv, &sums, parts, e, err) : CKCONV_OK;
}

CKCI_FN ckconv_status ckci_fit_gpu_weight(ckci_fit *f, ckconv_error *err)
{
    ckci_launch l;
    int64_t bytes;
    CKCI_TRY(ckci_gpu_wrong_kind(f, ckci_conv_kind(&f->p->conv), err));
    CKCI_TRY(ckci_gpu_direct_takes(f, err));
    CKCI_TRY(ckci_make_weight(&f->p->conv, &f->plan->device, f->tile, f->split_k, f->limit, &l, &bytes,
                              &f->cost, err));
    f->ns = ckci_cost_ns(f->cost, ckci_fma_real(&f->plan->device));
    ckci_plan_launch(f->plan, &l, l.a.conv.split > 1 ? 2 : 1);
    f->plan->split_k = l.a.conv.split;
    f->plan->workspace_bytes = bytes;
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_gpu_weight(const ckconv_plan *plan, const ckci_problem *p,
                                           const ckconv_args *args, unsigned char *ws,
                                           const ckci_gpu_tile *tile, const ckci_emitter *e,
                                           ckconv_error *err)
{
    ckci_launch l;
    double cost;
    int64_t bytes;
    (void)args;
    if (ckci_make_weight(&p->conv, &plan->device, tile, plan->split_k, ckci_run_limit(plan), &l, &bytes,
                         &cost, NULL) != CKCONV_OK) {
        /* pointers less aligned than planned for */
        CKCI_TRY(ckci_gpu_weight(&p->conv, &plan->device, 64, plan->split_k, ckci_run_limit(plan), &l, &bytes,
                                 &cost, err));
    }
    int32_t split = l.a.conv.split;
    l.a.conv.o.partial = split > 1 ? ws : NULL;
    CKCI_TRY(e->emit(e->context, &l, err));
    return split > 1 ? ckci_emit_reduce(&p->conv, split, NULL, ws, e, err) : CKCONV_OK;
}
