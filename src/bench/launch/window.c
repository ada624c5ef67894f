/* Ranks of a stage run the same operations on equal shares, so their arenas are laid out alike; what is gathered from
 * window to window relies on that, so it is compared. */
#include "bench/launch/window.h"
#include "base/memory.h"
#include "machine/world.h"

typedef struct {
    uint64_t bytes, places;
} share;

static share *gathered(share own)
{
    share *at_first = world_gather(&own, sizeof own);
    share *all = at_first ? at_first : allocate(world_ranks(), sizeof *all, "the shares of ranks");
    world_broadcast(all, (size_t)world_ranks() * sizeof *all, 0);
    return all;
}

void window_agree(const bench_case *c, measure *r)
{
    int of_stage = c->layout.ranks / c->layout.degree[AXIS_PIPELINE], first = world_rank() / of_stage * of_stage;
    if (c->backend != BACKEND_CUDA || world_ranks() == 1) return;
    share own = { r->arena.used, r->prepared.places }, *all = gathered(own);
    bool alike = world_rank() < c->layout.ranks;
    r->window = own.bytes;
    for (int i = first; alike && i < first + of_stage; i++) {
        alike = all[i].places == own.places;
        if (all[i].bytes > r->window) r->window = all[i].bytes;
    }
    if (!alike) r->window = 0;
    free(all);
}
