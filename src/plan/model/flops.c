/* Flop formulas and parameter counts. */
#include "plan/model/flops.h"
#include <string.h>

const flops_formula llama_formula = { 0 };
const flops_formula nemotron_formula = { .multi_head_projections = true };
const flops_formula grok_formula = { .causal = true };
const flops_formula gpt3_formula = { .vocabulary_multiple = 1024 };

static const flops_formula comparable = { .causal = true };

int mlp_matrices(const model_shape *m) { return m->mlp == MLP_SWIGLU || m->mlp == MLP_GEGLU ? 3 : 2; }
int64_t mlps_active(const model_shape *m) { return m->active ? m->active : 1; }
int64_t mlps(const model_shape *m) { return m->experts ? m->experts : 1; }

static int64_t counted_vocabulary(const flops_formula *f, const model_shape *m)
{
    int64_t multiple = f->vocabulary_multiple ? f->vocabulary_multiple : 1;
    return (m->vocabulary + multiple - 1) / multiple * multiple;
}

/* A product with a matrix costs 2 flops per weight and token forward and 4 backward; so does each of the two products
 * of attention per channel and attended position. */
flop_count formula_count(const flops_formula *f, const model_shape *m)
{
    flop_count layers = (flop_count)m->layers, h = (flop_count)m->hidden, s = (flop_count)m->sequence;
    flop_count key_value = f->multi_head_projections ? h : h * m->kv_heads / m->heads;
    flop_count projections = 12 * layers * h * (h + key_value), attention = (f->causal ? 6 : 12) * layers * h * s;
    flop_count mlp = 6 * (flop_count)(mlp_matrices(m) * mlps_active(m)) * layers * (flop_count)m->ffn * h;
    flop_count head = 6 * (flop_count)counted_vocabulary(f, m) * h;
    return s * (projections + attention + mlp + head);
}

flop_count model_flop_count(const model_shape *m) { return formula_count(&comparable, m); }

double formula_flops(const flops_formula *f, const model_shape *m) { return (double)formula_count(f, m); }

double model_flops(const model_shape *m) { return (double)model_flop_count(m); }

static int64_t layer_parameters(const model_shape *m)
{
    int64_t h = m->hidden, queries = m->heads * m->head_dim, key_values = m->kv_heads * m->head_dim;
    int64_t attention = h * (2 * queries + 2 * key_values), mlp = mlps(m) * mlp_matrices(m) * h * m->ffn;
    int64_t norms = (m->norm == NORM_LAYER ? 4 : 2) * h, router = m->experts * h;
    int64_t biases = m->linear_biases ? queries + 2 * key_values + h + m->ffn + h : 0;
    return attention + mlp + norms + router + biases;
}

int64_t model_parameters(const model_shape *m)
{
    int64_t tables = (m->tied_embedding ? 1 : 2) * m->vocabulary + m->position_rows;
    int64_t final_norm = m->norm == NORM_LAYER ? 2 * m->hidden : m->hidden;
    return m->layers * layer_parameters(m) + tables * m->hidden + final_norm;
}

/* The first row that the name begins with counts; a part of a GPU has no row. Dense products, as published: halves of
 * what the data sheets print "with sparsity". */
double gpu_peak(const char *name, case_precision precision)
{
    static const char maker[] = "NVIDIA ";
    static const struct {
        const char *words;
        double bf16, fp8;
    } rows[] = {
        { "H100 PCIe", 756.5e12, 1513e12 },
        { "H100 NVL", 835.5e12, 1671e12 },
        { "H200 NVL", 835.5e12, 1671e12 },
        { "H100", 989e12, 1979e12 },
        { "H200", 989e12, 1979e12 },
        { "GH200", 989e12, 1979e12 },
        { "A100", 312e12, 0.0 },
    };
    if (strncmp(name, maker, sizeof maker - 1) == 0) name += sizeof maker - 1;
    if (strstr(name, " MIG ")) return 0.0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strncmp(name, rows[i].words, strlen(rows[i].words)) == 0)
            return precision == PRECISION_BF16 ? rows[i].bf16 : precision == PRECISION_FP8 ? rows[i].fp8 : 0.0;
    return 0.0;
}
