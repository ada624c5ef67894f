#!/usr/bin/env bash
# Mistakes with communicators of GPUs, on the emulated NCCL, end the run of all, soon, and say what was wrong: what
# would be a deadlock, ranks that do not do the same, memory that is not the device's, an error of a peer, an abort
# that hangs.
set -uo pipefail
program=build/emulator/units/nccl_ranks
# Seconds: a stall that is meant, one that is not. A scene ends within the limit and the bound.
limit=2 long=60
export OMP_NUM_THREADS=1 XGSW_TEST_MACHINE=cuda
. validation/machine/scenes

scenes() {
    scene shared_links 2 $limit 86 "waits for exchange receive (step 2, gradient)" \
        "links that share a communicator wait for each other"
    scene one_at_once 2 $limit 86 "waits for exchange receive (step 2, gradient)" \
        "so do both ways of a ring in one communicator"
    scene first_meeting 2 $limit 86 "waits for ncclGroupEnd test of [ab]" \
        "ranks that meet first in different orders wait inside NCCL, which is watched"
    scene other_count 3 $long abort "ncclAllReduce of 3 of type 7 on rank 0 of 3: rank 2 calls ncclAllReduce of 5" \
        "another count"
    scene other_kind 3 $long abort "rank 2 calls ncclAllGather of 1" "another collective"
    scene other_order 3 $long abort "ncclAllReduce of 6 of type 7 on rank 0 of 3: rank 2 calls ncclAllReduce of 4" \
        "another order"
    scene short_message 3 $long abort "ncclRecv of 8 of type 7 on rank 0 of 3: rank 2 calls ncclSend of 4" \
        "a message shorter than expected"
    scene memory_of_the_host 2 $long abort "do not lie in one live device allocation" "memory of the host"
    scene given_back 2 $long abort "do not lie in one live device allocation" "memory that was given back"
    scene half_in_place 2 $long abort "ncclAllGather: what it writes lies over" "a part beside its place"
    scene other_place 2 $long abort "ncclAllGather on rank . of 2: .* bytes into its window" \
        "gathered at unequal places of windows"
    scene destroyed 2 $long abort "a destroyed communicator" "a communicator that made room for another"
    EMULATOR_SHARED_DEVICE=1 scene device_of_two 2 $long abort "duplicate GPU" "two ranks on one GPU"
    EMULATOR_SHARED_DEVICE=1 scene shared_device 2 $long 0 "" "two ranks on one GPU that are told to share it"
    EMULATOR_NCCL_ABORT=say scene error 3 $long 1 "transfers of test of everybody: remote process exited" \
        "an error of a peer"
    [ "$(grep -c "a communicator of 3 ranks is aborted" <<<"$said")" -ge 2 ]
    check $? "the communicator and the world's are aborted"
    EMULATOR_NCCL_ABORT=hang scene error 3 $long 1 "transfers of test of everybody: remote process exited" \
        "an abort that hangs is left behind"
    [ "$seconds" -ge 4 ]
    check $? "after five seconds"
}

play_and_judge
