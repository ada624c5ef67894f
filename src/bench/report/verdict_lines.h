/* Last report lines of a case and of the run. */
#pragma once
#include "bench/facts/sink.h"

/* Prints the reasons for FAILED, NOT VALID and NOT ACCEPTED, then the verdict; for a skipped case only its reason. */
void say_verdict(const case_result *r);
/* Prints the record and its SHA-256, then the line with the result of the run. */
void say_end(const run_source *run, const final_counts *n);
