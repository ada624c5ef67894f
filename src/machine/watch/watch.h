/* watch/: whether the run goes on. A thread in every rank looks, without MPI, from before MPI starts until it ends.
 * Each rank publishes its activity (machine/op/activity.h) to its node. If nobody completes anything for stall_seconds
 * while a rank waits, or a rank is gone, the watch prints what all do, names the rank at fault and ends all with 86. */
#pragma once
#include "machine/watch/state.h"

void watch_start(void);
/* In place of it, in a process that does not start MPI: ranks of its node that would wait for it are refused. */
void watch_leave(const char *asked);
/* MPI has started, and says who this is. */
void watch_world(int rank, int ranks);
/* The number of this rank's board: the same where ranks see each other. watch_move goes to another one; false: it
 * cannot be shared. When all are there its name is forgotten. */
uint64_t watch_board(void);
bool watch_move(const char *name, int slot, int slots);
void watch_forget(void);
/* Returns the node of this rank. Then takes those of all ranks, where the run spans nodes; they stay as they are. */
node_place watch_place(void);
void watch_places(const node_place *of_rank);
/* This rank ends the run itself; does not return where the watch ends it already. */
void watch_ending(void);
/* MPI has ended: waits until all ranks of the node have come here. */
void watch_stop(void);

void watch_limit(double seconds);
/* Sets what the watch says last if it ends the run; no longer than this, unchanged until the next call; NULL: none. */
enum { WATCH_SENTENCE = 4096 };
void watch_leaves(const char *sentence);

/* The next operation of all ranks, entered and waited for, until activity_wait_end. */
void watch_wait_for_all(const char *what);
