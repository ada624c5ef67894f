/* Search for deviations, and their lines. */
#include "bench/calibrate/deviations.h"
#include "base/memory.h"
#include "base/say.h"
#include "base/text.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static void add(deviations *d, deviation x)
{
    d->list = reallocate(d->list, d->count + 1, sizeof x, "deviations");
    d->list[d->count++] = x;
}

static void find_slow_ranks(deviations *d, const operation_table *t)
{
    for (int r = 0; r < t->ranks && t->pace; r++)
        if (pace_is_outlier(&t->pace[r]))
            add(d, (deviation){ SLOW_COMPUTING, r, -1, t->pace[r].excess, t->pace[r].error });
}

/* The pairs of one rank, within its node or across nodes. */
typedef struct {
    int pairs, slow;
    double excess; /* sum over the slow ones */
} rank_links;

static bool most_are_slow(const rank_links *l) { return l->slow > 1 && 2 * l->slow > l->pairs; }

static void find_slow_links(deviations *d, const link_table *t, int ranks)
{
    rank_links(*links)[2] = allocate(ranks, sizeof *links, "links of ranks");
    for (const link_pair *p = t->pair; p < t->pair + t->pairs; p++)
        for (int end = 0; end < 2; end++) {
            rank_links *l = &links[end ? p->b : p->a][p->across > 0];
            bool slow = pace_is_outlier(&p->pace);
            l->pairs++, l->slow += slow, l->excess += slow ? p->pace.excess : 0.0;
        }
    for (int r = 0; r < ranks; r++)
        for (int across = 0; across < 2; across++)
            if (most_are_slow(&links[r][across]))
                add(d, (deviation){ SLOW_LINKS, r, -1, links[r][across].excess / links[r][across].slow, 0.0 });
    for (const link_pair *p = t->pair; p < t->pair + t->pairs; p++)
        if (pace_is_outlier(&p->pace) && !most_are_slow(&links[p->a][p->across > 0]) &&
            !most_are_slow(&links[p->b][p->across > 0]))
            add(d, (deviation){ SLOW_PAIR, p->a, p->b, p->pace.excess, p->pace.error });
    free(links);
}

deviations deviations_find(const operation_table *operations, const link_table *links, int ranks)
{
    deviations d = { .count = 0 };
    find_slow_ranks(&d, operations);
    find_slow_links(&d, links, ranks);
    return d;
}

static void print_rank(int rank, const rank_identity *id)
{
    say("rank %d on %s%s%s", rank, id[rank].host, id[rank].device[0] ? ", " : "", id[rank].device);
}

void deviations_print(const deviations *d, const rank_identity *id)
{
    static const char *const what[] = { "computes", "sends and receives", "exchange data" };
    if (d->count == 0) say("deviations  none\n");
    for (const deviation *x = d->list; x < d->list + d->count; x++) {
        say("DEVIATES    ");
        print_rank(x->rank, id);
        if (x->peer >= 0) say(" and "), print_rank(x->peer, id);
        say(": %s %.1f %% longer than %s peers", what[x->kind], 100.0 * x->excess, x->peer >= 0 ? "their" : "its");
        if (x->error > 0.0) say(", standard error %.1f %%", 100.0 * x->error);
        say("\n");
    }
}

static bool is_listed(const deviations *d, const rank_identity *id, int count, const char *host)
{
    for (int i = 0; i < count; i++)
        if (strcmp(id[d->list[i].rank].host, host) == 0 ||
            (d->list[i].peer >= 0 && strcmp(id[d->list[i].peer].host, host) == 0))
            return true;
    return false;
}

bool deviations_exclude(const deviations *d, const rank_identity *id, const char *path)
{
    FILE *to = fopen(path, "w");
    if (!to) return false;
    for (int i = 0; i < d->count; i++) {
        const char *host = id[d->list[i].rank].host, *peer = d->list[i].peer < 0 ? host : id[d->list[i].peer].host;
        if (!is_listed(d, id, i, host)) fprintf(to, "%s\n", host);
        if (!is_listed(d, id, i, peer) && strcmp(peer, host) != 0) fprintf(to, "%s\n", peer);
    }
    return fclose(to) == 0;
}
