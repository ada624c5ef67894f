/* The mesh. */
#include "parallel/mesh.h"
#include "base/fail.h"
#include "machine/world.h"
#include <stdlib.h>

/* Rank distance of neighbours along an axis. */
static int axis_stride(const mesh_layout *l, mesh_axis axis)
{
    int stride = 1;
    for (int a = 0; a < (int)axis; a++) stride *= l->degree[a];
    return stride;
}

/* The ranks that differ from m's in the axes of the set only, outermost axis slowest. */
static group group_over(mesh *m, const char *name, unsigned set, int **storage)
{
    group g = { .axis = name, .size = 1, .rank = 0, .handle = -1, .world_rank = *storage };
    int first = m->rank;
    for (int a = AXES - 1; a >= 0; a--) {
        if (!(set >> a & 1u)) continue;
        g.size *= m->layout.degree[a];
        g.rank = g.rank * m->layout.degree[a] + m->at[a];
        first -= m->at[a] * axis_stride(&m->layout, (mesh_axis)a);
    }
    for (int i = 0; i < g.size; i++) {
        int rest = i, rank = first;
        for (int a = 0; a < AXES; a++) {
            if (!(set >> a & 1u)) continue;
            rank += rest % m->layout.degree[a] * axis_stride(&m->layout, (mesh_axis)a);
            rest /= m->layout.degree[a];
        }
        *(*storage)++ = rank;
    }
    return g;
}

/* Collective: every rank of the world calls it for the same groups in the same order. */
static void connect_group(const mesh *m, group *g)
{
    int size = m->takes_part ? g->size : 0;
    g->handle = world_split(size > 1 ? g->world_rank[0] : -1, g->rank);
}

static void make_groups(mesh *m)
{
    enum { GRADIENT = 1u << AXIS_DATA | 1u << AXIS_SHARD | 1u << AXIS_CONTEXT, MODEL = 1u << AXIS_PIPELINE | 1u << AXIS_TENSOR };
    const mesh_layout *l = &m->layout;
    int shared = l->degree[AXIS_DATA] * l->degree[AXIS_SHARD] * l->degree[AXIS_CONTEXT], total = shared + l->ranks;
    total += l->degree[AXIS_PIPELINE] * l->degree[AXIS_TENSOR];
    for (int a = 0; a < AXES; a++) total += l->degree[a];
    int *storage = m->ranks = malloc((size_t)total * sizeof *m->ranks);
    if (!m->ranks) FAIL("no memory for the groups of a mesh of %d ranks", l->ranks);
    for (int a = 0; a < AXES; a++) m->axis[a] = group_over(m, axis_name((mesh_axis)a), 1u << a, &storage);
    m->gradient = group_over(m, "gradient", GRADIENT, &storage);
    m->model = group_over(m, "model", MODEL, &storage);
    m->all = group_over(m, "all", GRADIENT | MODEL, &storage);
}

void mesh_open(mesh *m, const mesh_layout *layout, int rank, bool connect)
{
    *m = (mesh){ .layout = *layout, .rank = rank, .takes_part = rank < layout->ranks, .connected = connect };
    int rest = m->takes_part ? rank : 0;
    for (int a = 0; a < AXES; a++) {
        m->at[a] = rest % layout->degree[a];
        rest /= layout->degree[a];
    }
    if (!m->takes_part) m->rank = 0;
    make_groups(m);
    m->rank = rank;
    if (!connect) return;
    for (int a = 0; a < AXES; a++) connect_group(m, &m->axis[a]);
    connect_group(m, &m->gradient);
    connect_group(m, &m->model);
    connect_group(m, &m->all);
}

void mesh_open_alone(mesh *m, int rank)
{
    mesh_layout alone = { .degree = { 1, 1, 1, 1, 1 }, .expert = 1, .chunks_per_stage = 1, .ranks = 1 };
    mesh_open(m, &alone, 0, false);
    m->rank = rank;
}

void mesh_close(mesh *m)
{
    for (int a = 0; m->connected && a < AXES; a++) world_release(m->axis[a].handle);
    if (m->connected) {
        world_release(m->gradient.handle);
        world_release(m->model.handle);
        world_release(m->all.handle);
    }
    free(m->ranks);
}
