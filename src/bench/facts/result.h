/* The result of a case: facts, figures and ruling (correct or not, VALID or not, and the reasons). */
#pragma once
#include "bench/facts/figures.h"

/* INTERRUPTED: stopped before the last step, without a failure until then. */
typedef enum { VERDICT_PASSED, VERDICT_FAILED, VERDICT_SKIPPED, VERDICT_INTERRUPTED, VERDICTS } verdict;
extern const char *const verdict_words[VERDICTS];
/* Outcome of the deck's expectation (accept.h). NONE: no expectation. LATER: the last repeat decides. */
typedef enum { ACCEPTANCE_NONE, ACCEPTANCE_YES, ACCEPTANCE_NO, ACCEPTANCE_LATER } acceptance;
extern const char *const acceptance_words[];
enum { ACCEPTANCE_REASON = 2 * REASON_LENGTH };

/* A reason for FAILED or NOT VALID: the rule's name, the rank concerned (-1 if no rank in particular), and a
 * sentence. */
typedef struct {
    const char *rule;
    int rank;
    char sentence[REASON_LENGTH];
} case_reason;
/* Reasons; only the first CASE_REASONS are kept. */
typedef struct {
    int count;
    case_reason list[CASE_REASONS];
} reasons;
/* Adds a reason in printf style, unless an equal sentence exists. */
void reasons_add(reasons *to, const char *rule, int rank, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

typedef struct {
    verdict verdict;
    char skipped[REASON_LENGTH]; /* reason of VERDICT_SKIPPED */
    bool refused;                /* skipped because a checkpoint could not be loaded */
    char stopped_by[32];         /* what stopped the case, in words; empty if it was not stopped */
    bool passed, valid, comparable;
    char comparison[REASON_LENGTH]; /* the published cell for comparison, or why there is none */
    reasons fails, invalids;
    acceptance acceptance;
    double expected_tokens_per_second; /* NaN if nothing is expected, or no published cell exists */
    char not_accepted[ACCEPTANCE_REASON];
} ruling;

typedef struct {
    const bench_case *given;
    facts seen;
    figures figures;
    ruling ruling;
} case_result;

void result_open(case_result *r, const bench_case *c);
/* Makes the result of a case that does not run, with the reason. It has no lists. */
void result_skip(case_result *r, const bench_case *c, const char *reason);
void result_close(case_result *r);
/* Writes "copy 1 (ranks 2 to 3, on host)". Returns text. */
enum { COPY_TEXT = 128 };
const char *copy_text(const case_result *r, int copy, char text[COPY_TEXT]);
/* Writes the progress: "38 of 50 steps", "18 of 50 steps and 2 of 2 of warm-up". Returns text. */
enum { PROGRESS_TEXT = 128 };
const char *result_progress(const case_result *r, char text[PROGRESS_TEXT]);
