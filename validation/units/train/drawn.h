/* Small cases of every family: from given keys, or drawn at random. */
#pragma once
#include "agreement.h"
#include "base/random.h"

enum { KEY_BYTES = 512, RANKS = 8 };
static const char llama3[] = "llama3.1-70b", llama2[] = "llama2-70b", nemotron4[] = "nemotron4-340b",
                  gpt3_175b[] = "gpt3-175b", grok1[] = "grok1-314b";

/* Adds the keys that no test gives. */
static inline void write_deck(char text[TRAINED_DECK], const char *workload, const char *keys)
{
    char all[KEY_BYTES + 64];
    snprintf(all, sizeof all, "%s; kv_heads = %d", keys, workload == gpt3_175b ? 16 : 8);
    deck_write(text, workload, all,
               "size = small; hidden = 128; ffn = 256; heads = 16; sequence = 64; vocabulary = 509; layers = 2; "
               "global_batch = 8; microbatch = 1; data = 1; warmup = 0; steps = 4; tokens = uniform; check = off; "
               "backend = host; sharding = none; recompute = none");
}

static inline bench_case case_for(const char *workload, const char *keys)
{
    char text[TRAINED_DECK];
    write_deck(text, workload, keys);
    bench_case c = case_of(text, RANKS);
    init_as_checked(&c);
    return c;
}

/* Draws are words of philox: counter { draw }, keys are the seed and the workload's name. */
typedef struct {
    const char *workload;
    uint32_t seed, drawn;
} source;

static inline int draw(source *s, int below)
{
    philox_block counter = { { s->drawn++, 0, 0, 0 } };
    return (int)(philox4x32(counter, s->seed, fnv1a(s->workload)).word[0] % (uint32_t)below);
}

#define DRAW_WORD(s, ...)                                                                                              \
    ((const char *const[]){ __VA_ARGS__ })[draw(s, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))]

/* Draws keys that may contradict each other. Experts are never FP8 here (see units/train/fp8_layouts.c), because the
 * one rank would calibrate its first scales with its own choices. */
static inline void draw_keys(source *s, char keys[KEY_BYTES])
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

/* Draws until a deck is legal and fits the world. The number of deferred head weight gradients stays the default. The
 * one rank has one sequence per microbatch, so with a capacity the layout has, too. */
static inline bench_case draw_layout(source *s, char keys[KEY_BYTES])
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
