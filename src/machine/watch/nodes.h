/* Messages between nodes when a run stalls: each node has a file in a shared folder. If the node of rank 0 sees no
 * progress, it requests states; the others write those of their ranks; then it decides whether the run stalls. */
#pragma once
#include <stdbool.h>

/* Makes the folder, or removes the files of an earlier run from it. Rank 0 calls it, before nodes_open. Returns false
 * and changes nothing if the folder cannot be made, is a link or contains other files. */
bool nodes_make(const char *folder);
/* Starts a thread in each rank, which reads and writes files there from now on. */
void nodes_open(const char *folder);
/* Stops the thread. A thread that the file system blocks for seconds is not waited for. */
void nodes_close(void);
/* Removes the files of nodes, and the folder if it is then empty. Rank 0 calls it, after nodes_close on all ranks. */
void nodes_remove(const char *folder);
