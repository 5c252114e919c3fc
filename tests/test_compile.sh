#!/bin/sh
# test_compile.sh - every way to compile ckconv.h: compilers, languages, switches, several translation units
# SPDX-License-Identifier: MIT
#
# From the environment: CC (default cc), BUILD (scratch folder, default build/test), INCLUDE (folder of
# ckconv.h, default the current one), SINGLE (merged file, default build/ckconv.h). The sources are in
# tests/compile. gcc and clang are both used where they exist. A warning is a failure. With
# CKCONV_TEST_QUICK=1 fewer pairs of language and OpenMP, one stack, one compiler of static copies, nothing at
# -O3, and switches without those of test_switches.sh. Compilers for GPUs: test_compile_gpu.sh.

name=test_compile
CC=${CC:-cc}
BUILD=${BUILD:-build/test}
INCLUDE=${INCLUDE:-.}
SINGLE=${SINGLE:-build/ckconv.h}
header=$INCLUDE/ckconv.h
src=$(dirname "$0")/compile
dir=$BUILD/compile
passed=0
failed=0
. "$(dirname "$0")/shell.sh"
warnings="-Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wundef -Wcast-align -pedantic -Werror"

rm -rf "$dir"
mkdir -p "$dir" || exit 1

# fails TEXT WORD COMMAND...: the command must fail and say WORD
fails() {
    text=$1
    word=$2
    shift 2
    if "$@" >"$dir/log" 2>&1; then
        bad "$text: compiles, but must not: $*"
    elif grep -q "$word" "$dir/log"; then
        good
    else
        bad "$text: does not say $word" "$dir/log"
    fi
}

# The C++ compiler that belongs to a C compiler.
cxx_of() {
    case $1 in
    *clang*) echo "$1" | sed 's/clang/clang++/' ;;
    *gcc*) echo "$1" | sed 's/gcc/g++/' ;;
    *) echo c++ ;;
    esac
}

# strict TEXT COMPILER STD ARGUMENTS...: compile with all warnings, as the language that STD names
strict() {
    text=$1
    compiler=$2
    std=$3
    shift 3
    case $std in
    c++*) language=c++ ;;
    *) language=c ;;
    esac
    # shellcheck disable=SC2086
    quiet "$text" "$compiler" -std="$std" $warnings -I"$INCLUDE" -x $language "$@"
}

# A program with a macro for every word that the implementation hides and for others that programs define.
{
    sed -n 's/^#pragma push_macro("\(.*\)")$/\1/p' "$header"
    {
        echo FWD BWD_DATA BWD_WEIGHT ALL REF CPU GPU DIRECT FUSED SIMD MIN MAX ERROR IN OUT DEBUG SIZE COUNT
        echo A B C D E F G H I J K L M N O P Q R S T U V W X Y Z NONE TRUE FALSE SUCCESS STRICT DIM BLOCK
        echo min max near far small huge byte interface major minor ceil_div clamp swap
    } | tr ' ' '\n'
} | LC_ALL=C sort -u >"$dir/words"
{
    sed 's/.*/#define & 5/' "$dir/words"
    echo '#define CKCONV_IMPLEMENTATION'
    echo '#include "ckconv.h"'
    # C++'s own headers take min and max
    grep -v -x -e min -e max "$dir/words" | sed 's/.*/#if & != 5\n#error "&"\n#endif/'
} >"$dir/nasty.c"

# one_compiler CC: all languages, with and without OpenMP
one_compiler() {
    openmp=
    printf '#include <omp.h>\nint main(void)\n{\n    return omp_get_max_threads() < 1;\n}\n' >"$dir/omp.c"
    if "$1" -fopenmp "$dir/omp.c" -o "$dir/omp" >/dev/null 2>&1; then
        openmp=-fopenmp
    else
        echo "skipped: $1 has no OpenMP"
    fi
    extra=
    case $1 in *clang*) extra=-Wreserved-identifier ;; esac
    for std in c99 c11 c++11 c++17; do
        compiler=$1
        case $std in c++*) compiler=$(cxx_of "$1") ;; esac
        if ! have "$compiler"; then
            echo "skipped: $compiler not found ($std)"
            continue
        fi
        for omp in "" $openmp; do
            case $quick$std$omp in 1c11-fopenmp | 1c++11 | 1c++17-fopenmp) continue ;; esac
            output=-fsyntax-only
            # shellcheck disable=SC2086
            strict declarations "$compiler" $std $omp $extra -fsyntax-only "$src/declare.c"
            # shellcheck disable=SC2086
            strict "declarations first" "$compiler" $std $omp $extra -fsyntax-only "$src/late.c"
            case $quick$std$omp in
            c99* | c++17) output="-O1 -c -o $dir/$compiler-$std$omp.o" ;;
            1c99 | 1c++17) output="-O0 -c -o $dir/$compiler-$std.o" ;;
            esac
            # shellcheck disable=SC2086
            strict implementation "$compiler" $std $omp $extra $output "$src/impl.c"
        done
    done
    # macros of all names that the implementation hides, and more; they are there again behind it
    for std in c99 c++11 c++17; do
        compiler=$1
        case $std in c++*) compiler=$(cxx_of "$1") ;; esac
        case $quick$std in 1c++11) continue ;; esac
        if have "$compiler"; then
            strict "nasty macros" "$compiler" $std -fsyntax-only "$dir/nasty.c"
        fi
    done
    # what release builds add, and programs that define macros with common names
    if [ -z "$quick" ]; then
        strict NDEBUG "$1" c99 -O3 -DNDEBUG -c "$src/impl.c" -o "$dir/ndebug.o"
    fi
    strict "common names" "$1" c11 -fsyntax-only "$src/names.c"
    # shellcheck disable=SC2086
    strict "common names" "$1" c11 $openmp -fsyntax-only "$src/names_impl.c"
}

# Without workspace, calls stay on the stack that they were given.
test_stack() {
    printf '#include <pthread.h>\nint main(void)\n{\n    return 0;\n}\n' >"$dir/pthread.c"
    if ! "$1" "$dir/pthread.c" -o "$dir/pthread" -lpthread >/dev/null 2>&1; then
        echo "skipped: stacks ($1 has no pthread)"
        return
    fi
    stacks="16384 65536"
    if [ -n "$quick" ]; then
        stacks=$([ "$1" = "$first" ] && echo 16384)
    fi
    for bytes in $stacks; do
        quiet "stack of $bytes" "$1" -std=c99 -O1 -Wall -Wextra -DCKCONV_STACK_BYTES=$bytes -I"$INCLUDE" \
            "$src/stack.c" -o "$dir/stack" -lm -lpthread || continue
        if "$dir/stack" >"$dir/log" 2>&1; then
            good
        else
            bad "stack of $bytes bytes" "$dir/log"
        fi
    done
    fails "stack of 8192" "must be 16384 to 65536" "$1" -std=c99 -fsyntax-only -DCKCONV_STACK_BYTES=8192 \
        -I"$INCLUDE" "$src/impl.c"
}

# Programs of several units: implementation as C and as C++, users in both languages.
test_linking() {
    cxx=$(cxx_of "$1")
    if ! have "$cxx"; then
        echo "skipped: $cxx not found (linking)"
        return
    fi
    strict "user in C" "$1" c99 -c "$src/user_c.c" -o "$dir/user_c.o"
    strict "user in C++" "$cxx" c++11 -c "$src/user_cc.cc" -o "$dir/user_cc.o"
    strict "main in C" "$1" c99 -c "$src/main.c" -o "$dir/main_c.o"
    strict "main in C++" "$cxx" c++17 -c "$src/main.c" -o "$dir/main_cc.o"
    for object in "$1-c99" "$cxx-c++17"; do
        quiet "link $object" "$cxx" "$dir/main_c.o" "$dir/user_c.o" "$dir/user_cc.o" "$dir/$object.o" \
            -o "$dir/linked" -lm && quiet "run $object" "$dir/linked"
    done
    [ -z "$quick" ] || [ "$1" = "$first" ] || return
    strict "static copy in C" "$1" c99 -c "$src/static_c.c" -o "$dir/static_c.o"
    strict "static copy in C++" "$cxx" c++11 -c "$src/static_cc.cc" -o "$dir/static_cc.o"
    quiet "link static copies" "$cxx" "$dir/main_cc.o" "$dir/static_c.o" "$dir/static_cc.o" -o "$dir/static" \
        -lm && quiet "run static copies" "$dir/static"
    if have nm; then
        if nm "$dir/static_c.o" "$dir/static_cc.o" | grep ' [A-TV-Z] ckconv_' >"$dir/log"; then
            bad "CKCONV_STATIC leaves external functions" "$dir/log"
        else
            good
        fi
    fi
}

# All of the header, vectors of every instruction set included, as programs compile it: compilers warn of
# more where they optimise. gcc 11 compares what it left of a structure in a specialised function with the
# array that the parameter promises: parameters of such functions are pointers.
test_optimised() {
    for compiler in gcc-11 gcc-12 clang; do
        [ -z "$quick" ] || return
        if have "$compiler"; then
            quiet "$compiler -O3" "$compiler" -std=c99 -O3 -Wall -Wextra -I"$INCLUDE" \
                -c "$src/impl.c" -o "$dir/o3.o"
        else
            echo "skipped: $compiler not found (-O3)"
        fi
    done
}

# manual_code HEADING INDENT: the lines of code under a heading of the manual, known by their indentation
manual_code() {
    awk -v heading="$1" -v indent="$2" '
        index($0, heading) == 1 { on = 1; next }
        on && /^[A-Z]/ { exit }
        on && index($0, indent) == 1 && /;/ { print }' "$header"
}

# What the manual shows must compile and run as it stands.
test_manual() {
    {
        printf '#include "ckconv.h"\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n'
        printf 'static float in[200704], wei[18432], out[401408];\n'
        printf '#define x in\n#define dw wei\n#define dy out\nint main(void)\n{\n'
        manual_code "HELLO CONV" "    "
        manual_code "PLAN, WORKSPACE, RUN" "        "
        printf '    free(ws);\n    return err.status != CKCONV_OK;\n}\n'
    } >"$dir/manual.c"
    if ! grep -q ckconv_fwd "$dir/manual.c" || ! grep -q ckconv_run "$dir/manual.c"; then
        bad "the manual's code was not found" "$dir/manual.c"
        return
    fi
    quiet "manual's code" "$first" -std=c99 -Wall -Wextra -I"$INCLUDE" "$dir/manual.c" "$dir/$first-c99.o" \
        -o "$dir/manual" -lm && quiet "manual's code runs" "$dir/manual"
}

# probe OBJECT SWITCH: link the probe with an implementation and run it
probe() {
    quiet "$2, link" "$first" "$dir/probe.o" "$1" -o "$dir/probe" -lm && quiet "$2, probe" "$dir/probe" "$2"
}

# A shared library that hides all but what CKCONV_API marks has the API and nothing else.
test_api_macro() {
    visible='-DCKCONV_API=__attribute__((visibility("default")))'
    strict "$1, declarations" "$CC" c99 "$visible" -fsyntax-only "$src/declare.c"
    if ! quiet CKCONV_API "$CC" -std=c99 -O0 -fPIC -shared -fvisibility=hidden "$visible" -I"$INCLUDE" \
        "$src/impl.c" -o "$dir/api.so" -lm; then
        return
    fi
    if have nm; then
        nm -D --defined-only "$dir/api.so" >"$dir/log"
        if grep -q ' T ckconv_plan_conv$' "$dir/log" && ! grep -q ' ckci_' "$dir/log"; then
            good
        else
            bad "CKCONV_API does not mark what is exported" "$dir/log"
        fi
    fi
}

# MinGW, whichever threads it has: warnings, a program where it has win32 threads, and no clock of its thread
# library, which programs with win32 threads are not linked with. windows.h may be read before and after.
test_mingw() {
    for mingw in ${MINGW:-x86_64-w64-mingw32-gcc-win32 x86_64-w64-mingw32-gcc}; do
        if have "$mingw"; then
            break
        fi
    done
    if ! have "$mingw"; then
        echo "skipped: MinGW not found"
        return
    fi
    strict MinGW "$mingw" c99 -O0 -c "$src/impl.c" -o "$dir/mingw.o" || return
    if have nm; then
        nm -u "$dir/mingw.o" >"$dir/log"
        if grep -q QueryPerformanceCounter "$dir/log" && ! grep -q 'clock_gettime\|pthread' "$dir/log"; then
            good
        else
            bad "MinGW: not Windows' own clock" "$dir/log"
        fi
    fi
    quiet "MinGW, main" "$mingw" -std=c99 -I"$INCLUDE" "$src/user_c.c" "$dir/mingw.o" -shared \
        -o "$dir/mingw.dll"
    for order in before after; do
        {
            [ $order = after ] || echo '#include <windows.h>'
            printf '#define CKCONV_IMPLEMENTATION\n#include "ckconv.h"\n'
            [ $order = before ] || echo '#include <windows.h>'
            echo 'double seconds(void);'
            echo 'double seconds(void)'
            echo '{ LARGE_INTEGER t; QueryPerformanceCounter(&t); return (double)t.QuadPart; }'
        } >"$dir/mingw_$order.c"
        quiet "MinGW, windows.h $order" "$mingw" -std=c99 -I"$INCLUDE" -fsyntax-only "$dir/mingw_$order.c"
    done
}

# One switch of the manual's list.
one_switch() {
    case $1 in
    CKCONV_REQUIRE_GPU)
        fails "$1" "$1" "$CC" -std=c99 -D"$1" -I"$INCLUDE" -fsyntax-only "$src/impl.c"
        strict "$1, declarations" "$CC" c99 -D"$1" -fsyntax-only "$src/declare.c"
        return
        ;;
    CKCONV_API)
        test_api_macro
        return
        ;;
    CKCONV_NO_SIMD | CKCONV_NO_F64 | CKCONV_NO_I8 | CKCONV_NO_FP8 | CKCONV_NO_CONV_CONV | CKCONV_NO_GROUPNORM)
        all="$all -D$1"
        [ -z "$quick" ] || [ "$1" = CKCONV_NO_SIMD ] || return # test_switches.sh
        ;;
    CKCONV_NO_* | CKCONV_ONLY_* | CKCONV_PART) return ;; # test_switches.sh
    CKCONV_STATIC) ;;
    CKCONV_STACK_BYTES) return ;; # test_stack
    *)
        bad "this test does not know the switch $1"
        return
        ;;
    esac
    for cc in $compilers; do
        output=-fsyntax-only
        [ "$cc" != "$first" ] || output="-c -o $dir/switch-$cc.o"
        # shellcheck disable=SC2086
        strict "$1" "$cc" c99 -O0 -D"$1" $output "$src/impl.c"
        [ -n "$quick" ] || strict "$1" "$(cxx_of "$cc")" c++11 -D"$1" -fsyntax-only "$src/impl.c"
    done
    if [ "$1" != CKCONV_STATIC ]; then
        probe "$dir/switch-$first.o" "$1"
    fi
}

test_switches() {
    switches=$(awk '/^BUILD SWITCHES/ { on = 1; next } on && /^[A-Z]/ { exit }
                    on && /^    CKCONV_[A-Z0-9_]+/ { print $1 }' "$header")
    if [ -z "$switches" ]; then
        bad "no BUILD SWITCHES in the manual"
        return
    fi
    strict probe "$CC" c99 -c "$src/probe.c" -o "$dir/probe.o"
    probe "$dir/$first-c99.o" none
    all=
    for switch in $switches; do
        one_switch "$switch"
    done
    for cc in $compilers; do
        # shellcheck disable=SC2086
        strict "all that drop something" "$cc" c99 -O0 $all -c "$src/impl.c" -o "$dir/all-$cc.o"
    done
    probe "$dir/all-$first.o" all
    # switches that the code reads and the manual does not list
    cat "$INCLUDE"/ckconv*.h | grep -o 'CKCONV_NO_[A-Z0-9_]*' |
        grep -v '^CKCONV_NO_$' | LC_ALL=C sort -u >"$dir/used"
    echo "$switches" | tr ' ' '\n' | LC_ALL=C sort -u >"$dir/listed"
    LC_ALL=C comm -23 "$dir/used" "$dir/listed" >"$dir/log"
    if [ -s "$dir/log" ]; then
        bad "switches that the manual does not list" "$dir/log"
    else
        good
    fi
}

# The goal is 5 s of CPU time, 10 s with the AVX-512 kernels. Time is a note: machines differ, and so does
# their load. What fails is code that grows, which costs that time everywhere: gcc 12 makes 420 kB, clang 476.
test_compile_cost() {
    for omp in $([ -n "$quick" ] || echo -fno-openmp) -fopenmp; do
        read_times
        before=$spent
        # shellcheck disable=SC2086
        strict "release build" "$CC" c99 -O2 -DNDEBUG $omp -c "$src/impl.c" -o "$dir/cost.o"
        read_times
        seconds=$(echo $((spent - before)) | awk '{ printf "%.2f", $1 / 100 }')
        echo "note: $CC -O2 $omp takes $seconds s of CPU time for the implementation, all warnings on"
        if ! have size; then
            echo "skipped: size not found"
            continue
        fi
        text=$(size "$dir/cost.o" | awk 'NR == 2 { print $1 + 0 }')
        if [ "${text:-0}" -gt 100000 ] && [ "$text" -le 680000 ]; then
            good
        else
            bad "$CC -O2 $omp: ${text:-no} bytes of code, expected 100000 to 680000" "$dir/log"
        fi
    done
}

test_merged() {
    if [ ! -f "$SINGLE" ]; then
        echo "skipped: no $SINGLE (make single)"
        return
    fi
    mkdir -p "$dir/merged"
    cp "$SINGLE" "$dir/merged/ckconv.h"
    normal=$INCLUDE
    INCLUDE=$dir/merged
    strict "merged file" "$CC" c99 -O0 -c "$src/impl.c" -o "$dir/merged/impl.o" &&
        probe "$dir/merged/impl.o" none
    strict "merged file" "$(cxx_of "$CC")" c++17 -fsyntax-only "$src/impl.c"
    strict "merged file" "$CC" c99 -fsyntax-only "$src/declare.c"
    INCLUDE=$normal
}

compilers=
for cc in gcc clang; do
    if have $cc; then
        compilers="$compilers $cc"
    else
        echo "skipped: $cc not found"
    fi
done
compilers=${compilers:-$CC}
first=$(echo "$compilers" | awk '{ print $1 }')
test_compile_cost
for cc in $compilers; do
    one_compiler "$cc"
    test_linking "$cc"
    test_stack "$cc"
done
test_optimised
test_manual
test_switches
test_merged
test_mingw
echo "$name: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
