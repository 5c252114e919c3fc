/* test_sim_order.cc - which work blocks take: on a device of several dies, and of bwd_data's phases
   SPDX-License-Identifier: MIT

   The device's functions are called as they are, with what the host prepares for them: each piece of work has
   one block, whatever their number, and the blocks of a die have neighbours, of each phase as many. Phases
   come in an order in which none has more taps than the first, and the host counts what kernels find. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wundefined-internal"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#define CKCI_SIMULATOR "sim.h"
#include "gpu/phases.h"
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

/* Some phases of as many blocks each. */
static void test_order_of_phases(int32_t blocks, int32_t phases, int32_t dies)
{
    const ckci_gpu_order order = ckci_make_order(blocks, dies);
    static unsigned char taken[4096];
    int32_t twice = 0, others = 0, uneven = 0;
    memset(taken, 0, sizeof taken);
    for (int32_t block = 0; block < blocks * phases; block++) {
        const int32_t work = ckci_k_in_order(order, block), place = work - block / blocks * blocks;
        others += work / blocks != block / blocks;
        twice += taken[work]++;
        const int32_t die = block % blocks % dies, more = blocks % dies,
                      first = die * (blocks / dies) + (die < more ? die : more);
        uneven += place < first || place > first + blocks / dies;
    }
    check(others == 0, "work of another phase", blocks, dies);
    check(twice == 0, "the same work of a phase twice", blocks, dies);
    check(uneven == 0, "a die has more of a phase than its share", blocks, dies);
}

/* One axis, bwd_data. */
static void test_phases(int64_t input, int64_t filter, int64_t stride, int64_t dilation, int64_t pad)
{
    ckci_conv c;
    memset(&c, 0, sizeof c);
    c.op = CKCONV_BWD_DATA;
    for (int i = 0; i < 3; i++) {
        c.input[i] = c.output[i] = c.filter[i] = c.stride[i] = c.dilation[i] = 1;
    }
    c.input[2] = input;
    c.output[2] = (input + 2 * pad - (filter - 1) * dilation - 1) / stride + 1;
    c.filter[2] = filter;
    c.stride[2] = stride;
    c.dilation[2] = dilation;
    c.pad[2] = pad;
    const ckci_gpu_dim d = ckci_make_gpu_dim(&c, 2), one = ckci_make_gpu_dim(&c, 1), dim[3] = {one, one, d};
    int64_t sum = 0, most = 0, first = 0, seen = 0, same = 1;
    for (int32_t n = 0; n < d.phases; n++) {
        ckci_k_axis axis[3];
        ckci_k_find_axes(dim, n, axis);
        const ckci_axis host = ckci_map_axis(&c, 2, axis[2].write0);
        same = same && host.taps == axis[2].taps && ckci_taps_in_turn(&c, dim, n) == axis[2].taps &&
               (host.taps == 0 || (host.read0 == axis[2].read0 && host.read_tap == d.read_tap));
        sum += axis[2].taps;
        most = axis[2].taps > most ? axis[2].taps : most;
        first = n == 0 ? axis[2].taps : first;
        seen += (int64_t)1 << axis[2].write0;
    }
    const int32_t p = (int32_t)d.phases, s = (int32_t)stride;
    check(seen == ((int64_t)1 << p) - 1, "each phase once", p, s);
    check(same != 0, "host and kernels have the same phases", p, s);
    check(sum == filter || input < stride, "taps of all phases are the filter's", p, s);
    check(first == most || input < stride, "the first phase has most taps", p, s);
}

int main()
{
    for (int64_t stride = 1; stride <= 5; stride++) {
        for (int64_t filter = 1; filter <= 7; filter++) {
            for (int64_t dilation = 1; dilation <= 4; dilation++) {
                for (int64_t pad = 0; pad <= 5; pad++) {
                    test_phases(40 + pad, filter, stride, dilation, pad);
                    test_phases(3, filter, stride, dilation, (filter - 1) * dilation);
                }
            }
        }
    }
    static const int32_t dies[] = {1, 2, 3, 4, 6, 7, 8, 16};
    for (int32_t d : dies) {
        for (int32_t blocks = 1; blocks < 200; blocks++) {
            test_order(blocks, d);
        }
        test_order(4095, d);
        test_order(4096, d);
        for (int32_t phases = 1; phases < 9; phases++) {
            for (int32_t blocks = 1; blocks < 80; blocks += 3) {
                test_order_of_phases(blocks, phases, d);
            }
        }
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
