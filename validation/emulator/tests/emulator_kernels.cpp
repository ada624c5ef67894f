/* Kernels with mistakes run in child processes, which must fail with the emulator's message. Correct kernels pass. */
#include "emulator_tests.h"
#include "machine/cuda/kernels/launch.cuh"

enum { THREADS = 128, VALUES = 1024 };

struct floats {
    float of[THREADS];
};

/* out [thread] of each block: the value that the thread at the other end of the block wrote to shared memory. */
template <bool barrier> static KERNEL(THREADS) reversed(const float *in, float *out)
{
    SHARED(floats, shared);
    unsigned i = threadIdx.x, base = blockIdx.x * THREADS;
    shared.of[i] = in[base + i];
    if (barrier) __syncthreads();
    out[base + i] = shared.of[THREADS - 1 - i];
}

/* Rotates by `distance` within each warp, `times` times. */
template <bool before, bool after> static KERNEL(THREADS) rotated(float *out, int distance, int times)
{
    SHARED(floats, shared);
    unsigned i = threadIdx.x, from = i / 32 * 32 + (i + unsigned(distance)) % 32;
    float x = float(i);
    for (int n = 0; n < times; n++) {
        shared.of[i] = x;
        if (before) __syncwarp();
        x = shared.of[from];
        if (after) __syncwarp();
    }
    out[i] = x;
}

static KERNEL(THREADS) overrun(float *out)
{
    SHARED(floats, shared);
    float *at = shared.of + threadIdx.x;
    if (threadIdx.x == THREADS - 1) at[1] = 1.0f;
    out[threadIdx.x] = *at;
}

/* Counts a block's threads in shared memory. */
template <bool atomic> static KERNEL(THREADS) counted(int *out)
{
    SHARED(int, count);
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    if (atomic) atomicAdd(&count, 1);
    else count++;
    __syncthreads();
    out[threadIdx.x] = count;
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

static KERNEL(THREADS) two_barriers(float *out)
{
    if (threadIdx.x < 32) __syncthreads();
    else {
        out[threadIdx.x] = 0.0f;
        __syncthreads();
    }
}

static KERNEL(THREADS) half_mask(float *out) { out[threadIdx.x] = __shfl_sync(0x0000FFFFu, 1.0f, 0); }

/* Checks every shuffle, vote and reduction against its known result. */
static KERNEL(THREADS) warp_calls(int *wrong)
{
    const unsigned all = 0xFFFFFFFFu;
    int lane = int(threadIdx.x % 32), bad = 0;
    bad += __shfl_sync(all, lane, 5) != 5;
    bad += __shfl_sync(all, lane, 35, 16) != (lane & 16) + 3;
    bad += __shfl_xor_sync(all, lane, 9) != (lane ^ 9);
    bad += __shfl_up_sync(all, lane, 3) != (lane < 3 ? lane : lane - 3);
    bad += __shfl_down_sync(all, lane, 3, 8) != (lane % 8 + 3 < 8 ? lane + 3 : lane);
    bad += __shfl_xor_sync(all, double(lane), 1) != double(lane ^ 1);
    bad += __ballot_sync(all, lane % 2) != 0xAAAAAAAAu;
    bad += !__any_sync(all, lane == 7) || __any_sync(all, lane == 32) || __all_sync(all, lane < 31) ||
           !__all_sync(all, lane < 32);
    bad += __reduce_add_sync(all, lane) != 496 || __reduce_max_sync(all, unsigned(lane)) != 31 ||
           __reduce_min_sync(all, -lane) != -31;
    __syncwarp();
    atomicAdd(wrong, bad);
}

static KERNEL(64) of_two_warps(float *out) { out[threadIdx.x] = 1.0f; }
struct large {
    char bytes[4100];
};
static KERNEL(THREADS) of_many_bytes(large, float *out) { out[threadIdx.x] = 1.0f; }

static float *run_reversed(bool barrier)
{
    static float out[VALUES];
    device_floats from(VALUES), to(VALUES);
    from.count_up();
    test_stream s;
    if (barrier) LAUNCH(reversed<true>, dim3(VALUES / THREADS), THREADS, sizeof(floats), s.stream, from.data, to.data);
    else LAUNCH(reversed<false>, dim3(VALUES / THREADS), THREADS, sizeof(floats), s.stream, from.data, to.data);
    s.finish();
    to.read(out);
    return out;
}

static bool is_reversed(const float *x)
{
    for (int i = 0; i < VALUES; i++)
        if (x[i] != float(i - i % THREADS + THREADS - 1 - i % THREADS)) return false;
    return true;
}

static void barrier_is_kept() { expect(is_reversed(run_reversed(true)), "reversed by shared memory"); }
static void barrier_is_missing() { expect(is_reversed(run_reversed(false)), "reversed by shared memory"); }

template <bool before, bool after> static void rotate()
{
    float got[THREADS];
    device_floats out(THREADS);
    test_stream s;
    LAUNCH((rotated<before, after>), dim3(1), THREADS, sizeof(floats), s.stream, out.data, 5, 3);
    s.finish();
    out.read(got);
    for (int i = 0; i < THREADS; i++) expect(got[i] == float(i / 32 * 32 + (i + 15) % 32), "rotated");
}

template <bool atomic> static void count_threads()
{
    device_floats out(THREADS);
    test_stream s;
    LAUNCH(counted<atomic>, dim3(3), THREADS, sizeof(int), s.stream, reinterpret_cast<int *>(out.data));
    s.finish();
    int got[THREADS];
    out.read(reinterpret_cast<float *>(got));
    expect(got[0] == THREADS, "all threads counted");
}

static void warp_calls_agree()
{
    device_floats wrong(1);
    test_stream s;
    cuda_check(cudaMemsetAsync(wrong.data, 0, 4, s.stream), "memset", __FILE__, __LINE__);
    LAUNCH(warp_calls, dim3(3, 2, 2), THREADS, 0, s.stream, reinterpret_cast<int *>(wrong.data));
    s.finish();
    int bad;
    wrong.read(reinterpret_cast<float *>(&bad));
    expect(bad == 0, "shuffles, votes, reductions");
}

/* Launches a kernel once on THREADS floats. */
#define ONE_LAUNCH(kernel, grid, block, shared)                                                                        \
    device_floats out(THREADS);                                                                                        \
    test_stream s;                                                                                                     \
    LAUNCH(kernel, grid, block, shared, s.stream, out.data);                                                           \
    s.finish()

static void shared_overrun() { ONE_LAUNCH(overrun, dim3(1), THREADS, sizeof(floats)); }
static void shared_too_small() { ONE_LAUNCH(overrun, dim3(1), THREADS, sizeof(floats) - 4); }
static void leaves_before_barrier() { ONE_LAUNCH(leaves, dim3(1), THREADS, 0); }
static void partial_shuffle() { ONE_LAUNCH(partial, dim3(1), THREADS, 0); }
static void different_barriers() { ONE_LAUNCH(two_barriers, dim3(1), THREADS, 0); }
static void mask_of_half() { ONE_LAUNCH(half_mask, dim3(1), THREADS, 0); }
static void block_beyond_bound() { ONE_LAUNCH(of_two_warps, dim3(1), 96, 0); }
static void block_of_odd_size() { ONE_LAUNCH(of_two_warps, dim3(1), 40, 0); }
static void grid_of_none() { ONE_LAUNCH(of_two_warps, dim3(0), 64, 0); }
static void grid_too_high() { ONE_LAUNCH(of_two_warps, dim3(1, 65536), 64, 0); }
static void shared_too_large() { ONE_LAUNCH(of_two_warps, dim3(1), 64, (227 << 10) + 4); }
static void healthy_launch() { ONE_LAUNCH(of_two_warps, dim3(1), 64, 227 << 10); }
static void out_of_bounds()
{
    device_floats out(THREADS - 1);
    test_stream s;
    LAUNCH(leaves, dim3(1), THREADS, 0, s.stream, out.data);
    s.finish();
}

static void shared_not_allowed()
{
    device_floats out(THREADS);
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

int main()
{
    static const test_case tests[] = {
        { "threads trade values through shared memory", barrier_is_kept, NULL },
        { "a missing __syncthreads", barrier_is_missing, "without a barrier between" },
        { "lanes trade values through shared memory", rotate<true, true>, NULL },
        { "a missing __syncwarp between write and read", rotate<false, true>, "without a barrier between" },
        { "a missing __syncwarp between read and write", rotate<true, false>, "without a barrier between" },
        { "a sum in shared memory by atomics", count_threads<true>, NULL },
        { "a sum in shared memory without", count_threads<false>, "without a barrier between" },
        { "shuffles, votes and reductions", warp_calls_agree, NULL },
        { "shared memory overrun", shared_overrun, "heap-buffer-overflow" },
        { "a launch with less shared memory than the struct", shared_too_small,
          "512 bytes of shared memory, the launch gave 508" },
        { "device memory overrun", out_of_bounds, "heap-buffer-overflow" },
        { "a thread leaves before a barrier", leaves_before_barrier, "thread 77" },
        { "a shuffle that one lane does not reach", partial_shuffle, "but others wait at" },
        { "threads at different barriers", different_barriers, "but others wait at __syncthreads" },
        { "a shuffle with half a mask", mask_of_half, "mask 0000ffff" },
        { "a block larger than KERNEL says", block_beyond_bound, "blocks of 96 threads, it takes 64" },
        { "a block of no whole warps", block_of_odd_size, "is not 32n x 1 x 1" },
        { "a grid of no blocks", grid_of_none, "a grid of 0 x 1 x 1" },
        { "a grid too high", grid_too_high, "a grid of 1 x 65536 x 1" },
        { "227 KB of shared memory", healthy_launch, NULL },
        { "more than 227 KB of shared memory", shared_too_large, "needs 232452 bytes of shared memory for a thread" },
        { "more than 48 KB of shared memory, not asked for", shared_not_allowed,
          "50176 bytes of shared memory, allowed are 49152" },
        { "arguments beyond 4096 bytes", arguments_too_large, "bytes of arguments" },
        { "a pointer to the host among the arguments", host_argument,
          "in no live allocation that the device can reach" },
    };
    return run_tests(tests, sizeof tests / sizeof *tests);
}
