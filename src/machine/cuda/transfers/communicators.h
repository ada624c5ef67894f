/* NCCL communicators: parts of the world, made when a group is connected and kept for who asks again. */
#pragma once
#include "machine/cuda/transfers/nccl_call.h"
#include "machine/op/fabric.h"
#include "machine/world.h"

typedef struct {
    ncclComm_t comm; /* NULL: this rank is not of it */
    int rank, ranks;
    char name[SPLIT_NAME + 16]; /* what messages call it */
} cuda_communicator;

/* Gives the group its communicator (group.connection). Collective over the world; disconnected by name as often. */
void cuda_connect(group *g, const char *name, int color, int key);
void cuda_disconnect(const char *name);
/* The group's: of one apart its own, else that of those that take turns. */
const cuda_communicator *communicator_for(const group *g);

/* A first gather in memory that nobody uses: NCCL takes memory in the first that copy engines make. Collective. */
void communicator_gather_first(const cuda_communicator *c, void *memory);
/* Of the device's memory that all of them hold, as measured when they were made. */
double communicators_bytes(void);
/* Ends the run if a communicator met an error of its own; called while one waits. */
void communicators_check(void);
/* Before the run ends on a failure: lets go of the peers, within a bound. */
void communicators_abort(void);
