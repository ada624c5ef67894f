/* Deliveries: transfers of a machine are proven right without the transfers' own help. Of a transfer that moves bytes
 * the sender adds a digest of what goes to each receiver, and the receiver one of what came from each sender; over all
 * ranks both sums are equal. Of a transfer that adds, the parts and the results are copied, and the sum is made again
 * in double by MPI. Digests and copies are operations of the transfer's own queue: nothing waits for them, and a fault
 * that is planted on the transfer lies between them. */
#pragma once
#include "machine/op/op.h"
#include "machine/queue/machine.h"

/* Makes the sums since the last call again and compares every element. The machine is synchronized. Collective over
 * the ranks of each group. */
void delivery_judge_sums(machine *m);
/* Compares the sums of both sides' digests, of all transfers since the start, and adds up the findings of all ranks. m:
 * NULL on a rank that takes no part; else it is synchronized. Collective over the world; the same result on all ranks.
 */
delivery_report delivery_judge(machine *m);
