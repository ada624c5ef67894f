/* Expectations. */
#include "bench/result/accept.h"
#include "base/fail.h"
#include "plan/catalogue/catalogue.h"
#include <math.h>
#include <stdio.h>

bool accept_expects(const bench_case *c) { return c->expect != EXPECT_NONE; }

double accept_expected(const bench_case *c, const char *device)
{
    const recipe_row *cell = c->expect == EXPECT_REFERENCE ? recipe_cell(c, device) : NULL;
    if (cell) return tokens_per_second(cell->sequence, cell->global_batch, cell->step_seconds);
    return c->expect > 0.0 ? c->expect : (double)NAN;
}

const char *accept_text(const bench_case *c, const char *device, char text[EXPECTED_TEXT])
{
    double expected = accept_expected(c, device);
    if (isnan(expected)) snprintf(text, EXPECTED_TEXT, "a published cell, but none is of this case");
    else snprintf(text, EXPECTED_TEXT, "%.1f tokens/s less %.15g %%", expected, 100.0 * c->tolerance);
    return text;
}

/* Why a case is no measurement; false: it is one. */
static bool is_no_measurement(case_result *r)
{
    char *why = r->not_accepted;
    const char *first = r->verdict == VERDICT_SKIPPED  ? r->skipped
                        : r->verdict == VERDICT_FAILED ? r->fail_reason[0]
                        : r->verdict != VERDICT_PASSED ? r->stopped_by
                                                       : r->invalid_reason[0];
    const char *word = r->verdict == VERDICT_PASSED ? "NOT VALID" : verdict_words[r->verdict];
    int more = r->verdict == VERDICT_FAILED   ? r->fail_reasons - 1
               : r->verdict == VERDICT_PASSED ? r->invalid_reasons - 1
                                              : 0;
    if (r->verdict == VERDICT_PASSED && r->valid) return false;
    int used = snprintf(why, sizeof r->not_accepted, "%s%s%s", word, first[0] ? ": " : "", first);
    if (more > 0) snprintf(why + used, sizeof r->not_accepted - (size_t)used, "; and %d more", more);
    return true;
}

void accept_case(case_result *r)
{
    char expected[EXPECTED_TEXT];
    const bench_case *c = r->given;
    r->expected_tokens_per_second = accept_expected(c, r->device);
    r->acceptance = accept_expects(c) ? ACCEPTANCE_NO : ACCEPTANCE_NONE;
    if (!accept_expects(c) || is_no_measurement(r)) return;
    accept_text(c, r->device, expected);
    if (r->tokens_per_second >= (1.0 - c->tolerance) * r->expected_tokens_per_second) r->acceptance = ACCEPTANCE_YES;
    else
        snprintf(r->not_accepted, sizeof r->not_accepted, "%.1f tokens/s, expected %s", r->tokens_per_second, expected);
}

void accept_count(final_counts *n, const case_result *r, bool stopped)
{
    bool missed = r->acceptance == ACCEPTANCE_NO;
    n->passed += r->verdict == VERDICT_PASSED;
    n->failed += r->verdict == VERDICT_FAILED;
    n->skipped += r->verdict == VERDICT_SKIPPED;
    n->interrupted += r->verdict == VERDICT_INTERRUPTED;
    n->valid += r->valid;
    n->stopped |= stopped;
    n->expecting += r->acceptance != ACCEPTANCE_NONE;
    n->missed += missed && !stopped;
    n->lacking += !r->valid && !stopped;
    if (missed && !n->not_accepted[0])
        snprintf(n->not_accepted, sizeof n->not_accepted, "case %d: %s", r->given->number, r->not_accepted);
}

static bool has_failed(const final_counts *n) { return n->failed || (n->strict && n->lacking); }

int accept_status(const final_counts *n)
{
    bool trained = n->passed + n->interrupted > 0;
    if (has_failed(n) || n->missed) return STATUS_FAILED;
    return n->stopped ? STATUS_STOPPED : trained ? STATUS_PASSED : STATUS_NOTHING;
}

const char *accept_word(const final_counts *n)
{
    return has_failed(n) ? "FAILED" : n->stopped ? "INTERRUPTED" : n->passed ? "PASSED" : "SKIPPED";
}
