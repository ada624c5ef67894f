/* The verdict: PASSED or FAILED, and by the run rules VALID or NOT VALID, each with its reasons. */
#pragma once
#include "bench/facts/result.h"

/* From what the case left and what surrounded it, which the result keeps; on all ranks alike. */
void judge_case(case_result *r);
