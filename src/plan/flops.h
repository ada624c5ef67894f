/* Flop formulas of part 5 of the workloads' description and parameter counts.
 * Every published recipe counts with one formula of this form, per sequence of s tokens:
 *   s (12 L h^2 (1 + projections + attention s / h) + 6 matrices experts L ffn h + 6 V h) */
#pragma once
#include "plan/bench_case.h"

typedef struct {
    bool multi_head_projections; /* counts K and V as wide as Q, whatever kv_heads is */
    bool causal;                 /* counts half of the attention square: what a causal kernel computes */
    int mlp_matrices;            /* 3 gated, 2 not */
    int active_experts;          /* MLPs that each token passes */
} flops_formula;

extern const flops_formula llama_formula;    /* llama2, llama3.1 */
extern const flops_formula nemotron_formula; /* full square, multi-head projections although it has 8 groups */
extern const flops_formula grok_formula;     /* causal half, two experts */
extern const flops_formula gpt3_formula;     /* full square; over the padded vocabulary of 51200 */

/* Flops of one training sequence, forward and backward, by a recipe's own formula. Exact below 2^53. */
double formula_flops(const flops_formula *f, const model_shape *m);
/* The same with what makes recipes comparable: true projections, causal half attention. */
double formula_model_flops(const flops_formula *f, const model_shape *m);

/* Parameters of the unpadded model (the llama family: gated MLP, no biases, untied). */
int64_t model_parameters(const model_shape *m);
/* Recipe's own formula, per sequence: s (12 L h^2 (1 + kv/heads + s/h) + 18 L ffn h + 6 V h), full square attention. */
double recipe_flops(const model_shape *m);
/* Comparable "model" formula: as above with true projections and causal half attention. */
double model_flops(const model_shape *m);
/* Dense peak of a device in flop/s for MFU (H100, H200); 0 where none is known (the host, FP32). */
double peak_flops(case_backend backend, case_precision precision);
