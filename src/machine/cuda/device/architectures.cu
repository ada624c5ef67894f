/* Which GPUs this build has code for: the compiler's own list. */
#include "machine/cuda/device/architectures.h"
#include <cuda_runtime.h>

static const int architecture[] = { __CUDA_ARCH_LIST__ };

/* XGSW_PTX, on the command line, is the target of which there is PTX only; 0: there is none. */
XGSW_EXTERN int cuda_ptx(void) { return XGSW_PTX * 10; }

XGSW_EXTERN int cuda_architectures(const int **list)
{
    *list = architecture;
    return (int)(sizeof architecture / sizeof *architecture);
}
