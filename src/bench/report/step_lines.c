/* The step lines of the recipes. They keep the recipes' words, because users search for them. */
#include "bench/report/step_lines.h"
#include "base/say.h"
#include "plan/catalogue/flops.h"
#include <math.h>

double steps_seconds_left(const bench_case *c, const step_now *now, double step_seconds)
{
    return fmax(step_seconds * (double)(c->warmup + c->steps - 1 - now->step), now->soak_seconds);
}

static double mean_seconds(const step_now *now) { return now->spent_seconds / (double)(now->step + 1); }

int64_t steps_last(const bench_case *c, const step_now *now)
{
    double mean = mean_seconds(now);
    return now->step + (int64_t)ceil(steps_seconds_left(c, now, mean) / mean - 1e-6);
}

/* Returns the number of a step, counted on from the loaded checkpoint. consumed_samples counts its steps with this
 * case's batch. */
static int64_t step_printed(const case_result *r, int64_t step) { return r->seen.checkpoint.loaded_step + step; }

static void say_completed(const case_result *r, const step_now *now)
{
    const bench_case *c = r->given;
    int64_t step = now->step;
    double seconds = r->seen.own_seconds[step], tokens = (double)r->figures.tokens_per_step;
    say("completed step: %lld, seconds: %.4f, TFLOP/s/device: %.5f, Tokens/s/device: %.3f, total_weights: %.0f, loss: "
        "%.6f\n",
        (long long)step_printed(r, step), seconds,
        flops_per_gpu(c->global_batch, c->recipe_flops_per_sequence, seconds, c->layout.ranks) / 1e12,
        tokens / seconds / c->layout.ranks, tokens, r->seen.loss[step]);
}

/* Memory is that of rank 0's arena: all of it, and what remains between steps. */
static void say_iteration(const case_result *r, const step_now *now)
{
    const bench_case *c = r->given;
    int64_t step = now->step, number = step_printed(r, step), last = step_printed(r, steps_last(c, now));
    const size_t *bytes = r->seen.bytes_by_kind;
    say("Training epoch 0, iteration %*lld/%lld | lr: %.3e | global_batch_size: %lld | global_step: %*lld | "
        "peak_memory_usage: %zu | memory_allocated: %zu | reduced_train_loss: %.6f | train_step_timing in s: %.4f | "
        "consumed_samples: %lld\n",
        last > 9 ? 2 : 1, (long long)number, (long long)last, r->seen.learning_rate[step], (long long)c->global_batch,
        last > 9 ? 2 : 1, (long long)number, r->seen.arena_bytes, bytes[WEIGHTS] + bytes[GRADIENTS] + bytes[OPTIMIZER],
        r->seen.loss[step], r->seen.own_seconds[step], (long long)((number + 1) * c->global_batch));
}

static void say_epoch(const case_result *r, const step_now *now)
{
    static const char bar[] = "██████████";
    enum { BAR = 10, BLOCK_BYTES = (int)(sizeof bar - 1) / BAR };
    const bench_case *c = r->given;
    int64_t step = now->step;
    long long steps = step_printed(r, steps_last(c, now)) + 1, done = step_printed(r, step) + 1,
              spent = (long long)now->spent_seconds,
              remaining = (long long)steps_seconds_left(c, now, mean_seconds(now));
    int filled = (int)(BAR * done / steps);
    say("Epoch 0: : %lld%%|%.*s%*s| %lld/%lld [%02lld:%02lld<%02lld:%02lld, reduced_train_loss=%.6f, "
        "global_step=%lld.00, consumed_samples=%lld.0, train_step_timing in s=%.4f]\n",
        100 * done / steps, BLOCK_BYTES * filled, bar, BAR - filled, "", done, steps, spent / 60, spent % 60,
        remaining / 60, remaining % 60, r->seen.loss[step], done - 1, done * (long long)c->global_batch,
        r->seen.own_seconds[step]);
}

void say_step(const case_result *r, const step_now *now)
{
    static void (*const printers[])(const case_result *, const step_now *) = {
        [STEP_LINE_ITERATION] = say_iteration, [STEP_LINE_COMPLETED] = say_completed, [STEP_LINE_EPOCH] = say_epoch
    };
    printers[r->given->step_line](r, now);
}
