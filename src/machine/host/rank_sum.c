/* Sums over ranks. */
#include "base/numeric.h"
#include "machine/host/host.h"
#include "machine/host/rows/row.h"

enum { SUM_BLOCK = 1024 };

dtype rank_sum_type(dtype type) { return type == BF16 ? F32 : type; }

static const char *part_at(const rank_parts *p, int i)
{
    return i == p->own ? p->own_part : p->base + (size_t)i * p->stride;
}

static float widen(const void *x, dtype type, int64_t i)
{
    return type == BF16 ? bf16_widen(((const uint16_t *)x)[i]) : ((const float *)x)[i];
}

static void sum_block(float *total, const float *before, const rank_parts *p, dtype type, int64_t first, int64_t n)
{
    const char *part = part_at(p, 0);
    for (int64_t i = 0; i < n; i++) total[i] = widen(part, type, first + i);
    for (int64_t i = 0; before && i < n; i++) total[i] = before[first + i] + total[i];
    for (int r = 1; r < p->count; r++) {
        part = part_at(p, r);
        for (int64_t i = 0; i < n; i++) total[i] += widen(part, type, first + i);
    }
}

static void sum_f32(void *to, dtype to_type, const float *before, const rank_parts *p, dtype type, int64_t n)
{
#pragma omp parallel for schedule(static) if (n > 4 * SUM_BLOCK)
    for (int64_t block = 0; block < n; block += SUM_BLOCK) {
        float total[SUM_BLOCK];
        int64_t length = n - block < SUM_BLOCK ? n - block : SUM_BLOCK;
        sum_block(total, before, p, type, block, length);
        for (int64_t i = 0; i < length; i++)
            if (to_type == BF16) ((uint16_t *)to)[block + i] = bf16_round(total[i]);
            else ((float *)to)[block + i] = total[i];
    }
}

static void sum_f64(double *to, const double *before, const rank_parts *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double total = before ? before[i] : 0.0;
        for (int r = 0; r < p->count; r++) total += ((const double *)part_at(p, r))[i];
        to[i] = total;
    }
}

static void sum_u64(uint64_t *to, const uint64_t *before, const rank_parts *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t total = before ? before[i] : 0;
        for (int r = 0; r < p->count; r++) total += ((const uint64_t *)part_at(p, r))[i];
        to[i] = total;
    }
}

static void largest_i32(int32_t *to, const int32_t *before, const rank_parts *parts, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t maximum = before ? before[i] : INT32_MIN;
        for (int r = 0; r < parts->count; r++) {
            int32_t x = ((const int32_t *)part_at(parts, r))[i];
            maximum = x > maximum ? x : maximum;
        }
        to[i] = maximum;
    }
}

void rank_sum(void *to, dtype to_type, const void *before, const rank_parts *parts, dtype type, int64_t n)
{
    if (type == F64) sum_f64(to, before, parts, n);
    else if (type == U64) sum_u64(to, before, parts, n);
    else if (type == I32) largest_i32(to, before, parts, n);
    else sum_f32(to, to_type, before, parts, type, n);
}

/* A contiguous output is summed as one long row. */
void host_sum_parts(const op *o, void *scratch)
{
    const tensor *out = &o->operand[0].tensor, *parts = &o->operand[1].tensor;
    int64_t rows = tensor_contiguous(out) ? 1 : tensor_row_count(out), n = tensor_elements(out) / rows;
    for (int64_t row = 0; row < rows; row++) {
        rank_parts p = { row_at(parts->data, parts->type, row * n), tensor_span(parts) / (size_t)parts->dim[0],
                         (int)parts->dim[0], -1, NULL };
        rank_sum(tensor_row(out, row, 0), out->type, NULL, &p, parts->type, n);
    }
}
