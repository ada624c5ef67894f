/* A result: what is not known is NaN. */
#include "bench/facts/result.h"
#include "base/fail.h"
#include "base/text.h"
#include "bench/facts/statistics.h"
#include "machine/world.h"
#include "model/fp8.h"
#include "plan/catalogue/flops.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const verdict_words[VERDICTS] = { "PASSED", "FAILED", "SKIPPED", "INTERRUPTED" };
const char *const acceptance_words[] = { "", "ACCEPTED", "NOT ACCEPTED", "judged with the last repeat" };

static double *nan_array(int64_t length)
{
    double *array = malloc((size_t)length * sizeof *array);
    if (!array) FAIL("out of memory for %lld numbers of a result", (long long)length);
    for (int64_t i = 0; i < length; i++) array[i] = NAN;
    return array;
}

/* NaN: what nothing has computed. */
static case_result empty_result(const bench_case *c)
{
    case_result r = { .given = c, .tokens_per_step = c->global_batch * c->model.sequence };
    r.spread = r.drift = NAN;
    r.expected_tokens_per_second = NAN;
    r.mean_seconds = r.median_seconds = r.p95_seconds = NAN;
    r.minimum_seconds = r.maximum_seconds = r.recipe_seconds = NAN;
    r.repeated = (repeated_seconds){ 0, NAN, NAN, NAN, NAN };
    r.tokens_per_second = r.tokens_per_second_per_gpu = r.tflops_per_gpu = NAN;
    r.recipe_mfu = r.model_mfu = r.days_per_trillion = NAN;
    r.samples = (sample_set){ .joules = NAN, .method = "", .others_cores = NAN };
    r.joules_per_token = NAN;
    r.recipe_ceiling = r.model_ceiling = r.recipe_reached = r.model_reached = NAN;
    for (int i = 0; i < FP8_KINDS; i++) r.fp8[i] = (fp8_figures){ NAN, NAN, NAN, NAN };
    r.check =
        (check_result){ .residual = NAN, .loss = NAN, .gradient_first = NAN, .gradient_fourth = NAN, .weights = NAN };
    return r;
}

bool load_is_crowded(const host_load *l) { return l->node_ranks * l->threads > fmin(l->cores, l->quota); }

void result_open(case_result *r, const bench_case *c)
{
    int64_t total = c->warmup + c->steps;
    *r = empty_result(c);
    r->total = total;
    r->loss = nan_array(total);
    r->gradient_norm = nan_array(total);
    r->learning_rate = nan_array(total);
    r->step_seconds = nan_array(total);
    for (int i = 0; i < ROUTED_FIGURES; i++) r->routed[i] = nan_array(total);
    r->fp8_tensors = c->precision == PRECISION_FP8 ? fp8_tensors(c) : 0;
    r->fp8_scale = nan_array(total * r->fp8_tensors);
    if (world_rank() != 0) return;
    r->rank_seconds = nan_array(total * c->layout.ranks);
    for (int i = 0; i < RANK_TABLES; i++) r->rank_table[i] = nan_array(total * c->layout.ranks);
    r->pace = calloc((size_t)c->layout.ranks, sizeof *r->pace);
    r->devices = calloc((size_t)c->layout.ranks * 2, sizeof *r->devices);
    if (!r->pace || !r->devices) FAIL("out of memory for the ranks of a result");
    for (int i = 0; i < c->layout.ranks; i++) r->pace[i].excess = r->pace[i].error = NAN;
}

static double *longer(double *list, int64_t length)
{
    double *array = realloc(list, ((size_t)length + 1) * sizeof *array);
    if (!array) FAIL("out of memory for %lld numbers of a result", (long long)length);
    return array;
}

static void resize_table(double **table, int64_t length)
{
    free(*table);
    *table = nan_array(length);
}

/* Tables are filled when all ranks have ended: until then they are small. */
void result_resize(case_result *r, int64_t total)
{
    int64_t entries = total > r->total ? 0 : total * r->given->layout.ranks;
    r->loss = longer(r->loss, total);
    r->gradient_norm = longer(r->gradient_norm, total);
    r->learning_rate = longer(r->learning_rate, total);
    r->step_seconds = longer(r->step_seconds, total);
    for (int i = 0; i < ROUTED_FIGURES; i++) r->routed[i] = longer(r->routed[i], total);
    r->fp8_scale = longer(r->fp8_scale, total * r->fp8_tensors);
    if (r->rank_seconds) resize_table(&r->rank_seconds, entries);
    for (int i = 0; r->rank_seconds && i < RANK_TABLES; i++) resize_table(&r->rank_table[i], entries);
    r->total = total;
}

const char *result_progress(const case_result *r, char text[PROGRESS_TEXT])
{
    const bench_case *c = r->given;
    int64_t timed = r->completed > c->warmup ? r->completed - c->warmup : 0;
    int used = snprintf(text, PROGRESS_TEXT, "%lld of %s%lld step%s", (long long)timed,
                        c->minutes > 0.0 ? "at least " : "", (long long)c->steps, plural(c->steps));
    if (c->warmup)
        snprintf(text + used, PROGRESS_TEXT - (size_t)used, " and %lld of %lld of warm-up",
                 (long long)(r->completed - timed), (long long)c->warmup);
    return text;
}

void result_skip(case_result *r, const bench_case *c, const char *reason)
{
    *r = empty_result(c);
    r->verdict = VERDICT_SKIPPED;
    snprintf(r->skipped, sizeof r->skipped, "%s", reason);
    snprintf(r->comparison, sizeof r->comparison, "%s", verdict_words[VERDICT_SKIPPED]);
    result_invalidate(r, "SKIPPED: %s", reason);
}

void result_close(case_result *r)
{
    free(r->loss);
    free(r->gradient_norm);
    free(r->learning_rate);
    for (int i = 0; i < ROUTED_FIGURES; i++) free(r->routed[i]);
    free(r->step_seconds);
    free(r->rank_seconds);
    for (int i = 0; i < RANK_TABLES; i++) free(r->rank_table[i]);
    free(r->pace);
    free(r->fp8_scale);
    free(r->devices);
    free(r->samples.list);
    free(r->spans);
    *r = (case_result){ .given = NULL };
}

/* Of the timed steps that finished. */
static void summarize_seconds(case_result *r)
{
    int64_t n = r->completed - r->given->warmup, half = n / 2;
    const double *first = r->step_seconds + r->given->warmup;
    double *sorted = malloc((size_t)n * sizeof *sorted);
    if (!sorted) FAIL("no memory to sort %lld step times", (long long)n);
    memcpy(sorted, first, (size_t)n * sizeof *sorted);
    sort_numbers(sorted, n);
    r->minimum_seconds = sorted[0];
    r->maximum_seconds = sorted[n - 1];
    r->mean_seconds = mean_of_last(first, n, n);
    r->median_seconds = median_of(first, n);
    r->p95_seconds = quantile(sorted, n, 0.95);
    r->spread = quantile(sorted, n, 0.9) / quantile(sorted, n, 0.1);
    r->drift = median_of(first + n - half, half) / median_of(first, half);
    r->recipe_seconds = mean_of_last(first, n, r->given->metric_steps);
    free(sorted);
}

static void summarize_ceiling(case_result *r)
{
    const bench_case *c = r->given;
    double fp8 = case_peak(c, r->device, PRECISION_FP8), bf16 = case_peak(c, r->device, PRECISION_BF16);
    if (c->precision != PRECISION_FP8) return;
    r->recipe_ceiling = mixed_ceiling(c->recipe_flops_per_sequence, c->recipe_block_flops_per_sequence, fp8, bf16);
    r->model_ceiling = mixed_ceiling(c->model_flops_per_sequence, c->model_block_flops_per_sequence, fp8, bf16);
    r->recipe_reached = r->recipe_mfu / r->recipe_ceiling;
    r->model_reached = r->model_mfu / r->model_ceiling;
}

void result_summarize(case_result *r)
{
    const bench_case *c = r->given;
    if (r->completed <= c->warmup) return;
    summarize_seconds(r);
    double step = r->mean_seconds, peak = case_peak(c, r->device, c->precision);
    int gpus = c->layout.ranks;
    r->tokens_per_second = tokens_per_second(c->model.sequence, c->global_batch, step);
    r->tokens_per_second_per_gpu = r->tokens_per_second / gpus;
    r->tflops_per_gpu = flops_per_gpu(c->global_batch, c->recipe_flops_per_sequence, step, gpus) / 1e12;
    r->recipe_mfu = model_flops_utilization(c->global_batch, c->recipe_flops_per_sequence, step, gpus, peak);
    r->model_mfu = model_flops_utilization(c->global_batch, c->model_flops_per_sequence, step, gpus, peak);
    summarize_ceiling(r);
    r->joules_per_token = r->samples.joules / (double)((r->completed - c->warmup) * r->tokens_per_step);
    r->days_per_trillion = c->proxy ? NAN : days_per_trillion(r->tokens_per_second);
}

const char *fp8_kind_name(fp8_kind kind)
{
    static const char *const names[FP8_KINDS] = { "input", "weight", "gradient" };
    return names[kind];
}

/* The mean of the parts: every step makes codes of as many values. */
void result_add_fp8(case_result *r, int64_t step, const fp8_figures kind[FP8_KINDS])
{
    double before = (double)(step - r->given->warmup);
    for (int i = 0; i < FP8_KINDS && before >= 0.0; i++) {
        fp8_figures old = before > 0.0 ? r->fp8[i] : kind[i], *sum = &r->fp8[i];
        sum->underflowed = (before * old.underflowed + kind[i].underflowed) / (before + 1.0);
        sum->saturated = (before * old.saturated + kind[i].saturated) / (before + 1.0);
        sum->scale_least = fmin(old.scale_least, kind[i].scale_least);
        sum->scale_most = fmax(old.scale_most, kind[i].scale_most);
    }
}

static int by_end(const void *a, const void *b)
{
    double x = ((const span *)a)->end, y = ((const span *)b)->end;
    return (x > y) - (x < y);
}

static void add_spans(case_result *r, const machine *m, int64_t step)
{
    int64_t count;
    const span *all = machine_spans(m, &count);
    r->spans = malloc((size_t)(count ? count : 1) * sizeof *r->spans);
    if (!r->spans) FAIL("out of memory for %lld spans of a result", (long long)count);
    for (int64_t i = 0; i < count; i++)
        if (all[i].origin.step == step) r->spans[r->span_count++] = all[i];
    double first = INFINITY;
    for (int64_t i = 0; i < r->span_count; i++) first = fmin(first, r->spans[i].begin);
    for (int64_t i = 0; i < r->span_count; i++) r->spans[i].begin -= first, r->spans[i].end -= first;
    qsort(r->spans, (size_t)r->span_count, sizeof *r->spans, by_end);
}

void result_add_time(case_result *r, const machine *m, int64_t step, double seconds)
{
    tally *t = &r->tally;
    add_spans(r, m, step);
    t->idle_seconds = r->given->backend == BACKEND_HOST ? seconds - t->dispatch_seconds : seconds;
    for (int p = 0; p < PHASES; p++) t->idle_seconds -= t->phase_seconds[p];
    for (int a = 0; a < t->axes; a++) t->idle_seconds -= t->axis[a].exposed_seconds;
    t->idle_seconds += t->beside_seconds;
    if (t->idle_seconds < 0.0) t->idle_seconds = 0.0;
}

static void add_shadow(shadow_report *to, const shadow_report *s)
{
    to->operations += s->operations;
    to->elements += s->elements;
    to->left_out += s->left_out;
    to->products += s->products;
    to->comparisons += s->comparisons;
    if (s->worst_comparison >= to->worst_comparison) {
        to->worst_comparison = s->worst_comparison;
        memcpy(to->worst_product, s->worst_product, sizeof to->worst_product);
    }
    if (s->left_out && !to->first_left_out[0]) memcpy(to->first_left_out, s->first_left_out, sizeof to->first_left_out);
    if (s->worst >= to->worst) {
        to->worst = s->worst;
        memcpy(to->worst_operation, s->worst_operation, sizeof to->worst_operation);
    }
    if (s->failed && !to->failed) {
        memcpy(to->sentence, s->sentence, sizeof to->sentence);
        memcpy(to->file, s->file, sizeof to->file);
        memcpy(to->unwritten, s->unwritten, sizeof to->unwritten);
    }
    to->failed += s->failed;
}

void result_add_machine(case_result *r, const machine *m, shadow_report *seen)
{
    const hazard_report *h = machine_hazards(m);
    if (h->count && !r->hazards) snprintf(r->hazard, sizeof r->hazard, "%s", h->sentence[0]);
    r->hazards += h->count;
    r->faults += prove_faults(m);
    if (prove_shadowed(m)) add_shadow(seen, prove_shadowed(m));
}

static void add_reason(char list[CASE_REASONS][REASON_LENGTH], int *count, const char *format, va_list arguments)
{
    char reason[REASON_LENGTH];
    vsnprintf(reason, sizeof reason, format, arguments);
    for (int i = 0; i < *count; i++)
        if (strcmp(list[i], reason) == 0) return;
    if (*count < CASE_REASONS) strcpy(list[(*count)++], reason);
}

void result_fail(case_result *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_reason(r->fail_reason, &r->fail_reasons, format, arguments);
    va_end(arguments);
}

void result_invalidate(case_result *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_reason(r->invalid_reason, &r->invalid_reasons, format, arguments);
    va_end(arguments);
}
