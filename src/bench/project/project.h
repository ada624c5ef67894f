/* The step of a case on paper, in seconds. */
#pragma once
#include "bench/launch/options.h"
#include "plan/deck/deck.h"
#include "plan/sheet/sheet.h"

/* Where the seconds of a step go on the rank that computes longest. */
typedef enum {
    WENT_PRODUCTS,
    WENT_ATTENTION,
    WENT_MEMORY,
    WENT_OPTIMIZER,
    WENT_EXPOSED, /* nothing could run but transfers of other axes than pipeline were awaited */
    WENT_BUBBLE,  /* another stage was awaited, or nothing was left */
    WENTS
} step_share;

typedef struct {
    double seconds, least, most; /* of a step: band: the root of the sum of squares of what each term can change */
    double went[WENTS];          /* of that rank */
    double term[TERMS];          /* of the longest chain of operations that makes a step */
    int busiest;                 /* that stage */
} projection;

/* Runs two steps of one rank of each stage; the second counts. Returns false and a sentence if they cannot end. */
bool project_case(const bench_case *c, const machine_sheet *sheet, projection *p, char *why, size_t length);
/* Projects every case and prints it. Returns false and a sentence if one cannot be. */
bool project_deck(const deck *d, const machine_sheet *sheet, char *why, size_t length);
