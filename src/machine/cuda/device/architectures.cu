/* The compute capabilities that this build has code for, from the compiler's own list. */
#include "machine/cuda/device/architectures.h"
#include <cuda_runtime.h>

static const int architecture[] = { __CUDA_ARCH_LIST__ };

/* XGSW_PTX is set on the compiler's command line: the target of the PTX in this build, or 0 if there is none. */
XGSW_EXTERN int cuda_ptx(void) { return XGSW_PTX * 10; }

XGSW_EXTERN int cuda_architectures(const int **list)
{
    *list = architecture;
    return (int)(sizeof architecture / sizeof *architecture);
}
