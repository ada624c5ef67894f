/* Copies of a case, which run at the same time on separate ranks. Each is laid out as if its ranks were the world. */
#include "base/text.h"
#include "plan/deck/draft.h"
#include <stdio.h>
#include <string.h>

static void lay_out(case_draft *d, int ranks)
{
    const deck_source *world = d->source;
    deck_source part = *world;
    part.ranks = ranks;
    d->source = &part;
    d->c.layout.copies = 1;
    layout_resolve(d);
    d->source = world;
}

/* Returns the ranks of the smallest layout: the recipe's smallest row, or the deck's keys with the fewest data ranks
 * that `expert` allows. A layout on one rank tells how many it needs. */
static int64_t smallest_copy(const case_draft *d)
{
    case_draft tried = *d;
    const mesh_layout *l = &tried.c.layout;
    if (d->c.size == SIZE_AUTO && d->c.backend == BACKEND_CUDA) tried.c.size = SIZE_FULL;
    lay_out(&tried, 1);
    int64_t span = (int64_t)l->degree[AXIS_CONTEXT] * l->degree[AXIS_DATA], copies = 1;
    while (!draft_given(d, KEY_DATA) && span * copies % l->expert != 0) copies++;
    return l->ranks * copies;
}

/* copies: 0 if there are as many as possible. A copy that is larger than a node has whole nodes. */
static int ranks_of_copy(const case_draft *d, int copies)
{
    int world = d->source->ranks, node = d->source->node_ranks, ranks = copies ? world / copies : world;
    int64_t smallest = copies ? world : smallest_copy(d);
    if (smallest < world) return (int)smallest;
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
    mesh_layout *l = &d->c.layout;
    int copies = l->copies, world = d->c.world_ranks = d->source->ranks;
    if (copies != 1) refuse_copies(d);
    int part = ranks_of_copy(d, copies);
    lay_out(d, part);
    l->copies = copies ? copies : world > l->ranks ? world / l->ranks : 1;
    d->c.ranks = d->c.skipped[0] ? l->ranks : l->copies * l->ranks;
    size_t used = strlen(d->c.skipped);
    if (l->copies == 1 || !used) return;
    if (l->ranks <= part) snprintf(d->c.skipped + used, REASON_LENGTH - used, " for each of %d copies", l->copies);
    else
        snprintf(d->c.skipped, REASON_LENGTH, "each of %d copies needs %d rank%s and gets %d; there are %d rank%s",
                 l->copies, l->ranks, plural(l->ranks), part, world, plural(world));
}
