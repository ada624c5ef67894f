/* The rank of this process before MPI starts, from environment variables of its launcher; -1 if unknown. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    int rank, ranks, local_rank, local_ranks; /* in the world, and on this node */
} launch_place;
launch_place launch_here(void);
/* Writes a name that only the processes of this run on this node have. Returns false if there is none. */
bool launch_name(char *name, size_t length);
