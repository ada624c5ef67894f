/* The GPUs this build has code for; C and C++ both take this file. */
#pragma once

/* Sets list to a hundred times the compute capabilities that the kernels are built for: 900 is 9.0; returns how many.
 */
XGSW_EXTERN int cuda_architectures(const int **list);
