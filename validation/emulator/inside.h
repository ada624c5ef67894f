/* Shared by the emulator's files. */
#pragma once
#include "emulator.h"
#include <sanitizer/asan_interface.h>

namespace emulator
{

extern emulator_counts counts;

/* xorshift64* (Vigna 2016); the high half is scaled to n. */
extern uint64_t random_state;
inline unsigned draw(unsigned n)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return unsigned((((random_state * 0x2545F4914F6CDD1Du) >> 32) * n) >> 32);
}

/* True while emulated work runs, false in the host program. */
extern bool running;

/* Device memory is poisoned while the host program runs, so that an access from there is found. */
void memory_unlock();
void memory_lock();

/* Returns whether the memory is in one live allocation. */
bool in_device(const void *p, size_t bytes);
bool in_pinned(const void *p, size_t bytes);

/* Called when the host program, not emulated work, calls the runtime. */
void enter(const char *call);
/* Called when the host waits. Counts the wait; fails inside a step. */
void synchronizing(const char *call);

/* Returns CUDA's legacy stream, which the runtime uses for synchronous copies: no other stream waits for it. */
cudaStream_t legacy_stream();
void stream_check(cudaStream_t s, const char *call);
void stream_finish(cudaStream_t s, const char *call);
/* Runs a few items of any streams, possibly none. */
void advance_somewhat();

bool has_device();

/* Runs all blocks of the grid. */
void grid_run(const emulator_launch_plan &plan);

} // namespace emulator

/* First statement of runtime calls that need a device. */
#define EMULATOR_CALL()                                                                                                \
    emulator::enter(__func__);                                                                                         \
    if (!emulator::has_device()) return emulator_last_error(cudaErrorNoDevice)

/* Remembers an error for cudaGetLastError and returns it. */
cudaError_t emulator_last_error(cudaError_t code);
