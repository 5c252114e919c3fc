/*------------------------------------------------------------------------------------------------------------
  >>plan-describe
  A plan in words: what runs, on what, and why; its tensors for drivers. Texts are cut where the caller's
  buffer ends and always end with 0. Names of kernels come from the launches that a run would make, so that
  they cannot differ from it. It reads a plan and changes nothing.
*/
#pragma once
#include "plan/run.h"

CKCI_FN size_t ckci_append_sizes(char *text, size_t size, size_t at, const char *label, const int64_t *v,
                                 int32_t ndim)
{
    for (int32_t i = 0; i < ndim; i++) {
        at = ckci_append(text, size, at, "%s%lld", i == 0 ? label : "x", CKCI_LL(v[i]));
    }
    return at;
}

CKCI_FN size_t ckci_describe_conv(char *text, size_t size, size_t at, const ckconv_conv_desc *d)
{
    at = ckci_append(text, size, at, " %s/%s/%s G%lld N%lld K%lld C%lld", ckconv_dtype_name(d->in.dtype),
                     ckconv_dtype_name(d->wei.dtype), ckconv_dtype_name(d->out.dtype), CKCI_LL(d->g),
                     CKCI_LL(d->n), CKCI_LL(d->k), CKCI_LL(d->c));
    at = ckci_append_sizes(text, size, at, " filter ", d->filter, d->ndim);
    at = ckci_append_sizes(text, size, at, " input ", d->input, d->ndim);
    return ckci_append_sizes(text, size, at, " stride ", d->stride, d->ndim);
}

/* The clause about dbias: its type, and how a GPU's plan computes it. */
CKCI_FN size_t ckci_describe_bias(char *text, size_t size, size_t at, const ckconv_plan *plan,
                                  const ckci_problem *p)
{
    if (!ckci_has_bias(plan, p)) {
        return at;
    }
    return ckci_append(text, size, at, "; dbias %s%s", ckconv_dtype_name(p->conv.dbias.dtype),
                       plan->tune[CKCI_TUNE_BIAS] ? ", summed by the tiles of dwei"
                                                  : ", a pass over dout before");
}

/* One clause for ckconv_plan_describe, of a host engine: why this family was taken. */
CKCI_FN const char *ckci_why(const ckconv_plan *plan, const ckci_problem *p, ckconv_family family)
{
    switch (family) {
    case CKCONV_FAMILY_REF:
        return "the specification, asked for by name or engine";
    case CKCONV_FAMILY_SINGLE_STAGE:
        return plan->workspace_bytes
                   ? "implicit GEMM: groups are wide enough to fill vectors, or nothing else fits"
                   : "implicit GEMM with packed blocks on the stack: no workspace allowed";
    case CKCONV_FAMILY_TWO_STAGE:
        return "implicit GEMM with a split reduction: few outputs, a long sum over batch and positions";
    case CKCONV_FAMILY_DIRECT:
        return "direct: few channels per group; lanes run over groups or positions";
    case CKCONV_FAMILY_FUSED:
        return plan->workspace_bytes
                   ? "the intermediate stays in each thread's scratch"
                   : "slow: no workspace allowed, the intermediate is computed again for each use";
    case CKCONV_FAMILY_UNFUSED:
        return ckci_pointwise(&p->pair.second)
                   ? "two convolutions through workspace"
                   : "two convolutions through workspace: the second one is not pointwise";
    default:
        return "two-pass statistics in double";
    }
}

/* The same of a GPU's plan. What it says of speed comes from the planner's model, not from measurements. */
CKCI_FN const char *ckci_why_gpu(const ckconv_plan *plan, const ckci_problem *p,
                                 const ckci_instance *instance)
{
    static const char *const unit[2][2] = {
        {"implicit GEMM on the matrix unit",
         "implicit GEMM on the matrix unit; parts of the reduction go through "
         "workspace and are added in a fixed order"},
        {"implicit GEMM on the matrix unit; what it does not read as it is, it packs into workspace first",
         "implicit GEMM on the matrix unit; what it does not read as it is, it packs into workspace first; "
         "parts "
         "of the reduction are added in a fixed order"}};
    int back = ckci_written(plan->op) == CKCI_IN, split = plan->split_k > 1, bias = 0;
    ckci_gpu_bias k;
    int64_t bytes, grid;
    if (ckci_has_bias(plan, p) && plan->tune[CKCI_TUNE_BIAS]) {
        bias = (int)plan->tune[CKCI_TUNE_BIAS] - 1;
    } else if (ckci_has_bias(plan, p) && ckci_make_gpu_bias(&p->conv, &plan->device, ckci_run_limit(plan), &k,
                                                            &bytes, &grid, NULL) == CKCONV_OK) {
        bias = bytes > 0 ? 2 : 1; /* launches */
    }
    switch (instance->family) {
    case CKCONV_FAMILY_MFMA:
    case CKCONV_FAMILY_WMMA:
    case CKCONV_FAMILY_MMA:
        return unit[plan->launches > 1 + split + bias][split];
    case CKCONV_FAMILY_DIRECT:
        return instance->fit == ckci_fit_pixel ? "a product of two small matrices in one launch"
               : ckci_sums_over(plan->op) == CKCI_OVER_POSITIONS
                   ? "few channels per group: a block owns filters, its threads share the positions"
                   : "few channels per group: a thread owns outputs, one or a strip of them";
    case CKCONV_FAMILY_FUSED:
        return instance->tile.form == CKCI_TILE_NONE ? "slow: each thread computes mid again for each use"
                                                     : "mid stays in LDS";
    case CKCONV_FAMILY_UNFUSED:
        return instance->fit == ckci_fit_sums
                   ? "sums go through workspace to a launch of their own for the epilogue"
               : instance->fit == ckci_fit_sample
                   ? "positions that strides meet are sampled in workspace, or spread from there"
               : instance->fit == ckci_fit_im2col
                   ? "few positions: in is rows of channels and taps in workspace, weights are as they lie"
               : ckci_desc_of(plan->op) != CKCI_DESC_CONV_CONV
                   ? "patches become rows in workspace, of which the filter is a matrix product"
               : p->pair.second.filter[0] * p->pair.second.filter[1] * p->pair.second.filter[2] > 1
                   ? "mid goes through workspace: the second filter has more than one tap"
               : ckci_conv_kind(&p->pair.first) != CKCONV_F32
                   ? "mid goes through workspace: fused kernels have f32 sums only"
                   : "mid goes through workspace: by the planner's estimate one kernel for both takes longer";
    case CKCONV_FAMILY_GROUPNORM:
        return plan->launches > (back ? 2 : 1)   ? "slabs are shared by several blocks"
               : plan->tune[CKCI_TUNE_KEPT] > 1  ? "the blocks of a cluster share a slab, which stays in LDS"
               : plan->tune[CKCI_TUNE_KEPT] == 1 ? "a block owns a slab, which stays in LDS"
                                                 : "a block owns a slab";
    case CKCONV_FAMILY_TWO_STAGE:
        return "a convolution for each section of the filter, whose sums are added in a fixed order";
    default:
        return split ? "implicit GEMM on multiply-adds; parts of the reduction go through "
                       "workspace and are added in a fixed order"
                     : "implicit GEMM on multiply-adds";
    }
}

/* Appends the clause about an epilogue that acts element by element, or would beside the sums. */
CKCI_FN size_t ckci_describe_single(char *text, size_t size, size_t at, const ckconv_plan *plan,
                                    const ckci_problem *p)
{
    const int apart = ckci_find_instance(plan->instance)->fit == ckci_fit_sums;
    if (!apart && !ckci_acts_single(plan, p)) {
        return at;
    }
    const int curve = ckci_curved_gradient(&p->conv.t[ckci_written(plan->op)].op);
    at = ckci_append(text, size, at, "; %s element by element",
                     apart ? "beside them it would act" : "slow: this epilogue acts");
    return curve || !ckci_single(&p->conv)
               ? at
               : ckci_append(text, size, at,
                             ": a D tensor lies neither as the output nor (but for a gate) as one number for "
                             "each channel, is not aligned to 16 bytes, or is not f32, f16 or bf16");
}

/* A text to which launches add the names of their kernels. A name that is one of the last two in it is not
   added again: where a plan has many launches, two kernels take turns. */
typedef struct ckci_name_list {
    char *text;
    size_t size, at;
    int32_t count, last[2];
} ckci_name_list;

CKCI_FN ckconv_status ckci_keep_name(void *context, const ckci_launch *launch, ckconv_error *err)
{
    ckci_name_list *list = (ckci_name_list *)context;
    (void)err;
    if (launch->kernel == list->last[0] || launch->kernel == list->last[1]) {
        return CKCONV_OK;
    }
    list->last[0] = list->last[1];
    list->last[1] = launch->kernel;
    list->at = ckci_append(list->text, list->size, list->at, "%s%s", list->count++ ? ", " : "; kernels ",
                           ckci_kernel_name(launch->kernel));
    if (launch->cluster > 1) {
        list->at =
            ckci_append(list->text, list->size, list->at, " in clusters of %d", (int)launch->cluster);
    }
    return CKCONV_OK;
}

/* Appends the kernels that run where all tensors (but mid and saved statistics) are given and aligned. The
   address is made up, and nothing reads there. */
CKCI_FN size_t ckci_append_kernels(const ckconv_plan *plan, ckci_problem *p, const ckci_instance *instance,
                                   char *text, size_t size, size_t at)
{
    unsigned char *place = (unsigned char *)(uintptr_t)4096;
    ckci_name_list list = {text, size, at, 0, {-1, -1}};
    ckci_buffer buffers[20];
    ckci_emitter e;
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.in = a.wei = a.dout = a.wei1 = a.gamma = a.beta = place;
    a.d[0] = a.d[1] = a.d[2] = a.d[3] = place;
    a.out = a.din = a.dwei = a.dgamma = a.dbeta = a.dbias = place;
    (void)ckci_list_buffers(plan, p, &a, buffers);
    e.emit = ckci_keep_name;
    e.context = &list;
    return ckci_list_launches(plan, instance, p, &a, place, &e, NULL) == CKCONV_OK ? list.at : at;
}

/* Appends what a limit of workspace costs: it names the workspace of the plan that would be made without
   one, where that takes more. */
CKCI_FN size_t ckci_append_limit(const ckconv_plan *plan, char *text, size_t size, size_t at)
{
    ckconv_plan free_plan;
    ckconv_options o;
    ckci_problem p;
    if (plan->tune[CKCI_TUNE_LIMIT] == 0 || plan->engine == CKCONV_ENGINE_REF) {
        return at;
    }
    memset(&o, 0, sizeof o);
    o.engine = plan->engine;
    o.split_k = (int32_t)plan->tune[CKCI_TUNE_SPLIT];
    ckconv_status s = ckci_make_plan(&free_plan, plan->op, &plan->u, &o, &plan->device, -1, &p, NULL);
    if (s != CKCONV_OK || free_plan.workspace_bytes <= ckci_max(plan->tune[CKCI_TUNE_LIMIT], 0) ||
        free_plan.workspace_bytes <= plan->tune[CKCI_TUNE_STACK]) {
        return at;
    }
    return ckci_append(text, size, at,
                       "; slower without %lld bytes of workspace, options.max_workspace is %lld",
                       CKCI_LL(free_plan.workspace_bytes), CKCI_LL(plan->tune[CKCI_TUNE_LIMIT]));
}

CKCONV_API size_t ckconv_plan_describe(const ckconv_plan *plan, char *text, size_t size)
{
    ckci_problem p;
    size_t at = 0;
    if (!text) {
        size = 0;
    }
    ckconv_error why;
    if (ckci_refused(plan, &why)) {
        return ckci_append(text, size, 0, "refused when it was made: %s", why.text);
    }
    if (ckci_recover(plan, "plan", &p, NULL) != CKCONV_OK) {
        return ckci_append(text, size, 0, "not a plan of this version");
    }
    const ckci_instance *instance = ckci_find_instance(plan->instance);
    at = ckci_append(text, size, at, "%s", ckconv_op_name(plan->op));
    if (ckci_desc_of(plan->op) == CKCI_DESC_CONV_CONV) {
        const ckconv_conv_conv_desc *d = &plan->u.conv_conv;
        at = ckci_describe_conv(text, size, at, &d->conv0);
        at = ckci_append(text, size, at, " then G%lld K%lld", CKCI_LL(d->g1), CKCI_LL(d->k1));
        at = ckci_append_sizes(text, size, at, " filter ", d->filter1, d->conv0.ndim);
    } else if (ckci_desc_of(plan->op) == CKCI_DESC_CONV) {
        at = ckci_describe_conv(text, size, at, &plan->u.conv);
    } else {
        const ckconv_groupnorm_desc *d = &plan->u.groupnorm;
        at = ckci_append(text, size, at, " %s G%lld N%lld C%lld", ckconv_dtype_name(d->in.dtype),
                         CKCI_LL(d->g), CKCI_LL(d->n), CKCI_LL(d->c));
        at = ckci_append_sizes(text, size, at, " input ", d->input, d->ndim);
    }
    at = ckci_append(text, size, at, ": engine %s, %s (family %s", ckconv_engine_name(plan->engine),
                     instance->name, ckconv_family_name(instance->family));
    if (plan->engine == CKCONV_ENGINE_GPU) {
        at = instance->tile.rows == 0 ? ckci_append(text, size, at, ")")
                                      : ckci_append(text, size, at, ", tile %dx%d)", (int)instance->tile.rows,
                                                    (int)instance->tile.columns);
        if (instance->fit == ckci_fit_sums) {
            at = ckci_append(text, size, at, " of %s",
                             ckconv_instance_name((int32_t)plan->tune[CKCI_TUNE_APART]));
        } else if (instance->fit == ckci_fit_patches || instance->fit == ckci_fit_sample ||
                   instance->fit == ckci_fit_im2col) {
            at = ckci_append(text, size, at, " of %s",
                             ckconv_instance_name((int32_t)plan->tune[CKCI_TUNE_PART]));
        } else if (instance->family == CKCONV_FAMILY_UNFUSED && plan->tune[CKCI_TUNE_SECOND] != 0) {
            at = ckci_append(text, size, at, " of %s and %s",
                             ckconv_instance_name((int32_t)plan->tune[CKCI_TUNE_FIRST]),
                             ckconv_instance_name((int32_t)plan->tune[CKCI_TUNE_SECOND]));
        }
        at = ckci_append(text, size, at,
                         ", split_k %d, %d launch%s on %s, %lld blocks of %d threads, workspace %lld bytes",
                         (int)plan->split_k, (int)plan->launches, plan->launches == 1 ? "" : "es",
                         plan->device.arch, CKCI_LL(plan->grid[0]), (int)plan->block[0],
                         CKCI_LL(plan->workspace_bytes));
        at = ckci_append(text, size, at, "; %s", ckci_why_gpu(plan, &p, instance));
        at = ckci_describe_single(text, size, at, plan, &p);
        at = ckci_describe_bias(text, size, at, plan, &p);
        at = ckci_append_limit(plan, text, size, at);
        if (!ckci_find_architecture(plan->device.arch)) {
            at = ckci_append(text, size, at,
                             "; %s: no row in the table of architectures, so no matrix unit is known: "
                             "portable kernels",
                             plan->device.arch);
        }
        return ckci_append_kernels(plan, &p, instance, text, size, at);
    }
    at = ckci_append(text, size, at, ", tile %dx%d, vector %d)", (int)instance->tile.rows,
                     (int)instance->tile.columns, (int)instance->lanes);
    at = ckci_append(text, size, at,
                     ", split_k %d, %d parallel loop%s, %lld work items on %d thread%s, workspace %lld bytes",
                     (int)plan->split_k, (int)plan->launches, plan->launches == 1 ? "" : "s",
                     CKCI_LL(plan->grid[0]), (int)plan->block[0], plan->block[0] == 1 ? "" : "s",
                     CKCI_LL(plan->workspace_bytes));
    if (plan->tune[CKCI_TUNE_STACK] > 0) {
        at = ckci_append(text, size, at, ", %lld on the stack", CKCI_LL(plan->tune[CKCI_TUNE_STACK]));
    }
    if (plan->tune[CKCI_TUNE_TURNED] != 0) {
        at = ckci_append(text, size, at, ", of copies with channels side by side");
    }
    at = ckci_append(text, size, at, "; %s", ckci_why(plan, &p, instance->family));
    at = ckci_describe_bias(text, size, at, plan, &p);
    return ckci_append_limit(plan, text, size, at);
}

CKCI_FN void ckci_show_tensor(const ckci_found *f, int32_t ndim, int written, ckconv_tensor_info *info)
{
    info->layout = f->desc->layout;
    info->rank = 3 + ndim;
    info->written = written;
    for (int i = 0; i < 3 + ndim; i++) {
        int from = i < 3 ? i : i + 3 - ndim;
        info->length[i] = f->t->len[from];
        info->stride[i] = f->t->stride[from];
    }
    info->count = ckci_count(f->t);
    info->bytes = ckci_span(f->t);
}

/* A packed vector. */
CKCI_FN void ckci_show_vector(const ckci_found *f, ckconv_tensor_info *info)
{
    int64_t stride = 1;
    info->rank = f->rank;
    for (int i = f->rank - 1; i >= 0; i--) {
        info->length[i] = f->length[i];
        info->stride[i] = stride;
        stride *= f->length[i];
    }
    info->count = f->count;
    info->bytes = info->count * (int64_t)ckci_size(f->dtype);
}

CKCONV_API ckconv_status ckconv_plan_tensor(const ckconv_plan *plan, int32_t which, ckconv_tensor_info *info,
                                            ckconv_error *err)
{
    ckci_problem p;
    ckci_found f;
    if (!info) {
        return ckci_fail(err, CKCONV_ERR_NULL, "info is NULL");
    }
    CKCI_TRY(ckci_recover(plan, "plan", &p, err));
    ckconv_plan copy = *plan; /* its description has all axes that the caller knows */
    CKCI_TRY(ckci_check_problem(copy.op, &copy.u, &p, err));
    const ckci_arg_row *a = ckci_find_operation(plan->op)->args;
    while (a->name && a->which != which) {
        a++;
    }
    if (!a->name || !ckci_find_tensor(plan, &p, which, &f)) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "which is %d: %s has no such tensor", (int)which,
                         ckconv_op_name(plan->op));
    }
    memset(info, 0, sizeof *info);
    info->dtype = f.dtype;
    int32_t desc = ckci_desc_of(plan->op);
    if (f.desc) {
        ckci_show_tensor(&f,
                         desc == CKCI_DESC_CONV        ? plan->u.conv.ndim
                         : desc == CKCI_DESC_CONV_CONV ? plan->u.conv_conv.conv0.ndim
                                                       : plan->u.groupnorm.ndim,
                         a->written, info);
    } else {
        ckci_show_vector(&f, info);
        info->written = which == CKCONV_TENSOR_DBIAS;
    }
    return ckci_ok(err);
}
