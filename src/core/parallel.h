/*------------------------------------------------------------------------------------------------------------
  >>core-parallel
  Work items on threads: the only place that knows OpenMP. Items own what they write, so any number of threads
  gives the same bits. A thread begins with a share of its own, the same one in every call, and then helps the
  others: caches keep what it touched before, and uneven items do not leave threads idle. Scratch comes from
  workspace or from the thread's stack; nothing is allocated.
*/
#pragma once
#include "core/base.h"
#include "core/math.h"

/* Runs `count` work items on at most `threads` threads, each with `bytes` of scratch: of memory, or a block
   of CKCI_STACK bytes on the stack when memory is NULL, or none when bytes is 0. This is the only place that
   knows OpenMP. Items may run in any order and on any thread, so an item owns all that it writes. A thread
   begins with a share of its own, the same one in every call, since its caches hold what it wrote or read
   last time; then it helps with the others. */
typedef void (*ckci_item)(const void *context, int64_t item, unsigned char *scratch);

/* Not inlined: else its block would stay on the stack under whatever its caller calls next. */
CKCI_APART void ckci_run_on_stack(ckci_item run, const void *context, int64_t item)
{
    union {
        unsigned char bytes[CKCI_STACK];
        double align;
    } block;
    run(context, item, block.bytes);
}

/* The same with the block of a group norm's workspace, under which its items have theirs. */
CKCI_APART void ckci_run_on_little_stack(ckci_item run, const void *context, int64_t item)
{
    union {
        unsigned char bytes[CKCI_LITTLE_STACK];
        double align;
    } block;
    run(context, item, block.bytes);
}

CKCI_FN void ckci_run_item(ckci_item run, const void *context, int64_t item, unsigned char *memory,
                           int64_t bytes, int thread)
{
    if (bytes == 0) {
        run(context, item, NULL);
    } else if (memory) {
        run(context, item, memory + bytes * thread);
    } else {
        ckci_run_on_stack(run, context, item);
    }
}

/* Shares at most; threads beyond that begin in another's. They cost 4 KiB of stack. */
enum { CKCI_SHARES = 64 };

/* Where share i of `shares` begins */
CKCI_FN int64_t ckci_share(int64_t count, int32_t shares, int32_t i)
{
    return count / shares * i + ckci_min(i, count % shares);
}

CKCI_FN void ckci_parallel(int32_t threads, int64_t count, ckci_item run, const void *context,
                           unsigned char *memory, int64_t bytes)
{
#if defined(_OPENMP) && _OPENMP >= 201107
    if (threads > 1 && count > 1) {
        int64_t next[CKCI_SHARES][8]; /* no two in a cache line */
        int32_t team = count < threads ? (int32_t)count : threads;
        int32_t shares = team < CKCI_SHARES ? team : CKCI_SHARES;
        for (int32_t i = 0; i < shares; i++) {
            next[i][0] = ckci_share(count, shares, i);
        }
#pragma omp parallel num_threads(team)
        for (int32_t i = 0; i < shares; i++) {
            int32_t thread = omp_get_thread_num(), share = (thread + i) % shares;
            int64_t end = ckci_share(count, shares, share + 1), item;
            for (;;) {
#pragma omp atomic capture
                item = next[share][0]++;
                if (item >= end) {
                    break;
                }
                ckci_run_item(run, context, item, memory, bytes, thread);
            }
        }
        return;
    }
#endif
    (void)threads;
    for (int64_t item = 0; item < count; item++) {
        ckci_run_item(run, context, item, memory, bytes, 0);
    }
}
