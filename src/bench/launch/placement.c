/* Groups that span nodes or domains. */
#include "bench/launch/placement.h"
#include "base/memory.h"
#include "base/text.h"
#include "machine/world.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static int *allocate_numbers(int ranks)
{
    int *of = allocate(ranks, sizeof *of, "the nodes of ranks");
    return of;
}

static int stride_of(const mesh_layout *l, mesh_axis axis)
{
    int stride = 1;
    for (int a = 0; a < (int)axis; a++) stride *= l->degree[a];
    return stride;
}

static int first_of_group(const mesh_layout *l, mesh_axis axis, int rank)
{
    int stride = stride_of(l, axis);
    return rank - rank / stride % l->degree[axis] * stride;
}

/* Returns the first rank of an expert group, whose ranks are neighbours in data x context. */
static int first_of_expert_group(const mesh_layout *l, int rank)
{
    int tensor = l->degree[AXIS_TENSOR], at = rank / tensor % (l->degree[AXIS_CONTEXT] * l->degree[AXIS_DATA]);
    return rank - at % l->expert * tensor;
}

/* Returns the lowest rank that is on another node than the first rank of its group, or l->ranks if there is none. */
static int first_separated(const mesh_layout *l, mesh_axis axis, const int *node)
{
    int rank = 0;
    while (rank < l->ranks && node[rank] == node[first_of_group(l, axis, rank)]) rank++;
    return rank;
}

static bool experts_are_separated(const mesh_layout *l, const int *node)
{
    for (int rank = 0; l->expert > 1 && rank < l->ranks; rank++)
        if (node[rank] != node[first_of_expert_group(l, rank)]) return true;
    return false;
}

/* Returns the number of ranks on each node, in order of the nodes' first ranks. */
static int *count_ranks(const int *node, int ranks, int *nodes)
{
    int *count = allocate_numbers(ranks), *known = allocate_numbers(ranks);
    *nodes = 0;
    for (int rank = 0; rank < ranks; rank++) {
        int n = 0;
        while (n < *nodes && known[n] != node[rank]) n++;
        if (n == *nodes) known[(*nodes)++] = node[rank];
        count[n]++;
    }
    free(known);
    return count;
}

/* Returns whether the tensor groups would be within nodes (or domains) with block distribution of ranks. */
static bool fits_block_distribution(const mesh_layout *l, const int *count, int nodes)
{
    int *node = allocate_numbers(l->ranks);
    for (int n = 0, rank = 0; n < nodes; n++)
        for (int i = 0; i < count[n]; i++) node[rank++] = n;
    bool fits = first_separated(l, AXIS_TENSOR, node) == l->ranks;
    free(node);
    return fits;
}

enum { AXES_TEXT = 80 };

/* Writes "tensor, data across": the axes that span nodes, or those that do not. Returns the length. */
static int list_axes(const placement *p, const mesh_layout *l, bool across, char text[AXES_TEXT])
{
    int used = 0;
    text[0] = 0;
    for (int a = 0; a <= AXES; a++) {
        bool experts = a == AXES, is_used = experts ? l->expert > 1 : l->degree[a] > 1;
        if (is_used && (experts ? p->expert_across : p->across[a]) == across)
            used += snprintf(text + used, (size_t)(AXES_TEXT - used), "%s%s", used ? ", " : "",
                             experts ? "expert" : axis_name((mesh_axis)a));
    }
    if (used) used += snprintf(text + used, (size_t)(AXES_TEXT - used), " %s", across ? "across" : "within a node");
    return used;
}

static void describe(placement *p, const mesh_layout *l)
{
    char within[AXES_TEXT], across[AXES_TEXT], ranks[48];
    int inside = list_axes(p, l, false, within), outside = list_axes(p, l, true, across);
    snprintf(ranks, sizeof ranks, p->node_ranks_least < p->node_ranks_most ? "%d to %d" : "%d", p->node_ranks_least,
             p->node_ranks_most);
    snprintf(p->text, sizeof p->text, "%d node%s of %s rank%s%s%s%s%s", p->nodes, plural(p->nodes), ranks,
             plural(p->node_ranks_most), inside || outside ? "; " : "", within, inside && outside ? ", " : "", across);
    size_t used = strlen(p->text);
    if (p->across[AXIS_TENSOR] && !p->across_domains)
        snprintf(p->text + used, sizeof p->text - used, "; tensor within an NVLink domain");
}

static void place_in_domains(placement *p, const mesh_layout *l, const int *domain)
{
    int *count = count_ranks(domain, l->ranks, &p->domains), separated = first_separated(l, AXIS_TENSOR, domain);
    for (int i = 0; i < p->domains; i++)
        if (count[i] > p->domain_ranks_most) p->domain_ranks_most = count[i];
    p->across_domains = separated < l->ranks;
    if (p->across_domains) {
        p->split[1] = separated;
        p->split[0] = first_of_group(l, AXIS_TENSOR, separated);
        p->scattered = fits_block_distribution(l, count, p->domains);
    }
    free(count);
}

placement placement_of(const mesh_layout *l, const int *node, const int *domain)
{
    placement p = { .node_ranks_least = l->ranks };
    int *count = count_ranks(node, l->ranks, &p.nodes);
    for (int n = 0; n < p.nodes; n++) {
        if (count[n] < p.node_ranks_least) p.node_ranks_least = count[n];
        if (count[n] > p.node_ranks_most) p.node_ranks_most = count[n];
    }
    for (int a = 0; a < AXES; a++) p.across[a] = first_separated(l, (mesh_axis)a, node) < l->ranks;
    p.expert_across = experts_are_separated(l, node);
    free(count);
    place_in_domains(&p, l, domain);
    describe(&p, l);
    return p;
}

placement placement_here(const mesh_layout *l, machine_kind kind)
{
    mesh_layout all = *l; /* of the ranks of all copies */
    all.ranks *= l->copies;
    int *node = allocate_numbers(all.ranks), *domain = allocate_numbers(all.ranks);
    for (int rank = 0; rank < all.ranks; rank++) {
        node[rank] = world_node(rank);
        domain[rank] = machine_domain(kind, rank);
    }
    placement p = placement_of(&all, node, domain);
    free(node);
    free(domain);
    return p;
}

bool placement_complaint(const placement *p, const mesh_layout *l, char sentence[REASON_LENGTH])
{
    int tensor = l->degree[AXIS_TENSOR];
    const char *where = p->domains < p->nodes ? "NVLink domains" : "nodes";
    if (!p->across_domains) return false;
    int used = snprintf(sentence, REASON_LENGTH, "tensor groups span %s: ranks %d and %d of one group are apart; ",
                        where, p->split[0], p->split[1]);
    if (p->scattered)
        snprintf(sentence + used, (size_t)(REASON_LENGTH - used),
                 "neighbouring ranks are on different nodes (cyclic): use srun --distribution=block or mpirun "
                 "--map-by ppr:%d:node",
                 p->node_ranks_most);
    else
        snprintf(sentence + used, (size_t)(REASON_LENGTH - used),
                 "tensor = %d needs %s with a multiple of %d consecutive ranks; these have %d", tensor, where, tensor,
                 p->domain_ranks_most);
    return true;
}

bool host_is_oversubscribed(const host_load *l) { return l->node_ranks * l->threads > fmin(l->cores, l->quota); }
