/* The arena. */
#include "base/arena.h"
#include "base/fail.h"
#include <stdint.h>

static char *const paper_base = (char *)(uintptr_t)((uint64_t)1 << 40);

void arena_open(arena *a, void *memory, size_t capacity)
{
    *a = (arena){ .base = memory ? memory : paper_base, .capacity = capacity, .paper = memory == NULL };
}

void *arena_take(arena *a, arena_kind kind, size_t bytes)
{
    size_t padded = (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    if (a->sealed) FAIL("arena: %zu bytes of %s asked for after sealing", bytes, arena_kind_name(kind));
    if (!a->paper && padded > a->capacity - a->used)
        FAIL("arena: %zu bytes of %s asked for, %zu left of %zu", bytes, arena_kind_name(kind), a->capacity - a->used,
             a->capacity);
    char *taken = a->base + a->used;
    a->used += padded;
    a->by_kind[kind] += padded;
    return taken;
}

size_t arena_paper_offset(const void *paper) { return (size_t)((uintptr_t)paper - (uintptr_t)paper_base); }

void arena_seal(arena *a) { a->sealed = true; }

const char *arena_kind_name(arena_kind kind)
{
    static const char *const names[ARENA_KINDS] = { "weights",     "gradients", "optimizer",
                                                    "activations", "batch",     "scratch" };
    return names[kind];
}
