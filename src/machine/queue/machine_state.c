/* Machines and their queues: opening, waiting, reading, closing. submit.c submits operations to them. */
#include "machine/queue/machine_state.h"
#include "base/fail.h"
#include "base/memory.h"
#include "machine/ranges/ranges.h"

machine *machine_open(const machine_options *options)
{
    machine *m = allocate(1, sizeof *m, "a machine");
    m->options = *options;
    m->backend = options->on_paper ? paper_backend() : backend_of(options->kind);
    history_open(&m->history, options, &m->tally);
    m->state = m->backend->open(&m->options, &m->history);
    m->hazard = hazard_open();
    m->now = (origin){ .step = -1, .microbatch = -1, .chunk = -1, .layer = -1, .phase = PHASE_SETUP };
    return m;
}

void machine_close(machine *m)
{
    m->backend->close(m->state);
    if (m->prover) m->prover->close(m->proving);
    hazard_close(m->hazard);
    history_close(&m->history);
    free(m);
}

queue *machine_queue(machine *m, const char *name)
{
    if (m->queues == HAZARD_QUEUES) FAIL("queue %s: a machine has %d queues", name, HAZARD_QUEUES);
    queue *q = &m->queue[m->queues];
    *q = (queue){ .machine = m, .index = m->queues++, .name = name };
    return q;
}

int machine_queues(const machine *m) { return m->queues; }
queue *machine_queue_at(machine *m, int i) { return &m->queue[i]; }

machine *queue_machine(const queue *q) { return q->machine; }
mark queue_mark(const queue *q) { return (mark){ q->serial ? (queue *)q : NULL, q->serial }; }

void mark_sync(mark m)
{
    if (!m.queue) return;
    machine *owner = m.queue->machine;
    ranges_leave();
    owner->backend->sync(owner->state, m.queue->index, m.serial);
}

void machine_sync(machine *m)
{
    for (int i = 0; i < m->queues; i++) mark_sync(queue_mark(&m->queue[i]));
    hazard_join(m->hazard);
}

double mark_time(mark m) { return m.queue ? history_end(&m.queue->machine->history, m.queue->index, m.serial) : 0.0; }

origin machine_origin_now(const machine *m) { return m->now; }

origin machine_origin(machine *m, origin where)
{
    origin before = m->now;
    m->now = where;
    return before;
}

void machine_step(machine *m, int64_t step)
{
    m->now.step = step;
    m->waits = 0;
    if (m->prover) m->prover->step(m->proving, step);
}

void machine_profile(machine *m, bool on)
{
    machine_sync(m);
    ranges_capture(on);
    if (m->backend->profile) m->backend->profile(on);
}

preparation machine_prepared(machine *m) { return m->backend->prepared(m->state); }

void machine_tune(machine *m, const preparation *p, void *memory, size_t bytes)
{
    if (m->backend->tune) m->backend->tune(m->state, p, memory, bytes);
}

void machine_upload(machine *m, tensor to, const void *from)
{
    machine_sync(m);
    m->backend->upload(m->state, to.data, from, tensor_span(&to));
}

void machine_read(machine *m, void *to, tensor from)
{
    m->backend->download(m->state, to, from.data, tensor_span(&from));
}

tensor machine_view(machine *m, tensor t)
{
    if (m->backend->addressable || tensor_span(&t) == 0) return t;
    tensor view = t;
    view.data = allocate(1, tensor_span(&t), "a copy of a tensor");
    machine_read(m, view.data, t);
    return view;
}

void machine_view_store(machine *m, tensor t, const tensor *view)
{
    if (view->data != t.data) machine_upload(m, t, view->data);
}

void machine_view_end(machine *m, tensor *view)
{
    if (!m->backend->addressable && tensor_span(view)) free(view->data);
    view->data = NULL;
}

void queue_yield(queue *q) { q->yields = true; }

void queue_set_scratch(queue *q, void *memory, size_t bytes)
{
    q->scratch = memory;
    q->scratch_bytes = bytes;
}

int64_t machine_waits(const machine *m) { return m->waits; }
const hazard_report *machine_hazards(const machine *m) { return hazard_read(m->hazard); }
void machine_add_hazards(machine *m, const hazard_report *found) { hazard_report_add(hazard_read(m->hazard), found); }
bool machine_on_paper(const machine *m) { return m->options.on_paper; }

tally *machine_tally(machine *m) { return &m->tally; }

const span *machine_spans(const machine *m, int64_t *count)
{
    const history *h = &m->history;
    *count = h->span_count < h->span_capacity ? h->span_count : h->span_capacity;
    return h->spans;
}

void machine_keep_steps(machine *m, int64_t steps) { history_keep_steps(&m->history, steps); }
const tally_step *machine_steps(const machine *m) { return m->history.step; }
