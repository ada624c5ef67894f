/* Numbers of a case as datasets. A group that plots by itself is an NXdata with a signal and axes. */
#include "base/fail.h"
#include "bench/record/case_group.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void plot(writer *w, const char *group, const char *signal, const char *const *axes, int64_t count)
{
    writer_group(w, group, "NXdata");
    writer_attribute_text(w, group, "signal", signal);
    writer_attribute_texts(w, group, "axes", axes, count);
}

/* 0, 1, 2, ... or one value over and over. */
static void write_integers(writer *w, writer_path path, const char *units, int64_t count, int64_t first,
                           int64_t increment)
{
    int64_t *values = malloc(((size_t)count + 1) * sizeof *values);
    if (!values) FAIL("out of memory for %lld numbers of the record", (long long)count);
    for (int64_t i = 0; i < count; i++) values[i] = first + i * increment;
    writer_integers(w, path.path, units, values, count);
    free(values);
}

static void write_steps(writer *w, const char *group, const bench_case *c, const case_result *r)
{
    int64_t total = c->warmup + c->steps;
    plot(w, group, "step_seconds", (const char *[]){ "step" }, 1);
    write_integers(w, writer_join(group, "step"), "1", total, 0, 1);
    write_integers(w, writer_join(group, "tokens"), "tokens", total, c->model.sequence * c->global_batch, 0);
    writer_reals(w, writer_join(group, "step_seconds").path, "s", r->step_seconds, total);
    writer_reals(w, writer_join(group, "loss").path, "1", r->loss, total);
    writer_reals(w, writer_join(group, "gradient_norm").path, "1", r->gradient_norm, total);
    writer_reals(w, writer_join(group, "learning_rate").path, "1", r->learning_rate, total);
}

static void write_ranks(writer *w, const char *group, const bench_case *c, const case_result *r)
{
    int64_t total = c->warmup + c->steps;
    plot(w, group, "rank_seconds", (const char *[]){ "step", "rank" }, 2);
    write_integers(w, writer_join(group, "step"), "1", total, 0, 1);
    write_integers(w, writer_join(group, "rank"), "1", c->layout.ranks, 0, 1);
    writer_table(w, writer_join(group, "rank_seconds").path, "s", r->rank_seconds, total, c->layout.ranks);
}

/* Named seconds: what computed, what waited for which axis, what idled. */
static void write_phases(writer *w, const char *group, const tally *t)
{
    enum { ROWS = PHASES + TALLY_AXES + 2 };
    const char *name[ROWS];
    char exposed[TALLY_AXES][NAME_LENGTH];
    double seconds[ROWS];
    int rows = 0;
    for (int p = 0; p < PHASES; p++, rows++) name[rows] = phase_name((phase)p), seconds[rows] = t->phase_seconds[p];
    for (int a = 0; a < t->axes; a++, rows++) {
        snprintf(exposed[a], sizeof exposed[a], "exposed_%s", t->axis[a].axis);
        name[rows] = exposed[a], seconds[rows] = t->axis[a].exposed_seconds;
    }
    name[rows] = "idle", seconds[rows++] = t->idle_seconds;
    name[rows] = "dispatch", seconds[rows++] = t->dispatch_seconds;
    plot(w, group, "seconds", (const char *[]){ "." }, 1);
    writer_texts(w, writer_join(group, "name").path, name, rows);
    writer_reals(w, writer_join(group, "seconds").path, "s", seconds, rows);
}

static void write_operations(writer *w, const char *group, const tally *t)
{
    const char *name[OP_KINDS];
    int64_t count[OP_KINDS];
    double flops[OP_KINDS], bytes[OP_KINDS], seconds[OP_KINDS];
    for (int k = 0; k < OP_KINDS; k++) {
        name[k] = op_kind_name((op_kind)k), count[k] = t->kind[k].count;
        flops[k] = t->kind[k].flops, bytes[k] = t->kind[k].bytes, seconds[k] = t->kind[k].seconds;
    }
    plot(w, group, "seconds", (const char *[]){ "." }, 1);
    writer_texts(w, writer_join(group, "name").path, name, OP_KINDS);
    writer_integers(w, writer_join(group, "count").path, "1", count, OP_KINDS);
    writer_reals(w, writer_join(group, "flops").path, "flop", flops, OP_KINDS);
    writer_reals(w, writer_join(group, "bytes").path, "bytes", bytes, OP_KINDS);
    writer_reals(w, writer_join(group, "seconds").path, "s", seconds, OP_KINDS);
}

static void write_transfers(writer *w, const char *group, const tally *t)
{
    const char *name[TALLY_AXES];
    int64_t messages[TALLY_AXES];
    double bytes[TALLY_AXES];
    for (int a = 0; a < t->axes; a++)
        name[a] = t->axis[a].axis, messages[a] = t->axis[a].messages, bytes[a] = t->axis[a].bytes;
    writer_group(w, group, "NXcollection");
    writer_texts(w, writer_join(group, "axis").path, name, t->axes);
    writer_integers(w, writer_join(group, "messages").path, "1", messages, t->axes);
    writer_reals(w, writer_join(group, "bytes").path, "bytes", bytes, t->axes);
}

/* The operations of the last step on rank 0: seconds since the first of them began. */
static void write_spans(writer *w, const char *group, const case_result *r)
{
    int64_t n = r->span_count;
    double *seconds = malloc(((size_t)n * 2 + 1) * sizeof *seconds), first = n ? r->spans[0].begin : 0.0;
    int64_t *numbers = malloc(((size_t)n * 3 + 1) * sizeof *numbers);
    const char **names = malloc(((size_t)n * 3 + 1) * sizeof *names);
    if (!seconds || !numbers || !names) FAIL("out of memory for %lld spans of the record", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const span *s = &r->spans[i];
        seconds[i] = s->begin - first, seconds[n + i] = s->end - first;
        numbers[i] = s->queue, numbers[n + i] = s->origin.layer, numbers[2 * n + i] = s->origin.microbatch;
        names[i] = op_kind_name(s->kind), names[n + i] = s->origin.name, names[2 * n + i] = phase_name(s->origin.phase);
    }
    plot(w, group, "end", (const char *[]){ "begin" }, 1);
    writer_reals(w, writer_join(group, "begin").path, "s", seconds, n);
    writer_reals(w, writer_join(group, "end").path, "s", seconds + n, n);
    writer_integers(w, writer_join(group, "queue").path, "1", numbers, n);
    writer_integers(w, writer_join(group, "layer").path, "1", numbers + n, n);
    writer_integers(w, writer_join(group, "microbatch").path, "1", numbers + 2 * n, n);
    writer_texts(w, writer_join(group, "operation").path, names, n);
    writer_texts(w, writer_join(group, "name").path, names + n, n);
    writer_texts(w, writer_join(group, "phase").path, names + 2 * n, n);
    free(seconds);
    free(numbers);
    free(names);
}

static void write_memory(writer *w, const char *group, const case_result *r)
{
    const char *name[ARENA_KINDS];
    int64_t bytes[ARENA_KINDS];
    for (int k = 0; k < ARENA_KINDS; k++)
        name[k] = arena_kind_name((arena_kind)k), bytes[k] = (int64_t)r->bytes_by_kind[k];
    plot(w, group, "bytes", (const char *[]){ "." }, 1);
    writer_texts(w, writer_join(group, "name").path, name, ARENA_KINDS);
    writer_integers(w, writer_join(group, "bytes").path, "bytes", bytes, ARENA_KINDS);
    writer_integer(w, writer_join(group, "arena_bytes").path, "bytes", (int64_t)r->arena_bytes);
    writer_real(w, writer_join(group, "outside_bytes").path, "bytes", r->outside_bytes);
}

static void write_check(writer *w, const char *group, const check_result *k)
{
    writer_group(w, group, "NXcollection");
    writer_flag(w, writer_join(group, "done").path, k->done);
    writer_flag(w, writer_join(group, "passed").path, k->passed);
    writer_real(w, writer_join(group, "residual").path, "1", k->residual);
    writer_real(w, writer_join(group, "loss").path, "1", k->loss);
    writer_real(w, writer_join(group, "gradient_first").path, "1", k->gradient_first);
    writer_real(w, writer_join(group, "gradient_fourth").path, "1", k->gradient_fourth);
    writer_real(w, writer_join(group, "weights").path, "1", k->weights);
    writer_real(w, writer_join(group, "seconds").path, "s", k->seconds);
    writer_text(w, writer_join(group, "worst").path, k->worst, strnlen(k->worst, sizeof k->worst));
}

/* Units as UDUNITS spells them where it can. */
static void write_speed(writer *w, const char *group, const bench_case *c, const case_result *r)
{
    writer_real(w, writer_join(group, "median_seconds").path, "s", r->median_seconds);
    writer_real(w, writer_join(group, "minimum_seconds").path, "s", r->minimum_seconds);
    writer_real(w, writer_join(group, "maximum_seconds").path, "s", r->maximum_seconds);
    writer_real(w, writer_join(group, "recipe_seconds").path, "s", r->recipe_seconds);
    writer_real(w, writer_join(group, "tokens_per_second").path, "tokens/s", r->tokens_per_second);
    writer_real(w, writer_join(group, "tokens_per_second_per_gpu").path, "tokens/s",
                r->tokens_per_second / c->layout.ranks);
    writer_real(w, writer_join(group, "tflops_per_gpu").path, "Tflop/s", r->tflops_per_gpu);
    writer_real(w, writer_join(group, "recipe_mfu").path, "1", r->recipe_mfu);
    writer_real(w, writer_join(group, "model_mfu").path, "1", r->model_mfu);
    writer_real(w, writer_join(group, "days_per_trillion_tokens").path, "d", r->days_per_trillion);
    writer_real(w, writer_join(group, "total_seconds").path, "s", r->total_seconds);
}

static void write_reasons(writer *w, writer_path path, const char reason[CASE_REASONS][REASON_LENGTH], int count)
{
    const char *reasons[CASE_REASONS];
    int kept = count < 0 ? 0 : count < CASE_REASONS ? count : CASE_REASONS;
    for (int i = 0; i < kept; i++) reasons[i] = reason[i];
    writer_texts(w, path.path, reasons, kept);
}

static void write_verdict(writer *w, const char *group, const case_result *r)
{
    writer_flag(w, writer_join(group, "passed").path, r->passed);
    writer_flag(w, writer_join(group, "valid").path, r->valid);
    write_reasons(w, writer_join(group, "fail_reasons"), r->fail_reason, r->fail_reasons);
    write_reasons(w, writer_join(group, "invalid_reasons"), r->invalid_reason, r->invalid_reasons);
    writer_integer(w, writer_join(group, "completed").path, "1", r->completed);
    writer_integer(w, writer_join(group, "hazards").path, "1", r->hazards);
    writer_text(w, writer_join(group, "hazard").path, r->hazard, strnlen(r->hazard, sizeof r->hazard));
    writer_integer(w, writer_join(group, "faults").path, "1", r->faults);
    writer_integer(w, writer_join(group, "shadowed_operations").path, "1", r->shadow.operations);
    writer_integer(w, writer_join(group, "shadowed_mismatches").path, "1", r->shadow.failed);
    writer_integer(w, writer_join(group, "shadowed_left_out").path, "1", r->shadow.left_out);
    writer_real(w, writer_join(group, "shadowed_worst").path, "1", r->shadow.worst);
}

/* Row 0: as the measured window began; row 1: as it ended. Not known: not a number. */
static void write_devices(writer *w, const char *group, const bench_case *c, const case_result *r)
{
    int ranks = c->layout.ranks;
    double *clock = malloc(((size_t)ranks * 4 + 1) * sizeof *clock), *power = clock + 2 * ranks;
    const char **reasons = malloc(((size_t)ranks * 2 + 1) * sizeof *reasons);
    if (!clock || !reasons) FAIL("out of memory for %d devices of the record", ranks);
    for (int i = 0; i < 2 * ranks; i++) {
        const machine_device *d = &r->devices[i];
        int at = i % 2 * ranks + i / 2;
        clock[at] = d->clock_hertz > 0.0 ? d->clock_hertz : NAN;
        power[at] = d->power_watts > 0.0 ? d->power_watts : NAN;
        reasons[at] = d->throttle_reasons;
    }
    writer_group(w, group, "NXcollection");
    writer_table(w, writer_join(group, "clock").path, "Hz", clock, 2, ranks);
    writer_table(w, writer_join(group, "power").path, "W", power, 2, ranks);
    writer_texts(w, writer_join(group, "throttled_at_begin").path, reasons, ranks);
    writer_texts(w, writer_join(group, "throttled_at_end").path, reasons + ranks, ranks);
    free(clock);
    free(reasons);
}

static void write_text(writer *w, const char *group, const char *name, const char *value)
{
    writer_text(w, writer_join(group, name).path, value, strlen(value));
}

void results_write(writer *w, const char *group, const bench_case *c, const case_result *r)
{
    writer_path results = writer_join(group, "results");
    writer_attribute_text(w, group, "default", "steps");
    writer_group(w, results.path, "NXcollection");
    write_speed(w, results.path, c, r);
    write_verdict(w, results.path, r);
    write_text(w, results.path, "device", r->device);
    write_text(w, results.path, "throttled", r->throttled);
    write_text(w, results.path, "engines", r->engines);
    write_steps(w, writer_join(group, "steps").path, c, r);
    write_ranks(w, writer_join(group, "ranks").path, c, r);
    write_devices(w, writer_join(group, "devices").path, c, r);
    write_phases(w, writer_join(group, "phases").path, &r->tally);
    write_operations(w, writer_join(group, "operations").path, &r->tally);
    write_transfers(w, writer_join(group, "transfers").path, &r->tally);
    write_spans(w, writer_join(group, "spans").path, r);
    write_memory(w, writer_join(group, "memory").path, r);
    write_check(w, writer_join(group, "check_before").path, &r->check[0]);
    write_check(w, writer_join(group, "check_after").path, &r->check[1]);
}
