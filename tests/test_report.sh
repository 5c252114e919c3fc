#!/bin/sh
# test_report.sh - bench/amd.sh without a GPU and on a simulated one: all sections, and failures that are told
# SPDX-License-Identifier: MIT
#
# From the environment: BUILD (folder of the programs ckconv and ckconv-sim, default build).

name=test_report
here=$(dirname "$0")
BUILD=${BUILD:-build}
dir=$BUILD/report
passed=0
failed=0
script=$here/../bench/amd.sh

if ! [ -x "$BUILD/ckconv" ] || ! [ -x "$BUILD/ckconv-sim" ]; then
    echo "skipped: $BUILD/ckconv and $BUILD/ckconv-sim (make builds them)"
    echo "$name: 0 passed, 0 failed"
    exit 0
fi
mkdir -p "$dir" || exit 1

# check TEXT COMMAND...: passes when COMMAND does
check() {
    what=$1
    shift
    if "$@" >"$dir/said" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $what"
        sed -n '1,8s/^/    /p' "$dir/said"
    fi
}

tab=$(printf '\t')
row() {
    echo "$*" | tr ' ' "$tab"
}
# A fit wants ten runs, and on a busy machine few follow what was slow.
{
    row '#' name op ndim G N K C filter input stride dilation pad note | sed "s/#$tab/# /"
    row tiny conv 2 1 1 8 8 1,1 4,4 1,1 1,1 0,0 -
    row tiny_3 conv 2 1 1 8 16 3,3 4,4 1,1 1,1 1,1 -
    row tiny_1 conv 1 1 1 16 16 3 9 1 1 1 -
} >"$dir/cases.tsv"
{
    row net count op ndim g n k c filter input stride dilation pad bias grad_in
    row one 3 conv 2 1 1 8 8 1,1 4,4 1,1 1,1 0,0 0 1
    row one 1 groupnorm 2 2 1 0 4 - 4,4 - - - 1 1
} >"$dir/nets.tsv"
printf '#!/bin/sh\necho "FAIL of a test"\necho "test_bad: 1 passed, 1 failed"\nexit 1\n' >"$dir/test_bad"
printf '#!/bin/sh\necho "test_good: 2 passed, 0 failed"\n' >"$dir/test_good"
chmod +x "$dir/test_bad" "$dir/test_good"

# with TARGET COMMAND...: on a simulated GPU
with() {
    CKCONV_SIM_TARGET=$1
    export CKCONV_SIM_TARGET CLI REPORT CASES NETS
    shift
    "$@"
}
CLI=$BUILD/ckconv-sim
REPORT=$dir/report.txt
CASES=$dir/cases.tsv
NETS=$dir/nets.tsv
REPEATS=1
WHOLE=1
export BUILD REPEATS WHOLE
rm -f "$dir/none.txt" "$REPORT"

check 'without a GPU one line' test "$(CLI=$BUILD/ckconv REPORT=$dir/none.txt sh "$script" | wc -l)" -eq 1
check 'without a GPU no report' test ! -e "$dir/none.txt"
check 'an NVIDIA GPU is none' with sm_90 sh "$script"
check 'and no report' test ! -e "$REPORT"
with gfx942 sh "$script" "$dir/test_good" "$dir/test_bad" >"$dir/said"
check 'a step that fails makes the status 1' test $? -eq 1
for section in machine 'test test_good' 'cases f16 NHWGC' 'cases f32 NGCHW' 'networks bf16 NHWGC' 'fit f16' \
    'cases f32 NHWGC with this fit'; do
    check "section $section" grep -q "^== $section\$" "$REPORT"
done
check 'facts of the GPU' grep -q '^gpu 0 .*gfx942, 304 compute units' "$REPORT"
check 'compiler' grep -q '^         gfx942, target gfx942; .* compiled by ' "$REPORT"
check 'times' grep -q "^tiny_3${tab}bwd_weight${tab}f32${tab}NGCHW${tab}gpu" "$REPORT"
check 'sums of a network' grep -q "^one${tab}[0-9.]*\$" "$REPORT"
check 'fit' grep -q '^# gfx942, 304 compute units: [0-9]* runs, median distance' "$REPORT"
check 'factors' test "$(grep -c '^matrix [0-9.]*$' "$REPORT")" -eq 2
check 'last line' grep -q "^bench-amd: gfx942, 1 failed: send $REPORT\$" "$REPORT"
check 'the test that fails is named' grep -q '^FAILED: test test_bad: status 1$' "$REPORT"
check 'and what it says' grep -q '^FAIL of a test$' "$REPORT"

echo "$name: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
