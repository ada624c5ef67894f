/* Rounds of pairs. */
#include "bench/calibrate/links.h"
#include "base/memory.h"
#include "machine/world.h"

enum { LINK_BYTES = 4 << 20, RUNS = 4 };

rank_place *links_places(void)
{
    int nodes = 0;
    rank_place *place = allocate(world_ranks(), sizeof *place, "places of ranks");
    for (int r = 0; r < world_ranks(); r++) {
        int first = world_node(r); /* the lowest of its node */
        place[r].node = first == r ? nodes++ : place[first].node;
        place[r].at = place[first].of++;
    }
    for (int r = 0; r < world_ranks(); r++) place[r].of = place[world_node(r)].of;
    return place;
}

static int most_of_a_node(const rank_place *place, int ranks)
{
    int most = 1;
    for (int r = 0; r < ranks; r++) most = place[r].of > most ? place[r].of : most;
    return most;
}

static int nodes_of(const rank_place *place, int ranks)
{
    int nodes = 1;
    for (int r = 0; r < ranks; r++) nodes = place[r].node >= nodes ? place[r].node + 1 : nodes;
    return nodes;
}

static int rank_at(const rank_place *place, int ranks, int node, int at)
{
    for (int r = 0; r < ranks; r++)
        if (place[r].node == node && place[r].at == at) return r;
    return -1;
}

/* Players of a round-robin tournament by the circle method: the last one stays, the others turn. An odd number has one
 * more player, whose opponent rests. Returns the opponent of `at`. */
static int opponent(int players, int at, int round)
{
    int turning = players - 1;
    if (at == turning) return round * (players / 2) % turning;
    int other = (round - at + turning) % turning;
    return other == at ? turning : other;
}

int links_rounds(const rank_place *place, int ranks)
{
    int most = most_of_a_node(place, ranks), rounds = most + most % 2 - 1;
    for (int distance = 1; distance < nodes_of(place, ranks); distance *= 2) rounds++;
    return rounds;
}

int links_peer(const rank_place *place, int ranks, int rank, int round)
{
    int most = most_of_a_node(place, ranks), within = most + most % 2 - 1;
    const rank_place *p = &place[rank];
    if (round >= within) return rank_at(place, ranks, p->node ^ 1 << (round - within), p->at);
    int players = p->of + p->of % 2, other = players > 1 && round < players - 1 ? opponent(players, p->at, round) : -1;
    return other >= 0 && other < p->of ? rank_at(place, ranks, p->node, other) : -1;
}

static void add_pairs(link_table *t, const rank_place *place, int ranks, int round, const double *seconds)
{
    for (int r = 0; r < ranks; r++) {
        int peer = links_peer(place, ranks, r, round);
        if (peer <= r) continue;
        link_pair p = { .a = r, .b = peer, .across = place[r].node != place[peer].node };
        for (int i = 0; i < BLOCKS; i++) p.seconds[i] = 0.5 * (seconds[r * BLOCKS + i] + seconds[peer * BLOCKS + i]);
        t->pair = reallocate(t->pair, t->pairs + 1, sizeof p, "pairs of ranks");
        t->pair[t->pairs++] = p;
    }
}

/* Compares every pair with those of its kind. */
static void judge_pairs(link_table *t)
{
    double *own = allocate((int64_t)BLOCKS * t->pairs, sizeof *own, "seconds of pairs");
    rank_pace *pace = allocate(t->pairs, sizeof *pace, "paces of pairs");
    for (int i = 0; i < t->pairs; i++) {
        pace[i] = (rank_pace){ .flops = t->pair[i].across ? 2.0 : 1.0, .bytes = LINK_BYTES };
        for (int k = 0; k < BLOCKS; k++) own[k * t->pairs + i] = t->pair[i].seconds[k];
    }
    if (t->pairs) find_paces(own, BLOCKS, t->pairs, pace);
    for (int i = 0; i < t->pairs; i++) t->pair[i].pace = pace[i];
    free(own);
    free(pace);
}

link_table links_measure(transfer_bench *b, const rank_place *place)
{
    link_table t = { .pairs = 0 };
    int ranks = world_ranks();
    for (int round = 0; round < links_rounds(place, ranks) && ranks > 1; round++) {
        double own[BLOCKS];
        int peer = links_peer(place, ranks, world_rank(), round);
        transfer_pair_seconds(b, peer, LINK_BYTES, 1);
        for (int i = 0; i < BLOCKS; i++) {
            world_barrier();
            own[i] = transfer_pair_seconds(b, peer, LINK_BYTES, RUNS);
        }
        double *all = world_gather(own, sizeof own);
        if (all) add_pairs(&t, place, ranks, round, all);
        free(all);
    }
    judge_pairs(&t);
    return t;
}
