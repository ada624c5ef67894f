/* A hash table, for what a process keeps for each shape of a product. */
#pragma once
#include <stddef.h>

/* An entry begins with its key: key_bytes, a multiple of 8. The caller owns the entries and must not move them. */
typedef struct {
    size_t key_bytes;
    void **slot;
    size_t slots, used;
} key_table;

/* Returns the entry with this key, or NULL. */
void *key_table_find(const key_table *t, const void *key);
/* Adds an entry whose key is not in the table. */
void key_table_add(key_table *t, void *entry);
