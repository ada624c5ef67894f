/* Lines of verdicts and reasons. */
#include "bench/report/verdict_lines.h"
#include "base/clock.h"
#include "base/say.h"
#include "base/text.h"
#include "bench/facts/accept.h"
#include "bench/paper/forecast.h"
#include "bench/project/expected_lines.h"
#include "bench/record/place.h"
#include "bench/report/separators.h"
#include <string.h>

void say_shortened(int indent, const char *text)
{
    int length = (int)strlen(text), most = 110 - indent;
    bool cut = length > most;
    if (cut) length = most - 4;
    while (cut && length > 0 && text[length] != ' ') length--;
    if (length) say("%*s%.*s%s\n", indent, "", length, text, cut ? " ..." : "");
}

static void say_acceptance(const case_result *r)
{
    char expected[EXPECTED_TEXT];
    if (r->ruling.acceptance == ACCEPTANCE_NONE) return;
    say("Expected   %s: %s%s\n", accept_text(r->given, r->figures.device, expected),
        acceptance_words[r->ruling.acceptance], r->ruling.not_accepted[0] ? ":" : "");
    say_shortened(11, r->ruling.not_accepted);
}

static void say_reasons(const case_result *r)
{
    char progress[PROGRESS_TEXT], difference[DIFFERENCE_TEXT];
    if (r->seen.stopped) say("INTERRUPTED after %s: %s\n", result_progress(r, progress), r->ruling.stopped_by);
    for (int i = 0; i < r->ruling.fails.count; i++) say("FAILED     %s\n", r->ruling.fails.list[i].sentence);
    for (int i = 0; i < r->ruling.invalids.count; i++) say("NOT VALID  %s\n", r->ruling.invalids.list[i].sentence);
    say_acceptance(r);
    say("Verdict    %s, %s", verdict_words[r->ruling.verdict], r->ruling.valid ? "VALID" : "NOT VALID");
    if (r->ruling.valid)
        say("; %s%s", r->ruling.comparable ? "comparable: " : "not comparable: ", r->ruling.comparison);
    say("%s%s\n", largest_difference(r, difference)[0] ? "; " : "", difference);
}

static void say_skipped(const case_result *r)
{
    const bench_case *c = r->given;
    say("\nCase %d     %s, size %s, %s: SKIPPED: %s\n", c->number, c->workload, size_name(c->size),
        precision_name(c->precision), r->ruling.skipped);
    say_acceptance(r);
}

void say_verdict(const case_result *r)
{
    if (r->ruling.verdict == VERDICT_SKIPPED) say_skipped(r);
    else say_reasons(r);
}

/* A model that is not the recipe's is named, as in "llama3.1-405b 8-layer proxy". */
void say_merit(const case_result *r)
{
    const bench_case *c = r->given;
    const repeated_seconds *s = &r->figures.repeated;
    const char *unit = c->backend == BACKEND_CUDA ? "GPU" : "rank";
    double rate = r->figures.tokens_per_second;
    if (r->ruling.verdict != VERDICT_PASSED || c->repeat < c->repeats) return;
    if (s->count > 1) rate = (double)(c->layout.copies * r->figures.tokens_per_step) / s->median;
    say("FOM %s%s %s %d %s%s", c->workload, c->proxy ? c->model_name + strlen(c->workload) + 1 : "",
        precision_name(c->precision), c->ranks, unit, plural(c->ranks));
    if (c->layout.copies > 1) say(" in %d copies", c->layout.copies);
    say(": %.1f tokens/s", rate);
    if (s->count > 1) say(", median of %d repeats", s->count);
    say("%s\n", r->ruling.valid ? "" : ", NOT VALID");
}

void say_end(const run_source *run, const final_counts *n, double seconds)
{
    const record_place *place = run->place;
    bool any_ran = n->passed + n->failed + n->interrupted > 0;
    char line[ACCEPT_LINE], now[CLOCK_TEXT], taken[DURATION_TEXT];
    say("\n%s", THICK_LINE);
    say("End        %s, %s after the start\n", clock_text(now), duration_text(seconds, taken));
    if (!place->none)
        say("Record     %s%s\n", any_ran ? place->record : "not written: no case ran",
            any_ran && n->stopped ? " (all cases and steps up to the stop; run the deck again for the others)" : "");
    if (place->sha256[0]) say("%s  %s\n", place->sha256, place->record);
    say("%s", THICK_LINE);
    say("%s\n", accept_line(n, line));
}
