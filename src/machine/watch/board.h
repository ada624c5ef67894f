/* The board: the states of a node's ranks in shared memory. Each rank writes its own slot, and all ranks read. */
#pragma once
#include "machine/watch/state.h"
#include <stddef.h>

typedef struct {
    _Atomic int32_t pid, rank, presence;
    _Atomic uint64_t pid_namespace; /* inode */
    _Atomic double tick, limit;
    char host[RANK_HOST];
    activity_state activity; /* published here by the rank's main thread */
} board_slot;

/* printer: 1 + slot of the rank that prints why the run ends; exit_status: set when it has printed. */
typedef struct {
    _Atomic uint64_t identity; /* random number, different on each board */
    _Atomic int32_t printer, exit_status;
    int32_t slots;
    board_slot slot[];
} board;

enum { BOARD_NAME = 64 };
/* Returns the board of that name, which is created if it does not exist; NULL if it cannot be shared. */
board *board_attach(const char *name, int slots);
board *board_private(void); /* one slot, not shared; NULL: out of memory */
/* Assigns the slot to this process. Returns false if a living process has it, or if there is no such slot. */
bool board_claim(board *b, int slot, int rank);
/* Removes the name: no other process can attach. */
void board_unlink(const char *name);
/* Marks that the rank of the slot leaves without MPI. The last one to leave unlinks the board of that name. */
void board_leave(board *b, int slot, const char *name);

bool board_is_gone(const board *b, int slot);
/* Reads the slot, and the state of its process from the kernel. For an absent rank only the presence is valid. */
void board_read(const board *b, int slot, double now, rank_state *s);
