/* The workloads: one row each, and one row per recipe cell. Facts from NVIDIA's published recipes. */
#pragma once
#include "base/text.h"
#include "plan/bench_case.h"
#include "plan/catalogue/devices.h"
#include "plan/catalogue/flops.h"

/* Cells that the recipes measured (validation/reference/cells.csv), and rows of newer GPUs (cells-newer.csv, and those
 * with a format): with one more the rows of recipes.c. */
enum { RECIPE_CELLS = 77, NEWER_CELLS = 31, NEWER_ROWS = NEWER_CELLS + 3 };
typedef struct {
    const char *workload;
    case_precision precision; /* BF16 or FP8 */
    int gpus;
    const char *gpu; /* "H100", "GB200" */
    int64_t sequence, layers;
    int tensor, pipeline, context, expert, data, shard, chunks_per_stage;
    int64_t microbatch, global_batch;
    double step_seconds; /* as published; 0: not measured */
    const char *format;  /* of what is published, if xgsw cannot compute so: "MXFP8"; NULL: the precision */
} recipe_row;

/* How a value is kept, the wider the later. An FP8 weight lies there twice, once transposed, because tensor cores read
 * it in both orders. */
typedef enum { KEPT_NOT, KEPT_FP8_TWICE, KEPT_BF16, KEPT_FP32, KEPT_FORMATS } kept_format;
int kept_bytes(kept_format format); /* of one value: 0, 2, 2, 4 */
const char *kept_name(kept_format format);

/* What the weights and the optimizer keep. A recipe with FP32 weights and a BF16 copy for computing is one with BF16
 * weights and an FP32 master: the same values. */
typedef struct {
    kept_format weight;           /* of the matrices in the blocks */
    kept_format embedding;        /* the word embedding */
    kept_format other;            /* every other weight */
    kept_format gradient;         /* accumulated over the microbatches; reduced in BF16 */
    kept_format sharded_gradient; /* with shard > 1: the accumulated results of the reductions */
    kept_format master;           /* of the weights that are narrower; the others are their own */
    kept_format moment;
    kept_format activation; /* what is computed with */
} storage_rule;

typedef struct {
    const char *name, *recipe; /* catalogue name; the document its facts come from */
    model_shape full;          /* the recipe's model; head_dim, padding and output_init_std follow from it */
    const model_shape *small;  /* sizes of the laptop proxy; the rest as full */
    const optimizer_rule *optimizer;
    bool warmup_of_run; /* warm-up is a tenth of the run's steps, whatever the rule says */
    const flops_formula *formula;
    const storage_rule *bf16, *fp8;
    tokens_kind tokens, recipe_tokens; /* the default; the recipe's own: zeros only on request */
    recompute_mask recompute;
    state_sharding sharding;
    step_line step_line;
    int64_t metric_steps;      /* bench_case */
    int64_t head_deferral;     /* bench_case */
    int64_t batch_fixed_below; /* GPUs below which the recipe's batch does not grow with them */
} workload_row;

/* NULL if there is no workload of this name. */
const workload_row *workload_find(text_view name);
/* The workload with the smallest text_distance; NULL if not even that one is near. */
const workload_row *workload_nearest(text_view name);
/* What to do about an unknown name: "the nearest is llama3.1-8b", or where all are. Returns out. */
const char *workload_remedy(text_view name, char out[2 * NAME_LENGTH]);
/* Row number i, in the catalogue's order; NULL after the last. */
const workload_row *workload_at(int i);

/* The rule of a size for a run of so many steps: full, the recipe's; small and check, 1e-3 constant, epsilon 1e-8, no
 * warm-up. */
optimizer_rule optimizer_for(const workload_row *w, case_size size, int64_t steps);
/* What a case keeps, and one of that workload with its precision. Scales of the current microbatch follow from the
 * weights that are kept: BF16's, made codes for each use. */
storage_rule storage_for(const workload_row *w, const bench_case *c);
storage_rule storage_of(const bench_case *c);

/* Row number i; NULL after the last. */
const recipe_row *recipe_at(int i);
/* What rows are asked for. */
typedef struct {
    const char *workload;
    case_precision precision;
    int64_t layers;     /* 0: any depth */
    const char *device; /* whose rows come before those of PAPER_DEVICE; NULL: only these */
} recipe_query;
/* The row of most GPUs that needs no more than the GPUs given. NULL if there is none. FP32, and FP8 where the recipe
 * has no such rows, use those of BF16. */
const recipe_row *recipe_find(const recipe_query *q, int64_t gpus);
/* The row of fewest GPUs, or NULL if the recipe has no row of that depth. */
const recipe_row *recipe_smallest(const recipe_query *q);
/* The first of them, or else the second. */
const recipe_row *recipe_nearest(const recipe_query *q, int64_t gpus);
/* Is it a published cell that the case is, or whose layout it has, data-parallel to more ranks: scaled? */
bool recipe_is_origin(const recipe_row *row, const bench_case *c);
/* Returns that row for the GPU whose name the device's name has; NULL: nothing is published for it. */
const recipe_row *recipe_origin(const bench_case *c, const char *device);
/* Returns the format in which the case's row was measured on the device, if xgsw has no such format; else NULL. */
const char *recipe_format(const bench_case *c, const char *device);
