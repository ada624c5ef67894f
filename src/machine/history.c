/* The history of a machine's queues. */
#include "machine/history.h"
#include "base/fail.h"
#include "machine/world.h"
#include <stdlib.h>

void history_open(history *h, const machine_options *options, tally *t)
{
    *h = (history){ .tally = t, .kept = MARK_HISTORY, .span_capacity = options->span_capacity };
    if (options->mark_history > MARK_HISTORY) h->kept = (uint64_t)options->mark_history;
    if (h->span_capacity) h->spans = calloc((size_t)h->span_capacity, sizeof *h->spans);
    if (h->span_capacity && !h->spans) FAIL("no memory for %lld spans", (long long)h->span_capacity);
}

void history_close(history *h)
{
    for (int i = 0; i < HAZARD_QUEUES; i++) free(h->end[i]);
    free(h->spans);
}

static double *ends_of(history *h, int queue)
{
    if (!h->end[queue]) h->end[queue] = calloc(h->kept, sizeof(double));
    if (!h->end[queue]) FAIL("no memory for the times of %llu operations", (unsigned long long)h->kept);
    return h->end[queue];
}

void history_complete(history *h, const span *s)
{
    uint64_t serial = ++h->completed[s->queue];
    ends_of(h, s->queue)[serial % h->kept] = s->end;
    tally_seconds(h->tally, s->kind, s->origin.phase, s->end - s->begin);
    if (h->spans) h->spans[h->span_count++ % h->span_capacity] = *s;
    world_progress();
}

bool history_keeps(const history *h, int queue, uint64_t serial) { return h->completed[queue] < serial + h->kept; }

double history_end(const history *h, int queue, uint64_t serial)
{
    if (!history_keeps(h, queue, serial))
        FAIL("operation %llu of queue %d completed too long ago to say when", (unsigned long long)serial, queue);
    return h->end[queue] ? h->end[queue][serial % h->kept] : 0.0;
}

const span *history_spans(const history *h, int64_t *count)
{
    *count = h->span_count < h->span_capacity ? h->span_count : h->span_capacity;
    return h->spans;
}
