/* A running block of threads, and its warps. */
#pragma once
#include "fiber.h"
#include "inside.h"

namespace emulator
{

enum { LANES = 32, LARGEST_WARPS = 32 };

/* The last writer and reader of two bytes of shared memory, with the numbers of block barriers and warp meetings passed
 * before. */
enum { SEVERAL_OF_WARP = 0x8000, SEVERAL = 0xFFFF }; /* SEVERAL_OF_WARP + a thread of that warp */
struct touched {
    uint32_t written, written_round, read, read_round;
    uint16_t writer, reader;
};

struct block;

struct warp {
    block *home;
    int first;                                  /* thread of lane 0 */
    int ready, waiting, at_block_barrier, gone; /* numbers of lanes */
    uint8_t lane[LANES];                        /* ready lanes */
    fiber *suspended[LANES];                    /* NULL: not started */
    emulator_site site;                         /* where the waiting lanes wait */
    size_t bytes;                               /* from each waiting lane */
    uint32_t round;                             /* two per meeting: before the last lane combines, and after */
    alignas(16) unsigned char slots[2][LANES][EMULATOR_LANE_BYTES];
};

struct block {
    uint3 index;
    int warps, waiting, gone; /* numbers of threads */
    emulator_site site;
    unsigned char *shared;
    touched *history; /* one for every two bytes of shared */
    uint32_t epoch;   /* barriers passed by this block and by earlier blocks in its place */
    warp *warp_of[LARGEST_WARPS];
};

/* The warp (NULL if no kernel runs) and the lane of the running thread. */
extern warp *here;
extern int lane_here;
inline int thread_here() { return here->first + lane_here; }
/* Shared memory of its block; 0 bytes if no kernel runs. */
extern uintptr_t shared_begin;
extern size_t shared_bytes;
/* Writes "kernel NAME, block 1 0 0, thread 5". */
void block_describe(char *text, size_t length, const block *b, int thread);

} // namespace emulator
