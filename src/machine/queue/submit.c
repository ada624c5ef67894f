/* The dispatcher: every operation passes here once, on its way to a backend, and is counted, checked for hazards,
 * compared or proven if that is asked for and, if the deck planted a fault, struck. */
#include "base/clock.h"
#include "machine/queue/machine_state.h"
#include "machine/watch/watch.h"

/* Whatever the queue runs next comes after m anyway. */
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

/* Waits that order something are counted and become the next operation's. Returns whether one was left out. */
static bool collect_waits(queue *q, bool leave_out)
{
    machine *m = q->machine;
    bool left = false;
    for (int i = 0; i < q->pendings; i++) {
        mark w = q->pending[i].mark;
        if (already_ordered(q, w)) continue;
        bool dropped = m->waits++ == m->dropped_wait;
        if (dropped || leave_out) {
            left = true;
            continue;
        }
        hazard_follow(m->hazard, q->index, &q->pending[i].past);
        q->wait[q->waits++] = (dependency){ w.queue->index, w.serial };
    }
    q->pendings = 0;
    return left;
}

void submit_number(op *o)
{
    if (!op_is_transfer(o->kind)) return;
    struct group *g = o->args.fabric.group;
    o->args.fabric.sequence = g->sequence++;
    o->args.fabric.era = watch_era();
}

mark submit_run(queue *q, const op *o)
{
    machine *m = q->machine;
    q->serial++;
    tally_submit(&m->tally, o);
    hazard_submit(m->hazard, q->index, q->serial, o);
    submission s = { q->index, q->serial, o, q->wait, q->waits, q->scratch, q->scratch_bytes, q->yields };
    m->backend->submit(m->state, &s);
    q->waits = 0;
    return queue_mark(q);
}

static void read_tensor(void *from, void *to, tensor t) { machine_read(from, to, t); }

/* Runs the operation, struck or not. In shadow an empty operation is submitted and waited for first: then what the
 * operation reads is final and can be copied. A planted fault lies within what is compared. */
static bool run_observed(queue *q, op *o, fault_kind kind)
{
    machine *m = q->machine;
    if (!m->shadow && !m->delivery) return fault_submit(q, o, kind);
    const op asked = *o, nothing = { .kind = OP_FILL, .origin = o->origin };
    bool shadowed = m->shadow && shadow_wants(m->shadow, o);
    if (shadowed) {
        mark_sync(submit_run(q, &nothing));
        shadow_before(m->shadow, &asked, read_tensor, m);
    }
    if (m->delivery) delivery_before(m->delivery, q, &asked);
    bool struck = fault_submit(q, o, kind);
    if (m->delivery) delivery_after(m->delivery, q, &asked);
    if (!shadowed) return struck;
    mark_sync(queue_mark(q));
    shadow_after(m->shadow, &asked, read_tensor, m);
    return struck;
}

mark op_submit(queue *q, const op *given)
{
    machine *m = q->machine;
    double begin = clock_seconds(), ran = m->tally.run_seconds;
    op o = *given;
    if (op_is_transfer(o.kind)) fault_know_group(m, o.args.fabric.group);
    m->tally.sum_bytes += delivery_sum_bytes(&o);
    fault_kind kind = fault_now(m, &o);
    submit_number(&o);
    bool unwaited = collect_waits(q, kind == FAULT_UNWAIT);
    if (unwaited) m->unwaited = o;
    bool struck = run_observed(q, &o, kind);
    if (struck || (kind == FAULT_UNWAIT && unwaited)) m->faults++, m->struck = o;
    m->tally.dispatch_seconds += clock_seconds() - begin - (m->tally.run_seconds - ran);
    return queue_mark(q);
}

void machine_drop_wait(machine *m, int64_t index) { m->dropped_wait = index; }
int64_t machine_waits(const machine *m) { return m->waits; }
const op *machine_unwaited(const machine *m) { return &m->unwaited; }
