/* Splits of the world have names: a request for the same name gets the same split, at once or later. Splits in use stay
 * when others are made. Groups over the same ranks share a split, but their transfers are distinguished. */
#include "machine/watch/watch.h"
#include "parallel/mesh.h"
#include "units/machine/fabric_ranks.h"

enum { LENGTH = 700, ROUNDS = 60, NAMES = 70 };

static mesh_layout layout_of(int t, int d)
{
    return (
        mesh_layout){ .degree = { t, 1, 1, d, 1 }, .expert = 1, .chunks_per_stage = 1, .ranks = t * d, .copies = 1 };
}

static mesh opened(mesh_layout layout)
{
    mesh m;
    mesh_open(&m, &layout, world_rank(), MESH_ON_HOST);
    return m;
}

/* Each member in turn broadcasts its rank. Returns whether there are `size` members and this one is number `rank`. */
static bool reaches(int handle, int first, int stride, int size, int rank)
{
    float own = (float)world_rank(), *all = bytes_of((size_t)size * sizeof own);
    group g = group_line("split", first, stride, size, rank);
    g.handle = handle;
    test_floor f = floor_open((machine_options){ 0 }, 64);
    submit(f.q[0], "who", all_gather_op(&g, tensor_1d(all, F32, size), tensor_1d(&own, F32, 1)));
    machine_sync(f.m);
    bool right = true;
    for (int i = 0; i < size; i++) right = right && all[i] == (float)(first + i * stride);
    floor_close(&f);
    free(all);
    return right;
}

/* Colors divide the ranks, keys order them (here backwards), and a rank with a negative color joins no split. */
static void colors_and_keys(void **state)
{
    int ranks = world_ranks(), rank = world_rank(), even = (ranks + 1) / 2;
    int apart = world_split("even and odd", rank % 2, rank), turned = world_split("backwards", 0, -rank);
    int few = world_split("even", rank % 2 ? -1 : 0, rank), none = world_split("none", -1, 0);
    assert_on_all(reaches(apart, rank % 2, 2, rank % 2 ? ranks - even : even, rank / 2), "even and odd");
    assert_on_all(reaches(turned, ranks - 1, -1, ranks, ranks - 1 - rank), "backwards");
    assert_on_all(rank % 2 ? few == none : few != none && reaches(few, 0, 2, even, rank / 2), "even only");
    const char *const names[] = { "even and odd", "backwards", "even", "none" };
    for (int i = 0; i < 4; i++) world_release(names[i]);
}

/* If a split were freed at once, a new one would reuse its number, or the same name would get another number. */
static void kept_and_shared(void **state)
{
    int first = world_split("kept", 0, world_rank()), again = world_split("kept", 0, world_rank());
    world_release("kept");
    world_release("kept");
    int other = world_split("other", 0, world_rank()), later = world_split("kept", 0, world_rank());
    assert_on_all(first == again, "asked for twice");
    assert_on_all(first == later && first != other, "asked for again when nobody used it");
    world_release("kept");
    world_release("other");
}

/* Requests more names than there are places: each one works, and splits in use are not replaced. */
static void places_are_taken_over(void **state)
{
    int held = world_split("held", 0, world_rank());
    for (int i = 0; i < NAMES; i++) {
        char name[SPLIT_NAME];
        snprintf(name, sizeof name, "passing %d", i);
        int last = world_ranks() - 1, passing = world_split(name, 0, -world_rank());
        assert_on_all(passing != held && reaches(passing, last, -1, last + 1, last - world_rank()), "%s", name);
        world_release(name);
    }
    assert_on_all(held == world_split("held", 0, world_rank()), "held while others came and went");
    assert_on_all(reaches(held, 0, 1, world_ranks(), world_rank()), "held");
    world_release("held");
    world_release("held");
}

/* Groups over the same ranks share a split, also in two meshes of one layout. Another layout has other splits. */
static void meshes_share(void **state)
{
    mesh a = opened(layout_of(world_ranks(), 1)), b = opened(layout_of(world_ranks(), 1)),
         c = opened(layout_of(1, world_ranks()));
    mesh d = opened(layout_of(world_ranks() - 1, 1));
    assert_on_all(a.axis[AXIS_TENSOR].handle == a.model.handle && a.model.handle == a.all.handle, "one mesh");
    assert_on_all(a.model.handle == b.model.handle, "two meshes");
    assert_on_all(c.gradient.handle == c.all.handle && c.gradient.handle != a.model.handle, "two layouts");
    assert_on_all(d.model.handle != a.model.handle, "fewer ranks");
    assert_on_all(a.gradient.handle == -1 && c.model.handle == -1, "groups of one rank have none");
    int handle = a.model.handle;
    mesh_close(&a);
    mesh_close(&b);
    a = opened(layout_of(world_ranks(), 1));
    assert_on_all(a.model.handle == handle, "a mesh of the same layout later");
    mesh_close(&a);
    mesh_close(&c);
    mesh_close(&d);
}

static float value(int rank, int channel, int round) { return (float)(rank * 3 + channel * 50 + round % 7); }

/* Three groups over the same ranks, each on a separate queue, in a different order on every rank. */
static void shared_groups_are_told_apart(void **state)
{
    static float x[3][ROUNDS][LENGTH];
    mesh m = opened(layout_of(world_ranks(), 1));
    group *g[] = { &m.axis[AXIS_TENSOR], &m.model, &m.all };
    machine_options hostile = { .hostile = true, .order_seed = (uint32_t)world_rank() };
    test_floor f = floor_open(hostile, LENGTH * sizeof(float) * MOST_RANKS);
    bool right = true;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 3; i++) {
            for (int k = 0; k < LENGTH; k++) x[i][round][k] = value(world_rank(), i, round);
            submit(f.q[i], "x", all_reduce_op(g[i], tensor_1d(x[i][round], F32, LENGTH)));
        }
    machine_sync(f.m);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 3; i++) {
            float sum = 0.0f;
            for (int r = 0; r < world_ranks(); r++) sum += value(r, i, round);
            for (int k = 0; k < LENGTH; k++) right = right && x[i][round][k] == sum;
        }
    assert_on_all(right, "three groups of one split");
    floor_close(&f);
    mesh_close(&m);
}

int main(int argc, char **argv)
{
    TESTS(tests, colors_and_keys, kept_and_shared, places_are_taken_over, meshes_share, shared_groups_are_told_apart);
    world_start(&argc, &argv);
    watch_limit(30.0);
    int failures = cmocka_run_group_tests_name("splits", tests, NULL, NULL);
    world_stop();
    return failures;
}
