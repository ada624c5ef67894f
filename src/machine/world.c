/* The door to MPI for start-up, agreement and sums. The process's place in the world is process state, as MPI's is. */
#include "machine/world.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/say.h"
#include "machine/kind.h"
#include <malloc.h>
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* PIECE: elements or bytes of one MPI call, far below the 2^31 at which counts wrap.
 * POLLS: between two yields; of 1, 4, 8, 16, 64 the best for 2 to 8 ranks on 2 cores under Open MPI and MPICH. */
enum { LARGE_BLOCK = 1 << 18, PIECE = 1 << 26, HOST_BYTES = 64, POLLS = 8, SPLITS = 32 };

typedef struct {
    char name[SPLIT_NAME];
    MPI_Comm part;
    int users;
} split; /* name empty: none yet */

static _Atomic uint64_t alone[2]; /* the heartbeats of a process without MPI */
/* Two threads may ask whether there is a stall: the main one, and one that watches it. */
static struct {
    int rank, ranks, node_ranks, node_rank, node_cores;
    int *node; /* [ranks] each one's, by the number of a rank there; NULL: a world of one */
    char host[HOST_BYTES];
    _Atomic double stall_seconds, allowance;
    MPI_Win heartbeat_window;
    _Atomic uint64_t *heartbeat; /* [node_ranks], then the alarm; shared memory of this node */
    _Atomic uint64_t seen;
    _Atomic double seen_at;
    bool patient; /* waits here are not judged: other nodes' heartbeats are not seen */
    atomic_uint polls;
    split split[SPLITS];
    unsigned next_split;
} world = { .ranks = 1, .node_ranks = 1, .stall_seconds = 60.0, .heartbeat = alone };

static void check(int code, const char *call)
{
    char words[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code == MPI_SUCCESS) return;
    MPI_Error_string(code, words, &length);
    FAIL("%s: %s", call, words);
}
#define CHECK(call) check(call, #call)

/* A kernel of more cores than a cpu_set_t holds does not say: then all there are, as many as fit. */
static cpu_set_t usable_cores(void)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof cores, &cores))
        for (long i = 0; i < CPU_SETSIZE && i < sysconf(_SC_NPROCESSORS_ONLN); i++) CPU_SET((size_t)i, &cores);
    return cores;
}

static void heartbeat_open(void)
{
    MPI_Comm node;
    CHECK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, world.rank, MPI_INFO_NULL, &node));
    CHECK(MPI_Comm_size(node, &world.node_ranks));
    CHECK(MPI_Comm_rank(node, &world.node_rank));
    MPI_Aint bytes = world.node_rank == 0 ? (MPI_Aint)(sizeof(uint64_t) * (size_t)(world.node_ranks + 1)) : 0;
    void *base = NULL;
    CHECK(MPI_Win_allocate_shared(bytes, sizeof(uint64_t), MPI_INFO_NULL, node, &base, &world.heartbeat_window));
    int unit;
    CHECK(MPI_Win_shared_query(world.heartbeat_window, 0, &bytes, &unit, &base));
    world.heartbeat = base;
    world.heartbeat[world.node_rank] = 0;
    if (world.node_rank == 0) world.heartbeat[world.node_ranks] = 0;
    cpu_set_t cores = usable_cores();
    CHECK(MPI_Allreduce(MPI_IN_PLACE, &cores, (int)sizeof cores, MPI_BYTE, MPI_BOR, node));
    world.node_cores = CPU_COUNT(&cores);
    int first = world.rank;
    CHECK(MPI_Bcast(&first, 1, MPI_INT, 0, node));
    CHECK(MPI_Comm_free(&node));
    if (!(world.node = calloc((size_t)world.ranks, sizeof *world.node))) FAIL("no memory for the nodes of the ranks");
    CHECK(MPI_Allgather(&first, 1, MPI_INT, world.node, 1, MPI_INT, MPI_COMM_WORLD));
}

/* Large blocks go back when they are freed: the C library would keep them after the first, and a queue's memory taken
 * from what it kept is written whole (64 ranks: 14 MB a rank instead of 53). */
void world_start(int *argc, char ***argv)
{
    machine_environment();
    mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK);
    mallopt(M_TRIM_THRESHOLD, LARGE_BLOCK);
    int provided, length;
    char host[MPI_MAX_PROCESSOR_NAME], who[HOST_BYTES + 32];
    CHECK(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided));
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &world.rank));
    CHECK(MPI_Comm_size(MPI_COMM_WORLD, &world.ranks));
    CHECK(MPI_Get_processor_name(host, &length));
    snprintf(world.host, sizeof world.host, "%.*s", HOST_BYTES - 1, host);
    snprintf(who, sizeof who, "rank %d on %s", world.rank, world.host);
    fail_install(world_abort, who);
    say_enable(world.rank == 0);
    heartbeat_open();
    world.patient = world.node_ranks < world.ranks;
}

/* Blocking calls of MPI are entered when all ranks have come: until then the wait is watched. */
void world_stop(void)
{
    world_barrier();
    MPI_Win_free(&world.heartbeat_window);
    free(world.node);
    MPI_Finalize();
}

int world_rank(void) { return world.rank; }
int world_ranks(void) { return world.ranks; }
int world_node_ranks(void) { return world.node_ranks; }
int world_node_rank(void) { return world.node_rank; }
bool world_on_node(int rank) { return !world.node || world.node[rank] == world.node[world.rank]; }
int world_node_cores(void) { return world.node_cores; }
const char *world_host(void) { return world.host; }
void world_stall_limit(double seconds) { world.stall_seconds = seconds; }
void world_stall_allow(double seconds) { world.allowance = seconds; }
double world_stall_seconds(void) { return world.stall_seconds + world.allowance; }
/* MPICH's launcher loses what was said just before the end. After an alarm the other ranks say what they wait for. */
void world_abort(int status)
{
    const struct timespec pause = { 0, status == STATUS_HANG ? 500000000 : 100000000 };
    nanosleep(&pause, NULL);
    MPI_Abort(MPI_COMM_WORLD, status);
    _Exit(status);
}

void world_progress(void) { world.heartbeat[world.node_rank]++; }

static double progress_age(double now)
{
    uint64_t sum = 0;
    for (int i = 0; i < world.node_ranks; i++) sum += world.heartbeat[i];
    if (sum != world.seen) {
        world.seen_at = now; /* first: who finds the sum finds its time, or a later one */
        world.seen = sum;
    }
    return now - world.seen_at;
}

/* MPICH never yields while it polls: ranks that share a core would wait for each other's time slices. Progress is
 * looked at each time, so that its age counts from the last completion and not from the first look. */
bool world_stalled(double since)
{
    if (++world.polls % POLLS) return false;
    sched_yield();
    double now = clock_seconds(), age = progress_age(now), limit = world_stall_seconds();
    if (age > limit && now - since > limit) world.heartbeat[world.node_ranks] = 1;
    return world.heartbeat[world.node_ranks] != 0;
}

static void finish(MPI_Request *request, const char *what)
{
    int done = 0;
    double since = world.patient ? INFINITY : clock_seconds();
    for (;;) {
        CHECK(MPI_Test(request, &done, MPI_STATUS_IGNORE));
        if (done) break;
        if (world_stalled(since))
            FAIL_STATUS(STATUS_HANG, "%s: no rank of this node has completed anything for %.0f s", what,
                        world_stall_seconds());
    }
    world_progress();
}

void world_broadcast(void *data, size_t bytes, int root)
{
    for (size_t done = 0; done < bytes; done += PIECE) {
        size_t piece = bytes - done < PIECE ? bytes - done : PIECE;
        MPI_Request request;
        CHECK(MPI_Ibcast((char *)data + done, (int)piece, MPI_BYTE, root, MPI_COMM_WORLD, &request));
        finish(&request, "broadcast");
    }
}

/* Reduced to rank 0 and broadcast, so that all ranks hold the same bits. */
static void reduce_all(double *values, int64_t count, MPI_Op how, const char *what)
{
    for (int64_t done = 0; done < count; done += PIECE) {
        int piece = (int)(count - done < PIECE ? count - done : PIECE);
        MPI_Request request;
        CHECK(MPI_Ireduce(world.rank ? values + done : MPI_IN_PLACE, values + done, piece, MPI_DOUBLE, how, 0,
                          MPI_COMM_WORLD, &request));
        finish(&request, what);
    }
    world_broadcast(values, (size_t)count * sizeof *values, 0);
}

void world_sum(double *values, int64_t count) { reduce_all(values, count, MPI_SUM, "sum"); }
void world_maximum(double *values, int64_t count) { reduce_all(values, count, MPI_MAX, "maximum"); }

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

void world_gather(const void *part, size_t bytes, void *whole, int root)
{
    MPI_Request request;
    if (bytes > PIECE) FAIL("gather of %zu bytes a rank", bytes);
    CHECK(MPI_Igather(part, (int)bytes, MPI_BYTE, whole, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD, &request));
    finish(&request, "gather");
}

void world_barrier(void)
{
    MPI_Request request;
    CHECK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    finish(&request, "barrier");
}

void world_wait_for_root(void)
{
    world.patient = true;
    world_barrier();
    world.patient = world.node_ranks < world.ranks;
}

static MPI_Comm split_world(int color, int key)
{
    MPI_Comm part;
    world_barrier();
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, color < 0 ? MPI_UNDEFINED : color, key, &part));
    if (part != MPI_COMM_NULL) CHECK(MPI_Comm_set_errhandler(part, MPI_ERRORS_RETURN));
    return part;
}

static split *split_named(const char *name)
{
    for (int i = 0; i < SPLITS; i++)
        if (strcmp(world.split[i].name, name) == 0) return &world.split[i];
    return NULL;
}

/* A place that nobody uses; what lay there is freed. All ranks find the same one. */
static split *split_place(const char *name)
{
    split *s = NULL;
    for (int i = 0; i < SPLITS && !s; i++) {
        split *candidate = &world.split[world.next_split++ % SPLITS];
        if (candidate->users == 0) s = candidate;
    }
    if (!s) FAIL("%s: more than %d splits of the world at once", name, SPLITS);
    if (s->name[0] && s->part != MPI_COMM_NULL) CHECK(MPI_Comm_free(&s->part));
    return s;
}

int world_split(const char *name, int color, int key)
{
    split *s = split_named(name);
    if (!s) {
        s = split_place(name);
        *s = (split){ .part = split_world(color, key) };
        snprintf(s->name, sizeof s->name, "%s", name);
    }
    s->users++;
    return (int)MPI_Comm_c2f(s->part);
}

void world_release(const char *name)
{
    split *s = split_named(name);
    if (s && s->users > 0) s->users--;
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
} question;

void world_ask(int part, int number)
{
    question.own = number;
    CHECK(MPI_Iallreduce(&question.own, &question.largest, 1, MPI_INT, MPI_MAX, MPI_Comm_f2c((MPI_Fint)part),
                         &question.request));
}

int world_answer(void)
{
    finish(&question.request, "answer");
    return question.largest;
}
