/* Medians of a case that is run several times. */
#pragma once
#include "bench/result/result.h"

/* A median that is held against an expectation less 5 % must come back within as much: largest over smallest. */
#define REPEATS_LIMIT 0.05

typedef struct {
    int first, count;             /* number of the first repeat's case; medians so far */
    double seconds[REPEATS_MOST]; /* ascending */
} repeat_medians;

/* Adds the median of a case that has run, and sets r->repeated. Cases come in the order of the deck. */
void repeats_add(repeat_medians *m, case_result *r);
