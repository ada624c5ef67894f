/* Shared by tests on several ranks: groups, a machine with scratch, values with exact sums, and assertions that fail on
 * all ranks together, so that no rank is left waiting. Transfers run on the machine in XGSW_TEST_MACHINE (cuda),
 * otherwise on the host. */
#pragma once
#include "base/fp8.h"
#include "machine/queue/submit.h"
#include "machine/world.h"
#include "sharing.h"
#include "units/tests.h"

/* WATCH_SECONDS: a rank of many on few, busy cores may wait a minute for its turn. */
enum { FLOOR_QUEUES = 4, MOST_RANKS = 64, WATCH_SECONDS = 120 };

typedef struct {
    machine_kind kind;
    machine *m;
    queue *q[FLOOR_QUEUES];
    char *scratch[FLOOR_QUEUES];
} test_floor;

static inline machine_kind tested_machine(void)
{
    const char *name = getenv("XGSW_TEST_MACHINE");
    return name && strcmp(name, "cuda") == 0 ? MACHINE_CUDA : MACHINE_HOST;
}

static inline void *bytes_of(size_t bytes)
{
    void *memory = aligned_alloc(ARENA_ALIGNMENT, (bytes / ARENA_ALIGNMENT + 1) * ARENA_ALIGNMENT);
    assert_non_null(memory);
    memset(memory, 0x5A, bytes);
    return memory;
}

static inline test_floor floor_open(machine_options options, size_t scratch_bytes)
{
    test_floor f = { .kind = options.on_paper ? MACHINE_HOST : tested_machine() };
    options.kind = tested_machine();
    options.world_rank = world_rank();
    f.m = machine_open(&options);
    for (int i = 0; i < FLOOR_QUEUES; i++) {
        f.q[i] = machine_queue(f.m, "queue");
        f.scratch[i] = f.kind == MACHINE_HOST ? bytes_of(scratch_bytes) : machine_memory_take(f.kind, scratch_bytes);
        queue_set_scratch(f.q[i], f.scratch[i], scratch_bytes);
    }
    return f;
}

/* Returns the tensor in the machine's memory: the same tensor or a copy. After the machine has finished, fetched copies
 * the present contents back. */
static inline tensor placed(const test_floor *f, tensor t)
{
    if (f->kind == MACHINE_HOST || tensor_span(&t) == 0) return t;
    tensor there = t;
    there.data = machine_memory_take(f->kind, tensor_span(&t));
    machine_upload(f->m, there, t.data);
    return there;
}

static inline void fetched(const test_floor *f, tensor t, tensor there)
{
    if (there.data == t.data) return;
    machine_sync(f->m);
    machine_read(f->m, t.data, there);
    machine_memory_give_back(f->kind, there.data);
}

static inline void floor_close(test_floor *f)
{
    machine_sync(f->m);
    machine_close(f->m);
    for (int i = 0; i < FLOOR_QUEUES; i++)
        if (f->kind == MACHINE_HOST) free(f->scratch[i]);
        else machine_memory_give_back(f->kind, f->scratch[i]);
}

/* The ranks first, first + stride, ..., including this one. Collective over the world. */
typedef struct {
    group g;
    char name[SPLIT_NAME];
} test_group;

static inline void group_open(test_group *t, const char *axis, int first, int stride, int size)
{
    t->g = group_line(axis, first, stride, size, (world_rank() - first) / stride);
    snprintf(t->name, sizeof t->name, "%s %d", axis, size);
    group_connect(tested_machine(), &t->g, t->name, size > 1 ? first : -1, t->g.rank);
}

static inline void group_close(test_group *t) { group_disconnect(tested_machine(), t->name); }

static inline void group_of_all(test_group *t) { group_open(t, "all", 0, 1, world_ranks()); }

/* Returns a value in -6 .. 6 (U64: 0 .. 12). Sums over few ranks are exact in every format. */
static inline double small_value(dtype type, int rank, int64_t i, int round)
{
    return (double)((rank * 7 + i * 3 + i / 11 + round * 5) % 13 - (type == U64 ? 0 : 6));
}

static inline void value_set(dtype type, void *x, int64_t i, double value)
{
    switch (type) {
    case F32: ((float *)x)[i] = (float)value; break;
    case BF16: ((uint16_t *)x)[i] = bf16_round((float)value); break;
    case F64: ((double *)x)[i] = value; break;
    case I32: ((int32_t *)x)[i] = (int32_t)value; break;
    case E4M3:
    case E5M2: ((uint8_t *)x)[i] = fp8_round(type, (float)value); break;
    default: ((uint64_t *)x)[i] = (uint64_t)value;
    }
}

static inline double value_at(dtype type, const void *x, int64_t i)
{
    switch (type) {
    case F32: return (double)((const float *)x)[i];
    case BF16: return (double)bf16_widen(((const uint16_t *)x)[i]);
    case F64: return ((const double *)x)[i];
    case I32: return ((const int32_t *)x)[i];
    case E4M3:
    case E5M2: return (double)fp8_widen(type, ((const uint8_t *)x)[i]);
    default: return (double)((const uint64_t *)x)[i];
    }
}

/* Fails on every rank if the condition is false on any rank. Ranks with a false condition print first. */
#define assert_on_all(right, ...)                                                                                      \
    do {                                                                                                               \
        bool here = (right);                                                                                           \
        if (!here) print_message("# rank %d: ", world_rank()), print_message(__VA_ARGS__), print_message("\n");        \
        if (!world_all(here)) fail_msg("wrong on some rank: " __VA_ARGS__);                                            \
    } while (0)
