/* The run rules: what a VALID result may not have, and which result is comparable with a published one. VALID
 * depends on the version of the rules. validation/RULES.md has what rules_print prints; validation/validate/rules.py
 * derives them again from the record. Whoever changes a rule or a limit changes all three, and the version. */
#pragma once
#include "bench/facts/result.h"

/* A change of a rule or a limit raises the second number. */
#define RULES_VERSION "xgsw-2.5"
/* A mean of fewer steps depends on single ones, and a tenth of fewer is no step. */
#define LEAST_STEPS 10
/* The limit of the 90th over the 10th percentile of the step times. An undisturbed machine stays within a few percent,
 * so something disturbed steps that differ by a fifth. */
#define SPREAD_LIMIT 1.2
/* Of the medians of the window's halves, either way: what still warms up or slows down by a tenth within the window has
 * no speed yet, and a longer run would tell another. */
#define DRIFT_LIMIT 1.1

/* Largest over smallest mean of the repeats, less 1: a speed that is accepted less 5 % must be repeatable within as
 * much.
 */
#define REPEATS_LIMIT 0.05

/* Adds a reason for every rule that a case breaks whatever machine it runs on. */
void rules_foresee(const bench_case *c, reasons *to);
/* Adds a reason for every rule that the case breaks; of r the ruling's fails and stopped_by are known. */
void rules_apply(const case_result *r, reasons *to);
/* Prints all rules as a table of markdown: --rules. */
void rules_print(void);
/* Sets whether the result, whose verdict is known, is comparable with a published one, and with which, or why not. */
void rules_compare(case_result *r);
