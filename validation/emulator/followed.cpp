/* Loads and stores of kernels. The compiler instruments them as for the thread sanitizer, and each calls a function at
 * the end of this file. It checks the address sanitizer's shadow. For shared memory it keeps the threads that touched
 * it since the last barrier: if two threads access the same bytes without a barrier and one of them writes, the program
 * fails. Single bytes are not followed. This file itself is not instrumented. */
#include "block.h"
#include <cstdio>
#include <sanitizer/common_interface_defs.h>

extern "C" __attribute__((noreturn)) void __asan_report_load_n(uintptr_t address, size_t bytes);
extern "C" __attribute__((noreturn)) void __asan_report_store_n(uintptr_t address, size_t bytes);

namespace emulator
{

enum { SHADOW_SCALE = 3, GRANULE = 2 };
static const uintptr_t shadow_offset = 0x7FFF8000;

static bool same_warp(int a, int b) { return a / LANES == b / LANES; }

__attribute__((noreturn, noinline)) static void race(size_t at, const char *now, const char *before, int other)
{
    char who[200], them[64];
    block_describe(who, sizeof who, here->home, thread_here());
    if (other == SEVERAL) snprintf(them, sizeof them, "threads of several warps have");
    else if (other >= SEVERAL_OF_WARP)
        snprintf(them, sizeof them, "several threads of warp %d have", (other - SEVERAL_OF_WARP) / LANES);
    else snprintf(them, sizeof them, "thread %d has", other);
    __sanitizer_print_stack_trace();
    emulator_fail("%s %s byte %zu of shared memory, which %s %s without a barrier between", who, now, at, them, before);
}

/* Returns whether no barrier separates this thread from another thread's access at that time. */
static inline bool unordered(uint32_t epoch, uint32_t round, int other, int me)
{
    return epoch == here->home->epoch && other != me &&
           !(other < SEVERAL_OF_WARP && same_warp(other, me) && round < here->round);
}

static inline void follow_read(touched &t, size_t at, int me)
{
    const uint32_t epoch = here->home->epoch, round = here->round;
    if (t.written == epoch && unordered(epoch, t.written_round, t.writer, me)) race(at, "reads", "written", t.writer);
    if (t.read == epoch && (t.reader == SEVERAL || (t.reader == me && t.read_round == round))) return;
    if (t.read == epoch && t.reader != me) {
        int one = t.reader < SEVERAL_OF_WARP ? t.reader : t.reader - SEVERAL_OF_WARP;
        if (!same_warp(one, me)) t.reader = SEVERAL;
        else t.reader = uint16_t(t.read_round == round ? SEVERAL_OF_WARP + me : me);
    } else t.reader = uint16_t(me);
    t.read = epoch;
    t.read_round = round;
}

static inline void follow_write(touched &t, size_t at, int me)
{
    if (unordered(t.written, t.written_round, t.writer, me)) race(at, "writes", "written", t.writer);
    int reader = t.reader != SEVERAL && t.reader >= SEVERAL_OF_WARP && t.read_round < here->round
                     ? t.reader - SEVERAL_OF_WARP
                     : t.reader;
    if (unordered(t.read, t.read_round, reader, me)) race(at, "writes", "read", t.reader);
    t.written = here->home->epoch;
    t.written_round = here->round;
    t.writer = uint16_t(me);
}

template <bool write> __attribute__((noinline)) static void follow(size_t at, size_t bytes)
{
    const block *b = here->home;
    const int me = thread_here();
    for (size_t end = at + bytes; at < end; at += GRANULE) {
        if (write) follow_write(b->history[at / GRANULE], at, me);
        else follow_read(b->history[at / GRANULE], at, me);
    }
}

/* Returns whether any byte is poisoned. Of eight bytes, the sanitizer poisons none, all, or the last few. */
static inline bool poisoned(uintptr_t address, size_t bytes)
{
    const int8_t *shadow = reinterpret_cast<const int8_t *>((address >> SHADOW_SCALE) + shadow_offset);
    if ((address & 7) + bytes <= 8) return shadow[0] != 0 && int((address & 7) + bytes - 1) >= shadow[0];
    if (address % 8 == 0 && bytes == 16) return (shadow[0] | shadow[1]) != 0;
    return __asan_region_is_poisoned(reinterpret_cast<void *>(address), bytes) != NULL;
}

template <bool write> __attribute__((noinline)) static void report(uintptr_t address, size_t bytes)
{
    if (write) __asan_report_store_n(address, bytes);
    else __asan_report_load_n(address, bytes);
}

template <bool write> __attribute__((always_inline)) static inline void access(uintptr_t address, size_t bytes)
{
    if (__builtin_expect(poisoned(address, bytes), 0)) report<write>(address, bytes);
    size_t at = address - shared_begin;
    if (at < shared_bytes && bytes >= GRANULE) follow<write>(at, bytes);
}

} // namespace emulator

using namespace emulator;

#define SANITIZER_CALL(name, arguments)                                                                                \
    extern "C" void name arguments;                                                                                    \
    void name arguments
#define ACCESS(bytes)                                                                                                  \
    SANITIZER_CALL(__tsan_read##bytes, (uintptr_t address)) { access<false>(address, bytes); }                         \
    SANITIZER_CALL(__tsan_write##bytes, (uintptr_t address)) { access<true>(address, bytes); }                         \
    SANITIZER_CALL(__tsan_unaligned_read##bytes, (uintptr_t address)) { access<false>(address, bytes); }               \
    SANITIZER_CALL(__tsan_unaligned_write##bytes, (uintptr_t address)) { access<true>(address, bytes); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
SANITIZER_CALL(__tsan_read_range, (uintptr_t address, size_t bytes)) { access<false>(address, bytes); }
SANITIZER_CALL(__tsan_write_range, (uintptr_t address, size_t bytes)) { access<true>(address, bytes); }
SANITIZER_CALL(__tsan_vptr_read, (uintptr_t)) {}
SANITIZER_CALL(__tsan_vptr_update, (uintptr_t, uintptr_t)) {}
SANITIZER_CALL(__tsan_func_entry, (uintptr_t)) {}
SANITIZER_CALL(__tsan_func_exit, (void)) {}
SANITIZER_CALL(__tsan_init, (void)) {}
/* Called at the first use of a static variable. */
extern "C" char __tsan_atomic8_load(const volatile char *p, int order);
char __tsan_atomic8_load(const volatile char *p, int) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
