/* products/: matrix products by cuBLASLt, the choice of its algorithms, and the door to that library. */
#pragma once
#include "base/dtype.h"
#include "machine/cuda/device/libraries.h"
#include "machine/queue/kind.h"
#include <stdbool.h>
#include <stdint.h>

/* The door: a call that failed ends the run with place, the library's words and the product's shape (NULL: none). */
typedef struct product_key product_key;
void cublas_check(cublasStatus_t status, const product_key *key, const char *call, const char *file, int line);
#define CUBLAS_CHECK(key, call) cublas_check((call), (key), #call, __FILE__, __LINE__)

/* What an algorithm depends on: d[m, n] (+)= a[m, k] b[k, n] in the library's order, where columns are contiguous; a
 * transposed matrix has contiguous rows. groups: as many products, whose matrices lie `apart` elements from one
 * another. bias: a number for each row of d is added; then d is no better aligned than those. alignment: of the
 * address, in bytes. format: a dtype; FP8 codes are multiplied over their scales, and two matrices of E4M3 by fast
 * accumulation, whose sums keep fewer bits than FP32 has. Integers of one size, so that keys compare as bytes. */
enum { DESTINATION, LEFT, RIGHT, MATRICES, BIAS = MATRICES, LEFT_SCALE, RIGHT_SCALE, ADDRESSES };
enum { PRODUCT_ALIGNMENT = 16, WORKSPACE_ALIGNMENT = 256, PRODUCT_TEXT = 240, PRODUCT_NAME = 48 };
struct product_key {
    int64_t groups, m, n, k, apart[MATRICES], transposed[MATRICES], leading[MATRICES], alignment[MATRICES],
        format[MATRICES], update, bias;
};

/* Where the algorithm comes from: the library's first answer, or trials. */
typedef enum { ALGORITHM_NONE, ALGORITHM_FIRST, ALGORITHM_TRIED } algorithm_source;

typedef struct {
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace;
} candidate;

/* A product and how it is made. name: of the first operation that needed it. */
typedef struct {
    product_key key;
    char name[PRODUCT_NAME];
    bool wanted, ran;                /* noted since the last tuning; since a machine was last opened */
    cublasLtMatmulDesc_t descriptor; /* NULL: not built */
    cublasLtMatrixLayout_t layout[MATRICES];
    int multiprocessors_left;
    bool deterministic; /* the settings it was planned for */
    algorithm_source source;
    candidate chosen;
    double microseconds; /* of a trial; 0: not tried */
} product;

/* "bf16 d[4096, 8192] += bf16 a[4096, 512] b'[512, 8192], leading 4096 4096 8192, aligned 16 16 16"; returns text. */
const char *product_text(const product_key *key, char *text, size_t length);
double product_flops(const product_key *key);
bool product_is_fp8(const product_key *key);
/* Bytes from the first element of one of the matrices to the end of its last. */
size_t product_span(const product_key *key, int which);
/* Bytes of workspace that algorithms may take: a function of the shape. */
size_t product_workspace(const product_key *key);

/* Builds the descriptors of p->key; multiprocessors of the device beyond `left` are for the product. */
void product_open(product *p, int multiprocessors_left);
void product_close(product *p);
/* Builds them again if they were closed. */
void product_ready(product *p);

/* What the library proposes, best first, as far as it can run here; returns how many. */
enum { PRODUCT_CANDIDATES = 16 };
int product_candidates(const product *p, candidate list[PRODUCT_CANDIDATES]);
/* Queues it. x: addresses of the three matrices, the bias, if there is one, and the scales [FP8_FACTORS] of FP8 codes;
 * workspace: p's bytes, aligned to WORKSPACE_ALIGNMENT. */
cublasStatus_t product_run(const product *p, const candidate *c, void *const x[ADDRESSES], void *workspace,
                           cudaStream_t stream);

/* "id 66 tile 20 stages 36 ...": the algorithm's configuration; returns text. */
const char *algorithm_text(const cublasLtMatmulAlgo_t *algorithm, char *text, size_t length);
