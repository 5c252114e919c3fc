/* test_special.c - NaN, infinity and the largest numbers through whole plans: sums, rounding, epilogues
   SPDX-License-Identifier: MIT

   One number of each result is special, all that it meets is 1 or 0, so every result is known without sums:
   the same on each engine, by each instance. CKCONV_TEST_ENGINE=gpu: on the GPU or its simulator. */
#include "test.h"

static const double values[] = {(double)NAN, HUGE_VAL, -HUGE_VAL, 1.0, -2.0, 3.0, 0.0};
enum { VALUES = (int)(sizeof values / sizeof values[0]) };

static double expected(const ckconv_element_op *op, double x)
{
    if (isnan(x)) {
        return x;
    }
    switch (op->kind) {
    case CKCONV_RELU:
        return x > 0 ? x : 0;
    case CKCONV_CLAMP:
        return x < op->alpha ? op->alpha : x > op->beta ? op->beta : x;
    case CKCONV_LEAKY_RELU:
        return x > 0 ? x : op->alpha * x;
    case CKCONV_HARDSIGMOID:
        return x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6;
    case CKCONV_SCALE:
        return op->alpha * x;
    default:
        return x;
    }
}

static int same(double got, double want)
{
    return isnan(want) ? isnan(got) : got == want || fabs(got - want) <= 0.01 * fabs(want);
}

typedef struct layer_row {
    int64_t g, k, c, filter;
} layer_row;

static long ran;

/* NaN of f32 with nothing but its last bit set, which a narrower type does not have, and with all bits set,
   which must not be rounded up. */
static void edge_payloads(test_tensor *t)
{
    const uint32_t edges[2] = {0x7f800001u, 0x7fffffffu};
    size_t next = 0;
    for (size_t i = 0; t->dtype == CKCONV_F32 && i + 4 <= t->buffer.bytes; i += 4) {
        float x;
        memcpy(&x, t->buffer.data + i, 4);
        if (isnan(x)) {
            memcpy(t->buffer.data + i, &edges[next++ % 2], 4);
        }
    }
}

/* The same through a transform. */
static void test_transforms(void)
{
    static const ckconv_dtype to[] = {CKCONV_F16,    CKCONV_BF16,       CKCONV_F64,       CKCONV_F8E4M3,
                                      CKCONV_F8E5M2, CKCONV_F8E4M3FNUZ, CKCONV_F8E5M2FNUZ};
    const int64_t length[4] = {1, 1, 40, 3};
    for (int i = 0; i < 7; i++) {
        ckconv_tensor from, into;
        ckconv_error err;
        uint32_t bits[120];
        unsigned char out[960];
        int wrong = 0;
        memset(&from, 0, sizeof from);
        memset(&into, 0, sizeof into);
        into.dtype = to[i];
        for (int j = 0; j < 120; j++) {
            bits[j] = (j % 2 ? 0x7f800000u : 0xff800000u) | (uint32_t)1 << j % 23;
        }
        if (!CHECK_PLAN(ckconv_transform(1, length, &from, bits, &into, out, NULL, &err), err)) {
            continue;
        }
        for (int j = 0; j < 120; j++) {
            wrong += !isnan(test_decode(to[i], out + (size_t)j * test_size(to[i])));
        }
        CHECK_MSG(wrong == 0, "to %s: %d of 120 NaN are none", ckconv_dtype_name(to[i]), wrong);
    }
}

/* Group norms whose f32 parameters have such NaN: results of narrower types are NaN in these channels
   alone. */
static void test_norms(void)
{
    static const ckconv_dtype types[][2] = {{CKCONV_F32, CKCONV_BF16},
                                            {CKCONV_BF16, CKCONV_BF16},
                                            {CKCONV_F32, CKCONV_F16},
                                            {CKCONV_F16, CKCONV_F16}};
    ckconv_device devices[3];
    const int count = test_cpu_devices(devices);
    for (int i = 0; i < 4 * 2 * count; i++) {
        ckconv_groupnorm_desc d;
        ckconv_plan plan;
        ckconv_options o;
        ckconv_args a;
        ckconv_error err;
        test_tensor t[4]; /* in, out, gamma, beta */
        test_buffer workspace;
        static const int32_t which[4] = {CKCONV_TENSOR_IN, CKCONV_TENSOR_OUT, CKCONV_TENSOR_CHANNEL,
                                         CKCONV_TENSOR_CHANNEL};
        memset(&d, 0, sizeof d);
        memset(&o, 0, sizeof o);
        memset(&a, 0, sizeof a);
        d.ndim = 1;
        d.n = d.g = 2;
        d.c = 32;
        d.input[0] = 20;
        d.eps = 1e-5;
        d.param_dtype = CKCONV_F32;
        d.in.dtype = types[i % 4][0];
        d.out.dtype = types[i % 4][1];
        d.in.layout = d.out.layout = i / 4 % 2 ? CKCONV_NGCHW : CKCONV_NHWGC;
        o.engine = test_engine();
        test.plan = NULL;
        if (!CHECK_PLAN(ckconv_plan_groupnorm(&plan, CKCONV_GROUPNORM_FWD, &d, &o, &devices[i / 8], &err),
                        err)) {
            continue;
        }
        test.plan = &plan;
        for (int j = 0; j < 4; j++) {
            ckconv_tensor_info info;
            CHECK_OK(ckconv_plan_tensor(&plan, which[j], &info, &err), err);
            test_tensor_make(&t[j], info.dtype, info.rank, info.length, info.stride, 0);
        }
        double *x = test_doubles(t[0].count), *params = test_doubles(t[2].count);
        for (int64_t j = 0; j < t[0].count; j++) {
            x[j] = (double)(j * 7 % 5) - 2.0;
        }
        test_scatter(&t[0], x);
        for (int64_t j = 0; j < t[2].count; j++) {
            params[j] = j % 3 == 1 ? (double)NAN : 0.5;
        }
        test_scatter(&t[2], params);
        edge_payloads(&t[2]);
        for (int64_t j = 0; j < t[3].count; j++) {
            params[j] = 1.0;
        }
        test_scatter(&t[3], params);
        test_buffer_make(&workspace, (size_t)plan.workspace_bytes, 0);
        a.in = test_data(&t[0]);
        a.out = test_data(&t[1]);
        a.gamma = test_data(&t[2]);
        a.beta = test_data(&t[3]);
        if (CHECK_OK(test_run(&plan, &a, plan.workspace_bytes ? workspace.data : NULL,
                              (size_t)plan.workspace_bytes, NULL, &err),
                     err)) {
            int wrong = 0;
            test_gather(&t[1], x);
            for (int64_t j = 0; j < t[1].count; j++) {
                /* group, image, channel, position */
                const int64_t channel = j / 20 / 32 / 2 * 32 + j / 20 % 32;
                wrong += isnan(x[j]) != (channel % 3 == 1);
            }
            CHECK_MSG(wrong == 0, "%d of %lld results are NaN or are not, against their gamma", wrong,
                      (long long)t[1].count);
        }
        test_buffer_free(&workspace);
        for (int j = 0; j < 4; j++) {
            test_tensor_free(&t[j]);
        }
        free(x);
        free(params);
    }
}

/* One plan: where its results are not what they must be. */
static void run_plan(const ckconv_plan *plan, const ckconv_conv_desc *d, ckconv_dtype type)
{
    test_tensor t[3];
    ckconv_args a;
    ckconv_error err;
    test_buffer workspace;
    const ckconv_op op = plan->op;
    const int written = op == CKCONV_FWD ? 2 : op == CKCONV_BWD_DATA ? 0 : 1;
    const int64_t side = d->filter[0] == 1 ? 0 : 2; /* each way from a special pixel */
    /* groups side by side, bands of zeros: NaN may spread there (docs/numerics.md) */
    const ckconv_family family = ckconv_instance_family(plan->instance);
    const int spreads = d->g > 1 && (family == CKCONV_FAMILY_MFMA || family == CKCONV_FAMILY_WMMA ||
                                     family == CKCONV_FAMILY_MMA ||
                                     strstr(ckconv_instance_name(plan->instance), "matrix") != NULL);
    double *x[3];
    for (int i = 0; i < 3; i++) {
        ckconv_tensor_info info;
        CHECK_OK(ckconv_plan_tensor(plan, i, &info, &err), err);
        test_tensor_make(&t[i], type, info.rank, info.length, info.stride, 0);
        x[i] = test_doubles(t[i].count);
        for (int64_t j = 0; j < t[i].count; j++) {
            x[i][j] = i == 1 || op == CKCONV_BWD_WEIGHT ? 1.0 : 0.0;
        }
    }
    /* the tensor whose pixels are special: every five pixels the next value in all groups' channel 0; of
       bwd_weight dout: one pixel each, the k-th value in channel k */
    const int from = op == CKCONV_FWD ? 0 : 2;
    const int64_t channels = t[from].length[2], pixels = t[from].length[3];
    for (int64_t j = 0; j < t[from].count; j++) {
        const int64_t pixel = j % pixels, channel = j / pixels % channels, n = j / pixels / channels % d->n;
        if (op == CKCONV_BWD_WEIGHT) {
            x[from][j] = pixel == channel % pixels && n == 0 ? values[channel % VALUES] : 0.0;
        } else {
            x[from][j] = channel == 0 && pixel % 5 == 2 ? values[pixel / 5 % VALUES] : 0.0;
        }
    }
    for (int i = 0; i < 3; i++) {
        if (i != written) {
            test_scatter(&t[i], x[i]);
            edge_payloads(&t[i]);
        }
    }
    memset(&a, 0, sizeof a);
    a.in = op == CKCONV_BWD_DATA ? NULL : test_data(&t[0]);
    a.din = op == CKCONV_BWD_DATA ? test_data(&t[0]) : NULL;
    a.wei = op == CKCONV_BWD_WEIGHT ? NULL : test_data(&t[1]);
    a.dwei = op == CKCONV_BWD_WEIGHT ? test_data(&t[1]) : NULL;
    a.out = op == CKCONV_FWD ? test_data(&t[2]) : NULL;
    a.dout = op == CKCONV_FWD ? NULL : test_data(&t[2]);
    test_buffer_make(&workspace, (size_t)plan->workspace_bytes, 0);
    if (CHECK_OK(test_run(plan, &a, plan->workspace_bytes ? workspace.data : NULL,
                          (size_t)plan->workspace_bytes, NULL, &err),
                 err)) {
        const ckconv_element_op *e = written == 2 ? &d->op_out : written == 0 ? &d->op_in : &d->op_wei;
        long wrong = 0;
        double first = 0, instead = 0;
        test_gather(&t[written], x[written]);
        for (int64_t j = 0; j < t[written].count; j++) {
            double sum = 0;
            if (op == CKCONV_BWD_WEIGHT) {
                sum = values[j / t[1].length[3] / t[1].length[2] % t[1].length[1] % VALUES];
                /* taps that this pixel has: with pads one in three may lie outside */
            } else {
                const int64_t pixel = j % t[written].length[3];
                for (int64_t other = pixel - side / 2; other <= pixel + side / 2; other++) {
                    if (other >= 0 && other < pixels && other % 5 == 2) {
                        sum = values[other / 5 % VALUES];
                    }
                }
            }
            const double want = test_round(type, expected(e, sum));
            if (!same(x[written][j], want) && !(spreads && isnan(x[written][j]))) {
                first = wrong ? first : x[written][j];
                instead = wrong ? instead : want;
                wrong++;
            }
        }
        CHECK_MSG(wrong == 0, "%s: %ld results, the first is %g instead of %g", ckconv_element_name(e->kind),
                  wrong, first, instead);
        ran++;
    }
    test_buffer_free(&workspace);
    for (int i = 0; i < 3; i++) {
        free(x[i]);
        test_tensor_free(&t[i]);
    }
}

int main(void)
{
    static const layer_row layers[] = {{1, 64, 64, 1}, {1, 32, 32, 3}, {24, 1, 1, 3}, {1, 16, 5, 3}};
    static const ckconv_dtype types[][2] = {{CKCONV_F32, (ckconv_dtype)0},  {CKCONV_F32, CKCONV_BF16X3},
                                            {CKCONV_F16, (ckconv_dtype)0},  {CKCONV_F32, CKCONV_TF32},
                                            {CKCONV_BF16, (ckconv_dtype)0}, {CKCONV_F64, (ckconv_dtype)0},
                                            {CKCONV_F32, CKCONV_BF16}};
    static const ckconv_element_op ops[] = {
        {CKCONV_PASS, 0, 0, 0},          {CKCONV_CLAMP, 0, -1.5, 2.5},  {CKCONV_RELU, 0, 0, 0},
        {CKCONV_LEAKY_RELU, 0, 0.25, 0}, {CKCONV_HARDSIGMOID, 0, 0, 0}, {CKCONV_SCALE, 0, 2, 0},
    };
    test_begin("test_special");
    test_transforms();
    test_norms();
    for (int i = 0; i < 4 * 7 * 3 * 6; i++) {
        const layer_row *l = &layers[i % 4];
        const int type = i / 4 % 7, last = i / 28 % 3 != 2;
        const ckconv_op op = (ckconv_op)(CKCONV_FWD + i / 28 % 3);
        ckconv_conv_desc d;
        ckconv_plan base, plan;
        ckconv_error err;
        ckconv_options o;
        memset(&o, 0, sizeof o);
        o.engine = test_engine();
        o.threads = 1;
        test_layer(&d, 1, l->g, 2, l->k, l->c);
        d.filter[0] = l->filter;
        d.input[0] = op == CKCONV_BWD_WEIGHT ? 40 + l->filter : 40;
        if (last) {
            d.pad_lo[0] = d.pad_hi[0] = l->filter / 2;
        }
        d.in.dtype = types[type][0];
        d.compute_in = d.compute_wei = d.compute_out = types[type][1];
        ckconv_element_op *e = op == CKCONV_FWD ? &d.op_out : op == CKCONV_BWD_DATA ? &d.op_in : &d.op_wei;
        *e = ops[i / 84];
        /* where it is slow: clamp and bf16x3, of the others some */
        if (test_thin() && (ops[i / 84].kind != CKCONV_CLAMP || type > 2) &&
            (ops[i / 84].kind != CKCONV_PASS || type != 1) && (i + i / 28 + i / 84) % 11 != 0) {
            continue;
        }
        test.plan = NULL;
        if (!CHECK_PLAN(ckconv_plan_conv(&base, op, &d, &o, NULL, &err), err)) {
            continue;
        }
        int32_t next = 0;
        plan = base;
        do {
            test.plan = &plan;
            run_plan(&plan, &base.u.conv, types[type][0]);
        } while (test_next_plan(&base, 1, &next, &plan));
    }
    printf("note: %ld plans\n", ran);
    return test_end();
}
