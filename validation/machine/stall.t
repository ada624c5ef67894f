#!/usr/bin/env bash
# A rank that is stopped, absent or of another opinion ends the run of all, soon, with the right status and the name of
# what was waited for.
set -uo pipefail
program=${BUILD:-build/mpicc}/units/fabric_stall
ranks=3
# Seconds. A rank of a busy machine comes to its place later than others, by less than the limit; what ends at once,
# whatever the limit, has a long one. All ends within the bound: the limit, and 20 s to start and to end three
# processes.
limit=2 long=10 bound=20
count=0 failures=0
export OMP_NUM_THREADS=1

check() { # STATUS DESCRIPTION
    count=$((count + 1))
    [ "$1" = 0 ] && { echo "ok $count - $2"; return; }
    failures=$((failures + 1))
    echo "not ok $count - $2"
    echo "status $status after $seconds s; left: ${left:-none}; it said:" |
        cat - <(printf '%s\n' "$said") | sed 's/^/#   /'
}

# No process of the scene is left ten seconds after its end.
nothing_left() { # SCENE LIMIT
    for _ in $(seq 100); do
        left=$(pgrep -f "$program $1 $2\$")
        [ -n "$left" ] || return 0
        sleep 0.1
    done
    return 1
}

scene() { # SCENE LIMIT STATUS WORDS DESCRIPTION
    local begin=${EPOCHREALTIME/./} right=0
    said=$(timeout -k 5 60 run/local -q -n $ranks -x "$program" "$1" "$2" 2>&1)
    status=$?
    seconds=$(((${EPOCHREALTIME/./} - begin) / 1000000))
    [ $status = "$3" ] && grep -qF "$4" <<<"$said" && [ $seconds -lt $((limit + bound)) ] || right=1
    nothing_left "$1" "$2" || right=1
    check $right "$5"
}

nobody="no rank of this node has completed an operation for $limit s"
scene absent $limit 86 "all_reduce gradients (step 2, gradient): $nobody" "a small all_reduce without one rank"
scene absent_large $limit 86 "all_reduce gradients (step 2, gradient): no rank" "a large all_reduce without one rank"
grep -q "^rank 0.*all_reduce gradients" <<<"$said" && grep -q "^rank 2.*barrier" <<<"$said"
check $? "every rank says what it waits for"
scene stopped $limit 86 "all_gather weights (step 2, gradient): no rank" \
    "an all_gather with a rank that SIGSTOP stopped"
scene absent_from_sum $limit 86 "no rank of this node has completed" "a sum over the world without one rank"
scene absent_from_split $limit 86 "barrier: no rank of this node has completed" "a new group without one rank"
scene absent_at_the_end $limit 86 "barrier: no rank of this node has completed" "an end that one rank does not reach"
scene short_message $long 1 "exchange activations (step 2, gradient): rank 2 of the group sent 16 bytes, not 32" \
    "a message shorter than expected"
scene long_message $long 1 "exchange activations (step 2, gradient)" "a message longer than expected"

echo "1..$count"
exit $failures
