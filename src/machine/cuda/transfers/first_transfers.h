/* Transfers over one communicator before the first step. Each is collective over the communicator, and the host waits
 * for it; meanwhile check() looks for errors of communicators. */
#pragma once
#include "machine/cuda/transfers/nccl_call.h"
#include "machine/world.h"
#include <stdint.h>

typedef struct {
    ncclComm_t comm;     /* NULL: this rank is not of it */
    ncclWindow_t window; /* NULL: it has none */
    int rank, ranks;
    char name[SPLIT_NAME + 16]; /* what messages call it */
} cuda_communicator;

/* Lets any two ranks of the communicator meet. NCCL connects two ranks in the call that first submits a transfer
 * between them, and the one that comes first waits there. The two ends of a link submit to different links in different
 * orders, so all ranks meet before the first step. */
void first_meet(const cuda_communicator *c, void (*check)(void));
/* Gathers `part` bytes of each rank in memory that nobody uses, [ranks, part]; returns the seconds of a second such
 * gather: in the first one NCCL takes memory. */
double first_gather(const cuda_communicator *c, void *memory, size_t part, void (*check)(void));
/* Makes each x[i], i < n <= FIRST_NUMBERS, the largest of all ranks' values. */
enum { FIRST_NUMBERS = 64 };
void first_maximum(const cuda_communicator *c, int32_t *x, int n, void (*check)(void));
