/* Rules of CUDA that src/machine/cuda keeps, and that only the emulator watches: kernels and programs that break one
 * run in child processes, which must fail with the emulator's message. Without these rows a detector that has become
 * blind would pass unnoticed. What correct programs do is tested by the operations and the executor on the emulated
 * GPU. */
#include "emulator.h"
#include "machine/cuda/kernels/launch.cuh"
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

struct test_case {
    const char *name;
    void (*run)();
    const char *dies_with; /* NULL: it passes */
};

static void expect(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "wrong: %s\n", what);
    exit(3);
}

#define EXPECT_CUDA(call) expect((call) == cudaSuccess, #call)

/* Returns the child's stderr. *ended_well: whether it ended with status 0. */
static std::string run_child(const test_case &t, bool *ended_well)
{
    int ends[2];
    if (pipe(ends) != 0) abort();
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        t.run();
        exit(0);
    }
    close(ends[1]);
    std::string said;
    char part[4096];
    for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) said.append(part, size_t(n));
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    *ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return said;
}

static bool run_test(const test_case &t)
{
    bool ended_well;
    std::string said = run_child(t, &ended_well);
    bool right = t.dies_with ? !ended_well && said.find(t.dies_with) != std::string::npos : ended_well;
    if (!right && t.dies_with) printf("# expected: %s\n", t.dies_with);
    if (!right) printf("# said: %s\n", said.substr(0, 800).c_str());
    return right;
}

static int run_tests(const test_case *tests, size_t count)
{
    int failed = 0;
    printf("1..%zu\n", count);
    for (size_t i = 0; i < count; i++) {
        fflush(stdout);
        bool right = run_test(tests[i]);
        printf("%s %zu - %s\n", right ? "ok" : "not ok", i + 1, tests[i].name);
        failed += !right;
    }
    return failed > 0;
}

/* Floats in device memory. */
struct device_floats {
    float *data;
    size_t count;
    explicit device_floats(size_t n) : data(NULL), count(n)
    {
        void *p;
        EXPECT_CUDA(cudaMalloc(&p, n * sizeof(float)));
        data = static_cast<float *>(p);
    }
    ~device_floats() { cudaFree(data); }
    void read(float *to) const { EXPECT_CUDA(cudaMemcpy(to, data, count * sizeof(float), cudaMemcpyDeviceToHost)); }
};

struct test_stream {
    cudaStream_t stream;
    test_stream() { EXPECT_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0)); }
    void finish() { EXPECT_CUDA(cudaStreamSynchronize(stream)); }
};

/* ---- kernels ---- */

enum { THREADS = 128, SEEDS = 20 };

struct floats {
    float of[THREADS];
};

/* out [thread] of each block: the value that the thread at the other end of the block wrote to shared memory. */
static KERNEL(THREADS) reversed_without_barrier(float *out)
{
    SHARED(floats, shared);
    shared.of[threadIdx.x] = float(threadIdx.x);
    out[threadIdx.x] = shared.of[THREADS - 1 - threadIdx.x];
}

/* Rotates by one within each warp, twice: the second write may come before another lane has read. */
static KERNEL(THREADS) rotated_without_second_syncwarp(float *out)
{
    SHARED(floats, shared);
    float x = float(threadIdx.x);
    for (int n = 0; n < 2; n++) {
        shared.of[threadIdx.x] = x;
        __syncwarp();
        x = shared.of[threadIdx.x / 32 * 32 + (threadIdx.x + 1) % 32];
    }
    out[threadIdx.x] = x;
}

static KERNEL(THREADS) overrun(float *out)
{
    SHARED(floats, shared);
    float *at = shared.of + threadIdx.x;
    if (threadIdx.x == THREADS - 1) at[1] = 1.0f;
    out[threadIdx.x] = *at;
}

static KERNEL(THREADS) leaves(float *out)
{
    out[threadIdx.x] = 0.0f;
    if (threadIdx.x == 77) return;
    __syncthreads();
    out[threadIdx.x] = 1.0f;
}

static KERNEL(THREADS) partial(float *out)
{
    float x = 1.0f;
    if (threadIdx.x % 32 < 31) x = __shfl_xor_sync(0xFFFFFFFFu, x, 1);
    else __syncthreads();
    out[threadIdx.x] = x;
}

static KERNEL(THREADS) half_mask(float *out) { out[threadIdx.x] = __shfl_sync(0x0000FFFFu, 1.0f, 0); }
static KERNEL(64) of_two_warps(float *out) { out[threadIdx.x] = 1.0f; }
struct large {
    char bytes[4100];
};
static KERNEL(THREADS) of_many_bytes(large, float *out) { out[threadIdx.x] = 1.0f; }

/* Launches a kernel once on `length` floats. */
#define ONE_LAUNCH(length, kernel, grid, block, shared)                                                                \
    device_floats out(length);                                                                                         \
    test_stream s;                                                                                                     \
    LAUNCH(kernel, grid, block, shared, s.stream, out.data);                                                           \
    s.finish()

static void barrier_is_missing() { ONE_LAUNCH(THREADS, reversed_without_barrier, dim3(1), THREADS, sizeof(floats)); }
static void warp_is_not_synchronized()
{
    ONE_LAUNCH(THREADS, rotated_without_second_syncwarp, dim3(1), THREADS, sizeof(floats));
}
static void shared_overrun() { ONE_LAUNCH(THREADS, overrun, dim3(1), THREADS, sizeof(floats)); }
static void shared_too_small() { ONE_LAUNCH(THREADS, overrun, dim3(1), THREADS, sizeof(floats) - 4); }
static void out_of_bounds() { ONE_LAUNCH(THREADS - 1, leaves, dim3(1), THREADS, 0); }
static void leaves_before_barrier() { ONE_LAUNCH(THREADS, leaves, dim3(1), THREADS, 0); }
static void partial_shuffle() { ONE_LAUNCH(THREADS, partial, dim3(1), THREADS, 0); }
static void mask_of_half() { ONE_LAUNCH(THREADS, half_mask, dim3(1), THREADS, 0); }
static void block_beyond_bound() { ONE_LAUNCH(THREADS, of_two_warps, dim3(1), 96, 0); }
static void grid_of_none() { ONE_LAUNCH(THREADS, of_two_warps, dim3(0), 64, 0); }
static void grid_too_high() { ONE_LAUNCH(THREADS, of_two_warps, dim3(1, 65536), 64, 0); }
static void shared_too_large() { ONE_LAUNCH(THREADS, of_two_warps, dim3(1), 64, (227 << 10) + 4); }

static void shared_not_allowed()
{
    test_stream s;
    emulator_launch_plan plan = {
        "of_two_warps", reinterpret_cast<const void *>(of_two_warps), dim3(1), dim3(64), 49 << 10, 8, NULL, NULL, NULL
    };
    emulator_launch(&plan, s.stream);
}

static void arguments_too_large()
{
    device_floats out(THREADS);
    test_stream s;
    LAUNCH(of_many_bytes, dim3(1), THREADS, 0, s.stream, large(), out.data);
}

static void host_argument()
{
    float out[THREADS];
    test_stream s;
    LAUNCH(of_two_warps, dim3(1), 64, 0, s.stream, out);
}

/* ---- streams, events, copies, memory ---- */

static KERNEL(THREADS) set(float *x, float value) { x[threadIdx.x] = value; }
static KERNEL(THREADS) twice(const float *from, float *to) { to[threadIdx.x] = 2.0f * from[threadIdx.x]; }

struct two_streams {
    test_stream first, second;
    device_floats x, y;
    cudaEvent_t event;
    two_streams() : x(THREADS), y(THREADS) { EXPECT_CUDA(cudaEventCreate(&event)); }
    void finish()
    {
        first.finish();
        second.finish();
    }
    void set_on(test_stream &s, float value) { LAUNCH(set, dim3(1), THREADS, 0, s.stream, x.data, value); }
    void twice_on(test_stream &s) { LAUNCH(twice, dim3(1), THREADS, 0, s.stream, x.data, y.data); }
    bool y_is(float value)
    {
        float got[THREADS];
        y.read(got);
        for (float g : got)
            if (g != value) return false;
        return true;
    }
};

/* One stream sets x, the other doubles it, without a wait. */
static void wait_is_missing()
{
    for (int i = 0; i < SEEDS; i++) {
        two_streams s;
        s.set_on(s.first, float(i));
        s.twice_on(s.second);
        s.finish();
        expect(s.y_is(2.0f * float(i)), "doubled after an event");
    }
}

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

static float *pinned()
{
    void *p;
    EXPECT_CUDA(cudaMallocHost(&p, THREADS * sizeof(float)));
    return static_cast<float *>(p);
}

static void copy_async(void *to, const void *from, enum cudaMemcpyKind kind, const test_stream &s)
{
    EXPECT_CUDA(cudaMemcpyAsync(to, from, THREADS * sizeof(float), kind, s.stream));
}

static void source_is_changed()
{
    for (int i = 0; i < SEEDS; i++) {
        two_streams s;
        float *up = pinned();
        for (int j = 0; j < THREADS; j++) up[j] = 5.0f;
        copy_async(s.x.data, up, cudaMemcpyHostToDevice, s.first);
        s.twice_on(s.first);
        for (int j = 0; j < THREADS; j++) up[j] = 6.0f;
        s.finish();
        expect(s.y_is(10.0f), "the source as it was when the copy was queued");
    }
}

static void read_too_early()
{
    two_streams s;
    float *down = pinned();
    s.set_on(s.first, 1.0f);
    copy_async(down, s.x.data, cudaMemcpyDeviceToHost, s.first);
    printf("%g\n", double(down[3]));
    s.finish();
}

static void pageable_copy()
{
    two_streams s;
    float down[THREADS];
    copy_async(down, s.x.data, cudaMemcpyDeviceToHost, s.first);
    s.finish();
}

static void freed_memory()
{
    two_streams s;
    s.set_on(s.first, 1.0f);
    EXPECT_CUDA(cudaFree(s.x.data));
    s.finish();
}

static void host_reads_device()
{
    two_streams s;
    printf("%g\n", double(s.x.data[3]));
}

static void uninitialised_memory()
{
    two_streams s;
    s.twice_on(s.first);
    s.finish();
    float got[THREADS];
    s.y.read(got);
    expect(got[7] != got[7], "new memory is NaN");
}

static void default_stream_launch()
{
    two_streams s;
    LAUNCH(set, dim3(1), THREADS, 0, NULL, s.x.data, 1.0f);
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
        expect(s.y_is(4.0f), "copied after the kernels");
        s.finish();
    }
}

static void stream_left_full()
{
    two_streams s;
    s.set_on(s.first, 1.0f);
    cudaStreamDestroy(s.first.stream);
}

static void sync_in_step()
{
    two_streams s;
    emulator_step_begin();
    s.set_on(s.first, 1.0f);
    s.finish();
}

static void full_stream_in_step()
{
    two_streams s;
    emulator_step_begin();
    for (int i = 0; i <= 1000; i++) s.set_on(s.first, 1.0f);
}

static bool always(void *) { return true; }
static bool told(void *data) { return *static_cast<bool *>(data); }

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

int main()
{
    static const test_case tests[] = {
        { "a missing __syncthreads", barrier_is_missing, "without a barrier between" },
        { "a missing __syncwarp", warp_is_not_synchronized, "without a barrier between" },
        { "shared memory overrun", shared_overrun, "heap-buffer-overflow" },
        { "a launch with less shared memory than the struct", shared_too_small,
          "512 bytes of shared memory, the launch gave 508" },
        { "device memory overrun", out_of_bounds, "heap-buffer-overflow" },
        { "a thread leaves before a barrier", leaves_before_barrier, "thread 77" },
        { "a shuffle that one lane does not reach", partial_shuffle, "but others wait at" },
        { "a shuffle with half a mask", mask_of_half, "mask 0000ffff" },
        { "a block larger than KERNEL says", block_beyond_bound, "blocks of 96 threads, it takes 64" },
        { "a grid of no blocks", grid_of_none, "a grid of 0 x 1 x 1" },
        { "a grid too high", grid_too_high, "a grid of 1 x 65536 x 1" },
        { "more than 227 KB of shared memory", shared_too_large, "needs 232452 bytes of shared memory for a thread" },
        { "more than 48 KB of shared memory, not asked for", shared_not_allowed,
          "50176 bytes of shared memory, allowed are 49152" },
        { "arguments beyond 4096 bytes", arguments_too_large, "bytes of arguments" },
        { "a pointer to the host among the arguments", host_argument,
          "in no live allocation that the device can reach" },
        { "a missing wait", wait_is_missing, "wrong: doubled after an event" },
        { "a wait means the record before it", wait_captures, NULL },
        { "the source of a copy is changed before it ran", source_is_changed, "wrong: the source as it was" },
        { "a copy's result is read before it is there", read_too_early, "use-after-poison" },
        { "an asynchronous copy to pageable memory", pageable_copy,
          "cudaMemcpyAsync: from device memory to pageable host memory" },
        { "freed memory is used by what was queued before", freed_memory, "heap-use-after-free" },
        { "the host reads device memory", host_reads_device, "use-after-poison" },
        { "memory starts as NaN", uninitialised_memory, NULL },
        { "a launch on the default stream", default_stream_launch, "the default stream is used" },
        { "a stream that waits for the default stream", blocking_stream, "would wait for the default stream" },
        { "a synchronous copy without a wait", copy_without_wait, "wrong: copied after the kernels" },
        { "a stream is destroyed with work in it", stream_left_full, "still queued" },
        { "the host waits within a step", sync_in_step,
          "cudaStreamSynchronize: the host waits for the device inside a step" },
        { "a full stream holds the host up within a step", full_stream_in_step,
          "a call onto a full stream: the host waits for the device inside a step" },
        { "a transfer holds multiprocessors until its end", residents, NULL },
    };
    return run_tests(tests, sizeof tests / sizeof *tests);
}
