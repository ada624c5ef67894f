/* A rank's share of the parameters and of the work. */
#include "plan/model/rank_share.h"
#include "plan/model/chunks.h"

/* How many parameters of a rule's kind a stage holds on a rank: of all its layers, and of the rank's experts. */
static int64_t held_copies(const bench_case *c, const param_rule *p, int stage)
{
    int64_t experts = p->experts ? p->experts / c->layout.expert : 1;
    if (!(p->places & stage_places(c, stage))) return 0;
    return param_repeats(p, stage_layers(c, stage)) * experts;
}

static int64_t part(int64_t n, int64_t parts) { return (n + parts - 1) / parts; }

/* Ranks that share the optimizer of a parameter. */
static int64_t owners(const bench_case *c, const param_rule *p)
{
    int64_t span = (int64_t)c->layout.degree[AXIS_DATA] * c->layout.degree[AXIS_CONTEXT];
    if (c->sharding == SHARDING_NONE) return 1;
    return p->experts ? span / c->layout.expert : span;
}

static void add_states(rank_states *s, const bench_case *c, const param_rule *p, const int at[AXES])
{
    param_part own = param_part_of(p, c->layout.degree[AXIS_TENSOR], at[AXIS_TENSOR]);
    int64_t columns = held_copies(c, p, at[AXIS_PIPELINE]) * own.columns, shards = c->layout.degree[AXIS_SHARD];
    int64_t cut = part(columns * own.rows, shards), stored = param_is_gathered(p) ? cut : columns * own.rows;
    int64_t filled = columns * own.filled_rows - at[AXIS_SHARD] * cut, owned = part(cut, owners(c, p));
    int64_t held = filled < 0 ? 0 : filled < cut ? filled : cut;
    int gradients = param_uses(p, stage_places(c, at[AXIS_PIPELINE]));
    bool shared = param_uses(p, ~0u) > gradients; /* the other end's gradient of it is received */
    s->parameters += held;
    if (p->split == SPLIT_NONE) s->replicated += held;
    if (p->experts) s->experts += held;
    s->weights += stored * kept_bytes(p->kept.weight);
    s->gradients += stored * (gradients * kept_bytes(p->kept.gradient) + kept_bytes(p->kept.partial));
    if (shared) s->gradients += owned * kept_bytes(p->kept.gradient);
    s->optimizer += owned * (kept_bytes(p->kept.master) + 2 * kept_bytes(p->kept.moment));
}

rank_states states_of(const bench_case *c, const int at[AXES])
{
    param_list l = params_of_case(c);
    rank_states s = { 0 };
    for (int i = 0; i < l.count; i++) add_states(&s, c, &l.rule[i], at);
    return s;
}

/* Weights that each token is multiplied with on this rank. A table is multiplied at the loss alone. */
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
    flop_count token = 6 * channels * m->sequence; /* attention: two products with half the positions */
    for (int i = 0; i < l.count; i++) token += 6 * product_weights(c, &l.rule[i], at);
    return tokens * token;
}

flop_count step_model_flops(const bench_case *c) { return c->global_batch * model_flop_count(&c->model); }
