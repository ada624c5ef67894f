#!/usr/bin/env bash
# The check model trained on emulated GPUs by the whole program, in random orders: it compares every operation with the
# host's and its losses, gradients and weights with one rank's (bench/check/check.c); without waits they do not agree.
# layouts.c trains the other ways of cutting it. `full`: each way of cutting, FP8, and each kind of missing wait;
# `long`: in every family, and more of FP8.
set -uo pipefail
program=build/emulator/xgsw-emulator
export OMP_NUM_THREADS=1
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
. validation/tap.sh

# try SEED RANKS CASE...: each case is one line of keys, separated by semicolons, of llama3.1-8b or of what stands
# before a colon. All must pass.
try() {
    run "$@"
    local seed=$1 ranks=$2 IFS='|'
    shift 2
    tail -n 1 "$here/said" | grep -q "^PASSED.* $# of $# cases\? computed correctly"
    check $? "$ranks ranks, seed $seed: $*" "$here/said"
}

# caught DESCRIPTION RANKS CASE: the check must fail, by numbers.
caught() {
    run 1 "$2" "$3"
    grep -q "^Check      FAILED" "$here/said"
    check $? "$1" "$here/said"
}

# stalls DESCRIPTION RANKS CASE: the watch must end the run, and name a product.
stalls() {
    run 1 "$2" "$3; stall_seconds = 3"
    [ $? = 86 ] && grep -q "rank 0, the check: waits for matmul" "$here/said"
    check $? "$1" "$here/said"
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

fp32="precision = fp32" fp8="precision = fp8" current="precision = fp8; fp8_scaling = current"
full=${XGSW_TEST_FULL:-}
if [ -n "$full" ]; then
    try 1 2 "grok1-314b: expert = 2; $fp32" "tensor = 2; $fp8" "context = 2; $current" "pipeline = 2; $fp32"
else
    try 1 2 "tensor = 2; $fp32"
fi
if [ -n "${XGSW_TEST_LONG:-}" ]; then
    try 2 1 "$fp32" "recompute = layer"
    try 2 2 "tensor = 2; $fp32" "gpt3-175b: pipeline = 2" "nemotron4-340b: shard = 2" "llama2-70b: context = 2; $fp32"
    try 2 2 "grok1-314b: expert = 2; $fp8" "llama2-70b: shard = 2; $fp8" "nemotron4-340b: data = 2; $fp8" \
        "gpt3-175b: pipeline = 2; $fp8" "context = 2; $fp8; fp8_scale = exact"
    try 2 2 "grok1-314b: expert = 2; $current" "llama2-70b: shard = 2; $current" \
        "gpt3-175b: pipeline = 2; $current" "nemotron4-340b: tensor = 2; $current; fp8_scale = exact" \
        "tensor = 2; $current; recompute = layer"
    try 2 4 "grok1-314b: expert = 2; tensor = 2; $fp8" "nemotron4-340b: tensor = 2; context = 2; $fp8"
    try 2 8 "tensor = 2; pipeline = 2; data = 2; chunks_per_stage = 2" "grok1-314b: expert = 4; pipeline = 2; $fp32"
fi
stalls "products leave no SM to a receive that is posted ahead" 2 "pipeline = 2; $fp32; transfer_sms = 0"
if [ -n "$full" ]; then
    caught "a missing wait of one transfer" 2 "pipeline = 2; fault = unwait exchange 1 0"
    EMULATOR_DEAF=1 caught "the executor's waits go unheard" 2 "data = 2"
fi
tap_done
