/* Matrix products in every layout, format and access, with odd sizes and gaps, against double. oneDNN must neither
 * round FP32 inputs nor round an updated BF16 result twice. */
#include "operations.h"
#include "units/test_length.h"

typedef struct {
    int64_t m, n, k;
} shape;
static const shape shapes[] = { { 1, 1, 1 },    { 3, 5, 7 },      { 16, 64, 32 },  { 33, 125, 61 },
                                { 64, 1, 200 }, { 128, 96, 515 }, { 253, 128, 64 } };

typedef struct {
    dtype input, output;
} formats;
static const formats all_formats[] = { { F32, F32 }, { BF16, BF16 }, { BF16, F32 } };
enum { SHAPES = sizeof shapes / sizeof *shapes, FORMATS = sizeof all_formats / sizeof *all_formats };

enum { A_TRANSPOSED = 1, B_TRANSPOSED = 2, C_TRANSPOSED = 4, GAPS = 8, LAYOUTS = 16 };

/* Returns a matrix with contiguous rows or columns, with `gap` elements between them. */
static sample matrix(dtype type, int64_t rows, int64_t columns, int64_t gap, bool transposed, uint32_t number)
{
    sample x = sample_open(type, 2, transposed ? (int64_t[]){ columns, rows } : (int64_t[]){ rows, columns }, gap);
    if (transposed) x.t = tensor_transposed(x.t);
    sample_randomize(&x, number, 1.0, 0.0);
    return x;
}

/* Computes the exact product in double, and the sum of the terms' magnitudes. */
static void product(const shape *s, const sample *a, const sample *b, double *sum, double *magnitude)
{
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->n; j++)
            for (int64_t k = 0; k < s->k; k++) {
                double term = a->value[i * s->k + k] * b->value[k * s->n + j];
                sum[i * s->n + j] += term;
                magnitude[i * s->n + j] += fabs(term);
            }
}

/* A sum of k FP32 terms in any order has at most k roundings of partial sums; random ones grow like sqrt(k). 4 sqrt(k)
 * + 4 is generous, but far below one rounding of the inputs to TF32 or BF16 for these k. */
static double limit_of_sums(const shape *s, const double *magnitude, int64_t elements)
{
    double k = (double)s->k;
    return (4 * sqrt(k) + 4) * F32_ROUND * largest(magnitude, elements) / sqrt(k);
}

static void check_product(const shape *s, formats f, access_mode how, int layout)
{
    int64_t gap = layout & GAPS ? 3 : 0;
    sample a = matrix(f.input, s->m, s->k, gap, layout & A_TRANSPOSED, 1),
           b = matrix(f.input, s->k, s->n, gap, layout & B_TRANSPOSED, 2);
    sample c = matrix(f.output, s->m, s->n, gap, layout & C_TRANSPOSED, 3);
    double *expected = calloc((size_t)c.elements, sizeof *expected),
           *magnitude = calloc((size_t)c.elements, sizeof *magnitude);
    product(s, &a, &b, expected, magnitude);
    double before = how == UPDATE ? rounded_before(&c, expected) : 0.0;
    for (int64_t i = 0; how == UPDATE && i < c.elements; i++) {
        expected[i] += c.value[i];
        magnitude[i] += fabs(c.value[i]);
    }
    RUN(q, submit(q, "product", matmul_op(c.t, how, a.t, b.t)));
    compare("matmul", &c, expected, rounding(f.output), before + limit_of_sums(s, magnitude, c.elements));
    sample_check_gaps(&c, "matmul");
    free(expected);
    free(magnitude);
    sample_close(&a);
    sample_close(&b);
    sample_close(&c);
}

/* Formats alternate over shapes and layouts; `long` tests every combination. */
static bool is_turn(size_t number, size_t format, int layout)
{
    return test_is_long() || (number + (size_t)layout) % FORMATS == format;
}

static void products(void **state)
{
    for (size_t s = 0; s < SHAPES; s++)
        for (size_t f = 0; f < FORMATS; f++)
            for (int layout = 0; layout < LAYOUTS; layout++) {
                if (!is_turn(s, f, layout)) continue;
                check_product(&shapes[s], all_formats[f], WRITE, layout);
                check_product(&shapes[s], all_formats[f], UPDATE, layout);
            }
}

/* The bias counts as one more term; the old values of c do not. */
static void check_bias(const shape *s, formats f, int layout)
{
    int64_t gap = layout & GAPS ? 3 : 0;
    sample a = matrix(f.input, s->m, s->k, gap, layout & A_TRANSPOSED, 1),
           b = matrix(f.input, s->k, s->n, gap, layout & B_TRANSPOSED, 2);
    sample c = matrix(f.output, s->m, s->n, gap, false, 3), bias = sample_open(f.output, 1, &s->n, 0);
    double *expected = calloc((size_t)c.elements, sizeof *expected),
           *magnitude = calloc((size_t)c.elements, sizeof *magnitude);
    sample_randomize(&bias, 4, 4.0, 0.0);
    product(s, &a, &b, expected, magnitude);
    double before = rounded_before(&c, expected);
    for (int64_t i = 0; i < c.elements; i++) {
        expected[i] += bias.value[i % s->n];
        magnitude[i] += fabs(bias.value[i % s->n]);
    }
    RUN(q, submit(q, "product", matmul_bias_op(c.t, a.t, b.t, bias.t)));
    compare("matmul with a bias", &c, expected, rounding(f.output), before + limit_of_sums(s, magnitude, c.elements));
    sample_check_gaps(&c, "matmul with a bias");
    free(expected);
    free(magnitude);
    sample *all[] = { &a, &b, &c, &bias };
    for (int i = 0; i < 4; i++) sample_close(all[i]);
}

static void biases(void **state)
{
    for (size_t s = 0; s < SHAPES; s++)
        for (size_t f = 0; f < FORMATS; f++)
            for (int layout = 0; layout < LAYOUTS; layout++)
                if (is_turn(s, f, layout) && shapes[s].n > 1 && !(layout & C_TRANSPOSED))
                    check_bias(&shapes[s], all_formats[f], layout);
}

/* Grouped products: matrices consecutive, or interleaved row by row, or with gaps between rows of four dimensions (see
 * sample_open). The product of each group equals the single product, except for the order of addition. */
typedef enum { IN_TURN, INTERLEAVED, STACKINGS } stacking;

static sample matrices(dtype type, int64_t groups, int64_t rows, int64_t columns, stacking how, bool transposed,
                       uint32_t number)
{
    int64_t line = transposed ? rows : columns, lines = transposed ? columns : rows;
    const int64_t in_turn[] = { groups, lines, line }, interleaved[] = { lines, groups, line };
    sample x = sample_open(type, 3, how == IN_TURN ? in_turn : interleaved, how == IN_TURN ? 3 : 0);
    if (how == INTERLEAVED)
        x.t = (tensor){ .data = x.t.data,
                        .type = type,
                        .dims = 3,
                        .dim = { groups, lines, line },
                        .stride = { line, groups * line, 1 } };
    if (transposed) x.t = tensor_transposed(x.t);
    sample_randomize(&x, number, 1.0, 0.0);
    return x;
}

static void check_groups(const shape *s, int64_t groups, formats f, access_mode how, int layout)
{
    int64_t of_a = s->m * s->k, of_b = s->k * s->n, of_c = s->m * s->n;
    sample a = matrices(f.input, groups, s->m, s->k, layout / 8 % STACKINGS, layout & A_TRANSPOSED, 1),
           b = matrices(f.input, groups, s->k, s->n, layout / 16 % STACKINGS, layout & B_TRANSPOSED, 2),
           c = matrices(f.output, groups, s->m, s->n, layout / 8 % STACKINGS, layout & C_TRANSPOSED, 3);
    double *expected = calloc((size_t)c.elements, sizeof *expected),
           *magnitude = calloc((size_t)c.elements, sizeof *magnitude);
    for (int64_t g = 0; g < groups; g++) {
        sample one[2] = { { .value = a.value + g * of_a }, { .value = b.value + g * of_b } };
        product(s, &one[0], &one[1], expected + g * of_c, magnitude + g * of_c);
    }
    double before = how == UPDATE ? rounded_before(&c, expected) : 0.0;
    for (int64_t i = 0; how == UPDATE && i < c.elements; i++) {
        expected[i] += c.value[i];
        magnitude[i] += fabs(c.value[i]);
    }
    RUN(q, submit(q, "groups", grouped_matmul_op(c.t, how, a.t, b.t)));
    compare("grouped_matmul", &c, expected, rounding(f.output), before + limit_of_sums(s, magnitude, c.elements));
    sample_check_gaps(&c, "grouped_matmul");
    free(expected);
    free(magnitude);
    sample *all[] = { &a, &b, &c };
    for (int i = 0; i < 3; i++) sample_close(all[i]);
}

static void groups_of_products(void **state)
{
    for (size_t s = 0; s < SHAPES; s++)
        for (size_t f = 0; f < FORMATS; f++)
            for (int layout = 0; layout < 32; layout++)
                if (is_turn(s, f, layout))
                    check_groups(&shapes[s], 1 + (int64_t)s % 4, all_formats[f], layout / 2 % 3 ? WRITE : UPDATE,
                                 layout);
}

/* Slices of a fused matrix: operands with common rows. */
static void fused_slices(void **state)
{
    sample x = sample_open(F32, 2, (int64_t[]){ 40, 96 }, 0), c = matrix(F32, 40, 40, 0, false, 3);
    sample_randomize(&x, 1, 1.0, 0.0);
    RUN(q, submit(q, "slices",
                  matmul_op(c.t, WRITE, tensor_slice(x.t, 1, 0, 32), tensor_transposed(tensor_slice(x.t, 1, 32, 32)))));
    for (int64_t i = 0; i < 40; i++)
        for (int64_t j = 0; j < 40; j++) {
            double sum = 0.0;
            for (int64_t k = 0; k < 32; k++) sum += x.value[i * 96 + k] * x.value[j * 96 + 32 + k];
            assert_true(fabs(element(&c.t, i * 40 + j) - sum) < 32 * F32_ROUND * 16);
        }
    sample_close(&x);
    sample_close(&c);
}

/* 1 + 2^-20 needs FP32: a product with rounded inputs would give 1. */
static void exact_inputs(void **state)
{
    const int64_t gap = 0;
    sample a = matrix(F32, 64, 64, gap, false, 1), b = matrix(F32, 64, 64, gap, false, 2),
           c = matrix(F32, 64, 64, gap, false, 3);
    for (int64_t i = 0; i < 64 * 64; i++) {
        element_set(&a.t, i, i / 64 == i % 64 ? 1.0 : 0.0);
        element_set(&b.t, i, 1.0 + 0x1p-20);
    }
    RUN(q, submit(q, "exact", matmul_op(c.t, WRITE, a.t, b.t)));
    for (int64_t i = 0; i < 64 * 64; i++) assert_true(element(&c.t, i) == 1.0 + 0x1p-20);
    sample_close(&a);
    sample_close(&b);
    sample_close(&c);
}

/* c = 1 + 600 x 2^-9 x 1 in BF16: adding 2^-9 one by one, or rounding parts of the product, would lose it. */
static void check_rounded_once(int64_t gap)
{
    sample a = matrix(BF16, 48, 600, gap, true, 1), b = matrix(BF16, 600, 32, gap, false, 2),
           c = matrix(BF16, 48, 32, gap, false, 3);
    for (int64_t i = 0; i < a.elements; i++) element_set(&a.t, i, 0x1p-9);
    for (int64_t i = 0; i < b.elements; i++) element_set(&b.t, i, 1.0);
    for (int64_t i = 0; i < c.elements; i++) element_set(&c.t, i, 1.0);
    RUN(q, submit(q, "once", matmul_op(c.t, UPDATE, a.t, b.t)));
    for (int64_t i = 0; i < c.elements; i++)
        assert_true(element(&c.t, i) == (double)bf16_widen(bf16_round(1.0f + 600.0f / 512.0f)));
    sample_close(&a);
    sample_close(&b);
    sample_close(&c);
}

static void rounded_once(void **state)
{
    check_rounded_once(0);
    check_rounded_once(3);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(products),           cmocka_unit_test(biases),
                                        cmocka_unit_test(groups_of_products), cmocka_unit_test(fused_slices),
                                        cmocka_unit_test(exact_inputs),       cmocka_unit_test(rounded_once) };
    world_start(&argc, &argv);
    int failed = cmocka_run_group_tests_name("operations_matmul", tests, NULL, NULL);
    world_stop();
    return failed;
}
