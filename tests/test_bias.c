/* test_bias.c - dbias of bwd_weight, beside dwei and alone; results that are added to what memory holds
   SPDX-License-Identifier: MIT

   Whole numbers, whose sums every engine must give exactly: for each type, layout, shape, instance and split,
   against sums that are taken here, and dwei against ref. Then long sums of random numbers against the bound
   of test_sums.c, infinities and NaN, which stay in their channel, and what is refused. */
#include "naive.h"

typedef struct shape {
    const char *name;
    int32_t ndim;
    int64_t g, n, k, c, filter[3], input[3], stride, dilation, pad;
} shape;

static const shape shapes[] = {
    {"pointwise", 2, 1, 3, 40, 24, {1, 1}, {9, 7}, 1, 1, 0},
    {"3 x 3", 2, 1, 2, 72, 16, {3, 3}, {11, 12}, 1, 1, 1},
    {"several tiles", 2, 1, 1, 200, 40, {3, 3}, {10, 10}, 1, 1, 1},
    {"stride", 2, 1, 2, 17, 9, {3, 3}, {13, 10}, 2, 1, 1},
    {"dilation, 1D", 1, 1, 2, 32, 32, {5}, {70}, 1, 2, 4},
    {"3D", 3, 1, 2, 8, 24, {3, 1, 2}, {5, 4, 6}, 1, 1, 1},
    {"first layer", 2, 1, 2, 64, 3, {7, 7}, {30, 30}, 2, 1, 3},
    {"groups", 2, 3, 2, 64, 8, {1, 1}, {8, 8}, 1, 1, 0},
    {"small groups", 2, 16, 2, 4, 4, {3, 3}, {9, 10}, 1, 1, 1},
    {"wide groups", 2, 2, 2, 32, 16, {3, 3}, {8, 9}, 1, 1, 1},
    {"depthwise", 2, 24, 3, 1, 1, {3, 3}, {12, 11}, 1, 1, 1},
    {"depthwise, stride", 2, 19, 2, 2, 1, {5, 5}, {14, 11}, 2, 1, 2},
    {"one channel", 1, 1, 1, 1, 1, {3}, {400}, 1, 1, 1},
    {"many positions", 2, 1, 8, 64, 64, {1, 1}, {24, 24}, 1, 1, 0},
    {"image product", 2, 1, 4, 16, 32, {1, 1}, {16, 16}, 1, 1, 0},
    {"few positions", 2, 1, 1, 80, 16, {3, 3}, {6, 5}, 1, 1, 1},
    {"no images", 2, 1, 0, 16, 32, {3, 3}, {8, 8}, 1, 1, 1},
    /* sm_90 with one unit: blocks have equal shares of the steps of all tiles */
    {"shares", 2, 1, 8, 64, 64, {3, 3}, {24, 24}, 1, 1, 1},
    /* GPUs: section by section */
    {"large filter", 2, 1, 1, 16, 16, {17, 17}, {14, 15}, 1, 1, 8},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] - 2 }; /* and two that take long */

static const struct {
    ckconv_dtype in, wei, out, compute, dbias[3];
} types[] = {
    {CKCONV_F16, CKCONV_F16, CKCONV_F16, 0, {CKCONV_F32, CKCONV_F16}},
    {CKCONV_BF16, CKCONV_F32, CKCONV_BF16, 0, {CKCONV_F32, CKCONV_BF16}},
    {CKCONV_F32, CKCONV_F32, CKCONV_F32, 0, {CKCONV_F32}},
    {CKCONV_BF16, CKCONV_BF16, CKCONV_BF16, 0, {CKCONV_BF16, CKCONV_F32}},
    {CKCONV_F64, CKCONV_F64, CKCONV_F64, 0, {CKCONV_F64}},
    {CKCONV_I8, CKCONV_I32, CKCONV_I8, 0, {CKCONV_I32, CKCONV_I8}},
    {CKCONV_F8E4M3, CKCONV_F32, CKCONV_F16, 0, {CKCONV_F16, CKCONV_F32}},
    {CKCONV_F8E5M2, CKCONV_F8E4M3, CKCONV_F8E5M2, 0, {CKCONV_F8E4M3, CKCONV_F32, CKCONV_F8E5M2}},
    {CKCONV_F16, CKCONV_F32, CKCONV_F16, CKCONV_F8E4M3, {CKCONV_F32}},
    {CKCONV_F32, CKCONV_F32, CKCONV_F32, CKCONV_TF32, {CKCONV_F32}},
    {CKCONV_F32, CKCONV_F32, CKCONV_F32, CKCONV_BF16X3, {CKCONV_F32}},
    {CKCONV_F32, CKCONV_F32, CKCONV_F32, CKCONV_BF16, {CKCONV_F32}},
};
enum { TYPES = sizeof types / sizeof types[0] };

enum { LAST, GROUPS, FIRST, STRIDED, LAYOUTS };

static ckconv_conv_desc make_desc(const shape *s, int type, int layout, ckconv_dtype dbias)
{
    static const ckconv_layout layouts[3] = {CKCONV_NHWGC, CKCONV_GNHWC, CKCONV_NGCHW};
    ckconv_conv_desc d;
    memset(&d, 0, sizeof d);
    d.ndim = s->ndim;
    d.g = s->g;
    d.n = s->n;
    d.k = s->k;
    d.c = s->c;
    for (int i = 0; i < s->ndim; i++) {
        d.filter[i] = s->filter[i];
        d.input[i] = s->input[i];
        d.stride[i] = s->stride;
        d.dilation[i] = s->dilation;
        d.pad_lo[i] = d.pad_hi[i] = s->pad;
    }
    d.in.dtype = types[type].in;
    d.wei.dtype = types[type].wei;
    d.out.dtype = types[type].out;
    d.compute_in = d.compute_out = types[type].compute;
    d.dbias = dbias;
    d.in.layout = d.out.layout = layouts[layout < STRIDED ? layout : LAST];
    d.wei.layout = layout == FIRST ? CKCONV_GKCYX : CKCONV_GKYXC; /* as PyTorch has them */
    if (layout == STRIDED) { /* y fastest, gaps of one after each axis */
        int64_t length[6], next = 1;
        naive_lengths(&d, NAIVE_OUT, length);
        int order[6] = {4, 2, 3, 0, 5, 1};
        d.out.layout = CKCONV_STRIDED;
        for (int i = 0; i < 6; i++) {
            if (order[i] < 3 + s->ndim) {
                d.out.stride[order[i]] = next;
                next *= length[order[i]] + 1;
            }
        }
    }
    return d;
}

/* Is it what a switch left out of this build? */
static int left_out(ckconv_status s, const ckconv_error *err)
{
    static int told;
    const int out = s == CKCONV_ERR_UNSUPPORTED && strstr(err->text, "left out of this build") != NULL;
    if (out && !told) {
        told = printf("skipped: %s\n", err->text);
    }
    return out;
}

/* All tensors of one problem; in, dout and what dwei and dbias hold before are whole numbers. */
typedef struct work {
    ckconv_conv_desc desc;
    test_tensor in, wei, out, dbias;
    double *before[2];     /* dwei, dbias */
    double *want[2], *got; /* likewise */
} work;

static void make_tensor(test_tensor *t, const ckconv_plan *plan, int32_t which, size_t offset)
{
    ckconv_tensor_info info;
    ckconv_error err;
    memset(&info, 0, sizeof info);
    CHECK_OK(ckconv_plan_tensor(plan, which, &info, &err), err);
    test_tensor_make(t, info.dtype, info.rank, info.length, info.stride, offset);
}

static void fill_whole(test_tensor *t, test_rng *r, int64_t most)
{
    double *v = test_doubles(t->count);
    for (int64_t i = 0; i < t->count; i++) {
        v[i] = (double)test_range(r, -most, most);
    }
    test_scatter(t, v);
    free(v);
}

/* Sums of dout for each channel; operation: relu, if there is one. */
static void sum_channels(const work *w, double *sum)
{
    const test_tensor *t = &w->out;
    double *v = test_doubles(t->count);
    int64_t rest = 1;
    test_gather(t, v);
    for (int i = 3; i < t->rank; i++) {
        rest *= t->length[i];
    }
    for (int64_t i = 0; i < t->length[0] * t->length[2]; i++) {
        sum[i] = 0.0;
    }
    for (int64_t i = 0; i < t->count; i++) {
        const int64_t k = i / rest % t->length[2], g = i / rest / t->length[2] / t->length[1];
        const double x = w->desc.op_out.kind == CKCONV_RELU && v[i] < 0.0 ? 0.0 : v[i];
        sum[g * t->length[2] + k] += x;
    }
    free(v);
}

/* Plans with ref, makes the tensors and what is wanted. 0: the description is refused. */
static int make_work(work *w, const ckconv_conv_desc *desc, size_t offset, uint64_t seed)
{
    ckconv_plan ref;
    ckconv_options o;
    ckconv_error err;
    ckconv_args a;
    ckconv_conv_desc plain = *desc;
    test_rng r = test_seed(seed);
    const int adds = desc->op_wei.kind == CKCONV_ACCUMULATE;
    memset(w, 0, sizeof *w);
    memset(&o, 0, sizeof o);
    memset(&a, 0, sizeof a);
    o.engine = CKCONV_ENGINE_REF;
    test.plan = NULL;
    w->desc = *desc;
    const ckconv_status s = ckconv_plan_conv(&ref, CKCONV_BWD_WEIGHT, desc, &o, NULL, &err);
    if (left_out(s, &err) || !CHECK_OK(s, err)) {
        return 0;
    }
    test.plan = &ref;
    make_tensor(&w->in, &ref, CKCONV_TENSOR_IN, offset);
    make_tensor(&w->wei, &ref, CKCONV_TENSOR_WEI, offset);
    make_tensor(&w->out, &ref, CKCONV_TENSOR_OUT, offset);
    make_tensor(&w->dbias, &ref, CKCONV_TENSOR_DBIAS, offset);
    fill_whole(&w->in, &r, 2);
    fill_whole(&w->out, &r, 2);
    test_tensor *t[2];
    t[0] = &w->wei;
    t[1] = &w->dbias;
    for (int i = 0; i < 2; i++) {
        w->before[i] = test_doubles(t[i]->count);
        w->want[i] = test_doubles(t[i]->count);
        for (int64_t j = 0; j < t[i]->count; j++) {
            w->before[i][j] = (double)test_range(&r, -8, 8);
        }
    }
    w->got = test_doubles(w->wei.count > w->dbias.count ? w->wei.count : w->dbias.count);
    /* dwei by ref: without dbias, sums as they are before anything is added and rounded */
    test_tensor wide;
    plain.dbias = 0;
    plain.op_wei.kind = CKCONV_PASS;
    plain.wei.dtype = desc->in.dtype == CKCONV_F64  ? CKCONV_F64
                      : desc->in.dtype == CKCONV_I8 ? CKCONV_I32
                                                    : CKCONV_F32;
    test_tensor_make(&wide, plain.wei.dtype, w->wei.rank, w->wei.length, w->wei.stride, 0);
    a.in = test_data(&w->in);
    a.dout = test_data(&w->out);
    a.dwei = test_data(&wide);
    CHECK_OK(ckconv_ref_conv(CKCONV_BWD_WEIGHT, &plain, &a, &err), err);
    test_gather(&wide, w->want[0]);
    test_tensor_free(&wide);
    sum_channels(w, w->want[1]);
    for (int i = 0; i < 2; i++) {
        for (int64_t j = 0; j < t[i]->count; j++) {
            const double sum = w->want[i][j] + (adds ? w->before[i][j] : 0.0);
            w->want[i][j] = test_round(t[i]->dtype, sum);
        }
    }
    return 1;
}

static void free_work(work *w)
{
    for (int i = 0; i < 2; i++) {
        free(w->before[i]);
        free(w->want[i]);
    }
    free(w->got);
    test_tensor_free(&w->in);
    test_tensor_free(&w->wei);
    test_tensor_free(&w->out);
    test_tensor_free(&w->dbias);
}

static void compare(work *w, const test_tensor *t, const double *want, const char *what)
{
    test_gather(t, w->got);
    for (int64_t i = 0; i < t->count; i++) {
        const double y = w->got[i];
        if (y != want[i] && !(isnan(y) && isnan(want[i]))) {
            char place[96];
            test_place(t, i, place, sizeof place);
            CHECK_MSG(0, "%s (%s) is %.17g, not %.17g", what, place, y, want[i]);
            return;
        }
    }
    CHECK_MSG(1, "%s", what);
}

/* A run of a plan; alone: without dwei and in. */
static void run_work(work *w, const ckconv_plan *plan, int alone)
{
    ckconv_args a;
    ckconv_error err;
    test_buffer workspace;
    memset(&a, 0, sizeof a);
    memset(&err, 0, sizeof err);
    test.plan = plan;
    snprintf(test.extra, sizeof test.extra, "%s", alone ? " (dbias alone)" : "");
    test_buffer_make(&workspace, (size_t)plan->workspace_bytes, 0);
    memset(workspace.data, 0xFF, workspace.bytes);
    test_poison(&w->wei);
    test_poison(&w->dbias);
    if (w->desc.op_wei.kind == CKCONV_ACCUMULATE) {
        test_scatter(&w->wei, w->before[0]);
        test_scatter(&w->dbias, w->before[1]);
    }
    a.in = alone ? NULL : test_data(&w->in);
    a.dwei = alone ? NULL : test_data(&w->wei);
    a.dout = test_data(&w->out);
    a.dbias = test_data(&w->dbias);
    if (CHECK_OK(test_run(plan, &a, plan->workspace_bytes > 0 ? workspace.data : NULL, workspace.bytes, NULL,
                          &err),
                 err)) {
        compare(w, &w->dbias, w->want[1], "dbias");
        if (!alone) {
            compare(w, &w->wei, w->want[0], "dwei");
        }
        CHECK_MSG(test_guards_intact(&workspace) && test_guards_intact(&w->dbias.buffer) &&
                      test_guards_intact(&w->wei.buffer),
                  "written out of bounds");
    }
    test_buffer_free(&workspace);
    test.extra[0] = 0;
}

/* Which instances ran, and whether their tiles summed dbias. */
static int fused, passes;

static void count_plan(const ckconv_plan *plan)
{
    char text[2048];
    ckconv_plan_describe(plan, text, sizeof text);
    CHECK_MSG(strstr(text, "; dbias ") != NULL, "described without dbias: %s", text);
    fused += strstr(text, "summed by the tiles") != NULL;
    passes += strstr(text, "a pass over dout") != NULL;
}

/* Every instance, forced splits, no workspace. */
static void test_problem(const ckconv_conv_desc *desc, size_t offset, uint64_t seed, int all)
{
    ckconv_device devices[3];
    work w;
    int32_t index = 0;
    if (!make_work(&w, desc, offset, seed)) {
        return;
    }
    const int count = test_cpu_devices(devices);
    for (int i = 0; i < count; i++) {
        static const struct {
            int64_t workspace;
            int32_t split;
        } limits[] = {{0, 0}, {-1, 0}, {0, 3}, {0, 7}, {600, 0}};
        for (int j = 0; j < (all ? 5 : i == 0 ? 2 : 1); j++) {
            ckconv_plan plan;
            ckconv_options o;
            ckconv_error err;
            memset(&o, 0, sizeof o);
            o.engine = test_engine();
            o.max_workspace = limits[j].workspace;
            o.split_k = limits[j].split;
            ckconv_status s = ckconv_plan_conv(&plan, CKCONV_BWD_WEIGHT, desc, &o, &devices[i], &err);
            if (s != CKCONV_OK && j > 1) {
                continue;
            }
            test.plan = NULL;
            if (CHECK_OK(s, err)) {
                count_plan(&plan);
                run_work(&w, &plan, 0);
                run_work(&w, &plan, 1);
                CHECK_MSG(j != 1 || plan.workspace_bytes == 0, "no workspace was allowed");
            }
        }
        ckconv_plan base, plan;
        ckconv_error err;
        ckconv_options o;
        memset(&o, 0, sizeof o);
        o.engine = test_engine();
        index = 0;
        if (all && ckconv_plan_conv(&base, CKCONV_BWD_WEIGHT, desc, &o, &devices[i], &err) == CKCONV_OK) {
            while (test_next_plan(&base, 1, &index, &plan)) {
                count_plan(&plan);
                run_work(&w, &plan, 0);
                run_work(&w, &plan, 1);
            }
        }
    }
    free_work(&w);
}

/* As many positions as two parts of the CPU's sums have: a pass more, which adds them, and workspace. */
static void test_two_parts(void)
{
    const shape s = {"two parts", 1, 1, 2, 32, 8, {1}, {4096}, 1, 1, 0};
    ckconv_conv_desc d = make_desc(&s, 2, LAST, CKCONV_F32);
    test_problem(&d, 0, 98, 0);
    for (int limit = 0; limit < 2; limit++) {
        ckconv_plan with, without;
        ckconv_options o;
        ckconv_error err;
        memset(&o, 0, sizeof o);
        o.engine = CKCONV_ENGINE_CPU;
        o.max_workspace = -limit;
        d.dbias = CKCONV_F32;
        test.plan = NULL;
        CHECK_OK(ckconv_plan_conv(&with, CKCONV_BWD_WEIGHT, &d, &o, NULL, &err), err);
        o.instance = ckconv_instance_name(with.instance);
        d.dbias = 0;
        CHECK_OK(ckconv_plan_conv(&without, CKCONV_BWD_WEIGHT, &d, &o, NULL, &err), err);
        test.plan = &with;
        CHECK_MSG(with.launches == without.launches + 2 - limit, "%d passes, without dbias %d",
                  (int)with.launches, (int)without.launches);
        CHECK_MSG(limit ? with.workspace_bytes == 0 : with.workspace_bytes >= 2 * 8 * s.k,
                  "%lld bytes of workspace", (long long)with.workspace_bytes);
    }
}

static void test_problems(void)
{
    /* one in so many, channels last and others */
    const int thin = !test_thin() ? 0 : test_effort() == 0 ? 2 : 1;
    static const int every[3] = {3, 7, 17}, every_other[3] = {8, 24, 31};
    int seed = 0;
    for (int i = 0; i < 4; i++) {
        ckconv_conv_desc d = make_desc(&shapes[SHAPES + i / 2], i % 2, LAST, types[i % 2].dbias[0]);
        d.op_wei.kind = i < 2 ? CKCONV_PASS : CKCONV_ACCUMULATE;
        test_problem(&d, 0, 99, 0);
    }
    if (!test_on_gpu()) {
        test_two_parts();
    }
    for (int s = 0; s < SHAPES; s++) {
        for (int t = 0; t < TYPES; t++) {
            for (int l = 0; l < LAYOUTS; l++) {
                const int turn = s + t + l + test_thin_turn();
                if (test_effort() < 2 && turn % (l != LAST ? every_other : every)[thin] != 0) {
                    continue;
                }
                int kinds = 0;
                while (kinds < 3 && types[t].dbias[kinds] != 0) {
                    kinds++;
                }
                ckconv_conv_desc d = make_desc(&shapes[s], t, l, types[t].dbias[turn % kinds]);
                d.op_wei.kind = seed % 3 == 1 ? CKCONV_ACCUMULATE : CKCONV_PASS;
                d.op_out.kind = seed % 5 == 2 ? CKCONV_RELU : CKCONV_PASS;
                d.wei.layout = seed % 4 == 3 ? CKCONV_GKCYX : CKCONV_GKYXC;
                test_problem(&d, seed % 7 == 5 ? 1 : 0, (uint64_t)seed + 1,
                             test_effort() == 2 || (s + 2 * t) % 3 == l);
                seed++;
            }
        }
    }
}

/* Uniform numbers in (0, 1): see test_sums.c. */
static void test_long(void)
{
    static const ckconv_dtype kinds[] = {CKCONV_F32, CKCONV_F16, CKCONV_BF16, CKCONV_F64};
    static const struct {
        int64_t g, k, c;
        int layout;
    } rows[] = {{1, 8, 8, LAST}, {1, 64, 16, LAST}, {1, 5, 8, FIRST},
                {8, 1, 1, LAST}, {4, 4, 4, LAST},   {1, 3, 3, STRIDED}};
    const int effort = test_effort();
    double worst = 0;
    for (int i = 0; i < 24; i++) {
        const ckconv_dtype kind = kinds[i % 4];
        const int row = i / 4, f64 = kind == CKCONV_F64;
        if (test_thin() && effort < 1 && (i + row + test_thin_turn()) % 2 != 0) {
            continue;
        }
        const int64_t n = test_thin() ? 24 : effort < 1 ? 64 : effort < 2 ? 256 : 8192;
        shape s = {"long", 2, rows[row].g, n, rows[row].k, rows[row].c, {1, 1}, {32, 29}, 1, 1, 0};
        for (int limit = 0; limit < 2; limit++) {
            ckconv_device devices[3];
            ckconv_conv_desc d = make_desc(&s, 0, rows[row].layout, f64 ? CKCONV_F64 : CKCONV_F32);
            ckconv_plan plan;
            ckconv_options o;
            ckconv_error err;
            test_tensor in, out, wei, dbias;
            test_buffer workspace;
            ckconv_args a;
            test_rng r = test_seed((uint64_t)i + 77);
            memset(&o, 0, sizeof o);
            memset(&a, 0, sizeof a);
            d.in.dtype = d.wei.dtype = d.out.dtype = kind;
            test_cpu_devices(devices);
            o.engine = test_engine();
            o.max_workspace = limit ? -1 : 0;
            test.plan = NULL;
            const ckconv_status status =
                ckconv_plan_conv(&plan, CKCONV_BWD_WEIGHT, &d, &o, &devices[0], &err);
            if (left_out(status, &err) || !CHECK_OK(status, err)) {
                continue;
            }
            test.plan = &plan;
            make_tensor(&in, &plan, CKCONV_TENSOR_IN, 0);
            make_tensor(&out, &plan, CKCONV_TENSOR_OUT, 0);
            make_tensor(&wei, &plan, CKCONV_TENSOR_WEI, 0);
            make_tensor(&dbias, &plan, CKCONV_TENSOR_DBIAS, 0);
            test_buffer_make(&workspace, (size_t)plan.workspace_bytes, 0);
            memset(in.buffer.data, 0, in.buffer.bytes);
            const int bits = kind == CKCONV_F16 ? 11 : kind == CKCONV_BF16 ? 8 : 24;
            double sum[64] = {0}, lost[64] = {0};
            int64_t at[6] = {0, 0, 0, 0, 0, 0}, offset = 0;
            for (int64_t e = 0; e < out.count; e++) {
                const double x = ldexp((double)test_range(&r, 1, ((int64_t)1 << bits) - 1), -bits);
                const int64_t channel = at[0] * out.length[2] + at[2];
                const double next = sum[channel] + x;
                lost[channel] += (sum[channel] - next) + x;
                sum[channel] = next;
                test_encode(kind, x, out.buffer.data + (size_t)offset * test_size(kind));
                test_step(&out, at, &offset);
            }
            for (int alone = 0; alone < 2; alone++) {
                a.in = alone ? NULL : test_data(&in);
                a.dwei = alone ? NULL : test_data(&wei);
                a.dout = test_data(&out);
                a.dbias = test_data(&dbias);
                if (CHECK_OK(test_run(&plan, &a, plan.workspace_bytes > 0 ? workspace.data : NULL,
                                      workspace.bytes, NULL, &err),
                             err)) {
                    double got[64], most = 0;
                    test_gather(&dbias, got);
                    for (int64_t c = 0; c < dbias.count; c++) {
                        const double whole = sum[c] + lost[c];
                        const double off = fabs(got[c] - whole) / (whole * ldexp(1.0, f64 ? -53 : -24));
                        most = off > most ? off : most;
                    }
                    worst = most > worst ? most : worst;
                    CHECK_MSG(most <= (test_on_gpu() ? 32 : 2),
                              "a sum of %lld numbers of %s is off by %.1f units", (long long)out.count / 8,
                              ckconv_dtype_name(kind), most);
                }
            }
            test_buffer_free(&workspace);
            test_tensor_free(&in);
            test_tensor_free(&out);
            test_tensor_free(&wei);
            test_tensor_free(&dbias);
        }
    }
    printf("note: largest error of a long sum: %.2f units\n", worst);
}

/* An infinity and a NaN in channels of their own; the others are as they were. */
static void test_specials(void)
{
    for (int s = 0; s < SHAPES - 1; s++) {
        for (int t = 0; t < 3; t++) {
            ckconv_conv_desc d = make_desc(&shapes[s], t, s % 3, CKCONV_F32);
            ckconv_device devices[3];
            ckconv_plan base, plan;
            ckconv_options o;
            ckconv_error err;
            work w;
            int32_t index = 0;
            memset(&o, 0, sizeof o);
            const int every = test_effort() == 2 ? 1 : test_thin() ? 4 : 2;
            if ((s + t + test_thin_turn()) % every != 0 || !make_work(&w, &d, 0, 5)) {
                continue;
            }
            double *v = test_doubles(w.out.count);
            const int64_t channels = w.out.length[0] * w.out.length[2];
            test_gather(&w.out, v);
            int64_t rest = w.out.count / w.out.length[0] / w.out.length[1] / w.out.length[2];
            for (int64_t e = 0; e < 3 && e < channels; e++) {
                const int64_t k = e % w.out.length[2], g = e / w.out.length[2];
                const int64_t at = (g * w.out.length[1] * w.out.length[2] + k) * rest + rest / 2;
                v[at] = e == 1 ? (double)NAN : e == 0 ? (double)INFINITY : -(double)INFINITY;
                w.want[1][e] = v[at];
            }
            test_scatter(&w.out, v);
            free(v);
            test_cpu_devices(devices);
            o.engine = test_engine();
            test.plan = NULL;
            if (CHECK_OK(ckconv_plan_conv(&base, CKCONV_BWD_WEIGHT, &d, &o, &devices[0], &err), err)) {
                while (test_next_plan(&base, 1, &index, &plan)) {
                    ckconv_args a;
                    test_buffer workspace;
                    memset(&a, 0, sizeof a);
                    test.plan = &plan;
                    test_buffer_make(&workspace, (size_t)plan.workspace_bytes, 0);
                    a.in = test_data(&w.in);
                    a.dwei = test_data(&w.wei);
                    a.dout = test_data(&w.out);
                    a.dbias = test_data(&w.dbias);
                    if (CHECK_OK(test_run(&plan, &a, plan.workspace_bytes > 0 ? workspace.data : NULL,
                                          workspace.bytes, NULL, &err),
                                 err)) {
                        compare(&w, &w.dbias, w.want[1], "dbias with infinities");
                    }
                    test_buffer_free(&workspace);
                }
            }
            free_work(&w);
        }
    }
}

/* out += and din +=, with the same table of instances. */
static void test_accumulate(void)
{
    for (int s = 0; s < SHAPES; s++) {
        for (int t = 0; t < 6; t++) {
            for (ckconv_op op = CKCONV_FWD; op <= CKCONV_BWD_DATA; op++) {
                ckconv_conv_desc d = make_desc(&shapes[s], t, (s + t) % LAYOUTS, 0), plain;
                ckconv_tensor *written = op == CKCONV_FWD ? &d.out : &d.in;
                ckconv_device devices[3];
                ckconv_plan base, plan, ref;
                ckconv_options o;
                ckconv_error err;
                ckconv_args a;
                test_tensor x[3];
                test_rng r = test_seed((uint64_t)(s * 100 + t));
                int32_t index = 0;
                memset(&o, 0, sizeof o);
                memset(&a, 0, sizeof a);
                d.compute_in = d.compute_out = 0;
                if (types[t].in == CKCONV_I8) {
                    d.wei.dtype = CKCONV_I8;
                    written->dtype = CKCONV_I32;
                } else if (types[t].in == CKCONV_F16 && (s & 1)) {
                    written->dtype = CKCONV_F32;
                }
                plain = d; /* sums before they are rounded */
                (op == CKCONV_FWD ? &plain.out : &plain.in)->dtype = types[t].in == CKCONV_F64  ? CKCONV_F64
                                                                     : types[t].in == CKCONV_I8 ? CKCONV_I32
                                                                                                : CKCONV_F32;
                (op == CKCONV_FWD ? &d.op_out : &d.op_in)->kind = CKCONV_ACCUMULATE;
                o.engine = CKCONV_ENGINE_REF;
                test.plan = NULL;
                const int every = test_effort() == 2 ? 1 : test_thin() ? 9 : 3;
                if ((s + t + test_thin_turn()) % every != 0) {
                    continue;
                }
                const ckconv_status status = ckconv_plan_conv(&ref, op, &plain, &o, NULL, &err);
                if (left_out(status, &err) || !CHECK_OK(status, err)) {
                    continue;
                }
                for (int i = 0; i < 3; i++) {
                    make_tensor(&x[i], &ref, i, 0);
                    fill_whole(&x[i], &r, 2);
                }
                const int w = op == CKCONV_FWD ? NAIVE_OUT : NAIVE_IN;
                a.in = a.din = test_data(&x[NAIVE_IN]);
                a.wei = test_data(&x[NAIVE_WEI]);
                a.out = test_data(&x[NAIVE_OUT]);
                a.dout = a.out;
                double *before = test_doubles(x[w].count), *want = test_doubles(x[w].count);
                double *got = test_doubles(x[w].count);
                test_gather(&x[w], before);
                CHECK_OK(ckconv_run(&ref, &a, NULL, 0, NULL, &err), err);
                test_gather(&x[w], want);
                test_tensor wide = x[w];
                test_tensor_make(&x[w], written->dtype, wide.rank, wide.length, wide.stride, 0);
                test_tensor_free(&wide);
                a.in = a.din = test_data(&x[NAIVE_IN]);
                a.out = test_data(&x[NAIVE_OUT]);
                a.dout = a.out;
                for (int64_t i = 0; i < x[w].count; i++) {
                    want[i] = test_round(x[w].dtype, want[i] + before[i]);
                }
                test_cpu_devices(devices);
                o.engine = test_engine();
                test.plan = NULL;
                if (CHECK_OK(ckconv_plan_conv(&base, op, &d, &o, &devices[0], &err), err)) {
                    while (test_next_plan(&base, 1, &index, &plan)) {
                        test_buffer workspace;
                        test.plan = &plan;
                        test_buffer_make(&workspace, (size_t)plan.workspace_bytes, 0);
                        test_scatter(&x[w], before);
                        if (CHECK_OK(test_run(&plan, &a, plan.workspace_bytes > 0 ? workspace.data : NULL,
                                              workspace.bytes, NULL, &err),
                                     err)) {
                            test_gather(&x[w], got);
                            int64_t wrong = 0;
                            for (int64_t i = 0; i < x[w].count; i++) {
                                wrong += got[i] != want[i];
                            }
                            CHECK_MSG(wrong == 0, "%lld elements are not what was there and the result",
                                      (long long)wrong);
                        }
                        test_buffer_free(&workspace);
                    }
                }
                free(before);
                free(want);
                free(got);
                for (int i = 0; i < 3; i++) {
                    test_tensor_free(&x[i]);
                }
            }
        }
    }
}

/* What is refused, and in which words; calls that do the same. */
static void test_words(void)
{
    ckconv_conv_desc d = make_desc(&shapes[0], 2, LAST, CKCONV_F32);
    ckconv_device devices[3];
    ckconv_plan plan;
    ckconv_options o;
    ckconv_error err;
    ckconv_tensor_info info;
    ckconv_args a;
    work w;
    memset(&o, 0, sizeof o);
    memset(&a, 0, sizeof a);
    test_cpu_devices(devices);
    o.engine = test_engine();
    o.max_workspace = -1;
    if (!make_work(&w, &d, 0, 3)) {
        return;
    }
    test.plan = NULL;
    CHECK_OK(ckconv_plan_conv(&plan, CKCONV_BWD_WEIGHT, &d, &o, &devices[0], &err), err);
    test.plan = &plan;
    CHECK_OK(ckconv_plan_tensor(&plan, CKCONV_TENSOR_DBIAS, &info, &err), err);
    CHECK(info.rank == 2 && info.length[0] == 1 && info.length[1] == 40 && info.written == 1 &&
          info.dtype == CKCONV_F32 && info.bytes == 160);
    a.in = test_data(&w.in);
    a.dout = test_data(&w.out);
    a.dwei = test_data(&w.wei);
#define REFUSED(STATUS, WORDS)                                                                               \
    {                                                                                                        \
        ckconv_launch launch[8];                                                                             \
        int32_t launches;                                                                                    \
        const ckconv_status s = plan.engine == CKCONV_ENGINE_GPU                                             \
                                    ? ckconv_plan_launches(&plan, &a, NULL, 0, launch, 8, &launches, &err)   \
                                    : ckconv_run(&plan, &a, NULL, 0, NULL, &err);                            \
        CHECK_MSG(s == STATUS && strstr(err.text, WORDS) != NULL, "status %d: %s", (int)s, err.text);        \
    }
    REFUSED(CKCONV_ERR_NULL, "args.dbias is NULL")
    a.dwei = NULL;
    a.in = NULL;
    REFUSED(CKCONV_ERR_NULL, "args.dbias is NULL")
    a.dbias = test_data(&w.dbias);
    a.dout = NULL;
    REFUSED(CKCONV_ERR_NULL, "args.dout is NULL")
    a.dout = test_data(&w.out);
    a.dwei = test_data(&w.wei);
    REFUSED(CKCONV_ERR_NULL, "args.in is NULL")
    a.in = test_data(&w.in);
    a.dbias = test_data(&w.wei);
    REFUSED(CKCONV_ERR_ALIAS, "args.dwei overlaps args.dbias")
    a.dbias = test_data(&w.out);
    REFUSED(CKCONV_ERR_ALIAS, "args.dbias overlaps args.dout")
#undef REFUSED
    static const struct {
        ckconv_dtype type, dbias;
    } wrong[] = {{CKCONV_F32, CKCONV_F16}, {CKCONV_F16, CKCONV_BF16}, {CKCONV_F64, CKCONV_F32},
                 {CKCONV_I8, CKCONV_F32},  {CKCONV_F32, CKCONV_TF32}, {CKCONV_F32, -1},
                 {CKCONV_F32, CKCONV_I32}};
    for (int i = 0; i < 7; i++) {
        ckconv_conv_desc e = d;
        e.in.dtype = e.wei.dtype = e.out.dtype = wrong[i].type;
        e.dbias = wrong[i].dbias;
        const ckconv_status s = ckconv_plan_conv(&plan, CKCONV_BWD_WEIGHT, &e, NULL, &devices[0], &err);
        CHECK_MSG(s == CKCONV_ERR_ARGUMENT && strstr(err.text, "dbias is") != NULL, "%s", err.text);
    }
    /* other operations do not use it, reads cannot add, a pair's mid neither */
    ckconv_conv_desc e = d;
    CHECK_OK(ckconv_plan_conv(&plan, CKCONV_FWD, &e, NULL, &devices[0], &err), err);
    CHECK(ckconv_plan_tensor(&plan, CKCONV_TENSOR_DBIAS, &info, &err) == CKCONV_ERR_ARGUMENT);
    e.op_in.kind = CKCONV_ACCUMULATE;
    CHECK(ckconv_plan_conv(&plan, CKCONV_FWD, &e, NULL, &devices[0], &err) == CKCONV_ERR_ARGUMENT &&
          strstr(err.text, "sums in place belong to the written tensor") != NULL);
    ckconv_conv_conv_desc pair;
    memset(&pair, 0, sizeof pair);
    pair.conv0 = d;
    pair.conv0.dbias = 0;
    pair.k1 = 8;
    pair.conv0.op_out.kind = CKCONV_ACCUMULATE;
    CHECK(ckconv_plan_conv_conv(&plan, &pair, NULL, &devices[0], &err) == CKCONV_ERR_ARGUMENT &&
          strstr(err.text, "adds in place") != NULL);
    /* one call, on the host */
    if (!test_on_gpu()) {
        d.dbias = 0;
        test_poison(&w.dbias);
        CHECK_OK(ckconv_bwd_bias(&d, test_data(&w.out), test_data(&w.dbias), NULL, 0, NULL, &err), err);
        compare(&w, &w.dbias, w.want[1], "dbias of one call");
    }
    free_work(&w);
}

/* sm_90 with few units: blocks, or pairs of blocks (rows within sectors), share the steps of tiles that are
   left over, and sums of rows pass with those of the tile through workspace. */
static void test_shares(int pairs)
{
    static const shape left_over[] = {{"left over", 1, 1, 1, 208, 304, {1}, {1800}, 1, 1, 0},
                                      {"whole pairs", 1, 1, 1, 328, 200, {1}, {700}, 1, 1, 0},
                                      {"left over of pairs", 1, 1, 1, 264, 200, {1}, {3000}, 1, 1, 0}};
    for (int i = 2 * pairs; i < 2 + pairs && test_on_gpu(); i++) {
        const ckconv_conv_desc d = make_desc(&left_over[i], 3, LAST, CKCONV_F32);
        ckconv_options o;
        ckconv_error err;
        ckconv_plan base, plan;
        work w;
        int32_t index = 0;
        int shared = 0;
        memset(&o, 0, sizeof o);
        o.engine = test_engine();
        if (!make_work(&w, &d, 0, 77)) {
            return;
        }
        if (CHECK_OK(ckconv_plan_conv(&base, CKCONV_BWD_WEIGHT, &d, &o, NULL, &err), err)) {
            while (test_next_plan(&base, 1, &index, &plan)) {
                char text[2048];
                if (strstr(ckconv_instance_name(plan.instance), "_tma_")) {
                    ckconv_plan_describe(&plan, text, sizeof text);
                    shared += plan.split_k == 0 && strstr(text, "summed by the tiles") != NULL;
                    count_plan(&plan);
                    run_work(&w, &plan, 0);
                }
            }
        }
        CHECK_MSG(shared > 0 || i == 1, "%s: no tile is shared that sums dbias, too", left_over[i].name);
        free_work(&w);
    }
}

int main(int argc, char **argv)
{
    test_begin("test_bias");
    const char *part = argc > 1 ? argv[1] : "";
    if (!part[0] || strcmp(part, "problems") == 0) {
        test_problems();
    }
    if (!part[0] || strcmp(part, "long") == 0) {
        test_long();
    }
    if (strcmp(part, "shares") == 0) {
        test_shares(0);
    }
    if (strcmp(part, "pairs") == 0) {
        test_shares(1);
    }
    if (!part[0] || strcmp(part, "rest") == 0) {
        test_words();
        test_specials();
        test_accumulate();
    }
    printf("note: dbias summed by tiles in %d plans, by a pass of its own in %d\n", fused, passes);
    return test_end();
}
