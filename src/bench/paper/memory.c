/* Memory of this machine. */
#include "bench/paper/memory.h"
#include "base/cgroup.h"
#include "base/text.h"
#include "machine/world.h"
#include <math.h>
#include <stdio.h>

/* Returns the number of the line that matches the format, in bytes (the file has kB), or 0 if there is none. */
static double proc_bytes(const char *path, const char *format)
{
    char line[128];
    double kilobytes = 0.0;
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, format, &kilobytes) == 1) break;
    if (f) fclose(f);
    return kilobytes * 1024.0;
}

static double available_bytes(machine_kind kind)
{
    if (kind != MACHINE_HOST) return machine_device_of(kind).free_bytes;
    double system = proc_bytes("/proc/meminfo", "MemAvailable: %lf"), limit = cgroup_limits_here().memory_left;
    return system > 0.0 ? fmin(system, limit) : isfinite(limit) ? limit : 0.0;
}

static int ranks_sharing(machine_kind kind, const host_load *load)
{
    if (kind == MACHINE_HOST) return load->node_ranks;
    return load->sharing > 1 ? load->sharing : 1;
}

double memory_outside_estimate(const mesh *m)
{
    const group *const separate[] = { &m->axis[AXIS_TENSOR], &m->axis[AXIS_CONTEXT], &m->context_reversed };
    if (m->connection == MESH_ON_CUDA) return DEVICE_OUTSIDE_BYTES;
    int communicators = m->all.size > 1 ? 2 : 0; /* of the world, and one for all that take turns */
    for (int i = 0; i < 3; i++) communicators += separate[i]->size > 1;
    for (int i = 0; i < LINKS; i++) communicators += m->link[i].size > 1;
    return DEVICE_OUTSIDE_BYTES + 0.3e9 * communicators;
}

bool memory_suffices(const mesh *m, const measure *r, machine_kind kind, const host_load *load,
                     char skipped[REASON_LENGTH])
{
    double need = m->takes_part ? (double)(r->window > r->arena.used ? r->window : r->arena.used) : 0.0;
    if (m->takes_part && kind == MACHINE_CUDA) need += memory_outside_estimate(m);
    need *= ranks_sharing(kind, load);
    double have = available_bytes(kind), lack = have > 0.0 ? need - have : 0.0;
    double worst[3] = { lack, need, m->connection == MESH_ON_CUDA ? machine_device_of(kind).communicator_bytes : 0.0 };
    world_maximum(worst, 3);
    if (worst[0] <= 0.0) return true;
    int used =
        snprintf(skipped, REASON_LENGTH, "needs %.1f GB of memory on a %s of %d rank%s, %.1f GB more than is available",
                 worst[1] / 1e9, kind == MACHINE_HOST ? "node" : "device", ranks_sharing(kind, load),
                 plural(ranks_sharing(kind, load)), worst[0] / 1e9);
    if (m->connection == MESH_ON_CUDA)
        snprintf(skipped + used, REASON_LENGTH - (size_t)used, " in addition to communicators of %.1f GB a rank",
                 worst[2] / 1e9);
    return false;
}

double memory_outside_on_device(const machine_device *device, size_t arena_bytes)
{
    return fmax(device->memory_bytes - device->free_bytes - (double)arena_bytes, 0.0);
}

void memory_reset_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f) return;
    fputs("5", f);
    fclose(f);
}

outside_memory memory_outside(size_t arena_bytes)
{
    double outside = proc_bytes("/proc/self/status", "VmHWM: %lf") - (double)arena_bytes;
    return (outside_memory){ fmax(outside, 0.0),
                             fmax(outside - proc_bytes("/proc/self/status", "RssShmem: %lf"), 0.0) };
}
