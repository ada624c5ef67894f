/* The file of a rank: its fragments' state, written and read without HDF5. Not collective. */
#pragma once
#include "bench/checkpoint/folder.h"
#include "bench/checkpoint/fragments.h"

/* Writes the fragments that count into a new file, if there are any, and waits until it is on the disk. Fills in their
 * places and sums. sync: seconds of that wait. False: a sentence. */
bool rank_file_write(const char *folder, const trainer *t, own_fragments *own, double *sync,
                     char reason[CHECKPOINT_SENTENCE]);

/* Files of ranks that are read, at most RANK_FILES of them open. */
enum { RANK_FILES = 16 };
typedef struct {
    const char *folder;
    int64_t rank[RANK_FILES];
    int file[RANK_FILES], next; /* -1: the place is free */
    bool uncached;              /* the kernel forgets what it has of a file that is opened */
    char *reason;               /* [CHECKPOINT_SENTENCE] */
} rank_files;
rank_files rank_files_open(const char *folder, bool uncached, char reason[CHECKPOINT_SENTENCE]);
void rank_files_close(rank_files *f);
/* False: a sentence. */
bool rank_file_read(rank_files *f, int64_t rank, void *to, int64_t bytes, int64_t at);
/* Reads a whole fragment and compares its sums. False: the sentence names file, parameter and rows. whole: columns of
 * the parameter. */
bool rank_file_prove(rank_files *f, const saved_fragment *s, saved_state state, const char *name, int64_t whole);
