/*------------------------------------------------------------------------------------------------------------
  >>gpu-sections
  Filters that matrix tiles do not take whole (ckci_matrix_taps), section by section: each is a convolution of
  its own, planned like any other, of a part of the filter and of the input that this part meets.
      bwd_weight      a section is written where its weights lie
      fwd, bwd_data   the first section writes its sums, all others add theirs to them: in the written tensor,
                      if that is what sums are kept in and has no epilogue, else in workspace, from where a
                      last launch takes them through the epilogue
  Sections follow each other in a fixed order, and so do their sums.
*/
#pragma once
#include "gpu/sums.h"

/* More sections would be more launches than a plan is worth. */
enum { CKCI_MOST_SECTIONS = 64 };

/* How a filter is cut: taps of a section along each axis, sections, and where sums are. */
typedef struct ckci_sections {
    int64_t size[3], count[3], all;
    int32_t here; /* in the written tensor */
    ckci_gpu_sums sums;
} ckci_sections;

/* May sums be kept in the written tensor itself? */
CKCI_FN int ckci_sections_here(const ckci_conv *p)
{
    const ckci_tensor *t = &p->t[ckci_written(p->op)];
    return p->op == CKCONV_BWD_WEIGHT || (t->op.kind == CKCONV_PASS && t->dtype == ckci_conv_kind(p));
}

/* The fewest sections of at most CKCI_MOST_TAPS taps, whose sizes add up to 31 or less or lie along one
   axis. */
CKCI_FN ckconv_status ckci_cut_filter(const ckci_conv *p, ckci_sections *s, ckconv_error *err)
{
    ckci_conv part = *p;
    int32_t ranges;
    memset(s, 0, sizeof *s);
    s->all = CKCI_MOST_SECTIONS + 1;
    for (int64_t z = 1; z <= ckci_min(p->filter[0], CKCI_MOST_SECTIONS); z++) {
        for (int64_t y = 1; y <= ckci_min(p->filter[1], CKCI_MOST_SECTIONS) && z * y < s->all; y++) {
            for (int64_t x = 1; x <= ckci_min(p->filter[2], CKCI_MOST_SECTIONS) && z * y * x < s->all; x++) {
                const int64_t count[3] = {z, y, x};
                for (int i = 0; i < 3; i++) {
                    part.filter[i] = ckci_ceil_div(p->filter[i], count[i]);
                }
                if (ckci_matrix_taps(&part, &ranges, NULL) == CKCONV_OK) {
                    s->all = z * y * x;
                    memcpy(s->count, count, sizeof count);
                    memcpy(s->size, part.filter, sizeof part.filter);
                }
            }
        }
    }
    return s->all <= CKCI_MOST_SECTIONS
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                           "a filter of %lld x %lld x %lld taps has more than %d sections that tiles take",
                           CKCI_LL(p->filter[0]), CKCI_LL(p->filter[1]), CKCI_LL(p->filter[2]),
                           (int)CKCI_MOST_SECTIONS);
}

/* Where the sums of fwd and bwd_data are. */
CKCI_FN ckconv_status ckci_place_sections(const ckci_conv *p, int64_t limit, unsigned char *ws,
                                          ckci_sections *s, ckconv_error *err)
{
    s->here = ckci_sections_here(p);
    s->sums.t = p->t[ckci_written(p->op)];
    if (s->here) {
        return CKCONV_OK;
    }
    if (ckci_conv_kind(p) != CKCONV_F32) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "sections of f64 and i8 filters add up in the written tensor: f64 or i32 without an "
                         "epilogue");
    }
    return ckci_place_gpu_sums(p, 1, limit, ws, &s->sums, err);
}

/* Also of a plan, whose pointers are NULL: how far the rest is from 16 bytes is known. */
CKCI_FN void ckci_skip(ckci_tensor *t, int dim, int64_t count)
{
    const int64_t bytes = count * t->stride[dim] * (int64_t)ckci_size(t->dtype);
    t->p = (unsigned char *)((uintptr_t)t->p + (uintptr_t)bytes);
}

/* Section `at` of p. Zero: it lies on padding alone, and has nothing to add. */
CKCI_FN int ckci_cut_section(const ckci_conv *p, const ckci_sections *s, int64_t at, ckci_conv *part)
{
    const int weight = p->op == CKCONV_BWD_WEIGHT;
    const int64_t place[3] = {at / (s->count[1] * s->count[2]), at / s->count[2] % s->count[1],
                              at % s->count[2]};
    ckci_tensor *in = &part->t[CKCI_IN], *w = &part->t[CKCI_WEI];
    *part = *p;
    if (!weight) {
        part->t[ckci_written(p->op)] = s->sums.t;
        part->num_d = at > 0;
        part->d[0] = s->sums.t;
        if (at > 0) {
            part->t[ckci_written(p->op)].op.kind = CKCONV_BILINEAR;
            part->t[ckci_written(p->op)].op.alpha = part->t[ckci_written(p->op)].op.beta = 1;
        }
    }
    for (int i = 0; i < 3; i++) {
        const int64_t first = place[i] * s->size[i], before = first * p->dilation[i] - p->pad[i];
        part->filter[i] = w->len[3 + i] = ckci_max(ckci_min(s->size[i], p->filter[i] - first), 0);
        if (part->filter[i] == 0) {
            return 0;
        }
        ckci_skip(w, 3 + i, first);
        part->pad[i] = ckci_max(-before, 0);
        for (int j = 0; j < part->num_d && weight; j++) {
            part->d[j].len[3 + i] = part->filter[i];
            ckci_skip(&part->d[j], 3 + i, first);
        }
        if (before <= 0) {
            continue;
        }
        part->input[i] = in->len[3 + i] = ckci_max(p->input[i] - before, 0);
        if (part->input[i] == 0) {
            part->input[i] = in->len[3 + i] = 1; /* zeros, of no image */
            part->n = 0;
            continue;
        }
        ckci_skip(in, 3 + i, before);
        if (p->op == CKCONV_BWD_DATA && part->num_d > 0) {
            part->d[0].len[3 + i] = part->input[i];
            ckci_skip(&part->d[0], 3 + i, before);
        }
    }
    for (int i = 0; i < 3 && part->n == 0; i++) {
        part->t[i].len[1] = i == CKCI_WEI ? part->t[i].len[1] : 0;
    }
    return weight || part->n > 0;
}

CKCI_FN ckconv_status ckci_fit_sections(ckci_fit *f, ckconv_error *err)
{
    const ckci_conv *p = &f->p->conv;
    ckci_sections s;
    ckci_conv part;
    int32_t ranges;
    int64_t more = 0;
    CKCI_TRY(ckci_gpu_no_split(f, err));
    CKCI_TRY(ckci_gpu_takes(p, err));
    if (ckci_matrix_taps(p, &ranges, NULL) == CKCONV_OK) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "sections are for filters that tiles do not take whole");
    }
    CKCI_TRY(ckci_cut_filter(p, &s, err));
    CKCI_TRY(ckci_place_sections(p, f->limit, NULL, &s, err));
    f->cost = 1; /* as long as the whole is no reason to cut it */
    f->ns = 0;
    for (int64_t at = 0; at < s.all; at++) {
        ckconv_plan one;
        double cost = 0;
        if (ckci_cut_section(p, &s, at, &part)) {
            CKCI_TRY(ckci_plan_part(&part, &f->plan->device, f->limit - s.sums.bytes, 0, &one, &cost, err));
            more = ckci_max(more, one.workspace_bytes);
            f->plan->grid[0] = one.grid[0];
            f->plan->block[0] = one.block[0];
            f->cost += cost;
            f->ns += ckci_part_ns(&one);
        }
    }
    const double move = s.sums.bytes > 0 ? ckci_move_cost(&f->plan->device, (double)s.sums.bytes) : 0;
    f->cost += move;
    f->ns += move;
    f->plan->workspace_bytes = s.sums.bytes + more; /* sections use the rest, one after the other */
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_sections(const ckconv_plan *plan, const ckci_problem *p,
                                         const ckconv_args *args, unsigned char *ws,
                                         const ckci_gpu_tile *tile, const ckci_emitter *e, ckconv_error *err)
{
    const ckci_conv *c = &p->conv;
    const int64_t limit = ckci_run_limit(plan);
    ckci_sections s;
    ckci_conv part;
    (void)args;
    (void)tile;
    CKCI_TRY(ckci_cut_filter(c, &s, err));
    CKCI_TRY(ckci_place_sections(c, limit, ws, &s, err));
    for (int64_t at = 0; at < s.all; at++) {
        if (ckci_cut_section(c, &s, at, &part)) {
            CKCI_TRY(ckci_emit_part(&plan->device, &part, limit - s.sums.bytes, ws ? ws + s.sums.bytes : NULL,
                                    e, err));
        }
    }
    return s.here ? CKCONV_OK : ckci_emit_gpu_sums(c, &s.sums, 1, e, err);
}
