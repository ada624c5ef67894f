/* The culprit: the rank that stops a run, found from the states of all ranks by a pure function. */
#pragma once
#include "machine/watch/state.h"
#include <stddef.h>

/* GONE, STOPPED and ABSENT are tested first, in this order. UNHEARD: its node is not known. BEHIND: it has not entered
 * an operation that others wait for. LEFT: the same, but it waits for an operation that all others completed.
 * UNDELIVERED: all have entered the operation, and it does not complete. */
typedef enum {
    CAUSE_GONE,
    CAUSE_STOPPED,
    CAUSE_ABSENT,
    CAUSE_UNHEARD,
    CAUSE_BEHIND,
    CAUSE_LEFT,
    CAUSE_UNDELIVERED
} cause;
typedef struct {
    cause cause;
    int who;     /* index of the rank */
    int waiting; /* index of a rank that waits for it; -1: none */
} culprit;

/* Returns the culprit. states: [count] one for each rank, including absent ones. */
culprit culprit_find(const rank_state *states, int count);
/* Write what the ranks do and, in culprit_say, a sentence about the culprit. quiet: seconds without progress. */
enum { CULPRIT_BYTES = 1 << 15 };
void culprit_table(const rank_state *states, int count, double now, char text[CULPRIT_BYTES]);
void culprit_say(const rank_state *states, int count, double quiet, double now, char text[CULPRIT_BYTES]);
