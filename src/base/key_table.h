/* A table of things by their keys, for what a process keeps of each shape it has met. */
#pragma once
#include <stddef.h>

/* A thing begins with its key, key_bytes of whole 8-byte integers. Things are the caller's and stay where they are. */
typedef struct {
    size_t key_bytes;
    void **slot;
    size_t slots, used;
} key_table;

/* Returns the thing, or NULL. */
void *key_table_find(const key_table *t, const void *key);
/* Adds a thing whose key the table lacks; allocates when it grows. */
void key_table_add(key_table *t, void *thing);
