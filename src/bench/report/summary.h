/* The last table of the report, with a line of at most 110 columns for each case, unless many keys are swept. It has
 * columns for repeats and for each swept key. A second line has the layout if cases of one workload, size and precision
 * differ in it, and the reason for the verdict. TFLOP/s and MFU are those of a GPU (on a host, of a rank) by the
 * recipe's formula; days are those for 1e12 tokens. */
#pragma once
#include "bench/facts/result.h"
#include "plan/deck/deck.h"

typedef struct {
    const bench_case *given;
    verdict verdict;
    double seconds, tokens_per_second, tflops_per_gpu, recipe_mfu, days, residual; /* NaN if none */
    bool valid;
    char reason[REASON_LENGTH]; /* reason for NOT ACCEPTED, FAILED or NOT VALID, the first of these; empty if none */
    acceptance acceptance;
} summary_row;

summary_row summary_row_of(const case_result *r);
/* Prints the rows of the cases that have finished, unless there is only one. */
void summary_print(const deck *d, const summary_row *row, int rows);
