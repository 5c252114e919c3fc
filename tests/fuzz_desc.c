/* fuzz_desc.c - the same descriptions as test_fuzz.c, steered by libFuzzer (test_libfuzzer.sh builds and
   runs it)
   SPDX-License-Identifier: MIT */
#include "fuzz_driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (test.name == NULL) {
        test_begin("fuzz_desc");
    }
    if (fuzz_one(data, size)) {
        printf("%s\n", fuzz.text);
        abort();
    }
    return 0;
}
