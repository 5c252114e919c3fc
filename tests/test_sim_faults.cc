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

    /* a target that nobody knows is planned with cautious facts; what 32-bit indices do not hold is refused */
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
