/* The step of a case on paper, in seconds. */
#pragma once
#include "bench/project/price.h"
#include "plan/deck/deck.h"
#include "plan/sheet/sheet.h"
#include <stdio.h>

/* Where the seconds of a step go on the rank that computes longest. */
typedef enum {
    WENT_PRODUCTS,
    WENT_ATTENTION,
    WENT_MEMORY,
    WENT_OPTIMIZER,
    WENT_BUBBLE, /* another stage was awaited, or nothing was left */
    WENTS
} step_share;

/* Seconds in which the rank computed nothing and a transfer of that axis ran, which is not the pipeline's. */
enum { PROJECTED_AXES = 8 };
typedef struct {
    const char *axis;
    double seconds;
} exposed_axis;

typedef struct {
    double seconds, least, most; /* of a step: band: the root of the sum of squares of what each term can change */
    double went[WENTS];          /* of that rank */
    exposed_axis exposed[PROJECTED_AXES];
    char missing[MISSING_TEXT]; /* operations that the sheet has no term for; they take no time here */
    double estimated;           /* of its products, seconds that no listed shape gives */
    double bytes;               /* of the rank that takes most memory, with what libraries take */
    double term[TERMS];         /* of the longest chain of operations that makes a step */
    int busiest;                /* that stage */
} projection;

/* Runs two steps of one rank of each stage; the second counts. trace: where it is written as it ran, or NULL.
 * Returns false and a sentence if they cannot end. */
bool project_case(const bench_case *c, const machine_sheet *sheet, FILE *trace, projection *p, char *why,
                  size_t length);
/* Returns the seconds, to first order, that the step gains if the term is at its least or at its most. */
double projection_change(const projection *p, const machine_sheet *s, sheet_term t, sheet_value value);
/* Projects every case and prints it. vary: a term that takes its least and its most in further projections; TERMS:
 * none. Returns whether all cases that can be laid out could be projected. */
bool project_deck(const deck *d, const machine_sheet *sheet, sheet_term vary, FILE *trace);
