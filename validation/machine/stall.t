#!/usr/bin/env bash
# A rank that is stopped, absent or of another opinion ends the run of all, soon, with the right status and the name of
# what was waited for.
set -uo pipefail
program=${BUILD:-build/mpicc}/units/fabric_stall
# Seconds. A rank of a busy machine comes to its place later than others, by less than the limit; the start of
# processes, and what ends at once, whatever the limit, have a long one. All ends within the bound: the limit, and 20 s
# to start and to end three processes.
limit=2 long=10 bound=20
export OMP_NUM_THREADS=1
. validation/machine/scenes

behind="rank 2 on $(hostname) .* has not entered"
reduce="all_reduce gradients (step 2, gradient), number 1 of all \[0 1 2\], f32 x"
scenes() {
    scene absent 3 $limit 86 "$behind $reduce 3;" \
        "a small all_reduce without one rank"
    scene absent_large 3 $limit 86 "$behind $reduce" \
        "a large all_reduce without one rank"
    grep -q "rank 0 1, .* waits for all_reduce gradients" <<<"$said" &&
        grep -q "rank 2, .* waits for barrier" <<<"$said"
    check $? "what every rank waits for is said"
    scene stopped 3 $limit 86 "rank 2 on .* is stopped; rank 0 waits for all_gather weights" \
        "an all_gather with a rank that SIGSTOP stopped"
    scene absent_from_sum 3 $limit 86 "$behind sum, number [0-9]* of world" "a sum over the world without one rank"
    scene absent_from_split 3 $limit 86 "$behind barrier, number" "a new group without one rank"
    scene absent_at_the_end 3 $limit 86 "$behind barrier, number" "an end that one rank does not reach"
    scene stopped_at_the_start 3 $long 86 "rank 2 on .* has not started; rank 0 waits for MPI_Init" \
        "a rank that is stopped before MPI starts"
    scene lost 3 $long 137 "rank 2 on .* is gone; rank [01] waits for all_reduce gradients" "a rank that SIGKILL ended"
    scene short_message 3 $long 1 "exchange activations (step 2, gradient): rank 2 of the group sent 16 bytes, not 32" \
        "a message shorter than expected"
    scene long_message 3 $long 1 "exchange activations (step 2, gradient)" "a message longer than expected"
}

play_and_judge
