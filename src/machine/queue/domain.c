/* The NVLink domains of the ranks. They belong to the process, as the devices do. */
#include "base/memory.h"
#include "machine/queue/kind.h"
#include "machine/world.h"
#include <stdlib.h>
#include <string.h>

/* [ranks of the world] lowest rank of each rank's domain; NULL before machine_find_domains. */
static int *domain;

/* Puts each node into the first domain with the same fabric. A node without a fabric is its own domain. */
static void fill_domains(const machine_device *all)
{
    for (int rank = 0; rank < world_ranks(); rank++) {
        int first = world_node(rank), same = 0;
        while (same < first && (domain[same] != same || strcmp(all[same].fabric, all[first].fabric))) same++;
        domain[rank] = all[first].fabric[0] ? same : first;
    }
}

void machine_find_domains(const machine_device *all)
{
    free(domain);
    domain = allocate(world_ranks(), sizeof *domain, "the NVLink domains of ranks");
    if (all) fill_domains(all);
    world_broadcast(domain, (size_t)world_ranks() * sizeof *domain, 0);
}

int machine_domain(machine_kind kind, int world_rank)
{
    return kind == MACHINE_CUDA && domain ? domain[world_rank] : world_node(world_rank);
}

bool machine_in_domain(machine_kind kind, int rank)
{
    return machine_domain(kind, rank) == machine_domain(kind, world_rank());
}
