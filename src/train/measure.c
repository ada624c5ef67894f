/* Measures a case on paper, then builds its trainer in memory. */
#include "train/measure.h"
#include "base/memory.h"
#include "machine/prove/prove.h"
#include <string.h>

enum { MEASURED_STEPS = 2 }; /* the second step waits for the weights that the first one gathered */

static size_t padded(size_t bytes) { return (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT; }

/* Keeps the tally of the last step. A calibration has none. */
static void measure_steps(measure *r, trainer *t)
{
    if (t->given->calibrates) {
        trainer_gradients(t);
        scales_reduce(t);
        return;
    }
    for (int i = 0; i < MEASURED_STEPS; i++) {
        tally_clear(machine_tally(t->machine));
        trainer_step(t);
    }
    r->step = *machine_tally(t->machine);
}

static void measure_queues(measure *r, machine *paper)
{
    r->prepared = machine_prepared(paper);
    for (int i = 0; i < machine_queues(paper); i++) {
        int64_t operations = (int64_t)queue_mark(machine_queue_at(paper, i)).serial;
        if (operations > r->history) r->history = operations;
        size_t *scratch = &r->prepared.scratch[i];
        *scratch = padded(*scratch);
        arena_take(&r->arena, SCRATCH, *scratch);
    }
}

static measure measure_trainer(const bench_case *c, mesh *m, const trainer_options *o)
{
    measure r = { 0 };
    machine_options options = o->machine;
    trainer t;
    options.on_paper = true;
    mesh_restart(m);
    arena_open(&r.arena, NULL, 0);
    machine *paper = machine_open(&options);
    prove_plant(paper, &o->fault);
    trainer_open(&t, c, m, paper, &r.arena);
    trainer_initialize(&t);
    measure_steps(&r, &t);
    measure_queues(&r, paper);
    r.fault = prove_planted(paper);
    r.hazards = *machine_hazards(paper);
    r.parameters = param_count_local(&t.stage.params);
    trainer_close(&t);
    machine_close(paper);
    mesh_restart(m);
    return r;
}

/* Returns the BF16 case that calibrates delayed scaling, with its amaxes for the first FP8 step. */
static bench_case calibration_of(const bench_case *c, const trainer_options *o)
{
    bench_case bf16 = *c;
    bf16.precision = PRECISION_BF16;
    bf16.calibrates = true;
    bf16.choices_given = o->choices != NULL;
    bf16.fault = (planted_fault){ .kind = FAULT_NONE };
    return bf16;
}

static trainer_options without_fault(const trainer_options *o) { return (trainer_options){ .machine = o->machine }; }

/* The two trainers run one after the other, so a rank needs the memory of the larger. */
static void add_calibration(measure *r, const bench_case *c, mesh *m, const trainer_options *o)
{
    bench_case bf16 = calibration_of(c, o);
    trainer_options plain = without_fault(o);
    plain.machine.keeps_order = false; /* only the submissions of a step are wanted */
    r->calibration = allocate(1, sizeof *r->calibration, "a measure");
    *r->calibration = measure_trainer(&bf16, m, &plain);
    hazard_report_add(&r->hazards, &r->calibration->hazards);
    if (r->calibration->arena.used > r->arena.used)
        arena_take(&r->arena, ACTIVATIONS, r->calibration->arena.used - r->arena.used);
}

measure measure_case(const bench_case *c, mesh *m, const trainer_options *o)
{
    measure r = measure_trainer(c, m, o);
    if (fp8_delays(c)) add_calibration(&r, c, m, o);
    return r;
}

static size_t layout_bytes(const bench_case *c, mesh *m, const trainer_options *o)
{
    arena a;
    trainer t;
    machine_options options = o->machine;
    options.on_paper = true;
    arena_open(&a, NULL, 0);
    machine *paper = machine_open(&options);
    trainer_open(&t, c, m, paper, &a);
    trainer_close(&t);
    machine_close(paper);
    mesh_restart(m);
    return a.used;
}

size_t measure_layout(const bench_case *c, mesh *m, const trainer_options *o)
{
    bench_case bf16 = calibration_of(c, o);
    size_t bytes = layout_bytes(c, m, o), calibration = fp8_delays(c) ? layout_bytes(&bf16, m, o) : 0;
    return bytes > calibration ? bytes : calibration;
}

void measure_free(measure *r)
{
    preparation_free(&r->prepared);
    if (r->calibration) measure_free(r->calibration);
    free(r->calibration);
}

/* In these groups, ranks have equal offsets for the operands of a collective, so that copy engines can transfer them.
 * If bits must repeat, sums over data ranks use no window; the environment keeps other sums out of the NVLink switch.
 */
static void *take_memory(const measure *r, mesh *m, machine_kind kind)
{
    group *const groups[] = {
        &m->axis[AXIS_TENSOR], &m->axis[AXIS_CONTEXT], &m->context_reversed, &m->axis[AXIS_SHARD], &m->expert,
        &m->gradient
    };
    int count = r->window ? 6 - machine_repeats_bits() : 0;
    return machine_window_take(kind, count ? r->window : r->arena.used, groups, count, &m->all);
}

static sm_shares sm_shares_on(const bench_case *c, const mesh *m, machine_kind kind)
{
    const group *const list[TRANSFER_KINDS][2] = { [TENSOR_TRANSFERS] = { &m->axis[AXIS_TENSOR], &m->expert },
                                                   [CONTEXT_TRANSFERS] = { &m->axis[AXIS_CONTEXT],
                                                                           &m->context_reversed },
                                                   [SHARD_TRANSFERS] = { &m->axis[AXIS_SHARD], &m->axis[AXIS_SHARD] } };
    unsigned copied = 0;
    for (transfer_kind k = TENSOR_TRANSFERS; k < TRANSFER_KINDS; k++) {
        bool movable = true;
        for (int i = 0; i < 2; i++)
            movable = movable && (list[k][i]->size == 1 || machine_window_serves(kind, list[k][i]));
        copied |= (unsigned)movable << k;
    }
    return sm_shares_of(c, m->at[AXIS_PIPELINE], copied);
}

static void build(trainer *t, const bench_case *c, mesh *m, const trainer_options *o, const measure *r)
{
    machine_options options = o->machine;
    arena a;
    size_t bytes = r->arena.used;
    void *memory = take_memory(r, m, options.kind);
    sm_shares shares = sm_shares_on(c, m, options.kind);
    arena_open(&a, memory, bytes);
    options.mark_history = r->history;
    options.tuning.transfer_multiprocessors = shares.left_free;
    machine *target = machine_open(&options);
    machine_tune(target, &r->prepared, memory, bytes);
    machine_memory_clear(options.kind, memory, o->machine.prove_access ? 0xFF : 0, bytes);
    prove_plant(target, &o->fault);
    mesh_restart(m);
    trainer_open(t, c, m, target, &a);
    for (int i = 0; i < machine_queues(target); i++) {
        size_t scratch = r->prepared.scratch[i];
        queue_set_scratch(machine_queue_at(target, i), arena_take(&a, SCRATCH, scratch), scratch);
    }
    arena_seal(&a);
    t->arena = a;
    t->memory = memory;
    t->kind = options.kind;
    t->shares = shares;
    t->parameters = r->parameters;
}

/* Results of a calibration. */
typedef struct {
    int32_t *amax, *choices; /* for trainer.first_amax; for mixture.choices of a check model, or NULL */
    hazard_report hazards;
} calibrated;

static int32_t *integers(int64_t n) { return allocate(n, sizeof(int32_t), "a calibration"); }

/* Computes the gradients of the first step's whole batch, without an update. */
static calibrated calibrate(const bench_case *c, mesh *m, const trainer_options *o, const measure *r)
{
    bench_case bf16 = calibration_of(c, o);
    trainer_options plain = without_fault(o);
    calibrated found = { .amax = integers(fp8_tensors(c)) };
    trainer t;
    build(&t, &bf16, m, &plain, r->calibration);
    tensor choices = t.stage.work.experts.choices;
    trainer_initialize(&t);
    if (o->choices) machine_upload(t.machine, choices, o->choices);
    trainer_gradients(&t);
    scales_reduce(&t);
    machine_sync(t.machine);
    machine_read(t.machine, found.amax, t.stage.work.fp8.amax);
    if (tensor_present(&choices)) {
        found.choices = integers(tensor_elements(&choices));
        machine_read(t.machine, found.choices, choices);
    }
    found.hazards = *machine_hazards(t.machine);
    trainer_dismantle(&t);
    return found;
}

static void take_calibration(trainer *t, calibrated *found)
{
    memcpy(t->first_amax, found->amax, (size_t)fp8_tensors(t->given) * sizeof *found->amax);
    if (found->choices) machine_upload(t->machine, t->stage.work.experts.choices, found->choices);
    machine_add_hazards(t->machine, &found->hazards);
    free(found->amax);
    free(found->choices);
}

void trainer_build(trainer *t, const bench_case *c, mesh *m, const trainer_options *o, const measure *r)
{
    calibrated found = { 0 };
    if (r->calibration) found = calibrate(c, m, o, r);
    build(t, c, m, o, r);
    if (r->calibration) take_calibration(t, &found);
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
