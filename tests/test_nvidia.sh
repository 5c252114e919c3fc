#!/bin/sh
# test_nvidia.sh - the GPU code compiled for NVIDIA targets by clang, down to PTX, without CUDA
# SPDX-License-Identifier: MIT
#
# From the environment: TARGETS (default sm_70 sm_80 sm_90a; with CKCONV_TEST_QUICK=1 sm_90a), BUILD (default
# build), INCLUDE (folder of ckconv.h, default the current one), CLANG (default: the newest that knows the
# target). tests/cuda stands for CUDA's header. nvcc has the last word: make GPU=cuda test-gpu.
#
# Leaves $BUILD/nvidia/TARGET.ptx.

name=test_nvidia
BUILD=${BUILD:-build}
INCLUDE=${INCLUDE:-.}
here=$(dirname "$0")
dir=$BUILD/nvidia
passed=0
failed=0
. "$here/shell.sh"
mkdir -p "$dir" || exit 1

# compile CLANG TARGET OUTPUT [FLAGS...]: what nvcc defines is defined here; no word may come of it
compile() {
    cc=$1
    target=$2
    output=$3
    shift 3
    features=
    case $target in sm_90a) features=-D__CUDA_ARCH_FEAT_SM90_ALL ;; esac
    "$cc" -x cuda --cuda-device-only --cuda-gpu-arch="$target" -nocudainc -nocudalib -std=c++17 -O0 \
        -Wall -Wextra -Wno-unknown-cuda-version -D__CUDACC__ $features -I"$here/cuda" -I"$INCLUDE" \
        -S "$@" -o "$output" \
        >"$dir/log" 2>&1 && [ ! -s "$dir/log" ]
}

# knows TARGET: finds $clang
knows() {
    printf '#include <cuda_runtime.h>\n__global__ void probe() { __syncthreads(); __syncwarp(); }\n' \
        >"$dir/probe.cu"
    for clang in ${CLANG:-clang++-22 clang++-19 clang++-16 clang++}; do
        if command -v "$clang" >/dev/null 2>&1 && compile "$clang" "$1" "$dir/probe.ptx" "$dir/probe.cu"; then
            return 0
        fi
    done
    return 1
}

# has TARGET PATTERN, lacks TARGET PATTERN: instructions of its PTX
has() {
    grep -q "$2" "$dir/$1.ptx"
}

lacks() {
    ! has "$1" "$2"
}

# One target: all kernels, the instructions of its matrix unit, and none that it does not have.
one_target() {
    if ! knows "$1"; then
        echo "skipped: $1 (no clang here compiles for it)"
        return
    fi
    printf '#define CKCONV_IMPLEMENTATION\n#include "ckconv.h"\n' >"$dir/impl.cu"
    if ! compile "$clang" "$1" "$dir/$1.ptx" "$dir/impl.cu"; then
        sed -n '1,12s/^/    /p' "$dir/log"
        check "$1: $clang compiles without a word" false
        return
    fi
    kernels=$(grep -c '\.entry ckconv_k_' "$dir/$1.ptx")
    echo "note: $1: $clang, $kernels kernels"
    check "$1: fewer kernels than the table has" [ "$kernels" -ge "$rows" ]
    case $1 in
    sm_70)
        check "$1: instructions of a later matrix unit" lacks "$1" 'mma\.\|ldmatrix\|cp\.async'
        ;;
    sm_80)
        check "$1: no mma.sync" has "$1" 'mma\.sync.*f16'
        check "$1: no mma.sync of tf32" has "$1" 'mma\.sync.*tf32'
        check "$1: no mma.sync of f64" has "$1" 'mma\.sync.*f64'
        check "$1: no cp.async" has "$1" 'cp\.async'
        check "$1: instructions of sm_90" lacks "$1" 'wgmma\|stmatrix'
        ;;
    sm_90a)
        check "$1: no wgmma" has "$1" 'wgmma\.mma_async.*bf16'
        check "$1: no mma.sync" has "$1" 'mma\.sync.*s8'
        ;;
    esac
}

# At least so many kernels as rows that stand in the table one by one.
rows=$(cat "$INCLUDE"/ckconv.h | grep -c '^    X([a-z].*, ckci_gpu_[a-z_]*, ')
check "the table of kernels was not found" [ "$rows" -gt 20 ]
all="sm_70 sm_80 sm_90a"
[ -z "$quick" ] || all=sm_90a
for target in ${TARGETS:-$all}; do
    one_target "$target"
done
echo "$name: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
