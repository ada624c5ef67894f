/* Equality of bits where weights live as shards and the embedding is tied, or layers have experts: losses, norms,
 * gradients and weights when shard ranks stand for data ranks, and when only the number of stages, the schedule, the
 * recompute mask, overlap or the order of execution change. */
#include "trained.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { STEPS = 3, DECK = 1024, MASKS = 7 };
static const char gpt3_175b[] = "gpt3-175b", grok1[] = "grok1-314b", *const precisions[] = { "fp32", "bf16" };
static const char *const masks[MASKS] = {
    "none", "attention", "mlp", "layer", "attention_mlp", "elementwise", "attention_elementwise"
};

typedef struct {
    int tensor, context, shard, data, pipeline, chunks;
    const char *sharding;
} cut;

static bench_case case_for(const char *workload, const char *precision, cut k, const char *recompute)
{
    char text[DECK];
    snprintf(
        text, sizeof text,
        "shards\n\n[%s]\nsize = small\nhidden = 32\nffn = 64\nheads = 4\nkv_heads = 4\nsequence = 16\nvocabulary = "
        "250\nlayers = 4\nglobal_batch = 8\nmicro_batch = 1\nwarmup = 0\nsteps = %d\ncheck = off\nbackend = host\n"
        "tokens = uniform\nprecision = %s\ntensor = %d\ncontext = %d\nshard = %d\ndata = %d\npipeline = %d\n"
        "chunks_per_stage = %d\nsharding = %s\nrecompute = %s\n",
        workload, STEPS, precision, k.tensor, k.context, k.shard, k.data, k.pipeline, k.chunks, k.sharding, recompute);
    return case_of(text, world_ranks());
}

static void print(const bench_case *c, int64_t differing, double hazards)
{
    const int *degree = c->layout.degree;
    printf("# %s %s, TP%d CP%d S%d DP%d PP%d, %d chunks, recompute %s: %lld numbers differ, %g hazards\n", c->workload,
           precision_name(c->precision), degree[AXIS_TENSOR], degree[AXIS_CONTEXT], degree[AXIS_SHARD],
           degree[AXIS_DATA], degree[AXIS_PIPELINE], c->layout.chunks_per_stage, recompute_name(c->recompute),
           (long long)differing, hazards);
}

static void train(trained *x, const bench_case *c, training how)
{
    how.steps = STEPS;
    train_case(x, c, &how);
    if (x->hazard[0]) fprintf(stderr, "# rank %d: %s\n", world_rank(), x->hazard);
    assert_true(x->hazards == 0.0 && x->whole_weight_errors == 0.0 && losses_are_positive(x));
}

static void same(const trained *want, const bench_case *c, training how)
{
    trained got;
    train(&got, c, how);
    int64_t count = trained_differences(&got, want);
    if (count && world_rank() == 0) print(c, count, got.hazards);
    assert_int_equal(count, 0);
    trained_close(&got);
}

/* Of one microbatch the sum over the ranks is the step's, whoever keeps it. GPT-3's gradients of BF16 weights are FP32,
 * a microbatch's that travels to its shard is BF16; so it is held to this in FP32 alone. */
static void as_data_ranks(void **state)
{
    static const cut pairs[][2] = { { { 1, 1, 1, 4, 1, 1, "none" }, { 1, 1, 4, 1, 1, 1, "none" } },
                                    { { 2, 1, 1, 2, 1, 1, "optimizer" }, { 2, 1, 2, 1, 1, 1, "none" } },
                                    { { 1, 1, 1, 2, 2, 1, "optimizer" }, { 1, 1, 2, 1, 2, 1, "optimizer" } } };
    static const struct {
        const char *workload, *precision;
    } of[] = { { gpt3_175b, "fp32" }, { grok1, "fp32" }, { grok1, "bf16" } };
    (void)state;
    for (int w = 0; w < 3; w++)
        for (int i = 0; i < 3; i++) {
            trained want;
            bench_case data = case_for(of[w].workload, of[w].precision, pairs[i][0], "none"),
                       shard = case_for(of[w].workload, of[w].precision, pairs[i][1], "none");
            data.micro_batch = shard.micro_batch = 8 / data.layout.degree[AXIS_DATA];
            data.microbatches = shard.microbatches = 1;
            train(&want, &data, (training){ 0 });
            same(&want, &shard, (training){ 0 });
            trained_close(&want);
        }
}

/* Each way hostile, or with its access lists proved, or both. */
static void under_every_mask(const trained *want, const char *workload, const char *precision, cut k)
{
    for (int m = 0; m < MASKS; m++) {
        bench_case c = case_for(workload, precision, k, masks[m]);
        if (m % 4 == 3) c.overlap = c.weight_gradient_queue = false;
        same(want, &c, (training){ .hostile = m % 2, .order_seed = (uint32_t)(m + 1), .prove_access = m % 3 == 0 });
    }
}

/* One stage, then two: the tied embedding's gradients are added up in it, or between them. */
static void stages(const char *workload, const char *precision)
{
    static const cut one = { 1, 1, 2, 1, 1, 1, "none" },
                     two[] = { { 1, 1, 2, 1, 2, 1, "none" }, { 1, 1, 2, 1, 2, 2, "optimizer" } };
    trained want;
    bench_case c = case_for(workload, precision, one, "none");
    train(&want, &c, (training){ 0 });
    for (int i = 0; i < 2; i++) under_every_mask(&want, workload, precision, two[i]);
    trained_close(&want);
}

static void cuts(const char *workload, const char *precision)
{
    static const cut list[] = { { 1, 1, 4, 1, 1, 1, "none" },
                                { 1, 1, 2, 2, 1, 1, "optimizer" },
                                { 2, 1, 2, 1, 1, 1, "none" },
                                { 1, 2, 2, 1, 1, 1, "optimizer" } };
    for (int i = 0; i < 4; i++) {
        trained want;
        bench_case c = case_for(workload, precision, list[i], "none");
        train(&want, &c, (training){ 0 });
        under_every_mask(&want, workload, precision, list[i]);
        trained_close(&want);
    }
}

/* In `make check` a workload's stages are compared in one precision and its cuts in the other. */
static void every_way(const char *workload, int first)
{
    for (int p = 0; p < 2; p++) {
        if (test_is_long() || p == first) stages(workload, precisions[p]);
        if (test_is_long() || p != first) cuts(workload, precisions[p]);
    }
}

static void tied(void **state)
{
    (void)state;
    every_way(gpt3_175b, 0);
}

static void experts(void **state)
{
    (void)state;
    every_way(grok1, 1);
}

int main(int argc, char **argv)
{
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = { cmocka_unit_test(as_data_ranks), cmocka_unit_test(tied),
                                        cmocka_unit_test(experts) };
    int failed = cmocka_run_group_tests_name("bitwise_shards", tests, NULL, NULL);
    world_stop();
    return failed;
}
