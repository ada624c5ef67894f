/* NCCL's communicators and calls, over MPI. Checks calls like NCCL, but more strictly: undefined use ends the program.
 * As in NCCL, ranks meet on the host at their first transfer, and a group of calls is one operation. Communicators are
 * never freed, so that a late use is reported. */
#include "nccl_inside.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sched.h>
#include <string>
#include <unistd.h>

using namespace emulator_nccl;

static const char id_words[] = "emulated NCCL";
static thread_local int group_depth;
static thread_local std::vector<task> group_tasks;

void emulator_nccl::mpi_check(int code, const char *call)
{
    char words[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code == MPI_SUCCESS) return;
    MPI_Error_string(code, words, &length);
    emulator_fail("%s: %s", call, words);
}

const char *emulator_nccl::name_of(task_kind kind)
{
    static const char *const names[] = { "ncclAllGather", "ncclReduceScatter", "ncclAllReduce", "ncclSend",
                                         "ncclRecv" };
    return kind >= 0 && kind <= RECEIVE ? names[kind] : "something else";
}

size_t emulator_nccl::bytes_of(ncclDataType_t type)
{
    static const size_t bytes[ncclNumTypes] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };
    if (type < 0 || type >= ncclNumTypes) emulator_fail("NCCL: type %d", type);
    return bytes[type];
}

ncclResult_t ncclGetVersion(int *version)
{
    const char *given = getenv("EMULATOR_NCCL_VERSION");
    *version = given ? atoi(given) : NCCL_VERSION_CODE;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static int made;
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "%s %d of %d", id_words, ++made, static_cast<int>(getpid()));
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const words[ncclNumResults] = { "no error",
                                                       "unhandled cuda error",
                                                       "unhandled system error",
                                                       "internal error",
                                                       "invalid argument",
                                                       "invalid usage",
                                                       "remote process exited or there was a network error",
                                                       "in progress" };
    return result >= 0 && result < ncclNumResults ? words[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t) { return "emulated"; }

/* ---- communicators ---- */

static void check_live(ncclComm_t comm, const char *call)
{
    if (!comm) emulator_fail("%s: no communicator", call);
    if (comm->destroyed) emulator_fail("%s: a destroyed communicator", call);
    if (comm->aborted) emulator_fail("%s: an aborted communicator", call);
}

/* As in NCCL, a site's file sets unset variables. Fails on variables that override the configuration. */
static void check_environment(const char *call)
{
    static const char *const winners[] = {
        "NCCL_MAX_CTAS",         "NCCL_MIN_CTAS",   "NCCL_MIN_NCHANNELS",
        "NCCL_CGA_CLUSTER_SIZE", "NCCL_CTA_POLICY", "NCCL_COMM_SPLIT_SHARE_RESOURCES"
    };
    const char *path = getenv("NCCL_CONF_FILE"), *connect = getenv("NCCL_RUNTIME_CONNECT");
    char name[64], value[64];
    FILE *f = path ? fopen(path, "r") : NULL;
    while (f && fscanf(f, " %63[^= \n]=%63s", name, value) == 2) setenv(name, value, 0);
    if (f) fclose(f);
    for (const char *winner : winners)
        if (getenv(winner) && *getenv(winner)) emulator_fail("%s: %s wins over the configuration", call, winner);
    if (!connect || strcmp(connect, "0") != 0) emulator_fail("%s: connects in the first collective", call);
}

static ncclConfig_t checked(const ncclConfig_t *config, const char *call)
{
    if (!config || config->size != sizeof *config || config->magic != EMULATOR_NCCL_MAGIC ||
        config->version != NCCL_VERSION_CODE)
        emulator_fail("%s: the configuration does not come from NCCL_CONFIG_INITIALIZER", call);
    if (config->blocking == 0) emulator_fail("%s: non-blocking communicators are not emulated", call);
    if (config->maxCTAs != NCCL_CONFIG_UNDEF_INT && config->maxCTAs <= 0)
        emulator_fail("%s: at most %d blocks", call, config->maxCTAs);
    check_environment(call);
    return *config;
}

/* Returns the device memory of a communicator that shares no resources: EMULATOR_NCCL_MEGABYTES, if set. */
static long long held_by_one(bool shares)
{
    const char *megabytes = getenv("EMULATOR_NCCL_MEGABYTES");
    return megabytes && !shares ? atoll(megabytes) << 20 : 0;
}

static ncclComm_t communicator(MPI_Comm mpi, const ncclConfig_t &config, std::shared_ptr<turns> order)
{
    ncclComm_t comm = new ncclComm{};
    comm->mpi = mpi;
    comm->config = config;
    comm->order = order;
    comm->error = ncclSuccess;
    comm->held = held_by_one(order.use_count() > 2);
    emulator_hold(comm->held);
    MPI_CHECK(MPI_Comm_rank(mpi, &comm->rank));
    MPI_CHECK(MPI_Comm_size(mpi, &comm->ranks));
    return comm;
}

/* Ranks that use the same device must have different host ids. */
struct place {
    char host[64];
    cudaUUID_t device;
};

static void check_devices(ncclComm_t comm)
{
    const char *host = getenv("NCCL_HOSTID");
    struct cudaDeviceProp properties;
    place own = {};
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess || cudaGetDeviceProperties(&properties, device) != cudaSuccess)
        emulator_fail("ncclCommInitRankConfig: no device");
    snprintf(own.host, sizeof own.host, "%s", host ? host : "");
    own.device = properties.uuid;
    std::vector<place> all(static_cast<size_t>(comm->ranks));
    MPI_CHECK(MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, comm->mpi));
    for (int i = 0; i < comm->ranks; i++)
        if (i != comm->rank && memcmp(&own, &all[static_cast<size_t>(i)], sizeof own) == 0)
            emulator_fail("ncclCommInitRankConfig: duplicate GPU: ranks %d and %d are on the same one", comm->rank, i);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *given)
{
    ncclConfig_t config = checked(given, __func__);
    ncclUniqueId first = id;
    MPI_Comm mpi;
    MPI_CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &mpi));
    MPI_CHECK(MPI_Bcast(&first, sizeof first, MPI_BYTE, 0, mpi));
    *comm = communicator(mpi, config, std::make_shared<turns>());
    if (memcmp(&first, &id, sizeof id) != 0 || strncmp(id.internal, id_words, strlen(id_words)) != 0)
        emulator_fail("%s: rank %d has another id than rank 0", __func__, rank);
    if (ranks != (*comm)->ranks || rank != (*comm)->rank)
        emulator_fail("%s: rank %d of %d, in a world where it is %d of %d", __func__, rank, ranks, (*comm)->rank,
                      (*comm)->ranks);
    check_devices(*comm);
    return ncclSuccess;
}

/* As in NCCL, the parent's configuration determines whether the parts share resources. */
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *part, ncclConfig_t *given)
{
    MPI_Comm mpi;
    check_live(comm, __func__);
    ncclConfig_t config = given ? checked(given, __func__) : comm->config;
    if (group_depth) emulator_fail("%s: within a group of calls", __func__);
    if (!comm->order->empty()) emulator_fail("%s: operations of the communicator are under way", __func__);
    if (color < 0 && color != NCCL_SPLIT_NOCOLOR) emulator_fail("%s: color %d", __func__, color);
    MPI_CHECK(MPI_Comm_split(comm->mpi, color < 0 ? MPI_UNDEFINED : color, key, &mpi));
    *part = NULL;
    if (mpi != MPI_COMM_NULL)
        *part = communicator(mpi, config, comm->config.splitShare == 1 ? comm->order : std::make_shared<turns>());
    if (*part && (*part)->ranks == 1) emulator_fail("%s: a communicator of one rank", __func__);
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    check_live(comm, __func__);
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    check_live(comm, __func__);
    if (!comm->order->empty())
        emulator_fail("%s: operations of the communicator, or of one that shares with it, are under way", __func__);
    if (!comm->windows.empty()) emulator_fail("%s: a communicator with windows", __func__);
    comm->destroyed = true;
    emulator_hold(-comm->held);
    MPI_CHECK(MPI_Comm_free(&comm->mpi));
    return ncclSuccess;
}

/* Ends the current operations at once. EMULATOR_NCCL_ABORT=say prints a line; with hang the call does not return, as
 * sometimes in NCCL. Called by a thread that ends the run, not by the thread that runs the device. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    const char *how = getenv("EMULATOR_NCCL_ABORT");
    if (comm->aborted.exchange(true)) emulator_fail("%s: an aborted communicator", __func__);
    while (how && strcmp(how, "hang") == 0) pause();
    if (how && strcmp(how, "say") == 0)
        fprintf(stderr, "emulator: a communicator of %d ranks is aborted\n", comm->ranks);
    return ncclSuccess;
}

int emulator_nccl_blocks(ncclComm_t comm) { return comm->config.maxCTAs; }

void emulator_nccl_break(ncclComm_t comm, ncclResult_t error) { comm->error = error; }

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    check_live(comm, __func__);
    *error = comm->error;
    return ncclSuccess;
}

/* ---- first transfers ---- */

/* The messages of two ranks on the host before their first transfer. */
enum { MEET_AS_SENDER = 3, MEET_AS_RECEIVER = 4 };

struct meeting {
    char said, heard;
    MPI_Request request[2];
};

static void meet(ncclComm_t comm, int peer, bool sends, meeting *m)
{
    int own = sends ? MEET_AS_SENDER : MEET_AS_RECEIVER, other = sends ? MEET_AS_RECEIVER : MEET_AS_SENDER;
    MPI_CHECK(MPI_Isend(&m->said, 1, MPI_BYTE, peer, own, comm->mpi, &m->request[0]));
    MPI_CHECK(MPI_Irecv(&m->heard, 1, MPI_BYTE, peer, other, comm->mpi, &m->request[1]));
}

/* Lets the device advance while the host waits for the other host. */
static bool await(ncclComm_t comm, int count, MPI_Request *requests, cudaStream_t stream)
{
    int done = 0;
    while (!done) {
        if (comm->aborted) return false;
        cudaStreamQuery(stream);
        cudaGetLastError(); /* NCCL hides "not ready" from its caller */
        MPI_CHECK(MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE));
        sched_yield();
    }
    return true;
}

static bool meet_peers(const std::vector<task> &tasks)
{
    ncclComm_t comm = tasks[0].comm;
    std::deque<meeting> meetings;
    std::vector<MPI_Request> requests;
    for (const task &t : tasks) {
        std::set<int> &met = t.kind == SEND ? comm->met_receivers : comm->met_senders;
        if (t.kind < SEND || t.peer == comm->rank || !met.insert(t.peer).second) continue;
        meetings.push_back(meeting());
        meet(comm, t.peer, t.kind == SEND, &meetings.back());
        requests.insert(requests.end(), meetings.back().request, meetings.back().request + 2);
    }
    if (tasks[0].kind < SEND && !comm->met_all) {
        requests.push_back(MPI_REQUEST_NULL);
        MPI_CHECK(MPI_Ibarrier(comm->mpi, &requests.back()));
        comm->met_all = true;
    }
    return await(comm, static_cast<int>(requests.size()), requests.data(), tasks[0].stream);
}

/* ---- windows ---- */

struct ncclWindow {
    const char *memory;
    size_t bytes;
};

static std::map<const void *, size_t> mapped; /* by ncclMemAlloc */

/* EMULATOR_NCCL_LACKS=memory or window: the last rank of the world gets none. */
static bool lacks(const char *what)
{
    const char *given = getenv("EMULATOR_NCCL_LACKS");
    int rank = 0, ranks = 0;
    MPI_CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    MPI_CHECK(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
    return rank == ranks - 1 && given && strcmp(given, what) == 0;
}

ncclResult_t ncclMemAlloc(void **memory, size_t bytes)
{
    if (lacks("memory")) return ncclUnhandledCudaError;
    if (cudaMalloc(memory, bytes) != cudaSuccess) return ncclUnhandledCudaError;
    mapped[*memory] = bytes;
    return ncclSuccess;
}

ncclResult_t ncclMemFree(void *memory)
{
    if (!mapped.erase(memory)) emulator_fail("%s: memory that is not of ncclMemAlloc", __func__);
    return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

/* Collective. NCCL maps the other ranks' memory with the size of its own. */
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *memory, size_t bytes, ncclWindow_t *window, int flags)
{
    uint64_t least = bytes, most = bytes;
    auto found = mapped.find(memory);
    check_live(comm, __func__);
    if (flags != NCCL_WIN_COLL_SYMMETRIC) emulator_fail("%s: flags %d", __func__, flags);
    if (found == mapped.end() || found->second < bytes)
        emulator_fail("%s: %zu bytes at %p are not of one ncclMemAlloc", __func__, bytes, memory);
    MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_UINT64_T, MPI_MIN, comm->mpi));
    MPI_CHECK(MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_UINT64_T, MPI_MAX, comm->mpi));
    if (least != most) emulator_fail("%s: windows of %zu to %zu bytes", __func__, size_t(least), size_t(most));
    if (lacks("window")) return ncclSuccess; /* as in NCCL: the window stays NULL */
    *window = new ncclWindow{ static_cast<const char *>(memory), bytes };
    comm->windows.insert(*window);
    return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
    check_live(comm, __func__);
    if (!comm->windows.erase(window)) emulator_fail("%s: a window of another communicator", __func__);
    delete window;
    return ncclSuccess;
}

static size_t place_in(ncclComm_t comm, const void *from, const void *to)
{
    const char *a = static_cast<const char *>(from), *b = static_cast<const char *>(to);
    for (ncclWindow_t w : comm->windows)
        if (comm->config.CTAPolicy == NCCL_CTA_POLICY_ZERO && a >= w->memory && a < w->memory + w->bytes &&
            b >= w->memory && b < w->memory + w->bytes)
            return static_cast<size_t>(b - w->memory);
    return NO_PLACE;
}

/* ---- calls ---- */

/* Submits one operation: a collective, or all sends and receives of a communicator. */
static ncclResult_t submit_group(std::vector<task> &tasks)
{
    while (!tasks.empty()) {
        std::vector<task> together, others;
        for (const task &t : tasks) {
            bool joins = together.empty() || (t.comm == together[0].comm && t.kind >= SEND && together[0].kind >= SEND);
            (joins ? together : others).push_back(t);
        }
        if (!meet_peers(together)) return ncclInternalError;
        submit(together);
        tasks = others;
    }
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
    group_depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    if (group_depth == 0) emulator_fail("%s: not in a group of calls", __func__);
    if (--group_depth) return ncclSuccess;
    std::vector<task> tasks;
    tasks.swap(group_tasks);
    return submit_group(tasks);
}

static ncclResult_t call(const task &t)
{
    check_live(t.comm, name_of(t.kind));
    bool one = t.kind >= SEND;
    if (one && (t.peer < 0 || t.peer >= t.comm->ranks))
        emulator_fail("%s: peer %d of %d", name_of(t.kind), t.peer, t.comm->ranks);
    bool reduces = t.kind == ALL_REDUCE || t.kind == REDUCE_SCATTER;
    if (t.how != (reduces && t.type == ncclInt32 ? ncclMax : ncclSum))
        emulator_fail("%s: operation %d is not emulated", name_of(t.kind), t.how);
    size_t part = t.count * bytes_of(t.type), whole = part * static_cast<size_t>(t.comm->ranks);
    if (t.kind != RECEIVE) emulator_range(t.from, t.kind == REDUCE_SCATTER ? whole : part, name_of(t.kind));
    if (t.kind != SEND) emulator_range(t.to, t.kind == ALL_GATHER ? whole : part, name_of(t.kind));
    if (t.count == 0 && !one) return ncclSuccess;
    ncclGroupStart();
    group_tasks.push_back(t);
    return ncclGroupEnd();
}

static const char *read_by(const void *p) { return static_cast<const char *>(p); }
static char *written_by(void *p) { return static_cast<char *>(p); }

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t s)
{
    return call(
        { ALL_GATHER, read_by(from), written_by(to), count, type, ncclSum, -1, comm, s, place_in(comm, from, to) });
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t how,
                               ncclComm_t comm, cudaStream_t s)
{
    return call({ REDUCE_SCATTER, read_by(from), written_by(to), count, type, how, -1, comm, s, NO_PLACE });
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t how,
                           ncclComm_t comm, cudaStream_t s)
{
    return call({ ALL_REDUCE, read_by(from), written_by(to), count, type, how, -1, comm, s, NO_PLACE });
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t s)
{
    return call({ SEND, read_by(from), NULL, count, type, ncclSum, peer, comm, s, NO_PLACE });
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t s)
{
    return call({ RECEIVE, NULL, written_by(to), count, type, ncclSum, peer, comm, s, NO_PLACE });
}

/* With NCCL's kernels it consists of sends and receives. Copy engines write each part to the offset of this rank's
 * buffer in its window. */
ncclResult_t ncclAlltoAll(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t s)
{
    size_t part = count * bytes_of(type), place = place_in(comm, from, to);
    ncclGroupStart();
    for (int i = 0; i < comm->ranks; i++) {
        size_t at = part * static_cast<size_t>(i);
        call({ SEND, read_by(from) + at, NULL, count, type, ncclSum, i, comm, s, place });
        call({ RECEIVE, NULL, written_by(to) + at, count, type, ncclSum, i, comm, s, place });
    }
    return ncclGroupEnd();
}
