/* Environment variables that CUDA and NCCL read. They override a communicator's settings and a site's nccl.conf. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* Sets the variables that are unset. Call it before any library reads them and before there are threads. Idempotent. */
void cuda_environment(void);
/* Returns whether no variable changes the thread blocks or the order of transfers. If not, writes the names. */
bool cuda_environment_suits(char *why, size_t length);
/* Returns whether NCCL may use copy engines for windows. If not, writes the variable that forbids it. */
bool cuda_environment_allows_windows(char *why, size_t length);
/* Forbids sums inside NVLink switches, whose order varies. Call it before the first communicator is made. */
void cuda_environment_disable_nvls(void);
