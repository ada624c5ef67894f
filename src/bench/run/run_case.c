/* One case. */
#include "bench/run/run_case.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/numeric.h"
#include "bench/check/check.h"
#include "bench/check/compare.h"
#include "bench/check/conservation.h"
#include "bench/check/fault.h"
#include "bench/checkpoint/checkpoint.h"
#include "bench/launch/case_machine.h"
#include "bench/launch/preloaded.h"
#include "bench/launch/window.h"
#include "bench/paper/memory.h"
#include "bench/project/expected.h"
#include "bench/run/gather_case.h"
#include "bench/run/soak.h"
#include "machine/op/activity.h"
#include "machine/prove/prove.h"
#include "machine/watch/watch.h"
#include "machine/world.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* SHARED_STALL_FACTOR: factor of stall_seconds on a GPU that ranks share in time slices. SECOND_REPLAY_STEPS: smallest
 * number of steps of a case with two replayed steps. */
enum { SHARED_STALL_FACTOR = 10, SECOND_REPLAY_STEPS = 40 };

/* The timed steps of a case on this rank. */
typedef struct {
    case_result *r;
    const run_state *state;
    trainer *trainer;
    conserved_steps *sums;
    sampler *sampler;                              /* NULL if none */
    int part;                                      /* number of the split of the copy's ranks (world_split) */
    double previous_end, spent_seconds, soak_ends; /* seconds by this rank's clock */
    double window;                                 /* begin of the timed steps by this rank's clock */
    double pause;                                  /* seconds of the checkpoint before the current step */
    own_times times;                               /* times of the steps, without the replay */
} timed_steps;

/* Call it after trainer_report, which reads the step's scales. */
static void add_fp8(timed_steps *x, const fp8_report *f, int64_t step)
{
    fp8_facts kind[FP8_KINDS];
    int64_t timed = step - x->r->given->warmup;
    for (int i = 0; i < FP8_KINDS; i++)
        kind[i] = (fp8_facts){ f->underflow[i], f->saturated[i], f->scale_least[i], f->scale_most[i] };
    for (int64_t i = 0; i < f->tensors; i++)
        x->r->seen.fp8_scale[step * f->tensors + i] = (double)x->trainer->scale[i * FP8_FACTORS + FP8_SCALE];
    if (f->tensors && timed >= 0) facts_add_fp8(&x->r->seen, timed, kind);
}

static void add_report(timed_steps *x, const step_report *s, int64_t step)
{
    facts *f = &x->r->seen;
    const double routed[ROUTED_FACTS] = { s->routed.balance, s->routed.dropped, s->routed.least, s->routed.most,
                                          s->routed.variation };
    f->loss[step] = s->scalar[SCALAR_LOSS];
    f->gradient_norm[step] = s->scalar[SCALAR_NORM];
    f->learning_rate[step] = s->scalar[SCALAR_LEARNING_RATE];
    for (int i = 0; i < ROUTED_FACTS; i++) f->routed[i][step] = s->routed.experts ? routed[i] : (double)NAN;
    add_fp8(x, &s->fp8, step);
}

/* Returns the seconds until a soak may end, or 0 if the case is no soak. */
static double soak_seconds(const timed_steps *x)
{
    if (x->r->given->minutes == 0.0) return 0.0;
    return x->soak_ends > 0.0 ? fmax(0.0, x->soak_ends - clock_seconds()) : 60.0 * x->r->given->minutes;
}

/* Reads the results of a complete step. */
static void finish_step(timed_steps *x, int64_t step)
{
    mark end = x->trainer->finished[step % REPORT_SLOTS];
    mark_sync(end);
    step_report s = trainer_report(x->trainer, step);
    conserved_read(x->sums, x->trainer);
    add_report(x, &s, step);
    x->r->seen.own_seconds[step] = mark_time(end) - x->previous_end;
    x->r->seen.begin[step] = x->previous_end - x->state->began - x->r->seen.begin_seconds;
    x->r->seen.pause[step] = x->pause;
    x->pause = 0.0;
    x->previous_end = mark_time(end);
    x->spent_seconds += x->r->seen.own_seconds[step];
    x->r->seen.completed = step + 1;
    sinks_step(&x->state->sinks, x->r, &(step_now){ step, x->spent_seconds, soak_seconds(x) });
}

/* Returns whether this step is the last. After each step all ranks submit their reason to stop (world_begin_maximum),
 * and read the largest reason after the next step, so they stop at the same step. By then all ranks have asked, so none
 * waits. The last two steps need no question. A soak has no last step until the ranks agree on it. */
static bool is_last_step(timed_steps *x, int64_t step)
{
    int answer = 0;
    facts *f = &x->r->seen;
    int64_t last = x->r->given->minutes > 0.0 ? INT64_MAX : f->total - 1;
    double next_seconds = f->completed ? 2.0 * x->spent_seconds / (double)f->completed + f->checkpoint.seconds : 0.0;
    if (step > 0 && step < last) answer = world_end_maximum();
    if (answer != STOP_SOAKED) f->stopped = answer;
    if (answer || step + 1 >= last) return answer || step == last;
    int reason = stop_reason(&x->state->stop, x->r->given, next_seconds);
    world_begin_maximum(x->part, reason ? reason : soak_reason(x->r, x->soak_ends, step));
    return false;
}

static void save(const bench_case *c, trainer *t, facts *f)
{
    if (!checkpoint_is_asked(c->checkpoint)) return;
    if (t) machine_sync(t->machine);
    checkpoint_save(c, t, f->checkpoint.loaded_step + f->completed, &f->checkpoint);
}

/* Saves between two steps. The next step's time begins after the save. */
static void save_between(timed_steps *x, int64_t *read)
{
    finish_step(x, (*read)++);
    save(x->r->given, x->trainer, &x->r->seen);
    x->pause = clock_seconds() - x->previous_end;
    x->previous_end += x->pause;
}

static void begin_timed_steps(timed_steps *x)
{
    machine *m = x->trainer->machine;
    tally_begin(machine_tally(m), x->r->given->warmup); /* FP8 copies of weights may follow the optimizer's end */
    sampler_begin(x->sampler);
    x->window = x->previous_end;
    x->soak_ends = soak_begin(x->r);
    if (x->soak_ends > 0.0) machine_keep_steps(m, x->r->seen.total);
}

static bool is_profiled(const bench_case *c, int64_t step)
{
    return step >= c->profile.first && step < c->profile.last && world_rank() >= c->profile_ranks.first &&
           world_rank() <= c->profile_ranks.last;
}

/* The time of the first step begins when all ranks are ready, that of the others when the previous step ends. The host
 * reads a step after submitting the next, except before the first timed step, where tallies start at zero. Reading the
 * device's state does not delay a step, because its operations are already submitted. */
static void train(timed_steps *x)
{
    int64_t read = 0, warmup = x->r->given->warmup, every = x->r->given->checkpoint_every;
    bool ended = false, profiled = false;
    trainer *t = x->trainer;
    x->previous_end = clock_seconds();
    tally_clear(machine_tally(t->machine));
    machine_keep_steps(t->machine, x->r->seen.total);
    for (int64_t step = 0; !ended; step++) {
        if (step == warmup && read < step) finish_step(x, read++);
        if (step == warmup) begin_timed_steps(x);
        if (profiled != is_profiled(x->r->given, step)) machine_profile(t->machine, profiled = !profiled);
        activity_doing("step", step);
        trainer_step(t);
        if (step == warmup) x->r->seen.devices[0] = machine_device_of(t->kind);
        if (read < step) finish_step(x, read++);
        if (soak_grow(x->r, step)) machine_keep_steps(t->machine, x->r->seen.total);
        ended = is_last_step(x, step);
        if (!ended && every && (step + 1) % every == 0) save_between(x, &read);
    }
    x->r->seen.devices[1] = machine_device_of(t->kind);
    finish_step(x, read);
    if (profiled) machine_profile(t->machine, false);
    sampler_end(x->sampler);
    machine_sync(t->machine);
}

static void describe_transfers(facts *f, const trainer *t)
{
    char shares[SM_SHARES_TEXT];
    f->sms_left_free = t->shares.left_free;
    machine_transfers(t->kind, f->transfers, sizeof f->transfers);
    size_t used = strlen(f->transfers);
    if (used) snprintf(f->transfers + used, sizeof f->transfers - used, "; %s", sm_shares_text(&t->shares, shares));
}

static void keep_results(timed_steps *x)
{
    facts *f = &x->r->seen;
    const trainer *t = x->trainer;
    f->tally = *machine_tally(t->machine);
    double seconds = x->r->given->backend == BACKEND_HOST ? -f->tally.dispatch_seconds : 0.0;
    for (int64_t i = x->r->given->warmup; i < f->completed; i++) seconds += f->own_seconds[i];
    facts_add_time(f, t->machine, f->completed - 1, seconds);
    f->device_outside_bytes = memory_outside_on_device(&f->devices[1], f->arena_bytes);
    machine_engines(t->kind, f->engines, sizeof f->engines);
    describe_transfers(f, t);
    soak_end(x->r);
    x->times = times_of_rank(t->machine, &f->tally, f->own_seconds, f->total);
}

/* Runs one or two more steps, in which the host checks matrix products and a sample of the other operations: in the
 * first step the first operation of each form or name, in the second a random one of each name. Short cases have no
 * second step, so that the replay takes about a twentieth of the case. */
static void replay_at_full_shape(facts *f, trainer *t)
{
    double begin = clock_seconds();
    activity_doing("the replay of timed steps", -1);
    prove_shadow(t->machine, SHADOW_SAMPLED);
    prove_transfers(t->machine, DELIVERY_FIRST, NULL);
    for (int i = 0; i < (f->completed < SECOND_REPLAY_STEPS ? 1 : 2); i++) trainer_step(t);
    machine_sync(t->machine);
    f->replay_seconds = clock_seconds() - begin;
}

static void name_files(machine_options *options, const bench_case *c, const char *part)
{
    snprintf(options->name, sizeof options->name, "case%d-%s", c->number, part);
}

static void name_split(char name[SPLIT_NAME], const bench_case *c)
{
    snprintf(name, SPLIT_NAME, "%d x %d ranks that take part", c->layout.copies, c->layout.ranks);
}

/* Restricts collective functions to the ranks of a copy, until world_part_end. Idle ranks belong to the last one, as
 * they belong to the world if there is one copy. */
static void begin_copy(const bench_case *c)
{
    char name[SPLIT_NAME];
    int copy = world_rank() / c->layout.ranks, last = c->layout.copies - 1;
    if (last == 0) return;
    snprintf(name, SPLIT_NAME, "%d x %d ranks", c->layout.copies, c->layout.ranks);
    world_part_begin(name, (copy < last ? copy : last) * c->layout.ranks);
}

/* t is NULL on a rank that takes no part. Collective over the world. */
static void digest_weights(facts *f, const bench_case *c, const trainer *t)
{
    begin_copy(c);
    uint64_t sum = t ? digest_element((uint64_t)world_part_rank(), 0, compare_digest(t)) : 0;
    world_sum_words(&sum, 1);
    world_part_end();
    snprintf(f->weights_digest.text, sizeof f->weights_digest.text, "%016llx", (unsigned long long)sum);
}

/* Judges the transfers of each copy. Returns the numbers of all, and the sentence of the first copy that differs.
 * m is NULL on a rank that takes no part. Collective over the world. */
static delivery_report judge_copies(const bench_case *c, machine *m)
{
    begin_copy(c);
    delivery_report own = prove_judge_transfers(m), chosen = own;
    uint64_t of_one = world_part_rank() == 0;
    world_part_end();
    int first = world_first(own.differing != 0);
    world_broadcast(&chosen, sizeof chosen, first < world_ranks() ? first : 0);
    uint64_t counts[] = { of_one * (uint64_t)own.transfers, of_one * (uint64_t)own.differing };
    world_sum_words(counts, 2);
    chosen.transfers = (int64_t)counts[0], chosen.differing = (int64_t)counts[1];
    return chosen;
}

static double largest_norm(const facts *f)
{
    double norm = 0.0;
    for (int64_t step = 0; step < f->completed; step++) norm = fmax(norm, f->gradient_norm[step]);
    return norm;
}

static void build(timed_steps *x, const trainer_options *o, mesh *m, const measure *share)
{
    const arena *a = &x->trainer->arena;
    facts *f = &x->r->seen;
    trainer_build(x->trainer, x->r->given, m, o, share);
    trainer_initialize(x->trainer);
    f->arena_bytes = a->used;
    memcpy(f->bytes_by_kind, a->by_kind, sizeof f->bytes_by_kind);
}

/* Returns false if the checkpoint cannot be loaded. Collective over the world. */
static bool load(timed_steps *x)
{
    const bench_case *c = x->r->given;
    return !checkpoint_is_asked(c->load) || checkpoint_load(c, x->trainer, &x->r->seen.checkpoint);
}

static void open_measurements(timed_steps *x, machine_kind kind)
{
    x->sampler = machine_sampler(kind);
    x->sums = conserved_open(x->trainer, x->r->given->minutes > 0.0 ? CONSERVED_STEPS : x->r->seen.total);
}

static void train_and_prove(timed_steps *x, machine_kind kind)
{
    facts *f = &x->r->seen;
    const bench_case *c = x->r->given;
    machine *m = x->trainer ? x->trainer->machine : NULL;
    if (x->trainer) open_measurements(x, kind);
    world_barrier();
    if (x->trainer) train(x), keep_results(x);
    save(c, x->trainer, f);
    f->conserved = conserved_judge(x->sums, x->trainer, largest_norm(f));
    digest_weights(f, c, x->trainer);
    if (x->trainer && c->check == CHECK_FULL && !f->stopped) replay_at_full_shape(f, x->trainer);
    f->replay_delivery = judge_copies(c, m);
    if (x->trainer) findings_add(&f->machine, m, &f->machine.replay), fault_struck(c, m, f->struck);
    if (x->trainer) trainer_dismantle(x->trainer);
    gather_ranks(x->r, x->trainer ? &x->times : NULL, x->sampler, x->window);
}

static void time_steps(const bench_case *c, const measure *share, case_result *r, const run_state *state)
{
    mesh m;
    trainer own;
    char name[SPLIT_NAME];
    trainer_options o = { .machine = case_machine(c), .fault = fault_agreed(c, share) };
    mesh_open(&m, &c->layout, world_rank(), mesh_on(o.machine.kind));
    timed_steps x = { .r = r, .state = state, .trainer = m.takes_part ? &own : NULL };
    r->seen.devices = allocate(2, sizeof *r->seen.devices, "samples of devices");
    name_files(&o.machine, c, "timed");
    o.machine.span_capacity = world_rank() == 0 ? 2 * tally_operations(&share->step) : 0; /* more than a step */
    activity_doing("building the case", -1);
    if (x.trainer) build(&x, &o, &m, share);
    machine_agree(o.machine.kind);
    name_split(name, c);
    x.part = world_split(name, x.trainer ? world_rank() / c->layout.ranks : -1, world_rank());
    if (load(&x)) train_and_prove(&x, o.machine.kind);
    else if (x.trainer) trainer_dismantle(x.trainer);
    world_release(name);
    mesh_close(&m);
}

/* Creates the communicators, which the case will use, and checks whether the remaining memory suffices. */
static bool communicators_fit(const bench_case *c, const host_load *load, const measure *share,
                              char reason[REASON_LENGTH])
{
    mesh m;
    machine_kind kind = case_machine(c).kind;
    if (kind != MACHINE_CUDA || world_ranks() == 1) return true;
    mesh_open(&m, &c->layout, world_rank(), mesh_on(kind));
    bool enough = memory_suffices(&m, share, kind, load, reason);
    mesh_close(&m);
    return enough;
}

/* Measures the case on paper. Returns whether the available memory suffices. Collective over the world. */
static bool case_fits(const bench_case *c, const host_load *load, measure *share, char reason[REASON_LENGTH])
{
    mesh m;
    trainer_options o = { .machine = case_machine(c), .fault = fault_planted(c) };
    mesh_open(&m, &c->layout, world_rank(), MESH_PAPER);
    activity_doing("measuring the case on paper", -1);
    if (m.takes_part) *share = measure_case(c, &m, &o);
    window_agree(c, share);
    bool enough = memory_suffices(&m, share, o.machine.kind, load, reason);
    mesh_close(&m);
    return enough;
}

bool case_can_run(const bench_case *c, const host_load *load, measure *share, char reason[REASON_LENGTH])
{
    *share = (measure){ .parameters = 0 };
    watch_limit(c->stall_seconds * (load->sharing > 1 ? SHARED_STALL_FACTOR : 1));
    machine_set_blocks(case_blocks(c));
    snprintf(reason, REASON_LENGTH, "%s", c->skipped);
    if (reason[0] || !case_fits(c, load, share, reason)) return false;
    machine_window_reserve(case_machine(c).kind, share->window);
    return communicators_fit(c, load, share, reason);
}

void case_reserve(const bench_case *c, const host_load *load)
{
    char reason[REASON_LENGTH];
    measure share = { .parameters = 0 };
    if (c->backend == BACKEND_HOST || c->skipped[0]) return;
    if (case_fits(c, load, &share, reason)) machine_window_reserve(case_machine(c).kind, share.window);
    measure_free(&share);
}

/* Returns whether no rank has a reason to stop. Collective over the world. */
static bool may_continue(facts *f, const bench_case *c, const run_state *state)
{
    if (!f->stopped) f->stopped = stop_agreed(&state->stop, c);
    return !f->stopped;
}

/* Compares the libraries again, because the case may have loaded some. Collective over the world. */
static void compare_libraries(facts *f, const run_state *state)
{
    library_list now = libraries_loaded();
    libraries_compare(&now, false, f->libraries_differ);
    if (state->libraries_differ[0])
        snprintf(f->libraries_differ, sizeof f->libraries_differ, "%s", state->libraries_differ);
    snprintf(f->preloaded, sizeof f->preloaded, "%s", state->preloaded);
    profiler_complaint(f->profiled);
    libraries_free(&now);
}

/* Each copy is checked. Returns the check of the first copy that fails, or that of copy 0. Faults are counted later. */
static check_result check_copies(check *k, const machine_options *options, machine_findings *found)
{
    begin_copy(&k->given);
    check_result own = check_run(k, options, found), chosen = own;
    world_part_end();
    int first = world_first(!own.passed);
    world_broadcast(&chosen, sizeof chosen, first < world_ranks() ? first : 0);
    chosen.faults = own.faults;
    memcpy(chosen.struck, own.struck, sizeof chosen.struck);
    return chosen;
}

static void prove_case(const bench_case *c, case_result *r, const run_state *state)
{
    check k;
    facts *f = &r->seen;
    machine_options options = case_machine(c);
    name_files(&options, c, "check");
    double begin = clock_seconds();
    activity_doing("the check's references", -1);
    check_open(&k, c);
    double prepared = clock_seconds() - begin;
    activity_doing("the check", -1);
    if (may_continue(f, c, state)) f->check = check_copies(&k, &options, &f->machine);
    check_close(&k);
    if (f->check.done) f->check.seconds += prepared;
}

static void measure_memory(facts *f, const bench_case *c)
{
    outside_memory outside = memory_outside(c->backend == BACKEND_HOST ? f->arena_bytes : 0);
    f->outside_bytes = outside.bytes;
    f->own_outside_bytes = outside.unshared;
}

void run_case(const bench_case *c, const measure *share, case_result *r, const run_state *state)
{
    facts *f = &r->seen;
    double begin = clock_seconds();
    f->begin_seconds = begin - state->began;
    memory_reset_peak();
    f->placement = placement_here(&c->layout, case_machine(c).kind);
    f->load = state->load;
    sinks_begin(&state->sinks, c);
    if (c->check != CHECK_OFF) prove_case(c, r, state);
    sinks_check(&state->sinks, r);
    if (may_continue(f, c, state)) time_steps(c, share, r, state);
    if (f->checkpoint.refused[0]) return;
    compare_libraries(f, state);
    measure_memory(f, c);
    gather_findings(f);
    f->total_seconds = clock_seconds() - begin;
    if (world_rank() != 0) return;
    if (state->sheet && f->completed > c->warmup) expect_steps(r, state->sheet);
    r->figures = figures_of(f, c);
    repeats_add(state->repeats, c, &r->figures);
    snprintf(r->ruling.stopped_by, sizeof r->ruling.stopped_by, "%s", stop_words(f->stopped));
    judge_case(r);
}
