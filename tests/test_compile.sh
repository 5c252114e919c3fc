#!/bin/sh
# test_compile.sh - every way to compile ckconv.h: compilers, languages, switches, several translation units
# SPDX-License-Identifier: MIT
#
# From the environment: CC (default cc), BUILD (scratch folder, default build/test), HEADER (default ckconv.h),
# HIPCC (default hipcc), NVCC (default nvcc). Run it from the folder that holds ckconv.h. gcc and clang are both
# used where they exist. A warning is a failure.

name=test_compile
CC=${CC:-cc}
BUILD=${BUILD:-build/test}
HEADER=${HEADER:-ckconv.h}
HIPCC=${HIPCC:-hipcc}
NVCC=${NVCC:-nvcc}
include=$(dirname "$HEADER")
base=$(basename "$HEADER")
dir=$BUILD/compile
passed=0
failed=0
warnings="-Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wundef -Wcast-align -pedantic -Werror"

rm -rf "$dir"
mkdir -p "$dir" || exit 1

have() {
    command -v "$1" >/dev/null 2>&1
}

good() {
    passed=$((passed + 1))
}

# bad TEXT [FILE]: count a failure and show the beginning of FILE
bad() {
    failed=$((failed + 1))
    echo "FAIL $1"
    if [ -n "$2" ] && [ -s "$2" ]; then
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

write_sources() {
    printf '#include "%s"\n#include "%s"\n' "$base" "$base" >"$dir/declare.c"
    printf 'int ckconv_test_declare(void);\nint ckconv_test_declare(void)\n{\n    return CKCONV_VERSION;\n}\n' >>"$dir/declare.c"
    printf '#define CKCONV_IMPLEMENTATION\n#include "%s"\n' "$base" >"$dir/impl.c"
    # declarations first, by way of some other header; then the implementation, twice
    printf '#include "%s"\n#define CKCONV_IMPLEMENTATION\n#include "%s"\n#include "%s"\n' "$base" "$base" "$base" \
        >"$dir/late.c"
    # names that programs and system headers define as macros
    cat >"$dir/names.h" <<'END'
#include <complex.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#ifdef _OPENMP
#include <omp.h>
#endif
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define near
#define far
#define small char
#define STRICT 1
#define major(x) ((x) >> 8)
#define minor(x) ((x) & 255)
#define BLOCK_SIZE 16
#define WARP_SIZE 32
#define TILE 8
#define ceil_div(a, b) (((a) + (b) - 1) / (b))
#define ERROR 0
#define PASS 1
END
    printf '#include "names.h"\n#include "%s"\n' "$base" >"$dir/names.c"
    printf '#include "names.h"\n#define CKCONV_IMPLEMENTATION\n#include "%s"\n' "$base" >"$dir/names_impl.c"
    for file in declare impl late names names_impl; do
        cp "$dir/$file.c" "$dir/$file.cc"
    done
    # <complex.h> of C++ is another thing; its macro I is not wanted there
    write_user c
    write_user cc
    write_static
    write_probe
}

# A program of the user: descriptions initialised in the usual ways, one convolution, one error.
write_user() {
    if [ "$1" = c ]; then
        empty='{0}'
        designated='ckconv_conv_desc named = {.ndim = 2, .n = 1, .k = 1, .c = 1, .filter = {1, 1}, .input = {1, 1}};'
    else
        empty='{}'
        designated='ckconv_conv_desc named = {}; named.ndim = 2; named.n = 1; named.k = 1; named.c = 1; named.filter[0] = 1; named.filter[1] = 1; named.input[0] = 1; named.input[1] = 1;'
    fi
    cat >"$dir/user_$1.$1" <<END
#include "$base"
#include <stdio.h>
#ifdef __cplusplus
extern "C" {
#endif
int run_$1(void);
#ifdef __cplusplus
}
#endif
int run_$1(void)
{
    ckconv_conv_desc d = $empty;
    ckconv_options options = $empty;
    ckconv_error err;
    ckconv_plan plan;
    $designated
    float in[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, wei[4] = {1, 10, 100, 1000}, out[4];
    d.ndim = 2;
    d.n = d.k = d.c = 1;
    d.filter[0] = d.filter[1] = 2;
    d.input[0] = d.input[1] = 3;
    if (ckconv_fwd(&d, in, wei, out, NULL, 0, NULL, &err) != CKCONV_OK) {
        puts(err.text);
        return 1;
    }
    options.engine = CKCONV_ENGINE_REF;
    if (ckconv_plan_conv(&plan, CKCONV_FWD, &named, &options, NULL, &err) != CKCONV_OK) {
        puts(err.text);
        return 1;
    }
    d.k = -1;
    return ckconv_version() != CKCONV_VERSION || out[0] > 5421.0f || out[0] < 5421.0f || out[3] > 9865.0f ||
           out[3] < 9865.0f || ckconv_fwd(&d, in, wei, out, NULL, 0, NULL, &err) != CKCONV_ERR_ARGUMENT;
}
END
    for language in c cc; do
        cat >"$dir/main.$language" <<'END'
#include <stdio.h>
#ifdef __cplusplus
extern "C" {
#endif
int run_c(void);
int run_cc(void);
#ifdef __cplusplus
}
#endif
int main(void)
{
    if (run_c() != 0 || run_cc() != 0) {
        puts("a translation unit computed something wrong");
        return 1;
    }
    return 0;
}
END
    done
}

# Two units, each with its own static copy of everything.
write_static() {
    for unit in c cc; do
        {
            printf '#define CKCONV_STATIC\n#define CKCONV_IMPLEMENTATION\n'
            cat "$dir/user_$unit.$unit"
        } >"$dir/static_$unit.$unit"
    done
}

# probe SWITCH: what the switch dropped must answer UNSUPPORTED and name it; all the rest must work. The same object
# is linked with every implementation, so a switch that changed a declaration would show.
write_probe() {
    cat >"$dir/probe.c" <<END
#include "$base"
#include <stdio.h>
#include <string.h>

static const char *dropped;
static int wrong;

static void expect(const char *what, const char *its_switch, ckconv_status status, const ckconv_error *err)
{
    const int gone = strcmp(its_switch, dropped) == 0 || strcmp("all", dropped) == 0;
    const int good = gone ? status == CKCONV_ERR_UNSUPPORTED && strstr(err->text, its_switch) != NULL
                          : status == CKCONV_OK;
    if (!good) {
        printf("%s with %s: status %d, \"%s\"\n", what, dropped, (int)status, err->text);
        wrong = 1;
    }
}

static void conv(const char *what, const char *its_switch, ckconv_dtype in, ckconv_dtype out, ckconv_dtype compute)
{
    ckconv_conv_desc d;
    ckconv_plan plan;
    ckconv_error err;
    memset(&d, 0, sizeof d);
    d.ndim = 1;
    d.n = d.k = d.c = 1;
    d.filter[0] = d.input[0] = 1;
    d.in.dtype = in;
    d.out.dtype = out;
    d.compute_in = compute;
    unsigned char x[8], y[8], z[8];
    const double one = 1.0;
    double back = 0.0;
    ckconv_status status = ckconv_plan_conv(&plan, CKCONV_FWD, &d, NULL, NULL, &err);
    expect(what, its_switch, status, &err);
    if (status == CKCONV_OK) {
        ckconv_from_double(in, &one, x, 1);
        ckconv_from_double(in, &one, y, 1);
        expect(what, its_switch, ckconv_fwd(&d, x, y, z, NULL, 0, NULL, &err), &err);
        ckconv_to_double(out, z, &back, 1);
        if (back < 1.0 || back > 1.0) {
            printf("%s with %s: 1 * 1 is %g\n", what, dropped, back);
            wrong = 1;
        }
    }
}

static void groupnorm(const char *what, const char *its_switch, ckconv_op op, ckconv_dtype dtype)
{
    ckconv_groupnorm_desc d;
    ckconv_plan plan;
    ckconv_error err;
    memset(&d, 0, sizeof d);
    d.ndim = 1;
    d.n = d.c = 1;
    d.input[0] = 4;
    d.eps = 1e-5;
    d.in.dtype = dtype;
    if (strcmp(dropped, "CKCONV_NO_GROUPNORM") == 0) {
        its_switch = "CKCONV_NO_GROUPNORM";
    }
    if (strcmp(dropped, "all") == 0) {
        its_switch = "CKCONV_NO_";
    }
    expect(what, its_switch, ckconv_plan_groupnorm(&plan, op, &d, NULL, NULL, &err), &err);
}

static void conv_conv(const char *what, const char *its_switch)
{
    ckconv_conv_conv_desc d;
    ckconv_plan plan;
    ckconv_error err;
    memset(&d, 0, sizeof d);
    d.conv0.ndim = 1;
    d.conv0.n = d.conv0.k = d.conv0.c = d.k1 = 1;
    d.conv0.filter[0] = d.conv0.input[0] = 1;
    expect(what, its_switch, ckconv_plan_conv_conv(&plan, &d, NULL, NULL, &err), &err);
}

static void transform(const char *what, const char *its_switch, ckconv_dtype dtype)
{
    const int64_t length[4] = {1, 1, 1, 1};
    ckconv_tensor src, dst;
    ckconv_error err;
    float x = 1.0f;
    unsigned char y[8];
    memset(&src, 0, sizeof src);
    memset(&dst, 0, sizeof dst);
    dst.dtype = dtype;
    expect(what, its_switch, ckconv_transform(1, length, &src, &x, &dst, y, NULL, &err), &err);
}

int main(int argc, char **argv)
{
    ckconv_device cpu;
    dropped = argc > 1 ? argv[1] : "none";
    conv("f32", "none", CKCONV_F32, CKCONV_F32, 0);
    conv("f16", "none", CKCONV_F16, CKCONV_F16, 0);
    conv("bf16", "none", CKCONV_BF16, CKCONV_BF16, 0);
    conv("tf32", "none", CKCONV_F32, CKCONV_F32, 0);
    conv("f64", "CKCONV_NO_F64", CKCONV_F64, CKCONV_F64, 0);
    conv("i8", "CKCONV_NO_I8", CKCONV_I8, CKCONV_I8, 0);
    conv("i8 to i32", "CKCONV_NO_I8", CKCONV_I8, CKCONV_I32, 0);
    for (ckconv_dtype fp8 = CKCONV_F8E4M3; fp8 <= CKCONV_F8E5M2FNUZ; fp8++) {
        conv("fp8", "CKCONV_NO_FP8", fp8, fp8, 0);
        conv("fp8 to f32", "CKCONV_NO_FP8", fp8, CKCONV_F32, 0);
        conv("f16 computed in fp8", "CKCONV_NO_FP8", CKCONV_F16, CKCONV_F16, fp8);
        transform("fp8 transform", "CKCONV_NO_FP8", fp8);
    }
    transform("f64 transform", "CKCONV_NO_F64", CKCONV_F64);
    transform("i8 transform", "CKCONV_NO_I8", CKCONV_I8);
    transform("i32 transform", "CKCONV_NO_I8", CKCONV_I32);
    transform("f16 transform", "none", CKCONV_F16);
    groupnorm("groupnorm_fwd", "none", CKCONV_GROUPNORM_FWD, CKCONV_F32);
    groupnorm("groupnorm_bwd", "none", CKCONV_GROUPNORM_BWD, CKCONV_BF16);
    groupnorm("groupnorm_fwd f64", "CKCONV_NO_F64", CKCONV_GROUPNORM_FWD, CKCONV_F64);
    conv_conv("conv_conv_fwd", "CKCONV_NO_CONV_CONV");
    ckconv_device_cpu(&cpu);
    if ((strcmp(dropped, "CKCONV_NO_SIMD") == 0 || strcmp(dropped, "all") == 0) && cpu.features != 0) {
        printf("CKCONV_NO_SIMD, but the CPU's facts claim features %d\n", (int)cpu.features);
        wrong = 1;
    }
    return wrong;
}
END
}

# The lines of code under a heading of the manual.
manual_code() {
    awk -v heading="$1" '
        index($0, heading) == 1 { on = 1; next }
        on && /^[A-Z]/ { exit }
        on && /;/ { print }' "$HEADER"
}

# What the manual shows must compile and run as it stands.
test_manual() {
    {
        printf '#include "%s"\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n' "$base"
        printf 'static float in[200704], wei[18432], out[401408];\n'
        printf '#define x in\n#define dw wei\n#define dy out\nint main(void)\n{\n'
        manual_code "HELLO CONV"
        manual_code "PLAN, WORKSPACE, RUN"
        printf '    free(ws);\n    return err.status != CKCONV_OK;\n}\n'
    } >"$dir/manual.c"
    if ! grep -q ckconv_fwd "$dir/manual.c" || ! grep -q ckconv_run "$dir/manual.c"; then
        bad "the manual's code was not found" "$dir/manual.c"
        return
    fi
    quiet "manual's code" "$CC" -std=c99 -Wall -Wextra -I"$include" "$dir/manual.c" "$dir/$1" -o "$dir/manual" -lm &&
        quiet "manual's code runs" "$dir/manual"
}

# one_compiler CC: all languages, with and without OpenMP
one_compiler() {
    cc=$1
    cxx=$(cxx_of "$cc")
    openmp=
    printf '#include <omp.h>\nint main(void)\n{\n    return omp_get_max_threads() < 1;\n}\n' >"$dir/omp.c"
    if "$cc" -fopenmp "$dir/omp.c" -o "$dir/omp" >/dev/null 2>&1; then
        openmp=-fopenmp
    else
        echo "skipped: $cc has no OpenMP"
    fi
    extra=
    case $cc in *clang*) extra=-Wreserved-identifier ;; esac
    for std in c99 c11 c++11 c++17; do
        compiler=$cc
        suffix=c
        case $std in c++*)
            compiler=$cxx
            suffix=cc
            ;;
        esac
        if ! have "$compiler"; then
            echo "skipped: $compiler not found ($std)"
            continue
        fi
        # shellcheck disable=SC2086
        for omp in "" $openmp; do
            for file in declare impl late; do
                level=-O0
                if [ "$file$std" = implc99 ] || [ "$file$std" = implc++17 ]; then
                    level=-O2
                fi
                if [ "$file" = impl ]; then
                    quiet "$file" "$compiler" -std=$std $level $omp $warnings $extra -I"$include" -c \
                        "$dir/$file.$suffix" -o "$dir/$compiler-$std$omp-$file.o"
                else
                    quiet "$file" "$compiler" -std=$std $omp $warnings $extra -I"$include" -fsyntax-only \
                        "$dir/$file.$suffix"
                fi
            done
        done
    done
    # what release builds add, and programs that define macros with common names
    # shellcheck disable=SC2086
    quiet "NDEBUG" "$cc" -std=c99 -O3 -DNDEBUG $warnings $extra -I"$include" -c "$dir/impl.c" -o "$dir/ndebug.o"
    # shellcheck disable=SC2086
    quiet "macro names" "$cc" -std=c11 $warnings -I"$include" -fsyntax-only "$dir/names.c"
    # shellcheck disable=SC2086
    quiet "macro names" "$cc" -std=c11 $openmp $warnings -I"$include" -fsyntax-only "$dir/names_impl.c"
}

# Programs of several units: implementation as C and as C++, users in both languages.
test_linking() {
    cxx=$(cxx_of "$1")
    if ! have "$cxx"; then
        echo "skipped: $cxx not found (linking)"
        return
    fi
    objects=
    # shellcheck disable=SC2086
    quiet "user in C" "$1" -std=c99 $warnings -I"$include" -c "$dir/user_c.c" -o "$dir/user_c.o" &&
        quiet "user in C++" "$cxx" -std=c++11 $warnings -I"$include" -c "$dir/user_cc.cc" -o "$dir/user_cc.o" &&
        quiet "main in C" "$1" -c "$dir/main.c" -o "$dir/main_c.o" &&
        quiet "main in C++" "$cxx" -c "$dir/main.cc" -o "$dir/main_cc.o" || return
    for std in c99 c++17; do
        compiler=$1
        if [ $std = c++17 ]; then
            compiler=$cxx
        fi
        quiet "link, implementation as $std" "$cxx" "$dir/main_c.o" "$dir/user_c.o" "$dir/user_cc.o" \
            "$dir/$compiler-$std-impl.o" -o "$dir/linked-$std" -lm && quiet "run, implementation as $std" "$dir/linked-$std"
    done
    # shellcheck disable=SC2086
    quiet "static copy in C" "$1" -std=c99 $warnings -I"$include" -c "$dir/static_c.c" -o "$dir/static_c.o"
    # shellcheck disable=SC2086
    quiet "static copy in C++" "$cxx" -std=c++11 $warnings -I"$include" -c "$dir/static_cc.cc" -o "$dir/static_cc.o"
    quiet "link two static copies" "$cxx" "$dir/main_cc.o" "$dir/static_c.o" "$dir/static_cc.o" -o "$dir/static" -lm &&
        quiet "run two static copies" "$dir/static"
    if have nm; then
        if nm "$dir/static_c.o" "$dir/static_cc.o" | grep ' [A-TV-Z] ckconv_' >"$dir/log"; then
            bad "CKCONV_STATIC leaves external functions" "$dir/log"
        else
            good
        fi
    fi
}

# Every switch of the list in the manual.
test_switches() {
    switches=$(awk '/^BUILD SWITCHES/ { on = 1; next } on && /^[A-Z]/ { exit }
                    on && /^    CKCONV_[A-Z0-9_]+/ { print $1 }' "$HEADER")
    if [ -z "$switches" ]; then
        bad "no BUILD SWITCHES in the manual"
        return
    fi
    quiet "probe" "$CC" -std=c99 -Wall -Wextra -I"$include" -c "$dir/probe.c" -o "$dir/probe.o"
    all=
    for switch in none $switches; do
        case $switch in
        none) define=-DCKCONV_TEST_NONE ;;
        *) define=-D$switch ;;
        esac
        case $switch in
        CKCONV_REQUIRE_GPU)
            fails "$switch" CKCONV_REQUIRE_GPU "$CC" -std=c99 "$define" -I"$include" -fsyntax-only "$dir/impl.c"
            # shellcheck disable=SC2086
            quiet "$switch, declarations" "$CC" -std=c99 "$define" $warnings -I"$include" -fsyntax-only "$dir/declare.c"
            continue
            ;;
        none | CKCONV_NO_* | CKCONV_STATIC) ;;
        *)
            bad "this test does not know the switch $switch"
            continue
            ;;
        esac
        for cc in $compilers; do
            # shellcheck disable=SC2086
            quiet "$switch" "$cc" -std=c99 "$define" $warnings -I"$include" -c "$dir/impl.c" -o "$dir/switch-$cc.o"
        done
        # shellcheck disable=SC2086
        quiet "$switch" "$(cxx_of "$CC")" -std=c++11 "$define" $warnings -I"$include" -fsyntax-only "$dir/impl.cc"
        case $switch in CKCONV_NO_*) all="$all $define" ;; esac
        if [ "$switch" != CKCONV_STATIC ]; then
            first=$(echo "$compilers" | awk '{ print $1 }')
            quiet "$switch, link" "$first" "$dir/probe.o" "$dir/switch-$first.o" -o "$dir/probe" -lm &&
                quiet "$switch, probe" "$dir/probe" "$switch"
        fi
    done
    # shellcheck disable=SC2086
    quiet "all NO switches" "$CC" -std=c99 $all $warnings -I"$include" -c "$dir/impl.c" -o "$dir/all.o" &&
        quiet "all NO switches, link" "$CC" "$dir/probe.o" "$dir/all.o" -o "$dir/probe" -lm &&
        quiet "all NO switches, probe" "$dir/probe" all
    # switches that the code reads and the manual does not list
    grep -o 'CKCONV_NO_[A-Z0-9_]*' "$HEADER" | LC_ALL=C sort -u >"$dir/used"
    echo "$switches" | tr ' ' '\n' | LC_ALL=C sort -u >"$dir/listed"
    LC_ALL=C comm -23 "$dir/used" "$dir/listed" | grep -v '^CKCONV_NO_DEVICE' >"$dir/log"
    if [ -s "$dir/log" ]; then
        bad "switches that the manual does not list" "$dir/log"
    else
        good
    fi
}

# CPU seconds of this shell's children, in hundredths.
child_seconds() {
    times >"$dir/times"
    awk 'NR == 2 {
        for (i = 1; i <= 2; i++) { split($i, part, /[ms]/); sum += part[1] * 60 + part[2] }
        printf "%d\n", sum * 100
    }' "$dir/times"
}

# 5 s of CPU time is the goal; twice that is a failure (a loaded or slow machine).
test_compile_time() {
    for omp in "" -fopenmp; do
        before=$(child_seconds)
        # shellcheck disable=SC2086
        "$CC" -std=c99 -O2 $omp -I"$include" -c "$dir/impl.c" -o "$dir/time.o" >/dev/null 2>&1
        after=$(child_seconds)
        spent=$((after - before))
        echo "compile time: $CC -O2 $omp $(echo "$spent" | awk '{ printf "%.2f", $1 / 100 }') s of CPU time (goal 5)"
        if [ "$spent" -le 1000 ]; then
            good
        else
            bad "compile time above 10 s"
        fi
    done
}

test_merged() {
    merged=${MERGED:-build/ckconv.h}
    if [ ! -f "$merged" ]; then
        echo "skipped: no $merged (make single)"
        return
    fi
    mkdir -p "$dir/merged"
    cp "$merged" "$dir/merged/ckconv.h"
    printf '#define CKCONV_IMPLEMENTATION\n#include "ckconv.h"\n' >"$dir/merged/impl.c"
    cp "$dir/merged/impl.c" "$dir/merged/impl.cc"
    # shellcheck disable=SC2086
    quiet "merged file" "$CC" -std=c99 -O2 $warnings -I"$dir/merged" -c "$dir/merged/impl.c" -o "$dir/merged/impl.o" &&
        quiet "merged file, link" "$CC" "$dir/probe.o" "$dir/merged/impl.o" -o "$dir/merged/probe" -lm &&
        quiet "merged file, probe" "$dir/merged/probe" none
    # shellcheck disable=SC2086
    quiet "merged file" "$(cxx_of "$CC")" -std=c++17 $warnings -I"$dir/merged" -fsyntax-only "$dir/merged/impl.cc"
}

test_gpu_compilers() {
    if have "$HIPCC"; then
        quiet "hipcc" "$HIPCC" -x hip --offload-arch=gfx90a -O2 -Wall -Wextra -I"$include" -c "$dir/impl.c" -o "$dir/hip.o"
    else
        echo "skipped: hipcc not found"
    fi
    if have "$NVCC"; then
        quiet "nvcc" "$NVCC" -x cu -arch=sm_90a -O2 -I"$include" -c "$dir/impl.c" -o "$dir/cuda.o"
    else
        echo "skipped: nvcc not found"
    fi
}

compilers=
for cc in gcc clang; do
    if have $cc; then
        compilers="$compilers $cc"
    else
        echo "skipped: $cc not found"
    fi
done
if [ -z "$compilers" ]; then
    compilers=$CC
fi
write_sources
test_compile_time
for cc in $compilers; do
    one_compiler "$cc"
    test_linking "$cc"
done
first=$(echo "$compilers" | awk '{ print $1 }')
test_manual "$first-c99-impl.o"
test_switches
test_merged
test_gpu_compilers
echo "$name: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
