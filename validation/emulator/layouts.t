#!/usr/bin/env bash
# The check model trained on emulated GPUs, in every way of cutting it, in random orders: its losses, gradients and
# weights agree with the host's reference within the limits of bench/check.c, as the whole program says; without waits
# they do not. One layout: agreement_layouts trains all. `long`: more layouts in three orders, and still more once.
set -uo pipefail
program=build/emulator/xgsw-emulator
export OMP_NUM_THREADS=1
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
count=0 failures=0

# try SEED RANKS CASE...: each case is one line of keys, separated by semicolons, of llama3.1-8b or of what stands
# before a colon. All must pass.
try() {
    run "$@"
    local seed=$1 ranks=$2 IFS='|'
    shift 2
    tail -n 1 "$here/said" | grep -q "^PASSED.* $# of $# cases\? computed correctly"
    report $? "$ranks ranks, seed $seed: $*"
}

# caught DESCRIPTION RANKS CASE: the check must fail, by numbers.
caught() {
    run 1 "$2" "$3"
    grep -q "^Check      FAILED" "$here/said"
    report $? "$1"
}

run() { # SEED RANKS CASE...
    local seed=$1 ranks=$2 deck=$here/deck.dat case
    shift 2
    printf 'layouts\non emulated GPUs\nsize = check\nbackend = cuda\nsteps = 1\nwarmup = 0\n' >"$deck"
    for case; do
        [[ $case == *:* ]] || case="llama3.1-8b: $case"
        printf '[%s]\n%s\n' "${case%%: *}" "$(sed 's/; /\n/g' <<<"${case#*: }")" >>"$deck"
    done
    (cd "$here" && EMULATOR_SEED=$seed "$OLDPWD/run/local" -q -n "$ranks" -x "$OLDPWD/$program" "$deck") \
        >"$here/said" 2>&1
}

report() { # STATUS DESCRIPTION
    count=$((count + 1))
    [ "$1" = 0 ] && { echo "ok $count - $2"; return; }
    failures=$((failures + 1))
    echo "not ok $count - $2"
    grep -v XGSW_RESULT "$here/said" | tail -60 | sed 's/^/#   /'
}

fp32="precision = fp32" fp8="precision = fp8" current="precision = fp8; fp8_scaling = current"
try 1 2 "tensor = 2; $fp32" "gpt3-175b: pipeline = 2" "grok1-314b: expert = 2; $fp32" "nemotron4-340b: shard = 2" \
    "tensor = 2; $fp8" "context = 2; $current"
for seed in ${XGSW_TEST_LONG:+5 6 7}; do
    try "$seed" 1 "$fp32" "recompute = layer"
    try "$seed" 2 "tensor = 2" "pipeline = 2; $fp32" "context = 2; $fp32" "data = 2; overlap = off"
    try "$seed" 4 "tensor = 2; pipeline = 2; recompute = mlp" "pipeline = 2; chunks_per_stage = 2; data = 2; $fp32" \
        "context = 2; data = 2"
    try "$seed" 8 "tensor = 2; pipeline = 2; context = 2; $fp32" \
        "tensor = 2; pipeline = 2; data = 2; chunks_per_stage = 2"
done
for seed in ${XGSW_TEST_LONG:+2}; do
    try "$seed" 1 "gpt3-175b: $fp32" "grok1-314b: capacity = none" "nemotron4-340b: recompute = mlp"
    try "$seed" 2 "grok1-314b: expert = 2; $fp8" "llama2-70b: shard = 2; $fp8" "nemotron4-340b: data = 2; $fp8" \
        "gpt3-175b: pipeline = 2; $fp8" "context = 2; $fp8; fp8_scale = exact"
    try "$seed" 2 "grok1-314b: expert = 2; $current" "llama2-70b: shard = 2; $current" \
        "gpt3-175b: pipeline = 2; $current" "nemotron4-340b: tensor = 2; $current; fp8_scale = exact" \
        "tensor = 2; $current; recompute = layer"
    try "$seed" 4 "grok1-314b: expert = 2; tensor = 2; $fp8" "nemotron4-340b: tensor = 2; context = 2; $fp8"
    try "$seed" 4 "grok1-314b: expert = 4" "grok1-314b: expert = 2; tensor = 2; $fp32" \
        "grok1-314b: expert = 2; pipeline = 2; chunks_per_stage = 2" "gpt3-175b: pipeline = 4; $fp32" \
        "gpt3-175b: tensor = 2; context = 2" "nemotron4-340b: pipeline = 2; tensor = 2" \
        "llama2-70b: shard = 2; data = 2" "gpt3-175b: shard = 2; pipeline = 2" "grok1-314b: shard = 2; tensor = 2"
    try "$seed" 8 "grok1-314b: expert = 2; tensor = 2; context = 2" "grok1-314b: expert = 4; pipeline = 2; $fp32" \
        "gpt3-175b: tensor = 2; data = 2; pipeline = 2" "nemotron4-340b: shard = 2; data = 2; tensor = 2"
done
caught "a missing wait of one transfer" 2 "pipeline = 2; fault = unwait exchange 1 0"
EMULATOR_DEAF=1 caught "the executor's waits go unheard" 2 "data = 2"
if [ -n "${XGSW_TEST_LONG:-}" ]; then
    for case in "tensor = 4" "context = 4" "pipeline = 4; schedule = gpipe" "data = 4; sharding = none" \
        "tensor = 2; context = 2; overlap = off"; do
        try 3 4 "$case" "$case; $fp32"
    done
    for case in "pipeline = 8" "data = 8" "tensor = 4; data = 2" "context = 4; data = 2" \
        "pipeline = 4; tensor = 2; schedule = gpipe"; do
        try 4 8 "$case" "$case; $fp32"
    done
fi
echo "1..$count"
[ $failures = 0 ]
