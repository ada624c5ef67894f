/* Shares of the model. */
#include "plan/share.h"
#include "plan/chunks.h"

/* Rows of the vocabulary, which the last tensor ranks have fewer of, or none: theirs is the padding. */
static int64_t vocabulary_rows(const bench_case *c, int tensor)
{
    int64_t rows = c->model.padded_vocabulary / c->layout.degree[AXIS_TENSOR], left = c->model.vocabulary - tensor * rows;
    return left < 0 ? 0 : left < rows ? left : rows;
}

static bool stage_embeds(const bench_case *c, int stage) { return chunk_of(c, stage, 0).embeds; }
static bool stage_loses(const bench_case *c, int stage) { return chunk_of(c, stage, c->layout.chunks_per_stage - 1).loses; }

int64_t share_replicated(const bench_case *c, int stage)
{
    return (2 * stage_layers(c, stage) + stage_loses(c, stage)) * c->model.hidden;
}

int64_t share_parameters(const bench_case *c, int stage, int tensor)
{
    const model_shape *m = &c->model;
    int64_t layer = 2 * m->hidden * (m->heads + m->kv_heads) * m->head_dim + 3 * m->hidden * m->ffn;
    int64_t ends = (stage_embeds(c, stage) + stage_loses(c, stage)) * vocabulary_rows(c, tensor) * m->hidden;
    return stage_layers(c, stage) * layer / c->layout.degree[AXIS_TENSOR] + ends + share_replicated(c, stage);
}

double share_model_flops(const bench_case *c, int stage, int tensor)
{
    const model_shape *m = &c->model;
    double h = (double)m->hidden, key_value = (double)(m->kv_heads * m->head_dim), positions = (double)m->sequence;
    double layer = 12.0 * h * (h + key_value + positions / 2.0) + 18.0 * (double)m->ffn * h;
    double layers = (double)stage_layers(c, stage) * layer / c->layout.degree[AXIS_TENSOR];
    double head = stage_loses(c, stage) ? 6.0 * (double)vocabulary_rows(c, tensor) * h : 0.0;
    return (layers + head) * positions / c->layout.degree[AXIS_CONTEXT] * (double)(c->microbatches * c->micro_batch);
}
