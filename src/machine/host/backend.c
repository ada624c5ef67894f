/* The host machine's table of functions. */
#include "base/fail.h"
#include "machine/host/host.h"
#include "machine/world.h"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static int threads(void) { return omp_get_max_threads(); }

static bool usable(char *why, size_t length) { return true; }

/* The engines do not depend on the submitted operations. */
static const char *engines(char *text, size_t length)
{
    char products[96];
    snprintf(text, length, "attention own, tiled; products %s", onednn_library(products, sizeof products));
    return text;
}

static machine_device device(void) { return (machine_device){ .name = "host", .fp8 = true }; }

enum { HUGE_PAGE = 1 << 21 }; /* of x86-64 and Arm with pages of 4 KiB; with others, madvise rounds */

/* Asks for huge pages, which many systems give only on request: a product of experts reads rows that lie 16 KiB apart,
 * each from a page of its own. */
static void *take(size_t bytes)
{
    void *memory;
    int error = posix_memalign(&memory, bytes < HUGE_PAGE ? ARENA_ALIGNMENT : HUGE_PAGE, bytes);
    if (error) FAIL("%zu bytes asked for: %s", bytes, strerror(error));
    if (bytes >= HUGE_PAGE) madvise(memory, bytes, MADV_HUGEPAGE);
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
