/* Projections: the step time of a case on the machine that a sheet describes (--project). */
#pragma once
#include "bench/project/price.h"
#include "machine/queue/tally.h"
#include "plan/deck/deck.h"
#include "plan/sheet/sheet.h"
#include <stdio.h>

typedef struct {
    double seconds, least, most; /* of a step; band: root of the sum of squares of the changes by each term */
    tally busiest, own;          /* of that step, on the rank that computes longest and on rank 0 */
    char missing[MISSING_TEXT];  /* kinds of operation without a time in the sheet; they take no time here */
    double estimated;            /* seconds of the busiest rank's computing with shapes that are not listed */
    double bytes;                /* memory of the rank that takes most, libraries included */
    double term[TERMS];          /* seconds of each term on the step's critical path */
    int stage;                   /* stage of the busiest rank */
} projection;

/* Return the seconds of a step in which a rank computed, in which only transfers ran (except pipeline transfers), and
 * in which it waited for other stages. */
double projected_computing(const tally *t);
double projected_exposed(const tally *t);
double projected_bubble(const projection *p, const tally *t);

/* Projects a case: runs two steps of one rank of each stage on the timeline, and reports the second. trace: receives
 * the events, or NULL. Returns false and a sentence if the sheet does not fit the case or the steps cannot finish. */
bool project_case(const bench_case *c, const machine_sheet *sheet, FILE *trace, projection *p, char *why,
                  size_t length);
/* Returns the change of the step time in seconds, to first order, if a term has its least or its most value. */
double projection_change(const projection *p, const machine_sheet *s, sheet_term t, sheet_value value);
/* Projects every case and prints the results. vary: a term that also takes its least and its most value; TERMS for
 * none. Returns false if a case that can be laid out could not be projected. */
bool project_deck(const deck *d, const machine_sheet *sheet, sheet_term vary, FILE *trace);
