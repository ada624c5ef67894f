/* Equality of bits in a pipeline: losses, norms, gradients and weights when only the schedule, the number of stages and
 * chunks, the recompute mask, the deferral of the LM head's weight gradient or the order of execution change. A stage's
 * sums run over the same elements in the same order: microbatches in their order, then data ranks in theirs. Tensor and
 * context ranks, and overlap, are those of the run without a pipeline. */
#include "trained.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { STEPS = 3, RANKS = 8, DECK = 1024 };

typedef struct {
    const char *precision, *sharding;
    int tensor, data, context, layers, global_batch;
    const char *overlap;
    int shard;
} setting;
typedef struct {
    int pipeline, chunks;
    const char *schedule, *recompute;
} course;
static const course whole = { 1, 1, "1f1b", "none" };

/* 4 layers, or 6 where embedding and loss count as layers of their own: every course has to divide them alike. */
static bench_case case_for(setting b, course k)
{
    char text[DECK];
    snprintf(
        text, sizeof text,
        "pipelines\n\n[llama3.1-70b]\nsize = small\nhidden = 32\nffn = 64\nheads = 4\nkv_heads = 2\nsequence = 16\n"
        "vocabulary = 250\nmicro_batch = 1\nwarmup = 0\nsteps = %d\ncheck = off\nbackend = host\nlayers = %d\n"
        "tensor = %d\ndata = %d\nshard = %d\ncontext = %d\noverlap = %s\nprecision = %s\n%s = %s\nglobal_batch = %d\n"
        "pipeline = %d\nchunks_per_stage = %d\nschedule = %s\nrecompute = %s\n",
        STEPS, b.layers, b.tensor, b.data, b.shard, b.context, b.overlap, b.precision, "sharding", b.sharding,
        b.global_batch, k.pipeline, k.chunks, k.schedule, k.recompute);
    return case_of(text, RANKS);
}

static void same(const trained *want, const bench_case *c, training how)
{
    trained got;
    how.steps = STEPS;
    train_case(&got, c, &how);
    int64_t count = trained_differences(&got, want);
    if ((count || got.hazards > 0.0) && world_rank() == 0)
        printf("# %s, TP%d PP%d DP%d S%d CP%d, %d chunks, %s, recompute %s, last %lld heads deferred, hostile seed %u: "
               "%lld numbers differ, %g hazards\n",
               precision_name(c->precision), c->layout.degree[AXIS_TENSOR], c->layout.degree[AXIS_PIPELINE],
               c->layout.degree[AXIS_DATA], c->layout.degree[AXIS_SHARD], c->layout.degree[AXIS_CONTEXT],
               c->layout.chunks_per_stage, schedule_name(c->schedule), recompute_name(c->recompute),
               (long long)c->head_deferral, how.order_seed, (long long)count, got.hazards);
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
static int64_t compare_courses(setting b, const course *list, int count)
{
    trained want;
    int64_t compared = 0;
    want_of(&want, b);
    for (int i = 0; i < count; i++) {
        bench_case c = case_for(b, list[i]);
        same(&want, &c, (training){ .hostile = i % 2, .order_seed = 1, .prove_access = i % 4 == 1 });
        compared++;
    }
    if (world_rank() == 0)
        printf("# %s, TP%d DP%d S%d CP%d, %d sequences, sharding %s, overlap %s: %lld schedules, stages and masks give "
               "the "
               "bits of no pipeline\n",
               b.precision, b.tensor, b.data, b.shard, b.context, b.global_batch, b.sharding, b.overlap,
               (long long)compared);
    trained_close(&want);
    return compared;
}

static void fp32(void **state)
{
    (void)state;
    assert_int_equal(compare_courses((setting){ "fp32", "none", 2, 1, 1, 4, 4, "on", 1 }, courses, COURSES), 11);
}

static void bf16(void **state)
{
    (void)state;
    assert_int_equal(compare_courses((setting){ "bf16", "none", 2, 1, 1, 4, 4, "on", 1 }, courses, COURSES), 11);
}

static void data_ranks(void **state)
{
    (void)state;
    assert_int_equal(compare_courses((setting){ "bf16", "optimizer", 2, 2, 1, 4, 8, "on", 1 }, courses, COURSES_OF_TWO),
                     8);
}

static const course few[] = {
    { 2, 1, "1f1b", "none" }, { 2, 2, "interleaved", "mlp" }, { 4, 1, "gpipe", "none" }, { 4, 1, "1f1b", "layer" }
};

/* Context ranks in each stage. */
static void context_ranks(void **state)
{
    (void)state;
    assert_int_equal(compare_courses((setting){ "bf16", "optimizer", 1, 1, 2, 4, 4, "on", 1 }, few, 4), 4);
    assert_int_equal(compare_courses((setting){ "fp32", "none", 2, 1, 2, 4, 4, "on", 1 }, few, 2), 2);
}

/* Each microbatch gathers a stage's layers again, in the order of its schedule. */
static void shard_ranks(void **state)
{
    (void)state;
    assert_int_equal(compare_courses((setting){ "bf16", "none", 1, 1, 1, 4, 8, "on", 2 }, few, 4), 4);
    assert_int_equal(compare_courses((setting){ "fp32", "optimizer", 1, 2, 1, 4, 16, "off", 2 }, few, 2), 2);
    if (test_is_long())
        assert_int_equal(compare_courses((setting){ "bf16", "none", 2, 1, 1, 4, 8, "on", 2 }, courses, COURSES_OF_TWO),
                         8);
}

/* Bulk transfers of the tensor ranks. */
static void no_overlap(void **state)
{
    (void)state;
    assert_int_equal(compare_courses((setting){ "bf16", "optimizer", 2, 2, 1, 4, 8, "off", 1 }, few, 2), 2);
    assert_int_equal(compare_courses((setting){ "fp32", "none", 2, 1, 1, 4, 4, "off", 1 }, few, 4), 4);
}

/* Six layers: the first stage holds nothing but the embedding, the last nothing but the loss. */
static void eight_stages(void **state)
{
    static const course eight[] = { { 8, 1, "1f1b", "none" },
                                    { 8, 1, "gpipe", "layer" },
                                    { 4, 2, "interleaved", "attention" } };
    (void)state;
    assert_int_equal(compare_courses((setting){ "bf16", "none", 1, 1, 1, 6, 8, "on", 1 }, eight, 3), 3);
}

/* 24 microbatches a rank: all, the last 22, one and none are deferred. */
static void deferral(void **state)
{
    static const course ways[] = { { 2, 1, "1f1b", "none" },
                                   { 2, 2, "interleaved", "layer" },
                                   { 4, 1, "gpipe", "none" } };
    static const int64_t last[] = { 22, 0, 1, 24 };
    trained want;
    setting b = { "bf16", "none", 2, 1, 1, 4, 24, "on", 1 };
    (void)state;
    want_of(&want, b);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++) {
            bench_case c = case_for(b, ways[i]);
            if (k == 0) assert_int_equal(c.head_deferral, last[0]);
            c.head_deferral = last[k];
            same(&want, &c, (training){ .hostile = k == 0, .order_seed = 1 });
        }
    if (world_rank() == 0)
        printf("# 24 microbatches, 3 schedules: heads of the last 22, 0, 1 and 24 deferred give the same bits\n");
    trained_close(&want);
}

/* Queue heads in random order, of every rank's own seed. */
static void hostile_seeds(const char *precision, uint32_t seeds)
{
    trained want;
    setting b = { precision, "optimizer", 2, 2, 1, 4, 8, "on", 1 };
    want_of(&want, b);
    for (uint32_t seed = 1; seed <= seeds; seed++) {
        bench_case c = case_for(b, courses[1 + seed % 4]);
        same(&want, &c, (training){ .hostile = true, .order_seed = 1000 * seed + (uint32_t)world_rank() });
    }
    if (world_rank() == 0)
        printf("# %s, TP2 PP2 DP2: %u hostile seeds give the bits of no pipeline\n", precision, seeds);
    trained_close(&want);
}

static void hostile(void **state)
{
    const uint32_t seeds = test_is_long() ? 50 : 4;
    (void)state;
    hostile_seeds("bf16", seeds);
    hostile_seeds("fp32", seeds / 2);
}

int main(int argc, char **argv)
{
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp32),          cmocka_unit_test(bf16),       cmocka_unit_test(data_ranks),
        cmocka_unit_test(context_ranks), cmocka_unit_test(no_overlap), cmocka_unit_test(eight_stages),
        cmocka_unit_test(deferral),      cmocka_unit_test(hostile),    cmocka_unit_test(shard_ranks),
    };
    int failed = cmocka_run_group_tests_name("bitwise_pipeline", tests, NULL, NULL);
    world_stop();
    return failed;
}
