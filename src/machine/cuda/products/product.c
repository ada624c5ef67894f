/* Calls of cuBLASLt: descriptors, candidates and launches of one product. The handle is process state. Sums are FP32
 * (see product.h for FP8): no algorithm may add partial sums in the output's format. An algorithm may round the product
 * before it adds C or a bias (machine/op/limits.c). A bias is the only epilogue that the models can use. */
#include "machine/cuda/products/product.h"
#include "base/fail.h"
#include "machine/cuda/device/device.h"
#include "machine/op/args.h"
#include <stdio.h>

enum { LARGEST_WORKSPACE = 32 << 20, SMALLEST_WORKSPACE = 64 << 10, SPLITS = 32 };

static cublasLtHandle_t handle(void)
{
    static cublasLtHandle_t opened;
    if (!opened) CUBLAS_CHECK(NULL, cublasLtCreate(&opened));
    return opened;
}

void cublas_check(cublasStatus_t status, const product_key *key, const char *call, const char *file, int line)
{
    char text[PRODUCT_TEXT] = "";
    if (status == CUBLAS_STATUS_SUCCESS) return;
    if (key) product_text(key, text, sizeof text);
    fail_at(file, line, STATUS_FAILED, "%s: %s returns %s (%s)", key ? text : "cuBLASLt", call,
            cublasLtGetStatusName(status), cublasLtGetStatusString(status));
}

static const char *transpose_mark(const product_key *key, int which) { return key->transposed[which] ? "'" : ""; }

static dtype format_of(const product_key *key, int which) { return (dtype)key->format[which]; }
static bool is_fp8(dtype type) { return type == E4M3 || type == E5M2; }
bool product_is_fp8(const product_key *key) { return is_fp8(format_of(key, LEFT)); }

/* Writes the number of groups and the distances of their matrices. Returns "" for one group. */
static const char *groups_text(const product_key *key, char *text, size_t length)
{
    const int64_t *by = key->group_stride;
    snprintf(text, length, ", %lld apart %lld %lld %lld", (long long)key->groups, (long long)by[DESTINATION],
             (long long)by[LEFT], (long long)by[RIGHT]);
    return key->groups > 1 ? text : "";
}

const char *product_text(const product_key *key, char *text, size_t length)
{
    char groups[96], right[8] = "";
    const int64_t *ld = key->leading, *by = key->alignment;
    if (key->format[LEFT] != key->format[RIGHT])
        snprintf(right, sizeof right, "%s ", dtype_name(format_of(key, RIGHT)));
    snprintf(text, length,
             "%s d[%lld, %lld] %s %s a%s[%lld, %lld] %sb%s[%lld, %lld]%s, leading %lld %lld %lld, aligned %d %d %d%s",
             dtype_name(format_of(key, DESTINATION)), (long long)key->m, (long long)key->n, key->update ? "+=" : "=",
             dtype_name(format_of(key, LEFT)), transpose_mark(key, LEFT), (long long)key->m, (long long)key->k, right,
             transpose_mark(key, RIGHT), (long long)key->k, (long long)key->n, key->bias ? " + bias" : "",
             (long long)ld[DESTINATION], (long long)ld[LEFT], (long long)ld[RIGHT], (int)by[DESTINATION], (int)by[LEFT],
             (int)by[RIGHT], groups_text(key, groups, sizeof groups));
    return text;
}

double product_flops(const product_key *key)
{
    return 2.0 * (double)key->groups * (double)key->m * (double)key->n * (double)key->k;
}

/* Returns the number of rows and columns as they lie in memory, with contiguous columns. */
static void extent(const product_key *key, int which, int64_t *rows, int64_t *columns)
{
    int64_t of[2] = { which == RIGHT ? key->k : key->m, which == LEFT ? key->k : key->n };
    *rows = of[key->transposed[which] != 0];
    *columns = of[key->transposed[which] == 0];
}

size_t product_span(const product_key *key, int which)
{
    int64_t rows, columns;
    extent(key, which, &rows, &columns);
    return (size_t)((key->groups - 1) * key->group_stride[which] + (columns - 1) * key->leading[which] + rows) *
           dtype_bytes(format_of(key, which));
}

/* Memory for SPLITS partial sums, within limits. NVIDIA recommends the upper limit for Hopper. */
size_t product_workspace(const product_key *key)
{
    double bytes = (double)key->m * (double)key->n * sizeof(float) * SPLITS;
    return bytes > LARGEST_WORKSPACE    ? LARGEST_WORKSPACE
           : bytes < SMALLEST_WORKSPACE ? SMALLEST_WORKSPACE
                                        : (size_t)bytes;
}

static void describe(product *p, cublasLtMatmulDescAttributes_t attribute, int32_t value)
{
    CUBLAS_CHECK(&p->key, cublasLtMatmulDescSetAttribute(p->descriptor, attribute, &value, sizeof value));
}

static void describe_address(const product *p, cublasLtMatmulDescAttributes_t attribute, const void *address)
{
    CUBLAS_CHECK(&p->key, cublasLtMatmulDescSetAttribute(p->descriptor, attribute, &address, sizeof address));
}

/* The library multiplies FP8 values by their inverse scales. */
static void describe_scales(const product *p, const void *left, const void *right)
{
    describe_address(p, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, (const float *)left + FP8_INVERSE);
    describe_address(p, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, (const float *)right + FP8_INVERSE);
}

/* The heuristic needs a valid address, although nothing is read there. */
static const void *const no_address = (const void *)WORKSPACE_ALIGNMENT;

static void open_bias(product *p)
{
    describe(p, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    describe_address(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, no_address);
}

static void open_fp8(product *p)
{
    int8_t fast = format_of(&p->key, LEFT) == E4M3 && format_of(&p->key, RIGHT) == E4M3;
    CUBLAS_CHECK(&p->key,
                 cublasLtMatmulDescSetAttribute(p->descriptor, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast));
    describe_scales(p, no_address, no_address);
}

static void group_layout(product *p, int which)
{
    int32_t count = (int32_t)p->key.groups;
    CUBLAS_CHECK(&p->key, cublasLtMatrixLayoutSetAttribute(p->layout[which], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                           sizeof count));
    CUBLAS_CHECK(&p->key,
                 cublasLtMatrixLayoutSetAttribute(p->layout[which], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                  &p->key.group_stride[which], sizeof p->key.group_stride[which]));
}

static void open_layout(product *p, int which)
{
    static const cudaDataType formats[DTYPES] = {
        [F32] = CUDA_R_32F, [BF16] = CUDA_R_16BF, [E4M3] = CUDA_R_8F_E4M3, [E5M2] = CUDA_R_8F_E5M2
    };
    int64_t rows, columns;
    extent(&p->key, which, &rows, &columns);
    CUBLAS_CHECK(&p->key, cublasLtMatrixLayoutCreate(&p->layout[which], formats[format_of(&p->key, which)],
                                                     (uint64_t)rows, (uint64_t)columns, p->key.leading[which]));
    if (p->key.groups > 1) group_layout(p, which);
}

void product_open(product *p, int multiprocessors_left)
{
    int multiprocessors = cuda_multiprocessors();
    CUBLAS_CHECK(&p->key, cublasLtMatmulDescCreate(&p->descriptor, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    describe(p, CUBLASLT_MATMUL_DESC_TRANSA, p->key.transposed[LEFT] ? CUBLAS_OP_T : CUBLAS_OP_N);
    describe(p, CUBLASLT_MATMUL_DESC_TRANSB, p->key.transposed[RIGHT] ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (p->key.bias) open_bias(p);
    if (product_is_fp8(&p->key)) open_fp8(p);
    if (multiprocessors_left > 0 && multiprocessors_left < multiprocessors)
        describe(p, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, multiprocessors - multiprocessors_left);
    for (int i = 0; i < MATRICES; i++) open_layout(p, i);
    p->multiprocessors_left = multiprocessors_left;
}

void product_close(product *p)
{
    if (!p->descriptor) return;
    CUBLAS_CHECK(&p->key, cublasLtMatmulDescDestroy(p->descriptor));
    for (int i = 0; i < MATRICES; i++) CUBLAS_CHECK(&p->key, cublasLtMatrixLayoutDestroy(p->layout[i]));
    p->descriptor = NULL;
}

void product_ready(product *p)
{
    if (!p->descriptor) product_open(p, p->multiprocessors_left);
}

/* Returns the attribute's value, or 0 if the algorithm does not have it. */
static uint32_t configured(const cublasLtMatmulAlgo_t *algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute,
                           size_t bytes)
{
    uint16_t half = 0;
    uint32_t word = 0;
    size_t written;
    cublasStatus_t status = bytes == sizeof half
                                ? cublasLtMatmulAlgoConfigGetAttribute(algorithm, attribute, &half, bytes, &written)
                                : cublasLtMatmulAlgoConfigGetAttribute(algorithm, attribute, &word, bytes, &written);
    return status != CUBLAS_STATUS_SUCCESS ? 0 : bytes == sizeof half ? half : word;
}

const char *algorithm_text(const cublasLtMatmulAlgo_t *algorithm, char *text, size_t length)
{
    static const struct {
        cublasLtMatmulAlgoConfigAttributes_t attribute;
        const char *name;
        size_t bytes;
    } rows[] = {
        { CUBLASLT_ALGO_CONFIG_ID, "id", 4 },
        { CUBLASLT_ALGO_CONFIG_TILE_ID, "tile", 4 },
        { CUBLASLT_ALGO_CONFIG_STAGES_ID, "stages", 4 },
        { CUBLASLT_ALGO_CONFIG_SPLITK_NUM, "splits", 4 },
        { CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, "reduction", 4 },
        { CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, "swizzling", 4 },
        { CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, "custom", 4 },
        { CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, "inner", 2 },
        { CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, "cluster", 2 },
    };
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof rows / sizeof *rows && used < length; i++)
        used += (size_t)snprintf(text + used, length - used, "%s%s %u", i ? " " : "", rows[i].name,
                                 configured(algorithm, rows[i].attribute, rows[i].bytes));
    return text;
}

static void prefer(cublasLtMatmulPreference_t limits, const product *p, cublasLtMatmulPreferenceAttributes_t attribute,
                   const void *value, size_t bytes)
{
    CUBLAS_CHECK(&p->key, cublasLtMatmulPreferenceSetAttribute(limits, attribute, value, bytes));
}

static void prefer_aligned(cublasLtMatmulPreference_t limits, const product *p,
                           cublasLtMatmulPreferenceAttributes_t attribute, int which)
{
    uint32_t bytes = (uint32_t)p->key.alignment[which];
    prefer(limits, p, attribute, &bytes, sizeof bytes);
}

static cublasLtMatmulPreference_t preference(const product *p)
{
    cublasLtMatmulPreference_t limits;
    uint64_t workspace = product_workspace(&p->key);
    uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    CUBLAS_CHECK(&p->key, cublasLtMatmulPreferenceCreate(&limits));
    prefer(limits, p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    prefer(limits, p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, sizeof reduction);
    prefer_aligned(limits, p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, LEFT);
    prefer_aligned(limits, p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, RIGHT);
    prefer_aligned(limits, p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, DESTINATION);
    prefer_aligned(limits, p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, DESTINATION);
    return limits;
}

/* Returns whether the algorithm needs no more than the workspace and adds in FP32. */
static bool is_within_limits(const product *p, const candidate *c)
{
    uint32_t reduction = configured(&c->algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, sizeof reduction);
    return c->workspace <= product_workspace(&p->key) &&
           (reduction == CUBLASLT_REDUCTION_SCHEME_NONE || reduction == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
}

/* Returns whether the algorithm can compute this product here, within limits. Sets its workspace. */
static bool accepts(const product *p, candidate *c)
{
    const cublasLtMatrixLayout_t *x = p->layout;
    cublasLtMatmulHeuristicResult_t result = { .state = CUBLAS_STATUS_SUCCESS };
    cublasStatus_t status = cublasLtMatmulAlgoCheck(handle(), p->descriptor, x[LEFT], x[RIGHT], x[DESTINATION],
                                                    x[DESTINATION], &c->algorithm, &result);
    c->workspace = result.workspaceSize;
    return status == CUBLAS_STATUS_SUCCESS && result.state == CUBLAS_STATUS_SUCCESS && is_within_limits(p, c);
}

int product_candidates(const product *p, candidate list[PRODUCT_CANDIDATES])
{
    cublasLtMatmulHeuristicResult_t result[PRODUCT_CANDIDATES];
    const cublasLtMatrixLayout_t *x = p->layout;
    cublasLtMatmulPreference_t limits = preference(p);
    int found = 0, kept = 0;
    CUBLAS_CHECK(&p->key, cublasLtMatmulAlgoGetHeuristic(handle(), p->descriptor, x[LEFT], x[RIGHT], x[DESTINATION],
                                                         x[DESTINATION], limits, PRODUCT_CANDIDATES, result, &found));
    CUBLAS_CHECK(&p->key, cublasLtMatmulPreferenceDestroy(limits));
    for (int i = 0; i < found; i++) {
        list[kept].algorithm = result[i].algo;
        kept += result[i].state == CUBLAS_STATUS_SUCCESS && accepts(p, &list[kept]);
    }
    for (int i = 0; i < found && kept == 0; i++) { /* takes the heuristic's word if the check refuses all */
        list[0] = (candidate){ result[i].algo, result[i].workspaceSize };
        kept = result[i].state == CUBLAS_STATUS_SUCCESS && is_within_limits(p, &list[0]);
    }
    return kept;
}

cublasStatus_t product_run(const product *p, const candidate *c, void *const x[ADDRESSES], void *workspace,
                           cudaStream_t stream)
{
    float one = 1.0f, added = p->key.update ? 1.0f : 0.0f;
    if (p->key.bias) describe_address(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, x[BIAS]);
    if (product_is_fp8(&p->key)) describe_scales(p, x[LEFT_SCALE], x[RIGHT_SCALE]);
    return cublasLtMatmul(handle(), p->descriptor, &one, x[LEFT], p->layout[LEFT], x[RIGHT], p->layout[RIGHT], &added,
                          x[DESTINATION], p->layout[DESTINATION], x[DESTINATION], p->layout[DESTINATION], &c->algorithm,
                          workspace, c->workspace, stream);
}
