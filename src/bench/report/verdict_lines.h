/* Last report lines of a case and of the run. */
#pragma once
#include "bench/facts/sink.h"

/* Prints a line of at most 110 columns: as many words of the text as have space; none if it is empty. */
void say_shortened(int indent, const char *text);
/* Prints the reasons for FAILED, NOT VALID and NOT ACCEPTED, then the verdict; for a skipped case only its reason. */
void say_verdict(const case_result *r);
/* Prints the line FOM (figure of merit), which sites search for: tokens/s of a PASSED case. Only the last repeat has
 * it, with the median of all repeats. */
void say_merit(const case_result *r);
/* Prints the date and the seconds since the start, the record and its SHA-256, then the line with the result of the
 * run. */
void say_end(const run_source *run, const final_counts *n, double seconds);
