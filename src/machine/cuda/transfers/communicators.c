/* Communicators of the CUDA machine. They are process state, like NCCL's own state.
 *
 * NCCL runs the transfers of one communicator in the order of submission, whatever their streams. The same holds for
 * communicators that share resources. Therefore there are two kinds. A group `apart` has a separate communicator, so
 * that a receive posted early on one pipeline link does not block a send on another link. All other groups take turns:
 * they share the resources of one communicator of the world. Each kind is split from a separate world communicator. */
#include "machine/cuda/transfers/communicators.h"
#include "base/fail.h"
#include "machine/cuda/device/call.h"
#include "machine/cuda/device/device.h"
#include "machine/cuda/device/environment.h"
#include "machine/op/activity.h"
#include "machine/queue/kind.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPLITS = 64 };
/* Extra seconds before a stall is reported while a communicator is made. Times at many ranks were not measured. */
static const double SETUP_SECONDS_PER_RANK = 0.25;

typedef enum { TURNS, APART, PARTS } part_index;
typedef struct {
    char name[SPLIT_NAME]; /* empty: unused */
    int users;
    bool made[PARTS];
    cuda_communicator part[PARTS];
} split;

static struct {
    bool open;
    transfer_blocks blocks; /* the settings of all communicators */
    ncclComm_t world[2];    /* [takes turns] */
    split split[SPLITS];
    double bytes; /* device memory that they hold, measured when they are made and destroyed */
} communicators;

/* ---- the world ---- */

static void abort_run(int status)
{
    communicators_abort();
    world_abort(status);
}

/* NCCL refuses two ranks of one host on one device. A different NCCL_HOSTID makes each rank a host. */
static void open_library(void)
{
    char text[128];
    if (communicators.open) return; /* setenv is unsafe once NCCL has threads */
    communicators.open = true;
    snprintf(text, sizeof text, "xgsw-rank-%d", world_rank());
    if (machine_shares_devices()) setenv("NCCL_HOSTID", text, 1);
    if (machine_repeats_bits()) cuda_environment_disable_nvls();
    nccl_open();
    snprintf(text, sizeof text, "rank %d on %s", world_rank(), world_host());
    fail_install(abort_run, text);
}

static ncclConfig_t configuration(bool takes_turns, int blocks)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    config.splitShare = takes_turns;
    config.cgaClusterSize = 0;
    if (nccl_windows_load()) config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
    config.maxCTAs = blocks;
    return config;
}

static double free_bytes(void)
{
    size_t unused = 0, all = 0;
    CUDA_CHECK(cudaMemGetInfo(&unused, &all));
    return (double)unused;
}

static ncclComm_t world_communicator(bool takes_turns)
{
    ncclComm_t *comm = &communicators.world[takes_turns];
    if (*comm) return *comm;
    ncclUniqueId id;
    double before = free_bytes();
    open_library();
    ncclConfig_t config = configuration(takes_turns, communicators.blocks.turns);
    if (world_rank() == 0) NCCL("the world", ncclGetUniqueId(&id));
    world_broadcast(&id, sizeof id, 0);
    NCCL("the world", ncclCommInitRankConfig(comm, world_ranks(), id, world_rank(), &config));
    communicators.bytes += before - free_bytes();
    return *comm;
}

/* ---- splits ---- */

static split *split_named(const char *name)
{
    for (int i = 0; i < SPLITS; i++)
        if (strcmp(communicators.split[i].name, name) == 0) return &communicators.split[i];
    return NULL;
}

static void unmap(cuda_communicator *c)
{
    ncclWindow_t window = c->window;
    c->window = NULL;
    if (window) NCCL(c->name, ncclCommWindowDeregister(c->comm, window));
}

static void split_free(split *s)
{
    double before = free_bytes();
    for (int i = 0; i < PARTS; i++) {
        ncclComm_t comm = s->part[i].comm;
        unmap(&s->part[i]);
        s->part[i].comm = NULL; /* communicators_abort must not find one that is being destroyed */
        if (comm) NCCL(s->part[i].name, ncclCommDestroy(comm));
    }
    communicators.bytes += before - free_bytes();
    *s = (split){ 0 };
}

/* Destroys all communicators if the numbers of thread blocks have changed. Groups make new ones when they connect. */
static void set_blocks(void)
{
    transfer_blocks wanted = machine_blocks();
    if (memcmp(&wanted, &communicators.blocks, sizeof wanted) == 0) return;
    for (int i = 0; i < SPLITS; i++) {
        if (communicators.split[i].users) FAIL("%s is in use while thread blocks change", communicators.split[i].name);
        split_free(&communicators.split[i]);
    }
    double before = free_bytes();
    for (int i = 0; i < 2; i++) {
        ncclComm_t comm = communicators.world[i];
        communicators.world[i] = NULL;
        if (comm) NCCL("the world", ncclCommDestroy(comm));
    }
    communicators.bytes += before - free_bytes();
    communicators.blocks = wanted;
}

/* Frees the splits that nobody uses, because their communicators hold memory that the next layout needs. */
static split *split_make(const char *name)
{
    for (int i = 0; i < SPLITS; i++)
        if (communicators.split[i].name[0] && communicators.split[i].users == 0) split_free(&communicators.split[i]);
    split *s = split_named("");
    if (!s) FAIL("%s: more than %d splits of the world at once", name, SPLITS);
    snprintf(s->name, sizeof s->name, "%s", name);
    return s;
}

/* ---- groups ---- */

static void make_part(split *s, part_index at, const group *g, const char *name, int color, int key)
{
    cuda_communicator *c = &s->part[at];
    bool takes_turns = at == TURNS, joins = color >= 0 && g->size > 1;
    bool is_link = g->channel == CHANNEL_FORWARD || g->channel == CHANNEL_BACKWARD;
    const transfer_blocks *n = &communicators.blocks;
    ncclConfig_t config = configuration(takes_turns, takes_turns ? n->turns : is_link ? n->link : n->apart);
    world_barrier();
    ncclComm_t parent = world_communicator(takes_turns);
    double before = free_bytes();
    *c = (cuda_communicator){ .rank = g->rank, .ranks = g->size };
    snprintf(c->name, sizeof c->name, "%s of %s", g->axis, name);
    NCCL(c->name, ncclCommSplit(parent, joins ? color : NCCL_SPLIT_NOCOLOR, key, &c->comm, &config));
    if (joins && !takes_turns) first_exchange(c, communicators_check);
    communicators.bytes += before - free_bytes();
    s->made[at] = true;
}

static part_index part_for(const group *g) { return g->apart ? APART : TURNS; }

void cuda_connect(group *g, const char *name, int color, int key)
{
    cuda_device_use();
    activity_allow(SETUP_SECONDS_PER_RANK * world_ranks());
    set_blocks();
    split *s = split_named(name);
    if (!s) s = split_make(name);
    s->users++;
    if (!s->made[part_for(g)]) make_part(s, part_for(g), g, name, color, key);
    activity_allow(0.0);
    g->connection = s;
}

void cuda_disconnect(const char *name)
{
    split *s = split_named(name);
    if (s && s->users > 0) s->users--;
}

static cuda_communicator *connected(const group *g)
{
    split *s = g->connection;
    cuda_communicator *c = s ? &s->part[part_for(g)] : NULL;
    if (!c || !c->comm) FAIL("a transfer of group %s, which is not connected", g->axis);
    return c;
}

const cuda_communicator *communicator_for(const group *g) { return connected(g); }

bool communicator_map(const group *g, void *memory, size_t bytes)
{
    cuda_communicator *c = connected(g);
    if (c->window) return true;
    ncclResult_t result =
        NCCL_TRY(c->name, ncclCommWindowRegister(c->comm, memory, bytes, &c->window, NCCL_WIN_COLL_SYMMETRIC));
    if (result != ncclSuccess) c->window = NULL;
    return c->window != NULL;
}

void communicators_unmap(void)
{
    for (int i = 0; i < SPLITS; i++)
        for (int k = 0; k < PARTS; k++) unmap(&communicators.split[i].part[k]);
}

int communicators_mapped(void)
{
    int count = 0;
    for (int i = 0; i < SPLITS; i++)
        for (int k = 0; k < PARTS; k++) count += communicators.split[i].part[k].window != NULL;
    return count;
}

double communicators_bytes(void) { return communicators.bytes; }

/* ---- errors ---- */

static void check_state(ncclComm_t comm, const char *name)
{
    ncclResult_t state = ncclSuccess;
    if (!comm) return;
    NCCL(name, ncclCommGetAsyncError(comm, &state));
    if (state != ncclSuccess && state != ncclInProgress)
        FAIL("transfers of %s: %s; %s", name, ncclGetErrorString(state), ncclGetLastError(comm));
}

static void each_communicator(void (*visit)(ncclComm_t comm, const char *name))
{
    for (int i = 0; i < SPLITS; i++)
        for (int k = 0; k < PARTS; k++) visit(communicators.split[i].part[k].comm, communicators.split[i].part[k].name);
    for (int i = 0; i < 2; i++) visit(communicators.world[i], "the world");
}

void communicators_check(void) { each_communicator(check_state); }

static void abort_one(ncclComm_t comm, const char *name)
{
    if (comm) ncclCommAbort(comm);
}

/* Aborts all communicators in one group of calls: NCCL sets all abort flags at once and frees communicators later. */
static void abort_all(void)
{
    ncclGroupStart();
    each_communicator(abort_one);
    ncclGroupEnd();
}

void communicators_abort(void) { nccl_abort_with(abort_all); }
