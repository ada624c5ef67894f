/* watch/: whether the run goes on. In every rank a thread looks, from before MPI starts until after it has ended,
 * without MPI. Each rank publishes its activity (machine/op/activity.h) where all ranks of its node can read it. When
 * no rank has completed anything for stall_seconds while one waits, or one is gone, what all are doing is printed, the
 * one that is behind is named, and every rank ends with status 86. */
#pragma once
#include "machine/watch/state.h"

void watch_start(void);
/* In place of it, in a process that answers what needs no ranks and does not start MPI: ranks of its node that would
 * wait for it are refused. */
void watch_leave(const char *asked);
/* MPI has started, and says who this is. */
void watch_world(int rank, int ranks);
/* The board on which this rank writes: the same number where ranks see each other. To another one, of that name; false:
 * it cannot be shared. When all are there its name is forgotten. */
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
/* A sentence that is said where the watch ends the run, of what is left of it; it must stay as it is until another is
 * given, and is no longer than this. NULL: none. */
enum { WATCH_SENTENCE = 4096 };
void watch_leaves(const char *sentence);

/* The next operation of all ranks, entered and waited for, until activity_wait_end. */
void watch_wait_for_all(const char *what);
