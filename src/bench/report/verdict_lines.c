/* Verdicts and their reasons. */
#include "bench/report/verdict_lines.h"
#include "base/say.h"
#include "bench/facts/accept.h"
#include "bench/record/place.h"
#include "bench/report/separators.h"

static void say_acceptance(const case_result *r)
{
    char expected[EXPECTED_TEXT];
    if (r->acceptance == ACCEPTANCE_NONE) return;
    say("Expected   %s: %s%s%s\n", accept_text(r->given, r->device, expected), acceptance_words[r->acceptance],
        r->not_accepted[0] ? ": " : "", r->not_accepted);
}

static void say_reasons(const case_result *r)
{
    char progress[PROGRESS_TEXT];
    if (r->stopped) say("INTERRUPTED after %s: %s\n", result_progress(r, progress), r->stopped_by);
    for (int i = 0; i < r->fail_reasons; i++) say("FAILED     %s\n", r->fail_reason[i]);
    for (int i = 0; i < r->invalid_reasons; i++) say("NOT VALID  %s\n", r->invalid_reason[i]);
    say_acceptance(r);
    say("Verdict    %s, %s", verdict_words[r->verdict], r->valid ? "VALID" : "NOT VALID");
    if (r->valid) say("; %s%s", r->comparable ? "comparable: " : "not compared with published steps: ", r->comparison);
    say("\n");
}

static void say_skipped(const case_result *r)
{
    const bench_case *c = r->given;
    say("\nCase %d     %s, size %s, %s: SKIPPED: %s\n", c->number, c->workload, size_name(c->size),
        precision_name(c->precision), r->skipped);
    say_acceptance(r);
}

void say_verdict(const case_result *r)
{
    if (r->verdict == VERDICT_SKIPPED) say_skipped(r);
    else say_reasons(r);
}

void say_end(const run_source *run, const final_counts *n)
{
    const record_place *place = run->place;
    bool any_ran = n->passed + n->failed + n->interrupted > 0;
    char line[ACCEPT_LINE];
    say("\n%s", THICK_LINE);
    if (!place->none)
        say("Record     %s%s\n", any_ran ? place->record : "not written: no case ran",
            any_ran && n->stopped ? ": all cases and steps up to the stop; run the deck again for the others" : "");
    if (place->sha256[0]) say("%s  %s\n", place->sha256, place->record);
    say("%s", THICK_LINE);
    say("%s\n", accept_line(n, line));
}
