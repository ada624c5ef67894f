/* The door to MPI for start-up, agreement and sums outside the fabric under test. A process that has not started MPI is
 * a world of one rank. "Collective" means over the whole world, in the same order on all ranks; waits are watched. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void world_start(int *argc, char ***argv); /* collective; installs base/fail's hook */
void world_stop(void);                     /* collective */
int world_rank(void);
int world_ranks(void);
int world_node_ranks(void); /* ranks of this node */
int world_node_rank(void);  /* own place among them */
bool world_on_node(int rank);
int world_node(int rank);   /* the lowest rank of its node */
int world_node_cores(void); /* cores of this node that its ranks may use */
int world_node_core(int i); /* the number of the i-th of them */
const char *world_host(void);

void world_broadcast(void *data, size_t bytes, int root); /* collective */
void world_sum(double *values, int64_t count);            /* collective; in place, same bits on all ranks */
void world_maximum(double *values, int64_t count);        /* collective */
void world_sum_words(uint64_t *values, int64_t count);    /* collective; modulo 2^64 */
bool world_all(bool yes);                                 /* collective: true on every rank? */
int world_first(bool yes);                                /* collective: the first such rank, or world_ranks() */
enum { WORLD_GATHER_MOST = 1 << 26 };                     /* bytes a rank of one gather; more end the program */
/* Returns `bytes` bytes of every rank, one after another, on rank 0, which frees them; else NULL. Collective. */
void *world_gather(const void *part, size_t bytes);
/* Replaces each rank's sentence by that of the lowest rank that has one. Returns that rank, or -1. Collective. */
int world_hear(char *sentence, size_t length);
void world_barrier(void);               /* collective */
_Noreturn void world_abort(int status); /* ends every rank */

/* Returns a communicator for group.handle: ranks of equal color, ordered by key; color < 0 joins none. A split of the
 * world has one name on all ranks; it is made at the first call and kept for the next. Collective. */
enum { SPLIT_NAME = 64 };
int world_split(const char *name, int color, int key);
/* Once for every world_split of that name; then its place may be taken by another split. */
void world_release(const char *name);

/* Replaces the values by their sums, or by the largest, over the ranks of a group; the same bits on all of them.
 * Collective over the group, in an order of groups in which nobody waits in a circle. */
struct group;
void world_reduce_group(const struct group *g, double *values, int64_t count, bool largest);

/* The ranks of a split's part agree on the largest of their numbers while they go on. One question at a time; the
 * answer waits until all of them have asked. */
void world_ask(int part, int number);
int world_answer(void);

/* "Open MPI v4.1.4 ..." as loaded, in one line. */
const char *world_library(char *text, size_t length);
