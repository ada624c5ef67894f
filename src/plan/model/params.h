/* The parameters of a model: one rule for each name, made from the shape. Counts, bytes, flops of products and the
 * trainer's table (model/param.h) are all computed from this list. A rule of a layer applies to every layer. */
#pragma once
#include "plan/catalogue/catalogue.h"

/* Names in order of first use. Vectors come before the matrices of the layers. Matrices that are multiplied as one (q,
 * k, v; gate, up) are adjacent. */
typedef enum {
    PARAM_EMBEDDING,
    PARAM_POSITIONS,
    PARAM_ATTENTION_NORM,
    PARAM_ATTENTION_NORM_BIAS,
    PARAM_MLP_NORM,
    PARAM_MLP_NORM_BIAS,
    PARAM_ATTENTION_OUTPUT_BIAS,
    PARAM_DOWN_BIAS,
    PARAM_FINAL_NORM,
    PARAM_FINAL_NORM_BIAS,
    PARAM_Q_BIAS,
    PARAM_K_BIAS,
    PARAM_V_BIAS,
    PARAM_UP_BIAS,
    PARAM_Q,
    PARAM_K,
    PARAM_V,
    PARAM_ATTENTION_OUTPUT,
    PARAM_ROUTER,
    PARAM_GATE,
    PARAM_UP,
    PARAM_DOWN,
    PARAM_HEAD,
    PARAM_NAMES
} param_name;

/* Split over the tensor ranks. SPLIT_NONE: each rank holds the whole parameter and a partial sum of its gradient. */
typedef enum { SPLIT_NONE, SPLIT_ROWS, SPLIT_COLUMNS } param_split;
typedef enum { START_NORMAL, START_ONES, START_ZEROS } param_start;
/* Places where a parameter is used, one bit each. Each place adds to its gradient once a microbatch; a tied embedding
 * has two. */
enum { AT_EMBEDDING = 1, AT_LAYER = 2, AT_LOSS = 4 };

/* Storage formats. partial: sum over tensor ranks, if it is wider than the gradient. microbatch: gradient of a gathered
 * weight in one microbatch, summed over the shard ranks; KEPT_NOT if not gathered. master: if the weight is
 * narrower. */
typedef struct {
    kept_format weight, gradient, partial, microbatch, master, moment;
} param_kept;

typedef struct {
    param_name name;
    const char *label;
    unsigned places;
    int64_t rows, columns; /* of the whole matrix [out, in]; a vector is [n, 1] */
    int64_t padded_rows;
    param_split split;
    int64_t experts; /* number of experts, which have one each, spread over the expert ranks; 0: all tokens share one */
    int64_t products; /* products of a token with it in a layer, or at the loss; 0 if it is added or looked up, and for
                         the router, which no formula counts */
    param_start start;
    double std;         /* for START_NORMAL */
    bool moves_nothing; /* a bias of keys without rotation shifts all scores of a query equally: gradient and Adam's
                           steps are only rounding, and are not compared */
    bool moves_little;  /* a bias of queries: rounding decides the direction of Adam's first steps, so only its gradient
                           is compared */
    bool decays;
    param_kept kept;
} param_rule;

typedef struct {
    int count;
    param_rule rule[PARAM_NAMES];
} param_list;

/* Returns the parameters in order of first use. params_of_shape does not set decays and kept, which a case decides. */
param_list params_of_shape(const model_shape *m);
param_list params_of_case(const bench_case *c);

/* Returns whether the parameter lives as shards and is gathered for use: with shard > 1, the matrices that tensor ranks
 * split. Vectors, and what every tensor rank holds whole, are small; only their optimizer state is spread. */
bool param_is_gathered(const param_rule *p);

/* Returns how often a rule applies in a model of `layers` layers. */
int64_t param_repeats(const param_rule *p, int64_t layers);
/* Counts the contributions to its gradient in a microbatch of a stage with these places. */
int param_uses(const param_rule *p, unsigned places);

/* Part of a parameter that one tensor rank holds. */
typedef struct {
    int64_t first_row, first_column, rows, columns; /* padded rows included */
    int64_t filled_rows;                            /* rows of the unpadded matrix among them */
} param_part;
param_part param_part_of(const param_rule *p, int tensor_ranks, int tensor_rank);

/* Counts the parameters of the unpadded model, each once. */
int64_t model_parameters(const model_shape *m);
/* Returns the flops of a training sequence, forward and backward, in the form that makes recipes comparable: true
 * projections, causal half attention, unpadded vocabulary. */
flop_count model_flop_count(const model_shape *m);
double model_flops(const model_shape *m);
/* Sets the flops of a sequence of the case's model, by both formulas. */
void count_flops(bench_case *c, const flops_formula *f);
