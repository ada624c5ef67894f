/* The report's last lines: of a case, and of the run. */
#pragma once
#include "bench/facts/sink.h"

/* Says why a case FAILED, is NOT VALID, is not accepted, and last its verdict; of a skipped case why it was skipped. */
void say_verdict(const case_result *r);
/* Says the record, its SHA-256, and last the line that says everything. */
void say_end(const run_source *run, const final_counts *n);
