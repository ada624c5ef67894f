/* The state that the main thread and the watching thread of a process share. */
#pragma once
#include "machine/watch/board.h"
#include <pthread.h>

typedef struct {
    board_slot initial; /* own slot before watch_start */
    _Atomic(board *) board;
    _Atomic(board_slot *) own;
    _Atomic(const node_place *) place; /* [ranks]; NULL: one node, or not yet known */
    _Atomic(const char *) last_sentence;
    char name[BOARD_NAME];
    atomic_int ranks, slot;
    pthread_t main, thread;
    atomic_bool over;
    atomic_bool first_node_known;   /* the file of rank 0's node was read, or this is its node */
    _Atomic double idle_seconds;    /* without progress on this node */
    _Atomic double first_node_read; /* time of its last new message */
} watch_process;
extern watch_process watch;

/* Starts a thread that blocks signals, because the main thread handles them. */
void watch_begin_thread(pthread_t *thread, void *(*run)(void *));
void watch_sleep(void); /* until the next check */

/* ---- functions of the watching thread that nodes.c calls ---- */

/* Returns whether this is the first process of its node whose watching thread is awake. It acts for the node. */
bool watch_leads_node(const board *b, double now);
/* Reads the states of the ranks of this node into states [slots of the board]. */
void watch_read_board(const board *b, double now, rank_state *states);
/* Returns the states of all ranks [ranks], which the caller frees. Ranks of other nodes are unreachable. */
rank_state *watch_all_states(const board *b, double now);
/* Returns the least patience (seconds) that a waiting rank here has exceeded, or 0. alone: without other nodes. */
double watch_exceeded(const board *b, bool alone, double now);
/* Return the seconds that this rank waits for progress, and those that another node has for an answer. */
double watch_patience(void);
double watch_node_timeout(void);
/* Prints what all ranks do and the culprit, then ends the run. Returns if another rank of this node already does so. */
void watch_report_and_end(board *b, const rank_state *all, double idle);
void *watch_thread(void *unused);
