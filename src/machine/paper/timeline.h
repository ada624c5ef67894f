/* Time on paper: the queues of one rank of each pipeline stage, run as discrete events with a price for each operation.
 *
 * The head of a queue runs when what it waits for is complete. A rank computes one operation at a time. Of two that
 * could begin, an operation of a queue that yields goes last, else the one submitted first. Transfers run next to it;
 * one that needs multiprocessors takes them before it meets its peers, and keeps them until it ends. A product that
 * leaves `left` of them to transfers and finds fewer than it was made for takes as many waves as it then needs; other
 * operations are slower in proportion.
 *
 * A group that several of these ranks are in meets: its transfer begins when the last of them arrives. In any other
 * group all ranks do the same at the same time, so one stands for all. Operations that use the same resource share it
 * if they ask for more than there is. */
#pragma once
#include "machine/queue/preparation.h"
#include "machine/queue/submissions.h"

enum { TIMELINE_RANKS = 32, TIMELINE_TERMS = 24, RESOURCES = 4 };

/* What an operation takes by itself: `seconds`, of which `fixed` are taken by another term and never stretched. */
typedef struct {
    double seconds, fixed;
    int term, fixed_term;
    double uses[RESOURCES]; /* share of each resource while it runs */
    int blocks;             /* multiprocessors that a transfer holds, or that a product's blocks fill once */
    bool in_waves;          /* a product, whose blocks stay where they began */
} price;

typedef struct {
    const preparation *work; /* with its order */
    const price *price;      /* [order->items] */
} timeline_rank;

/* One operation that ran. late: seconds in which the rank computed nothing before it began; awaited: the axis of the
 * transfer that it then waited for, or NULL. path: seconds of each term on the longest chain of operations that ends
 * with it; they sum to `end`. */
typedef struct {
    int rank;
    const submitted *what;
    double begin, end, late;
    const char *awaited;
    const double *path;
} timeline_event;

typedef struct {
    int multiprocessors;                            /* of a device; 0: a host */
    void (*ran)(void *me, const timeline_event *e); /* called for each, in the order of their ends */
    void *me;
} timeline_options;

/* Runs everything. Returns false and a sentence that names who waits for whom if something never can. */
bool timeline_run(const timeline_rank *rank, int ranks, const timeline_options *o, char *why, size_t length);
