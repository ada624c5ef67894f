/* The host's table. */
#include "machine/backend.h"
#include "machine/host/executor.h"
#include "machine/host/host.h"
#include <omp.h>

static void *open_state(const machine_options *options, tally *t) { return executor_open(options, t); }
static void close_state(void *state) { executor_close(state); }
static void submit(void *state, int at, uint64_t serial, const op *o) { executor_submit(state, at, serial, o); }
static void wait(void *state, int at, int target, uint64_t serial) { executor_wait(state, at, target, serial); }
static void sync(void *state, int at, uint64_t serial) { executor_sync(state, at, serial); }
static double completed(void *state, int at, uint64_t serial) { return executor_completed(state, at, serial); }
static void scratch(void *state, int at, void *memory, size_t bytes) { executor_scratch(state, at, memory, bytes); }
static const span *spans(void *state, int64_t *count) { return executor_spans(state, count); }

static size_t prepare(void *state, const op *o)
{
    (void)state;
    return op_is_transfer(o->kind) ? host_transfer_scratch(o) : host_scratch_bytes(o);
}

static int threads(void) { return omp_get_max_threads(); }

const backend *host_backend(void)
{
    static const backend table = {
        .name = "host", .usable = true, .library = host_matmul_library, .threads = threads,
        .open = open_state, .close = close_state, .prepare = prepare, .submit = submit, .wait = wait,
        .sync = sync, .completed = completed, .scratch = scratch, .spans = spans,
    };
    return &table;
}
