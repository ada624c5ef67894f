/* A trainer in one block of memory. */
#include "train/build.h"

void trainer_build(trainer *t, const bench_case *c, mesh *m, const trainer_options *o, const measure *r)
{
    machine_options options = o->machine;
    arena a;
    size_t bytes = r->arena.used;
    void *memory = machine_memory_take(options.kind, bytes);
    arena_open(&a, memory, bytes);
    options.mark_history = r->history;
    machine *on = machine_open(&options);
    machine_tune(on, &r->prepared, memory, bytes);
    machine_memory_clear(options.kind, memory, o->machine.prove_access ? 0xFF : 0, bytes);
    machine_plant(on, &o->fault);
    mesh_restart(m);
    trainer_open(t, c, m, on, &a);
    for (int i = 0; i < machine_queues(on); i++) {
        size_t scratch = r->prepared.scratch[i];
        queue_set_scratch(machine_queue_at(on, i), arena_take(&a, SCRATCH, scratch), scratch);
    }
    arena_seal(&a);
    t->arena = a;
    t->memory = memory;
    t->kind = options.kind;
    t->parameters = r->parameters;
}

void trainer_dismantle(trainer *t)
{
    if (!t->machine) return;
    machine_sync(t->machine);
    machine_kind kind = t->kind;
    trainer_close(t);
    machine_close(t->machine);
    machine_memory_give_back(kind, t->memory);
}
