/* test_device - the device helpers (facts, memory, copies, timers), on the CPU and on every GPU in reach
   SPDX-License-Identifier: MIT */
#include "test.h"

static void test_memory(const ckconv_device *device)
{
    enum { COUNT = 5000 };
    static unsigned char up[COUNT], down[COUNT];
    ckconv_error err;
    for (int i = 0; i < COUNT; i++) {
        up[i] = (unsigned char)(i * 7 + 3);
    }
    CHECK(ckconv_device_open(device, &err) == CKCONV_OK);
    unsigned char *memory = (unsigned char *)ckconv_device_alloc(device, COUNT, &err);
    CHECK(memory != NULL && err.status == CKCONV_OK && err.text[0] == 0);
    if (!memory) {
        return;
    }
    CHECK(ckconv_device_upload(device, memory, up, COUNT, &err) == CKCONV_OK);
    CHECK(ckconv_device_fill(device, memory + 100, 0xab, 50, &err) == CKCONV_OK);
    CHECK(ckconv_device_synchronise(device, &err) == CKCONV_OK);
    CHECK(ckconv_device_download(device, down, memory, COUNT, &err) == CKCONV_OK);
    int wrong = 0;
    for (int i = 0; i < COUNT; i++) {
        wrong += down[i] != (i >= 100 && i < 150 ? 0xab : up[i]);
    }
    CHECK(wrong == 0);
    CHECK(ckconv_device_upload(device, NULL, up, 4, &err) == CKCONV_ERR_NULL && err.text[0] != 0);
    CHECK(ckconv_device_upload(device, memory, up, 0, &err) == CKCONV_OK);
    ckconv_device_free(device, memory);
    ckconv_device_free(device, NULL);
}

static void test_timer(const ckconv_device *device)
{
    ckconv_timer timer;
    ckconv_error err;
    CHECK(ckconv_timer_create(device, &timer, &err) == CKCONV_OK);
    ckconv_timer_start(device, &timer, NULL);
    ckconv_timer_stop(device, &timer, NULL);
    double seconds = ckconv_timer_seconds(device, &timer);
    CHECK(seconds >= 0 && seconds < 10);
    ckconv_timer_destroy(device, &timer);
}

static void test_refusals(void)
{
    ckconv_device device;
    ckconv_error err;
    int32_t gpus = ckconv_device_count();
    CHECK(gpus >= 0);
    CHECK(ckconv_device_gpu(gpus + 1, &device, &err) != CKCONV_OK && err.text[0] != 0);
    CHECK(ckconv_device_open(NULL, &err) == CKCONV_ERR_NULL);
    CHECK(ckconv_device_alloc(NULL, 4, &err) == NULL && err.status == CKCONV_ERR_NULL);
    /* more memory than there can be: a status, not a crash (sanitizers stop the program themselves) */
    ckconv_device_cpu(&device);
    if (!TEST_ASAN) {
        CHECK(ckconv_device_alloc(&device, (size_t)-1 / 2, &err) == NULL && err.status == CKCONV_ERR_MEMORY);
    }
    if (gpus == 0) {
        CHECK(ckconv_device_named("sm_90", &device, &err) == CKCONV_OK);
        CHECK(ckconv_device_open(&device, &err) != CKCONV_OK && err.text[0] != 0);
        CHECK(ckconv_device_alloc(&device, 4, &err) == NULL && err.text[0] != 0);
    }
}

int main(void)
{
    ckconv_device device;
    ckconv_error err;
    test_begin("test_device");
    ckconv_device_cpu(&device);
    CHECK(device.kind == CKCONV_DEVICE_CPU && device.threads >= 1 && device.arch[0] != 0);
    test_memory(&device);
    test_timer(&device);
    test_refusals();
    int32_t gpus = ckconv_device_count();
    for (int32_t i = 0; i < gpus; i++) {
        CHECK(ckconv_device_gpu(i, &device, &err) == CKCONV_OK);
        printf("GPU %d: %s, wave size %d, %d compute units, %d bytes of LDS\n", (int)i, device.arch,
               (int)device.wave_size, (int)device.compute_units, (int)device.lds_bytes);
        CHECK(device.kind != CKCONV_DEVICE_CPU && device.compute_units > 0 && device.lds_bytes >= 16384);
        CHECK(device.wave_size == 32 || device.wave_size == 64);
        test_memory(&device);
        test_timer(&device);
        CHECK(ckconv_device_alloc(&device, (size_t)1 << 50, &err) == NULL && err.status == CKCONV_ERR_MEMORY);
    }
    if (gpus == 0) {
        printf("skipped: GPU helpers (no GPU in reach of this build)\n");
    }
    return test_end();
}
