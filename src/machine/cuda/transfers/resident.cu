/* A thread block that occupies a multiprocessor as a transfer's kernel does, with the largest shared memory. */
#include "machine/cuda/kernels/ptx.cuh"
#include "machine/cuda/transfers/resident.h"

enum { THREADS = 512 };

static KERNEL(THREADS) reside(int *leave)
{
    if (threadIdx.x == 0) wait_for_host(leave);
    __syncthreads();
}

/* leave: a word in host memory that ends the block. */
static cudaStream_t stream;
static int *leave;

static void start_block()
{
    int device = 0, shared = 0;
    if (!stream) CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (!leave) CUDA_CHECK(cudaMallocHost(reinterpret_cast<void **>(&leave), sizeof *leave));
    CUDA_CHECK(cudaGetDevice(&device));
    CUDA_CHECK(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    *leave = 0;
    LAUNCH(reside, 1, THREADS, static_cast<size_t>(shared), stream, leave);
}

XGSW_EXTERN void cuda_occupy(bool start)
{
    if (start) {
        start_block();
        return;
    }
    *static_cast<volatile int *>(leave) = 1;
    CUDA_CHECK(cudaStreamSynchronize(stream));
}
