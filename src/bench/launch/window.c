/* Comparison of arenas. Ranks of a stage run the same operations on equal shares, so their arenas have the same layout.
 * Transfers between windows rely on that, so it is checked. */
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

/* The window is as large as the largest share of all ranks, so that other layouts of the run can use it again. */
void window_agree(const bench_case *c, measure *r)
{
    int of_stage = c->layout.ranks / c->layout.degree[AXIS_PIPELINE];
    if (c->backend != BACKEND_CUDA || world_ranks() == 1) return;
    uint64_t of_calibration = r->calibration ? r->calibration->prepared.address_hash : 0;
    share *all = gathered((share){ r->arena.used, 31 * r->prepared.address_hash + of_calibration });
    bool alike = true;
    for (int i = 0; i < c->layout.ranks; i++) {
        alike = alike && all[i].places == all[i / of_stage * of_stage].places;
        if (all[i].bytes > r->window) r->window = all[i].bytes;
    }
    if (!alike) r->window = 0;
    if (r->calibration) r->calibration->window = r->window;
    free(all);
}
