/* The recipes' cells: which layout and batch each workload runs on how many GPUs, by the document that its row names.
 */
#include "plan/catalogue/catalogue.h"
#include <ctype.h>
#include <string.h>

#define LAYOUT(t, p, c, e, d, s, chunks)                                                                               \
    .tensor = t, .pipeline = p, .context = c, .expert = e, .data = d, .shard = s, .chunks_per_stage = chunks
#define BATCH(micro, global) .microbatch = micro, .global_batch = global
#define STEP(seconds) .step_seconds = seconds

static const recipe_row rows[] = {
    { "llama2-70b", PRECISION_BF16, 64, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 1, 64, 1), BATCH(2, 128), STEP(6.999) },
    { "llama2-70b", PRECISION_BF16, 128, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 1, 128, 1), BATCH(2, 256), STEP(7.072) },
    { "llama2-70b", PRECISION_BF16, 256, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 1, 256, 1), BATCH(2, 512), STEP(7.153) },
    { "llama2-70b", PRECISION_BF16, 512, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 4, 128, 1), BATCH(2, 1024), STEP(7.091) },
    { "llama2-70b", PRECISION_BF16, 1024, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 8, 128, 1), BATCH(2, 2048),
      STEP(7.084) },
    { "llama2-70b", PRECISION_BF16, 2048, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 16, 128, 1), BATCH(2, 4096),
      STEP(7.066) },
    { "llama2-70b", PRECISION_FP8, 64, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 1, 64, 1), BATCH(2, 128), STEP(4.324) },
    { "llama2-70b", PRECISION_FP8, 128, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 1, 128, 1), BATCH(2, 256), STEP(4.556) },
    { "llama2-70b", PRECISION_FP8, 256, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 1, 256, 1), BATCH(2, 512), STEP(4.959) },
    { "llama2-70b", PRECISION_FP8, 512, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 4, 128, 1), BATCH(2, 1024), STEP(5.043) },
    { "llama2-70b", PRECISION_FP8, 1024, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 8, 128, 1), BATCH(2, 2048), STEP(5.062) },
    { "llama2-70b", PRECISION_FP8, 2048, "H100", 4096, 80, LAYOUT(1, 1, 1, 1, 16, 128, 1), BATCH(2, 4096), STEP(4.93) },
    { "llama3.1-8b", PRECISION_BF16, 8, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 4, 1, 1), BATCH(1, 128), STEP(12.27) },
    { "llama3.1-8b", PRECISION_BF16, 16, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 8, 1, 1), BATCH(1, 256), STEP(12.3) },
    { "llama3.1-8b", PRECISION_BF16, 32, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 16, 1, 1), BATCH(1, 512), STEP(12.32) },
    { "llama3.1-8b", PRECISION_BF16, 64, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 32, 1, 1), BATCH(1, 1024), STEP(12.33) },
    { "llama3.1-8b", PRECISION_BF16, 128, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 64, 1, 1), BATCH(1, 2048), STEP(12.33) },
    { "llama3.1-8b", PRECISION_FP8, 8, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 4, 1, 1), BATCH(1, 128), STEP(9.33) },
    { "llama3.1-8b", PRECISION_FP8, 16, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 8, 1, 1), BATCH(1, 256), STEP(9.36) },
    { "llama3.1-8b", PRECISION_FP8, 32, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 16, 1, 1), BATCH(1, 512), STEP(9.43) },
    { "llama3.1-8b", PRECISION_FP8, 64, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 32, 1, 1), BATCH(1, 1024), STEP(9.48) },
    { "llama3.1-8b", PRECISION_FP8, 128, "H100", 8192, 32, LAYOUT(1, 1, 2, 1, 64, 1, 1), BATCH(1, 2048), STEP(9.54) },
    { "llama3.1-70b", PRECISION_BF16, 64, "H100", 8192, 80, LAYOUT(4, 4, 2, 1, 2, 1, 5), BATCH(1, 128), STEP(14.66) },
    { "llama3.1-70b", PRECISION_BF16, 128, "H100", 8192, 80, LAYOUT(4, 4, 2, 1, 4, 1, 5), BATCH(1, 256), STEP(14.67) },
    { "llama3.1-70b", PRECISION_BF16, 256, "H100", 8192, 80, LAYOUT(4, 4, 2, 1, 8, 1, 5), BATCH(1, 512), STEP(14.68) },
    { "llama3.1-70b", PRECISION_BF16, 512, "H100", 8192, 80, LAYOUT(4, 4, 2, 1, 16, 1, 5), BATCH(1, 1024),
      STEP(14.67) },
    { "llama3.1-70b", PRECISION_BF16, 1024, "H100", 8192, 80, LAYOUT(4, 4, 2, 1, 32, 1, 5), BATCH(1, 2048),
      STEP(14.65) },
    { "llama3.1-70b", PRECISION_BF16, 2048, "H100", 8192, 80, LAYOUT(4, 4, 2, 1, 64, 1, 5), BATCH(1, 4096),
      STEP(14.66) },
    { "llama3.1-70b", PRECISION_FP8, 64, "H100", 8192, 80, LAYOUT(4, 8, 1, 1, 2, 1, 5), BATCH(1, 128), STEP(9.86) },
    { "llama3.1-70b", PRECISION_FP8, 128, "H100", 8192, 80, LAYOUT(4, 8, 1, 1, 4, 1, 5), BATCH(1, 256), STEP(9.95) },
    { "llama3.1-70b", PRECISION_FP8, 256, "H100", 8192, 80, LAYOUT(4, 8, 1, 1, 8, 1, 5), BATCH(1, 512), STEP(10) },
    { "llama3.1-70b", PRECISION_FP8, 512, "H100", 8192, 80, LAYOUT(4, 8, 1, 1, 16, 1, 5), BATCH(1, 1024), STEP(10.07) },
    { "llama3.1-70b", PRECISION_FP8, 1024, "H100", 8192, 80, LAYOUT(4, 8, 1, 1, 32, 1, 5), BATCH(1, 2048),
      STEP(10.08) },
    { "llama3.1-70b", PRECISION_FP8, 2048, "H100", 8192, 80, LAYOUT(4, 8, 1, 1, 64, 1, 5), BATCH(1, 4096),
      STEP(10.15) },
    { "llama3.1-405b", PRECISION_BF16, 32, "H100", 8192, 8, LAYOUT(8, 1, 2, 1, 2, 1, 1), BATCH(1, 64), STEP(5.4) },
    { "llama3.1-405b", PRECISION_BF16, 64, "H100", 8192, 30, LAYOUT(8, 4, 2, 1, 1, 1, 8), BATCH(1, 64), STEP(10.1) },
    { "llama3.1-405b", PRECISION_BF16, 128, "H100", 8192, 62, LAYOUT(8, 4, 2, 1, 2, 1, 8), BATCH(1, 128), STEP(19.62) },
    { "llama3.1-405b", PRECISION_BF16, 512, "H100", 8192, 126, LAYOUT(8, 8, 2, 1, 4, 1, 8), BATCH(1, 256),
      STEP(19.78) },
    { "llama3.1-405b", PRECISION_BF16, 1024, "H100", 8192, 126, LAYOUT(8, 8, 2, 1, 8, 1, 8), BATCH(1, 512),
      STEP(19.84) },
    { "llama3.1-405b", PRECISION_BF16, 2048, "H100", 8192, 126, LAYOUT(8, 8, 2, 1, 16, 1, 8), BATCH(1, 1024),
      STEP(19.87) },
    { "llama3.1-405b", PRECISION_FP8, 32, "H100", 8192, 8, LAYOUT(8, 1, 2, 1, 2, 1, 1), BATCH(1, 64), STEP(3.53) },
    { "llama3.1-405b", PRECISION_FP8, 64, "H100", 8192, 30, LAYOUT(8, 4, 2, 1, 1, 1, 8), BATCH(1, 64), STEP(6.32) },
    { "llama3.1-405b", PRECISION_FP8, 128, "H100", 8192, 62, LAYOUT(8, 4, 2, 1, 2, 1, 8), BATCH(1, 128), STEP(12.18) },
    { "llama3.1-405b", PRECISION_FP8, 512, "H100", 8192, 126, LAYOUT(8, 8, 2, 1, 4, 1, 8), BATCH(1, 256), STEP(12.37) },
    { "llama3.1-405b", PRECISION_FP8, 1024, "H100", 8192, 126, LAYOUT(8, 8, 2, 1, 8, 1, 8), BATCH(1, 512),
      STEP(12.42) },
    { "llama3.1-405b", PRECISION_FP8, 2048, "H100", 8192, 126, LAYOUT(8, 8, 2, 1, 16, 1, 8), BATCH(1, 1024),
      STEP(12.56) },
    { "nemotron4-340b", PRECISION_BF16, 128, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 2, 1, 12), BATCH(1, 32), STEP(4.61) },
    { "nemotron4-340b", PRECISION_BF16, 256, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 4, 1, 12), BATCH(1, 64), STEP(4.67) },
    { "nemotron4-340b", PRECISION_BF16, 512, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 8, 1, 12), BATCH(1, 128), STEP(4.7) },
    { "nemotron4-340b", PRECISION_BF16, 1024, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 16, 1, 12), BATCH(1, 256),
      STEP(4.73) },
    { "nemotron4-340b", PRECISION_BF16, 2048, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 32, 1, 12), BATCH(1, 512),
      STEP(4.84) },
    { "nemotron4-340b", PRECISION_FP8, 128, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 2, 1, 12), BATCH(1, 32), STEP(3.16) },
    { "nemotron4-340b", PRECISION_FP8, 256, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 4, 1, 12), BATCH(1, 64), STEP(3.21) },
    { "nemotron4-340b", PRECISION_FP8, 512, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 8, 1, 12), BATCH(1, 128), STEP(3.26) },
    { "nemotron4-340b", PRECISION_FP8, 1024, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 16, 1, 12), BATCH(1, 256),
      STEP(3.34) },
    { "nemotron4-340b", PRECISION_FP8, 2048, "H100", 4096, 96, LAYOUT(8, 8, 1, 1, 32, 1, 12), BATCH(1, 512),
      STEP(3.49) },
    { "grok1-314b", PRECISION_BF16, 8, "H100", 4096, 2, LAYOUT(4, 1, 1, 2, 2, 1, 1), BATCH(1, 1024), STEP(24.00) },
    { "grok1-314b", PRECISION_BF16, 16, "H100", 4096, 4, LAYOUT(4, 1, 1, 4, 4, 1, 1), BATCH(1, 1024), STEP(21.71) },
    { "grok1-314b", PRECISION_BF16, 32, "H100", 4096, 4, LAYOUT(4, 1, 1, 8, 8, 1, 1), BATCH(1, 1024), STEP(10.70) },
    { "grok1-314b", PRECISION_BF16, 64, "H100", 8192, 8, LAYOUT(4, 1, 2, 8, 8, 1, 1), BATCH(1, 1024), STEP(21.42) },
    { "grok1-314b", PRECISION_BF16, 128, "H100", 8192, 16, LAYOUT(4, 2, 2, 8, 8, 1, 8), BATCH(1, 1024), STEP(20.73) },
    { "grok1-314b", PRECISION_BF16, 256, "H100", 8192, 32, LAYOUT(4, 4, 2, 8, 8, 1, 8), BATCH(1, 1024), STEP(20.83) },
    { "grok1-314b", PRECISION_BF16, 512, "H100", 8192, 64, LAYOUT(4, 8, 2, 8, 8, 1, 8), BATCH(1, 1024), STEP(21.01) },
    { "grok1-314b", PRECISION_BF16, 1024, "H100", 8192, 64, LAYOUT(4, 8, 2, 8, 16, 1, 8), BATCH(1, 2048), STEP(21.20) },
    { "grok1-314b", PRECISION_BF16, 2048, "H100", 8192, 64, LAYOUT(4, 8, 2, 8, 32, 1, 8), BATCH(1, 4096), STEP(21.29) },
    { "grok1-314b", PRECISION_FP8, 8, "H100", 4096, 2, LAYOUT(4, 1, 1, 2, 2, 1, 1), BATCH(1, 1024), STEP(19.71) },
    { "grok1-314b", PRECISION_FP8, 16, "H100", 4096, 4, LAYOUT(4, 1, 1, 4, 4, 1, 1), BATCH(1, 1024), STEP(17.80) },
    { "grok1-314b", PRECISION_FP8, 32, "H100", 4096, 4, LAYOUT(4, 1, 1, 8, 8, 1, 1), BATCH(1, 1024), STEP(8.70) },
    { "grok1-314b", PRECISION_FP8, 64, "H100", 8192, 8, LAYOUT(4, 1, 2, 8, 8, 1, 1), BATCH(1, 1024), STEP(17.53) },
    { "grok1-314b", PRECISION_FP8, 128, "H100", 8192, 16, LAYOUT(4, 2, 2, 8, 8, 1, 8), BATCH(1, 1024), STEP(16.70) },
    { "grok1-314b", PRECISION_FP8, 256, "H100", 8192, 32, LAYOUT(4, 4, 2, 8, 8, 1, 8), BATCH(1, 1024), STEP(16.75) },
    { "grok1-314b", PRECISION_FP8, 512, "H100", 8192, 64, LAYOUT(4, 8, 2, 8, 8, 1, 8), BATCH(1, 1024), STEP(16.90) },
    { "grok1-314b", PRECISION_FP8, 1024, "H100", 8192, 64, LAYOUT(4, 8, 2, 8, 16, 1, 8), BATCH(1, 2048), STEP(17.01) },
    { "grok1-314b", PRECISION_FP8, 2048, "H100", 8192, 64, LAYOUT(4, 8, 2, 8, 32, 1, 8), BATCH(1, 4096), STEP(17.30) },
    { "gpt3-175b", PRECISION_BF16, 64, "A100", 2048, 96, LAYOUT(8, 8, 1, 1, 1, 1, 3), BATCH(2, 128), STEP(26.14) },
    { "gpt3-175b", PRECISION_BF16, 64, "H100", 2048, 96, LAYOUT(8, 8, 1, 1, 1, 1, 3), BATCH(2, 128), STEP(10.98) },
    { "gpt3-175b", PRECISION_FP8, 64, "H100", 2048, 96, LAYOUT(8, 8, 1, 1, 1, 1, 3), BATCH(2, 128), STEP(9.93) },
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

bool recipe_is_origin(const recipe_row *row, const bench_case *c)
{
    return row->step_seconds > 0.0 && strcmp(row->workload, c->workload) == 0 && row->precision == c->precision &&
           row->gpus == c->recipe_gpus;
}

/* Has the name this whole word? An "NVIDIA GH200 480GB" is no H200. */
static bool has_word(const char *device, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = device; (at = strstr(at, word)); at += length)
        if ((at == device || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[length])) return true;
    return false;
}

/* Is the device the GPU of a cell? Cells are of SXM modules; other cards of the chip and parts of it are slower. */
static bool is_named(const char *device, const char *gpu)
{
    return has_word(device, gpu) && !has_word(device, "PCIe") && !has_word(device, "PCIE") &&
           !has_word(device, "NVL") && !has_word(device, "MIG");
}

const recipe_row *recipe_origin(const bench_case *c, const char *device)
{
    for (int i = 0; i < ROWS; i++)
        if (recipe_is_origin(&rows[i], c) && is_named(device, rows[i].gpu)) return &rows[i];
    return NULL;
}

const recipe_row *recipe_nearest(const char *workload, case_precision precision, int64_t layers, int64_t gpus)
{
    const recipe_row *row = recipe_find(workload, precision, layers, gpus);
    return row ? row : recipe_smallest(workload, precision, layers);
}
