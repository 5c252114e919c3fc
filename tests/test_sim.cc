/* test_sim.cc - the simulator of sim.h itself: that it runs what is right, and refuses what is wrong
   SPDX-License-Identifier: MIT

   Of ckconv.h it uses the table of architectures alone. The simulator reads its environment once, so each
   target and order of threads is tested in a child process of its own; kernels that must not be survived run
   in a child of that child. */
#define CKCONV_STATIC
#define CKCONV_IMPLEMENTATION
#include "ckconv.h"
#include "sim.h"

#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

/* Where the hook for failing launches lies, and what kernels.hip.h may define instead of the simulator. */
#ifndef SIM_FAIL_LAUNCHES
#define SIM_FAIL_LAUNCHES sim_fail_launches
#endif
#ifndef CKCI_K_LDS
#define CKCI_K_LDS(T, name) T &name = *(T *)sim_lds(sizeof(T))
#endif

static struct {
    long passed, failed;
    char where[64]; /* target and order */
} test;

#define CHECK(good) check((good), __LINE__, #good)

static void check(bool good, int line, const char *text)
{
    if (good) {
        test.passed++;
        return;
    }
    test.failed++;
    if (test.failed <= 20) {
        printf("FAIL test_sim.cc:%d: %s%s\n", line, text, test.where);
    }
}

/*------------------------------------------------------------------------------------------------------------
  children
*/

/* Runs the function in a child where the simulator was not used yet, and adds what it has checked. */
static void with(const char *target, const char *order, void (*run)())
{
    int ends[2];
    fflush(stdout);
    if (pipe(ends) != 0) {
        check(false, __LINE__, "pipe");
        return;
    }
    const pid_t child = fork();
    if (child == 0) {
        setenv("CKCONV_SIM_TARGET", target, 1);
        setenv("CKCONV_SIM_ORDER", order, 1);
        memset(&test, 0, sizeof test);
        snprintf(test.where, sizeof test.where, " (%s %s)", target, order);
        run();
        fflush(stdout);
        const long counts[2] = {test.passed, test.failed};
        _exit(write(ends[1], counts, sizeof counts) == (ssize_t)sizeof counts ? 0 : 3);
    }
    close(ends[1]);
    long counts[2] = {0, 0};
    int status = -1;
    const bool told = read(ends[0], counts, sizeof counts) == (ssize_t)sizeof counts;
    close(ends[0]);
    waitpid(child, &status, 0);
    if (!told || status != 0) {
        printf("FAIL a child (%s %s) ended with status %d\n", target, order, status);
        test.failed++;
    }
    test.passed += counts[0];
    test.failed += counts[1];
}

/* What a child wrote to stderr, and how it ended. */
struct death {
    int status, lines;
    char text[4096];
};

static death in_child(void (*run)())
{
    death d;
    memset(&d, 0, sizeof d);
    fflush(stdout);
    FILE *file = tmpfile();
    if (file == NULL) {
        d.status = -1;
        return d;
    }
    const pid_t child = fork();
    if (child == 0) {
        dup2(fileno(file), 2);
        run();
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, &d.status, 0);
    rewind(file);
    d.text[fread(d.text, 1, sizeof d.text - 1, file)] = 0;
    fclose(file);
    for (const char *p = d.text; *p != 0; p++) {
        d.lines += *p == '\n';
    }
    return d;
}

/* The simulator must abort with one line that holds the word. */
static void check_abort(void (*run)(), const char *word, int line)
{
    const death d = in_child(run);
    const bool good = WIFSIGNALED(d.status) && WTERMSIG(d.status) == SIGABRT && d.lines == 1 &&
                      strstr(d.text, word) != NULL;
    check(good, line, good ? "" : word);
    if (!good) {
        printf("  # status %d, %d lines: %s\n", d.status, d.lines, d.text);
    }
}
#define CHECK_ABORT(run, word) check_abort((run), (word), __LINE__)

/*------------------------------------------------------------------------------------------------------------
  memory of the device
*/
template <class T> struct memory {
    T *data;

    explicit memory(size_t count)
    {
        void *p = NULL;
        CHECK(simMalloc(&p, count * sizeof(T)) == simSuccess);
        data = (T *)p;
    }
    memory(const memory &) = delete;
    memory &operator=(const memory &) = delete;
    ~memory()
    {
        simFree(data);
    }
    T operator[](int64_t i) const
    {
        return data[i];
    }
};

/* Word by word, for kernels that leave uint32_t or anything of that size. */
static bool all_are(const uint32_t *p, size_t count, uint32_t value)
{
    for (size_t i = 0; i < count; i++) {
        if (p[i] != value) {
            return false;
        }
    }
    return true;
}

/*------------------------------------------------------------------------------------------------------------
  devices, memory, events
*/
static void test_device()
{
    static const struct {
        const char *name;
        int kind, wave, units;
        size_t lds;
    } table[] = {{"gfx90a", 1, 64, 104, 65536}, {"gfx942", 1, 64, 304, 65536}, {"gfx950", 1, 64, 256, 163840},
                 {"gfx1030", 1, 32, 80, 65536}, {"gfx1100", 1, 32, 96, 65536}, {"gfx1201", 1, 32, 64, 65536},
                 {"sm_80", 2, 32, 108, 166912}, {"sm_90", 2, 32, 132, 232448},
                 {"sm_103", 2, 32, 148, 232448}, {"sm_120", 2, 32, 170, 101376}};
    const char *target = getenv("CKCONV_SIM_TARGET");
    if (target[0] == 0) {
        target = "gfx942";
    }
    int count = -1, ordinal = -1, found = 0;
    simDeviceProp_t prop;
    CHECK(simGetDeviceCount(&count) == simSuccess && count == 2);
    for (int i = 0; i < 2; i++) {
        memset(&prop, 0, sizeof prop);
        CHECK(simGetDeviceProperties(&prop, i) == simSuccess);
        CHECK(strcmp(prop.arch, target) == 0);
        for (const auto &row : table) {
            if (strcmp(row.name, target) == 0) {
                found++;
                CHECK(prop.kind == row.kind && prop.warpSize == row.wave);
                CHECK(prop.multiProcessorCount == row.units && prop.sharedMemPerBlock == row.lds);
                CHECK(sim_wave_size() == row.wave);
                CHECK(row.kind == 1 || prop.major * 10 + prop.minor == atoi(target + 3));
            }
        }
    }
    CHECK(found == 2);
    CHECK(simGetDeviceProperties(&prop, 2) != simSuccess && simGetDeviceProperties(&prop, -1) != simSuccess);
    CHECK(simGetDevice(&ordinal) == simSuccess && ordinal == 0);
    CHECK(simSetDevice(1) == simSuccess && simGetDevice(&ordinal) == simSuccess && ordinal == 1);
    CHECK(simSetDevice(2) != simSuccess && simSetDevice(-1) != simSuccess);
    CHECK(simGetDevice(&ordinal) == simSuccess && ordinal == 1);
    CHECK(simDeviceSynchronize() == simSuccess);
}

static void test_no_device()
{
    int count = -1;
    simDeviceProp_t prop;
    CHECK(simGetDeviceCount(&count) == simErrorNoDevice && count == 0);
    CHECK(simGetLastError() == simErrorNoDevice && simGetLastError() == simSuccess);
    CHECK(simGetDeviceProperties(&prop, 0) != simSuccess);
}

/* A name that does not exist ends the program: a test would pass on the CPU otherwise. */
static void test_wrong_name()
{
    const death d = in_child([] { sim_configure("gfx9999", ""); });
    CHECK(WIFEXITED(d.status) && WEXITSTATUS(d.status) == 2 && d.lines == 1);
    CHECK(strstr(d.text, "gfx9999") != NULL && strstr(d.text, "gfx90a") != NULL &&
          strstr(d.text, "none") != NULL);
}

static void test_memory()
{
    for (size_t bytes = 1; bytes < 3000; bytes += 97) {
        std::vector<unsigned char> from(bytes), back(bytes);
        memory<unsigned char> p(bytes);
        CHECK((uintptr_t)p.data % 256 == 0);
        bool poisoned = true;
        for (size_t i = 0; i < bytes; i++) {
            poisoned = poisoned && p.data[i] == 0x7f;
            from[i] = (unsigned char)(i * 7);
        }
        CHECK(poisoned);
        CHECK(simMemcpy(p.data, from.data(), bytes, simMemcpyHostToDevice) == simSuccess);
        CHECK(simMemcpy(back.data(), p.data, bytes, simMemcpyDeviceToHost) == simSuccess && back == from);
        CHECK(simMemset(p.data, 0x5a, bytes) == simSuccess && p.data[0] == 0x5a && p.data[bytes - 1] == 0x5a);
    }
    void *p = &p;
    CHECK(simMalloc(&p, (size_t)1 << 60) == simErrorMemoryAllocation && p == NULL);
    CHECK(simFree(NULL) == simSuccess);
    CHECK(strcmp(simGetErrorString(simErrorMemoryAllocation), simGetErrorString(simSuccess)) != 0);

    simEvent_t a = NULL, b = NULL;
    float ms = -1;
    CHECK(simEventCreate(&a) == simSuccess && simEventCreate(&b) == simSuccess);
    CHECK(simEventRecord(a, NULL) == simSuccess);
    usleep(2000);
    CHECK(simEventRecord(b, NULL) == simSuccess && simEventSynchronize(b) == simSuccess);
    CHECK(simEventElapsedTime(&ms, a, b) == simSuccess && ms > 1.9f && ms < 1e4f);
    CHECK(simEventDestroy(a) == simSuccess && simEventDestroy(b) == simSuccess);
}

/*------------------------------------------------------------------------------------------------------------
  launches, barriers, LDS
*/
struct out_args {
    uint32_t *out;
    int n; /* what the kernel makes of it */
};

__global__ static void __launch_bounds__(1024) index_kernel(out_args a)
{
    const bool flat = threadIdx.y == 0 && threadIdx.z == 0 && blockIdx.y == 0 && blockIdx.z == 0 &&
                      blockDim.y == 1 && blockDim.z == 1 && gridDim.y == 1 && gridDim.z == 1;
    const uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
    a.out[at] = flat && gridDim.x == (uint32_t)a.n ? at * 3 : 0;
}

static void test_index()
{
    for (int32_t block = 1; block <= 1024; block += block % 64 == 1 ? 62 : 1) {
        const int grid = 3;
        const size_t total = (size_t)(grid * block);
        memory<uint32_t> out(total);
        const out_args a = {out.data, grid};
        CHECK(sim_launch(index_kernel, a, grid, block, NULL) == simSuccess);
        bool good = true;
        for (size_t i = 0; i < total; i++) {
            good = good && out.data[i] == i * 3;
        }
        CHECK(good);
    }
}

static void test_launch()
{
    memory<uint32_t> out(64);
    const out_args a = {out.data, 1};
    CHECK(sim_launch(index_kernel, a, 0, 64, NULL) == simErrorInvalidConfiguration);
    CHECK(sim_launch(index_kernel, a, -1, 64, NULL) == simErrorInvalidConfiguration);
    CHECK(sim_launch(index_kernel, a, 1, 0, NULL) == simErrorInvalidConfiguration);
    CHECK(sim_launch(index_kernel, a, 1, -1, NULL) == simErrorInvalidConfiguration);
    CHECK(sim_launch(index_kernel, a, 1, 1025, NULL) == simErrorInvalidConfiguration);
    SIM_FAIL_LAUNCHES = 2;
    CHECK(sim_launch(index_kernel, a, 1, 64, NULL) == simErrorLaunchFailure);
    CHECK(sim_launch(index_kernel, a, 1, 64, NULL) == simErrorLaunchFailure);
    CHECK(all_are(out.data, 64, 0x7f7f7f7f));
    CHECK(sim_launch(index_kernel, a, 1, 64, NULL) == simSuccess && SIM_FAIL_LAUNCHES == 0);
    CHECK(out[63] == 63 * 3);
}

/* Row and column change places through LDS; a.n times, so that every thread also waits between the times. */
struct transpose_lds {
    uint32_t tile[1024];
};

__global__ static void transpose_kernel(out_args a)
{
    CKCI_K_LDS(transpose_lds, m);
    const uint32_t n = blockDim.x, i = threadIdx.x;
    uint32_t value = blockIdx.x * 1000 + i;
    for (int t = 0; t < a.n; t++) {
        m.tile[i] = value;
        __syncthreads();
        value = m.tile[n - 1 - i] + 1;
        __syncthreads();
    }
    a.out[blockIdx.x * n + i] = value;
}

static void test_barrier()
{
    for (int32_t block = 1; block <= 1024; block++) {
        const uint32_t times = block % 100 == 0 ? 20 : 1, n = (uint32_t)block;
        memory<uint32_t> out((size_t)n * 2);
        const out_args a = {out.data, (int)times};
        bool good = sim_launch(transpose_kernel, a, 2, block, NULL) == simSuccess;
        for (uint32_t i = 0; i < 2 * n; i++) {
            const uint32_t from = times % 2 != 0 ? n - 1 - i % n : i % n;
            good = good && out.data[i] == i / n * 1000 + from + times;
        }
        CHECK(good);
    }
}

/* Tells what LDS holds before it is written, then writes it. */
__global__ static void poison_kernel(out_args a)
{
    CKCI_K_LDS(transpose_lds, m);
    a.out[blockIdx.x * blockDim.x + threadIdx.x] = m.tile[threadIdx.x];
    m.tile[threadIdx.x] = 1;
}

/* The same with LDS of another size. */
struct big_lds {
    uint32_t tile[1024], more[1024];
};

__global__ static void poison_big_kernel(out_args a)
{
    CKCI_K_LDS(big_lds, m);
    a.out[blockIdx.x * blockDim.x + threadIdx.x] = m.more[threadIdx.x];
    m.more[threadIdx.x] = 1;
}

static void test_poison()
{
    for (int i = 0; i < 3; i++) {
        memory<uint32_t> out(5 * 256);
        const out_args a = {out.data, 0};
        CHECK(sim_launch(i == 1 ? poison_big_kernel : poison_kernel, a, 5, 256, NULL) == simSuccess);
        CHECK(all_are(out.data, 5 * 256, 0xffffffffu));
    }
}

/* The neighbour's value, with a barrier between or without. */
__global__ static void neighbour_kernel(out_args a)
{
    CKCI_K_LDS(transpose_lds, m);
    const uint32_t n = blockDim.x, i = threadIdx.x;
    m.tile[i] = i;
    if (a.n != 0) {
        __syncthreads();
    }
    a.out[i] = m.tile[(i + 1) % n];
}

static void test_missing_barrier()
{
    const char *order = getenv("CKCONV_SIM_ORDER");
    const uint32_t n = 128;
    uint32_t wrong = 0;
    for (int with_barrier = 1; with_barrier >= 0; with_barrier--) {
        memory<uint32_t> out(n);
        const out_args a = {out.data, with_barrier};
        CHECK(sim_launch(neighbour_kernel, a, 1, (int32_t)n, NULL) == simSuccess);
        wrong = 0;
        for (uint32_t i = 0; i < n; i++) {
            wrong += out.data[i] != (i + 1) % n;
        }
        CHECK(with_barrier == 0 || wrong == 0);
        CHECK(with_barrier == 1 || wrong > 0);
    }
    /* forward: all but the last thread are too early; reverse: only the last one is */
    if (strcmp(order, "reverse") == 0) {
        CHECK(wrong == 1);
    } else if (strcmp(order, "random") == 0) {
        CHECK(wrong > 1 && wrong < n - 1);
    } else {
        CHECK(wrong == n - 1);
    }
}

/* Clusters of a.n blocks, each with LDS of its own, which leave numbers for the next one in memory. */
__global__ static void cluster_kernel(out_args a)
{
    CKCI_K_LDS(transpose_lds, m);
    const uint32_t n = blockDim.x, i = threadIdx.x, blocks = (uint32_t)a.n;
    const uint32_t next = blockIdx.x - blockIdx.x % blocks + (blockIdx.x + 1) % blocks;
    m.tile[i] = blockIdx.x * 1000 + i;
    __syncthreads();
    a.out[blockIdx.x * n + i] = m.tile[n - 1 - i];
    sim_cluster_barrier();
    const uint32_t value = a.out[next * n + i];
    sim_cluster_barrier();
    a.out[blockIdx.x * n + i] = value * 2 + m.tile[i];
}

static void test_cluster()
{
    const uint32_t n = 96;
    for (uint32_t blocks = 1; blocks <= 8; blocks *= 2) {
        memory<uint32_t> out(16 * n);
        const out_args a = {out.data, (int)blocks};
        const bool may = blocks == 1 || strcmp(sim_device.arch, "sm_90") == 0;
        bool good = true;
        CHECK((sim_launch_named("", cluster_kernel, a, 16, (int32_t)n, (int32_t)blocks, NULL) ==
               simSuccess) == may);
        for (uint32_t i = 0; i < 16 * n && may; i++) {
            const uint32_t block = i / n, next = block - block % blocks + (block + 1) % blocks;
            good = good && out.data[i] == (next * 1000 + n - 1 - i % n) * 2 + block * 1000 + i % n;
        }
        CHECK(good);
        CHECK(sim_launch_named("", cluster_kernel, a, 15, (int32_t)n, 2, NULL) != simSuccess);
    }
}

/* Tells in which order the threads come between barriers. */
__global__ static void order_kernel(out_args a)
{
    CKCI_K_LDS(transpose_lds, m);
    const uint32_t i = threadIdx.x;
    for (int t = 0; t < a.n; t++) {
        m.tile[i] = 0;
        __syncthreads();
        const uint32_t place = sim_atomic_add(&a.out[(a.n + t) * 64], 1u);
        a.out[t * 64 + (int)place] = i;
        __syncthreads();
    }
}

static void test_order()
{
    const char *order = getenv("CKCONV_SIM_ORDER");
    const int times = 4;
    memory<uint32_t> out(2 * times * 64);
    simMemset(out.data, 0, 2 * times * 64 * sizeof(uint32_t));
    const out_args a = {out.data, times};
    CHECK(sim_launch(order_kernel, a, 1, 64, NULL) == simSuccess);
    for (int t = 0; t < times; t++) {
        const uint32_t *row = out.data + t * 64;
        int forward = 0, reverse = 0, same = 0;
        uint64_t seen = 0;
        for (uint32_t i = 0; i < 64; i++) {
            forward += row[i] == i;
            reverse += row[i] == 63 - i;
            same += t > 0 && row[i] == row[(int)i - 64];
            seen |= (uint64_t)1 << row[i];
        }
        CHECK(seen == UINT64_MAX);
        if (strcmp(order, "reverse") == 0) {
            CHECK(reverse == 64);
        } else if (strcmp(order, "random") == 0) {
            CHECK(forward < 32 && reverse < 32 && same < 32);
        } else {
            CHECK(forward == 64);
        }
    }
}

/* Values that live in registers and on the stack while others run. */
__global__ static void stack_kernel(out_args a)
{
    enum { WORDS = 8192 - 1024 }; /* 28 KiB */
    volatile uint32_t local[WORDS];
    const uint32_t i = threadIdx.x;
    double x0 = i, x1 = i + 1, x2 = i + 2, x3 = i + 3, x4 = i + 4, x5 = i + 5;
    uint32_t u0 = i, u1 = i * 3, u2 = i * 5, u3 = i * 7, u4 = i * 11, u5 = i * 13;
    for (uint32_t w = 0; w < WORDS; w += 512) {
        local[w] = i + w;
    }
    for (int t = 0; t < a.n; t++) {
        __syncthreads();
        x0 += x1, x1 += x2, x2 += x3, x3 += x4, x4 += x5, x5 += 1;
        u0 += u1, u1 += u2, u2 += u3, u3 += u4, u4 += u5, u5 += 1;
    }
    uint32_t sum = 0;
    for (uint32_t w = 0; w < WORDS; w += 512) {
        sum += local[w] - w - i;
    }
    a.out[i] = (uint32_t)(int64_t)(x0 + x1 + x2 + x3 + x4 + x5) + u0 + u1 + u2 + u3 + u4 + u5 + sum;
}

static void test_stack()
{
    memory<uint32_t> out(1024);
    const out_args a = {out.data, 5};
    CHECK(sim_launch(stack_kernel, a, 1, 1024, NULL) == simSuccess);
    bool good = true;
    for (uint32_t i = 0; i < 1024; i++) {
        uint64_t x[6] = {i, i + 1, i + 2, i + 3, i + 4, i + 5};
        uint64_t u[6] = {i, i * 3, i * 5, i * 7, i * 11, i * 13}, sum = 0;
        for (int t = 0; t < a.n; t++) {
            for (int j = 0; j < 6; j++) {
                x[j] += j < 5 ? x[j + 1] : 1;
                u[j] += j < 5 ? u[j + 1] : 1;
            }
        }
        for (int j = 0; j < 6; j++) {
            sum += x[j] + u[j];
        }
        good = good && out.data[i] == (uint32_t)sum;
    }
    CHECK(good);
}

/*------------------------------------------------------------------------------------------------------------
  wave operations, atomics
*/
template <class T> struct wave_args {
    T *out;
    int operation, operand;
};

/* operation 0: xor, 1: down, 2: a lane */
template <class T> __global__ static void shuffle_kernel(wave_args<T> a)
{
    const T own = (T)(threadIdx.x + 1000) * (T)3;
    T got;
    if (a.operation == 0) {
        got = sim_shuffle_xor(own, a.operand);
    } else if (a.operation == 1) {
        got = sim_shuffle_down(own, a.operand);
    } else {
        got = sim_shuffle(own, a.operand);
    }
    a.out[threadIdx.x] = got;
}

template <class T> static void test_shuffle_type()
{
    const int wave = sim_wave_size();
    static const int32_t blocks[] = {1, 7, 32, 40, 64, 100, 256, 1024};
    for (const int32_t block : blocks) {
        for (int operation = 0; operation < 3; operation++) {
            for (int operand = 0; operand <= wave; operand = operand < 4 ? operand + 1 : operand * 2) {
                memory<T> out((size_t)block);
                const wave_args<T> a = {out.data, operation, operand};
                bool good = sim_launch(shuffle_kernel<T>, a, 1, block, NULL) == simSuccess;
                for (int i = 0; i < block; i++) {
                    const int lane = i % wave;
                    const int from =
                        (operation == 0 ? lane ^ operand : operand) + (operation == 1 ? lane : 0);
                    const bool there = from < wave && i - lane + from < block;
                    const int expect = there ? i - lane + from : i;
                    good = good && out[i] == (T)(expect + 1000) * (T)3;
                }
                CHECK(good);
            }
        }
    }
}

/* Sums over waves, often and without a barrier between; wave w does it a.n + w times, with LDS at the end. */
struct sum_lds {
    uint32_t wave[32];
};

__global__ static void sum_kernel(out_args a)
{
    CKCI_K_LDS(sum_lds, m);
    const int wave = sim_wave_size(), me = (int)threadIdx.x;
    uint32_t total = 0;
    for (int t = 0; t < a.n + me / wave; t++) {
        uint32_t x = threadIdx.x + (uint32_t)t;
        for (int mask = wave / 2; mask > 0; mask /= 2) {
            x += sim_shuffle_xor(x, mask);
        }
        total += x;
    }
    if (me % wave == 0) {
        m.wave[me / wave] = total;
    }
    __syncthreads();
    total = 0;
    for (int w = 0; w < (int)blockDim.x / wave; w++) {
        total += m.wave[w];
    }
    a.out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}

static void test_sum()
{
    const uint32_t wave = (uint32_t)sim_wave_size();
    for (uint32_t block = wave; block <= 1024; block += 3 * wave) {
        memory<uint32_t> out(block * 2);
        const out_args a = {out.data, 5};
        CHECK(sim_launch(sum_kernel, a, 2, (int32_t)block, NULL) == simSuccess);
        uint32_t expect = 0;
        for (uint32_t i = 0; i < block; i++) {
            for (uint32_t t = 0; t < 5 + i / wave; t++) {
                expect += i + t;
            }
        }
        CHECK(all_are(out.data, block * 2, expect));
    }
}

/* Lanes whose number is odd return at once or after the first shuffle; the others go on without them. */
__global__ static void leave_kernel(out_args a)
{
    const uint32_t i = threadIdx.x;
    uint32_t first = 0;
    if (a.n == 0 && i % 2 != 0) {
        return;
    }
    if (a.n != 0) {
        first = sim_shuffle_xor(i, 1);
        if (i % 2 != 0) {
            return;
        }
    }
    const uint32_t next = sim_shuffle_xor(i + 100, 1), other = sim_shuffle_xor(i + 100, 2);
    a.out[i * 4] = first;
    a.out[i * 4 + 1] = next;
    a.out[i * 4 + 2] = other;
    a.out[i * 4 + 3] = sim_ballot(i % 4 == 0) == (sim_wave_size() == 64 ? 0x1111111111111111u : 0x11111111u);
}

static void test_leave()
{
    for (int later = 0; later < 2; later++) {
        memory<uint32_t> out(256 * 4);
        const out_args a = {out.data, later};
        CHECK(sim_launch(leave_kernel, a, 1, 256, NULL) == simSuccess);
        bool shuffle = true, ballot = true;
        for (uint32_t i = 0; i < 256; i++) {
            const uint32_t *at = out.data + i * 4;
            if (i % 2 != 0) {
                shuffle = shuffle && all_are(at, 4, 0x7f7f7f7f);
            } else {
                const uint32_t first = later ? i ^ 1 : 0;
                shuffle = shuffle && at[0] == first && at[1] == i + 100 && at[2] == (i ^ 2) + 100;
                ballot = ballot && at[3] == 1;
            }
        }
        CHECK(shuffle);
        CHECK(ballot);
    }
}

__global__ static void ballot_kernel(wave_args<uint64_t> a)
{
    const uint64_t all = sim_ballot(1), none = sim_ballot(0), some = sim_ballot((int)threadIdx.x % 3);
    a.out[threadIdx.x] = none == 0 && (all & some) == some ? some : 0xbad;
}

static void test_ballot()
{
    const int wave = sim_wave_size();
    for (int32_t block = 1; block <= 200; block += 13) {
        memory<uint64_t> out((size_t)block);
        const wave_args<uint64_t> a = {out.data, 0, 0};
        CHECK(sim_launch(ballot_kernel, a, 1, block, NULL) == simSuccess);
        bool good = true;
        for (int i = 0; i < block; i++) {
            const int first = i / wave * wave;
            uint64_t expect = 0;
            for (int j = first; j < first + wave && j < block; j++) {
                expect |= (uint64_t)(j % 3 != 0) << (j - first);
            }
            good = good && out[i] == expect;
        }
        CHECK(good);
    }
}

struct atomic_args {
    float *f;
    double *d;
    int *i;
    unsigned *u;
    int64_t *l;
};

__global__ static void atomic_kernel(atomic_args a)
{
    sim_atomic_add(a.f, 0.5f);
    sim_atomic_add(a.d, 0.25);
    sim_atomic_add(a.i, -3);
    const unsigned old = sim_atomic_add(a.u, 1u);
    sim_atomic_add(a.l, (int64_t)old);
}

static void test_atomic()
{
    memory<float> f(1);
    memory<double> d(1);
    memory<int> i(1);
    memory<unsigned> u(1);
    memory<int64_t> l(1);
    *f.data = 1;
    *d.data = 1;
    *i.data = INT_MIN + 6; /* wraps around */
    *u.data = 0;
    *l.data = 0;
    const atomic_args a = {f.data, d.data, i.data, u.data, l.data};
    CHECK(sim_launch(atomic_kernel, a, 10, 100, NULL) == simSuccess);
    CHECK(f[0] == 501 && d[0] == 251 && u[0] == 1000 && l[0] == 999 * 500);
    CHECK((unsigned)i[0] == (unsigned)INT_MIN + 6u - 3000u);
}

/*------------------------------------------------------------------------------------------------------------
  what must not be survived
*/
static uint32_t scratch[1024];

static void launch(void (*kernel)(out_args), int32_t block)
{
    const out_args a = {scratch, 0};
    (void)sim_launch(kernel, a, 1, block, NULL);
}

__global__ static void return_early_kernel(out_args a)
{
    if (threadIdx.x == 5) {
        return;
    }
    __syncthreads();
    a.out[threadIdx.x] = 0;
}

__global__ static void return_late_kernel(out_args a)
{
    __syncthreads();
    a.out[threadIdx.x] = 0;
    if (threadIdx.x + 1 == blockDim.x) {
        __syncthreads();
    }
}

__global__ static void diverge_kernel(out_args a)
{
    if (threadIdx.x % 2 == 0) {
        a.out[threadIdx.x] = sim_shuffle_xor(threadIdx.x, 2);
    } else {
        a.out[threadIdx.x] = sim_shuffle_down(threadIdx.x, 2);
    }
}

__global__ static void half_kernel(out_args a)
{
    if (threadIdx.x % 2 == 0) {
        a.out[threadIdx.x] = sim_shuffle_xor(threadIdx.x, 2);
    }
    __syncthreads();
}

__global__ static void two_lds_kernel(out_args a)
{
    CKCI_K_LDS(transpose_lds, m);
    CKCI_K_LDS(big_lds, n);
    a.out[0] = m.tile[0] + n.tile[0];
}

struct huge_lds {
    unsigned char bytes[232448 + 1];
};

__global__ static void huge_lds_kernel(out_args a)
{
    CKCI_K_LDS(huge_lds, m);
    a.out[0] = m.bytes[0];
}

static void test_deaths()
{
    CHECK_ABORT([] { launch(return_early_kernel, 64); }, "barrier");
    CHECK_ABORT([] { launch(return_late_kernel, 64); }, "barrier");
    CHECK_ABORT([] { launch(return_early_kernel, 6); }, "barrier");
    CHECK_ABORT([] { launch(diverge_kernel, 64); }, "operations");
    CHECK_ABORT([] { launch(half_kernel, 64); }, "wave");
    CHECK_ABORT([] { launch(two_lds_kernel, 1); }, "LDS");
    CHECK_ABORT([] { launch(huge_lds_kernel, 1); }, "LDS");
}

struct odd_lds {
    unsigned char bytes[100];
};

static volatile int past_the_end; /* keeps compilers from seeing the error */

__global__ static void overrun_kernel(out_args a)
{
    CKCI_K_LDS(odd_lds, m);
    m.bytes[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 63) {
        unsigned char *p = m.bytes;
        p[99 + past_the_end] = 1;
    }
    a.out[threadIdx.x] = m.bytes[0];
}

static void overrun_tensor()
{
    memory<uint32_t> out(64);
    const out_args a = {out.data, 1};
    (void)sim_launch(index_kernel, a, 1, 64 + past_the_end, NULL);
}

#ifdef SIM_ASAN
static void check_asan(void (*run)(), int line)
{
    past_the_end = 0;
    const death in_order = in_child(run);
    check(in_order.status == 0, line, "an access inside");
    past_the_end = 1;
    const death past = in_child(run);
    check(past.status != 0 && strstr(past.text, "heap-buffer-overflow") != NULL, line,
          "an access past the end");
}

static void test_overruns()
{
    check_asan([] { launch(overrun_kernel, 64); }, __LINE__);
    check_asan(overrun_tensor, __LINE__);
}
#else
static void test_overruns()
{
    launch(overrun_kernel, 64);
    overrun_tensor();
}
#endif

/*------------------------------------------------------------------------------------------------------------
  time
*/
__global__ static void switch_kernel(out_args a)
{
    for (int t = 0; t < a.n; t++) {
        __syncthreads();
    }
}

__global__ static void meet_kernel(out_args a)
{
    uint32_t x = threadIdx.x;
    for (int t = 0; t < a.n; t++) {
        x += sim_shuffle_xor(x, 1);
    }
    scratch[threadIdx.x] = x;
}

/* Nanoseconds for each thread of each block, and for each of its n waits. */
static double cost(void (*kernel)(out_args), int n, int64_t grid, int32_t block)
{
    struct timespec from, to;
    const out_args a = {scratch, n};
    (void)sim_launch(kernel, a, 1, block, NULL);
    clock_gettime(CLOCK_MONOTONIC, &from);
    (void)sim_launch(kernel, a, grid, block, NULL);
    clock_gettime(CLOCK_MONOTONIC, &to);
    const double ns = (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
    return ns / ((double)grid * block * (n > 0 ? n : 1));
}

static void test_time()
{
    printf("note: ns for a thread that does not wait %.1f, for a barrier with 64 threads %.1f, 256 %.1f, "
           "1024 %.1f, for a shuffle %.1f\n",
           cost(switch_kernel, 0, 5000, 256), cost(switch_kernel, 1000, 4, 64),
           cost(switch_kernel, 1000, 4, 256), cost(switch_kernel, 200, 4, 1024),
           cost(meet_kernel, 1000, 4, 256));
}

static void test_all()
{
    test_device();
    test_memory();
    test_index();
    test_launch();
    test_barrier();
    test_poison();
    test_missing_barrier();
    test_cluster();
    test_order();
    test_stack();
    test_shuffle_type<uint32_t>();
    test_shuffle_type<int>();
    test_shuffle_type<float>();
    test_shuffle_type<double>();
    test_shuffle_type<int64_t>();
    test_sum();
    test_leave();
    test_ballot();
    test_atomic();
    test_deaths();
    test_overruns();
}

int main()
{
    static const char *const targets[] = {"",        "gfx90a", "gfx950", "gfx1030",
                                          "gfx1201", "sm_80",  "sm_103", "sm_120"};
    static const char *const full[] = {"gfx942", "gfx1100", "sm_90"};
    static const char *const orders[] = {"forward", "reverse", "random"};
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (const char *target : targets) {
        with(target, "", test_device);
    }
    with("none", "", test_no_device);
    test_wrong_name();
    for (const char *target : full) {
        for (const char *order : orders) {
            with(target, order, test_all);
        }
    }
    with("gfx942", "", test_time);
#ifndef SIM_ASAN
    printf("skipped: accesses past the end of LDS and of tensors, which need AddressSanitizer\n");
#endif
    printf("test_sim: %ld passed, %ld failed\n", test.passed, test.failed);
    return test.failed != 0 || test.passed == 0 ? 1 : 0;
}
