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
    double began; /* zero of its seconds by rank 0's clock */
} rank_info;

enum { ROUND_TRIPS = 8 };

/* Returns how much this rank's clock is ahead of rank 0's. Rank 0 reads its clock after all ranks have read theirs, and
 * sends the time back. The error is at most half of the fastest round trip, less than a millisecond. Ranks of a node
 * share a clock. Collective over the world. */
static double clock_ahead(void)
{
    double lower = -INFINITY, upper = INFINITY;
    if (world_node_ranks() == world_ranks()) return 0.0;
    for (int i = 0; i < ROUND_TRIPS; i++) {
        double before = clock_seconds();
        free(world_gather(&before, sizeof before));
        double first = clock_seconds();
        world_broadcast(&first, sizeof first, 0);
        lower = fmax(lower, before - first);
        upper = fmin(upper, clock_seconds() - first);
    }
    return world_on_node(0) ? 0.0 : 0.5 * (lower + upper);
}

/* Lists the samples by rank. sent: [ranks, most]. last: last sample of each rank, NULL if the time is too short. */
static void list_samples(sample_set *all, const machine_sample *sent, int64_t most, const rank_info *info,
                         const machine_sample **last)
{
    ranked_sample *next = all->list = allocate(all->count, sizeof *all->list, "all samples");
    for (int r = 0; next < all->list + all->count; r++) {
        for (int64_t i = 0; i < info[r].count; i++) *next++ = (ranked_sample){ r, sent[r * most + i] };
        bool long_enough = info[r].count && next[-1].now.seconds >= SAMPLE_SECONDS;
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

/* Divides the energy by the time between the first and the last sample of each device. */
static double device_watts(const sample_set *all)
{
    double seconds = 0.0;
    for (const ranked_sample *s = all->list; s < all->list + all->count; s++) {
        if (s == all->list || s[-1].rank != s->rank) seconds -= s->now.seconds;
        if (s + 1 == all->list + all->count || s[1].rank != s->rank) seconds += s->now.seconds;
    }
    return all->joules / seconds;
}

static void add_energy(sample_set *all, machine_kind kind, const machine_sample *const *last, int ranks)
{
    bool devices = kind == MACHINE_CUDA;
    all->joules = devices ? device_joules(last, ranks) : package_joules(last, ranks);
    if (devices) all->watts = device_watts(all);
    if (!isnan(all->joules)) all->method = devices ? "NVML's counters of whole boards" : "RAPL's counters of packages";
}

/* Returns the cores of a node that were busy with processes other than its ranks. */
static double cores_of_others(int node, const machine_sample *const *last, int ranks)
{
    double cores = last[node] ? last[node]->busy_seconds / last[node]->seconds : NAN;
    for (int r = node; r < ranks; r++)
        if (world_node(r) == node) cores -= last[r] ? last[r]->own_seconds / last[r]->seconds : NAN;
    return cores < 0.0 ? 0.0 : cores;
}

static void add_load(sample_set *all, const rank_info *info, const machine_sample *const *last, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        double cores = world_node(r) == r ? cores_of_others(r, last, ranks) : NAN;
        if (isnan(cores) || cores <= all->others_cores) continue;
        all->others_cores = cores;
        all->node_cores = info[r].cores;
    }
}

/* Call it after add_load, which needs seconds since the rank's first sample. */
static void shift_seconds(sample_set *all, const rank_info *info, double window)
{
    for (int64_t i = 0; i < all->count; i++) all->list[i].now.seconds += info[all->list[i].rank].began - window;
}

static void compute_results(sample_set *all, const sampled *x, const machine_sample *sent, const rank_info *info)
{
    int64_t most = 0;
    int ranks = x->ranks;
    const machine_sample **last = allocate(ranks, sizeof *last, "the last samples of ranks");
    for (int r = 0; r < ranks; r++) all->count += info[r].count;
    for (int r = 0; r < world_ranks(); r++) most = info[r].count > most ? info[r].count : most;
    list_samples(all, sent, most, info, last);
    add_energy(all, x->kind, last, ranks);
    add_load(all, info, last, ranks);
    shift_seconds(all, info, x->window);
    free(last);
}

/* All ranks send the same number of samples, the maximum over ranks. */
static void gather(sample_set *all, const sampled *x, const sample_report *own)
{
    double most = (double)own->count;
    world_maximum(&most, 1);
    const rank_info own_info = { own->count, world_node_cores(), own->began - clock_ahead() };
    machine_sample *part = allocate((int64_t)most, sizeof *part, "samples");
    if (own->count) memcpy(part, own->list, (size_t)own->count * sizeof *part);
    rank_info *info = world_gather(&own_info, sizeof own_info);
    machine_sample *sent = world_gather(part, (size_t)most * sizeof *part);
    if (info) compute_results(all, x, sent, info);
    free(info);
    free(sent);
    free(part);
}

static void write_throttled(sample_set *all, const sample_report *own)
{
    if (own->throttled[0])
        snprintf(all->throttled, sizeof all->throttled, "rank %d: %s, %.0f s after the timed steps began", world_rank(),
                 own->throttled, own->throttled_at);
}

static void write_lost(sample_set *all, const sample_report *own)
{
    if (own->lost) snprintf(all->lost, sizeof all->lost, "rank %d, whose samples were lost", world_rank());
}

void samples_gather(sample_set *all, const sampled *x)
{
    sample_report r = x->own ? sampler_read(x->own) : (sample_report){ .throttled = "" };
    double seconds = r.count ? r.list[r.count - 1].seconds : 0.0;
    *all = (sample_set){ .every = r.every, .joules = NAN, .watts = NAN, .method = "", .others_cores = NAN };
    if (seconds > 0.0) all->cost_share = r.cost_seconds / seconds;
    gather(all, x, &r);
    write_throttled(all, &r);
    write_lost(all, &r);
    if (x->own) sampler_close(x->own);
}
