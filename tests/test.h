/* test.h - the harness of the tests: counting, number formats, guarded tensors, lines for the driver
   SPDX-License-Identifier: MIT

   A test program includes this file once, calls test_begin, checks with CHECK and CHECK_MSG, and returns
   test_end(). A failing check prints what failed and, when a plan is current (test.plan), the driver line
   `ckconv verify OP PROBLEM...` that shows the same problem. The last line is `test_x: N passed, N failed`.

   Number formats are written here a second time, from their definitions, so that a wrong conversion in the
   library cannot hide behind itself. */
#ifndef CKCONV_TEST_H
#define CKCONV_TEST_H

#include "ckconv.h"

#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TEST_ASAN 1
#endif
#endif
#ifndef TEST_ASAN
#define TEST_ASAN 0
#endif

/* Bytes before and after each buffer, enough for a store that is a row away. None where reads are seen too:
   under ASan, whose red zones begin at the first wrong byte, and on an emulator (tests/amd_tables.py), where
   a buffer ends at a page without access. */
#define TEST_GUARD ((size_t)(TEST_ASAN || getenv("CKCONV_SIM_EMULATOR") != NULL ? 0 : 2048))
#define TEST_CANARY 0xC7
#define TEST_MAX_PRINTED 40

#if defined(__GNUC__) || defined(__clang__)
#define TEST_PRINTF(a, b) __attribute__((format(printf, a, b)))
#else
#define TEST_PRINTF(a, b)
#endif

/*------------------------------------------------------------------------------------------------------------
  counting
*/
typedef struct test_state {
    const char *name;
    long passed, failed;
    const ckconv_plan *plan; /* of the check at hand, or NULL */
    char options[64];        /* more options of the driver, with a leading space */
    char extra[128];         /* words to add to a failing line */
} test_state;

static test_state test;

static inline int test_end(void)
{
    printf("%s: %ld passed, %ld failed\n", test.name, test.passed, test.failed);
    return test.failed != 0 || test.passed == 0 ? 1 : 0;
}

static inline int test_variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && strcmp(value, "") != 0 && strcmp(value, "0") != 0;
}

/* How much to run. 0: every kind of check on fewer problems, with CKCONV_TEST_QUICK=1 and for builds with
   sanitizers; 1: the default; 2: everything, with CKCONV_TEST_FULL=1 (1 with sanitizers). */
static inline int test_effort(void)
{
    const int effort = test_variable("CKCONV_TEST_QUICK") ? 0 : test_variable("CKCONV_TEST_FULL") ? 2 : 1;
    /* sanitizers and the simulator are slow */
    const int slow = TEST_ASAN || (getenv("CKCONV_SIM_TARGET") != NULL && effort < 2);
    return slow && effort > 0 ? effort - 1 : effort;
}

static inline int test_full(void)
{
    return test_effort() == 2;
}

static inline void test_print_list(const char *option, const int64_t *value, int32_t count)
{
    printf(" %s ", option);
    for (int32_t i = 0; i < count; i++) {
        printf("%s%lld", i > 0 ? "," : "", (long long)value[i]);
    }
}

static inline void test_print_number(const char *option, int64_t value)
{
    printf(" %s %lld", option, (long long)value);
}

static inline void test_print_word(const char *option, const char *word)
{
    printf(" %s %s", option, word != NULL ? word : "?");
}

/* Type, layout and strides of one tensor. Options: --[prefix]dtype, --[prefix]layout, --strides-name. */
static inline void test_print_tensor(const char *prefix, const char *name, const ckconv_tensor *t,
                                     int32_t ndim)
{
    char option[48];
    snprintf(option, sizeof option, "--%sdtype", prefix);
    if (strcmp(name, "mid") != 0) {
        test_print_word(option, ckconv_dtype_name(t->dtype));
    }
    if (t->layout == CKCONV_STRIDED) {
        snprintf(option, sizeof option, "--strides-%s", name);
        test_print_list(option, t->stride, 3 + ndim);
    } else {
        snprintf(option, sizeof option, "--%slayout", prefix);
        test_print_word(option, ckconv_layout_name(t->layout));
    }
}

/* Every element operation: D tensors that it takes, does it use alpha and beta, and does it need exp, erf or
   a division, so that the last bit of f32 is not defined. A second source beside the library's own table;
   tests take their lists from here. */
typedef struct test_element {
    ckconv_element kind;
    int low, high, alpha, beta, smooth;
} test_element;

static const test_element test_elements[] = {
    {CKCONV_PASS, 0, 0, 0, 0, 0},
    {CKCONV_SCALE, 0, 0, 1, 0, 0},
    {CKCONV_RELU, 0, 0, 0, 0, 0},
    {CKCONV_CLAMP, 0, 0, 1, 1, 0},
    {CKCONV_SIGMOID, 0, 0, 0, 0, 1},
    {CKCONV_SILU, 0, 0, 0, 0, 1},
    {CKCONV_GELU, 0, 0, 0, 0, 1},
    {CKCONV_TANH, 0, 0, 0, 0, 1},
    {CKCONV_LEAKY_RELU, 0, 0, 1, 0, 0},
    {CKCONV_HARDSIGMOID, 0, 0, 0, 0, 1},
    {CKCONV_HARDSWISH, 0, 0, 0, 0, 1},
    {CKCONV_BILINEAR, 1, 1, 1, 1, 0},
    {CKCONV_SCALE_ADD, 1, 1, 1, 0, 0},
    {CKCONV_BIAS, 1, 1, 0, 0, 0},
    {CKCONV_BIAS_RELU, 1, 1, 0, 0, 0},
    {CKCONV_BIAS_RESIDUAL_RELU, 2, 2, 0, 0, 0},
    {CKCONV_ADD, 1, 4, 0, 0, 0},
    {CKCONV_ADD_RELU, 1, 4, 0, 0, 0},
    {CKCONV_BIAS_SILU, 1, 1, 0, 0, 1},
    {CKCONV_BIAS_GELU, 1, 1, 0, 0, 1},
    {CKCONV_BIAS_RELU_ADD, 2, 2, 0, 0, 0},
    {CKCONV_SCALE_SHIFT, 2, 2, 0, 0, 0},
    {CKCONV_SCALE_SHIFT_RELU, 2, 2, 0, 0, 0},
    {CKCONV_RELU_BWD, 1, 1, 0, 0, 0},
    {CKCONV_CLAMP_BWD, 1, 1, 1, 1, 0},
    {CKCONV_SIGMOID_BWD, 1, 1, 0, 0, 0},
    {CKCONV_SILU_BWD, 1, 1, 0, 0, 1},
    {CKCONV_GELU_BWD, 1, 1, 0, 0, 1},
    {CKCONV_ACCUMULATE, 0, 0, 0, 0, 0},
};
#define TEST_ELEMENTS ((int)(sizeof test_elements / sizeof test_elements[0]))
#define TEST_UNARY 11 /* the first so many of them take no D tensor */
#define TEST_WITH_D (TEST_ELEMENTS - 1) /* and those from there to here do; the last one: test_bias.c */

static inline const test_element *test_find_element(ckconv_element kind)
{
    for (int i = 0; i < TEST_ELEMENTS; i++) {
        if (test_elements[i].kind == kind) {
            return &test_elements[i];
        }
    }
    return &test_elements[0];
}

static inline void test_print_element(const char *option, const ckconv_element_op *op)
{
    if (op->kind == CKCONV_PASS) {
        return;
    }
    test_print_word(option, ckconv_element_name(op->kind));
    if (test_find_element(op->kind)->beta) {
        printf(":%.9g:%.9g", op->alpha, op->beta);
    } else if (test_find_element(op->kind)->alpha) {
        printf(":%.9g", op->alpha);
    }
}

static inline void test_print_d(const ckconv_tensor *d, int32_t num_d, int32_t ndim)
{
    for (int32_t i = 0; i < num_d; i++) {
        char prefix[16];
        char name[16];
        snprintf(prefix, sizeof prefix, "d%d-", (int)i);
        snprintf(name, sizeof name, "d%d", (int)i);
        printf(" --d%d -", (int)i);
        test_print_tensor(prefix, name, &d[i], ndim);
    }
}

static inline void test_print_compute(const char *option, ckconv_dtype compute, ckconv_dtype stored)
{
    if (compute != 0 && compute != stored) {
        test_print_word(option, ckconv_dtype_name(compute));
    }
}

/* All of a convolution but out. */
static inline void test_print_conv(const ckconv_conv_desc *d)
{
    const int32_t nd = d->ndim;
    test_print_number("--ndim", nd);
    test_print_number("--g", d->g);
    test_print_number("--n", d->n);
    test_print_number("--k", d->k);
    test_print_number("--c", d->c);
    test_print_list("--filter", d->filter, nd);
    test_print_list("--input", d->input, nd);
    test_print_list("--stride", d->stride, nd);
    test_print_list("--dilation", d->dilation, nd);
    test_print_list("--pad", d->pad_lo, nd);
    test_print_list("--pad-hi", d->pad_hi, nd);
    test_print_tensor("", "in", &d->in, nd);
    test_print_tensor("wei-", "wei", &d->wei, nd);
    test_print_compute("--compute-in", d->compute_in, d->in.dtype);
    test_print_compute("--compute-wei", d->compute_wei, d->wei.dtype);
    test_print_element("--op-in", &d->op_in);
    test_print_element("--op-wei", &d->op_wei);
}

static inline void test_print_conv_conv(const ckconv_conv_conv_desc *d)
{
    const int32_t nd = d->conv0.ndim;
    test_print_conv(&d->conv0);
    test_print_tensor("mid-", "mid", &d->conv0.out, nd);
    test_print_element("--act0", &d->conv0.op_out);
    test_print_number("--k1", d->k1);
    test_print_number("--g1", d->g1);
    test_print_list("--filter1", d->filter1, nd);
    test_print_list("--stride1", d->stride1, nd);
    test_print_list("--dilation1", d->dilation1, nd);
    test_print_list("--pad1", d->pad_lo1, nd);
    test_print_list("--pad-hi1", d->pad_hi1, nd);
    test_print_tensor("wei1-", "wei1", &d->wei1, nd);
    test_print_compute("--compute-wei1", d->compute_wei1, d->wei1.dtype);
    test_print_element("--op-wei1", &d->op_wei1);
    test_print_tensor("out-", "out", &d->out, nd);
    test_print_element("--op-out", &d->op_out);
    test_print_d(d->d, d->num_d, nd);
}

static inline void test_print_groupnorm(const ckconv_groupnorm_desc *d, ckconv_op op)
{
    test_print_number("--ndim", d->ndim);
    test_print_number("--g", d->g);
    test_print_number("--n", d->n);
    test_print_number("--c", d->c);
    test_print_list("--input", d->input, d->ndim);
    printf(" --eps %.9g", d->eps);
    test_print_tensor("", "in", &d->in, d->ndim);
    test_print_tensor("out-", "out", &d->out, d->ndim);
    if (op == CKCONV_GROUPNORM_BWD) {
        test_print_tensor("din-", "din", &d->din, d->ndim);
    }
    test_print_word("--param-dtype", ckconv_dtype_name(d->param_dtype));
    if (d->act != CKCONV_PASS) {
        test_print_word("--act", ckconv_element_name(d->act));
    }
    if (d->param_per_image) {
        printf(" --per-image");
    }
}

/* The problem of a plan, data aside, as a line for the driver. What has no option there follows a #. */
static inline void test_print_plan(const ckconv_plan *p)
{
    const char *instance = ckconv_instance_name(p->instance);
    printf("  ckconv verify %s --engine %s --instance %s --threads %d", ckconv_op_name(p->op),
           ckconv_engine_name(p->engine), instance != NULL ? instance : "?", (int)p->device.threads);
    if (p->split_k > 1) {
        test_print_number("--split-k", p->split_k);
    }
    if (p->op == CKCONV_CONV_CONV_FWD) {
        test_print_conv_conv(&p->u.conv_conv);
    } else if (p->op == CKCONV_GROUPNORM_FWD || p->op == CKCONV_GROUPNORM_BWD) {
        test_print_groupnorm(&p->u.groupnorm, p->op);
    } else {
        const ckconv_conv_desc *d = &p->u.conv;
        test_print_conv(d);
        test_print_tensor("out-", "out", &d->out, d->ndim);
        test_print_compute("--compute-out", d->compute_out, d->out.dtype);
        if (d->dbias != 0) {
            test_print_word("--dbias-dtype", ckconv_dtype_name(d->dbias));
        }
        test_print_element("--op-out", &d->op_out);
        test_print_d(d->d, d->num_d, d->ndim);
    }
    printf("%s # features %d workspace %lld%s%s\n", test.options, (int)p->device.features,
           (long long)p->workspace_bytes, test.extra[0] != 0 ? " " : "", test.extra);
}

/* A crash ends the program, but not without the problem at hand. */
static inline void test_on_signal(int number)
{
    signal(number, SIG_DFL);
#if defined(__unix__) || defined(__APPLE__)
    alarm(5); /* what crashed may hold a lock of printf or malloc */
#endif
    printf("FAIL signal %d\n", number);
    if (test.plan != NULL && test.plan->magic != 0) {
        test_print_plan(test.plan);
    }
    printf("%s: %ld passed, %ld failed\n", test.name, test.passed, test.failed + 1);
    fflush(stdout);
    _Exit(1);
}

static inline void test_begin(const char *name)
{
    memset(&test, 0, sizeof test);
    test.name = name;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!TEST_ASAN) { /* which has its own */
        signal(SIGSEGV, test_on_signal);
        signal(SIGABRT, test_on_signal);
        signal(SIGFPE, test_on_signal);
    }
}

static inline void test_fail(const char *file, int line, const char *text)
{
    const char *base = strrchr(file, '/');
    test.failed++;
    if (test.failed <= TEST_MAX_PRINTED) {
        printf("FAIL %s:%d: %s\n", base != NULL ? base + 1 : file, line, text);
        if (test.plan != NULL && test.plan->magic != 0) {
            test_print_plan(test.plan);
        } else if (test.extra[0] != 0) {
            printf("  # %s\n", test.extra);
        }
    } else if (test.failed == TEST_MAX_PRINTED + 1) {
        printf("FAIL ... more failures are only counted\n");
    }
}

TEST_PRINTF(4, 5)
static inline int test_check(int good, const char *file, int line, const char *format, ...)
{
    if (good) {
        test.passed++;
        return 1;
    }
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    test_fail(file, line, text);
    return 0;
}

/* Both are 1 when the check passed. */
#define CHECK(cond) test_check((cond) ? 1 : 0, __FILE__, __LINE__, "%s", #cond)
#define CHECK_MSG(cond, ...) test_check((cond) ? 1 : 0, __FILE__, __LINE__, __VA_ARGS__)

static inline int test_check_ok(ckconv_status status, const ckconv_error *err, const char *file, int line)
{
    return test_check(status == CKCONV_OK, file, line, "status %d: %s", (int)status, err->text);
}

/* Did a switch leave it out of this build? With CKCONV_TEST_SUBSET such a plan is no failure, and there is
   none to run; otherwise the status must be CKCONV_OK. */
static inline int test_check_plan(ckconv_status status, const ckconv_error *err, const char *file, int line)
{
    const int subset = getenv("CKCONV_TEST_SUBSET") != NULL && status == CKCONV_ERR_UNSUPPORTED;
    if (subset && strstr(err->text, "was left out of this build by CKCONV_") != NULL) {
        return 0;
    }
    return test_check_ok(status, err, file, line);
}

#define CHECK_PLAN(status, err) test_check_plan((status), &(err), __FILE__, __LINE__)

/* A status that must be CKCONV_OK; prints the library's own words otherwise. */
#define CHECK_OK(status, err) test_check_ok((status), &(err), __FILE__, __LINE__)

/*------------------------------------------------------------------------------------------------------------
  random numbers (splitmix64): the same on every machine
*/
typedef struct test_rng {
    uint64_t state;
} test_rng;

static inline uint64_t test_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Any seeds, also consecutive ones, give independent streams. */
static inline test_rng test_seed(uint64_t seed)
{
    test_rng r;
    r.state = test_mix(seed ^ 0x1234567u) + test_mix(seed + 0x9E3779B97F4A7C15u) * 3u;
    return r;
}

static inline uint64_t test_next(test_rng *r)
{
    r->state += 0x9E3779B97F4A7C15u;
    return test_mix(r->state);
}

/* 0 .. count-1 */
static inline int64_t test_below(test_rng *r, int64_t count)
{
    return (int64_t)(test_next(r) % (uint64_t)count);
}

/* lo .. hi */
static inline int64_t test_range(test_rng *r, int64_t lo, int64_t hi)
{
    return lo + test_below(r, hi - lo + 1);
}

/* [0, 1) */
static inline double test_uniform(test_rng *r)
{
    return (double)(test_next(r) >> 11) * (1.0 / 9007199254740992.0);
}

/* Mean 0, variance 1. */
static inline double test_normal(test_rng *r)
{
    const double u = 1.0 - test_uniform(r);
    const double v = test_uniform(r);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

/*------------------------------------------------------------------------------------------------------------
  number formats
*/
typedef struct test_format {
    int mantissa, bias; /* stored mantissa bits; exponent bias */
    int bits;           /* of storage; 0: compute only */
    double largest;     /* finite */
    int saturates;      /* 1: a finite value never becomes infinite */
    int infinity;       /* 1: the format has one */
    int fnuz;
} test_format;

/* f32, tf32, f16, bf16 and the fp8 formats; 0 for others. */
static inline int test_get_format(ckconv_dtype dtype, test_format *f)
{
    static const struct {
        ckconv_dtype dtype;
        test_format format;
    } table[] = {
        {CKCONV_F32, {23, 127, 32, (double)FLT_MAX, 0, 1, 0}},
        {CKCONV_TF32, {10, 127, 0, 3.4011621342146535e38, 0, 1, 0}}, /* (2 - 2^-10) * 2^127 */
        {CKCONV_F16, {10, 15, 16, 65504.0, 0, 1, 0}},
        {CKCONV_BF16, {7, 127, 16, 3.3895313892515355e38, 0, 1, 0}}, /* (2 - 2^-7) * 2^127 */
        {CKCONV_F8E4M3, {3, 7, 8, 448.0, 1, 0, 0}},
        {CKCONV_F8E5M2, {2, 15, 8, 57344.0, 1, 1, 0}},
        {CKCONV_F8E4M3FNUZ, {3, 8, 8, 240.0, 1, 0, 1}},
        {CKCONV_F8E5M2FNUZ, {2, 16, 8, 57344.0, 1, 0, 1}},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (table[i].dtype == dtype) {
            *f = table[i].format;
            return 1;
        }
    }
    return 0;
}

static inline int test_is_integer(ckconv_dtype dtype)
{
    return dtype == CKCONV_I8 || dtype == CKCONV_I32;
}

static inline size_t test_size(ckconv_dtype dtype)
{
    test_format f;
    if (dtype == CKCONV_F64) {
        return 8;
    }
    if (dtype == CKCONV_I32) {
        return 4;
    }
    if (dtype == CKCONV_I8) {
        return 1;
    }
    return test_get_format(dtype, &f) ? (size_t)f.bits / 8 : 0;
}

/* Distance between neighbours of a format around x. */
static inline double test_ulp(ckconv_dtype dtype, double x)
{
    test_format f;
    if (test_is_integer(dtype)) {
        return 1.0;
    }
    if (dtype == CKCONV_F64) {
        f.mantissa = 52;
        f.bias = 1023;
    } else if (!test_get_format(dtype, &f)) {
        return 0.0;
    }
    int e = x == 0.0 ? 1 - f.bias : ilogb(x);
    if (e < 1 - f.bias) {
        e = 1 - f.bias;
    }
    return ldexp(1.0, e - f.mantissa);
}

/* The value nearest to x, ties to even, in a storage or compute type. */
static inline double test_round(ckconv_dtype dtype, double x)
{
    test_format f;
    if (dtype == CKCONV_F64) {
        return x;
    }
    if (dtype == CKCONV_I8 || dtype == CKCONV_I32) {
        const double low = dtype == CKCONV_I8 ? -128.0 : -2147483648.0;
        const double high = dtype == CKCONV_I8 ? 127.0 : 2147483647.0;
        return isnan(x) ? 0.0 : x <= low ? low : x >= high ? high : rint(x) + 0.0;
    }
    if (dtype == CKCONV_BF16X3) {
        const double high = test_round(CKCONV_BF16, x);
        return isfinite(high) ? high + test_round(CKCONV_BF16, x - high) : high;
    }
    if (!test_get_format(dtype, &f) || isnan(x)) {
        return x;
    }
    if (x == 0.0) {
        return f.fnuz ? 0.0 : x;
    }
    if (isinf(x)) {
        return f.infinity ? x : f.fnuz ? (double)NAN : copysign(f.largest, x);
    }
    const double ulp = test_ulp(dtype, x);
    const double r = rint(x / ulp) * ulp;
    if (fabs(r) > f.largest) {
        return f.saturates ? copysign(f.largest, x) : copysign(HUGE_VAL, x);
    }
    return r == 0.0 ? (f.fnuz ? 0.0 : copysign(0.0, x)) : r;
}

/* Bits of a value that the format holds exactly (test_round first). */
static inline uint32_t test_bits(const test_format *f, double x)
{
    const uint32_t sign = signbit(x) ? 1u << (f->bits - 1) : 0u;
    const uint32_t exponent_mask = (1u << (f->bits - 1 - f->mantissa)) - 1u;
    if (isnan(x)) {
        if (f->fnuz) {
            return 0x80u;
        }
        return (1u << (f->bits - 1)) - 1u; /* all ones: a NaN of every other format */
    }
    if (isinf(x)) {
        return sign | (exponent_mask << f->mantissa);
    }
    if (x == 0.0) {
        return f->fnuz ? 0u : sign;
    }
    const int e = ilogb(x);
    if (e < 1 - f->bias) {
        return sign | (uint32_t)ldexp(fabs(x), f->mantissa + f->bias - 1);
    }
    const uint32_t m = (uint32_t)ldexp(fabs(x), f->mantissa - e) - (1u << f->mantissa);
    return sign | ((uint32_t)(e + f->bias) << f->mantissa) | m;
}

static inline double test_value(const test_format *f, uint32_t bits)
{
    const uint32_t exponent_mask = (1u << (f->bits - 1 - f->mantissa)) - 1u;
    const uint32_t exponent = (bits >> f->mantissa) & exponent_mask;
    const uint32_t m = bits & ((1u << f->mantissa) - 1u);
    const double sign = (bits >> (f->bits - 1)) & 1u ? -1.0 : 1.0;
    if (f->fnuz) {
        if (bits == 0x80u) {
            return (double)NAN;
        }
    } else if (f->infinity && exponent == exponent_mask) {
        return m != 0 ? (double)NAN : sign * HUGE_VAL;
    } else if (!f->infinity && exponent == exponent_mask && m == (1u << f->mantissa) - 1u) {
        return (double)NAN;
    }
    if (exponent == 0) {
        return sign * ldexp((double)m, 1 - f->bias - f->mantissa);
    }
    return sign * ldexp((double)(m + (1u << f->mantissa)), (int)exponent - f->bias - f->mantissa);
}

static inline void test_encode(ckconv_dtype dtype, double x, void *to)
{
    test_format f;
    const double r = test_round(dtype, x);
    if (dtype == CKCONV_F64) {
        memcpy(to, &r, 8);
    } else if (dtype == CKCONV_F32) {
        const float v = (float)r;
        memcpy(to, &v, 4);
    } else if (dtype == CKCONV_I32) {
        const int32_t v = (int32_t)r;
        memcpy(to, &v, 4);
    } else if (dtype == CKCONV_I8) {
        const int8_t v = (int8_t)r;
        memcpy(to, &v, 1);
    } else if (test_get_format(dtype, &f)) {
        const uint32_t bits = test_bits(&f, r);
        const uint16_t two = (uint16_t)bits;
        const uint8_t one = (uint8_t)bits;
        memcpy(to, f.bits == 16 ? (const void *)&two : (const void *)&one, (size_t)f.bits / 8);
    }
}

/* All values of an 8 or 16-bit format, made on first use. */
static inline const double *test_values(ckconv_dtype dtype)
{
    static double *table[CKCONV_F8E5M2FNUZ + 1];
    test_format f;
    if (table[dtype] == NULL && test_get_format(dtype, &f)) {
        const uint32_t count = 1u << f.bits;
        table[dtype] = (double *)malloc(count * sizeof(double));
        if (table[dtype] == NULL) {
            printf("%s: out of memory\n", test.name);
            exit(3);
        }
        for (uint32_t i = 0; i < count; i++) {
            table[dtype][i] = test_value(&f, i);
        }
    }
    return table[dtype];
}

static inline double test_decode(ckconv_dtype dtype, const void *from)
{
    float f;
    double d;
    int32_t i;
    int8_t b;
    uint16_t h;
    uint8_t u;
    switch (dtype) {
    case CKCONV_F64:
        memcpy(&d, from, 8);
        return d;
    case CKCONV_F32:
        memcpy(&f, from, 4);
        return (double)f;
    case CKCONV_I32:
        memcpy(&i, from, 4);
        return (double)i;
    case CKCONV_I8:
        memcpy(&b, from, 1);
        return (double)b;
    case CKCONV_F16:
    case CKCONV_BF16:
        memcpy(&h, from, 2);
        return test_values(dtype)[h];
    case CKCONV_F8E4M3:
    case CKCONV_F8E5M2:
    case CKCONV_F8E4M3FNUZ:
    case CKCONV_F8E5M2FNUZ:
        memcpy(&u, from, 1);
        return test_values(dtype)[u];
    default:
        return (double)NAN;
    }
}

/*------------------------------------------------------------------------------------------------------------
  memory between guard bands
*/
typedef struct test_buffer {
    unsigned char *base, *data;
    size_t bytes, before;
} test_buffer;

/* All buffers that are alive, so that test_run finds what a pointer belongs to. */
enum { TEST_BUFFERS = 256 };
static test_buffer test_buffers[TEST_BUFFERS];

/* CKCONV_TEST_ENGINE=gpu: the same tables on the GPU, or on the simulator where the program holds it. */
static inline int test_on_gpu(void)
{
    const char *engine = getenv("CKCONV_TEST_ENGINE");
    return engine != NULL && strcmp(engine, "gpu") == 0;
}

/* The simulator is slow: tables thin themselves out there, unless all of them were asked for. */
static inline int test_thin(void)
{
    return test_on_gpu() && getenv("CKCONV_SIM_TARGET") != NULL && test_effort() < 2;
}

/* Which rows of a thin table run: others for each simulated target. */
static inline int test_thin_turn(void)
{
    int sum = 0;
    for (const char *c = test_thin() ? getenv("CKCONV_SIM_TARGET") : ""; *c != 0; c++) {
        sum += *c;
    }
    return sum;
}

static inline ckconv_engine test_engine(void)
{
    return test_on_gpu() ? CKCONV_ENGINE_GPU : CKCONV_ENGINE_CPU;
}

/* offset: bytes past an aligned address, to test misaligned pointers. */
static inline void test_buffer_make(test_buffer *b, size_t bytes, size_t offset)
{
    b->bytes = bytes;
    b->before = TEST_GUARD + offset;
    const size_t total = b->before + bytes + TEST_GUARD;
    b->base = (unsigned char *)malloc(total > 0 ? total : 1);
    if (b->base == NULL) {
        printf("%s: out of memory (%zu bytes)\n", test.name, bytes);
        exit(3);
    }
    b->data = b->base + b->before;
    memset(b->base, TEST_CANARY, b->before);
    memset(b->data + bytes, TEST_CANARY, TEST_GUARD);
    for (int i = 0; i < TEST_BUFFERS; i++) {
        if (test_buffers[i].base == NULL) {
            test_buffers[i] = *b;
            return;
        }
    }
    printf("%s: more than %d buffers\n", test.name, TEST_BUFFERS);
    exit(3);
}

static inline void test_buffer_free(test_buffer *b)
{
    for (int i = 0; i < TEST_BUFFERS; i++) {
        if (b->base != NULL && test_buffers[i].base == b->base) {
            test_buffers[i].base = NULL;
        }
    }
    free(b->base);
    memset(b, 0, sizeof *b);
}

static inline int test_all_bytes(const unsigned char *p, size_t bytes, int value)
{
    return bytes == 0 || (p[0] == (unsigned char)value && memcmp(p, p + 1, bytes - 1) == 0);
}

static inline int test_guards_intact(const test_buffer *b)
{
    return test_all_bytes(b->base, b->before, TEST_CANARY) &&
           test_all_bytes(b->data + b->bytes, TEST_GUARD, TEST_CANARY);
}

/* Copies on a device of all buffers that pointers point into: whole, with their guards, aligned alike. */
typedef struct test_copies {
    const ckconv_device *device;
    unsigned char *copy[TEST_BUFFERS];
} test_copies;

/* Replace each pointer by the one into the copy of its buffer. */
static inline ckconv_status test_upload(test_copies *c, const ckconv_device *device, unsigned char **pointer,
                                        int count, ckconv_error *err)
{
    ckconv_status status = ckconv_device_open(device, err);
    memset(c, 0, sizeof *c);
    c->device = device;
    for (int i = 0; i < count && status == CKCONV_OK; i++) {
        int j = 0;
        while (j < TEST_BUFFERS && pointer[i] != NULL &&
               (test_buffers[j].base == NULL || pointer[i] < test_buffers[j].base ||
                pointer[i] > test_buffers[j].data + test_buffers[j].bytes)) {
            j++;
        }
        if (pointer[i] == NULL) {
            continue;
        }
        if (j == TEST_BUFFERS) {
            printf("%s: a pointer that is no test buffer\n", test.name);
            exit(3);
        }
        const test_buffer *b = &test_buffers[j];
        const size_t total = b->before + b->bytes + TEST_GUARD;
        if (c->copy[j] == NULL) {
            c->copy[j] = (unsigned char *)ckconv_device_alloc(device, total, err);
            status = c->copy[j] == NULL ? CKCONV_ERR_MEMORY
                                        : ckconv_device_upload(device, c->copy[j], b->base, total, err);
        }
        pointer[i] = c->copy[j] + (pointer[i] - b->base);
    }
    return status;
}

/* Everything back, when status is CKCONV_OK, and the copies freed. */
static inline ckconv_status test_download(test_copies *c, ckconv_status status, ckconv_error *err)
{
    for (int j = 0; j < TEST_BUFFERS; j++) {
        if (c->copy[j] != NULL && status == CKCONV_OK) {
            status = ckconv_device_download(c->device, test_buffers[j].base, c->copy[j],
                                            test_buffers[j].before + test_buffers[j].bytes + TEST_GUARD, err);
        }
        ckconv_device_free(c->device, c->copy[j]);
    }
    return status;
}

/* ckconv_run; a GPU plan runs on copies. */
static inline ckconv_status test_run(const ckconv_plan *plan, const ckconv_args *args, void *workspace,
                                     size_t workspace_bytes, void *stream, ckconv_error *err)
{
    if (plan->engine != CKCONV_ENGINE_GPU) {
        return ckconv_run(plan, args, workspace, workspace_bytes, stream, err);
    }
    enum { POINTERS = (int)(sizeof(ckconv_args) / sizeof(void *)) };
    unsigned char *pointer[POINTERS + 1];
    ckconv_args moved;
    test_copies copies;
    memcpy(pointer, args, sizeof *args);
    pointer[POINTERS] = (unsigned char *)workspace;
    ckconv_status status = test_upload(&copies, &plan->device, pointer, POINTERS + 1, err);
    if (status == CKCONV_OK) {
        memcpy(&moved, pointer, sizeof moved);
        status = ckconv_run(plan, &moved, pointer[POINTERS], workspace_bytes, stream, err);
    }
    return test_download(&copies, status, err);
}

/*------------------------------------------------------------------------------------------------------------
  tensors: up to six logical dimensions at any strides
*/
typedef struct test_tensor {
    ckconv_dtype dtype;
    int rank;
    int64_t length[6], stride[6]; /* past rank: 1 and 0 */
    int64_t count;
    test_buffer buffer;
    int poison;
} test_tensor;

/* A byte that is NaN when repeated, or an unlikely number in formats without one. */
static inline int test_poison_byte(ckconv_dtype dtype)
{
    if (dtype == CKCONV_F8E4M3FNUZ || dtype == CKCONV_F8E5M2FNUZ) {
        return 0x80;
    }
    return test_is_integer(dtype) ? 0x85 : 0xFF;
}

static inline void test_poison(test_tensor *t)
{
    memset(t->buffer.data, t->poison, t->buffer.bytes);
}

static inline void test_tensor_make(test_tensor *t, ckconv_dtype dtype, int rank, const int64_t *length,
                                    const int64_t *stride, size_t offset)
{
    memset(t, 0, sizeof *t);
    t->dtype = dtype;
    t->rank = rank;
    t->count = 1;
    int64_t last = 0;
    for (int i = 0; i < 6; i++) {
        t->length[i] = i < rank ? length[i] : 1;
        t->stride[i] = i < rank ? stride[i] : 0;
        t->count *= t->length[i];
        last += (t->length[i] - 1) * t->stride[i];
    }
    const size_t bytes = t->count == 0 ? 0 : (size_t)(last + 1) * test_size(dtype);
    /* a GPU takes pointers that are aligned to an element, but not to a vector of them */
    test_buffer_make(&t->buffer, bytes, test_on_gpu() && offset > 0 ? test_size(dtype) : offset);
    t->poison = test_poison_byte(dtype);
    test_poison(t);
}

static inline void test_tensor_free(test_tensor *t)
{
    test_buffer_free(&t->buffer);
}

static inline void *test_data(const test_tensor *t)
{
    return t->buffer.base != NULL ? t->buffer.data : NULL;
}

/* Next logical index in row-major order; the element's offset follows. */
static inline void test_step(const test_tensor *t, int64_t *index, int64_t *offset)
{
    for (int i = t->rank - 1; i >= 0; i--) {
        *offset += t->stride[i];
        if (++index[i] < t->length[i]) {
            return;
        }
        *offset -= index[i] * t->stride[i];
        index[i] = 0;
    }
}

/* Logical index of the element number `at`, as text. */
static inline void test_place(const test_tensor *t, int64_t at, char *text, size_t size)
{
    int64_t index[6] = {0, 0, 0, 0, 0, 0};
    for (int d = t->rank - 1; d >= 0; d--) {
        index[d] = at % t->length[d];
        at /= t->length[d];
    }
    size_t used = 0;
    text[0] = 0;
    for (int d = 0; d < t->rank && used < size; d++) {
        used += (size_t)snprintf(text + used, size - used, "%s%lld", d > 0 ? "," : "", (long long)index[d]);
    }
}

/* Elements to doubles in row-major logical order, and back (rounded). */
static inline void test_gather(const test_tensor *t, double *to)
{
    int64_t index[6] = {0, 0, 0, 0, 0, 0};
    int64_t offset = 0;
    const size_t size = test_size(t->dtype);
    for (int64_t i = 0; i < t->count; i++) {
        to[i] = test_decode(t->dtype, t->buffer.data + (size_t)offset * size);
        test_step(t, index, &offset);
    }
}

static inline void test_scatter(const test_tensor *t, const double *from)
{
    int64_t index[6] = {0, 0, 0, 0, 0, 0};
    int64_t offset = 0;
    const size_t size = test_size(t->dtype);
    for (int64_t i = 0; i < t->count; i++) {
        test_encode(t->dtype, from[i], t->buffer.data + (size_t)offset * size);
        test_step(t, index, &offset);
    }
}

/* 1 when all bytes that belong to no element still hold the poison. Poisons the elements on the way. */
static inline int test_gaps_intact(test_tensor *t)
{
    int64_t index[6] = {0, 0, 0, 0, 0, 0};
    int64_t offset = 0;
    const size_t size = test_size(t->dtype);
    for (int64_t i = 0; i < t->count; i++) {
        memset(t->buffer.data + (size_t)offset * size, t->poison, size);
        test_step(t, index, &offset);
    }
    return test_all_bytes(t->buffer.data, t->buffer.bytes, t->poison);
}

/* Nothing written at all: every byte still poison. */
static inline int test_untouched(const test_tensor *t)
{
    return test_guards_intact(&t->buffer) && test_all_bytes(t->buffer.data, t->buffer.bytes, t->poison);
}

static inline double *test_doubles(int64_t count)
{
    double *p = (double *)calloc(count > 0 ? (size_t)count : 1u, sizeof(double));
    if (p == NULL) {
        printf("%s: out of memory (%lld doubles)\n", test.name, (long long)count);
        exit(3);
    }
    return p;
}

/*------------------------------------------------------------------------------------------------------------
  layouts
*/

/* Strides of dimensions that lie in memory in the order outer..inner without gaps. */
static inline void test_order_strides(int rank, const int64_t *length, const int *order, int64_t *stride)
{
    int64_t next = 1;
    for (int i = rank - 1; i >= 0; i--) {
        stride[order[i]] = next;
        next *= length[order[i]] > 0 ? length[order[i]] : 1;
    }
}

/* Strides of a named layout for a tensor of logical order G, N, C, spatial (or G, K, C, filter). */
static inline void test_layout_strides(ckconv_layout layout, int32_t ndim, const int64_t *length,
                                       int64_t *stride)
{
    int order[6];
    int n = 0;
    const int last = 3 + (int)ndim;
    if (layout == CKCONV_NHWGC) {
        order[n++] = 1;
        for (int i = 3; i < last; i++) {
            order[n++] = i;
        }
        order[n++] = 0;
        order[n++] = 2;
    } else if (layout == CKCONV_GNHWC || layout == CKCONV_GKYXC) {
        order[n++] = 0;
        order[n++] = 1;
        for (int i = 3; i < last; i++) {
            order[n++] = i;
        }
        order[n++] = 2;
    } else {
        order[n++] = layout == CKCONV_NGCHW ? 1 : 0;
        order[n++] = layout == CKCONV_NGCHW ? 0 : 1;
        order[n++] = 2;
        for (int i = 3; i < last; i++) {
            order[n++] = i;
        }
    }
    test_order_strides(last, length, order, stride);
}

/* A zeroed description with these sizes; k and c per group. */
static inline void test_layer(ckconv_conv_desc *d, int64_t ndim, int64_t g, int64_t n, int64_t k, int64_t c)
{
    memset(d, 0, sizeof *d);
    d->ndim = (int32_t)ndim;
    d->g = g;
    d->n = n;
    d->k = k;
    d->c = c;
}

/* Its windows, in z, y, x order. */
static inline void test_windows(ckconv_conv_desc *d, const int64_t *filter, const int64_t *input,
                                const int64_t *stride, const int64_t *dilation, const int64_t *lo,
                                const int64_t *hi)
{
    memcpy(d->filter, filter, sizeof d->filter);
    memcpy(d->input, input, sizeof d->input);
    memcpy(d->stride, stride, sizeof d->stride);
    memcpy(d->dilation, dilation, sizeof d->dilation);
    memcpy(d->pad_lo, lo, sizeof d->pad_lo);
    memcpy(d->pad_hi, hi, sizeof d->pad_hi);
}

/* Strides in a random order with random gaps; they nest, so a tensor that is written may have them. */
static inline void test_gap_strides(test_rng *r, int32_t ndim, const int64_t *length, int64_t *stride)
{
    int order[6] = {0, 1, 2, 3, 4, 5};
    const int rank = 3 + (int)ndim;
    for (int i = rank - 1; i > 0; i--) {
        const int j = (int)test_below(r, i + 1);
        const int swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    int64_t next = test_range(r, 1, 2);
    for (int i = rank - 1; i >= 0; i--) {
        const int d = order[i];
        stride[d] = next;
        next = next * (length[d] > 0 ? length[d] : 1) + test_range(r, 0, 3);
    }
}

/*------------------------------------------------------------------------------------------------------------
  devices
*/

/* The facts of this CPU with all its features, with AVX2 at most, and with none; equal ones once; of the GPU
   where that is under test. Returns how many. */
static inline int test_cpu_devices(ckconv_device devices[3])
{
    static const int32_t masks[3] = {~0, CKCONV_CPU_AVX2, 0};
    ckconv_device found;
    int count = 0;
    memset(&found, 0, sizeof found);
    if (test_on_gpu()) {
        ckconv_error err;
        CHECK_OK(ckconv_device_gpu(0, &devices[0], &err), err);
        return 1;
    }
    ckconv_device_cpu(&found);
    for (int i = 0; i < 3; i++) {
        devices[count] = found;
        devices[count].features &= masks[i];
        if (count == 0 || devices[count].features != devices[count - 1].features) {
            count++;
        }
    }
    return count;
}

/* 1 for an instance whose name says that it needs a CPU feature that is not here. */
static inline int test_needs_other_cpu(int32_t instance)
{
    const char *name = ckconv_instance_name(instance);
    ckconv_device found;
    memset(&found, 0, sizeof found);
    ckconv_device_cpu(&found);
    return (strstr(name, "avx2") != NULL && !(found.features & CKCONV_CPU_AVX2)) ||
           (strstr(name, "avx512") != NULL && !(found.features & CKCONV_CPU_AVX512)) ||
           (strstr(name, "bf16") != NULL && !(found.features & CKCONV_CPU_AVX512_BF16));
}

/* 1 for a convolution's tile that is too large for this GPU's LDS. */
static inline int test_lacks_lds(int32_t instance)
{
    ckconv_conv_desc d;
    ckconv_error err;
    memset(&d, 0, sizeof d);
    memset(&err, 0, sizeof err);
    d.ndim = 2;
    d.n = 1;
    d.k = d.c = 256;
    d.filter[0] = d.filter[1] = 1;
    d.input[0] = d.input[1] = 16;
    d.in.dtype = CKCONV_F16;
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_BWD_WEIGHT; op++) {
        ckconv_plan plan;
        if (ckconv_instance_does(instance, op) &&
            ckconv_plan_conv(&plan, op, &d, NULL, NULL, &err) == CKCONV_OK &&
            ckconv_instance_supports(instance, &plan, &err) != CKCONV_OK &&
            strstr(err.text, "bytes of LDS") != NULL) {
            return 1;
        }
    }
    return 0;
}

/* Parameters that a kind of element operation does not use must be 0. */
static inline void test_trim_element(ckconv_element_op *op)
{
    const test_element *e = test_find_element(op->kind);
    op->alpha = e->alpha ? op->alpha : 0.0;
    op->beta = e->beta ? op->beta : 0.0;
}

/* Does an instance, or one of a family, plan a dense convolution in f16, forward or backward? Every matrix
   unit computes that. */
static inline int test_plans_f16(const char *name)
{
    ckconv_conv_desc d;
    ckconv_options o;
    memset(&d, 0, sizeof d);
    memset(&o, 0, sizeof o);
    d.ndim = 2;
    d.n = 1;
    d.k = d.c = 256;
    d.filter[0] = d.filter[1] = 1;
    d.input[0] = d.input[1] = 16;
    d.in.dtype = CKCONV_F16;
    o.instance = name;
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_BWD_WEIGHT; op++) {
        ckconv_plan plan;
        ckconv_error err;
        if (ckconv_plan_conv(&plan, op, &d, &o, NULL, &err) == CKCONV_OK) {
            return 1;
        }
    }
    return 0;
}

/* 1 for an instance of a matrix unit that this GPU does not have, or whose tile is too large for it. */
static inline int test_needs_other_gpu(int32_t instance)
{
    const char *name = ckconv_instance_name(instance);
    ckconv_device found;
    ckconv_error err;
    memset(&found, 0, sizeof found);
    if (!test_on_gpu() || ckconv_device_gpu(0, &found, &err) != CKCONV_OK) {
        return 0;
    }
    const int large = (strstr(name, "depth_matrix_256") != NULL || strstr(name, "depth_strips") != NULL) &&
                      (found.lds_bytes < 232448 || found.kind != CKCONV_DEVICE_NVIDIA);
    const int wide = strstr(name, "_mfma_") != NULL && strstr(name, "256") != NULL;
    return large || test_lacks_lds(instance) || (wide && !test_plans_f16(name)) ||
           (strstr(name, "_mfma_") != NULL && !test_plans_f16("mfma")) ||
           (strstr(name, "_wmma_") != NULL && !test_plans_f16("wmma")) ||
           (strstr(name, "_mma_") != NULL && !test_plans_f16("mma"));
}

/* The next instance from *index on that supports the problem of base, as a plan; 0 when there is none left.
   Start with *index 0. with_ref: the reference too. An instance that supports a problem must plan it. */
static inline int test_next_plan(const ckconv_plan *base, int with_ref, int32_t *index, ckconv_plan *plan)
{
    while (*index < ckconv_instance_count()) {
        const int32_t i = (*index)++;
        const ckconv_engine engine = ckconv_instance_engine(i);
        ckconv_options options;
        ckconv_error err;
        memset(&err, 0, sizeof err);
        memset(&options, 0, sizeof options);
        options.engine = engine;
        options.instance = ckconv_instance_name(i);
        if ((engine != test_engine() && !(with_ref && engine == CKCONV_ENGINE_REF)) ||
            !ckconv_instance_does(i, base->op) || ckconv_instance_supports(i, base, &err) != CKCONV_OK) {
            continue;
        }
        test.plan = base;
        if (CHECK_OK(ckconv_plan_again(plan, base, &options, &err), err)) {
            return 1;
        }
    }
    return 0;
}

#endif /* CKCONV_TEST_H */
