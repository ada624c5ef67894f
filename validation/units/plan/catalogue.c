/* Compares the catalogue with the project's copy of the reference numbers: the cells are the same, and the printed
 * figures follow from the printed step times by the formulas. */
#include "plan/catalogue/catalogue.h"
#include "plan/catalogue/flops.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COLUMNS = 22, CELLS = 128 };
enum {
    WORKLOAD,
    PRECISION,
    GPUS,
    GPU,
    SEQUENCE,
    LAYERS,
    TENSOR,
    PIPELINE,
    CONTEXT,
    EXPERT,
    DATA,
    SHARD,
    CHUNKS,
    MICRO,
    GLOBAL,
    ACCUMULATION,
    SECONDS,
    TOKENS_RATE,
    MFU,
    DAYS,
    RECIPE,
    NOTE
};

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

/* Step times are printed to 0.01 s; the flops of the MFU column to three digits. */
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
        if (strstr(c->column[NOTE], "imply 17.10 s")) rounding = 0.1 / seconds;
        double mfu = 100 * model_flops_utilization(number(c, GLOBAL), flops, seconds, number(c, GPUS), peak);
        double high = strstr(c->column[NOTE], "0.9% high") ? 1.009 : 1.0, printed_tflops;
        assert_close(rate, atof(c->column[TOKENS_RATE]), rounding, c);
        if (*c->column[MFU])
            assert_close(mfu * high, atof(c->column[MFU]), rounding + printed_to(c->column[MFU]) + 2e-3, c);
        if (*c->column[DAYS])
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
    for (int i = 0; recipe_at(i); i++) assert_true(device_find(recipe_at(i)->gpu)->memory_bytes > 0.0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_the_cells),        cmocka_unit_test(rows_add_up),
        cmocka_unit_test(printed_figures_follow),    cmocka_unit_test(the_row_is_the_next_smaller),
        cmocka_unit_test(a_device_has_its_own_rows), cmocka_unit_test(workloads_are_found),
    };
    return cmocka_run_group_tests(tests, read_table, NULL);
}
