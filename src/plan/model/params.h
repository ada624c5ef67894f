/* The parameters of a model, told once: a rule for each name, made from the shape. Counts, bytes, product flops and the
 * trainer's table (model/param.h) are folds of this list; a rule of a layer holds in each of them. */
#pragma once
#include "plan/catalogue/catalogue.h"

/* In order of first use: vectors before the matrices that they stand beside. Matrices that are multiplied as one (q, k,
 * v; gate, up) follow one another. */
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

/* Between the tensor ranks; SPLIT_NONE: each holds it whole and has a part of the sum that is its gradient. */
typedef enum { SPLIT_NONE, SPLIT_ROWS, SPLIT_COLUMNS } param_split;
typedef enum { START_NORMAL, START_ONES, START_ZEROS } param_start;
/* Where a parameter is used, one bit each. Each place adds to its gradient once a microbatch; a tied embedding has
 * two. */
enum { AT_EMBEDDING = 1, AT_LAYER = 2, AT_LOSS = 4 };

/* partial: beside a gradient that is narrower than the sums over tensor ranks. microbatch: a microbatch's gradient of a
 * weight that is gathered for use, in which it is summed over the shard ranks; KEPT_NOT of the others. master: where
 * the weight is narrower. */
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
    int64_t experts;  /* each has one, spread over the expert ranks; 0: one for all tokens */
    int64_t products; /* that a token has with it in a layer, or at the loss; 0 of what is added or looked up, and of
                         the router, which no formula counts */
    param_start start;
    double std;         /* START_NORMAL */
    bool moves_nothing; /* a bias of keys that are not rotated shifts all scores of a query alike: its gradient is zero
                           but for rounding, and so are Adam's steps: neither is compared */
    bool moves_little;  /* a bias of queries: its gradient is so small that rounding decides the direction of Adam's
                           first steps: the gradient is compared, the weights are not */
    bool decays;
    param_kept kept;
} param_rule;

typedef struct {
    int count;
    param_rule rule[PARAM_NAMES];
} param_list;

/* From a shape alone: what a case decides (decays, kept) is not set. In order of first use. */
param_list params_of_shape(const model_shape *m);
param_list params_of_case(const bench_case *c);

/* With shard > 1 the matrices that tensor ranks split live as shards and are gathered for use. What is small, vectors
 * and what every tensor rank holds, is whole on every rank, and only its optimizer is spread. */
bool param_is_gathered(const param_rule *p);

/* How often a rule holds among so many layers. */
int64_t param_repeats(const param_rule *p, int64_t layers);
/* Contributions to its gradient in a microbatch, of the places that a stage has. */
int param_uses(const param_rule *p, unsigned places);

/* What one of the tensor ranks holds of a parameter. */
typedef struct {
    int64_t first_row, first_column, rows, columns; /* padded rows included */
    int64_t filled_rows;                            /* of them, those of the unpadded matrix */
} param_part;
param_part param_part_of(const param_rule *p, int tensor_ranks, int tensor_rank);

/* Parameters of the unpadded model, each once. */
int64_t model_parameters(const model_shape *m);
/* Flops of a training sequence, forward and backward, by what makes recipes comparable: true projections, causal half
 * attention, unpadded vocabulary. */
flop_count model_flop_count(const model_shape *m);
double model_flops(const model_shape *m);
/* Sets what both formulas say of a sequence of the case's model. */
void count_flops(bench_case *c, const flops_formula *f);
