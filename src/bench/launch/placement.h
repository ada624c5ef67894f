/* Where a case's ranks lie: on which nodes, which of its groups span some, and how crowded the nodes are. */
#pragma once
#include "plan/bench_case.h"

typedef struct {
    int nodes, node_ranks_least, node_ranks_most; /* of ranks that take part */
    bool across[AXES], expert_across;             /* some group of the axis, of experts, spans nodes */
    bool scattered;           /* the tensor axis does, and would not if each node's ranks followed one another */
    int split[2];             /* two ranks of the first tensor group that spans nodes, on two of them */
    char text[REASON_LENGTH]; /* "2 nodes of 8 ranks; tensor, context within a node, data across" */
} placement;

/* node: of each rank a number that ranks of the same node share. */
placement placement_of(const mesh_layout *l, const int *node);
/* Of the ranks of the run, as MPI says. */
placement placement_here(const mesh_layout *l);
/* What is wrong with it, and the remedy; false: no tensor group spans nodes. */
bool placement_complaint(const placement *p, const mesh_layout *l, char sentence[REASON_LENGTH]);

/* node_ranks, cores: of the most crowded node; threads per rank; sharing: ranks on the most crowded device, of a case
 * on devices. */
typedef struct {
    int node_ranks, cores, threads, sharing;
    double quota; /* cores that the tightest control group pays for; INFINITY: no limit */
} host_load;
/* Do a node's ranks have more threads than it has cores, or than its quota pays for? */
bool load_is_crowded(const host_load *l);
