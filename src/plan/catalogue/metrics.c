/* The recipes' metrics. */
#include "plan/catalogue/metrics.h"
#include <math.h>

double tokens_per_second(int64_t sequence, int64_t global_batch, double step_seconds)
{
    return (double)sequence * (double)global_batch / step_seconds;
}

double days_per_trillion(double rate) { return 1e12 / rate / 86400.0; }

double flops_per_gpu(int64_t global_batch, double flops_per_sequence, double step_seconds, int gpus)
{
    return (double)global_batch * flops_per_sequence / step_seconds / gpus;
}

double model_flops_utilization(int64_t global_batch, double flops_per_sequence, double step_seconds, int gpus,
                               double peak)
{
    return peak > 0.0 ? flops_per_gpu(global_batch, flops_per_sequence, step_seconds, gpus) / peak : (double)NAN;
}
