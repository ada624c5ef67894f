/* The run rules: what a VALID result may not have, and which result is comparable with a published one. Every VALID is
 * one by the rules of a version; validation/RULES.md says them for people, validation/validate/rules.py derives them
 * again from the record. Whoever changes a rule or a limit changes all three, and the version. */
#pragma once
#include "bench/result/result.h"

#define RULES_VERSION "xgsw-1"
/* A median of fewer steps hangs on single ones, and a tenth of fewer is no step. */
enum { LEAST_STEPS = 10 };
/* Of step times, the ninth tenth's over the first's: an undisturbed machine stays within a few percent, so steps that
 * differ by a fifth were disturbed by something that the median does not show. */
#define SPREAD_LIMIT 1.2
/* Of the medians of the window's halves, either way: what still warms up or slows down by a tenth within the window has
 * no speed yet, and a longer run would tell another. */
#define DRIFT_LIMIT 1.1

/* Adds a reason for every rule that is broken whatever machine the case runs on: of r only `given` is read. */
void rules_foresee(case_result *r);
/* Adds a reason for every rule that the case breaks; its numbers are summarized. On all ranks alike. */
void rules_apply(case_result *r);
/* Is the result, whose verdict is known, comparable with a published one, and with which, or why not? */
void rules_compare(case_result *r);
