/* A case, what was observed of it, the figures that follow, and the ruling: is it right, is it VALID, and why. */
#pragma once
#include "bench/facts/figures.h"

/* Interrupted: asked to stop before its last step, and nothing failed until then. */
typedef enum { VERDICT_PASSED, VERDICT_FAILED, VERDICT_SKIPPED, VERDICT_INTERRUPTED, VERDICTS } verdict;
extern const char *const verdict_words[VERDICTS];
/* What becomes of the deck's expectation (accept.h). NONE: it has none. LATER: the last repeat decides. */
typedef enum { ACCEPTANCE_NONE, ACCEPTANCE_YES, ACCEPTANCE_NO, ACCEPTANCE_LATER } acceptance;
extern const char *const acceptance_words[];
enum { ACCEPTANCE_REASON = 2 * REASON_LENGTH };

/* Why a case is FAILED or NOT VALID: the rule's name, the rank that it concerns (-1: none in particular), and the
 * sentence made from them. */
typedef struct {
    const char *rule;
    int rank;
    char sentence[REASON_LENGTH];
} case_reason;
/* The first CASE_REASONS are kept. */
typedef struct {
    int count;
    case_reason list[CASE_REASONS];
} reasons;
/* Adds a reason, printf style, unless it is there already. */
void reasons_add(reasons *to, const char *rule, int rank, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

typedef struct {
    verdict verdict;
    char skipped[REASON_LENGTH]; /* why, of VERDICT_SKIPPED: it has no steps */
    bool refused;                /* skipped, because a checkpoint could not be loaded */
    char stopped_by[32];         /* why it was stopped, in words; empty: it was not */
    bool passed, valid, comparable;
    char comparison[REASON_LENGTH]; /* with which published cell, or why with none */
    reasons fails, invalids;
    acceptance acceptance;
    double expected_tokens_per_second; /* NaN: nothing is expected, or a published cell that there is not */
    char not_accepted[ACCEPTANCE_REASON];
} ruling;

typedef struct {
    const bench_case *given;
    facts seen;
    figures figures;
    ruling ruling;
} case_result;

void result_open(case_result *r, const bench_case *c);
/* Instead, of a case that does not run, and why: it has no lists. */
void result_skip(case_result *r, const bench_case *c, const char *reason);
void result_close(case_result *r);
/* How far it came: "38 of 50 steps", "18 of 50 steps and 2 of 2 of warm-up"; returns text. */
enum { PROGRESS_TEXT = 128 };
const char *result_progress(const case_result *r, char text[PROGRESS_TEXT]);
