/* The measuring arena: one block per case. Without memory it hands out paper addresses and measures bytes by kind, so
 * the same description first measures and then lays out. */
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

/* memory: capacity bytes owned by the caller and aligned to ARENA_ALIGNMENT, or NULL to measure. */
void arena_open(arena *a, void *memory, size_t capacity);
/* Take bytes, aligned. Fails (ends the run) if the arena is sealed or full: the measure and the layout differ. */
void *arena_take(arena *a, arena_kind kind, size_t bytes);
/* Where in its arena a paper address lies. */
size_t arena_paper_offset(const void *paper);
/* No further takes: the timed window begins. */
void arena_seal(arena *a);
const char *arena_kind_name(arena_kind kind);
