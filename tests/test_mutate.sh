#!/bin/sh
# test_mutate.sh - the faults of tests/mutants.txt: each edit applies once; in full, tests see some of them
# SPDX-License-Identifier: MIT
#
# From the environment: BUILD (default build). With CKCONV_TEST_FULL=1 every EVERY-th fault (default 9) of the
# planner, the host and the CPU engine is planted, too: tools/mutate. The rest is run by hand.

name=test_mutate
BUILD=${BUILD:-build}
EVERY=${EVERY:-9}
here=$(dirname "$0")
dir=$BUILD/mutate
passed=0
failed=0
. "$here/shell.sh"
mkdir -p "$dir" || exit 1

if ! have python3; then
    echo "skipped: planted faults (python3 is not there)"
    echo "$name: 0 passed, 0 failed"
    exit 0
fi

# count FILE: its last line's counts are added
count() {
    sed -n 's/^mutate: \([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$1" | tail -n 1 >"$dir/counts"
    read -r good bad <"$dir/counts" || good=0 bad=1
    passed=$((passed + good))
    failed=$((failed + bad))
    grep '^FAIL\|^NOT CAUGHT' "$1"
}

BUILD=$BUILD python3 "$here/../tools/mutate" --check >"$dir/log" 2>&1
count "$dir/log"
check "fewer than 100 faults" [ "$passed" -ge 100 ]
for area in planner host cpu gpu-kernels; do
    check "fewer than 20 faults of $area" [ "$(grep -c "^[a-z0-9-]* $area " "$here/mutants.txt")" -ge 20 ]
done
for kind in 1 2 3 4 5 6 7 8 9 10 11 12; do
    check "no fault of kind $kind" grep -q "^[a-z0-9-]* [a-z-]* $kind " "$here/mutants.txt"
done
if [ "${CKCONV_TEST_FULL:-0}" != 0 ]; then
    for area in planner host cpu; do
        BUILD=$BUILD python3 "$here/../tools/mutate" --area "$area" --every "$EVERY" >"$dir/$area.log" 2>&1
        count "$dir/$area.log"
    done
fi
echo "$name: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
