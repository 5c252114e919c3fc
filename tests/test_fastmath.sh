#!/bin/sh
# test_fastmath.sh - the implementation compiled with -ffast-math and its parts, and for 32-bit x87: the same
# results
# SPDX-License-Identifier: MIT
#
# From the environment: BUILD (scratch folder, default build/test), INCLUDE (folder of ckconv.h, default the
# current one). The tests' own code is compiled without those flags, and programs are linked without them, so
# that subnormals stay. gcc and clang are both used where they exist; with CKCONV_TEST_QUICK=1 gcc alone,
# without the parts of -ffast-math, and golden vectors alone on x87.

name=test_fastmath
BUILD=${BUILD:-build/test}
INCLUDE=${INCLUDE:-.}
tests=$(dirname "$0")
dir=$BUILD/fastmath
passed=0
failed=0
. "$tests/shell.sh"

rm -rf "$dir"
mkdir -p "$dir" || exit 1

# build COMPILER FLAGS PROGRAM...: the implementation with FLAGS, then each test program with it, and run them
build() {
    compiler=$1
    flags=$2
    wide=
    case $flags in *-m32*) wide=-m32 ;; esac
    shift 2
    # shellcheck disable=SC2086
    if ! quiet "$compiler $flags" "$compiler" $flags -I"$INCLUDE" -c "$tests/impl.c" -o "$dir/impl.o"; then
        return
    fi
    for program in "$@"; do
        # shellcheck disable=SC2086
        quiet "$program" "$compiler" $wide -std=c99 -O1 -I"$INCLUDE" -I"$tests" "$tests/$program.c" \
            "$dir/impl.o" -o "$dir/$program" -lm || continue
        case $program in test_groupnorm) part=values ;; *) part= ;; esac
        # shellcheck disable=SC2086
        if CKCONV_TEST_QUICK=1 "$dir/$program" $part >"$dir/log" 2>&1; then
            good
        else
            grep FAIL "$dir/log" >"$dir/fails"
            bad "$program, implementation of $compiler $flags" "$dir/fails"
        fi
    done
}

echo 'int main(void) { return 0; }' >"$dir/probe.c"
for cc in gcc $([ -n "$quick" ] || echo clang); do
    if ! have $cc; then
        echo "skipped: $cc not found"
        continue
    fi
    build $cc "-O3 -ffast-math" test_golden test_math test_groupnorm
    if $cc -m32 "$dir/probe.c" -o "$dir/probe" >/dev/null 2>&1 && "$dir/probe"; then
        # shellcheck disable=SC2046
        build $cc "-m32 -O1 -Wno-psabi" test_golden $([ -n "$quick" ] || echo test_groupnorm)
    else
        echo "skipped: $cc cannot build or run programs for i686 (-m32)"
    fi
done
if have gcc && [ -z "$quick" ]; then
    build gcc "-O2 -fassociative-math -fno-signed-zeros -fno-trapping-math" test_groupnorm
fi
echo "$name: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
