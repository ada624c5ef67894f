/* Checks of devices. */
#include "bench/run/devices.h"
#include "base/memory.h"
#include "bench/facts/run_source.h"
#include "machine/world.h"
#include "plan/catalogue/devices.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const machine_device *device;
    int rank;
} ranked_device;

static int by_identity(const void *a, const void *b)
{
    const ranked_device *x = a, *y = b;
    int order = strcmp(x->device->identity, y->device->identity);
    return order ? order : x->rank - y->rank;
}

bool devices_shared(const machine_device *device, int ranks, int pair[2], int *most)
{
    ranked_device *sorted = allocate(ranks, sizeof *sorted, "comparing devices");
    for (int i = 0; i < ranks; i++) sorted[i] = (ranked_device){ &device[i], i };
    qsort(sorted, (size_t)ranks, sizeof *sorted, by_identity);
    pair[0] = ranks, *most = 1;
    for (int i = 0, first = 0; i < ranks; i++) {
        if (strcmp(sorted[i].device->identity, sorted[first].device->identity)) first = i;
        if (i - first + 1 > *most) *most = i - first + 1;
        if (i == first + 1 && sorted[first].rank < pair[0]) pair[0] = sorted[first].rank, pair[1] = sorted[i].rank;
    }
    free(sorted);
    return *most > 1;
}

/* Writes why environment or libraries do not allow several ranks or, if `links`, a pipeline. */
static void find_unsuited(machine_kind kind, bool links, const char *before, char sentence[REASON_LENGTH])
{
    char why[REASON_LENGTH / 2] = "";
    if (world_ranks() > 1 && !machine_supports_ranks(kind, links, why, sizeof why))
        snprintf(sentence, REASON_LENGTH, "%srank %d on %.*s: %s", before, world_rank(), HOST_NAME_BYTES, world_host(),
                 why);
    world_share_sentence(sentence, REASON_LENGTH);
}

static void find_missing(device_survey *s, machine_kind kind)
{
    char why[REASON_LENGTH / 2] = "";
    s->usable = machine_usable(kind, why, sizeof why);
    if (!s->usable)
        snprintf(s->missing, sizeof s->missing, "rank %d on %.*s: %s", world_rank(), HOST_NAME_BYTES, world_host(),
                 why);
    s->usable = world_all(s->usable);
    world_share_sentence(s->missing, REASON_LENGTH);
}

static void find_without_fp8(device_survey *s, machine_kind kind)
{
    machine_device own = machine_device_of(kind);
    if (!own.fp8)
        snprintf(s->no_fp8, sizeof s->no_fp8, "rank %d on %.*s: %s cannot multiply FP8 (needs capability 8.9)",
                 world_rank(), HOST_NAME_BYTES, world_host(), own.name);
    world_share_sentence(s->no_fp8, REASON_LENGTH);
}

static void gather_devices(device_survey *s, machine_kind kind)
{
    machine_device own = machine_device_of(kind);
    s->device = world_gather(&own, sizeof own);
    memcpy(s->name, own.name, sizeof s->name);
    world_broadcast(s->name, sizeof s->name, 0);
    machine_find_domains(s->device);
    const device_row *row = device_find(s->name);
    s->memory_bytes = -own.memory_bytes;
    world_maximum(&s->memory_bytes, 1);
    s->memory_bytes *= -1.0;
    if (row) s->memory_bytes = fmin(s->memory_bytes, row->memory_bytes);
}

static void find_shared(device_survey *s)
{
    int pair[2];
    s->sharing = 1;
    if (world_rank() == 0 && devices_shared(s->device, world_ranks(), pair, &s->sharing))
        snprintf(s->shared, sizeof s->shared, "ranks %d and %d share the device %s", pair[0], pair[1],
                 s->device[pair[0]].identity);
    world_broadcast(s->shared, sizeof s->shared, 0);
    world_broadcast(&s->sharing, sizeof s->sharing, 0);
}

device_survey devices_survey(machine_kind kind)
{
    device_survey s = { .usable = false };
    find_unsuited(kind, false, "xgsw: ", s.refused);
    find_missing(&s, kind);
    if (!s.usable) return s;
    find_without_fp8(&s, kind);
    find_unsuited(kind, true, "", s.no_links);
    gather_devices(&s, kind);
    find_shared(&s);
    return s;
}
