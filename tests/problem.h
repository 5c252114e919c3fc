/* problem.h - one name for a problem of any operation, for tests that treat all operations alike
   SPDX-License-Identifier: MIT */
#ifndef CKCONV_TEST_PROBLEM_H
#define CKCONV_TEST_PROBLEM_H

#include "test.h"

typedef struct problem {
    ckconv_op op;
    union {
        ckconv_conv_desc conv;
        ckconv_conv_conv_desc pair;
        ckconv_groupnorm_desc norm;
    } u;
} problem;

static inline int is_norm(ckconv_op op)
{
    return op == CKCONV_GROUPNORM_FWD || op == CKCONV_GROUPNORM_BWD;
}

static inline ckconv_status plan_problem(ckconv_plan *plan, const problem *p, const ckconv_options *options,
                                         const ckconv_device *device, ckconv_error *err)
{
    if (p->op == CKCONV_CONV_CONV_FWD) {
        return ckconv_plan_conv_conv(plan, &p->u.pair, options, device, err);
    }
    if (is_norm(p->op)) {
        return ckconv_plan_groupnorm(plan, p->op, &p->u.norm, options, device, err);
    }
    return ckconv_plan_conv(plan, p->op, &p->u.conv, options, device, err);
}

static inline const char *op_name(ckconv_op op)
{
    return ckconv_op_name(op) != NULL ? ckconv_op_name(op) : "?";
}

/* An error as it must be: one line, cut with a 0, status as returned. */
static inline int error_whole(const ckconv_error *err, ckconv_status status)
{
    const char *end = (const char *)memchr(err->text, 0, sizeof err->text);
    return end != NULL && end != err->text && memchr(err->text, '\n', (size_t)(end - err->text)) == NULL &&
           err->status == status;
}

#endif /* CKCONV_TEST_PROBLEM_H */
