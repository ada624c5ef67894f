/* The state that the main thread and the watching thread of a process share. */
#pragma once
#include "machine/watch/board.h"
#include <pthread.h>

typedef struct {
    board_slot alone; /* slot of a process that did not start the watch */
    _Atomic(board *) board;
    _Atomic(board_slot *) own;
    _Atomic(const node_place *) place; /* [ranks]; NULL: one node, or not yet known */
    _Atomic(const char *) leaves;
    char name[BOARD_NAME];
    atomic_int ranks, slot;
    pthread_t main, thread;
    atomic_bool over;
    atomic_bool shares;          /* the node of rank 0 was heard, or is this one */
    _Atomic double quiet, heard; /* seconds without progress on this node; when the node of rank 0 was heard last */
} watch_process;
extern watch_process watch;

/* Starts a thread that blocks signals, because the main thread handles them. */
void watch_begin_thread(pthread_t *thread, void *(*run)(void *));
void watch_rest(void); /* sleeps until the next look */

/* ---- functions of the watching thread that nodes.c calls ---- */

/* Returns whether this process acts for its node: the first process whose thread is awake does. */
bool watch_speaks(const board *b, double now);
/* Reads the states of the ranks of this node into states [slots of the board]. */
void watch_read_board(const board *b, double now, rank_state *states);
/* Returns the states of all ranks [ranks], which the caller frees. Ranks of other nodes are marked as unheard. */
rank_state *watch_all_states(const board *b, double now);
/* Returns the least patience (seconds) that a waiting rank here has exceeded, or 0. alone: other nodes are unknown. */
double watch_exceeded(const board *b, bool alone, double now);
/* Return the seconds that this rank waits for progress, and those after which a node without an answer is late. */
double watch_patience(void);
double watch_lateness(void);
/* Prints what all ranks do and the culprit, then ends the run. Returns if another rank of this node already does so. */
void watch_tell(board *b, const rank_state *all, double quiet);
void *watch_thread(void *unused);
