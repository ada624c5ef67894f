/* Samples of all ranks during the timed steps, and results from them. */
#pragma once
#include "machine/queue/kind.h"
#include "machine/sample/sampler.h"

typedef struct {
    int rank;
    machine_sample now;
} ranked_sample;

/* Energy and load are NaN if unknown, or if the timed steps are shorter than SAMPLE_SECONDS. */
typedef struct {
    ranked_sample *list; /* [count], ordered by rank; on rank 0; owned */
    int64_t count;
    double every;        /* seconds between samples; maximum over ranks */
    double cost_share;   /* processor time of sampling / duration of the timed steps; maximum over ranks */
    double joules;       /* energy of all devices, or of the packages of all nodes, between first and last samples */
    double watts;        /* mean power of a device: joules / sampled seconds of all devices; NaN on the host */
    const char *method;  /* source of joules; empty if unknown */
    double others_cores; /* cores kept busy by processes other than the node's ranks; maximum over nodes */
    int node_cores;      /* cores of that node */
    char throttled[160]; /* first rank with a throttled device, reason and time; empty if none */
    char lost[64];       /* first rank whose sampling thread hangs in the driver; empty if none */
    int throttled_rank, lost_rank;
} sample_set;

/* Input of samples_gather. The first `ranks` ranks have samples. own: sampler of this rank, NULL if it takes no part.
 * window: begin of the timed steps by this rank's clock; only rank 0's value is used. */
typedef struct {
    machine_kind kind;
    int ranks;
    sampler *own;
    double window;
} sampled;
/* Gathers the list on rank 0, computes energy and load of nodes from it, and closes the samplers. The other members are
 * this rank's. Seconds in the list start at the window, by rank 0's clock. Collective over the world. */
void samples_gather(sample_set *all, const sampled *x);
