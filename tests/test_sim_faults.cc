/* test_sim_faults.cc - what a GPU call answers when things go wrong, with the simulated GPUs
   SPDX-License-Identifier: MIT */
#include "sim_impl.cc"

static int passed, failed;

static void check(bool good, const char *what, const ckconv_error *err)
{
    passed += good;
    failed += !good;
    if (!good) {
        printf("FAIL %s (status %d: %s)\n", what, err ? (int)err->status : 0, err ? err->text : "");
    }
}

static bool untouched(const float *p, int count)
{
    for (int i = 0; i < count; i++) {
        if (p[i] != 12345.0f) {
            return false;
        }
    }
    return true;
}

/* The runtime's memory of a failure is cleared by whoever reports it. */
static void check_cleared(const char *what)
{
    check(simGetLastError() == simSuccess, what, NULL);
}

/* A launch after others fails: outputs are undefined, the status tells. */
static void test_second_launch(const ckconv_device *gpu)
{
    ckconv_error err;
    ckconv_plan plan;
    ckconv_groupnorm_desc d;
    memset(&d, 0, sizeof d);
    d.ndim = 1;
    d.n = 2;
    d.g = 2;
    d.c = 3;
    d.input[0] = 5;
    d.eps = 1e-5;
    float x[60], dy[60], dx[60], dgamma[6], mean[4] = {99, 99, 99, 99}, inv_std[4] = {99, 99, 99, 99};
    for (int i = 0; i < 60; i++) {
        x[i] = (float)(i % 7);
        dy[i] = (float)(i % 5);
    }
    check(ckconv_plan_groupnorm(&plan, CKCONV_GROUPNORM_BWD, &d, NULL, gpu, &err) == CKCONV_OK, "norm plan",
          &err);
    check(plan.launches == 2, "norm launches", NULL);
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.in = x;
    a.dout = dy;
    a.din = dx;
    a.dgamma = dgamma;
    a.mean = mean; /* not of this operation: neither looked at nor written */
    a.inv_std = (char *)inv_std + 1;
    void *ws = ckconv_device_alloc(gpu, (size_t)plan.workspace_bytes, &err);
    check(ckconv_run(&plan, &a, ws, (size_t)plan.workspace_bytes, NULL, &err) == CKCONV_OK, "norm backward",
          &err);
    check(mean[0] == 99 && mean[3] == 99 && inv_std[0] == 99 && inv_std[3] == 99, "backward leaves mean",
          NULL);
    sim_good_launches = 1;
    sim_fail_launches = 1;
    check(ckconv_run(&plan, &a, ws, (size_t)plan.workspace_bytes, NULL, &err) == CKCONV_ERR_LAUNCH &&
              strstr(err.text, "norm_param"),
          "second launch fails", &err);
    check_cleared("second launch: last error");
    ckconv_device_free(gpu, ws);
}

/* Sizes whose blocks are a multiple of 2^32. */
static void test_large_move(const ckconv_device *gpu)
{
    ckconv_error err;
    static const int64_t length[5] = {1, (int64_t)1 << 32, 2, 3, 1};
    ckconv_tensor from = {CKCONV_F32, CKCONV_NGCHW, {0}}, to = {CKCONV_F32, CKCONV_NHWGC, {0}};
    void *src = (void *)((uintptr_t)1 << 40), *dst = (void *)((uintptr_t)1 << 50); /* nothing is read there */
    check(ckconv_device_transform(gpu, 2, length, &from, src, &to, dst, NULL, &err) ==
                  CKCONV_ERR_UNSUPPORTED &&
              strstr(err.text, "blocks"),
          "2^32 blocks", &err);
}

static void test_timers(const ckconv_device *gpu)
{
    ckconv_error err;
    ckconv_timer timer;
    check(ckconv_timer_create(gpu, &timer, &err) == CKCONV_OK && sim_events == 2, "timer", &err);
    check(ckconv_timer_seconds(gpu, &timer) >= 0, "timer that never ran", NULL);
    ckconv_timer_destroy(gpu, &timer);
    ckconv_timer_destroy(gpu, &timer);
    check(sim_events == 0 && !timer.from && !timer.to, "timer destroyed twice", NULL);
    for (int which = 1; which <= 2; which++) {
        sim_fail_event = which;
        check(ckconv_timer_create(gpu, &timer, &err) == CKCONV_ERR_LAUNCH && sim_events == 0, "no timer",
              &err);
        ckconv_timer_start(gpu, &timer, NULL);
        ckconv_timer_stop(gpu, &timer, NULL);
        check(ckconv_timer_seconds(gpu, &timer) < 0, "time of no timer", NULL);
        ckconv_timer_destroy(gpu, &timer);
        check_cleared("no timer: last error");
    }
    check(ckconv_timer_create(NULL, &timer, &err) == CKCONV_ERR_NULL, "timer of no device", &err);
    check(ckconv_timer_create(gpu, NULL, &err) == CKCONV_ERR_NULL, "NULL timer", &err);
    ckconv_timer_start(NULL, &timer, NULL);
    ckconv_timer_stop(gpu, NULL, NULL);
    check(ckconv_timer_seconds(NULL, &timer) < 0 && ckconv_timer_seconds(gpu, NULL) < 0, "time of NULL",
          NULL);
    ckconv_timer_destroy(NULL, &timer);
    ckconv_timer_destroy(gpu, NULL);
}

/* After a kernel that crashed every call fails: that is told, not taken for a machine without a GPU. */
static void test_sticky(const ckconv_device *gpu, const ckconv_conv_desc *d, const ckconv_args *a)
{
    ckconv_error err;
    ckconv_plan plan, made;
    ckconv_device facts;
    check(ckconv_plan_conv(&made, CKCONV_FWD, d, NULL, gpu, &err) == CKCONV_OK, "plan", &err);
    sim_sticky = simErrorLaunchFailure;
    check(ckconv_plan_conv(&plan, CKCONV_FWD, d, NULL, NULL, &err) == CKCONV_ERR_NO_DEVICE &&
              strstr(err.text, "unspecified launch failure") && plan.magic == 0,
          "sticky error: default device", &err);
    check(ckconv_run(&made, a, NULL, 0, NULL, &err) == CKCONV_ERR_NO_DEVICE &&
              strstr(err.text, "unspecified launch failure"),
          "sticky error: run", &err);
    memset(&facts, 0x55, sizeof facts);
    check(ckconv_device_gpu(0, &facts, &err) == CKCONV_ERR_NO_DEVICE && strstr(err.text, "launch failure") &&
              facts.kind == CKCONV_DEVICE_CPU && facts.arch[0] == 0 && facts.reserved[2] == 0,
          "sticky error: facts", &err);
    check(ckconv_device_count() == 0, "sticky error: count", NULL);
    check_cleared("sticky error: last error");
    ckconv_options o;
    memset(&o, 0, sizeof o);
    o.engine = CKCONV_ENGINE_REF;
    check(ckconv_plan_conv(&plan, CKCONV_FWD, d, &o, NULL, &err) == CKCONV_OK, "sticky error: ref", &err);
    sim_sticky = simSuccess;
}

/* An instance whose time is not known is not ranked first. */
static void test_failed_tuning(const ckconv_device *gpu, const ckconv_conv_desc *d, const ckconv_args *a)
{
    ckconv_error err;
    ckconv_plan plan;
    ckconv_choice choices[64];
    int32_t count = 0;
    check(ckconv_plan_conv(&plan, CKCONV_FWD, d, NULL, gpu, &err) == CKCONV_OK, "plan", &err);
    sim_fail_elapsed = 1;
    check(ckconv_tune(&plan, a, NULL, 0, NULL, 2, choices, 64, &count, &err) == CKCONV_ERR_LAUNCH &&
              strstr(err.text, "gpu_"),
          "tuning with a broken clock", &err);
    sim_fail_elapsed = 0;
    check_cleared("tuning: last error");
    check(ckconv_tune(&plan, a, NULL, 0, NULL, 2, choices, 64, &count, &err) == CKCONV_OK && count > 1,
          "tuning", &err);
}

int main()
{
    ckconv_device gpu, second;
    ckconv_error err;
    ckconv_plan plan, split;
    ckconv_conv_desc d;
    memset(&d, 0, sizeof d);
    d.ndim = 1;
    d.n = 2;
    d.k = d.c = 4;
    d.filter[0] = 3;
    d.input[0] = 600;
    enum { IN = 2 * 600 * 4, WEI = 4 * 3 * 4, OUT = 2 * 598 * 4 };
    static float in[IN + 4], wei[WEI], out[OUT], dwei[WEI];
    for (float &x : out) {
        x = 12345.0f;
    }
    for (float &x : dwei) {
        x = 12345.0f;
    }
    ckconv_args a;
    memset(&a, 0, sizeof a);
    a.in = in;
    a.wei = wei;
    a.out = out;

    /* no such GPU */
    check(ckconv_device_count() == 2, "two GPUs", NULL);
    check(ckconv_device_gpu(2, &gpu, &err) == CKCONV_ERR_NO_DEVICE && strstr(err.text, "2"), "GPU 2", &err);
    check(ckconv_device_gpu(0, &gpu, &err) == CKCONV_OK, "GPU 0", &err);
    check(ckconv_device_gpu(1, &second, &err) == CKCONV_OK, "GPU 1", &err);

    /* a plan for one GPU while the other one is current */
    check(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, &second, &err) == CKCONV_OK, "plan", &err);
    check(ckconv_run(&plan, &a, NULL, 0, NULL, &err) == CKCONV_ERR_WRONG_DEVICE && strstr(err.text, "GPU 1"),
          "wrong device", &err);
    check(untouched(out, OUT), "wrong device: out", NULL);
    check(ckconv_device_open(&second, &err) == CKCONV_OK, "open GPU 1", &err);
    check(ckconv_run(&plan, &a, NULL, 0, NULL, &err) == CKCONV_OK, "right device", &err);
    check(ckconv_device_open(&gpu, &err) == CKCONV_OK, "open GPU 0", &err);
    for (float &x : out) {
        x = 12345.0f;
    }

    /* a GPU that this program was not planned for: other facts */
    ckconv_device other;
    check(ckconv_device_named("gfx1030", &other, &err) == CKCONV_OK, "named", &err);
    check(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, &other, &err) == CKCONV_OK, "plan for gfx1030", &err);
    check(ckconv_run(&plan, &a, NULL, 0, NULL, &err) == CKCONV_ERR_WRONG_DEVICE, "plan of another GPU", &err);

    /* the runtime refuses a launch; of two launches the first */
    check(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, &gpu, &err) == CKCONV_OK, "plan", &err);
    sim_fail_launches = 1;
    check(ckconv_run(&plan, &a, NULL, 0, NULL, &err) == CKCONV_ERR_LAUNCH && strstr(err.text, "ckconv_k_"),
          "launch failure", &err);
    check(untouched(out, OUT), "launch failure: out", NULL);
    check_cleared("launch failure: last error");
    ckconv_options o;
    memset(&o, 0, sizeof o);
    o.split_k = 4;
    check(ckconv_plan_conv(&split, CKCONV_BWD_WEIGHT, &d, &o, &gpu, &err) == CKCONV_OK && split.split_k == 4,
          "split plan", &err);
    void *ws = ckconv_device_alloc(&gpu, (size_t)split.workspace_bytes, &err);
    ckconv_args b;
    memset(&b, 0, sizeof b);
    b.in = in;
    b.dout = out;
    b.dwei = dwei;
    sim_fail_launches = 1;
    check(ckconv_run(&split, &b, ws, (size_t)split.workspace_bytes, NULL, &err) == CKCONV_ERR_LAUNCH,
          "launch failure of a split", &err);
    check(untouched(dwei, WEI), "launch failure of a split: dwei", NULL);
    check(ckconv_run(&split, &b, ws, (size_t)split.workspace_bytes - 1, NULL, &err) == CKCONV_ERR_WORKSPACE,
          "small workspace", &err);
    ckconv_device_free(&gpu, ws);

    /* alignment: to the element, or refused; to a vector it need not be */
    a.in = (const char *)(const void *)in + 2;
    check(ckconv_run(&plan, &a, NULL, 0, NULL, &err) == CKCONV_ERR_ARGUMENT && strstr(err.text, "args.in"),
          "misaligned pointer", &err);
    check(untouched(out, OUT), "misaligned pointer: out", NULL);
    a.in = in + 1;
    check(ckconv_run(&plan, &a, NULL, 0, NULL, &err) == CKCONV_OK, "pointer aligned to its element", &err);

    /* memory */
    check(!ckconv_device_alloc(&gpu, (size_t)1 << 50, &err) && err.status == CKCONV_ERR_MEMORY, "memory",
          &err);
    check_cleared("memory: last error");

    test_second_launch(&gpu);
    test_large_move(&gpu);
    test_timers(&gpu);
    test_failed_tuning(&gpu, &d, &a);
    test_sticky(&gpu, &d, &a);

    /* an unknown target is planned with cautious facts; what 32-bit indices do not hold is refused */
    check(ckconv_device_named("gfx1399", &other, &err) == CKCONV_OK, "unknown target", &err);
    check(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, &other, &err) == CKCONV_OK, "unknown target", &err);
    d.input[0] = (int64_t)1 << 31;
    check(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, &gpu, &err) == CKCONV_ERR_UNSUPPORTED &&
              strstr(err.text, "2^30"),
          "2^31 positions", &err);

    /* an architecture that the simulator lacks: no GPU, and the CPU is the default */
    sim_device.arch[0] = 0;
    d.input[0] = 600;
    check(ckconv_device_count() == 0, "no GPU", NULL);
    check_cleared("no GPU: last error");
    memset(&o, 0, sizeof o);
    o.engine = CKCONV_ENGINE_GPU;
    check(ckconv_plan_conv(&plan, CKCONV_FWD, &d, &o, NULL, &err) == CKCONV_ERR_NO_DEVICE, "no GPU: plan",
          &err);
    check(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, NULL, &err) == CKCONV_OK &&
              plan.engine == CKCONV_ENGINE_CPU,
          "no GPU: default", &err);
    check(ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, &gpu, &err) == CKCONV_OK, "no GPU: planning", &err);
    a.in = in;
    check(ckconv_run(&plan, &a, NULL, 0, NULL, &err) == CKCONV_ERR_NO_DEVICE, "no GPU: run", &err);

    printf("test_sim_faults: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}
