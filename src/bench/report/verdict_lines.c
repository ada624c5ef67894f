/* Verdicts and their reasons. */
#include "bench/report/verdict_lines.h"
#include "base/say.h"
#include "base/text.h"
#include "bench/record/place.h"
#include "bench/report/separators.h"
#include "bench/report/summary.h"
#include "bench/result/accept.h"
#include <math.h>
#include <stdio.h>

/* "n/a" if there was no check. */
static const char *residual_text(const case_result *r, char text[16])
{
    snprintf(text, 16, r->check.done ? "%.4g" : "n/a", r->check.residual);
    return text;
}

static void say_acceptance(const case_result *r)
{
    char expected[EXPECTED_TEXT];
    if (r->acceptance == ACCEPTANCE_NONE) return;
    say("Expected   %s: %s%s%s\n", accept_text(r->given, r->device, expected), acceptance_words[r->acceptance],
        r->not_accepted[0] ? ": " : "", r->not_accepted);
}

static void say_reasons(const case_result *r)
{
    const bench_case *c = r->given;
    char worst[16], progress[PROGRESS_TEXT], layout[LAYOUT_TEXT];
    if (r->stopped) say("INTERRUPTED after %s: %s\n", result_progress(r, progress), r->stopped_by);
    for (int i = 0; i < r->fail_reasons; i++) say("FAILED     %s\n", r->fail_reason[i]);
    for (int i = 0; i < r->invalid_reasons; i++) say("NOT VALID  %s\n", r->invalid_reason[i]);
    say("Comparable %s%s\n", r->comparable ? "" : "no: ", r->comparison);
    say("%-16s %-6s %-5s ranks %d  %s  %.4f s  %.1f tokens/s  residual %s  %s  %s\n", c->workload, size_name(c->size),
        precision_name(c->precision), c->layout.ranks, layout_text(&c->layout, layout), r->mean_seconds,
        r->tokens_per_second, residual_text(r, worst), r->valid ? "VALID" : "NOT VALID", verdict_words[r->verdict]);
}

static void say_skipped(const case_result *r)
{
    const bench_case *c = r->given;
    say("\n" THIN_LINE "Case %d     %s, size %s, %s: SKIPPED: %s\n", c->number, c->model_name, size_name(c->size),
        precision_name(c->precision), r->skipped);
}

void say_verdict(const case_result *r)
{
    if (r->verdict == VERDICT_SKIPPED) say_skipped(r);
    else say_reasons(r);
    say_acceptance(r);
}

void say_end(const run_source *run, const final_counts *n)
{
    const record_place *place = run->place;
    int ran = n->passed + n->failed + n->interrupted, cases = ran + n->skipped;
    bool any_ran = ran > 0;
    char line[ACCEPT_LINE];
    say("\n%s", THICK_LINE);
    say("Finished %d case%s: %d PASSED, %d FAILED, %d SKIPPED%s\n", cases, plural(cases), n->passed, n->failed,
        n->skipped, n->interrupted ? ", 1 INTERRUPTED" : "");
    say("Valid      %d of %d that ran\n", n->valid, ran);
    if (!any_ran) say("Trained    nothing: no case ran\n");
    if (n->strict && n->lacking)
        say("Strict     %d case%s SKIPPED or NOT VALID: that fails\n", n->lacking, n->lacking == 1 ? " is" : "s are");
    if (!place->none)
        say("Record     %s%s\n", any_ran ? place->record : "not written: no case ran",
            any_ran && n->stopped ? ": all cases and steps up to the stop; run the deck again for the others" : "");
    if (place->sha256[0]) say("%s  %s\n", place->sha256, place->record);
    say("%s", THICK_LINE);
    say("%s\n", accept_word(n));
    if (n->expecting) say("%s\n", accept_line(n, line));
}
