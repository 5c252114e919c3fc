/*------------------------------------------------------------------------------------------------------------
  >>cpu-pair
  One convolution of a pair, by whichever of the two families costs less, and both of them fused: an item then
  owns a tile of output positions in all channels and keeps mid in its scratch. Without workspace for that,
  both run one after the other, or mid is computed again where it is needed, by the specification's own code:
  the one place where the CPU engine reads ref/.
*/
#pragma once
#include "ref/ref.h"
#include "cpu/direct.h"

typedef struct ckci_stage {
    int direct, dots; /* dots: the implicit GEMM's view is one of pairs */
    int32_t features;
    ckci_gather_job gather;
    ckci_direct_job line;
    int64_t packed, scratch; /* bytes */
} ckci_stage;

/* The views of both families. paired: the problem of pairs if it is one; the views refer to it. */
CKCI_FN void ckci_view_stage(ckci_stage *s, const ckci_conv *p, ckci_conv *paired)
{
    ckci_view v = ckci_make_view(p, s->features);
    s->gather.v = s->line.v = v;
    s->dots =
        (s->features & CKCONV_CPU_AVX512_BF16) && ckci_pair_channels(p, paired, &s->gather.v, s->features);
    if (!s->dots) {
        s->gather.v = v;
    }
    if ((s->features & CKCONV_CPU_AVX512_BF16) && ckci_half_lanes(p, &v, s->features)) {
        s->line.v = v;
    } else if (s->dots) {
        s->line.v = s->gather.v;
    }
}

CKCI_FN ckci_stage ckci_make_stage(const ckci_conv *p, ckci_conv *paired, int32_t features, int32_t threads)
{
    ckci_stage s;
    memset(&s, 0, sizeof s);
    s.features = features;
    ckci_view_stage(&s, p, paired);
    s.gather.t = ckci_gather_tiles(&s.gather.v, threads, CKCI_MAX_BYTES, -1);
    s.gather.target = s.line.target = ckci_make_target(p);
    s.packed = s.gather.t.packed;
    s.scratch = s.gather.t.scratch;
    if (ckci_direct_takes(&s.line.v, 0, NULL) == CKCONV_OK) {
        s.line.t = ckci_find_direct_tiles(&s.line.v, threads, CKCI_MAX_BYTES - 1);
        s.direct = s.line.t.bytes < CKCI_MAX_BYTES && s.line.t.packed > 0 &&
                   s.line.t.lines < ((int64_t)1 << 30) &&
                   ckci_direct_cost(&s.line.v, &s.line.t) < ckci_gather_cost(&s.gather.v, CKCI_MAX_BYTES);
    }
    if (s.direct) {
        s.packed = s.line.t.packed;
        s.scratch = s.line.t.scratch;
    }
    return s;
}

CKCI_FN void ckci_pack_stage(ckci_stage *s, unsigned char *packed, int32_t threads)
{
    const ckci_view *v = &s->gather.v;
    s->gather.packed = s->line.packed = packed;
    if (s->direct) {
        ckci_parallel(threads, s->line.t.blocks, ckci_direct_pack_item, &s->line, packed, 0);
    } else {
        ckci_parallel(threads, v->p->g * ckci_ceil_div(v->cols, 2 * v->k->lanes), ckci_pack_item, &s->gather,
                      packed, 0);
    }
}

/* All items of a packed stage, on `threads` threads with scratch for each. */
CKCI_FN void ckci_run_stage(const ckci_stage *s, unsigned char *scratch, int32_t threads)
{
    if (s->direct) {
        ckci_parallel(threads, s->line.t.items, ckci_direct_item, &s->line, scratch, s->scratch);
    } else {
        ckci_parallel(threads, s->gather.t.items, ckci_gather_item, &s->gather, scratch, s->scratch);
    }
}

/* The same packed weights, for a problem that differs in batch, spatial sizes and pointers. */
CKCI_FN ckci_stage ckci_restage(const ckci_stage *s, const ckci_conv *p, ckci_conv *paired,
                                const ckci_target *target)
{
    ckci_stage r = *s;
    ckci_view_stage(&r, p, paired);
    r.gather.target = r.line.target = *target;
    if (r.direct) {
        r.line.t = ckci_find_direct_tiles(&r.line.v, 1, CKCI_MAX_BYTES - 1);
        r.scratch = r.line.t.scratch;
    } else {
        r.gather.t = ckci_gather_tiles(&r.gather.v, 1, CKCI_MAX_BYTES, -1);
        r.scratch = r.gather.t.scratch;
    }
    return r;
}

/* ---- conv_conv_fwd. Fused: an item owns a tile of output positions of one batch entry in all channels; it
   computes mid there into its scratch ([position][channel] in the number kind of the arithmetic or in bf16,
   values rounded to the compute type), copies it out if asked, and multiplies it by the second weights at
   once. Unfused: all of mid lies in workspace. */
typedef struct ckci_pair_tiles {
    int64_t yb, xb, blocks_y, blocks_x, items;
    int64_t mid, packed[2], scratch, bytes;
    int32_t threads;
} ckci_pair_tiles;

typedef struct ckci_pair_job {
    const ckci_conv_conv *p;
    ckci_pair_tiles t;
    ckci_conv second, paired[2]; /* p's second one, whose input is a dense mid */
    ckconv_dtype held;           /* mid's type in scratch: the number kind, or bf16 for dot products */
    ckci_stage stage[2];
    ckci_target mid; /* scale, shift, operation, rounding; stored in the number kind */
    ckci_target out;
    unsigned char *copy;  /* the caller's mid, or NULL */
    unsigned char *whole; /* unfused: all of mid */
} ckci_pair_job;

/* Planning walks the same code without pointers. */
CKCI_FN void ckci_advance(ckci_tensor *t, int64_t elements)
{
    if (t->p) {
        t->p += elements * (int64_t)ckci_size(t->dtype);
    }
}

/* The two convolutions restricted to the tile at q of `size` positions of entry n, mid at `memory`. */
CKCI_FN void ckci_pair_part(const ckci_pair_job *job, int64_t n, int64_t count, const int64_t q[3],
                            const int64_t size[3], unsigned char *memory, ckci_conv part[2],
                            ckci_target target[2])
{
    part[0] = job->p->first;
    part[1] = job->second;
    target[0] = job->mid;
    target[1] = job->out;
    for (int i = 0; i < 2; i++) {
        part[i].n = count;
    }
    ckci_tensor *in = &part[0].t[CKCI_IN], *out = &target[1].t;
    ckci_advance(in, n * in->stride[1]);
    in->len[1] = count;
    target[1].d = part[1].d;
    for (int32_t j = 0; j <= part[1].num_d; j++) {
        ckci_tensor *t = j < part[1].num_d ? &part[1].d[j] : out;
        ckci_advance(t, n * t->stride[1] + q[0] * t->stride[3] + q[1] * t->stride[4] + q[2] * t->stride[5]);
    }
    for (int i = 0; i < 3; i++) {
        part[0].pad[i] -= q[i] * part[0].stride[i];
        part[0].output[i] = size[i];
        part[1].input[i] = part[1].output[i] = size[i];
    }
    ckci_dense_mid(&target[0].t, job->held, part[0].g, count, part[0].k, size, memory);
    target[0].t.op = job->mid.t.op;
    ckci_dense_mid(&part[1].t[CKCI_IN], job->held, part[1].g, count, part[1].c, size, memory);
}

/* mid of a tile to the caller's copy. values: [position][channel] */
CKCI_FN void ckci_copy_mid(const ckci_pair_job *job, int64_t n, const int64_t q[3], const int64_t size[3],
                           const unsigned char *values)
{
    const ckci_conv *p = &job->p->first;
    const ckci_kind *kind = job->stage[0].gather.v.kind;
    ckci_target copy;
    int64_t at[6];
    memset(&copy, 0, sizeof copy);
    copy.t = p->t[CKCI_OUT];
    memset(&copy.t.op, 0, sizeof copy.t.op);
    at[1] = n;
    for (at[3] = q[0]; at[3] < q[0] + size[0]; at[3]++) {
        for (at[4] = q[1]; at[4] < q[1] + size[1]; at[4]++) {
            for (at[5] = q[2]; at[5] < q[2] + size[2]; at[5]++) {
                for (at[0] = 0; at[0] < p->g; at[0]++) {
                    if (job->held == kind->dtype) {
                        at[2] = 0;
                        kind->write(&copy, at, 2, p->k, values);
                        values += p->k * kind->size;
                        continue;
                    }
                    for (at[2] = 0; at[2] < p->k; at[2] += CKCI_SPAN) {
                        float buffer[CKCI_SPAN];
                        int64_t some = ckci_min(p->k - at[2], CKCI_SPAN);
                        job->stage[0].gather.v.k->widen(1, some, values, 0, buffer, 0);
                        kind->write(&copy, at, 2, some, buffer);
                        values += some * 2;
                    }
                }
            }
        }
    }
}

CKCI_FN void ckci_pair_item(const void *context, int64_t item, unsigned char *scratch)
{
    const ckci_pair_job *job = (const ckci_pair_job *)context;
    const ckci_pair_tiles *t = &job->t;
    const ckci_conv *first = &job->p->first;
    int64_t q[3], size[3], rest = item;
    q[2] = rest % t->blocks_x * t->xb;
    rest /= t->blocks_x;
    q[1] = rest % t->blocks_y * t->yb;
    rest /= t->blocks_y;
    q[0] = rest % first->output[0];
    int64_t n = rest / first->output[0];
    size[0] = 1;
    size[1] = ckci_min(t->yb, first->output[1] - q[1]);
    size[2] = ckci_min(t->xb, first->output[2] - q[2]);
    ckci_conv part[2], paired;
    ckci_target target[2];
    ckci_pair_part(job, n, 1, q, size, scratch, part, target);
    for (int i = 0; i < 2; i++) {
        ckci_stage s = ckci_restage(&job->stage[i], &part[i], &paired, &target[i]);
        ckci_run_stage(&s, scratch + t->mid, 1);
        if (i == 0 && job->copy) {
            ckci_copy_mid(job, n, q, size, scratch);
        }
    }
}

/* Workspace: packed weights and `shared` bytes, and scratch for as many threads as the limit allows. */
CKCI_FN void ckci_pair_total(ckci_pair_tiles *t, int64_t shared, int64_t limit, int32_t threads)
{
    shared = ckci_saturating_add(ckci_saturating_add(shared, t->packed[0]), t->packed[1]);
    t->threads = ckci_total(shared, t->scratch, 1) > limit
                     ? 1
                     : ckci_threads_within(limit, shared, t->scratch, threads);
    t->bytes = ckci_total(shared, t->scratch, t->threads);
}

/* Fused tiles: mid of one tile within about half of a core's L2. */
CKCI_FN ckci_pair_tiles ckci_find_pair_tiles(const ckci_pair_job *job, int64_t limit, int32_t threads)
{
    ckci_pair_tiles t;
    const ckci_conv *first = &job->p->first;
    int64_t channels = first->g * first->k, size = (int64_t)ckci_size(job->held);
    memset(&t, 0, sizeof t);
    t.xb = first->output[2];
    t.yb = first->output[1];
    while (t.xb * t.yb * channels * size > 256 * 1024 && t.xb * t.yb > 28) {
        if (t.yb > 1) {
            t.yb = ckci_ceil_div(t.yb, 2);
        } else {
            t.xb = ckci_ceil_div(t.xb, 2);
        }
    }
    t.blocks_y = ckci_ceil_div(first->output[1], t.yb);
    t.blocks_x = ckci_ceil_div(first->output[2], t.xb);
    t.items = ckci_saturating_mul(first->n * first->output[0], t.blocks_y * t.blocks_x);
    t.mid = ckci_line_up(t.xb * t.yb * channels * size);
    /* a tile at the edge is smaller, but its stages may choose taller blocks: the most that any of the four
       needs */
    for (int edge = 0; edge < 4; edge++) {
        int64_t none[3] = {0, 0, 0}, tile[3];
        tile[0] = 1;
        tile[1] = edge & 1 ? first->output[1] - (t.blocks_y - 1) * t.yb : t.yb;
        tile[2] = edge & 2 ? first->output[2] - (t.blocks_x - 1) * t.xb : t.xb;
        ckci_conv part[2], paired;
        ckci_target target[2];
        ckci_pair_part(job, 0, 1, none, tile, NULL, part, target);
        for (int i = 0; i < 2; i++) {
            ckci_stage s = ckci_restage(&job->stage[i], &part[i], &paired, &target[i]);
            t.packed[i] = job->stage[i].packed;
            t.scratch = ckci_max(t.scratch, ckci_saturating_add(t.mid, s.scratch));
        }
    }
    ckci_pair_total(&t, 0, limit, threads);
    return t;
}

CKCI_FN void ckci_make_pair_job(ckci_pair_job *job, const ckci_conv_conv *p, const ckconv_args *args,
                                int32_t features, int32_t threads, int64_t limit, ckconv_family family)
{
    memset(job, 0, sizeof *job);
    job->p = p;
    job->second = p->second;
    job->held = ckci_find_kind(p->first.t[CKCI_WEI].compute)->dtype;
    ckci_tensor *mid = &job->second.t[CKCI_IN];
    if ((features & CKCONV_CPU_AVX512_BF16) && p->first.t[CKCI_IN].compute == CKCONV_BF16) {
        ckci_view v;
        ckci_dense_mid(mid, CKCONV_BF16, p->second.g, p->second.n, p->second.c, p->second.input, NULL);
        job->held = ckci_pair_channels(&job->second, &job->paired[1], &v, features) ? CKCONV_BF16 : job->held;
    }
    ckci_dense_mid(mid, job->held, p->second.g, p->second.n, p->second.c, p->second.input, NULL);
    job->stage[0] = ckci_make_stage(&p->first, &job->paired[0], features, threads);
    job->stage[1] = ckci_make_stage(&job->second, &job->paired[1], features, threads);
    job->mid = ckci_make_target(&p->first);
    job->mid.compute = job->held == CKCONV_BF16 ? (ckconv_dtype)0 : p->first.t[CKCI_IN].compute;
    if (job->mid.compute == CKCONV_F32 || job->mid.compute == CKCONV_F64) {
        job->mid.compute = (ckconv_dtype)0; /* as it is summed */
    }
    job->out = ckci_make_target(&p->second);
    if (args) {
        job->mid.scale = (const unsigned char *)args->scale;
        job->mid.shift = (const unsigned char *)args->shift;
        job->copy = (unsigned char *)args->mid;
    }
    if (family == CKCONV_FAMILY_FUSED) {
        job->t = ckci_find_pair_tiles(job, limit, threads);
        return;
    }
    ckci_pair_tiles *t = &job->t;
    int64_t size = job->stage[0].gather.v.kind->size;
    t->mid = ckci_line_up(ckci_saturating_mul(ckci_count(&p->first.t[CKCI_OUT]), size));
    t->packed[0] = job->stage[0].packed;
    t->packed[1] = job->stage[1].packed;
    t->scratch = ckci_max(job->stage[0].scratch, job->stage[1].scratch);
    t->items = job->stage[1].direct ? job->stage[1].line.t.items : job->stage[1].gather.t.items;
    ckci_pair_total(t, t->mid, limit, threads);
}

CKCI_FN ckconv_status ckci_fit_pair(ckci_fit *f, ckconv_error *err)
{
    const ckci_conv_conv *p = &f->p->pair;
    int fused = f->family == CKCONV_FAMILY_FUSED;
    ckci_pair_job job;
    if (f->split_k > 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: conv_conv_fwd does not split",
                         (int)f->split_k);
    }
    if (fused && !ckci_pointwise(&p->second)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "fused takes a 1x1 second convolution with stride 1 and no pads; unfused takes all");
    }
    ckci_make_pair_job(&job, p, NULL, f->features, f->plan->device.threads, f->limit, f->family);
    if ((f->features & CKCONV_CPU_AVX512_BF16) && job.held != CKCONV_BF16) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "bf16 dot products take bf16 arithmetic, plain weights and an even number of channels "
            "in the second convolution");
    }
    if (job.t.bytes > f->limit || job.t.bytes >= CKCI_MAX_BYTES) {
        return ckci_over_limit(fused ? "fused" : "unfused", job.t.bytes, err);
    }
    f->plan->workspace_bytes = job.t.bytes;
    f->plan->block[0] = job.t.threads;
    f->plan->grid[0] = job.t.items;
    f->plan->launches = fused ? 3 : 4;
    f->cost = 0;
    for (int i = 0; i < 2; i++) {
        f->cost += job.stage[i].direct ? ckci_direct_cost(&job.stage[i].line.v, &job.stage[i].line.t)
                                       : ckci_gather_cost(&job.stage[i].gather.v, CKCI_MAX_BYTES);
    }
    if (!fused) {
        f->cost += (double)ckci_count(&p->first.t[CKCI_OUT]); /* mid to memory and back */
    }
    return CKCONV_OK;
}

CKCI_FN void ckci_run_pair(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                           unsigned char *ws, int32_t features)
{
    ckci_pair_job job;
    int32_t threads = plan->device.threads;
    ckconv_family family = ckconv_instance_family(plan->instance);
    int64_t none[3] = {0, 0, 0};
    if (p->pair.first.n == 0) {
        return;
    }
    ckci_make_pair_job(&job, &p->pair, args, features, threads, ckci_plan_limit(plan), family);
    threads = job.t.threads;
    unsigned char *after = ws + job.t.packed[0] + job.t.packed[1];
    ckci_pack_stage(&job.stage[0], ws, threads);
    ckci_pack_stage(&job.stage[1], ws + job.t.packed[0], threads);
    if (family == CKCONV_FAMILY_FUSED) {
        ckci_parallel(threads, job.t.items, ckci_pair_item, &job, after, job.t.scratch);
        return;
    }
    /* unfused: the same two stages over everything at once */
    const ckci_conv *first = &p->pair.first;
    ckci_conv part[2];
    ckci_target target[2];
    ckci_pair_part(&job, 0, first->n, none, first->output, after, part, target);
    for (int i = 0; i < 3; i++) {
        part[1].output[i] = p->pair.second.output[i];
    }
    for (int i = 0; i < 2; i++) {
        ckci_stage s = job.stage[i];
        s.gather.v.p = s.line.v.p = &part[i];
        s.gather.v.read = s.line.v.read = &part[i].t[CKCI_IN];
        s.gather.target = s.line.target = target[i];
        ckci_run_stage(&s, after + job.t.mid, threads);
        int64_t entry = first->g * first->k * first->output[0] * first->output[1] * first->output[2];
        for (int64_t n = 0; i == 0 && job.copy && n < first->n; n++) {
            ckci_copy_mid(&job, n, none, first->output, after + n * entry * s.gather.v.kind->size);
        }
    }
}

/* Without workspace mid is computed again wherever it is needed, by the specification's own code. */
CKCI_FN ckconv_status ckci_fit_recompute(ckci_fit *f, ckconv_error *err)
{
    const ckci_conv *b = &f->p->pair.second;
    if (f->split_k > 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "split_k is %d: conv_conv_fwd does not split",
                         (int)f->split_k);
    }
    f->plan->grid[0] = b->n * b->output[0] * b->output[1] * b->output[2];
    f->cost = 1e29;
    return CKCONV_OK;
}

CKCI_FN void ckci_run_recompute(const ckconv_plan *plan, const ckci_problem *p, const ckconv_args *args,
                                unsigned char *ws, int32_t features)
{
    (void)ws;
    (void)features;
    ckci_ref_conv_conv(&p->pair, args, plan->device.threads);
}
