/* Parameters and bytes of a rank on paper. */
#include "plan/model/states.h"
#include "plan/model/chunks.h"
#include "plan/model/flops.h"
#include "plan/model/shapes.h"

/* Parameters that are kept alike. */
typedef struct {
    int64_t held, stored; /* stored: padding included */
    kept_format weight;
    bool replicated, expert, twice; /* twice: two gradients, one of each use of a tied table */
} portion;
enum { PORTIONS = 9 };
typedef struct {
    int count;
    portion portion[PORTIONS];
} portions;

int64_t vocabulary_rows(const bench_case *c, int tensor_rank)
{
    int64_t rows = c->model.padded_vocabulary / c->layout.degree[AXIS_TENSOR];
    int64_t left = c->model.vocabulary - tensor_rank * rows;
    return left < 0 ? 0 : left < rows ? left : rows;
}

static void add(portions *p, portion one)
{
    if (one.stored == 0) one.stored = one.held;
    if (one.stored > 0) p->portion[p->count++] = one;
}

static void add_layers(portions *p, const bench_case *c, const storage_rule *kept, int64_t layers)
{
    const model_shape *m = &c->model;
    int64_t tensor = c->layout.degree[AXIS_TENSOR], h = m->hidden, ffn = m->ffn / tensor;
    int64_t queries = m->heads / tensor * m->head_dim, key_values = m->kv_heads / tensor * m->head_dim;
    int64_t mlp = mlp_matrices(m) * h * ffn, norms = (m->norm == NORM_LAYER ? 4 : 2) * h;
    kept_format plain = c->precision == PRECISION_FP32 ? KEPT_FP32 : KEPT_BF16;
    add(p, (portion){ .held = layers * h * (2 * queries + 2 * key_values), .weight = kept->weight });
    if (m->experts)
        add(p, (portion){
                   .held = layers * (m->experts / c->layout.expert) * mlp, .weight = kept->weight, .expert = true });
    else add(p, (portion){ .held = layers * mlp, .weight = kept->weight });
    add(p, (portion){ .held = layers * (norms + m->experts * h), .weight = plain, .replicated = true });
    if (!m->linear_biases) return;
    add(p, (portion){ .held = layers * (queries + 2 * key_values + ffn), .weight = plain });
    add(p, (portion){ .held = layers * 2 * h, .weight = plain, .replicated = true });
}

/* A tied embedding is held twice where the first and the last stage are not the same; where they are, it has two
 * gradients. */
static void add_ends(portions *p, const bench_case *c, const storage_rule *kept, const int at[AXES])
{
    const model_shape *m = &c->model;
    int last_stage = c->layout.degree[AXIS_PIPELINE] - 1, stage = at[AXIS_PIPELINE];
    kept_format plain = c->precision == PRECISION_FP32 ? KEPT_FP32 : KEPT_BF16;
    portion table = { .held = vocabulary_rows(c, at[AXIS_TENSOR]) * m->hidden,
                      .stored = m->padded_vocabulary / c->layout.degree[AXIS_TENSOR] * m->hidden,
                      .weight = kept->embedding,
                      .twice = m->tied_embedding && last_stage == 0 };
    if (stage == 0) add(p, table);
    if (stage == 0) add(p, (portion){ .held = m->position_rows * m->hidden, .weight = plain, .replicated = true });
    if (!m->tied_embedding) table.weight = plain;
    if (stage == last_stage && !(m->tied_embedding && stage == 0)) add(p, table);
    int64_t final_norm = m->norm == NORM_LAYER ? 2 * m->hidden : m->hidden;
    if (stage == last_stage) add(p, (portion){ .held = final_norm, .weight = plain, .replicated = true });
}

static int64_t part(int64_t n, int64_t parts) { return (n + parts - 1) / parts; }

/* Ranks that share the optimizer of a portion. */
static int64_t owners(const bench_case *c, const portion *p)
{
    int64_t span = (int64_t)c->layout.degree[AXIS_DATA] * c->layout.degree[AXIS_CONTEXT];
    if (c->sharding == SHARDING_NONE) return 1;
    return p->expert ? span / c->layout.expert : span;
}

/* Sums over the tensor ranks are made in FP32, beside a gradient that is narrower. */
static int64_t gradient_bytes(const bench_case *c, const storage_rule *kept, const portion *p)
{
    kept_format format = c->layout.degree[AXIS_SHARD] > 1 ? kept->sharded_gradient : kept->gradient;
    bool summed = p->replicated && format < KEPT_FP32;
    return (p->twice ? 2 : 1) * kept_bytes(format) + (summed ? kept_bytes(KEPT_FP32) : 0);
}

/* A weight that is as wide as the master is its own. */
static int64_t optimizer_bytes(const storage_rule *kept, const portion *p)
{
    return (p->weight < kept->master ? kept_bytes(kept->master) : 0) + 2 * kept_bytes(kept->moment);
}

static void count(rank_states *s, const bench_case *c, const storage_rule *kept, const portion *p)
{
    int64_t shard = c->layout.degree[AXIS_SHARD], held = part(p->held, shard), stored = part(p->stored, shard);
    s->parameters += held;
    if (p->replicated) s->replicated += held;
    if (p->expert) s->experts += held;
    s->weights += stored * kept_bytes(p->weight);
    s->gradients += stored * gradient_bytes(c, kept, p);
    s->optimizer += part(stored, owners(c, p)) * optimizer_bytes(kept, p);
}

rank_states states_of(const bench_case *c, const int at[AXES])
{
    portions p = { 0 };
    rank_states s = { 0 };
    storage_rule kept = storage_for(workload_find(text_of(c->workload)), c->precision);
    add_layers(&p, c, &kept, stage_layers(c, at[AXIS_PIPELINE]));
    add_ends(&p, c, &kept, at);
    for (int i = 0; i < p.count; i++) count(&s, c, &kept, &p.portion[i]);
    return s;
}
