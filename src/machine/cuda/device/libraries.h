/* cuBLASLt and NCCL. Each is loaded when a rank first needs it: a run on the host needs neither. After cublaslt_load or
 * nccl_load, call their functions by their usual names. */
#pragma once
#include <cublasLt.h>
#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>

/* Loads the library if it is not loaded yet. Returns false and writes why if the library or a function is missing. */
bool cublaslt_load(char *why, size_t length);
bool nccl_load(char *why, size_t length);
/* Returns the version of NCCL (22809 is 2.28.9), or 0 if it cannot be loaded. */
int nccl_version(void);
/* Writes "2.28.9" for 22809, the number format of cuBLASLt and NCCL. Returns text. */
enum { VERSION_TEXT = 16 };
const char *library_version_text(int version, char text[VERSION_TEXT]);
/* Returns whether NCCL is loaded and can gather by copy engines (2.28.3). Then nccl_windows can be called. */
bool nccl_windows_load(void);

/* clang-format off */
#define CUBLASLT_FUNCTIONS(F) \
    F(cublasLtCreate) F(cublasLtDestroy) F(cublasLtGetVersion) F(cublasLtGetStatusName) \
    F(cublasLtGetStatusString) F(cublasLtMatmul) F(cublasLtMatmulAlgoGetHeuristic) F(cublasLtMatmulAlgoCheck) \
    F(cublasLtMatmulAlgoConfigGetAttribute) F(cublasLtMatmulDescCreate) F(cublasLtMatmulDescDestroy) \
    F(cublasLtMatmulDescSetAttribute) F(cublasLtMatrixLayoutCreate) F(cublasLtMatrixLayoutDestroy) \
    F(cublasLtMatrixLayoutSetAttribute)                                                                                \
    F(cublasLtMatmulPreferenceCreate) F(cublasLtMatmulPreferenceDestroy) F(cublasLtMatmulPreferenceSetAttribute)
#define NCCL_FUNCTIONS(F) \
    F(ncclGetVersion) F(ncclGetUniqueId) F(ncclGetErrorString) F(ncclGetLastError) F(ncclCommInitRankConfig) \
    F(ncclCommSplit) F(ncclCommFinalize) F(ncclCommDestroy) F(ncclCommAbort) F(ncclCommGetAsyncError) \
    F(ncclAllGather) F(ncclReduceScatter) F(ncclAllReduce) F(ncclSend) F(ncclRecv) F(ncclGroupStart) \
    F(ncclGroupEnd)
#define NCCL_WINDOW_FUNCTIONS(F) \
    F(ncclMemAlloc) F(ncclMemFree) F(ncclCommWindowRegister) F(ncclCommWindowDeregister) F(ncclAlltoAll)
/* clang-format on */

#define LIBRARY_POINTER(function) __typeof__(&function) function;
typedef struct {
    CUBLASLT_FUNCTIONS(LIBRARY_POINTER)
} cublaslt_functions;
typedef struct {
    NCCL_FUNCTIONS(LIBRARY_POINTER)
} nccl_functions;
typedef struct {
    NCCL_WINDOW_FUNCTIONS(LIBRARY_POINTER)
} nccl_window_functions;
extern cublaslt_functions cublaslt;
extern nccl_functions nccl;
extern nccl_window_functions nccl_windows;

#define cublasLtCreate cublaslt.cublasLtCreate
#define cublasLtDestroy cublaslt.cublasLtDestroy
#define cublasLtGetVersion cublaslt.cublasLtGetVersion
#define cublasLtGetStatusName cublaslt.cublasLtGetStatusName
#define cublasLtGetStatusString cublaslt.cublasLtGetStatusString
#define cublasLtMatmul cublaslt.cublasLtMatmul
#define cublasLtMatmulAlgoGetHeuristic cublaslt.cublasLtMatmulAlgoGetHeuristic
#define cublasLtMatmulAlgoCheck cublaslt.cublasLtMatmulAlgoCheck
#define cublasLtMatmulAlgoConfigGetAttribute cublaslt.cublasLtMatmulAlgoConfigGetAttribute
#define cublasLtMatmulDescCreate cublaslt.cublasLtMatmulDescCreate
#define cublasLtMatmulDescDestroy cublaslt.cublasLtMatmulDescDestroy
#define cublasLtMatmulDescSetAttribute cublaslt.cublasLtMatmulDescSetAttribute
#define cublasLtMatrixLayoutCreate cublaslt.cublasLtMatrixLayoutCreate
#define cublasLtMatrixLayoutDestroy cublaslt.cublasLtMatrixLayoutDestroy
#define cublasLtMatrixLayoutSetAttribute cublaslt.cublasLtMatrixLayoutSetAttribute
#define cublasLtMatmulPreferenceCreate cublaslt.cublasLtMatmulPreferenceCreate
#define cublasLtMatmulPreferenceDestroy cublaslt.cublasLtMatmulPreferenceDestroy
#define cublasLtMatmulPreferenceSetAttribute cublaslt.cublasLtMatmulPreferenceSetAttribute
#define ncclGetVersion nccl.ncclGetVersion
#define ncclGetUniqueId nccl.ncclGetUniqueId
#define ncclGetErrorString nccl.ncclGetErrorString
#define ncclGetLastError nccl.ncclGetLastError
#define ncclCommInitRankConfig nccl.ncclCommInitRankConfig
#define ncclCommSplit nccl.ncclCommSplit
#define ncclCommFinalize nccl.ncclCommFinalize
#define ncclCommDestroy nccl.ncclCommDestroy
#define ncclCommAbort nccl.ncclCommAbort
#define ncclCommGetAsyncError nccl.ncclCommGetAsyncError
#define ncclAllGather nccl.ncclAllGather
#define ncclReduceScatter nccl.ncclReduceScatter
#define ncclAllReduce nccl.ncclAllReduce
#define ncclSend nccl.ncclSend
#define ncclRecv nccl.ncclRecv
#define ncclGroupStart nccl.ncclGroupStart
#define ncclGroupEnd nccl.ncclGroupEnd
#define ncclMemAlloc nccl_windows.ncclMemAlloc
#define ncclMemFree nccl_windows.ncclMemFree
#define ncclCommWindowRegister nccl_windows.ncclCommWindowRegister
#define ncclCommWindowDeregister nccl_windows.ncclCommWindowDeregister
#define ncclAlltoAll nccl_windows.ncclAlltoAll
