/* Shared by the two files of the emulated cuBLASLt: descriptors, and the refusal of calls. */
#pragma once
#include "emulator.h"
#include <cublasLt.h>

struct cublasLtContext {
    int open;
};
struct cublaslt_layout {
    cudaDataType type;
    uint64_t rows, cols;
    int64_t ld, apart; /* between the matrices of a batch */
    int32_t order, batch;
};
struct cublaslt_descriptor {
    cublasComputeType_t compute;
    cudaDataType scale;
    int32_t pointer_mode, trans[2], multiprocessors, epilogue;
    const void *bias;       /* [rows of d], of d's type, with CUBLASLT_EPILOGUE_BIAS */
    const float *factor[2]; /* on the device, for a and b in FP8; NULL: 1 */
    int8_t fast;            /* FP8 sums may keep fewer bits (not emulated) */
};
struct cublaslt_preference {
    uint64_t workspace;
    uint32_t reduction, alignment[4];
};

/* Prints the reason on stderr and returns status. */
__attribute__((format(printf, 2, 3))) cublasStatus_t cublaslt_refuse(cublasStatus_t status, const char *format, ...);
/* Returns zeroed memory, owned by the caller. */
void *cublaslt_made(size_t bytes);
