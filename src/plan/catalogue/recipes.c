/* The recipes' cells: which layout and batch each workload runs on how many GPUs, by the document that its row names.
 */
#include "plan/catalogue/catalogue.h"
#include <string.h>

#define LAYOUT(t, p, c, e, d, s, chunks)                                                                               \
    .tensor = t, .pipeline = p, .context = c, .expert = e, .data = d, .shard = s, .chunks_per_stage = chunks
#define BATCH(micro, global) .micro_batch = micro, .global_batch = global

static const recipe_row rows[] = {
    { "llama2-70b", PRECISION_BF16, 64, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 1, 64, 1), BATCH(2, 128) },
    { "llama2-70b", PRECISION_BF16, 128, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 1, 128, 1), BATCH(2, 256) },
    { "llama2-70b", PRECISION_BF16, 256, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 1, 256, 1), BATCH(2, 512) },
    { "llama2-70b", PRECISION_BF16, 512, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 4, 128, 1), BATCH(2, 1024) },
    { "llama2-70b", PRECISION_BF16, 1024, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 8, 128, 1), BATCH(2, 2048) },
    { "llama2-70b", PRECISION_BF16, 2048, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 16, 128, 1), BATCH(2, 4096) },
    { "llama2-70b", PRECISION_FP8, 64, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 1, 64, 1), BATCH(2, 128) },
    { "llama2-70b", PRECISION_FP8, 128, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 1, 128, 1), BATCH(2, 256) },
    { "llama2-70b", PRECISION_FP8, 256, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 1, 256, 1), BATCH(2, 512) },
    { "llama2-70b", PRECISION_FP8, 512, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 4, 128, 1), BATCH(2, 1024) },
    { "llama2-70b", PRECISION_FP8, 1024, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 8, 128, 1), BATCH(2, 2048) },
    { "llama2-70b", PRECISION_FP8, 2048, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 16, 128, 1), BATCH(2, 4096) },
    { "llama3.1-8b", PRECISION_BF16, 8, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 4, 1, 1), BATCH(1, 128) },
    { "llama3.1-8b", PRECISION_BF16, 16, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 8, 1, 1), BATCH(1, 256) },
    { "llama3.1-8b", PRECISION_BF16, 32, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 16, 1, 1), BATCH(1, 512) },
    { "llama3.1-8b", PRECISION_BF16, 64, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 32, 1, 1), BATCH(1, 1024) },
    { "llama3.1-8b", PRECISION_BF16, 128, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 64, 1, 1), BATCH(1, 2048) },
    { "llama3.1-8b", PRECISION_FP8, 8, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 4, 1, 1), BATCH(1, 128) },
    { "llama3.1-8b", PRECISION_FP8, 16, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 8, 1, 1), BATCH(1, 256) },
    { "llama3.1-8b", PRECISION_FP8, 32, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 16, 1, 1), BATCH(1, 512) },
    { "llama3.1-8b", PRECISION_FP8, 64, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 32, 1, 1), BATCH(1, 1024) },
    { "llama3.1-8b", PRECISION_FP8, 128, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 64, 1, 1), BATCH(1, 2048) },
    { "llama3.1-70b", PRECISION_BF16, 64, "H100", 8192, 80, LAYOUT(4, 4, 2, 1, 2, 1, 5), BATCH(1, 128) },
    { "llama3.1-70b", PRECISION_BF16, 128, "H100", 8192, 80, LAYOUT(4, 4, 2, 1, 4, 1, 5), BATCH(1, 256) },
    { "llama3.1-70b", PRECISION_BF16, 256, "H100", 8192, 80, LAYOUT(4, 4, 2, 1, 8, 1, 5), BATCH(1, 512) },
    { "llama3.1-70b", PRECISION_BF16, 512, "H100", 8192, 80, LAYOUT(4, 4, 2, 1, 16, 1, 5), BATCH(1, 1024) },
    { "llama3.1-70b", PRECISION_BF16, 1024, "H100", 8192, 80, LAYOUT(4, 4, 2, 1, 32, 1, 5), BATCH(1, 2048) },
    { "llama3.1-70b", PRECISION_BF16, 2048, "H100", 8192, 80, LAYOUT(4, 4, 2, 1, 64, 1, 5), BATCH(1, 4096) },
    { "llama3.1-70b", PRECISION_FP8, 64, "H100", 8192, 80, LAYOUT(4, 8, 1, 1, 2, 1, 5), BATCH(1, 128) },
    { "llama3.1-70b", PRECISION_FP8, 128, "H100", 8192, 80, LAYOUT(4, 8, 1, 1, 4, 1, 5), BATCH(1, 256) },
    { "llama3.1-70b", PRECISION_FP8, 256, "H100", 8192, 80, LAYOUT(4, 8, 1, 1, 8, 1, 5), BATCH(1, 512) },
    { "llama3.1-70b", PRECISION_FP8, 512, "H100", 8192, 80, LAYOUT(4, 8, 1, 1, 16, 1, 5), BATCH(1, 1024) },
    { "llama3.1-70b", PRECISION_FP8, 1024, "H100", 8192, 80, LAYOUT(4, 8, 1, 1, 32, 1, 5), BATCH(1, 2048) },
    { "llama3.1-70b", PRECISION_FP8, 2048, "H100", 8192, 80, LAYOUT(4, 8, 1, 1, 64, 1, 5), BATCH(1, 4096) },
    { "llama3.1-405b", PRECISION_BF16, 32, "H100", 8192, 8, LAYOUT(8, 1, 2, 1, 2, 1, 1), BATCH(1, 64) },
    { "llama3.1-405b", PRECISION_BF16, 64, "H100", 8192, 30, LAYOUT(8, 4, 2, 1, 1, 1, 8), BATCH(1, 64) },
    { "llama3.1-405b", PRECISION_BF16, 128, "H100", 8192, 62, LAYOUT(8, 4, 2, 1, 2, 1, 8), BATCH(1, 128) },
    { "llama3.1-405b", PRECISION_BF16, 512, "H100", 8192, 126, LAYOUT(8, 8, 2, 1, 4, 1, 8), BATCH(1, 256) },
    { "llama3.1-405b", PRECISION_BF16, 1024, "H100", 8192, 126, LAYOUT(8, 8, 2, 1, 8, 1, 8), BATCH(1, 512) },
    { "llama3.1-405b", PRECISION_BF16, 2048, "H100", 8192, 126, LAYOUT(8, 8, 2, 1, 16, 1, 8), BATCH(1, 1024) },
    { "llama3.1-405b", PRECISION_FP8, 32, "H100", 8192, 8, LAYOUT(8, 1, 2, 1, 2, 1, 1), BATCH(1, 64) },
    { "llama3.1-405b", PRECISION_FP8, 64, "H100", 8192, 30, LAYOUT(8, 4, 2, 1, 1, 1, 8), BATCH(1, 64) },
    { "llama3.1-405b", PRECISION_FP8, 128, "H100", 8192, 62, LAYOUT(8, 4, 2, 1, 2, 1, 8), BATCH(1, 128) },
    { "llama3.1-405b", PRECISION_FP8, 512, "H100", 8192, 126, LAYOUT(8, 8, 2, 1, 4, 1, 8), BATCH(1, 256) },
    { "llama3.1-405b", PRECISION_FP8, 1024, "H100", 8192, 126, LAYOUT(8, 8, 2, 1, 8, 1, 8), BATCH(1, 512) },
    { "llama3.1-405b", PRECISION_FP8, 2048, "H100", 8192, 126, LAYOUT(8, 8, 2, 1, 16, 1, 8), BATCH(1, 1024) },
    { "nemotron4-340b", PRECISION_BF16, 128, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 2, 1, 12), BATCH(1, 32) },
    { "nemotron4-340b", PRECISION_BF16, 256, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 4, 1, 12), BATCH(1, 64) },
    { "nemotron4-340b", PRECISION_BF16, 512, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 8, 1, 12), BATCH(1, 128) },
    { "nemotron4-340b", PRECISION_BF16, 1024, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 16, 1, 12), BATCH(1, 256) },
    { "nemotron4-340b", PRECISION_BF16, 2048, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 32, 1, 12), BATCH(1, 512) },
    { "nemotron4-340b", PRECISION_FP8, 128, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 2, 1, 12), BATCH(1, 32) },
    { "nemotron4-340b", PRECISION_FP8, 256, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 4, 1, 12), BATCH(1, 64) },
    { "nemotron4-340b", PRECISION_FP8, 512, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 8, 1, 12), BATCH(1, 128) },
    { "nemotron4-340b", PRECISION_FP8, 1024, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 16, 1, 12), BATCH(1, 256) },
    { "nemotron4-340b", PRECISION_FP8, 2048, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 32, 1, 12), BATCH(1, 512) },
    { "grok1-314b", PRECISION_BF16, 8, "H100", 4096, 2, LAYOUT(4, 1, 1, 2, 2, 1, 1), BATCH(1, 1024) },
    { "grok1-314b", PRECISION_BF16, 16, "H100", 4096, 4, LAYOUT(4, 1, 1, 4, 4, 1, 1), BATCH(1, 1024) },
    { "grok1-314b", PRECISION_BF16, 32, "H100", 4096, 4, LAYOUT(4, 1, 1, 8, 8, 1, 1), BATCH(1, 1024) },
    { "grok1-314b", PRECISION_BF16, 64, "H100", 8192, 8, LAYOUT(4, 1, 2, 8, 8, 1, 1), BATCH(1, 1024) },
    { "grok1-314b", PRECISION_BF16, 128, "H100", 8192, 16, LAYOUT(4, 2, 2, 8, 8, 1, 8), BATCH(1, 1024) },
    { "grok1-314b", PRECISION_BF16, 256, "H100", 8192, 32, LAYOUT(4, 4, 2, 8, 8, 1, 8), BATCH(1, 1024) },
    { "grok1-314b", PRECISION_BF16, 512, "H100", 8192, 64, LAYOUT(4, 8, 2, 8, 8, 1, 8), BATCH(1, 1024) },
    { "grok1-314b", PRECISION_BF16, 1024, "H100", 8192, 64, LAYOUT(4, 8, 2, 8, 16, 1, 8), BATCH(1, 2048) },
    { "grok1-314b", PRECISION_BF16, 2048, "H100", 8192, 64, LAYOUT(4, 8, 2, 8, 32, 1, 8), BATCH(1, 4096) },
    { "grok1-314b", PRECISION_FP8, 8, "H100", 4096, 2, LAYOUT(4, 1, 1, 2, 2, 1, 1), BATCH(1, 1024) },
    { "grok1-314b", PRECISION_FP8, 16, "H100", 4096, 4, LAYOUT(4, 1, 1, 4, 4, 1, 1), BATCH(1, 1024) },
    { "grok1-314b", PRECISION_FP8, 32, "H100", 4096, 4, LAYOUT(4, 1, 1, 8, 8, 1, 1), BATCH(1, 1024) },
    { "grok1-314b", PRECISION_FP8, 64, "H100", 8192, 8, LAYOUT(4, 1, 2, 8, 8, 1, 1), BATCH(1, 1024) },
    { "grok1-314b", PRECISION_FP8, 128, "H100", 8192, 16, LAYOUT(4, 2, 2, 8, 8, 1, 8), BATCH(1, 1024) },
    { "grok1-314b", PRECISION_FP8, 256, "H100", 8192, 32, LAYOUT(4, 4, 2, 8, 8, 1, 8), BATCH(1, 1024) },
    { "grok1-314b", PRECISION_FP8, 512, "H100", 8192, 64, LAYOUT(4, 8, 2, 8, 8, 1, 8), BATCH(1, 1024) },
    { "grok1-314b", PRECISION_FP8, 1024, "H100", 8192, 64, LAYOUT(4, 8, 2, 8, 16, 1, 8), BATCH(1, 2048) },
    { "grok1-314b", PRECISION_FP8, 2048, "H100", 8192, 64, LAYOUT(4, 8, 2, 8, 32, 1, 8), BATCH(1, 4096) },
    { "gpt3-175b", PRECISION_BF16, 64, "A100", 2048, 96, LAYOUT(8, 8, 1, 1, 1, 1, 3), BATCH(2, 128) },
    { "gpt3-175b", PRECISION_BF16, 64, "H100", 2048, 96, LAYOUT(8, 8, 1, 1, 1, 1, 3), BATCH(2, 128) },
    { "gpt3-175b", PRECISION_FP8, 64, "H100", 2048, 96, LAYOUT(8, 8, 1, 1, 1, 1, 3), BATCH(2, 128) },
    /* A smoke test, measured nowhere. */
    { "gpt3-52k", PRECISION_BF16, 8, "H100", 1024, 8, LAYOUT(2, 2, 1, 1, 2, 1, 1), BATCH(8, 32) },
};
enum { ROWS = sizeof rows / sizeof rows[0] };
_Static_assert(ROWS == RECIPE_CELLS + 1, "the cells and the smoke test");

const recipe_row *recipe_at(int i) { return i < ROWS ? &rows[i] : NULL; }

static bool is_meant(const recipe_row *row, const char *workload, case_precision precision, int64_t layers)
{
    return strcmp(row->workload, workload) == 0 && row->precision == precision &&
           (layers == 0 || row->layers == layers);
}

/* A recipe's rows of one precision stand in the order of their GPUs. */
static const recipe_row *first_row(const char *workload, case_precision precision, int64_t layers)
{
    for (int i = 0; i < ROWS; i++)
        if (is_meant(&rows[i], workload, precision, layers)) return &rows[i];
    return NULL;
}

/* The rows that a precision goes by: FP8 its own, if there are any; FP32 those of BF16. */
static case_precision listed(const char *workload, case_precision precision)
{
    return precision == PRECISION_FP8 && first_row(workload, PRECISION_FP8, 0) ? PRECISION_FP8 : PRECISION_BF16;
}

const recipe_row *recipe_find(const char *workload, case_precision precision, int64_t layers, int64_t gpus)
{
    const recipe_row *found = NULL;
    precision = listed(workload, precision);
    for (int i = 0; i < ROWS; i++)
        if (is_meant(&rows[i], workload, precision, layers) && rows[i].gpus <= gpus &&
            (!found || rows[i].gpus > found->gpus))
            found = &rows[i];
    return found;
}

const recipe_row *recipe_smallest(const char *workload, case_precision precision, int64_t layers)
{
    return first_row(workload, listed(workload, precision), layers);
}

const recipe_row *recipe_nearest(const char *workload, case_precision precision, int64_t layers, int64_t gpus)
{
    const recipe_row *row = recipe_find(workload, precision, layers, gpus);
    return row ? row : recipe_smallest(workload, precision, layers);
}
