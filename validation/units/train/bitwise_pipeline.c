/* Equality of bits in a pipeline: losses, norms, gradients and weights when only the schedule, the number of stages and
 * chunks, the recompute mask, the deferral of the LM head's weight gradient or the order of execution change. A stage's
 * sums run over the same elements in the same order: microbatches in their order, then data ranks in theirs. Tensor and
 * context ranks, and overlap, are those of the run without a pipeline. */
#include "trained.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { STEPS = 3, RANKS = 8, DECK = 1024 };

/* keys: of what every course shares. */
typedef struct {
    const char *workload, *precision;
    int layers, global_batch;
    const char *keys;
} setting;
typedef struct {
    int pipeline, chunks;
    const char *schedule, *recompute;
} course;
static const course whole = { 1, 1, "1f1b", "none" };
static const char llama3[] = "llama3.1-70b", nemotron4[] = "nemotron4-340b", gpt3_175b[] = "gpt3-175b",
                  grok1_314b[] = "grok1-314b";

/* 4 layers, or 6 where embedding and loss count as layers of their own: every course has to divide them alike. */
static bench_case case_for(setting b, course k)
{
    char text[DECK];
    int length = snprintf(
        text, sizeof text,
        "pipelines\n\n[%s]\nsize = small\nhidden = 32\nffn = 64\nheads = 4\nkv_heads = %d\nsequence = 16\n"
        "vocabulary = 250\nmicro_batch = 1\nwarmup = 0\nsteps = %d\ntokens = uniform\ncheck = off\nbackend = host\n"
        "layers = %d\nprecision = %s\nglobal_batch = %d\npipeline = %d\nchunks_per_stage = %d\nschedule = %s\n"
        "recompute = %s\n%s%s%s\n",
        b.workload, b.workload == gpt3_175b ? 4 : 2, STEPS, b.layers, b.precision, b.global_batch, k.pipeline, k.chunks,
        k.schedule, k.recompute, strstr(b.keys, "data") ? "" : "data = 1\n",
        strstr(b.keys, "sharding") ? "" : "sharding = none\n", b.keys);
    for (int i = 0; i < length; i++)
        if (text[i] == ';') text[i] = '\n';
    return with_few_positions(case_of(text, RANKS));
}

static void same(const trained *want, const bench_case *c, training how)
{
    trained got;
    how.steps = STEPS;
    train_case(&got, c, &how);
    int64_t count = trained_differences(&got, want);
    char title[LAYOUT_TITLE];
    if ((count || got.hazards > 0.0) && world_rank() == 0)
        printf("# %s, recompute %s, last %lld heads deferred, hostile seed %u: %lld numbers differ, %g hazards\n",
               layout_title(title, c), recompute_name(c->recompute), (long long)c->head_deferral, how.order_seed,
               (long long)count, got.hazards);
    if (got.hazard[0]) fprintf(stderr, "# rank %d: %s\n", world_rank(), got.hazard);
    assert_int_equal(count, 0);
    assert_true(got.hazards == 0.0 && got.whole_weight_errors == 0.0);
    trained_close(&got);
}

/* Without a pipeline: the run that others are compared with. */
static void want_of(trained *want, setting b)
{
    bench_case c = case_for(b, whole);
    train_case(want, &c, &(training){ .steps = STEPS });
    assert_true(want->hazards == 0.0 && losses_are_positive(want));
}

/* Those of two stages at most first. */
enum { COURSES_OF_TWO = 8, COURSES = 11 };
static const course courses[COURSES] = {
    { 1, 1, "gpipe", "none" },         { 2, 1, "gpipe", "none" },        { 2, 1, "1f1b", "none" },
    { 2, 2, "interleaved", "none" },   { 2, 3, "interleaved", "layer" }, { 2, 1, "1f1b", "mlp" },
    { 2, 1, "1f1b", "attention_mlp" }, { 2, 2, "interleaved", "mlp" },   { 4, 1, "gpipe", "attention" },
    { 4, 1, "1f1b", "none" },          { 4, 1, "1f1b", "layer" },
};

/* All of the list or the end of the test: a course that does not fit the ranks is no case. */
static void compare_courses(setting b, const course *list, int count)
{
    trained want;
    want_of(&want, b);
    for (int i = 0; i < count; i++) {
        bench_case c = case_for(b, list[i]);
        same(&want, &c, (training){ .hostile = i % 2, .order_seed = 1, .prove_access = i % 4 == 1 });
    }
    if (world_rank() == 0)
        printf("# %s %s, %s, %d sequences: %d schedules, stages and masks give the bits of no pipeline\n", b.workload,
               b.precision, b.keys, b.global_batch, count);
    trained_close(&want);
}

static void fp32(void **state)
{
    (void)state;
    compare_courses((setting){ llama3, "fp32", 4, 4, "tensor = 2" }, courses, COURSES);
}

static void bf16(void **state)
{
    (void)state;
    compare_courses((setting){ llama3, "bf16", 4, 4, "tensor = 2" }, courses, COURSES);
}

static void data_ranks(void **state)
{
    (void)state;
    compare_courses((setting){ llama3, "bf16", 4, 8, "tensor = 2; data = 2; sharding = optimizer" }, courses,
                    COURSES_OF_TWO);
}

static const course few[] = {
    { 2, 1, "1f1b", "none" }, { 2, 2, "interleaved", "mlp" }, { 4, 1, "gpipe", "none" }, { 4, 1, "1f1b", "layer" }
};

/* Context ranks in each stage. */
static void context_ranks(void **state)
{
    (void)state;
    compare_courses((setting){ llama3, "bf16", 4, 4, "context = 2; sharding = optimizer" }, few, 4);
    compare_courses((setting){ llama3, "fp32", 4, 4, "tensor = 2; context = 2" }, few, 2);
}

/* Each microbatch gathers a stage's layers again, in the order of its schedule. */
static void shard_ranks(void **state)
{
    (void)state;
    compare_courses((setting){ llama3, "bf16", 4, 8, "shard = 2" }, few, 4);
    compare_courses((setting){ llama3, "fp32", 4, 16, "shard = 2; data = 2; sharding = optimizer; overlap = off" }, few,
                    2);
    if (!test_is_long()) return;
    compare_courses((setting){ llama3, "bf16", 4, 8, "shard = 2; tensor = 2" }, courses, COURSES_OF_TWO);
    compare_courses((setting){ nemotron4, "bf16", 4, 8, "shard = 2; tensor = 2" }, courses, COURSES_OF_TWO);
}

/* Bulk transfers of the tensor ranks. */
static void no_overlap(void **state)
{
    (void)state;
    compare_courses((setting){ llama3, "bf16", 4, 8, "tensor = 2; data = 2; sharding = optimizer; overlap = off" }, few,
                    2);
    compare_courses((setting){ llama3, "fp32", 4, 4, "tensor = 2; overlap = off" }, few, 4);
}

/* A tied embedding is at both ends of one stage, of the first and the last, of one of several chunks. Experts' choices
 * are those of no pipeline, dropped or not. By turns one precision; `long`: both, and all courses of two stages. */
static void families(void **state)
{
    static const setting list[] = {
        { gpt3_175b, "fp32", 4, 4, "tensor = 2" },
        { gpt3_175b, "bf16", 4, 8, "data = 2; sharding = optimizer" },
        { nemotron4, "bf16", 4, 4, "tensor = 2" },
        { grok1_314b, "bf16", 4, 8, "data = 2; expert = 2" },
        { grok1_314b, "fp32", 4, 8, "data = 2; expert = 2; sharding = optimizer; capacity = none" },
        { grok1_314b, "fp32", 4, 4, "context = 2; expert = 2; capacity = 0.5" },
        { gpt3_175b, "bf16", 4, 4, "context = 2" },
    };
    static const setting wide[] = { { grok1_314b, "bf16", 4, 8, "data = 2; tensor = 2; expert = 2" },
                                    { gpt3_175b, "bf16", 4, 8, "data = 2; tensor = 2; sharding = optimizer" },
                                    { nemotron4, "fp32", 4, 4, "context = 2; tensor = 2" } };
    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        setting other = list[i];
        other.precision = strcmp(list[i].precision, "bf16") ? "bf16" : "fp32";
        compare_courses(list[i], few, 4);
        if (test_is_long()) compare_courses(other, few, 4);
    }
    for (size_t i = 0; test_is_long() && i < sizeof wide / sizeof *wide; i++)
        compare_courses(wide[i], courses, COURSES_OF_TWO);
}

/* Six layers: the first stage holds nothing but the embedding, the last nothing but the loss. */
static void eight_stages(void **state)
{
    static const course eight[] = { { 8, 1, "1f1b", "none" },
                                    { 8, 1, "gpipe", "layer" },
                                    { 4, 2, "interleaved", "attention" } };
    (void)state;
    compare_courses((setting){ llama3, "bf16", 6, 8, "" }, eight, 3);
    if (!test_is_long()) return;
    compare_courses((setting){ nemotron4, "bf16", 6, 8, "" }, eight, 3);
    compare_courses((setting){ gpt3_175b, "bf16", 6, 8, "" }, eight, 3);
    compare_courses((setting){ grok1_314b, "bf16", 6, 8, "capacity = 1" }, eight, 3);
}

/* 24 microbatches a rank: all, the last 22, one and none are deferred. */
static void defer_heads(const char *workload, const char *precision)
{
    static const course ways[] = { { 2, 1, "1f1b", "none" },
                                   { 2, 2, "interleaved", "layer" },
                                   { 4, 1, "gpipe", "none" } };
    static const int64_t last[] = { 22, 0, 1, 24 };
    trained want;
    setting b = { workload, precision, 4, 24, workload == grok1_314b ? "" : "tensor = 2" };
    want_of(&want, b);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++) {
            bench_case c = case_for(b, ways[i]);
            if (k == 0 && workload == llama3) assert_int_equal(c.head_deferral, last[0]);
            c.head_deferral = last[k];
            same(&want, &c, (training){ .hostile = k == 0, .order_seed = 1 });
        }
    if (world_rank() == 0)
        printf("# %s, 24 microbatches, 3 schedules: heads of the last 22, 0, 1 and 24 deferred give the same bits\n",
               workload);
    trained_close(&want);
}

/* `long`: all families. */
static void deferral(void **state)
{
    static const char *const others[] = { nemotron4, gpt3_175b, grok1_314b };
    (void)state;
    defer_heads(llama3, "bf16");
    for (int i = 0; test_is_long() && i < 3; i++) defer_heads(others[i], i % 2 ? "fp32" : "bf16");
}

/* Queue heads in random order, of every rank's own seed. */
static void hostile_seeds(setting b, uint32_t seeds)
{
    trained want;
    want_of(&want, b);
    for (uint32_t seed = 1; seed <= seeds; seed++) {
        bench_case c = case_for(b, courses[1 + seed % 4]);
        same(&want, &c, (training){ .hostile = true, .order_seed = 1000 * seed + (uint32_t)world_rank() });
    }
    if (world_rank() == 0)
        printf("# %s %s, PP2; %s: %u hostile seeds give the bits of no pipeline\n", b.workload, b.precision, b.keys,
               seeds);
    trained_close(&want);
}

static void hostile(void **state)
{
    static const setting list[] = {
        { llama3, "bf16", 4, 8, "tensor = 2; data = 2; sharding = optimizer" },
        { llama3, "fp32", 4, 8, "tensor = 2; data = 2; sharding = optimizer" },
        { grok1_314b, "bf16", 4, 8, "tensor = 2; data = 2; expert = 2; sharding = optimizer" },
        { gpt3_175b, "bf16", 4, 8, "tensor = 2; data = 2; sharding = optimizer" },
        { nemotron4, "fp32", 4, 8, "tensor = 2; context = 2; sharding = optimizer" },
        { grok1_314b, "fp32", 4, 8, "tensor = 2; context = 2; expert = 2; capacity = none" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        hostile_seeds(list[i], test_is_long() ? 50 : i == 0 ? 4 : 2);
}

int main(int argc, char **argv)
{
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp32),          cmocka_unit_test(bf16),       cmocka_unit_test(data_ranks),
        cmocka_unit_test(context_ranks), cmocka_unit_test(no_overlap), cmocka_unit_test(eight_stages),
        cmocka_unit_test(deferral),      cmocka_unit_test(hostile),    cmocka_unit_test(shard_ranks),
        cmocka_unit_test(families),
    };
    int failed = cmocka_run_group_tests_name("bitwise_pipeline", tests, NULL, NULL);
    world_stop();
    return failed;
}
