/* What a deck gets. Model shapes: sizes, padding, initialization, the check model and the single rank of its reference.
 * Layout and batch: one row per deck and number of ranks. The backend. */
#include "plan/model/shapes.h"
#include "deck_source.h"
#include "plan/model/check_case.h"
#include "plan/model/params.h"

static void assert_close(double value, double wanted)
{
    if (!(fabs(value - wanted) <= 1e-14 * fabs(wanted))) fail_msg("%.17g, wanted %.17g", value, wanted);
}

static void small_has_ten_million_parameters(void **state)
{
    bench_case c = case_of("[llama3.1-8b]\nsize = small\n", 1, false);
    assert_int_equal(model_parameters(&c.model), 9965824);
    assert_int_equal(c.model.layers, 8);
    assert_int_equal(c.model.head_dim, 32);
    assert_int_equal(c.model.sequence, 256);
    assert_int_equal(c.model.padded_vocabulary, 4096);
    assert_true(c.proxy);
    assert_string_equal(c.model_name, "llama3.1-8b, small");
    assert_close(c.model.init_std, 0.01 * sqrt(4096.0 / 256.0));
    assert_close(c.model.output_init_std, c.model.init_std / 4.0);
    assert_true(c.optimizer.learning_rate_constant);
    assert_true(c.optimizer.learning_rate == 1e-3 && c.optimizer.epsilon == 1e-8);
    assert_true(c.optimizer.beta1 == 0.9 && c.optimizer.beta2 == 0.95 && c.optimizer.decay == 0.1 &&
                c.optimizer.clip == 1.0);
    assert_int_equal(c.optimizer.learning_rate_warmup, 0);
}

static void full_is_the_recipe(void **state)
{
    bench_case c = case_of("[llama3.1-405b]\nsize = full\n", 512, true);
    assert_int_equal(c.model.layers, 126);
    assert_int_equal(c.model.head_dim, 128);
    assert_true(c.model.init_std == 0.02);
    assert_close(c.model.output_init_std, 0.02 / sqrt(252.0));
    assert_true(c.optimizer.learning_rate == 3e-4 && c.optimizer.learning_rate_minimum == 3e-5 &&
                c.optimizer.epsilon == 1e-5);
    assert_int_equal(c.optimizer.learning_rate_warmup, 2000);
    assert_false(c.optimizer.learning_rate_constant);
    assert_false(c.proxy);
    assert_string_equal(c.model_name, "llama3.1-405b");
}

static double std_of(const model_shape *m, param_name name)
{
    param_list l = params_of_shape(m);
    int i = 0;
    while (l.rule[i].name != name) i++;
    return l.rule[i].std;
}

/* Llama 2: initialization 1 / sqrt(fan-in) except in size check, embedding 1; learning rates by run length. */
static void llama2_follows_its_recipe(void **state)
{
    bench_case small = case_of("[llama2-70b]\nsize = small\n", 1, false),
               full = case_of("[llama2-70b]\nsize = full\nwarmup = 5\n", 64, true);
    model_shape check = check_case(&small).model;
    assert_true(std_of(&small.model, PARAM_Q) == 1.0 / 16 && std_of(&small.model, PARAM_DOWN) == 1.0 / 32);
    assert_true(std_of(&small.model, PARAM_EMBEDDING) == 1.0 && std_of(&check, PARAM_EMBEDDING) == 1.0);
    assert_close(std_of(&check, PARAM_ATTENTION_OUTPUT), 0.81 / 8);
    assert_true(small.model.labels_next_token && small.model.rope_base == 10000.0);
    assert_int_equal(full.optimizer.learning_rate_warmup, 5); /* of 55 steps */
    assert_true(full.optimizer.learning_rate_from_zero && full.optimizer.decays_vectors);
    assert_true(full.optimizer.learning_rate == 3e-5 && full.optimizer.learning_rate_minimum == 3e-6);
    assert_false(small.optimizer.learning_rate_from_zero);
    assert_int_equal(full.recompute, RECOMPUTE_ATTENTION_MLP);
    bench_case fp8 = case_of("[llama2-70b]\nsize = full\nprecision = fp8\n", 64, true);
    assert_int_equal(fp8.recompute,
                     RECOMPUTE_ATTENTION_MLP); /* the whole MLP: down's output, kept in BF16, is not needed */
    assert_int_equal(full.sharding, SHARDING_NONE);
    bench_case llama31 = case_of("[llama3.1-8b]\nsize = full\n", 8, true);
    assert_true(std_of(&llama31.model, PARAM_Q) == 0.01 && std_of(&llama31.model, PARAM_EMBEDDING) == 0.01);
    assert_true(std_of(&llama31.model, PARAM_DOWN) == llama31.model.output_init_std);
}

/* Check models of the other families: without groups, heads = groups; enough experts for every expert rank. */
static void check_shape_follows_the_family(void **state)
{
    bench_case gpt3 = case_of("[gpt3-175b]\nsize = check\ntensor = 4\n", 4, true),
               grok = case_of("[grok1-314b]\nsize = check\nexpert = 8\n", 8, true);
    assert_int_equal(gpt3.model.heads, 4);
    assert_int_equal(gpt3.model.kv_heads, 4);
    assert_int_equal(gpt3.model.hidden, 64);
    assert_int_equal(grok.model.experts, 8);
    assert_int_equal(grok.model.active, 2);
}

static void learning_rate_replaces_the_largest(void **state)
{
    bench_case full = case_of("[llama3.1-8b]\nsize = full\nlearning_rate = 6e-4\nlearning_rate_warmup = 5\n", 8, true);
    assert_close(full.optimizer.learning_rate, 6e-4);
    assert_close(full.optimizer.learning_rate_minimum, 6e-5);
    assert_int_equal(full.optimizer.learning_rate_warmup, 5);
    bench_case small = case_of("[llama3.1-8b]\nsize = small\nlearning_rate = 6e-4\n", 1, false);
    assert_true(small.optimizer.learning_rate == 6e-4 && small.optimizer.learning_rate_minimum == 6e-4);
    assert_true(small.optimizer.learning_rate_constant);
}

static void vocabulary_is_padded_to_the_tensor_ranks(void **state)
{
    static const struct {
        int tensor;
        int64_t padded;
    } rows[] = { { 1, 128256 }, { 2, 128256 }, { 4, 128512 }, { 8, 129024 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        model_shape m = workload_at(0)->full;
        shape_complete(&m, rows[i].tensor);
        assert_int_equal(m.padded_vocabulary, rows[i].padded);
    }
}

static void shape_keys_override_any_size(void **state)
{
    bench_case c =
        case_of("[llama3.1-8b]\nsize = small\nlayers = 4\nhidden = 512\nffn = 1792\nheads = 8\nkv_heads = 2\n"
                "vocabulary = 8191\nsequence = 512\n",
                1, false);
    assert_int_equal(c.model.head_dim, 64);
    assert_int_equal(c.model.vocabulary, 8191);
    assert_int_equal(c.model.padded_vocabulary, 8192);
    assert_close(c.model.init_std, 0.01 * sqrt(8.0));
    assert_close(c.model.output_init_std, 0.01);
    bench_case own = case_of("[llama3.1-8b]\nsize = full\nffn = 14080\n", 8, true);
    assert_true(own.proxy && !own.recipe_layout);
    assert_string_equal(own.model_name, "llama3.1-8b, own shape");
    assert_true(own.model.init_std == 0.01);
}

/* The check model on some meshes, here without a pipeline. */
static void check_shape_follows_the_mesh(void **state)
{
    for (int tensor = 1; tensor <= 8; tensor *= 2) {
        char body[128];
        snprintf(body, sizeof body, "[llama3.1-8b]\nsize = check\ntensor = %d\n", tensor);
        bench_case c = case_of(body, 8, false);
        const model_shape *m = &c.model;
        assert_int_equal(m->kv_heads, tensor < 2 ? 2 : tensor);
        assert_int_equal(m->heads, 2 * m->kv_heads);
        assert_int_equal(m->head_dim, 16);
        assert_int_equal(m->hidden, 16 * m->heads);
        assert_int_equal(m->ffn, 64 * tensor);
        assert_int_equal(m->vocabulary, 128 * tensor - 3);
        assert_int_equal(m->padded_vocabulary, 128 * tensor);
        assert_int_equal(m->sequence, 64 * tensor);
        assert_int_equal(m->layers, 2);
        assert_int_equal(c.microbatch, 1);
        assert_int_equal(c.microbatches, 2);
        assert_int_equal(c.global_batch, 2 * 8 / tensor);
    }
}

static void check_shape_follows_its_keys(void **state)
{
    bench_case c = case_of("[llama3.1-8b]\nsize = check\nkv_heads = 3\n", 1, false);
    assert_int_equal(c.model.heads, 6);
    assert_int_equal(c.model.hidden, 96);
    bench_case h = case_of("[llama3.1-8b]\nsize = check\nkv_heads = 2\nheads = 8\n", 1, false);
    assert_int_equal(h.model.hidden, 128);
    bench_case w = case_of("[llama3.1-8b]\nsize = check\nhidden = 128\n", 1, false);
    assert_int_equal(w.model.heads, 4);
    assert_int_equal(w.model.head_dim, 32);
    bench_case g = case_of("[gpt3-175b]\nsize = small\nheads = 4\n", 1, false);
    assert_int_equal(g.model.kv_heads, 4);
}

/* The smallest depth that the pipeline's chunks divide, with embedding and loss counted as in the case. */
static void check_layers_follow_the_pipeline(void **state)
{
    static const struct {
        const char *workload;
        int ranks;
        int64_t layers;
        int64_t microbatches;
    } rows[] = {
        { "llama3.1-8b", 8, 2, 2 },     { "llama3.1-70b", 64, 20, 4 },   { "llama3.1-405b", 32, 2, 2 },
        { "llama3.1-405b", 64, 30, 4 }, { "llama3.1-405b", 512, 62, 8 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char body[128];
        snprintf(body, sizeof body, "[%s]\nsize = full\n", rows[i].workload);
        bench_case c = case_of(body, rows[i].ranks, true), check = check_case(&c);
        assert_int_equal(check.model.layers, rows[i].layers);
        assert_int_equal(check.microbatches, rows[i].microbatches);
        assert_int_equal(shape_slots(check.model.layers, &check.layout), shape_slots(c.model.layers, &c.layout));
        assert_int_equal(check.model.sequence, 64 * c.layout.degree[AXIS_TENSOR] * c.layout.degree[AXIS_CONTEXT]);
    }
}

/* By rows: the largest of 4, 2, 1 that divides the positions. A given number falls to the next divisor. The check model
 * has the same number of strips. */
static void strips_divide_the_positions(void **state)
{
    static const struct {
        const char *body;
        int ranks, strips, asked;
    } row[] = { { "[llama3.1-405b]\nsize = full\n", 512, 4, 0 },
                { "[llama3.1-70b]\nsize = full\n", 64, 4, 0 },
                { "[llama3.1-8b]\nsize = full\nstrips = 4\n", 8, 1, 4 }, /* one tensor rank */
                { "[llama3.1-8b]\nsize = small\ntensor = 2\n", 2, 1, 0 },
                { "[llama3.1-8b]\nsize = small\ntensor = 2\nsequence = 4098\n", 2, 1, 0 },
                { "[llama3.1-8b]\nsize = small\ntensor = 2\nsequence = 4100\n", 2, 2, 0 },
                { "[llama3.1-8b]\nsize = small\ntensor = 2\nstrips = 4\n", 2, 4, 4 },
                { "[llama3.1-8b]\nsize = small\ntensor = 2\nstrips = 3\n", 2, 2, 3 },
                { "[llama3.1-8b]\nsize = small\ntensor = 2\nsequence = 96\nstrips = 3\n", 2, 3, 3 } };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        bench_case c = case_of(row[i].body, row[i].ranks, true), check = check_case(&c);
        assert_int_equal(c.strips, row[i].strips);
        assert_int_equal(c.strips_asked, row[i].asked);
        assert_int_equal(check.strips, c.strips);
        assert_int_equal(
            check.model.sequence / c.layout.degree[AXIS_CONTEXT] % (c.strips * c.layout.degree[AXIS_TENSOR]), 0);
    }
}

/* ---- layout, batch, backend ---- */

typedef struct {
    const char *name, *body;
    int ranks;
    bool dry_run;
    int tensor, pipeline, context, data, shard, chunks, used;
    int64_t layers, global_batch, microbatches;
    bool recipe;
    const char *skipped;
} row;

#define FULL(workload) "[llama3.1-" workload "]\nsize = full\n"
#define NONE ""
#define NEEDS(needed, there) "needs " needed " ranks, there are " there

static row rows[] = {
    /* no layout key, small: the recipe's layout in small, then data */
    { "small on 1", "[llama3.1-8b]\n", 1, false, 1, 1, 1, 1, 1, 1, 1, 8, 2, 2, false, NONE },
    { "small on 4", "[llama3.1-8b]\n", 4, false, 1, 1, 2, 2, 1, 1, 4, 8, 4, 2, false, NONE },
    { "small on 7", "[llama3.1-8b]\n", 7, false, 1, 1, 1, 7, 1, 1, 7, 8, 14, 2, false, NONE },
    /* data is the remainder; unused ranks idle */
    { "tensor 4 on 4", "[llama3.1-8b]\ntensor = 4\n", 4, false, 4, 1, 1, 1, 1, 1, 4, 8, 2, 2, false, NONE },
    { "tensor 2 on 4", "[llama3.1-8b]\ntensor = 2\n", 4, false, 2, 1, 1, 2, 1, 1, 4, 8, 4, 2, false, NONE },
    { "tensor 2 on 7", "[llama3.1-8b]\ntensor = 2\n", 7, false, 2, 1, 1, 3, 1, 1, 6, 8, 6, 2, false, NONE },
    { "data 2 on 7", "[llama3.1-8b]\ndata = 2\n", 7, false, 1, 1, 1, 2, 1, 1, 2, 8, 4, 2, false, NONE },
    { "batches", "[llama3.1-8b]\ndata = 2\nmicrobatch = 3\nglobal_batch = 24\n", 2, false, 1, 1, 1, 2, 1, 1, 2, 8, 24,
      4, false, NONE },
    { "micro batch", "[llama3.1-8b]\ndata = 2\nmicrobatch = 3\n", 2, false, 1, 1, 1, 2, 1, 1, 2, 8, 12, 2, false,
      NONE },
    /* more ranks than the run has */
    { "tensor 4 data 2 on 4", "[llama3.1-8b]\ntensor = 4\ndata = 2\n", 4, false, 4, 1, 1, 2, 1, 1, 8, 8, 4, 2, false,
      NEEDS("8", "4") },
    { "tensor 4 on 2", "[llama3.1-8b]\ntensor = 4\n", 2, false, 4, 1, 1, 1, 1, 1, 4, 8, 2, 2, false, NEEDS("4", "2") },
    { "tensor 4 on 2, odd batch", "[llama3.1-8b]\ntensor = 4\nglobal_batch = 7\n", 2, false, 4, 1, 1, 1, 1, 1, 4, 8, 7,
      7, false, NEEDS("4", "2") },
    { "8b on 4", FULL("8b"), 4, false, 1, 1, 2, 4, 1, 1, 8, 32, 128, 32, true,
      "the recipe's smallest layout needs 8 ranks, there are 4" },
    { "405b, 126 layers on 64", FULL("405b") "layers = 126\n", 64, true, 8, 8, 2, 4, 1, 8, 512, 126, 256, 64, true,
      "the recipe's smallest layout needs 512 ranks, there are 64" },
    /* rank counts between the rows of the recipe (deck.c tests the rows) */
    { "8b on 8, fp32", FULL("8b") "precision = fp32\n", 8, true, 1, 1, 2, 4, 1, 1, 8, 32, 128, 32, false, NONE },
    { "8b on 9", FULL("8b"), 9, true, 1, 1, 2, 4, 1, 1, 8, 32, 128, 32, true, NONE },
    { "8b on 12", FULL("8b"), 12, true, 1, 1, 2, 6, 1, 1, 12, 32, 192, 32, false, NONE },
    { "8b on 2048", FULL("8b"), 2048, true, 1, 1, 2, 1024, 1, 1, 2048, 32, 32768, 32, false, NONE },
    { "70b on 100", FULL("70b"), 100, true, 4, 4, 2, 3, 1, 5, 96, 80, 192, 64, false, NONE },
    { "405b on 48", FULL("405b"), 48, true, 8, 1, 2, 3, 1, 1, 48, 8, 96, 32, false, NONE },
    { "405b on 256", FULL("405b"), 256, true, 8, 4, 2, 4, 1, 8, 256, 62, 256, 64, false, NONE },
    { "405b on 640", FULL("405b"), 640, true, 8, 8, 2, 5, 1, 8, 640, 126, 320, 64, false, NONE },
    /* layers selects the recipe row of this depth */
    { "405b, 8 layers on 512", FULL("405b") "layers = 8\n", 512, true, 8, 1, 2, 32, 1, 1, 512, 8, 1024, 32, false,
      NONE },
    { "405b, 30 layers on 128", FULL("405b") "layers = 30\n", 128, true, 8, 4, 2, 2, 1, 8, 128, 30, 128, 64, false,
      NONE },
    { "8b, 16 layers on 8", FULL("8b") "layers = 16\n", 8, true, 1, 1, 2, 4, 1, 1, 8, 16, 128, 32, false, NONE },
    /* layout keys on the full model; the recipe's batch if only data or shard is given */
    { "8b, data 8", FULL("8b") "data = 8\n", 8, true, 1, 1, 1, 8, 1, 1, 8, 32, 128, 16, false, NONE },
    { "8b, data 8 of 16", FULL("8b") "data = 8\n", 16, true, 1, 1, 1, 8, 1, 1, 8, 32, 128, 16, false, NONE },
    { "8b, data 2", FULL("8b") "data = 2\n", 2, false, 1, 1, 1, 2, 1, 1, 2, 32, 32, 16, false, NONE },
    { "8b, tensor 2", FULL("8b") "tensor = 2\n", 8, true, 2, 1, 1, 4, 1, 1, 8, 32, 8, 2, false, NONE },
    { "8b, shard 8", FULL("8b") "shard = 8\n", 16, true, 1, 1, 1, 2, 8, 1, 16, 32, 256, 16, false, NONE },
    { "8b, the recipe by keys", FULL("8b") "context = 2\ndata = 4\nglobal_batch = 128\n", 8, true, 1, 1, 2, 4, 1, 1, 8,
      32, 128, 32, true, NONE },
    { "405b, tensor 8 on 8", FULL("405b") "tensor = 8\n", 8, true, 8, 1, 1, 1, 1, 1, 8, 126, 2, 2, false, NONE },
    /* other families: constant batch below 512 GPUs, depth and sequence by row, expert ranks */
    { "grok on 40", "[grok1-314b]\nsize = full\n", 40, true, 4, 1, 1, 8, 1, 1, 32, 4, 1024, 128, true, NONE },
    { "grok on 96", "[grok1-314b]\nsize = full\n", 96, true, 4, 1, 2, 8, 1, 1, 64, 8, 1024, 128, true, NONE },
    { "grok on 64, data 16 of depth 4", "[grok1-314b]\nsize = full\nlayers = 4\n", 64, true, 4, 1, 1, 16, 1, 1, 64, 4,
      1024, 64, false, "" },
    { "grok on 768", "[grok1-314b]\nsize = full\n", 768, true, 4, 8, 2, 12, 1, 8, 768, 64, 1536, 128, false, "" },
    /* the recipe's defaults: no sharding with one data rank, its schedule, overlap */
    { "gpt3 on 64, optimizer", "[gpt3-175b]\nsize = full\nsharding = optimizer\n", 64, true, 8, 8, 1, 1, 1, 3, 64, 96,
      128, 64, true, "" },
    { "gpt3 on 64, none", "[gpt3-175b]\nsize = full\nsharding = none\n", 64, true, 8, 8, 1, 1, 1, 3, 64, 96, 128, 64,
      true, "" },
    { "8b, none", FULL("8b") "sharding = none\n", 8, true, 1, 1, 2, 4, 1, 1, 8, 32, 128, 32, false, NONE },
    { "8b, gpipe", FULL("8b") "schedule = gpipe\n", 8, true, 1, 1, 2, 4, 1, 1, 8, 32, 128, 32, false, NONE },
    { "8b, 1f1b", FULL("8b") "schedule = 1f1b\n", 8, true, 1, 1, 2, 4, 1, 1, 8, 32, 128, 32, true, NONE },
    { "8b, no overlap", FULL("8b") "overlap = off\n", 8, true, 1, 1, 2, 4, 1, 1, 8, 32, 128, 32, false, NONE },
    { "405b on 32, no overlap", FULL("405b") "overlap = off\n", 32, true, 8, 1, 2, 2, 1, 1, 32, 8, 64, 32, false,
      NONE },
    { "52k on 8, fp8", "[gpt3-52k]\nsize = full\nprecision = fp8\nhidden = 64\n", 8, true, 2, 2, 1, 2, 1, 1, 8, 8, 32,
      2, false, NONE },
    /* size = auto */
    { "auto on 8", "[llama3.1-8b]\n", 8, true, 1, 1, 2, 4, 1, 1, 8, 32, 128, 32, true, NONE },
    { "auto on 4", "[llama3.1-8b]\n", 4, true, 1, 1, 1, 4, 1, 1, 4, 32, 32, 8, false, NONE },
    { "auto on 8, host", "[llama3.1-8b]\nbackend = host\n", 8, true, 1, 1, 2, 4, 1, 1, 8, 8, 8, 2, false, NONE },
    /* check: data x max(2, pipeline) */
    { "check on 4", "[llama3.1-8b]\nsize = check\n", 4, false, 1, 1, 1, 4, 1, 1, 4, 2, 8, 2, false, NONE },
    { "check, pipeline 4", "[llama3.1-8b]\nsize = check\npipeline = 4\n", 8, true, 1, 4, 1, 2, 1, 1, 8, 2, 8, 4, false,
      "" },
    { "check, interleaved", "[llama3.1-8b]\nsize = check\npipeline = 2\nchunks_per_stage = 3\n", 4, true, 1, 2, 1, 2, 1,
      3, 4, 4, 4, 2, false, "" },
    /* copies: 7, 1, 7 of 8 nodes, 3, 3 with the data ranks that experts need */
    { "copies on 500", "copies = all\n[llama3.1-70b]\n", 500, true, 4, 4, 2, 2, 1, 5, 64, 80, 128, 64, true, NONE },
    { "copies on 63", "copies = all\n[llama3.1-8b]\nsize = small\ndata = 32\n", 63, true, 1, 1, 1, 32, 1, 1, 32, 8, 64,
      2, false, NONE },
    { "7 copies", "copies = 7\n[llama3.1-8b]\nsize = small\ncontext = 1\n", 500, true, 1, 1, 1, 64, 1, 1, 64, 8, 128, 2,
      false, NONE },
    { "copies of experts", "copies = all\n[grok1-314b]\nsize = small\ntensor = 2\nexpert = 8\n", 50, true, 2, 1, 1, 8,
      1, 1, 16, 4, 16, 2, false, NONE },
    { "small, pipeline 4", "[llama3.1-8b]\npipeline = 4\nsize = small\n", 4, true, 1, 4, 1, 1, 1, 1, 4, 8, 4, 4, false,
      "" },
};

static void is_laid_out(void **state)
{
    const row *r = *state;
    bench_case c = case_of(r->body, r->ranks, r->dry_run);
    assert_int_equal(c.layout.degree[AXIS_TENSOR], r->tensor);
    assert_int_equal(c.layout.degree[AXIS_PIPELINE], r->pipeline);
    assert_int_equal(c.layout.degree[AXIS_CONTEXT], r->context);
    assert_int_equal(c.layout.degree[AXIS_DATA], r->data);
    assert_int_equal(c.layout.degree[AXIS_SHARD], r->shard);
    assert_int_equal(c.layout.expert, strstr(r->body, "[grok") ? 8 : 1);
    assert_int_equal(c.layout.chunks_per_stage, r->chunks);
    assert_int_equal(c.layout.ranks, r->used);
    assert_int_equal(c.layout.copies, strstr(r->body, "copies") ? r->ranks / r->used : 1);
    assert_int_equal(c.world_ranks, r->ranks);
    assert_int_equal(c.model.layers, r->layers);
    assert_int_equal(c.global_batch, r->global_batch);
    assert_int_equal(c.microbatches, r->microbatches);
    assert_int_equal(c.recipe_layout, r->recipe);
    assert_string_equal(c.skipped, r->skipped);
}

static void refuses_what_contradicts_in_a_dry_run(void **state)
{
    static const char *const decks[][2] = {
        { "size = full\nlayers = 20\n",
          "DECK:5: layers: neither layers 20 nor, with embedding and loss, 22 is a multiple of "
          "pipeline 8 x chunks_per_stage 8" },
        { "size = small\npipeline = 3\n",
          "DECK:5: pipeline: neither layers 8 nor, with embedding and loss, 10 is a multiple of "
          "pipeline 3 x chunks_per_stage 1" },
        { "size = check\nschedule = interleaved\n", "DECK:5: schedule: interleaved needs pipeline > 1" },
        { "size = check\npipeline = 2\nchunks_per_stage = 2\nschedule = 1f1b\n",
          "DECK:6: chunks_per_stage: 2 needs schedule = interleaved" },
        { "size = check\npipeline = 4\nchunks_per_stage = 2\nglobal_batch = 256\ndata = 128\n",
          "DECK:7: global_batch: interleaved needs microbatches (here 2) divisible by pipeline 4" },
        { "size = check\ncontext = 2\nsequence = 6\n",
          "DECK:6: sequence: sequence 6 is not a multiple of 2 x context 2 x tensor 1" },
        { "size = check\nexpert = 2\n", "DECK:5: expert: llama3.1-405b has no experts; 1 is the only value" },
    };
    for (size_t i = 0; i < sizeof decks / sizeof decks[0]; i++) {
        char titled[512];
        snprintf(titled, sizeof titled, TITLES "[llama3.1-405b]\n%s", decks[i][0]);
        deck d = dry_deck_of(titled, 512);
        assert_int_equal(d.messages, 1);
        assert_string_equal(d.message[0].line, decks[i][1]);
    }
}

static void cuda_runs_where_it_can(void **state)
{
    static const char body[] = TITLES "[llama3.1-8b]\nbackend = auto cuda host\n";
    deck_source source = { .name = "DECK", .text = body, .length = sizeof body - 1, .ranks = 4, .cuda_usable = true };
    deck d = deck_read(&source);
    assert_int_equal(d.messages, 0);
    assert_int_equal(d.item[0].backend, BACKEND_CUDA);
    assert_int_equal(d.cases, 2);
    assert_int_equal(d.item[0].stands_for, 2); /* auto and cuda give the same run */
    assert_int_equal(d.item[1].backend, BACKEND_HOST);
    assert_string_equal(d.item[0].backend_reason, "every rank has a GPU");
    assert_string_equal(d.item[1].backend_reason, "the deck says so");
    deck_free(&d);
}

static void else_auto_takes_the_host_and_says_why(void **state)
{
    static const char body[] = TITLES "[llama3.1-8b]\nbackend = auto host\n";
    deck_source source = { .name = "DECK",
                           .text = body,
                           .length = sizeof body - 1,
                           .ranks = 4,
                           .cuda_missing = "rank 3 on NODE: no GPU is visible to this process" };
    deck d = deck_read(&source);
    assert_int_equal(d.messages, 0);
    assert_int_equal(d.item[0].backend, BACKEND_HOST);
    assert_string_equal(d.item[0].backend_reason, "rank 3 on NODE: no GPU is visible to this process");
    deck_free(&d);
}

/* Shared GPUs count only if the deck allows it; otherwise auto takes the host and cuda is refused. */
static void shared_devices_are_asked_for(void **state)
{
    static const char autos[] = TITLES "[llama3.1-8b]\nbackend = auto\nshare_devices = no yes\n";
    static const char cudas[] = TITLES "[llama3.1-8b]\nbackend = cuda\nshare_devices = yes no\n";
    deck_source source = { .name = "DECK",
                           .text = autos,
                           .length = sizeof autos - 1,
                           .ranks = 2,
                           .cuda_usable = true,
                           .cuda_shared = "ranks 0 and 1 share GPU-1 on NODE" };
    deck d = deck_read(&source);
    assert_int_equal(d.messages, 0);
    assert_int_equal(d.item[0].backend, BACKEND_HOST);
    assert_string_equal(d.item[0].backend_reason, "ranks 0 and 1 share GPU-1 on NODE");
    assert_int_equal(d.item[1].backend, BACKEND_CUDA);
    assert_true(d.item[1].share_devices);
    deck_free(&d);
    source.text = cudas, source.length = sizeof cudas - 1;
    d = deck_read(&source);
    assert_int_equal(d.messages, 1);
    assert_string_equal(d.message[0].line, "DECK:4: backend: cuda cannot run here: ranks 0 and 1 share GPU-1 on NODE; "
                                           "share_devices = yes allows it");
    deck_free(&d);
}

/* Elsewhere an FP8 case is skipped, in a run and on paper; a deck of such cases alone is refused. */
static void fp8_runs_on_gpus_that_multiply_it(void **state)
{
    static const char both[] = TITLES "[llama3.1-8b]\nbackend = auto\nprecision = bf16 fp8\n";
    static const char alone[] = TITLES "[llama3.1-8b]\nbackend = cuda\nprecision = fp8\n";
    static const char *const why[] = { "rank 1 on NODE: A100 cannot multiply FP8", "A100 cannot multiply FP8" };
    for (int paper = 0; paper <= 1; paper++) {
        char refusal[256];
        deck_source source = { .name = "DECK",
                               .text = both,
                               .length = sizeof both - 1,
                               .ranks = 2,
                               .dry_run = paper,
                               .device = paper ? "A100" : NULL,
                               .cuda_usable = true,
                               .cuda_without_fp8 = paper ? NULL : why[0] };
        deck d = deck_read(&source);
        assert_int_equal(d.messages, 0);
        assert_int_equal(d.item[0].backend, BACKEND_CUDA);
        assert_string_equal(d.item[0].skipped, "");
        assert_int_equal(d.item[1].backend, BACKEND_CUDA);
        assert_string_equal(d.item[1].skipped, why[paper]);
        deck_free(&d);
        source.text = alone, source.length = sizeof alone - 1;
        d = deck_read(&source);
        assert_int_equal(d.messages, 1);
        snprintf(refusal, sizeof refusal, "DECK:5: precision: %s; give bf16", why[paper]);
        assert_string_equal(d.message[0].line, refusal);
        deck_free(&d);
    }
}

int main(void)
{
    enum { ROWS = sizeof rows / sizeof rows[0] };
    TESTS(others, small_has_ten_million_parameters, full_is_the_recipe, llama2_follows_its_recipe,
          check_shape_follows_the_family, learning_rate_replaces_the_largest, vocabulary_is_padded_to_the_tensor_ranks,
          shape_keys_override_any_size, check_shape_follows_the_mesh, check_shape_follows_its_keys,
          strips_divide_the_positions, check_layers_follow_the_pipeline, refuses_what_contradicts_in_a_dry_run,
          cuda_runs_where_it_can, else_auto_takes_the_host_and_says_why, shared_devices_are_asked_for,
          fp8_runs_on_gpus_that_multiply_it);
    enum { OTHERS = sizeof others / sizeof others[0] };
    struct CMUnitTest tests[OTHERS + ROWS];
    memcpy(tests, others, sizeof others);
    for (int i = 0; i < ROWS; i++)
        tests[OTHERS + i] =
            (struct CMUnitTest){ .name = rows[i].name, .test_func = is_laid_out, .initial_state = &rows[i] };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
