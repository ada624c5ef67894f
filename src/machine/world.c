/* The door to MPI for start, agreement and sums. The rank's place in the world is process state, as in MPI. */
#include "machine/world.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/say.h"
#include "machine/op/activity.h"
#include "machine/op/fabric.h"
#include "machine/watch/watch.h"
#include <malloc.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* PIECE: elements or bytes of one MPI call, far below 2^31, where counts overflow. */
enum { LARGE_BLOCK = 1 << 18, PIECE = WORLD_GATHER_MOST, HOST_BYTES = 64, SPLITS = 32 };

typedef struct {
    char name[SPLIT_NAME];
    MPI_Comm comm;
    int users;
} split; /* name is empty if unused */

/* Ranks of the collective functions. name: of their split; NULL: all ranks of the world. */
typedef struct {
    const char *name;
    MPI_Comm comm;
    int first, ranks;
} part;

static struct {
    int rank, ranks, node_ranks, node_rank;
    cpu_set_t cores; /* cores of all ranks of the node */
    int *node;       /* [ranks] lowest rank of each rank's node; NULL without MPI */
    char host[HOST_BYTES];
    split split[SPLITS];
    unsigned next_split;
    part part;
} world = { .ranks = 1, .node_ranks = 1, .part.ranks = 1 };

static void check(int code, const char *call)
{
    char words[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code == MPI_SUCCESS) return;
    MPI_Error_string(code, words, &length);
    FAIL("%s: %s", call, words);
}
#define CHECK(call) check(call, #call)

/* The call fails if the kernel has more cores than a cpu_set_t. Then all cores that fit are usable. */
static cpu_set_t usable_cores(void)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof cores, &cores))
        for (long i = 0; i < CPU_SETSIZE && i < sysconf(_SC_NPROCESSORS_ONLN); i++) CPU_SET((size_t)i, &cores);
    return cores;
}

/* Moves the ranks of a node to one board (machine/watch/board.h), named by the first rank, if they have several. */
static void share_board(MPI_Comm node)
{
    uint64_t own = watch_board(), maxima[2] = { own, ~own };
    char name[64];
    CHECK(MPI_Allreduce(MPI_IN_PLACE, maxima, 2, MPI_UINT64_T, MPI_MAX, node));
    if (maxima[0] != ~maxima[1]) {
        snprintf(name, sizeof name, "xgsw-%u-%d-%016llx", (unsigned)geteuid(), (int)getpid(), (unsigned long long)own);
        CHECK(MPI_Bcast(name, sizeof name, MPI_CHAR, 0, node));
        watch_move(name, world.node_rank, world.node_ranks);
    }
    CHECK(MPI_Barrier(node));
    watch_unlink_board();
}

static void node_open(void)
{
    MPI_Comm node;
    CHECK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world.rank, MPI_INFO_NULL, &node));
    CHECK(MPI_Comm_size(node, &world.node_ranks));
    CHECK(MPI_Comm_rank(node, &world.node_rank));
    cpu_set_t cores = usable_cores();
    CHECK(MPI_Allreduce(MPI_IN_PLACE, &cores, (int)sizeof cores, MPI_BYTE, MPI_BOR, node));
    world.cores = cores;
    int first = world.rank;
    CHECK(MPI_Bcast(&first, 1, MPI_INT, 0, node));
    share_board(node);
    CHECK(MPI_Comm_free(&node));
    world.node = allocate(world.ranks, sizeof *world.node, "the nodes of the ranks");
    CHECK(MPI_Allgather(&first, 1, MPI_INT, world.node, 1, MPI_INT, MPI_COMM_WORLD));
}

static part whole_world(void) { return (part){ .comm = MPI_COMM_WORLD, .ranks = world.ranks }; }

static void exchange_node_places(void)
{
    if (world.node_ranks == world.ranks) return;
    node_place own = watch_place(), *all = allocate(world.ranks, sizeof *all, "the nodes of the ranks");
    CHECK(MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, MPI_COMM_WORLD));
    watch_set_places(all);
}

/* Makes the C library return large blocks to the system when they are freed. If it kept them, calloc would write zeros
 * to all memory that it takes from them (64 ranks: 53 MB per rank instead of 14). The host's first product ends this
 * (host/products/onednn.c); from then on a rank keeps some tens of MB. */
void world_start(int *argc, char ***argv)
{
    mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK);
    mallopt(M_TRIM_THRESHOLD, LARGE_BLOCK);
    int provided, length;
    char host[MPI_MAX_PROCESSOR_NAME], who[HOST_BYTES + 32];
    watch_start();
    watch_wait_for_all("MPI_Init");
    CHECK(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided));
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &world.rank));
    CHECK(MPI_Comm_size(MPI_COMM_WORLD, &world.ranks));
    CHECK(MPI_Get_processor_name(host, &length));
    world.part = whole_world();
    snprintf(world.host, sizeof world.host, "%.*s", HOST_BYTES - 1, host);
    snprintf(who, sizeof who, "rank %d on %s", world.rank, world.host);
    fail_install(world_abort, who);
    say_enable(world.rank == 0);
    watch_world(world.rank, world.ranks);
    node_open();
    exchange_node_places();
    activity_wait_end();
    activity_doing("setting up", -1);
}

/* All ranks enter MPI_Finalize together: if ranks terminate inside it, mpirun of Open MPI 4.1 waits. */
void world_stop(void)
{
    activity_doing("ending MPI", -1);
    world_barrier();
    watch_wait_for_all("MPI_Finalize");
    free(world.node);
    MPI_Finalize();
    activity_wait_end();
    watch_stop();
}

int world_rank(void) { return world.rank; }
int world_ranks(void) { return world.ranks; }
int world_node_ranks(void) { return world.node_ranks; }
int world_node_rank(void) { return world.node_rank; }
int world_node(int rank) { return world.node ? world.node[rank] : 0; }
bool world_on_node(int rank) { return world_node(rank) == world_node(world.rank); }
int world_node_cores(void) { return CPU_COUNT(&world.cores); }
int world_node_core(int i)
{
    int core = 0;
    while (!CPU_ISSET((size_t)core, &world.cores) || i-- > 0) core++;
    return core;
}
const char *world_host(void) { return world.host; }
int world_part_rank(void) { return world.rank - world.part.first; }
int world_part_ranks(void) { return world.part.ranks; }
int world_part_first(void) { return world.part.first; }

/* Sleeps first, because MPICH's launcher loses output printed just before the end. A hang may lie in MPI: then MPI is
 * not called, and the sleep is longer, because the other ranks of the node check for a hang only every 50 ms. */
void world_abort(int status)
{
    if (status != STATUS_HANG) watch_ending();
    clock_rest(status == STATUS_HANG ? 0.5 : 0.1);
    if (status != STATUS_HANG) MPI_Abort(MPI_COMM_WORLD, status);
    _Exit(status);
}

static void finish(MPI_Request *request, const char *what)
{
    int done = 0;
    if (world.part.name) activity_wait_for_ranks(what, world.part.first, world.part.ranks, false);
    else watch_wait_for_all(what);
    for (;;) {
        CHECK(MPI_Test(request, &done, MPI_STATUS_IGNORE));
        if (done) break;
        activity_yield();
    }
    activity_wait_end();
    activity_progress();
}

void world_broadcast(void *data, size_t bytes, int root)
{
    for (size_t done = 0; done < bytes; done += PIECE) {
        size_t piece = bytes - done < PIECE ? bytes - done : PIECE;
        MPI_Request request;
        CHECK(
            MPI_Ibcast((char *)data + done, (int)piece, MPI_BYTE, root - world.part.first, world.part.comm, &request));
        finish(&request, "broadcast");
    }
}

/* Reduces to the first rank and broadcasts, so all ranks have the same bits. */
static void reduce_all(void *values, int64_t count, MPI_Datatype type, MPI_Op how, const char *what)
{
    enum { BYTES = 8 };
    for (int64_t done = 0; done < count; done += PIECE) {
        int piece = (int)(count - done < PIECE ? count - done : PIECE);
        char *at = (char *)values + done * BYTES;
        MPI_Request request;
        CHECK(MPI_Ireduce(world_part_rank() ? at : MPI_IN_PLACE, at, piece, type, how, 0, world.part.comm, &request));
        finish(&request, what);
    }
    world_broadcast(values, (size_t)count * BYTES, world.part.first);
}

void world_sum(double *values, int64_t count) { reduce_all(values, count, MPI_DOUBLE, MPI_SUM, "sum"); }
void world_maximum(double *values, int64_t count) { reduce_all(values, count, MPI_DOUBLE, MPI_MAX, "maximum"); }
void world_sum_words(uint64_t *values, int64_t count) { reduce_all(values, count, MPI_UINT64_T, MPI_SUM, "sum"); }

bool world_all(bool yes)
{
    double no = yes ? 0.0 : 1.0;
    world_maximum(&no, 1);
    return no == 0.0;
}

int world_first(bool yes)
{
    double first = yes ? -(double)world.rank : -(double)world.ranks;
    world_maximum(&first, 1);
    return (int)-first;
}

int world_share_sentence(char *sentence, size_t length)
{
    int first = world_first(sentence[0] != 0);
    if (first == world.ranks) return -1;
    world_broadcast(sentence, length, first);
    return first;
}

void *world_gather(const void *own, size_t bytes)
{
    MPI_Request request;
    if (bytes > PIECE) FAIL("gather of %zu bytes a rank", bytes);
    void *all = world_part_rank() == 0 ? allocate(world.part.ranks, bytes, "bytes of each rank") : NULL;
    CHECK(MPI_Igather(own, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, 0, world.part.comm, &request));
    finish(&request, "gather");
    return all;
}

void world_barrier(void)
{
    MPI_Request request;
    CHECK(MPI_Ibarrier(world.part.comm, &request));
    finish(&request, "barrier");
}

static MPI_Comm split_world(int color, int key)
{
    MPI_Comm comm;
    world_barrier();
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, color < 0 ? MPI_UNDEFINED : color, key, &comm));
    if (comm != MPI_COMM_NULL) CHECK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    return comm;
}

static split *split_named(const char *name)
{
    for (int i = 0; i < SPLITS; i++)
        if (strcmp(world.split[i].name, name) == 0) return &world.split[i];
    return NULL;
}

/* Frees the split of an unused entry and returns the entry, the same one on all ranks. */
static split *unused_split(const char *name)
{
    split *s = NULL;
    for (int i = 0; i < SPLITS && !s; i++) {
        split *candidate = &world.split[world.next_split++ % SPLITS];
        if (candidate->users == 0) s = candidate;
    }
    if (!s) FAIL("%s: more than %d splits of the world at once", name, SPLITS);
    if (s->name[0] && s->comm != MPI_COMM_NULL) CHECK(MPI_Comm_free(&s->comm));
    return s;
}

int world_split(const char *name, int color, int key)
{
    split *s = split_named(name);
    if (!s) {
        s = unused_split(name);
        *s = (split){ .comm = split_world(color, key) };
        snprintf(s->name, sizeof s->name, "%s", name);
    }
    s->users++;
    return (int)MPI_Comm_c2f(s->comm);
}

void world_release(const char *name)
{
    split *s = split_named(name);
    if (s && s->users > 0) s->users--;
}

void world_part_begin(const char *name, int first)
{
    part p = { .first = first, .comm = MPI_Comm_f2c((MPI_Fint)world_split(name, first, world.rank)) };
    p.name = split_named(name)->name;
    CHECK(MPI_Comm_size(p.comm, &p.ranks));
    world.part = p;
}

void world_part_end(void)
{
    if (world.part.name) world_release(world.part.name);
    world.part = whole_world();
}

/* Does not use `finish`: it counts waits of the whole world, and all ranks must count the same. */
void world_reduce_group(const group *g, double *values, int64_t count, bool largest)
{
    MPI_Group all, members;
    MPI_Comm comm;
    int *rank = allocate(g->size, sizeof *rank, "the ranks of a group");
    for (int i = 0; i < g->size; i++) rank[i] = group_world_rank(g, i);
    CHECK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    CHECK(MPI_Group_incl(all, g->size, rank, &members));
    CHECK(MPI_Comm_create_group(MPI_COMM_WORLD, members, 0, &comm));
    for (int64_t done = 0; done < count; done += PIECE) {
        int piece = (int)(count - done < PIECE ? count - done : PIECE);
        MPI_Request request;
        CHECK(MPI_Iallreduce(MPI_IN_PLACE, values + done, piece, MPI_DOUBLE, largest ? MPI_MAX : MPI_SUM, comm,
                             &request));
        for (int complete = 0; !complete; activity_yield()) CHECK(MPI_Test(&request, &complete, MPI_STATUS_IGNORE));
        activity_progress();
    }
    CHECK(MPI_Comm_free(&comm));
    CHECK(MPI_Group_free(&members));
    CHECK(MPI_Group_free(&all));
    free(rank);
}

const char *world_library(char *text, size_t length)
{
    char words[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    MPI_Get_library_version(words, &n);
    words[strcspn(words, "\n")] = 0;
    for (char *c = words; *c; c++)
        if (*c == '\t') *c = ' ';
    snprintf(text, length, "%.*s", (int)strcspn(words, ","), words);
    return text;
}

static struct {
    int own, largest;
    MPI_Request request;
} reduction;

void world_begin_maximum(int communicator, int number)
{
    reduction.own = number;
    CHECK(MPI_Iallreduce(&reduction.own, &reduction.largest, 1, MPI_INT, MPI_MAX, MPI_Comm_f2c((MPI_Fint)communicator),
                         &reduction.request));
}

int world_end_maximum(void)
{
    finish(&reduction.request, "answer");
    return reduction.largest;
}
