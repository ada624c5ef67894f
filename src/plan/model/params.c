/* The parameters of all families, in one table. A model has the rows whose condition holds. */
#include "plan/model/params.h"
#include <math.h>

typedef enum { ONE, HIDDEN, QUERIES, KEY_VALUES, FFN, VOCABULARY, POSITIONS, EXPERTS, EXTENTS } extent;
typedef enum {
    ALWAYS,
    IF_POSITIONS,
    IF_LAYER_NORM,
    IF_BIASES,
    IF_GATED,
    IF_EXPERTS,
    UNLESS_TIED,
    CONDITIONS
} condition;
/* Tokens that are multiplied with a matrix: none, all, or those routed to its expert. */
typedef enum { NONE, ALL, ROUTED } tokens;
typedef enum {
    AS_TABLE,  /* looked up: std 1 with INIT_FAN_IN */
    AS_MATRIX, /* multiplied */
    AS_OUTPUT, /* multiplied, and the product is added to the residual stream: smaller std */
    AS_GAIN,   /* gain of a norm; LayerNorm stores its gain - 1 */
    AS_BIAS
} role;

static const struct {
    param_name name;
    const char *label;
    unsigned places;
    extent rows, columns;
    param_split split;
    role role;
    tokens tokens;
    condition condition;
} table[] = {
    { PARAM_EMBEDDING, "embedding", AT_EMBEDDING, VOCABULARY, HIDDEN, SPLIT_ROWS, AS_TABLE, NONE, ALWAYS },
    { PARAM_POSITIONS, "positions", AT_EMBEDDING, POSITIONS, HIDDEN, SPLIT_NONE, AS_TABLE, NONE, IF_POSITIONS },
    { PARAM_ATTENTION_NORM, "attention_norm", AT_LAYER, HIDDEN, ONE, SPLIT_NONE, AS_GAIN, NONE, ALWAYS },
    { PARAM_ATTENTION_NORM_BIAS, "attention_norm_bias", AT_LAYER, HIDDEN, ONE, SPLIT_NONE, AS_BIAS, NONE,
      IF_LAYER_NORM },
    { PARAM_MLP_NORM, "mlp_norm", AT_LAYER, HIDDEN, ONE, SPLIT_NONE, AS_GAIN, NONE, ALWAYS },
    { PARAM_MLP_NORM_BIAS, "mlp_norm_bias", AT_LAYER, HIDDEN, ONE, SPLIT_NONE, AS_BIAS, NONE, IF_LAYER_NORM },
    { PARAM_ATTENTION_OUTPUT_BIAS, "attention_output_bias", AT_LAYER, HIDDEN, ONE, SPLIT_NONE, AS_BIAS, NONE,
      IF_BIASES },
    { PARAM_DOWN_BIAS, "down_bias", AT_LAYER, HIDDEN, ONE, SPLIT_NONE, AS_BIAS, NONE, IF_BIASES },
    { PARAM_FINAL_NORM, "final_norm", AT_LOSS, HIDDEN, ONE, SPLIT_NONE, AS_GAIN, NONE, ALWAYS },
    { PARAM_FINAL_NORM_BIAS, "final_norm_bias", AT_LOSS, HIDDEN, ONE, SPLIT_NONE, AS_BIAS, NONE, IF_LAYER_NORM },
    { PARAM_Q_BIAS, "q_bias", AT_LAYER, QUERIES, ONE, SPLIT_ROWS, AS_BIAS, NONE, IF_BIASES },
    { PARAM_K_BIAS, "k_bias", AT_LAYER, KEY_VALUES, ONE, SPLIT_ROWS, AS_BIAS, NONE, IF_BIASES },
    { PARAM_V_BIAS, "v_bias", AT_LAYER, KEY_VALUES, ONE, SPLIT_ROWS, AS_BIAS, NONE, IF_BIASES },
    { PARAM_UP_BIAS, "up_bias", AT_LAYER, FFN, ONE, SPLIT_ROWS, AS_BIAS, NONE, IF_BIASES },
    { PARAM_Q, "q", AT_LAYER, QUERIES, HIDDEN, SPLIT_ROWS, AS_MATRIX, ALL, ALWAYS },
    { PARAM_K, "k", AT_LAYER, KEY_VALUES, HIDDEN, SPLIT_ROWS, AS_MATRIX, ALL, ALWAYS },
    { PARAM_V, "v", AT_LAYER, KEY_VALUES, HIDDEN, SPLIT_ROWS, AS_MATRIX, ALL, ALWAYS },
    { PARAM_ATTENTION_OUTPUT, "attention_output", AT_LAYER, HIDDEN, QUERIES, SPLIT_COLUMNS, AS_OUTPUT, ALL, ALWAYS },
    { PARAM_ROUTER, "router", AT_LAYER, EXPERTS, HIDDEN, SPLIT_NONE, AS_MATRIX, NONE, IF_EXPERTS },
    { PARAM_GATE, "gate", AT_LAYER, FFN, HIDDEN, SPLIT_ROWS, AS_MATRIX, ROUTED, IF_GATED },
    { PARAM_UP, "up", AT_LAYER, FFN, HIDDEN, SPLIT_ROWS, AS_MATRIX, ROUTED, ALWAYS },
    { PARAM_DOWN, "down", AT_LAYER, HIDDEN, FFN, SPLIT_COLUMNS, AS_OUTPUT, ROUTED, ALWAYS },
    { PARAM_HEAD, "head", AT_LOSS, VOCABULARY, HIDDEN, SPLIT_ROWS, AS_MATRIX, ALL, UNLESS_TIED },
};

static double std_of(const model_shape *m, role r, int64_t fan_in)
{
    if (r == AS_GAIN || r == AS_BIAS) return 0.0;
    if (r == AS_TABLE) return m->init == INIT_FAN_IN ? 1.0 : m->init_std;
    double std = r == AS_OUTPUT ? m->output_init_std : m->init_std;
    return m->init == INIT_FAN_IN ? std / sqrt((double)fan_in) : std;
}

static param_start start_of(const model_shape *m, role r)
{
    if (r == AS_GAIN) return m->norm == NORM_RMS ? START_ONES : START_ZEROS;
    return r == AS_BIAS ? START_ZEROS : START_NORMAL;
}

static void use_as_head(param_rule *embedding)
{
    embedding->places |= AT_LOSS;
    embedding->products = 1;
}

param_list params_of_shape(const model_shape *m)
{
    bool gated = m->mlp == MLP_SWIGLU || m->mlp == MLP_GEGLU;
    int64_t length[EXTENTS] = { [ONE] = 1,
                                [HIDDEN] = m->hidden,
                                [QUERIES] = m->heads * m->head_dim,
                                [KEY_VALUES] = m->kv_heads * m->head_dim,
                                [FFN] = m->ffn,
                                [VOCABULARY] = m->vocabulary,
                                [POSITIONS] = m->position_rows,
                                [EXPERTS] = m->experts };
    bool has[CONDITIONS] = { [ALWAYS] = true,
                             [IF_POSITIONS] = m->position_rows > 0,
                             [IF_LAYER_NORM] = m->norm == NORM_LAYER,
                             [IF_BIASES] = m->linear_biases,
                             [IF_GATED] = gated,
                             [IF_EXPERTS] = m->experts > 0,
                             [UNLESS_TIED] = !m->tied_embedding };
    int64_t products[] = { [NONE] = 0, [ALL] = 1, [ROUTED] = m->experts ? m->active : 1 };
    param_list l = { 0 };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (has[table[i].condition])
            l.rule[l.count++] =
                (param_rule){ .name = table[i].name,
                              .label = table[i].label,
                              .places = table[i].places,
                              .rows = length[table[i].rows],
                              .columns = length[table[i].columns],
                              .padded_rows = table[i].rows == VOCABULARY ? m->padded_vocabulary : length[table[i].rows],
                              .split = table[i].split,
                              .experts = table[i].tokens == ROUTED ? m->experts : 0,
                              .products = products[table[i].tokens],
                              .zero_gradient = table[i].name == PARAM_K_BIAS && m->position_rows > 0,
                              .small_gradient = table[i].name == PARAM_Q_BIAS,
                              .start = start_of(m, table[i].role),
                              .std = std_of(m, table[i].role, length[table[i].columns]) };
    if (m->tied_embedding) use_as_head(&l.rule[0]);
    return l;
}

/* With shard > 1, gradients of gathered weights are summed over ranks in each microbatch, in the computation's format.
 * The sums are accumulated in sharded_gradient. */
static param_kept kept_of(const bench_case *c, const storage_rule *s, const param_rule *p)
{
    param_kept kept = { .weight = s->other, .moment = s->moment };
    if (p->name == PARAM_EMBEDDING) kept.weight = s->embedding;
    else if (p->places == AT_LAYER && p->products) kept.weight = s->weight;
    bool sharded = c->layout.degree[AXIS_SHARD] > 1;
    kept.gradient = sharded ? s->sharded_gradient : s->gradient;
    if (sharded && p->split != SPLIT_NONE && p->columns > 1) kept.microbatch = s->activation;
    if (p->split == SPLIT_NONE && kept.gradient < KEPT_FP32) kept.partial = KEPT_FP32;
    if (kept.weight < s->master) kept.master = s->master;
    return kept;
}

param_list params_of_case(const bench_case *c)
{
    param_list l = params_of_shape(&c->model);
    storage_rule s = storage_of(c);
    for (int i = 0; i < l.count; i++) {
        param_rule *p = &l.rule[i];
        p->decays = p->columns > 1 || c->optimizer.decays_vectors;
        p->kept = kept_of(c, &s, p);
    }
    return l;
}

bool param_is_gathered(const param_rule *p) { return p->kept.microbatch != KEPT_NOT; }

int64_t param_repeats(const param_rule *p, int64_t layers) { return p->places & AT_LAYER ? layers : 1; }

int param_uses(const param_rule *p, unsigned places) { return __builtin_popcount(p->places & places); }

param_part param_part_of(const param_rule *p, int tensor_ranks, int tensor_rank)
{
    param_part part = { .rows = p->padded_rows, .columns = p->columns };
    if (p->split == SPLIT_ROWS) part.rows /= tensor_ranks, part.first_row = tensor_rank * part.rows;
    if (p->split == SPLIT_COLUMNS) part.columns /= tensor_ranks, part.first_column = tensor_rank * part.columns;
    int64_t left = p->rows - part.first_row;
    part.filled_rows = left < 0 ? 0 : left < part.rows ? left : part.rows;
    return part;
}

int64_t model_parameters(const model_shape *m)
{
    param_list l = params_of_shape(m);
    int64_t total = 0;
    for (int i = 0; i < l.count; i++) {
        const param_rule *p = &l.rule[i];
        total += param_repeats(p, m->layers) * (p->experts ? p->experts : 1) * p->rows * p->columns;
    }
    return total;
}

/* Counts 2 flops per weight and token forward and 4 backward. */
static flop_count product_flop_count(const model_shape *m, unsigned places)
{
    param_list l = params_of_shape(m);
    flop_count flops_of_token = 0;
    for (int i = 0; i < l.count; i++) {
        const param_rule *p = &l.rule[i];
        if (p->places & places)
            flops_of_token += 6 * (flop_count)(param_repeats(p, m->layers) * p->products) * p->rows * p->columns;
    }
    return m->sequence * flops_of_token;
}

/* The two products of attention take 6 flops each per channel and attended position, half of the sequence on average.
 */
flop_count model_flop_count(const model_shape *m)
{
    flop_count channels = (flop_count)(m->layers * m->heads * m->head_dim);
    return product_flop_count(m, AT_LAYER | AT_LOSS) + 6 * channels * m->sequence * m->sequence;
}

double model_flops(const model_shape *m) { return (double)model_flop_count(m); }

void count_flops(bench_case *c, const flops_formula *f)
{
    c->recipe_flops_per_sequence = formula_flops(f, &c->model);
    c->recipe_block_flops_per_sequence = formula_block_flops(f, &c->model);
    c->model_flops_per_sequence = model_flops(&c->model);
    c->model_block_flops_per_sequence = (double)product_flop_count(&c->model, AT_LAYER);
}
