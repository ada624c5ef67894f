/* Preloaded libraries that answer the program's calls in place of the libraries that it was built with. */
#pragma once
#include "bench/launch/libraries.h"

/* Writes which preloaded library of this rank answers which call of the C library's clocks, MPI, oneDNN, CUDA or NCCL;
 * an empty sentence if none does. own: the libraries of this process as it started. */
void preloaded_complaint(const library_list *own, char sentence[REASON_LENGTH]);
