/* Attention: which library computes it. The launchers are in kernels.h. */
#pragma once
#include <stddef.h>

/* "cuDNN 9.13.0 (as built 9.13.0)", or why there is none; returns text. */
const char *cuda_attention_library(char *text, size_t length);
