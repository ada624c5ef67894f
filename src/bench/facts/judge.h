/* The verdict: PASSED or FAILED, and VALID or NOT VALID by the run rules, with reasons. */
#pragma once
#include "bench/facts/result.h"

/* Fills r->ruling from facts, figures and case. The caller has set stopped_by. */
void judge_case(case_result *r);
