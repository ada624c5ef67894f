/* Agreement of layouts with one rank (agreement.h): losses per sequence, gradients of the first and the fourth step,
 * weights and norms within the limits of bench/check/check.c; no hazard; gathered weights are the owners'. Of a list,
 * layouts of as many ranks as there are or fewer, a third of them by turns of the day, and others of every family,
 * drawn by the day's seed and in hostile order; `long` takes the whole list and draws more. XGSW_TEST_SEED is another
 * seed. */
#include "agreement.h"
#include "base/random.h"

enum { STEPS = 4, DRAWN = 1, DRAWN_LONG = 20, KEY_BYTES = 512, RANKS = 8 };
static const char llama3[] = "llama3.1-70b", llama2[] = "llama2-70b", nemotron4[] = "nemotron4-340b",
                  gpt3_175b[] = "gpt3-175b", grok1[] = "grok1-314b";

static void write_deck(char text[TRAINED_DECK], const char *workload, const char *keys)
{
    char all[KEY_BYTES + 64];
    snprintf(all, sizeof all, "%s; kv_heads = %d", keys, workload == gpt3_175b ? 16 : 8);
    deck_write(text, workload, all,
               "size = small; hidden = 128; ffn = 256; heads = 16; sequence = 64; vocabulary = 509; layers = 2; "
               "global_batch = 8; microbatch = 1; data = 1; warmup = 0; steps = 4; tokens = uniform; check = off; "
               "backend = host; sharding = none; recompute = none");
}

static bench_case case_for(const char *workload, const char *keys)
{
    char text[TRAINED_DECK];
    write_deck(text, workload, keys);
    bench_case c = case_of(text, RANKS);
    init_as_checked(&c);
    return c;
}

/* One rank has the capacity groups of the layout. */
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

/* Every kind of cut, with precisions, masks, shardings and strips dealt out among them; odd numbers of microbatches,
 * and single ones; vocabularies of which the last tensor ranks hold nothing but padding. */
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

/* Rows beyond what is chosen are zero: a capacity that drops nothing is none, but for the order of sums over them. */
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

/* Draws are words of philox: counter { draw }, keys seed and the workload's name. */
typedef struct {
    const char *workload;
    uint32_t seed, drawn;
} source;

static int draw(source *s, int below)
{
    philox_block counter = { { s->drawn++, 0, 0, 0 } };
    return (int)(philox4x32(counter, s->seed, fnv1a(s->workload)).word[0] % (uint32_t)below);
}

#define DRAW_WORD(s, ...)                                                                                              \
    ((const char *const[]){ __VA_ARGS__ })[draw(s, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))]

/* Keys that may contradict one another. Of experts no FP8 (units/train/fp8_layouts.c has it): the one rank makes its
 * first scales by its own choices. */
static void draw_keys(source *s, char keys[KEY_BYTES])
{
    bool experts = s->workload == grok1;
    int data = 1 + draw(s, 4), shard = draw(s, 3) ? 1 : 2, microbatch = 1 + draw(s, 2), microbatches = 1 + draw(s, 4);
    const char *precision = experts ? DRAW_WORD(s, "fp32", "bf16") : DRAW_WORD(s, "fp32", "bf16", "fp8"),
               *order = DRAW_WORD(s, "gpipe", "1f1b", "interleaved"), *parted = DRAW_WORD(s, "none", "optimizer"),
               *overlap = DRAW_WORD(s, "off", "on"), *capacity = DRAW_WORD(s, "none", "none", "1", "1.5"),
               *recompute = DRAW_WORD(s, "none", "attention", "mlp", "layer", "attention_mlp", "elementwise",
                                      "attention_elementwise");
    int used = snprintf(keys, KEY_BYTES,
                        "precision = %s; tensor = %d; context = %d; pipeline = %d; data = %d; shard = %d; layers = %d; "
                        "global_batch = %d; microbatch = %d; chunks_per_stage = %d; schedule = %s; recompute = %s; "
                        "sharding = %s; overlap = %s; strips = %d",
                        precision, 1 << draw(s, 3), 1 << draw(s, 3), 1 + draw(s, 4), data, shard, 2 + 2 * draw(s, 2),
                        shard * data * microbatch * microbatches, microbatch, 1 + draw(s, 2), order, recompute, parted,
                        overlap, 1 << draw(s, 3));
    if (experts)
        snprintf(keys + used, KEY_BYTES - (size_t)used, "; expert = %d; capacity = %s", 1 << draw(s, 3), capacity);
}

/* Draws until a deck is legal and fits the world. No key says how many weight gradients of the head wait for the drain.
 * One rank takes a sequence a microbatch, so with a capacity the layout does, too. */
static bench_case draw_layout(source *s, char keys[KEY_BYTES])
{
    for (;;) {
        char text[TRAINED_DECK];
        draw_keys(s, keys);
        write_deck(text, s->workload, keys);
        deck_source given = { .name = "layouts", .text = text, .length = strlen(text), .ranks = world_ranks() };
        deck d = deck_read(&given);
        bool legal = !d.messages && d.cases == 1 && !d.item[0].skipped[0];
        bench_case c = legal ? d.item[0] : (bench_case){ 0 };
        deck_free(&d);
        if (!legal || c.layout.ranks == 1 || c.global_batch > TRAINED_SEQUENCES) continue;
        if (c.model.experts && c.capacity > 0.0 && c.microbatch > 1) continue;
        init_as_checked(&c);
        c.head_deferral = draw(s, 1 + (int)c.microbatches);
        return c;
    }
}

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
