/* Lists of facts: unknown numbers are NaN. */
#include "bench/facts/facts.h"
#include "base/memory.h"
#include "model/fp8.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *nan_array(int64_t length)
{
    double *array = allocate(length, sizeof *array, "numbers of a result");
    for (int64_t i = 0; i < length; i++) array[i] = NAN;
    return array;
}

facts facts_none(void)
{
    facts f = { .samples = { .joules = NAN, .watts = NAN, .method = "", .others_cores = NAN } };
    for (int i = 0; i < FP8_KINDS; i++) f.fp8[i] = (fp8_facts){ NAN, NAN, NAN, NAN };
    f.check =
        (check_result){ .residual = NAN, .loss = NAN, .gradient_first = NAN, .gradient_fourth = NAN, .weights = NAN };
    return f;
}

/* Collects the lists that have one number per step. */
enum { NAMED_LISTS = 6, LISTS = NAMED_LISTS + ROUTED_FACTS };
static void lists_of(facts *f, double **list[LISTS])
{
    double **const first[NAMED_LISTS] = { &f->loss,        &f->gradient_norm, &f->learning_rate,
                                          &f->own_seconds, &f->begin,         &f->pause };
    for (int i = 0; i < LISTS; i++) list[i] = i < NAMED_LISTS ? first[i] : &f->routed[i - NAMED_LISTS];
}

facts facts_open(const bench_case *c)
{
    facts f = facts_none();
    double **list[LISTS];
    lists_of(&f, list);
    f.total = c->warmup + c->steps;
    for (int i = 0; i < LISTS; i++) *list[i] = nan_array(f.total);
    memset(f.pause, 0, (size_t)f.total * sizeof *f.pause);
    f.fp8_tensors = c->precision == PRECISION_FP8 ? fp8_tensors(c) : 0;
    f.fp8_scale = nan_array(f.total * f.fp8_tensors);
    return f;
}

static double *resized(double *list, int64_t length)
{
    return reallocate(list, length, sizeof *list, "numbers of a result");
}

void facts_resize(facts *f, int64_t total)
{
    double **list[LISTS];
    lists_of(f, list);
    for (int i = 0; i < LISTS; i++) *list[i] = resized(*list[i], total);
    f->fp8_scale = resized(f->fp8_scale, total * f->fp8_tensors);
    for (int64_t i = f->total; i < total; i++) f->pause[i] = 0.0;
    f->total = total;
}

void facts_close(facts *f)
{
    double **list[LISTS];
    lists_of(f, list);
    for (int i = 0; i < LISTS; i++) free(*list[i]);
    free(f->fp8_scale);
    times_free(&f->ranks);
    free(f->devices);
    free(f->samples.list);
    free(f->copies.loss);
    free(f->copies.gradient_norm);
    free(f->copies.weights);
    free(f->spans);
}

/* The mean over steps is exact, because every step converts the same number of values. */
void facts_add_fp8(facts *f, int64_t timed, const fp8_facts kind[FP8_KINDS])
{
    double count = (double)timed;
    for (int i = 0; i < FP8_KINDS; i++) {
        fp8_facts old = timed > 0 ? f->fp8[i] : kind[i], *total = &f->fp8[i];
        total->underflowed = (count * old.underflowed + kind[i].underflowed) / (count + 1.0);
        total->saturated = (count * old.saturated + kind[i].saturated) / (count + 1.0);
        total->scale_least = fmin(old.scale_least, kind[i].scale_least);
        total->scale_most = fmax(old.scale_most, kind[i].scale_most);
    }
}

static int by_end(const void *a, const void *b)
{
    double x = ((const span *)a)->end, y = ((const span *)b)->end;
    return (x > y) - (x < y);
}

static void add_spans(facts *f, const machine *m, int64_t step)
{
    int64_t count;
    const span *all = machine_spans(m, &count);
    f->spans = allocate(count, sizeof *f->spans, "the spans of a result");
    for (int64_t i = 0; i < count; i++)
        if (all[i].origin.step == step) f->spans[f->span_count++] = all[i];
    double first = INFINITY;
    for (int64_t i = 0; i < f->span_count; i++) first = fmin(first, f->spans[i].begin);
    for (int64_t i = 0; i < f->span_count; i++) f->spans[i].begin -= first, f->spans[i].end -= first;
    qsort(f->spans, (size_t)f->span_count, sizeof *f->spans, by_end);
}

void facts_add_time(facts *f, const machine *m, int64_t step, double seconds)
{
    tally *t = &f->tally;
    add_spans(f, m, step);
    t->idle_seconds = seconds;
    for (int p = 0; p < PHASES; p++) t->idle_seconds -= t->phase_seconds[p];
    for (int a = 0; a < t->axes; a++) t->idle_seconds -= t->axis[a].exposed_seconds;
    t->idle_seconds += t->concurrent_seconds;
    if (t->idle_seconds < 0.0) t->idle_seconds = 0.0;
}
