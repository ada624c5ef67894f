/* The run rules: what makes a result NOT VALID, and which results are comparable with published ones. The ruling
 * depends on the version of the rules. validation/RULES.md and reference/words.jsonl contain the output of rules_print;
 * validation/validate/rules.py applies the rules to the record. Change a rule or limit in all these places, and raise
 * the version. */
#pragma once
#include "bench/facts/result.h"

/* Raise the second number when a rule or limit changes. */
#define RULES_VERSION "xgsw-2.6"
/* The mean of fewer steps depends on single steps, and a percentile needs at least ten. */
#define LEAST_STEPS 10
/* Largest ratio of the 90th to the 10th percentile of step times. Undisturbed machines vary by a few percent, so a
 * ratio of 1.2 shows a disturbance. */
#define SPREAD_LIMIT 1.2
/* Largest ratio of the medians of the two halves of the timed steps, or of its inverse. A larger change shows that the
 * machine still warms up or slows down, and that a longer run would give another speed. */
#define DRIFT_LIMIT 1.1

/* Largest / smallest mean of the repeats - 1. A speed accepted with a tolerance of 5 % must repeat within 5 %. */
#define REPEATS_LIMIT 0.05

/* Adds a reason for each rule that the deck alone breaks, on any machine. */
void rules_foresee(const bench_case *c, reasons *to);
/* Adds a reason for each broken rule. The caller has set fails and stopped_by of r's ruling. */
void rules_apply(const case_result *r, reasons *to);
/* Prints all rules as a Markdown table: --rules. json: as one JSON object a line; no text of a rule needs an escape. */
void rules_print(bool json);
/* Sets whether the judged result is comparable with a published one, and the published cell or the reason. */
void rules_compare(case_result *r);
