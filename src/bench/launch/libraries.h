/* The shared libraries of this process: which files they are, and whether all ranks have the same. */
#pragma once
#include "plan/bench_case.h"

/* identity: the linker's build id, or where a library has none its size and the SHA-256 of its first and last bytes. */
enum { LIBRARY_PATH = 448, LIBRARY_IDENTITY = 48 };
typedef struct {
    char path[LIBRARY_PATH], identity[LIBRARY_IDENTITY];
    bool preloaded; /* the program does not ask for it: LD_PRELOAD or /etc/ld.so.preload does */
} library;

typedef struct library_list {
    int count;
    library *item; /* owned: libraries_free */
} library_list;

/* Those that are loaded now, in the order in which they were; without the kernel's. */
library_list libraries_loaded(void);
void libraries_free(library_list *l);
/* Says which library of this rank is another file than rank 0's of that name; if `whole`, also which rank 0 has not, or
 * this rank lacks: so it is as the program starts, while what is loaded later may depend on the node. Empty: none.
 * Collective over the world. */
void libraries_compare(const library_list *own, bool whole, char sentence[REASON_LENGTH]);
