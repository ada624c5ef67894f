/* Mean step times of a case that is run several times. */
#pragma once
#include "bench/facts/result.h"

/* Largest over smallest mean, less 1: a speed that is accepted less 5 % must be repeatable within as much. */
#define REPEATS_LIMIT 0.05

typedef struct {
    int first, count;             /* number of the first repeat's case; means so far */
    double seconds[REPEATS_MOST]; /* ascending */
} repeat_means;

/* Adds the mean of a case that has run; sets r->figures.repeated of the last repeat. Cases come in the order of the
 * deck. */
void repeats_add(repeat_means *m, case_result *r);
