/* From a case to a trainer on a machine: measured on paper first, then laid out in one block. */
#include "train/measure.h"

fault trainer_find_fault(const bench_case *c, mesh *m, const trainer_options *o) { return measure_case(c, m, o).fault; }

void trainer_build(trainer *t, const bench_case *c, mesh *m, const trainer_options *o)
{
    measure r = measure_case(c, m, o);
    machine_options options = o->machine;
    arena a;
    void *memory = machine_memory_take(options.kind, r.arena.used);
    arena_open(&a, memory, r.arena.used);
    options.mark_history = r.history;
    machine *on = machine_open(&options);
    machine_tune(on, memory, r.arena.used);
    machine_memory_clear(options.kind, memory, o->machine.prove_access ? 0xFF : 0, r.arena.used);
    machine_plant(on, &o->fault);
    trainer_open(t, c, m, on, &a);
    for (int i = 0; i < machine_queues(on); i++)
        queue_set_scratch(machine_queue_at(on, i), arena_take(&a, SCRATCH, r.scratch[i]), r.scratch[i]);
    arena_seal(&a);
    t->arena = a;
    t->memory = memory;
    t->kind = options.kind;
    t->parameters = r.parameters;
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
