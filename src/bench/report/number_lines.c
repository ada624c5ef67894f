/* Numbers of a case. */
#include "bench/report/number_lines.h"
#include "base/say.h"
#include "bench/report/rank_lines.h"
#include "bench/report/sample_lines.h"
#include "bench/result/repeats.h"
#include "bench/result/rules.h"
#include "bench/slow/slow_steps.h"
#include "plan/catalogue/flops.h"
#include <math.h>
#include <string.h>

/* Where rank 0's measured window went: computing operations, transfers that nothing hid, the dispatcher. */
static void say_profile(const case_result *r)
{
    const tally *t = &r->tally;
    double total = 0.0;
    for (int64_t i = r->given->warmup; i < r->completed; i++) total += r->step_seconds[i];
    say("Profile   ");
    for (int k = 0; k < OP_KINDS; k++)
        if (!op_is_transfer((op_kind)k) && t->kind[k].seconds > 0.005 * total)
            say(" %s %.1f %%,", op_kind_name((op_kind)k), 100.0 * t->kind[k].seconds / total);
    for (int a = 0; a < t->axes; a++)
        say(" waiting for %s %.1f %%,", t->axis[a].axis, 100.0 * t->axis[a].exposed_seconds / total);
    say(" idle %.1f %%, dispatch %.2f %%", 100.0 * t->idle_seconds / total, 100.0 * t->dispatch_seconds / total);
    if (t->beside_seconds > 0.0)
        say("; of these %.1f %% beside others (weight gradients, sums)", 100.0 * t->beside_seconds / total);
    say("\n");
}

/* So that a starved one shows; without those of a few numbers. */
static void say_transfers(const case_result *r)
{
    const char *before = "Transfers  ";
    for (const tally_transfer *x = r->tally.transfer; x < r->tally.transfer + r->tally.transfers; x++) {
        if (x->bytes < 1e4 * (double)x->messages) continue;
        say("%s%s %.3g GB/s (%lld of %.3g MB)", before, x->name, x->bytes_per_second / 1e9, (long long)x->messages,
            x->bytes / (double)x->messages / 1e6);
        before = ", ";
    }
    if (before[0] == ',') say("\n");
}

static void say_peak(const case_result *r)
{
    const char *precision = precision_name(r->given->precision);
    double known = gpu_peak(r->device, r->given->precision), given = deck_peak(r->given, r->given->precision);
    if (!isnan(r->recipe_mfu))
        say("; recipe MFU %.2f %%, model MFU %.2f %% of %.1f TFLOP/s%s\n", 100.0 * r->recipe_mfu, 100.0 * r->model_mfu,
            case_peak(r->given, r->device, r->given->precision) / 1e12, known > 0.0 ? "" : ", given by the deck");
    else if (r->device[0]) say("; MFU n/a: no %s peak is known for this device, %s\n", precision, r->device);
    else say("; MFU n/a: the ranks' devices differ\n");
    if (known > 0.0 && given > 0.0 && given != known)
        say("Peak       peak_%s = %g of the deck is not used: %.1f TFLOP/s is known of this device\n", precision,
            given / 1e12, known / 1e12);
}

static void say_ceiling(const case_result *r)
{
    if (isnan(r->recipe_ceiling)) return;
    say("Ceiling    recipe MFU %.2f %%, model MFU %.2f %% with attention and LM head at the BF16 peak; reached %.1f "
        "%%, "
        "%.1f %% of it\n",
        100.0 * r->recipe_ceiling, 100.0 * r->model_ceiling, 100.0 * r->recipe_reached, 100.0 * r->model_reached);
}

/* Underflowed, saturated, range of scales. */
static void say_fp8(const case_result *r)
{
    const fp8_figures *x = r->fp8;
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
    int64_t last = r->completed - 1;
    if (!r->given->model.experts || last < 0) return;
    double tokens = (double)(r->tokens_per_step * r->given->model.layers),
           choices = tokens * (double)r->given->model.active;
    say("Experts    balance loss %.6f, dropped %.0f of %.0f choices; before that an expert of a layer has %.0f to "
        "%.0f, variation %.3f\n",
        r->routed[ROUTED_BALANCE][last], r->routed[ROUTED_DROPS][last], choices, r->routed[ROUTED_LEAST][last],
        r->routed[ROUTED_MOST][last], r->routed[ROUTED_VARIATION][last]);
}

/* With the limits of the run rules. */
static void say_steadiness(const case_result *r)
{
    if (isnan(r->drift)) return;
    say("Steadiness spread %.3f (p90 / p10, at most %.3g), drift %.3f (last half / first half, at most %.3g either "
        "way)\n",
        r->spread, SPREAD_LIMIT, r->drift, DRIFT_LIMIT);
}

static void say_slow_steps(const case_result *r)
{
    if (!r->slow_steps) return;
    say("Slow steps %lld took more than %.3g times the median: %s", (long long)r->slow_steps, SLOW_STEP,
        r->slow_step_names);
    if (r->slow_steps > SLOW_STEPS_NAMED) say(" and %lld more", (long long)r->slow_steps - SLOW_STEPS_NAMED);
    say("\n");
}

/* The last repeat is judged by the means of all. */
static void say_repeats(const case_result *r)
{
    const repeated_seconds *s = &r->repeated;
    long long last = r->given->repeats;
    if (r->given->repeat < last) say("Repeats    %d of %lld: judged with repeat %lld\n", r->given->repeat, last, last);
    if (s->count < 2) return;
    say("Repeats    %d of %lld: median of the means %.4f s, min %.4f, max %.4f; spread %.1f %%, limit %.0f %%\n",
        s->count, last, s->median, s->minimum, s->maximum, 100.0 * s->spread, 100.0 * REPEATS_LIMIT);
}

void say_numbers(const case_result *r)
{
    say("Step time  mean %.4f s, median %.4f, p95 %.4f, min %.4f, max %.4f; %.4f by the recipe's rule: ",
        r->mean_seconds, r->median_seconds, r->p95_seconds, r->minimum_seconds, r->maximum_seconds, r->recipe_seconds);
    int64_t asked = r->given->metric_steps, steps = r->completed - r->given->warmup,
            last = asked < steps ? asked : steps;
    say(last == 1 ? "the last step\n" : "mean of the last %lld steps\n", (long long)last);
    say_steadiness(r);
    say_slow_steps(r);
    say_repeats(r);
    say_experts(r);
    say("Speed      %.1f tokens/s, %.1f tokens/s/GPU, %.5f TFLOP/s/GPU", r->tokens_per_second,
        r->tokens_per_second_per_gpu, r->tflops_per_gpu);
    say_peak(r);
    say_ceiling(r);
    say_fp8(r);
    say_clocks(r);
    say_samples(r);
    say("Engines    %.*s\n", (int)strcspn(r->engines, "\n"), r->engines);
    say_profile(r);
    say_transfers(r);
    say_ranks(r);
    if (isnan(r->days_per_trillion)) say("Days       n/a for 1T tokens: a proxy model\n");
    else say("Days       %.2f for 1T tokens\n", r->days_per_trillion);
    say("Memory     arena %.3f MB on rank 0; outside it at most %.1f MB a rank (libraries, MPI, references)",
        (double)r->arena_bytes / 1e6, r->outside_bytes / 1e6);
    if (r->given->backend == BACKEND_CUDA)
        say(", %.1f MB on a GPU (context, libraries, all processes), of which communicators %.1f MB on rank 0",
            r->device_outside_bytes / 1e6, r->window[1].communicator_bytes / 1e6);
    say("\n");
}
