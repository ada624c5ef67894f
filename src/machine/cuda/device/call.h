/* The arguments of a kernel's launcher, in C and C++. XGSW_EXTERN declares a C function in both languages. */
#pragma once
#include "machine/op/args.h"
#include "machine/op/tensor.h"
#include <cuda_runtime.h>

typedef struct {
    tensor x[OP_OPERANDS];    /* operands in the order of kernels.h; absent ones keep their place */
    bool update[OP_OPERANDS]; /* whether the operand is read and written, not only written */
    op_args args;
    const char *name; /* the operation's name, for messages */
    void *scratch;
    size_t scratch_bytes; /* 64-byte aligned */
    cudaStream_t stream;
} cuda_call;

/* Ends the run if a CUDA call failed. Prints rank, host, device, source line and CUDA's message. */
XGSW_EXTERN void cuda_check(cudaError_t code, const char *call, const char *file, int line);
#define CUDA_CHECK(call) cuda_check((call), #call, __FILE__, __LINE__)

/* Returns the bytes of shared memory that one thread block can use on this rank's GPU. */
XGSW_EXTERN size_t cuda_shared_memory(void);
/* Allows the kernel thread blocks with `bytes` of shared memory. Ends the run if the GPU has less. */
XGSW_EXTERN void cuda_allow_shared(const void *kernel, size_t bytes, const char *name);
