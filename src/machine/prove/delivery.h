/* Deliveries: transfers are proven without their own help. If a transfer moves bytes, the sender digests what goes to
 * each receiver and the receiver what came from each sender; over all ranks both sums are equal. If it adds, parts and
 * results are copied, and MPI makes the sum again in double. Digests and copies run on the transfer's own queue, so
 * nothing waits for them and a planted fault lies between them. */
#pragma once
#include "machine/queue/machine.h"

/* The transfers that are proven. ALL: every one. FIRST: the first of each name, group and shape that moves bytes. */
typedef enum { DELIVERY_ALL, DELIVERY_FIRST } delivery_mode;
typedef struct {
    int64_t transfers, differing;
    char sentence[256]; /* of the first that differs */
    int rank;           /* that has the sentence; -1: none */
} delivery_report;

typedef struct delivery delivery;
/* sum_bytes: machine memory for the copies of one step's sums over ranks (tally.sum_bytes). */
delivery *delivery_open(machine_kind kind, delivery_mode mode, size_t sum_bytes);
void delivery_close(delivery *d);
/* Submits what comes before, and after, a transfer that is submitted to the queue. */
void delivery_before(delivery *d, queue *q, const op *o);
void delivery_after(delivery *d, queue *q, const op *o);

/* Makes the sums since the last call again and compares. The machine is synchronized. Collective over each group. */
void delivery_judge_sums(delivery *d, machine *m);
/* Compares both sides' digests of all transfers since the start, and adds up the findings of all ranks, alike on all.
 * d: NULL on a rank that takes no part; else its machine is synchronized. Collective over the world. */
delivery_report delivery_judge(const delivery *d, machine *m);
