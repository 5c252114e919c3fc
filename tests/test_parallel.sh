#!/bin/sh
# test_parallel.sh - examples/parallel.h and train_digits_parallel: the same bits on 1, 2 and 4 ranks, and the
# end of all when one is lost
# SPDX-License-Identifier: MIT
#
# From the environment: CC (cc), CXX (c++), BUILD (default build; holds train_digits, train_digits_parallel
# and the simulator's object). Ranks are threads, processes of Open MPI's mpirun, and processes that meet in a
# file, with simulated GPUs and tests/nccl_sim.c in NCCL's place.

name=test_parallel
CC=${CC:-cc}
CXX=${CXX:-c++}
BUILD=${BUILD:-build}
here=$(dirname "$0")
dir=$BUILD/test/parallel
passed=0
failed=0
. "$here/shell.sh"
rm -rf "$dir"
mkdir -p "$dir" || exit 1
openmp=$(cat "$BUILD/openmp" 2>/dev/null)
program=$BUILD/train_digits_parallel
# What a command may take before it counts as one that hangs; those that wait for a lost rank give up after 5
# or 6 seconds.
limit="timeout 120"
have timeout || limit=
seconds=$(date +%s)

# bounded COMMAND...: a program within the limit, or `processes`, which has one for each of its own
bounded() {
    case $1 in
    processes) "$@" ;;
    *) $limit "$@" ;;
    esac
}

# epochs LABEL COMMAND...: the lines `epoch ...` must be those in $dir/right
epochs() {
    label=$1
    shift
    bounded "$@" >"$dir/log" 2>&1
    status=$?
    grep '^epoch ' "$dir/log" >"$dir/lines"
    if [ $status -eq 0 ] && cmp -s "$dir/lines" "$dir/right"; then
        good
    else
        bad "$label: status $status, or other lines" "$dir/log"
    fi
}

# ends LABEL STATUS TEXT COMMAND...: ends with this status and says TEXT, in time
ends() {
    label=$1
    want=$2
    text=$3
    shift 3
    start=$(date +%s)
    bounded "$@" >"$dir/log" 2>&1
    status=$?
    took=$(($(date +%s) - start))
    if [ $status -eq "$want" ] && [ $took -le 60 ] && grep -q -e "$text" "$dir/log"; then
        good
    else
        bad "$label: status $status instead of $want, $took seconds, or no '$text'" "$dir/log"
    fi
}

# processes RANKS COMMAND...: one process for each rank, as an environment without mpirun starts them. Prints
# what they print and `statuses: ...`, sorted.
processes() {
    ranks=$1
    shift
    rank=0
    rm -f "$dir"/rank.*
    while [ $rank -lt "$ranks" ]; do
        (
            RANK=$rank WORLD_SIZE=$ranks $limit "$@" >"$dir/rank.$rank.log" 2>&1
            echo $? >"$dir/rank.$rank.status"
        ) &
        rank=$((rank + 1))
    done
    wait
    cat "$dir"/rank.*.log
    echo "statuses: $(sort -n "$dir"/rank.*.status | tr '\n' ' ')"
}

# faults LABEL PREFIX...: rank 1 dies, hangs, has other weights; PREFIX starts two ranks
faults() {
    label=$1
    die_status=$2
    die_text=$3
    shift 3
    ends "$label, a rank dies" "$die_status" "$die_text" "$@" --epochs 1 --timeout 5 --die 1,3
    ends "$label, a rank hangs" 3 'step 3: nothing came from .* in 5 seconds; all ranks end' \
        "$@" --epochs 1 --timeout 5 --hang 1,3
    ends "$label, a weight that differs" 4 'step 4: the weights of rank 0 (.*) are not those of rank 1 (' \
        "$@" --epochs 1 --timeout 20 --check 2 --spoil 1,4
}

# --- Threads

common="--engine cpu --epochs 2"
# shellcheck disable=SC2086
$limit "$program" $common >"$dir/log" 2>&1
grep '^epoch ' "$dir/log" >"$dir/right"
check "two epochs, and the loss falls" awk '{ loss[NR] = $4 } END { exit !(NR == 2 && loss[2] < loss[1]) }' \
    "$dir/right"
for ranks in 2 4; do
    # shellcheck disable=SC2086
    epochs "self, $ranks ranks" "$program" $common --ranks $ranks
done
# Buckets and checks change nothing; shards do, as sums are added in another order.
# shellcheck disable=SC2086
epochs "one bucket" "$program" $common --ranks 2 --bucket 100000
# shellcheck disable=SC2086
epochs "a bucket for each layer" "$program" $common --ranks 2 --bucket 0 --check 1
# shellcheck disable=SC2086
$limit "$program" $common --ranks 2 --shards 2 >"$dir/log" 2>&1
grep '^epoch ' "$dir/log" >"$dir/lines"
check "two shards give the bits of four: these lines tell nothing" sh -c "! cmp -s '$dir/lines' '$dir/right'"
# With one shard it is train_digits: loss and accuracies, as far as that prints them.
rounded() {
    awk '/^epoch/ { sub(/,/, ""); for (i = 1; i <= NF; i++) {
        if ($i == "loss") { loss = $(i + 1) }
        if ($i == "train") { train = $(i + 1) }
        if ($i == "%") { test = $(i - 1) }
    } printf "%.4f %s %s\n", loss, train, test }' "$1"
}
# shellcheck disable=SC2086
$limit "$program" $common --shards 1 >"$dir/log" 2>&1
rounded "$dir/log" >"$dir/parallel.txt"
# shellcheck disable=SC2086
$limit "$BUILD/train_digits" $common --svg "$dir/digits.svg" >"$dir/log" 2>&1
rounded "$dir/log" >"$dir/plain.txt"
check "one shard is not what train_digits computes" cmp "$dir/parallel.txt" "$dir/plain.txt"
check "train_digits printed nothing" [ -s "$dir/plain.txt" ]
# shellcheck disable=SC2086
faults self 3 'step 3: nothing came from rank 1 in 5 seconds; all ranks end' \
    "$program" --engine cpu --ranks 2
ends "three ranks" 2 'must be a power of two' "$program" --engine cpu --ranks 3
ends "fewer shards than ranks" 2 'must be a multiple of the 8 ranks' "$program" --engine cpu --ranks 8
ends "nccl without a GPU" 2 'needs a GPU' "$program" --engine cpu --transport nccl

# Sums of all lengths beside the tree, the threads watched where the compiler can.
quiet "parallel_sums.c" "$CC" -std=c99 -O1 -Wall -Wextra "$here/parallel_sums.c" -o "$dir/sums" -lpthread -ldl
for ranks in 1 2 4 8; do
    ends "sums of $ranks ranks" 0 "^30 compared on $ranks ranks" "$dir/sums" self $ranks
done
if "$CC" -std=c99 -O1 -g -fsanitize=thread "$here/parallel_sums.c" -o "$dir/sums_watched" -lpthread -ldl \
    >/dev/null 2>&1 && "$dir/sums_watched" self 1 >/dev/null 2>&1; then
    ends "sums, threads watched" 0 "^30 compared on 4 ranks" "$dir/sums_watched" self 4
else
    echo "skipped: threads of parallel.h watched (-fsanitize=thread does not work with $CC here)"
fi
bench="--bench --channels 32 --size 8 --depth 2 --batch 4 --steps 5 --dtype f32"
# shellcheck disable=SC2086
ends "bench" 0 'images/s' "$program" $bench --engine cpu --ranks 2

# --- Open MPI

if have mpirun && mpirun --version 2>&1 | grep -q 'Open MPI'; then
    # More ranks than cores; root, as in a container, where one process may not read another's memory.
    OMPI_MCA_btl_vader_single_copy_mechanism=none
    export OMPI_MCA_btl_vader_single_copy_mechanism
    mpi="mpirun --oversubscribe --allow-run-as-root"
    for ranks in 1 2 4; do
        # shellcheck disable=SC2086
        epochs "mpi, $ranks ranks" $mpi -np $ranks "$program" $common --transport mpi
    done
    # shellcheck disable=SC2086
    ends "sums with mpi" 0 "^30 compared on 4 ranks" $mpi -np 4 "$dir/sums" mpi 4
    # shellcheck disable=SC2086
    faults mpi 137 'signal 9' $mpi -np 2 "$program" --engine cpu --transport mpi
    # shellcheck disable=SC2086
    ends "another number of ranks" 2 '4 ranks are wanted, 2 were started' \
        $mpi -np 2 "$program" --engine cpu --transport mpi --ranks 4
else
    echo "skipped: ranks with MPI (no mpirun of Open MPI; Debian: openmpi-bin)"
fi
PARALLEL_MPI=$dir/none.so
export PARALLEL_MPI
ends "a library that is not there" 2 'cannot open .*none.so' "$program" --engine cpu --transport mpi
unset PARALLEL_MPI

# --- Simulated GPUs

on_gpus() {
    PARALLEL_NCCL=$dir/nccl_sim.so
    PARALLEL_GPU=$dir/nccl_sim.so
    MASTER_FILE=$dir/meet
    NCCL_SIM_FOLDER=$BUILD/test/parallel # short, for it travels in NCCL's 128 bytes
    export PARALLEL_NCCL PARALLEL_GPU MASTER_FILE NCCL_SIM_FOLDER
    sed 10q "$here/../examples/digits.csv" >"$dir/ten.csv"
    common="--engine gpu --data $dir/ten.csv --batch 8 --epochs 3 --timeout 30"
    for target in gfx942 sm_90; do
        export CKCONV_SIM_TARGET=$target
        # shellcheck disable=SC2086
        $limit "$dir/program" $common 2>&1 | grep '^epoch ' >"$dir/right"
        check "$target: three epochs" [ "$(wc -l <"$dir/right")" -eq 3 ]
        # what earlier runs left behind is not believed
        echo 1234567812345678 | tee "$dir/meet" "$dir/meet.end" >"$dir/meet.rank1"
        for ranks in 1 2 4; do
            # shellcheck disable=SC2086
            epochs "$target, nccl, $ranks ranks" processes $ranks "$dir/program" $common --transport nccl
            check "$target, nccl, $ranks ranks: statuses" grep -q '^statuses: [0 ]*$' "$dir/log"
        done
        check "files are left where ranks met" [ ! -e "$dir/meet" ]
    done
    two="processes 2 $dir/program $common --transport nccl --timeout 6"
    # shellcheck disable=SC2086
    {
        ends "nccl, a rank dies" 0 'nothing came from other ranks in 6 seconds' $two --die 1,2
        check "nccl, a rank dies: statuses" grep -q '^statuses: 3 137 $' "$dir/log"
        ends "nccl, a rank hangs" 0 'ended by rank 0, step 2: nothing came' $two --hang 1,2
        check "nccl, a rank hangs: statuses" grep -q '^statuses: 3 3 $' "$dir/log"
        ends "nccl, a weight that differs" 0 'step 2: the weights of rank 0' $two --check 1 --spoil 1,2
        check "nccl, a weight that differs: statuses" grep -q '^statuses: 4 4 $' "$dir/log"
    }
    WORLD_SIZE=2
    export WORLD_SIZE
    # shellcheck disable=SC2086
    ends "nccl, a rank that does not come" 3 'not all of 2 ranks came' \
        "$dir/program" $common --transport nccl --timeout 2
    unset WORLD_SIZE
    for order in any fixed; do
        # shellcheck disable=SC2086
        ends "nccl, bench, $order" 0 'images/s' processes 2 "$dir/program" $bench --engine gpu --steps 1 \
            --transport nccl --order $order
        check "nccl, bench, $order: statuses" grep -q '^statuses: 0 0 $' "$dir/log"
    done
}

sim=$BUILD/test/sim/ckconv.o
if [ ! -e "$sim" ]; then
    echo "skipped: ranks with simulated GPUs ($sim was not built)"
elif quiet "nccl_sim.c" "$CC" -std=c99 -O1 -Wall -Wextra -fPIC -shared "$here/nccl_sim.c" \
    -o "$dir/nccl_sim.so" &&
    # shellcheck disable=SC2086
    quiet "program with simulated GPUs" "$CXX" "$BUILD/examples/train_digits_parallel.o" "$sim" \
        -o "$dir/program" $openmp -lm -lpthread -ldl; then
    dir=$(cd "$dir" && pwd)
    on_gpus
fi

echo "note: $(($(date +%s) - seconds)) seconds"
echo "$name: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
