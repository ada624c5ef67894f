/* Is a case as fast as the deck expects, and how does a run end? */
#pragma once
#include "bench/facts/sink.h"

/* Does the deck expect anything of the case? */
bool accept_expects(const bench_case *c);
/* Return tokens/s on a device of that name ("": not known): what the case's published cell has, or NaN; and what the
 * deck expects, or NaN. */
double accept_published(const bench_case *c, const char *device);
double accept_expected(const bench_case *c, const char *device);
/* "900.0 tokens/s less 5 %"; where nobody has published a cell, that. Returns text. */
enum { EXPECTED_TEXT = 96 };
const char *accept_text(const bench_case *c, const char *device, char text[EXPECTED_TEXT]);

/* Sets what is expected of a judged or skipped case, whether it is accepted (PASSED, VALID, and at least the expected
 * tokens/s less the tolerance), and why not: the most decisive reasons, in one sentence. The last repeat decides. */
void accept_case(case_result *r);

/* Adds a case to the counts; stopped: the run was asked to stop before its end. */
void accept_count(final_counts *n, const case_result *r, bool stopped);
/* The run's exit status. A case that a stop took is held against nobody. */
int accept_status(const final_counts *n);
/* Writes the run's last line, which says everything: the verdict, the most decisive reason, and how many cases are
 * PASSED and VALID. A run of which a speed is expected is ACCEPTED or NOT ACCEPTED; one that FAILED is not accepted,
 * even if nothing is expected of the case that failed. Returns line. */
enum { ACCEPT_LINE = 2 * FINAL_REASON + 64 };
const char *accept_line(const final_counts *n, char line[ACCEPT_LINE]);
