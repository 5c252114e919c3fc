#!/bin/sh
# test_amd.sh - the GPU code compiled for AMD targets: time, size, registers, spills, scratch, LDS
# SPDX-License-Identifier: MIT
#
# From the environment: TARGETS (default: gfx90a, else gfx942; with CKCONV_TEST_FULL all eight), BUILD
# (default build), INCLUDE (folder of ckconv.h, default the current one), SOURCE (default amd.hip beside this
# script), ROCM_PATH (prefix of the HIP headers and of amdgcn/bitcode, default /usr). With CKCONV_TEST_QUICK=1
# the kernels of bf16 alone.
#
# Leaves $BUILD/amd/TARGET.hsaco (the code object), TARGET.txt (a line for each kernel) and TARGET.log (what
# the compiler said). Debian's packages: hipcc llvm-15, clang-19 lld-19, clang-22 lld-22, python3.

name=test_amd
BUILD=${BUILD:-build}
INCLUDE=${INCLUDE:-.}
here=$(dirname "$0")
SOURCE=${SOURCE:-$here/amd.hip}
rocm=${ROCM_PATH:-/usr}
dir=$BUILD/amd
bitcode=$dir/bitcode
passed=0
failed=0
. "$here/shell.sh"

rm -rf "$bitcode"
mkdir -p "$bitcode" || exit 1

# The compiler of a target: Debian's hipcc (clang 15) for those that it and the distribution's bitcode know;
# the first clang that knows the others.
compiler_of() {
    case $1 in
    gfx90a | gfx1030) echo hipcc ;;
    gfx950 | gfx1250) echo clang++-22 ;;
    *) echo clang++-19 ;;
    esac
}

# The distribution's folder of bitcode libraries.
find_libraries() {
    for found in "$rocm"/amdgcn/bitcode "$rocm"/lib/*/amdgcn/bitcode "$rocm"/lib/amdgcn/bitcode; do
        if [ -f "$found/ocml.bc" ]; then
            (cd "$found" && pwd)
            return
        fi
    done
}

# isa_number gfx942: 9402 (major, then minor and stepping as hexadecimal digits)
isa_number() {
    digits=${1#gfx}
    rest=${digits#"${digits%??}"}
    echo $((${digits%??} * 1000 + 0x${rest%?} * 100 + 0x${rest#?}))
}

# add_bitcode TARGET: the private folder with the library that tells the libraries which target they are for.
# The distribution has them up to gfx940; a newer one differs from that in a number. Sets `missing`.
add_bitcode() {
    libraries=$(find_libraries)
    if [ -z "$libraries" ]; then
        missing="amdgcn/bitcode below $rocm"
        return
    fi
    for file in "$libraries"/*.bc; do
        ln -sf "$file" "$bitcode/${file##*/}"
    done
    isa=$bitcode/oclc_isa_version_${1#gfx}.bc
    if [ -e "$isa" ]; then
        return
    fi
    for v in -15 -19 ""; do
        if have llvm-dis$v && have llvm-as$v &&
            llvm-dis$v "$libraries/oclc_isa_version_940.bc" -o - 2>/dev/null |
            sed "s/i32 9400/i32 $(isa_number "$1")/" | llvm-as$v -o "$isa.new" 2>/dev/null &&
            [ -s "$isa.new" ]; then
            mv "$isa.new" "$isa"
            return
        fi
    done
    rm -f "$isa.new"
    missing="llvm-dis and llvm-as 15 or 19"
}

# What a target needs and this machine lacks, in `missing`.
look_for_tools() {
    missing=
    if ! have "$compiler"; then
        missing=$compiler
    elif [ "$compiler" != hipcc ] && ! have "ld.lld-${compiler##*-}"; then
        missing="ld.lld-${compiler##*-}"
    elif ! have python3; then
        missing=python3
    elif [ "$compiler" != hipcc ]; then
        add_bitcode "$1"
    fi
}

# compile TARGET LEVEL FILE: a bare ELF with code object version 5 (hipcc: its own default, as lld 15 does not
# link 5).
# The line of clang 22 is what it takes to read headers as old as HIP 5.2: a macro that it dropped, two
# functions of libraries that it replaced by builtins, and the library files that it no longer asks for.
compile() {
    level=$2
    file=$3
    set -- "$1" --cuda-device-only --no-gpu-bundle-output "$level" -std=c++17 -Wall -Wextra -I"$INCLUDE"
    if [ "$compiler" = hipcc ]; then
        set -- "$@" -c
    else
        set -- "$@" -mcode-object-version=5 --rocm-path="$rocm" --rocm-device-lib-path="$bitcode"
    fi
    if [ "$compiler" = clang++-22 ]; then
        rcp=__builtin_amdgcn_rcph
        set -- "$@" -D__AMDGCN_WAVEFRONT_SIZE=64 -D__llvm_amdgcn_rcp_f16=$rcp \
            "-D__llvm_amdgcn_rcp_2f16(x)=__half2{__half2_raw{_Float16_2{$rcp((x).data.x),$rcp((x).data.y)}}}"
        for library in hip oclc_daz_opt_off; do
            set -- "$@" -Xclang -mlink-builtin-bitcode -Xclang "$bitcode/$library.bc"
        done
    fi
    if [ -n "$quick" ]; then
        set -- "$@" -DCKCONV_ONLY_BF16
    fi
    target=$1
    shift
    "$compiler" -x hip --offload-arch="$target" "$@" "$SOURCE" -o "$file" >"$dir/$target.log" 2>&1
}

# has_unit TARGET PATTERN: matrix instructions of its code object
has_unit() {
    "$objdump" -d "$dir/$1.hsaco" 2>/dev/null | grep -q "$2"
}

# The matrix unit that ckconv.h's table of architectures gives a target; gfx1250's is not gfx12's.
check_unit() {
    objdump=llvm-objdump-${compiler##*-}
    if ! have "$objdump"; then
        return
    fi
    case $1 in
    gfx94* | gfx950) check "$1: no mfma" has_unit "$1" 'v_mfma_f32_32x32x' ;;
    gfx11* | gfx120*) check "$1: no wmma" has_unit "$1" 'v_wmma_f32_16x16x16_f16' ;;
    gfx1250) check "$1: no wmma of 32 places" has_unit "$1" 'v_wmma_f32_16x16x32_f16' ;;
    esac
}

# one_target TARGET
one_target() {
    compiler=$(compiler_of "$1")
    look_for_tools "$1"
    if [ -n "$missing" ]; then
        echo "skipped: $1 ($missing)"
        return
    fi
    object=$dir/$1.hsaco
    table=$dir/$1.txt
    rm -f "$object" "$table"
    read_times
    before=$spent
    if ! compile "$1" -O3 "$object"; then
        check "$1: $compiler does not compile $SOURCE ($dir/$1.log)" false
        grep -E 'error' "$dir/$1.log" | sed -n '1,8s/^/    /p'
        return
    fi
    read_times
    seconds=$(echo $((spent - before)) | awk '{ printf "%.1f", $1 / 100 }')
    check "$1: compiles" true
    check_unit "$1"
    check "$1: warnings in $dir/$1.log" [ ! -s "$dir/$1.log" ]
    if ! python3 "$here/amd_kernels.py" "$object" "$table" >"$dir/$1.sum" 2>&1; then
        check "$1: kernels of $object cannot be read: $(tail -n 1 "$dir/$1.sum")" false
        return
    fi
    read -r kernels vgprs vgpr_kernel vspills sspills scratch lds lds_kernel <"$dir/$1.sum"
    bytes=$(($(wc -c <"$object")))
    check "$1: has kernels" [ "$kernels" -gt 0 ]
    # a spill to memory is scratch and fails; one between register files is only reported
    check "$1: bytes of scratch:$(awk 'NR > 1 && $6 { printf " %s %d", $1, $6 }' "$table")" \
        [ "$scratch" -eq 0 ]
    check "$1: an object of $bytes bytes, more than 10 MB" [ "$bytes" -le 10000000 ]
    echo "note: $1: $compiler took $seconds s of CPU time; $bytes bytes, $kernels kernels," \
        "VGPRs up to $vgprs ($vgpr_kernel), spills $vspills + $sspills SGPR, scratch $scratch," \
        "LDS up to $lds ($lds_kernel)"
}

if [ -n "${TARGETS:-}" ]; then
    targets=$TARGETS
elif [ -n "${CKCONV_TEST_FULL:-}" ]; then
    targets="gfx90a gfx1030 gfx942 gfx950 gfx1100 gfx1151 gfx1201 gfx1250"
elif have hipcc || ! have clang++-19; then
    targets=gfx90a
else
    targets=gfx942
fi
for target in $targets; do
    one_target "$target"
done
# for debuggers; inline assembly may need what only optimisation gives. gfx90a: test_compile_gpu.sh
if [ -z "$missing" ] && [ "$target" != gfx90a ]; then
    check "$target: compiles without optimisation ($dir/$target.log)" \
        compile "$target" -O0 "$dir/unoptimised.hsaco"
fi
echo "$name: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
