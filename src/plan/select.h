/*------------------------------------------------------------------------------------------------------------
  >>plan-select
  Checks of options and devices, the choice of the cheapest instance that fits, and the plan made of it. No
  GPU call is made here, but for facts of the current device where the caller names none. If no instance fits,
  the most telling of all refusals is the error. A plan holds no pointer: it is a plain struct, the same for
  the same description, device and options.
*/
#pragma once
#include "plan/instances.h"
#include "core/axes.h"

/* The problem with all axes of the description, as callers are told of it. Plans are made and run for what
   ckci_drop_axes leaves. */
CKCI_FN ckconv_status ckci_check_problem(ckconv_op op, void *desc, ckci_problem *p, ckconv_error *err)
{
    CKCI_TRY(ckci_check_op(op, err));
    if (CKCI_HAS_CONV_CONV && ckci_desc_of(op) == CKCI_DESC_CONV_CONV) {
        return ckci_check_conv_conv((ckconv_conv_conv_desc *)desc, &p->pair, err);
    }
    if (CKCI_HAS_GROUPNORM && ckci_desc_of(op) == CKCI_DESC_GROUPNORM) {
        return ckci_check_groupnorm(op, (ckconv_groupnorm_desc *)desc, &p->norm, err);
    }
    return ckci_check_conv("", "", op, (ckconv_conv_desc *)desc, &p->conv, err);
}

CKCI_FN void ckci_drop_axes(ckconv_op op, ckci_problem *p)
{
    if (ckci_desc_of(op) == CKCI_DESC_CONV) {
        ckci_drop_conv(&p->conv);
    } else if (ckci_desc_of(op) == CKCI_DESC_CONV_CONV) {
        ckci_drop_pair(&p->pair);
    } else {
        ckci_tensor *t[3];
        t[0] = &p->norm.in;
        t[1] = &p->norm.out;
        t[2] = &p->norm.din;
        ckci_drop_tensors(t, 3);
    }
}

CKCI_FN ckconv_status ckci_check_options(const ckconv_options *o, ckconv_error *err)
{
    if (o->engine < CKCONV_ENGINE_AUTO || o->engine > CKCONV_ENGINE_GPU) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "options.engine is %d: must be 0 (auto), 1 (ref), 2 (cpu) or 3 (gpu)",
                         (int)o->engine);
    }
    if (o->max_workspace < -1) {
        return ckci_fail(
            err, CKCONV_ERR_ARGUMENT,
            "options.max_workspace is %lld: must be -1 (none), 0 (no limit) or a number of bytes",
            CKCI_LL(o->max_workspace));
    }
    if (o->split_k < 0) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "options.split_k is %d: must be 0 (planner's choice) or more", (int)o->split_k);
    }
    if (o->threads < 0 || o->threads > 4096) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "options.threads is %d: must be 0 (the device's) to 4096",
                         (int)o->threads);
    }
    for (int i = 0; i < 3; i++) {
        if (o->reserved[i] != 0) {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                             "options.reserved[%d] is %d: must be 0 (uninitialised struct?)", i,
                             (int)o->reserved[i]);
        }
    }
    return CKCONV_OK;
}

/* LDS that every GPU gives a block. Kernels of the vector, direct and group norm families use no more than
   this, unless the planner has asked how much there is. */
enum { CKCI_LEAST_LDS = 49152 };

/* Checks that a GPU's name is one of its vendor's, and that its waves are those of the name's row. */
CKCI_FN ckconv_status ckci_check_arch(const ckconv_device *d, ckconv_error *err)
{
    const ckci_architecture *row = ckci_find_architecture(d->arch);
    int32_t vendor = row ? row->kind : ckci_architecture_vendor(d->arch);
    if (d->kind == CKCONV_DEVICE_CPU ? vendor != CKCONV_DEVICE_CPU : vendor != d->kind) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "device.arch is '%s', device.kind %d: must be %s", d->arch,
                         (int)d->kind,
                         d->kind == CKCONV_DEVICE_AMD      ? "gfx... for 1 (AMD)"
                         : d->kind == CKCONV_DEVICE_NVIDIA ? "sm_... for 2 (NVIDIA)"
                                                           : "a CPU's for 0");
    }
    if (row && d->wave_size != row->wave) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "device.wave_size is %d: must be %d on %s",
                         (int)d->wave_size, (int)row->wave, d->arch);
    }
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_check_device(const ckconv_device *d, ckconv_error *err)
{
    if (d->kind < CKCONV_DEVICE_CPU || d->kind > CKCONV_DEVICE_NVIDIA) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "device.kind is %d: must be 0 (CPU), 1 (AMD) or 2 (NVIDIA)", (int)d->kind);
    }
    if (d->threads < 0 || d->threads > 4096) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "device.threads is %d: must be 0 (means 1) to 4096",
                         (int)d->threads);
    }
    const int32_t known = d->kind == CKCONV_DEVICE_CPU
                              ? CKCONV_CPU_AVX2 | CKCONV_CPU_AVX512 | CKCONV_CPU_AVX512_BF16
                              : CKCONV_GPU_NO_SM90A;
    if ((d->features & ~known) != 0) {
        return ckci_fail(
            err, CKCONV_ERR_ARGUMENT,
            "device.features is %d: only CKCONV_CPU_AVX2, _AVX512 and _AVX512_BF16 are known, of "
            "GPUs CKCONV_GPU_NO_SM90A",
            (int)d->features);
    }
    if (memchr(d->arch, 0, sizeof d->arch) == NULL) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "device.arch is %.16s...: must end with a 0 byte",
                         d->arch);
    }
    for (const char *c = d->arch; *c; c++) {
        if (*c <= ' ' || *c > '~') {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT, "device.arch holds byte %d: must be printable ASCII",
                             (int)(unsigned char)*c);
        }
    }
    if (d->ordinal < 0) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "device.ordinal is %d: must be 0 or more",
                         (int)d->ordinal);
    }
    CKCI_TRY(ckci_check_arch(d, err));
    if (d->kind != CKCONV_DEVICE_CPU && d->wave_size != 32 && d->wave_size != 64) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "device.wave_size is %d: must be 32 or 64",
                         (int)d->wave_size);
    }
    if (d->kind != CKCONV_DEVICE_CPU && (d->compute_units < 1 || d->compute_units > 65536)) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "device.compute_units is %d: must be 1 to 65536",
                         (int)d->compute_units);
    }
    if (d->kind != CKCONV_DEVICE_CPU && d->lds_bytes < CKCI_LEAST_LDS) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT, "device.lds_bytes is %d: must be %d or more",
                         (int)d->lds_bytes, (int)CKCI_LEAST_LDS);
    }
    for (int i = 0; i < CKCONV_COSTS; i++) {
        if (!(d->costs[i] == 0 || (d->costs[i] >= CKCI_LEAST_COST && d->costs[i] <= CKCI_MOST_COST))) {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                             "device.costs[%d] is %g: must be 0 (means 1) or from 1/64 to 64", i,
                             (double)d->costs[i]);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (d->reserved[i] != 0) {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                             "device.reserved[%d] is %d: must be 0 (uninitialised struct?)", i,
                             (int)d->reserved[i]);
        }
    }
    return CKCONV_OK;
}

/* Adds the FLOP of a convolution, and the bytes of its tensors, each moved once. */
CKCI_FN void ckci_measure_conv(const ckci_conv *p, int64_t *flop, int64_t *bytes)
{
    int64_t f = 2;
    int64_t factors[10];
    factors[0] = p->g;
    factors[1] = p->n;
    factors[2] = p->k;
    factors[3] = p->c;
    for (int i = 0; i < 3; i++) {
        factors[4 + i] = p->output[i];
        factors[7 + i] = p->filter[i];
    }
    for (int i = 0; i < 10; i++) {
        f = factors[i] == 0 ? 0 : ckci_saturating_mul(f, factors[i]);
    }
    *flop += ckci_min(f, CKCI_MAX_BYTES - *flop);
    for (int i = 0; i < 3; i++) {
        int64_t tensor = ckci_count(&p->t[i]) * (int64_t)ckci_size(p->t[i].dtype);
        *bytes += ckci_min(tensor, CKCI_MAX_BYTES - *bytes);
    }
}

CKCI_FN void ckci_measure(ckconv_plan *plan, const ckci_problem *p)
{
    plan->flop = plan->bytes = 0;
    if (ckci_desc_of(plan->op) == CKCI_DESC_CONV_CONV) {
        ckci_measure_conv(&p->pair.first, &plan->flop, &plan->bytes);
        ckci_measure_conv(&p->pair.second, &plan->flop, &plan->bytes);
        const ckci_tensor *mid = &p->pair.first.t[CKCI_OUT]; /* counted twice, moved not at all */
        plan->bytes = ckci_max(plan->bytes - 2 * ckci_count(mid) * (int64_t)ckci_size(mid->dtype), 0);
    } else if (ckci_desc_of(plan->op) == CKCI_DESC_CONV) {
        ckci_measure_conv(&p->conv, &plan->flop, &plan->bytes);
    } else {
        const ckci_groupnorm *n = &p->norm;
        int64_t x = ckci_count(&n->in) * (int64_t)ckci_size(n->in.dtype);
        int64_t y = ckci_count(&n->out) * (int64_t)ckci_size(n->out.dtype);
        int64_t dx = ckci_written(plan->op) == CKCI_IN ? ckci_count(&n->din) : 0;
        dx *= (int64_t)ckci_size(n->din.dtype);
        plan->bytes = ckci_min(x / 2 + y / 2 + dx / 2, CKCI_MAX_BYTES / 2) * 2;
    }
}

/* Does the caller's options.instance mean this instance? */
CKCI_FN int ckci_instance_named(const ckci_instance *i, const char *name)
{
    return name == NULL || ckci_same_text(i->name, name) ||
           ckci_same_text(ckconv_family_name(i->family), name) ||
           (i->family == CKCONV_FAMILY_VECTOR && ckci_same_text(name, "dl"));
}

/* Is it the name of any instance or family at all? */
CKCI_FN int ckci_known_name(const char *name)
{
    for (ckconv_family f = CKCONV_FAMILY_REF; f <= CKCONV_FAMILY_MMA; f++) {
        if (ckci_same_text(ckconv_family_name(f), name)) {
            return 1;
        }
    }
    for (int32_t i = 0; ckci_find_instance(i); i++) {
        if (ckci_same_text(ckci_find_instance(i)->name, name)) {
            return 1;
        }
    }
    return ckci_same_text(name, "dl");
}

/* How many threads are worth their start. A small problem is done before a team of threads has met, and
   waiting for a team on a busy machine takes far longer. Results do not depend on the number. */
CKCI_FN int32_t ckci_useful_threads(int32_t threads, double cost)
{
    double most = cost / (double)CKCI_THREAD_COST;
    return !(most < threads) ? threads : most < 1 ? 1 : (int32_t)most;
}

/* Counts the launches of a plan, and refuses the plan if the device cannot make one of them. Every optional
   result but mid is taken to be asked for, and statistics to be saved. Addresses are made up, and nothing
   reads there. */
CKCI_FN ckconv_status ckci_try_launches(ckconv_plan *plan, const ckci_problem *p,
                                        const ckci_instance *instance, ckconv_error *err)
{
    ckconv_args a;
    ckci_launch_count c;
    ckci_emitter e;
    if (!instance->list) {
        return CKCONV_OK;
    }
    memset(&a, 0, sizeof a);
    a.din = a.dgamma = a.dbeta = &a;
    a.saved_mean = a.saved_inv_std = &a;
    a.dwei = a.dbias = &a;
    c.device = &plan->device;
    c.count = 0;
    c.mid = plan->tune[CKCI_TUNE_MID] != 0;
    e.emit = ckci_count_launch;
    e.context = &c;
    CKCI_TRY(ckci_list_launches(
        plan, instance, p, &a, plan->workspace_bytes > 0 ? (unsigned char *)(uintptr_t)4096 : NULL, &e, err));
    plan->launches = c.count;
    return CKCONV_OK;
}

/* How much an instance's refusal tells the caller: 0 where the instance is made for other sums, another
   matrix unit or another CPU, 1 for an instance of a matrix unit, 2 for the others. */
CKCI_FN int ckci_reason_rank(const ckci_instance *i, const ckconv_plan *plan, const ckci_problem *p)
{
    int matrix =
        i->family == CKCONV_FAMILY_MFMA || i->family == CKCONV_FAMILY_WMMA || i->family == CKCONV_FAMILY_MMA;
    int32_t desc = ckci_desc_of(plan->op);
    ckconv_dtype kind = desc == CKCI_DESC_CONV        ? ckci_conv_kind(&p->conv)
                        : desc == CKCI_DESC_CONV_CONV ? ckci_conv_kind(&p->pair.first)
                                                      : i->kind;
    if ((i->kind != 0 && i->kind != kind) || (matrix && ckci_matrix_family(&plan->device) != i->family) ||
        (i->features & plan->device.features) != i->features) {
        return 0;
    }
    return matrix ? 1 : 2;
}

/* Keeps the refusal that is told: the first one of the highest rank. Within a rank, a refusal for want of
   workspace comes before all others, since such an instance could run. */
CKCI_FN void ckci_keep_reason(const ckconv_error *why, int now, int *rank, ckconv_error *reason)
{
    if (why) {
        now = 2 * now + (why->status == CKCONV_ERR_WORKSPACE ? 1 : 0);
        if (now > *rank) {
            *rank = now;
            *reason = *why;
        }
    }
}

/* What a run of the plan takes, in picoseconds, by the cost of its instance. */
CKCI_FN int64_t ckci_expect(const ckconv_plan *plan, const ckci_fit *f)
{
    double ns = -1;
    if (plan->engine == CKCONV_ENGINE_GPU) {
        ns = f->ns;
    } else if (plan->engine == CKCONV_ENGINE_CPU) {
        ns = f->cost * 20000 / (double)CKCI_THREAD_COST / (double)ckci_max(plan->device.threads, 1);
    }
    return ns >= 0 && ns < 1e15 ? (int64_t)(ns * 1000) : -1;
}

/* Writes the cheapest instance that fits into *plan, which holds op, engine, device and description. */
CKCI_FN ckconv_status ckci_select(ckconv_plan *plan, const ckci_problem *p, const ckconv_options *o,
                                  int32_t only, double *cost, ckconv_error *err)
{
    ckconv_plan best, trial;
    ckconv_error reason;
    double best_cost = 0;
    int found = 0, tried = 0, rank = -1; /* of the refusal that is told */
    memset(&reason, 0, sizeof reason);
    for (int32_t i = 0; ckci_find_instance(i); i++) {
        const ckci_instance *instance = ckci_find_instance(i);
        if ((only >= 0 && only != i) || instance->engine != plan->engine ||
            !ckci_instance_named(instance, o->instance) || (instance->op != 0 && instance->op != plan->op)) {
            continue;
        }
        tried++;
        if ((instance->features & plan->device.features) != instance->features) {
            ckci_fail(reason.text[0] ? NULL : &reason, CKCONV_ERR_UNSUPPORTED,
                      "%s needs AVX%s, which device.features does not offer", instance->name,
                      instance->features == CKCONV_CPU_AVX2     ? "2 with FMA"
                      : instance->features == CKCONV_CPU_AVX512 ? "-512"
                                                                : "-512 with bf16 dot products");
            continue;
        }
        int now = ckci_reason_rank(instance, plan, p);
        if (now == 0 && (found || rank >= 0)) {
            continue; /* it does not fit, and has nothing to tell */
        }
        ckconv_error told;
        ckconv_error *why = found ? NULL : &told;
        ckci_fit f;
        trial = *plan;
        trial.instance = i;
        trial.split_k = 1;
        trial.launches = 1;
        trial.grid[1] = trial.grid[2] = 1;
        trial.block[0] = plan->device.threads;
        trial.block[1] = trial.block[2] = 1;
        f.plan = &trial;
        f.p = p;
        f.family = instance->family;
        f.features = instance->features;
        f.kind = instance->kind;
        f.tile = &instance->tile;
        f.limit = ckci_plan_limit(plan);
        f.split_k = o->split_k;
        f.cost = 0;
        f.ns = -1;
        if (instance->fit(&f, why) != CKCONV_OK) {
            ckci_keep_reason(why, now, &rank, &reason);
            continue;
        }
        int32_t useful = ckci_useful_threads(plan->device.threads, f.cost);
        if (useful < plan->device.threads) {
            trial.device.threads = trial.block[0] = useful;
            if (instance->fit(&f, why) != CKCONV_OK) {
                ckci_keep_reason(why, now, &rank, &reason);
                continue;
            }
        }
        f.ns = f.ns < 0 ? ckci_cost_ns(f.cost, 1) : f.ns;
        if (ckci_acts_single(&trial, p)) {
            const double longer = ckci_single_cost(&plan->device, &p->conv.t[ckci_written(plan->op)]);
            f.cost += ckci_cost_like(longer, f.cost, f.ns);
            f.ns += longer;
        }
        if (ckci_fit_bias(&f, why) != CKCONV_OK) {
            ckci_keep_reason(why, now, &rank, &reason);
            continue;
        }
        trial.workspace_bytes += trial.workspace_bytes > 0 ? CKCI_ALIGN : 0;
        if (found && f.cost >= best_cost) {
            continue;
        }
        if (ckci_try_launches(&trial, p, instance, why) == CKCONV_OK) {
            found = 1;
            best_cost = f.cost;
            best = trial;
            best.tune[CKCI_TUNE_TIME] = ckci_expect(&trial, &f);
        } else {
            ckci_keep_reason(why, now, &rank, &reason);
        }
    }
    if (!found && tried == 0) {
        if (only >= 0) {
            return ckci_fail(err, CKCONV_ERR_UNSUPPORTED, "%s is not an instance of %s on this engine",
                             ckci_find_instance(only) ? ckci_find_instance(only)->name : "?",
                             ckconv_op_name(plan->op));
        }
        if (o->instance && !ckci_known_name(o->instance)) {
            return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                             "options.instance is '%.60s': no instance or family has that name", o->instance);
        }
        return ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                         "options.instance is '%.60s': nothing of that name computes %s on engine %s",
                         o->instance ? o->instance : "", ckconv_op_name(plan->op),
                         ckconv_engine_name(plan->engine));
    }
    if (!found && reason.status == CKCONV_ERR_WORKSPACE && o->max_workspace != 0) {
        return ckci_fail(err, reason.status, "%s; options.max_workspace is %lld", reason.text,
                         CKCI_LL(o->max_workspace));
    }
    if (!found) {
        return ckci_fail(err, reason.status ? reason.status : CKCONV_ERR_UNSUPPORTED, "%s", reason.text);
    }
    *plan = best;
    *cost = best_cost;
    return CKCONV_OK;
}

/* Gives a CPU plan under a limit its workspace on the stack instead, where the block there is enough
   whatever the number of threads. That holds for a group norm, whose workspace does not depend on the
   number, and for problems that are too small for two threads. The stack is taken only where the plan for it
   costs no more than what the limit leaves. */
CKCI_FN void ckci_select_on_stack(ckconv_plan *plan, const ckci_problem *p, const ckconv_options *o,
                                  int32_t only, double cost)
{
    ckconv_plan trial = *plan;
    double other;
    if (plan->engine != CKCONV_ENGINE_CPU || plan->tune[CKCI_TUNE_LIMIT] == 0 ||
        plan->tune[CKCI_TUNE_LIMIT] >= ckci_stack_room(plan->op)) {
        return;
    }
    trial.tune[CKCI_TUNE_STACK] = ckci_stack_room(plan->op);
    trial.workspace_bytes = 0;
    if (ckci_select(&trial, p, o, only, &other, NULL) == CKCONV_OK && other <= cost &&
        trial.workspace_bytes > ckci_max(plan->tune[CKCI_TUNE_LIMIT], 0) &&
        (ckci_desc_of(plan->op) == CKCI_DESC_GROUPNORM || other < 2 * (double)CKCI_THREAD_COST)) {
        *plan = trial;
        plan->tune[CKCI_TUNE_STACK] = trial.workspace_bytes;
        plan->workspace_bytes = 0;
    }
}

CKCI_FN ckconv_status ckci_plan_part(const ckci_conv *p, const ckconv_device *device, int64_t limit, int mid,
                                     ckconv_plan *part, double *cost, ckconv_error *err)
{
    ckci_problem one;
    ckconv_options o;
    memset(&o, 0, sizeof o);
    memset(part, 0, sizeof *part);
    one.conv = *p;
    one.conv.dbias.dtype = 0; /* the whole has it */
    part->op = p->op;
    part->engine = CKCONV_ENGINE_GPU;
    part->device = *device;
    part->tune[CKCI_TUNE_LIMIT] = limit > 0 ? ckci_saturating_add(limit, CKCI_ALIGN) : -1;
    part->tune[CKCI_TUNE_MID] = mid;
    CKCI_TRY(ckci_select(part, &one, &o, -1, cost, err));
    part->workspace_bytes -= part->workspace_bytes > 0 ? CKCI_ALIGN : 0;
    return CKCONV_OK;
}

CKCI_FN ckconv_status ckci_list_part(const ckconv_plan *part, const ckci_conv *p, unsigned char *ws,
                                     const ckci_emitter *e, ckconv_error *err)
{
    const ckci_instance *instance = ckci_find_instance(part->instance);
    ckconv_args none;
    ckci_problem one;
    memset(&none, 0, sizeof none);
    one.conv = *p;
    one.conv.dbias.dtype = 0; /* the whole has it */
    return instance->list(part, &one, &none, ws, &instance->tile, e, err);
}

/* A plan that was refused is all zero but for two members: a version that no header has, and u, which holds
   the reason. A run of such a plan tells the reason again. */
CKCI_FN ckconv_status ckci_refuse(ckconv_plan *plan, const ckconv_error *why, ckconv_error *err)
{
    if (plan) {
        memset(plan, 0, sizeof *plan);
        plan->version = CKCI_REFUSED;
        memcpy(&plan->u, why, sizeof *why);
    }
    if (err) {
        *err = *why;
    }
    return why->status;
}

/* Was this plan refused? If so, *why is the reason. */
CKCI_FN int ckci_refused(const ckconv_plan *plan, ckconv_error *why)
{
    if (!plan || plan->magic != 0 || plan->version != CKCI_REFUSED) {
        return 0;
    }
    memcpy(why, &plan->u, sizeof *why);
    why->text[sizeof why->text - 1] = 0;
    return 1;
}

/* Turns a checked problem into what engines see: axes of one position are gone, and patches are rows of
   channels. */
CKCI_FN void ckci_plain_problem(const ckconv_plan *plan, ckci_problem *p)
{
    int conv = ckci_desc_of(plan->op) == CKCI_DESC_CONV;
    ckci_drop_axes(plan->op, p);
    if (conv && plan->engine == CKCONV_ENGINE_GPU) {
        ckci_fold_patches(&p->conv, 16 / (int64_t)ckci_size(p->conv.t[CKCI_IN].dtype));
    }
    if (conv && plan->engine == CKCONV_ENGINE_CPU) {
        ckci_merge_axes(&p->conv);
    }
}

/* What this build holds, as a number. A plan of another build may need what this one lacks. */
enum {
    CKCI_BUILD_HOLDS = CKCI_HAS_F64 | CKCI_HAS_F32 << 1 | CKCI_HAS_F16 << 2 | CKCI_HAS_BF16 << 3 |
                       CKCI_HAS_I8 << 4 | CKCI_HAS_FP8 << 5 | CKCI_HAS_FWD << 6 | CKCI_HAS_BWD_DATA << 7 |
                       CKCI_HAS_BWD_WEIGHT << 8 | CKCI_HAS_CONV_CONV << 9 | CKCI_HAS_GROUPNORM << 10 |
                       CKCI_HAS_CHANNELS_FIRST << 11 | CKCI_HAS_DEPTHWISE << 12 | CKCI_HAS_CPU << 13
};

/* A checksum of a plan, of its instance's name and of what the build holds: an index or a launch may mean
   something else in another build. Each step is one-to-one, so that a single changed word changes the
   checksum. */
CKCI_FN uint64_t ckci_plan_check(const ckconv_plan *plan)
{
    ckconv_plan copy;
    memcpy(&copy, plan, sizeof copy);
    copy.seal = 0;
    const unsigned char *at = (const unsigned char *)&copy, *end = at + sizeof copy;
    uint64_t sum[4] = {CKCI_MAGIC, 0, CKCI_BUILD_HOLDS, 0};
    for (const char *c = ckci_find_instance(plan->instance)->name; *c; c++) {
        sum[1] = (sum[1] ^ (unsigned char)*c) * 0x9e3779b97f4a7c15u;
    }
    for (int i = 0; at < end; at += 8, i = (i + 1) % 4) {
        uint64_t word = 0;
        memcpy(&word, at, end - at < 8 ? (size_t)(end - at) : 8);
        sum[i] = (sum[i] ^ word) * 0x9e3779b97f4a7c15u;
        sum[i] ^= sum[i] >> 29;
    }
    for (int i = 1; i < 4; i++) {
        sum[0] = (sum[0] << 7 | sum[0] >> 57) ^ sum[i];
    }
    return sum[0];
}

/* The work of ckci_make_plan. *out is all zero after a failure. */
CKCI_FN ckconv_status ckci_try_plan(ckconv_plan *out, ckconv_op op, const void *desc, size_t desc_bytes,
                                    const ckconv_options *options, const ckconv_device *device, int32_t only,
                                    ckci_problem *problem, ckconv_error *err)
{
    ckconv_plan plan;
    ckconv_options o;
    memset(&plan, 0, sizeof plan);
    memset(&o, 0, sizeof o);
    if (!desc) {
        memset(out, 0, sizeof *out);
        return ckci_fail(err, CKCONV_ERR_NULL, "desc is NULL");
    }
    memcpy(&plan.u, desc, desc_bytes);
    if (device) {
        plan.device = *device;
    }
    if (options) {
        o = *options;
    }
    memset(out, 0, sizeof *out);
    CKCI_TRY(ckci_check_options(&o, err));
    o.split_k = (int32_t)ckci_min(o.split_k, CKCI_MOST_PARTS);
    if (!device && (o.engine == CKCONV_ENGINE_REF || o.engine == CKCONV_ENGINE_CPU)) {
        ckconv_device_cpu(&plan.device);
    } else if (!device) {
        CKCI_TRY(ckci_default_device(&plan.device, err));
    }
    CKCI_TRY(ckci_check_device(&plan.device, err));
    plan.op = op;
    CKCI_TRY(ckci_check_problem(op, &plan.u, problem, err));
    plan.engine = o.engine;
    for (int32_t i = 0; plan.engine == CKCONV_ENGINE_AUTO && ckci_find_instance(i); i++) {
        if (ckci_same_text(ckci_find_instance(i)->name, o.instance)) {
            plan.engine = ckci_find_instance(i)->engine;
        }
    }
    if (plan.engine == CKCONV_ENGINE_AUTO) {
        plan.engine = plan.device.kind == CKCONV_DEVICE_CPU ? (ckconv_engine)CKCONV_ENGINE_CPU
                                                            : (ckconv_engine)CKCONV_ENGINE_GPU;
    }
    if (plan.engine == CKCONV_ENGINE_GPU && plan.device.kind == CKCONV_DEVICE_CPU) {
        return device ? ckci_fail(err, CKCONV_ERR_UNSUPPORTED,
                                  "engine gpu, but device.kind is 0 (CPU): give the facts of a GPU or NULL")
                      : ckci_no_gpu("engine gpu", err);
    }
    if (plan.engine != CKCONV_ENGINE_GPU && plan.device.kind != CKCONV_DEVICE_CPU) {
        ckconv_device_cpu(&plan.device); /* a host engine asked for beside a GPU */
    }
    plan.device.threads = plan.engine == CKCONV_ENGINE_GPU ? 0
                          : o.threads                      ? o.threads
                          : plan.device.threads            ? plan.device.threads
                                                           : 1;
    ckci_measure(&plan, problem);
    ckci_plain_problem(&plan, problem);
    plan.tune[CKCI_TUNE_LIMIT] = o.max_workspace;
    plan.tune[CKCI_TUNE_SPLIT] = o.split_k;
    double cost;
    CKCI_TRY(ckci_select(&plan, problem, &o, only, &cost, err));
    ckci_select_on_stack(&plan, problem, &o, only, cost);
    plan.magic = CKCI_MAGIC;
    plan.version = CKCONV_VERSION;
    plan.seal = ckci_plan_check(&plan);
    *out = plan;
    return ckci_ok(err);
}

CKCI_FN size_t ckci_desc_bytes(int32_t desc)
{
    return desc == CKCI_DESC_CONV        ? sizeof(ckconv_conv_desc)
           : desc == CKCI_DESC_CONV_CONV ? sizeof(ckconv_conv_conv_desc)
                                         : sizeof(ckconv_groupnorm_desc);
}

/* Everything behind the ckconv_plan_... functions. only: an instance index, or -1. */
CKCI_FN ckconv_status ckci_make_plan(ckconv_plan *out, ckconv_op op, const void *desc,
                                     const ckconv_options *options, const ckconv_device *device, int32_t only,
                                     ckci_problem *problem, ckconv_error *err)
{
    ckconv_error why;
    memset(&why, 0, sizeof why);
    if (!out) {
        return ckci_fail(err, CKCONV_ERR_NULL, "plan is NULL");
    }
    if (ckci_try_plan(out, op, desc, ckci_desc_bytes(ckci_desc_of(op)), options, device, only, problem,
                      &why) != CKCONV_OK) {
        return ckci_refuse(out, &why, err);
    }
    return ckci_ok(err);
}

/* The same, of an operation that must have this description. */
CKCI_FN ckconv_status ckci_make_plan_of(ckconv_plan *plan, ckconv_op op, int32_t which, const void *desc,
                                        const ckconv_options *options, const ckconv_device *device,
                                        ckconv_error *err)
{
    ckci_problem p;
    ckconv_error why;
    memset(&why, 0, sizeof why);
    return ckci_check_desc(op, which, &why) != CKCONV_OK
               ? ckci_refuse(plan, &why, err)
               : ckci_make_plan(plan, op, desc, options, device, -1, &p, err);
}

CKCI_FN ckconv_status ckci_check_magic(const ckconv_plan *plan, const char *name, ckconv_error *err)
{
    if (!plan) {
        return ckci_fail(err, CKCONV_ERR_NULL, "%s is NULL", name);
    }
    ckconv_error why;
    if (ckci_refused(plan, &why)) {
        return ckci_fail(err, CKCONV_ERR_PLAN, "%s was refused when it was made: %s", name, why.text);
    }
    if (plan->magic != CKCI_MAGIC || plan->version != CKCONV_VERSION) {
        return ckci_fail(err, CKCONV_ERR_PLAN,
                         "%s was not made by version %d.%d.%d of this header (a planning function fills it)",
                         name, CKCONV_VERSION_MAJOR, CKCONV_VERSION_MINOR, CKCONV_VERSION_PATCH);
    }
    return CKCONV_OK;
}

/* The problem of a plan, as it was planned. */
CKCI_FN ckconv_status ckci_recover(const ckconv_plan *plan, const char *name, ckci_problem *p,
                                   ckconv_error *err)
{
    union {
        ckconv_conv_desc conv;
        ckconv_conv_conv_desc conv_conv;
        ckconv_groupnorm_desc groupnorm;
    } desc;
    CKCI_TRY(ckci_check_magic(plan, name, err));
    if (!ckci_find_instance(plan->instance) || plan->seal != ckci_plan_check(plan)) {
        return ckci_fail(err, CKCONV_ERR_PLAN,
                         "%s is damaged, or another build of the library made it: its members do not belong "
                         "together",
                         name);
    }
    memcpy(&desc, &plan->u, sizeof desc);
    CKCI_TRY(ckci_check_problem(plan->op, &desc, p, err));
    ckci_plain_problem(plan, p);
    return CKCONV_OK;
}
