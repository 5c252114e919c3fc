# shell.sh - what test scripts share: they source it, and have counts in $passed and $failed, a folder in $dir
# SPDX-License-Identifier: MIT

# 1 with CKCONV_TEST_QUICK=1: checks of each kind, but fewer. Else empty.
case ${CKCONV_TEST_QUICK:-0} in
0) quick= ;;
*) quick=1 ;;
esac

have() {
    command -v "$1" >/dev/null 2>&1
}

# check TEXT COMMAND...: the command must succeed
check() {
    text=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $text"
    fi
}

# read_times: the CPU time of this shell's children in hundredths of a second, in $spent. (`times` in a
# command substitution would speak of a shell without children.)
read_times() {
    times >"$dir/times"
    spent=$(awk 'NR == 2 {
        for (i = 1; i <= 2; i++) { split($i, part, /[ms]/); sum += part[1] * 60 + part[2] }
        printf "%d\n", sum * 100
    }' "$dir/times")
}

good() {
    passed=$((passed + 1))
}

# bad TEXT [FILE]: count a failure and show the beginning of FILE
bad() {
    failed=$((failed + 1))
    echo "FAIL $1"
    if [ -n "${2:-}" ] && [ -s "$2" ]; then
        sed -n '1,12s/^/    /p' "$2"
    fi
}

# quiet TEXT COMMAND...: the command must succeed without a word
quiet() {
    text=$1
    shift
    if "$@" >"$dir/log" 2>&1 && [ ! -s "$dir/log" ]; then
        good
        return 0
    fi
    bad "$text: $*" "$dir/log"
    return 1
}
