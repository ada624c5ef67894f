/* The verdict: PASSED or FAILED, and VALID or NOT VALID, each with its reasons. */
#pragma once
#include "bench/result/result.h"

/* From what the case left, on all ranks alike; node_ranks, cores: of the most crowded node; threads per rank; sharing:
 * ranks on the most crowded device, of a case on devices. */
typedef struct {
    int node_ranks, cores, threads, sharing;
    double quota; /* cores that the tightest control group pays for; INFINITY: no limit */
} host_load;
void judge_case(case_result *r, const host_load *load);
