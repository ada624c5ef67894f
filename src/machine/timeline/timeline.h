/* timeline/: time on paper. Simulates the queues of one rank of each pipeline stage as discrete events with prices.
 *
 * The first operation of a queue runs when all that it waits for is complete. A rank computes one operation at a time,
 * in the order of submission, but operations of a queue that yields go last. Transfers run at the same time. A transfer
 * takes its multiprocessors before its peers arrive and keeps them until it ends. With fewer multiprocessors, a product
 * runs in more waves, and other operations slow down in proportion.
 *
 * A transfer between several of these ranks begins when the last of them arrives. In other groups all ranks do the same
 * at the same time, so one stands for all. Operations that need more of a resource than there is share it. */
#pragma once
#include "machine/timeline/priced.h"

/* Runs all operations. If some can never run, returns false and writes which operations wait for what. */
bool timeline_run(const timeline_rank *rank, int ranks, const timeline_options *o, char *why, size_t length);
