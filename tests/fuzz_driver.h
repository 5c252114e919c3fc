/* fuzz_driver.h - from bytes to a description, a plan and a run, for test_fuzz.c and fuzz_desc.c
   SPDX-License-Identifier: MIT

   The first byte picks a mode. "Small" problems look valid and mostly are; "wild" ones take any value
   anywhere. Both are planned for made-up devices and options. What plans and is small runs with ref and
   with the planned instance on guarded, poisoned memory: on small integers all convolutions must agree
   bit for bit, group norms within a bound. What does not plan must say why. fuzz_one returns 0, or 1
   after it has put the complaint into fuzz.text. */
#ifndef CKCONV_FUZZ_DRIVER_H
#define CKCONV_FUZZ_DRIVER_H

#include "problem.h"

typedef struct fuzz_state {
    char text[700];
    long planned, ran, refused; /* what the inputs so far came to */
} fuzz_state;

static fuzz_state fuzz;

/* What may be run: larger problems are only planned. */
enum { FUZZ_MAX_FLOP = 2000000, FUZZ_MAX_BYTES = 300000 };

TEST_PRINTF(1, 2)
static inline int complain(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(fuzz.text, sizeof fuzz.text, format, list);
    va_end(list);
    return 1;
}

/*------------------------------------------------------------------------------------------------------------
  choices from bytes; past the end all choices are 0
*/
typedef struct bytes {
    const uint8_t *at;
    size_t left;
} bytes;

static inline uint32_t take(bytes *b)
{
    if (b->left == 0) {
        return 0;
    }
    b->left--;
    return *b->at++;
}

/* 0 .. count-1 */
static inline int32_t pick(bytes *b, int32_t count)
{
    return (int32_t)(take(b) % (uint32_t)count);
}

/* 1 in `count` */
static inline int rarely(bytes *b, int32_t count)
{
    return pick(b, count) == count - 1;
}

static inline int64_t any_int64(bytes *b)
{
    static const int64_t special[] = {0,
                                      1,
                                      -1,
                                      2,
                                      3,
                                      INT64_MAX,
                                      INT64_MIN,
                                      INT32_MAX,
                                      INT32_MIN,
                                      (int64_t)1 << 31,
                                      ((int64_t)1 << 31) + 1,
                                      (int64_t)1 << 32,
                                      ((int64_t)1 << 62) - 1,
                                      (int64_t)1 << 62,
                                      ((int64_t)1 << 62) + 1,
                                      (int64_t)1 << 40,
                                      (int64_t)1 << 61,
                                      -((int64_t)1 << 62),
                                      1000000007,
                                      65536};
    const int32_t which = pick(b, 26);
    if (which < (int32_t)(sizeof special / sizeof special[0])) {
        return special[which];
    }
    uint64_t value = 0;
    const int32_t length = 1 + pick(b, 8);
    for (int32_t i = 0; i < length; i++) {
        value = value << 8 | take(b);
    }
    return (int64_t)value;
}

static inline int32_t any_int32(bytes *b)
{
    return (int32_t)(uint32_t)(uint64_t)any_int64(b);
}

static inline double any_double(bytes *b)
{
    static const double special[] = {0.0,   -0.0,   1.0,         -1.0,     0.5,      1e-5,
                                     1e300, -1e300, (double)NAN, HUGE_VAL, -HUGE_VAL};
    return special[pick(b, (int32_t)(sizeof special / sizeof special[0]))];
}

/*------------------------------------------------------------------------------------------------------------
  small problems
*/
static inline ckconv_layout small_layout(bytes *b, int weight)
{
    return weight ? (ckconv_layout)(pick(b, 3) == 0 ? 0 : CKCONV_GKYXC + pick(b, 2))
                  : (ckconv_layout)pick(b, 4);
}

/* Nesting strides with gaps, in a random order of axes; extent: an upper bound of every length. */
static inline void small_strides(bytes *b, ckconv_tensor *t, int32_t ndim, const int64_t *length)
{
    int order[6] = {0, 1, 2, 3, 4, 5};
    const int rank = 3 + (int)ndim;
    for (int i = rank - 1; i > 0; i--) {
        const int j = pick(b, i + 1);
        const int swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    int64_t next = 1 + pick(b, 2);
    t->layout = CKCONV_STRIDED;
    for (int i = rank - 1; i >= 0; i--) {
        t->stride[order[i]] = next;
        next = next * (length[order[i]] > 0 ? length[order[i]] : 1) + pick(b, 4);
    }
}

/* Operations that keep small integers exact in every type. */
static inline void small_element(bytes *b, ckconv_element_op *op)
{
    static const ckconv_element kinds[] = {CKCONV_PASS,  CKCONV_PASS, CKCONV_PASS,
                                           CKCONV_SCALE, CKCONV_RELU, CKCONV_CLAMP};
    static const double scales[] = {1.0, -1.0, 0.5, 2.0, 0.0};
    op->kind = kinds[pick(b, 6)];
    if (op->kind == CKCONV_SCALE) {
        op->alpha = scales[pick(b, 5)];
    } else if (op->kind == CKCONV_CLAMP) {
        op->alpha = (double)(-pick(b, 3));
        op->beta = (double)pick(b, 3);
    }
}

static inline void small_epilogue(bytes *b, ckconv_element_op *op, int32_t *num_d, ckconv_tensor *d,
                                  int weight)
{
    static const ckconv_dtype dtypes[] = {0, 0, CKCONV_F32, CKCONV_F16, CKCONV_BF16, CKCONV_F64, CKCONV_I8};
    if (pick(b, 2) == 0) {
        small_element(b, op);
        return;
    }
    op->kind = test_elements[TEST_UNARY + pick(b, TEST_WITH_D - TEST_UNARY)].kind;
    op->alpha = (double)(pick(b, 5) - 2);
    op->beta = (double)(pick(b, 5) - 2);
    test_trim_element(op);
    const test_element *e = test_find_element(op->kind);
    *num_d = e->low + (e->high > e->low ? pick(b, e->high - e->low + 1) : 0);
    op->beta = op->kind == CKCONV_CLAMP_BWD && op->beta < op->alpha ? op->alpha : op->beta;
    for (int32_t i = 0; i < *num_d; i++) {
        d[i].dtype = dtypes[pick(b, 7)];
        const int32_t form = pick(b, 5);
        if (form == 1) {
            d[i].layout = weight ? (ckconv_layout)CKCONV_GKCYX : (ckconv_layout)CKCONV_CHANNEL;
        } else if (form == 2) {
            d[i].layout = small_layout(b, weight);
        } else if (form == 3) { /* broadcast along some axes */
            d[i].layout = CKCONV_STRIDED;
            for (int j = 0; j < 3; j++) {
                d[i].stride[j] = pick(b, 3);
            }
        }
    }
}

/* A row of the type table. */
static inline void small_types(bytes *b, ckconv_conv_desc *d, ckconv_op op)
{
    static const ckconv_dtype computes[] = {0, 0, CKCONV_TF32, CKCONV_BF16, CKCONV_BF16X3};
    static const ckconv_dtype outs[] = {0, CKCONV_F16, CKCONV_BF16, CKCONV_F32, CKCONV_F8E5M2};
    const int32_t row = pick(b, 9);
    if (row < 2) {
        d->in.dtype = row == 0 ? (ckconv_dtype)CKCONV_F32 : 0;
        d->compute_in = d->compute_wei = d->compute_out = computes[pick(b, 5)];
    } else if (row == 2) {
        d->in.dtype = CKCONV_F64;
    } else if (row == 3) {
        d->in.dtype = CKCONV_F16;
        if (pick(b, 2) != 0) {
            d->compute_in = CKCONV_F8E4M3 + pick(b, 4);
            d->compute_wei = CKCONV_F8E4M3 + pick(b, 4);
            d->compute_out = CKCONV_F8E4M3 + pick(b, 4);
        }
    } else if (row == 4 || row == 5) {
        d->in.dtype = CKCONV_BF16;
        d->wei.dtype = row == 5 ? (ckconv_dtype)CKCONV_F32 : 0;
    } else if (row == 6) {
        d->in.dtype = CKCONV_F8E4M3 + pick(b, 4);
        d->wei.dtype = CKCONV_F8E4M3 + pick(b, 4);
        d->out.dtype = outs[pick(b, 5)];
    } else {
        d->in.dtype = d->wei.dtype = d->out.dtype = CKCONV_I8;
        if (row == 8) {
            *(op == CKCONV_BWD_DATA     ? &d->in.dtype
              : op == CKCONV_BWD_WEIGHT ? &d->wei.dtype
                                        : &d->out.dtype) = CKCONV_I32;
        }
    }
}

static inline int64_t small_size(bytes *b)
{
    static const int64_t sizes[] = {1, 2, 3, 1, 4, 5, 7, 8, 9, 12, 16, 17, 24, 33};
    return sizes[pick(b, 14)];
}

static inline void small_conv(bytes *b, ckconv_conv_desc *d, ckconv_op op)
{
    d->ndim = 1 + pick(b, 3);
    d->g = pick(b, 3) == 0 ? small_size(b) : pick(b, 3);
    d->n = rarely(b, 16) ? 0 : 1 + pick(b, 4);
    d->k = pick(b, 3) == 0 ? 1 : small_size(b);
    d->c = pick(b, 3) == 0 ? 1 : small_size(b);
    for (int32_t i = 0; i < d->ndim; i++) {
        d->filter[i] = 1 + pick(b, d->ndim == 1 ? 7 : 4);
        d->input[i] = 1 + pick(b, d->ndim == 1 ? 40 : d->ndim == 2 ? 13 : 7);
        d->stride[i] = pick(b, 5);
        d->dilation[i] = pick(b, 4);
        d->pad_lo[i] = pick(b, 4) == 0 ? pick(b, 9) : pick(b, 3);
        d->pad_hi[i] = pick(b, 4) == 0 ? pick(b, 9) : pick(b, 3);
    }
    small_types(b, d, op);
    d->in.layout = small_layout(b, 0);
    d->wei.layout = small_layout(b, 1);
    d->out.layout = small_layout(b, 0);
    const int64_t g = d->g == 0 ? 1 : d->g;
    int64_t in[6] = {g, d->n, d->c, 0, 0, 0}, wei[6] = {g, d->k, d->c, 0, 0, 0},
            out[6] = {g, d->n, d->k, 0, 0, 0};
    for (int32_t i = 0; i < d->ndim; i++) {
        const int64_t stride = d->stride[i] == 0 ? 1 : d->stride[i],
                      dilation = d->dilation[i] == 0 ? 1 : d->dilation[i];
        const int64_t room = d->input[i] + d->pad_lo[i] + d->pad_hi[i] - (d->filter[i] - 1) * dilation - 1;
        in[3 + i] = d->input[i];
        wei[3 + i] = d->filter[i];
        out[3 + i] = room < 0 ? 1 : room / stride + 1;
    }
    const int32_t strided = pick(b, 12);
    if (strided == 0 || strided == 3) {
        small_strides(b, &d->in, d->ndim, in);
    }
    if (strided == 1 || strided == 3) {
        small_strides(b, &d->wei, d->ndim, wei);
    }
    if (strided == 2 || strided == 3) {
        small_strides(b, &d->out, d->ndim, out);
    }
}

static inline void small_problem(bytes *b, problem *p)
{
    if (is_norm(p->op)) {
        static const ckconv_dtype dtypes[] = {0, CKCONV_F32, CKCONV_F16, CKCONV_BF16, CKCONV_F64};
        static const ckconv_element acts[] = {CKCONV_PASS, CKCONV_SILU, CKCONV_SIGMOID, CKCONV_GELU,
                                              CKCONV_RELU};
        ckconv_groupnorm_desc *d = &p->u.norm;
        d->ndim = 1 + pick(b, 3);
        d->g = pick(b, 5);
        d->n = rarely(b, 16) ? 0 : 1 + pick(b, 4);
        d->c = small_size(b);
        d->eps = pick(b, 2) == 0 ? 1e-5 : 0.25;
        for (int i = 0; i < d->ndim; i++) {
            d->input[i] = 1 + pick(b, d->ndim == 1 ? 40 : 9);
        }
        d->in.dtype = dtypes[pick(b, 5)];
        d->param_dtype = d->in.dtype == CKCONV_F64 ? 0 : dtypes[pick(b, 4)];
        d->in.layout = small_layout(b, 0);
        d->out.layout = small_layout(b, 0);
        d->din.layout = small_layout(b, 0);
        /* relu's gradient jumps where rounding decides */
        d->act = acts[pick(b, p->op == CKCONV_GROUPNORM_BWD ? 4 : 5)];
        d->param_per_image = pick(b, 2);
        return;
    }
    if (p->op == CKCONV_CONV_CONV_FWD) {
        ckconv_conv_conv_desc *d = &p->u.pair;
        small_conv(b, &d->conv0, CKCONV_FWD);
        const ckconv_dtype out = d->conv0.out.dtype;
        d->conv0.out.dtype = 0;
        small_element(b, &d->conv0.op_in);
        small_element(b, &d->conv0.op_wei);
        small_element(b, &d->conv0.op_out);
        const int64_t channels = (d->conv0.g == 0 ? 1 : d->conv0.g) * d->conv0.k;
        d->g1 = pick(b, 3);
        if (d->g1 > 0 && channels % d->g1 != 0) {
            d->g1 = channels;
        }
        d->k1 = small_size(b);
        if (rarely(b, 3)) {
            for (int i = 0; i < d->conv0.ndim; i++) {
                d->filter1[i] = 1 + pick(b, 3);
                d->stride1[i] = pick(b, 3);
                d->dilation1[i] = pick(b, 3);
                d->pad_lo1[i] = pick(b, 3);
                d->pad_hi1[i] = pick(b, 3);
            }
        }
        d->wei1.layout = small_layout(b, 1);
        d->out.layout = small_layout(b, 0);
        d->out.dtype = out;
        d->compute_wei1 = d->conv0.compute_wei;
        small_element(b, &d->op_wei1);
        small_epilogue(b, &d->op_out, &d->num_d, d->d, 0);
        return;
    }
    ckconv_conv_desc *d = &p->u.conv;
    small_conv(b, d, p->op);
    ckconv_element_op *op[3] = {&d->op_in, &d->op_wei, &d->op_out};
    const int written = p->op == CKCONV_BWD_DATA ? 0 : p->op == CKCONV_BWD_WEIGHT ? 1 : 2;
    for (int i = 0; i < 3; i++) {
        if (i == written) {
            small_epilogue(b, op[i], &d->num_d, d->d, written == 1);
        } else {
            small_element(b, op[i]);
        }
    }
}

/* Pads, strides and dilations of up to 2^61 along one axis whose tensors stay small: legal, and far from
   any number that a loop may count to or multiply carelessly. */
static inline void huge_steps(bytes *b, ckconv_conv_desc *d)
{
    const int32_t axis = pick(b, d->ndim);
    const int64_t large = (any_int64(b) & (((int64_t)1 << 61) - 1)) | 1;
    const int32_t form = pick(b, 4);
    ckconv_tensor *tensors[3] = {&d->in, &d->wei, &d->out};
    for (int i = 0; i < 3; i++) {
        if (tensors[i]->layout == CKCONV_STRIDED) { /* of other lengths */
            memset(tensors[i]->stride, 0, sizeof tensors[i]->stride);
            tensors[i]->layout = 0;
        }
    }
    d->filter[axis] = 1 + pick(b, 2);
    d->input[axis] = 1 + pick(b, 3);
    d->stride[axis] = pick(b, 3);
    d->dilation[axis] = pick(b, 3);
    d->pad_lo[axis] = d->pad_hi[axis] = 0;
    if (form == 0) { /* one tap: its dilation means nothing */
        d->filter[axis] = 1;
        d->dilation[axis] = large;
    } else if (form == 1) { /* one output: the stride means nothing */
        d->filter[axis] = d->input[axis];
        d->dilation[axis] = 1;
        d->stride[axis] = large;
    } else {
        d->pad_lo[axis] = form == 2 ? large : pick(b, 3);
        d->pad_hi[axis] = form == 3 ? large : pick(b, 3);
        d->stride[axis] = large / (1 + pick(b, 3)) - pick(b, 2);
        d->dilation[axis] = d->filter[axis] == 1 || pick(b, 2) == 0 ? 1 + pick(b, 3) : large - pick(b, 3);
    }
}

/*------------------------------------------------------------------------------------------------------------
  wild ones: a small problem with some words replaced by anything, or nothing but noise
*/
static inline void wild_problem(bytes *b, problem *p)
{
    const size_t size = p->op == CKCONV_CONV_CONV_FWD ? sizeof p->u.pair
                        : is_norm(p->op)              ? sizeof p->u.norm
                                                      : sizeof p->u.conv;
    unsigned char *raw = (unsigned char *)&p->u;
    if (rarely(b, 20)) {
        for (size_t i = 0; i < size; i++) {
            raw[i] = (unsigned char)take(b);
        }
        return;
    }
    small_problem(b, p);
    if (!is_norm(p->op) && pick(b, 3) == 0) {
        huge_steps(b, p->op == CKCONV_CONV_CONV_FWD ? &p->u.pair.conv0 : &p->u.conv);
        return;
    }
    const int32_t changes = 1 + pick(b, 6);
    for (int32_t i = 0; i < changes; i++) {
        const size_t word = ((size_t)take(b) << 8 | take(b)) % (size / 4);
        if (word % 2 == 0 && pick(b, 3) != 0) {
            const int64_t value = any_int64(b);
            memcpy(raw + word * 4, &value, 8);
        } else if (word % 2 == 0 && rarely(b, 8)) {
            const double value = any_double(b);
            memcpy(raw + word * 4, &value, 8);
        } else {
            const int32_t value = pick(b, 3) == 0 ? any_int32(b) : pick(b, 24) - 1;
            memcpy(raw + word * 4, &value, 4);
        }
    }
}

static inline void fuzz_device(bytes *b, ckconv_device *d, int wild)
{
    ckconv_device_cpu(d);
    d->threads = pick(b, 8) == 0 ? 3 : 1; /* waking threads takes longer than most of these runs */
    if (pick(b, 2) == 0) {
        d->features &= pick(b, 4);
    }
    if (wild && rarely(b, 8)) {
        static const char *const names[] = {"gfx942", "sm_90", "gfx1100", "cpu"};
        (void)ckconv_device_named(names[pick(b, 4)], d, NULL);
    }
    if (wild && rarely(b, 12)) {
        unsigned char *raw = (unsigned char *)d;
        const int32_t value = any_int32(b);
        memcpy(raw + 4 * (take(b) % (sizeof *d / 4)), &value, 4);
    }
}

static inline void fuzz_options(bytes *b, ckconv_options *o, int wild)
{
    static const char *const names[] = {"ref",     "single_stage", "two_stage", "direct", "fused",
                                        "unfused", "groupnorm",    "vector",    "mfma",   "nonsense"};
    memset(o, 0, sizeof *o);
    if (pick(b, 2) == 0) {
        return;
    }
    if (pick(b, 4) == 0) {
        o->instance = pick(b, 2) == 0 ? names[pick(b, 10)] : ckconv_instance_name(pick(b, 64));
    }
    o->max_workspace = pick(b, 3) == 0 ? (int64_t)take(b) * 100 - 1 : 0;
    o->split_k = pick(b, 3) == 0 ? pick(b, 9) : 0;
    o->threads = pick(b, 4) == 0 ? pick(b, 4) : 0;
    if (wild && rarely(b, 8)) {
        o->engine = any_int32(b);
        o->reserved[0] = any_int32(b);
        o->max_workspace = any_int64(b);
        o->split_k = any_int32(b);
        o->threads = any_int32(b);
    }
}

/*------------------------------------------------------------------------------------------------------------
  running
*/
enum { FUZZ_TENSORS = 24 };

/* One argument of a run. */
typedef struct fuzz_tensor {
    size_t member; /* in ckconv_args */
    int32_t which; /* CKCONV_TENSOR_... */
    int written;
    ckconv_tensor_info info;
    test_tensor mine;
    double *values; /* of a read one */
} fuzz_tensor;

typedef struct fuzz_run {
    int count;
    fuzz_tensor t[FUZZ_TENSORS];
} fuzz_run;

static inline void fuzz_add(fuzz_run *run, size_t member, int32_t which, int written)
{
    fuzz_tensor *t = &run->t[run->count++];
    memset(t, 0, sizeof *t);
    t->member = member;
    t->which = which;
    t->written = written;
}

#define FUZZ_ADD(member, which, written) fuzz_add(run, offsetof(ckconv_args, member), which, written)

/* The arguments of an operation; optional ones by chance. */
static inline void fuzz_list(bytes *b, const ckconv_plan *plan, fuzz_run *run)
{
    run->count = 0;
    const int32_t num_d = plan->op == CKCONV_CONV_CONV_FWD ? plan->u.conv_conv.num_d
                          : is_norm(plan->op)              ? 0
                                                           : plan->u.conv.num_d;
    switch (plan->op) {
    case CKCONV_FWD:
        FUZZ_ADD(in, CKCONV_TENSOR_IN, 0);
        FUZZ_ADD(wei, CKCONV_TENSOR_WEI, 0);
        FUZZ_ADD(out, CKCONV_TENSOR_OUT, 1);
        break;
    case CKCONV_BWD_DATA:
        FUZZ_ADD(dout, CKCONV_TENSOR_OUT, 0);
        FUZZ_ADD(wei, CKCONV_TENSOR_WEI, 0);
        FUZZ_ADD(din, CKCONV_TENSOR_IN, 1);
        break;
    case CKCONV_BWD_WEIGHT:
        FUZZ_ADD(in, CKCONV_TENSOR_IN, 0);
        FUZZ_ADD(dout, CKCONV_TENSOR_OUT, 0);
        FUZZ_ADD(dwei, CKCONV_TENSOR_WEI, 1);
        if (plan->u.conv.dbias != 0) {
            FUZZ_ADD(dbias, CKCONV_TENSOR_DBIAS, 1);
        }
        break;
    case CKCONV_CONV_CONV_FWD:
        FUZZ_ADD(in, CKCONV_TENSOR_IN, 0);
        FUZZ_ADD(wei, CKCONV_TENSOR_WEI, 0);
        FUZZ_ADD(wei1, CKCONV_TENSOR_WEI1, 0);
        FUZZ_ADD(out, CKCONV_TENSOR_OUT, 1);
        if (pick(b, 2) != 0) {
            FUZZ_ADD(mid, CKCONV_TENSOR_MID, 1);
        }
        if (pick(b, 2) != 0) {
            FUZZ_ADD(scale, CKCONV_TENSOR_CHANNEL, 0);
        }
        if (pick(b, 2) != 0) {
            FUZZ_ADD(shift, CKCONV_TENSOR_CHANNEL, 0);
        }
        break;
    default: {
        const int fwd = plan->op == CKCONV_GROUPNORM_FWD;
        FUZZ_ADD(in, CKCONV_TENSOR_IN, 0);
        if (pick(b, 4) != 0) {
            FUZZ_ADD(gamma, CKCONV_TENSOR_CHANNEL, 0);
        }
        if (pick(b, 4) != 0) {
            FUZZ_ADD(beta, CKCONV_TENSOR_CHANNEL, 0);
        }
        if (fwd) {
            FUZZ_ADD(out, CKCONV_TENSOR_OUT, 1);
            FUZZ_ADD(mean, CKCONV_TENSOR_STAT, 1);
            FUZZ_ADD(inv_std, CKCONV_TENSOR_STAT, 1);
        } else {
            FUZZ_ADD(dout, CKCONV_TENSOR_OUT, 0);
            FUZZ_ADD(dgamma, CKCONV_TENSOR_CHANNEL, 1);
            if (pick(b, 4) != 0) {
                FUZZ_ADD(din, CKCONV_TENSOR_DIN, 1);
            }
            if (pick(b, 4) != 0) {
                FUZZ_ADD(dbeta, CKCONV_TENSOR_CHANNEL, 1);
            }
        }
        break;
    }
    }
    for (int32_t i = 0; i < num_d; i++) {
        fuzz_add(run, offsetof(ckconv_args, d) + (size_t)i * sizeof(void *), CKCONV_TENSOR_D0 + i, 0);
    }
}

/* Memory for all arguments. 0: too large, or something is wrong (fuzz.text then says so). */
static inline int fuzz_make(bytes *b, const ckconv_plan *plan, fuzz_run *run, ckconv_args *args)
{
    int64_t total = 0;
    ckconv_error err;
    for (int i = 0; i < run->count; i++) {
        fuzz_tensor *t = &run->t[i];
        if (ckconv_plan_tensor(plan, t->which, &t->info, &err) != CKCONV_OK) {
            complain("plan_tensor %d: %s", (int)t->which, err.text);
            return 0;
        }
        if (t->info.bytes < 0 || t->info.bytes > FUZZ_MAX_BYTES || t->info.count > FUZZ_MAX_BYTES) {
            return 0;
        }
        total += t->info.bytes;
    }
    if (total > FUZZ_MAX_BYTES || plan->flop > FUZZ_MAX_FLOP || plan->workspace_bytes > 16 * FUZZ_MAX_BYTES) {
        return 0;
    }
    test_rng r = test_seed((uint64_t)take(b) << 8 | take(b));
    memset(args, 0, sizeof *args);
    for (int i = 0; i < run->count; i++) {
        fuzz_tensor *t = &run->t[i];
        test_tensor_make(&t->mine, t->info.dtype, t->info.rank, t->info.length, t->info.stride,
                         (size_t)pick(b, 9));
        if (t->info.bytes != (int64_t)t->mine.buffer.bytes) {
            complain("tensor %d: %lld bytes by plan_tensor, %zu by its strides", (int)t->which,
                     (long long)t->info.bytes, t->mine.buffer.bytes);
        }
        if (!t->written) {
            t->values = test_doubles(t->mine.count);
            for (int64_t j = 0; j < t->mine.count; j++) {
                t->values[j] = (double)test_range(&r, -2, 2);
            }
            test_scatter(&t->mine, t->values);
            test_gather(&t->mine, t->values); /* a broadcast tensor holds fewer values than it shows */
        }
        void *data = test_data(&t->mine);
        memcpy((unsigned char *)args + t->member, &data, sizeof data);
    }
    return fuzz.text[0] == 0;
}

static inline void fuzz_free(fuzz_run *run)
{
    for (int i = 0; i < run->count; i++) {
        free(run->t[i].values);
        test_tensor_free(&run->t[i].mine);
    }
}

/* Run a plan on poisoned outputs; results[i]: all elements of tensor i. Complains about gaps and guard
   bands. */
static inline int fuzz_execute(const ckconv_plan *plan, fuzz_run *run, const ckconv_args *args,
                               double **results, const char *who)
{
    test_buffer workspace;
    ckconv_error err;
    for (int i = 0; i < run->count; i++) {
        if (run->t[i].written) {
            test_poison(&run->t[i].mine);
        }
    }
    test_buffer_make(&workspace, (size_t)plan->workspace_bytes, 3);
    memset(workspace.data, 0xff, workspace.bytes);
    /* too little first, when there is something to refuse */
    if (plan->workspace_bytes > 0) {
        const ckconv_status status = ckconv_run(plan, args, workspace.data, workspace.bytes - 1, NULL, &err);
        if (status != CKCONV_ERR_WORKSPACE) {
            complain("%s: status %d with a byte too little workspace", who, (int)status);
        }
    }
    const ckconv_status status =
        ckconv_run(plan, args, workspace.bytes > 0 ? workspace.data : NULL, workspace.bytes, NULL, &err);
    if (status != CKCONV_OK) {
        complain("%s does not run its own plan: %d (%s)", who, (int)status, err.text);
    }
    if (!test_guards_intact(&workspace)) {
        complain("%s: wrote past its workspace", who);
    }
    test_buffer_free(&workspace);
    for (int i = 0; i < run->count && fuzz.text[0] == 0; i++) {
        fuzz_tensor *t = &run->t[i];
        if (!test_guards_intact(&t->mine.buffer)) {
            complain("%s: wrote beside tensor %d", who, (int)t->which);
        } else if (t->written) {
            test_gather(&t->mine, results[i]);
            if (!test_gaps_intact(&t->mine)) {
                complain("%s: wrote into the gaps of tensor %d", who, (int)t->which);
            }
        } else {
            double *now = test_doubles(t->mine.count);
            test_gather(&t->mine, now);
            if (memcmp(now, t->values, (size_t)t->mine.count * sizeof(double)) != 0) {
                complain("%s: changed the read tensor %d", who, (int)t->which);
            }
            free(now);
        }
    }
    return fuzz.text[0] == 0;
}

/* The largest allowed difference: none for convolutions; for group norms that of their type, of the
   largest value and of what cancels in dx. */
static inline double fuzz_bound(const ckconv_plan *plan, const fuzz_tensor *t, const double *want)
{
    if (!is_norm(plan->op)) {
        return 0.0;
    }
    double largest = 1.0 / sqrt(plan->u.groupnorm.eps);
    for (int64_t i = 0; i < t->mine.count; i++) {
        if (isfinite(want[i])) {
            largest = fmax(largest, fabs(want[i]));
        }
    }
    const ckconv_dtype dtype = t->info.dtype;
    const double part = dtype == CKCONV_F64   ? 1e-13
                        : dtype == CKCONV_F32 ? 4e-6
                        : dtype == CKCONV_F16 ? 2e-3
                                              : 1.6e-2;
    return largest * part;
}

/* Parameters such as small problems have: integers stay exact, and may be compared bit for bit. */
static inline int fuzz_exact(const ckconv_plan *plan)
{
    const ckconv_conv_conv_desc *pair = &plan->u.conv_conv;
    const ckconv_conv_desc *d = plan->op == CKCONV_CONV_CONV_FWD ? &pair->conv0 : &plan->u.conv;
    const ckconv_element_op *op[] = {&d->op_in, &d->op_wei, &d->op_out, &pair->op_wei1, &pair->op_out};
    for (int i = 0; i < (plan->op == CKCONV_CONV_CONV_FWD ? 5 : 3) && !is_norm(plan->op); i++) {
        const double two[2] = {op[i]->alpha * 2.0, op[i]->beta * 2.0};
        if (test_find_element(op[i]->kind)->smooth) {
            return 0;
        }
        if (!(fabs(two[0]) <= 4.0 && fabs(two[1]) <= 4.0 && two[0] == floor(two[0]) &&
              two[1] == floor(two[1]))) {
            return 0;
        }
    }
    return 1;
}

static inline int fuzz_compare(const ckconv_plan *plan, const fuzz_run *run, double **want, double **got)
{
    if (!fuzz_exact(plan)) {
        return 0;
    }
    for (int i = 0; i < run->count; i++) {
        const fuzz_tensor *t = &run->t[i];
        if (!t->written) {
            continue;
        }
        const double bound = fuzz_bound(plan, t, want[i]);
        for (int64_t j = 0; j < t->mine.count; j++) {
            const double a = want[i][j], g = got[i][j];
            if (!(a == g || fabs(a - g) <= bound || (isnan(a) && isnan(g)))) {
                return complain("%s, tensor %d, element %lld of %lld: %.17g, ref has %.17g",
                                ckconv_instance_name(plan->instance), (int)t->which, (long long)j,
                                (long long)t->mine.count, g, a);
            }
            if (isnan(a) && !isnan(g)) {
                return complain("ref left NaN at element %lld of tensor %d", (long long)j, (int)t->which);
            }
        }
    }
    return 0;
}

/* Run ref and the planned instance on the same arguments. */
static inline int fuzz_both(bytes *b, const ckconv_plan *plan)
{
    fuzz_run run;
    ckconv_args args;
    ckconv_error err;
    ckconv_options o;
    ckconv_plan ref;
    fuzz_list(b, plan, &run);
    double *want[FUZZ_TENSORS] = {NULL}, *got[FUZZ_TENSORS] = {NULL};
    if (fuzz_make(b, plan, &run, &args)) {
        memset(&o, 0, sizeof o);
        o.engine = CKCONV_ENGINE_REF;
        for (int i = 0; i < run.count; i++) {
            want[i] = test_doubles(run.t[i].mine.count);
            got[i] = test_doubles(run.t[i].mine.count);
        }
        if (ckconv_plan_again(&ref, plan, &o, &err) != CKCONV_OK) {
            complain("ref does not take what %s takes: %s", ckconv_instance_name(plan->instance), err.text);
        } else if (fuzz_execute(&ref, &run, &args, want, "ref") &&
                   fuzz_execute(plan, &run, &args, got, ckconv_instance_name(plan->instance))) {
            fuzz.ran++;
            if (!fuzz_compare(plan, &run, want, got) && pick(b, 4) == 0 &&
                fuzz_execute(plan, &run, &args, want, "the second run")) { /* the same bits every time */
                for (int i = 0; i < run.count; i++) {
                    if (memcmp(want[i], got[i], (size_t)run.t[i].mine.count * sizeof(double)) != 0) {
                        complain("%s: a second run gives other bits in tensor %d",
                                 ckconv_instance_name(plan->instance), (int)run.t[i].which);
                    }
                }
            }
        }
    }
    for (int i = 0; i < run.count; i++) {
        free(want[i]);
        free(got[i]);
    }
    fuzz_free(&run);
    return fuzz.text[0] != 0;
}

/*------------------------------------------------------------------------------------------------------------
  one input
*/
static inline int printable(const char *text)
{
    for (; *text != 0; text++) {
        if (*text < ' ' || *text > '~') {
            return 0;
        }
    }
    return 1;
}

static inline int fuzz_plan(bytes *b, const problem *p, const ckconv_options *o, const ckconv_device *d)
{
    ckconv_plan plan;
    ckconv_error err;
    char text[1200];
    memset(&plan, 0x55, sizeof plan);
    memset(&err, 0x55, sizeof err);
    const ckconv_status status = plan_problem(&plan, p, o, d, &err);
    if (status != CKCONV_OK) {
        fuzz.refused++;
        if (!error_whole(&err, status) || !printable(err.text) || status < 0 || status > CKCONV_ERR_ALIAS) {
            return complain("status %d with a bad text \"%.252s\"", (int)status, err.text);
        }
        return plan.magic == 0 ? 0 : complain("refused, but the plan has a magic number");
    }
    fuzz.planned++;
    if (err.status != CKCONV_OK || err.text[0] != 0) {
        return complain("planned, but the error says %d \"%.252s\"", (int)err.status, err.text);
    }
    const size_t length = ckconv_plan_describe(&plan, text, sizeof text);
    if (length < 20 || length >= sizeof text || strlen(text) != length || !printable(text)) {
        return complain("a description of %zu characters: \"%.300s\"", length, text);
    }
    if (plan.workspace_bytes < 0 || plan.flop < 0 || plan.bytes < 0 || plan.split_k < 1) {
        return complain("workspace %lld, flop %lld, bytes %lld, split_k %d", (long long)plan.workspace_bytes,
                        (long long)plan.flop, (long long)plan.bytes, (int)plan.split_k);
    }
    if (o->max_workspace != 0 && plan.workspace_bytes > (o->max_workspace < 0 ? 0 : o->max_workspace)) {
        return complain("%lld bytes of workspace, %lld allowed", (long long)plan.workspace_bytes,
                        (long long)o->max_workspace);
    }
    ckconv_device own;
    ckconv_device_cpu(&own);
    if (plan.engine == CKCONV_ENGINE_GPU || (plan.device.features & ~own.features) != 0) {
        return 0; /* another machine's */
    }
    const int failed = fuzz_both(b, &plan);
    if (failed) {
        test.plan = NULL;
        test_print_plan(&plan);
    }
    return failed;
}

static inline int fuzz_one(const uint8_t *data, size_t size)
{
    bytes b = {data, size};
    problem p;
    ckconv_device d;
    ckconv_options o;
    fuzz.text[0] = 0;
    memset(&p, 0, sizeof p);
    const int wild = pick(&b, 2);
    p.op = CKCONV_FWD + pick(&b, 6);
    fuzz_device(&b, &d, wild);
    fuzz_options(&b, &o, wild);
    if (wild) {
        wild_problem(&b, &p);
    } else {
        small_problem(&b, &p);
    }
    return fuzz_plan(&b, &p, &o, &d);
}

#endif /* CKCONV_FUZZ_DRIVER_H */
