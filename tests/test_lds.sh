#!/bin/sh
# test_lds.sh - tests/lds.h says what compilers make of the kernels' LDS
# SPDX-License-Identifier: MIT
#
# From the environment: BUILD (default build), CLANG (default: the newest that knows the target). The device
# pass is asked for the sizes alone, a second for each target, without the libraries of CUDA or HIP.

name=test_lds
BUILD=${BUILD:-build}
here=$(dirname "$0")
dir=$BUILD/lds
passed=0
failed=0
. "$here/shell.sh"
mkdir -p "$dir" || exit 1
{
    echo '#define CKCONV_PART 0'
    echo '#include "gpu/table.h"'
    echo '#include "kernels/table.h"'
    echo '#define CKCI_ROW(NAME, KEEP, PART, ARGS, THREADS, ...) \'
    echo '    extern "C" __device__ const unsigned long long lds_##NAME = sizeof(__VA_ARGS__::lds);'
    echo 'CKCI_GPU_KERNELS(CKCI_ROW)'
} >"$dir/sizes.cu"

# sizes CLANG TARGET: KERNEL BYTES in lines, to $dir/TARGET.is
sizes() {
    case $2 in
    sm_*)
        "$1" -x cuda --cuda-device-only --cuda-gpu-arch="$2" -nocudainc -nocudalib -std=c++17 -O0 \
            -Wno-unknown-cuda-version -D__CUDACC__ -I"$here/cuda" -I"$here/../src" -S "$dir/sizes.cu" \
            -o "$dir/$2.s" >"$dir/log" 2>&1
        ;;
    *) # clang 22 no longer defines a macro that headers as old as HIP 5.2 read
        wave=
        case $1 in *-22) wave=-D__AMDGCN_WAVEFRONT_SIZE=64 ;; esac
        "$1" $wave -x hip --cuda-device-only --cuda-gpu-arch="$2" --no-gpu-bundle-output -nogpulib \
            -std=c++17 -O0 -I"$here/../src" -S -emit-llvm "$dir/sizes.cu" -o "$dir/$2.s" >"$dir/log" 2>&1
        ;;
    esac && sed -n -e 's/.*\.u64 lds_\([a-z0-9_]*\) = \([0-9]*\);.*/\1 \2/p' \
        -e 's/^@lds_\([a-z0-9_]*\) = .*constant i64 \([0-9]*\),.*/\1 \2/p' "$dir/$2.s" >"$dir/$2.is"
}

# one_target TARGET COLUMN
one_target() {
    for clang in ${CLANG:-clang++-19 clang++-22 clang++}; do
        command -v "$clang" >/dev/null 2>&1 || continue
        if sizes "$clang" "$1"; then
            sed -n 's/^    {"\([a-z0-9_]*\)", {\([0-9, ]*\)}},$/\1 \2/p' "$here/lds.h" | tr -d , |
                awk -v column="$2" '{ print $1, $(column + 1) }' >"$dir/$1.want"
            check "$1: no kernels" [ "$(wc -l <"$dir/$1.is")" -gt 100 ]
            check "$1: tests/lds.h says otherwise (<) than $clang (>): $(
                diff "$dir/$1.want" "$dir/$1.is" | grep '^[<>]' | head -n 6 | tr '\n' ' ')" \
                cmp -s "$dir/$1.want" "$dir/$1.is"
            return
        fi
    done
    echo "skipped: $1 (no clang here compiles for it)"
}

one_target sm_80 1
one_target sm_90a 1
one_target gfx942 2
one_target gfx1100 3
one_target gfx1201 4
one_target gfx950 5
echo "$name: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
