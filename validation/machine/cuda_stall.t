#!/usr/bin/env bash
# A transfer that never comes ends the run of both ranks, soon, with its name, also where other operations wait for it.
set -uo pipefail
program=build/emulator/units/cuda_executor_ranks
count=0 failures=0
export OMP_NUM_THREADS=1

# The limit is 1 s. A busy machine may need minutes for two processes to start and to end.
scene() { # SCENE WORDS
    local said status
    said=$(timeout -k 5 240 run/local -q -n 2 -x "$program" "$1" 2>&1)
    status=$?
    count=$((count + 1))
    if [ $status = 86 ] && grep -qF "waits for $2" <<<"$said"; then
        echo "ok $count - $1"
    else
        failures=$((failures + 1))
        echo "not ok $count - $1"
        { echo "status $status; it said:"; cat <<<"$said"; } | sed 's/^/#   /'
    fi
}

scene absent "exchange gradient (step 2, microbatch 3, layer 4, backward)"
scene absent_behind_a_full_ring "exchange input (setup)"
echo "1..$count"
exit $failures
