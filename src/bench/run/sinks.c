/* The order in which sinks receive events. The journal comes before the report, so that it has every step that is
 * printed. The report comes before the record, because a failure of the record stops the run. The line XGSW_RESULT
 * comes last, because a launcher that is stopping may cut off a long line. */
#include "bench/facts/sink.h"
#include <stdio.h>

static const sink *const order[SINKS] = { &journal_sink, &report_sink,   &record_sink,
                                          &json_sink,    &timeline_sink, &line_sink };

#define SEND(event, ...)                                                                                               \
    for (int i = 0; i < s->open; i++)                                                                                  \
        if (order[i]->event) order[i]->event(s->state[i], __VA_ARGS__)

bool sinks_open(sinks *s, const run_source *run)
{
    char reason[2048];
    *s = (sinks){ .run = run };
    for (; s->open < SINKS; s->open++)
        if (order[s->open]->open && !order[s->open]->open(&s->state[s->open], run, reason, sizeof reason)) {
            fprintf(stderr, "%s: %s: %s\n", run->deck_name, order[s->open]->name, reason);
            return false;
        }
    return true;
}

void sinks_begin(const sinks *s, const bench_case *c) { SEND(begin, c); }
void sinks_check(const sinks *s, const case_result *r) { SEND(check, r); }
void sinks_step(const sinks *s, const case_result *r, const step_now *now) { SEND(step, r, now); }
void sinks_end(const sinks *s, const case_result *r) { SEND(end, r); }
void sinks_close(const sinks *s, const final_counts *n) { SEND(close, s->run, n); }
