/* Agreement of layouts with one rank (agreement.h): losses per sequence, gradients of the first and the fourth step,
 * weights and norms within the limits of bench/check/check.c; no hazard; gathered weights equal the owners'. Runs a
 * third of a list (by the day) for at most the ranks of the world, and random layouts of every family in hostile order.
 * `long` runs the whole list and draws more. XGSW_TEST_SEED sets the seed. */
#include "drawn.h"

enum { STEPS = 4, DRAWN = 1, DRAWN_LONG = 20 };
/* The one rank uses the capacity groups of the layout. */
static void agree(const bench_case *c, const bench_case *alone, training how, const char *keys)
{
    spreads found = no_spread;
    references r;
    char what[KEY_BYTES + 64];
    references_train(&r, alone, STEPS);
    compare_case(&found, c, how, &r);
    snprintf(what, sizeof what, ", %lld deferred: %s", (long long)c->head_deferral, keys);
    judge(c, what, &found, r.count);
    references_close(&r);
}

/* ---- a list ---- */

/* Every kind of cut, combined with varying precisions, masks, shardings and strips; odd and single microbatches;
 * vocabularies whose last tensor ranks hold only padding. */
static const struct {
    const char *workload, *keys;
} chosen[] = {
    { llama3, "precision = fp32; microbatch = 2" },
    { llama3, "precision = fp32; tensor = 8; recompute = layer; strips = 4" },
    { llama3, "precision = bf16; data = 8; sharding = optimizer; recompute = attention" },
    { llama3, "precision = bf16; tensor = 4; data = 2; recompute = mlp; strips = 2; global_batch = 10" },
    { llama3, "precision = fp8; tensor = 2; data = 2; sharding = optimizer; recompute = attention_mlp" },
    { llama3, "precision = fp8; context = 4; recompute = elementwise" },
    { llama3, "precision = bf16; context = 8; recompute = attention; strips = 4; microbatch = 3; global_batch = 6" },
    { llama3, "precision = fp32; tensor = 2; data = 2; context = 2; sharding = optimizer; microbatch = 2" },
    { llama3, "precision = bf16; tensor = 2; context = 2; strips = 4; context_gradients = bf16; recompute = layer" },
    { llama3, "precision = fp32; tensor = 2; data = 2; sharding = optimizer; microbatch = 2; global_batch = 12" },
    { llama3, "precision = fp32; tensor = 8; vocabulary = 130; strips = 2" },
    { llama3, "precision = bf16; tensor = 4; data = 2; vocabulary = 127; sharding = optimizer" },
    { llama3, "precision = fp32; pipeline = 8; layers = 6; recompute = layer" },
    { llama3, "precision = bf16; pipeline = 4; chunks_per_stage = 2; layers = 6" },
    { llama3, "precision = bf16; tensor = 2; pipeline = 4; schedule = gpipe; layers = 6; recompute = attention_mlp" },
    { llama3, "precision = fp32; tensor = 2; context = 2; pipeline = 2; layers = 6; recompute = layer" },
    { llama3, "precision = fp8; tensor = 2; data = 2; pipeline = 2; chunks_per_stage = 2; layers = 6" },
    { llama2, "precision = fp32; shard = 2; recompute = layer" },
    { llama2, "precision = bf16; shard = 2; tensor = 2; data = 2; recompute = attention_mlp; strips = 2" },
    { llama2, "precision = bf16; shard = 8; recompute = mlp" },
    { llama2, "precision = fp8; shard = 2; tensor = 2; context = 2; sharding = optimizer" },
    { llama2, "precision = fp32; shard = 2; data = 2; context = 2; sharding = optimizer; recompute = layer" },
    { llama2, "precision = bf16; shard = 2; pipeline = 2; chunks_per_stage = 3; layers = 6; recompute = layer" },
    { llama3, "precision = fp32; shard = 2; tensor = 2; pipeline = 2; chunks_per_stage = 2; layers = 6" },
    { nemotron4, "precision = bf16; tensor = 2; context = 2; pipeline = 2; chunks_per_stage = 2; layers = 6" },
    { nemotron4, "precision = fp32; tensor = 2; data = 2; context = 2; sharding = optimizer; recompute = layer" },
    { nemotron4, "precision = bf16; tensor = 8; vocabulary = 130; strips = 2; recompute = attention" },
    { nemotron4, "precision = bf16; data = 8; sharding = optimizer; recompute = attention_mlp" },
    { nemotron4, "precision = fp32; pipeline = 4; chunks_per_stage = 2; tensor = 2; layers = 6" },
    { nemotron4, "precision = bf16; shard = 2; tensor = 2; data = 2; sharding = optimizer; recompute = attention" },
    { nemotron4, "precision = fp32; shard = 4; recompute = layer" },
    { nemotron4, "precision = bf16; tensor = 2; data = 3; sharding = optimizer; global_batch = 6" },
    { gpt3_175b, "precision = bf16; tensor = 2; data = 2; context = 2; recompute = attention" },
    { gpt3_175b, "precision = fp32; tensor = 8; recompute = mlp; strips = 2" },
    { gpt3_175b, "precision = bf16; context = 4; recompute = elementwise" },
    { gpt3_175b, "precision = bf16; tensor = 2; data = 2; pipeline = 2; layers = 6; sharding = optimizer" },
    { gpt3_175b, "precision = fp32; data = 2; pipeline = 4; layers = 6; recompute = layer" },
    { gpt3_175b, "precision = bf16; context = 2; pipeline = 2; chunks_per_stage = 2; data = 2; layers = 6" },
    { gpt3_175b, "precision = fp32; shard = 2; tensor = 2; pipeline = 2; layers = 6; sharding = optimizer" },
    { grok1, "precision = fp32; tensor = 2; context = 2; expert = 2; capacity = none; recompute = layer" },
    { grok1, "precision = bf16; data = 8; expert = 8; capacity = none; sharding = optimizer; recompute = mlp" },
    { grok1, "precision = bf16; data = 8; expert = 2; capacity = 1; recompute = attention_mlp" },
    { grok1, "precision = fp32; tensor = 8; capacity = none; strips = 4" },
    { grok1, "precision = bf16; context = 8; expert = 4; capacity = none; recompute = attention" },
    { grok1, "precision = fp32; data = 2; tensor = 2; context = 2; expert = 4; capacity = none" },
    { grok1, "precision = bf16; data = 2; microbatch = 2; expert = 2; capacity = none; overlap = off" },
    { grok1, "precision = fp32; shard = 2; data = 2; tensor = 2; capacity = none; recompute = layer" },
    { grok1, "precision = bf16; shard = 4; capacity = 1" },
    { grok1, "precision = bf16; pipeline = 8; layers = 6; capacity = none" },
    { grok1, "precision = fp32; context = 2; tensor = 2; expert = 2; pipeline = 2; chunks_per_stage = 4; layers = 6" },
    { grok1, "precision = bf16; data = 2; tensor = 2; expert = 2; pipeline = 2; layers = 6; capacity = 0.5" },
    { grok1, "precision = fp32; context = 4; expert = 4; capacity = 0.5; recompute = elementwise" },
};
enum { CHOSEN = sizeof chosen / sizeof *chosen };

static void chosen_layouts(void **state)
{
    uint32_t seed = seed_of_test();
    (void)state;
    for (uint32_t i = 0; i < CHOSEN; i++) {
        if (!test_is_long() && (i + seed) % 3) continue;
        bench_case c = case_for(chosen[i].workload, chosen[i].keys), alone = alone_of(&c);
        if (c.layout.ranks <= world_ranks()) agree(&c, &alone, (training){ 0 }, chosen[i].keys);
    }
}

/* Rows beyond the chosen ones are zero: a capacity that drops nothing changes only the order of sums over rows. */
static void nothing_dropped(void **state)
{
    static const char *const list[] = { "precision = fp32; expert = 2; tensor = 2; context = 2; capacity = 3",
                                        "precision = bf16; data = 2; expert = 2; recompute = layer; capacity = 2.5" };
    (void)state;
    for (int i = 0; i < 2; i++) {
        bench_case c = case_for(grok1, list[i]), alone = alone_of(&c);
        alone.capacity = 0.0;
        if (c.layout.ranks <= world_ranks()) agree(&c, &alone, (training){ 0 }, list[i]);
    }
}

/* ---- drawn ---- */

static void drawn_layouts(void **state)
{
    static const char *const workloads[] = { llama3, llama2, nemotron4, gpt3_175b, grok1 };
    uint32_t seed = seed_of_test();
    (void)state;
    for (int w = 0; w < 5 && !tests_cuda(); w++) {
        source s = { .workload = workloads[w], .seed = seed };
        for (int i = 0; i < (test_is_long() ? DRAWN_LONG : DRAWN); i++) {
            char keys[KEY_BYTES];
            bench_case c = draw_layout(&s, keys), alone = alone_of(&c);
            agree(&c, &alone, (training){ .hostile = true, .order_seed = (uint32_t)draw(&s, INT32_MAX) }, keys);
        }
    }
}

int main(int argc, char **argv)
{
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = { cmocka_unit_test(chosen_layouts), cmocka_unit_test(nothing_dropped),
                                        cmocka_unit_test(drawn_layouts) };
    int failed = cmocka_run_group_tests_name("agreement", tests, NULL, NULL);
    world_stop();
    return failed;
}
