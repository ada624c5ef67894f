/* The history of a machine's queues. */
#include "machine/history.h"
#include "base/fail.h"
#include "machine/watch/watch.h"
#include <stdlib.h>

void history_open(history *h, const machine_options *options, tally *t)
{
    *h = (history){ .tally = t, .kept = MARK_HISTORY, .span_capacity = options->span_capacity };
    if (options->mark_history > MARK_HISTORY) h->kept = (uint64_t)options->mark_history;
    h->end = calloc(HAZARD_QUEUES * h->kept, sizeof *h->end);
    if (h->span_capacity) h->spans = calloc((size_t)h->span_capacity, sizeof *h->spans);
    if (!h->end || (h->span_capacity && !h->spans)) FAIL("no memory for the history of a machine");
}

void history_close(history *h)
{
    free(h->end);
    free(h->spans);
}

static double *end_of(const history *h, int queue, uint64_t serial)
{
    return &h->end[(uint64_t)queue * h->kept + serial % h->kept];
}

void history_complete(history *h, const span *s)
{
    *end_of(h, s->queue, ++h->completed[s->queue]) = s->end;
    tally_seconds(h->tally, s->kind, s->axis, s->origin.phase, s->end - s->begin);
    if (h->spans) h->spans[h->span_count++ % h->span_capacity] = *s;
    watch_event e = op_event(s->kind, &s->origin);
    e.number = (int64_t)s->number;
    watch_text(e.axis, sizeof e.axis, s->axis);
    e.since = s->end;
    watch_completed(&e);
}

bool history_keeps(const history *h, int queue, uint64_t serial) { return h->completed[queue] < serial + h->kept; }

double history_end(const history *h, int queue, uint64_t serial)
{
    if (!history_keeps(h, queue, serial))
        FAIL("operation %llu of queue %d completed too long ago to say when", (unsigned long long)serial, queue);
    return *end_of(h, queue, serial);
}
