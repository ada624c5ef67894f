/* What CUDA and NCCL read of the environment, which wins over a communicator's settings and a site's nccl.conf. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Sets what is not set; before anything reads it, and before there are threads. A second call changes nothing. */
void cuda_environment(void);
/* Does it leave transfers as they are laid out? If not, why: the names. What only tunes NCCL is left alone. */
bool cuda_environment_suits(char *why, size_t length);
/* Returns whether it lets NCCL move by copy engines what lies in a window; if not, writes which name is set. */
bool cuda_environment_lets_windows(char *why, size_t length);
/* Forbids sums inside the switch. Before the first communicator. */
void cuda_environment_repeat_bits(void);
