/*------------------------------------------------------------------------------------------------------------
  >>plan-calls
  One-call forms: plan, then run; and the specification by its own names. They keep nothing between calls, so
  that they need no plan of the caller's and cost planning each time. With a workspace that is too small for
  the best plan they take one that it holds; what a plan refuses, they return.
*/
#pragma once
#include "core/base.h"
#include "core/math.h"

/* One call. A workspace that is too small for the best plan selects one that it holds. */
CKCI_FN ckconv_options ckci_one_call(const void *workspace, size_t bytes)
{
    ckconv_options o;
    memset(&o, 0, sizeof o);
    o.max_workspace = !workspace || bytes == 0                     ? -1
                      : (uint64_t)bytes < (uint64_t)CKCI_MAX_BYTES ? (int64_t)bytes
                                                                   : CKCI_MAX_BYTES;
    return o;
}

CKCI_FN ckconv_status ckci_call_conv(ckconv_op op, const ckconv_conv_desc *desc, const ckconv_args *args,
                                     void *workspace, size_t bytes, void *stream, ckconv_error *err)
{
    ckconv_plan plan;
    ckconv_options o = ckci_one_call(workspace, bytes);
    CKCI_TRY(ckconv_plan_conv(&plan, op, desc, &o, NULL, err));
    return ckconv_run(&plan, args, workspace, bytes, stream, err);
}

CKCONV_API ckconv_status ckconv_fwd(const ckconv_conv_desc *desc, const void *in, const void *wei, void *out,
                                    void *workspace, size_t workspace_bytes, void *stream, ckconv_error *err)
{
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.in = in;
    a.wei = wei;
    a.out = out;
    return ckci_call_conv(CKCONV_FWD, desc, &a, workspace, workspace_bytes, stream, err);
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
    return ckci_call_conv(CKCONV_BWD_DATA, desc, &a, workspace, workspace_bytes, stream, err);
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
    return ckci_call_conv(CKCONV_BWD_WEIGHT, desc, &a, workspace, workspace_bytes, stream, err);
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
    return ckci_call_conv(CKCONV_BWD_WEIGHT, desc, &a, workspace, workspace_bytes, stream, err);
}

CKCONV_API ckconv_status ckconv_conv_conv_fwd(const ckconv_conv_conv_desc *desc, const void *in,
                                              const void *wei0, const void *wei1, void *out, void *workspace,
                                              size_t workspace_bytes, void *stream, ckconv_error *err)
{
    ckconv_plan plan;
    ckconv_args a;
    ckconv_options o = ckci_one_call(workspace, workspace_bytes);
    memset(&a, 0, sizeof a);
    a.in = in;
    a.wei = wei0;
    a.wei1 = wei1;
    a.out = out;
    CKCI_TRY(ckconv_plan_conv_conv(&plan, desc, &o, NULL, err));
    return ckconv_run(&plan, &a, workspace, workspace_bytes, stream, err);
}

CKCI_FN ckconv_status ckci_call_norm(ckconv_op op, const ckconv_groupnorm_desc *desc, const ckconv_args *args,
                                     void *workspace, size_t bytes, void *stream, ckconv_error *err)
{
    ckconv_plan plan;
    ckconv_options o = ckci_one_call(workspace, bytes);
    CKCI_TRY(ckconv_plan_groupnorm(&plan, op, desc, &o, NULL, err));
    return ckconv_run(&plan, args, workspace, bytes, stream, err);
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
    return ckci_call_norm(CKCONV_GROUPNORM_FWD, desc, &a, workspace, workspace_bytes, stream, err);
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
    return ckci_call_norm(CKCONV_GROUPNORM_BWD, desc, &a, workspace, workspace_bytes, stream, err);
}

CKCI_FN ckconv_options ckci_ref_options(void)
{
    ckconv_options o;
    memset(&o, 0, sizeof o);
    o.engine = CKCONV_ENGINE_REF;
    return o;
}

CKCONV_API ckconv_status ckconv_ref_conv(ckconv_op op, const ckconv_conv_desc *desc, const ckconv_args *args,
                                         ckconv_error *err)
{
    ckconv_plan plan;
    ckconv_options o = ckci_ref_options();
    CKCI_TRY(ckconv_plan_conv(&plan, op, desc, &o, NULL, err));
    return ckconv_run(&plan, args, NULL, 0, NULL, err);
}

CKCONV_API ckconv_status ckconv_ref_conv_conv(const ckconv_conv_conv_desc *desc, const ckconv_args *args,
                                              ckconv_error *err)
{
    ckconv_plan plan;
    ckconv_options o = ckci_ref_options();
    CKCI_TRY(ckconv_plan_conv_conv(&plan, desc, &o, NULL, err));
    return ckconv_run(&plan, args, NULL, 0, NULL, err);
}

CKCONV_API ckconv_status ckconv_ref_groupnorm(ckconv_op op, const ckconv_groupnorm_desc *desc,
                                              const ckconv_args *args, ckconv_error *err)
{
    ckconv_plan plan;
    ckconv_options o = ckci_ref_options();
    CKCI_TRY(ckconv_plan_groupnorm(&plan, op, desc, &o, NULL, err));
    return ckconv_run(&plan, args, NULL, 0, NULL, err);
}
