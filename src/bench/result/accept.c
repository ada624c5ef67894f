/* Expectations. */
#include "bench/result/accept.h"
#include "base/fail.h"
#include "base/text.h"
#include "plan/catalogue/catalogue.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool accept_expects(const bench_case *c) { return c->expect != EXPECT_NONE; }

double accept_expected(const bench_case *c, const char *device)
{
    bool reference = c->expect == EXPECT_REFERENCE && c->recipe_layout;
    const recipe_row *cell = reference ? recipe_origin(c, device) : NULL;
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

/* Behind what the sentence has. */
static void add_reason(case_result *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_reason(case_result *r, const char *format, ...)
{
    size_t used = strlen(r->not_accepted), room = sizeof r->not_accepted - used;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->not_accepted + used, room, format, arguments);
    va_end(arguments);
}

/* "NOT VALID: check off; and 1 more reason". */
static void add_list(case_result *r, const char *word, const char *first, int count)
{
    add_reason(r, "%s%s%s%s", r->not_accepted[0] ? "; " : "", word, first[0] ? ": " : "", first);
    if (count > 1) add_reason(r, "; and %d more reason%s", count - 1, plural(count - 1));
}

static void against_speed(case_result *r)
{
    char expected[EXPECTED_TEXT];
    accept_text(r->given, r->device, expected);
    if (isnan(r->expected_tokens_per_second)) add_reason(r, "expected is %s", expected);
    else if (r->tokens_per_second < (1.0 - r->given->tolerance) * r->expected_tokens_per_second)
        add_reason(r, "%.1f tokens/s, expected %s", r->tokens_per_second, expected);
}

/* The most decisive reason first: what was computed is wrong or nothing, there is nothing to expect, it is too slow, it
 * is not VALID. The speed of what is wrong does not matter. */
static void find_reasons(case_result *r)
{
    switch (r->verdict) {
    case VERDICT_FAILED: add_list(r, "FAILED", r->fail_reason[0], r->fail_reasons); break;
    case VERDICT_SKIPPED: add_list(r, "SKIPPED", r->skipped, 1); break;
    case VERDICT_INTERRUPTED: add_list(r, "INTERRUPTED", r->stopped_by, 1); break;
    default: against_speed(r);
    }
    if (r->verdict == VERDICT_PASSED && !r->valid) add_list(r, "NOT VALID", r->invalid_reason[0], r->invalid_reasons);
}

void accept_case(case_result *r)
{
    const bench_case *c = r->given;
    r->expected_tokens_per_second = accept_expected(c, r->device);
    r->acceptance = ACCEPTANCE_NONE;
    r->not_accepted[0] = 0;
    if (!accept_expects(c)) return;
    find_reasons(r);
    r->acceptance = r->not_accepted[0] ? ACCEPTANCE_NO : c->repeat < c->repeats ? ACCEPTANCE_LATER : ACCEPTANCE_YES;
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

const char *accept_line(const final_counts *n, char text[ACCEPT_LINE])
{
    const char *why = n->not_accepted[0] ? n->not_accepted : has_failed(n) ? "the run FAILED" : "";
    snprintf(text, ACCEPT_LINE, why[0] ? "NOT ACCEPTED: %s" : "ACCEPTED", why);
    return text;
}
