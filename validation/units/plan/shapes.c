/* Model shapes: sizes, padding, initialization, the check model and the single rank of its reference. */
#include "plan/model/shapes.h"
#include "deck_source.h"
#include "plan/model/check_case.h"
#include "plan/model/params.h"
#include <math.h>

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
                { "[llama3.1-8b]\ntensor = 2\n", 2, 1, 0 },
                { "[llama3.1-8b]\ntensor = 2\nsequence = 4098\n", 2, 1, 0 },
                { "[llama3.1-8b]\ntensor = 2\nsequence = 4100\n", 2, 2, 0 },
                { "[llama3.1-8b]\ntensor = 2\nstrips = 4\n", 2, 4, 4 },
                { "[llama3.1-8b]\ntensor = 2\nstrips = 3\n", 2, 2, 3 },
                { "[llama3.1-8b]\ntensor = 2\nsequence = 96\nstrips = 3\n", 2, 3, 3 } };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        bench_case c = case_of(row[i].body, row[i].ranks, true), check = check_case(&c);
        assert_int_equal(c.strips, row[i].strips);
        assert_int_equal(c.strips_asked, row[i].asked);
        assert_int_equal(check.strips, c.strips);
        assert_int_equal(
            check.model.sequence / c.layout.degree[AXIS_CONTEXT] % (c.strips * c.layout.degree[AXIS_TENSOR]), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_has_ten_million_parameters),
        cmocka_unit_test(full_is_the_recipe),
        cmocka_unit_test(llama2_follows_its_recipe),
        cmocka_unit_test(check_shape_follows_the_family),
        cmocka_unit_test(learning_rate_replaces_the_largest),
        cmocka_unit_test(vocabulary_is_padded_to_the_tensor_ranks),
        cmocka_unit_test(shape_keys_override_any_size),
        cmocka_unit_test(check_shape_follows_the_mesh),
        cmocka_unit_test(check_shape_follows_its_keys),
        cmocka_unit_test(strips_divide_the_positions),
        cmocka_unit_test(check_layers_follow_the_pipeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
