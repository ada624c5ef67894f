/* This build has no CUDA machine. */
#include "machine/backend.h"

const backend *cuda_backend(void) { return NULL; }
