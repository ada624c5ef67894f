/* timeline/: time on paper. The queues of one rank of each pipeline stage run as discrete events with prices.
 *
 * The head of a queue runs when all that it waits for is complete. A rank computes one operation at a time. If two
 * could begin, an operation of a queue that yields goes last; otherwise the one that was submitted first goes first.
 * Transfers run at the same time. A transfer that needs multiprocessors takes them before it meets its peers and keeps
 * them until it ends. A product that finds fewer multiprocessors takes as many waves as it then needs; other operations
 * slow down in proportion.
 *
 * If several of these ranks are in a group, they meet: the transfer begins when the last of them arrives. In other
 * groups all ranks do the same at the same time, so one stands for all. Operations share a resource if they ask for
 * more than there is. */
#pragma once
#include "machine/timeline/priced.h"

/* Runs all operations. Returns false, and a sentence that names what waits for what, if some can never run. */
bool timeline_run(const timeline_rank *rank, int ranks, const timeline_options *o, char *why, size_t length);
