/* Samples of all ranks, and what they say of the measured window. */
#pragma once
#include "machine/queue/kind.h"
#include "machine/sample/sampler.h"

typedef struct {
    int rank;
    machine_sample now;
} ranked_sample;

/* Rates and sums are NaN where they are not told, and of windows shorter than SAMPLE_SECONDS. */
typedef struct {
    ranked_sample *list; /* [count], rank by rank; of rank 0; owned */
    int64_t count;
    double every;       /* seconds between two; the longest of a rank */
    double cost_share;  /* of the window, processor time that sampling took; the largest of a rank */
    double joules;      /* of all devices, or of all nodes' packages, from each one's first sample to its last */
    const char *method; /* whose joules they are; empty: not known */
    double
        others_cores; /* of the cores that a node's ranks may use, so many were busy with others; the most of a node */
    int node_cores;   /* of that node */
    char throttled[160]; /* the first rank whose device was, why and when; empty: none */
    char lost[64];       /* the first rank whose sampling thread did not come back from its driver */
    int throttled_rank, lost_rank;
} sample_set;

/* What was sampled, on which machine, by how many ranks, those from 0 on. own: of a rank that takes part; else NULL.
 * window: when the timed steps began, by this rank's clock; rank 0's counts. */
typedef struct {
    machine_kind kind;
    int ranks;
    sampler *own;
    double window;
} sampled;
/* Ranks bring what their sampler found and close it. Lists are gathered, and what follows from them; the other members
 * are this rank's. Seconds of the list count from the window, by rank 0's clock. Collective over the world. */
void samples_gather(sample_set *all, const sampled *of);
