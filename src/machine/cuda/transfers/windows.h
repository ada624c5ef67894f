/* Memory that NCCL maps: from its window to the windows of the other ranks copy engines move what is gathered, and no
 * multiprocessor is taken. Of the process, as the communicators are. */
#pragma once
#include "machine/op/fabric.h"

/* Memory for an arena: where NCCL can, a window of every communicator of those groups that lie on this node. Collective
 * over the groups, as many bytes on all ranks, who then gather at equal offsets. */
void *cuda_window_take(size_t bytes, group *const *of, int groups);
/* Is the window that was taken one of that group's? */
bool cuda_window_moves(const group *g);
/* Gives back memory of either kind. */
void cuda_window_give_back(void *memory);
/* Is that place of this rank in a window of the communicator? */
bool cuda_window_holds(const void *place, const void *communicator);
/* How transfers are made, in words that follow others; nothing where there are none. */
const char *cuda_window_words(char *text, size_t length);
