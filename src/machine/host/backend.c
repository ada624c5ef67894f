/* The host's tables: of kernels, and of the machine. */
#include "base/fail.h"
#include "machine/host/host.h"
#include "machine/world.h"
#include <errno.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#define RUN(constant, name) [constant] = host_##name,
static void (*const run[OP_KINDS])(const op *, void *scratch) = { OPS_COMPUTED(RUN) };
static size_t (*const scratch_of[OP_KINDS])(const op *) = {
    [OP_MATMUL] = host_matmul_scratch,
    [OP_GROUPED_MATMUL] = host_grouped_matmul_scratch,
    [OP_EMBEDDING_BACKWARD] = host_embedding_backward_scratch,
    [OP_NORM_BACKWARD] = host_norm_backward_scratch,
    [OP_ATTENTION_BACKWARD] = host_attention_backward_scratch,
    [OP_GELU_BACKWARD] = host_gelu_backward_scratch,
    [OP_COLUMN_SUMS] = host_column_sums_scratch,
    [OP_CROSS_ENTROPY] = host_cross_entropy_scratch,
};

size_t host_scratch_of(const machine_tuning *t, const op *o)
{
    if (op_is_transfer(o->kind)) return host_transfer_scratch(o);
    return encoded_bytes(o) + (scratch_of[o->kind] ? scratch_of[o->kind](o) : 0);
}

/* Codes are made of the output as its format has it, in scratch. */
static void compute_encoded(const op *o, char *scratch)
{
    encoded_parts part = encoded_parts_of(o, scratch);
    if (part.copied.operands) host_copy(&part.copied, NULL);
    run[o->kind](&part.values, scratch + encoded_bytes(o));
    host_quantize(&part.codes, NULL);
}

void host_compute(const op *o, void *scratch)
{
    if (op_encoding(o) < 0) run[o->kind](o, scratch);
    else compute_encoded(o, scratch);
}

static int threads(void) { return omp_get_max_threads(); }

static bool usable(char *why, size_t length) { return true; }

/* One of each: nothing is chosen. */
static const char *engines(char *text, size_t length)
{
    char products[96];
    snprintf(text, length, "attention own, tiled; products %s", onednn_library(products, sizeof products));
    return text;
}

static machine_device device(void) { return (machine_device){ .name = "host", .fp8 = true }; }

static void *take(size_t bytes)
{
    void *memory = aligned_alloc(ARENA_ALIGNMENT, bytes);
    if (!memory) FAIL("%zu bytes asked for the case's arena: %s", bytes, strerror(ENOMEM));
    return memory;
}

static void clear(void *memory, int byte, size_t bytes) { memset(memory, byte, bytes); }

static void connect_group(group *g, const char *name, int color, int key) { g->handle = world_split(name, color, key); }

static void move(void *state, void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }

const backend *host_backend(void)
{
    static const backend table = {
        .usable = usable,
        .library = onednn_library,
        .engines = engines,
        .threads = threads,
        .device = device,
        .addressable = true,
        .take = take,
        .give_back = free,
        .clear = clear,
        .connect = connect_group,
        .disconnect = world_release,
        .scratch_of = host_scratch_of,
        .compute = host_compute,
        .open = executor_open,
        .close = executor_close,
        .submit = executor_submit,
        .sync = executor_sync,
        .upload = move,
        .download = move,
    };
    return &table;
}
