/* The report's last lines: of a case, and of the run. */
#pragma once
#include "bench/result/sinks.h"

/* Why a case FAILED, is NOT VALID, not comparable, not accepted; a case that was skipped, and why. */
void say_verdict(const case_result *r);
/* Counts, record, and the run's verdict in a word. */
void say_end(const run_source *run, const final_counts *n);
