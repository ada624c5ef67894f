/* Placement of a case's ranks on nodes and NVLink domains, and load of the nodes. */
#pragma once
#include "machine/queue/kind.h"
#include "plan/bench_case.h"

typedef struct {
    int nodes, node_ranks_least, node_ranks_most; /* nodes with ranks that take part; ranks on a node */
    bool across[AXES], expert_across;             /* a group of the axis, or of experts, spans nodes */
    int domains, domain_ranks_most;               /* NVLink domains; without NVLink between nodes, a domain is a node */
    bool across_domains;                          /* a tensor group spans domains */
    bool scattered;                               /* block distribution of the ranks would avoid that */
    int split[2];                                 /* two ranks of a tensor group, in different domains */
    char text[REASON_LENGTH];                     /* "2 nodes of 8 ranks; tensor, context within a node, data across" */
} placement;

/* Returns the placement. node, domain: [ranks], a number that ranks of the same node or domain share. */
placement placement_of(const mesh_layout *l, const int *node, const int *domain);
/* Returns the placement of this run's ranks, from MPI and from machines of that kind. */
placement placement_here(const mesh_layout *l, machine_kind kind);
/* Returns whether a tensor group spans domains; if so, writes the mistake and the remedy. */
bool placement_complaint(const placement *p, const mesh_layout *l, char sentence[REASON_LENGTH]);

/* Worst of all nodes: most ranks, fewest cores, most threads of a rank. sharing: most ranks on a device. */
typedef struct {
    int node_ranks, cores, threads, sharing;
    double quota; /* smallest CPU limit of a control group, in cores; INFINITY if there is no limit */
} host_load;
/* Returns whether the ranks of a node have more threads than its cores or its quota allow. */
bool host_is_oversubscribed(const host_load *l);
