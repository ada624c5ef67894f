/* NCCL communicators: parts of the world, made when a group is connected and kept for who asks again. */
#pragma once
#include "machine/cuda/transfers/nccl_watch.h"
#include "machine/fabric.h"
#include "machine/world.h"

typedef struct cuda_communicator {
    ncclComm_t comm; /* NULL: this rank is not of it */
    int rank, ranks;
    char name[SPLIT_NAME + 16]; /* what messages call it */
} cuda_communicator;

/* Of the group, for transfers of that queue of the machine. */
const cuda_communicator *communicator_for(group *g, int queue_index);
