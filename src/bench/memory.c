/* Memory of the machine at hand. */
#include "bench/memory.h"
#include "machine/world.h"
#include "train/trainer.h"
#include <stdio.h>
#include <sys/resource.h>

/* MemAvailable of this node, bytes; 0 if the system does not say. */
static double available_bytes(void)
{
    char line[128];
    double kilobytes = 0.0;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lf", &kilobytes) == 1) break;
    if (f) fclose(f);
    return kilobytes * 1024.0;
}

bool memory_suffices(const bench_case *c, const machine_options *on, const host_load *load, char skipped[REASON_LENGTH])
{
    mesh m;
    trainer t;
    trainer_options o = { .machine = *on, .measure_only = true };
    mesh_open(&m, &c->layout, world_rank(), false);
    double need = 0.0;
    if (m.takes_part) {
        trainer_build(&t, c, &m, &o);
        need = (double)t.arena.used * load->node_ranks;
    }
    mesh_close(&m);
    double have = available_bytes(), lack = have > 0.0 ? need - have : 0.0, worst[2] = { lack, need };
    world_maximum(worst, 2);
    if (worst[0] <= 0.0) return true;
    snprintf(skipped, REASON_LENGTH, "needs %.1f GB of memory on a node of %d ranks, %.1f GB more than is available",
             worst[1] / 1e9, load->node_ranks, worst[0] / 1e9);
    return false;
}

double memory_outside(size_t arena_bytes)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    double outside = (double)use.ru_maxrss * 1024.0 - (double)arena_bytes;
    if (outside < 0.0) outside = 0.0;
    world_maximum(&outside, 1);
    return outside;
}
