/* Host memory, for free(). If memory is short, the run ends with "no memory for WHAT: N bytes". count may be 0. */
#pragma once
#include <stdint.h>
#include <stdlib.h>

/* Returns zeroed memory. */
void *allocate(int64_t count, size_t bytes, const char *what);
/* Works as realloc: keeps the old bytes and leaves the new ones undefined. */
void *reallocate(void *memory, int64_t count, size_t bytes, const char *what);
