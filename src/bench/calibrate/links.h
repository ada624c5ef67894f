/* Links between pairs of ranks. All pairs of ranks on a node are timed. Ranks on different nodes are timed if they
 * have the same place and their node numbers differ in one bit. A single slow pair shows a bad link; if most pairs of a
 * rank are slow, the rank's own link is bad. */
#pragma once
#include "bench/calibrate/transfers.h"
#include "bench/health/outliers.h"

/* Node of each rank and its place on the node, both counted from 0. Freed by rank_map_close. */
typedef struct {
    int ranks, nodes, largest_node; /* largest_node: number of ranks on it */
    int *node, *place, *node_ranks; /* [ranks]; node_ranks: number of ranks on the rank's node */
    int *rank;                      /* [nodes, largest_node], -1 if none */
} rank_map;

/* node_of returns the lowest rank on a rank's node. */
rank_map rank_map_open(int ranks, int (*node_of)(int rank));
void rank_map_close(rank_map *m);

int links_rounds(const rank_map *m);
/* Returns the peer of `rank` in a round, or -1. If a is the peer of b, b is the peer of a. Each pair meets in one
 * round; the first rounds are within nodes, the others between nodes. */
int links_peer(const rank_map *m, int rank, int round);

typedef struct {
    int a, b;
    int across; /* 0 within a node; otherwise number of the round between nodes, from 1 */
    double seconds[BLOCKS];
    rank_pace pace; /* compared with pairs of equal `across` */
} link_pair;
typedef struct {
    link_pair *pair; /* owned */
    int pairs;
} link_table;

/* Times all pairs, round by round. The result is complete on rank 0 only. Collective over the world. */
link_table links_measure(transfer_bench *b, const rank_map *m);
