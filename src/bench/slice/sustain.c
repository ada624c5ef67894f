/* Sustained runs of one operation. */
#include "bench/slice/sustain.h"
#include "base/clock.h"
#include "base/memory.h"
#include "bench/health/statistics.h"
#include "bench/launch/case_machine.h"
#include "machine/queue/submit.h"
#include "machine/sample/sampler.h"
#include <math.h>

enum { PAGE = 4096, SLACK = 64 << 10, BATCHES = 50, MOST_BATCHES = 400, LEAST_BATCHES = 3, MOST_RUNS = 1 << 14 };

static size_t padded(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

/* An operation that reads indices is not tried out where others leave their numbers. */
static bool has_indices(const op *o)
{
    bool any = false;
    for (int i = 0; i < o->operands; i++) any |= o->operand[i].tensor.type == I32;
    return any;
}

static void tune(const sustainer *s, const preparation *p, size_t bytes)
{
    preparation tried = { .note = allocate(p->notes, sizeof *tried.note, "notes of operations") };
    for (int i = 0; i < p->notes; i++)
        if (!has_indices(&p->note[i].op)) tried.note[tried.notes++] = p->note[i];
    machine_tune(s->machine, &tried, s->operands, bytes);
    preparation_free(&tried);
}

sustainer sustainer_open(const bench_case *c, const preparation *p, size_t operand_bytes, int left, double seconds)
{
    machine_options options = case_machine(c);
    options.hostile = options.prove_access = false;
    options.tuning.transfer_multiprocessors = left;
    size_t operands = padded(operand_bytes + SLACK), bytes = operands + FILLER_BYTES + padded(p->scratch[0]);
    sustainer s = { .kind = options.kind, .operand_bytes = operands, .seconds = seconds };
    s.taken = machine_memory_take(s.kind, bytes + PAGE);
    s.operands = (char *)s.taken + (-(uintptr_t)s.taken & (PAGE - 1));
    s.machine = machine_open(&options);
    s.queue = machine_queue(s.machine, "slice");
    s.sampler = machine_sampler(s.kind);
    s.filler = (filler){ s.queue, s.kind, s.operands + operands, c->model.vocabulary };
    queue_set_scratch(s.queue, s.filler.seed + FILLER_BYTES, p->scratch[0]);
    tune(&s, p, bytes);
    return s;
}

void sustainer_close(sustainer *s)
{
    sampler_close(s->sampler);
    machine_close(s->machine);
    machine_memory_give_back(s->kind, s->taken);
}

placed_op sustain_place(const sustainer *s, const op_note *n)
{
    placed_op o = { .places = 0 };
    size_t bytes = padded((size_t)1);
    for (int i = 0; i < n->op.operands; i++) {
        const tensor *t = &n->op.operand[i].tensor;
        size_t end = tensor_span(t) ? arena_paper_offset(t->data) + tensor_span(t) : 0;
        if (end > bytes) bytes = padded(end);
    }
    for (; o.places < SUSTAIN_PLACES && (size_t)(o.places + 1) * bytes <= s->operand_bytes; o.places++) {
        o.at[o.places] = alone_in(&n->op, s->operands + (size_t)o.places * bytes);
        filler_fill(&s->filler, &o.at[o.places]);
    }
    return o;
}

/* Returns the mean seconds of so many runs. */
static double run_batch(const sustainer *s, const placed_op *o, int64_t runs)
{
    tally *t = machine_tally(s->machine);
    tally_clear(t);
    for (int64_t i = 0; i < runs; i++) submit(s->queue, "slice", o->at[i % o->places]);
    machine_sync(s->machine);
    return t->kind[o->at[0].kind].seconds / (double)runs;
}

/* As many runs as make a batch long beside a clock's tick. */
static int64_t runs_of_batch(const sustainer *s, const placed_op *o, double seconds)
{
    double fitting = seconds / BATCHES / fmax(run_batch(s, o, 1), 1e-9);
    return fitting < 1.0 ? 1 : fitting > MOST_RUNS ? MOST_RUNS : (int64_t)fitting;
}

static void look(sustained *r, sample_report samples)
{
    for (int i = 0; i < 2; i++) {
        const machine_sample *x = samples.count ? &samples.list[i ? samples.count - 1 : 0] : NULL;
        r->clock_hertz[i] = !x ? (double)NAN : isnan(x->clock_hertz) ? x->core_hertz : x->clock_hertz;
        r->power_watts[i] = x ? x->power_watts : (double)NAN;
    }
}

sustained sustain(sustainer *s, const placed_op *o, double seconds, bool occupied)
{
    sustained r = { NAN, NAN, NAN, { NAN, NAN }, { NAN, NAN } };
    double part[MOST_BATCHES];
    int64_t count = 0, runs = runs_of_batch(s, o, seconds);
    if (occupied && !machine_occupy(s->kind, true)) return r;
    double until = clock_seconds() + seconds;
    sampler_begin(s->sampler);
    while (count < LEAST_BATCHES || (count < MOST_BATCHES && clock_seconds() < until))
        part[count++] = run_batch(s, o, runs);
    sampler_end(s->sampler);
    if (occupied) machine_occupy(s->kind, false);
    look(&r, sampler_read(s->sampler));
    sort_numbers(part, count);
    r.median = quantile(part, count, 0.5), r.p10 = quantile(part, count, 0.1), r.p90 = quantile(part, count, 0.9);
    return r;
}
