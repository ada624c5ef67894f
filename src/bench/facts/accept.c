/* Acceptance of cases and runs. */
#include "bench/facts/accept.h"
#include "base/fail.h"
#include "base/text.h"
#include "plan/catalogue/catalogue.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool accept_expects(const bench_case *c) { return c->expect != EXPECT_NONE || c->power_limit > 0.0; }

double accept_published(const bench_case *c, const char *device)
{
    const recipe_row *cell = c->recipe_layout ? recipe_origin(c, device) : NULL;
    if (!cell) return NAN;
    return c->layout.copies * tokens_per_second(cell->sequence, cell->global_batch, cell->step_seconds);
}

double accept_expected(const bench_case *c, const char *device)
{
    if (c->expect == EXPECT_REFERENCE) return accept_published(c, device);
    return c->expect > 0.0 ? c->expect : (double)NAN;
}

static const char *speed_text(const bench_case *c, const char *device, char text[EXPECTED_TEXT])
{
    double expected = accept_expected(c, device);
    const char *format = recipe_format(c, device);
    if (c->expect == EXPECT_NONE) text[0] = 0;
    else if (isnan(expected) && format)
        snprintf(text, EXPECTED_TEXT, "a published cell, published in %s: not the same work", format);
    else if (isnan(expected))
        snprintf(text, EXPECTED_TEXT, "a published cell, but none is of this case on this device");
    else snprintf(text, EXPECTED_TEXT, "%.1f tokens/s less %.15g %%", expected, 100.0 * c->tolerance);
    return text;
}

const char *accept_text(const bench_case *c, const char *device, char text[EXPECTED_TEXT])
{
    size_t used = strlen(speed_text(c, device, text));
    if (c->power_limit > 0.0)
        snprintf(text + used, EXPECTED_TEXT - used, "%sat most %.15g W a GPU", used ? ", " : "", c->power_limit);
    return text;
}

/* Appends to the sentence not_accepted. */
static void add_reason(case_result *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_reason(case_result *r, const char *format, ...)
{
    size_t used = strlen(r->ruling.not_accepted), size = sizeof r->ruling.not_accepted - used;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->ruling.not_accepted + used, size, format, arguments);
    va_end(arguments);
}

/* "NOT VALID: check off; and 1 more reason". */
static void add_list(case_result *r, const char *word, const char *first, int count)
{
    add_reason(r, "%s%s%s%s", r->ruling.not_accepted[0] ? "; " : "", word, first[0] ? ": " : "", first);
    if (count > 1) add_reason(r, "; and %d more reason%s", count - 1, plural(count - 1));
}

static void compare_speed(case_result *r)
{
    char expected[EXPECTED_TEXT];
    speed_text(r->given, r->figures.device, expected);
    if (r->given->expect == EXPECT_NONE) return;
    if (isnan(r->ruling.expected_tokens_per_second)) add_reason(r, "expected is %s", expected);
    else if (r->figures.tokens_per_second < (1.0 - r->given->tolerance) * r->ruling.expected_tokens_per_second)
        add_reason(r, "%.1f tokens/s, expected %s", r->figures.tokens_per_second, expected);
}

/* Power is known only of devices with energy counters, in timed steps of a second or more. */
static void compare_power(case_result *r)
{
    double limit = r->given->power_limit, watts = r->seen.samples.watts;
    if (limit == 0.0 || watts <= limit) return;
    const char *before = r->ruling.not_accepted[0] ? "; " : "";
    if (isnan(watts)) add_reason(r, "%sno samples of power, limit %.15g W a GPU", before, limit);
    else add_reason(r, "%spower %.1f W a GPU, limit %.15g W", before, watts, limit);
}

/* Writes reasons in the order of importance. Speed and power matter only if the case is PASSED. */
static void find_reasons(case_result *r)
{
    switch (r->ruling.verdict) {
    case VERDICT_FAILED: add_list(r, "FAILED", r->ruling.fails.list[0].sentence, r->ruling.fails.count); break;
    case VERDICT_SKIPPED: add_list(r, "SKIPPED", r->ruling.skipped, 1); break;
    case VERDICT_INTERRUPTED: add_list(r, "INTERRUPTED", r->ruling.stopped_by, 1); break;
    default: compare_speed(r), compare_power(r);
    }
    if (r->ruling.verdict == VERDICT_PASSED && !r->ruling.valid)
        add_list(r, "NOT VALID", r->ruling.invalids.list[0].sentence, r->ruling.invalids.count);
}

void accept_case(case_result *r)
{
    const bench_case *c = r->given;
    r->ruling.expected_tokens_per_second = accept_expected(c, r->figures.device);
    r->ruling.acceptance = ACCEPTANCE_NONE;
    r->ruling.not_accepted[0] = 0;
    if (!accept_expects(c)) return;
    find_reasons(r);
    r->ruling.acceptance = r->ruling.not_accepted[0] ? ACCEPTANCE_NO
                           : c->repeat < c->repeats  ? ACCEPTANCE_LATER
                                                     : ACCEPTANCE_YES;
}

/* Keeps a text such as "case 3: spread ..." for the first case that has a reason. */
static void keep_first(char first[FINAL_REASON], const case_result *r, const char *reason)
{
    if (!first[0] && reason[0]) snprintf(first, FINAL_REASON, "case %d: %s", r->given->number, reason);
}

/* Adds a case to "2, 5", which ends with "..." if there are too many. */
static void list_skipped(final_counts *n, int number)
{
    size_t used = strlen(n->skipped_cases), left = sizeof n->skipped_cases - used;
    if (left > 16) snprintf(n->skipped_cases + used, left, "%s%d", used ? ", " : "", number);
    else if (n->skipped_cases[used - 1] != '.') snprintf(n->skipped_cases + used, left, ", ...");
}

void accept_count(final_counts *n, const case_result *r, bool stopped)
{
    bool unaccepted = r->ruling.acceptance == ACCEPTANCE_NO;
    n->passed += r->ruling.verdict == VERDICT_PASSED;
    n->unchecked += r->ruling.verdict == VERDICT_PASSED && r->given->check == CHECK_OFF;
    n->failed += r->ruling.verdict == VERDICT_FAILED;
    n->skipped += r->ruling.verdict == VERDICT_SKIPPED;
    n->interrupted += r->ruling.verdict == VERDICT_INTERRUPTED;
    n->valid += r->ruling.valid;
    n->stopped |= stopped;
    n->expecting += r->ruling.acceptance != ACCEPTANCE_NONE;
    n->unaccepted += unaccepted && !stopped;
    n->invalid += !r->ruling.valid && !stopped;
    if (r->ruling.fails.count) keep_first(n->first_failed, r, r->ruling.fails.list[0].sentence);
    if (r->ruling.verdict == VERDICT_SKIPPED) list_skipped(n, r->given->number);
    if (r->ruling.verdict == VERDICT_SKIPPED) keep_first(n->first_skipped, r, r->ruling.skipped);
    else if (r->ruling.invalids.count) keep_first(n->first_invalid, r, r->ruling.invalids.list[0].sentence);
    n->refused += r->ruling.refused;
    keep_first(n->stopped_by, r, r->ruling.stopped_by);
    keep_first(n->unsaved, r, r->seen.checkpoint.failed);
    keep_first(n->not_accepted, r, unaccepted && !stopped ? r->ruling.not_accepted : "");
}

static bool has_failed(const final_counts *n) { return n->failed || (n->strict && n->invalid); }

int accept_status(const final_counts *n)
{
    bool trained = n->passed + n->interrupted > 0;
    if (n->refused) return STATUS_REFUSED;
    if (has_failed(n) || n->unaccepted) return STATUS_FAILED;
    if (n->unsaved[0]) return STATUS_RECORD;
    return n->stopped ? STATUS_STOPPED : trained ? STATUS_PASSED : STATUS_NOTHING;
}

/* "8 of 10 cases computed correctly, 7 results VALID, 1 SKIPPED (case 3), 1 not checked". Returns text. */
static const char *counts_text(const final_counts *n, char text[FINAL_REASON])
{
    int cases = n->passed + n->failed + n->interrupted + n->skipped;
    char skipped[128] = "", unchecked[32] = "";
    if (n->skipped)
        snprintf(skipped, sizeof skipped, ", %d SKIPPED (case%s %s)", n->skipped, plural(n->skipped), n->skipped_cases);
    if (n->unchecked) snprintf(unchecked, sizeof unchecked, ", %d not checked", n->unchecked);
    snprintf(text, FINAL_REASON, "%d of %d case%s computed correctly, %d result%s VALID%s%s", n->passed - n->unchecked,
             cases, plural(cases), n->valid, plural(n->valid), skipped, unchecked);
    return text;
}

/* Returns the reason for FAILED: an error, or otherwise a case that --strict does not allow. */
static const char *failed_text(const final_counts *n)
{
    if (n->first_failed[0]) return n->first_failed;
    return n->first_invalid[0] ? n->first_invalid : n->first_skipped;
}

/* If the run stopped between two cases, no case is INTERRUPTED. */
static const char *stop_text(const final_counts *n) { return n->stopped_by[0] ? n->stopped_by : n->first_skipped; }

const char *accept_line(const final_counts *n, char line[ACCEPT_LINE])
{
    char counts[FINAL_REASON];
    const char *reason = has_failed(n) ? failed_text(n) : n->not_accepted;
    counts_text(n, counts);
    if (n->expecting && reason[0]) snprintf(line, ACCEPT_LINE, "NOT ACCEPTED: %s; %s", reason, counts);
    else if (n->failed) snprintf(line, ACCEPT_LINE, "FAILED: %s; %s", reason, counts);
    else if (has_failed(n)) snprintf(line, ACCEPT_LINE, "FAILED, as --strict asks: %s; %s", reason, counts);
    else if (n->refused) snprintf(line, ACCEPT_LINE, "REFUSED: %s", n->first_skipped);
    else if (n->unsaved[0]) snprintf(line, ACCEPT_LINE, "NOT SAVED: %s; %s", n->unsaved, counts);
    else if (n->stopped) snprintf(line, ACCEPT_LINE, "INTERRUPTED: %s; %s", stop_text(n), counts);
    else if (!n->passed) snprintf(line, ACCEPT_LINE, "NOTHING TRAINED: %s", n->first_skipped);
    else if (n->expecting) snprintf(line, ACCEPT_LINE, "ACCEPTED: %s", counts);
    else if (!n->valid) snprintf(line, ACCEPT_LINE, "PASSED, but no result is VALID: %s; %s", n->first_invalid, counts);
    else snprintf(line, ACCEPT_LINE, "PASSED: %s", counts);
    return line;
}
