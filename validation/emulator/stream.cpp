/* Streams, events, and the progress of the device: each call that synchronizes or queries draws items at random among
 * the heads of all streams. Only events order two streams. */
#include "inside.h"
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace emulator
{

/* One cudaEventRecord. A wait captures the latest record at the time when the wait is queued. */
struct record {
    bool done = false;
    double seconds = 0.0;
    cudaStream_t stream;
};
typedef std::shared_ptr<record> record_pointer;

struct item {
    enum { RUN, POLLED, RECORD, WAIT } kind;
    std::string what;
    void (*run)(void *);
    bool (*may_begin)(void *), (*test)(void *);
    void *data;
    void (*release)(void *);
    record_pointer mark;
    int multiprocessors = 0; /* held while it runs */
};

} // namespace emulator

struct CUstream_st {
    std::deque<emulator::item> items;
    bool begun = false; /* of the head */
    int priority = 0;
};
struct CUevent_st {
    emulator::record_pointer latest;
};

namespace emulator
{

enum {
    MOST_QUEUED = 1000,
    LEAST_PRIORITY = 0,
    GREATEST_PRIORITY = -5,
    POLLS_BEFORE_SLEEP = 100,
    MOST_ITEMS = 8,
    LOCK_EVERY = 16
};
static const double stall_seconds = 600.0;
static int held; /* multiprocessors held by all heads that have begun */

static CUstream_st legacy;
static std::vector<cudaStream_t> streams = { &legacy };
static std::vector<cudaEvent_t> events;

static double clock_now()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

cudaStream_t legacy_stream() { return &legacy; }

void stream_check(cudaStream_t s, const char *call)
{
    if (!s) emulator_fail("%s: the default stream is used", call);
    for (cudaStream_t known : streams)
        if (known == s) return;
    emulator_fail("%s: no such stream (any more)", call);
}

static void event_check(cudaEvent_t e, const char *call)
{
    for (cudaEvent_t known : events)
        if (known == e) return;
    emulator_fail("%s: no such event (any more)", call);
}

/* Removes the finished head. Its release function may free memory of a library, but must queue nothing. */
static void complete(cudaStream_t s)
{
    item x = std::move(s->items.front());
    s->items.pop_front();
    s->begun = false;
    held -= x.multiprocessors;
    if (x.release) x.release(x.data);
}

static bool fits(const item &x) { return held + x.multiprocessors <= emulator_multiprocessors(); }

static bool can_run(cudaStream_t s)
{
    if (s->items.empty()) return false;
    const item &x = s->items.front();
    if (x.kind == item::WAIT) return x.mark->done;
    return s->begun || (fits(x) && (x.kind != item::POLLED || x.may_begin(x.data)));
}

/* Returns whether the head competes for multiprocessors. A head that has begun keeps its own. */
static bool competes(cudaStream_t s) { return !s->begun && s->items.front().multiprocessors > 0; }

/* Returns the highest priority (the smallest number) among competing heads that can run. */
static int first_priority()
{
    int first = LEAST_PRIORITY;
    for (cudaStream_t s : streams)
        if (can_run(s) && competes(s) && s->priority < first) first = s->priority;
    return first;
}

/* Runs the head, begins it, or polls it. Returns whether it is done. */
static bool run_head(cudaStream_t s)
{
    item &x = s->items.front();
    if (x.kind == item::WAIT) return true;
    if (x.kind == item::RECORD) {
        x.mark->done = true;
        x.mark->seconds = clock_now();
        return true;
    }
    running = true;
    memory_unlock();
    bool done = x.kind == item::RUN || (s->begun && x.test(x.data));
    if (x.kind == item::RUN) x.run(x.data);
    if (!s->begun) held += x.multiprocessors;
    s->begun = true;
    running = false;
    return done;
}

/* Runs one item of any stream. Returns false if no item finished (polled work may continue). *any: whether an item
 * could run. Half of the calls respect priorities. */
static bool advance_one(bool *any)
{
    cudaStream_t able[64];
    unsigned count = 0;
    int least = draw(2) ? first_priority() : LEAST_PRIORITY;
    for (cudaStream_t s : streams)
        if (can_run(s) && !(competes(s) && s->priority > least) && count < 64) able[count++] = s;
    if (any) *any = count > 0;
    if (count == 0) return false;
    cudaStream_t s = able[draw(count)];
    if (!run_head(s)) return false;
    complete(s);
    return true;
}

/* If queries repeat without progress, sleeps so that the peers get the processor. */
static void advance_some()
{
    static int idle;
    unsigned wanted = draw(MOST_ITEMS), left = wanted;
    while (left > 0 && advance_one(NULL)) left--;
    if (wanted > 0) idle = left == wanted ? idle + 1 : 0;
    if (idle > POLLS_BEFORE_SLEEP) usleep(50);
}

void advance_somewhat()
{
    advance_some();
    memory_lock();
}

/* Locks memory only in some queries, because queries are frequent and locking large memory is slow. */
static cudaError_t query(bool done)
{
    counts.queries++;
    if (draw(LOCK_EVERY) == 0) memory_lock();
    return done ? cudaSuccess : emulator_last_error(cudaErrorNotReady);
}

__attribute__((noreturn)) static void stuck(const char *call, const char *why)
{
    for (cudaStream_t s : streams) {
        if (s->items.empty()) continue;
        const item &x = s->items.front();
        fprintf(stderr, "emulator: a stream stands before %s, which %s %d multiprocessors; %d of %d are held\n",
                x.what.c_str(), s->begun ? "holds" : "needs", x.multiprocessors, held, emulator_multiprocessors());
    }
    emulator_fail("%s: %s", call, why);
}

/* Advances until done() holds. */
template <typename condition> static void advance_until(const char *call, condition done)
{
    double since = clock_now();
    for (long idle = 0; !done(); idle++) {
        bool any;
        if (advance_one(&any)) {
            idle = 0;
            since = clock_now();
        } else if (!any) stuck(call, "waits for what can never come");
        if (idle < POLLS_BEFORE_SLEEP) continue;
        usleep(50);
        if (clock_now() - since > stall_seconds) stuck(call, "nothing has completed for too long");
    }
    memory_lock();
}

void stream_finish(cudaStream_t s, const char *call)
{
    advance_until(call, [=] { return s->items.empty(); });
}

/* EMULATOR_DEAF=1: streams ignore events, as if the program had omitted every wait. */
static bool deaf()
{
    static const char *text = getenv("EMULATOR_DEAF");
    return text && *text == '1';
}

/* If the stream is full, the call waits until it has space, as a driver does. */
static void append(cudaStream_t s, item &&x)
{
    if (s->items.size() >= MOST_QUEUED) {
        synchronizing("a call onto a full stream");
        advance_until("a call onto a full stream", [=] { return s->items.size() < MOST_QUEUED; });
    }
    s->items.push_back(std::move(x));
}

} // namespace emulator

using namespace emulator;

void emulator_enqueue(cudaStream_t s, const char *what, void (*run)(void *), void *data, void (*release)(void *))
{
    enter(what);
    stream_check(s, what);
    append(s, { item::RUN, what, run, NULL, NULL, data, release, NULL });
}

void emulator_enqueue_polled(cudaStream_t s, const char *what, bool (*may_begin)(void *), bool (*test)(void *),
                             void *data, void (*release)(void *))
{
    enter(what);
    stream_check(s, what);
    append(s, { item::POLLED, what, NULL, may_begin, test, data, release, NULL });
}

void emulator_occupy(cudaStream_t s, int multiprocessors) { s->items.back().multiprocessors = multiprocessors; }

/* --- Streams
 * -------------------------------------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int priority)
{
    EMULATOR_CALL();
    if (flags != cudaStreamNonBlocking) emulator_fail("%s: the stream would wait for the default stream", __func__);
    *s = new CUstream_st;
    (*s)->priority = priority < GREATEST_PRIORITY ? GREATEST_PRIORITY
                     : priority > LEAST_PRIORITY  ? LEAST_PRIORITY
                                                  : priority;
    streams.push_back(*s);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    return cudaStreamCreateWithPriority(s, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t *s) { return cudaStreamCreateWithFlags(s, cudaStreamDefault); }

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    EMULATOR_CALL();
    if (least) *least = LEAST_PRIORITY;
    if (greatest) *greatest = GREATEST_PRIORITY;
    return cudaSuccess;
}

/* CUDA would finish the work first. Here queued work is an error, because the program has lost track of it. */
cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    EMULATOR_CALL();
    stream_check(s, __func__);
    if (!s->items.empty()) emulator_fail("%s: %s and more is still queued", __func__, s->items.front().what.c_str());
    for (size_t i = 0; i < streams.size(); i++)
        if (streams[i] == s) streams.erase(streams.begin() + long(i--));
    delete s;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    EMULATOR_CALL();
    stream_check(s, __func__);
    synchronizing(__func__);
    stream_finish(s, __func__);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
    EMULATOR_CALL();
    stream_check(s, __func__);
    advance_some();
    return query(s->items.empty());
}

cudaError_t cudaDeviceSynchronize(void)
{
    EMULATOR_CALL();
    synchronizing(__func__);
    for (size_t i = 0; i < streams.size(); i++) stream_finish(streams[i], __func__);
    return cudaSuccess;
}

/* Queued work would be captured only in part. */
cudaError_t cudaProfilerStart(void)
{
    EMULATOR_CALL();
    for (cudaStream_t s : streams)
        if (!s->items.empty()) emulator_fail("%s: %s is still queued", __func__, s->items.front().what.c_str());
    return cudaSuccess;
}
cudaError_t cudaProfilerStop(void) { return cudaProfilerStart(); }

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    EMULATOR_CALL();
    stream_check(s, __func__);
    event_check(e, __func__);
    if (flags != 0) return emulator_last_error(cudaErrorInvalidValue);
    if (e->latest && !deaf()) append(s, { item::WAIT, "a wait for an event", NULL, NULL, NULL, NULL, NULL, e->latest });
    return cudaSuccess;
}

/* --- Events
 * --------------------------------------------------------------------------------------------------------------- */

cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    EMULATOR_CALL();
    *e = new CUevent_st{ NULL };
    events.push_back(*e);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    EMULATOR_CALL();
    event_check(e, __func__);
    for (size_t i = 0; i < events.size(); i++)
        if (events[i] == e) events.erase(events.begin() + long(i--));
    delete e;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    EMULATOR_CALL();
    stream_check(s, __func__);
    event_check(e, __func__);
    e->latest = std::make_shared<record>();
    append(s, { item::RECORD, "an event's record", NULL, NULL, NULL, NULL, NULL, e->latest });
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
    EMULATOR_CALL();
    event_check(e, __func__);
    advance_some();
    return query(!e->latest || e->latest->done);
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    EMULATOR_CALL();
    event_check(e, __func__);
    synchronizing(__func__);
    record_pointer latest = e->latest;
    advance_until(__func__, [&] { return !latest || latest->done; });
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    EMULATOR_CALL();
    event_check(from, __func__);
    event_check(to, __func__);
    if (!from->latest || !to->latest) return emulator_last_error(cudaErrorInvalidResourceHandle);
    if (!from->latest->done || !to->latest->done) return emulator_last_error(cudaErrorNotReady);
    *milliseconds = float(1e3 * (to->latest->seconds - from->latest->seconds));
    return cudaSuccess;
}
