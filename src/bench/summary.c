/* The numbers of the measured window. */
#include "bench/summary.h"
#include "base/fail.h"
#include "plan/catalogue/flops.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void window(case_result *r)
{
    int64_t n = r->given->steps;
    const double *first = r->step_seconds + r->given->warmup;
    double *sorted = malloc((size_t)n * sizeof *sorted);
    if (!sorted) FAIL("no memory to sort %lld step times", (long long)n);
    memcpy(sorted, first, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, ascending);
    r->minimum_seconds = sorted[0];
    r->maximum_seconds = sorted[n - 1];
    r->median_seconds = 0.5 * (sorted[(n - 1) / 2] + sorted[n / 2]);
    r->recipe_seconds = first[n - 1];
    free(sorted);
}

void summarize(case_result *r)
{
    const bench_case *c = r->given;
    window(r);
    double step = r->median_seconds, peak = gpu_peak(r->device, c->precision);
    int gpus = c->layout.ranks;
    r->tokens_per_second = tokens_per_second(c->model.sequence, c->global_batch, step);
    r->tokens_per_second_per_gpu = r->tokens_per_second / gpus;
    r->tflops_per_gpu = flops_per_gpu(c->global_batch, c->recipe_flops_per_sequence, step, gpus) / 1e12;
    r->recipe_mfu = model_flops_utilization(c->global_batch, c->recipe_flops_per_sequence, step, gpus, peak);
    r->model_mfu = model_flops_utilization(c->global_batch, c->model_flops_per_sequence, step, gpus, peak);
    r->days_per_trillion = c->proxy ? NAN : days_per_trillion(r->tokens_per_second);
}
