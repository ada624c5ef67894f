/* Transfers of this run's ranks, timed by submitting them to a queue. */
#pragma once
#include "machine/queue/submit.h"
#include "parallel/mesh.h"
#include "plan/deck/deck.h"
#include "plan/sheet/sheet.h"

/* A machine with one queue and memory for two operands; every rank of the world has one. */
typedef struct {
    machine_kind kind;
    machine *machine;
    queue *queue;
    char *memory, *own; /* in use; its own */
    mesh all;           /* all.gradient: all ranks */
} transfer_bench;

enum { TRANSFER_MOST_BYTES = 32 << 20 };

/* Both collective over the world. blocks: of communicators. */
void transfer_bench_open(transfer_bench *b, machine_kind kind, transfer_blocks blocks);
void transfer_bench_close(transfer_bench *b);
/* Sends `bytes` to a rank of the world and receives as many from it, `runs` times; peer -1: does nothing. Returns the
 * seconds of one. */
double transfer_pair_seconds(transfer_bench *b, int peer, int64_t bytes, int runs);
/* Seconds that the queue takes between two operations. */
double transfer_gap(transfer_bench *b);

/* Times the collectives of a step of each case in their groups, and one-way exchanges of two ranks, with operands from
 * 128 bytes to TRANSFER_MOST_BYTES. All groups of a kind are busy at the same time. Returns the medians of several
 * means over the ranks. domain: ranks that NVLink connects. Collective over the world; the same on all ranks. */
listed_times transfers_measure(transfer_bench *b, const deck *d, int domain);
