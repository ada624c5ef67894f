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

enum { WHY = 160, TIMED_PART = 16 << 20, LEAST_PART = 8 << 20, FIRST_PART = 64, PAGE = 4096 };
/* Bytes/s that copy engines exceed only by NVLink: an A100 moves 300e9 in one direction, PCIe 5.0 x16 64e9. */
static const double NVLINK = 100e9;

static struct {
    char *memory; /* NULL: none */
    size_t bytes, largest, used;
    char why[WHY];   /* why this run has no windows; empty: it may have some */
    char pairs[WHY]; /* why groups of two have none; empty: they have some */
    double rate;     /* bytes/s of the slowest timed gather; 0: none was timed */
} windows;

void cuda_window_reserve(size_t bytes) { windows.largest = bytes > windows.largest ? bytes : windows.largest; }

/* ---- what all ranks agree on ---- */

/* Gives all ranks the reason of the first rank that has one. Returns whether no rank has one. A rank that took no part
 * in an earlier case does not know that case's reason, therefore it is sent again. */
static bool nobody_has_a_reason(const group *all, const char *reason)
{
    const cuda_communicator *c = communicator_for(all);
    const bool known = windows.why[0];
    int32_t first = known || reason[0] ? all->size - all->rank : 0, text[FIRST_NUMBERS] = { 0 };
    first_maximum(c, &first, 1, communicators_check);
    if (first == 0) return true;
    if (all->size - first == all->rank && known) snprintf((char *)text, sizeof text, "%s", windows.why);
    else if (all->size - first == all->rank)
        snprintf((char *)text, sizeof text, "rank %d: %.*s", all->rank, WHY / 2, reason);
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

/* Returns the bytes to allocate: the largest arena that any rank has met or expects, or this arena's if the largest
 * would leave some rank too little memory. *kept: whether all ranks already hold that many bytes. */
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
    int32_t some[] = { lacks, windows.bytes != windows.largest, windows.bytes != bytes };
    first_maximum(c, some, 3, communicators_check);
    *kept = !some[1 + some[0]];
    return some[0] ? bytes : windows.largest;
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
    if (result != ncclSuccess) snprintf(why, WHY, "ncclMemAlloc: %s", ncclGetErrorString(result));
    else windows.memory = memory, windows.bytes = bytes;
}

/* Returns whether all ranks have memory that NCCL can map: all or none. The memory of a rank depends on the cases it
 * took part in, therefore all ranks ask each other in every case. */
static bool has_memory(size_t bytes, const group *all)
{
    char why[WHY] = "";
    bool kept = false;
    find_obstacle(why);
    if (!nobody_has_a_reason(all, why)) return false;
    size_t size = agree_size(bytes, all, &kept);
    if (kept) return true;
    release();
    take_memory(size, why);
    return nobody_has_a_reason(all, why);
}

/* ---- windows ---- */

static bool engines_reach(const group *g)
{
    bool all = g->size > 1 && !(g->size == 2 && nccl_has_defect(DEFECT_PAIR_WINDOWS, windows.pairs, WHY));
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
static bool map_groups(group *const *of, int groups, const group *all)
{
    char why[WHY] = "";
    bool fresh[8] = { false };
    for (int i = 0; i < groups; i++) {
        fresh[i] = engines_reach(of[i]) && !communicator_for(of[i])->window;
        if (fresh[i] && !communicator_map(of[i], windows.memory, windows.bytes))
            snprintf(why, WHY, "no window for %s", communicator_for(of[i])->name);
    }
    if (!nobody_has_a_reason(all, why)) return false;
    for (int i = 0; i < groups; i++)
        if (fresh[i]) gather_first(of[i]);
    return true;
}

void *cuda_window_take(size_t bytes, group *const *of, int groups, group *all)
{
    cuda_device_use();
    bool is_free = all->size > 1 && !windows.used;
    if (is_free && !(groups && has_memory(bytes, all) && map_groups(of, groups, all))) release();
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
    char means[WHY + 96], words[VERSION_TEXT];
    int version = world_ranks() > 1 ? nccl_version() : 0;
    text[0] = 0;
    say_windows(means, sizeof means);
    if (version) snprintf(text, length, "NCCL %s, %s", library_version_text(version, words), means);
    return text;
}
