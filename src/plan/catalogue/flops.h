/* Flop formulas of part 5 of the workloads' description, and peaks.
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
flop_count formula_count(const flops_formula *f, const model_shape *m);
double formula_flops(const flops_formula *f, const model_shape *m);

/* Dense peak, in flop/s, of the GPU that calls itself so ("NVIDIA H100 80GB HBM3", or just "H100"); 0 where none is
 * known: for other names, the host's, and FP32. */
double gpu_peak(const char *name, case_precision precision);
