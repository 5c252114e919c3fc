#!/bin/sh
# test_install.sh - make install and make dist, and projects outside that use what they give
# SPDX-License-Identifier: MIT
#
# From the environment: CC (default cc), MAKE (default make), CMAKE (default cmake), PKG_CONFIG (default
# pkg-config), BUILD (the Makefile's folder, default build). The projects are in tests/outside. What `make
# lib` and the driver need must be built.

name=test_install
CC=${CC:-cc}
MAKE=${MAKE:-make}
CMAKE=${CMAKE:-cmake}
PKG_CONFIG=${PKG_CONFIG:-pkg-config}
BUILD=${BUILD:-build}
outside=$(dirname "$0")/outside
passed=0
failed=0
. "$(dirname "$0")/shell.sh"
rm -rf "$BUILD/test/install"
mkdir -p "$BUILD/test/install" || exit 1
dir=$(cd "$BUILD/test/install" && pwd)
prefix=$dir/prefix
# an implementation for the host alone: that of the tests, or that of the examples
host=$(cd "$BUILD" && pwd)/test/main/ckconv.o
[ -e "$host" ] || host=$(cd "$BUILD" && pwd)/ckconv.o

# runs TEXT COMMAND...: the command must succeed; what it says is shown where it does not
runs() {
    text=$1
    shift
    if "$@" >"$dir/log" 2>&1; then
        good
        return 0
    fi
    bad "$text: $*" "$dir/log"
    return 1
}

# prints TEXT COMMAND...: the program must print what the outside projects' main.c prints
prints() {
    text=$1
    shift
    runs "$text" "$@" && check "$text: prints $(cat "$dir/log")" grep -q '^12 23 34$' "$dir/log"
}

# A file for each thing that is promised; the same below DESTDIR, with the prefix as it will be.
test_files() {
    runs "make install" "$MAKE" --no-print-directory B="$BUILD" PREFIX="$prefix" install || return 1
    for file in include/ckconv.h lib/libckconv.a lib/libckconv.so lib/pkgconfig/ckconv.pc bin/ckconv \
        lib/cmake/ckconv/ckconvConfig.cmake lib/cmake/ckconv/ckconvConfigVersion.cmake; do
        check "$file is not installed" [ -s "$prefix/$file" ]
    done
    # every header that the others ask for is there
    runs "declarations" "$CC" -std=c99 -Wall -Wextra -I"$prefix/include" -c "$outside/main.c" \
        -o "$dir/main.o"
    printf '#define CKCONV_IMPLEMENTATION\n#include <ckconv.h>\n' >"$dir/impl.c"
    runs "implementation" "$CC" -std=c99 -I"$prefix/include" -fsyntax-only "$dir/impl.c"
    runs "installed driver" "$prefix/bin/ckconv" info
    runs "DESTDIR" "$MAKE" --no-print-directory B="$BUILD" DESTDIR="$dir/stage" PREFIX=/usr \
        LIBDIR=/usr/lib/any install
    check "LIBDIR below DESTDIR" [ -s "$dir/stage/usr/lib/any/libckconv.a" ]
    check "DESTDIR stands in ckconv.pc" grep -q '^prefix=/usr$' "$dir/stage/usr/lib/any/pkgconfig/ckconv.pc"
}

# The shared library is found without more where its folder is a run path; the static one needs Libs.private.
test_libraries() {
    runs "shared library" "$CC" "$dir/main.o" "$prefix/lib/libckconv.so" "-Wl,-rpath,$prefix/lib" \
        -o "$dir/main_so" && prints "shared library" "$dir/main_so"
    if ! grep -q 'GPU=none' "$BUILD/config"; then
        echo "skipped: static library (the GPU compiler links it)"
        return
    fi
    needs=$(sed -n 's/^Libs.private://p' "$prefix/lib/pkgconfig/ckconv.pc")
    # shellcheck disable=SC2086
    runs "static library" "$CC" "$dir/main.o" "$prefix/lib/libckconv.a" $needs -o "$dir/main_a" &&
        prints "static library" "$dir/main_a"
}

test_pkg_config() {
    if ! have "$PKG_CONFIG"; then
        echo "skipped: make with pkg-config ($PKG_CONFIG not found)"
        return
    fi
    PKG_CONFIG_PATH=$prefix/lib/pkgconfig
    LD_LIBRARY_PATH=$prefix/lib
    export PKG_CONFIG_PATH LD_LIBRARY_PATH
    runs "make with pkg-config" "$MAKE" --no-print-directory -C "$outside/make" OUT="$dir" \
        PKG_CONFIG="$PKG_CONFIG" CC="$CC" && prints "make with pkg-config" "$dir/main"
    unset LD_LIBRARY_PATH
    check "pkg-config knows another version" \
        "$PKG_CONFIG" --exact-version="$(version)" ckconv
}

version() {
    sed -n 's/^#define CKCONV_VERSION_[MP][A-Z]* //p' "$prefix/include/ckconv.h" | paste -sd. -
}

# cmake_project TEXT FOLDER OPTIONS...: configure, build, run
cmake_project() {
    text=$1
    folder=$2
    shift 2
    runs "$text, configure" "$CMAKE" -S "$outside/$folder" -B "$dir/$folder" "$@" &&
        runs "$text, build" "$CMAKE" --build "$dir/$folder" && prints "$text" "$dir/$folder/main"
}

test_cmake() {
    if ! have "$CMAKE"; then
        echo "skipped: projects with CMake ($CMAKE not found)"
        return
    fi
    cmake_project "find_package" package -DCMAKE_C_COMPILER="$CC" -DCMAKE_PREFIX_PATH="$prefix"
    CKCONV_OBJECT=$host
    export CKCONV_OBJECT
    cmake_project "add_subdirectory" subdirectory -DCKCONV_SOURCE="$PWD" -DCMAKE_BUILD_TYPE=Debug \
        -DCMAKE_CXX_COMPILER_LAUNCHER="sh;$(cd "$outside" && pwd)/launch.sh"
    # with CKCONV_TEST_FULL the implementation as CUDA, of what main.c needs; it runs on the CPU without a GPU
    if [ -n "$CKCONV_TEST_FULL" ] && have nvcc; then
        cmake_project "CUDA" gpu -DLANGUAGE=CUDA -DCKCONV_SOURCE="$PWD" -DCMAKE_CUDA_ARCHITECTURES=90a-real \
            -DCMAKE_CUDA_FLAGS="-DCKCONV_ONLY_FWD -DCKCONV_ONLY_F32"
    fi
    runs "CMake's own install, configure" "$CMAKE" -S . -B "$dir/own" -DCMAKE_C_COMPILER="$CC" &&
        runs "CMake's own install" "$CMAKE" --install "$dir/own" --prefix "$dir/cmake_prefix" &&
        check "CMake installs other headers" sh -c "cd '$prefix/include' && for h in *; do
            cmp -s \"\$h\" '$dir/cmake_prefix/include/'\"\$h\" || exit 1; done"
}

test_dist() {
    runs "make dist" "$MAKE" --no-print-directory B="$BUILD" dist || return 1
    archive=$BUILD/ckconv-$(version).tar.gz
    check "no $archive" [ -s "$archive" ]
    runs "unpack" tar -xzf "$archive" -C "$dir" || return 1
    sums=$(command -v sha256sum || echo shasum -a 256)
    # shellcheck disable=SC2086
    runs "checksums" sh -c "cd '$dir/ckconv-$(version)' && $sums -c SHA256SUMS"
    check "the licence is missing" [ -s "$dir/ckconv-$(version)/LICENSE" ]
    check "the one file is not make single's" \
        cmp -s "$BUILD/ckconv.h" "$dir/ckconv-$(version)/single/ckconv.h"
    for header in "$prefix"/include/*; do
        check "dist lacks ${header##*/}" cmp -s "$header" "$dir/ckconv-$(version)/${header##*/}"
    done
}

if test_files; then
    test_libraries
    test_pkg_config
    test_cmake
    test_dist
fi
echo "$name: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
