/* The recipes' cells: which layout and batch each workload runs on how many GPUs. */
#include "plan/catalogue.h"
#include <string.h>

#define LAYOUT(t, p, c, d, chunks)                                                                                     \
    .tensor = t, .pipeline = p, .context = c, .expert = 1, .data = d, .shard = 1, .chunks_per_stage = chunks
#define BATCH(micro, global) .micro_batch = micro, .global_batch = global

/* NVIDIA DGX Cloud benchmarking recipe, NeMo Llama 3.1 (25.04). FP8 rows are listed, and not built yet. */
static const recipe_row rows[] = {
    { "llama3.1-8b", "bf16", 8, 8192, 32, LAYOUT(1, 1, 2, 4, 1), BATCH(1, 128) },
    { "llama3.1-8b", "bf16", 16, 8192, 32, LAYOUT(1, 1, 2, 8, 1), BATCH(1, 256) },
    { "llama3.1-8b", "bf16", 32, 8192, 32, LAYOUT(1, 1, 2, 16, 1), BATCH(1, 512) },
    { "llama3.1-8b", "bf16", 64, 8192, 32, LAYOUT(1, 1, 2, 32, 1), BATCH(1, 1024) },
    { "llama3.1-8b", "bf16", 128, 8192, 32, LAYOUT(1, 1, 2, 64, 1), BATCH(1, 2048) },
    { "llama3.1-8b", "fp8", 8, 8192, 32, LAYOUT(1, 1, 2, 4, 1), BATCH(1, 128) },
    { "llama3.1-8b", "fp8", 16, 8192, 32, LAYOUT(1, 1, 2, 8, 1), BATCH(1, 256) },
    { "llama3.1-8b", "fp8", 32, 8192, 32, LAYOUT(1, 1, 2, 16, 1), BATCH(1, 512) },
    { "llama3.1-8b", "fp8", 64, 8192, 32, LAYOUT(1, 1, 2, 32, 1), BATCH(1, 1024) },
    { "llama3.1-8b", "fp8", 128, 8192, 32, LAYOUT(1, 1, 2, 64, 1), BATCH(1, 2048) },
    { "llama3.1-70b", "bf16", 64, 8192, 80, LAYOUT(4, 4, 2, 2, 5), BATCH(1, 128) },
    { "llama3.1-70b", "bf16", 128, 8192, 80, LAYOUT(4, 4, 2, 4, 5), BATCH(1, 256) },
    { "llama3.1-70b", "bf16", 256, 8192, 80, LAYOUT(4, 4, 2, 8, 5), BATCH(1, 512) },
    { "llama3.1-70b", "bf16", 512, 8192, 80, LAYOUT(4, 4, 2, 16, 5), BATCH(1, 1024) },
    { "llama3.1-70b", "bf16", 1024, 8192, 80, LAYOUT(4, 4, 2, 32, 5), BATCH(1, 2048) },
    { "llama3.1-70b", "bf16", 2048, 8192, 80, LAYOUT(4, 4, 2, 64, 5), BATCH(1, 4096) },
    { "llama3.1-70b", "fp8", 64, 8192, 80, LAYOUT(4, 8, 1, 2, 5), BATCH(1, 128) },
    { "llama3.1-70b", "fp8", 128, 8192, 80, LAYOUT(4, 8, 1, 4, 5), BATCH(1, 256) },
    { "llama3.1-70b", "fp8", 256, 8192, 80, LAYOUT(4, 8, 1, 8, 5), BATCH(1, 512) },
    { "llama3.1-70b", "fp8", 512, 8192, 80, LAYOUT(4, 8, 1, 16, 5), BATCH(1, 1024) },
    { "llama3.1-70b", "fp8", 1024, 8192, 80, LAYOUT(4, 8, 1, 32, 5), BATCH(1, 2048) },
    { "llama3.1-70b", "fp8", 2048, 8192, 80, LAYOUT(4, 8, 1, 64, 5), BATCH(1, 4096) },
    { "llama3.1-405b", "bf16", 32, 8192, 8, LAYOUT(8, 1, 2, 2, 1), BATCH(1, 64) },
    { "llama3.1-405b", "bf16", 64, 8192, 30, LAYOUT(8, 4, 2, 1, 8), BATCH(1, 64) },
    { "llama3.1-405b", "bf16", 128, 8192, 62, LAYOUT(8, 4, 2, 2, 8), BATCH(1, 128) },
    { "llama3.1-405b", "bf16", 512, 8192, 126, LAYOUT(8, 8, 2, 4, 8), BATCH(1, 256) },
    { "llama3.1-405b", "bf16", 1024, 8192, 126, LAYOUT(8, 8, 2, 8, 8), BATCH(1, 512) },
    { "llama3.1-405b", "bf16", 2048, 8192, 126, LAYOUT(8, 8, 2, 16, 8), BATCH(1, 1024) },
    { "llama3.1-405b", "fp8", 32, 8192, 8, LAYOUT(8, 1, 2, 2, 1), BATCH(1, 64) },
    { "llama3.1-405b", "fp8", 64, 8192, 30, LAYOUT(8, 4, 2, 1, 8), BATCH(1, 64) },
    { "llama3.1-405b", "fp8", 128, 8192, 62, LAYOUT(8, 4, 2, 2, 8), BATCH(1, 128) },
    { "llama3.1-405b", "fp8", 512, 8192, 126, LAYOUT(8, 8, 2, 4, 8), BATCH(1, 256) },
    { "llama3.1-405b", "fp8", 1024, 8192, 126, LAYOUT(8, 8, 2, 8, 8), BATCH(1, 512) },
    { "llama3.1-405b", "fp8", 2048, 8192, 126, LAYOUT(8, 8, 2, 16, 8), BATCH(1, 1024) },
};
enum { ROWS = sizeof rows / sizeof rows[0] };

const recipe_row *recipe_at(int i) { return i < ROWS ? &rows[i] : NULL; }

static bool is_meant(const recipe_row *row, const char *workload, const char *precision, int64_t layers)
{
    return strcmp(row->workload, workload) == 0 && strcmp(row->precision, precision) == 0 &&
           (layers == 0 || row->layers == layers);
}

const recipe_row *recipe_find(const char *workload, const char *precision, int64_t layers, int64_t gpus)
{
    const recipe_row *found = NULL;
    for (int i = 0; i < ROWS; i++)
        if (is_meant(&rows[i], workload, precision, layers) && rows[i].gpus <= gpus &&
            (!found || rows[i].gpus > found->gpus))
            found = &rows[i];
    return found;
}

const recipe_row *recipe_smallest(const char *workload, const char *precision, int64_t layers)
{
    const recipe_row *found = NULL;
    for (int i = 0; i < ROWS; i++)
        if (is_meant(&rows[i], workload, precision, layers) && (!found || rows[i].gpus < found->gpus)) found = &rows[i];
    return found;
}
