/* The place of this process, from the environment variables of its launcher, before MPI starts; -1 if unknown. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    int rank, ranks, local, locals; /* in the world, and on this node: rank, and number of ranks */
} launch_place;
launch_place launch_here(void);
/* Writes a name that only the processes of this run on this node have. Returns false if there is none. */
bool launch_name(char *name, size_t length);
