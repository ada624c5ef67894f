/* A trainer laid out, and what it reports. */
#include "train/trainer.h"

void trainer_open(trainer *t, const bench_case *c, mesh *m, machine *on, arena *a)
{
    *t = (trainer){ .given = c, .mesh = m, .machine = on, .queues = queues_open(on, c->overlap) };
    t->schedule = schedule_make(c, m->at[AXIS_PIPELINE]);
    stage_open(&t->stage, c, m, &t->queues, &t->schedule, a);
    t->squares = tensor_taken(a, BATCH, tensor_1d(NULL, U64, EXACT_SUM_WORDS));
    t->loss = tensor_taken(a, BATCH, tensor_1d(NULL, F64, 1));
    t->report = tensor_taken(a, BATCH, tensor_2d(NULL, F64, REPORT_SLOTS, STEP_SCALARS));
}

void trainer_close(trainer *t)
{
    stage_close(&t->stage);
    schedule_free(&t->schedule);
}

step_report trainer_report(const trainer *t, int64_t step)
{
    step_report r;
    machine_read(t->machine, r.scalar,
                 tensor_slice(tensor_flat(t->report), 0, step % REPORT_SLOTS * STEP_SCALARS, STEP_SCALARS));
    return r;
}
