/* Races in shared memory. Kernels are compiled so that each load and store calls the functions at the end of this file in place
 * of the address sanitizer's; they check its shadow as it would, and of shared memory they know who touched it since the last
 * barrier: two threads that touch the same bytes, one of them writing, with no barrier between, end the program.
 * This file itself is not instrumented. Single bytes are not followed. */
#include "block.h"
#include <cstdio>
#include <sanitizer/common_interface_defs.h>

namespace emulator {

enum { SHADOW_SCALE = 3, GRANULE = 2 };
static const uintptr_t shadow_offset = 0x7FFF8000;

static bool same_warp(int a, int b) { return a / LANES == b / LANES; }

__attribute__((noreturn, noinline)) static void race(size_t at, const char *now, const char *before, int other)
{
    char who[200], them[64];
    block_describe(who, sizeof who, here->home, thread_here());
    if (other == SEVERAL) snprintf(them, sizeof them, "threads of several warps have");
    else if (other >= SEVERAL_OF_WARP) snprintf(them, sizeof them, "several threads of warp %d have", (other - SEVERAL_OF_WARP) / LANES);
    else snprintf(them, sizeof them, "thread %d has", other);
    __sanitizer_print_stack_trace();
    emulator_fail("%s %s byte %zu of shared memory, which %s %s without a barrier between", who, now, at, them, before);
}

/* Has this thread come by no barrier since another thread's access at that time? */
static inline bool unordered(uint32_t epoch, uint32_t round, int other, int me)
{
    return epoch == here->home->epoch && other != me && !(other < SEVERAL_OF_WARP && same_warp(other, me) && round < here->round);
}

static inline void follow_read(touched &t, size_t at, int me)
{
    const uint32_t epoch = here->home->epoch;
    if (unordered(t.written, t.written_round, t.writer, me)) race(at, "reads", "written", t.writer);
    if (t.read == epoch && t.reader != me) {
        int one = t.reader < SEVERAL_OF_WARP ? t.reader : t.reader - SEVERAL_OF_WARP;
        if (t.reader == SEVERAL || !same_warp(one, me)) t.reader = SEVERAL;
        else t.reader = uint16_t(t.read_round == here->round ? SEVERAL_OF_WARP + me : me);
    } else t.reader = uint16_t(me);
    t.read = epoch;
    t.read_round = here->round;
}

static inline void follow_write(touched &t, size_t at, int me)
{
    if (unordered(t.written, t.written_round, t.writer, me)) race(at, "writes", "written", t.writer);
    int reader = t.reader != SEVERAL && t.reader >= SEVERAL_OF_WARP && t.read_round < here->round ? t.reader - SEVERAL_OF_WARP : t.reader;
    if (unordered(t.read, t.read_round, reader, me)) race(at, "writes", "read", t.reader);
    t.written = here->home->epoch;
    t.written_round = here->round;
    t.writer = uint16_t(me);
}

template <bool write> static inline void follow(uintptr_t address, size_t bytes)
{
    const block *b = here->home;
    size_t at = address - reinterpret_cast<uintptr_t>(b->shared), end = at + bytes;
    if (at >= b->shared_bytes || bytes < GRANULE) return;
    for (int me = thread_here(); at < end; at += GRANULE) {
        if (write) follow_write(b->history[at / GRANULE], at, me);
        else follow_read(b->history[at / GRANULE], at, me);
    }
}

/* As the address sanitizer's instrumentation: of eight bytes, none, all or the last so many are poisoned. */
template <int bytes> static inline bool poisoned(uintptr_t address)
{
    const int8_t *shadow = reinterpret_cast<const int8_t *>((address >> SHADOW_SCALE) + shadow_offset);
    if (bytes == 16) return (shadow[0] | shadow[1]) != 0 || ((address & 7) && shadow[2] != 0);
    if (bytes == 8 && (address & 7)) return __asan_region_is_poisoned(reinterpret_cast<void *>(address), 8) != NULL;
    return shadow[0] != 0 && (bytes == 8 || int((address & 7) + bytes - 1) >= shadow[0]);
}

}

using namespace emulator;

#define ACCESS(kind, bytes, write) \
    extern "C" void __asan_report_##kind##bytes(uintptr_t address); \
    extern "C" void __asan_##kind##bytes(uintptr_t address); \
    extern "C" void __asan_##kind##bytes(uintptr_t address) \
    { \
        if (poisoned<bytes>(address)) __asan_report_##kind##bytes(address); \
        if (here) follow<write>(address, bytes); \
    }
ACCESS(load, 1, false)
ACCESS(load, 2, false)
ACCESS(load, 4, false)
ACCESS(load, 8, false)
ACCESS(load, 16, false)
ACCESS(store, 1, true)
ACCESS(store, 2, true)
ACCESS(store, 4, true)
ACCESS(store, 8, true)
ACCESS(store, 16, true)

#define ACCESS_OF_ANY_SIZE(kind, report, write) \
    extern "C" void report(uintptr_t address, size_t bytes); \
    extern "C" void __asan_##kind##N(uintptr_t address, size_t bytes); \
    extern "C" void __asan_##kind##N(uintptr_t address, size_t bytes) \
    { \
        if (__asan_region_is_poisoned(reinterpret_cast<void *>(address), bytes)) report(address, bytes); \
        if (here) follow<write>(address, bytes); \
    }
ACCESS_OF_ANY_SIZE(load, __asan_report_load_n, false)
ACCESS_OF_ANY_SIZE(store, __asan_report_store_n, true)
