/*------------------------------------------------------------------------------------------------------------
  >>gpu-matrix-weight
  bwd_weight on matrix units: shares of the positions, their sums, small groups, and the launches. A tile of
  dwei is summed by several blocks where there are too few tiles, each of which owns a part in workspace; a
  second launch adds the parts in fixed order. What a matrix unit cannot read as it is, is packed into
  workspace before.
*/
#pragma once
#include "gpu/tma.h"
#include "gpu/bias.h"
#include "gpu/near.h"

/* What it costs to write the sums of `split` parts and to add them. */
CKCI_FN double ckci_sums_cost(const ckconv_device *device, int64_t split, int64_t bytes)
{
    double passes =
        device->kind == CKCONV_DEVICE_NVIDIA ? 1 : 2; /* there they are written into the L2 cache */
    return split > 1 ? ckci_cost_launch(device, 3000) +
                           ckci_cost_bytes(device, passes * (double)split * (double)bytes, 20)
                     : 0;
}

/* Equal shares of all steps for the blocks that run side by side, with at most `split` parts of a tile: what
   it takes, or more than anything where it cannot be so. Blocks are not at the same positions at a time: only
   where the L2 cache keeps both tensors. */
CKCI_FN double ckci_matrix_share(const ckconv_device *device, const ckci_matrix *m, int64_t tiles,
                                 int64_t positions, int64_t split, ckci_gpu_share *share)
{
    const ckci_conv *c = &m->conv;
    int64_t steps = ckci_ceil_div(positions, 64), items = ckci_saturating_mul(tiles, steps);
    int64_t side = ckci_matrix_side(device, m) * device->compute_units;
    memset(share, 0, sizeof *share);
    if (!ckci_matrix_grouped(device, m) || m->tile->form == CKCI_TILE_TMA || m->merge > 1 || m->whole ||
        side < 1 || side > items || items > INT32_MAX || !ckci_matrix_cached(m) ||
        (c->c * c->filter[0] * c->filter[1] * c->filter[2]) % 4 != 0) {
        return 1e300;
    }
    int64_t part = items / side, parts = (ckci_max(steps, 2) - 2) / part + 2;
    double size = (double)m->tile->rows * m->tile->columns, touched = ceil((double)part / (double)steps) + 1;
    if (parts > split) {
        return 1e300;
    }
    const ckci_rates rates = ckci_device_rates(device, m->type);
    share->steps = (int32_t)steps;
    share->part = (int32_t)part;
    share->rest = (int32_t)(items % side);
    share->positions = (int32_t)positions;
    share->by_steps = ckci_make_divisor(steps);
    share->by_part = ckci_make_divisor(part);
    share->by_more = ckci_make_divisor(part + 1);
    share->by_rows = ckci_make_divisor(m->tile->rows);
    share->by_columns = ckci_make_divisor(m->tile->columns);
    return ckci_matrix_cost(device, m, side, 64. * (double)(part + 1)) +
           (touched - 1) * (1700 * rates.round + size * .125 * rates.bytes) +
           ckci_sums_cost(device, 2, (int64_t)((double)(side + tiles) * size * 2));
}

/* Positions of a piece of a part of so many; 0: all. */
CKCI_FN int32_t ckci_matrix_chain(const ckconv_device *device, int64_t part)
{
    return ckci_sum_items(device, part, 1);
}

/* Parts of the positions: such that the blocks fill one to eight rounds (AMD: sixths of them also, one, two
   or three blocks on each unit), or have equal shares; the cheapest. */
CKCI_FN int64_t ckci_matrix_split(const ckconv_device *device, const ckci_matrix *m, int64_t tiles,
                                  int64_t positions, int64_t bytes, int64_t limit)
{
    int64_t side = ckci_matrix_side(device, m) * ckci_tma_units(device, m), each = ckci_tma_pieces(m, tiles);
    int64_t pieces = device->kind == CKCONV_DEVICE_NVIDIA ? 1 : 6;
    int64_t best = 1, most = ckci_min(ckci_min(positions / 256, 1024), limit / ckci_max(bytes, 1));
    double least = 1e300;
    ckci_gpu_share share;
    for (int64_t rounds = 0; rounds <= 8 * pieces && bytes / 4 <= INT32_MAX; rounds++) {
        int64_t split = ckci_max(ckci_min(rounds * side / pieces / each, most), 1);
        double cost = ckci_matrix_cost(device, m, tiles * split, (double)ckci_ceil_div(positions, split)) +
                      ckci_sums_cost(device, split, bytes);
        if (cost < least) {
            least = cost;
            best = split;
        }
    }
    for (int64_t split = 2; split <= ckci_min(most, 4) && bytes / 4 <= INT32_MAX; split++) {
        double cost = ckci_matrix_share(device, m, tiles, positions, split, &share);
        if (cost < least) {
            least = cost;
            best = split;
        }
    }
    return best;
}

/* Depthwise: beside depthwise kernels' costs (see ckci_depth_waste; near takes 72 to 76 us for all of
   those). */
CKCI_FN double ckci_near_single(const ckci_conv *p, const ckconv_device *device)
{
    int timed =
        device->kind == CKCONV_DEVICE_NVIDIA && p->filter[0] == 1 && p->filter[1] == 3 && p->filter[2] == 3;
    for (int i = 0; i < 3; i++) {
        timed = timed && p->stride[i] == 1 && p->dilation[i] == 1;
    }
    double slices = (double)ckci_ceil_div(p->g, 64) * 64 / (double)ckci_max(p->g, 1);
    return ckci_depth_cost(p, device, 1.5) * (timed ? slices : 4) + ckci_cost_launch(device, 160.6);
}

/* What near takes, by its cost below, of which packing is as it is. */
CKCI_FN double ckci_near_weight_ns(const ckci_conv *p, const ckconv_device *device, const ckci_matrix *m,
                                   double cost)
{
    const double real = p->k * p->c == 1                ? CKCI_DEPTH_REAL
                        : ckci_matrix_groups(device, m) ? 1
                                                        : 1 / CKCI_NEAR_BESIDE;
    return ckci_cost_ns(cost - m->packing, real) + m->packing;
}

/* bwd_weight; a part of the sums for each block of a slice. */
CKCI_FN ckconv_status ckci_near_weight(const ckci_conv *p, const ckconv_device *device, ckconv_family family,
                                       int32_t split_k, int64_t limit, unsigned char *ws, ckci_matrix *m,
                                       double *cost, ckconv_error *err)
{
    CKCI_TRY(ckci_near_start(p, device, family, m, err));
    ckci_conv *c = &m->conv;
    ckci_gpu_conv *k = &m->l.a.conv;
    int64_t space, beyond[3];
    ckci_image(c, &space, beyond);
    int64_t one = ckci_saturating_mul(ckci_saturating_mul(p->g * p->k, p->c),
                                      ckci_saturating_mul(p->filter[0], p->filter[1] * p->filter[2]));
    if (c->c % 8 == 0 && c->k % 8 == 0) { /* packing adds no channels */
        CKCI_TRY(ckci_matrix_data(m, CKCI_IN, "in", device, limit, ws, err));
        CKCI_TRY(ckci_matrix_data(m, CKCI_OUT, "dout", device, limit, ws, err));
    }
    ckci_tensor in = c->t[CKCI_IN], dout = c->t[CKCI_OUT]; /* their groups as one */
    ckci_merge_tensor(&in, in.len[0]);
    ckci_merge_tensor(&dout, dout.len[0]);
    CKCI_TRY(ckci_matrix_reads(&in, "in", m->type, in.len[2], err));
    CKCI_TRY(ckci_matrix_reads(&dout, "dout", m->type, dout.len[2], err));
    ckci_make_gpu_conv(c, k);
    ckci_set_kernel(&m->l, ckci_min(c->k, c->c) == 32 ? CKCI_KERNEL_matrix_near_weight_32
                                                      : CKCI_KERNEL_matrix_near_weight_16);
    CKCI_TRY(ckci_near_walk(c, device, split_k, k, cost, err));
    CKCI_TRY(ckci_matrix_reach(&c->t[CKCI_IN], "in", k->as.region.images + 1, beyond, err));
    CKCI_TRY(ckci_matrix_reach(&c->t[CKCI_OUT], "dout", k->as.region.images + 1, NULL, err));
    int64_t positions = c->n * c->output[0] * c->output[1] * c->output[2];
    int64_t bytes = ckci_saturating_mul(one, 4), parts = ckci_saturating_mul(bytes, k->as.region.parts);
    if (one > INT32_MAX || positions == 0 || one == 0) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "near takes up to 2^31 - 1 weights and some positions");
    }
    CKCI_TRY(ckci_matrix_take(m, parts, limit, ws, &k->o.partial, err));
    m->split = k->as.region.parts;
    m->fold = 1;
    k->by_one_k = ckci_make_divisor(p->k);
    k->by_one_c = ckci_make_divisor(p->c);
    m->l.grid = ckci_saturating_mul((int64_t)k->as.region.parts * k->tiles_n, k->as.region.planes);
    if (p->k * p->c == 1) {
        *cost = ckci_near_single(p, device) + m->packing;
        return CKCONV_OK;
    }
    double sums = ckci_sums_cost(device, m->split + 1, bytes);
    if (ckci_matrix_groups(device, m)) { /* measured beside tiles */
        *cost = ckci_cost_matrix(device, *cost > 12000 ? 0.62 * *cost - 7500 : 0) + 2.8 * sums + m->packing;
        return CKCONV_OK;
    }
    *cost = CKCI_NEAR_BESIDE * (ckci_cost_matrix(device, *cost) + ckci_cost_launch(device, 8000)) + sums / 2 +
            m->packing;
    return CKCONV_OK;
}

/* Bytes that a block can reach over in a 16-bit tensor: all images, all channels. */
CKCI_FN int64_t ckci_image_reach(const ckci_tensor *t, int64_t images, int64_t channels)
{
    return ckci_saturating_mul(2, ckci_saturating_add(ckci_saturating_mul(images, t->stride[1]),
                                                      ckci_saturating_mul(channels, t->stride[2])));
}

/* bwd_weight of 1x1 layers, channels first (ckci_image_product): dwei = sum of dout * in' over images,
   matrices of [channels][positions] whose rows the unit reads as they lie. It is computed as fwd of other
   tensors, of which `image` becomes the problem: dout's channels are positions, images are taps, positions
   are channels. Zero: p is no such layer, or (not for the TMA) more images than a filter has taps. */
CKCI_FN int ckci_image_weights(const ckci_conv *p, int tma, ckci_conv *image)
{
    const ckci_tensor *in = &p->t[CKCI_IN], *dout = &p->t[CKCI_OUT], *w = &p->t[CKCI_WEI];
    const int64_t positions = p->input[0] * p->input[1] * p->input[2], n = p->n, size = 2;
    if (!CKCI_KEEP_GATHER_HALF || p->g != 1 || p->num_d > 0 || !ckci_pointwise(p) || n < 1 ||
        (n > CKCI_MOST_TAPS && !tma) || p->k < 1 || p->c < 8 || positions < 64 || positions % 8 != 0 ||
        p->c % 8 != 0 || in->stride[2] == 1 || dout->stride[2] == 1 ||
        ckci_image_reach(in, n, p->c) > INT32_MAX || ckci_image_reach(dout, n, p->k) > INT32_MAX) {
        return 0;
    }
    ckci_tensor a, b;
    if (!ckci_image_tensor(dout, p, 1, &a) || !ckci_image_tensor(in, p, 1, &b)) {
        return 0;
    }
    const int64_t a_len[6] = {1, 1, positions, n, 1, p->k},
                  a_stride[6] = {0, 0, 1, a.stride[0], 0, a.stride[5]};
    const int64_t b_len[6] = {1, p->c, positions, n, 1, 1},
                  b_stride[6] = {0, b.stride[5], 1, b.stride[0], 0, 0};
    const int64_t o_len[6] = {1, 1, p->c, 1, 1, p->k}, o_stride[6] = {0, 0, w->stride[2], 0, 0, w->stride[1]};
    memcpy(a.len, a_len, sizeof a_len);
    memcpy(a.stride, a_stride, sizeof a_stride);
    memcpy(b.len, b_len, sizeof b_len);
    memcpy(b.stride, b_stride, sizeof b_stride);
    *image = *p;
    image->op = CKCONV_FWD;
    image->n = 1;
    image->k = p->c;
    image->c = positions;
    image->t[CKCI_IN] = a;
    image->t[CKCI_WEI] = b;
    image->t[CKCI_OUT] = *w;
    memcpy(image->t[CKCI_OUT].len, o_len, sizeof o_len);
    memcpy(image->t[CKCI_OUT].stride, o_stride, sizeof o_stride);
    for (int i = 0; i < 3; i++) {
        image->filter[i] = i == 0 ? n : 1;
        image->input[i] = i == 0 ? n : i == 1 ? 1 : p->k;
        image->output[i] = i == 2 ? p->k : 1;
        image->stride[i] = image->dilation[i] = 1;
        image->pad[i] = 0;
    }
    return ckci_size(a.dtype) == (size_t)size &&
           ckci_matrix_reads(&a, "", a.compute, positions, NULL) == CKCONV_OK &&
           ckci_matrix_reads(&b, "", a.compute, positions, NULL) == CKCONV_OK;
}

/* The gather kernel with a tile of bwd_weight's, -1: none. */
CKCI_FN int32_t ckci_image_weight_kernel(const ckci_gpu_tile *tile)
{
    int32_t kernel = -1;
#define CKCI_ROW(X, UNITS, ROWS, COLUMNS, PART, BACK, SLOW, OTHER)                                           \
    kernel = tile->form == CKCI_TILE_HALF && tile->rows == ROWS && tile->columns == COLUMNS                  \
                 ? (int32_t)CKCI_KERNEL_matrix_gather_##ROWS##x##COLUMNS                                     \
                 : kernel;
    CKCI_GATHER_TILES(CKCI_ROW, 0)
#undef CKCI_ROW
#define CKCI_ROW(X, ROWS, COLUMNS, ...)                                                                      \
    kernel = tile->form == CKCI_TILE_TMA && tile->rows == ROWS && tile->columns == COLUMNS                   \
                 ? (int32_t)CKCI_KERNEL_matrix_tma_gather_##ROWS##x##COLUMNS                                 \
                 : kernel;
    CKCI_TMA_TILES(CKCI_ROW, 0)
#undef CKCI_ROW
    return kernel;
}

/* m, started for p, as that product: parts of the positions (of at most CKCI_SUM_WHOLE, one after the other
   in a sum) such that blocks fill up to eight rounds, the cheapest. */
CKCI_FN ckconv_status ckci_image_weight(const ckci_conv *p, const ckconv_device *device, int32_t kernel,
                                        int32_t split_k, int64_t limit, unsigned char *ws, ckci_matrix *m,
                                        double *cost, ckconv_error *err)
{
    ckci_gpu_conv *k = &m->l.a.conv;
    const ckci_conv *c = &m->conv;
    const int tma = m->tile->form == CKCI_TILE_TMA;
    int64_t positions = c->filter[0] * c->c, steps = ckci_ceil_div(positions, 64), best = 0;
    int64_t bytes = ckci_saturating_mul(ckci_saturating_mul(p->k, p->c), 4);
    CKCI_TRY(ckci_gpu_takes(c, err));
    ckci_make_gpu_conv(c, k);
    m->layers = tma;
    if (tma) {
        steps = ckci_ceil_div(ckci_tma_places(c, k), CKCI_TMA_BOX);
    } else {
        CKCI_TRY(ckci_matrix_taps(c, &k->ranges, err));
    }
    ckci_set_kernel(&m->l, kernel);
    k->tiles_m = (int32_t)ckci_ceil_div(k->rows, m->tile->rows);
    k->tiles_n = (int32_t)ckci_ceil_div(k->columns, m->tile->columns);
    k->o_vec = ckci_aligned_columns(&k->o.t, k->columns);
    CKCI_TRY(ckci_make_grid(k, 1, &m->l, err));
    if (k->o.form != CKCI_FORM_STORE) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "images as taps take no epilogue");
    }
    m->multicast = ckci_tma_pairs(device, m);
    int64_t tiles = m->l.grid, least = ckci_ceil_div(positions, CKCI_SUM_WHOLE);
    int64_t side = ckci_matrix_side(device, m) * ckci_tma_units(device, m), each = ckci_tma_pieces(m, tiles);
    *cost = 1e300;
    for (int64_t rounds = 0; rounds <= 8 && bytes / 4 <= INT32_MAX; rounds++) {
        int64_t split = ckci_min(ckci_max(rounds * side / each, least), ckci_max(steps / 4, 1));
        split = split_k ? split_k : split;
        int64_t parts = ckci_saturating_mul(split, bytes);
        double time = ckci_matrix_cost(device, m, tiles * split, (double)positions / (double)split) +
                      ckci_sums_cost(device, split, bytes);
        if (time < *cost && split >= least && split <= steps && split * steps <= INT32_MAX &&
            ckci_saturating_add(m->bytes, split > 1 ? parts : 0) <= limit) {
            *cost = time;
            best = split;
        }
    }
    if (best < 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "images as taps need parts of at most %d positions",
                         (int)CKCI_SUM_WHOLE);
    }
    if (best > 1) {
        CKCI_TRY(ckci_matrix_take(m, best * bytes, limit, ws, &k->o.partial, err));
    }
    m->fold = best > 1;
    m->split = k->split = (int32_t)best;
    k->by_split = ckci_make_divisor(best);
    k->by_work = ckci_make_divisor(tiles);
    m->l.grid = tiles * best;
    ckci_matrix_workers(device, m);
    return tma ? ckci_matrix_tma(device, m, 0, err) : CKCONV_OK;
}

/* dbias beside the tiles of dwei: where they multiply dout's numbers as they are, in halves, and rows are
   channels; and where their sums have room in workspace. */
CKCI_FN void ckci_matrix_bias(const ckci_conv *p, ckci_matrix *m, int64_t limit, unsigned char *ws)
{
    const ckci_conv *c = &m->conv;
    ckci_gpu_conv *k = &m->l.a.conv;
    int64_t before = m->bytes, channels = p->g * p->k, parts;
    if (!p->dbias.dtype || m->whole || m->terms > 1 || ckci_matrix_chunk(m->type) != 8 ||
        !p->t[CKCI_OUT].plain || c->g * c->k != channels || c->t[CKCI_OUT].len[1] == 0) {
        return;
    }
    for (k->bias_turns = 1; k->bias_turns < 32 && k->bias_turns * 2 <= k->tiles_n;) {
        k->bias_turns *= 2;
    }
    parts = ckci_saturating_mul(m->split, k->bias_turns);
    m->bias = ckci_matrix_take(m, ckci_saturating_mul(4 * channels, parts), limit, ws, &k->bias.sums, NULL) ==
              CKCONV_OK;
    m->bytes = m->bias ? m->bytes : before;
    k->bias.sums = m->bias ? k->bias.sums : NULL;
}

/* bwd_weight. Parts of the reduction as in ckci_gpu_weight. turns: dwei may be turned after. */
CKCI_FN ckconv_status ckci_matrix_weight_way(const ckci_conv *p, const ckconv_device *device,
                                             ckconv_family family, const ckci_gpu_tile *tile, int32_t split_k,
                                             int turns, int64_t limit, unsigned char *ws, ckci_matrix *m,
                                             double *cost, ckconv_error *err)
{
    if (tile->form == CKCI_TILE_NEAR) {
        return ckci_near_weight(p, device, family, split_k, limit, ws, m, cost, err);
    }
    CKCI_TRY(ckci_matrix_start(p, device, family, tile, m, err));
    const int wide = ckci_matrix_wide(device, tile->rows, tile->columns);
    const int32_t gather = wide ? -1 : ckci_image_weight_kernel(tile);
    ckci_conv image;
    if (gather >= 0 && ckci_image_weights(p, tile->form == CKCI_TILE_TMA, &image)) {
        m->conv = image;
        m->merge = 1;
        if (ckci_image_weight(p, device, gather, split_k, limit, ws, m, cost, NULL) == CKCONV_OK) {
            return CKCONV_OK;
        }
        CKCI_TRY(ckci_matrix_start(p, device, family, tile, m, err));
    }
    if (m->whole && (p->t[CKCI_IN].op.kind != CKCONV_PASS || p->t[CKCI_OUT].op.kind != CKCONV_PASS)) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "i8 on matrix units takes no operation on what bwd_weight reads"); /* it would round */
    }
    ckci_conv *c = &m->conv;
    ckci_gpu_conv *k = &m->l.a.conv;
    int64_t real_k = c->k, real_c = c->c, space, beyond[3];
    CKCI_TRY(ckci_matrix_data(m, CKCI_IN, "in", device, limit, ws, err));
    ckci_gpu_box box;
    /* dout as it lies is for layers whose in is turned for its taps, or need not be. One tap, both in planes,
       is a product of images (ckci_image_weights), which turns neither: to turn in alone is always more bytes
       and a launch more than that */
    if (tile->form == CKCI_TILE_TMA && CKCI_TMA_DOUT(tile->columns) && !p->dbias.dtype &&
        (!ckci_pointwise(c) || p->t[CKCI_IN].stride[2] == 1) && ckci_tma_dout(c, m->type, &box) > 0) {
        m->plane = ckci_dense_plane(&c->t[CKCI_OUT]);
    } else {
        CKCI_TRY(ckci_matrix_data(m, CKCI_OUT, "dout", device, limit, ws, err));
    }
    c->n = ckci_saturating_mul(c->n, m->terms);
    if (turns && c->k == real_k && c->c == real_c) {
        ckci_matrix_turned_weights(m, device, limit, ws);
    }
    CKCI_TRY(ckci_gpu_takes(c, err));
    ckci_image(c, &space, beyond);
    int64_t positions = c->n * space;
    ckci_make_gpu_conv(c, k);
    CKCI_TRY(ckci_matrix_taps(c, &k->ranges, err));
    if (wide && !ckci_matrix_direct(device, tile->rows, tile->columns)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "this tile is for units that turn operands as they read them: gfx950; here it is %s",
                         device->arch);
    }
    ckci_set_kernel(&m->l, tile->kernel);
    k->tiles_m = (int32_t)ckci_ceil_div(k->rows, m->tile->rows);
    const int tma = tile->form == CKCI_TILE_TMA;
    k->tiles_n = (int32_t)ckci_ceil_div(tma ? ckci_tma_columns(c) : k->columns, m->tile->columns);
    k->by_phases = ckci_make_divisor(c->g);
    int64_t tiles = ckci_saturating_mul(ckci_saturating_mul(k->tiles_m, k->tiles_n), c->g);
    int64_t one = ckci_saturating_mul(ckci_saturating_mul(p->g, p->k),
                                      p->c * p->filter[0] * p->filter[1] * p->filter[2]);
    m->multicast = ckci_tma_pairs(device, m);
    int64_t split = split_k, bytes = ckci_saturating_mul(one, m->type == CKCONV_F64 ? 8 : 4);
    int64_t least = m->whole ? ckci_ceil_div(positions, CKCI_WHOLE_PART) : 1;
    if (split == 0 && tma) {
        split = ckci_matrix_split(device, m, tiles, positions, bytes, limit - m->bytes);
        *cost = ckci_matrix_cost(device, m, tiles * split, (double)ckci_ceil_div(positions, split)) +
                ckci_sums_cost(device, split, bytes);
        const int64_t steps = ckci_ceil_div(positions, CKCI_TMA_BOX);
        if (ckci_tma_epilogue(m, 1) && !p->dbias.dtype && !m->multicast) {
            ckci_tma_clusters(device, m, tiles, steps, cost);
        }
        m->cluster = ckci_tma_shares(device, m, tiles, steps, limit, ws, cost) ? 0 : m->cluster;
        split = m->shares || m->cluster > 1 ? 1 : 0;
    }
    if (split == 0) {
        int64_t room = (limit - m->bytes) / ckci_max(bytes, 1);
        split = ckci_matrix_split(device, m, tiles, positions, bytes, limit - m->bytes);
        split = ckci_max(split, ckci_min(ckci_sum_parts(device, positions), one > INT32_MAX ? 1 : room));
        split = ckci_max(split, least);
    }
    split = ckci_max(ckci_min(split, positions), 1);
    if (split < least || least > CKCI_MOST_PARTS) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "i8 on matrix units adds parts of %d positions: split_k %lld at least, here %lld (up to "
            "%d)",
            (int)CKCI_WHOLE_PART, CKCI_LL(least), CKCI_LL(split), (int)CKCI_MOST_PARTS);
    }
    k->chain = m->whole || m->shares || m->cluster > 1
                   ? 0
                   : ckci_matrix_chain(device, ckci_ceil_div(positions, split));
    /* one part is the weights themselves, or what they come of */
    int adds =
        k->chain && !CKCI_MATRIX_FAR(ckci_size(ckci_matrix_stored(m->type)), m->tile->rows, m->tile->columns);
    if (k->chain) {
        CKCI_TRY(ckci_sum_fits(device, ckci_ceil_div(positions, split), err));
    }
    int here = adds && split == 1 && k->o.t.dtype == CKCONV_F32 && ckci_weights_as_sums(&k->o.t);
    m->fold = split > 1 || m->whole || (adds && !here);
    if (here) {
        k->o.partial = k->o.t.p;
    }
    if (m->fold) {
        if (one > INT32_MAX) {
            return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "2^31 - 1 weights can be split; here %lld",
                             CKCI_LL(one));
        }
        CKCI_TRY(ckci_matrix_take(m, ckci_saturating_mul(split, bytes), limit, ws, &k->o.partial, err));
    }
    m->split = k->split = (int32_t)split;
    k->float_parts = m->whole;
    ckci_matrix_bias(p, m, limit, ws);
    k->o_vec = k->o.partial || ckci_weights_as_sums(&k->o.t);
    k->part = (int32_t)(positions / split);
    k->part_rest = (int32_t)(positions % split);
    int64_t images = k->part / ckci_max(space, 1) + 2;
    CKCI_TRY(ckci_matrix_reach(&c->t[CKCI_IN], "in", images, beyond, err));
    CKCI_TRY(ckci_matrix_reach(&c->t[CKCI_OUT], "dout", images, NULL, err));
    if (tma && m->merge == 1 && !m->pairs) { /* channels that are padded end rows, or the columns of a tap */
        k->rows = (int32_t)real_k;
        k->red = (int32_t)real_c;
        k->columns = (int32_t)(k->columns / c->c * real_c);
    }
    const int padded = c->k != real_k || c->c != real_c;
    k->merge = m->merge > 1 || (padded && !(tma && !m->pairs)) ? (int32_t)m->merge : 0;
    k->shift = m->shift;
    k->filter_x = m->pairs ? (int32_t)p->filter[2] : 0;
    k->by_one_k = ckci_make_divisor(p->k);
    k->by_one_c = ckci_make_divisor(p->c);
    k->o_vec = k->o_vec && k->merge == 0 && k->columns % 2 == 0;
    CKCI_TRY(ckci_make_grid(k, ckci_saturating_mul(c->g, split), &m->l, err));
    ckci_matrix_order(device, m);
    if (!m->shares && m->cluster <= 1) {
        *cost =
            ckci_matrix_cost(device, m, m->l.grid, (double)k->part) + ckci_sums_cost(device, split, bytes);
    }
    if (split > 1 && k->merge == 0) {
        ckci_gpu_share share;
        double shared = ckci_matrix_share(device, m, tiles, positions, split, &share);
        images = ckci_max(positions / ckci_max(space, 1), images);
        if (shared < *cost && ckci_matrix_reach(&c->t[CKCI_IN], "in", images, beyond, NULL) == CKCONV_OK &&
            ckci_matrix_reach(&c->t[CKCI_OUT], "dout", images, NULL, NULL) == CKCONV_OK) {
            *cost = shared;
            k->share = share;
            k->chain = ckci_matrix_chain(device, 64 * (int64_t)ckci_min(share.part + 1, share.steps));
            m->l.grid = ckci_matrix_side(device, m) * device->compute_units;
        }
    }
    *cost += m->packing;
    return tma ? ckci_matrix_tma(device, m, 1, err) : CKCONV_OK;
}

/* The same; dwei is not turned where that leaves no workspace for sums. */
CKCI_FN ckconv_status ckci_matrix_weight(const ckci_conv *p, const ckconv_device *device,
                                         ckconv_family family, const ckci_gpu_tile *tile, int32_t split_k,
                                         int64_t limit, unsigned char *ws, ckci_matrix *m, double *cost,
                                         ckconv_error *err)
{
    m->turned = 0; /* a start that fails leaves m as it was */
    ckconv_status status =
        ckci_matrix_weight_way(p, device, family, tile, split_k, 1, limit, ws, m, cost, err);
    return status != CKCONV_OK && m->turned
               ? ckci_matrix_weight_way(p, device, family, tile, split_k, 0, limit, ws, m, cost, err)
               : status;
}

/* Where dwei is one part, its tiles' sums for dbias need a launch of their own, unless one column of tiles
   has them all. */
CKCI_FN int ckci_bias_apart(const ckci_matrix *m)
{
    return m->bias && !m->fold && m->l.a.conv.bias_turns > 1;
}

/* What it costs that tiles sum dbias, too: LDS serves the unit and the sums, so that a step takes up to a
   tenth longer (H100), of which each column of tiles that takes turns has its share. */
CKCI_FN double ckci_matrix_bias_cost(const ckconv_device *device, const ckci_matrix *m, double cost)
{
    return 0.1 * cost / m->l.a.conv.bias_turns + ckci_cost_launch(device, 3000) * ckci_bias_apart(m);
}

CKCI_FN ckconv_status ckci_fit_matrix_weight(ckci_fit *f, ckconv_error *err)
{
    const ckconv_device *device = &f->plan->device;
    ckci_matrix m;
    CKCI_TRY(ckci_gpu_wrong_kind(f, ckci_conv_kind(&f->p->conv), err));
    CKCI_TRY(ckci_matrix_weight(&f->p->conv, device, f->family, f->tile, f->split_k, f->limit, NULL, &m,
                                &f->cost, err));
    const double more = m.bias ? ckci_matrix_bias_cost(device, &m, f->cost) : 0;
    if (m.bias && ckci_gpu_bias_cost(&f->p->conv, device) < more) { /* dout is read once more instead */
        ckci_conv apart = f->p->conv;
        apart.dbias.dtype = 0;
        CKCI_TRY(ckci_matrix_weight(&apart, device, f->family, f->tile, f->split_k, f->limit, NULL, &m,
                                    &f->cost, err));
    } else {
        f->cost += more;
    }
    if (f->tile->form == CKCI_TILE_NEAR) {
        f->ns = ckci_near_weight_ns(&f->p->conv, device, &m, f->cost);
    }
    ckci_plan_launch(f->plan, &m.l, ckci_packed_launches(&m) + m.fold + ckci_bias_apart(&m));
    f->plan->tune[CKCI_TUNE_BIAS] = m.bias + ckci_bias_apart(&m);
    f->plan->split_k = m.shares || m.cluster > 1 ? 0 : m.split; /* planned again, and so again */
    f->plan->workspace_bytes = m.bytes;
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_matrix_weight(const ckconv_plan *plan, const ckci_problem *p,
                                              const ckconv_args *args, unsigned char *ws,
                                              const ckci_gpu_tile *tile, const ckci_emitter *e,
                                              ckconv_error *err)
{
    ckci_matrix m;
    ckci_conv conv = p->conv;
    const int bias = plan->tune[CKCI_TUNE_BIAS] != 0;
    double cost;
    (void)args;
    conv.dbias.dtype = bias ? conv.dbias.dtype : 0;
    if (ckci_matrix_weight(&conv, &plan->device, ckci_matrix_family(&plan->device), tile, plan->split_k,
                           ckci_run_limit(plan), ws, &m, &cost, NULL) != CKCONV_OK) {
        /* pointers less aligned than planned for */
        int64_t sums;
        memset(&m, 0, sizeof m);
        m.merge = 1;
        CKCI_TRY(ckci_gpu_weight(&p->conv, &plan->device, 64, plan->split_k, ckci_run_limit(plan), &m.l,
                                 &sums, &cost, err));
        m.split = m.l.a.conv.split;
        m.fold = m.split > 1;
        m.l.a.conv.o.partial = sums ? ws : NULL;
    }
    if (bias && !m.bias) {
        CKCI_TRY(ckci_emit_bias(plan, &p->conv, ws, e, err));
    }
    ckci_gpu_bias one;
    if (m.bias && !m.fold) {
        memset(&one, 0, sizeof one);
        one.o = ckci_bias_vector(&p->conv, m.l.a.conv.bias_turns);
        one.o.sums = m.l.a.conv.bias.sums;
        if (!ckci_bias_apart(&m)) { /* blocks write dbias */
            m.l.a.conv.bias = one.o;
        }
    }
    CKCI_TRY(ckci_emit_packed(plan, p, &m, e, err));
    if (ckci_bias_apart(&m)) {
        CKCI_TRY(ckci_emit_bias_sum(&one, CKCONV_F32, e, err));
    }
    ckci_conv sums = p->conv;
    if (m.turned) {
        sums.t[CKCI_WEI] = m.conv.t[CKCI_WEI];
    }
    if (m.fold) {
        CKCI_TRY(ckci_emit_reduce(&sums, m.split, &m.l.a.conv, m.l.a.conv.o.partial, e, err));
    }
    return ckci_emit_turned(plan, &p->conv.t[CKCI_WEI], &m, e, err);
}
