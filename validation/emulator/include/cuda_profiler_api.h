/* In place of CUDA's cuda_profiler_api.h. */
#pragma once
#include "cuda_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);
#ifdef __cplusplus
}
#endif
