/*------------------------------------------------------------------------------------------------------------
  >>core-problem
  What the planner and the engines ask each other: a checked problem, a question whether an instance fits, and
  what a plan keeps of the caller's options. An instance answers with its cost and fills the plan's members;
  it owns no memory. Limits of workspace are counted here, once, so that engines and texts mean the same
  number.
*/
#pragma once
#include "core/check.h"

/* What plan.tune keeps: the caller's options, with which ckconv_plan_again and texts plan once more. */
enum { CKCI_TUNE_LIMIT = 0, CKCI_TUNE_SPLIT = 1 };
/* Also in plan.tune, for a pair of convolutions on a GPU: the instances of both. A scratch plan of the first
   one keeps there that it writes mid. */
enum { CKCI_TUNE_FIRST = 2, CKCI_TUNE_SECOND = 3, CKCI_TUNE_MID = 4 };
/* For a group norm on a GPU: how many blocks keep a slab in their LDS; 0: it is not kept. */
enum { CKCI_TUNE_KEPT = 5 };
/* For a convolution on a CPU: bits of the tensors (1 << CKCI_IN, ...) whose copies have channels side by
   side. */
enum { CKCI_TUNE_TURNED = 6 };
/* For a CPU plan whose workspace is a block on the stack: the bytes of the block; workspace_bytes is 0. */
enum { CKCI_TUNE_STACK = 7 };
/* For bwd_weight on a GPU: 1 if its tiles sum dbias, too; 2 if a launch of its own adds their sums. */
enum { CKCI_TUNE_BIAS = 8 };
/* For direct on a CPU: rows are gathered (cpu/along, along_weight). It is kept because the costs that chose
   it may differ for a run's pointers. */
enum { CKCI_TUNE_ALONG = 9 };
/* What the planner expects a run to take, in picoseconds; -1: it has no idea. */
enum { CKCI_TUNE_TIME = 10 };
/* For a convolution on a GPU whose epilogue has a launch of its own, also as the second one of a pair: the
   instance that leaves its sums in workspace. */
enum { CKCI_TUNE_APART = 11 };
/* For layers that become another one beside a launch (patches, sampled positions, im2col): that one's
   instance and split_k. */
enum { CKCI_TUNE_PART = 12, CKCI_TUNE_PARTS = 13 };

typedef union ckci_problem {
    ckci_conv conv;
    ckci_conv_conv pair;
    ckci_groupnorm norm;
} ckci_problem;

struct ckci_gpu_tile;

/* A question to an instance: does it fit, at what cost, with which plan members? The planner compares costs,
   which are vector multiply-adds for a CPU. For a GPU they are what its family counts in (gpu/costs.h), which
   is nanoseconds of a run for some only: those are in `ns`. */
typedef struct ckci_fit {
    ckconv_plan *plan;
    const ckci_problem *p;
    ckconv_family family;
    int32_t features;
    ckconv_dtype kind;                /* GPU: type of the instance's sums, 0: any */
    const struct ckci_gpu_tile *tile; /* GPU: the instance's (>>gpu-table) */
    int64_t limit;                    /* workspace */
    int32_t split_k;                  /* forced, or 0 */
    double cost;
    double ns; /* GPU: of a run; below 0: as many as cost says */
} ckci_fit;

/* Corrections of modelled times lie between these. */
#define CKCI_LEAST_COST (1.0 / 64)
#define CKCI_MOST_COST 64.0

/* The cost that keeps a thread busy for about 20 microseconds. Another thread for less is not worth its
   start. */
enum { CKCI_THREAD_COST = 32768 };

/* What aligning the caller's pointer may take of a workspace. */
enum { CKCI_ALIGN = 64 };

/* How much of the stack a plan's workspace may take: less for a group norm, whose items have a block there,
   too. */
CKCI_FN int64_t ckci_stack_room(ckconv_op op)
{
    return ckci_desc_of(op) == CKCI_DESC_GROUPNORM ? (int64_t)CKCI_LITTLE_STACK : (int64_t)CKCI_STACK;
}

/* The limit of workspace that a plan was made under, less what aligning may take. */
CKCI_FN int64_t ckci_plan_limit(const ckconv_plan *plan)
{
    int64_t limit = plan->tune[CKCI_TUNE_STACK] ? ckci_stack_room(plan->op) : plan->tune[CKCI_TUNE_LIMIT];
    return limit == 0 ? CKCI_MAX_BYTES : ckci_max(limit - CKCI_ALIGN, 0);
}

/* Refuses what needs more than the limit. The text says how much the caller would have to allow; ckci_select
   adds how much he does allow. */
CKCI_FN ckconv_status ckci_over_limit(const char *what, int64_t bytes, ckconv_error *err)
{
    return ckci_fail(err, CKCONV_ERR_WORKSPACE, "%s: %lld bytes of workspace are needed", what,
                     CKCI_LL(ckci_saturating_add(bytes, CKCI_ALIGN)));
}

CKCI_FN ckconv_status ckci_sums_fit(int32_t split_k, int64_t bytes, int64_t limit, ckconv_error *err)
{
    char what[64];
    if (bytes <= limit) {
        return CKCONV_OK;
    }
    snprintf(what, sizeof what, "split_k is %d, sums of its parts", (int)split_k);
    return ckci_over_limit(what, bytes, err);
}

CKCI_FN int ckci_pointwise(const ckci_conv *p)
{
    for (int i = 0; i < 3; i++) {
        if (p->filter[i] != 1 || (p->stride[i] != 1 && p->output[i] != 1) || p->pad[i] != 0 ||
            p->output[i] != p->input[i]) {
            return 0;
        }
    }
    return 1;
}

/* The workspace that a run of a finished plan has, whatever the alignment of its pointer. */
CKCI_FN int64_t ckci_run_limit(const ckconv_plan *plan)
{
    return ckci_max(plan->workspace_bytes - CKCI_ALIGN, 0);
}

/* The planner asks for the machine that it runs on, which only device/runtime.h knows: why there is no GPU
   for `what`, and facts of the GPU or, without one, of the CPU. */
CKCI_FN ckconv_status ckci_no_gpu(const char *what, ckconv_error *err);
CKCI_FN ckconv_status ckci_default_device(ckconv_device *device, ckconv_error *err);
