/* Transfers over one communicator before the first step. Each is collective over the communicator. The host waits for
 * the transfer and calls check() meanwhile, to find errors of communicators. */
#pragma once
#include "machine/cuda/transfers/nccl_call.h"
#include "machine/world.h"
#include <stdint.h>

typedef struct {
    ncclComm_t comm;     /* NULL if this rank does not belong to it */
    ncclWindow_t window; /* NULL if it has none */
    int rank, ranks;
    char name[SPLIT_NAME + 16]; /* for messages */
} cuda_communicator;

/* Exchanges a byte between every two ranks of the communicator. NCCL connects two ranks in their first transfer, where
 * the earlier rank waits. In a step that could be a deadlock, because the two ends of a link submit to other links in
 * different orders. */
void first_exchange(const cuda_communicator *c, void (*check)(void));
/* Gathers `part` bytes of each rank twice, in unused memory [ranks, part]. Returns the seconds of the second gather:
 * in the first one NCCL allocates memory. */
double first_gather(const cuda_communicator *c, void *memory, size_t part, void (*check)(void));
/* Replaces each x[i], i < n <= FIRST_NUMBERS, by its maximum over all ranks. */
enum { FIRST_NUMBERS = 64 };
void first_maximum(const cuda_communicator *c, int32_t *x, int n, void (*check)(void));
