/* Products of FP8 values, single and grouped, against double: formats, accesses, layouts, scales and biases. */
#include "operations.h"

typedef struct {
    int64_t m, n, k;
} shape;
/* Only the rows of a need not be multiples of 16. */
static const shape shapes[] = { { 16, 16, 16 },  { 1, 32, 16 },    { 5, 16, 48 },   { 32, 48, 64 },
                                { 33, 112, 80 }, { 128, 96, 528 }, { 50, 64, 2064 } };
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct {
    dtype a, b, c;
} formats;
static const formats all_formats[] = { { E4M3, E4M3, BF16 }, { E4M3, E5M2, F32 },  { E5M2, E4M3, BF16 },
                                       { E4M3, E4M3, F32 },  { E4M3, E5M2, BF16 }, { E5M2, E4M3, F32 } };
enum { FORMATS = sizeof all_formats / sizeof *all_formats };

/* The scales of a and b: powers of two, or any numbers. */
typedef struct {
    float a, b;
} scales;
static const scales all_scales[] = { { 1.0f, 1.0f }, { 0x1p11f, 0x1p-7f }, { 731.0f, 0.0137f }, { 0x1p-4f, 3.3f } };
enum { SCALES = sizeof all_scales / sizeof *all_scales };

enum { GAPS = 1, C_TRANSPOSED = 2, INTERLEAVED = 4, LAYOUTS = 8 };

/* [groups, rows, columns], contiguous in the last dimension, or in the one before if transposed. Groups are
 * consecutive, with gaps between rows, or interleaved row by row. */
static sample matrices(dtype type, int64_t groups, int64_t rows, int64_t columns, int layout, bool transposed)
{
    int64_t line = transposed ? rows : columns, lines = transposed ? columns : rows;
    bool interleaved = layout & INTERLEAVED;
    sample x =
        sample_open(type, 3, interleaved ? (int64_t[]){ lines, groups, line } : (int64_t[]){ groups, lines, line },
                    layout & GAPS && !interleaved ? FP8_ALIGNMENT : 0);
    if (interleaved)
        x.t = (tensor){ .data = x.memory,
                        .type = type,
                        .dims = 3,
                        .dim = { groups, lines, line },
                        .stride = { line, groups * line, 1 } };
    if (transposed) x.t = tensor_transposed(x.t);
    return x;
}

/* Returns a sample as one matrix. */
static tensor single(const sample *x)
{
    tensor t = tensor_2d(x->t.data, x->t.type, x->t.dim[1], x->t.dim[2]);
    t.stride[0] = x->t.stride[1], t.stride[1] = x->t.stride[2];
    t.scale = x->t.scale;
    return t;
}

typedef struct {
    shape s;
    int64_t groups; /* 0: one product */
    formats f;
    scales by;
    sample a, b, c, bias;
    double *expected, *magnitude, before; /* before: rounded_before */
} product;

static product product_open(const shape *s, int64_t groups, formats f, int layout)
{
    int64_t count = groups ? groups : 1;
    product p = { .s = *s,
                  .groups = groups,
                  .f = f,
                  .a = matrices(f.a, count, s->m, s->k, layout, false),
                  .b = matrices(f.b, count, s->k, s->n, layout & GAPS, true),
                  .c = matrices(f.c, count, s->m, s->n, layout, layout & C_TRANSPOSED),
                  .bias = sample_open(f.c, 1, &s->n, 0) };
    sample_randomize(&p.a, 1, 400.0, 0.0);
    sample_randomize(&p.b, 2, 400.0, 0.0);
    p.expected = calloc((size_t)p.c.elements, sizeof *p.expected);
    p.magnitude = calloc((size_t)p.c.elements, sizeof *p.magnitude);
    return p;
}

static void product_close(product *p)
{
    sample *all[] = { &p->a, &p->b, &p->c, &p->bias };
    for (int i = 0; i < 4; i++) sample_close(all[i]);
    free(p->expected);
    free(p->magnitude);
}

/* Computes the products divided by the scales, and the terms' magnitudes; adds c's old values or the bias. */
static void expect(product *p, scales by, bool adds, bool biased)
{
    double scale = (double)by.a * (double)by.b;
    sample_randomize(&p->c, 3, 1e5 / scale, 0.0);
    sample_randomize(&p->bias, 4, 1e5 / scale, 0.0);
    p->by = by;
    for (int64_t i = 0; i < p->c.elements; i++) {
        int64_t g = i / (p->s.m * p->s.n), row = i / p->s.n % p->s.m, column = i % p->s.n;
        double start = adds ? p->c.value[i] : biased ? p->bias.value[column] : 0.0, sum = 0.0, magnitude = 0.0;
        for (int64_t k = 0; k < p->s.k; k++) {
            double term = p->a.value[(g * p->s.m + row) * p->s.k + k] * p->b.value[(g * p->s.k + k) * p->s.n + column];
            sum += term;
            magnitude += fabs(term);
        }
        p->expected[i] = sum / scale;
        p->magnitude[i] = fabs(start) + magnitude / scale;
    }
    p->before = adds || biased ? rounded_before(&p->c, p->expected) : 0.0;
    for (int64_t i = 0; i < p->c.elements; i++)
        p->expected[i] += adds ? p->c.value[i] : biased ? p->bias.value[i % p->s.n] : 0.0;
}

static bool power_of_two(float x) { return !(float_bits(x) & 0x7FFFFFu); }

/* As in operations_matmul.c, a sum of k FP32 terms may have 4 sqrt(k) + 4 roundings of the size of random partial sums.
 * A scale that is not a power of two adds at most three roundings of each term (of the values, or of product and
 * scale). Tensor cores keep 14 bits (limits.c): k / 32 times half a unit of the sum, and 2 sqrt(k) of the products. */
static double limit_of(const product *p)
{
    double k = (double)p->s.k, size = largest(p->magnitude, p->c.elements) / sqrt(k);
    double rounded = power_of_two(p->by.a) && power_of_two(p->by.b) ? 0.0 : 3 * sqrt(k);
    double fp32 = (4 * sqrt(k) + 4 + rounded) * F32_ROUND * size;
    double cut = (k / 32 + 2 * sqrt(k)) * 0x1p-14 * largest(p->expected, p->c.elements);
    return tested_machine() == MACHINE_HOST ? fp32 : fp32 + cut + p->before;
}

static void check(product *p, scales by, access_mode how)
{
    expect(p, by, how == UPDATE, false);
    _Alignas(16) float a[FP8_FACTORS], b[FP8_FACTORS];
    fp8_set_factors(p->a.t.scale = a, by.a);
    fp8_set_factors(p->b.t.scale = b, by.b);
    if (p->groups) RUN(q, submit(q, "groups", grouped_matmul_op(p->c.t, how, p->a.t, p->b.t)));
    else RUN(q, submit(q, "product", matmul_op(single(&p->c), how, single(&p->a), single(&p->b))));
    compare("a product of codes", &p->c, p->expected, rounding(p->f.c), limit_of(p));
    sample_check_gaps(&p->c, "a product of codes");
}

static void check_bias(product *p, scales by)
{
    expect(p, by, false, true);
    _Alignas(16) float a[FP8_FACTORS], b[FP8_FACTORS];
    fp8_set_factors(p->a.t.scale = a, by.a);
    fp8_set_factors(p->b.t.scale = b, by.b);
    RUN(q, submit(q, "biased", matmul_bias_op(single(&p->c), single(&p->a), single(&p->b), p->bias.t)));
    compare("a product of codes with a bias", &p->c, p->expected, rounding(p->f.c), limit_of(p));
    sample_check_gaps(&p->c, "a product of codes with a bias");
}

/* If columns of c are contiguous, they must be multiples of 16, too. */
static bool fits(const shape *s, int layout) { return !(layout & C_TRANSPOSED) || s->m % FP8_ALIGNMENT == 0; }

static void products(void **state)
{
    for (int s = 0; s < SHAPES; s++)
        for (int f = 0; f < FORMATS; f++)
            for (int layout = 0; layout < INTERLEAVED; layout++) {
                if (!fits(&shapes[s], layout)) continue;
                product p = product_open(&shapes[s], 0, all_formats[f], layout);
                check(&p, all_scales[(s + f) % SCALES], WRITE);
                check(&p, all_scales[(s + f + layout) % SCALES], UPDATE);
                if (!(layout & C_TRANSPOSED) && all_formats[f].c == BF16)
                    check_bias(&p, all_scales[(s + layout) % SCALES]);
                product_close(&p);
            }
}

static void products_of_groups(void **state)
{
    for (int s = 0; s < SHAPES - 1; s++)
        for (int f = 0; f < FORMATS; f++)
            for (int layout = 0; layout < LAYOUTS; layout++) {
                if (!fits(&shapes[s], layout)) continue;
                product p = product_open(&shapes[s], 1 + s % 4, all_formats[f], layout);
                check(&p, all_scales[(s + f) % SCALES], layout % 3 ? WRITE : UPDATE);
                product_close(&p);
            }
}

/* c = 1 + 608 x 2^-9 x 1 in BF16: adding 2^-9 one by one, or rounding parts of the product, would lose it. The sums are
 * exact in 14 bits. */
static void rounded_once(void **state)
{
    product p = product_open(&(shape){ 48, 32, 608 }, 0, (formats){ E4M3, E4M3, BF16 }, 0);
    _Alignas(16) float scale[FP8_FACTORS], one[FP8_FACTORS];
    fp8_set_factors(p.a.t.scale = scale, 0x1p3f);
    fp8_set_factors(p.b.t.scale = one, 1.0f);
    for (int64_t i = 0; i < p.a.elements; i++) element_set(&p.a.t, i, 0x1p-6);
    for (int64_t i = 0; i < p.b.elements; i++) element_set(&p.b.t, i, 1.0);
    for (int64_t i = 0; i < p.c.elements; i++) element_set(&p.c.t, i, 1.0);
    RUN(q, submit(q, "once", matmul_op(single(&p.c), UPDATE, single(&p.a), single(&p.b))));
    for (int64_t i = 0; i < p.c.elements; i++)
        assert_true(element(&p.c.t, i) == (double)bf16_widen(bf16_round(1.0f + 608.0f / 512.0f)));
    product_close(&p);
}

/* A NaN in an FP8 value or a scale reaches exactly the results that it is a term of. */
static void no_number_stays(void **state)
{
    product p = product_open(&shapes[3], 0, (formats){ E4M3, E4M3, BF16 }, 0);
    _Alignas(16) float scale[FP8_FACTORS], none[FP8_FACTORS];
    fp8_set_factors(p.a.t.scale = p.b.t.scale = scale, 1.0f);
    fp8_set_factors(none, NAN);
    element_set(&p.a.t, 7 * p.s.k + 5, (double)NAN);
    RUN(q, submit(q, "NaN", matmul_op(single(&p.c), WRITE, single(&p.a), single(&p.b))));
    for (int64_t i = 0; i < p.c.elements; i++) assert_true(isnan(element(&p.c.t, i)) == (i / p.s.n == 7));
    p.b.t.scale = none;
    RUN(q, submit(q, "NaN", matmul_op(single(&p.c), WRITE, single(&p.a), single(&p.b))));
    for (int64_t i = 0; i < p.c.elements; i++) assert_true(isnan(element(&p.c.t, i)));
    product_close(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),
        cmocka_unit_test(products_of_groups),
        cmocka_unit_test(rounded_once),
        cmocka_unit_test(no_number_stays),
    };
    world_start(&argc, &argv);
    int failed = cmocka_run_group_tests_name("operations_fp8_matmul", tests, NULL, NULL);
    world_stop();
    return failed;
}
