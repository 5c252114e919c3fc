#!/bin/sh
# test_switches.sh - what build switches leave out, and what they must not change
# SPDX-License-Identifier: MIT
#
# From the environment: CC, CXX (defaults cc, c++), BUILD (scratch folder, default build/test), INCLUDE
# (folder of ckconv.h, default the current one). Of each set of switches: it compiles as C99 and C++17 without
# a warning; plans of tests/compile/walk.c are those of the whole build, letter for letter, or name a switch
# of the set; kernels are chosen for GPUs without one. Some sets compute PyTorch's vectors, one of them on the
# simulated GPU. Parts: each kernel is in one. With CKCONV_TEST_QUICK=1 most sets of one switch are only read
# by the compiler, as C++ only sets of three; fewer sets of two, and none is simulated.

name=test_switches
CC=${CC:-cc}
CXX=${CXX:-c++}
BUILD=${BUILD:-build/test}
INCLUDE=${INCLUDE:-.}
tests=$(dirname "$0")
src=$tests/compile
dir=$BUILD/switches
passed=0
failed=0
. "$tests/shell.sh"

rm -rf "$dir"
mkdir -p "$dir" || exit 1
strict="-Wall -Wextra -Wshadow -pedantic -Werror -I$INCLUDE"

# set_of LEAST SWITCH...: plans that must be left, at least
set_of() {
    least=$1
    shift
    switches=$*
    flags=$(echo "$switches" | sed 's/CKCONV_/-D&/g')
    if [ $# -gt 2 ] || { [ $# -gt 1 ] && [ -z "$quick" ]; }; then
        # shellcheck disable=SC2086
        quiet "$switches as C++" "$CXX" -std=c++17 -x c++ $strict $flags -fsyntax-only "$src/impl.c"
    fi
    read_times
    before=$spent
    # shellcheck disable=SC2086
    quiet "$switches" "$CC" -std=c99 -O0 $strict $flags -c "$src/impl.c" -o "$dir/set.o"
    read_times
    if ! "$CC" "$dir/walk.o" "$dir/set.o" -o "$dir/walk" -lm >"$dir/log" 2>&1; then
        bad "$switches: does not link" "$dir/log"
        return
    fi
    "$dir/walk" >"$dir/set.txt"
    LC_ALL=C awk -v switches=" $switches " '
        NR == FNR { whole[FNR] = $0; next }
        $0 == whole[FNR] { same++; next }
        match($0, /was left out of this build by CKCONV_[A-Z0-9_]+$/) {
            n = split($0, word, " ")
            if (index(switches, " " word[n] " ")) { next }
        }
        bad++ < 5 { print; print "    but the whole: " whole[FNR] }
        END { print same + 0 > "/dev/stderr" }' "$dir/whole.txt" "$dir/set.txt" >"$dir/log" 2>"$dir/same"
    if [ -s "$dir/log" ]; then
        bad "$switches: other plans" "$dir/log"
    elif [ "$(cat "$dir/same")" -lt "$least" ]; then
        bad "$switches: only $(cat "$dir/same") plans are left, not $least"
    else
        good
    fi
    echo "note: $(echo $((spent - before)) | awk '{ printf "%.1f", $1 / 100 }') s at -O0," \
        "$(size "$dir/set.o" 2>/dev/null | awk 'NR == 2 { print int($1 / 1000) }') kB: $switches"
}

# golden OBJECT TEXT [VARIABLE=VALUE]...: PyTorch's vectors, of what it holds
golden() {
    object=$1
    text=$2
    shift 2
    if [ ! -e "$dir/golden.o" ]; then
        "$CC" -std=c99 -O1 -I"$INCLUDE" -I"$tests" -c "$tests/test_golden.c" -o "$dir/golden.o" || return
    fi
    "$CXX" "$dir/golden.o" "$object" -o "$dir/golden" -lm >"$dir/log" 2>&1 &&
        env CKCONV_TEST_SUBSET=1 "$@" "$dir/golden" "$tests/golden" >"$dir/log" 2>&1
    status=$?
    count=$(sed -n 's/^test_golden: \([0-9]*\) passed, 0 failed$/\1/p' "$dir/log")
    if [ $status -eq 0 ] && [ "${count:-0}" -gt 300 ]; then
        good
    else
        bad "golden vectors: $text" "$dir/log"
    fi
}

# error TEXT SWITCH...: must not compile, and say TEXT
error() {
    text=$1
    shift
    if "$CC" -std=c99 "$@" -I"$INCLUDE" -fsyntax-only "$src/impl.c" >"$dir/log" 2>&1; then
        bad "$*: compiles, but must not"
    elif grep -q "$text" "$dir/log"; then
        good
    else
        bad "$*: does not say '$text'" "$dir/log"
    fi
}

# kernels_of [FLAG]...: the kernels that a compilation defines, one a line, as the preprocessor expands the
# table for the simulator
kernels_of() {
    "$CXX" -E -P -std=c++17 -I"$INCLUDE" -I"$tests" "$@" "$tests/sim_impl.cc" 2>/dev/null |
        grep -o 'void ckconv_k_[a-z0-9_]* *( *const' | sed 's/^void //; s/ *(.*//' | LC_ALL=C sort
}

test_parts() {
    kernels_of >"$dir/all.kernels"
    : >"$dir/parts.all"
    for part in 1 2 3 4; do
        kernels_of -DCKCONV_PART=$part >"$dir/part$part.kernels"
        if [ ! -s "$dir/part$part.kernels" ]; then
            bad "part $part has no kernels"
        fi
        cat "$dir/part$part.kernels" >>"$dir/parts.all"
    done
    LC_ALL=C sort "$dir/parts.all" >"$dir/parts.kernels"
    if [ -s "$dir/all.kernels" ] && cmp -s "$dir/all.kernels" "$dir/parts.kernels"; then
        good
    else
        diff "$dir/all.kernels" "$dir/parts.kernels" >"$dir/log"
        bad "each kernel in one part" "$dir/log"
    fi
    kernels_of -DCKCONV_ONLY_BWD_WEIGHT -DCKCONV_ONLY_F16 -DCKCONV_NO_CHANNELS_FIRST >"$dir/few.kernels"
    few=$(wc -l <"$dir/few.kernels")
    echo "note: $(wc -l <"$dir/all.kernels") kernels; bwd_weight, f16, channels last: $few"
    if [ "$few" -eq 0 ] || grep -q 'gather\|_f64\|plane\|norm\|pair\|move\|sheet' "$dir/few.kernels"; then
        bad "kernels of bwd_weight, f16, channels last" "$dir/few.kernels"
    else
        good
    fi
}

quiet "walk" "$CC" -std=c99 -O1 $strict -c "$src/walk.c" -o "$dir/walk.o"
quiet "whole" "$CC" -std=c99 -O0 $strict -c "$src/impl.c" -o "$dir/whole.o"
"$CC" "$dir/walk.o" "$dir/whole.o" -o "$dir/walk" -lm && "$dir/walk" >"$dir/whole.txt"
if [ "$(wc -l <"$dir/whole.txt")" -eq 3500 ]; then
    good
else
    bad "the walk has not 3500 lines"
fi

for switch in F64 F32 F16 BF16 I8 FP8 FWD BWD_DATA BWD_WEIGHT CONV_CONV GROUPNORM TRANSFORM CHANNELS_FIRST \
    DEPTHWISE CPU; do
    case $quick$switch in
    1DEPTHWISE | 1CPU | [!1]*) set_of 1900 CKCONV_NO_$switch ;;
    *)
        # shellcheck disable=SC2086
        quiet "CKCONV_NO_$switch" "$CC" -std=c99 $strict -DCKCONV_NO_$switch -fsyntax-only "$src/impl.c"
        ;;
    esac
done
set_of 1000 CKCONV_ONLY_F16 CKCONV_ONLY_BF16
golden "$dir/set.o" "f16 and bf16"
set_of 50 CKCONV_ONLY_BWD_WEIGHT CKCONV_ONLY_F16 CKCONV_ONLY_CHANNELS_LAST CKCONV_NO_CPU
set_of 50 CKCONV_ONLY_FWD CKCONV_ONLY_BF16 CKCONV_NO_CPU
if [ -z "$quick" ]; then
    set_of 20 CKCONV_ONLY_FWD CKCONV_ONLY_I8
    set_of 20 CKCONV_ONLY_BWD_DATA CKCONV_ONLY_FP8
    set_of 20 CKCONV_ONLY_CONV_CONV CKCONV_ONLY_F64
fi
set_of 300 CKCONV_ONLY_GROUPNORM
set_of 25 CKCONV_ONLY_BWD_DATA CKCONV_ONLY_F32 CKCONV_NO_DEPTHWISE

error 'leave no type' -DCKCONV_ONLY_F16 -DCKCONV_NO_F16
error 'leave no operation' -DCKCONV_ONLY_FWD -DCKCONV_NO_FWD
error 'CKCONV_PART must be' -DCKCONV_PART=5
error 'CKCONV_STATIC' -DCKCONV_PART=1 -DCKCONV_STATIC
test_parts

if [ -z "$quick" ]; then
    # shellcheck disable=SC2086
    quiet "simulator" "$CXX" -std=c++17 -O1 -Wall -Wextra -Werror -I"$INCLUDE" -I"$tests" \
        -DCKCONV_ONLY_BWD_WEIGHT -DCKCONV_ONLY_F16 -DCKCONV_ONLY_CHANNELS_LAST -DCKCONV_NO_CPU \
        -c "$tests/sim_impl.cc" -o "$dir/sim.o"
    for target in gfx942 sm_90; do
        golden "$dir/sim.o" "bwd_weight, f16, channels last on $target" CKCONV_TEST_ENGINE=gpu \
            CKCONV_SIM_TARGET=$target
    done
fi

echo "$name: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
