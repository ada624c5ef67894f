/* The step of a case on paper, in seconds. */
#pragma once
#include "bench/project/price.h"
#include "machine/queue/tally.h"
#include "plan/deck/deck.h"
#include "plan/sheet/sheet.h"
#include <stdio.h>

typedef struct {
    double seconds, least, most; /* of a step: band: the root of the sum of squares of what each term can change */
    tally busiest, own;          /* of that step: of the rank that computes longest, and of rank 0 */
    char missing[MISSING_TEXT];  /* operations that the sheet has no term for; they take no time here */
    double estimated;            /* of its computing, seconds of shapes that are not listed */
    double bytes;                /* of the rank that takes most memory, with what libraries take */
    double term[TERMS];          /* of the longest chain of operations that makes a step */
    int stage;                   /* of the busiest rank */
} projection;

/* Seconds in which a rank computed; in which it did not and a transfer ran, of no pipeline; in which it waited for
 * other stages. */
double projected_computing(const tally *t);
double projected_exposed(const tally *t);
double projected_bubble(const projection *p, const tally *t);

/* Runs two steps of one rank of each stage; the second counts. trace: where it is written as it ran, or NULL.
 * Returns false and a sentence if they cannot end. */
bool project_case(const bench_case *c, const machine_sheet *sheet, FILE *trace, projection *p, char *why,
                  size_t length);
/* Returns the seconds, to first order, that the step gains if the term is at its least or at its most. */
double projection_change(const projection *p, const machine_sheet *s, sheet_term t, sheet_value value);
/* Projects every case and prints it. vary: a term that takes its least and its most in further projections; TERMS:
 * none. Returns whether all cases that can be laid out could be projected. */
bool project_deck(const deck *d, const machine_sheet *sheet, sheet_term vary, FILE *trace);
