/* A block of threads that is being run, and its warps. */
#pragma once
#include "fiber.h"
#include "inside.h"

namespace emulator
{

enum { LANES = 32, LARGEST_WARPS = 32 };

/* Who last wrote and read two bytes of shared memory, and when: the block's barrier and the warp's meeting passed
 * before. */
enum { SEVERAL_OF_WARP = 0x8000, SEVERAL = 0xFFFF }; /* SEVERAL_OF_WARP + a thread of that warp */
struct touched {
    uint32_t written, written_round, read, read_round;
    uint16_t writer, reader;
};

struct block;

struct warp {
    block *home;
    int first;                                  /* thread of its lane 0 */
    int ready, waiting, at_block_barrier, gone; /* lanes */
    uint8_t lane[LANES];                        /* the ready ones */
    fiber *suspended[LANES];                    /* NULL: not begun */
    emulator_site site;                         /* where the waiting ones wait */
    size_t bytes;                               /* that each of them brings */
    uint32_t round;                             /* two a meeting: before the last lane combines, and after */
    alignas(16) unsigned char slots[2][LANES][EMULATOR_LANE_BYTES];
};

struct block {
    uint3 index;
    int warps, waiting, gone; /* threads */
    emulator_site site;
    unsigned char *shared;
    touched *history; /* of each two bytes of it */
    uint32_t epoch;   /* barriers passed, this block's and those of blocks in this place before it */
    warp *warp_of[LARGEST_WARPS];
};

/* The running thread's warp (NULL: no kernel runs) and lane. */
extern warp *here;
extern int lane_here;
inline int thread_here() { return here->first + lane_here; }
/* Its block's shared memory; no bytes if no kernel runs. */
extern uintptr_t shared_begin;
extern size_t shared_bytes;
/* "kernel NAME, block 1 0 0, thread 5" */
void block_describe(char *text, size_t length, const block *b, int thread);

} // namespace emulator
