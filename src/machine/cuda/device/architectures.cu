/* Which GPUs this build has code for: the compiler's own list. */
#include "machine/cuda/device/architectures.h"
#include <cuda_runtime.h>

static const int architecture[] = { __CUDA_ARCH_LIST__ };

XGSW_EXTERN int cuda_architectures(const int **list)
{
    *list = architecture;
    return (int)(sizeof architecture / sizeof *architecture);
}
