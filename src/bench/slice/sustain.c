/* Sustained runs: repeats each operation of a slice, in memory that is large enough for the largest. */
#include "base/clock.h"
#include "bench/health/statistics.h"
#include "bench/launch/case_machine.h"
#include "bench/slice/alone.h"
#include "bench/slice/slice.h"
#include "machine/queue/submit.h"
#include <math.h>

enum { PAGE = 4096, SLACK = 64 << 10, BATCHES = 50, MOST_BATCHES = 400, LEAST_BATCHES = 3, MOST_RUNS = 1 << 14 };
enum { WARMUP_FACTOR = 5 }; /* before it is timed, the first operation runs this many times as long: clocks settle */

/* An operation alternates between copies of its operands, because in a step most operands are in no cache. Copies fill
 * CACHE_BYTES, but there are at least LEAST_COPIES, at most MOST_COPIES, and no more than memory holds. */
enum { CACHE_BYTES = 64 << 20, LEAST_COPIES = 4, MOST_COPIES = 64 };
typedef struct {
    op copy[MOST_COPIES];
    int copies;
    double seconds; /* approximate time of one run */
} copied_op;

/* One machine and its memory, which has three parts: operands, the filler's seed, scratch. */
typedef struct {
    machine *machine;
    queue *queue;
    char *operands;
    size_t operand_bytes;
    filler filler;
} bench;

static size_t padded(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

/* Tunes without the operations that read indices, because here their operands would have invalid indices. */
static bench bench_open(const slice *s, char *memory, size_t bytes, int transfer_sms)
{
    machine_options on = case_machine(s->given);
    on.hostile = on.prove_access = false;
    on.tuning.transfer_multiprocessors = transfer_sms;
    size_t operands = bytes - FILLER_BYTES - padded(s->work.scratch[0]);
    bench b = { .machine = machine_open(&on), .operands = memory, .operand_bytes = operands };
    preparation tuned = s->work;
    tuned.notes = s->unindexed;
    machine_tune(b.machine, &tuned, memory, bytes);
    b.queue = machine_queue(b.machine, "slice");
    b.filler = (filler){ b.queue, on.kind, memory + operands, s->given->model.vocabulary };
    queue_set_scratch(b.queue, memory + operands + FILLER_BYTES, s->work.scratch[0]);
    return b;
}

static op moved_to(const op *alone, char *place)
{
    op o = *alone;
    for (int i = 0; i < o.operands; i++) {
        tensor *t = &o.operand[i].tensor;
        if (tensor_present(t)) t->data = place + arena_paper_offset(t->data);
    }
    return o;
}

static double run_batch(const bench *b, const copied_op *o, int64_t runs)
{
    tally *t = machine_tally(b->machine);
    tally_clear(t);
    for (int64_t i = 0; i < runs; i++) submit(b->queue, "slice", o->copy[i % o->copies]);
    machine_sync(b->machine);
    return t->kind[o->copy[0].kind].seconds / (double)runs;
}

/* Returns the number of copies for operands of `each` bytes in memory_bytes. */
static int64_t copies_for(size_t each, size_t memory_bytes)
{
    int64_t wanted = CACHE_BYTES / (int64_t)each, fitting = (int64_t)(memory_bytes / each);
    wanted = wanted < LEAST_COPIES ? LEAST_COPIES : wanted > MOST_COPIES ? MOST_COPIES : wanted;
    return wanted < fitting ? wanted : fitting;
}

/* Fills the first copy and copies it to the others, which is faster. Makes no more copies than `seconds` of runs use.
 * Runs twice to estimate the time, because the first run may load a kernel. */
static copied_op copy_operands(const bench *b, const op *alone, double seconds)
{
    copied_op o = { .copies = 1 };
    size_t bytes;
    alone_on_paper(alone, &bytes);
    int64_t words = (int64_t)(padded(bytes) / sizeof(float));
    o.copy[0] = moved_to(alone, b->operands);
    filler_fill(&b->filler, &o.copy[0]);
    run_batch(b, &o, 1);
    o.seconds = run_batch(b, &o, 1) + 1e-9;
    double used = seconds / o.seconds;
    int64_t copies = copies_for(padded(bytes), b->operand_bytes);
    for (; o.copies < copies && o.copies < used; o.copies++) {
        char *place = b->operands + (size_t)o.copies * padded(bytes);
        o.copy[o.copies] = moved_to(alone, place);
        submit(b->queue, "place", copy_op(tensor_1d(place, F32, words), WRITE, tensor_1d(b->operands, F32, words)));
    }
    machine_sync(b->machine);
    return o;
}

/* Runs in batches that are much longer than the resolution of the clock. */
static void sustain(const bench *b, const copied_op *o, double seconds, double to[SUSTAINED])
{
    double part[MOST_BATCHES], fitting = seconds / BATCHES / o->seconds;
    int64_t count = 0, runs = fitting < 1.0 ? 1 : fitting > MOST_RUNS ? MOST_RUNS : (int64_t)fitting;
    machine_device before = machine_device_of(b->filler.kind);
    double until = clock_seconds() + seconds;
    while (count < LEAST_BATCHES || (count < MOST_BATCHES && clock_seconds() < until))
        part[count++] = run_batch(b, o, runs);
    machine_device after = machine_device_of(b->filler.kind);
    sort_numbers(part, count);
    to[MEDIAN] = quantile(part, count, 0.5), to[MEAN] = mean_of_last(part, count, count);
    to[P10] = quantile(part, count, 0.1), to[P90] = quantile(part, count, 0.9);
    to[CLOCK_BEFORE] = before.clock_hertz, to[CLOCK_AFTER] = after.clock_hertz;
    to[POWER_BEFORE] = before.power_watts, to[POWER_AFTER] = after.power_watts;
}

/* The timing next to a resident block is last, because loading a kernel would wait for that block. */
static void time_one(const slice *s, const bench *b, condition with, sustained *time, double warmup)
{
    copied_op o = copy_operands(b, &s->work.note[time - s->time].op, s->seconds / s->passes);
    if (warmup > 0.0) sustain(b, &o, warmup, time->value[with]);
    sustain(b, &o, s->seconds / s->passes, time->value[with]);
    if (s->passes > 1 || with != WITH_ALL || !machine_occupy(b->filler.kind, true)) return;
    sustain(b, &o, s->seconds, time->value[WITH_RESIDENT]);
    machine_occupy(b->filler.kind, false);
}

static void time_all(slice *s, const bench *b, condition with, int pass)
{
    double warmup = pass == 0 ? WARMUP_FACTOR * s->seconds / s->passes : 0.0;
    for (sustained *t = s->time; t < s->time + s->work.notes; t++) {
        if (pass == 0) t->timed = !(t->value[with][MEDIAN] >= 0.0);
        if (!t->timed) continue;
        time_one(s, b, with, t, warmup);
        warmup = 0.0;
        t->pass[pass] = t->value[with][MEAN];
    }
}

static bool all_known(const slice *s)
{
    for (int i = 0; i < s->work.notes; i++)
        if (isnan(s->time[i].value[WITH_ALL][MEDIAN])) return false;
    return true;
}

void slice_measure(slice *s)
{
    if (all_known(s)) return;
    machine_kind kind = case_machine(s->given).kind;
    size_t operands = s->bytes > CACHE_BYTES ? s->bytes : CACHE_BYTES;
    size_t bytes = padded(operands + SLACK) + FILLER_BYTES + padded(s->work.scratch[0]);
    char *taken = machine_memory_take(kind, bytes + PAGE), *memory = taken + (-(uintptr_t)taken & (PAGE - 1));
    bool with_remaining = kind == MACHINE_CUDA && s->transfer_sms && s->passes == 1;
    for (condition with = WITH_ALL; with <= (with_remaining ? WITH_REMAINING : WITH_ALL); with++) {
        bench b = bench_open(s, memory, bytes, with == WITH_REMAINING ? s->transfer_sms : 0);
        for (int pass = 0; pass < s->passes; pass++) time_all(s, &b, with, pass);
        machine_close(b.machine);
    }
    machine_memory_give_back(kind, taken);
}
