/* Comparison with the reference. */
#include "bench/compare.h"
#include "base/fail.h"
#include "machine/world.h"
#include "train/gradient.h"
#include <math.h>
#include <stdlib.h>

static const double not_finite = 1e100;

static double magnitude(double x) { return isfinite(x) && fabs(x) < not_finite ? fabs(x) : not_finite; }

static double *doubles(int64_t n)
{
    double *x = calloc((size_t)n, sizeof *x);
    if (!x) FAIL("no memory to compare %lld numbers", (long long)n);
    return x;
}

/* How many ranks hold the same elements of the bucket's shard. */
static double replicas(const trainer *t, const bucket *b)
{
    double n = b->shard_elements == b->elements ? t->mesh->gradient.size : 1.0;
    return b->replicated ? n * t->mesh->axis[AXIS_TENSOR].size : n;
}

static tensor owned(const bucket *b, compared what)
{
    if (what == COMPARE_GRADIENT) return gradient_shard(b);
    return tensor_present(&b->master) ? b->master : tensor_slice(b->weight, 0, b->shard_first, b->shard_elements);
}

/* Sum over this rank's part of row i of (x - target)^2; padding must be zero. */
static double row_difference(const trainer *t, int i, compared what, const double *target)
{
    const param *p = &t->stage.params.row[i];
    const bucket *b = &t->stage.params.buckets[p->bucket];
    fragment f = param_fragment(&t->stage.params, i);
    tensor x = owned(b, what);
    double total = 0.0;
    for (int64_t k = f.first; k < f.first + f.count; k++) {
        int64_t logical = param_logical_index(p, k);
        double d = tensor_value(&x, p->offset + k - b->shard_first) - (logical < 0 ? 0.0 : target[logical]);
        total += magnitude(d) * magnitude(d);
    }
    return total;
}

static void reference_norms(const reference *r, const double *target, const double *start, double *norm)
{
    double whole = 0.0;
    for (int i = 0; i < r->rows; i++) {
        double total = 0.0;
        for (int64_t v = r->base[i]; v < r->base[i + 1]; v++) {
            double x = target[v] - (start ? start[v] : 0.0);
            total += x * x;
        }
        norm[i] = sqrt(total);
        whole += total;
    }
    for (int i = 0; i < r->rows; i++) norm[i] += 1e-3 * sqrt(whole);
}

/* The rank that brings the largest value. Collective. */
static int rank_of_largest(double own)
{
    double largest = own, rank;
    world_maximum(&largest, 1);
    rank = own == largest ? world_rank() : -1.0;
    world_maximum(&rank, 1);
    return (int)rank;
}

worst_row compare_rows(const trainer *t, const reference *r, compared what, const double *target, const double *start)
{
    double *own = doubles(4 * r->rows), *shared = own + r->rows, *single = shared + r->rows, *norm = single + r->rows;
    worst_row worst = { -1.0, 0, 0 };
    for (int i = 0; t && i < r->rows; i++) {
        own[i] = single[i] = row_difference(t, i, what, target + r->base[i]);
        shared[i] = own[i] / replicas(t, &t->stage.params.buckets[t->stage.params.row[i].bucket]);
    }
    world_sum(shared, r->rows);
    world_maximum(single, r->rows);
    reference_norms(r, target, start, norm);
    for (int i = 0; i < r->rows; i++) {
        double ratio = sqrt(shared[i] > single[i] ? shared[i] : single[i]) / norm[i];
        if (ratio > worst.r) worst.r = ratio, worst.row = i;
    }
    worst.rank = rank_of_largest(own[worst.row]);
    free(own);
    return worst;
}

worst_row compare_losses(const trainer *t, const reference *r, int step)
{
    double *loss = doubles(2 * r->sequences), *holder = loss + r->sequences;
    const double *target = r->loss + step * r->sequences;
    worst_row worst = { -1.0, 0, 0 };
    bool reports = t && t->mesh->at[AXIS_TENSOR] == 0;
    for (int64_t i = 0; reports && i < t->given->microbatches * t->given->micro_batch; i++) {
        int64_t m = i / t->given->micro_batch, row = i % t->given->micro_batch;
        int64_t sequence = (m * t->stage.data_ranks + t->stage.data_rank) * t->given->micro_batch + row;
        loss[sequence] = ((const double *)t->stage.loss.data)[i];
        holder[sequence] = world_rank();
    }
    world_sum(loss, 2 * r->sequences);
    for (int64_t s = 0; s < r->sequences; s++) {
        double ratio = magnitude((loss[s] - target[s]) / target[s]);
        if (ratio > worst.r) worst = (worst_row){ ratio, (int)s, (int)holder[s] };
    }
    free(loss);
    return worst;
}
