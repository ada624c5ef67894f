/* Layouts of small models of every family: all ways to divide the ranks, the other keys drawn at random; and layouts
 * that must give the same bits. */
#pragma once
#include "base/random.h"
#include "plan/catalogue/catalogue.h"
#include "trained.h"

enum { FAMILIES = 5, MOST_CUTS = 128 };
static const char *const families[FAMILIES] = { "llama3.1-70b", "llama2-70b", "nemotron4-340b", "gpt3-175b",
                                                "grok1-314b" };
static const char *const precisions[] = { "fp32", "bf16", "fp8" };
enum { PRECISIONS = sizeof precisions / sizeof *precisions };

/* Degrees of a layout. */
typedef struct {
    int tensor, context, pipeline, data, shard;
} cut;
/* Keys of a deck. batch: microbatches of a data rank. weights: weight_gradient_queue. */
typedef struct {
    const char *workload, *precision, *order, *recompute, *sharding, *overlap, *weights, *capacity, *gradients, *scale,
        *scaling;
    cut of;
    int kv_heads, sequence, expert, layers, vocabulary, microbatch, batch, chunks, strips;
    int deferral; /* of head weight gradients; not a key */
} layout;

static inline int ranks_of(cut k) { return k.tensor * k.context * k.pipeline * k.data * k.shard; }
static inline bool is_gpt3(const layout *l) { return strcmp(l->workload, "gpt3-175b") == 0; }
static inline bool has_experts(const layout *l) { return strcmp(l->workload, "grok1-314b") == 0; }

/* Lists all ways to divide this number of ranks. Tensor and context ranks are powers of two, because they divide heads
 * and positions. Returns their number. */
static inline int list_cuts(cut list[MOST_CUTS], int ranks)
{
    int count = 0;
    for (int t = 1; t <= ranks; t *= 2)
        for (int c = 1; t * c <= ranks; c *= 2)
            for (int p = 1; t * c * p <= ranks; p++)
                for (int d = 1; t * c * p * d <= ranks; d++)
                    if (ranks % (t * c * p * d) == 0) list[count++] = (cut){ t, c, p, d, ranks / (t * c * p * d) };
    return count;
}

/* ---- decks ---- */

/* The smallest model for the ranks: an FP8 product needs 16 terms on each rank, and the one rank multiplies queries,
 * keys and values of each imitated tensor rank apart. */
static inline int least_kv_heads(const layout *l)
{
    int least = (strcmp(l->precision, "fp8") ? 1 : 2) * l->of.tensor;
    return least > 4 ? least : 4;
}
static inline int least_sequence(const layout *l)
{
    int parts = l->of.context * (l->of.tensor > 1 ? l->strips : 1);
    return 16 * (parts > 4 ? parts : 4);
}

static inline void write_deck(char text[TRAINED_DECK], const layout *l)
{
    int heads = 2 * l->kv_heads;
    int used = snprintf(text, TRAINED_DECK,
                        "layouts\n\n[%s]\nsize = small\ntokens = uniform\nbackend = host\ncheck = off\nwarmup = 0\n"
                        "steps = 4\nhidden = %d\nffn = %d\nheads = %d\nkv_heads = %d\nsequence = %d\nlayers = %d\n"
                        "vocabulary = %d\nprecision = %s\ntensor = %d\ncontext = %d\npipeline = %d\ndata = %d\n"
                        "shard = %d\nmicrobatch = %d\nglobal_batch = %d\nchunks_per_stage = %d\nschedule = %s\n"
                        "strips = %d\nrecompute = %s\nsharding = %s\noverlap = %s\nweight_gradient_queue = %s\n"
                        "context_gradients = %s\n",
                        l->workload, 8 * heads, 16 * heads, heads, is_gpt3(l) ? heads : l->kv_heads, l->sequence,
                        l->layers, l->vocabulary, l->precision, l->of.tensor, l->of.context, l->of.pipeline, l->of.data,
                        l->of.shard, l->microbatch, l->of.data * l->of.shard * l->microbatch * l->batch, l->chunks,
                        l->order, l->strips, l->recompute, l->sharding, l->overlap, l->weights, l->gradients);
    if (has_experts(l))
        used +=
            snprintf(text + used, TRAINED_DECK - (size_t)used, "expert = %d\ncapacity = %s\n", l->expert, l->capacity);
    if (strcmp(l->precision, "fp8") == 0)
        snprintf(text + used, TRAINED_DECK - (size_t)used, "fp8_scale = %s\nfp8_scaling = %s\n", l->scale, l->scaling);
}

/* Sets what a small case takes from check models (plan/model/shapes.c), because their limits apply: the std of a tied
 * table (with 1, logits spread by sqrt(hidden), and their BF16 rounding alone moves a loss by 1e-3), few learned
 * positions, and recorded router choices. */
static inline void init_as_checked(bench_case *c)
{
    if (c->model.experts) c->size = SIZE_CHECK;
    *c = with_few_positions(*c);
    if (!c->model.tied_embedding) return;
    c->model.init = INIT_STD;
    c->model.init_std = 0.81 / sqrt((double)c->model.hidden);
    c->model.output_init_std = c->model.init_std / sqrt(2.0 * (double)c->model.layers);
}

/* Returns whether the layout is legal and fits the world, and its case. The one rank has one sequence per microbatch,
 * so with a capacity, and with FP8 scales of each microbatch, the layout has, too. */
static inline bool is_legal(const layout *l, bench_case *c)
{
    char text[TRAINED_DECK];
    if (ranks_of(l->of) > world_ranks() || l->kv_heads < least_kv_heads(l) || l->sequence < least_sequence(l))
        return false;
    int samples = l->of.data * l->of.shard, most = samples > 4 ? 2 * samples : 8;
    if (l->microbatch * l->batch * samples > (most < TRAINED_SEQUENCES ? most : TRAINED_SEQUENCES)) return false;
    if (has_experts(l) && strcmp(l->capacity, "none") && l->microbatch > 1) return false;
    if (strcmp(l->precision, "fp8") == 0 && strcmp(l->scaling, "current") == 0 && l->microbatch > 1) return false;
    write_deck(text, l);
    deck_source given = { .name = "layouts", .text = text, .length = strlen(text), .ranks = world_ranks() };
    deck d = deck_read(&given);
    bool legal = !d.messages && d.cases == 1 && !d.item[0].skipped[0];
    if (legal) *c = d.item[0];
    deck_free(&d);
    if (!legal) return false;
    init_as_checked(c);
    c->head_deferral = l->deferral;
    if (tests_cuda()) c->backend = BACKEND_CUDA;
    return true;
}

/* Writes the keys in one line. */
static inline const char *layout_line(char text[TRAINED_DECK], const layout *l)
{
    char whole[TRAINED_DECK];
    write_deck(whole, l);
    snprintf(text, TRAINED_DECK, "%s %s, %d deferred", l->workload, strstr(whole, "hidden"), l->deferral);
    for (char *c = text; *c; c++) *c = *c == '\n' ? ';' : *c;
    return text;
}

/* ---- draws ---- */

/* Draws are words of philox: counter { draw, number }, keys are the seed and the workload's name. */
typedef struct {
    uint32_t seed, key, number, drawn;
} source;

static inline int draw(source *s, int below)
{
    philox_block counter = { { s->drawn++, s->number, 0, 0 } };
    return (int)(philox4x32(counter, s->seed, s->key).word[0] % (uint32_t)below);
}

#define DRAW_WORD(s, ...)                                                                                              \
    ((const char *const[]){ __VA_ARGS__ })[draw(s, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))]

/* Draws the keys that change no bit. Keeps the cut, but may change the stages. */
static inline void draw_free_keys(source *s, layout *l)
{
    l->recompute =
        DRAW_WORD(s, "none", "attention", "mlp", "layer", "attention_mlp", "elementwise", "attention_elementwise");
    l->order = DRAW_WORD(s, "gpipe", "1f1b", "interleaved");
    l->sharding = DRAW_WORD(s, "none", "optimizer");
    l->overlap = DRAW_WORD(s, "off", "on");
    l->weights = DRAW_WORD(s, "off", "on");
    l->chunks = 1 + draw(s, 4);
    l->deferral = draw(s, 1 + l->batch);
}

/* Draws keys that divide the work otherwise. */
static inline void draw_division(source *s, layout *l)
{
    l->microbatch = 1 + draw(s, 3), l->batch = 1 + draw(s, 4);
    l->expert = 1 << draw(s, 4), l->strips = 1 << draw(s, 3);
}

/* Draws the other keys of a cut until they are legal. Fails the test if they never are. A capacity of 3 drops
 * nothing. */
static inline layout draw_layout(source *s, const char *workload, const char *precision, cut of, bench_case *c)
{
    for (int i = 0; i < 100000; i++) {
        layout l = { .workload = workload, .precision = precision, .of = of };
        draw_division(s, &l);
        l.layers = of.pipeline > 1 ? 2 + 2 * draw(s, 3) : 2;
        l.vocabulary = (int[]){ 509, 250, 130 }[draw(s, 3)];
        l.capacity = DRAW_WORD(s, "none", "none", "0.5", "1", "1.5", "3");
        l.gradients = DRAW_WORD(s, "fp32", "bf16");
        l.scale = DRAW_WORD(s, "power_of_two", "exact");
        l.scaling = DRAW_WORD(s, "delayed", "delayed", "current");
        l.kv_heads = least_kv_heads(&l), l.sequence = least_sequence(&l);
        draw_free_keys(s, &l);
        if (is_legal(&l, c)) return l;
    }
    FAIL("no legal layout of %s %s, TP%d CP%d PP%d DP%d S%d", workload, precision, of.tensor, of.context, of.pipeline,
         of.data, of.shard);
}

/* Returns whether shard ranks may replace data ranks. With one microbatch and one context rank the sum over the ranks
 * is that of the step, whichever rank stores it; but a microbatch's gradient travels to a shard in BF16, and may
 * otherwise be FP32. */
static inline bool may_shard(const layout *l, const bench_case *c)
{
    storage_rule kept = storage_of(c);
    bool bf16 = kept.gradient == KEPT_BF16 && kept.sharded_gradient == KEPT_BF16 && kept.embedding == KEPT_BF16;
    bool one_axis = l->of.context == 1 && (l->of.data == 1 || l->of.shard == 1);
    return l->batch == 1 && one_axis && (bf16 || c->precision == PRECISION_FP32);
}

/* Draws a layout that must give the bits of l, which is legal: other overlap; recompute, sharding, schedule, stages,
 * chunks and deferral drawn anew; and shard ranks in place of data ranks. */
static inline layout draw_same_bits(source *s, const layout *l, bench_case *c)
{
    bool turns = is_legal(l, c) && may_shard(l, c);
    for (int i = 0; i < 100000; i++) {
        layout other = *l;
        draw_free_keys(s, &other);
        other.overlap = strcmp(l->overlap, "on") ? "on" : "off";
        other.of.pipeline = 1 + draw(s, world_ranks());
        if (turns && draw(s, 2)) other.of.data = l->of.shard, other.of.shard = l->of.data;
        if (is_legal(&other, c)) return other;
    }
    FAIL("no other layout has the bits of %s", l->workload);
}
