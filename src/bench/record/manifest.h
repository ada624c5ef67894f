/* What a record holds, as text: a line for each group, attribute and dataset, and digests over such lines. The form of
 * a line is validation/RECORD.md's: "PATH[@ATTRIBUTE] TYPE SHAPE SHA-256", the last of the value's bytes. */
#pragma once
#include "base/sha256.h"
#include <stddef.h>

typedef struct {
    char **line; /* in the order of writing; owned */
    size_t lines, room;
} manifest;

/* attribute NULL: the object itself. */
typedef struct {
    const char *path, *attribute, *type, *shape;
    const void *bytes;
    size_t length;
} manifest_item;

void manifest_add(manifest *m, const manifest_item *x);
/* SHA-256 of the lines from the from-th on, sorted by their bytes, each with a newline behind it. */
void manifest_digest(const manifest *m, size_t from, char hex[SHA256_HEX]);
void manifest_free(manifest *m);
