/* watch/: detection of stalls. A thread in every rank watches the run, without MPI. Each rank publishes its activity
 * (machine/op/activity.h) to its node. If no rank completes anything for stall_seconds while one waits, or if a rank is
 * gone, the watch prints what all ranks do, names the rank at fault and ends all ranks with status 86. */
#pragma once
#include "machine/watch/state.h"

void watch_start(void);
/* Replaces watch_start if the process answers an option without MPI. Ranks of its node that wait for it are refused. */
void watch_leave(const char *asked);
/* Sets rank and number of ranks once MPI has started. */
void watch_world(int rank, int ranks);
/* Returns the identity of this rank's board, equal on ranks that share it. watch_move changes to another board; it
 * returns false if that cannot be shared. watch_unlink_board removes its name, when all ranks have moved. */
uint64_t watch_board(void);
bool watch_move(const char *name, int slot, int slots);
void watch_unlink_board(void);
/* Returns the node of this rank. watch_set_places sets those of all ranks (not copied), for a run on several nodes. */
node_place watch_place(void);
void watch_set_places(const node_place *of_rank);
/* States that this rank ends the run itself. Does not return if the watch already ends it. */
void watch_ending(void);
/* Stops the watch after MPI has ended. Waits until all ranks of the node have called it. */
void watch_stop(void);

void watch_limit(double seconds); /* without progress, before the run ends */
/* Sets what the watch prints last if it ends the run: NULL or less than WATCH_SENTENCE bytes, not copied. */
enum { WATCH_SENTENCE = 4096 };
void watch_set_last_sentence(const char *sentence);

/* Publishes that the next operation of all ranks is entered and waited for, until activity_wait_end. */
void watch_wait_for_all(const char *what);
