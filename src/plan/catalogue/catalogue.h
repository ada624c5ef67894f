/* The workloads and the cells of their recipes, one row each. The facts come from NVIDIA's published recipes. */
#pragma once
#include "base/text.h"
#include "plan/bench_case.h"
#include "plan/catalogue/devices.h"
#include "plan/catalogue/flops.h"

/* Numbers of rows in recipes.c: cells that the recipes measured (validation/reference/cells.csv); cells of newer GPUs
 * (cells-newer.csv); the latter and three rows with a format. One more row is a smoke test. */
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
    const char *format;  /* published format if xgsw does not have it: "MXFP8"; NULL: the precision */
} recipe_row;

/* Storage format of a value, from narrow to wide. An FP8 weight is stored twice, once transposed, because tensor cores
 * read it in both orders. */
typedef enum { KEPT_NOT, KEPT_FP8_TWICE, KEPT_BF16, KEPT_FP32, KEPT_FORMATS } kept_format;
int kept_bytes(kept_format format); /* bytes of one value: 0, 2, 2, 4 */
const char *kept_name(kept_format format);

/* Storage formats of weights and optimizer. A recipe with FP32 weights and a BF16 copy for computing is entered as BF16
 * weights with an FP32 master, because the values are the same. */
typedef struct {
    kept_format weight;           /* matrices in the blocks */
    kept_format embedding;        /* word embedding */
    kept_format other;            /* every other weight */
    kept_format gradient;         /* sum over the microbatches; reduced in BF16 */
    kept_format sharded_gradient; /* with shard > 1: sum of the reduced gradients */
    kept_format master;           /* copy of each weight that is stored in a narrower format */
    kept_format moment;
    kept_format activation; /* format of the computation */
} storage_rule;

typedef struct {
    const char *name, *recipe; /* catalogue name; document that its facts come from */
    model_shape full;          /* the recipe's model; shape_complete adds head_dim, padding and output_init_std */
    const model_shape *small;  /* sizes of the laptop proxy; all else as in full */
    const char *small_layout;  /* the recipe's layout in small: keys that take 2 while ranks remain, in this order */
    const optimizer_rule *optimizer;
    bool warmup_of_run; /* the warm-up is a tenth of the run's steps, whatever the rule says */
    const flops_formula *formula;
    const storage_rule *bf16, *fp8;
    tokens_kind tokens, recipe_tokens; /* default; the recipe's. They differ if the recipe trains on zeros */
    recompute_mask recompute;
    state_sharding sharding;
    step_line step_line;
    int64_t metric_steps; /* see bench_case; 0: all steps but the first metric_skips */
    int64_t metric_skips;
    int64_t head_deferral;     /* see bench_case */
    int64_t batch_fixed_below; /* with fewer GPUs the recipe's batch stays constant */
} workload_row;

/* Returns the workload with this name, or NULL. */
const workload_row *workload_find(text_view name);
/* Returns the workload with the smallest text_distance to the name; NULL if none is near. */
const workload_row *workload_nearest(text_view name);
/* Writes a remedy for an unknown name: "the nearest is llama3.1-8b" or "--list names them". Returns out. */
const char *workload_remedy(text_view name, char out[2 * NAME_LENGTH]);
/* Returns row i in the order of the catalogue; NULL after the last. */
const workload_row *workload_at(int i);

/* Returns the optimizer rule of a run of `steps` steps, warm-up included. Size full: the recipe's rule; small and
 * check: constant rate 1e-3, epsilon 1e-8, no warm-up. */
optimizer_rule optimizer_for(const workload_row *w, case_size size, int64_t steps);
/* Returns the storage formats of a case; storage_of looks its workload up. An FP8 case with current scaling stores its
 * weights as BF16 does, and converts them to FP8 for each use. */
storage_rule storage_for(const workload_row *w, const bench_case *c);
storage_rule storage_of(const bench_case *c);

/* Returns row i; NULL after the last. */
const recipe_row *recipe_at(int i);
/* Selection of rows. */
typedef struct {
    const char *workload;
    case_precision precision;
    int64_t layers;     /* 0: any depth */
    const char *device; /* rows of this device come first, then those of PAPER_DEVICE; NULL: only the latter */
} recipe_query;
/* Returns the row with the most GPUs, at most `gpus`; NULL if there is none. FP32 uses the rows of BF16, and so does
 * FP8 if the workload has no FP8 rows. */
const recipe_row *recipe_find(const recipe_query *q, int64_t gpus);
/* Returns the row with the fewest GPUs; NULL if the recipe has no row of that depth. */
const recipe_row *recipe_smallest(const recipe_query *q);
/* Returns the row of recipe_find, or that of recipe_smallest if there is none. */
const recipe_row *recipe_nearest(const recipe_query *q, int64_t gpus);
/* Returns whether two rows train one model on one device in one precision; layout and batch may differ. */
bool recipe_alike(const recipe_row *a, const recipe_row *b);
/* Returns whether the case is this published cell, also with more data ranks. */
bool recipe_is_origin(const recipe_row *row, const bench_case *c);
/* Returns the published cell of the case for the GPU in the device's name; NULL if nothing is published for it. */
const recipe_row *recipe_origin(const bench_case *c, const char *device);
/* Returns the format in which the case's row was measured on the device, if xgsw has no such format; else NULL. */
const char *recipe_format(const bench_case *c, const char *device);
