/* The GPUs this build has code for; C and C++ both take this file. */
#pragma once

/* Returns the same of the PTX that a driver compiles for GPUs from there on; 0: there is none. */
XGSW_EXTERN int cuda_ptx(void);
/* Sets list to a hundred times the compute capabilities of the kernels: 900 is 9.0. Returns how many. */
XGSW_EXTERN int cuda_architectures(const int **list);
