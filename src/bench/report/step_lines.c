/* The recipes' lines of a step, in their words: users search for these. */
#include "bench/report/step_lines.h"
#include "base/clock.h"
#include "base/say.h"
#include "plan/catalogue/flops.h"
#include <math.h>

double steps_seconds_left(const case_result *r, int64_t step, double step_seconds)
{
    const bench_case *c = r->given;
    double left = step_seconds * (double)(c->warmup + c->steps - 1 - step);
    if (c->minutes == 0.0) return left;
    return fmax(left, r->soaks_until > 0.0 ? fmax(0.0, r->soaks_until - clock_seconds()) : 60.0 * c->minutes);
}

static double mean_seconds(const case_result *r, int64_t step) { return r->spent_seconds / (double)(step + 1); }

int64_t steps_last(const case_result *r, int64_t step)
{
    double mean = mean_seconds(r, step);
    return step + (int64_t)ceil(steps_seconds_left(r, step, mean) / mean - 1e-6);
}

static double remaining_seconds(const case_result *r, int64_t step)
{
    return steps_seconds_left(r, step, mean_seconds(r, step));
}

static void say_completed(const case_result *r, int64_t step)
{
    const bench_case *c = r->given;
    double seconds = r->step_seconds[step], tokens = (double)r->tokens_per_step;
    say("completed step: %lld, seconds: %.4f, TFLOP/s/device: %.5f, Tokens/s/device: %.3f, total_weights: %.0f, loss: "
        "%.6f\n",
        (long long)step, seconds,
        flops_per_gpu(c->global_batch, c->recipe_flops_per_sequence, seconds, c->layout.ranks) / 1e12,
        tokens / seconds / c->layout.ranks, tokens, r->loss[step]);
}

static void say_iteration(const case_result *r, int64_t step)
{
    const bench_case *c = r->given;
    int64_t last = steps_last(r, step);
    say("Training epoch 0, iteration %*lld/%lld | lr: %.3e | global_batch_size: %lld | global_step: %*lld | "
        "reduced_train_loss: %.6f | train_step_timing in s: %.4f | consumed_samples: %lld\n",
        last > 9 ? 2 : 1, (long long)step, (long long)last, r->learning_rate[step], (long long)c->global_batch,
        last > 9 ? 2 : 1, (long long)step, r->loss[step], r->step_seconds[step],
        (long long)((step + 1) * c->global_batch));
}

static void say_epoch(const case_result *r, int64_t step)
{
    const bench_case *c = r->given;
    long long steps = steps_last(r, step) + 1, done = step + 1, spent = (long long)r->spent_seconds,
              remaining = (long long)remaining_seconds(r, step);
    say("Epoch 0: : %lld%%| %lld/%lld [%02lld:%02lld<%02lld:%02lld, reduced_train_loss=%.6f, global_step=%lld.00, "
        "consumed_samples=%lld.0, train_step_timing in s=%.4f]\n",
        100 * done / steps, done, steps, spent / 60, spent % 60, remaining / 60, remaining % 60, r->loss[step],
        (long long)step, done * (long long)c->global_batch, r->step_seconds[step]);
}

void say_step(const case_result *r, int64_t step)
{
    static void (*const by[])(const case_result *, int64_t) = {
        [STEP_LINE_ITERATION] = say_iteration, [STEP_LINE_COMPLETED] = say_completed, [STEP_LINE_EPOCH] = say_epoch
    };
    by[r->given->step_line](r, step);
}
