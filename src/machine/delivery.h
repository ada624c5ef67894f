/* Deliveries: transfers of a machine are proven right without the transfers' own help. Of a transfer that moves bytes
 * the sender adds a digest of what goes to each receiver, and the receiver one of what came from each sender; over all
 * ranks both sums are equal. Of a transfer that adds, the parts and the results are copied, and the sum is made again
 * in double by MPI. Digests and copies are operations of the transfer's own queue: nothing waits for them, and a fault
 * that is planted on the transfer lies between them. */
#pragma once
#include "machine/machine.h"

typedef struct delivery delivery;
/* sum_bytes: machine memory for the copies of one step's sums: the step's delivery_sum_bytes. */
delivery *delivery_open(machine_kind kind, delivery_mode mode, size_t sum_bytes);
void delivery_close(delivery *d);
/* Submits what comes before, and after, a transfer that is submitted to the queue. */
void delivery_before(delivery *d, queue *q, const op *o);
void delivery_after(delivery *d, queue *q, const op *o);

/* Bytes that the copies of the operation's operand take, before it and after it, if it adds over ranks; else 0. */
size_t delivery_sum_bytes(const op *o);
/* Makes the sums since the last call again and compares every element. The machine is synchronized. Collective over
 * the ranks of each group. */
void delivery_judge_sums(machine *m);
/* The sums of both sides' digests of all transfers since the start, compared; adds the findings of all ranks. m: NULL
 * on a rank that takes no part; else it is synchronized. Collective over the world; the same result on all ranks. */
delivery_report delivery_judge(machine *m);

/* How far a sum over ranks may be from the sum in double: `ranks` parts of that type, the result, and the sum of the
 * parts' magnitudes (shadow_limits.c). */
double limit_of_rank_sum(const op_home *home, dtype type, int ranks, double result, double magnitudes);
