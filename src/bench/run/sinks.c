/* The order in which sinks receive events. The journal is before the report, so that it has each step that is printed.
 * The report is before the record, because a failure of the record stops the run. The line XGSW_RESULT is last, because
 * it is long and a launcher that was asked to stop may no longer accept output. */
#include "bench/facts/sink.h"
#include <stdio.h>

static const sink *const row[SINKS] = { &journal_sink, &report_sink,   &record_sink,
                                        &json_sink,    &timeline_sink, &line_sink };

#define TELL(event, ...)                                                                                               \
    for (int i = 0; i < s->open; i++)                                                                                  \
        if (row[i]->event) row[i]->event(s->state[i], __VA_ARGS__)

bool sinks_open(sinks *s, const run_source *run)
{
    char reason[2048];
    *s = (sinks){ .run = run };
    for (; s->open < SINKS; s->open++)
        if (row[s->open]->open && !row[s->open]->open(&s->state[s->open], run, reason, sizeof reason)) {
            fprintf(stderr, "%s: %s: %s\n", run->deck_name, row[s->open]->name, reason);
            return false;
        }
    return true;
}

void sinks_begin(const sinks *s, const bench_case *c) { TELL(begin, c); }
void sinks_check(const sinks *s, const case_result *r) { TELL(check, r); }
void sinks_step(const sinks *s, const case_result *r, const step_now *now) { TELL(step, r, now); }
void sinks_end(const sinks *s, const case_result *r) { TELL(end, r); }
void sinks_close(const sinks *s, const final_counts *n) { TELL(close, s->run, n); }
