/* test_fuzz.c - random descriptions, small and wild: planned, run when small, compared with ref
   SPDX-License-Identifier: MIT

   test_fuzz            as many seeds as 20 seconds hold (CKCONV_TEST_FULL=1: 120 seconds,
                        CKCONV_TEST_QUICK=1: 6)
   test_fuzz SEED       this one seed: what a failing line says
   test_fuzz FIRST LAST the seeds between */
#define _POSIX_C_SOURCE 200809L
#include "fuzz_driver.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { INPUT = 512 };

static volatile sig_atomic_t running; /* the seed, for the handler */

/* A crash or a hang ends the program, but not without the seed. */
static void on_signal(int signal_number)
{
    char line[160];
    const int length = snprintf(
        line, sizeof line, "FAIL seed %ld (test_fuzz %ld): signal %d%s\ntest_fuzz: %ld passed, %ld failed\n",
        (long)running, (long)running, signal_number, signal_number == SIGALRM ? ", it hangs" : "",
        test.passed, test.failed + 1);
    if (length > 0 && write(STDOUT_FILENO, line, (size_t)length) < 0) {
        _exit(2);
    }
    _exit(1);
}

/* The bytes of a seed. A short input ends in zeros, which are plain defaults. */
static size_t make_input(uint64_t seed, uint8_t *input)
{
    test_rng scramble = test_seed(seed); /* neighbouring seeds must have nothing in common */
    test_rng r = test_seed(test_next(&scramble));
    const size_t size = test_below(&r, 4) == 0 ? (size_t)test_below(&r, INPUT) : INPUT;
    for (size_t i = 0; i < size; i++) {
        input[i] = (uint8_t)test_below(&r, 256);
    }
    return size;
}

static void run_seed(uint64_t seed)
{
    uint8_t input[INPUT];
    const size_t size = make_input(seed, input);
    running = (sig_atomic_t)seed;
    const int failed = fuzz_one(input, size);
    CHECK_MSG(!failed, "seed %llu (test_fuzz %llu): %s", (unsigned long long)seed, (unsigned long long)seed,
              fuzz.text);
}

int main(int argc, char **argv)
{
    test_begin("test_fuzz");
    signal(SIGALRM, on_signal);
    if (!TEST_ASAN) { /* the sanitizer tells more */
        signal(SIGSEGV, on_signal);
        signal(SIGBUS, on_signal);
        signal(SIGFPE, on_signal);
        signal(SIGABRT, on_signal);
    }
    if (argc > 1) {
        const uint64_t first = strtoull(argv[1], NULL, 10),
                       last = argc > 2 ? strtoull(argv[2], NULL, 10) : first;
        for (uint64_t seed = first; seed <= last; seed++) {
            alarm(60);
            run_seed(seed);
        }
        return test_end();
    }
    const double limit = test_full() ? 120.0 : test_variable("CKCONV_TEST_QUICK") ? 6.0 : 20.0;
    const time_t start = time(NULL);
    uint64_t seed = 1;
    while ((difftime(time(NULL), start) < limit && seed <= 10000000) ||
           ((fuzz.ran <= 200 || fuzz.refused <= 200) && seed <= 100000)) { /* a slow machine */
        alarm(60);
        for (int i = 0; i < 100; i++) {
            run_seed(seed++);
        }
    }
    printf("note: %llu descriptions: %ld planned, %ld of them run, %ld refused\n",
           (unsigned long long)seed - 1, fuzz.planned, fuzz.ran, fuzz.refused);
    CHECK_MSG(fuzz.ran > 200, "only %ld problems were small enough to run", fuzz.ran);
    CHECK_MSG(fuzz.refused > 200, "only %ld problems were refused", fuzz.refused);
    return test_end();
}
