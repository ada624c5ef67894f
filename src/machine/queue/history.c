/* Completion times, spans and seconds of steps. */
#include "machine/queue/history.h"
#include "base/fail.h"
#include "base/memory.h"
#include "machine/op/activity.h"
#include <string.h>

void history_open(history *h, const machine_options *options, tally *t)
{
    *h = (history){ .tally = t, .kept = MARK_HISTORY, .span_capacity = options->span_capacity };
    if (options->mark_history > MARK_HISTORY) h->kept = (uint64_t)options->mark_history;
    h->end = allocate(HAZARD_QUEUES * (int64_t)h->kept, sizeof *h->end, "the history of a machine");
    if (h->span_capacity) h->spans = allocate(h->span_capacity, sizeof *h->spans, "spans of operations");
}

void history_close(history *h)
{
    free(h->end);
    free(h->spans);
    free(h->step);
}

static double *end_of(const history *h, int queue, uint64_t serial)
{
    return &h->end[(uint64_t)queue * h->kept + serial % h->kept];
}

/* Allocates the rows of all steps: the kernel provides memory for a row of zeros only when it is written. */
void history_keep_steps(history *h, int64_t steps)
{
    tally_step *step = allocate(steps, sizeof *step, "the seconds of steps");
    if (h->steps) memcpy(step, h->step, (size_t)h->steps * sizeof *step);
    free(h->step);
    h->step = step, h->steps = steps;
}

static tally_step *row_of(history *h, int64_t step) { return step >= 0 && step < h->steps ? &h->step[step] : NULL; }

static void add_to_step(history *h, const span *s)
{
    tally_step *row = row_of(h, s->origin.step);
    if (!row) return;
    if (!s->axis) row->computing += s->end - s->begin;
    else if (s->kind != OP_EXCHANGE) row->collectives[tally_axis_of(h->tally, s->axis)] += s->end - s->begin;
}

void history_exposed(history *h, const char *axis, int64_t step, double seconds)
{
    int a = tally_axis_of(h->tally, axis);
    tally_step *row = row_of(h, step);
    h->tally->axis[a].exposed_seconds += seconds;
    if (row) row->exposed[a] += seconds;
}

void history_run_delay(history *h, int64_t step, double seconds)
{
    tally_step *row = row_of(h, step);
    if (row) row->run_delay += seconds;
}

void history_complete(history *h, const span *s)
{
    *end_of(h, s->queue, ++h->completed[s->queue]) = s->end;
    if (tally_counts(h->tally, s->origin.step))
        tally_seconds(h->tally, s->kind, s->axis, s->origin.phase, s->end - s->begin);
    add_to_step(h, s);
    if (h->spans) h->spans[h->span_count++ % h->span_capacity] = *s;
    activity e = op_activity(s->kind, &s->origin);
    e.number = (int64_t)s->number;
    activity_text(e.axis, sizeof e.axis, s->axis);
    e.since = s->end;
    activity_completed(&e);
}

bool history_keeps(const history *h, int queue, uint64_t serial) { return h->completed[queue] < serial + h->kept; }

double history_end(const history *h, int queue, uint64_t serial)
{
    if (!history_keeps(h, queue, serial))
        FAIL("operation %llu of queue %d completed too long ago to say when", (unsigned long long)serial, queue);
    return *end_of(h, queue, serial);
}
