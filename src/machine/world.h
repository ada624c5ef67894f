/* All use of MPI except the transfers under test. The world has one rank if MPI is not started. "Collective": all ranks
 * of the world, or of its part after world_part_begin, call it, in the same order; the watch (machine/watch/) detects a
 * hang in it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void world_start(int *argc, char ***argv); /* collective; base/fail then ends all ranks */
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

void world_broadcast(void *data, size_t bytes, int root); /* collective; root: world rank */
void world_sum(double *values, int64_t count);            /* collective; in place; same bits on all ranks */
void world_maximum(double *values, int64_t count);        /* collective */
void world_sum_words(uint64_t *values, int64_t count);    /* collective; modulo 2^64 */
bool world_all(bool yes);                                 /* collective: whether it is true on every rank */
int world_first(bool yes);                                /* collective: the lowest rank with true, or world_ranks() */
enum { WORLD_GATHER_MOST = 1 << 26 };                     /* most bytes per rank in a gather; more end the program */
/* Returns, on the first rank, `bytes` bytes of every rank in order, owned by the caller; NULL elsewhere. Collective. */
void *world_gather(const void *part, size_t bytes);
/* Gives every rank the sentence of the lowest rank that has one. Returns that rank, or -1. Collective. */
int world_share_sentence(char *sentence, size_t length);
void world_barrier(void);               /* collective */
_Noreturn void world_abort(int status); /* terminates all ranks */

/* Restrict the collective functions above to a part of the world: to the ranks that give the same `first`, the lowest
 * of them. Ranks keep their numbers. name: of the split (world_split). Both are collective over the world. */
void world_part_begin(const char *name, int first);
void world_part_end(void);  /* does nothing in the whole world */
int world_part_rank(void);  /* place of this rank in the part; its rank in the whole world */
int world_part_ranks(void); /* ranks of the part */
int world_part_first(void); /* the lowest of them */

/* Returns a communicator (group.handle) of the ranks of equal color, ordered by key; a negative color is in none. All
 * ranks give the same name. The first call with a name makes the split, later calls return it again. Collective. */
enum { SPLIT_NAME = 64 };
int world_split(const char *name, int color, int key);
/* Call it once for each world_split of that name. After the last call, the communicator may be freed. */
void world_release(const char *name);

/* Replaces the values by their sums, or maxima, over the ranks of a group; same bits on all of them. Collective over
 * the group: all ranks call it for their groups in an order that cannot deadlock. */
struct group;
void world_reduce_group(const struct group *g, double *values, int64_t count, bool largest);

/* Find the largest number of all ranks while they continue to work. world_end_maximum waits until all have begun. One
 * maximum at a time. Collective over the communicator, which world_split returned. */
void world_begin_maximum(int communicator, int number);
int world_end_maximum(void);

/* Writes the loaded MPI library in one line: "Open MPI v4.1.4 ...". Returns text. */
const char *world_library(char *text, size_t length);
