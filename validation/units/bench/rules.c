/* Breaks each run rule with a result that is valid otherwise: exactly this rule must be reported. With --record FILE
 * writes these results, and record/rules.t derives the rules from the record again. */
#include "bench/facts/rules.h"
#include "bench/run/stop.h"
#include "record_sample.h"
#include "units/plan/deck_source.h"
#include <signal.h>

static void slow_down(case_result *r, int64_t from, int64_t every, double times)
{
    int ranks = r->given->layout.ranks;
    for (int64_t t = r->given->warmup + from; t < r->seen.completed; t += every)
        for (int rank = 0; rank < ranks; rank++) r->seen.ranks.step[t * ranks + rank] *= times;
}

/* Makes four of 40 steps take 2.9 times as long because rank `slow` is busy; -1: because all ranks wait. */
static void hold_up(case_result *r, int slow)
{
    int ranks = r->given->layout.ranks;
    for (int64_t i = 0; i < r->seen.completed * ranks; i++) {
        double more = i / ranks % 10 == 5 ? 1.9 * 0.2 : 0.0;
        r->seen.ranks.step[i] = 0.2 + more;
        r->seen.ranks.table[RANK_EXPOSED_GRADIENT][i] = 0.01 + (i % ranks == slow ? 0.0 : more);
    }
}

static void stop_after(case_result *r, int64_t steps, int why)
{
    facts *f = &r->seen;
    for (int64_t t = steps; t < f->completed; t++) {
        f->loss[t] = f->gradient_norm[t] = f->learning_rate[t] = NAN;
        for (int rank = 0; rank < r->given->layout.ranks; rank++)
            f->ranks.step[t * r->given->layout.ranks + rank] = NAN;
    }
    f->completed = steps, f->stopped = why;
    if (why) snprintf(r->ruling.stopped_by, sizeof r->ruling.stopped_by, "%s", stop_words(why));
}

static void spread_means(case_result *r) { r->figures.repeated = (repeated_seconds){ .count = 2, .spread = 0.0501 }; }

static void strike(case_result *r, const char *in_check, const char *in_steps)
{
    r->seen.machine.faults = r->seen.check.faults = 12;
    snprintf(r->seen.check.struck, sizeof r->seen.check.struck, "%s", in_check);
    snprintf(r->seen.struck, sizeof r->seen.struck, "%s", in_steps);
}

static void plant_fault(bench_case *c, fault_kind kind)
{
    c->fault = (planted_fault){ .kind = kind, .operation = "adamw", .nth = 1, .rank = 0 };
}

static void own_layout(bench_case *c)
{
    c->recipe_gpus = 0, c->recipe_layout = false;
    snprintf(c->incomparable, sizeof c->incomparable, "a layout of its own");
}

#define WRITE(text, words) snprintf(text, sizeof text, "%s", words)

/* name, sample, changes to the case and to the result (and to `load`), start of the reason; empty if VALID */
/* clang-format off */
#define PLANTS(plant)                                                                                                  \
    plant(sound_on_the_host, HOST, , , "")                                                                             \
    plant(sound_on_gpus, RECIPE, , , "")                                                                               \
    plant(ten_steps, HOST, c->steps = 10, , "")                                                                        \
    plant(nine_steps, HOST, c->steps = 9, , "too few steps: 9 timed, 10 are needed")                                   \
    plant(one_step, HOST, c->steps = 1, , "too few steps: 1 timed, 10 are needed")                                     \
    plant(spread_allowed, HOST, , slow_down(r, 0, 3, 1.15), "")                                                        \
    plant(spread_beyond, HOST, , slow_down(r, 0, 3, 1.3), "spread 1.")                                                 \
    plant(one_slow_step, HOST, , slow_down(r, 5, 99, 5.0), "")                                                         \
    plant(held_up, HOST, c->steps = 40, hold_up(r, 2), "")                                                             \
    plant(all_waited, HOST, c->steps = 40, hold_up(r, -1), "")                                                         \
    plant(slow_warmup, HOST, , slow_down(r, -2, 99, 5.0), "")                                                          \
    plant(drift_allowed, HOST, , slow_down(r, 6, 1, 1.07), "")                                                         \
    plant(drift_up, HOST, , slow_down(r, 6, 1, 1.14), "drift 1.1")                                                     \
    plant(drift_down, RECIPE, , slow_down(r, 6, 1, 0.88), "drift 0.8")                                                 \
    plant(check_off, HOST, c->check = CHECK_OFF, , "check off")                                                        \
    plant(fault_harmless, HOST, plant_fault(c, FAULT_REPEAT), strike(r, "a", "a"), "fault = repeat adamw 1 0: a key")  \
    plant(fault_never_struck, HOST, plant_fault(c, FAULT_DROP), , "fault = drop adamw 1 0: a key")                     \
    plant(fault_elsewhere, HOST, plant_fault(c, FAULT_FLIP), strike(r, "a", "b"), "fault = flip adamw 1 0: a key")     \
    plant(rate_of_zero, HOST, c->optimizer.learning_rate = 0.0, , "learning rate 0: nothing is learned")               \
    plant(tokens_of_zeros, RECIPE, c->tokens = TOKENS_ZEROS, , "tokens are all zero")                                  \
    plant(hostile, HOST, c->order = ORDER_HOSTILE, , "order = hostile: a key for developers")                          \
    plant(own_order, HOST, c->order_seed = 9, , "order_seed = 9: a key for developers")                                \
    plant(one_queue, HOST, c->weight_gradient_queue = false, , "weight_gradient_queue = off: a key for developers")    \
    plant(shared_gpus, RECIPE, c->share_devices = true, , "share_devices = yes: a key for developers")                 \
    plant(own_kernels, RECIPE, c->attention = ATTENTION_OWN, , "attention = own: a key for developers")                \
    plant(too_many_threads, HOST, , load->threads = 3, "oversubscribed: 4 ranks of 3 threads on 8 cores")              \
    plant(too_many_ranks, HOST, , load->node_ranks = 5, "oversubscribed: 5 ranks of 2 threads on 8 cores")             \
    plant(small_quota, HOST, , load->quota = 7.5, "oversubscribed: 4 ranks of 2 threads on a quota of 7.50")           \
    plant(few_cores_beside_gpus, RECIPE, , load->cores = 1, "")                                                        \
    plant(throttled, RECIPE, , WRITE(r->seen.samples.throttled, "rank 3: too hot"),                                    \
          "throttled device: rank 3: too hot")                                                                         \
    plant(clocks_unknown, RECIPE, , WRITE(r->seen.samples.lost, "rank 3"),                                             \
          "clocks not known: NVML does not tell rank 3")                                                               \
    plant(split_tensor_group, PROXY, , r->seen.placement.across_domains = true, "tensor groups span nodes")            \
    plant(split_as_it_likes, PROXY, own_layout(c), r->seen.placement.across_domains = true, "")                        \
    plant(unlike_before, HOST, c->repeats = 2, spread_means(r), "the means of 2 repeats spread by 5.0 %")              \
    plant(short_soak, HOST, c->minutes = 60.0, ,                                                                       \
          "a soak of 0.03648 minutes, not 60: 13 steps of 4 ranks are the most that are kept; give fewer minutes")     \
    plant(other_libraries, HOST, , WRITE(r->seen.libraries_differ, "rank 1 on b"), "libraries differ: rank 1 on b")    \
    plant(preloaded, RECIPE, , WRITE(r->seen.preloaded, "a.so replaces time"), "preloaded: a.so replaces time")        \
    plant(profiled, HOST, c->profile = ((number_range){ 3, 5 }), , "profiled: steps 3 to 4")                           \
    plant(watched, RECIPE, , WRITE(r->seen.profiled, "a.so"), "profiled: a.so")                                        \
    plant(loss_no_number, HOST, , r->seen.loss[5] = NAN, "loss or norm not finite")                                    \
    plant(loss_infinite, HOST, , r->seen.loss[5] = -INFINITY, "loss or norm not finite")                               \
    plant(norm_no_number, RECIPE, , r->seen.gradient_norm[12] = NAN, "loss or norm not finite")                        \
    plant(norm_infinite, HOST, , r->seen.gradient_norm[0] = INFINITY, "a gradient norm above 2^24")                    \
    plant(collapsed, HOST, , r->seen.gradient_norm[7] = 0.0, "a gradient is zero: training has collapsed")             \
    plant(diverged, RECIPE, , r->seen.loss[9] = 30.0, "the loss rose to 30 in step 9")                                 \
    plant(stopped, HOST, , stop_after(r, 6, SIGTERM), "interrupted after 4 of 11 steps")                               \
    plant(stopped_late, RECIPE, , stop_after(r, 12, SIGUSR1), "interrupted after 10 of 11 steps")                      \
    plant(cut_short, HOST, , stop_after(r, 12, 0), "failed")                                                           \
    plant(failed_check, HOST, , r->seen.check = sample_check(17.0), "failed")                                          \
    plant(other_transfers, RECIPE, , r->seen.check.differing = 1, "failed")                                            \
    plant(hazards, HOST, , r->seen.machine.hazards = 1, "failed")                                                      \
    plant(other_kernels, RECIPE, , r->seen.machine.shadow.failed = 1, "failed")
/* clang-format on */

#define DEFINE(name, sample, to_case, to_result, reason)                                                               \
    static void name##_case(bench_case *c) { to_case; }                                                                \
    static void name##_result(case_result *r, host_load *load) { to_result; }
PLANTS(DEFINE)

typedef struct {
    const char *name, *reason;
    int sample;
    void (*to_case)(bench_case *);
    void (*to_result)(case_result *, host_load *);
} plant;
#define ROW(name, sample, to_case, to_result, reason) { #name, reason, SAMPLE_##sample, name##_case, name##_result },
static const plant plants[] = { PLANTS(ROW) };
#define NUMBER_OF(name, ...) PLANT_##name,
enum { PLANTS(NUMBER_OF) NUMBER };

static case_result judged(const plant *p, bench_case *c)
{
    case_result r;
    host_load load = { .node_ranks = 4, .cores = 8, .threads = 2, .sharing = 1, .quota = INFINITY };
    int number = c->number;
    *c = sample_case(p->sample);
    c->number = number;
    p->to_case(c);
    result_open(&r, c);
    sample_ranks(&r.seen, c, 0.2);
    sample_steps(&r.seen, c);
    sample_machine(&r, c);
    if (c->check != CHECK_OFF) sample_checked(&r, 1.25);
    p->to_result(&r, &load);
    r.seen.load = load;
    repeated_seconds repeated = r.figures.repeated;
    r.figures = figures_of(&r.seen, c);
    r.figures.repeated = repeated;
    judge_case(&r);
    return r;
}

static bool is_told(const case_result *r, const char *reason)
{
    for (int i = 0; i < r->ruling.invalids.count; i++)
        if (strncmp(r->ruling.invalids.list[i].sentence, reason, strlen(reason)) == 0) return true;
    return false;
}

/* A failed result reports this rule as an additional reason. */
static void each_rule_that_is_broken_is_told(void **state)
{
    for (int i = 0; i < NUMBER; i++) {
        const plant *p = &plants[i];
        bench_case c = { .number = 1 };
        case_result r = judged(p, &c);
        bool sound = p->reason[0] == 0, failed = r.ruling.fails.count && strcmp(p->reason, "failed");
        if (r.ruling.valid != sound || !is_told(&r, p->reason) != sound || r.ruling.invalids.count != !sound + failed)
            fail_msg("%s: %d reasons, the first: %s", p->name, r.ruling.invalids.count,
                     r.ruling.invalids.list[0].sentence);
        assert_int_equal(r.ruling.valid && !r.ruling.comparable,
                         sound && (c.backend == BACKEND_HOST || !c.recipe_gpus));
        result_close(&r);
    }
}

/* A soak is judged by the steps it completed, not by the few steps in the deck. */
static void a_soak_has_the_steps_that_it_came_to(void **state)
{
    bench_case c = { .number = 1 };
    case_result r = judged(&plants[0], &c);
    c.steps = 3, c.minutes = 1e-3;
    rules_apply(&r, &r.ruling.invalids);
    assert_int_equal(r.ruling.invalids.count, 0);
    c.minutes = 0.0;
    rules_apply(&r, &r.ruling.invalids);
    assert_true(r.ruling.invalids.count == 1 && is_told(&r, "too few steps: 3 timed"));
    result_close(&r);
}

/* As numpy's percentile and median. If the number of steps is odd, the middle step is in neither half. */
static void steps_are_summarized(void **state)
{
    static const struct {
        int64_t completed;
        double median, spread, drift;
    } rows[] = { { 13, 6.0, 10.0 / 2.0, 9.0 / 3.0 }, { 12, 5.5, 9.1 / 1.9, 8.0 / 3.0 }, { 3, 1.0, 1.0, NAN } };
    bench_case c = sample_case(SAMPLE_HOST);
    case_result r;
    result_open(&r, &c);
    sample_ranks(&r.seen, &c, 1.0);
    for (int64_t i = 0; i < 13 * c.layout.ranks; i++) {
        int64_t t = i / c.layout.ranks;
        r.seen.ranks.step[i] = t < 2 ? 99.0 : (double)(t - 1);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        r.seen.completed = rows[i].completed;
        figures g = figures_of(&r.seen, &c);
        assert_true(g.median_seconds == rows[i].median && fabs(g.spread - rows[i].spread) < 1e-15);
        assert_true(isnan(rows[i].drift) ? isnan(g.drift) : g.drift == rows[i].drift);
        figures_free(&g);
    }
    result_close(&r);
}

/* The speed follows from the mean step: 40 / (36 + 4 x 2.9) of the speed of the median. */
static void slow_steps_count_and_are_named(void **state)
{
    bench_case c = { .number = 1 };
    case_result r = judged(&plants[PLANT_all_waited], &c);
    assert_int_equal(strncmp(r.figures.slow.names, "5 (2.9 times, all ranks waited), 15 (", 37), 0);
    result_close(&r);
    r = judged(&plants[PLANT_held_up], &c);
    assert_true(r.ruling.valid && r.figures.median_seconds == 0.2 && fabs(r.figures.p95_seconds - 0.58) < 1e-15 &&
                r.figures.slow.count == 4);
    double tokens = (double)r.figures.tokens_per_step, mean = 0.2 * 47.6 / 40.0;
    assert_true(fabs(r.figures.mean_seconds - mean) < 1e-15 &&
                fabs(r.figures.tokens_per_second * mean / tokens - 1.0) < 1e-14);
    assert_string_equal(r.figures.slow.names, "5 (2.9 times, rank 2 on host), 15 (2.9 times, rank 2 on host), "
                                              "25 (2.9 times, rank 2 on host), 35 (2.9 times, rank 2 on host)");
    result_close(&r);
}

static void what_is_comparable(void **state)
{
    static const struct {
        const char *body;
        int ranks;
        bool comparable;
        const char *comparison;
    } rows[] = {
        { "[llama3.1-8b]\nsize = full\n", 8, true, "the recipe's layout of 8 GPUs" },
        { "[llama3.1-405b]\nsize = full\n", 32, true, "the recipe's layout of 32 GPUs" },
        { "[gpt3-175b]\nsize = full\ntokens = zeros\n", 64, true, "the recipe's layout of 64 GPUs" },
        { "[llama3.1-8b]\nsize = full\n", 500, true, "scaled: the recipe's layout of 128 GPUs, data-parallel to 500" },
        { "[llama3.1-8b]\nsize = full\n", 1000, true,
          "scaled: the recipe's layout of 128 GPUs, data-parallel to 1000" },
        { "[llama3.1-70b]\nsize = full\n", 500, true, "scaled: the recipe's layout of 256 GPUs, data-parallel to 480" },
        { "[llama3.1-405b]\nsize = full\n", 1000, true,
          "scaled: the recipe's layout of 512 GPUs, data-parallel to 896" },
        { "[llama3.1-70b]\nsize = full\ntensor = 4\npipeline = 4\ncontext = 2\nchunks_per_stage = 5\ndata = 15\n"
          "global_batch = 960\n",
          500, true, "scaled: the recipe's layout of 256 GPUs, data-parallel to 480" },
        { "[grok1-314b]\nsize = full\n", 768, true, "scaled: the recipe's layout of 512 GPUs, data-parallel to 768" },
        { "[grok1-314b]\nsize = full\nlayers = 16\n", 256, false,
          "global_batch 1024, but 2048 in the recipe's cell of 128 GPUs" },
        { "[llama3.1-8b]\nsize = full\ncontext = 2\n", 4, false, "4 ranks: the recipe's smallest layout takes 8" },
        { "[llama3.1-8b]\nsize = full\nmicrobatch = 2\n", 8, false,
          "microbatch 2, but 1 in the recipe's cell of 8 GPUs" },
        { "[llama3.1-8b]\nsize = full\nglobal_batch = 500\n", 500, false,
          "global_batch 500, but 8000 in the recipe's cell of 128 GPUs" },
        { "[llama3.1-8b]\nsize = full\ntensor = 2\n", 8, false, "tensor 2, but 1 in the recipe's cell of 8 GPUs" },
        { "[llama3.1-8b]\nsize = full\nlayers = 16\n", 8, false, "layers 16, but 32 in the recipe's cell of 8 GPUs" },
        { "[llama3.1-8b]\nsize = full\nrecompute = layer\n", 8, false, "recompute is not the recipe's" },
        { "[llama3.1-8b]\nsize = full\nsharding = none\n", 8, false, "sharding is not the recipe's" },
        { "[llama3.1-8b]\nsize = full\noverlap = off\n", 8, false, "overlap is not the recipe's" },
        { "[llama3.1-8b]\nsize = full\nhidden = 2048\n", 8, false, "the model's shape is not the recipe's" },
        { "[llama3.1-8b]\nsize = full\nprecision = fp32\n", 8, false, "nothing is published for precision fp32" },
        { "[llama3.1-8b]\nsize = small\n", 8, false, "size small: a proxy of llama3.1-8b" },
        { "[gpt3-52k]\nsize = full\n", 8, false, "nothing is published for gpt3-52k" },
        { "[llama3.1-8b]\nsize = full\nbackend = host\n", 8, false, "backend host: its ranks are processes, not GPUs" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bench_case c = case_of(rows[i].body, rows[i].ranks, true);
        case_result r = { .given = &c, .ruling = { .verdict = VERDICT_PASSED, .valid = true } };
        rules_compare(&r);
        assert_string_equal(r.ruling.comparison, rows[i].comparison);
        assert_int_equal(r.ruling.comparable, rows[i].comparable);
        assert_int_equal(c.recipe_layout, c.recipe_gpus == c.layout.ranks);
        r.ruling.valid = false;
        rules_compare(&r);
        assert_true(!r.ruling.comparable && strcmp(r.ruling.comparison, "NOT VALID") == 0);
    }
}

/* The catalogue's peak comes first, then the deck's, if the device has a name. */
static void peaks_come_from_the_deck_where_none_is_known(void **state)
{
    bench_case c = sample_case(SAMPLE_HOST);
    c.peak_bf16 = 500.0;
    assert_true(case_peak(&c, "NVIDIA H100 80GB HBM3", PRECISION_BF16) == 989e12);
    assert_true(case_peak(&c, "Some GPU", PRECISION_BF16) == 500e12);
    assert_true(case_peak(&c, "Some GPU", PRECISION_FP8) == 0.0 && case_peak(&c, "Some GPU", PRECISION_FP32) == 0.0);
    assert_true(case_peak(&c, "", PRECISION_BF16) == 0.0);
    c.peak_fp8 = 900.0;
    assert_true(case_peak(&c, "NVIDIA A100-SXM4-40GB", PRECISION_FP8) == 900e12);
}

static int write_record(const char *path)
{
    static bench_case given[NUMBER];
    static case_result result[NUMBER];
    char reason[1024];
    record *r = sample_open(path, NUMBER, reason, sizeof reason);
    for (int i = 0; r && i < NUMBER; i++) {
        given[i].number = i + 1;
        result[i] = judged(&plants[i], &given[i]);
        snprintf(given[i].model_name, sizeof given[i].model_name, "%s", plants[i].name);
        record_add(r, &result[i]);
    }
    if (r && record_commit(r, reason, sizeof reason)) return 0;
    fprintf(stderr, "%s\n", reason);
    return 1;
}

int main(int argc, char **argv)
{
    TESTS(tests, each_rule_that_is_broken_is_told, a_soak_has_the_steps_that_it_came_to, steps_are_summarized,
          slow_steps_count_and_are_named, what_is_comparable, peaks_come_from_the_deck_where_none_is_known);
    if (argc > 2 && strcmp(argv[1], "--record") == 0) return write_record(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
