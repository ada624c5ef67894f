/* A rank's share of the work. */
#include "plan/model/rank_share.h"
#include "plan/model/chunks.h"

/* Counts the weights that each token is multiplied with on this rank; those of a tied embedding only at the loss. */
static flop_count product_weights(const bench_case *c, const param_rule *p, const int at[AXES])
{
    param_part own = param_part_of(p, c->layout.degree[AXIS_TENSOR], at[AXIS_TENSOR]);
    unsigned places = stage_places(c, at[AXIS_PIPELINE]) & (AT_LAYER | AT_LOSS);
    int64_t repeats = p->places & places ? param_repeats(p, stage_layers(c, at[AXIS_PIPELINE])) : 0;
    return (flop_count)(repeats * p->products) * own.filled_rows * own.columns;
}

flop_count rank_model_flops(const bench_case *c, const int at[AXES])
{
    const int *degree = c->layout.degree;
    const model_shape *m = &c->model;
    param_list l = params_of_case(c);
    flop_count tokens = c->global_batch / degree[AXIS_DATA] / degree[AXIS_SHARD] * (m->sequence / degree[AXIS_CONTEXT]);
    flop_count channels = stage_layers(c, at[AXIS_PIPELINE]) * (m->heads / degree[AXIS_TENSOR]) * m->head_dim;
    flop_count flops_of_token = 6 * channels * m->sequence; /* attention: two products with half of the positions */
    for (int i = 0; i < l.count; i++) flops_of_token += 6 * product_weights(c, &l.rule[i], at);
    return tokens * flops_of_token;
}

flop_count step_model_flops(const bench_case *c) { return c->global_batch * model_flop_count(&c->model); }
