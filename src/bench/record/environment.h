/* The part of the environment that steers MPI, threads, devices and the batch system. Secrets stay out. */
#pragma once
#include <stdint.h>

typedef struct {
    char **line;
    int64_t lines;
} environment; /* "NAME=value", sorted; owned */

environment environment_read(void);
void environment_free(environment *e);
