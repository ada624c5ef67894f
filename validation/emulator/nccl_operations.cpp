/* Data movement and sums of the emulated NCCL: operations on streams, non-blocking messages between ranks. Messages use
 * host memory: device memory is read when an operation begins, written when it ends, and NaN in between. Before data
 * move, each rank compares its operation with its peers' operations. */
#include "base/numeric.h"
#include "nccl_inside.h"
#include <cstdlib>
#include <cstring>

namespace emulator_nccl
{

enum { TAG_HEADER = 1, TAG_DATA = 2 };

struct header {
    int kind, type, how;
    uint64_t count, place;
};
struct expectation {
    int peer;
    header expected, heard;
};
typedef std::vector<char> bytes;

enum stage { QUEUED, COMPARES, MOVES, SPREADS, SENDS };

struct operation {
    std::vector<task> tasks; /* one collective, or sends and receives */
    ncclComm_t comm;
    stage at;
    header own;
    std::deque<expectation> expected; /* one from the previous rank, or one for each receive */
    std::deque<bytes> sent, received; /* collectives: by rank; otherwise by task */
    bytes sum;
    std::vector<MPI_Request> receives, sends; /* sends: of all stages, as peers compare before they take */
};

static header header_of(const task &t) { return { t.kind, t.type, t.how, t.count, t.place }; }
static size_t part_bytes(const task &t) { return t.count * bytes_of(t.type); }
static size_t index(int rank) { return static_cast<size_t>(rank); }

static void send(operation *o, const void *from, size_t length, int peer, int tag)
{
    o->sends.push_back(MPI_REQUEST_NULL);
    MPI_CHECK(MPI_Isend(from, static_cast<int>(length), MPI_BYTE, peer, tag, o->comm->mpi, &o->sends.back()));
}

static void receive(operation *o, void *to, size_t length, int peer, int tag)
{
    o->receives.push_back(MPI_REQUEST_NULL);
    MPI_CHECK(MPI_Irecv(to, static_cast<int>(length), MPI_BYTE, peer, tag, o->comm->mpi, &o->receives.back()));
}

static bool all_done(std::vector<MPI_Request> &requests)
{
    int done = 0;
    MPI_CHECK(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE));
    if (done) requests.clear();
    return done != 0;
}

/* ---- buffers ---- */

static bool overlap(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    return a && b && a < b + b_bytes && b < a + a_bytes;
}

/* Return the sizes of the ranges that a task reads and writes. */
static size_t read_bytes(const task &t)
{
    return part_bytes(t) * (t.kind == REDUCE_SCATTER ? index(t.comm->ranks) : 1);
}
static size_t written_bytes(const task &t) { return part_bytes(t) * (t.kind == ALL_GATHER ? index(t.comm->ranks) : 1); }

/* Returns whether source and destination overlap in the only allowed way. */
static bool in_place(const task &t)
{
    size_t own = part_bytes(t) * index(t.comm->rank);
    if (t.kind == ALL_GATHER) return t.from == t.to + own;
    if (t.kind == REDUCE_SCATTER) return t.to == t.from + own;
    return t.kind == ALL_REDUCE && t.from == t.to;
}

static void check_buffers(const std::vector<task> &tasks)
{
    for (size_t i = 0; i < tasks.size(); i++) {
        const task &a = tasks[i];
        if (a.kind != RECEIVE) emulator_range(a.from, read_bytes(a), name_of(a.kind));
        if (a.kind != SEND) emulator_range(a.to, written_bytes(a), name_of(a.kind));
        if (a.stream != tasks[0].stream) emulator_fail("%s: two streams in one group of calls", name_of(a.kind));
        for (size_t k = 0; k < tasks.size(); k++) {
            const task &b = tasks[k];
            bool clash = a.to && ((i != k && overlap(a.to, written_bytes(a), b.to, written_bytes(b))) ||
                                  overlap(a.to, written_bytes(a), b.from, read_bytes(b)));
            if (clash && !(i == k && in_place(a)))
                emulator_fail("%s: what it writes lies over what is read or written beside it", name_of(a.kind));
        }
    }
}

static bytes copied(const char *from, size_t length) { return bytes(from, from + length); }

/* Makes data NaN until the operation has ended, so that early readers get NaN. */
static void spoil(const task &t)
{
    size_t own = part_bytes(t) * index(t.comm->rank), end = own + part_bytes(t);
    if (t.kind == SEND) return;
    if (t.kind != ALL_GATHER || !in_place(t)) {
        memset(t.to, 0xFF, written_bytes(t));
        return;
    }
    memset(t.to, 0xFF, own);
    memset(t.to + end, 0xFF, written_bytes(t) - end);
}

/* ---- stages ---- */

/* The elements that a rank sums for all ranks: nearly equal shares. */
struct share {
    size_t first, count;
};
static share share_of(const task &t, int rank)
{
    size_t each = (t.count + index(t.comm->ranks) - 1) / index(t.comm->ranks),
           first = std::min(t.count, each * index(rank));
    return { first, std::min(t.count, first + each) - first };
}

/* Returns the data that a collective sends to a rank, which that rank sums. */
static bytes outgoing(const task &t, int rank)
{
    size_t element = bytes_of(t.type);
    share s = share_of(t, rank);
    if (t.kind == ALL_GATHER) return copied(t.from, part_bytes(t));
    if (t.kind == REDUCE_SCATTER) return copied(t.from + part_bytes(t) * index(rank), part_bytes(t));
    return copied(t.from + s.first * element, s.count * element);
}

static size_t incoming_bytes(const task &t)
{
    return t.kind == ALL_REDUCE ? share_of(t, t.comm->rank).count * bytes_of(t.type) : part_bytes(t);
}

static void begin_collective(operation *o)
{
    const task &t = o->tasks[0];
    int ranks = o->comm->ranks, rank = o->comm->rank, before = (rank + ranks - 1) % ranks;
    for (int r = 0; r < ranks; r++) {
        o->sent.push_back(outgoing(t, r));
        o->received.push_back(r == rank ? o->sent.back() : bytes(incoming_bytes(t)));
    }
    o->expected.push_back({ before, o->own, header() });
    send(o, &o->own, sizeof o->own, (rank + 1) % ranks, TAG_HEADER);
    receive(o, &o->expected[0].heard, sizeof(header), before, TAG_HEADER);
}

/* Sends do not wait for the comparison, because the receiver compares before it takes the data. */
static void begin_messages(operation *o)
{
    for (const task &t : o->tasks) {
        o->expected.push_back({ t.peer, header_of(t), header() });
        o->sent.push_back(t.kind == SEND ? copied(t.from, part_bytes(t)) : bytes());
        o->received.push_back(t.kind == SEND ? bytes() : bytes(part_bytes(t)));
    }
    for (size_t i = 0; i < o->tasks.size(); i++) {
        if (o->tasks[i].kind == RECEIVE) {
            o->expected[i].expected.kind = SEND;
            receive(o, &o->expected[i].heard, sizeof(header), o->tasks[i].peer, TAG_HEADER);
        } else {
            send(o, &o->expected[i].expected, sizeof(header), o->tasks[i].peer, TAG_HEADER);
            send(o, o->sent[i].data(), o->sent[i].size(), o->tasks[i].peer, TAG_DATA);
        }
    }
}

static bool alike(const header &a, const header &b)
{
    return a.kind == b.kind && a.type == b.type && a.how == b.how && a.count == b.count;
}

static void compare(const operation *o)
{
    for (size_t i = 0; i < o->expected.size(); i++) {
        const expectation &e = o->expected[i];
        bool heard = o->own.kind < SEND || o->tasks[i].kind == RECEIVE;
        task_kind own = o->own.kind < SEND ? o->tasks[0].kind : RECEIVE;
        if (heard && !alike(e.expected, e.heard))
            emulator_fail("%s of %zu of type %d on rank %d of %d: rank %d calls %s of %zu of type %d", name_of(own),
                          static_cast<size_t>(e.expected.count), e.expected.type, o->comm->rank, o->comm->ranks, e.peer,
                          name_of(static_cast<task_kind>(e.heard.kind)), static_cast<size_t>(e.heard.count),
                          e.heard.type);
        if (heard && e.expected.place != e.heard.place)
            emulator_fail("%s on rank %d of %d: %zu bytes into its window, on rank %d %zu", name_of(own), o->comm->rank,
                          o->comm->ranks, size_t(e.expected.place), e.peer, size_t(e.heard.place));
    }
}

static void move_data(operation *o)
{
    for (size_t i = 0; i < o->received.size(); i++) {
        bool collective = o->own.kind < SEND;
        int peer = collective ? static_cast<int>(i) : o->tasks[i].peer;
        if (collective && peer == o->comm->rank) continue;
        if (collective || o->tasks[i].kind == RECEIVE)
            receive(o, o->received[i].data(), o->received[i].size(), peer, TAG_DATA);
        if (collective) send(o, o->sent[i].data(), o->sent[i].size(), peer, TAG_DATA);
    }
}

static void add_up(operation *o)
{
    const task &t = o->tasks[0];
    size_t first = t.kind == ALL_REDUCE ? share_of(t, o->comm->rank).first
                                        : part_bytes(t) / bytes_of(t.type) * index(o->comm->rank);
    std::vector<const char *> parts;
    for (const bytes &part : o->received) parts.push_back(part.data());
    o->sum.resize(incoming_bytes(t));
    sum_ring(o->sum.data(), parts, o->sum.size() / bytes_of(t.type), t.type, first);
}

static void spread_sum(operation *o)
{
    const task &t = o->tasks[0];
    for (int r = 0; r < o->comm->ranks; r++) {
        bytes &share = o->received[index(r)];
        share = r == o->comm->rank ? o->sum : bytes(share_of(t, r).count * bytes_of(t.type));
        if (r == o->comm->rank) continue;
        receive(o, share.data(), share.size(), r, TAG_DATA);
        send(o, o->sum.data(), o->sum.size(), r, TAG_DATA);
    }
}

static void write(char *to, const bytes &from)
{
    if (!from.empty()) memcpy(to, from.data(), from.size());
}

static void write_results(operation *o)
{
    const task &t = o->tasks[0];
    if (t.kind == REDUCE_SCATTER) write(t.to, o->sum);
    for (size_t i = 0; i < o->received.size(); i++) {
        if (t.kind == ALL_GATHER) write(t.to + i * part_bytes(t), o->received[i]);
        else if (t.kind == ALL_REDUCE)
            write(t.to + share_of(t, static_cast<int>(i)).first * bytes_of(t.type), o->received[i]);
        else if (o->tasks[i % o->tasks.size()].kind == RECEIVE) write(o->tasks[i].to, o->received[i]);
    }
}

static void begin(operation *o)
{
    check_buffers(o->tasks);
    o->own = header_of(o->tasks[0]);
    if (o->own.kind < SEND) begin_collective(o);
    else begin_messages(o);
    for (const task &t : o->tasks) spoil(t);
    o->at = COMPARES;
}

static void advance(operation *o)
{
    if (o->at == QUEUED) {
        begin(o);
    } else if (o->at == COMPARES) {
        compare(o);
        move_data(o);
        o->at = MOVES;
    } else {
        bool sums = o->own.kind == REDUCE_SCATTER || o->own.kind == ALL_REDUCE,
             spreads = o->at == MOVES && o->own.kind == ALL_REDUCE;
        if (sums && o->at == MOVES) add_up(o);
        if (spreads) spread_sum(o);
        else write_results(o);
        o->at = spreads ? SPREADS : SENDS;
    }
}

/* ---- on streams ---- */

/* Operations of communicators with shared resources run one at a time, in order of submission. */
static bool is_first(void *data)
{
    operation *o = static_cast<operation *>(data);
    return o->comm->aborted || o->comm->order->front() == o;
}

/* Versions from <= v < fixed have the defect; with EMULATOR_NCCL_DEFECT=name, every version has it. */
static bool has_defect(int from, int fixed, const char *name)
{
    const char *given = getenv("EMULATOR_NCCL_DEFECT");
    int version = 0;
    ncclGetVersion(&version);
    return (version >= from && version < fixed) || (given && strcmp(given, name) == 0);
}

/* Returns whether the operation never ends: copy engines between two ranks; sends, except small ones. */
static bool hangs(const operation *o)
{
    const task &t = o->tasks[0];
    bool by_engines = t.place != NO_PLACE, is_large = t.count * bytes_of(t.type) > 64;
    return (by_engines && o->comm->ranks == 2 && has_defect(22907, 23102, "pairs")) ||
           (!by_engines && t.kind >= SEND && is_large && has_defect(23007, 23102, "links"));
}

/* Moves data some time after the operation has begun. */
static bool test(void *data)
{
    operation *o = static_cast<operation *>(data);
    if (o->comm->aborted) return true;
    if (emulator_random(3) == 0 || hangs(o)) return false;
    if (o->at != SENDS && all_done(o->receives)) advance(o);
    if (o->at != SENDS || !all_done(o->sends)) return false;
    o->comm->order->pop_front();
    return true;
}

/* MPI may still write to an aborted operation, so it is not deleted. */
static void release(void *data)
{
    operation *o = static_cast<operation *>(data);
    if (!o->comm->aborted) delete o;
}

void submit(const std::vector<task> &tasks)
{
    operation *o = new operation();
    o->tasks = tasks;
    o->comm = tasks[0].comm;
    o->comm->order->push_back(o);
    emulator_enqueue_polled(tasks[0].stream, name_of(tasks[0].kind), is_first, test, o, release);
    if (tasks[0].place == NO_PLACE) emulator_occupy(tasks[0].stream, tasks[0].comm->config.maxCTAs);
}

/* ---- sums ---- */

/* The number of consecutive elements whose sum starts with the same rank. */
enum { RING_BLOCK = 256 };

template <class number> static number at(const char *part, size_t i)
{
    number x;
    memcpy(&x, part + i * sizeof x, sizeof x);
    return x;
}

static float plus(float a, float b) { return a + b; }
static double plus(double a, double b) { return a + b; }
static uint64_t plus(uint64_t a, uint64_t b) { return a + b; }
static int32_t plus(int32_t a, int32_t b) { return std::max(a, b); } /* the only reduction of I32 */
static uint16_t plus(uint16_t a, uint16_t b) { return bf16_round(bf16_widen(a) + bf16_widen(b)); }

template <class number>
static void sum_numbers(char *to, const std::vector<const char *> &part, size_t count, size_t first)
{
    size_t ranks = part.size();
    for (size_t i = 0; i < count; i++) {
        size_t start = 1 + (first + i) / RING_BLOCK;
        number sum = at<number>(part[start % ranks], i);
        for (size_t hop = 1; hop < ranks; hop++) sum = plus(sum, at<number>(part[(start + hop) % ranks], i));
        memcpy(to + i * sizeof sum, &sum, sizeof sum);
    }
}

void sum_ring(char *to, const std::vector<const char *> &part, size_t count, ncclDataType_t type, size_t first)
{
    switch (type) {
    case ncclFloat32: sum_numbers<float>(to, part, count, first); break;
    case ncclFloat64: sum_numbers<double>(to, part, count, first); break;
    case ncclUint64: sum_numbers<uint64_t>(to, part, count, first); break;
    case ncclInt32: sum_numbers<int32_t>(to, part, count, first); break;
    case ncclBfloat16: sum_numbers<uint16_t>(to, part, count, first); break;
    default: emulator_fail("NCCL: sums of type %d are not emulated", type);
    }
}

} // namespace emulator_nccl
