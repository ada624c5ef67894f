/* Handles and descriptors of the emulated cuBLASLt. An attribute must be set with exactly its size. */
#include "cublaslt_inside.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cublasStatus_t cublaslt_refuse(cublasStatus_t status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("emulator: cuBLASLt: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    return status;
}

void *cublaslt_made(size_t bytes)
{
    void *p = calloc(1, bytes);
    if (!p) emulator_fail("no memory for a descriptor of cuBLASLt");
    return p;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = cublaslt_made(sizeof **handle);
    (*handle)->open = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_INTERNAL_ERROR";
    }
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "done" : "refused";
}
size_t cublasLtGetVersion(void) { return CUBLAS_VERSION; }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
    *layout = cublaslt_made(sizeof **layout);
    **layout = (struct cublaslt_layout){ type, rows, cols, ld, 0, CUBLASLT_ORDER_COL, 1 };
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

/* Copies the value of an attribute that has exactly this size. */
static cublasStatus_t take(void *to, size_t expected, const void *value, size_t bytes)
{
    if (!value || bytes != expected)
        return cublaslt_refuse(CUBLAS_STATUS_INVALID_VALUE, "an attribute of %zu bytes is set by %zu", expected, bytes);
    memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t x, cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE: return take(&x->type, sizeof x->type, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER: return take(&x->order, sizeof x->order, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS: return take(&x->rows, sizeof x->rows, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS: return take(&x->cols, sizeof x->cols, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD: return take(&x->ld, sizeof x->ld, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return take(&x->batch, sizeof x->batch, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return take(&x->apart, sizeof x->apart, value, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *descriptor, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    *descriptor = cublaslt_made(sizeof **descriptor);
    **descriptor =
        (struct cublaslt_descriptor){ .compute = compute, .scale = scale, .epilogue = CUBLASLT_EPILOGUE_DEFAULT };
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor)
{
    free(descriptor);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t x, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return take(&x->compute, sizeof x->compute, value, bytes);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE: return take(&x->scale, sizeof x->scale, value, bytes);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE: return take(&x->pointer_mode, sizeof x->pointer_mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA: return take(&x->trans[0], sizeof x->trans[0], value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return take(&x->trans[1], sizeof x->trans[1], value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return take(&x->epilogue, sizeof x->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return take(&x->bias, sizeof x->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
        return take(&x->multiprocessors, sizeof x->multiprocessors, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER: return take(&x->factor[0], sizeof x->factor[0], value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER: return take(&x->factor[1], sizeof x->factor[1], value, bytes);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM: return take(&x->fast, sizeof x->fast, value, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = cublaslt_made(sizeof **preference);
    **preference = (struct cublaslt_preference){ .reduction = CUBLASLT_REDUCTION_SCHEME_MASK,
                                                 .alignment = { 256, 256, 256, 256 } };
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t x,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes)
{
    uint32_t mode = 0;
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE: return take(&mode, sizeof mode, value, bytes);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return take(&x->workspace, sizeof x->workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return take(&x->reduction, sizeof x->reduction, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return take(&x->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], sizeof *x->alignment, value,
                    bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}
