/* The arena as a symmetric window. */
#include "machine/cuda/transfers/windows.h"
#include "base/text.h"
#include "machine/cuda/device/device.h"
#include "machine/cuda/device/environment.h"
#include "machine/cuda/device/memory.h"
#include "machine/cuda/transfers/communicators.h"
#include "machine/cuda/transfers/nccl_defects.h"
#include "machine/world.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WHY = 160, TIMED_PART = 16 << 20, LEAST_PART = 8 << 20, FIRST_PART = 64 };
/* Below so many bytes/s copy engines do not use NVLink: one direction of an A100's has 300e9, PCIe 5.0 x16 has 64e9. */
static const double NVLINK = 100e9;

static struct {
    char *memory; /* NULL: there is none */
    size_t bytes, largest, used;
    char why[WHY];   /* why there are no windows in this run; empty: there may be some */
    char pairs[WHY]; /* why groups of two have none; empty: they have */
    double rate;     /* bytes/s of the slowest timed gather; 0: none was timed */
} windows;

/* ---- what all ranks agree on ---- */

/* Gives all ranks the reason of the first that has one; returns whether none has. */
static bool nobody_has_a_reason(const group *all, const char *reason)
{
    const cuda_communicator *c = communicator_for(all);
    int32_t first = reason[0] ? all->size - all->rank : 0, text[FIRST_NUMBERS] = { 0 };
    first_maximum(c, &first, 1, communicators_check);
    if (first == 0) return true;
    int rank = all->size - first;
    if (rank == all->rank) snprintf((char *)text, sizeof text, "rank %d: %.*s", rank, WHY / 2, reason);
    first_maximum(c, text, FIRST_NUMBERS, communicators_check);
    snprintf(windows.why, WHY, "%.*s", WHY - 1, (const char *)text);
    return false;
}

static void find_obstacle(char *why)
{
    if (machine_shares_devices()) snprintf(why, WHY, "ranks share devices");
    else if (!nccl_windows_load()) snprintf(why, WHY, "NCCL is older than 2.28.3");
    else cuda_environment_lets_windows(why, WHY);
}

/* ---- memory ---- */

static void release(void)
{
    communicators_unmap();
    if (windows.memory) NCCL("the arena", ncclMemFree(windows.memory));
    windows.memory = NULL;
    windows.bytes = 0;
}

/* Fills in why the memory cannot be had. */
static void take_memory(size_t bytes, char *why)
{
    void *memory = NULL;
    ncclResult_t result = NCCL_TRY("the arena", ncclMemAlloc(&memory, bytes));
    if (result != ncclSuccess) snprintf(why, WHY, "ncclMemAlloc: %s", ncclGetErrorString(result));
    else windows.memory = memory, windows.bytes = bytes;
}

/* Memory of so many bytes that NCCL can map, on all ranks or on none. */
static bool has_memory(size_t bytes, const group *all)
{
    char why[WHY] = "";
    if (windows.why[0]) return false;
    if (windows.bytes >= bytes) return true;
    if (windows.memory) release();
    find_obstacle(why);
    if (!why[0]) take_memory(bytes > windows.largest ? bytes : windows.largest, why);
    bool all_have = nobody_has_a_reason(all, why);
    if (!all_have && windows.memory) release();
    return all_have;
}

/* ---- windows ---- */

static bool engines_reach(const group *g)
{
    bool all = g->size > 1 && !(g->size == 2 && nccl_has_defect(DEFECT_PAIR_WINDOWS, windows.pairs, WHY));
    for (int i = 0; all && i < g->size; i++) all = machine_in_domain(MACHINE_CUDA, group_world_rank(g, i));
    return all;
}

/* NCCL takes memory in a communicator's first gather. A large one is timed. */
static void gather_first(const group *g)
{
    const cuda_communicator *c = communicator_for(g);
    size_t part = windows.bytes / (size_t)c->ranks / FIRST_PART * FIRST_PART;
    if (part > TIMED_PART) part = TIMED_PART;
    double seconds = first_gather(c, windows.memory, part < LEAST_PART ? FIRST_PART : part, communicators_check);
    double rate = (double)part * (c->ranks - 1) / seconds;
    if (part >= LEAST_PART && (windows.rate == 0.0 || rate < windows.rate)) windows.rate = rate;
}

static void map_groups(group *const *of, int groups, const group *all)
{
    char why[WHY] = "";
    bool fresh[8] = { false };
    for (int i = 0; i < groups; i++) {
        fresh[i] = engines_reach(of[i]) && !communicator_for(of[i])->window;
        if (fresh[i] && !communicator_map(of[i], windows.memory, windows.bytes))
            snprintf(why, WHY, "no window for %s", communicator_for(of[i])->name);
    }
    if (!nobody_has_a_reason(all, why)) communicators_unmap();
    for (int i = 0; i < groups; i++)
        if (fresh[i] && communicator_for(of[i])->window) gather_first(of[i]);
}

void cuda_window_reserve(size_t bytes) { windows.largest = bytes > windows.largest ? bytes : windows.largest; }

void *cuda_window_take(size_t bytes, group *const *of, int groups, group *all)
{
    cuda_device_use();
    if (groups && all->size > 1 && !windows.used && has_memory(bytes, all)) map_groups(of, groups, all);
    if (windows.used || windows.bytes < bytes) return cuda_memory_take(bytes);
    windows.used = bytes;
    return windows.memory;
}

void cuda_window_give_back(void *memory)
{
    if (memory && memory == windows.memory) windows.used = 0;
    else cuda_memory_give_back(memory);
}

size_t cuda_window_kept(void) { return windows.bytes - windows.used; }

bool cuda_window_moves(const group *g) { return g->size > 1 && communicator_for(g)->window; }

bool cuda_window_holds(const void *place, const cuda_communicator *c)
{
    const char *at = place;
    return c->window && at >= windows.memory && at < windows.memory + windows.bytes;
}

/* ---- words ---- */

static void say_windows(char *text, size_t length)
{
    const char *why = windows.why[0] ? windows.why : windows.pairs;
    int mapped = communicators_mapped(),
        used = mapped ? snprintf(text, length, "copy engines in %d window%s", mapped, plural(mapped))
                      : snprintf(text, length, "its kernels%s%s", why[0] ? ": " : "", why);
    if (mapped && windows.rate > 0.0)
        snprintf(text + used, length - (size_t)used, ", slowest first gather %.3g GB/s%s", windows.rate / 1e9,
                 windows.rate < NVLINK ? ", SLOW: NVLink moves 250 and more" : "");
}

const char *cuda_window_words(char *text, size_t length)
{
    char means[WHY + 96];
    int version = 0;
    bool any = world_ranks() > 1 && nccl_load(text, length) && ncclGetVersion(&version) == ncclSuccess;
    text[0] = 0;
    say_windows(means, sizeof means);
    if (any) snprintf(text, length, "NCCL %d.%d.%d, %s", version / 10000, version % 10000 / 100, version % 100, means);
    return text;
}
