/* Sequences of a step: the recipe's rule if the layout is the recipe's, else the smallest batch that fills the
 * layout. */
#include "plan/deck/draft.h"

static bool is_recipe_ruled(const case_draft *d)
{
    static const key_id others[] = { KEY_TENSOR, KEY_PIPELINE, KEY_CONTEXT, KEY_EXPERT, KEY_CHUNKS_PER_STAGE };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (draft_given(d, others[i])) return false;
    return d->c.size == SIZE_FULL;
}

/* Returns the sequences of one microbatch on all data ranks. */
static int64_t wave(const bench_case *c)
{
    return (int64_t)c->layout.degree[AXIS_DATA] * c->layout.degree[AXIS_SHARD] * c->microbatch;
}

/* Keeps the row's sequences per rank, or below batch_fixed_below its whole batch. */
static int64_t recipe_batch(const case_draft *d)
{
    const recipe_row *row = draft_row(d);
    int ranks = d->c.layout.ranks;
    return ranks < d->workload->batch_fixed_below ? row->global_batch : row->global_batch * ranks / row->gpus;
}

static int64_t default_batch(const case_draft *d)
{
    if (is_recipe_ruled(d)) return recipe_batch(d);
    int pipeline = d->c.layout.degree[AXIS_PIPELINE];
    return wave(&d->c) * (pipeline > 2 ? pipeline : 2);
}

void batch_resolve(case_draft *d)
{
    if (!draft_given(d, KEY_MICROBATCH)) d->c.microbatch = d->c.size == SIZE_FULL ? draft_row(d)->microbatch : 1;
    if (!draft_given(d, KEY_GLOBAL_BATCH)) d->c.global_batch = default_batch(d);
    d->c.microbatches = d->c.global_batch / wave(&d->c);
}
