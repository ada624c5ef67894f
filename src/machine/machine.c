/* The dispatcher: every operation passes here once, on its way to a backend, and is counted, checked for hazards
 * and, if the deck planted a fault, struck. */
#include "machine/machine.h"
#include "base/clock.h"
#include "base/fail.h"
#include "machine/backend.h"
#include "machine/fabric.h"
#include "machine/op_judge.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MACHINE_GROUPS = 32 };

/* Known when the queue is told to wait: until its next operation the checker may forget it. */
typedef struct { mark mark; vector_clock past; } awaited;

struct queue {
    machine *machine;
    int index;
    const char *name;
    uint64_t serial;                        /* of the last op submitted; the first is 1 */
    size_t scratch;
    awaited pending[HAZARD_QUEUES]; int pendings;       /* one a queue at most: its latest */
};

struct machine {
    machine_options options;
    const backend *backend;
    void *state;
    queue queue[HAZARD_QUEUES]; int queues;
    hazard *hazard;
    tally tally;
    origin now;
    int64_t executed[OP_KINDS];             /* of this step */
    struct group *group[MACHINE_GROUPS]; int groups;
    strike strike; int64_t strikes; bool strike_found;
    int64_t waits, dropped_wait;
    op unwaited;
    shadow *shadow;
};

static const backend *backend_of(machine_kind kind) { return kind == MACHINE_CUDA ? cuda_backend() : host_backend(); }

bool machine_usable(machine_kind kind, char *why, size_t length) { return backend_of(kind)->usable(why, length); }
machine_device machine_device_of(machine_kind kind) { return backend_of(kind)->device(); }
void *machine_memory_take(machine_kind kind, size_t bytes) { return backend_of(kind)->take(bytes); }
void machine_memory_give_back(machine_kind kind, void *memory) { backend_of(kind)->give_back(memory); }
void machine_memory_clear(machine_kind kind, void *memory, int byte, size_t bytes) { backend_of(kind)->clear(memory, byte, bytes); }
int machine_threads(machine_kind kind) { return backend_of(kind)->threads(); }
const char *machine_library(machine_kind kind, char *text, size_t length) { return backend_of(kind)->library(text, length); }
bool machine_built(machine_kind kind) { return backend_of(kind)->submit != NULL; }
const char *machine_engines(machine_kind kind, char *text, size_t length) { return backend_of(kind)->engines(text, length); }

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

static bool precedes(const queue *q, mark m)
{
    return !m.queue || m.queue == q || hazard_ordered(q->machine->hazard, q->index, m.queue->index, m.serial);
}

static void await(queue *q, const awaited *w)
{
    int i = 0;
    if (precedes(q, w->mark)) return;
    while (i < q->pendings && q->pending[i].mark.queue != w->mark.queue) i++;
    if (i == q->pendings) q->pending[q->pendings++] = *w;
    else if (q->pending[i].mark.serial < w->mark.serial) q->pending[i] = *w;
}

void queue_wait(queue *q, mark m)
{
    if (precedes(q, m)) return;
    awaited w = { m, hazard_past(q->machine->hazard, m.queue->index, m.serial) };
    await(q, &w);
}

void queue_follow(queue *q, const queue *other)
{
    queue_wait(q, queue_mark(other));
    for (int i = 0; i < other->pendings; i++) await(q, &other->pending[i]);
}

/* Only waits that order something are passed on and counted. Returns whether one was left out. */
static bool flush_waits(queue *q, bool leave_out)
{
    machine *m = q->machine;
    bool left = false;
    for (int i = 0; i < q->pendings; i++) {
        mark w = q->pending[i].mark;
        if (precedes(q, w)) continue;
        if (m->waits++ == m->dropped_wait || leave_out) {
            left = true;
            continue;
        }
        hazard_follow(m->hazard, q->index, &q->pending[i].past);
        if (!m->options.measuring) m->backend->wait(m->state, q->index, w.queue->index, w.serial);
    }
    q->pendings = 0;
    return left;
}

/* The group's transfers are numbered on every rank alike, struck ones included. */
static void number_transfer(op *o)
{
    if (!op_is_transfer(o->kind)) return;
    struct group *g = o->args.fabric.group;
    o->args.fabric.sequence = g->sequence++;
}

static mark run_alone(queue *q, const op *o)
{
    machine *m = q->machine;
    q->serial++;
    tally_submit(&m->tally, o);
    hazard_submit(m->hazard, q->index, q->serial, o);
    if (m->options.measuring) {
        size_t bytes = m->backend->prepare(m->state, o);
        if (bytes > q->scratch) q->scratch = bytes;
    } else {
        m->backend->submit(m->state, q->index, q->serial, o);
    }
    return queue_mark(q);
}

static void read_tensor(void *from, void *to, tensor t) { machine_read(from, to, t); }

/* What it waits for is complete when an operation of nothing before it is. */
static mark run_shadowed(queue *q, const op *o)
{
    op nothing = { .kind = OP_FILL, .origin = o->origin };
    mark_sync(run_alone(q, &nothing));
    shadow_before(q->machine->shadow, o, read_tensor, q->machine);
    mark m = run_alone(q, o);
    mark_sync(m);
    shadow_after(q->machine->shadow, o, read_tensor, q->machine);
    return m;
}

static mark run(queue *q, const op *o)
{
    shadow *s = q->machine->shadow;
    return s && shadow_wants(s, o) ? run_shadowed(q, o) : run_alone(q, o);
}

/* drop, stale and repeat of a transfer strike its whole group, so that the result is wrong, not stuck. */
static bool strikes_group(const machine *m, const op *o)
{
    const strike *s = &m->strike;
    const struct group *g = o->args.fabric.group;
    return s->transfer_known && s->kind <= STRIKE_REPEAT && strcmp(g->axis, s->transfer_axis) == 0 &&
           (int)g->channel == s->transfer_channel && g->first == s->transfer_first &&
           g->sequence - g->step_sequence == s->transfer_sequence;
}

/* A step counts the transfers of each group: from the first that this machine sees of it, or from machine_step. */
static void know_group(machine *m, struct group *g)
{
    for (int i = 0; i < m->groups; i++)
        if (m->group[i] == g) return;
    if (m->groups == MACHINE_GROUPS) FAIL("more than %d groups on one machine", MACHINE_GROUPS);
    g->step_sequence = g->sequence;
    m->group[m->groups++] = g;
}

static strike_kind strike_now(machine *m, const op *o)
{
    strike *s = &m->strike;
    if (s->kind == STRIKE_NONE || m->now.step < 0 || o->kind != s->operation) return STRIKE_NONE;
    bool own = ++m->executed[o->kind] == s->nth && m->options.world_rank == s->world_rank;
    if (op_is_transfer(o->kind) && s->kind <= STRIKE_REPEAT) {
        if (own && !s->transfer_known) {
            const struct group *g = o->args.fabric.group;
            strncpy(s->transfer_axis, g->axis, sizeof s->transfer_axis - 1);
            s->transfer_channel = (int)g->channel;
            s->transfer_first = g->first;
            s->transfer_sequence = g->sequence - g->step_sequence;
            s->transfer_known = m->strike_found = true;
        }
        own = strikes_group(m, o);
    }
    return own ? s->kind : STRIKE_NONE;
}

static bool is_float(dtype type) { return type == F32 || type == BF16 || type == F64; }

/* The same small operation on everything the op wrote (or on its first written operand only); returns on how many. */
static int strike_written(queue *q, const op *o, op_kind kind, bool with_updates, bool first_only)
{
    int struck = 0;
    op extra = { .kind = kind, .operands = 1, .origin = o->origin };
    for (int i = 0; i < o->operands && !(first_only && struck); i++) {
        const operand *x = &o->operand[i];
        if (!tensor_present(&x->tensor) || x->access == READ || (x->access == UPDATE && !with_updates)) continue;
        if (kind == OP_FLIP && !is_float(x->tensor.type)) continue;
        extra.operand[0] = (operand){ x->tensor, kind == OP_FILL ? WRITE : UPDATE };
        if (kind == OP_SCALE) extra.args.scale.factor = 2.0;
        if (kind == OP_FLIP) extra.args.flip.index = tensor_elements(&x->tensor) / 2;
        run(q, &extra);
        struck++;
    }
    return struck;
}

/* A fill of nothing holds the place of an op that is not executed, so that who waits for it still follows what it followed. */
static void strike_out(queue *q, const op *o)
{
    op nothing = { .kind = OP_FILL, .origin = o->origin };
    run(q, &nothing);
}

static bool strike_submit(queue *q, op *o, strike_kind kind)
{
    switch (kind) {
    case STRIKE_DROP: strike_out(q, o); strike_written(q, o, OP_FILL, false, false); return true;
    case STRIKE_STALE: strike_out(q, o); return true;
    case STRIKE_REPEAT: run(q, o); number_transfer(o); run(q, o); return true;
    case STRIKE_SCALE: run(q, o); return strike_written(q, o, OP_SCALE, true, false) > 0;
    case STRIKE_FLIP: run(q, o); return strike_written(q, o, OP_FLIP, true, true) > 0;
    case STRIKE_NONE: case STRIKE_UNWAIT: break;
    }
    run(q, o);
    return false;
}

mark op_submit(queue *q, const op *given)
{
    machine *m = q->machine;
    double begin = clock_seconds(), ran = m->tally.run_seconds;
    op o = *given;
    if (op_is_judged(given)) return (mark){ NULL, 0 };
    if (op_is_transfer(o.kind)) know_group(m, o.args.fabric.group);
    strike_kind kind = strike_now(m, &o);
    number_transfer(&o);
    bool unwaited = flush_waits(q, kind == STRIKE_UNWAIT);
    if (unwaited) m->unwaited = o;
    bool struck = strike_submit(q, &o, kind);
    m->strikes += struck || (kind == STRIKE_UNWAIT && unwaited);
    m->tally.dispatch_seconds += clock_seconds() - begin - (m->tally.run_seconds - ran);
    return queue_mark(q);
}

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
    memset(m->executed, 0, sizeof m->executed);
    for (int i = 0; i < m->groups; i++) m->group[i]->step_sequence = m->group[i]->sequence;
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

tensor machine_peek(machine *m, tensor t)
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

void machine_strike(machine *m, const strike *s) { m->strike = *s; }
int64_t machine_strikes(const machine *m) { return m->strikes; }

bool machine_strike_found(const machine *m, strike *s)
{
    if (m->strike_found) *s = m->strike;
    return m->strike_found;
}

void machine_drop_wait(machine *m, int64_t index) { m->dropped_wait = index; }
int64_t machine_waits(const machine *m) { return m->waits; }
const op *machine_unwaited(const machine *m) { return &m->unwaited; }

/* Files of mismatches are named by what runs and by rank. */
static shadow *shadow_of(const machine_options *o)
{
    char files[64] = "";
    op_home home = { .cuda = o->kind == MACHINE_CUDA, .deterministic = o->deterministic, .own_attention = o->own_attention,
                     .transfer_multiprocessors = o->transfer_multiprocessors };
    if (o->world_rank >= 0) snprintf(files, sizeof files, "%.40s%s%d", o->shadow_files, o->shadow_files[0] ? "-" : "", o->world_rank);
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
