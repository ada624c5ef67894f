/* Links between pairs of ranks: on a node every rank with every other; between nodes, ranks at equal places of nodes
 * whose numbers differ in one bit. So a pair that is slow by itself is a bad link, and a rank or node most of whose
 * pairs are slow has one. */
#pragma once
#include "bench/calibrate/transfers.h"
#include "bench/health/outliers.h"

/* Where ranks are: nodes and places on a node are counted from 0. Lists are owned. */
typedef struct {
    int ranks, nodes, most; /* most: ranks of the largest node */
    int *node, *place, *of; /* [ranks]; of: how many ranks the node has */
    int *rank;              /* [nodes, most], -1: none */
} rank_map;

/* node_of: the lowest rank of a rank's node. */
rank_map rank_map_open(int ranks, int (*node_of)(int rank));
void rank_map_close(rank_map *m);

int links_rounds(const rank_map *m);
/* Returns the peer in that round, or -1; the relation is symmetric. The first rounds are within nodes, the others
 * between them. Each pair meets in one round. */
int links_peer(const rank_map *m, int rank, int round);

typedef struct {
    int a, b;
    int across; /* 0: on one node; else the round between nodes, from 1: longer ways have peers of their own */
    double seconds[BLOCKS];
    rank_pace pace; /* next to pairs of its kind */
} link_pair;
typedef struct {
    link_pair *pair; /* owned */
    int pairs;
} link_table;

/* On rank 0; empty on the others. Collective over the world. */
link_table links_measure(transfer_bench *b, const rank_map *m);
