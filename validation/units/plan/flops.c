/* Every formula value and worked example of part 5 of the workloads' description, and parameter counts, to the unit. */
#include "plan/catalogue/flops.h"
#include "deck_source.h"
#include "plan/model/params.h"
#include "plan/model/shapes.h"
#include <math.h>

static const model_shape llama2_70b = { .layers = 80,
                                        .hidden = 8192,
                                        .ffn = 28672,
                                        .heads = 64,
                                        .kv_heads = 8,
                                        .head_dim = 128,
                                        .vocabulary = 32000,
                                        .sequence = 4096 };
static const model_shape llama31_8b = { .layers = 32,
                                        .hidden = 4096,
                                        .ffn = 14336,
                                        .heads = 32,
                                        .kv_heads = 8,
                                        .head_dim = 128,
                                        .vocabulary = 128256,
                                        .sequence = 8192 };
static const model_shape llama31_70b = { .layers = 80,
                                         .hidden = 8192,
                                         .ffn = 28672,
                                         .heads = 64,
                                         .kv_heads = 8,
                                         .head_dim = 128,
                                         .vocabulary = 128256,
                                         .sequence = 8192 };
static const model_shape nemotron4_340b = { .layers = 96,
                                            .hidden = 18432,
                                            .ffn = 73728,
                                            .heads = 96,
                                            .kv_heads = 8,
                                            .head_dim = 192,
                                            .vocabulary = 256000,
                                            .sequence = 4096,
                                            .mlp = MLP_SQUARED_RELU };
static const model_shape grok1_314b = { .layers = 64,
                                        .hidden = 6144,
                                        .ffn = 32768,
                                        .heads = 48,
                                        .kv_heads = 8,
                                        .head_dim = 128,
                                        .vocabulary = 128256,
                                        .sequence = 8192,
                                        .experts = 8,
                                        .active = 2 };
static const model_shape gpt3_175b = { .layers = 96,
                                       .hidden = 12288,
                                       .ffn = 49152,
                                       .heads = 96,
                                       .kv_heads = 96,
                                       .head_dim = 128,
                                       .vocabulary = 50304,
                                       .sequence = 2048,
                                       .mlp = MLP_GELU };

static model_shape llama31_405b(int64_t layers)
{
    return (model_shape){ .layers = layers,
                          .hidden = 16384,
                          .ffn = 53248,
                          .heads = 128,
                          .kv_heads = 8,
                          .head_dim = 128,
                          .vocabulary = 128256,
                          .sequence = 8192 };
}

/* The value as printf shows it with the format equals the text. */
static void assert_printed(const char *format, double value, const char *wanted)
{
    char shown[64];
    snprintf(shown, sizeof shown, format, value);
    assert_string_equal(shown, wanted);
}

static void llama_formula_values(void **state)
{
    assert_printed("%.6e", formula_flops(&llama_formula, &llama31_8b), "4.744221e+14");
    assert_printed("%.6e", formula_flops(&llama_formula, &llama31_70b), "3.943914e+15");
    model_shape full = llama31_405b(126);
    assert_printed("%.6e", formula_flops(&llama_formula, &full), "2.150748e+16");
    assert_printed("%.6e", formula_flops(&llama_formula, &llama2_70b), "1.820637e+15");
}

static void proxies_are_exact(void **state)
{
    static const struct {
        int64_t layers;
        const char *flops;
    } rows[] = { { 8, "1462281745465344" }, { 30, "5199521768275968" }, { 62, "10635507256000512" } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        model_shape m = llama31_405b(rows[i].layers);
        assert_printed("%.0f", formula_flops(&llama_formula, &m), rows[i].flops);
    }
}

static void other_recipes(void **state)
{
    assert_printed("%.0f", formula_flops(&nemotron_formula, &nemotron4_340b), "10090733604175872");
    assert_printed("%.0f", formula_flops(&grok_formula, &grok1_314b), "4274050805268480");
    assert_printed("%.0f", formula_flops(&gpt3_formula, &gpt3_175b), "2204555173429248");
    flops_formula true_projections = nemotron_formula;
    true_projections.multi_head_projections = false;
    assert_printed("%.0f", formula_flops(&true_projections, &nemotron4_340b), "8621236313653248");
}

/* Causal half attention, true projections, unpadded vocabulary, everything else as is. */
static void model_formula_is_comparable(void **state)
{
    double s = 8192, h = 4096, attention = 12.0 * 32 * h * h * (1 + 8.0 / 32 + s / h / 2);
    assert_true(model_flops(&llama31_8b) == s * (attention + 18.0 * 32 * 14336 * h + 6.0 * 128256 * h));
    assert_true(model_flops(&grok1_314b) == formula_flops(&grok_formula, &grok1_314b));
    double missing = 4096.0 * 12 * 96 * 18432 * (18432 * (1 - 8.0 / 96) + 4096.0 / 2);
    double difference = formula_flops(&nemotron_formula, &nemotron4_340b) - model_flops(&nemotron4_340b);
    assert_true(fabs(difference - missing) <= 1e-12 * missing);
    double gpt3_missing = 2048.0 * 12288 * (12.0 * 96 * 2048 / 2 + 6.0 * (51200 - 50304));
    assert_true(formula_flops(&gpt3_formula, &gpt3_175b) - model_flops(&gpt3_175b) == gpt3_missing);
}

/* inputs/bench.dat, by hand: 4 sequences of 512 tokens; 6 flops a weight; 4 layers of 3,407,872 weights of Llama,
 * 2,490,368 of Nemotron, 2,883,584 of GPT-3, 6,160,384 of Grok that a token passes; 8 heads of 64 channels that attend
 * to half the positions twice; a head of 8192 rows. */
static void bench_step(void **state)
{
    static const double flops[] = { 231928233984.0, 186831077376.0, 206158430208.0, 367219703808.0 };
    char text[8192] = "";
    FILE *file = fopen("inputs/bench.dat", "r");
    assert_non_null(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_true(length < sizeof text - 1);
    for (int ranks = 1; ranks <= 2; ranks++) {
        deck d = deck_of(text, ranks);
        assert_int_equal(d.cases, 8);
        for (int i = 0; i < 8; i++) {
            const bench_case *c = &d.item[i];
            assert_true((double)(c->global_batch * model_flop_count(&c->model)) == flops[i / 2]);
            assert_true(c->model_flops_per_sequence * (double)c->global_batch == flops[i / 2]);
        }
        deck_free(&d);
    }
}

/* By hand, from the architectures. */
static void parameter_counts(void **state)
{
    static const struct {
        const char *name;
        int64_t parameters;
    } exact[] = {
        { "llama2-70b", 68976648192 },      { "llama3.1-8b", 8030261248 },
        { "llama3.1-70b", 70553706496 },    { "llama3.1-405b", 405853388800 },
        { "nemotron4-340b", 341029195776 }, { "grok1-314b", 316454737920 },
        { "gpt3-175b", 174780997632 },      { "gpt3-52k", 75424 },
    };
    static const struct {
        int64_t layers, parameters;
    } proxies[] = { { 8, 29704339456 }, { 30, 99833823232 }, { 62, 201840345088 } };
    for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++) {
        model_shape m = workload_find(text_of(exact[i].name))->full;
        shape_complete(&m, 1);
        assert_int_equal(model_parameters(&m), exact[i].parameters);
    }
    for (size_t i = 0; i < sizeof proxies / sizeof proxies[0]; i++) {
        model_shape m = llama31_405b(proxies[i].layers);
        assert_int_equal(model_parameters(&m), proxies[i].parameters);
    }
}

/* The documents' examples use flops rounded to three digits. (Workloads, part 5, swaps the MFU of llama3.1 and
 * nemotron.) */
static void worked_examples(void **state)
{
    static const struct {
        int64_t sequence, batch;
        double seconds, flops;
        int gpus;
        double peak;
        const char *tokens_format, *tokens, *days_format, *days, *mfu_format, *mfu;
    } rows[] = {
        { 4096, 128, 7.908, 1.82e15, 64, 989e12, "%.2f", "66298.43", NULL, NULL, "%.2f", "46.54" },
        { 8192, 128, 12.39, 4.74e14, 8, 1979e12, "%.0f", "84631", "%.2f", "136.76", "%.2f", "30.93" },
        { 4096, 256, 3.59, 1.01e16, 128, 989e12, "%.0f", "292082", "%.1f", "39.6", NULL, NULL },
        { 4096, 32, 4.77, 1.01e16, 128, 989e12, NULL, NULL, NULL, NULL, "%.2f", "53.52" },
        { 8192, 4096, 24, 4.27e15, 2048, 989e12, "%.0f", "1398101", "%.2f", "8.28", "%.1f", "36.0" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double rate = tokens_per_second(rows[i].sequence, rows[i].batch, rows[i].seconds);
        double mfu = model_flops_utilization(rows[i].batch, rows[i].flops, rows[i].seconds, rows[i].gpus, rows[i].peak);
        if (rows[i].tokens) assert_printed(rows[i].tokens_format, rate, rows[i].tokens);
        if (rows[i].days) assert_printed(rows[i].days_format, days_per_trillion(rate), rows[i].days);
        if (rows[i].mfu) assert_printed(rows[i].mfu_format, 100 * mfu, rows[i].mfu);
    }
}

static void peaks(void **state)
{
    assert_true(gpu_peak("NVIDIA H100 80GB HBM3", PRECISION_BF16) == 989e12);
    assert_true(gpu_peak("NVIDIA H200", PRECISION_FP8) == 1979e12);
    assert_true(gpu_peak("NVIDIA H100 PCIe", PRECISION_BF16) == 756.5e12);
    assert_true(gpu_peak("NVIDIA H100 80GB HBM3 MIG 1g.10gb", PRECISION_BF16) == 0.0);
    assert_true(gpu_peak("Emulated H100", PRECISION_BF16) == 0.0 &&
                gpu_peak("NVIDIA GH200 480GB", PRECISION_BF16) == 989e12);
    assert_true(gpu_peak("NVIDIA L4", PRECISION_BF16) == 0.0 && gpu_peak("", PRECISION_BF16) == 0.0);
    assert_true(gpu_peak("A100", PRECISION_BF16) == 312e12 && gpu_peak("A100", PRECISION_FP8) == 0.0);
    assert_true(gpu_peak("NVIDIA H100 80GB HBM3", PRECISION_FP32) == 0.0);
    assert_true(gpu_peak("host", PRECISION_BF16) == 0.0);
    assert_true(isnan(model_flops_utilization(1, 1.0, 1.0, 1, 0.0)));
    assert_true(flops_per_gpu(128, 2e15, 10.0, 64) == 128 * 2e15 / 10.0 / 64);
}

/* Of llama3.1 8b at 1979 and 989 Tflop/s: 72.3 % of the recipe's flops, 81.4 % of the others, are the blocks'. */
static void ceilings(void **state)
{
    bench_case c = case_of("[llama3.1-8b]\nsize = full\nprecision = fp8\n", 8, true);
    double blocks = 8192.0 * 32 * (12 * 4096.0 * 5120 + 18 * 4096.0 * 14336);
    assert_true(c.recipe_block_flops_per_sequence == blocks && c.model_block_flops_per_sequence == blocks);
    assert_printed("%.6f", mixed_ceiling(c.recipe_flops_per_sequence, blocks, 1979e12, 989e12), "0.782966");
    assert_printed("%.6f", mixed_ceiling(c.model_flops_per_sequence, blocks, 1979e12, 989e12), "0.842747");
    assert_true(mixed_ceiling(2.0, 2.0, 1979e12, 989e12) == 1.0 && mixed_ceiling(2.0, 0.0, 2.0, 1.0) == 0.5);
    assert_true(isnan(mixed_ceiling(2.0, 1.0, 0.0, 312e12)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_formula_values),
        cmocka_unit_test(proxies_are_exact),
        cmocka_unit_test(other_recipes),
        cmocka_unit_test(model_formula_is_comparable),
        cmocka_unit_test(bench_step),
        cmocka_unit_test(parameter_counts),
        cmocka_unit_test(worked_examples),
        cmocka_unit_test(peaks),
        cmocka_unit_test(ceilings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
