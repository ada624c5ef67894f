/* Layouts drawn at random of every family, each trained in hostile order and compared with one rank (agreement.h). The
 * seed is the day's, so that every day draws others; XGSW_TEST_SEED is another. */
#include "agreement.h"
#include "base/random.h"

enum { STEPS = 4, DECK = 1024, LAYOUTS = 2, LAYOUTS_LONG = 20 };
static const char *const workloads[] = { "llama3.1-8b", "llama2-70b", "nemotron4-340b", "gpt3-175b", "grok1-314b" };
enum { WORKLOADS = sizeof workloads / sizeof *workloads };

/* Draws are words of philox: counter { draw }, keys seed and the workload's name. */
typedef struct {
    const char *workload;
    uint32_t seed, drawn;
} source;

static uint32_t draw(source *s, uint32_t below)
{
    philox_block counter = { { s->drawn++, 0, 0, 0 } };
    return philox4x32(counter, s->seed, fnv1a(s->workload)).word[0] % below;
}

static const char *draw_word(source *s, const char *const *word, uint32_t count) { return word[draw(s, count)]; }

static const char capacities[][8] = { "none", "none", "1", "1.5" };

static bool has_experts(const source *s) { return strcmp(s->workload, "grok1-314b") == 0; }

/* Only of experts. */
static void draw_experts(source *s, char text[DECK], size_t used)
{
    int expert = 1 << draw(s, 3);
    const char *capacity = capacities[draw(s, 4)];
    if (has_experts(s)) snprintf(text + used, DECK - used, "expert = %d\ncapacity = %s\n", expert, capacity);
}

/* Keys that may contradict one another. Of experts no FP8 (units/train/fp8_layouts.c has it): the one rank makes its
 * first scales by its own choices. */
static void draw_deck(source *s, char text[DECK])
{
    static const char *const precisions[] = { "fp32", "bf16", "fp8" }, *const overlaps[] = { "off", "on" },
                             *const shardings[] = { "none", "optimizer" },
                             *const schedules[] = { "gpipe", "1f1b", "interleaved" },
                             *const recomputes[] = { "none",
                                                     "attention",
                                                     "mlp",
                                                     "layer",
                                                     "attention_mlp",
                                                     "elementwise",
                                                     "attention_elementwise" };
    int tp = 1 << draw(s, 3), pp = 1 + (int)draw(s, 4), cp = 1 << draw(s, 3), dp = 1 + (int)draw(s, 4),
        micro_batch = 1 + (int)draw(s, 2), sp = draw(s, 3) ? 1 : 2;
    int microbatches = 1 + (int)draw(s, 4), chunks = 1 + (int)draw(s, 2), layers = 2 + 2 * (int)draw(s, 2);
    const char *order = draw_word(s, schedules, 3), *precision = draw_word(s, precisions, has_experts(s) ? 2 : 3),
               *recompute = draw_word(s, recomputes, 7);
    int used = snprintf(
        text, DECK,
        "layouts\n\n[%s]\nsize = small\nhidden = 128\nffn = 128\nheads = 8\nkv_heads = %d\nsequence = "
        "64\nvocabulary = 250\n"
        "warmup = 0\nsteps = %d\ncheck = off\nbackend = host\ntokens = uniform\nlayers = %d\ntensor = %d\npipeline = "
        "%d\ncontext = %d\ndata = %d\nshard = %d\n"
        "global_batch = %d\nmicro_batch = %d\nchunks_per_stage = %d\nschedule = %s\nprecision = %s\nrecompute = %s\n"
        "sharding = %s\noverlap = %s\nstrips = %d\n",
        s->workload, strcmp(s->workload, "gpt3-175b") ? 4 : 8, STEPS, layers, tp, pp, cp, dp, sp,
        sp * dp * micro_batch * microbatches, micro_batch, chunks, order, precision, recompute,
        draw_word(s, shardings, 2), draw_word(s, overlaps, 2), 1 << draw(s, 3));
    draw_experts(s, text, (size_t)used);
}

/* Draws until a deck is legal and fits the world. No key says how many weight gradients of the head wait for the drain.
 * One rank takes a sequence a microbatch, so with a capacity the layout does, too. */
static bench_case draw_layout(source *s)
{
    for (;;) {
        char text[DECK];
        draw_deck(s, text);
        deck_source given = { .name = "layouts", .text = text, .length = strlen(text), .ranks = world_ranks() };
        deck d = deck_read(&given);
        bool legal = !d.messages && d.cases == 1 && !d.item[0].skipped[0];
        legal = legal && d.item[0].layout.ranks > 1 && d.item[0].global_batch <= TRAINED_SEQUENCES;
        bench_case c = legal ? d.item[0] : (bench_case){ 0 };
        deck_free(&d);
        if (c.model.experts && c.capacity > 0.0 && c.micro_batch > 1) continue;
        if (!legal) continue;
        init_as_checked(&c);
        c.head_deferral = draw(s, 1 + (uint32_t)c.microbatches);
        return c;
    }
}

static void try_layout(source *s)
{
    spreads found = no_spread;
    references r;
    char what[DECK];
    bench_case c = draw_layout(s), alone = alone_of(&c);
    references_train(&r, &alone, STEPS);
    compare_case(&found, &c, (training){ .hostile = true, .order_seed = draw(s, 1u << 31) }, &r);
    snprintf(
        what, sizeof what,
        ", %lld layers, %lld microbatches of %lld, %lld deferred, sharding %s, recompute %s, overlap %s, %d strips",
        (long long)c.model.layers, (long long)c.microbatches, (long long)c.micro_batch, (long long)c.head_deferral,
        sharding_name(c.sharding), recompute_name(c.recompute), c.overlap ? "on" : "off", c.strips);
    judge(&c, what, &found, r.count);
    references_close(&r);
}

static void layouts(void **state)
{
    uint32_t seed = seed_of_test();
    (void)state;
    for (int w = 0; w < WORKLOADS; w++) {
        source s = { .workload = workloads[w], .seed = seed };
        for (int i = 0; i < (test_is_long() ? LAYOUTS_LONG : LAYOUTS); i++) try_layout(&s);
    }
}

int main(int argc, char **argv)
{
    world_start(&argc, &argv);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    const struct CMUnitTest tests[] = { cmocka_unit_test(layouts) };
    int failed = cmocka_run_group_tests_name("layouts_random", tests, NULL, NULL);
    world_stop();
    return failed;
}
