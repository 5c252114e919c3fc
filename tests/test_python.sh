#!/bin/sh
# test_python.sh - python/ckconv_torch.py: structs beside the C compiler's, functions beside PyTorch's own,
# its operators and torch.compile where PyTorch has them, and what a call costs the host
# SPDX-License-Identifier: MIT
#
# From the environment: CC (cc), BUILD (default build; holds libckconv.so and, where Python.h is,
# _ckconv_fast.abi3.so),
# PYTHON (default: the first python3 that has torch).

name=test_python
CC=${CC:-cc}
BUILD=${BUILD:-build}
here=$(dirname "$0")
dir=$BUILD/test/python
mkdir -p "$dir" || exit 1
finish() {
    echo "$name: $1 passed, $2 failed"
    [ "$2" -eq 0 ]
    exit
}

python=
for p in ${PYTHON:-python3 /usr/bin/python3}; do
    if [ -z "$python" ] && "$p" -c 'import torch' >/dev/null 2>&1; then
        python=$p
    fi
done
if [ -z "$python" ]; then
    echo "skipped: Python with PyTorch (Debian: python3-torch)"
    finish 0 0
fi

# sizes and places of members, as both sides have them
cat >"$dir/structs.c" <<'EOF'
#include "ckconv.h"
#include <stdio.h>
#define SIZE(T) printf(#T " %d\n", (int)sizeof(ckconv_##T))
#define PLACE(T, M) printf(#T "." #M " %d\n", (int)offsetof(ckconv_##T, M))
int main(void)
{
    SIZE(tensor); SIZE(element_op); SIZE(conv_desc); SIZE(groupnorm_desc); SIZE(args); SIZE(options);
    SIZE(error);
    PLACE(conv_desc, input); PLACE(conv_desc, wei); PLACE(conv_desc, compute_out); PLACE(conv_desc, op_out);
    PLACE(conv_desc, d); PLACE(groupnorm_desc, eps); PLACE(groupnorm_desc, din); PLACE(groupnorm_desc, act);
    PLACE(groupnorm_desc, param_per_image);
    PLACE(args, d); PLACE(args, saved_inv_std); PLACE(args, dbeta); PLACE(options, max_workspace);
    PLACE(plan, workspace_bytes); PLACE(plan, bytes);
    printf("plan_room %d\n", (int)sizeof(ckconv_plan));
    return 0;
}
EOF
cat >"$dir/structs.py" <<'EOF'
import sys
sys.path.insert(0, sys.argv[1])
import ckconv_torch as m
names = dict(tensor=m.Tensor, element_op=m.ElementOp, conv_desc=m.ConvDesc, groupnorm_desc=m.GroupnormDesc,
             args=m.Args, options=m.Options, error=m.Error, plan=m.Plan)
other = {"args.d": "d0"}
passed = failed = 0
for line in sys.stdin:
    what, number = line.split()
    if what == "plan_room":
        good = int(number) <= m.ct.sizeof(m.Plan)
    elif "." in what:
        struct, member = what.split(".")
        good = getattr(names[struct], other.get(what, member)).offset == int(number)
    else:
        good = m.ct.sizeof(names[what]) == int(number)
    passed, failed = passed + good, failed + (not good)
    if not good:
        print("FAIL", what, "is", number, "in C")
print(passed, failed)
EOF
passed=0
failed=0
if $CC -I"$here/.." "$dir/structs.c" -o "$dir/structs" 2>"$dir/log" &&
    "$dir/structs" | "$python" "$dir/structs.py" "$here/../python" >"$dir/structs.txt" 2>>"$dir/log"; then
    sed '$d' "$dir/structs.txt"
    read -r passed failed <<EOF
$(tail -n 1 "$dir/structs.txt")
EOF
else
    cat "$dir/log"
    failed=1
fi

# program NAME ARGUMENTS: a program of this folder, which ends with its counts
program() {
    program=$1
    shift
    CKCONV_LIBRARY=$BUILD/libckconv.so "$python" -W ignore "$here/$program.py" "$@" >"$dir/$program.txt" 2>&1
    status=$?
    grep -v "^$program: " "$dir/$program.txt"
    counts=$(sed -n "s/^$program: \([0-9]*\) passed, \([0-9]*\) failed\$/\1 \2/p" "$dir/$program.txt")
    case $status/$counts in
    0/?* | */*' '[1-9]*) ;;
    *) counts="0 1" ;; # it crashed, or said nothing
    esac
    passed=$((passed + ${counts% *}))
    failed=$((failed + ${counts#* }))
}
program torch_binding
program torch_compile --device cpu --calls 400

# The example: the same losses, of the first step and of the last, with both.
CKCONV_LIBRARY=$BUILD/libckconv.so "$python" -W ignore "$here/../examples/train_resnet50.py" --device cpu \
    --batch 2 --steps 2 --size 32 --width 32 --dtype f32 >"$dir/resnet.txt" 2>&1
if awk '/images\/s, loss/ { n++; first[n] = $5; last[n] = $7 }
        function near(a, b) { return a - b < .001 * a && b - a < .001 * a }
        END { exit !(n == 2 && near(first[1], first[2]) && near(last[1], last[2])) }' "$dir/resnet.txt"; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
    echo "FAIL examples/train_resnet50.py"
    cat "$dir/resnet.txt"
fi

# Whole steps of a network, as they are timed: they end, and both losses are the same.
if CKCONV_LIBRARY=$BUILD/libckconv.so "$python" -W ignore "$here/../bench/steps.py" --device cpu \
    --models unet3d --batch 2 --size 16 --steps 1 --dtype f32 >"$dir/steps.txt" 2>&1 &&
    grep -q '^unet3d .* loss ' "$dir/steps.txt" && ! grep -q 'left to PyTorch' "$dir/steps.txt"; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
    echo "FAIL bench/steps.py"
    cat "$dir/steps.txt"
fi
finish "$passed" "$failed"
