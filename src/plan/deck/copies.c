/* Copies of a case, which run at the same time on separate ranks. Each is laid out as if its ranks were the world. */
#include "plan/deck/draft.h"
#include <stdio.h>
#include <string.h>

static int64_t given_degree(const case_draft *d, key_id key)
{
    return draft_given(d, key) ? key_integer(key, &d->c) : 1;
}

/* Returns the ranks of the given degrees, with the fewest data ranks that `expert` allows. */
static int64_t ranks_of_keys(const case_draft *d)
{
    static const key_id degrees[] = { KEY_TENSOR, KEY_PIPELINE, KEY_CONTEXT, KEY_SHARD };
    int64_t context = given_degree(d, KEY_CONTEXT), expert = given_degree(d, KEY_EXPERT),
            ranks = given_degree(d, KEY_DATA);
    while (!draft_given(d, KEY_DATA) && context * ranks % expert != 0) ranks++;
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
        if (ranks <= d->source->ranks) ranks *= given_degree(d, degrees[i]);
    return ranks;
}

static bool uses_recipe(const case_draft *d)
{
    for (key_id key = KEY_TENSOR; key <= KEY_CHUNKS_PER_STAGE; key++)
        if (draft_given(d, key)) return false;
    return d->c.size == SIZE_FULL || (d->c.size == SIZE_AUTO && d->c.backend == BACKEND_CUDA);
}

/* Returns the ranks that a copy may use: for `all` (0) those of the recipe's smallest row or of the deck's keys. A copy
 * that is larger than a node has whole nodes. */
static int ranks_of_copy(const case_draft *d, int copies)
{
    int world = d->source->ranks, node = d->source->node_ranks, ranks = copies ? world / copies : world;
    recipe_query q = draft_query(d, draft_depth(d));
    const recipe_row *row = uses_recipe(d) ? recipe_smallest(&q) : NULL;
    int64_t smallest = row ? row->gpus : ranks_of_keys(d);
    if (copies == 0 && smallest < world) return (int)smallest;
    return copies > 1 && node > 0 && ranks > node ? ranks - ranks % node : ranks;
}

static void refuse_copies(const case_draft *d)
{
    static const key_id copies[] = { KEY_COPIES, KEYS };
    if (strcmp(d->c.checkpoint, "none") || strcmp(d->c.load, "none"))
        draft_refuse(d, copies, "checkpoint and load need copies = 1: a checkpoint has the state of one training");
    if (d->c.minutes > 0.0)
        draft_refuse(d, copies, "minutes needs copies = 1: copies would end at different steps; give steps");
}

void copies_resolve(case_draft *d)
{
    const deck_source *world = d->source;
    deck_source one = *world;
    mesh_layout *l = &d->c.layout;
    int copies = l->copies;
    one.ranks = ranks_of_copy(d, copies);
    if (copies != 1) refuse_copies(d);
    d->source = &one;
    layout_resolve(d);
    d->source = world;
    l->copies = copies ? copies : world->ranks > l->ranks ? world->ranks / l->ranks : 1;
    d->c.ranks = d->c.skipped[0] ? l->ranks : l->copies * l->ranks;
    d->c.world_ranks = world->ranks;
    size_t used = strlen(d->c.skipped);
    if (l->copies == 1) return;
    d->c.idle_asked = true;
    if (used) snprintf(d->c.skipped + used, REASON_LENGTH - used, " for each of %d copies", l->copies);
}
