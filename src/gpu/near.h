/*------------------------------------------------------------------------------------------------------------
  >>gpu-near
  Small groups: blocks of 16 or 32 channels, 64 side by side; see ckci_k_near in kernels/matrix. Groups that
  do not fill a block are merged, with zeros between them. It chooses the regions of positions that blocks
  walk over: as large as LDS holds with two blocks on a compute unit, and as many as keep all of them busy.
  Costs are nanoseconds times CKCI_NEAR_BESIDE.
*/
#pragma once
#include "gpu/packs.h"

/* May near take the problem? The groups of a block are merged. In bwd_weight one side may have more channels
   than the other: blocks are for 64 channels of the wider one. */
CKCI_FN ckconv_status ckci_near_start(const ckci_conv *p, const ckconv_device *device, ckconv_family family,
                                      ckci_matrix *m, ckconv_error *err)
{
    static const ckci_gpu_tile like = {CKCI_TILE_HALF, 64, 64, 0, 0, 0, 0, 0, 0, {0, 0}};
    int weight = p->op == CKCONV_BWD_WEIGHT;
    int64_t more = ckci_max(p->k, p->c), less = ckci_max(ckci_min(p->k, p->c), 1);
    int64_t block = less > 16 ? 32 : 16, merge = ckci_max(block / ckci_max(more, 1), 1);
    int fits = weight ? more <= 32 && (more & (more - 1)) == 0 && (less & (less - 1)) == 0 && more > 0
                      : more == less && more > 1 && merge * more == block;
    CKCI_TRY(ckci_matrix_start(p, device, family, &like, m, err));
    if (!fits || p->g % merge != 0) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "near takes groups of 2, 4, 8, 16 or 32 channels on both sides (bwd_weight: also of 1, and "
            "K other than C) that fill blocks of 16 or 32; here K is %lld, C %lld, G %lld",
            CKCI_LL(p->k), CKCI_LL(p->c), CKCI_LL(p->g));
    }
    int touch = ckci_groups_touch(&p->t[CKCI_IN]) && ckci_groups_touch(&p->t[CKCI_OUT]);
    for (int i = 0; i < p->num_d && !weight; i++) {
        touch = touch && ckci_groups_touch(&p->d[i]);
    }
    if (!weight && device->kind == CKCONV_DEVICE_AMD && !ckci_few(&p->t[ckci_written(p->op)].op, 0)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "near on AMD does not compute the epilogue %s",
                         ckconv_element_name(p->t[ckci_written(p->op)].op.kind));
    }
    int steps = p->stride[0] > 1 || p->stride[1] > 1 || p->stride[2] > 1;
    const int32_t lds = device->kind == CKCONV_DEVICE_NVIDIA ? CKCI_NEAR_NVIDIA_LDS : 65536;
    if (p->filter[1] * p->filter[2] > 9 || device->lds_bytes < lds || (p->op == CKCONV_BWD_DATA && steps) ||
        m->terms > 1 || !touch) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "near takes up to 9 taps in a plane, no stride in bwd_data, channels of all groups side by "
            "side, and %d bytes of LDS",
            (int)lds);
    }
    m->conv = *p;
    m->merge = merge;
    ckci_merge_groups(&m->conv, merge);
    return CKCONV_OK;
}

/* fwd and bwd_data of filters of several planes: by near_deep */
CKCI_FN int ckci_near_deep(const ckci_conv *c)
{
    return c->op != CKCONV_BWD_WEIGHT && c->filter[0] > 1;
}

/* Pixels along a dimension of so many positions and their taps. */
CKCI_FN int64_t ckci_near_span(const ckci_conv *c, const ckci_gpu_conv *k, int dim, int64_t positions)
{
    return (positions - 1) * k->dim[dim].read_step + (c->filter[dim] - 1) * c->dilation[dim] + 1;
}

/* Sizes of a region and how it lies in LDS. Rows and images are so far apart there that positions lie 16
   bytes further each, modulo 128, across the ends of rows. 0: it is larger than LDS. */
CKCI_FN int ckci_near_shape(const ckci_conv *c, const ckconv_device *device, ckci_gpu_conv *k, int64_t images,
                            int64_t rows, int64_t columns)
{
    ckci_gpu_near *q = &k->as.region;
    int nvidia = device->kind == CKCONV_DEVICE_NVIDIA, weight = c->op == CKCONV_BWD_WEIGHT;
    int64_t bytes = nvidia ? CKCI_NEAR_NVIDIA_BYTES : CKCI_NEAR_AMD_BYTES;
    int64_t most = nvidia ? CKCI_NEAR_NVIDIA_PIXELS : CKCI_NEAR_AMD_PIXELS;
    int64_t high = ckci_near_span(c, k, 1, rows), wide = ckci_near_span(c, k, 2, columns);
    if (high > most || wide > most || images * high * wide > most) {
        return 0;
    }
    int64_t lines = q->rolled ? 1 : rows;
    int64_t row = wide * (CKCI_NEAR_PITCH / 16), image;
    row += q->rolled ? 0 : (columns * k->dim[2].read_step - row) & 7;
    image = high * row;
    image += (lines * columns * k->dim[2].read_step - image) & 7;
    q->images = (int32_t)images;
    q->rows = q->chunk = (int32_t)rows;
    q->columns = (int32_t)columns;
    q->lines = (int32_t)lines;
    q->tiles = (int32_t)ckci_ceil_div(images * lines * columns, 16);
    q->high = (int32_t)high;
    q->wide = (int32_t)wide;
    q->row_pitch = (int32_t)(row * 16);
    q->image_pitch = (int32_t)(image * 16);
    q->bytes = (int32_t)(images * image * 16);
    int64_t behind = weight ? (int64_t)q->tiles * 16 * CKCI_NEAR_PITCH
                     : nvidia && ckci_near_deep(c)
                         ? ((int64_t)16 << q->log_sides) * (c->filter[1] * c->filter[2] * c->k * 2 + 20)
                     : q->residual > 0 ? images * rows * columns * CKCI_NEAR_PITCH
                                       : 0;
    return q->bytes + behind <= bytes - 128;
}

/* What near's time counts beside that of tiles, whose costs are less than half of what they take where groups
   are merged. */
#define CKCI_NEAR_BESIDE 0.45

/* Nanoseconds that a block takes for a region while another shares its compute unit. */
CKCI_FN double ckci_near_cost(const ckci_conv *c, const ckci_gpu_near *q)
{
    double pixels = (double)q->images * q->high * q->wide,
           positions = (double)q->images * q->rows * q->columns;
    if (q->rolled) {
        int64_t chunks = ckci_ceil_div(q->rows, q->chunk);
        double steps = (q->rows + 2) * (20 + 1.5 * (double)c->k) + q->rows * 25;
        pixels = (double)q->images * (q->rows + 2) * q->wide;
        return 5 * ((double)chunks * 180 + 80 + pixels * 0.36 +
                    (double)ckci_ceil_div(q->tiles, 2) * (120 + steps));
    }
    if (ckci_near_deep(c)) { /* as timed on an H200 */
        double tiles = (double)ckci_ceil_div((int64_t)q->tiles << q->log_sides, 8);
        double weights = (double)(q->taps << q->log_sides) * (double)c->k;
        return q->planes * (1480 + 4 * pixels + tiles * (double)c->k * 24 + weights * 0.56);
    }
    return 2 * (250 + pixels * 1.5 + positions * 11.2 + (double)q->tiles * (double)ckci_max(c->k, c->c) * 2);
}

/* No region of so many images, rows and columns, or chunk of rows, takes less (taller regions have as many
   chunks in all): planning again at each run has no time to look at all of them. */
CKCI_FN double ckci_near_least(const ckci_conv *c, int rolled, int64_t images, int64_t rows, int64_t columns)
{
    double positions = (double)(images * rows * columns);
    if (rolled) {
        double tiles = (double)((images * columns + 15) / 16);
        return 5 * (180 + positions * 0.36 + tiles / 2 * (double)rows * (45 + 1.5 * (double)c->k));
    }
    return ckci_near_deep(c) ? (double)c->filter[0] * (1480 + 4 * positions) : 2 * (250 + positions * 12.7);
}

/* The next smaller size of regions that covers `all` with no more to spare than needed; 0: there is none. */
CKCI_FN int64_t ckci_near_less(int64_t all, int64_t size)
{
    return size > 1 ? ckci_ceil_div(all, ckci_ceil_div(all, size - 1)) : 0;
}

/* Chooses the regions of a problem: the cheapest that LDS holds. c: groups merged; side: blocks for a slice
   of channels. */
CKCI_FN ckconv_status ckci_near_regions(const ckci_conv *c, const ckconv_device *device, int64_t side,
                                        ckci_gpu_conv *k, double *cost, ckconv_error *err)
{
    int64_t deep = ckci_max(k->dim[0].length, 1);
    int64_t high = ckci_max(k->dim[1].length, 1), wide = ckci_max(k->dim[2].length, 1);
    int rolled = k->as.region.rolled, nvidia = device->kind == CKCONV_DEVICE_NVIDIA;
    int64_t lanes = nvidia ? CKCI_NEAR_NVIDIA_POSITIONS : CKCI_NEAR_AMD_POSITIONS;
    if (nvidia && ckci_near_deep(c) && k->as.region.log_sides == 2) {
        lanes /= 2; /* a wave's sums: four tiles */
    }
    ckci_gpu_near best;
    memset(&best, 0, sizeof best);
    int64_t over = ckci_ceil_div(wide, lanes);
    for (int64_t x = ckci_ceil_div(wide, over); x > 0; x = ckci_near_less(wide, x)) {
        int64_t down = rolled ? 1 : ckci_ceil_div(high, lanes / x);
        for (int64_t y = ckci_ceil_div(high, down); y > 0; y = ckci_near_less(high, y)) {
            over = ckci_ceil_div(wide, x);
            down = ckci_ceil_div(high, y);
            int64_t line = rolled ? 1 : y, most = 1;
            if (over == 1 && (rolled || down == 1)) {
                most = ckci_max(ckci_min(c->n, lanes / (x * line)), 1);
            }
            for (int64_t n = most; n > 0; n--) {
                int64_t images = ckci_ceil_div(ckci_max(c->n, 1), n);
                double parts = (double)images * (double)deep * (double)over * (double)down;
                if ((best.images && parts * ckci_near_least(c, rolled, n, y, x) >= *cost * (double)side) ||
                    !ckci_near_shape(c, device, k, n, y, x)) {
                    continue;
                }
                /* the waves' way down: of one chunk, or on through several ones of up to all rows */
                int64_t ways = rolled && nvidia && k->as.region.whole && k->as.region.tiles <= 2 ? down : 1;
                for (int64_t way = 1; way <= ways; way = way < ways ? ckci_min(2 * way, ways) : ways + 1) {
                    int64_t tall = ckci_min(ckci_ceil_div(high, ckci_ceil_div(ways, way)), high);
                    k->as.region.rows = (int32_t)(way == 1 ? y : ckci_ceil_div(tall, y) * y);
                    int64_t regions = ckci_saturating_mul(
                        ckci_saturating_mul(images, deep),
                        ckci_saturating_mul(over, ckci_ceil_div(high, k->as.region.rows)));
                    double time = (double)ckci_ceil_div(regions, side) * ckci_near_cost(c, &k->as.region);
                    if (regions <= INT32_MAX && (best.images == 0 || time < *cost)) {
                        best = k->as.region;
                        best.regions = (int32_t)regions;
                        *cost = time;
                    }
                }
            }
        }
    }
    k->as.region = best;
    return best.images ? CKCONV_OK
                       : ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                                   "near holds a position and its taps in LDS; these are too far apart");
}

/* The walk over regions: everything that the kernels read of it. blocks: for a slice; 0: the planner's. */
CKCI_FN ckconv_status ckci_near_walk(const ckci_conv *c, const ckconv_device *device, int64_t blocks,
                                     ckci_gpu_conv *k, double *cost, ckconv_error *err)
{
    ckci_gpu_near *q = &k->as.region;
    int back = c->op == CKCONV_BWD_DATA, weight = c->op == CKCONV_BWD_WEIGHT;
    int64_t first[3];
    k->tiles_n = (int32_t)ckci_max(ckci_ceil_div(c->g * ckci_max(c->k, c->c), 64), 1);
    k->by_tiles_n = ckci_make_divisor(k->tiles_n);
    int once = device->kind == CKCONV_DEVICE_NVIDIA && c->k == 32 && !weight && c->filter[0] == 1;
    q->planes = (int32_t)c->filter[0];
    q->taps = (int32_t)(c->filter[1] * c->filter[2]);
    q->by_planes = ckci_make_divisor(q->planes);
    int64_t side = (once ? 1 : 2) * (int64_t)ckci_max(device->compute_units, 1) / k->tiles_n;
    side = ckci_max(weight ? side / q->planes : side, 1);
    if (weight) {
        int64_t positions = c->n * c->output[0] * c->output[1] * c->output[2];
        side = ckci_max(side, device->kind == CKCONV_DEVICE_NVIDIA
                                  ? ckci_sum_parts(device, positions)
                                  : ckci_ceil_div(positions, CKCI_SUM_WHOLE)); /* no pieces there */
    }
    /* RDNA 3's operands are large: it holds the weights of 16 channels, and no more */
    q->rolled = !weight && q->planes == 1 && c->filter[1] == 3 && c->filter[2] == 3 && c->dilation[1] == 1 &&
                c->dilation[2] == 1 && k->dim[1].read_step == 1 &&
                (c->k == 16 || ckci_matrix_unit(device) != CKCI_UNIT_RDNA3);
    q->channels = (int32_t)(c->g * c->k);
    q->channels_in = (int32_t)(c->g * c->c);
    q->less_in = q->less_out = 0;
    for (int64_t more = c->k; more > c->c; more /= 2) {
        q->less_in++;
    }
    for (int64_t more = c->c; more > c->k; more /= 2) {
        q->less_out++;
    }
    q->log_sides = q->channels <= 16 ? 0 : q->channels <= 32 ? 1 : 2;
    CKCI_TRY(ckci_near_regions(c, device, blocks ? blocks : side, k, cost, err));
    q->parts = (int32_t)ckci_min(blocks ? blocks : side, q->regions);
    int64_t each = (int64_t)q->images * q->rows * q->columns,
            most = ckci_ceil_div(q->regions, ckci_max(q->parts, 1));
    k->chain = weight ? ckci_sum_items(device, most, each) : 0;
    if (k->chain) {
        CKCI_TRY(ckci_sum_fits(device, ckci_saturating_mul(most, each), err));
    }
    if (k->chain && device->kind != CKCONV_DEVICE_NVIDIA && most * each > 2 * CKCI_SUM_WHOLE) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "near sums up to %d positions in a part; here split_k of %d leaves %lld",
                         2 * (int)CKCI_SUM_WHOLE, (int)q->parts, CKCI_LL(most * each));
    }
    for (int i = 0; i < 3; i++) {
        int64_t reach = (c->filter[i] - 1) * c->dilation[i];
        first[i] = back ? c->pad[i] - reach : -c->pad[i];
    }
    q->first_z = (int32_t)first[0];
    q->first_y = (int32_t)first[1];
    q->first_x = (int32_t)first[2];
    q->back = back;
    for (int32_t t = 0; t < q->taps; t++) {
        int32_t at =
            back && ckci_near_deep(c) ? q->taps - 1 - t : t; /* in the order of the weights, not of pixels */
        int64_t y = at / c->filter[2], x = at % c->filter[2];
        q->tap[t] = (int32_t)(y * c->dilation[1] * q->row_pitch + x * c->dilation[2] * CKCI_NEAR_PITCH);
    }
    q->by_wide = ckci_make_divisor(q->wide);
    q->by_high = ckci_make_divisor(q->high);
    q->by_columns = ckci_make_divisor(q->columns);
    q->by_rows = ckci_make_divisor(q->lines);
    q->by_regions_x = ckci_make_divisor(ckci_ceil_div(k->dim[2].length, q->columns));
    q->by_regions_y = ckci_make_divisor(ckci_ceil_div(k->dim[1].length, q->rows));
    q->by_regions_z = ckci_make_divisor(k->dim[0].length);
    return CKCONV_OK;
}

/* fwd and bwd_data */
CKCI_FN ckconv_status ckci_near_gather(const ckci_conv *p, const ckconv_device *device, ckconv_family family,
                                       int64_t limit, unsigned char *ws, ckci_matrix *m, double *cost,
                                       ckconv_error *err)
{
    CKCI_TRY(ckci_near_start(p, device, family, m, err));
    ckci_conv *c = &m->conv;
    ckci_gpu_conv *k = &m->l.a.conv;
    int back = p->op == CKCONV_BWD_DATA;
    ckci_tensor *read = &c->t[back ? CKCI_OUT : CKCI_IN], *w = &c->t[CKCI_WEI];
    const char *what = back ? "dout" : "in";
    int64_t block = c->k, space, beyond[3];
    ckci_image(c, &space, beyond);
    CKCI_TRY(ckci_matrix_data(m, back ? CKCI_OUT : CKCI_IN, what, device, limit, ws, err));
    ckci_matrix_turned(m, device, limit, ws);
    ckci_tensor native = *w;
    m->pack = CKCI_PACK;
    /* several planes on NVIDIA: turned on the way from LDS */
    int turn = back && p->filter[0] > 1 && device->kind == CKCONV_DEVICE_NVIDIA;
    ckci_packed_weights(c, back && !turn, m->type, NULL, w);
    if (m->merge == 1 && native.plain && native.dtype == w->dtype && (uintptr_t)native.p % 16 == 0 &&
        memcmp(native.stride, w->stride, sizeof native.stride) == 0) {
        *w = native; /* they lie like that */
        m->pack = 0;
    } else {
        turn = 0;
        ckci_packed_weights(c, back, m->type, NULL, w);
    }
    /* blocks of NVIDIA put weights in order themselves, if these are few or eight of them are a load */
    int own = m->pack && device->kind == CKCONV_DEVICE_NVIDIA && native.plain && native.dtype == w->dtype;
    int eights = p->c % 8 == 0 && native.stride[2] == 1;
    for (int i = 0; i < 6; i++) {
        eights = eights && (i == 2 || native.stride[i] % 8 == 0);
    }
    own = own && p->filter[0] == 1 && (eights || p->c <= 16);
    if (own) {
        m->pack = 0;
        *w = p->t[CKCI_WEI];
    }
    if (m->pack) {
        CKCI_TRY(ckci_matrix_take(m, ckci_saturating_mul(ckci_count(w), 2), limit, ws, &w->p, err));
    }
    ckci_make_gpu_conv(c, k);
    k->as.region.packed = !own && !turn;
    k->as.region.eights = own && eights && (uintptr_t)native.p % 16 == 0;
    k->as.region.by_taps = ckci_make_divisor(p->filter[1] * p->filter[2]);
    k->as.region.by_filter_x = ckci_make_divisor(p->filter[2]);
    k->by_one_c = ckci_make_divisor(p->c);
    k->o_vec = ckci_aligned_columns(&k->o.t, k->columns);
    ckconv_dtype type = k->o.t.dtype;
    k->as.region.whole = k->o_vec && type == m->type;
    k->as.region.residual = CKCI_RESIDUAL_ANY;
    if (k->as.region.whole && device->kind == CKCONV_DEVICE_NVIDIA && !ckci_near_deep(c)) {
        k->as.region.residual = k->o.residual;
    }
    CKCI_TRY(ckci_near_walk(c, device, 0, k, cost, err));
    static const int32_t kernels[3][2] = {{CKCI_KERNEL_matrix_near_16, CKCI_KERNEL_matrix_near_32},
                                          {CKCI_KERNEL_matrix_near_deep_16, CKCI_KERNEL_matrix_near_deep_32},
                                          {CKCI_KERNEL_matrix_near_down_16, CKCI_KERNEL_matrix_near_down_32}};
    ckci_set_kernel(&m->l, kernels[k->as.region.rolled ? 2 : ckci_near_deep(c)][block == 32]);
    CKCI_TRY(ckci_matrix_reach(read, what, k->as.region.images + 1, beyond, err));
    CKCI_TRY(ckci_matrix_reach(&k->o.t, back ? "din" : "out", k->as.region.images + 1, NULL, err));
    m->l.grid = k->rows == 0 ? 0 : (int64_t)k->as.region.parts * k->tiles_n;
    /* on NVIDIA strips were timed: a block that has a compute unit for itself takes three quarters */
    double start = ckci_near_deep(c) ? 1.67 * 4000 : 8000, much = ckci_near_deep(c) ? 1.67 : 1.3;
    if (!ckci_near_deep(c) && k->as.region.rolled && device->kind == CKCONV_DEVICE_NVIDIA) {
        much = block == 32 ? 0.82 : 1.1;
        start = 5000;
    }
    start = ckci_cost_launch(device, start + (m->pack ? 4500 : 0));
    *cost = CKCI_NEAR_BESIDE * (ckci_cost_matrix(device, much * *cost) + start) + m->packing;
    if (!k->as.region.whole && ckci_beside(&k->o)) {
        *cost += CKCI_NEAR_BESIDE * ckci_single_cost(device, &k->o.t);
    }
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_matrix_either(const ckci_conv *p, const ckconv_device *device,
                                         ckconv_family family, const ckci_gpu_tile *tile, int64_t limit,
                                         unsigned char *ws, ckci_matrix *m, double *cost, ckconv_error *err)
{
    return tile->form == CKCI_TILE_NEAR
               ? ckci_near_gather(p, device, family, limit, ws, m, cost, err)
               : ckci_matrix_gather(p, device, family, tile, limit, ws, m, cost, err);
}

CKCI_FN ckconv_status ckci_fit_matrix_gather(ckci_fit *f, ckconv_error *err)
{
    ckci_matrix m;
    CKCI_TRY(ckci_gpu_no_split(f, err));
    CKCI_TRY(ckci_gpu_wrong_kind(f, ckci_conv_kind(&f->p->conv), err));
    CKCI_TRY(ckci_matrix_either(&f->p->conv, &f->plan->device, f->family, f->tile, f->limit, NULL, &m,
                                &f->cost, err));
    if (f->tile->form == CKCI_TILE_NEAR) {
        f->ns = ckci_cost_ns(f->cost - m.packing, 1 / CKCI_NEAR_BESIDE) + m.packing;
    }
    ckci_plan_launch(f->plan, &m.l, ckci_packed_launches(&m));
    f->plan->split_k = m.split > 1 ? m.split : 1;
    f->plan->workspace_bytes = m.bytes;
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_matrix_gather(const ckconv_plan *plan, const ckci_problem *p,
                                              const ckconv_args *args, unsigned char *ws,
                                              const ckci_gpu_tile *tile, const ckci_emitter *e,
                                              ckconv_error *err)
{
    ckci_matrix m;
    double cost;
    (void)args;
    if (ckci_matrix_either(&p->conv, &plan->device, ckci_matrix_family(&plan->device), tile,
                           ckci_run_limit(plan), ws, &m, &cost, NULL) != CKCONV_OK) {
        /* pointers less aligned than planned for */
        memset(&m, 0, sizeof m);
        m.merge = 1;
        CKCI_TRY(ckci_gpu_gather(&p->conv, &plan->device, 64, &m.l, &cost, err));
    }
    return ckci_emit_packed(plan, p, &m, e, err);
}
