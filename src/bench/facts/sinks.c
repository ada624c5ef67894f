/* Events go to the sinks in this order. The journal has a step before it is printed. The report speaks before the
 * record, whose failure ends the run. The line XGSW_RESULT is long, and a launcher that has been told to stop may no
 * longer take it: the record does not wait for that. */
#include "bench/facts/sinks.h"
#include <stdio.h>

static const sink *const row[SINKS] = { &journal_sink, &report_sink, &record_sink, &json_sink, &line_sink };

#define TELL(event, ...)                                                                                               \
    for (int i = 0; i < s->open; i++)                                                                                  \
        if (row[i]->event) row[i]->event(s->state[i], __VA_ARGS__)

bool sinks_open(sinks *s, const run_source *run)
{
    char reason[2048];
    *s = (sinks){ .open = 0 };
    for (; s->open < SINKS; s->open++)
        if (row[s->open]->open && !row[s->open]->open(&s->state[s->open], run, reason, sizeof reason)) {
            fprintf(stderr, "%s: %s: %s\n", run->deck_name, row[s->open]->name, reason);
            return false;
        }
    return true;
}

void sinks_close(sinks *s)
{
    while (s->open-- > 0)
        if (row[s->open]->close) row[s->open]->close(s->state[s->open]);
}

void sinks_run_begins(const sinks *s, const run_source *run) { TELL(run_begins, run); }
void sinks_case_begins(const sinks *s, const bench_case *c) { TELL(case_begins, c); }
void sinks_check_ends(const sinks *s, const case_result *r) { TELL(check_ends, r); }
void sinks_step_ends(const sinks *s, const case_result *r, int64_t step) { TELL(step_ends, r, step); }
void sinks_case_ends(const sinks *s, const case_result *r) { TELL(case_ends, r); }
void sinks_run_ends(const sinks *s, const run_source *run, const final_counts *n) { TELL(run_ends, run, n); }
