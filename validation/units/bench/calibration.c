/* Measures the spread of the check's ratios over correct layouts; the limits in bench/check/check_limits.c were chosen
 * from it. Every check draws a layout for at most the ranks of the world, and workload, precision, FP8 scaling, shard
 * and expert ranks, capacity, schedule, chunks, overlap, recompute mask, sharding, context_gradients and seed. Ratios
 * are divided by the depth term of the limits. If a correct check uses more than two thirds of a limit, the limit
 * becomes three times that ratio. CALIBRATION_CHECKS=N: number of checks; CALIBRATION_SEED=N: another seed;
 * CALIBRATION_WORKLOAD=NAME, CALIBRATION_PRECISION=NAME: only these. CPU instructions change sums: repeat with
 * ONEDNN_MAX_CPU_ISA=AVX2, AVX512_CORE and AVX512_CORE_BF16. */
#include "base/random.h"
#include "bench/check/check.h"
#include "bench/launch/case_machine.h"
#include "units/tests.h"
#include "units/train/trained.h"

enum { RANKS = 8, CUTS = 64, DECK = 1024, TITLE = 256, CHECKS = 576 };

static const char *const workloads[] = { "llama3.1-8b",    "llama3.1-70b", "llama3.1-405b", "llama2-70b",
                                         "nemotron4-340b", "gpt3-175b",    "grok1-314b" };
enum { WORKLOADS = sizeof workloads / sizeof workloads[0], PRECISIONS = PRECISION_FP8 + 1 };
enum { RECOMPUTES = RECOMPUTE_ATTENTION_ELEMENTWISE + 1 };

typedef struct {
    int tensor, data, shard, context, expert, pipeline;
} cut;

/* References: same precision, for layouts with one tensor rank; the same with several tensor ranks; FP32. */
typedef enum { ALONE, TENSOR, AGAINST_FP32, REFERENCES } compared_with;

/* The largest ratios of one precision to one reference, and the check that gave each. */
typedef struct {
    int checks;
    check_limits limits, largest;
    char title[CHECK_MEASURES][TITLE];
} spread;

static uint32_t number_of(const char *variable, uint32_t otherwise)
{
    return getenv(variable) ? (uint32_t)atol(getenv(variable)) : otherwise;
}

/* Returns a divisor of n, chosen by word. */
static int drawn_divisor(int n, uint32_t word)
{
    int divisor[RANKS], count = 0;
    for (int i = 1; i <= n; i++)
        if (n % i == 0) divisor[count++] = i;
    return divisor[word % (uint32_t)count];
}

/* Lists every combination of degrees 1, 2, 3, 4, 6 and 8 whose product is at most the number of ranks. */
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

static cut drawn_cut(uint32_t word)
{
    cut list[CUTS];
    int cuts = list_cuts(list);
    return list[word % (uint32_t)cuts];
}

/* Draws shard ranks from the data ranks and, with experts, expert ranks. Three ranks cannot hold four experts. */
static void draw_cut(cut *k, uint32_t word, bool experts)
{
    k->shard = drawn_divisor(k->data, word & 0xff);
    k->data /= k->shard;
    k->expert = experts && k->shard == 1 ? drawn_divisor(k->data * k->context, word >> 8 & 0xff) : 1;
    if (k->expert == 3) k->expert = 1;
}

/* The number of the check determines all keys but workload and precision. */
static bench_case drawn_case(const char *workload, const char *precision, uint32_t number)
{
    static const char *const schedules[] = { "gpipe", "1f1b", "interleaved\nchunks_per_stage = 2",
                                             "interleaved\nchunks_per_stage = 3",
                                             "interleaved\nchunks_per_stage = 12" };
    philox_block x =
        philox4x32((philox_block){ { number, 0, 0, 0 } }, number_of("CALIBRATION_SEED", 1), fnv1a(workload));
    uint32_t word = x.word[0];
    cut k = drawn_cut(x.word[3] >> 16);
    bool experts = strcmp(workload, "grok1-314b") == 0;
    static const char *const scales[] = { "", "fp8_scale = exact\n", "fp8_scaling = current\n",
                                          "fp8_scale = exact\nfp8_scaling = current\n" };
    char text[DECK], capacity[TITLE] = "";
    draw_cut(&k, x.word[3], experts);
    if (experts) snprintf(capacity, TITLE, "expert = %d\ncapacity = %s\n", k.expert, word >> 10 & 1 ? "1" : "none");
    snprintf(text, sizeof text,
             "calibration\n\n[%s]\nsize = check\nprecision = %s\ntensor = %d\ndata = %d\nshard = %d\ncontext = %d\n"
             "pipeline = %d\nschedule = %s\noverlap = %s\nrecompute = %s\nsharding = %s\nseed = %u\ncontext_gradients "
             "= %s\nbackend = host\n%s%s",
             workload, precision, k.tensor, k.data, k.shard, k.context, k.pipeline,
             k.pipeline > 1 ? schedules[word % 5] : "1f1b", word >> 8 & 1 ? "on" : "off",
             recompute_name((recompute_mask)(x.word[1] % RECOMPUTES)), word >> 9 & 1 ? "optimizer" : "none", x.word[2],
             word >> 13 & 1 ? "bf16" : "fp32", capacity, strcmp(precision, "fp8") == 0 ? scales[word >> 11 & 3] : "");
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

static void take(spread *s, const check_limits *found, const bench_case *c)
{
    s->checks++;
    for (int m = 0; m < CHECK_MEASURES; m++) {
        if (!(found->of[m] <= s->largest.of[m])) title_of(s->title[m], c);
        s->largest.of[m] = worst_of(s->largest.of[m], found->of[m]);
    }
}

/* Returns the limits for the same model with one layer. */
static check_limits flat_limits(const bench_case *c, bool against_fp32)
{
    bench_case flat = *c;
    flat.model.layers = 1;
    return check_limits_of(&flat, against_fp32);
}

static void add_ratios(spread s[REFERENCES], check *k, const bench_case *c)
{
    for (int i = 0; i < k->references; i++) {
        spread *of = &s[i == 1 ? AGAINST_FP32 : c->layout.degree[AXIS_TENSOR] > 1 ? TENSOR : ALONE];
        check_limits deep = check_limits_of(&k->given, i == 1);
        of->limits = flat_limits(&k->given, i == 1);
        for (int m = 0; m < CHECK_MEASURES; m++)
            if (deep.of[m] > 0.0) k->found[i].of[m] *= of->limits.of[m] / deep.of[m];
        take(of, &k->found[i], c);
    }
}

/* Returns false if the check failed. */
static bool calibrate(spread s[REFERENCES], const bench_case *c)
{
    check k;
    machine_findings found = { .hazards = 0 };
    char title[TITLE];
    machine_options on = case_machine(c);
    check_open(&k, c);
    check_result x = check_run(&k, &on, &found);
    add_ratios(s, &k, c);
    title_of(title, c);
    if (!x.passed && world_rank() == 0) printf("# %s: %s, residual %.1f\n", title, x.worst, x.residual);
    check_close(&k);
    return x.passed;
}

static void print(const spread *s, case_precision precision, compared_with which)
{
    static const char *const measures[CHECK_MEASURES] = {
        "loss, first", "loss, later", "gradient, first", "gradient, fourth", "norm, first",  "norm, fourth",
        "along",       "weights",     "balance loss",    "margin",           "scale, first", "scale, later"
    };
    static const char *const against[REFERENCES] = { "tensor = 1", "tensor > 1", "against fp32" };
    if (world_rank() > 0 || s->checks == 0) return;
    printf("# %s, %s: %d checks\n", precision_name(precision), against[which], s->checks);
    for (int m = 0; m < CHECK_MEASURES; m++)
        if (s->limits.of[m] > 0.0)
            printf("# %-16s %.1e, %.3f of its limit %.1e%s: %s\n", measures[m], s->largest.of[m],
                   s->largest.of[m] / s->limits.of[m], s->limits.of[m],
                   3.0 * s->largest.of[m] > 2.0 * s->limits.of[m] ? ", MORE THAN TWO THIRDS" : "", s->title[m]);
}

static bool is_asked(const char *variable, const char *name)
{
    const char *only = getenv(variable);
    return !only || strcmp(only, name) == 0;
}

static void healthy_checks_pass(void **state)
{
    static spread s[PRECISIONS][REFERENCES];
    bool passed = true;
    uint32_t checks = number_of("CALIBRATION_CHECKS", CHECKS);
    for (uint32_t n = 0; n < checks; n++) {
        const char *workload = workloads[n / PRECISIONS % WORKLOADS];
        case_precision precision = (case_precision)(n % PRECISIONS);
        if (!is_asked("CALIBRATION_PRECISION", precision_name(precision)) ||
            !is_asked("CALIBRATION_WORKLOAD", workload))
            continue;
        bench_case c = drawn_case(workload, precision_name(precision), n);
        passed = calibrate(s[precision], &c) && passed;
    }
    for (int i = 0; i < PRECISIONS * REFERENCES; i++)
        print(&s[i / REFERENCES][i % REFERENCES], (case_precision)(i / REFERENCES), (compared_with)(i % REFERENCES));
    assert_true(passed);
}

WORLD_PROGRAM("calibration", NULL, NULL, healthy_checks_pass)
