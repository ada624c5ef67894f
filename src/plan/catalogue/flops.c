/* The recipes' flop formulas and metrics. */
#include "plan/catalogue/flops.h"
#include "plan/catalogue/devices.h"
#include <math.h>

const flops_formula llama_formula = { 0 };
const flops_formula nemotron_formula = { .multi_head_projections = true };
const flops_formula grok_formula = { .causal = true };
const flops_formula gpt3_formula = { .vocabulary_multiple = 1024 };

/* Counts the matrices that a token is multiplied with in the MLPs of one layer. */
static int64_t mlp_matrices(const model_shape *m)
{
    int64_t matrices = m->mlp == MLP_SWIGLU || m->mlp == MLP_GEGLU ? 3 : 2;
    return m->active ? m->active * matrices : matrices;
}

static int64_t counted_vocabulary(const flops_formula *f, const model_shape *m)
{
    int64_t multiple = f->vocabulary_multiple ? f->vocabulary_multiple : 1;
    return (m->vocabulary + multiple - 1) / multiple * multiple;
}

static flop_count block_products(const flops_formula *f, const model_shape *m)
{
    flop_count layers = (flop_count)m->layers, h = (flop_count)m->hidden;
    flop_count key_value = f->multi_head_projections ? h : h * m->kv_heads / m->heads;
    flop_count projections = 12 * layers * h * (h + key_value);
    flop_count mlp = 6 * (flop_count)mlp_matrices(m) * layers * (flop_count)m->ffn * h;
    return (flop_count)m->sequence * (projections + mlp);
}

double formula_block_flops(const flops_formula *f, const model_shape *m) { return (double)block_products(f, m); }

double formula_flops(const flops_formula *f, const model_shape *m)
{
    flop_count layers = (flop_count)m->layers, h = (flop_count)m->hidden, s = (flop_count)m->sequence;
    flop_count attention = (f->causal ? 6 : 12) * layers * h * s, head = 6 * (flop_count)counted_vocabulary(f, m) * h;
    return (double)(block_products(f, m) + s * (attention + head));
}

double gpu_peak(const char *name, case_precision precision)
{
    const device_row *row = device_find(name);
    if (!row) return 0.0;
    return precision == PRECISION_BF16 ? row->bf16 : precision == PRECISION_FP8 ? row->fp8 : 0.0;
}

static double deck_peak(const bench_case *c, case_precision precision)
{
    double tflops = precision == PRECISION_BF16 ? c->peak_bf16 : precision == PRECISION_FP8 ? c->peak_fp8 : 0.0;
    return tflops * 1e12;
}

double case_peak(const bench_case *c, const char *device, case_precision precision)
{
    double known = gpu_peak(device, precision);
    return known > 0.0 || !device[0] ? known : deck_peak(c, precision);
}

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

double mixed_ceiling(double flops, double block_flops, double fp8_peak, double bf16_peak)
{
    double rest = flops - block_flops;
    return fp8_peak > 0.0 && bf16_peak > 0.0 ? flops / (block_flops + rest * fp8_peak / bf16_peak) : (double)NAN;
}
