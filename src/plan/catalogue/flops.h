/* Flop formulas and metrics of the recipes, and peaks.
 * Every published recipe counts with one formula of this form, per sequence of s tokens:
 *   s (12 L h^2 (1 + projections + attention s / h) + 6 matrices experts L ffn h + 6 V h) */
#pragma once
#include "plan/bench_case.h"

typedef struct {
    bool multi_head_projections; /* counts K and V as wide as Q, whatever kv_heads is */
    bool causal;                 /* counts half of the attention square: what a causal kernel computes */
    int64_t vocabulary_multiple; /* counts the vocabulary padded to it; 0: unpadded */
} flops_formula;

extern const flops_formula llama_formula;    /* llama2, llama3.1 */
extern const flops_formula nemotron_formula; /* full square, multi-head projections although it has 8 groups */
extern const flops_formula grok_formula;     /* causal half */
extern const flops_formula gpt3_formula;     /* full square; over the padded vocabulary of 51200 */

typedef __int128 flop_count; /* exact */

/* Flops of one training sequence, forward and backward, by a recipe's own formula. */
double formula_flops(const flops_formula *f, const model_shape *m);
/* Of these, those of the four products of a block: what FP8 runs compute in FP8. */
double formula_block_flops(const flops_formula *f, const model_shape *m);

/* Dense peak, in flop/s, of the GPU that calls itself so ("NVIDIA H100 80GB HBM3", or just "H100"); 0 where none is
 * known: for other names, the host's, and FP32. */
double gpu_peak(const char *name, case_precision precision);

/* The same, and where none is known of a device that has a name, the one that the deck gives. */
double case_peak(const bench_case *c, const char *device, case_precision precision);

/* Metrics; step times in seconds. */
double tokens_per_second(int64_t sequence, int64_t global_batch, double step_seconds);
/* Days of training on 1e12 tokens at a rate in tokens per second. Printed for full models only. */
double days_per_trillion(double rate);
/* Flop/s of one GPU; flops_per_sequence by either formula. */
double flops_per_gpu(int64_t global_batch, double flops_per_sequence, double step_seconds, int gpus);
/* Model flops utilization, a fraction; NaN where no peak is known (peak 0). */
double model_flops_utilization(int64_t global_batch, double flops_per_sequence, double step_seconds, int gpus,
                               double peak);
/* The largest utilization of the FP8 peak where block_flops of the flops run at it and the rest, attention and the LM
 * head, at the BF16 peak; NaN where no peak is known. */
double mixed_ceiling(double flops, double block_flops, double fp8_peak, double bf16_peak);
