/*------------------------------------------------------------------------------------------------------------
  >>gpu-im2col
  Filters of several taps over few positions, whose weights lie with taps next to each other (GKCYX): other
  kernels turn the weights, which are larger than all that is multiplied with them. Here a launch (>>k-im2col)
  makes a row of every position of out, channels and taps in the order of the weights, and what is left is a
  layer of one tap, whose weights are read (or written) as they lie, planned like any other. bwd_data writes
  such rows, of f32, and the launch comes after: it sums for each number of din what its taps have for it.
*/
#pragma once
#include "gpu/patches.h"

/* What a piece of 16 bytes takes of im2col, 200 instructions, and a tap of eight positions of col2im, 180, in
   multiply-adds: 1.4 an instruction, as sample's take on an H200 (these were not fitted). */
#define CKCI_IM2COL_STEPS 280.
#define CKCI_COL2IM_STEPS 250.

/* The launch between in (or din) and rows at ws; step, order: as ckci_patch_order has them. */
CKCI_FN void ckci_make_im2col(const ckci_conv *p, const ckconv_device *device, const int64_t step[4],
                              const int order[4], int64_t row, unsigned char *ws, ckci_launch *l)
{
    const int back = p->op == CKCONV_BWD_DATA;
    const ckci_tensor *t = &p->t[CKCI_IN];
    const int64_t piece = 16 / (int64_t)ckci_size(t->dtype),
                  positions = p->n * p->output[0] * p->output[1] * p->output[2],
                  runs = ckci_ceil_div(p->input[2], CKCI_COL2IM_POSITIONS),
                  items = p->input[0] * p->input[1] * runs;
    ckci_gpu_im2col *k = &l->a.im2col;
    ckci_set_kernel(l, back ? CKCI_KERNEL_col2im : CKCI_KERNEL_im2col);
    memset(k, 0, sizeof *k);
    k->t = *t;
    k->rows = ws;
    k->row = row;
    for (int i = 0; i < 3; i++) {
        k->input[i] = (int32_t)p->input[i];
        k->output[i] = (int32_t)p->output[i];
        k->filter[i] = (int32_t)p->filter[i];
        k->stride[i] = (int32_t)p->stride[i];
        k->dilation[i] = (int32_t)p->dilation[i];
        k->pad[i] = (int32_t)p->pad[i];
        k->by_out[i] = ckci_make_divisor(p->output[i]);
        k->by_stride[i] = ckci_make_divisor(p->stride[i]);
    }
    for (int j = 0; j < 4; j++) {
        const int i = order[j];
        k->of_row[i] = (int32_t)step[i];
        k->limit[j] = (int32_t)t->len[2 + i];
        k->step[j] = (uint32_t)t->stride[2 + i];
        k->apart[j] = i ? k->dilation[i - 1] : 1;
        if (i > 0) {
            k->go[j][i - 1] = k->stride[i - 1];
            k->before[j] = k->pad[i - 1];
        }
        if (j < 3) {
            k->by_len[j] = ckci_make_divisor(i ? p->filter[i - 1] : p->c);
        }
    }
    k->by_pieces = ckci_make_divisor(row / piece);
    k->positions = (int32_t)(positions / ckci_max(p->n, 1));
    if (back && order[3] == 0) { /* channels are a row's outermost axis; those of a block begin at 16 bytes */
        const int64_t most = CKCI_COL2IM_LDS / (16 * step[0] * k->positions),
                      each = ckci_ceil_div(p->n * p->c, 4 * ckci_max((int64_t)ckci_units(device), 1));
        k->channels = (int32_t)(4 * ckci_min(most, ckci_min(ckci_max(each, 1), ckci_ceil_div(p->c, 4))));
    }
    const int64_t parts = k->channels ? ckci_ceil_div(p->c, k->channels) : 1;
    k->by_c = ckci_make_divisor(k->channels ? k->channels : p->c);
    k->by_parts = ckci_make_divisor(parts);
    k->by_items = ckci_make_divisor(items);
    k->by_runs = ckci_make_divisor(runs);
    k->by_y = ckci_make_divisor(p->input[1]);
    k->vec = back && t->stride[5] == 1 && ckci_aligned_planes(t, p->input[2], CKCI_COL2IM_POSITIONS) &&
             t->stride[3] % CKCI_COL2IM_POSITIONS == 0 && t->stride[4] % CKCI_COL2IM_POSITIONS == 0;
    k->count = (int32_t)(back ? p->n * items * p->c
                              : ckci_ceil_div(positions, CKCI_IM2COL_POSITIONS) * (row / piece));
    l->grid = k->channels ? p->n * parts : ckci_ceil_div(k->count, 256);
}

/* The layer of one tap, and the launch. */
CKCI_FN ckconv_status ckci_find_im2col(const ckci_conv *p, const ckconv_device *device, int64_t limit,
                                       unsigned char *ws, ckci_rest *r, ckconv_error *err)
{
    const ckci_tensor *in = &p->t[CKCI_IN], *w = &p->t[CKCI_WEI];
    const int back = p->op == CKCONV_BWD_DATA;
    const int64_t taps = p->filter[0] * p->filter[1] * p->filter[2], size = (int64_t)ckci_size(in->dtype),
                  row = ckci_saturating_mul(p->c, taps);
    int64_t step[4] = {0, 0, 0, 0}, positions = p->n, places = p->n;
    int order[4] = {0, 0, 0, 0};
    for (int i = 0; i < 3; i++) {
        positions = ckci_saturating_mul(positions, p->output[i]);
        places = ckci_saturating_mul(places, p->input[i]);
    }
    const int kept = back ? CKCI_KEEP_IM2COL_BACK : CKCI_KEEP_IM2COL;
    if (!kept || p->g != 1 || positions == 0 || taps < 2 || w->stride[2] == 1 || (size != 2 && size != 4) ||
        row * size % 16 != 0 || ckci_conv_kind(p) != CKCONV_F32 || in->op.kind != CKCONV_PASS ||
        (p->op != CKCONV_FWD && p->num_d > 0) || !ckci_patch_order(w, step, order)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "im2col takes filters of several taps in one group, in of 2 or 4 bytes a number, "
                         "sums of f32, weights that are dense with taps next to each other, C * taps numbers "
                         "of a multiple of 16 bytes, no operation on in, D tensors only of out");
    }
    if (positions > p->k / 2) { /* rows have fewer bytes than weights, those of f32, too */
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "im2col takes at most half as many positions of out as K, %lld: here %lld",
                         CKCI_LL(p->k / 2), CKCI_LL(positions));
    }
    if (ckci_saturating_mul(row, ckci_max(positions, places)) > INT32_MAX / 8 || ckci_span(in) > UINT32_MAX) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "im2col takes less than 2^28 for C * taps * positions, of in and of out, and in of "
                         "less than 2^32 bytes");
    }
    ckci_tensor *rows = &r->conv.t[CKCI_IN];
    ckci_row_layer(p, row, ws, &r->conv);
    if (back) { /* din's numbers are rounded once, as sums of these */
        rows->dtype = rows->compute = CKCONV_F32;
        rows->plain = 1;
    }
    const int64_t bytes = row * positions * (int64_t)ckci_size(rows->dtype);
    r->bytes = ckci_ceil_div(bytes, 256) * 256;
    if (r->bytes > limit) {
        return ckci_over_limit("rows of channels and taps", r->bytes, err);
    }
    ckci_make_im2col(p, device, step, order, row, ws, &r->l);
    const double count =
        (double)r->l.a.im2col.count *
        (back ? (double)taps * CKCI_COL2IM_STEPS : (double)CKCI_IM2COL_POSITIONS * CKCI_IM2COL_STEPS);
    const double work = ckci_move_cost(device, 0) + ckci_cost_fma(device, count / ckci_units(device)),
                 memory = ckci_move_cost(device, (double)bytes / 2); /* rows alone: in is small */
    r->ns = work > memory ? work : memory;
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_fit_im2col(ckci_fit *f, ckconv_error *err)
{
    return ckci_fit_rest(f, ckci_find_im2col, err);
}

CKCI_FN ckconv_status ckci_list_im2col(const ckconv_plan *plan, const ckci_problem *p,
                                       const ckconv_args *args, unsigned char *ws, const ckci_gpu_tile *tile,
                                       const ckci_emitter *e, ckconv_error *err)
{
    (void)args;
    (void)tile;
    return ckci_list_rest(plan, &p->conv, ckci_find_im2col, ws, e, err);
}
