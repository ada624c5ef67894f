/* The catalogue against the project's copy of the reference numbers: the same cells, and the printed figures follow from
 * the printed step times by the formulas. */
#include "plan/catalogue.h"
#include "plan/metrics.h"
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

static int read_table(void **state)
{
    static table t;
    FILE *file = fopen("validation/reference/cells.csv", "r");
    char header[1024];
    if (!file || !fgets(header, sizeof header, file)) return -1;
    while (t.cells < CELLS && fgets(t.cell[t.cells].line, sizeof t.cell[0].line, file)) split(&t.cell[t.cells++]);
    fclose(file);
    *state = &t;
    return 0;
}

static int number(const cell *c, int column) { return atoi(c->column[column]); }

static bool same(const recipe_row *r, const cell *c)
{
    return strcmp(r->workload, c->column[WORKLOAD]) == 0 && strcmp(r->precision, c->column[PRECISION]) == 0 &&
           r->gpus == number(c, GPUS) && r->sequence == number(c, SEQUENCE) && r->layers == number(c, LAYERS) &&
           r->tensor == number(c, TENSOR) && r->pipeline == number(c, PIPELINE) && r->context == number(c, CONTEXT) &&
           r->expert == number(c, EXPERT) && r->data == number(c, DATA) && r->shard == number(c, SHARD) &&
           r->chunks_per_stage == number(c, CHUNKS) && r->micro_batch == number(c, MICRO) &&
           r->global_batch == number(c, GLOBAL);
}

/* Every cell of a catalogued workload is a row, once, and there are no others. */
static void rows_are_the_cells(void **state)
{
    const table *t = *state;
    int wanted = 0, rows = 0;
    for (int i = 0; i < t->cells; i++) {
        const cell *c = &t->cell[i];
        if (!workload_find(text_of(c->column[WORKLOAD]))) continue;
        int found = 0;
        for (rows = 0; recipe_at(rows); rows++) found += same(recipe_at(rows), c);
        if (found != 1)
            fail_msg("%s %s %s: %d rows", c->column[WORKLOAD], c->column[PRECISION], c->column[GPUS], found);
        wanted++;
    }
    assert_int_equal(rows, wanted);
    assert_int_equal(wanted, 34);
}

/* Degrees make the GPUs, microbatches the batch, chunks the layers. */
static void rows_add_up(void **state)
{
    for (int i = 0; recipe_at(i); i++) {
        const recipe_row *r = recipe_at(i);
        int64_t chunks = (int64_t)r->pipeline * r->chunks_per_stage;
        assert_int_equal(r->tensor * r->pipeline * r->context * r->data * r->shard, r->gpus);
        assert_int_equal(r->global_batch % (r->data * r->shard * r->micro_batch), 0);
        assert_true(r->pipeline == 1 || (r->layers + 2) % chunks == 0 || r->layers % chunks == 0);
        assert_non_null(workload_find(text_of(r->workload)));
    }
}

static void printed_figures_follow(void **state)
{
    const table *t = *state;
    for (int i = 0; i < t->cells; i++) {
        const cell *c = &t->cell[i];
        const workload_row *w = workload_find(text_of(c->column[WORKLOAD]));
        if (!w) continue;
        model_shape m = w->full;
        m.layers = number(c, LAYERS);
        double seconds = atof(c->column[SECONDS]), peak = strcmp(c->column[PRECISION], "fp8") ? 989e12 : 1979e12;
        double rate = tokens_per_second(number(c, SEQUENCE), number(c, GLOBAL), seconds), rounding = 0.006 / seconds;
        double mfu =
            model_flops_utilization(number(c, GLOBAL), formula_flops(w->formula, &m), seconds, number(c, GPUS), peak);
        double high = strstr(c->column[NOTE], "0.9% high") ? 1.009 : 1.0;
        assert_true(fabs(rate / atof(c->column[TOKENS_RATE]) - 1) < rounding);
        assert_true(fabs(mfu * 100 * high / atof(c->column[MFU]) - 1) < rounding + 2e-3);
        if (m.layers == w->full.layers)
            assert_true(fabs(days_per_trillion(rate) / atof(c->column[DAYS]) - 1) < rounding + 5e-3);
    }
}

static void the_row_is_the_next_smaller(void **state)
{
    assert_int_equal(recipe_find("llama3.1-8b", "bf16", 0, 8)->gpus, 8);
    assert_int_equal(recipe_find("llama3.1-8b", "bf16", 0, 15)->gpus, 8);
    assert_int_equal(recipe_find("llama3.1-8b", "bf16", 0, 1000000)->gpus, 128);
    assert_null(recipe_find("llama3.1-8b", "bf16", 0, 7));
    assert_int_equal(recipe_find("llama3.1-405b", "fp8", 8, 2048)->gpus, 32);
    assert_null(recipe_find("llama3.1-405b", "fp8", 126, 511));
    assert_null(recipe_smallest("llama3.1-8b", "bf16", 31));
    assert_int_equal(recipe_smallest("llama3.1-405b", "bf16", 126)->gpus, 512);
    assert_null(recipe_smallest("gpt5", "bf16", 0));
}

static void workloads_are_found(void **state)
{
    for (int i = 0; workload_at(i); i++) {
        const workload_row *w = workload_at(i);
        assert_ptr_equal(workload_find(text_of(w->name)), w);
        assert_ptr_equal(workload_nearest(text_of(w->name)), w);
        assert_non_null(recipe_smallest(w->name, "bf16", w->full.layers));
    }
    assert_null(workload_find(text_of("llama3.1-8")));
    assert_string_equal(workload_nearest(text_of("405b"))->name, "llama3.1-405b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_the_cells),     cmocka_unit_test(rows_add_up),
        cmocka_unit_test(printed_figures_follow), cmocka_unit_test(the_row_is_the_next_smaller),
        cmocka_unit_test(workloads_are_found),
    };
    return cmocka_run_group_tests(tests, read_table, NULL);
}
