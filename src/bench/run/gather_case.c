/* From all ranks to rank 0; what the run rules need goes to all. */
#include "bench/run/gather_case.h"
#include "base/fail.h"
#include "bench/health/gather.h"
#include "bench/run/soak.h"
#include "machine/world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ranks that take no part bring nothing; the mesh is the first ranks of the world. */
static void gather_times(case_result *r)
{
    world_broadcast(&r->completed, sizeof r->completed, 0);
    soak_end(r);
    int64_t total = r->total;
    size_t bytes = (size_t)total * sizeof(double);
    double *all = world_gather(r->step_seconds, bytes);
    for (int64_t i = 0; all && i < r->completed; i++) {
        r->step_seconds[i] = 0.0;
        for (int rank = 0; rank < r->given->layout.ranks; rank++) {
            double seconds = all[rank * total + i];
            r->rank_seconds[i * r->given->layout.ranks + rank] = seconds;
            if (seconds > r->step_seconds[i]) r->step_seconds[i] = seconds;
        }
    }
    free(all);
    double *shared[] = { r->loss, r->gradient_norm, r->learning_rate, r->step_seconds };
    for (int i = 0; i < 4; i++) world_broadcast(shared[i], bytes, 0);
    for (int i = 0; i < ROUTED_FIGURES; i++) world_broadcast(r->routed[i], bytes, 0);
    world_broadcast(&r->stopped, sizeof r->stopped, 0);
}

/* The first device that was held back, or does not tell, and whether all are of one name; on all ranks alike. Who
 * stopped in the warm-up has not looked as the window began: that entry has no name. */
static void compare_devices(case_result *r)
{
    int ranks = r->given->layout.ranks;
    const char *first = NULL;
    for (int i = 0; r->devices && i < 2 * ranks; i++) {
        const machine_device *d = &r->devices[i];
        if (!d->name[0]) continue;
        bool alike = !first || strcmp(d->name, first) == 0;
        if (!first) snprintf(r->device, sizeof r->device, "%s", first = d->name);
        if (d->throttled && !r->throttled[0])
            snprintf(r->throttled, sizeof r->throttled, "rank %d: %s", i / 2, d->throttle_reasons);
        if (!d->clocks_known && !r->clocks_unknown[0])
            snprintf(r->clocks_unknown, sizeof r->clocks_unknown, "rank %d", i / 2);
        if (!alike) r->device[0] = 0;
    }
    world_broadcast(r->device, sizeof r->device, 0);
    world_broadcast(r->throttled, sizeof r->throttled, 0);
    world_broadcast(r->clocks_unknown, sizeof r->clocks_unknown, 0);
}

static void gather_devices(case_result *r)
{
    size_t ranks = (size_t)r->given->layout.ranks;
    machine_device *all = world_gather(r->window, sizeof r->window);
    if (all) memcpy(r->devices, all, ranks * sizeof r->window);
    free(all);
    compare_devices(r);
}

void gather_case(case_result *r, trainer *t, machine_kind kind)
{
    gather_times(r);
    rank_times times = times_of_rank(r, t ? t->machine : NULL);
    if (t) trainer_dismantle(t);
    gather_devices(r);
    times_gather(&times, r);
    samples_gather(&r->samples, kind, r->given->layout.ranks, r->sampler);
    if (!r->throttled[0]) snprintf(r->throttled, sizeof r->throttled, "%s", r->samples.throttled);
    if (!r->clocks_unknown[0]) snprintf(r->clocks_unknown, sizeof r->clocks_unknown, "%s", r->samples.lost);
}
