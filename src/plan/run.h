/*------------------------------------------------------------------------------------------------------------
  >>plan-run
  A run and what it checks before: pointers, alignment, overlap, workspace. Everything is checked before
  anything is touched, a damaged plan by the number that it has of itself. Then the engine runs, or its
  launches are emitted, to the GPU or to the caller. Definitions stand in the order of >>api.
*/
#pragma once
#include "device/runtime.h"

CKCONV_API ckconv_status ckconv_plan_conv(ckconv_plan *plan, ckconv_op op, const ckconv_conv_desc *desc,
                                          const ckconv_options *options, const ckconv_device *device,
                                          ckconv_error *err)
{
    ckci_problem p;
    if (op < CKCONV_FWD || op > CKCONV_BWD_WEIGHT) {
        ckconv_error why;
        memset(&why, 0, sizeof why);
        ckci_fail(&why, CKCONV_ERR_ARGUMENT,
                  "op is %d: must be CKCONV_FWD (1), CKCONV_BWD_DATA (2) or CKCONV_BWD_WEIGHT (3)", (int)op);
        return ckci_refuse(plan, &why, err);
    }
    return ckci_make_plan(plan, op, desc, sizeof *desc, options, device, -1, &p, err);
}

CKCONV_API ckconv_status ckconv_plan_conv_conv(ckconv_plan *plan, const ckconv_conv_conv_desc *desc,
                                               const ckconv_options *options, const ckconv_device *device,
                                               ckconv_error *err)
{
    ckci_problem p;
    return ckci_make_plan(plan, CKCONV_CONV_CONV_FWD, desc, sizeof *desc, options, device, -1, &p, err);
}

CKCONV_API ckconv_status ckconv_plan_groupnorm(ckconv_plan *plan, ckconv_op op,
                                               const ckconv_groupnorm_desc *desc,
                                               const ckconv_options *options, const ckconv_device *device,
                                               ckconv_error *err)
{
    ckci_problem p;
    if (op != CKCONV_GROUPNORM_FWD && op != CKCONV_GROUPNORM_BWD) {
        ckconv_error why;
        memset(&why, 0, sizeof why);
        ckci_fail(&why, CKCONV_ERR_ARGUMENT,
                  "op is %d: must be CKCONV_GROUPNORM_FWD (5) or CKCONV_GROUPNORM_BWD (6)", (int)op);
        return ckci_refuse(plan, &why, err);
    }
    return ckci_make_plan(plan, op, desc, sizeof *desc, options, device, -1, &p, err);
}

/* plan_again, with one instance by index or -1 */
CKCI_FN ckconv_status ckci_plan_again(ckconv_plan *plan, const ckconv_plan *base,
                                      const ckconv_options *options, int32_t only, ckconv_error *err)
{
    ckci_problem p;
    ckconv_plan copy;
    if (!plan) {
        return ckci_fail(err, CKCONV_ERR_NULL, "plan is NULL");
    }
    ckconv_error why;
    memset(&why, 0, sizeof why);
    if (ckci_recover(base, "base", &p, &why) != CKCONV_OK) {
        return ckci_refuse(plan, &why, err);
    }
    copy = *base;
    return ckci_make_plan(plan, copy.op, &copy.u, ckci_desc_bytes(copy.op), options, &copy.device, only, &p,
                          err);
}

CKCONV_API ckconv_status ckconv_plan_again(ckconv_plan *plan, const ckconv_plan *base,
                                           const ckconv_options *options, ckconv_error *err)
{
    return ckci_plan_again(plan, base, options, -1, err);
}

/* One buffer of a run, for the checks of pointers and overlap. */
typedef struct ckci_buffer {
    const char *name;
    const void *p;
    int64_t bytes;
    int32_t written, optional;
    int32_t takes_d; /* its epilogue reads the D tensors */
    int32_t is_d;
    int32_t element; /* bytes */
    const ckci_tensor *shape;
} ckci_buffer;

CKCI_FN void ckci_add_buffer(ckci_buffer *list, int *count, const char *name, const void *p, int64_t bytes,
                             int written, int optional, const ckci_tensor *shape)
{
    ckci_buffer *b = &list[(*count)++];
    b->name = name;
    b->p = p;
    b->bytes = bytes;
    b->written = written;
    b->optional = optional;
    b->takes_d = b->is_d = 0;
    b->element = shape ? (int32_t)ckci_size(shape->dtype) : 1;
    b->shape = shape;
}

/* All buffers of an operation, from the arguments that it uses; pointers go into the problem's tensors. */
CKCI_FN int ckci_list_conv(ckci_conv *p, const ckconv_args *a, ckci_buffer *list)
{
    static const char *const d_names[4] = {"d[0]", "d[1]", "d[2]", "d[3]"};
    int count = 0, w = ckci_written(p->op);
    const void *pointers[3];
    const char *names[3];
    pointers[CKCI_IN] = w == CKCI_IN ? a->din : a->in;
    pointers[CKCI_WEI] = w == CKCI_WEI ? a->dwei : a->wei;
    pointers[CKCI_OUT] = w == CKCI_OUT ? a->out : a->dout;
    names[CKCI_IN] = w == CKCI_IN ? "din" : "in";
    names[CKCI_WEI] = w == CKCI_WEI ? "dwei" : "wei";
    names[CKCI_OUT] = w == CKCI_OUT ? "out" : "dout";
    for (int i = 0; i < 3; i++) {
        p->t[i].p = (unsigned char *)(uintptr_t)pointers[i];
        ckci_add_buffer(list, &count, names[i], pointers[i], ckci_span(&p->t[i]), i == w, 0, &p->t[i]);
        list[i].takes_d = i == w;
    }
    if (p->accumulate) {
        p->d[0].p = p->t[w].p;
    }
    for (int i = 0; i < p->num_d && !p->accumulate; i++) {
        p->d[i].p = (unsigned char *)(uintptr_t)a->d[i];
        ckci_add_buffer(list, &count, d_names[i], a->d[i], ckci_span(&p->d[i]), 0, 0, &p->d[i]);
        list[count - 1].is_d = 1;
    }
    if (p->dbias.dtype) {
        p->dbias.p = (unsigned char *)a->dbias;
        ckci_add_buffer(list, &count, "dbias", a->dbias, ckci_span(&p->dbias), 1, 0, &p->dbias);
        for (int i = 0; i < count && !a->dwei; i++) { /* dbias alone */
            list[i].optional = i != CKCI_OUT && &list[i] != &list[count - 1];
        }
    }
    return count;
}

CKCI_FN int ckci_list_pair(ckci_conv_conv *p, const ckconv_args *a, ckci_buffer *list)
{
    ckconv_args second = *a;
    ckci_buffer more[8];
    int64_t channels = p->first.g * p->first.k * (p->first.t[0].dtype == CKCONV_F64 ? 8 : 4);
    second.out = a->mid;
    int count = ckci_list_conv(&p->first, &second, list);
    list[2].name = "mid";
    list[2].optional = 1;
    list[2].takes_d = 0;
    second.wei = a->wei1;
    second.out = a->out;
    second.in = NULL;
    int rest = ckci_list_conv(&p->second, &second, more);
    more[1].name = "wei1";
    for (int i = 1; i < rest; i++) {
        list[count++] = more[i];
    }
    ckci_add_buffer(list, &count, "scale", a->scale, channels, 0, 1, NULL);
    ckci_add_buffer(list, &count, "shift", a->shift, channels, 0, 1, NULL);
    list[count - 2].element = list[count - 1].element = p->first.t[0].dtype == CKCONV_F64 ? 8 : 4;
    return count;
}

/* A vector of a group norm: statistics, gamma and what is like it. */
CKCI_FN void ckci_add_vector(ckci_buffer *list, int *count, const char *name, const void *p, int64_t length,
                             ckconv_dtype dtype, int written)
{
    ckci_add_buffer(list, count, name, p, length * (int64_t)ckci_size(dtype), written, 1, NULL);
    list[*count - 1].element = (int32_t)ckci_size(dtype);
}

CKCI_FN int ckci_list_norm(ckci_groupnorm *p, const ckconv_args *a, ckci_buffer *list)
{
    int count = 0, fwd = p->op == CKCONV_GROUPNORM_FWD;
    int64_t params = ckci_param_count(p), slabs = p->n * p->g;
    const void *y = fwd ? a->out : a->dout;
    p->in.p = (unsigned char *)(uintptr_t)a->in;
    p->out.p = (unsigned char *)(uintptr_t)y;
    p->din.p = (unsigned char *)a->din;
    ckci_add_buffer(list, &count, "in", a->in, ckci_span(&p->in), 0, 0, &p->in);
    ckci_add_buffer(list, &count, fwd ? "out" : "dout", y, ckci_span(&p->out), fwd, 0, &p->out);
    ckci_add_vector(list, &count, "gamma", a->gamma, params, p->param, 0);
    ckci_add_vector(list, &count, "beta", a->beta, params, p->param, 0);
    if (fwd) {
        ckci_add_vector(list, &count, "mean", a->mean, slabs, p->stat, 1);
        ckci_add_vector(list, &count, "inv_std", a->inv_std, slabs, p->stat, 1);
        return count;
    }
    ckci_add_vector(list, &count, "saved_mean", a->saved_mean, slabs, p->stat, 0);
    ckci_add_vector(list, &count, "saved_inv_std", a->saved_inv_std, slabs, p->stat, 0);
    ckci_add_buffer(list, &count, "din", a->din, ckci_span(&p->din), 1, 1, &p->din);
    ckci_add_vector(list, &count, "dgamma", a->dgamma, params, p->param, 1);
    ckci_add_vector(list, &count, "dbeta", a->dbeta, params, p->param, 1);
    return count;
}

/* May these overlap? Only a D tensor and the tensor whose epilogue reads it, with the same elements in the
   same places: each is read just before it is written. */
CKCI_FN int ckci_may_alias(const ckci_buffer *written, const ckci_buffer *read)
{
    return written->takes_d && written->p == read->p && read->is_d &&
           written->shape->dtype == read->shape->dtype &&
           memcmp(written->shape->stride, read->shape->stride, sizeof read->shape->stride) == 0;
}

/* Do two strided tensors whose spans overlap share no element, because they lie in different slices of a
   common period (channels 0..7 and 8..15 of one NHWC buffer)? Tried for each stride of either as the smallest
   one of the period: all larger strides must be multiples of it, and what the smaller ones address must not
   meet. */
CKCI_FN int ckci_interleaved(const ckci_buffer *a, const ckci_buffer *b)
{
    const ckci_tensor *t[2];
    t[0] = a->shape;
    t[1] = b->shape;
    int64_t size = a->shape && b->shape ? (int64_t)ckci_size(t[0]->dtype) : 0;
    if (size == 0 || size != (int64_t)ckci_size(t[1]->dtype)) {
        return 0;
    }
    uintptr_t low = (uintptr_t)a->p < (uintptr_t)b->p ? (uintptr_t)a->p : (uintptr_t)b->p;
    int64_t gap = (int64_t)((uintptr_t)a->p + (uintptr_t)b->p - 2 * low);
    for (int pick = 0; pick < 12 && gap % size == 0; pick++) {
        int64_t least = t[pick / 6]->stride[pick % 6], period = 0, reach[2] = {0, 0};
        for (int k = 0; k < 12; k++) {
            int64_t stride = t[k / 6]->stride[k % 6], steps = t[k / 6]->len[k % 6] - 1;
            if (steps > 0 && stride >= least) {
                period = ckci_gcd(stride, period);
            } else if (steps > 0) {
                reach[k / 6] += steps * stride;
            }
        }
        /* the lower tensor's slice begins at 0 of the period, the other one's at `place` */
        int first = (uintptr_t)a->p == low ? 0 : 1;
        int64_t place = period ? gap / size % period : 0;
        if (period && place > reach[first] && place + reach[1 - first] < period) {
            return 1;
        }
    }
    return 0;
}

CKCI_FN ckconv_status ckci_check_buffers(const ckci_buffer *list, int count, ckconv_error *err)
{
    for (int i = 0; i < count; i++) {
        if (!list[i].p && !list[i].optional && list[i].bytes > 0) {
            return ckci_fail(err, CKCONV_ERR_NULL, "args.%s is NULL: the operation needs it", list[i].name);
        }
    }
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < count; j++) {
            const ckci_buffer *a = &list[i], *b = &list[j];
            if (i == j || !a->written || !a->p || !b->p || a->bytes == 0 || b->bytes == 0) {
                continue;
            }
            uintptr_t p = (uintptr_t)a->p, q = (uintptr_t)b->p;
            if (p < q + (uintptr_t)b->bytes && q < p + (uintptr_t)a->bytes && !ckci_may_alias(a, b) &&
                !ckci_interleaved(a, b)) {
                return ckci_fail(err, CKCONV_ERR_ALIAS,
                                 "args.%s overlaps args.%s: a written tensor must have its own memory%s",
                                 a->name, b->name,
                                 b->is_d ? " (a D tensor may be it, with the same type and strides)" : "");
            }
        }
    }
    return CKCONV_OK;
}

/* GPUs load whole elements: each pointer must be aligned to its tensor's element. */
CKCI_FN ckconv_status ckci_check_alignment(const ckci_buffer *list, int count, ckconv_error *err)
{
    for (int i = 0; i < count; i++) {
        if ((uintptr_t)list[i].p % (uintptr_t)list[i].element != 0) {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                             "args.%s is not aligned to its elements of %d bytes: a GPU needs that",
                             list[i].name, (int)list[i].element);
        }
    }
    return CKCONV_OK;
}

/* The buffers of any operation (ckci_list_conv and its neighbours); list has room for 20. */
CKCI_FN int ckci_list_buffers(ckconv_op op, ckci_problem *p, const ckconv_args *args, ckci_buffer *list)
{
    return op == CKCONV_CONV_CONV_FWD ? ckci_list_pair(&p->pair, args, list)
           : op <= CKCONV_BWD_WEIGHT  ? ckci_list_conv(&p->conv, args, list)
                                      : ckci_list_norm(&p->norm, args, list);
}

/* Everything that is checked before anything is touched: *p gets the problem with its pointers, *ws the
   aligned workspace. */
CKCI_FN ckconv_status ckci_check_run(const ckconv_plan *plan, const ckconv_args *args, void *workspace,
                                     size_t workspace_bytes, ckci_problem *p, unsigned char **ws,
                                     ckconv_error *err)
{
    ckci_buffer list[20];
    int count;
    CKCI_TRY(ckci_recover(plan, "plan", p, err));
    if (!args) {
        return ckci_fail(err, CKCONV_ERR_NULL, "args is NULL");
    }
    count = ckci_list_buffers(plan->op, p, args, list);
    if (plan->op == CKCONV_GROUPNORM_BWD) {
        if ((args->saved_mean == NULL) != (args->saved_inv_std == NULL)) {
            return ckci_fail(err, CKCONV_ERR_NULL,
                             "args.saved_mean and args.saved_inv_std: give both or none");
        }
        if (!args->din && !args->dgamma && !args->dbeta) {
            return ckci_fail(err, CKCONV_ERR_NULL,
                             "args.din, args.dgamma and args.dbeta are all NULL: nothing to do");
        }
    }
    if (plan->workspace_bytes > 0) {
        if (!workspace || (uint64_t)workspace_bytes < (uint64_t)plan->workspace_bytes) {
            return ckci_fail(err, CKCONV_ERR_WORKSPACE,
                             "workspace %s %lld bytes: the plan needs %lld (options.max_workspace limits it)",
                             workspace ? "has" : "is NULL, with", CKCI_LL(workspace_bytes),
                             CKCI_LL(plan->workspace_bytes));
        }
        ckci_add_buffer(list, &count, "workspace", workspace, plan->workspace_bytes, 1, 0, NULL);
    }
    CKCI_TRY(ckci_check_buffers(list, count, err));
    if (plan->engine == CKCONV_ENGINE_GPU) {
        CKCI_TRY(ckci_check_alignment(list, count, err));
    }
    *ws = NULL;
    if (plan->workspace_bytes > 0) {
        uintptr_t past = (uintptr_t)workspace % CKCI_ALIGN;
        *ws = (unsigned char *)workspace + (past ? CKCI_ALIGN - past : 0);
    }
    return CKCONV_OK;
}

/* Were the launches of a run looked at when it was planned? They were for all results, and for pointers that
   are aligned to 16 bytes. */
CKCI_FN int ckci_launches_known(const ckconv_plan *plan, const ckci_problem *p)
{
    uintptr_t low = 0;
    if (plan->op > CKCONV_BWD_WEIGHT) {
        return 0;
    }
    for (int i = 0; i < 3; i++) {
        low |= (uintptr_t)p->conv.t[i].p;
    }
    for (int i = 0; i < p->conv.num_d; i++) {
        low |= (uintptr_t)p->conv.d[i].p;
    }
    return low % 16 == 0 && (plan->op != CKCONV_BWD_WEIGHT || p->conv.t[CKCI_WEI].p);
}

/* All launches of a run, after a look at each: what cannot be launched is refused before the first one. */
CKCI_FN ckconv_status ckci_queue(const ckconv_plan *plan, const ckci_instance *instance,
                                 const ckci_problem *p, const ckconv_args *args, unsigned char *ws,
                                 void *stream, ckconv_error *err)
{
    ckci_launch_count c;
    ckci_stream s;
    ckci_emitter e;
    c.device = s.device = &plan->device;
    c.count = c.mid = 0;
    s.stream = stream;
    s.launches = 0;
    if ((plan->launches > 1 || plan->op == CKCONV_CONV_CONV_FWD) && !ckci_launches_known(plan, p)) {
        e.emit = ckci_count_launch;
        e.context = &c;
        CKCI_TRY(ckci_list_launches(plan, instance, p, args, ws, &e, err));
    }
    e.emit = ckci_launch_on_stream;
    e.context = &s;
    return ckci_list_launches(plan, instance, p, args, ws, &e, err);
}

/* A run whose workspace is a block on the stack. */
typedef struct ckci_stack_run {
    const ckconv_plan *plan;
    const ckci_problem *p;
    const ckconv_args *args;
    const ckci_instance *instance;
} ckci_stack_run;

CKCI_FN void ckci_stack_run_item(const void *context, int64_t item, unsigned char *block)
{
    const ckci_stack_run *r = (const ckci_stack_run *)context;
    uintptr_t past = (uintptr_t)block % CKCI_ALIGN;
    (void)item;
    r->instance->run(r->plan, r->p, r->args, block + (past ? CKCI_ALIGN - past : 0), r->instance->features);
}

CKCONV_API ckconv_status ckconv_run(const ckconv_plan *plan, const ckconv_args *args, void *workspace,
                                    size_t workspace_bytes, void *stream, ckconv_error *err)
{
    ckci_problem p;
    unsigned char *ws;
    CKCI_TRY(ckci_check_run(plan, args, workspace, workspace_bytes, &p, &ws, err));
    const ckci_instance *instance = ckci_find_instance(plan->instance);
    if (plan->engine == CKCONV_ENGINE_GPU) {
        CKCI_TRY(ckci_check_current(&plan->device, err));
        CKCI_TRY(ckci_queue(plan, instance, &p, args, ws, stream, err));
        return ckci_ok(err);
    }
    if ((plan->device.features & ~ckci_cpu_features()) != 0) {
        return ckci_fail(err, CKCONV_ERR_WRONG_DEVICE,
                         "the plan uses CPU features (%d) that this CPU lacks (%d)",
                         (int)plan->device.features, (int)ckci_cpu_features());
    }
    ckci_run_bias(plan, &p, ws, instance->features);
    if (ckci_has_bias(plan, &p) && !args->dwei) {
        return ckci_ok(err);
    }
    if (plan->tune[CKCI_TUNE_STACK] > 0) {
        ckci_stack_run r;
        r.plan = plan;
        r.p = &p;
        r.args = args;
        r.instance = instance;
        if (plan->op >= CKCONV_GROUPNORM_FWD) {
            ckci_run_on_little_stack(ckci_stack_run_item, &r, 0);
        } else {
            ckci_run_on_stack(ckci_stack_run_item, &r, 0);
        }
    } else {
        instance->run(plan, &p, args, ws, instance->features);
    }
    return ckci_ok(err);
}

/* An emitter that copies launches for a caller. */
typedef struct ckci_launch_list {
    const ckconv_device *device;
    ckconv_launch *launches;
    int32_t capacity, count;
} ckci_launch_list;

CKCI_FN ckconv_status ckci_keep_launch(void *context, const ckci_launch *launch, ckconv_error *err)
{
    ckci_launch_list *list = (ckci_launch_list *)context;
    CKCI_TRY(ckci_check_launch(list->device, launch, err));
    if (list->count < list->capacity) {
        ckconv_launch *l = &list->launches[list->count];
        memset(l, 0, sizeof *l);
        l->kernel = ckci_kernel_name(launch->kernel);
        l->grid = launch->grid;
        l->block = launch->threads;
        l->cluster = launch->cluster;
        l->arg_bytes = (int32_t)launch->bytes;
        memcpy(l->arg, &launch->a, launch->bytes);
    }
    list->count++;
    return CKCONV_OK;
}

CKCONV_API ckconv_status ckconv_plan_launches(const ckconv_plan *plan, const ckconv_args *args,
                                              void *workspace, size_t workspace_bytes,
                                              ckconv_launch *launches, int32_t capacity, int32_t *count,
                                              ckconv_error *err)
{
    ckci_problem p;
    unsigned char *ws;
    ckci_launch_list list;
    ckci_emitter e;
    if (!count || (!launches && capacity > 0)) {
        return ckci_fail(err, CKCONV_ERR_NULL, "%s is NULL", count ? "launches" : "count");
    }
    *count = 0;
    CKCI_TRY(ckci_check_magic(plan, "plan", err));
    if (plan->engine != CKCONV_ENGINE_GPU) {
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "engine %s has no launches: the plan must be for a GPU",
                         ckconv_engine_name(plan->engine));
    }
    CKCI_TRY(ckci_check_run(plan, args, workspace, workspace_bytes, &p, &ws, err));
    list.device = &plan->device;
    list.launches = launches;
    list.capacity = capacity;
    list.count = 0;
    e.emit = ckci_keep_launch;
    e.context = &list;
    const ckci_instance *instance = ckci_find_instance(plan->instance);
    CKCI_TRY(ckci_list_launches(plan, instance, &p, args, ws, &e, err));
    *count = list.count;
    return ckci_ok(err);
}
