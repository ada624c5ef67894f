/* The host's table. */
#include "machine/backend.h"
#include "base/fail.h"
#include "machine/host/executor.h"
#include "machine/host/host.h"
#include "machine/world.h"
#include <errno.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

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

static bool usable(char *why, size_t length)
{
    (void)why;
    (void)length;
    return true;
}

/* One of each: nothing is chosen. */
static const char *engines(char *text, size_t length)
{
    char products[96];
    snprintf(text, length, "attention own, tiled; products %s", host_matmul_library(products, sizeof products));
    return text;
}

static machine_device device(void) { return (machine_device){ .name = "host" }; }

static void *take(size_t bytes)
{
    void *memory = aligned_alloc(ARENA_ALIGNMENT, bytes);
    if (!memory) FAIL("%zu bytes asked for the case's arena: %s", bytes, strerror(ENOMEM));
    return memory;
}

static void clear(void *memory, int byte, size_t bytes) { memset(memory, byte, bytes); }

static void connect_group(group *g, const char *name, int color, int key) { g->handle = world_split(name, color, key); }

static void tune(void *state, void *memory, size_t bytes)
{
    (void)state;
    (void)memory;
    (void)bytes;
}

static void move(void *state, void *to, const void *from, size_t bytes)
{
    (void)state;
    memcpy(to, from, bytes);
}

const backend *host_backend(void)
{
    static const backend table = {
        .name = "host",
        .usable = usable,
        .library = host_matmul_library,
        .engines = engines,
        .threads = threads,
        .device = device,
        .take = take,
        .give_back = free,
        .clear = clear,
        .connect = connect_group,
        .disconnect = world_release,
        .open = open_state,
        .close = close_state,
        .prepare = prepare,
        .tune = tune,
        .submit = submit,
        .wait = wait,
        .sync = sync,
        .completed = completed,
        .scratch = scratch,
        .spans = spans,
        .upload = move,
        .download = move,
        .addressable = true,
    };
    return &table;
}
