/* The fabric of GPUs with the emulated NCCL: concurrent transfers run concurrently, communicators are made, kept and
 * remade. With arguments, for validation/machine/nccl.t, failures: nccl_ranks SCENE STALL_SECONDS. In scenes with
 * mistakes, the last rank makes them. */
#include "machine/cuda/transfers/communicators.h"
#include "machine/cuda/transfers/windows.h"
#include "machine/watch/watch.h"
#include "units/machine/fabric_ranks.h"

enum { ELEMENTS = 300, CELLS = 8 };
enum { FIRST, SECOND, COMPUTE }; /* queues */

static test_floor f;
static tensor cell[CELLS]; /* [ELEMENTS] of F32 in the machine's memory */

static bool is_last(void) { return world_rank() == world_ranks() - 1; }

static void open_cells(void)
{
    f = floor_open((machine_options){ 0 }, ELEMENTS * 4 * MOST_RANKS);
    for (int i = 0; i < CELLS; i++) cell[i] = tensor_1d(machine_memory_take(MACHINE_CUDA, ELEMENTS * 4), F32, ELEMENTS);
    for (int i = 0; i < CELLS; i++) machine_memory_clear(MACHINE_CUDA, cell[i].data, 0, ELEMENTS * 4);
}

static void close_cells(void)
{
    for (int i = 0; i < CELLS; i++) machine_memory_give_back(MACHINE_CUDA, cell[i].data);
    floor_close(&f);
}

static tensor some(int at, int64_t n) { return tensor_slice(cell[at], 0, 0, n); }

static float first_number(tensor x)
{
    float values[ELEMENTS];
    machine_sync(f.m);
    machine_read(f.m, values, x);
    return values[0];
}

/* Connects ranks first .. first + size - 1. The others get a group of one rank. */
static void connect(group *g, const char *name, bool apart, int first, int size)
{
    int at = world_rank() - first;
    bool within = at >= 0 && at < size;
    *g = group_line("test", first, 1, within ? size : 1, within ? at : 0);
    g->apart = apart;
    group_connect(MACHINE_CUDA, g, name, within ? first : -1, g->rank);
}

static void send_to(queue *q, group *g, int peer, tensor x)
{
    submit(q, "send", exchange_op(g, &(transfer){ true, peer, x }, 1));
}
static void receive_from(queue *q, group *g, int peer, tensor x)
{
    submit(q, "receive", exchange_op(g, &(transfer){ false, peer, x }, 1));
}

/* ---- concurrency ---- */

/* Rank 0 posts a receive, then sends. Rank 1 sends the awaited message only after it has received. */
static void receive_ahead_of_send(group *back, group *forth)
{
    queue *back_queue = f.q[FIRST], *forth_queue = f.q[SECOND];
    if (world_rank() == 0) {
        submit(f.q[COMPUTE], "forth", fill_op(cell[1], 7.0));
        receive_from(back_queue, back, 1, cell[0]);
        queue_follow(forth_queue, f.q[COMPUTE]);
        send_to(forth_queue, forth, 1, cell[1]);
    } else if (world_rank() == 1) {
        receive_from(forth_queue, forth, 0, cell[0]);
        queue_follow(back_queue, forth_queue);
        send_to(back_queue, back, 0, cell[0]);
    }
    machine_sync(f.m);
}

static void receives_ahead_hold_up_no_send(void **state)
{
    group back, forth;
    connect(&back, "back", true, 0, 2);
    connect(&forth, "forth", true, 0, 2);
    receive_ahead_of_send(&back, &forth);
    assert_on_all(world_rank() > 1 || first_number(cell[0]) == 7.0f, "what came back");
    group_disconnect(MACHINE_CUDA, "back");
    group_disconnect(MACHINE_CUDA, "forth");
}

/* A queue gets its first communicator in a group's first transfer, in the same way on all ranks. */
static void first_transfer(group *g)
{
    transfer both[] = { { true, 1 - g->rank, cell[2] }, { false, 1 - g->rank, cell[3] } };
    if (g->size == 2) submit(f.q[FIRST], "first", exchange_op(g, both, 2));
}

/* ---- communicators ---- */

static void communicators_are_kept_and_made_again(void **state)
{
    group g, again;
    connect(&g, "kept", 0, 0, world_ranks());
    connect(&again, "kept", 0, 0, world_ranks());
    assert_ptr_equal(communicator_for(&g), communicator_for(&again));
    group_disconnect(MACHINE_CUDA, "kept");
    for (int i = 0; i < 70; i++) { /* more than are kept at the same time */
        char name[SPLIT_NAME];
        group other;
        snprintf(name, sizeof name, "other %d", i % 35);
        connect(&other, name, i % 2, 0, world_ranks());
        submit(f.q[FIRST], "one", fill_op(cell[0], 1.0));
        submit(f.q[FIRST], "x", all_reduce_op(&other, cell[0]));
        assert_on_all(first_number(cell[0]) == (float)world_ranks(), "sum %d", i);
        group_disconnect(MACHINE_CUDA, name);
    }
    submit(f.q[FIRST], "one", fill_op(cell[0], 1.0));
    submit(f.q[FIRST], "x", all_reduce_op(&g, cell[0]));
    assert_on_all(first_number(cell[0]) == (float)world_ranks(), "sum in a communicator that stayed");
    group_disconnect(MACHINE_CUDA, "kept");
}

/* Links, separate groups and groups that take turns use the configured thread blocks, in several runs. */
static void communicators_have_their_blocks(void **state)
{
    static const transfer_blocks sets[] = { { 1, 4, 16 }, { 8, 16, 16 } };
    for (int i = 0; i < 2; i++) {
        group link, apart, other;
        machine_set_blocks(sets[i]);
        connect(&other, "turns", 0, 0, world_ranks());
        apart = group_line("test", 0, 1, world_ranks(), world_rank());
        apart.apart = true;
        group_connect(MACHINE_CUDA, &apart, "apart", 0, world_rank());
        link = group_line("test", 0, 1, world_ranks(), world_rank());
        link.apart = true;
        link.channel = CHANNEL_FORWARD;
        group_connect(MACHINE_CUDA, &link, "link", 0, world_rank());
        submit(f.q[FIRST], "x", all_reduce_op(&other, cell[0]));
        machine_sync(f.m);
        assert_on_all(emulator_nccl_blocks(communicator_for(&other)->comm) == sets[i].turns &&
                          emulator_nccl_blocks(communicator_for(&apart)->comm) == sets[i].apart &&
                          emulator_nccl_blocks(communicator_for(&link)->comm) == sets[i].link,
                      "blocks %d", i);
        group_disconnect(MACHINE_CUDA, "turns");
        group_disconnect(MACHINE_CUDA, "apart");
        group_disconnect(MACHINE_CUDA, "link");
    }
}

/* all_gather in an arena that is a window. The memory is kept. */
static void windows_are_written_by_engines(void **state)
{
    enum { PART = 64 };
    group g, *const of[] = { &g };
    float part[PART], whole[MOST_RANKS * PART];
    connect(&g, "window", 1, 0, world_ranks());
    float *mapped = machine_window_take(MACHINE_CUDA, sizeof whole * 2, of, 1, &g);
    const cuda_communicator *c = communicator_for(&g);
    tensor to = tensor_1d(mapped, F32, PART * world_ranks()), from = tensor_1d(mapped + MOST_RANKS * PART, F32, PART);
    assert_true(cuda_window_holds(mapped, c) && !cuda_window_holds(cell[0].data, c));
    for (int i = 0; i < PART; i++) part[i] = (float)(world_rank() * PART + i);
    machine_upload(f.m, from, part);
    submit(f.q[FIRST], "x", all_gather_op(&g, to, from));
    machine_sync(f.m);
    machine_read(f.m, whole, to);
    for (int i = 0; i < PART * world_ranks(); i++) assert_true(whole[i] == (float)i);
    machine_memory_give_back(MACHINE_CUDA, mapped);
    assert_ptr_equal(machine_window_take(MACHINE_CUDA, PART, of, 1, &g), mapped); /* kept for the next arena */
    machine_memory_give_back(MACHINE_CUDA, mapped);
    group_disconnect(MACHINE_CUDA, "window");
}

/* ---- scenes ---- */

static void shared_links(void)
{
    group back, forth;
    connect(&back, "back", 0, 0, 2);
    connect(&forth, "forth", 0, 0, 2);
    first_transfer(&back);
    first_transfer(&forth);
    receive_ahead_of_send(&back, &forth);
}

static void one_at_once(void)
{
    group g;
    connect(&g, "one at once", 1, 0, 2);
    first_transfer(&g);
    receive_ahead_of_send(&g, &g);
}

/* Ranks that never met submit their first transfers in different orders: they wait for each other inside NCCL. */
static void first_meeting(void)
{
    group a, b;
    connect(&a, "a", 0, 0, 2);
    connect(&b, "b", 0, 0, 2);
    if (world_rank() < 2) send_to(f.q[FIRST], world_rank() ? &a : &b, 1 - world_rank(), cell[0]);
    if (world_rank() < 2) receive_from(f.q[SECOND], world_rank() ? &b : &a, 1 - world_rank(), cell[1]);
    machine_sync(f.m);
}

static group *everybody(void)
{
    static group g;
    connect(&g, "everybody", 0, 0, world_ranks());
    return &g;
}

static void reduce(group *g, int64_t n) { submit(f.q[FIRST], "x", all_reduce_op(g, some(0, n))); }

static void other_count(void) { reduce(everybody(), is_last() ? 5 : 3); }
static void other_kind(void)
{
    group *g = everybody();
    if (is_last()) submit(f.q[FIRST], "x", all_gather_op(g, some(0, world_ranks()), tensor_none()));
    else reduce(g, 1);
}

static void other_order(void)
{
    group *g = everybody();
    reduce(g, is_last() ? 4 : 6);
    reduce(g, is_last() ? 6 : 4);
}

static void short_message(void)
{
    group *g = everybody();
    if (is_last()) send_to(f.q[FIRST], g, 0, some(0, 4));
    else if (world_rank() == 0) receive_from(f.q[FIRST], g, world_ranks() - 1, some(0, 8));
}

static void memory_of_the_host(void)
{
    static float x[4];
    submit(f.q[FIRST], "x", all_reduce_op(everybody(), tensor_1d(x, F32, 4)));
}

/* The rank's own part is one place off its correct place. */
static void half_in_place(void)
{
    group *g = everybody();
    tensor from = tensor_slice(cell[0], 0, g->rank * 4 + 1, 4);
    submit(f.q[FIRST], "x", all_gather_op(g, some(0, 4 * world_ranks()), from));
}

static void given_back(void)
{
    group *g = everybody();
    machine_memory_give_back(MACHINE_CUDA, cell[0].data);
    reduce(g, 3);
}

static void destroyed(void)
{
    group g, other, old;
    connect(&g, "old", 0, 0, world_ranks());
    old = g;
    group_disconnect(MACHINE_CUDA, "old");
    connect(&other, "other", 0, 0, world_ranks());
    ncclComm_t late = communicator_for(&other)->comm;
    group_disconnect(MACHINE_CUDA, "other");
    connect(&other, "third", 0, 0, world_ranks());
    ncclAllReduce(cell[0].data, cell[0].data, 1, ncclFloat32, ncclSum, late, NULL);
    reduce(&old, 1);
}

static void error(void)
{
    group *g = everybody();
    reduce(g, 3);
    machine_sync(f.m);
    if (!is_last()) reduce(g, 3);
    emulator_nccl_break(communicator_for(g)->comm, ncclRemoteError);
}

/* The last rank's buffer has another offset in its window: NCCL would write to the offset of the other ranks. */
static void other_place(void)
{
    group *g = everybody();
    float *mapped = machine_window_take(MACHINE_CUDA, 1 << 16, &g, 1, g);
    tensor to = tensor_1d(mapped + (is_last() ? 64 : 0), F32, world_ranks());
    submit(f.q[FIRST], "x", all_gather_op(g, to, tensor_none()));
}

static void device_of_two(void) { reduce(everybody(), 3); }

static void shared_device(void)
{
    machine_share_devices(true);
    reduce(everybody(), 3);
}

static const struct {
    const char *name;
    void (*run)(void);
} scenes[] = {
    { "shared_links", shared_links },   { "one_at_once", one_at_once },
    { "first_meeting", first_meeting }, { "other_count", other_count },
    { "other_kind", other_kind },       { "other_order", other_order },
    { "short_message", short_message }, { "memory_of_the_host", memory_of_the_host },
    { "half_in_place", half_in_place }, { "given_back", given_back },
    { "destroyed", destroyed },         { "error", error },
    { "shared_device", shared_device }, { "device_of_two", device_of_two },
    { "other_place", other_place },
};

static void play(const char *name)
{
    machine_origin(f.m, (origin){ .step = 2, .microbatch = -1, .chunk = -1, .layer = -1, .phase = PHASE_GRADIENT });
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        if (strcmp(scenes[i].name, name) == 0) scenes[i].run();
    machine_sync(f.m);
    world_barrier();
}

int main(int count, char **arguments)
{
    TESTS(tests, receives_ahead_hold_up_no_send, communicators_are_kept_and_made_again, communicators_have_their_blocks,
          windows_are_written_by_engines);
    int failures = 0;
    world_start(&count, &arguments);
    watch_limit(count == 3 ? strtod(arguments[2], NULL) : 30.0);
    open_cells();
    if (count == 3) play(arguments[1]);
    else failures = cmocka_run_group_tests_name("nccl_ranks", tests, NULL, NULL);
    if (count != 3) close_cells();
    world_stop();
    return failures;
}
