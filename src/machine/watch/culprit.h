/* The culprit: the rank that stops a run, found from the states of all ranks. */
#pragma once
#include "machine/watch/state.h"
#include <stddef.h>

/* GONE, STOPPED and ABSENT are tested first, in this order. NOT_ENTERED: it has not entered an operation that others
 * wait for. OTHERS_COMPLETED: the same, and it waits for an operation that all others have completed. UNDELIVERED: all
 * have entered the operation, and it does not complete. */
typedef enum {
    CAUSE_GONE,
    CAUSE_STOPPED,
    CAUSE_ABSENT,
    CAUSE_UNREACHABLE,
    CAUSE_NOT_ENTERED,
    CAUSE_OTHERS_COMPLETED,
    CAUSE_UNDELIVERED
} cause;
typedef struct {
    cause cause;
    int blamed; /* index of the culprit */
    int waiter; /* index of a rank that waits for it; -1: none */
} culprit;

/* states: [count], one for each rank, including absent ones. */
culprit culprit_find(const rank_state *states, int count);
/* Write what the ranks do and, in culprit_report, a sentence about the culprit. idle: seconds without progress. */
enum { CULPRIT_BYTES = 1 << 15 };
void culprit_table(const rank_state *states, int count, double now, char text[CULPRIT_BYTES]);
void culprit_report(const rank_state *states, int count, double idle, double now, char text[CULPRIT_BYTES]);
