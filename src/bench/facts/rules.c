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

/* Settings that make a step do less than training, or something else. */
static void as_in_training(const case_result *r, reasons *to)
{
    const bench_case *c = r->given;
    if (c->check == CHECK_OFF) reasons_add(to, "check off", -1, "check off");
    if (c->optimizer.learning_rate == 0.0) reasons_add(to, "learning rate", -1, "learning rate 0: nothing is learned");
    if (c->tokens == TOKENS_ZEROS) reasons_add(to, "tokens", -1, "tokens are all zero");
}

static void without_profilers(const case_result *r, reasons *to)
{
    const number_range *steps = &r->given->profile;
    if (steps->last)
        reasons_add(to, "profiled", -1, "profiled: steps %lld to %lld", (long long)steps->first,
                    (long long)steps->last - 1);
    if (r->seen.profiled[0]) reasons_add(to, "profiled", r->seen.profiled_rank, "profiled: %s", r->seen.profiled);
}

static void without_keys_for_developers(const case_result *r, reasons *to)
{
    for (key_id key = USER_KEYS; key < KEYS; key++) {
        char value[KEY_TEXT];
        key_write(key, r->given, value);
        if (strcmp(value, key_at(key)->fallback))
            reasons_add(to, "developer key", -1, "%s = %s: a key for developers", key_at(key)->name, value);
    }
}

static void without_debugging(const case_result *r, reasons *to)
{
    (void)r;
    if (build_debug) reasons_add(to, "debug build", -1, "debug build");
}

static void without_idle_ranks(const case_result *r, reasons *to)
{
    const bench_case *c = r->given;
    int idle = c->world_ranks - c->layout.ranks;
    if (idle > 0 && !c->idle_asked)
        reasons_add(to, "idle ranks", -1,
                    "idle ranks: %d of %d take no part, and the deck does not give the layout; start %d, or give "
                    "the layout",
                    idle, c->world_ranks, c->layout.ranks);
}

static int64_t timed_steps(const case_result *r)
{
    return r->seen.completed > r->given->warmup ? steps_counted(&r->seen, r->given) : 0;
}

/* The number of steps of a soak is known only after it. */
static void of_enough_steps(const case_result *r, reasons *to)
{
    bool soak = r->given->minutes > 0.0, ran = r->seen.loss;
    int64_t steps = soak ? timed_steps(r) : deck_counted_steps(r->given);
    if (steps < LEAST_STEPS && (ran || !soak))
        reasons_add(to, "steps", -1, "too few steps: %lld timed, %d are needed", (long long)steps, LEAST_STEPS);
}

static void say_crowding(const host_load *l, reasons *to)
{
    char supply[64];
    if (l->node_ranks * l->threads > l->cores) snprintf(supply, sizeof supply, "%d core%s", l->cores, plural(l->cores));
    else snprintf(supply, sizeof supply, "a quota of %.2f processors", l->quota);
    reasons_add(to, "oversubscribed", -1, "oversubscribed: %d rank%s of %d thread%s on %s", l->node_ranks,
                plural(l->node_ranks), l->threads, plural(l->threads), supply);
}

/* With devices the host only submits operations, so it may have fewer cores than threads. */
static void without_crowding(const case_result *r, reasons *to)
{
    if (r->given->backend == BACKEND_HOST && load_is_crowded(&r->seen.load)) say_crowding(&r->seen.load, to);
}

static void without_throttling(const case_result *r, reasons *to)
{
    if (r->figures.throttled[0])
        reasons_add(to, "throttled", r->figures.throttled_rank, "throttled device: %s", r->figures.throttled);
    if (r->given->backend == BACKEND_CUDA && r->figures.clocks_unknown[0])
        reasons_add(to, "clocks", r->figures.clocks_rank,
                    "clocks not known: NVML does not tell %s (nor nvidia-smi -q -d PERFORMANCE)",
                    r->figures.clocks_unknown);
}

/* Only recipe layouts must keep tensor groups within an NVLink domain. */
static void placed_as_the_recipe(const case_result *r, reasons *to)
{
    char split[REASON_LENGTH];
    if (r->given->recipe_gpus && placement_complaint(&r->seen.placement, &r->given->layout, split))
        reasons_add(to, "placement", -1, "%s", split);
}

static void without_preloads(const case_result *r, reasons *to)
{
    if (r->seen.preloaded[0]) reasons_add(to, "preloaded", r->seen.preloaded_rank, "preloaded: %s", r->seen.preloaded);
}

/* Adds "outlier rank 1 on host: computes 203 % (+- 7) longer than 1 peer; 20 ms a step late". */
static void name_outlier(const case_result *r, int rank, reasons *to)
{
    const rank_pace *p = &r->figures.pace[rank];
    const char *device = r->seen.devices[2 * rank].identity;
    const double *late = r->seen.ranks.table[RANK_LATE];
    double seconds = 0.0;
    for (int64_t s = r->given->warmup; s < r->seen.completed; s++)
        if (step_counts(&r->seen, s)) seconds += late[s * r->given->layout.ranks + rank];
    reasons_add(
        to, "outlier", rank,
        "outlier rank %d on %.32s%s%.40s: computes %.3g %% (+- %.2g) longer than %d peer%s; %.3g ms a step late", rank,
        r->seen.ranks.work[rank].host, device[0] ? ", " : "", device, 100.0 * p->excess, 100.0 * p->error, p->peers,
        plural(p->peers), 1e3 * seconds / (double)timed_steps(r));
}

/* Returns the outlier with the largest excess below `before`, or -1. */
static int next_outlier(const case_result *r, double before)
{
    int worst = -1;
    const rank_pace *pace = r->figures.pace;
    for (int i = 0; pace && i < r->given->layout.ranks; i++)
        if (pace_is_outlier(&pace[i]) && pace[i].excess < before && (worst < 0 || pace[i].excess > pace[worst].excess))
            worst = i;
    return worst;
}

static void without_outliers(const case_result *r, reasons *to)
{
    int rank = next_outlier(r, INFINITY);
    for (int i = 0; i < OUTLIERS_NAMED && rank >= 0; i++) {
        name_outlier(r, rank, to);
        rank = next_outlier(r, r->figures.pace[rank].excess);
    }
}

static void with_equal_libraries(const case_result *r, reasons *to)
{
    if (r->seen.libraries_differ[0])
        reasons_add(to, "libraries", r->seen.libraries_rank, "libraries differ: %s", r->seen.libraries_differ);
}

/* With few steps, spread and drift mean little. */
static void with_steady_steps(const case_result *r, reasons *to)
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
static void as_before(const case_result *r, reasons *to)
{
    if (r->figures.repeated.spread > REPEATS_LIMIT)
        reasons_add(to, "repeats", -1, "the means of %d repeats spread by %.1f %%, limit %.0f %%",
                    r->figures.repeated.count, 100.0 * r->figures.repeated.spread, 100.0 * REPEATS_LIMIT);
}

/* Without a stop, a soak is too short only if the record cannot hold more steps (bench/run/soak.h). */
static void as_long_as_asked(const case_result *r, reasons *to)
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
            minutes, r->given->minutes, (long long)r->seen.completed, r->given->layout.ranks);
}

/* Divergence is not a fault of the machine, because a deck may set any learning rate, but the numbers are not those of
 * training. A model without knowledge has a loss of ln(vocabulary), an untrained one little more. A loss of twice that
 * needs large wrong logits. */
static void with_sound_numbers(const case_result *r, reasons *to)
{
    double first = r->seen.completed ? r->seen.loss[0] : 0.0,
           limit = 2.0 * fmax(log((double)r->given->model.vocabulary), first);
    int64_t worst = 0;
    for (int64_t i = 0; i < r->seen.completed; i++) {
        if (isfinite(r->seen.loss[i]) && isinf(r->seen.gradient_norm[i]))
            reasons_add(to, "numbers", -1, "a gradient norm beyond the exact sum");
        else if (!isfinite(r->seen.loss[i]) || !isfinite(r->seen.gradient_norm[i]))
            reasons_add(to, "numbers", -1, "not a number");
        if (r->seen.gradient_norm[i] == 0.0)
            reasons_add(to, "collapse", -1, "a gradient is zero: training has collapsed");
        if (r->seen.loss[i] > r->seen.loss[worst]) worst = i;
    }
    if (r->seen.completed && r->seen.loss[worst] > limit)
        reasons_add(
            to, "divergence", -1,
            "the loss rose to %.4g in step %lld, above %.4g, twice that of an untrained model: training diverged",
            r->seen.loss[worst], (long long)worst, limit);
}

static void to_its_end(const case_result *r, reasons *to)
{
    char progress[PROGRESS_TEXT];
    if (r->ruling.fails.count) reasons_add(to, "failed", -1, "failed");
    if (r->seen.stopped)
        reasons_add(to, "interrupted", -1, "interrupted after %s: %s", result_progress(r, progress),
                    r->ruling.stopped_by);
}

#define WORDS(limit) #limit
#define SAY(limit) WORDS(limit)
/* Rows of the table that --rules prints. names: reasons that `apply` adds. The first FORESEEN rules follow from the
 * deck alone. */
static const struct {
    const char *names, *rule, *why, *remedy;
    void (*apply)(const case_result *, reasons *);
} rules[] = {
    { "check off, learning rate, tokens", "`check` is not `off`; learning rate above 0; tokens not all zeros",
      "they do less than training does", "leave them out", as_in_training },
    { "profiled",
      "no key `profile`, no tool that `NVTX_INJECTION64_PATH` or `CUDA_INJECTION64_PATH` attaches, no NCCL trace of "
      "calls",
      "watching takes time", "run again without it", without_profilers },
    { "developer key", "no key for developers (`--keys developer`) other than at its default",
      "they are for tests of the program", "leave them out", without_keys_for_developers },
    { "debug build", "no debug build", "it checks itself while it is timed", "`make` without `DEBUG=1`",
      without_debugging },
    { "idle ranks", "no idle ranks unless the deck gives the layout", "they flatter tokens/s per GPU",
      "start as many ranks as the reason says", without_idle_ranks },
    { "steps", SAY(LEAST_STEPS) " timed steps or more, without those after a checkpoint",
      "a mean of fewer depends on single steps", "raise `steps`, or `checkpoint_every`", of_enough_steps },
    { "oversubscribed", "no more threads than cores, or than a control group's quota",
      "ranks that share wait for each other at random", "fewer ranks or threads", without_crowding },
    { "throttled, clocks", "no throttled device, by NVML at both ends and once a second", "heat or power hold it back",
      "cooling, power limit; install NVML", without_throttling },
    { "outlier",
      "no rank whose computing takes 10 % longer than its peers', beyond three standard errors; ranks of "
      "several threads on shared cores are not judged",
      "all others wait for it", "the reason names rank, host and device", without_outliers },
    { "preloaded", "no preloaded library that defines a called function of libc's clocks, MPI, oneDNN, CUDA or NCCL",
      "it may change time or work; others are only named", "start without it", without_preloads },
    { "placement", "tensor groups within an NVLink domain, by NVML (a node where it names none), in a recipe's layout",
      "the recipe's are", "block distribution: the reason names the option", placed_as_the_recipe },
    { "libraries", "equal libraries on all ranks", "else nobody knows what was measured",
      "the reason names rank and library", with_equal_libraries },
    { "spread, drift",
      "p90 / p10 of the step times at most " SAY(SPREAD_LIMIT) "; median of the last half / first half "
                                                               "within 1/" SAY(DRIFT_LIMIT) " to " SAY(DRIFT_LIMIT),
      "undisturbed steps differ by a few percent; what still warms "
      "up has no speed yet",
      "other jobs, network, power limits; give `warmup`; soak with `minutes`", with_steady_steps },
    { "repeats", "largest mean of `repeats` at most " SAY(REPEATS_LIMIT) " above the smallest, judged with the last",
      "one run alone proves little", "more steps", as_before },
    { "soak", "a soak as long as `minutes`", "what heats up slowly shows late", "fewer `minutes` if the reason says so",
      as_long_as_asked },
    { "numbers, collapse, divergence",
      "loss and norm finite, no gradient zero, loss at most twice an untrained model's",
      "broken training needs less power", "the recipe's learning rate", with_sound_numbers },
    { "failed, interrupted", "the case came to its end and PASSED", "its steps are not those of the whole case",
      "the reason says why", to_its_end },
};
enum { FORESEEN = 6, RULES = sizeof rules / sizeof *rules };

static void apply(const case_result *r, int first, reasons *to)
{
    for (int i = 0; i < first; i++) rules[i].apply(r, to);
}

void rules_foresee(const bench_case *c, reasons *to) { apply(&(case_result){ .given = c }, FORESEEN, to); }
void rules_apply(const case_result *r, reasons *to) { apply(r, RULES, to); }

void rules_print(void)
{
    say("| name | rule | why | what to do |\n|---|---|---|---|\n");
    for (int i = 0; i < RULES; i++)
        say("| %s | %s | %s | %s |\n", rules[i].names, rules[i].rule, rules[i].why, rules[i].remedy);
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
