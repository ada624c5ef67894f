/* An operation as a kernel's launcher takes it, in C and C++ (XGSW_EXTERN is how each spells a function of C). */
#pragma once
#include "machine/op/args.h"
#include "machine/op/tensor.h"
#include <cuda_runtime.h>

typedef struct {
    tensor x[OP_OPERANDS];    /* operands in the order in which kernels.h names them; absent ones keep their place */
    bool update[OP_OPERANDS]; /* is it read and written, not only written? */
    op_args args;
    const char *name; /* who asks, for messages */
    void *scratch;
    size_t scratch_bytes; /* of the queue; 64-byte aligned */
    cudaStream_t stream;
} cuda_call;

/* The door: a call that failed ends the run with rank, host, device, place and the library's words. */
XGSW_EXTERN void cuda_check(cudaError_t code, const char *call, const char *file, int line);
#define CUDA_CHECK(call) cuda_check((call), #call, __FILE__, __LINE__)

/* Returns how many bytes of shared memory a thread block can have on this rank's GPU. */
XGSW_EXTERN size_t cuda_shared_memory(void);
/* Allows the kernel of that name blocks with so many bytes of shared memory. Ends the run where the GPU has less. */
XGSW_EXTERN void cuda_allow_shared(const void *kernel, size_t bytes, const char *name);
