/* What the launcher told this process in its environment, before MPI has started; -1: not known. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    int rank, ranks, local, locals; /* world rank; place among, and number of, its processes of this node */
} launch_place;
launch_place launch_here(void);
/* A name that only the processes of this run on this node have; false: there is none. */
bool launch_name(char *name, size_t length);
