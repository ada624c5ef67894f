/* Equality of bits in a pipeline: losses, norms, gradients and weights when only the schedule, the number of stages and chunks,
 * the recompute mask, the deferral of the LM head's weight gradient or the order of execution change. A stage's sums run over
 * the same elements in the same order: microbatches in their order, then data ranks in theirs. */
#include "trained.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#ifndef HOSTILE_SEEDS
#define HOSTILE_SEEDS 4
#endif
enum { STEPS = 3, RANKS = 8, DECK = 1024 };

typedef struct { const char *precision, *sharding; int data, global_batch; } setting;
typedef struct { int pipeline, chunks; const char *schedule, *recompute; } course;
static const course whole = { 1, 1, "1f1b", "none" };

/* 4 layers, or 6 where embedding and loss count as layers of their own: every course has to divide them alike. */
static bench_case case_for(setting b, course k)
{
    char text[DECK];
    snprintf(text, sizeof text,
             "pipelines\n\n[llama3.1-70b]\nsize = small\nlayers = 4\nhidden = 32\nffn = 64\nheads = 4\nkv_heads = 2\nsequence = 16\n"
             "vocabulary = 250\nmicro_batch = 1\nwarmup = 0\nsteps = %d\ncheck = off\nbackend = host\ntensor = 2\n"
             "precision = %s\n%s = %s\ndata = %d\nglobal_batch = %d\npipeline = %d\nchunks_per_stage = %d\nschedule = %s\nrecompute = %s\n",
             STEPS, b.precision, "sharding", b.sharding, b.data, b.global_batch, k.pipeline, k.chunks, k.schedule, k.recompute);
    return case_of(text, RANKS);
}

/* Numbers of two runs that differ. */
static int64_t differences(const trained *a, const trained *b)
{
    const double *const left[] = { a->gradient, a->last_gradient, a->weight }, *const right[] = { b->gradient, b->last_gradient, b->weight };
    int64_t count = memcmp(a->sequence_loss, b->sequence_loss, sizeof a->sequence_loss) != 0;
    for (int step = 0; step < STEPS; step++) count += (a->loss[step] != b->loss[step]) + (a->norm[step] != b->norm[step]);
    for (int i = 0; i < 3; i++)
        for (int64_t k = 0; k < a->base[a->rows]; k++) count += left[i][k] != right[i][k];
    return count;
}

static void same(const trained *want, const bench_case *c, training how)
{
    trained got;
    how.steps = STEPS;
    train_case(&got, c, &how);
    int64_t count = differences(&got, want);
    if ((count || got.hazards > 0.0) && world_rank() == 0)
        printf("# %s, PP%d DP%d, %d chunks, %s, recompute %s, last %lld heads deferred, hostile seed %u: %lld numbers differ, %g hazards\n",
               precision_name(c->precision), c->layout.degree[AXIS_PIPELINE], c->layout.degree[AXIS_DATA], c->layout.chunks_per_stage,
               schedule_name(c->schedule), recompute_name(c->recompute), (long long)c->head_deferral, how.order_seed, (long long)count, got.hazards);
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

static const course courses[] = {
    { 1, 1, "gpipe", "none" },        { 2, 1, "gpipe", "none" },      { 2, 1, "1f1b", "none" },        { 2, 2, "interleaved", "none" },
    { 2, 3, "interleaved", "layer" }, { 4, 1, "gpipe", "attention" }, { 4, 1, "1f1b", "none" },        { 2, 1, "1f1b", "mlp" },
    { 2, 1, "1f1b", "attention_mlp" }, { 2, 2, "interleaved", "mlp" }, { 4, 1, "1f1b", "layer" },
};

static void compare_courses(setting b)
{
    trained want;
    int64_t compared = 0;
    want_of(&want, b);
    for (size_t i = 0; i < sizeof courses / sizeof courses[0]; i++) {
        if (2 * courses[i].pipeline * b.data > RANKS) continue;
        bench_case c = case_for(b, courses[i]);
        same(&want, &c, (training){ .hostile = i % 2, .order_seed = 1 });
        compared++;
    }
    if (world_rank() == 0)
        printf("# %s, TP2 DP%d, %d sequences, sharding %s: %lld schedules, stages and masks give the bits of no pipeline\n", b.precision, b.data,
               b.global_batch, b.sharding, (long long)compared);
    trained_close(&want);
}

static void fp32(void **state) { (void)state; compare_courses((setting){ "fp32", "none", 1, 4 }); }
static void bf16(void **state) { (void)state; compare_courses((setting){ "bf16", "none", 1, 4 }); }
static void data_ranks(void **state) { (void)state; compare_courses((setting){ "bf16", "optimizer", 2, 8 }); }

/* 24 microbatches a rank: all, the last 22, one and none are deferred. */
static void deferral(void **state)
{
    static const course ways[] = { { 2, 1, "1f1b", "none" }, { 2, 2, "interleaved", "layer" }, { 4, 1, "gpipe", "none" } };
    static const int64_t last[] = { 22, 0, 1, 24 };
    trained want;
    setting b = { "bf16", "none", 1, 24 };
    (void)state;
    want_of(&want, b);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++) {
            bench_case c = case_for(b, ways[i]);
            if (k == 0) assert_int_equal(c.head_deferral, last[0]);
            c.head_deferral = last[k];
            same(&want, &c, (training){ .hostile = k == 0, .order_seed = 1 });
        }
    if (world_rank() == 0) printf("# 24 microbatches, 3 schedules: heads of the last 22, 0, 1 and 24 deferred give the same bits\n");
    trained_close(&want);
}

/* Queue heads in random order, of every rank's own seed. */
static void hostile(void **state)
{
    trained want;
    setting b = { "bf16", "optimizer", 2, 8 };
    (void)state;
    want_of(&want, b);
    for (uint32_t seed = 1; seed <= HOSTILE_SEEDS; seed++) {
        bench_case c = case_for(b, courses[1 + seed % 4]);
        same(&want, &c, (training){ .hostile = true, .order_seed = 1000 * seed + (uint32_t)world_rank() });
    }
    if (world_rank() == 0) printf("# TP2 PP2 DP2: %d hostile seeds give the bits of no pipeline\n", HOSTILE_SEEDS);
    trained_close(&want);
}

int main(int argc, char **argv)
{
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = { cmocka_unit_test(fp32), cmocka_unit_test(bf16), cmocka_unit_test(data_ranks), cmocka_unit_test(deferral), cmocka_unit_test(hostile) };
    int failed = cmocka_run_group_tests_name("bitwise_pipeline", tests, NULL, NULL);
    world_stop();
    return failed;
}
