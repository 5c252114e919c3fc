/* test_sim_order.cc - which work the blocks of a device of several dies take
   SPDX-License-Identifier: MIT

   The device's function is called as it is, with what the host prepares for it: each piece of work has one
   block, whatever their number, and the blocks of a die have neighbours. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wundefined-internal"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#define CKCI_SIMULATOR "sim.h"
#include "gpu/conv.h"
#include "sim.h"
#include "kernels/map.h"

static int passed, failed;

static void check(bool good, const char *what, int32_t blocks, int32_t dies)
{
    passed += good;
    failed += !good;
    if (!good) {
        printf("FAIL %d blocks on %d dies: %s\n", (int)blocks, (int)dies, what);
    }
}

static void test_order(int32_t blocks, int32_t dies)
{
    const ckci_gpu_order order = ckci_make_order(blocks, dies);
    static unsigned char taken[4096];
    int32_t twice = 0, outside = 0, apart = 0;
    memset(taken, 0, sizeof taken);
    for (int32_t block = 0; block < blocks; block++) {
        const int32_t work = ckci_k_in_order(order, block);
        if (work < 0 || work >= blocks) {
            outside++;
            continue;
        }
        twice += taken[work];
        taken[work] = 1;
        apart += block >= dies && work != ckci_k_in_order(order, block - dies) + 1;
    }
    check(outside == 0, "work that there is not", blocks, dies);
    check(twice == 0, "the same work twice", blocks, dies);
    check(apart == 0, "a die's blocks are no neighbours", blocks, dies);
}

int main()
{
    static const int32_t dies[] = {1, 2, 3, 4, 6, 7, 8, 16};
    for (int32_t d : dies) {
        for (int32_t blocks = 1; blocks < 200; blocks++) {
            test_order(blocks, d);
        }
        test_order(4095, d);
        test_order(4096, d);
    }
    for (int32_t d : dies) { /* as many as a grid can have */
        const int32_t most = INT32_MAX;
        const ckci_gpu_order order = ckci_make_order(most, d);
        check(ckci_k_in_order(order, 0) == 0, "the first work", most, d);
        check(ckci_k_in_order(order, (most - 1) / d * d + (most - 1) % d) < most, "beyond the last", most, d);
        const int32_t last = most % d == 0 ? most - 1 : most - 1 - most % d;
        check(ckci_k_in_order(order, last) == most - 1, "the last work", most, d);
    }
    printf("test_sim_order: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}
