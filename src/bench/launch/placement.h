/* Where a case's ranks lie: on which nodes, which of its groups span some, and how crowded the nodes are. */
#pragma once
#include "machine/queue/kind.h"
#include "plan/bench_case.h"

typedef struct {
    int nodes, node_ranks_least, node_ranks_most; /* of ranks that take part */
    bool across[AXES], expert_across;             /* some group of the axis, of experts, spans nodes */
    int domains, domain_ranks_most;               /* NVLink domains; without links between nodes each node is one */
    bool across_domains;                          /* some tensor group spans domains */
    bool scattered;           /* it does, and would not if each domain's ranks followed one another */
    int split[2];             /* two ranks of the first tensor group that spans domains, in two of them */
    char text[REASON_LENGTH]; /* "2 nodes of 8 ranks; tensor, context within a node, data across" */
} placement;

/* node, domain: of each rank a number that ranks of the same node, of the same domain share. */
placement placement_of(const mesh_layout *l, const int *node, const int *domain);
/* Returns the placement of the run's ranks, as MPI and machines of that kind say. */
placement placement_here(const mesh_layout *l, machine_kind kind);
/* Writes what is wrong with it, and the remedy. Returns whether a tensor group spans domains. */
bool placement_complaint(const placement *p, const mesh_layout *l, char sentence[REASON_LENGTH]);

/* node_ranks, cores: of the most crowded node; threads per rank; sharing: ranks on the most crowded device, of a case
 * on devices. */
typedef struct {
    int node_ranks, cores, threads, sharing;
    double quota; /* cores that the tightest control group pays for; INFINITY: no limit */
} host_load;
/* Do a node's ranks have more threads than it has cores, or than its quota pays for? */
bool load_is_crowded(const host_load *l);
