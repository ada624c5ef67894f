/* Attention: which engine computes it. The launchers are in kernels.h. */
#pragma once
#include "machine/cuda/call.h"

/* cuDNN, as built and as loaded, or that there is none. */
XGSW_EXTERN const char *cuda_attention_library(char *text, size_t length);
/* What computes attention, in words, for the report. */
XGSW_EXTERN const char *cuda_attention_engine(char *text, size_t length);
