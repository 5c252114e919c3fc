#!/bin/sh
# launch.sh - CMake's compiler launcher, to save a test's time: the implementation is compiled elsewhere
# SPDX-License-Identifier: MIT
#
# Called as launch.sh COMPILER ARGUMENTS. Instead of compiling the file that holds the implementation, checks
# that it was asked for with optimisation and can be read, and copies $CKCONV_OBJECT to where it belongs.
output=
optimised=
implementation=
previous=
for argument in "$@"; do
    case $argument in
    -O0) optimised= ;;
    -O3) optimised=yes ;;
    */ckconv_cpu.c | */ckconv_cpu.cc) implementation=$argument ;;
    esac
    if [ "$previous" = -o ]; then
        output=$argument
    fi
    previous=$argument
done
if [ -z "$implementation" ]; then
    exec "$@"
fi
if [ -z "$optimised" ]; then
    echo "launch.sh: the implementation is compiled without -O3: $*" >&2
    exit 1
fi
"$@" -fsyntax-only && cp "$CKCONV_OBJECT" "$output"
