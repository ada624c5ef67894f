#!/usr/bin/env bash
# A rank that is stopped, absent or of another opinion ends the run of all, soon, with the right status and the name of
# what was waited for.
set -uo pipefail
program=${BUILD:-build/mpicc}/units/fabric_stall
limit=1 ranks=3
count=0 failures=0
export OMP_NUM_THREADS=1

check() { # STATUS DESCRIPTION
    count=$((count + 1))
    [ "$1" = 0 ] && { echo "ok $count - $2"; return; }
    failures=$((failures + 1))
    echo "not ok $count - $2"
    echo "status $status after $seconds s; left: ${left:-none}; it said:" | cat - <(printf '%s\n' "$said") | sed 's/^/#   /'
}

# No process of the scene is left two seconds after its end.
nothing_left() { # SCENE
    for _ in $(seq 20); do
        left=$(pgrep -f "$program $1 $limit\$")
        [ -n "$left" ] || return 0
        sleep 0.1
    done
    return 1
}

scene() { # SCENE STATUS WORDS WITHIN_SECONDS DESCRIPTION
    local begin=${EPOCHREALTIME/./} right=0
    said=$(timeout -k 5 60 run/local -q -n $ranks -x "$program" "$1" $limit 2>&1)
    status=$?
    seconds=$(((${EPOCHREALTIME/./} - begin) / 1000000))
    [ $status = "$2" ] && grep -qF "$3" <<<"$said" && [ $seconds -lt "$4" ] || right=1
    nothing_left "$1" || right=1
    check $right "$5"
}

bound=$((limit + 5))
scene absent 86 "all_reduce gradients (step 2, gradient): no rank of this node has completed an operation for 1 s" $bound "a small all_reduce without one rank"
scene absent_large 86 "all_reduce gradients (step 2, gradient): no rank" $bound "a large all_reduce without one rank"
grep -q "^rank 0.*all_reduce gradients" <<<"$said" && grep -q "^rank 2.*barrier" <<<"$said"
check $? "every rank says what it waits for"
scene stopped 86 "all_gather weights (step 2, gradient): no rank" $bound "an all_gather with a rank that SIGSTOP stopped"
scene absent_from_sum 86 "no rank of this node has completed" $bound "a sum over the world without one rank"
scene absent_from_split 86 "barrier: no rank of this node has completed" $bound "a new group without one rank"
scene absent_at_the_end 86 "barrier: no rank of this node has completed" $bound "an end that one rank does not reach"
scene short_message 1 "exchange activations (step 2, gradient): rank 2 of the group sent 16 bytes, not 32" $bound "a message shorter than expected"
scene long_message 1 "exchange activations (step 2, gradient)" $bound "a message longer than expected"

echo "1..$count"
exit $failures
