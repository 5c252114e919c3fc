/*------------------------------------------------------------------------------------------------------------
  >>gpu-pointwise
  Layers of one tap and few channels whose weights stay in LDS while waves stream positions past them
  (kernels/matrix/pointwise.h; channels first: planes.h): less is loaded and awaited than by tiles, which go
  through a ring in LDS and meet at barriers. Up to 256 channels of the reduction, and as many weights as LDS
  holds; channels first, up to 128, and planes of any multiple of four positions.
*/
#pragma once
#include "gpu/matrix.h"

/* Are eight numbers along a dimension of step 1 one aligned load, where others go by `apart`? */
CKCI_FN int ckci_aligned_eights(const ckci_tensor *t, int64_t count, int64_t apart)
{
    return count % 8 == 0 && apart % 8 == 0 && (uintptr_t)t->p % 16 == 0;
}

/* A cost of tiles leaves out what so short a reduction waits for, and that tiles copy, multiply and store
   channels by 64s: beside them this kernel's counts as much less than a run takes (beside tiles of the TMA:
   H200, 53 layers and passes; OTHERS: H100). */
#define CKCI_POINTWISE_BESIDE .9
#define CKCI_POINTWISE_BESIDE_OTHERS .55
CKCI_FN double ckci_pointwise_beside(const ckconv_device *device, const ckci_gpu_conv *k)
{
    const double red = (double)ckci_ceil_div(k->red, 64) * 64,
                 columns = (double)ckci_ceil_div(k->columns, 64) * 64;
    if (ckci_tma_there(device)) { /* however few exist, weights are awaited, then positions */
        const double exist = (double)k->red / red * (double)k->columns / columns;
        return CKCI_POINTWISE_BESIDE * (exist > .25 ? exist : .25);
    }
    return CKCI_POINTWISE_BESIDE_OTHERS * (double)(k->red + k->columns) / (red + columns);
}

/* What a run takes, in nanoseconds (H100, H200: 44 layers and passes; AMD: for want of measurements): until
   weights lie in LDS and the first positions come; for products of 16 positions, 32 columns and 32 places.
   Bytes that a unit moves in one, of kernels of which two blocks fit it, and of the one for up to 256
   places. */
#define CKCI_POINTWISE_START 8000
#define CKCI_POINTWISE_PRODUCTS 28.2
#define CKCI_POINTWISE_BYTES 20
#define CKCI_POINTWISE_BYTES_256 17

/* Bytes of the numbers that LDS may have for a column: what is added to its sums, what they are multiplied
   with. */
CKCI_FN int64_t ckci_point_numbers(const ckci_gpu_target *o)
{
    return ckci_multiplies(o) ? 8 : 4;
}

/* Where behind `bytes` of weights in LDS, of `room`, those of `columns` go (0: it is not the linear form, or
   they have no room), and whether a residual comes to them. Zero: there are factors without a place. */
CKCI_FN int ckci_point_epilogue(ckci_gpu_conv *k, int64_t bytes, int64_t columns, int64_t room)
{
    const ckci_gpu_target *o = &k->o;
    const int64_t numbers = columns * ckci_point_numbers(o);
    const int fits = o->form == CKCI_FORM_LINEAR && !o->scale && !o->shift && bytes + numbers <= room;
    const int factors = fits && o->residual == CKCI_RESIDUAL_FACTORS;
    k->as.point.added = fits ? (int32_t)bytes : 0;
    k->as.point.factors = factors ? (int32_t)(bytes + 4 * columns) : 0;
    k->as.point.residual = fits && o->residual > 0 && ckci_size(o->t.dtype) == 2 ? o->residual : 0;
    return factors || !ckci_multiplies(o);
}

CKCI_FN ckconv_status ckci_point_factors(ckconv_error *err)
{
    return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                     "pointwise takes factors for each channel where LDS has room for them beside weights");
}

/* What both orders of channels ask for. */
CKCI_FN ckconv_status ckci_points_fit(const ckci_conv *p, const ckconv_device *device, ckconv_family family,
                                      ckconv_error *err)
{
    const ckci_tensor *a = &p->t[p->op == CKCONV_BWD_DATA ? CKCI_OUT : CKCI_IN], *b = &p->t[CKCI_WEI];
    const ckconv_dtype o = p->t[ckci_written(p->op)].dtype;
    CKCI_TRY(ckci_need_unit(device, family, err));
    if (p->g != 1 || !ckci_pointwise(p)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "pointwise is for one tap, stride 1 and one group");
    }
    if ((a->dtype != CKCONV_F16 && a->dtype != CKCONV_BF16) || a->dtype != b->dtype ||
        a->compute != a->dtype || b->compute != b->dtype || a->op.kind != CKCONV_PASS ||
        b->op.kind != CKCONV_PASS) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "pointwise reads two tensors of f16 or of bf16, without an operation or rounding");
    }
    if (o != CKCONV_F16 && o != CKCONV_BF16 && o != CKCONV_F32) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "pointwise writes f16, bf16 or f32; here it is %s",
                         ckconv_dtype_name(o));
    }
    if (b->stride[2] != 1 || !ckci_aligned_eights(b, b->len[2], b->stride[1])) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "pointwise reads eight input channels of wei together");
    }
    return ckci_gpu_takes(p, err);
}

/* planes: a wave of so many threads takes so many fours of positions; 32s of channels that its registers
   hold. */
typedef struct ckci_planes_unit {
    int64_t fours, wave, steps;
} ckci_planes_unit;

CKCI_FN ckci_planes_unit ckci_find_planes_unit(const ckconv_device *device, ckconv_family family)
{
    const int mfma = family == CKCONV_FAMILY_MFMA, few = mfma || ckci_matrix_unit(device) == CKCI_UNIT_RDNA3;
    const ckci_planes_unit u = {mfma ? 32 : 16, mfma ? 64 : 32, few ? 2 : 4};
    return u;
}

/* Nanoseconds of a run of planes (H200, 114 layers and passes): until the first positions come (more than 64
   channels: one block has a unit, and nothing fills its waits); each time that waves take fours; 32 columns
   of 32 places of theirs. Bytes that a unit moves in one, of up to 32 channels, 64, and more. */
#define CKCI_PLANES_START(STEPS) ((STEPS) > 2 ? 11000 : 6300)
#define CKCI_PLANES_ROUND 1300
#define CKCI_PLANES_PRODUCTS 626
#define CKCI_PLANES_BYTES(STEPS) ((STEPS) > 2 ? 28 : (STEPS) > 1 ? 24 : 31)

/* Beside tiles, whose costs leave out what a launch waits for before it multiplies, and count a nanosecond of
   theirs as less than it takes (H200, 924 tiles of 233 layers and passes). Tiles that copy planes
   of fours count what each step waits for (ckci_tma_copy), so that less is left out (H200, 56 entries). */
#define CKCI_PLANES_LATE 8000
#define CKCI_PLANES_COPIED 3000
#define CKCI_PLANES_BESIDE (1 / 1.2)
CKCI_FN double ckci_planes_beside(const ckconv_device *device, int64_t fours, double ns)
{
    const double least = ckci_cost_launch(device, 1000);
    const int copied = ckci_tma_there(device) && fours % 2 != 0;
    ns = (ns - ckci_cost_launch(device, copied ? CKCI_PLANES_COPIED : CKCI_PLANES_LATE)) * CKCI_PLANES_BESIDE;
    return ns > least ? ns : least;
}

/* The launch with channels first, and the nanoseconds of a run. */
CKCI_FN ckconv_status ckci_gpu_planes(const ckci_conv *p, const ckconv_device *device, ckconv_family family,
                                      ckci_launch *l, double *cost, ckconv_error *err)
{
    const int back = p->op == CKCONV_BWD_DATA, nvidia = device->kind == CKCONV_DEVICE_NVIDIA;
    const int which = back ? CKCI_OUT : CKCI_IN, written = ckci_written(p->op);
    const ckci_tensor *a = &p->t[which], *o = &p->t[written];
    const int64_t space = p->input[0] * p->input[1] * p->input[2];
    const ckci_planes_unit u = ckci_find_planes_unit(device, family);
    ckci_gpu_conv *k = &l->a.conv;
    ckci_conv image = *p;
    CKCI_TRY(ckci_points_fit(p, device, family, err));
    int fits = ckci_image_tensor(a, p, 1, &image.t[which]) && ckci_image_tensor(o, p, 1, &image.t[written]);
    for (int i = 0; i < p->num_d; i++) {
        fits = fits && ckci_image_tensor(&p->d[i], p, p->d[i].stride[5], &image.d[i]);
    }
    fits = fits && ckci_aligned_planes(a, space, 4) && ckci_aligned_planes(o, space, 4);
    if (!fits) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "pointwise reads and writes eight channels together, or four positions of planes");
    }
    ckci_make_gpu_conv(p, k);
    ckci_set_target(&image, &k->o);
    k->o.across = 1;
    ckci_set_form(&k->o);
    const int64_t pitch = ckci_ceil_div(k->red, 64) * 128,
                  columns = ckci_max(ckci_ceil_div(k->columns, 32), 1) * 32,
                  steps = ckci_max(ckci_ceil_div(k->red, 32), 1);
    if (k->o.form == CKCI_FORM_SINGLE || k->o.scale || k->o.shift || steps > u.steps ||
        ckci_saturating_mul(a->stride[2], 32 * u.steps) > INT32_MAX / 4) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "pointwise takes up to %d channels of planes, and D tensors that are added, have one "
            "number for each channel or lie as the output",
            (int)(32 * u.steps));
    }
    const int64_t room = steps <= 2 ? steps : 4, waves = CKCI_PLANES_THREADS(room) / u.wave,
                  units = (int64_t)ckci_units(device) *
                          (nvidia ? CKCI_PLANES_BLOCKS(room) : 512 / CKCI_PLANES_THREADS(room));
    const int64_t numbers = ckci_point_numbers(&k->o);
    const int64_t lds = CKCI_PLANES_LDS(nvidia, room), most = lds / (pitch + numbers) / 32 * 32;
    if (lds > device->lds_bytes) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "pointwise needs %d bytes of LDS for planes, %s has %d",
                         (int)lds, device->arch, (int)device->lds_bytes);
    }
    k->rows = (int32_t)(p->n * space / 4);
    k->work = (int32_t)ckci_ceil_div(k->rows, u.fours);
    /* parts of the columns, where LDS does not hold all, or there are fewer fours than waves */
    int64_t parts = ckci_max(units * waves / ckci_max(k->work, 1), ckci_ceil_div(columns, most));
    const int64_t width = ckci_ceil_div(columns / 32, ckci_min(parts, columns / 32)) * 32;
    parts = ckci_ceil_div(columns, width);
    const int64_t blocks = ckci_min(ckci_ceil_div(k->work, waves), ckci_max(units / parts, 1));
    ckci_set_kernel(l, steps == 1   ? CKCI_KERNEL_matrix_planes_32
                       : steps == 2 ? CKCI_KERNEL_matrix_planes_64
                                    : CKCI_KERNEL_matrix_planes_128);
    k->as.point.pitch = (int32_t)pitch;
    k->as.point.width = (int32_t)width;
    k->as.point.fours = (int32_t)(space / 4);
    k->as.point.eights = ckci_aligned_planes(a, space, 8) && ckci_aligned_planes(o, space, 8);
    k->as.point.by_chunks = ckci_make_divisor(pitch / 16);
    k->as.point.by_parts = ckci_make_divisor(parts);
    k->as.point.by_fours = ckci_make_divisor(space / 4);
    k->workers = (int32_t)(blocks * waves);
    l->grid = blocks * parts;
    if (!ckci_point_epilogue(k, width * pitch, width, lds)) {
        return ckci_point_factors(err);
    }
    l->lds = nvidia ? (int32_t)(width * (pitch + numbers)) : 0;
    const double bytes =
        4 * (double)k->rows * ((double)k->red * 2 + (double)k->columns * (double)ckci_size(o->dtype));
    const double rounds = (double)ckci_ceil_div(k->work, ckci_max(k->workers, 1)),
                 products = rounds * (double)(width / 32 * steps) * CKCI_PLANES_PRODUCTS,
                 memory = ckci_cost_bytes(device, bytes, CKCI_PLANES_BYTES(room)),
                 matrix = ckci_cost_matrix(device, products);
    *cost = ckci_cost_launch(device, CKCI_PLANES_START(room) + rounds * CKCI_PLANES_ROUND) +
            (memory > matrix ? memory : matrix);
    return CKCONV_OK;
}

/* NVIDIA: are stores to fill sectors of 32 bytes, where rows of what is written are an odd number of 16? The
   kernel does so for sums that are stored, or stored with numbers of channels added. It takes more
   instructions, and pays where most bytes are written, and rows have more than one whole store (H200: 24 to
   72 and 32 to 72 channels .58 and .53; 40 and 24 channels, and 72 to 72, 1.03 to 1.12). */
CKCI_FN int32_t ckci_point_pairs(const ckci_gpu_conv *k, int64_t pitch)
{
    return ckci_size(k->o.t.dtype) == 2 && k->columns % 16 == 8 && pitch % 16 == 8 && k->columns > 48 &&
           2 * k->columns >= 3 * k->red && k->red <= 64 &&
           (k->o.form == CKCI_FORM_STORE ||
            (k->as.point.added && (k->o.residual == 0 || k->as.point.factors)));
}

/* The launch, and the nanoseconds of a run: as long as its bytes take, or its products. */
CKCI_FN ckconv_status ckci_gpu_pointwise(const ckci_conv *p, const ckconv_device *device,
                                         ckconv_family family, ckci_launch *l, double *cost,
                                         ckconv_error *err)
{
    const int back = p->op == CKCONV_BWD_DATA, nvidia = device->kind == CKCONV_DEVICE_NVIDIA;
    const ckci_tensor *a = &p->t[back ? CKCI_OUT : CKCI_IN], *o = &p->t[ckci_written(p->op)];
    ckci_gpu_conv *k = &l->a.conv;
    int64_t a_pitch, o_pitch;
    if (a->stride[2] != 1 && o->stride[2] != 1) {
        return ckci_gpu_planes(p, device, family, l, cost, err);
    }
    CKCI_TRY(ckci_points_fit(p, device, family, err));
    ckci_make_gpu_conv(p, k);
    if (k->o.form == CKCI_FORM_SINGLE || !ckci_aligned_columns(o, k->columns)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "pointwise stores eight channels together, and all D tensors are added, have one "
                         "number for each channel or lie as the output");
    }
    if (!ckci_even_positions(a, &a_pitch) || !ckci_even_positions(o, &o_pitch) || a->stride[2] != 1 ||
        !ckci_aligned_eights(a, k->red, a_pitch)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "pointwise reads eight channels together, of positions that follow each other");
    }
    const int64_t pitch = ckci_ceil_div(k->red, 64) * 128, columns = ckci_ceil_div(k->columns, 32) * 32,
                  steps = ckci_ceil_div(k->red, 32);
    if (k->red > 256 || columns * pitch > CKCI_POINTWISE_LDS(nvidia)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "pointwise takes up to 256 channels of the reduction, and weights of %d bytes; "
                         "here %lld and %lld",
                         CKCI_POINTWISE_LDS(nvidia), CKCI_LL(k->red), CKCI_LL(columns * pitch));
    }
    const int64_t tiles = CKCI_POINTWISE_TILES(steps),
                  wide =
                      family == CKCONV_FAMILY_MFMA ? 2 : 1, /* in sixteens of positions, and in 32 threads */
        waves = 8 / wide, reach = ckci_saturating_mul(2 * tiles * wide * 16, a_pitch);
    if (reach > INT32_MAX - 2 * k->red) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "pointwise takes positions of which %d reach over 2^31 bytes; here they are %lld "
                         "elements apart",
                         (int)(tiles * wide * 16), CKCI_LL(a_pitch));
    }
    ckci_set_kernel(l, steps == 1  ? CKCI_KERNEL_matrix_pointwise_32
                       : steps < 5 ? CKCI_KERNEL_matrix_pointwise_128
                                   : CKCI_KERNEL_matrix_pointwise_256);
    k->a.stride[5] = a_pitch;
    k->o.t.stride[5] = o_pitch;
    k->as.point.pitch = (int32_t)pitch;
    k->as.point.by_chunks = ckci_make_divisor(pitch / 16);
    k->work = (int32_t)ckci_ceil_div(k->rows, tiles * wide * 16);
    l->grid =
        ckci_min(ckci_ceil_div(k->work, waves), (nvidia && steps > 4 ? 1 : 2) * (int64_t)ckci_units(device));
    if (!ckci_point_epilogue(k, columns * pitch, columns, CKCI_POINTWISE_LDS(nvidia))) {
        return ckci_point_factors(err);
    }
    k->as.point.pairs = nvidia && ckci_point_pairs(k, o_pitch);
    l->lds = nvidia ? (int32_t)(columns * (pitch + (k->as.point.added ? ckci_point_numbers(&k->o) : 0))) : 0;
    k->workers = (int32_t)(l->grid * waves);
    const double rows = (double)k->rows,
                 bytes = rows * ((double)k->red * 2 + (double)k->columns * (double)ckci_size(o->dtype)),
                 products = rows / 16 * (double)(steps * (columns / 32)) * CKCI_POINTWISE_PRODUCTS;
    const double memory = ckci_cost_bytes(device, bytes,
                                          steps > 4 ? CKCI_POINTWISE_BYTES_256 : CKCI_POINTWISE_BYTES),
                 matrix = ckci_cost_matrix(device, products / ckci_units(device));
    *cost = ckci_cost_launch(device, CKCI_POINTWISE_START) + (memory > matrix ? memory : matrix);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_fit_pointwise(ckci_fit *f, ckconv_error *err)
{
    ckci_launch l;
    CKCI_TRY(ckci_gpu_no_split(f, err));
    CKCI_TRY(ckci_gpu_wrong_kind(f, ckci_conv_kind(&f->p->conv), err));
    CKCI_TRY(ckci_gpu_pointwise(&f->p->conv, &f->plan->device, f->family, &l, &f->cost, err));
    f->ns = f->cost;
    f->cost = l.a.conv.o.across ? ckci_planes_beside(&f->plan->device, l.a.conv.as.point.fours, f->cost)
                                : f->cost * ckci_pointwise_beside(&f->plan->device, &l.a.conv);
    ckci_plan_launch(f->plan, &l, 1);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_pointwise(const ckconv_plan *plan, const ckci_problem *p,
                                          const ckconv_args *args, unsigned char *ws,
                                          const ckci_gpu_tile *tile, const ckci_emitter *e, ckconv_error *err)
{
    ckci_launch l;
    double cost;
    (void)args;
    (void)ws;
    (void)tile;
    if (ckci_gpu_pointwise(&p->conv, &plan->device, ckci_matrix_family(&plan->device), &l, &cost, NULL) !=
        CKCONV_OK) { /* pointers less aligned than planned for: what else there is without workspace */
        ckconv_plan part;
        const int mid = plan->tune[CKCI_TUNE_MID] != 0;
        CKCI_TRY(ckci_plan_part(&p->conv, &plan->device, 0, mid, &part, &cost, err));
        return ckci_list_part(&part, &p->conv, NULL, e, err);
    }
    return l.grid > 0 ? e->emit(e->context, &l, err) : CKCONV_OK;
}
