/* cuBLASLt on the emulated device, with oneDNN's sgemm. It refuses what the library refuses on Hopper and prints the
 * reason on stderr; it fails if the library would access invalid memory. Products are column-major: d = alpha op(a)
 * op(b) + beta c. */
#include "base/fp8.h"
#include "cublaslt_inside.h"
#include <dnnl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Contents of the opaque words of an algorithm. promise: the alignments for which the heuristic proposed it. */
typedef struct {
    uint32_t id, reduction, splits, promise[4];
    uint32_t magic;
} algorithm;
enum { MAGIC = 0x17A16072, BROKEN = 404, PLAIN = 101, ALIGNED = 202, SPLIT = 303, PROPOSED = 4 };
enum { ALIGNED_WORKSPACE = 64 << 10, ALIGNED_BYTES = 16, FP8_MULTIPLE = 16, FACTOR_MULTIPLE = 16 };
_Static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm has eight words");

typedef struct {
    struct cublaslt_descriptor how;
    struct cublaslt_layout a, b, c, d;
    const void *A, *B, *C;
    void *D;
    float alpha, beta;
    algorithm by;
    char *workspace;
    size_t workspace_bytes;
} job;

static bool is_fp8(cudaDataType type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }
static size_t element_bytes(cudaDataType type) { return is_fp8(type) ? 1 : type == CUDA_R_16BF ? 2 : 4; }
static size_t span(const struct cublaslt_layout *x)
{
    return ((uint64_t)(x->batch - 1) * (uint64_t)x->apart + (x->cols - 1) * (uint64_t)x->ld + x->rows) *
           element_bytes(x->type);
}
static algorithm algorithm_of(const cublasLtMatmulAlgo_t *opaque)
{
    algorithm a;
    memcpy(&a, opaque->data, sizeof a);
    return a;
}

/* ---- What the library accepts on Hopper ---- */

static bool equal(const struct cublaslt_layout *x, const struct cublaslt_layout *y)
{
    return x->type == y->type && x->rows == y->rows && x->cols == y->cols && x->ld == y->ld && x->order == y->order &&
           x->batch == y->batch && x->apart == y->apart;
}

static cublasStatus_t check_layout(const struct cublaslt_layout *x, const char *name)
{
    if (x->rows == 0 || x->cols == 0 || x->rows > INT32_MAX || x->cols > INT32_MAX)
        return cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE, "%s has %lld rows and %lld columns", name,
                               (long long)x->rows, (long long)x->cols);
    if (x->order != CUBLASLT_ORDER_COL)
        return cublaslt_refuse(CUBLAS_STATUS_NOT_SUPPORTED, "%s is not in column order", name);
    if (x->ld < (int64_t)x->rows)
        return cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE, "%s has leading dimension %lld and %lld rows", name,
                               (long long)x->ld, (long long)x->rows);
    return CUBLAS_STATUS_SUCCESS;
}

/* At most one operand is E5M2. The library also writes FP16 and FP8; this is not emulated. */
static bool multiplies_fp8(const job *j)
{
    return is_fp8(j->a.type) && is_fp8(j->b.type) && (j->a.type == CUDA_R_8F_E4M3 || j->b.type == CUDA_R_8F_E4M3) &&
           (j->d.type == CUDA_R_16BF || j->d.type == CUDA_R_32F) && j->how.compute == CUBLAS_COMPUTE_32F;
}

static cublasStatus_t check_types(const job *j)
{
    bool f32 = j->a.type == CUDA_R_32F && j->b.type == CUDA_R_32F && j->d.type == CUDA_R_32F;
    bool bf16 =
        j->a.type == CUDA_R_16BF && j->b.type == CUDA_R_16BF && (j->d.type == CUDA_R_16BF || j->d.type == CUDA_R_32F);
    if (j->how.scale != CUDA_R_32F ||
        (j->how.compute != CUBLAS_COMPUTE_32F && j->how.compute != CUBLAS_COMPUTE_32F_PEDANTIC))
        return cublaslt_refuse(CUBLAS_STATUS_NOT_SUPPORTED, "compute type %d with scale type %d", (int)j->how.compute,
                               (int)j->how.scale);
    if (!f32 && !bf16 && !multiplies_fp8(j))
        return cublaslt_refuse(CUBLAS_STATUS_NOT_SUPPORTED, "formats %d times %d to %d", (int)j->a.type, (int)j->b.type,
                               (int)j->d.type);
    if (!equal(&j->c, &j->d)) return cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE, "c and d differ in layout");
    if (j->a.batch < 1 || j->a.batch != j->b.batch || j->a.batch != j->d.batch)
        return cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE, "batches of %d, %d and %d", j->a.batch, j->b.batch,
                               j->d.batch);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t check_shapes(const job *j)
{
    bool ta = j->how.trans[0] == CUBLAS_OP_T, tb = j->how.trans[1] == CUBLAS_OP_T;
    uint64_t m = ta ? j->a.cols : j->a.rows, k = ta ? j->a.rows : j->a.cols, n = tb ? j->b.rows : j->b.cols;
    if (m != j->d.rows || n != j->d.cols || k != (tb ? j->b.cols : j->b.rows))
        return cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE, "the shapes of a, b and d do not multiply");
    if (j->how.pointer_mode != CUBLASLT_POINTER_MODE_HOST)
        return cublaslt_refuse(CUBLAS_STATUS_NOT_SUPPORTED, "alpha and beta on the device");
    if (j->how.epilogue != CUBLASLT_EPILOGUE_DEFAULT && j->how.epilogue != CUBLASLT_EPILOGUE_BIAS)
        return cublaslt_refuse(CUBLAS_STATUS_NOT_SUPPORTED, "epilogue %d", j->how.epilogue);
    if (j->how.epilogue == CUBLASLT_EPILOGUE_BIAS && !j->how.bias)
        return cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE, "a bias without an address");
    if (j->how.multiprocessors < 0 || j->how.multiprocessors > emulator_multiprocessors())
        return cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE, "%d of %d multiprocessors", j->how.multiprocessors,
                               emulator_multiprocessors());
    return CUBLAS_STATUS_SUCCESS;
}

static bool in_packs(const struct cublaslt_layout *x)
{
    size_t bytes = element_bytes(x->type);
    return (size_t)x->ld * bytes % FP8_MULTIPLE == 0 && (size_t)x->apart * bytes % FP8_MULTIPLE == 0;
}

/* cuBLAS: cublasLtMatmul, "To use FP8 kernels". Operands with a scale factor must be FP8. */
static cublasStatus_t check_fp8(const job *j)
{
    if (!is_fp8(j->a.type))
        return j->how.factor[0] || j->how.factor[1]
                   ? cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE, "a scale of what is not FP8")
                   : CUBLAS_STATUS_SUCCESS;
    if (j->how.trans[0] != CUBLAS_OP_T || j->how.trans[1] != CUBLAS_OP_N)
        return cublaslt_refuse(CUBLAS_STATUS_NOT_SUPPORTED, "FP8 with a %stransposed and b %stransposed",
                               j->how.trans[0] == CUBLAS_OP_T ? "" : "not ",
                               j->how.trans[1] == CUBLAS_OP_N ? "not " : "");
    if (j->a.rows % FP8_MULTIPLE || j->a.cols % FP8_MULTIPLE)
        return cublaslt_refuse(CUBLAS_STATUS_NOT_SUPPORTED,
                               "FP8 with %lld terms and %lld rows of d: no multiples of 16", (long long)j->a.rows,
                               (long long)j->a.cols);
    if (!in_packs(&j->a) || !in_packs(&j->b) || !in_packs(&j->d))
        return cublaslt_refuse(CUBLAS_STATUS_NOT_SUPPORTED, "FP8 whose columns do not begin at multiples of 16 bytes");
    if (j->how.epilogue == CUBLASLT_EPILOGUE_BIAS && j->d.type == CUDA_R_32F)
        return cublaslt_refuse(CUBLAS_STATUS_NOT_SUPPORTED, "FP8 to FP32 with a bias, which would be BF16");
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t check(const job *j)
{
    cublasStatus_t status = check_layout(&j->a, "a");
    if (!status) status = check_layout(&j->b, "b");
    if (!status) status = check_layout(&j->d, "d");
    if (!status) status = check_types(j);
    if (!status) status = check_fp8(j);
    return status ? status : check_shapes(j);
}

static job described(cublasLtHandle_t handle, cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a,
                     cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d)
{
    if (!handle || !handle->open) emulator_fail("cuBLASLt is called without a handle");
    return (job){ .how = *how, .a = *a, .b = *b, .c = *c, .d = *d };
}

/* ---- Algorithms ---- */

static size_t workspace_of(const job *j, uint32_t id)
{
    size_t sums = (size_t)j->d.batch * j->d.rows * j->d.cols * sizeof(float) * 2;
    return id == SPLIT ? sums : id == ALIGNED ? ALIGNED_WORKSPACE : 0;
}

static bool lies_aligned(const struct cublaslt_layout *x)
{
    return (size_t)x->ld * element_bytes(x->type) % ALIGNED_BYTES == 0 &&
           (size_t)x->apart * element_bytes(x->type) % ALIGNED_BYTES == 0;
}

static bool can(const job *j, const algorithm *a)
{
    bool aligned = lies_aligned(&j->a) && lies_aligned(&j->b) && lies_aligned(&j->d);
    for (int i = 0; i < 4; i++) aligned = aligned && a->promise[i] >= ALIGNED_BYTES;
    bool fetches = true;
    for (int i = 0; i < 4; i++) fetches = fetches && (!is_fp8(j->a.type) || a->promise[i] >= FP8_MULTIPLE);
    return a->magic == MAGIC && fetches && (a->id == PLAIN || a->id == SPLIT || (a->id == ALIGNED && aligned));
}

/* The first proposal cannot run. Algorithms that split sums use the least exact of the allowed reductions. */
static int propose(const job *j, const struct cublaslt_preference *wish, algorithm list[PROPOSED])
{
    static const uint32_t least_exact[] = { CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, CUBLASLT_REDUCTION_SCHEME_INPLACE,
                                            CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE };
    algorithm all[PROPOSED] = { { .id = BROKEN, .splits = 1 },
                                { .id = ALIGNED, .splits = 1 },
                                { .id = SPLIT, .splits = 2 },
                                { .id = PLAIN, .splits = 1 } };
    int count = 0;
    for (int i = 2; i >= 0; i--)
        if (wish->reduction & least_exact[i]) all[2].reduction = least_exact[i];
    for (int i = 0; i < PROPOSED; i++) {
        algorithm *a = &all[i];
        a->magic = MAGIC;
        memcpy(a->promise, wish->alignment, sizeof a->promise);
        bool splits = a->id == SPLIT && !a->reduction;
        if (a->id == BROKEN || (can(j, a) && !splits && workspace_of(j, a->id) <= wish->workspace)) list[count++] = *a;
    }
    return count;
}

static void result_of(const job *j, const algorithm *a, cublasLtMatmulHeuristicResult_t *r)
{
    r->workspaceSize = workspace_of(j, a->id);
    r->state = CUBLAS_STATUS_SUCCESS;
    r->wavesCount = 1.0f;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t list[], int *returned)
{
    job j = described(handle, descriptor, a, b, c, d);
    algorithm proposed[PROPOSED];
    cublasStatus_t status = check(&j);
    if (status) return status;
    for (int i = 0; is_fp8(j.a.type) && i < 4; i++)
        if (preference->alignment[i] < FP8_MULTIPLE)
            return cublaslt_refuse(CUBLAS_STATUS_NOT_SUPPORTED, "FP8 aligned to %u bytes", preference->alignment[i]);
    if (requested <= 0) return cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE, "%d algorithms asked for", requested);
    int count = propose(&j, preference, proposed);
    *returned = count < requested ? count : requested;
    memset(list, 0, (size_t)*returned * sizeof *list);
    for (int i = 0; i < *returned; i++) {
        memcpy(list[i].algo.data, &proposed[i], sizeof proposed[i]);
        result_of(&j, &proposed[i], &list[i]);
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                       cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *given,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    job j = described(handle, descriptor, a, b, c, d);
    cublasStatus_t status = check(&j);
    algorithm by = algorithm_of(given);
    if (status) return status;
    if (!can(&j, &by)) return CUBLAS_STATUS_NOT_SUPPORTED;
    result_of(&j, &by, result);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *given,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void *value,
                                                    size_t bytes, size_t *written)
{
    algorithm by = algorithm_of(given);
    bool half = attribute == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID || attribute == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID;
    uint32_t word = attribute == CUBLASLT_ALGO_CONFIG_ID                 ? by.id
                    : attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM       ? by.splits
                    : attribute == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME ? by.reduction
                                                                         : 0;
    if (bytes != (half ? sizeof(uint16_t) : sizeof word))
        return cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE, "attribute %d asked for in %zu bytes", (int)attribute,
                               bytes);
    memset(value, 0, bytes);
    if (!half) memcpy(value, &word, bytes);
    *written = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- The product ---- */

static float value_at(const void *x, cudaDataType type, size_t i)
{
    if (is_fp8(type)) return fp8_widen(type == CUDA_R_8F_E4M3 ? E4M3 : E5M2, ((const uint8_t *)x)[i]);
    return type == CUDA_R_16BF ? bf16_widen(((const uint16_t *)x)[i]) : ((const float *)x)[i];
}

static int64_t terms_of(const job *j) { return (int64_t)(j->how.trans[0] == CUBLAS_OP_T ? j->a.rows : j->a.cols); }

/* Returns the matrix in FP32 without gaps. */
static float *widened(const void *x, const struct cublaslt_layout *l)
{
    float *wide = cublaslt_made(l->rows * l->cols * sizeof *wide);
    for (size_t column = 0; column < l->cols; column++)
        for (size_t row = 0; row < l->rows; row++)
            wide[column * l->rows + row] = value_at(x, l->type, column * (size_t)l->ld + row);
    return wide;
}

/* EMULATOR_WRONG_PRODUCTS="DEED LEAST": one algorithm returns wrong products of at least LEAST multiplications.
 * "zeros"; "piece": one tile is from the product before; "terms": 32 terms are omitted. */
static bool wrong_by(const job *j, const char *deed)
{
    const char *asked = getenv("EMULATOR_WRONG_PRODUCTS");
    char word[16];
    double least, many = (double)(j->a.rows * j->a.cols) * (double)(j->b.rows * j->b.cols) / (double)terms_of(j);
    return asked && sscanf(asked, "%15s %lf", word, &least) == 2 && j->by.id == ALIGNED && strcmp(word, deed) == 0 &&
           many >= least;
}

static void exchange_tile(const job *j, float *sum)
{
    static float before[16][16];
    for (size_t i = 0; i < 256 && i / 16 < j->d.cols && i % 16 < j->d.rows; i++) {
        float *x = &sum[i / 16 * j->d.rows + i % 16], old = before[i / 16][i % 16];
        before[i / 16][i % 16] = isfinite(*x) ? *x : 0.0f; /* trials use memory that was never written */
        *x = old;
    }
}

static void narrow(const job *j, const float *sum)
{
    for (size_t column = 0; column < j->d.cols; column++)
        for (size_t row = 0; row < j->d.rows; row++) {
            size_t at = column * (size_t)j->d.ld + row;
            float x = sum[column * j->d.rows + row];
            if (j->d.type == CUDA_R_16BF) ((uint16_t *)j->D)[at] = bf16_round(x);
            else ((float *)j->D)[at] = x;
        }
}

static void touch_ranges(const job *j)
{
    emulator_range(j->A, span(&j->a), "cublasLtMatmul: a");
    emulator_range(j->B, span(&j->b), "cublasLtMatmul: b");
    if (j->beta != 0.0f) emulator_range(j->C, span(&j->c), "cublasLtMatmul: c");
    emulator_range(j->D, span(&j->d), "cublasLtMatmul: d");
    if (j->how.epilogue == CUBLASLT_EPILOGUE_BIAS)
        emulator_range(j->how.bias, j->d.rows * element_bytes(j->d.type), "cublasLtMatmul: bias");
    for (int i = 0; i < 2; i++)
        if (j->how.factor[i]) emulator_range(j->how.factor[i], sizeof(float), "cublasLtMatmul: a scale");
    if (j->workspace_bytes) emulator_range(j->workspace, j->workspace_bytes, "cublasLtMatmul: workspace");
}

/* Adds the terms [from, to) to the sums. sgemm is row-major: d' = op(b)' op(a)'. */
static void add_terms(const job *j, const float *a, const float *b, float *sum, int64_t from, int64_t to, float beta)
{
    bool ta = j->how.trans[0] == CUBLAS_OP_T, tb = j->how.trans[1] == CUBLAS_OP_T;
    dnnl_dim_t lda = (dnnl_dim_t)j->a.rows, ldb = (dnnl_dim_t)j->b.rows, m = (dnnl_dim_t)j->d.rows,
               n = (dnnl_dim_t)j->d.cols;
    const float *a_from = a + from * (ta ? 1 : lda), *b_from = b + from * (tb ? ldb : 1);
    if (dnnl_sgemm(tb ? 'T' : 'N', ta ? 'T' : 'N', n, m, to - from, j->alpha, b_from, ldb, a_from, lda, beta, sum, m) !=
        dnnl_success)
        emulator_fail("oneDNN's sgemm fails");
}

static void round_to(cudaDataType type, float *sum, size_t n)
{
    for (size_t i = 0; type == CUDA_R_16BF && i < n; i++) sum[i] = bf16_widen(bf16_round(sum[i]));
}

/* Adds two parts if the algorithm splits sums; a part stored in d's format is rounded. Like most of Hopper's kernels,
 * one algorithm rounds the product before it adds c or a bias. */
static void run_one(const job *j)
{
    int64_t k = terms_of(j) - (wrong_by(j, "terms") ? 32 : 0), half = j->by.splits > 1 ? k / 2 : 0;
    size_t n = j->d.rows * j->d.cols;
    float *a = widened(j->A, &j->a), *b = widened(j->B, &j->b), *sum = cublaslt_made(n * sizeof *sum);
    float *c = j->beta != 0.0f ? widened(j->C, &j->c) : NULL;
    if (half > 0) add_terms(j, a, b, sum, 0, half, 0.0f);
    if (half > 0 && j->by.reduction != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) round_to(j->d.type, sum, n);
    add_terms(j, a, b, sum, half, k, half > 0 ? 1.0f : 0.0f);
    if (j->by.id == ALIGNED) round_to(j->d.type, sum, n);
    for (size_t i = 0; c && i < n; i++) sum[i] += j->beta * c[i];
    free(c);
    for (size_t i = 0; j->how.epilogue == CUBLASLT_EPILOGUE_BIAS && i < j->d.rows * j->d.cols; i++)
        sum[i] += value_at(j->how.bias, j->d.type, i % j->d.rows);
    if (wrong_by(j, "piece")) exchange_tile(j, sum);
    if (wrong_by(j, "zeros")) memset(sum, 0, j->d.rows * j->d.cols * sizeof *sum);
    narrow(j, sum);
    free(a);
    free(b);
    free(sum);
}

static size_t offset(const struct cublaslt_layout *l, int i) { return (size_t)(i * l->apart) * element_bytes(l->type); }

static void run(void *data)
{
    const job *j = data;
    touch_ranges(j);
    if (emulator_idle()) return;
    if (j->workspace_bytes) memset(j->workspace, 0xFF, workspace_of(j, j->by.id));
    for (int i = 0; i < j->d.batch; i++) {
        job one = *j;
        for (int side = 0; side < 2; side++) one.alpha *= j->how.factor[side] ? *j->how.factor[side] : 1.0f;
        one.A = (const char *)j->A + offset(&j->a, i), one.B = (const char *)j->B + offset(&j->b, i);
        one.C = (const char *)j->C + offset(&j->c, i), one.D = (char *)j->D + offset(&j->d, i);
        run_one(&one);
    }
}

static cublasStatus_t check_run(const job *j)
{
    const void *x[4] = { j->A, j->B, j->C, j->D };
    if (!can(j, &j->by))
        return cublaslt_refuse(CUBLAS_STATUS_NOT_SUPPORTED, "algorithm %u cannot make this product", j->by.id);
    if (j->workspace_bytes < workspace_of(j, j->by.id))
        return cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE, "%zu bytes of workspace, %zu needed", j->workspace_bytes,
                               workspace_of(j, j->by.id));
    if (j->workspace_bytes && (uintptr_t)j->workspace % 256)
        return cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE, "the workspace is not aligned to 256 bytes");
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)x[i] % j->by.promise[i])
            emulator_fail("cublasLtMatmul: matrix %c is not aligned to the %u bytes that the heuristic was promised",
                          "abcd"[i], j -> by.promise[i]);
    if (j->how.epilogue == CUBLASLT_EPILOGUE_BIAS && (uintptr_t)j->how.bias % j->by.promise[3])
        emulator_fail("cublasLtMatmul: the bias is not aligned to the %u bytes that the heuristic was promised for d",
                      j->by.promise[3]);
    if (j->D == j->A || j->D == j->B) emulator_fail("cublasLtMatmul: d is a or b");
    for (int i = 0; i < 2; i++)
        if ((uintptr_t)j->how.factor[i] % FACTOR_MULTIPLE)
            return cublaslt_refuse(CUBLAS_STATUS_NOT_SUPPORTED, "a scale that is not aligned to 16 bytes");
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor, const void *alpha,
                              const void *A, cublasLtMatrixLayout_t a, const void *B, cublasLtMatrixLayout_t b,
                              const void *beta, const void *C, cublasLtMatrixLayout_t c, void *D,
                              cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *given, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    job j = described(handle, descriptor, a, b, c, d), *queued;
    cublasStatus_t status = check(&j);
    if (status) return status;
    if (!given) emulator_fail("cublasLtMatmul without an algorithm: the library would search for one in every call");
    if (!alpha || !beta || !A || !B || !C || !D)
        return cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE, "a pointer is NULL");
    j.A = A, j.B = B, j.C = C, j.D = D;
    j.alpha = *(const float *)alpha, j.beta = *(const float *)beta;
    j.by = algorithm_of(given);
    j.workspace = workspace, j.workspace_bytes = workspace_bytes;
    status = check_run(&j);
    if (status) return status;
    touch_ranges(&j);
    queued = cublaslt_made(sizeof *queued);
    *queued = j;
    emulator_enqueue(stream, "cublasLtMatmul", run, queued, free);
    emulator_occupy(stream, j.how.multiprocessors ? j.how.multiprocessors : emulator_multiprocessors());
    return CUBLAS_STATUS_SUCCESS;
}
