/* The file of one rank: its fragments' state, written and read without HDF5. None of these calls is collective. */
#pragma once
#include "bench/checkpoint/checkpoint.h"
#include "bench/checkpoint/fragments.h"

/* Returns the bytes that the rank's file will have, without its headers; 0: this rank writes none. */
double shard_bytes(const own_fragments *own);
/* Writes the fragments that count into a new file in the folder and waits until they are on the disk. Fills in their
 * places and sums. sync: seconds of that wait. False: a sentence. */
bool shard_write(const char *folder, const trainer *t, own_fragments *own, double *sync,
                 char reason[CHECKPOINT_SENTENCE]);

/* Files of ranks, opened as they are read. */
enum { SHARD_FILES = 16 };
typedef struct {
    const char *folder;
    int64_t rank[SHARD_FILES];
    int file[SHARD_FILES], next; /* file -1: the place is free */
    bool uncached;               /* the kernel is asked to forget what it has of them */
    char reason[CHECKPOINT_SENTENCE];
} shard_files;
shard_files shard_files_open(const char *folder, bool uncached);
void shard_files_close(shard_files *f);
/* Reads `bytes` bytes of a rank's file. False: a sentence in f->reason. */
bool shard_read(shard_files *f, int64_t rank, void *to, size_t bytes, int64_t at);
/* Reads a whole fragment and compares its sums. False: f->reason names file, parameter and elements. name: of the
 * parameter, whose matrix has `whole` columns; bytes: of an element. */
bool shard_prove(shard_files *f, const saved_fragment *s, saved_state state, const char *name, int64_t whole,
                 size_t bytes);
