/* The deck: plain text in, resolved cases out. The caller reads the file; this module needs no files and no MPI. A deck
 * has two title lines of free text, then `key = value  # remark` and sections `[workload]`. Keys before the first
 * section apply to all sections; a section's own keys take precedence. Lists of values, separated by blanks, give a
 * case for each combination, in the order of the key table with the later key fastest; a combination that does the same
 * run as an earlier one is left out. UTF-8; lines end with LF or CR LF. */
#pragma once
#include "plan/keys/keys.h"
#include "plan/keys/mistakes.h"

typedef struct {
    int64_t cases;
    bench_case *item; /* owned; free with deck_free */
    int messages;     /* > 0: the deck is refused, and all else is invalid */
    deck_message message[DECK_MESSAGES];
    char title[2][256];
    bool swept[KEYS];              /* some section gives a list of values */
    char no_effect[REASON_LENGTH]; /* given keys that no case uses, and why; empty: none */
} deck;

/* Reads the whole deck. Collects mistakes in the order of their lines; if there are any, there are no cases.
 * Contradictions between keys are found only in sections whose values can all be read. A key that cannot be met at this
 * number of ranks refuses the deck if every case has such a key; else it skips its case. */
deck deck_read(const deck_source *source);
void deck_free(deck *d);
/* Counts the timed steps that do not follow a checkpoint; only their times count. */
int64_t deck_counted_steps(const bench_case *c);
/* Returns whether a case uses the CUDA backend. */
bool deck_on_cuda(const deck *d);
