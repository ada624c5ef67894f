/* Preloaded libraries that answer the program's calls in place of those that it was built with; attached tools. */
#pragma once
#include "bench/launch/libraries.h"

/* Writes which preloaded library of this rank answers which call of the C library's clocks, MPI, oneDNN, CUDA or NCCL;
 * an empty sentence if none does. own: the libraries of this process as it started. */
void preloaded_complaint(const library_list *own, char sentence[REASON_LENGTH]);
/* Writes which profiler or trace of NCCL's calls this rank has, or nothing. */
void profiler_complaint(char sentence[REASON_LENGTH]);
