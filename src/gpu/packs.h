/*------------------------------------------------------------------------------------------------------------
  >>gpu-packs
  The launches of a matrix plan: tensors that are packed or turned into workspace (those that the same kernel
  turns in one launch), the product that >>gpu-matrix-gather has planned, the sums of its parts, and what is
  turned after it because it cannot be written as it is wanted.
*/
#pragma once
#include "gpu/matrix_gather.h"

/* Packs the weights of problem p, as m's kernel reads them. */
CKCI_FN void ckci_make_pack(const ckci_conv *p, const ckci_matrix *m, ckci_launch *l)
{
    ckci_gpu_pack *k = &l->a.pack;
    int back = p->op == CKCONV_BWD_DATA;
    const ckci_conv *c = &m->conv;
    const ckci_tensor *w = &c->t[CKCI_WEI];
    memset(k, 0, sizeof *k);
    ckci_set_kernel(l, CKCI_KERNEL_pack);
    k->w = p->t[CKCI_WEI];
    k->dst = w->p;
    k->type = w->dtype;
    k->columns = (int32_t)(back ? m->conv.c : m->conv.k);
    k->red = (int32_t)(back ? m->conv.k : m->conv.c);
    k->merge = (int32_t)m->merge;
    k->column = k->w.stride[back ? 2 : 1];
    k->step = k->w.stride[back ? 1 : 2];
    k->taps[0] = (int32_t)c->filter[0];
    k->taps[1] = (int32_t)c->filter[1];
    k->taps[2] = (int32_t)c->filter[2];
    k->pairs = m->pairs;
    k->shift = m->shift;
    k->filter_x = (int32_t)p->filter[2];
    k->count = (int32_t)(ckci_count(w) / 2);
    k->low = m->terms - 1;
    k->by_term = ckci_make_divisor(k->red / m->terms);
    k->by_red = ckci_make_divisor(k->red / 2);
    k->by_taps = ckci_make_divisor(c->filter[0] * c->filter[1] * c->filter[2]);
    k->by_columns = ckci_make_divisor(k->columns);
    k->by_one_column = ckci_make_divisor(k->columns / m->merge);
    k->by_one_red = ckci_make_divisor(back ? p->k : p->c);
    k->by_x = ckci_make_divisor(c->filter[2]);
    k->by_y = ckci_make_divisor(c->filter[1]);
    l->grid = ckci_ceil_div(k->count, 256);
}

/* The packing of `which`; p: groups merged, everything else as the caller sees it. */
CKCI_FN void ckci_make_pack_data(const ckci_conv *p, const ckci_matrix *m, int which, ckci_launch *l)
{
    ckci_gpu_pack_data *k = &l->a.data;
    const ckci_tensor *to = &m->conv.t[which];
    int weight = p->op == CKCONV_BWD_WEIGHT;
    memset(k, 0, sizeof *k);
    ckci_set_kernel(l, CKCI_KERNEL_pack_data);
    k->t = p->t[which];
    k->dst = to->p;
    k->type = to->dtype;
    k->pairs = which == CKCI_IN && m->pairs;
    k->channels = (int32_t)k->t.len[2];
    k->padded = (int32_t)(to->len[2] / (weight ? 1 : m->terms));
    k->groups = (int32_t)to->len[0];
    k->wide = (int32_t)k->t.len[5];
    k->positions = (int32_t)(k->t.len[1] * to->len[3] * to->len[4] * to->len[5]);
    k->terms = m->terms;
    k->low = weight && which == CKCI_OUT ? 2 : 1;
    k->pitch = (int32_t)to->len[2];
    k->term_step = weight ? k->t.len[1] * to->stride[1] : k->padded;
    k->along = k->t.stride[2] <= k->t.stride[5];
    k->log_c = k->padded <= 8 ? 3 : k->padded <= 16 ? 4 : 5;
    k->tiles_c = (int32_t)ckci_ceil_div(k->padded, (int64_t)1 << k->log_c);
    k->by_tiles_c = ckci_make_divisor(k->tiles_c);
    k->by_groups = ckci_make_divisor(k->groups);
    k->by_x = ckci_make_divisor(to->len[5]);
    k->by_y = ckci_make_divisor(to->len[4]);
    k->by_z = ckci_make_divisor(to->len[3]);
    k->rows = ckci_data_rows(m, &k->t, to);
    if (k->rows > 0) {
        k->by_x = ckci_make_divisor(k->padded / 8);
        l->grid = ckci_ceil_div(k->positions, k->rows);
        return;
    }
    l->grid =
        ckci_saturating_mul(ckci_ceil_div(k->positions, 2048 >> k->log_c), (int64_t)k->tiles_c * k->groups);
}

/* What was written to workspace is turned into `to`. */
CKCI_FN ckconv_status ckci_emit_turned(const ckconv_plan *plan, const ckci_tensor *to, const ckci_matrix *m,
                                       const ckci_emitter *e, ckconv_error *err)
{
    ckci_launch move;
    if (!m->turned) {
        return CKCONV_OK;
    }
    CKCI_TRY(ckci_make_move(&plan->device, &m->conv.t[ckci_written(m->conv.op)], to, &move, err));
    return e->emit(e->context, &move, err);
}

/* Launch i of those that pack: weights, what is read, D tensors beside what is turned. *there: it is. */
CKCI_FN ckconv_status ckci_make_packs(const ckconv_plan *plan, const ckci_problem *p, const ckci_conv *merged,
                                      const ckci_matrix *m, int i, ckci_launch *l, int *there,
                                      ckconv_error *err)
{
    const int t = i - 1, d = i - 4;
    *there = i == 0 ? m->pack != 0 : i < 4 ? m->data[t] : m->beside >> d & 1;
    if (!*there) {
        return CKCONV_OK;
    }
    if (i >= 4) {
        return ckci_make_move(&plan->device, &merged->d[d], &m->conv.d[d], l, err);
    }
    if (i == 0 && m->pack == CKCI_PACK_MOVE) {
        return ckci_make_move(&plan->device, &merged->t[CKCI_WEI], &m->conv.t[CKCI_WEI], l, err);
    }
    if (i == 0) {
        ckci_make_pack(&p->conv, m, l);
        return CKCONV_OK;
    }
    if (ckci_matrix_moves(m, &merged->t[t], &m->conv.t[t])) {
        return ckci_make_move(&plan->device, &merged->t[t], &m->conv.t[t], l, err);
    }
    ckci_make_pack_data(merged, m, t, l);
    return CKCONV_OK;
}

/* All of them. Tensors that are turned alike are in one launch. merged: groups merged, everything else as the
   caller sees it. */
CKCI_FN ckconv_status ckci_emit_packs(const ckconv_plan *plan, const ckci_problem *p, const ckci_conv *merged,
                                      const ckci_matrix *m, const ckci_emitter *e, ckconv_error *err)
{
    ckci_launch l[2]; /* one that waits for more, and the next */
    int waits = 0, there;
    for (int i = 0; i < 8; i++) {
        CKCI_TRY(ckci_make_packs(plan, p, merged, m, i, &l[1], &there, err));
        if (!there || (waits && ckci_join_moves(&l[0], &l[1]))) {
            continue;
        }
        if (waits) {
            CKCI_TRY(e->emit(e->context, &l[0], err));
        }
        l[0] = l[1];
        waits = 1;
    }
    return waits ? e->emit(e->context, &l[0], err) : CKCONV_OK;
}

/* The launches of a plan: what is packed, and the product; bwd_weight may have sums to add, and turns what it
   wrote after that. */
CKCI_FN ckconv_status ckci_emit_packed(const ckconv_plan *plan, const ckci_problem *p, const ckci_matrix *m,
                                       const ckci_emitter *e, ckconv_error *err)
{
    ckci_launch pack;
    ckci_conv merged = p->conv;
    if (m->images) {
        ckci_image_product(&p->conv, 1, &merged);
    }
    ckci_merge_groups(&merged, m->merge);
    if (m->l.grid == 0) {
        return CKCONV_OK;
    }
    CKCI_TRY(ckci_emit_packs(plan, p, &merged, m, e, err));
    CKCI_TRY(e->emit(e->context, &m->l, err));
    if (m->adds) {
        pack = m->l;
        ckci_gather_reduce(&pack);
        CKCI_TRY(e->emit(e->context, &pack, err));
    }
    return p->conv.op == CKCONV_BWD_WEIGHT
               ? CKCONV_OK
               : ckci_emit_turned(plan, &merged.t[ckci_written(p->conv.op)], m, e, err);
}

/* So many launches are a plan's at most, without the sum of parts: two turns may be one. */
CKCI_FN int32_t ckci_packed_launches(const ckci_matrix *m)
{
    const int32_t b = m->beside, beside = (b & 1) + (b >> 1 & 1) + (b >> 2 & 1) + (b >> 3 & 1);
    return 1 + (m->pack != 0) + m->data[0] + m->data[1] + m->data[2] + beside + m->turned + m->adds;
}
