/* Acceptance: comparison of a case's speed with the deck's `expect`, exit status and last line of a run. */
#pragma once
#include "bench/facts/sink.h"

/* Returns whether the deck expects a speed of the case. */
bool accept_expects(const bench_case *c);
/* Return the published speed of the case, if it has the recipe's layout, and the speed that the deck expects: tokens/s
 * on a device of that name ("" if unknown), or NaN. */
double accept_published(const bench_case *c, const char *device);
double accept_expected(const bench_case *c, const char *device);
/* Writes the expectation, such as "900.0 tokens/s less 5 %", or why no number is known. Returns text. */
enum { EXPECTED_TEXT = 96 };
const char *accept_text(const bench_case *c, const char *device, char text[EXPECTED_TEXT]);

/* Sets the expected speed of a judged or skipped case, and its acceptance. A case is ACCEPTED if it is PASSED, VALID,
 * the last repeat, and has at least the expected tokens/s less the tolerance. If NOT ACCEPTED, writes the reasons as
 * one sentence, the most decisive one first. */
void accept_case(case_result *r);

/* Adds a case to the counts. stopped: the run was asked to stop before the end of the case. */
void accept_count(final_counts *n, const case_result *r, bool stopped);
/* Returns the run's exit status. A case that was stopped does not make it a failure. */
int accept_status(const final_counts *n);
/* Writes the run's last line: the verdict, the most decisive reason, the counts of correct and VALID cases. If the deck
 * expects a speed of any case, the run is ACCEPTED or NOT ACCEPTED, and any FAILED case makes it NOT ACCEPTED. Returns
 * line. */
enum { ACCEPT_LINE = 2 * FINAL_REASON + 64 };
const char *accept_line(const final_counts *n, char line[ACCEPT_LINE]);
