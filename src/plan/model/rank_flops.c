/* Model flops of one rank. */
#include "plan/model/rank_flops.h"
#include "plan/model/chunks.h"
#include "plan/model/states.h"

/* 6 flops a weight and token; tensor ranks share heads and ffn, expert ranks share the tokens' experts evenly. */
static flop_count layer_flops(const bench_case *c, flop_count tokens)
{
    const model_shape *m = &c->model;
    flop_count h = m->hidden, tensor = c->layout.degree[AXIS_TENSOR];
    flop_count queries = m->heads / tensor * m->head_dim, key_values = m->kv_heads / tensor * m->head_dim;
    flop_count weights = h * (2 * queries + 2 * key_values) + mlp_matrices(m) * mlps_active(m) * (m->ffn / tensor) * h;
    flop_count attention = 6 * queries * m->sequence; /* two products, 6 flops each, half the positions */
    return tokens * (6 * weights + attention);
}

flop_count rank_model_flops(const bench_case *c, const int at[AXES])
{
    const int *degree = c->layout.degree;
    flop_count sequences = c->global_batch / degree[AXIS_DATA] / degree[AXIS_SHARD];
    flop_count tokens = sequences * (c->model.sequence / degree[AXIS_CONTEXT]);
    flop_count flops = stage_layers(c, at[AXIS_PIPELINE]) * layer_flops(c, tokens);
    bool last = at[AXIS_PIPELINE] == degree[AXIS_PIPELINE] - 1;
    flop_count head = (flop_count)6 * vocabulary_rows(c, at[AXIS_TENSOR]) * c->model.hidden;
    return last ? flops + tokens * head : flops;
}

flop_count step_model_flops(const bench_case *c) { return c->global_batch * model_flop_count(&c->model); }
