/* Set-up of a trainer, submission of a training step, and its report. */
#include "train/trainer.h"
#include "parallel/origin.h"

void trainer_open(trainer *t, const bench_case *c, mesh *m, machine *target, arena *a)
{
    *t = (trainer){
        .given = c, .mesh = m, .machine = target, .queues = queues_open(target, c->overlap, c->weight_gradient_queue)
    };
    t->rate = (rate_extent){ c->optimizer.learning_rate_warmup, c->warmup + c->steps };
    t->schedule = schedule_make(c, m->at[AXIS_PIPELINE]);
    stage_open(&t->stage, c, m, &t->queues, &t->schedule, a);
    t->squares = tensor_taken(a, BATCH, tensor_1d(NULL, U64, EXACT_SUM_WORDS));
    t->loss = tensor_taken(a, BATCH, tensor_1d(NULL, F64, 1));
    t->report = tensor_taken(a, BATCH, tensor_2d(NULL, F64, REPORT_SLOTS, STEP_SCALARS));
    conservation_open(t, a);
    experts_open(t, a);
    scales_open(t, a);
}

void trainer_close(trainer *t)
{
    experts_close(t);
    scales_close(t);
    stage_close(&t->stage);
    schedule_free(&t->schedule);
}

void trainer_initialize(trainer *t)
{
    double scalars[STEP_SCALARS] = { [SCALAR_STEP] = -1.0 };
    t->stage.params.done = gradient_reduce;
    t->stage.params.listener = t;
    submit(t->queues.compute, "loss", fill_op(t->stage.loss, 0.0));
    machine_upload(t->machine, t->stage.scalars, scalars);
    scales_initialize(t);
    optimizer_initialize(t);
    machine_sync(t->machine);
}

void trainer_restore(trainer *t, int64_t done, rate_extent rate, const int32_t *past)
{
    double scalars[STEP_SCALARS] = { [SCALAR_STEP] = (double)(done - 1) };
    machine_upload(t->machine, t->stage.scalars, scalars);
    t->rate = rate;
    scales_restore(t, past);
    optimizer_restore(t);
    machine_sync(t->machine);
}

static void begin_step(trainer *t)
{
    const optimizer_rule *o = &t->given->optimizer;
    step_begin_args args = { .maximum = o->learning_rate,
                             .minimum = o->learning_rate_minimum,
                             .warmup = t->rate.warmup,
                             .total = t->rate.total,
                             .constant = o->learning_rate_constant,
                             .from_zero = o->learning_rate_from_zero,
                             .beta1 = (float)o->beta1,
                             .beta2 = (float)o->beta2 };
    origin_step(t->machine, t->steps, PHASE_BATCH);
    machine_step(t->machine, t->steps);
    submit(t->queues.compute, "step", step_begin_op(t->stage.scalars, &args));
    experts_begin(t);
}

void trainer_gradients(trainer *t)
{
    begin_step(t);
    stage_step(&t->stage);
    pipeline_submit(t);
    gradient_tie(t);
}

mark trainer_update(trainer *t)
{
    int64_t slot = t->steps % REPORT_SLOTS;
    origin_step(t->machine, t->steps, PHASE_OPTIMIZER);
    gradient_norm(t);
    submit(
        t->queues.compute, "report",
        copy_op(tensor_slice(tensor_flat(t->report), 0, slot * STEP_SCALARS, STEP_SCALARS), WRITE, t->stage.scalars));
    experts_report(t, slot);
    scales_update(t, slot);
    t->finished[slot] = optimizer_update(t);
    t->steps++;
    return t->finished[slot];
}

mark trainer_step(trainer *t)
{
    trainer_gradients(t);
    return trainer_update(t);
}

step_report trainer_report(const trainer *t, int64_t step)
{
    step_report r = { .routed = trainer_routed(t, step), .fp8 = trainer_fp8(t, step) };
    machine_read(t->machine, r.scalar,
                 tensor_slice(tensor_flat(t->report), 0, step % REPORT_SLOTS * STEP_SCALARS, STEP_SCALARS));
    return r;
}
