/* An arena in memory that NCCL maps on all ranks (symmetric windows). There, copy engines gather without using an SM.
 * The memory is kept for the whole run, and a window as long as its communicator: registering tens of gigabytes takes
 * time, and NCCL leaked memory when it was repeated. This is process state, like the communicators. */
#pragma once
#include "machine/cuda/transfers/first_transfers.h"
#include "machine/op/fabric.h"

/* Announces the largest arena of the run in bytes. The first arena gets that much memory, if the device has it. */
void cuda_window_reserve(size_t bytes);
/* Returns memory for an arena, registered with the communicators of those groups whose ranks copy engines can reach.
 * Collective over `all`, which contains the groups. bytes: the same on all ranks. If one rank cannot have windows, or
 * there are no groups, all ranks get plain memory and kernels do the transfers (cuda_window_text writes why). */
void *cuda_window_take(size_t bytes, group *const *list, int groups, group *all);
/* Returns whether copy engines do the group's all-gathers and all-to-alls. */
bool cuda_window_moves(const group *g);
/* Frees memory of cuda_window_take. Memory of windows is kept for the next arena. */
void cuda_window_give_back(void *memory);
/* Returns the bytes of kept memory that hold no arena. */
size_t cuda_window_kept(void);
/* Returns whether the address lies in a window of the communicator on this rank. */
bool cuda_window_holds(const void *place, const cuda_communicator *c);
/* Writes how transfers are done, or an empty text if there are none. Returns text. */
const char *cuda_window_text(char *text, size_t length);
