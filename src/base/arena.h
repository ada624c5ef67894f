/* The arena: one block of memory for a case. Without memory it returns paper addresses and counts bytes by kind, so the
 * same code first measures a case and then lays it out. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef enum { WEIGHTS, GRADIENTS, OPTIMIZER, ACTIVATIONS, BATCH, SCRATCH, ARENA_KINDS } arena_kind;
enum { ARENA_ALIGNMENT = 64 };

typedef struct {
    char *base;                  /* first byte, or a paper address */
    size_t capacity, used;       /* bytes */
    size_t by_kind[ARENA_KINDS]; /* bytes taken for each kind, padding included */
    bool paper, sealed;
} arena;

/* Opens an arena. memory: capacity bytes owned by the caller and aligned to ARENA_ALIGNMENT, or NULL to measure. */
void arena_open(arena *a, void *memory, size_t capacity);
/* Takes aligned bytes. Ends the run if the arena is sealed or full: the layout then differs from the measure. */
void *arena_take(arena *a, arena_kind kind, size_t bytes);
/* Returns the offset of a paper address in its arena. */
size_t arena_paper_offset(const void *paper);
/* Forbids further takes: steps allocate nothing. */
void arena_seal(arena *a);
const char *arena_kind_name(arena_kind kind);
