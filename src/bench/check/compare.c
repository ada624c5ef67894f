/* Ratios of differences between a trainer and the reference. */
#include "bench/check/compare.h"
#include "base/memory.h"
#include "machine/world.h"
#include <math.h>

static const double not_finite = 1e100;

static double bounded(double x) { return isfinite(x) && fabs(x) < not_finite ? x : not_finite; }
static double magnitude(double x) { return fabs(bounded(x)); }

static int rows_held(const trainer *t) { return t ? t->stage.params.rows : 0; }

static tensor own_view(const trainer *t, const param *p, compared what, fragment f)
{
    const bucket *b = &t->stage.params.buckets[p->bucket];
    tensor owned = what == COMPARE_WEIGHT ? master_shard(b) : gradient_shard(b);
    return machine_view(t->machine, param_view(p, f, owned, b->shard_first));
}

/* Sums over elements of a row. error: sum of (x - target)^2, or of (x - target) (target - start) for COMPARE_ALONG.
 * change: sum of (target - start)^2. Padding must be zero and does not count as an element. */
typedef struct {
    double error, change;
    int64_t elements;
} row_sums;

static double ratio_of(compared what, row_sums s, double unit)
{
    double size = sqrt(s.change) + unit;
    if (what != COMPARE_ALONG) return magnitude(sqrt(s.error) / size);
    return s.elements < ALONG_ELEMENTS ? 0.0 : magnitude(s.error / (size * size));
}

static row_sums own_sums(const trainer *t, int i, compared what, const double *target, const double *start)
{
    const param *p = &t->stage.params.row[i];
    fragment f = param_owned(&t->stage.params, i);
    tensor x = own_view(t, p, what, f);
    row_sums total = { 0 };
    for (param_run r = { 0 }; param_next_run(p, f, &r);)
        for (int64_t k = 0; k < r.count; k++) {
            bool padding = r.logical < 0;
            double expected = padding ? 0.0 : target[r.logical + k];
            double change = padding || !start ? expected : expected - start[r.logical + k];
            double error = bounded(tensor_value(&x, r.local + k - f.first) - expected);
            total.error += error * (what == COMPARE_ALONG ? change : error);
            total.change += change * change;
            total.elements += !padding;
        }
    machine_view_end(t->machine, &x);
    return total;
}

/* Fills square[rows] with the sums of (target - start)^2 of each row. Returns the norm of all rows together. */
static double reference_squares(const reference *r, const double *target, const double *start, double *square)
{
    double whole = 0.0;
    for (int i = 0; i < r->rows; i++) {
        double total = 0.0;
        for (int64_t v = r->base[i]; v < r->base[i + 1]; v++) {
            double x = target[v] - (start ? start[v] : 0.0);
            total += x * x;
        }
        square[i] = total;
        whole += total;
    }
    return sqrt(whole);
}

static int rank_of_largest(double own)
{
    double largest = own, rank;
    world_maximum(&largest, 1);
    rank = own == largest ? world_rank() : -1.0;
    world_maximum(&rank, 1);
    return (int)rank;
}

worst_row compare_largest(double own)
{
    if (!isfinite(own)) own = not_finite;
    double largest = own;
    world_maximum(&largest, 1);
    return (worst_row){ largest, 0, rank_of_largest(own) };
}

/* Returns the row with the largest ratio on any rank. own, largest: [rows]; `largest` is filled. Collective. */
static worst_row worst_of(const double *own, double *largest, int rows)
{
    worst_row worst = { -1.0, 0, 0 };
    for (int i = 0; i < rows; i++) largest[i] = own[i];
    world_maximum(largest, rows);
    for (int i = 0; i < rows; i++)
        if (largest[i] > worst.r) worst.r = largest[i], worst.row = i;
    worst.rank = rank_of_largest(own[worst.row]);
    return worst;
}

worst_row compare_rows(const trainer *t, const reference *r, compared what, const double *target, const double *start)
{
    double *own = reference_doubles(4 * r->rows), *whole_error = own + r->rows, *square = whole_error + r->rows,
           *largest = square + r->rows;
    double unit = 1e-3 * reference_squares(r, target, start, square);
    for (int i = 0; i < rows_held(t); i++) {
        int row = t->stage.params.row[i].logical;
        param_rule rule = t->stage.params.row[i].rule;
        if (rule.zero_gradient || (what == COMPARE_WEIGHT && rule.small_gradient)) continue;
        row_sums s = own_sums(t, i, what, target + r->base[row], start ? start + r->base[row] : NULL);
        own[row] = ratio_of(what, s, unit);
        whole_error[row] = s.error / bucket_replicas(&t->stage.params.buckets[t->stage.params.row[i].bucket]);
    }
    world_sum(whole_error, r->rows);
    worst_row worst = worst_of(own, largest, r->rows);
    for (int i = 0; i < r->rows; i++) {
        double ratio = ratio_of(what, (row_sums){ whole_error[i], square[i], r->base[i + 1] - r->base[i] }, unit);
        if (ratio > worst.r) worst.r = ratio, worst.row = i;
    }
    worst.rank = rank_of_largest(own[worst.row]);
    free(own);
    return worst;
}

uint64_t compare_digest(const trainer *t)
{
    uint64_t sum = 0;
    tensor to = tensor_slice(t->squares, 0, 0, 1);
    queue *q = t->queues.compute;
    submit(q, "digest", fill_op(to, 0.0));
    for (int i = 0; i < t->stage.params.bucket_count; i++) {
        const bucket *b = &t->stage.params.buckets[i];
        submit(q, "digest", digest_op(b->weight, to, &(digest_args){ 2 * (uint64_t)i, 0 }));
        submit(q, "digest", digest_op(master_shard(b), to, &(digest_args){ 2 * (uint64_t)i + 1, 0 }));
    }
    machine_sync(t->machine);
    machine_read(t->machine, &sum, to);
    return sum;
}

/* Each context rank holds a part of every loss. The first context rank compares the sum. */
static bool holds_losses(const trainer *t)
{
    return t && param_row(&t->stage.params, PARAM_HEAD, NO_LAYER) >= 0 && t->mesh->at[AXIS_TENSOR] == 0;
}

worst_row compare_losses(const trainer *t, const reference *r, int step)
{
    int64_t n = r->own_sequences;
    double *loss = reference_doubles(n + 1);
    int64_t *sequence = allocate(n, sizeof *sequence, "comparing losses");
    worst_row worst = { -1.0, 0, 0 };
    for (int64_t i = 0; i < n; i++) sequence[i] = reference_sequence(r, i);
    tensor view = holds_losses(t) ? machine_view(t->machine, t->stage.loss) : tensor_none();
    reference_sum_losses(r, sequence, view.data, holds_losses(t) ? n : 0, loss);
    if (holds_losses(t)) machine_view_end(t->machine, &view);
    for (int64_t i = 0; holds_losses(t) && t->mesh->at[AXIS_CONTEXT] == 0 && i < n; i++) {
        double target = r->loss[step * n + i], ratio = magnitude((loss[i] - target) / target);
        if (ratio > worst.r) worst = (worst_row){ ratio, (int)sequence[i], world_rank() };
    }
    worst.rank = rank_of_largest(worst.r);
    world_broadcast(&worst, sizeof worst, worst.rank);
    free(sequence);
    free(loss);
    return worst;
}

static worst_row compare_scalar(const trainer *t, int step, int scalar, double expected)
{
    return compare_largest(t ? magnitude(trainer_report(t, step).scalar[scalar] / expected - 1.0) : -1.0);
}

worst_row compare_mean_loss(const trainer *t, const reference *r, int step)
{
    return compare_scalar(t, step, SCALAR_LOSS, r->total_loss[step] / (double)(r->sequences * r->given.model.sequence));
}

worst_row compare_norm(const trainer *t, const reference *r, int step)
{
    return compare_scalar(t, step, SCALAR_NORM, r->norm[step]);
}
