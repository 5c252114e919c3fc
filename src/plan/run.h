/*------------------------------------------------------------------------------------------------------------
  >>plan-run
  A run and what it checks before: pointers, alignment, overlap, workspace. Everything is checked before
  anything is touched, a damaged plan by the number that it has of itself. Then the engine runs, or its
  launches are emitted, to the GPU or to the caller. Definitions stand in the order of >>api.
*/
#pragma once
#include "plan/tensors.h"
#include "device/runtime.h"

CKCONV_API ckconv_status ckconv_plan_conv(ckconv_plan *plan, ckconv_op op, const ckconv_conv_desc *desc,
                                          const ckconv_options *options, const ckconv_device *device,
                                          ckconv_error *err)
{
    return ckci_make_plan_of(plan, op, CKCI_DESC_CONV, desc, options, device, err);
}

CKCONV_API ckconv_status ckconv_plan_conv_conv(ckconv_plan *plan, const ckconv_conv_conv_desc *desc,
                                               const ckconv_options *options, const ckconv_device *device,
                                               ckconv_error *err)
{
    return ckci_make_plan_of(plan, CKCONV_CONV_CONV_FWD, CKCI_DESC_CONV_CONV, desc, options, device, err);
}

CKCONV_API ckconv_status ckconv_plan_groupnorm(ckconv_plan *plan, ckconv_op op,
                                               const ckconv_groupnorm_desc *desc,
                                               const ckconv_options *options, const ckconv_device *device,
                                               ckconv_error *err)
{
    return ckci_make_plan_of(plan, op, CKCI_DESC_GROUPNORM, desc, options, device, err);
}

/* ckconv_plan_again for one instance by its index, or for any (-1). */
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
    return ckci_make_plan(plan, copy.op, &copy.u, options, &copy.device, only, &p, err);
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

/* Lists all buffers of a plan's operation, from its row and the arguments; pointers also go into the
   problem's tensors. list has room for 20. */
CKCI_FN int ckci_list_buffers(const ckconv_plan *plan, ckci_problem *p, const ckconv_args *args,
                              ckci_buffer *list)
{
    const ckci_operation *row = ckci_find_operation(plan->op);
    int32_t desc = row->desc;
    int count = 0, dbias = ckci_has_bias(plan, p) && !ckci_result(args, plan->op); /* dbias alone */
    for (const ckci_arg_row *a = row->args; a->name; a++) {
        const void *at = ckci_pointer(args, a);
        ckci_found f;
        if (!ckci_find_tensor(plan, p, a->which, &f)) {
            continue;
        }
        int optional = a->need == CKCI_UNLESS_DBIAS ? dbias : a->need != CKCI_NEEDED;
        int64_t bytes = f.t ? ckci_span(f.t) : f.count * (int64_t)ckci_size(f.dtype);
        ckci_add_buffer(list, &count, a->name, at, bytes, a->written, optional, f.t);
        ckci_buffer *b = &list[count - 1];
        b->element = (int32_t)ckci_size(f.dtype);
        b->takes_d = a->written && a->which == row->written;
        b->is_d = a->which >= CKCONV_TENSOR_D0 && a->which < CKCONV_TENSOR_D0 + 4;
        if (f.t) {
            f.t->p = (unsigned char *)(uintptr_t)at;
        }
    }
    ckci_conv *last = desc == CKCI_DESC_CONV        ? &p->conv
                      : desc == CKCI_DESC_CONV_CONV ? &p->pair.second
                                                    : NULL;
    if (last && last->accumulate) {
        last->d[0].p = last->t[row->written].p;
    }
    return count;
}

/* May these two overlap? Only a D tensor and the tensor whose epilogue reads it may, with the same type and
   strides: each element is read just before it is written. */
CKCI_FN int ckci_may_alias(const ckci_buffer *written, const ckci_buffer *read)
{
    return written->takes_d && written->p == read->p && read->is_d &&
           written->shape->dtype == read->shape->dtype &&
           memcmp(written->shape->stride, read->shape->stride, sizeof read->shape->stride) == 0;
}

/* Do two strided tensors whose spans overlap share no element, because they lie in different slices of a
   common period (channels 0..7 and 8..15 of one NHWC buffer)? Each stride of either tensor is tried as the
   smallest one of the period: all larger strides must be multiples of the period, and what the smaller ones
   address must not meet. */
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

/* Checks what a row says of arguments that may be NULL: both of BOTH or none, and at least one result. */
CKCI_FN ckconv_status ckci_check_missing(ckconv_op op, const ckconv_args *args, ckconv_error *err)
{
    char list[160] = "";
    size_t at = 0;
    int results = 0, left = 0;
    const ckci_arg_row *first = ckci_find_operation(op)->args;
    for (const ckci_arg_row *a = first; a->name; a++) {
        if (a->need == CKCI_BOTH && a[1].need == CKCI_BOTH &&
            (ckci_pointer(args, a) == NULL) != (ckci_pointer(args, a + 1) == NULL)) {
            return ckci_fail(err, CKCONV_ERR_NULL, "args.%s and args.%s: give both or none", a->name,
                             a[1].name);
        }
        left += a->written;
        results |= a->written && (a->need != CKCI_OPTIONAL || ckci_pointer(args, a));
    }
    for (const ckci_arg_row *a = first; a->name && !results; a++) {
        if (a->written) {
            left--;
            at = ckci_append(list, sizeof list, at, "args.%s%s", a->name,
                             left > 1    ? ", "
                             : left == 1 ? " and "
                                         : "");
        }
    }
    return results ? CKCONV_OK : ckci_fail(err, CKCONV_ERR_NULL, "%s are all NULL: nothing to do", list);
}

/* Checks everything before anything is touched. *p becomes the problem with its pointers, *ws the aligned
   workspace. */
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
    count = ckci_list_buffers(plan, p, args, list);
    CKCI_TRY(ckci_check_missing(plan->op, args, err));
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

/* Were the launches of this run looked at when it was planned? The planner looked at those for all results,
   and for pointers that are aligned to 16 bytes. */
CKCI_FN int ckci_launches_known(const ckconv_plan *plan, const ckci_problem *p)
{
    uintptr_t low = 0;
    if (ckci_desc_of(plan->op) != CKCI_DESC_CONV) {
        return 0;
    }
    for (int i = 0; i < 3; i++) {
        low |= (uintptr_t)p->conv.t[i].p;
    }
    for (int i = 0; i < p->conv.num_d; i++) {
        low |= (uintptr_t)p->conv.d[i].p;
    }
    return low % 16 == 0 && (!ckci_has_bias(plan, p) || p->conv.t[ckci_written(plan->op)].p);
}

/* Launches all kernels of a run. Each launch is looked at first, so that what cannot be launched is refused
   before the first kernel starts. */
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
    if ((plan->launches > 1 || ckci_desc_of(plan->op) == CKCI_DESC_CONV_CONV) &&
        !ckci_launches_known(plan, p)) {
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
    if (ckci_has_bias(plan, &p) && !ckci_result(args, plan->op)) {
        return ckci_ok(err);
    }
    if (plan->tune[CKCI_TUNE_STACK] > 0) {
        ckci_stack_run r;
        r.plan = plan;
        r.p = &p;
        r.args = args;
        r.instance = instance;
        if (ckci_desc_of(plan->op) == CKCI_DESC_GROUPNORM) {
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
