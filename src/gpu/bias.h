/*------------------------------------------------------------------------------------------------------------
  >>gpu-bias
  dbias on GPUs as a pass over dout of its own, before the launches of dwei: its parts lie in the workspace
  that those use afterwards. What it takes follows from the shape and from the workspace. Tiles on matrix
  units sum dbias with dwei instead (gpu/matrix_weight.h); then this pass runs where dwei is not wanted.
*/
#pragma once
#include "gpu/conv.h"

/* Parts of the pass: eight blocks for each compute unit, none with fewer than 4096 numbers of a channel's
   threads. */
CKCI_FN int64_t ckci_gpu_bias_parts(const ckci_conv *p, const ckconv_device *device, int64_t blocks,
                                    int64_t loads, int64_t lanes, int64_t limit)
{
    int64_t bytes = ckci_saturating_mul(p->g * p->k, ckci_conv_kind(p) == CKCONV_F64 ? 8 : 4);
    int64_t parts = 8 * (int64_t)ckci_max(device->compute_units, 1) / ckci_max(blocks, 1);
    parts = ckci_min(ckci_min(parts, loads / (16 * lanes)), 4096);
    return ckci_max(ckci_min(parts, limit / ckci_max(bytes, 1)), 1);
}

/* The pass within `limit` bytes of workspace; *bytes that it takes, *grid its blocks. */
CKCI_FN ckconv_status ckci_make_gpu_bias(const ckci_conv *p, const ckconv_device *device, int64_t limit,
                                         ckci_gpu_bias *k, int64_t *bytes, int64_t *grid, ckconv_error *err)
{
    CKCI_TRY(ckci_gpu_takes(p, err));
    memset(k, 0, sizeof *k);
    k->t = p->t[CKCI_OUT];
    ckci_tensor *t = &k->t;
    ckci_sort_positions(t);
    ckci_join_positions(t);
    int64_t size = (int64_t)ckci_size(t->dtype), positions = t->len[1] * t->len[3] * t->len[4] * t->len[5];
    int64_t f64 = ckci_conv_kind(p) == CKCONV_F64, lanes = 1;
    k->along = t->len[5] > 1 && (t->len[2] == 1 || t->stride[5] < t->stride[2]);
    int known = t->dtype == CKCONV_F32 || t->dtype == CKCONV_F16 || t->dtype == CKCONV_BF16;
    int64_t vec = known ? 16 / size : 1, dense = k->along ? 5 : 2;
    int fits = t->op.kind == CKCONV_PASS && (uintptr_t)t->p % 16 == 0 && t->stride[dense] == 1 &&
               t->len[dense] % vec == 0;
    for (int i = 0; i < 6; i++) {
        fits = fits && (i == dense || t->len[i] <= 1 || t->stride[i] % vec == 0);
    }
    vec = fits ? vec : 1;
    int64_t loads = k->along ? positions / vec : positions, units = k->along ? t->len[2] : t->len[2] / vec;
    if (k->along) { /* as many threads along the positions as there are, up to all */
        for (k->log_c = 8; k->log_c > 0 && lanes < loads; k->log_c--) {
            lanes *= 2;
        }
    } else {
        /* half a kilobyte of each position; without room for parts narrow blocks, so that there are some */
        const int32_t most = limit / 8 / ckci_max(p->g * p->k, 1) > 1 ? 5 : 1;
        while (k->log_c < most && 1 << k->log_c < units) {
            k->log_c++;
        }
        lanes = 256 >> k->log_c;
    }
    k->vec = (int32_t)vec;
    k->tiles = (int32_t)ckci_ceil_div(units, (int64_t)1 << k->log_c);
    int64_t blocks = ckci_saturating_mul(k->tiles, t->len[0]);
    int64_t parts = ckci_gpu_bias_parts(p, device, blocks, loads, lanes, limit);
    k->part = (int32_t)(loads / parts);
    k->part_rest = (int32_t)(loads % parts);
    k->by_tiles = ckci_make_divisor(k->tiles);
    k->by_g = ckci_make_divisor(t->len[0]);
    k->count[0] = ckci_make_divisor(t->len[3]);
    k->count[1] = ckci_make_divisor(t->len[4]);
    k->count[2] = ckci_make_divisor(k->along ? t->len[5] / vec : t->len[5]);
    k->o = ckci_bias_vector(p, parts);
    *bytes = parts > 1 ? parts * p->g * p->k * (f64 ? 8 : 4) : 0;
    *grid = ckci_saturating_mul(blocks, parts);
    return ckci_too_many_blocks(*grid, err);
}

/* What reading dout costs beside other launches. */
CKCI_FN double ckci_gpu_bias_cost(const ckci_conv *p, const ckconv_device *device)
{
    double bytes = (double)ckci_count(&p->t[CKCI_OUT]) * (double)ckci_size(p->t[CKCI_OUT].dtype);
    return ckci_cost_launch(device, 5000) + ckci_cost_bytes(device, bytes, 20);
}

/* A launch that adds the parts in k->o. */
CKCI_FN ckconv_status ckci_emit_bias_sum(const ckci_gpu_bias *k, ckconv_dtype kind, const ckci_emitter *e,
                                         ckconv_error *err)
{
    ckci_launch l;
    ckci_set_kernel(&l, ckci_kernel_for(kind, CKCI_KERNEL_bias_sum_f32, CKCI_KERNEL_bias_sum_f64,
                                        CKCI_KERNEL_bias_sum_i32));
    l.a.bias = *k;
    l.grid = ckci_ceil_div(k->o.channels, 16);
    return e->emit(e->context, &l, err);
}

CKCI_FN ckconv_status ckci_emit_bias(const ckconv_plan *plan, const ckci_conv *p, unsigned char *ws,
                                     const ckci_emitter *e, ckconv_error *err)
{
    ckci_launch l;
    int64_t bytes;
    ckconv_dtype kind = ckci_conv_kind(p);
    ckci_set_kernel(&l,
                    ckci_kernel_for(kind, CKCI_KERNEL_bias_f32, CKCI_KERNEL_bias_f64, CKCI_KERNEL_bias_i32));
    CKCI_TRY(ckci_make_gpu_bias(p, &plan->device, ckci_run_limit(plan), &l.a.bias, &bytes, &l.grid, err));
    ckci_gpu_bias k;
    l.a.bias.o.sums = bytes > 0 ? ws : NULL;
    k = l.a.bias;
    CKCI_TRY(e->emit(e->context, &l, err));
    return bytes > 0 ? ckci_emit_bias_sum(&k, kind, e, err) : CKCONV_OK;
}
