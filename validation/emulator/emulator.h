/* The emulated device, as fakes of libraries and tests use it. C and C++ both take this file. Nothing runs when it is
 * queued: the device advances only inside calls that synchronize or query, in the caller's thread, one randomly chosen
 * item at a time among the heads of streams for which enough multiprocessors are free (seed: environment
 * EMULATOR_SEED). */
#pragma once
#include <cuda_runtime.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Queues run(data) on the stream; it runs later, in one go. release(data), if not NULL, is called once it has run. */
void emulator_enqueue(cudaStream_t s, const char *what, void (*run)(void *), void *data, void (*release)(void *));
/* When the stream gets there, the work begins as soon as may_begin(data) says true. test(data) is called from then on
 * until it says true. */
void emulator_enqueue_polled(cudaStream_t s, const char *what, bool (*may_begin)(void *), bool (*test)(void *),
                             void *data, void (*release)(void *));
/* The item that was queued last holds so many multiprocessors from its beginning to its end. It begins when as many are
 * free. An item for which nothing was said holds none. */
void emulator_occupy(cudaStream_t s, int multiprocessors);
/* Returns how many multiprocessors the device has: EMULATOR_SMS (environment), or those of an H100. */
int emulator_multiprocessors(void);
/* The bytes must lie in one live device allocation (emulator_range), or there or in pinned host memory
 * (emulator_reach). */
void emulator_range(const void *p, size_t bytes, const char *what);
void emulator_reach(const void *p, size_t bytes, const char *what);
/* So much more (less) of the device's memory is taken by a library, and is not there. */
void emulator_hold(long long bytes);
/* "emulator: ..." to stderr, then abort. */
__attribute__((noreturn, format(printf, 1, 2))) void emulator_fail(const char *format, ...);
/* EMULATOR_IDLE=1: kernels, products, fills and copies within the device are checked, but not run; device memory costs
 * nothing. So real sizes can be shown to be accepted. */
bool emulator_idle(void);
/* A number below n, from the seed. */
unsigned emulator_random(unsigned n);
/* From here on the random order is another seed's. */
void emulator_seed(unsigned long long seed);

/* Between these a call that makes the host wait for the device fails. */
void emulator_step_begin(void);
void emulator_step_end(void);

typedef struct {
    long launches, blocks, switches, copies, queries, synchronizations;
} emulator_counts;
emulator_counts emulator_counted(void);

/* --- Inside kernels: all 32 lanes of a warp call it.
 * -------------------------------------------------------------------- */

enum { EMULATOR_LANE_BYTES = 128 };
/* Who calls, to find lanes that stand at different calls: macro EMULATOR_HERE("mma"). */
typedef struct {
    const char *what, *file;
    int line;
} emulator_site;
#define EMULATOR_HERE(what)                                                                                            \
    (emulator_site) { what, __FILE__, __LINE__ }
/* Copies `bytes` from each lane into all[32][bytes] of each. */
void emulator_warp_exchange(const void *mine, size_t bytes, void *all, emulator_site site);
/* The same without the copy: [32][bytes], to be read until the lane's next such call. */
const void *emulator_warp_gather(const void *mine, size_t bytes, emulator_site site);
/* combine(all) is called once on [32][bytes] and changes it in place; then each lane gets its part of it back in
 * `mine`. */
void emulator_warp_combine(void *mine, size_t bytes, void (*combine)(void *all), emulator_site site);
void emulator_warp_barrier(emulator_site site);
void emulator_block_barrier(emulator_site site);
/* The block's shared memory, at least so many bytes of it. */
void *emulator_shared(size_t bytes, const char *name);

/* --- For launch.cuh and the fakes of the runtime
 * ------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    const void *kernel; /* its address */
    dim3 grid, block;
    size_t shared, argument_bytes;
    void (*call)(void *arguments); /* one thread's whole run */
    void *arguments;
    void (*release)(void *arguments);
} emulator_launch_plan;
void emulator_launch(const emulator_launch_plan *plan, cudaStream_t s);
/* The kernel's KERNEL(threads). */
int emulator_kernel_bound(const void *kernel);

#ifdef __cplusplus
}
#endif
