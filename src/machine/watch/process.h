/* What a process's main thread and the thread that watches share: process state, as the process is. */
#pragma once
#include "machine/watch/board.h"
#include "machine/watch/link.h"
#include <pthread.h>

typedef struct {
    board_slot alone; /* of a process that did not start the watch */
    _Atomic(board *) board;
    _Atomic(board_slot *) own;
    _Atomic(links *) link; /* of a run that spans nodes */
    _Atomic(const char *) leaves;
    char name[BOARD_NAME];
    atomic_int ranks, slot;
    int depth;
    unsigned polls;
    uint64_t era;
    pthread_t main, thread;
    atomic_bool over;
    atomic_bool linked; /* or another rank of this node speaks */
} watch_process;
extern watch_process watch;

/* The group of all ranks. */
enum { WORLD_KEY = 1 };
void watch_rest(void); /* until the next look */
void *watch_thread(void *unused);
