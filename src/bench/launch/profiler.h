/* Tools that watch the run: profilers, and NCCL's trace of its calls. */
#pragma once
#include "plan/bench_case.h"

/* Writes which profiler or trace the environment of the first such rank attaches; an empty sentence if none does.
 * Collective over the world. */
void profiler_complaint(char sentence[REASON_LENGTH]);
