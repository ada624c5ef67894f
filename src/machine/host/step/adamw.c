/* step/: kernels outside the network. AdamW over one bucket (Loshchilov & Hutter 2019, algorithm 2). */
#include "machine/host/host.h"
#include "machine/host/rows/fp8_rows.h"
#include "machine/host/rows/row.h"

enum { SCALARS, GRADIENT, WEIGHT, MASTER, FIRST, SECOND, SCALE, AMAX, COUNTS };

typedef struct {
    adamw_rule rule;
    float clip, learning_rate, correction1, correction2;
} step_rule;

static step_rule rule_of(const op *o)
{
    const double *scalar = o->operand[SCALARS].tensor.data;
    return (step_rule){ o->args.adamw, (float)scalar[SCALAR_CLIP], (float)scalar[SCALAR_LEARNING_RATE],
                        (float)scalar[SCALAR_CORRECTION1], (float)scalar[SCALAR_CORRECTION2] };
}

static void *part_at(const op *o, int which, int64_t at)
{
    const tensor *t = &o->operand[which].tensor;
    return row_at(t->data, t->type, at);
}

/* Rounds the weight to BF16, then quantizes it. The statistics describe the BF16 values. */
static fp8_statistics quantize_weight(const op *o, int64_t at, const float *values, int64_t n)
{
    const float *scale = o->operand[SCALE].tensor.data;
    float tile[TILE];
    for (int64_t i = 0; i < n; i++) tile[i] = bf16_widen(bf16_round(values[i]));
    if (!scale) return fp8_amax_only(tile, n);
    return fp8_quantize(o->operand[WEIGHT].tensor.type, part_at(o, WEIGHT, at), tile, *scale, n);
}

/* Updates one tile of the master, or of the weight if there is no master. Returns the FP8 statistics, if any. */
static fp8_statistics update_tile(const op *o, const step_rule *s, int64_t at, int64_t n)
{
    const operand *x = o->operand;
    int values = tensor_present(&x[MASTER].tensor) ? MASTER : WEIGHT;
    bool quantizes = tensor_present(&x[SCALE].tensor), wants_amax = tensor_present(&x[AMAX].tensor);
    float tile[4][TILE];
    const float *gradient = row_read(tile[0], part_at(o, GRADIENT, at), x[GRADIENT].tensor.type, n);
    float *restrict weight = row_update(tile[1], part_at(o, values, at), x[values].tensor.type, n);
    float *restrict first = row_update(tile[2], part_at(o, FIRST, at), x[FIRST].tensor.type, n);
    float *restrict second = row_update(tile[3], part_at(o, SECOND, at), x[SECOND].tensor.type, n);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        adamw_state state = { weight[i], first[i], second[i] };
        adamw_update(&s->rule, s->learning_rate, s->correction1, s->correction2, &state, gradient[i] * s->clip);
        weight[i] = state.weight;
        first[i] = state.first;
        second[i] = state.second;
    }
    row_close(part_at(o, FIRST, at), x[FIRST].tensor.type, first, n);
    row_close(part_at(o, SECOND, at), x[SECOND].tensor.type, second, n);
    row_close(part_at(o, values, at), x[values].tensor.type, weight, n);
    if (values == MASTER && !quantizes) row_store(part_at(o, WEIGHT, at), x[WEIGHT].tensor.type, weight, n);
    return quantizes || wants_amax ? quantize_weight(o, at, weight, n) : (fp8_statistics){ 0 };
}

void host_adamw(const op *o, void *scratch)
{
    step_rule s = rule_of(o);
    int64_t n = tensor_elements(&o->operand[WEIGHT].tensor);
    fp8_statistics all = { 0 };
#pragma omp parallel
    {
        fp8_statistics own = { 0 };
#pragma omp for schedule(static)
        for (int64_t at = 0; at < n; at += TILE)
            fp8_statistics_merge(&own, update_tile(o, &s, at, smaller(TILE, n - at)));
#pragma omp critical(adamw)
        fp8_statistics_merge(&all, own);
    }
    fp8_statistics_add(all, o->operand[AMAX].tensor.data, o->operand[COUNTS].tensor.data);
}
