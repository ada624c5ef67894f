/* The recipes' metrics: part 5 of the workloads' description. Step times in seconds. */
#pragma once
#include <stdint.h>

double tokens_per_second(int64_t sequence, int64_t global_batch, double step_seconds);
/* Days of training on 1e12 tokens at a rate in tokens per second. Printed for full models only. */
double days_per_trillion(double rate);
/* Flop/s of one GPU; flops_per_sequence by either formula of flops.h. */
double flops_per_gpu(int64_t global_batch, double flops_per_sequence, double step_seconds, int gpus);
/* Model flops utilization, a fraction; NaN where no peak is known (peak 0). */
double model_flops_utilization(int64_t global_batch, double flops_per_sequence, double step_seconds, int gpus,
                               double peak);
