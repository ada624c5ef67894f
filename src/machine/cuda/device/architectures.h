/* The GPUs that this build has code for. C and C++ both include this file. */
#pragma once

/* Returns the compute capability of the PTX, times 100, or 0 if there is no PTX. Later GPUs can run it, too. */
XGSW_EXTERN int cuda_ptx(void);
/* Sets *list to the compute capabilities of the kernels, times 100 (900 is 9.0). Returns how many there are. */
XGSW_EXTERN int cuda_architectures(const int **list);
