/* From a case to a trainer on a machine: measured on paper first, then laid out in one block. */
#include "base/fail.h"
#include "train/trainer.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MEASURED_STEPS = 2 };        /* the second step waits for the weights that the first one gathered */

/* What measuring a case tells: bytes by kind, scratch included, and the struck transfer. */
typedef struct { arena arena; size_t scratch[3]; strike strike; int64_t parameters, operations; } measure;

static size_t padded(size_t bytes) { return (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT; }

static void lane_queues(const lanes *l, queue *out[3])
{
    out[0] = l->compute;
    out[1] = l->tensor;
    out[2] = l->gradient;
}

/* Transfers are numbered from the groups' first one again. */
static void restart_groups(mesh *m)
{
    group *g[] = { &m->gradient, &m->model, &m->all };
    for (int i = 0; i < AXES; i++) m->axis[i].sequence = m->axis[i].step_sequence = 0;
    for (int i = 0; i < 3; i++) g[i]->sequence = g[i]->step_sequence = 0;
}

static measure measured(const bench_case *c, mesh *m, const trainer_options *o)
{
    measure r = { .strike = o->strike };
    machine_options options = o->machine;
    trainer t;
    queue *q[3];
    options.measuring = true;
    restart_groups(m);
    arena_open(&r.arena, NULL, 0);
    machine *paper = machine_open(&options);
    machine_strike(paper, &o->strike);
    trainer_open(&t, c, m, paper, &r.arena);
    trainer_initialize(&t);
    for (int i = 0; i < MEASURED_STEPS; i++) trainer_step(&t);
    machine_strike_found(paper, &r.strike);
    lane_queues(&t.lanes, q);
    for (int i = 0; i < 3; i++) {
        r.scratch[i] = padded(queue_scratch_bytes(q[i]));
        arena_take(&r.arena, SCRATCH, r.scratch[i]);
    }
    r.operations = (int64_t)queue_mark(t.lanes.compute).serial;
    r.parameters = param_count_local(&t.stage.params);
    trainer_close(&t);
    machine_close(paper);
    restart_groups(m);
    return r;
}

strike trainer_find_strike(const bench_case *c, mesh *m, const trainer_options *o)
{
    return measured(c, m, o).strike;
}

static void lay_out(trainer *t, const bench_case *c, mesh *m, const trainer_options *o, const measure *r)
{
    arena a;
    queue *q[3];
    void *memory = aligned_alloc(ARENA_ALIGNMENT, r->arena.used);
    if (!memory) FAIL("%zu bytes asked for the case's arena: %s", r->arena.used, strerror(ENOMEM));
    memset(memory, o->machine.prove_access ? 0xFF : 0, r->arena.used);
    arena_open(&a, memory, r->arena.used);
    machine_options options = o->machine;
    options.mark_history = r->operations;       /* of two steps */
    machine *on = machine_open(&options);
    machine_strike(on, &o->strike);
    trainer_open(t, c, m, on, &a);
    lane_queues(&t->lanes, q);
    for (int i = 0; i < 3; i++) queue_set_scratch(q[i], arena_take(&a, SCRATCH, r->scratch[i]), r->scratch[i]);
    arena_seal(&a);
    t->arena = a;
    t->memory = memory;
    t->parameters = r->parameters;
}

void trainer_build(trainer *t, const bench_case *c, mesh *m, const trainer_options *o)
{
    measure r = measured(c, m, o);
    if (!o->measure_only) {
        lay_out(t, c, m, o, &r);
        return;
    }
    *t = (trainer){ .given = c, .mesh = m, .arena = r.arena, .parameters = r.parameters };
}

void trainer_dismantle(trainer *t)
{
    if (!t->machine) return;
    machine_sync(t->machine);
    trainer_close(t);
    machine_close(t->machine);
    free(t->memory);
}
