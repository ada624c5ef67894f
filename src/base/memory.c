/* Allocation that ends the run if memory is short. */
#include "base/memory.h"
#include "base/fail.h"

/* Returns SIZE_MAX on overflow, which no allocation can provide. */
static size_t product(int64_t count, size_t bytes)
{
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return SIZE_MAX;
    return all ? all : 1;
}

void *allocate(int64_t count, size_t bytes, const char *what)
{
    size_t all = product(count, bytes);
    void *memory = calloc(1, all);
    if (!memory) FAIL("no memory for %s: %zu bytes", what, all);
    return memory;
}

void *reallocate(void *memory, int64_t count, size_t bytes, const char *what)
{
    size_t all = product(count, bytes);
    void *larger = realloc(memory, all);
    if (!larger) FAIL("no memory for %s: %zu bytes", what, all);
    return larger;
}
