/*------------------------------------------------------------------------------------------------------------
  >>plan-tune
  Instances by number, and the tuner that times them. A plan for one instance is made as any other, with the
  same checks; the tuner runs each that fits on the caller's tensors and keeps the fastest, by the median of
  its runs. Outputs are written again and again meanwhile, as its description says.
*/
#pragma once
#include "plan/describe.h"
#include "plan/calls.h"

CKCONV_API int32_t ckconv_instance_count(void)
{
    int32_t count = 0;
    while (ckci_find_instance(count)) {
        count++;
    }
    return count;
}

CKCONV_API const char *ckconv_instance_name(int32_t index)
{
    const ckci_instance *i = ckci_find_instance(index);
    return i ? i->name : NULL;
}

CKCONV_API ckconv_engine ckconv_instance_engine(int32_t index)
{
    const ckci_instance *i = ckci_find_instance(index);
    return i ? i->engine : 0;
}

CKCONV_API ckconv_family ckconv_instance_family(int32_t index)
{
    const ckci_instance *i = ckci_find_instance(index);
    return i ? i->family : 0;
}

CKCONV_API int ckconv_instance_does(int32_t index, ckconv_op op)
{
    const ckci_instance *i = ckci_find_instance(index);
    return i && i->fit != ckci_fit_dropped && ckci_find_operation(op) && (i->op == 0 || i->op == op);
}

/* The options under which an instance is tried: those that base was planned with. */
CKCI_FN ckconv_options ckci_options_of(const ckconv_plan *base, int32_t index)
{
    ckconv_options o;
    memset(&o, 0, sizeof o);
    o.engine = ckconv_instance_engine(index);
    o.max_workspace = base->tune[CKCI_TUNE_LIMIT];
    o.split_k = (int32_t)base->tune[CKCI_TUNE_SPLIT];
    return o;
}

CKCONV_API ckconv_status ckconv_instance_supports(int32_t index, const ckconv_plan *base, ckconv_error *err)
{
    ckconv_plan plan;
    if (!ckci_find_instance(index)) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "index is %d: there are %d instances", (int)index,
                         (int)ckconv_instance_count());
    }
    CKCI_TRY(ckci_check_magic(base, "base", err));
    ckconv_options o = ckci_options_of(base, index);
    return ckci_plan_again(&plan, base, &o, index, err);
}

CKCONV_API const char *ckconv_family_name(ckconv_family family)
{
    static const char *const names[] = {"ref",   "single_stage", "two_stage", "direct",
                                        "fused", "unfused",      "groupnorm", "vector",
                                        "mfma",  "wmma",         "mma"};
    return family >= CKCONV_FAMILY_REF && family <= CKCONV_FAMILY_MMA ? names[family - 1] : NULL;
}

/* Median seconds of `repeats` runs after one warm-up. */
CKCI_FN ckconv_status ckci_time_plan(const ckconv_plan *plan, const ckconv_args *args, void *workspace,
                                     size_t bytes, void *stream, int32_t repeats, double *seconds,
                                     ckconv_error *err)
{
    enum { CKCI_MOST = 64 };
    double t[CKCI_MOST];
    ckconv_timer timer;
    CKCI_TRY(ckconv_timer_create(&plan->device, &timer, err));
    for (int32_t i = -1; i < repeats; i++) {
        ckconv_timer_start(&plan->device, &timer, stream);
        ckconv_status s = ckconv_run(plan, args, workspace, bytes, stream, err);
        if (s != CKCONV_OK) {
            ckconv_timer_destroy(&plan->device, &timer);
            return s;
        }
        ckconv_timer_stop(&plan->device, &timer, stream);
        if (i < 0) {
            continue;
        }
        double now = ckconv_timer_seconds(&plan->device, &timer);
        if (now < 0) {
            ckconv_timer_destroy(&plan->device, &timer);
            return ckci_fail(err, CKCONV_ERR_LAUNCH, "%s: its time could not be taken, or it failed",
                             ckconv_instance_name(plan->instance));
        }
        int32_t at = i;
        while (at > 0 && t[at - 1] > now) {
            t[at] = t[at - 1];
            at--;
        }
        t[at] = now;
    }
    ckconv_timer_destroy(&plan->device, &timer);
    *seconds = t[repeats / 2];
    return CKCONV_OK;
}

CKCONV_API ckconv_status ckconv_tune(const ckconv_plan *base, const ckconv_args *args, void *workspace,
                                     size_t workspace_bytes, void *stream, int32_t repeats,
                                     ckconv_choice *choices, int32_t capacity, int32_t *count,
                                     ckconv_error *err)
{
    ckci_problem p;
    if (!choices || !count || !args) {
        return ckci_fail(err, CKCONV_ERR_NULL, "%s is NULL",
                         !choices ? "choices"
                         : !count ? "count"
                                  : "args");
    }
    *count = 0;
    if (capacity < 1) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "capacity is %d: must be 1 or more", (int)capacity);
    }
    if (repeats < 1 || repeats > 64) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "repeats is %d: must be 1 to 64", (int)repeats);
    }
    CKCI_TRY(ckci_recover(base, "base", &p, err));
    for (int32_t i = 0; i < ckconv_instance_count(); i++) {
        ckconv_plan plan;
        ckconv_choice choice;
        ckconv_options o = ckci_options_of(base, i);
        int64_t given = ckci_allowed(workspace, workspace_bytes);
        if (o.max_workspace == 0 || (given < o.max_workspace && o.max_workspace > 0)) {
            o.max_workspace = given;
        }
        if (ckconv_instance_engine(i) != base->engine ||
            ckci_plan_again(&plan, base, &o, i, NULL) != CKCONV_OK) {
            continue;
        }
        memset(&choice, 0, sizeof choice);
        choice.instance = i;
        choice.split_k = plan.split_k;
        choice.workspace_bytes = plan.workspace_bytes;
        CKCI_TRY(
            ckci_time_plan(&plan, args, workspace, workspace_bytes, stream, repeats, &choice.seconds, err));
        int32_t at = *count < capacity ? (*count)++ : capacity;
        while (at > 0 && choices[at - 1].seconds > choice.seconds) {
            if (at < capacity) {
                choices[at] = choices[at - 1];
            }
            at--;
        }
        if (at < capacity) {
            choices[at] = choice;
        }
    }
    return ckci_ok(err);
}

CKCONV_API ckconv_status ckconv_plan_choice(ckconv_plan *plan, const ckconv_plan *base,
                                            const ckconv_choice *choice, ckconv_error *err)
{
    ckconv_error why;
    memset(&why, 0, sizeof why);
    if (!choice || !base) {
        ckci_fail(&why, CKCONV_ERR_NULL, "%s is NULL", choice ? "base" : "choice");
    } else if (!ckci_find_instance(choice->instance)) {
        ckci_fail(&why, CKCONV_ERR_ARGUMENT, "choice.instance is %d: there are %d instances",
                  (int)choice->instance, (int)ckconv_instance_count());
    }
    if (why.status != CKCONV_OK) {
        return ckci_refuse(plan, &why, err);
    }
    ckconv_options o = ckci_options_of(base, choice->instance);
    o.split_k = choice->split_k;
    o.max_workspace = choice->workspace_bytes > 0 ? choice->workspace_bytes : -1;
    return ckci_plan_again(plan, base, &o, choice->instance, err);
}

CKCONV_API size_t ckconv_choice_to_text(const ckconv_choice *choice, char *text, size_t size)
{
    const char *name = choice ? ckconv_instance_name(choice->instance) : NULL;
    if (!text) {
        size = 0;
    }
    return ckci_append(text, size, 0, "%s split_k=%d seconds=%.9g workspace=%lld", name ? name : "?",
                       choice ? (int)choice->split_k : 0, choice ? choice->seconds : 0.0,
                       CKCI_LL(choice ? choice->workspace_bytes : 0));
}

CKCONV_API ckconv_status ckconv_choice_from_text(ckconv_choice *choice, const char *text, ckconv_error *err)
{
    char name[64];
    long long split = 0, bytes = 0;
    double seconds = 0;
    int end = 0;
    if (!choice || !text) {
        return ckci_fail(err, CKCONV_ERR_NULL, "%s is NULL", choice ? "text" : "choice");
    }
    /* bounded field widths: scanning a number that overflows is undefined */
    int fields = sscanf(text, "%63s split_k=%9lld seconds=%30lf workspace=%18lld%n", name, &split, &seconds,
                        &bytes, &end);
    end += fields == 4 && text[end] == '\n';
    if (fields != 4 || text[end] != 0 || split < 0 || split > 65536 || !(seconds >= 0) || bytes < 0) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "text is '%.60s': not a line of ckconv_choice_to_text",
                         text);
    }
    for (int32_t i = 0; ckconv_instance_name(i); i++) {
        if (strcmp(ckconv_instance_name(i), name) == 0) {
            memset(choice, 0, sizeof *choice);
            choice->instance = i;
            choice->split_k = (int32_t)split;
            choice->seconds = seconds;
            choice->workspace_bytes = bytes;
            return ckci_ok(err);
        }
    }
    return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                     "text names instance '%.63s': this version has none of that name", name);
}
