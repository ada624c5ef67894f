/* One case: build, check, warm up, time, check again, judge. */
#pragma once
#include "bench/judge.h"
#include "bench/result.h"

/* Collective over the world. Fills r (opened by the caller) on all ranks; per-rank times on rank 0.
 * Returns VERDICT_SKIPPED with the reason in skipped[] if the case cannot run here: nothing was allocated then. */
verdict run_case(const bench_case *c, case_result *r, const host_load *load, char skipped[REASON_LENGTH]);

/* The machine of a case on this rank. */
machine_options case_machine(const bench_case *c);
