/* Comparison of arenas. Ranks of a stage run the same operations on equal shares, so their arenas have the same layout.
 * Transfers between windows rely on that, so it is checked. */
#include "bench/launch/window.h"
#include "base/memory.h"
#include "machine/world.h"

typedef struct {
    uint64_t bytes, hash;
} memory_layout;

static memory_layout *layouts_of_ranks(memory_layout own)
{
    memory_layout *gathered = world_gather(&own, sizeof own);
    memory_layout *all = gathered ? gathered : allocate(world_ranks(), sizeof *all, "the shares of ranks");
    world_broadcast(all, (size_t)world_ranks() * sizeof *all, 0);
    return all;
}

/* The window is as large as the largest arena of all ranks, so that other layouts of the run can use it again. */
void window_agree(const bench_case *c, measure *r)
{
    int stage_ranks = c->layout.ranks / c->layout.degree[AXIS_PIPELINE];
    if (c->backend != BACKEND_CUDA || world_ranks() == 1) return;
    uint64_t calibration_hash = r->calibration ? r->calibration->prepared.address_hash : 0;
    memory_layout *all =
        layouts_of_ranks((memory_layout){ r->arena.used, 31 * r->prepared.address_hash + calibration_hash });
    bool alike = true;
    for (int i = 0; i < c->ranks; i++) {
        alike = alike && all[i].hash == all[i % c->layout.ranks / stage_ranks * stage_ranks].hash;
        if (all[i].bytes > r->window) r->window = all[i].bytes;
    }
    if (!alike) r->window = 0;
    if (r->calibration) r->calibration->window = r->window;
    free(all);
}
