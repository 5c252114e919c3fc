/*------------------------------------------------------------------------------------------------------------
  >>gpu-pointwise
  Layers of one tap and few channels, channels last, whose weights stay in LDS while waves stream positions
  past them (kernels/matrix/pointwise.h): less is loaded and awaited than by tiles, which go through a ring in
  LDS and meet at barriers. Up to 256 channels of the reduction, and as many weights as LDS holds.
*/
#pragma once
#include "gpu/conv.h"

/* Are eight numbers along a dimension of step 1 one aligned load, where others go by `apart`? */
CKCI_FN int ckci_aligned_eights(const ckci_tensor *t, int64_t count, int64_t apart)
{
    return count % 8 == 0 && apart % 8 == 0 && (uintptr_t)t->p % 16 == 0;
}

/* A cost of tiles leaves out what so short a reduction waits for, and that tiles copy and store channels by
   64s: beside them this kernel's counts as much less than a run takes (H100). */
#define CKCI_POINTWISE_BESIDE .55
CKCI_FN double ckci_pointwise_beside(const ckci_gpu_conv *k)
{
    const double whole = (double)(ckci_ceil_div(k->red, 64) + ckci_ceil_div(k->columns, 64)) * 64;
    return CKCI_POINTWISE_BESIDE * (double)(k->red + k->columns) / whole;
}

/* What a run takes, in nanoseconds (H100, H200: 44 layers and passes; AMD: for want of measurements): until
   weights lie in LDS and the first positions come; for products of 16 positions, 32 columns and 32 places.
   Bytes that a unit moves in one, of kernels of which two blocks fit it, and of the one for up to 256
   places. */
#define CKCI_POINTWISE_START 8000
#define CKCI_POINTWISE_PRODUCTS 28.2
#define CKCI_POINTWISE_BYTES 20
#define CKCI_POINTWISE_BYTES_256 17

/* The launch, and the nanoseconds of a run: as long as its bytes take, or its products. */
CKCI_FN ckconv_status ckci_gpu_pointwise(const ckci_conv *p, const ckconv_device *device,
                                         ckconv_family family, ckci_launch *l, double *cost,
                                         ckconv_error *err)
{
    const int back = p->op == CKCONV_BWD_DATA, nvidia = device->kind == CKCONV_DEVICE_NVIDIA;
    const ckci_tensor *a = &p->t[back ? CKCI_OUT : CKCI_IN], *b = &p->t[CKCI_WEI],
                      *o = &p->t[ckci_written(p->op)];
    ckci_gpu_conv *k = &l->a.conv;
    int64_t a_pitch, o_pitch;
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
    CKCI_TRY(ckci_gpu_takes(p, err));
    ckci_make_gpu_conv(p, k);
    if (k->o.form == CKCI_FORM_SINGLE || !ckci_aligned_columns(o, k->columns) ||
        (o->dtype != CKCONV_F16 && o->dtype != CKCONV_BF16 && o->dtype != CKCONV_F32)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "pointwise stores eight channels of f16, bf16 or f32 together, and all D tensors "
                         "have one number for each channel or lie as the output");
    }
    if (!ckci_even_positions(a, &a_pitch) || !ckci_even_positions(o, &o_pitch) || a->stride[2] != 1 ||
        !ckci_aligned_eights(a, k->red, a_pitch) || !ckci_aligned_eights(b, b->len[2], b->stride[1]) ||
        b->stride[2] != 1) {
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
    l->lds = nvidia ? (int32_t)(columns * pitch) : 0;
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
    f->cost *= ckci_pointwise_beside(&l.a.conv);
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
