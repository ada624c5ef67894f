#!/usr/bin/env bash
# The debug build (ASan, UBSan) of the host (the emulator is that of the CUDA machine): every operation's access list
# is proved, in submitted and hostile order.
set -uo pipefail
deck=$(mktemp --suffix=.dat)
trap 'rm -f "$deck"' EXIT
cat >"$deck" <<'END'
proof of access lists
WRITE operands are NaN before, READ operands unchanged after
record = none
steps = 2
precision = fp32 bf16
size = check
[llama3.1-8b]
tensor = 2
precision = bf16
recompute = none attention mlp layer
order = hostile
[llama3.1-8b]
sharding = none optimizer
recompute = layer
[llama3.1-8b]
tensor = 2
data = 2
overlap = off
precision = bf16
recompute = layer
order = hostile
[llama3.1-8b]
tensor = 2
pipeline = 2
chunks_per_stage = 2
recompute = layer
order = hostile
[llama3.1-8b]
tensor = 2
pipeline = 2
overlap = off
precision = bf16
recompute = mlp
order = hostile
[llama2-70b]
tensor = 2
context = 2
order = hostile
END
cases=14
make -s DEBUG=1 CUDA=0 xgsw-debug >/dev/null 2>&1 || make -s DEBUG=1 CUDA=0 >&2
out=$(OMP_NUM_THREADS=1 run/local -q -n 4 -x ./xgsw-debug "$deck" 2>&1)
status=$?
count=$(grep -c '^XGSW_RESULT.*"verdict":"PASSED"' <<<"$out")
[ "$status" = 0 ] && [ "$count" = $cases ] && echo "ok 1 - $cases cases pass in the debug build" ||
    { echo "not ok 1 - debug build"; tail -30 <<<"$out" | sed 's/^/# /'; }
grep -q 'debug build' <<<"$out" && echo "ok 2 - and are NOT VALID: debug build" ||
    echo "not ok 2 - a debug build says so"
echo 1..2
[ "$status" = 0 ] && [ "$count" = $cases ]
