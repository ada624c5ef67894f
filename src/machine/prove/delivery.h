/* Deliveries: proofs of transfers. If a transfer moves bytes, the sender digests what goes to each receiver and the
 * receiver what came from each sender; over all ranks both sums must be equal. If it adds, parts and results are
 * copied, and MPI repeats the sum in double. Digests and copies run on the transfer's queue, around a planted fault. */
#pragma once
#include "machine/queue/machine.h"

/* The transfers to prove. ALL: all. FIRST: of those that move bytes, the first of each name, group and shape. */
typedef enum { DELIVERY_ALL, DELIVERY_FIRST } delivery_mode;
typedef struct {
    int64_t transfers, differing;
    char sentence[256]; /* about the first one that differs */
    int rank;           /* rank that has the sentence; -1: none */
} delivery_report;

typedef struct delivery delivery;
/* Opens proofs of transfers. sum_bytes: memory for copies of the sums over ranks of one step (tally.sum_bytes). */
delivery *delivery_open(machine_kind kind, delivery_mode mode, size_t sum_bytes);
void delivery_close(delivery *d);
/* Submit the digests or copies before, and after, a transfer that is submitted to the queue. */
void delivery_before(delivery *d, queue *q, const op *o);
void delivery_after(delivery *d, queue *q, const op *o);

/* Repeats the sums since the last call and compares. Synchronize the machine first. Collective over each group. */
void delivery_judge_sums(delivery *d, machine *m);
/* Compares the digests of both sides of all transfers since the start. Returns the findings of all ranks, the same on
 * all. d: NULL on a rank that takes no part; else synchronize its machine first. Collective. */
delivery_report delivery_judge(const delivery *d, machine *m);
