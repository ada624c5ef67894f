/* Attention: rows of trial.h, its backward with scores so large that their rounding matters, and its sums over a
 * group's query heads. */
#include "trial.h"

/* ---- rows; axes: s, b, h, k key heads, d, t keys; t < 0: causal, over -t keys ---- */

static attention_args args_of(const int64_t *n)
{
    return (attention_args){ (float)(1.0 / sqrt((double)n[4])), n[5] < 0 };
}

static op attention(const views *v)
{
    return attention_forward_op((attention_forward_operands){ v->in[0], v->in[1], v->in[2], v->out[0], v->out[1] },
                                args_of(v->n));
}

static op d_attention(const views *v)
{
    return attention_backward_op((attention_backward_operands){ v->in[0], v->in[1], v->in[2], v->out[0], v->out[1],
                                                                v->d_out, v->d_in[0], v->d_in[1], v->d_in[2], v->how },
                                 args_of(v->n));
}

/* Returns whether own attention needs more than 99 KiB of shared memory per block. */
static bool is_large(const int64_t *n, dtype type) { return n[4] > (type == BF16 ? 192 : 128); }

static double product(const double *a, const double *b, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* One query of one head over the first keys; computes out and returns lse. */
static double attention_row(const int64_t *n, int64_t keys, const double *q, const double *k, const double *v,
                            double *out)
{
    int64_t stride = n[1] * n[3] * n[4];
    double total = 0.0;
    memset(out, 0, (size_t)n[4] * sizeof *out);
    for (int64_t key = 0; key < keys; key++) {
        double p = exp(product(q, k + key * stride, n[4]) / sqrt((double)n[4]));
        total += p;
        for (int64_t i = 0; i < n[4]; i++) out[i] += p * v[key * stride + i];
    }
    for (int64_t i = 0; i < n[4]; i++) out[i] /= total;
    return log(total);
}

static void attention_reference(const int64_t *n, dtype type, double *const *in, double *const *out)
{
    for (int64_t row = 0; row < n[0] * n[1] * n[2]; row++) {
        int64_t position = row / n[2] / n[1], b = row / n[2] % n[1], head = row % n[2];
        int64_t kv = (b * n[3] + head / (n[2] / n[3])) * n[4], keys = n[5] < 0 ? position + 1 - n[5] - n[0] : n[5];
        out[1][(b * n[2] + head) * n[0] + position] =
            attention_row(n, keys, in[0] + row * n[4], in[1] + kv, in[2] + kv, out[0] + row * n[4]);
    }
}

/* exp_shared has 5 roundings, plus at most |score| of its argument. Attention divides sums of up to s terms. On tensor
 * cores the weights P = e^(score - maximum) are rounded to BF16, but not their sum: the error of out is at most sum P
 * |v| / sum P <= max |v| roundings. The errors of gradients are roots of sums of squares: P |d_out| (dv; for the first
 * key, seen by all queries, sum P^2 <= pi^2 / 6 per head), |dS| |k| (dq), |dS| |q| (dk): four roundings of the largest
 * gradient cover them (measured: at most 1.0). attention_part: keys of several ranks, whose gradients are FP32 and may
 * be added to; statistics have gaps. */
static const operation list[] = {
    ROW("attention", "sbhkdt", attention, d_attention, attention_reference,
        .in = { { "T~sbhd", 'T' }, { "T~tbkd", 'T' }, { "T~tbkd", 'T' } }, .out = { { "T~sbhd" }, { "F.bhs" } },
        .is_large = is_large, .forward_roundings = 24, .backward_roundings = 60, .backward_bf16 = 4, .weights_bf16 = 1,
        .shape = { { 70, 2, 4, 2, 6, -70 },
                   { 130, 1, 2, 1, 18, -130 },
                   { 64, 1, 2, 2, 64, -64 },
                   { 1, 1, 1, 1, 2, -1 },
                   { 20, 1, 3, 1, 256, -20 },
                   { 66, 1, 2, 1, 128, -66 },
                   { 34, 1, 2, 1, 192, -34 } }),
    ROW("attention_part", "sbhkdt", attention, d_attention, attention_reference,
        .in = { { "T~sbhd", 'T', .overwritten = true }, { "T~tbkd", 'F' }, { "T~tbkd", 'F' } },
        .out = { { "T~sbhd" }, { "F~bhs" } }, .updates = true, .is_large = is_large, .forward_roundings = 24,
        .backward_roundings = 60, .backward_bf16 = 4, .weights_bf16 = 1,
        .shape = { { 70, 2, 4, 2, 6, 40 },
                   { 30, 1, 2, 1, 18, 130 },
                   { 20, 1, 3, 1, 256, 1 },
                   { 70, 2, 4, 2, 6, -75 },
                   { 30, 1, 2, 1, 18, -130 },
                   { 1, 1, 2, 1, 2, -65 },
                   { 17, 1, 2, 1, 128, -66 },
                   { 66, 1, 1, 1, 192, -200 },
                   { 20, 1, 3, 1, 256, -20 } }),
};
enum { ROWS = sizeof list / sizeof *list };

/* ---- large scores ---- */

enum { POSITIONS = 80, HEADS = 2, WIDTH = 16 };
enum { Q, K, V, OUT, LSE, D_OUT, DQ, DK, DV, OPERANDS };
static const double SIZE = 0x1p13, SCALE = 1.0 / 4;

static op backward_of(const sample *x, double scale, bool causal)
{
    return attention_backward_op((attention_backward_operands){ x[Q].t, x[K].t, x[V].t, x[OUT].t, x[LSE].t, x[D_OUT].t,
                                                                x[DQ].t, x[DK].t, x[DV].t, WRITE },
                                 (attention_args){ (float)scale, causal });
}

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

/* Replaces a query's scores by their softmax and returns their log-sum-exp. */
static double soften(double *p, const double *q, const double *keys, int64_t count)
{
    double maximum = -INFINITY, sum = 0.0;
    for (int64_t key = 0; key < count; key++)
        maximum = fmax(maximum, p[key] = SCALE * product(q, keys + key * WIDTH, WIDTH));
    for (int64_t key = 0; key < count; key++) sum += p[key] = exp(p[key] - maximum);
    for (int64_t key = 0; key < count; key++) p[key] /= sum;
    return maximum + log(sum);
}

/* One query of one head in double: out, lse, and its contributions to the gradients. */
static void query_reference(sample *x, int64_t position, int64_t row)
{
    const double *q = x[Q].value + row * WIDTH, *k = x[K].value, *v = x[V].value, *d_out = x[D_OUT].value + row * WIDTH;
    double p[POSITIONS], dot = 0.0;
    x[LSE].value[row % HEADS * POSITIONS + position] = soften(p, q, k, position + 1);
    for (int64_t at = 0; at < (position + 1) * WIDTH; at++) {
        x[OUT].value[row * WIDTH + at % WIDTH] += p[at / WIDTH] * v[at];
        x[DV].value[at] += p[at / WIDTH] * d_out[at % WIDTH];
        dot += p[at / WIDTH] * d_out[at % WIDTH] * v[at];
    }
    for (int64_t at = 0; at < (position + 1) * WIDTH; at++) {
        double ds = SCALE * p[at / WIDTH] * (product(d_out, v + at / WIDTH * WIDTH, WIDTH) - dot);
        x[DQ].value[row * WIDTH + at % WIDTH] += ds * k[at];
        x[DK].value[at] += ds * q[at % WIDTH];
    }
}

/* Rounding lse changes a probability by a factor of e^256. Such an lse comes from a forward with another order of
 * addition (another engine, or another rank's block). A query that sees only one key must add exactly zero to the
 * gradients of scores. */
static void probabilities_at_most_one(void **state)
{
    for (dtype type = F32; type <= BF16; type++) {
        sample x[OPERANDS];
        for (int i = 0; i < OPERANDS; i++)
            x[i] = i == LSE ? SAMPLE(F32, 0, 1, HEADS, POSITIONS)
                            : SAMPLE(type, 0, POSITIONS, 1, i == K || i == V || i == DK || i == DV ? 1 : HEADS, WIDTH);
        set_signs(&x[Q], HEADS);
        set_signs(&x[K], 1);
        sample_randomize(&x[V], 1, 1.0, 0.0);
        sample_randomize(&x[D_OUT], 2, 1.0, 0.0);
        for (int64_t row = 0; row < POSITIONS * HEADS; row++) query_reference(x, row / HEADS, row);
        for (int64_t i = 0; i < x[OUT].elements; i++) element_set(&x[OUT].t, i, x[OUT].value[i]);
        for (int64_t i = 0; i < x[LSE].elements; i++) element_set(&x[LSE].t, i, x[LSE].value[i] * (1.0 - 0x1p-20));
        RUN_OP(backward_of(x, SCALE, true));
        compare("dq", &x[DQ], x[DQ].value, rounding(type), 1e-20);
        compare("dk", &x[DK], x[DK].value, rounding(type), 1e-20);
        compare("dv", &x[DV], x[DV].value, rounding(type) + 4 * F32_ROUND, 4 * F32_ROUND);
        release();
    }
}

/* ---- groups of heads ---- */

/* Returns 1 and -1 alternately, from key to key and from one kv head to the other. */
static double turn_of(int64_t element) { return (element / 4 + element / 2) % 2 ? -1.0 : 1.0; }

/* Finds a head that is omitted or added twice. Two groups of heads have one query each, which sees t zero keys (t is a
 * power of two), so every weight is 1 / t. Head h has query (h + 1, 1) and d_out (2^h, 1); values alternate between (1,
 * 0) and (-1, 0). dv is the group's sum of d_out / t, dk the sum of +- 2^h query / t. Error: lse is rounded by 2^-21,
 * its exponential by at most 15 roundings. */
static void check_groups(int64_t t, int64_t of_a_key)
{
    sample x[OPERANDS];
    double sums[2][2][2] = { 0 };
    for (int i = 0; i < OPERANDS; i++) {
        bool of_keys = i == K || i == V || i == DK || i == DV, read = of_keys ? i < OUT : i == Q || i == D_OUT;
        x[i] = i == LSE ? SAMPLE(F32, 0, 1, 2 * of_a_key, 1)
                        : SAMPLE(read ? BF16 : F32, 0, of_keys ? t : 1, 1, of_keys ? 2 : 2 * of_a_key, 2);
        sample_fill(&x[i], i == LSE ? log((double)t) : 0.0);
    }
    for (int64_t i = 0; i < 4 * of_a_key; i++) {
        double query = i % 2 ? 1.0 : (double)(i / 2 + 1), factor = exp2((double)(i / 2)), d = i % 2 ? 1.0 : factor;
        element_set(&x[Q].t, i, query);
        element_set(&x[D_OUT].t, i, d);
        sums[0][i / 2 / of_a_key][i % 2] += factor * query;
        sums[1][i / 2 / of_a_key][i % 2] += d;
    }
    for (int64_t i = 0; i < 4 * t; i += 2) element_set(&x[V].t, i, turn_of(i));
    RUN_OP(backward_of(x, 1.0, false));
    for (int64_t i = 0; i < 4 * t; i++) {
        double dk = turn_of(i) * sums[0][i / 2 % 2][i % 2], dv = sums[1][i / 2 % 2][i % 2];
        assert_true(fabs(element(&x[DK].t, i) * (double)t / dk - 1.0) <= 0x1p-18);
        assert_true(fabs(element(&x[DV].t, i) * (double)t / dv - 1.0) <= 0x1p-18);
    }
    release();
}

/* The CUDA machine splits a group with few keys over several blocks: six here; six again, because four do not divide
 * six heads; two blocks of three heads; then it does not split. The emulator takes seconds for each, so only if `long`.
 */
static void groups(void **state)
{
    check_groups(512, 6);
    if (emulator_seed && !test_is_long()) return;
    check_groups(4096, 6);
    check_groups(8192, 6);
    check_groups(16384, 2);
}

int main(int argc, char **argv)
{
    TESTS(more, probabilities_at_most_one, groups);
    return check_rows(argc, argv, "operations_attention", list, ROWS, more, 2);
}
