/* test_math.c - number formats and element operations: conversions exhaustively, engines against double
   arithmetic
   SPDX-License-Identifier: MIT

   Expected values come from tables that test_value (ldexp arithmetic) builds, never from the library: a
   value rounds to whichever neighbour in the table is nearer, and to the one with an even code at the
   midpoint. */
#include "../examples/bounds.h"
#include "naive.h"

enum { MAX_CODES = 32768 };

static const ckconv_dtype small_types[] = {CKCONV_F16,    CKCONV_BF16,       CKCONV_F8E4M3,
                                           CKCONV_F8E5M2, CKCONV_F8E4M3FNUZ, CKCONV_F8E5M2FNUZ};
enum { SMALL_TYPES = (int)(sizeof small_types / sizeof small_types[0]) };

/* All finite values without a sign, rising: value[code] is what code means. */
typedef struct codes {
    ckconv_dtype dtype;
    test_format format;
    const char *name;
    uint32_t sign, count; /* the sign bit; finite codes are 0..count-1 */
    double value[MAX_CODES];
} codes;

static void make_codes(codes *t, ckconv_dtype dtype)
{
    test_get_format(dtype, &t->format);
    t->dtype = dtype;
    t->name = ckconv_dtype_name(dtype) != NULL ? ckconv_dtype_name(dtype) : "?";
    t->sign = 1u << (t->format.bits - 1);
    t->count = 0;
    while (t->count < t->sign) {
        const double v = test_value(&t->format, t->count);
        if (isnan(v) || isinf(v)) {
            break;
        }
        t->value[t->count++] = v;
    }
}

static uint32_t encode(ckconv_dtype dtype, double x)
{
    uint32_t code = 0;
    uint16_t two = 0xBEEFu;
    uint8_t one = 0xA5u;
    if (ckconv_dtype_size(dtype) == 2) {
        ckconv_from_double(dtype, &x, &two, 1);
        code = two;
    } else {
        ckconv_from_double(dtype, &x, &one, 1);
        code = one;
    }
    return code;
}

static double decode(ckconv_dtype dtype, uint32_t code)
{
    const uint16_t two = (uint16_t)code;
    const uint8_t one = (uint8_t)code;
    double x = -12345.0;
    ckconv_to_double(dtype, ckconv_dtype_size(dtype) == 2 ? (const void *)&two : (const void *)&one, &x, 1);
    return x;
}

/* The same number, the sign of zero included; any NaN is like another. */
static int same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b));
}

/* The code of -v when v has `code`: a format without -0 has one zero. */
static uint32_t negative(const codes *t, uint32_t code)
{
    return t->format.fnuz && code == 0 ? 0 : code | t->sign;
}

static void test_every_code(const codes *t)
{
    const uint32_t all = t->sign * 2;
    for (uint32_t code = 0; code < all; code++) {
        const double want = test_value(&t->format, code);
        const double got = decode(t->dtype, code);
        CHECK_MSG(same(got, want), "%s code 0x%x is %.17g, want %.17g", t->name, (unsigned)code, got, want);
        const uint32_t back = encode(t->dtype, got);
        if (isnan(want)) {
            CHECK_MSG(isnan(test_value(&t->format, back)), "%s: NaN (0x%x) came back as 0x%x", t->name,
                      (unsigned)code, (unsigned)back);
        } else if (isinf(want)) {
            CHECK_MSG(back == code, "%s: infinity 0x%x came back as 0x%x", t->name, (unsigned)code,
                      (unsigned)back);
        } else {
            CHECK_MSG(back == code, "%s: 0x%x (%.17g) came back as 0x%x", t->name, (unsigned)code, want,
                      (unsigned)back);
        }
    }
}

static void expect_code(const codes *t, double x, uint32_t want)
{
    uint32_t got = encode(t->dtype, x);
    CHECK_MSG(got == want, "%s of %a is 0x%x, want 0x%x", t->name, x, (unsigned)got, (unsigned)want);
    want = negative(t, want);
    got = encode(t->dtype, -x);
    CHECK_MSG(got == want, "%s of %a is 0x%x, want 0x%x", t->name, -x, (unsigned)got, (unsigned)want);
}

/* Midpoints and the doubles next to them: a conversion by way of float takes those for the midpoint. */
static void test_midpoints(const codes *t)
{
    for (uint32_t code = 0; code + 1 < t->count; code++) {
        const double low = t->value[code], high = t->value[code + 1];
        const double middle = low + (high - low) / 2;
        expect_code(t, middle, code % 2 == 0 ? code : code + 1);
        expect_code(t, nextafter(middle, 0.0), code);
        expect_code(t, nextafter(middle, HUGE_VAL), code + 1);
        expect_code(t, nextafter(low, HUGE_VAL), code);
        expect_code(t, nextafter(high, 0.0), code + 1);
    }
}

static void test_overflow(const codes *t)
{
    const uint32_t top = t->count - 1;
    const double largest = t->value[top];
    const double half_step = (largest - t->value[top - 1]) / 2;
    const uint32_t over = t->format.saturates ? top : top + 1;
    CHECK_MSG(largest == t->format.largest, "%s: largest finite value is %.17g", t->name, largest);
    expect_code(t, nextafter(largest + half_step, 0.0), top);
    expect_code(t, largest + half_step, over);
    expect_code(t, largest * 2, over);
    expect_code(t, (double)FLT_MAX, over);
    expect_code(t, DBL_MAX, over);
    expect_code(t, DBL_MIN, 0);
    expect_code(t, nextafter(0.0, 1.0), 0);
    const uint32_t inf = encode(t->dtype, HUGE_VAL), minus_inf = encode(t->dtype, -HUGE_VAL);
    if (t->format.infinity) {
        CHECK_MSG(inf == top + 1 && minus_inf == ((top + 1) | t->sign), "%s: infinity is 0x%x and 0x%x",
                  t->name, (unsigned)inf, (unsigned)minus_inf);
    } else if (t->format.fnuz) {
        CHECK_MSG(inf == 0x80u && minus_inf == 0x80u, "%s: infinity must become NaN", t->name);
    } else {
        CHECK_MSG(inf == top && minus_inf == (top | t->sign), "%s: infinity must become the largest value",
                  t->name);
    }
    CHECK_MSG(isnan(decode(t->dtype, encode(t->dtype, (double)NAN))), "%s: NaN must stay NaN", t->name);
    CHECK_MSG(encode(t->dtype, -0.0) == (t->format.fnuz ? 0u : t->sign), "%s of -0", t->name);
}

/* The nearest code by search in the table. */
static uint32_t nearest(const codes *t, double x)
{
    const double a = fabs(x);
    uint32_t low = 0,
             high = t->count; /* value[low] <= a < value[high], where one past the end is out of range */
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        if (t->value[middle] <= a) {
            low = middle;
        } else {
            high = middle;
        }
    }
    uint32_t code = low;
    if (low + 1 == t->count) {
        const double half_step = (t->value[low] - t->value[low - 1]) / 2;
        if (a - t->value[low] >= half_step && !t->format.saturates) {
            code = low + 1;
        }
    } else {
        const double below = a - t->value[low], above = t->value[low + 1] - a;
        code = above < below || (above == below && low % 2 == 1) ? low + 1 : low;
    }
    return signbit(x) ? negative(t, code) : code;
}

static void test_random_doubles(const codes *t)
{
    test_rng r = test_seed(11u + (uint64_t)t->dtype);
    const long count = test_full() ? 2000000 : 100000;
    const int lowest = ilogb(t->value[1]) - 3, highest = ilogb(t->format.largest) + 2;
    for (long i = 0; i < count; i++) {
        const int exponent = (int)test_range(&r, lowest, highest);
        double x = ldexp(1.0 + test_uniform(&r), exponent);
        x = test_below(&r, 2) != 0 ? x : -x;
        const uint32_t got = encode(t->dtype, x), want = nearest(t, x);
        if (got != want || i == 0) {
            CHECK_MSG(got == want, "%s of %a is 0x%x, want 0x%x", t->name, x, (unsigned)got, (unsigned)want);
        }
    }
    test.passed++;
}

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

/* f32: every exponent, a few mantissas, the midpoint above each and the doubles next to it. */
static void test_f32(void)
{
    static const uint32_t mantissas[] = {0, 1, 2, 0x3ffffe, 0x3fffff, 0x400000, 0x555555, 0x7ffffe, 0x7fffff};
    for (uint32_t exponent = 0; exponent < 255; exponent++) {
        for (size_t i = 0; i < sizeof mantissas / sizeof mantissas[0]; i++) {
            const uint32_t code = exponent << 23 | mantissas[i];
            const double low = (double)float_of(code);
            const double high = code == 0x7f7fffffu ? ldexp(1.0, 128) : (double)float_of(code + 1);
            const double middle = low + (high - low) / 2;
            const double x[4] = {low, nextafter(middle, 0.0), middle, nextafter(middle, HUGE_VAL)};
            const uint32_t want[4] = {code, code, code + code % 2, code + 1};
            uint32_t got[4];
            double minus[4], back[4];
            ckconv_from_double(CKCONV_F32, x, got, 4);
            CHECK_MSG(memcmp(got, want, sizeof got) == 0, "f32 around %a: 0x%x 0x%x 0x%x 0x%x", low,
                      (unsigned)got[0], (unsigned)got[1], (unsigned)got[2], (unsigned)got[3]);
            for (int j = 0; j < 4; j++) {
                minus[j] = -x[j];
            }
            ckconv_from_double(CKCONV_F32, minus, got, 4);
            CHECK_MSG(got[0] == (want[0] | 0x80000000u) && got[2] == (want[2] | 0x80000000u), "f32 around %a",
                      -low);
            ckconv_to_double(CKCONV_F32, got, back, 1);
            CHECK_MSG(same(back[0], minus[0]), "f32 0x%x is %a, want %a", (unsigned)got[0], back[0],
                      minus[0]);
        }
    }
    const double special[4] = {HUGE_VAL, -HUGE_VAL, DBL_MAX, -DBL_MAX};
    float f[4];
    ckconv_from_double(CKCONV_F32, special, f, 4);
    CHECK(isinf(f[0]) && f[0] > 0 && isinf(f[1]) && f[1] < 0 && isinf(f[2]) && f[2] > 0 && isinf(f[3]) &&
          f[3] < 0);
    const double not_a_number = (double)NAN;
    ckconv_from_double(CKCONV_F32, &not_a_number, f, 1);
    CHECK(isnan(f[0]));
}

static void test_f64(void)
{
    const double x[8] = {0.0,      -0.0,     1.0 / 3.0, DBL_MAX,
                         -DBL_MIN, HUGE_VAL, -HUGE_VAL, 4.9406564584124654e-324};
    double stored[8], back[8];
    ckconv_from_double(CKCONV_F64, x, stored, 8);
    ckconv_to_double(CKCONV_F64, stored, back, 8);
    CHECK(memcmp(x, stored, sizeof x) == 0);
    CHECK(memcmp(x, back, sizeof x) == 0);
}

static void expect_int(double x, int32_t want8, int32_t want32)
{
    int8_t a = 99;
    int32_t b = 99;
    ckconv_from_double(CKCONV_I8, &x, &a, 1);
    ckconv_from_double(CKCONV_I32, &x, &b, 1);
    CHECK_MSG((int32_t)a == want8, "i8 of %.17g is %d, want %d", x, (int)a, (int)want8);
    CHECK_MSG(b == want32, "i32 of %.17g is %d, want %d", x, (int)b, (int)want32);
}

static void test_integers(void)
{
    for (int i = -140; i <= 140; i++) {
        const int clipped = i < -128 ? -128 : i > 127 ? 127 : i;
        const int next = i + 1 < -128 ? -128 : i + 1 > 127 ? 127 : i + 1;
        const int even = i % 2 == 0 ? i : i + 1;
        const int even8 = i % 2 == 0 ? clipped : next;
        expect_int((double)i, clipped, i);
        expect_int(i + 0.5, even8, even);
        expect_int(nextafter(i + 0.5, -1000.0), clipped, i);
        expect_int(nextafter(i + 0.5, 1000.0), next, i + 1);
    }
    expect_int((double)NAN, 0, 0);
    expect_int(HUGE_VAL, 127, INT32_MAX);
    expect_int(-HUGE_VAL, -128, INT32_MIN);
    expect_int(1e300, 127, INT32_MAX);
    expect_int(2147483646.5, 127, 2147483646);
    expect_int(2147483647.5, 127, INT32_MAX);
    expect_int(-2147483648.5, -128, INT32_MIN);
    expect_int(-2147483649.0, -128, INT32_MIN);
    expect_int(-2147483646.5, -128, -2147483646);
    for (int i = -128; i < 128; i++) {
        const int8_t a = (int8_t)i;
        const int32_t b = i * 16777213;
        double x = 0.5, y = 0.5;
        ckconv_to_double(CKCONV_I8, &a, &x, 1);
        ckconv_to_double(CKCONV_I32, &b, &y, 1);
        CHECK_MSG(x == (double)i && y == (double)b, "i8 %d is %g, i32 %d is %g", i, x, (int)b, y);
    }
}

/* Arrays of every length at a misaligned address convert as single values do, and nothing beside them is
   touched. */
static void test_arrays(void)
{
    enum { LENGTH = 70 };
    test_rng r = test_seed(5);
    for (ckconv_dtype dtype = CKCONV_F64; dtype <= CKCONV_I32; dtype++) {
        const size_t size = ckconv_dtype_size(dtype);
        CHECK_MSG(size == test_size(dtype), "size of type %d is %zu", (int)dtype, size);
        for (size_t n = 0; n <= LENGTH; n++) {
            double x[LENGTH + 1], back[LENGTH + 1];
            unsigned char bytes[(LENGTH + 2) * 8 + 1], one[8];
            int good = 1;
            for (size_t i = 0; i < n; i++) {
                x[i] = test_normal(&r) * 100.0;
            }
            memset(bytes, 0xC7, sizeof bytes);
            back[n] = -7.0;
            ckconv_from_double(dtype, x, bytes + 1, n);
            ckconv_to_double(dtype, bytes + 1, back, n);
            for (size_t i = 0; i < n; i++) {
                test_encode(dtype, x[i], one);
                good = good && memcmp(one, bytes + 1 + i * size, size) == 0 &&
                       same(back[i], test_decode(dtype, one));
            }
            good = good && bytes[0] == 0xC7 &&
                   test_all_bytes(bytes + 1 + n * size, sizeof bytes - 1 - n * size, 0xC7);
            CHECK_MSG(good && back[n] == -7.0, "%s: an array of %zu", ckconv_dtype_name(dtype), n);
        }
    }
}

static void test_unknown_types(void)
{
    static const ckconv_dtype unknown[] = {0, -1, CKCONV_TF32, CKCONV_BF16X3, 13, 99, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        const double x = 3.0;
        double back = -7.0;
        unsigned char bytes[16];
        memset(bytes, 0xC7, sizeof bytes);
        ckconv_from_double(unknown[i], &x, bytes, 1);
        ckconv_to_double(unknown[i], bytes, &back, 1);
        CHECK_MSG(test_all_bytes(bytes, sizeof bytes, 0xC7) && back == -7.0, "type %d converted",
                  (int)unknown[i]);
        CHECK_MSG(ckconv_dtype_size(unknown[i]) == 0, "type %d has a size", (int)unknown[i]);
    }
}

/*------------------------------------------------------------------------------------------------------------
  the same rules inside the engines: a 1x1 convolution with one channel is an element-wise map
*/
typedef struct map {
    ckconv_conv_desc desc;
    int64_t count;
    const void *in, *d;
    double weight;
    unsigned char *out;
    size_t out_bytes;
    const char *what;
} map;

static void map_begin(map *m, ckconv_dtype dtype, int64_t count, const char *what)
{
    memset(m, 0, sizeof *m);
    m->desc.ndim = 1;
    m->desc.n = m->desc.k = m->desc.c = 1;
    m->desc.filter[0] = 1;
    m->desc.input[0] = count;
    m->desc.in.dtype = m->desc.wei.dtype = m->desc.out.dtype = dtype;
    m->count = count;
    m->weight = 1.0;
    m->what = what;
}

typedef void (*map_judge)(const map *m, const char *instance, const void *context);

/* Run forward with every instance that can, and let judge look at the result. */
static void map_run(map *m, map_judge judge, const void *context)
{
    ckconv_error err;
    ckconv_plan base;
    ckconv_device cpu;
    ckconv_device_cpu(&cpu);
    if (!CHECK_OK(ckconv_plan_conv(&base, CKCONV_FWD, &m->desc, NULL, &cpu, &err), err)) {
        return;
    }
    m->out_bytes = (size_t)m->count * ckconv_dtype_size(base.u.conv.out.dtype);
    m->out = (unsigned char *)malloc(m->out_bytes);
    unsigned char wei[8];
    test_encode(base.u.conv.wei.dtype, m->weight, wei);
    int runs = 0;
    for (int32_t i = 0; i < ckconv_instance_count(); i++) {
        if (!ckconv_instance_does(i, CKCONV_FWD) || ckconv_instance_supports(i, &base, &err) != CKCONV_OK) {
            continue;
        }
        ckconv_options options;
        ckconv_plan plan;
        ckconv_args args;
        memset(&options, 0, sizeof options);
        memset(&args, 0, sizeof args);
        options.engine = ckconv_instance_engine(i);
        options.instance = ckconv_instance_name(i);
        if (!CHECK_OK(ckconv_plan_conv(&plan, CKCONV_FWD, &m->desc, &options, &cpu, &err), err)) {
            continue;
        }
        args.in = m->in;
        args.wei = wei;
        args.d[0] = m->d;
        args.out = m->out;
        memset(m->out, 0xC7, m->out_bytes);
        void *workspace = malloc((size_t)plan.workspace_bytes + 1);
        if (CHECK_OK(ckconv_run(&plan, &args, workspace, (size_t)plan.workspace_bytes, NULL, &err), err)) {
            test.plan = &plan;
            judge(m, ckconv_instance_name(i), context);
            test.plan = NULL;
            runs++;
        }
        free(workspace);
    }
    free(m->out);
    CHECK_MSG(runs >= 2, "%s: ref and a cpu instance must both run, %d did", m->what, runs);
}

/* Judge a whole run as one check: the wanted results, in the type of the output. */
static void judge_equal(const map *m, const char *instance, const void *context)
{
    const double *want = (const double *)context;
    const ckconv_dtype dtype = m->desc.out.dtype;
    const size_t size = test_size(dtype);
    for (int64_t i = 0; i < m->count; i++) {
        unsigned char bytes[8];
        test_encode(dtype, want[i], bytes);
        const double w = test_decode(dtype, bytes), got = test_decode(dtype, m->out + (size_t)i * size);
        if (!same(got, w) && !(got == 0.0 && w == 0.0)) {
            CHECK_MSG(0, "%s, %s, element %lld: %.17g (%a), want %.17g", m->what, instance, (long long)i, got,
                      got, w);
            return;
        }
    }
    test.passed++;
}

/* Every code read: times 1, stored again. */
static void test_engine_reads(const codes *t)
{
    const int64_t count = (int64_t)t->sign * 2;
    unsigned char *in = (unsigned char *)malloc((size_t)count * 2);
    double *want = test_doubles(count);
    for (int64_t i = 0; i < count; i++) {
        const uint16_t two = (uint16_t)i;
        const uint8_t one = (uint8_t)i;
        memcpy(in + i * (t->format.bits / 8), t->format.bits == 16 ? (const void *)&two : (const void *)&one,
               (size_t)t->format.bits / 8);
        want[i] = test_value(&t->format, (uint32_t)i);
    }
    map m;
    map_begin(&m, t->dtype, count, "every code times 1");
    m.in = in;
    map_run(&m, judge_equal, want);
    if (t->format.bits == 8) { /* and into the wider outputs that fp8 may have */
        static const ckconv_dtype outs[] = {CKCONV_F16, CKCONV_BF16, CKCONV_F32};
        for (size_t i = 0; i < sizeof outs / sizeof outs[0]; i++) {
            map_begin(&m, t->dtype, count, "every fp8 code into a wider type");
            m.desc.out.dtype = outs[i];
            m.in = in;
            map_run(&m, judge_equal, want);
        }
    }
    free(in);
    free(want);
}

/* The final rounding: 0 + D with D in f32 at every midpoint of the output's type, and at the floats
   beside it. */
static void test_engine_writes(const codes *t)
{
    const int64_t count = 6 * (int64_t)(t->count - 1) + 8;
    float *d = (float *)malloc((size_t)count * sizeof(float));
    double *want = test_doubles(count);
    unsigned char *in = (unsigned char *)calloc((size_t)count, 2);
    int64_t n = 0;
    for (uint32_t code = 0; code + 1 < t->count; code++) {
        const double middle = t->value[code] + (t->value[code + 1] - t->value[code]) / 2;
        const float f =
            (float)middle; /* exact: every one of these formats is at least a bit narrower than f32 */
        d[n++] = f;
        d[n++] = nextafterf(f, 0.0f);
        d[n++] = nextafterf(f, HUGE_VALF);
        d[n++] = -f;
        d[n++] = -nextafterf(f, 0.0f);
        d[n++] = -nextafterf(f, HUGE_VALF);
    }
    const double half_step = (t->value[t->count - 1] - t->value[t->count - 2]) / 2;
    const float past = (float)fmin(t->format.largest + half_step, (double)FLT_MAX);
    const float last[8] = {past,       -past, nextafterf(past, 0.0f), FLT_MAX, -FLT_MAX, HUGE_VALF,
                           -HUGE_VALF, NAN};
    memcpy(d + n, last, sizeof last);
    for (int64_t i = 0; i < count; i++) {
        want[i] = (double)d[i];
    }
    map m;
    map_begin(&m, t->dtype, count, "final rounding");
    m.desc.op_out.kind = CKCONV_BIAS;
    m.desc.num_d = 1;
    m.desc.d[0].dtype = CKCONV_F32;
    m.in = in;
    m.d = d;
    map_run(&m, judge_equal, want);
    free(d);
    free(want);
    free(in);
}

/* f16 computed in fp8: every f16 value, rounded to the format, stored as f16 again. */
static void test_compute_fp8(const codes *f16, const codes *t)
{
    enum { COUNT = 65536 };
    uint16_t *in = (uint16_t *)malloc(COUNT * sizeof(uint16_t));
    double *want = test_doubles(COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        const double x = test_value(&f16->format, i);
        in[i] = (uint16_t)i;
        want[i] = isnan(x) || isinf(x) ? test_round(t->dtype, x) : test_value(&t->format, nearest(t, x));
    }
    map m;
    map_begin(&m, CKCONV_F16, COUNT, "f16 computed in fp8");
    m.desc.compute_in = t->dtype;
    m.desc.compute_wei = CKCONV_F8E4M3; /* holds 1 exactly */
    m.in = in;
    map_run(&m, judge_equal, want);
    free(in);
    free(want);
}

/* f32 computed in a narrower type: midpoints and their neighbours at every exponent. */
static void test_compute_f32(ckconv_dtype compute)
{
    static const uint32_t tails[] = {0x0000, 0x0001, 0x0fff, 0x1000, 0x1001,
                                     0x1fff, 0x3000, 0x7fff, 0x8000, 0x8001};
    enum { COUNT = 255 * 4 * 10 * 2 };
    float *in = (float *)malloc(COUNT * sizeof(float));
    double *want = test_doubles(COUNT);
    int64_t n = 0;
    for (uint32_t exponent = 0; exponent < 255; exponent++) {
        for (uint32_t top = 0; top < 4; top++) {
            for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
                const uint32_t mantissa =
                    ((top % 2 == 0 ? 0u : 0x550000u) | (top / 2 << 16) | tails[i]) & 0x7fffffu;
                in[n++] = float_of(exponent << 23 | mantissa);
                in[n] = -in[n - 1];
                n++;
            }
        }
    }
    for (int64_t i = 0; i < COUNT; i++) {
        const double x = (double)in[i];
        if (compute == CKCONV_BF16X3) { /* two bf16 terms */
            const double high = test_round(CKCONV_BF16, x);
            want[i] = isinf(high) ? high : high + test_round(CKCONV_BF16, x - high);
        } else {
            want[i] = test_round(compute, x);
        }
    }
    map m;
    map_begin(&m, CKCONV_F32, COUNT, ckconv_dtype_name(compute));
    m.desc.compute_in = m.desc.compute_wei = compute;
    m.in = in;
    map_run(&m, judge_equal, want);
    free(in);
    free(want);
}

/*------------------------------------------------------------------------------------------------------------
  element operations
*/
typedef struct element_case {
    ckconv_element kind;
    double alpha, beta;
    double ulps; /* of the result in the problem's arithmetic: 0 for what is exact or one rounding */
} element_case;

static const element_case element_cases[] = {
    {CKCONV_PASS, 0, 0, 0},          {CKCONV_SCALE, 0, 0, 0},         {CKCONV_SCALE, -0.75, 0, 0.5},
    {CKCONV_SCALE, 3, 0, 0.5},       {CKCONV_RELU, 0, 0, 0},          {CKCONV_CLAMP, -0.5, 2, 0},
    {CKCONV_CLAMP, 1, 1, 0},         {CKCONV_CLAMP, 0, 0, 0},         {CKCONV_SIGMOID, 0, 0, 4},
    {CKCONV_SILU, 0, 0, 5},          {CKCONV_GELU, 0, 0, 5},          {CKCONV_BILINEAR, 2, -3, 2},
    {CKCONV_BILINEAR, 0, 1, 0.5},    {CKCONV_BILINEAR, 1, 0, 0},      {CKCONV_SCALE_ADD, 0.5, 0, 1},
    {CKCONV_BIAS, 0, 0, 0.5},        {CKCONV_BIAS_RELU, 0, 0, 0.5},   {CKCONV_TANH, 0, 0, 4},
    {CKCONV_LEAKY_RELU, -0.3, 0, 1}, {CKCONV_LEAKY_RELU, 0.01, 0, 1}, {CKCONV_HARDSIGMOID, 0, 0, 2},
    {CKCONV_HARDSWISH, 0, 0, 3},     {CKCONV_BIAS_SILU, 0, 0, 5},     {CKCONV_BIAS_GELU, 0, 0, 5},
    {CKCONV_RELU_BWD, 0, 0, 0},      {CKCONV_CLAMP_BWD, -1, 0.5, 0},  {CKCONV_SIGMOID_BWD, 0, 0, 3},
    {CKCONV_SILU_BWD, 0, 0, 8},      {CKCONV_GELU_BWD, 0, 0, 8},
};

/* The definition in double, and the size to which rounding errors are relative (terms may cancel). */
static double element(const element_case *c, double x, double d, double *size)
{
    double y = x;
    *size = 0.0;
    switch (c->kind) {
    case CKCONV_SCALE:
        y = c->alpha * x;
        break;
    case CKCONV_RELU:
        y = x < 0.0 ? 0.0 : x;
        break;
    case CKCONV_CLAMP:
        y = x < c->alpha ? c->alpha : x > c->beta ? c->beta : x;
        break;
    case CKCONV_SIGMOID:
        y = 1.0 / (1.0 + exp(-x));
        break;
    case CKCONV_SILU:
        y = x / (1.0 + exp(-x));
        break;
    case CKCONV_GELU:
        y = x / 2.0 * erfc(-x / sqrt(2.0));
        *size = fabs(x / 2.0); /* 1 + erf(x / sqrt 2) cancels far below 0 */
        break;
    case CKCONV_BILINEAR:
        y = c->alpha * x + c->beta * d;
        *size = fabs(c->alpha * x) + fabs(c->beta * d);
        break;
    case CKCONV_SCALE_ADD:
        y = c->alpha * x + d;
        *size = fabs(c->alpha * x) + fabs(d);
        break;
    case CKCONV_BIAS:
        y = x + d;
        break;
    case CKCONV_BIAS_RELU:
        y = x + d < 0.0 ? 0.0 : x + d;
        break;
    case CKCONV_TANH:
        y = tanh(x);
        break;
    case CKCONV_LEAKY_RELU:
        y = x < 0.0 ? c->alpha * x : x;
        break;
    case CKCONV_HARDSIGMOID:
        y = isnan(x) ? x : fmin(fmax(x + 3.0, 0.0), 6.0) / 6.0;
        break;
    case CKCONV_HARDSWISH:
        y = x <= -3.0 ? 0.0 : x >= 3.0 ? x : x * (x + 3.0) / 6.0;
        break;
    case CKCONV_BIAS_SILU:
        y = (x + d) / (1.0 + exp(-x - d));
        *size = fabs(x) + fabs(d);
        break;
    case CKCONV_BIAS_GELU:
        y = (x + d) / 2.0 * erfc(-(x + d) / sqrt(2.0));
        *size = fabs(x) + fabs(d);
        break;
    case CKCONV_RELU_BWD:
        y = d <= 0.0 ? 0.0 : x;
        break;
    case CKCONV_CLAMP_BWD:
        y = d <= c->alpha || d >= c->beta ? 0.0 : x;
        break;
    case CKCONV_SIGMOID_BWD:
        y = x * d * (1.0 - d);
        break;
    case CKCONV_SILU_BWD:
        y = x / (1.0 + exp(-d)) * (1.0 + d / (1.0 + exp(d)));
        *size = fabs(x);
        break;
    case CKCONV_GELU_BWD:
        y = x * (erfc(-d / sqrt(2.0)) / 2.0 + d * exp(-d * d / 2.0) * 0.39894228040143267794);
        *size = fabs(x);
        break;
    case CKCONV_PASS:
        break;
    default:
        y = (double)NAN;
        break;
    }
    *size = fmax(*size, fabs(y));
    return y;
}

typedef struct element_context {
    const element_case *c;
    const double *x, *d;
    int on_read; /* the operation acted on `in`, not on the result */
} element_context;

static void judge_element(const map *m, const char *instance, const void *context)
{
    const element_context *e = (const element_context *)context;
    const ckconv_dtype dtype = m->desc.out.dtype;
    for (int64_t i = 0; i < m->count; i++) {
        double size;
        const double want = element(e->c, e->x[i], e->d[i], &size);
        const double got = test_decode(dtype, m->out + (size_t)i * test_size(dtype));
        const double ulp = test_ulp(dtype, isinf(size) || isnan(size) ? 1.0 : size);
        const int good = isnan(want) || isinf(want) ? same(got, want) : fabs(got - want) <= e->c->ulps * ulp;
        if (!good) {
            CHECK_MSG(0, "%s(%g, %g) on %s, %s, x = %a, D = %a: %a, want %a", ckconv_element_name(e->c->kind),
                      e->c->alpha, e->c->beta, e->on_read ? "in" : "out", instance, e->x[i], e->d[i], got,
                      want);
            return;
        }
    }
    test.passed++;
}

static void test_operation(const element_case *c, ckconv_dtype dtype, int on_read)
{
    enum { COUNT = 4001 };
    const size_t size = test_size(dtype);
    double *x = test_doubles(COUNT), *d = test_doubles(COUNT);
    unsigned char *in = (unsigned char *)malloc(COUNT * size), *extra = (unsigned char *)malloc(COUNT * size);
    test_rng r = test_seed(31u + (uint64_t)c->kind);
    const double special[12] = {0.0, -0.0, 1.0,  -1.0,  0.5,         -0.5,
                                2.0, -2.0, 80.0, -80.0, (double)NAN, HUGE_VAL};
    for (int i = 0; i < COUNT; i++) {
        x[i] = i < 12 ? special[i] : (i - COUNT / 2) * (9.0 / (COUNT / 2)) + test_uniform(&r) * 1e-3;
        d[i] = test_normal(&r);
        test_encode(dtype, x[i], in + (size_t)i * size);
        test_encode(dtype, d[i], extra + (size_t)i * size);
        x[i] = test_decode(dtype, in + (size_t)i * size);
        d[i] = test_decode(dtype, extra + (size_t)i * size);
    }
    map m;
    map_begin(&m, dtype, COUNT, "element operation");
    ckconv_element_op *op = on_read ? &m.desc.op_in : &m.desc.op_out;
    op->kind = c->kind;
    op->alpha = c->alpha;
    op->beta = c->beta;
    test_trim_element(op);
    m.desc.num_d = c->kind >= CKCONV_BILINEAR ? 1 : 0;
    m.in = in;
    m.d = m.desc.num_d != 0 ? extra : NULL;
    const element_context context = {c, x, d, on_read};
    map_run(&m, judge_element, &context);
    free(x);
    free(d);
    free(in);
    free(extra);
}

/* Every operation that the library has stands in each list that tests and driver keep of them: no list
   forgets one without a word. */
static void test_lists(void)
{
    test_rng r = test_seed(37);
    int names = 0;
    for (ckconv_element kind = 0; kind < 256; kind++) {
        const char *name = ckconv_element_name(kind);
        CHECK_MSG(name == NULL || test_find_element(kind)->kind == kind, "test.h has no row for %s", name);
        names += name != NULL;
    }
    CHECK_MSG(names == TEST_ELEMENTS, "%d operations, test.h has %d", names, TEST_ELEMENTS);
    for (int i = 0; i < TEST_ELEMENTS; i++) {
        const test_element *row = &test_elements[i];
        const char *name = ckconv_element_name(row->kind);
        const int last = row->kind == CKCONV_ACCUMULATE;
        int parameters, d, cases = 0;
        CHECK_MSG((i < TEST_UNARY) == (row->high == 0 && !last) && (i < TEST_WITH_D) == !last,
                  "%s stands in the wrong part of test.h's rows", name);
        for (size_t j = 0; j < sizeof element_cases / sizeof element_cases[0]; j++) {
            cases += element_cases[j].kind == row->kind;
        }
        CHECK_MSG(cases > 0 || row->high > 1 || last, "%s has no case here", name);
        pb_element_needs(row->kind, &parameters, &d);
        CHECK_MSG(parameters == row->alpha + row->beta && d == (row->low == row->high ? row->low : -1),
                  "examples/problem.h: %s takes %d parameters, %d D tensors", name, parameters, d);
        CHECK_MSG(!pb_is_smooth(row->kind) == !row->smooth, "examples/bounds.h: is %s smooth?", name);
        for (int j = 0; j < 1000 && !last; j++) {
            ckconv_element_op op = {row->kind, 0, -0.75, 1.25};
            test_trim_element(&op);
            const double x = 3.0 * test_normal(&r), error = (test_uniform(&r) - 0.5) / 64.0;
            const double extra[4] = {test_normal(&r), test_normal(&r), test_normal(&r), test_normal(&r)};
            const double y = naive_element(&op, x, extra, row->high);
            const double there = naive_element(&op, x + error, extra, row->high);
            const double moved = fabs(there - y), size = fabs(x), u = ldexp(1.0, -53);
            const double other = pb_apply(&op, x, extra, row->high);
            const double slope = naive_slope(&op, extra) * fabs(error);
            const double bound = pb_apply_error(&op, fabs(error), size, extra, row->high, u);
            if (!CHECK_MSG(fabs(other - y) <= 1e-13 * (8.0 + fabs(y)), "%s(%g): bounds.h %g, naive.h %g",
                           name, x, other, y) ||
                !CHECK_MSG(moved <= slope + 1e-12 && moved <= bound + 1e-12,
                           "%s(%g) moves by %g; naive.h allows %g, bounds.h %g", name, x, moved, slope,
                           bound)) {
                break;
            }
        }
    }
}

int main(void)
{
    static codes table[SMALL_TYPES];
    test_begin("test_math");
    for (int i = 0; i < SMALL_TYPES; i++) {
        make_codes(&table[i], small_types[i]);
        test_every_code(&table[i]);
        test_midpoints(&table[i]);
        test_overflow(&table[i]);
        test_random_doubles(&table[i]);
    }
    test_f32();
    test_f64();
    test_integers();
    test_arrays();
    test_unknown_types();
    for (int i = 0; i < SMALL_TYPES; i++) {
        test_engine_reads(&table[i]);
        test_engine_writes(&table[i]);
        if (i >= 2) {
            test_compute_fp8(&table[0], &table[i]);
        }
    }
    test_compute_f32(CKCONV_TF32);
    test_compute_f32(CKCONV_BF16);
    test_compute_f32(CKCONV_BF16X3);
    test_lists();
    for (size_t i = 0; i < sizeof element_cases / sizeof element_cases[0]; i++) {
        const element_case *c = &element_cases[i];
        test_operation(c, CKCONV_F32, 0);
        test_operation(c, CKCONV_F64, 0);
        if (c->kind < CKCONV_BILINEAR) {
            test_operation(c, CKCONV_F32, 1);
            test_operation(c, CKCONV_F64, 1);
        }
    }
    return test_end();
}
