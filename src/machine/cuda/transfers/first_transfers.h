/* Transfers over one communicator before the first step. Each is collective over the communicator. The host waits for
 * it and meanwhile calls check() to find errors of communicators. */
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

/* Lets every two ranks of the communicator exchange a byte. NCCL connects two ranks in the first transfer between them,
 * and the earlier one waits there. The two ends of a link submit to other links in different orders and could wait for
 * each other. Therefore all ranks meet before the first step. */
void first_meet(const cuda_communicator *c, void (*check)(void));
/* Gathers `part` bytes of each rank in unused memory [ranks, part], twice. Returns the seconds of the second gather,
 * because NCCL allocates memory in the first one. */
double first_gather(const cuda_communicator *c, void *memory, size_t part, void (*check)(void));
/* Replaces each x[i], i < n <= FIRST_NUMBERS, by its maximum over all ranks. */
enum { FIRST_NUMBERS = 64 };
void first_maximum(const cuda_communicator *c, int32_t *x, int n, void (*check)(void));
