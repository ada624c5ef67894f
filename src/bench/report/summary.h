/* The last table of the report: a line for each case; a column for the layout where cases differ in it, for repeats
 * where there are some, for each key that the deck sweeps. */
#pragma once
#include "bench/facts/result.h"
#include "plan/deck/deck.h"

typedef struct {
    const bench_case *given;
    verdict verdict;
    double seconds, tokens_per_second, residual; /* NaN: none */
    bool valid;
    char reason[REASON_LENGTH]; /* the first why it is FAILED, or else NOT VALID; empty: none */
    acceptance acceptance;
} summary_row;

summary_row summary_row_of(const case_result *r);
/* Prints the rows of the cases that ended; nothing where there is but one. */
void summary_print(const deck *d, const summary_row *row, int rows);
