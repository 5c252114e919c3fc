#!/bin/sh
# test_compile_gpu.sh - ckconv.h with hipcc and nvcc as users call them, host and device
# SPDX-License-Identifier: MIT
#
# From the environment: BUILD (scratch folder, default build/test), INCLUDE (folder of ckconv.h, default the
# current one), HIPCC (default hipcc), NVCC (default nvcc), CKCONV_TEST_QUICK=1 (nvcc down to PTX). The
# sources are in tests/compile and examples. A warning is a failure.

name=test_compile_gpu
BUILD=${BUILD:-build/test}
INCLUDE=${INCLUDE:-.}
HIPCC=${HIPCC:-hipcc}
NVCC=${NVCC:-nvcc}
src=$(dirname "$0")/compile
examples=$(cd "$(dirname "$0")/../examples" && pwd)
dir=$BUILD/compile_gpu
passed=0
failed=0
. "$(dirname "$0")/shell.sh"

rm -rf "$dir"
mkdir -p "$dir" || exit 1

# The example behind macros for all words that the implementation hides: it compiles all the same.
hello=$dir/hello.c
sed -n 's/^#pragma push_macro("\(.*\)")$/#define \1 5/p' "$INCLUDE/ckconv.h" >"$hello"
echo "#include \"$examples/hello_gpu.c\"" >>"$hello"

# What ptxas only tells (where it waits for tensor cores, say) is no warning.
without_info() {
    "$@" >"$dir/said" 2>&1
    status=$?
    grep -v '^ptxas info' "$dir/said"
    return $status
}

if have "$HIPCC"; then
    # without optimisation, as for debuggers: with it test_amd.sh compiles device code
    quiet hipcc "$HIPCC" -x hip -std=c++17 --offload-arch=gfx90a -O0 -Wall -Wextra -I"$INCLUDE" \
        -c "$hello" -o "$dir/hip.o"
    # a program may hold several static copies: nothing of them is external, kernels and stubs included
    quiet "hipcc, CKCONV_STATIC" "$HIPCC" -x hip -std=c++17 --offload-arch=gfx90a --cuda-host-only -O0 \
        -Wall -Wextra -I"$INCLUDE" -c "$src/static_cc.cc" -o "$dir/hip_static.o"
    if have nm && nm "$dir/hip_static.o" >"$dir/log" && grep -q ckconv_k_ "$dir/log"; then
        if grep ' [A-TV-Z] .*ckconv_k_' "$dir/log" >"$dir/external"; then
            bad "CKCONV_STATIC leaves external kernels" "$dir/external"
        else
            good
        fi
    fi
else
    echo "skipped: hipcc not found"
fi
if have "$NVCC"; then
    output=-c
    [ -z "$quick" ] || output=-ptx
    quiet nvcc without_info "$NVCC" -x cu -std=c++17 -arch=sm_90a -O2 -I"$INCLUDE" "$output" "$hello" \
        -o "$dir/cuda.o"
else
    echo "skipped: nvcc not found"
fi
echo "$name: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
