#!/bin/sh
# test_libfuzzer.sh - builds fuzz_desc.c with clang's libFuzzer and sanitizers and lets it run for a while
# SPDX-License-Identifier: MIT
#
# From the environment: CLANG (default clang), BUILD (scratch folder, default build/test), INCLUDE (folder of
# ckconv.h, default the current one), CKCONV_TEST_FULL=1 (120 seconds instead of 15), CKCONV_TEST_QUICK=1 (6),
# FUZZ_SECONDS.

name=test_libfuzzer
CLANG=${CLANG:-clang}
BUILD=${BUILD:-build/test}
INCLUDE=${INCLUDE:-.}
here=$(dirname "$0")
dir=$BUILD/libfuzzer
seconds=15
case ${CKCONV_TEST_QUICK:-0} in
'' | 0) ;;
*) seconds=6 ;;
esac
case ${CKCONV_TEST_FULL:-0} in
'' | 0) ;;
*) seconds=120 ;;
esac
seconds=${FUZZ_SECONDS:-$seconds}

mkdir -p "$dir/corpus" || exit 1
finish() {
    echo "$name: $1 passed, $2 failed"
    [ "$2" -eq 0 ]
    exit
}

if ! command -v "$CLANG" >/dev/null 2>&1; then
    echo "skipped: clang not found"
    finish 0 0
fi
printf '%s\n' '#include <stddef.h>' 'int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);' \
    'int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) { return data == NULL && size; }' \
    >"$dir/probe.c"
if ! "$CLANG" -fsanitize=fuzzer "$dir/probe.c" -o "$dir/probe" >/dev/null 2>&1; then
    echo "skipped: clang has no libFuzzer"
    finish 0 0
fi
if ! "$CLANG" -std=c99 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
    -I"$INCLUDE" -I"$here" "$here/fuzz_desc.c" "$here/impl.c" -o "$dir/fuzz_desc" -lm >"$dir/log" 2>&1; then
    sed -n 1,20p "$dir/log"
    echo "FAIL fuzz_desc.c does not build"
    finish 0 1
fi
# Any bytes do as a beginning; long inputs reach deeper than the short ones that libFuzzer would start with.
for i in 1 3 5 7 11 13 17 19; do
    dd if="$INCLUDE/ckconv.h" of="$dir/corpus/seed$i" bs=512 count=1 skip=$i 2>/dev/null
done
# Inputs that failed once are tried first.
cp "$here"/fuzz/* "$dir/corpus/" || finish 0 1
# No OpenMP here, so a hang is a hang: 120 s for one input of at most 2 MFLOP.
if "$dir/fuzz_desc" -max_len=512 -len_control=0 -max_total_time="$seconds" -timeout=120 -seed=1 \
    -print_final_stats=1 -artifact_prefix="$dir/" "$dir/corpus" >"$dir/log" 2>&1; then
    echo "note: $(sed -n 's/^stat::number_of_executed_units: *//p' "$dir/log") inputs in $seconds s"
    finish 1 0
fi
grep -v '^#[0-9]\|NEW_FUNC' "$dir/log" | sed -n 1,40p
echo "FAIL an input fails; it is in $dir and runs with $dir/fuzz_desc FILE"
finish 0 1
