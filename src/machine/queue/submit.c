/* Submission: numbers, counts and checks every operation, then gives it to the backend. */
#include "base/clock.h"
#include "machine/op/activity.h"
#include "machine/queue/machine_state.h"
#include "machine/ranges/ranges.h"

/* Returns whether the queue's next operation already follows m. */
static bool already_ordered(const queue *q, mark m)
{
    return !m.queue || m.queue == q || hazard_ordered(q->machine->hazard, q->index, m.queue->index, m.serial);
}

static void await(queue *q, const awaited *w)
{
    int i = 0;
    if (already_ordered(q, w->mark)) return;
    while (i < q->pendings && q->pending[i].mark.queue != w->mark.queue) i++;
    if (i == q->pendings) q->pending[q->pendings++] = *w;
    else if (q->pending[i].mark.serial < w->mark.serial) q->pending[i] = *w;
}

void queue_wait(queue *q, mark m)
{
    if (already_ordered(q, m)) return;
    awaited w = { m, hazard_past(q->machine->hazard, m.queue->index, m.serial) };
    await(q, &w);
}

void queue_follow(queue *q, const queue *other)
{
    queue_wait(q, queue_mark(other));
    for (int i = 0; i < other->pendings; i++) await(q, &other->pending[i]);
}

/* Gives the operation its pending waits, except redundant ones, and counts them. The prover may leave one out. */
static void collect_waits(queue *q, const op *o)
{
    machine *m = q->machine;
    for (int i = 0; i < q->pendings; i++) {
        mark w = q->pending[i].mark;
        if (already_ordered(q, w)) continue;
        int64_t number = m->waits++;
        if (m->prover && m->prover->leaves_out(m->proving, o, number)) continue;
        hazard_follow(m->hazard, q->index, &q->pending[i].past);
        q->wait[q->waits++] = (dependency){ w.queue->index, w.serial };
    }
    q->pendings = 0;
}

void submit_number(op *o)
{
    if (!op_is_transfer(o->kind)) return;
    struct group *g = o->args.fabric.group;
    o->args.fabric.sequence = g->sequence++;
    o->args.fabric.era = activity_era();
}

mark submit_run(queue *q, const op *o)
{
    machine *m = q->machine;
    q->serial++;
    tally_submit(&m->tally, o);
    hazard_submit(m->hazard, q->index, q->serial, o);
    submission s = { q->index, q->serial, o, q->wait, q->waits, q->scratch, q->scratch_bytes, q->yields };
    ranges_open(o, m->options.on_paper);
    m->backend->submit(m->state, &s);
    if (!m->options.on_paper) ranges_close();
    q->waits = 0;
    return queue_mark(q);
}

mark op_submit(queue *q, const op *given)
{
    machine *m = q->machine;
    double begin = clock_seconds(), ran = m->tally.run_seconds;
    op o = *given;
    m->tally.sum_bytes += tally_sum_bytes(&o);
    submit_number(&o);
    collect_waits(q, &o);
    if (m->prover) m->prover->run(m->proving, q, &o);
    else submit_run(q, &o);
    m->tally.dispatch_seconds += clock_seconds() - begin - (m->tally.run_seconds - ran);
    return queue_mark(q);
}
