/* Interface of the emulated device for fake libraries and tests, in C and C++. Nothing runs when it is queued: the
 * device advances only in calls that synchronize or query, in the caller's thread, by one randomly chosen item at a
 * time. It chooses among the heads of streams that have enough free multiprocessors (seed: environment
 * EMULATOR_SEED). */
#pragma once
#include <cuda_runtime.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Queues run(data) on the stream; it runs later without interruption. Then calls release(data), if not NULL. */
void emulator_enqueue(cudaStream_t s, const char *what, void (*run)(void *), void *data, void (*release)(void *));
/* Queues work that begins when it is the head of the stream and may_begin(data) returns true. From then on test(data)
 * is called until it returns true. */
void emulator_enqueue_polled(cudaStream_t s, const char *what, bool (*may_begin)(void *), bool (*test)(void *),
                             void *data, void (*release)(void *));
/* Lets the item queued last hold this many multiprocessors while it runs. It begins when they are free. By default an
 * item holds none. */
void emulator_occupy(cudaStream_t s, int multiprocessors);
/* Returns how many multiprocessors the device has: EMULATOR_SMS (environment), or those of an H100. */
int emulator_multiprocessors(void);
/* Fails unless the bytes are in one live device allocation (emulator_range), or in one or in pinned host memory
 * (emulator_reach). */
void emulator_range(const void *p, size_t bytes, const char *what);
void emulator_reach(const void *p, size_t bytes, const char *what);
/* Adds (negative: subtracts) device memory that a library holds and that is not available. */
void emulator_hold(long long bytes);
/* Prints "emulator: ..." to stderr and aborts. */
__attribute__((noreturn, format(printf, 1, 2))) void emulator_fail(const char *format, ...);
/* Returns true if EMULATOR_IDLE=1: kernels, products, fills and copies within the device are checked but not run, and
 * device memory is not backed. Tests use it to show that real sizes are accepted. */
bool emulator_idle(void);
/* Returns a random number below n. */
unsigned emulator_random(unsigned n);
/* Restarts the random order with another seed. */
void emulator_seed(unsigned long long seed);

/* Between these two calls, a call that makes the host wait for the device fails. */
void emulator_step_begin(void);
void emulator_step_end(void);

typedef struct {
    long launches, queries, synchronizations;
} emulator_counts;
emulator_counts emulator_counted(void);

/* --- Inside kernels: all 32 lanes of a warp call it. --- */

enum { EMULATOR_LANE_BYTES = 128 };
/* The place of a call, to find lanes that are at different calls: macro EMULATOR_HERE("mma"). */
typedef struct {
    const char *what, *file;
    int line;
} emulator_site;
#define EMULATOR_HERE(what)                                                                                            \
    (emulator_site) { what, __FILE__, __LINE__ }
/* Copies `bytes` from each lane into all[32][bytes] of each. */
void emulator_warp_exchange(const void *mine, size_t bytes, void *all, emulator_site site);
/* The same without the copy: returns [32][bytes], valid until the lane's next such call. */
const void *emulator_warp_gather(const void *mine, size_t bytes, emulator_site site);
/* Calls combine(all) once, which changes [32][bytes] in place. Then each lane gets its part back in `mine`. */
void emulator_warp_combine(void *mine, size_t bytes, void (*combine)(void *all), emulator_site site);
void emulator_warp_barrier(emulator_site site);
void emulator_block_barrier(emulator_site site);
/* Returns the block's shared memory. Fails if it has fewer bytes. */
void *emulator_shared(size_t bytes, const char *name);

/* --- For launch.cuh and the fakes of the runtime
 * ------------------------------------------------------------------------- */

typedef struct {
    const char *name;
    const void *kernel; /* its address */
    dim3 grid, block;
    size_t shared, argument_bytes;
    void (*call)(void *arguments); /* runs one thread */
    void *arguments;
    void (*release)(void *arguments);
} emulator_launch_plan;
void emulator_launch(const emulator_launch_plan *plan, cudaStream_t s);
/* Returns the bound in the kernel's KERNEL(threads). */
int emulator_kernel_bound(const void *kernel);

#ifdef __cplusplus
}
#endif
