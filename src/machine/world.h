/* The door to MPI for start, agreement and sums outside the fabric under test. Without MPI_Init the world has one rank.
 * "Collective" means over the whole world, in the same order on all ranks; the watch sees these waits. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void world_start(int *argc, char ***argv); /* collective; installs the hook of base/fail */
void world_stop(void);                     /* collective */
int world_rank(void);
int world_ranks(void);
int world_node_ranks(void); /* ranks of this node */
int world_node_rank(void);  /* index of this rank among them */
bool world_on_node(int rank);
int world_node(int rank);   /* the lowest rank of the rank's node */
int world_node_cores(void); /* cores of this node that its ranks may use */
int world_node_core(int i); /* number of the i-th of these cores */
const char *world_host(void);

void world_broadcast(void *data, size_t bytes, int root); /* collective */
void world_sum(double *values, int64_t count);            /* collective; in place; same bits on all ranks */
void world_maximum(double *values, int64_t count);        /* collective */
void world_sum_words(uint64_t *values, int64_t count);    /* collective; modulo 2^64 */
bool world_all(bool yes);                                 /* collective: whether it is true on every rank */
int world_first(bool yes);                                /* collective: the lowest rank with true, or world_ranks() */
enum { WORLD_GATHER_MOST = 1 << 26 };                     /* most bytes per rank in a gather; more end the program */
/* Returns, on rank 0, `bytes` bytes of every rank in order, owned by the caller; NULL elsewhere. Collective. */
void *world_gather(const void *part, size_t bytes);
/* Replaces the sentence on every rank by that of the lowest rank that has one. Returns that rank, or -1. Collective. */
int world_hear(char *sentence, size_t length);
void world_barrier(void);               /* collective */
_Noreturn void world_abort(int status); /* terminates all ranks */

/* Returns a communicator for group.handle: ranks of equal color, ordered by key; negative colors are in none. All ranks
 * give the same name. The split is made at the first call, and later calls return it again. Collective. */
enum { SPLIT_NAME = 64 };
int world_split(const char *name, int color, int key);
/* Call it once for each world_split of that name. Another split may then replace the split. */
void world_release(const char *name);

/* Replaces the values by their sums, or maxima, over the ranks of a group; same bits on all of them. Collective over
 * the group. The order of groups must not make ranks wait in a circle. */
struct group;
void world_reduce_group(const struct group *g, double *values, int64_t count, bool largest);

/* Find the maximum number of the ranks of a split while they continue to work. One question at a time; world_answer
 * waits until all ranks have asked. */
void world_ask(int part, int number);
int world_answer(void);

/* Writes the loaded MPI library in one line: "Open MPI v4.1.4 ...". Returns text. */
const char *world_library(char *text, size_t length);
