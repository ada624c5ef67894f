/* Device memory is allocated once per case and never grows. */
#include "machine/cuda/device/memory.h"
#include "base/fail.h"
#include "base/memory.h"
#include "machine/cuda/device/call.h"
#include "machine/cuda/device/device.h"
#include <string.h>

enum { STAGING_BYTES = 8 << 20 };
static const double GIB = 1073741824.0;

struct staging {
    cudaStream_t stream;
    void *pinned;
};

void *cuda_memory_take(size_t bytes)
{
    void *memory = NULL;
    cuda_device_use();
    cudaError_t code = cudaMalloc(&memory, bytes);
    if (code == cudaErrorMemoryAllocation) {
        machine_device d = cuda_device_read();
        FAIL("the case's arena needs %.2f GiB on %s, but only %.2f of its %.2f GiB are free", (double)bytes / GIB,
             d.name, d.free_bytes / GIB, d.memory_bytes / GIB);
    }
    CUDA_CHECK(code);
    return memory;
}

void cuda_memory_give_back(void *memory) { CUDA_CHECK(cudaFree(memory)); }

void cuda_memory_clear(void *memory, int byte, size_t bytes)
{
    cudaStream_t stream;
    cuda_device_use();
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (bytes) CUDA_CHECK(cudaMemsetAsync(memory, byte, bytes, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaStreamDestroy(stream));
}

staging *staging_open(void)
{
    staging *s = allocate(1, sizeof *s, "staging");
    CUDA_CHECK(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaMallocHost(&s->pinned, STAGING_BYTES));
    return s;
}

void staging_close(staging *s)
{
    CUDA_CHECK(cudaFreeHost(s->pinned));
    CUDA_CHECK(cudaStreamDestroy(s->stream));
    free(s);
}

static size_t piece_of(size_t left) { return left < STAGING_BYTES ? left : STAGING_BYTES; }

void staging_upload(staging *s, void *to, const void *from, size_t bytes)
{
    for (size_t done = 0; done < bytes; done += piece_of(bytes - done)) {
        size_t piece = piece_of(bytes - done);
        memcpy(s->pinned, (const char *)from + done, piece);
        CUDA_CHECK(cudaMemcpyAsync((char *)to + done, s->pinned, piece, cudaMemcpyHostToDevice, s->stream));
        CUDA_CHECK(cudaStreamSynchronize(s->stream));
    }
}

void staging_download(staging *s, void *to, const void *from, size_t bytes)
{
    for (size_t done = 0; done < bytes; done += piece_of(bytes - done)) {
        size_t piece = piece_of(bytes - done);
        CUDA_CHECK(cudaMemcpyAsync(s->pinned, (const char *)from + done, piece, cudaMemcpyDeviceToHost, s->stream));
        CUDA_CHECK(cudaStreamSynchronize(s->stream));
        memcpy((char *)to + done, s->pinned, piece);
    }
}
