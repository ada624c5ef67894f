/* What nodes tell each other when a run stalls, by a file each in a shared folder: the node of rank 0 asks when it is
 * without progress, the others write what their ranks do, and it judges. */
#pragma once
#include <stdbool.h>

/* Makes the folder, or removes an earlier run's files from it; for rank 0, before nodes_open. Returns false and changes
 * nothing if it cannot be made, is a link or holds anything else. */
bool nodes_make(const char *folder);
/* Reads and writes files there from now on: a thread does, in each rank. */
void nodes_open(const char *folder);
/* Stops that. A thread that a file system holds for seconds is left to itself. */
void nodes_close(void);
/* Removes the files of nodes, and the folder if it holds nothing else. For rank 0, after all have closed it. */
void nodes_remove(const char *folder);
