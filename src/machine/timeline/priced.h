/* The input of a timeline: submissions with prices; and its output: events. */
#pragma once
#include "machine/queue/preparation.h"
#include "machine/queue/submissions.h"

enum { TIMELINE_RANKS = 32, TIMELINE_TERMS = 24, RESOURCES = 3 };

/* The price of an operation that runs alone: `seconds`, plus `fixed` seconds, which are never stretched. */
typedef struct {
    double seconds, fixed;
    int term, fixed_term;
    int factor;             /* another term in proportion to the seconds; 0: none */
    double uses[RESOURCES]; /* share of each resource that it needs */
    int blocks;             /* multiprocessors that a transfer holds, or that a product's blocks fill once */
    bool estimated;         /* its shape is not listed in the sheet */
    bool in_waves;          /* a product: it runs in waves of blocks */
    bool on_thread; /* a transfer of a host: once its peers have come, its rank computes nothing until it ends */
} price;

typedef struct {
    const preparation *work; /* with order */
    const price *price;      /* [order->items] */
} timeline_rank;

/* One operation that ran. exposed: for a transfer, seconds of its execution in which its rank computed nothing, without
 * the wait for peers; each second counts once. path: seconds of each term on the longest chain of operations that ends
 * with it; without terms of factors they sum to `end`. */
typedef struct {
    int rank;
    const submitted *what;
    double begin, end, exposed;
    const double *path;
} timeline_event;

typedef struct {
    int multiprocessors;                            /* multiprocessors of a device; 0: a host */
    void (*ran)(void *me, const timeline_event *e); /* called for each operation, in the order of ends */
    void *me;
} timeline_options;
