/* Mistakes with streams, events, copies and memory run in child processes, which must fail with the emulator's message.
 * Correct programs pass in any order. */
#include "emulator_tests.h"
#include "machine/cuda/kernels/launch.cuh"

enum { THREADS = 64, VALUES = 256, SEEDS = 20 };

static KERNEL(THREADS) set(float *x, float value) { x[blockIdx.x * THREADS + threadIdx.x] = value; }
static KERNEL(THREADS) twice(const float *from, float *to)
{
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    to[i] = 2.0f * from[i];
}

struct two_streams {
    test_stream first, second;
    device_floats x, y;
    cudaEvent_t event;
    two_streams() : x(VALUES), y(VALUES) { EXPECT_CUDA(cudaEventCreate(&event)); }
    void finish()
    {
        first.finish();
        second.finish();
    }
    void set_on(test_stream &s, float value)
    {
        LAUNCH(set, dim3(VALUES / THREADS), THREADS, 0, s.stream, x.data, value);
    }
    void twice_on(test_stream &s) { LAUNCH(twice, dim3(VALUES / THREADS), THREADS, 0, s.stream, x.data, y.data); }
    bool y_is(float value)
    {
        float got[VALUES];
        y.read(got);
        for (float g : got)
            if (g != value) return false;
        return true;
    }
};

/* One stream sets x, the other doubles it, many times; `wait` orders the two. */
static void trade(bool wait)
{
    for (int i = 0; i < SEEDS; i++) {
        two_streams s;
        s.set_on(s.first, float(i));
        EXPECT_CUDA(cudaEventRecord(s.event, s.first.stream));
        if (wait) EXPECT_CUDA(cudaStreamWaitEvent(s.second.stream, s.event, 0));
        s.twice_on(s.second);
        s.finish();
        expect(s.y_is(2.0f * float(i)), "doubled behind an event");
    }
}

static void wait_is_kept() { trade(true); }
static void wait_is_missing() { trade(false); }

/* A wait refers to the record before it, not to a later record, and not to none. */
static void wait_captures()
{
    two_streams s;
    EXPECT_CUDA(cudaStreamWaitEvent(s.second.stream, s.event, 0));
    s.set_on(s.first, 1.0f);
    EXPECT_CUDA(cudaEventRecord(s.event, s.first.stream));
    EXPECT_CUDA(cudaStreamWaitEvent(s.second.stream, s.event, 0));
    s.twice_on(s.second);
    EXPECT_CUDA(cudaEventRecord(s.event, s.second.stream));
    EXPECT_CUDA(cudaStreamWaitEvent(s.first.stream, s.event, 0));
    s.set_on(s.first, 3.0f);
    EXPECT_CUDA(cudaEventRecord(s.event, s.first.stream));
    EXPECT_CUDA(cudaEventSynchronize(s.event));
    expect(s.y_is(2.0f), "the record that was the latest");
}

/* Queuing runs nothing. */
static void launches_are_late()
{
    two_streams s;
    s.set_on(s.first, 1.0f);
    EXPECT_CUDA(cudaEventRecord(s.event, s.first.stream));
    expect(emulator_counted().blocks == 0, "no block has run");
    while (cudaEventQuery(s.event) != cudaSuccess)
        expect(cudaGetLastError() == cudaErrorNotReady, "a query's error stays");
    expect(emulator_counted().blocks == VALUES / THREADS, "all blocks have run");
}

struct pinned_floats {
    float *data;
    pinned_floats()
    {
        void *p;
        EXPECT_CUDA(cudaMallocHost(&p, VALUES * sizeof(float)));
        data = static_cast<float *>(p);
    }
};

static void copy_async(void *to, const void *from, enum cudaMemcpyKind kind, const test_stream &s)
{
    EXPECT_CUDA(cudaMemcpyAsync(to, from, VALUES * sizeof(float), kind, s.stream));
}

static void pinned_copies()
{
    two_streams s;
    pinned_floats up, down;
    for (int i = 0; i < VALUES; i++) up.data[i] = 5.0f;
    copy_async(s.x.data, up.data, cudaMemcpyHostToDevice, s.first);
    s.twice_on(s.first);
    copy_async(down.data, s.y.data, cudaMemcpyDeviceToHost, s.first);
    s.finish();
    expect(down.data[VALUES - 1] == 10.0f, "copied there and back");
    EXPECT_CUDA(cudaFreeHost(up.data));
}

static void source_is_changed()
{
    for (int i = 0; i < SEEDS; i++) {
        two_streams s;
        pinned_floats up;
        for (int j = 0; j < VALUES; j++) up.data[j] = 5.0f;
        copy_async(s.x.data, up.data, cudaMemcpyHostToDevice, s.first);
        s.twice_on(s.first);
        for (int j = 0; j < VALUES; j++) up.data[j] = 6.0f;
        s.finish();
        expect(s.y_is(10.0f), "the source as it was when the copy was queued");
    }
}

static void read_too_early()
{
    two_streams s;
    pinned_floats down;
    s.set_on(s.first, 1.0f);
    copy_async(down.data, s.x.data, cudaMemcpyDeviceToHost, s.first);
    printf("%g\n", double(down.data[3]));
    s.finish();
}

static void pageable_copy()
{
    two_streams s;
    float down[VALUES];
    copy_async(down, s.x.data, cudaMemcpyDeviceToHost, s.first);
    s.finish();
}

static void wrong_direction()
{
    two_streams s;
    pinned_floats down;
    copy_async(down.data, s.x.data, cudaMemcpyHostToDevice, s.first);
}

static void copy_overrun()
{
    two_streams s;
    EXPECT_CUDA(
        cudaMemcpyAsync(s.x.data, s.y.data + 1, VALUES * sizeof(float), cudaMemcpyDeviceToDevice, s.first.stream));
    s.finish();
}

static void freed_memory()
{
    two_streams s;
    s.set_on(s.first, 1.0f);
    EXPECT_CUDA(cudaFree(s.x.data));
    s.finish();
}

static void freed_twice()
{
    two_streams s;
    EXPECT_CUDA(cudaFree(s.x.data));
    cudaFree(s.x.data);
}

static void host_reads_device()
{
    two_streams s;
    s.set_on(s.first, 1.0f);
    s.finish();
    printf("%g\n", double(s.x.data[3]));
}

static void uninitialised_memory()
{
    two_streams s;
    s.twice_on(s.first);
    s.finish();
    float got[VALUES];
    s.y.read(got);
    expect(got[7] != got[7], "new memory is NaN");
}

static void default_stream_launch()
{
    two_streams s;
    LAUNCH(set, dim3(VALUES / THREADS), THREADS, 0, NULL, s.x.data, 1.0f);
}

static void blocking_stream()
{
    cudaStream_t s;
    cudaStreamCreate(&s);
}

/* The legacy stream waits for no other: its copy may run before the kernel. */
static void copy_without_wait()
{
    for (int i = 0; i < SEEDS; i++) {
        two_streams s;
        s.set_on(s.first, 2.0f);
        s.twice_on(s.first);
        expect(s.y_is(4.0f), "copied behind the kernels");
        s.finish();
    }
}

static void stream_left_full()
{
    two_streams s;
    s.set_on(s.first, 1.0f);
    cudaStreamDestroy(s.first.stream);
}

static void stream_used_after()
{
    two_streams s;
    EXPECT_CUDA(cudaStreamDestroy(s.first.stream));
    s.set_on(s.first, 1.0f);
}

static void sync_in_step()
{
    two_streams s;
    emulator_step_begin();
    s.set_on(s.first, 1.0f);
    s.finish();
}

static void fill_stream(two_streams &s)
{
    for (int i = 0; i <= 1000; i++) s.set_on(s.first, 1.0f);
}

static void full_stream()
{
    two_streams s;
    fill_stream(s);
    s.finish();
}

static void full_stream_in_step()
{
    two_streams s;
    emulator_step_begin();
    fill_stream(s);
}

static bool never(void *) { return false; }
static bool third_time(void *data) { return ++*static_cast<int *>(data) == 3; }
static bool always(void *) { return true; }
static bool told(void *data) { return *static_cast<bool *>(data); }

static void polled_work()
{
    two_streams s;
    int asked = 0;
    emulator_enqueue_polled(s.first.stream, "a transfer", always, third_time, &asked, NULL);
    s.set_on(s.first, 2.0f);
    s.set_on(s.second, 1.0f);
    s.second.finish();
    s.first.finish();
    expect(asked == 3, "asked until it was done");
}

static void wait_for_ever()
{
    two_streams s;
    int asked = 0;
    emulator_enqueue_polled(s.first.stream, "a transfer", always, never, &asked, NULL);
    EXPECT_CUDA(cudaEventRecord(s.event, s.first.stream));
    for (int i = 0; i < 1000; i++) expect(cudaEventQuery(s.event) == cudaErrorNotReady, "a transfer without an end");
}

/* Returns whether the stream is still busy after everything that can run has run. */
static bool waits(const test_stream &s)
{
    for (int i = 0; i < 100; i++) cudaStreamQuery(s.stream);
    bool busy = cudaStreamQuery(s.stream) == cudaErrorNotReady;
    cudaGetLastError();
    return busy;
}

/* All multiprocessors but one are held. A kernel gets that one; a product that needs two waits. */
static void residents()
{
    two_streams s;
    test_stream third;
    bool came = false;
    emulator_enqueue_polled(third.stream, "a transfer", always, told, &came, NULL);
    emulator_occupy(third.stream, emulator_multiprocessors() - 1);
    expect(waits(third), "the transfer begins");
    s.set_on(s.second, 1.0f);
    emulator_occupy(s.second.stream, 2);
    s.set_on(s.first, 2.0f);
    s.first.finish();
    expect(waits(s.second), "a product waits for the transfer");
    came = true;
    s.second.finish();
    third.finish();
}

static void too_many_residents()
{
    test_stream s;
    emulator_enqueue_polled(s.stream, "a transfer", always, told, NULL, NULL);
    emulator_occupy(s.stream, emulator_multiprocessors() + 1);
    s.finish();
}

/* Either of two kernels may run first, but more often the one with the higher priority. */
static void priorities()
{
    int first = 0;
    test_stream last;
    cudaStream_t urgent;
    EXPECT_CUDA(cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, -5));
    for (int i = 0; i < 400; i++) {
        device_floats x(VALUES);
        LAUNCH(set, dim3(VALUES / THREADS), THREADS, 0, last.stream, x.data, 1.0f);
        LAUNCH(set, dim3(VALUES / THREADS), THREADS, 0, urgent, x.data, 2.0f);
        last.finish();
        EXPECT_CUDA(cudaStreamSynchronize(urgent));
        float got[VALUES];
        x.read(got);
        first += got[0] == 1.0f;
    }
    expect(first > 240 && first < 360, "three of four times the urgent one");
}

int main()
{
    static const test_case tests[] = {
        { "an event orders two streams", wait_is_kept, NULL },
        { "a missing wait", wait_is_missing, "wrong: doubled behind an event" },
        { "a wait means the record before it", wait_captures, NULL },
        { "nothing runs when it is queued", launches_are_late, NULL },
        { "copies from and to pinned memory", pinned_copies, NULL },
        { "the source of a copy is changed before it ran", source_is_changed, "wrong: the source as it was" },
        { "a copy's result is read before it is there", read_too_early, "use-after-poison" },
        { "an asynchronous copy to pageable memory", pageable_copy,
          "cudaMemcpyAsync: from device memory to pageable host memory" },
        { "a copy in the wrong direction", wrong_direction, "kind 1, but from device memory to pinned host memory" },
        { "a copy beyond its source", copy_overrun, "cudaMemcpyAsync: kind 3, but from memory beyond" },
        { "freed memory is used by what was queued before", freed_memory, "heap-use-after-free" },
        { "memory is freed twice", freed_twice, "no live allocation" },
        { "the host reads device memory", host_reads_device, "use-after-poison" },
        { "memory starts as NaN", uninitialised_memory, NULL },
        { "a launch on the default stream", default_stream_launch, "the default stream is used" },
        { "a stream that waits for the default stream", blocking_stream, "would wait for the default stream" },
        { "a synchronous copy without a wait", copy_without_wait, "wrong: copied behind the kernels" },
        { "a stream is destroyed with work in it", stream_left_full, "still queued" },
        { "a stream is used after its end", stream_used_after, "no such stream" },
        { "the host waits within a step", sync_in_step,
          "cudaStreamSynchronize: the host waits for the device inside a step" },
        { "a full stream takes more when there is room", full_stream, NULL },
        { "a full stream holds the host up within a step", full_stream_in_step,
          "a call onto a full stream: the host waits for the device inside a step" },
        { "polled work", polled_work, NULL },
        { "polled work without an end blocks no query", wait_for_ever, NULL },
        { "a transfer holds multiprocessors until its end", residents, NULL },
        { "more multiprocessors than there are", too_many_residents, "a transfer, which needs 133 multiprocessors" },
        { "priorities of streams", priorities, NULL },
    };
    return run_tests(tests, sizeof tests / sizeof *tests);
}
