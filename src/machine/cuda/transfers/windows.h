/* An arena in memory that NCCL maps on all ranks (symmetric windows): copy engines move what is gathered there, and no
 * SM is taken. The memory is kept for the whole run, a window as long as its communicator: registering tens of
 * gigabytes takes time, and NCCL has lost memory where it was done again and again. Process state, as the communicators
 * are. */
#pragma once
#include "machine/cuda/transfers/first_transfers.h"
#include "machine/op/fabric.h"

/* The arenas to come are at most so large: the first that is taken gets as much, if the device has it. */
void cuda_window_reserve(size_t bytes);
/* Returns memory for an arena and registers it with every communicator of the groups whose ranks copy engines reach.
 * Collective over `all`, which holds the other groups. Every rank gets plain memory, and kernels make transfers, if one
 * of them cannot have windows (cuda_window_words says why) or there are no groups. bytes: the same on all ranks. */
void *cuda_window_take(size_t bytes, group *const *of, int groups, group *all);
/* Returns whether gathers and all-to-alls of the group are made by copy engines. */
bool cuda_window_moves(const group *g);
/* Gives back memory of either kind. */
void cuda_window_give_back(void *memory);
/* Returns how many of the bytes that are kept hold no arena. */
size_t cuda_window_kept(void);
/* Returns whether the place of this rank lies in a window of the communicator. */
bool cuda_window_holds(const void *place, const cuda_communicator *c);
/* Writes how transfers are made; nothing where there are none. */
const char *cuda_window_words(char *text, size_t length);
