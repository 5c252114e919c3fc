#!/bin/sh
# Runs test programs and scripts one after the other:  tests/run.sh PROGRAM|SCRIPT.sh ...
#
# Contract of each: its last line is `name: N passed, N failed`; the exit status is not 0 when something failed; what
# it had to leave out stands in lines that start with `skipped:`; lines that start with `note:` are shown as well.
# A program that crashes, takes too long, prints no such line, contradicts itself, or has checked nothing without
# saying why counts as one failure. The last line here is the total: `N passed, N failed`, alone.
#
# Environment: BUILD (folder for logs, build), CC (handed to scripts), CKCONV_TEST_TIMEOUT (seconds for each, 900),
# V=1 shows all output.
set -u
BUILD=${BUILD:-build}
CC=${CC:-cc}
# OpenMP threads that wait give their core away: small loops on a busy machine are slower by tens otherwise.
OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
export BUILD CC OMP_WAIT_POLICY
limit=${CKCONV_TEST_TIMEOUT:-900}
logs=$BUILD/test/log
mkdir -p "$logs" || exit 2
clock=
if command -v timeout >/dev/null 2>&1; then
    clock="timeout $limit"
fi

total_passed=0
total_failed=0
began=$(date +%s)
for program in "$@"; do
    name=${program#"$BUILD"/test/}
    log=$logs/$(printf '%s' "$name" | tr '/' '-').log
    start=$(date +%s)
    case $program in
    *.sh) $clock sh "$program" >"$log" 2>&1 </dev/null ;;
    *) $clock "$program" >"$log" 2>&1 </dev/null ;;
    esac
    status=$?
    seconds=$(($(date +%s) - start))

    counts=$(tail -n 1 "$log" | sed -n 's/^[^ ]*: \([0-9][0-9]*\) passed, \([0-9][0-9]*\) failed$/\1 \2/p')
    passed=${counts% *}
    failed=${counts#* }
    wrong=
    if [ "$status" -eq 124 ] && [ -n "$clock" ]; then
        wrong="ran past $limit seconds"
    elif [ -z "$counts" ]; then
        wrong="exit status $status and no result line"
    elif [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
        wrong="exit status $status although nothing failed"
    elif [ "$status" -eq 0 ] && [ "$failed" -ne 0 ]; then
        wrong="exit status 0 although something failed"
    elif [ $((passed + failed)) -eq 0 ] && ! grep -q '^skipped:' "$log"; then
        wrong="nothing was checked"
    fi
    passed=${passed:-0}
    failed=${failed:-0}
    if [ -n "$wrong" ]; then
        failed=$((failed + 1))
    fi
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))

    verdict=ok
    if [ "$failed" -ne 0 ]; then
        verdict=FAILED
    fi
    printf '%-6s %-32s %8d passed %4d failed %5d s%s\n' "$verdict" "$name" "$passed" "$failed" "$seconds" \
        "${wrong:+   $wrong}"
    if [ "${V:-0}" != 0 ]; then
        sed 's/^/    /' "$log"
    elif [ "$failed" -ne 0 ]; then
        tail -n 20 "$log" | sed 's/^/    /'
        echo "    (all of it: $log)"
    else
        sed -n -e '/^skipped:/s/^/    /p' -e '/^note:/s/^/    /p' "$log"
    fi
done

echo "$# programs in $(($(date +%s) - began)) s"
echo "$total_passed passed, $total_failed failed" | tee "$BUILD/test/total"
[ "$total_failed" -eq 0 ]
