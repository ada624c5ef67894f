/* Attention backward with scores so large that rounding lse changes a probability by a factor of e^256. Such an lse
 * comes from a forward with another order of addition (another engine, or another rank's block). */
#include "operations.h"

enum { POSITIONS = 80, HEADS = 2, WIDTH = 16, ELEMENTS = POSITIONS * HEADS * WIDTH, KV_ELEMENTS = POSITIONS * WIDTH };
enum { Q, K, V, OUT, LSE, D_OUT, DQ, DK, DV, OPERANDS };

static const double SIZE = 0x1p13, SCALE = 1.0 / 4;

/* Sets queries and keys of a position to the same signs, times SIZE. Every position has different signs, so scores are
 * exact and the largest score of each position is its own. */
static void set_signs(sample *x, int heads)
{
    for (int64_t i = 0; i < x->elements; i++) {
        int64_t signs = (i / (heads * WIDTH) * 40503) & 0xFFFF;
        element_set(&x->t, i, signs >> i % WIDTH & 1 ? SIZE : -SIZE);
    }
    sample_read(x);
}

static double product(const double *a, const double *b)
{
    double sum = 0.0;
    for (int i = 0; i < WIDTH; i++) sum += a[i] * b[i];
    return sum;
}

/* Replaces a query's scores by their softmax and returns their log-sum-exp. */
static double soften(double *p, const double *q, const double *keys, int64_t count)
{
    double maximum = -INFINITY, sum = 0.0;
    for (int64_t key = 0; key < count; key++) maximum = fmax(maximum, p[key] = SCALE * product(q, keys + key * WIDTH));
    for (int64_t key = 0; key < count; key++) sum += p[key] = exp(p[key] - maximum);
    for (int64_t key = 0; key < count; key++) p[key] /= sum;
    return maximum + log(sum);
}

/* One query of one head in double: out, lse, and its contributions to the gradients. */
static void query_reference(double **x, int64_t position, int64_t row)
{
    double p[POSITIONS], *out = x[OUT] + row * WIDTH, *d_out = x[D_OUT] + row * WIDTH, dot = 0.0;
    x[LSE][row % HEADS * POSITIONS + position] = soften(p, x[Q] + row * WIDTH, x[K], position + 1);
    for (int64_t key = 0; key <= position; key++) {
        for (int i = 0; i < WIDTH; i++) out[i] += p[key] * x[V][key * WIDTH + i];
        for (int i = 0; i < WIDTH; i++) x[DV][key * WIDTH + i] += p[key] * d_out[i];
        dot += p[key] * product(d_out, x[V] + key * WIDTH);
    }
    for (int64_t key = 0; key <= position; key++) {
        double ds = SCALE * p[key] * (product(d_out, x[V] + key * WIDTH) - dot);
        for (int i = 0; i < WIDTH; i++) x[DQ][row * WIDTH + i] += ds * x[K][key * WIDTH + i];
        for (int i = 0; i < WIDTH; i++) x[DK][key * WIDTH + i] += ds * x[Q][row * WIDTH + i];
    }
}

static void open_operands(sample *x, dtype type)
{
    const int64_t heads[] = { POSITIONS, 1, HEADS, WIDTH }, kv[] = { POSITIONS, 1, 1, WIDTH },
                  lse[] = { 1, HEADS, POSITIONS };
    for (int i = 0; i < OPERANDS; i++) {
        bool of_keys = i == K || i == V || i == DK || i == DV;
        x[i] = i == LSE ? sample_open(F32, 3, lse, 0) : sample_open(type, 4, of_keys ? kv : heads, 0);
    }
    set_signs(&x[Q], HEADS);
    set_signs(&x[K], 1);
    sample_randomize(&x[V], 1, 1.0, 0.0);
    sample_randomize(&x[D_OUT], 2, 1.0, 0.0);
}

/* A query that sees only one key must add exactly zero to the gradients of scores. */
static void check_backward(dtype type)
{
    sample x[OPERANDS];
    double *value[OPERANDS];
    open_operands(x, type);
    for (int i = 0; i < OPERANDS; i++) value[i] = x[i].value;
    for (int64_t row = 0; row < POSITIONS * HEADS; row++) query_reference(value, row / HEADS, row);
    for (int64_t i = 0; i < x[OUT].elements; i++) element_set(&x[OUT].t, i, x[OUT].value[i]);
    for (int64_t i = 0; i < x[LSE].elements; i++) element_set(&x[LSE].t, i, x[LSE].value[i] * (1.0 - 0x1p-20));
    RUN(q, submit(q, "d_attention",
                  attention_backward_op((attention_backward_operands){ x[Q].t, x[K].t, x[V].t, x[OUT].t, x[LSE].t,
                                                                       x[D_OUT].t, x[DQ].t, x[DK].t, x[DV].t, WRITE },
                                        (attention_args){ (float)SCALE, true })));
    compare("dq", &x[DQ], x[DQ].value, rounding(type), 1e-20);
    compare("dk", &x[DK], x[DK].value, rounding(type), 1e-20);
    compare("dv", &x[DV], x[DV].value, rounding(type) + 4 * F32_ROUND, 4 * F32_ROUND);
    for (int i = 0; i < OPERANDS; i++) sample_close(&x[i]);
}

static void probabilities_at_most_one(void **state)
{
    check_backward(F32);
    check_backward(BF16);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(probabilities_at_most_one) };
    world_start(&argc, &argv);
    int failed = cmocka_run_group_tests_name("operations_attention", tests, NULL, NULL);
    world_stop();
    return failed;
}
