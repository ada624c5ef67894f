/* What a timeline runs, and what it tells. */
#pragma once
#include "machine/queue/preparation.h"
#include "machine/queue/submissions.h"

enum { TIMELINE_RANKS = 32, TIMELINE_TERMS = 24, RESOURCES = 3 };

/* What an operation takes by itself: `seconds`, of which `fixed` are taken by another term and never stretched. */
typedef struct {
    double seconds, fixed;
    int term, fixed_term;
    int factor;             /* a term that the seconds are in proportion to, besides; 0: none */
    double uses[RESOURCES]; /* share of each resource while it runs */
    int blocks;             /* multiprocessors that a transfer holds, or that a product's blocks fill once */
    bool estimated;         /* its shape is not listed */
    bool in_waves;          /* a product, whose blocks stay where they began */
    bool on_thread;         /* a transfer of a host: once its peers are there, its rank computes nothing meanwhile */
} price;

typedef struct {
    const preparation *work; /* with its order */
    const price *price;      /* [order->items] */
} timeline_rank;

/* One operation that ran. exposed: of a transfer, seconds in which it ran and its rank computed nothing, each second
 * told once; those in which it waited for its peers are none of them. path: seconds of each term on the longest chain
 * of operations that ends with it; without those of factors they sum to `end`. */
typedef struct {
    int rank;
    const submitted *what;
    double begin, end, exposed;
    const double *path;
} timeline_event;

typedef struct {
    int multiprocessors;                            /* of a device; 0: a host */
    void (*ran)(void *me, const timeline_event *e); /* called for each, in the order of their ends */
    void *me;
} timeline_options;
