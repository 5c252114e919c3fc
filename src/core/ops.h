/*------------------------------------------------------------------------------------------------------------
  >>core-ops
  Operations: the table of them, one row each. A row says which description the operation has, which tensor of
  a convolution it writes, what its sums run over, and all that a run is given: which members of ckconv_args
  it reads, which it writes, and which may be NULL. Names, checks of descriptions and of runs, plans and texts
  take their answers from here; an engine knows only the operations that it computes.
*/
#pragma once
#include "core/base.h"

/* The three tensors of a convolution, by index: CKCONV_TENSOR_IN, _WEI and _OUT. */
enum { CKCI_IN = 0, CKCI_WEI = 1, CKCI_OUT = 2 };
/* The description of an operation, a member of a plan's u and of ckci_problem. */
enum { CKCI_DESC_CONV = 1, CKCI_DESC_CONV_CONV = 2, CKCI_DESC_GROUPNORM = 3 };
/* What a sum runs over: the channels and taps that one output reads; all positions of a batch; a group's
   channels and positions. */
enum { CKCI_OVER_TAPS = 1, CKCI_OVER_POSITIONS = 2, CKCI_OVER_SLABS = 3 };
/* May an argument be NULL? NEEDED no; OPTIONAL yes; BOTH yes, with the next one of BOTH; UNLESS_DBIAS where
   dbias is all that is wanted. Where all results are OPTIONAL, one must be there. */
enum { CKCI_NEEDED = 0, CKCI_OPTIONAL = 1, CKCI_BOTH = 2, CKCI_UNLESS_DBIAS = 3 };
enum { CKCI_READ = 0, CKCI_WRITTEN = 1 };

/* Name, text, its switch (>>core-switches), description; of a convolution the tensor that is written and
   the activations that are read, whose type decides that of sums; what sums run over; arguments in the order
   in which they are checked: member of ckconv_args, tensor (CKCONV_TENSOR_...), read or written, need. */
/* clang-format off */
#define CKCI_OPERATIONS(X)                                                                                   \
    X(FWD, fwd, FWD, CONV, OUT, IN, TAPS,                                                                    \
      CKCI_ARG(in, IN, READ, NEEDED) CKCI_ARG(wei, WEI, READ, NEEDED) CKCI_ARG(out, OUT, WRITTEN, NEEDED)    \
      CKCI_D_ARGS(NEEDED))                                                                                   \
    X(BWD_DATA, bwd_data, BWD_DATA, CONV, IN, OUT, TAPS,                                                     \
      CKCI_ARG(din, IN, WRITTEN, NEEDED) CKCI_ARG(wei, WEI, READ, NEEDED) CKCI_ARG(dout, OUT, READ, NEEDED)  \
      CKCI_D_ARGS(NEEDED))                                                                                   \
    X(BWD_WEIGHT, bwd_weight, BWD_WEIGHT, CONV, WEI, IN, POSITIONS,                                          \
      CKCI_ARG(in, IN, READ, UNLESS_DBIAS) CKCI_ARG(dwei, WEI, WRITTEN, UNLESS_DBIAS)                        \
      CKCI_ARG(dout, OUT, READ, NEEDED) CKCI_D_ARGS(UNLESS_DBIAS)                                            \
      CKCI_ARG(dbias, DBIAS, WRITTEN, NEEDED))                                                               \
    X(CONV_CONV_FWD, conv_conv_fwd, CONV_CONV, CONV_CONV, OUT, IN, TAPS,                                     \
      CKCI_ARG(in, IN, READ, NEEDED) CKCI_ARG(wei, WEI, READ, NEEDED) CKCI_ARG(mid, MID, WRITTEN, OPTIONAL)  \
      CKCI_ARG(wei1, WEI1, READ, NEEDED) CKCI_ARG(out, OUT, WRITTEN, NEEDED) CKCI_D_ARGS(NEEDED)             \
      CKCI_ARG(scale, CHANNEL, READ, OPTIONAL) CKCI_ARG(shift, CHANNEL, READ, OPTIONAL))                     \
    X(GROUPNORM_FWD, groupnorm_fwd, GROUPNORM, GROUPNORM, OUT, IN, SLABS,                                    \
      CKCI_ARG(in, IN, READ, NEEDED) CKCI_ARG(out, OUT, WRITTEN, NEEDED)                                     \
      CKCI_ARG(gamma, CHANNEL, READ, OPTIONAL) CKCI_ARG(beta, CHANNEL, READ, OPTIONAL)                       \
      CKCI_ARG(mean, STAT, WRITTEN, OPTIONAL) CKCI_ARG(inv_std, STAT, WRITTEN, OPTIONAL))                    \
    X(GROUPNORM_BWD, groupnorm_bwd, GROUPNORM, GROUPNORM, IN, OUT, SLABS,                                    \
      CKCI_ARG(in, IN, READ, NEEDED) CKCI_ARG(dout, OUT, READ, NEEDED)                                       \
      CKCI_ARG(gamma, CHANNEL, READ, OPTIONAL) CKCI_ARG(beta, CHANNEL, READ, OPTIONAL)                       \
      CKCI_ARG(saved_mean, STAT, READ, BOTH) CKCI_ARG(saved_inv_std, STAT, READ, BOTH)                       \
      CKCI_ARG(din, DIN, WRITTEN, OPTIONAL) CKCI_ARG(dgamma, CHANNEL, WRITTEN, OPTIONAL)                     \
      CKCI_ARG(dbeta, CHANNEL, WRITTEN, OPTIONAL))
/* clang-format on */

/* One argument of an operation. */
typedef struct ckci_arg_row {
    const char *name; /* of the member of ckconv_args; NULL ends a row */
    int32_t place;    /* that member's, in bytes */
    int32_t which;    /* CKCONV_TENSOR_... */
    int32_t written, need;
} ckci_arg_row;

typedef struct ckci_operation {
    ckconv_op op;
    const char *name, *text; /* CKCONV_FWD, fwd */
    const char *why;         /* the switch that dropped it; NULL: none did */
    int32_t desc, written, base, over;
    ckci_arg_row args[12];
} ckci_operation;

/* Row `index` of the table; NULL behind its end. */
CKCI_FN const ckci_operation *ckci_operation_at(int32_t index)
{
#define CKCI_ROW(NAME, TEXT, SWITCH, DESC, TO, BASE, OVER, ARGS)                                             \
    {CKCONV_##NAME,     "CKCONV_" #NAME,  #TEXT,                                                             \
     CKCI_WHY_##SWITCH, CKCI_DESC_##DESC, CKCI_##TO,                                                         \
     CKCI_##BASE,       CKCI_OVER_##OVER, {ARGS{NULL, 0, 0, 0, 0}}},
#define CKCI_ARG(MEMBER, TENSOR, USE, NEED)                                                                  \
    {#MEMBER, (int32_t)offsetof(ckconv_args, MEMBER), CKCONV_TENSOR_##TENSOR, CKCI_##USE, CKCI_##NEED},
#define CKCI_D_ARG(I, NEED)                                                                                  \
    {"d[" #I "]", (int32_t)offsetof(ckconv_args, d[I]), CKCONV_TENSOR_D0 + I, CKCI_READ, CKCI_##NEED},
#define CKCI_D_ARGS(NEED) CKCI_D_ARG(0, NEED) CKCI_D_ARG(1, NEED) CKCI_D_ARG(2, NEED) CKCI_D_ARG(3, NEED)
    static const ckci_operation rows[] = {CKCI_OPERATIONS(CKCI_ROW)};
#undef CKCI_ROW
#undef CKCI_ARG
#undef CKCI_D_ARG
#undef CKCI_D_ARGS
    return index >= 0 && index < (int32_t)(sizeof rows / sizeof rows[0]) ? &rows[index] : NULL;
}

/* The row of an operation; NULL: there is no such operation. */
CKCI_FN const ckci_operation *ckci_find_operation(ckconv_op op)
{
    const ckci_operation *row = ckci_operation_at(0);
    for (int32_t i = 1; row && row->op != op; i++) {
        row = ckci_operation_at(i);
    }
    return row;
}

/* Which description it has, 0: there is no such operation. */
CKCI_FN int32_t ckci_desc_of(ckconv_op op)
{
    const ckci_operation *row = ckci_find_operation(op);
    return row ? row->desc : 0;
}

/* What its sums run over. */
CKCI_FN int32_t ckci_sums_over(ckconv_op op)
{
    const ckci_operation *row = ckci_find_operation(op);
    return row ? row->over : 0;
}

/* Which tensor of a convolution is written: CKCI_IN, CKCI_WEI or CKCI_OUT. */
CKCI_FN int ckci_written(ckconv_op op)
{
    const ckci_operation *row = ckci_find_operation(op);
    return row ? (int)row->written : CKCI_OUT;
}

/* Which activations of a convolution are read, of both the first: CKCI_IN or CKCI_OUT. */
CKCI_FN int ckci_base(ckconv_op op)
{
    const ckci_operation *row = ckci_find_operation(op);
    return row ? (int)row->base : CKCI_IN;
}

/* The pointer that a run was given for an argument. */
CKCI_FN const void *ckci_pointer(const ckconv_args *args, const ckci_arg_row *row)
{
    const void *p;
    memcpy(&p, (const char *)args + row->place, sizeof p);
    return p;
}

/* The pointer for the tensor that a convolution writes; NULL: only dbias is wanted. */
CKCI_FN const void *ckci_result(const ckconv_args *args, ckconv_op op)
{
    const ckci_operation *row = ckci_find_operation(op);
    const ckci_arg_row *a = row->args;
    while (a->name && a->which != row->written) {
        a++;
    }
    return a->name ? ckci_pointer(args, a) : NULL;
}

/* Is the operation one of those that have this description? */
CKCI_FN ckconv_status ckci_check_desc(ckconv_op op, int32_t desc, ckconv_error *err)
{
    char list[128] = "";
    size_t at = 0;
    const ckci_operation *row = ckci_operation_at(0);
    int32_t left = 0;
    for (int32_t i = 0; ckci_operation_at(i); i++) {
        left += ckci_operation_at(i)->desc == desc;
    }
    for (int32_t i = 1; row; row = ckci_operation_at(i++)) {
        if (row->desc == desc && row->op == op) {
            return CKCONV_OK;
        }
        if (row->desc == desc) {
            left--;
            at = ckci_append(list, sizeof list, at, "%s (%d)%s", row->name, (int)row->op,
                             left > 1    ? ", "
                             : left == 1 ? " or "
                                         : "");
        }
    }
    return ckci_fail(err, CKCONV_ERR_ARGUMENT, "op is %d: must be %s", (int)op, list);
}
