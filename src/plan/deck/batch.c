/* Sequences of a step: the recipe's rule if the layout is the recipe's, else the smallest batch that fills the
 * layout. */
#include "plan/deck/draft.h"

static bool uses_recipe_batch(const case_draft *d)
{
    static const key_id layout_keys[] = { KEY_TENSOR, KEY_PIPELINE, KEY_CONTEXT, KEY_EXPERT, KEY_CHUNKS_PER_STAGE };
    for (size_t i = 0; i < sizeof layout_keys / sizeof layout_keys[0]; i++)
        if (draft_given(d, layout_keys[i])) return false;
    return d->c.size == SIZE_FULL && !d->proxy_layers;
}

/* Counts the sequences of one microbatch on all data ranks. */
static int64_t microbatch_sequences(const bench_case *c)
{
    return (int64_t)c->layout.degree[AXIS_DATA] * c->layout.degree[AXIS_SHARD] * c->microbatch;
}

/* Scales the row's batch with the ranks; below batch_fixed_below ranks it is constant. */
static int64_t recipe_batch(const case_draft *d)
{
    const recipe_row *row = draft_row(d);
    int ranks = d->c.layout.ranks;
    return ranks < d->workload->batch_fixed_below ? row->global_batch : row->global_batch * ranks / row->gpus;
}

/* A data rank trains at least two microbatches, in a proxy at least eight sequences; a multiple of the stages. */
static int64_t default_batch(const case_draft *d)
{
    int64_t stages = d->c.layout.degree[AXIS_PIPELINE], micro = d->c.microbatch,
            least = d->proxy_layers ? (8 + micro - 1) / micro : 2;
    if (uses_recipe_batch(d)) return recipe_batch(d);
    return microbatch_sequences(&d->c) * ((least + stages - 1) / stages * stages);
}

static int64_t default_microbatch(const case_draft *d) { return d->c.size == SIZE_FULL ? draft_row(d)->microbatch : 1; }

bool batch_divides(const case_draft *d)
{
    case_draft with = *d;
    if (draft_given(d, KEY_GLOBAL_BATCH) || !uses_recipe_batch(d)) return true;
    batch_resolve(&with);
    int64_t sequences = with.c.microbatches * microbatch_sequences(&with.c);
    bool interleaved = with.c.layout.chunks_per_stage > 1;
    return sequences > 0 && sequences == with.c.global_batch &&
           (!interleaved || with.c.microbatches % with.c.layout.degree[AXIS_PIPELINE] == 0);
}

void batch_resolve(case_draft *d)
{
    if (!draft_given(d, KEY_MICROBATCH)) d->c.microbatch = default_microbatch(d);
    if (!draft_given(d, KEY_GLOBAL_BATCH)) d->c.global_batch = default_batch(d);
    d->c.microbatches = d->c.global_batch / microbatch_sequences(&d->c);
}
