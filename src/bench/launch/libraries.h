/* The shared libraries of this process, and whether all ranks have the same files. */
#pragma once
#include "plan/bench_case.h"

/* identity: build id of the linker. A library without build id has its size and the SHA-256 of its first and last 64
 * KiB. */
enum { LIBRARY_PATH = 448, LIBRARY_IDENTITY = 48 };
typedef struct {
    char path[LIBRARY_PATH], identity[LIBRARY_IDENTITY];
    bool preloaded; /* loaded because of LD_PRELOAD or /etc/ld.so.preload, not by the program */
} library;

typedef struct library_list {
    int count;
    library *item; /* [count], freed by libraries_free */
} library_list;

/* Returns the libraries that are loaded now, in order of loading, without that of the kernel. */
library_list libraries_loaded(void);
void libraries_free(library_list *l);
/* Writes a sentence on the first library that differs from rank 0's library of that name; empty if none differs.
 * same_set: also on a library that only one of the two ranks has; false after the program's start, because libraries
 * that are loaded later may depend on the node. Collective over the world. */
void libraries_compare(const library_list *own, bool same_set, char sentence[REASON_LENGTH]);
