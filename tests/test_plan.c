/* test_plan.c - the planner: pure, exact and the same every time; instances, choices, tensors, sizes
   beyond 2^31
   SPDX-License-Identifier: MIT */
#include "problem.h"
#include <ctype.h>

static const int64_t TWO31 = (int64_t)1 << 31;

/*------------------------------------------------------------------------------------------------------------
  problems that between them suit every instance
*/
enum { SHAPES = 12, MOST_WORKSPACE = 1 << 26 };

static void set_conv(ckconv_conv_desc *d, int32_t ndim, int64_t g, int64_t n, int64_t k, int64_t c,
                     int64_t filter, int64_t input)
{
    d->ndim = ndim;
    d->g = g;
    d->n = n;
    d->k = k;
    d->c = c;
    for (int32_t i = 0; i < ndim; i++) {
        d->filter[i] = filter;
        d->input[i] = input;
        d->pad_lo[i] = d->pad_hi[i] = filter / 2;
    }
}

/* The shape'th problem of an operation: dense, grouped, depthwise, pointwise, strided, 1D to 3D. */
static problem shape(ckconv_op op, int which)
{
    static const struct {
        int32_t ndim;
        int64_t g, n, k, c, filter, input, stride;
    } table[SHAPES] = {
        {2, 1, 2, 32, 32, 3, 9, 1}, {2, 4, 2, 8, 8, 3, 9, 1},    {2, 32, 2, 1, 1, 3, 12, 1},
        {2, 1, 2, 24, 40, 1, 7, 1}, {2, 1, 1, 16, 16, 3, 14, 2}, {1, 2, 3, 5, 7, 3, 40, 1},
        {3, 2, 1, 6, 4, 3, 5, 1},   {3, 8, 1, 1, 1, 3, 6, 2},    {1, 16, 2, 1, 1, 5, 64, 1},
        {2, 16, 8, 1, 1, 5, 9, 2},  {2, 1, 16, 8, 8, 3, 16, 1},  {2, 3, 1, 2, 3, 2, 4, 3},
    };
    problem p;
    memset(&p, 0, sizeof p);
    p.op = op;
    if (is_norm(op)) {
        p.u.norm.ndim = table[which].ndim;
        p.u.norm.g = table[which].g;
        p.u.norm.n = table[which].n;
        p.u.norm.c = table[which].c;
        p.u.norm.eps = 1e-5;
        for (int i = 0; i < table[which].ndim; i++) {
            p.u.norm.input[i] = table[which].input;
        }
        return p;
    }
    ckconv_conv_desc *d = op == CKCONV_CONV_CONV_FWD ? &p.u.pair.conv0 : &p.u.conv;
    set_conv(d, table[which].ndim, table[which].g, table[which].n, table[which].k, table[which].c,
             table[which].filter, table[which].input);
    for (int i = 0; i < table[which].ndim; i++) {
        d->stride[i] = table[which].stride;
    }
    if (op == CKCONV_CONV_CONV_FWD) {
        p.u.pair.k1 = 12;
        p.u.pair.filter1[0] = which % 3 == 2 ? 3 : 1;
        p.u.pair.pad_lo1[0] = p.u.pair.pad_hi1[0] = which % 3 == 2 ? 1 : 0;
    }
    return p;
}

static void set_dtype(problem *p, ckconv_dtype dtype)
{
    if (p->op == CKCONV_CONV_CONV_FWD) {
        p->u.pair.conv0.in.dtype = dtype;
    } else if (is_norm(p->op)) {
        p->u.norm.in.dtype = dtype;
    } else {
        p->u.conv.in.dtype = dtype;
    }
}

/* A CPU with every feature that the header knows, whatever this one has: planning needs no device. */
static ckconv_device full_cpu(int32_t threads)
{
    ckconv_device d;
    memset(&d, 0, sizeof d);
    memcpy(d.arch, "x86_64", 7);
    d.threads = threads;
    d.features = CKCONV_CPU_AVX2 | CKCONV_CPU_AVX512 | CKCONV_CPU_AVX512_BF16;
    return d;
}

static ckconv_device this_cpu(void)
{
    ckconv_device d;
    ckconv_device_cpu(&d);
    return d;
}

/*------------------------------------------------------------------------------------------------------------
  devices by name
*/
static void test_devices(void)
{
    static const struct {
        const char *arch;
        int32_t kind, wave_size;
    } gpus[] = {{"gfx906", 1, 64}, {"gfx908", 1, 64},  {"gfx90a", 1, 64},  {"gfx942", 1, 64},
                {"gfx950", 1, 64}, {"gfx1030", 1, 32}, {"gfx1100", 1, 32}, {"gfx1201", 1, 32},
                {"sm_80", 2, 32},  {"sm_90", 2, 32}};
    ckconv_error err;
    ckconv_device d;
    for (size_t i = 0; i < sizeof gpus / sizeof gpus[0]; i++) {
        memset(&d, 0x55, sizeof d);
        if (!CHECK_OK(ckconv_device_named(gpus[i].arch, &d, &err), err)) {
            continue;
        }
        CHECK_MSG(d.kind == gpus[i].kind && d.wave_size == gpus[i].wave_size &&
                      strcmp(d.arch, gpus[i].arch) == 0,
                  "%s: kind %d, wave size %d", gpus[i].arch, (int)d.kind, (int)d.wave_size);
        CHECK_MSG(d.compute_units > 0 && d.lds_bytes >= 32768, "%s: %d compute units, %d bytes of LDS",
                  gpus[i].arch, (int)d.compute_units, (int)d.lds_bytes);
        for (ckconv_op op = CKCONV_FWD; op <= CKCONV_GROUPNORM_BWD; op++) {
            const problem p = shape(op, 0);
            ckconv_plan plan;
            ckconv_options o;
            memset(&o, 0, sizeof o);
            ckconv_status status = plan_problem(&plan, &p, NULL, &d, &err);
            const int good = status == CKCONV_OK ? plan.engine == CKCONV_ENGINE_GPU
                                                 : (status == CKCONV_ERR_NO_DEVICE_CODE ||
                                                    status == CKCONV_ERR_UNSUPPORTED) &&
                                                       error_whole(&err, status) && plan.magic == 0;
            CHECK_MSG(good, "%s on %s: status %d (%s)", op_name(op), gpus[i].arch, (int)status, err.text);
            CHECK_MSG(status != CKCONV_ERR_NO_DEVICE_CODE || strstr(err.text, "compile as") != NULL ||
                          strstr(err.text, "no GPU kernels") != NULL,
                      "no advice: %s", err.text);
            o.engine = CKCONV_ENGINE_REF; /* the host's engines stay usable beside a GPU */
            CHECK_OK(plan_problem(&plan, &p, &o, &d, &err), err);
            CHECK(plan.engine == CKCONV_ENGINE_REF);
        }
    }
    CHECK_OK(ckconv_device_named("x86_64", &d, &err), err);
    CHECK(d.kind == CKCONV_DEVICE_CPU && d.threads >= 1);
    /* a GPU that this version does not know: cautious facts */
    CHECK_OK(ckconv_device_named("gfx9999", &d, &err), err);
    CHECK(d.kind == CKCONV_DEVICE_AMD && d.wave_size == 32 && d.lds_bytes >= 32768);
    CHECK_OK(ckconv_device_named("sm_130", &d, &err), err);
    CHECK(d.kind == CKCONV_DEVICE_NVIDIA && d.wave_size == 32);
    static const char *const unknown[] = {
        "",       "gfx",     "gfx9x",
        "sm_",    "sm_1",    "potato",
        "GFX942", " gfx942", "a name that is longer than any architecture's name can ever be"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        const ckconv_status status = ckconv_device_named(unknown[i], &d, &err);
        CHECK_MSG((status == CKCONV_ERR_ARGUMENT || status == CKCONV_ERR_UNSUPPORTED) &&
                      error_whole(&err, status),
                  "device \"%s\": status %d (%s)", unknown[i], (int)status, err.text);
    }
    if (ckconv_device_count() == 0) {
        const ckconv_status status = ckconv_device_gpu(0, &d, &err);
        CHECK_MSG((status == CKCONV_ERR_NO_DEVICE || status == CKCONV_ERR_NO_DEVICE_CODE) &&
                      error_whole(&err, status),
                  "no GPU: status %d (%s)", (int)status, err.text);
    }
    d = this_cpu();
    CHECK(d.kind == CKCONV_DEVICE_CPU && d.threads >= 1 && d.arch[0] != 0);
}

/* The host's memory helpers serve CPU facts. */
static void test_device_helpers(void)
{
    const ckconv_device d = this_cpu();
    ckconv_error err;
    ckconv_timer timer;
    char text[8] = "ckconv!", back[8] = "";
    CHECK_OK(ckconv_device_open(&d, &err), err);
    void *memory = ckconv_device_alloc(&d, 8, &err);
    if (CHECK(memory != NULL)) {
        CHECK_OK(ckconv_device_fill(&d, memory, 0x41, 8, &err), err);
        CHECK_OK(ckconv_device_download(&d, back, memory, 8, &err), err);
        CHECK(memcmp(back, "AAAAAAAA", 8) == 0);
        CHECK_OK(ckconv_device_upload(&d, memory, text, 8, &err), err);
        CHECK_OK(ckconv_device_download(&d, back, memory, 8, &err), err);
        CHECK(strcmp(back, text) == 0);
        ckconv_device_free(&d, memory);
    }
    CHECK_OK(ckconv_device_synchronise(&d, &err), err);
    if (CHECK_OK(ckconv_timer_create(&d, &timer, &err), err)) {
        ckconv_timer_start(&d, &timer, NULL);
        volatile int work = 0;
        while (work < 200000) {
            work = work + 1;
        }
        ckconv_timer_stop(&d, &timer, NULL);
        const double seconds = ckconv_timer_seconds(&d, &timer);
        CHECK_MSG(seconds > 0.0 && seconds < 60.0, "%g seconds", seconds);
        ckconv_timer_destroy(&d, &timer);
    }
    if (!TEST_ASAN) { /* which ends a program that asks for so much */
        memory = ckconv_device_alloc(&d, SIZE_MAX / 2 - 64, &err);
        CHECK(memory == NULL && err.status == CKCONV_ERR_MEMORY && err.text[0] != 0);
    }
    ckconv_device_free(&d, NULL);
}

/*------------------------------------------------------------------------------------------------------------
  choices of the CPU engine
*/
static void test_cpu_choices(void)
{
    static const struct {
        ckconv_op op;
        ckconv_layout layout;
        int64_t g, n, k, c, filter[2], input[2], stride, pad;
        const char *right; /* of the instance's name */
    } table[] = {
        /* depthwise channels that are no whole vectors of 16 lanes, and fewer than those */
        {CKCONV_FWD, CKCONV_NHWGC, 24, 4, 1, 1, {3, 3}, {56, 56}, 1, 1, "cpu_direct_fwd_avx512"},
        {CKCONV_FWD, CKCONV_NHWGC, 12, 4, 1, 1, {3, 3}, {56, 56}, 1, 1, "cpu_direct_fwd_avx2"},
        {CKCONV_FWD, CKCONV_NHWGC, 6, 4, 1, 1, {3, 3}, {56, 56}, 1, 1, "cpu_direct_fwd_portable"},
        {CKCONV_BWD_WEIGHT, CKCONV_NHWGC, 12, 4, 1, 1, {3, 3}, {56, 56}, 1, 1, "cpu_direct_bwd_weight_avx2"},
        /* one channel, planes of few channels: vectors lie along x */
        {CKCONV_FWD, CKCONV_NHWGC, 1, 4, 1, 1, {3, 3}, {256, 256}, 1, 1, "cpu_direct_fwd_avx512"},
        {CKCONV_BWD_DATA, CKCONV_NHWGC, 1, 4, 1, 1, {3, 3}, {256, 256}, 1, 1, "cpu_direct_bwd_data_avx512"},
        {CKCONV_BWD_WEIGHT,
         CKCONV_NHWGC,
         1,
         4,
         1,
         1,
         {3, 3},
         {256, 256},
         1,
         1,
         "cpu_direct_bwd_weight_avx512"},
        {CKCONV_FWD, CKCONV_NGCHW, 1, 4, 1, 3, {3, 3}, {256, 256}, 1, 1, "cpu_direct_fwd_avx512"},
        {CKCONV_BWD_WEIGHT,
         CKCONV_NGCHW,
         1,
         4,
         1,
         16,
         {3, 3},
         {64, 64},
         1,
         1,
         "cpu_direct_bwd_weight_avx512"},
        {CKCONV_FWD, CKCONV_NGCHW, 8, 64, 1, 4, {3, 3}, {7, 7}, 1, 1, "cpu_direct_fwd_avx2"},
        /* short rows of few groups: gathered numbers cost calls */
        {CKCONV_BWD_WEIGHT, CKCONV_NGCHW, 2, 256, 1, 16, {3, 2}, {14, 2}, 3, 0, "cpu_gemm_bwd_weight"},
        {CKCONV_BWD_WEIGHT, CKCONV_NHWGC, 2, 256, 1, 16, {3, 2}, {14, 2}, 3, 0, "cpu_gemm_bwd_weight"},
        {CKCONV_BWD_WEIGHT, CKCONV_NGCHW, 8, 64, 1, 4, {3, 3}, {7, 7}, 1, 1, "cpu_direct_bwd_weight_avx2"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        problem p;
        ckconv_plan plan;
        ckconv_error err;
        const ckconv_device d = full_cpu(1);
        memset(&p, 0, sizeof p);
        p.op = table[i].op;
        set_conv(&p.u.conv, 2, table[i].g, table[i].n, table[i].k, table[i].c, 1, 1);
        p.u.conv.in.layout = p.u.conv.out.layout = table[i].layout;
        for (int j = 0; j < 2; j++) {
            p.u.conv.filter[j] = table[i].filter[j];
            p.u.conv.input[j] = table[i].input[j];
            p.u.conv.stride[j] = table[i].stride;
            p.u.conv.pad_lo[j] = p.u.conv.pad_hi[j] = table[i].pad;
        }
        if (CHECK_OK(plan_problem(&plan, &p, NULL, &d, &err), err)) {
            const char *name = ckconv_instance_name(plan.instance);
            CHECK_MSG(strncmp(name, table[i].right, strlen(table[i].right)) == 0, "row %d: %s, not %s",
                      (int)i, name, table[i].right);
        }
    }
}

/*------------------------------------------------------------------------------------------------------------
  instances
*/
static void test_instances(void)
{
    const int32_t count = ckconv_instance_count();
    CHECK(count > 0);
    CHECK(ckconv_instance_name(count) == NULL && ckconv_instance_name(-1) == NULL);
    CHECK(ckconv_instance_engine(count) == 0 && ckconv_instance_family(-1) == 0);
    int does[7][4] = {{0}};
    for (int32_t i = 0; i < count; i++) {
        const char *name = ckconv_instance_name(i);
        if (!CHECK_MSG(name != NULL && name[0] != 0, "instance %d has no name", (int)i)) {
            continue;
        }
        CHECK_MSG(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(name),
                  "instance name \"%s\"", name);
        CHECK_MSG(ckconv_family_name(ckconv_instance_family(i)) != NULL, "%s: no family", name);
        for (int32_t j = 0; j < i; j++) {
            CHECK_MSG(strcmp(name, ckconv_instance_name(j)) != 0, "two instances are named %s", name);
        }
        const ckconv_engine engine = ckconv_instance_engine(i);
        CHECK_MSG(engine >= CKCONV_ENGINE_REF && engine <= CKCONV_ENGINE_GPU, "%s: engine %d", name,
                  (int)engine);
        int ops = 0;
        for (ckconv_op op = CKCONV_FWD; op <= CKCONV_GROUPNORM_BWD; op++) {
            if (ckconv_instance_does(i, op)) {
                ops++;
                does[op][engine & 3]++;
            }
        }
        CHECK_MSG(ops > 0, "%s computes nothing", name);
        CHECK(ckconv_instance_does(i, 0) == 0 && ckconv_instance_does(i, 99) == 0 &&
              ckconv_instance_does(i, -1) == 0);
    }
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_GROUPNORM_BWD; op++) {
        CHECK_MSG(does[op][CKCONV_ENGINE_REF] > 0 && does[op][CKCONV_ENGINE_CPU] > 0,
                  "%s: %d ref and %d cpu instances", op_name(op), does[op][CKCONV_ENGINE_REF],
                  does[op][CKCONV_ENGINE_CPU]);
    }
}

/* Each instance that supports a problem is what one gets by its name, and its family by the family's
   name. */
static void test_selection(void)
{
    const ckconv_device d = full_cpu(4);
    for (int32_t i = 0; i < ckconv_instance_count(); i++) {
        const char *name = ckconv_instance_name(i), *family = ckconv_family_name(ckconv_instance_family(i));
        if (ckconv_instance_engine(i) == CKCONV_ENGINE_GPU) {
            continue;
        }
        int suits = 0;
        for (ckconv_op op = CKCONV_FWD; op <= CKCONV_GROUPNORM_BWD; op++) {
            for (int s = 0; s < SHAPES; s++) {
                problem p = shape(op, s);
                if (strstr(name, "bf16") != NULL) {
                    set_dtype(&p, CKCONV_BF16);
                }
                ckconv_plan base, plan;
                ckconv_error err, why;
                ckconv_options o;
                memset(&o, 0, sizeof o);
                if (!CHECK_OK(plan_problem(&base, &p, NULL, &d, &err), err)) {
                    continue;
                }
                const ckconv_status supports = ckconv_instance_supports(i, &base, &why);
                o.instance = name;
                const ckconv_status status = plan_problem(&plan, &p, &o, &d, &err);
                CHECK_MSG((supports == CKCONV_OK) == (status == CKCONV_OK),
                          "%s, %s: supports says %d (%s), planning by name %d (%s)", op_name(op), name,
                          (int)supports, why.text, (int)status, err.text);
                CHECK_MSG(supports == CKCONV_OK || error_whole(&why, supports), "%s: no reason", name);
                CHECK_MSG(ckconv_instance_does(i, op) || supports != CKCONV_OK, "%s claims to compute %s",
                          name, op_name(op));
                if (supports != CKCONV_OK || status != CKCONV_OK) {
                    continue;
                }
                suits++;
                CHECK_MSG(plan.instance == i && plan.engine == ckconv_instance_engine(i),
                          "%s by name gives %s", name, ckconv_instance_name(plan.instance));
                o.instance = family;
                if (CHECK_OK(plan_problem(&plan, &p, &o, &d, &err), err)) {
                    CHECK_MSG(ckconv_instance_family(plan.instance) == ckconv_instance_family(i),
                              "family %s gives %s of %s", family, ckconv_instance_name(plan.instance),
                              ckconv_family_name(ckconv_instance_family(plan.instance)));
                }
            }
        }
        CHECK_MSG(suits > 0 || test_needs_other_cpu(i), "no problem here suits %s", name);
    }
}

/* A name that exists and does not fit says why; "dl" is another name of "vector". */
static void test_wrong_names(void)
{
    const problem norm = shape(CKCONV_GROUPNORM_FWD, 0), conv = shape(CKCONV_FWD, 0);
    static const char *const families[] = {"mfma", "wmma", "mma", "vector", "dl"};
    ckconv_plan plan;
    ckconv_error err;
    ckconv_options o;
    memset(&o, 0, sizeof o);
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        o.instance = families[i];
        const ckconv_status status = plan_problem(&plan, &conv, &o, NULL, &err);
        CHECK_MSG(status == CKCONV_ERR_UNSUPPORTED || status == CKCONV_ERR_NO_DEVICE_CODE,
                  "%s on a CPU: %d (%s)", families[i], (int)status, err.text);
        CHECK_MSG(error_whole(&err, status), "%s: no reason", families[i]);
    }
    o.instance = "single_stage";
    const ckconv_status status = plan_problem(&plan, &norm, &o, NULL, &err);
    CHECK_MSG(status == CKCONV_ERR_UNSUPPORTED && strstr(err.text, "single_stage") != NULL, "status %d: %s",
              (int)status, err.text);
}

/*------------------------------------------------------------------------------------------------------------
  the same plan every time
*/
static void test_repeat(void)
{
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_GROUPNORM_BWD; op++) {
        for (int s = 0; s < SHAPES; s++) {
            problem p = shape(op, s);
            const ckconv_device d = full_cpu(1 + s % 5);
            ckconv_plan a, b;
            ckconv_error err;
            memset(&a, 0x55, sizeof a);
            memset(&b, 0xaa, sizeof b);
            CHECK_OK(plan_problem(&a, &p, NULL, &d, &err), err);
            CHECK_OK(plan_problem(&b, &p, NULL, &d, &err), err);
            CHECK_MSG(memcmp(&a, &b, sizeof a) == 0, "%s: two plans of one problem differ", op_name(op));
            CHECK_OK(ckconv_plan_again(&b, &a, NULL, &err), err);
            CHECK_MSG(memcmp(&a, &b, sizeof a) == 0, "%s: planned again it differs", op_name(op));
            CHECK_OK(ckconv_plan_again(&b, &b, NULL, &err), err); /* in place */
            CHECK_MSG(memcmp(&a, &b, sizeof a) == 0, "%s: planned again in place it differs", op_name(op));
            ckconv_options o;
            memset(&o, 0, sizeof o);
            o.engine = CKCONV_ENGINE_REF;
            CHECK_OK(ckconv_plan_again(&b, &a, &o, &err), err);
            CHECK(b.engine == CKCONV_ENGINE_REF && memcmp(&a.u, &b.u, sizeof a.u) == 0);
            CHECK_OK(ckconv_plan_again(&b, &b, NULL, &err), err); /* options are not inherited */
            CHECK_MSG(memcmp(&a, &b, sizeof a) == 0, "%s: back from ref it differs", op_name(op));
            /* entries past ndim are not read */
            ckconv_conv_desc *c = op == CKCONV_CONV_CONV_FWD ? &p.u.pair.conv0 : &p.u.conv;
            if (is_norm(op)) {
                for (int i = p.u.norm.ndim; i < 3; i++) {
                    p.u.norm.input[i] = -99;
                }
            } else {
                for (int i = c->ndim; i < 3; i++) {
                    c->filter[i] = c->input[i] = c->stride[i] = c->dilation[i] = c->pad_lo[i] = c->pad_hi[i] =
                        -99;
                }
                for (int i = c->ndim; i < 3 && op == CKCONV_CONV_CONV_FWD; i++) {
                    p.u.pair.filter1[i] = p.u.pair.stride1[i] = p.u.pair.dilation1[i] = -99;
                    p.u.pair.pad_lo1[i] = p.u.pair.pad_hi1[i] = -99;
                }
            }
            CHECK_OK(plan_problem(&b, &p, NULL, &d, &err), err);
            CHECK_MSG(memcmp(&a, &b, sizeof a) == 0, "%s: entries past ndim change the plan", op_name(op));
        }
    }
}

/* Values in texts: each member of a description is another number, and stands where it belongs. */
static void test_values_in_texts(void)
{
    static const char *const archs[] = {"", "gfx942", "sm_90"};
    const int64_t filter[3] = {3, 2, 1}, input[3] = {9, 8, 0}, none[3] = {0, 0, 0}, stride[3] = {2, 1, 0};
    for (int i = 0; i < 3 * 5; i++) {
        const ckconv_op op = (ckconv_op)(CKCONV_FWD + i % 5);
        ckconv_device device = full_cpu(3);
        ckconv_plan plan;
        ckconv_error err;
        problem p;
        char text[2048], want[160];
        memset(&p, 0, sizeof p);
        p.op = op;
        if (archs[i / 5][0]) {
            CHECK_OK(ckconv_device_named(archs[i / 5], &device, &err), err);
        }
        ckconv_conv_desc *d = op == CKCONV_CONV_CONV_FWD ? &p.u.pair.conv0 : &p.u.conv;
        if (is_norm(op)) {
            ckconv_groupnorm_desc *n = &p.u.norm;
            n->ndim = 2;
            n->g = 4;
            n->n = 2;
            n->c = 6;
            n->input[0] = 5;
            n->input[1] = 7;
            n->eps = 1e-5;
            n->in.dtype = CKCONV_F16;
            snprintf(want, sizeof want, "%s f16 G4 N2 C6 input 5x7: engine ", op_name(op));
        } else {
            test_layer(d, 2, 2, 3, 5, 7);
            test_windows(d, filter, input, stride, none, none, none);
            d->in.dtype = CKCONV_BF16;
            d->wei.dtype = op == CKCONV_CONV_CONV_FWD ? CKCONV_BF16 : CKCONV_F32;
            p.u.pair.k1 = op == CKCONV_CONV_CONV_FWD ? 11 : 0;
            snprintf(want, sizeof want,
                     "%s bf16/%s/bf16 G2 N3 K5 C7 filter 3x2 input 9x8 stride 2x1%s: engine ", op_name(op),
                     op == CKCONV_CONV_CONV_FWD ? "bf16" : "f32",
                     op == CKCONV_CONV_CONV_FWD ? " then G1 K11 filter 1x1" : "");
        }
        if (!CHECK_OK(plan_problem(&plan, &p, NULL, &device, &err), err)) {
            continue;
        }
        ckconv_plan_describe(&plan, text, sizeof text);
        CHECK_MSG(strncmp(text, want, strlen(want)) == 0, "'%s' does not begin with '%s'", text, want);
        if (i / 5) {
            snprintf(want, sizeof want,
                     ", split_k %d, %d launch%s on %s, %lld blocks of %d threads, workspace %lld",
                     (int)plan.split_k, (int)plan.launches, plan.launches == 1 ? "" : "es", archs[i / 5],
                     (long long)plan.grid[0], (int)plan.block[0], (long long)plan.workspace_bytes);
        } else {
            snprintf(want, sizeof want,
                     ", split_k %d, %d parallel loop%s, %lld work items on %d thread%s, workspace %lld",
                     (int)plan.split_k, (int)plan.launches, plan.launches == 1 ? "" : "s",
                     (long long)plan.grid[0], (int)plan.block[0], plan.block[0] == 1 ? "" : "s",
                     (long long)plan.workspace_bytes);
        }
        CHECK_MSG(strstr(text, want) != NULL, "'%s' lacks '%s'", text, want);
    }
    /* types in errors */
    static const struct {
        ckconv_dtype in, wei, out, compute_in, compute_wei, dbias;
        const char *instance, *arch;
        ckconv_op op;
        const char *words;
    } wrong[] = {
        {CKCONV_F16, CKCONV_F32, CKCONV_F16, 0, 0, 0, NULL, "", CKCONV_FWD, "f16, f32, f16"},
        {CKCONV_I8, CKCONV_F16, CKCONV_F32, 0, 0, 0, NULL, "", CKCONV_FWD, "i8, f16, f32"},
        {CKCONV_BF16, CKCONV_BF16, CKCONV_BF16, CKCONV_F16, CKCONV_F16, 0, NULL, "", CKCONV_FWD, "f16"},
        {CKCONV_F16, CKCONV_F16, CKCONV_F16, 0, 0, CKCONV_BF16, NULL, "", CKCONV_BWD_WEIGHT,
         "(f16, f16) or f32"},
        {CKCONV_BF16, CKCONV_F32, CKCONV_BF16, 0, 0, CKCONV_F16, NULL, "", CKCONV_BWD_WEIGHT,
         "(f32, bf16) or f32"},
        {CKCONV_F64, CKCONV_F64, CKCONV_F64, 0, 0, 0, "gpu_mfma_fwd_128x128", "gfx942", CKCONV_FWD,
         "the sums are f64, the instance's are f32"},
        {CKCONV_F16, CKCONV_F16, CKCONV_F16, 0, 0, 0, "gpu_mfma_fwd_i8_128x128", "gfx942", CKCONV_FWD,
         "the sums are f32, the instance's are i32"},
        {CKCONV_I8, CKCONV_I8, CKCONV_I8, 0, 0, 0, "gpu_mfma_fwd_f32_64x64", "gfx942", CKCONV_FWD,
         "the sums are i32, the instance's are f32"},
        {CKCONV_F32, CKCONV_F32, CKCONV_F32, 0, 0, 0, "gpu_mfma_fwd_128x128", "gfx942", CKCONV_FWD,
         "compute in f16, bf16, bf16x3 and fp8, not in f32 and f32"},
        {CKCONV_F16, CKCONV_F16, CKCONV_F16, 0, CKCONV_F8E4M3, 0, "gpu_mfma_fwd_f32_64x64", "gfx942",
         CKCONV_FWD, "compute in f32 and tf32, not in f16 and f8e4m3"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ckconv_device device = full_cpu(1);
        ckconv_conv_desc d;
        ckconv_options o;
        ckconv_plan plan;
        ckconv_error err;
        memset(&o, 0, sizeof o);
        if (wrong[i].arch[0]) {
            CHECK_OK(ckconv_device_named(wrong[i].arch, &device, &err), err);
        }
        test_layer(&d, 2, 1, 2, 64, 64);
        test_windows(&d, filter, input, none, none, none, none);
        d.in.dtype = wrong[i].in;
        d.wei.dtype = wrong[i].wei;
        d.out.dtype = wrong[i].out;
        d.compute_in = wrong[i].compute_in;
        d.compute_wei = wrong[i].compute_wei;
        d.dbias = wrong[i].dbias;
        o.instance = wrong[i].instance;
        const ckconv_status status = ckconv_plan_conv(&plan, wrong[i].op, &d, &o, &device, &err);
        CHECK_MSG(status != CKCONV_OK && strstr(err.text, wrong[i].words) != NULL,
                  "row %d: status %d, '%s' lacks '%s'", (int)i, (int)status, err.text, wrong[i].words);
    }
}

/* A plan holds the description with its defaults. */
static void test_defaults(void)
{
    problem p = shape(CKCONV_FWD, 3);
    ckconv_plan plan;
    ckconv_error err;
    p.u.conv.g = 0;
    p.u.conv.stride[0] = p.u.conv.stride[1] = 0;
    if (CHECK_OK(plan_problem(&plan, &p, NULL, NULL, &err), err)) {
        const ckconv_conv_desc *d = &plan.u.conv;
        CHECK(d->g == 1 && d->stride[0] == 1 && d->stride[1] == 1 && d->dilation[0] == 1 &&
              d->dilation[1] == 1);
        CHECK(d->in.dtype == CKCONV_F32 && d->wei.dtype == CKCONV_F32 && d->out.dtype == CKCONV_F32);
        CHECK(d->in.layout == CKCONV_NHWGC && d->wei.layout == CKCONV_GKYXC && d->out.layout == CKCONV_NHWGK);
        CHECK(d->compute_in == CKCONV_F32 && d->compute_wei == CKCONV_F32);
    }
    p.u.conv.in.dtype = CKCONV_BF16;
    p.u.conv.wei.dtype = CKCONV_F32;
    if (CHECK_OK(plan_problem(&plan, &p, NULL, NULL, &err), err)) {
        CHECK(plan.u.conv.out.dtype == CKCONV_BF16);
        CHECK(plan.u.conv.compute_in == CKCONV_BF16 && plan.u.conv.compute_wei == CKCONV_BF16);
    }
    p = shape(CKCONV_GROUPNORM_BWD, 0);
    p.u.norm.g = 0;
    p.u.norm.in.dtype = CKCONV_F16;
    p.u.norm.in.layout = CKCONV_NGCHW;
    if (CHECK_OK(plan_problem(&plan, &p, NULL, NULL, &err), err)) {
        const ckconv_groupnorm_desc *d = &plan.u.groupnorm;
        CHECK(d->g == 1 && d->param_dtype == CKCONV_F16 && d->out.dtype == CKCONV_F16 &&
              d->din.dtype == CKCONV_F16);
        CHECK(d->out.layout == CKCONV_NGCHW && d->din.layout == CKCONV_NGCHW);
    }
    p = shape(CKCONV_CONV_CONV_FWD, 0);
    p.u.pair.conv0.in.dtype = CKCONV_BF16;
    p.u.pair.filter1[0] = p.u.pair.filter1[1] = 0;
    if (CHECK_OK(plan_problem(&plan, &p, NULL, NULL, &err), err)) {
        const ckconv_conv_conv_desc *d = &plan.u.conv_conv;
        CHECK(d->g1 == 1 && d->filter1[0] == 1 && d->stride1[1] == 1 && d->dilation1[0] == 1);
        CHECK(d->wei1.dtype == CKCONV_BF16 && d->out.dtype == CKCONV_BF16 &&
              d->conv0.out.dtype == CKCONV_BF16);
    }
}

/* out's layout follows in's where it is left open, wei's does not; beside a strided in it must be given. The
   result is that of the layouts written out. */
static void test_layouts_follow(void)
{
    ckconv_error err;
    ckconv_plan plan, full;
    for (ckconv_layout layout = CKCONV_NHWGC; layout <= CKCONV_NGCHW; layout++) {
        for (ckconv_op op = CKCONV_FWD; op <= CKCONV_BWD_WEIGHT; op++) {
            problem p = shape(op, 0), q = p;
            p.u.conv.in.layout = layout;
            q = p;
            q.u.conv.wei.layout = CKCONV_GKYXC;
            q.u.conv.out.layout = layout;
            if (CHECK_OK(plan_problem(&plan, &p, NULL, NULL, &err), err) &&
                CHECK_OK(plan_problem(&full, &q, NULL, NULL, &err), err)) {
                CHECK_MSG(plan.u.conv.out.layout == layout && plan.u.conv.wei.layout == CKCONV_GKYXC,
                          "%s: in %s, wei %s, out %s", op_name(op), ckconv_layout_name(layout),
                          ckconv_layout_name(plan.u.conv.wei.layout),
                          ckconv_layout_name(plan.u.conv.out.layout));
                CHECK_MSG(memcmp(&plan, &full, sizeof plan) == 0, "%s, %s: another plan", op_name(op),
                          ckconv_layout_name(layout));
            }
        }
        problem p = shape(CKCONV_CONV_CONV_FWD, 0);
        p.u.pair.conv0.in.layout = layout;
        if (CHECK_OK(plan_problem(&plan, &p, NULL, NULL, &err), err)) {
            const ckconv_conv_conv_desc *d = &plan.u.conv_conv;
            CHECK(d->conv0.out.layout == layout && d->out.layout == layout);
            CHECK(d->conv0.wei.layout == CKCONV_GKYXC && d->wei1.layout == CKCONV_GKYXC);
        }
        p.u.pair.out.layout = CKCONV_GNHWK;
        p.u.pair.conv0.out.layout = CKCONV_NHWGC;
        if (CHECK_OK(plan_problem(&plan, &p, NULL, NULL, &err), err)) {
            CHECK(plan.u.conv_conv.conv0.out.layout == CKCONV_NHWGC &&
                  plan.u.conv_conv.out.layout == CKCONV_GNHWK);
        }
    }
    /* 1 x 1: out[n, k, y, x] = (k + 1) * in[n, 0, y, x], in either order of channels and pixels */
    ckconv_conv_desc d;
    float in[4] = {1, 2, 3, 4}, wei[2] = {1, 2}, out[8];
    memset(&d, 0, sizeof d);
    d.ndim = 2;
    d.n = d.c = d.filter[0] = d.filter[1] = 1;
    d.k = 2;
    d.input[0] = d.input[1] = 2;
    for (int first = 0; first < 2; first++) {
        d.in.layout = first ? CKCONV_NGCHW : 0;
        if (CHECK_OK(ckconv_fwd(&d, in, wei, out, NULL, 0, NULL, &err), err)) {
            for (int i = 0; i < 8; i++) {
                const float want = first ? in[i % 4] * wei[i / 4] : in[i / 2] * wei[i % 2];
                CHECK_MSG(out[i] == want, "%s, out[%d]: %g, must be %g", first ? "NGCHW" : "NHWGC", i,
                          (double)out[i], (double)want);
            }
        }
    }
    /* strides of in are not out's */
    d.in.layout = CKCONV_STRIDED;
    d.in.stride[0] = d.in.stride[1] = d.in.stride[2] = 4;
    d.in.stride[3] = 2;
    d.in.stride[4] = 1;
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_BWD_WEIGHT; op++) {
        const ckconv_status status = ckconv_plan_conv(&plan, op, &d, NULL, NULL, &err);
        CHECK_MSG(status == CKCONV_ERR_ARGUMENT && strncmp(err.text, "out.layout is 0", 15) == 0 &&
                      strstr(err.text, "CKCONV_STRIDED") != NULL,
                  "%s: %d (%s)", op_name(op), (int)status, err.text);
    }
    ckconv_conv_conv_desc pair;
    memset(&pair, 0, sizeof pair);
    pair.conv0 = d;
    pair.k1 = 1;
    pair.out.layout = CKCONV_NHWGK;
    CHECK(ckconv_plan_conv_conv(&plan, &pair, NULL, NULL, &err) == CKCONV_ERR_ARGUMENT &&
          strncmp(err.text, "conv0.out.layout is 0", 21) == 0);
    pair.conv0.out.layout = CKCONV_NHWGK;
    CHECK_OK(ckconv_plan_conv_conv(&plan, &pair, NULL, NULL, &err), err);
    pair.out.layout = 0;
    CHECK(ckconv_plan_conv_conv(&plan, &pair, NULL, NULL, &err) == CKCONV_ERR_ARGUMENT &&
          strncmp(err.text, "out.layout is 0", 15) == 0);
    d.out.layout = CKCONV_NGKHW;
    CHECK_OK(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, NULL, &err), err);
}

/*------------------------------------------------------------------------------------------------------------
  describe
*/
static void test_describe(void)
{
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_GROUPNORM_BWD; op++) {
        for (int s = 0; s < SHAPES; s++) {
            const problem p = shape(op, s);
            const ckconv_device d = full_cpu(3);
            ckconv_plan plan;
            ckconv_error err;
            char full[4096], cut[4096];
            if (!CHECK_OK(plan_problem(&plan, &p, NULL, &d, &err), err)) {
                continue;
            }
            const size_t length = ckconv_plan_describe(&plan, full, sizeof full);
            CHECK_MSG(length > 40 && length < sizeof full && strlen(full) == length, "%s: length %zu",
                      op_name(op), length);
            CHECK_MSG(strstr(full, op_name(op)) != NULL &&
                          strstr(full, ckconv_instance_name(plan.instance)) != NULL,
                      "names are missing: %s", full);
            CHECK_MSG(strchr(full, '\n') == NULL, "%s: a newline", op_name(op));
            CHECK(ckconv_plan_describe(&plan, NULL, 0) == length);
            for (size_t size = 0; size <= length + 2; size++) {
                memset(cut, 0x55, sizeof cut);
                const size_t again = ckconv_plan_describe(&plan, cut, size);
                const size_t kept = size == 0 ? 0 : size - 1 < length ? size - 1 : length;
                const int good = again == length && memcmp(cut, full, kept) == 0 &&
                                 (size == 0 || cut[kept] == 0) &&
                                 cut[size > kept ? size : kept + 1] == 0x55 && (size != 0 || cut[0] == 0x55);
                CHECK_MSG(good, "%s: cut to %zu bytes: \"%.40s\"", op_name(op), size, cut);
            }
        }
    }
}

/* A plan under a limit tells what it would take without one: as much as that plan has, and only where it is
   more. */
static void test_describe_limit(void)
{
    static const char *const archs[] = {"x86_64", "gfx942", "sm_90"};
    int told = 0, on_stack = 0;
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_GROUPNORM_BWD; op++) {
        for (int s = 0; s < SHAPES * 3; s++) {
            const problem p = shape(op, s / 3);
            ckconv_device d = full_cpu(3);
            ckconv_plan most, plan;
            ckconv_error err;
            ckconv_options o;
            char text[4096], want[96];
            memset(&o, 0, sizeof o);
            if (s % 3 > 0) {
                CHECK_OK(ckconv_device_named(archs[s % 3], &d, &err), err);
            }
            if (plan_problem(&most, &p, NULL, &d, &err) != CKCONV_OK) {
                continue;
            }
            ckconv_plan_describe(&most, text, sizeof text);
            CHECK_MSG(strstr(text, "slower without") == NULL, "no limit, but: %s", text);
            o.max_workspace = most.workspace_bytes > 0 ? most.workspace_bytes : -1;
            CHECK_OK(plan_problem(&plan, &p, &o, &d, &err), err);
            ckconv_plan_describe(&plan, text, sizeof text);
            CHECK_MSG(strstr(text, "slower without") == NULL, "all that it wants, but: %s", text);
            if (most.workspace_bytes == 0) {
                continue;
            }
            o.max_workspace = -1;
            CHECK_OK(plan_problem(&plan, &p, &o, &d, &err), err);
            ckconv_plan_describe(&plan, text, sizeof text);
            snprintf(want, sizeof want, ", %lld on the stack", (long long)most.workspace_bytes);
            if (s % 3 == 0 && strstr(text, want) != NULL) { /* all that it wants */
                CHECK_MSG(strstr(text, "slower without") == NULL, "on the stack, but: %s", text);
                on_stack++;
                continue;
            }
            snprintf(want, sizeof want, "slower without %lld bytes of workspace",
                     (long long)most.workspace_bytes);
            CHECK_MSG(strstr(text, want) != NULL, "does not say \"%s\": %s", want, text);
            told++;
        }
    }
    CHECK(told > SHAPES && on_stack > SHAPES / 2);
}

/*------------------------------------------------------------------------------------------------------------
  workspace
*/
static void test_limits(void)
{
    static const int64_t limits[] = {-1,   1,     2,      63,      64,      1000,
                                     4096, 65536, 100000, 1 << 20, 1 << 28, (int64_t)1 << 62};
    static const ckconv_dtype dtypes[] = {CKCONV_F32,  CKCONV_F64, CKCONV_F16,
                                          CKCONV_BF16, CKCONV_I8,  CKCONV_F8E4M3};
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_GROUPNORM_BWD; op++) {
        for (int s = 0; s < SHAPES; s++) {
            for (size_t t = 0; t < sizeof dtypes / sizeof dtypes[0]; t++) {
                problem p = shape(op, s);
                const ckconv_device d = full_cpu(s % 2 == 0 ? 1 : 64);
                if (is_norm(op) && t >= 4) {
                    continue;
                }
                set_dtype(&p, dtypes[t]);
                for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
                    ckconv_options o;
                    ckconv_plan plan;
                    ckconv_error err;
                    memset(&o, 0, sizeof o);
                    o.max_workspace = limits[i];
                    const int64_t allowed = limits[i] < 0 ? 0 : limits[i];
                    if (CHECK_OK(plan_problem(&plan, &p, &o, &d, &err), err)) {
                        CHECK_MSG(plan.workspace_bytes >= 0 && plan.workspace_bytes <= allowed,
                                  "%s, %s: %lld bytes with a limit of %lld", op_name(op),
                                  ckconv_dtype_name(dtypes[t]), (long long)plan.workspace_bytes,
                                  (long long)limits[i]);
                    }
                    o.engine = CKCONV_ENGINE_REF;
                    CHECK_OK(plan_problem(&plan, &p, &o, &d, &err), err);
                    CHECK(plan.workspace_bytes == 0);
                }
            }
        }
    }
}

static int64_t elements(const ckconv_plan *plan, int32_t which)
{
    ckconv_tensor_info info;
    return ckconv_plan_tensor(plan, which, &info, NULL) == CKCONV_OK ? info.count : 0;
}

/* Small integers in f32. */
static float *integers(int64_t count, uint64_t seed)
{
    test_rng r = test_seed(seed);
    float *x = (float *)malloc((size_t)(count + 1) * sizeof(float));
    for (int64_t i = 0; i < count; i++) {
        x[i] = (float)test_range(&r, -3, 3);
    }
    return x;
}

typedef struct operands {
    float *a, *b, *c; /* read tensors */
    float *out;
    int64_t count;
    ckconv_args args;
} operands;

/* Operands of a convolution in f32: exact on integers, so every plan must give the same. */
static void make_operands(operands *o, const problem *p)
{
    ckconv_plan plan;
    ckconv_error err;
    ckconv_options ref;
    memset(o, 0, sizeof *o);
    memset(&ref, 0, sizeof ref);
    ref.engine = CKCONV_ENGINE_REF;
    CHECK_OK(plan_problem(&plan, p, &ref, NULL, &err), err);
    const int32_t written = p->op == CKCONV_BWD_DATA     ? CKCONV_TENSOR_IN
                            : p->op == CKCONV_BWD_WEIGHT ? CKCONV_TENSOR_WEI
                                                         : CKCONV_TENSOR_OUT;
    o->count = elements(&plan, written);
    o->out = integers(o->count, 9);
    o->a = integers(elements(&plan, CKCONV_TENSOR_IN), 1);
    o->b = integers(elements(&plan, CKCONV_TENSOR_WEI), 2);
    o->c =
        integers(elements(&plan, p->op == CKCONV_CONV_CONV_FWD ? CKCONV_TENSOR_WEI1 : CKCONV_TENSOR_OUT), 3);
    o->args.in = p->op == CKCONV_BWD_DATA ? NULL : o->a;
    o->args.wei = p->op == CKCONV_BWD_WEIGHT ? NULL : o->b;
    o->args.wei1 = p->op == CKCONV_CONV_CONV_FWD ? o->c : NULL;
    o->args.dout = p->op == CKCONV_BWD_DATA || p->op == CKCONV_BWD_WEIGHT ? o->c : NULL;
    o->args.out = written == CKCONV_TENSOR_OUT ? o->out : NULL;
    o->args.din = written == CKCONV_TENSOR_IN ? o->out : NULL;
    o->args.dwei = written == CKCONV_TENSOR_WEI ? o->out : NULL;
}

static void free_operands(operands *o)
{
    free(o->a);
    free(o->b);
    free(o->c);
    free(o->out);
}

/* Run a plan with exactly its workspace between guard bands; the result must equal want. */
static void expect_result(const ckconv_plan *plan, const operands *o, const float *want, const char *what)
{
    test_buffer workspace;
    ckconv_error err;
    test_buffer_make(&workspace, (size_t)plan->workspace_bytes, 1);
    memset(workspace.data, 0xff, workspace.bytes);
    memset(o->out, 0xff, (size_t)o->count * sizeof(float));
    test.plan = plan;
    CHECK_OK(ckconv_run(plan, &o->args, plan->workspace_bytes > 0 ? workspace.data : NULL,
                        (size_t)plan->workspace_bytes, NULL, &err),
             err);
    CHECK_MSG(memcmp(o->out, want, (size_t)o->count * sizeof(float)) == 0, "%s: wrong result", what);
    CHECK_MSG(test_guards_intact(&workspace), "%s: wrote past its workspace", what);
    test.plan = NULL;
    test_buffer_free(&workspace);
}

static float *reference(const problem *p, const operands *o)
{
    ckconv_error err;
    float *want = (float *)malloc((size_t)(o->count + 1) * sizeof(float));
    if (p->op == CKCONV_CONV_CONV_FWD) {
        CHECK_OK(ckconv_ref_conv_conv(&p->u.pair, &o->args, &err), err);
    } else {
        CHECK_OK(ckconv_ref_conv(p->op, &p->u.conv, &o->args, &err), err);
    }
    memcpy(want, o->out, (size_t)o->count * sizeof(float));
    return want;
}

/* Terms of one element's sum. */
static int64_t reduction(const ckconv_plan *plan)
{
    const int64_t in = elements(plan, CKCONV_TENSOR_IN), wei = elements(plan, CKCONV_TENSOR_WEI);
    const int64_t out = elements(plan, CKCONV_TENSOR_OUT);
    if (plan->op == CKCONV_BWD_WEIGHT) {
        return out / (plan->u.conv.g * plan->u.conv.k);
    }
    return in > 0 ? wei : 1; /* at most: taps times channels */
}

/* Plans under every limit and split compute the same integers with no more workspace than they said. */
static void test_exact_workspace(void)
{
    static const int64_t limits[] = {0, -1, 256, 4096, 65536, 1 << 20};
    static const int32_t splits[] = {0, 1, 2, 3, 7, 64, 65536};
    const ckconv_device d = this_cpu();
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_CONV_CONV_FWD; op++) {
        for (int s = 0; s < SHAPES; s++) {
            const problem p = shape(op, s);
            operands o;
            ckconv_plan plan;
            ckconv_error err;
            ckconv_options options;
            make_operands(&o, &p);
            float *want = reference(&p, &o);
            memset(&options, 0, sizeof options);
            for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
                options.max_workspace = limits[i];
                if (CHECK_OK(plan_problem(&plan, &p, &options, &d, &err), err)) {
                    expect_result(&plan, &o, want, "under a limit");
                }
            }
            options.max_workspace = 0;
            for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
                options.split_k = splits[i];
                const ckconv_status status = plan_problem(&plan, &p, &options, &d, &err);
                if (status == CKCONV_OK) {
                    CHECK_MSG(plan.split_k >= 1 && (splits[i] == 0 || plan.split_k <= splits[i]),
                              "%s: split_k %d asked for, %d planned", op_name(op), (int)splits[i],
                              (int)plan.split_k);
                    CHECK_MSG(plan.split_k <= reduction(&plan), "%s: %d parts of a reduction of %lld",
                              op_name(op), (int)plan.split_k, (long long)reduction(&plan));
                    if (plan.workspace_bytes < MOST_WORKSPACE) {
                        expect_result(&plan, &o, want, "with a split");
                    }
                } else {
                    CHECK_MSG(status == CKCONV_ERR_UNSUPPORTED && splits[i] > 1 &&
                                  strstr(err.text, "split") != NULL,
                              "%s: split_k %d: status %d (%s)", op_name(op), (int)splits[i], (int)status,
                              err.text);
                }
            }
            free(want);
            free_operands(&o);
        }
    }
}

/* A split that is asked for is made: two stages exist for the weight gradient. */
static void test_split(void)
{
    const problem p = shape(CKCONV_BWD_WEIGHT, 10);
    const ckconv_device d = this_cpu();
    ckconv_options o;
    ckconv_plan plan;
    ckconv_error err;
    memset(&o, 0, sizeof o);
    o.instance = "two_stage";
    for (int32_t split = 2; split <= 8; split *= 2) {
        o.split_k = split;
        if (CHECK_OK(plan_problem(&plan, &p, &o, &d, &err), err)) {
            CHECK_MSG(plan.split_k == split && plan.workspace_bytes > 0,
                      "split_k %d asked for, %d planned, %lld bytes", (int)split, (int)plan.split_k,
                      (long long)plan.workspace_bytes);
        }
    }
    o.max_workspace = -1; /* no place for partial sums */
    const ckconv_status status = plan_problem(&plan, &p, &o, &d, &err);
    CHECK_MSG(status == CKCONV_OK ? plan.workspace_bytes == 0 : error_whole(&err, status), "status %d",
              (int)status);
}

/* Threads: options over device, and both in the plan. */
static void test_threads(void)
{
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_GROUPNORM_BWD; op++) {
        const problem p = shape(op, 0);
        ckconv_device d = full_cpu(6);
        ckconv_options o;
        ckconv_plan plan;
        ckconv_error err;
        memset(&o, 0, sizeof o);
        if (CHECK_OK(plan_problem(&plan, &p, NULL, &d, &err), err)) {
            CHECK_MSG(plan.block[0] >= 1 && plan.block[0] <= 6, "%s: %d threads of 6", op_name(op),
                      (int)plan.block[0]);
            CHECK(plan.grid[0] >= 1 && plan.launches >= 1);
        }
        o.threads = 2;
        if (CHECK_OK(plan_problem(&plan, &p, &o, &d, &err), err)) {
            CHECK_MSG(plan.block[0] >= 1 && plan.block[0] <= 2, "%s: %d threads of 2", op_name(op),
                      (int)plan.block[0]);
        }
        d.threads = 0;
        if (CHECK_OK(plan_problem(&plan, &p, NULL, &d, &err), err)) {
            CHECK_MSG(plan.block[0] == 1, "%s: %d threads of 0, which means 1", op_name(op),
                      (int)plan.block[0]);
        }
    }
}

/* FLOP and bytes by formula. */
static void test_measures(void)
{
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_GROUPNORM_BWD; op++) {
        for (int s = 0; s < SHAPES; s++) {
            problem p = shape(op, s);
            set_dtype(&p, CKCONV_F16);
            ckconv_plan plan;
            ckconv_error err;
            if (!CHECK_OK(plan_problem(&plan, &p, NULL, NULL, &err), err)) {
                continue;
            }
            const int64_t in = elements(&plan, CKCONV_TENSOR_IN), out = elements(&plan, CKCONV_TENSOR_OUT);
            const int64_t wei = elements(&plan, CKCONV_TENSOR_WEI),
                          wei1 = elements(&plan, CKCONV_TENSOR_WEI1);
            const int64_t mid = elements(&plan, CKCONV_TENSOR_MID);
            int64_t flop = 0, bytes = 2 * (in + wei + out + wei1);
            if (op == CKCONV_CONV_CONV_FWD) { /* products per output: filter volume times channels */
                flop = 2 * (mid * (wei / (p.u.pair.conv0.g * p.u.pair.conv0.k)) + out * (wei1 / p.u.pair.k1));
            } else if (!is_norm(op)) {
                flop = 2 * out * (wei / (p.u.conv.g * p.u.conv.k));
            }
            if (is_norm(op)) {
                bytes = 2 * (in + out + elements(&plan, CKCONV_TENSOR_DIN));
            }
            CHECK_MSG(plan.flop == flop, "%s: %lld FLOP, want %lld", op_name(op), (long long)plan.flop,
                      (long long)flop);
            CHECK_MSG(plan.bytes == bytes, "%s: %lld bytes, want %lld", op_name(op), (long long)plan.bytes,
                      (long long)bytes);
        }
    }
}

/*------------------------------------------------------------------------------------------------------------
  tensors of a plan
*/
static void expect_tensor(const ckconv_plan *plan, int32_t which, const char *what, ckconv_dtype dtype,
                          ckconv_layout layout, int32_t ndim, const int64_t *length, int written)
{
    ckconv_tensor_info info;
    ckconv_error err;
    int64_t stride[6] = {0, 0, 0, 0, 0, 0};
    int64_t count = 1;
    memset(&info, 0x55, sizeof info);
    if (!CHECK_OK(ckconv_plan_tensor(plan, which, &info, &err), err)) {
        return;
    }
    test_layout_strides(layout, ndim, length, stride);
    CHECK_MSG(info.dtype == dtype && info.layout == layout && info.rank == 3 + ndim &&
                  (info.written != 0) == written,
              "%s: type %d, layout %d, rank %d, written %d", what, (int)info.dtype, (int)info.layout,
              (int)info.rank, (int)info.written);
    for (int i = 0; i < 3 + ndim; i++) {
        CHECK_MSG(info.length[i] == length[i] && info.stride[i] == stride[i],
                  "%s, axis %d: length %lld, stride %lld, want %lld and %lld", what, i,
                  (long long)info.length[i], (long long)info.stride[i], (long long)length[i],
                  (long long)stride[i]);
        count *= length[i];
    }
    for (int i = 3 + ndim; i < 6; i++) {
        CHECK_MSG(info.length[i] == 0 && info.stride[i] == 0, "%s: axis %d is past the rank", what, i);
    }
    CHECK_MSG(info.count == count && info.bytes == count * (int64_t)test_size(dtype),
              "%s: %lld elements, %lld bytes", what, (long long)info.count, (long long)info.bytes);
}

static void expect_vector(const ckconv_plan *plan, int32_t which, const char *what, ckconv_dtype dtype,
                          int64_t a, int64_t b)
{
    ckconv_tensor_info info;
    ckconv_error err;
    if (CHECK_OK(ckconv_plan_tensor(plan, which, &info, &err), err)) {
        CHECK_MSG(info.dtype == dtype && info.rank == 2 && info.length[0] == a && info.length[1] == b &&
                      info.stride[0] == b && info.stride[1] == 1,
                  "%s: type %d, rank %d, [%lld, %lld]", what, (int)info.dtype, (int)info.rank,
                  (long long)info.length[0], (long long)info.length[1]);
        CHECK_MSG(info.count == a * b && info.bytes == a * b * (int64_t)test_size(dtype), "%s: %lld bytes",
                  what, (long long)info.bytes);
    }
}

static void test_conv_tensors(void)
{
    static const ckconv_layout activations[] = {CKCONV_NHWGC, CKCONV_GNHWC, CKCONV_NGCHW};
    static const ckconv_layout weights[] = {CKCONV_GKYXC, CKCONV_GKCYX};
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_BWD_WEIGHT; op++) {
        for (int which = 0; which < 3 * 18; which++) {
            const int32_t ndim = 1 + which / 18;
            problem p;
            ckconv_plan plan;
            ckconv_error err;
            memset(&p, 0, sizeof p);
            p.op = op;
            set_conv(&p.u.conv, ndim, 2, 3, 4, 5, 3, 6);
            int64_t in[6] = {2, 3, 5, 6, 6, 6}, wei[6] = {2, 4, 5, 3, 3, 3}, out[6] = {2, 3, 4, 0, 0, 0};
            for (int i = 0; i < ndim; i++) { /* all sizes different */
                p.u.conv.input[i] = in[3 + i] = 6 + i;
                p.u.conv.filter[i] = wei[3 + i] = 2 + i;
                p.u.conv.stride[i] = 1 + i;
                p.u.conv.dilation[i] = 2;
                p.u.conv.pad_lo[i] = i;
                p.u.conv.pad_hi[i] = 3;
                out[3 + i] = (6 + i + i + 3 - (1 + i) * 2 - 1) / (1 + i) + 1;
            }
            p.u.conv.in.dtype = CKCONV_BF16;
            p.u.conv.wei.dtype = CKCONV_F32;
            p.u.conv.in.layout = activations[which % 3];
            p.u.conv.out.layout = activations[which / 3 % 3];
            p.u.conv.wei.layout = weights[which / 9 % 2];
            if (!CHECK_OK(plan_problem(&plan, &p, NULL, NULL, &err), err)) {
                continue;
            }
            expect_tensor(&plan, CKCONV_TENSOR_IN, "in", CKCONV_BF16, p.u.conv.in.layout, ndim, in,
                          op == CKCONV_BWD_DATA);
            expect_tensor(&plan, CKCONV_TENSOR_WEI, "wei", CKCONV_F32, p.u.conv.wei.layout, ndim, wei,
                          op == CKCONV_BWD_WEIGHT);
            expect_tensor(&plan, CKCONV_TENSOR_OUT, "out", CKCONV_BF16, p.u.conv.out.layout, ndim, out,
                          op == CKCONV_FWD);
            int64_t sizes[3] = {-1, -1, -1};
            CHECK_OK(ckconv_conv_output(&p.u.conv, sizes, &err), err);
            ckconv_conv_desc any = p.u.conv; /* types, layouts and epilogues of any pass */
            int64_t same[3] = {-1, -1, -1};
            any.in.dtype = CKCONV_I32;
            any.wei.dtype = any.out.dtype = CKCONV_I8;
            any.in.layout = CKCONV_STRIDED;
            any.op_in.kind = CKCONV_BIAS;
            any.num_d = 1;
            CHECK_OK(ckconv_conv_output(&any, same, &err), err);
            CHECK(memcmp(same, sizes, sizeof same) == 0);
            for (int i = 0; i < 3; i++) {
                CHECK_MSG(sizes[i] == (i < ndim ? out[3 + i] : -1), "conv_output[%d] is %lld", i,
                          (long long)sizes[i]);
            }
        }
    }
}

/* D tensors: default, own layout, broadcast vector, strides; then what a plan does not have. */
static void test_d_tensors(void)
{
    problem p;
    ckconv_plan plan;
    ckconv_error err;
    ckconv_tensor_info info;
    memset(&p, 0, sizeof p);
    p.op = CKCONV_FWD;
    set_conv(&p.u.conv, 2, 2, 3, 4, 5, 3, 6);
    p.u.conv.in.dtype = CKCONV_F16;
    p.u.conv.out.layout = CKCONV_NGKHW;
    p.u.conv.op_out.kind = CKCONV_ADD;
    p.u.conv.num_d = 4;
    p.u.conv.d[1].dtype = CKCONV_F32;
    p.u.conv.d[1].layout = CKCONV_GNHWK;
    p.u.conv.d[2].layout = CKCONV_CHANNEL;
    p.u.conv.d[3].layout = CKCONV_STRIDED;
    p.u.conv.d[3].stride[2] = 7; /* one value per channel, seven apart, the same for both groups */
    const int64_t out[6] = {2, 3, 4, 6, 6, 0};
    if (!CHECK_OK(plan_problem(&plan, &p, NULL, NULL, &err), err)) {
        return;
    }
    expect_tensor(&plan, CKCONV_TENSOR_D0, "d[0]", CKCONV_F16, CKCONV_NGKHW, 2, out, 0);
    expect_tensor(&plan, CKCONV_TENSOR_D0 + 1, "d[1]", CKCONV_F32, CKCONV_GNHWK, 2, out, 0);
    if (CHECK_OK(ckconv_plan_tensor(&plan, CKCONV_TENSOR_D0 + 2, &info, &err), err)) {
        CHECK(info.bytes == 8 * 2 && info.stride[0] == 4 && info.stride[2] == 1);
        CHECK(info.stride[1] == 0 && info.stride[3] == 0 && info.stride[4] == 0);
    }
    if (CHECK_OK(ckconv_plan_tensor(&plan, CKCONV_TENSOR_D0 + 3, &info, &err), err)) {
        CHECK(info.bytes == (3 * 7 + 1) * 2 && info.stride[0] == 0 && info.stride[2] == 7);
    }
    static const int32_t not_here[] = {-1,
                                       CKCONV_TENSOR_WEI1,
                                       CKCONV_TENSOR_MID,
                                       CKCONV_TENSOR_CHANNEL,
                                       CKCONV_TENSOR_STAT,
                                       CKCONV_TENSOR_DIN,
                                       12,
                                       99,
                                       INT32_MAX,
                                       INT32_MIN};
    for (size_t i = 0; i < sizeof not_here / sizeof not_here[0]; i++) {
        memset(&info, 0x55, sizeof info);
        const ckconv_status status = ckconv_plan_tensor(&plan, not_here[i], &info, &err);
        CHECK_MSG(status == CKCONV_ERR_ARGUMENT && error_whole(&err, status), "tensor %d: status %d",
                  (int)not_here[i], (int)status);
    }
    p.u.conv.op_out.kind = CKCONV_BIAS;
    p.u.conv.num_d = 1;
    memset(&p.u.conv.d[1], 0, 3 * sizeof p.u.conv.d[1]);
    CHECK_OK(plan_problem(&plan, &p, NULL, NULL, &err), err);
    CHECK(ckconv_plan_tensor(&plan, CKCONV_TENSOR_D0 + 1, &info, &err) == CKCONV_ERR_ARGUMENT);
}

static void test_pair_tensors(void)
{
    problem p;
    ckconv_plan plan;
    ckconv_error err;
    memset(&p, 0, sizeof p);
    p.op = CKCONV_CONV_CONV_FWD;
    set_conv(&p.u.pair.conv0, 2, 6, 3, 2, 5, 3, 9);
    p.u.pair.conv0.stride[0] = 2;
    p.u.pair.conv0.in.dtype = CKCONV_F16;
    p.u.pair.conv0.out.layout = CKCONV_GNHWC;
    p.u.pair.g1 = 3;
    p.u.pair.k1 = 7;
    p.u.pair.filter1[1] = 2;
    p.u.pair.wei1.layout = CKCONV_GKCYX;
    p.u.pair.out.layout = CKCONV_NGCHW;
    if (!CHECK_OK(plan_problem(&plan, &p, NULL, NULL, &err), err)) {
        return;
    }
    const int64_t in[6] = {6, 3, 5, 9, 9, 0}, wei[6] = {6, 2, 5, 3, 3, 0}, mid[6] = {6, 3, 2, 5, 9, 0};
    const int64_t wei1[6] = {3, 7, 4, 1, 2, 0}, out[6] = {3, 3, 7, 5, 8, 0};
    expect_tensor(&plan, CKCONV_TENSOR_IN, "in", CKCONV_F16, CKCONV_NHWGC, 2, in, 0);
    expect_tensor(&plan, CKCONV_TENSOR_WEI, "wei", CKCONV_F16, CKCONV_GKYXC, 2, wei, 0);
    expect_tensor(&plan, CKCONV_TENSOR_MID, "mid", CKCONV_F16, CKCONV_GNHWC, 2, mid, 1);
    expect_tensor(&plan, CKCONV_TENSOR_WEI1, "wei1", CKCONV_F16, CKCONV_GKCYX, 2, wei1, 0);
    expect_tensor(&plan, CKCONV_TENSOR_OUT, "out", CKCONV_F16, CKCONV_NGCHW, 2, out, 1);
    expect_vector(&plan, CKCONV_TENSOR_CHANNEL, "scale", CKCONV_F32, 6, 2);
}

static void test_norm_tensors(void)
{
    static const ckconv_layout layouts[] = {CKCONV_NHWGC, CKCONV_GNHWC, CKCONV_NGCHW};
    for (int i = 0; i < 2 * 27; i++) {
        problem p;
        ckconv_plan plan;
        ckconv_error err;
        memset(&p, 0, sizeof p);
        p.op = i < 27 ? CKCONV_GROUPNORM_FWD : CKCONV_GROUPNORM_BWD;
        p.u.norm.ndim = 2;
        p.u.norm.g = 3;
        p.u.norm.n = 2;
        p.u.norm.c = 4;
        p.u.norm.eps = 1e-5;
        p.u.norm.input[0] = 5;
        p.u.norm.input[1] = 6;
        p.u.norm.in.dtype = CKCONV_BF16;
        p.u.norm.param_dtype = CKCONV_F32;
        p.u.norm.in.layout = layouts[i % 3];
        p.u.norm.out.layout = layouts[i / 3 % 3];
        p.u.norm.din.layout = layouts[i / 9 % 3];
        const int64_t length[6] = {3, 2, 4, 5, 6, 0};
        if (!CHECK_OK(plan_problem(&plan, &p, NULL, NULL, &err), err)) {
            continue;
        }
        const int bwd = p.op == CKCONV_GROUPNORM_BWD;
        expect_tensor(&plan, CKCONV_TENSOR_IN, "x", CKCONV_BF16, layouts[i % 3], 2, length, 0);
        expect_tensor(&plan, CKCONV_TENSOR_OUT, "y", CKCONV_BF16, layouts[i / 3 % 3], 2, length, !bwd);
        if (bwd) {
            expect_tensor(&plan, CKCONV_TENSOR_DIN, "dx", CKCONV_BF16, layouts[i / 9 % 3], 2, length, 1);
        }
        expect_vector(&plan, CKCONV_TENSOR_CHANNEL, "gamma", CKCONV_F32, 3, 4);
        expect_vector(&plan, CKCONV_TENSOR_STAT, "mean", CKCONV_F32, 2, 3);
        ckconv_tensor_info info;
        p.u.norm.param_per_image = 1;
        if (CHECK_OK(plan_problem(&plan, &p, NULL, NULL, &err), err) &&
            CHECK_OK(ckconv_plan_tensor(&plan, CKCONV_TENSOR_CHANNEL, &info, &err), err)) {
            CHECK_MSG(info.rank == 3 && info.length[0] == 2 && info.length[1] == 3 && info.length[2] == 4 &&
                          info.stride[0] == 12 && info.stride[1] == 4 && info.stride[2] == 1 &&
                          info.count == 24 && info.bytes == 96,
                      "gamma of each image: rank %d, %lld bytes", (int)info.rank, (long long)info.bytes);
        }
        CHECK(ckconv_plan_tensor(&plan, CKCONV_TENSOR_WEI, &info, &err) == CKCONV_ERR_ARGUMENT);
    }
}

/*------------------------------------------------------------------------------------------------------------
  sizes around 2^31 and 2^62: exact or refused, never wrong; nothing is run
*/

/* Which sizes of a convolution to make large. */
typedef struct border {
    const char *what;
    int64_t g, n, k, c, input; /* 1: keep; 0: the large number */
} border;

static const border borders[] = {
    {"groups", 0, 1, 1, 1, 1},          {"batch", 1, 0, 1, 1, 1},
    {"output channels", 1, 1, 0, 1, 1}, {"input channels", 1, 1, 1, 0, 1},
    {"width", 1, 1, 1, 1, 0},           {"batch of 2 channels", 1, 0, 2, 2, 1},
    {"groups of 3", 0, 3, 1, 1, 1},     {"width of 5 channels", 1, 1, 1, 5, 0},
};

static void expect_border(const border *b, ckconv_op op, ckconv_dtype dtype, int64_t large)
{
    problem p;
    ckconv_plan plan;
    ckconv_error err;
    ckconv_tensor_info info;
    memset(&p, 0, sizeof p);
    p.op = op;
    p.u.conv.ndim = 1;
    p.u.conv.g = b->g != 0 ? b->g : large;
    p.u.conv.n = b->n != 0 ? b->n : large;
    p.u.conv.k = b->k != 0 ? b->k : large;
    p.u.conv.c = b->c != 0 ? b->c : large;
    p.u.conv.filter[0] = 1;
    p.u.conv.input[0] = b->input != 0 ? b->input : large;
    p.u.conv.in.dtype = dtype;
    const ckconv_device d = full_cpu(2);
    const ckconv_status status = plan_problem(&plan, &p, NULL, &d, &err);
    if (!CHECK_MSG(status == CKCONV_OK, "%s, %s, %s = %lld: %d (%s)", op_name(op), ckconv_dtype_name(dtype),
                   b->what, (long long)large, (int)status, err.text)) {
        return;
    }
    const ckconv_conv_desc *c = &p.u.conv;
    const int64_t count[3] = {c->g * c->n * c->c * c->input[0], c->g * c->k * c->c,
                              c->g * c->n * c->k * c->input[0]};
    for (int32_t i = 0; i < 3; i++) {
        CHECK_OK(ckconv_plan_tensor(&plan, i, &info, &err), err);
        CHECK_MSG(info.count == count[i] && info.bytes == count[i] * (int64_t)test_size(dtype),
                  "%s = %lld: tensor %d has %lld elements, %lld bytes", b->what, (long long)large, (int)i,
                  (long long)info.count, (long long)info.bytes);
    }
    CHECK_MSG(plan.flop == 2 * c->g * c->n * c->k * c->c * c->input[0], "%s = %lld: %lld FLOP", b->what,
              (long long)large, (long long)plan.flop);
    CHECK(plan.workspace_bytes >= 0 && plan.grid[0] >= 1);
    char text[512];
    CHECK(ckconv_plan_describe(&plan, text, sizeof text) > 0);
}

static void test_borders(void)
{
    static const ckconv_dtype dtypes[] = {CKCONV_I8, CKCONV_F16, CKCONV_F32, CKCONV_F64};
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_BWD_WEIGHT; op++) {
        for (size_t t = 0; t < sizeof dtypes / sizeof dtypes[0]; t++) {
            const int64_t size = (int64_t)test_size(dtypes[t]);
            for (size_t i = 0; i < sizeof borders / sizeof borders[0]; i++) {
                for (int64_t off = -1; off <= 1; off++) {
                    expect_border(&borders[i], op, dtypes[t], TWO31 + off);        /* elements */
                    expect_border(&borders[i], op, dtypes[t], TWO31 / size + off); /* bytes */
                    expect_border(&borders[i], op, dtypes[t], 2 * TWO31 + off);
                    expect_border(&borders[i], op, dtypes[t], (int64_t)100000000000 + off);
                }
            }
        }
    }
    for (int64_t off = -1; off <= 1; off++) { /* group norms and pairs */
        problem p = shape(CKCONV_GROUPNORM_BWD, 5);
        ckconv_plan plan;
        ckconv_error err;
        ckconv_tensor_info info;
        p.u.norm.g = 1;
        p.u.norm.n = TWO31 + off;
        p.u.norm.c = 1;
        p.u.norm.input[0] = 3;
        CHECK_OK(plan_problem(&plan, &p, NULL, NULL, &err), err);
        CHECK_OK(ckconv_plan_tensor(&plan, CKCONV_TENSOR_DIN, &info, &err), err);
        CHECK(info.count == 3 * (TWO31 + off) && info.bytes == 12 * (TWO31 + off));
        CHECK_OK(ckconv_plan_tensor(&plan, CKCONV_TENSOR_STAT, &info, &err), err);
        CHECK(info.bytes == 4 * (TWO31 + off));
        p = shape(CKCONV_CONV_CONV_FWD, 3);
        p.u.pair.conv0.n = TWO31 + off;
        CHECK_OK(plan_problem(&plan, &p, NULL, NULL, &err), err);
        CHECK_OK(ckconv_plan_tensor(&plan, CKCONV_TENSOR_OUT, &info, &err), err);
        CHECK(info.count == 12 * 49 * (TWO31 + off));
    }
}

/* 2^62 bytes are allowed, one element more is not. */
static void test_largest(void)
{
    static const ckconv_dtype dtypes[] = {CKCONV_I8, CKCONV_F16, CKCONV_F32, CKCONV_F64};
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_BWD_WEIGHT; op++) {
        for (size_t t = 0; t < sizeof dtypes / sizeof dtypes[0]; t++) {
            for (int which = 0; which < 4; which++) {
                problem p;
                ckconv_plan plan;
                ckconv_error err;
                memset(&p, 0, sizeof p);
                p.op = op;
                set_conv(&p.u.conv, 1, 1, 1, 1, 1, 1, 1);
                p.u.conv.in.dtype = dtypes[t];
                int64_t *size = which == 0   ? &p.u.conv.n
                                : which == 1 ? &p.u.conv.k
                                : which == 2 ? &p.u.conv.c
                                             : &p.u.conv.input[0];
                *size = ((int64_t)1 << 62) / (int64_t)test_size(dtypes[t]);
                const ckconv_device d = full_cpu(2);
                CHECK_OK(plan_problem(&plan, &p, NULL, &d, &err), err);
                CHECK_MSG(plan.bytes == (int64_t)1 << 62 && plan.flop >= 0 && plan.workspace_bytes >= 0,
                          "%s: %lld bytes, %lld FLOP", op_name(op), (long long)plan.bytes,
                          (long long)plan.flop);
                *size += 1;
                const ckconv_status status = plan_problem(&plan, &p, NULL, &d, &err);
                CHECK_MSG(status == CKCONV_ERR_OVERFLOW && strstr(err.text, "2^62") != NULL &&
                              plan.magic == 0,
                          "%s: status %d (%s)", op_name(op), (int)status, err.text);
            }
        }
    }
    problem p; /* 2^31 - 1 of everything that cannot be allocated, and FLOP past 2^63 */
    ckconv_plan plan;
    ckconv_error err;
    memset(&p, 0, sizeof p);
    p.op = CKCONV_FWD;
    set_conv(&p.u.conv, 1, 1, (int64_t)1 << 30, (int64_t)1 << 30, (int64_t)1 << 30, 1, 1);
    CHECK_OK(plan_problem(&plan, &p, NULL, NULL, &err), err);
    CHECK_MSG(plan.flop > 0, "%lld FLOP", (long long)plan.flop);
}

/*------------------------------------------------------------------------------------------------------------
  choices and the tuner
*/
static void test_choice_text(void)
{
    static const double seconds[] = {0.0, 1e-9, 1.5, 0.1, 123456.789, 1.0 / 3.0, 1e300, 4.9e-324};
    static const int64_t bytes[] = {0, 1, 4096, (int64_t)1 << 40, (int64_t)1 << 59};
    ckconv_error err;
    for (int32_t i = 0; i < ckconv_instance_count(); i++) {
        for (size_t s = 0; s < sizeof seconds / sizeof seconds[0]; s++) {
            ckconv_choice a, b;
            char text[256], cut[256];
            memset(&a, 0, sizeof a);
            memset(&b, 0x55, sizeof b);
            a.instance = i;
            a.split_k = (int32_t)(1 + s * 9000);
            a.seconds = seconds[s];
            a.workspace_bytes = bytes[s % 5];
            const size_t length = ckconv_choice_to_text(&a, text, sizeof text);
            CHECK_MSG(length == strlen(text) && length < sizeof text && strchr(text, '\n') == NULL, "\"%s\"",
                      text);
            CHECK_MSG(strstr(text, ckconv_instance_name(i)) != NULL, "\"%s\" does not name %s", text,
                      ckconv_instance_name(i));
            CHECK_OK(ckconv_choice_from_text(&b, text, &err), err);
            CHECK_MSG(a.instance == b.instance && a.split_k == b.split_k &&
                          a.workspace_bytes == b.workspace_bytes,
                      "\"%s\" came back as %d %d %lld", text, (int)b.instance, (int)b.split_k,
                      (long long)b.workspace_bytes);
            CHECK_MSG(fabs(a.seconds - b.seconds) <= 1e-8 * a.seconds, "%.17g s came back as %.17g",
                      a.seconds, b.seconds);
            strcpy(cut, text);
            strcat(cut, "\n"); /* as fgets reads it */
            CHECK_OK(ckconv_choice_from_text(&b, cut, &err), err);
            CHECK(ckconv_choice_to_text(&a, NULL, 0) == length);
            for (size_t size = 0; size <= length + 1; size++) {
                memset(cut, 0x55, sizeof cut);
                const size_t kept = size == 0 ? 0 : size - 1 < length ? size - 1 : length;
                CHECK_MSG(ckconv_choice_to_text(&a, cut, size) == length && memcmp(cut, text, kept) == 0 &&
                              (size == 0 || cut[kept] == 0) && cut[size] == 0x55,
                          "cut to %zu", size);
            }
        }
    }
}

static void test_bad_choices(void)
{
    static const char *const bad[] = {"",
                                      " ",
                                      "\n",
                                      "nonsense",
                                      "ref",
                                      "ref split_k=",
                                      "ref split_k=1 seconds=",
                                      "ref split_k=1 seconds=x workspace=0",
                                      "no_such_instance split_k=1 seconds=1 workspace=0",
                                      "ref split_k=-1 seconds=1 workspace=0",
                                      "ref split_k=99999999999999999999 seconds=1 workspace=0",
                                      "ref split_k=1 seconds=1 workspace=-5",
                                      "ref split_k=1 seconds=nan workspace=0",
                                      "ref split_k=1 seconds=-1 workspace=0",
                                      "ref split_k=1 seconds=1 workspace=0 and more",
                                      "REF split_k=1 seconds=1 workspace=0"};
    ckconv_choice c;
    ckconv_error err;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ckconv_choice before;
        memset(&c, 0x55, sizeof c);
        before = c;
        const ckconv_status status = ckconv_choice_from_text(&c, bad[i], &err);
        CHECK_MSG(status == CKCONV_ERR_ARGUMENT && err.status == status && err.text[0] != 0,
                  "\"%s\": status %d", bad[i], (int)status);
        CHECK_MSG(memcmp(&c, &before, sizeof c) == 0, "\"%s\" changed the choice", bad[i]);
    }
    char line[4001];
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = 0;
    CHECK(ckconv_choice_from_text(&c, line, &err) == CKCONV_ERR_ARGUMENT);
    /* choices that no tuner wrote */
    const problem p = shape(CKCONV_FWD, 0);
    ckconv_plan base, plan;
    CHECK_OK(plan_problem(&base, &p, NULL, NULL, &err), err);
    static const int32_t instances[] = {-1, 100000, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof instances / sizeof instances[0]; i++) {
        memset(&c, 0, sizeof c);
        memset(&plan, 0x55, sizeof plan);
        c.instance = instances[i];
        c.split_k = 1;
        const ckconv_status status = ckconv_plan_choice(&plan, &base, &c, &err);
        CHECK_MSG(status == CKCONV_ERR_ARGUMENT && error_whole(&err, status), "instance %d: status %d",
                  (int)instances[i], (int)status);
        CHECK(plan.magic == 0);
    }
    memset(&c, 0, sizeof c);
    c.instance = base.instance;
    c.split_k = -3;
    CHECK(ckconv_plan_choice(&plan, &base, &c, &err) == CKCONV_ERR_ARGUMENT && plan.magic == 0);
    for (int32_t i = 0; i < ckconv_instance_count(); i++) {
        if (!ckconv_instance_does(i, CKCONV_FWD)) {
            c.instance = i;
            c.split_k = 1;
            const ckconv_status status = ckconv_plan_choice(&plan, &base, &c, &err);
            CHECK_MSG(status == CKCONV_ERR_UNSUPPORTED && error_whole(&err, status), "%s for fwd: status %d",
                      ckconv_instance_name(i), (int)status);
        }
    }
}

/* The tuner: right order, no instance twice, each choice makes a plan that computes the right thing. */
static void test_tune(ckconv_op op, int s)
{
    enum { CAPACITY = 64 };
    const problem p = shape(op, s);
    const ckconv_device d = this_cpu();
    ckconv_plan base, plan;
    ckconv_error err;
    ckconv_choice choices[CAPACITY + 1];
    operands o;
    int32_t count = -1;
    make_operands(&o, &p);
    float *want = reference(&p, &o);
    const size_t bytes = 1 << 24;
    void *workspace = malloc(bytes);
    memset(choices, 0x55, sizeof choices);
    CHECK_OK(plan_problem(&base, &p, NULL, &d, &err), err);
    CHECK_OK(ckconv_tune(&base, &o.args, workspace, bytes, NULL, 2, choices, CAPACITY, &count, &err), err);
    CHECK_MSG(count >= 1 && count <= CAPACITY, "%s: %d choices", op_name(op), (int)count);
    CHECK_MSG(memcmp(o.out, want, (size_t)o.count * sizeof(float)) == 0, "%s: the tuner left a wrong result",
              op_name(op));
    for (int32_t i = 0; i < count; i++) {
        CHECK_MSG(choices[i].seconds > 0.0 && (i == 0 || choices[i - 1].seconds <= choices[i].seconds),
                  "%s: choice %d out of order", op_name(op), (int)i);
        CHECK(choices[i].workspace_bytes >= 0 && (size_t)choices[i].workspace_bytes <= bytes);
        for (int32_t j = 0; j < i; j++) {
            CHECK(choices[i].instance != choices[j].instance || choices[i].split_k != choices[j].split_k);
        }
        if (CHECK_OK(ckconv_plan_choice(&plan, &base, &choices[i], &err), err)) {
            CHECK_MSG(plan.instance == choices[i].instance && plan.split_k == choices[i].split_k &&
                          plan.workspace_bytes == choices[i].workspace_bytes,
                      "%s: the plan of a choice is another", op_name(op));
            expect_result(&plan, &o, want, "a tuned plan");
        }
    }
    /* every instance that needs no more workspace than there is was tried */
    for (int32_t i = 0; i < ckconv_instance_count(); i++) {
        int seen = 0;
        for (int32_t j = 0; j < count; j++) {
            seen += choices[j].instance == i;
        }
        const int should =
            ckconv_instance_engine(i) == base.engine && ckconv_instance_supports(i, &base, &err) == CKCONV_OK;
        CHECK_MSG((seen > 0) == should, "%s: %s was tried %d times", op_name(op), ckconv_instance_name(i),
                  seen);
    }
    /* one place, no workspace */
    ckconv_options none;
    memset(&none, 0, sizeof none);
    memset(&choices[1], 0x55, sizeof choices[1]);
    const ckconv_choice next = choices[1];
    none.max_workspace = -1;
    CHECK_OK(ckconv_plan_again(&plan, &base, &none, &err), err);
    CHECK_OK(ckconv_tune(&plan, &o.args, NULL, 0, NULL, 1, choices, 1, &count, &err), err);
    CHECK_MSG(count == 1 && choices[0].workspace_bytes == 0 && memcmp(&next, &choices[1], sizeof next) == 0,
              "%s: a tuner without workspace found %d", op_name(op), (int)count);
    CHECK(ckconv_tune(&base, &o.args, NULL, 0, NULL, 1, choices, 0, &count, &err) == CKCONV_ERR_ARGUMENT);
    CHECK(ckconv_tune(&base, &o.args, NULL, 0, NULL, 1, choices, -1, &count, &err) == CKCONV_ERR_ARGUMENT);
    free(workspace);
    free(want);
    free_operands(&o);
}

/*------------------------------------------------------------------------------------------------------------
  what each operation is given: members of ckconv_args
*/
#define MEMBER(NAME)                                                                                         \
    {                                                                                                        \
#NAME, offsetof(ckconv_args, NAME)                                                                   \
    }
static const struct {
    const char *name;
    size_t place;
} members[] = {MEMBER(in),     MEMBER(wei),   MEMBER(dout),       MEMBER(d[0]),          MEMBER(d[1]),
               MEMBER(d[2]),   MEMBER(d[3]),  MEMBER(wei1),       MEMBER(scale),         MEMBER(shift),
               MEMBER(gamma),  MEMBER(beta),  MEMBER(saved_mean), MEMBER(saved_inv_std), MEMBER(out),
               MEMBER(din),    MEMBER(dwei),  MEMBER(mid),        MEMBER(mean),          MEMBER(inv_std),
               MEMBER(dgamma), MEMBER(dbeta), MEMBER(dbias)};
#undef MEMBER
enum { MEMBERS = sizeof members / sizeof members[0], ROOM = 1 << 16 };

/* In parentheses what may be NULL. bwd_weight is asked for dbias; all convolutions have a D tensor. */
static const struct {
    ckconv_op op;
    char desc; /* convolution, pair, group norm */
    const char *name, *read, *written;
} operations[] = {
    {CKCONV_FWD, 'c', "fwd", " in wei d[0] ", " out "},
    {CKCONV_BWD_DATA, 'c', "bwd_data", " dout wei d[0] ", " din "},
    {CKCONV_BWD_WEIGHT, 'c', "bwd_weight", " in dout d[0] ", " dwei dbias "},
    {CKCONV_CONV_CONV_FWD, 'p', "conv_conv_fwd", " in wei wei1 d[0] (scale) (shift) ", " out (mid) "},
    {CKCONV_GROUPNORM_FWD, 'n', "groupnorm_fwd", " in (gamma) (beta) ", " out (mean) (inv_std) "},
    {CKCONV_GROUPNORM_BWD, 'n', "groupnorm_bwd", " in dout (gamma) (beta) (saved_mean) (saved_inv_std) ",
     " (din) (dgamma) (dbeta) "},
};

enum { OPERATIONS = sizeof operations / sizeof operations[0] };

/* Is it in the list? 1: as it is, 2: in parentheses. */
static int listed(const char *list, const char *name)
{
    char word[32];
    snprintf(word, sizeof word, " %s ", name);
    if (strstr(list, word) != NULL) {
        return 1;
    }
    snprintf(word, sizeof word, " (%s) ", name);
    return strstr(list, word) != NULL ? 2 : 0;
}

static void set_member(ckconv_args *args, int i, void *p)
{
    memcpy((char *)args + members[i].place, &p, sizeof p);
}

/* A run of `plan` where member i is p: it must fail with this text, or, without one, do. */
static void expect_run(const ckconv_plan *plan, ckconv_args args, int i, void *p, const char *text)
{
    ckconv_error err;
    set_member(&args, i, p);
    const ckconv_status status = ckconv_run(plan, &args, NULL, 0, NULL, &err);
    CHECK_MSG((status == CKCONV_OK) == (text == NULL) && (text == NULL || strstr(err.text, text) != NULL),
              "%s: %s: status %d (%s)", op_name(plan->op), members[i].name, (int)status, err.text);
}

/* Each member is NULL, is another one, holds bytes that stay or change, in turn. */
static void test_arguments(int row)
{
    const ckconv_op op = operations[row].op;
    problem p = shape(op, 5);
    ckconv_options ref;
    ckconv_plan plan;
    ckconv_error err;
    ckconv_args args;
    unsigned char *memory = (unsigned char *)calloc(MEMBERS, ROOM);
    memset(&ref, 0, sizeof ref);
    memset(&args, 0, sizeof args);
    ref.engine = CKCONV_ENGINE_REF;
    CHECK_MSG(strcmp(op_name(op), operations[row].name) == 0 && ckconv_op_from_name(op_name(op)) == op,
              "operation %d is called %s", (int)op, op_name(op));
    if (op == CKCONV_CONV_CONV_FWD) {
        p.u.pair.num_d = 1;
        p.u.pair.op_out.kind = CKCONV_BIAS;
    } else if (!is_norm(op)) {
        ckconv_element_op *epilogue = op == CKCONV_BWD_DATA     ? &p.u.conv.op_in
                                      : op == CKCONV_BWD_WEIGHT ? &p.u.conv.op_wei
                                                                : &p.u.conv.op_out;
        p.u.conv.num_d = listed(operations[row].read, "d[0]");
        epilogue->kind = p.u.conv.num_d > 0 ? CKCONV_BIAS : CKCONV_PASS;
        p.u.conv.dbias = CKCONV_F32;
    }
    if (!CHECK_OK(plan_problem(&plan, &p, &ref, NULL, &err), err)) {
        free(memory);
        return;
    }
    for (int i = 0; i < MEMBERS; i++) {
        float *f = (float *)(void *)(memory + (size_t)i * ROOM);
        for (size_t k = 0; k < ROOM / sizeof *f; k++) {
            f[k] = 1 + (float)(k % 5);
        }
        set_member(&args, i, f);
    }
    unsigned char *before = (unsigned char *)malloc((size_t)MEMBERS * ROOM);
    memcpy(before, memory, (size_t)MEMBERS * ROOM);
    CHECK_OK(ckconv_run(&plan, &args, NULL, 0, NULL, &err), err);
    for (int i = 0; i < MEMBERS; i++) {
        const int changed = memcmp(memory + (size_t)i * ROOM, before + (size_t)i * ROOM, ROOM) != 0;
        const int written = listed(operations[row].written, members[i].name) != 0;
        CHECK_MSG(changed == written, "%s: %s was%s written", op_name(op), members[i].name,
                  changed ? "" : " not");
    }
    for (int i = 0; i < MEMBERS; i++) {
        const char *const name = members[i].name;
        const int read = listed(operations[row].read, name), written = listed(operations[row].written, name);
        char text[64];
        snprintf(text, sizeof text,
                 strncmp(name, "saved", 5) == 0 && read ? "give both or none" : "args.%s is NULL", name);
        const int both = strncmp(name, "saved", 5) == 0 && read;
        /* without dwei the rest is there for nothing, which is allowed where dbias is wanted */
        const int alone = op == CKCONV_BWD_WEIGHT && strcmp(name, "dwei") == 0;
        expect_run(&plan, args, i, NULL, !alone && (both || read == 1 || written == 1) ? text : NULL);
        for (int j = 0; j < MEMBERS; j++) {
            const int other = listed(operations[row].read, members[j].name) != 0 ||
                              listed(operations[row].written, members[j].name) != 0;
            /* a D tensor may be the tensor whose epilogue reads it */
            const int own =
                strcmp(members[j].name, "d[0]") == 0 && written == 1 && strcmp(name, "dbias") != 0;
            if (i != j && written != 0) {
                expect_run(&plan, args, i, memory + (size_t)j * ROOM, other && !own ? "overlaps" : NULL);
            } else if (i != j && read != 0 && listed(operations[row].read, members[j].name) != 0) {
                expect_run(&plan, args, i, memory + (size_t)j * ROOM, NULL);
            }
        }
    }
    if (op == CKCONV_BWD_WEIGHT) {
        args.dwei = NULL; /* dbias alone */
        args.in = args.d[0] = NULL;
        CHECK_OK(ckconv_run(&plan, &args, NULL, 0, NULL, &err), err);
    } else if (op == CKCONV_GROUPNORM_BWD) {
        args.din = args.dgamma = NULL;
        CHECK_OK(ckconv_run(&plan, &args, NULL, 0, NULL, &err), err);
        args.dbeta = NULL;
        CHECK(ckconv_run(&plan, &args, NULL, 0, NULL, &err) == CKCONV_ERR_NULL &&
              strcmp(err.text, "args.din, args.dgamma and args.dbeta are all NULL: nothing to do") == 0);
    }
    free(before);
    free(memory);
}

/* "op is 9: must be CKCONV_FWD (1), ...": the operations of a description. */
static void must_be(char *text, size_t size, ckconv_op op, char desc)
{
    int left = 0;
    size_t at = (size_t)snprintf(text, size, "op is %d: must be", (int)op);
    for (int i = 0; i < OPERATIONS; i++) {
        left += operations[i].desc == desc;
    }
    for (int i = 0; i < OPERATIONS; i++) {
        if (operations[i].desc == desc && left-- > 0) {
            at += (size_t)snprintf(text + at, size - at, " CKCONV_");
            for (const char *c = operations[i].name; *c != 0; c++) {
                text[at++] = (char)toupper((unsigned char)*c);
            }
            at += (size_t)snprintf(text + at, size - at, " (%d)%s", (int)operations[i].op,
                                   left > 1    ? ","
                                   : left == 1 ? " or"
                                               : "");
        }
    }
}

/* Each function that plans takes the operations of its description and no other. */
static void test_operations(void)
{
    const problem c = shape(CKCONV_FWD, 0), n = shape(CKCONV_GROUPNORM_FWD, 0);
    ckconv_options ref;
    memset(&ref, 0, sizeof ref);
    ref.engine = CKCONV_ENGINE_REF;
    for (ckconv_op op = -1; op <= OPERATIONS + 2; op++) {
        ckconv_plan plan;
        ckconv_error err;
        char text[256], desc = 0;
        for (int i = 0; i < OPERATIONS; i++) {
            desc = operations[i].op == op ? operations[i].desc : desc;
        }
        const problem d = shape(op, 0);
        ckconv_plan_conv(&plan, op, desc == 'c' ? &d.u.conv : &c.u.conv, &ref, NULL, &err);
        must_be(text, sizeof text, op, 'c');
        CHECK_MSG(strcmp(err.text, desc == 'c' ? "" : text) == 0, "op %d: %s", (int)op, err.text);
        ckconv_plan_groupnorm(&plan, op, &n.u.norm, &ref, NULL, &err);
        must_be(text, sizeof text, op, 'n');
        CHECK_MSG(strcmp(err.text, desc == 'n' ? "" : text) == 0, "op %d: %s", (int)op, err.text);
        CHECK_MSG((ckconv_op_name(op) != NULL) == (desc != 0), "op %d is called %s", (int)op, op_name(op));
        CHECK(ckconv_instance_does(0, op) == (desc != 0));
    }
    for (int i = 0; i < OPERATIONS; i++) {
        test_arguments(i);
    }
}

/* A plan for features that this CPU lacks must not run here. */
static void test_wrong_device(void)
{
    const problem p = shape(CKCONV_FWD, 0);
    const ckconv_device here = this_cpu(), other = full_cpu(1);
    if ((other.features & ~here.features) == 0) {
        printf("skipped: this CPU has every feature that a plan can ask for\n");
        return;
    }
    ckconv_plan plan;
    ckconv_error err;
    operands o;
    make_operands(&o, &p);
    CHECK_OK(plan_problem(&plan, &p, NULL, &other, &err), err);
    memset(o.out, 0x55, (size_t)o.count * sizeof(float));
    void *workspace = malloc((size_t)plan.workspace_bytes + 1);
    const ckconv_status status =
        ckconv_run(&plan, &o.args, workspace, (size_t)plan.workspace_bytes, NULL, &err);
    CHECK_MSG(status == CKCONV_ERR_WRONG_DEVICE && error_whole(&err, status), "status %d (%s)", (int)status,
              err.text);
    CHECK(test_all_bytes((const unsigned char *)o.out, (size_t)o.count * sizeof(float), 0x55));
    free(workspace);
    free_operands(&o);
}

int main(void)
{
    test_begin("test_plan");
    test_devices();
    test_device_helpers();
    test_instances();
    test_cpu_choices();
    test_selection();
    test_wrong_names();
    test_repeat();
    test_defaults();
    test_layouts_follow();
    test_describe();
    test_describe_limit();
    test_values_in_texts();
    test_limits();
    test_exact_workspace();
    test_split();
    test_threads();
    test_measures();
    test_conv_tensors();
    test_d_tensors();
    test_pair_tensors();
    test_norm_tensors();
    test_borders();
    test_largest();
    test_choice_text();
    test_bad_choices();
    for (ckconv_op op = CKCONV_FWD; op <= CKCONV_CONV_CONV_FWD; op++) {
        test_tune(op, 0);
        test_tune(op, 2);
        test_tune(op, 3);
    }
    test_operations();
    test_wrong_device();
    return test_end();
}
