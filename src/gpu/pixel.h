/*------------------------------------------------------------------------------------------------------------
  >>gpu-pixel
  Layers of one tap on a space of one pixel (the squeezes of a network, its last layer), of any number of
  channels, in one launch (kernels/vector/pixel.h): what matrix tiles do in two to four, which pack channels
  that are no multiples of eight, or add parts.
*/
#pragma once
#include "gpu/conv.h"

/* Longer sums are left to kernels that keep their error: a thread adds up to 512 products in one chain. */
enum { CKCI_PIXEL_MOST = 16384 };

/* Are two neighbours along a dimension of step 1 one aligned load, wherever others go by `apart`? */
CKCI_FN int32_t ckci_pixel_pairs(const ckci_tensor *t, int64_t count, int64_t apart)
{
    return count % 2 == 0 && apart % 2 == 0 && (uintptr_t)t->p % (2 * ckci_size(t->dtype)) == 0;
}

/* A hundredth of what costs of tiles, which leave out what they wait for before their first step, count for
   a nanosecond that a pass takes (fitted on 123 layers and passes, H100; bwd_weight, of 18, beside tiles of
   the TMA, H200; bwd_data reads dout number by number). */
CKCI_FN double ckci_pixel_beside(ckconv_op op)
{
    return (op == CKCONV_BWD_DATA ? 300 : op == CKCONV_BWD_WEIGHT ? 215 : 130) / CKCI_FMA_NS;
}

/* The launch. Its cost: waits for memory, and what blocks load through the caches. */
CKCI_FN ckconv_status ckci_gpu_pixel(const ckci_conv *p, const ckconv_device *device, ckci_launch *l,
                                     double *cost, ckconv_error *err)
{
    const int weight = p->op == CKCONV_BWD_WEIGHT, back = p->op == CKCONV_BWD_DATA;
    const ckci_tensor *a = &p->t[p->op == CKCONV_FWD ? CKCI_IN : CKCI_OUT],
                      *b = &p->t[weight ? CKCI_IN : CKCI_WEI];
    ckci_gpu_conv *k = &l->a.conv;
    const int half = a->dtype == CKCONV_F16 || a->dtype == CKCONV_BF16;
    if (p->g != 1 || !ckci_pointwise(p) || p->output[0] * p->output[1] * p->output[2] != 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "pixel is for one tap, one group and a space of one pixel");
    }
    if ((!half && a->dtype != CKCONV_F32) || a->dtype != b->dtype || a->compute != a->dtype ||
        b->compute != b->dtype || a->op.kind != CKCONV_PASS || b->op.kind != CKCONV_PASS) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "pixel reads two tensors of f16, of bf16 or of f32, without an operation or rounding");
    }
    CKCI_TRY(ckci_gpu_takes(p, err));
    ckci_make_gpu_conv(p, k);
    const int64_t rows = weight ? p->k : p->n, columns = back || weight ? p->c : p->k,
                  red = weight ? p->n
                        : back ? p->k
                               : p->c;
    if (red > CKCI_PIXEL_MOST) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "pixel adds up to %d products; here %lld",
                         (int)CKCI_PIXEL_MOST, CKCI_LL(red));
    }
    ckci_set_kernel(l, half ? CKCI_KERNEL_pixel_half : CKCI_KERNEL_pixel_f32);
    k->rows = (int32_t)rows;
    k->columns = (int32_t)columns;
    k->red = (int32_t)red;
    k->a.stride[1] = a->stride[weight ? 2 : 1];
    k->a.stride[2] = a->stride[weight ? 1 : 2];
    k->b_column = b->stride[back || weight ? 2 : 1];
    k->b_red = b->stride[back || weight ? 1 : 2];
    k->b_along = k->a.stride[2] == 1 && k->b_red == 1;
    if (!k->b_along && k->b_column != 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "pixel reads channels that lie side by side");
    }
    k->b_vec = k->b_along ? ckci_pixel_pairs(a, red, rows > 1 ? k->a.stride[1] : 0) &&
                                ckci_pixel_pairs(b, red, columns > 1 ? k->b_column : 0)
                          : ckci_pixel_pairs(b, columns, red > 1 ? k->b_red : 0);
    /* 8 or 32 shares of the reduction, of which a thread has 8 places under way */
    k->lanes = red <= 128 ? 5 : 3;
    const int64_t wide = k->b_along ? 32 : (int64_t)2 << k->lanes;
    k->tiles_m = (int32_t)ckci_ceil_div(rows, CKCI_PIXEL_ROWS);
    k->tiles_n = (int32_t)ckci_ceil_div(columns, wide);
    k->by_tiles_n = ckci_make_divisor(k->tiles_n);
    l->grid = ckci_saturating_mul(k->tiles_m, k->tiles_n);
    CKCI_TRY(ckci_too_many_blocks(l->grid, err));
    /* Blocks of a round wait for memory together; those of a later one begin as others end, and wait anew
       (H200: 7.8 to 9.2 us in two rounds, 5.5 to 7 in one). Other devices, for want of measurements: a later
       round takes its share of the first one's time. */
    const double side = (double)l->grid / (3 * ckci_units(device)),
                 later = ckci_sm(device) == 90 ? 2000 * (ceil(side) - 1) : 700 * (side - 1),
                 waits = (700 + (side > 1 ? later : 0)) * (double)ckci_ceil_div(red, 256),
                 bytes = (double)l->grid * (double)(CKCI_PIXEL_ROWS + wide) * (double)red * (half ? 2 : 4);
    *cost = ckci_pixel_beside(p->op) * (ckci_cost_launch(device, waits) + ckci_cost_bytes(device, bytes, 30));
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_fit_pixel(ckci_fit *f, ckconv_error *err)
{
    ckci_launch l;
    CKCI_TRY(ckci_gpu_no_split(f, err));
    CKCI_TRY(ckci_gpu_pixel(&f->p->conv, &f->plan->device, &l, &f->cost, err));
    f->ns = ckci_cost_ns(f->cost, 1 / ckci_pixel_beside(f->plan->op));
    ckci_plan_launch(f->plan, &l, 1);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_pixel(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                                      unsigned char *ws, const ckci_gpu_tile *tile, const ckci_emitter *e,
                                      ckconv_error *err)
{
    ckci_launch l;
    double cost;
    (void)args;
    (void)ws;
    (void)tile;
    CKCI_TRY(ckci_gpu_pixel(&p->conv, &plan->device, &l, &cost, err));
    return l.grid > 0 ? e->emit(e->context, &l, err) : CKCONV_OK;
}
