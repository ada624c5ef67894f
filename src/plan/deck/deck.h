/* The deck: plain text in, resolved cases out. Reads text, never files, never MPI: the caller brings the bytes.
 * Two title lines of free text; then `key = value  # remark` and sections `[workload]`. Keys before the first section
 * hold for all sections, a section's own come first. A list of values, separated by blanks, sweeps: all combinations,
 * in the order of the key table with the later key fastest; one that does the same run as one before is left out.
 * UTF-8; lines end with a newline or with carriage return and newline. */
#pragma once
#include "plan/keys/keys.h"
#include "plan/keys/mistakes.h"

typedef struct {
    int64_t cases;
    bench_case *item; /* owned; deck_free */
    int messages;     /* > 0: refused; nothing else of the deck counts */
    deck_message message[DECK_MESSAGES];
    char title[2][256];
    bool swept[KEYS]; /* some section gives a list of values */
} deck;

/* Reads the whole deck. Mistakes are collected, in the order of their lines, and nothing is replaced: with one there
 * are no cases. Keys that contradict one another are compared in the sections whose every value could be read. */
deck deck_read(const deck_source *source);
void deck_free(deck *d);
/* Timed steps whose time counts, if all of them run: those that follow no checkpoint. */
int64_t deck_counted_steps(const bench_case *c);
/* Does a case take the CUDA backend? */
bool deck_on_cuda(const deck *d);
