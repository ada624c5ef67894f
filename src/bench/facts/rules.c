/* The run rules. */
#include "bench/facts/rules.h"
#include "base/build_info.h"
#include "base/say.h"
#include "base/text.h"
#include "plan/deck/deck.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { OUTLIERS_NAMED = 3 };

static void require_training(const case_result *r, reasons *to)
{
    const bench_case *c = r->given;
    if (c->check == CHECK_OFF) reasons_add(to, "check off", -1, "check off");
    if (c->optimizer.learning_rate == 0.0) reasons_add(to, "learning rate", -1, "learning rate 0: nothing is learned");
    if (c->tokens == TOKENS_ZEROS) reasons_add(to, "tokens", -1, "tokens are all zero");
}

static void require_no_profiler(const case_result *r, reasons *to)
{
    const number_range *steps = &r->given->profile;
    if (steps->last)
        reasons_add(to, "profiled", -1, "profiled: steps %lld to %lld", (long long)steps->first,
                    (long long)steps->last - 1);
    if (r->seen.profiled[0]) reasons_add(to, "profiled", r->seen.profiled_rank, "profiled: %s", r->seen.profiled);
}

static void require_default_developer_keys(const case_result *r, reasons *to)
{
    for (key_id key = USER_KEYS; key < KEYS; key++) {
        char value[KEY_TEXT];
        key_write(key, r->given, value);
        if (strcmp(value, key_at(key)->fallback))
            reasons_add(to, "developer key", -1, "%s = %s: a key for developers", key_at(key)->name, value);
    }
}

static void require_no_debug(const case_result *r, reasons *to)
{
    (void)r;
    if (build_debug) reasons_add(to, "debug build", -1, "debug build");
}

static int64_t timed_steps(const case_result *r)
{
    return r->seen.completed > r->given->warmup ? steps_counted(&r->seen, r->given) : 0;
}

/* The number of steps of a soak is known only after it. */
static void require_enough_steps(const case_result *r, reasons *to)
{
    bool soak = r->given->minutes > 0.0, ran = r->seen.loss;
    int64_t steps = soak ? timed_steps(r) : deck_counted_steps(r->given);
    if (steps < LEAST_STEPS && (ran || !soak))
        reasons_add(to, "steps", -1, "too few steps: %lld timed, %d are needed", (long long)steps, LEAST_STEPS);
}

static void add_crowding(const host_load *l, reasons *to)
{
    char supply[64];
    if (l->node_ranks * l->threads > l->cores) snprintf(supply, sizeof supply, "%d core%s", l->cores, plural(l->cores));
    else snprintf(supply, sizeof supply, "a quota of %.2f processors", l->quota);
    reasons_add(to, "oversubscribed", -1, "oversubscribed: %d rank%s of %d thread%s on %s", l->node_ranks,
                plural(l->node_ranks), l->threads, plural(l->threads), supply);
}

/* With devices the host only submits operations, so it may have fewer cores than threads. */
static void require_enough_cores(const case_result *r, reasons *to)
{
    if (r->given->backend == BACKEND_HOST && host_is_oversubscribed(&r->seen.load)) add_crowding(&r->seen.load, to);
}

static void require_no_throttling(const case_result *r, reasons *to)
{
    if (r->figures.throttled[0])
        reasons_add(to, "throttled", r->figures.throttled_rank, "throttled device: %s", r->figures.throttled);
    if (r->given->backend == BACKEND_CUDA && r->figures.clocks_unknown[0])
        reasons_add(to, "clocks", r->figures.clocks_rank,
                    "clocks not known: NVML does not tell %s (nor nvidia-smi -q -d PERFORMANCE)",
                    r->figures.clocks_unknown);
}

/* Only recipe layouts must keep tensor groups within an NVLink domain. */
static void require_recipe_placement(const case_result *r, reasons *to)
{
    char split[REASON_LENGTH];
    if (r->given->recipe_gpus && placement_complaint(&r->seen.placement, &r->given->layout, split))
        reasons_add(to, "placement", -1, "%s", split);
}

static void require_no_preloads(const case_result *r, reasons *to)
{
    if (r->seen.preloaded[0]) reasons_add(to, "preloaded", r->seen.preloaded_rank, "preloaded: %s", r->seen.preloaded);
}

/* Adds "outlier rank 1 on host: computes 203.0 % (+- 7.1 %) longer than 1 peer; 0.02 s a step late". */
static void add_outlier(const case_result *r, int rank, reasons *to)
{
    const rank_pace *p = &r->figures.pace[rank];
    const char *device = r->seen.devices[2 * rank].identity;
    const double *late = r->seen.ranks.table[RANK_LATE];
    double seconds = 0.0;
    for (int64_t s = r->given->warmup; s < r->seen.completed; s++)
        if (step_counts(&r->seen, s)) seconds += late[s * r->given->ranks + rank];
    reasons_add(
        to, "outlier", rank,
        "outlier rank %d on %.32s%s%.40s: computes %.1f %% (+- %.1f %%) longer than %d peer%s; %.4f s a step late",
        rank, r->seen.ranks.work[rank].host, device[0] ? ", " : "", device, 100.0 * p->excess, 100.0 * p->error,
        p->peers, plural(p->peers), seconds / (double)timed_steps(r));
}

/* Returns the outlier with the largest excess below `before`, or -1. */
static int next_outlier(const case_result *r, double before)
{
    int worst = -1;
    const rank_pace *pace = r->figures.pace;
    for (int i = 0; pace && i < r->given->ranks; i++)
        if (pace_is_outlier(&pace[i]) && pace[i].excess < before && (worst < 0 || pace[i].excess > pace[worst].excess))
            worst = i;
    return worst;
}

static void require_no_outliers(const case_result *r, reasons *to)
{
    int rank = next_outlier(r, INFINITY);
    for (int i = 0; i < OUTLIERS_NAMED && rank >= 0; i++) {
        add_outlier(r, rank, to);
        rank = next_outlier(r, r->figures.pace[rank].excess);
    }
}

static void require_equal_libraries(const case_result *r, reasons *to)
{
    if (r->seen.libraries_differ[0])
        reasons_add(to, "libraries", r->seen.libraries_rank, "libraries differ: %s", r->seen.libraries_differ);
}

/* With few steps, spread and drift mean little. */
static void require_steady_steps(const case_result *r, reasons *to)
{
    if (timed_steps(r) < LEAST_STEPS) return;
    if (r->figures.spread > SPREAD_LIMIT)
        reasons_add(to, "spread", -1, "spread %.3f: 90th / 10th percentile of the step times, limit %.3g",
                    r->figures.spread, SPREAD_LIMIT);
    if (r->figures.drift > DRIFT_LIMIT || r->figures.drift < 1.0 / DRIFT_LIMIT)
        reasons_add(to, "drift", -1,
                    "drift %.3f: median step of the last half / of the first half, allowed %.3f to %.3g",
                    r->figures.drift, 1.0 / DRIFT_LIMIT, DRIFT_LIMIT);
}

/* Compares the means of all repeats, which only the last repeat has. */
static void require_equal_repeats(const case_result *r, reasons *to)
{
    if (r->figures.repeated.spread > REPEATS_LIMIT)
        reasons_add(to, "repeats", -1, "the means of %d repeats spread by %.1f %%, limit %.0f %%",
                    r->figures.repeated.count, 100.0 * r->figures.repeated.spread, 100.0 * REPEATS_LIMIT);
}

/* Without a stop, a soak is too short only if the record cannot hold more steps (bench/run/soak.h). */
static void require_full_soak(const case_result *r, reasons *to)
{
    double minutes = 0.0;
    for (int64_t i = r->given->warmup; i < r->seen.completed; i++)
        minutes += (r->figures.step_seconds[i] + r->seen.pause[i]) / 60.0;
    if (minutes >= r->given->minutes) return;
    if (r->seen.stopped) reasons_add(to, "soak", -1, "a soak of %.4g minutes, not %.4g", minutes, r->given->minutes);
    else
        reasons_add(
            to, "soak", -1,
            "a soak of %.4g minutes, not %.4g: %lld steps of %d ranks are the most that are kept; give fewer minutes",
            minutes, r->given->minutes, (long long)r->seen.completed, r->given->ranks);
}

/* If training diverges, for example because of the deck's learning rate, its numbers are not typical of training. Equal
 * probabilities for all tokens give a loss of ln(vocabulary), an untrained model a little more. */
static void require_sound_numbers(const case_result *r, reasons *to)
{
    double first = r->seen.completed ? r->seen.loss[0] : 0.0,
           limit = 2.0 * fmax(log((double)r->given->model.vocabulary), first);
    int64_t worst = 0;
    for (int64_t i = 0; i < r->seen.completed; i++) {
        if (isfinite(r->seen.loss[i]) && isinf(r->seen.gradient_norm[i]))
            reasons_add(to, "numbers", -1, "a gradient norm above 2^24");
        else if (!isfinite(r->seen.loss[i]) || !isfinite(r->seen.gradient_norm[i]))
            reasons_add(to, "numbers", -1, "loss or norm not finite");
        if (r->seen.gradient_norm[i] == 0.0)
            reasons_add(to, "collapse", -1, "a gradient is zero: training has collapsed");
        if (r->seen.loss[i] > r->seen.loss[worst]) worst = i;
    }
    if (r->seen.completed && r->seen.loss[worst] > limit)
        reasons_add(to, "divergence", -1, "the loss rose to %.4g in step %lld, above %.4g: training diverged",
                    r->seen.loss[worst], (long long)(r->seen.checkpoint.loaded_step + worst), limit);
}

static void require_completion(const case_result *r, reasons *to)
{
    char progress[PROGRESS_TEXT];
    if (r->ruling.fails.count) reasons_add(to, "failed", -1, "failed");
    if (r->seen.stopped)
        reasons_add(to, "interrupted", -1, "interrupted after %s: %s", result_progress(r, progress),
                    r->ruling.stopped_by);
}

#define QUOTED(limit) #limit
#define TEXT(limit) QUOTED(limit)
/* Rows of the table that --rules prints. names: rules of the reasons that `apply` adds. The first FORESEEN rows depend
 * only on the deck. */
static const struct {
    const char *names, *rule, *why, *remedy;
    void (*apply)(const case_result *, reasons *);
} rules[] = {
    { "check off, learning rate, tokens", "`check` not `off`; learning rate above 0; tokens not all zeros",
      "steps would do less than training", "remove the setting", require_training },
    { "profiled", "no `profile` key, injected tool (`NVTX_INJECTION64_PATH`, `CUDA_INJECTION64_PATH`) or NCCL trace",
      "profiling takes time", "run without it", require_no_profiler },
    { "developer key", "developer keys (`--keys developer`) at their defaults", "they are for tests", "remove it",
      require_default_developer_keys },
    { "debug build", "no debug build", "it checks itself while timed", "`make` without `DEBUG=1`", require_no_debug },
    { "steps", "at least " TEXT(LEAST_STEPS) " timed steps, except those after a checkpoint",
      "fewer give no reliable mean", "raise `steps` or `checkpoint_every`", require_enough_steps },
    { "oversubscribed", "on the host: no more threads than cores or quota", "ranks wait at random",
      "fewer ranks or threads", require_enough_cores },
    { "throttled, clocks", "no throttled device in NVML's samples", "heat or power limits it",
      "check cooling, power limit, NVML", require_no_throttling },
    { "outlier",
      "no rank computes 10 % longer than its peers, beyond three standard errors; not judged: several threads on "
      "shared cores",
      "all others wait for it", "exclude the GPU or node in the reason", require_no_outliers },
    { "preloaded", "no preloaded library that replaces functions of clocks, MPI, oneDNN, CUDA or NCCL",
      "it may change times or work", "run without it", require_no_preloads },
    { "placement", "recipe's layout: tensor groups within an NVLink domain, or node if NVML reports none",
      "as published", "block distribution; see the reason", require_recipe_placement },
    { "libraries", "equal libraries on all ranks", "unclear what ran", "equal environment on all nodes",
      require_equal_libraries },
    { "spread, drift",
      "p90 / p10 of step times at most " TEXT(SPREAD_LIMIT) "; median of last half / first half "
                                                            "1/" TEXT(DRIFT_LIMIT) " to " TEXT(DRIFT_LIMIT),
      "undisturbed steps vary little; warm-up changes the speed",
      "check other jobs, network, power; raise `warmup`; set `minutes`", require_steady_steps },
    { "repeats", "largest / smallest mean of `repeats` at most 1 + " TEXT(REPEATS_LIMIT) ", judged with the last",
      "one run proves little", "more steps", require_equal_repeats },
    { "soak", "a soak lasts `minutes`", "slow heating shows late", "fewer `minutes`", require_full_soak },
    { "numbers, collapse, divergence",
      "finite loss and norm, no zero gradient, loss at most twice max(first, ln(vocabulary))",
      "broken training needs less power", "the recipe's learning rate", require_sound_numbers },
    { "failed, interrupted", "complete and PASSED", "steps are missing or wrong", "see the line FAILED or INTERRUPTED",
      require_completion },
};
enum { FORESEEN = 6, RULES = sizeof rules / sizeof *rules };

static void apply(const case_result *r, int first, reasons *to)
{
    for (int i = 0; i < first; i++) rules[i].apply(r, to);
}

void rules_foresee(const bench_case *c, reasons *to) { apply(&(case_result){ .given = c }, FORESEEN, to); }
void rules_apply(const case_result *r, reasons *to) { apply(r, RULES, to); }

void rules_print(bool json)
{
    static const char row[] = "| %s | %s | %s | %s |\n";
    static const char object[] =
        "{\"rules\":\"" RULES_VERSION "\",\"name\":\"%s\",\"rule\":\"%s\",\"why\":\"%s\",\"what to do\":\"%s\"}\n";
    if (!json) say("| name | rule | why | what to do |\n|---|---|---|---|\n");
    for (int i = 0; i < RULES; i++)
        say(json ? object : row, rules[i].names, rules[i].rule, rules[i].why, rules[i].remedy);
}

void rules_compare(case_result *r)
{
    const bench_case *c = r->given;
    char *why = r->ruling.comparison;
    if (r->ruling.verdict != VERDICT_PASSED) snprintf(why, REASON_LENGTH, "%s", verdict_words[r->ruling.verdict]);
    else if (!r->ruling.valid) snprintf(why, REASON_LENGTH, "NOT VALID");
    else if (c->backend != BACKEND_CUDA)
        snprintf(why, REASON_LENGTH, "backend %s: its ranks are processes, not GPUs", backend_name(c->backend));
    else snprintf(why, REASON_LENGTH, "%s", c->incomparable);
    r->ruling.comparable = why[0] == 0;
    if (r->ruling.comparable && c->recipe_layout)
        snprintf(why, REASON_LENGTH, "the recipe's layout of %d GPUs", c->recipe_gpus);
    else if (r->ruling.comparable)
        snprintf(why, REASON_LENGTH, "scaled: the recipe's layout of %d GPUs, data-parallel to %d", c->recipe_gpus,
                 c->layout.ranks);
}
