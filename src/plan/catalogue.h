/* The workloads: one row each, and one row per recipe cell. Facts from NVIDIA's published recipes. */
#pragma once
#include "base/text.h"
#include "plan/bench_case.h"
#include "plan/flops.h"

typedef struct {
    const char *workload, *precision; /* "bf16", "fp8" */
    int gpus;
    int64_t sequence, layers;
    int tensor, pipeline, context, expert, data, shard, chunks_per_stage;
    int64_t micro_batch, global_batch;
} recipe_row;

typedef struct {
    const char *name, *recipe; /* catalogue name; the document its facts come from */
    model_shape full;          /* the recipe's model; head_dim, padding and output_init_std follow from it */
    const model_shape *small;  /* sizes of the laptop proxy; the rest as full */
    const optimizer_rule *optimizer;
    const flops_formula *formula;
    token_stream tokens;
    recompute_mask recompute;
    state_sharding sharding;
    int64_t head_deferral; /* bench_case */
} workload_row;

/* NULL if there is no workload of this name. */
const workload_row *workload_find(text_view name);
/* The workload with the smallest text_distance. */
const workload_row *workload_nearest(text_view name);
/* Row number i, in the catalogue's order; NULL after the last. */
const workload_row *workload_at(int i);

/* The rule of a size: full, the recipe's; small and check, 1e-3 constant, epsilon 1e-8, no warm-up. */
optimizer_rule optimizer_for(const workload_row *w, case_size size);

/* Row number i; NULL after the last. */
const recipe_row *recipe_at(int i);
/* The row of most GPUs that needs no more than the GPUs given; layers 0: of any depth. NULL if there is none. */
const recipe_row *recipe_find(const char *workload, const char *precision, int64_t layers, int64_t gpus);
/* The row of fewest GPUs, or NULL if the recipe has no row of that depth. */
const recipe_row *recipe_smallest(const char *workload, const char *precision, int64_t layers);

/* Prints the catalogue (--list). */
void catalogue_print(void);
