/* Compares the catalogue with the project's copy of the reference numbers: the cells are the same, and the printed
 * figures follow from the printed step times by the formulas. Checks every formula value of part 5 of the description
 * of the workloads, to the last digit. (program/dry_run.t counts parameters again.) */
#include "plan/catalogue/catalogue.h"
#include "deck_source.h"
#include "plan/catalogue/flops.h"
#include "plan/model/params.h"
#include "plan/model/shapes.h"

enum { COLUMNS = 22, CELLS = 128 };
enum { WORKLOAD, PRECISION, GPUS, GPU, SEQUENCE, LAYERS, TENSOR, PIPELINE, CONTEXT, EXPERT, DATA, SHARD };
enum { CHUNKS = SHARD + 1, MICRO, GLOBAL, ACCUMULATION, SECONDS, TOKENS_RATE, MFU, DAYS, RECIPE, NOTE };

typedef struct {
    char line[1024];
    const char *column[COLUMNS];
} cell;
typedef struct {
    int cells;
    cell cell[CELLS];
} table;

static void split(cell *c)
{
    char *rest = c->line;
    rest[strcspn(rest, "\r\n")] = '\0';
    for (int i = 0; i < COLUMNS; i++) {
        const char *field = i < COLUMNS - 1 ? strsep(&rest, ",") : rest;
        c->column[i] = field ? field : "";
    }
}

static bool read_file(table *t, const char *path)
{
    FILE *file = fopen(path, "r");
    char header[1024];
    if (!file || !fgets(header, sizeof header, file)) return false;
    while (t->cells < CELLS && fgets(t->cell[t->cells].line, sizeof t->cell[0].line, file)) split(&t->cell[t->cells++]);
    fclose(file);
    return true;
}

/* The cells of H100 come first. */
static int read_table(void **state)
{
    static table t;
    *state = &t;
    return read_file(&t, "validation/reference/cells.csv") && t.cells == RECIPE_CELLS &&
                   read_file(&t, "validation/reference/cells-newer.csv")
               ? 0
               : -1;
}

static int number(const cell *c, int column) { return atoi(c->column[column]); }

static bool same(const recipe_row *r, const cell *c)
{
    return strcmp(r->workload, c->column[WORKLOAD]) == 0 &&
           strcmp(precision_name(r->precision), c->column[PRECISION]) == 0 && r->gpus == number(c, GPUS) &&
           strcmp(r->gpu, c->column[GPU]) == 0 && r->sequence == number(c, SEQUENCE) &&
           r->layers == number(c, LAYERS) && r->tensor == number(c, TENSOR) && r->pipeline == number(c, PIPELINE) &&
           r->context == number(c, CONTEXT) && r->expert == number(c, EXPERT) && r->data == number(c, DATA) &&
           r->shard == number(c, SHARD) && r->chunks_per_stage == number(c, CHUNKS) &&
           r->microbatch == number(c, MICRO) && r->global_batch == number(c, GLOBAL) &&
           r->step_seconds == atof(c->column[SECONDS]);
}

/* Every cell is exactly one row. Every row is a cell, except the smoke test, which was never measured, and rows
 * measured in formats that xgsw lacks. */
static void rows_are_the_cells(void **state)
{
    const table *t = *state;
    assert_int_equal(t->cells, RECIPE_CELLS + NEWER_CELLS);
    for (int i = 0; i < t->cells; i++) {
        const cell *c = &t->cell[i];
        int found = 0;
        for (int k = 0; recipe_at(k); k++) found += same(recipe_at(k), c);
        if (found != 1)
            fail_msg("%s %s %s: %d rows", c->column[WORKLOAD], c->column[PRECISION], c->column[GPUS], found);
        if (i < RECIPE_CELLS)
            assert_string_equal(workload_find(text_of(c->column[WORKLOAD]))->recipe, c->column[RECIPE]);
    }
    for (int k = 0; recipe_at(k); k++) {
        const recipe_row *r = recipe_at(k);
        int found = 0, wanted = strcmp(r->workload, "gpt3-52k") != 0 && !r->format;
        for (int i = 0; i < t->cells; i++) found += same(r, &t->cell[i]);
        if (found != wanted) fail_msg("%s %s %d: %d cells", r->workload, precision_name(r->precision), r->gpus, found);
    }
}

/* The degrees multiply to the number of GPUs; the batch divides into microbatches, the layers into chunks. */
static void rows_add_up(void **state)
{
    for (int i = 0; recipe_at(i); i++) {
        const recipe_row *r = recipe_at(i);
        int64_t chunks = (int64_t)r->pipeline * r->chunks_per_stage;
        const model_shape *m = &workload_find(text_of(r->workload))->full;
        assert_int_equal(r->tensor * r->pipeline * r->context * r->data * r->shard, r->gpus);
        assert_int_equal(r->data * r->context % r->expert, 0);
        assert_true(r->expert == 1 || m->experts % r->expert == 0);
        assert_int_equal(r->global_batch % (r->data * r->shard * r->microbatch), 0);
        assert_true(r->pipeline == 1 || (r->layers + 2) % chunks == 0 || r->layers % chunks == 0);
        assert_non_null(workload_find(text_of(r->workload)));
    }
}

static void assert_close(double value, double wanted, double tolerance, const cell *c)
{
    if (!(fabs(value / wanted - 1) < tolerance))
        fail_msg("%s %s %s: %g, wanted %g", c->column[WORKLOAD], c->column[PRECISION], c->column[GPUS], value, wanted);
}

/* Returns half a unit of the last printed digit, relative to the value. */
static double printed_to(const char *figure)
{
    const char *point = strchr(figure, '.');
    return 0.5 * pow(10, point ? -(double)strlen(point + 1) : 0) / atof(figure);
}

/* Every row of the table of devices is a row of devices.csv, in the same order, and has a peak of BF16, and of FP8 but
 * for A100. Every published cell has a device. */
static void devices_are_the_table(void **state)
{
    FILE *file = fopen("validation/reference/devices.csv", "r");
    cell c;
    assert_non_null(file);
    assert_non_null(fgets(c.line, sizeof c.line, file));
    for (int i = 0; fgets(c.line, sizeof c.line, file) || device_at(i); i++) {
        const device_row *r = device_at(i);
        split(&c);
        assert_non_null(r);
        assert_string_equal(r->name, c.column[0]);
        assert_true(r->bf16 > 0.0 && (r->fp8 > 0.0) != (strcmp(r->name, "A100") == 0));
        assert_true(fabs(r->bf16 - 1e12 * atof(c.column[1])) < 1.0 && fabs(r->fp8 - 1e12 * atof(c.column[2])) < 1.0);
        assert_true(r->memory_bytes == 1073741824.0 * atof(c.column[3]));
        assert_true(r->domain == atoi(c.column[4]) && r->node == atoi(c.column[5]));
        assert_true(r->memory_bytes > 0.0 && *c.column[6] && *c.column[7]);
        assert_ptr_equal(device_find(r->name), r);
    }
    fclose(file);
    assert_string_equal(device_find("NVIDIA GH200 144G HBM3e")->name, "GH200-144G");
    assert_string_equal(device_find("NVIDIA GH200 480GB")->name, "GH200");
    for (int i = 0; recipe_at(i); i++) assert_non_null(device_find(recipe_at(i)->gpu));
}

/* Step times are printed to 0.01 s; the flops of the MFU column to three digits. The days of one row contradict it. */
static void printed_figures_follow(void **state)
{
    const table *t = *state;
    for (int i = 0; i < RECIPE_CELLS; i++) {
        const cell *c = &t->cell[i];
        const workload_row *w = workload_find(text_of(c->column[WORKLOAD]));
        model_shape m = w->full;
        m.layers = number(c, LAYERS);
        m.sequence = number(c, SEQUENCE);
        case_precision precision = strcmp(c->column[PRECISION], "fp8") ? PRECISION_BF16 : PRECISION_FP8;
        double seconds = atof(c->column[SECONDS]), peak = gpu_peak(c->column[GPU], precision);
        double rate = tokens_per_second(number(c, SEQUENCE), number(c, GLOBAL), seconds);
        double flops = formula_flops(w->formula, &m), rounding = 0.006 / seconds;
        double mfu = 100 * model_flops_utilization(number(c, GLOBAL), flops, seconds, number(c, GPUS), peak);
        double high = strstr(c->column[NOTE], "0.9% high") ? 1.009 : 1.0, printed_tflops;
        assert_close(rate, atof(c->column[TOKENS_RATE]), rounding, c);
        if (*c->column[MFU])
            assert_close(mfu * high, atof(c->column[MFU]), rounding + printed_to(c->column[MFU]) + 2e-3, c);
        if (*c->column[DAYS] && !strstr(c->column[NOTE], "recipe prints 17.01 s"))
            assert_close(days_per_trillion(rate), atof(c->column[DAYS]), rounding + printed_to(c->column[DAYS]), c);
        if (sscanf(c->column[NOTE], "%lf TFLOP/s/GPU printed", &printed_tflops) == 1)
            assert_close(1e-12 * flops_per_gpu(number(c, GLOBAL), flops, seconds, number(c, GPUS)), printed_tflops,
                         rounding, c);
    }
}

static const recipe_row *found(const char *workload, case_precision precision, int64_t layers, int64_t gpus,
                               const char *device)
{
    return recipe_find(&(recipe_query){ workload, precision, layers, device }, gpus);
}

static const recipe_row *smallest(const char *workload, case_precision precision, int64_t layers, const char *device)
{
    return recipe_smallest(&(recipe_query){ workload, precision, layers, device });
}

static void the_row_is_the_next_smaller(void **state)
{
    assert_int_equal(found("llama3.1-8b", PRECISION_BF16, 0, 8, NULL)->gpus, 8);
    assert_int_equal(found("llama3.1-8b", PRECISION_BF16, 0, 15, NULL)->gpus, 8);
    assert_int_equal(found("llama3.1-8b", PRECISION_BF16, 0, 1000000, NULL)->gpus, 128);
    assert_null(found("llama3.1-8b", PRECISION_BF16, 0, 7, NULL));
    assert_int_equal(found("llama3.1-405b", PRECISION_FP8, 8, 2048, NULL)->gpus, 32);
    assert_null(found("llama3.1-405b", PRECISION_FP8, 126, 511, NULL));
    assert_null(smallest("llama3.1-8b", PRECISION_BF16, 31, NULL));
    assert_int_equal(smallest("llama3.1-405b", PRECISION_BF16, 126, NULL)->gpus, 512);
    assert_null(smallest("gpt5", PRECISION_BF16, 0, NULL));
}

/* Uses the device's own rows first. If none fits the number of GPUs or the precision, uses the rows of H100. */
static void a_device_has_its_own_rows(void **state)
{
    static const struct {
        const char *workload, *device, *gpu;
        case_precision precision;
        int gpus, of;
    } rows[] = {
        { "llama3.1-405b", "NVIDIA GB200", "GB200", PRECISION_BF16, 511, 256 },
        { "llama3.1-405b", "NVIDIA GB200", "GB200", PRECISION_FP8, 4096, 512 },
        { "llama3.1-8b", "NVIDIA B200", "H100", PRECISION_BF16, 64, 64 },
        { "llama3.1-8b", "NVIDIA B200", "B200", PRECISION_FP8, 64, 8 },
        { "llama3.1-8b", "NVIDIA H200", "H100", PRECISION_FP8, 63, 32 },
        { "llama3.1-8b", "NVIDIA H200 NVL", "H100", PRECISION_FP8, 64, 64 },
        { "gpt3-175b", "NVIDIA A100-SXM4-80GB", "A100", PRECISION_BF16, 64, 64 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const recipe_row *r = found(rows[i].workload, rows[i].precision, 0, rows[i].gpus, rows[i].device);
        assert_string_equal(r->gpu, rows[i].gpu);
        assert_int_equal(r->gpus, rows[i].of);
    }
    assert_int_equal(smallest("llama3.1-405b", PRECISION_BF16, 126, "GB300")->gpus, 512);
    assert_int_equal(smallest("llama3.1-405b", PRECISION_BF16, 126, "GB200")->gpus, 128);
}

static void workloads_are_found(void **state)
{
    for (int i = 0; workload_at(i); i++) {
        const workload_row *w = workload_at(i);
        assert_ptr_equal(workload_find(text_of(w->name)), w);
        assert_ptr_equal(workload_nearest(text_of(w->name)), w);
        assert_non_null(smallest(w->name, PRECISION_FP8, w->full.layers, NULL));
        assert_int_equal(w->full.hidden % w->full.heads, 0);
        assert_non_null(w->small);
    }
    assert_null(workload_find(text_of("llama3.1-8")));
    assert_string_equal(workload_nearest(text_of("llama-405b"))->name, "llama3.1-405b");
}

/* ---- formulas ---- */

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

TEST_PROGRAM("catalogue", read_table, NULL, rows_are_the_cells, rows_add_up, devices_are_the_table,
             printed_figures_follow, the_row_is_the_next_smaller, a_device_has_its_own_rows, workloads_are_found,
             formula_values, model_formula_is_comparable, bench_step, peaks, ceilings)
