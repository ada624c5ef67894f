/* products/: matrix products by cuBLASLt, and the choice of its algorithms. */
#pragma once
#include "base/dtype.h"
#include "machine/cuda/device/libraries.h"
#include "machine/queue/kind.h"
#include <stdbool.h>
#include <stdint.h>

/* Ends the run if the call failed. Prints its place, cuBLASLt's message and the product's shape (key may be NULL). */
typedef struct product_key product_key;
void cublas_check(cublasStatus_t status, const product_key *key, const char *call, const char *file, int line);
#define CUBLAS_CHECK(key, call) cublas_check((call), (key), #call, __FILE__, __LINE__)

/* What the choice of an algorithm depends on: d[m, n] (+)= a[m, k] b[k, n] in column-major order. A transposed matrix
 * has contiguous rows. groups: number of products. group_stride: elements between their matrices. alignment: of
 * addresses, in bytes. bias: one number for each row of d is added; alignment[DESTINATION] then covers it, too. format:
 * a dtype. FP8 values are divided by their scales. Two E4M3 matrices use fast accumulation, which keeps fewer bits than
 * FP32. All members are integers of one size, so that keys compare as bytes. */
enum { DESTINATION, LEFT, RIGHT, MATRICES, BIAS = MATRICES, LEFT_SCALE, RIGHT_SCALE, ADDRESSES };
enum { PRODUCT_ALIGNMENT = 16, WORKSPACE_ALIGNMENT = 256, PRODUCT_TEXT = 240, PRODUCT_NAME = 48 };
struct product_key {
    int64_t groups, m, n, k, group_stride[MATRICES], transposed[MATRICES], leading[MATRICES], alignment[MATRICES],
        format[MATRICES], update, bias;
};

/* The origin of the algorithm: cuBLASLt's first proposal, or trials. */
typedef enum { ALGORITHM_NONE, ALGORITHM_FIRST, ALGORITHM_TRIED } algorithm_source;

typedef struct {
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace;
} candidate;

/* A product and its algorithm. name: the first operation that needed it. */
typedef struct {
    product_key key;
    char name[PRODUCT_NAME];
    bool wanted, ran;                /* noted since the last tuning; ran since a machine was last opened */
    cublasLtMatmulDesc_t descriptor; /* NULL: closed */
    cublasLtMatrixLayout_t layout[MATRICES];
    int multiprocessors_left;
    bool deterministic; /* a setting for which it was planned, like multiprocessors_left */
    algorithm_source source;
    candidate chosen;
    double microseconds; /* in a trial; 0: not tried */
} product;

/* Writes "bf16 d[4096, 8192] += bf16 a[4096, 512] b'[512, 8192], leading 4096 4096 8192, aligned 16 16 16". */
const char *product_text(const product_key *key, char *text, size_t length);
double product_flops(const product_key *key);
bool product_is_fp8(const product_key *key);
/* Returns the bytes from the first element of one of the matrices to the end of its last element. */
size_t product_span(const product_key *key, int which);
/* Returns the bytes of workspace that algorithms may use, from the shape alone. */
size_t product_workspace(const product_key *key);

/* Creates the descriptors of p->key. multiprocessors_left: those that the product leaves to transfers. */
void product_open(product *p, int multiprocessors_left);
void product_close(product *p);
/* Creates the descriptors if they are closed. */
void product_ready(product *p);

/* Lists cuBLASLt's proposals that can run here, the best first. Returns their number, at most PRODUCT_CANDIDATES. */
enum { PRODUCT_CANDIDATES = 16 };
int product_candidates(const product *p, candidate list[PRODUCT_CANDIDATES]);
/* Queues the product. x: addresses of the three matrices, the bias if there is one, and the FP8 scales [FP8_FACTORS].
 * workspace: c->workspace bytes, aligned to WORKSPACE_ALIGNMENT. */
cublasStatus_t product_run(const product *p, const candidate *c, void *const x[ADDRESSES], void *workspace,
                           cudaStream_t stream);

/* Writes the algorithm's configuration: "id 66 tile 20 stages 36 ...". Returns text. */
const char *algorithm_text(const cublasLtMatmulAlgo_t *algorithm, char *text, size_t length);
