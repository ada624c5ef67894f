/* FP8 in many layouts of every family. If only recompute, schedule or stages differ, losses, gradients, weights and
 * scales are bitwise those of one rank. If data or shard ranks differ, the scales of the first step are. Otherwise a
 * scale of the first step may differ by a factor of two if the reference's largest / amax is near a power of two. One
 * rank is then trained with the run's scales: all its losses agree within 5e-3. Its own scales in later steps differ by
 * at most a factor of two, because weights drift: Adam's first steps follow gradient signs. With current scaling no
 * scales are passed on, and the rank's own losses are compared. */
#include "trained.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { STEPS = 20, DECK = 1024, FAMILIES = 5, RANKS = 8 };
static const char *const workloads[FAMILIES] = { "llama3.1-8b", "llama2-70b", "nemotron4-340b", "grok1-314b",
                                                 "gpt3-175b" };
static const double LOSS_LIMIT = 5e-3;
/* Allowed distance of the reference's largest / amax from a power of two in the first step. An exact scale may be off
 * as far as an element of a BF16 gradient: 2e-2 (bench/check/check_limits.c). */
static double limit_of_scales(const bench_case *c)
{
    return c->model.experts ? routed_alone : c->fp8_scale == FP8_EXACT ? 0x1p-5 : 0x1p-6;
}

typedef enum { ALL_BITS, FIRST_SCALES, BY_RULE } sameness;
typedef struct {
    int ranks;
    const char *keys;
    sameness same;
    bool experts_only;
} layout;
static const layout layouts[] = {
    { 1, "recompute = layer", ALL_BITS, false },
    { 1, "recompute = mlp", ALL_BITS, false },
    { 2, "pipeline = 2\nchunks_per_stage = 2", ALL_BITS, false },
    { 4, "pipeline = 4\nschedule = gpipe", ALL_BITS, false },
    { 2, "data = 2\nsharding = optimizer", FIRST_SCALES, false },
    { 2, "shard = 2", FIRST_SCALES, false },
    { 4, "data = 2\nshard = 2", FIRST_SCALES, false },
    { 2, "tensor = 2", BY_RULE, false },
    { 2, "context = 2", BY_RULE, false },
    { 4, "tensor = 2\ncontext = 2\nsharding = optimizer", BY_RULE, false },
    { 4, "tensor = 2\npipeline = 2\nrecompute = mlp", BY_RULE, false },
    { 8, "tensor = 2\ndata = 2\npipeline = 2\nsharding = optimizer", BY_RULE, false },
    { 8, "tensor = 4\ndata = 2", BY_RULE, false },
    { 2, "data = 2\nexpert = 2", FIRST_SCALES, true },
    { 4, "data = 2\ntensor = 2\nexpert = 2", BY_RULE, true },
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static bench_case case_for(const char *workload, const char *scaling, const layout *l)
{
    char text[DECK];
    snprintf(text, sizeof text,
             "fp8\n\n[%s]\nsize = small\nhidden = 64\nffn = 64\nheads = 4\nkv_heads = 4\nsequence = 32\n"
             "vocabulary = 250\nlayers = 4\nglobal_batch = 4\nmicrobatch = 1\nwarmup = 0\nsteps = %d\ncheck = off\n"
             "backend = host\ntokens = uniform\nprecision = fp8\n%s\n%s\n",
             workload, STEPS, scaling, l->keys);
    return with_few_positions(case_of(text, l->ranks));
}

static void train(trained *x, const bench_case *c, const trained *scales)
{
    training how = { .steps = STEPS, .scales = scales };
    train_case(x, c, &how);
    if (x->hazard[0]) fprintf(stderr, "# rank %d: %s\n", world_rank(), x->hazard);
    assert_true(x->hazards == 0.0 && x->whole_weight_errors == 0.0 && losses_are_positive(x));
}

static int64_t scales_that_differ(const trained *a, const trained *b, int64_t steps)
{
    int64_t count = 0;
    for (int64_t i = 0; i < steps * a->tensors; i++) count += a->scale[i] != b->scale[i];
    return count;
}

static double largest_difference(const trained *a, const trained *b)
{
    double largest = 0.0;
    for (int step = 0; step < STEPS; step++) largest = worst_of(largest, fabs(a->loss[step] / b->loss[step] - 1.0));
    return largest;
}

/* The whole batch on one rank, with the capacity groups of the layout. */
static bench_case alone(const bench_case *c)
{
    bench_case one = single_rank_case(c, false);
    one.backend = c->backend;
    return one;
}

static bool runs(const layout *l, const char *workload, int ranks)
{
    bool experts = strcmp(workload, "grok1-314b") == 0;
    return l->ranks <= ranks && (experts || !l->experts_only);
}

static void hold(const bench_case *c, const layout *l)
{
    trained run, one, given;
    char title[LAYOUT_TITLE];
    bench_case single = alone(c);
    train(&run, c, NULL);
    train(&given, &single, &run);
    train(&one, &single, NULL);
    double loss = largest_difference(&run, &given);
    int64_t bits = trained_differences(&run, &one) + scales_that_differ(&run, &one, STEPS);
    if (world_rank() == 0)
        printf("# %s, %s: losses within %.1e; %lld scales flip, at most %.1e from a power of two, %.1e in the first "
               "step; %lld "
               "numbers differ\n",
               layout_title(title, c), recompute_name(c->recompute), loss, (long long)given.scales.flips,
               given.scales.distance, given.first_distance, (long long)bits);
    assert_true(loss <= LOSS_LIMIT || c->fp8_scaling == FP8_CURRENT);
    assert_true(given.first_distance <= limit_of_scales(c) && isfinite(given.scales.distance));
    if (l->same == ALL_BITS) assert_int_equal(bits, 0);
    if (l->same == FIRST_SCALES) assert_int_equal(scales_that_differ(&run, &one, 1), 0);
    trained_close(&run);
    trained_close(&one);
    trained_close(&given);
}

/* In make check each family runs one of `of` layouts; check-long runs all, also with exact scales. */
static void all(const char *scaling, int of)
{
    int step = test_is_long() ? 1 : of;
    for (int w = 0; w < FAMILIES; w++)
        for (int i = 3 * w % step; i < LAYOUTS; i += step)
            if (runs(&layouts[i], workloads[w], world_ranks())) {
                bench_case c = case_for(workloads[w], scaling, &layouts[i]);
                hold(&c, &layouts[i]);
            }
}

static void power_of_two(void **state)
{
    (void)state;
    all("fp8_scale = power_of_two", 4);
}
static void exact(void **state)
{
    (void)state;
    if (test_is_long()) all("fp8_scale = exact", 1);
}
static void current(void **state)
{
    (void)state;
    all("fp8_scaling = current", LAYOUTS);
}
static void current_exact(void **state)
{
    (void)state;
    if (test_is_long()) all("fp8_scaling = current\nfp8_scale = exact", 1);
}

/* Other scales give other FP8 values of the same weights. */
static void codes_follow_given_scales(void **state)
{
    (void)state;
    for (int w = 0; w < FAMILIES; w++) {
        bench_case c = case_for(workloads[w], "fp8_scale = power_of_two", &layouts[0]);
        trained x;
        train_case(&x, &c, &(training){ .steps = 2, .halves_scales = true });
        assert_true(x.whole_weight_errors == 0.0);
        trained_close(&x);
    }
}

int main(int argc, char **argv)
{
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = { cmocka_unit_test(power_of_two), cmocka_unit_test(exact),
                                        cmocka_unit_test(current), cmocka_unit_test(current_exact),
                                        cmocka_unit_test(codes_follow_given_scales) };
    int failed = cmocka_run_group_tests_name("fp8_layouts", tests, NULL, NULL);
    world_stop();
    return failed;
}
