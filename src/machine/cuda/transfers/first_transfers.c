/* Transfers before the first step. Their stream and memory are process state. */
#include "machine/cuda/transfers/first_transfers.h"
#include "base/clock.h"
#include "machine/cuda/device/call.h"
#include "machine/op/activity.h"
#include <string.h>

static struct {
    cudaStream_t stream;
    char *device;  /* [FIRST_NUMBERS] int32_t, or a byte to send and one from each rank */
    int32_t *host; /* pinned: [FIRST_NUMBERS] to send, then as many received */
} first;

static void open_stream(void)
{
    size_t numbers = FIRST_NUMBERS * sizeof *first.host, bytes = numbers + 1 + (size_t)world_ranks();
    if (first.stream) return;
    CUDA_CHECK(cudaStreamCreateWithFlags(&first.stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaMalloc((void **)&first.device, bytes));
    CUDA_CHECK(cudaMemsetAsync(first.device, 0, bytes, first.stream));
    CUDA_CHECK(cudaMallocHost((void **)&first.host, 2 * numbers));
}

static void finish(const cuda_communicator *c, void (*check)(void))
{
    activity e = { .kind = "first transfer", .step = -1, .microbatch = -1, .layer = -1, .since = clock_seconds() };
    activity_text(e.name, sizeof e.name, c->name);
    activity_wait(&e);
    for (cudaError_t state; (state = cudaStreamQuery(first.stream)) != cudaSuccess;) {
        if (state != cudaErrorNotReady) CUDA_CHECK(state);
        cudaGetLastError(); /* clears the error, or the next launch would seem to have failed */
        check();
        activity_yield();
    }
    activity_wait_end();
    activity_progress();
}

void first_exchange(const cuda_communicator *c, void (*check)(void))
{
    open_stream();
    char *sent = first.device, *received = first.device + 1;
    NCCL(c->name, ncclGroupStart());
    for (int i = 1; i < c->ranks; i++) {
        int next = (c->rank + i) % c->ranks, previous = (c->rank + c->ranks - i) % c->ranks;
        NCCL(c->name, ncclSend(sent, 1, ncclUint8, next, c->comm, first.stream));
        NCCL(c->name, ncclRecv(received + previous, 1, ncclUint8, previous, c->comm, first.stream));
    }
    NCCL(c->name, ncclGroupEnd());
    finish(c, check);
}

double first_gather(const cuda_communicator *c, void *memory, size_t part, void (*check)(void))
{
    char *whole = memory, *own = whole + part * (size_t)c->rank;
    double began = 0.0;
    open_stream();
    for (int i = 0; i < 2; i++) {
        began = clock_seconds();
        NCCL(c->name, ncclAllGather(own, whole, part, ncclUint8, c->comm, first.stream));
        finish(c, check);
    }
    return clock_seconds() - began;
}

void first_maximum(const cuda_communicator *c, int32_t *x, int n, void (*check)(void))
{
    size_t bytes = (size_t)n * sizeof *x;
    open_stream();
    int32_t *received = first.host + FIRST_NUMBERS;
    memcpy(first.host, x, bytes);
    CUDA_CHECK(cudaMemcpyAsync(first.device, first.host, bytes, cudaMemcpyHostToDevice, first.stream));
    NCCL(c->name, ncclAllReduce(first.device, first.device, (size_t)n, ncclInt32, ncclMax, c->comm, first.stream));
    CUDA_CHECK(cudaMemcpyAsync(received, first.device, bytes, cudaMemcpyDeviceToHost, first.stream));
    finish(c, check);
    memcpy(x, received, bytes);
}
