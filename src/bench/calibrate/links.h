/* Links between pairs of ranks: on a node every rank with every other; between nodes, ranks at equal places of nodes
 * whose numbers differ in one bit. So a pair that is slow by itself is a bad link, and a rank or node most of whose
 * pairs are slow has one. */
#pragma once
#include "bench/calibrate/transfers.h"
#include "bench/health/outliers.h"

/* Where a rank is: its node, counted from 0, its place there, and how many ranks the node has. */
typedef struct {
    int node, at, of;
} rank_place;

/* Returns the peer in that round, or -1; the relation is symmetric. Rounds 0 to most - 2 are within nodes, of which the
 * largest has `most` ranks; then come the rounds between nodes. Each pair meets in one round. */
int links_peer(const rank_place *place, int ranks, int rank, int round);
int links_rounds(const rank_place *place, int ranks);

typedef struct {
    int a, b;
    bool across; /* nodes */
    double seconds[BLOCKS];
    rank_pace pace; /* next to pairs of its kind */
} link_pair;
typedef struct {
    link_pair *pair; /* owned */
    int pairs;
} link_table;

/* On rank 0; empty on the others. places: of all ranks, on every rank. Collective over the world. */
link_table links_measure(transfer_bench *b, const rank_place *place);
/* Places of all ranks; owned by the caller. */
rank_place *links_places(void);
