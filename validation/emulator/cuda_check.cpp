/* Replaces the backend's error check in tests of single kernels, which link no backend. */
#include "inside.h"

extern "C" __attribute__((weak)) void cuda_check(cudaError_t code, const char *call, const char *file, int line)
{
    if (code != cudaSuccess) emulator_fail("%s (%s:%d): %s", call, file, line, cudaGetErrorString(code));
}

/* As the Makefile says in build_info.c. */
extern "C" const char *__asan_default_options(void);
extern "C" __attribute__((weak)) const char *__asan_default_options(void)
{
    return "detect_leaks=0:detect_stack_use_after_return=0";
}
