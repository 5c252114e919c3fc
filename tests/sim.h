/* sim.h - a GPU on the CPU: kernels.hip.h compiled by a host compiler and executed thread by thread
   SPDX-License-Identifier: MIT

   The third runtime of kernels.hip.h, besides HIP and CUDA: their vocabulary for device code, a runtime API
   under names simXxx, and sim_launch. Blocks run one after another; the threads of a block are fibers, each
   of which runs until it waits for others.

   Found by it: results that depend on the order of threads (a missing barrier), reads of LDS that nobody
   wrote (its bytes are 0xff: NaN, -1), a barrier that some threads skip, wave operations that the lanes of a
   wave do not reach together, LDS beyond what the device has, and, built with AddressSanitizer, every access
   past the end of a tensor or of LDS. A kernel that breaks such a rule ends the program with one line that
   starts with `sim: `. Not found: races between barriers that no order of threads shows, races between blocks
   that no order of blocks shows, and anything about time, caches or the memory model.

   Environment, read at the first use of the device:
       CKCONV_SIM_TARGET  a name of ckconv.h's table of architectures (default gfx942), or none: no device.
                          There are two of the kind, so that "wrong device" can be tested.
       CKCONV_SIM_UNITS   compute units; few make a block take several tiles
       CKCONV_SIM_ORDER   forward (default): blocks and threads by number; reverse: both from the last to the
                          first; random: threads in an order of its own for each block and each interval
                          between barriers, from a fixed seed
       CKCONV_SIM_EMULATOR  set by tests/amd_tables.py: launches go to an emulator of AMD's instructions

   x86-64 switches fibers with a few instructions, other machines and -DSIM_UCONTEXT with ucontext. C++17,
   POSIX; one translation unit includes this file, and one thread uses it. ckconv.h's table of architectures
   stands before it: in kernels.hip.h, or by an implementation of ckconv.h. */
#ifndef CKCONV_TEST_SIM_H
#define CKCONV_TEST_SIM_H

#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <type_traits>
#include <unordered_map>
#if !defined(SIM_UCONTEXT) && !(defined(__x86_64__) && defined(__ELF__))
#define SIM_UCONTEXT
#endif
#ifdef SIM_UCONTEXT
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_ASAN 1
#endif
#endif
#ifdef SIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
/* Once per kernel. kernels.hip.h may repeat this definition, not change it. */
#define CKCI_K_LDS(T, name) T &name = *(T *)sim_lds_of<T>()

struct sim_dim3 {
    uint32_t x, y, z;
};
static sim_dim3 threadIdx, blockIdx, blockDim, gridDim;

/* Tests: of the next launches, after sim_good_launches as many fail, without running anything. */
static int sim_good_launches, sim_fail_launches;

/* Larger allocations fail: that must not depend on how generous the machine is with memory that it lacks. */
enum : uint64_t { SIM_LARGEST_ALLOCATION = (uint64_t)4 << 30 };

enum { SIM_BLOCK = 1024, SIM_CLUSTER = 16 }; /* threads of a block, blocks of a cluster */
enum { SIM_THREADS = 4096, SIM_WAVES = SIM_THREADS / 32 };
#ifdef SIM_ASAN
enum { SIM_STACK = 256 << 10 };
#else
enum { SIM_STACK = 64 << 10 };
#endif

/*------------------------------------------------------------------------------------------------------------
  runtime
*/
enum simError_t {
    simSuccess = 0,
    simErrorInvalidValue = 1,
    simErrorMemoryAllocation = 2,
    simErrorInvalidConfiguration = 9,
    simErrorInsufficientDriver = 35,
    simErrorNoDevice = 100,
    simErrorInvalidDevice = 101,
    simErrorLaunchFailure = 719
};
enum { simMemcpyHostToDevice = 1, simMemcpyDeviceToHost = 2 };
enum { simDeviceAttributeMultiprocessorCount = 1, simDeviceAttributeWarpSize = 2 };
typedef void *simStream_t;
typedef struct sim_event {
    struct timespec at;
} * simEvent_t;

typedef struct simDeviceProp_t {
    char arch[16];
    int kind; /* 1 AMD, 2 NVIDIA */
    int warpSize;
    int multiProcessorCount;
    size_t sharedMemPerBlock;
    int major, minor; /* of sm_80: 8 and 0; of gfx90a: 9 and 0 */
} simDeviceProp_t;

enum sim_order_kind { SIM_FORWARD, SIM_REVERSE, SIM_RANDOM };

static simDeviceProp_t sim_device; /* arch is empty: there is none */
/* Tests: what every call of the runtime answers but GetLastError, as after a kernel that crashed; the number
   of the call to EventCreate that fails, counted down; events that exist; EventElapsedTime fails. */
static simError_t sim_sticky;
static int sim_fail_event, sim_events, sim_fail_elapsed;
static simError_t sim_last_error;
static sim_order_kind sim_order_of_threads;
static int sim_configured, sim_ordinal, sim_in_kernel;
static int sim_in_order; /* the next launch has blocks that wait for those of lower numbers */
static uint64_t sim_random;

[[noreturn]] __attribute__((format(printf, 1, 2))) static inline void sim_die(const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    fflush(stdout);
    if (sim_in_kernel) {
        fprintf(stderr, "sim: block %u, thread %u: %s\n", blockIdx.x, threadIdx.x, text);
    } else {
        fprintf(stderr, "sim: %s\n", text);
    }
    abort();
}

/* Names as in the environment; NULL or empty: the default. Tests call it to change the device. */
static inline void sim_configure(const char *target, const char *order)
{
    target = target != NULL && target[0] != 0 ? target : "gfx942";
    order = order != NULL && order[0] != 0 ? order : "forward";
    memset(&sim_device, 0, sizeof sim_device);
    if (const ckci_architecture *row = ckci_find_architecture(target)) {
        /* gfx90a is 9 and 0, gfx1030 10 and 3, sm_103 10 and 3: numbers follow the first `_` or `x` */
        const int amd = row->kind == 1;
        const char *number = row->name + 3, *last = number + strlen(number) - (amd ? 2 : 1);
        memcpy(sim_device.arch, row->name, sizeof row->name);
        sim_device.kind = row->kind;
        sim_device.warpSize = row->wave;
        sim_device.multiProcessorCount = row->units;
        sim_device.sharedMemPerBlock = (size_t)row->lds;
        sim_device.major = last - number == 2 ? (number[0] - '0') * 10 + number[1] - '0' : number[0] - '0';
        sim_device.minor = *last - '0';
    } else if (strcmp(target, "none") != 0) {
        size_t count;
        const ckci_architecture *rows = ckci_architectures(&count);
        fprintf(stderr, "sim: CKCONV_SIM_TARGET=%s: must be none", target);
        for (size_t i = 0; i < count; i++) {
            fprintf(stderr, ", %s", rows[i].name);
        }
        fprintf(stderr, "\n");
        exit(2);
    }
    const char *units = getenv("CKCONV_SIM_UNITS");
    if (units != NULL && atoi(units) > 0) {
        sim_device.multiProcessorCount = atoi(units);
    }
    if (strcmp(order, "forward") == 0) {
        sim_order_of_threads = SIM_FORWARD;
    } else if (strcmp(order, "reverse") == 0) {
        sim_order_of_threads = SIM_REVERSE;
    } else if (strcmp(order, "random") == 0) {
        sim_order_of_threads = SIM_RANDOM;
    } else {
        sim_die("CKCONV_SIM_ORDER=%s: must be forward, reverse or random", order);
    }
    sim_configured = 1;
    sim_ordinal = 0;
    sim_random = 0x9e3779b97f4a7c15u;
}

/* ---- Device code of another compiler, executed by an emulator in another process, which shares the memory
   of the device at the same addresses: tests/amd_tables.py. Lines ask: first `memory ADDRESS BYTES`, what
   may be mapped at all, then `map ADDRESS BYTES`, `unmap ADDRESS BYTES` (whole pages), `run KERNEL GRID BLOCK
   ARGUMENT`; numbers but GRID and BLOCK are hexadecimal. Only `run` is answered, by one line: ok, or what
   went wrong. */
enum : uint64_t {
    SIM_MEMORY = (uint64_t)0x2000 << 32,
    SIM_MEMORY_BYTES = (uint64_t)1 << 40,
    SIM_PAGE = 4096
};
enum { SIM_BESIDE = 0xff };
static struct {
    FILE *ask, *answer;
    int memory;    /* descriptor */
    uint64_t next; /* free address; none is used twice */
    std::unordered_map<void *, size_t> bytes;
} sim_emulator;

static inline void sim_find_emulator()
{
    const char *text = getenv("CKCONV_SIM_EMULATOR");
    int ask, answer;
    if (text == NULL || sim_emulator.ask != NULL) {
        return;
    }
    if (sscanf(text, "%d,%d,%d", &ask, &answer, &sim_emulator.memory) != 3 ||
        (sim_emulator.ask = fdopen(ask, "w")) == NULL ||
        (sim_emulator.answer = fdopen(answer, "r")) == NULL) {
        sim_die("CKCONV_SIM_EMULATOR=%s: must be three descriptors, as tests/amd_tables.py sets them", text);
    }
    if (ftruncate(sim_emulator.memory, (off_t)SIM_MEMORY_BYTES) != 0 ||
        mmap((void *)SIM_MEMORY, SIM_MEMORY_BYTES, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, sim_emulator.memory,
             0) != (void *)SIM_MEMORY) {
        sim_die("no room for the emulator's memory");
    }
    fprintf(sim_emulator.ask, "memory %llx %llx\n", (unsigned long long)SIM_MEMORY,
            (unsigned long long)SIM_MEMORY_BYTES);
    sim_emulator.next = SIM_MEMORY;
}

/* Whole pages that hold so many bytes. */
static inline uint64_t sim_pages(size_t bytes)
{
    return (bytes + SIM_PAGE - 1) / SIM_PAGE * SIM_PAGE;
}

/* On pages of its own, at their end, so that the emulator sees what passes it by more than 15 bytes. */
static inline void *sim_map(size_t bytes)
{
    const uint64_t pages = sim_pages(bytes), start = sim_emulator.next;
    sim_emulator.next += pages + SIM_PAGE; /* never mapped: the page between two */
    if (sim_emulator.next > SIM_MEMORY + SIM_MEMORY_BYTES) {
        sim_die("no addresses left in the emulator's memory");
    }
    fprintf(sim_emulator.ask, "map %llx %llx\n", (unsigned long long)start, (unsigned long long)pages);
    memset((void *)start, SIM_BESIDE, pages);
    unsigned char *made = (unsigned char *)start + pages - (bytes + 15) / 16 * 16;
    sim_emulator.bytes[made] = bytes;
    return memset(made, 0x7f, bytes);
}

static inline void sim_unmap(void *memory)
{
    const auto found = sim_emulator.bytes.find(memory);
    if (found == sim_emulator.bytes.end()) {
        sim_die("simFree of a pointer that simMalloc did not give");
    }
    const size_t bytes = found->second;
    const uint64_t pages = sim_pages(bytes);
    unsigned char *made = (unsigned char *)memory, *start = made - (uintptr_t)made % SIM_PAGE;
    for (unsigned char *p = start; p < start + pages; p++) {
        if ((p < made || p >= made + bytes) && *p != SIM_BESIDE) {
            sim_die("byte %lld of an allocation of %zu bytes was written", (long long)(p - made), bytes);
        }
    }
    fprintf(sim_emulator.ask, "unmap %llx %llx\n", (unsigned long long)(uintptr_t)start,
            (unsigned long long)pages);
    madvise(start, pages, MADV_REMOVE);
    sim_emulator.bytes.erase(found);
}

static inline simError_t sim_emulate(const char *name, const void *args, size_t bytes, int64_t grid,
                                     int32_t block)
{
    char line[400];
    fprintf(sim_emulator.ask, "run %s %lld %d ", name, (long long)grid, (int)block);
    for (size_t i = 0; i < bytes; i++) {
        fprintf(sim_emulator.ask, "%02x", ((const unsigned char *)args)[i]);
    }
    fprintf(sim_emulator.ask, "\n");
    fflush(sim_emulator.ask);
    if (fgets(line, sizeof line, sim_emulator.answer) == NULL) {
        sim_die("the emulator is gone");
    }
    line[strcspn(line, "\n")] = 0;
    if (strcmp(line, "ok") != 0) {
        sim_die("%s", line);
    }
    return simSuccess;
}

static inline int sim_device_count()
{
    if (!sim_configured) {
        sim_find_emulator();
        sim_configure(getenv("CKCONV_SIM_TARGET"), getenv("CKCONV_SIM_ORDER"));
    }
    return sim_device.arch[0] != 0 ? 2 : 0;
}

static inline const char *simGetErrorString(simError_t code)
{
    switch (code) {
    case simSuccess:
        return "no error";
    case simErrorInvalidValue:
        return "invalid argument";
    case simErrorMemoryAllocation:
        return "out of memory";
    case simErrorInsufficientDriver:
        return "driver is insufficient for the runtime";
    case simErrorInvalidConfiguration:
        return "invalid configuration argument";
    case simErrorNoDevice:
        return "no device is detected";
    case simErrorInvalidDevice:
        return "invalid device ordinal";
    case simErrorLaunchFailure:
        return "unspecified launch failure";
    default:
        return "unrecognized error code";
    }
}

/* What a call answers; a failure is kept until it is asked for. */
static inline simError_t sim_answer(simError_t code)
{
    code = sim_sticky != simSuccess ? sim_sticky : code;
    sim_last_error = code != simSuccess ? code : sim_last_error;
    return code;
}

static inline simError_t simGetLastError()
{
    const simError_t code = sim_last_error;
    sim_last_error = simSuccess;
    return code;
}

static inline simError_t simGetDeviceCount(int *count)
{
    *count = sim_device_count();
    return sim_answer(*count > 0 ? simSuccess : simErrorNoDevice);
}

static inline simError_t simGetDeviceProperties(simDeviceProp_t *prop, int ordinal)
{
    if (ordinal < 0 || ordinal >= sim_device_count()) {
        return sim_answer(simErrorInvalidDevice);
    }
    *prop = sim_device;
    return sim_answer(simSuccess);
}

static inline simError_t simDeviceGetAttribute(int *value, int attribute, int ordinal)
{
    if (ordinal < 0 || ordinal >= sim_device_count()) {
        return simErrorInvalidDevice;
    }
    if (attribute == simDeviceAttributeMultiprocessorCount) {
        *value = sim_device.multiProcessorCount;
    } else if (attribute == simDeviceAttributeWarpSize) {
        *value = sim_device.warpSize;
    } else {
        return simErrorInvalidValue;
    }
    return simSuccess;
}

static inline simError_t simDriverGetVersion(int *version)
{
    *version = 0;
    return simSuccess;
}

static inline simError_t simRuntimeGetVersion(int *version)
{
    *version = 0;
    return simSuccess;
}

static inline simError_t simGetDevice(int *ordinal)
{
    if (sim_device_count() == 0) {
        return sim_answer(simErrorNoDevice);
    }
    *ordinal = sim_ordinal;
    return sim_answer(simSuccess);
}

static inline simError_t simSetDevice(int ordinal)
{
    if (ordinal < 0 || ordinal >= sim_device_count()) {
        return sim_answer(simErrorInvalidDevice);
    }
    sim_ordinal = ordinal;
    return sim_answer(simSuccess);
}

/* Of exactly this size, so that the red zone of AddressSanitizer begins at the first wrong byte; poisoned. */
static inline simError_t simMalloc(void **memory, size_t bytes)
{
    *memory = NULL;
    if (sim_device_count() == 0) {
        return simErrorNoDevice;
    }
    if (bytes == 0) {
        return simSuccess;
    }
    if (bytes > SIM_LARGEST_ALLOCATION) {
        return sim_answer(simErrorMemoryAllocation);
    }
    if (sim_emulator.ask != NULL) {
        *memory = sim_map(bytes);
        return simSuccess;
    }
    void *made = NULL;
    if (posix_memalign(&made, 256, bytes) != 0) {
        return sim_answer(simErrorMemoryAllocation);
    }
    *memory = memset(made, 0x7f, bytes);
    return simSuccess;
}

static inline simError_t simFree(void *memory)
{
    if (sim_emulator.ask == NULL) {
        free(memory);
    } else if (memory != NULL) {
        sim_unmap(memory);
    }
    return simSuccess;
}

static inline simError_t simMemcpy(void *dst, const void *src, size_t bytes, int kind)
{
    if (kind != simMemcpyHostToDevice && kind != simMemcpyDeviceToHost) {
        return simErrorInvalidValue;
    }
    if (bytes > 0) {
        memcpy(dst, src, bytes);
    }
    return simSuccess;
}

static inline simError_t simMemset(void *dst, int byte, size_t bytes)
{
    if (bytes > 0) {
        memset(dst, byte, bytes);
    }
    return simSuccess;
}

static inline simError_t simDeviceSynchronize()
{
    return simSuccess;
}

static inline simError_t simEventCreate(simEvent_t *event)
{
    if (sim_fail_event > 0 && --sim_fail_event == 0) {
        return sim_answer(simErrorMemoryAllocation);
    }
    *event = (simEvent_t)calloc(1, sizeof **event);
    sim_events += *event != NULL;
    return *event != NULL ? simSuccess : simErrorMemoryAllocation;
}

static inline simError_t simEventDestroy(simEvent_t event)
{
    sim_events -= event != NULL;
    free(event);
    return simSuccess;
}

static inline simError_t simEventRecord(simEvent_t event, simStream_t stream)
{
    (void)stream;
    clock_gettime(CLOCK_MONOTONIC, &event->at);
    return sim_answer(simSuccess);
}

static inline simError_t simEventSynchronize(simEvent_t event)
{
    (void)event;
    return sim_answer(simSuccess);
}

static inline simError_t simEventElapsedTime(float *ms, simEvent_t from, simEvent_t to)
{
    if (sim_fail_elapsed) {
        return sim_answer(simErrorInvalidValue);
    }
    const double seconds = (double)(to->at.tv_sec - from->at.tv_sec);
    *ms = (float)(seconds * 1e3 + (double)(to->at.tv_nsec - from->at.tv_nsec) * 1e-6);
    return simSuccess;
}

/*------------------------------------------------------------------------------------------------------------
  state of the block that runs, or of a cluster's blocks, whose threads follow each other
*/
enum sim_thread_state : uint8_t {
    SIM_NEW,   /* not started */
    SIM_READY, /* its fiber can go on */
    SIM_AT_WAVE,
    SIM_AT_BARRIER,
    SIM_DONE
};

struct sim_fiber {
    const void *stack; /* lowest address */
    size_t stack_bytes;
#ifdef SIM_UCONTEXT
    ucontext_t context;
#else
    void *stack_pointer; /* while it does not run */
#endif
#ifdef SIM_ASAN
    void *fake_stack;
#endif
};

/* A wave operation. Deposits are double: the first lane to go on may reach the next operation while others
   still read the values of this one, but cannot pass it before all have. */
struct sim_wave {
    int live, arrived; /* lanes */
    uint64_t id;       /* of the operation that the arrived lanes wait at */
    int line;
    unsigned turn; /* of the deposits: 0 or 1 */
    uint64_t lanes[2], votes[2];
};

static struct {
    void (*call)(const void *kernel, const void *args);
    const void *kernel, *args;
    int threads, wave_size;
    int block_threads; /* of one block of the cluster */
    uint32_t first;    /* number of its first block */
    int thread;        /* that runs */
    int runnable;      /* threads new or ready, but for the one that runs */
    int at_barrier[SIM_CLUSTER], at_cluster, done;
    int at_some[SIM_CLUSTER][16];   /* named barriers */
    uint64_t some[SIM_CLUSTER][16]; /* waves that are at them */
    int polls;                      /* waits for turns that were in vain, since something changed */
    int position;                   /* in order: where to look for the next thread */
    sim_fiber *launcher, *running, *previous;
    int fibers, spare; /* made; idle ones, on a stack of their own */
    unsigned char *stacks;
    void *lds;
    size_t lds_bytes;
    size_t lds_apart, lds_all; /* from one block's to the next one's; of the cluster */
    size_t lds_used;           /* what the launch asks for of a block's, 0: all */
    int lds_fresh;
    sim_thread_state state[SIM_THREADS];
    uint16_t order[SIM_THREADS];
    uint64_t deposit[2][SIM_THREADS];
    sim_wave wave[SIM_WAVES];
    sim_fiber *fiber_of[SIM_THREADS]; /* ready or waiting threads */
    sim_fiber *idle[SIM_THREADS];
    sim_fiber fiber[SIM_THREADS];
} sim_block;

/*------------------------------------------------------------------------------------------------------------
  fibers
*/
#ifndef SIM_UCONTEXT
/* Pushes what a function must preserve, keeps the stack pointer in *from, and does the reverse with to. */
extern "C" __attribute__((visibility("hidden"))) void sim_switch_stack(void **from, void *to);
__asm__(".text\n"
        ".p2align 4\n"
        ".globl sim_switch_stack\n"
        ".hidden sim_switch_stack\n"
        ".type sim_switch_stack, @function\n"
        "sim_switch_stack:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size sim_switch_stack, . - sim_switch_stack\n");
#endif

#ifdef SIM_ASAN
/* The first thing on a stack that runs again. Only AddressSanitizer knows where the stack of the caller of
   sim_launch lies, and tells it to the fiber that runs after it. */
static inline void sim_asan_arrive(void *fake_stack)
{
    const void *stack;
    size_t bytes;
    __sanitizer_finish_switch_fiber(fake_stack, &stack, &bytes);
    if (sim_block.previous == sim_block.launcher) {
        sim_block.launcher->stack = stack;
        sim_block.launcher->stack_bytes = bytes;
    }
}
#endif

/* Returns when another fiber switches back. */
static inline void sim_switch(sim_fiber *to)
{
    sim_fiber *from = sim_block.running;
    sim_block.running = to;
    sim_block.previous = from;
#ifdef SIM_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->stack_bytes);
#endif
#ifdef SIM_UCONTEXT
    swapcontext(&from->context, &to->context);
#else
    sim_switch_stack(&from->stack_pointer, to->stack_pointer);
#endif
#ifdef SIM_ASAN
    sim_asan_arrive(from->fake_stack);
#endif
}

static inline void sim_shuffle_order()
{
    uint64_t r = sim_random;
    for (int i = sim_block.threads - 1; i > 0; i--) {
        r ^= r << 13;
        r ^= r >> 7;
        r ^= r << 17;
        const int j = (int)((r >> 32) * (uint64_t)(i + 1) >> 32);
        const uint16_t swap = sim_block.order[i];
        sim_block.order[i] = sim_block.order[j];
        sim_block.order[j] = swap;
    }
    sim_random = r;
}

static inline void sim_enter(int thread)
{
    const int block = thread / sim_block.block_threads;
    sim_block.thread = thread;
    threadIdx.x = (uint32_t)(thread - block * sim_block.block_threads);
    blockIdx.x = sim_block.first + (uint32_t)block;
}

/* Called when no thread can go on, but not all are done. */
[[noreturn]] static inline void sim_stuck()
{
    int at_wave = 0, at_barrier = sim_block.at_cluster;
    for (int block = 0; block < SIM_CLUSTER; block++) {
        at_barrier += sim_block.at_barrier[block];
        for (int i = 0; i < 16; i++) {
            at_barrier += sim_block.at_some[block][i];
        }
    }
    int first = sim_block.thread;
    for (int i = 0; i < sim_block.threads; i++) {
        if (sim_block.state[i] == SIM_AT_WAVE) {
            at_wave++;
            first = i;
        } else if (sim_block.state[i] == SIM_AT_BARRIER && at_wave == 0) {
            first = i;
        }
    }
    sim_enter(first);
    if (at_wave > 0) {
        sim_die("%d threads wait at a wave operation (line %d), %d of the block at a barrier", at_wave,
                sim_block.wave[first / sim_block.wave_size].line, at_barrier);
    }
    sim_die("%d threads wait at a barrier, %d have returned", at_barrier, sim_block.done);
}

/* The next thread to run, or -1 when all are done. Threads run in order, each until it waits, again and
   again. */
static inline int sim_next()
{
    if (sim_block.runnable == 0) {
        if (sim_block.done != sim_block.threads) {
            sim_stuck();
        }
        return -1;
    }
    for (;;) {
        while (sim_block.position < sim_block.threads) {
            const int thread = sim_block.order[sim_block.position++];
            if (sim_block.state[thread] <= SIM_READY) {
                sim_block.runnable--;
                return thread;
            }
        }
        sim_block.position = 0;
    }
}

static inline void sim_fiber_main();

/* A fiber that enters sim_fiber_main at the first switch to it. A block never needs more of them than it has
   threads. */
static inline sim_fiber *sim_make_fiber()
{
    const size_t guard = (size_t)sysconf(_SC_PAGESIZE); /* below each stack: an overflow faults */
    const size_t step = (size_t)SIM_STACK + guard;
    if (sim_block.stacks == NULL) {
        void *stacks = mmap(NULL, step * SIM_THREADS, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (stacks == MAP_FAILED) {
            sim_die("no memory for stacks");
        }
        sim_block.stacks = (unsigned char *)stacks;
    }
    const int number = sim_block.fibers++;
    unsigned char *stack = sim_block.stacks + (size_t)number * step + guard;
    if (mprotect(stack, SIM_STACK, PROT_READ | PROT_WRITE) != 0) {
        sim_die("no memory for a stack");
    }
    sim_fiber *f = &sim_block.fiber[number];
    f->stack = stack;
    f->stack_bytes = SIM_STACK;
#ifdef SIM_UCONTEXT
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = stack;
    f->context.uc_stack.ss_size = f->stack_bytes;
    f->context.uc_link = NULL;
    makecontext(&f->context, sim_fiber_main, 0);
#else
    /* Six registers, the address that the switch returns to, and no address for sim_fiber_main to return to.
       A function expects that one at 8 past a multiple of 16. */
    void (*entry)() = sim_fiber_main;
    unsigned char *top = stack + f->stack_bytes - 16;
    memset(top - 48, 0, 64);
    memcpy(top, &entry, sizeof entry);
    f->stack_pointer = top - 48;
#endif
    return f;
}

/* Where the chosen thread goes on: its own fiber, or an idle one that shall start it. */
static inline sim_fiber *sim_fiber_for(int thread)
{
    sim_enter(thread);
    if (sim_block.state[thread] == SIM_READY) {
        return sim_block.fiber_of[thread];
    }
    return sim_block.spare > 0 ? sim_block.idle[--sim_block.spare] : sim_make_fiber();
}

static inline void sim_release_wave(int wave)
{
    sim_wave &w = sim_block.wave[wave];
    const int first = wave * sim_block.wave_size;
    for (int lane = 0; lane < sim_block.wave_size; lane++) {
        if (first + lane < sim_block.threads && sim_block.state[first + lane] == SIM_AT_WAVE) {
            sim_block.state[first + lane] = SIM_READY;
            sim_block.runnable++;
        }
    }
    w.arrived = 0;
    w.turn ^= 1;
}

static inline void sim_finish(int thread)
{
    const int wave = thread / sim_block.wave_size;
    sim_wave &w = sim_block.wave[wave];
    sim_block.state[thread] = SIM_DONE;
    sim_block.done++;
    w.live--;
    if (w.arrived > 0 && w.arrived == w.live) {
        sim_release_wave(wave);
    }
}

/* A fiber runs threads one after another for as long as they do not wait, without a switch. It lives on,
   idle, between blocks and launches. */
static inline void sim_fiber_main()
{
#ifdef SIM_ASAN
    sim_asan_arrive(NULL);
#endif
    for (;;) {
        sim_block.call(sim_block.kernel, sim_block.args);
        sim_finish(sim_block.thread);
        const int next = sim_next();
        if (next >= 0 && sim_block.state[next] == SIM_NEW) {
            sim_enter(next);
            continue;
        }
        sim_fiber *to = next < 0 ? sim_block.launcher : sim_fiber_for(next);
        sim_block.idle[sim_block.spare++] = sim_block.running;
        sim_switch(to);
    }
}

/* Gives way to others; returns when the thread's state, that the caller has set, is ready again and its turn
   has come. */
static inline void sim_wait()
{
    const int thread = sim_block.thread, next = sim_next();
    sim_block.fiber_of[thread] = sim_block.running;
    if (next == thread) {
        return;
    }
    sim_switch(sim_fiber_for(next));
}

/* Waits at a barrier for threads first ... first + count - 1; *arrived: those that are there. */
static inline void sim_barrier(int *arrived, int first, int count)
{
    sim_block.state[sim_block.thread] = SIM_AT_BARRIER;
    if (++*arrived == count) {
        memset(sim_block.state + first, SIM_READY, (size_t)count);
        *arrived = 0;
        sim_block.runnable += count;
        sim_block.position = 0;
        if (sim_order_of_threads == SIM_RANDOM) {
            sim_shuffle_order();
        }
    }
    sim_wait();
}

__attribute__((noinline, unused)) static void __syncthreads()
{
    const int block = sim_block.thread / sim_block.block_threads;
    sim_barrier(&sim_block.at_barrier[block], block * sim_block.block_threads, sim_block.block_threads);
}

/* bar.sync of `count` threads, whole waves, whichever come. */
__attribute__((noinline, unused)) static void sim_some_meet(int barrier, int count)
{
    const int block = sim_block.thread / sim_block.block_threads, first = block * sim_block.block_threads;
    sim_block.some[block][barrier] |= (uint64_t)1 << (sim_block.thread - first) / sim_block.wave_size;
    sim_block.state[sim_block.thread] = SIM_AT_BARRIER;
    if (++sim_block.at_some[block][barrier] == count) {
        for (int i = 0; i < sim_block.block_threads; i++) {
            if ((sim_block.some[block][barrier] >> i / sim_block.wave_size & 1) != 0) {
                sim_block.state[first + i] = SIM_READY;
                sim_block.runnable++;
            }
        }
        sim_block.at_some[block][barrier] = 0;
        sim_block.some[block][barrier] = 0;
        sim_block.position = 0;
        if (sim_order_of_threads == SIM_RANDOM) {
            sim_shuffle_order();
        }
    }
    sim_wait();
}

/* mbarrier: arrivals of a turn, those that are missing, bytes that are missing, and the turn's parity. */
struct sim_turns {
    int32_t bytes;
    uint32_t arrivals : 8, missing : 8, parity : 1, begun : 8;
};
static_assert(sizeof(sim_turns) == 8, "as much as an mbarrier");

static inline void sim_turns_begin(uint64_t *barrier, int arrivals)
{
    const sim_turns t = {0, (uint32_t)arrivals, (uint32_t)arrivals, 0, 0x5a};
    memcpy(barrier, &t, sizeof t);
}

static inline void sim_turns_change(uint64_t *barrier, int arrivals, int bytes)
{
    sim_turns t;
    memcpy(&t, barrier, sizeof t);
    if (t.begun != 0x5a || (int)t.missing < arrivals) {
        sim_die("an mbarrier that was not begun, or that more arrive at than it has room for");
    }
    t.missing -= (uint32_t)arrivals & 0xff;
    t.bytes += bytes;
    if (t.missing == 0 && t.bytes == 0) {
        t.missing = t.arrivals;
        t.parity ^= 1;
    }
    memcpy(barrier, &t, sizeof t);
    sim_block.polls = 0;
}

/* One arrives, and so many bytes are expected; and those come. */
static inline void sim_turns_arrive(uint64_t *barrier, int bytes)
{
    sim_turns_change(barrier, 1, bytes);
}

static inline void sim_turns_bytes(uint64_t *barrier, int bytes)
{
    sim_turns_change(barrier, 0, -bytes);
}

/* Others run until the turn of that parity has ended. */
__attribute__((noinline, unused)) static void sim_turns_await(const uint64_t *barrier, uint32_t parity)
{
    for (;;) {
        sim_turns t;
        memcpy(&t, barrier, sizeof t);
        if (t.begun != 0x5a) {
            sim_die("an mbarrier that was not begun");
        }
        if (t.parity != parity) {
            sim_block.polls = 0;
            return;
        }
        if (++sim_block.polls > 64 * SIM_THREADS) {
            sim_die("threads wait for the turn of an mbarrier that does not end");
        }
        sim_block.state[sim_block.thread] = SIM_READY;
        sim_block.runnable++;
        sim_wait();
    }
}

__attribute__((noinline, unused)) static void sim_cluster_barrier()
{
    sim_barrier(&sim_block.at_cluster, 0, sim_block.threads);
}

/*------------------------------------------------------------------------------------------------------------
  LDS
*/

/* AddressSanitizer reports accesses there from now on, or no more. */
static inline void sim_forbid(void *from, size_t bytes, int forbid)
{
#ifdef SIM_ASAN
    if (bytes > 0 && forbid) {
        __asan_poison_memory_region(from, bytes);
    } else if (bytes > 0) {
        __asan_unpoison_memory_region(from, bytes);
    }
#else
    (void)from;
    (void)bytes;
    (void)forbid;
#endif
}

/* What the launch did not ask for is as it was (blocks that are alone). */
static inline void sim_check_lds()
{
    const unsigned char *lds = (const unsigned char *)sim_block.lds;
    const size_t end = sim_block.lds_used > 0 && sim_block.lds_fresh ? sim_block.lds_bytes : 0;
    for (size_t i = sim_block.lds_used; i < end; i++) {
        if (lds[i] != 0xff) {
            sim_die("byte %zu of LDS was written, the launch asks for %zu", i, sim_block.lds_used);
        }
    }
}

/* This block's in the memory of a cluster. */
static inline void *sim_lds_of_block()
{
    return (unsigned char *)sim_block.lds +
           (size_t)(sim_block.thread / sim_block.block_threads) * sim_block.lds_apart;
}

/* The same place in the LDS of a block of the cluster. */
__attribute__((unused)) static const void *sim_lds_of_other(const void *own, int block)
{
    const unsigned char *at = (const unsigned char *)own;
    return at +
           ((ptrdiff_t)block - sim_block.thread / sim_block.block_threads) * (ptrdiff_t)sim_block.lds_apart;
}

/* The same memory for all threads of a block, of exactly this size where it is alone. It is kept between
   blocks, but its content is not. */
static inline void *sim_lds(size_t bytes)
{
    const int blocks = sim_block.threads / sim_block.block_threads;
    const size_t apart = blocks > 1 ? (bytes + 1023) / 1024 * 1024 + 1024 : bytes,
                 all = apart * (size_t)blocks;
    if (sim_block.lds_fresh && bytes == sim_block.lds_bytes) {
        return sim_lds_of_block();
    }
    if (!sim_in_kernel) {
        sim_die("LDS outside of a kernel");
    }
    if (sim_block.lds_fresh) {
        sim_die("LDS of %zu bytes and of %zu in one block", sim_block.lds_bytes, bytes);
    }
    const size_t asked = sim_block.lds_used > 0 ? sim_block.lds_used : bytes;
    if (asked > sim_device.sharedMemPerBlock) {
        sim_die("%zu bytes of LDS, %s has %zu", asked, sim_device.arch, sim_device.sharedMemPerBlock);
    }
    if (bytes != sim_block.lds_bytes || all != sim_block.lds_all) {
        sim_forbid(sim_block.lds, sim_block.lds_all, 0);
        free(sim_block.lds);
        if (posix_memalign(&sim_block.lds, 1024, all) != 0) {
            sim_die("no memory for LDS");
        }
        sim_block.lds_bytes = bytes;
        sim_block.lds_apart = apart;
        sim_block.lds_all = all;
    }
    for (int i = 0; i < blocks; i++) {
        unsigned char *of_block = (unsigned char *)sim_block.lds + (size_t)i * apart;
        memset(of_block, 0xff, bytes);
        sim_forbid(of_block + bytes, apart - bytes, 1);
    }
    sim_block.lds_fresh = 1;
    return sim_lds_of_block();
}

/* A kernel whose LDS depends on the device has an empty type here, and asks again. */
template <class T> static inline void *sim_lds_of()
{
    static T none;
    return std::is_empty<T>::value ? (void *)&none : sim_lds(sizeof(T));
}

/*------------------------------------------------------------------------------------------------------------
  wave operations
  All live lanes of a wave must reach the same one, called from the same line of the source. A lane that has
  returned counts no more.
*/
static inline int sim_wave_size()
{
    return sim_device.warpSize;
}

/* Offers a value and a vote, waits for the other lanes; returns where the deposits of this turn lie. */
__attribute__((noinline, unused)) static unsigned sim_meet(uint64_t value, int vote, uint64_t kind, int line)
{
    const int thread = sim_block.thread, wave = thread / sim_block.wave_size;
    const uint64_t bit = (uint64_t)1 << thread % sim_block.wave_size;
    const uint64_t id = kind << 32 | (uint32_t)line;
    sim_wave &w = sim_block.wave[wave];
    const unsigned turn = w.turn;
    if (w.arrived == 0) {
        w.lanes[turn] = w.votes[turn] = 0;
        w.id = id;
        w.line = line;
    } else if (w.id != id) {
        sim_die("lanes of a wave at different operations (lines %d and %d)", w.line, line);
    }
    w.lanes[turn] |= bit;
    w.votes[turn] |= vote ? bit : 0;
    sim_block.deposit[turn][thread] = value;
    if (++w.arrived == w.live) {
        sim_release_wave(wave);
        return turn; /* the last to arrive goes on at once */
    }
    sim_block.state[thread] = SIM_AT_WAVE;
    sim_wait();
    return turn;
}

/* The value of a lane; the caller's own where there is no such lane, or where it has returned. */
template <class T> static inline T sim_exchange(T value, int lane, uint64_t kind, int line)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "one register or two");
    static_assert(std::is_trivially_copyable<T>::value, "bits");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    const unsigned turn = sim_meet(bits, 0, kind << 8 | sizeof(T), line);
    const int wave = sim_block.thread / sim_block.wave_size;
    if (lane >= 0 && lane < sim_block.wave_size && (sim_block.wave[wave].lanes[turn] >> lane & 1) != 0) {
        memcpy(&value, &sim_block.deposit[turn][wave * sim_block.wave_size + lane], sizeof value);
    }
    return value;
}

template <class T> static inline T sim_shuffle(T value, int lane, int line = __builtin_LINE())
{
    return sim_exchange(value, lane, 1, line);
}

template <class T> static inline T sim_shuffle_xor(T value, int lane_mask, int line = __builtin_LINE())
{
    return sim_exchange(value, sim_block.thread % sim_block.wave_size ^ lane_mask, 2, line);
}

template <class T> static inline T sim_shuffle_down(T value, int delta, int line = __builtin_LINE())
{
    const int64_t lane = (int64_t)(sim_block.thread % sim_block.wave_size) + delta;
    return sim_exchange(value, lane < sim_block.wave_size ? (int)lane : -1, 3, line);
}

/* Bit i: the predicate of lane i; 0 where the lane has returned. */
static inline uint64_t sim_ballot(int predicate, int line = __builtin_LINE())
{
    const unsigned turn = sim_meet(0, predicate != 0, 4 << 8, line);
    return sim_block.wave[sim_block.thread / sim_block.wave_size].votes[turn];
}

/* Returns the old value; integers wrap around. The type is that of the memory, whatever the value's. */
template <class T> static inline T sim_atomic_add(T *p, typename std::common_type<T>::type v)
{
    const T old = *p;
    if constexpr (std::is_integral<T>::value) {
        typedef typename std::make_unsigned<T>::type bits;
        *p = (T)(bits)((bits)old + (bits)v);
    } else {
        *p = old + v;
    }
    return old;
}

/*------------------------------------------------------------------------------------------------------------
  matrix units
  Lane layouts as the vendors' documents give them (AMD: ISA of CDNA 3, RDNA 3 and RDNA 4; NVIDIA: PTX ISA),
  written down here without a look at the kernels. Products of a multiplication are summed in double and
  rounded once; hardware has its own order. E::TYPE is 3 (f16) or 4 (bf16), as CKCONV_... number them.
*/
enum sim_unit { SIM_NO_UNIT, SIM_MFMA, SIM_WMMA, SIM_WMMA12, SIM_MMA, SIM_WGMMA };

static inline int32_t sim_unit_number()
{
    const ckci_architecture *row = ckci_find_architecture(sim_device.arch);
    return row != NULL ? row->unit : (int32_t)CKCI_UNIT_NONE;
}

static inline sim_unit sim_matrix_unit()
{
    switch (sim_unit_number()) {
    case CKCI_UNIT_CDNA1:
    case CKCI_UNIT_CDNA2:
    case CKCI_UNIT_CDNA3:
    case CKCI_UNIT_CDNA4:
        return SIM_MFMA;
    case CKCI_UNIT_RDNA3:
        return SIM_WMMA;
    case CKCI_UNIT_RDNA4:
    case CKCI_UNIT_GFX125: /* with more places in tiles */
        return SIM_WMMA12;
    case CKCI_UNIT_MMA:
        return SIM_MMA;
    case CKCI_UNIT_WGMMA:
        return SIM_WGMMA;
    default:
        return SIM_NO_UNIT;
    }
}

static unsigned char sim_operand[2][SIM_THREADS][2][32];

/* Offers both operands of this lane and waits for the others'; returns where those of lane 0 lie. */
static inline unsigned char (*sim_offer(const void *a, size_t a_bytes, const void *b, size_t b_bytes,
                                        uint64_t kind, int line))[2][32]
{
    const int wave = sim_block.thread / sim_block.wave_size;
    unsigned turn = sim_block.wave[wave].turn;
    memcpy(sim_operand[turn][sim_block.thread][0], a, a_bytes);
    memcpy(sim_operand[turn][sim_block.thread][1], b, b_bytes);
    turn = sim_meet(0, 0, kind << 8, line);
    const uint64_t all = sim_block.wave_size == 64 ? ~(uint64_t)0 : 0xffffffffu;
    if (sim_block.wave[wave].lanes[turn] != all) {
        sim_die("a matrix instruction without all lanes (line %d)", line);
    }
    return &sim_operand[turn][wave * sim_block.wave_size];
}

/* Element i of an operand of f16 or bf16. */
static inline double sim_element(int type, const unsigned char *operand, int i)
{
    uint16_t bits;
    memcpy(&bits, operand + 2 * i, 2);
    if (type == 4) {
        const uint32_t wide = (uint32_t)bits << 16;
        float x;
        memcpy(&x, &wide, 4);
        return (double)x;
    }
    const uint64_t field = bits >> 10 & 31, fraction = bits & 1023;
    if (field == 0) {
        return (double)fraction * (bits >> 15 ? -0x1p-24 : 0x1p-24);
    }
    /* the same exponent and fraction where a double has them */
    const uint64_t wide =
        (uint64_t)(bits >> 15) << 63 | (field == 31 ? 2047 : field + 1008) << 52 | fraction << 42;
    double x;
    memcpy(&x, &wide, 8);
    return x;
}

/* V_MFMA_F32_32X32X8_F16 and _BF16_1K on the eight bytes at `at` of both operands. A: lane i + 32 * (k / 4)
   holds A[i][k] at k % 4; B: likewise with columns; D: register r of a lane is row 8 * (r / 4) +
   4 * (lane / 32) + r % 4 of column lane % 32. */
template <class E>
static inline void sim_mfma_32x32x8(const void *a, const void *b, float *d, int at,
                                    int line = __builtin_LINE())
{
    unsigned char(*lanes)[2][32] = sim_offer(a, 16, b, 16, 16 + (uint64_t)at, line);
    const int lane = sim_block.thread % 64;
    double column[8];
    for (int k = 0; k < 8; k++) {
        column[k] = sim_element(E::TYPE, lanes[lane % 32 + k / 4 * 32][1] + at, k % 4);
    }
    for (int r = 0; r < 16; r++) {
        const int i = r / 4 * 8 + lane / 32 * 4 + r % 4;
        double sum = (double)d[r];
        for (int k = 0; k < 8; k++) {
            sum += sim_element(E::TYPE, lanes[i + k / 4 * 32][0] + at, k % 4) * column[k];
        }
        d[r] = (float)sum;
    }
}

/* V_MFMA_F32_16X16X16_F16 and _BF16_1K. A: lane i + 16 * (k / 4) holds A[i][k] at k % 4; B: likewise with
   columns; D: register r of a lane is row 4 * (lane / 16) + r of column lane % 16. */
template <class E>
static inline void sim_mfma_16x16x16(const void *a, const void *b, float *d, int line = __builtin_LINE())
{
    unsigned char(*lanes)[2][32] = sim_offer(a, 8, b, 8, 30, line);
    const int lane = sim_block.thread % 64;
    for (int r = 0; r < 4; r++) {
        const int i = lane / 16 * 4 + r, j = lane % 16;
        double sum = (double)d[r];
        for (int k = 0; k < 16; k++) {
            sum += sim_element(E::TYPE, lanes[i + k / 4 * 16][0], k % 4) *
                   sim_element(E::TYPE, lanes[j + k / 4 * 16][1], k % 4);
        }
        d[r] = (float)sum;
    }
}

/* Element i of an operand of f32. */
static inline double sim_single(const unsigned char *operand, int i)
{
    float x;
    memcpy(&x, operand + 4 * i, 4);
    return (double)x;
}

/* The same of tf32, without the bits below, which units ignore, or round each in its own way. */
static inline double sim_tf32(const unsigned char *operand, int i, int line)
{
    uint32_t bits;
    float x;
    memcpy(&bits, operand + 4 * i, 4);
    if ((bits & 0x1fff) != 0 && (bits & 0x7f800000) != 0x7f800000) {
        sim_die("an operand of tf32 has bits 0x%x (line %d)", (unsigned)bits, line);
    }
    bits &= ~(uint32_t)0x1fff;
    memcpy(&x, &bits, 4);
    return (double)x;
}

/* Places that CDNA multiplies at a time. */
static inline int sim_mfma_f32_places(int tf32)
{
    return tf32 && sim_unit_number() == CKCI_UNIT_CDNA3 ? 2 : 1;
}

/* V_MFMA_F32_32X32X2_F32 (P = 1) and, on CDNA 3, V_MFMA_F32_32X32X4_XF32 (P = 2) on P places from byte `at`
   of both operands on. A: lane i + 32 * (k / P) holds A[i][k] at k % P; B: likewise with columns; D as in
   sim_mfma_32x32x8. */
static inline void sim_mfma_f32_32x32(const void *a, const void *b, float *d, int at, int places,
                                      int line = __builtin_LINE())
{
    unsigned char(*lanes)[2][32] = sim_offer(a, 16, b, 16, 96 + (uint64_t)(at + places), line);
    const int lane = sim_block.thread % 64;
    for (int r = 0; r < 16; r++) {
        const int i = r / 4 * 8 + lane / 32 * 4 + r % 4, j = lane % 32;
        double sum = (double)d[r];
        for (int k = 0; k < 2 * places; k++) {
            const unsigned char *x = lanes[i + k / places * 32][0] + at,
                                *y = lanes[j + k / places * 32][1] + at;
            sum += places == 2 ? sim_tf32(x, k % 2, line) * sim_tf32(y, k % 2, line)
                               : sim_single(x, 0) * sim_single(y, 0);
        }
        d[r] = (float)sum;
    }
}

/* V_MFMA_F64_16X16X4_F64 on the double at byte `at` of both operands. A: lane i + 16 * k holds A[i][k]; B:
   likewise with columns; D: register r of a lane is row 4 * r + lane / 16 of column lane % 16. */
static inline void sim_mfma_f64_16x16x4(const void *a, const void *b, double *d, int at,
                                        int line = __builtin_LINE())
{
    unsigned char(*lanes)[2][32] = sim_offer(a, 16, b, 16, 120 + (uint64_t)at, line);
    const int lane = sim_block.thread % 64;
    for (int r = 0; r < 4; r++) {
        const int i = 4 * r + lane / 16, j = lane % 16;
        for (int k = 0; k < 4; k++) {
            double x, y;
            memcpy(&x, lanes[i + 16 * k][0] + at, 8);
            memcpy(&y, lanes[j + 16 * k][1] + at, 8);
            d[r] = __builtin_fma(x, y, d[r]);
        }
    }
}

/* Element i of an operand of i8. */
static inline uint32_t sim_byte(const unsigned char *operand, int i)
{
    return (uint32_t)(int32_t)(signed char)operand[i];
}

/* Bytes of a lane that V_MFMA_I32_32X32X8_I8 (CDNA 1, 2), _32X32X16_I8 (CDNA 3) and _32X32X32_I8 (CDNA 4)
   multiply. */
static inline int sim_mfma_i8_bytes()
{
    const int32_t unit = sim_unit_number();
    return unit == CKCI_UNIT_CDNA4 ? 16 : unit == CKCI_UNIT_CDNA3 ? 8 : 4;
}

/* These instructions on their bytes B from `at` on. A: lane i + 32 * (k / B) holds A[i][k] at k % B; B:
   likewise with columns; D as in sim_mfma_32x32x8. Sums wrap. */
static inline void sim_mfma_i32_32x32(const void *a, const void *b, int32_t *d, int at,
                                      int line = __builtin_LINE())
{
    unsigned char(*lanes)[2][32] = sim_offer(a, 16, b, 16, 64 + (uint64_t)at, line);
    const int lane = sim_block.thread % 64, bytes = sim_mfma_i8_bytes();
    for (int r = 0; r < 16; r++) {
        const int i = r / 4 * 8 + lane / 32 * 4 + r % 4, j = lane % 32;
        uint32_t sum = (uint32_t)d[r];
        for (int k = 0; k < 2 * bytes; k++) {
            sum += sim_byte(lanes[i + k / bytes * 32][0] + at, k % bytes) *
                   sim_byte(lanes[j + k / bytes * 32][1] + at, k % bytes);
        }
        d[r] = (int32_t)sum;
    }
}

/* D of a 16x16x16 WMMA, wave 32, from rows of 16 places, `bytes` each on gfx11; product(x, y, place)
   multiplies that place of both rows. gfx11: lanes l and l + 16 hold all 16 places of row l; register r
   of D is row 2 * r + lane / 16. gfx12: lane l holds places 8 * (l / 16) to that + 7 of row l % 16;
   register r is row 8 * (lane / 16) + r. */
template <class Sum, class D, class Product>
static inline void sim_wmma(int gfx, size_t bytes, uint64_t code, const void *a, const void *b, D *d,
                            int line, Product product)
{
    bytes = gfx == 11 ? bytes : bytes / 2;
    unsigned char(*lanes)[2][32] = sim_offer(a, bytes, b, bytes, code + (uint64_t)gfx, line);
    const int lane = sim_block.thread % 32;
    for (int l = 0; l < 16 && gfx == 11; l++) {
        if (memcmp(lanes[l][0], lanes[l + 16][0], bytes) != 0 ||
            memcmp(lanes[l][1], lanes[l + 16][1], bytes) != 0) {
            sim_die("WMMA operands of lanes %d and %d differ (line %d)", l, l + 16, line);
        }
    }
    for (int r = 0; r < 8; r++) {
        const int i = gfx == 11 ? 2 * r + lane / 16 : lane / 16 * 8 + r, j = lane % 16;
        Sum sum = (Sum)d[r];
        for (int k = 0; k < 16; k++) {
            const int from = gfx == 11 ? 0 : k / 8 * 16, place = gfx == 11 ? k : k % 8;
            sum += product(lanes[i + from][0], lanes[j + from][1], place);
        }
        d[r] = (D)sum;
    }
}

/* V_WMMA_I32_16X16X16_IU8, both signed */
static inline void sim_wmma_i32_16x16x16(int gfx, const void *a, const void *b, int32_t *d,
                                         int line = __builtin_LINE())
{
    sim_wmma<uint32_t>(gfx, 16, 82, a, b, d, line,
                       [](const unsigned char *x, const unsigned char *y, int place) {
                           return sim_byte(x, place) * sim_byte(y, place);
                       });
}

/* V_WMMA_F32_16X16X16_F16 and _BF16 */
template <class E>
static inline void sim_wmma_16x16x16(int gfx, const void *a, const void *b, float *d,
                                     int line = __builtin_LINE())
{
    sim_wmma<double>(gfx, 32, 32, a, b, d, line,
                     [](const unsigned char *x, const unsigned char *y, int place) {
                         return sim_element(E::TYPE, x, place) * sim_element(E::TYPE, y, place);
                     });
}

/* V_WMMA_F32_16X16X32_F16 and _BF16, V_WMMA_I32_16X16X64_IU8 of gfx125x: lane l holds places 8 * (l / 16) to
   that + 7 of each 16 of row l % 16; D lies as gfx12's. */
template <class E>
static inline void sim_wmma_16x16x32(const void *a, const void *b, float *d, int line = __builtin_LINE())
{
    for (int i = 0; i < 2; i++) {
        sim_wmma<double>(12, 32, 36 + (uint64_t)i, (const unsigned char *)a + 16 * i,
                         (const unsigned char *)b + 16 * i, d, line,
                         [](const unsigned char *x, const unsigned char *y, int place) {
                             return sim_element(E::TYPE, x, place) * sim_element(E::TYPE, y, place);
                         });
    }
}

static inline void sim_wmma_i32_16x16x64(const void *a, const void *b, int32_t *d,
                                         int line = __builtin_LINE())
{
    for (int i = 0; i < 4; i++) {
        sim_wmma_i32_16x16x16(12, (const unsigned char *)a + 8 * i, (const unsigned char *)b + 8 * i, d,
                              line);
    }
}

/* ldmatrix.x4: lanes 8 * m to 8 * m + 7 point at the rows (16 bytes) of matrix m; register m of a lane is
   word lane % 4 of row lane / 4, transposed: halves 2 * (lane % 4) and the next of column lane / 4. */
static inline void sim_ldmatrix(void *registers, const void *row, int transposed, int line)
{
    uint64_t bits = (uint64_t)(uintptr_t)row;
    if (bits % 16 != 0) {
        sim_die("ldmatrix: a row is not aligned to 16 bytes (line %d)", line);
    }
    const unsigned turn = sim_meet(bits, 0, (uint64_t)(48 + 2 * transposed) << 8, line);
    const int lane = sim_block.thread % 32, first = sim_block.thread - lane;
    for (int m = 0; m < 4; m++) {
        for (int i = 0; i < 2; i++) {
            const int at = lane % 4 * 2 + i;
            const uint64_t from = sim_block.deposit[turn][first + m * 8 + (transposed ? at : lane / 4)] +
                                  (uint64_t)(2 * (transposed ? lane / 4 : at));
            memcpy((unsigned char *)registers + 4 * m + 2 * i, (const void *)(uintptr_t)from, 2);
        }
    }
}

/* ds_read_b64_tr_b16: lane 4 * r + c of each 16 reads halves 4 * c to 4 * c + 3 of row r; lane i gets half i
   of rows 0 to 3. */
static inline void sim_read_turned(void *four, const void *from, int line = __builtin_LINE())
{
    const uint64_t bits = (uint64_t)(uintptr_t)from;
    if (bits % 8 != 0) {
        sim_die("ds_read_b64_tr_b16: not aligned to 8 bytes (line %d)", line);
    }
    const unsigned turn = sim_meet(bits, 0, (uint64_t)53 << 8, line);
    const int lane = sim_block.thread % 16, first = sim_block.thread - lane;
    for (int r = 0; r < 4; r++) {
        const uint64_t of = sim_block.deposit[turn][first + 4 * r + lane / 4] + (uint64_t)(lane % 4 * 2);
        memcpy((unsigned char *)four + 2 * r, (const void *)(uintptr_t)of, 2);
    }
}

/* global_load_tr_b128: lane i of each eight gets half i of the eight that each of them names. */
static inline void sim_load_turned(void *eight, const void *from, int line = __builtin_LINE())
{
    const uint64_t bits = (uint64_t)(uintptr_t)from;
    if (bits % 16 != 0) {
        sim_die("global_load_tr_b128: not aligned to 16 bytes (line %d)", line);
    }
    const unsigned turn = sim_meet(bits, 0, (uint64_t)54 << 8, line);
    const int lane = sim_block.thread % 8, first = sim_block.thread - lane;
    for (int i = 0; i < 8; i++) {
        const uint64_t of = sim_block.deposit[turn][first + i] + (uint64_t)(lane * 2);
        memcpy((unsigned char *)eight + 2 * i, (const void *)(uintptr_t)of, 2);
    }
}

/* buffer_load_dwordx4 ... lds: 16 bytes into LDS that come when the thread waits for them, in order. */
enum { SIM_COPIES = 64 };
static struct {
    void *to[SIM_COPIES];
    unsigned char bytes[SIM_COPIES][16];
    int count;
} sim_copies[SIM_THREADS];

static inline void sim_copy_later(void *to, const void *bytes)
{
    auto &copies = sim_copies[sim_block.thread];
    if (copies.count == SIM_COPIES) {
        sim_die("%d copies into LDS are on their way: more than are counted", SIM_COPIES);
    }
    copies.to[copies.count] = to;
    memcpy(copies.bytes[copies.count++], bytes, 16);
}

/* s_waitcnt vmcnt(left) */
static inline void sim_copies_arrive(int left)
{
    auto &copies = sim_copies[sim_block.thread];
    const int some = copies.count > left ? copies.count - left : 0;
    for (int i = 0; i < some; i++) {
        memcpy(copies.to[i], copies.bytes[i], 16);
    }
    copies.count -= some;
    memmove(copies.to, copies.to + some, (size_t)copies.count * sizeof copies.to[0]);
    memmove(copies.bytes, copies.bytes + some, (size_t)copies.count * sizeof copies.bytes[0]);
}

static inline void sim_ldmatrix_x4(void *registers, const void *row, int line = __builtin_LINE())
{
    sim_ldmatrix(registers, row, 0, line);
}

static inline void sim_ldmatrix_x4_trans(void *registers, const void *row, int line = __builtin_LINE())
{
    sim_ldmatrix(registers, row, 1, line);
}

/* stmatrix.x4: the opposite. */
static inline void sim_stmatrix(void *row, const void *registers, int transposed, int line)
{
    uint64_t bits = (uint64_t)(uintptr_t)row;
    if (bits % 16 != 0) {
        sim_die("stmatrix: a row is not aligned to 16 bytes (line %d)", line);
    }
    const unsigned turn = sim_meet(bits, 0, (uint64_t)(52 + 2 * transposed) << 8, line);
    const int lane = sim_block.thread % 32, first = sim_block.thread - lane;
    for (int m = 0; m < 4; m++) {
        for (int i = 0; i < 2; i++) {
            const int along = lane % 4 * 2 + i, down = transposed ? along : lane / 4;
            const uint64_t to = sim_block.deposit[turn][first + m * 8 + down] +
                                (uint64_t)(2 * (transposed ? lane / 4 : along));
            memcpy((void *)(uintptr_t)to, (const unsigned char *)registers + 4 * m + 2 * i, 2);
        }
    }
}

static inline void sim_stmatrix_x4(void *row, const void *registers, int line = __builtin_LINE())
{
    sim_stmatrix(row, registers, 0, line);
}

static inline void sim_stmatrix_x4_trans(void *row, const void *registers, int line = __builtin_LINE())
{
    sim_stmatrix(row, registers, 1, line);
}

/* An element of a swizzled operand of wgmma whose rows are `wide` elements (64, 32, 16), `minor` along its
   contiguous side: of address bits 4 to 6 as many as tell a row's 16 bytes apart are XORed with bits 7 and
   up. Slabs of 64 along the contiguous side are 8192 bytes apart. */
static inline const unsigned char *sim_swizzled(const unsigned char *base, int major, int minor, int wide)
{
    uintptr_t at = (uintptr_t)base + (uintptr_t)(minor / 64 * 8192 + major * wide * 2 + minor % 64 * 2);
    return (const unsigned char *)(at ^ (at >> 7 & (uintptr_t)(wide / 8 - 1)) << 4);
}

/* wgmma.m64nNk16: wave w of four holds rows 16 * w to that + 15, as mma.sync's D, 8 columns after the other.
   a and b as descriptors give them (start of 16 places of the reduction); across_...: rows in LDS are these
   places; else they have `wide` of them. */
template <class E>
static inline void sim_wgmma_m64nNk16(float *d, const unsigned char *a, const unsigned char *b, int n,
                                      int across_a, int across_b, int wide = 64)
{
    const int lane = sim_block.thread % 32, wave = sim_block.thread % 128 / 32;
    double row[2][16];
    for (int h = 0; h < 2; h++) {
        const int i = wave * 16 + h * 8 + lane / 4;
        for (int k = 0; k < 16; k++) {
            row[h][k] = sim_element(
                E::TYPE, across_a ? sim_swizzled(a, k, i, 64) : sim_swizzled(a, i, k, wide), 0);
        }
    }
    for (int c = 0; c < n / 4; c++) { /* columns of this lane: registers c / 2 * 4 + c % 2 and two further */
        const int j = c / 2 * 8 + lane % 4 * 2 + c % 2;
        double sum[2] = {(double)d[c / 2 * 4 + c % 2], (double)d[c / 2 * 4 + c % 2 + 2]};
        for (int k = 0; k < 16; k++) {
            const double x =
                sim_element(E::TYPE, across_b ? sim_swizzled(b, k, j, 64) : sim_swizzled(b, j, k, wide), 0);
            sum[0] += row[0][k] * x;
            sum[1] += row[1][k] * x;
        }
        d[c / 2 * 4 + c % 2] = (float)sum[0];
        d[c / 2 * 4 + c % 2 + 2] = (float)sum[1];
    }
}

/* mma.sync.m16n8k of 8 * P places, P in a register. With g = lane / 4 and t = lane % 4, A's registers are
   (row g, places P * t on), (g + 8, P * t), (g, P * t + 4 * P), (g + 8, P * t + 4 * P), B's (column g,
   P * t), (g, P * t + 4 * P), D's (row g, columns 2t and 2t + 1) and the same of row g + 8. product(x, y,
   place of x, place of y) multiplies places of two lanes. */
template <class Sum, class D, class Product>
static inline void sim_mma_m16n8(int p, uint64_t code, const void *a, const void *b, D *d, int line,
                                 Product product)
{
    unsigned char(*lanes)[2][32] = sim_offer(a, 16, b, 8, code, line);
    const int lane = sim_block.thread % 32;
    for (int r = 0; r < 4; r++) {
        const int i = r / 2 * 8 + lane / 4, j = lane % 4 * 2 + r % 2;
        Sum sum = (Sum)d[r];
        for (int k = 0; k < 8 * p; k++) {
            const int half = k / (4 * p), t = k % (4 * p) / p;
            sum += product(lanes[i % 8 * 4 + t][0], lanes[j * 4 + t][1], (half * 2 + i / 8) * p + k % p,
                           half * p + k % p);
        }
        d[r] = (D)sum;
    }
}

/* f16 and bf16 */
template <class E>
static inline void sim_mma_m16n8k16(const void *a, const void *b, float *d, int line = __builtin_LINE())
{
    sim_mma_m16n8<double>(2, 49, a, b, d, line,
                          [](const unsigned char *x, const unsigned char *y, int at_x, int at_y) {
                              return sim_element(E::TYPE, x, at_x) * sim_element(E::TYPE, y, at_y);
                          });
}

/* s8 */
static inline void sim_mma_m16n8k32(const void *a, const void *b, int32_t *d, int line = __builtin_LINE())
{
    sim_mma_m16n8<uint32_t>(4, 51, a, b, d, line,
                            [](const unsigned char *x, const unsigned char *y, int at_x, int at_y) {
                                return sim_byte(x, at_x) * sim_byte(y, at_y);
                            });
}

/* tf32 */
static inline void sim_mma_m16n8k8(const void *a, const void *b, float *d, int line = __builtin_LINE())
{
    sim_mma_m16n8<double>(1, 53, a, b, d, line,
                          [line](const unsigned char *x, const unsigned char *y, int at_x, int at_y) {
                              return sim_tf32(x, at_x, line) * sim_tf32(y, at_y, line);
                          });
}

/* mma.sync.m8n8k4 of f64: with g = lane / 4 and t = lane % 4, A is (row g, place t), B (column g, t), D's
   registers are (row g, columns 2t and 2t + 1). */
static inline void sim_mma_m8n8k4(const void *a, const void *b, double *d, int line = __builtin_LINE())
{
    unsigned char(*lanes)[2][32] = sim_offer(a, 8, b, 8, 54, line);
    const int lane = sim_block.thread % 32;
    for (int r = 0; r < 2; r++) {
        for (int k = 0; k < 4; k++) {
            double x, y;
            memcpy(&x, lanes[lane / 4 * 4 + k][0], 8);
            memcpy(&y, lanes[(lane % 4 * 2 + r) * 4 + k][1], 8);
            d[r] = __builtin_fma(x, y, d[r]);
        }
    }
}

/*------------------------------------------------------------------------------------------------------------
  launch
*/
template <class A> static inline void sim_call(const void *kernel, const void *args)
{
    (*(void (*const *)(A))kernel)(*(const A *)args);
}

static inline void sim_run_block()
{
    const int threads = sim_block.threads, wave_size = sim_block.wave_size;
    memset(sim_block.state, SIM_NEW, (size_t)threads);
    for (int first = 0, wave = 0; first < threads; first += wave_size, wave++) {
        memset(&sim_block.wave[wave], 0, sizeof sim_block.wave[wave]);
        sim_block.wave[wave].live = threads - first < wave_size ? threads - first : wave_size;
    }
    if (sim_order_of_threads == SIM_RANDOM) {
        sim_shuffle_order();
    }
    sim_block.runnable = threads;
    memset(sim_block.at_barrier, 0, sizeof sim_block.at_barrier);
    memset(sim_block.at_some, 0, sizeof sim_block.at_some);
    memset(sim_block.some, 0, sizeof sim_block.some);
    sim_block.at_cluster = sim_block.done = sim_block.position = 0;
    sim_block.lds_fresh = 0;
    sim_switch(sim_fiber_for(sim_next()));
}

/* name: what an emulator knows the kernel by. cluster: blocks that run beside each other. */
template <class A>
static inline simError_t sim_launch_named(const char *name, void (*kernel)(A), const A &args, int64_t grid_x,
                                          int32_t block_x, int32_t cluster, simStream_t stream)
{
    (void)stream;
    if (sim_device_count() == 0) {
        return simErrorNoDevice;
    }
    if (sim_in_kernel) {
        sim_die("a launch in a kernel");
    }
    if (sim_fail_launches > 0 && sim_good_launches-- <= 0) {
        sim_good_launches = 0;
        sim_fail_launches--;
        return sim_answer(simErrorLaunchFailure);
    }
    const int64_t most = sim_device.kind == 1 ? (int64_t)UINT32_MAX / (block_x < 1 ? 1 : block_x) : INT32_MAX;
    const int clusters = sim_device.kind == 2 && sim_device.major >= 9;
    if (grid_x < 1 || grid_x > most || block_x < 1 || block_x > SIM_BLOCK || cluster < 1 ||
        cluster > (clusters ? SIM_CLUSTER : 1) || grid_x % cluster != 0 || cluster * block_x > SIM_THREADS) {
        return sim_answer(simErrorInvalidConfiguration);
    }
    if (sim_emulator.ask != NULL) {
        return sim_emulate(name, &args, sizeof args, grid_x, block_x);
    }
    sim_fiber launcher;
    memset(&launcher, 0, sizeof launcher);
    sim_block.launcher = sim_block.running = &launcher;
    sim_block.call = sim_call<A>;
    sim_block.kernel = &kernel;
    sim_block.args = &args;
    const int threads = cluster * block_x;
    sim_block.threads = threads;
    sim_block.block_threads = block_x;
    sim_block.wave_size = sim_device.warpSize;
    for (int i = 0; i < threads; i++) {
        sim_block.order[i] = (uint16_t)(sim_order_of_threads == SIM_REVERSE ? threads - 1 - i : i);
    }
    gridDim = {(uint32_t)grid_x, 1, 1};
    blockDim = {(uint32_t)block_x, 1, 1};
    threadIdx = blockIdx = {0, 0, 0};
    sim_in_kernel = 1;
    for (int64_t block = 0; block < grid_x; block += cluster) {
        sim_block.first =
            (uint32_t)(sim_order_of_threads == SIM_REVERSE && !sim_in_order ? grid_x - cluster - block
                                                                            : block);
        sim_run_block();
        sim_check_lds();
    }
    sim_in_kernel = sim_in_order = 0;
    sim_block.lds_fresh = 0;
    return simSuccess;
}

template <class A>
static inline simError_t sim_launch(void (*kernel)(A), const A &args, int64_t grid_x, int32_t block_x,
                                    simStream_t stream)
{
    return sim_launch_named("", kernel, args, grid_x, block_x, 1, stream);
}

#endif /* CKCONV_TEST_SIM_H */
