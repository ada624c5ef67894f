/* Counters start at a rank's first sample, so its last sample has the totals. */
#include "bench/health/samples.h"
#include "base/clock.h"
#include "base/memory.h"
#include "machine/world.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Data that a rank sends with its samples. */
typedef struct {
    int64_t count;
    int cores;    /* cores of its node */
    double began; /* begin of its seconds, by rank 0's clock */
} share;

enum { ROUND_TRIPS = 8 };

/* Returns how much this rank's clock is ahead of rank 0's. Rank 0 reads its clock after all ranks have read theirs, and
 * sends the time back. The error is at most half of the fastest round trip, less than a millisecond. Ranks of a node
 * share a clock. Collective over the world. */
static double clock_ahead(void)
{
    double least = -INFINITY, most = INFINITY;
    if (world_node_ranks() == world_ranks()) return 0.0;
    for (int i = 0; i < ROUND_TRIPS; i++) {
        double before = clock_seconds();
        free(world_gather(&before, sizeof before));
        double first = clock_seconds();
        world_broadcast(&first, sizeof first, 0);
        least = fmax(least, before - first);
        most = fmin(most, clock_seconds() - first);
    }
    return world_on_node(0) ? 0.0 : 0.5 * (least + most);
}

/* Lists the samples by rank. Each rank sent `most` entries. last: last sample of each rank, NULL if too short for
 * rates. */
static void list_samples(sample_set *all, const machine_sample *sent, int64_t most, const share *of,
                         const machine_sample **last)
{
    ranked_sample *next = all->list = allocate(all->count, sizeof *all->list, "all samples");
    for (int r = 0; next < all->list + all->count; r++) {
        for (int64_t i = 0; i < of[r].count; i++) *next++ = (ranked_sample){ r, sent[r * most + i] };
        bool long_enough = of[r].count && next[-1].now.seconds >= SAMPLE_SECONDS;
        last[r] = long_enough ? &next[-1].now : NULL;
    }
}

/* Only the first rank of a node reads the packages. */
static double package_joules(const machine_sample *const *last, int ranks)
{
    double sum = 0.0;
    for (int r = 0; r < ranks; r++)
        if (world_node(r) == r) sum += last[r] ? last[r]->package_joules : NAN;
    return sum;
}

static double device_joules(const machine_sample *const *last, int ranks)
{
    double sum = machine_shares_devices() ? NAN : 0.0;
    for (int r = 0; r < ranks; r++) sum += last[r] ? last[r]->device_joules : NAN;
    return sum;
}

static void add_energy(sample_set *all, machine_kind kind, const machine_sample *const *last, int ranks)
{
    bool devices = kind == MACHINE_CUDA;
    all->joules = devices ? device_joules(last, ranks) : package_joules(last, ranks);
    if (!isnan(all->joules)) all->method = devices ? "NVML's counters of whole boards" : "RAPL's counters of packages";
}

/* Returns the cores of a node that were busy with other processes than its ranks. */
static double others_on(int node, const machine_sample *const *last, int ranks)
{
    double cores = last[node] ? last[node]->busy_seconds / last[node]->seconds : NAN;
    for (int r = node; r < ranks; r++)
        if (world_node(r) == node) cores -= last[r] ? last[r]->own_seconds / last[r]->seconds : NAN;
    return cores < 0.0 ? 0.0 : cores;
}

static void add_others(sample_set *all, const share *of, const machine_sample *const *last, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        double cores = world_node(r) == r ? others_on(r, last, ranks) : NAN;
        if (isnan(cores) || cores <= all->others_cores) continue;
        all->others_cores = cores;
        all->node_cores = of[r].cores;
    }
}

/* Call it after the rates: they need seconds since the rank's own first sample. */
static void count_from(sample_set *all, const share *of, double window)
{
    for (int64_t i = 0; i < all->count; i++) all->list[i].now.seconds += of[all->list[i].rank].began - window;
}

/* Computes the results on rank 0. */
static void fold(sample_set *all, const sampled *x, const machine_sample *sent, const share *of)
{
    int64_t most = 0;
    int ranks = x->ranks;
    const machine_sample **last = allocate(ranks, sizeof *last, "the last samples of ranks");
    for (int r = 0; r < ranks; r++) all->count += of[r].count;
    for (int r = 0; r < world_ranks(); r++) most = of[r].count > most ? of[r].count : most;
    list_samples(all, sent, most, of, last);
    add_energy(all, x->kind, last, ranks);
    add_others(all, of, last, ranks);
    count_from(all, of, x->window);
    free(last);
}

/* All ranks send the same number of samples, the maximum over ranks. */
static void gather(sample_set *all, const sampled *x, const sample_report *own)
{
    double most = (double)own->count;
    world_maximum(&most, 1);
    const share mine = { own->count, world_node_cores(), own->began - clock_ahead() };
    machine_sample *part = allocate((int64_t)most, sizeof *part, "samples");
    if (own->count) memcpy(part, own->list, (size_t)own->count * sizeof *part);
    share *of = world_gather(&mine, sizeof mine);
    machine_sample *sent = world_gather(part, (size_t)most * sizeof *part);
    if (of) fold(all, x, sent, of);
    free(of);
    free(sent);
    free(part);
}

static void say_throttled(sample_set *all, const sample_report *own)
{
    if (own->throttled[0])
        snprintf(all->throttled, sizeof all->throttled, "rank %d: %s, %.0f s after the window began", world_rank(),
                 own->throttled, own->throttled_at);
}

static void say_lost(sample_set *all, const sample_report *own)
{
    if (own->lost) snprintf(all->lost, sizeof all->lost, "rank %d, whose samples were lost", world_rank());
}

void samples_gather(sample_set *all, const sampled *of)
{
    sample_report r = of->own ? sampler_read(of->own) : (sample_report){ .throttled = "" };
    double seconds = r.count ? r.list[r.count - 1].seconds : 0.0;
    *all = (sample_set){ .every = r.every, .joules = NAN, .method = "", .others_cores = NAN };
    if (seconds > 0.0) all->cost_share = r.cost_seconds / seconds;
    gather(all, of, &r);
    say_throttled(all, &r);
    say_lost(all, &r);
    if (of->own) sampler_close(of->own);
}
