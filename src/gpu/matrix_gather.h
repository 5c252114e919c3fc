/*------------------------------------------------------------------------------------------------------------
  >>gpu-matrix-gather
  fwd and bwd_data on matrix units: parts of a tile's steps where there are few positions, products for each
  image where channels come first, and what a tile plans of a problem: what is packed or turned before it, in
  which order weights are read, and what it costs.
*/
#pragma once
#include "gpu/matrix.h"

/* fwd and bwd_data of few positions: if that takes less time, parts of a tile's steps are blocks of their
   own, and a launch adds their sums; on NVIDIA a byte of parts takes three times as long as one that is
   moved, since it passes through LDS alone and few blocks read it (H100, 389 layers and passes: 3 % slower
   at most). red: places of the reduction. *cost: without parts, then as it is done. */
CKCI_FN void ckci_matrix_parts(const ckconv_device *device, ckci_matrix *m, double red, int64_t limit,
                               unsigned char *ws, double *cost)
{
    ckci_gpu_conv *k = &m->l.a.conv;
    int64_t tiles = m->l.grid, best = 1, stream = k->stream, before = m->bytes;
    int64_t numbers = ckci_saturating_mul(ckci_saturating_mul(k->g, k->rows), k->columns);
    const int nvidia = device->kind == CKCONV_DEVICE_NVIDIA;
    double steps = red * (double)ckci_size(ckci_matrix_stored(m->type)) / (nvidia ? 128 : 64);
    int shares = 0, turns = 0, tma = m->tile->form == CKCI_TILE_TMA && k->phases == 1;
    /* f32 is stored as a tile's sums, by groups that have one together */
    if (tma && k->o.t.dtype != CKCONV_F32) {
        const int64_t halves = ckci_ceil_div(k->rows, m->tile->rows / 2) * k->tiles_n * k->g;
        const double time = ckci_tma_turns_cost(device, m, halves, red);
        turns = time < *cost && halves <= INT32_MAX;
        *cost = turns ? time : *cost;
    }
    /* a residual's boxes come in the order of a whole tile's */
    if (tma && !m->multicast && ckci_tma_epilogue(m, 0) && k->o.residual <= 0) {
        ckci_tma_clusters(device, m, tiles, (int64_t)steps, cost);
    }
    if (tma && k->o.t.dtype != CKCONV_F32 &&
        ckci_tma_shares(device, m, tiles, (int64_t)steps, limit, ws, cost)) {
        shares = 1;
        m->cluster = 0;
    }
    m->turns = turns && !shares && m->cluster <= 1;
    if (k->phases != 1 || k->columns % 8 != 0 || m->type == CKCONV_I8 || m->type == CKCONV_F64 ||
        tiles > device->compute_units || numbers > INT32_MAX / 4 || steps * 32 > INT32_MAX ||
        (tma && m->tile->columns == CKCI_TMA_BOX)) { /* whose sums lie across */
        return;
    }
    k->stream = 0;
    for (int64_t split = 2; split <= 32 && steps / (double)split >= 4; split += 1 + split / 8) {
        int64_t bytes = split * numbers * 4;
        double time = ckci_matrix_cost(device, m, tiles * split, red / (double)split) +
                      ckci_move_cost(device, (nvidia ? 3 : 1) * (double)bytes);
        if (ckci_saturating_add(before, ckci_ceil_div(bytes, 256) * 256) <= limit && time < *cost) {
            *cost = time;
            best = split;
        }
    }
    m->bytes = best > 1 ? before : m->bytes;
    m->shares = best > 1 ? 0 : shares;
    m->turns = best > 1 ? 0 : m->turns;
    m->cluster = best > 1 ? 0 : m->cluster;
    if (best == 1 || ckci_matrix_take(m, best * numbers * 4, limit, ws, &k->o.partial, NULL) != CKCONV_OK) {
        k->stream = (int32_t)stream;
        return;
    }
    m->adds = 1;
    m->split = k->split = (int32_t)best;
    k->by_split = ckci_make_divisor(best);
    k->by_work = ckci_make_divisor(tiles);
    m->l.grid = tiles * best;
}

/* ckci_image_product of bwd_data reads weights, too, across the reduction: may 16 bytes of them, along the
   channels of what is written, be one load each? */
CKCI_FN int ckci_image_across(const ckci_tensor *read, ckconv_dtype type)
{
    ckci_tensor t = *read;
    t.len[2] = read->len[5];
    t.stride[2] = read->stride[5];
    t.len[5] = read->len[2];
    t.stride[5] = read->stride[2];
    return ckci_matrix_reads(&t, "", type, t.len[2], NULL) == CKCONV_OK;
}

/* Do planes of t, whose positions lie side by side in dimension 2, begin at multiples of 8 bytes, not of 16,
   which the TMA does not reach, so that threads copy them? */
CKCI_FN int ckci_image_copied(const ckci_tensor *t, ckconv_dtype type)
{
    return ckci_size(t->dtype) == 2 && ckci_matrix_reads(t, "", type, t->len[2], NULL) != CKCONV_OK &&
           ckci_matrix_reads_by(t, "", type, t->len[2], 8, NULL) == CKCONV_OK;
}

/* 1x1 layers, channels first, are a product for each image: out = wei * in, din = wei' * dout, matrices of
   [channels][positions] that the unit reads and writes as they lie. It is computed as bwd_data of other
   tensors, of which `image` becomes the problem: groups are images, rows are the channels of what is
   written, its columns and those of the "weights" positions; wei is what bwd_data reads, the same for all
   groups. (AMD turns the "weights" before, and still not what is written.) The reduction is a multiple of 8,
   or any for the TMA where both operands lie across it; so are positions, or fours beside the TMA
   (ckci_image_copied). Zero: p is no such layer, or beyond 32-bit offsets, or has so few rows or columns that
   three quarters of the smallest tile, 64 x 64, would be empty. */
CKCI_FN int ckci_image_product(const ckci_conv *p, int tma, ckci_conv *image)
{
    const int back = p->op == CKCONV_BWD_DATA;
    const ckci_tensor *read = &p->t[back ? CKCI_OUT : CKCI_IN], *written = &p->t[back ? CKCI_IN : CKCI_OUT],
                      *w = &p->t[CKCI_WEI];
    const int64_t red = back ? p->k : p->c, positions = p->input[0] * p->input[1] * p->input[2];
    if (!CKCI_KEEP_BACK_HALF || p->op == CKCONV_BWD_WEIGHT || p->g != 1 || p->n < 1 || !ckci_pointwise(p) ||
        written->len[2] < 16 || positions < 64 || positions % (tma ? 4 : 8) != 0 || red < 8 ||
        read->stride[2] == 1 || written->stride[2] == 1) {
        return 0;
    }
    *image = *p;
    int fits = ckci_image_tensor(written, p, 1, &image->t[CKCI_IN]);
    for (int i = 0; i < p->num_d; i++) {
        fits = fits && ckci_image_tensor(&p->d[i], p, p->d[i].stride[5], &image->d[i]);
    }
    fits = fits && ckci_image_tensor(read, p, 1, &image->t[CKCI_WEI]);
    ckci_tensor *b = &image->t[CKCI_WEI], *a = &image->t[CKCI_OUT];
    b->len[1] = red;
    b->len[5] = 1;
    b->stride[1] = b->stride[5];
    b->stride[5] = 0;
    *a = *w;
    const int64_t len[6] = {1, 1, red, 1, 1, written->len[2]};
    const int64_t stride[6] = {0, 0, w->stride[back ? 1 : 2], 0, 0, w->stride[back ? 2 : 1]};
    memcpy(a->len, len, sizeof len);
    memcpy(a->stride, stride, sizeof stride);
    image->op = CKCONV_BWD_DATA;
    image->g = p->n;
    image->n = 1;
    image->k = red;
    image->c = positions;
    for (int i = 0; i < 3; i++) {
        image->input[i] = image->output[i] = i == 2 ? written->len[2] : 1;
        image->stride[i] = image->dilation[i] = 1;
    }
    const int64_t reach = ckci_saturating_add(ckci_saturating_mul(red, b->stride[1]), 512); /* of a tile */
    return fits && (red % 8 == 0 || (tma && ckci_image_across(a, a->compute))) &&
           ((tma && ckci_image_copied(b, a->compute)) ||
            ckci_matrix_reads(b, "", a->compute, positions, NULL) == CKCONV_OK) &&
           ckci_size(ckci_matrix_stored(a->compute)) == 2 && ckci_saturating_mul(reach, 2) <= INT32_MAX &&
           ckci_gpu_takes(image, NULL) == CKCONV_OK;
}

CKCI_FN ckconv_status ckci_matrix_tma(const ckconv_device *device, ckci_matrix *m, int across,
                                      ckconv_error *err);

/* fwd and bwd_data of p, or of a product for each image. */
CKCI_FN ckconv_status ckci_matrix_gather_of(const ckci_conv *p, int images, const ckconv_device *device,
                                            ckconv_family family, const ckci_gpu_tile *tile, int64_t limit,
                                            unsigned char *ws, ckci_matrix *m, double *cost,
                                            ckconv_error *err)
{
    CKCI_TRY(ckci_matrix_start(p, device, family, tile, m, err));
    m->images = images;
    m->copied = images && ckci_image_copied(&p->t[CKCI_WEI], m->type);
    ckci_conv *c = &m->conv;
    ckci_gpu_conv *k = &m->l.a.conv;
    int back = p->op == CKCONV_BWD_DATA, which = back ? CKCI_OUT : CKCI_IN;
    ckci_tensor *read = &c->t[which], *w = &c->t[CKCI_WEI];
    const char *what = back ? "dout" : "in";
    ckconv_dtype type = m->type;
    int64_t before = back ? c->k : c->c, positions, beyond[3];
    m->phased = tile->form == CKCI_TILE_TMA && ckci_phased(c);
    m->both = images && tile->form == CKCI_TILE_TMA && ckci_image_across(read, type);
    if (!m->both) {
        CKCI_TRY(ckci_matrix_data(m, which, what, device, limit, ws, err));
    }
    CKCI_TRY(ckci_gpu_takes(c, err));
    int64_t red = back ? c->k : c->c;
    ckci_image(c, &positions, beyond);
    CKCI_TRY(ckci_matrix_reach(read, what, m->tile->rows / positions + 2, beyond, err));
    int as_is = m->merge == 1 && red == before;
    /* the TMA has zeros where the weights' rows end, as the padded tensor has */
    const int rows = as_is || (tile->form == CKCI_TILE_TMA && m->merge == 1 && m->terms == 1);
    int64_t size = (int64_t)ckci_size(ckci_matrix_stored(type));
    const int64_t taps = c->filter[0] * c->filter[1] * c->filter[2];
    int one = taps == 1;
    int32_t ranges;
    CKCI_TRY(ckci_matrix_taps(c, &ranges, err));
    int turns = ckci_matrix_turns(device, tile->rows, tile->columns) && red % 32 == 0 && !ranges,
        mma = family == CKCONV_FAMILY_MMA &&
              (one || red % 64 == 0 || CKCI_BACK_ANY(tile->columns) || m->phased);
    int may = back && size == 2 && rows && (mma || turns),
        across = may && (m->copied || ckci_matrix_reads(w, "wei", type, c->c, NULL) == CKCONV_OK);
    if (!across && (!as_is || w->stride[back ? 1 : 2] != 1 || ckci_matrix_reads(w, "wei", type, red, NULL))) {
        ckci_tensor from = *w;
        across = may && c->c % 8 == 0;
        ckci_packed_weights(c, back && !across, type, NULL, w);
        m->pack = as_is && ckci_matrix_moves(m, &from, w) ? CKCI_PACK_MOVE : CKCI_PACK;
        if (m->pack == CKCI_PACK && across) {
            across = 0;
            ckci_packed_weights(c, 1, type, NULL, w);
        }
        int64_t bytes = ckci_saturating_mul(ckci_count(w), size);
        CKCI_TRY(ckci_matrix_take(m, bytes, limit, ws, &w->p, err));
        m->packing += m->pack == CKCI_PACK_MOVE ? ckci_move_cost(device, (double)bytes)
                                                : ckci_pack_cost(device, (double)bytes);
    }
    int64_t weights = ckci_count(w) / (images ? p->g : 1); /* the images' own offset has 64 bits */
    if (weights > INT32_MAX / 4) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "matrix tiles take 2^29 weights; here %lld",
                         CKCI_LL(weights));
    }
    int64_t reach = ckci_saturating_mul(m->tile->columns, w->stride[back ? 2 : 1]);
    reach = ckci_saturating_add(reach, ckci_saturating_mul(red, w->stride[back ? 1 : 2]));
    for (int i = 3; i < 6; i++) {
        reach = ckci_saturating_add(reach, ckci_saturating_mul(w->len[i], w->stride[i]));
    }
    if (ckci_saturating_mul(reach, size) > INT32_MAX) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "matrix tiles take 2^31 bytes of weights for a block's columns; here they reach over more");
    }
    const int tma = tile->form == CKCI_TILE_TMA;
    m->plane = tma && !images && !m->phased ? ckci_dense_plane(&c->t[ckci_written(c->op)]) : 0;
    m->planes = ckci_matrix_planes(device, m);
    if (!m->plane && !m->planes) {
        ckci_matrix_turned(m, device, limit, ws);
    }
    ckci_make_gpu_conv(c, k);
    if (images) {
        k->o.across = CKCI_ACROSS_ROWS;
        ckci_set_form(&k->o);
    }
    k->ranges = ranges;
    ckci_set_kernel(&m->l, across ? tile->back : tile->kernel);
    k->tiles_m = (int32_t)ckci_max(ckci_ceil_div(k->rows, m->tile->rows), 1);
    k->tiles_n = (int32_t)ckci_ceil_div(k->columns, m->tile->columns);
    k->o_vec = ckci_aligned_columns(&k->o.t, k->columns);
    k->taps_inside = red * size % (family == CKCONV_FAMILY_MMA ? 128 : 64) == 0 || (across && one);
    if (ckci_matrix_wide(device, tile->rows, tile->columns) && (!k->taps_inside || k->ranges)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "this tile takes channels in multiples of 32 and filters of 31 taps (summed); here "
                         "%lld channels",
                         CKCI_LL(red));
    }
    CKCI_TRY(ckci_make_grid(k, ckci_saturating_mul(k->phases, k->g), &m->l, err));
    k->stream = ckci_matrix_grouped(device, m) && ckci_matrix_streams(k);
    const int64_t steps = ckci_ceil_div(ckci_tma_places(c, k), CKCI_TMA_BOX);
    double places = tma ? 64. * (double)steps : ckci_reduction(k, (double)red);
    if (!images && (tma ? ckci_tma_wide(k) == CKCI_TMA_BOX && steps <= CKCI_TRIM_STEPS
                        : !ckci_matrix_grouped(device, m))) {
        places *= ckci_trim(k, tile->rows,
                            (double)m->l.grid / ((double)ckci_matrix_side(device, m) * ckci_units(device)));
    }
    m->multicast = ckci_tma_pairs(device, m);
    if (m->phased) {
        CKCI_TRY(ckci_tma_take_phases(device, m, across, limit, ws, cost, err));
    } else {
        *cost = ckci_matrix_cost(device, m, m->l.grid, places);
        ckci_matrix_parts(device, m, places, limit, ws, cost);
    }
    if (m->turns) {
        k->tiles_m = (int32_t)ckci_ceil_div(k->rows, m->tile->rows / 2);
        m->l.grid = (int64_t)k->tiles_m * k->tiles_n * k->g;
    }
    *cost += m->packing;
    if (m->planes && !m->adds) { /* sums of parts have a launch that writes planes */
        ckci_write_planes(k, ckci_dense_plane(&c->t[ckci_written(c->op)]));
    } else if (!tma && k->o.t.stride[2] != 1 && !m->adds && ckci_beside(&k->o)) {
        *cost += ckci_single_cost(device, &k->o.t); /* as it is stored, so it is read */
    }
    if (!tma && ckci_matrix_unit(device) == CKCI_UNIT_WGMMA && k->o.form == CKCI_FORM_LINEAR &&
        ckci_multiplies(&k->o) && !CKCI_GROUP_FACTORS(tile->columns)) {
        *cost += ckci_lines_cost(device, &k->o.t);
    }
    ckci_matrix_workers(device, m);
    return tma ? ckci_matrix_tma(device, m, across, err) : CKCONV_OK;
}

/* fwd and bwd_data. Tiles of the TMA take 1x1 layers, channels first, in whichever way takes less time: as
   products for each image, whose last tiles have few positions, or packed. */
CKCI_FN ckconv_status ckci_matrix_gather(const ckci_conv *p, const ckconv_device *device,
                                         ckconv_family family, const ckci_gpu_tile *tile, int64_t limit,
                                         unsigned char *ws, ckci_matrix *m, double *cost, ckconv_error *err)
{
    const int tma = tile->form == CKCI_TILE_TMA;
    ckci_conv image;
    if ((!tma && tile->form != CKCI_TILE_HALF) || !ckci_image_product(p, tma, &image)) {
        return ckci_matrix_gather_of(p, 0, device, family, tile, limit, ws, m, cost, err);
    }
    ckconv_status status = ckci_matrix_gather_of(&image, 1, device, family, tile, limit, ws, m, cost, err);
    ckci_matrix packed;
    double time;
    if (tma &&
        ckci_matrix_gather_of(p, 0, device, family, tile, limit, ws, &packed, &time, NULL) == CKCONV_OK &&
        (status != CKCONV_OK || time < *cost)) {
        *m = packed;
        *cost = time;
        status = CKCONV_OK;
    }
    return status;
}
