/*------------------------------------------------------------------------------------------------------------
  >>gpu-stem
  First layers (see ckci_k_stem_fwd and ckci_k_stem_back in kernels/matrix): which problems they take, the
  tile of positions and the blocks. Few input channels leave a matrix unit's reduction mostly empty, so that
  these kernels lay it over taps and channels together; rows of pixels must lie dense in memory for that, with
  channels last or each channel by itself. bwd_weight has parts, which a second launch adds.
*/
#pragma once
#include "gpu/bias.h"
#include "gpu/depth_matrix.h"

/* Is a tensor of channels last one row of numbers for each y, whole 16-byte chunks? */
CKCI_FN int ckci_stem_dense(const ckci_tensor *t, ckconv_dtype type)
{
    return t->dtype == type && t->compute == type && t->op.kind == CKCONV_PASS &&
           (t->stride[2] == 1 || t->len[2] == 1) && t->stride[5] == t->len[2] &&
           t->len[2] * t->len[5] % 8 == 0 && (t->len[4] == 1 || t->stride[4] % 8 == 0) &&
           (t->len[1] == 1 || t->stride[1] % 8 == 0) && (uintptr_t)t->p % 16 == 0;
}

/* The same of channels first: rows of each plane are whole 16-byte chunks. */
CKCI_FN int ckci_stem_first(const ckci_tensor *t, ckconv_dtype type)
{
    int good = t->dtype == type && t->compute == type && t->stride[5] == 1 && t->len[5] % 8 == 0 &&
               (uintptr_t)t->p % 16 == 0;
    for (int i = 1; i < 5; i++) {
        good = good && (t->len[i] == 1 || t->stride[i] % 8 == 0);
    }
    return good;
}

/* Do its offsets inside an image fit 32 bits, in bytes? */
CKCI_FN int ckci_stem_near(const ckci_tensor *t, int64_t rows)
{
    int64_t reach = ckci_saturating_mul(t->stride[4], t->len[4] + rows);
    reach = ckci_saturating_add(reach, ckci_saturating_mul(t->stride[5], t->len[5] + rows));
    return ckci_saturating_mul(ckci_saturating_add(reach, t->stride[2] * t->len[2]), 2) <= INT32_MAX;
}

/* What stem kernels take. */
CKCI_FN ckconv_status ckci_stem_takes(const ckci_conv *p, const ckconv_device *device, ckconv_family family,
                                      ckconv_error *err)
{
    const ckci_tensor *in = &p->t[CKCI_IN], *out = &p->t[CKCI_OUT], *w = &p->t[CKCI_WEI];
    ckconv_dtype type = out->dtype;
    CKCI_TRY(ckci_need_unit(device, family, err));
    CKCI_TRY(ckci_gpu_takes(p, err));
    int weight = p->op == CKCONV_BWD_WEIGHT, back = p->op == CKCONV_BWD_DATA;
    ckci_gpu_target target;
    ckci_set_target(p, &target);
    if ((type != CKCONV_F16 && type != CKCONV_BF16) || in->dtype != type || (!weight && w->compute != type) ||
        (back && target.form != CKCI_FORM_STORE) || (!weight && target.form > CKCI_FORM_LINEAR)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "stem takes f16 or bf16 alone, linear epilogues with D tensors by lines, and no "
                         "operation on what bwd_data writes");
    }
    if (p->g != 1 || p->c > 4 || p->k % 16 != 0 || p->k > 128 || p->filter[0] * p->input[0] != 1 ||
        p->pad[0] != 0 || p->output[0] != 1 || p->dilation[2] != 1 ||
        (p->dilation[1] != 1 && p->op == CKCONV_BWD_DATA)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "stem takes one group with C up to 4 and K up to 128, a multiple of 16, in 1D or 2D "
                         "without dilation; here C is %lld, K %lld",
                         CKCI_LL(p->c), CKCI_LL(p->k));
    }
    int rows = back || ckci_stem_dense(in, type) || (in->op.kind == CKCONV_PASS && ckci_stem_first(in, type)),
        chunks = ckci_aligned_columns(out, p->k) || (!back && ckci_stem_first(out, type));
    if (!rows || !chunks || (p->op != CKCONV_FWD && (out->compute != type || out->op.kind != CKCONV_PASS))) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "stem takes tensors aligned to 16 bytes, channels last with rows of `in` that are "
                         "multiples of them, or (but in bwd_data) first with widths that are");
    }
    int64_t beside = 0; /* bwd_data: phases are offsets, too */
    for (int i = 1; i < 3; i++) {
        beside = ckci_max(beside, p->filter[i] * p->dilation[i] + p->pad[i] + (back ? p->stride[i] : 0));
    }
    if (device->lds_bytes < (device->kind == CKCONV_DEVICE_NVIDIA ? 116224 : 65536) ||
        !ckci_stem_near(in, beside) || !ckci_stem_near(out, p->filter[1])) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "stem takes 64 KiB of LDS (NVIDIA: 113.5) and images of less than 2^31 bytes");
    }
    return CKCONV_OK;
}

/* fwd: are pixels staged by eights? */
CKCI_FN int ckci_stem_eights(const ckci_gpu_stem *k)
{
    return k->in_first || k->channels < k->c;
}

/* Bytes of LDS of a tile of `high` rows of `wide` positions. */
CKCI_FN int64_t ckci_stem_bytes(const ckci_gpu_stem *k, int back, int64_t high, int64_t wide)
{
    if (back) {
        return (high + k->window[0] - 1) * (wide + k->window[1] - 1) * k->pitch;
    }
    int64_t numbers =
        k->left - k->pad[1] * k->c - k->odd + (wide - 1) * k->stride[1] * k->c + 2 * (int64_t)k->row_pairs;
    const int64_t chunk = ckci_stem_eights(k) ? 8 * k->c : 8;
    return ((high - 1) * k->stride[0] + (k->filter[0] - 1) * (int64_t)k->dilation_y + 1) *
           (ckci_ceil_div(numbers, chunk) * 2 * chunk);
}

/* The cheapest tile of the positions y and x, in cycles of a compute unit: products (`each` for 16
   positions), bytes that are staged, barriers. 0: none fits. */
CKCI_FN double ckci_stem_tile(ckci_gpu_stem *k, const ckconv_device *device, int back, int64_t y, int64_t x,
                              double each)
{
    int nvidia = device->kind == CKCONV_DEVICE_NVIDIA;
    int64_t most = back ? CKCI_STEM_BACK_PIXELS(nvidia) : CKCI_STEM_PIXELS(nvidia), before = 0;
    int64_t side = nvidia ? 2 : 1, sweep = device->wave_size == 64 ? 128 : 256;
    int64_t blocks = ckci_max(ckci_max(device->compute_units, 1) * side / k->tiles_n, 1);
    double least = 0;
    for (int64_t parts = 1; parts <= 1024; parts += parts < 24 ? 1 : parts / 2) {
        int64_t wide = ckci_ceil_div(x, parts);
        wide = parts > 1 && !back ? ckci_ceil_div(wide, 8) * 8 : wide;
        for (int64_t high = 1; high <= ckci_min(y, 32) && wide != before; high++) {
            int64_t bytes = ckci_stem_bytes(k, back, high, wide);
            if (bytes > most) {
                break;
            }
            int64_t tiles = ckci_ceil_div(y, high) * ckci_ceil_div(x, wide);
            int64_t rounds = ckci_ceil_div(ckci_saturating_mul(tiles, k->n), blocks);
            double cycles = (double)(ckci_ceil_div(high * wide, sweep) * (sweep / 16)) * each;
            cycles = (double)side * (double)rounds * (cycles + (double)bytes / 40 + 600);
            if (least == 0 || cycles < least) {
                least = cycles;
                k->tile[0] = (int32_t)high;
                k->tile[1] = (int32_t)wide;
            }
        }
        before = wide;
    }
    if (least > 0) {
        k->tiles[0] = (int32_t)ckci_ceil_div(y, k->tile[0]);
        k->tiles[1] = (int32_t)ckci_ceil_div(x, k->tile[1]);
        int64_t items = ckci_saturating_mul((int64_t)k->tiles[0] * k->tiles[1], k->n);
        k->items = (int32_t)ckci_min(items, INT32_MAX);
        k->blocks = (int32_t)ckci_min(blocks, items);
    }
    return least;
}

/* What a launch takes of so many cycles of a unit, or of both tensors' bytes: a unit moves as many of them in
   its time as where nothing else is done (group norm, pairs). */
CKCI_FN double ckci_stem_time(const ckci_conv *p, const ckconv_device *device, double cycles)
{
    const double bytes = 2 * ((double)ckci_count(&p->t[CKCI_IN]) + (double)ckci_count(&p->t[CKCI_OUT]));
    const double moved = ckci_cost_bytes(device, bytes, 20),
                 products = ckci_cost_matrix(device, cycles / 1.7);
    return moved > products ? moved : products;
}

CKCI_FN void ckci_stem_start(const ckci_conv *p, ckci_gpu_stem *k)
{
    int back = p->op == CKCONV_BWD_DATA;
    memset(k, 0, sizeof *k);
    k->a = p->t[back ? CKCI_OUT : CKCI_IN];
    k->b = p->t[CKCI_WEI];
    ckci_set_target(p, &k->o);
    k->type = p->t[CKCI_OUT].dtype;
    k->n = (int32_t)p->n;
    k->k = (int32_t)p->k;
    k->channels = (int32_t)p->c;
    k->c = k->channels; /* pairs of numbers begin at even ones for each position */
    k->c += p->op == CKCONV_FWD && p->stride[2] * p->c % 2 != 0;
    k->dilation_y = (int32_t)p->dilation[1];
    k->in_first = !back && !ckci_stem_dense(&p->t[CKCI_IN], k->type);
    k->out_first = !ckci_aligned_columns(&p->t[CKCI_OUT], p->k);
    if (k->out_first && p->op == CKCONV_FWD) { /* of a line: one number for its channel */
        k->o.across = 1;
        for (int32_t j = 0; j < k->o.num_d; j++) {
            k->o.d[j].stride[5] = k->o.d[j].stride[2];
        }
    }
    for (int i = 0; i < 2; i++) {
        k->filter[i] = (int32_t)p->filter[i + 1];
        k->input[i] = (int32_t)p->input[i + 1];
        k->output[i] = (int32_t)p->output[i + 1];
        k->stride[i] = (int32_t)p->stride[i + 1];
        k->pad[i] = (int32_t)p->pad[i + 1];
        k->window[i] = (int32_t)ckci_ceil_div(p->filter[i + 1], p->stride[i + 1]);
        k->first[i] = k->pad[i] / k->stride[i];
    }
    k->by_c = ckci_make_divisor(k->c);
    k->by_stride_x = ckci_make_divisor(k->stride[1]);
    k->by_window_x = ckci_make_divisor(k->window[1]);
}

CKCI_FN ckconv_status ckci_matrix_stem(const ckci_conv *p, const ckconv_device *device, ckconv_family family,
                                       ckci_launch *l, double *cost, ckconv_error *err)
{
    int back = p->op == CKCONV_BWD_DATA;
    ckci_gpu_stem *k = &l->a.stem;
    CKCI_TRY(ckci_stem_takes(p, device, family, err));
    ckci_stem_start(p, k);
    int64_t y = k->output[0], x = k->output[1], steps, chunks;
    if (back) {
        int64_t columns = p->stride[1] * p->stride[2] * p->c;
        steps = (int64_t)k->window[0] * k->window[1] * p->k / 16;
        if (columns > CKCI_STEM_COLUMNS ||
            ckci_ceil_div(columns, 16) * 16 * (steps * 32 + 16) > CKCI_STEM_WEIGHTS) {
            return ckci_fail(
                err, CKCONV_ERR_UNSUPPORTED,
                "stem takes strides whose product with C is up to %d in bwd_data, and weights that "
                "fill %d bytes of LDS",
                CKCI_STEM_COLUMNS, CKCI_STEM_WEIGHTS);
        }
        k->columns = (int32_t)columns;
        k->pitch = (int32_t)p->k * 2 + 16;
        k->row_pairs = (int32_t)p->k / 2;
        k->tiles_n = 1;
        chunks = p->k / 8;
        y = (k->input[0] - 1 + k->pad[0]) / k->stride[0] - k->first[0] + 1;
        x = (k->input[1] - 1 + k->pad[1]) / k->stride[1] - k->first[1] + 1;
    } else {
        k->odd = k->pad[1] * k->c % 2;
        k->left =
            ckci_stem_eights(k) ? (k->pad[1] + 7) / 8 * 8 * k->c : (k->pad[1] * k->c + k->odd + 7) / 8 * 8;
        k->row_pairs = (k->odd + k->filter[1] * k->c + 1) / 2;
        steps = ckci_ceil_div((int64_t)k->filter[0] * k->row_pairs, 8);
        if (steps * 8 > CKCI_STEM_PAIRS) {
            return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "stem takes filters of up to %d numbers",
                             2 * CKCI_STEM_PAIRS);
        }
        k->tiles_n = (int32_t)ckci_ceil_div(p->k, 64);
        chunks = 0;
    }
    k->steps = (int32_t)steps;
    double each = (double)steps * (back ? 10 * (double)ckci_ceil_div(k->columns, 16) : 18);
    double cycles = ckci_stem_tile(k, device, back, y, x, each);
    if (y > 0 && x > 0 && k->n > 0 && cycles == 0) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "stem holds no tile of these pixels in LDS");
    }
    if (back) {
        k->rows = k->tile[0] + k->window[0] - 1;
    } else {
        int64_t wide = ckci_stem_bytes(k, 0, 1, k->tile[1]);
        k->rows = (k->tile[0] - 1) * k->stride[0] + (k->filter[0] - 1) * k->dilation_y + 1;
        k->pitch = (int32_t)(wide / ((k->filter[0] - 1) * k->dilation_y + 1));
        chunks = k->pitch / (ckci_stem_eights(k) ? 16 * k->c : 16);
    }
    k->by_tile_x = ckci_make_divisor(k->tile[1]);
    k->by_tiles_x = ckci_make_divisor(k->tiles[1]);
    k->by_tiles_y = ckci_make_divisor(k->tiles[0]);
    k->by_tiles_n = ckci_make_divisor(k->tiles_n);
    k->by_pairs = ckci_make_divisor(steps * 8);
    k->by_row = ckci_make_divisor(k->row_pairs);
    k->by_chunks = ckci_make_divisor(chunks);
    k->by_wide = ckci_make_divisor(k->tile[1] + k->window[1] - 1);
    ckci_set_kernel(l, back ? CKCI_KERNEL_matrix_stem_bwd_data : CKCI_KERNEL_matrix_stem_fwd);
    l->grid = (int64_t)k->blocks * k->tiles_n;
    *cost = ckci_cost_launch(device, 4000) + ckci_stem_time(p, device, cycles);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_fit_matrix_stem(ckci_fit *f, ckconv_error *err)
{
    ckci_launch l;
    CKCI_TRY(ckci_gpu_no_split(f, err));
    CKCI_TRY(ckci_gpu_wrong_kind(f, ckci_conv_kind(&f->p->conv), err));
    CKCI_TRY(ckci_matrix_stem(&f->p->conv, &f->plan->device, f->family, &l, &f->cost, err));
    ckci_plan_launch(f->plan, &l, 1);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_matrix_stem(const ckconv_plan *plan, const ckci_problem *p,
                                            const ckconv_args *args, unsigned char *ws,
                                            const ckci_gpu_tile *tile, const ckci_emitter *e,
                                            ckconv_error *err)
{
    ckci_launch l;
    double cost;
    (void)args;
    (void)ws;
    (void)tile;
    if (ckci_matrix_stem(&p->conv, &plan->device, ckci_matrix_family(&plan->device), &l, &cost, NULL) !=
        CKCONV_OK) { /* pointers less aligned than planned for */
        CKCI_TRY(ckci_gpu_gather(&p->conv, &plan->device, 64, &l, &cost, err));
    }
    return l.grid == 0 ? CKCONV_OK : e->emit(e->context, &l, err);
}

/* The tile of bwd_weight: as ckci_stem_tile, and its planes. */
CKCI_FN double ckci_stem_weight_tile(ckci_gpu_stem *k, const ckconv_device *device, int64_t blocks,
                                     double each)
{
    int nvidia = device->kind == CKCONV_DEVICE_NVIDIA;
    int64_t y = k->output[0], x = k->output[1], before = 0;
    double least = 0;
    for (int64_t parts = ckci_ceil_div(x, CKCI_STEM_POSITIONS(nvidia)), more = 0; more < 4; parts++, more++) {
        int64_t wide = ckci_ceil_div(x, ckci_max(parts, 1));
        wide = parts > 1 ? ckci_ceil_div(wide, 8) * 8 : wide;
        int64_t positions = ckci_ceil_div(wide, 16) * 16,
                length = positions + (k->filter[1] - 1) / k->stride[1];
        int64_t plane = ckci_ceil_div(length * 2 - 14, 128) * 128 + 16;
        int64_t pitch = (2 * k->planes + (k->ones > 0)) * plane;
        int64_t numbers = k->in_first ? k->left - k->pad[1] + (length / 2 * 2 + 3) * k->stride[1]
                                      : k->left - k->pad[1] * k->c + (length / 2 * 2 + 3) * k->planes;
        int64_t chunks = ckci_ceil_div(numbers, 8);
        for (int64_t high = 1; high <= ckci_min(y, 16) && wide != before && wide > 0; high++) {
            int64_t rows = (high - 1) * k->stride[0] + (k->filter[0] - 1) * (int64_t)k->dilation_y + 1;
            if (rows * (pitch + (k->in_first ? k->c : 1) * chunks * 16) > CKCI_STEM_PLANES(nvidia) ||
                positions > CKCI_STEM_POSITIONS(nvidia)) {
                break;
            }
            int64_t tiles = ckci_ceil_div(y, high) * ckci_ceil_div(x, wide);
            int64_t rounds = ckci_ceil_div(ckci_saturating_mul(tiles, k->n), blocks);
            double cycles = (double)(high * positions / 16) * each + (double)(rows * length * k->planes) / 6;
            cycles = (double)rounds * (cycles + 800);
            if (least == 0 || cycles < least) {
                least = cycles;
                k->tile[0] = (int32_t)high;
                k->tile[1] = (int32_t)wide;
                k->rows = (int32_t)rows;
                k->length = (int32_t)length;
                k->plane = (int32_t)plane;
                k->pitch = (int32_t)pitch;
                k->ones = k->ones ? (int32_t)(2 * k->planes * plane) : 0;
                k->chunks = (int32_t)chunks;
                k->tiles[0] = (int32_t)ckci_ceil_div(y, high);
                k->tiles[1] = (int32_t)ckci_ceil_div(x, wide);
                k->items = (int32_t)ckci_min(ckci_saturating_mul(tiles, k->n), INT32_MAX);
            }
        }
        before = wide;
    }
    return least;
}

/* bwd_weight: parts of the positions are the blocks that run side by side, or split_k. */
CKCI_FN ckconv_status ckci_stem_weight(const ckci_conv *p, const ckconv_device *device, ckconv_family family,
                                       int32_t split_k, int64_t limit, ckci_launch *l, int64_t *bytes,
                                       double *cost, ckconv_error *err)
{
    ckci_gpu_stem *k = &l->a.stem;
    CKCI_TRY(ckci_stem_takes(p, device, family, err));
    ckci_stem_start(p, k);
    k->a = p->t[CKCI_OUT];
    k->b = p->t[CKCI_IN];
    ckci_set_target(p, &k->o);
    int64_t columns = p->filter[1] * p->filter[2] * p->c, one = ckci_saturating_mul(columns * p->k, 4);
    k->columns = (int32_t)columns;
    k->tiles_c = (int32_t)ckci_ceil_div(columns, 160);
    k->tiles_n = (int32_t)ckci_ceil_div(p->k, 64);
    k->planes = k->stride[1] * k->c;
    k->left = ((k->in_first ? k->pad[1] : k->pad[1] * k->c) + 7) / 8 * 8;
    k->ones = p->dbias.dtype && p->t[CKCI_OUT].plain && columns % 160 != 0;
    int64_t shares = (int64_t)k->tiles_c * k->tiles_n;
    int64_t blocks = ckci_max(ckci_max(device->compute_units, 1) * 2 / shares, 1);
    int64_t positions = ckci_saturating_mul(p->n, p->output[1] * p->output[2]);
    blocks = ckci_max(blocks, ckci_sum_parts(device, positions));
    blocks = split_k > 0 ? split_k : ckci_max(ckci_min(blocks, limit / ckci_max(one, 1)), 1);
    double each = 90 * (double)ckci_ceil_div(ckci_min(columns, 160), 32) / 5;
    double cycles = ckci_stem_weight_tile(k, device, blocks, 2 * each);
    if (cycles == 0 && k->n > 0 && k->output[0] > 0 && k->output[1] > 0) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "stem holds no tile of these pixels in LDS");
    }
    blocks = ckci_max(ckci_min(blocks, k->items), 1);
    k->blocks = (int32_t)blocks;
    k->chain = ckci_sum_items(device, ckci_ceil_div(k->items, blocks), (int64_t)k->tile[0] * k->tile[1]);
    if (k->chain) {
        CKCI_TRY(ckci_sum_fits(device, ckci_ceil_div(k->items, blocks) * k->tile[0] * k->tile[1], err));
    }
    *bytes = ckci_saturating_mul(blocks, one + (k->ones ? 4 * p->k : 0));
    CKCI_TRY(ckci_sums_fit(split_k, *bytes, limit, err));
    if (one > INT32_MAX) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: 2^29 - 1 weights can be split",
                         (int)split_k);
    }
    k->by_tile_x = ckci_make_divisor(k->tile[1]);
    k->by_tiles_x = ckci_make_divisor(k->tiles[1]);
    k->by_tiles_y = ckci_make_divisor(k->tiles[0]);
    k->by_tiles_n = ckci_make_divisor(k->tiles_n);
    k->by_tiles_c = ckci_make_divisor(k->tiles_c);
    k->by_chunks = ckci_make_divisor(k->chunks);
    k->by_planes = ckci_make_divisor(k->planes);
    k->by_filter_x = ckci_make_divisor(k->filter[1]);
    const int64_t line = ckci_ceil_div(k->tile[1], 16) * 2; /* chunks */
    k->line = (int32_t)(line * 16 + 16);
    k->by_line = ckci_make_divisor(ckci_max(line, 1));
    ckci_set_kernel(l, CKCI_KERNEL_matrix_stem_bwd_weight);
    l->grid = blocks * shares;
    *cost = ckci_cost_launch(device, 10000) + ckci_stem_time(p, device, cycles);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_fit_stem_weight(ckci_fit *f, ckconv_error *err)
{
    ckci_launch l;
    int64_t bytes;
    CKCI_TRY(ckci_gpu_wrong_kind(f, ckci_conv_kind(&f->p->conv), err));
    CKCI_TRY(ckci_stem_weight(&f->p->conv, &f->plan->device, f->family, f->split_k, f->limit, &l, &bytes,
                              &f->cost, err));
    ckci_plan_launch(f->plan, &l, 2);
    f->plan->tune[CKCI_TUNE_BIAS] = l.a.stem.ones > 0;
    f->plan->split_k = l.a.stem.blocks;
    f->plan->workspace_bytes = bytes;
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_stem_weight(const ckconv_plan *plan, const ckci_problem *p,
                                            const ckconv_args *args, unsigned char *ws,
                                            const ckci_gpu_tile *tile, const ckci_emitter *e,
                                            ckconv_error *err)
{
    ckci_launch l;
    int64_t bytes;
    double cost;
    (void)args;
    (void)tile;
    if (ckci_stem_weight(&p->conv, &plan->device, ckci_matrix_family(&plan->device), plan->split_k,
                         ckci_run_limit(plan), &l, &bytes, &cost, NULL) == CKCONV_OK) {
        int32_t split = l.a.stem.blocks;
        unsigned char *sums = ws + 4 * (int64_t)split * p->conv.k * l.a.stem.columns;
        const int bias = l.a.stem.ones > 0;
        l.a.stem.partial = ws;
        l.a.stem.sums = bias ? sums : NULL;
        CKCI_TRY(e->emit(e->context, &l, err));
        ckci_make_gpu_conv(&p->conv, &l.a.conv);
        ckci_set_kernel(&l, CKCI_KERNEL_matrix_stem_sum);
        l.a.conv.split = split;
        l.a.conv.o.partial = ws;
        l.grid = ckci_ceil_div((int64_t)l.a.conv.rows * l.a.conv.columns, 32);
        if (bias) {
            l.a.conv.bias = ckci_bias_vector(&p->conv, split);
            l.a.conv.bias.sums = sums;
            l.a.conv.bias_at = l.grid;
            l.grid += ckci_ceil_div(p->conv.k, 16);
        }
        return e->emit(e->context, &l, err);
    }
    /* pointers less aligned than planned for */
    if (plan->tune[CKCI_TUNE_BIAS]) {
        CKCI_TRY(ckci_emit_bias(plan, &p->conv, ws, e, err));
    }
    CKCI_TRY(ckci_gpu_weight(&p->conv, &plan->device, 64, plan->split_k, ckci_run_limit(plan), &l, &bytes,
                             &cost, err));
    l.a.conv.o.partial = bytes ? ws : NULL;
    CKCI_TRY(e->emit(e->context, &l, err));
    return l.a.conv.split > 1 ? ckci_emit_reduce(&p->conv, l.a.conv.split, NULL, ws, e, err) : CKCONV_OK;
}
