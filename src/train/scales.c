/* FP8 scales from step to step: the next step's scales are computed from the amaxes of all ranks in the last steps.
 * With current scaling, such scales are only reported. */
#include "base/fp8.h"
#include "base/memory.h"
#include "train/trainer.h"
#include <math.h>
#include <string.h>

static const fp8_state *fp8_of(const trainer *t) { return &t->stage.work.fp8; }

static bool is_delayed(const trainer *t) { return tensor_present(&fp8_of(t)->history); }

static int64_t tensors_of(const trainer *t) { return fp8_tensors(t->given); }

void scales_open(trainer *t, arena *a)
{
    int64_t n = tensors_of(t);
    if (fp8_of(t)->mode == FP8_OFF) return;
    t->scales_report = tensor_taken(a, BATCH, tensor_3d(NULL, F32, REPORT_SLOTS, n, FP8_FACTORS));
    t->counts_report = tensor_taken(a, BATCH, tensor_3d(NULL, U64, REPORT_SLOTS, n, FP8_COUNTS));
    t->first_amax = allocate(n, sizeof *t->first_amax, "amaxes");
    t->scale = allocate(n * FP8_FACTORS, sizeof *t->scale, "scales");
    t->count = allocate(n * FP8_COUNTS, sizeof *t->count, "counts of clipped numbers");
}

void scales_close(trainer *t)
{
    free(t->first_amax);
    free(t->scale);
    free(t->count);
}

/* Computes the scales from the amaxes of the step and, with delayed scaling, of earlier steps. */
static void compute_scales(trainer *t, tensor scales)
{
    const fp8_state *f = fp8_of(t);
    submit(t->queues.compute, "scales",
           fp8_scales_op((fp8_scales_operands){ t->stage.scalars, f->amax, f->history, scales },
                         (fp8_scales_args){ .exact = t->given->fp8_scale == FP8_EXACT }));
}

void scales_initialize(trainer *t)
{
    const fp8_state *f = fp8_of(t);
    if (f->mode == FP8_OFF) return;
    submit(t->queues.compute, "history", fill_op(is_delayed(t) ? f->history : f->current_amax, 0.0));
    submit(t->queues.compute, "counts", fill_op(f->counts, 0.0));
    machine_upload(t->machine, f->amax, t->first_amax);
    if (is_delayed(t)) compute_scales(t, f->scales);
}

void scales_restore(trainer *t, const int32_t *past)
{
    const fp8_state *f = fp8_of(t);
    int64_t n = tensors_of(t);
    double scalars[STEP_SCALARS];
    if (f->mode == FP8_OFF) return;
    submit(t->queues.compute, "counts", fill_op(f->counts, 0.0));
    memset(t->first_amax, 0, (size_t)n * sizeof *t->first_amax);
    if (is_delayed(t)) {
        machine_read(t->machine, scalars, t->stage.scalars);
        int64_t last = ((int64_t)scalars[SCALAR_STEP] + 1) % FP8_HISTORY;
        memcpy(t->first_amax, past + last * n, (size_t)n * sizeof *t->first_amax);
        machine_upload(t->machine, f->history, past);
    }
    machine_upload(t->machine, f->amax, t->first_amax);
    if (is_delayed(t)) compute_scales(t, f->scales);
}

void scales_reduce(trainer *t)
{
    queues_all_reduce(&t->queues, t->queues.gradient, "amax", &t->mesh->all, fp8_of(t)->amax);
}

static tensor slot_of(tensor report, int64_t slot) { return tensor_flat(tensor_slice(report, 0, slot, 1)); }

void scales_update(trainer *t, int64_t slot)
{
    const fp8_state *f = fp8_of(t);
    queue *q = t->queues.compute;
    if (f->mode == FP8_OFF) return;
    scales_reduce(t);
    queues_all_reduce(&t->queues, t->queues.gradient, "counts", &t->mesh->all, f->counts);
    if (is_delayed(t)) submit(q, "report", copy_op(slot_of(t->scales_report, slot), WRITE, tensor_flat(f->scales)));
    submit(q, "report", copy_op(slot_of(t->counts_report, slot), WRITE, tensor_flat(f->counts)));
    submit(q, "counts", fill_op(f->counts, 0.0));
    compute_scales(t, is_delayed(t) ? f->scales : slot_of(t->scales_report, slot));
}

const float *trainer_scales(const trainer *t)
{
    machine_read(t->machine, t->scale, fp8_of(t)->scales);
    return t->scale;
}

void trainer_set_scales(trainer *t, const float *all_factors)
{
    machine_upload(t->machine, fp8_of(t)->scales, all_factors);
    optimizer_round_fp8(t);
    machine_sync(t->machine);
}

/* Every FP8_KINDS-th tensor is of this kind. */
static void report_kind(const trainer *t, fp8_kind kind, fp8_report *r)
{
    double count[FP8_COUNTS] = { 0 };
    for (int64_t i = kind; i < tensors_of(t); i += FP8_KINDS) {
        double scale = (double)t->scale[i * FP8_FACTORS + FP8_SCALE];
        for (int k = 0; k < FP8_COUNTS; k++) count[k] += (double)t->count[i * FP8_COUNTS + k];
        if (i == kind || scale < r->scale_least[kind]) r->scale_least[kind] = scale;
        if (i == kind || scale > r->scale_most[kind]) r->scale_most[kind] = scale;
    }
    r->underflow[kind] = count[FP8_UNDERFLOWS] / fmax(1.0, count[FP8_VALUES]);
    r->saturated[kind] = count[FP8_SATURATIONS] / fmax(1.0, count[FP8_VALUES]);
}

fp8_report trainer_fp8(const trainer *t, int64_t step)
{
    fp8_report r = { .tensors = fp8_of(t)->mode == FP8_ENCODES ? tensors_of(t) : 0 };
    if (r.tensors == 0) return r;
    machine_read(t->machine, t->scale, slot_of(t->scales_report, step % REPORT_SLOTS));
    machine_read(t->machine, t->count, slot_of(t->counts_report, step % REPORT_SLOTS));
    for (int kind = 0; kind < FP8_KINDS; kind++) report_kind(t, (fp8_kind)kind, &r);
    return r;
}
