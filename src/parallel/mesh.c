/* The mesh. */
#include "parallel/mesh.h"
#include "machine/world.h"
#include "plan/model/shapes.h"
#include <stdio.h>
#include <string.h>

/* Returns the distance in ranks between neighbours along an axis. */
static int axis_stride(const mesh_layout *l, mesh_axis axis)
{
    int stride = 1;
    for (int a = 0; a < (int)axis; a++) stride *= l->degree[a];
    return stride;
}

/* Returns the group over a set of axes (one bit each): this rank and all that differ from it only along these axes. */
static group group_over(const mesh *m, const char *name, unsigned axes)
{
    group g = { .axis = name, .size = 1, .first = m->rank, .handle = -1, .handle_step = 1 };
    for (int a = 0; a < AXES; a++) {
        if (!(axes >> a & 1u)) continue;
        int stride = axis_stride(&m->layout, (mesh_axis)a);
        g.dim[g.dims++] = (group_dim){ m->layout.degree[a], stride };
        g.rank += m->at[a] * g.size;
        g.size *= m->layout.degree[a];
        g.first -= m->at[a] * stride;
    }
    return g;
}

/* Returns the stage after stage p, or -1. */
static int next_stage(const mesh_layout *l, int p)
{
    int stages = l->degree[AXIS_PIPELINE];
    if (p + 1 < stages) return p + 1;
    return stages > 1 && l->chunks_per_stage > 1 ? 0 : -1;
}

static int previous_stage(const mesh_layout *l, int p)
{
    if (p > 0) return p - 1;
    return next_stage(l, l->degree[AXIS_PIPELINE] - 1) == 0 ? l->degree[AXIS_PIPELINE] - 1 : -1;
}

/* Returns the link between this rank's stage and another; a group of one rank if that stage does not exist. */
static group link_between(const mesh *m, fabric_channel channel, int from, int to)
{
    const group *pipeline = &m->axis[AXIS_PIPELINE];
    group alone = group_line(pipeline->axis, m->rank, 0, 1, 0);
    alone.apart = true;
    if (from < 0 || to < 0) return alone;
    int stride = (to - from) * axis_stride(&m->layout, AXIS_PIPELINE);
    int role = m->at[AXIS_PIPELINE] == to ? LINK_RECEIVER : LINK_SENDER;
    group g = group_line(pipeline->axis, group_world_rank(pipeline, from), stride, 2, role);
    g.apart = true;
    g.handle = pipeline->handle;
    g.handle_first = from;
    g.handle_step = to - from;
    g.channel = channel;
    return g;
}

static void make_links(mesh *m)
{
    int own = m->at[AXIS_PIPELINE], next = next_stage(&m->layout, own), previous = previous_stage(&m->layout, own);
    m->link[LINK_FORWARD_IN] = link_between(m, CHANNEL_FORWARD, previous, own);
    m->link[LINK_FORWARD_OUT] = link_between(m, CHANNEL_FORWARD, own, next);
    m->link[LINK_BACKWARD_IN] = link_between(m, CHANNEL_BACKWARD, next, own);
    m->link[LINK_BACKWARD_OUT] = link_between(m, CHANNEL_BACKWARD, own, previous);
}

/* Groups with a communicator. The data axis has none, because `gradient` does all its transfers. Groups over the same
 * ranks share a communicator and differ in their channels. On the host, the links use the pipeline's communicator. */
typedef struct {
    group *g;
    unsigned axes;
} connected_group;
enum {
    GRADIENT = 1u << AXIS_DATA | 1u << AXIS_CONTEXT,
    MODEL = 1u << AXIS_PIPELINE | 1u << AXIS_SHARD | 1u << AXIS_TENSOR
};
enum { CONNECTED = 7 };

static void list_connected(mesh *m, connected_group list[CONNECTED])
{
    const connected_group all[CONNECTED] = { { &m->axis[AXIS_TENSOR], 1u << AXIS_TENSOR },
                                             { &m->axis[AXIS_CONTEXT], 1u << AXIS_CONTEXT },
                                             { &m->axis[AXIS_SHARD], 1u << AXIS_SHARD },
                                             { &m->axis[AXIS_PIPELINE], 1u << AXIS_PIPELINE },
                                             { &m->gradient, GRADIENT },
                                             { &m->model, MODEL },
                                             { &m->all, GRADIENT | MODEL } };
    memcpy(list, all, sizeof all);
}

/* Writes a name for the world's split along these axes. Returns false if none of them has more than one rank. */
static bool split_name(const mesh_layout *l, unsigned axes, char name[SPLIT_NAME])
{
    unsigned split = 0;
    for (int a = 0; a < AXES; a++)
        if (axes >> a & 1u && l->degree[a] > 1) split |= 1u << a;
    const int *d = l->degree;
    snprintf(name, SPLIT_NAME, "%d x %d.%d.%d.%d.%d over %x", l->copies, d[0], d[1], d[2], d[3], d[4], split);
    return split != 0;
}

static machine_kind machine_of(const mesh *m) { return m->connection == MESH_ON_CUDA ? MACHINE_CUDA : MACHINE_HOST; }
mesh_connection mesh_on(machine_kind kind) { return kind == MACHINE_CUDA ? MESH_ON_CUDA : MESH_ON_HOST; }

/* Connects the same groups in the same order on every rank of the world (collective). */
static void connect_groups(mesh *m)
{
    connected_group list[CONNECTED];
    char name[SPLIT_NAME];
    list_connected(m, list);
    for (int i = 0; i < CONNECTED; i++) {
        group *g = list[i].g;
        if (split_name(&m->layout, list[i].axes, name))
            group_connect(machine_of(m), g, name, m->takes_part ? g->first : -1, g->rank);
    }
}

/* Splits of the world into links. On GPUs each link has a separate communicator, because transfers of two links must
 * not wait for each other. In a split each rank is in one group, so the links of a channel need three splits: from even
 * stages to the next, from odd stages to the next, from the last stage to the first. */
typedef enum { FROM_EVEN, FROM_ODD, FROM_LAST, LINK_SPLITS } link_split;

static link_split split_of_link(const mesh *m, int link)
{
    int stages = m->layout.degree[AXIS_PIPELINE], own = m->at[AXIS_PIPELINE];
    bool to_next = link == LINK_FORWARD_OUT || link == LINK_BACKWARD_IN;
    int stage = to_next ? own : previous_stage(&m->layout, own);
    return stage == stages - 1 ? FROM_LAST : stage % 2 ? FROM_ODD : FROM_EVEN;
}

/* Returns this rank's link in the split, or NULL. */
static group *find_link(mesh *m, fabric_channel channel, link_split split)
{
    for (int i = 0; i < LINKS; i++)
        if (m->link[i].size == 2 && m->link[i].channel == channel && split_of_link(m, i) == split) return &m->link[i];
    return NULL;
}

/* Writes a name for the split; returns false if the layout has no such links. */
static bool link_split_name(const mesh_layout *l, fabric_channel channel, link_split split, char name[SPLIT_NAME])
{
    static const char *const words[] = { "even", "odd", "last" };
    const int *d = l->degree, stages = d[AXIS_PIPELINE];
    snprintf(name, SPLIT_NAME, "%d x %d.%d.%d.%d.%d %s from %s", l->copies, d[0], d[1], d[2], d[3], d[4],
             channel == CHANNEL_FORWARD ? "forward" : "backward", words[split]);
    return split == FROM_LAST ? next_stage(l, stages - 1) == 0 : stages > 1 + (int)split;
}

static bool reversed_name(const mesh_layout *l, char name[SPLIT_NAME])
{
    const int *d = l->degree;
    snprintf(name, SPLIT_NAME, "%d x %d.%d.%d.%d.%d context reversed", l->copies, d[0], d[1], d[2], d[3], d[4]);
    return d[AXIS_CONTEXT] > 1;
}

/* Makes the groups of experts. l->expert adjacent ranks of data x context together hold all experts of a layer. */
static void make_experts(mesh *m)
{
    const mesh_layout *l = &m->layout;
    int stride = l->degree[AXIS_TENSOR], at = m->at[AXIS_DATA] * l->degree[AXIS_CONTEXT] + m->at[AXIS_CONTEXT];
    int member = at % l->expert, copy = at / l->expert, copies = m->gradient.size / l->expert;
    m->expert = group_line("expert", m->rank - member * stride, stride, l->expert, member);
    m->expert_gradient = group_line("gradient", m->rank - copy * l->expert * stride, l->expert * stride, copies, copy);
    m->expert.apart = true;
    m->expert_gradient.channel = CHANNEL_EXPERTS;
}

/* Writes a name for the world's split into such groups. Returns false if there are none. */
static bool experts_name(const mesh_layout *l, const group *g, char name[SPLIT_NAME])
{
    const int *d = l->degree;
    snprintf(name, SPLIT_NAME, "%d x %d.%d.%d.%d.%d %s of %d experts", l->copies, d[0], d[1], d[2], d[3], d[4],
             g->channel == CHANNEL_EXPERTS ? "gradients" : "rows", l->expert);
    return l->expert > 1 && g->size > 1;
}

static void connect_experts(mesh *m)
{
    char name[SPLIT_NAME];
    group *const list[] = { &m->expert, &m->expert_gradient };
    for (int i = 0; i < 2; i++)
        if (experts_name(&m->layout, list[i], name))
            group_connect(machine_of(m), list[i], name, m->takes_part ? list[i]->first : -1, list[i]->rank);
}

static void disconnect_experts(const mesh *m)
{
    char name[SPLIT_NAME];
    const group *const list[] = { &m->expert, &m->expert_gradient };
    for (int i = 0; i < 2; i++)
        if (experts_name(&m->layout, list[i], name)) group_disconnect(machine_of(m), name);
}

enum { LINK_CHANNELS = 2 };
static const fabric_channel link_channels[LINK_CHANNELS] = { CHANNEL_FORWARD, CHANNEL_BACKWARD };

/* Connects the reversed group. Only GPUs need it, because there a group has the order of its communicator. */
static void connect_reversed(mesh *m)
{
    char name[SPLIT_NAME];
    group *g = &m->context_reversed;
    if (reversed_name(&m->layout, name)) group_connect(machine_of(m), g, name, m->takes_part ? g->first : -1, g->rank);
}

static void connect_links(mesh *m)
{
    char name[SPLIT_NAME];
    group none = link_between(m, CHANNEL_NONE, -1, -1);
    for (int i = 0; i < LINK_CHANNELS * LINK_SPLITS; i++) {
        fabric_channel channel = link_channels[i % LINK_CHANNELS];
        link_split split = (link_split)(i / LINK_CHANNELS);
        group *g = find_link(m, channel, split);
        if (link_split_name(&m->layout, channel, split, name))
            group_connect(machine_of(m), g ? g : &none, name, g && m->takes_part ? g->first : -1, g ? g->rank : 0);
    }
}

static void disconnect_reversed(const mesh *m)
{
    char name[SPLIT_NAME];
    if (reversed_name(&m->layout, name)) group_disconnect(machine_of(m), name);
}

static void disconnect_links(const mesh *m)
{
    char name[SPLIT_NAME];
    for (int i = 0; i < LINK_CHANNELS * LINK_SPLITS; i++)
        if (link_split_name(&m->layout, link_channels[i % LINK_CHANNELS], (link_split)(i / LINK_CHANNELS), name))
            group_disconnect(machine_of(m), name);
}

static void make_groups(mesh *m)
{
    for (int a = 0; a < AXES; a++) m->axis[a] = group_over(m, axis_name((mesh_axis)a), 1u << a);
    m->gradient = group_over(m, "gradient", GRADIENT);
    m->model = group_over(m, "model", MODEL);
    m->all = group_over(m, "all", GRADIENT | MODEL);
    m->axis[AXIS_TENSOR].apart = true;
    m->axis[AXIS_CONTEXT].apart = true;
    m->gradient.channel = CHANNEL_GRADIENT;
    m->model.channel = CHANNEL_MODEL;
    m->all.channel = CHANNEL_ALL;
}

void mesh_open(mesh *m, const mesh_layout *layout, int rank, mesh_connection connection)
{
    *m = (mesh){ .layout = *layout, .rank = rank, .connection = connection };
    m->takes_part = rank / layout->ranks < layout->copies;
    int rest = m->takes_part ? rank % layout->ranks : 0;
    for (int a = 0; a < AXES; a++) {
        m->at[a] = rest % layout->degree[a];
        rest /= layout->degree[a];
    }
    if (!m->takes_part) m->rank = 0;
    make_groups(m);
    make_experts(m);
    if (connection != MESH_PAPER) connect_groups(m);
    if (connection != MESH_PAPER) connect_experts(m);
    m->context_reversed = group_reversed(&m->axis[AXIS_CONTEXT]);
    make_links(m);
    if (connection == MESH_ON_CUDA) connect_reversed(m);
    if (connection == MESH_ON_CUDA) connect_links(m);
    m->rank = rank;
}

void mesh_open_alone(mesh *m, int rank)
{
    mesh_open(m, &one_rank_layout, 0, MESH_PAPER);
    m->rank = rank;
}

void mesh_close(mesh *m)
{
    connected_group list[CONNECTED];
    char name[SPLIT_NAME];
    if (m->connection == MESH_PAPER) return;
    list_connected(m, list);
    for (int i = 0; i < CONNECTED; i++)
        if (split_name(&m->layout, list[i].axes, name)) group_disconnect(machine_of(m), name);
    disconnect_experts(m);
    if (m->connection == MESH_ON_CUDA) disconnect_reversed(m);
    if (m->connection == MESH_ON_CUDA) disconnect_links(m);
}

void mesh_restart(mesh *m)
{
    group *g[] = { &m->gradient, &m->model, &m->all, &m->context_reversed, &m->expert, &m->expert_gradient };
    for (int i = 0; i < AXES; i++) m->axis[i].sequence = m->axis[i].step = 0;
    for (int i = 0; i < 6; i++) g[i]->sequence = g[i]->step = 0;
    for (int i = 0; i < LINKS; i++) m->link[i].sequence = m->link[i].step = 0;
}
