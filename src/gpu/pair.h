/*------------------------------------------------------------------------------------------------------------
  >>gpu-pair
  conv_conv_fwd: fused (kernels/pair/), or two convolutions through workspace. A fused block keeps mid of its
  positions in LDS; which kernel that is follows from the first convolution, depthwise or pointwise, and from
  the LDS of the device. Otherwise both are planned as convolutions of their own, by a question to the planner
  above (ckci_plan_part), and mid's epilogue is put into the first one's launches. The cheaper way wins.
*/
#pragma once
#include "gpu/matrix.h"
#include "gpu/move.h"

/* The type in which mid lies in workspace: its compute type, so that the second convolution reads it as it
   is. */
CKCI_FN ckconv_dtype ckci_gpu_mid_type(const ckci_conv *first)
{
    ckconv_dtype c = first->t[CKCI_IN].compute;
    return c == CKCONV_F64 || c == CKCONV_I8 || c == CKCONV_F16 || c == CKCONV_BF16
               ? c
               : (ckconv_dtype)CKCONV_F32;
}

/* mid in workspace, dense, channels of all groups fastest: [groups][per group] is one index for both
   convolutions. */
CKCI_FN void ckci_gpu_mid(const ckci_conv *first, int64_t groups, int64_t per_group, unsigned char *ws,
                          ckci_tensor *t)
{
    ckconv_dtype type = ckci_gpu_mid_type(first);
    ckconv_element_op none = t->op;
    ckci_dense_mid(t, ckci_find_kind(type)->dtype, groups, first->n, per_group, first->output, ws);
    t->dtype = t->compute = type;
    t->op = none;
}

/* Bytes of mid in workspace; what follows it is aligned too. */
CKCI_FN int64_t ckci_mid_bytes(const ckci_conv *first)
{
    const ckci_tensor *mid = &first->t[CKCI_OUT];
    int64_t bytes = ckci_saturating_mul(ckci_count(mid), (int64_t)ckci_size(mid->dtype));
    return ckci_saturating_mul(ckci_ceil_div(bytes, CKCI_ALIGN), CKCI_ALIGN);
}

/* Both convolutions with mid in workspace. */
CKCI_FN void ckci_gpu_unfused(const ckci_conv_conv *p, unsigned char *ws, ckci_conv part[2])
{
    part[0] = p->first;
    part[1] = p->second;
    ckci_gpu_mid(&p->first, p->first.g, p->first.k, ws, &part[0].t[CKCI_OUT]);
    ckci_gpu_mid(&p->first, p->second.g, p->second.c, ws, &part[1].t[CKCI_IN]);
    memset(&part[1].t[CKCI_IN].op, 0, sizeof part[1].t[CKCI_IN].op);
}

/* The first convolution's epilogue: scale, shift, operation, rounding (storing it is that already where mid
   lies as what it is rounded to). */
CKCI_FN void ckci_gpu_mid_target(const ckci_conv *first, const ckconv_args *args, ckci_gpu_target *o)
{
    ckconv_dtype compute = first->t[CKCI_IN].compute;
    int stored = o->t.dtype == compute && compute != CKCONV_I8;
    o->scale = args ? (const unsigned char *)args->scale : NULL;
    o->shift = args ? (const unsigned char *)args->shift : NULL;
    o->compute = stored ? (ckconv_dtype)0 : compute;
    ckci_set_form(o);
}

/* What costs count beside those of matrix units (H100: the f32 kernel takes 49 to 2,860 us where two kernels
   take 17 to 204, the one that takes everything 270); and those of two kernels, the second of which waits for
   all blocks of the first. */
#define CKCI_FUSED_BESIDE 8
#define CKCI_RECOMPUTE_BESIDE 16
#define CKCI_UNFUSED_MORE 9174.

/* Both in one launch. tile 64: the f32 kernel for 1x1 second filters; 0: the one that takes everything. */
CKCI_FN ckconv_status ckci_gpu_fused(const ckci_conv_conv *p, const ckconv_device *device, int32_t tile,
                                     ckci_launch *l, double *cost, ckconv_error *err)
{
    ckci_gpu_pair *pair = &l->a.pair;
    ckconv_dtype kind = ckci_conv_kind(&p->first);
    int64_t taps1 = p->second.filter[0] * p->second.filter[1] * p->second.filter[2];
    if (tile && taps1 != 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "filter1 has %lld taps: the fused kernel takes 1, larger ones run unfused",
                         CKCI_LL(taps1));
    }
    CKCI_TRY(ckci_gpu_takes(&p->first, err));
    CKCI_TRY(ckci_gpu_takes(&p->second, err));
    memset(pair, 0, sizeof *pair);
    ckci_make_gpu_conv(&p->first, &pair->first);
    ckci_make_gpu_conv(&p->second, &pair->second);
    ckci_gpu_conv *k = &pair->second;
    double taps = (double)(p->first.filter[0] * p->first.filter[1] * p->first.filter[2]);
    double mid = (double)k->red * (4 * taps * (double)p->first.c + 16); /* of one position */
    if (tile) {
        ckci_set_kernel(l, CKCI_KERNEL_pair_f32);
        k->tiles_m = (int32_t)ckci_max(ckci_ceil_div(k->rows, 64), 1);
        k->tiles_n = (int32_t)ckci_ceil_div(k->columns, 64);
        CKCI_TRY(ckci_make_grid(k, k->g, l, err));
        *cost = CKCI_FUSED_BESIDE *
                ckci_gpu_cost(device, l->grid, 64 * mid + 64.0 * 64.0 * ((double)k->red + 32), 64);
    } else {
        ckci_set_kernel(l, ckci_kernel_for(kind, CKCI_KERNEL_recompute_f32, CKCI_KERNEL_recompute_f64,
                                           CKCI_KERNEL_recompute_i32));
        ckci_direct_blocks(k, ckci_saturating_mul(p->second.g, k->columns));
        CKCI_TRY(ckci_make_grid(k, k->phases, l, err));
        *cost = CKCI_RECOMPUTE_BESIDE * ckci_gpu_cost(device, l->grid, 256 * mid * (double)taps1, 128);
    }
    return CKCONV_OK;
}

/* Fused (tile 64), recomputing (tile 0) and unfused. */
CKCI_FN ckconv_status ckci_fit_gpu_pair(ckci_fit *f, ckconv_error *err)
{
    const ckci_conv_conv *p = &f->p->pair;
    ckci_launch l;
    l.grid = l.threads = 0; /* some compilers do not see that it is set */
    CKCI_TRY(ckci_gpu_no_split(f, err));
    CKCI_TRY(ckci_gpu_wrong_kind(f, ckci_conv_kind(&p->first), err));
    if (f->family == CKCONV_FAMILY_FUSED) {
        CKCI_TRY(ckci_gpu_fused(p, &f->plan->device, f->tile->rows, &l, &f->cost, err));
        ckci_plan_launch(f->plan, &l, 1);
        return CKCONV_OK;
    }
    ckci_conv part[2];
    ckci_gpu_unfused(p, NULL, part);
    int64_t bytes = ckci_mid_bytes(&part[0]), extra = 0;
    if (bytes > f->limit) {
        return ckci_over_limit("unfused, mid alone", bytes, err);
    }
    f->ns = f->cost = ckci_cost_launch(&f->plan->device, CKCI_UNFUSED_MORE);
    for (int i = 0; i < 2; i++) {
        ckconv_plan one;
        double cost;
        CKCI_TRY(ckci_plan_part(&part[i], &f->plan->device, f->limit - bytes, i == 0, &one, &cost, err));
        /* no faster than memory: a kernel's cost may be for comparing it with its like only */
        double memory = ckci_cost_launch(&f->plan->device, 3000);
        for (int j = 0; j < 3; j++) {
            const ckci_tensor *t = &part[i].t[j];
            const double all = (double)ckci_count(t) * (double)ckci_size(t->dtype);
            memory += ckci_cost_bytes(&f->plan->device, all, 20);
        }
        f->cost += cost > memory ? cost : memory;
        f->ns += ckci_part_ns(&one) > memory ? ckci_part_ns(&one) : memory;
        f->plan->tune[CKCI_TUNE_FIRST + i] = one.instance;
        f->plan->tune[CKCI_TUNE_APART] = one.tune[CKCI_TUNE_APART]; /* of the second one */
        f->plan->grid[0] = one.grid[0];
        f->plan->block[0] = one.block[0];
        extra = ckci_max(extra, one.workspace_bytes);
    }
    f->plan->workspace_bytes = bytes + extra; /* both parts use the rest, one after the other */
    return CKCONV_OK;
}

/* The emitter of the first convolution of a pair: mid's epilogue goes into the launches. */
typedef struct ckci_mid_emitter {
    const ckci_conv *first;
    const ckconv_args *args;
    const ckci_emitter *next;
} ckci_mid_emitter;

CKCI_FN ckconv_status ckci_emit_mid(void *context, const ckci_launch *launch, ckconv_error *err)
{
    const ckci_mid_emitter *m = (const ckci_mid_emitter *)context;
    ckci_launch l = *launch;
    if (launch->takes == CKCI_ARGS_ckci_gpu_depth) {
        ckci_gpu_depth *k = &l.a.depth;
        ckci_gpu_mid_target(m->first, m->args, &k->o);
        k->o_same = k->o_same && k->o.form != CKCI_FORM_SINGLE;
        k->o_vec = k->o_vec && k->o_same;
    } else if (ckci_writes_target(launch)) {
        ckci_gpu_conv *k = &l.a.conv;
        ckci_gpu_mid_target(m->first, m->args, &k->o);
        if (!ckci_kernel_of_unit(l.kernel)) {
            /* elsewhere than on matrix units it stands for results without an epilogue */
            k->o_vec = k->o_vec && k->o.form == CKCI_FORM_STORE;
        }
    }
    return m->next->emit(m->next->context, &l, err);
}

CKCI_FN ckconv_status ckci_list_mid(const ckconv_plan *part, const ckci_conv *first, const ckci_conv *p,
                                    const ckconv_args *args, unsigned char *ws, const ckci_emitter *e,
                                    ckconv_error *err)
{
    ckci_mid_emitter m;
    ckci_emitter to_mid;
    m.first = first;
    m.args = args;
    m.next = e;
    to_mid.emit = ckci_emit_mid;
    to_mid.context = &m;
    return ckci_list_part(part, p, ws, &to_mid, err);
}

/* Does the second convolution read each position of mid exactly once? */
CKCI_FN int ckci_pair_whole(const ckci_conv_conv *p)
{
    int whole = 1;
    for (int i = 0; i < 3; i++) {
        whole = whole && p->second.filter[i] == 1 && p->second.stride[i] == 1 && p->second.pad[i] == 0 &&
                p->second.output[i] == p->second.input[i];
    }
    return whole;
}

/* A copy of mid by itself, where the fused kernel cannot write it. */
CKCI_FN ckconv_status ckci_list_mid_copy(const ckconv_plan *plan, const ckci_conv_conv *pair,
                                         const ckconv_args *args, const ckci_emitter *e, ckconv_error *err)
{
    ckconv_plan part;
    double cost;
    CKCI_TRY(ckci_plan_part(&pair->first, &plan->device, 0, 1, &part, &cost, err));
    return ckci_list_mid(&part, &pair->first, &pair->first, args, NULL, e, err);
}

/* Fused; with a copy of mid that the fused kernel cannot write, a kernel for that. */
CKCI_FN ckconv_status ckci_list_fused(const ckconv_plan *plan, const ckci_conv_conv *pair,
                                      const ckconv_args *args, int32_t tile, const ckci_emitter *e,
                                      ckconv_error *err)
{
    ckci_launch l;
    double cost;
    int whole = ckci_pair_whole(pair);
    CKCI_TRY(ckci_gpu_fused(pair, &plan->device, tile, &l, &cost, err));
    ckci_gpu_mid_target(&pair->first, args, &l.a.pair.first.o);
    l.a.pair.first.o.compute = pair->first.t[CKCI_IN].compute; /* mid may not be stored at all */
    l.a.pair.write_mid = whole && args->mid != NULL;
    if (l.grid > 0) {
        CKCI_TRY(e->emit(e->context, &l, err));
    }
    return whole || !args->mid ? CKCONV_OK : ckci_list_mid_copy(plan, pair, args, e, err);
}

/* ---- conv_conv_fwd on a matrix unit; see ckci_k_pair_tiles and ckci_k_pair_depth_tiles in
   kernels/pair */

/* Channels of all groups side by side, in eights: as a tensor of one group. */
CKCI_FN ckci_tensor ckci_one_group(const ckci_tensor *t)
{
    ckci_tensor one = *t;
    if (t->len[2] == 1) {
        one.len[2] = t->len[0];
        one.stride[2] = t->len[0] > 1 ? t->stride[0] : 1;
    }
    one.len[0] = 1;
    return one;
}

/* What a block of a fused kernel is. positions: rows of its tiles; columns: of the second weights at a time;
   lanes: channels that a thread computes of a strip; slab: channels of mid side by side; lds: bytes, of
   strips at most. */
typedef struct ckci_pair_shape {
    int32_t kernel, positions, threads, columns, lanes, slab, lds, side, async;
} ckci_pair_shape;

CKCI_FN ckconv_status ckci_pair_lds(const ckconv_device *device, int32_t lds, ckconv_error *err)
{
    return lds <= device->lds_bytes
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                           "a block of this fused kernel has %d bytes of LDS; on %s it can have %d", (int)lds,
                           device->arch, (int)device->lds_bytes);
}

/* form: of the instance's tile. WIDE and STRIPS have 512 threads. */
CKCI_FN ckconv_status ckci_find_pair_shape(const ckconv_device *device, int32_t form, ckci_pair_shape *s,
                                           ckconv_error *err)
{
    static const ckci_pair_shape point[2] = {
        {CKCI_KERNEL_pair_matrix_f16, 64, 256, 128, 0, 32, 62464, 1, 0},
        {CKCI_KERNEL_pair_matrix_f16, 64, 256, 128, 0, 64, 115712, 2, 1}};
    static const ckci_pair_shape depth[2] = {
        {CKCI_KERNEL_pair_depth_f16, 64, 256, 128, 4, 32, CKCI_PAIR_AMD, 1, 0},
        {CKCI_KERNEL_pair_depth_f16, 128, 256, 128, 8, 64, CKCI_PAIR_NVIDIA, 2, 1}};
    static const ckci_pair_shape wide = {CKCI_KERNEL_pair_depth_wide_f16, 128, 512, 256, 8, 64,
                                         CKCI_PAIR_NVIDIA_WIDE,           1,   1};
    static const ckci_pair_shape strips = {CKCI_KERNEL_pair_strips_f16, 64, 512, 256, 4, 64,
                                           CKCI_PAIR_NVIDIA_WIDE,       1,  0};
    int nvidia = device->kind == CKCONV_DEVICE_NVIDIA;
    *s = form == CKCI_TILE_PAIR_POINT   ? point[nvidia]
         : form == CKCI_TILE_PAIR_DEPTH ? depth[nvidia]
         : form == CKCI_TILE_PAIR_WIDE  ? wide
                                        : strips;
    if (!nvidia && (form == CKCI_TILE_PAIR_WIDE || form == CKCI_TILE_PAIR_STRIPS)) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "this fused kernel is for NVIDIA; here the GPU is %s",
                         device->arch);
    }
    if (form != CKCI_TILE_PAIR_STRIPS) { /* there it depends on the channels */
        CKCI_TRY(ckci_pair_lds(device, s->lds, err));
    }
    s->side = device->lds_bytes < 2 * s->lds ? 1 : s->side;
    return CKCONV_OK;
}

/* Nanoseconds: rounds of blocks on the unit, each so long, or memory. */
CKCI_FN double ckci_pair_time(const ckci_conv_conv *p, const ckconv_device *device, int64_t blocks,
                              const ckci_pair_shape *s, double block)
{
    double share = (double)blocks / ((double)s->side * ckci_units(device)), memory = 0;
    const ckci_tensor *moved[4] = {&p->first.t[CKCI_IN], &p->first.t[CKCI_WEI], &p->second.t[CKCI_WEI],
                                   &p->second.t[CKCI_OUT]};
    for (int i = 0; i < 4; i++) {
        memory += (double)ckci_count(moved[i]) * (double)ckci_size(moved[i]->dtype);
    }
    memory = ckci_cost_bytes(device, memory, 20);
    const double time = ckci_cost_matrix(device, block * (share > 6 ? share : ceil(share)));
    return ckci_cost_launch(device, 3000) + (time > memory ? time : memory);
}

/* A region of so many images, lines and strips of four columns: its window, and where all lies in LDS, with
   as little in one place as fits. */
CKCI_FN int ckci_make_pair_patch(const ckci_conv_conv *p, const ckci_pair_shape *s, int64_t images,
                                 int64_t lines, int64_t strips, ckci_gpu_patch *q)
{
    const ckci_conv *first = &p->first, *second = &p->second;
    int64_t span = s->threads * 4 / s->positions * s->lanes, pixel = 2 * span;
    int64_t step_y = first->stride[1] * second->stride[1], step = first->stride[2] * second->stride[2];
    int64_t rows = (lines - 1) * step_y + (first->filter[1] - 1) * first->dilation[1] + 1;
    int64_t wide = (strips * 4 - 1) * step + (first->filter[2] - 1) * first->dilation[2] + 1;
    int64_t deep = first->filter[0], taps = deep * first->filter[1] * first->filter[2];
    if (images > 31 || deep > 31 || rows > 511 || wide > 511 ||
        images * deep * rows * wide * (span / 8) > (s->async ? 65536 : s->threads * CKCI_PAIR_COPIES)) {
        return 0;
    }
    memset(q, 0, sizeof *q);
    q->images = (int32_t)images;
    q->lines = (int32_t)lines;
    q->columns = (int32_t)(strips * 4);
    q->pixels = (int32_t)(images * deep * rows * wide);
    q->spans = (int32_t)ckci_max(ckci_ceil_div(second->c, span), 1);
    q->step = (int32_t)step;
    q->step_y = (int32_t)step_y;
    q->group = step > 1 || first->dilation[2] > 1 ? 1
               : first->filter[2] % 3 == 0        ? 3
               : first->filter[2] % 5 == 0        ? 5
                                                  : 1;
    q->next_group = (int32_t)(q->group * first->dilation[2] * pixel);
    q->next_y = (int32_t)(first->dilation[1] * wide * pixel);
    q->next_z = (int32_t)(rows * wide * pixel);
    q->by_strips = ckci_make_divisor(strips);
    q->by_lines = ckci_make_divisor(lines);
    q->by_wide = ckci_make_divisor(ckci_ceil_div(second->output[2], strips * 4));
    q->by_high = ckci_make_divisor(ckci_ceil_div(second->output[1], lines));
    q->by_planes = ckci_make_divisor(second->output[0]);
    q->by_window = ckci_make_divisor(wide);
    q->by_rows = ckci_make_divisor(rows);
    q->by_deep = ckci_make_divisor(deep);
    int64_t mid = ckci_ceil_div(second->c, s->slab) * s->slab * 2 * s->positions;
    int64_t weights = 4 * (int64_t)s->columns * s->slab, room = 16384, window = q->pixels * pixel;
    int64_t shared = s->async ? weights + room : room, taps_all = taps * q->spans * span * 4;
    for (int way = 0; way < 4; way++) { /* all apart, two windows of which one is, one window, none apart */
        q->single = !s->async || q->spans == 1 || way == 2;
        q->overlap = way == 1 ? 1 : way == 3 ? 2 : 0;
        int64_t windows = q->single ? 1 : 2;
        if ((way == 1 || way == 2) && (!s->async || q->spans == 1)) {
            continue;
        }
        for (int held = 1; held >= 0; held--) { /* weights of all taps, or those of a span */
            int64_t at = mid, apart = q->overlap == 2 ? 0 : window, other = windows * window - window;
            q->held = (int32_t)(held ? q->spans * span : span);
            q->at_taps = (int32_t)at;
            at += ckci_ceil_div(held ? taps_all : taps * span * 4, 128) * 128;
            q->at_output = (int32_t)at;
            at += 8 * s->positions;
            q->at_regions = (int32_t)at;
            at += 32 * (CKCI_PAIR_LIST + 1);
            q->at_pixels = (int32_t)at;
            at = ckci_ceil_div(at + 8 * q->pixels, 1024) * 1024;
            q->at_tiles = (int32_t)at;
            q->at_room = (int32_t)(at + (s->async ? weights : 0));
            int64_t place = ckci_max(shared, q->overlap == 2   ? windows * window
                                             : q->overlap == 1 ? other
                                                               : 0);
            q->at_window[0] = (int32_t)(q->overlap == 2 ? at : at + place);
            q->at_window[1] = (int32_t)(q->overlap == 1 ? at : q->at_window[0] + (q->single ? 0 : window));
            at += place + apart + (q->overlap == 0 ? other : 0);
            if (at <= s->lds) {
                return 1;
            }
        }
    }
    return 0;
}

/* The region that wastes least: of positions, of inputs around it, of units that wait for the last blocks. */
CKCI_FN int64_t ckci_choose_patch(const ckci_conv_conv *p, const ckconv_device *device,
                                  const ckci_pair_shape *s, ckci_gpu_patch *best)
{
    const ckci_conv *second = &p->second;
    double least = 1e30;
    int64_t regions = 0, most = s->positions / 4, slots = ckci_max(device->compute_units, 1) * s->side;
    for (int64_t strips = 1; strips <= most; strips++) {
        for (int64_t lines = 1; strips * lines <= most; lines++) {
            int64_t images =
                lines >= second->output[1] && strips * 4 >= second->output[2] && second->output[0] == 1
                    ? ckci_max(ckci_min(most / (strips * lines), second->n), 1)
                    : 1;
            ckci_gpu_patch q;
            if ((strips > 1 && (strips - 1) * 4 >= second->output[2]) ||
                (lines > 1 && lines > second->output[1]) ||
                !ckci_make_pair_patch(p, s, images, lines, strips, &q)) {
                continue;
            }
            int64_t all = ckci_saturating_mul(ckci_ceil_div(second->n, images), (int64_t)q.by_planes.d);
            all = ckci_saturating_mul(all, (int64_t)q.by_high.d * q.by_wide.d);
            double share = (double)all / (double)slots;
            double cost =
                (share > 4 ? share : ceil(share)) * (1.5 * s->positions + q.pixels) * (1 + .05 * q.overlap);
            if (cost < least) {
                least = cost;
                regions = ckci_max(all, 1); /* an empty batch has a plan, too */
                *best = q;
            }
        }
    }
    return regions;
}

/* Offsets of weights have 31 bits. */
CKCI_FN ckconv_status ckci_pair_span(const ckci_tensor *t, const char *what, ckconv_error *err)
{
    return ckci_span(t) <= INT32_MAX / 4
               ? CKCONV_OK
               : ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                           "fused on a matrix unit, %s takes up to 2^30 bytes; here it reaches over more",
                           what);
}

/* What both kernels ask of a pair. */
CKCI_FN ckconv_status ckci_pair_reads(const ckci_conv_conv *p, const ckconv_device *device, ckci_gpu_pair *a,
                                      ckconv_error *err)
{
    const ckci_conv *first = &p->first, *second = &p->second;
    ckconv_dtype type = first->t[CKCI_IN].compute;
    if (ckci_matrix_family(device) == 0 || (type != CKCONV_F16 && type != CKCONV_BF16) ||
        second->t[CKCI_WEI].compute != type) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "fused on a matrix unit computes in f16 or bf16; here in %s, on %s",
                         ckconv_dtype_name(type), device->arch);
    }
    if (second->filter[0] * second->filter[1] * second->filter[2] != 1 || second->g != 1) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "fused on a matrix unit, the second convolution is 1x1 with one group");
    }
    CKCI_TRY(ckci_gpu_takes(first, err));
    CKCI_TRY(ckci_gpu_takes(second, err));
    memset(a, 0, sizeof *a);
    ckci_make_gpu_conv(first, &a->first);
    ckci_make_gpu_conv(second, &a->second);
    a->first.a = ckci_one_group(&a->first.a);
    CKCI_TRY(ckci_matrix_reads(&a->first.a, "in", type, a->first.a.len[2], err));
    CKCI_TRY(ckci_matrix_reads(&a->second.b, "wei1", type, second->c, err));
    CKCI_TRY(ckci_pair_span(&a->second.b, "wei1", err));
    ckci_tensor mid = ckci_one_group(&a->first.o.t);
    a->mid_vec = mid.dtype == type && ckci_aligned_columns(&mid, second->c);
    a->second.o_vec = ckci_aligned_columns(&a->second.o.t, a->second.columns);
    int64_t space, beyond[3];
    ckci_image(first, &space, beyond);
    space = ckci_max(second->output[0] * second->output[1] * second->output[2], 1);
    CKCI_TRY(ckci_matrix_reach(&a->first.a, "in", 128 / space + 2, beyond, err));
    return ckci_matrix_reach(&a->second.o.t, "out", 128 / space + 2, NULL, err);
}

/* A depthwise or a pointwise first convolution, as the shape's kernel takes it: its plan, and nanoseconds
   of a block. */
CKCI_FN ckconv_status ckci_pair_depth(const ckci_conv_conv *p, const ckconv_device *device,
                                      const ckci_pair_shape *s, ckci_gpu_pair *a, int64_t *regions,
                                      double *block, ckconv_error *err)
{
    const ckci_conv *c = &p->first;
    int64_t taps = ckci_saturating_mul(ckci_saturating_mul(c->filter[0], c->filter[1]), c->filter[2]);
    if (c->c != 1 || c->k != 1) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "this fused kernel has a depthwise first convolution; here G is %lld, K %lld, C %lld",
            CKCI_LL(c->g), CKCI_LL(c->k), CKCI_LL(c->c));
    }
    *regions = taps <= 128 ? ckci_choose_patch(p, device, s, &a->second.as.patch) : 0;
    if (*regions == 0) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "this fused kernel holds mid and a window of in in %d bytes of LDS: %lld channels "
                         "and %lld taps do not fit",
                         (int)s->lds, CKCI_LL(p->second.c), CKCI_LL(taps));
    }
    a->groups = (int32_t)(c->filter[2] / a->second.as.patch.group);
    a->by_row = ckci_make_divisor(c->filter[2]);
    a->by_taps = ckci_make_divisor(taps);
    a->second.as.patch.padded = !ckci_pair_whole(p);
    /* fitted to an H100, two blocks or one wide one on a unit */
    const ckci_gpu_patch *q = &a->second.as.patch;
    double span = s->threads > 256 ? 1000 + 110 * (double)taps
                  : s->async       ? 1600 + 180 * (double)taps
                                   : 280 * (double)taps;
    double products = s->async ? (s->threads > 256 ? 1750 : 1000) : 2000;
    *block = (s->async ? 1800 : 3000) + q->spans * span +
             ceil((double)p->second.c / 64) * ceil((double)p->second.k / s->columns) * products;
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_pair_point(const ckci_conv_conv *p, const ckci_pair_shape *s, ckci_gpu_pair *a,
                                      int64_t *regions, double *block, ckconv_error *err)
{
    const ckci_conv *c = &p->first;
    int64_t taps = c->filter[0] * c->filter[1] * c->filter[2];
    int64_t most = s->async ? CKCI_PAIR_POINT_NVIDIA : CKCI_PAIR_POINT_AMD;
    if (c->g != 1 || taps != 1 || c->c > 128) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "this fused kernel has a pointwise first convolution with up to 128 channels and one "
            "group; here G is %lld, C %lld, with %lld taps",
            CKCI_LL(c->g), CKCI_LL(c->c), CKCI_LL(taps));
    }
    if (ckci_ceil_div(p->second.c, 128) * 128 > most) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "fused on a matrix unit, a block holds %lld channels of mid; here they are %lld",
                         CKCI_LL(most), CKCI_LL(p->second.c));
    }
    CKCI_TRY(ckci_matrix_reads(&a->first.b, "wei", p->first.t[CKCI_IN].compute, c->c, err));
    CKCI_TRY(ckci_pair_span(&a->first.b, "wei", err));
    *regions = ckci_max(ckci_ceil_div(a->second.rows, s->positions), 1);
    double slabs = ceil((double)p->second.c / 64); /* fitted to an H100 */
    *block =
        3000 + slabs / 2 * ceil((double)c->c / 64) * 2000 + slabs * ceil((double)p->second.k / 128) * 2000;
    return CKCONV_OK;
}

/* The kernel whose inputs go through registers: its plan, blocks, nanoseconds of a block, bytes of LDS. */
CKCI_FN ckconv_status ckci_pair_strips(const ckci_conv_conv *p, const ckconv_device *device, ckci_gpu_pair *a,
                                       int64_t *blocks, double *block, int32_t *lds, ckconv_error *err)
{
    const ckci_conv *c = &p->first, *second = &p->second;
    ckci_gpu_strips *q = &a->second.as.strips;
    int takes = c->c == 1 && c->k == 1 && c->filter[0] == 1 && c->pad[0] == 0 &&
                c->output[0] == c->input[0] && c->pad[1] <= 2 && ckci_pair_whole(p);
    for (int i = 0; i < 3; i++) {
        takes = takes && c->stride[i] == 1 && c->dilation[i] == 1 && (i == 0 || c->filter[i] == 3);
    }
    if (!takes) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "this fused kernel has a depthwise first convolution of 3 x 3 taps without stride or "
            "dilation, and a second one without stride or padding");
    }
    if (!a->mid_vec) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "this fused kernel stores mid in eights of channels, side by side, aligned and of the "
            "inputs' type");
    }
    if (second->k > 256 || second->c > 256) {
        return ckci_fail(
            err, CKCONV_ERR_UNSUPPORTED,
            "this fused kernel has up to 256 channels of mid and of the result; here are %lld and "
            "%lld",
            CKCI_LL(second->c), CKCI_LL(second->k));
    }
    memset(q, 0, sizeof *q);
    const ckci_gpu_target *o = &a->second.o;
    q->packed = a->second.o_vec && o->t.op.kind == CKCONV_PASS && o->t.dtype == a->first.a.dtype;
    q->slabs = (int32_t)ckci_max(ckci_ceil_div(second->c, 64), 1);
    q->log_wide = second->k > 128 ? 2 : second->k > 64;
    q->wide = 1 << q->log_wide;
    q->parts = 4 / q->slabs; /* a thread has one strip */
    q->turns = (q->parts * q->wide + 3) / 4;
    q->strips = 8 * q->parts;
    /* 64 channels of 64 rows or columns; two places of mid; sums on their way out; f32 taps; two lists */
    const int32_t each = 64 * 64 * 2, room = 16384, taps = 9 * 4 * 64, strip = 16;
    q->at_mid = each * q->wide * q->slabs;
    q->at_room = q->at_mid + 2 * each * q->parts * q->slabs;
    q->at_taps = q->at_room + room;
    q->at_strips = q->at_taps + taps * q->slabs;
    *lds = q->at_strips + 2 * strip * q->strips;
    const int64_t line = ckci_ceil_div(second->output[2], 8), high = ckci_max(second->output[1], 1);
    const int64_t all = ckci_saturating_mul(ckci_saturating_mul(second->n, second->output[0]), line);
    const int64_t tiles = ckci_saturating_mul(ckci_ceil_div(all, q->strips), high);
    CKCI_TRY(ckci_too_many_blocks(ckci_saturating_mul(ckci_saturating_add(tiles, 4), q->strips), err));
    *blocks = ckci_max(ckci_min(tiles, device->compute_units), 1);
    q->all = (int32_t)all;
    q->part = (int32_t)(tiles / *blocks);
    q->part_rest = (int32_t)(tiles % *blocks);
    q->by_line = ckci_make_divisor(ckci_max(line, 1));
    q->by_high = ckci_make_divisor(high);
    q->by_planes = ckci_make_divisor(ckci_max(second->output[0], 1));
    q->by_quads = ckci_make_divisor(16 * q->slabs);
    a->by_row = ckci_make_divisor(3);
    a->by_taps = ckci_make_divisor(9);
    /* fitted to an H100 */
    *block = 4750 + (double)(q->part + (q->part_rest > 0)) * (1800 + 72.0 * q->strips * q->slabs);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_matrix_pair(const ckci_conv_conv *p, const ckconv_device *device, int32_t form,
                                       ckci_launch *l, double *cost, ckconv_error *err)
{
    ckci_gpu_pair *a = &l->a.pair;
    ckci_gpu_conv *k = &a->second;
    ckci_pair_shape s;
    int64_t regions = 0, units = ckci_max(device->compute_units, 1);
    double block = 0;
    CKCI_TRY(ckci_pair_reads(p, device, a, err));
    CKCI_TRY(ckci_find_pair_shape(device, form, &s, err));
    if (form == CKCI_TILE_PAIR_STRIPS) {
        int32_t lds = 0;
        CKCI_TRY(ckci_pair_strips(p, device, a, &regions, &block, &lds, err));
        CKCI_TRY(ckci_pair_lds(device, lds, err));
        l->grid = k->rows == 0 ? 0 : regions;
        ckci_set_kernel(l, s.kernel + (p->first.t[CKCI_IN].compute == CKCONV_BF16));
        l->lds = lds;
        *cost = ckci_pair_time(p, device, regions, &s, block);
        return CKCONV_OK;
    }
    if (form == CKCI_TILE_PAIR_POINT) {
        CKCI_TRY(ckci_pair_point(p, &s, a, &regions, &block, err));
    } else {
        CKCI_TRY(ckci_pair_depth(p, device, &s, a, &regions, &block, err));
    }
    /* blocks share the columns where there would be few of them */
    int64_t tiles = ckci_ceil_div(k->columns, s.columns), share = 1;
    while (share < tiles && regions * share * 2 <= units) {
        share++;
    }
    k->part = (int32_t)(ckci_ceil_div(tiles, share) * s.columns);
    k->tiles_n = (int32_t)ckci_ceil_div(k->columns, k->part);
    k->by_tiles_n = ckci_make_divisor(k->tiles_n);
    int64_t work = k->rows == 0 ? 0 : ckci_saturating_mul(regions, k->tiles_n);
    CKCI_TRY(ckci_too_many_blocks(ckci_saturating_add(work, units * 4), err));
    l->grid = work;
    if (form != CKCI_TILE_PAIR_POINT) { /* a block keeps its columns */
        int64_t slots = ckci_max(units * s.side / k->tiles_n, 1) * k->tiles_n;
        l->grid = s.async ? ckci_min(work, slots) : work;
        a->second.as.patch.work = (int32_t)work;
        a->second.as.patch.resident =
            s.async && a->second.as.patch.overlap == 0 &&
            ckci_ceil_div(k->part, s.columns) * ckci_ceil_div(p->second.c, s.slab) <= 2;
    }
    ckci_set_kernel(l, s.kernel + (p->first.t[CKCI_IN].compute == CKCONV_BF16));
    double start = form != CKCI_TILE_PAIR_POINT && s.async ? 5000 : 0; /* tables; fitted to an H100 */
    *cost = ckci_cost_launch(device, start) + ckci_pair_time(p, device, work, &s, block);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_fit_matrix_pair(ckci_fit *f, ckconv_error *err)
{
    ckci_launch l;
    CKCI_TRY(ckci_gpu_no_split(f, err));
    CKCI_TRY(ckci_matrix_pair(&f->p->pair, &f->plan->device, f->tile->form, &l, &f->cost, err));
    ckci_plan_launch(f->plan, &l, 1);
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_matrix_pair(const ckconv_plan *plan, const ckci_problem *p,
                                            const ckconv_args *args, unsigned char *ws,
                                            const ckci_gpu_tile *tile, const ckci_emitter *e,
                                            ckconv_error *err)
{
    ckci_launch l;
    double cost;
    int whole = ckci_pair_whole(&p->pair);
    (void)ws;
    if (ckci_matrix_pair(&p->pair, &plan->device, tile->form, &l, &cost, NULL) != CKCONV_OK) {
        return ckci_list_fused(plan, &p->pair, args, 64, e, err); /* pointers less aligned than planned for */
    }
    ckci_gpu_mid_target(&p->pair.first, args, &l.a.pair.first.o);
    l.a.pair.first.o.compute = (ckconv_dtype)0; /* what lies in LDS is rounded */
    l.a.pair.write_mid = whole && args->mid != NULL;
    if (l.grid > 0) {
        CKCI_TRY(e->emit(e->context, &l, err));
    }
    return whole || !args->mid ? CKCONV_OK : ckci_list_mid_copy(plan, &p->pair, args, e, err);
}

CKCI_FN ckconv_status ckci_list_gpu_pair(const ckconv_plan *plan, const ckci_problem *p,
                                         const ckconv_args *args, unsigned char *ws,
                                         const ckci_gpu_tile *tile, const ckci_emitter *e, ckconv_error *err)
{
    const ckci_conv_conv *pair = &p->pair;
    if (plan->tune[CKCI_TUNE_SECOND] == 0) {
        return ckci_list_fused(plan, pair, args, tile->rows, e, err);
    }
    ckci_launch l;
    ckci_conv part[2];
    ckconv_plan scratch = *plan;
    ckci_gpu_unfused(pair, ws, part);
    int64_t bytes = ckci_mid_bytes(&part[0]);
    if (bytes == 0) {
        return CKCONV_OK; /* an empty batch */
    }
    ws += bytes;
    scratch.workspace_bytes -= bytes;
    scratch.instance = (int32_t)plan->tune[CKCI_TUNE_FIRST];
    CKCI_TRY(ckci_list_mid(&scratch, &pair->first, &part[0], args, ws, e, err));
    if (args->mid) {
        CKCI_TRY(ckci_make_move(&plan->device, &part[0].t[CKCI_OUT], &pair->first.t[CKCI_OUT], &l, err));
        CKCI_TRY(e->emit(e->context, &l, err));
    }
    scratch.instance = (int32_t)plan->tune[CKCI_TUNE_SECOND];
    return ckci_list_part(&scratch, &part[1], ws, e, err);
}
