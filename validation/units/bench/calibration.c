/* Spread of the check's ratios over healthy layouts: what the limits in bench/check.c were chosen by. Every layout of
 * the world's ranks, up to eight, of four axes, with every second workload, and all precisions; how many of the data
 * ranks are shard ranks, experts and their capacity, schedule, chunks, overlap, recompute mask, sharding, FP8's scaling
 * and the run's seed are drawn. Ratios are in units of what depth adds to the limits. A healthy layout should stay
 * below half of every limit; none may reach it. CALIBRATION_SEED=N draws others, CALIBRATION_WORKLOAD=NAME and
 * CALIBRATION_PRECISION=NAME leave the others out. */
#include "base/random.h"
#include "bench/case_machine.h"
#include "bench/check.h"
#include "units/train/trained.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { RANKS = 8, DECK = 1024, TITLE = 256 };

static const char *const workloads[] = { "llama3.1-8b",    "llama3.1-70b", "llama3.1-405b", "llama2-70b",
                                         "nemotron4-340b", "gpt3-175b",    "grok1-314b" };
enum { WORKLOADS = sizeof workloads / sizeof workloads[0], SCHEDULES = 3, SHARDINGS = 2 };
enum { RECOMPUTES = RECOMPUTE_ATTENTION_ELEMENTWISE + 1 };

typedef struct {
    int tensor, data, shard, context, expert, pipeline;
} cut;

/* What a check can have; a line of the result each. */
enum {
    ALL,
    WITH_TENSOR,
    WITH_DATA,
    WITH_SHARD,
    WITH_CONTEXT,
    WITH_EXPERT,
    WITH_PIPELINE,
    WITH_SCHEDULE,
    OVERLAP_OFF = WITH_SCHEDULE + SCHEDULES,
    OVERLAP_ON,
    WITH_RECOMPUTE,
    WITH_SHARDING = WITH_RECOMPUTE + RECOMPUTES,
    DROPLESS = WITH_SHARDING + SHARDINGS,
    WITH_CAPACITY,
    WITH_WORKLOAD,
    TRAITS = WITH_WORKLOAD + WORKLOADS
};

/* One reference's ratios: the largest of each trait, and which check made the largest of each measure. */
typedef struct {
    int checks[TRAITS];
    check_limits largest[TRAITS];
    char title[CHECK_MEASURES][TITLE];
} spread;

static const char *trait_name(int trait)
{
    static const char *const axes[] = { "all", "tensor", "data", "shard", "context", "expert", "pipeline" };
    if (trait >= WITH_WORKLOAD) return workloads[trait - WITH_WORKLOAD];
    if (trait >= DROPLESS) return trait == DROPLESS ? "capacity none" : "capacity 1";
    if (trait >= WITH_SHARDING) return trait == WITH_SHARDING ? "sharding none" : "sharding optimizer";
    if (trait >= WITH_RECOMPUTE) return recompute_name((recompute_mask)(trait - WITH_RECOMPUTE));
    if (trait >= OVERLAP_OFF) return trait == OVERLAP_ON ? "overlap on" : "overlap off";
    if (trait >= WITH_SCHEDULE) return schedule_name((schedule_kind)(trait - WITH_SCHEDULE));
    return axes[trait];
}

/* Schedules count where there is a pipeline, overlap where there are tensor ranks, sharding where there is something to
 * spread. */
static uint32_t traits_of(const bench_case *c, int workload)
{
    const int *degree = c->layout.degree;
    bool spread_over = degree[AXIS_DATA] > 1 || degree[AXIS_CONTEXT] > 1;
    uint32_t traits = 1u << ALL | 1u << (WITH_RECOMPUTE + (int)c->recompute) | 1u << (WITH_WORKLOAD + workload);
    if (degree[AXIS_TENSOR] > 1) traits |= 1u << WITH_TENSOR | 1u << (c->overlap ? OVERLAP_ON : OVERLAP_OFF);
    if (degree[AXIS_DATA] > 1) traits |= 1u << WITH_DATA;
    if (degree[AXIS_SHARD] > 1) traits |= 1u << WITH_SHARD;
    if (degree[AXIS_CONTEXT] > 1) traits |= 1u << WITH_CONTEXT;
    if (c->layout.expert > 1) traits |= 1u << WITH_EXPERT;
    if (c->model.experts) traits |= 1u << (c->capacity > 0.0 ? WITH_CAPACITY : DROPLESS);
    if (degree[AXIS_PIPELINE] > 1) traits |= 1u << WITH_PIPELINE | 1u << (WITH_SCHEDULE + (int)c->schedule);
    if (spread_over) traits |= 1u << (WITH_SHARDING + (int)c->sharding);
    return traits;
}

static uint32_t seed_of_run(void)
{
    return getenv("CALIBRATION_SEED") ? (uint32_t)atol(getenv("CALIBRATION_SEED")) : 1;
}

/* One of n's divisors. */
static int drawn_divisor(int n, uint32_t word)
{
    int divisor[RANKS], count = 0;
    for (int i = 1; i <= n; i++)
        if (n % i == 0) divisor[count++] = i;
    return divisor[word % (uint32_t)count];
}

/* Shard ranks from the data ranks; of a mixture of experts, who holds an expert. Three ranks hold no four experts. */
static void draw_cut(cut *k, uint32_t word, bool experts)
{
    k->shard = drawn_divisor(k->data, word & 0xff);
    k->data /= k->shard;
    k->expert = experts && k->shard == 1 ? drawn_divisor(k->data * k->context, word >> 8 & 0xff) : 1;
    if (k->expert == 3) k->expert = 1;
}

/* The case's number draws all keys but workload, precision and degrees. */
static bench_case drawn_case(const char *workload, const char *precision, cut k, uint32_t number)
{
    static const char *const schedules[] = { "gpipe", "1f1b", "interleaved\nchunks_per_stage = 2",
                                             "interleaved\nchunks_per_stage = 3",
                                             "interleaved\nchunks_per_stage = 12" };
    philox_block x = philox4x32((philox_block){ { number, 0, 0, 0 } }, seed_of_run(), fnv1a(workload));
    uint32_t word = x.word[0];
    bool experts = strcmp(workload, "grok1-314b") == 0;
    static const char *const scales[] = { "", "fp8_scale = exact\n", "fp8_scaling = current\n", "" };
    char text[DECK], capacity[TITLE] = "";
    draw_cut(&k, x.word[3], experts);
    if (experts) snprintf(capacity, TITLE, "expert = %d\ncapacity = %s\n", k.expert, word >> 10 & 1 ? "1" : "none");
    snprintf(
        text, sizeof text,
        "calibration\n\n[%s]\nsize = check\nprecision = %s\ntensor = %d\ndata = %d\nshard = %d\ncontext = %d\n"
        "pipeline = %d\nschedule = %s\noverlap = %s\nrecompute = %s\nsharding = %s\nseed = %u\nbackend = host\n%s%s",
        workload, precision, k.tensor, k.data, k.shard, k.context, k.pipeline,
        k.pipeline > 1 ? schedules[word % 5] : "1f1b", word >> 8 & 1 ? "on" : "off",
        recompute_name((recompute_mask)(x.word[1] % RECOMPUTES)), word >> 9 & 1 ? "optimizer" : "none", x.word[2],
        capacity, strcmp(precision, "fp8") == 0 ? scales[word >> 11 & 3] : "");
    return case_of(text, world_ranks());
}

static void title_of(char title[TITLE], const bench_case *c)
{
    const int *degree = c->layout.degree;
    snprintf(title, TITLE,
             "%s TP%d DP%d S%d CP%d EP%d capacity %g PP%d %s x%d, overlap %s, recompute %s, sharding %s, scales %s %s, "
             "seed %u",
             c->workload, degree[AXIS_TENSOR], degree[AXIS_DATA], degree[AXIS_SHARD], degree[AXIS_CONTEXT],
             c->layout.expert, c->capacity, degree[AXIS_PIPELINE], schedule_name(c->schedule),
             c->layout.chunks_per_stage, c->overlap ? "on" : "off", recompute_name(c->recompute),
             sharding_name(c->sharding), fp8_scale_name(c->fp8_scale), fp8_scaling_name(c->fp8_scaling), c->seed);
}

static void take(spread *s, const check_limits *found, uint32_t traits, const bench_case *c)
{
    for (int m = 0; m < CHECK_MEASURES; m++)
        if (traits & 1u << ALL && !(found->of[m] <= s->largest[ALL].of[m])) title_of(s->title[m], c);
    for (int i = 0; i < TRAITS; i++) {
        if (!(traits >> i & 1)) continue;
        s->checks[i]++;
        for (int m = 0; m < CHECK_MEASURES; m++) s->largest[i].of[m] = worst_of(s->largest[i].of[m], found->of[m]);
    }
}

/* False: the check failed. */
static bool calibrate(spread *s, const bench_case *c, int workload)
{
    check k;
    case_result r;
    char title[TITLE];
    machine_options on = case_machine(c);
    result_open(&r, c);
    check_open(&k, c);
    check_result x = check_run(&k, &on, &r);
    uint32_t traits = traits_of(c, workload);
    for (int i = 0; i < k.references; i++) {
        check_limits flat = check_limits_of(c->precision, 1, i == 1),
                     deep = check_limits_of(c->precision, k.given.model.layers, i == 1);
        for (int m = 0; m < CHECK_MEASURES; m++)
            if (deep.of[m] > 0.0) k.found[i].of[m] *= flat.of[m] / deep.of[m];
        take(&s[i], &k.found[i], traits, c);
    }
    title_of(title, c);
    if (!x.passed && world_rank() == 0) printf("# %s: %s, residual %.1f\n", title, x.worst, x.residual);
    check_close(&k);
    result_close(&r);
    return x.passed;
}

static void print(const spread *s, const char *what, const check_limits *limits)
{
    static const char *const measures[CHECK_MEASURES] = { "loss, first",      "loss, later",     "gradient, first",
                                                          "gradient, fourth", "gradient, along", "weights",
                                                          "balance loss",     "margin",          "scale, first",
                                                          "scale, later" };
    if (world_rank() > 0) return;
    printf("# %-26s loss: first, later   gradient: first, fourth, along   weights   balance  margin   scale: first, "
           "later\n",
           what);
    for (int i = 0; i < TRAITS; i++) {
        const double *x = s->largest[i].of;
        if (s->checks[i] == 0) continue;
        printf("# %-18s %3d     %.1e %.1e        %.1e %.1e %.1e       %.1e   %.1e  %.1e  %.1e %.1e\n", trait_name(i),
               s->checks[i], x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9]);
    }
    for (int m = 0; m < CHECK_MEASURES; m++)
        if (limits->of[m] > 0.0)
            printf("# %-16s %.3f of its limit %.1e: %s\n", measures[m], s->largest[ALL].of[m] / limits->of[m],
                   limits->of[m], s->title[m]);
}

/* Every product of degrees 1, 2, 3, 4, 6 and 8 up to the world's ranks. */
static int list_cuts(cut *list)
{
    int cuts = 0;
    for (int t = 1; t <= world_ranks(); t++)
        for (int d = 1; t * d <= world_ranks(); d++)
            for (int c = 1; t * d * c <= world_ranks(); c++)
                for (int p = 1; t * d * c * p <= world_ranks(); p++)
                    if ((t * d * c * p) % 5 && (t * d * c * p) % 7) list[cuts++] = (cut){ t, d, 1, c, 1, p };
    return cuts;
}

static bool is_asked(const char *variable, const char *name)
{
    const char *only = getenv(variable);
    return !only || strcmp(only, name) == 0;
}

static void calibrate_all(case_precision precision)
{
    cut list[64];
    static spread s[2];
    bool passed = true;
    int cuts = list_cuts(list), references = precision == PRECISION_FP32 ? 1 : 2;
    if (!is_asked("CALIBRATION_PRECISION", precision_name(precision))) return;
    memset(s, 0, sizeof s);
    for (int k = 0; k < cuts; k++)
        for (int w = (k + (int)seed_of_run()) % 2; w < WORKLOADS; w += 2) {
            if (!is_asked("CALIBRATION_WORKLOAD", workloads[w])) continue;
            bench_case c =
                drawn_case(workloads[w], precision_name(precision), list[k], (uint32_t)(k * 2 + references - 1));
            passed = calibrate(s, &c, w) && passed;
        }
    for (int i = 0; i < references; i++) {
        check_limits limits = check_limits_of(precision, 1, i == 1);
        char what[TITLE];
        snprintf(what, TITLE, "%s%s", precision_name(precision), i ? " against fp32" : "");
        print(&s[i], what, &limits);
    }
    assert_true(passed);
}

static void fp32(void **state)
{
    (void)state;
    calibrate_all(PRECISION_FP32);
}
static void bf16(void **state)
{
    (void)state;
    calibrate_all(PRECISION_BF16);
}
static void fp8(void **state)
{
    (void)state;
    calibrate_all(PRECISION_FP8);
}

int main(int argc, char **argv)
{
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = { cmocka_unit_test(fp32), cmocka_unit_test(bf16), cmocka_unit_test(fp8) };
    int failed = cmocka_run_group_tests_name("calibration", tests, NULL, NULL);
    world_stop();
    return failed;
}
