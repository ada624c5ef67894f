/* Links of a pipeline: each link numbers its own transfers, so a stage may use its four links in any order. */
#include "machine/watch/watch.h"
#include "parallel/mesh.h"
#include "units/machine/fabric_ranks.h"
#include "units/test_length.h"

enum { STEPS = 3, MICROBATCHES = 40, MANY = 9000, MANY_ON_GPUS = 500, MANY_BRIEFLY = 50, MOST = 1500 };
static const char *const link_name[LINKS] = { "activations", "activations", "gradients", "gradients" };
static mesh ring, line;

static mesh_layout pipeline_of(int stages, int chunks)
{
    return (mesh_layout){
        .degree = { 1, 1, 1, 1, stages }, .expert = 1, .chunks_per_stage = chunks, .ranks = stages, .copies = 1
    };
}

static int open_meshes(void **state)
{
    watch_limit(WATCH_SECONDS);
    mesh_layout with_chunks = pipeline_of(world_ranks(), 2), without = pipeline_of(world_ranks(), 1);
    mesh_open(&ring, &with_chunks, world_rank(), mesh_on(tested_machine()));
    mesh_open(&line, &without, world_rank(), mesh_on(tested_machine()));
    return 0;
}

static int close_meshes(void **state)
{
    mesh_close(&line);
    mesh_close(&ring);
    return 0;
}

static bool sends(int link) { return link == LINK_FORWARD_OUT || link == LINK_BACKWARD_OUT; }

/* Sizes below and above MPI's eager limit. */
static int64_t length_of(int64_t i) { return i % 3 == 0 ? 1 : i % 3 == 1 ? 100 : MOST; }

/* Returns element k of message i from `sender` on a channel. */
static float value(int sender, int channel, int64_t i, int64_t k)
{
    return (float)(sender * 1009 + channel * 101 + (int)(i % 97) * 3 + (int)(k % 7));
}

typedef struct {
    float x[LINKS][MICROBATCHES][MOST];
} traffic;

static void fill_in(const mesh *m, traffic *b)
{
    for (int link = 0; link < LINKS; link++)
        for (int64_t i = 0; i < MICROBATCHES; i++)
            for (int64_t k = 0; k < length_of(i); k++)
                b->x[link][i][k] = sends(link) ? value(world_rank(), (int)m->link[link].channel, i, k) : -1.0f;
}

/* all: the traffic in the machine's memory, [LINKS, MICROBATCHES, MOST]. */
static void submit_transfer(const test_floor *f, mesh *m, tensor all, int link, int64_t i)
{
    group *g = &m->link[link];
    if (g->size == 1) return;
    tensor x = tensor_flat(tensor_slice(tensor_slice(tensor_slice(all, 0, link, 1), 1, i, 1), 2, 0, length_of(i)));
    transfer t = { sends(link), sends(link) ? LINK_RECEIVER : LINK_SENDER, x };
    submit(f->q[link], link_name[link], exchange_op(g, &t, 1));
}

static bool arrived(const mesh *m, const traffic *b)
{
    bool right = true;
    for (int link = 0; link < LINKS; link++) {
        const group *g = &m->link[link];
        for (int64_t i = 0; i < MICROBATCHES && g->size == 2 && !sends(link); i++)
            for (int64_t k = 0; k < length_of(i); k++)
                right = right && b->x[link][i][k] == value(group_world_rank(g, LINK_SENDER), (int)g->channel, i, k);
    }
    return right;
}

/* Receives run ahead of sends by a number of transfers that depends on the rank. Each rank mixes its links in another
 * order. */
static bool traffic_is_exact(mesh *m, bool hostile, int ahead)
{
    static traffic b;
    bool right = true;
    test_floor f = floor_open(
        (machine_options){ .hostile = hostile, .order_seed = (uint32_t)world_rank(), .prove_access = true }, 64);
    for (int step = test_is_brief_emulation() ? STEPS - 1 : 0; step < STEPS; step++) {
        tensor all = tensor_3d(b.x, F32, LINKS, MICROBATCHES, MOST);
        fill_in(m, &b);
        tensor there = placed(&f, all);
        machine_step(f.m, step);
        for (int64_t i = 0; i < MICROBATCHES + ahead; i++)
            for (int n = 0; n < LINKS; n++) {
                int link = (n + world_rank() + step) % LINKS;
                int64_t at = sends(link) ? i - ahead : i;
                if (at >= 0 && at < MICROBATCHES) submit_transfer(&f, m, there, link, at);
            }
        machine_sync(f.m);
        fetched(&f, all, there);
        right = arrived(m, &b) && right;
    }
    floor_close(&f);
    return right;
}

static void between_neighbours(void **state)
{
    bool briefly = test_is_brief_emulation();
    for (int hostile = briefly; hostile < 2; hostile++)
        for (int ahead = briefly ? 3 : 0; ahead < 4; ahead += 3) {
            assert_on_all(traffic_is_exact(&line, hostile, ahead), "line, hostile %d, %d ahead", hostile, ahead);
            assert_on_all(traffic_is_exact(&ring, hostile, ahead), "ring, hostile %d, %d ahead", hostile, ahead);
            assert_on_all(traffic_is_exact(&ring, hostile && world_rank() % 2, world_rank()), "mixed, hostile %d",
                          hostile);
        }
}

static tensor token_at(tensor all, int way, int i)
{
    return tensor_flat(tensor_slice(tensor_slice(all, 0, way, 1), 1, i, 1));
}

/* Sends more transfers than there are tags on two links between the same ranks: one token per channel goes round. */
static void many_transfers(void **state)
{
    static uint64_t token[2][MANY + 1];
    test_floor f = floor_open((machine_options){ 0 }, 64);
    for (int way = 0; way < 2; way++) token[way][0] = (uint64_t)(1000 * way + world_rank());
    int many = f.kind == MACHINE_HOST ? MANY : test_is_brief_emulation() ? MANY_BRIEFLY : MANY_ON_GPUS;
    tensor all = tensor_2d(token, U64, 2, MANY + 1), there = placed(&f, all);
    for (int i = 0; i < many; i++)
        for (int way = 0; way < 2; way++) {
            int out = way ? LINK_BACKWARD_OUT : LINK_FORWARD_OUT, in = way ? LINK_BACKWARD_IN : LINK_FORWARD_IN;
            transfer send = { true, LINK_RECEIVER, token_at(there, way, i) };
            transfer receive = { false, LINK_SENDER, token_at(there, way, i + 1) };
            queue_wait(f.q[out], queue_mark(f.q[in]));
            submit(f.q[out], "token", exchange_op(&ring.link[out], &send, 1));
            submit(f.q[in], "token", exchange_op(&ring.link[in], &receive, 1));
        }
    machine_sync(f.m);
    fetched(&f, all, there);
    int ranks = world_ranks(), moved = many % ranks;
    assert_on_all(token[0][many] == (uint64_t)((world_rank() + ranks - moved) % ranks), "forward token");
    assert_on_all(token[1][many] == (uint64_t)(1000 + (world_rank() + moved) % ranks), "backward token");
    floor_close(&f);
}

WORLD_PROGRAM("fabric_links", open_meshes, close_meshes, between_neighbours, many_transfers)
