/*------------------------------------------------------------------------------------------------------------
  >>gpu-sums
  Sums of fwd and bwd_data that wait in workspace, for parts of a reduction whose blocks do not know each
  other: a tensor of f32 with the positions of the written one, and the launch (gather_reduce) that adds what
  parts left there, in their order, and takes it through the epilogue. Also the instances that send sums that
  way for their epilogue alone, where kernels would compute it element by element: those read D tensors as
  sums lie in their registers, this launch as D tensors lie.
*/
#pragma once
#include "gpu/matrix.h"

typedef struct ckci_gpu_sums {
    ckci_tensor t; /* dense; rows of channels are padded to eights, as gather_reduce reads them */
    int32_t one;   /* groups of the written tensor are one with more channels */
    int64_t part;  /* bytes from a part's sums to the next one's */
    int64_t bytes; /* of all */
} ckci_gpu_sums;

/* Room for `parts` parts. */
CKCI_FN ckconv_status ckci_place_gpu_sums(const ckci_conv *p, int64_t parts, int64_t limit, unsigned char *ws,
                                          ckci_gpu_sums *s, ckconv_error *err)
{
    const ckci_tensor *t = &p->t[ckci_written(p->op)];
    s->t = *t;
    s->one = ckci_groups_touch(t);
    for (int i = 0; i < p->num_d; i++) {
        s->one = s->one && ckci_groups_touch(&p->d[i]);
    }
    const int64_t columns = ckci_ceil_div(s->one ? t->len[0] * t->len[2] : t->len[2], 8) * 8;
    s->t.p = ws;
    s->t.dtype = s->t.compute = CKCONV_F32;
    s->t.plain = 1;
    memset(&s->t.op, 0, sizeof s->t.op);
    s->t.stride[2] = 1;
    s->t.stride[5] = columns;
    s->t.stride[4] = ckci_saturating_mul(columns, t->len[5]);
    s->t.stride[3] = ckci_saturating_mul(s->t.stride[4], t->len[4]);
    s->t.stride[1] = ckci_saturating_mul(s->t.stride[3], t->len[3]);
    const int64_t group = ckci_saturating_mul(s->t.stride[1], t->len[1]);
    s->t.stride[0] = s->one ? t->len[2] : group;
    s->part = ckci_saturating_mul(group, 4 * (s->one ? 1 : t->len[0]));
    s->bytes = ckci_saturating_mul(ckci_ceil_div(ckci_saturating_mul(s->part, parts), 256), 256);
    if (s->part / 32 > INT32_MAX / 2) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "2^35 bytes of sums can wait in workspace; here %lld",
                         CKCI_LL(s->part));
    }
    return s->bytes <= limit ? CKCONV_OK : ckci_over_limit("sums of fwd and bwd_data", s->bytes, err);
}

CKCI_FN ckconv_status ckci_emit_gpu_sums(const ckci_conv *p, const ckci_gpu_sums *s, int64_t parts,
                                         const ckci_emitter *e, ckconv_error *err)
{
    ckci_conv to = *p;
    ckci_launch l;
    ckci_gpu_conv *k = &l.a.conv;
    to.op = CKCONV_FWD; /* of a filter of one tap: rows are positions of what is written */
    to.t[CKCI_OUT] = p->t[ckci_written(p->op)];
    if (s->one) {
        ckci_merge_tensor(&to.t[CKCI_OUT], to.t[CKCI_OUT].len[0]);
        for (int i = 0; i < to.num_d; i++) {
            ckci_merge_tensor(&to.d[i], to.d[i].len[0]);
        }
    }
    const ckci_tensor *t = &to.t[CKCI_OUT];
    to.g = t->len[0];
    to.k = t->len[2];
    to.c = 1;
    for (int i = 0; i < 3; i++) {
        to.input[i] = to.output[i] = t->len[3 + i];
        to.filter[i] = to.stride[i] = to.dilation[i] = 1;
        to.pad[i] = 0;
    }
    ckci_make_gpu_conv(&to, k);
    k->split = (int32_t)parts;
    k->o.partial = s->t.p;
    k->o_vec = ckci_aligned_columns(&k->o.t, k->columns);
    ckci_gather_reduce(&l);
    return l.grid == 0 ? CKCONV_OK : e->emit(e->context, &l, err);
}

/* ---- An epilogue in a launch of its own. */

/* Where the sums of p are, and the convolution that leaves them there. */
CKCI_FN ckconv_status ckci_place_apart(const ckci_conv *p, int64_t limit, unsigned char *ws, ckci_gpu_sums *s,
                                       ckci_conv *plain, ckconv_error *err)
{
    const int written = ckci_written(p->op);
    const ckci_tensor *t = &p->t[written];
    const int gradient = ckci_find_element(t->op.kind)->sum == CKCI_SUM_GRADIENT;
    if (ckci_conv_kind(p) != CKCONV_F32 || t->op.kind == CKCONV_PASS ||
        (t->dtype == CKCONV_F32 && !gradient)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "sums wait in workspace where their epilogue has more to do than to add to f32");
    }
    CKCI_TRY(ckci_place_gpu_sums(p, 1, limit, ws, s, err));
    *plain = *p;
    plain->t[written] = s->t;
    plain->num_d = 0;
    return CKCONV_OK;
}

/* Sums are written and read, D tensors read, results written: 14 bytes an element in f16 or bf16, at 2.6
   TB/s on 132 units; two thirds as fast where positions lie side by side, of which a block has short lines; a
   fifth where neither those nor eights of channels do; a third by elements (H200, 60 layers: 4.5 to 7.5, 6 to
   9, 24 and 10 to 12 ps an element). */
CKCI_FN double ckci_apart_cost(const ckconv_device *device, const ckci_conv *p, const ckci_gpu_sums *s)
{
    ckci_gpu_target o;
    ckci_set_target(p, &o);
    if (s->one) {
        ckci_merge_tensor(&o.t, o.t.len[0]);
    }
    const double bytes = 10 * (double)ckci_count(&o.t) + (double)s->bytes;
    const double most = ckci_aligned_columns(&o.t, o.t.len[2]) ? 20 : o.t.stride[2] != 1 ? 13 : 4.4;
    const double rate = ckci_sums_form(&o) == CKCI_FORM_SINGLE && most > 8 ? 8 : most;
    return ckci_cost_launch(device, 2500) + ckci_cost_bytes(device, bytes, rate);
}

CKCI_FN ckconv_status ckci_fit_sums(ckci_fit *f, ckconv_error *err)
{
    const ckci_conv *p = &f->p->conv;
    ckci_gpu_sums s;
    ckci_conv plain;
    ckconv_plan one;
    CKCI_TRY(ckci_gpu_no_split(f, err));
    CKCI_TRY(ckci_gpu_takes(p, err));
    if (f->plan->tune[CKCI_TUNE_MID]) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "a pair's first convolution has its epilogue beside it");
    }
    CKCI_TRY(ckci_place_apart(p, f->limit, NULL, &s, &plain, err));
    CKCI_TRY(ckci_plan_part(&plain, &f->plan->device, f->limit - s.bytes, 0, &one, &f->cost, err));
    const double apart = ckci_apart_cost(&f->plan->device, p, &s);
    f->ns = ckci_part_ns(&one);
    f->cost += ckci_cost_like(apart, f->cost, f->ns);
    f->ns += apart;
    f->plan->grid[0] = one.grid[0];
    f->plan->block[0] = one.block[0];
    f->plan->tune[CKCI_TUNE_APART] = one.instance;
    f->plan->tune[CKCI_TUNE_PART] = one.tune[CKCI_TUNE_PART];
    f->plan->tune[CKCI_TUNE_PARTS] = one.tune[CKCI_TUNE_PARTS];
    f->plan->split_k = one.split_k;
    f->plan->workspace_bytes = s.bytes + one.workspace_bytes;
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_sums(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                                     unsigned char *ws, const ckci_gpu_tile *tile, const ckci_emitter *e,
                                     ckconv_error *err)
{
    ckci_gpu_sums s;
    ckci_conv plain;
    ckconv_plan part = *plan;
    (void)args;
    (void)tile;
    CKCI_TRY(ckci_place_apart(&p->conv, ckci_run_limit(plan), ws, &s, &plain, err));
    part.instance = (int32_t)plan->tune[CKCI_TUNE_APART];
    part.workspace_bytes -= s.bytes;
    CKCI_TRY(ckci_list_part(&part, &plain, ws ? ws + s.bytes : NULL, e, err));
    return ckci_emit_gpu_sums(&p->conv, &s, 1, e, err);
}
