/* A deck's bytes, of the file as named, or of that in the present folder's inputs/ or in the inputs/ next to the
 * program. */
#pragma once
#include <stddef.h>

typedef struct {
    char path[1024];
    char *bytes;
    size_t length;
} deck_file; /* bytes owned by the caller: free; a zero stands behind them */

/* Reads at most a little more than a deck may hold (1 MiB); bytes NULL and a sentence in reason if it cannot be read.
 */
deck_file deck_file_read(const char *name, char *reason, size_t length);
/* The same on all ranks: rank 0 reads, all receive bytes or reason, which may be that a rank has another file of that
 * name. Collective over the world. */
deck_file deck_file_share(const char *name, char *reason, size_t length);
