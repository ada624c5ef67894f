/* Finds the rank that keeps a run from going on, by what is known of its ranks; a pure function. */
#pragma once
#include "machine/watch/state.h"
#include <stddef.h>

/* GONE, STOPPED and ABSENT in the order of belief; UNHEARD: its node is not known; BEHIND: has not entered what others
 * wait for; LEFT: so too, but waits for what all others completed; UNDELIVERED: all entered, and it does not end. */
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
    int waiting; /* index of one that waits for it; -1: none does */
} culprit;

/* states [count]: one for each rank, absent ones too. */
culprit culprit_find(const rank_state *states, int count);
/* What every rank does, of many those that differ, and a sentence that names the culprit; times against now. */
enum { CULPRIT_BYTES = 1 << 15 };
void culprit_table(const rank_state *states, int count, double now,
                   char text[CULPRIT_BYTES]); /* without the sentence */
void culprit_say(const rank_state *states, int count, double quiet, double now, char text[CULPRIT_BYTES]);
