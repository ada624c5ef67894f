/* Lines of times and speed. */
#include "bench/report/number_lines.h"
#include "base/say.h"
#include "base/text.h"
#include "bench/facts/accept.h"
#include "bench/facts/rules.h"
#include "bench/health/outliers.h"
#include "bench/health/slow_steps.h"
#include "plan/catalogue/catalogue.h"
#include "plan/catalogue/flops.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Steps are numbered as in the step lines. */
static void say_step_time(const case_result *r)
{
    const slow_steps *slow = &r->figures.slow;
    int64_t timed = steps_counted(&r->seen, r->given), metric = r->given->metric_steps;
    char rule[48] = "last step";
    if (metric > 1) snprintf(rule, sizeof rule, "last %lld steps", (long long)(metric < timed ? metric : timed));
    say("Step time  mean of %lld timed steps %.4f s, median %.4f s, p95 %.4f s\n", (long long)timed,
        r->figures.mean_seconds, r->figures.median_seconds, r->figures.p95_seconds);
    say("           as the recipe reports it (%s) %.4f s; ", rule, r->figures.recipe_seconds);
    if (!slow->count) say("none above %.3g times the median\n", SLOW_STEP);
    else
        say("%lld slow, first step %lld\n", (long long)slow->count,
            r->seen.checkpoint.loaded_step + strtoll(slow->names, NULL, 10));
}

/* Only the last repeat has the means of all repeats. */
static void say_repeats(const case_result *r)
{
    const repeated_seconds *s = &r->figures.repeated;
    long long last = r->given->repeats;
    if (r->given->repeat < last) say("Repeats    %d of %lld: judged with repeat %lld\n", r->given->repeat, last, last);
    if (s->count < 2) return;
    say("Repeats    %d of %lld: median of the means %.4f s, min %.4f s, max %.4f s; spread %.1f %%, limit %.0f %%\n",
        s->count, last, s->median, s->minimum, s->maximum, 100.0 * s->spread, 100.0 * REPEATS_LIMIT);
}

static void say_mfu(const case_result *r)
{
    const char *precision = precision_name(r->given->precision);
    if (!isnan(r->figures.recipe_mfu))
        say("; MFU %.1f %% of %.1f TFLOP/s", 100.0 * r->figures.recipe_mfu,
            case_peak(r->given, r->figures.device, r->given->precision) / 1e12);
    else if (r->figures.device[0]) say("; no MFU: no %s peak known", precision);
    else say("; no MFU: the ranks' devices differ");
}

/* Prints the speed relative to the deck's expectation, or else to the published speed of this device. */
static void say_expected(const case_result *r)
{
    const bench_case *c = r->given;
    double expected = r->ruling.expected_tokens_per_second;
    if (isnan(expected)) expected = accept_published(c, r->figures.device);
    const char *unpublished = c->size != SIZE_FULL ? "a small model" : c->recipe_layout ? "this device" : "this layout";
    if (isnan(expected)) say("; nothing published for %s\n", unpublished);
    else
        say("; %.1f %% of the %s %.1f tokens/s\n", 100.0 * r->figures.tokens_per_second / expected,
            c->expect > 0.0 ? "expected" : "published", expected);
}

static void say_speed(const case_result *r)
{
    say("Speed      %.1f tokens/s, %.1f a rank", r->figures.tokens_per_second, r->figures.tokens_per_second_per_gpu);
    say_mfu(r);
    say_expected(r);
}

/* The mean step of the slowest copy is the case's. */
static void say_slowest_copy(const case_result *r)
{
    char name[COPY_TEXT];
    int copies = r->given->layout.copies;
    double fastest = r->figures.mean_seconds;
    for (int i = 0; i < copies; i++) fastest = fmin(fastest, r->figures.copy_seconds[i]);
    if (copies > 1)
        say("Slowest    %s\n           of %d copies: mean step %.4f s, in the fastest %.4f s\n",
            copy_text(r, r->figures.slowest_copy, name), copies, r->figures.mean_seconds, fastest);
}

static void say_power(const case_result *r)
{
    const sample_set *s = &r->seen.samples;
    if (isnan(s->joules)) return;
    say("Power      ");
    if (!isnan(s->watts)) say("%.1f W a GPU on average, ", s->watts);
    say("%.4g J a step, %.4g J a token; from %s, which are no calibrated meter\n", r->figures.joules_per_step,
        r->figures.joules_per_token, s->method);
}

/* ---- shares of rank 0's timed steps ---- */

typedef struct {
    const char *before, *name, *after;
    double seconds;
} share;
enum { SHARES = OP_KINDS + TALLY_AXES + 1, SHARES_SHOWN = 3 };

static int by_seconds(const void *a, const void *b)
{
    double x = ((const share *)a)->seconds, y = ((const share *)b)->seconds;
    return (x < y) - (x > y);
}

/* Lists computing operations, exposed transfers of each axis, and idle time, largest first. Returns their number. */
static int shares_of(const tally *t, share list[SHARES])
{
    int n = 0;
    for (int k = 0; k < OP_KINDS; k++)
        if (!op_is_transfer((op_kind)k)) list[n++] = (share){ "", op_kind_name((op_kind)k), "", t->kind[k].seconds };
    for (int a = 0; a < t->axes; a++)
        list[n++] = (share){ "exposed ", t->axis[a].axis, " transfers", t->axis[a].exposed_seconds };
    list[n++] = (share){ "", "idle", "", t->idle_seconds };
    qsort(list, (size_t)n, sizeof *list, by_seconds);
    return n;
}

static double window_seconds(const case_result *r)
{
    double total = 0.0;
    for (int64_t i = r->given->warmup; i < r->seen.completed; i++) total += r->figures.step_seconds[i];
    return total;
}

static double sum_of(const share *list, int n)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++) sum += list[i].seconds;
    return sum;
}

/* Prints the largest shares that fit into a line of 110 columns. On a GPU weight gradients overlap other operations, so
 * the sum of all shares may exceed 100 %. */
static void say_shares(const case_result *r)
{
    enum { SHARES_COLUMNS = 110 - 11 - 22 - 24 };
    share list[SHARES];
    char text[SHARES_COLUMNS + 1] = "", next[SHARES_COLUMNS];
    double total = window_seconds(r), shown = 0.0;
    int n = shares_of(&r->seen.tally, list);
    for (int i = 0; i < n && i < SHARES_SHOWN; i++) {
        snprintf(next, sizeof next, "%s%s%s %.1f %%, ", list[i].before, list[i].name, list[i].after,
                 100.0 * list[i].seconds / total);
        if (strlen(text) + strlen(next) > SHARES_COLUMNS) break;
        strcat(text, next);
        shown += list[i].seconds;
    }
    double all = sum_of(list, n);
    say("Time       %sother %.1f %% (rank 0", text, 100.0 * (fmax(all, total) - shown) / total);
    if (all > 1.005 * total) say("; %.1f %% overlap", 100.0 * (all / total - 1.0));
    say(")\n");
}

/* ---- ranks ---- */

static double mean_own_computing(const case_result *r, int rank)
{
    const bench_case *c = r->given;
    double seconds = 0.0;
    for (int64_t s = c->warmup; s < r->seen.completed; s++)
        seconds += own_computing(&r->seen.ranks, s * c->ranks + rank);
    return seconds / (double)(r->seen.completed - c->warmup);
}

static void say_paces(const case_result *r)
{
    int slow = 0, judged = 0, ranks = r->given->ranks;
    for (int i = 0; i < ranks; i++) {
        slow += pace_is_outlier(&r->figures.pace[i]);
        judged += !isnan(r->figures.pace[i].excess);
    }
    if (!paces_are_known(&r->seen, r->given)) say("; not judged: their threads share cores\n");
    else if (slow) say("; %d rank%s %s slow\n", slow, plural(slow), slow > 1 ? "are" : "is");
    else if (judged == ranks) say("; no rank is slow\n");
    else if (r->seen.completed - r->given->warmup < BLOCKS) say("; not judged: fewer than %d steps\n", BLOCKS);
    else say("; %d of %d not judged: their work differs\n", ranks - judged, ranks);
}

/* Prints the rank that computes longest, and whether a rank is slow. */
static void say_ranks(const case_result *r)
{
    int ranks = r->given->ranks, worst = 0;
    double mean = 0.0, most = 0.0;
    if (ranks == 1) return;
    for (int i = 0; i < ranks; i++) {
        double seconds = mean_own_computing(r, i);
        mean += seconds / ranks;
        if (seconds > most) most = seconds, worst = i;
    }
    say("Ranks      computing %.4f s a step, at most %.4f s (rank %d)", mean, most, worst);
    say_paces(r);
}

/* Prints the libraries of attention and products on GPUs, because a missing one can cost a sixth of the speed. */
static void say_engines(const case_result *r)
{
    const char *text = r->seen.engines;
    if (r->given->backend == BACKEND_CUDA) say("Engines    %.*s\n", (int)strcspn(text, "\n"), text);
}

void say_numbers(const case_result *r)
{
    say_step_time(r);
    say_repeats(r);
    say_speed(r);
    say_slowest_copy(r);
    say_power(r);
    say_shares(r);
    say_engines(r);
    if (r->seen.transfers[0]) say("Transfers  %s\n", r->seen.transfers);
    say_ranks(r);
}
