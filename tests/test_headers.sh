#!/bin/sh
# test_headers.sh - the house: rooms of src/, which way their includes go, and the headers joined from them
# SPDX-License-Identifier: MIT
#
# From the environment: CC (default cc), CXX (default c++), BUILD (scratch folder, default build/test),
# ROOT (the project, default the current folder). With CKCONV_TEST_FULL rooms of kernels/ are compiled by
# themselves, too.

name=test_headers
CC=${CC:-cc}
CXX=${CXX:-c++}
BUILD=${BUILD:-build/test}
ROOT=${ROOT:-.}
MOST_LINES=1200
dir=$BUILD/headers
passed=0
failed=0

mkdir -p "$dir" || exit 1
src=$ROOT/src
tools=$(cd "$ROOT/tools" && pwd)
files=$(cd "$src" && find . -name '*.h' | sed 's|^\./||' | grep -v -x -e ckconv.h -e kernels.hip.h |
    LC_ALL=C sort)
# templates are parts of the rooms that include them
rooms=$(printf '%s\n' "$files" | grep -v '\.template\.h$')

# check TEXT FILE: passes when FILE is empty; its first lines say what is wrong
check() {
    if [ -s "$2" ]; then
        failed=$((failed + 1))
        echo "FAIL $1"
        sed -n '1,8s/^/    /p' "$2"
    else
        passed=$((passed + 1))
    fi
}

# The includes of a file in quotation marks, but the one that names a header which users copy.
includes_of() {
    awk '/^#include "/ && !/CKCONV-SINGLE|[.]template[.]h"/ { split($0, part, "\""); print part[2] }' "$1"
}

# Floors, from the ground up; a room includes rooms of floors below its own, or of its own folder.
floor_of() {
    case $1 in
    api.h) echo 0 ;;
    core/*) echo 1 ;;
    ref/* | cpu/* | gpu/* | kernels/*) echo 2 ;;
    plan/* | device/*) echo 3 ;;
    hide.h | undef.h | show.h) echo 4 ;;
    *) echo none ;;
    esac
}

# goes_down FROM TO: on one floor kernels read the arguments that gpu/ fills, pairs on the CPU fall back on
# ref without workspace, and plan and device know each other.
goes_down() {
    if [ "$(floor_of "$2")" -lt "$(floor_of "$1")" ] || [ "${1%%/*}" = "${2%%/*}" ]; then
        return 0
    fi
    case "${1%%/*} $2" in
    "kernels gpu/args.h" | "kernels gpu/table.h") return 0 ;;
    esac
    if [ "$1 $2" = "cpu/pair.h ref/ref.h" ]; then
        return 0
    fi
    case "${1%%/*} ${2%%/*}" in
    "plan device" | "device plan") return 0 ;;
    esac
    return 1
}

# The tag of a room is its path: >>core-check is src/core/check.h; kernels/ is k, unit/unit.h is k-unit.
tag_of() {
    echo "${1%.h}" | sed 's|^kernels/|k/|; s|^k/unit/unit$|k/unit|; s|^ref/ref$|ref|; s|[/_]|-|g'
}

for what in hide show; do
    # shellcheck disable=SC2046
    (cd "$src" && awk -v what=$what -f "$tools/hide.awk" \
        $(printf '%s\n' $files | grep -v -x -e hide.h -e show.h -e api.h)) |
        diff - "$src/$what.h" >"$dir/out" 2>&1
    check "src/$what.h has the words of all rooms (make headers)" "$dir/out"
done
for header in ckconv.h kernels.hip.h; do
    awk -f "$ROOT/tools/join.awk" "$src/$header" >"$dir/$header" 2>"$dir/log"
    check "src/$header can be joined" "$dir/log"
    cmp "$dir/$header" "$ROOT/$header" >"$dir/out" 2>&1
    check "$header is what src/ gives (make headers)" "$dir/out"
done

# Rooms in the order of the compiler: device/runtime.h reads kernels.hip.h.
includes_of "$src/kernels.hip.h" >"$dir/kernels"
includes_of "$src/ckconv.h" | while read -r room; do
    if [ "$room" = device/runtime.h ]; then
        cat "$dir/kernels"
    fi
    echo "$room"
done >"$dir/order"
printf '%s\n' $rooms >"$dir/rooms"
LC_ALL=C sort "$dir/order" | diff - "$dir/rooms" >"$dir/out"
check "rooms in a spine (<) and in src/ (>), each once" "$dir/out"

# What is wrong with a room as a text: its size, its head, its includes.
faults_of() {
    awk -v most=$MOST_LINES -v tag="  >>$(tag_of "$1")" -v api="$1" '
        api == "api.h" { exit }
        FNR == 1 && !/^\/\*--------/ { print "line 1: no rule line" }
        FNR == 2 && $0 != tag { print "line 2: must be \"" tag "\"" }
        /^\*\// && !head { head = FNR }
        head && head == FNR && head < 6 { print "only " head - 3 " lines below the tag, not 3" }
        END { if (FNR > most) { print FNR " lines, " most " are allowed" } }' "$src/$1"
    [ "$(grep -c '^#pragma once$' "$src/$1")" = 1 ] || echo "must have #pragma once, once"
    [ "$(floor_of "$1")" != none ] || echo "stands on no floor"
    for below in $(includes_of "$src/$1"); do
        if [ ! -f "$src/$below" ]; then
            echo "includes $below, which is no room"
        elif ! goes_down "$1" "$below"; then
            echo "includes $below, which lies above it or beside it"
        elif ! awk -v room="$1" -v below="$below" '
            $0 == below { seen = 1 } $0 == room { exit !seen }' "$dir/order"; then
            echo "includes $below, which the spine puts later"
        fi
    done
}
for room in $rooms; do
    faults_of "$room" >"$dir/out" 2>&1
    check "src/$room" "$dir/out"
done

# A room compiles by itself: what it includes is all that it needs.
alone() {
    case $1 in
    kernels/*) set -- "$1" "$CXX" -std=c++17 -x c++ "-DCKCI_SIMULATOR=\"sim.h\"" -I"$ROOT/tests" ;;
    *) set -- "$1" "$CC" -std=c99 -x c ;;
    esac
    room=$1
    shift
    "$@" -fsyntax-only -w -DCKCONV_IMPLEMENTATION -I"$src" "$src/$room" 2>&1 | sed -n 1,3p >"$dir/out"
    check "src/$room by itself" "$dir/out"
}
for room in $rooms; do
    case $room in
    hide.h | show.h | undef.h | */undef.h) ;;
    kernels/*) if [ -n "$CKCONV_TEST_FULL" ]; then alone "$room"; fi ;;
    *) alone "$room" ;;
    esac
done

# The guide names what the table of element operations holds, by constant or in words.
awk '/^    X\([A-Z0-9_]+, [a-z0-9_]+, [A-Z_]+, [0-9]/ { gsub(/[(,]/, " "); print $2, $3 }' \
    "$src/core/element.h" >"$dir/kinds"
{
    [ -s "$dir/kinds" ] || echo "core/element.h has no rows"
    while read -r constant word; do
        grep -q -w -e "CKCONV_$constant" -e "$word" "$ROOT/docs/guide.md" || echo "docs/guide.md lacks $word"
    done <"$dir/kinds"
} >"$dir/out"
check "docs/guide.md names every element operation" "$dir/out"

echo "$name: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
