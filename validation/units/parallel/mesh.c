/* The mesh on paper: the members of groups, and which links of two ranks are the same link. */
#include "parallel/mesh.h"
#include "units/tests.h"

static mesh_layout layout_of(int t, int c, int s, int d, int p, int chunks)
{
    return (mesh_layout){
        .degree = { t, c, s, d, p }, .expert = 1, .chunks_per_stage = chunks, .ranks = t * c * s * d * p, .copies = 1
    };
}

static const struct {
    int t, c, s, d, p, chunks;
} rows[] = {
    { 1, 1, 1, 1, 1, 1 }, { 2, 1, 1, 1, 1, 1 }, { 2, 2, 1, 3, 2, 1 }, { 1, 3, 2, 1, 4, 1 },
    { 3, 1, 2, 2, 3, 2 }, { 1, 1, 1, 5, 2, 2 }, { 8, 2, 1, 4, 8, 5 }, { 1, 1, 1, 1, 7, 1 },
    { 2, 1, 1, 1, 1, 2 }, { 1, 1, 8, 1, 1, 1 }, { 2, 2, 2, 2, 2, 2 },
};
enum { ROWS = sizeof rows / sizeof *rows };

static mesh paper(int row, int rank)
{
    mesh m;
    mesh_layout l = layout_of(rows[row].t, rows[row].c, rows[row].s, rows[row].d, rows[row].p, rows[row].chunks);
    mesh_open(&m, &l, rank, MESH_PAPER);
    return m;
}

/* The members are the world's ranks, ascending, that share m's coordinates outside the set. */
static void check_members(const mesh *m, const group *g, unsigned set)
{
    int member = 0;
    for (int rank = 0; rank < m->layout.ranks; rank++) {
        bool in = true;
        for (int a = 0, rest = rank; a < AXES; a++) {
            in = in && (set >> a & 1u || rest % m->layout.degree[a] == m->at[a]);
            rest /= m->layout.degree[a];
        }
        if (!in) continue;
        assert_int_equal(group_world_rank(g, member), rank);
        if (rank == m->rank) assert_int_equal(g->rank, member);
        member++;
    }
    assert_int_equal(g->size, member);
    assert_int_equal(g->first, group_world_rank(g, 0));
}

static void members_are_computed(void **state)
{
    enum {
        GRADIENT = 1u << AXIS_DATA | 1u << AXIS_CONTEXT,
        MODEL = 1u << AXIS_PIPELINE | 1u << AXIS_SHARD | 1u << AXIS_TENSOR
    };
    for (int i = 0; i < ROWS; i++)
        for (int rank = 0; rank < paper(i, 0).layout.ranks; rank++) {
            mesh m = paper(i, rank);
            for (int a = 0; a < AXES; a++) check_members(&m, &m.axis[a], 1u << a);
            check_members(&m, &m.gradient, GRADIENT);
            check_members(&m, &m.model, MODEL);
            check_members(&m, &m.all, GRADIENT | MODEL);
        }
}

/* This rank's link `own` is the link `theirs` of the stage at `distance`. Without such a stage, neither has the
 * link. */
static void check_link(int row, const mesh *m, mesh_link own, mesh_link theirs, int distance)
{
    const group *link = &m->link[own];
    int stages = rows[row].p, at = m->at[AXIS_PIPELINE] + distance, stride = m->layout.ranks / stages;
    bool wraps = rows[row].chunks > 1, there = stages > 1 && (wraps || (at >= 0 && at < stages));
    assert_int_equal(link->size, there ? 2 : 1);
    if (!there) return;
    mesh neighbour = paper(row, m->rank + ((at + stages) % stages - m->at[AXIS_PIPELINE]) * stride);
    const group *other = &neighbour.link[theirs];
    bool sends = own == LINK_FORWARD_OUT || own == LINK_BACKWARD_OUT;
    assert_int_equal(link->rank, sends ? LINK_SENDER : LINK_RECEIVER);
    assert_int_equal(other->rank, sends ? LINK_RECEIVER : LINK_SENDER);
    assert_true(link->channel == other->channel && link->first == other->first && strcmp(link->axis, other->axis) == 0);
    for (int i = 0; i < 2; i++) {
        int rank = group_world_rank(link, i);
        assert_int_equal(rank, group_world_rank(other, i));
        assert_int_equal(rank, i == link->rank ? m->rank : neighbour.rank);
        assert_int_equal(rank, group_world_rank(&m->axis[AXIS_PIPELINE], link->handle_first + i * link->handle_step));
        assert_int_equal(link->handle_first + i * link->handle_step, other->handle_first + i * other->handle_step);
    }
}

static void links_join_neighbours(void **state)
{
    for (int i = 0; i < ROWS; i++)
        for (int rank = 0; rank < paper(i, 0).layout.ranks; rank++) {
            mesh m = paper(i, rank);
            check_link(i, &m, LINK_FORWARD_OUT, LINK_FORWARD_IN, 1);
            check_link(i, &m, LINK_FORWARD_IN, LINK_FORWARD_OUT, -1);
            check_link(i, &m, LINK_BACKWARD_IN, LINK_BACKWARD_OUT, 1);
            check_link(i, &m, LINK_BACKWARD_OUT, LINK_BACKWARD_IN, -1);
        }
}

/* Any two links between the same two ranks differ in channel or direction. */
static void links_are_told_apart(void **state)
{
    for (int i = 0; i < ROWS; i++) {
        mesh m = paper(i, 0);
        for (int a = 0; a < LINKS; a++)
            for (int b = 0; b < a; b++) {
                const group *x = &m.link[a], *y = &m.link[b];
                if (x->size == 1 || y->size == 1) continue;
                assert_true(x->channel != y->channel || x->first != y->first);
            }
    }
}

static void restart_numbers_from_the_first(void **state)
{
    mesh m = paper(4, 7);
    group *all[AXES + 3 + LINKS] = { &m.gradient, &m.model, &m.all };
    for (int i = 0; i < AXES; i++) all[3 + i] = &m.axis[i];
    for (int i = 0; i < LINKS; i++) all[3 + AXES + i] = &m.link[i];
    for (int i = 0; i < AXES + 3 + LINKS; i++) all[i]->sequence = all[i]->step = 5;
    mesh_restart(&m);
    for (int i = 0; i < AXES + 3 + LINKS; i++) assert_true(all[i]->sequence == 0 && all[i]->step == 0);
}

TEST_PROGRAM("mesh", NULL, NULL, members_are_computed, links_join_neighbours, links_are_told_apart,
             restart_numbers_from_the_first)
