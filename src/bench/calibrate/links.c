/* The rounds of a tournament of ranks. */
#include "bench/calibrate/links.h"
#include "base/memory.h"
#include "machine/world.h"

enum { LINK_BYTES = 16 << 20, RUNS = 4 };

rank_map rank_map_open(int ranks, int (*node_of)(int rank))
{
    rank_map m = { .ranks = ranks };
    m.node = allocate(3 * (int64_t)ranks, sizeof *m.node, "places of ranks");
    m.place = m.node + ranks, m.node_ranks = m.place + ranks;
    for (int r = 0; r < ranks; r++) {
        int first = node_of(r);
        m.node[r] = first == r ? m.nodes++ : m.node[first];
        m.place[r] = m.node_ranks[first]++;
        m.largest_node = m.node_ranks[first] > m.largest_node ? m.node_ranks[first] : m.largest_node;
    }
    m.rank = allocate((int64_t)m.nodes * m.largest_node, sizeof *m.rank, "places of ranks");
    for (int i = 0; i < m.nodes * m.largest_node; i++) m.rank[i] = -1;
    for (int r = 0; r < ranks; r++) {
        m.node_ranks[r] = m.node_ranks[node_of(r)];
        m.rank[m.node[r] * m.largest_node + m.place[r]] = r;
    }
    return m;
}

void rank_map_close(rank_map *m)
{
    free(m->node);
    free(m->rank);
}

/* Returns the opponent of `player` in a round-robin tournament by the circle method: the last player stays, the others
 * rotate. The caller adds a player to an odd number; its opponent rests. */
static int opponent(int players, int player, int round)
{
    int rotating = players - 1;
    if (player == rotating) return round * (players / 2) % rotating;
    int other = (round - player + rotating) % rotating;
    return other == player ? rotating : other;
}

static int rounds_within(const rank_map *m) { return m->largest_node + m->largest_node % 2 - 1; }

int links_rounds(const rank_map *m)
{
    int rounds = rounds_within(m);
    for (int distance = 1; distance < m->nodes; distance *= 2) rounds++;
    return rounds;
}

int links_peer(const rank_map *m, int rank, int round)
{
    int node = m->node[rank], place = m->place[rank], players = m->node_ranks[rank] + m->node_ranks[rank] % 2;
    if (round >= rounds_within(m)) node ^= 1 << (round - rounds_within(m));
    else if (players < 2 || round >= players - 1) return -1;
    else place = opponent(players, place, round);
    return node < m->nodes && place < m->largest_node ? m->rank[node * m->largest_node + place] : -1;
}

static void add_pairs(link_table *t, const rank_map *m, int round, const double *seconds)
{
    for (int r = 0; r < m->ranks; r++) {
        int peer = links_peer(m, r, round);
        if (peer <= r) continue;
        link_pair p = { .a = r, .b = peer, .across = round < rounds_within(m) ? 0 : round + 1 - rounds_within(m) };
        for (int i = 0; i < BLOCKS; i++) p.seconds[i] = 0.5 * (seconds[r * BLOCKS + i] + seconds[peer * BLOCKS + i]);
        t->pair = reallocate(t->pair, t->pairs + 1, sizeof p, "pairs of ranks");
        t->pair[t->pairs++] = p;
    }
}

/* Pairs are peers if they have equal `across`: find_paces compares ranks of equal flops and bytes. */
static void judge_pairs(link_table *t)
{
    double *own = allocate((int64_t)BLOCKS * t->pairs, sizeof *own, "seconds of pairs");
    rank_pace *pace = allocate(t->pairs, sizeof *pace, "paces of pairs");
    for (int i = 0; i < t->pairs; i++) {
        pace[i] = (rank_pace){ .flops = 1.0 + t->pair[i].across, .bytes = LINK_BYTES };
        for (int k = 0; k < BLOCKS; k++) own[k * t->pairs + i] = t->pair[i].seconds[k];
    }
    if (t->pairs) find_paces(own, BLOCKS, t->pairs, pace);
    for (int i = 0; i < t->pairs; i++) t->pair[i].pace = pace[i];
    free(own);
    free(pace);
}

link_table links_measure(transfer_bench *b, const rank_map *m)
{
    link_table t = { .pairs = 0 };
    for (int round = 0; round < links_rounds(m); round++) {
        double own[BLOCKS];
        int peer = links_peer(m, world_rank(), round);
        for (int i = 0; i < BLOCKS; i++) {
            world_barrier();
            transfer_pair_seconds(b, peer, LINK_BYTES, 1); /* not timed: the two ranks wait for each other here */
            own[i] = transfer_pair_seconds(b, peer, LINK_BYTES, RUNS);
        }
        double *all = world_gather(own, sizeof own);
        if (all) add_pairs(&t, m, round, all);
        free(all);
    }
    judge_pairs(&t);
    return t;
}
