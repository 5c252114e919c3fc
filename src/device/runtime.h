/*------------------------------------------------------------------------------------------------------------
  >>device-runtime
  Facts, memory and time of the CPU, and of a GPU when a GPU compiler reads this. Only here and in >>k-launch
  is the vendor's runtime called; launches go to the caller's stream. What it hands out (memory, streams,
  timers) is the caller's. A build without a GPU compiler answers each of these calls with a status that says
  so.
*/
#pragma once
#include "plan/select.h"
#include "device/code.h"

#if CKCI_GPU_COMPILER
/* The status of a call of the runtime. Its memory of the last error is cleared: this one is reported here,
   and whoever asks next would blame his own call. */
CKCI_FN ckconv_status ckci_gpu_status(int code, const char *what, ckconv_status bad, ckconv_error *err)
{
    if (code == 0) {
        return CKCONV_OK;
    }
    (void)CKCI_GPU(GetLastError)();
    return ckci_fail(err, bad, "%s: %s", what, CKCI_GPU(GetErrorString)((ckci_gpu_error)code));
}

/* Number of GPUs; 0 without a driver. Any other trouble is an error: a GPU may be there. */
CKCI_FN ckconv_status ckci_count_gpus(const char *what, int *count, ckconv_error *err)
{
    int code = (int)CKCI_GPU(GetDeviceCount)(count);
    if (code == (int)CKCI_GPU(ErrorNoDevice) || code == (int)CKCI_GPU(ErrorInsufficientDriver)) {
        (void)CKCI_GPU(GetLastError)();
        *count = 0;
        return CKCONV_OK;
    }
    return ckci_gpu_status(code, what, CKCONV_ERR_NO_DEVICE, err);
}
#endif

/* Why there is no GPU to compute on. */
CKCI_FN ckconv_status ckci_no_gpu(const char *what, ckconv_error *err)
{
#if CKCI_GPU_COMPILER
    int count = 0;
    CKCI_TRY(ckci_count_gpus(what, &count, err));
    return ckci_fail(err, CKCONV_ERR_NO_DEVICE, "%s: no GPU was found", what);
#else
    return ckci_fail(err, CKCONV_ERR_NO_DEVICE_CODE,
                     "%s: this build holds no GPU code: compile the implementation with hipcc -x hip or nvcc "
                     "-x cu (make: GPU=hip, GPU=cuda)",
                     what);
#endif
}

CKCI_FN ckconv_status ckci_no_device_code(int32_t ordinal, ckconv_error *err)
{
    char what[32];
    snprintf(what, sizeof what, "GPU %d", (int)ordinal);
    return ckci_no_gpu(what, err);
}

/* The current GPU where there is one, else this CPU. A GPU in trouble is an error: the CPU would follow
   pointers of its memory. */
CKCI_FN ckconv_status ckci_default_device(ckconv_device *device, ckconv_error *err)
{
#if CKCI_GPU_COMPILER
    int count = 0, ordinal = 0;
    CKCI_TRY(ckci_count_gpus("default device", &count, err));
    if (count > 0) {
        CKCI_TRY(
            ckci_gpu_status((int)CKCI_GPU(GetDevice)(&ordinal), "current device", CKCONV_ERR_NO_DEVICE, err));
        return ckconv_device_gpu(ordinal, device, err);
    }
#else
    (void)err;
#endif
    ckconv_device_cpu(device);
    return CKCONV_OK;
}

#if defined(_WIN32)
/* As windows.h declares them, which is not read for them: it defines macros with common names. */
union _LARGE_INTEGER;
__declspec(dllimport) int __stdcall QueryPerformanceCounter(union _LARGE_INTEGER *);
__declspec(dllimport) int __stdcall QueryPerformanceFrequency(union _LARGE_INTEGER *);
#endif

/* Seconds from any fixed point; wall time wherever the C library tells it. MinGW's clock_gettime is one of
   its thread library's, which not all of its programs have. */
CKCI_FN double ckci_now(void)
{
#if defined(_WIN32)
    int64_t ticks = 0, each = 1;
    (void)QueryPerformanceCounter((union _LARGE_INTEGER *)(void *)&ticks);
    (void)QueryPerformanceFrequency((union _LARGE_INTEGER *)(void *)&each);
    return (double)ticks / (double)each;
#elif defined(CLOCK_MONOTONIC)
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#elif defined(_OPENMP)
    return omp_get_wtime();
#elif defined(TIME_UTC)
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#else
    return (double)clock() / CLOCKS_PER_SEC;
#endif
}

CKCONV_API void ckconv_device_cpu(ckconv_device *device)
{
    if (!device) {
        return;
    }
    memset(device, 0, sizeof *device);
    device->kind = CKCONV_DEVICE_CPU;
#if defined(__x86_64__) || defined(_M_X64)
    memcpy(device->arch, "x86_64", 7);
#elif defined(__aarch64__)
    memcpy(device->arch, "aarch64", 8);
#else
    memcpy(device->arch, "cpu", 4);
#endif
#ifdef _OPENMP
    device->threads = omp_get_max_threads();
#else
    device->threads = 1;
#endif
    device->features = ckci_cpu_features();
}

/* Typical figures by architecture name; what planning needs, no more. */
CKCONV_API ckconv_status ckconv_device_named(const char *arch, ckconv_device *device, ckconv_error *err)
{
    if (!arch || !device) {
        return ckci_fail(err, CKCONV_ERR_NULL, "%s is NULL", arch ? "device" : "arch");
    }
    memset(device, 0, sizeof *device);
    if (ckci_same_text(arch, "x86_64") || ckci_same_text(arch, "aarch64") || ckci_same_text(arch, "cpu")) {
        device->threads = 1;
        memcpy(device->arch, arch, strlen(arch) + 1);
        return ckci_ok(err);
    }
    const ckci_architecture *row = ckci_find_architecture(arch);
    size_t length = ckci_architecture_length(arch);
    int32_t vendor = row ? row->kind : ckci_architecture_vendor(arch);
    if (vendor == CKCONV_DEVICE_CPU || length >= sizeof device->arch) {
        return ckci_fail(err, CKCONV_ERR_ARGUMENT,
                         "arch is '%.30s': must be gfx..., sm_... (in lower case), x86_64, aarch64 or cpu",
                         arch);
    }
    /* without a row: cautious facts, so that portable kernels can be planned */
    device->kind = vendor;
    memcpy(device->arch, arch, length);
    device->wave_size = row ? row->wave : ckci_architecture_wave(arch);
    device->compute_units = row ? row->units : 32;
    device->lds_bytes = row ? row->lds : vendor == CKCONV_DEVICE_AMD ? 65536 : CKCI_LEAST_LDS;
    return ckci_ok(err);
}

/* Is the current GPU the one that the plan was made for? */
CKCI_FN ckconv_status ckci_check_current(const ckconv_device *device, ckconv_error *err)
{
#if CKCI_GPU_COMPILER
    int ordinal = -1, units = 0, wave = 0;
    ckconv_device now;
    int count = 0;
    const int code = (int)CKCI_GPU(GetDevice)(&ordinal);
    if (code != 0) { /* why */
        CKCI_TRY(ckci_count_gpus("engine gpu", &count, err));
        return count == 0 ? ckci_no_gpu("engine gpu", err)
                          : ckci_gpu_status(code, "current device", CKCONV_ERR_NO_DEVICE, err);
    }
    (void)CKCI_GPU(DeviceGetAttribute)(&units, CKCI_GPU_UNITS, ordinal);
    (void)CKCI_GPU(DeviceGetAttribute)(&wave, CKCI_GPU_WAVE, ordinal);
    if (ordinal != device->ordinal || units != device->compute_units || wave != device->wave_size) {
        (void)ckconv_device_gpu(ordinal, &now, NULL);
        return ckci_fail(
            err, CKCONV_ERR_WRONG_DEVICE,
            "the plan is for GPU %d (%s, %d units, wave %d); current is GPU %d (%s, %d units, wave %d)",
            (int)device->ordinal, device->arch, (int)device->compute_units, (int)device->wave_size, ordinal,
            now.arch, units, wave);
    }
    return CKCONV_OK;
#else
    return ckci_no_device_code(device->ordinal, err);
#endif
}

/* The emitter of ckconv_run. */
typedef struct ckci_stream {
    const ckconv_device *device;
    void *stream;
    int32_t launches; /* so far */
} ckci_stream;

CKCI_FN ckconv_status ckci_launch_on_stream(void *context, const ckci_launch *launch, ckconv_error *err)
{
    ckci_stream *s = (ckci_stream *)context;
    CKCI_TRY(ckci_check_launch(s->device, launch, err));
#if CKCI_GPU_COMPILER
    char what[64];
    const int after = s->launches++ > 0 && ckci_sm(s->device) >= 90;
    snprintf(what, sizeof what, "launch of %s", ckci_kernel_name(launch->kernel));
    return ckci_gpu_status((int)ckci_k_launch(launch, after, (ckci_gpu_stream)s->stream), what,
                           CKCONV_ERR_LAUNCH, err);
#else
    return ckci_no_gpu("launch", err);
#endif
}

#if !CKCI_GPU_COMPILER
CKCONV_API int32_t ckconv_device_count(void)
{
    return 0;
}

CKCONV_API size_t ckconv_device_text(const ckconv_device *device, char *text, size_t size)
{
    return ckci_append(text, text ? size : 0, 0, "%s",
                       device && device->kind != CKCONV_DEVICE_CPU ? "this build holds no GPU code" : "");
}

CKCONV_API ckconv_status ckconv_device_gpu(int32_t ordinal, ckconv_device *device, ckconv_error *err)
{
    if (device) {
        memset(device, 0, sizeof *device);
    }
    return ckci_no_device_code(ordinal, err);
}

/* The helpers' GPU half, for a build that has none. */
#define CKCI_IF_GPU(device, statement)                                                                       \
    if ((device)->kind != CKCONV_DEVICE_CPU) {                                                               \
        return ckci_no_device_code((device)->ordinal, err);                                                  \
    }
#define CKCI_IF_GPU_QUIET(device, statement)                                                                 \
    if ((device)->kind != CKCONV_DEVICE_CPU) {                                                               \
        return;                                                                                              \
    }
#define CKCI_IF_GPU_VALUE(device, statement, value)                                                          \
    if ((device)->kind != CKCONV_DEVICE_CPU) {                                                               \
        return (value);                                                                                      \
    }
#else
/* The same, with the text of a success. */
CKCI_FN ckconv_status ckci_gpu_answer(int code, const char *what, ckconv_status bad, ckconv_error *err)
{
    return code == 0 ? ckci_ok(err) : ckci_gpu_status(code, what, bad, err);
}

CKCONV_API int32_t ckconv_device_count(void)
{
    int count = 0;
    return ckci_count_gpus("", &count, NULL) == CKCONV_OK ? count : 0;
}

CKCONV_API size_t ckconv_device_text(const ckconv_device *device, char *text, size_t size)
{
    ckci_gpu_properties prop;
    int clock = 0, memory = 0, bits = 0, driver = 0, runtime = 0;
    size = text ? size : 0;
    if (!device || device->kind == CKCONV_DEVICE_CPU) {
        return ckci_append(text, size, 0, "%s", "");
    }
    memset(&prop, 0, sizeof prop);
    const int ordinal = device->ordinal, code = (int)CKCI_GPU(GetDeviceProperties)(&prop, ordinal);
    if (code != 0) {
        ckconv_error err;
        (void)ckci_gpu_status(code, "device properties", CKCONV_ERR_NO_DEVICE, &err);
        return ckci_append(text, size, 0, "%s", err.text);
    }
    (void)CKCI_GPU(DeviceGetAttribute)(&clock, CKCI_GPU_CLOCK, ordinal);
    (void)CKCI_GPU(DeviceGetAttribute)(&memory, CKCI_GPU_MEMORY_CLOCK, ordinal);
    (void)CKCI_GPU(DeviceGetAttribute)(&bits, CKCI_GPU_MEMORY_BITS, ordinal);
    (void)CKCI_GPU(DriverGetVersion)(&driver);
    (void)CKCI_GPU(RuntimeGetVersion)(&runtime);
    (void)CKCI_GPU(GetLastError)(); /* of a fact that this runtime does not tell: 0 stands for it */
    const char *target = CKCI_GPU_TARGET(prop)[0] ? CKCI_GPU_TARGET(prop) : device->arch;
    size_t at = ckci_append(text, size, 0, "%.100s, target %.100s", CKCI_GPU_NAME(prop), target);
    at = ckci_append(text, size, at, "; %d MHz, memory of %d MHz and %d bits; driver %d, runtime %d",
                     clock / 1000, memory / 1000, bits, driver, runtime);
    return ckci_append(text, size, at, "; compiled by %s", CKCI_GPU_COMPILED);
}

CKCONV_API ckconv_status ckconv_device_gpu(int32_t ordinal, ckconv_device *device, ckconv_error *err)
{
    ckci_gpu_properties prop;
    int count = 0;
    memset(&prop, 0, sizeof prop);
    if (!device) {
        return ckci_fail(err, CKCONV_ERR_NULL, "device is NULL");
    }
    memset(device, 0, sizeof *device);
    CKCI_TRY(ckci_count_gpus("device", &count, err));
    if (count == 0) {
        return ckci_no_gpu("device", err);
    }
    if (ordinal < 0 || ordinal >= count) {
        return ckci_fail(err, CKCONV_ERR_NO_DEVICE, "ordinal is %d: there %s %d GPU%s", (int)ordinal,
                         count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
    }
    CKCI_TRY(ckci_gpu_status((int)CKCI_GPU(GetDeviceProperties)(&prop, ordinal), "device properties",
                             CKCONV_ERR_NO_DEVICE, err));
    device->ordinal = ordinal;
    device->wave_size = prop.warpSize;
    device->compute_units = prop.multiProcessorCount;
    ckci_gpu_describe(&prop, device);
    if (ckci_matrix_unit(device) == CKCI_UNIT_WGMMA && !ckci_k_all_instructions(ordinal)) {
        device->features = CKCONV_GPU_NO_SM90A;
    }
    return ckci_ok(err);
}

#define CKCI_IF_GPU(device, statement)                                                                       \
    if ((device)->kind != CKCONV_DEVICE_CPU) {                                                               \
        statement;                                                                                           \
    }
#define CKCI_IF_GPU_QUIET(device, statement) CKCI_IF_GPU(device, statement; return )
#define CKCI_IF_GPU_VALUE(device, statement, value) CKCI_IF_GPU(device, return statement)
#endif

CKCI_FN ckconv_status ckci_need_device(const ckconv_device *device, ckconv_error *err)
{
    return device ? CKCONV_OK : ckci_fail(err, CKCONV_ERR_NULL, "device is NULL");
}

CKCONV_API ckconv_status ckconv_device_open(const ckconv_device *device, ckconv_error *err)
{
    CKCI_TRY(ckci_need_device(device, err));
    CKCI_IF_GPU(device, return ckci_gpu_answer((int)CKCI_GPU(SetDevice)(device->ordinal), "open",
                                               CKCONV_ERR_NO_DEVICE, err))
    return ckci_ok(err);
}

#if CKCI_GPU_COMPILER
CKCI_FN void *ckci_gpu_alloc(size_t bytes, ckconv_error *err)
{
    void *memory = NULL;
    ckconv_status s =
        ckci_gpu_answer((int)CKCI_GPU(Malloc)(&memory, bytes ? bytes : 1), "alloc", CKCONV_ERR_MEMORY, err);
    return s == CKCONV_OK ? memory : NULL;
}
#endif

CKCONV_API void *ckconv_device_alloc(const ckconv_device *device, size_t bytes, ckconv_error *err)
{
    if (ckci_need_device(device, err) != CKCONV_OK) {
        return NULL;
    }
    CKCI_IF_GPU_VALUE(device, ckci_gpu_alloc(bytes, err),
                      (ckci_no_device_code(device->ordinal, err), (void *)NULL))
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) {
        ckci_fail(err, CKCONV_ERR_MEMORY, "alloc: no %lld bytes of host memory", CKCI_LL(bytes));
        return NULL;
    }
    ckci_ok(err);
    return memory;
}

CKCONV_API void ckconv_device_free(const ckconv_device *device, void *memory)
{
    if (!device || !memory) {
        return;
    }
    CKCI_IF_GPU_QUIET(device, (void)CKCI_GPU(Free)(memory))
    free(memory);
}

CKCONV_API ckconv_status ckconv_device_upload(const ckconv_device *device, void *dst, const void *src,
                                              size_t bytes, ckconv_error *err)
{
    CKCI_TRY(ckci_need_device(device, err));
    if (bytes && (!dst || !src)) {
        return ckci_fail(err, CKCONV_ERR_NULL, "upload: %s is NULL", dst ? "src" : "dst");
    }
    CKCI_IF_GPU(device,
                return ckci_gpu_answer((int)CKCI_GPU(Memcpy)(dst, src, bytes, CKCI_GPU(MemcpyHostToDevice)),
                                       "upload", CKCONV_ERR_LAUNCH, err))
    if (bytes) {
        memcpy(dst, src, bytes);
    }
    return ckci_ok(err);
}

CKCONV_API ckconv_status ckconv_device_download(const ckconv_device *device, void *dst, const void *src,
                                                size_t bytes, ckconv_error *err)
{
    CKCI_TRY(ckci_need_device(device, err));
    if (bytes && (!dst || !src)) {
        return ckci_fail(err, CKCONV_ERR_NULL, "download: %s is NULL", dst ? "src" : "dst");
    }
    CKCI_IF_GPU(device,
                return ckci_gpu_answer((int)CKCI_GPU(Memcpy)(dst, src, bytes, CKCI_GPU(MemcpyDeviceToHost)),
                                       "download", CKCONV_ERR_LAUNCH, err))
    if (bytes) {
        memcpy(dst, src, bytes);
    }
    return ckci_ok(err);
}

CKCONV_API ckconv_status ckconv_device_fill(const ckconv_device *device, void *dst, int byte, size_t bytes,
                                            ckconv_error *err)
{
    CKCI_TRY(ckci_need_device(device, err));
    if (bytes && !dst) {
        return ckci_fail(err, CKCONV_ERR_NULL, "fill: dst is NULL");
    }
    CKCI_IF_GPU(device, return ckci_gpu_answer((int)CKCI_GPU(Memset)(dst, byte, bytes), "fill",
                                               CKCONV_ERR_LAUNCH, err))
    if (bytes) {
        memset(dst, byte, bytes);
    }
    return ckci_ok(err);
}

CKCONV_API ckconv_status ckconv_device_synchronise(const ckconv_device *device, ckconv_error *err)
{
    CKCI_TRY(ckci_need_device(device, err));
    CKCI_IF_GPU(device, return ckci_gpu_answer((int)CKCI_GPU(DeviceSynchronize)(), "synchronise",
                                               CKCONV_ERR_LAUNCH, err))
    return ckci_ok(err);
}

#if CKCI_GPU_COMPILER
CKCI_FN ckconv_status ckci_gpu_timer(ckconv_timer *timer, ckconv_error *err)
{
    ckci_gpu_event from = NULL, to = NULL;
    CKCI_TRY(ckci_gpu_status((int)CKCI_GPU(EventCreate)(&from), "timer", CKCONV_ERR_LAUNCH, err));
    int code = (int)CKCI_GPU(EventCreate)(&to);
    if (code != 0) {
        (void)CKCI_GPU(EventDestroy)(from);
        return ckci_gpu_status(code, "timer", CKCONV_ERR_LAUNCH, err);
    }
    timer->from = (void *)from;
    timer->to = (void *)to;
    return ckci_ok(err);
}

/* 0, or -1 when the event could not be recorded. */
CKCI_FN double ckci_gpu_record(void *event, void *stream)
{
    if (!event) {
        return -1;
    }
    int code = (int)CKCI_GPU(EventRecord)((ckci_gpu_event)event, (ckci_gpu_stream)stream);
    return ckci_gpu_status(code, "timer", CKCONV_ERR_LAUNCH, NULL) == CKCONV_OK ? 0 : -1;
}

CKCI_FN double ckci_gpu_seconds(const ckconv_timer *timer)
{
    float ms = 0;
    if (!timer->from || timer->cpu_from < 0 || timer->cpu_to < 0) {
        return -1;
    }
    int code = (int)CKCI_GPU(EventSynchronize)((ckci_gpu_event)timer->to);
    if (code == 0) {
        code = (int)CKCI_GPU(EventElapsedTime)(&ms, (ckci_gpu_event)timer->from, (ckci_gpu_event)timer->to);
    }
    return ckci_gpu_status(code, "timer", CKCONV_ERR_LAUNCH, NULL) == CKCONV_OK ? (double)ms * 1e-3 : -1;
}

CKCI_FN void ckci_gpu_timer_end(const ckconv_timer *timer)
{
    if (timer->from) {
        (void)CKCI_GPU(EventDestroy)((ckci_gpu_event)timer->from);
        (void)CKCI_GPU(EventDestroy)((ckci_gpu_event)timer->to);
    }
}
#endif

CKCONV_API ckconv_status ckconv_timer_create(const ckconv_device *device, ckconv_timer *timer,
                                             ckconv_error *err)
{
    if (!timer) {
        return ckci_fail(err, CKCONV_ERR_NULL, "timer is NULL");
    }
    memset(timer, 0, sizeof *timer);
    CKCI_TRY(ckci_need_device(device, err));
    CKCI_IF_GPU(device, return ckci_gpu_timer(timer, err))
    return ckci_ok(err);
}

CKCONV_API void ckconv_timer_start(const ckconv_device *device, ckconv_timer *timer, void *stream)
{
    (void)stream;
    if (!device || !timer) {
        return;
    }
    CKCI_IF_GPU_QUIET(device, timer->cpu_from = ckci_gpu_record(timer->from, stream))
    timer->cpu_from = ckci_now();
}

CKCONV_API void ckconv_timer_stop(const ckconv_device *device, ckconv_timer *timer, void *stream)
{
    (void)stream;
    if (!device || !timer) {
        return;
    }
    CKCI_IF_GPU_QUIET(device, timer->cpu_to = ckci_gpu_record(timer->to, stream))
    timer->cpu_to = ckci_now();
}

CKCONV_API double ckconv_timer_seconds(const ckconv_device *device, ckconv_timer *timer)
{
    if (!device || !timer) {
        return -1;
    }
    CKCI_IF_GPU_VALUE(device, ckci_gpu_seconds(timer), -1.0)
    return timer->cpu_to - timer->cpu_from;
}

CKCONV_API void ckconv_timer_destroy(const ckconv_device *device, ckconv_timer *timer)
{
    if (!device || !timer) {
        return;
    }
    CKCI_IF_GPU_QUIET(device, ckci_gpu_timer_end(timer); memset(timer, 0, sizeof *timer))
    memset(timer, 0, sizeof *timer);
}
#undef CKCI_IF_GPU
#undef CKCI_IF_GPU_QUIET
#undef CKCI_IF_GPU_VALUE
