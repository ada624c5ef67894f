/* Environment variables that CUDA and NCCL read. They override a communicator's settings and a site's nccl.conf. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Sets the variables that are unset. Call it before any library reads them and before there are threads. Idempotent. */
void cuda_environment(void);
/* Returns whether no variable changes how transfers are laid out. If not, writes the names. Mere tuning is allowed. */
bool cuda_environment_suits(char *why, size_t length);
/* Returns whether the environment lets NCCL move windows by copy engines. If not, writes which variable forbids it. */
bool cuda_environment_lets_windows(char *why, size_t length);
/* Forbids sums inside the switch (NVLS). Call it before the first communicator is made. */
void cuda_environment_repeat_bits(void);
