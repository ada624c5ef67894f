/* The arena as a symmetric window. */
#include "machine/cuda/transfers/windows.h"
#include "base/fail.h"
#include "machine/cuda/device/device.h"
#include "machine/cuda/device/environment.h"
#include "machine/cuda/device/memory.h"
#include "machine/cuda/transfers/communicators.h"
#include "machine/world.h"
#include <stdio.h>
#include <string.h>

enum { MOST = 8 };
static struct {
    char *memory; /* NULL: there is none */
    size_t bytes;
    struct {
        const cuda_communicator *of;
        ncclWindow_t window;
    } list[MOST];
    int count;
} windows;

static bool of_one_node(const group *g)
{
    bool one = g->size > 1;
    for (int i = 0; one && i < g->size; i++) one = world_on_node(group_world_rank(g, i));
    return one;
}

static bool is_registered(const cuda_communicator *c)
{
    for (int i = 0; i < windows.count; i++)
        if (windows.list[i].of == c) return true;
    return false;
}

/* A window that NCCL does not make (no peer access, no virtual memory) is none: kernels go on. */
static void register_with(const cuda_communicator *c)
{
    ncclWindow_t window = NULL;
    if (is_registered(c)) return;
    if (windows.count == MOST) FAIL("%s: more than %d windows", c->name, MOST);
    NCCL(c->name, ncclCommWindowRegister(c->comm, windows.memory, windows.bytes, &window, NCCL_WIN_COLL_SYMMETRIC));
    if (!window) return;
    windows.list[windows.count].of = c;
    windows.list[windows.count++].window = window;
    communicator_gather_first(c, windows.memory);
}

void *cuda_window_take(size_t bytes, group *const *of, int groups)
{
    bool any = false;
    for (int i = 0; i < groups; i++) any |= of_one_node(of[i]);
    if (!any || windows.memory || machine_shares_devices() || !cuda_environment_has_windows() || !nccl_windows_load())
        return cuda_memory_take(bytes);
    cuda_device_use();
    NCCL("the arena", ncclMemAlloc((void **)&windows.memory, bytes));
    windows.bytes = bytes;
    for (int i = 0; i < groups; i++)
        if (of_one_node(of[i])) register_with(communicator_for(of[i]));
    return windows.memory;
}

bool cuda_window_moves(const group *g) { return g->size > 1 && is_registered(communicator_for(g)); }

void cuda_window_give_back(void *memory)
{
    if (!memory || memory != windows.memory) {
        cuda_memory_give_back(memory);
        return;
    }
    for (int i = 0; i < windows.count; i++) {
        const cuda_communicator *c = windows.list[i].of;
        NCCL(c->name, ncclCommWindowDeregister(c->comm, windows.list[i].window));
    }
    NCCL("the arena", ncclMemFree(memory));
    memset(&windows, 0, sizeof windows);
}

bool cuda_window_holds(const void *place, const void *communicator)
{
    const char *at = place;
    for (int i = 0; i < windows.count; i++)
        if (windows.list[i].of->comm == communicator)
            return at >= windows.memory && at < windows.memory + windows.bytes;
    return false;
}

const char *cuda_window_words(char *text, size_t length)
{
    int version = 0, used = 0;
    bool any = world_ranks() > 1 && nccl_load(text, length) && ncclGetVersion(&version) == ncclSuccess;
    text[0] = 0;
    if (!any) return text;
    used = snprintf(text, length, "; transfers NCCL %d.%d.%d, ", version / 10000, version % 10000 / 100, version % 100);
    if (windows.count)
        snprintf(text + used, length - (size_t)used, "gathers and all-to-alls in windows of %d communicators",
                 windows.count);
    else snprintf(text + used, length - (size_t)used, "by its kernels");
    return text;
}
