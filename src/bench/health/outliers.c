/* Comparison of ranks with their peers. */
#include "bench/health/outliers.h"
#include "base/memory.h"
#include "bench/health/statistics.h"
#include <math.h>

/* An outlier has an excess above LIMIT by more than STANDARD_ERRORS errors, which one comparison in 130 exceeds by
 * chance (nine degrees of freedom). LIMIT follows from undisturbed runs (validation/measured/slow-host.txt). */
static const double LIMIT = 0.1, STANDARD_ERRORS = 3.0, WORK_ALIKE = 0.01;

static bool alike(double a, double b) { return fabs(a - b) <= WORK_ALIKE * fmax(a, b); }
static bool are_peers(const rank_pace *a, const rank_pace *b)
{
    return alike(a->flops, b->flops) && alike(a->bytes, b->bytes);
}

/* Ranks with the same work. */
typedef struct {
    int count, *rank;
    double *sorted; /* seconds of these ranks in one step, sorted */
} peer_group;

/* Lists the ranks with the same work as rank `first` that belong to no group yet. */
static void list_peers(rank_pace *pace, int ranks, int first, peer_group *k)
{
    k->count = 0;
    for (int r = first; r < ranks; r++)
        if (pace[r].peers < 0 && are_peers(&pace[first], &pace[r])) k->rank[k->count++] = r;
    for (int i = 0; i < k->count; i++) pace[k->rank[i]].peers = k->count - 1;
}

/* Returns the median of n sorted numbers without the one at `place`. */
static double median_of_others(const double *sorted, int n, int place)
{
    int low = (n - 2) / 2, high = (n - 1) / 2;
    return 0.5 * (sorted[low + (low >= place)] + sorted[high + (high >= place)]);
}

/* Sums of one rank over each block. */
typedef struct {
    double own[BLOCKS], peers[BLOCKS];
} block_sums;

/* own: seconds of all ranks in one step of the block. */
static void add_step(const peer_group *k, const double *own, int block, block_sums *sums)
{
    for (int i = 0; i < k->count; i++) k->sorted[i] = own[k->rank[i]];
    sort_numbers(k->sorted, k->count);
    for (int i = 0; i < k->count; i++) {
        double x = own[k->rank[i]];
        sums[k->rank[i]].own[block] += x;
        sums[k->rank[i]].peers[block] += median_of_others(k->sorted, k->count, (int)index_in(k->sorted, k->count, x));
    }
}

static void compute_excess(rank_pace *p, const block_sums *s)
{
    double own = 0.0, peers = 0.0, squares = 0.0;
    for (int b = 0; b < BLOCKS; b++) own += s->own[b], peers += s->peers[b];
    double mean = (own - peers) / BLOCKS;
    for (int b = 0; b < BLOCKS; b++) squares += pow(s->own[b] - s->peers[b] - mean, 2.0);
    p->excess = own / peers - 1.0;
    p->error = sqrt(BLOCKS * squares / (BLOCKS - 1)) / peers;
}

void find_paces(const double *own, int64_t steps, int ranks, rank_pace *pace)
{
    peer_group k = { .rank = allocate(ranks, sizeof *k.rank, "ranks of a kind"),
                     .sorted = allocate(ranks, sizeof *k.sorted, "sorted times") };
    block_sums *sums = allocate(ranks, sizeof *sums, "comparing ranks");
    for (int r = 0; r < ranks; r++) pace[r].excess = pace[r].error = NAN, pace[r].peers = -1;
    for (int r = 0; r < ranks; r++) {
        if (pace[r].peers >= 0) continue;
        list_peers(pace, ranks, r, &k);
        if (k.count < 2 || steps < BLOCKS) continue;
        for (int64_t s = 0; s < steps; s++) add_step(&k, own + s * ranks, (int)(s * BLOCKS / steps), sums);
        for (int i = 0; i < k.count; i++) compute_excess(&pace[k.rank[i]], &sums[k.rank[i]]);
    }
    free(k.rank);
    free(k.sorted);
    free(sums);
}

bool pace_is_outlier(const rank_pace *p) { return p->excess - STANDARD_ERRORS * p->error > LIMIT; }
