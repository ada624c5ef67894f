/* Flop formulas and parameter counts. */
#include "plan/flops.h"

const flops_formula llama_formula = { .mlp_matrices = 3, .active_experts = 1 };
const flops_formula nemotron_formula = { .multi_head_projections = true, .mlp_matrices = 2, .active_experts = 1 };
const flops_formula grok_formula = { .causal = true, .mlp_matrices = 3, .active_experts = 2 };
const flops_formula gpt3_formula = { .mlp_matrices = 2, .active_experts = 1 };

double formula_flops(const flops_formula *f, const model_shape *m)
{
    double layers = (double)m->layers, h = (double)m->hidden, s = (double)m->sequence;
    double key_value = f->multi_head_projections ? h : h * (double)m->kv_heads / (double)m->heads;
    double square = f->causal ? s / 2.0 : s;
    double attention = 12.0 * layers * h * (h + key_value + square);
    double mlp = 6.0 * f->mlp_matrices * f->active_experts * layers * (double)m->ffn * h;
    double head = 6.0 * (double)m->vocabulary * h;
    return s * (attention + mlp + head);
}

double formula_model_flops(const flops_formula *f, const model_shape *m)
{
    flops_formula comparable = *f;
    comparable.multi_head_projections = false;
    comparable.causal = true;
    return formula_flops(&comparable, m);
}

int64_t model_parameters(const model_shape *m)
{
    int64_t queries = m->heads * m->head_dim, key_values = m->kv_heads * m->head_dim;
    int64_t attention = m->hidden * (2 * queries + 2 * key_values), mlp = 3 * m->hidden * m->ffn, norms = 2 * m->hidden;
    return m->layers * (attention + mlp + norms) + 2 * m->vocabulary * m->hidden + m->hidden;
}

double recipe_flops(const model_shape *m) { return formula_flops(&llama_formula, m); }

double model_flops(const model_shape *m) { return formula_model_flops(&llama_formula, m); }

double peak_flops(case_backend backend, case_precision precision)
{
    return backend == BACKEND_CUDA && precision == PRECISION_BF16 ? 989e12 : 0.0;
}
