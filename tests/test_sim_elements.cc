/* test_sim_elements.cc - the element operations of kernels/epilogue.h beside those of core/element.h
   SPDX-License-Identifier: MIT

   The device's functions are called as they are, without a kernel around them: a row that they forget returns
   its argument, which kernels store without a word. */
/* What gpu/ asks of the planner is not here, nor used. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wundefined-internal"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#define CKCI_SIMULATOR "sim.h"
#include "gpu/conv.h"
#include "sim.h"
#include "kernels/epilogue.h"

static int passed, failed;

/* One operation at x, with D tensors d. OPS: by the functions that compute so many of them. */
template <int OPS, class T> static T device(const ckconv_element_op &op, T x, const double *d, int num_d)
{
    ckci_gpu_target o;
    T kept = 0;
    memset(&o, 0, sizeof o);
    o.t.op = op;
    o.num_d = num_d;
    ckci_set_form(&o);
    for (int i = 0; i < num_d; i++) {
        ckci_k_extra(o.d[i].how, (T)d[i], x, kept);
    }
    return ckci_k_element<OPS>(op, x, kept);
}

template <int OPS, class T> static void test_row(const ckci_element_row *row, const char *what)
{
    const double unit = sizeof(T) == 4 ? 1e-5 : 1e-13;
    double moved = 0;
    for (int i = 0; i < 200; i++) {
        const ckconv_element_op op = {row->kind, 0, row->alpha ? -0.75 : 0, row->beta ? 1.25 : 0};
        const double x = (i % 41 - 20) * 0.25 + 0.01, d[4] = {i % 7 - 2.9, i % 5 - 1.8, i % 3 - 0.9, 0.5};
        const double want = ckci_element_d(&op, x, d, row->most);
        const double got = (double)device<OPS, T>(op, (T)x, d, row->most);
        const bool good = fabs(got - want) <= unit * (8 + fabs(want));
        moved += fabs(want - x);
        passed += good;
        failed += !good;
        if (!good) {
            printf("FAIL %s, %s of %d bytes: at %g %g, want %g\n", row->name, what, (int)sizeof(T), x, got,
                   want);
            return;
        }
    }
    if (moved == 0 && row->kind != CKCONV_PASS && row->kind != CKCONV_ACCUMULATE) {
        printf("FAIL %s does nothing\n", row->name);
        failed++;
    }
}

int main()
{
    const ckci_element_row *row;
    int few = 0;
    for (int32_t i = 0; (row = ckci_element_at(i)) != NULL; i++) {
        test_row<CKCI_K_OPS_ALL, float>(row, "all");
        test_row<CKCI_K_OPS_ALL, double>(row, "all");
        if (row->few == 1) { /* without gates */
            test_row<CKCI_K_OPS_FEW, float>(row, "few");
            test_row<CKCI_K_OPS_FEW, double>(row, "few");
        }
        if (row->few && row->kind != CKCONV_GELU) {
            test_row<CKCI_K_OPS_PLAIN, float>(row, "plain");
        }
        few += row->few == 1;
    }
    if (few < 10) {
        printf("FAIL %d are few\n", few);
        failed++;
    }
    printf("test_sim_elements: %d passed, %d failed\n", passed, failed);
    return failed != 0;
}
