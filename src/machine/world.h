/* The ranks of the run: MPI for start-up, agreement and sums outside the fabric under test. The door to MPI. A process
 * that has not started it is a world of one rank, which may run a machine. "Collective" means over the whole world, in
 * the same order on all ranks; all of them end the run with status 86 when no rank of this node completes anything for
 * stall_seconds while one waits; where the run spans nodes, whose progress is not seen from here, only transfers of the
 * fabric are judged. */
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
int world_node_cores(void); /* cores of this node */
const char *world_host(void);
void world_stall_limit(double seconds);
/* So much longer is waited until the next call: for what takes time with the number of ranks. */
void world_stall_allow(double seconds);
double world_stall_seconds(void); /* with what is allowed */

/* This rank completed something. */
void world_progress(void);
/* Called between two polls of a rank that has waited since `since`: lets other ranks of this node run. True if no rank
 * of this node has completed anything for stall_seconds: every rank of the node that waits then learns it, to say for
 * what. */
bool world_stalled(double since);

void world_broadcast(void *data, size_t bytes, int root); /* collective */
void world_sum(double *values, int64_t count);            /* collective; in place, same bits on all ranks */
void world_maximum(double *values, int64_t count);        /* collective */
bool world_all(bool yes);                                 /* collective: true on every rank? */
int world_first(bool yes);                                /* collective: the first such rank, or world_ranks() */
void world_gather(const void *part, size_t bytes, void *whole,
                  int root);            /* collective; whole [ranks * bytes] on root */
void world_barrier(void);               /* collective */
void world_wait_for_root(void);         /* collective; as long as rank 0 takes (a slow disk) */
_Noreturn void world_abort(int status); /* ends every rank */

/* A sub-group: ranks of equal color, ordered by key; handle for group.handle; color < 0 joins none. `name` says which
 * split of the world it is, the same on all ranks: it is made when it is first asked for and kept for who asks again.
 * Collective. */
enum { SPLIT_NAME = 64 };
int world_split(const char *name, int color, int key);
/* Once for every world_split of that name; then its place may be taken by another split. */
void world_release(const char *name);

/* The ranks of a split's part agree on a number while they go on: asked now, answered with the largest of theirs. One
 * question at a time; the answer waits until all of them have asked. */
void world_ask(int part, int number);
int world_answer(void);

/* "Open MPI v4.1.4 ..." as loaded, in one line. */
const char *world_library(char *text, size_t length);
