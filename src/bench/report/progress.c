/* Estimates of remaining seconds. */
#include "bench/report/progress.h"
#include "base/say.h"
#include "bench/paper/forecast.h"
#include "bench/report/step_lines.h"
#include <stdio.h>

/* The progress line has no newline, so it can be overwritten. */
void progress_clear(const progress *p)
{
    if (p->terminal) say_passing("\r\033[K");
}

/* Assumes that later cases have checks as long as this case's, and ranks that compute as fast. */
static double later_cases_seconds(const progress *p, const bench_case *now, double step_seconds)
{
    double seconds = 0.0;
    for (int64_t i = now->number; i < p->deck->cases; i++) {
        const bench_case *c = &p->deck->item[i];
        if (c->skipped[0]) continue;
        seconds += forecast_case(c, forecast_step(now, step_seconds, c)) + p->check_seconds;
    }
    return seconds;
}

void progress_say(const progress *p, const case_result *r, const step_now *now)
{
    char case_text[DURATION_TEXT], deck_text[DURATION_TEXT];
    const bench_case *c = r->given;
    int64_t step = now->step, total = steps_last(c, now) + 1;
    double mean = now->spent_seconds / (double)(step + 1), remaining = steps_seconds_left(c, now, mean);
    if (!p->terminal) return;
    say_passing("case %d of %lld, step %lld of %lld: about %s left in this case, %s in the deck", c->number,
                (long long)p->deck->cases, (long long)(step + 1), (long long)total, duration_text(remaining, case_text),
                duration_text(remaining + later_cases_seconds(p, c, mean), deck_text));
}

/* Prints after the last warm-up step, or after the first timed step if there is no warm-up. */
bool progress_estimate(const progress *p, const case_result *r, const step_now *now)
{
    char case_text[DURATION_TEXT], deck_text[DURATION_TEXT];
    const bench_case *c = r->given;
    double seconds = r->seen.own_seconds[now->step], remaining = steps_seconds_left(c, now, seconds);
    if (now->step != (c->warmup ? c->warmup - 1 : 0) || remaining <= 0.0) return false;
    say("Estimate   about %s for the rest of this case", duration_text(remaining, case_text));
    if (c->number < p->deck->cases)
        say("; %s for the deck, if later cases compute as fast",
            duration_text(remaining + later_cases_seconds(p, c, seconds), deck_text));
    say("\n");
    return true;
}
