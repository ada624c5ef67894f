/* The run rules. */
#include "bench/facts/rules.h"
#include "base/build_info.h"
#include "base/text.h"
#include "bench/facts/repeats.h"
#include "plan/keys/keys.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* What is set so that less is done, or something else, than in training. */
static void as_in_training(case_result *r)
{
    const bench_case *c = r->given;
    if (c->check == CHECK_OFF) result_invalidate(r, "check off");
    if (c->optimizer.learning_rate == 0.0) result_invalidate(r, "learning rate 0: nothing is learned");
    if (c->tokens == TOKENS_ZEROS) result_invalidate(r, "tokens are all zero");
}

static void without_keys_for_developers(case_result *r)
{
    for (key_id key = USER_KEYS; key < KEYS; key++) {
        char value[KEY_TEXT];
        key_write(key, r->given, value);
        if (strcmp(value, key_at(key)->fallback))
            result_invalidate(r, "%s = %s: a key for developers", key_at(key)->name, value);
    }
}

/* What a user of the machine would not have, though it was bought. */
static void without_idle_ranks(case_result *r)
{
    const bench_case *c = r->given;
    int idle = c->world_ranks - c->layout.ranks;
    if (idle > 0 && !c->idle_asked)
        result_invalidate(r,
                          "idle ranks: %d of %d take no part, and the deck does not give the layout; start %d, or give "
                          "the layout",
                          idle, c->world_ranks, c->layout.ranks);
}

static void of_enough_steps(case_result *r, int64_t steps)
{
    if (steps < LEAST_STEPS)
        result_invalidate(r, "too few steps: %lld timed, %d are needed", (long long)steps, LEAST_STEPS);
}

/* How many steps a soak takes is known only after it. */
void rules_foresee(case_result *r)
{
    as_in_training(r);
    without_keys_for_developers(r);
    if (build_debug) result_invalidate(r, "debug build");
    without_idle_ranks(r);
    if (r->given->minutes == 0.0) of_enough_steps(r, r->given->steps);
}

static int64_t timed_steps(const case_result *r)
{
    return r->completed > r->given->warmup ? r->completed - r->given->warmup : 0;
}

static void say_crowding(case_result *r)
{
    char supply[64];
    const host_load *l = &r->load;
    if (l->node_ranks * l->threads > l->cores) snprintf(supply, sizeof supply, "%d core%s", l->cores, plural(l->cores));
    else snprintf(supply, sizeof supply, "a quota of %.2f processors", l->quota);
    result_invalidate(r, "oversubscribed: %d rank%s of %d thread%s on %s", l->node_ranks, plural(l->node_ranks),
                      l->threads, plural(l->threads), supply);
}

/* On devices the host only submits: its cores may be fewer than its threads. */
static void without_crowding(case_result *r)
{
    if (r->given->backend == BACKEND_HOST && load_is_crowded(&r->load)) say_crowding(r);
}

static void without_throttling(case_result *r)
{
    if (r->throttled[0]) result_invalidate(r, "throttled device: %s", r->throttled);
    if (r->given->backend == BACKEND_CUDA && r->clocks_unknown[0])
        result_invalidate(r, "clocks not known: NVML does not tell %s (nor nvidia-smi -q -d PERFORMANCE)",
                          r->clocks_unknown);
}

/* A recipe's tensor groups lie within a node; a layout of one's own may do as it likes. */
static void placed_as_the_recipe(case_result *r)
{
    char split[REASON_LENGTH];
    if (r->given->recipe_gpus && placement_complaint(&r->placement, &r->given->layout, split))
        result_invalidate(r, "%s", split);
}

static void without_preloads(case_result *r)
{
    if (r->preloaded[0]) result_invalidate(r, "preloaded: %s", r->preloaded);
}

static void without_outliers(case_result *r)
{
    for (int i = 0; i < OUTLIERS && r->outlier[i][0]; i++) result_invalidate(r, "%s", r->outlier[i]);
}

static void with_equal_libraries(case_result *r)
{
    if (r->libraries_differ[0]) result_invalidate(r, "libraries differ: %s", r->libraries_differ);
}

/* Few steps have a few steps' spread. */
static void with_steady_steps(case_result *r)
{
    int64_t timed = timed_steps(r);
    if (r->given->minutes > 0.0) of_enough_steps(r, timed);
    if (timed < LEAST_STEPS) return;
    if (r->spread > SPREAD_LIMIT)
        result_invalidate(r, "spread %.3f: 90th / 10th percentile of the step times, limit %.3g", r->spread,
                          SPREAD_LIMIT);
    if (r->drift > DRIFT_LIMIT || r->drift < 1.0 / DRIFT_LIMIT)
        result_invalidate(r, "drift %.3f: median step of the last half / of the first half, allowed %.3f to %.3g",
                          r->drift, 1.0 / DRIFT_LIMIT, DRIFT_LIMIT);
}

/* Judges the means of all repeats. Only the last repeat has them. */
static void as_before(case_result *r)
{
    if (r->repeated.spread > REPEATS_LIMIT)
        result_invalidate(r, "the means of %d repeats spread by %.1f %%, limit %.0f %%", r->repeated.count,
                          100.0 * r->repeated.spread, 100.0 * REPEATS_LIMIT);
}

/* A soak that nobody stops ends before its time only where the record has no room for more steps (bench/run/soak.h). */
static void as_long_as_asked(case_result *r)
{
    double minutes = 0.0;
    for (int64_t i = r->given->warmup; i < r->completed; i++) minutes += r->step_seconds[i] / 60.0;
    if (minutes >= r->given->minutes) return;
    if (r->stopped) result_invalidate(r, "a soak of %.4g minutes, not %.4g", minutes, r->given->minutes);
    else
        result_invalidate(
            r,
            "a soak of %.4g minutes, not %.4g: %lld steps of %d ranks are the most that are kept; give fewer minutes",
            minutes, r->given->minutes, (long long)r->completed, r->given->layout.ranks);
}

/* Training that diverged is no fault of the machine, since a deck may ask for any learning rate; but its numbers are
 * not those of training, and are compared with no other's. A model that knows nothing costs ln(vocabulary), an
 * untrained one little more: a loss of twice that comes of large logits that are wrong. */
static void with_sound_numbers(case_result *r)
{
    double first = r->completed ? r->loss[0] : 0.0, limit = 2.0 * fmax(log((double)r->given->model.vocabulary), first);
    int64_t worst = 0;
    for (int64_t i = 0; i < r->completed; i++) {
        if (isfinite(r->loss[i]) && isinf(r->gradient_norm[i]))
            result_invalidate(r, "a gradient norm beyond the exact sum");
        else if (!isfinite(r->loss[i]) || !isfinite(r->gradient_norm[i])) result_invalidate(r, "not a number");
        if (r->gradient_norm[i] == 0.0) result_invalidate(r, "a gradient is zero: training has collapsed");
        if (r->loss[i] > r->loss[worst]) worst = i;
    }
    if (r->completed && r->loss[worst] > limit)
        result_invalidate(
            r, "the loss rose to %.4g in step %lld, above %.4g, twice that of an untrained model: training diverged",
            r->loss[worst], (long long)worst, limit);
}

static void to_its_end(case_result *r)
{
    char progress[PROGRESS_TEXT];
    if (r->fail_reasons) result_invalidate(r, "failed");
    if (r->stopped) result_invalidate(r, "interrupted after %s: %s", result_progress(r, progress), r->stopped_by);
}

void rules_apply(case_result *r)
{
    static void (*const rule[])(case_result *) = { rules_foresee,        without_crowding,   without_throttling,
                                                   without_outliers,     without_preloads,   placed_as_the_recipe,
                                                   with_equal_libraries, with_steady_steps,  as_before,
                                                   as_long_as_asked,     with_sound_numbers, to_its_end };
    for (size_t i = 0; i < sizeof rule / sizeof *rule; i++) rule[i](r);
}

void rules_compare(case_result *r)
{
    const bench_case *c = r->given;
    char *why = r->comparison;
    if (r->verdict != VERDICT_PASSED) snprintf(why, REASON_LENGTH, "%s", verdict_words[r->verdict]);
    else if (!r->valid) snprintf(why, REASON_LENGTH, "NOT VALID");
    else if (c->backend != BACKEND_CUDA)
        snprintf(why, REASON_LENGTH, "backend %s: its ranks are processes, not GPUs", backend_name(c->backend));
    else snprintf(why, REASON_LENGTH, "%s", c->incomparable);
    r->comparable = why[0] == 0;
    if (r->comparable && c->recipe_layout)
        snprintf(why, REASON_LENGTH, "the recipe's layout of %d GPUs", c->recipe_gpus);
    else if (r->comparable)
        snprintf(why, REASON_LENGTH, "scaled: the recipe's layout of %d GPUs, data-parallel to %d", c->recipe_gpus,
                 c->layout.ranks);
}
