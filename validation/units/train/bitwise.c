/* Bitwise equality of losses, norms, gradients and weights where it is promised. These keys change no bit: recompute
 * mask, sharding, overlap, schedule, stages and chunks, deferral of the head's weight gradient, execution order, checks
 * of the machine, and shard ranks in place of data ranks. Other degrees of data, context or tensor parallelism, and of
 * strips, add in another order and are not compared. */
#include "trained.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { STEPS = 2, STEPS_LONG = 3, RANKS = 8 };
static const char llama3[] = "llama3.1-70b", nemotron4[] = "nemotron4-340b", gpt3_175b[] = "gpt3-175b",
                  grok1[] = "grok1-314b";
static const char *const precisions[] = { "fp32", "bf16", "fp8" };
enum { PRECISIONS = sizeof precisions / sizeof *precisions, FP8 = 2 };

/* FP8 needs wider layers: products need at least 16 terms on each rank. */
static bench_case case_for(const char *workload, const char *precision, const char *keys)
{
    char text[TRAINED_DECK], all[TRAINED_DECK / 2];
    int width = strcmp(precision, "fp8") ? 32 : 64;
    snprintf(all, sizeof all, "%s; precision = %s; heads = %d; kv_heads = 4; hidden = %d; ffn = %d; sequence = %d",
             keys, precision, workload == gpt3_175b ? 4 : 8, width, 2 * width, width);
    deck_write(text, workload, all,
               "size = small; layers = 4; vocabulary = 250; "
               "global_batch = 8; microbatch = 1; tokens = uniform; warmup = 0; steps = 3; check = off; "
               "backend = host; data = 1; sharding = none; recompute = none");
    return with_few_positions(case_of(text, RANKS));
}

static void train(trained *x, const bench_case *c, training how)
{
    how.steps = test_is_long() ? STEPS_LONG : STEPS;
    train_case(x, c, &how);
    if (x->hazard[0]) fprintf(stderr, "# rank %d: %s\n", world_rank(), x->hazard);
    assert_true(x->hazards == 0.0 && x->whole_weight_errors == 0.0 && losses_are_positive(x));
}

static void same(const trained *want, const bench_case *c, training how, const char *what)
{
    trained got;
    char title[LAYOUT_TITLE];
    train(&got, c, how);
    int64_t count = trained_differences(&got, want);
    if (count && world_rank() == 0)
        printf("# %s, %s, hostile seed %u: %lld numbers differ\n", layout_title(title, c), what, how.order_seed,
               (long long)count);
    assert_int_equal(count, 0);
    trained_close(&got);
}

/* ---- keys that change no bit ---- */

/* The other entries of each list are compared with the first. */
static const char *const masks[] = { "recompute = none",
                                     "recompute = none",
                                     "recompute = attention",
                                     "recompute = mlp",
                                     "recompute = layer",
                                     "recompute = attention_mlp",
                                     "recompute = elementwise",
                                     "recompute = attention_elementwise",
                                     NULL };
static const char *const overlaps[] = { "overlap = on", "overlap = off", "weight_gradient_queue = off",
                                        "overlap = off; weight_gradient_queue = off; recompute = layer", NULL };
static const char *const shardings[] = { "sharding = none", "sharding = optimizer", NULL };
/* A stage sums the same elements in the same order: microbatches in order, then data ranks in order. */
static const char *const stages[] = { "pipeline = 1",
                                      "pipeline = 1; schedule = gpipe",
                                      "pipeline = 2; schedule = gpipe",
                                      "pipeline = 2; schedule = 1f1b",
                                      "pipeline = 2; schedule = interleaved; chunks_per_stage = 2",
                                      "pipeline = 2; schedule = 1f1b; recompute = attention_mlp",
                                      "pipeline = 2; schedule = interleaved; chunks_per_stage = 2; recompute = mlp",
                                      NULL };
static const char *const four_stages[] = { "pipeline = 1", "pipeline = 4; schedule = gpipe; recompute = attention",
                                           "pipeline = 4; schedule = 1f1b",
                                           "pipeline = 4; schedule = 1f1b; recompute = layer", NULL };
/* Six layers: the first chunk holds only the embedding, the last chunk only the loss. */
static const char *const empty_ends[] = { "pipeline = 1", "pipeline = 2; chunks_per_stage = 4; recompute = layer",
                                          "pipeline = 4; chunks_per_stage = 2; recompute = attention",
                                          "pipeline = 8; schedule = gpipe", NULL };
/* With one microbatch, the sum over the ranks is that of the step, whichever rank stores it. */
static const char *const four_parts[] = { "data = 4; sharding = optimizer", "shard = 4", NULL };
static const char *const two_parts[] = { "data = 2", "shard = 2", NULL };

typedef struct {
    const char *workload, *keys;
    const char *const *ways;
} promise;
static const promise promises[] = {
    { llama3, "", masks },
    { llama3, "tensor = 4", masks },
    { llama3, "data = 4; sharding = optimizer", masks },
    { llama3, "tensor = 2; data = 2; sharding = optimizer; overlap = off", masks },
    { llama3, "context = 4; sharding = optimizer", masks },
    { llama3, "tensor = 2; context = 2", masks },
    { llama3, "shard = 4", masks },
    { llama3, "tensor = 2; shard = 2", masks },
    { llama3, "data = 2; shard = 2; overlap = off", masks },
    { llama3, "context = 2; shard = 2; sharding = optimizer", masks },
    { nemotron4, "tensor = 2; context = 2; sharding = optimizer", masks },
    { nemotron4, "tensor = 2; shard = 2", masks },
    { gpt3_175b, "tensor = 2; data = 2; sharding = optimizer", masks },
    { gpt3_175b, "context = 2; tensor = 2; overlap = off", masks },
    { gpt3_175b, "data = 2; shard = 2; sharding = optimizer", masks },
    { gpt3_175b, "pipeline = 2; chunks_per_stage = 2; shard = 2; sharding = optimizer", masks },
    { grok1, "data = 4; expert = 4; sharding = optimizer", masks },
    { grok1, "data = 2; expert = 2; tensor = 2; capacity = none", masks },
    { grok1, "context = 2; expert = 2; tensor = 2; capacity = 0.5", masks },
    { grok1, "data = 2; context = 2; expert = 2; sharding = optimizer; overlap = off", masks },
    { grok1, "tensor = 2; shard = 2", masks },
    { grok1, "pipeline = 2; shard = 2", masks },
    { llama3, "tensor = 2; strips = 4", overlaps },
    { llama3, "tensor = 2; data = 2; sharding = optimizer; strips = 2", overlaps },
    { llama3, "data = 2; shard = 2", overlaps },
    { llama3, "tensor = 2; shard = 2; sharding = optimizer", overlaps },
    { nemotron4, "context = 2; shard = 2; sharding = optimizer", overlaps },
    { llama3, "data = 4", shardings },
    { llama3, "tensor = 2; data = 2", shardings },
    { llama3, "tensor = 2; data = 2; overlap = off", shardings },
    { gpt3_175b, "tensor = 2; data = 2", shardings },
    { nemotron4, "context = 2; data = 2", shardings },
    { grok1, "context = 2; data = 2; expert = 2", shardings },
    { llama3, "tensor = 2", stages },
    { llama3, "data = 2; sharding = optimizer", stages },
    { llama3, "context = 2; sharding = optimizer", stages },
    { llama3, "shard = 2", stages },
    { llama3, "tensor = 2; overlap = off", stages },
    { gpt3_175b, "tensor = 2", stages },
    { gpt3_175b, "data = 2; sharding = optimizer", stages },
    { nemotron4, "tensor = 2", stages },
    { grok1, "data = 2; expert = 2; sharding = optimizer; capacity = none", stages },
    { grok1, "context = 2; expert = 2; capacity = 0.5", stages },
    { llama3, "", four_stages },
    { gpt3_175b, "", four_stages },
    { llama3, "tensor = 2; data = 2; sharding = optimizer", stages },
    { llama3, "shard = 2; data = 2; sharding = optimizer; overlap = off", stages },
    { nemotron4, "shard = 2; tensor = 2", stages },
    { nemotron4, "context = 2; tensor = 2", stages },
    { gpt3_175b, "data = 2; tensor = 2; sharding = optimizer", stages },
    { grok1, "data = 2; tensor = 2; expert = 2", stages },
    { llama3, "layers = 6", empty_ends },
    { nemotron4, "layers = 6", empty_ends },
    { gpt3_175b, "layers = 6", empty_ends },
    { grok1, "layers = 6; capacity = 1", empty_ends },
    { llama3, "microbatch = 2", four_parts },
    { llama3, "tensor = 2; microbatch = 4", two_parts },
    { grok1, "microbatch = 2", four_parts },
    { grok1, "tensor = 2; microbatch = 4", two_parts },
    { gpt3_175b, "microbatch = 2", four_parts },
};
enum { PROMISES = sizeof promises / sizeof *promises };

/* GPT-3's gradients of BF16 weights are FP32, but a microbatch's gradient travels to its shard in BF16. */
static bool is_promised(const promise *p, int precision)
{
    return precision == 0 || p->workload != gpt3_175b || p->ways != four_parts;
}

/* Runs one precision per row in turn, FP8 rarely, and every fourth of its variants; `long` runs all. */
static bool is_due(int row, int precision)
{
    int turn = row % 6 == 5 ? FP8 : row % 2;
    return test_is_long() || precision == (is_promised(&promises[row], turn) ? turn : 0);
}
static bool is_way_due(int row, int way, int ways) { return test_is_long() || ways < 3 || (row + way) % 4 == 0; }

/* Runs in hostile order, with proof of access lists (write-only operands are NaN before, read-only operands are
 * compared after), or with both. */
static void keep_promise(int row, const char *precision)
{
    const promise *p = &promises[row];
    trained want;
    char keys[TRAINED_DECK / 4];
    int ways = 0;
    while (p->ways[ways]) ways++;
    for (int i = 0; i < ways; i++) {
        if (i > 0 && !is_way_due(row, i, ways)) continue;
        snprintf(keys, sizeof keys, "%s%s%s", p->keys, p->keys[0] ? "; " : "", p->ways[i]);
        bench_case c = case_for(p->workload, precision, keys);
        if (c.layout.ranks > world_ranks()) continue;
        training how = { .hostile = i % 2, .order_seed = (uint32_t)i, .prove_access = i % 4 > 1 };
        if (i == 0) train(&want, &c, (training){ 0 });
        else same(&want, &c, how, keys);
    }
    trained_close(&want);
}

static void keys_that_change_no_bit(void **state)
{
    (void)state;
    for (int precision = 0; precision < PRECISIONS; precision++)
        for (int row = 0; row < PROMISES; row++)
            if (is_promised(&promises[row], precision) && is_due(row, precision))
                keep_promise(row, precisions[precision]);
}

/* ---- independent of keys ---- */

/* 24 microbatches per rank; defers the last 22 (default), none, one and all. */
static void deferral(void **state)
{
    static const char *const ways[] = { "pipeline = 2", "pipeline = 2; chunks_per_stage = 2; recompute = layer",
                                        "pipeline = 4; schedule = gpipe" };
    static const char *const families[] = { llama3, nemotron4, gpt3_175b, grok1 };
    static const int64_t last[] = { 22, 0, 1, 24 };
    (void)state;
    for (int i = 0; i < (test_is_long() ? 4 * 3 : 1); i++) {
        trained want;
        char keys[TRAINED_DECK / 4];
        snprintf(keys, sizeof keys, "global_batch = 24; %s", ways[i % 3]);
        bench_case whole = case_for(families[i / 3], precisions[1], "global_batch = 24"),
                   c = case_for(families[i / 3], precisions[1], keys);
        if (i < 3) assert_int_equal(c.head_deferral, last[0]);
        train(&want, &whole, (training){ 0 });
        for (int k = 0; k < 4; k++) {
            c.head_deferral = last[k];
            same(&want, &c, (training){ .hostile = k == 0, .order_seed = 1 }, keys);
        }
        trained_close(&want);
    }
}

/* Takes queue heads in random order: the same order on every rank, then another order on each rank. */
static void hostile_order(void **state)
{
    static const promise list[] = {
        { llama3, "tensor = 2; data = 2; sharding = optimizer", NULL },
        { llama3, "tensor = 2; data = 2; overlap = off", NULL },
        { llama3, "data = 2; shard = 2; recompute = layer", NULL },
        { llama3, "tensor = 2; pipeline = 2; chunks_per_stage = 2", NULL },
        { grok1, "data = 2; expert = 2; tensor = 2", NULL },
        { grok1, "context = 2; expert = 2; capacity = none", NULL },
        { gpt3_175b, "tensor = 2; data = 2; sharding = optimizer", NULL },
        { nemotron4, "tensor = 2; shard = 2; recompute = layer", NULL },
        { grok1, "tensor = 2; data = 2; expert = 2; pipeline = 2; sharding = optimizer", NULL },
        { gpt3_175b, "tensor = 2; data = 2; pipeline = 2; sharding = optimizer", NULL },
        { nemotron4, "tensor = 2; context = 2; pipeline = 2; sharding = optimizer", NULL },
    };
    (void)state;
    for (int i = 0; i < (int)(sizeof list / sizeof *list); i++)
        for (int p = 0; p < PRECISIONS; p++) {
            trained want;
            bench_case c = case_for(list[i].workload, precisions[p], list[i].keys);
            if (c.layout.ranks > world_ranks() || (!test_is_long() && p != i % PRECISIONS)) continue;
            train(&want, &c, (training){ 0 });
            for (uint32_t seed = 1; seed <= (test_is_long() ? 50 : 2); seed++) {
                uint32_t own = 1000 * seed + (seed % 2 ? (uint32_t)world_rank() : 0);
                same(&want, &c, (training){ .hostile = true, .order_seed = own }, list[i].keys);
            }
            trained_close(&want);
        }
}

/* Padding rows leave the losses bitwise equal. They add zeros to a sum of the backward pass, which a library may add in
 * another order. */
static void padding(void **state)
{
    (void)state;
    for (int p = 0; p < 2; p++) {
        trained want, got;
        const char *name = "";
        bench_case c = case_for(llama3, precisions[p], ""), padded = c;
        padded.model.padded_vocabulary += 128;
        train_case(&want, &c, &(training){ .steps = 1 });
        train_case(&got, &padded, &(training){ .steps = 1 });
        assert_memory_equal(got.sequence_loss[0], want.sequence_loss[0], sizeof want.sequence_loss[0]);
        assert_true(got.loss[0] == want.loss[0]);
        assert_true(worst_ratio(&want, got.gradient, want.gradient, &name) < (p ? 1e-2 : 1e-6));
        assert_true(got.whole_weight_errors == 0.0);
        trained_close(&want);
        trained_close(&got);
    }
}

/* If gradients are bitwise equal, so is the norm, although data and tensor ranks hold other parts. */
static void norm(void **state)
{
    (void)state;
    for (int row = 0; row < PROMISES; row++) {
        if (promises[row].ways != masks || (!test_is_long() && row % 3)) continue;
        trained x;
        bench_case c = case_for(promises[row].workload, precisions[row % 2], promises[row].keys);
        train_case(&x, &c, &(training){ .steps = 1 });
        double whole = 0.0, units = 0.0;
        for (int64_t k = 0; k < x.base[x.rows]; k++) {
            double square = x.gradient[k] * x.gradient[k], high = floor(ldexp(square, 40));
            whole += high;
            units += nearbyint(ldexp(ldexp(square, 40) - high, 40));
        }
        double exact = sqrt(ldexp(whole, -40) + ldexp(units, -80));
        if (fabs(x.norm[0] / exact - 1.0) > 1e-15 && world_rank() == 0)
            printf("# norm %.17g, from the gradients %.17g\n", x.norm[0], exact);
        assert_true(fabs(x.norm[0] / exact - 1.0) < 1e-15);
        trained_close(&x);
    }
}

int main(int argc, char **argv)
{
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = { cmocka_unit_test(keys_that_change_no_bit), cmocka_unit_test(deferral),
                                        cmocka_unit_test(hostile_order), cmocka_unit_test(padding),
                                        cmocka_unit_test(norm) };
    int failed = cmocka_run_group_tests_name("bitwise", tests, NULL, NULL);
    world_stop();
    return failed;
}
