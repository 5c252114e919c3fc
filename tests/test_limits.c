/* test_limits - workspace to the byte, bits that do not depend on threads, interleaved tensors, small stacks
   SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

static float *numbers(int64_t count, uint32_t seed)
{
    float *x = (float *)malloc((size_t)count * sizeof *x);
    for (int64_t i = 0; x && i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)((int32_t)(seed >> 20) - 2048) / 512.0f;
    }
    return x;
}

/* Run with a workspace of exactly plan.workspace_bytes between canaries; 1 if they are intact. Behind them is
   room that nobody touches: threads that the workspace forgot write there and not into the heap, where they
   would hang the test. The sanitizer has its own. */
static int run_guarded(const ckconv_plan *plan, const ckconv_args *args)
{
    enum { EDGE = 4096, ROOM = TEST_ASAN ? 0 : 64 << 20 };
    const size_t bytes = (size_t)plan->workspace_bytes;
    unsigned char *memory = (unsigned char *)malloc(bytes + 2 * EDGE + ROOM);
    ckconv_error err;
    memset(memory, TEST_CANARY, bytes + 2 * EDGE);
    CHECK_OK(ckconv_run(plan, args, bytes ? memory + EDGE : NULL, bytes, NULL, &err), err);
    int intact = 1;
    for (size_t i = 0; i < EDGE; i++) {
        intact = intact && memory[i] == TEST_CANARY && memory[EDGE + bytes + i] == TEST_CANARY;
    }
    free(memory);
    return intact;
}

static const char *op_text(ckconv_op op)
{
    return ckconv_op_name(op) != NULL ? ckconv_op_name(op) : "?";
}

/* Tiles at the edge of a fused pair may need more scratch than whole ones. */
static void test_fused_edges(void)
{
    static const int64_t cases[][6] = {/* g, k, c, filter, stride, k1; inputs below */
                                       {41, 2, 10, 3, 3, 5},
                                       {7, 2, 8, 7, 1, 5},
                                       {28, 1, 10, 6, 3, 3}};
    static const int64_t inputs[][2] = {{377, 229}, {134, 387}, {253, 374}};
    static const char *const names[] = {"cpu_fused_conv_conv_portable", "cpu_fused_conv_conv_avx2",
                                        "cpu_fused_conv_conv_avx512"};
    for (int i = 0; i < 9; i++) {
        const int64_t *p = cases[i % 3];
        ckconv_conv_conv_desc d;
        ckconv_options o;
        ckconv_plan plan;
        ckconv_args a;
        ckconv_error err;
        ckconv_tensor_info in, wei, wei1, out;
        memset(&d, 0, sizeof d);
        memset(&o, 0, sizeof o);
        memset(&a, 0, sizeof a);
        test_layer(&d.conv0, 2, p[0], 1, p[1], p[2]);
        for (int j = 0; j < 2; j++) {
            d.conv0.filter[j] = p[3];
            d.conv0.stride[j] = p[4];
            d.conv0.pad_lo[j] = d.conv0.pad_hi[j] = p[3] / 2;
            d.conv0.input[j] = inputs[i % 3][j] / (TEST_ASAN ? 2 : 1);
        }
        d.k1 = p[5];
        o.instance = names[i / 3];
        o.threads = 1;
        const ckconv_status status = ckconv_plan_conv_conv(&plan, &d, &o, NULL, &err);
        if (status == CKCONV_ERR_UNSUPPORTED) {
            continue; /* this CPU lacks the instruction set */
        }
        CHECK_OK(status, err);
        ckconv_plan_tensor(&plan, CKCONV_TENSOR_IN, &in, &err);
        ckconv_plan_tensor(&plan, CKCONV_TENSOR_WEI, &wei, &err);
        ckconv_plan_tensor(&plan, CKCONV_TENSOR_WEI1, &wei1, &err);
        ckconv_plan_tensor(&plan, CKCONV_TENSOR_OUT, &out, &err);
        float *x = numbers(in.count, 1), *w = numbers(wei.count, 2), *w1 = numbers(wei1.count, 3);
        float *y = numbers(out.count, 4);
        a.in = x;
        a.wei = w;
        a.wei1 = w1;
        a.out = y;
        CHECK_MSG(run_guarded(&plan, &a), "%s, case %d: written outside the workspace", names[i / 3], i % 3);
        free(x);
        free(w);
        free(w1);
        free(y);
    }
}

/* Every limit on the workspace gives a plan within it, and the same bits for any number of threads. */
static void test_threads_and_limits(void)
{
    static const int64_t limits[] = {-1, 20000, 100000, 300000, 700000, 1500000, 4000000, 0};
    for (int i = 0; i < 48; i++) {
        const ckconv_op op = (ckconv_op)(CKCONV_FWD + i % 3);
        const int64_t limit = limits[i / 3 % 8];
        const int depthwise = i / 24;
        ckconv_conv_desc d;
        ckconv_plan plan;
        ckconv_error err;
        ckconv_args a;
        memset(&d, 0, sizeof d);
        d.ndim = 2;
        d.n = 2;
        d.g = depthwise ? 96 : 1;
        d.k = d.c = depthwise ? 1 : 64;
        for (int j = 0; j < 2; j++) {
            d.filter[j] = 3;
            d.input[j] = 20;
            d.pad_lo[j] = d.pad_hi[j] = 1;
        }
        const int64_t pixels = 2 * 20 * 20 * d.g * d.k, weights = d.g * d.k * d.c * 9;
        float *x = numbers(pixels, 5), *w = numbers(weights, 6), *y = numbers(pixels, 7), *first = NULL;
        const int64_t count = op == CKCONV_BWD_WEIGHT ? weights : pixels;
        float *result = op == CKCONV_FWD ? y : op == CKCONV_BWD_DATA ? x : w;
        memset(&a, 0, sizeof a);
        a.in = x;
        a.din = x;
        a.wei = w;
        a.dwei = w;
        a.out = y;
        a.dout = y;
        if (op == CKCONV_FWD) {
            a.din = a.dwei = NULL;
            a.dout = NULL;
        }
        for (int32_t threads = 1; threads <= 8; threads = threads == 1 ? 2 : threads == 2 ? 3 : threads + 5) {
            ckconv_options o;
            memset(&o, 0, sizeof o);
            o.threads = threads;
            o.max_workspace = limit;
            CHECK_OK(ckconv_plan_conv(&plan, op, &d, &o, NULL, &err), err);
            CHECK_MSG(limit == 0 || plan.workspace_bytes <= (limit < 0 ? 0 : limit),
                      "%s, limit %lld: plan needs %lld", ckconv_op_name(op), (long long)limit,
                      (long long)plan.workspace_bytes);
            memset(result, TEST_CANARY, (size_t)count * sizeof *result);
            CHECK(run_guarded(&plan, &a));
            if (!first) {
                first = (float *)malloc((size_t)count * sizeof *first);
                memcpy(first, result, (size_t)count * sizeof *first);
            }
            CHECK_MSG(memcmp(first, result, (size_t)count * sizeof *first) == 0,
                      "%s, limit %lld: %d threads give other bits than 1", ckconv_op_name(op),
                      (long long)limit, (int)threads);
        }
        free(first);
        free(x);
        free(w);
        free(y);
    }
}

/* Channels 0..7 and 8..15 of one buffer: in and out share a span and no element. Shifted by one they meet. */
static void test_interleaved(void)
{
    enum { PIXELS = 2 * 6 * 6 };
    float *buffer = numbers(PIXELS * 16, 8), *w = numbers(8 * 8 * 9, 9), *apart = numbers(PIXELS * 8, 10);
    float before[PIXELS * 8];
    ckconv_conv_desc d;
    ckconv_error err;
    memset(&d, 0, sizeof d);
    d.ndim = 2;
    d.n = 2;
    d.k = d.c = 8;
    for (int j = 0; j < 2; j++) {
        d.filter[j] = 3;
        d.input[j] = 6;
        d.pad_lo[j] = d.pad_hi[j] = 1;
    }
    d.in.layout = CKCONV_STRIDED;
    const int64_t stride[5] = {8, 6 * 6 * 16, 1, 6 * 16, 16};
    memcpy(d.in.stride, stride, sizeof stride);
    d.out.layout = CKCONV_NHWGC;
    CHECK_OK(ckconv_fwd(&d, buffer, w, apart, NULL, 0, NULL, &err), err);
    for (int i = 0; i < PIXELS * 8; i++) {
        before[i] = buffer[i / 8 * 16 + i % 8];
    }
    d.out = d.in;
    CHECK(ckconv_fwd(&d, buffer, w, buffer + 7, NULL, 0, NULL, &err) == CKCONV_ERR_ALIAS);
    CHECK(ckconv_fwd(&d, buffer, w, buffer, NULL, 0, NULL, &err) == CKCONV_ERR_ALIAS);
    CHECK_OK(ckconv_fwd(&d, buffer, w, buffer + 8, NULL, 0, NULL, &err), err);
    int same = 1, kept = 1;
    for (int i = 0; i < PIXELS * 8; i++) {
        same = same && buffer[i / 8 * 16 + 8 + i % 8] == apart[i];
        kept = kept && buffer[i / 8 * 16 + i % 8] == before[i];
    }
    CHECK(same);
    CHECK(kept);
    free(buffer);
    free(w);
    free(apart);
}

/* What the tuner timed without workspace is planned again without workspace. */
static void test_choice_without_workspace(void)
{
    ckconv_conv_desc d;
    ckconv_plan base, plan;
    ckconv_args a;
    ckconv_error err;
    ckconv_choice choices[16], again;
    char text[128];
    int32_t count = 0;
    memset(&d, 0, sizeof d);
    memset(&a, 0, sizeof a);
    d.ndim = 1;
    d.n = 2;
    d.k = d.c = 20;
    d.filter[0] = 3;
    d.input[0] = 40;
    float *x = numbers(2 * 40 * 20, 11), *w = numbers(20 * 20 * 3, 12), *y = numbers(2 * 38 * 20, 13);
    a.in = x;
    a.wei = w;
    a.out = y;
    CHECK_OK(ckconv_plan_conv(&base, CKCONV_FWD, &d, NULL, NULL, &err), err);
    CHECK_OK(ckconv_tune(&base, &a, NULL, 0, NULL, 1, choices, 16, &count, &err), err);
    CHECK(count >= 1);
    for (int32_t i = 0; i < count; i++) {
        ckconv_choice_to_text(&choices[i], text, sizeof text);
        CHECK_OK(ckconv_choice_from_text(&again, text, &err), err);
        CHECK_OK(ckconv_plan_choice(&plan, &base, &again, &err), err);
        CHECK(plan.workspace_bytes == 0 && plan.instance == choices[i].instance);
        CHECK_OK(ckconv_run(&plan, &a, NULL, 0, NULL, &err), err);
    }
    free(x);
    free(w);
    free(y);
}

/* Without workspace a CPU plan that needs little has it on the stack: the same instance, described so, and
   the same bits as with the workspace that its plan asks for. A group norm backward always does so; whether a
   convolution does depends on its size alone, not on threads. */
static void test_workspace_on_stack(void)
{
    static const int64_t norms[][5] = {
        {2, 8, 4, 16, 1}, {1, 32, 1, 49, 0}, {2, 4, 16, 100, 1}, {3, 5, 7, 9, 0}};
    static const int64_t layers[][5] = {
        {1, 8, 3, 3, 12}, {16, 1, 1, 3, 7}, {1, 2, 2, 3, 9}, {1, 20, 16, 1, 6}};
    int convolutions = 0;
    for (int i = 0; i < 4 * 2 + 4 * 3; i++) {
        ckconv_groupnorm_desc norm;
        ckconv_conv_desc layer;
        ckconv_plan with, without, one;
        ckconv_options o;
        ckconv_args a;
        ckconv_error err;
        ckconv_tensor_info info;
        char text[1024], want[64];
        const int group = i < 8;
        ckconv_op op = group ? (ckconv_op)CKCONV_GROUPNORM_BWD : (ckconv_op)(CKCONV_FWD + (i - 8) % 3);
        memset(&norm, 0, sizeof norm);
        memset(&o, 0, sizeof o);
        memset(&a, 0, sizeof a);
        o.engine = CKCONV_ENGINE_CPU;
        o.threads = 1 + i % 3;
        if (group) {
            const int64_t *s = norms[i / 2];
            norm.ndim = 1;
            norm.n = s[0];
            norm.g = s[1];
            norm.c = s[2];
            norm.input[0] = s[3];
            norm.eps = 1e-5;
            norm.in.layout = norm.out.layout = norm.din.layout = i % 2 ? CKCONV_NGCHW : CKCONV_NHWGC;
            CHECK_OK(ckconv_plan_groupnorm(&with, op, &norm, &o, NULL, &err), err);
        } else {
            const int64_t *s = layers[(i - 8) / 3];
            test_layer(&layer, 2, s[0], 2, s[1], s[2]);
            for (int j = 0; j < 2; j++) {
                layer.filter[j] = s[3];
                layer.input[j] = s[4];
            }
            CHECK_OK(ckconv_plan_conv(&with, op, &layer, &o, NULL, &err), err);
        }
        o.max_workspace = i % 4 == 3 ? 80 : -1;
        CHECK_OK(ckconv_plan_again(&without, &with, &o, &err), err);
        o.threads = o.threads % 3 + 1;
        CHECK_OK(ckconv_plan_again(&one, &with, &o, &err), err);
        if (with.workspace_bytes <= (i % 4 == 3 ? 80 : 0)) {
            continue;
        }
        float *x[4], *result[3][3];
        for (int j = 0; j < 4; j++) {
            x[j] = numbers(1 << 14, (uint32_t)(20 + j));
        }
        for (int run = 0; run < 3; run++) {
            const ckconv_plan *plan = run == 0 ? &with : run == 1 ? &without : &one;
            for (int j = 0; j < 3; j++) {
                result[run][j] = numbers(1 << 14, 30);
            }
            a.in = x[0];
            a.dout = x[1];
            a.wei = a.gamma = x[2];
            a.beta = x[3];
            a.out = a.dwei = a.din = result[run][0];
            if (group) {
                a.dgamma = result[run][1];
                a.dbeta = result[run][2];
            }
            CHECK(run == 0 || plan->workspace_bytes <= (i % 4 == 3 ? 80 : 0));
            CHECK(run_guarded(plan, &a));
        }
        CHECK_OK(ckconv_plan_tensor(&with, 0, &info, &err), err);
        CHECK(info.count <= 1 << 14);
        ckconv_plan_describe(&without, text, sizeof text);
        snprintf(want, sizeof want, ", %lld on the stack", (long long)with.workspace_bytes);
        const int told = strstr(text, want) != NULL;
        convolutions += told && !group;
        CHECK_MSG(told || !group, "not on the stack, %lld bytes: %s", (long long)with.workspace_bytes, text);
        CHECK(!told || (without.instance == with.instance && strstr(text, "slower") == NULL));
        for (int j = 0; j < (group ? 3 : 1); j++) {
            CHECK(!told || memcmp(result[0][j], result[1][j], sizeof(float) << 14) == 0);
            CHECK(memcmp(result[1][j], result[2][j], sizeof(float) << 14) == 0);
        }
        for (int j = 0; j < 4; j++) {
            free(x[j]);
        }
        for (int run = 0; run < 9; run++) {
            free(result[run / 3][run % 3]);
        }
    }
    CHECK(convolutions > 2);
}

/* Thousands of stride phases end in time, with the right values. */
static void test_long_strides(void)
{
    enum { STRIDE = 3000, INPUT = 4 * STRIDE };
    ckconv_conv_desc d;
    ckconv_error err;
    memset(&d, 0, sizeof d);
    d.ndim = 1;
    d.n = 1;
    d.k = d.c = 2;
    d.filter[0] = d.stride[0] = STRIDE;
    d.input[0] = INPUT;
    float *w = numbers(2 * 2 * STRIDE, 14), *dy = numbers(4 * 2, 15), *dx = numbers(INPUT * 2, 16);
    CHECK_OK(ckconv_bwd_data(&d, dx, w, dy, NULL, 0, NULL, &err), err);
    int wrong = 0;
    for (int i = 0; i < INPUT * 2; i++) {
        const int pixel = i / 2, c = i % 2, tap = pixel % STRIDE, o = pixel / STRIDE;
        const float want = dy[o * 2] * w[tap * 2 + c] + dy[o * 2 + 1] * w[2 * STRIDE + tap * 2 + c];
        wrong += !(fabsf(dx[i] - want) <= 1e-5f);
    }
    CHECK(wrong == 0);
    free(w);
    free(dy);
    free(dx);
}

/* One plan, into `result`, between canaries. */
static void run_conv(const ckconv_plan *plan, float *const x[3], float *result, size_t count)
{
    const ckconv_op op = plan->op;
    ckconv_args a;
    memset(&a, 0, sizeof a);
    memset(result, TEST_CANARY, count * sizeof *result);
    a.in = op == CKCONV_BWD_DATA ? NULL : x[0];
    a.wei = op == CKCONV_BWD_WEIGHT ? NULL : x[1];
    a.dout = op == CKCONV_FWD ? NULL : x[2];
    a.out = op == CKCONV_FWD ? result : NULL;
    a.din = op == CKCONV_BWD_DATA ? result : NULL;
    a.dwei = op == CKCONV_BWD_WEIGHT ? result : NULL;
    test.plan = plan;
    CHECK_MSG(run_guarded(plan, &a), "written outside the workspace");
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        left += test_all_bytes((const unsigned char *)(result + i), sizeof *result, TEST_CANARY) ? 1 : 0;
    }
    CHECK_MSG(left == 0, "%d results were not written", (int)left);
    test.plan = NULL;
}

/* Without workspace the direct family lays out a filter's rows one at a time: by each instance what ref has,
   of whole numbers. */
static void test_filter_rows(void)
{
    int by_rows = 0;
    for (int i = 0; i < 4; i++) {
        const ckconv_op op = i % 2 ? CKCONV_BWD_DATA : CKCONV_FWD;
        ckconv_conv_desc d;
        ckconv_plan base, plan;
        ckconv_error err;
        ckconv_options o;
        float *x[3], *result[2];
        int64_t count[3];
        memset(&o, 0, sizeof o);
        test_layer(&d, 2 + i / 2, 8, 2, 2, 2);
        for (int j = 0; j < d.ndim; j++) {
            d.filter[j] = 3;
            d.input[j] = d.ndim == 2 ? 20 : 7;
        }
        o.engine = CKCONV_ENGINE_REF;
        CHECK_OK(ckconv_plan_conv(&base, op, &d, &o, NULL, &err), err);
        for (int j = 0; j < 3; j++) {
            ckconv_tensor_info info;
            CHECK_OK(ckconv_plan_tensor(&base, j, &info, &err), err);
            count[j] = info.count;
            x[j] = numbers(info.count, (uint32_t)(60 + j));
            for (int64_t e = 0; e < info.count; e++) {
                x[j][e] = floorf(x[j][e]);
            }
        }
        const int64_t results = count[op == CKCONV_FWD ? 2 : 0];
        result[0] = numbers(results, 63);
        result[1] = numbers(results, 64);
        run_conv(&base, x, result[0], (size_t)results);
        for (int32_t at = 0; at < ckconv_instance_count(); at++) {
            if (ckconv_instance_engine(at) != CKCONV_ENGINE_CPU || !ckconv_instance_does(at, op)) {
                continue;
            }
            memset(&o, 0, sizeof o);
            o.instance = ckconv_instance_name(at);
            o.threads = 2;
            o.max_workspace = -1;
            if (ckconv_plan_conv(&plan, op, &d, &o, NULL, &err) != CKCONV_OK) {
                continue;
            }
            by_rows += ckconv_instance_family(at) == CKCONV_FAMILY_DIRECT && plan.launches == 1;
            run_conv(&plan, x, result[1], (size_t)results);
            int64_t wrong = 0;
            for (int64_t e = 0; e < results; e++) {
                wrong += result[0][e] != result[1][e];
            }
            CHECK_MSG(wrong == 0, "%s, %s, %d dimensions: %lld results are not what ref has", op_text(op),
                      o.instance, (int)d.ndim, (long long)wrong);
        }
        for (int j = 0; j < 5; j++) {
            free(j < 3 ? x[j] : result[j - 3]);
        }
    }
    CHECK_MSG(by_rows >= 4, "%d plans lay out rows one at a time", by_rows);
}

/* Up to the 4,096 threads that the API allows, more of them than work items, than any table has places: the
   same bits by each instance of the CPU, and, where the planner chooses the parts of a sum, as many. */
static void test_many_threads(void)
{
    /* g, n, k, c, filter, input, channels first */
    static const int64_t layers[][7] = {
        {1, 70, 16, 8, 3, 9, 0},  {80, 3, 1, 1, 3, 12, 0},  {6, 64, 2, 2, 3, 16, 0},
        {1, 2, 80, 40, 1, 20, 0}, {40, 40, 1, 1, 5, 14, 0}, {8, 1, 1, 1, 3, 150, 0},
        {2, 2, 1, 1, 3, 200, 1},  {1, 1, 2, 3, 3, 160, 1},  {88, 1, 1, 1, 3, 6, 0},
    };
    static const int32_t most[] = {64, 65, 200, 7};
    for (int i = 0; i < 9 * 3; i++) {
        const int64_t *l = layers[i / 3];
        const ckconv_op op = (ckconv_op)(CKCONV_FWD + i % 3);
        ckconv_conv_desc d;
        ckconv_error err;
        ckconv_tensor_info info[3];
        ckconv_options o;
        ckconv_plan base;
        memset(&o, 0, sizeof o);
        test_layer(&d, 2, l[0], l[1], l[2], l[3]);
        for (int j = 0; j < 2; j++) {
            d.filter[j] = l[4];
            d.input[j] = l[5];
            d.pad_lo[j] = d.pad_hi[j] = l[4] / 2;
        }
        d.in.layout = d.out.layout = l[6] ? CKCONV_NGCHW : CKCONV_NHWGC;
        o.engine = CKCONV_ENGINE_CPU;
        o.threads = 1;
        CHECK_OK(ckconv_plan_conv(&base, op, &d, &o, NULL, &err), err);
        float *x[3], *result[2];
        for (int j = 0; j < 3; j++) {
            CHECK_OK(ckconv_plan_tensor(&base, j, &info[j], &err), err);
            x[j] = numbers(info[j].count, (uint32_t)(40 + j));
        }
        const size_t count = (size_t)info[op == CKCONV_FWD ? 2 : op == CKCONV_BWD_DATA ? 0 : 1].count;
        result[0] = numbers((int64_t)count, 43);
        result[1] = numbers((int64_t)count, 44);
        for (int32_t at = -1; at < ckconv_instance_count(); at++) {
            if (at >= 0 &&
                (ckconv_instance_engine(at) == CKCONV_ENGINE_GPU || !ckconv_instance_does(at, op))) {
                continue;
            }
            ckconv_plan one, plan;
            o.instance = at < 0 ? NULL : ckconv_instance_name(at);
            o.engine = at < 0 ? CKCONV_ENGINE_CPU : (ckconv_engine)0;
            o.threads = 1;
            if (ckconv_plan_conv(&one, op, &d, &o, NULL, &err) != CKCONV_OK) {
                continue;
            }
            run_conv(&one, x, result[0], count);
            for (int j = 0; j < (at < 0 ? 4 : 2); j++) {
                o.threads = most[(at < 0 ? 0 : (i + at) % 3) + j];
                CHECK_OK(ckconv_plan_conv(&plan, op, &d, &o, NULL, &err), err);
                CHECK_MSG(at < 0 || plan.split_k == one.split_k,
                          "%s, %s: split_k %d for one thread, %d for %d", op_text(op),
                          ckconv_instance_name(plan.instance), (int)one.split_k, (int)plan.split_k,
                          (int)o.threads);
                run_conv(&plan, x, result[1], count);
                CHECK_MSG(memcmp(result[0], result[1], count * sizeof(float)) == 0,
                          "%s, %s: %d threads give other bits than 1", op_text(op),
                          ckconv_instance_name(plan.instance), (int)o.threads);
            }
        }
        for (int j = 0; j < 5; j++) {
            free(j < 3 ? x[j] : result[j - 3]);
        }
    }
}

/* 4,096 threads are allowed, one more is not. */
static void test_most_threads(void)
{
    ckconv_conv_desc d;
    ckconv_device device;
    ckconv_plan plan;
    ckconv_error err;
    test_layer(&d, 1, 1, 2, 8, 8);
    d.filter[0] = 1;
    d.input[0] = 4;
    CHECK_OK(ckconv_device_named("cpu", &device, &err), err);
    device.threads = 4096;
    CHECK_OK(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, &device, &err), err);
    device.threads = 4097;
    CHECK(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, &device, &err) == CKCONV_ERR_ARGUMENT &&
          strstr(err.text, "device.threads is 4097") != NULL);
}

/* Gradients of parameters with more channels in a group than a tile of them has (1,024), with workspace,
   without, and within a limit: dgamma and dbeta are sums over images and positions of this channel alone. */
static void test_wide_norms(void)
{
    enum { N = 3, SPACE = 2 };
    static const int64_t channels[] = {1023, 1024, 1025, 1500, 2500};
    for (int i = 0; i < 5 * 2 * 3; i++) {
        const int64_t c = channels[i / 6], g = 2, count = N * SPACE * g * c;
        const int first = i / 3 % 2, way = i % 3;
        ckconv_groupnorm_desc d;
        ckconv_plan plan;
        ckconv_options o;
        ckconv_args a;
        ckconv_error err;
        memset(&d, 0, sizeof d);
        memset(&o, 0, sizeof o);
        memset(&a, 0, sizeof a);
        d.ndim = 1;
        d.n = N;
        d.g = g;
        d.c = c;
        d.input[0] = SPACE;
        d.eps = 1e-5;
        d.in.layout = d.out.layout = d.din.layout = first ? CKCONV_NGCHW : CKCONV_NHWGC;
        o.engine = CKCONV_ENGINE_CPU;
        o.threads = 1 + i % 2 * 64;
        o.max_workspace = way == 0 ? 0 : way == 1 ? -1 : 5000;
        CHECK_OK(ckconv_plan_groupnorm(&plan, CKCONV_GROUPNORM_BWD, &d, &o, NULL, &err), err);
        float *x = numbers(count, 50), *dy = numbers(count, 51), *gamma = numbers(g * c, 52);
        float *dx = numbers(count, 53), *dgamma = numbers(g * c, 54), *dbeta = numbers(g * c, 55);
        a.in = x;
        a.dout = dy;
        a.gamma = gamma;
        a.din = way == 2 ? NULL : dx;
        a.dgamma = dgamma;
        a.dbeta = dbeta;
        CHECK(run_guarded(&plan, &a));
        int wrong = 0;
        for (int64_t group = 0; group < g; group++) {
            double mean[N], scale[N];
#define AT(n, ch, s)                                                                                         \
    (first ? ((n)*g * c + group * c + (ch)) * SPACE + (s) : ((n)*SPACE + (s)) * g * c + group * c + (ch))
            for (int64_t n = 0; n < N; n++) {
                double sum = 0, square = 0;
                for (int64_t j = 0; j < c * SPACE; j++) {
                    sum += x[AT(n, j / SPACE, j % SPACE)];
                }
                mean[n] = sum / (double)(c * SPACE);
                for (int64_t j = 0; j < c * SPACE; j++) {
                    const double v = x[AT(n, j / SPACE, j % SPACE)] - mean[n];
                    square += v * v;
                }
                scale[n] = 1 / sqrt(square / (double)(c * SPACE) + 1e-5);
            }
            for (int64_t ch = 0; ch < c; ch++) {
                double want[2] = {0, 0};
                for (int64_t j = 0; j < N * SPACE; j++) {
                    const int64_t at = AT(j / SPACE, ch, j % SPACE);
                    want[0] += dy[at] * (x[at] - mean[j / SPACE]) * scale[j / SPACE];
                    want[1] += dy[at];
                }
                wrong += !(fabs(dgamma[group * c + ch] - want[0]) <= 1e-4) +
                         !(fabs(dbeta[group * c + ch] - want[1]) <= 1e-4);
            }
#undef AT
        }
        CHECK_MSG(wrong == 0, "%lld channels, way %d, %s: %d of dgamma and dbeta", (long long)c, way,
                  first ? "channels first" : "channels last", wrong);
        float *all[6] = {x, dy, gamma, dx, dgamma, dbeta};
        for (int j = 0; j < 6; j++) {
            free(all[j]);
        }
    }
}

int main(void)
{
    test_begin("test_limits");
    test_fused_edges();
    test_threads_and_limits();
    test_interleaved();
    test_choice_without_workspace();
    test_workspace_on_stack();
    test_long_strides();
    test_filter_rows();
    test_many_threads();
    test_most_threads();
    test_wide_norms();
    return test_end();
}
