/* The parameters of a model: one rule for each name, made from the shape. Counts, bytes, flops of products and the
 * trainer's table (model/param.h) are all computed from this list. A rule of a layer applies to every layer. */
#pragma once
#include "plan/catalogue/catalogue.h"

/* In order of first use; vectors come before the matrices of the layers. Matrices that are multiplied as one (q, k, v;
 * gate, up) are adjacent. */
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

/* Storage formats. partial: of the sum over tensor ranks, if it is wider than the gradient. microbatch: of a gathered
 * weight's gradient in one microbatch, summed over the shard ranks. master: if the weight is narrower. KEPT_NOT: none.
 */
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
    int64_t experts;  /* experts that have one each, spread over the expert ranks; 0: all tokens share one */
    int64_t products; /* products of a token with it in a layer or at the loss. No formula counts the router: 0 */
    param_start start;
    double std;          /* for START_NORMAL */
    bool zero_gradient;  /* bias of keys without rotation: it shifts all scores of a query equally, so its gradient is
                            only rounding error. Neither gradient nor weight is compared */
    bool small_gradient; /* bias of queries: rounding decides the direction of Adam's first steps. Only the gradient is
                            compared */
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

/* Returns whether shard ranks hold parts of the parameter and gather it for use: with shard > 1, matrices that tensor
 * ranks split. Other parameters are small; only their optimizer state is split over the shard ranks. */
bool param_is_gathered(const param_rule *p);

/* Returns how often a rule applies in a model of `layers` layers. */
int64_t param_repeats(const param_rule *p, int64_t layers);
/* Counts the contributions of a microbatch to its gradient on a stage with these places. */
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
