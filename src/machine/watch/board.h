/* The board: the states of a node's ranks in shared memory. Each rank writes its own slot, and all ranks read. */
#pragma once
#include "machine/watch/state.h"
#include <stddef.h>

typedef struct {
    _Atomic int32_t pid, rank, presence;
    _Atomic uint64_t processes; /* name space of the pid */
    _Atomic double tick, limit;
    char host[RANK_HOST];
    activity_state activity; /* published here by the rank's main thread */
} board_slot;

/* alarm: 1 + slot of the rank that prints why the run ends; told: the exit status, after it has printed. */
typedef struct {
    _Atomic uint64_t identity; /* random number, different on each board */
    _Atomic int32_t alarm, told;
    int32_t slots;
    board_slot slot[];
} board;

enum { BOARD_NAME = 64 };
/* Returns the board of that name with `slots` slots, which is made if there is none; NULL if it cannot be shared. */
board *board_attach(const char *name, int slots);
board *board_alone(void); /* one slot, not shared; NULL: no memory */
/* Takes the slot for this process. Returns false if a living process has it, or if there is no such slot. */
bool board_claim(board *b, int slot, int rank);
/* Removes the name: no other process can attach. */
void board_forget(const char *name);
/* Marks that the rank of the slot leaves without MPI. The last rank to do so removes the board of that name. */
void board_leave(board *b, int slot, const char *name);

bool board_is_gone(const board *b, int slot);
/* Reads the slot, and the state of its process from the kernel. For an absent rank only the presence is valid. */
void board_read(const board *b, int slot, double now, rank_state *s);
