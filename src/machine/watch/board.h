/* The states of a node's ranks in shared memory. Each rank writes its own with plain stores; everybody reads. */
#pragma once
#include "machine/watch/state.h"
#include <stddef.h>

typedef struct {
    _Atomic int32_t pid, rank, presence;
    _Atomic uint64_t processes; /* the name space of its pid */
    _Atomic double tick, limit;
    char host[RANK_HOST];
    activity_state activity; /* published here by the rank's main thread */
} board_slot;

/* alarm: 1 + the slot whose rank tells why the run ends; told: it has, and the status is this. */
typedef struct {
    _Atomic uint64_t identity; /* differs from that of every other board */
    _Atomic int32_t alarm, told;
    int32_t slots;
    board_slot slot[];
} board;

enum { BOARD_NAME = 64 };
/* The board of that name with so many slots, which is made if there is none; NULL: it cannot be shared. */
board *board_attach(const char *name, int slots);
board *board_alone(void);
/* Takes the slot unless a living process has it. */
bool board_claim(board *b, int slot, int rank);
/* Nobody else will attach. */
void board_forget(const char *name);
/* The rank that claimed the slot leaves without MPI. The last of all ranks to do so removes the board of that name. */
void board_leave(board *b, int slot, const char *name);

bool board_is_gone(const board *b, int slot);
/* What the slot says, and what the kernel says of its process; of an absent one the presence alone. */
void board_read(const board *b, int slot, double now, rank_state *s);
