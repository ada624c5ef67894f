/* Machines and their queues: opened, waited for, read, closed. What is submitted to them goes through submit.c. */
#include "base/fail.h"
#include "machine/machine_state.h"
#include <stdio.h>
#include <stdlib.h>

static const backend *backend_of(machine_kind kind) { return kind == MACHINE_CUDA ? cuda_backend() : host_backend(); }

bool machine_usable(machine_kind kind, char *why, size_t length) { return backend_of(kind)->usable(why, length); }
machine_device machine_device_of(machine_kind kind) { return backend_of(kind)->device(); }
void *machine_memory_take(machine_kind kind, size_t bytes) { return backend_of(kind)->take(bytes); }
void machine_memory_give_back(machine_kind kind, void *memory) { backend_of(kind)->give_back(memory); }
void machine_memory_clear(machine_kind kind, void *memory, int byte, size_t bytes)
{
    backend_of(kind)->clear(memory, byte, bytes);
}
int machine_threads(machine_kind kind) { return backend_of(kind)->threads(); }
const char *machine_library(machine_kind kind, char *text, size_t length)
{
    return backend_of(kind)->library(text, length);
}
bool machine_built(machine_kind kind) { return backend_of(kind)->submit != NULL; }
const char *machine_engines(machine_kind kind, char *text, size_t length)
{
    return backend_of(kind)->engines(text, length);
}

/* Of the process, as its devices are. */
static bool devices_are_shared;

void machine_share_devices(bool yes) { devices_are_shared = yes; }
bool machine_shares_devices(void) { return devices_are_shared; }

void group_connect(machine_kind kind, group *g, const char *name, int color, int key)
{
    backend_of(kind)->connect(g, name, color, key);
}

void group_disconnect(machine_kind kind, const char *name) { backend_of(kind)->disconnect(name); }

machine *machine_open(const machine_options *options)
{
    machine *m = calloc(1, sizeof *m);
    if (!m) FAIL("no memory for a machine");
    m->options = *options;
    m->backend = backend_of(options->kind);
    m->state = m->backend->open(&m->options, &m->tally);
    m->hazard = hazard_open();
    m->now = (origin){ .step = -1, .microbatch = -1, .chunk = -1, .layer = -1, .phase = PHASE_SETUP };
    m->dropped_wait = -1;
    machine_shadow(m, options->shadow);
    return m;
}

void machine_close(machine *m)
{
    m->backend->close(m->state);
    if (m->shadow) shadow_close(m->shadow);
    hazard_close(m->hazard);
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
    if (!owner->options.measuring) owner->backend->sync(owner->state, m.queue->index, m.serial);
}

void machine_sync(machine *m)
{
    for (int i = 0; i < m->queues; i++) mark_sync(queue_mark(&m->queue[i]));
    hazard_join(m->hazard);
}

double mark_time(mark m)
{
    machine *owner = m.queue ? m.queue->machine : NULL;
    return !owner || owner->options.measuring ? 0.0 : owner->backend->completed(owner->state, m.queue->index, m.serial);
}

double mark_seconds(mark from, mark to) { return mark_time(to) - mark_time(from); }

void machine_origin(machine *m, origin where) { m->now = where; }
origin *machine_origin_now(machine *m) { return &m->now; }

void machine_step(machine *m, int64_t step)
{
    m->now.step = step;
    if (m->shadow) shadow_step(m->shadow, step);
    m->waits = 0;
    fault_step(m);
}

void machine_tune(machine *m, void *memory, size_t bytes)
{
    if (!m->options.measuring) m->backend->tune(m->state, memory, bytes);
}

void machine_upload(machine *m, tensor to, const void *from)
{
    machine_sync(m);
    if (!m->options.measuring) m->backend->upload(m->state, to.data, from, tensor_span(&to));
}

void machine_read(machine *m, void *to, tensor from)
{
    if (!m->options.measuring) m->backend->download(m->state, to, from.data, tensor_span(&from));
}

void machine_download(machine *m, void *to, tensor from)
{
    machine_sync(m);
    machine_read(m, to, from);
}

tensor machine_view(machine *m, tensor t)
{
    if (m->backend->addressable || tensor_span(&t) == 0) return t;
    tensor view = t;
    view.data = malloc(tensor_span(&t));
    if (!view.data) FAIL("no memory for a copy of %zu bytes", tensor_span(&t));
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

size_t queue_scratch_bytes(const queue *q) { return q->scratch; }

void queue_set_scratch(queue *q, void *memory, size_t bytes)
{
    if (!q->machine->options.measuring) q->machine->backend->scratch(q->machine->state, q->index, memory, bytes);
}

/* Files of mismatches are named by what runs and by rank. */
static shadow *shadow_of(const machine_options *o)
{
    char files[64] = "";
    op_home home = { .cuda = o->kind == MACHINE_CUDA,
                     .deterministic = o->deterministic,
                     .own_attention = o->own_attention,
                     .transfer_multiprocessors = o->transfer_multiprocessors };
    if (o->world_rank >= 0)
        snprintf(files, sizeof files, "%.40s%s%d", o->shadow_files, o->shadow_files[0] ? "-" : "", o->world_rank);
    return shadow_open(home, files);
}

void machine_shadow(machine *m, shadow_mode mode)
{
    if (m->options.measuring || (mode == SHADOW_OFF && !m->shadow)) return;
    if (!m->shadow) m->shadow = shadow_of(&m->options);
    shadow_set(m->shadow, mode);
}

const shadow_report *machine_shadowed(const machine *m) { return m->shadow ? shadow_read(m->shadow) : NULL; }
const hazard_report *machine_hazards(const machine *m) { return hazard_read(m->hazard); }
tally *machine_tally(machine *m) { return &m->tally; }

const span *machine_spans(const machine *m, int64_t *count)
{
    *count = 0;
    return m->options.measuring ? NULL : m->backend->spans(m->state, count);
}
