#!/bin/sh
# Runs test programs and scripts:
#   tests/run.sh ENTRY ...         as many at once as there are cores; what they need must be built
#   tests/run.sh --begin ENTRY ... then --one ENTRY for each, then --end: the same in steps, for make, which
#                                  runs each program as soon as it is built
#
# An entry is a script (tests/test_tags.sh) or a program below BUILD/test: FOLDER[:TARGET]/PROGRAM[+PART].
# TARGET is the GPU that the simulator stands for, PART the program's argument: sim:gfx1100/test_cross+wide is
# `CKCONV_SIM_TARGET=gfx1100 build/test/sim/test_cross wide`. @full behind it runs all of it, as with
# CKCONV_TEST_FULL=1, @quick less, as with CKCONV_TEST_QUICK=1.
#
# Contract of each: its last line is `name: N passed, N failed`; the exit status is not 0 when something
# failed; what it had to leave out stands in lines that start with `skipped:`; lines that start with `note:`
# are shown too, twelve of both at most. A program that crashes, hangs, prints no such line, contradicts
# itself, has checked nothing without saying why, or could not be built counts as one failure. The last line
# here is the total, alone.
#
# Environment: BUILD (folder for logs, build), CC (handed to scripts), JOBS (at once), V=1 shows all output,
# CKCONV_TEST_TIMEOUT (3600: seconds of a program that hangs), CKCONV_TEST_BUDGET (seconds from --begin on:
# what has not ended then is not run, and named in one line; no failure).
set -u
BUILD=${BUILD:-build}
CC=${CC:-cc}
# OpenMP threads that wait give their core away: small loops on a busy machine are slower by tens otherwise.
OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
export BUILD CC OMP_WAIT_POLICY
logs=$BUILD/test/log

now() {
    date +%s
}

# Sets folder, target, program, part and effort from an entry, and the environment of the program.
read_entry() {
    rest=$1
    effort=
    part=
    target=
    case $rest in *@*)
        effort=${rest##*@}
        rest=${rest%@*}
        ;;
    esac
    case $rest in *.sh) ;; *+*)
        part=${rest#*+}
        rest=${rest%%+*}
        ;;
    esac
    program=$rest
    case $rest in *.sh) ;; *)
        folder=${rest%%/*}
        case $folder in *:*)
            target=${folder#*:}
            folder=${folder%%:*}
            ;;
        esac
        program=$BUILD/test/$folder/${rest#*/}
        case $folder in
        sim | simasan) target=${target:-gfx942} ;;
        gpu) export CKCONV_TEST_ENGINE=gpu ;;
        esac
        ;;
    esac
    case $effort in
    full) export CKCONV_TEST_FULL=1 ;;
    quick) export CKCONV_TEST_QUICK=1 ;;
    esac
    if [ -n "$target" ]; then
        export CKCONV_TEST_ENGINE=gpu CKCONV_SIM_TARGET="$target"
        # the order of threads, and how many units make blocks take several tiles
        case $target in
        gfx1*) CKCONV_SIM_ORDER=${CKCONV_SIM_ORDER:-reverse} ;;
        sm_90)
            [ "$part" != shares ] || CKCONV_SIM_UNITS=${CKCONV_SIM_UNITS:-5}
            [ "$part" != pairs ] || CKCONV_SIM_UNITS=${CKCONV_SIM_UNITS:-7}
            CKCONV_SIM_ORDER=${CKCONV_SIM_ORDER:-random} CKCONV_SIM_UNITS=${CKCONV_SIM_UNITS:-1}
            ;;
        sm_*) CKCONV_SIM_UNITS=${CKCONV_SIM_UNITS:-2} ;;
        *) CKCONV_SIM_ORDER=${CKCONV_SIM_ORDER:-random} ;;
        esac
        [ -z "${CKCONV_SIM_ORDER:-}" ] || export CKCONV_SIM_ORDER
        [ -z "${CKCONV_SIM_UNITS:-}" ] || export CKCONV_SIM_UNITS
    fi
}

log_of() {
    printf '%s' "$1" | tr './:+@' '-----'
}

# Seconds of the budget that are left, in $left; empty without one.
read_budget() {
    left=
    if [ -n "${CKCONV_TEST_BUDGET:-}" ]; then
        left=$((CKCONV_TEST_BUDGET - ($(now) - $(cat "$logs/began"))))
    fi
}

# read_cpu: the CPU time of this shell's children in seconds, in $cpu. (In a command substitution `times`
# would speak of a shell without children.)
read_cpu() {
    times >"$log.times"
    cpu=$(awk 'NR == 2 {
        for (i = 1; i <= 2; i++) { split($i, piece, /[ms]/); sum += piece[1] * 60 + piece[2] }
        printf "%.0f", sum
    }' "$log.times")
}

# One entry: its output goes to a log, its counts to a file beside it, a short report to stdout.
run_one() {
    read_entry "$1"
    log=$logs/$(log_of "$1")
    read_budget
    if [ -n "$left" ] && [ "$left" -le 0 ]; then
        return
    fi
    limit=${CKCONV_TEST_TIMEOUT:-3600}
    if [ -n "$left" ] && [ "$left" -lt "$limit" ]; then
        limit=$left
    fi
    clock=
    if command -v timeout >/dev/null 2>&1; then
        clock="timeout $limit"
    fi
    start=$(now)
    case $program in
    *.sh) $clock sh "$program" >"$log.log" 2>&1 </dev/null ;;
    *) $clock "$program" $part >"$log.log" 2>&1 </dev/null ;;
    esac
    status=$?
    seconds=$(($(now) - start))
    if [ "$status" -eq 124 ] && [ "$limit" = "$left" ]; then
        return # not run to its end: no verdict
    fi

    counts=$(tail -n 1 "$log.log" |
        sed -n 's/^[^ ]*: \([0-9][0-9]*\) passed, \([0-9][0-9]*\) failed$/\1 \2/p')
    passed=${counts% *}
    failed=${counts#* }
    wrong=
    if [ "$status" -eq 124 ] && [ -n "$clock" ]; then
        wrong="hangs: ran past $limit seconds"
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
    read_cpu
    echo "$1" >>"$logs/done"
    {
        number=$(grep -n -x -F -e "$1" "$logs/done" | sed 's/:.*//; q')
        printf '%3d of %d, %4d s: %-6s %-36s %8d passed %4d failed %4d s (CPU %d s)%s\n' \
            "$number" "$(($(wc -l <"$logs/list")))" "$(($(now) - $(cat "$logs/began")))" "$verdict" \
            "$1" "$passed" "$failed" "$seconds" "$cpu" "${wrong:+   $wrong}"
        if [ "${V:-0}" != 0 ]; then
            sed 's/^/    /' "$log.log"
        elif [ "$failed" -ne 0 ]; then
            tail -n 20 "$log.log" | sed 's/^/    /'
            echo "    (all of it: $log.log)"
        else
            awk -v log_file="$log.log" '
                !/^(skipped|note):/ { next }
                ++lines <= 12 { print "    " $0 }
                END { if (lines > 12) { print "    (" lines - 12 " more: " log_file ")" } }' "$log.log"
        fi
    } >"$log.report"
    cat "$log.report"
    echo "$passed $failed $cpu" >"$log.counts"
}

begin() {
    rm -rf "$logs"
    mkdir -p "$logs" || exit 2
    : >"$logs/done"
    printf '%s\n' "$@" >"$logs/list"
    now >"$logs/began"
}

# The totals. An entry without counts could not be built or crashed the shell: a failure, but with a budget,
# whose end leaves such entries.
finish() {
    missing=
    count=0
    while read -r entry; do
        count=$((count + 1))
        if [ ! -e "$logs/$(log_of "$entry").counts" ]; then
            missing="$missing $entry"
        fi
    done <"$logs/list"
    read_budget
    lost=0
    if [ -n "$missing" ] && [ -n "$left" ] && [ "$left" -le 0 ]; then
        echo "not run, as the time was over:$missing"
    else
        for entry in $missing; do
            echo "FAILED $entry: not run, since it could not be built"
            lost=$((lost + 1))
        done
    fi
    total=$(cat "$logs"/*.counts 2>/dev/null | awk -v lost=$lost '
        { passed += $1; failed += $2 }
        END { printf "%d passed, %d failed", passed, failed + lost }')
    cpu=$(cat "$logs"/*.counts 2>/dev/null | awk '{ sum += $3 } END { print sum + 0 }')
    echo "$(($(wc -l <"$logs/done"))) of $count programs in $(($(now) - $(cat "$logs/began"))) s, CPU $cpu s"
    echo "$total" | tee "$BUILD/test/total"
    case $total in *", 0 failed") ;; *) return 1 ;; esac
}

case ${1:-} in
"")
    echo "usage: tests/run.sh ENTRY ..., or --begin ENTRY ..., --one ENTRY, --end" >&2
    exit 2
    ;;
--begin)
    shift
    begin "$@"
    ;;
--one) run_one "$2" ;;
--end) finish ;;
*)
    begin "$@"
    jobs=${JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)}
    if echo true | xargs -P 1 -n 1 >/dev/null 2>&1; then
        printf '%s\n' "$@" | xargs -P "$jobs" -n 1 sh "$0" --one
    else
        for program in "$@"; do
            sh "$0" --one "$program"
        done
    fi
    finish
    ;;
esac
