/*------------------------------------------------------------------------------------------------------------
  >>plan-calls
  One-call forms: plan, then run; and the specification by its own names. They keep nothing between calls, so
  that they need no plan of the caller's and cost planning each time. With a workspace that is too small for
  the best plan they take one that it holds; what a plan refuses, they return.
*/
#pragma once
#include "plan/select.h"

/* The limit of workspace that a call's own workspace sets: its bytes, or none at all (-1). */
CKCI_FN int64_t ckci_allowed(const void *workspace, size_t bytes)
{
    return !workspace || bytes == 0                     ? -1
           : (uint64_t)bytes < (uint64_t)CKCI_MAX_BYTES ? (int64_t)bytes
                                                        : CKCI_MAX_BYTES;
}

/* Plans, then runs. A workspace that is too small for the best plan selects a plan that it holds; engine ref
   needs none. which: the description that the operation must have. */
CKCI_FN ckconv_status ckci_call(ckconv_engine engine, ckconv_op op, int32_t which, const void *desc,
                                const ckconv_args *args, void *workspace, size_t bytes, void *stream,
                                ckconv_error *err)
{
    ckconv_plan plan;
    ckconv_options o;
    memset(&o, 0, sizeof o);
    o.engine = engine;
    o.max_workspace = engine == CKCONV_ENGINE_REF ? 0 : ckci_allowed(workspace, bytes);
    CKCI_TRY(ckci_make_plan_of(&plan, op, which, desc, &o, NULL, err));
    return ckconv_run(&plan, args, workspace, bytes, stream, err);
}

/* One call of an operation by its own name. */
CKCI_FN ckconv_status ckci_call_op(ckconv_op op, const void *desc, const ckconv_args *args, void *workspace,
                                   size_t bytes, void *stream, ckconv_error *err)
{
    return ckci_call(CKCONV_ENGINE_AUTO, op, ckci_desc_of(op), desc, args, workspace, bytes, stream, err);
}

CKCONV_API ckconv_status ckconv_fwd(const ckconv_conv_desc *desc, const void *in, const void *wei, void *out,
                                    void *workspace, size_t workspace_bytes, void *stream, ckconv_error *err)
{
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.in = in;
    a.wei = wei;
    a.out = out;
    return ckci_call_op(CKCONV_FWD, desc, &a, workspace, workspace_bytes, stream, err);
}

CKCONV_API ckconv_status ckconv_bwd_data(const ckconv_conv_desc *desc, void *din, const void *wei,
                                         const void *dout, void *workspace, size_t workspace_bytes,
                                         void *stream, ckconv_error *err)
{
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.din = din;
    a.wei = wei;
    a.dout = dout;
    return ckci_call_op(CKCONV_BWD_DATA, desc, &a, workspace, workspace_bytes, stream, err);
}

CKCONV_API ckconv_status ckconv_bwd_weight(const ckconv_conv_desc *desc, const void *in, void *dwei,
                                           const void *dout, void *workspace, size_t workspace_bytes,
                                           void *stream, ckconv_error *err)
{
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.in = in;
    a.dwei = dwei;
    a.dout = dout;
    return ckci_call_op(CKCONV_BWD_WEIGHT, desc, &a, workspace, workspace_bytes, stream, err);
}

CKCONV_API ckconv_status ckconv_bwd_bias(const ckconv_conv_desc *desc, const void *dout, void *dbias,
                                         void *workspace, size_t workspace_bytes, void *stream,
                                         ckconv_error *err)
{
    ckconv_args a;
    ckconv_conv_desc d;
    memset(&a, 0, sizeof a);
    a.dout = dout;
    a.dbias = dbias;
    if (desc && desc->dbias == 0) {
        d = *desc;
        d.dbias = d.in.dtype == CKCONV_F64 ? CKCONV_F64 : d.in.dtype == CKCONV_I8 ? CKCONV_I32 : CKCONV_F32;
        desc = &d;
    }
    return ckci_call_op(CKCONV_BWD_WEIGHT, desc, &a, workspace, workspace_bytes, stream, err);
}

CKCONV_API ckconv_status ckconv_conv_conv_fwd(const ckconv_conv_conv_desc *desc, const void *in,
                                              const void *wei0, const void *wei1, void *out, void *workspace,
                                              size_t workspace_bytes, void *stream, ckconv_error *err)
{
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.in = in;
    a.wei = wei0;
    a.wei1 = wei1;
    a.out = out;
    return ckci_call_op(CKCONV_CONV_CONV_FWD, desc, &a, workspace, workspace_bytes, stream, err);
}

CKCONV_API ckconv_status ckconv_groupnorm_fwd(const ckconv_groupnorm_desc *desc, const void *in,
                                              const void *gamma, const void *beta, void *out, void *mean,
                                              void *inv_std, void *workspace, size_t workspace_bytes,
                                              void *stream, ckconv_error *err)
{
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.in = in;
    a.gamma = gamma;
    a.beta = beta;
    a.out = out;
    a.mean = mean;
    a.inv_std = inv_std;
    return ckci_call_op(CKCONV_GROUPNORM_FWD, desc, &a, workspace, workspace_bytes, stream, err);
}

CKCONV_API ckconv_status ckconv_groupnorm_bwd(const ckconv_groupnorm_desc *desc, const void *in,
                                              const void *gamma, const void *beta, const void *dout,
                                              const void *mean, const void *inv_std, void *din, void *dgamma,
                                              void *dbeta, void *workspace, size_t workspace_bytes,
                                              void *stream, ckconv_error *err)
{
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.in = in;
    a.gamma = gamma;
    a.beta = beta;
    a.dout = dout;
    a.saved_mean = mean;
    a.saved_inv_std = inv_std;
    a.din = din;
    a.dgamma = dgamma;
    a.dbeta = dbeta;
    return ckci_call_op(CKCONV_GROUPNORM_BWD, desc, &a, workspace, workspace_bytes, stream, err);
}

CKCONV_API ckconv_status ckconv_ref_conv(ckconv_op op, const ckconv_conv_desc *desc, const ckconv_args *args,
                                         ckconv_error *err)
{
    return ckci_call(CKCONV_ENGINE_REF, op, CKCI_DESC_CONV, desc, args, NULL, 0, NULL, err);
}

CKCONV_API ckconv_status ckconv_ref_conv_conv(const ckconv_conv_conv_desc *desc, const ckconv_args *args,
                                              ckconv_error *err)
{
    return ckci_call(CKCONV_ENGINE_REF, CKCONV_CONV_CONV_FWD, CKCI_DESC_CONV_CONV, desc, args, NULL, 0, NULL,
                     err);
}

CKCONV_API ckconv_status ckconv_ref_groupnorm(ckconv_op op, const ckconv_groupnorm_desc *desc,
                                              const ckconv_args *args, ckconv_error *err)
{
    return ckci_call(CKCONV_ENGINE_REF, op, CKCI_DESC_GROUPNORM, desc, args, NULL, 0, NULL, err);
}
