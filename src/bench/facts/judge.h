/* The verdict: PASSED or FAILED, and by the run rules VALID or NOT VALID, each with its reasons. */
#pragma once
#include "bench/facts/result.h"

/* Fills r->ruling from the facts, the figures and the case; its stopped_by is given. */
void judge_case(case_result *r);
