/* The model that a case trains: by its size, then changed by the keys of its section. */
#include "plan/deck/draft.h"
#include "plan/model/shapes.h"

static model_shape small_shape(const workload_row *w)
{
    model_shape m = w->full;
    m.layers = w->small->layers;
    m.hidden = w->small->hidden;
    m.ffn = w->small->ffn;
    m.heads = w->small->heads;
    m.kv_heads = w->small->kv_heads;
    m.vocabulary = w->small->vocabulary;
    m.sequence = w->small->sequence;
    return m;
}

/* Depth and sequence are those of the draft's row, or of the recipe's row for the ranks used, if there is one. */
static model_shape full_shape(const case_draft *d)
{
    model_shape m = d->workload->full;
    recipe_query q = draft_query(d, draft_depth(d));
    const recipe_row *row = d->row ? d->row : recipe_find(&q, d->c.layout.ranks);
    if (row) m.layers = d->proxy_layers ? d->proxy_layers : row->layers;
    if (row) m.sequence = row->sequence;
    return m;
}

/* Heads and hidden follow given kv_heads and heads. */
static model_shape check_shape(const case_draft *d)
{
    int slots = d->c.layout.degree[AXIS_PIPELINE] > 1 ? 2 : 0;
    model_shape m = shape_check(d->workload, &d->c.layout, 1, slots);
    int64_t group = m.heads / m.kv_heads;
    if (draft_given(d, KEY_KV_HEADS)) m.heads = group * d->c.model.kv_heads;
    m.hidden = 16 * (draft_given(d, KEY_HEADS) ? d->c.model.heads : m.heads);
    return m;
}

/* Returns whether kv_heads equals a given `heads`, because the family has no grouped queries. */
static bool kv_heads_follow_heads(const case_draft *d)
{
    const model_shape *full = &d->workload->full;
    return full->heads == full->kv_heads && draft_given(d, KEY_HEADS) && !draft_given(d, KEY_KV_HEADS);
}

void shape_resolve(case_draft *d)
{
    bench_case by_size = { .model = d->c.size == SIZE_FULL    ? full_shape(d)
                                    : d->c.size == SIZE_SMALL ? small_shape(d->workload)
                                                              : check_shape(d) };
    for (key_id key = KEY_SEQUENCE; key <= KEY_VOCABULARY; key++)
        if (draft_given(d, key)) key_store(key, &by_size, key_integer(key, &d->c));
    if (kv_heads_follow_heads(d)) by_size.model.kv_heads = by_size.model.heads;
    d->c.model = by_size.model;
    d->c.model.init = d->workload->full.init;
    if (d->c.size != SIZE_FULL) d->c.model.init_std = shape_init_std(d->workload, d->c.model.hidden);
    shape_complete(&d->c.model, d->c.layout.degree[AXIS_TENSOR]);
}
