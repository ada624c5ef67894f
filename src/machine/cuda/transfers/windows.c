/* The arena as a symmetric window. */
#include "machine/cuda/transfers/windows.h"
#include "base/text.h"
#include "machine/cuda/device/call.h"
#include "machine/cuda/device/device.h"
#include "machine/cuda/device/environment.h"
#include "machine/cuda/device/memory.h"
#include "machine/cuda/transfers/communicators.h"
#include "machine/cuda/transfers/nccl_defects.h"
#include "machine/world.h"
#include <stdio.h>
#include <string.h>

enum { WHY_BYTES = 160, TIMED_PART = 16 << 20, LEAST_PART = 8 << 20, FIRST_PART = 64, PAGE = 4096 };
/* Bytes/s in one direction. Only NVLink is faster: an A100's NVLink moves 300e9, PCIe 5.0 x16 64e9. */
static const double NVLINK = 100e9;

static struct {
    char *memory; /* NULL: none */
    size_t bytes, largest, used;
    char why[WHY_BYTES];   /* why this run has no windows; empty: it may have some */
    char pairs[WHY_BYTES]; /* why groups of two have none; empty: they have some */
    double rate;           /* bytes/s of the slowest timed gather; 0: none was timed */
} windows;

void cuda_window_reserve(size_t bytes) { windows.largest = bytes > windows.largest ? bytes : windows.largest; }

/* ---- what all ranks agree on ---- */

/* Returns whether no rank has an obstacle. Otherwise gives all ranks the reason of the first rank that has one. Sends
 * an earlier case's reason again, because a rank that took no part in that case does not know it. */
static bool agree_no_obstacle(const group *all, const char *reason)
{
    const cuda_communicator *c = communicator_for(all);
    const bool known = windows.why[0];
    int32_t first = known || reason[0] ? all->size - all->rank : 0, text[FIRST_NUMBERS] = { 0 };
    first_maximum(c, &first, 1, communicators_check);
    if (first == 0) return true;
    if (all->size - first == all->rank && known) snprintf((char *)text, sizeof text, "%s", windows.why);
    else if (all->size - first == all->rank)
        snprintf((char *)text, sizeof text, "rank %d: %.*s", all->rank, WHY_BYTES / 2, reason);
    first_maximum(c, text, FIRST_NUMBERS, communicators_check);
    snprintf(windows.why, WHY_BYTES, "%.*s", WHY_BYTES - 1, (const char *)text);
    return false;
}

static void find_obstacle(char *why)
{
    if (machine_shares_devices()) snprintf(why, WHY_BYTES, "ranks share devices");
    else if (!nccl_windows_load()) snprintf(why, WHY_BYTES, "NCCL is older than 2.28.3");
    else cuda_environment_allows_windows(why, WHY_BYTES);
}

/* Returns the bytes to allocate: those of the largest arena known to any rank, or of this arena if the largest would
 * leave some rank too little memory. *kept: whether all ranks already hold that many bytes. */
static size_t agree_size(size_t bytes, const group *all, bool *kept)
{
    const cuda_communicator *c = communicator_for(all);
    size_t unused = 0, device = 0;
    cuda_window_reserve(bytes);
    int32_t pages = (int32_t)((windows.largest + PAGE - 1) / PAGE);
    first_maximum(c, &pages, 1, communicators_check);
    windows.largest = (size_t)pages * PAGE;
    CUDA_CHECK(cudaMemGetInfo(&unused, &device));
    int32_t lacks = (double)(unused + windows.bytes) < (double)windows.largest + DEVICE_OUTSIDE_BYTES;
    int32_t any[] = { lacks, windows.bytes != windows.largest, windows.bytes != bytes };
    first_maximum(c, any, 3, communicators_check);
    *kept = !any[1 + any[0]];
    return any[0] ? bytes : windows.largest;
}

/* ---- memory ---- */

static void release(void)
{
    communicators_unmap();
    if (windows.memory) NCCL("the arena", ncclMemFree(windows.memory));
    windows.memory = NULL;
    windows.bytes = 0;
}

/* Allocates the memory, or writes why it cannot. */
static void take_memory(size_t bytes, char *why)
{
    void *memory = NULL;
    ncclResult_t result = NCCL_TRY("the arena", ncclMemAlloc(&memory, bytes));
    if (result != ncclSuccess) snprintf(why, WHY_BYTES, "ncclMemAlloc: %s", ncclGetErrorString(result));
    else windows.memory = memory, windows.bytes = bytes;
}

/* Returns whether all ranks have memory that NCCL can map. The memory that a rank holds depends on the cases it took
 * part in, so all ranks agree again in every case. */
static bool has_memory(size_t bytes, const group *all)
{
    char why[WHY_BYTES] = "";
    bool kept = false;
    find_obstacle(why);
    if (!agree_no_obstacle(all, why)) return false;
    size_t size = agree_size(bytes, all, &kept);
    if (kept) return true;
    release();
    take_memory(size, why);
    return agree_no_obstacle(all, why);
}

/* ---- windows ---- */

static bool copy_engines_reach(const group *g)
{
    bool all = g->size > 1 && !(g->size == 2 && nccl_has_defect(DEFECT_PAIR_WINDOWS, windows.pairs, WHY_BYTES));
    for (int i = 0; all && i < g->size; i++) all = machine_in_domain(MACHINE_CUDA, group_world_rank(g, i));
    return all;
}

/* The first gather makes NCCL allocate memory. The second one is timed if it is large enough. */
static void gather_first(const group *g)
{
    const cuda_communicator *c = communicator_for(g);
    size_t part = windows.bytes / (size_t)c->ranks / FIRST_PART * FIRST_PART;
    if (part > TIMED_PART) part = TIMED_PART;
    double seconds = first_gather(c, windows.memory, part < LEAST_PART ? FIRST_PART : part, communicators_check);
    double rate = (double)part * (c->ranks - 1) / seconds;
    if (part >= LEAST_PART && (windows.rate == 0.0 || rate < windows.rate)) windows.rate = rate;
}

/* Returns whether every rank has its windows. */
static bool map_groups(group *const *list, int groups, const group *all)
{
    char why[WHY_BYTES] = "";
    bool unmapped[8] = { false };
    for (int i = 0; i < groups; i++) {
        unmapped[i] = copy_engines_reach(list[i]) && !communicator_for(list[i])->window;
        if (unmapped[i] && !communicator_map(list[i], windows.memory, windows.bytes))
            snprintf(why, WHY_BYTES, "no window for %s", communicator_for(list[i])->name);
    }
    if (!agree_no_obstacle(all, why)) return false;
    for (int i = 0; i < groups; i++)
        if (unmapped[i]) gather_first(list[i]);
    return true;
}

void *cuda_window_take(size_t bytes, group *const *list, int groups, group *all)
{
    cuda_device_use();
    bool is_free = all->size > 1 && !windows.used;
    if (is_free && !(groups && has_memory(bytes, all) && map_groups(list, groups, all))) release();
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

static void write_method(char *text, size_t length)
{
    const char *why = windows.why[0] ? windows.why : windows.pairs;
    int mapped = communicators_mapped(),
        used = mapped ? snprintf(text, length, "copy engines in %d window%s", mapped, plural(mapped))
                      : snprintf(text, length, "its kernels%s%s", why[0] ? ": " : "", why);
    if (mapped && windows.rate > 0.0)
        snprintf(text + used, length - (size_t)used, ", slowest first gather %.3g GB/s%s", windows.rate / 1e9,
                 windows.rate < NVLINK ? ", SLOW: NVLink moves 250 and more" : "");
}

const char *cuda_window_text(char *text, size_t length)
{
    char method[WHY_BYTES + 96], number[VERSION_TEXT];
    int version = world_ranks() > 1 ? nccl_version() : 0;
    text[0] = 0;
    write_method(method, sizeof method);
    if (version) snprintf(text, length, "NCCL %s, %s", library_version_text(version, number), method);
    return text;
}
