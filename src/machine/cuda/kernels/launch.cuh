/* Declaration and launch of kernels. The tests' emulator replaces this file. It relies on these rules: kernels are
 * launched by LAUNCH only; shared memory is one struct, obtained by SHARED; launch parameters depend on shapes only;
 * every thread of a block reaches every barrier; shuffles use the full mask. */
#pragma once
#include "machine/cuda/device/call.h"

enum { WARP = 32 };

/* KERNEL(256) name(arguments): a kernel with blocks of at most 256 threads. */
#define KERNEL(threads) __global__ void __launch_bounds__(threads)

/* Declares `name`, the block's shared memory, as one struct of that type. */
#define SHARED(type, name)                                                                                             \
    extern __shared__ __align__(128) unsigned char shared_memory[];                                                    \
    type &name = *reinterpret_cast<type *>(shared_memory)

template <typename... formal, typename... actual>
static void launch(const char *name, void (*kernel)(formal...), dim3 grid, int block, size_t shared,
                   cudaStream_t stream, actual... given)
{
    cuda_allow_shared(reinterpret_cast<const void *>(kernel), shared, name);
    kernel<<<grid, block, shared, stream>>>(given...);
    cuda_check(cudaGetLastError(), name, __FILE__, __LINE__);
}

/* LAUNCH(kernel, grid, threads, bytes of shared memory, stream, arguments...). Parenthesize kernels with template
 * commas: LAUNCH((kernel<a, b>), ...). */
#define LAUNCH(kernel, grid, block, shared, stream, ...)                                                               \
    launch(#kernel, kernel, grid, block, shared, stream, __VA_ARGS__)
