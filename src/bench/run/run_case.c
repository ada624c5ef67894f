/* One case. */
#include "bench/run/run_case.h"
#include "base/clock.h"
#include "base/numeric.h"
#include "bench/check/check.h"
#include "bench/check/compare.h"
#include "bench/check/conservation.h"
#include "bench/check/fault.h"
#include "bench/launch/libraries.h"
#include "bench/paper/memory.h"
#include "bench/run/case_machine.h"
#include "bench/run/gather_case.h"
#include "bench/run/soak.h"
#include "bench/run/window.h"
#include "machine/op/activity.h"
#include "machine/op/limits.h"
#include "machine/prove/prove.h"
#include "machine/watch/watch.h"
#include "machine/world.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* SHARED_PATIENCE: a GPU gives its ranks time slices, and each transfer waits for its peers' turn. */
enum { SPANS_KEPT = 1 << 14, SHARED_PATIENCE = 10, SECOND_REPLAY = 40 };

/* The trainer has read the step's scales. */
static void add_fp8(case_result *r, const trainer *t, const fp8_report *f, int64_t step)
{
    fp8_figures kind[FP8_KINDS];
    for (int i = 0; i < FP8_KINDS; i++)
        kind[i] = (fp8_figures){ f->underflow[i], f->saturated[i], f->scale_least[i], f->scale_most[i] };
    for (int64_t i = 0; i < f->tensors; i++)
        r->fp8_scale[step * f->tensors + i] = (double)t->scale[i * FP8_FACTORS + FP8_SCALE];
    if (f->tensors) result_add_fp8(r, step, kind);
}

/* Reads a step that is complete: the host is one step behind what it submits. */
static void finish_step(case_result *r, trainer *t, int64_t step, double *before, const run_state *in)
{
    mark end = t->finished[step % REPORT_SLOTS];
    mark_sync(end);
    step_report s = trainer_report(t, step);
    conserved_read(r->sums, t);
    r->loss[step] = s.scalar[SCALAR_LOSS];
    r->gradient_norm[step] = s.scalar[SCALAR_NORM];
    r->learning_rate[step] = s.scalar[SCALAR_LEARNING_RATE];
    const double routed[ROUTED_FIGURES] = { s.routed.balance, s.routed.dropped, s.routed.least, s.routed.most,
                                            s.routed.variation };
    for (int i = 0; i < ROUTED_FIGURES; i++) r->routed[i][step] = s.routed.experts ? routed[i] : (double)NAN;
    add_fp8(r, t, &s.fp8, step);
    r->step_seconds[step] = mark_time(end) - *before;
    *before = mark_time(end);
    r->spent_seconds += r->step_seconds[step];
    r->completed = step + 1;
    sinks_step_ends(&in->told, r, step);
}

/* Did a rank have a reason to end when the step before this one had been submitted? All that take part learn it here,
 * when they have submitted as many steps, and the last of these are asked nothing; a soak has no last one until they
 * say so. A step waits for the one before, so nobody waits for an answer. */
static bool ends(case_result *r, int part, int64_t step, const run_state *in)
{
    int answer = 0;
    int64_t last = r->given->minutes > 0.0 ? INT64_MAX : r->total - 1;
    double ahead = r->completed ? 2.0 * r->spent_seconds / (double)r->completed : 0.0;
    if (step > 0 && step < last) answer = world_answer();
    if (answer != STOP_SOAKED) r->stopped = answer;
    if (answer || step + 1 >= last) return answer || step == last;
    int reason = stop_reason(&in->stop, r->given, ahead);
    world_ask(part, reason ? reason : soak_reason(r, step));
    return false;
}

/* The first step counts from the moment at which all ranks are ready, the others from optimizer to optimizer. The host
 * is one step behind what it submits, but for the border of the measured window, where the seconds start at zero.
 * A look at the device costs the step nothing: its operations are submitted and run on. */
static void train(case_result *r, trainer *t, int part, const run_state *in)
{
    int64_t read = 0, warmup = r->given->warmup;
    bool ended = false;
    double before = clock_seconds();
    tally_clear(machine_tally(t->machine));
    machine_keep_steps(t->machine, r->total);
    for (int64_t step = 0; !ended; step++) {
        if (step == warmup && read < step) finish_step(r, t, read++, &before, in);
        if (step == warmup) tally_begin(machine_tally(t->machine)), sampler_begin(r->sampler);
        if (step == warmup && soak_begin(r)) machine_keep_steps(t->machine, r->total);
        activity_doing("step", step);
        trainer_step(t);
        if (step == warmup) r->window[0] = machine_device_of(t->kind);
        if (read < step) finish_step(r, t, read++, &before, in);
        if (soak_widen(r, step)) machine_keep_steps(t->machine, r->total);
        ended = ends(r, part, step, in);
    }
    r->window[1] = machine_device_of(t->kind);
    finish_step(r, t, read, &before, in);
    sampler_end(r->sampler);
    machine_sync(t->machine);
}

static void take_from_trainer(case_result *r, trainer *t)
{
    r->tally = *machine_tally(t->machine);
    r->arena_bytes = t->arena.used;
    memcpy(r->bytes_by_kind, t->arena.by_kind, sizeof r->bytes_by_kind);
    double seconds = 0.0;
    for (int64_t i = r->given->warmup; i < r->completed; i++) seconds += r->step_seconds[i];
    result_add_time(r, t->machine, r->completed - 1, seconds);
    machine_engines(t->kind, r->engines, sizeof r->engines);
}

/* Runs more steps, of which every form of matrix product and a sample of the other operations is compared with the
 * host: in the first step the first of each form or name, in a second any of each name. Short cases have no second, so
 * that these steps take a twentieth of the case. */
static void replay_at_full_shape(case_result *r, trainer *t)
{
    double begin = clock_seconds();
    activity_doing("the replay of timed steps", -1);
    prove_shadow(t->machine, SHADOW_SAMPLED);
    prove_transfers(t->machine, DELIVERY_FIRST, NULL);
    for (int i = 0; i < (r->total < SECOND_REPLAY ? 1 : 2); i++) trainer_step(t);
    machine_sync(t->machine);
    r->replay_seconds = clock_seconds() - begin;
}

static void name_files(machine_options *on, const bench_case *c, const char *part)
{
    snprintf(on->name, sizeof on->name, "case%d-%s", c->number, part);
}

/* The ranks that take part, as a part of the world. */
static void name_part(char name[SPLIT_NAME], const bench_case *c)
{
    snprintf(name, SPLIT_NAME, "the first %d ranks", c->layout.ranks);
}

/* t: NULL on a rank that takes no part. Collective over the world. */
static void digest_weights(case_result *r, const trainer *t)
{
    uint64_t sum = t ? digest_element((uint64_t)world_rank(), 0, compare_digest(t)) : 0;
    world_sum_words(&sum, 1);
    snprintf(r->weights_digest, sizeof r->weights_digest, "%016llx", (unsigned long long)sum);
}

static void timed_steps(const bench_case *c, const measure *share, case_result *r, const run_state *in)
{
    mesh m;
    char name[SPLIT_NAME];
    trainer_options o = { .machine = case_machine(c), .fault = fault_agreed(c, share) };
    mesh_open(&m, &c->layout, world_rank(), mesh_on(o.machine.kind));
    trainer own, *t = m.takes_part ? &own : NULL;
    name_files(&o.machine, c, "timed");
    o.machine.span_capacity = world_rank() == 0 ? SPANS_KEPT : 0;
    activity_doing("building the case", -1);
    if (t) {
        trainer_build(t, c, &m, &o, share);
        trainer_initialize(t);
        r->sampler = machine_sampler(o.machine.kind);
        r->sums = conserved_open(t, c->minutes > 0.0 ? CONSERVED_STEPS : r->total);
    }
    machine_agree(o.machine.kind);
    name_part(name, c);
    int part = world_split(name, t ? 0 : -1, world_rank());
    world_barrier();
    if (t) {
        train(r, t, part, in);
        take_from_trainer(r, t);
    }
    conserved_judge(r, t);
    digest_weights(r, t);
    if (t) {
        if (c->check == CHECK_FULL && !r->stopped) replay_at_full_shape(r, t);
        result_add_machine(r, t->machine, &r->replay);
    }
    r->replay_delivery = prove_judge_transfers(t ? t->machine : NULL);
    fault_struck(c, t ? t->machine : NULL, r->struck);
    gather_case(r, t, o.machine.kind);
    world_release(name);
    mesh_close(&m);
}

/* The worst and the first mismatch are those of the rank that brings them. */
static void agree_on_shadow(shadow_report *s)
{
    double counts[6] = { (double)s->operations, (double)s->elements, (double)s->failed,
                         (double)s->left_out,   (double)s->products, (double)s->comparisons },
           worst[2] = { s->worst, s->worst_comparison };
    world_maximum(worst, 2);
    int from = world_first(s->worst == worst[0]), product = world_first(s->worst_comparison == worst[1]);
    int failed = world_first(s->failed > 0), left_out = world_first(s->left_out > 0);
    world_sum(counts, 6);
    world_broadcast(s->worst_operation, sizeof s->worst_operation, from);
    world_broadcast(s->worst_product, sizeof s->worst_product, product);
    if (left_out < world_ranks()) world_broadcast(s->first_left_out, sizeof s->first_left_out, left_out);
    if (failed < world_ranks()) {
        world_broadcast(s->sentence, sizeof s->sentence, failed);
        world_broadcast(s->file, sizeof s->file, failed);
        world_broadcast(s->unwritten, sizeof s->unwritten, failed);
    }
    s->worst = worst[0];
    s->operations = (int64_t)counts[0];
    s->elements = (int64_t)counts[1];
    s->failed = (int64_t)counts[2];
    s->left_out = (int64_t)counts[3];
    s->products = (int64_t)counts[4];
    s->comparisons = (int64_t)counts[5];
    s->worst_comparison = worst[1] / signed_sum_limit((double)s->comparisons);
}

/* Findings of any rank fail the case on all of them. */
static void agree(case_result *r)
{
    double counts[2] = { (double)r->hazards, (double)r->faults };
    int first = world_first(r->hazards > 0);
    world_sum(counts, 2);
    if (counts[0] > 0.0) world_broadcast(r->hazard, sizeof r->hazard, first);
    r->hazards = (int64_t)counts[0];
    r->faults = (int64_t)counts[1];
    agree_on_shadow(&r->shadow);
    agree_on_shadow(&r->replay);
    world_maximum(&r->replay_seconds, 1);
}

/* Communicators of GPUs are kept for the case: what they leave is seen before anything is taken. */
static bool communicators_leave_room(const bench_case *c, const host_load *load, const measure *share,
                                     char reason[REASON_LENGTH])
{
    mesh m;
    machine_kind kind = case_machine(c).kind;
    if (kind != MACHINE_CUDA || world_ranks() == 1) return true;
    mesh_open(&m, &c->layout, world_rank(), mesh_on(kind));
    bool fits = memory_suffices(&m, share, kind, load, reason);
    mesh_close(&m);
    return fits;
}

bool case_can_run(const bench_case *c, const host_load *load, measure *share, char reason[REASON_LENGTH])
{
    mesh m;
    trainer_options o = { .machine = case_machine(c), .fault = fault_planted(c) };
    *share = (measure){ .parameters = 0 };
    watch_limit(c->stall_seconds * (load->sharing > 1 ? SHARED_PATIENCE : 1));
    machine_leave_room(case_room(c));
    snprintf(reason, REASON_LENGTH, "%s", c->skipped);
    if (reason[0]) return false;
    mesh_open(&m, &c->layout, world_rank(), MESH_PAPER);
    activity_doing("measuring the case on paper", -1);
    if (m.takes_part) *share = measure_case(c, &m, &o);
    window_agree(c, share);
    bool fits = memory_suffices(&m, share, o.machine.kind, load, reason);
    mesh_close(&m);
    return fits && communicators_leave_room(c, load, share, reason);
}

/* Is nobody asking to stop? Collective over the world. */
static bool goes_on(case_result *r, const run_state *in)
{
    if (!r->stopped) r->stopped = stop_agreed(&in->stop, r->given);
    return !r->stopped;
}

/* What the case has loaded, too. */
static void compare_libraries(case_result *r, const run_state *in)
{
    library_list now = libraries_loaded();
    libraries_compare(&now, false, r->libraries_differ);
    if (in->libraries_differ[0]) snprintf(r->libraries_differ, sizeof r->libraries_differ, "%s", in->libraries_differ);
    snprintf(r->preloaded, sizeof r->preloaded, "%s", in->preloaded);
    libraries_free(&now);
}

void run_case(const bench_case *c, const measure *share, case_result *r, const run_state *in)
{
    check k;
    machine_options on = case_machine(c), on_check = on;
    name_files(&on_check, c, "check");
    double begin = clock_seconds();
    bool checks = c->check != CHECK_OFF;
    memory_forget_peak();
    r->placement = placement_here(&c->layout);
    r->load = in->load;
    sinks_case_begins(&in->told, c);
    activity_doing("the check's references", -1);
    if (checks) check_open(&k, c);
    double prepared = clock_seconds() - begin;
    activity_doing("the check", -1);
    if (checks && goes_on(r, in)) r->check = check_run(&k, &on_check, r);
    if (checks) check_close(&k);
    if (r->check.done) r->check.seconds += prepared;
    sinks_check_ends(&in->told, r);
    if (goes_on(r, in)) timed_steps(c, share, r, in);
    agree(r);
    compare_libraries(r, in);
    outside_memory outside = memory_outside(on.kind == MACHINE_HOST ? r->arena_bytes : 0);
    r->outside_bytes = outside.bytes;
    r->own_outside_bytes = outside.own;
    r->device_outside_bytes = memory_outside_on_device(&r->window[1], r->arena_bytes);
    result_summarize(r);
    repeats_add(in->repeats, r);
    r->total_seconds = clock_seconds() - begin;
    judge_case(r);
}
