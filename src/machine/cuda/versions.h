/* Versions of the libraries that the CUDA machine uses. */
#pragma once
#include <stddef.h>

/* Writes CUDA, cuBLASLt, NCCL and cuDNN, as built and as loaded, in one line. Needs no GPU; loads the libraries. */
const char *cuda_versions(char *text, size_t length);
