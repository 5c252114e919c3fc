/*------------------------------------------------------------------------------------------------------------
  >>plan-tensors
  The tensors of a problem by the numbers that callers give them (CKCONV_TENSOR_...): where the checked
  problem keeps one, what its description says, how long a vector is. Runs take buffers from here, texts and
  drivers take shapes. Which of them an operation has, and what it does with each, stands in its row
  (>>core-ops).
*/
#pragma once
#include "plan/select.h"

/* A tensor of a problem: one that has a description, or a vector of `rank` lengths, packed. */
typedef struct ckci_found {
    ckci_tensor *t;            /* NULL: the problem keeps no more of it than this */
    const ckconv_tensor *desc; /* NULL: it is a vector */
    ckconv_dtype dtype;
    int32_t rank;
    int64_t length[3], count;
} ckci_found;

CKCI_FN int ckci_found_vector(ckci_found *f, ckconv_dtype dtype, int64_t a, int64_t b)
{
    f->dtype = dtype;
    f->rank = 2;
    f->length[0] = a;
    f->length[1] = b;
    f->count = a * b;
    return 1;
}

CKCI_FN int ckci_found_tensor(ckci_found *f, ckci_tensor *t, const ckconv_tensor *desc)
{
    f->t = t;
    f->desc = desc;
    f->dtype = t->dtype;
    return 1;
}

CKCI_FN int ckci_find_in_norm(ckci_groupnorm *p, const ckconv_groupnorm_desc *d, int32_t which, ckci_found *f)
{
    switch (which) {
    case CKCONV_TENSOR_CHANNEL:
        ckci_found_vector(f, p->param, p->g, p->c);
        if (p->param_step > 0) {
            f->rank = 3;
            f->length[0] = p->n;
            f->length[1] = p->g;
            f->length[2] = p->c;
            f->count = ckci_param_count(p);
        }
        return 1;
    case CKCONV_TENSOR_STAT:
        return ckci_found_vector(f, p->stat, p->n, p->g);
    case CKCONV_TENSOR_IN:
        return ckci_found_tensor(f, &p->in, &d->in);
    case CKCONV_TENSOR_OUT:
        return ckci_found_tensor(f, &p->out, &d->out);
    default:
        return ckci_found_tensor(f, &p->din, &d->din);
    }
}

CKCI_FN int ckci_find_in_conv(ckci_conv *p, const ckconv_conv_desc *d, int32_t which, ckci_found *f)
{
    int32_t i = which - CKCONV_TENSOR_D0;
    switch (which) {
    case CKCONV_TENSOR_DBIAS:
        f->t = &p->dbias;
        return ckci_found_vector(f, p->dbias.dtype, p->g, p->k) && p->dbias.dtype != 0;
    case CKCONV_TENSOR_IN:
        return ckci_found_tensor(f, &p->t[CKCI_IN], &d->in);
    case CKCONV_TENSOR_WEI:
        return ckci_found_tensor(f, &p->t[CKCI_WEI], &d->wei);
    case CKCONV_TENSOR_OUT:
        return ckci_found_tensor(f, &p->t[CKCI_OUT], &d->out);
    default:
        return i < p->num_d && !p->accumulate && ckci_found_tensor(f, &p->d[i], &d->d[i]);
    }
}

CKCI_FN int ckci_find_in_pair(ckci_conv_conv *p, const ckconv_conv_conv_desc *d, int32_t which, ckci_found *f)
{
    ckci_conv *first = &p->first, *second = &p->second;
    int32_t i = which - CKCONV_TENSOR_D0;
    switch (which) {
    case CKCONV_TENSOR_CHANNEL:
        return ckci_found_vector(f, (ckconv_dtype)(first->t[0].dtype == CKCONV_F64 ? CKCONV_F64 : CKCONV_F32),
                                 first->g, first->k);
    case CKCONV_TENSOR_MID:
        return ckci_found_tensor(f, &first->t[CKCI_OUT], &d->conv0.out);
    case CKCONV_TENSOR_WEI1:
        return ckci_found_tensor(f, &second->t[CKCI_WEI], &d->wei1);
    case CKCONV_TENSOR_OUT:
        return ckci_found_tensor(f, &second->t[CKCI_OUT], &d->out);
    case CKCONV_TENSOR_IN:
    case CKCONV_TENSOR_WEI:
        return ckci_find_in_conv(first, &d->conv0, which, f);
    default:
        return i < second->num_d && !second->accumulate && ckci_found_tensor(f, &second->d[i], &d->d[i]);
    }
}

/* The tensor of an argument; 0: this problem has none of it. */
CKCI_FN int ckci_find_tensor(const ckconv_plan *plan, ckci_problem *p, int32_t which, ckci_found *f)
{
    int32_t desc = ckci_desc_of(plan->op);
    memset(f, 0, sizeof *f);
    return desc == CKCI_DESC_CONV        ? ckci_find_in_conv(&p->conv, &plan->u.conv, which, f)
           : desc == CKCI_DESC_CONV_CONV ? ckci_find_in_pair(&p->pair, &plan->u.conv_conv, which, f)
                                         : ckci_find_in_norm(&p->norm, &plan->u.groupnorm, which, f);
}
