#!/usr/bin/env bash
# A rank that is stopped, absent or of another opinion ends the run of all, soon, with the right status and the name of
# what was waited for.
set -uo pipefail
program=${BUILD:-build/mpicc}/units/fabric_stall
ranks=3
# Seconds. A rank of a busy machine comes to its place later than others, by less than the limit; the start of
# processes, and what ends at once, whatever the limit, have a long one. All ends within the bound: the limit, and 20 s
# to start and to end three processes.
limit=2 long=10 bound=20
export OMP_NUM_THREADS=1
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT

check() { # STATUS DESCRIPTION
    [ $pass = judge ] || return 0
    count=$((count + 1))
    [ "$1" = 0 ] && { echo "ok $count - $2"; return; }
    failures=$((failures + 1))
    echo "not ok $count - $2"
    echo "status $status after $seconds s; left: ${left:-none}; it said:" |
        cat - <(printf '%s\n' "$said") | sed 's/^/#   /'
}

# Its end: status, seconds, and the processes that are left ten seconds later.
play() { # FILE SCENE LIMIT
    local begin=${EPOCHREALTIME/./} status=0 seconds left
    timeout -k 5 60 run/local -q -n $ranks -x "$program" "$2" "$3" >"$1" 2>&1 || status=$?
    seconds=$(((${EPOCHREALTIME/./} - begin) / 1000000))
    for _ in $(seq 100); do
        left=$(grep -lsaP "\Q$program\E\x00$2\x00$3\x00\$" /proc/[0-9]*/cmdline)
        [ -n "$left" ] || break
        sleep 0.1
    done
    echo "$status $seconds" $left >"$1.end"
}

scene() { # SCENE LIMIT STATUS WORDS DESCRIPTION
    local right=0
    number=$((number + 1))
    if [ $pass = play ]; then
        [ "$(jobs -rp | wc -l)" -lt 4 ] || wait -n
        play "$here/$number" "$1" "$2" &
        return
    fi
    said=$(cat "$here/$number")
    read -r status seconds left <"$here/$number.end"
    [ $status = "$3" ] && grep -q "$4" <<<"$said" && [ $seconds -lt $(($2 + bound)) ] && [ -z "$left" ] || right=1
    check $right "$5"
}

behind="rank 2 on $(hostname) .* has not entered"
reduce="all_reduce gradients (step 2, gradient), number 1 of all \[0 1 2\], f32 x"
scenes() {
    scene absent $limit 86 "$behind $reduce 3;" \
        "a small all_reduce without one rank"
    scene absent_large $limit 86 "$behind $reduce" \
        "a large all_reduce without one rank"
    grep -q "rank 0 1, .* waits for all_reduce gradients" <<<"$said" &&
        grep -q "rank 2, .* waits for barrier" <<<"$said"
    check $? "what every rank waits for is said"
    scene stopped $limit 86 "rank 2 on .* is stopped; rank 0 waits for all_gather weights" \
        "an all_gather with a rank that SIGSTOP stopped"
    scene absent_from_sum $limit 86 "$behind sum, number [0-9]* of world" "a sum over the world without one rank"
    scene absent_from_split $limit 86 "$behind barrier, number" "a new group without one rank"
    scene absent_at_the_end $limit 86 "$behind barrier, number" "an end that one rank does not reach"
    scene stopped_at_the_start $long 86 "rank 2 on .* has not started; rank 0 waits for MPI_Init" \
        "a rank that is stopped before MPI starts"
    scene lost $long 137 "rank 2 on .* is gone; rank [01] waits for all_reduce gradients" "a rank that SIGKILL ended"
    scene short_message $long 1 "exchange activations (step 2, gradient): rank 2 of the group sent 16 bytes, not 32" \
        "a message shorter than expected"
    scene long_message $long 1 "exchange activations (step 2, gradient)" "a message longer than expected"
}

# They wait more than they compute: they are played side by side, then judged in their order.
for pass in play judge; do
    count=0 failures=0 number=0 said= status=0 seconds=0 left=
    scenes
    wait
done
echo "1..$count"
exit $failures
