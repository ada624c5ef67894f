/* Figures of a case. */
#include "bench/facts/figures.h"
#include "base/memory.h"
#include "bench/health/statistics.h"
#include "plan/catalogue/flops.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

figures figures_none(const bench_case *c)
{
    figures g = { .tokens_per_step = c->global_batch * c->model.sequence };
    g.mean_seconds = g.median_seconds = g.p95_seconds = g.minimum_seconds = g.maximum_seconds = g.recipe_seconds = NAN;
    g.spread = g.drift = NAN;
    g.repeated = (repeated_seconds){ 0, NAN, NAN, NAN, NAN };
    g.tokens_per_second = g.tokens_per_second_per_gpu = g.tflops_per_gpu = NAN;
    g.recipe_mfu = g.model_mfu = g.recipe_ceiling = g.model_ceiling = g.recipe_reached = g.model_reached = NAN;
    g.days_per_trillion = g.joules_per_step = g.joules_per_token = NAN;
    return g;
}

/* Fills seconds[total] with the step times of the slowest rank of a copy. */
static void fill_seconds(const facts *f, const bench_case *c, int copy, double *seconds)
{
    for (int64_t s = 0; s < f->total; s++) {
        const double *own = f->ranks.step + s * c->ranks + copy * c->layout.ranks;
        seconds[s] = s < f->completed ? 0.0 : (double)NAN;
        for (int i = 0; i < c->layout.ranks && s < f->completed; i++) seconds[s] = fmax(seconds[s], own[i]);
    }
}

bool step_counts(const facts *f, int64_t step) { return !(f->pause[step] > 0.0); }

int64_t steps_counted(const facts *f, const bench_case *c)
{
    int64_t n = 0;
    for (int64_t s = c->warmup; s < f->completed; s++) n += step_counts(f, s);
    return n;
}

/* Returns the mean of the steps that count; NaN if there are none. */
static double mean_seconds(const facts *f, const bench_case *c, const double *seconds)
{
    double sum = 0.0;
    for (int64_t s = c->warmup; s < f->completed; s++)
        if (step_counts(f, s)) sum += seconds[s];
    return sum / (double)steps_counted(f, c);
}

/* Finds the slowest copy and its step times. */
static void compare_copies(figures *g, const facts *f, const bench_case *c)
{
    int copies = c->layout.copies;
    g->step_seconds = allocate(f->total, sizeof *g->step_seconds, "step times");
    g->copy_seconds = allocate(copies, sizeof *g->copy_seconds, "the times of copies");
    for (int i = 0; i < copies; i++) {
        fill_seconds(f, c, i, g->step_seconds);
        g->copy_seconds[i] = mean_seconds(f, c, g->step_seconds);
        if (g->copy_seconds[i] > g->copy_seconds[g->slowest_copy]) g->slowest_copy = i;
    }
    fill_seconds(f, c, g->slowest_copy, g->step_seconds);
}

/* Uses only steps for which step_counts is true. */
static void summarize_seconds(figures *g, const facts *f, const bench_case *c)
{
    int64_t n = steps_counted(f, c), half = n / 2, i = 0;
    double *first = allocate(n, sizeof *first, "step times"),
           *sorted = allocate(n, sizeof *sorted, "sorted step times");
    for (int64_t s = c->warmup; s < f->completed; s++)
        if (step_counts(f, s)) first[i++] = g->step_seconds[s];
    memcpy(sorted, first, (size_t)n * sizeof *sorted);
    sort_numbers(sorted, n);
    g->minimum_seconds = sorted[0];
    g->maximum_seconds = sorted[n - 1];
    g->mean_seconds = mean_of_last(first, n, n);
    g->median_seconds = median_of(first, n);
    g->p95_seconds = quantile(sorted, n, 0.95);
    g->spread = quantile(sorted, n, 0.9) / quantile(sorted, n, 0.1);
    g->drift = median_of(first + n - half, half) / median_of(first, half);
    g->recipe_seconds = mean_of_last(first, n, c->metric_steps);
    free(sorted);
    free(first);
}

static void find_peak(figures *g, const bench_case *c)
{
    g->peak_flops = case_peak(c, g->device, c->precision);
    if (gpu_peak(g->device, c->precision) > 0.0)
        snprintf(g->peak_source, sizeof g->peak_source, "catalogue: %s", g->device);
    else if (g->peak_flops > 0.0)
        snprintf(g->peak_source, sizeof g->peak_source, "deck: peak_%s", precision_name(c->precision));
}

static void summarize_ceiling(figures *g, const bench_case *c)
{
    double fp8 = case_peak(c, g->device, PRECISION_FP8), bf16 = case_peak(c, g->device, PRECISION_BF16);
    if (c->precision != PRECISION_FP8) return;
    g->recipe_ceiling = mixed_ceiling(c->recipe_flops_per_sequence, c->recipe_block_flops_per_sequence, fp8, bf16);
    g->model_ceiling = mixed_ceiling(c->model_flops_per_sequence, c->model_block_flops_per_sequence, fp8, bf16);
    g->recipe_reached = g->recipe_mfu / g->recipe_ceiling;
    g->model_reached = g->model_mfu / g->model_ceiling;
}

static void summarize_speed(figures *g, const facts *f, const bench_case *c)
{
    double step = g->mean_seconds, peak = g->peak_flops;
    int gpus = c->layout.ranks;
    double of_copy = tokens_per_second(c->model.sequence, c->global_batch, step);
    g->tokens_per_second = c->layout.copies * of_copy;
    g->tokens_per_second_per_gpu = of_copy / gpus;
    g->tflops_per_gpu = flops_per_gpu(c->global_batch, c->recipe_flops_per_sequence, step, gpus) / 1e12;
    g->recipe_mfu = model_flops_utilization(c->global_batch, c->recipe_flops_per_sequence, step, gpus, peak);
    g->model_mfu = model_flops_utilization(c->global_batch, c->model_flops_per_sequence, step, gpus, peak);
    summarize_ceiling(g, c);
    g->joules_per_step = f->samples.joules / (double)(f->completed - c->warmup);
    g->joules_per_token = g->joules_per_step / (double)(c->layout.copies * g->tokens_per_step);
    g->days_per_trillion = c->proxy ? NAN : days_per_trillion(of_copy);
}

/* Names the first throttled device, and the first whose clocks are unknown. */
static void find_clocks(figures *g, const machine_device *d, int rank)
{
    if (d->throttled && !g->throttled[0]) {
        g->throttled_rank = rank;
        snprintf(g->throttled, sizeof g->throttled, "rank %d: %s", rank, d->throttle_reasons);
    }
    if (!d->clocks_known && !g->clocks_unknown[0]) {
        g->clocks_rank = rank;
        snprintf(g->clocks_unknown, sizeof g->clocks_unknown, "rank %d", rank);
    }
}

/* Skips devices without a name, which were not read because the run stopped in the warm-up. */
static void compare_devices(figures *g, const facts *f, int ranks)
{
    const char *first = NULL;
    bool alike = true;
    for (int i = 0; f->devices && i < 2 * ranks; i++) {
        const machine_device *d = &f->devices[i];
        if (!d->name[0]) continue;
        if (!first) first = d->name;
        alike &= strcmp(d->name, first) == 0;
        find_clocks(g, d, i / 2);
    }
    if (first && alike) snprintf(g->device, sizeof g->device, "%s", first);
    const sample_set *s = &f->samples;
    if (!g->throttled[0])
        g->throttled_rank = s->throttled_rank, snprintf(g->throttled, sizeof g->throttled, "%s", s->throttled);
    if (!g->clocks_unknown[0])
        g->clocks_rank = s->lost_rank, snprintf(g->clocks_unknown, sizeof g->clocks_unknown, "%s", s->lost);
}

bool paces_are_known(const facts *f, const bench_case *c)
{
    return c->backend == BACKEND_CUDA || f->load.threads == 1 || !host_is_oversubscribed(&f->load);
}

double own_computing(const rank_times *t, int64_t at)
{
    return fmax(t->table[RANK_COMPUTING][at] - t->table[RANK_RUN_DELAY][at], 0.0);
}

static rank_pace *paces_of(const facts *f, const bench_case *c)
{
    int ranks = c->ranks;
    int64_t first = c->warmup * ranks, steps = f->completed - c->warmup, timed = steps > 0 ? steps : 0;
    rank_pace *pace = allocate(ranks, sizeof *pace, "the paces of ranks");
    double *own = allocate(timed * ranks, sizeof *own, "the own seconds of ranks");
    for (int i = 0; i < ranks; i++)
        pace[i] = (rank_pace){ .flops = f->ranks.work[i].flops, .bytes = f->ranks.work[i].bytes };
    for (int64_t i = 0; i < timed * ranks; i++) own[i] = own_computing(&f->ranks, first + i);
    find_paces(own, paces_are_known(f, c) ? timed : 0, ranks, pace);
    free(own);
    return pace;
}

figures figures_of(const facts *f, const bench_case *c)
{
    figures g = figures_none(c);
    compare_devices(&g, f, c->ranks);
    find_peak(&g, c);
    if (!f->ranks.step) return g;
    compare_copies(&g, f, c);
    g.pace = paces_of(f, c);
    if (steps_counted(f, c) == 0) return g;
    summarize_seconds(&g, f, c);
    const step_times steps = {
        g.step_seconds,  c->warmup, f->completed, g.median_seconds, g.slowest_copy * c->layout.ranks,
        c->layout.ranks, c->ranks
    };
    g.slow = slow_steps_find(&f->ranks, &steps);
    summarize_speed(&g, f, c);
    return g;
}

void figures_free(figures *g)
{
    free(g->copy_seconds);
    free(g->step_seconds);
    free(g->pace);
}

static void insert_sorted(repeat_means *m, double seconds)
{
    int i = m->count++;
    for (; i > 0 && m->seconds[i - 1] > seconds; i--) m->seconds[i] = m->seconds[i - 1];
    m->seconds[i] = seconds;
}

void repeats_add(repeat_means *m, const bench_case *c, figures *g)
{
    int first = c->number - c->repeat + 1;
    if (m->first != first) *m = (repeat_means){ .first = first };
    if (c->repeats < 2 || isnan(g->mean_seconds)) return;
    insert_sorted(m, g->mean_seconds);
    if (c->repeat < c->repeats) return;
    double least = m->seconds[0], most = m->seconds[m->count - 1];
    g->repeated = (repeated_seconds){ .count = m->count,
                                      .median = 0.5 * (m->seconds[(m->count - 1) / 2] + m->seconds[m->count / 2]),
                                      .minimum = least,
                                      .maximum = most,
                                      .spread = most / least - 1.0 };
}
