/* Flop formulas and metrics of the recipes, and peaks of GPUs. All published recipes use one formula of this form, per
 * sequence of s tokens:
 *   s (12 L h^2 (1 + projections + attention s / h) + 6 matrices experts L ffn h + 6 V h) */
#pragma once
#include "plan/bench_case.h"

typedef struct {
    bool multi_head_projections; /* count K and V as wide as Q, whatever kv_heads is */
    bool causal;                 /* count half of the attention square, as a causal kernel computes */
    int64_t vocabulary_multiple; /* count the vocabulary padded to this multiple; 0: unpadded */
} flops_formula;

extern const flops_formula llama_formula;    /* llama2, llama3.1 */
extern const flops_formula nemotron_formula; /* full square; multi-head projections, although kv_heads is 8 */
extern const flops_formula grok_formula;     /* half of the square */
extern const flops_formula gpt3_formula;     /* full square, vocabulary padded to 51200 */

typedef __int128 flop_count; /* an integer, so that counts are exact */

/* Returns the flops of one training sequence, forward and backward, by a recipe's formula. */
double formula_flops(const flops_formula *f, const model_shape *m);
/* Returns the part of the four products of each block, which FP8 runs compute in FP8. */
double formula_block_flops(const flops_formula *f, const model_shape *m);

/* Returns the dense peak in flop/s of the GPU with this name ("NVIDIA H100 80GB HBM3" or "H100"); 0 for an unknown
 * name, for the host, and for FP32. */
double gpu_peak(const char *name, case_precision precision);

/* Returns gpu_peak, or the deck's peak if that is 0 and the device has a name. */
double case_peak(const bench_case *c, const char *device, case_precision precision);

/* Metrics of a step; step times in seconds. */
double tokens_per_second(int64_t sequence, int64_t global_batch, double step_seconds);
/* Returns the days of training on 1e12 tokens at a rate in tokens/s. Printed for full models only. */
double days_per_trillion(double rate);
/* Returns the flop/s of one GPU; flops_per_sequence may come from either formula. */
double flops_per_gpu(int64_t global_batch, double flops_per_sequence, double step_seconds, int gpus);
/* Returns the model flops utilization (MFU) as a fraction; NaN if the peak is unknown (0). */
double model_flops_utilization(int64_t global_batch, double flops_per_sequence, double step_seconds, int gpus,
                               double peak);
/* Returns the largest possible utilization of the FP8 peak if block_flops run at that peak and the rest (attention, LM
 * head) at the BF16 peak; NaN if a peak is unknown. */
double mixed_ceiling(double flops, double block_flops, double fp8_peak, double bf16_peak);
