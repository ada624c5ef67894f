/* What proves the transfers of a machine: delivery.c has the digests, delivery_sums.c the sums. */
#pragma once
#include "machine/delivery.h"

/* Digests are added up for each queue, since queues are not ordered, kind of transfer and axis: [arrived, sent]. */
enum {
    DELIVERY_AXES = 16,
    DELIVERY_ROWS = 3 * DELIVERY_AXES,
    DELIVERY_SUMS = HAZARD_QUEUES * DELIVERY_ROWS * 2,
};

/* A sum over ranks: what this rank brought, and what it has afterwards. */
typedef struct {
    op op;
    tensor parts, result;
} kept_sum;

struct delivery {
    machine_kind kind;
    delivery_mode mode;
    bool proves; /* the transfer at hand */
    uint64_t *digests;
    const char *axis[DELIVERY_ROWS];
    uint64_t *seen; /* which transfers were the first of their name, group and shape */
    int seen_count;
    char *copies;
    size_t copies_bytes, copies_used;
    kept_sum *sum;
    int sums, sums_capacity;
    delivery_report report;
};

/* Copies the operand of a transfer that adds, before it and after it. */
void delivery_keep_parts(delivery *d, queue *q, const op *o);
void delivery_keep_result(delivery *d, queue *q);
