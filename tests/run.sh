#!/bin/sh
# Runs test programs and scripts, as many at once as there are cores:  tests/run.sh PROGRAM|SCRIPT.sh ...
#
# Contract of each: its last line is `name: N passed, N failed`; the exit status is not 0 when something
# failed; what it had to leave out stands in lines that start with `skipped:`; lines that start with `note:`
# are shown too. A program that crashes, takes too long, prints no such line, contradicts itself, or has
# checked nothing without saying why counts as one failure. The last line here is the total, alone.
#
# Environment: BUILD (folder for logs, build), CC (handed to scripts), JOBS (at once), CKCONV_TEST_TIMEOUT
# (seconds for each, 3000), V=1 shows all output.
set -u
BUILD=${BUILD:-build}
CC=${CC:-cc}
# OpenMP threads that wait give their core away: small loops on a busy machine are slower by tens otherwise.
OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
export BUILD CC OMP_WAIT_POLICY
logs=$BUILD/test/log

# One program: its output goes to a log, its counts to a file beside it, a short report to stdout.
run_one() {
    program=$1
    limit=${CKCONV_TEST_TIMEOUT:-3000}
    clock=
    if command -v timeout >/dev/null 2>&1; then
        clock="timeout $limit"
    fi
    name=${program#"$BUILD"/test/}
    log=$logs/$(printf '%s' "$name" | tr './' '--')
    start=$(date +%s)
    # kernels on the simulator (wave 64, wave 32, NVIDIA) and on a GPU
    case $program in
    */sim32/*) export CKCONV_TEST_ENGINE=gpu CKCONV_SIM_TARGET=gfx1100 CKCONV_SIM_ORDER=reverse ;;
    */simsm/*)
        export CKCONV_TEST_ENGINE=gpu CKCONV_SIM_TARGET=sm_90 CKCONV_SIM_ORDER=random CKCONV_SIM_UNITS=1 ;;
    */simmma/*) export CKCONV_TEST_ENGINE=gpu CKCONV_SIM_TARGET=sm_100 CKCONV_SIM_UNITS=2 ;;
    */sim/* | */simasan/*)
        export CKCONV_TEST_ENGINE=gpu CKCONV_SIM_TARGET="${CKCONV_SIM_TARGET:-gfx942}"
        export CKCONV_SIM_ORDER="${CKCONV_SIM_ORDER:-random}" ;;
    */gpu/*) export CKCONV_TEST_ENGINE=gpu ;;
    esac
    part= # with a sanitizer, the kernels whose windows and copies end nearest to the end of LDS
    case $program in
    */simasan/test_cross) part=depthwise ;;
    */simmma/test_conv_conv) part=windows ;; # the body without groups of waves
    esac
    case $program in
    *.sh) $clock sh "$program" >"$log.log" 2>&1 </dev/null ;;
    *) $clock "$program" $part >"$log.log" 2>&1 </dev/null ;;
    esac
    status=$?
    seconds=$(($(date +%s) - start))

    counts=$(tail -n 1 "$log.log" |
        sed -n 's/^[^ ]*: \([0-9][0-9]*\) passed, \([0-9][0-9]*\) failed$/\1 \2/p')
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
    elif [ $((passed + failed)) -eq 0 ] && ! grep -q '^skipped:' "$log.log"; then
        wrong="nothing was checked"
    fi
    passed=${passed:-0}
    failed=${failed:-0}
    verdict=ok
    if [ -n "$wrong" ]; then
        failed=$((failed + 1))
    fi
    if [ "$failed" -ne 0 ]; then
        verdict=FAILED
    fi
    {
        printf '%-6s %-30s %9d passed %5d failed %5d s%s\n' \
            "$verdict" "$name" "$passed" "$failed" "$seconds" "${wrong:+   $wrong}"
        if [ "${V:-0}" != 0 ]; then
            sed 's/^/    /' "$log.log"
        elif [ "$failed" -ne 0 ]; then
            tail -n 20 "$log.log" | sed 's/^/    /'
            echo "    (all of it: $log.log)"
        else
            sed -n -e '/^skipped:/s/^/    /p' -e '/^note:/s/^/    /p' "$log.log"
        fi
    } >"$log.report"
    cat "$log.report"
    echo "$passed $failed" >"$log.counts"
}

if [ $# -eq 0 ]; then
    echo "usage: tests/run.sh PROGRAM|SCRIPT.sh ..." >&2
    exit 2
fi
if [ "$1" = --one ]; then
    run_one "$2"
    exit 0
fi

rm -rf "$logs"
mkdir -p "$logs" || exit 2
jobs=${JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)}
began=$(date +%s)
if echo true | xargs -P 1 -n 1 >/dev/null 2>&1; then
    printf '%s\n' "$@" | xargs -P "$jobs" -n 1 sh "$0" --one
else
    for program in "$@"; do
        run_one "$program"
    done
fi

# A program without counts was not run at all: a failure too.
total=$(cat "$logs"/*.counts 2>/dev/null | awk -v programs=$# '
    { passed += $1; failed += $2 }
    END { printf "%d passed, %d failed", passed, failed + programs - NR }')
echo "$# programs in $(($(date +%s) - began)) s, $jobs at once"
echo "$total" | tee "$BUILD/test/total"
case $total in
*", 0 failed") exit 0 ;;
*) exit 1 ;;
esac
