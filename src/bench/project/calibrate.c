/* Calibration of a host. */
#include "bench/project/calibrate.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/say.h"
#include "base/text.h"
#include "bench/launch/case_machine.h"
#include "bench/project/price.h"
#include "bench/slice/slice.h"
#include "machine/queue/submit.h"
#include "machine/world.h"
#include "parallel/mesh.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Numbers of all ranks are summed; every rank adds the same rows in the same order. */
static double mean_of_ranks(double seconds)
{
    world_sum(&seconds, 1);
    return seconds / world_ranks();
}

/* Ranks of other pipeline stages have other operations: rank 0 writes those of all ranks. */

static void gather_operations(FILE *to, const slice *s)
{
    double count = s->work.notes, most = count;
    world_maximum(&most, 1);
    listed_time *own = allocate((int64_t)most, sizeof *own, "measured operations");
    for (int i = 0; i < s->work.notes; i++) {
        operation_key(&s->work.note[i].op, own[i].key);
        own[i].work = operation_work(&s->work.note[i].op), own[i].seconds = s->time[i].of[WITH_ALL][MEDIAN];
    }
    listed_time *all = world_gather(own, (size_t)most * sizeof *own);
    for (int64_t i = 0; all && to && i < (int64_t)most * world_ranks(); i++)
        if (all[i].key[0]) fprintf(to, "op %s %.6g us %.4g\n", all[i].key, all[i].work, 1e6 * all[i].seconds);
    free(own);
    free(all);
}

/* ---- transfers ---- */

enum { LEAST_BYTES = 256, MOST_BYTES = 64 << 20, STEP = 4 };

typedef struct {
    machine *machine;
    queue *queue;
    group *of;
    char *memory;
} transfer_bench;

/* One transfer of a kind whose first operand has so many bytes. */
static op transfer_of(const transfer_bench *b, op_kind kind, int64_t bytes)
{
    group *g = b->of;
    tensor whole = tensor_1d(b->memory, F32, bytes / 4), other = tensor_1d(b->memory + MOST_BYTES, F32, bytes / 4);
    transfer one = { .send = g->rank % 2 == 0, .peer = g->rank ^ 1, .tensor = whole };
    switch (kind) {
    case OP_ALL_GATHER: return all_gather_op(g, whole, tensor_none());
    case OP_REDUCE_SCATTER: return reduce_scatter_op(g, whole);
    case OP_ALL_REDUCE: return all_reduce_op(g, whole);
    case OP_ALL_TO_ALL: return all_to_all_op(g, whole, other);
    default: return exchange_op(g, &one, 1);
    }
}

static double transfer_seconds(const transfer_bench *b, op_kind kind, int64_t bytes)
{
    int runs = bytes > 1 << 22 ? 4 : bytes > 1 << 16 ? 32 : 256;
    double best = INFINITY;
    for (int k = 0; k < 5; k++) {
        world_barrier();
        double begin = clock_seconds();
        for (int i = 0; i < runs; i++) submit(b->queue, "calibrate", transfer_of(b, kind, bytes));
        machine_sync(b->machine);
        double seconds = mean_of_ranks(clock_seconds() - begin) / runs;
        if (seconds < best) best = seconds;
    }
    return best;
}

static const op_kind transfer_kinds[] = { OP_ALL_GATHER, OP_REDUCE_SCATTER, OP_ALL_REDUCE, OP_ALL_TO_ALL, OP_EXCHANGE };

static void measure_kind(FILE *to, const transfer_bench *b, op_kind kind)
{
    int64_t unit = 4 * (int64_t)b->of->size;
    for (int64_t bytes = LEAST_BYTES; bytes <= MOST_BYTES; bytes *= STEP) {
        int64_t whole = bytes / unit * unit;
        double seconds = transfer_seconds(b, kind, whole);
        if (to)
            fprintf(to, "transfer %s %d %lld us %.4g\n", op_kind_name(kind), b->of->size, (long long)whole,
                    1e6 * seconds);
    }
}

/* All ranks are one group; exchanges are those of pairs. */
static void measure_transfers(FILE *to)
{
    mesh m;
    mesh_layout l = { .ranks = world_ranks(), .expert = 1 };
    for (int a = 0; a < AXES; a++) l.degree[a] = 1;
    l.degree[AXIS_TENSOR] = l.ranks;
    l.chunks_per_stage = 1;
    mesh_open(&m, &l, world_rank(), mesh_on(MACHINE_HOST));
    void *memory = machine_memory_take(MACHINE_HOST, 4 * (size_t)MOST_BYTES);
    machine_memory_clear(MACHINE_HOST, memory, 0, 4 * (size_t)MOST_BYTES);
    transfer_bench b = { .machine = machine_open(&(machine_options){ .kind = MACHINE_HOST }),
                         .of = &m.axis[AXIS_TENSOR],
                         .memory = memory };
    b.queue = machine_queue(b.machine, "transfers");
    queue_set_scratch(b.queue, b.memory + 2 * MOST_BYTES, 2 * (size_t)MOST_BYTES);
    for (size_t i = 0; i < sizeof transfer_kinds / sizeof *transfer_kinds; i++) measure_kind(to, &b, transfer_kinds[i]);
    machine_close(b.machine);
    machine_memory_give_back(MACHINE_HOST, memory);
    mesh_close(&m);
}

static void write_head(FILE *to, const char *name)
{
    if (to)
        fprintf(to,
                "# %s: measured by ./xgsw --calibrate on %d rank%s of %s, %d thread%s each.\ndevice host\n"
                "operations times 1 0.95 1.05 measured alone, on all ranks at the same time\n"
                "transfers times 1 0.8 1.25 measured one after another, over all ranks\n",
                name, world_ranks(), plural(world_ranks()), world_host(), machine_threads(MACHINE_HOST),
                plural(machine_threads(MACHINE_HOST)));
}

bool calibrate(const deck *d, const char *name, double seconds, char *why, size_t length)
{
    char path[512];
    FILE *to = NULL;
    snprintf(path, sizeof path, "%.400s.sheet", name);
    if (world_rank() == 0 && !(to = fopen(path, "w"))) snprintf(why, length, "%s: %s", path, strerror(errno));
    for (int64_t i = 0; i < d->cases && !why[0]; i++)
        if (d->item[i].skipped[0]) snprintf(why, length, "case %d: %s", d->item[i].number, d->item[i].skipped);
    if (world_hear(why, length) >= 0) return false;
    write_head(to, name);
    for (int64_t i = 0; i < d->cases; i += d->item[i].repeats) {
        slice s = slice_open(&d->item[i], world_rank(), seconds);
        for (int k = 0; k < s.work.notes; k++) s.time[k].of[WITH_ALL][MEDIAN] = (double)NAN;
        slice_measure(&s);
        gather_operations(to, &s);
        slice_close(&s);
    }
    if (world_ranks() > 1) measure_transfers(to);
    if (to) fclose(to);
    say("%s is written\n", path);
    return true;
}
