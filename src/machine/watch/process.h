/* What a process's main thread and the thread that watches share: process state, as the process is. */
#pragma once
#include "machine/watch/board.h"
#include <pthread.h>

typedef struct {
    board_slot alone; /* of a process that did not start the watch */
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

/* Starts a thread that takes no signals, which are the main thread's. */
void watch_begin_thread(pthread_t *thread, void *(*run)(void *));
void watch_rest(void); /* until the next look */

/* ---- what the thread that reads the files of nodes takes from the thread that watches ---- */

/* Tells whether this process speaks for its node: the first whose thread is awake does. */
bool watch_speaks(const board *b, double now);
/* Reads what the ranks of this node do into states [slots of the board]. */
void watch_read_board(const board *b, double now, rank_state *states);
/* Returns the states of all ranks [ranks], to be freed: those of this node, and of the others that nothing is known. */
rank_state *watch_all_states(const board *b, double now);
/* Returns the least patience that a waiting rank of this node has exceeded, or 0. alone: other nodes are not known. */
double watch_exceeded(const board *b, bool alone, double now);
/* Returns the seconds that this rank waits, and those after which a node that does not answer is late. */
double watch_patience(void);
double watch_lateness(void);
/* Says what all ranks do and who keeps them waiting, and ends the run. Returns where another rank of this node does. */
void watch_tell(board *b, const rank_state *all, double quiet);
void *watch_thread(void *unused);
