/* Hash table with open addressing, at most half full. */
#include "base/key_table.h"
#include "base/memory.h"
#include <stdint.h>
#include <string.h>

static size_t hash(const key_table *t, const void *key)
{
    const uint64_t *word = key;
    uint64_t h = 0;
    for (size_t i = 0; i < t->key_bytes / sizeof *word; i++) h = (h ^ word[i]) * 0x9E3779B97F4A7C15u, h ^= h >> 29;
    return (size_t)h;
}

/* Returns the slot with this key, or the empty slot where it belongs. */
static void **find_slot(const key_table *t, const void *key)
{
    size_t i = hash(t, key) & (t->slots - 1);
    while (t->slot[i] && memcmp(t->slot[i], key, t->key_bytes) != 0) i = (i + 1) & (t->slots - 1);
    return &t->slot[i];
}

static void grow(key_table *t)
{
    key_table old = *t;
    t->slots = old.slots ? 2 * old.slots : 256;
    t->slot = allocate((int64_t)t->slots, sizeof *t->slot, "a table of things by key");
    for (size_t i = 0; i < old.slots; i++)
        if (old.slot[i]) *find_slot(t, old.slot[i]) = old.slot[i];
    free(old.slot);
}

void *key_table_find(const key_table *t, const void *key) { return t->slots ? *find_slot(t, key) : NULL; }

void key_table_add(key_table *t, void *entry)
{
    if (2 * (t->used + 1) > t->slots) grow(t);
    *find_slot(t, entry) = entry;
    t->used++;
}
