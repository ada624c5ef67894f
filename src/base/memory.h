/* Memory of the host, for free(); without it the run ends with "no memory for WHAT: N bytes". A count may be 0. */
#pragma once
#include <stdint.h>
#include <stdlib.h>

/* Zeros. */
void *allocate(int64_t count, size_t bytes, const char *what);
/* As realloc: keeps the old bytes, and leaves the new ones undefined. */
void *reallocate(void *memory, int64_t count, size_t bytes, const char *what);
