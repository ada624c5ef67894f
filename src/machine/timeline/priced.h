/* Input of a timeline: submissions and their prices. Output: events. */
#pragma once
#include "machine/queue/preparation.h"
#include "machine/queue/submissions.h"

enum { TIMELINE_RANKS = 32, TIMELINE_TERMS = 24, RESOURCES = 3 };

/* The price of an operation that runs alone: `seconds`, which grow on fewer multiprocessors, plus `fixed` seconds. */
typedef struct {
    double seconds, fixed;
    int term, fixed_term;
    int factor;             /* another term to which the seconds are added; 0: none */
    double uses[RESOURCES]; /* share of each resource that it needs */
    int blocks;             /* multiprocessors that a transfer holds; thread blocks of a product */
    bool estimated;         /* its shape is not listed in the sheet */
    bool in_waves;          /* a product: it runs in waves of blocks */
    bool on_thread;         /* a transfer of a host: its rank computes nothing while it runs */
} price;

typedef struct {
    const preparation *work; /* with order */
    const price *price;      /* [order->items] */
} timeline_rank;

/* One operation that ran. exposed: seconds of a transfer in which its rank computed nothing, without the wait for
 * peers; each second counts once. path: seconds of each term on the critical path to its end; they sum to `end`,
 * without the terms of factors. */
typedef struct {
    int rank;
    const submitted *what;
    double begin, end, exposed;
    const double *path;
} timeline_event;

typedef struct {
    int multiprocessors;                                 /* of a device; 0: a host */
    void (*ran)(void *context, const timeline_event *e); /* called for each operation, in the order of ends */
    void *context;
} timeline_options;
