#!/bin/sh
# test_driver.sh - what the command-line driver answers to options that do not fit, and on simulated GPUs
# SPDX-License-Identifier: MIT
#
# From the environment: BUILD (folder of the programs ckconv and ckconv-sim, default build).

name=test_driver
here=$(dirname "$0")
BUILD=${BUILD:-build}
cli=$BUILD/ckconv
sim=$BUILD/ckconv-sim
passed=0
failed=0

# expect STATUS WORD COMMAND...: the exit status, and a word of what is printed
expect() {
    status=$1
    word=$2
    shift 2
    text=$("$@" 2>&1)
    got=$?
    case $text in
    *"$word"*) found=1 ;;
    *) found=0 ;;
    esac
    if [ "$got" -eq "$status" ] && [ "$found" -eq 1 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $*: status $got instead of $status, or without '$word': $text"
    fi
}

conv="--n 2 --k 6 --c 4 --filter 3,3 --input 9,10 --pad 1,1"
if [ -x "$cli" ]; then
    printf '# of a test\nmatrix 3\nbytes 2\n' >"$BUILD/costs.txt"
    printf 'matrix 3\nbyte 2\n' >"$BUILD/costs_bad.txt"
    # shellcheck disable=SC2086
    {
        expect 0 "# modelled: " "$cli" list fwd $conv --target gfx942 --costs "$BUILD/costs.txt"
        expect 2 "line 2: 'byte'" "$cli" list fwd $conv --target gfx942 --costs "$BUILD/costs_bad.txt"
        expect 2 "cannot be opened" "$cli" list fwd $conv --target gfx942 --costs "$BUILD/no/such"
        expect 2 "only for the engine gpu" "$cli" list fwd $conv --engine cpu --costs "$BUILD/costs.txt"
        expect 2 "--fit: only for the engine gpu" "$cli" find fwd --fit $conv --engine cpu --repeats 1
        expect 2 "only with --fit" "$cli" find fwd --cases "$here/../bench/cases.tsv"
        expect 2 "--save" "$cli" find fwd --fit $conv --save "$BUILD/choices.txt"
        expect 0 "compiler " "$cli" info
    }
    # shellcheck disable=SC2086
    for command in verify bench find; do
        expect 2 "--target: $command computes" "$cli" $command fwd $conv --target gfx942
    done
    # shellcheck disable=SC2086
    {
        expect 2 "--dump-launch" "$cli" run fwd $conv --target gfx942 --in x --wei w --out y
        expect 0 "gpu_" "$cli" list fwd $conv --target gfx942:sramecc+:xnack-
        expect 2 "plain NCHW is NGCHW" "$cli" list fwd $conv --layout NCHW
        expect 2 "f16" "$cli" list fwd $conv --dtype half
        expect 2 "bias_relu" "$cli" list fwd $conv --epilogue bias_foo
        expect 2 "gelu" "$cli" list fwd $conv --op-in relux
        expect 2 "one dimension" "$cli" list fwd --n 2 --k 6 --c 4 --filter 3,3 --input 9
        expect 2 "given twice" "$cli" list fwd $conv --n 3
        expect 0 "on the host" "$cli" list fwd $conv --target sm_90
        expect 0 "usage" "$cli" verify fwd $conv --help
        # as exact as f64 allows, however long the sum: ref's too
        expect 0 "verified" "$cli" verify groupnorm_fwd --g 1 --n 2 --c 12 --input 28,28 --layout GNHWC \
            --dtype f64 --engine cpu --act silu
        expect 0 "verified" "$cli" verify groupnorm_bwd --g 4 --n 2 --c 3 --input 9,8 --act relu --per-image
        expect 2 "GELU" "$cli" verify groupnorm_fwd --g 1 --n 2 --c 12 --input 28,28 --act tanh
        expect 2 "the problem needs (1,12)" "$cli" run groupnorm_fwd --g 4 --n 1 --c 3 --input 5,4,4 \
            --per-image --in "$here/golden/gn000.in.npy" --gamma "$here/golden/gn000.gamma.npy" \
            --out "$BUILD/y.npy"
    }
else
    echo "skipped: no $cli (make examples)"
fi
if [ -x "$sim" ]; then
    # shellcheck disable=SC2086
    {
        expect 2 "sm_90" env CKCONV_SIM_TARGET=banana "$sim" verify fwd $conv
        expect 0 "cpu_" env CKCONV_SIM_TARGET=none "$sim" verify fwd $conv
        expect 0 "gpu_" env CKCONV_SIM_TARGET=gfx942 "$sim" verify fwd $conv --device 1
        expect 2 "there are 2 GPUs" env CKCONV_SIM_TARGET=gfx942 "$sim" verify fwd $conv --device 2
        # one product: what matrix units leave out of bf16x3 is not among many others
        expect 0 "verified" env CKCONV_SIM_TARGET=sm_90 "$sim" verify fwd --n 1 --k 8 --c 1 --filter 1,1 \
            --input 8,8 --dtype f32 --compute-in bf16x3 --compute-wei bf16x3 --engine gpu \
            --instance gpu_mma_fwd_64x64
    }
else
    echo "skipped: no $sim (make sim)"
fi
echo "$name: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
