/* Numbers of a case. */
#include "bench/report/number_lines.h"
#include "base/say.h"
#include "bench/facts/accept.h"
#include "bench/facts/rules.h"
#include "bench/health/slow_steps.h"
#include "bench/report/rank_lines.h"
#include "bench/report/sample_lines.h"
#include "model/fp8.h"
#include "plan/catalogue/catalogue.h"
#include "plan/catalogue/flops.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say_step_time(const case_result *r)
{
    int64_t timed = steps_counted(&r->seen, r->given);
    say("Step time  mean of %lld timed steps %.4f s, median %.4f s, p95 %.4f s; ", (long long)timed,
        r->figures.mean_seconds, r->figures.median_seconds, r->figures.p95_seconds);
    if (!r->figures.slow.count) say("none above %.3g times the median\n", SLOW_STEP);
    else
        say("%lld slow, the first %.*s\n", (long long)r->figures.slow.count, (int)strcspn(r->figures.slow.names, " "),
            r->figures.slow.names);
}

/* The last repeat is judged by the means of all. */
static void say_repeats(const case_result *r)
{
    const repeated_seconds *s = &r->figures.repeated;
    long long last = r->given->repeats;
    if (r->given->repeat < last) say("Repeats    %d of %lld: judged with repeat %lld\n", r->given->repeat, last, last);
    if (s->count < 2) return;
    say("Repeats    %d of %lld: median of the means %.4f s, min %.4f, max %.4f; spread %.1f %%, limit %.0f %%\n",
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

/* What the deck expects, or else what is published of the case on this device. */
static void say_expected(const case_result *r)
{
    const bench_case *c = r->given;
    double expected = r->ruling.expected_tokens_per_second;
    if (isnan(expected)) expected = accept_published(c, r->figures.device);
    const char *lacking = c->size != SIZE_FULL ? "a small model" : c->recipe_layout ? "this device" : "this layout";
    if (isnan(expected)) say("; nothing published for %s\n", lacking);
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

/* ---- where rank 0's timed steps went ---- */

typedef struct {
    const char *before, *name;
    double seconds;
} share;
enum { SHARES = OP_KINDS + TALLY_AXES + 1, SHARES_SHOWN = 3 };

static int by_seconds(const void *a, const void *b)
{
    double x = ((const share *)a)->seconds, y = ((const share *)b)->seconds;
    return (x < y) - (x > y);
}

/* Fills the shares, the largest first: computing operations, exposed waiting by axis, idle time. Returns their count.
 */
static int shares_of(const tally *t, share list[SHARES])
{
    int n = 0;
    for (int k = 0; k < OP_KINDS; k++)
        if (!op_is_transfer((op_kind)k)) list[n++] = (share){ "", op_kind_name((op_kind)k), t->kind[k].seconds };
    for (int a = 0; a < t->axes; a++)
        list[n++] = (share){ "waiting for ", t->axis[a].axis, t->axis[a].exposed_seconds };
    list[n++] = (share){ "", "idle", t->idle_seconds };
    qsort(list, (size_t)n, sizeof *list, by_seconds);
    return n;
}

static double window_seconds(const case_result *r)
{
    double total = 0.0;
    for (int64_t i = r->given->warmup; i < r->seen.completed; i++) total += r->figures.step_seconds[i];
    return total;
}

/* As many of the largest shares as a line of 110 columns has room for. */
static void say_shares(const case_result *r)
{
    enum { ROOM = 110 - 11 - 22 };
    share list[SHARES];
    char text[ROOM + 1] = "", next[ROOM];
    double total = window_seconds(r), shown = 0.0;
    int n = shares_of(&r->seen.tally, list);
    for (int i = 0; i < n && i < SHARES_SHOWN; i++) {
        snprintf(next, sizeof next, "%s%s %.1f %%, ", list[i].before, list[i].name, 100.0 * list[i].seconds / total);
        if (strlen(text) + strlen(next) > ROOM) break;
        strcat(text, next);
        shown += list[i].seconds;
    }
    say("Time       %sother %.1f %% (rank 0)\n", text, 100.0 * fmax(0.0, 1.0 - shown / total));
}

void say_numbers(const case_result *r)
{
    say_step_time(r);
    say_repeats(r);
    say_speed(r);
    say_shares(r);
    say_ranks(r);
}

/* ---- with --verbose ---- */

static void say_profile(const case_result *r)
{
    share list[SHARES];
    double total = window_seconds(r);
    int n = shares_of(&r->seen.tally, list);
    say("Profile    ");
    for (int i = 0; i < n; i++)
        if (list[i].seconds > 0.005 * total)
            say("%s%s %.1f %%, ", list[i].before, list[i].name, 100.0 * list[i].seconds / total);
    say("dispatch %.2f %%", 100.0 * r->seen.tally.dispatch_seconds / total);
    if (r->seen.tally.beside_seconds > 0.0)
        say("; of these %.1f %% at the same time as others (weight gradients, sums)",
            100.0 * r->seen.tally.beside_seconds / total);
    say("\n");
}

/* Leaves out transfers of a few numbers. */
static void say_transfers(const case_result *r)
{
    const char *before = "Transfers  ";
    for (const tally_transfer *x = r->seen.tally.transfer; x < r->seen.tally.transfer + r->seen.tally.transfers; x++) {
        if (x->bytes < 1e4 * (double)x->messages) continue;
        say("%s%s %.3g GB/s (%lld of %.3g MB)", before, x->name, x->bytes_per_second / 1e9, (long long)x->messages,
            x->bytes / (double)x->messages / 1e6);
        before = ", ";
    }
    if (before[0] == ',') say("\n");
}

static void say_ceiling(const case_result *r)
{
    if (isnan(r->figures.recipe_ceiling)) return;
    say("Ceiling    recipe MFU %.2f %%, model MFU %.2f %% with attention and LM head at the BF16 peak; reached %.1f "
        "%%, "
        "%.1f %% of it\n",
        100.0 * r->figures.recipe_ceiling, 100.0 * r->figures.model_ceiling, 100.0 * r->figures.recipe_reached,
        100.0 * r->figures.model_reached);
}

/* Underflowed, saturated, range of scales. */
static void say_fp8(const case_result *r)
{
    const fp8_facts *x = r->seen.fp8;
    if (r->given->precision != PRECISION_FP8) return;
    say("FP8       ");
    for (int i = 0; i < FP8_KINDS; i++)
        say("%s %s %.2g %% to 0, %.2g %% saturated, scales %.3g to %.3g", i ? ";" : "", fp8_kind_name((fp8_kind)i),
            100.0 * x[i].underflowed, 100.0 * x[i].saturated, x[i].scale_least, x[i].scale_most);
    say("\n");
}

/* Of the last step. */
static void say_experts(const case_result *r)
{
    int64_t last = r->seen.completed - 1;
    if (!r->given->model.experts || last < 0) return;
    double tokens = (double)(r->figures.tokens_per_step * r->given->model.layers),
           choices = tokens * (double)r->given->model.active;
    say("Experts    balance loss %.6f, dropped %.0f of %.0f choices; before that an expert of a layer has %.0f to "
        "%.0f, variation %.3f\n",
        r->seen.routed[ROUTED_BALANCE][last], r->seen.routed[ROUTED_DROPS][last], choices,
        r->seen.routed[ROUTED_LEAST][last], r->seen.routed[ROUTED_MOST][last], r->seen.routed[ROUTED_VARIATION][last]);
}

/* With the limits of the run rules. */
static void say_steadiness(const case_result *r)
{
    if (isnan(r->figures.drift)) return;
    say("Steadiness spread %.3f (p90 / p10, at most %.3g), drift %.3f (last half / first half, at most %.3g either "
        "way)\n",
        r->figures.spread, SPREAD_LIMIT, r->figures.drift, DRIFT_LIMIT);
}

static void say_peak(const case_result *r)
{
    const char *precision = precision_name(r->given->precision);
    double known = gpu_peak(r->figures.device, r->given->precision), given = deck_peak(r->given, r->given->precision);
    if (!isnan(r->figures.model_mfu))
        say("Peak       recipe MFU %.2f %%, model MFU %.2f %% of %.1f TFLOP/s%s\n", 100.0 * r->figures.recipe_mfu,
            100.0 * r->figures.model_mfu, case_peak(r->given, r->figures.device, r->given->precision) / 1e12,
            known > 0.0 ? "" : ", given by the deck");
    if (known > 0.0 && given > 0.0 && given != known)
        say("Peak       peak_%s = %g of the deck is not used: %.1f TFLOP/s is known of this device\n", precision,
            given / 1e12, known / 1e12);
}

static void say_recipe_time(const case_result *r)
{
    int64_t asked = r->given->metric_steps, steps = r->seen.completed - r->given->warmup,
            last = asked < steps ? asked : steps;
    say("Step time  min %.4f s, max %.4f s; %.4f s by the recipe's rule: the mean of the last %lld\n",
        r->figures.minimum_seconds, r->figures.maximum_seconds, r->figures.recipe_seconds, (long long)last);
    if (!r->figures.slow.count) return;
    say("Slow steps %lld took more than %.3g times the median: %s", (long long)r->figures.slow.count, SLOW_STEP,
        r->figures.slow.names);
    if (r->figures.slow.count > SLOW_STEPS_NAMED)
        say(" and %lld more", (long long)r->figures.slow.count - SLOW_STEPS_NAMED);
    say("\n");
}

static void say_memory(const case_result *r)
{
    say("Memory     arena %.3f MB on rank 0; outside it at most %.1f MB a rank (libraries, MPI, references)",
        (double)r->seen.arena_bytes / 1e6, r->seen.outside_bytes / 1e6);
    if (r->given->backend == BACKEND_CUDA)
        say(", %.1f MB on a GPU (context, libraries, all processes), of which communicators %.1f MB on rank 0",
            r->seen.device_outside_bytes / 1e6, r->seen.devices[1].communicator_bytes / 1e6);
    say("\n");
}

void say_number_details(const case_result *r)
{
    say_recipe_time(r);
    say_steadiness(r);
    say_experts(r);
    say_peak(r);
    say_ceiling(r);
    say_fp8(r);
    say_clocks(r);
    say_samples(r);
    say("Engines    %.*s\n", (int)strcspn(r->seen.engines, "\n"), r->seen.engines);
    say_profile(r);
    say_transfers(r);
    say_rank_details(r);
    say("Rate       %.5f TFLOP/s a rank", r->figures.tflops_per_gpu);
    if (!isnan(r->figures.days_per_trillion)) say("; %.2f days for 1T tokens", r->figures.days_per_trillion);
    say("\n");
    say_memory(r);
}
