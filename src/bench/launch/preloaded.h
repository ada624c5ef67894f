/* Preloaded libraries that replace functions which the program calls, and attached profilers. */
#pragma once
#include "bench/launch/libraries.h"

/* Writes which preloaded library of this rank replaces a function of the C library's clocks, MPI, oneDNN, CUDA or NCCL.
 * The sentence is empty if there is none. own: libraries of this process at its start. */
void preloaded_complaint(const library_list *own, char sentence[REASON_LENGTH]);
/* Writes which profiler or trace of NCCL calls is active on this rank. The sentence is empty if there is none. */
void profiler_complaint(char sentence[REASON_LENGTH]);
