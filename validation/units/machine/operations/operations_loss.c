/* Compares the norm with addition, and the loss over a divided vocabulary, with double. */
#include "operations.h"

static double as_type(dtype type, double x)
{
    return type == BF16 ? (double)bf16_widen(bf16_round((float)x)) : (double)(float)x;
}

/* sum is x + delta, rounded once, and the norm is that of the rounded sum. Tolerance as in operations.c: the mean, here
 * 1, is as large as the largest deviation. */
static void check_norm_sum(dtype type, int64_t rows, int64_t h, const int64_t gap[4], bool centred)
{
    const int64_t dim[] = { rows, h };
    sample x = sample_open(type, 2, dim, gap[0]), delta = sample_open(type, 2, dim, gap[1]),
           sum = sample_open(type, 2, dim, gap[2]);
    sample out = sample_open(type, 2, dim, gap[3]), gain = sample_open(type, 1, dim + 1, 0),
           bias = sample_open(type, 1, dim + 1, 0), rstd = sample_open(F32, 1, dim, 0),
           mean = sample_open(F32, 1, dim, 0);
    sample_randomize(&x, 1, 1.0, 0.5);
    sample_randomize(&delta, 2, 1.0, 0.5);
    sample_randomize(&gain, 3, 0.5, centred ? 0.0 : 1.0);
    sample_randomize(&bias, 4, 0.5, 0.0);
    RUN(q, submit(q, "norm",
                  norm_forward_op((norm_forward_operands){ .x = x.t,
                                                           .delta = delta.t,
                                                           .gain = gain.t,
                                                           .sum = sum.t,
                                                           .out = out.t,
                                                           .rstd = rstd.t,
                                                           .bias = centred ? bias.t : tensor_none(),
                                                           .mean = centred ? mean.t : tensor_none() },
                                  1e-5f)));
    for (int64_t i = 0; i < rows * h; i++) sum.value[i] = as_type(type, x.value[i] + delta.value[i]);
    for (int64_t row = 0; row < rows; row++) {
        double total = 0.0, squares = 0.0, *from = sum.value + row * h;
        for (int64_t i = 0; i < h; i++) total += from[i];
        double around = mean.value[row] = centred ? total / (double)h : 0.0;
        for (int64_t i = 0; i < h; i++) squares += (from[i] - around) * (from[i] - around);
        rstd.value[row] = 1.0 / sqrt(squares / (double)h + 1e-5);
        for (int64_t i = 0; i < h; i++)
            out.value[row * h + i] =
                (from[i] - around) * rstd.value[row] * (gain.value[i] + centred) + (centred ? bias.value[i] : 0.0);
    }
    compare("sum", &sum, sum.value, 0, 0);
    compare("rstd", &rstd, rstd.value, 36 * F32_ROUND, 0);
    double largest_out = largest(out.value, out.elements);
    if (centred) compare("mean", &mean, mean.value, 64 * F32_ROUND, 0);
    if (centred) compare("layer norm of sum", &out, out.value, rounding(type), 104 * F32_ROUND * largest_out);
    else compare("norm of sum", &out, out.value, rounding(type) + 36 * F32_ROUND, 0);
    sample_check_gaps(&sum, "norm_forward");
    sample *all[] = { &x, &delta, &sum, &out, &gain, &bias, &rstd, &mean };
    for (int i = 0; i < 8; i++) sample_close(all[i]);
}

static void norm_sum(void **state)
{
    static const int64_t gap[][4] = { { 3, 0, 2, 1 }, { 8, 0, 16, 24 } }; /* the second: aligned rows */
    for (dtype type = F32; type <= BF16; type++)
        for (int i = 0; i < 4; i++) {
            check_norm_sum(type, 5, 7, gap[i / 2], i % 2);
            check_norm_sum(type, 9, 512, gap[i / 2], i % 2);
            check_norm_sum(type, 3, 2500, gap[i / 2], i % 2);
            check_norm_sum(type, 2, 18432, gap[i / 2], i % 2);
        }
}

/* columns per rank; ranks * columns >= valid: the rest is padding */
typedef struct {
    int64_t s, b, columns, ranks, valid, gap;
} loss_shape;
typedef struct {
    loss_shape n;
    dtype type;
    float scale;
    sample logits[4], labels, partials, loss[4];
} loss_trial;

static double logit(const loss_trial *t, int64_t row, int64_t column)
{
    return t->logits[column / t->n.columns].value[row * t->n.columns + column % t->n.columns];
}

static loss_trial loss_open(loss_shape n, dtype type)
{
    loss_trial t = { .n = n, .type = type, .scale = 0.25f, .labels = sample_open(I32, 2, (int64_t[]){ n.s, n.b }, 0) };
    t.partials = sample_open(F32, 4, (int64_t[]){ n.ranks, n.s, n.b, 3 }, 0);
    for (int r = 0; r < n.ranks; r++) {
        t.logits[r] = sample_open(type, 3, (int64_t[]){ n.s, n.b, n.columns }, n.gap);
        t.loss[r] = sample_open(F64, 1, &n.b, 0);
        sample_randomize(&t.logits[r], (uint32_t)r, 8.0, 0.0);
    }
    for (int64_t i = 0; i < n.s * n.b; i++) element_set(&t.labels.t, i, (double)(i * 7919 % n.valid));
    sample_read(&t.labels);
    return t;
}

static void loss_close(loss_trial *t)
{
    for (int r = 0; r < t->n.ranks; r++) sample_close(&t->logits[r]), sample_close(&t->loss[r]);
    sample_close(&t->labels);
    sample_close(&t->partials);
}

static void loss_run(loss_trial *t)
{
    for (int r = 0; r < t->n.ranks; r++) {
        cross_entropy_operands o = { .logits = t->logits[r].t,
                                     .labels = t->labels.t,
                                     .partial = tensor_slice(t->partials.t, 0, r, 1),
                                     .first = r * t->n.columns,
                                     .valid = t->n.valid };
        RUN(q, submit(q, "loss", cross_entropy_partial_op(&o)));
    }
    for (int r = 0; r < t->n.ranks; r++) {
        cross_entropy_operands o = { t->logits[r].t,   t->labels.t, t->partials.t, t->loss[r].t,
                                     r * t->n.columns, t->n.valid,  t->scale };
        RUN(q, submit(q, "loss", cross_entropy_finish_op(&o)));
    }
}

/* exp_shared has an error of 3e-7, and 2^-24 of its argument (up to 16): 2e-6 relative, softmax <= 1. */
static double row_check(loss_trial *t, int64_t row)
{
    double total = 0.0;
    int64_t label = (int64_t)t->labels.value[row];
    for (int64_t column = 0; column < t->n.valid; column++) total += exp(logit(t, row, column));
    for (int64_t column = 0; column < t->n.ranks * t->n.columns; column++) {
        double got = element(&t->logits[column / t->n.columns].t, row * t->n.columns + column % t->n.columns);
        double softmax = column < t->n.valid ? exp(logit(t, row, column)) / total : 0.0;
        double expected = (softmax - (column == label)) * (double)t->scale;
        if (column >= t->n.valid) assert_true(got == 0.0);
        if (!(fabs(got - expected) <= rounding(t->type) * fabs(expected) + 2e-6 * softmax * (double)t->scale))
            fail_msg("d_logits, row %lld, column %lld: %.9g, expected %.9g", (long long)row, (long long)column, got,
                     expected);
    }
    return log(total) - logit(t, row, label);
}

static void check_loss(loss_shape n, dtype type)
{
    loss_trial t = loss_open(n, type);
    loss_run(&t);
    for (int64_t b = 0; b < n.b; b++) {
        double sum = 0.0;
        for (int64_t s = 0; s < n.s; s++) sum += row_check(&t, s * n.b + b);
        for (int r = 0; r < n.ranks; r++) assert_true(fabs(element(&t.loss[r].t, b) - sum) <= 2e-6 * (double)n.s * 16);
        for (int r = 1; r < n.ranks; r++) assert_true(element(&t.loss[r].t, b) == element(&t.loss[0].t, b));
    }
    loss_close(&t);
}

static void losses(void **state)
{
    for (dtype type = F32; type <= BF16; type++) {
        check_loss((loss_shape){ 5, 2, 7, 1, 7, 3 }, type);
        check_loss((loss_shape){ 4, 1, 2504, 1, 2497, 8 }, type);
        check_loss((loss_shape){ 6, 3, 64, 4, 200, 0 }, type);
        check_loss((loss_shape){ 3, 1, 16, 4, 30, 0 }, type); /* the last ranks have only padding */
        check_loss((loss_shape){ 1, 2, 20000, 1, 19999, 0 }, type);
        check_loss((loss_shape){ 1100, 1, 16, 1, 14, 0 }, type);
    }
}

/* The bits of a GPU's NaN: a sum of these bits would give a number. */
static void loss_not_a_number(void **state)
{
    loss_trial t = loss_open((loss_shape){ 3, 1, 40, 2, 80, 0 }, F32);
    element_set(&t.logits[1].t, 45, (double)float_from_bits(0x7FFFFFFFu));
    loss_run(&t);
    assert_true(isnan(element(&t.loss[0].t, 0)) && isnan(element(&t.loss[1].t, 0)));
    loss_close(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(norm_sum), cmocka_unit_test(losses),
                                        cmocka_unit_test(loss_not_a_number) };
    world_start(&argc, &argv);
    beside_host = true;
    int failed = cmocka_run_group_tests_name("operations_loss", tests, NULL, NULL);
    world_stop();
    return failed;
}
