/* test_check.c - bad input: every field of every description, every pointer, workspace, aliases, foreign
   plans
   SPDX-License-Identifier: MIT

   A refusal must have the right status, a text that names the field, the value and what is allowed, and
   leave every byte of every output as it was. */
#define _POSIX_C_SOURCE 200809L
#include "problem.h"

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_I32 ((int64_t)INT32_MAX)
#define MIN_I32 ((int64_t)INT32_MIN)

/*------------------------------------------------------------------------------------------------------------
  memory of a run: all tensors lie in one arena, so that one comparison shows whether anything was written
*/
enum { SLOT = 4096, SLOTS = 24 }; /* 22 of them used, and one left free at each end */

static double arena_memory[SLOT * SLOTS / 8], arena_copy[SLOT * SLOTS / 8];
#define ARENA ((unsigned char *)arena_memory)

static void *slot(int i)
{
    return ARENA + (size_t)(i + 1) * SLOT;
}

/* Bytes that are small numbers in f32 and every other type: 0x3f3f3f3f is 0.747. */
static void arena_fill(void)
{
    memset(arena_memory, 0x3f, sizeof arena_memory);
    memcpy(arena_copy, arena_memory, sizeof arena_memory);
}

static int arena_untouched(void)
{
    return memcmp(arena_copy, arena_memory, sizeof arena_memory) == 0;
}

/* Every member of ckconv_args points to a slot of its own. */
static void args_fill(ckconv_args *a)
{
    memset(a, 0, sizeof *a);
    a->in = slot(0);
    a->wei = slot(1);
    a->dout = slot(2);
    for (int i = 0; i < 4; i++) {
        a->d[i] = slot(3 + i);
    }
    a->wei1 = slot(7);
    a->scale = slot(8);
    a->shift = slot(9);
    a->gamma = slot(10);
    a->beta = slot(11);
    a->saved_mean = slot(12);
    a->saved_inv_std = slot(13);
    a->out = slot(14);
    a->din = slot(15);
    a->dwei = slot(16);
    a->mid = slot(17);
    a->mean = slot(18);
    a->inv_std = slot(19);
    a->dgamma = slot(20);
    a->dbeta = slot(21);
}

/*------------------------------------------------------------------------------------------------------------
  valid problems
*/
static void small_conv(ckconv_conv_desc *d, int32_t ndim)
{
    d->ndim = ndim;
    d->g = 2;
    d->n = 2;
    d->k = 3;
    d->c = 3;
    for (int i = 0; i < ndim; i++) {
        d->filter[i] = 2;
        d->input[i] = 3;
        d->pad_lo[i] = 1;
    }
}

/* The epilogue's place: the operation of the written tensor. */
static ckconv_element_op *epilogue_of(problem *p)
{
    return p->op == CKCONV_FWD             ? &p->u.conv.op_out
           : p->op == CKCONV_BWD_DATA      ? &p->u.conv.op_in
           : p->op == CKCONV_CONV_CONV_FWD ? &p->u.pair.op_out
                                           : &p->u.conv.op_wei;
}

static problem make_problem(ckconv_op op, int32_t ndim)
{
    problem p;
    memset(&p, 0, sizeof p);
    p.op = op;
    if (op == CKCONV_CONV_CONV_FWD) {
        small_conv(&p.u.pair.conv0, ndim);
        p.u.pair.g1 = 2;
        p.u.pair.k1 = 3;
    } else if (is_norm(op)) {
        p.u.norm.ndim = ndim;
        p.u.norm.g = 2;
        p.u.norm.n = 2;
        p.u.norm.c = 3;
        p.u.norm.eps = 1e-5;
        for (int i = 0; i < ndim; i++) {
            p.u.norm.input[i] = 2;
        }
    } else {
        small_conv(&p.u.conv, ndim);
    }
    return p;
}

/* The one-call form and the reference. */
static ckconv_status call_problem(const problem *p, ckconv_error *err)
{
    ckconv_args a;
    args_fill(&a);
    switch (p->op) {
    case CKCONV_FWD:
        return ckconv_fwd(&p->u.conv, a.in, a.wei, a.out, NULL, 0, NULL, err);
    case CKCONV_BWD_DATA:
        return ckconv_bwd_data(&p->u.conv, a.din, a.wei, a.dout, NULL, 0, NULL, err);
    case CKCONV_BWD_WEIGHT:
        return ckconv_bwd_weight(&p->u.conv, a.in, a.dwei, a.dout, NULL, 0, NULL, err);
    case CKCONV_CONV_CONV_FWD:
        return ckconv_conv_conv_fwd(&p->u.pair, a.in, a.wei, a.wei1, a.out, NULL, 0, NULL, err);
    case CKCONV_GROUPNORM_FWD:
        return ckconv_groupnorm_fwd(&p->u.norm, a.in, a.gamma, a.beta, a.out, a.mean, a.inv_std, NULL, 0,
                                    NULL, err);
    default:
        return ckconv_groupnorm_bwd(&p->u.norm, a.in, a.gamma, a.beta, a.dout, a.saved_mean, a.saved_inv_std,
                                    a.din, a.dgamma, a.dbeta, NULL, 0, NULL, err);
    }
}

static ckconv_status ref_problem(const problem *p, ckconv_error *err)
{
    ckconv_args a;
    args_fill(&a);
    if (p->op == CKCONV_CONV_CONV_FWD) {
        return ckconv_ref_conv_conv(&p->u.pair, &a, err);
    }
    if (is_norm(p->op)) {
        return ckconv_ref_groupnorm(p->op, &p->u.norm, &a, err);
    }
    return ckconv_ref_conv(p->op, &p->u.conv, &a, err);
}

/* All ways to state a problem refuse it alike. Words: NULL or what the text must contain. */
static void expect_refusal(const problem *p, ckconv_status want, const char *what, const char *word0,
                           const char *word1, const char *word2)
{
    ckconv_error err;
    ckconv_plan plan;
    memset(&err, 0x55, sizeof err);
    memset(&plan, 0x55, sizeof plan);
    ckconv_status status = plan_problem(&plan, p, NULL, NULL, &err);
    CHECK_MSG(status == want && error_whole(&err, status), "%s %s: status %d (%.252s), want %d",
              op_name(p->op), what, (int)status, err.text, (int)want);
    const char *words[3] = {word0, word1, word2};
    for (int i = 0; i < 3; i++) {
        CHECK_MSG(words[i] == NULL || strstr(err.text, words[i]) != NULL,
                  "%s %s: \"%.252s\" does not say \"%s\"", op_name(p->op), what, err.text, words[i]);
    }
    CHECK_MSG(plan.magic == 0, "%s %s: the plan has a magic number", op_name(p->op), what);
    CHECK_MSG(plan_problem(&plan, p, NULL, NULL, NULL) == want, "%s %s: without an error struct",
              op_name(p->op), what);
    CHECK_MSG(call_problem(p, &err) == want && error_whole(&err, want), "%s %s: one call gives %d: %s",
              op_name(p->op), what, (int)err.status, err.text);
    CHECK_MSG(ref_problem(p, &err) == want && error_whole(&err, want), "%s %s: the reference gives %d: %s",
              op_name(p->op), what, (int)err.status, err.text);
    CHECK_MSG(arena_untouched(), "%s %s: something was written", op_name(p->op), what);
    const char *name = word0 != NULL ? word0 : "";
    static const char *const sizes[] = {"ndim",   "g",     "n",      "k",        "c",
                                        "filter", "input", "stride", "dilation", "pad"};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && p->op == CKCONV_FWD; i++) {
        const size_t length = strlen(sizes[i]); /* nothing else stands in the way of output sizes */
        if (strncmp(name, sizes[i], length) == 0 &&
            (name[length] == 0 || strchr("[_", name[length]) != NULL)) {
            int64_t out[3] = {77, 77, 77};
            status = ckconv_conv_output(&p->u.conv, out, &err);
            CHECK_MSG(status == want && out[0] == 77 && out[1] == 77 && out[2] == 77,
                      "conv_output, %s: status %d (%s)", what, (int)status, err.text);
        }
    }
    arena_fill();
}

static void expect_accepted(const problem *p, const char *what)
{
    ckconv_error err;
    ckconv_plan plan;
    memset(&err, 0x55, sizeof err);
    const ckconv_status status = plan_problem(&plan, p, NULL, NULL, &err);
    CHECK_MSG(status == CKCONV_OK && err.status == CKCONV_OK && err.text[0] == 0 && plan.magic != 0,
              "%s %s: status %d (%.252s), want OK", op_name(p->op), what, (int)status, err.text);
}

/*------------------------------------------------------------------------------------------------------------
  fields: a table of what each may not be
*/
typedef struct rule {
    const char *allowed; /* that the text must say */
    int shows_value;
    int count;
    int64_t bad[8];
} rule;

static const rule rule_ndim = {"1, 2 or 3", 1, 5, {0, -1, 4, MAX_I32, MIN_I32}};
static const rule rule_count = {"1 or more", 1, 3, {0, -1, INT64_MIN}};
static const rule rule_default1 = {"1 or more", 1, 3, {-1, -2, INT64_MIN}};
static const rule rule_g1 = {"must divide", 1, 4, {-1, 5, INT64_MIN, INT64_MAX}};
static const rule rule_not_negative = {"0 or more", 1, 2, {-1, INT64_MIN}};
static const rule rule_huge = {"2^62", 1, 2, {INT64_MAX, ((int64_t)1 << 62) + 1}}; /* CKCONV_ERR_OVERFLOW */
static const rule rule_reserved = {"must be 0", 1, 4, {1, -1, 0x5a5a5a5a, MIN_I32}};
static const rule rule_dbias = {"must be 0 (none)", 1, 4, {-1, 11, 0x5a5a5a5a, MIN_I32}};
static const rule rule_storage = {"storage type", 1, 7, {-1, 11, 12, 13, 99, MAX_I32, MIN_I32}};
static const rule rule_compute = {"compute type", 1, 5, {-1, 10, 13, MAX_I32, MIN_I32}};
static const rule rule_layout_in = {"CKCONV_NHWGC", 1, 8, {-1, 4, 5, 6, 8, 99, MAX_I32, MIN_I32}};
static const rule rule_layout_d = {"CKCONV_CHANNEL", 1, 6, {-1, 4, 5, 8, MAX_I32, MIN_I32}};
static const rule rule_layout_wei = {"CKCONV_GKYXC", 1, 8, {-1, 1, 2, 3, 6, 8, MAX_I32, MIN_I32}};
static const rule rule_no_stride = {"CKCONV_STRIDED", 1, 3, {1, -1, INT64_MAX}};
static const rule rule_kind = {"", 1, 7, {-1, 11, 15, 29, 31, MAX_I32, MIN_I32}};
static const rule rule_kind_read = {"written tensor", 0, 7, {16, 18, 20, 22, 23, 27, 36}};
static const rule rule_num_d = {"", 1, 4, {-1, 5, MAX_I32, MIN_I32}};
static const rule rule_no_num_d = {"must be 0", 1, 4, {1, 4, -1, 5}};
static const rule rule_no_d32 = {"must be all zero", 0, 2, {1, -1}};
static const rule rule_no_d64 = {"must be all zero", 0, 2, {1, INT64_MIN}};
static const rule rule_mid_dtype = {"type of in", 1, 3, {CKCONV_F16, CKCONV_F64, -1}};
static const rule rule_param = {"CKCONV_F32", 1, 7, {-1, 1, 5, 9, 10, 11, 99}};
static const rule rule_act = {"_SILU", 1, 8, {-1, 1, 3, 7, 10, 16, 32, MAX_I32}};
static const rule rule_per_image = {"g*c", 1, 4, {-1, 2, MAX_I32, MIN_I32}};

typedef struct field {
    char name[32];
    size_t offset;
    int size;
    const rule *rule;
    ckconv_status status;
} field;

enum { MAX_FIELDS = 512 };

typedef struct field_list {
    field at[MAX_FIELDS];
    int count;
    unsigned char covered[sizeof(ckconv_conv_conv_desc)];
} field_list;

static field_list fields;

static void add(const char *prefix, const char *name, int index, size_t offset, int size, const rule *r)
{
    field *f = &fields.at[fields.count++];
    if (fields.count == MAX_FIELDS) {
        printf("test_check: too many fields\n");
        exit(3);
    }
    if (index >= 0) {
        snprintf(f->name, sizeof f->name, "%s%s[%d]", prefix, name, index);
    } else {
        snprintf(f->name, sizeof f->name, "%s%s", prefix, name);
    }
    f->offset = offset;
    f->size = size;
    f->rule = r;
    f->status = r == &rule_huge ? CKCONV_ERR_OVERFLOW : CKCONV_ERR_ARGUMENT;
    memset(fields.covered + offset, 1, (size_t)size);
}

/* A size: what is too small for it, and what is too large for any. */
static void add_size(const char *prefix, const char *name, int index, size_t offset, const rule *r)
{
    add(prefix, name, index, offset, 8, r);
    add(prefix, name, index, offset, 8, &rule_huge);
}

static void add_sizes(const char *prefix, const char *name, size_t offset, const rule *r)
{
    for (int i = 0; i < 3; i++) {
        add_size(prefix, name, i, offset + (size_t)i * 8, r);
    }
}

static void add_tensor(const char *prefix, const char *name, size_t offset, const rule *dtype,
                       const rule *layout)
{
    char full[24];
    snprintf(full, sizeof full, "%s%s.", prefix, name);
    add(full, "dtype", -1, offset + offsetof(ckconv_tensor, dtype), 4, dtype);
    add(full, "layout", -1, offset + offsetof(ckconv_tensor, layout), 4, layout);
    for (int i = 0; i < 6; i++) {
        add(full, "stride", i, offset + offsetof(ckconv_tensor, stride) + (size_t)i * 8, 8, &rule_no_stride);
    }
}

/* Four D tensors; layout NULL: they must be zero. */
static void add_ds(const char *prefix, size_t offset, const rule *layout)
{
    for (int i = 0; i < 4; i++) {
        char name[8];
        const size_t at = offset + (size_t)i * sizeof(ckconv_tensor);
        snprintf(name, sizeof name, "d[%d]", i);
        if (layout != NULL) {
            add_tensor(prefix, name, at, &rule_storage, layout);
            continue;
        }
        add(prefix, name, -1, at + offsetof(ckconv_tensor, dtype), 4, &rule_no_d32);
        add(prefix, name, -1, at + offsetof(ckconv_tensor, layout), 4, &rule_no_d32);
        for (int j = 0; j < 6; j++) {
            add(prefix, name, -1, at + offsetof(ckconv_tensor, stride) + (size_t)j * 8, 8, &rule_no_d64);
        }
    }
}

/* alpha and beta may be anything but for clamp, which has its own test. */
static void add_op(const char *prefix, const char *name, size_t offset, int written)
{
    char full[24];
    snprintf(full, sizeof full, "%s%s.", prefix, name);
    add(full, "kind", -1, offset + offsetof(ckconv_element_op, kind), 4, &rule_kind);
    if (!written) {
        add(full, "kind", -1, offset + offsetof(ckconv_element_op, kind), 4, &rule_kind_read);
    }
    add(full, "reserved", -1, offset + offsetof(ckconv_element_op, reserved), 4, &rule_reserved);
    memset(fields.covered + offset + offsetof(ckconv_element_op, alpha), 1, 16);
}

/* The fields of a convolution at `base` of the struct under test. op 0: the first one of a pair. */
static void add_conv(const char *prefix, size_t base, ckconv_op op)
{
#define AT(member) (base + offsetof(ckconv_conv_desc, member))
    add(prefix, "ndim", -1, AT(ndim), 4, &rule_ndim);
    add(prefix, "num_d", -1, AT(num_d), 4, op == 0 ? &rule_no_num_d : &rule_num_d);
    add_size(prefix, "g", -1, AT(g), &rule_default1);
    add_size(prefix, "n", -1, AT(n), &rule_not_negative);
    add_size(prefix, "k", -1, AT(k), &rule_count);
    add_size(prefix, "c", -1, AT(c), &rule_count);
    add_sizes(prefix, "filter", AT(filter), &rule_count);
    add_sizes(prefix, "input", AT(input), &rule_count);
    add_sizes(prefix, "stride", AT(stride), &rule_default1);
    add_sizes(prefix, "dilation", AT(dilation), &rule_default1);
    add_sizes(prefix, "pad_lo", AT(pad_lo), &rule_not_negative);
    add_sizes(prefix, "pad_hi", AT(pad_hi), &rule_not_negative);
    add_tensor(prefix, "in", AT(in), &rule_storage, &rule_layout_in);
    add_tensor(prefix, "wei", AT(wei), &rule_storage, &rule_layout_wei);
    add_tensor(prefix, "out", AT(out), op == 0 ? &rule_mid_dtype : &rule_storage, &rule_layout_in);
    add(prefix, "compute_in", -1, AT(compute_in), 4, &rule_compute);
    add(prefix, "compute_wei", -1, AT(compute_wei), 4, &rule_compute);
    add(prefix, "compute_out", -1, AT(compute_out), 4, &rule_compute);
    add(prefix, "dbias", -1, AT(dbias), 4, &rule_dbias);
    add_op(prefix, "op_in", AT(op_in), op == CKCONV_BWD_DATA);
    add_op(prefix, "op_wei", AT(op_wei), op == CKCONV_BWD_WEIGHT);
    add_op(prefix, "op_out", AT(op_out), op == CKCONV_FWD || op == 0);
    add_ds(prefix, AT(d), op == 0 ? NULL : op == CKCONV_BWD_WEIGHT ? &rule_layout_wei : &rule_layout_d);
#undef AT
}

static void add_pair(void)
{
#define AT(member) offsetof(ckconv_conv_conv_desc, member)
    add_conv("conv0.", AT(conv0), 0);
    add("", "g1", -1, AT(g1), 8, &rule_g1);
    add_size("", "k1", -1, AT(k1), &rule_count);
    add_sizes("", "filter1", AT(filter1), &rule_default1);
    add_sizes("", "stride1", AT(stride1), &rule_default1);
    add_sizes("", "dilation1", AT(dilation1), &rule_default1);
    add_sizes("", "pad_lo1", AT(pad_lo1), &rule_not_negative);
    add_sizes("", "pad_hi1", AT(pad_hi1), &rule_not_negative);
    add_tensor("", "wei1", AT(wei1), &rule_storage, &rule_layout_wei);
    add_tensor("", "out", AT(out), &rule_storage, &rule_layout_in);
    add("", "compute_wei1", -1, AT(compute_wei1), 4, &rule_compute);
    add("", "num_d", -1, AT(num_d), 4, &rule_num_d);
    add_op("", "op_wei1", AT(op_wei1), 0);
    add_op("", "op_out", AT(op_out), 1);
    add_ds("", AT(d), &rule_layout_d);
#undef AT
}

static void add_norm(void)
{
#define AT(member) offsetof(ckconv_groupnorm_desc, member)
    add("", "ndim", -1, AT(ndim), 4, &rule_ndim);
    add("", "param_dtype", -1, AT(param_dtype), 4, &rule_param);
    add_size("", "g", -1, AT(g), &rule_default1);
    add_size("", "n", -1, AT(n), &rule_not_negative);
    add_size("", "c", -1, AT(c), &rule_count);
    add_sizes("", "input", AT(input), &rule_count);
    memset(fields.covered + AT(eps), 1, 8); /* test_eps */
    add_tensor("", "in", AT(in), &rule_storage, &rule_layout_in);
    add_tensor("", "out", AT(out), &rule_storage, &rule_layout_in);
    add_tensor("", "din", AT(din), &rule_storage, &rule_layout_in);
    add("", "act", -1, AT(act), 4, &rule_act);
    add("", "param_per_image", -1, AT(param_per_image), 4, &rule_per_image);
    for (int i = 0; i < 2; i++) {
        add("", "reserved", i, AT(reserved) + (size_t)i * 4, 4, &rule_reserved);
    }
#undef AT
}

static void set_field(void *desc, const field *f, int64_t value)
{
    const int32_t narrow = (int32_t)value;
    memcpy((unsigned char *)desc + f->offset, f->size == 4 ? (const void *)&narrow : (const void *)&value,
           (size_t)f->size);
}

static void test_fields(ckconv_op op)
{
    problem valid = make_problem(op, 3);
    memset(&fields, 0, sizeof fields);
    size_t size = sizeof valid.u.conv;
    if (op == CKCONV_CONV_CONV_FWD) {
        add_pair();
        size = sizeof valid.u.pair;
    } else if (is_norm(op)) {
        add_norm();
        size = sizeof valid.u.norm;
    } else {
        add_conv("", 0, op);
    }
    if (!is_norm(op)) { /* all four D tensors are in use */
        epilogue_of(&valid)->kind = CKCONV_ADD;
        if (op == CKCONV_CONV_CONV_FWD) {
            valid.u.pair.num_d = 4;
        } else {
            valid.u.conv.num_d = 4;
        }
    }
    expect_accepted(&valid, "as it stands");
    for (size_t i = 0; i < size; i++) {
        CHECK_MSG(fields.covered[i] != 0, "%s: no bad value for the field at byte %zu", op_name(op), i);
    }
    for (int i = 0; i < fields.count; i++) {
        const field *f = &fields.at[i];
        for (int j = 0; j < f->rule->count; j++) {
            problem p = valid;
            char what[80], value[24];
            snprintf(value, sizeof value, "%lld", (long long)f->rule->bad[j]);
            snprintf(what, sizeof what, "%s = %s", f->name, value);
            set_field(&p.u, f, f->rule->bad[j]);
            expect_refusal(&p, f->status, what, f->name, f->rule->shows_value ? value : NULL,
                           f->rule->allowed);
        }
    }
}

static void test_eps(void)
{
    const double bad[] = {0.0, -1e-5, (double)NAN, HUGE_VAL, -HUGE_VAL};
    for (int i = 0; i < 10; i++) {
        problem p = make_problem(i % 2 == 0 ? CKCONV_GROUPNORM_FWD : CKCONV_GROUPNORM_BWD, 2);
        p.u.norm.eps = bad[i / 2];
        expect_refusal(&p, CKCONV_ERR_ARGUMENT, "eps", "eps", "above 0", NULL);
    }
}

static void test_op(void)
{
    static const ckconv_op bad[] = {0, -1, 4, 5, 6, 7, INT32_MAX, INT32_MIN};
    const problem conv = make_problem(CKCONV_FWD, 1), norm = make_problem(CKCONV_GROUPNORM_FWD, 1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ckconv_error err;
        ckconv_plan plan;
        ckconv_args a;
        char value[16];
        args_fill(&a);
        snprintf(value, sizeof value, "%d", (int)bad[i]);
        CHECK(ckconv_plan_conv(&plan, bad[i], &conv.u.conv, NULL, NULL, &err) == CKCONV_ERR_ARGUMENT);
        CHECK_MSG(strstr(err.text, "op") && strstr(err.text, value) && plan.magic == 0, "op %s: %s", value,
                  err.text);
        CHECK(ckconv_ref_conv(bad[i], &conv.u.conv, &a, &err) == CKCONV_ERR_ARGUMENT &&
              error_whole(&err, err.status));
        if (bad[i] != CKCONV_GROUPNORM_FWD && bad[i] != CKCONV_GROUPNORM_BWD) {
            CHECK(ckconv_plan_groupnorm(&plan, bad[i], &norm.u.norm, NULL, NULL, &err) ==
                  CKCONV_ERR_ARGUMENT);
            CHECK_MSG(strstr(err.text, "op") && strstr(err.text, value) && plan.magic == 0, "op %s: %s",
                      value, err.text);
            CHECK(ckconv_ref_groupnorm(bad[i], &norm.u.norm, &a, &err) == CKCONV_ERR_ARGUMENT);
        }
    }
    CHECK(arena_untouched());
}

/*------------------------------------------------------------------------------------------------------------
  strides
*/
static ckconv_tensor *tensor_of(problem *p, int i)
{
    if (is_norm(p->op)) {
        return i == 0 ? &p->u.norm.in : i == 1 ? &p->u.norm.out : &p->u.norm.din;
    }
    if (p->op == CKCONV_CONV_CONV_FWD) {
        return i == 0 ? &p->u.pair.conv0.in : i == 1 ? &p->u.pair.wei1 : &p->u.pair.out;
    }
    return i == 0 ? &p->u.conv.in : i == 1 ? &p->u.conv.wei : &p->u.conv.out;
}

static const char *tensor_name(ckconv_op op, int i)
{
    static const char *const names[3][3] = {
        {"in", "wei", "out"}, {"conv0.in", "wei1", "out"}, {"in", "out", "din"}};
    return names[is_norm(op) ? 2 : op == CKCONV_CONV_CONV_FWD ? 1 : 0][i];
}

static int is_written(ckconv_op op, int i)
{
    static const int written[7] = {-1, 2, 0, 1, 2, 1, 2};
    return written[op] == i;
}

/* Dense strides of a permuted, gapped tensor whose lengths are at most 6 each. */
static void give_strides(ckconv_tensor *t)
{
    static const int64_t stride[4] = {7, 350, 1, 50};
    t->layout = CKCONV_STRIDED;
    memcpy(t->stride, stride, sizeof stride);
}

static void test_strides(ckconv_op op)
{
    static const int64_t bad[] = {0, -1, INT64_MIN, INT64_MAX};
    for (int i = 0; i < 3; i++) {
        char word[40], value[24];
        problem valid = make_problem(op, 1);
        if (is_norm(op)) { /* else out and din take the strides of in */
            valid.u.norm.out.layout = valid.u.norm.din.layout = CKCONV_NHWGC;
        } else if (op == CKCONV_CONV_CONV_FWD) {
            valid.u.pair.conv0.out.layout = valid.u.pair.out.layout = CKCONV_NHWGK;
        } else {
            valid.u.conv.out.layout = CKCONV_NHWGK;
        }
        give_strides(tensor_of(&valid, i));
        expect_accepted(&valid, "with strides");
        for (int axis = 0; axis < 6; axis++) {
            snprintf(word, sizeof word, "%s.stride[%d]", tensor_name(op, i), axis);
            for (int j = 0; j < 4; j++) {
                problem p = valid;
                if (axis >= 4 && bad[j] == 0) {
                    continue;
                }
                snprintf(value, sizeof value, "%lld", (long long)bad[j]);
                tensor_of(&p, i)->stride[axis] = bad[j];
                expect_refusal(&p, CKCONV_ERR_ARGUMENT, word, word, value, "must be");
            }
        }
        problem p = valid; /* two axes over each other: fine to read, not to write */
        tensor_of(&p, i)->stride[0] = 1;
        snprintf(word, sizeof word, "%s.stride[", tensor_name(op, i));
        if (is_written(op, i)) {
            expect_refusal(&p, CKCONV_ERR_ARGUMENT, "overlapping strides", word, "overlap", "must be");
            tensor_of(&p, i)->stride[0] = 2; /* disjoint or not, strides that do not nest are refused */
            expect_refusal(&p, CKCONV_ERR_ARGUMENT, "strides that do not nest", word, "must be", NULL);
        } else {
            expect_accepted(&p, "overlapping strides of a read tensor");
        }
        p = valid;
        tensor_of(&p, i)->stride[1] = (int64_t)1 << 61;
        expect_refusal(&p, CKCONV_ERR_OVERFLOW, "huge strides", tensor_name(op, i), "2^62", NULL);
    }
}

/* Strides of axes with one element do not matter; the others must nest whatever their order. */
static void test_nesting(void)
{
    static const struct {
        int64_t stride[4];
        int good;
    } cases[] = {
        /* out has lengths G 2, N 2, K 3, W 3 */
        {{18, 9, 3, 1}, 1},  {{18, 9, 1, 3}, 1},   {{1, 2, 4, 12}, 1},  {{9, 18, 3, 1}, 1},
        {{18, 9, 3, 2}, 0},  {{17, 9, 3, 1}, 0},   {{18, 8, 3, 1}, 0},  {{18, 9, 2, 1}, 0},
        {{18, 9, 3, 3}, 0},  {{100, 50, 7, 2}, 1}, {{9, 9, 3, 1}, 0},   {{1, 1, 1, 1}, 0},
        {{2, 1, 4, 12}, 1},  {{1, 3, 6, 18}, 1},   {{3, 1, 3, 9}, 0},   {{18, 9, 3, 1}, 1},
        {{36, 18, 6, 2}, 1}, {{35, 18, 6, 2}, 1},  {{34, 18, 6, 2}, 0}, {{27, 18, 6, 2}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        problem p = make_problem(CKCONV_FWD, 1);
        p.u.conv.out.layout = CKCONV_STRIDED;
        memcpy(p.u.conv.out.stride, cases[i].stride, sizeof cases[i].stride);
        char what[80];
        snprintf(what, sizeof what, "out strides %d %d %d %d", (int)cases[i].stride[0],
                 (int)cases[i].stride[1], (int)cases[i].stride[2], (int)cases[i].stride[3]);
        if (cases[i].good) {
            expect_accepted(&p, what);
        } else {
            expect_refusal(&p, CKCONV_ERR_ARGUMENT, what, "out.stride[", "overlap", NULL);
        }
    }
    problem p = make_problem(CKCONV_FWD, 1);
    p.u.conv.g = 1;
    p.u.conv.n = 1;
    give_strides(&p.u.conv.out);
    p.u.conv.out.stride[0] = p.u.conv.out.stride[1] = 1;
    expect_accepted(&p, "any stride along an axis of length 1");
}

/*------------------------------------------------------------------------------------------------------------
  element operations and D tensors
*/
static void set_num_d(problem *p, int32_t num_d)
{
    if (p->op == CKCONV_CONV_CONV_FWD) {
        p->u.pair.num_d = num_d;
    } else {
        p->u.conv.num_d = num_d;
    }
}

static void test_num_d(ckconv_op op)
{
    for (int i = 0; i < TEST_ELEMENTS; i++) {
        const ckconv_element kind = test_elements[i].kind;
        const int low = test_elements[i].low, high = test_elements[i].high;
        for (int n = 0; n <= 4; n++) {
            problem p = make_problem(op, 2);
            char what[64], value[16];
            snprintf(what, sizeof what, "%s with %d D tensors", ckconv_element_name(kind), n);
            snprintf(value, sizeof value, "num_d is %d", n);
            epilogue_of(&p)->kind = kind;
            set_num_d(&p, n);
            if (n >= low && n <= high) {
                expect_accepted(&p, what);
            } else {
                expect_refusal(&p, CKCONV_ERR_ARGUMENT, what, value, ckconv_element_name(kind), NULL);
            }
        }
    }
}

static void test_clamp(ckconv_op op)
{
    static const double bad[][2] = {
        {1.0, 0.0}, {0.0, -1e-300}, {NAN, 1.0}, {0.0, NAN}, {HUGE_VAL, -HUGE_VAL}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        for (int which = 0; which < 3; which++) {
            problem p = make_problem(op, 1);
            ckconv_conv_desc *d = op == CKCONV_CONV_CONV_FWD ? &p.u.pair.conv0 : &p.u.conv;
            ckconv_element_op *e = which == 0 ? &d->op_in : which == 1 ? &d->op_wei : &d->op_out;
            e->kind = CKCONV_CLAMP;
            e->alpha = bad[i][0];
            e->beta = bad[i][1];
            expect_refusal(&p, CKCONV_ERR_ARGUMENT, "clamp",
                           which == 0   ? "op_in"
                           : which == 1 ? "op_wei"
                                        : "op_out",
                           "alpha", "beta");
            e->alpha = e->beta = -3.0;
            expect_accepted(&p, "clamp to one value");
        }
    }
}

/* Parameters that a kind does not use must be 0. */
static void test_unused_parameters(ckconv_op op)
{
    for (int i = 0; i < TEST_ELEMENTS; i++) {
        const test_element *row = &test_elements[i];
        for (int which = 0; which < 4; which++) {
            problem p = make_problem(op, 1);
            ckconv_element_op *e = epilogue_of(&p);
            e->kind = row->kind;
            e->alpha = which == 0 ? .1 : which == 2 ? (double)NAN : 0.0;
            e->beta = which == 1 ? .1 : which == 3 ? (double)NAN : 0.0;
            if ((e->kind == CKCONV_CLAMP || e->kind == CKCONV_CLAMP_BWD) && which != 1) {
                continue; /* alpha <= beta: test_clamp */
            }
            set_num_d(&p, row->low);
            if (which % 2 == 0 ? row->alpha : row->beta) {
                expect_accepted(&p, ckconv_element_name(e->kind));
            } else {
                expect_refusal(&p, CKCONV_ERR_ARGUMENT, ckconv_element_name(e->kind),
                               which % 2 == 0 ? "alpha" : "beta", "must be 0", ckconv_element_name(e->kind));
            }
        }
    }
}

static void test_d(ckconv_op op)
{
    problem valid = make_problem(op, 1);
    ckconv_tensor *d = op == CKCONV_CONV_CONV_FWD ? valid.u.pair.d : valid.u.conv.d;
    epilogue_of(&valid)->kind = CKCONV_ADD;
    set_num_d(&valid, 2);
    d[1].layout = CKCONV_STRIDED; /* all zero: one number */
    expect_accepted(&valid, "broadcast D");
    for (ckconv_dtype dtype = CKCONV_F64; dtype <= CKCONV_I32; dtype++) {
        d[1].dtype = dtype;
        expect_accepted(&valid, "D of any type");
    }
    static const int64_t bad[] = {-1, INT64_MIN, INT64_MAX};
    for (int axis = 0; axis < 6; axis++) {
        for (int j = 0; j < 3; j++) {
            problem p = valid;
            ckconv_tensor *t = op == CKCONV_CONV_CONV_FWD ? p.u.pair.d : p.u.conv.d;
            char word[24], value[24];
            t[1].stride[axis] = bad[j];
            snprintf(word, sizeof word, "d[1].stride[%d]", axis);
            snprintf(value, sizeof value, "%lld", (long long)bad[j]);
            expect_refusal(&p, CKCONV_ERR_ARGUMENT, word, word, value, "must be");
        }
    }
    problem p = valid;
    ckconv_tensor *t = op == CKCONV_CONV_CONV_FWD ? p.u.pair.d : p.u.conv.d;
    t[1].stride[0] = t[1].stride[2] = (int64_t)1 << 61;
    expect_refusal(&p, CKCONV_ERR_OVERFLOW, "huge D", "d[1]", "2^62", NULL);
    p = valid;
    t[3].dtype = CKCONV_F32;
    expect_refusal(&p, CKCONV_ERR_ARGUMENT, "D past num_d", "d[3]", "2", "must be all zero");
    p = valid;
    t[0].layout = CKCONV_CHANNEL;
    if (op == CKCONV_BWD_WEIGHT) {
        expect_refusal(&p, CKCONV_ERR_ARGUMENT, "channel vector for a weight", "d[0].layout", "6", NULL);
    } else {
        expect_accepted(&p, "channel vector");
    }
}

/*------------------------------------------------------------------------------------------------------------
  the table of types, written a second time
*/
static int is_fp8(ckconv_dtype t)
{
    return t >= CKCONV_F8E4M3 && t <= CKCONV_F8E5M2FNUZ;
}

static int types_allowed(ckconv_op op, ckconv_dtype in, ckconv_dtype wei, ckconv_dtype out)
{
    const ckconv_dtype t[3] = {in, wei, out};
    const int written = op == CKCONV_BWD_DATA ? 0 : op == CKCONV_BWD_WEIGHT ? 1 : 2;
    const ckconv_dtype base = written == 0 ? out : in; /* the activations that are read */
    int same = base <= CKCONV_BF16, fp8 = 1, i8 = 1;
    for (int i = 0; i < 3; i++) {
        const int is_written = i == written, half = base == CKCONV_F16 || base == CKCONV_BF16;
        const int float_weights = i == 1 && base == CKCONV_BF16;
        same = same && (t[i] == base || (t[i] == CKCONV_F32 && ((is_written && half) || float_weights)));
        fp8 = fp8 && (is_fp8(t[i]) || ((is_written || i == 2) &&
                                       (t[i] == CKCONV_F16 || t[i] == CKCONV_BF16 || t[i] == CKCONV_F32)));
        i8 = i8 && (t[i] == CKCONV_I8 || (is_written && t[i] == CKCONV_I32));
    }
    return same || fp8 || i8;
}

/* May a tensor stored as `storage` be computed in `compute`? row: the type of activations that are read; an
   fp8 one where weights or in, if they are read, are fp8. */
static int compute_allowed(ckconv_dtype row, ckconv_dtype storage, ckconv_dtype compute)
{
    if (row == CKCONV_F32) {
        return compute == CKCONV_F32 || compute == CKCONV_TF32 || compute == CKCONV_BF16 ||
               compute == CKCONV_BF16X3;
    }
    if (row == CKCONV_F16) {
        return compute == CKCONV_F16 || is_fp8(compute);
    }
    return row == CKCONV_BF16 ? compute == CKCONV_BF16 : compute == storage;
}

static void test_compute_types(ckconv_op op, const problem *valid)
{
    const int written = op == CKCONV_BWD_DATA ? 0 : op == CKCONV_BWD_WEIGHT ? 1 : 2;
    const ckconv_dtype other = written == 0 ? valid->u.conv.wei.dtype : valid->u.conv.in.dtype;
    const ckconv_dtype row = written == 0 && !is_fp8(other) ? valid->u.conv.out.dtype : other;
    const int a = written == 0 ? 1 : 0, b = written == 2 ? 1 : 2;
    for (ckconv_dtype x = CKCONV_F64; x <= CKCONV_BF16X3; x++) {
        for (ckconv_dtype y = CKCONV_F64; y <= CKCONV_BF16X3; y++) {
            problem p = *valid;
            const ckconv_dtype storage[3] = {p.u.conv.in.dtype, p.u.conv.wei.dtype, p.u.conv.out.dtype};
            ckconv_dtype *compute[3] = {&p.u.conv.compute_in, &p.u.conv.compute_wei, &p.u.conv.compute_out};
            *compute[a] = x;
            *compute[b] = y;
            int good = compute_allowed(row, storage[a], x) && compute_allowed(row, storage[b], y);
            good = good && (row != CKCONV_F32 || x == y);
            char what[64];
            snprintf(what, sizeof what, "row %s computed in %s and %s", ckconv_dtype_name(row),
                     ckconv_dtype_name(x), ckconv_dtype_name(y));
            if (good) {
                expect_accepted(&p, what);
            } else {
                expect_refusal(&p, CKCONV_ERR_ARGUMENT, what, "compute_", NULL, NULL);
            }
        }
    }
}

static void test_types(ckconv_op op)
{
    for (ckconv_dtype in = CKCONV_F64; in <= CKCONV_I32; in++) {
        for (ckconv_dtype wei = CKCONV_F64; wei <= CKCONV_I32; wei++) {
            for (ckconv_dtype out = CKCONV_F64; out <= CKCONV_I32; out++) {
                problem p = make_problem(op, 1);
                char what[64];
                p.u.conv.in.dtype = in;
                p.u.conv.wei.dtype = wei;
                p.u.conv.out.dtype = out;
                snprintf(what, sizeof what, "types %s %s %s", ckconv_dtype_name(in), ckconv_dtype_name(wei),
                         ckconv_dtype_name(out));
                if (!types_allowed(op, in, wei, out)) {
                    expect_refusal(&p, CKCONV_ERR_ARGUMENT, what, ckconv_dtype_name(in),
                                   ckconv_dtype_name(wei), ckconv_dtype_name(out));
                    continue;
                }
                expect_accepted(&p, what);
                if (!(is_fp8(in) || is_fp8(wei) || is_fp8(out)) || (in == wei && in != out)) {
                    /* not 4 x 4 x 7 times the same */
                    test_compute_types(op, &p);
                }
            }
        }
    }
}

/* in, wei and wei1, out of a pair: both stages follow the table; mid has the type of in. */
static void test_pair_types(void)
{
    for (ckconv_dtype in = CKCONV_F64; in <= CKCONV_I32; in++) {
        for (ckconv_dtype wei = CKCONV_F64; wei <= CKCONV_I32; wei++) {
            for (ckconv_dtype wei1 = CKCONV_F64; wei1 <= CKCONV_I32; wei1++) {
                for (ckconv_dtype out = CKCONV_F64; out <= CKCONV_I32; out++) {
                    problem p = make_problem(CKCONV_CONV_CONV_FWD, 1);
                    p.u.pair.conv0.in.dtype = in;
                    p.u.pair.conv0.wei.dtype = wei;
                    p.u.pair.wei1.dtype = wei1;
                    p.u.pair.out.dtype = out;
                    char what[80];
                    snprintf(what, sizeof what, "types %s %s, %s %s", ckconv_dtype_name(in),
                             ckconv_dtype_name(wei), ckconv_dtype_name(wei1), ckconv_dtype_name(out));
                    if (types_allowed(CKCONV_FWD, in, wei, in) && types_allowed(CKCONV_FWD, in, wei1, out)) {
                        expect_accepted(&p, what);
                    } else {
                        expect_refusal(&p, CKCONV_ERR_ARGUMENT, what, "type", NULL, NULL);
                    }
                }
            }
        }
    }
}

static void test_norm_types(ckconv_op op)
{
    for (ckconv_dtype in = CKCONV_F64; in <= CKCONV_I32; in++) {
        for (ckconv_dtype out = CKCONV_F64; out <= CKCONV_I32; out++) {
            for (ckconv_dtype din = CKCONV_F64; din <= CKCONV_I32; din++) {
                for (ckconv_dtype param = CKCONV_F64; param <= CKCONV_I32; param++) {
                    problem p = make_problem(op, 1);
                    const int wide = in == CKCONV_F64;
                    const int good = in <= CKCONV_BF16 && out <= CKCONV_BF16 && din <= CKCONV_BF16 &&
                                     param <= CKCONV_BF16 && (out == CKCONV_F64) == wide &&
                                     (din == CKCONV_F64) == wide && (param == CKCONV_F64) == wide;
                    char what[80];
                    p.u.norm.in.dtype = in;
                    p.u.norm.out.dtype = out;
                    p.u.norm.din.dtype = din;
                    p.u.norm.param_dtype = param;
                    snprintf(what, sizeof what, "types %s %s %s %s", ckconv_dtype_name(in),
                             ckconv_dtype_name(out), ckconv_dtype_name(din), ckconv_dtype_name(param));
                    if (good) {
                        expect_accepted(&p, what);
                    } else {
                        expect_refusal(&p, CKCONV_ERR_ARGUMENT, what, "dtype", "must be", NULL);
                    }
                }
            }
        }
    }
}

/*------------------------------------------------------------------------------------------------------------
  sizes
*/
static void test_no_output(void)
{
    static const ckconv_op ops[] = {CKCONV_FWD, CKCONV_BWD_DATA, CKCONV_BWD_WEIGHT, CKCONV_CONV_CONV_FWD};
    for (int i = 0; i < 4; i++) {
        for (int axis = 0; axis < 2; axis++) {
            problem p = make_problem(ops[i], 2);
            ckconv_conv_desc *d = ops[i] == CKCONV_CONV_CONV_FWD ? &p.u.pair.conv0 : &p.u.conv;
            char word[24];
            snprintf(word, sizeof word, "filter[%d]", axis);
            d->filter[axis] = 5; /* 3 + 1 of padding */
            expect_refusal(&p, CKCONV_ERR_ARGUMENT, "filter larger than the padded input", word, "5", "4");
            d->filter[axis] = 4;
            expect_accepted(&p, "one output");
            d->filter[axis] = 3;
            d->dilation[axis] = 2;
            expect_refusal(&p, CKCONV_ERR_ARGUMENT, "dilated filter larger than the padded input", word, "5",
                           "4");
            d->pad_hi[axis] = 1;
            expect_accepted(&p, "one output with padding");
        }
    }
    problem p = make_problem(CKCONV_CONV_CONV_FWD, 2);
    p.u.pair.filter1[1] = 4; /* mid is 3 x 3 */
    expect_refusal(&p, CKCONV_ERR_ARGUMENT, "second filter larger than mid", "filter1[1]", "4", "3");
}

/* Sizes whose products pass 2^62 bytes. */
static void test_overflow(void)
{
    const int64_t big = (int64_t)1 << 31;
    static const ckconv_op ops[] = {CKCONV_FWD, CKCONV_BWD_DATA, CKCONV_BWD_WEIGHT};
    for (int i = 0; i < 3; i++) {
        problem p = make_problem(ops[i], 1);
        p.u.conv.g = 1;
        p.u.conv.n = p.u.conv.c = big;
        expect_refusal(&p, CKCONV_ERR_OVERFLOW, "in", "in", "2^62", NULL);
        p = make_problem(ops[i], 1);
        p.u.conv.k = p.u.conv.c = big;
        expect_refusal(&p, CKCONV_ERR_OVERFLOW, "wei", "wei", "2^62", NULL);
        p = make_problem(ops[i], 1);
        p.u.conv.n = p.u.conv.k = big;
        expect_refusal(&p, CKCONV_ERR_OVERFLOW, "out", "out", "2^62", NULL);
        p = make_problem(ops[i], 3);
        p.u.conv.pad_lo[0] = p.u.conv.pad_hi[0] = p.u.conv.pad_lo[1] = p.u.conv.pad_hi[1] = big;
        expect_refusal(&p, CKCONV_ERR_OVERFLOW, "out by padding", "out", "2^62", NULL);
        p = make_problem(ops[i], 1);
        p.u.conv.pad_lo[0] = p.u.conv.pad_hi[0] = (int64_t)1 << 61;
        expect_refusal(&p, CKCONV_ERR_OVERFLOW, "padded input", "2^62", NULL, NULL);
        p = make_problem(ops[i], 1);
        p.u.conv.filter[0] = big;
        p.u.conv.dilation[0] = big * 2;
        expect_refusal(&p, CKCONV_ERR_OVERFLOW, "dilated filter", "filter", "2^62", NULL);
        p = make_problem(ops[i], 1);
        p.u.conv.g = p.u.conv.n = p.u.conv.k = p.u.conv.c = p.u.conv.input[0] = (int64_t)1 << 62;
        expect_refusal(&p, CKCONV_ERR_OVERFLOW, "everything", "2^62", NULL, NULL);
    }
    problem p = make_problem(CKCONV_CONV_CONV_FWD, 1);
    p.u.pair.g1 = 1;
    p.u.pair.k1 = (int64_t)1 << 60;
    expect_refusal(&p, CKCONV_ERR_OVERFLOW, "wei1", "wei1", "2^62", NULL);
    for (int i = 0; i < 2; i++) {
        p = make_problem(i == 0 ? CKCONV_GROUPNORM_FWD : CKCONV_GROUPNORM_BWD, 1);
        p.u.norm.n = p.u.norm.c = big;
        expect_refusal(&p, CKCONV_ERR_OVERFLOW, "in", "in", "2^62", NULL);
        p = make_problem(p.op, 3);
        p.u.norm.input[0] = p.u.norm.input[1] = p.u.norm.input[2] = (int64_t)1 << 40;
        expect_refusal(&p, CKCONV_ERR_OVERFLOW, "in by its sizes", "in", "2^62", NULL);
    }
}

/*------------------------------------------------------------------------------------------------------------
  options and device facts
*/
static void expect_option(const problem *p, const ckconv_options *options, const ckconv_device *device,
                          ckconv_status want, const char *word0, const char *word1)
{
    ckconv_error err;
    ckconv_plan plan;
    memset(&err, 0x55, sizeof err);
    memset(&plan, 0x55, sizeof plan);
    const ckconv_status status = plan_problem(&plan, p, options, device, &err);
    CHECK_MSG(status == want && error_whole(&err, status), "%s: status %d (%.252s), want %d with \"%s\"",
              op_name(p->op), (int)status, err.text, (int)want, word0);
    CHECK_MSG(strstr(err.text, word0) != NULL && strstr(err.text, word1) != NULL,
              "%s: \"%s\" does not say \"%s\" and \"%s\"", op_name(p->op), err.text, word0, word1);
    CHECK(plan.magic == 0);
}

static void test_options(ckconv_op op)
{
    const problem p = make_problem(op, 2);
    static const int32_t engines[] = {-1, 4, 99, INT32_MAX, INT32_MIN};
    static const int32_t negative[] = {-1, INT32_MIN};
    static const int64_t spaces[] = {-2, INT64_MIN};
    static const int32_t reserved[] = {1, -1, 0x5a5a5a5a};
    char value[24];
    ckconv_options o;
#define TRY(member, values, word)                                                                            \
    for (size_t i = 0; i < sizeof(values) / sizeof(values)[0]; i++) {                                        \
        memset(&o, 0, sizeof o);                                                                             \
        o.member = (values)[i];                                                                              \
        snprintf(value, sizeof value, "%lld", (long long)(values)[i]);                                       \
        expect_option(&p, &o, NULL, CKCONV_ERR_ARGUMENT, word, value);                                       \
    }
    TRY(engine, engines, "engine")
    TRY(split_k, negative, "split_k")
    TRY(threads, negative, "threads")
    TRY(max_workspace, spaces, "max_workspace")
    TRY(reserved[0], reserved, "reserved[0]")
    TRY(reserved[1], reserved, "reserved[1]")
    TRY(reserved[2], reserved, "reserved[2]")
#undef TRY
    char name[1001];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    memset(&o, 0, sizeof o);
    o.instance = "no_such_instance";
    expect_option(&p, &o, NULL, CKCONV_ERR_ARGUMENT, "instance", "no_such_instance");
    o.instance = "";
    expect_option(&p, &o, NULL, CKCONV_ERR_ARGUMENT, "instance", "");
    o.instance = name;
    expect_option(&p, &o, NULL, CKCONV_ERR_ARGUMENT, "instance", "xxxx");
    o.instance = NULL;
    o.engine = CKCONV_ENGINE_GPU;
    ckconv_device cpu;
    ckconv_device_cpu(&cpu);
    ckconv_plan plan;
    ckconv_error err;
    ckconv_status status = plan_problem(&plan, &p, &o, &cpu, &err);
    CHECK_MSG(status != CKCONV_OK && error_whole(&err, status) && plan.magic == 0, "gpu engine for a CPU: %d",
              (int)status);
}

static void test_device(ckconv_op op)
{
    const problem p = make_problem(op, 2);
    ckconv_device cpu;
    ckconv_device_cpu(&cpu);
    static const int32_t kinds[] = {-1, 3, 99, INT32_MIN};
    static const int32_t negative[] = {-1, INT32_MIN};
    static const int32_t features[] = {8, -1, INT32_MIN};
    static const int32_t reserved[] = {1, -1, 0x5a5a5a5a};
    char value[24];
    ckconv_device d;
#define TRY(member, values, word)                                                                            \
    for (size_t i = 0; i < sizeof(values) / sizeof(values)[0]; i++) {                                        \
        d = cpu;                                                                                             \
        d.member = (values)[i];                                                                              \
        snprintf(value, sizeof value, "%lld", (long long)(values)[i]);                                       \
        expect_option(&p, NULL, &d, CKCONV_ERR_ARGUMENT, word, value);                                       \
    }
    TRY(kind, kinds, "kind")
    TRY(threads, negative, "threads")
    TRY(features, features, "features")
    TRY(reserved[0], reserved, "reserved[0]")
    TRY(reserved[1], reserved, "reserved[1]")
    static const int32_t costs[] = {-1, 65, INT32_MIN};
    for (size_t i = 0; i < CKCONV_COSTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "costs[%d]", (int)i);
        for (size_t j = 0; j < sizeof costs / sizeof costs[0]; j++) {
            d = cpu;
            d.costs[i] = (float)costs[j];
            expect_option(&p, NULL, &d, CKCONV_ERR_ARGUMENT, name, "1/64 to 64");
        }
        d.costs[i] = 0.015f;
        expect_option(&p, NULL, &d, CKCONV_ERR_ARGUMENT, name, "0.015");
    }
#undef TRY
    memset(&d, 0, sizeof d); /* facts by hand: an unknown CPU without features, one thread */
    ckconv_plan plan;
    ckconv_error err;
    CHECK_OK(plan_problem(&plan, &p, NULL, &d, &err), err);
    d = cpu;
    memset(d.arch, 'x', sizeof d.arch); /* no 0 at its end */
    expect_option(&p, NULL, &d, CKCONV_ERR_ARGUMENT, "arch", "");
}

/*------------------------------------------------------------------------------------------------------------
  running: pointers, workspace, aliases
*/
typedef struct pointer {
    const char *name;
    size_t offset;
} pointer;

#define POINTER(member)                                                                                      \
    {                                                                                                        \
#member, offsetof(ckconv_args, member)                                                               \
    }

/* Required pointers, then those that may be NULL; index by operation. */
static const pointer required[7][8] = {
    {{NULL, 0}},
    {POINTER(in), POINTER(wei), POINTER(out), {NULL, 0}},
    {POINTER(dout), POINTER(wei), POINTER(din), {NULL, 0}},
    {POINTER(in), POINTER(dout), POINTER(dwei), {NULL, 0}},
    {POINTER(in), POINTER(wei), POINTER(wei1), POINTER(out), {NULL, 0}},
    {POINTER(in), POINTER(out), {NULL, 0}},
    {POINTER(in), POINTER(dout), {NULL, 0}},
};
static const pointer optional[7][8] = {
    {{NULL, 0}},
    {{NULL, 0}},
    {{NULL, 0}},
    {{NULL, 0}},
    {POINTER(scale), POINTER(shift), POINTER(mid), {NULL, 0}},
    {POINTER(gamma), POINTER(beta), POINTER(mean), POINTER(inv_std), {NULL, 0}},
    {POINTER(gamma), POINTER(beta), POINTER(din), POINTER(dgamma), POINTER(dbeta), {NULL, 0}},
};
/* All tensors that an operation writes or reads, for aliases. */
static const pointer written[7][5] = {
    {{NULL, 0}},
    {POINTER(out), {NULL, 0}},
    {POINTER(din), {NULL, 0}},
    {POINTER(dwei), {NULL, 0}},
    {POINTER(out), POINTER(mid), {NULL, 0}},
    {POINTER(out), POINTER(mean), POINTER(inv_std), {NULL, 0}},
    {POINTER(din), POINTER(dgamma), POINTER(dbeta), {NULL, 0}},
};
static const pointer readable[7][8] = {
    {{NULL, 0}},
    {POINTER(in), POINTER(wei), {NULL, 0}},
    {POINTER(dout), POINTER(wei), {NULL, 0}},
    {POINTER(in), POINTER(dout), {NULL, 0}},
    {POINTER(in), POINTER(wei), POINTER(wei1), POINTER(scale), POINTER(shift), {NULL, 0}},
    {POINTER(in), POINTER(gamma), POINTER(beta), {NULL, 0}},
    {POINTER(in),
     POINTER(dout),
     POINTER(gamma),
     POINTER(beta),
     POINTER(saved_mean),
     POINTER(saved_inv_std),
     {NULL, 0}},
};

static void set_pointer(ckconv_args *a, const pointer *p, const void *value)
{
    memcpy((unsigned char *)a + p->offset, &value, sizeof value);
}

static unsigned char *get_pointer(const ckconv_args *a, const pointer *p)
{
    unsigned char *value;
    memcpy(&value, (const unsigned char *)a + p->offset, sizeof value);
    return value;
}

static double workspace_memory[8192];

/* Run with every instance that supports the problem; all must answer alike and, when they refuse, write
   nothing. */
static void expect_run(const problem *p, const ckconv_args *a, ckconv_status want, const char *what,
                       const char *word)
{
    ckconv_plan base;
    ckconv_error err;
    ckconv_device cpu;
    ckconv_device_cpu(&cpu);
    cpu.threads = 1; /* hundreds of tiny runs: waking threads would take most of the time */
    if (!CHECK_OK(plan_problem(&base, p, NULL, &cpu, &err), err)) {
        return;
    }
    int runs = 0;
    for (int32_t i = 0; i < ckconv_instance_count(); i++) {
        if (!ckconv_instance_does(i, p->op) || ckconv_instance_supports(i, &base, &err) != CKCONV_OK) {
            continue;
        }
        ckconv_options o;
        ckconv_plan plan;
        memset(&o, 0, sizeof o);
        o.engine = ckconv_instance_engine(i);
        o.instance = ckconv_instance_name(i);
        if (!CHECK_OK(plan_problem(&plan, p, &o, &cpu, &err), err) ||
            !CHECK_MSG((size_t)plan.workspace_bytes <= sizeof workspace_memory, "%s: %lld bytes of workspace",
                       o.instance, (long long)plan.workspace_bytes)) {
            continue;
        }
        runs++;
        const size_t bytes = (size_t)plan.workspace_bytes;
        const ckconv_status status = ckconv_run(&plan, a, workspace_memory, bytes, NULL, &err);
        CHECK_MSG(status == want && err.status == status, "%s, %s, %s: status %d (%s), want %d",
                  op_name(p->op), what, o.instance, (int)status, err.text, (int)want);
        CHECK_MSG(want == CKCONV_OK || strstr(err.text, word) != NULL,
                  "%s, %s, %s: \"%s\" does not say \"%s\"", op_name(p->op), what, o.instance, err.text, word);
        CHECK_MSG(want == CKCONV_OK || arena_untouched(), "%s, %s, %s: something was written", op_name(p->op),
                  what, o.instance);
        arena_fill();
    }
    CHECK_MSG(runs >= 2, "%s: only %d instances ran", op_name(p->op), runs);
}

/* Give D tensors to operations that have them. */
static problem make_run_problem(ckconv_op op)
{
    problem p = make_problem(op, 1);
    if (!is_norm(op)) {
        epilogue_of(&p)->kind = CKCONV_ADD;
        set_num_d(&p, 3);
    }
    return p;
}

static void test_null(ckconv_op op)
{
    const problem p = make_run_problem(op);
    ckconv_args a;
    args_fill(&a);
    expect_run(&p, &a, CKCONV_OK, "all pointers given", "");
    for (const pointer *q = required[op]; q->name != NULL; q++) {
        args_fill(&a);
        set_pointer(&a, q, NULL);
        expect_run(&p, &a, CKCONV_ERR_NULL, q->name, q->name);
    }
    for (const pointer *q = optional[op]; q->name != NULL; q++) {
        args_fill(&a);
        set_pointer(&a, q, NULL);
        expect_run(&p, &a, CKCONV_OK, q->name, "");
    }
    for (int i = 0; i < 3 && !is_norm(op); i++) {
        char word[8];
        args_fill(&a);
        a.d[i] = NULL;
        snprintf(word, sizeof word, "d[%d]", i);
        expect_run(&p, &a, CKCONV_ERR_NULL, word, word);
    }
    if (op == CKCONV_GROUPNORM_BWD) {
        args_fill(&a);
        a.saved_mean = NULL;
        expect_run(&p, &a, CKCONV_ERR_NULL, "saved_mean alone is missing", "saved_mean");
        args_fill(&a);
        a.saved_inv_std = NULL;
        expect_run(&p, &a, CKCONV_ERR_NULL, "saved_inv_std alone is missing", "saved_inv_std");
        a.saved_mean = NULL;
        expect_run(&p, &a, CKCONV_OK, "no saved statistics", "");
        a.din = a.dgamma = a.dbeta = NULL;
        expect_run(&p, &a, CKCONV_ERR_NULL, "no output", "din");
    }
}

/* The structs themselves. */
static void test_null_structs(void)
{
    const problem conv = make_problem(CKCONV_FWD, 1), pair = make_problem(CKCONV_CONV_CONV_FWD, 1);
    const problem norm = make_problem(CKCONV_GROUPNORM_FWD, 1);
    ckconv_plan plan;
    ckconv_error err;
    ckconv_args a;
    ckconv_tensor_info info;
    ckconv_choice choice;
    int64_t out[3];
    int32_t count = 7;
    args_fill(&a);
#define EXPECT_NULL(call, word)                                                                              \
    CHECK_MSG((call) == CKCONV_ERR_NULL && strstr(err.text, word), "%s: %s", #call, err.text)
    EXPECT_NULL(ckconv_plan_conv(NULL, CKCONV_FWD, &conv.u.conv, NULL, NULL, &err), "plan");
    EXPECT_NULL(ckconv_plan_conv(&plan, CKCONV_FWD, NULL, NULL, NULL, &err), "desc");
    CHECK(plan.magic == 0);
    EXPECT_NULL(ckconv_plan_conv_conv(NULL, &pair.u.pair, NULL, NULL, &err), "plan");
    EXPECT_NULL(ckconv_plan_conv_conv(&plan, NULL, NULL, NULL, &err), "desc");
    EXPECT_NULL(ckconv_plan_groupnorm(NULL, CKCONV_GROUPNORM_FWD, &norm.u.norm, NULL, NULL, &err), "plan");
    EXPECT_NULL(ckconv_plan_groupnorm(&plan, CKCONV_GROUPNORM_FWD, NULL, NULL, NULL, &err), "desc");
    EXPECT_NULL(ckconv_fwd(NULL, a.in, a.wei, a.out, NULL, 0, NULL, &err), "desc");
    EXPECT_NULL(ckconv_bwd_data(NULL, a.din, a.wei, a.dout, NULL, 0, NULL, &err), "desc");
    EXPECT_NULL(ckconv_bwd_weight(NULL, a.in, a.dwei, a.dout, NULL, 0, NULL, &err), "desc");
    EXPECT_NULL(ckconv_conv_conv_fwd(NULL, a.in, a.wei, a.wei1, a.out, NULL, 0, NULL, &err), "desc");
    EXPECT_NULL(ckconv_groupnorm_fwd(NULL, a.in, NULL, NULL, a.out, NULL, NULL, NULL, 0, NULL, &err), "desc");
    EXPECT_NULL(ckconv_groupnorm_bwd(NULL, a.in, NULL, NULL, a.dout, NULL, NULL, a.din, NULL, NULL, NULL, 0,
                                     NULL, &err),
                "desc");
    EXPECT_NULL(ckconv_ref_conv(CKCONV_FWD, NULL, &a, &err), "desc");
    EXPECT_NULL(ckconv_ref_conv(CKCONV_FWD, &conv.u.conv, NULL, &err), "args");
    EXPECT_NULL(ckconv_ref_conv_conv(NULL, &a, &err), "desc");
    EXPECT_NULL(ckconv_ref_conv_conv(&pair.u.pair, NULL, &err), "args");
    EXPECT_NULL(ckconv_ref_groupnorm(CKCONV_GROUPNORM_FWD, NULL, &a, &err), "desc");
    EXPECT_NULL(ckconv_ref_groupnorm(CKCONV_GROUPNORM_FWD, &norm.u.norm, NULL, &err), "args");
    EXPECT_NULL(ckconv_conv_output(NULL, out, &err), "desc");
    EXPECT_NULL(ckconv_conv_output(&conv.u.conv, NULL, &err), "out");
    if (!CHECK_OK(ckconv_plan_conv(&plan, CKCONV_FWD, &conv.u.conv, NULL, NULL, &err), err)) {
        return;
    }
    ckconv_plan again;
    EXPECT_NULL(ckconv_run(NULL, &a, NULL, 0, NULL, &err), "plan");
    EXPECT_NULL(ckconv_run(&plan, NULL, NULL, 0, NULL, &err), "args");
    EXPECT_NULL(ckconv_plan_again(NULL, &plan, NULL, &err), "plan");
    EXPECT_NULL(ckconv_plan_again(&again, NULL, NULL, &err), "base");
    EXPECT_NULL(ckconv_plan_tensor(NULL, 0, &info, &err), "plan");
    EXPECT_NULL(ckconv_plan_tensor(&plan, 0, NULL, &err), "info");
    EXPECT_NULL(ckconv_instance_supports(0, NULL, &err), "base");
    EXPECT_NULL(ckconv_tune(NULL, &a, NULL, 0, NULL, 1, &choice, 1, &count, &err), "base");
    EXPECT_NULL(ckconv_tune(&plan, NULL, NULL, 0, NULL, 1, &choice, 1, &count, &err), "args");
    EXPECT_NULL(ckconv_tune(&plan, &a, NULL, 0, NULL, 1, NULL, 1, &count, &err), "choices");
    EXPECT_NULL(ckconv_tune(&plan, &a, NULL, 0, NULL, 1, &choice, 1, NULL, &err), "count");
    memset(&choice, 0, sizeof choice);
    EXPECT_NULL(ckconv_plan_choice(NULL, &plan, &choice, &err), "plan");
    EXPECT_NULL(ckconv_plan_choice(&again, NULL, &choice, &err), "base");
    EXPECT_NULL(ckconv_plan_choice(&again, &plan, NULL, &err), "choice");
    EXPECT_NULL(ckconv_choice_from_text(NULL, "ref 1 0 0", &err), "choice");
    EXPECT_NULL(ckconv_choice_from_text(&choice, NULL, &err), "text");
    EXPECT_NULL(ckconv_device_named(NULL, &again.device, &err), "arch");
    EXPECT_NULL(ckconv_device_named("gfx942", NULL, &err), "device");
#undef EXPECT_NULL
    CHECK(arena_untouched());
}

/* A plan that needs workspace refuses less of it, NULL, and workspace that is a tensor. */
static void test_workspace(ckconv_op op)
{
    problem p = make_problem(op, 2);
    ckconv_plan base;
    ckconv_error err;
    ckconv_args a;
    ckconv_device cpu;
    ckconv_device_cpu(&cpu);
    args_fill(&a);
    if (op == CKCONV_CONV_CONV_FWD) {
        p.u.pair.filter1[0] = p.u.pair.filter1[1] = 2;
    }
    if (!CHECK_OK(plan_problem(&base, &p, NULL, &cpu, &err), err)) {
        return;
    }
    int tried = 0;
    for (int32_t i = 0; i < ckconv_instance_count(); i++) {
        ckconv_options o;
        ckconv_plan plan;
        memset(&o, 0, sizeof o);
        o.engine = ckconv_instance_engine(i);
        o.instance = ckconv_instance_name(i);
        if (ckconv_instance_supports(i, &base, NULL) != CKCONV_OK || !ckconv_instance_does(i, op) ||
            plan_problem(&plan, &p, &o, &cpu, &err) != CKCONV_OK || plan.workspace_bytes == 0) {
            continue;
        }
        tried++;
        const size_t bytes = (size_t)plan.workspace_bytes;
        char need[24], have[24];
        snprintf(need, sizeof need, "%zu", bytes);
        snprintf(have, sizeof have, "%zu", bytes - 1);
        CHECK(ckconv_run(&plan, &a, workspace_memory, bytes - 1, NULL, &err) == CKCONV_ERR_WORKSPACE);
        CHECK_MSG(strstr(err.text, need) != NULL && strstr(err.text, have) != NULL, "%s: %s", o.instance,
                  err.text);
        CHECK(ckconv_run(&plan, &a, workspace_memory, 0, NULL, &err) == CKCONV_ERR_WORKSPACE);
        CHECK(ckconv_run(&plan, &a, NULL, bytes, NULL, &err) == CKCONV_ERR_WORKSPACE);
        CHECK_MSG(strstr(err.text, "NULL") != NULL, "%s: %s", o.instance, err.text);
        const ckconv_status status =
            ckconv_run(&plan, &a, get_pointer(&a, &readable[op][0]), bytes, NULL, &err);
        CHECK_MSG(status == CKCONV_ERR_ALIAS, "%s: the input as workspace: status %d", o.instance,
                  (int)status);
        const pointer *out = &written[op][0];
        CHECK(ckconv_run(&plan, &a, get_pointer(&a, out), bytes, NULL, &err) == CKCONV_ERR_ALIAS);
        CHECK(arena_untouched());
    }
    if (op == CKCONV_BWD_WEIGHT || op == CKCONV_CONV_CONV_FWD) {
        CHECK_MSG(tried > 0, "%s: no instance with workspace", op_name(op));
    }
}

/* Bytes of the tensor behind a pointer. */
static size_t bytes_of(const problem *p, const char *name)
{
    static const struct {
        const char *name;
        int32_t conv, norm;
    } which[] = {
        {"in", CKCONV_TENSOR_IN, CKCONV_TENSOR_IN},
        {"din", CKCONV_TENSOR_IN, CKCONV_TENSOR_DIN},
        {"wei", CKCONV_TENSOR_WEI, 0},
        {"dwei", CKCONV_TENSOR_WEI, 0},
        {"out", CKCONV_TENSOR_OUT, CKCONV_TENSOR_OUT},
        {"dout", CKCONV_TENSOR_OUT, CKCONV_TENSOR_OUT},
        {"wei1", CKCONV_TENSOR_WEI1, 0},
        {"mid", CKCONV_TENSOR_MID, 0},
        {"scale", CKCONV_TENSOR_CHANNEL, 0},
        {"shift", CKCONV_TENSOR_CHANNEL, 0},
        {"gamma", 0, CKCONV_TENSOR_CHANNEL},
        {"beta", 0, CKCONV_TENSOR_CHANNEL},
        {"dgamma", 0, CKCONV_TENSOR_CHANNEL},
        {"dbeta", 0, CKCONV_TENSOR_CHANNEL},
        {"mean", 0, CKCONV_TENSOR_STAT},
        {"inv_std", 0, CKCONV_TENSOR_STAT},
        {"saved_mean", 0, CKCONV_TENSOR_STAT},
        {"saved_inv_std", 0, CKCONV_TENSOR_STAT},
    };
    ckconv_plan plan;
    ckconv_error err;
    ckconv_tensor_info info;
    if (CHECK_OK(plan_problem(&plan, p, NULL, NULL, &err), err)) {
        for (size_t i = 0; i < sizeof which / sizeof which[0]; i++) {
            if (strcmp(which[i].name, name) == 0) {
                const int32_t w = is_norm(p->op) ? which[i].norm : which[i].conv;
                return CHECK_OK(ckconv_plan_tensor(&plan, w, &info, &err), err) ? (size_t)info.bytes : 0;
            }
        }
    }
    return 0;
}

/* a's tensor moved over b's: the first byte, the last one, the same place; touching is no overlap. */
static void expect_alias(const problem *p, const pointer *a, const pointer *b)
{
    ckconv_args args;
    char what[64];
    const size_t size_a = bytes_of(p, a->name), size_b = bytes_of(p, b->name);
    args_fill(&args);
    unsigned char *place = get_pointer(&args, b);
    const unsigned char *over[3] = {place, place + size_b - 1, place - (size_a - 1)};
    const unsigned char *beside[2] = {place + size_b, place - size_a};
    snprintf(what, sizeof what, "%s over %s", a->name, b->name);
    for (int i = 0; i < 3; i++) {
        set_pointer(&args, a, over[i]);
        expect_run(p, &args, CKCONV_ERR_ALIAS, what, a->name);
    }
    snprintf(what, sizeof what, "%s beside %s", a->name, b->name);
    for (int i = 0; i < 2; i++) {
        set_pointer(&args, a, beside[i]);
        expect_run(p, &args, CKCONV_OK, what, "");
    }
}

/* each: a group norm's parameters are those of each image */
static void test_alias(ckconv_op op, int each)
{
    problem p = make_problem(op, 2);
    if (is_norm(op)) {
        p.u.norm.param_per_image = each;
    }
    for (const pointer *a = written[op]; a->name != NULL; a++) {
        for (const pointer *b = readable[op]; b->name != NULL; b++) {
            expect_alias(&p, a, b);
        }
        for (const pointer *b = written[op]; b < a; b++) {
            expect_alias(&p, a, b);
        }
    }
}

/* A D tensor may be the output itself with the same type and strides, and nothing else of it. */
static void test_alias_d(ckconv_op op)
{
    problem p = make_problem(op, 2);
    ckconv_args a;
    epilogue_of(&p)->kind = CKCONV_ADD;
    set_num_d(&p, 2);
    ckconv_tensor *d = op == CKCONV_CONV_CONV_FWD ? p.u.pair.d : p.u.conv.d;
    args_fill(&a);
    unsigned char *out = get_pointer(&a, &written[op][0]);
    a.d[1] = out;
    expect_run(&p, &a, CKCONV_OK, "d[1] is the output", "");
    a.d[0] = out;
    expect_run(&p, &a, CKCONV_OK, "both D are the output", "");
    a.d[0] = slot(3);
    a.d[1] = out + 4;
    expect_run(&p, &a, CKCONV_ERR_ALIAS, "d[1] one element past the output", "d[1]");
    a.d[1] = out;
    d[1].dtype = CKCONV_F16;
    expect_run(&p, &a, CKCONV_ERR_ALIAS, "d[1] is the output as f16", "d[1]");
    d[1].dtype = CKCONV_I32;
    expect_run(&p, &a, CKCONV_ERR_ALIAS, "d[1] is the output as i32", "d[1]");
    d[1].dtype = 0;
    d[1].layout = op == CKCONV_BWD_WEIGHT ? CKCONV_GKCYX : CKCONV_NGCHW;
    expect_run(&p, &a, CKCONV_ERR_ALIAS, "d[1] is the output in another layout", "d[1]");
    d[1].layout = CKCONV_STRIDED; /* one number, broadcast */
    expect_run(&p, &a, CKCONV_ERR_ALIAS, "d[1] is the output's first element", "d[1]");
}

/* mid is written before the epilogue reads its D tensors: no D may be it, whatever its type and strides. */
static void test_alias_mid(void)
{
    problem p = make_problem(CKCONV_CONV_CONV_FWD, 2);
    ckconv_args a;
    p.u.pair.op_out.kind = CKCONV_BIAS;
    p.u.pair.num_d = 1;
    args_fill(&a);
    expect_run(&p, &a, CKCONV_OK, "mid and d[0] apart", "");
    a.d[0] = a.mid;
    expect_run(&p, &a, CKCONV_ERR_ALIAS, "d[0] is mid", "d[0]");
    a.d[0] = slot(3);
    a.mid = a.out;
    expect_run(&p, &a, CKCONV_ERR_ALIAS, "mid is out", "mid");
}

/* Reading the same memory twice is fine. */
static void test_shared_inputs(void)
{
    problem p = make_problem(CKCONV_FWD, 1);
    ckconv_args a;
    args_fill(&a);
    a.wei = a.in;
    expect_run(&p, &a, CKCONV_OK, "in and wei are one", "");
    p = make_problem(CKCONV_GROUPNORM_BWD, 1);
    args_fill(&a);
    a.beta = a.gamma;
    a.dout = a.in;
    expect_run(&p, &a, CKCONV_OK, "in and dout are one", "");
}

/*------------------------------------------------------------------------------------------------------------
  empty batches
*/
static void test_empty(ckconv_op op)
{
    problem p = make_problem(op, 2);
    ckconv_args a;
    if (op == CKCONV_CONV_CONV_FWD) {
        p.u.pair.conv0.n = 0;
    } else if (is_norm(op)) {
        p.u.norm.n = 0;
    } else {
        p.u.conv.n = 0;
    }
    args_fill(&a);
    expect_run(&p, &a, CKCONV_OK, "N = 0", "");
    /* tensors without elements need no memory */
    a.in = a.dout = NULL;
    if (op != CKCONV_BWD_WEIGHT) {
        a.out = a.din = a.mid = NULL;
        a.mean = a.inv_std = NULL;
        a.saved_mean = a.saved_inv_std = NULL;
    }
    expect_run(&p, &a, CKCONV_OK, "N = 0 and no memory", "");
    if (op == CKCONV_BWD_WEIGHT || op == CKCONV_GROUPNORM_BWD) {
        ckconv_error err;
        args_fill(&a);
        CHECK_OK(ref_problem(&p, &err), err);
        CHECK_OK(call_problem(&p, &err), err);
        const float *zero = (const float *)(op == CKCONV_BWD_WEIGHT ? a.dwei : a.dgamma);
        const int count = op == CKCONV_BWD_WEIGHT ? 72 : 6;
        int good = 1;
        for (int i = 0; i < count; i++) {
            good = good && zero[i] == 0.0f;
        }
        CHECK_MSG(good, "%s with N = 0 must write zeros", op_name(op));
        CHECK_MSG(zero[count] != 0.0f, "%s with N = 0 wrote too much", op_name(op));
    }
    arena_fill();
}

/*------------------------------------------------------------------------------------------------------------
  plans that are none
*/
static void expect_no_plan(const ckconv_plan *plan, const char *what)
{
    ckconv_args a;
    ckconv_error err;
    ckconv_plan other;
    ckconv_tensor_info info;
    ckconv_choice choice;
    char text[200];
    int32_t count = 0;
    args_fill(&a);
    memset(&choice, 0, sizeof choice);
    const ckconv_status status = ckconv_run(plan, &a, workspace_memory, sizeof workspace_memory, NULL, &err);
    CHECK_MSG(status == CKCONV_ERR_PLAN && error_whole(&err, status), "%s: run gives %d (%s)", what,
              (int)status, err.text);
    CHECK_MSG(ckconv_plan_tensor(plan, 0, &info, &err) == CKCONV_ERR_PLAN, "%s: plan_tensor", what);
    CHECK_MSG(ckconv_plan_again(&other, plan, NULL, &err) == CKCONV_ERR_PLAN, "%s: plan_again", what);
    CHECK_MSG(ckconv_instance_supports(0, plan, &err) == CKCONV_ERR_PLAN, "%s: instance_supports", what);
    CHECK_MSG(ckconv_plan_choice(&other, plan, &choice, &err) == CKCONV_ERR_PLAN, "%s: plan_choice", what);
    CHECK_MSG(ckconv_tune(plan, &a, workspace_memory, sizeof workspace_memory, NULL, 1, &choice, 1, &count,
                          &err) == CKCONV_ERR_PLAN,
              "%s: tune", what);
    memset(text, 0x55, sizeof text);
    const size_t length = ckconv_plan_describe(plan, text, sizeof text);
    CHECK_MSG(memchr(text, 0, sizeof text) != NULL && strlen(text) <= length, "%s: describe", what);
    CHECK_MSG(arena_untouched(), "%s: something was written", what);
}

static void test_foreign_plans(ckconv_op op)
{
    const problem p = make_problem(op, 1);
    ckconv_plan plan, bad;
    ckconv_error err;
    char what[64];
    memset(&bad, 0, sizeof bad);
    expect_no_plan(&bad, "a zeroed plan");
    memset(&bad, 0xff, sizeof bad);
    expect_no_plan(&bad, "a plan of ones");
    if (!CHECK_OK(plan_problem(&plan, &p, NULL, NULL, &err), err)) {
        return;
    }
    for (int bit = 0; bit < 32; bit++) {
        bad = plan;
        bad.magic ^= (uint32_t)1 << bit;
        snprintf(what, sizeof what, "%s, bit %d of magic", op_name(op), bit);
        expect_no_plan(&bad, what);
        bad = plan;
        bad.version ^= (uint32_t)1 << bit;
        snprintf(what, sizeof what, "%s, bit %d of version", op_name(op), bit);
        expect_no_plan(&bad, what);
    }
    /* a refused problem leaves such a plan behind */
    problem wrong = p;
    if (is_norm(op)) {
        wrong.u.norm.c = -1;
    } else if (op == CKCONV_CONV_CONV_FWD) {
        wrong.u.pair.conv0.c = -1;
    } else {
        wrong.u.conv.c = -1;
    }
    bad = plan;
    CHECK(plan_problem(&bad, &wrong, NULL, NULL, &err) != CKCONV_OK);
    expect_no_plan(&bad, "the plan of a refused problem");
}

/* A plan that was refused keeps the reason, and all that take a plan name it. */
static void expect_kept(ckconv_plan *plan, const ckconv_error *first, const char *what)
{
    ckconv_args a;
    ckconv_error err;
    ckconv_plan other;
    char text[400], want[300];
    args_fill(&a);
    snprintf(want, sizeof want, "plan was refused when it was made: %s", first->text);
    want[sizeof err.text - 1] = 0;
    CHECK_MSG(ckconv_run(plan, &a, workspace_memory, sizeof workspace_memory, NULL, &err) ==
                      CKCONV_ERR_PLAN &&
                  strcmp(err.text, want) == 0,
              "%s: run says \"%s\", planning \"%s\"", what, err.text, first->text);
    ckconv_plan_describe(plan, text, sizeof text);
    CHECK_MSG(strstr(text, first->text) != NULL, "%s: describe says %s", what, text);
    CHECK_MSG(ckconv_plan_again(&other, plan, NULL, &err) == CKCONV_ERR_PLAN &&
                  strncmp(err.text, "base was refused", 16) == 0,
              "%s: plan_again says %s", what, err.text);
    CHECK_MSG(ckconv_run(&other, &a, NULL, 0, NULL, &err) == CKCONV_ERR_PLAN &&
                  strstr(err.text, "base was refused") != NULL,
              "%s: run of plan_again says %s", what, err.text);
    expect_no_plan(plan, what);
    memset(&plan->u, 'x', sizeof plan->u); /* a text without an end */
    expect_no_plan(plan, what);
}

static void test_refused_plans(void)
{
    const problem conv = make_problem(CKCONV_FWD, 1), pair = make_problem(CKCONV_CONV_CONV_FWD, 1),
                  norm = make_problem(CKCONV_GROUPNORM_FWD, 1);
    ckconv_plan plan, good;
    ckconv_error err;
    ckconv_options o;
    ckconv_choice choice;
    problem wrong = conv;
    CHECK_OK(plan_problem(&good, &conv, NULL, NULL, &err), err);
    wrong.u.conv.pad_lo[0] = -1;
    plan = good;
    CHECK(plan_problem(&plan, &wrong, NULL, NULL, &err) != CKCONV_OK);
    expect_kept(&plan, &err, "plan_conv");
    plan = good;
    CHECK(ckconv_plan_conv(&plan, 7, &conv.u.conv, NULL, NULL, &err) != CKCONV_OK);
    expect_kept(&plan, &err, "plan_conv, op");
    plan = good;
    CHECK(ckconv_plan_conv(&plan, CKCONV_FWD, NULL, NULL, NULL, &err) != CKCONV_OK);
    expect_kept(&plan, &err, "plan_conv, NULL");
    memset(&o, 0, sizeof o);
    o.instance = "no_such_name";
    plan = good;
    CHECK(ckconv_plan_again(&plan, &plan, &o, &err) != CKCONV_OK);
    expect_kept(&plan, &err, "plan_again");
    wrong = pair;
    wrong.u.pair.k1 = 0;
    plan = good;
    CHECK(plan_problem(&plan, &wrong, NULL, NULL, &err) != CKCONV_OK);
    expect_kept(&plan, &err, "plan_conv_conv");
    wrong = norm;
    wrong.u.norm.eps = 0;
    plan = good;
    CHECK(plan_problem(&plan, &wrong, NULL, NULL, &err) != CKCONV_OK);
    expect_kept(&plan, &err, "plan_groupnorm");
    plan = good;
    CHECK(ckconv_plan_groupnorm(&plan, 1, &norm.u.norm, NULL, NULL, &err) != CKCONV_OK);
    expect_kept(&plan, &err, "plan_groupnorm, op");
    memset(&choice, 0, sizeof choice);
    choice.instance = -1;
    plan = good;
    CHECK(ckconv_plan_choice(&plan, &good, &choice, &err) != CKCONV_OK);
    expect_kept(&plan, &err, "plan_choice");
    plan = good; /* nobody asked for the text */
    wrong = conv;
    wrong.u.conv.k = 0;
    CHECK(plan_problem(&plan, &wrong, NULL, NULL, NULL) != CKCONV_OK);
    CHECK(ckconv_run(&plan, NULL, NULL, 0, NULL, &err) == CKCONV_ERR_PLAN &&
          strstr(err.text, "k is 0") != NULL);
    memset(&plan, 0, sizeof plan);
    CHECK(ckconv_run(&plan, NULL, NULL, 0, NULL, &err) == CKCONV_ERR_PLAN &&
          strstr(err.text, "not made by version") != NULL);
}

/* Flip bytes of a plan one after the other and use it, in a child: a signal is a failure, an error or a
   run are not. Tensors lie in the arena; a corrupted plan may not write outside it, which the arena's
   neighbours would show. */
static int flip_bytes(const ckconv_plan *plan, size_t from, size_t to, unsigned int seed)
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        test_rng r = test_seed(seed);
        alarm(60);
        for (size_t i = from; i < to; i++) {
            ckconv_plan bad = *plan;
            ckconv_args a;
            ckconv_tensor_info info;
            char text[300];
            args_fill(&a);
            ((unsigned char *)&bad)[i] ^= (unsigned char)test_range(&r, 1, 255);
            if (ckconv_run(&bad, &a, workspace_memory, sizeof workspace_memory, NULL, NULL) !=
                CKCONV_ERR_PLAN) {
                _exit(1);
            }
            (void)ckconv_plan_tensor(&bad, 0, &info, NULL);
            (void)ckconv_plan_describe(&bad, text, sizeof text);
            (void)ckconv_plan_again(&bad, &bad, NULL, NULL);
        }
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0) {
        return 0;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void test_corrupt_plans(ckconv_op op)
{
    const problem p = make_problem(op, 1);
    ckconv_plan plan;
    ckconv_error err;
    if (!CHECK_OK(plan_problem(&plan, &p, NULL, NULL, &err), err)) {
        return;
    }
    static const struct {
        const char *name;
        size_t from, to;
    } parts[] = {
        {"op", offsetof(ckconv_plan, op), offsetof(ckconv_plan, engine)},
        {"engine", offsetof(ckconv_plan, engine), offsetof(ckconv_plan, instance)},
        {"instance", offsetof(ckconv_plan, instance), offsetof(ckconv_plan, split_k)},
        {"split_k", offsetof(ckconv_plan, split_k), offsetof(ckconv_plan, workspace_bytes)},
        {"workspace_bytes", offsetof(ckconv_plan, workspace_bytes), offsetof(ckconv_plan, grid)},
        {"grid", offsetof(ckconv_plan, grid), offsetof(ckconv_plan, block)},
        {"block", offsetof(ckconv_plan, block), offsetof(ckconv_plan, launches)},
        {"launches", offsetof(ckconv_plan, launches), offsetof(ckconv_plan, flop)},
        {"flop, bytes", offsetof(ckconv_plan, flop), offsetof(ckconv_plan, device)},
        {"device", offsetof(ckconv_plan, device), offsetof(ckconv_plan, tune)},
        {"tune", offsetof(ckconv_plan, tune), offsetof(ckconv_plan, seal)},
        {"seal", offsetof(ckconv_plan, seal), offsetof(ckconv_plan, u)},
        {"u", offsetof(ckconv_plan, u), sizeof(ckconv_plan)},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        for (unsigned int seed = 0; seed < 3; seed++) {
            CHECK_MSG(flip_bytes(&plan, parts[i].from, parts[i].to, seed),
                      "%s: a plan with one wrong byte in %s (seed %u) runs, crashes or hangs", op_name(op),
                      parts[i].name, seed);
        }
    }
}

/*------------------------------------------------------------------------------------------------------------
  names and other small functions
*/
static void test_names(void)
{
    static const int32_t unknown[] = {-1, 29, 99999, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        CHECK(ckconv_dtype_name(unknown[i]) == NULL && ckconv_layout_name(unknown[i]) == NULL);
        CHECK(ckconv_op_name(unknown[i]) == NULL && ckconv_element_name(unknown[i]) == NULL);
        CHECK(ckconv_engine_name(unknown[i]) == NULL && ckconv_family_name(unknown[i]) == NULL);
        CHECK(ckconv_status_text(unknown[i]) != NULL && ckconv_status_text(unknown[i])[0] != 0);
        CHECK(ckconv_instance_name(unknown[i] == 29 ? 100000 : unknown[i]) == NULL);
        CHECK(ckconv_instance_engine(unknown[i] == 29 ? 100000 : unknown[i]) == 0);
        CHECK(ckconv_instance_family(unknown[i] == 29 ? 100000 : unknown[i]) == 0);
        CHECK(ckconv_instance_does(unknown[i] == 29 ? 100000 : unknown[i], CKCONV_FWD) == 0);
    }
    static const char *const no[] = {"", "F16", "f", "f166", "nonsense", "nhwgc ", " "};
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) {
        CHECK_MSG(ckconv_dtype_from_name(no[i]) == 0, "type \"%s\"", no[i]);
        CHECK_MSG(ckconv_layout_from_name(no[i]) == 0, "layout \"%s\"", no[i]);
        CHECK_MSG(ckconv_op_from_name(no[i]) == 0, "operation \"%s\"", no[i]);
        CHECK_MSG(ckconv_element_from_name(no[i]) == -1, "element operation \"%s\"", no[i]);
        CHECK_MSG(ckconv_engine_from_name(no[i]) <= 0, "engine \"%s\"", no[i]);
    }
    CHECK(ckconv_dtype_from_name(NULL) == 0 && ckconv_layout_from_name(NULL) == 0 &&
          ckconv_op_from_name(NULL) == 0);
    CHECK(ckconv_element_from_name(NULL) == -1);
    for (ckconv_status s = CKCONV_OK; s <= CKCONV_ERR_ALIAS; s++) {
        for (ckconv_status t = CKCONV_OK; t < s; t++) {
            CHECK_MSG(strcmp(ckconv_status_text(s), ckconv_status_text(t)) != 0,
                      "status %d and %d have one text", (int)s, (int)t);
        }
    }
    for (int32_t i = CKCONV_F64; i <= CKCONV_BF16X3; i++) {
        CHECK_MSG(ckconv_dtype_name(i) != NULL && ckconv_dtype_from_name(ckconv_dtype_name(i)) == i,
                  "type %d", (int)i);
    }
    for (int32_t i = CKCONV_NHWGC; i <= CKCONV_STRIDED; i++) {
        CHECK_MSG(ckconv_layout_name(i) != NULL && ckconv_layout_from_name(ckconv_layout_name(i)) == i,
                  "layout %d", (int)i);
    }
    for (int32_t i = CKCONV_FWD; i <= CKCONV_GROUPNORM_BWD; i++) {
        CHECK_MSG(ckconv_op_name(i) != NULL && ckconv_op_from_name(ckconv_op_name(i)) == i, "operation %d",
                  (int)i);
    }
    for (int32_t i = -1; i <= 64; i++) {
        const int known = i == 0 || test_find_element(i)->kind != CKCONV_PASS;
        const char *name = ckconv_element_name(i);
        CHECK_MSG(known ? name != NULL && ckconv_element_from_name(name) == i : name == NULL, "operation %d",
                  (int)i);
    }
    for (int32_t i = CKCONV_ENGINE_AUTO; i <= CKCONV_ENGINE_GPU; i++) {
        CHECK_MSG(ckconv_engine_name(i) != NULL && ckconv_engine_from_name(ckconv_engine_name(i)) == i,
                  "engine %d", (int)i);
    }
    static const struct {
        const char *name;
        ckconv_layout layout;
    } forms[] = {
        {"NHWGK", CKCONV_NHWGC},  {"GNHWK", CKCONV_GNHWC}, {"NGKHW", CKCONV_NGCHW},  {"NWGC", CKCONV_NHWGC},
        {"GNWC", CKCONV_GNHWC},   {"NGCW", CKCONV_NGCHW},  {"NDHWGC", CKCONV_NHWGC}, {"GNDHWC", CKCONV_GNHWC},
        {"NGCDHW", CKCONV_NGCHW}, {"GKXC", CKCONV_GKYXC},  {"GKCX", CKCONV_GKCYX},   {"GKZYXC", CKCONV_GKYXC},
        {"GKCZYX", CKCONV_GKCYX}, {"NWGK", CKCONV_NHWGC},  {"NGKDHW", CKCONV_NGCHW},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        CHECK_MSG(ckconv_layout_from_name(forms[i].name) == forms[i].layout, "layout %s", forms[i].name);
    }
}

int main(void)
{
    test_begin("test_check");
    arena_fill();
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_GROUPNORM_BWD; op++) {
        test_corrupt_plans(op); /* first: a child of a process that has OpenMP threads cannot use OpenMP */
    }
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_GROUPNORM_BWD; op++) {
        test_fields(op);
        test_strides(op);
        test_options(op);
        test_device(op);
        test_null(op);
        test_workspace(op);
        test_alias(op, 0);
        if (is_norm(op)) {
            test_alias(op, 1);
        }
        test_empty(op);
        test_foreign_plans(op);
        if (!is_norm(op)) {
            test_num_d(op);
            test_clamp(op);
            test_unused_parameters(op);
            test_d(op);
            test_alias_d(op);
        }
        if (op <= CKCONV_BWD_WEIGHT) {
            test_types(op);
        }
        if (is_norm(op)) {
            test_norm_types(op);
        }
    }
    test_pair_types();
    test_eps();
    test_op();
    test_nesting();
    test_no_output();
    test_overflow();
    test_null_structs();
    test_alias_mid();
    test_shared_inputs();
    test_refused_plans();
    test_names();
    return test_end();
}
