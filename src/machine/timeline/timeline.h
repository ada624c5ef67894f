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
#include "machine/timeline/priced.h"

/* Runs everything. Returns false and a sentence that names who waits for whom if something never can. */
bool timeline_run(const timeline_rank *rank, int ranks, const timeline_options *o, char *why, size_t length);
