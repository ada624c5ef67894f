/* Estimates of remaining seconds. */
#include "bench/report/progress.h"
#include "base/say.h"
#include "bench/paper/forecast.h"
#include "bench/report/step_lines.h"
#include <stdio.h>

/* The progress line has no newline, so it can be overwritten. */
void progress_clear(const progress *p)
{
    if (p->terminal) say("\r\033[K");
}

/* Returns seconds of all later cases, if their checks take as long and their ranks compute as fast as this case's. */
static double cases_to_come(const progress *p, const bench_case *now, double step_seconds)
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
    char here[DURATION_TEXT], all[DURATION_TEXT];
    const bench_case *c = r->given;
    int64_t step = now->step, total = steps_last(c, now) + 1;
    double mean = now->spent_seconds / (double)(step + 1), left = steps_seconds_left(c, now, mean);
    if (!p->terminal) return;
    say("case %d of %lld, step %lld of %lld: about %s left in this case, %s in the deck", c->number,
        (long long)p->deck->cases, (long long)(step + 1), (long long)total, duration_text(left, here),
        duration_text(left + cases_to_come(p, c, mean), all));
    fflush(stdout);
}

/* The estimate is due after the last warm-up step, or after the first timed step if there is no warm-up. */
void progress_estimate(const progress *p, const case_result *r, const step_now *now)
{
    char here[DURATION_TEXT], all[DURATION_TEXT];
    const bench_case *c = r->given;
    double seconds = r->seen.own_seconds[now->step], left = steps_seconds_left(c, now, seconds);
    if (now->step != (c->warmup ? c->warmup - 1 : 0) || left <= 0.0) return;
    say("Estimate   about %s for the rest of this case", duration_text(left, here));
    if (c->number < p->deck->cases)
        say("; %s for the deck, if later cases compute as fast",
            duration_text(left + cases_to_come(p, c, seconds), all));
    say("\n");
}
