/* A hash table of things by key, for what a process keeps of each shape that it has met. */
#pragma once
#include <stddef.h>

/* A table. A thing begins with its key, key_bytes of whole 8-byte integers. Things stay the caller's, and in place. */
typedef struct {
    size_t key_bytes;
    void **slot;
    size_t slots, used;
} key_table;

/* Returns the thing with this key, or NULL. */
void *key_table_find(const key_table *t, const void *key);
/* Adds a thing whose key is not in the table. Allocates memory when the table grows. */
void key_table_add(key_table *t, void *thing);
