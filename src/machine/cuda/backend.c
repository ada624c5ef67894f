/* The CUDA machine's table. A machine that only measures has no executor and touches no GPU. */
#include "machine/backend.h"
#include "base/fail.h"
#include "machine/cuda/attention/attention.h"
#include "machine/cuda/cuda.h"
#include "machine/cuda/device/device.h"
#include "machine/cuda/device/memory.h"
#include "machine/cuda/device/versions.h"
#include "machine/cuda/executor.h"
#include "machine/cuda/products/matmul.h"
#include "machine/cuda/rehearsal.h"
#include "machine/cuda/transfers/fabric.h"
#include "machine/fabric.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    machine_options options;
    cuda_executor *executor;
    staging *staging;
} cuda_machine;

static void *open_state(const machine_options *options, tally *t)
{
    cuda_machine *m = calloc(1, sizeof *m);
    if (!m) FAIL("no memory for a machine");
    m->options = *options;
    cuda_attention_open(options);
    if (options->measuring) rehearsal_open();
    if (options->measuring) return m;
    cuda_device_use();
    cuda_matmul_open();
    m->executor = cuda_executor_open(options, t);
    m->staging = staging_open();
    return m;
}

static void close_state(void *state)
{
    cuda_machine *m = state;
    if (m->executor) {
        staging_close(m->staging);
        cuda_executor_close(m->executor);
        cuda_matmul_close();
    }
    free(m);
}

static cuda_executor *executor_of(void *state) { return ((cuda_machine *)state)->executor; }
static staging *staging_of(void *state) { return ((cuda_machine *)state)->staging; }

static void submit(void *state, int at, uint64_t serial, const op *o)
{
    cuda_executor_submit(executor_of(state), at, serial, o);
}
static void wait(void *state, int at, int target, uint64_t serial)
{
    cuda_executor_wait(executor_of(state), at, target, serial);
}
static void sync(void *state, int at, uint64_t serial) { cuda_executor_sync(executor_of(state), at, serial); }
static double completed(void *state, int at, uint64_t serial)
{
    return cuda_executor_completed(executor_of(state), at, serial);
}
static void scratch(void *state, int at, void *memory, size_t bytes)
{
    cuda_executor_scratch(executor_of(state), at, memory, bytes);
}
static const span *spans(void *state, int64_t *count) { return cuda_executor_spans(executor_of(state), count); }
static void upload(void *state, void *to, const void *from, size_t bytes)
{
    staging_upload(staging_of(state), to, from, bytes);
}
static void download(void *state, void *to, const void *from, size_t bytes)
{
    staging_download(staging_of(state), to, from, bytes);
}

static size_t prepare(void *state, const op *o)
{
    op copy;
    (void)state;
    rehearsal_note(cuda_transfer_conversion(o, &copy) ? &copy : o);
    if (o->kind == OP_MATMUL) cuda_matmul_prepare(o);
    if (o->kind == OP_ATTENTION_FORWARD || o->kind == OP_ATTENTION_BACKWARD) cuda_attention_prepare(o);
    return op_is_transfer(o->kind) ? cuda_transfer_scratch(o) : cuda_scratch_bytes(o);
}

static void tune(void *state, void *memory, size_t bytes)
{
    const cuda_machine *m = state;
    cuda_attention_tune();
    cuda_matmul_tune(&m->options, memory, bytes);
    rehearsal_run(memory, bytes);
}

/* Of the processor: one submits, the others are the communicators' own. */
static int threads(void) { return 1; }

static const char *engines(char *text, size_t length)
{
    char attention[512];
    int used =
        snprintf(text, length, "attention %s; products cuBLASLt\n", cuda_attention_engine(attention, sizeof attention));
    if ((size_t)used + 32 <= length) cuda_matmul_algorithms(text + used, length - (size_t)used);
    return text;
}

static void connect_group(group *g, const char *name, int color, int key)
{
    cuda_device_use();
    cuda_connect(g, name, color, key);
}

const backend *cuda_backend(void)
{
    static const backend table = {
        .name = "cuda",
        .usable = cuda_device_usable,
        .library = cuda_versions,
        .engines = engines,
        .threads = threads,
        .device = cuda_device_read,
        .take = cuda_memory_take,
        .give_back = cuda_memory_give_back,
        .clear = cuda_memory_clear,
        .connect = connect_group,
        .disconnect = cuda_disconnect,
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
        .upload = upload,
        .download = download,
        .addressable = false,
    };
    return &table;
}
