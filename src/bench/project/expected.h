/* A case that has run, next to what a sheet says of it. */
#pragma once
#include "bench/facts/result.h"
#include "plan/sheet/sheet.h"

/* Fills r->seen.expected; on rank 0, after its timed steps. */
void expect_steps(case_result *r, const machine_sheet *s);
