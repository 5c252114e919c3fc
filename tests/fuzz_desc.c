/* fuzz_desc.c - the same descriptions as test_fuzz.c, steered by libFuzzer:
     clang -g -O1 -fsanitize=fuzzer,address,undefined -I. tests/fuzz_desc.c tests/impl.c -o build/fuzz_desc -lm
     build/fuzz_desc -max_len=512 -max_total_time=60
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
