/*------------------------------------------------------------------------------------------------------------
  >>gpu-sums
  Sums of fwd and bwd_data that wait in workspace, for parts of a reduction whose blocks do not know each
  other: a tensor of f32 with the positions of the written one, and the launch (gather_reduce) that adds what
  parts left there, in their order, and takes it through the epilogue.
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
    return s->bytes <= limit ? CKCONV_OK : ckci_over_limit("sums of parts of the reduction", s->bytes, err);
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
