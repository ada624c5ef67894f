/* Checks every formula value of part 5 of the description of the workloads, to the last digit. (catalogue.c checks the
 * printed values of published cells; program/dry_run.t counts parameters again.) */
#include "plan/catalogue/flops.h"
#include "deck_source.h"
#include "plan/model/params.h"
#include "plan/model/shapes.h"
#include <math.h>

/* Returns the shape of the recipe, or of a proxy model with that many layers. */
static model_shape shape_of(const char *workload, int64_t layers)
{
    model_shape m = workload_find(text_of(workload))->full;
    m.layers = layers ? layers : m.layers;
    shape_complete(&m, 1);
    return m;
}

/* Asserts that the value, printed with the format, equals the text. */
static void assert_printed(const char *format, double value, const char *wanted)
{
    char shown[64];
    snprintf(shown, sizeof shown, format, value);
    assert_string_equal(shown, wanted);
}

/* Values of the recipes' formulas. */
static void formula_values(void **state)
{
    static const struct {
        const char *workload;
        int64_t layers;
        const flops_formula *formula;
        const char *format, *flops;
    } rows[] = {
        { "llama3.1-8b", 0, &llama_formula, "%.6e", "4.744221e+14" },
        { "llama3.1-70b", 0, &llama_formula, "%.6e", "3.943914e+15" },
        { "llama3.1-405b", 0, &llama_formula, "%.6e", "2.150748e+16" },
        { "llama2-70b", 0, &llama_formula, "%.6e", "1.820637e+15" },
        { "llama3.1-405b", 8, &llama_formula, "%.0f", "1462281745465344" },
        { "llama3.1-405b", 30, &llama_formula, "%.0f", "5199521768275968" },
        { "llama3.1-405b", 62, &llama_formula, "%.0f", "10635507256000512" },
        { "nemotron4-340b", 0, &nemotron_formula, "%.0f", "10090733604175872" },
        { "grok1-314b", 0, &grok_formula, "%.0f", "4274050805268480" },
        { "gpt3-175b", 0, &gpt3_formula, "%.0f", "2204555173429248" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        model_shape m = shape_of(rows[i].workload, rows[i].layers);
        assert_printed(rows[i].format, formula_flops(rows[i].formula, &m), rows[i].flops);
    }
}

/* Counts half of attention (causal), true projections and the unpadded vocabulary; nothing else differs. */
static void model_formula_is_comparable(void **state)
{
    model_shape llama = shape_of("llama3.1-8b", 0), grok = shape_of("grok1-314b", 0),
                nemotron = shape_of("nemotron4-340b", 0), gpt3 = shape_of("gpt3-175b", 0);
    double s = 8192, h = 4096, attention = 12.0 * 32 * h * h * (1 + 8.0 / 32 + s / h / 2);
    assert_true(model_flops(&llama) == s * (attention + 18.0 * 32 * 14336 * h + 6.0 * 128256 * h));
    assert_true(model_flops(&grok) == formula_flops(&grok_formula, &grok));
    double missing = 4096.0 * 12 * 96 * 18432 * (18432 * (1 - 8.0 / 96) + 4096.0 / 2);
    double difference = formula_flops(&nemotron_formula, &nemotron) - model_flops(&nemotron);
    assert_true(fabs(difference - missing) <= 1e-12 * missing);
    double gpt3_missing = 2048.0 * 12288 * (12.0 * 96 * 2048 / 2 + 6.0 * (51200 - 50304));
    assert_true(formula_flops(&gpt3_formula, &gpt3) - model_flops(&gpt3) == gpt3_missing);
}

/* inputs/bench.dat by hand: 4 sequences of 512 tokens; 6 flops per weight; 4 layers with weights per token: Llama
 * 3,407,872, Nemotron 2,490,368, GPT-3 2,883,584, Grok 6,160,384; 8 heads of 64 channels that attend to half the
 * positions, twice; an output head of 8192 rows. */
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
    assert_true(gpu_peak("NVIDIA H20", PRECISION_BF16) == 148e12 && gpu_peak("NVIDIA GB200", PRECISION_FP8) == 4900e12);
    assert_true(isnan(model_flops_utilization(1, 1.0, 1.0, 1, 0.0)));
    assert_true(flops_per_gpu(128, 2e15, 10.0, 64) == 128 * 2e15 / 10.0 / 64);
}

/* llama3.1 8b at 1979 and 989 Tflop/s: blocks have 72.3 % of the recipe's flops and 81.4 % of the model's. */
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
        cmocka_unit_test(formula_values), cmocka_unit_test(model_formula_is_comparable),
        cmocka_unit_test(bench_step),     cmocka_unit_test(peaks),
        cmocka_unit_test(ceilings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
