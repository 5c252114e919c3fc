#!/bin/sh
# test_readme.sh - the code in README.md and docs/ compiles, its programs print what stands below them
# SPDX-License-Identifier: MIT
#
# From the environment: CC (default cc), BUILD (default build), INCLUDE (folder of ckconv.h, default the
# current one). Blocks that are fenced as c and have a main are programs: they are linked with the
# implementation that is compiled already, run, and their output is compared with the text block that follows.
# All others are bodies of functions behind the declarations that the guide shows under "Names in
# the snippets". The programs of README.md are those of examples/; that for a GPU runs on a simulated one.

name=test_readme
CC=${CC:-cc}
BUILD=${BUILD:-build}
INCLUDE=${INCLUDE:-.}
dir=$BUILD/test/readme
passed=0
failed=0
. "$(dirname "$0")/shell.sh"
rm -rf "$dir"
mkdir -p "$dir" || exit 1
warnings="-std=c99 -Wall -Wextra"

# Splits a document: DIR/NAME-LINE.c for each block of code, LINE.out for the text block after it. Bodies of
# functions all go to NAME.body.c, declarations under "Names in the snippets" to NAME.names.c.
split() {
    awk -v base="$dir/$2" -v name="$1" '
        /^## Names in the snippets/ { names = 1 }
        /^```/ && !on {
            on = substr($0, 4)
            text = ""
            first = FNR
            next
        }
        /^```$/ {
            if (on == "c") {
                program = 0
                if (text ~ /int main\(/) {
                    program = first
                    printf "%s", text >(base "-" first ".c")
                } else if (names) {
                    printf "%s", text >(base ".names.c")
                } else {
                    printf "void snippet_%d(void)\n{\n#line %d \"%s\"\n%s}\n", first, first + 1, name, text \
                        >(base ".body.c")
                }
            } else if (on == "text" && program) {
                printf "%s", text >(base "-" program ".out")
            }
            on = ""
            next
        }
        on { text = text $0 "\n" }
        END {
            if (on) { print name ":" first ": a block without an end" }
        }' "$1" >"$dir/log"
    check "$(cat "$dir/log")" [ ! -s "$dir/log" ]
}

# object NAME: the first of these that was built
object() {
    for file in "$@"; do
        if [ -e "$file" ]; then
            echo "$file"
            return
        fi
    done
}
host=$(object "$BUILD/test/main/ckconv.o" "$BUILD/ckconv.o")
sim=$(object "$BUILD/test/sim/ckconv.o")
openmp=$(cat "$BUILD/openmp" 2>/dev/null)

# program FILE: compile, run, compare with FILE's .out
program() {
    implementation=$host
    cxx=$CC
    if grep -q ckconv_device_alloc "$1"; then
        implementation=$sim
        cxx=${CXX:-c++}
    fi
    if [ -z "$implementation" ]; then
        echo "skipped: $1 (no implementation was built for it)"
        return
    fi
    # shellcheck disable=SC2086
    quiet "$1" "$CC" $warnings -O1 -DCKCONV_IMPLEMENTED -I"$INCLUDE" -c "$1" -o "${1%.c}.o" || return
    # shellcheck disable=SC2086
    quiet "$1, link" "$cxx" "${1%.c}.o" "$implementation" -o "${1%.c}" $openmp -lm -lpthread -ldl || return
    if CKCONV_SIM_TARGET=gfx942 "${1%.c}" >"$dir/log" 2>&1; then
        good
    else
        bad "$1: does not run" "$dir/log"
    fi
    if [ ! -e "${1%.c}.out" ]; then
        bad "$1: no text block with what it prints"
    elif cmp -s "$dir/log" "${1%.c}.out"; then
        good
    else
        bad "$1: does not print what stands below it, but" "$dir/log"
    fi
}

# The same text from the definition on: the first comment differs.
same_program() {
    sed -n '/^#define CKCONV_IMPLEMENTATION/,$p' "$1" >"$dir/a"
    sed -n '/^#define CKCONV_IMPLEMENTATION/,$p' "$2" >"$dir/b"
    [ -s "$dir/a" ] && cmp -s "$dir/a" "$dir/b"
}

split README.md README
for document in docs/*.md; do
    base=${document##*/}
    split "$document" "${base%.md}"
done

# Bodies of functions, all of a document in one file.
for body in "$dir"/*.body.c; do
    [ -e "$body" ] || continue
    {
        printf '#include "ckconv.h"\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n'
        cat "$dir/guide.names.c"
        cat "$body"
    } >"${body%.body.c}.all.c"
    # shellcheck disable=SC2086
    quiet "$body" "$CC" $warnings -I"$INCLUDE" -fsyntax-only "${body%.body.c}.all.c"
    # shellcheck disable=SC2086
    quiet "$body as C++" "$CC" -x c++ -std=c++11 -Wall -Wextra -I"$INCLUDE" -fsyntax-only \
        "${body%.body.c}.all.c"
done
count=0
for file in "$dir"/*-*.c; do
    program "$file"
    count=$((count + 1))
done
check "README.md and docs/ have $count programs, at least 4 were there" [ "$count" -ge 4 ]
for example in hello hello_gpu; do
    found=no
    for file in "$dir"/README-*.c; do
        if same_program "$file" "examples/$example.c"; then
            found=yes
        fi
    done
    check "README.md does not show examples/$example.c as it is" [ $found = yes ]
done

# README.md stays short, links lead somewhere, and a call without workspace says what it costs.
lines=$(wc -l <README.md)
check "README.md has $lines lines, 250 are allowed" [ "$lines" -le 250 ]
for document in README.md docs/*.md; do
    folder=$(dirname "$document")
    for link in $(grep -o '](\([^)#:]*\)[)#]' "$document" | sed 's/^](//; s/[)#]$//'); do
        check "$document: no file $link" [ -e "$folder/$link" ]
    done
    awk '/2\.5 times/ { said = FNR }
        /NULL, 0, (NULL|stream), &err/ && (!said || FNR - said > 8) {
            print FILENAME ":" FNR ": " $0
        }' "$document" >"$dir/log"
    check "a call without workspace does not say what it costs: $(cat "$dir/log")" [ ! -s "$dir/log" ]
done
echo "$name: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
