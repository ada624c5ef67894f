/* The bytes of a deck. The file is searched for as named, then in ./inputs/, then in inputs/ next to the program. */
#pragma once
#include <stddef.h>

typedef struct {
    char path[1024];
    char *bytes;
    size_t length;
} deck_file; /* bytes: owned by the caller; a zero byte follows them */

/* Reads a deck or a machine sheet. Of a file above 64 MiB, reads only the first 1 MiB + 1 byte. If the file cannot be
 * read, bytes is NULL and `reason` has a sentence. */
deck_file deck_file_read(const char *name, char *reason, size_t length);
/* Reads the file on rank 0 and sends bytes or reason to all ranks. It also fails if a rank has a different file of that
 * name. Collective over the world. */
deck_file deck_file_share(const char *name, char *reason, size_t length);
