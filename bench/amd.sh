#!/bin/sh
# amd.sh - everything that the project would like to know of an AMD GPU, as one file to send back
# SPDX-License-Identifier: MIT
#
# usage: make bench-amd, or sh bench/amd.sh [PROGRAM ...]: test programs to run before anything is timed.
# From the environment: BUILD (default build), CLI (the driver, default $BUILD/ckconv), REPORT (the file,
# default $BUILD/report.txt), CASES and NETS (tables, default those of bench/), REPEATS (default 7), WHOLE=1
# (networks with their whole batches, an hour or two; default: a sixteenth), ANY=1 (NVIDIA, too).
#
# The report has a section for each of: the machine, tests, the cases in three types and both memory orders,
# the networks' layers and their sums, the fit of modelled times, and what those are with and without it. A
# step that fails is named in its section and in the last line; the others run all the same. Exit status: 0,
# also without such a GPU, which one line says; 1 after a step that failed.
set -u
BUILD=${BUILD:-build}
here=$(dirname "$0")
CLI=${CLI:-$BUILD/ckconv}
REPORT=${REPORT:-$BUILD/report.txt}
CASES=${CASES:-$here/cases.tsv}
NETS=${NETS:-$here/nets.tsv}
REPEATS=${REPEATS:-7}
failed=0
small=--small
if [ -n "${WHOLE:-}" ]; then
    small=
fi

arch=$("$CLI" info 2>/dev/null | sed -n '/^gpu 0 /s/^gpu 0 *\([a-z0-9_]*\),.*/\1/p')
case $arch in
gfx*) ;;
sm_*) [ -n "${ANY:-}" ] || arch= ;;
*) arch= ;;
esac
if [ -z "$arch" ]; then
    echo "bench-amd: no AMD GPU with a driver built for it here (make GPU=hip): nothing to report"
    exit 0
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir -p "$(dirname "$REPORT")" && : >"$REPORT" || exit 1

# section TITLE COMMAND...: what it prints, in the report; one line here
section() {
    title=$1
    shift
    echo "bench-amd: $title"
    printf '\n== %s\n' "$title" >>"$REPORT"
    "$@" >"$work/out" 2>&1
    status=$?
    cat "$work/out" >>"$REPORT"
    if [ $status -ne 0 ]; then
        failed=$((failed + 1))
        echo "FAILED: $title: status $status" | tee -a "$REPORT"
    fi
}

machine() {
    "$CLI" info
    uname -srm
    for tool in 'hipcc --version' 'rocminfo' 'rocm-smi --showproductname --showclocks --showmeminfo vram' \
        'nvidia-smi -L'; do
        command -v "${tool%% *}" >/dev/null 2>&1 || continue
        echo "-- $tool"
        $tool 2>&1 | head -n 400
    done
    return 0
}

# The last line of a test, and what failed.
run_test() {
    "$@" >"$work/log" 2>&1
    code=$?
    grep FAIL "$work/log" | head -n 20
    tail -n 1 "$work/log"
    return $code
}

# nets.tsv as a table of cases: each layer is named by its network, its line and how often it occurs
net_cases() {
    awk -F'\t' -v OFS='\t' 'NR == 1 {
            print "# name", "op", "ndim", "G", "N", "K", "C", "filter", "input", "stride", "dilation", "pad", "note"
            next
        }
        { print $1 "." NR "." $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, "-" }' "$NETS"
}

networks() {
    net_cases >"$work/nets.tsv"
    # shellcheck disable=SC2086
    "$CLI" bench --cases "$work/nets.tsv" $small --repeats 5 --dtype bf16 "$@" >"$work/nets"
    code=$?
    cat "$work/nets"
    echo "-- sums of the layers' medians, milliseconds of each network"
    awk -F'\t' 'FNR > 1 { split($1, part, "."); sum[part[1]] += part[3] * $8 }
        END { for (net in sum) { printf "%s\t%.3f\n", net, sum[net] / 1000 } }' "$work/nets" | sort
    return $code
}
fit() {
    "$CLI" find --fit --cases "$CASES" --engine gpu --repeats "$REPEATS" "$@"
}

# Does the planner choose better with the fit?
fitted() {
    "$CLI" bench --cases "$CASES" --repeats "$REPEATS" --engine gpu "$@" --costs "$work/costs"
}

section machine machine
for program in "$@"; do
    section "test ${program##*/}" run_test "$program"
done
for layout in NHWGC NGCHW; do
    for dtype in f16 bf16 f32; do
        section "cases $dtype $layout" "$CLI" bench --cases "$CASES" --engine gpu --repeats "$REPEATS" \
            --dtype $dtype --layout $layout
    done
done
for layout in NHWGC NGCHW; do
    section "networks bf16 $layout" networks --engine gpu --layout $layout
done
for dtype in f16 f32; do
    section "fit $dtype" fit --dtype $dtype
    cp "$work/out" "$work/costs"
    section "cases $dtype NHWGC with this fit" fitted --dtype $dtype
done
echo "bench-amd: $arch, $failed failed: send $REPORT" | tee -a "$REPORT"
[ "$failed" -eq 0 ]
