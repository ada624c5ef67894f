/* Expectations of a sheet for a case that has run. */
#pragma once
#include "bench/facts/result.h"
#include "plan/sheet/sheet.h"

/* Fills r->seen.expected by projecting the case. Call it on rank 0 after the timed steps. */
void expect_steps(case_result *r, const machine_sheet *s);
