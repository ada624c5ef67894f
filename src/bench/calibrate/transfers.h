/* Transfers between the ranks of this run, timed on a queue. */
#pragma once
#include "machine/queue/submit.h"
#include "parallel/mesh.h"
#include "plan/deck/deck.h"
#include "plan/sheet/sheet.h"

/* A machine on this rank with one queue, and memory for two operands and scratch. */
typedef struct {
    machine_kind kind;
    machine *machine;
    queue *queue;
    char *memory, *own_memory; /* memory: own_memory, or the window of a case */
    mesh all;                  /* all.gradient is a group of all ranks */
} transfer_bench;

enum { TRANSFER_MOST_BYTES = 32 << 20 };

/* Open and close the machine. blocks: thread blocks of communicators. Collective over the world. */
void transfer_bench_open(transfer_bench *b, machine_kind kind, transfer_blocks blocks);
void transfer_bench_close(transfer_bench *b);
/* Sends `bytes` to world rank `peer` and receives as many, `runs` times. Does nothing if peer is -1. Returns the mean
 * seconds. */
double transfer_pair_seconds(transfer_bench *b, int peer, int64_t bytes, int runs);
/* Returns the seconds that the queue takes between two operations. */
double transfer_gap(transfer_bench *b);

/* Times the collectives of a step of each case in their groups, and one-way exchanges of two ranks, with operands from
 * 128 bytes to TRANSFER_MOST_BYTES. All groups of an axis transfer at the same time. Each time is the median of several
 * batches; a batch is the mean over the ranks. domain: ranks in an NVLink domain. Returns the same list on all ranks,
 * owned by the caller. Collective over the world. */
listed_times transfers_measure(transfer_bench *b, const deck *d, int domain);
