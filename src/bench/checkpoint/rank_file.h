/* The file of a rank: the state of its fragments, written and read without HDF5. Not collective. */
#pragma once
#include "bench/checkpoint/folder.h"
#include "bench/checkpoint/fragments.h"

/* Writes the fragments with `writes` into a new file, if there are any, and waits until it is on the disk. Sets their
 * bytes `at` and sums. sync: seconds of the wait. Returns false and a sentence if it cannot. */
bool rank_file_write(const char *folder, const trainer *t, own_fragments *own, double *sync,
                     char reason[CHECKPOINT_SENTENCE]);

/* Files of ranks for reading. At most RANK_FILES are open. */
enum { RANK_FILES = 16 };
typedef struct {
    const char *folder;
    int64_t rank[RANK_FILES];
    int file[RANK_FILES], next; /* file descriptors, -1 if free; next: the next to close */
    bool uncached;              /* drops a file from the page cache when it is opened */
    char *reason;               /* [CHECKPOINT_SENTENCE] */
} rank_files;
rank_files rank_files_open(const char *folder, bool uncached, char reason[CHECKPOINT_SENTENCE]);
void rank_files_close(rank_files *f);
/* Reads bytes of a rank's file, from byte `at`. Returns false and a sentence if it cannot. */
bool rank_file_read(rank_files *f, int64_t rank, void *to, int64_t bytes, int64_t at);
/* Reads a whole fragment and compares its sums. Returns false and a sentence with file, parameter and rows if they
 * differ or the file cannot be read. width: columns of the whole parameter. */
bool rank_file_verify(rank_files *f, const saved_fragment *s, saved_state state, const char *name, int64_t width);
